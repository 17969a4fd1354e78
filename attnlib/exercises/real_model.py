"""The exercises of chapter 11: one vector for a sentence, a head's job, a head silenced, a claim held out."""

from typing import Any

import numpy as np

from attnlib.exercises._checking import CheckResult, Exercise, Mistake, Symptom, check
from attnlib.multi_head import concat_heads

# ---------------------------------------------------------------------------------------------------------------------
# One vector for a sentence
# ---------------------------------------------------------------------------------------------------------------------


def _real(rng: np.random.Generator, B: int, N: int) -> np.ndarray:
    """Return [B, N], True for real tokens: sentences of different lengths, the first of them without padding."""
    lengths = [N, *rng.choice(np.arange(3, N), size=B - 1, replace=False)]
    return np.arange(N) < np.array(lengths)[:, None]


def _pool_cases(rng: np.random.Generator) -> list[tuple]:
    return [(rng.normal(0.4, 1.2, (B, N, d)), _real(rng, B, N)) for B, N, d in ((2, 6, 5), (3, 7, 4), (4, 9, 8))]


def _mean(X: np.ndarray, real: np.ndarray) -> np.ndarray:
    return np.where(real[..., None], X, 0).sum(axis=1) / real.sum(axis=1, keepdims=True)


def _unit(x: np.ndarray, axis: Any = -1) -> np.ndarray:
    return x / np.linalg.norm(x, axis=axis, keepdims=True)


SENTENCE_VECTORS = Exercise(
    arguments=("X", "real"),
    reference=lambda X, real: _unit(_mean(X, real)),
    cases=_pool_cases,
    success="The dot product of two of these vectors is their cosine.",
    symptoms=(
        Symptom(
            "your vectors do not have length 1.",
            lambda case, got: (
                got.shape == (len(case[0]), case[0].shape[-1]) and np.abs(np.linalg.norm(got, axis=-1) - 1).max() > 1e-6
            ),
        ),
    ),
    mistakes=(
        Mistake(
            "padding in the mean",
            "right for the longest sentence of a batch. Vectors at padding are not 0: what do they do in your mean?",
            lambda X, real: _unit(X.mean(axis=1)),
        ),
        Mistake(
            "only padding pooled",
            "you keep what the mask marks as no token. True stands for a real one.",
            lambda X, real: _unit(_mean(X, ~real)),
        ),
        Mistake(
            "length not divided out",
            "the mean is right. It still has a length of its own, and a long vector has large dot products.",
            _mean,
        ),
        Mistake(
            "summed, not averaged, and length not divided out",
            "a long sentence gets a long vector. Two divisions are missing; one of them makes the other needless.",
            lambda X, real: np.where(real[..., None], X, 0).sum(axis=1),
        ),
        Mistake(
            "tokens made length 1 before the mean",
            "you divide each token by its length first, so that short vectors count as much as long ones. Which vector "
            "should have length 1?",
            lambda X, real: _mean(_unit(X), real),
        ),
        Mistake(
            "length 1 before the mean and after it",
            "the last step is right. Before the mean, the tokens keep their lengths.",
            lambda X, real: _unit(_mean(_unit(X), real)),
        ),
        Mistake(
            "one length for the whole batch",
            "without an axis the norm is that of all sentences together. Each has a length of its own.",
            lambda X, real: _mean(X, real) / np.linalg.norm(_mean(X, real)),
        ),
        Mistake(
            "length along the wrong axis",
            "your norm runs over the sentences of the batch: one number for each component. Along which axis do the "
            "components of one sentence's vector lie?",
            lambda X, real: _unit(_mean(X, real), axis=0),
        ),
        Mistake(
            "divided by the squared length",
            "to get length 1, divide by the root of the sum of squares.",
            lambda X, real: _mean(X, real) / (_mean(X, real) ** 2).sum(axis=-1, keepdims=True),
        ),
        Mistake(
            "only the first token",
            "that is the vector at [CLS], which some models are trained to use. This one takes the mean.",
            lambda X, real: _unit(X[:, 0]),
        ),
        Mistake(
            "the largest instead of the mean",
            "you take the maximum of each component. Another kind of pooling; here it is the mean.",
            lambda X, real: _unit(np.where(real[..., None], X, -np.inf).max(axis=1)),
        ),
        Mistake(
            "one mean for the whole batch",
            "picking the real tokens of all sentences at once puts them into one list. Which axis should be left?",
            lambda X, real: _unit(X[real].mean(axis=0)),
        ),
    ),
)


