"""Chapter 5: who may read whom. Boolean masks in which True means "may be read"."""

from typing import Any

import array_api_compat as compat
import numpy as np
from jaxtyping import Bool, Float, Integer

from attnlib._arrays import (
    as_ids,
    as_library_of,
    check_axes,
    check_whole,
    floating_namespace,
    namespace,
    new_array_namespace,
    shape_of,
)


def causal_mask(N_q: int, N_k: int | None = None, *, like: Any = None) -> Bool[Any, "N_q N_k"]:
    r"""Let each token read itself and what came before it.

    .. math:: \mathrm{mask}_{ij} = \bigl(j \le i + N_k - N_q\bigr)

    Parameters
    ----------
    N_q, N_k : int
        Number of queries and of keys; N_k defaults to N_q.
    like : array, optional
        Gives the library and device. Without it: NumPy.

    Returns
    -------
    boolean array, shape (N_q, N_k)
        True where query i may read key j. With N_q < N_k the queries are the *last* N_q tokens, as with
        a key-value cache: the last query reads every key. With N_q > N_k the first N_q - N_k queries
        come before every key and may read none.

    Raises
    ------
    TypeError, ValueError
        A length is not a whole number, or is negative.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017, section 3.2.3.

    Examples
    --------
    >>> causal_mask(3).astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [1, 1, 1]])
    >>> causal_mask(2, 4).astype(int)
    array([[1, 1, 1, 0],
           [1, 1, 1, 1]])
    """
    N_q = check_whole("N_q", N_q, least=0)
    N_k = N_q if N_k is None else check_whole("N_k", N_k, least=0)
    xp, device = new_array_namespace(like)
    i = xp.arange(N_q, device=device)[:, None]
    j = xp.arange(N_k, device=device)[None, :]
    return j <= i + (N_k - N_q)


def padding_mask(T: Integer[Any, "*b N_k"], pad_id: int) -> Bool[Any, "*b 1 N_k"]:
    r"""Let no query read a padding token.

    .. math:: \mathrm{mask}_{b1j} = (T_{bj} \ne \mathrm{pad\_id})

    Parameters
    ----------
    T : integer array, shape (..., N_k)
        The ids of the tokens that are read (the keys).
    pad_id : int
        The id of the padding token. It is compared with ids, never guessed from the vectors.

    Returns
    -------
    boolean array, shape (..., 1, N_k)
        True where a key is a real token. The axis of length 1 stands for the queries: all of them
        see the same keys.

    Raises
    ------
    TypeError
        T or pad_id does not hold integers.

    Examples
    --------
    >>> import numpy as np
    >>> padding_mask(np.array([[5, 3, 0], [2, 0, 0]]), pad_id=0).astype(int)
    array([[[1, 1, 0]],
    <BLANKLINE>
           [[1, 0, 0]]])
    """
    pad_id = check_whole("pad_id", pad_id, least=0)
    return (as_ids(T) != pad_id)[..., None, :]


def apply_mask(S: Float[Any, "*b N_q N_k"], mask: Any) -> Float[Any, "*b N_q N_k"]:
    r"""Set the scores of keys that may not be read to minus infinity.

    .. math:: \tilde S_{ij} = S_{ij} \text{ if } \mathrm{mask}_{ij} \text{ else } -\infty

    Parameters
    ----------
    S : array, shape (..., N_q, N_k)
        Scores.
    mask : boolean array
        True means "may be read". Shape (N_q, N_k), or as many axes as S; axes of length 1 are repeated.
        A NumPy mask may be used with torch scores.

    Returns
    -------
    array, shape (..., N_q, N_k)
        S_masked. Softmax turns each minus infinity into a weight of exactly 0.

    Raises
    ------
    TypeError
        The mask is not boolean.
    ValueError
        The mask does not fit S; the message names the axis.

    Examples
    --------
    >>> import numpy as np
    >>> apply_mask(np.array([[1.0, 2.0], [3.0, 4.0]]), causal_mask(2))
    array([[  1., -inf],
           [  3.,   4.]])
    """
    xp = floating_namespace(S=S)
    check_axes("S", S, "N_q N_k")
    return xp.where(check_mask(mask, S.shape, like=S), S, -np.inf)


def drop_unread(X: Any, mask: Any) -> Any:
    """Replace NaN and inf by 0 in the rows of X that no query may read: a weight of 0 times NaN would be NaN."""
    xp = namespace(X=X, mask=mask)
    read = xp.any(mask, axis=-2)[..., None]
    if str(compat.device(X)) != "meta" and xp.all(read):  # as with a causal mask; "meta" holds no value to ask for
        return X
    return xp.where(read | xp.isfinite(X), X, 0.0)


def check_mask(mask: Any, S_shape: tuple[int, ...], *, like: Any) -> Any:
    """Return the mask in the library of `like`; raise unless it is boolean and fits scores of shape `S_shape`."""
    if not compat.is_array_api_obj(mask):
        raise TypeError(
            f"mask must be a boolean array, not {type(mask).__name__}. "
            "Causal attention takes mask=causal_mask(N_q, N_k)."
        )
    mask = as_library_of(mask, like)
    xp = namespace(mask=mask, scores=like)
    if not xp.isdtype(mask.dtype, "bool"):
        raise TypeError(
            f"mask holds {mask.dtype}, but must be boolean, True for what may be read. "
            "For 0 and 1 write mask == 1; an additive mask of 0 and -inf goes to bias=."
        )
    check_fits("mask", mask, S_shape)
    return mask


def check_fits(name: str, x: Any, S_shape: tuple[int, ...]) -> None:
    """Raise unless `x` is [N_q, N_k] or has as many axes as S, each of length 1 or that of S."""
    if x.ndim not in (2, len(S_shape)):
        choices = "[N_q, N_k]" if len(S_shape) == 2 else f"[N_q, N_k] or all {len(S_shape)} axes of S"
        raise ValueError(
            f"{name} has shape {shape_of(x)} and S has shape {list(S_shape)}: {name} must have the axes {choices}, "
            "so that no axis is guessed."
        )
    names = {1: "keys, N_k", 2: "queries, N_q"}
    for axis in range(1, x.ndim + 1):
        if x.shape[-axis] not in (1, S_shape[-axis]):
            raise ValueError(
                f"{name} has shape {shape_of(x)}, but S has shape {list(S_shape)}: axis -{axis} "
                f"({names.get(axis, 'batch or heads')}) is {x.shape[-axis]} and must be {S_shape[-axis]} or 1."
            )
