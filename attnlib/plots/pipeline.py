"""The pipeline as a picture: the strip that opens each chapter, and the large one of the landing page."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from attnlib.plots._figures import canvas
from attnlib.plots.style import FAINT, INK, MASKED_FACE, MASKED_HATCH, MASKED_LINES, tensor_style, tinted

# ---------------------------------------------------------------------------------------------------------------------
# The strip
# ---------------------------------------------------------------------------------------------------------------------

_SMALL = 0.33  # height of the boxes of Q, K, V
_BOXES = {  # stage: (left, bottom, width, height) in inches
    "X": (0.06, 0.44, 0.44, 0.44),
    "Q": (0.76, 0.86, 0.44, _SMALL),
    "K": (0.76, 0.47, 0.44, _SMALL),
    "V": (0.76, 0.08, 0.44, _SMALL),
    "S": (1.46, 0.62, 0.44, 0.4),
    "mask": (2.12, 0.62, 0.56, 0.4),
    "A": (2.90, 0.62, 0.44, 0.4),
    "H": (3.60, 0.40, 0.78, 0.4),
    "concat": (4.60, 0.40, 0.72, 0.4),
    "output": (5.54, 0.40, 0.72, 0.4),
}
_COLUMNS = sorted({left for left, *_ in _BOXES.values()})
_TEXTS = {"H": "$H{=}AV$", "mask": "mask", "concat": "concat", "output": "output"}
_NAMES = {
    "X": "token vectors",
    "Q": "queries",
    "K": "keys",
    "V": "values",
    "S": "scores",
    "mask": "mask",
    "A": "weights",
    "H": "head outputs",
    "concat": "heads joined",
    "output": "output",
}


def pipeline_strip(*here: str) -> Figure:
    """Draw the pipeline as a slim strip with "you are here" above the lit stages.

    Parameters
    ----------
    *here : str
        One or more of X, QKV (or Q, K, V one by one), S, mask, A, H, concat, output.

    Returns
    -------
    Figure

    Examples
    --------
    >>> fig = pipeline_strip("S", "A", "H")
    """
    lit = _stages(here)
    ax = canvas(6.32, 1.75)
    _strip_arrows(ax)
    for stage, box in _BOXES.items():
        _strip_box(ax, stage, box, lit=stage in lit)
    _you_are_here(ax, lit)
    return ax.figure


def _stages(here: tuple[str, ...]) -> list[str]:
    """Return the stages to light, in the order of the pipeline."""
    known = ", ".join(["X", "QKV", *list(_BOXES)[1:]])
    if not here:
        raise ValueError(f"Name at least one stage to light: {known}.")
    wanted = set()
    for stage in here:
        if stage not in ("QKV", *_BOXES):
            raise ValueError(f"{stage!r} is no stage of the pipeline: choose from {known}.")
        wanted |= set("QKV") if stage == "QKV" else {stage}
    return [stage for stage in _BOXES if stage in wanted]


def _strip_box(ax: Axes, stage: str, box: tuple[float, float, float, float], *, lit: bool) -> None:
    left, bottom, width, height = box
    style = tensor_style(None if stage == "mask" else stage)
    face = MASKED_FACE if stage == "mask" else style.color
    if not lit:
        ax.add_patch(Rectangle((left, bottom), width, height, fc=tinted(face, 0.12), ec="#9a9a9a", lw=1))
    else:
        ax.add_patch(Rectangle((left, bottom), width, height, fc=face, lw=0))
        hatch_band(ax, left, bottom, width, stage)
        ax.add_patch(Rectangle((left, bottom), width, height, fc="none", ec=INK, lw=2.2))
    ax.text(
        left + width / 2,
        bottom + height / 2 + (0.05 if lit else 0),
        _TEXTS.get(stage, style.symbol),
        ha="center",
        va="center",
        fontsize=13 if stage not in ("mask", "concat", "output") else 11.5,
        color=FAINT if not lit else INK if stage == "mask" else style.on_color,
        weight="bold" if lit else "normal",
    )


def hatch_band(ax: Axes, left: float, bottom: float, width: float, stage: str, *, height: float = 0.09) -> None:
    """Draw a stage's hatch as a band along the bottom of its box."""
    style = tensor_style(None if stage == "mask" else stage)
    face, lines, hatch = style.color, style.on_color, style.dense_hatch
    if stage == "mask":
        face, lines, hatch = MASKED_FACE, MASKED_LINES, MASKED_HATCH
    if style.hatch in (".", "*"):  # as markers: hatches of curves make a large SVG
        count = round(width / 0.085)
        xs = [left + width * (i + 0.5) / count for i in range(count)]
        ax.plot(xs, [bottom + 0.06] * count, style.hatch, color=lines, ms=6.5 if style.hatch == "*" else 3.5, mew=0)
    else:
        ax.add_patch(Rectangle((left, bottom), width, height, fc=face, ec=lines, hatch=hatch, lw=0))


