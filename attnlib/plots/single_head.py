"""Chapter 3: rows of weights as bars, and the output as a point among the values."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Polygon

from attnlib.plots._cells import number_text
from attnlib.plots._figures import check_length, label_point, new_axes, new_figure, to_numpy
from attnlib.plots.fonts import legible, token_text
from attnlib.plots.style import BACKGROUND, INK, tensor_style, tinted

_PLATE = {"boxstyle": "round,pad=0.15", "fc": BACKGROUND, "ec": "none", "alpha": 0.9}


def show_bars(A: Any, *, rows: Sequence[str], columns: Sequence[str]) -> Figure:
    """Draw rows of weights as bars, one panel for each query, with the weights above the bars.

    Parameters
    ----------
    A : array, shape (n, N_k)
        Weights of n queries (choose a few rows).
    rows : sequence of str
        The n tokens that read.
    columns : sequence of str
        The N_k tokens that are read.

    Returns
    -------
    Figure
    """
    A = to_numpy("A", A, "n N_k")
    rows = check_length("rows", rows, A.shape[0], "rows of A")
    columns = check_length("columns", columns, A.shape[1], "columns of A")
    style = tensor_style("A")
    top = max(0.2, np.ceil(5 * A.max()) / 5)  # one scale for all panels
    fig = new_figure(5.5, 1.15 * len(rows) + 0.7)
    axs = fig.subplots(len(rows), 1, sharex=True, squeeze=False)[:, 0]
    for ax, weights, token in zip(axs, A, rows, strict=True):
        ax.bar(range(len(weights)), weights, 0.8, fc=style.color, ec=INK, hatch=style.hatch * 2, lw=0.8)
        for j, weight in enumerate(weights):
            ax.text(j, weight + 0.02 * top, number_text(weight), ha="center", va="bottom", fontsize=11)
        ax.set(ylim=(0, 1.25 * top), yticks=[0, top])
        ax.set_ylabel(legible(token), rotation=0, ha="right", va="center", weight="bold", **token_text())
    axs[-1].set_xticks(range(len(columns)), [legible(column) for column in columns], **token_text())
    axs[-1].set_xlabel("keys j: what is read")
    fig.supylabel("queries i: who reads", fontsize=12)
    return fig


def show_triangle(
    V: Any,
    a: Any,
    h: Any,
    *,
    labels: Sequence[str],
    name: str = "$H_i$",
    inside: Mapping[str, Any] | None = None,
    outside: Mapping[str, Any] | None = None,
) -> Axes:
    """Draw an output inside the triangle of three values, tied to each by a line as thick as its weight.

    Parameters
    ----------
    V : array, shape (3, 2)
        Three values in the plane.
    a : array, shape (3,)
        The weights of one query.
    h : array, shape (2,)
        Its output.
    labels : sequence of str
        The three tokens that are read.
    name : str
        What to write beside the output.
    inside : mapping of str to array of shape (2,), optional
        Outputs of other queries, by name: drawn as dots without lines.
    outside : mapping of str to array of shape (2,), optional
        Points that no query can reach, by name: drawn as crosses.

    Returns
    -------
    Axes
    """
    V, a, h = to_numpy("V", V, "3 2"), to_numpy("a", a, "3"), to_numpy("h", h, "2")
    for argument, x, shape in (("V", V, (3, 2)), ("a", a, (3,)), ("h", h, (2,))):
        if x.shape != shape:
            raise ValueError(
                f"{argument} has shape {list(x.shape)}, but must be {list(shape)}: three values in the plane."
            )
    labels = check_length("labels", labels, 3, "values")
    values, weights, output = tensor_style("V"), tensor_style("A"), tensor_style("H")
    ax = new_axes(5.6, 4.4)
    ax.add_patch(Polygon(V, fc=tinted(values.color, 0.12), ec=values.ink, lw=1.5, hatch="|", zorder=1))
    for v, weight, label in zip(V, a, labels, strict=True):
        ax.plot(*zip(h, v, strict=True), color=weights.color, lw=1 + 9 * weight, solid_capstyle="butt", zorder=2)
        ax.text(*(0.5 * h + 0.5 * v), number_text(weight), ha="center", va="center", zorder=5, bbox=_PLATE)
        ax.plot(*v, "s", color=values.color, mec=INK, ms=12, zorder=4)
        label_point(ax, v, V.mean(axis=0), legible(label), **token_text())
    ax.plot(*h, "o", color=output.color, mec=INK, ms=15, zorder=4)
    _name_beside(ax, name, h)
    for other, point in (inside or {}).items():
        ax.plot(*to_numpy(other, point, "2"), "o", color=output.color, mec=INK, ms=9, zorder=4)
        _name_beside(ax, other, point)
    for other, point in (outside or {}).items():
        ax.plot(*to_numpy(other, point, "2"), "x", color=INK, ms=11, mew=3, zorder=4)
        _name_beside(ax, other, point)
    ax.margins(0.24, 0.16)
    ax.set(aspect="equal", xlabel="component 0", ylabel="component 1")
    return ax


def _name_beside(ax: Axes, name: str, point: Any) -> None:
    ax.annotate(name, point, (9, 6), textcoords="offset points", ha="left", va="bottom", zorder=6, bbox=_PLATE)
