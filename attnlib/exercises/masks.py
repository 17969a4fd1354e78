"""The exercises of chapter 5: a causal mask, a padding mask, and a softmax that survives a row with nothing to read."""

from collections.abc import Callable
from typing import Any

import numpy as np

from attnlib.exercises._checking import CheckResult, Exercise, Mistake, Symptom, check
from attnlib.masks import apply_mask, causal_mask, padding_mask
from attnlib.single_head import attention, softmax

# ---------------------------------------------------------------------------------------------------------------------
# The causal mask
# ---------------------------------------------------------------------------------------------------------------------


def _causal_cases(rng: np.random.Generator) -> list[tuple]:
    square = [(N, N) for N in (3, 5, int(rng.integers(6, 10)))]
    longer = [(N_q, N_q + int(rng.integers(1, 6))) for N_q in (1, 2, 4, 6)]
    return [*square, *longer]


def _tril(N_q: int, N_k: int, diagonal: int, *, from_end: bool = True) -> np.ndarray:
    """Return True up to a diagonal, which is counted from the last key or from the first."""
    return np.tril(np.ones((N_q, N_k), dtype=bool), diagonal + (N_k - N_q) * from_end)


_AT_THE_START = (
    " And look at N_q = 1, N_k = 6: the only query is the last token, and its row may read all that came before."
)


def _causal_twice(name: str, hint: str, wrong: Callable) -> tuple[Mistake, Mistake]:
    """Return a mistake with its rows aligned at the end, and the same with its rows aligned at the start as well."""
    return (
        Mistake(name, hint, lambda N_q, N_k: wrong(N_q, N_k, True)),
        Mistake(f"{name}, aligned at the start", hint + _AT_THE_START, lambda N_q, N_k: wrong(N_q, N_k, False)),
    )


CAUSAL_MASK = Exercise(
    arguments=("N_q", "N_k"),
    reference=causal_mask,
    cases=_causal_cases,
    own=(causal_mask,),
    success="The last query reads every key, also when there are fewer queries than keys.",
    symptoms=(
        Symptom(
            "the last query may not read every key, and all of them are its past or itself.",
            lambda case, got: got.dtype == bool and not got[-1].all(),
        ),
        Symptom(
            "the first query may read a token that comes after it.",
            lambda case, got: got.dtype == bool and got[0].sum() > case[1] - case[0] + 1,
        ),
    ),
    mistakes=(
        *_causal_twice(
            "the future kept",
            "True marks what may be read, and yours marks the future. Try N = 3 and read the first row aloud: "
            "which tokens may the first token read?",
            lambda N_q, N_k, from_end: ~_tril(N_q, N_k, 0, from_end=from_end),
        ),
        *_causal_twice(
            "rows and columns swapped",
            "each of your tokens reads itself and what comes after it. A row of S belongs to a query, a column to a "
            "key: which of the two is i, which is j?",
            lambda N_q, N_k, from_end: ~_tril(N_q, N_k, -1, from_end=from_end),
        ),
        *_causal_twice(
            "diagonal hidden",
            "no token may read itself, and the first of a sentence may read nothing at all. Is j = i the future?",
            lambda N_q, N_k, from_end: _tril(N_q, N_k, -1, from_end=from_end),
        ),
        *_causal_twice(
            "one step into the future",
            "each token also reads the next one, which is the one that a decoder has to guess. Where does the "
            "diagonal run for N = 3?",
            lambda N_q, N_k, from_end: _tril(N_q, N_k, 1, from_end=from_end),
        ),
        *_causal_twice(
            "0 and 1 instead of booleans",
            "a mask of numbers could also be added to the scores, and then it hides nothing. What dtype says only "
            "yes or no?",
            lambda N_q, N_k, from_end: _tril(N_q, N_k, 0, from_end=from_end).astype(float),
        ),
        *_causal_twice(
            "minus infinity instead of booleans",
            "that is an additive mask: it fits bias=, and cannot be combined with &. Answer yes or no: may query i "
            "read key j?",
            lambda N_q, N_k, from_end: np.where(_tril(N_q, N_k, 0, from_end=from_end), 0.0, -np.inf),
        ),
        Mistake(
            "−1e9 instead of booleans",
            "that is an additive mask, and −1e9 is only nearly −∞. Answer yes or no: may query i read key j?",
            lambda N_q, N_k: np.where(_tril(N_q, N_k, 0), 0.0, -1e9),
        ),
        Mistake(
            "aligned at the start",
            "right for a square, but with fewer queries than keys yours counts both from 0. The queries are the last "
            "tokens: which key stands at the place of the last query?",
            lambda N_q, N_k: _tril(N_q, N_k, 0, from_end=False),
        ),
        Mistake(
            "shifted the wrong way",
            "with fewer queries than keys, yours hides more instead of less. The first of two queries over five keys "
            "is token 3: how many keys may it read?",
            lambda N_q, N_k: np.tril(np.ones((N_q, N_k), dtype=bool), N_q - N_k),
        ),
        Mistake(
            "N_k ignored",
            "your mask is a square of N_q by N_q. Each row needs an entry for every key.",
            lambda N_q, N_k: causal_mask(N_q),
        ),
        Mistake(
            "a row for each key",
            "yours has N_k rows. A row belongs to a query.",
            lambda N_q, N_k: _tril(N_k, N_q, 0, from_end=False),
        ),
    ),
)


