"""Matrices as heat maps: one, several in a row, or one for each head. x = keys, y = queries, the first row on top."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnlib.plots._cells import (
    FEW,
    SOME,
    color_limits,
    draw_cells,
    hidden_cells,
    label_columns,
    label_rows,
    mark_negative,
    write_numbers,
)
from attnlib.plots._figures import WIDEST, check_length, new_axes, new_figure, to_numpy
from attnlib.plots.fonts import letters
from attnlib.plots.style import tensor_style

QUERIES, KEYS = "queries i (rows)", "keys j (columns)"
TOKENS, COMPONENTS = "tokens i (rows)", "components (columns)"


def show_matrix(
    M: Any,
    *,
    tensor: str | None,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    row_name: str = QUERIES,
    column_name: str = KEYS,
    mask: Any = None,
    numbers: bool | None = None,
    digits: int = 2,
    vmin: float | None = None,
    vmax: float | None = None,
    bar: bool = False,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a matrix as a heat map with a row for each query and a column for each key.

    Parameters
    ----------
    M : array, shape (N_q, N_k)
        Scores, weights, or any other matrix of numbers; minus infinity is drawn as masked.
    tensor : str or None
        Which tensor it is ("S", "A", …): gives the colours and the title. None: grey.
    rows, columns : sequence of str, optional
        A label for each row and each column. A square matrix takes the rows' labels for its columns. What has
        no labels is numbered from 0.
    row_name, column_name : str
        The names of the axes.
    mask : boolean array, shape (N_q, N_k), optional
        True where a key may be read; the other cells are hatched.
    numbers : bool, optional
        Write each value into its cell. By default only if there are at most 8 rows and 8 columns; else, up to
        16, negative cells are marked by a minus.
    digits : int
        Digits behind the point.
    vmin, vmax : float, optional
        Ends of the colour scale. By default 0 to 1 for A; else symmetric about 0 if a value is negative,
        and from 0 up if none is.
    bar : bool
        Draw the colour scale beside the matrix.
    title : str, optional
        Text above the matrix; by default the tensor's symbol and name. "" leaves it out.
    ax : Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    Axes

    Raises
    ------
    TypeError, ValueError
        M is no matrix, labels do not fit its rows or columns, or the mask is not boolean or does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> ax = show_matrix(np.eye(2), tensor="A", rows=["river", "bank"])
    >>> ax.get_ylabel(), ax.get_xlabel()
    ('queries i (rows)', 'keys j (columns)')
    """
    M = to_numpy("M", M, "N_q N_k").astype(float)
    if columns is None and M.shape[0] == M.shape[1]:
        columns = rows
    if rows is not None:
        rows = check_length("rows", rows, M.shape[0], "rows of M")
    if columns is not None:
        columns = check_length("columns", columns, M.shape[1], "columns of M")
    hidden = hidden_cells(M, mask)
    if ax is None:
        ax = new_axes(*_size(M.shape, rows, columns, bar))
    image = draw_cells(ax, M, hidden, tensor=tensor, vmin=vmin, vmax=vmax)
    if numbers if numbers is not None else max(M.shape) <= FEW:
        write_numbers(ax, image, M, hidden, digits)
    elif max(M.shape) <= SOME:
        mark_negative(ax, image, M, hidden)
    label_rows(ax, rows, row_name)
    label_columns(ax, columns, column_name)
    ax.set_title(_title(tensor) if title is None else title, loc="left")
    if bar:
        ax.figure.colorbar(image, ax=ax, shrink=0.8, pad=0.02)
    return ax


def show_vectors(
    M: Any,
    *,
    tensor: str | None,
    rows: Sequence[str] | None = None,
    row_name: str = TOKENS,
    column_name: str = COMPONENTS,
    **options: Any,
) -> Axes:
    """Draw token vectors (X, Q, K, V, H) as a heat map: a row for each token, a column for each component.

    Parameters
    ----------
    M : array, shape (N, d)
        The vectors as rows.
    tensor, rows, row_name, column_name, **options
        As in `show_matrix`. Components are numbered from 0.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np
    >>> ax = show_vectors(np.ones((2, 3)), tensor="X", rows=["river", "bank"])
    >>> [label.get_text() for label in ax.get_xticklabels()]
    ['0', '1', '2']
    """
    M = to_numpy("M", M, "N d")
    step = 1 + M.shape[1] // (SOME + 1)  # where components are many, only some have their number
    options.setdefault("columns", ["" if j % step else str(j) for j in range(M.shape[1])])
    return show_matrix(M, tensor=tensor, rows=rows, row_name=row_name, column_name=column_name, **options)


def _title(tensor: str | None) -> str:
    style = tensor_style(tensor)
    return f"{style.symbol}: {style.name}" if tensor else ""


def _size(shape: tuple[int, int], rows: list | None, columns: list | None, bar: bool) -> tuple[float, float]:
    """Return width and height in inches, so that cells are square and numbers fit into few cells."""
    left = 0.55 + 0.11 * _longest(rows)
    cell = min(0.62, (WIDEST - 0.7 - left) / shape[1], 6.0 / shape[0])
    bottom = 0.55 + 0.11 * _longest(columns)
    return left + cell * shape[1] + 0.1 + 0.8 * bar, bottom + cell * shape[0] + 0.4


def _longest(labels: list | None) -> int:
    return max(map(letters, labels)) if labels else 3


