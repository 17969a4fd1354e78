"""In a notebook: heat maps become PNG, line art becomes SVG too, and nothing in either depends on the day."""

import io
import re
import sys

import matplotlib
from matplotlib import pyplot as plt
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

LARGEST_PNG = 180_000  # bytes; beyond, a figure is drawn with half the pixels
MEASURED = "measured"  # the gid of a figure that shows what this run measured, such as times


def has_image(fig: Figure) -> bool:
    """Say whether the figure holds a heat map, which would be a huge SVG."""
    return bool(fig.findobj(lambda artist: isinstance(artist, AxesImage | QuadMesh)))


def only_png(fig: Figure) -> bool:
    """Say whether the figure has no SVG: a heat map, or measured times, whose SVG no second run would repeat."""
    return fig.get_gid() == MEASURED or has_image(fig)


def to_png(fig: Figure, *, dpi: float) -> bytes:
    """Return the figure as an opaque PNG without the name and version of the program that drew it."""
    data = io.BytesIO()
    _print(fig, data, format="png", dpi=dpi, metadata={"Software": None})
    return data.getvalue()


def to_svg(fig: Figure) -> str:
    """Return the figure as SVG without a date; text is drawn as paths, so no font is needed to read it.

    Coordinates are rounded to a hundredth of a point: another machine's last digits do not show, and files are smaller.
    """
    data = io.BytesIO()
    _print(fig, data, format="svg", metadata={"Date": None, "Creator": None})
    return _COORDINATES.sub(_rounded, data.getvalue().decode("utf-8"))


_COORDINATES = re.compile(r' (?:d|x|y|width|height|viewBox)="[^"]*"|translate\([^)]*\)')
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")


def _rounded(coordinates: re.Match) -> str:
    return _LONG_NUMBER.sub(lambda number: f"{float(number[0]):.2f}", coordinates[0])


def _print(fig: Figure, target: io.BytesIO, **options) -> None:
    fig.canvas.print_figure(
        target, bbox_inches="tight", pad_inches=0.08, facecolor=fig.get_facecolor(), edgecolor="none", **options
    )


def show_png(fig: Figure) -> tuple[bytes, dict] | None:
    """Return the figure as PNG and its width on the page.

    A figure without SVG has two pixels for each CSS pixel. Other line art has one: its PNG stands in where SVG is not
    shown, as in a notebook that JupyterLab does not trust yet.
    """
    if not fig.axes:
        return None
    for density in (2, 1) if only_png(fig) else (1,):
        png = to_png(fig, dpi=density * fig.dpi)
        if len(png) <= LARGEST_PNG:
            break
    # The width alone: a fixed height would squash the picture on a narrow page.
    return png, {"width": int.from_bytes(png[16:20]) // density}


def show_svg(fig: Figure) -> str | None:
    """Return line art as SVG; None for a heat map, for measured times, or for a figure that holds nothing."""
    return to_svg(fig) if fig.axes and not only_png(fig) else None


def choose_formats() -> None:
    """Let IPython show each figure in the format that suits it; outside of IPython do nothing."""
    if "IPython" not in sys.modules:
        return
    from IPython import get_ipython

    shell = get_ipython()
    backend = matplotlib.get_backend()
    if shell is None or "inline" not in backend:
        return
    plt.switch_backend(backend)  # the inline backend sets its own formats when it is first loaded
    formatters = shell.display_formatter.formatters
    for formatter in formatters.values():
        formatter.pop(Figure, None)
    formatters["image/png"].for_type(Figure, show_png)
    formatters["image/svg+xml"].for_type(Figure, show_svg)