def check_causal_mask(fn: Any) -> CheckResult:
    """Check ``fn(N_q, N_k)``: a boolean mask [N_q, N_k], True where query i may read key j; N_q is at most N_k."""
    return check(CAUSAL_MASK, fn)


# ---------------------------------------------------------------------------------------------------------------------
# The padding mask
# ---------------------------------------------------------------------------------------------------------------------


def _padding_cases(rng: np.random.Generator) -> list[tuple]:
    cases = []
    for (B, N), pad_id, side in [
        ((2, 5), 0, "right"),
        ((3, 4), 0, "right"),
        ((2, 6), 7, "right"),  # id 0 is a word here, and so are ids below the padding
        ((4, 3), 2, "right"),
        ((3, 7), 4, "left"),
        ((5, 6), 9, "left"),
    ]:
        words = np.setdiff1d(np.arange(10), pad_id)
        T = rng.choice(words, size=(B, N))
        lengths = [N, 1, *rng.integers(1, N, size=B)][:B]  # the first sentence is full
        for row, length in zip(T, lengths, strict=True):
            row[slice(length, None) if side == "right" else slice(0, N - length)] = pad_id
        T[0, -1] = words[0]  # id 0, unless that is the padding
        cases.append((T, pad_id))
    return cases


def _keep(T: np.ndarray, pad_id: int) -> np.ndarray:
    return (T != pad_id)[:, None, :]


