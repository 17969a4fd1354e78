"""Chapter 7: one word in two contexts, layer by layer, and which pairs of tokens a score knows together."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnlib.plots._cells import outline_cell
from attnlib.plots._figures import WIDEST, check_length, new_axes, new_figure, to_numpy
from attnlib.plots.fonts import legible, token_text
from attnlib.plots.matrices import show_matrix
from attnlib.plots.pipeline import arrow
from attnlib.plots.style import BACKGROUND, INK, tensor_style

_LINES = (("H", "-", "o"), ("A", "-", "s"), ("H", ":", "o"), ("A", ":", "s"))  # trained: solid; untrained: dotted
_SENSES = (("H", "o"), ("A", "s"))
_PLATE = {"boxstyle": "round,pad=0.15", "fc": BACKGROUND, "ec": "none", "alpha": 0.85}


def show_cosines(cosines: Mapping[str, Any]) -> Axes:
    """Draw how similar two occurrences of a word are before the first layer and after each.

    Parameters
    ----------
    cosines : mapping of str to array, shape (L + 1,)
        At most four lines, by their label. The first value is that of the bare tokens.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        There are more than four lines.
    """
    if len(cosines) > len(_LINES):
        raise ValueError(f"cosines has {len(cosines)} lines, but at most {len(_LINES)} can be told apart.")
    ax = new_axes(5.8, 4.4)
    for (label, line), (tensor, dash, marker) in zip(cosines.items(), _LINES, strict=False):
        line = to_numpy(label, line, "layer")
        ax.plot(line, dash, marker=marker, color=tensor_style(tensor).ink, ms=8, lw=2.4, label=label)
    ax.axhline(0, color=INK, lw=0.8)
    layers = range(1, len(line))
    ax.set_xticks([0, *layers], ["bare", *(f"layer {n}" for n in layers)])
    ax.set(ylim=(-1.08, 1.08), yticks=[-1, -0.5, 0, 0.5, 1], ylabel="cosine of two “bank”s")
    ax.figure.legend(loc="outside upper center", ncols=2)
    return ax


def show_paths(
    paths: Any, senses: Sequence[int], *, names: Sequence[str], highlight: Mapping[int, str] | None = None
) -> Axes:
    """Draw one word of many sentences in the plane, with an arrow from layer to layer.

    Parameters
    ----------
    paths : array, shape (L + 1, n, 2)
        For the bare tokens and after each layer, the word's place in the plane in each of n sentences.
    senses : sequence of int
        0 or 1 for each sentence.
    names : sequence of str
        What the two senses are called.
    highlight : mapping of int to str, optional
        Sentences, by their number, that are drawn heavily and named.

    Returns
    -------
    Axes
    """
    paths = to_numpy("paths", paths, "layer n 2")
    senses = check_length("senses", senses, paths.shape[1], "sentences")
    names = check_length("names", names, 2, "senses")
    highlight = highlight or {}
    ax = new_axes(5.8, 4.4)
    for n in sorted(range(len(senses)), key=lambda n: n in highlight):  # what is drawn heavily comes last, on top
        tensor, marker = _SENSES[int(senses[n])]
        style, heavy = tensor_style(tensor), n in highlight
        for tail, tip in pairwise(paths[:, n]):
            arrow(ax, tail, tip, color=INK if heavy else style.ink, lw=2.6 if heavy else 0.9)
        ax.plot(*paths[-1, n], marker, color=style.color, mec=INK, mew=2.5 if heavy else 1, ms=12 if heavy else 8)
    for n, name in highlight.items():
        inward = 1 if paths[-1, n, 0] < paths[0, 0, 0] else -1  # towards the bare token
        ax.annotate(
            legible(name),
            paths[-1, n],
            (inward * 46, -34),
            textcoords="offset points",
            ha="left" if inward > 0 else "right",
            va="center",
            bbox=_PLATE,
            arrowprops={"arrowstyle": "-", "color": INK, "lw": 1, "shrinkB": 6},
            **token_text(),
        )
    for name, (tensor, marker) in zip(names, _SENSES, strict=True):
        ax.plot([], [], marker, color=tensor_style(tensor).color, mec=INK, ms=9, ls="none", label=name)
    ax.plot(*paths[0, 0], "D", color=tensor_style("X").color, mec=BACKGROUND, ms=12, zorder=5, label="bare")
    ax.figure.legend(loc="outside upper center", ncols=3)
    ax.margins(0.1, 0.12)
    ax.set(xlabel="first principal component", ylabel="second")
    return ax


def show_interaction(interactions: Mapping[str, Any], *, rows: Sequence[str], pair: tuple[int, int]) -> Figure:
    """Draw which two tokens act together on one score, a panel for each layer; hatched where they do not.

    Parameters
    ----------
    interactions : mapping of str to array, shape (N, N)
        By the title of each: how far moving tokens k and l together differs from moving each alone. Below 1e-12
        counts as 0; a token with itself is left out.
    rows : sequence of str
        A label for each of the N tokens.
    pair : tuple of int
        Query and key of the score: their two cells are framed.

    Returns
    -------
    Figure
    """
    interactions = {title: to_numpy(title, M, "N N").astype(float) for title, M in interactions.items()}
    apart = ~np.eye(len(rows), dtype=bool)
    fig = new_figure(WIDEST, 3.5)
    axs = fig.subplots(1, len(interactions), squeeze=False)[0]
    for ax, (title, M) in zip(axs, interactions.items(), strict=True):
        first = ax is axs[0]
        show_matrix(
            np.log10(np.maximum(M, 1e-5)) + 5,
            tensor="S",
            rows=rows if first else [""] * len(rows),
            columns=rows,
            row_name="token k moved" if first else "",
            column_name="and token l moved",
            mask=(M > 1e-12) & apart,
            numbers=False,
            vmin=0,
            vmax=5,
            title=title,
            ax=ax,
        )
        for i, j in (pair, pair[::-1]):
            outline_cell(ax, i, j)
    bar = fig.colorbar(axs[0].images[0], ax=axs, shrink=0.6, pad=0.02, label="act together")
    bar.set_ticks([0, 1, 2, 3, 4, 5], labels=["$10^{-5}$", "", "$10^{-3}$", "", "$10^{-1}$", "1"])
    return fig
