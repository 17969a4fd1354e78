"""Hypothesis strategies: random sizes drawn by Hypothesis, random numbers from a drawn seed."""

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 6)


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


class Heads(NamedTuple):
    """Inputs of `attention`: Q [*batch, N_q, d_h], K [*batch, N_k, d_h], V [*batch, N_k, d_v] and a mask."""

    Q: np.ndarray
    K: np.ndarray
    V: np.ndarray
    mask: np.ndarray  # [*batch, N_q, N_k]; now and then with rows or columns that are all False


@st.composite
def heads(draw, least_batch_axes: int = 0) -> Heads:
    batch = draw(st.lists(st.integers(1, 3), min_size=least_batch_axes, max_size=2))
    N_q, N_k, d_h, d_v = (draw(sizes) for _ in range(4))
    rng = np.random.default_rng(draw(seeds))
    Q, K, V = (
        rng.normal(scale=draw(st.sampled_from([0.1, 1.0, 30.0])), size=(*batch, *shape))
        for shape in [(N_q, d_h), (N_k, d_h), (N_k, d_v)]
    )
    return Heads(Q, K, V, rng.random((*batch, N_q, N_k)) < draw(st.sampled_from([0.1, 0.5, 0.9])))


class Tokens(NamedTuple):
    """Inputs of `multi_head_attention`: X [B, N, h * d_h], the sizes, and a seed for the weights."""

    X: np.ndarray
    h: int
    seed: int


@st.composite
def tokens(draw, N=sizes) -> Tokens:
    B, h, d_h = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 4))
    seed = draw(seeds)
    return Tokens(normal(seed, B, draw(N), h * d_h), h, seed)
