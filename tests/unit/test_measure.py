"""Influence by perturbation: the copies differ where they should, and the matrix says which output moved."""

import numpy as np
import pytest
import torch

from attnlib import attention, causal_mask, influence, move_each_token, padding_mask, project

rng = np.random.default_rng(5)
N, D_MODEL, D_H = 6, 8, 5
X = rng.normal(size=(1, N, D_MODEL))
W_Q, W_K, W_V = rng.normal(size=(3, D_MODEL, D_H)) / D_MODEL**0.5


def head(X, mask=None):
    Q, K, V = (project(X, W) for W in (W_Q, W_K, W_V))
    return attention(Q, K, V, mask=mask).H


def test_copy_j_differs_in_token_j_alone_and_by_the_size():
    step = move_each_token(X, seed=3, size=0.5) - X
    assert step.shape == (N, N, D_MODEL)
    np.testing.assert_allclose(np.linalg.norm(step, axis=-1), 0.5 * np.eye(N), atol=1e-15)


def test_same_seed_same_copies_other_seed_others():
    assert np.array_equal(move_each_token(X, seed=3), move_each_token(X, seed=3))
    assert not np.allclose(move_each_token(X, seed=3), move_each_token(X, seed=4))


def test_input_is_unchanged():
    before = X.copy()
    move_each_token(X, seed=0)
    assert np.array_equal(X, before)


def test_full_attention_reaches_everywhere_and_causal_only_back():
    moved = move_each_token(X, seed=0)
    assert (influence(head(X), head(moved)) > 1e-3).all()
    mask = causal_mask(N)
    D = influence(head(X, mask), head(moved, mask))
    assert (D[~mask] < 1e-12).all()
    assert (D[mask] > 1e-4).all()


def test_padding_reaches_nobody_but_its_own_row():
    """Its key is hidden; its query still is its own."""
    mask = padding_mask(np.array([[1, 1, 1, 1, 0, 0]]), 0)
    D = influence(head(X, mask), head(move_each_token(X, seed=0), mask))
    assert (D[:4, 4:] < 1e-12).all()
    assert D[4, 4] > 1e-3
    assert D[4, 5] < 1e-12


def test_entries_by_hand():
    """Row i, column j: token 2 moved, and outputs 0 and 1 are compared with what they were."""
    output = np.zeros((3, 2))
    moved = np.zeros((3, 3, 2))
    moved[2, 0] = [3.0, 4.0]
    moved[2, 1] = [0.0, 1.0]
    np.testing.assert_array_equal(influence(output, moved), [[0, 0, 5], [0, 0, 1], [0, 0, 0]])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_numpy_and_torch_agree_and_keep_the_dtype(dtype):
    here = X.astype(dtype)
    there = torch.from_numpy(here)
    moved_here, moved_there = move_each_token(here, seed=1), move_each_token(there, seed=1)
    assert moved_here.dtype == here.dtype
    assert moved_there.dtype == there.dtype
    np.testing.assert_array_equal(moved_there.numpy(), moved_here)
    D = influence(there, moved_there)
    assert D.dtype == there.dtype
    np.testing.assert_allclose(D.numpy(), influence(here, moved_here), rtol=1e-3 if dtype == "float16" else 1e-6)


def test_gradients_flow():
    x = torch.from_numpy(X).requires_grad_()
    influence(x.cumsum(-2), move_each_token(x, seed=0).cumsum(-2) ** 2).sum().backward()
    assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: move_each_token(np.zeros((2, N, 3)), seed=0), r"X has shape \[2, 6, 3\].*one sentence.*X\[0\]"),
        (lambda: move_each_token(np.zeros(3), seed=0), r"X has shape \[3\]"),
        (
            lambda: influence(np.zeros((4, 3)), np.zeros((5, 5, 3))),
            r"N \(outputs\) disagrees: output has 4, moved has 5",
        ),
        (lambda: influence(np.zeros((4, 3)), np.zeros((4, 4, 2))), "axis d disagrees: output has 3, moved has 2"),
        (lambda: influence(np.zeros((4, 3)), np.zeros((4, 3))), r"moved has shape \[4, 3\]"),
    ],
)
def test_errors_name_the_axis(call, message):
    with pytest.raises(ValueError, match=message):
        call()
