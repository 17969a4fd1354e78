"""Laws of a single head, for any sizes, any batch axes and any mask."""

import numpy as np
import pytest
import torch
from cases import heads, seeds, sizes
from hypothesis import assume, given
from hypothesis import strategies as st
from support import assert_close, gradients, to_numpy

from attnlib import apply_mask, attention, causal_mask, scores, softmax

GARBAGE = [np.nan, np.inf, -np.inf, 1e150, -1e150]


def everything(result):
    """Return S, S_masked, A, H as NumPy."""
    return [to_numpy(x) for x in result]


@given(case=heads())
def test_weights_are_a_masked_mean(lib, case):
    """Rows of A sum to 1 (or are 0 where nothing may be read) and are exactly 0 where the mask says so."""
    A = to_numpy(attention(*map(lib, case[:3]), mask=lib(case.mask)).A)
    assert (A >= 0).all()
    assert (A[~case.mask] == 0).all()
    assert_close(A.sum(axis=-1), case.mask.any(axis=-1).astype(float))


@given(case=heads())
def test_output_lies_between_the_values_that_were_read(lib, case):
    """A weighted mean cannot leave the range of what it averages; a query that reads nothing gives 0."""
    H = to_numpy(attention(*map(lib, case[:3]), mask=lib(case.mask)).H)
    read = case.mask[..., None]
    values = np.broadcast_to(case.V[..., None, :, :], (*read.shape[:-1], case.V.shape[-1]))
    low = np.where(read, values, np.inf).min(axis=-2)
    high = np.where(read, values, -np.inf).max(axis=-2)
    nothing = ~case.mask.any(axis=-1)
    assert (H[nothing] == 0).all()
    assert (H >= low - 1e-12)[~nothing].all()
    assert (H <= high + 1e-12)[~nothing].all()


@given(case=heads())
def test_is_its_four_steps(lib, case):
    Q, K, V, mask = map(lib, case)
    S, S_masked, A, H = attention(Q, K, V, mask=mask)
    assert_close(S, case.Q @ np.swapaxes(case.K, -1, -2) / np.sqrt(case.Q.shape[-1]), atol=1e-10)
    assert_close(scores(Q, K), S)
    assert_close(apply_mask(S, mask), S_masked)
    assert_close(softmax(S_masked), A)
    assert_close(A @ V, H)


@given(case=heads(), seed=seeds)
def test_permuting_keys_with_their_values_changes_no_output(lib, case, seed):
    order = np.random.default_rng(seed).permutation(case.K.shape[-2])
    H = attention(*map(lib, case[:3]), mask=lib(case.mask)).H
    K, V, mask = case.K[..., order, :], case.V[..., order, :], case.mask[..., order]
    assert_close(attention(lib(case.Q), lib(K), lib(V), mask=lib(mask)).H, H)


@given(case=heads(), seed=seeds)
def test_permuting_queries_permutes_outputs(lib, case, seed):
    order = np.random.default_rng(seed).permutation(case.Q.shape[-2])
    H = to_numpy(attention(*map(lib, case[:3]), mask=lib(case.mask)).H)
    Q, mask = case.Q[..., order, :], case.mask[..., order, :]
    assert_close(attention(lib(Q), lib(case.K), lib(case.V), mask=lib(mask)).H, H[..., order, :])


@given(case=heads(), seed=seeds, data=st.data())
def test_causal_output_ignores_the_future(lib, case, seed, data):
    """Other keys and values from place t on leave every query that comes before t as it was."""
    N_q, N_k = case.Q.shape[-2], case.K.shape[-2]
    t = data.draw(st.integers(0, N_k - 1), label="t")
    rng = np.random.default_rng(seed)
    K, V = case.K.copy(), case.V.copy()
    K[..., t:, :] = rng.normal(size=K[..., t:, :].shape) * 100
    V[..., t:, :] = rng.normal(size=V[..., t:, :].shape) * 100
    mask = causal_mask(N_q, N_k)
    before = attention(*map(lib, case[:3]), mask=mask)
    after = attention(lib(case.Q), lib(K), lib(V), mask=mask)
    past = np.arange(N_q) + (N_k - N_q) < t
    for x, y in [(before.A, after.A), (before.H, after.H)]:
        assert_close(to_numpy(x)[..., past, :], to_numpy(y)[..., past, :])