_FORMULAS = {
    "Q": r"$Q = X W^Q$",
    "K": r"$K = X W^K$",
    "V": r"$V = X W^V$",
    "S": r"$S = QK^{\mathsf{T}}/\sqrt{d_h}$",
    "S_masked": r"$\tilde{S}$: masked",
    "A": r"$A = \mathrm{softmax}(S)$",
    "H": r"$H = AV$",
    "output": r"$\tilde{X} = \mathrm{concat}\ W^O$",
}


def matrix_row(
    matrices: Mapping[str, Any],
    *,
    rows: Sequence[str],
    columns: Sequence[str] | None = None,
    mask: Any = None,
) -> Figure:
    """Draw matrices that share their token rows side by side, each under the formula that makes it.

    Parameters
    ----------
    matrices : mapping of str to array, shape (N_q, …)
        By tensor name, in the order to draw: ``{"S": S, "A": A, "H": H}``. Up to 12 columns in all, values are
        written into the cells.
    rows : sequence of str
        One label for each of the N_q rows, written once, on the left.
    columns : sequence of str, optional
        One label for each key, for S, S_masked and A; by default the rows' labels. Components are numbered.
    mask : boolean array, shape (N_q, N_k), optional
        True where a key may be read; hatches the other cells of S_masked and A.

    Returns
    -------
    Figure

    Raises
    ------
    TypeError, ValueError
        As in `show_matrix`; the message names the tensor.
    """
    matrices = {tensor: to_numpy(tensor, M, "N_q columns").astype(float) for tensor, M in matrices.items()}
    widths = [M.shape[1] for M in matrices.values()]
    cell = min(0.62, 4.4 / sum(widths))
    fig = new_figure(1.3 + cell * sum(widths) + 0.3 * len(widths), 0.36 * len(rows) + 1.4)
    ratios = [ratio for width in widths for ratio in (width, 0.25 / cell)][:-1]
    axs = fig.subplots(1, len(ratios), width_ratios=ratios, squeeze=False)[0]
    for gap, following in zip(axs[1::2], list(matrices)[1:], strict=True):
        gap.set_axis_off()
        if following not in ("K", "V"):  # these are not made from their neighbour
            gap.text(0.5, 0.5, "→", ha="center", va="center", fontsize=16)
    for ax, (tensor, M) in zip(axs[::2], matrices.items(), strict=True):
        check_length("rows", rows, M.shape[0], f"rows of {tensor}")
        hidden = hidden_cells(M, mask if tensor in ("S_masked", "A") else None)
        image = draw_cells(ax, M, hidden, tensor=tensor, aspect="auto")
        if sum(widths) <= 12:
            write_numbers(ax, image, M, hidden, 2)
        else:
            mark_negative(ax, image, M, hidden)
        if tensor in ("S", "S_masked", "A"):
            keys = check_length("columns", rows if columns is None else columns, M.shape[1], f"columns of {tensor}")
            label_columns(ax, keys, "keys j")
        else:
            label_columns(ax, None, "components", most=8)
        first = ax is axs[0]
        label_rows(ax, rows if first else [""] * len(rows), TOKENS if first else "")
        formula = _FORMULAS.get(tensor, _title(tensor))
        ax.set_title(formula.replace("(S)", r"(\tilde{S})") if "S_masked" in matrices else formula, loc="left")
    return fig


def show_heads(
    A: Any,
    *,
    rows: Sequence[str],
    columns: Sequence[str] | None = None,
    tensor: str = "A",
    mask: Any = None,
    titles: Sequence[str] | None = None,
) -> Figure:
    """Draw the matrix of each head, all on one colour scale; nothing is averaged.

    Parameters
    ----------
    A : array, shape (h, N_q, N_k)
        Weights (or scores) of one sentence.
    rows, columns : sequence of str
        A label for each query and each key; without `columns` the rows' labels serve for both.
    tensor : str
        "A" or "S".
    mask : boolean array, shape (N_q, N_k), optional
        True where a key may be read; the other cells are hatched.
    titles : sequence of str, optional
        One for each head; by default "head 0", "head 1", …

    Returns
    -------
    Figure
    """
    A = to_numpy("A", A, "h N_q N_k").astype(float)
    titles = [f"head {a}" for a in range(len(A))] if titles is None else check_length("titles", titles, len(A), "heads")
    columns = rows if columns is None else columns
    low, high = color_limits(A, tensor)
    across = min(len(A), 3)
    down = -(-len(A) // across)
    cell = min(0.4, 4.6 / across / A.shape[2])
    fig = new_figure(1.0 + across * cell * A.shape[2] + 0.7, 0.9 + down * (cell * A.shape[1] + 0.45))
    axs = fig.subplots(down, across, squeeze=False, sharex=True, sharey=True)
    for a, ax in enumerate(axs.flat):
        if a >= len(A):
            ax.set_axis_off()
            continue
        show_matrix(
            A[a],
            tensor=tensor,
            rows=rows,
            columns=columns,
            row_name=QUERIES if a == 0 and down == 1 else "",
            column_name="",
            mask=mask,
            numbers=False,
            vmin=low,
            vmax=high,
            title=titles[a],
            ax=ax,
        )
        ax.label_outer()
    fig.colorbar(axs[0, 0].images[0], ax=axs, shrink=0.7, pad=0.02)
    fig.supxlabel(KEYS, fontsize=12)
    if down > 1:
        fig.supylabel(QUERIES, fontsize=12)
    return fig