def _strip_arrows(ax: Axes) -> None:
    edges = {name: (x, x + w, y + h / 2) for name, (x, y, w, h) in _BOXES.items()}
    for start, end in [
        ("X", "Q"),
        ("X", "K"),
        ("X", "V"),
        ("Q", "S"),
        ("K", "S"),
        ("S", "mask"),
        ("mask", "A"),
        ("A", "H"),
        ("V", "H"),
        ("H", "concat"),
        ("concat", "output"),
    ]:
        (_, tail, y0), (tip, _, y1) = edges[start], edges[end]
        if end == "S":
            y1 += 0.1 if start == "Q" else -0.1
        if end == "H":
            y1 += 0.1 if start == "A" else -0.1
        elbow = tip - 0.3 if start == "V" else tail
        if start == "V":
            ax.plot([tail + 0.02, elbow], [y0, y0], color=FAINT, lw=1.2)
        arrow(ax, (elbow + (0 if start == "V" else 0.02), y0), (tip - 0.02, y1))


def arrow(
    ax: Axes, start: tuple[float, float], end: tuple[float, float], *, color: str = FAINT, lw: float = 1.2
) -> None:
    """Draw an arrow between two points."""
    ax.annotate(
        "",
        xy=end,
        xytext=start,
        arrowprops={"arrowstyle": "-|>", "color": color, "lw": lw, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 9},
    )


def _you_are_here(ax: Axes, lit: list[str]) -> None:
    """Draw a bracket above each run of lit stages, and their names above."""
    y = 1.3
    runs = _runs(lit)
    for left, right in runs:
        ax.plot([left, left, right, right], [y - 0.05, y, y, y - 0.05], color=INK, lw=1.6)
        ax.plot([(left + right) / 2], [y + 0.05], marker="v", color=INK, ms=8)
    middle = (runs[0][0] + runs[-1][1]) / 2
    names = "every tensor" if len(lit) == len(_BOXES) else ", ".join(_NAMES[stage] for stage in lit)
    text = ax.text(middle, y + 0.14, f"you are here: {names}", ha="center", va="bottom", weight="bold")
    half = text.get_window_extent(ax.figure.canvas.get_renderer()).width / ax.figure.dpi / 2
    text.set_x(min(max(middle, half + 0.04), ax.get_xlim()[1] - half - 0.04))


def _runs(lit: list[str]) -> list[tuple[float, float]]:
    """Return the left and right ends of runs of neighbouring stages. The mask, which is optional, breaks no run."""
    runs, column = [], None
    for stage in lit:
        left, _, width, _ = _BOXES[stage]
        before, column = column, _COLUMNS.index(left)
        step = 0 if before is None else column - before
        if runs and (step <= 1 or (step == 2 and stage == "A")):
            runs[-1] = (runs[-1][0], left + width)
        else:
            runs.append((left, left + width))
    return runs


# ---------------------------------------------------------------------------------------------------------------------
# The picture of the landing page
# ---------------------------------------------------------------------------------------------------------------------

_WIDTH, _BOX, _GAP = 5.4, 0.62, 0.42  # inches
_LEFT, _RIGHT = 0.08, 4.56  # of the boxes; right of them stand the chapters
_TAG = 0.86  # width of the coloured part of a box
_THIRD = (_RIGHT - _LEFT - 0.2) / 3  # width of the boxes of Q, K, V
_LANE = _RIGHT - 0.32  # where V runs down to H, past scores and weights
_ROWS = [  # tensors of a row, chapter, and what leads to it
    (("X",), "1", ""),
    (("Q", "K", "V"), "2", ""),
    (("S",), "3, 4", r"compare: $Q K^{\mathsf{T}} / \sqrt{d_h}$"),
    (("S_masked",), "5", "hide what may not be read"),
    (("A",), "3", "softmax over the keys"),
    (("H",), "3", "mix the values: $A V$"),
    (("concat",), "6", "join the heads"),
    (("output",), "6", "project: $W^O$"),
]
_AXES = {
    "X": r"B, N, d_\mathrm{model}",
    "Q": "B, h, N, d_h",
    "K": "B, h, N, d_h",
    "V": "B, h, N, d_h",
    "S": "B, h, N, N",
    "S_masked": "B, h, N, N",
    "A": "B, h, N, N",
    "H": "B, h, N, d_h",
    "concat": r"B, N, h{\cdot}d_h",
    "output": r"B, N, d_\mathrm{model}",
}


