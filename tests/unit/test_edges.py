"""Smallest sizes, odd dtypes, devices, and what may not be changed."""

import copy
import dataclasses
import pickle
from fractions import Fraction

import numpy as np
import pytest
import torch
from support import assert_close, to_numpy

from attnlib import (
    MultiHeadWeights,
    Vocabulary,
    add_positions,
    attention,
    causal_mask,
    check_shapes,
    embed,
    example,
    multi_head_attention,
    padding_mask,
    project,
    scores,
    sinusoidal_positions,
    softmax,
)

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_ids_of_any_integer_dtype(lib, dtype):
    """A vocabulary of 300 words does not fit into a byte, and the ids of this sentence do."""
    T, E = np.array([[5, 100], [44, 0]], dtype=dtype), np.arange(600.0).reshape(300, 2)
    assert_close(embed(lib(T), lib(E)), E[T.astype(int)], atol=0)
    with pytest.raises(IndexError, match=r"T\[0, 1\] is 100, but with vocab_size = 100"):
        embed(lib(T), lib(E[:100]))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_a_pad_id_beyond_the_dtype_of_the_ids_pads_nothing(lib, dtype):
    """torch alone compares a byte with 256 and 300 as if those were 0 and 44."""
    T = lib(np.array([0, 44, 7], dtype=dtype))
    assert to_numpy(padding_mask(T, 256)).all()
    assert to_numpy(padding_mask(T, 300)).all()
    np.testing.assert_array_equal(to_numpy(padding_mask(T, 44)), [[True, False, True]])


def test_an_id_beyond_int64_is_named():
    with pytest.raises(IndexError, match=str(2**63 + 5)):
        embed(np.array([2**63 + 5], dtype=np.uint64), np.ones((3, 2)))


def test_numpy_ids_look_up_a_torch_table():
    E = torch.arange(6.0).reshape(3, 2)
    assert_close(embed(np.array([2, 0])[::-1], E), E[[0, 2]], atol=0)


def test_no_ids_give_no_vectors(lib):
    assert tuple(embed(lib(np.zeros((2, 0), dtype=int)), lib(np.ones((3, 4)))).shape) == (2, 0, 4)
    assert sinusoidal_positions(0, 4).shape == (1, 0, 4)


@pytest.mark.parametrize("scale", [1, 0, -0.5, np.float32(0.5), np.float16(0.5), np.int64(2), Fraction(1, 2)], ids=str)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_scale_is_any_real_number_and_keeps_the_dtype(lib, scale, dtype):
    S = scores(lib(np.ones((1, 4), dtype)), lib(np.ones((1, 4), dtype)), scale=scale)
    assert S.dtype == lib.dtype(dtype)
    assert_close(S, [[4 * float(scale)]], atol=0)


def test_no_sentence_gives_no_output(lib):
    weights = MultiHeadWeights(*[lib(np.eye(12))] * 4, 3)
    trace = multi_head_attention(lib(np.ones((0, 5, 12))), weights, mask=causal_mask(5))
    assert trace.shapes()["A"] == (0, 3, 5, 5)
    assert trace.shapes()["output"] == (0, 5, 12)
    check_shapes(trace)


def test_no_query_gives_no_output(lib):
    weights = MultiHeadWeights(*[lib(np.eye(12))] * 4, 3)
    context, mask = lib(np.ones((2, 5, 12))), causal_mask(0, 5)
    trace = multi_head_attention(lib(np.ones((2, 0, 12))), weights, context=context, mask=mask)
    assert trace.shapes()["output"] == (2, 0, 12)


def test_one_token_one_component_a_head(rng, lib):
    """h = d_model: every head is a number wide. A single token can only read itself."""
    X, weights = lib(rng.normal(size=(2, 1, 4))), MultiHeadWeights(*[lib(np.eye(4))] * 4, 4)
    trace = multi_head_attention(X, weights, mask=causal_mask(1))
    assert_close(trace.A, np.ones((2, 4, 1, 1)), atol=0)
    assert_close(trace.output, X, atol=0)


def test_values_without_width(lib):
    H = attention(lib(np.ones((3, 2))), lib(np.ones((5, 2))), lib(np.ones((5, 0)))).H
    assert tuple(H.shape) == (3, 0)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_smallest_and_the_largest_numbers(lib, dtype):
    """Subnormal scores count as 0 or nearly; the two ends of the range give weights 0 and 1."""
    info = np.finfo(dtype)
    tiny, huge = float(info.smallest_subnormal), float(info.max)
    with np.errstate(over="ignore" if dtype != "float16" else "raise"):  # max - (-max) is inf, as it should be
        A = softmax(lib(np.array([[tiny, 0], [huge, -huge], [-huge, -np.inf]], dtype)))
    assert_close(A, [[0.5, 0.5], [1, 0], [1, 0]], atol=info.eps)


def test_half_precision_sums_in_float32(lib):
    """65536 ones: their sum is beyond float16, and each weight 1/65536 is a subnormal of it."""
    N = 2**16

    def full(value, *shape):
        return lib(np.full(shape, value, "float16"))

    assert_close(softmax(full(0, 1, N)), np.full((1, N), 2.0**-16), atol=0)
    assert_close(attention(full(0, 1, 1), full(0, N, 1), full(1, N, 1)).H, [[1]], atol=0)
    assert_close(project(full(1, 1, N), full(0.5, N, 1)), [[32768]], atol=0)


