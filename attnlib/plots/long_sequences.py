"""Chapter 12: blocks, the reach of windows, what a state recalls, and what a cache saves."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FixedLocator, NullLocator, PercentFormatter

from attnlib.plots._cells import draw_cells, hidden_cells
from attnlib.plots._figures import WIDEST, check_length, new_axes, new_figure, to_numpy
from attnlib.plots.matrices import KEYS, QUERIES
from attnlib.plots.notebook import MEASURED
from attnlib.plots.style import BACKGROUND, FAINT, INK, MASKED_FACE, MASKED_HATCH, MASKED_LINES, tensor_style

_LINES = (("A", "-", "o"), ("H", "--", "s"), ("V", ":", "^"), ("K", "-.", "D"))  # color, line, marker
_NAMES = {"whole": "whole", "part": "masked", "skipped": "skipped"}


def show_blocks(mask: Any, *, block: int) -> Axes:
    """Draw which blocks of the pairs are computed whole, computed and masked, or skipped.

    Parameters
    ----------
    mask : boolean array, shape (N_q, N_k)
        True where a key may be read.
    block : int
        Rows and columns of a block.

    Returns
    -------
    Axes
        A block that nothing may be read of is one hatched field: it is never computed. In a masked block the
        computed cells that may not be read are hatched one by one.
    """
    blank = np.zeros(to_numpy("mask", mask, "N_q N_k").shape)
    hidden = hidden_cells(blank, mask)
    ax = new_axes(5.0, 4.6)
    image = np.full(blank.shape, 0.55)
    draw_cells(ax, image, hidden, tensor="S", vmin=0, vmax=1)
    for i in range(0, blank.shape[0], block):
        for j in range(0, blank.shape[1], block):
            _draw_block(ax, hidden[i : i + block, j : j + block], i, j)
    ax.set(xticks=[], yticks=[], xlabel=KEYS, ylabel=QUERIES)
    return ax


def _draw_block(ax: Axes, hidden: np.ndarray, i: int, j: int) -> None:
    """Frame one block, whose first pair is (i, j), and write what becomes of it."""
    kind = "skipped" if hidden.all() else "part" if hidden.any() else "whole"
    rows, columns = hidden.shape
    face = {"fc": MASKED_FACE, "hatch": None} if kind == "skipped" else {"fill": False}
    ax.add_patch(Rectangle((j - 0.5, i - 0.5), columns, rows, ec=INK, lw=2, zorder=3, **face))
    box = {"fc": BACKGROUND, "ec": "none", "pad": 2}
    middle = (j - 0.5 + columns / 2, i - 0.5 + rows / 2)
    ax.text(*middle, _NAMES[kind], ha="center", va="center", bbox=box, zorder=4)


def show_reach(reached: Any, *, window: int) -> Axes:
    """Draw tokens layer by layer and the paths by which the last output is reached.

    Parameters
    ----------
    reached : boolean array, shape (layers + 1, N)
        True where a token of that layer reaches the last output; row 0 is the input, the last row the output.
    window : int
        How many keys a query reads in one layer, itself included: lines are drawn to those.

    Returns
    -------
    Axes
    """
    reached = to_numpy("reached", reached, "layers N").astype(bool)
    top, N = reached.shape[0] - 1, reached.shape[1]
    ax = new_axes(WIDEST, 1.0 + 0.85 * top)
    style = tensor_style("H")
    for layer in range(top, 0, -1):
        for i in np.flatnonzero(reached[layer]):
            for j in range(max(i - window + 1, 0), i + 1):
                ax.plot([i, j], [layer, layer - 1], color=style.ink, lw=1.2, zorder=1)
    for layer in range(top + 1):
        for j in range(N):
            face = style.color if reached[layer, j] else BACKGROUND
            edge, shape = (INK, "o") if reached[layer, j] else (FAINT, "X")
            ax.plot(j, layer, shape, ms=12 if shape == "o" else 8, mfc=face, mec=edge, mew=1.2, zorder=2)
    names = ["input", *(f"layer {layer}" for layer in range(1, top + 1))]
    ax.set_yticks(range(top + 1), names)
    ax.set_xticks(range(N), [str(j) for j in range(N)])
    ax.set(xlim=(-0.6, N - 0.4), ylim=(-0.4, top + 0.4), xlabel="position of the token")
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)
    return ax


def show_recall(pairs: Sequence[int], recall: Mapping[str, Any], *, chance: float) -> Axes:
    """Draw which share of the stored pairs is recalled, against their number.

    Parameters
    ----------
    pairs : sequence of int
        Numbers of stored pairs.
    recall : mapping of str to array, shape (len(pairs),)
        The share, from 0 to 1, by the label of the line; at most four.
    chance : float
        What guessing gives: a level.

    Returns
    -------
    Axes
        Its figure is marked as measured: a notebook stores it as PNG.
    """
    ax = new_axes(WIDEST, 3.9)
    ax.figure.set_gid(MEASURED)
    for (label, share), (tensor, line, marker) in zip(recall.items(), _LINES, strict=False):
        share = check_length(f"recall[{label!r}]", share, len(pairs), "numbers of pairs")
        ax.plot(pairs, share, line, color=tensor_style(tensor).ink, marker=marker, ms=7, label=label)
    ax.axhline(chance, color=FAINT, lw=1.2)
    ax.annotate("chance", (1, chance), xycoords=("axes fraction", "data"), ha="right", va="top", color=FAINT)
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_locator(FixedLocator(list(pairs)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xticklabels([str(n) for n in pairs])
    ax.yaxis.set_major_formatter(PercentFormatter(1))
    ax.set(ylim=(0, 1.04), xlabel="stored pairs", ylabel="recalled")
    ax.legend(loc="upper center", bbox_to_anchor=(0.45, 1.28), ncols=2, columnspacing=1.2, handlelength=2.4)
    return ax


def show_generation(panels: Mapping[str, Any]) -> Figure:
    """Draw, step by step, which tokens' keys and values are computed anew and which are read from a cache.

    Parameters
    ----------
    panels : mapping of str to integer array, shape (steps, N)
        By title. In row t, column j: 0 for a token that is not there yet, 1 for one that is computed in step t,
        2 for one that is read from the cache.

    Returns
    -------
    Figure
    """
    fig = new_figure(WIDEST, 3.9)
    axs = fig.subplots(1, len(panels), squeeze=False)[0]
    style = tensor_style("K")
    for ax, (title, M) in zip(axs, panels.items(), strict=True):
        M = to_numpy(title, M, "steps N")
        draw_cells(ax, np.where(M == 1, 0.8, 0.12), M == 0, tensor="K", vmin=0, vmax=1)
        read = np.argwhere(M == 2)
        ax.plot(read[:, 1], read[:, 0], "o", color=INK, ms=4)
        ax.set(xticks=[], yticks=[], xlabel="tokens", title=title)
    axs[0].set_ylabel("steps")
    names = ("computed", "read from the cache", "not there yet")
    handles = [
        Patch(fc=style.color, ec=INK, lw=0.8),
        Line2D([], [], marker="o", ms=5, color=INK, mfc=INK, lw=0, markeredgewidth=0),
        Patch(fc=MASKED_FACE, ec=MASKED_LINES, hatch=MASKED_HATCH, lw=0),
    ]
    fig.legend(handles, names, loc="outside lower center", ncols=3, handletextpad=0.5, columnspacing=1.2)
    return fig
