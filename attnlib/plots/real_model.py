"""Chapter 11: how many words find their sense, layer by layer, and where the senses lie in a plane."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnlib.plots._figures import WIDEST, check_length, new_axes, new_figure, to_numpy
from attnlib.plots.notebook import MEASURED
from attnlib.plots.style import FAINT, INK, tensor_style

_OUTFITS = (("A", "-", "o"), ("S", "--", "s"), ("H", ":", "^"))
_SENSES = (("H", "o"), ("A", "s"))


def show_outfits(counts: Mapping[str, Any], *, of: int, chance: float) -> Axes:
    """Draw how many words have a nearest neighbor of their own sense, before the first layer and after each.

    Parameters
    ----------
    counts : mapping of str to array, shape (L + 1,)
        At most three lines, by their label. The first value is that of the bare tokens.
    of : int
        The number of words in all.
    chance : float
        How many a neighbor picked blindly would give: a horizontal line.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        There are more than three lines.
    """
    if len(counts) > len(_OUTFITS):
        raise ValueError(f"counts has {len(counts)} lines, but at most {len(_OUTFITS)} can be told apart.")
    ax = new_axes(5.8, 4.2)
    for (label, line), (tensor, dash, marker) in zip(counts.items(), _OUTFITS, strict=False):
        line = to_numpy(label, line, "layer")
        ax.plot(line, dash, marker=marker, color=tensor_style(tensor).ink, ms=8, lw=2.4, label=label)
    ax.axhline(chance, color=FAINT, lw=1)
    ax.annotate("chance", (0, chance), (0, -4), textcoords="offset points", color=FAINT, va="top")
    ax.set_xticks(range(len(line)), ["bare", *map(str, range(1, len(line)))])
    ax.set(ylim=(chance - 0.12 * of, of), xlabel="after layer", ylabel=f"neighbor has the same sense, of {of}")
    ax.figure.legend(loc="outside upper center", ncols=len(counts))
    ax.figure.set_gid(MEASURED)  # what a real model computes differs in its last digits from machine to machine
    return ax


def show_planes(places: Any, senses: Any, *, names: Sequence[tuple[str, str, str]]) -> Figure:
    """Draw the occurrences of several words in a plane each, with one mark for each of two senses.

    Parameters
    ----------
    places : array, shape (words, n, 2)
        Where each of a word's n occurrences lies.
    senses : array, shape (words, n)
        0 or 1 for each occurrence.
    names : sequence of (str, str, str)
        For each word: itself, and what its two senses are called.

    Returns
    -------
    Figure
    """
    places, senses = to_numpy("places", places, "words n 2"), to_numpy("senses", senses, "words n")
    names = check_length("names", names, len(places), "words")
    across = min(len(names), 4)
    down = -(-len(names) // across)
    fig = new_figure(WIDEST, 2.2 * down)
    fig.set_gid(MEASURED)
    axs = fig.subplots(down, across, squeeze=False)
    for ax in axs.flat[len(names) :]:
        ax.set_axis_off()
    for ax, place, sense, (word, *two) in zip(axs.flat, places, senses, names, strict=False):
        for which, (name, (tensor, marker)) in enumerate(zip(two, _SENSES, strict=True)):
            color = tensor_style(tensor).color
            ax.plot(*place[sense == which].T, marker, color=color, mec=INK, mew=0.8, ms=6.5, label=name)
        ax.set_title(word, loc="center")
        ax.set(xticks=[], yticks=[], aspect="equal", adjustable="datalim")
        ax.margins(0.12)
        ax.spines[["top", "right"]].set_visible(True)
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, 0.02), handletextpad=0, borderpad=0.1, labelspacing=0.15)
    return fig
