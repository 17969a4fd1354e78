"""Faults reported elsewhere in attention code, one test for each kind: the least input that shows it, the right value.

The numbers after A are those of the list that the project keeps of such reports.
"""

import numpy as np
import pytest
from support import assert_close, gradients, to_numpy

from attnlib import (
    MultiHeadWeights,
    Vocabulary,
    add_positions,
    apply_mask,
    attention,
    causal_mask,
    concat_heads,
    embed,
    multi_head_attention,
    padding_mask,
    scores,
    sinusoidal_positions,
    softmax,
    split_heads,
)

ln3 = np.log(3)


def read_equally(V, mask, N_q=None):
    """Return H for scores that are all 0: the mean of the values that each query may read."""
    V = np.asarray(V, dtype=float)[:, None]
    return attention(np.zeros((N_q or len(V), 2)), np.zeros((len(V), 2)), V, mask=mask).H[:, 0]


def identity_weights(d_model, h):
    return MultiHeadWeights(*[np.eye(d_model)] * 4, h)


# Masks


def test_A01_a_query_that_may_read_nothing_gives_0(lib):
    eye, mask = lib(np.eye(2)), np.array([[True, True], [False, False]])
    S, S_masked, A, H = attention(eye, eye, eye, mask=mask)
    assert_close(A, [[0.6698, 0.3302], [0, 0]], atol=5e-5)
    assert_close(H, A)
    assert (to_numpy(S_masked)[1] == -np.inf).all()
    assert np.isfinite(to_numpy(S)).all()


def test_A01_in_every_function_and_with_finite_gradients(lib):
    X, mask = lib(np.eye(2)[None]), np.array([[True, True], [False, False]])
    weights = MultiHeadWeights(*[lib(np.eye(2))] * 4, 1)
    assert_close(multi_head_attention(X, weights, mask=mask).output[0, 1], [0, 0], atol=0)
    assert_close(softmax(lib(np.full((1, 3), -np.inf))), [[0, 0, 0]], atol=0)
    if lib.name == "torch":
        dX, dS = gradients(lambda X: attention(X, X, X, mask=mask).H, X) + gradients(softmax, np.full((1, 3), -np.inf))
        assert dX.isfinite().all()
        assert (dS == 0).all()


def test_A02_an_empty_row_is_no_average(lib):
    V = lib(np.array([[1.0], [2.0], [99.0]]))
    result = attention(lib(np.zeros((3, 2))), lib(np.zeros((3, 2))), V, mask=np.zeros((3, 3), dtype=bool))
    assert (to_numpy(result.A) == 0).all()  # not 1/3
    assert (to_numpy(result.H) == 0).all()  # not 34.0


def test_A04_a_masked_key_weighs_exactly_0():
    V = np.array([[1.0], [100.0]])
    A, H = attention(np.zeros((1, 1)), np.zeros((2, 1)), V, mask=np.array([[True, False]]))[2:]
    np.testing.assert_array_equal(A, [[1, 0]])
    np.testing.assert_array_equal(H, [[1]])  # with the typing error -1e-9 for -1e9: 50.5


@pytest.mark.parametrize("anything", [1e300, np.inf, np.nan])
def test_A04_what_is_masked_may_hold_anything(rng, anything):
    K, V, mask = rng.normal(size=(3, 2)), rng.normal(size=(3, 2)), np.array([[True, True, False]])
    H = attention(np.ones((1, 2)), K, V, mask=mask).H
    K[2], V[2] = anything, -anything
    np.testing.assert_array_equal(attention(np.ones((1, 2)), K, V, mask=mask).H, H)  # to the last bit


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_A06_causal_and_padding_combine_without_overflow(lib, dtype):
    """Two additive masks of the most negative number would add up to -inf, with a warning."""
    padding = padding_mask(np.array([[0, 0, 0, 1, 1]]), pad_id=0)[0]
    mask = causal_mask(5) & padding
    zeros = lib(np.zeros((5, 2), dtype=dtype))
    A = to_numpy(attention(zeros, zeros, zeros, mask=mask).A)
    assert (A[:3] == 0).all()
    np.testing.assert_array_equal(A[3:], [[0, 0, 0, 1, 0], [0, 0, 0, 0.5, 0.5]])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_A07_masks_fit_every_dtype(rng, lib, dtype):
    X = rng.normal(size=(4, 3)).astype(dtype)
    result = attention(*[lib(X)] * 3, mask=causal_mask(4))
    exact = attention(*[X.astype(np.float64)] * 3, mask=causal_mask(4))
    assert all(x.dtype == lib.dtype(dtype) for x in result)
    assert_close(result.H, exact.H, atol=4 * np.finfo(dtype).eps)


