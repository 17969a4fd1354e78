"""What long sequences and the cache say about bad input: sentences that name the argument and the axis."""

import copy
import pickle

import numpy as np
import pytest
import torch

from attnlib import (
    KVCache,
    MultiHeadWeights,
    chunked_attention,
    decode_step,
    linear_attention,
    linear_attention_step,
    multi_head_attention,
    multiply_adds,
    rotate,
    sliding_window_attention,
)

Q, K, V = np.ones((2, 4, 3)), np.ones((2, 5, 3)), np.ones((2, 5, 6))
VARIANTS = {
    "chunks": chunked_attention,
    "window": lambda *qkv: sliding_window_attention(*qkv, window=2),
    "linear": linear_attention,
    "causal linear": lambda *qkv: linear_attention(*qkv, causal=True),
}

BAD = {
    "integers": ((Q.astype(int), K, V), TypeError, "Q holds int64, but must hold floating-point numbers"),
    "list": ((Q, K.tolist(), V), TypeError, "K must be a NumPy array or a torch tensor, not list"),
    "libraries": ((Q, torch.ones(2, 5, 3), V), TypeError, "All arrays must come from one library"),
    "dtypes": ((Q, K, V.astype("float32")), TypeError, "V is float32"),
    "d_h": ((Q, K[..., :2], V), ValueError, "The axis d_h disagrees: Q has 3, K has 2"),
    "N_k": ((Q, K, V[:, :4]), ValueError, "The axis N_k disagrees: K has 5, V has 4"),
    "batch": ((Q, np.ones((3, 5, 3)), V), ValueError, r"The batch axes .* disagree: Q has \[2\], K has \[3\]"),
    "batch of V": ((Q, K, np.ones((3, 5, 6))), ValueError, r"The batch axes .* disagree: S has \[2\], V has \[3\]"),
    "no key": ((Q, K[:, :0], V[:, :0]), ValueError, "N_k is 0: there is no key to read"),
    "no component": ((Q[..., :0], K[..., :0], V), ValueError, "d_h is 0"),
    "one axis": ((Q, K, np.ones(5)), ValueError, r"V has shape \[5\], but needs the axes \[..., N_k, d_v\]"),
}


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("case", BAD.values(), ids=BAD)
def test_arrays_that_do_not_fit(variant, case):
    arrays, kind, message = case
    with pytest.raises(kind, match=message):
        variant(*arrays)


@pytest.mark.parametrize(
    ("chunk", "kind", "message"),
    [
        (0, ValueError, "chunk must be at least 1, not 0"),
        (-3, ValueError, "chunk must be at least 1, not -3"),
        (2.0, TypeError, "chunk must be a whole number, not 2.0"),
        (True, TypeError, "chunk must be a whole number, not True"),
        ("8", TypeError, "chunk must be a whole number, not '8'"),
        ((4, 0), ValueError, "chunk must be at least 1, not 0"),
        ((4, None), TypeError, "chunk must be a whole number, not None"),
        ((1, 2, 3), ValueError, r"chunk must be one whole number, or two for queries and keys, not \(1, 2, 3\)"),
    ],
)
def test_chunk(chunk, kind, message):
    with pytest.raises(kind, match=message):
        chunked_attention(Q, K, V, chunk=chunk)


@pytest.mark.parametrize(
    ("window", "kind", "message"),
    [
        (0, ValueError, "window must be at least 1, not 0"),
        (2.5, TypeError, "window must be a whole number, not 2.5"),
        (None, TypeError, "window must be a whole number, not None"),
    ],
)
def test_window(window, kind, message):
    with pytest.raises(kind, match=message):
        sliding_window_attention(Q, K, V, window=window)


