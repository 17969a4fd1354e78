"""The one visual code of the book: each tensor has a colour, a letter and a hatch, the same in every figure."""

from dataclasses import dataclass

import matplotlib
from matplotlib.colors import LinearSegmentedColormap, to_hex, to_rgb

from attnlib.plots.fonts import font_families
from attnlib.plots.notebook import choose_formats

BACKGROUND = "#ffffff"
INK = "#222222"  # text, axes
FAINT = "#595959"  # what stands back: still readable on the background
NEGATIVE = "#404040"  # the far end of negative values
MASKED_FACE, MASKED_LINES, MASKED_HATCH = "#ececec", "#7a7a7a", "////"


@dataclass(frozen=True)
class TensorStyle:
    """How one tensor looks in every figure.

    Attributes
    ----------
    color : str
        Fill of boxes and bars, from the palette of Okabe and Ito.
    letter : str
        What stands in the box: plain text, also for HTML.
    symbol : str
        The same for Matplotlib's math.
    hatch : str
        Matplotlib's hatch, so that no box is known by its colour alone.
    name : str
        The tensor in words.
    """

    color: str
    letter: str
    symbol: str
    hatch: str
    name: str

    @property
    def dense_hatch(self) -> str:
        """The hatch, dense enough for a narrow bar (dots and stars cost space in an SVG: fewer of them)."""
        return self.hatch * (2 if self.hatch in ".*" else 3)

    @property
    def ink(self) -> str:
        """The colour, darkened where needed, for lines and text on the background (contrast at least 4.5)."""
        return darkened(self.color)

    @property
    def on_color(self) -> str:
        """Black or white: what reads best on the fill."""
        return text_on(self.color)


def luminance(color) -> float:
    """Return the relative luminance of a colour, from 0 (black) to 1 (white), as WCAG defines it."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(color, other) -> float:
    """Return the contrast ratio of two colours, from 1 to 21; text wants at least 4.5."""
    dark, light = sorted((luminance(color), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def text_on(color) -> str:
    """Return black or white, whichever reads better on the colour."""
    return max(("#000000", "#ffffff"), key=lambda text: contrast(text, color))


def darkened(color) -> str:
    """Return the colour, made darker until text in it reads on the background."""
    rgb = to_rgb(color)
    for step in range(100):
        shade = tuple(c * (1 - step / 100) for c in rgb)
        if contrast(shade, BACKGROUND) >= 5:
            break
    return to_hex(shade)


def tinted(color, share: float) -> tuple[float, float, float]:
    """Return the background with a share (0 to 1) of the colour in it."""
    return tuple(share * c + (1 - share) * w for c, w in zip(to_rgb(color), to_rgb(BACKGROUND), strict=True))


# Hatches tell the story too: S crosses the strokes of Q and K; H crosses those of A and V.
TENSORS = {
    "X": TensorStyle("#000000", "X", "$X$", ".", "token vectors"),
    "Q": TensorStyle("#0072b2", "Q", "$Q$", "/", "queries"),
    "K": TensorStyle("#e69f00", "K", "$K$", "\\", "keys"),
    "V": TensorStyle("#009e73", "V", "$V$", "|", "values"),
    "S": TensorStyle("#cc79a7", "S", "$S$", "x", "scores"),
    "A": TensorStyle("#d55e00", "A", "$A$", "-", "weights"),
    "H": TensorStyle("#56b4e9", "H", "$H$", "+", "head outputs"),
    "output": TensorStyle("#f0e442", "X\u0303", r"$\tilde{X}$", "*", "output"),
}
NEUTRAL = TensorStyle("#5f5f5f", "", "", "", "")
_SAME_LOOK = {"S_masked": "S", "concat": "H", "E": "X", "X_tok": "X", "X_pos": "X"}
_WORDS = {
    "S_masked": ("S\u0303", r"$\tilde{S}$", "masked scores"),
    "concat": ("concat", "concat", "heads joined"),
    "E": ("E", "$E$", "embedding table"),
    "X_tok": ("X_tok", r"$X_\mathrm{tok}$", "token embeddings"),
    "X_pos": ("X_pos", r"$X_\mathrm{pos}$", "position vectors"),
}


def tensor_style(tensor: str | None) -> TensorStyle:
    """Return the look of a tensor by its name; None gives a neutral grey for what is no stage of the pipeline.

    S_masked looks like S, concat like H, and E, X_tok, X_pos like X; each keeps its own letter and name.
    """
    if tensor is None:
        return NEUTRAL
    base = _SAME_LOOK.get(tensor, tensor)
    if base not in TENSORS:
        known = ", ".join([*TENSORS, *_SAME_LOOK])
        raise ValueError(f"tensor is {tensor!r}, but must be one of {known}, or None.")
    style = TENSORS[base]
    letter, symbol, name = _WORDS.get(tensor, (style.letter, style.symbol, style.name))
    return TensorStyle(style.color, letter, symbol, style.hatch, name)


def colormap(tensor: str | None, *, signed: bool = False) -> LinearSegmentedColormap:
    """Return the colour map of a tensor.

    Parameters
    ----------
    tensor : str or None
        A name in the pipeline, as in `tensor_style`.
    signed : bool
        False: from near white to the tensor's colour, for values from 0 up. True: near white stands in the
        middle for 0, and negative values go to dark grey (for X, which is black itself, to bronze).
    """
    style = tensor_style(tensor)
    up = [(0.0, tinted(style.color, 0.03)), (0.8, style.color), (1.0, style.ink)]
    if style.ink == style.color:
        del up[1]
    if not signed:
        return LinearSegmentedColormap.from_list(f"{tensor}", up)
    end = "#8a5a00" if tensor_style("X").color == style.color else NEGATIVE
    return LinearSegmentedColormap.from_list(
        f"{tensor} signed", [(0.0, end), *((0.5 + place / 2, color) for place, color in up)]
    )


def use_style() -> None:
    """Set the look of all figures; the first code cell of each chapter calls it.

    Text is large enough for a phone, the background is opaque (so that figures stay readable in dark mode), and
    the same figure gives the same SVG, to the byte. In a notebook it also chooses the format of each figure:
    heat maps become PNG, line art becomes SVG.
    """
    matplotlib.rcParams.update(
        {
            "font.family": font_families(),
            "mathtext.fontset": "dejavusans",
            "font.size": 12,
            "axes.titlesize": 12,
            "axes.labelsize": 12,
            "xtick.labelsize": 11,
            "ytick.labelsize": 11,
            "legend.fontsize": 11,
            "legend.frameon": False,
            "text.color": INK,
            "axes.labelcolor": INK,
            "axes.edgecolor": INK,
            "xtick.color": INK,
            "ytick.color": INK,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titlelocation": "left",
            "lines.linewidth": 2,
            "hatch.linewidth": 0.8,
            "figure.figsize": (5.5, 3.6),
            "figure.dpi": 96,
            "figure.facecolor": BACKGROUND,
            "axes.facecolor": BACKGROUND,
            "savefig.facecolor": BACKGROUND,
            "savefig.transparent": False,
            "figure.constrained_layout.use": True,
            "image.interpolation": "nearest",
            "image.origin": "upper",
            "svg.fonttype": "path",
            "svg.hashsalt": "attnlib",
        }
    )
    choose_formats()
