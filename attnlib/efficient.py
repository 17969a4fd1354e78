"""Chapter 12: attention over long sequences, block by block, and over growing ones, with a cache."""

from collections.abc import Callable, Sequence
from typing import Any

import array_api_compat as compat
import numpy as np
from jaxtyping import Float

from attnlib._arrays import (
    check_axes,
    check_batch,
    check_same,
    check_whole,
    floating_namespace,
    namespace,
    narrow,
    new_array_namespace,
    shape_of,
    widen,
)
from attnlib.masks import check_mask, drop_unread
from attnlib.multi_head import MultiHeadWeights, concat_heads, repeat_heads, split_heads
from attnlib.single_head import (
    attention,
    check_queries_and_keys,
    default_scale,
    divide_fresh,
    exponent_factor,
    needed_by_autograd,
    power_of_fresh,
    project,
)


def chunked_attention(
    Q: Float[Any, "*#b N_q d_h"],
    K: Float[Any, "*#b N_k d_h"],
    V: Float[Any, "*#b N_k d_v"],
    *,
    causal: bool = False,
    mask: Any = None,
    chunk: int | tuple[int, int] | None = None,
) -> Float[Any, "*b N_q d_v"]:
    r"""Compute the H of `attention` block by block, without ever holding the matrix S.

    For each query a running maximum m, a running sum ℓ and a running output are kept. A block of scores S brings

    .. math::

        m' = \max(m, \max_j S_j), \quad
        \ell' = e^{m - m'} \ell + \sum_j e^{S_j - m'}, \quad
        H' = e^{m - m'} H + \sum_j e^{S_j - m'} v_j, \qquad
        \text{and at the end } H / \ell

    Parameters
    ----------
    Q : array, shape (..., N_q, d_h)
    K : array, shape (..., N_k, d_h)
    V : array, shape (..., N_k, d_v)
    causal : bool
        Each query reads up to its own place; the last query stands at the last key. Blocks that lie wholly in the
        future are skipped.
    mask : boolean array, optional
        True means "may be read". Shape (N_q, N_k), or as many axes as S. With `causal`, both must allow a key.
    chunk : int or pair of int, optional
        Queries and keys in one block; one number serves for both. Unless given, what was measured to be fast.

    Returns
    -------
    array, shape (..., N_q, d_v)
        H. A query that may read nothing gets 0.

    Raises
    ------
    TypeError, ValueError
        As in `attention`, or a chunk that is not a whole number of at least 1.

    Notes
    -----
    Memory grows in proportion to N. With gradients torch keeps each block until the backward pass, and then memory
    grows with N² again; FlashAttention computes the blocks a second time instead.

    References
    ----------
    Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018, algorithm 3. Dao et al.,
    "FlashAttention", 2022, algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> Q = K = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> chunked_attention(Q, K, np.array([[0.0], [10.0]]), chunk=1).round(3)
    array([[3.302],
           [6.698]])
    """
    batch, chunk, dtype = _check_heads(Q, K, V), _check_chunk(chunk), Q.dtype
    xp, device, N_q, N_k, d_v = namespace(Q=Q), compat.device(Q), Q.shape[-2], K.shape[-2], V.shape[-1]
    if mask is not None:
        mask = xp.broadcast_to(check_mask(mask, (*batch, N_q, N_k), like=Q), (*batch, N_q, N_k))
    Q, K, V = (xp.broadcast_to(widen(Z), (*batch, *Z.shape[-2:])) for Z in (Q, K, V))
    limits = _Limits(xp, device, before=N_q + N_k, after=0 if causal else N_q + N_k)
    heads = [xp.zeros((0, d_v), dtype=Q.dtype, device=device)]
    for i in np.ndindex(*batch):  # one head after another: its block of scores stays in the processor's cache
        heads += _online_softmax(Q[i], K[i], V[i], None if mask is None else mask[i], limits, chunk)
    return narrow(xp.reshape(xp.concat(heads), (*batch, N_q, d_v)), dtype)


