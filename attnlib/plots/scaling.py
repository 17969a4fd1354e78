"""Chapter 4: the spread of scores, weights that go one-hot, how a row answers to its scores, and training."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from attnlib.plots._cells import draw_cells
from attnlib.plots._figures import WIDEST, check_length, new_axes, new_figure, to_numpy
from attnlib.plots.notebook import MEASURED
from attnlib.plots.style import INK, tensor_style, text_on

_LOOKS = (
    ("S", "-", "o"),
    ("Q", "--", "s"),
    ("H", ":", "^"),
)  # colour, line and marker: no colour carries meaning alone


def _log_dims(ax: Axes, dims: Sequence[int], *, every: int = 1) -> None:
    """Give an axes a logarithmic x axis with a tick for each d_h, and label every so many of them."""
    ax.set_xscale("log", base=2)
    ax.set_xticks(list(dims), ["" if place % every else str(d) for place, d in enumerate(dims)])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel("$d_h$")


def show_variance(dims: Sequence[int], variances: Mapping[str, Any]) -> Axes:
    """Draw the variance of scores against d_h on logarithmic axes, one line for each way to scale.

    Parameters
    ----------
    dims : sequence of int
        The values of d_h.
    variances : mapping of str to array, shape (len(dims),)
        At most three, by the label of the line, which is written at its right end.

    Returns
    -------
    Axes
    """
    ax = new_axes(5.6, 3.6)
    _log_dims(ax, dims)
    ax.set_yscale("log")
    for (label, variance), (tensor, line, marker) in zip(variances.items(), _LOOKS, strict=False):
        variance = check_length(f"variances[{label!r}]", variance, len(dims), "values of d_h")
        color = tensor_style(tensor).ink
        ax.plot(dims, variance, line, marker=marker, color=color, ms=7)
        ax.annotate(label, (dims[-1], variance[-1]), (8, 0), textcoords="offset points", color=color, va="center")
    ax.set_ylabel("variance of the scores")
    return ax


def show_sharpening(rows: Mapping[str, Any], dims: Sequence[int]) -> Figure:
    """Draw rows of weights as strips, one for each d_h; a panel for each way to scale.

    Parameters
    ----------
    rows : mapping of str to array, shape (len(dims), N_k)
        Weights by the title of the panel, each row sorted: the largest first.
    dims : sequence of int
        The values of d_h.

    Returns
    -------
    Figure
    """
    fig = new_figure(WIDEST, 0.42 * len(dims) + 1.5)
    axs = fig.subplots(1, len(rows), sharey=True, squeeze=False)[0]
    for ax, (title, A) in zip(axs, rows.items(), strict=True):
        A = to_numpy(title, A, "d_h N_k")
        check_length("dims", dims, len(A), f"rows of {title}")
        image = draw_cells(ax, A, np.zeros(A.shape, bool), tensor="A", aspect="auto")
        ax.set_title(title)
        ax.set_yticks(range(len(dims)), [str(d) for d in dims])
        ax.set_xticks([0, A.shape[1] - 1], ["1st", f"{A.shape[1]}th"])
        ax.set_xlabel("keys, heaviest first")
    axs[0].set_ylabel("$d_h$")
    fig.colorbar(image, ax=axs, label="weight", shrink=0.9, pad=0.02)
    return fig


def show_answers(dims: Sequence[int], panels: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Draw how strongly rows of weights answer to their scores: the median, in a band from 10 to 90 percent.

    Parameters
    ----------
    dims : sequence of int
        The values of d_h.
    panels : mapping of str to mapping of str to array, shape (3, len(dims))
        By the title of the panel, then by the label of the line: the 10, 50 and 90 percent quantiles of the norm of
        the Jacobian.

    Returns
    -------
    Figure
    """
    fig = new_figure(WIDEST, 3.5)
    axs = fig.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for ax, (title, lines) in zip(axs, panels.items(), strict=True):
        _log_dims(ax, dims, every=2)  # in a narrow panel the longest numbers would touch
        for (label, quantiles), (tensor, line, marker) in zip(lines.items(), _LOOKS, strict=False):
            low, middle, high = to_numpy(label, quantiles, "quantile d_h")
            style = tensor_style(tensor)
            ax.fill_between(dims, low, high, color=style.color, alpha=0.25, lw=0)
            ax.plot(dims, middle, line, marker=marker, color=style.ink, ms=6, label=label)
        ax.set_title(title)
        ax.set_ylim(0, 0.52)
    axs[0].set_ylabel(r"$\Vert J\Vert$ of a row")
    fig.legend(*axs[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return fig


def show_losses(losses: Mapping[str, Any], *, chance: float) -> Axes:
    """Draw training losses: a thin line for each seed, a thick one for their median.

    Parameters
    ----------
    losses : mapping of str to array, shape (seeds, steps)
        By the label of the thick line.
    chance : float
        The loss of guessing, drawn as a level.

    Returns
    -------
    Axes
    """
    ax = new_axes(5.6, 3.6)
    ax.figure.set_gid(MEASURED)  # losses differ in their last digits from one kind of processor to the next
    for (label, runs), (tensor, line, _) in zip(losses.items(), _LOOKS, strict=False):
        runs = to_numpy(label, runs, "seeds steps")
        color = tensor_style(tensor).ink
        ax.plot(runs.T, line, color=color, lw=0.8, alpha=0.5)
        ax.plot(np.median(runs, axis=0), line, color=color, lw=2.6, label=label)
    ax.axhline(chance, color=INK, lw=1)
    ax.annotate(
        "guessing", (1, chance), (-2, 3), xycoords=("axes fraction", "data"), textcoords="offset points", ha="right"
    )
    ax.set(xlabel="training step", ylabel="loss (nats)", ylim=(0, None))
    ax.margins(x=0)
    ax.legend(loc="upper right", bbox_to_anchor=(1, 0.88))
    return ax


def show_map(ratio: Any, *, lengths: Sequence[int], dims: Sequence[int]) -> Axes:
    """Draw a ratio over N and d_h; a tenth and tenfold are the ends of the colours.

    Parameters
    ----------
    ratio : array, shape (len(lengths), len(dims))
        Positive numbers; each is written into its cell.
    lengths, dims : sequence of int
        The values of N (rows) and d_h (columns).

    Returns
    -------
    Axes
    """
    ratio = to_numpy("ratio", ratio, "N d_h")
    check_length("lengths", lengths, ratio.shape[0], "rows of ratio")
    check_length("dims", dims, ratio.shape[1], "columns of ratio")
    ax = new_axes(5.6, 0.5 * len(lengths) + 1.2)
    logs = np.log10(ratio)
    image = draw_cells(ax, logs, np.zeros(ratio.shape, bool), tensor="S", vmin=-1, vmax=1, aspect="auto")
    for (i, j), value in np.ndenumerate(ratio):
        color = text_on(image.cmap(image.norm(logs[i, j])))
        text = "<0.01" if value < 0.01 else f"{value:.2g}"
        ax.text(j, i, text, ha="center", va="center", color=color, fontsize=11)
    ax.set_xticks(range(len(dims)), [str(d) for d in dims])
    ax.set_yticks(range(len(lengths)), [str(n) for n in lengths])
    ax.set(xlabel="$d_h$", ylabel="$N$ (number of keys)")
    return ax
