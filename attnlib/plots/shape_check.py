"""Chapter 9: where each axis goes, which test catches which bug, and bugs that learn."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path

from attnlib.plots._figures import WIDEST, canvas, check_length, new_figure, to_numpy
from attnlib.plots.notebook import MEASURED
from attnlib.plots.pipeline import arrow
from attnlib.plots.style import FAINT, INK, tensor_style, tinted

# ---------------------------------------------------------------------------------------------------------------------
# Where each axis goes
# ---------------------------------------------------------------------------------------------------------------------

_FLOW = (  # tensors, the axes by lane, and what happened on the way to them
    (("X",), {"B": "B", "N_q": "N", "width": r"d_\mathrm{model}"}, ""),
    (("Q", "K", "V"), {"B": "B", "h": "h", "N_q": "N", "d": "d_h"}, "project\nand split"),
    (("S", "A"), {"B": "B", "h": "h", "N_q": "N", "N_k": "N"}, "$QK^{\\mathsf{T}}$: sum\nover $d_h$"),
    (("H",), {"B": "B", "h": "h", "N_q": "N", "d": "d_h"}, "$AV$: sum over\nthe keys"),
    (("concat", "output"), {"B": "B", "N_q": "N", "width": r"d_\mathrm{model}"}, "join\nand project"),
)
_LANES = {"B": 1.75, "h": 2.49, "N_q": 3.15, "N_k": 3.81, "d": 4.47, "width": 4.14}
_CHIP, _TALL, _STEP = 0.56, 0.5, 1.06


def show_axes(shapes: Mapping[str, tuple[int, ...]]) -> Figure:
    """Draw the axes of each tensor as boxes in lanes: which live on, which are split, summed away, or joined.

    Parameters
    ----------
    shapes : mapping of str to tuple of int
        The shape of each tensor, as `attnlib.shape_table` gives it.

    Returns
    -------
    Figure

    Raises
    ------
    ValueError
        A tensor has no shape in `shapes`.

    Examples
    --------
    >>> from attnlib import shape_table
    >>> fig = show_axes(shape_table(B=2, N=5, d_model=12, h=3))
    """
    missing = [name for names, _, _ in _FLOW for name in names if name not in shapes]
    if missing:
        raise ValueError(f"shapes has no entry for {', '.join(missing)}: give what attnlib.shape_table returns.")
    height = len(_FLOW) * _STEP - (_STEP - _TALL) + 0.4
    ax = canvas(4.88, height)
    top, before = height - 0.3, {}
    for lane, name in {"B": "sentences", "h": "heads", "N_q": "tokens", "N_k": "keys"}.items():
        ax.text(_LANES[lane], height - 0.02, name, ha="center", va="top", color=FAINT, fontsize=10.5)
    for names, axes, step in _FLOW:
        _draw_row(ax, names, axes, [shapes[name] for name in names], top)
        if step:
            _draw_step(ax, before, axes, top, step)
        before, top = axes, top - _STEP
    return ax.figure


def _draw_row(ax: Axes, names: Sequence[str], axes: Mapping[str, str], shapes: Sequence[tuple], top: float) -> None:
    """Draw the symbols of some tensors of one shape, and a box for each of their axes."""
    if len(set(shapes)) > 1:
        raise ValueError(f"{' and '.join(names)} have different shapes: this figure shows self-attention.")
    middle = top - _TALL / 2
    for place, name in enumerate(names):
        style = tensor_style(name)
        wide = 1.3 / len(names) - 0.04
        left = 0.06 + place * (wide + 0.04)
        ax.add_patch(Rectangle((left, top - _TALL), wide, _TALL, fc=style.color, ec=INK, lw=1))
        size = 10 if name in ("concat", "output") else 14
        symbol = "output" if name == "output" else style.symbol
        ax.text(left + wide / 2, middle, symbol, ha="center", va="center", fontsize=size, color=style.on_color)
    for (lane, letter), size in zip(axes.items(), shapes[0], strict=True):
        wide = _CHIP * (2.2 if lane == "width" else 1)
        ax.add_patch(
            Rectangle((_LANES[lane] - wide / 2, top - _TALL), wide, _TALL, fc=tinted(INK, 0.06), ec=INK, lw=1.2)
        )
        text = f"${letter}$ = {size}" if lane == "width" else f"${letter}$\n{size}"
        ax.text(_LANES[lane], middle, text, ha="center", va="center", fontsize=11.5, linespacing=1.05)


def _draw_step(ax: Axes, before: Mapping[str, str], axes: Mapping[str, str], top: float, step: str) -> None:
    """Draw what becomes of each axis between two rows, and say it in words."""
    start, end = top + _STEP - _TALL - 0.02, top + 0.02
    for lane in before:
        if lane in axes:
            arrow(ax, (_LANES[lane], start), (_LANES[lane], end))
    if "width" in before:
        ends = [(_LANES["width"] - 0.3, "h"), (_LANES["width"] + 0.3, "d")]
        for x, lane in ends:
            arrow(ax, (x, start), (_LANES[lane], end), color=INK, lw=1.8)
    elif "width" in axes:
        for x, lane in ((_LANES["width"] - 0.3, "h"), (_LANES["width"] + 0.3, "d")):
            arrow(ax, (_LANES[lane], start), (x, end), color=INK, lw=1.8)
    for lane in set(before) - set(axes) - {"width"}:
        if "width" not in axes:  # summed away
            ax.plot([_LANES[lane]] * 2, [start, start - 0.13], color=INK, lw=1.8)
            ax.plot([_LANES[lane]], [start - 0.17], marker="x", color=INK, ms=7, mew=2)
    ax.text(0.06, (start + end) / 2, step, va="center", fontsize=10.5, linespacing=1.1)


# ---------------------------------------------------------------------------------------------------------------------
# Which test catches which bug
# ---------------------------------------------------------------------------------------------------------------------

_ROW = 0.182


def show_museum(outcomes: Any, *, rows: Sequence[str], columns: Sequence[str], groups: Mapping[str, int]) -> Axes:
    """Draw which test (columns) catches which bug (rows): a dot where it says no, a cross where the code crashes.

    Parameters
    ----------
    outcomes : array of str, shape (bugs, tests)
        "passed", "caught" or "crashed", as `attnlib.properties.outcomes` returns it.
    rows, columns : sequence of str
        The names of the bugs and of the tests.
    groups : mapping of str to int
        The heading of each group of rows, and how many rows it has, from the top.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        Names or groups do not fit the outcomes.
    """
    outcomes = to_numpy("outcomes", outcomes, "bugs tests")
    rows = check_length("rows", rows, outcomes.shape[0], "rows of outcomes")
    columns = check_length("columns", columns, outcomes.shape[1], "columns of outcomes")
    if sum(groups.values()) != len(rows):
        raise ValueError(f"groups has {sum(groups.values())} rows in all, but outcomes has {len(rows)}.")
    left, cell, head = 2.44, 0.34, 1.03
    height = head + _ROW * (len(rows) + 1.5 * len(groups)) + 0.06
    ax = canvas(left + cell * len(columns) + 0.1, height)
    for j, name in enumerate(columns):
        ax.text(
            left + (j + 0.5) * cell, height - head + 0.06, name, rotation=90, ha="center", va="bottom", fontsize=10.5
        )
    for line, (word, meaning) in enumerate({"caught": "the test says no", "crashed": "the code crashes"}.items()):
        top = height - 0.1 - 0.25 * line
        _draw_outcomes(ax, np.array([[word]]), 0.06, cell, top)
        ax.text(0.48, top - _ROW / 2, meaning, va="center", fontsize=10.5)
    top, first = height - head, 0
    for title, count in groups.items():
        top -= 1.35 * _ROW
        ax.text(0.04, top + 0.22 * _ROW, title, va="bottom", fontsize=10.5, weight="bold")
        for place, name in enumerate(rows[first : first + count]):
            ax.text(left - 0.07, top - (place + 0.5) * _ROW, name, ha="right", va="center", fontsize=9.4)
        _draw_outcomes(ax, outcomes[first : first + count], left, cell, top)
        top, first = top - (count + 0.15) * _ROW, first + count
    return ax


_LOOK = {"caught": ("#0072b2", "o", "white"), "crashed": ("#e69f00", "x", "black")}


def _draw_outcomes(ax: Axes, outcomes: np.ndarray, left: float, cell: float, top: float) -> None:
    """Draw a cell for each bug and test; the upper left corner is given. Few paths make a small SVG."""
    bugs, tests = outcomes.shape
    for outcome, (color, marker, ink) in _LOOK.items():
        i, j = np.nonzero(outcomes == outcome)
        if len(i):
            runs = [_rectangle(left, top, cell, *run) for run in _runs(outcomes == outcome)]
            ax.add_patch(PathPatch(Path.make_compound_path(*runs), fc=color, lw=0))
            x, y = left + (j + 0.5) * cell, top - (i + 0.5) * _ROW
            ax.plot(x, y, marker=marker, ls="none", color=ink, ms=4, mew=1.3)
    across = [[(left, top - i * _ROW), (left + tests * cell, top - i * _ROW)] for i in range(bugs + 1)]
    down = [[(left + j * cell, top), (left + j * cell, top - bugs * _ROW)] for j in range(tests + 1)]
    grid = Path.make_compound_path(*(Path(line) for line in across + down))
    ax.add_patch(PathPatch(grid, fc="none", ec="#b0b0b0", lw=0.7))


def _runs(cells: np.ndarray) -> list[tuple[int, int, int]]:
    """Return (row, first column, number of columns) of each run of true cells."""
    edges = np.diff(np.pad(cells, [(0, 0), (1, 1)]).astype(int), axis=1)
    starts, ends = np.argwhere(edges == 1), np.argwhere(edges == -1)
    return [(i, j, end - j) for (i, j), (_, end) in zip(starts.tolist(), ends.tolist(), strict=True)]


def _rectangle(left: float, top: float, cell: float, i: int, j: int, count: int) -> Path:
    x, y = left + j * cell, top - i * _ROW
    return Path([(x, y), (x + count * cell, y), (x + count * cell, y - _ROW), (x, y - _ROW), (x, y)], closed=True)


# ---------------------------------------------------------------------------------------------------------------------
# Bugs that learn
# ---------------------------------------------------------------------------------------------------------------------


def show_learning(losses: Mapping[str, Any], *, right: Any, notes: Sequence[str]) -> Figure:
    """Draw the training loss of each bug in a panel of its own, beside that of the right attention.

    Parameters
    ----------
    losses : mapping of str to array, shape (steps,)
        By the name of the bug.
    right : array, shape (steps,)
        The loss of the right attention, drawn dashed in every panel.
    notes : sequence of str
        A line in each panel.

    Returns
    -------
    Figure
    """
    notes = check_length("notes", notes, len(losses), "losses")
    down = -(-len(losses) // 2)
    fig = new_figure(min(WIDEST, 4.9), 1.5 * down + 0.6)
    axs = fig.subplots(down, 2, sharex=True, sharey=True, squeeze=False)
    for ax in axs.flat[len(losses) :]:
        ax.set_axis_off()
    for ax, (name, loss), note in zip(axs.flat, losses.items(), notes, strict=False):
        ax.plot(right, "--", color=INK, lw=1.6, label="right")
        ax.plot(to_numpy(name, loss, "steps"), color=tensor_style("A").ink, lw=2.2, label="with the bug")
        ax.set_title(name, fontsize=10.5)
        ax.text(0.97, 0.9, note, transform=ax.transAxes, ha="right", va="top", fontsize=10.5, linespacing=1.3)
        ax.set_ylim(0, None)
    fig.set_gid(MEASURED)  # another machine rounds otherwise
    fig.supxlabel("training step", fontsize=11.5)
    fig.supylabel("loss (nats)", fontsize=11.5)
    fig.legend(*axs[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return fig
