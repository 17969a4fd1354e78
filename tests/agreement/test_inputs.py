"""Ids, embeddings and positions against torch."""

import numpy as np
import pytest
import torch
from support import assert_close, gradients
from torch.nn.functional import embedding

from attnlib import add_positions, embed, sinusoidal_positions, softmax

T = np.array([[3, 0, 3, 1], [2, 2, 2, 4]])


def test_embed_is_that_of_torch(rng, lib):
    E = rng.normal(size=(5, 6))
    assert_close(embed(lib(T), lib(E)), embedding(torch.tensor(T), torch.tensor(E)), atol=0)


def test_gradient_of_embed_adds_up_repeated_ids(rng):
    E = rng.normal(size=(6, 3))
    (mine,) = gradients(lambda E: embed(T, E), E)
    (theirs,) = gradients(lambda E: embedding(torch.tensor(T), E), E)
    assert_close(mine, theirs)
    assert (mine[5] == 0).all()


def test_positions_are_those_of_the_transformer_tutorial_of_torch():
    """Written there with exp and log, in two slices."""
    N, d_model = 50, 12
    position = torch.arange(N, dtype=torch.float64)[:, None]
    frequency = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float64) * (-np.log(10000.0) / d_model))
    expected = torch.zeros(1, N, d_model, dtype=torch.float64)
    expected[0, :, 0::2] = torch.sin(position * frequency)
    expected[0, :, 1::2] = torch.cos(position * frequency)
    assert_close(sinusoidal_positions(N, d_model), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_positions_take_library_and_dtype_of_like(dtype):
    X_pos = sinusoidal_positions(300, 6, like=torch.zeros(1, dtype=dtype))
    assert X_pos.dtype == dtype
    assert_close(X_pos, sinusoidal_positions(300, 6), atol=torch.finfo(dtype).eps)


def test_gradient_of_add_positions_sums_over_the_batch():
    dX_tok, dX_pos = gradients(add_positions, np.ones((2, 3, 4)), np.ones((1, 3, 4)))
    assert_close(dX_pos, dX_tok.sum(dim=0, keepdim=True))


@pytest.mark.parametrize("axes", [(3,), (2, 3), (2, 4, 3, 3)])
def test_softmax_and_its_gradient_are_those_of_torch(rng, axes):
    S = rng.normal(size=axes) * 10
    assert_close(softmax(torch.tensor(S)), torch.softmax(torch.tensor(S), dim=-1))
    assert_close(gradients(softmax, S)[0], gradients(lambda S: torch.softmax(S, dim=-1), S)[0])
