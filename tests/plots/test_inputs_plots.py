"""The figures of chapter 1 show what their captions say."""

import numpy as np
import pytest

from attnlib import example, sinusoidal_positions
from attnlib.plots import lookup, show_gram, show_norms, show_positions

EX = example()


def test_lookup_makes_a_repeated_word_bold_in_both_places_and_in_the_table():
    ids, table, _ = lookup(EX.T[0], EX.E, EX.X_tok[0], words=EX.vocabulary.words).axes
    bold = [[label.get_weight() == "bold" for label in ax.get_yticklabels()] for ax in (ids, table)]
    assert bold[0] == [token == "the" for token in EX.tokens]
    assert bold[1] == [word == "the" for word in EX.vocabulary.words]


def test_positions_show_digits_sines_and_cosines_of_the_same_rows():
    codes, bits = sinusoidal_positions(20, 8)[0], np.arange(20)[:, None] >> np.arange(5) & 1
    fig = show_positions(codes, bits)
    shown = [ax.images[0].get_array() for ax in fig.axes[:3]]
    for drawn, given in zip(shown, (bits, codes[:, 0::2], codes[:, 1::2]), strict=True):
        np.testing.assert_array_equal(drawn, given)
    labels = [[label.get_text() for label in ax.get_xticklabels()] for ax in fig.axes[:3]]
    assert labels == [list("01234"), list("0246"), list("1357")]


def test_positions_and_digits_need_the_same_rows():
    with pytest.raises(ValueError, match="bits has 3 rows, but X_pos has 4"):
        show_positions(np.zeros((4, 6)), np.zeros((3, 2)))


def test_gram_draws_each_row_over_the_distance():
    codes = sinusoidal_positions(6, 8)[0]
    fig = show_gram(codes @ codes.T)
    by_distance = {}
    for line in fig.axes[1].lines:
        for distance, product in zip(*line.get_data(), strict=True):
            by_distance.setdefault(int(distance), []).append(product)
    assert sorted(by_distance) == list(range(-5, 6))
    assert all(len(products) == 6 - abs(distance) for distance, products in by_distance.items())
    assert all(np.ptp(products) < 1e-9 for products in by_distance.values())


def test_norms_stand_beside_their_ratio():
    ax = show_norms([0.5, 20.0], [16.0, 16.0], labels=["a", "b"])
    assert {"32 : 1", "1.2 : 1"} <= {text.get_text() for text in ax.texts}
    position, token = (points.get_offsets()[:, 0].tolist() for points in ax.collections[1:])
    assert (position, token) == ([16.0, 16.0], [0.5, 20.0])