def test_A07_float16_scores_near_the_largest_number(lib):
    Q, K = np.array([[160.0] * 4], "float16"), np.array([[180.0] * 4, [187.0] * 4], "float16")
    _, _, A, H = attention(lib(Q), lib(K), lib(np.array([[1.0], [3.0]], "float16")))
    assert_close(A, [[0, 1]], atol=0)
    assert_close(H, [[3]], atol=0)


def test_A07_float16_scores_beyond_the_largest_number(lib):
    """S itself does not fit and reads inf; weights and output, computed in float32, are right."""
    Q, K = np.array([[250.0] * 4], "float16"), np.array([[300.0] * 4, [310.0] * 4], "float16")
    with np.errstate(over="ignore"):
        S, _, A, H = attention(lib(Q), lib(K), lib(np.array([[1.0], [3.0]], "float16")))
    assert np.isinf(to_numpy(S)).all()
    assert_close(A, [[0, 1]], atol=0)
    assert_close(H, [[3]], atol=0)


def test_A08_true_means_may_be_read():
    mask = np.tril(np.ones((3, 3), dtype=bool))
    np.testing.assert_array_equal(causal_mask(3), mask)
    assert_close(read_equally([0, 1, 2], mask), [0, 0.5, 1])  # reversed, row 0 would give 1.5


@pytest.mark.parametrize("dtype", ["float64", "int64", "uint8"])
def test_A09_A10_a_mask_of_numbers_is_refused(lib, dtype):
    zeros, mask = lib(np.zeros((3, 2))), np.tril(np.ones((3, 3), dtype=dtype))
    for M in (mask, lib(mask)):
        with pytest.raises(TypeError, match=f"mask holds .*{dtype}, but must be boolean.* write mask == 1.* bias="):
            attention(zeros, zeros, zeros, mask=M)
        with pytest.raises(TypeError, match=f"mask holds .*{dtype}"):
            apply_mask(lib(np.zeros((3, 3))), M)
    expected = attention(zeros, zeros, zeros, mask=causal_mask(3)).A
    assert_close(attention(zeros, zeros, zeros, mask=mask == 1).A, expected)


def test_A10_an_additive_mask_goes_to_bias():
    additive = np.where(causal_mask(3), 0.0, -np.inf)
    zeros = np.zeros((3, 2))
    assert_close(attention(zeros, zeros, zeros, bias=additive).A, attention(zeros, zeros, zeros, mask=causal_mask(3)).A)
    with pytest.raises(TypeError, match=r"bias holds bool, .* A boolean mask goes to mask="):
        attention(zeros, zeros, zeros, bias=causal_mask(3))


def test_A11_masked_scores_become_minus_infinity_and_not_0(lib):
    S, mask = lib(np.array([[0.43, -0.21, 0.99, 0.32, -0.35, 0.04]])), np.arange(6)[None] < 3
    assert_close(softmax(apply_mask(S, mask)), [[0.3051, 0.1609, 0.5341, 0, 0, 0]], atol=5e-5)


def test_A12_the_mask_comes_before_softmax():
    """Afterwards the row would sum to 0.5; dividing by that sum would mend it."""
    S, mask = np.zeros((1, 2)), np.array([[True, False]])
    np.testing.assert_array_equal(softmax(apply_mask(S, mask)), [[1, 0]])
    after = softmax(S) * mask
    assert after.sum() == 0.5
    np.testing.assert_array_equal(after / after.sum(), [[1, 0]])