def sliding_window_attention(
    Q: Float[Any, "*#b N_q d_h"],
    K: Float[Any, "*#b N_k d_h"],
    V: Float[Any, "*#b N_k d_v"],
    *,
    window: int,
    causal: bool = True,
) -> Float[Any, "*b N_q d_v"]:
    r"""Let each query read only the keys near its own place. The cost grows in proportion to N.

    .. math:: H_i = \sum_{j = i - w + 1}^{i} A_{ij} v_j, \qquad
        A_{ij} = \operatorname{softmax} \text{ of } S_{ij} \text{ over these } j

    Parameters
    ----------
    Q : array, shape (..., N_q, d_h)
    K : array, shape (..., N_k, d_h)
    V : array, shape (..., N_k, d_v)
    window : int
        w, at least 1. It counts the query's own place: with w = 1 each token reads itself alone.
    causal : bool
        True: the w keys that end at the query's own place. False: the same, and w - 1 keys after it too. The last
        query stands at the last key.

    Returns
    -------
    array, shape (..., N_q, d_v)
        H. A query that may read nothing, since it comes before every key, gets 0.

    Raises
    ------
    TypeError, ValueError
        As in `attention`, or a window that is not a whole number of at least 1.

    References
    ----------
    Beltagy, Peters and Cohan, "Longformer: The Long-Document Transformer", 2020, section 3.1.

    Examples
    --------
    >>> import numpy as np
    >>> zeros, V = np.zeros((6, 1)), np.arange(6.0)[:, None]
    >>> sliding_window_attention(zeros, zeros, V, window=3).ravel()
    array([0. , 0.5, 1. , 2. , 3. , 4. ])
    """
    before = check_whole("window", window, least=1) - 1
    after = 0 if causal else before
    batch, dtype = _check_heads(Q, K, V), Q.dtype
    xp, device, N_q, N_k, d_v = namespace(Q=Q), compat.device(Q), Q.shape[-2], K.shape[-2], V.shape[-1]
    Q, K, V = widen(Q) * (default_scale(Q.shape[-1]) * exponent_factor(Q)), widen(K), widen(V)
    limits = _Limits(xp, device, before, after)
    ahead = N_k - N_q  # query i stands at key i + ahead
    unread = min(N_q, max(0, -ahead - after))  # the first queries, which reach no key
    outputs = [xp.zeros((*batch, unread, d_v), dtype=Q.dtype, device=device)]
    for start in range(unread, N_q, 64):
        q = Q[..., start : start + 64, :]
        place, n = start + ahead, q.shape[-2]
        keys = slice(max(0, place - before), min(N_k, place + n + after))  # what these queries reach together
        k, v = K[..., keys, :], V[..., keys, :]
        S = xp.matrix_transpose(k @ xp.matrix_transpose(q))  # one key after another in memory, as the limits
        S = _minimum(S, limits(place - keys.start, n, k.shape[-2], q.dtype))
        top = xp.maximum(xp.max(S, axis=-1, keepdims=True), _least(S))
        A = _weights(S, top)
        outputs.append(divide_fresh(A @ v, A @ xp.ones_like(v[..., :1])))
    return narrow(xp.concat(outputs, axis=-2), dtype)


def _check_heads(Q: Any, K: Any, V: Any) -> tuple[int, ...]:
    """Return the batch axes that Q, K and V share; raise unless they fit."""
    floating_namespace(Q=Q, K=K, V=V)
    batch = check_queries_and_keys(Q, K)[:-2]
    check_axes("V", V, "N_k d_v")
    check_same("N_k", K=K.shape[-2], V=V.shape[-2])
    return check_batch(S=batch, V=V.shape[:-2])


def _check_chunk(chunk: Any) -> tuple[int, int]:
    """Return (queries, keys) of one block; raise unless both are whole numbers of at least 1."""
    if chunk is None:
        return 256, 512  # measured with both libraries: such a block of scores stays in the processor's cache
    pair = tuple(chunk) if isinstance(chunk, Sequence) and not isinstance(chunk, str) else (chunk, chunk)
    if len(pair) != 2:
        raise ValueError(f"chunk must be one whole number, or two for queries and keys, not {chunk!r}.")
    return check_whole("chunk", pair[0], least=1), check_whole("chunk", pair[1], least=1)


