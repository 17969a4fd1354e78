"""The figures: who stands where, what is readable, what repeats to the byte. No test depends on a machine's fonts."""

import io
import subprocess
import sys

import matplotlib
import numpy as np
import pytest

matplotlib.use("agg")

from matplotlib import font_manager
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgb
from matplotlib.patches import PathPatch

from attnlib import attention, causal_mask, example, multi_head_attention, project, shape_table, sinusoidal_positions
from attnlib.exercises.museum import MUSEUM
from attnlib.plots import (
    TENSORS,
    colormap,
    fonts,
    lookup,
    matrix_row,
    notebook,
    pipeline_picture,
    pipeline_strip,
    shared_and_separate,
    show_answers,
    show_axes,
    show_bars,
    show_blocks,
    show_circuit,
    show_contributions,
    show_cosines,
    show_floor,
    show_generation,
    show_gram,
    show_growth,
    show_heads,
    show_interaction,
    show_learning,
    show_losses,
    show_map,
    show_matrix,
    show_memory,
    show_museum,
    show_norms,
    show_outfits,
    show_paths,
    show_plane,
    show_planes,
    show_positions,
    show_reach,
    show_recall,
    show_remedies,
    show_shares,
    show_sharpening,
    show_smoothing,
    show_triangle,
    show_variance,
    show_vectors,
    show_wall,
    tensor_style,
    use_style,
)
from attnlib.plots.style import BACKGROUND, FAINT, INK, MASKED_FACE, contrast, text_on
from attnlib.properties import TESTS

KEYS = ["k0", "k1", "k2"]


def texts(axis_labels):
    return [label.get_text() for label in axis_labels]


def cell_texts(ax):
    """What is written in each cell, by (row, column)."""
    return {(round(t.get_position()[1]), round(t.get_position()[0])): t.get_text() for t in ax.texts}


# --- The visual code -------------------------------------------------------------------------------------------------


def test_each_tensor_has_its_own_colour_letter_and_hatch():
    assert list(TENSORS) == ["X", "Q", "K", "V", "S", "A", "H", "output"]
    for field in ("color", "letter", "symbol", "hatch", "name"):
        values = [getattr(style, field) for style in TENSORS.values()]
        assert len(set(values)) == len(values), field
        assert all(values), field


def test_colours_are_those_of_okabe_and_ito():
    palette = {"#000000", "#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7"}
    assert {style.color for style in TENSORS.values()} == palette


def test_names_on_the_way_share_the_look_of_their_tensor():
    for name, base in {"S_masked": "S", "concat": "H", "X_tok": "X", "X_pos": "X", "E": "X"}.items():
        assert tensor_style(name).color == TENSORS[base].color
        assert tensor_style(name).hatch == TENSORS[base].hatch
        assert tensor_style(name).letter != TENSORS[base].letter


def test_an_unknown_tensor_is_named():
    with pytest.raises(ValueError, match="tensor is 'W', but must be one of X, Q, K"):
        tensor_style("W")


@pytest.mark.parametrize("name", TENSORS)
def test_text_on_and_in_a_tensors_colour_is_readable(name):
    style = TENSORS[name]
    assert contrast(style.on_color, style.color) >= 4.5
    assert contrast(style.ink, BACKGROUND) >= 4.5


def test_text_of_figures_is_readable():
    assert contrast(INK, BACKGROUND) >= 7
    assert contrast(FAINT, BACKGROUND) >= 4.5
    assert contrast(INK, MASKED_FACE) >= 4.5


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("name", [*TENSORS, None])
def test_numbers_are_readable_on_every_shade(name, signed):
    for shade in colormap(name, signed=signed)(np.linspace(0, 1, 101))[:, :3]:
        assert contrast(text_on(shade), shade) >= 4.5


@pytest.mark.parametrize("name", TENSORS)
def test_colour_maps_run_from_near_white_to_the_tensors_colour_and_darken_steadily(name):
    shades = colormap(name)(np.linspace(0, 1, 101))[:, :3]
    assert contrast(shades[0], "#ffffff") < 1.1
    assert np.abs(shades - to_rgb(TENSORS[name].color)).sum(axis=1).min() < 0.05
    light = [contrast(shade, "#000000") for shade in shades]
    assert all(np.diff(light) <= 1e-9)