def test_A13_masking_has_an_effect_and_no_side_effect(lib):
    S, mask = lib(np.zeros((3, 3))), lib(causal_mask(3))
    S_masked = apply_mask(S, mask)
    assert (to_numpy(S_masked)[~causal_mask(3)] == -np.inf).all()
    assert_close(S, np.zeros((3, 3)), atol=0)
    np.testing.assert_array_equal(to_numpy(mask), causal_mask(3))
    assert_close(apply_mask(S, mask), S_masked, atol=0)


def test_A14_padding_hides_keys_and_not_queries():
    mask = padding_mask(np.array([7, 7, 0]), pad_id=0)
    assert_close(read_equally([1, 3, 100], mask), [2, 2, 2])  # hiding queries: 34.67, 34.67, 0


def test_A14_sentences_of_different_lengths():
    T = np.array([[5, 5, 0], [5, 0, 0]])
    V = np.array([[[1.0], [3.0], [100.0]]] * 2)
    H = attention(np.zeros((2, 3, 1)), np.zeros((2, 3, 1)), V, mask=padding_mask(T, 0)).H
    assert_close(H[..., 0], [[2, 2, 2], [1, 1, 1]])


def test_A15_rows_of_padded_queries_are_computed_like_others():
    mask = causal_mask(5) & padding_mask(np.array([1, 2, 3, 0, 0]), pad_id=0)
    np.testing.assert_array_equal(mask[3:].astype(int), [[1, 1, 1, 0, 0]] * 2)
    assert_close(read_equally([1, 2, 3, 50, 60], mask), [1, 1.5, 2, 2, 2])


def test_A16_padding_leaves_real_tokens_alone(rng, lib):
    """The mean over real tokens is the same; a mean over all places would not be."""
    X, weights = rng.normal(size=(1, 4, 12)), MultiHeadWeights.random(12, 3, seed=0)
    weights = MultiHeadWeights(**{name: lib(W) for name, W in weights.arrays().items()}, h=3)
    alone = multi_head_attention(lib(X), weights).output
    mask = padding_mask(np.array([[1, 1, 1, 1, 0, 0, 0]]), pad_id=0)
    padded = np.concatenate([X, np.zeros((1, 3, 12))], axis=1)
    output = to_numpy(multi_head_attention(lib(padded), weights, mask=mask).output)
    assert_close(output[:, :4], alone)
    assert np.abs(output.mean(axis=1) - to_numpy(alone).mean(axis=1)).max() > 0.01


def test_A17_two_axes_are_always_queries_and_keys():
    """With B = h = N = 2 a mask of two axes could mean three things; it means [N_q, N_k]."""
    X = np.stack([np.zeros((2, 4)), np.ones((2, 4))])
    mask = np.array([[True, False], [True, True]])
    A = multi_head_attention(X, identity_weights(4, 2), mask=mask).A
    np.testing.assert_array_equal(A, np.broadcast_to([[1, 0], [0.5, 0.5]], (2, 2, 2, 2)))


def test_A17_three_axes_are_always_sentences():
    """With B = h, one sentence of the batch is padded, and not one head of both."""
    mask = padding_mask(np.array([[1, 0], [1, 1]]), pad_id=0)  # [2, 1, 2]
    A = multi_head_attention(np.zeros((2, 2, 4)), identity_weights(4, 2), mask=mask).A
    np.testing.assert_array_equal(A[0], np.broadcast_to([1, 0], (2, 2, 2)))
    np.testing.assert_array_equal(A[1], np.full((2, 2, 2), 0.5))


def test_A17_a_mask_of_ids_shape_is_refused():
    """[B, N] with B = 2, h = 3, N = 4: ask padding_mask for [B, 1, N]."""
    X, mask = np.zeros((2, 4, 6)), np.ones((2, 4), dtype=bool)
    with pytest.raises(ValueError, match=r"mask has shape \[2, 4\].*queries, N_q.* is 2 and must be 4 or 1"):
        multi_head_attention(X, identity_weights(6, 3), mask=mask)
    with pytest.raises(ValueError, match=r"mask has shape \[4\].*so that no axis is guessed"):
        multi_head_attention(X, identity_weights(6, 3), mask=mask[0])


