"""Laws of the variants for long sequences: whatever the block, a dead row is 0 and what is unread stays unread."""

import numpy as np
import pytest
import torch
from cases import Heads, heads, normal, seeds
from hypothesis import given
from hypothesis import strategies as st
from support import assert_close, gradients, to_numpy

from attnlib import attention, causal_mask, chunked_attention, linear_attention, rotate, sliding_window_attention

chunks = st.one_of(st.integers(1, 9), st.tuples(st.integers(1, 9), st.integers(1, 9)))
lengths = st.integers(1, 9)


def qkv(seed, N_q, N_k, scale=1.0, d_v=2):
    return scale * normal(seed, N_q, 3), scale * normal(seed + 1, N_k, 3), normal(seed + 2, N_k, d_v)


@given(case=heads(), chunk=chunks, causal=st.booleans())
def test_the_size_of_blocks_does_not_matter(lib, case, chunk, causal):
    """Masks with dead rows and columns, logits up to thousands, blocks that are partial or larger than all."""
    Q, K, V, mask = map(lib, case)
    both = case.mask & causal_mask(*case.mask.shape[-2:]) if causal else case.mask
    expected = attention(Q, K, V, mask=both).H
    assert_close(chunked_attention(Q, K, V, mask=mask, causal=causal, chunk=chunk), expected, atol=1e-10)
    assert_close(chunked_attention(Q, K, V, mask=mask, causal=causal), expected, atol=1e-10)


@given(seed=seeds, N=lengths, chunk=chunks, first=st.integers(0, 9), last=st.integers(0, 9))
def test_masked_rows_at_either_end(lib, seed, N, chunk, first, last):
    Q, K, V = map(lib, qkv(seed, N, N, scale=50))
    mask = np.ones((N, N), dtype=bool)
    mask[:first] = mask[N - min(last, N) :] = False
    H = to_numpy(chunked_attention(Q, K, V, mask=lib(mask), chunk=chunk))
    assert (H[~mask[:, 0]] == 0).all()
    assert_close(H, attention(Q, K, V, mask=mask).H, atol=1e-10)


@given(seed=seeds, blocks=st.lists(st.booleans(), min_size=1, max_size=5))
def test_whole_blocks_may_be_masked(lib, seed, blocks):
    """First, middle, last, or all: a running maximum of minus infinity would turn to NaN here."""
    visible = np.repeat(blocks, 2)
    Q, K, V = map(lib, qkv(seed, 3, len(visible), scale=20))
    mask = np.broadcast_to(visible, (3, len(visible)))
    assert_close(chunked_attention(Q, K, V, mask=lib(mask), chunk=2), attention(Q, K, V, mask=mask).H, atol=1e-10)


@pytest.mark.parametrize("order", [1, -1])
@given(N=lengths, chunk=chunks, scale=st.sampled_from([1.0, 50.0, 5000.0]))
def test_rising_and_falling_scores(lib, order, N, chunk, scale):
    """Falling: the first block holds the maximum. Rising: each block brings a new one."""
    Q, K, V = np.ones((2, 1)), scale * np.arange(N)[::order, None].astype(float), np.eye(N)
    H = chunked_attention(lib(Q), lib(K), lib(V), chunk=chunk)
    assert_close(H, attention(Q, K, V).H, atol=1e-10)
    assert_close(H.sum(axis=-1), np.ones(2))


@given(seed=seeds, N=lengths, extra=st.integers(-9, 9), window=st.integers(1, 12), causal=st.booleans())
def test_a_window_reads_what_it_says(lib, seed, N, extra, window, causal):
    """The weights, seen through V = 1: positive exactly for the window's keys, aligned at the end."""
    N_k = max(1, N + extra)
    Q, K, _ = qkv(seed, N, N_k)
    A = to_numpy(sliding_window_attention(lib(Q), lib(K), lib(np.eye(N_k)), window=window, causal=causal))
    distance = np.arange(N)[:, None] + N_k - N - np.arange(N_k)
    read = (distance < window) & ((distance >= 0) if causal else (distance > -window))
    np.testing.assert_array_equal(A > 0, read)
    assert_close(A.sum(axis=-1), read.any(axis=-1).astype(float))