@pytest.mark.parametrize("name", TENSORS)
def test_signed_maps_are_near_white_at_zero_and_dark_at_both_ends(name):
    low, zero, high = colormap(name, signed=True)([0.0, 0.5, 1.0])[:, :3]
    assert contrast(zero, "#ffffff") < 1.1
    assert min(contrast(low, "#ffffff"), contrast(high, "#ffffff")) >= 4.5
    assert difference(low, high) > 25


# What people with red-, green- and blue-blindness see (Machado, Oliveira and Fernandes 2009, severity 1), linear RGB.
BLINDNESS = {
    "none": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def lab(color, blindness):
    """CIE L*a*b* of a colour as seen with a kind of colour blindness."""
    rgb = np.array(to_rgb(color))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.array(BLINDNESS[blindness]) @ linear, 0, 1)
    to_xyz = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
    xyz = np.array(to_xyz) @ seen / np.array([0.95047, 1.0, 1.08883])
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def difference(color, other, blindness="none"):
    return float(np.linalg.norm(lab(color, blindness) - lab(other, blindness)))


@pytest.mark.parametrize("blindness", BLINDNESS)
def test_colours_stay_apart_for_colour_blind_readers(blindness):
    colors = [style.color for style in TENSORS.values()]
    closest = min(difference(a, b, blindness) for i, a in enumerate(colors) for b in colors[:i])
    assert closest > 10, closest


# --- Matrices: who stands where (queries down, keys across) ----------------------------------------------------------


def test_keys_run_across_and_queries_run_down():
    weights = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    ax = show_matrix(weights, tensor="A", rows=["q0", "q1"], columns=KEYS)
    assert texts(ax.get_xticklabels()) == KEYS
    assert texts(ax.get_yticklabels()) == ["q0", "q1"]
    assert ax.images[0].get_array().shape == (2, 3)
    assert "keys" in ax.get_xlabel()
    assert "queries" in ax.get_ylabel()
    assert cell_texts(ax)[0, 2] == "1.00"  # query 0 reads key 2: top right


def test_the_bright_cell_of_query_0_and_key_2_is_drawn_at_the_top_right():
    ax = show_matrix([[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]], tensor="A", rows=["q0", "q1"], columns=KEYS, numbers=False)
    fig = ax.figure
    fig.canvas.draw()
    pixels = np.asarray(fig.canvas.buffer_rgba())[..., :3].astype(int)
    box = ax.get_window_extent()
    down, right = np.mgrid[0 : pixels.shape[0], 0 : pixels.shape[1]]
    dark = pixels[..., 0] - pixels[..., 2] > 120  # vermillion: red without blue
    assert dark.any()
    assert right[dark].mean() > box.x0 + box.width * 2 / 3
    assert down[dark].mean() < pixels.shape[0] - (box.y0 + box.height / 2)


@pytest.mark.parametrize(("N_q", "N_k"), [(4, 4), (2, 5), (5, 2), (1, 1), (30, 20)])
def test_first_row_is_on_top_and_first_and_last_rows_are_whole(N_q, N_k):
    ax = show_matrix(causal_mask(N_q, N_k).astype(float), tensor="A")
    assert ax.get_xlim() == (-0.5, N_k - 0.5)
    assert ax.get_ylim() == (N_q - 0.5, -0.5)
    assert ax.images[0].origin == "upper"
    assert tuple(ax.images[0].get_extent()) == (-0.5, N_k - 0.5, N_q - 0.5, -0.5)


def test_as_many_labels_as_ticks():
    ax = show_matrix(FREE.S, tensor="S", rows=TOKENS)
    assert list(ax.get_xticks()) == list(ax.get_yticks()) == list(range(7))
    assert texts(ax.get_xticklabels()) == texts(ax.get_yticklabels()) == TOKENS


def test_without_labels_rows_and_columns_are_numbered_from_0():
    ax = show_matrix(np.zeros((3, 40)), tensor="S")
    assert texts(ax.get_yticklabels()) == ["0", "1", "2"]
    places = [int(text) for text in texts(ax.get_xticklabels())]
    assert places == list(ax.get_xticks())
    assert places[0] == 0
    assert max(places) < 40


def test_square_vectors_do_not_label_components_with_tokens():
    ax = show_vectors(np.eye(2), tensor="Q", rows=["river", "bank"])
    assert texts(ax.get_xticklabels()) == ["0", "1"]
    assert (ax.get_ylabel(), ax.get_xlabel()) == ("tokens i (rows)", "components (columns)")
    wide = show_vectors(np.eye(20), tensor="Q", rows=["t"] * 20)
    assert texts(wide.get_xticklabels())[:4] == ["0", "", "2", ""]


