"""Chapter 5: masks combined, influence under each mask, weights under right and wrong ones."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnlib.plots._cells import color_limits, draw_cells, hidden_cells, label_columns, label_rows
from attnlib.plots._figures import WIDEST, check_length, new_figure, to_numpy
from attnlib.plots.matrices import KEYS, QUERIES, show_matrix
from attnlib.plots.style import INK


def show_masks(masks: Mapping[str, Any], *, rows: Sequence[str], signs: Sequence[str] = ("∧", "=")) -> Figure:
    """Draw masks side by side with a sign between them: a dot where a key may be read, hatched where not.

    Parameters
    ----------
    masks : mapping of str to boolean array, shape (N, N) or (1, N)
        By the title of each; a single row is repeated for every query.
    rows : sequence of str
        A label for each of the N tokens.
    signs : sequence of str
        What stands between two masks.

    Returns
    -------
    Figure

    Raises
    ------
    TypeError, ValueError
        A mask is not boolean or does not fit the labels, or there are not as many signs as gaps.

    Examples
    --------
    >>> import numpy as np
    >>> causal = np.tri(2, dtype=bool)
    >>> fig = show_masks({"causal": causal, "twice": causal}, rows=["river", "bank"], signs=["="])
    >>> [ax.get_title(loc="left") for ax in fig.axes if ax.axison]
    ['causal', 'twice']
    """
    signs = check_length("signs", signs, len(masks) - 1, "gaps between the masks")
    blank = np.zeros((len(rows), len(rows)))
    fig = new_figure(WIDEST, 2.8)
    axs = fig.subplots(1, 2 * len(masks) - 1, width_ratios=[1, 0.14] * (len(masks) - 1) + [1], squeeze=False)[0]
    for gap, sign in zip(axs[1::2], signs, strict=True):
        gap.set_axis_off()
        gap.text(0.5, 0.5, sign, ha="center", va="center", fontsize=17)
    for ax, (title, mask) in zip(axs[::2], masks.items(), strict=True):
        hidden = hidden_cells(blank, mask)
        draw_cells(ax, blank, hidden, tensor=None)
        i, j = np.nonzero(~hidden)
        ax.plot(j, i, "o", ms=4, color=INK)
        _label_tokens(ax, rows, first=ax is axs[0])
        ax.set_title(title, loc="left")
    return fig


def show_influence(influences: Mapping[str, Any], *, rows: Sequence[str]) -> Figure:
    """Draw influence matrices side by side on one colour scale; hatched where a token does not reach an output.

    Parameters
    ----------
    influences : mapping of str to array, shape (N, N)
        By the title of each; row i is output i, column j the token that was moved. Below 1e-12 counts as 0.
    rows : sequence of str
        A label for each of the N tokens.

    Returns
    -------
    Figure
    """
    influences = {title: to_numpy(title, D, "N N").astype(float) for title, D in influences.items()}
    high = max(D.max() for D in influences.values())
    fig = new_figure(WIDEST, 3.3)
    axs = fig.subplots(1, len(influences), squeeze=False)[0]
    for ax, (title, D) in zip(axs, influences.items(), strict=True):
        first = ax is axs[0]
        show_matrix(
            D,
            tensor="H",
            rows=rows if first else [""] * len(rows),
            columns=rows,
            row_name="outputs i (rows)" if first else "",
            column_name="moved tokens j",
            mask=D > 1e-12,
            numbers=False,
            vmin=0,
            vmax=high,
            title=title,
            ax=ax,
        )
    fig.colorbar(axs[0].images[0], ax=axs, shrink=0.6, pad=0.02, label="output moves by")
    return fig


def compare_weights(weights: Mapping[str, Any], *, mask: Any, notes: Sequence[str]) -> Figure:
    """Draw weights under several ways of masking, three in a row, with the border of what may be read.

    Parameters
    ----------
    weights : mapping of str to array, shape (N_q, N_k)
        By the title of each. A weight of exactly 0 is hatched.
    mask : boolean array, shape (N_q, N_k)
        The mask that was meant: its border is drawn into every panel.
    notes : sequence of str
        A line below each panel.

    Returns
    -------
    Figure
    """
    notes = check_length("notes", notes, len(weights), "matrices")
    mask = to_numpy("mask", mask, "N_q N_k")
    down = -(-len(weights) // 3)
    fig = new_figure(WIDEST, 0.3 + 2.4 * down)
    fig.get_layout_engine().set(hspace=0.06)  # a note must not be read as the title of the panel below it
    axs = fig.subplots(down, 3, squeeze=False)
    for ax in axs.flat[len(weights) :]:
        ax.set_axis_off()
    for ax, (title, A), note in zip(axs.flat, weights.items(), notes, strict=False):
        A = to_numpy(title, A, "N_q N_k").astype(float)
        low, high = color_limits(A, "A")
        draw_cells(ax, A, A == 0, tensor="A", vmin=low, vmax=high)
        _draw_border(ax, hidden_cells(A, mask))
        ax.set(xticks=[], yticks=[], title=title, xlabel=note)
    fig.supylabel(QUERIES, fontsize=12)
    fig.supxlabel(KEYS, fontsize=12)
    return fig


def _label_tokens(ax: Axes, rows: Sequence[str], *, first: bool) -> None:
    label_rows(ax, rows if first else [""] * len(rows), QUERIES if first else "")
    label_columns(ax, rows, "keys j")


def _draw_border(ax: Axes, hidden: np.ndarray) -> None:
    """Draw a line between the cells that may be read and those that may not."""
    for i, j in np.argwhere(hidden[:, 1:] != hidden[:, :-1]):
        ax.plot([j + 0.5, j + 0.5], [i - 0.5, i + 0.5], color=INK, lw=2.4)
    for i, j in np.argwhere(hidden[1:] != hidden[:-1]):
        ax.plot([j - 0.5, j + 0.5], [i + 0.5, i + 0.5], color=INK, lw=2.4)
