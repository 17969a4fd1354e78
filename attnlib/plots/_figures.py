"""What every figure asks of its input and how it starts: arrays of the right shape, an axes to draw in."""

from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import PlaceHolderLayoutEngine

WIDEST = 6.2  # inches: at 12 points, text is still readable when the figure is shrunk to a phone


def to_numpy(name: str, x: Any, axes: str) -> np.ndarray:
    """Return the array or tensor as NumPy; raise unless it has exactly the named axes, e.g. "N_q N_k"."""
    x = np.asarray(x.detach().cpu() if hasattr(x, "detach") else x)
    wanted = axes.split()
    if x.ndim != len(wanted):
        hint = f" Choose one sentence (and one head): {name}[0]." if x.ndim > len(wanted) else ""
        raise ValueError(f"{name} has shape {list(x.shape)}, but needs the axes [{', '.join(wanted)}].{hint}")
    if not x.size:
        raise ValueError(f"{name} has shape {list(x.shape)}: there is nothing to draw.")
    return x


def check_length(name: str, given: Any, size: int, of: str) -> list:
    """Return `given` as a list; raise unless there is one for each of the `size` rows (columns, …) of something."""
    if isinstance(given, str):
        raise TypeError(f"{name} is the text {given!r}, but must be a list with one entry for each of the {size} {of}.")
    given = list(given)
    if len(given) != size:
        raise ValueError(f"{name} has {len(given)} entries, but there are {size} {of}.")
    return given


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure whose parts find their places by themselves."""
    return plt.figure(figsize=(min(width, WIDEST), height), layout="constrained")


def new_axes(width: float, height: float) -> Axes:
    """Return the only axes of a new figure."""
    return new_figure(width, height).add_subplot()


def free_figure(width: float, height: float) -> Figure:
    """Return an empty figure whose parts are placed by hand."""
    # An engine that does nothing: without any, saving the figure twice would bring the default one back.
    return plt.figure(figsize=(width, height), layout=PlaceHolderLayoutEngine(True, False))


def canvas(width: float, height: float) -> Axes:
    """Return axes without ticks that fill a new figure; one unit is one inch."""
    ax = free_figure(width, height).add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, width), ylim=(0, height))
    ax.set_axis_off()
    return ax


def label_point(ax: Axes, point: np.ndarray, away_from: np.ndarray, text: str, **options: Any) -> None:
    """Write a label beside a point, on the side that looks away from another point."""
    x, y = np.subtract(point, away_from) / (np.hypot(*np.subtract(point, away_from)) or 1.0)
    side = "left" if x > 0.4 else "right" if x < -0.4 else "center"
    height = "bottom" if y > 0.4 else "top" if y < -0.4 else "center"
    ax.annotate(text, point, (10 * x, 10 * y), textcoords="offset points", ha=side, va=height, **options)
