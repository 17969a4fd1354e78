"""The exercises of chapter 3: softmax, attention by loops or matrices, another sentence, the gradient of a query."""

from collections.abc import Callable
from typing import Any

import numpy as np

from attnlib.exercises._checking import CheckResult, Exercise, Mistake, Symptom, check
from attnlib.single_head import attention, softmax


def _swap(Z: np.ndarray) -> np.ndarray:
    return np.swapaxes(Z, -1, -2)


def _exps(S: np.ndarray) -> np.ndarray:
    return np.exp(S - S.max(axis=-1, keepdims=True))


def _over_axis(axis: int | None) -> Callable:
    def wrong(S):
        exps = np.exp(S - S.max(axis=axis, keepdims=True))
        return exps / exps.sum(axis=axis, keepdims=True)

    return wrong


def _naive(axis: int) -> Callable:
    """Return a softmax over `axis` that subtracts nothing."""
    return lambda S: np.exp(S) / np.exp(S).sum(axis=axis, keepdims=True)


def _less(top: Callable) -> Callable:
    """Return a softmax that subtracts `top(S)` before it exponentiates."""

    def wrong(S):
        exps = np.exp(S - top(S))
        return exps / exps.sum(axis=-1, keepdims=True)

    return wrong


# ---------------------------------------------------------------------------------------------------------------------
# Softmax
# ---------------------------------------------------------------------------------------------------------------------


def _softmax_cases(rng: np.random.Generator) -> list[tuple]:
    shapes = [(2, 3), (3, 5), (5, 2), (4, 4), (2, 3, 5), (3, 2, 4, 6)]  # the square one hides a lost axis
    ordinary = [(rng.normal(size=shape) * 3,) for shape in shapes]
    large = (rng.normal(size=(3, 4)) * 10 + np.array([[1000.0], [-1000.0], [0.0]]),)
    wide = (rng.normal(size=(4, 3)) * 3000,)  # even the differences within a row are too large for an exponential
    return [*ordinary, large, wide]


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
            "axis counted from the front",
            "right for a matrix, but with a batch in front axis 1 is no longer the keys. Which way of counting "
            "finds the keys however many axes stand before them?",
            _over_axis(1),
        ),
        Mistake(
            "softmax over the first axis",
            "axis 0 are the queries of a matrix, and with a batch in front the sentences. Each query shares out its "
            "own weight: which axis are the keys?",
            _over_axis(0),
        ),
        Mistake(
            "softmax over the first axis, and overflow",
            "axis 0 are the queries of a matrix, and with a batch in front the sentences. Which axis are the keys? "
            "(And what happens to e^1000?)",
            _naive(0),
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
            _naive(-1),
        ),
        Mistake(
            "one maximum for the whole matrix",
            "a row far below the largest score of the matrix underflows to 0/0. Subtract each row's own maximum.",
            _less(lambda S: S.max()),
        ),
        Mistake(
            "maximum subtracted above the line only",
            "the exponentials that you divide have lost the maximum, those in the sum have not. It cancels only if "
            "both lose it.",
            lambda S: _exps(S) / np.exp(S).sum(axis=-1, keepdims=True),
        ),
        Mistake(
            "mean subtracted, not the maximum",
            "that keeps the weights, but a score far above its row's mean still overflows. After the subtraction, "
            "what is the largest score that may be left?",
            _less(lambda S: S.mean(axis=-1, keepdims=True)),
        ),
        Mistake(
            "minimum subtracted, not the maximum",
            "that keeps the weights, but makes the exponents as large as the row is wide. e^0 should be the largest "
            "exponential, not the smallest.",
            _less(lambda S: S.min(axis=-1, keepdims=True)),
        ),
        Mistake(
            "maximum over the queries",
            "each score of a row has lost a different number, and that changes the weights. What is subtracted must "
            "be one number for each row.",
            _less(lambda S: S.max(axis=-2, keepdims=True)),
        ),
        Mistake(
            "exponentials not normalised",
            "your largest weight is 1 in every row. Weights are shares of a whole: of which sum?",
            _exps,
        ),
        Mistake(
            "bare exponentials",
            "these are the exponentials of the scores. What must each row be divided by, and what happens to e^1000?",
            np.exp,
        ),
        Mistake(
            "shares without the exponential",
            "scores divided by their sum can be negative, and the sum can be 0. Exponentiate first.",
            lambda S: S / S.sum(axis=-1, keepdims=True),
        ),
        Mistake(
            "logarithm of the weights",
            "these are the logarithms of the weights (log-softmax): all are negative, and their exponentials sum to 1.",
            lambda S: S - S.max(axis=-1, keepdims=True) - np.log(_exps(S).sum(axis=-1, keepdims=True)),
        ),
        Mistake(
            "sum without keepdims",
            "the sums have lost their axis, so they line up with the wrong one. Look at keepdims=True.",
            lambda S: _exps(S) / _exps(S).sum(axis=-1),
        ),
        Mistake(
            "sum without keepdims, and overflow",
            "the sums have lost their axis, so they line up with the wrong one. (And what happens to e^1000?)",
            lambda S: np.exp(S) / np.exp(S).sum(axis=-1),
        ),
        Mistake(
            "maximum without keepdims",
            "the maxima have lost their axis, so each is subtracted from a column, not from its row.",
            _less(lambda S: S.max(axis=-1)),
        ),
        Mistake(
            "maximum and sum without keepdims",
            "both the maxima and the sums have lost their axis, so they line up with the columns.",
            lambda S: np.exp(S - S.max(axis=-1)) / np.exp(S - S.max(axis=-1)).sum(axis=-1),
        ),
    ),
)