@given(seed=seeds, N_q=lengths, N_k=lengths)
def test_a_window_over_everything_is_causal_attention_and_of_one_is_the_value(lib, seed, N_q, N_k):
    Q, K, V = map(lib, qkv(seed, N_q, N_k))
    wide = sliding_window_attention(Q, K, V, window=N_q + N_k)
    assert_close(wide, chunked_attention(Q, K, V, causal=True))
    both = sliding_window_attention(Q, K, V, window=N_q + N_k, causal=False)
    assert_close(both, chunked_attention(Q, K, V))
    n = min(N_q, N_k)
    assert_close(sliding_window_attention(Q, K, V, window=1)[-n:], V[-n:])


@given(seed=seeds, N_q=lengths, N_k=lengths, causal=st.booleans(), low=st.sampled_from([0.0, -30.0, -300.0]))
def test_weights_of_linear_attention_sum_to_one(lib, seed, N_q, N_k, causal, low):
    """Also where features are as small as e^-300: no epsilon in the denominator pulls them down."""
    Q, K, V = qkv(seed, N_q, N_k)
    H = linear_attention(lib(Q), lib(K + low), lib(np.ones_like(V)), causal=causal)
    read = causal_mask(N_q, N_k).any(axis=-1) if causal else np.ones(N_q, dtype=bool)
    assert_close(H, np.broadcast_to(read[:, None], H.shape).astype(float))


@given(seed=seeds, N=lengths, causal=st.booleans())
def test_features_that_vanish_give_zero(lib, seed, N, causal):
    Q, K, V = qkv(seed, N, N)
    assert_close(linear_attention(lib(Q), lib(K - 10000), lib(V), causal=causal), np.zeros_like(V), atol=0)
    for gradient in gradients(lambda *z: linear_attention(*z, causal=causal), Q, K - 10000, V):
        assert gradient.isfinite().all()


@given(seed=seeds, N=lengths, t=lengths)
def test_what_comes_later_changes_nothing(lib, seed, N, t):
    before, after = qkv(seed, N, N), qkv(seed, N, N)
    for Z, scale in zip(after[1:], (50, 50), strict=True):
        Z[t:] = scale * normal(seed + 5, *Z[t:].shape)
    for function in CAUSAL.values():
        assert_close(function(*map(lib, before))[:t], function(*map(lib, after))[:t])


CAUSAL = {
    "chunks": lambda *z: chunked_attention(*z, causal=True, chunk=(3, 2)),
    "window": lambda *z: sliding_window_attention(*z, window=3),
    "linear": lambda *z: linear_attention(*z, causal=True),
}


@pytest.mark.parametrize("garbage", [np.nan, np.inf, -np.inf, 1e300])
@given(seed=seeds, chunk=chunks, causal=st.booleans(), where=st.sampled_from(["K", "V", "both"]))
def test_unread_keys_reach_neither_output_nor_gradient(lib, garbage, seed, chunk, causal, where):
    rng = np.random.default_rng(seed)
    N_q, N_k = rng.integers(1, 9, size=2).tolist()
    mask = rng.random((N_q, N_k)) < 0.2
    unread = ~(mask & causal_mask(N_q, N_k) if causal else mask).any(axis=0)
    Q, K, V = clean = qkv(seed, N_q, N_k)
    K, V = K.copy(), V.copy()
    for Z, name in ((K, "K"), (V, "V")):
        Z[unread] = garbage if where in (name, "both") else Z[unread]

    def H(Q, K, V):
        return chunked_attention(Q, K, V, mask=mask, causal=causal, chunk=chunk)

    with np.errstate(over="ignore"):  # scores of 1e300 may overflow before they are masked
        assert_close(H(*map(lib, (Q, K, V))), H(*map(lib, clean)))
    if garbage != 1e300:
        for x, y in zip(gradients(H, Q, K, V), gradients(H, *clean), strict=True):
            assert_close(x, y)


