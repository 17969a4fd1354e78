"""The exercises of chapter 2: a soft dictionary, a head built by hand, one form in two factors."""

from typing import Any

import numpy as np

from attnlib._arrays import shape_of
from attnlib.exercises._checking import (
    CheckResult,
    Exercise,
    Mistake,
    Symptom,
    Unreadable,
    as_plain_array,
    check,
    kind,
)
from attnlib.exercises._language import _
from attnlib.single_head import attention, scores, softmax

# ---------------------------------------------------------------------------------------------------------------------
# A dictionary that answers every question
# ---------------------------------------------------------------------------------------------------------------------


def _dictionary_cases(rng: np.random.Generator) -> list[tuple]:
    cases = []
    # N_q, N_k, d_h, d_v, scale
    for N_q, N_k, d_h, d_v, scale in [(2, 5, 3, 4, 2.0), (4, 3, 2, 6, 0.5), (3, 6, 5, 2, 8.0), (1, 4, 7, 3, 1.0)]:
        cases.append((rng.normal(size=(N_q, d_h)), _unit(rng, N_k, d_h), rng.normal(size=(N_k, d_v)), scale))
    K = _unit(rng, 6, 4)
    cases.append((K[[2, 5, 0]], K, rng.normal(size=(6, 5)), 1e5))  # each query is a key: an exact lookup
    cases.append((K[[1, 1, 4, 3, 2]], K, rng.normal(size=(6, 2)), 3.0))
    return cases


def _unit(rng: np.random.Generator, N: int, d: int) -> np.ndarray:
    """Return N random rows of length 1."""
    rows = rng.normal(size=(N, d))
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def _over_the_queries(Q, K, V, scale):
    return softmax(scale * (Q @ K.T).T).T @ V


def _shares(Q, K, V, scale):
    S = scale * Q @ K.T
    return S / S.sum(axis=-1, keepdims=True) @ V


def _overflowing(Q, K, V, scale):
    exps = np.exp(scale * Q @ K.T)
    return exps / exps.sum(axis=-1, keepdims=True) @ V


def _by_angle(Q, K, V, scale):
    return softmax(scale * (Q / np.linalg.norm(Q, axis=-1, keepdims=True)) @ K.T) @ V


def _by_distance(Q, K, V, scale):
    return softmax(-scale * np.linalg.norm(Q[:, None] - K[None], axis=-1)) @ V


def _outside_of_values(case: tuple, got: np.ndarray) -> bool:
    V = case[2]
    return bool((got > V.max(axis=0) + 1e-6).any() or (got < V.min(axis=0) - 1e-6).any())


SOFT_DICTIONARY = Exercise(
    arguments=("Q", "K", "V", "scale"),
    reference=lambda Q, K, V, scale: softmax(scale * (Q @ K.T)) @ V,
    cases=_dictionary_cases,
    own=(attention,),
    success="With scale = 100000, a query that equals a key returns exactly the value of that key.",
    symptoms=(
        Symptom(
            "your result leaves the range of the values. A mixture lies between the smallest and the largest of them.",
            _outside_of_values,
        ),
    ),
    mistakes=(
        Mistake(
            "no softmax",
            "you mix the values by the scores themselves. Some of those are negative, and they add up to anything. "
            "What turns scores into shares?",
            lambda Q, K, V, scale: scale * Q @ K.T @ V,
        ),
        Mistake(
            "softmax over the queries",
            "for each key, your weights add up to 1 over the queries, so the queries compete for a key. Who should "
            "share out a weight of 1, and over what?",
            _over_the_queries,
        ),
        Mistake(
            "scale inverted",
            "the larger the scale, the flatter your weights. It should be the other way round.",
            lambda Q, K, V, scale: softmax(Q @ K.T / scale) @ V,
        ),
        Mistake(
            "scale after the softmax",
            "your weights are the same at every scale, only all of them larger. The scale has to come in before they "
            "are compared.",
            lambda Q, K, V, scale: scale * softmax(Q @ K.T) @ V,
        ),
        Mistake(
            "scale ignored",
            "your result does not depend on the scale. Where does it come in?",
            lambda Q, K, V, scale: softmax(Q @ K.T) @ V,
        ),
        Mistake(
            "the default scale",
            "you divide by √d_h and leave out the scale that is given. Division by √d_h is only the default, for when "
            "no scale is given.",
            lambda Q, K, V, scale: softmax(Q @ K.T / np.sqrt(Q.shape[-1])) @ V,
        ),
        Mistake(
            "divided by √d_h as well",
            "the scale is given here, and you divide by √d_h on top of it. That division is what the scale "
            "defaults to in the chapter.",
            lambda Q, K, V, scale: softmax(scale * (Q @ K.T) / np.sqrt(Q.shape[-1])) @ V,
        ),
        Mistake(
            "keys instead of values",
            "you found the right entries and read their keys. What did the dictionary store under them?",
            lambda Q, K, V, scale: softmax(scale * (Q @ K.T)) @ K,
        ),
        Mistake(
            "weights without the values",
            "these are the weights, and they are right. One step is left: what do they weigh?",
            lambda Q, K, V, scale: softmax(scale * (Q @ K.T)),
        ),
        Mistake(
            "only the best match",
            "you return the value of the best key alone, at every scale. At a small scale the other keys have a "
            "say too.",
            lambda Q, K, V, scale: V[(Q @ K.T).argmax(axis=-1)],
        ),
        Mistake(
            "shares without the exponential",
            "scores divided by their sum can be negative, and they never become an exact lookup: the scale cancels.",
            _shares,
        ),
        Mistake(
            "overflow",
            "right at small scales, but e^100000 is too large for a float. Chapter 3 shows the remedy; until then "
            "you may call softmax from attnlib.",
            _overflowing,
        ),
        Mistake(
            "cosine instead of dot product",
            "you divide each query by its length. Here a longer query asks more sharply: take the plain dot product.",
            _by_angle,
        ),
        Mistake(
            "distance instead of dot product",
            "you compare by distance. That is a fair choice, but another one: the exercise asks for the dot product.",
            _by_distance,
        ),
        Mistake(
            "plain mean of the values",
            "every query gets the mean of all values, whatever it asks.",
            lambda Q, K, V, scale: np.repeat(V.mean(axis=0, keepdims=True), len(Q), axis=0),
        ),
    ),
)


