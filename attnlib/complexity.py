"""Chapter 8: what attention costs. Multiply-adds and bytes as exact formulas, and time and memory as measured."""

import math
import time
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from attnlib._arrays import check_whole
from attnlib.multi_head import check_heads, check_kv_heads


class _Sizes(NamedTuple):
    B: int
    N_q: int
    N_k: int
    d_model: int
    d_context: int
    h: int
    d_h: int
    d_v: int
    h_kv: int


def _sizes(B, N_q, d_model, h, N_k, d_context, d_h, d_v, h_kv=None) -> _Sizes:
    """Return all sizes as checked whole numbers; what is None gets what it has in plain self-attention."""
    B, N_q, d_model, h = (
        check_whole(name, value, least=1) for name, value in {"B": B, "N_q": N_q, "d_model": d_model, "h": h}.items()
    )
    if d_h is None:
        d_h = d_model // check_heads(h, d_model, "d_model")
    d_h = check_whole("d_h", d_h, least=1)
    N_k = N_q if N_k is None else check_whole("N_k", N_k, least=1)
    d_context = d_model if d_context is None else check_whole("d_context", d_context, least=1)
    d_v = d_h if d_v is None else check_whole("d_v", d_v, least=1)
    return _Sizes(B, N_q, N_k, d_model, d_context, h, d_h, d_v, check_kv_heads(h_kv, h))


def multiply_adds(
    B: int,
    N_q: int,
    d_model: int,
    h: int,
    *,
    N_k: int | None = None,
    d_context: int | None = None,
    d_h: int | None = None,
    d_v: int | None = None,
    d_ff: int = 0,
    h_kv: int | None = None,
) -> dict[str, int]:
    r"""Count the multiply-adds of one layer, step by step. Twice as many are its FLOPs.

    .. math::

        \begin{aligned}
        Q &: B N_q\, d_\mathrm{model}\, h d_h &
        S = QK^{\mathsf T} &: B h\, N_q N_k\, d_h \\
        K &: B N_k\, d_\mathrm{context}\, h_{kv} d_h &
        H = AV &: B h\, N_q N_k\, d_v \\
        V &: B N_k\, d_\mathrm{context}\, h_{kv} d_v &
        \text{output} &: B N_q\, h d_v\, d_\mathrm{model} \\
        & & \text{FFN} &: 2 B N_q\, d_\mathrm{model}\, d_\mathrm{ff}
        \end{aligned}

    Parameters
    ----------
    B, N_q, d_model, h : int
        Sentences, queries, width, heads.
    N_k : int, optional
        Keys; as many as queries unless given (self-attention).
    d_context : int, optional
        Width of the tokens that are read; d_model unless given.
    d_h, d_v : int, optional
        Widths of a head's keys and values; d_h is d_model / h unless given, and d_v is d_h.
    d_ff : int
        Hidden width of the feed-forward network; 0 for a layer without one.
    h_kv : int, optional
        Heads of keys and values; h unless given.

    Returns
    -------
    dict of str to int
        By the tensor that the step makes: Q, K, V, S, A, H, output, FFN. A is 0: softmax multiplies no matrices,
        and `softmax_operations` counts what it does. Masked pairs count, since the products compute them.

    Raises
    ------
    TypeError, ValueError
        A size is not a whole number of at least 1, or d_model is not divisible by h.

    Examples
    --------
    >>> multiply_adds(B=2, N_q=7, d_model=12, h=3)
    {'Q': 2016, 'K': 2016, 'V': 2016, 'S': 1176, 'A': 0, 'H': 1176, 'output': 2016, 'FFN': 0}
    """
    s = _sizes(B, N_q, d_model, h, N_k, d_context, d_h, d_v, h_kv)
    d_ff = check_whole("d_ff", d_ff, least=0)
    return {
        "Q": s.B * s.N_q * s.d_model * s.h * s.d_h,
        "K": s.B * s.N_k * s.d_context * s.h_kv * s.d_h,
        "V": s.B * s.N_k * s.d_context * s.h_kv * s.d_v,
        "S": s.B * s.h * s.N_q * s.N_k * s.d_h,
        "A": 0,
        "H": s.B * s.h * s.N_q * s.N_k * s.d_v,
        "output": s.B * s.N_q * s.h * s.d_v * s.d_model,
        "FFN": 2 * s.B * s.N_q * s.d_model * d_ff,
    }