def test_an_infinite_score_shows_as_nan(lib):
    with np.errstate(invalid="ignore"):
        assert np.isnan(to_numpy(softmax(lib(np.array([np.inf, 0.0]))))).all()
    assert np.isnan(to_numpy(softmax(lib(np.array([np.nan, 0.0]))))).all()


def test_a_bias_takes_the_dtype_of_the_scores(lib):
    """Such as a NumPy bias, which is float64, for float32 scores."""
    zeros = lib(np.zeros((2, 3), "float32"))
    result = attention(zeros, zeros, zeros, bias=np.log([[1.0, 3.0], [1.0, 1.0]]))
    assert result.A.dtype == lib.dtype("float32")
    assert_close(result.A, [[0.25, 0.75], [0.5, 0.5]], atol=1e-7)


def test_a_numpy_mask_goes_with_tensors_that_require_a_gradient():
    X = torch.ones(3, 2, requires_grad=True)
    attention(X, X, X, mask=causal_mask(3)[::-1, ::-1]).H.sum().backward()
    assert X.grad.isfinite().all()


def test_tensors_without_memory_give_shapes():
    """On the device "meta" torch computes shapes alone; nothing here looks at a value."""
    X = torch.empty(2, 5, 12, device="meta")
    weights = MultiHeadWeights(*[torch.empty(12, 12, device="meta")] * 4, 3)
    trace = multi_head_attention(X, weights, mask=causal_mask(5), bias=np.zeros((5, 5), "float32"))
    assert trace.output.device.type == "meta"
    assert trace.shapes()["A"] == (2, 3, 5, 5)
    assert causal_mask(3, like=X).device.type == sinusoidal_positions(3, 4, like=X).device.type == "meta"


def test_positions_like_integers_are_float64(lib):
    X_pos = sinusoidal_positions(3, 4, like=lib(np.array([1])))
    assert lib.owns(X_pos)
    assert X_pos.dtype == lib.dtype("float64")


def test_results_share_no_memory_with_inputs(rng, lib):
    """Whoever writes into a result leaves X alone. (trace.X is X, and split_heads returns a view.)"""
    X = rng.normal(size=(1, 5, 12))
    before = X.copy()
    x = lib(X)
    trace = multi_head_attention(x, MultiHeadWeights(*[lib(np.eye(12))] * 4, 3), mask=causal_mask(5))
    for name in list(trace.shapes())[1:]:
        getattr(trace, name)[...] = 0
    embed(lib(np.array([0])), x[0])[...] = 0
    add_positions(x, x)[...] = 0
    assert_close(x, before, atol=0)


def test_frozen_dataclasses_stay_as_they_are():
    weights, running = MultiHeadWeights.random(12, 3, seed=0), example()
    trace = multi_head_attention(running.X, weights)
    for thing, name in [(weights, "W_Q"), (trace, "A"), (running, "X")]:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(thing, name, None)
    with pytest.raises(AttributeError):
        attention(running.X, running.X, running.X).A = None


def test_weights_are_copied_and_pickled():
    weights = MultiHeadWeights.random(12, 3, seed=0)
    for twin in (copy.deepcopy(weights), pickle.loads(pickle.dumps(weights)), dataclasses.replace(weights)):
        np.testing.assert_array_equal(twin.W_O, weights.W_O)
        assert repr(twin) == repr(weights)


def test_random_weights_keep_the_size_of_a_component():
    weights = MultiHeadWeights.random(400, 4, seed=0)
    np.testing.assert_array_equal(weights.W_K, MultiHeadWeights.random(400, 4, seed=0).W_K)
    assert (weights.W_K != MultiHeadWeights.random(400, 4, seed=1).W_K).all()
    assert (weights.W_Q != weights.W_K).all()
    assert weights.W_Q.std() == pytest.approx(1 / 20, rel=0.01)


def test_reprs_show_shapes_and_no_numbers():
    weights = MultiHeadWeights(*[np.eye(12)] * 4, 3, b_O=np.ones(12))
    assert repr(weights) == "MultiHeadWeights(h=3, W_Q [12, 12], W_K [12, 12], W_V [12, 12], W_O [12, 12], b_O [12])"
    trace = repr(multi_head_attention(np.ones((2, 5, 12)), weights))
    assert trace.startswith("AttentionTrace(X [2, 5, 12], Q [2, 3, 5, 4],")
    assert repr(Vocabulary(["a", "[PAD]"])) == "Vocabulary of 2 words, pad_id 1"


def test_vocabulary_takes_tokens_sentences_and_rows_of_either_library(lib):
    vocabulary = Vocabulary((word for word in ["the", "river", "bank"]), pad="bank")
    T = vocabulary.encode_batch(text for text in ["the river the", ["river"], ""])
    np.testing.assert_array_equal(T, [[0, 1, 0], [1, 2, 2], [2, 2, 2]])
    assert T.dtype == np.int64
    assert vocabulary.decode(lib(T[1])) == ["river", "bank", "bank"]
    assert vocabulary.decode([]) == []
    assert len(vocabulary) == 3


def test_check_shapes_accepts_cross_attention_with_wide_values(rng):
    weights = MultiHeadWeights(np.ones((12, 6)), np.ones((8, 6)), np.ones((8, 15)), np.ones((15, 12)), 3)
    trace = multi_head_attention(rng.normal(size=(2, 4, 12)), weights, context=rng.normal(size=(2, 7, 8)))
    check_shapes(trace)
    assert trace.shapes()["concat"] == (2, 4, 15)
    assert trace.shapes()["output"] == (2, 4, 12)
