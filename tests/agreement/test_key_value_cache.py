"""Decoding with a cache against the whole causal pass; grouped heads against torch and against repeated matrices."""

import numpy as np
import pytest
import torch
from support import assert_close, gradients, to_numpy
from torch.nn.functional import scaled_dot_product_attention

from attnlib import (
    KVCache,
    MultiHeadWeights,
    attention,
    causal_mask,
    check_shapes,
    decode_step,
    multi_head_attention,
    multiply_adds,
    padding_mask,
    repeat_heads,
    rotate,
    tensor_bytes,
)

B, d_model, h, d_v = 2, 12, 4, 5
GROUPS = pytest.mark.parametrize("h_kv", [1, 2, 4])


def weights_of(lib, rng, h_kv=h, dtype="float64"):
    """Weights with biases, whose values have a width of their own."""
    shapes = [(d_model, d_model), (d_model, h_kv * 3), (d_model, h_kv * d_v), (h * d_v, d_model)]
    W = [lib(rng.normal(size=shape).astype(dtype) / 3) for shape in shapes]
    return MultiHeadWeights(*W, h, *(lib(rng.normal(size=s[1]).astype(dtype)) for s in shapes), h_kv=h_kv)


@pytest.mark.parametrize("N", range(1, 65))
def test_token_by_token_equals_the_whole_pass(rng, lib, N):
    weights, X = weights_of(lib, rng, h_kv=2), lib(rng.normal(size=(B, N, d_model)))
    whole = multi_head_attention(X, weights, mask=causal_mask(N)).output
    cache = KVCache.for_weights(weights, B, N)
    for t in range(N):
        assert_close(decode_step(X[:, t : t + 1], weights, cache)[:, 0], whole[:, t])
    assert cache.lengths.tolist() == [N] * B


@GROUPS
@pytest.mark.parametrize("pieces", [(7,), (4, 1, 1, 1), (1, 3, 3), (2, 5)])
def test_a_prompt_at_once_and_then_the_rest(rng, lib, h_kv, pieces):
    weights, X = weights_of(lib, rng, h_kv), lib(rng.normal(size=(B, 7, d_model)))
    cache, start, outputs = KVCache.for_weights(weights, B, 9), 0, []
    for n in pieces:
        outputs.append(to_numpy(decode_step(X[:, start : start + n], weights, cache)))
        start += n
    whole = multi_head_attention(X, weights, mask=causal_mask(7))
    assert_close(np.concatenate(outputs, axis=1), whole.output)
    assert_close(cache.K[:, :, :7], whole.K)
    assert_close(cache.V[:, :, :7], whole.V)
    assert (to_numpy(cache.K)[:, :, 7:] == 0).all()


@GROUPS
@pytest.mark.parametrize("garbage", [0.0, 1e6, np.nan])
def test_sentences_of_unequal_lengths(rng, lib, h_kv, garbage):
    """Prompts of 5, 2 and no tokens, then three steps together: each sentence as if it were alone."""
    weights, lengths = weights_of(lib, rng, h_kv), [5, 2, 0]
    X = rng.normal(size=(3, 8, d_model))
    prompt = X[:, :5].copy()
    for b, n in enumerate(lengths):
        prompt[b, n:] = garbage
    cache = KVCache.for_weights(weights, 3, 8)
    first = to_numpy(decode_step(lib(prompt), weights, cache, lengths=np.array(lengths)))
    steps = []
    for t in range(3):
        x = np.stack([X[b, n + t] for b, n in enumerate(lengths)])[:, None]
        steps.append(to_numpy(decode_step(lib(x), weights, cache)))
    assert cache.lengths.tolist() == [8, 5, 3]
    for b, n in enumerate(lengths):
        alone = multi_head_attention(lib(X[b : b + 1, : n + 3]), weights, mask=causal_mask(n + 3)).output[0]
        assert_close(np.concatenate([first[b, :n], *(step[b] for step in steps)]), alone)
        assert_close(first[b, n:], np.broadcast_to(to_numpy(weights.b_O), first[b, n:].shape))  # padding reads nothing


@pytest.mark.parametrize("N", [3, 9])
def test_unequal_lengths_equal_the_padded_pass(rng, lib, N):
    weights, lengths = weights_of(lib, rng), [N, N - 2]
    X, T = rng.normal(size=(B, N, d_model)), np.ones((B, N), dtype=int)
    T[1, N - 2 :] = 0
    whole = multi_head_attention(lib(X), weights, mask=padding_mask(T, pad_id=0) & causal_mask(N)).output
    H = decode_step(lib(X), weights, KVCache.for_weights(weights, B, N), lengths=lengths)
    for b, n in enumerate(lengths):
        assert_close(H[b, :n], whole[b, :n])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_dtype_and_library_are_kept(rng, lib, dtype):
    weights, x = weights_of(lib, rng, 2, dtype), lib(rng.normal(size=(B, 1, d_model)).astype(dtype))
    cache = KVCache.for_weights(weights, B, 4)
    for output in (decode_step(x, weights, cache), cache.K, cache.V, rotate(x)):
        assert lib.owns(output)
        assert output.dtype == lib.dtype(dtype)
    assert cache.nbytes == B * 2 * 4 * (3 + d_v) * int(dtype[5:]) // 8