def softmax_operations(B: int, N_q: int, h: int, *, N_k: int | None = None) -> dict[str, int]:
    r"""Count what softmax does to the scores, which no count of multiply-adds contains.

    .. math:: A_{ij} = e^{S_{ij}-m_i} \Big/ \sum_{j'} e^{S_{ij'}-m_i}, \qquad m_i = \max_{j'} S_{ij'}

    Parameters
    ----------
    B, N_q, h : int
    N_k : int, optional
        Keys; as many as queries unless given.

    Returns
    -------
    dict of str to int
        maximum and sum: B h N_q (N_k - 1) each; difference, exponential and quotient: B h N_q N_k each.

    Examples
    --------
    >>> softmax_operations(B=1, N_q=2, h=1, N_k=3)
    {'maximum': 4, 'difference': 6, 'exponential': 6, 'sum': 4, 'quotient': 6}
    """
    given = {"B": B, "N_q": N_q, "h": h, "N_k": N_q if N_k is None else N_k}
    B, N_q, h, N_k = (check_whole(name, value, least=1) for name, value in given.items())
    every, per_row = B * h * N_q * N_k, B * h * N_q * (N_k - 1)
    return {"maximum": per_row, "difference": every, "exponential": every, "sum": per_row, "quotient": every}


def tensor_bytes(
    B: int,
    N_q: int,
    d_model: int,
    h: int,
    *,
    itemsize: int,
    N_k: int | None = None,
    d_h: int | None = None,
    d_v: int | None = None,
    d_ff: int = 0,
    h_kv: int | None = None,
) -> dict[str, int]:
    r"""Count the bytes of every tensor of one layer: its numbers times the bytes of one number.

    .. math:: \text{bytes}(S) = \text{bytes}(A) = B h\, N_q N_k \cdot \text{itemsize}

    Parameters
    ----------
    B, N_q, d_model, h : int
    itemsize : int
        Bytes of one number: 8 for float64, 4 for float32, 2 for half precision.
    N_k, d_h, d_v, d_ff, h_kv : int, optional
        As in `multiply_adds`.

    Returns
    -------
    dict of str to int
        The names of an `AttentionTrace`, in its order; with d_ff also ``hidden``, what the feed-forward network
        holds between its two matrices. Without a mask S_masked may be S itself, and then it costs nothing.

    Examples
    --------
    >>> tensor_bytes(B=2, N_q=7, d_model=12, h=3, itemsize=8)["S"]
    2352
    """
    s = _sizes(B, N_q, d_model, h, N_k, None, d_h, d_v, h_kv)
    itemsize = check_whole("itemsize", itemsize, least=1)
    d_ff = check_whole("d_ff", d_ff, least=0)
    queries, keys, pairs = s.B * s.N_q, s.B * s.N_k, s.B * s.h * s.N_q * s.N_k
    numbers = {
        "X": queries * s.d_model,
        "Q": queries * s.h * s.d_h,
        "K": keys * s.h_kv * s.d_h,
        "V": keys * s.h_kv * s.d_v,
        "S": pairs,
        "S_masked": pairs,
        "A": pairs,
        "H": queries * s.h * s.d_v,
        "concat": queries * s.h * s.d_v,
        "output": queries * s.d_model,
    }
    if d_ff:
        numbers["hidden"] = queries * d_ff
    return {name: count * itemsize for name, count in numbers.items()}


def crossover_length(
    d_model: int, h: int = 1, *, d_h: int | None = None, d_v: int | None = None, d_ff: int = 0
) -> float:
    r"""Return the length N at which QKᵀ and AV together cost as much as everything that grows in proportion to N.

    .. math:: N^* = 2 d_\mathrm{model} + \frac{2\, d_\mathrm{model}\, d_\mathrm{ff}}{h\,(d_h + d_v)}

    Parameters
    ----------
    d_model, h : int
    d_h, d_v, d_ff : int, optional
        As in `multiply_adds`.

    Returns
    -------
    float
        With d_h = d_v = d_model / h it is 2 d_model + d_ff: 2 d_model without a feed-forward network, 6 d_model
        with one of the usual width 4 d_model.

    Examples
    --------
    >>> crossover_length(768, 12), crossover_length(768, 12, d_ff=4 * 768)
    (1536.0, 4608.0)
    """
    s = _sizes(1, 1, d_model, h, None, None, d_h, d_v)
    d_ff = check_whole("d_ff", d_ff, least=0)
    return 2 * s.d_model + 2 * s.d_model * d_ff / (s.h * (s.d_h + s.d_v))