def _online_softmax(Q, K, V, mask, limits, chunk):
    """Return H of one head in blocks of queries; each reads the blocks of keys that it may read."""
    xp, (N_q, d_h), N_k = namespace(Q=Q), Q.shape, K.shape[0]
    ahead = N_k - N_q  # query i stands at key i + ahead
    unread = min(N_q, max(0, -ahead - limits.after))  # the first queries, which reach no key
    Q = Q * (default_scale(d_h) * exponent_factor(Q))
    ones = xp.ones_like(V[:, :1])  # A @ ones sums over the keys, as fast as a product of matrices
    least = _least(Q)
    outputs = [xp.zeros((unread, V.shape[1]), dtype=V.dtype, device=compat.device(V))]
    for start in range(unread, N_q, chunk[0]):
        q = Q[start : start + chunk[0]]
        place, n = start + ahead, q.shape[0]
        stop = min(N_k, place + n + limits.after)  # what comes later, none of these queries may read
        top, total, H = least, 0.0, 0.0
        for j in range(0, stop, chunk[1]):
            keys = slice(j, min(j + chunk[1], stop))
            k, v = K[keys], V[keys]
            limit = limits(place - j, n, k.shape[0], q.dtype) if keys.stop - 1 > place + limits.after else None
            if mask is not None:
                allowed = mask[start : start + n, keys] & (True if limit is None else limit > 0)
                k, v = drop_unread(k, allowed), drop_unread(v, allowed)
            S = (k @ q.T).T  # not q @ k.T: one key after another in memory, and then maxima over keys are faster
            if mask is not None:
                S = xp.where(allowed, S, -np.inf)
            elif limit is not None:
                S = _minimum(S, limit)
            new_top = xp.maximum(top, xp.max(S, axis=-1, keepdims=True))
            A, shrink = _weights(S, new_top), power_of_fresh(top - new_top)
            total, H, top = total * shrink + A @ ones[keys], H * shrink + A @ v, new_top
        outputs.append(divide_fresh(H, total))
    return outputs


class _Limits:
    """What scores are cut down to in a block: infinity where a query may read a key, minus infinity elsewhere.

    A query reads at most `before` keys before its place, and `after` behind it. The minimum with these limits is
    several times faster than a choice by a boolean mask, and most blocks have their limits in common.
    """

    def __init__(self, xp: Any, device: Any, before: int, after: int):
        self.xp, self.device, self.before, self.after, self.made = xp, device, before, after, {}

    def __call__(self, ahead: int, n_q: int, n_k: int, dtype: Any) -> Any:
        """Return limits [n_q, n_k] for queries of which the first stands `ahead` places after the first key."""
        xp, at = self.xp, (ahead, n_q, n_k)
        if at not in self.made:
            if len(self.made) == 8:  # so few are in use at a time; all those of a wide window would fill N² numbers
                self.made.clear()
            i = xp.arange(n_q, device=self.device)[None, :] + ahead
            j = xp.arange(n_k, device=self.device)[:, None]
            allowed = (j >= i - self.before) & (j <= i + self.after)
            infinite = xp.full((1, 1), np.inf, dtype=dtype, device=self.device)
            self.made[at] = xp.where(allowed, infinite, -infinite).T  # in memory key after key, as the scores
        return self.made[at]


def _least(x: Any) -> Any:
    """Return the smallest finite number of x's dtype: where a running maximum starts.

    From minus infinity a row whose first block is masked would come to -inf - (-inf), which is NaN.
    """
    xp = namespace(x=x)
    return xp.full((1, 1), xp.finfo(x.dtype).min, dtype=x.dtype, device=compat.device(x))


def _minimum(S: Any, limit: Any) -> Any:
    """Return the minimum of S and its limits, in the memory of S unless autograd still needs it."""
    xp = namespace(S=S)
    return xp.minimum(S, limit) if needed_by_autograd(S) else xp.minimum(S, limit, out=S)


def _weights(S: Any, top: Any) -> Any:
    """Return the power of S - top, in the memory of S, which the processor has at hand, unless autograd needs it."""
    if needed_by_autograd(S):
        return power_of_fresh(S - top)
    S -= top
    return power_of_fresh(S)


def elu_plus_one(X: Float[Any, "*b d"]) -> Float[Any, "*b d"]:
    r"""Map each component to a positive number: the features of linear attention.

    .. math:: \varphi(x) = \mathrm{elu}(x) + 1 = \begin{cases} x + 1 & x > 0 \\ e^x & x \le 0 \end{cases}

    Parameters
    ----------
    X : array

    Returns
    -------
    array
        Of the same shape.

    References
    ----------
    Katharopoulos et al., "Transformers are RNNs", 2020, equation 7.

    Examples
    --------
    >>> import numpy as np
    >>> elu_plus_one(np.array([-np.log(4), 0.0, 2.0]))
    array([0.25, 1.  , 3.  ])
    """
    xp = floating_namespace(X=X)
    zero = xp.zeros((1,), dtype=X.dtype, device=compat.device(X))
    return xp.maximum(X, zero) + xp.exp(xp.minimum(X, zero))


