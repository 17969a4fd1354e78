"""Chapter 10: losses against the best possible one, and two heads that work together."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnlib.plots._cells import outline_cell
from attnlib.plots._figures import WIDEST, check_length, new_axes, new_figure, to_numpy
from attnlib.plots.matrices import KEYS, QUERIES, show_matrix
from attnlib.plots.notebook import MEASURED
from attnlib.plots.style import INK, tensor_style

_LOOKS = (("H", "-", "o"), ("A", "--", "s"))


def show_floor(losses: Mapping[str, Any], *, floor: float, chance: float, alone: Mapping[str, Sequence[float]]) -> Axes:
    """Draw training losses over the best possible loss, and on the right the losses without the future.

    Parameters
    ----------
    losses : mapping of str to array, shape (seeds, steps)
        At most two, by the label of the thick line, which is their median.
    floor, chance : float
        The loss of the best possible guess and that of guessing blindly, drawn as levels.
    alone : mapping of str to sequence of float
        For the same labels the loss of each seed when the future is not there.

    Returns
    -------
    Axes
    """
    ax = new_axes(WIDEST, 3.9)
    ax.figure.set_gid(MEASURED)  # losses differ in their last digits from one kind of processor to the next
    for (label, runs), (tensor, line, marker) in zip(losses.items(), _LOOKS, strict=False):
        runs = to_numpy(label, runs, "seeds steps")
        color, steps = tensor_style(tensor).ink, runs.shape[1]
        ax.plot(runs.T, line, color=color, lw=0.8, alpha=0.5)
        ax.plot(np.median(runs, axis=0), line, color=color, lw=2.6, label=label)
        points = check_length("alone", alone[label], len(runs), f"seeds of {label}")
        places = steps * (1.1 + 0.05 * np.arange(len(points)))
        ax.plot(places, points, marker, color=color, ms=9, mec=INK)
    for level, name, side in ((floor, "best possible", "top"), (chance, "guessing", "bottom")):
        ax.axhline(level, color=INK, lw=1, ls=":")
        ax.annotate(
            name,
            (steps * 0.98, level),
            (0, -4 if side == "top" else 3),
            textcoords="offset points",
            ha="right",
            va=side,
        )
    ax.axvline(steps * 1.03, color=INK, lw=0.8)
    ax.set_xticks(np.linspace(0, steps, 4, dtype=int))
    ax.text(steps * 1.15, 0.02, "without\nthe future", transform=ax.get_xaxis_transform(), ha="center", va="bottom")
    ax.set(xlabel="training step", ylabel="loss (nats)", xlim=(0, steps * 1.28), ylim=(0, None))
    ax.figure.legend(loc="outside upper center", ncols=2)
    return ax


def show_circuit(weights: Mapping[str, Any], targets: Mapping[str, Any], *, rows: Sequence[str]) -> Figure:
    """Draw the weights of two heads, one after the other, with a frame around the cells that count.

    Parameters
    ----------
    weights : mapping of str to array, shape (N, N)
        By the title of each panel.
    targets : mapping of str to boolean array, shape (N, N)
        For the same titles, True where a frame goes.
    rows : sequence of str
        A label for each of the N tokens.

    Returns
    -------
    Figure
    """
    fig = new_figure(WIDEST, 3.9)
    fig.set_gid(MEASURED)
    axs = fig.subplots(1, len(weights), squeeze=False)[0]
    for ax, (title, A) in zip(axs, weights.items(), strict=True):
        first = ax is axs[0]
        show_matrix(
            A,
            tensor="A",
            rows=rows if first else [""] * len(rows),
            columns=rows,
            row_name=QUERIES if first else "",
            column_name=KEYS,
            mask=np.tri(len(rows), dtype=bool),
            numbers=False,
            title=title,
            ax=ax,
        )
        for i, j in np.argwhere(to_numpy(title, targets[title], "N N")):
            outline_cell(ax, i, j)
            ax.lines[-1].set_linewidth(1.4)
    fig.colorbar(axs[0].images[0], ax=axs, shrink=0.6, pad=0.02)
    return fig