def causal_pairs(N_q: int, N_k: int | None = None, *, window: int | None = None) -> int:
    r"""Count the pairs of query and key that a causal mask lets through: what is needed of the N_q N_k pairs.

    .. math:: \sum_{p} \min(p + 1,\, w), \qquad p \text{ the place of a query among the keys}; \quad
        \tfrac{N(N+1)}{2} \text{ for } N_q = N_k = N \le w

    Parameters
    ----------
    N_q : int
    N_k : int, optional
        As many as queries unless given. As in `causal_mask`, the last query stands at the last key.
    window : int, optional
        w: each query reads at most so many keys, the last of them its own place. Without it all up to there.

    Returns
    -------
    int

    Examples
    --------
    >>> causal_pairs(4), causal_pairs(4, window=2)
    (10, 7)
    """
    N_q = check_whole("N_q", N_q, least=0)
    N_k = N_q if N_k is None else check_whole("N_k", N_k, least=0)
    w = N_k if window is None else min(check_whole("window", window, least=1), N_k)

    def up_to(places: int) -> int:  # the sum over the first places: a triangle, then rows of w
        rising = min(places, w)
        return rising * (rising + 1) // 2 + (places - rising) * w

    return up_to(N_k) - up_to(max(N_k - N_q, 0))


def longest_context(budget: int, h: int, *, itemsize: int, B: int = 1, copies: int = 1) -> int:
    r"""Return the largest N whose score matrices fit into a budget of bytes.

    .. math:: \text{copies} \cdot B h N^2 \cdot \text{itemsize} \le \text{budget}

    Parameters
    ----------
    budget : int
        Bytes.
    h : int
        Heads: each has a matrix of its own.
    itemsize : int
        Bytes of one number.
    B : int
        Sentences.
    copies : int
        How many arrays of that size are held at once: 1 for S alone, 2 for S and A.

    Returns
    -------
    int

    Examples
    --------
    >>> longest_context(8 * 10**9, 32, itemsize=2)
    11180
    """
    given = {"budget": budget, "h": h, "itemsize": itemsize, "B": B, "copies": copies}
    budget, h, itemsize, B, copies = (check_whole(name, value, least=1) for name, value in given.items())
    return math.isqrt(budget // (copies * B * h * itemsize))


@dataclass(frozen=True)
class PublishedModel:
    """The sizes of a published model, as far as the cost of its attention depends on them.

    Attributes
    ----------
    layers, d_model, h : int
    context : int
        The longest input that it was trained for.
    source : str
        Where the sizes stand.
    """

    layers: int
    d_model: int
    h: int
    context: int
    source: str


def published_models() -> dict[str, PublishedModel]:
    """Return a few published models by name, from small to large.

    Examples
    --------
    >>> published_models()["GPT-2 XL"].h
    25
    """
    return {
        "BERT-base": PublishedModel(12, 768, 12, 512, "Devlin et al. 2018, arXiv:1810.04805, section 3"),
        "GPT-2 XL": PublishedModel(48, 1600, 25, 1024, "Radford et al. 2019, table 2; h from its hparams.json"),
        "Llama 2 7B": PublishedModel(32, 4096, 32, 4096, "Touvron et al. 2023, arXiv:2302.13971 and 2307.09288"),
        "GPT-3 175B": PublishedModel(96, 12288, 96, 2048, "Brown et al. 2020, arXiv:2005.14165, table 2.1"),
    }


def cpu_seconds(calls: Mapping[Any, Callable[[], Any]], *, rounds: int = 3, at_least: float = 0.02) -> dict[Any, float]:
    """Measure the processor time of each call: the smallest of several rounds.

    Parameters
    ----------
    calls : mapping to callables without arguments
        Such as ``{"S": functools.partial(scores, Q, K)}``.
    rounds : int
        In each round every call has its turn, so that a slow moment of the machine meets them all.
    at_least : float
        A call is repeated until so many seconds have passed, as clocks are coarse.

    Returns
    -------
    dict
        Seconds of one call, by the same keys. Processor time counts all threads and does not count waiting for other
        programs; still it varies from run to run: read ratios, not seconds.

    Examples
    --------
    >>> cpu_seconds({"sum": lambda: sum(range(1000))}, rounds=1)["sum"] > 0
    True
    """
    best = dict.fromkeys(calls, math.inf)
    for _ in range(rounds):
        for name, call in calls.items():
            runs, start, spent = 0, time.process_time(), 0.0
            while spent < at_least:
                call()
                runs += 1
                spent = time.process_time() - start
            best[name] = min(best[name], spent / runs)
    return best


def peak_bytes(call: Callable[[], Any]) -> int:
    """Measure the most bytes that a call holds at one time, beyond what was held before it.

    Parameters
    ----------
    call : callable without arguments

    Returns
    -------
    int
        By Python's own book-keeping (``tracemalloc``), which sees NumPy's arrays and not those of torch.

    Examples
    --------
    >>> import numpy as np
    >>> 8_000_000 <= peak_bytes(lambda: np.zeros(1_000_000)) < 8_100_000
    True
    """
    ours = not tracemalloc.is_tracing()
    if ours:
        tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        call()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        if ours:
            tracemalloc.stop()
    return peak - before