def linear_attention(
    Q: Float[Any, "*#b N_q d_h"],
    K: Float[Any, "*#b N_k d_h"],
    V: Float[Any, "*#b N_k d_v"],
    *,
    causal: bool = False,
    feature_map: Callable[[Any], Any] = elu_plus_one,
) -> Float[Any, "*b N_q d_v"]:
    r"""Weigh values by products of positive features, which can be summed over the keys beforehand.

    .. math::

        H_i = \frac{\varphi(q_i)^{\mathsf T} Z_i}{\varphi(q_i)^{\mathsf T} z_i}, \qquad
        Z_i = \sum_j \varphi(k_j)\, v_j^{\mathsf T}, \qquad z_i = \sum_j \varphi(k_j)

    The sums run over all keys, or, if causal, over those up to the query's place. This is *another* function than
    softmax attention, not an approximation of it.

    Parameters
    ----------
    Q : array, shape (..., N_q, d_h)
    K : array, shape (..., N_k, d_h)
    V : array, shape (..., N_k, d_v)
    causal : bool
        Each query reads up to its own place; the last query stands at the last key. Keys enter the state (Z, z)
        by chunks.
    feature_map : callable
        φ: maps Q and K along their last axis to features that are not negative.

    Returns
    -------
    array, shape (..., N_q, d_v)
        H. A query that may read nothing, or whose features all are 0, gets 0.

    Raises
    ------
    TypeError, ValueError
        As in `attention`.

    References
    ----------
    Katharopoulos et al., "Transformers are RNNs: Fast Autoregressive Transformers with Linear Attention", 2020,
    equations 5 to 12.

    Examples
    --------
    >>> import numpy as np
    >>> Q, K, V = np.array([[1.0, 2.0]]), np.eye(2), np.array([[1.0], [3.0]])
    >>> linear_attention(Q, K, V, feature_map=lambda X: X).round(4)  # (1 * 1 + 2 * 3) / (1 + 2)
    array([[2.3333]])
    """
    xp = floating_namespace(Q=Q, K=K, V=V)
    batch = _check_heads(Q, K, V)
    dtype, N_q, N_k, size = Q.dtype, Q.shape[-2], K.shape[-2], 64
    Q, K, V = widen(Q), widen(K), widen(V)
    if not causal:
        return narrow(_ratio(feature_map(Q) @ (xp.matrix_transpose(feature_map(K)) @ _with_ones(V))), dtype)
    unread = max(0, N_q - N_k)  # queries that come before every key
    place = max(0, N_k - N_q)  # of the first query that reads: the keys before it are in the state already
    state = xp.matrix_transpose(feature_map(K[..., :place, :])) @ _with_ones(V[..., :place, :])
    outputs = [xp.zeros((*batch, unread, V.shape[-1]), dtype=Q.dtype, device=compat.device(Q))]
    for first in range(unread, N_q, size):
        keys = slice(first - unread + place, first - unread + place + size)
        # features of these tokens alone: they stay in the processor's cache until they are used
        q, k_T = feature_map(Q[..., first : first + size, :]), xp.matrix_transpose(feature_map(K[..., keys, :]))
        v1 = _with_ones(V[..., keys, :])
        H = _ratio(xp.tril(q @ k_T) @ v1 + q @ state)
        outputs.append(xp.broadcast_to(H, (*batch, *H.shape[-2:])))
        state = state + k_T @ v1
    return narrow(xp.concat(outputs, axis=-2), dtype)


def _with_ones(V: Any) -> Any:
    """Put a column of ones beside the values: a product with weights then brings their sum along."""
    xp = namespace(V=V)
    return xp.concat([V, xp.ones_like(V[..., :1])], axis=-1)


def _ratio(H1: Any) -> Any:
    """Divide by the last column, which holds the sum of weights; 0 where that is 0."""
    total = H1[..., -1:]
    return H1[..., :-1] / (total + (total == 0))