@pytest.mark.parametrize("garbage", GARBAGE)
@given(case=heads(), extra=st.integers(1, 3), left=st.booleans())
def test_unread_keys_and_values_never_show(lib, garbage, case, extra, left):
    """Padding with NaN, inf or huge numbers, on the left or right, changes nothing."""

    def pad(x, fill, axis):
        shape = list(x.shape)
        shape[axis] = extra
        parts = [np.full(shape, fill), x]
        return np.concatenate(parts if left else parts[::-1], axis=axis)

    result = attention(*map(lib, case[:3]), mask=lib(case.mask))
    mask = pad(case.mask, False, -1)
    padded = attention(lib(case.Q), lib(pad(case.K, garbage, -2)), lib(pad(case.V, garbage, -2)), mask=lib(mask))
    real = slice(extra, None) if left else slice(case.K.shape[-2])
    assert_close(padded.H, result.H)
    assert_close(to_numpy(padded.A)[..., real], result.A)
    assert_close(to_numpy(padded.S_masked)[..., real], result.S_masked)


@pytest.mark.parametrize("garbage", GARBAGE)
@given(case=heads())
def test_unread_keys_and_values_never_reach_a_gradient(garbage, case):
    unread = ~case.mask.any(axis=-2)
    K, V = case.K.copy(), case.V.copy()
    K[unread], V[unread] = garbage, garbage

    def run(*qkv):
        return attention(*qkv, mask=case.mask).H

    for clean, dirty in zip(gradients(run, *case[:3]), gradients(run, case.Q, K, V), strict=True):
        assert_close(dirty, clean)
    assert (to_numpy(dirty)[unread] == 0).all()


@given(case=heads())
def test_gradient_is_finite_and_0_for_a_query_that_reads_nothing(case):
    dQ, dK, dV = gradients(lambda *qkv: attention(*qkv, mask=case.mask).H, *case[:3])
    assert all(g.isfinite().all() for g in (dQ, dK, dV))
    assert (to_numpy(dQ)[~case.mask.any(axis=-1)] == 0).all()


@given(case=heads())
def test_a_readable_nan_shows(lib, case):
    assume(case.mask.any())
    V = case.V.copy()
    place = np.argwhere(case.mask)[0]
    V[(*place[:-2], place[-1])] = np.nan
    H = to_numpy(attention(lib(case.Q), lib(case.K), lib(V), mask=lib(case.mask)).H)
    assert np.isnan(H[tuple(place[:-1])]).all()


@given(case=heads(least_batch_axes=1))
def test_each_batch_item_equals_its_own_run(lib, case):
    together = attention(*map(lib, case[:3]), mask=lib(case.mask))
    for item in np.ndindex(*case.Q.shape[:-2]):
        alone = attention(*(lib(x[item]) for x in case[:3]), mask=lib(case.mask[item]))
        for x, y in zip(together, alone, strict=True):
            assert_close(to_numpy(x)[item], y, atol=1e-10)


@given(case=heads(least_batch_axes=2), keep=st.lists(st.booleans(), min_size=4, max_size=4))
def test_batch_axes_of_length_1_are_repeated(lib, case, keep):
    """Q, K, V and mask may each leave a batch axis at 1; K may even leave batch axes out."""
    Q, K, V, mask = (x if k else x[:1] for x, k in zip(case, keep, strict=True))
    if K.shape[0] == Q.shape[0] == 1:
        V, mask = V[:1], mask[:1]
    B = max(Q.shape[0], K.shape[0])
    full = [np.broadcast_to(x, (B, *x.shape[1:])) for x in (Q, K, V, mask)]
    short = attention(lib(Q), lib(K), lib(V), mask=lib(mask)).H
    assert_close(short, attention(*map(lib, full[:3]), mask=lib(full[3])).H)
    without = attention(lib(Q), lib(K[0, 0]), lib(V[0, 0])).H
    assert_close(without, attention(lib(Q), lib(K[:1, :1]), lib(V[:1, :1])).H)


@given(case=heads())
def test_mask_equals_a_bias_of_minus_infinity(lib, case):
    bias = np.where(case.mask, 0.0, -np.inf)
    masked, biased = (
        attention(*map(lib, case[:3]), **kwargs) for kwargs in ({"mask": lib(case.mask)}, {"bias": lib(bias)})
    )
    for x, y in zip(masked, biased, strict=True):
        assert_close(x, y)


@given(case=heads(), seed=seeds)
def test_bias_is_added_to_scores_before_the_mask(lib, case, seed):
    bias = np.random.default_rng(seed).normal(size=case.mask.shape)
    S, S_masked, A, _ = attention(*map(lib, case[:3]), mask=lib(case.mask), bias=lib(bias))
    assert_close(S, attention(*map(lib, case[:3])).S)
    assert_close(S_masked, np.where(case.mask, to_numpy(S) + bias, -np.inf))
    shifted = attention(*map(lib, case[:3]), mask=lib(case.mask), bias=lib(bias + 3))
    assert_close(shifted.A, A)


