"""What the chapters measure about attention: how sharp it is, how it answers, which token reaches which output."""

from typing import Any

import array_api_compat as compat
import numpy as np
from jaxtyping import Bool, Float, Int

from attnlib._arrays import (
    as_library_of,
    check_axes,
    check_same,
    check_whole,
    floating_namespace,
    namespace,
    narrow,
    shape_of,
    widen,
)


def move_each_token(X: Float[Any, "*b N d_model"], *, seed: int, size: float = 1.0) -> Float[Any, "N N d_model"]:
    r"""Copy a sentence N times; in copy j, token j is moved in a random direction.

    .. math:: X^{(j)}_i = x_i + \delta_{ij}\, r_j, \qquad \lVert r_j \rVert = \mathrm{size}

    Parameters
    ----------
    X : array, shape (N, d_model) or (1, N, d_model)
        The token vectors of one sentence.
    seed : int
        The directions are drawn from it: the same seed gives the same ones, in either library.
    size : float
        How far a token is moved.

    Returns
    -------
    array, shape (N, N, d_model)
        A batch of N sentences, of the dtype and library of X: run it through a model at once.

    Raises
    ------
    ValueError
        X holds more than one sentence.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.zeros((3, 4))
    >>> (move_each_token(X, seed=0) != X).any(axis=-1).astype(int)
    array([[1, 0, 0],
           [0, 1, 0],
           [0, 0, 1]])
    """
    xp = floating_namespace(X=X)
    X = _one_sentence("X", X, "N d_model")
    N, d_model = X.shape
    directions = np.random.default_rng(check_whole("seed", seed, least=0)).normal(size=(N, d_model))
    steps = size * directions / np.linalg.norm(directions, axis=-1, keepdims=True)
    moved_row = as_library_of(np.eye(N)[:, :, None] * steps, X)  # in copy j only row j differs from 0
    return X + xp.astype(moved_row, X.dtype)


def influence(output: Float[Any, "*b N d"], moved: Float[Any, "N_moved N d"]) -> Float[Any, "N N_moved"]:
    r"""Measure how far each output moves when one token is moved.

    .. math:: D_{ij} = \bigl\lVert f(X^{(j)})_i - f(X)_i \bigr\rVert

    Parameters
    ----------
    output : array, shape (N, d) or (1, N, d)
        What a model f makes of a sentence X: one vector for each token.
    moved : array, shape (N, N, d)
        What it makes of the batch ``move_each_token(X)``.

    Returns
    -------
    array, shape (N, N)
        Row i is output i, column j is the token that was moved, as in the matrix of weights. 0 means that
        token j does not reach output i.

    Raises
    ------
    ValueError
        An axis disagrees; the message names it.

    Examples
    --------
    A model in which each output is the sum of its token and those before it:

    >>> import numpy as np
    >>> X = np.zeros((3, 4))
    >>> moved = move_each_token(X, seed=0, size=2.0)
    >>> influence(np.cumsum(X, axis=-2), np.cumsum(moved, axis=-2)).round(6)
    array([[2., 0., 0.],
           [2., 2., 0.],
           [2., 2., 2.]])
    """
    xp = floating_namespace(output=output, moved=moved)
    output = _one_sentence("output", output, "N d")
    check_axes("moved", moved, "N_moved N d", exactly=True)
    check_same("N (outputs)", output=output.shape[0], moved=moved.shape[1])
    check_same("d", output=output.shape[1], moved=moved.shape[2])
    distances = xp.linalg.vector_norm(widen(moved) - widen(output), axis=-1)
    return narrow(xp.matrix_transpose(distances), moved.dtype)


def _one_sentence(name: str, X: Any, axes: str) -> Any:
    """Return [N, d]; raise if there is more than one sentence."""
    check_axes(name, X, axes)
    if X.ndim > 3 or (X.ndim == 3 and X.shape[0] != 1):
        raise ValueError(f"{name} has shape {shape_of(X)}, but must hold one sentence: choose one, such as {name}[0].")
    return X[0] if X.ndim == 3 else X


def softmax_jacobian(A: Float[Any, "*b N_k"]) -> Float[Any, "*b N_k N_k"]:
    r"""Give the derivative of each weight with respect to each score of the same query.

    .. math:: J = \frac{\partial a}{\partial s} = \operatorname{diag}(a) - a a^{\mathsf T}

    Parameters
    ----------
    A : array, shape (..., N_k)
        Weights: rows that sum to 1.

    Returns
    -------
    array, shape (..., N_k, N_k)
        J_jl: how much weight j grows when score l grows. Rows and columns sum to 0.

    Examples
    --------
    >>> import numpy as np
    >>> softmax_jacobian(np.array([0.75, 0.25]))
    array([[ 0.1875, -0.1875],
           [-0.1875,  0.1875]])
    """
    xp = floating_namespace(A=A)
    check_axes("A", A, "N_k")
    identity = xp.eye(A.shape[-1], dtype=A.dtype, device=compat.device(A))
    return A[..., :, None] * (identity - A[..., None, :])


