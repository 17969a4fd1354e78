"""Chapter 9: the shape of every tensor, predicted and checked."""

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


def check_shapes(trace: Any) -> None:
    """Raise unless all tensors of a trace agree on every axis.

    Parameters
    ----------
    trace : AttentionTrace
        Or any object with a method ``shapes()`` that returns a dict of name to shape.

    Raises
    ------
    ValueError
        The first tensor that disagrees; the message names the axis and who said otherwise.

    Notes
    -----
    Shapes are read in the order of the pipeline. The first tensor that has an axis fixes its size.

    Examples
    --------
    >>> import numpy as np
    >>> from attnlib import MultiHeadWeights, multi_head_attention
    >>> check_shapes(multi_head_attention(np.ones((2, 5, 12)), MultiHeadWeights.random(12, 3, seed=0)))
    """
    sizes: dict[str, tuple[int, str]] = {}
    for name, shape in trace.shapes().items():
        axes = AXES[name].split()
        if len(shape) != len(axes):
            raise ValueError(f"{name} has shape {list(shape)}, but needs the axes [{', '.join(axes)}].")
        if "h*d_v" in axes:
            sizes["h*d_v"] = (sizes["h"][0] * sizes["d_v"][0], "Q and V")
        for place, (axis, size) in enumerate(zip(axes, shape, strict=True)):
            expected, source = sizes.setdefault(axis, (size, name))
            if size != expected:
                raise ValueError(
                    f"{name} has shape {list(shape)}: its axis {place} is {axis}, "
                    f"which is {expected} by {source}, not {size}."
                )
