"""The figures of chapter 11 show what they are given: a line for each outfit, a panel for each word, a mark a sense."""

import matplotlib
import numpy as np
import pytest

matplotlib.use("agg")

from attnlib.plots import show_outfits, show_planes


def test_each_outfit_has_its_line_and_chance_is_marked():
    counts = {"learned": [70, 101, 120], "uniform": [70, 80, 96], "none": [70, 68, 69]}
    ax = show_outfits(counts, of=128, chance=59.7)
    drawn = {line.get_label(): line.get_ydata().tolist() for line in ax.lines[:3]}
    assert drawn == counts
    assert set(ax.lines[3].get_ydata()) == {59.7}
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["bare", "1", "2"]
    assert ax.get_ylim()[1] == 128


def test_four_outfits_cannot_be_told_apart():
    with pytest.raises(ValueError, match="4 lines"):
        show_outfits({name: [1, 2] for name in "abcd"}, of=4, chance=1)


def test_each_word_has_a_panel_and_each_sense_a_mark():
    places = np.arange(5 * 4 * 2, dtype=float).reshape(5, 4, 2)
    senses = np.tile([0, 1, 1, 0], (5, 1))
    fig = show_planes(places, senses, names=[(f"word {w}", "river", "money") for w in range(5)])
    panels = [ax for ax in fig.axes if ax.axison]
    assert [ax.get_title() for ax in panels] == [f"word {w}" for w in range(5)]
    for ax, place in zip(panels, places, strict=True):
        river, money = ax.lines
        assert (river.get_label(), money.get_label()) == ("river", "money")
        assert np.array_equal(river.get_xydata(), place[[0, 3]])
        assert np.array_equal(money.get_xydata(), place[[1, 2]])
        assert river.get_marker() != money.get_marker()


def test_planes_need_names_for_each_word():
    with pytest.raises(ValueError, match="names has 1"):
        show_planes(np.ones((2, 4, 2)), np.ones((2, 4)), names=[("bank", "river", "money")])
