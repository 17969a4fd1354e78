"""Chapter 8: shares of the work, measured growth, the N² wall, and what long-sequence variants leave out."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, NullLocator

from attnlib.plots._cells import draw_cells
from attnlib.plots._figures import WIDEST, check_length, new_axes, new_figure, to_numpy
from attnlib.plots.notebook import MEASURED
from attnlib.plots.style import BACKGROUND, FAINT, INK, tensor_style, tinted

_STEPS = {  # what a step is called, and the tensor whose look it has
    "FFN": ("FFN", None),
    "projections": ("projections", "Q"),
    "S": (r"$QK^{\mathsf{T}}$", "S"),
    "H": ("$AV$", "H"),
}
_LINES = (("A", "-", "o"), ("Q", "--", "s"), ("V", ":", "^"), ("S", "-.", "D"))  # colour, line, marker


def _log_lengths(ax: Axes, lengths: Sequence[int]) -> None:
    """Give an axes a logarithmic x axis with a tick for each length N."""
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_locator(FixedLocator(list(lengths)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xticklabels([_short(N) for N in lengths])
    ax.set_xlabel("$N$ (tokens)")


def _short(N: int) -> str:
    """Return a length as people say it: 512, 4k (1024 is 1k), 100k."""
    unit = 1024 if N % 1024 == 0 else 1000
    return f"{N // unit}k" if N >= unit and N % unit == 0 else str(N)


def show_shares(
    lengths: Sequence[int], shares: Mapping[str, Any], *, marks: Mapping[str, float], ticks: Sequence[int]
) -> Axes:
    """Draw which share of the multiply-adds each step has, as areas that fill the whole, against log N.

    Parameters
    ----------
    lengths : sequence of int
    shares : mapping of str to array, shape (len(lengths),)
        By step, from the bottom up: FFN, projections, S, H. At each length they sum to 1.
    marks : mapping of str to float
        Lengths that get a line, by its label.
    ticks : sequence of int
        The lengths that are written on the axis.

    Returns
    -------
    Axes
    """
    ax = new_axes(5.8, 3.9)
    base = np.zeros(len(lengths))
    for step, share in shares.items():
        if step not in _STEPS:
            raise ValueError(f"shares has the step {step!r}, but must have some of {', '.join(_STEPS)}.")
        share = np.array(check_length(f"shares[{step!r}]", share, len(lengths), "lengths"))
        label, tensor = _STEPS[step]
        style = tensor_style(tensor)
        face = tinted(style.color, 0.45)
        ax.fill_between(lengths, base, base + share, fc=face, ec=style.color, hatch=style.hatch or None, lw=0.8)
        thick = int(np.argmax(np.where(_inner(len(lengths)), share, 0)))
        box = {"fc": BACKGROUND, "ec": "none", "pad": 2.5}
        middle = base[thick] + share[thick] / 2
        ax.text(lengths[thick], middle, label, ha="center", va="center", fontsize=13, bbox=box)
        base = base + share
    for place, (label, N) in enumerate(marks.items()):
        ax.axvline(N, color=INK, lw=1.6, ls=(0, (4, 2)))
        side = "left" if place == len(marks) - 1 else "right"  # the last label goes right, so that two do not meet
        ax.annotate(label, (N, 1.02), xycoords=("data", "axes fraction"), ha=side, va="bottom")
    _log_lengths(ax, ticks)
    ax.set(xlim=(lengths[0], lengths[-1]), ylim=(0, 1), ylabel="share of the multiply-adds")
    ax.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25%", "50%", "75%", "100%"])
    return ax


def _inner(size: int) -> np.ndarray:
    """Return True for the places of a row that are not near its ends."""
    places = np.arange(size)
    return (places >= 0.12 * size) & (places <= 0.86 * size)


def show_growth(lengths: Sequence[int], panels: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Draw what a run measured against N on logarithmic axes, each line with its fitted slope.

    Parameters
    ----------
    lengths : sequence of int
    panels : mapping of str to mapping of str to array, shape (len(lengths),)
        By the title of the panel, then by the label of the line.

    Returns
    -------
    Figure
        Marked as measured: a notebook stores it as PNG, since no second run gives the same SVG.
    """
    fig = new_figure(WIDEST, 3.7)
    fig.set_gid(MEASURED)
    axs = fig.subplots(1, len(panels), squeeze=False)[0]
    for ax, (title, lines) in zip(axs, panels.items(), strict=True):
        for (label, values), (tensor, line, marker) in zip(lines.items(), _LINES, strict=False):
            values = check_length(f"{title}[{label!r}]", values, len(lengths), "lengths")
            color = tensor_style(tensor).ink
            slope, start = np.polyfit(np.log(lengths), np.log(values), 1)
            fitted = np.exp(start) * np.array(lengths) ** slope
            ax.plot(lengths, fitted, line, color=color, lw=1.6)
            ax.plot(lengths, values, marker, color=color, ms=7, label=f"{label}: slope {slope:.2f}")
        ax.set_yscale("log")
        _log_lengths(ax, lengths)
        low, high = ax.get_ylim()
        ax.set_ylim(low, high * (high / low) ** 0.35)  # room for the legend
        ax.legend(loc="upper left", borderaxespad=0, handletextpad=0.1)
        ax.set_title(title)
    axs[0].set_ylabel("times the smallest projection")
    return fig