def check_soft_dictionary(fn: Any) -> CheckResult:
    """Check ``fn(Q, K, V, scale)``: for each query the mixture of values that becomes a lookup as the scale grows."""
    return check(SOFT_DICTIONARY, fn)


# ---------------------------------------------------------------------------------------------------------------------
# A head that reads the previous token
# ---------------------------------------------------------------------------------------------------------------------


def _matrices(result: Any, rows: int, rows_are: str, columns: int | None = None) -> list[np.ndarray]:
    """Return W_Q and W_K as floating-point matrices; raise `Unreadable` unless that is what the result is."""
    if isinstance(result, np.ndarray) and result.ndim == 3:
        result = tuple(result)  # two matrices in one array
    if not isinstance(result, tuple | list) or len(result) != 2:
        one = _("an array {shape}").format(shape=shape_of(result)) if isinstance(result, np.ndarray) else kind(result)
        raise Unreadable(_("{kind}, but should return two matrices: return W_Q, W_K.").format(kind=one))
    matrices = []
    for name, W in zip(("W_Q", "W_K"), map(as_plain_array, result), strict=True):
        if W is None or W.ndim != 2:
            raise Unreadable(_("a {name} that is no matrix of real numbers.").format(name=name))
        if W.shape[0] != rows:
            what = _(
                "{name} with the shape {shape}, but it needs {rows} rows: tokens are rows, so each of their "
                "components meets one row of the matrix."
            )
            raise Unreadable(what.format(name=name, shape=shape_of(W), rows=f"{rows_are} = {rows}"))
        if columns is not None and W.shape[1] != columns:
            what = _("{name} with {got} columns, but queries and keys have d_h = {d_h} components.")
            raise Unreadable(what.format(name=name, got=W.shape[1], d_h=columns))
        matrices.append(W.astype(float))
    if matrices[0].shape[1] != matrices[1].shape[1]:
        what = _(
            "W_Q with {one} columns and W_K with {other}: then queries and keys have different widths and cannot be "
            "compared."
        )
        raise Unreadable(what.format(one=matrices[0].shape[1], other=matrices[1].shape[1]))
    return matrices


def _sentences(d_tok: int, N: int) -> np.ndarray:
    """Return three sentences of random words, each token followed by the one-hot code of its position."""
    words = np.random.default_rng(0).normal(size=(3, N, d_tok))
    return np.concatenate([words, np.broadcast_to(np.eye(N), (3, N, N))], axis=-1)


