"""Chapter 2: queries and keys as arrows, shared against separate matrices, a query that moves along a line of keys."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnlib.plots._cells import number_text, outline_cell
from attnlib.plots._figures import WIDEST, check_length, label_point, new_axes, new_figure, to_numpy
from attnlib.plots.fonts import legible, token_text
from attnlib.plots.matrices import show_matrix
from attnlib.plots.style import BACKGROUND, INK, colormap, tensor_style


def show_plane(q: Any, K: Any, weight: Any, *, x: Any, y: Any, labels: Sequence[str], read: int = 0) -> Axes:
    """Draw a query and keys as arrows, over contours of the weight that queries all over the plane give one key.

    Parameters
    ----------
    q : array, shape (2,)
        The query.
    K : array, shape (N_k, 2)
        The keys.
    weight : array, shape (n_y, n_x)
        The weight that a query at (x, y) gives to key number `read`.
    x, y : array, shape (n_x,) and (n_y,)
        The grid on which `weight` is given; its ends are the ends of the picture.
    labels : sequence of str
        One for each key.
    read : int
        Which key's weight the contours show.

    Returns
    -------
    Axes
    """
    q, K, weight = to_numpy("q", q, "2"), to_numpy("K", K, "N_k 2"), to_numpy("weight", weight, "n_y n_x")
    x, y = to_numpy("x", x, "n_x"), to_numpy("y", y, "n_y")
    labels = check_length("labels", labels, len(K), "keys")
    if weight.shape != (len(y), len(x)):
        raise ValueError(f"weight has shape {list(weight.shape)}, but y and x give [{len(y)}, {len(x)}].")
    ax = new_axes(5.2, 5.2 * 0.92 * np.ptp(y) / np.ptp(x) + 0.6)
    levels = [0.1, 0.25, 0.5, 0.75, 0.9]
    ax.contourf(x, y, weight, [0, *levels, 1], cmap=colormap("A"), vmin=0, vmax=1.8)
    lines = ax.contour(x, y, weight, levels, colors=[tensor_style("A").ink], linewidths=1)
    ax.clabel(lines, fmt="%.2f", fontsize=10, colors=INK)
    _arrow(ax, q, "$q$", "Q", lw=3)
    for j, (k, label) in enumerate(zip(K, labels, strict=True)):
        _arrow(ax, k, legible(label), "K", lw=3 if j == read else 1.8, **token_text())
    ax.plot(0, 0, "o", color=INK, ms=4)
    ax.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]), aspect="equal", xlabel="component 0", ylabel="component 1")
    ax.set_title(f"weight that a query here gives to {legible(labels[read])}", loc="left", **token_text())
    return ax


def _arrow(ax: Axes, tip: np.ndarray, label: str, tensor: str, *, lw: float, **options: Any) -> None:
    """Draw an arrow from the origin with a label beyond its tip: solid for queries, dashed for keys."""
    style = tensor_style(tensor)
    look = {"arrowstyle": "-|>", "color": style.ink, "lw": lw, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 16}
    ax.annotate("", xy=tip, xytext=(0, 0), arrowprops=look | {"linestyle": "-" if tensor == "Q" else "--"})
    plate = {"boxstyle": "round,pad=0.1", "fc": BACKGROUND, "ec": "none", "alpha": 0.85}
    label_point(ax, tip, np.zeros(2), label, weight="bold", color=style.ink, bbox=plate, **options)


def shared_and_separate(S_shared: Any, S_separate: Any, *, rows: Sequence[str], pair: tuple[int, int]) -> Figure:
    """Draw scores with W_Q = W_K beside scores with separate matrices, and frame a pair of mirrored cells.

    Parameters
    ----------
    S_shared, S_separate : array, shape (N, N)
        Scores of the same tokens.
    rows : sequence of str
        The N tokens.
    pair : tuple of int
        (i, j): the cells (i, j) and (j, i) are framed and their values written below.

    Returns
    -------
    Figure
    """
    panels = {"$W^Q = W^K$: mirrored": to_numpy("S_shared", S_shared, "N N")}
    panels["separate: not mirrored"] = to_numpy("S_separate", S_separate, "N N")
    i, j = pair
    limit = max(float(np.abs(S).max()) for S in panels.values())
    fig = new_figure(WIDEST, 4.1)
    for ax, (title, S) in zip(fig.subplots(1, 2, sharey=True), panels.items(), strict=True):
        show_matrix(S, tensor="S", rows=rows, numbers=False, vmin=-limit, vmax=limit, title=title, ax=ax)
        ax.label_outer()
        outline_cell(ax, i, j)
        outline_cell(ax, j, i)
        a, b = legible(rows[i]), legible(rows[j])
        ax.set_xlabel(
            f"keys j (columns)\n{a} reads {b}: {number_text(S[i, j])}\n{b} reads {a}: {number_text(S[j, i])}",
            **token_text(),
        )
    return fig


def show_smoothing(q: Any, H: Any, *, keys: Any, values: Any, scales: Sequence[float]) -> Axes:
    """Draw what a moving query reads: from the mean of all values to a lookup of the nearest, as the scale grows.

    Parameters
    ----------
    q : array, shape (n,)
        Places of the query.
    H : array, shape (n_scales, n)
        For each scale and place, the weighted mean of the values.
    keys, values : array, shape (N_k,)
        Place and value of each key.
    scales : sequence of float
        One for each curve.

    Returns
    -------
    Axes
    """
    q, H = to_numpy("q", q, "n"), to_numpy("H", H, "n_scales n")
    keys, values = to_numpy("keys", keys, "N_k"), to_numpy("values", values, "N_k")
    scales = check_length("scales", scales, len(H), "curves in H")
    check_length("values", values, len(keys), "keys")
    ax = new_axes(5.5, 3.6)
    for curve, scale, dash in zip(H, scales, (":", "--", "-", "-."), strict=False):
        ax.plot(q, curve, color=tensor_style("H").ink, ls=dash, lw=2.2, label=f"scale {scale:g}")
    style = tensor_style("V")
    ax.plot(keys, values, "s", color=style.color, mec=INK, mew=1, ms=9, zorder=4, label="values at their keys")
    ax.set(xlim=(q[0], q[-1]), xlabel="place of the query", ylabel="what it reads")
    ax.legend(loc="lower left", bbox_to_anchor=(-0.02, 1), ncols=2, borderaxespad=0.2)
    return ax