def test_cells_show_their_values_with_a_real_minus_and_no_negative_zero():
    ax = show_matrix([[-1.5, -0.001], [0.25, np.nan]], tensor="S", rows=["a", "b"])
    assert cell_texts(ax) == {(0, 0): "\u22121.50", (0, 1): "0.00", (1, 0): "0.25", (1, 1): "nan"}


def test_where_numbers_do_not_fit_negative_cells_are_marked():
    M = np.ones((2, 12))
    M[1, 7] = -1
    assert cell_texts(show_matrix(M, tensor="S")) == {(1, 7): "\u2212"}
    assert cell_texts(show_matrix(M[:, :8], tensor="S", numbers=False)) == {(1, 7): "\u2212"}
    assert show_matrix(np.ones((2, 12)), tensor="S", numbers=True).texts[0].get_text() == "1.00"


def test_masked_cells_are_hatched_and_hold_no_number():
    scores = show_matrix(CAUSAL.S_masked, tensor="S_masked", rows=TOKENS)
    weights = show_matrix(CAUSAL.A, tensor="A", rows=TOKENS, mask=causal_mask(7))
    for ax in (scores, weights):
        (hatched,) = (patch for patch in ax.patches if isinstance(patch, PathPatch))
        assert hatched.get_hatch()
        assert len(hatched.get_path().vertices) == 5 * 21  # the cells above the diagonal
        assert set(cell_texts(ax)) == {(i, j) for i in range(7) for j in range(i + 1)}
        assert ax.images[0].get_array().mask.sum() == 21


def test_a_matrix_that_is_masked_altogether_is_drawn():
    ax = show_matrix(np.full((2, 2), -np.inf), tensor="S_masked", rows=["a", "b"])
    ax.figure.canvas.draw()
    assert not ax.texts


def test_weights_have_one_scale_and_signed_scores_a_symmetric_one():
    assert show_matrix([[0.1, 0.2]], tensor="A").images[0].get_clim() == (0, 1)
    assert show_matrix([[-1.0, 3.0]], tensor="S").images[0].get_clim() == (-3, 3)
    assert show_matrix([[1.0, 3.0]], tensor="S").images[0].get_clim() == (0, 3)
    assert show_matrix([[0.0, 0.0]], tensor="S").images[0].get_clim() == (0, 1)
    assert show_matrix([[1.0, 3.0]], tensor="S", vmin=-5, vmax=5).images[0].get_clim() == (-5, 5)


def test_torch_tensors_are_welcome():
    torch = pytest.importorskip("torch")
    ax = show_matrix(torch.eye(2, requires_grad=True), tensor="A", rows=["a", "b"])
    assert cell_texts(ax)[0, 0] == "1.00"