def pipeline_picture(shapes: Mapping[str, tuple[int, ...]]) -> Figure:
    """Draw the whole pipeline from top to bottom, each box with symbol, name, shape and chapter.

    Parameters
    ----------
    shapes : mapping of str to tuple of int
        The shape of each tensor, as `attnlib.shape_table` or the method ``shapes()`` of a trace gives it.

    Returns
    -------
    Figure

    Raises
    ------
    ValueError
        A tensor has no shape in `shapes`.

    Examples
    --------
    >>> from attnlib import shape_table
    >>> fig = pipeline_picture(shape_table(B=2, N=7, d_model=12, h=3))
    """
    missing = [name for name in _AXES if name not in shapes]
    if missing:
        raise ValueError(f"shapes has no entry for {', '.join(missing)}: give what attnlib.shape_table returns.")
    height = len(_ROWS) * (_BOX + _GAP) - _GAP + 0.22 + 0.42
    ax = canvas(_WIDTH, height)
    _note(ax, height - 0.19, "chapter", color=FAINT)
    top, tops = height - 0.34, {}
    for tensors, chapter, operation in _ROWS:
        box = _BOX + 0.22 if len(tensors) > 1 else _BOX
        _picture_row(ax, tensors, top, box, shapes)
        _note(ax, top - box / 2, chapter, fontsize=14, weight="bold")
        ax.text(_LEFT + _TAG / 2 + 0.2, top + _GAP / 2, operation, va="center")
        tops[tensors[0]] = top
        top -= box + _GAP
    _picture_arrows(ax, tops)
    return ax.figure


def _note(ax: Axes, y: float, text: str, **options) -> None:
    """Write into the column of chapters."""
    ax.text((_RIGHT + _WIDTH) / 2, y, text, ha="center", va="center", **options)


def _picture_row(ax: Axes, tensors: tuple[str, ...], top: float, height: float, shapes: Mapping) -> None:
    """Draw one box, or three side by side."""
    for place, tensor in enumerate(tensors):
        axes, numbers = f"$[{_AXES[tensor]}]$", f"[{', '.join(map(str, shapes[tensor]))}]"
        name = tensor_style(tensor).name
        if len(tensors) > 1:
            left = _LEFT + place * (_THIRD + 0.1)
            _picture_box(ax, tensor, (left, top - height, _THIRD, height), 0.36, [name, axes, numbers])
        else:
            width = (_LANE - 0.2 if tensor in ("S", "S_masked", "A") else _RIGHT) - _LEFT
            _picture_box(ax, tensor, (_LEFT, top - height, width, height), _TAG, [name, f"{axes} = {numbers}"])


def _picture_box(ax: Axes, tensor: str, box: tuple[float, float, float, float], tag: float, lines: list[str]) -> None:
    """Draw a box: symbol and hatch in its coloured tag, then the name in bold and the shape."""
    left, bottom, width, height = box
    style = tensor_style(tensor)
    ax.add_patch(Rectangle((left, bottom), width, height, fc=tinted(style.color, 0.1), ec=INK, lw=1.2))
    ax.add_patch(Rectangle((left, bottom), tag, height, fc=style.color, lw=0))
    hatch_band(ax, left, bottom, tag, tensor, height=0.13)
    ax.add_patch(Rectangle((left, bottom), tag, height, fc="none", ec=INK, lw=1.2))
    size = 13 if tensor == "concat" else 17
    ax.text(
        left + tag / 2,
        bottom + height / 2 + 0.06,
        style.symbol,
        ha="center",
        va="center",
        fontsize=size,
        color=style.on_color,
    )
    for line, text in enumerate(lines):
        y = bottom + height / 2 + 0.25 * ((len(lines) - 1) / 2 - line)
        ax.text(left + tag + 0.07, y, text, va="center", weight="normal" if line else "bold", fontsize=12)


def _picture_arrows(ax: Axes, tops: Mapping[str, float]) -> None:
    """Draw how the boxes feed each other; `tops` holds the upper edge of each row."""
    middle = _LEFT + _TAG / 2
    thirds = [_LEFT + _TAG / 2, *(_LEFT + _THIRD / 2 + place * (_THIRD + 0.1) for place in (1, 2))]
    for first, top in tops.items():
        if first not in ("X", "Q"):
            arrow(ax, (middle, top + _GAP - 0.02), (middle, top + 0.02), lw=1.6)
    for x, matrix in zip(thirds, "QKV", strict=True):
        arrow(ax, (x, tops["Q"] + _GAP - 0.02), (x, tops["Q"] + 0.02), lw=1.6)
        ax.text(x + 0.12, tops["Q"] + _GAP / 2, rf"$\times\ W^{matrix}$", va="center")
    keys = thirds[1] + 0.3
    arrow(ax, (keys, tops["S"] + _GAP - 0.02), (keys, tops["S"] + 0.02), lw=1.6)
    arrow(ax, (_LANE, tops["S"] + _GAP - 0.02), (_LANE, tops["H"] + 0.02), lw=1.6)
