"""Chunks, windows and linear attention against `attention`, against torch, and against their definitions."""

import numpy as np
import pytest
import torch
from support import assert_close, gradients, to_numpy
from torch.nn.functional import elu, scaled_dot_product_attention

from attnlib import (
    attention,
    causal_mask,
    chunked_attention,
    elu_plus_one,
    linear_attention,
    linear_attention_step,
    padding_mask,
    peak_bytes,
    rotate,
    sliding_window_attention,
)

B, h, d_h = 2, 3, 5
SIZES = {"self": (17, 17, d_h), "cross": (4, 17, d_h), "more queries": (17, 4, d_h), "wide values": (9, 11, 8)}
every_size = pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
CAUSAL = pytest.mark.parametrize("causal", [False, True])


def draw(rng, N_q, N_k, d_v, scale=1.0):
    return [scale * rng.normal(size=(B, h, *shape)) for shape in [(N_q, d_h), (N_k, d_h), (N_k, d_v)]]


def band(N_q, N_k, window, causal):
    """Which keys a window lets through, by its definition: distances from each query's own place."""
    i, j = np.arange(N_q)[:, None] + N_k - N_q, np.arange(N_k)
    return (j > i - window) & (j <= i if causal else j < i + window)


def by_pairs(Q, K, V, causal, feature_map=lambda X: elu(X) + 1):
    """Linear attention by its definition, with the matrix of all pairs, in torch."""
    A = feature_map(Q) @ feature_map(K).mT
    A = A * torch.from_numpy(causal_mask(Q.shape[-2], K.shape[-2])) if causal else A
    total = A.sum(-1, keepdim=True)
    return A @ V / torch.where(total == 0, 1, total)


def masks(N_q, N_k):
    T = np.ones((B, N_k), dtype=int)
    T[1, N_k - 2 :] = 0
    rng = np.random.default_rng(5)
    return {
        "none": None,
        "two axes": rng.random((N_q, N_k)) < 0.5,
        "padding": padding_mask(T, pad_id=0)[:, None],
        "all axes": rng.random((B, h, N_q, N_k)) < 0.3,
        "nothing": np.zeros((N_q, N_k), dtype=bool),
    }


@every_size
@CAUSAL
@pytest.mark.parametrize("kind", ["none", "two axes", "padding", "all axes", "nothing"])
@pytest.mark.parametrize("chunk", [None, 1, 4, (3, 5), 50])
def test_chunks_agree_with_attention_and_torch(rng, lib, sizes, causal, kind, chunk):
    Q, K, V = draw(rng, *sizes)
    N_q, N_k, _ = sizes
    mask = masks(N_q, N_k)[kind]
    both = np.ones((N_q, N_k), dtype=bool) if mask is None else mask
    both = both & causal_mask(N_q, N_k) if causal else both
    H = chunked_attention(lib(Q), lib(K), lib(V), causal=causal, mask=None if mask is None else lib(mask), chunk=chunk)
    assert lib.owns(H)
    assert_close(H, attention(Q, K, V, mask=both).H)
    theirs = scaled_dot_product_attention(*map(torch.tensor, (Q, K, V)), attn_mask=torch.tensor(both))
    assert_close(H, theirs, atol=1e-10)


@every_size
@CAUSAL
@pytest.mark.parametrize("window", [1, 2, 5, 16, 100])
def test_windows_agree_with_attention(rng, lib, sizes, causal, window):
    Q, K, V = draw(rng, *sizes)
    H = sliding_window_attention(lib(Q), lib(K), lib(V), window=window, causal=causal)
    assert lib.owns(H)
    assert_close(H, attention(Q, K, V, mask=band(*sizes[:2], window, causal)).H)


