"""Jacobian, its norm and the effective number of keys, against autograd and against what is known exactly."""

import numpy as np
import pytest
import torch

from attnlib import effective_keys, jacobian_norm, softmax, softmax_jacobian


@pytest.fixture
def A():
    return softmax(np.random.default_rng(0).normal(size=(2, 3, 5)) * 2)


def test_jacobian_equals_autograd():
    s = torch.randn(6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    J = torch.autograd.functional.jacobian(lambda s: torch.softmax(s, dim=-1), s)
    assert torch.allclose(softmax_jacobian(torch.softmax(s, dim=-1)), J, atol=1e-14)


def test_rows_and_columns_of_the_jacobian_sum_to_zero(A):
    J = softmax_jacobian(A)
    assert J.shape == (2, 3, 5, 5)
    assert np.allclose(J.sum(axis=-1), 0) and np.allclose(J.sum(axis=-2), 0)


def test_norm_is_that_of_the_jacobian(A):
    assert np.allclose(jacobian_norm(A), np.linalg.norm(softmax_jacobian(A), axis=(-2, -1)), atol=1e-14)


def test_norm_of_a_nearly_frozen_row_keeps_its_digits():
    tiny = 1e-12
    assert np.isclose(jacobian_norm(np.array([1 - tiny, tiny])), 2 * tiny, rtol=1e-3)


@pytest.mark.parametrize("N", [2, 3, 7, 64])
def test_uniform_rows(N):
    uniform = np.full(N, 1 / N)
    assert np.isclose(effective_keys(uniform), N)
    assert np.isclose(jacobian_norm(uniform), np.sqrt(N - 1) / N)


def test_one_hot_rows_and_empty_rows_have_no_answer_left():
    rows = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    assert np.array_equal(jacobian_norm(rows), [0, 0])
    assert effective_keys(rows)[0] == 1


@pytest.mark.parametrize("measure", [softmax_jacobian, jacobian_norm, effective_keys])
def test_dtype_and_library_are_kept(measure, A):
    assert measure(A.astype(np.float16)).dtype == np.float16
    assert measure(torch.from_numpy(A).float()).dtype == torch.float32
    with pytest.raises(TypeError, match="A holds int64"):
        measure(np.eye(3, dtype=np.int64))
