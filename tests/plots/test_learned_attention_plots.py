"""The figures of chapter 10: a line and points for each way to train, frames where they belong."""

import matplotlib
import numpy as np
import pytest

matplotlib.use("agg")

from attnlib.plots import show_circuit, show_floor

LOSSES = {"causal": np.array([[2.0, 1.5, 1.3], [2.2, 1.4, 1.3], [2.1, 1.6, 1.2]]), "no mask": np.ones((3, 3)) * 0.1}
ALONE = {"causal": [1.3, 1.31, 1.32], "no mask": [4.0, 4.1, 4.2]}


def test_floor_draws_each_run_its_median_and_both_levels():
    ax = show_floor(LOSSES, floor=1.29, chance=2.08, alone=ALONE)
    thick = {line.get_label(): line.get_ydata().tolist() for line in ax.lines if line.get_linewidth() > 2.5}
    assert thick == {"causal": [2.1, 1.5, 1.3], "no mask": [0.1, 0.1, 0.1]}
    points = [line.get_ydata() for line in ax.lines if line.get_marker() in "os"]
    assert [list(p) for p in points] == list(ALONE.values())
    levels = {line.get_ydata()[0] for line in ax.lines if line.get_linestyle() == ":"}
    assert levels == {1.29, 2.08}


def test_floor_needs_a_point_for_each_seed():
    with pytest.raises(ValueError, match="alone has 2"):
        show_floor(LOSSES, floor=1, chance=2, alone=ALONE | {"causal": [1, 2]})


def test_circuit_frames_the_targets_and_hatches_the_future():
    A, target = np.tri(4) / 4, np.eye(4, k=-1, dtype=bool)
    fig = show_circuit({"one": A, "two": A}, {"one": target, "two": np.zeros((4, 4), bool)}, rows=list("abca"))
    one, two = (ax for ax in fig.axes if ax.get_title(loc="left"))
    frames = [line for line in one.lines if len(line.get_xdata()) == 5]
    assert {(round(np.mean(f.get_ydata()[:4])), round(np.mean(f.get_xdata()[:4]))) for f in frames} == {
        (1, 0),
        (2, 1),
        (3, 2),
    }
    assert not [line for line in two.lines if len(line.get_xdata()) == 5]
    assert any(patch.get_hatch() for patch in one.patches)
