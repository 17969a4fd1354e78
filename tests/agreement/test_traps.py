"""What PyTorch does where one expects something else: the traps of chapter 13, each by its name.

They describe the pinned torch. When a newer one changes a line, the test of that name fails, and the chapter must
change.
"""

import warnings

import numpy as np
import pytest
import torch
from support import assert_close
from torch import nn
from torch.nn import functional as F
from torch.nn.attention.bias import causal_lower_right
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from attnlib import MultiHeadWeights, attention, causal_mask, multi_head_attention, padding_mask

B, h, N, d_model = 2, 3, 7, 12
CAUSAL = causal_mask(N, like=torch.ones(1))
T = torch.tensor([[1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, 0, 0]])
EMPTY = torch.ones(N, N, dtype=torch.bool)
EMPTY[2] = False  # query 2 may read nothing

sdpa = F.scaled_dot_product_attention


@pytest.fixture
def X(rng):
    return torch.from_numpy(rng.normal(size=(B, N, d_model)))


@pytest.fixture
def QKV(rng):
    return torch.from_numpy(rng.normal(size=(3, B, h, N, 4)))


@pytest.fixture
def module():
    torch.manual_seed(0)
    module = nn.MultiheadAttention(d_model, h, batch_first=True, dtype=torch.float64)
    nn.init.normal_(module.out_proj.bias)
    return module


def layer(h=2, **options):
    torch.manual_seed(0)
    options = {"dropout": 0.0, "batch_first": True} | options
    return nn.TransformerEncoderLayer(d_model, h, 20, dtype=torch.float64, **options)


def same(a, b):
    return a.shape == b.shape and torch.allclose(a, b, rtol=0, atol=1e-12)


# --- Masks -----------------------------------------------------------------------------------------------------------


def test_true_reads_in_the_function_and_hides_in_the_module(X, module):
    ours = multi_head_attention(X, MultiHeadWeights.from_torch(module), mask=CAUSAL)
    assert same(sdpa(ours.Q, ours.K, ours.V, attn_mask=CAUSAL), ours.H)
    assert same(module(X, X, X, attn_mask=~CAUSAL)[0], ours.output)
    assert not same(module(X, X, X, attn_mask=CAUSAL)[0], ours.output)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_a_mask_of_zeros_and_ones_is_added(QKV, kind):
    Q, K, V = QKV.to(kind)
    assert_close(sdpa(Q, K, V, attn_mask=CAUSAL.to(kind)), attention(Q, K, V, bias=CAUSAL.to(kind)).H, atol=1e-6)


@pytest.mark.parametrize("kind", [torch.int64, torch.uint8])
def test_masks_of_integers_are_refused_by_both(QKV, X, module, kind):
    with pytest.raises(RuntimeError, match="attn_mask dtype to be bool or float"):
        sdpa(*QKV, attn_mask=CAUSAL.to(kind))
    with pytest.raises(AssertionError, match="only bool and floating types"):
        module(X, X, X, attn_mask=CAUSAL.to(kind))


def test_a_mask_for_each_sentence_is_taken_for_heads_when_there_are_as_many(rng):
    Q, K, V = torch.from_numpy(rng.normal(size=(3, h, h, N, 4)))  # B = h = 3
    mask = torch.from_numpy(rng.random((h, N, N)) < 0.6) | CAUSAL
    assert same(sdpa(Q, K, V, attn_mask=mask), attention(Q, K, V, mask=mask[None]).H)
    assert not same(sdpa(Q, K, V, attn_mask=mask), attention(Q, K, V, mask=mask[:, None]).H)


def test_three_axes_of_the_modules_mask_are_sentences_times_heads(X, module):
    with pytest.raises(RuntimeError, match=r"should be \(6, 7, 7\)"):
        module(X, X, X, attn_mask=torch.zeros(B, N, N, dtype=torch.bool))


def test_nan_in_padding_spoils_the_output(QKV):
    keep = padding_mask(T, 0)[:, None]
    Q, K, V = QKV.clone()
    V[1, :, 5:] = torch.nan
    assert sdpa(Q, K, V, attn_mask=keep)[1].isnan().all()
    assert attention(Q, K, V, mask=keep).H.isfinite().all()


# --- Rows with nothing to read ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("trained", [False, True])
def test_an_empty_row_is_zero_in_the_function(QKV, kind, trained):
    Q, K, V = QKV.to(kind).requires_grad_(trained)
    additive = torch.zeros(N, N, dtype=kind).masked_fill(~EMPTY, -torch.inf)
    for mask in (EMPTY, additive):
        assert (sdpa(Q, K, V, attn_mask=mask)[:, :, 2] == 0).all()


