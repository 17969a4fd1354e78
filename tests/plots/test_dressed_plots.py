"""The figures of chapter 7 show what they are given: a line for each label, an arrow for each layer, framed pairs."""

import matplotlib
import numpy as np
import pytest

matplotlib.use("agg")


from attnlib.plots import show_cosines, show_interaction, show_paths


def test_each_line_of_cosines_starts_at_the_bare_tokens():
    lines = {"same": [1, 0.9, 0.8], "different": [1, 0.0, -0.9]}
    ax = show_cosines(lines)
    drawn = {line.get_label(): line.get_ydata().tolist() for line in ax.lines[:2]}
    assert drawn == lines
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["bare", "layer 1", "layer 2"]
    assert [text.get_text() for text in ax.figure.legends[0].get_texts()] == list(lines)


def test_five_lines_cannot_be_told_apart():
    with pytest.raises(ValueError, match="5 lines"):
        show_cosines({name: [1, 0] for name in "abcde"})


def test_a_path_has_an_arrow_for_each_layer_and_ends_in_its_sense():
    paths = np.arange(3 * 2 * 2, dtype=float).reshape(3, 2, 2)
    ax = show_paths(paths, [0, 1], names=["river", "money"], highlight={1: "rate"})
    arrows = [text for text in ax.texts if text.get_text() == ""]
    assert len(arrows) == 2 * 2
    assert {(tuple(a.xyann), tuple(a.xy)) for a in arrows} == {
        (tuple(paths[layer, n]), tuple(paths[layer + 1, n])) for layer in range(2) for n in range(2)
    }
    ends = {tuple(line.get_xydata()[0]): line.get_marker() for line in ax.lines if len(line.get_xydata())}
    assert ends[tuple(paths[2, 0])] == "o"
    assert ends[tuple(paths[2, 1])] == "s"
    assert [text.get_text() for text in ax.texts if text.get_text()] == ["rate"]


@pytest.mark.parametrize(
    ("senses", "names", "message"), [([0], ["a", "b"], "senses has 1"), ([0, 1], ["a"], "names has 1")]
)
def test_paths_need_a_sense_for_each_sentence_and_two_names(senses, names, message):
    with pytest.raises(ValueError, match=message):
        show_paths(np.ones((3, 2, 2)), senses, names=names)


def test_what_does_not_act_together_is_hatched_and_the_pair_framed():
    M = np.array([[1.0, 0.01, 0.0], [0.01, 1.0, 1e-13], [0.0, 1e-13, 1.0]])
    fig = show_interaction({"layer 1": M, "layer 2": M + 1e-3}, rows=["a", "b", "c"], pair=(0, 1))
    first, second = (ax for ax in fig.axes if ax.images and ax.get_title(loc="left"))
    free = [np.argwhere(~ax.images[0].get_array().mask).tolist() for ax in (first, second)]
    assert free[0] == [[0, 1], [1, 0]]
    assert free[1] == [[0, 1], [0, 2], [1, 0], [1, 2], [2, 0], [2, 1]]
    frames = [line for line in first.lines if len(line.get_xdata()) == 5]
    assert {(round(np.mean(f.get_ydata()[:4])), round(np.mean(f.get_xdata()[:4]))) for f in frames} == {(0, 1), (1, 0)}