def check_softmax(fn: Any) -> CheckResult:
    """Check ``fn(S)``: weights over the last axis, for any number of axes, without overflow."""
    return check(SOFTMAX, fn)


# ---------------------------------------------------------------------------------------------------------------------
# One head: loops or matrices
# ---------------------------------------------------------------------------------------------------------------------


def _attention_cases(rng: np.random.Generator) -> list[tuple]:
    sizes = [
        (2, 3, 4, 5),  # N_q, N_k, d_h, d_v
        (5, 2, 3, 4),
        (3, 6, 5, 2),
        (4, 4, 2, 3),  # as in self-attention: here a transposed S or A keeps its shape
        (3, 3, 3, 3),  # here every mix-up of axes keeps its shape
        (1, 5, 3, 2),
    ]
    ordinary = [tuple(rng.normal(size=s) for s in ((q, h), (k, h), (k, v))) for q, k, h, v in sizes]
    large = (rng.normal(size=(2, 3)) * 60, rng.normal(size=(5, 3)) * 60, rng.normal(size=(5, 4)))
    return [*ordinary, large]


def _scaled(scale: Callable) -> Callable:
    """Return an attention whose dot products are multiplied by ``scale(Q, K, V)``."""
    return lambda Q, K, V: softmax(Q @ K.T * scale(Q, K, V)) @ V


def _with(weights: Callable) -> Callable:
    """Return an attention that makes its weights from the scores in another way."""
    return lambda Q, K, V: weights(Q @ K.T / np.sqrt(Q.shape[-1])) @ V