def test_input_is_not_changed():
    before = FREE.S.copy()
    show_matrix(FREE.S, tensor="S", mask=causal_mask(7))
    assert (FREE.S == before).all()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: show_matrix(np.ones((1, 2, 2)), tensor="A"), ValueError, r"M has shape \[1, 2, 2\].*M\[0\]"),
        (
            lambda: show_matrix(np.ones(2), tensor="A"),
            ValueError,
            r"M has shape \[2\], but needs the axes \[N_q, N_k\]",
        ),
        (lambda: show_matrix(np.ones((0, 2)), tensor="A"), ValueError, "nothing to draw"),
        (lambda: show_matrix(np.ones((2, 2)), tensor="A", rows=["a"]), ValueError, "rows has 1 entries.*2 rows of M"),
        (
            lambda: show_matrix(np.ones((2, 3)), tensor="A", rows=["a", "b"], columns=["a", "b"]),
            ValueError,
            "columns has 2 entries, but there are 3 columns of M",
        ),
        (lambda: show_matrix(np.ones((2, 2)), tensor="A", rows="ab"), TypeError, "rows is the text 'ab'"),
        (lambda: show_matrix(np.ones((2, 2)), tensor="A", mask=np.ones((2, 2))), TypeError, "must be boolean"),
        (lambda: show_matrix(np.ones((2, 2)), tensor="A", mask=causal_mask(3)), ValueError, r"mask has shape \[3, 3\]"),
        (lambda: show_matrix(np.ones((2, 2)), tensor="weights"), ValueError, "tensor is 'weights'"),
        (lambda: show_heads(np.ones((2, 2)), rows=["a", "b"]), ValueError, r"A has shape \[2, 2\].*\[h, N_q, N_k\]"),
        (lambda: show_heads(np.ones((2, 2, 2)), rows=["a", "b"], titles=["x"]), ValueError, "2 heads"),
        (lambda: matrix_row({"S": np.ones((2, 2)), "A": np.ones((3, 3))}, rows=["a", "b"]), ValueError, "rows of A"),
        (lambda: show_bars(np.ones((1, 2)), rows=["a"], columns=["a"]), ValueError, "columns of A"),
        (lambda: pipeline_strip(), ValueError, "Name at least one stage"),
        (lambda: pipeline_strip("softmax"), ValueError, "'softmax' is no stage of the pipeline: choose from X, QKV"),
        (lambda: pipeline_picture({"X": (1, 2, 3)}), ValueError, "no entry for Q, K, V"),
        (lambda: lookup([0], np.ones((2, 3)), np.ones((2, 3)), words=["a", "b"]), ValueError, r"X_tok has shape"),
        (lambda: lookup([0], np.ones((2, 3)), np.ones((1, 3)), words=["a"]), ValueError, "words has 1 entries"),
        (lambda: show_gram(np.ones((2, 3))), ValueError, "square"),
        (lambda: show_norms([1.0], [1.0, 2.0], labels=["a"]), ValueError, "position has 2 entries"),
        (lambda: show_axes({"X": (1, 2, 3)}), ValueError, "no entry for Q, K, V"),
        (
            lambda: show_museum([["passed"]], rows=["a"], columns=["b"], groups={"c": 2}),
            ValueError,
            "groups has 2 rows in all, but outcomes has 1",
        ),
        (lambda: show_learning({"a": [1.0]}, right=[1.0], notes=[]), ValueError, "notes has 0 entries"),
        (lambda: show_triangle(np.ones((4, 2)), np.ones(4), np.ones(2), labels="abcd"), ValueError, "three values"),
        (
            lambda: show_plane(
                [1, 1], np.ones((2, 2)), np.ones((3, 4)), x=[0, 1, 2], y=[0, 1, 2, 3], labels=["a", "b"]
            ),
            ValueError,
            r"weight has shape \[3, 4\]",
        ),
        (
            lambda: show_smoothing([0, 1], np.ones((1, 2)), keys=[0, 1], values=[1], scales=[1]),
            ValueError,
            "values has 1 entries",
        ),
    ],
)
def test_errors_name_the_argument(call, error, message):
    with pytest.raises(error, match=message):
        call()


# --- Several matrices ------------------------------------------------------------------------------------------------


def test_matrices_in_a_row_share_their_tokens():
    fig = matrix_row({"S": FREE.S, "A": FREE.A, "H": FREE.H}, rows=TOKENS)
    panels = [ax for ax in fig.axes if ax.images]
    assert [ax.images[0].get_array().shape for ax in panels] == [(7, 7), (7, 7), (7, 12)]
    assert texts(panels[0].get_yticklabels()) == TOKENS
    assert texts(panels[1].get_yticklabels()) == [""] * 7
    assert texts(panels[1].get_xticklabels()) == TOKENS
    assert all(ax.get_ylim() == (6.5, -0.5) for ax in panels)
    assert "softmax" in panels[1].get_title(loc="left")


def test_a_row_with_few_columns_shows_numbers():
    fig = matrix_row({"A": np.eye(2), "H": np.ones((2, 3))}, rows=["a", "b"])
    assert cell_texts(fig.axes[0])[1, 1] == "1.00"


def test_each_head_has_its_own_panel_on_one_scale():
    heads = np.array([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]])  # the mean, [.5, .5], would show neither
    fig = show_heads(heads, rows=["a", "b"])
    panels = [ax for ax in fig.axes if ax.images]
    assert [ax.get_title(loc="left") for ax in panels] == ["head 0", "head 1"]
    for panel, weights in zip(panels, heads, strict=True):
        assert (panel.images[0].get_array() == weights).all()
        assert panel.images[0].get_clim() == (0, 1)


def test_scores_of_heads_share_a_symmetric_scale():
    fig = show_heads(np.array([[[1.0, -2.0]], [[5.0, 0.0]]]), rows=["a"], columns=["b", "c"], tensor="S")
    assert {ax.images[0].get_clim() for ax in fig.axes if ax.images} == {(-5, 5)}


# --- The pipeline ----------------------------------------------------------------------------------------------------


