"""What an encoder layer refuses, and in which words. (Without the jaxtyping hook, which would speak first.)"""

import numpy as np
import pytest
import torch
from torch import nn

from attnlib.layers import LayerWeights, encode, encoder_layer, layer_norm

D_MODEL, H, D_FF = 12, 3, 20


def torch_layer(**options):
    return nn.TransformerEncoderLayer(D_MODEL, H, D_FF, batch_first=True, dtype=torch.float64, **options)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"gain_1": np.ones(11)}, ValueError, r"gain_1 has shape \[11\], but must be \[12\]"),
        ({"W_2": np.ones((12, 20))}, ValueError, r"W_2 has shape \[12, 20\], but must be \[20, 12\]"),
        ({"b_1": np.ones(20, dtype=np.float32)}, TypeError, "b_1 is float32"),
        ({"attention": None}, TypeError, "attention must be MultiHeadWeights, not NoneType"),
    ],
)
def test_misfits_are_named(change, error, message):
    weights = vars(LayerWeights.random(D_MODEL, H, d_ff=D_FF, seed=0))
    with pytest.raises(error, match=message):
        LayerWeights(**weights | change)


def test_other_refusals():
    with pytest.raises(ValueError, match="layers is empty"):
        encode(np.ones((1, 2, 12)), [])
    with pytest.raises(TypeError, match="weights must be LayerWeights, not dict"):
        encoder_layer(np.ones((1, 2, 12)), {})
    with pytest.raises(TypeError, match=r"takes a torch\.nn.TransformerEncoderLayer, not Linear"):
        LayerWeights.from_torch(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="bias=False"):
        LayerWeights.from_torch(torch_layer(bias=False))
    with pytest.raises(ValueError, match="gain has 3"):
        layer_norm(np.ones((2, 12)), np.ones(3))
    with pytest.raises(ValueError, match=r"activation is .*tanh"):
        LayerWeights.from_torch(torch_layer(activation=torch.tanh))
