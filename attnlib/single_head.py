"""Chapters 2 to 4: one attention head. Projections, scores, weights, and the weighted sum of values."""

import math
import numbers
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np
from jaxtyping import Float

from attnlib._arrays import (
    as_library_of,
    check_axes,
    check_batch,
    check_same,
    floating_namespace,
    matmul,
    namespace,
    narrow,
    shape_of,
    widen,
)
from attnlib.masks import apply_mask, check_fits, check_mask, drop_unread


class AttentionResult(NamedTuple):
    """What one call of `attention` computed, in the order of the pipeline.

    Attributes
    ----------
    S : array, shape (..., N_q, N_k)
        Scores before bias and mask.
    S_masked : array, shape (..., N_q, N_k)
        Scores after bias and mask: what softmax saw.
    A : array, shape (..., N_q, N_k)
        Weights. Each row sums to 1, or is 0 where the query may read nothing.
    H : array, shape (..., N_q, d_v)
        The output: for each query the weighted sum of the values.
    """

    S: Any
    S_masked: Any
    A: Any
    H: Any


def project(
    X: Float[Any, "*b d_in"], W: Float[Any, "d_in d_out"], b: Float[Any, " d_out"] | None = None
) -> Float[Any, "*b d_out"]:
    r"""Map each token vector (a row of X) by a matrix, and add a bias if there is one.

    .. math:: Q = X W^Q \; (+\, b^Q), \quad \text{and likewise } K, V

    Parameters
    ----------
    X : array, shape (..., d_in)
        Token vectors as rows.
    W : array, shape (d_in, d_out)
        One matrix for all tokens. (Texts with column vectors write q = W x; that W is the transpose.)
    b : array, shape (d_out,), optional

    Returns
    -------
    array, shape (..., d_out)

    Raises
    ------
    ValueError
        The width of X is not the number of rows of W, or b does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> project(np.array([[1.0, 2.0]]), np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]))
    array([[1., 2., 3.]])
    """
    floating_namespace(X=X, W=W, **({} if b is None else {"b": b}))
    check_axes("X", X, "d_in")
    check_axes("W", W, "d_in d_out", exactly=True)
    if X.shape[-1] != W.shape[0]:
        raise ValueError(
            f"X has shape {shape_of(X)} and W has shape {shape_of(W)}: the last axis of X is {X.shape[-1]}, "
            f"but W has {W.shape[0]} rows."
        )
    projected = matmul(widen(X), widen(W))
    if b is not None:
        check_axes("b", b, "d_out", exactly=True)
        check_same("d_out", W=W.shape[1], b=b.shape[0])
        projected = projected + widen(b)
    return narrow(projected, X.dtype)


def scores(
    Q: Float[Any, "*#b N_q d_h"], K: Float[Any, "*#b N_k d_h"], *, scale: float | None = None
) -> Float[Any, "*b N_q N_k"]:
    r"""Compare every query with every key by their dot product, scaled.

    .. math:: S = \frac{Q K^{\mathsf T}}{\sqrt{d_h}}

    Parameters
    ----------
    Q : array, shape (..., N_q, d_h)
        Queries, one row each.
    K : array, shape (..., N_k, d_h)
        Keys, one row each. N_k may differ from N_q.
    scale : float, optional
        What the dot products are multiplied by; 1/sqrt(d_h) unless given.

    Returns
    -------
    array, shape (..., N_q, N_k)
        S: row i belongs to query i, column j to key j.

    Raises
    ------
    ValueError
        d_h or a batch axis disagrees, d_h is 0, or there is no key.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017, equation 1.

    Examples
    --------
    >>> import numpy as np
    >>> scores(np.array([[1.0, 1.0]]), np.array([[1.0, 1.0], [0.0, 1.0]])).round(4)
    array([[1.4142, 0.7071]])
    """
    xp = floating_namespace(Q=Q, K=K)
    check_queries_and_keys(Q, K)
    scale = default_scale(Q.shape[-1]) if scale is None else check_scale(scale)
    scaled = widen(Q) * scale  # the same as scaling S, which is mostly the larger
    return narrow(scaled @ xp.matrix_transpose(widen(K)), Q.dtype)


