"""attnlib: attention as a pipeline of small functions, one for each formula of the book."""

from attnlib.examples import Example, example
from attnlib.inputs import Vocabulary, add_positions, embed, sinusoidal_positions
from attnlib.masks import apply_mask, causal_mask, padding_mask
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
    "MultiHeadWeights",
    "Vocabulary",
    "add_positions",
    "apply_mask",
    "attention",
    "causal_mask",
    "check_shapes",
    "concat_heads",
    "embed",
    "example",
    "multi_head_attention",
    "padding_mask",
    "project",
    "scores",
    "shape_table",
    "sinusoidal_positions",
    "softmax",
    "split_heads",
]
