"""The exercises of chapter 3: softmax and a single head."""

from typing import Any

import numpy as np

from attnlib.exercises._checking import CheckResult, Exercise, Mistake, Symptom, check
from attnlib.single_head import softmax


def _softmax_cases(rng: np.random.Generator) -> list[tuple]:
    shapes = [(2, 3), (3, 5), (5, 2), (4, 4), (2, 3, 5), (3, 2, 4, 6)]  # the square one hides a lost axis
    ordinary = [(rng.normal(size=shape) * 3,) for shape in shapes]
    large = (rng.normal(size=(3, 4)) * 10 + np.array([[1000.0], [-1000.0], [0.0]]),)
    return [*ordinary, large]


def _exps(S: np.ndarray) -> np.ndarray:
    return np.exp(S - S.max(axis=-1, keepdims=True))


def _over_axis(axis: int | None):
    def wrong(S):
        exps = np.exp(S - S.max(axis=axis, keepdims=True))
        return exps / exps.sum(axis=axis, keepdims=True)

    return wrong


SOFTMAX = Exercise(
    arguments=("S",),
    reference=softmax,
    cases=_softmax_cases,
    own=(softmax,),
    success="Rows sum to 1, and scores of 1000 do not overflow.",
    symptoms=(
        Symptom("your result has negative entries; weights cannot be negative.", lambda case, A: (A < 0).any()),
        Symptom("your rows do not sum to 1.", lambda case, A: not np.allclose(A.sum(axis=-1), 1, atol=1e-6)),
    ),
    mistakes=(
        Mistake(
            "softmax over the queries",
            "your columns sum to 1, not your rows. Each query shares out its own weight: which axis are the keys?",
            _over_axis(-2),
        ),
        Mistake(
            "softmax over everything",
            "your whole matrix sums to 1. Every query has a weight of 1 to share, not the sentence as a whole.",
            _over_axis(None),
        ),
        Mistake(
            "overflow",
            "right for small scores, but e^1000 is too large for a float. What may be subtracted from a row "
            "without changing its weights?",
            lambda S: np.exp(S) / np.exp(S).sum(axis=-1, keepdims=True),
        ),
        Mistake(
            "one maximum for the whole matrix",
            "a row far below the largest score of the matrix underflows to 0/0. Subtract each row's own maximum.",
            lambda S: np.exp(S - S.max()) / np.exp(S - S.max()).sum(axis=-1, keepdims=True),
        ),
        Mistake("exponentials not normalised", "the exponentials are there; what must each row be divided by?", _exps),
        Mistake(
            "shares without the exponential",
            "scores divided by their sum can be negative, and the sum can be 0. Exponentiate first.",
            lambda S: S / S.sum(axis=-1, keepdims=True),
        ),
        Mistake(
            "sum without keepdims",
            "the sums have lost their axis, so they line up with the wrong one. Look at keepdims=True.",
            lambda S: _exps(S) / _exps(S).sum(axis=-1),
        ),
    ),
)


def check_softmax(fn: Any) -> CheckResult:
    """Check ``fn(S)``: weights over the last axis, for any number of axes, without overflow."""
    return check(SOFTMAX, fn)