@pytest.mark.parametrize(("N_q", "N_k"), [(300, 300), (70, 300), (300, 130)])
@CAUSAL
def test_windows_over_many_blocks(rng, lib, N_q, N_k, causal):
    """Longer than one block of queries, with windows narrower and wider than it."""
    Q, K, V = (lib(rng.normal(size=(n, 4))) for n in (N_q, N_k, N_k))
    for window in (3, 64, 65, 200):
        H = sliding_window_attention(Q, K, V, window=window, causal=causal)
        assert_close(H, attention(Q, K, V, mask=band(N_q, N_k, window, causal)).H)


@every_size
@CAUSAL
def test_linear_attention_is_its_definition(rng, lib, sizes, causal):
    Q, K, V = draw(rng, *sizes)
    H = linear_attention(lib(Q), lib(K), lib(V), causal=causal)
    assert lib.owns(H)
    assert_close(H, by_pairs(*map(torch.tensor, (Q, K, V)), causal))


@pytest.mark.parametrize(("N_q", "N_k"), [(200, 200), (70, 200), (200, 70)])
def test_linear_attention_over_many_chunks(rng, lib, N_q, N_k):
    Q, K, V = (rng.normal(size=(n, 4)) for n in (N_q, N_k, N_k))
    H = linear_attention(lib(Q), lib(K), lib(V), causal=True, feature_map=lambda X: X * X)
    assert_close(H, by_pairs(*map(torch.tensor, (Q, K, V)), True, feature_map=torch.square))


def test_one_step_after_the_other_is_causal_linear_attention(rng, lib):
    Q, K, V = (lib(rng.normal(size=(B, h, 9, d))) for d in (5, 5, 4))
    whole, state = linear_attention(Q, K, V, causal=True), None
    for t in range(9):
        state, H = linear_attention_step(state, Q[..., t, :], K[..., t, :], V[..., t, :])
        assert_close(H, whole[..., t, :])
        assert state.shape == (B, h, 5, 4 + 1)


def test_features(rng, lib):
    X = np.append(rng.normal(scale=5, size=30), [0.0, -800.0, 800.0])
    assert_close(elu_plus_one(lib(X)), elu(torch.tensor(X)) + 1)
    assert_close(gradients(elu_plus_one, X)[0], gradients(lambda x: elu(x) + 1, X)[0])


VARIANTS = {
    "chunks": (lambda *qkv: chunked_attention(*qkv, chunk=(3, 4)), lambda n, m: np.ones((n, m), dtype=bool)),
    "causal chunks": (lambda *qkv: chunked_attention(*qkv, causal=True, chunk=(3, 4)), causal_mask),
    "masked chunks": (
        lambda Q, K, V: chunked_attention(Q, K, V, mask=masks(Q.shape[-2], K.shape[-2])["all axes"], chunk=(3, 4)),
        lambda n, m: masks(n, m)["all axes"],
    ),
    "window": (lambda *qkv: sliding_window_attention(*qkv, window=3), lambda n, m: band(n, m, 3, True)),
    "window to both sides": (
        lambda *qkv: sliding_window_attention(*qkv, window=3, causal=False),
        lambda n, m: band(n, m, 3, False),
    ),
}


@every_size
@pytest.mark.parametrize("variant", VARIANTS)
def test_gradients_agree_with_attention(rng, sizes, variant):
    function, mask = VARIANTS[variant]
    QKV = draw(rng, *sizes)
    mine = gradients(function, *QKV)
    theirs = gradients(lambda *qkv: attention(*qkv, mask=mask(*sizes[:2])).H, *QKV)
    for x, y in zip(mine, theirs, strict=True):
        assert_close(x, y, atol=1e-10)


@every_size
@CAUSAL
def test_gradients_of_linear_attention(rng, sizes, causal):
    QKV = draw(rng, *sizes)
    mine = gradients(lambda *qkv: linear_attention(*qkv, causal=causal), *QKV)
    for x, y in zip(mine, gradients(lambda *qkv: by_pairs(*qkv, causal), *QKV), strict=True):
        assert_close(x, y, atol=1e-10)


