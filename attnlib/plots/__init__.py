"""The figures of the book: arrays in, Axes or Figure out. No maths of attention, no seeds, no ``plt.show``."""

from attnlib.plots.complexity import show_growth, show_remedies, show_shares, show_wall
from attnlib.plots.dressed_tokens import show_cosines, show_interaction, show_paths
from attnlib.plots.inputs import lookup, show_gram, show_norms, show_positions
from attnlib.plots.learned_attention import show_circuit, show_floor
from attnlib.plots.long_sequences import show_blocks, show_generation, show_reach, show_recall
from attnlib.plots.masks import compare_weights, show_influence, show_masks
from attnlib.plots.matrices import matrix_row, show_heads, show_matrix, show_vectors
from attnlib.plots.multi_head import show_contributions, show_memory
from attnlib.plots.pipeline import pipeline_picture, pipeline_strip
from attnlib.plots.query_key_value import shared_and_separate, show_plane, show_smoothing
from attnlib.plots.real_model import show_outfits, show_planes
from attnlib.plots.scaling import show_answers, show_losses, show_map, show_sharpening, show_variance
from attnlib.plots.shape_check import show_axes, show_learning, show_museum
from attnlib.plots.single_head import show_bars, show_triangle
from attnlib.plots.style import TENSORS, TensorStyle, colormap, tensor_style, use_style

__all__ = [
    "TENSORS",
    "TensorStyle",
    "colormap",
    "compare_weights",
    "lookup",
    "matrix_row",
    "pipeline_picture",
    "pipeline_strip",
    "shared_and_separate",
    "show_answers",
    "show_axes",
    "show_bars",
    "show_blocks",
    "show_circuit",
    "show_contributions",
    "show_cosines",
    "show_floor",
    "show_generation",
    "show_gram",
    "show_growth",
    "show_heads",
    "show_influence",
    "show_interaction",
    "show_learning",
    "show_losses",
    "show_map",
    "show_masks",
    "show_matrix",
    "show_memory",
    "show_museum",
    "show_norms",
    "show_outfits",
    "show_paths",
    "show_plane",
    "show_planes",
    "show_positions",
    "show_reach",
    "show_recall",
    "show_remedies",
    "show_shares",
    "show_sharpening",
    "show_smoothing",
    "show_triangle",
    "show_variance",
    "show_vectors",
    "show_wall",
    "tensor_style",
    "use_style",
]