@pytest.mark.parametrize(("N_q", "expected"), [(2, [1.5, 2.0]), (1, [2.0]), (6, [0, 0, 0.5, 1, 1.5, 2])])
def test_A19_causal_aligns_at_the_end(N_q, expected):
    """The last query sees all five keys. Aligned at the start, N_q = 1 would see only key 0."""
    assert_close(read_equally(range(5), causal_mask(N_q, 5), N_q), expected)


def test_A21_diagonal_is_visible():
    zeros = np.zeros((3, 2))
    A, H = attention(zeros, zeros, np.array([[0.0], [1.0], [2.0]]), mask=causal_mask(3))[2:]
    assert (np.triu(A, 1) == 0).all()
    assert (np.diag(A) > 0).all()
    np.testing.assert_array_equal(A[0], [1, 0, 0])
    assert_close(H[:, 0], [0, 0.5, 1])


# Softmax and scale


def test_A22_softmax_runs_over_keys(lib):
    S = np.array([[0, ln3], [0, 0]])
    assert_close(softmax(lib(S)), [[0.25, 0.75], [0.5, 0.5]])  # over queries: [[.5, .75], [.5, .25]]
    assert_close(softmax(lib(np.broadcast_to(S, (2, 3, 2, 2)))).sum(-1), np.ones((2, 3, 2)))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_A23_large_scores_do_not_overflow(lib, dtype):
    S = np.array([[1000, 1000], [1000, 0], [-1000, -1000]], dtype=dtype)
    assert_close(softmax(lib(S)), [[0.5, 0.5], [1, 0], [0.5, 0.5]], atol=0)
    assert_close(softmax(lib(S - S[:, :1])), softmax(lib(S)), atol=0)


@pytest.mark.parametrize("h", [1, 2, 4])
def test_A24_scale_is_that_of_a_head(h):
    trace = multi_head_attention(np.ones((1, 1, 4)), identity_weights(4, h))
    d_h = 4 // h
    assert_close(trace.S, np.full((1, h, 1, 1), d_h / np.sqrt(d_h)))  # h = 2: 1.4142, by sqrt(d_model) 1.0
    assert_close(trace.S[:, 0], scores(np.ones((1, 1, d_h)), np.ones((1, 1, d_h))))


def test_A25_scale_is_applied_once_and_before_softmax(lib):
    ones = lib(np.ones((1, 2)))
    assert_close(scores(ones, ones), [[1.4142]], atol=5e-5)  # inverted 2.8284, missing 2.0, twice 1.0
    assert_close(attention(ones, ones, ones).S, scores(ones, ones))
    assert_close(scores(ones, ones, scale=1.0), [[2]])
    assert_close(attention(ones, ones, ones, scale=1.0).S, [[2]])
    weights = MultiHeadWeights(*[lib(np.eye(2))] * 4, 1)
    assert_close(multi_head_attention(ones[None], weights, scale=1.0).S, [[[[2]]]])
    assert_close(attention(ones, ones, ones, scale=3.0).A, [[1]])


def test_A26_scaling_q_or_the_product_is_the_same_up_to_rounding(rng):
    Q, K = rng.normal(size=(2, 50, 64)).astype(np.float32)
    S, scaled_before, scaled_after = scores(Q, K), (Q * 0.125) @ K.T, (Q @ K.T) * 0.125
    assert_close(S, scaled_before, atol=1e-6 * np.abs(S).max())
    assert_close(S, scaled_after, atol=1e-6 * np.abs(S).max())


# Heads


def test_A27_splitting_swaps_axes(lib):
    pieces = split_heads(lib(np.arange(8.0).reshape(1, 2, 4)), 2)
    assert_close(pieces[0], [[[0, 1], [4, 5]], [[2, 3], [6, 7]]], atol=0)  # reshape alone: [[0, 1], [2, 3]] first
    assert_close(split_heads(lib(np.arange(12.0).reshape(3, 4)), 2)[1], [[2, 3], [6, 7], [10, 11]], atol=0)