def jacobian_norm(A: Float[Any, "*b N_k"]) -> Float[Any, "*b"]:
    r"""Measure how strongly a row of weights answers to its scores: the Frobenius norm of its Jacobian.

    .. math:: \lVert J \rVert_F^2 = \sum_j a_j^2 (1 - a_j)^2 + \sum_{j \ne l} a_j^2 a_l^2

    Parameters
    ----------
    A : array, shape (..., N_k)
        Weights: rows that sum to 1.

    Returns
    -------
    array, shape (...)
        At most 1/2 (two keys of weight 1/2 each); 0 for a one-hot row, which no longer answers.

    Notes
    -----
    J itself has N_k times as many entries as A and is not formed.

    Examples
    --------
    >>> import numpy as np
    >>> jacobian_norm(np.array([[0.5, 0.5], [1.0, 0.0]]))
    array([0.5, 0. ])
    """
    xp = floating_namespace(A=A)
    check_axes("A", A, "N_k")
    wide = widen(A)
    squares = xp.sum(wide**2, axis=-1, keepdims=True)
    # The off-diagonal part as a sum of what is never negative: no digits are lost near one-hot rows.
    return narrow(xp.sqrt(xp.sum(wide**2 * ((1 - wide) ** 2 + (squares - wide**2)), axis=-1)), A.dtype)


def effective_keys(A: Float[Any, "*b N_k"]) -> Float[Any, "*b"]:
    r"""Count how many keys a query listens to: the exponential of the entropy of its weights.

    .. math:: n = \exp\Bigl(-\sum_j a_j \ln a_j\Bigr)

    Parameters
    ----------
    A : array, shape (..., N_k)
        Weights: rows that sum to 1.

    Returns
    -------
    array, shape (...)
        From 1 (one key has all the weight) to N_k (all weights equal).

    Examples
    --------
    >>> import numpy as np
    >>> effective_keys(np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]))
    array([2., 1.])
    """
    xp = floating_namespace(A=A)
    check_axes("A", A, "N_k")
    wide = widen(A)
    logs = xp.log(xp.where(wide > 0, wide, 1.0))  # a weight of 0 adds nothing
    return narrow(xp.exp(-xp.sum(wide * logs, axis=-1)), A.dtype)


def induction_targets(T: Int[Any, "B N"]) -> Bool[Any, "B N N"]:
    r"""Say where an induction head looks: right after each earlier copy of the symbol that it stands on.

    .. math:: M_{ij} = \text{True where } T_{j-1} = T_i \text{ and } j - 1 < i

    Parameters
    ----------
    T : integer array, shape (B, N)

    Returns
    -------
    boolean array, shape (B, N, N)
        Rows are queries, columns are keys.

    Examples
    --------
    >>> import numpy as np
    >>> induction_targets(np.array([[7, 8, 9, 7]]))[0, 3]
    array([False,  True, False, False])
    """
    xp = namespace(T=T)
    check_axes("T", T, "B N", exactly=True)
    place = xp.arange(T.shape[1])
    copies = (T[:, :, None] == T[:, None, :]) & (place < place[:, None])
    return xp.concat([xp.zeros_like(copies[:, :, :1]), copies[:, :, :-1]], axis=-1)


def induction_score(A: Float[Any, "B N N"], T: Int[Any, "B N"]) -> float:
    r"""Return the weight of a head on what came after earlier copies of the symbol that it stands on.

    .. math:: \frac1{|I|} \sum_{i \in I} \; \sum_{j < i,\, T_j = T_i} A_{i,\,j+1}

    Parameters
    ----------
    A : array, shape (B, N, N)
        The weights of one head.
    T : integer array, shape (B, N)

    Returns
    -------
    float
        The mean over I, the places whose symbol has come before; 1 for a perfect induction head.

    Raises
    ------
    ValueError
        No symbol comes twice, or the shapes do not fit.

    References
    ----------
    Olsson et al., "In-context Learning and Induction Heads", 2022, which measures heads on repeated random symbols.

    Examples
    --------
    >>> import numpy as np
    >>> induction_score(np.tri(4)[None] / 4, np.array([[7, 8, 9, 7]]))
    0.25
    """
    xp = floating_namespace(A=A)
    check_axes("A", A, "B N N", exactly=True)
    if tuple(A.shape) != (*T.shape, T.shape[-1]):
        raise ValueError(f"A has shape {shape_of(A)}, but must be [B, N, N] for T of shape {shape_of(T)}.")
    targets = induction_targets(T)
    asked = xp.any(targets, axis=-1)
    if not xp.any(asked):
        raise ValueError("No symbol of T comes twice: there is nothing for an induction head to look for.")
    on_target = xp.sum(xp.where(targets, A, xp.zeros_like(A)), axis=-1)
    return float(xp.mean(on_target[asked]))
