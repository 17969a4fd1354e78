"""The figures of chapter 6: each piece stands where memory says, and the arrows of the heads end at the output."""

import matplotlib
import numpy as np
import pytest

matplotlib.use("agg")

import itertools

from attnlib import concat_heads, split_heads
from attnlib.plots import show_contributions, show_memory

WORDS = ["the", "bank", "rose"]
PLACES = np.arange(3 * 4).reshape(3, 4)  # 3 tokens, 2 heads of width 2


def lines(fig):
    """What is written in the figure, line by line from the top, each from left to right."""
    by_height = {}
    for text in fig.axes[0].texts:
        x, y = text.get_position()
        by_height.setdefault(round(y, 2), []).append((x, text.get_text()))
    return [" ".join(text for _, text in sorted(by_height[y])) for y in sorted(by_height, reverse=True)]


def test_each_piece_stands_where_memory_says():
    right = split_heads(PLACES, 2)
    fig = show_memory(
        {"swap": right, "bare": PLACES.reshape(2, 3, 2)},
        {"swap": concat_heads(right), "bare": right.reshape(3, 4)},
        rows=WORDS,
        h=2,
    )
    assert [line for line in lines(fig) if "0a" in line or "2b" in line] == [
        "0a 0b 1a 1b 2a 2b",  # memory, token after token
        "head 0 0a 1a 2a head 0 0a 0b 1a",
        "head 1 0b 1b 2b head 1 1b 2a 2b",
        "0a 1a 2a 0b 1b 2b",  # memory, head after head
        "the 0a 0b the 0a 1a",
        "rose 2a 2b rose 1b 2b",
    ]


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (PLACES.reshape(3, 2, 2).transpose(1, 0, 2)[..., ::-1], "tears pieces apart"),
        (PLACES.reshape(3, 2, 2).transpose(2, 0, 1), "tears pieces apart"),
        (np.arange(10).reshape(1, 2, 5), "cannot draw 3 tokens of 2 pieces"),
    ],
)
def test_torn_pieces_are_refused(split, message):
    with pytest.raises(ValueError, match=message):
        show_memory({"torn": split}, {}, rows=WORDS, h=2)


def test_arrows_run_tip_to_tail_and_end_at_the_output():
    contributions = np.random.default_rng(0).normal(size=(3, 2, 5))
    fig = show_contributions(contributions, contributions.sum(axis=0), rows=["bank", "river"], components=(1, 4))
    for n, ax in enumerate(fig.axes):
        arrows = [(text.xyann, text.xy) for text in ax.texts if text.arrow_patch is not None]
        assert len(arrows) == 3
        np.testing.assert_allclose(arrows[0][0], 0)
        for before, after in itertools.pairwise(arrows):
            np.testing.assert_allclose(before[1], after[0])
        (star,) = (line for line in ax.lines if line.get_marker() == "*")
        np.testing.assert_allclose(arrows[-1][1], np.ravel(star.get_data()))
        np.testing.assert_allclose(arrows[-1][1], contributions[:, n, [1, 4]].sum(axis=0))


def test_contributions_have_to_fit_the_output():
    with pytest.raises(ValueError, match=r"contributions has shape \[3, 2, 5\], but output \[2, 4\]"):
        show_contributions(np.ones((3, 2, 5)), np.ones((2, 4)), rows=["a", "b"])