@pytest.mark.parametrize("training", [False, True])
def test_an_empty_row_is_nan_in_the_module_with_weights_and_the_bias_without(X, module, training):
    module.train(training)
    for grad in (False, True):
        with torch.set_grad_enabled(grad):
            output, A = module(X, X, X, attn_mask=~EMPTY)
            assert output[:, 2].isnan().all() and A[:, 2].isnan().all()
            output, _ = module(X, X, X, attn_mask=~EMPTY, need_weights=False)
            assert (output[:, 2] == module.out_proj.bias).all()


def test_an_empty_row_spoils_the_gradients_of_the_module_with_weights(X, module):
    for need_weights in (True, False):
        module.zero_grad()
        output, _ = module(X, X, X, attn_mask=~EMPTY, need_weights=need_weights)
        output[:, :2].sum().backward()  # rows that can read
        assert module.in_proj_weight.grad.isnan().any() == need_weights


# --- is_causal -------------------------------------------------------------------------------------------------------


def test_is_causal_is_aligned_at_the_start():
    Q, K, V = torch.zeros(1, 2, 1), torch.zeros(1, 5, 1), torch.arange(5.0).reshape(1, 5, 1)
    assert sdpa(Q, K, V, is_causal=True).ravel().tolist() == [0, 0.5]
    assert sdpa(Q[:, :1], K, V, is_causal=True).ravel().tolist() == [0]
    assert attention(Q, K, V, mask=causal_mask(2, 5)).H.ravel().tolist() == [1.5, 2]


def test_causal_lower_right_is_aligned_at_the_end(rng):
    Q, K, V = (torch.from_numpy(rng.normal(size=(B, h, n, 4))) for n in (4, N, N))
    assert same(sdpa(Q, K, V, attn_mask=causal_lower_right(4, N)), attention(Q, K, V, mask=causal_mask(4, N)).H)


def test_is_causal_and_a_mask_are_combined_by_one_kernel_and_refused_by_another(QKV):
    """The documentation promises an error: https://github.com/pytorch/pytorch/issues/187801."""
    keep = padding_mask(T, 0)[:, None]
    both = {"attn_mask": keep, "is_causal": True}
    assert same(sdpa(*QKV, **both), attention(*QKV, mask=keep & CAUSAL).H)
    with pytest.raises(RuntimeError, match="Explicit attn_mask should not be set when is_causal=True"):
        sdpa(*QKV, **both, dropout_p=0.1)


def test_is_causal_is_a_hint_in_the_module(X, module):
    """The mask decides when weights are wanted, or padding is hidden; else the hint does, whatever the mask says."""
    hides_nothing = torch.zeros(N, N, dtype=torch.bool)
    full, causal = module(X, X, X)[0], module(X, X, X, attn_mask=~CAUSAL)[0]
    with pytest.raises(RuntimeError, match="Need attn_mask if specifying the is_causal hint"):
        module(X, X, X, is_causal=True)
    hinted = {"attn_mask": hides_nothing, "is_causal": True}
    assert same(module(X, X, X, **hinted)[0], full)
    assert same(module(X, X, X, **hinted, need_weights=False)[0], causal)
    no_padding = torch.zeros(B, N, dtype=torch.bool)
    assert same(module(X, X, X, **hinted, need_weights=False, key_padding_mask=no_padding)[0], full)


def test_is_causal_alone_is_an_error_in_a_layer_in_training_and_ignored_in_evaluation(X):
    with pytest.raises(RuntimeError, match="Need attn_mask"):
        layer()(X, is_causal=True)
    evaluated = layer().eval()
    with torch.no_grad():
        assert same(evaluated(X, is_causal=True), evaluated(X))
        assert not same(evaluated(X, src_mask=~CAUSAL, is_causal=True), evaluated(X))


def test_a_decoder_layer_is_not_causal_by_itself(X):
    decoder = nn.TransformerDecoderLayer(d_model, h, 20, dropout=0.0, batch_first=True, dtype=torch.float64)
    moved = X.clone()
    moved[:, -1] += torch.arange(d_model)
    assert not same(decoder(moved, X)[:, :-1], decoder(X, X)[:, :-1])
    assert same(decoder(moved, X, tgt_mask=~CAUSAL)[:, :-1], decoder(X, X, tgt_mask=~CAUSAL)[:, :-1])


# --- Axes ------------------------------------------------------------------------------------------------------------