def test_A28_concat_keeps_tokens_apart():
    H = np.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], dtype=float)  # ab, cd in head 0; ef, gh in head 1
    np.testing.assert_array_equal(concat_heads(H), [[1, 2, 5, 6], [3, 4, 7, 8]])
    H[:, 1] = 0  # token 1 of both heads
    np.testing.assert_array_equal(concat_heads(H)[0], [1, 2, 5, 6])


def test_A29_attention_runs_along_tokens_and_not_heads(rng):
    """[B, h, N, d_h] with N = h: swapped axes fit, and give something else."""
    Q, K, V = rng.normal(size=(3, 1, 3, 3, 2))
    H = attention(Q, K, V).H
    order = [2, 0, 1]
    assert_close(attention(Q[:, :, order], K[:, :, order], V[:, :, order]).H, H[:, :, order])
    swapped = attention(*(x.swapaxes(1, 2) for x in (Q, K, V))).H.swapaxes(1, 2)
    assert np.abs(swapped - H).max() > 0.1


@pytest.mark.parametrize("h", [3, 0, -1, 4, 20])
def test_A30_h_divides_d_model(h):
    message = f"d_model = 10 is not divisible by h = {h}" if h > 0 else f"h must be at least 1, not {h}"
    with pytest.raises(ValueError, match=message):
        split_heads(np.ones((2, 10)), h)
    with pytest.raises(ValueError, match=message):
        MultiHeadWeights.random(10, h, seed=0)
    with pytest.raises(ValueError, match=message.replace("d_model =", "the width of W_Q =")):
        MultiHeadWeights(*[np.eye(10)] * 4, h)


def test_A31_values_have_their_own_width(rng, lib):
    Q, K, V = rng.normal(size=(2, 2)), rng.normal(size=(3, 2)), rng.normal(size=(3, 5))
    S, _, A, H = attention(lib(Q), lib(K), lib(V))
    assert tuple(H.shape) == (2, 5)
    assert_close(S, Q @ K.T / np.sqrt(2))  # the scale is that of d_h, not d_v
    assert_close(H, to_numpy(A) @ V)


@pytest.mark.parametrize("bias", [False, True])
def test_A33_without_biases_0_gives_0(bias):
    import torch

    module = torch.nn.MultiheadAttention(12, 3, bias=bias, dtype=torch.float64)
    if bias:
        torch.nn.init.ones_(module.out_proj.bias)
    weights = MultiHeadWeights.from_torch(module)
    output = multi_head_attention(torch.zeros(1, 2, 12, dtype=torch.float64), weights).output
    assert_close(output, np.full((1, 2, 12), float(bias)), atol=0)
    assert sum(x.numel() for x in weights.arrays().values()) == 4 * 12 * 12 + bias * 4 * 12


def test_A34_packed_weights_come_apart_in_order():
    import torch

    module = torch.nn.MultiheadAttention(4, 2, dtype=torch.float64)
    with torch.no_grad():
        module.in_proj_weight.copy_(torch.arange(1.0, 4).repeat_interleave(4)[:, None].expand(12, 4))
        module.in_proj_bias.copy_(-torch.arange(1.0, 4).repeat_interleave(4))
    weights = MultiHeadWeights.from_torch(module)
    for value, name in enumerate("QKV", start=1):
        assert (getattr(weights, f"W_{name}") == value).all()
        assert (getattr(weights, f"b_{name}") == -value).all()


def test_A35_every_head_keeps_its_weights():
    """Two heads that look at different keys; their mean [.5, .5] would hide both."""
    X = np.array([[[50.0, 0.0], [0.0, 50.0]]])
    weights = MultiHeadWeights(np.ones((2, 2)), np.eye(2), np.eye(2), np.eye(2), 2)
    A = multi_head_attention(X, weights).A
    assert A.shape == (1, 2, 2, 2)
    assert_close(A[0, :, 0], [[1, 0], [0, 1]])