def test_a_decoded_token_costs_no_new_arrays(rng, lib):
    """The cache is written into: its memory stays where it is, and the caller's tokens stay as they are."""
    weights, x = weights_of(lib, rng), lib(rng.normal(size=(B, 1, d_model)))
    cache, before = KVCache.for_weights(weights, B, 5), to_numpy(x).copy()
    K, V = cache.K, cache.V
    for _ in range(5):
        decode_step(x, weights, cache)
    assert cache.K is K
    assert cache.V is V
    assert_close(x, before, atol=0)


def test_decoding_goes_with_parameters_where_no_gradient_is_kept(rng):
    weights, x = weights_of(torch.tensor, rng), torch.tensor(rng.normal(size=(B, 1, d_model)))
    for W in weights.arrays().values():
        W.requires_grad_()
    with torch.no_grad():
        assert not decode_step(x, weights, KVCache.for_weights(weights, B, 1)).requires_grad


@GROUPS
@pytest.mark.parametrize("causal", [False, True])
def test_grouped_heads_agree_with_torch(rng, lib, h_kv, causal):
    weights, X = weights_of(lib, rng, h_kv), lib(rng.normal(size=(B, 7, d_model)))
    trace = multi_head_attention(X, weights, mask=causal_mask(7) if causal else None)
    assert trace.K.shape[1] == trace.V.shape[1] == h_kv
    QKV = [torch.tensor(to_numpy(Z)) for Z in (trace.Q, trace.K, trace.V)]
    assert_close(trace.H, scaled_dot_product_attention(*QKV, is_causal=causal, enable_gqa=True), atol=1e-10)


@GROUPS
def test_grouped_heads_equal_repeated_matrices(rng, lib, h_kv):
    """Copy each key and value head's columns for the heads that share it: the same as ordinary heads. Gradients too."""
    weights, X = weights_of(lib, rng, h_kv), lib(rng.normal(size=(B, 7, d_model)))

    def repeated(name):
        x = to_numpy(getattr(weights, name))
        pieces = x.reshape(*x.shape[:-1], h_kv, -1)
        return lib(np.repeat(pieces, h // h_kv, axis=-2).reshape(*x.shape[:-1], -1))

    wide = {name: repeated(name) for name in ("W_K", "W_V", "b_K", "b_V")}
    plain = MultiHeadWeights(**(weights.arrays() | wide), h=h)
    for mask in (None, causal_mask(7)):
        trace = multi_head_attention(X, weights, mask=mask)
        assert_close(trace.output, multi_head_attention(X, plain, mask=mask).output)
        assert_close(trace.H, attention(trace.Q, repeat_heads(trace.K, h), repeat_heads(trace.V, h), mask=mask).H)


def test_gradients_of_shared_heads_add_up(rng):
    K = rng.normal(size=(B, 2, 3, 5))
    gradient = gradients(lambda K: repeat_heads(K, 6) ** 2, K)[0]
    expected = gradients(lambda K: K**2, np.repeat(K, 3, axis=1))[0].reshape(B, 2, 3, 3, 5).sum(axis=2)
    assert_close(gradient, expected)


@GROUPS
def test_counts_and_shapes_know_of_groups(h_kv):
    weights = MultiHeadWeights.random(d_model, h, seed=0, h_kv=h_kv)
    trace = multi_head_attention(np.ones((B, 7, d_model)), weights)
    check_shapes(trace, h_kv=h_kv)
    counts = tensor_bytes(B, 7, d_model, h, itemsize=8, h_kv=h_kv)
    assert {name: getattr(trace, name).nbytes for name in trace.shapes()} == counts
    needed = multiply_adds(B, 7, d_model, h, h_kv=h_kv)
    assert needed["K"] == needed["V"] == B * 7 * weights.W_K.size
    assert KVCache.for_weights(weights, B, 7).nbytes == counts["K"] + counts["V"]
    if h_kv < h:
        with pytest.raises(ValueError, match=r"K has shape .*: its axis 1 is h, which is 4 by Q, not"):
            check_shapes(trace)
        with pytest.raises(ValueError, match=r"K has shape .*: its axis 1 is h_kv, which is 4 by the sizes given, not"):
            check_shapes(trace, h_kv=h)