def linear_attention_step(
    state: Float[Any, "*b d_phi d_v_plus_1"] | None,
    q: Float[Any, "*b d_h"],
    k: Float[Any, "*b d_h"],
    v: Float[Any, "*b d_v"],
    *,
    feature_map: Callable[[Any], Any] = elu_plus_one,
) -> tuple[Float[Any, "*b d_phi d_v_plus_1"], Float[Any, "*b d_v"]]:
    r"""Read one token more: causal `linear_attention` as a recurrent network.

    .. math:: [Z, z] \leftarrow [Z, z] + \varphi(k)\, [v, 1]^{\mathsf T}, \qquad
        h = \frac{\varphi(q)^{\mathsf T} Z}{\varphi(q)^{\mathsf T} z}

    Parameters
    ----------
    state : array, shape (..., d_phi, d_v + 1), or None
        [Z, z], what the tokens before have left: z is the last column. None before the first token.
    q, k : array, shape (..., d_h)
    v : array, shape (..., d_v)
    feature_map : callable
        As in `linear_attention`.

    Returns
    -------
    state : array, shape (..., d_phi, d_v + 1)
        A new array; its size does not depend on how many tokens were read.
    h : array, shape (..., d_v)
        The output for this token.

    References
    ----------
    Katharopoulos et al., "Transformers are RNNs", 2020, equations 16 to 20.

    Examples
    --------
    >>> import numpy as np
    >>> state = None
    >>> for x in np.eye(2):
    ...     state, h = linear_attention_step(state, x, x, np.array([x[0]]))
    >>> state.shape, h.round(2)
    ((2, 2), array([0.44]))
    """
    xp = floating_namespace(q=q, k=k, v=v)
    v1 = _with_ones(v)
    new = feature_map(k)[..., :, None] * v1[..., None, :]
    state = new if state is None else state + new
    return state, _ratio(xp.sum(feature_map(q)[..., :, None] * state, axis=-2))


class KVCache:
    """Keys and values of the tokens read so far, in arrays that are made once.

    Parameters
    ----------
    B : int
        Sentences.
    N_max : int
        Tokens that fit.
    h_kv : int
        Heads of keys and values.
    d_h : int
        Width of a key.
    d_v : int, optional
        Width of a value; d_h unless given.
    like : array, optional
        Gives library, dtype and device. Without it: NumPy, float64.

    Attributes
    ----------
    K, V : array, shapes (B, h_kv, N_max, d_h), (B, h_kv, N_max, d_v)
        Zeros where no token has been written yet.
    lengths : integer NumPy array, shape (B,)
        How many tokens of each sentence are held.

    Examples
    --------
    >>> import numpy as np
    >>> cache = KVCache(B=2, N_max=5, h_kv=1, d_h=3)
    >>> cache.append(np.ones((2, 1, 4, 3)), np.ones((2, 1, 4, 3)), lengths=[4, 2])
    >>> cache
    KVCache(K [2, 1, 5, 3], V [2, 1, 5, 3], lengths [4, 2])
    >>> cache.nbytes
    480
    """

    def __init__(self, B: int, N_max: int, h_kv: int, d_h: int, d_v: int | None = None, *, like: Any = None):
        sizes = {"B": B, "N_max": N_max, "h_kv": h_kv, "d_h": d_h, "d_v": d_h if d_v is None else d_v}
        B, N_max, h_kv, d_h, d_v = (check_whole(name, size, least=1) for name, size in sizes.items())
        xp, device = new_array_namespace(like)
        dtype = xp.float64 if like is None else like.dtype
        self.K = xp.zeros((B, h_kv, N_max, d_h), dtype=dtype, device=device)
        self.V = xp.zeros((B, h_kv, N_max, d_v), dtype=dtype, device=device)
        self.lengths = np.zeros(B, dtype=np.int64)

    @classmethod
    def for_weights(cls, weights: MultiHeadWeights, B: int, N_max: int) -> "KVCache":
        """Return an empty cache for the keys and values that these weights make, in their library and dtype."""
        h_kv = weights.h_kv
        d_h, d_v = weights.W_K.shape[1] // h_kv, weights.W_V.shape[1] // h_kv
        return cls(B, N_max, h_kv, d_h, d_v, like=weights.W_K)

    def __repr__(self) -> str:
        return f"KVCache(K {shape_of(self.K)}, V {shape_of(self.V)}, lengths {self.lengths.tolist()})"

    @property
    def nbytes(self) -> int:
        """Bytes of K and V together."""
        return self.K.nbytes + self.V.nbytes

    def append(self, K: Any, V: Any, lengths: Any = None) -> None:
        """Write the keys and values of new tokens behind those that are there.

        Parameters
        ----------
        K, V : array, shapes (B, h_kv, n, d_h), (B, h_kv, n, d_v)
        lengths : B integers, optional
            How many of the n tokens are real in each sentence; the others, at the end, are padding and are not
            stored. All n unless given.

        Raises
        ------
        TypeError, ValueError
            The arrays do not fit the cache, or it is full; then nothing has been written.
        """
        floating_namespace(K=K, V=V, cache=self.K)
        for name, Z, own in (("K", K, self.K), ("V", V, self.V)):
            check_axes(name, Z, "B h_kv n d_h", exactly=True)
            for axis, place in {"B": 0, "h_kv": 1, f"d_{'h' if name == 'K' else 'v'}": 3}.items():
                check_same(axis, **{name: Z.shape[place], "cache": own.shape[place]})
        check_same("n", K=K.shape[2], V=V.shape[2])
        new = check_lengths(lengths, K.shape[0], K.shape[2])
        ends, N_max = self.lengths + new, self.K.shape[2]
        if (ends > N_max).any():
            b = int(ends.argmax())
            raise ValueError(
                f"The cache is full: it has room for N_max = {N_max} tokens, sentence {b} has {self.lengths[b]} and "
                f"gets {new[b]} more. Make one with a larger N_max."
            )
        for b, (start, end) in enumerate(zip(self.lengths, ends, strict=True)):
            self.K[b, :, start:end] = K[b, :, : end - start]
            self.V[b, :, start:end] = V[b, :, : end - start]
        self.lengths = ends