@pytest.mark.parametrize("garbage", [np.nan, np.inf])
@given(seed=seeds, N_q=lengths, extra=lengths, window=st.integers(1, 4))
def test_keys_before_the_first_window_are_not_read(lib, garbage, seed, N_q, extra, window):
    N_k = N_q + window - 1 + extra
    Q, K, V = clean = qkv(seed, N_q, N_k)
    K, V = K.copy(), V.copy()
    K[:extra] = V[:extra] = garbage

    def H(*z):
        return sliding_window_attention(*z, window=window)

    assert_close(H(*map(lib, (Q, K, V))), H(*map(lib, clean)), atol=0)
    for x, y in zip(gradients(H, Q, K, V), gradients(H, *clean), strict=True):
        assert_close(x, y)


@given(seed=seeds, chunk=chunks, N=lengths)
def test_a_readable_nan_shows(lib, seed, chunk, N):
    Q, K, V = qkv(seed, N, N)
    K[0] = np.nan
    with np.errstate(invalid="ignore"):
        for H in (
            chunked_attention(*map(lib, (Q, K, V)), causal=True, chunk=chunk),
            linear_attention(*map(lib, (Q, K, V)), causal=True),
            sliding_window_attention(*map(lib, (Q, K, V)), window=N),
        ):
            assert np.isnan(to_numpy(H)).all()


FUNCTIONS = {
    "chunks": lambda Q, K, V, mask: chunked_attention(Q, K, V, mask=mask, causal=True, chunk=2),
    "no mask": lambda Q, K, V, mask: chunked_attention(Q, K, V, chunk=2),
    "window": lambda Q, K, V, mask: sliding_window_attention(Q, K, V, window=2),
    "linear": lambda Q, K, V, mask: linear_attention(Q, K, V),
    "causal linear": lambda Q, K, V, mask: linear_attention(Q, K, V, causal=True),
    "rotate": lambda Q, K, V, mask: rotate(V),
}
every_function = pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)


def even(case: Heads) -> Heads:
    return case._replace(V=np.concatenate([case.V, case.V], axis=-1))  # pairs of components, for `rotate`


@every_function
@given(case=heads())
def test_inputs_are_never_changed(function, case):
    arrays = [np.array(Z) for Z in even(case)]
    for Z in arrays:
        Z.flags.writeable = False
    function(*arrays)
    tensors = [torch.tensor(Z) for Z in arrays]
    function(*tensors)
    for Z, tensor in zip(arrays, tensors, strict=True):
        np.testing.assert_array_equal(tensor.numpy(), Z)


@every_function
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@given(case=heads())
def test_dtype_and_library_are_kept(lib, function, dtype, case):
    Q, K, V, mask = even(case)
    H = function(*(lib(np.clip(Z, -9, 9).astype(dtype)) for Z in (Q, K, V)), lib(mask))
    assert lib.owns(H)
    assert H.dtype == lib.dtype(dtype)
    wide = function(*(np.clip(Z, -9, 9).astype(dtype).astype(float) for Z in (Q, K, V)), mask)
    assert_close(to_numpy(H).astype(float), wide, atol={"float16": 2e-2, "float32": 1e-4, "float64": 1e-10}[dtype])


@every_function
@given(case=heads())
def test_bfloat16_is_kept(function, case):
    Q, K, V, mask = even(case)
    H = function(*(torch.tensor(Z).bfloat16() for Z in (Q, K, V)), torch.tensor(mask))
    assert H.dtype == torch.bfloat16
    assert H.isfinite().all()


@every_function
@given(case=heads(least_batch_axes=1))
def test_each_sentence_equals_its_own_run(lib, function, case):
    together = function(*map(lib, even(case)))
    for i in range(len(case.Q)):
        assert_close(together[i], function(*(lib(Z[i]) for Z in even(case))))


@every_function
@given(case=heads())
def test_memory_layout_does_not_matter(function, case):
    expected = function(*even(case))
    assert_close(function(*(np.asfortranarray(Z) for Z in even(case))), expected)
    assert_close(function(*(np.flip(np.flip(Z).copy()) for Z in even(case))), expected)


@pytest.mark.parametrize("shape", [(0, 3, 4, 5), (2, 0, 5)])
def test_no_sentence_or_no_query(lib, shape):
    Q, K = lib(np.ones(shape)), lib(np.ones((*shape[:-2], 4, 5)))
    for function in CAUSAL.values():
        assert tuple(function(Q, K, K).shape) == shape
