"""Chapter 9: the shape of every tensor, predicted and checked."""

from collections.abc import Iterable, Iterator
from typing import Any

from attnlib._arrays import check_whole
from attnlib.multi_head import check_heads

AXES = {
    "X": "B N_q d_model",
    "Q": "B h N_q d_h",
    "K": "B h N_k d_h",
    "V": "B h N_k d_v",
    "S": "B h N_q N_k",
    "S_masked": "B h N_q N_k",
    "A": "B h N_q N_k",
    "H": "B h N_q d_v",
    "concat": "B N_q h*d_v",
    "output": "B N_q d_model",
}
BESIDE = {  # what meets these tensors on the way
    "context": "B N_k d_context",
    "W_Q": "d_model h*d_h",
    "W_K": "d_context h*d_h",
    "W_V": "d_context h*d_v",
    "K_T": "B h d_h N_k",
    "mask": "B h N_q N_k",
    "W_O": "h*d_v d_model",
}
GROUPED = ("K", "V", "K_T", "W_K", "W_V")  # what has h_kv heads in place of h, where h_kv is given
PRODUCTS = {f"{h}*{d}": (h, d) for h in ("h", "h_kv") for d in ("d_h", "d_v")}

Sizes = dict[str, tuple[int, str]]  # of each axis: its size, and who says so


def shape_table(B: int, N: int, d_model: int, h: int) -> dict[str, tuple[int, ...]]:
    r"""Predict the shape of every tensor of multi-head self-attention, with :math:`d_h = d_\mathrm{model}/h`.

    Parameters
    ----------
    B, N, d_model, h : int
        Sentences, tokens, width, heads; each at least 1, and h divides d_model.

    Returns
    -------
    dict of str to tuple of int
        In the order of the pipeline: X, Q, K, V, S, S_masked, A, H, concat, output.

    Raises
    ------
    TypeError, ValueError
        A size is not a whole number of at least 1, or d_model is not divisible by h.

    Examples
    --------
    >>> shape_table(B=2, N=5, d_model=12, h=3)["Q"]
    (2, 3, 5, 4)
    """
    given = {"B": B, "N": N, "d_model": d_model}
    sizes = {name: check_whole(name, value, least=1) for name, value in given.items()}
    sizes |= {"N_q": sizes["N"], "N_k": sizes["N"], "h": check_heads(h, sizes["d_model"], "d_model")}
    sizes["d_h"] = sizes["d_v"] = sizes["d_model"] // sizes["h"]
    sizes["h*d_v"] = sizes["d_model"]
    return {name: tuple(sizes[axis] for axis in axes.split()) for name, axes in AXES.items()}


def check_shapes(trace: Any, **sizes: int) -> None:
    """Raise unless all tensors agree on every axis.

    Parameters
    ----------
    trace : AttentionTrace
        Or any object with a method ``shapes()`` that returns a dict of name to shape; or an iterator of
        (name, array) pairs, each checked before the next is made. Besides the tensors of a trace it may hold
        context, W_Q, W_K, W_V, W_O, K_T (the transposed keys) and mask.
    **sizes : int
        Axes whose sizes are known beforehand: B, N (for N_q and N_k), d_model, h, d_h, d_v. With h_kv, the number of
        heads of keys and values, K and V may have fewer heads than Q.

    Raises
    ------
    ValueError
        The first tensor that disagrees; the message names the axis and who said otherwise.

    Notes
    -----
    Shapes are read in the order in which they come. The first tensor that has an axis fixes its size, unless it
    was given.

    Examples
    --------
    >>> import numpy as np
    >>> from attnlib import MultiHeadWeights, multi_head_attention
    >>> trace = multi_head_attention(np.ones((2, 5, 12)), MultiHeadWeights.random(12, 3, seed=0))
    >>> check_shapes(trace)
    >>> check_shapes(trace, h=4)
    Traceback (most recent call last):
        ...
    ValueError: Q has shape [2, 3, 5, 4]: its axis 1 is h, which is 4 by the sizes given, not 3.
    """
    known = _given(sizes)
    for name, shape in _named_shapes(trace):
        _check_axes_of(name, shape, known)
        _multiply(name, shape, known)


def _given(sizes: dict[str, int]) -> Sizes:
    """Return the sizes that are known beforehand, by axis."""
    axes = {axis for names in (AXES | BESIDE).values() for axis in names.split()} | {"h_kv"}
    known: Sizes = {}
    for axis, size in sizes.items():
        if axis != "N" and axis not in axes:
            raise ValueError(f"There is no axis {axis!r}; there are N, {', '.join(sorted(axes))}.")
        for name in ("N_q", "N_k") if axis == "N" else (axis,):
            known[name] = (check_whole(axis, size, least=1), "the sizes given")
    if "d_model" in known:
        known.setdefault("d_context", known["d_model"])  # unless given: self-attention
    _multiply("", (), known)
    return known


def _named_shapes(trace: Any) -> Iterable[tuple[str, tuple[int, ...]]]:
    """Return pairs of name and shape."""
    if hasattr(trace, "shapes"):
        return trace.shapes().items()
    if isinstance(trace, Iterator):
        return ((name, tuple(x.shape)) for name, x in trace)
    raise TypeError(f"check_shapes takes the trace of multi_head_attention, not {type(trace).__name__}.")


def _check_axes_of(name: str, shape: tuple[int, ...], known: Sizes) -> None:
    """Raise unless a tensor has its axes, each of the size that is known; remember those that are new."""
    if name not in AXES | BESIDE:
        raise ValueError(
            f"The pipeline has no tensor {name!r}; it has {', '.join(AXES)}. Besides: {', '.join(BESIDE)}."
        )
    axes = (AXES | BESIDE)[name].split()
    if "h_kv" in known and name in GROUPED:
        axes = [{"h": "h_kv", "h*d_h": "h_kv*d_h", "h*d_v": "h_kv*d_v"}.get(axis, axis) for axis in axes]
    repeats = name == "mask"  # axes of length 1, and those that are missing in front, are repeated
    if repeats:
        axes = axes[max(0, len(axes) - len(shape)) :]
    if len(shape) != len(axes):
        raise ValueError(f"{name} has shape {list(shape)}, but needs the axes [{', '.join(axes)}].")
    for place, (axis, size) in enumerate(zip(axes, shape, strict=True)):
        if repeats and size == 1:
            continue
        expected, source = known.setdefault(axis, (size, name))
        if size != expected:
            raise ValueError(
                f"{name} has shape {list(shape)}: its axis {place} is {axis}, "
                f"which is {expected} by {source}, not {size}{' or 1' * repeats}."
            )


def _multiply(name: str, shape: tuple[int, ...], known: Sizes) -> None:
    """Work out h*d_h and h*d_v once their factors are known; raise if they are known to be something else."""
    for product, factors in PRODUCTS.items():
        if not set(factors) <= known.keys():
            continue
        value = known[factors[0]][0] * known[factors[1]][0]
        sources = dict.fromkeys(known[factor][1] for factor in factors)
        expected, source = known.setdefault(product, (value, " and ".join(sources)))
        if value != expected:
            raise ValueError(
                f"{name} has shape {list(shape)}: {factors[0]} times {factors[1]} is {value}, "
                f"but {product} is {expected} by {source}."
            )
