"""Encoder layers and stacks equal torch's, with weights carried over, in both norm orders."""

import numpy as np
import pytest
import torch
from torch import nn

from attnlib import padding_mask
from attnlib.layers import LayerWeights, encode, encoder_layer, feed_forward, gelu, layer_norm, relu

B, N, D_MODEL, H, D_FF = 2, 7, 12, 3, 20


def torch_layer(norm_first, activation="relu", **options):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(
        D_MODEL,
        H,
        D_FF,
        dropout=0.0,
        activation=activation,
        batch_first=True,
        norm_first=norm_first,
        dtype=torch.float64,
        **options,
    )
    for p in layer.parameters():  # gains of 1 and biases of 0 would hide a mix-up
        nn.init.normal_(p, std=0.5)
    return layer


@pytest.fixture
def X():
    return torch.randn(B, N, D_MODEL, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def keep():
    return padding_mask(torch.tensor([[5, 4, 3, 2, 1, 0, 0], [1, 2, 3, 4, 5, 6, 7]]), pad_id=0)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("padded", [False, True])
def test_layer_equals_torch(X, keep, norm_first, activation, padded):
    layer = torch_layer(norm_first, activation)
    expected = layer(X, src_key_padding_mask=~keep[:, 0] if padded else None)
    trace = encoder_layer(X, LayerWeights.from_torch(layer), mask=keep if padded else None)
    assert torch.allclose(trace.output, expected, atol=1e-10, rtol=0)


@pytest.mark.parametrize("norm_first", [False, True])
def test_stack_equals_torch(X, keep, norm_first):
    stack = nn.TransformerEncoder(torch_layer(norm_first), 3, enable_nested_tensor=False)
    for p in stack.parameters():
        nn.init.normal_(p, std=0.5)
    traces = encode(X, [LayerWeights.from_torch(layer) for layer in stack.layers], mask=keep)
    expected = stack(X, src_key_padding_mask=~keep[:, 0])
    assert len(traces) == 3
    assert torch.equal(traces[1].X, traces[0].output)
    assert torch.allclose(traces[-1].output, expected, atol=1e-10, rtol=0)


@pytest.mark.parametrize("norm_first", [False, True])
def test_numpy_equals_torch(X, norm_first):
    layer = torch_layer(norm_first, "gelu")
    weights = LayerWeights.from_torch(layer)
    in_numpy = LayerWeights(
        **{
            name: value.detach().numpy() if isinstance(value, torch.Tensor) else value
            for name, value in vars(weights).items()
            if name != "attention"
        },
        attention=type(weights.attention)(
            **{
                name: value.detach().numpy() if isinstance(value, torch.Tensor) else value
                for name, value in vars(weights.attention).items()
            }
        ),
    )
    output = encoder_layer(X.numpy(), in_numpy).output
    assert isinstance(output, np.ndarray)
    assert np.allclose(output, encoder_layer(X, weights).output.detach(), atol=1e-12)


def test_gradients_equal_torch(X):
    layer = torch_layer(norm_first=True)
    layer(X).square().sum().backward()
    expected = {name: p.grad.clone() for name, p in layer.named_parameters()}
    layer.zero_grad()
    encoder_layer(X, LayerWeights.from_torch(layer)).output.square().sum().backward()
    for name, p in layer.named_parameters():
        assert torch.allclose(p.grad, expected[name], atol=1e-8), name


def test_parts_equal_torch(X):
    torch.manual_seed(2)
    gain, shift = torch.randn(2, D_MODEL, dtype=torch.float64)
    assert torch.allclose(layer_norm(X, gain, shift), nn.functional.layer_norm(X, (D_MODEL,), gain, shift), atol=1e-12)
    assert torch.allclose(gelu(X), nn.functional.gelu(X), atol=1e-14)
    assert np.allclose(gelu(X.numpy()), nn.functional.gelu(X), atol=1e-14)
    assert torch.equal(relu(X), nn.functional.relu(X))


def test_feed_forward_never_mixes_tokens(X):
    W_1, W_2 = torch.randn(D_MODEL, D_FF).double(), torch.randn(D_FF, D_MODEL).double()
    moved = X.clone()
    moved[:, 2] += 1
    changed = feed_forward(moved, W_1, None, W_2, None) != feed_forward(X, W_1, None, W_2, None)
    assert changed[:, 2].all() and changed.sum() == changed[:, 2].sum()


def test_half_precision_is_kept(X):
    half = X.numpy().astype(np.float16)
    assert layer_norm(half).dtype == gelu(half).dtype == relu(half).dtype == np.float16
