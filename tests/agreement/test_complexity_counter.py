"""The ledger equals what torch counts while real modules run; and where torch's counter is blind, a test knows."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from attnlib import LayerWeights, MultiHeadWeights, encoder_layer, multi_head_attention, multiply_adds

SELF = [(1, 5, 12, 3), (2, 7, 12, 4), (3, 16, 24, 2), (4, 9, 20, 1), (2, 33, 40, 5)]  # B, N, d_model, h
CROSS = [(1, 4, 6, 10, 7, 2), (2, 7, 5, 12, 9, 3), (3, 3, 11, 24, 24, 4), (2, 1, 9, 8, 5, 2), (5, 6, 2, 20, 30, 5)]
D_FF = 22


def flops(function, *arguments, **options):
    with FlopCounterMode(display=False) as counter:
        function(*arguments, **options)
    return counter.get_total_flops()


def total(*sizes, **options):
    return sum(multiply_adds(*sizes, **options).values())


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(("B", "N", "d_model", "h"), SELF)
def test_self_attention_module(device, B, N, d_model, h):
    module, X = nn.MultiheadAttention(d_model, h, batch_first=True, device=device), torch.zeros(B, N, d_model)
    assert flops(module, *3 * [X.to(device)]) == 2 * total(B, N, d_model, h)


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(("B", "N_q", "N_k", "d_model", "d_context", "h"), CROSS)
def test_cross_attention_module(device, B, N_q, N_k, d_model, d_context, h):
    module = nn.MultiheadAttention(d_model, h, kdim=d_context, vdim=d_context, batch_first=True, device=device)
    X, C = torch.zeros(B, N_q, d_model, device=device), torch.zeros(B, N_k, d_context, device=device)
    expected = 2 * total(B, N_q, d_model, h, N_k=N_k, d_context=d_context)
    assert flops(module, X, C, C) == expected
    weights = MultiHeadWeights.from_torch(module)
    assert flops(multi_head_attention, X, weights, context=C) == expected  # and our own attention does no more


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(("B", "N", "d_model", "h"), SELF)
def test_encoder_layer(device, B, N, d_model, h):
    layer = nn.TransformerEncoderLayer(d_model, h, D_FF, batch_first=True, device=device)
    X = torch.zeros(B, N, d_model, device=device)
    if device == "meta":  # on the CPU its kernel may be one that is not counted: see below
        assert flops(layer, X) == 2 * total(B, N, d_model, h, d_ff=D_FF)
    assert flops(encoder_layer, X, LayerWeights.from_torch(layer)) == 2 * total(B, N, d_model, h, d_ff=D_FF)


@pytest.mark.parametrize(("N_q", "N_k", "d_h", "d_v"), [(4, 6, 2, 3), (7, 5, 8, 8), (1, 9, 4, 7)])
def test_values_of_another_width(N_q, N_k, d_h, d_v):
    Q, K, V = (torch.zeros(2, 3, *s, device="meta") for s in [(N_q, d_h), (N_k, d_h), (N_k, d_v)])
    ledger = multiply_adds(2, N_q, 3 * d_h, 3, N_k=N_k, d_v=d_v)
    assert flops(F.scaled_dot_product_attention, Q, K, V) == 2 * (ledger["S"] + ledger["H"])


def test_a_causal_mask_saves_nothing_in_the_count():
    Q = torch.zeros(1, 2, 8, 4, device="meta")
    both = [flops(F.scaled_dot_product_attention, Q, Q, Q, is_causal=causal) for causal in (False, True)]
    assert both[0] == both[1] == 2 * 2 * 2 * 8 * 8 * 4


def test_forward_and_backward_cost_three_times_forward():
    layer = LayerWeights.from_torch(nn.TransformerEncoderLayer(12, 3, D_FF, batch_first=True))
    X = torch.zeros(2, 7, 12, requires_grad=True)

    def train():
        encoder_layer(X, layer).output.sum().backward()

    assert flops(train) == 3 * 2 * total(2, 7, 12, 3, d_ff=D_FF)


# --- Where the counter is blind: these tests tell when a newer torch sees, and the chapter must change ---


def test_the_flash_kernel_of_the_cpu_counts_nothing():
    Q = torch.zeros(2, 3, 7, 4)
    assert flops(F.scaled_dot_product_attention, Q, Q, Q) == 0
    module, X = nn.MultiheadAttention(12, 3, batch_first=True), torch.zeros(2, 7, 12)
    ledger = multiply_adds(2, 7, 12, 3)
    seen = flops(module, X, X, X, need_weights=False)
    assert seen == 2 * (sum(ledger.values()) - ledger["S"] - ledger["H"])


def test_a_product_in_place_counts_nothing():
    out, a, b = torch.zeros(2, 3, 5), torch.zeros(2, 3, 4), torch.zeros(2, 4, 5)
    assert flops(torch.baddbmm, out, a, b) == 2 * 2 * 3 * 4 * 5
    assert flops(out.baddbmm_, a, b) == 0


def test_the_fused_layer_of_evaluation_counts_nothing():
    layer = nn.TransformerEncoderLayer(12, 2, D_FF, batch_first=True).eval()
    with torch.no_grad():
        assert flops(layer, torch.zeros(2, 7, 12)) == 0
