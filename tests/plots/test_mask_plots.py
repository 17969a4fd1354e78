"""The figures of chapter 5: what is hatched, where the dots and the border stand, which labels and notes they carry."""

import matplotlib
import numpy as np
import pytest

matplotlib.use("agg")

from matplotlib.patches import PathPatch

from attnlib import causal_mask, padding_mask
from attnlib.plots import compare_weights, show_influence, show_masks

WORDS = ["the", "bank", "rose", "[PAD]"]
N = len(WORDS)
CAUSAL = causal_mask(N)
PADDING = padding_mask(np.array([[1, 2, 3, 0]]), 0)[0]  # one row, for every query


def panels(fig):
    return [ax for ax in fig.axes if ax.axison and ax.images and ax.get_label() != "<colorbar>"]


def hatched(ax):
    """The cells that a panel hatches, as a boolean matrix."""
    cells = np.zeros((N, N), dtype=bool)
    for patch in ax.patches:
        if isinstance(patch, PathPatch) and patch.get_hatch():
            for corner in patch.get_path().vertices[::5]:
                j, i = np.round(corner + 0.5).astype(int)
                cells[i, j] = True
    return cells


def dots(ax):
    cells = np.zeros((N, N), dtype=bool)
    for line in ax.lines:
        j, i = line.get_data()
        cells[np.array(i, dtype=int), np.array(j, dtype=int)] = True
    return cells


def test_masks_dot_what_may_be_read_and_hatch_the_rest():
    fig = show_masks({"padding": PADDING, "causal": CAUSAL, "both": PADDING & CAUSAL}, rows=WORDS)
    for ax, mask in zip(panels(fig), (PADDING, CAUSAL, PADDING & CAUSAL), strict=True):
        mask = np.broadcast_to(mask, (N, N))
        np.testing.assert_array_equal(dots(ax), mask)
        np.testing.assert_array_equal(hatched(ax), ~mask)


def test_masks_carry_titles_signs_and_labels():
    fig = show_masks({"padding": PADDING, "causal": CAUSAL, "both": PADDING & CAUSAL}, rows=WORDS)
    first, second, third = panels(fig)
    assert [ax.get_title(loc="left") for ax in (first, second, third)] == ["padding", "causal", "both"]
    assert [text.get_text() for ax in fig.axes for text in ax.texts] == ["∧", "="]
    assert [label.get_text() for label in first.get_yticklabels()] == WORDS
    assert [label.get_text() for label in third.get_xticklabels()] == WORDS
    assert first.get_ylabel() == "queries i (rows)"
    assert third.get_xlabel() == "keys j"
    assert first.get_ylim() == (N - 0.5, -0.5)  # the first query on top


def test_masks_of_numbers_and_missing_signs_are_refused():
    with pytest.raises(TypeError, match="mask holds float64, but must be boolean"):
        show_masks({"causal": CAUSAL * 1.0}, rows=WORDS, signs=[])
    with pytest.raises(ValueError, match="signs has 2 entries, but there are 1 gaps"):
        show_masks({"causal": CAUSAL, "again": CAUSAL}, rows=WORDS)


def test_influence_is_hatched_where_it_is_zero_up_to_rounding():
    everywhere = np.full((N, N), 0.5)
    past = np.where(CAUSAL, 0.25, 1e-17)
    left, right = panels(show_influence({"encoder": everywhere, "decoder": past}, rows=WORDS))
    assert not hatched(left).any()
    np.testing.assert_array_equal(hatched(right), ~CAUSAL)


def test_influence_has_one_scale_and_names_its_axes():
    left, right = panels(show_influence({"encoder": np.full((N, N), 0.5), "decoder": CAUSAL * 0.25}, rows=WORDS))
    assert left.images[0].get_clim() == right.images[0].get_clim() == (0, 0.5)
    assert left.get_ylabel() == "outputs i (rows)"
    assert right.get_xlabel() == "moved tokens j"


def test_weights_are_hatched_only_where_they_are_zero_and_the_border_stands_in_every_panel():
    uniform = np.full((N, N), 1 / N)
    right = CAUSAL / CAUSAL.sum(axis=-1, keepdims=True)
    fig = compare_weights({"no mask": uniform, "right": right}, mask=CAUSAL, notes=["leaks", "holds"])
    for ax, A in zip(panels(fig), (uniform, right), strict=True):
        np.testing.assert_array_equal(hatched(ax), A == 0)
        assert len(ax.lines) == 2 * (N - 1)  # a stair has two lines a step
    assert [ax.get_xlabel() for ax in panels(fig)] == ["leaks", "holds"]


def test_weights_need_a_note_each():
    with pytest.raises(ValueError, match="notes has 1 entries, but there are 2 matrices"):
        compare_weights({"a": CAUSAL * 1.0, "b": CAUSAL * 1.0}, mask=CAUSAL, notes=["one"])
