"""What every module asks of its input: one library, one floating dtype, shapes that fit, and a sentence where not."""

import numbers
from typing import Any

import array_api_compat as compat
import numpy as np


def namespace(**arrays: Any):
    """Return the array namespace that the named arrays share."""
    for name, x in arrays.items():
        if not compat.is_array_api_obj(x):
            raise TypeError(f"{name} must be a NumPy array or a torch tensor, not {type(x).__name__}.")
    if len({compat.is_torch_array(x) for x in arrays.values()}) > 1:
        libraries = {name: "torch tensor" if compat.is_torch_array(x) else "NumPy array" for name, x in arrays.items()}
        kinds = ", ".join(f"{name} is a {kind}" for name, kind in libraries.items())
        raise TypeError(
            f"All arrays must come from one library, but {kinds}. Convert with torch.from_numpy or .numpy()."
        )
    return compat.array_namespace(x)  # any of them: they are of one library


def floating_namespace(**arrays: Any):
    """Return the shared namespace of arrays that hold floating-point numbers of one dtype."""
    xp = namespace(**arrays)
    dtypes = {name: x.dtype for name, x in arrays.items()}
    for name, dtype in dtypes.items():
        if not xp.isdtype(dtype, "real floating"):
            raise TypeError(f"{name} holds {dtype}, but must hold floating-point numbers: convert it first.")
    if len(set(dtypes.values())) > 1:
        kinds = ", ".join(f"{name} is {dtype}" for name, dtype in dtypes.items())
        raise TypeError(f"All arrays must have one dtype, but {kinds}: convert them to the same one.")
    return xp


def as_ids(T: Any):
    """Return an array of token ids as int64, since torch compares a uint8 with 256 as if that were 0."""
    xp = namespace(T=T)
    if not xp.isdtype(T.dtype, "integral"):
        raise TypeError(f"T holds {T.dtype}, but must hold integers: token ids.")
    check_axes("T", T, "N")
    return xp.astype(T, xp.int64, copy=False)


def as_library_of(x: Any, like: Any):
    """Return the NumPy array `x` as an array of the library and on the device of `like`."""
    if compat.is_numpy_array(x) and compat.is_torch_array(like):
        # A copy: torch warns about read-only memory and refuses negative strides.
        return compat.array_namespace(like).asarray(x.copy(), device=like.device)
    return x


def new_array_namespace(like: Any):
    """Return (namespace, device) for an array made from nothing: NumPy, or the library and device of `like`."""
    if like is None:
        import array_api_compat.numpy as xp

        return xp, None
    return namespace(like=like), compat.device(like)


def widen(x: Any):
    """Return half precision as float32, so that sums neither overflow nor lose digits; other dtypes as they are."""
    return x if x.dtype.itemsize >= 4 else narrow(x, compat.array_namespace(x).float32)


def narrow(x: Any, dtype: Any):
    """Return `x` in the dtype that the caller had before `widen`."""
    return x if x.dtype == dtype else compat.array_namespace(x).astype(x, dtype)


def matmul(X: Any, W: Any) -> Any:
    """Return X @ W.

    NumPy multiplies the sentences of a batch one by one, and few rows by a large matrix that is stored column by
    column (a view of torch's [out, in]) at half its speed. All rows at once, as (WᵀXᵀ)ᵀ, are faster there.
    """
    if compat.is_numpy_array(W) and W.flags.f_contiguous and not W.flags.c_contiguous:
        rows = X.reshape(-1, X.shape[-1])
        return (W.T @ rows.T).T.reshape(*X.shape[:-1], W.shape[1])
    return X @ W


def shape_of(x: Any) -> str:
    """Return a shape as the book writes it: [2, 5, 12]."""
    return str(list(x.shape))


def check_axes(name: str, x: Any, axes: str, *, exactly: bool = False) -> None:
    """Raise unless `x` has at least (or exactly) the named axes, e.g. "N_q d_h"."""
    wanted = axes.split()
    if x.ndim < len(wanted) or (exactly and x.ndim != len(wanted)):
        least = "" if exactly else "..., "
        hint = f" Add a batch axis: {name}[None]." if exactly and wanted[0] == "B" and x.ndim == len(wanted) - 1 else ""
        raise ValueError(f"{name} has shape {shape_of(x)}, but needs the axes [{least}{', '.join(wanted)}].{hint}")


def check_same(axis: str, **sizes: int) -> None:
    """Raise unless all named arrays have the same size along `axis`, e.g. ``check_same("d_h", Q=4, K=5)``."""
    if len(set(sizes.values())) > 1:
        have = ", ".join(f"{name} has {size}" for name, size in sizes.items())
        raise ValueError(f"The axis {axis} disagrees: {have}.")


def check_whole(name: str, value: Any, *, least: int | None = None) -> int:
    """Return `value` as an int; raise unless it is a whole number (of at least `least`)."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be a whole number, not {value!r}.")
    if least is not None and value < least:
        raise ValueError(f"{name} must be at least {least}, not {value}.")
    return int(value)


def check_batch(**batches: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that the two named batch shapes broadcast to; raise unless they do."""
    (first, a), (second, b) = batches.items()
    try:
        return np.broadcast_shapes(tuple(a), tuple(b))
    except ValueError:
        raise ValueError(
            f"The batch axes (all before the last two) disagree: {first} has {list(a)}, {second} has {list(b)}."
        ) from None