def check_sentence_vectors(fn: Any) -> CheckResult:
    """Check ``fn(X, real)``: the mean of the real tokens of X [B, N, d_model], made length 1, [B, d_model]."""
    return check(SENTENCE_VECTORS, fn)


# ---------------------------------------------------------------------------------------------------------------------
# A head's job: the weight on the previous token
# ---------------------------------------------------------------------------------------------------------------------


def _previous_cases(rng: np.random.Generator) -> list[tuple]:
    cases = []
    for B, h, N in ((2, 3, 6), (3, 2, 7), (4, 5, 8)):
        real = _real(rng, B, N)
        S = rng.normal(0, 1.5, (B, h, N, N))
        S[:, 0, np.arange(1, N), np.arange(N - 1)] += 3  # the first head likes the token before
        exps = np.where(real[:, None, None], np.exp(S), 0)
        cases.append((exps / exps.sum(axis=-1, keepdims=True), real))
    return cases


def _band(A: np.ndarray, offset: int) -> np.ndarray:
    """Return [B, h, N - |offset|]: for each query that has one, the weight on the key at that offset."""
    return np.diagonal(A, offset, axis1=-2, axis2=-1)


def _over(values: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """Return for each head the mean of values [B, h, n] where keep [B, n] is True."""
    return (values * keep[:, None]).sum(axis=(0, 2)) / keep.sum()


PREVIOUS_SCORE = Exercise(
    arguments=("A", "real"),
    reference=lambda A, real: _over(_band(A, -1), real[:, 1:]),
    cases=_previous_cases,
    success="A head that always reads the previous token has 1.",
    symptoms=(
        Symptom(
            "a mean of weights is below 0 or above 1.",
            lambda case, got: got.shape == case[0].shape[1:2] and (got.min() < -1e-9 or got.max() > 1 + 1e-9),
        ),
    ),
    mistakes=(
        Mistake(
            "padding counts as tokens",
            "right without padding. Rows that belong to padding are weights too, but of no word: leave them out of the "
            "sum and of what you divide by.",
            lambda A, real: _band(A, -1).mean(axis=(0, 2)),
        ),
        Mistake(
            "the next token",
            "you read the diagonal above the main one. Row i is the query: in which column stands the token before it?",
            lambda A, real: _over(_band(A, 1), real[:, 1:]),
        ),
        Mistake(
            "the token itself",
            "the main diagonal holds what each token reads from itself.",
            lambda A, real: _over(_band(A, 0), real),
        ),
        Mistake(
            "the first token in the denominator",
            "the first token of a sentence has none before it, adds nothing to your sum, and still counts in what you "
            "divide by.",
            lambda A, real: (_band(A, -1) * real[:, None, 1:]).sum(axis=(0, 2)) / real.sum(),
        ),
        Mistake(
            "padding in the denominator",
            "the sum leaves padding out, but what you divide by does not.",
            lambda A, real: (_band(A, -1) * real[:, None, 1:]).sum(axis=(0, 2)) / real[:, 1:].size,
        ),
        Mistake(
            "not divided",
            "that is a sum. How many tokens have one before them?",
            lambda A, real: (_band(A, -1) * real[:, None, 1:]).sum(axis=(0, 2)),
        ),
        Mistake(
            "first token read at the end",
            "for the first token, index i − 1 is −1: the last column. It has no token before it.",
            lambda A, real: _over(np.stack([A[..., i, i - 1] for i in range(A.shape[-1])], axis=-1), real),
        ),
        Mistake(
            "mean of each sentence's mean",
            "you average within sentences first, so that a token of a short sentence counts more. Every token counts "
            "the same.",
            lambda A, real: ((_band(A, -1) * real[:, None, 1:]).sum(axis=-1) / real[:, 1:].sum(axis=-1)[:, None]).mean(
                axis=0
            ),
        ),
        Mistake(
            "one number for each sentence",
            "axis 0 of A is the sentence, axis 1 the head. Which of them should be left?",
            lambda A, real: (_band(A, -1) * real[:, None, 1:]).sum(axis=(1, 2)) / (real[:, 1:].sum(1) * A.shape[1]),
        ),
        Mistake(
            "heads averaged away",
            "that is one number for all heads. The question is which head does the job.",
            lambda A, real: _over(_band(A, -1), real[:, 1:]).mean(),
        ),
        Mistake(
            "how often it is the heaviest",
            "you count the queries that read the previous token most. Asked is how much weight it gets.",
            lambda A, real: _over(A.argmax(axis=-1)[..., 1:] == np.arange(A.shape[-1] - 1), real[:, 1:]),
        ),
        Mistake(
            "mask on keys, not on queries",
            "you leave out pairs whose *key* is padding; those have weight 0 anyway. Which rows belong to no word?",
            lambda A, real: _over(_band(A, -1), real[:, :-1]),
        ),
    ),
)


def check_previous_score(fn: Any) -> CheckResult:
    """Check ``fn(A, real)``: for each head the mean weight on the previous token, [h], padding left out."""
    return check(PREVIOUS_SCORE, fn)


# ---------------------------------------------------------------------------------------------------------------------
# A head silenced
# ---------------------------------------------------------------------------------------------------------------------


def _silence_cases(rng: np.random.Generator) -> list[tuple]:
    cases = []
    for B, h, N, d_h, d_model, a in ((2, 3, 4, 5, 15, 1), (1, 4, 6, 2, 8, 2), (3, 2, 5, 4, 8, 0), (2, 5, 3, 2, 10, 4)):
        H = rng.normal(0.3, 1, (B, h, N, d_h))
        cases.append((H, rng.normal(0, 0.5, (h * d_h, d_model)), rng.normal(0, 1, d_model), a))
    return cases


def _heads_off(H: np.ndarray, off: Any) -> np.ndarray:
    """Return H with the chosen heads set to 0."""
    kept = H.copy()
    kept[:, off] = 0
    return kept


def _joined(H: np.ndarray, W_O: np.ndarray, b_O: Any = 0.0) -> np.ndarray:
    return concat_heads(H) @ W_O + b_O


def _block(H: np.ndarray, a: int) -> slice:
    d_h = H.shape[-1]
    return slice(a * d_h, (a + 1) * d_h)


def _without(W: np.ndarray, where: Any) -> np.ndarray:
    changed = W.copy()
    changed[where] = 0
    return changed


SILENCED = Exercise(
    arguments=("H", "W_O", "b_O", "a"),
    reference=lambda H, W_O, b_O, a: _joined(_heads_off(H, a), W_O, b_O),
    cases=_silence_cases,
    success="What is missing is exactly the contribution of head a.",
    mistakes=(
        Mistake(
            "columns of W_O, not rows",
            "the columns of W_O belong to components of the output, where the heads are mixed already. Which side of "
            "W_O meets the heads?",
            lambda H, W_O, b_O, a: _joined(H, _without(W_O, (slice(None), _block(H, a))), b_O),
        ),
        Mistake(
            "silenced after W_O",
            "after W_O every component of a token holds something of every head. Silence the head before.",
            lambda H, W_O, b_O, a: _without(_joined(H, W_O, b_O), (..., _block(H, a))),
        ),
        Mistake(
            "every h-th component",
            "a head's components stand together in concat, head after head; you took every h-th one.",
            lambda H, W_O, b_O, a: _joined(H, _without(W_O, slice(a, None, H.shape[1])), b_O),
        ),
        Mistake(
            "a single row of W_O",
            "you silenced component a. How many components does a head have?",
            lambda H, W_O, b_O, a: _joined(H, _without(W_O, a), b_O),
        ),
        Mistake(
            "the head before",
            "heads are numbered from 0, and you silenced number a − 1.",
            lambda H, W_O, b_O, a: _joined(_heads_off(H, a - 1), W_O, b_O),
        ),
        Mistake(
            "the head after",
            "heads are numbered from 0, and you silenced the one behind.",
            lambda H, W_O, b_O, a: _joined(_heads_off(H, (a + 1) % H.shape[1]), W_O, b_O),
        ),
        Mistake(
            "head taken out, W_O cut at its end",
            "you took the head out of concat and the last rows out of W_O: the heads behind it now meet the rows of "
            "their neighbors. Which rows belong to head a?",
            lambda H, W_O, b_O, a: _joined(np.delete(H, a, axis=1), W_O[: -H.shape[-1]], b_O),
        ),
        Mistake(
            "only this head left",
            "that is what head a alone contributes. Asked is everything else.",
            lambda H, W_O, b_O, a: _joined(_heads_off(H, np.arange(H.shape[1]) != a), W_O, b_O),
        ),
        Mistake(
            "nothing silenced",
            "that is the full output. Which part of concat should be 0?",
            lambda H, W_O, b_O, a: _joined(H, W_O, b_O),
        ),
        Mistake(
            "bias forgotten",
            "the head is silenced. b_O belongs to no head, and stays.",
            lambda H, W_O, b_O, a: _joined(_heads_off(H, a), W_O),
        ),
        Mistake(
            "the others made louder",
            "you scale the remaining heads up, as dropout does in training. Here they stay as they are.",
            lambda H, W_O, b_O, a: _joined(_heads_off(H, a), W_O, 0) * H.shape[1] / (H.shape[1] - 1) + b_O,
        ),
        Mistake(
            "its mean instead of 0",
            "you put the head's mean over the tokens in its place. That is another ablation, and a good one; here it "
            "is 0.",
            lambda H, W_O, b_O, a: _joined(
                np.where(np.arange(H.shape[1])[:, None, None] == a, H.mean(axis=2, keepdims=True), H), W_O, b_O
            ),
        ),
        Mistake(
            "bare reshape",
            "the head is silenced, but a reshape of [h, N, d_h] mixes tokens: which axes must change places first?",
            lambda H, W_O, b_O, a: (
                _heads_off(H, a).reshape(H.shape[0], H.shape[2], H.shape[1] * H.shape[3]) @ W_O + b_O
            ),
        ),
    ),
)


def check_silenced(fn: Any) -> CheckResult:
    """Check ``fn(H, W_O, b_O, a)``: the output [B, N, d_model] of attention without head a."""
    return check(SILENCED, fn)


# ---------------------------------------------------------------------------------------------------------------------
# A claim, held out
# ---------------------------------------------------------------------------------------------------------------------


def _held_out_cases(rng: np.random.Generator) -> list[tuple]:
    cases = []
    while len(cases) < 6:
        n, heads = int(rng.integers(17, 24)), int(rng.integers(5, 9))
        right, chosen_on = rng.random((n, heads)) < rng.uniform(0.3, 0.7, heads), rng.random(n) < 0.5
        totals = [right[rows].sum(axis=0) for rows in (chosen_on, ~chosen_on, slice(None))]
        if all(np.sum(total == total.max()) == 1 for total in totals) and len({t.argmax() for t in totals}) > 1:
            cases.append((right, chosen_on))  # no ties, and it matters on which part the head is chosen
    return cases


def _score(right: np.ndarray, choose: Any, test: Any) -> float:
    """Return how the head that is best on some rows does on others."""
    return right[test][:, right[choose].mean(axis=0).argmax()].mean()


_ALL = slice(None)

HELD_OUT = Exercise(
    arguments=("right", "chosen_on"),
    reference=lambda right, chosen_on: _score(right, chosen_on, ~chosen_on),
    cases=_held_out_cases,
    success="This is the number to report.",
    mistakes=(
        Mistake(
            "chosen and scored on the same half",
            "the head was chosen because it does well on these very sentences. Which ones had no say?",
            lambda right, chosen_on: _score(right, chosen_on, chosen_on),
        ),
        Mistake(
            "chosen on the test half",
            "you score on the right half, and you chose on it too. The choice may see only the sentences in chosen_on.",
            lambda right, chosen_on: _score(right, ~chosen_on, ~chosen_on),
        ),
        Mistake(
            "halves swapped",
            "you choose on the held-out half and test on the other. True in chosen_on marks what the choice may see.",
            lambda right, chosen_on: _score(right, ~chosen_on, chosen_on),
        ),
        Mistake(
            "chosen on everything",
            "the choice has seen all sentences, the held-out ones too.",
            lambda right, chosen_on: _score(right, _ALL, ~chosen_on),
        ),
        Mistake(
            "chosen and scored on everything",
            "that is the best of all heads on all sentences: chance has had its pick.",
            lambda right, chosen_on: _score(right, _ALL, _ALL),
        ),
        Mistake(
            "scored on everything",
            "half of the sentences you score on are those the head was chosen for.",
            lambda right, chosen_on: _score(right, chosen_on, _ALL),
        ),
        Mistake(
            "mean over all heads",
            "that is how an average head does. First choose one.",
            lambda right, chosen_on: right[~chosen_on].mean(),
        ),
        Mistake(
            "the head, not its score",
            "that is the number of the head. How often is it right where it was not chosen?",
            lambda right, chosen_on: right[chosen_on].mean(axis=0).argmax(),
        ),
        Mistake(
            "counted, not averaged",
            "that is how many sentences it gets right. Of how many?",
            lambda right, chosen_on: right[~chosen_on][:, right[chosen_on].mean(axis=0).argmax()].sum(),
        ),
        Mistake(
            "worst head chosen",
            "you chose the head that is right least often.",
            lambda right, chosen_on: right[~chosen_on][:, right[chosen_on].mean(axis=0).argmin()].mean(),
        ),
    ),
)


def check_held_out(fn: Any) -> CheckResult:
    """Check ``fn(right, chosen_on)``: how often the head that is best on some sentences is right on the others."""
    return check(HELD_OUT, fn)
