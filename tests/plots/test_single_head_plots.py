"""Chapter 3's triangle: which points are dots inside, which are crosses outside, and what is refused."""

import matplotlib
import numpy as np
import pytest

matplotlib.use("agg")

from attnlib import plots

V = np.array([[2.0, 4.0], [0.0, 1.0], [4.0, 0.0]])
a = np.array([0.25, 0.25, 0.5])


def points(ax, marker):
    return [tuple(float(x) for x in line.get_xydata()[0]) for line in ax.lines if line.get_marker() == marker]


def test_other_outputs_are_dots_and_what_cannot_be_reached_is_a_cross():
    ax = plots.show_triangle(
        V,
        a,
        a @ V,
        labels=["0", "1", "2"],
        name="$H_0$",
        inside={"$H_1$": V.mean(axis=0)},
        outside={"far": V[0] + V[2]},
    )
    assert points(ax, "o") == [(2.5, 1.25), tuple(V.mean(axis=0))]
    assert points(ax, "x") == [(6.0, 4.0)]
    assert {"$H_0$", "$H_1$", "far"} <= {text.get_text() for text in ax.texts}


def test_all_points_and_names_lie_within_the_axes():
    ax = plots.show_triangle(V, a, a @ V, labels=["0", "1", "2"], outside={"far": V[0] + V[2]})
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    assert left < 0 and right > 6 and bottom < 0 and top > 4


@pytest.mark.parametrize("where", ["inside", "outside"])
def test_a_point_that_is_not_in_the_plane_is_refused_by_name(where):
    with pytest.raises(ValueError, match=r"far has shape \[2, 1\]"):
        plots.show_triangle(V, a, a @ V, labels=["0", "1", "2"], **{where: {"far": np.zeros((2, 1))}})