def check_lengths(lengths: Any, B: int, n: int) -> np.ndarray:
    """Return for each of B sentences how many of n tokens are real; all n where `lengths` is None."""
    if lengths is None:
        return np.full(B, n, dtype=np.int64)
    lengths = lengths.tolist() if hasattr(lengths, "tolist") else lengths
    if not isinstance(lengths, Sequence):
        raise TypeError(f"lengths must hold {B} whole numbers, not {lengths!r}.")
    lengths = [check_whole("each of lengths", x, least=0) for x in lengths]
    if len(lengths) != B:
        raise ValueError(f"lengths has {len(lengths)} numbers, but there are B = {B} sentences.")
    if max(lengths) > n:
        raise ValueError(f"lengths has {max(lengths)}, but there are only n = {n} new tokens.")
    return np.array(lengths, dtype=np.int64)


def decode_step(
    x: Float[Any, "B n d_model"], weights: MultiHeadWeights, cache: KVCache, *, lengths: Any = None
) -> Float[Any, "B n d_model"]:
    r"""Let new tokens read all tokens so far, whose keys and values need not be computed again.

    .. math:: q = x W^Q, \qquad K \leftarrow [K; x W^K], \quad V \leftarrow [V; x W^V], \qquad
        \tilde x = \operatorname{concat}_a \bigl(\operatorname{Attention}(q_a, K_a, V_a)\bigr)\, W^O

    Parameters
    ----------
    x : array, shape (B, n, d_model)
        The new tokens: mostly one a sentence (n = 1), or a whole prompt. Among themselves they are causal.
    weights : MultiHeadWeights
    cache : KVCache
        Grows by the new tokens.
    lengths : B integers, optional
        How many of the n tokens are real in each sentence; the others, at the end, are padding. All n unless given.

    Returns
    -------
    array, shape (B, n, d_model)
        What `multi_head_attention` of the whole sentence with a causal mask gives for these tokens. A padded token
        reads nothing.

    Raises
    ------
    TypeError, ValueError
        Shapes do not fit, or the cache is full; then it is left as it was.

    Notes
    -----
    The arrays of the cache are overwritten, which autograd cannot follow: decode under ``torch.no_grad()``.

    Examples
    --------
    >>> import numpy as np
    >>> from attnlib import causal_mask, multi_head_attention
    >>> X, weights = np.random.default_rng(0).normal(size=(1, 6, 12)), MultiHeadWeights.random(12, 3, seed=0)
    >>> cache = KVCache.for_weights(weights, B=1, N_max=6)
    >>> steps = [decode_step(X[:, t : t + 1], weights, cache) for t in range(6)]
    >>> whole = multi_head_attention(X, weights, mask=causal_mask(6)).output
    >>> bool(np.allclose(np.concatenate(steps, axis=1), whole, rtol=0, atol=1e-12))
    True
    """
    for name, value, kind in (("weights", weights, MultiHeadWeights), ("cache", cache, KVCache)):
        if not isinstance(value, kind):
            raise TypeError(f"{name} must be {'a ' * (kind is KVCache)}{kind.__name__}, not {type(value).__name__}.")
    floating_namespace(x=x, W_Q=weights.W_Q, cache=cache.K)
    check_axes("x", x, "B n d_model", exactly=True)
    check_same("B", x=x.shape[0], cache=cache.K.shape[0])
    check_same("d_model", x=x.shape[2], W_Q=weights.W_Q.shape[0])
    new = check_lengths(lengths, x.shape[0], x.shape[1])
    real = np.arange(x.shape[1]) < new[:, None]  # [B, n]
    Q = split_heads(project(x, weights.W_Q, weights.b_Q), weights.h)
    K = split_heads(project(x, weights.W_K, weights.b_K), weights.h_kv)
    V = split_heads(project(x, weights.W_V, weights.b_V), weights.h_kv)
    if getattr(Q, "requires_grad", False):
        raise ValueError(
            "decode_step overwrites the arrays of its cache, which gradients cannot follow: call it under "
            "torch.no_grad(). Training takes multi_head_attention with a causal mask."
        )
    places = cache.lengths[:, None] + np.arange(x.shape[1])  # [B, n]
    cache.append(K, V, lengths=new)
    N = int(cache.lengths.max())
    mask = (np.arange(N) <= places[:, :, None]) & real[:, :, None]
    K, V = (repeat_heads(Z[:, :, :N], weights.h) for Z in (cache.K, cache.V))
    H = attention(Q, K, V, mask=None if mask.all() else mask[:, None]).H
    return project(concat_heads(H), weights.W_O, weights.b_O)