def _only_if(fits: Callable, Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> np.ndarray:
    """Return the right output where `fits(Q, K, V)`; raise, as an array of the wrong size would, elsewhere."""
    if not fits(Q, K, V):
        raise ValueError("could not broadcast")
    return attention(Q, K, V).H


def _as_many_as_queries(Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> np.ndarray:
    """Loop over as many keys as there are queries; raise, as such a loop would, where there are fewer."""
    if len(K) < len(Q):
        raise IndexError("out of bounds")
    return attention(Q, K[: len(Q)], V[: len(Q)]).H


def _outside_values(case: tuple, H: np.ndarray) -> bool:
    V = case[2]
    return bool((H < V.min(axis=0) - 1e-9).any() or (H > V.max(axis=0) + 1e-9).any())


ATTENTION = Exercise(
    arguments=("Q", "K", "V"),
    reference=lambda Q, K, V: attention(Q, K, V).H,
    cases=_attention_cases,
    own=(attention,),
    success="N_q ≠ N_k, d_v ≠ d_h, and scores of several thousand among them.",
    symptoms=(
        Symptom(
            "your result holds whole numbers only. What is the dtype of the array that you fill?",
            lambda case, H: H.dtype.kind == "i",
        ),
        Symptom(
            "some of your outputs lie outside the range of the values. A weighted mean cannot leave it.",
            _outside_values,
        ),
    ),
    mistakes=(
        Mistake(
            "no scale",
            "your scores are bare dot products, so your weights are too sharp. What are the products divided by?",
            _scaled(lambda Q, K, V: 1),
        ),
        Mistake(
            "divided by d_h, not by its root",
            "your scores are too small, and your weights too even: as if the scale had been applied twice.",
            _scaled(lambda Q, K, V: 1 / Q.shape[1]),
        ),
        Mistake(
            "divided by half of d_h",
            "your scores are divided by d_h / 2. In Python ** comes before /: what is d_h ** 1/2?",
            _scaled(lambda Q, K, V: 2 / Q.shape[1]),
        ),
        Mistake(
            "scale inverted",
            "your scores grow with d_h where they should be tamed. Multiply or divide?",
            _scaled(lambda Q, K, V: np.sqrt(Q.shape[1])),
        ),
        Mistake(
            "scaled by the number of keys",
            "your scale depends on the length of the sentence. How many products does one dot product add up?",
            _scaled(lambda Q, K, V: K.shape[0] ** -0.5),
        ),
        Mistake(
            "scaled by the number of queries",
            "your scale depends on how many queries there are, so a query is answered differently in company. How many "
            "products does one dot product add up?",
            _scaled(lambda Q, K, V: Q.shape[0] ** -0.5),
        ),
        Mistake(
            "scaled by the width of the values",
            "your scale is made from d_v. The scores never meet the values: whose width belongs in their scale?",
            _scaled(lambda Q, K, V: V.shape[1] ** -0.5),
        ),
        Mistake(
            "weights scaled, not scores",
            "the scale came after the softmax, so your weights no longer sum to 1. Where in the formula does it stand?",
            lambda Q, K, V: softmax(Q @ K.T) / np.sqrt(Q.shape[1]) @ V,
        ),
        Mistake(
            "softmax over the queries",
            "your columns of A sum to 1. Each query shares out its own weight over the keys: over which axis?",
            _with(_over_axis(0)),
        ),
        Mistake(
            "softmax over everything",
            "your whole matrix A sums to 1. Every query has a weight of 1 to share.",
            _with(_over_axis(None)),
        ),
        Mistake(
            "no softmax",
            "your scores themselves weigh the values: they can be negative and do not sum to 1.",
            _with(lambda S: S),
        ),
        Mistake(
            "exponentials not normalised",
            "your weights are positive, but what does each row of them sum to?",
            _with(_exps),
        ),
        Mistake(
            "overflow",
            "right for small scores; with large ones an exponential becomes infinite. What did the softmax exercise "
            "subtract first?",
            _with(_naive(-1)),
        ),
        Mistake(
            "one maximum for the whole matrix",
            "a row far below the largest score of the matrix underflows to 0/0. Subtract each row's own maximum.",
            _with(_less(lambda S: S.max())),
        ),
        Mistake(
            "no scale, and overflow",
            "two things at once: your scores are bare dot products, and large ones make an exponential infinite.",
            lambda Q, K, V: _naive(-1)(Q @ K.T) @ V,
        ),
        Mistake(
            "softmax over the queries, and overflow",
            "two things at once: your columns of A sum to 1, not its rows, and with large scores an exponential "
            "becomes infinite.",
            _with(_naive(0)),
        ),
        Mistake(
            "sum without keepdims",
            "the sums of the rows have lost their axis, so they line up with the columns. Look at keepdims=True.",
            _with(lambda S: _exps(S) / _exps(S).sum(axis=-1)),
        ),
        Mistake(
            "sum without keepdims, and overflow",
            "two things at once: the sums of the rows have lost their axis, so they line up with the columns, and "
            "large scores make an exponential infinite.",
            _with(lambda S: np.exp(S) / np.exp(S).sum(axis=-1)),
        ),
        Mistake(
            "only the best key is read",
            "each query takes the value of its best key alone. The others have a weight too.",
            _with(lambda S: np.eye(S.shape[1])[S.argmax(axis=1)]),
        ),
        Mistake(
            "weights read by columns",
            "you mix the values with the columns of A. Which row of A belongs to output 0?",
            lambda Q, K, V: softmax(Q @ K.T / np.sqrt(Q.shape[1])).T @ V,
        ),
        Mistake(
            "queries and keys swapped",
            "row i of your scores belongs to key i. The rows should be queries.",
            lambda Q, K, V: softmax(K @ Q.T / np.sqrt(Q.shape[1])) @ V,
        ),
        Mistake(
            "components compared, not tokens",
            "your scores have the shape [d_h, d_h]: they compare components. Which factor carries the transpose?",
            lambda Q, K, V: softmax(Q.T @ K / np.sqrt(Q.shape[1])) @ V,
        ),
        Mistake(
            "no transpose",
            "without a transpose Q times K adds up over d_h in Q, but over the tokens in K.",
            lambda Q, K, V: softmax(Q @ K / np.sqrt(Q.shape[1])) @ V,
        ),
        Mistake(
            "keys read as values",
            "your weights are right, but they mix the keys. What is read, once it is clear how much?",
            lambda Q, K, V: softmax(Q @ K.T / np.sqrt(Q.shape[1])) @ K,
        ),
        Mistake(
            "weights returned",
            "what you return is A, how much is read. The output is what was read.",
            lambda Q, K, V: softmax(Q @ K.T / np.sqrt(Q.shape[1])),
        ),
        Mistake(
            "summed over the queries",
            "your output has one row for each key: a sum ran over the queries. Which index is left over in H_i?",
            lambda Q, K, V: softmax(Q @ K.T / np.sqrt(Q.shape[1])).sum(axis=0)[:, None] * V,
        ),
        Mistake(
            "only the last key counts",
            "your output is the last value times its weight: each step of the sum overwrites the one before.",
            lambda Q, K, V: softmax(Q @ K.T / np.sqrt(Q.shape[1]))[:, -1:] * V[-1],
        ),
        Mistake(
            "as many keys as queries",
            "right when there are as many keys as queries. Which of your sizes is taken from Q and belongs to K?",
            lambda *QKV: _only_if(lambda Q, K, V: len(Q) == len(K), *QKV),
        ),
        Mistake(
            "no more keys than queries",
            "your loop over the keys counts the queries: further keys are never read, and with fewer it runs past the "
            "end. How many keys are there?",
            _as_many_as_queries,
        ),
        Mistake(
            "values as wide as queries",
            "right when values are as wide as queries. Which of your sizes is taken from Q and belongs to V?",
            lambda *QKV: _only_if(lambda Q, K, V: Q.shape[1] == V.shape[1], *QKV),
        ),
    ),
)


def check_attention(fn: Any) -> CheckResult:
    """Check ``fn(Q, K, V)``: the output H [N_q, d_v] of one head on one sentence, by loops or by matrices."""
    return check(ATTENTION, fn)


# ---------------------------------------------------------------------------------------------------------------------
# One head that reads another sentence
# ---------------------------------------------------------------------------------------------------------------------


def _cross_cases(rng: np.random.Generator) -> list[tuple]:
    sizes = [
        (2, 3, 4, 6, 5, 7),  # B, N_q, N_k, d_model, d_h, d_v
        (3, 5, 2, 4, 6, 3),
        (4, 2, 5, 7, 3, 6),
        (2, 4, 4, 6, 3, 5),  # sentences of one length: here a source taken for the other keeps its shape
        (2, 5, 5, 3, 3, 3),  # and here so does a matrix, or a missing projection
        (3, 2, 3, 4, 3, 5),  # and here K with all three axes reversed
    ]
    return [
        (
            rng.normal(size=(B, N_q, d_model)),
            rng.normal(size=(B, N_k, d_model)),
            rng.normal(size=(d_model, d_h)),
            rng.normal(size=(d_model, d_h)),
            rng.normal(size=(d_model, d_v)),
        )
        for B, N_q, N_k, d_model, d_h, d_v in sizes
    ]


def _head(Q: np.ndarray, K: np.ndarray, V: np.ndarray, *, weights: Callable = softmax, width: int | None = None):
    return weights(Q @ _swap(K) / np.sqrt(width or Q.shape[-1])) @ V


CROSS_ATTENTION = Exercise(
    arguments=("X", "C", "W_Q", "W_K", "W_V"),
    reference=lambda X, C, W_Q, W_K, W_V: attention(X @ W_Q, C @ W_K, C @ W_V).H,
    cases=_cross_cases,
    success="Each token of X has read C, in batches of two to four sentences.",
    mistakes=(
        Mistake(
            "the context is never read",
            "X reads itself: C could hold anything. Whose keys and values should a query of X meet?",
            lambda X, C, W_Q, W_K, W_V: _head(X @ W_Q, X @ W_K, X @ W_V),
        ),
        Mistake(
            "the context asks",
            "your output has a row for each token of C. Which sentence asks, and which is read?",
            lambda X, C, W_Q, W_K, W_V: _head(C @ W_Q, X @ W_K, X @ W_V),
        ),
        Mistake(
            "the context reads itself",
            "X could hold anything: queries, keys and values all come from C. Which sentence asks?",
            lambda X, C, W_Q, W_K, W_V: _head(C @ W_Q, C @ W_K, C @ W_V),
        ),
        Mistake(
            "values from the wrong sentence",
            "the keys come from C, but what is read comes from X. A key and its value belong to one token.",
            lambda X, C, W_Q, W_K, W_V: _head(X @ W_Q, C @ W_K, X @ W_V),
        ),
        Mistake(
            "keys from the wrong sentence",
            "the values come from C, but the keys from X. A key and its value belong to one token.",
            lambda X, C, W_Q, W_K, W_V: _head(X @ W_Q, X @ W_K, C @ W_V),
        ),
        Mistake(
            "W_Q and W_K swapped",
            "the queries were made with the matrix of the keys, and the keys with that of the queries.",
            lambda X, C, W_Q, W_K, W_V: _head(X @ W_K, C @ W_Q, C @ W_V),
        ),
        Mistake(
            "values not projected",
            "your output mixes the rows of C themselves. Which matrix turns a token into what is read from it?",
            lambda X, C, W_Q, W_K, W_V: _head(X @ W_Q, C @ W_K, C),
        ),
        Mistake(
            "nothing projected",
            "the three matrices were never used: q = k = v = x. Chapter 2 shows what that does.",
            lambda X, C, W_Q, W_K, W_V: _head(X, C, C),
        ),
        Mistake(
            "keys read as values",
            "your weights are right, but they mix the keys, C W_K.",
            lambda X, C, W_Q, W_K, W_V: _head(X @ W_Q, C @ W_K, C @ W_K),
        ),
        Mistake(
            "scaled by d_model",
            "your scale is made from the width of X. A score adds up products of queries and keys: how many?",
            lambda X, C, W_Q, W_K, W_V: _head(X @ W_Q, C @ W_K, C @ W_V, width=X.shape[-1]),
        ),
        Mistake(
            "scaled by the width of the values",
            "your scale is made from d_v. The scores never meet the values: whose width belongs in their scale?",
            lambda X, C, W_Q, W_K, W_V: _head(X @ W_Q, C @ W_K, C @ W_V, width=W_V.shape[1]),
        ),
        Mistake(
            "no scale",
            "your scores are bare dot products. What are they divided by?",
            lambda X, C, W_Q, W_K, W_V: _head(X @ W_Q, C @ W_K, C @ W_V, width=1),
        ),
        Mistake(
            "scaled by the number of queries",
            "your scale is made from the length of X. With a batch in front, which axis of Q is its width?",
            lambda X, C, W_Q, W_K, W_V: _head(X @ W_Q, C @ W_K, C @ W_V, width=X.shape[1]),
        ),
        Mistake(
            "scaled twice",
            "your scores are divided by d_h: the scale stands in two places.",
            lambda X, C, W_Q, W_K, W_V: _head(X @ W_Q, C @ W_K, C @ W_V, width=W_Q.shape[1] ** 2),
        ),
        Mistake(
            "all three axes reversed",
            "with a batch in front, .T takes the batch along. Only the last two axes should change places.",
            lambda X, C, W_Q, W_K, W_V: softmax((X @ W_Q) @ (C @ W_K).T / np.sqrt(W_Q.shape[1])) @ (C @ W_V),
        ),
        Mistake(
            "reshape instead of a transpose",
            "reshape gives the shape of the transposed keys, but it moves no number: your columns are not the keys.",
            lambda X, C, W_Q, W_K, W_V: (
                softmax((X @ W_Q) @ (C @ W_K).reshape(len(C), W_K.shape[1], -1) / np.sqrt(W_Q.shape[1])) @ (C @ W_V)
            ),
        ),
        Mistake(
            "no softmax",
            "your scores themselves weigh the values: they can be negative and do not sum to 1.",
            lambda X, C, W_Q, W_K, W_V: _head(X @ W_Q, C @ W_K, C @ W_V, weights=lambda S: S),
        ),
        Mistake(
            "weights returned",
            "what you return is A, how much is read. The output is what was read.",
            lambda X, C, W_Q, W_K, W_V: attention(X @ W_Q, C @ W_K, C @ W_V).A,
        ),
        Mistake(
            "softmax over the queries",
            "with a batch in front, axis 1 of the scores is the queries. Each query shares its weight over the keys.",
            lambda X, C, W_Q, W_K, W_V: _head(X @ W_Q, C @ W_K, C @ W_V, weights=_over_axis(1)),
        ),
        Mistake(
            "softmax over the batch",
            "your weights sum to 1 over the sentences of the batch, which should know nothing of each other.",
            lambda X, C, W_Q, W_K, W_V: _head(X @ W_Q, C @ W_K, C @ W_V, weights=_over_axis(0)),
        ),
    ),
)


def check_cross_attention(fn: Any) -> CheckResult:
    """Check ``fn(X, C, W_Q, W_K, W_V)``: the output [B, N_q, d_v] of one head in which X reads the sentence C."""
    return check(CROSS_ATTENTION, fn)


# ---------------------------------------------------------------------------------------------------------------------
# Deeper: what a step of the query does to the output
# ---------------------------------------------------------------------------------------------------------------------


def _query_gradient_cases(rng: np.random.Generator) -> list[tuple]:
    sizes = [(2, 3, 4, 5), (5, 4, 2, 3), (3, 6, 5, 2), (4, 5, 3, 3), (1, 7, 2, 4)]  # N_q, N_k, d_h, d_v
    return [tuple(rng.normal(size=s) for s in ((q, h), (k, h), (k, v))) for q, k, h, v in sizes]


def _query_gradient(Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> np.ndarray:
    A = attention(Q, K, V).A
    from_mean = V - (A @ V)[:, None, :], K - (A @ K)[:, None, :]  # [N_q, N_k, d_v] and [N_q, N_k, d_h]
    return np.einsum("ij,ijv,ijh->ivh", A, *from_mean) / np.sqrt(Q.shape[1])


def _plain_weights(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    return np.full((len(Q), len(K)), 1 / len(K))


def _covariance(A: np.ndarray, V: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Return the covariance of V and K under each row of A: E[v k] − E[v] E[k]."""
    return np.einsum("ij,jv,jh->ivh", A, V, K) - (A @ V)[:, :, None] * (A @ K)[:, None, :]


QUERY_GRADIENT = Exercise(
    arguments=("Q", "K", "V"),
    reference=_query_gradient,
    cases=_query_gradient_cases,
    success="It is the covariance of what is read and where it is found.",
    mistakes=(
        Mistake(
            "no scale",
            "your gradient is too large by one factor that depends on d_h alone. Which step from q to H divides by it?",
            lambda Q, K, V: _query_gradient(Q, K, V) * np.sqrt(Q.shape[1]),
        ),
        Mistake(
            "scaled twice",
            "your gradient is too small by one factor that depends on d_h alone. How often does the scale stand in S?",
            lambda Q, K, V: _query_gradient(Q, K, V) / np.sqrt(Q.shape[1]),
        ),
        Mistake(
            "means not subtracted",
            "you took the mean of the products, v kᵀ. Add one vector to every key: the weights stay, but does your "
            "result?",
            lambda Q, K, V: np.einsum("ij,jv,jh->ivh", attention(Q, K, V).A, V, K) / np.sqrt(Q.shape[1]),
        ),
        Mistake(
            "every key counted alike",
            "your covariance gives every token the weight 1/N_k. Which weights does query i give them?",
            lambda Q, K, V: _covariance(_plain_weights(Q, K), V, K) / np.sqrt(Q.shape[1]),
        ),
        Mistake(
            "distance from the plain mean",
            "your products are weighted by A, but measured from a mean that is not. Whose mean is H_i?",
            lambda Q, K, V: (
                np.einsum("ij,jv,jh->ivh", attention(Q, K, V).A, V - V.mean(axis=0), K - K.mean(axis=0))
                / np.sqrt(Q.shape[1])
            ),
        ),
        Mistake(
            "keys measured from their plain mean",
            "you subtract the mean of all keys. The formula's mean is another one for each query: by which weights?",
            lambda Q, K, V: np.einsum("ij,jv,jh->ivh", attention(Q, K, V).A, V, K - K.mean(axis=0)) / Q.shape[1] ** 0.5,
        ),
        Mistake(
            "divided by the number of keys",
            "the weights already sum to 1; your covariance divides by N_k once more.",
            lambda Q, K, V: _query_gradient(Q, K, V) / len(K),
        ),
        Mistake(
            "covariance of a sample",
            "your covariance is corrected as if it were an estimate from a sample (np.cov does so unless told). Here "
            "the weights are the whole distribution.",
            lambda Q, K, V: _query_gradient(Q, K, V) / (1 - (attention(Q, K, V).A ** 2).sum(axis=-1))[:, None, None],
        ),
        Mistake(
            "values with values",
            "this is the covariance of the values with themselves. What does q meet, before the values?",
            lambda Q, K, V: _covariance(attention(Q, K, V).A, V, V) / np.sqrt(Q.shape[1]),
        ),
        Mistake(
            "axes of the result swapped",
            "your result is [N_q, d_h, d_v]: each block is transposed. Rows are components of the output.",
            lambda Q, K, V: _swap(_query_gradient(Q, K, V)),
        ),
        Mistake(
            "unscaled weights",
            "the covariance is formed rightly, but under weights from scores without their scale.",
            lambda Q, K, V: _covariance(softmax(Q @ K.T), V, K) / np.sqrt(Q.shape[1]),
        ),
        Mistake(
            "summed over the queries",
            "your result is one matrix for all queries. H_i depends on q_i alone: keep one block for each query.",
            lambda Q, K, V: _query_gradient(Q, K, V).sum(axis=0),
        ),
        Mistake(
            "sign reversed",
            "a query that moves toward a key reads more of its value; in your result it reads less.",
            lambda Q, K, V: -_query_gradient(Q, K, V),
        ),
    ),
)


def check_query_gradient(fn: Any) -> CheckResult:
    """Check ``fn(Q, K, V)``: the derivatives of each output by its query, [N_q, d_v, d_h]."""
    return check(QUERY_GRADIENT, fn)