PADDING_MASK = Exercise(
    arguments=("T", "pad_id"),
    reference=padding_mask,
    cases=_padding_cases,
    own=(padding_mask,),
    success="Any padding id, on either side of the sentence.",
    symptoms=(
        Symptom(
            "a padding token may be read.",
            lambda case, got: got.dtype == bool and (got & ~_keep(*case)).any(),
        ),
        Symptom(
            "a word may not be read.",
            lambda case, got: got.dtype == bool and (~got & _keep(*case)).any(),
        ),
    ),
    mistakes=(
        Mistake(
            "padding kept, words hidden",
            "True marks what may be read. Which tokens does your first row let a query read?",
            lambda T, pad_id: ~_keep(T, pad_id),
        ),
        Mistake(
            "PyTorch's key_padding_mask",
            "True marks what may be read here, and yours marks the padding. The mask also has to meet scores of "
            "shape [B, N_q, N_k]: which axis is missing?",
            lambda T, pad_id: T == pad_id,
        ),
        Mistake(
            "padding id 0 assumed",
            "right as long as the padding has id 0. Another vocabulary may give that id to a word.",
            lambda T, pad_id: _keep(T, 0),
        ),
        Mistake(
            "words are the ids above the padding",
            "right while the padding has the smallest id. A word may have a smaller one.",
            lambda T, pad_id: (T > pad_id)[:, None, :],
        ),
        Mistake(
            "mask on the query axis",
            "yours hides rows: a padding token then reads nothing, but everyone still reads it. Which axis of the "
            "scores [B, N_q, N_k] belongs to what is read?",
            lambda T, pad_id: (T != pad_id)[:, :, None],
        ),
        Mistake(
            "no axis for the queries",
            "the values are right, but [B, N] would meet the last two axes of the scores, [N_q, N_k]: the batch would "
            "be taken for the queries.",
            lambda T, pad_id: T != pad_id,
        ),
        Mistake(
            "rows of padding emptied too",
            "your mask is [B, N, N] and also forbids padding tokens to read. Nobody reads their rows, and an empty row "
            "is 0/0: hide only the keys.",
            lambda T, pad_id: _keep(T, pad_id) & (T != pad_id)[:, :, None],
        ),
        Mistake(
            "the same row for every query",
            "right, and written out N times. One row is enough: which length does an axis need, to be repeated by "
            "broadcasting?",
            lambda T, pad_id: np.repeat(_keep(T, pad_id), T.shape[1], axis=1),
        ),
        Mistake(
            "an axis for the heads as well",
            "the axis of the heads is not your business: the chapter on several heads adds it itself. Scores of one "
            "head are [B, N_q, N_k].",
            lambda T, pad_id: _keep(T, pad_id)[:, None],
        ),
        Mistake(
            "0 and 1 instead of booleans",
            "a mask of numbers could also be added to the scores, and then it hides nothing. What dtype says only "
            "yes or no?",
            lambda T, pad_id: _keep(T, pad_id).astype(float),
        ),
        Mistake(
            "minus infinity instead of booleans",
            "that is an additive mask: it fits bias=, and cannot be combined with &. Answer yes or no: may this key "
            "be read?",
            lambda T, pad_id: np.where(_keep(T, pad_id), 0.0, -np.inf),
        ),
        Mistake(
            "padding expected on the right",
            "you count the words and keep that many tokens from the left. Some sentences are padded on the left.",
            lambda T, pad_id: (np.arange(T.shape[1]) < (T != pad_id).sum(axis=-1, keepdims=True))[:, None, :],
        ),
        Mistake(
            "all after the first padding token hidden",
            "where the padding stands on the left, the words come after it. Ask each token by itself.",
            lambda T, pad_id: (np.cumsum(T == pad_id, axis=-1) == 0)[:, None, :],
        ),
    ),
)


def check_padding_mask(fn: Any) -> CheckResult:
    """Check ``fn(T, pad_id)``: from ids [B, N] a boolean mask [B, 1, N], True where a key is a word."""
    return check(PADDING_MASK, fn)


# ---------------------------------------------------------------------------------------------------------------------
# A softmax that survives an empty row
# ---------------------------------------------------------------------------------------------------------------------


def _masked_softmax_cases(rng: np.random.Generator) -> list[tuple]:
    cases = []
    for shape, mask_shape, dtype, empty in [
        ((3, 5), (3, 5), np.float64, False),
        ((4, 4), (4, 4), np.float64, False),
        ((4, 3), (4, 3), np.float64, True),
        ((2, 3, 5), (2, 1, 5), np.float64, True),  # a whole sentence of padding
        ((3, 6), (3, 6), np.float32, True),
        ((2, 5, 4), (5, 4), np.float32, True),
        ((5, 3), (5, 3), np.float16, False),
        ((4, 6), (4, 6), np.float16, True),
    ]:
        mask = rng.random(mask_shape) < 0.6
        mask[..., 0] = True
        if empty:
            mask[0] = False
        scores = rng.normal(size=shape) * 2
        scores[..., 1, 0] = 12.0  # e^12 is too large for float16
        cases.append((scores.astype(dtype), mask))
    forbidden = rng.normal(size=(2, 4))
    forbidden[0, 2] = 1000.0  # the largest score of all may not be read
    cases.append((forbidden, np.array([[True, True, False, True], [True, False, True, True]])))
    far_apart = rng.normal(size=(3, 4)) + np.array([[1000.0], [0.0], [0.0]])
    cases.append((far_apart, np.tri(3, 4, 1, dtype=bool)))
    return cases


