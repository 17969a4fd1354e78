"""Laws of softmax: what must hold for any scores."""

import numpy as np
import pytest
from cases import normal, seeds, sizes
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from support import assert_close, to_numpy

from attnlib import softmax

any_scores = arrays(
    np.float64,
    array_shapes(min_dims=1, max_dims=4, max_side=5),
    elements=st.floats(-1e308, 1e308) | st.floats(-5, 5) | st.just(-np.inf),
)


@given(S=any_scores)
def test_rows_sum_to_1_or_are_0(lib, S):
    """Whatever the scores: huge, tiny, equal or minus infinity."""
    A = to_numpy(softmax(lib(S)))
    readable = (S > -np.inf).any(axis=-1)
    assert (A >= 0).all()
    assert_close(A.sum(axis=-1), np.where(readable, 1.0, 0.0))
    assert (A[S == -np.inf] == 0).all()


@given(S=arrays(np.float64, (3, 4), elements=st.integers(-50, 50)), shift=st.integers(-1000, 1000))
def test_shift_of_a_row_changes_nothing(lib, S, shift):
    np.testing.assert_array_equal(to_numpy(softmax(lib(S + shift))), to_numpy(softmax(lib(S))))


@given(seed=seeds, N=sizes)
def test_differences_of_scores_are_ratios_of_weights(lib, seed, N):
    S = normal(seed, 3, N)
    A = to_numpy(softmax(lib(S)))
    assert_close(np.log(A[:, :1] / A), S[:, :1] - S)


@given(seed=seeds, N=sizes)
def test_permuting_keys_permutes_weights(lib, seed, N):
    S, order = normal(seed, 2, 3, N), np.random.default_rng(seed).permutation(N)
    assert_close(softmax(lib(S[..., order])), to_numpy(softmax(lib(S)))[..., order])


@given(seed=seeds)
def test_a_higher_score_is_never_a_lower_weight(lib, seed):
    S = np.sort(normal(seed, 4, 6) * 100)
    assert (np.diff(to_numpy(softmax(lib(S)))) >= 0).all()


@given(S=arrays(np.float64, (2, 3), elements=st.floats(-600, 600)))
def test_equals_the_formula_where_the_formula_does_not_overflow(lib, S):
    exps = np.exp(S)
    assert_close(softmax(lib(S)), exps / exps.sum(axis=-1, keepdims=True))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@given(seed=seeds)
def test_keeps_dtype_and_library(lib, dtype, seed):
    S = normal(seed, 3, 5).astype(dtype)
    A = softmax(lib(S))
    assert lib.owns(A)
    assert A.dtype == lib.dtype(dtype)
    assert_close(A, to_numpy(softmax(lib(S.astype(np.float64)))), atol=2 * np.finfo(dtype).eps)
