"""The figures of chapter 8 say what they were given, and measured times leave no SVG behind."""

import matplotlib
import numpy as np
import pytest

matplotlib.use("agg")


from attnlib.plots import notebook, show_growth, show_remedies, show_shares, show_wall

SHARES = {"FFN": [0.6, 0.3, 0.0], "projections": [0.4, 0.3, 0.2], "S": [0, 0.2, 0.4], "H": [0, 0.2, 0.4]}


def test_shares_are_stacked_and_named():
    ax = show_shares([32, 256, 2048], SHARES, marks={"here": 100}, ticks=[32, 2048])
    tops = [area.get_paths()[0].vertices[:, 1].max() for area in ax.collections]
    assert np.allclose(tops, [0.6, 1.0, 1.0, 1.0])
    assert {text.get_text() for text in ax.texts} == {"FFN", "projections", r"$QK^{\mathsf{T}}$", "$AV$", "here"}
    assert [label.get_text() for label in ax.get_xticklabels()] == ["32", "2k"]


def test_an_unknown_step_is_named():
    with pytest.raises(ValueError, match="step 'softmax', but must have some of FFN"):
        show_shares([32], {"softmax": [1.0]}, marks={}, ticks=[32])


def test_slopes_are_fitted_and_written():
    N = np.array([128, 256, 512])
    fig = show_growth(N, {"time": {"attention": 3.0 * N**2, "projection": 5.0 * N}})
    legend = [text.get_text() for text in fig.axes[0].get_legend().get_texts()]
    assert legend == ["attention: slope 2.00", "projection: slope 1.00"]
    assert fig.axes[0].get_xscale() == fig.axes[0].get_yscale() == "log"


def test_what_a_run_measured_is_shown_as_png_alone():
    fig = show_growth([128, 256], {"time": {"attention": [1, 4]}})
    assert notebook.show_svg(fig) is None
    data, size = notebook.show_png(fig)
    assert int.from_bytes(data[16:20]) // 2 == size["width"]  # two pixels for each of the page


def test_each_length_needs_its_value():
    with pytest.raises(ValueError, match="2 entries, but there are 3 lengths"):
        show_growth([128, 256, 512], {"time": {"attention": [1, 4]}})


def test_each_model_has_its_mark_at_its_own_length():
    sizes = {"small": [1e6, 4e6, 16e6], "large": [2e6, 8e6, 32e6]}
    ax = show_wall([256, 512, 1024], sizes, contexts={"small": 512, "large": 1024}, budgets={"8 MB": 8e6})
    marks = {line.get_label(): line.get_markevery() for line in ax.lines if line.get_marker() not in ("None", None, "")}
    assert marks == {"small": [1], "large": [2]}
    assert "8 MB" in [text.get_text() for text in ax.texts]


def test_held_pairs_have_dots_and_uncomputed_ones_are_hatched():
    window = np.array([[2, 0, 0], [1, 2, 0], [0, 1, 2]])
    ax = show_remedies({"window": window}, state=(1, 1)).axes[0]
    dots = {tuple(map(int, place)) for line in ax.lines if line.get_marker() == "o" for place in line.get_xydata()}
    assert dots == {(0, 0), (1, 1), (2, 2)}
    assert ax.images[0].get_array().mask.sum() == (window == 0).sum()


def test_without_any_pair_a_state_stands_there():
    ax = show_remedies({"linear": np.zeros((12, 12))}, state=(4, 3)).axes[0]
    boxes = [(p.get_height(), p.get_width()) for p in ax.patches if hasattr(p, "get_height")]
    assert (4, 3) in boxes