def test_the_strip_names_the_lit_stages_and_always_shows_all():
    shown = texts(pipeline_strip("S", "A", "H").axes[0].texts)
    assert "you are here: scores, weights, head outputs" in shown
    for symbol in ("$X$", "$Q$", "$K$", "$V$", "$S$", "mask", "$A$", "$H{=}AV$", "concat", "output"):
        assert symbol in shown


def test_stages_are_named_in_the_order_of_the_pipeline():
    assert "you are here: queries, keys, values" in texts(pipeline_strip("QKV").axes[0].texts)
    assert "you are here: token vectors, output" in texts(pipeline_strip("output", "X").axes[0].texts)


@pytest.mark.parametrize(("stages", "brackets"), [("SAH", 1), (("QKV", "S"), 1), (("X", "output"), 2), ("SH", 2)])
def test_a_bracket_spans_neighbours_only(stages, brackets):
    lines = pipeline_strip(*stages).axes[0].lines
    assert sum(line.get_marker() == "v" for line in lines) == brackets


@pytest.mark.parametrize("stage", ["X", "QKV", "Q", "S", "mask", "A", "H", "concat", "output"])
def test_no_text_of_the_strip_leaves_the_figure(stage):
    fig = pipeline_strip(stage)
    for text in fig.axes[0].texts:
        box = text.get_window_extent(fig.canvas.get_renderer())
        assert box.x0 >= 0
        assert box.x1 <= fig.bbox.width


def test_the_picture_names_symbol_shape_and_chapter_of_each_tensor():
    fig = pipeline_picture(shape_table(B=2, N=7, d_model=12, h=3))
    shown = " ".join(texts(fig.axes[0].texts))
    for tensor, shape in shape_table(B=2, N=7, d_model=12, h=3).items():
        assert tensor_style(tensor).symbol in shown
        assert tensor_style(tensor).name in shown
        assert str(list(shape)) in shown
    assert {text for text in texts(fig.axes[0].texts) if text.strip("3, ").isdigit() or text == "3, 4"} >= set("126")


# --- Every figure, drawn from the running example ---------------------------------------------------------------------

