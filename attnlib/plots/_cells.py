"""The parts of a heat map: coloured cells, hatched cells, numbers, labels. Row 0 is on top, and every row is whole."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import Normalize
from matplotlib.image import AxesImage
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.ticker import MaxNLocator

from attnlib.plots._figures import to_numpy
from attnlib.plots.fonts import downwards, is_wide, legible, letters, token_text
from attnlib.plots.style import (
    BACKGROUND,
    INK,
    MASKED_FACE,
    MASKED_HATCH,
    MASKED_LINES,
    colormap,
    text_on,
)

FEW = 8  # up to so many rows and columns, numbers fit into the cells
SOME = 16  # up to so many, each row and column has its label


def hidden_cells(M: np.ndarray, mask: Any) -> np.ndarray:
    """Return True for each cell that may not be read: where M is minus infinity, or the mask is False."""
    hidden = np.isneginf(M)
    if mask is None:
        return hidden
    mask = to_numpy("mask", mask, "N_q N_k")
    if mask.dtype != bool:
        raise TypeError(f"mask holds {mask.dtype}, but must be boolean, True for what may be read.")
    try:
        return hidden | ~np.broadcast_to(mask, M.shape)
    except ValueError:
        raise ValueError(f"mask has shape {list(mask.shape)}, but M has shape {list(M.shape)}.") from None


def color_limits(M: np.ndarray, tensor: str | None) -> tuple[float, float]:
    """Return the ends of the colour scale: 0 to 1 for weights, symmetric for signed values, else 0 to the largest."""
    if tensor == "A":
        return 0.0, 1.0
    finite = M[np.isfinite(M)]
    largest = float(np.abs(finite).max(initial=0.0)) or 1.0
    return (-largest, largest) if (finite < 0).any() else (0.0, largest)


def draw_cells(
    ax: Axes,
    M: np.ndarray,
    hidden: np.ndarray,
    *,
    tensor: str | None,
    vmin: float | None = None,
    vmax: float | None = None,
    aspect: str = "equal",
) -> AxesImage:
    """Draw the cells of a matrix in the tensor's colours and frame them."""
    low, high = color_limits(M[~hidden], tensor)
    low, high = low if vmin is None else vmin, high if vmax is None else vmax
    image = ax.imshow(
        np.ma.masked_where(hidden | ~np.isfinite(M), M),
        cmap=colormap(tensor, signed=low < 0 < high),
        norm=Normalize(low, high),
        origin="upper",
        interpolation="nearest",
        aspect=aspect,
    )
    _hatch_cells(ax, hidden)
    if max(M.shape) <= SOME:
        ax.hlines(np.arange(1, M.shape[0]) - 0.5, -0.5, M.shape[1] - 0.5, color="white", lw=1)
        ax.vlines(np.arange(1, M.shape[1]) - 0.5, -0.5, M.shape[0] - 0.5, color="white", lw=1)
    ax.set(xlim=(-0.5, M.shape[1] - 0.5), ylim=(M.shape[0] - 0.5, -0.5))
    for spine in ax.spines.values():
        spine.set(visible=True, linewidth=1, color=INK)
    return image


def _hatch_cells(ax: Axes, hidden: np.ndarray) -> None:
    """Hatch the cells of a boolean matrix in grey: not to be read."""
    if hidden.any():
        corners = np.array([(-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5), (-0.5, -0.5)])
        cells = [Path(corners + np.array([j, i]), closed=True) for i, j in np.argwhere(hidden)]
        hatched = PathPatch(Path.make_compound_path(*cells), fc=MASKED_FACE, ec=MASKED_LINES, hatch=MASKED_HATCH, lw=0)
        ax.add_patch(hatched)


def outline_cell(ax: Axes, i: int, j: int) -> None:
    """Frame the cell in row i and column j."""
    ax.plot(
        [j - 0.5, j + 0.5, j + 0.5, j - 0.5, j - 0.5], [i - 0.5, i - 0.5, i + 0.5, i + 0.5, i - 0.5], color=INK, lw=2.5
    )


def write_numbers(ax: Axes, image: AxesImage, M: np.ndarray, hidden: np.ndarray, digits: int) -> None:
    """Write each value into its cell, in black or white, whichever reads better there."""
    texts = {(i, j): number_text(M[i, j], digits) for i, j in np.argwhere(~hidden)}
    size = _font_size(ax, M.shape, max(map(len, texts.values()), default=1))
    for (i, j), text in texts.items():
        ax.text(j, i, text, ha="center", va="center", fontsize=size, color=_text_color(image, M[i, j]))


def mark_negative(ax: Axes, image: AxesImage, M: np.ndarray, hidden: np.ndarray) -> None:
    """Write a minus into each negative cell, where numbers do not fit: the colour alone shall not tell the sign."""
    size = _font_size(ax, M.shape, 2)
    for i, j in np.argwhere((M < 0) & ~hidden):
        ax.text(j, i, "\u2212", ha="center", va="center", fontsize=size, color=_text_color(image, M[i, j]))


def number_text(value: float, digits: int = 2) -> str:
    """Return a number as figures show it: a real minus, and no minus before a zero."""
    text = f"{value:.{digits}f}"
    if float(text) == 0:
        text = text.lstrip("-")
    return text.replace("-", "\u2212").replace("inf", "∞")


def _text_color(image: AxesImage, value: float) -> str:
    return text_on(image.cmap(image.norm(value))[:3] if np.isfinite(value) else BACKGROUND)


def _font_size(ax: Axes, shape: tuple[int, int], characters: int) -> float:
    """Return the font size at which so many characters fit into a cell."""
    width, height = ax.figure.get_size_inches() * ax.get_position().size * 72
    cell = min(width / shape[1], height / shape[0] * 2)
    return max(5.0, min(12.0, cell / (0.72 * characters)))


def label_rows(ax: Axes, rows: Sequence[str] | None, name: str) -> None:
    """Write a label at each row (or number them) and the name of the axis."""
    _label(ax.yaxis, rows, count=round(ax.get_ylim()[0] + 0.5))
    ax.set_ylabel(name)


def label_columns(ax: Axes, columns: Sequence[str] | None, name: str, *, most: int = SOME) -> None:
    """Write a label at each column, or number at most so many, and the name of the axis.

    Where one is long, all stand upright: Latin words are turned, Chinese ones run downwards.
    """
    stand = columns is not None and max(map(letters, columns)) > 2
    show = downwards if stand else legible
    _label(ax.xaxis, columns, count=round(ax.get_xlim()[1] + 0.5), most=most, show=show)
    if stand:
        ax.tick_params(axis="x", rotation=90)
        for label, column in zip(ax.get_xticklabels(), columns, strict=True):
            label.set_rotation(0 if is_wide(legible(column)) else 90)
    ax.set_xlabel(name)


def _label(
    axis: Axis,
    labels: Sequence[str] | None,
    count: int,
    most: int = SOME,
    show: Callable[[str], str] = legible,
) -> None:
    if labels is not None:
        axis.set_ticks(range(count), [show(label) for label in labels], **token_text())
        axis.set_tick_params(length=0)
    else:
        places = np.arange(count)
        if count > most:
            places = np.array(MaxNLocator(min(most, 8), integer=True).tick_values(0, count - 1), dtype=int)
            places = places[(places >= 0) & (places < count)]
        axis.set_ticks(places, [str(place) for place in places])
