"""The figures of chapter 12 say what they were given."""

import matplotlib
import numpy as np
import pytest

matplotlib.use("agg")


from attnlib.plots import notebook, show_blocks, show_generation, show_reach, show_recall

CAUSAL = np.tri(8, dtype=bool)


def texts(artists):
    return [artist.get_text() for artist in artists]


def test_each_block_says_what_becomes_of_it():
    ax = show_blocks(CAUSAL, block=4)
    assert texts(ax.texts) == ["masked", "skipped", "whole", "masked"]


def test_a_last_block_may_be_smaller():
    ax = show_blocks(CAUSAL, block=3)  # 3 + 3 + 2
    assert texts(ax.texts).count("skipped") == texts(ax.texts).count("whole") == 3
    sizes = [(p.get_height(), p.get_width()) for p in ax.patches if hasattr(p, "get_height")]
    assert sizes[-1] == (2, 2)
    assert sizes[2] == (3, 2)


def test_blocks_of_a_window_are_skipped_on_both_sides():
    i, j = np.indices((9, 9))
    ax = show_blocks((j <= i) & (i - j < 3), block=3)
    assert texts(ax.texts)[6:] == ["skipped", "masked", "masked"]


def test_blocks_need_a_boolean_mask():
    with pytest.raises(TypeError, match="must be boolean"):
        show_blocks(CAUSAL * 1.0, block=4)


REACHED = np.array([[0, 1, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1]])


def test_lines_are_drawn_to_what_one_layer_reads():
    ax = show_reach(REACHED, window=2)
    lines = {tuple(map(int, (*line.get_xdata(), *line.get_ydata()))) for line in ax.lines if len(line.get_xdata()) == 2}
    assert lines == {(3, 3, 2, 1), (3, 2, 2, 1), (3, 3, 1, 0), (3, 2, 1, 0), (2, 2, 1, 0), (2, 1, 1, 0)}


def test_reached_tokens_are_dots_and_others_crosses():
    ax = show_reach(REACHED, window=2)
    dots = {(int(m.get_xdata()[0]), int(m.get_ydata()[0])) for m in ax.lines if m.get_marker() == "o"}
    crosses = {(int(m.get_xdata()[0]), int(m.get_ydata()[0])) for m in ax.lines if m.get_marker() == "X"}
    assert dots == {(j, layer) for layer, j in np.argwhere(REACHED)}
    assert len(dots) + len(crosses) == REACHED.size
    assert texts(ax.get_yticklabels()) == ["input", "layer 1", "layer 2"]


def test_recall_is_measured_and_has_the_level_of_chance():
    ax = show_recall([4, 8, 16], {"softmax": [1, 1, 1], "linear": [0.9, 0.5, 0.2]}, chance=1 / 16)
    assert notebook.show_svg(ax.figure) is None
    assert texts(ax.get_legend().get_texts()) == ["softmax", "linear"]
    assert any(np.allclose(line.get_ydata(), 1 / 16) for line in ax.lines)
    assert texts(ax.get_xticklabels()) == ["4", "8", "16"]


def test_each_number_of_pairs_needs_its_share():
    with pytest.raises(ValueError, match="2 entries, but there are 3 numbers of pairs"):
        show_recall([4, 8, 16], {"softmax": [1, 1]}, chance=0.1)


def test_what_is_read_from_the_cache_has_a_dot():
    once = 2 * np.tri(3, dtype=int) - np.eye(3, dtype=int)
    fig = show_generation({"with": once})
    (dots,) = fig.axes[0].lines
    assert {tuple(map(int, place)) for place in dots.get_xydata()} == {(0, 1), (0, 2), (1, 2)}
    assert fig.axes[0].images[0].get_array().mask.sum() == 3
    assert texts(fig.legends[0].get_texts()) == ["computed", "read from the cache", "not there yet"]