EX = example()
TOKENS = list(EX.tokens)
Q, K, V = (project(EX.X[0], W) for W in (EX.weights.W_Q, EX.weights.W_K, EX.weights.W_V))
FREE, CAUSAL = attention(Q, K, V), attention(Q, K, V, mask=causal_mask(7))
CODES = sinusoidal_positions(20, 8)[0]
GRID, PLACES, LINE = np.linspace(-2, 2, 9), np.linspace(-2, 3, 11), np.array([-1.0, 0.0, 2.0])
PIECES = np.arange(7 * 12).reshape(7, 12)
CORNERS = np.array([[0.0, 0.0], [4.0, 1.0], [1.0, 3.0]])
PATHS = np.cumsum(np.tile([[-3.0, 1.0], [3.0, 2.0]], (4, 6, 1)), axis=0)
BUGS = [bug.name for bug in MUSEUM[::2]]  # with all names the figure is larger: see test_museum
VERDICTS = np.array([["caught"] * 6] + [["crashed"] * 6] * 5 + [["passed"] * 5 + ["caught"]] * 15)
PNG, SVG = "png", "svg"
FIGURES = {  # name: (how to draw it, the format that suits it)
    "strip": (lambda: pipeline_strip("X", "output"), SVG),
    "picture": (lambda: pipeline_picture(shape_table(2, 7, 12, 3)), SVG),
    "matrix": (lambda: show_matrix(FREE.A, tensor="A", rows=TOKENS, bar=True), PNG),
    "masked": (lambda: show_matrix(CAUSAL.S_masked, tensor="S_masked", rows=TOKENS), PNG),
    "vectors": (lambda: show_vectors(EX.X[0], tensor="X", rows=TOKENS), PNG),
    "row": (lambda: matrix_row({"S": FREE.S, "A": FREE.A, "H": FREE.H}, rows=TOKENS), PNG),
    "heads": (lambda: show_heads(multi_head_attention(EX.X, EX.weights).A[0], rows=TOKENS), PNG),
    "lookup": (lambda: lookup(EX.T[0], EX.E, EX.X_tok[0], words=EX.vocabulary.words), PNG),
    "positions": (lambda: show_positions(CODES, np.arange(20)[:, None] >> np.arange(5) & 1), PNG),
    "variance": (lambda: show_variance([4, 16], {"raw": [4, 16], "root": [1, 1], "linear": [0.25, 0.06]}), SVG),
    "sharpening": (lambda: show_sharpening({"with": FREE.A[:2], "without": FREE.A[:2]}, [4, 16]), PNG),
    "answers": (lambda: show_answers([4, 16], {"N = 8": {"with": np.ones((3, 2)) / 3}}), SVG),
    "losses": (lambda: show_losses({"with": np.ones((2, 9)), "without": np.ones((2, 9)) * 2}, chance=2.1), PNG),
    "map": (lambda: show_map(np.array([[0.001, 1.0], [2.0, 8.0]]), lengths=[4, 16], dims=[2, 8]), PNG),
    "gram": (lambda: show_gram(CODES @ CODES.T), PNG),
    "norms": (lambda: show_norms([3.5, 0.07], [2.4, 2.4], labels=["E ~ 1", "E ~ 0.02"]), SVG),
    "plane": (
        lambda: show_plane([1, 0.5], np.eye(2), np.tri(9) * 0.9, x=GRID, y=GRID, labels=["river", "bank"]),
        SVG,
    ),
    "shared": (lambda: shared_and_separate(FREE.S + FREE.S.T, FREE.S, rows=TOKENS, pair=(1, 4)), PNG),
    "smoothing": (lambda: show_smoothing(PLACES, np.ones((2, 11)), keys=LINE, values=LINE, scales=[1, 5]), SVG),
    "bars": (lambda: show_bars(FREE.A[[1, 4]], rows=["bank", "river"], columns=TOKENS), SVG),
    "axes": (lambda: show_axes(shape_table(2, 5, 12, 3)), SVG),
    "museum": (lambda: show_museum(VERDICTS, rows=BUGS, columns=list(TESTS), groups={"first": 6, "second": 15}), SVG),
    "learning": (
        lambda: show_learning({"queries and keys swapped": LINE, "b": LINE}, right=LINE, notes=["100%\nmoved: 8%", ""]),
        PNG,
    ),
    "triangle": (lambda: show_triangle(CORNERS, [0.2, 0.5, 0.3], [2.3, 1.4], labels=["the", "river", "bank"]), SVG),
    "memory": (lambda: show_memory({"bare": PIECES.reshape(3, 7, 4)}, {"whole": PIECES}, rows=TOKENS, h=3), SVG),
    "contributions": (lambda: show_contributions(np.ones((3, 2, 4)), np.full((2, 4), 3.0), rows=["a", "b"]), SVG),
    "cosines": (lambda: show_cosines({name: 1 - k * np.arange(4) / 8 for k, name in enumerate("abcd")}), SVG),
    "paths": (lambda: show_paths(PATHS, [0, 1] * 6, names=["river", "money"], highlight={0: "shore", 1: "rate"}), SVG),
    "outfits": (lambda: show_outfits({name: [70, 96, 120] for name in "abc"}, of=128, chance=60), PNG),
    "planes": (
        lambda: show_planes(
            np.tile(PATHS[-1], (8, 1, 1)), np.tile([0, 1], (8, 6)), names=[("mouse", "animal", "computer")] * 8
        ),
        PNG,
    ),
    "interaction": (lambda: show_interaction({"1": FREE.A, "2": CAUSAL.A}, rows=TOKENS, pair=(1, 4)), PNG),
    "floor": (
        lambda: show_floor(
            {"causal": np.ones((3, 9)), "no mask": np.ones((3, 9)) / 9},
            floor=0.9,
            chance=2.1,
            alone={"causal": [1, 1, 1], "no mask": [4, 4, 4]},
        ),
        PNG,
    ),
    "circuit": (lambda: show_circuit({"1": FREE.A}, {"1": np.eye(7, k=-1, dtype=bool)}, rows=TOKENS), PNG),
    "shares": (
        lambda: show_shares(
            [32, 256, 2048], {"FFN": [1, 0.5, 0], "S": [0, 0.5, 1]}, marks={"$N$": 64}, ticks=[32, 2048]
        ),
        SVG,
    ),
    "growth": (lambda: show_growth([128, 256], {"time": {"attention": [1, 4], "projection": [1, 2]}}), PNG),
    "wall": (
        lambda: show_wall([256, 1024], {"model": [1e6, 16e6]}, contexts={"model": 256}, budgets={"8 MB": 8e6}),
        SVG,
    ),
    "remedies": (lambda: show_remedies({"window": 2 * np.eye(6), "linear": np.zeros((6, 6))}, state=(2, 1)), PNG),
    "blocks": (lambda: show_blocks(causal_mask(12), block=3), PNG),
    "reach": (lambda: show_reach(np.tri(4, 11, 8, dtype=bool)[:, ::-1], window=3), SVG),
    "recall": (lambda: show_recall([4, 8], {"softmax": [1, 1], "linear": [1, 0.5]}, chance=0.1), PNG),
    "generation": (lambda: show_generation({"without": np.tri(8, dtype=int), "with": np.tri(8, dtype=int)}), PNG),
}