def show_wall(
    lengths: Sequence[int],
    sizes: Mapping[str, Any],
    *,
    contexts: Mapping[str, int],
    budgets: Mapping[str, float],
) -> Axes:
    """Draw the bytes of the score matrices against N on logarithmic axes, one line a model, with budgets as levels.

    Parameters
    ----------
    lengths : sequence of int
    sizes : mapping of str to array, shape (len(lengths),)
        Bytes, by the label of the line; at most four.
    contexts : mapping of str to int
        The length at which each line has its mark; one of `lengths`.
    budgets : mapping of str to float
        Bytes, by what is written at the level.

    Returns
    -------
    Axes
    """
    ax = new_axes(5.8, 4.2)
    for (label, values), (tensor, line, marker) in zip(sizes.items(), _LINES, strict=False):
        values = check_length(f"sizes[{label!r}]", values, len(lengths), "lengths")
        color = tensor_style(tensor).ink
        at = list(lengths).index(contexts[label])
        ax.plot(lengths, values, line, color=color, marker=marker, markevery=[at], ms=9, label=label)
    for label, level in budgets.items():
        ax.axhline(level, color=FAINT, lw=1.2)
        place = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        ax.annotate(label, (0, level), (4, 3), **place)
    ax.set(xscale="log", yscale="log", xlim=(lengths[0], lengths[-1]))
    ticks = [N for N in (1_000, 10_000, 100_000, 1_000_000) if lengths[0] <= N <= lengths[-1]]
    ax.set_xticks(ticks, [_short(N) for N in ticks])
    ax.xaxis.set_minor_locator(NullLocator())
    units = {10**6: "1 MB", 10**7: "10 MB", 10**8: "100 MB", 10**9: "1 GB", 10**10: "10 GB", 10**11: "100 GB"}
    units |= {10**12: "1 TB"}
    low, high = ax.get_ylim()
    units = {at: text for at, text in units.items() if low <= at <= high}
    ax.set_yticks(list(units), list(units.values()))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.set(xlabel="$N$ (tokens)", ylabel="$S$ of one layer")
    ax.legend(loc="lower right")
    return ax


def show_remedies(panels: Mapping[str, Any], *, state: tuple[int, int]) -> Figure:
    """Draw what four ways to attend compute and hold of the N x N pairs of query and key.

    Parameters
    ----------
    panels : mapping of str to array, shape (N, N)
        By title: 0 for a pair that is never computed, 1 for one that is computed and let go, 2 for one that is held.
        Where all are 0, a state stands in their place.
    state : tuple of int
        Rows and columns of that state.

    Returns
    -------
    Figure
    """
    columns = 2
    rows = -(-len(panels) // columns)
    fig = new_figure(5.6, 2.75 * rows)
    axs = fig.subplots(rows, columns, squeeze=False)
    for ax, (title, M) in zip(axs.flat, panels.items(), strict=False):
        M = to_numpy(title, M, "N_q N_k")
        draw_cells(ax, M.astype(float), M == 0, tensor="S", vmin=0, vmax=3)
        held = np.argwhere(M == 2)
        ax.plot(held[:, 1], held[:, 0], "o", color=INK, ms=3.2)
        if not M.any():
            _draw_state(ax, M.shape, state)
        ax.set_title(title)
        ax.set(xticks=[], yticks=[])
        ax.set(xlabel="keys", ylabel="queries")
    return fig


def _draw_state(ax: Axes, shape: tuple[int, ...], state: tuple[int, int]) -> None:
    """Draw a matrix of the size of the state in the middle of the pairs, all of it held."""
    top, left = (shape[0] - state[0]) // 2, (shape[1] - state[1]) // 2
    box = Rectangle((left - 0.5, top - 0.5), state[1], state[0], fc=tensor_style("V").color, ec=INK, lw=1.4, zorder=4)
    ax.add_patch(box)
    down, across = np.mgrid[top : top + state[0], left : left + state[1]]
    ax.plot(across.ravel(), down.ravel(), "o", color=INK, ms=3.2, zorder=5)
    text = r"$\phi(K)^{\mathsf{T}} V$"
    label = {"fc": BACKGROUND, "ec": INK, "lw": 0.8, "pad": 2.5}
    ax.text(shape[1] / 2 - 0.5, top + state[0] + 0.9, text, ha="center", va="center", bbox=label, zorder=6)