@pytest.mark.parametrize("name", ["chunks", "causal chunks", "masked chunks", "window"])
def test_only_one_of_three_wants_a_gradient(rng, name):
    """Scores are overwritten where autograd does not need them: that must depend on Q and K, and not on V."""
    QKV, (function, mask) = draw(rng, *SIZES["self"]), VARIANTS[name]
    for place in range(3):
        mine, theirs = ([torch.tensor(x) for x in QKV] for _ in range(2))
        for tensors, call in ((mine, function), (theirs, lambda *qkv: attention(*qkv, mask=mask(17, 17)).H)):
            tensors[place].requires_grad_()
            (call(*tensors) ** 2).sum().backward()
        assert_close(mine[place].grad, theirs[place].grad, atol=1e-10)


@pytest.mark.parametrize(("scale", "error"), [(1, 1e-6), (50, 2e-4)])
def test_error_of_float32_at_4096_tokens(rng, lib, scale, error):
    Q, K, V = (lib(rng.normal(size=(1, 4096, 64)).astype("float32")) for _ in range(3))
    H = chunked_attention(scale * Q, K, V, causal=True)
    wide = [torch.from_numpy(to_numpy(Z)).double() for Z in (scale * Q, K, V)]
    assert_close(H, scaled_dot_product_attention(*wide, is_causal=True), atol=error)


@pytest.mark.parametrize(
    "call",
    [
        lambda *qkv: chunked_attention(*qkv, causal=True, chunk=64),
        lambda *qkv: sliding_window_attention(*qkv, window=64),
        lambda *qkv: sliding_window_attention(*qkv, window=10**6, causal=False),
        lambda *qkv: linear_attention(*qkv, causal=True),
    ],
)
def test_memory_grows_with_N_and_not_its_square(rng, call):
    peaks = []
    for N in (1024, 2048, 4096):
        QKV = [rng.normal(size=(2, N, 16)).astype("float32") for _ in range(3)]
        peaks.append(peak_bytes(lambda QKV=QKV: call(*QKV)))
    assert peaks[2] - peaks[1] < 2.2 * (peaks[1] - peaks[0])
    assert peaks[2] < 2 * 4096**2 * 4 / 2  # one S of 2 heads would be twice that


def test_keys_in_one_head_serve_all_queries(rng, lib):
    """Batch axes are broadcast: one head of keys and values, as in multi-query attention."""
    Q, K, V = lib(rng.normal(size=(B, h, 9, 5))), lib(rng.normal(size=(B, 1, 9, 5))), lib(rng.normal(size=(1, 1, 9, 4)))
    assert_close(chunked_attention(Q, K, V, causal=True, chunk=4), attention(Q, K, V, mask=causal_mask(9)).H)
    assert_close(sliding_window_attention(Q, K, V, window=3), attention(Q, K, V, mask=band(9, 9, 3, True)).H)
    full = [np.broadcast_to(to_numpy(Z), (B, h, 9, Z.shape[-1])) for Z in (Q, K, V)]
    assert_close(linear_attention(Q, K, V, causal=True), linear_attention(*full, causal=True))


def test_rotation_is_a_product_of_complex_numbers(rng, lib):
    X = rng.normal(size=(B, h, 7, 6))
    turn = np.exp(1j * np.arange(3, 10)[:, None] * 10000.0 ** (-np.arange(0, 6, 2) / 6))
    expected = (X[..., 0::2] + 1j * X[..., 1::2]) * turn
    Y = to_numpy(rotate(lib(X), start=3))
    assert_close(Y[..., 0::2], expected.real)
    assert_close(Y[..., 1::2], expected.imag)


def test_rotated_scores_depend_on_distance_alone(rng, lib):
    q, k = lib(rng.normal(size=(1, 8))), lib(rng.normal(size=(1, 8)))
    scores = [to_numpy(rotate(q, start=p) @ rotate(k, start=p - 3).T) for p in (0, 3, 500)]
    assert_close(scores[0], scores[1])
    assert_close(scores[0], scores[2], atol=1e-10)