def test_the_batch_comes_second_by_default(X, module):
    default = nn.MultiheadAttention(d_model, h, dtype=torch.float64)
    default.load_state_dict(module.state_dict())
    expected = module(X, X, X)[0]
    swapped = X.transpose(0, 1)
    assert same(default(swapped, swapped, swapped)[0].transpose(0, 1), expected)
    assert default(X, X, X)[0].shape == expected.shape
    assert not same(default(X, X, X)[0], expected)


def test_the_function_takes_any_two_axes_for_tokens_and_components(QKV):
    tokens_second = [Z.transpose(1, 2) for Z in QKV]  # [B, N, h, d_h]
    wrong = sdpa(*tokens_second)
    assert wrong.shape == tokens_second[0].shape
    assert not same(wrong.transpose(1, 2), sdpa(*QKV))


def test_view_after_transpose_is_refused(QKV):
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        QKV[0].transpose(1, 2).view(B, N, d_model)


# --- Weights and dropout ---------------------------------------------------------------------------------------------


def test_weights_are_averaged_over_heads_by_default(X, module):
    each = multi_head_attention(X, MultiHeadWeights.from_torch(module)).A
    assert same(module(X, X, X)[1], each.mean(dim=1))
    assert same(module(X, X, X, average_attn_weights=False)[1], each)
    assert module(X, X, X, need_weights=False)[1] is None


def test_dropout_of_the_function_knows_no_training(QKV):
    with torch.no_grad():
        assert not torch.equal(sdpa(*QKV, dropout_p=0.5), sdpa(*QKV, dropout_p=0.5))


def test_dropout_of_the_module_rests_in_evaluation_and_shows_in_the_weights_of_training(X):
    module = nn.MultiheadAttention(d_model, h, dropout=0.25, batch_first=True, dtype=torch.float64)
    sums = module(X, X, X)[1].sum(dim=-1)
    assert (sums - 1).abs().max() > 0.01
    module.eval()
    assert_close(module(X, X, X)[1].sum(dim=-1), torch.ones(B, N))


def test_dropout_enlarges_what_it_keeps():
    zeros, ones = torch.zeros(200, 1, 1), torch.ones(200, 1, 1)
    torch.manual_seed(0)
    assert sdpa(zeros, zeros, ones, dropout_p=0.2).unique().tolist() == [0, 1.25]


# --- Parameters and defaults -----------------------------------------------------------------------------------------


def test_three_matrices_are_packed_and_transposed(module):
    packed, weights = module.in_proj_weight, MultiHeadWeights.from_torch(module)
    assert packed.shape == (3 * d_model, d_model)
    for place, W in enumerate((weights.W_Q, weights.W_K, weights.W_V)):
        assert torch.equal(packed[12 * place : 12 * place + 12].T, W)
    assert nn.Linear(5, 2).weight.shape == (2, 5)


def test_a_context_of_another_width_is_not_packed():
    module = nn.MultiheadAttention(d_model, h, kdim=8, vdim=8)
    assert module.in_proj_weight is None
    assert module.k_proj_weight.shape == module.v_proj_weight.shape == (d_model, 8)
    assert nn.MultiheadAttention(d_model, h, kdim=d_model, vdim=d_model).in_proj_weight is not None


def test_biases_of_a_fresh_module_are_zero():
    module = nn.MultiheadAttention(d_model, h)
    assert (module.in_proj_bias == 0).all() and (module.out_proj.bias == 0).all()


def test_defaults_of_a_layer():
    default = nn.TransformerEncoderLayer(d_model, h)
    assert default.activation is F.relu
    assert (default.norm_first, default.self_attn.batch_first) == (False, False)
    assert default.dropout.p == default.dropout1.p == default.dropout2.p == default.self_attn.dropout == 0.1
    assert (default.linear1.out_features, default.norm1.eps) == (2048, 1e-5)


def test_layers_of_a_stack_start_as_copies():
    first, second = nn.TransformerEncoder(layer(h=3), 2, enable_nested_tensor=False).layers
    assert first is not second
    assert all(torch.equal(p, q) for p, q in zip(first.parameters(), second.parameters(), strict=True))


def test_grouped_heads_are_neighbors(rng):
    Q = torch.from_numpy(rng.normal(size=(B, 6, N, 4)))
    K, V = torch.from_numpy(rng.normal(size=(2, B, 2, N, 4)))
    grouped = sdpa(Q, K, V, enable_gqa=True)
    assert same(grouped, attention(Q, K.repeat_interleave(3, 1), V.repeat_interleave(3, 1)).H)
    assert not same(grouped, attention(Q, K.repeat(1, 3, 1, 1), V.repeat(1, 3, 1, 1)).H)
    with pytest.raises(RuntimeError, match="size of tensor"):
        sdpa(Q, K, V)


