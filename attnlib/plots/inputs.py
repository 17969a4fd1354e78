"""Chapter 1: the lookup, the position codes, and how long token and position vectors are."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import ConnectionPatch, Rectangle
from matplotlib.ticker import LogLocator, NullLocator

from attnlib.plots._cells import draw_cells, label_columns, label_rows, mark_negative
from attnlib.plots._figures import WIDEST, check_length, free_figure, new_axes, new_figure, to_numpy
from attnlib.plots.fonts import legible, letters
from attnlib.plots.style import BACKGROUND, FAINT, INK, colormap, tensor_style


def lookup(T: Any, E: Any, X_tok: Any, *, words: Sequence[str]) -> Figure:
    """Draw how each id picks a row of the embedding table, which becomes a row of X_tok.

    Parameters
    ----------
    T : integer array, shape (N,)
        Token ids of one sentence.
    E : array, shape (vocab_size, d_model)
        The embedding table.
    X_tok : array, shape (N, d_model)
        What the lookup gave.
    words : sequence of str
        The word of each row of E.

    Returns
    -------
    Figure
        Left the ids, in the middle E with the picked rows lit, on the right X_tok. A word that stands in the
        sentence more than once is bold.

    Raises
    ------
    ValueError
        A shape or the number of words does not fit.
    """
    T, E, X_tok = to_numpy("T", T, "N"), to_numpy("E", E, "vocab_size d_model"), to_numpy("X_tok", X_tok, "N d_model")
    words = check_length("words", words, len(E), "rows of E")
    if X_tok.shape != (len(T), E.shape[1]):
        raise ValueError(f"X_tok has shape {list(X_tok.shape)}, but T and E give [{len(T)}, {E.shape[1]}].")
    limit = float(np.abs(E).max())
    names = [f"{i} {legible(word)}" for i, word in enumerate(words)]
    wide = min(0.1 * max(map(letters, names)) + 0.1, 1.4)  # inches that the names take
    fig, (ids, table, vectors) = _lookup_axes(len(E), len(T), wide)
    _draw_ids(ids, T, [words[i] for i in T], rows=len(E))
    for ax, tensor, M in ((table, "E", E), (vectors, "X_tok", X_tok)):
        nothing_hidden = np.zeros(M.shape, bool)
        image = draw_cells(ax, M, nothing_hidden, tensor=tensor, vmin=-limit, vmax=limit, aspect="auto")
        mark_negative(ax, image, M, nothing_hidden)
        label_columns(ax, None, "components", most=8)
    label_rows(table, names, "")
    table.tick_params(axis="y", pad=72 * wide - 4)  # all names begin where the arrows end
    for name in table.get_yticklabels():
        name.set_horizontalalignment("left")
    label_rows(vectors, [""] * len(T), "")
    table.set_title("$E$: embedding table", loc="left")
    vectors.set_title(r"$X_\mathrm{tok} = E[T]$", loc="left")
    for i in set(range(len(E))) - set(T.tolist()):  # what the sentence does not pick stands back
        table.add_patch(Rectangle((-0.5, i - 0.5), E.shape[1], 1, fc=BACKGROUND, alpha=0.8, lw=0, zorder=4))
        table.get_yticklabels()[i].set_color(FAINT)
    for spine in table.spines.values():
        spine.set_zorder(5)
    table_width = fig.get_figwidth() * table.get_position().width
    for place, i in enumerate(T):
        again = (T == i).sum() > 1  # a word that stands in the sentence twice picks the same row twice
        if again:
            ids.get_yticklabels()[place].set_weight("bold")
            table.get_yticklabels()[i].set_weight("bold")
        _link(ids, (1, place), table, (-0.5 - wide / table_width * E.shape[1], i), again)
        _link(table, (E.shape[1] - 0.5, i), vectors, (-0.5, place), again)
    return fig


def _lookup_axes(vocab_size: int, N: int, labels: float) -> tuple[Figure, list[Axes]]:
    """Return axes for the ids, the table and the vectors, with rows of one height and centred to one another."""
    row, top, bottom = 0.36, 0.35, 0.6  # inches
    width, height = WIDEST, top + bottom + row * vocab_size
    fig, axs = free_figure(width, height), []
    for left, wide, rows in ((0.75, 0.36, N), (labels + 1.7, 4.0 - labels - 1.7, vocab_size), (4.6, 1.5, N)):
        low = bottom + row * (vocab_size - rows) / 2
        axs.append(fig.add_axes((left / width, low / height, wide / width, row * rows / height)))
    return fig, axs


def _draw_ids(ax: Axes, T: np.ndarray, tokens: list[str], rows: int) -> None:
    """Draw the ids as a column of boxes, with their tokens on the left."""
    style = tensor_style("X")
    ax.set(xlim=(0, 1), ylim=(len(T) - 0.5, -0.5), xticks=[])
    for place, i in enumerate(T):
        ax.add_patch(Rectangle((0, place - 0.5), 1, 1, fc=BACKGROUND, ec=style.ink, lw=1))
        ax.text(0.5, place, str(i), ha="center", va="center")
    label_rows(ax, tokens, "")
    ax.set_title("$T$: ids", loc="center")
    ax.spines[["left", "bottom"]].set_visible(False)


def _link(ax: Axes, start: tuple[float, float], other: Axes, end: tuple[float, float], strong: bool) -> None:
    """Draw an arrow from a point of one axes to a point of another; `strong` for a word that occurs again."""
    ax.figure.add_artist(
        ConnectionPatch(
            start,
            end,
            ax.transData,
            other.transData,
            arrowstyle="-|>",
            mutation_scale=9,
            color=INK if strong else FAINT,
            lw=2.2 if strong else 1,
            shrinkA=1,
            shrinkB=1,
        )
    )


def show_positions(X_pos: Any, bits: Any) -> Figure:
    """Draw position codes as a smooth binary counter: fast columns on the left, slow ones on the right.

    Parameters
    ----------
    X_pos : array, shape (N, d_model)
        One code a row; even components are sines, odd ones cosines, from -1 (white) to 1 (black).
    bits : array of 0 and 1, shape (N, digits)
        The binary digits of the same positions, the lowest first.

    Returns
    -------
    Figure
        Three heat maps over the same rows: the digits, the sines, the cosines.
    """
    X_pos, bits = to_numpy("X_pos", X_pos, "N d_model"), to_numpy("bits", bits, "N digits")
    if len(bits) != len(X_pos):
        raise ValueError(f"bits has {len(bits)} rows, but X_pos has {len(X_pos)}: one for each position.")
    fig = new_figure(6.2, 4.4)
    axs = fig.subplots(1, 3, width_ratios=[1, 1.3, 1.3])
    symbol = tensor_style("X_pos").symbol
    panels = [
        (bits, 0, "binary digits", [f"{k}" for k in range(bits.shape[1])]),
        (X_pos[:, 0::2], -1, f"{symbol}: sines", [f"{2 * i}" for i in range(X_pos.shape[1] // 2)]),
        (X_pos[:, 1::2], -1, f"{symbol}: cosines", [f"{2 * i + 1}" for i in range(X_pos.shape[1] // 2)]),
    ]
    for ax, (M, low, title, numbers) in zip(axs, panels, strict=True):
        image = draw_cells(ax, M, np.zeros(M.shape, bool), tensor="X_pos", vmin=low, vmax=1, aspect="auto")
        image.set_cmap(colormap("X_pos"))
        step = 1 + len(numbers) // 8
        ax.set_xticks(range(0, len(numbers), step), numbers[::step])
        ax.set_title(title, loc="left")
        label_rows(ax, None, "position (rows)" if ax is axs[0] else "")
        ax.set_xlabel("digit" if ax is axs[0] else "component")
    for ax in axs[1:]:
        ax.tick_params(axis="y", labelleft=False)
    fig.colorbar(image, ax=axs[2], pad=0.04, shrink=0.6, ticks=[-1, 0, 1])
    return fig


def show_gram(G: Any) -> Figure:
    """Draw the dot products of all pairs of position codes, and the same numbers over the distance.

    Parameters
    ----------
    G : array, shape (N, N)
        Entry (p, r) is the dot product of the codes of positions p and r.

    Returns
    -------
    Figure
        Left the matrix; right a curve for each of its rows. Where the distance alone decides, all fall on one.
    """
    G = to_numpy("G", G, "N N")
    if G.shape[0] != G.shape[1]:
        raise ValueError(f"G has shape {list(G.shape)}, but dot products of all pairs make a square matrix.")
    fig = new_figure(6.2, 3.4)
    matrix, curves = fig.subplots(1, 2, width_ratios=[1, 0.9])
    image = draw_cells(matrix, G, np.zeros(G.shape, bool), tensor="X_pos", vmin=float(G.min()), aspect="equal")
    image.set_cmap(colormap("X_pos"))
    label_rows(matrix, None, "position p (rows)")
    label_columns(matrix, None, "position r (columns)", most=8)
    for p, row in enumerate(G):
        curves.plot(np.arange(len(G)) - p, row, color=INK, lw=1.5)
    curves.set(xlabel="distance r − p", ylabel="dot product", ylim=(min(0.0, 1.05 * float(G.min())), None))
    return fig


def show_norms(token: Any, position: Any, *, labels: Sequence[str]) -> Axes:
    """Draw the length of a token vector and of a position vector for several set-ups, with their ratio.

    Parameters
    ----------
    token, position : array, shape (n,)
        Norms, one pair for each label; drawn as dot and diamond on a logarithmic axis.
    labels : sequence of str
        What the pairs stand for.

    Returns
    -------
    Axes
    """
    token, position = to_numpy("token", token, "n"), to_numpy("position", position, "n")
    labels = check_length("labels", labels, len(token), "norms in token")
    check_length("position", position, len(token), "norms in token")
    ax = new_axes(6.2, 1.0 + 0.5 * len(token))
    rows, ink = np.arange(len(token)), tensor_style("X").ink
    ax.hlines(rows, np.minimum(token, position), np.maximum(token, position), color=FAINT, lw=2, zorder=1)
    ax.scatter(position, rows, s=150, marker="D", color=BACKGROUND, edgecolor=ink, lw=2, zorder=2)
    ax.scatter(token, rows, s=60, marker="o", color=ink, zorder=3)
    for x, tensor in ((token[0], "X_tok"), (position[0], "X_pos")):
        symbol = tensor_style(tensor).symbol
        ax.annotate(symbol, (x, 0), (0, 14), textcoords="offset points", ha="center", va="bottom", fontsize=13)
    for row, ratio in enumerate(np.maximum(token, position) / np.minimum(token, position)):
        ax.annotate(f"{ratio:.2g} : 1", (1.02, row), xycoords=("axes fraction", "data"), va="center")
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set(yticks=rows, yticklabels=labels, xlabel="norm", ylim=(len(rows) - 0.5, -1))
    return ax