def draw(name):
    drawn = FIGURES[name][0]()
    return getattr(drawn, "figure", None) or drawn


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_shown_in_the_format_that_suits_it(name):
    fig = draw(name)
    assert notebook.show_png(fig) is not None  # for line art only a stand-in
    assert (notebook.show_svg(fig) is not None) == (FIGURES[name][1] == SVG)


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_opaque_white_small_and_fits_a_page(name):
    fig = draw(name)
    png = notebook.to_png(fig, dpi=2 * fig.dpi)
    pixels = plt.imread(io.BytesIO(png))
    assert pixels.shape[2] == 3 or (pixels[..., 3] == 1).all()
    assert (pixels[0, 0, :3] == 1).all()
    assert pixels.shape[1] <= 2 * 640
    assert len(png) <= 220_000
    assert FIGURES[name][1] == PNG or len(notebook.to_svg(fig)) <= 120_000


@pytest.mark.parametrize("name", FIGURES)
def test_text_of_every_figure_is_large_enough_for_a_phone(name):
    fig = draw(name)
    fig.canvas.draw()
    shrunk = min(1, 330 / (fig.get_figwidth() * 72))  # a page of 360 CSS pixels leaves 330 for a figure
    for text in fig.findobj(matplotlib.text.Text):
        if text.get_text().strip("\u2212"):
            assert text.get_fontsize() * shrunk >= 7.5, text.get_text()


@pytest.mark.parametrize("name", [name for name in FIGURES if FIGURES[name][1] == SVG])
def test_line_art_drawn_again_is_the_same_to_the_byte(name):
    assert notebook.to_svg(draw(name)) == notebook.to_svg(draw(name))


def test_lines_in_the_triangle_are_as_thick_as_the_weights():
    ax = show_triangle([[0, 0], [4, 1], [1, 3]], [0.1, 0.6, 0.3], [1, 1], labels=["a", "b", "c"])
    widths = [line.get_linewidth() for line in ax.lines if len(line.get_xdata()) == 2]
    assert np.argsort(widths).tolist() == [0, 2, 1]


def test_mirrored_scores_are_framed_and_written_out():
    S = np.array([[0.0, 1.0], [1.0, 0.0]])
    fig = shared_and_separate(S, np.array([[0.0, 1.0], [-2.0, 0.0]]), rows=["a", "b"], pair=(0, 1))
    assert "a reads b: 1.00\nb reads a: 1.00" in fig.axes[0].get_xlabel()
    assert "a reads b: 1.00\nb reads a: \u22122.00" in fig.axes[1].get_xlabel()


def test_the_lookup_keeps_unread_rows_pale_and_links_each_id():
    fig = lookup(EX.T[0], EX.E, EX.X_tok[0], words=EX.vocabulary.words)
    table = fig.axes[1]
    assert len(table.patches) == len(EX.vocabulary) - len(set(EX.T[0].tolist()))
    assert len(fig.artists) == 2 * EX.T.shape[1]


# --- Tokens in any script --------------------------------------------------------------------------------------------

CHINESE = ["河", "边", "石", "岸"]  # none of them in the font that comes with attnlib: see test_chinese_plots.py


def test_chinese_tokens_are_drawn_without_missing_glyphs(recwarn):
    show_matrix(np.eye(4), tensor="A", rows=CHINESE).figure.canvas.draw()
    assert not recwarn.list


def test_chinese_tokens_are_shown_as_they_are_where_a_font_has_them():
    if fonts.chinese_font() is None:
        pytest.skip("no Chinese font on this machine")
    ax = show_matrix(np.eye(4), tensor="A", rows=CHINESE)
    assert texts(ax.get_yticklabels()) == CHINESE
    plt.title("河边石岸")  # and plain text finds the same font
    ax.figure.canvas.draw()


def test_without_a_chinese_font_tokens_are_shown_by_their_code_points(without_chinese_font, recwarn):
    ax = show_matrix(np.eye(4), tensor="A", rows=CHINESE)
    assert texts(ax.get_yticklabels()) == ["U+6CB3", "U+8FB9", "U+77F3", "U+5CB8"]
    ax.figure.canvas.draw()
    assert not recwarn.list