def check_queries_and_keys(Q: Any, K: Any) -> tuple[int, ...]:
    """Return the shape of S; raise unless every query can be compared with every key."""
    check_axes("Q", Q, "N_q d_h")
    check_axes("K", K, "N_k d_h")
    check_same("d_h", Q=Q.shape[-1], K=K.shape[-1])
    batch = check_batch(Q=Q.shape[:-2], K=K.shape[:-2])
    if Q.shape[-1] == 0:
        raise ValueError("d_h is 0: queries and keys need at least one component.")
    if K.shape[-2] == 0:
        raise ValueError("N_k is 0: there is no key to read. Attention needs at least one.")
    return (*batch, Q.shape[-2], K.shape[-2])


def default_scale(d_h: int) -> float:
    r"""Return the factor that keeps the variance of scores at 1: :math:`1/\sqrt{d_h}`."""
    return 1 / math.sqrt(d_h)


def check_scale(scale: Any) -> float:
    """Return the scale as a float; raise unless it is a finite number."""
    if isinstance(scale, bool) or not isinstance(scale, numbers.Real):
        raise TypeError(f"scale must be a number, not {scale!r}: the factor of the dot products, such as d_h ** -0.5.")
    if not math.isfinite(scale):
        raise ValueError(f"scale must be finite, not {scale}.")
    return float(scale)


def softmax(S: Float[Any, "*b N_k"]) -> Float[Any, "*b N_k"]:
    r"""Turn each query's scores into weights that sum to 1.

    .. math:: A_{ij} = e^{S_{ij}} \Big/ \sum_{j'} e^{S_{ij'}}

    Parameters
    ----------
    S : array, shape (..., N_k)
        Scores; the last axis runs over the keys. Minus infinity marks a key that may not be read.

    Returns
    -------
    array, shape (..., N_k)
        Weights, of the same dtype and library. A row that may read nothing is all zeros.

    Raises
    ------
    TypeError, ValueError
        S does not hold floating-point numbers, or there is no key.

    Notes
    -----
    Each row's maximum is subtracted first: the weights are the same, and no exponential overflows.

    Examples
    --------
    >>> import numpy as np
    >>> softmax(np.array([[0.0, np.log(3)], [1000.0, 1000.0]]))
    array([[0.25, 0.75],
           [0.5 , 0.5 ]])
    """
    xp = floating_namespace(S=S)
    check_axes("S", S, "N_k")
    if S.shape[-1] == 0:
        raise ValueError(f"S has shape {shape_of(S)}: its last axis, the keys, is empty.")
    wide = widen(S)
    top = xp.max(wide, axis=-1, keepdims=True)
    top = xp.where(top == -np.inf, 0.0, top)  # a row that may read nothing: -inf - (-inf) would be NaN
    exps = exp_of_fresh(wide - top)
    total = xp.sum(exps, axis=-1, keepdims=True)
    return narrow(divide_fresh(exps, total), S.dtype)


def exp_of_fresh(X: Any) -> Any:
    """Return e^X for an X that nobody else holds: torch may compute it in the memory of X, and as a power of 2."""
    if not compat.is_torch_array(X):
        return np.exp(X)
    return power_of_fresh(X * exponent_factor(X) if needed_by_autograd(X) else X.mul_(exponent_factor(X)))


def exponent_factor(X: Any) -> float:
    """Return f so that e^x is the power of f x that `power_of_fresh` takes: log2(e) for torch, 1 for NumPy."""
    return math.log2(math.e) if compat.is_torch_array(X) else 1.0


def power_of_fresh(X: Any) -> Any:
    """Return 2^X for torch and e^X for NumPy, in the memory of X unless autograd still needs it.

    These stay fast where a result rounds to 0, so at each minus infinity of a mask; the other two take more than ten
    times as long there.
    """
    if compat.is_torch_array(X):
        return X.exp2() if needed_by_autograd(X) else X.exp2_()
    return np.exp(X, out=X)