@pytest.mark.parametrize(
    ("mask", "kind", "message"),
    [
        (np.ones((4, 5)), TypeError, "mask holds float64, but must be boolean"),
        (np.ones((4, 4), dtype=bool), ValueError, r"axis -1 \(keys, N_k\) is 4 and must be 5 or 1"),
        (np.ones(5, dtype=bool), ValueError, r"mask has shape \[5\] and S has shape \[2, 4, 5\]"),
        ("causal", TypeError, "mask must be a boolean array, not str"),
    ],
)
def test_mask(mask, kind, message):
    with pytest.raises(kind, match=message):
        chunked_attention(Q, K, V, mask=mask)


def test_rotation():
    with pytest.raises(ValueError, match=r"X has shape \[2, 4, 3\]: its last axis, d_h = 3, must be even"):
        rotate(Q)
    with pytest.raises(TypeError, match=r"start must be a whole number, not 1\.5"):
        rotate(V, start=1.5)
    with pytest.raises(TypeError, match="X holds int64"):
        rotate(np.ones((2, 2), dtype=int))
    with pytest.raises(TypeError, match="k holds int64"):
        linear_attention_step(None, np.ones(2), np.ones(2, dtype=int), np.ones(2))


weights = MultiHeadWeights.random(12, 4, seed=0, h_kv=2)
x = np.ones((2, 1, 12))


def test_a_full_cache_says_so_and_stays_as_it_is():
    cache = KVCache.for_weights(weights, B=2, N_max=3)
    decode_step(np.ones((2, 3, 12)), weights, cache, lengths=[1, 3])
    before = cache.K.copy()
    message = "The cache is full: it has room for N_max = 3 tokens, sentence 1 has 3 and gets 1 more. Make one with"
    with pytest.raises(ValueError, match=message):
        decode_step(x, weights, cache)
    assert cache.lengths.tolist() == [1, 3]
    np.testing.assert_array_equal(cache.K, before)
    decode_step(x, weights, cache, lengths=[1, 0])
    assert cache.lengths.tolist() == [2, 3]


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda c: decode_step(x[:, 0], weights, c),
            ValueError,
            r"x has shape \[2, 12\], but needs the axes \[B, n, d",
        ),
        (lambda c: decode_step(x[..., :9], weights, c), ValueError, "The axis d_model disagrees: x has 9, W_Q has 12"),
        (lambda c: decode_step(x[:1], weights, c), ValueError, "The axis B disagrees: x has 1, cache has 2"),
        (lambda c: decode_step(x, weights, c, lengths=[1]), ValueError, "lengths has 1 numbers, but there are B = 2"),
        (lambda c: decode_step(x, weights, c, lengths=[1, 2]), ValueError, "lengths has 2, but there are only n = 1"),
        (lambda c: decode_step(x, weights, c, lengths=[1, -1]), ValueError, "each of lengths must be at least 0"),
        (lambda c: decode_step(x, weights, c, lengths=[1, 0.5]), TypeError, "each of lengths must be a whole number"),
        (lambda c: decode_step(x, weights, c, lengths=1), TypeError, "lengths must hold 2 whole numbers, not 1"),
        (lambda c: decode_step(x.astype(int), weights, c), TypeError, "x holds int64"),
        (lambda c: decode_step(x, weights, c.K), TypeError, "cache must be a KVCache, not ndarray"),
        (lambda c: decode_step(x, c, c), TypeError, "weights must be MultiHeadWeights, not KVCache"),
        (
            lambda c: decode_step(x, MultiHeadWeights.random(12, 4, seed=0), c),
            ValueError,
            "The axis h_kv disagrees: K has 4",
        ),
        (lambda c: decode_step(x.astype("f4"), weights, c), TypeError, "All arrays must have one dtype"),
        (lambda c: c.append(np.ones((2, 2, 1, 3)), np.ones((2, 2, 2, 3))), ValueError, "The axis n disagrees"),
        (
            lambda c: c.append(np.ones((2, 2, 1, 3)), np.ones((2, 2, 1, 4))),
            ValueError,
            "The axis d_v disagrees: V has 4",
        ),
        (lambda c: c.append(np.ones((2, 2, 1, 3)), torch.ones(2, 2, 1, 3)), TypeError, "must come from one library"),
        (lambda c: c.append(np.ones((2, 1, 3)), np.ones((2, 1, 3))), ValueError, r"K has shape \[2, 1, 3\], but needs"),
    ],
)
def test_what_does_not_fit_a_cache(call, kind, message):
    cache = KVCache.for_weights(weights, B=2, N_max=3)
    with pytest.raises(kind, match=message):
        call(cache)
    assert cache.lengths.tolist() == [0, 0]