# Inputs


@pytest.mark.parametrize(
    ("T", "place"), [([-1], r"T\[0\] is -1"), ([3], r"T\[0\] is 3"), ([[0, 1], [2**40, 0]], rf"T\[1, 0\] is {2**40}")]
)
def test_A37_ids_out_of_range_are_named(lib, T, place):
    """NumPy alone would read -1 as the last word."""
    with pytest.raises(IndexError, match=rf"{place}, but with vocab_size = 3 ids run from 0 to 2"):
        embed(lib(np.array(T)), lib(np.arange(6.0).reshape(3, 2)))


@pytest.mark.parametrize("T", [np.array([1.0]), np.array([True]), np.array([1], dtype=object)], ids=str)
def test_A37_ids_are_integers(T):
    with pytest.raises(TypeError, match=rf"T holds {T.dtype}, but must hold integers"):
        embed(T, np.ones((3, 2)))


def test_A38_padding_is_known_by_its_id():
    """Neither by a vector that sums to 0 nor by the id 0, which may be a word."""
    vocabulary = Vocabulary(["the", "river", "bank", "is", "steep", "[PAD]"])
    assert vocabulary.pad_id == 5
    T = vocabulary.encode_batch(["the river", "bank"])
    E = np.array([[1.0, -1.0]] * 6)
    assert (embed(T, E).sum(axis=-1) == 0).all()
    np.testing.assert_array_equal(padding_mask(T, vocabulary.pad_id)[:, 0], [[True, True], [True, False]])


def test_A39_cross_attention_masks_what_is_read(rng):
    """Two vocabularies with pads of their own: N_q rows for the one, N_k columns for the other."""
    source, target = np.array([[4, 0, 0, 5, 0]]), np.array([[0, 9, 9]])
    mask = padding_mask(source, pad_id=0)
    A = multi_head_attention(
        rng.normal(size=(1, 3, 4)), identity_weights(4, 2), context=rng.normal(size=(1, 5, 4)), mask=mask
    ).A
    assert A.shape == (1, 2, 3, 5)
    assert (A[..., [1, 2, 4]] == 0).all()
    assert (A[..., [0, 3]] > 0).all()
    np.testing.assert_array_equal(padding_mask(target, pad_id=9)[0], [[True, False, False]])


def test_A40_frequencies_come_in_pairs():
    X_pos = sinusoidal_positions(20, 4)[0]
    assert_close(X_pos[1], [0.8415, 0.5403, 0.0100, 0.99995], atol=5e-5)
    np.testing.assert_array_equal(X_pos[0], [0, 1, 0, 1])
    products = X_pos @ X_pos.T
    assert_close(products[1:, 1:], products[:-1, :-1])  # of distance alone


def test_A41_sines_and_cosines_alternate():
    X_pos = sinusoidal_positions(2, 6)[0, 1]
    frequencies = 10000.0 ** (-np.arange(3) / 3)
    assert_close(X_pos[0::2], np.sin(frequencies))
    assert_close(X_pos[1::2], np.cos(frequencies))


@pytest.mark.parametrize("d_model", [1, 2, 3, 5, 8])
def test_A42_odd_widths_are_refused(d_model):
    if d_model % 2:
        with pytest.raises(ValueError, match=f"d_model must be .*{d_model}"):
            sinusoidal_positions(2, d_model)
    else:
        assert sinusoidal_positions(2, d_model).shape == (1, 2, d_model)


@pytest.mark.parametrize(("B", "N"), [(2, 3), (3, 3), (3, 2)])
def test_A43_positions_run_along_tokens_and_not_sentences(B, N):
    X = add_positions(np.zeros((B, N, 4)), sinusoidal_positions(N, 4))
    np.testing.assert_array_equal(X[0], X[1])
    assert (X[0, 0] != X[0, 1]).any()


def test_A45_positions_have_no_greatest_length_and_a_short_table_is_refused():
    assert sinusoidal_positions(5000, 4).shape == (1, 5000, 4)
    with pytest.raises(ValueError, match="The axis N disagrees: X_tok has 5, X_pos has 4"):
        add_positions(np.zeros((1, 5, 2)), sinusoidal_positions(4, 2))