def _who_reads_whom(arguments: tuple, result: Any) -> np.ndarray:
    """Return for each query from the second on: 1 where a weight is above 0.99, 1/2 where it is the largest, else 0.

    All sharp answers look alike then, and so do all that are not sharp enough.
    """
    d_tok, N = arguments
    W_Q, W_K = _matrices(result, rows=d_tok + N, rows_are="d_tok + N")
    X = _sentences(d_tok, N)
    A = softmax(scores(X @ W_Q, X @ W_K))[:, 1:]
    largest = (A > A.max(axis=-1, keepdims=True) - 1e-6) & (A > 1.05 / N)  # where all are equal, none is the largest
    return np.where(np.isnan(A), np.nan, np.where(A > 0.99, 1.0, np.where(largest, 0.5, 0.0)))


def _head(read: Any, *, c: float = 100.0, words: float = 0.0, position_first: bool = False):
    """Return a wrong (or right) answer: queries are the one-hot position times c, keys are `read(N)` of it."""

    def build(d_tok, N):
        order = slice(N) if position_first else slice(d_tok, None)
        W_Q, W_K = np.zeros((2, d_tok + N, d_tok + N))
        W_Q[order, :N], W_K[order, :N] = c * np.eye(N), read(N)
        W_Q[:d_tok, N:], W_K[:d_tok, N:] = words * c * np.eye(d_tok), words * np.eye(d_tok)
        return W_Q, W_K

    return build


def _previous(N: int) -> np.ndarray:
    return np.eye(N, k=1)  # position j answers to the query of position j + 1


PREVIOUS_TOKEN = Exercise(
    arguments=("d_tok", "N"),
    reference=_head(_previous),
    cases=lambda rng: [(3, 5), (2, 7), (5, 4), (4, 9)],
    view=_who_reads_whom,
    success="From the second token on, each gives over 0.99 of its weight to the one before it, whatever the words.",
    symptoms=(
        Symptom(
            "the pattern of weights changes when only the words change. Which rows of your matrices meet the words?",
            lambda case, got: not (got == got[:1]).all(),
        ),
        Symptom(
            "the largest weight of every token falls on the one before it, but it is not above 0.99.",
            lambda case, got: (np.diagonal(got, axis1=1, axis2=2) > 0).all() and (got > 0).sum() == got[..., 0].size,
        ),
        Symptom(
            "some tokens read the one before them, others do not.",
            lambda case, got: (np.diagonal(got, axis1=1, axis2=2) > 0).any(),
        ),
        Symptom("no token gives its largest weight to the one before it.", lambda case, got: True),
    ),
    mistakes=(
        Mistake(
            "reads the next token",
            "the weights lie above the diagonal instead of below. In S_ij the query is i and the key is j: which "
            "key should answer the query of position 3? (Swapping W_Q and W_K mirrors S at its diagonal.)",
            _head(lambda N: np.eye(N, k=-1)),
        ),
        Mistake(
            "reads the next token, in a circle",
            "each token reads the one after it, and the last one reads the first: np.roll turned the other way. Which "
            "key should answer the query of position 3?",
            _head(lambda N: np.roll(np.eye(N), 1, axis=0)),
        ),
        Mistake(
            "reads itself",
            "a query and a key of the same position match. One of the two has to be moved by one place.",
            _head(np.eye),
        ),
        Mistake(
            "not sharp enough",
            "the right key wins, but softmax turns the *gap* to the other scores into weights, and the scores are "
            "divided by √d_h besides. How large must the gap be for a weight above 0.99 among N keys?",
            _head(_previous, c=1.0),
        ),
        Mistake(
            "reads the previous token and itself",
            "two keys get the same score, so each gets half of the weight. How many keys should match?",
            _head(lambda N: np.eye(N) + np.eye(N, k=1)),
        ),
        Mistake(
            "avoids the previous token",
            "the token before is the one that is *not* read. Look at the sign of its score.",
            _head(_previous, c=-100.0),
        ),
        Mistake(
            "all scores equal",
            "no key stands out for any query, so softmax gives each the same. What do your queries and keys hold?",
            _head(lambda N: np.zeros((N, N))),
        ),
        Mistake(
            "the words join in",
            "the rows of your matrices that meet the word are not 0, so two words that resemble each other raise "
            "the score. This head should be blind to words.",
            _head(_previous, words=1.0),
        ),
        Mistake(
            "the position in the wrong place",
            "your matrices read the first N components as the position. In X the word comes first.",
            _head(_previous, position_first=True),
        ),
        Mistake(
            "always the first token",
            "every query finds the key of position 0. Queries of different positions have to differ.",
            _head(lambda N: np.outer(np.ones(N), np.eye(N)[0]).T),
        ),
    ),
)