@given(case=heads(), scale=st.floats(-2, 2))
def test_scale_multiplies_the_products(lib, case, scale):
    Q, K, V = map(lib, case[:3])
    S = attention(Q, K, V, scale=scale).S
    assert_close(S, scale * np.sqrt(case.Q.shape[-1]) * to_numpy(scores(Q, K)), atol=1e-9)


@given(case=heads())
def test_everything_allowed_equals_no_mask(lib, case):
    free = attention(*map(lib, case[:3]))
    for x, y in zip(attention(*map(lib, case[:3]), mask=lib(case.mask | True)), free, strict=True):
        assert_close(x, y, atol=0)


@given(N_q=sizes, N_k=sizes)
def test_equal_scores_average_what_may_be_read(lib, N_q, N_k):
    V = np.arange(N_k, dtype=float)[:, None]
    mask = causal_mask(N_q, N_k)
    H = attention(lib(np.zeros((N_q, 2))), lib(np.zeros((N_k, 2))), lib(V), mask=mask).H
    count = np.maximum(mask.sum(axis=-1, keepdims=True), 1)
    assert_close(H, mask @ V / count)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@given(case=heads())
def test_keeps_dtype_and_library(lib, dtype, case):
    Q, K, V = (x.astype(dtype) for x in (case.Q, case.K / 30, case.V))
    result = attention(lib(Q), lib(K), lib(V), mask=case.mask, bias=lib(case.mask.astype(dtype)))
    assert all(lib.owns(x) and x.dtype == lib.dtype(dtype) for x in result)
    exact = attention(*(x.astype(np.float64) for x in (Q, K, V)), mask=case.mask, bias=case.mask.astype(float))
    size = np.abs(V).max(initial=1) * (1 + np.abs(exact.S).max(initial=0))
    assert_close(result.H, exact.H, atol=4 * np.finfo(dtype).eps * size)


@given(case=heads())
def test_keeps_bfloat16(case):
    result = attention(*(torch.tensor(x / 30).bfloat16() for x in case[:3]), mask=case.mask)
    assert all(x.dtype == torch.bfloat16 for x in result)
    exact = attention(*(torch.tensor(x / 30).bfloat16().double() for x in case[:3]), mask=case.mask)
    assert_close(result.H, exact.H, atol=0.05)


@given(case=heads())
def test_inputs_are_never_changed(case):
    """NumPy inputs may be read-only."""
    before = [x.copy() for x in case]
    for x in case:
        x.flags.writeable = False
    attention(*case[:3], mask=case.mask, bias=case.mask.astype(float))
    for x, y in zip(case, before, strict=True):
        np.testing.assert_array_equal(x, y)


@given(case=heads())
def test_torch_inputs_are_never_changed(case):
    tensors = [torch.tensor(x) for x in case]
    versions = [x._version for x in tensors]
    attention(*tensors[:3], mask=tensors[3], bias=tensors[3].double())
    assert [x._version for x in tensors] == versions  # torch counts changes in place


VIEWS = {
    "Fortran order": np.asfortranarray,
    "swapped axes": lambda x: np.ascontiguousarray(np.swapaxes(x, -1, -2)).swapaxes(-1, -2),
    "every second": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "negative strides": lambda x: x[..., ::-1].copy()[..., ::-1],
}


@pytest.mark.parametrize("view", VIEWS)
@given(case=heads())
def test_memory_layout_does_not_matter(view, case):
    expected = attention(*case[:3], mask=case.mask)
    result = attention(*map(VIEWS[view], case[:3]), mask=VIEWS[view](case.mask))
    for x, y in zip(result, expected, strict=True):
        assert_close(x, y)


@given(case=heads())
def test_torch_memory_layout_does_not_matter(case):
    Q, K, V = (torch.tensor(np.swapaxes(x, -1, -2).copy()).mT for x in case[:3])
    assert not Q.is_contiguous() or 1 in Q.shape[-2:]
    assert_close(attention(Q, K, V, mask=case.mask).H, attention(*case[:3], mask=case.mask).H)


@given(case=heads(), N=sizes)
def test_numpy_and_torch_agree(case, N):
    mine = attention(*case[:3], mask=case.mask)
    theirs = attention(*map(torch.tensor, case[:3]), mask=torch.tensor(case.mask))
    for x, y in zip(mine, theirs, strict=True):
        assert_close(x, y, atol=1e-10)