def rotate(X: Float[Any, "*b N d_h"], *, start: int = 0, base: float = 10000.0) -> Float[Any, "*b N d_h"]:
    r"""Turn each pair of components by an angle that grows with the token's place: rotary positions.

    .. math::

        \begin{pmatrix} x'_{2l} \\ x'_{2l+1} \end{pmatrix} =
        \begin{pmatrix} \cos p\theta_l & -\sin p\theta_l \\ \sin p\theta_l & \cos p\theta_l \end{pmatrix}
        \begin{pmatrix} x_{2l} \\ x_{2l+1} \end{pmatrix}, \qquad \theta_l = \text{base}^{-2l/d_h}

    Parameters
    ----------
    X : array, shape (..., N, d_h)
        Queries or keys; d_h is even.
    start : int
        The place p of the first row, such as the number of tokens that a cache holds.
    base : float
        The slowest pair turns about ``base`` times slower than the first.

    Returns
    -------
    array, shape (..., N, d_h)
        Dot products of rotated queries and keys depend on the distance of their places alone.

    Raises
    ------
    TypeError, ValueError
        d_h is odd, or start is not a whole number.

    References
    ----------
    Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021, equations 14 and 15.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[1.0, 0.0]])
    >>> rotate(x, start=5).round(2), float((rotate(x, start=5) @ rotate(x, start=3).T).round(2)[0, 0])
    (array([[ 0.28, -0.96]]), -0.42)
    """
    xp = floating_namespace(X=X)
    check_axes("X", X, "N d_h")
    N, d_h = X.shape[-2:]
    if d_h % 2:
        raise ValueError(f"X has shape {shape_of(X)}: its last axis, d_h = {d_h}, must be even, as pairs are turned.")
    places = check_whole("start", start) + np.arange(N)
    angles = places[:, None] * float(base) ** (-np.arange(0, d_h, 2) / d_h)
    cos, sin = (xp.asarray(f(angles), dtype=widen(X).dtype, device=compat.device(X)) for f in (np.cos, np.sin))
    even, odd = widen(X)[..., 0::2], widen(X)[..., 1::2]
    turned = xp.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1)
    return narrow(xp.reshape(turned, X.shape), X.dtype)