def test_a_font_that_matplotlib_has_not_listed_yet_is_found(without_chinese_font, monkeypatch):
    path = font_manager.findfont("DejaVu Serif")  # stands for a font that was installed since
    listed = [font for font in font_manager.fontManager.ttflist if font.fname != path]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", listed)
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [path])
    monkeypatch.setattr(fonts, "CHINESE", ("DejaVu Serif",))
    fonts.chinese_font.cache_clear()
    assert fonts.font_families() == ["DejaVu Sans", "Attnlib Han", "DejaVu Serif"]


def test_figures_in_english_do_not_depend_on_the_fonts_of_the_machine(without_chinese_font):
    def draw():
        use_style()
        return notebook.to_svg(show_bars(FREE.A[:2], rows=["the", "bank"], columns=TOKENS))

    without = draw()
    fonts.chinese_font.cache_clear()
    fonts.CHINESE = ("DejaVu Serif",)  # the fixture restores it
    assert fonts.font_families() == ["DejaVu Sans", "Attnlib Han", "DejaVu Serif"]
    assert draw() == without


@pytest.mark.parametrize(
    ("token", "shown"), [("a$b$c", "a$b$c"), ("a\nb", r"a\nb"), ("_x^2", "_x^2"), ("\U000f0000", "U+F0000")]
)
def test_tokens_are_text_not_formulas(token, shown):
    ax = show_matrix([[1.0]], tensor="A", rows=[token])
    ax.figure.canvas.draw()
    assert texts(ax.get_yticklabels())[0].replace("\\U000f0000", "U+F0000") == shown
    assert not ax.get_yticklabels()[0].get_parse_math()


# --- Repeatable to the byte ------------------------------------------------------------------------------------------


def test_svg_holds_no_date_no_program_and_draws_text_as_paths():
    svg = notebook.to_svg(pipeline_strip("A"))
    assert "<dc:date>" not in svg
    assert "Matplotlib v" not in svg
    assert "<text" not in svg
    assert notebook.to_svg(pipeline_strip("A")).startswith("<?xml")


def test_the_same_figure_gives_the_same_svg_in_another_process():
    code = (
        "import matplotlib; matplotlib.use('agg')\n"
        "from attnlib.plots import notebook, pipeline_strip, use_style\n"
        "import hashlib; use_style()\n"
        "print(hashlib.sha256(notebook.to_svg(pipeline_strip('S', 'A')).encode()).hexdigest())"
    )
    runs = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    }
    assert len(runs) == 1


# --- In a notebook, and outside --------------------------------------------------------------------------------------


def test_use_style_does_nothing_harmful_outside_of_ipython():
    backend = matplotlib.get_backend()
    use_style()
    use_style()
    assert matplotlib.get_backend() == backend


def test_importing_attnlib_imports_no_matplotlib():
    code = "import sys, attnlib; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.fixture(scope="module")
def executed():
    """The outputs of a small notebook, executed twice: a list of cells for each run."""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    cells = [
        "import numpy as np\nfrom matplotlib import pyplot as plt\nfrom attnlib.plots import *\nuse_style()",
        "pipeline_strip('X')\nplt.show()",
        "show_matrix(np.eye(3), tensor='A', rows=['a', 'b', 'c'])\nplt.show()",
        "plt.plot([1, 2, 3])\nplt.show()",
    ]
    runs = []
    for _ in range(2):
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        nbclient.NotebookClient(book, kernel_name="python3", timeout=120).execute()
        runs.append([cell["outputs"] for cell in book.cells])
    return runs


@pytest.mark.filterwarnings("default")  # of the kernel's own machinery
def test_a_notebook_shows_line_art_as_svg_and_heat_maps_as_png(executed):
    first, _ = executed
    assert first[0] == []
    line_art, heat_map = {"image/svg+xml", "image/png", "text/plain"}, {"image/png", "text/plain"}
    for outputs, kinds in zip(first[1:], (line_art, heat_map, line_art), strict=True):
        assert [set(output["data"]) for output in outputs] == [kinds]
    assert set(first[2][0]["metadata"]["image/png"]) == {"width"}


@pytest.mark.filterwarnings("default")
def test_a_notebook_run_twice_gives_the_same_bytes(executed):
    first, second = ([[output["data"] for output in cell] for cell in run] for run in executed)
    assert first == second