def check_previous_token(fn: Any) -> CheckResult:
    """Check ``fn(d_tok, N)``: W_Q and W_K of a head in which each token reads the one before it."""
    return check(PREVIOUS_TOKEN, fn)


# ---------------------------------------------------------------------------------------------------------------------
# One form, two factors
# ---------------------------------------------------------------------------------------------------------------------


def _form_cases(rng: np.random.Generator) -> list[tuple]:
    cases = [
        (rng.normal(size=(d_model, rank)) @ rng.normal(size=(rank, d_model)), d_h)
        for d_model, rank, d_h in [(5, 2, 3), (7, 3, 3), (6, 1, 4), (9, 4, 5)]
    ]
    B = rng.normal(size=(8, 8))
    cases.append((B - B.T, 8))  # antisymmetric: i wants to read j exactly as much as j does not want to read i
    return cases


def _product(arguments: tuple, result: Any) -> np.ndarray:
    M, d_h = arguments
    W_Q, W_K = _matrices(result, rows=len(M), rows_are="d_model", columns=d_h)
    return W_Q @ W_K.T


def _from_svd(left: float, right: float, *, transposed: bool = True, first: bool = True):
    """Return the factoring by singular values with what may go wrong: their powers, the axis of V, the choice."""

    def factor(M, d_h):
        U, sigma, Vt = np.linalg.svd(M)
        take = slice(d_h) if first else slice(len(M) - d_h, None)
        kept = Vt[take].T if transposed else Vt[:, take]
        return U[:, take] * sigma[take] ** left, kept * sigma[take] ** right

    return factor


def _shared(M, d_h):
    W = _from_svd(0.5, 0.5)(M, d_h)[0]
    return W, W


def _eigen(M, d_h):
    values, vectors = np.linalg.eigh(M)
    best = np.argsort(-np.abs(values))[:d_h]
    return vectors[:, best] * values[best], vectors[:, best]


FACTOR_FORM = Exercise(
    arguments=("M", "d_h"),
    reference=_from_svd(0.5, 0.5),
    cases=_form_cases,
    view=_product,
    success="Your two thin matrices give every pair of tokens the score that M gives it.",
    symptoms=(
        Symptom("W_Q W_Kᵀ is 0.", lambda case, got: np.allclose(got, 0)),
        Symptom(
            "W_Q W_Kᵀ is symmetric, and M is not.",
            lambda case, got: np.allclose(got, got.T) and not np.allclose(case[0], case[0].T),
        ),
    ),
    mistakes=(
        Mistake(
            "singular values left out",
            "the directions are right and their strengths are missing: U Vᵀ without what stands between them.",
            _from_svd(0, 0),
        ),
        Mistake(
            "singular values twice",
            "both factors carry the singular values, so the product holds their squares.",
            _from_svd(1, 1),
        ),
        Mistake(
            "square root on one side only",
            "one factor carries the square roots of the singular values, the other carries nothing. Multiply the "
            "two powers in your head: what should come out?",
            _from_svd(0.5, 0),
        ),
        Mistake(
            "Vᵀ taken for V",
            "np.linalg.svd returns V already transposed: its singular vectors are rows. You took columns.",
            _from_svd(0.5, 0.5, transposed=False),
        ),
        Mistake(
            "the smallest singular values kept",
            "you kept the last d_h singular values. In what order does np.linalg.svd return them?",
            _from_svd(0.5, 0.5, first=False),
        ),
        Mistake(
            "who asks and who answers swapped",
            "your product is the transpose of M. The form is x_i M x_jᵀ: the query stands on the left.",
            lambda M, d_h: _from_svd(0.5, 0.5)(M, d_h)[::-1],
        ),
        Mistake(
            "the first columns of M",
            "your product copies the first d_h columns of M and leaves the others 0. All columns are needed, each "
            "as a mixture of d_h directions.",
            lambda M, d_h: (M[:, :d_h], np.eye(len(M), d_h)),
        ),
        Mistake(
            "one matrix for both",
            "W_Q = W_K gives a product W Wᵀ that is always symmetric. M is not.",
            _shared,
        ),
        Mistake(
            "eigenvectors of a matrix that is not symmetric",
            "np.linalg.eigh takes its matrix to be symmetric and reads only one half of it. Which factoring has "
            "different vectors on the left and on the right?",
            _eigen,
        ),
    ),
)


def check_factor_form(fn: Any) -> CheckResult:
    """Check ``fn(M, d_h)``: W_Q and W_K of d_h columns each, with ``W_Q @ W_K.T`` equal to M."""
    return check(FACTOR_FORM, fn)
