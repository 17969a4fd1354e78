"""attnlib: attention as a pipeline of small functions, one for each formula of the book."""

from attnlib.complexity import (
    PublishedModel,
    causal_pairs,
    cpu_seconds,
    crossover_length,
    longest_context,
    multiply_adds,
    peak_bytes,
    published_models,
    softmax_operations,
    tensor_bytes,
)
from attnlib.examples import Example, example
from attnlib.inputs import Vocabulary, add_positions, embed, sinusoidal_positions
from attnlib.layers import LayerTrace, LayerWeights, encode, encoder_layer, feed_forward, gelu, layer_norm, relu
from attnlib.masks import apply_mask, causal_mask, padding_mask
from attnlib.measure import effective_keys, influence, jacobian_norm, move_each_token, softmax_jacobian
from attnlib.multi_head import (
    AttentionTrace,
    MultiHeadWeights,
    concat_heads,
    multi_head_attention,
    split_heads,
)
from attnlib.shapes import check_shapes, shape_table
from attnlib.single_head import AttentionResult, attention, project, scores, softmax

__all__ = [
    "AttentionResult",
    "AttentionTrace",
    "Example",
    "LayerTrace",
    "LayerWeights",
    "MultiHeadWeights",
    "PublishedModel",
    "Vocabulary",
    "add_positions",
    "apply_mask",
    "attention",
    "causal_mask",
    "causal_pairs",
    "check_shapes",
    "concat_heads",
    "cpu_seconds",
    "crossover_length",
    "effective_keys",
    "embed",
    "encode",
    "encoder_layer",
    "example",
    "feed_forward",
    "gelu",
    "influence",
    "jacobian_norm",
    "layer_norm",
    "longest_context",
    "move_each_token",
    "multi_head_attention",
    "multiply_adds",
    "padding_mask",
    "peak_bytes",
    "project",
    "published_models",
    "relu",
    "scores",
    "shape_table",
    "sinusoidal_positions",
    "softmax",
    "softmax_jacobian",
    "softmax_operations",
    "split_heads",
    "tensor_bytes",
]