@pytest.mark.parametrize("name", ["B", "N_max", "h_kv", "d_h", "d_v"])
def test_sizes_of_a_cache(name):
    sizes = {"B": 1, "N_max": 2, "h_kv": 1, "d_h": 3, "d_v": 3}
    with pytest.raises(ValueError, match=f"{name} must be at least 1, not 0"):
        KVCache(**(sizes | {name: 0}))


def test_decoding_asks_for_no_grad():
    torch_weights = MultiHeadWeights.from_torch(torch.nn.MultiheadAttention(12, 4, batch_first=True))
    cache = KVCache.for_weights(torch_weights, B=2, N_max=3)
    with pytest.raises(ValueError, match=r"gradients cannot follow: call it under torch\.no_grad\(\)"):
        decode_step(torch.ones(2, 1, 12), torch_weights, cache)
    assert cache.lengths.tolist() == [0, 0]
    with torch.no_grad():
        decode_step(torch.ones(2, 1, 12), torch_weights, cache)


def test_heads_of_keys_must_divide_heads():
    W = [np.ones((12, 12)), np.ones((12, 9)), np.ones((12, 9)), np.ones((12, 12))]
    with pytest.raises(
        ValueError, match="h = 4 is not divisible by h_kv = 3: every head of keys and values serves h / h"
    ):
        MultiHeadWeights(*W, 4, h_kv=3)
    for call in (lambda: MultiHeadWeights.random(12, 4, seed=0, h_kv=3), lambda: multiply_adds(1, 2, 12, 4, h_kv=3)):
        with pytest.raises(ValueError, match="h = 4 is not divisible by h_kv = 3"):
            call()
    with pytest.raises(ValueError, match="h_kv must be at least 1, not 0"):
        MultiHeadWeights(*W, 4, h_kv=0)
    with pytest.raises(TypeError, match=r"h_kv must be a whole number, not 2\.0"):
        MultiHeadWeights(*W, 4, h_kv=2.0)
    with pytest.raises(ValueError, match="h \\* d_h \\(columns\\) disagrees: W_Q has 12, W_K, each 2 times has 18"):
        MultiHeadWeights(*W, 4, h_kv=2)
    narrow = [np.ones((12, 12)), np.ones((12, 6)), np.ones((12, 6)), np.ones((10, 12))]
    message = "W_O has 10 rows, but the concatenated heads have 12 components, as W_V has columns, each 2 times"
    with pytest.raises(ValueError, match=message):
        MultiHeadWeights(*narrow, 4, h_kv=2)


def test_grouped_weights_are_written_copied_and_kept():
    assert repr(weights) == "MultiHeadWeights(h=4, h_kv=2, W_Q [12, 12], W_K [12, 6], W_V [12, 6], W_O [12, 12])"
    for twin in (copy.deepcopy(weights), pickle.loads(pickle.dumps(weights))):
        assert (twin.h, twin.h_kv) == (4, 2)
        np.testing.assert_array_equal(multi_head_attention(x, twin).output, multi_head_attention(x, weights).output)
    assert MultiHeadWeights.random(12, 4, seed=0).h_kv == 4
    with pytest.raises(ValueError, match=r"nn\.MultiheadAttention needs heads that are together as wide as a token"):
        weights.to_torch()


def test_the_first_weights_do_not_depend_on_groups():
    np.testing.assert_array_equal(weights.W_Q, MultiHeadWeights.random(12, 4, seed=0).W_Q)
