"""Chapter 9: what every right attention does, as six tests. Each takes an attention and says whether it passes.

An attention here is a function ``attend(X, weights, *, context=None, words=None, causal=False)``. It returns a trace:
an object with ``A``, ``output`` and ``shapes()``. ``words`` is boolean, [B, N_k]: True for a word, False for padding.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from attnlib.masks import causal_mask, padding_mask
from attnlib.multi_head import AttentionTrace, MultiHeadWeights, multi_head_attention
from attnlib.shapes import check_shapes

Attend = Callable[..., Any]


def attend_right(
    X: Any, weights: MultiHeadWeights, *, context: Any = None, words: Any = None, causal: bool = False
) -> AttentionTrace:
    """Call `multi_head_attention` with the masks that `words` and `causal` ask for.

    Parameters
    ----------
    X : array, shape (B, N_q, d_model)
    weights : MultiHeadWeights
    context : array, shape (B, N_k, d_context), optional
        The tokens that are read; X itself unless given.
    words : boolean array, shape (B, N_k), optional
        True for a word, False for padding, which nobody reads.
    causal : bool
        No token reads what comes after it.

    Returns
    -------
    AttentionTrace

    Examples
    --------
    >>> X, weights = random_input(np.random.default_rng(0), B=2, N=5, d_model=12, h=3)
    >>> attend_right(X, weights, causal=True).A[0, 0, 0].round(2)
    array([1., 0., 0., 0., 0.])
    """
    mask = None if words is None else padding_mask(np.asarray(words).astype(int), 0)
    if causal:
        past = causal_mask(X.shape[1], (X if context is None else context).shape[1])
        mask = past if mask is None else mask & past
    return multi_head_attention(X, weights, context=context, mask=mask)


def random_input(
    rng: np.random.Generator, *, B: int, N: int, d_model: int, h: int
) -> tuple[np.ndarray, MultiHeadWeights]:
    """Return random token vectors [B, N, d_model] and weights for h heads."""
    return rng.normal(size=(B, N, d_model)), MultiHeadWeights.random(d_model, h, seed=int(rng.integers(2**31)))


def padded_right(B: int, N: int) -> np.ndarray:
    """Return [B, N] booleans: the first sentence is full, each next one loses one more of its last tokens."""
    lengths = np.maximum(1, N - np.arange(B))
    return np.arange(N)[None, :] < lengths[:, None]


def _close(a: Any, b: Any) -> bool:
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=0, atol=1e-9))


def shapes_agree(attend: Attend, *, B: int = 2, N: int = 5, d_model: int = 12, h: int = 3) -> bool:
    """Every tensor has the shape that `shape_table` predicts. `why_shapes_disagree` says which has not."""
    return why_shapes_disagree(attend, B=B, N=N, d_model=d_model, h=h) is None


def why_shapes_disagree(attend: Attend, *, B: int = 2, N: int = 5, d_model: int = 12, h: int = 3) -> str | None:
    """Return what `check_shapes` says of a run with both masks, or None where all shapes agree.

    If the attention has ``steps``, each tensor is checked before the next is made.
    """
    X, weights = random_input(np.random.default_rng(0), B=B, N=N, d_model=d_model, h=h)
    options = {"words": padded_right(B, N), "causal": True}
    sizes = {"B": B, "N": N, "d_model": d_model, "h": h, "d_h": d_model // h, "d_v": d_model // h}
    try:
        trace = attend.steps(X, weights, **options) if hasattr(attend, "steps") else attend(X, weights, **options)
        check_shapes(trace, **sizes)
    except ValueError as error:
        return str(error)
    return None


def rows_sum_to_1(attend: Attend, *, B: int = 2, N: int = 5, d_model: int = 12, h: int = 3) -> bool:
    """Each row of A sums to 1 and holds nothing negative: without a mask, causal, and beside padding."""
    X, weights = random_input(np.random.default_rng(1), B=B, N=N, d_model=d_model, h=h)
    for options in ({}, {"causal": True}, {"words": padded_right(B, N)}):
        A = attend(X, weights, **options).A
        if not (_close(A.sum(axis=-1), np.ones(A.shape[:-1])) and (A >= 0).all()):
            return False
    return True


def order_does_not_matter(attend: Attend, *, B: int = 2, N: int = 5, d_model: int = 12, h: int = 3) -> bool:
    """Without a mask, shuffled tokens take their outputs along."""
    rng = np.random.default_rng(2)
    X, weights = random_input(rng, B=B, N=N, d_model=d_model, h=h)
    order = np.roll(rng.permutation(N), 1)
    return _close(attend(X[:, order], weights).output, attend(X, weights).output[:, order])


def future_does_not_matter(attend: Attend, *, B: int = 2, N: int = 5, d_model: int = 12, h: int = 3) -> bool:
    """Under the causal mask, another token at place j moves no output before j, and does move output j."""
    rng = np.random.default_rng(3)
    X, weights = random_input(rng, B=B, N=N, d_model=d_model, h=h)
    before = attend(X, weights, causal=True).output
    for j in range(N):
        changed = X.copy()
        changed[:, j] = rng.normal(size=(B, d_model))
        after = attend(changed, weights, causal=True).output
        if not _close(after[:, :j], before[:, :j]) or np.allclose(after[:, j], before[:, j]):
            return False
    return True


def padding_does_not_matter(attend: Attend, *, B: int = 2, N: int = 5, d_model: int = 12, h: int = 3) -> bool:
    """Padding, on either side, leaves the outputs of the words as they are without it."""
    rng = np.random.default_rng(4)
    X, weights = random_input(rng, B=B, N=N, d_model=d_model, h=h)
    alone = attend(X, weights).output
    for left, right in ((0, 2), (2, 0)):
        padded = np.concatenate([rng.normal(size=(B, n, d_model)) for n in (left, N, right)], axis=1)
        padded[:, left : left + N] = X
        words = np.zeros((B, left + N + right), dtype=bool)
        words[:, left : left + N] = True
        if not _close(attend(padded, weights, words=words).output[:, left : left + N], alone):
            return False
    return True


def equals_reference(attend: Attend, *, B: int = 2, N: int = 5, d_model: int = 12, h: int = 3) -> bool:
    """The output is that of `multi_head_attention`: with each mask, another context, and rows that are empty."""
    X, weights = random_input(np.random.default_rng(5), B=B, N=N, d_model=d_model, h=h)
    right, left = padded_right(B, N), padded_right(B, N)[:, ::-1]
    context = np.random.default_rng(6).normal(size=(B, N + 2, d_model))
    return all(
        _close(attend(X, weights, **options).output, attend_right(X, weights, **options).output)
        for options in (
            {},
            {"causal": True},
            {"words": right},
            {"words": left},
            {"words": left, "causal": True},  # the first query of a sentence padded on the left may read nothing
            {"context": context, "causal": True},  # fewer queries than keys
        )
    )


TESTS: dict[str, Callable[..., bool]] = {
    "shapes": shapes_agree,
    "row sums": rows_sum_to_1,
    "permutation": order_does_not_matter,
    "causality": future_does_not_matter,
    "padding": padding_does_not_matter,
    "reference": equals_reference,
}


def outcome(test: Callable[..., bool], attend: Attend, **sizes: int) -> str:
    """Return "passed", "caught" (the test says no) or "crashed" (the attention raises: caught as well)."""
    try:
        with np.errstate(all="ignore"):
            return "passed" if test(attend, **sizes) else "caught"
    except Exception:
        return "crashed"


def outcomes(
    attends: Iterable[Attend], tests: Iterable[Callable[..., bool]] = tuple(TESTS.values()), **sizes: int
) -> np.ndarray:
    """Return the outcome of every test (columns) on every attention (rows), as an array of words.

    Examples
    --------
    >>> outcomes([attend_right]).tolist()
    [['passed', 'passed', 'passed', 'passed', 'passed', 'passed']]
    """
    tests = tuple(tests)
    return np.array([[outcome(test, attend, **sizes) for test in tests] for attend in attends])