def test_A46_embedding_is_the_row_itself():
    """Neither times nor divided by sqrt(d_model), as some models have it."""
    np.testing.assert_array_equal(embed(np.array([0]), np.ones((1, 4))), np.ones((1, 4)))


@pytest.mark.parametrize("padding", [0, 1, 2, 3])
def test_A47_left_padding_with_positions_of_its_own(rng, lib, padding):
    """Count positions from the first real token and mask the rest: nothing else changes, and nothing is NaN."""
    E, weights = rng.normal(size=(9, 4)), MultiHeadWeights(*[lib(rng.normal(size=(4, 4))) for _ in range(4)], 2)
    T = np.array([[0] * padding + [7, 8, 3]])
    place = np.maximum(np.arange(T.shape[1]) - padding, 0)
    X = add_positions(embed(T, E), sinusoidal_positions(3, 4)[:, place])
    mask = padding_mask(T, pad_id=0) & causal_mask(T.shape[1])
    output = to_numpy(multi_head_attention(lib(X), weights, mask=mask).output)
    alone = multi_head_attention(lib(X[:, padding:]), weights, mask=causal_mask(3)).output
    assert np.isfinite(output).all()
    assert_close(output[:, padding:], alone)


# Numbers, sizes, memory


@pytest.mark.parametrize("dtype", ["int32", "int64", "bool", "uint8"])
def test_A49_integers_are_refused_by_name(lib, dtype):
    eye = lib(np.eye(2).astype(dtype))
    message = f"holds .*{dtype}, but must hold floating-point numbers"
    for call in [
        lambda: attention(eye, eye, eye),
        lambda: scores(eye, eye),
        lambda: softmax(eye),
        lambda: MultiHeadWeights(eye, eye, eye, eye, 1),
        lambda: embed(lib(np.array([0])), eye),
        lambda: add_positions(eye[None], eye[None]),
    ]:
        with pytest.raises(TypeError, match=message):
            call()


def test_A50_no_query_gives_no_output(lib):
    H = attention(lib(np.ones((0, 2))), lib(np.ones((3, 2))), lib(np.ones((3, 5))), mask=causal_mask(0, 3)).H
    assert tuple(H.shape) == (0, 5)


@pytest.mark.parametrize("N_q", [0, 3])
def test_A50_no_key_is_refused(lib, N_q):
    with pytest.raises(ValueError, match="N_k is 0: there is no key to read"):
        attention(lib(np.ones((N_q, 2))), lib(np.ones((0, 2))), lib(np.ones((0, 5))))


def test_A50_one_token_reads_itself(rng, lib):
    Q, K, V = rng.normal(size=(1, 2)), rng.normal(size=(1, 2)), rng.normal(size=(1, 5))
    assert_close(attention(lib(Q), lib(K), lib(V), mask=causal_mask(1)).H, V, atol=0)


def test_A51_a_query_alone_and_among_others_agree_up_to_rounding(rng, lib):
    Q, K, V = rng.normal(size=(3, 256, 64)).astype(np.float32)
    among = attention(lib(Q), lib(K), lib(V)).H[:1]
    assert_close(attention(lib(Q[:1]), lib(K), lib(V)).H, among, atol=1e-6)


@pytest.mark.parametrize(
    "view",
    [np.asfortranarray, lambda x: x[::-1].copy()[::-1], lambda x: np.repeat(x, 2, axis=0)[::2]],
    ids=["Fortran order", "negative strides", "every second"],
)
def test_A52_views_and_read_only_arrays_are_welcome(rng, view):
    X, mask = rng.normal(size=(4, 4)), causal_mask(4)
    expected = attention(X, X, X, mask=mask).H
    X, mask = view(X), view(mask)
    X.flags.writeable = mask.flags.writeable = False
    assert_close(attention(X, X, X, mask=mask).H, expected)
    assert_close(concat_heads(split_heads(X, 2)), X, atol=0)
