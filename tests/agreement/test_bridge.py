"""Weights on their way to torch and back, and the production attention of chapter 13."""

import dataclasses

import numpy as np
import pytest
import torch
from support import assert_close, gradients
from torch import nn

from attnlib import LayerWeights, MultiHeadWeights, causal_mask, encoder_layer, multi_head_attention, padding_mask, relu
from attnlib.bridge import CausalSelfAttention

B, N, d_model, h, d_ff = 2, 7, 12, 3, 20
MASK = padding_mask(np.array([[1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, 0, 0]]), 0) & causal_mask(N)
BIASES = {"none": [], "all": ["b_Q", "b_K", "b_V", "b_O"], "some": ["b_V", "b_O"]}


def attention_weights(biases="all", d_context=d_model):
    rng = np.random.default_rng(1)
    W_Q, W_O = rng.normal(size=(2, d_model, d_model))
    W_K, W_V = rng.normal(size=(2, d_context, d_model))
    return MultiHeadWeights(W_Q, W_K, W_V, W_O, h, **{name: rng.normal(size=d_model) for name in BIASES[biases]})


def layer_weights(**options):
    """Return weights in which no gain is 1 and no shift 0: these would hide a mix-up."""
    rng = np.random.default_rng(2)
    weights = LayerWeights.random(d_model, h, d_ff=d_ff, seed=0)
    names = ("gain_1", "shift_1", "b_1", "b_2", "gain_2", "shift_2")
    learned = {name: rng.normal(size=getattr(weights, name).shape) for name in names}
    return dataclasses.replace(weights, **{"attention": attention_weights()} | learned | options)


# --- MultiHeadWeights.to_torch -------------------------------------------------------------------------------------


@pytest.mark.parametrize("biases", BIASES)
@pytest.mark.parametrize("d_context", [d_model, 8])
def test_the_module_computes_the_same(rng, biases, d_context):
    weights = attention_weights(biases, d_context)
    X, context = rng.normal(size=(B, N, d_model)), rng.normal(size=(B, N, d_context))
    ours = multi_head_attention(X, weights, context=context, mask=MASK)
    hidden = torch.from_numpy(~MASK).repeat_interleave(h, 0)
    X, context = torch.from_numpy(X), torch.from_numpy(context)
    theirs, A = weights.to_torch()(X, context, context, attn_mask=hidden, average_attn_weights=False)
    assert_close(theirs, ours.output, atol=1e-10)
    assert_close(A, ours.A)


@pytest.mark.parametrize("biases", ["none", "all"])
@pytest.mark.parametrize("d_context", [d_model, 8])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_there_and_back_nothing_changes(biases, d_context, dtype):
    given = attention_weights(biases, d_context).arrays()
    weights = MultiHeadWeights(**{name: x.astype(dtype) for name, x in given.items()}, h=h)
    back = MultiHeadWeights.from_torch(weights.to_torch())
    assert back.h == h
    assert back.arrays().keys() == weights.arrays().keys()
    for name, x in back.arrays().items():
        assert x.dtype == getattr(torch, np.dtype(dtype).name)
        assert_close(x, weights.arrays()[name], atol=0)


def test_absent_biases_become_zeros():
    module = attention_weights("some").to_torch()
    assert (module.in_proj_bias[: 2 * d_model] == 0).all()
    assert attention_weights("none").to_torch().in_proj_bias is None


def test_the_module_holds_copies_that_can_be_trained():
    weights = MultiHeadWeights.from_torch(nn.MultiheadAttention(d_model, h))
    module = weights.to_torch()
    with torch.no_grad():
        module.in_proj_weight.zero_()
    assert (weights.W_Q != 0).any()
    assert all(p.requires_grad and p.is_leaf for p in module.parameters())


@pytest.mark.parametrize("shapes", [[(12, 6), (12, 6), (12, 12), (12, 12)], [(12, 12), (12, 12), (12, 6), (6, 12)]])
def test_heads_that_are_not_as_wide_as_a_token_have_no_module(shapes):
    with pytest.raises(ValueError, match="together as wide as a token, d_model = 12; columns here: W_Q"):
        MultiHeadWeights(*map(np.ones, shapes), 3).to_torch()


# --- LayerWeights.to_torch -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("options", [{}, {"activation": relu}, {"eps": 0.5}, {"attention": attention_weights("none")}])
def test_the_layer_computes_the_same(rng, norm_first, training, options):
    weights = layer_weights(norm_first=norm_first, **options)
    X = rng.normal(size=(B, N, d_model))
    layer = weights.to_torch().train(training)
    with torch.no_grad():  # in evaluation this takes torch's fused kernel
        theirs = layer(torch.from_numpy(X), src_mask=torch.from_numpy(~MASK).repeat_interleave(h, 0))
    assert_close(theirs, encoder_layer(X, weights, mask=MASK).output, atol=1e-10)


def test_a_layer_comes_back_unchanged():
    weights = layer_weights(norm_first=True, activation=relu, eps=1e-3)
    back = LayerWeights.from_torch(weights.to_torch())
    assert (back.norm_first, back.activation, back.eps) == (True, relu, 1e-3)
    for name in ("gain_1", "shift_1", "W_1", "b_1", "W_2", "b_2", "gain_2", "shift_2"):
        assert_close(getattr(back, name), getattr(weights, name), atol=0)
    for name, x in back.attention.arrays().items():
        assert_close(x, weights.attention.arrays()[name], atol=0)


def test_another_activation_has_no_layer():
    with pytest.raises(ValueError, match="The activation is tanh"):
        layer_weights(activation=np.tanh).to_torch()


# --- The attention of a GPT block ----------------------------------------------------------------------------------


@pytest.fixture
def block():
    torch.manual_seed(0)
    return CausalSelfAttention(d_model, h, dropout=0.5).double()


def unpacked(block):
    W, b = block.c_attn.weight.T.split(d_model, dim=1), block.c_attn.bias.split(d_model)
    return MultiHeadWeights(*W, block.c_proj.weight.T, block.n_head, *b, block.c_proj.bias)


def test_in_evaluation_the_block_is_our_causal_attention(block, rng):
    X = torch.from_numpy(rng.normal(size=(B, N, d_model)))
    ours = multi_head_attention(X, unpacked(block), mask=causal_mask(N))
    assert_close(block.eval()(X), ours.output)


def test_gradients_of_the_block_agree(block, rng):
    X = rng.normal(size=(B, N, d_model))
    weights = unpacked(block.eval())
    (mine,) = gradients(lambda X: multi_head_attention(X, weights, mask=causal_mask(N)).output, X)
    (theirs,) = gradients(block, X)
    assert_close(mine, theirs, atol=1e-10)


def test_the_block_drops_weights_in_training_only(block, rng):
    X = torch.from_numpy(rng.normal(size=(B, N, d_model)))
    assert not torch.equal(block(X), block(X))
    block.eval()
    assert torch.equal(block(X), block(X))