def divide_fresh(X: Any, total: Any) -> Any:
    """Return X / total, and 0 where the total is 0, in the memory of X unless autograd still needs it."""
    total = total + (total == 0)
    if needed_by_autograd(X):
        return X / total
    X /= total
    return X


def needed_by_autograd(X: Any) -> bool:
    """Return whether X is a tensor that a backward pass may come back to. What it saved must not be overwritten."""
    return getattr(X, "requires_grad", False)


def attention(
    Q: Float[Any, "*#b N_q d_h"],
    K: Float[Any, "*#b N_k d_h"],
    V: Float[Any, "*#b N_k d_v"],
    *,
    mask: Any = None,
    bias: Any = None,
    scale: float | None = None,
) -> AttentionResult:
    r"""Let each query read a mixture of the values, weighted by how well it matches their keys.

    .. math::

        S = \frac{Q K^{\mathsf T}}{\sqrt{d_h}}, \qquad
        A = \operatorname{softmax}(\tilde S), \qquad
        H = A V, \qquad H_i = \sum_j A_{ij} v_j

    Parameters
    ----------
    Q : array, shape (..., N_q, d_h)
    K : array, shape (..., N_k, d_h)
    V : array, shape (..., N_k, d_v)
        Each key has one value; its width d_v may differ from d_h.
    mask : boolean array, optional
        True means "may be read". Shape (N_q, N_k), or as many axes as S. See `apply_mask`.
    bias : array, optional
        Added to the scores before the mask; the same shapes as `mask`.
    scale : float, optional
        What the dot products are multiplied by; 1/sqrt(d_h) unless given.

    Returns
    -------
    AttentionResult
        (S, S_masked, A, H). A query that may read nothing has weights 0 and output 0. Keys and values that
        no query may read reach neither the output nor a gradient, even when they hold NaN.

    Raises
    ------
    TypeError
        Not floating point, dtypes or libraries that differ, a mask that is not boolean.
    ValueError
        An axis disagrees; the message names it.

    Notes
    -----
    Half precision is computed in float32 and returned in half precision.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", 2017, equation 1.

    Examples
    --------
    >>> import numpy as np
    >>> Q = K = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> attention(Q, K, np.array([[0.0], [10.0]])).H.round(3)
    array([[3.302],
           [6.698]])
    """
    floating_namespace(Q=Q, K=K, V=V)
    S_shape = check_queries_and_keys(Q, K)
    check_axes("V", V, "N_k d_v")
    check_same("N_k", K=K.shape[-2], V=V.shape[-2])
    check_batch(S=S_shape[:-2], V=V.shape[:-2])
    dtype = Q.dtype
    Q, K, V = widen(Q), widen(K), widen(V)
    if mask is not None:
        mask = check_mask(mask, S_shape, like=Q)
        K, V = drop_unread(K, mask), drop_unread(V, mask)
    S = S_masked = scores(Q, K, scale=scale)
    if bias is not None:
        S_masked = S_masked + check_bias(bias, S)
    if mask is not None:
        S_masked = apply_mask(S_masked, mask)
    A = softmax(S_masked)
    return AttentionResult(*(narrow(Z, dtype) for Z in (S, S_masked, A, A @ V)))


def check_bias(bias: Any, S: Any) -> Any:
    """Return the bias in the library and dtype of S; raise unless it is floating point and fits S."""
    if compat.is_array_api_obj(bias):
        bias = as_library_of(bias, S)
    xp = namespace(S=S, bias=bias)
    if not xp.isdtype(bias.dtype, "real floating"):
        raise TypeError(f"bias holds {bias.dtype}, but must hold floating-point numbers. A boolean mask goes to mask=.")
    check_fits("bias", bias, S.shape)
    return narrow(bias, S.dtype)
