"""Chapter 6: where the pieces of vectors go when heads are split and merged, and what each head adds to the output."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from attnlib.plots._figures import WIDEST, canvas, check_length, new_figure, to_numpy
from attnlib.plots.fonts import legible, token_text
from attnlib.plots.pipeline import arrow
from attnlib.plots.style import BACKGROUND, FAINT, INK, tensor_style, text_on, tinted

# ---------------------------------------------------------------------------------------------------------------------
# Split and merge, in memory
# ---------------------------------------------------------------------------------------------------------------------

_MOST = 24  # pieces that fit beside each other
_HEIGHT, _LABELS = 0.27, 0.62  # inches: a cell, the labels of rows
_PARTS = "abcdefgh"


def show_memory(split: Mapping[str, Any], merge: Mapping[str, Any], *, rows: Sequence[str], h: int) -> Figure:
    """Draw where the pieces of token vectors go: memory as a ribbon, and below it two ways to cut it.

    A cell is one piece, as long as a head is wide: "2b" is the second piece of token 2. Letters say which head a
    piece belongs to, and so does the shade.

    Parameters
    ----------
    split : mapping of str to array, shape (h, N, d_h)
        By the title of each way. Entries are places in the memory of the vectors, ``numpy.arange(N * d_model)``
        before the split.
    merge : mapping of str to array, shape (N, h * d_h)
        The same for the way back, made from the first split, whose memory is the second ribbon.
    rows : sequence of str
        The N tokens.
    h : int
        Number of heads.

    Returns
    -------
    Figure

    Raises
    ------
    ValueError
        More than 24 pieces, pieces that were torn apart, or shapes that do not fit.
    """
    split = {title: _pieces(title, Z, "h N d_h", len(rows), h) for title, Z in split.items()}
    merge = {title: _pieces(title, Z, "N d_concat", len(rows), h) for title, Z in merge.items()}
    N, heads = len(rows), [f"head {a}" for a in range(h)]
    by_head = next(iter(split.values()))
    ax = canvas(WIDEST, 2.5 + _HEIGHT * (h + N))
    top = ax.get_ylim()[1] - 0.02
    top = _ribbon(ax, top, "Memory of $Q$ (also $K$, $V$): token after token", np.arange(N * h), rows, "Q", h)
    top = _ways(ax, top, split, heads, "Q", h)
    top = _ribbon(ax, top - 0.14, "Memory of $H$: head after head", by_head.ravel(), heads, "H", h)
    _ways(ax, top, merge, rows, "H", h)
    return ax.figure


def _pieces(title: str, Z: Any, axes: str, N: int, h: int) -> np.ndarray:
    """Return for each piece of d_h entries its number in memory, as a matrix; raise if a piece was torn apart."""
    Z = to_numpy(title, Z, axes)
    if N * h > _MOST or Z.size % (N * h):
        raise ValueError(f"{title} has shape {list(Z.shape)}: cannot draw {N} tokens of {h} pieces (at most {_MOST}).")
    pieces = Z.reshape(-1, Z.size // (N * h))
    if (np.diff(pieces, axis=-1) != 1).any() or (pieces[:, 0] % pieces.shape[1]).any():
        raise ValueError(f"{title} tears pieces apart: entries of a piece must stay together.")
    return (pieces[:, 0] // pieces.shape[1]).reshape(Z.shape[0], -1)


def _ribbon(ax: Axes, top: float, title: str, pieces: np.ndarray, groups: Sequence[str], tensor: str, h: int) -> float:
    """Draw all pieces in one line, with a name above each group, and return the height below it."""
    left, width = 0.06, (WIDEST - 0.12) / len(pieces)
    ax.text(left, top, title, va="top", fontsize=12, weight="bold")
    bottom = top - 0.48 - _HEIGHT
    for place, piece in enumerate(pieces):
        _cell(ax, left + place * width, bottom, width, piece, tensor, h)
    size = len(pieces) // len(groups) * width
    for g, name in enumerate(groups):
        _text(ax, left + (g + 0.5) * size, bottom + _HEIGHT + 0.04, legible(name), ha="center", va="bottom")
        ax.add_patch(Rectangle((left + g * size, bottom), size, _HEIGHT, fc="none", ec=INK, lw=2))
    return bottom - 0.14


def _ways(ax: Axes, top: float, ways: Mapping[str, np.ndarray], rows: Sequence[str], tensor: str, h: int) -> float:
    """Draw each way to cut the ribbon beside the others, and return the height below them."""
    room = (WIDEST - 0.12) / len(ways)
    for place, (title, pieces) in enumerate(ways.items()):
        left = 0.06 + place * room
        width = min(0.32, (room - _LABELS - 0.1) / pieces.shape[1])
        ax.text(left, top, title, va="top", fontsize=12)
        for i, (name, line) in enumerate(zip(rows, pieces, strict=True)):
            bottom = top - 0.26 - (i + 1) * _HEIGHT
            _text(ax, left + _LABELS - 0.06, bottom + _HEIGHT / 2, legible(name), ha="right", va="center")
            for j, piece in enumerate(line):
                _cell(ax, left + _LABELS + j * width, bottom, width, piece, tensor, h)
            frame = (left + _LABELS, bottom), len(line) * width, _HEIGHT
            ax.add_patch(Rectangle(*frame, fc="none", ec=INK, lw=2))
    return top - 0.26 - len(rows) * _HEIGHT


def _cell(ax: Axes, left: float, bottom: float, width: float, piece: int, tensor: str, h: int) -> None:
    token, part = divmod(int(piece), h)
    face = tinted(tensor_style(tensor).color, 0.08 + 0.92 * part / max(h - 1, 1))
    ax.add_patch(Rectangle((left, bottom), width, _HEIGHT, fc=face, ec=BACKGROUND, lw=1))
    middle = left + width / 2, bottom + _HEIGHT / 2
    ax.text(*middle, f"{token}{_PARTS[part]}", ha="center", va="center_baseline", fontsize=10.5, color=text_on(face))


def _text(ax: Axes, x: float, y: float, text: str, **options: Any) -> None:
    ax.text(x, y, text, fontsize=11, **options, **token_text())


# ---------------------------------------------------------------------------------------------------------------------
# Contributions
# ---------------------------------------------------------------------------------------------------------------------


def show_contributions(
    contributions: Any, output: Any, *, rows: Sequence[str], components: tuple[int, int] = (0, 1)
) -> Figure:
    """Draw the heads' contributions to outputs as arrows, tip to tail: the last one ends at the output.

    Parameters
    ----------
    contributions : array, shape (h, n, d_model)
        What each head adds to the outputs of n tokens.
    output : array, shape (n, d_model)
        The outputs.
    rows : sequence of str
        The n tokens, one panel each.
    components : tuple of two int
        Which two components of the vectors to draw.

    Returns
    -------
    Figure
    """
    contributions, output = to_numpy("contributions", contributions, "h n d_model"), to_numpy("output", output, "n d")
    rows = check_length("rows", rows, output.shape[0], "rows of output")
    if contributions.shape[1:] != output.shape:
        raise ValueError(f"contributions has shape {list(contributions.shape)}, but output {list(output.shape)}.")
    steps, ends = contributions[..., list(components)], output[:, list(components)]
    tips = np.concatenate([np.zeros((1, *ends.shape)), np.cumsum(steps, axis=0)])  # [h + 1, n, 2]
    fig = new_figure(WIDEST, 2.9)
    axs = fig.subplots(1, len(rows), squeeze=False, sharex=True, sharey=True)[0]
    for n, (ax, row) in enumerate(zip(axs, rows, strict=True)):
        _chain(ax, tips[:, n], ends[n], centre=tips[:, n].mean(axis=0))
        ax.set_title(f"output of “{legible(row)}”", **token_text())
        ax.set(xlabel=f"component {components[0]}", aspect="equal")
        ax.margins(0.3, 0.2)
    axs[0].set_ylabel(f"component {components[1]}")
    return fig


def _chain(ax: Axes, tips: np.ndarray, end: np.ndarray, *, centre: np.ndarray) -> None:
    """Draw one token's arrows from the origin to its output."""
    head, output = tensor_style("H"), tensor_style("output")
    ax.axhline(0, color=FAINT, lw=0.8, zorder=0)
    ax.axvline(0, color=FAINT, lw=0.8, zorder=0)
    ax.plot(*tips.T, alpha=0)  # arrows alone do not widen the axes
    ax.plot(*zip((0, 0), end, strict=True), ls=":", color=FAINT, lw=1.6, zorder=1)
    ax.plot(*end, "*", color=output.color, mec=INK, ms=17, zorder=4)
    for a, (tail, tip) in enumerate(itertools.pairwise(tips)):
        arrow(ax, tuple(tail), tuple(tip), color=head.ink, lw=2.6)
        aside = np.array([tail[1] - tip[1], tip[0] - tail[0]])  # at right angles to the arrow, away from the others
        aside = aside / (np.hypot(*aside) or 1.0) * (1 if aside @ ((tail + tip) / 2 - centre) >= 0 else -1)
        ax.annotate(
            f"head {a}",
            (tail + tip) / 2,
            tuple(7 * aside),
            textcoords="offset points",
            ha="left" if aside[0] > 0.3 else "right" if aside[0] < -0.3 else "center",
            va="bottom" if aside[1] > 0.3 else "top" if aside[1] < -0.3 else "center",
            bbox={"boxstyle": "round,pad=0.1", "fc": BACKGROUND, "ec": "none", "alpha": 0.85},
            zorder=3,
        )
