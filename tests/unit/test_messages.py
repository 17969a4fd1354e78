"""Every refusal of the numeric core is a sentence that names the argument, its shape and the axis that disagrees."""

import re

import numpy as np
import pytest
import torch

from attnlib import (
    MultiHeadWeights,
    Vocabulary,
    add_positions,
    apply_mask,
    attention,
    causal_mask,
    check_shapes,
    concat_heads,
    embed,
    multi_head_attention,
    padding_mask,
    project,
    scores,
    shape_table,
    sinusoidal_positions,
    softmax,
    split_heads,
)

Q, K, V = np.ones((2, 3, 4)), np.ones((2, 5, 4)), np.ones((2, 5, 6))
X, W = np.ones((2, 5, 12)), np.eye(12)
weights = MultiHeadWeights(W, W, W, W, 3)
vocabulary = Vocabulary(["[PAD]", "the", "river", "bank"])
true = np.ones((3, 5), dtype=bool)
module = torch.nn.MultiheadAttention


class Shapes:
    """Stands for a trace."""

    def __init__(self, **shapes):
        self.shapes = lambda: shapes


REFUSED = {
    # libraries and dtypes
    "a list": (TypeError, lambda: attention([[1.0]], K, V), "Q must be a NumPy array or a torch tensor, not list."),
    "None": (TypeError, lambda: softmax(None), "S must be a NumPy array or a torch tensor, not NoneType."),
    "a number": (TypeError, lambda: scores(Q, 1.0), "K must be a NumPy array or a torch tensor, not float."),
    "two libraries": (
        TypeError,
        lambda: attention(torch.ones(3, 4), K[0], V[0]),
        "All arrays must come from one library, but Q is a torch tensor, K is a NumPy array, V is a NumPy array. "
        "Convert with torch.from_numpy or .numpy().",
    ),
    "X and weights of two libraries": (
        TypeError,
        lambda: multi_head_attention(torch.tensor(X), weights),
        "one library, but X is a torch tensor, W_Q is a NumPy array.",
    ),
    "a torch mask, NumPy scores": (
        TypeError,
        lambda: attention(Q, K, V, mask=torch.tensor(true)),
        "one library, but mask is a torch tensor, scores is a NumPy array.",
    ),
    "a torch bias, NumPy scores": (
        TypeError,
        lambda: attention(Q, K, V, bias=torch.ones(3, 5)),
        "one library, but S is a NumPy array, bias is a torch tensor.",
    ),
    "torch ids, a NumPy table": (
        TypeError,
        lambda: embed(torch.tensor([1]), W),
        "one library, but T is a torch tensor, E is a NumPy array.",
    ),
    "two dtypes": (
        TypeError,
        lambda: scores(Q.astype("float32"), K),
        "All arrays must have one dtype, but Q is float32, K is float64: convert them to the same one.",
    ),
    "X and weights of two dtypes": (
        TypeError,
        lambda: multi_head_attention(X.astype("float16"), weights),
        "one dtype, but X is float16, W_Q is float64",
    ),
    "complex": (TypeError, lambda: softmax(Q + 0j), "S holds complex128, but must hold floating-point numbers"),
    "objects": (TypeError, lambda: softmax(Q.astype(object)), "S holds object, but must hold floating-point numbers"),
    "words": (TypeError, lambda: softmax(np.array(["a"])), "S holds <U1, but must hold floating-point numbers"),
    # axes
    "Q without axes": (
        ValueError,
        lambda: scores(np.float64(1), K),
        "Q has shape [], but needs the axes [..., N_q, d_h].",
    ),
    "K of one axis": (ValueError, lambda: scores(Q, K[0, 0]), "K has shape [4], but needs the axes [..., N_k, d_h]."),
    "V of one axis": (
        ValueError,
        lambda: attention(Q, K, V[0, 0]),
        "V has shape [6], but needs the axes [..., N_k, d_v].",
    ),
    "d_h": (ValueError, lambda: scores(Q, V), "The axis d_h disagrees: Q has 4, K has 6."),
    "d_h of 0": (
        ValueError,
        lambda: scores(Q[..., :0], K[..., :0]),
        "d_h is 0: queries and keys need at least one component.",
    ),
    "N_k": (ValueError, lambda: attention(Q, K, V[:, :3]), "The axis N_k disagrees: K has 5, V has 3."),
    "no key": (
        ValueError,
        lambda: scores(Q, K[:, :0]),
        "N_k is 0: there is no key to read. Attention needs at least one.",
    ),
    "batch of Q and K": (
        ValueError,
        lambda: scores(np.ones((3, 3, 4)), K),
        "The batch axes (all before the last two) disagree: Q has [3], K has [2].",
    ),
    "batch of V": (
        ValueError,
        lambda: attention(Q, K, np.ones((3, 5, 6))),
        "The batch axes (all before the last two) disagree: S has [2], V has [3].",
    ),
    "softmax without axes": (
        ValueError,
        lambda: softmax(np.float64(1)),
        "S has shape [], but needs the axes [..., N_k].",
    ),
    "softmax of nothing": (
        ValueError,
        lambda: softmax(np.ones((3, 0))),
        "S has shape [3, 0]: its last axis, the keys, is empty.",
    ),
    # project
    "X and W": (
        ValueError,
        lambda: project(Q, np.ones((5, 2))),
        "X has shape [2, 3, 4] and W has shape [5, 2]: the last axis of X is 4, but W has 5 rows.",
    ),
    "X without axes": (
        ValueError,
        lambda: project(np.float64(1), W),
        "X has shape [], but needs the axes [..., d_in].",
    ),
    "W of three axes": (
        ValueError,
        lambda: project(Q, Q),
        "W has shape [2, 3, 4], but needs the axes [d_in, d_out].",
    ),
    "b and W": (ValueError, lambda: project(X, W, np.ones(5)), "The axis d_out disagrees: W has 12, b has 5."),
    "b of two axes": (
        ValueError,
        lambda: project(X, W, np.ones((1, 12))),
        "b has shape [1, 12], but needs the axes [d_out].",
    ),
    # scale
    "scale is true": (TypeError, lambda: scores(Q, K, scale=True), "scale must be a number, not True"),
    "scale is an array": (
        TypeError,
        lambda: scores(Q, K, scale=np.array(0.5)),
        "scale must be a number, not array(0.5): the factor of the dot products, such as d_h ** -0.5.",
    ),
    "scale is complex": (TypeError, lambda: scores(Q, K, scale=1j), "scale must be a number, not 1j"),
    "scale is NaN": (ValueError, lambda: scores(Q, K, scale=np.nan), "scale must be finite, not nan."),
    # masks and biases
    "mask is true": (
        TypeError,
        lambda: attention(Q, K, V, mask=True),
        "mask must be a boolean array, not bool. Causal attention takes mask=causal_mask(N_q, N_k).",
    ),
    "mask is a list": (
        TypeError,
        lambda: multi_head_attention(X, weights, mask=[[True]]),
        "mask must be a boolean array, not list.",
    ),
    "mask holds integers": (
        TypeError,
        lambda: attention(Q, K, V, mask=true.astype(int)),
        "mask holds int64, but must be boolean, True for what may be read. "
        "For 0 and 1 write mask == 1; an additive mask of 0 and -inf goes to bias=.",
    ),
    "mask of one axis": (
        ValueError,
        lambda: attention(Q, K, V, mask=true[0]),
        "mask has shape [5] and S has shape [2, 3, 5]: mask must have the axes [N_q, N_k] or all 3 axes of S, "
        "so that no axis is guessed.",
    ),
    "mask of one axis, S of two": (
        ValueError,
        lambda: apply_mask(np.ones((3, 5)), true[0]),
        "mask has shape [5] and S has shape [3, 5]: mask must have the axes [N_q, N_k], so that",
    ),
    "mask of three axes, S of four": (
        ValueError,
        lambda: attention(Q[:, None], K[:, None], V[:, None], mask=true[None]),
        "mask must have the axes [N_q, N_k] or all 4 axes of S",
    ),
    "mask transposed": (
        ValueError,
        lambda: attention(Q, K, V, mask=true.T),
        "mask has shape [5, 3], but S has shape [2, 3, 5]: axis -1 (keys, N_k) is 3 and must be 5 or 1.",
    ),
    "mask for other queries": (
        ValueError,
        lambda: attention(Q, K, V, mask=true[:2]),
        "axis -2 (queries, N_q) is 2 and must be 3 or 1.",
    ),
    "mask for other heads": (
        ValueError,
        lambda: multi_head_attention(X, weights, mask=np.ones((2, 4, 5, 5), bool)),
        "mask has shape [2, 4, 5, 5], but S has shape [2, 3, 5, 5]: axis -3 (batch or heads) is 4 and must be 3 or 1.",
    ),
    "bias is a list": (
        TypeError,
        lambda: attention(Q, K, V, bias=[[0.0]]),
        "bias must be a NumPy array or a torch tensor, not list.",
    ),
    "bias holds integers": (
        TypeError,
        lambda: attention(Q, K, V, bias=true.astype(int)),
        "bias holds int64, but must hold floating-point numbers. A boolean mask goes to mask=.",
    ),
    "bias for other queries": (
        ValueError,
        lambda: attention(Q, K, V, bias=np.ones((2, 5))),
        "bias has shape [2, 5], but S has shape [2, 3, 5]: axis -2 (queries, N_q) is 2 and must be 3 or 1.",
    ),
    "S of one axis": (
        ValueError,
        lambda: apply_mask(np.ones(5), true),
        "S has shape [5], but needs the axes [..., N_q, N_k].",
    ),
    "causal_mask of a float": (TypeError, lambda: causal_mask(3.0), "N_q must be a whole number, not 3.0."),
    "causal_mask of true": (TypeError, lambda: causal_mask(3, True), "N_k must be a whole number, not True."),
    "causal_mask below 0": (ValueError, lambda: causal_mask(-1), "N_q must be at least 0, not -1."),
    "causal_mask like a list": (
        TypeError,
        lambda: causal_mask(3, like=[1.0]),
        "like must be a NumPy array or a torch tensor, not list.",
    ),
    "padding_mask of floats": (
        TypeError,
        lambda: padding_mask(X, 0),
        "T holds float64, but must hold integers: token ids.",
    ),
    "padding_mask of an id": (
        ValueError,
        lambda: padding_mask(np.int64(3), 0),
        "T has shape [], but needs the axes [..., N].",
    ),
    "pad_id of a word": (
        TypeError,
        lambda: padding_mask(np.array([1]), "[PAD]"),
        "pad_id must be a whole number, not '[PAD]'.",
    ),
    "pad_id below 0": (
        ValueError,
        lambda: padding_mask(np.array([1]), -1),
        "pad_id must be at least 0, not -1.",
    ),
    # ids, embeddings, positions
    "id too large": (
        IndexError,
        lambda: embed(np.array([[0, 12]]), W),
        "T[0, 1] is 12, but with vocab_size = 12 ids run from 0 to 11.",
    ),
    "ids in a list": (TypeError, lambda: embed([1], W), "T must be a NumPy array or a torch tensor, not list."),
    "an id without axes": (
        ValueError,
        lambda: embed(np.int64(1), W),
        "T has shape [], but needs the axes [..., N].",
    ),
    "E of three axes": (
        ValueError,
        lambda: embed(np.array([1]), Q),
        "E has shape [2, 3, 4], but needs the axes [vocab_size, d_model].",
    ),
    "odd d_model": (
        ValueError,
        lambda: sinusoidal_positions(3, 5),
        "d_model must be even, since each frequency takes a sine and a cosine; it is 5.",
    ),
    "d_model of 0": (ValueError, lambda: sinusoidal_positions(3, 0), "d_model must be at least 2, not 0."),
    "N below 0": (ValueError, lambda: sinusoidal_positions(-1, 4), "N must be at least 0, not -1."),
    "X_tok of two axes": (
        ValueError,
        lambda: add_positions(X[0], X),
        "X_tok has shape [5, 12], but needs the axes [B, N, d_model]. Add a batch axis: X_tok[None].",
    ),
    "X_pos of two axes": (
        ValueError,
        lambda: add_positions(X, X[0]),
        "X_pos has shape [5, 12], but needs the axes [B, N, d_model]. Add a batch axis: X_pos[None].",
    ),
    "N of positions": (
        ValueError,
        lambda: add_positions(X, X[:, :4]),
        "The axis N disagrees: X_tok has 5, X_pos has 4.",
    ),
    "d_model of positions": (
        ValueError,
        lambda: add_positions(X, X[..., :4]),
        "The axis d_model disagrees: X_tok has 12, X_pos has 4.",
    ),
    "B of positions": (
        ValueError,
        lambda: add_positions(X, np.ones((3, 5, 12))),
        "X_pos has shape [3, 5, 12]: its first axis must be 1 or B = 2",
    ),
    # vocabulary
    "a word twice": (
        ValueError,
        lambda: Vocabulary(["[PAD]", "the", "the"]),
        "The word 'the' stands in the vocabulary twice, so it has two ids.",
    ),
    "no padding token": (
        ValueError,
        lambda: Vocabulary(["the"]),
        "The padding token '[PAD]' is not in the vocabulary.",
    ),
    "a word that is a number": (
        TypeError,
        lambda: Vocabulary(["[PAD]", 1]),
        "Every word must be a str, but 1 is int.",
    ),
    "an unknown word": (
        KeyError,
        lambda: vocabulary.encode("the sea"),
        "'sea' is not in the vocabulary of 4 words.",
    ),
    "a token that is a list": (
        KeyError,
        lambda: vocabulary.encode([["the"]]),
        "['the'] is not in the vocabulary of 4 words.",
    ),
    "encode a number": (
        TypeError,
        lambda: vocabulary.encode(3),
        "encode takes a sentence or a list of tokens, not int.",
    ),
    **{
        f"encode_batch of {texts!r}": (
            ValueError,
            lambda texts=texts: vocabulary.encode_batch(texts),
            "encode_batch takes a list of one or more sentences; use encode for a single one.",
        )
        for texts in ["the river", [], None]
    },
    "decode an unknown id": (IndexError, lambda: vocabulary.decode([1, 4]), "ids[1] is 4, but ids run from 0 to 3."),
    "decode an id below 0": (IndexError, lambda: vocabulary.decode([-1]), "ids[0] is -1, but ids run from 0 to 3."),
    "decode a float": (TypeError, lambda: vocabulary.decode([1, 2.5]), "ids[1] must be a whole number, not 2.5."),
    "decode a batch": (
        TypeError,
        lambda: vocabulary.decode(np.array([[1, 2]])),
        "ids[0] must be a whole number, not [1, 2].",
    ),
    "decode a number": (TypeError, lambda: vocabulary.decode(3), "decode takes a row of ids, not 3."),
    # heads
    "h does not divide": (
        ValueError,
        lambda: split_heads(X, 5),
        "d_model = 12 is not divisible by h = 5: every head takes d_model / h components.",
    ),
    "h of 0": (ValueError, lambda: split_heads(X, 0), "h must be at least 1, not 0."),
    "h is a float": (TypeError, lambda: split_heads(X, 3.0), "h must be a whole number, not 3.0."),
    "split a vector": (
        ValueError,
        lambda: split_heads(W[0], 3),
        "X has shape [12], but needs the axes [..., N, d_model].",
    ),
    "concat two axes": (
        ValueError,
        lambda: concat_heads(W),
        "H has shape [12, 12], but needs the axes [..., h, N, d_h].",
    ),
    "W_Q is None": (
        TypeError,
        lambda: MultiHeadWeights(None, W, W, W, 3),
        "W_Q must be a NumPy array or a torch tensor, not NoneType.",
    ),
    "W_V of one axis": (
        ValueError,
        lambda: MultiHeadWeights(W, W, W[0], W, 3),
        "W_V has shape [12], but needs the axes [d_in, d_out].",
    ),
    "widths of Q and K": (
        ValueError,
        lambda: MultiHeadWeights(W, W[:, :6], W, W, 3),
        "The axis h * d_h (columns) disagrees: W_Q has 12, W_K has 6.",
    ),
    "contexts of K and V": (
        ValueError,
        lambda: MultiHeadWeights(W, W, W[:8], W, 3),
        "The axis d_context (rows) disagrees: W_K has 12, W_V has 8.",
    ),
    "W_O and W_V": (
        ValueError,
        lambda: MultiHeadWeights(W, W, W[:, :6], W, 3),
        "W_O has 12 rows, but the concatenated heads have 6 components, as W_V has columns.",
    ),
    "h and the width of W_Q": (
        ValueError,
        lambda: MultiHeadWeights(W, W, W, W, 5),
        "the width of W_Q = 12 is not divisible by h = 5",
    ),
    "h and the width of W_V": (
        ValueError,
        lambda: MultiHeadWeights(W, W, W[:, :8], W[:8], 3),
        "the width of W_V = 8 is not divisible by h = 3",
    ),
    "b_O and W_O": (
        ValueError,
        lambda: MultiHeadWeights(W, W, W, W, 3, b_O=np.ones(6)),
        "b_O has shape [6], but must be [12], as W_O has columns.",
    ),
    "b_Q is a list": (
        TypeError,
        lambda: MultiHeadWeights(W, W, W, W, 3, b_Q=[0.0] * 12),
        "b_Q must be a NumPy array or a torch tensor, not list.",
    ),
    "seed is None": (
        TypeError,
        lambda: MultiHeadWeights.random(12, 3, seed=None),
        "seed must be a whole number, not None.",
    ),
    "d_model is None": (
        TypeError,
        lambda: MultiHeadWeights.random(None, 3, seed=0),
        "d_model must be a whole number, not None.",
    ),
    "a module for weights": (
        TypeError,
        lambda: multi_head_attention(X, module(12, 3)),
        "weights must be MultiHeadWeights, not MultiheadAttention. "
        "An nn.MultiheadAttention becomes one by MultiHeadWeights.from_torch(module).",
    ),
    "X of two axes": (
        ValueError,
        lambda: multi_head_attention(X[0], weights),
        "X has shape [5, 12], but needs the axes [B, N_q, d_model]. Add a batch axis: X[None].",
    ),
    "context of two axes": (
        ValueError,
        lambda: multi_head_attention(X, weights, context=X[0]),
        "context has shape [5, 12], but needs the axes [B, N_k, d_context]. Add a batch axis: context[None].",
    ),
    "another B": (
        ValueError,
        lambda: multi_head_attention(X, weights, context=X[:1]),
        "The axis B disagrees: X has 2, context has 1.",
    ),
    "another d_model": (
        ValueError,
        lambda: multi_head_attention(X[..., :8], weights),
        "The axis d_model disagrees: X has 8, W_Q has 12.",
    ),
    "another d_context": (
        ValueError,
        lambda: multi_head_attention(X, weights, context=X[..., :8]),
        "The axis d_context disagrees: context has 8, W_K has 12.",
    ),
    "cross-attention without context": (
        ValueError,
        lambda: multi_head_attention(X, MultiHeadWeights(W, W[:8], W[:8], W, 3)),
        "The axis d_context disagrees: X has 12, W_K has 8.",
    ),
    "from_torch of another module": (
        TypeError,
        lambda: MultiHeadWeights.from_torch(torch.nn.Linear(2, 2)),
        "from_torch takes a torch.nn.MultiheadAttention, not Linear.",
    ),
    **{
        f"from_torch with {option}": (
            ValueError,
            lambda option=option: MultiHeadWeights.from_torch(module(12, 3, **{option: True})),
            "The module adds a key of its own (add_bias_kv or add_zero_attn); this formula has none.",
        )
        for option in ["add_bias_kv", "add_zero_attn"]
    },
    "from_torch with two contexts": (
        ValueError,
        lambda: MultiHeadWeights.from_torch(module(12, 3, kdim=5, vdim=6)),
        "The module has kdim = 5 and vdim = 6; here keys and values come from one context.",
    ),
    # shapes
    "shape_table of a float": (TypeError, lambda: shape_table(2, 5.0, 12, 3), "N must be a whole number, not 5.0."),
    "shape_table without tokens": (ValueError, lambda: shape_table(2, 0, 12, 3), "N must be at least 1, not 0."),
    "shape_table of 5 heads": (
        ValueError,
        lambda: shape_table(2, 5, 12, 5),
        "d_model = 12 is not divisible by h = 5",
    ),
    "too few axes": (
        ValueError,
        lambda: check_shapes(Shapes(X=(5, 12))),
        "X has shape [5, 12], but needs the axes [B, N_q, d_model].",
    ),
    "an axis that disagrees": (
        ValueError,
        lambda: check_shapes(Shapes(X=(2, 5, 12), Q=(2, 3, 6, 4))),
        "Q has shape [2, 3, 6, 4]: its axis 2 is N_q, which is 5 by X, not 6.",
    ),
    "heads that do not fill concat": (
        ValueError,
        lambda: check_shapes(Shapes(Q=(2, 3, 5, 4), V=(2, 3, 5, 4), concat=(2, 5, 11))),
        "concat has shape [2, 5, 11]: its axis 2 is h*d_v, which is 12 by Q and V, not 11.",
    ),
    "a tensor of another name": (
        ValueError,
        lambda: check_shapes(Shapes(Z=(2,))),
        "The pipeline has no tensor 'Z'; it has X, Q, K, V, S, S_masked, A, H, concat, output.",
    ),
    "no trace": (
        TypeError,
        lambda: check_shapes({}),
        "check_shapes takes the trace of multi_head_attention, not dict.",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusal_says(case):
    error, call, sentence = REFUSED[case]
    with pytest.raises(error, match=re.escape(sentence)) as caught:
        call()
    assert caught.type is error


@pytest.mark.parametrize("name", ["W_Q", "W_K", "W_V", "W_O", "b_Q", "b_O"])
def test_weights_of_another_dtype_or_library_are_named(name):
    good = {"W_Q": W, "W_K": W, "W_V": W, "W_O": W, "b_Q": W[0], "b_O": W[0]}
    with pytest.raises(TypeError, match=f"one dtype, but .*{name} is float32"):
        MultiHeadWeights(**good | {name: good[name].astype(np.float32)}, h=3)
    with pytest.raises(TypeError, match=f"one library, but .*{name} is a torch tensor"):
        MultiHeadWeights(**good | {name: torch.tensor(good[name])}, h=3)