def test_scale_takes_the_place_of_the_root(QKV):
    assert same(sdpa(*QKV, scale=0.3), attention(*QKV, scale=0.3).H)
    assert same(sdpa(*QKV), sdpa(*QKV, scale=0.5))  # the root of 4


# --- The fast path of evaluation -------------------------------------------------------------------------------------


def stack_of_two(**options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where the fast path is off, torch says why
        return nn.TransformerEncoder(layer(**options), 2).eval()


def both_ways(stack, X):
    """Return the output with and without gradients: the second is the fast path, where there is one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nested tensors are a prototype, torch says
        slow = stack(X, src_key_padding_mask=T == 0)
        with torch.no_grad():
            return slow, stack(X, src_key_padding_mask=T == 0)


def test_in_evaluation_a_stack_gives_zeros_for_padding(X):
    slow, fast = both_ways(stack_of_two(), X)
    assert same(slow[T != 0], fast[T != 0])
    assert (fast[T == 0] == 0).all() and (slow[T == 0] != 0).all()


def test_in_evaluation_a_stack_cuts_padding_that_all_sentences_share(X):
    shared = torch.zeros(B, N, dtype=torch.bool)
    shared[:, 5:] = True
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        output = stack_of_two()(X, src_key_padding_mask=shared)
    assert output.shape == (B, N, d_model)
    assert (output[:, 5:] == 0).all()


@pytest.mark.parametrize("options", [{"h": 3}, {"norm_first": True}])
def test_an_odd_number_of_heads_and_the_norm_first_keep_padding(X, options):
    slow, fast = both_ways(stack_of_two(**options), X)
    assert same(slow, fast)


def test_one_layer_alone_keeps_padding(X):
    alone = layer().eval()
    slow, fast = both_ways(alone, X)
    assert same(slow, fast)


def test_outputs_of_the_paths_are_equal_up_to_rounding_only(rng):
    X = torch.from_numpy(rng.normal(size=(B, N, d_model)).astype(np.float32))
    torch.manual_seed(0)
    module = nn.MultiheadAttention(d_model, h, batch_first=True)
    with_weights, without = module(X, X, X)[0], module(X, X, X, need_weights=False)[0]
    assert 0 < (with_weights - without).abs().max() < 1e-6


# --- FlexAttention ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def flex():
    return torch.compile(flex_attention, backend="eager")  # no compiler of C++ is needed, and no warning is given


def test_flex_attention_takes_a_mask_as_a_function(rng, flex):
    Q, K, V = (torch.from_numpy(rng.normal(size=(B, h, n, 4))) for n in (4, N, N))
    mask = create_block_mask(lambda b, a, i, j: j <= i + N - 4, None, None, 4, N, device="cpu")
    assert same(flex(Q, K, V, block_mask=mask), attention(Q, K, V, mask=causal_mask(4, N)).H)
    at_the_start = create_block_mask(lambda b, a, i, j: j <= i, None, None, 4, N, device="cpu")
    assert same(flex(Q, K, V, block_mask=at_the_start), sdpa(Q, K, V, is_causal=True))


def test_flex_attention_takes_a_bias_as_a_function(rng, flex):
    Q, K, V = torch.from_numpy(rng.normal(size=(3, B, h, N, 4)))
    bias = -0.5 * (torch.arange(N)[:, None] - torch.arange(N)).abs()
    theirs = flex(Q, K, V, score_mod=lambda score, b, a, i, j: score - 0.5 * (i - j).abs())
    assert same(theirs, attention(Q, K, V, bias=bias.double()).H)


def test_flex_attention_gives_zero_for_an_empty_row(rng, flex):
    Q, K, V = torch.from_numpy(rng.normal(size=(3, B, h, N, 4)))
    mask = create_block_mask(lambda b, a, i, j: j < i, None, None, N, N, device="cpu")
    assert (flex(Q, K, V, block_mask=mask)[:, :, 0] == 0).all()


def test_flex_attention_has_no_gradients_on_the_cpu(QKV, flex):
    Q, K, V = (Z.clone().requires_grad_() for Z in QKV)
    with pytest.raises(NotImplementedError, match="does not support backward on CPU"):
        flex(Q, K, V)


def test_flex_attention_warns_when_it_is_not_compiled(QKV):
    with pytest.warns(UserWarning, match=r"called without torch.compile"):
        flex_attention(*QKV)