def _fill(S: np.ndarray, mask: np.ndarray, value: float = -np.inf) -> np.ndarray:
    return np.where(mask, S, value)


def _plain_softmax(S: np.ndarray) -> np.ndarray:
    exps = np.exp(S - S.max(axis=-1, keepdims=True))
    return exps / exps.sum(axis=-1, keepdims=True)


def _indexed(S: np.ndarray, mask: np.ndarray) -> np.ndarray:
    S = S.copy()
    S[~mask] = -np.inf
    return softmax(S)


def _shares(exps: np.ndarray, axis: int = -1) -> np.ndarray:
    """Return exponentials divided by their sum; where the sum is 0, zeros."""
    total = exps.sum(axis=axis, keepdims=True)
    return exps / np.where(total == 0, total.dtype.type(1), total)


def _top(S: np.ndarray, mask: np.ndarray, axis: int = -1) -> np.ndarray:
    """Return the largest score that may be read; 0 where there is none."""
    top = _fill(S, mask).max(axis=axis, keepdims=True)
    return np.where(np.isneginf(top), top.dtype.type(0), top)


MASKED_SOFTMAX = Exercise(
    arguments=("S", "mask"),
    reference=lambda S, mask: softmax(apply_mask(S, mask)),
    cases=_masked_softmax_cases,
    own=(softmax, apply_mask, attention),
    keeps_dtype=True,
    success="Rows sum to 1 or are 0, in three dtypes.",
    symptoms=(
        Symptom(
            "a row that may read nothing has weights; they should be 0.",
            lambda case, A: (A * ~np.broadcast_to(case[1].any(axis=-1, keepdims=True), A.shape) != 0).any(),
        ),
        Symptom(
            "a key that may not be read has a weight.",
            lambda case, A: (A[~np.broadcast_to(case[1], A.shape)] != 0).any(),
        ),
        Symptom(
            "a row that may read something does not sum to 1.",
            lambda case, A: not np.allclose(A.sum(axis=-1), case[1].any(axis=-1), atol=1e-2),
        ),
    ),
    mistakes=(
        Mistake(
            "NaN on an empty row",
            "right wherever there is something to read. In an empty row the maximum is minus infinity, and minus "
            "infinity minus minus infinity is no number.",
            lambda S, mask: _plain_softmax(_fill(S, mask)),
        ),
        Mistake(
            "−1e9 for minus infinity",
            "an empty row of equal numbers, however small, is an average to softmax. And does −1e9 fit into float16?",
            lambda S, mask: _plain_softmax(_fill(S, mask, -1e9)),
        ),
        Mistake(
            "−1e9 added",
            "an empty row becomes an ordinary one, all of it lower by the same number: softmax does not see that. Look "
            "at the dtype too: what is float16 plus an array of float64?",
            lambda S, mask: _plain_softmax(S + _fill(np.zeros(mask.shape), mask, -1e9)),
        ),
        Mistake(
            "a finite number for minus infinity",
            "an empty row is then a row of equal scores, and softmax makes an average of it, padding included.",
            lambda S, mask: _plain_softmax(_fill(S, mask, np.finfo(S.dtype).min)),
        ),
        Mistake(
            "masked after the softmax",
            "the forbidden weights are gone, but the others still are shares of the old sum. What should a row sum to?",
            lambda S, mask: _plain_softmax(S) * mask,
        ),
        Mistake(
            "scores multiplied by 0",
            "a score of 0, or one near 0 such as −1e−9, is a score like any other: e^0 is 1. Which score has an "
            "exponential of 0?",
            lambda S, mask: _plain_softmax(S * mask),
        ),
        Mistake(
            "ones and zeros added",
            "True counts as 1: what may be read rises by 1, and the rest keeps its score. What has to be added to a "
            "score, so that its exponential is 0?",
            lambda S, mask: _plain_softmax(S + mask),
        ),
        Mistake(
            "mask forgotten",
            "these are the weights without any mask. (To add −1e−9, a slip for −1e9, comes to the same.)",
            lambda S, mask: _plain_softmax(S),
        ),
        Mistake(
            "masked and divided after the softmax",
            "right while something is left to divide. In an empty row, or beside a forbidden score of 1000, the rest "
            "is 0, and 0/0 is no number. Hide first.",
            lambda S, mask: (A := _plain_softmax(S) * mask) / A.sum(axis=-1, keepdims=True),
        ),
        Mistake(
            "overflow",
            "right in float64 for these scores, but float16 ends at 65504, and e^12 lies beyond. What may be "
            "subtracted from a row without changing its weights?",
            lambda S, mask: _shares(np.exp(_fill(S, mask))),
        ),
        Mistake(
            "overflow, and NaN on an empty row",
            "a row without anything to read is 0/0, and in float16 e^12 overflows. Treat one after the other.",
            lambda S, mask: np.exp(_fill(S, mask)) / np.exp(_fill(S, mask)).sum(axis=-1, keepdims=True),
        ),
        Mistake(
            "maximum over forbidden keys too",
            "a forbidden score of 1000 is the maximum of its row, and after the subtraction all that may be read "
            "underflows to 0. Over which keys should the maximum run?",
            lambda S, mask: _shares(np.exp(S - S.max(axis=-1, keepdims=True)) * mask),
        ),
        Mistake(
            "one maximum for the whole matrix",
            "a row far below the largest score of the matrix underflows to 0. Subtract each row's own maximum.",
            lambda S, mask: _shares(np.exp(_fill(S, mask) - _fill(S, mask).max())),
        ),
        Mistake(
            "0 times minus infinity",
            "for a key that may be read you multiply 0 by infinity, and that is no number. Choose between two values "
            "instead: np.where.",
            lambda S, mask: _plain_softmax(S + (1 - mask.astype(S.dtype)) * S.dtype.type(-np.inf)),
        ),
        Mistake(
            "mask not broadcast",
            "to index by a mask, its shape must be that of S. Here an axis may have length 1, or be missing.",
            _indexed,
        ),
        Mistake(
            "a small number added to the sum",
            "right in float64 and float32. In float16 that number is 0, and an empty row is 0/0 again.",
            lambda S, mask: (
                (exps := np.exp(_fill(S, mask) - _top(S, mask))) / (exps.sum(axis=-1, keepdims=True) + 1e-9)
            ),
        ),
        Mistake(
            "widened to float64",
            "the weights are right, but float64. A model in half precision wants back what it gave.",
            lambda S, mask: softmax(apply_mask(S.astype(np.float64), mask)),
        ),
        Mistake(
            "softmax over the queries",
            "your columns sum to 1, not your rows. Each query shares out its own weight: which axis are the keys?",
            lambda S, mask: _shares(np.exp(_fill(S, mask) - _top(S, mask, axis=-2)), axis=-2),
        ),
        Mistake(
            "mask inverted",
            "True marks what may be read, and you hide exactly that.",
            lambda S, mask: softmax(apply_mask(S, ~mask)),
        ),
    ),
)


def check_masked_softmax(fn: Any) -> CheckResult:
    """Check ``fn(S, mask)``: weights over the last axis in the dtype of S; 0 where there is nothing to read."""
    return check(MASKED_SOFTMAX, fn)
