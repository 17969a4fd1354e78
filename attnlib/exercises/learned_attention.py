"""The exercises of chapter 10: a masked accuracy, the floor of a chain, an induction score, the ceiling of one head."""

from collections.abc import Callable
from typing import Any

import numpy as np

from attnlib.exercises._checking import CheckResult, Exercise, Mistake, Symptom, check
from attnlib.measure import induction_score

NO_ANSWER = -100

# ---------------------------------------------------------------------------------------------------------------------
# Right where something is asked
# ---------------------------------------------------------------------------------------------------------------------


def _accuracy_cases(rng: np.random.Generator) -> list[tuple]:
    cases = []
    for B, N, symbols in ((3, 7, 5), (2, 9, 4), (4, 6, 3), (5, 8, 6)):
        answers = rng.integers(symbols, size=(B, N))
        logits = rng.normal(-1.0, 1.0, size=(B, N, symbols))
        helped = rng.random((B, N)) < 0.6
        logits[helped, answers[helped]] += 3
        first = rng.permutation(N - 1)[:B] if B < N else rng.integers(1, N, size=B)
        answers = np.where(np.arange(N) < first[:, None], NO_ANSWER, answers)
        cases.append((logits, answers))
    return cases


def _right(logits: np.ndarray, answers: np.ndarray) -> np.ndarray:
    return logits.argmax(axis=-1) == answers


MASKED_ACCURACY = Exercise(
    arguments=("logits", "answers"),
    reference=lambda logits, answers: _right(logits, answers)[answers != NO_ANSWER].mean(),
    cases=_accuracy_cases,
    success="Where nothing is asked, nothing counts, neither above nor below the line.",
    symptoms=(Symptom("a share lies between 0 and 1.", lambda case, got: got.shape == () and not 0 <= got <= 1),),
    mistakes=(
        Mistake(
            "all places counted",
            "where nothing is asked nobody can be right, and yours counts this as wrong. What do you divide by?",
            lambda logits, answers: _right(logits, answers).mean(),
        ),
        Mistake(
            "unasked places counted as right",
            "where nothing is asked yours gives a point. These places shall not count at all.",
            lambda logits, answers: (_right(logits, answers) | (answers == NO_ANSWER)).mean(),
        ),
        Mistake(
            "mean of the sequences' means",
            "a sequence in which little is asked weighs as much as another with you. Every asked place counts as one.",
            lambda logits, answers: np.mean(
                [_right(x, y)[y != NO_ANSWER].mean() for x, y in zip(logits, answers, strict=True)]
            ),
        ),
        Mistake(
            "unasked places taken for symbol 0",
            "the -100 became a symbol. A place where nothing is asked has no right answer.",
            lambda logits, answers: _right(logits, np.where(answers == NO_ANSWER, 0, answers)).mean(),
        ),
        Mistake(
            "unasked places taken for the last symbol",
            "in Python a negative index counts from the end, so -100 may turn into a symbol. Leave these places out.",
            lambda logits, answers: _right(
                logits, np.where(answers == NO_ANSWER, logits.shape[-1] - 1, answers)
            ).mean(),
        ),
        Mistake(
            "symbol 0 left out too",
            "0 is a symbol like any other. Which numbers mark that nothing is asked?",
            lambda logits, answers: _right(logits, answers)[answers > 0].mean(),
        ),
        Mistake(
            "only the first place left out",
            "how many places at the start are unasked differs from one sequence to the next. Read it off the answers.",
            lambda logits, answers: _right(logits, answers)[:, 1:].mean(),
        ),
        Mistake(
            "number of right answers, not their share",
            "you count. Divide by how many there were to get.",
            lambda logits, answers: _right(logits, answers)[answers != NO_ANSWER].sum(),
        ),
        Mistake(
            "share of wrong answers",
            "that is the error. What is left of 1?",
            lambda logits, answers: 1 - _right(logits, answers)[answers != NO_ANSWER].mean(),
        ),
        Mistake(
            "smallest logit",
            "a large logit means likely. Which function finds the largest?",
            lambda logits, answers: (logits.argmin(axis=-1) == answers)[answers != NO_ANSWER].mean(),
        ),
        Mistake(
            "only where the logit is positive",
            "the largest logit is the answer, be it negative or not: softmax sees differences only.",
            lambda logits, answers: (_right(logits, answers) & (logits.max(axis=-1) > 0))[answers != NO_ANSWER].mean(),
        ),
        Mistake(
            "probability of the right answer",
            "that is how sure the model is, on average. Asked is how often its largest logit is the right one.",
            lambda logits, answers: np.take_along_axis(
                np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True), np.maximum(answers, 0)[..., None], axis=-1
            )[..., 0][answers != NO_ANSWER].mean(),
        ),
    ),
)


def check_masked_accuracy(fn: Any) -> CheckResult:
    """Check ``fn(logits, answers)``: the share of right answers where the answer is not -100."""
    return check(MASKED_ACCURACY, fn)


# ---------------------------------------------------------------------------------------------------------------------
# The entropy of a Markov chain
# ---------------------------------------------------------------------------------------------------------------------


def _chain_cases(rng: np.random.Generator) -> list[tuple]:
    cases = [(np.array([[0.0, 1.0, 0.0], [0.5, 0.25, 0.25], [0.0, 0.75, 0.25]]),)]
    for symbols in (2, 4, 7):
        odds = np.exp(2 * rng.normal(size=(symbols, symbols)))
        if symbols > 3:
            odds[rng.random(odds.shape) < 0.2] = 0
        odds += np.eye(symbols) * 0.5 + np.eye(symbols)[np.arange(symbols) - 1]  # so that each symbol comes again
        cases.append((odds / odds.sum(axis=1, keepdims=True),))
    return cases


def _stationary(P: np.ndarray) -> np.ndarray:
    """Solve p P = p with sum 1, as least squares."""
    n = len(P)
    return np.linalg.lstsq(np.vstack([P.T - np.eye(n), np.ones(n)]), np.append(np.zeros(n), 1.0), rcond=None)[0]


def _surprise(P: np.ndarray) -> np.ndarray:
    """-P ln P, 0 where P is 0."""
    return -P * np.log(np.where(P > 0, P, 1))


def _of_shares(p: np.ndarray) -> float:
    return _surprise(p).sum()


ENTROPY_FLOOR = Exercise(
    arguments=("P",),
    reference=lambda P: _stationary(P) @ _surprise(P).sum(axis=1),
    cases=_chain_cases,
    success="No model of these chains can do better, and one that seems to has seen the future.",
    symptoms=(
        Symptom(
            "a mean loss in nats is never negative, nor more than ln of the number of symbols.",
            lambda case, got: got.shape == () and not -1e-9 <= got <= np.log(len(case[0])) + 1e-9,
        ),
    ),
    mistakes=(
        Mistake(
            "every symbol taken as equally frequent",
            "you average over the rows as if each symbol came equally often. How often does each come in the long run?",
            lambda P: _surprise(P).sum(axis=1).mean(),
        ),
        Mistake(
            "sum over the rows",
            "you add up the entropies of all rows. At one place the chain stands at one symbol only: weigh them.",
            lambda P: _surprise(P).sum(),
        ),
        Mistake(
            "mean over all entries",
            "within a row, sum; the probabilities in front of the logarithm are the weights already.",
            lambda P: _surprise(P).mean(),
        ),
        Mistake(
            "bits, not nats",
            "you took the logarithm to the base 2. Which one gives nats?",
            lambda P: _stationary(P) @ _surprise(P).sum(axis=1) / np.log(2),
        ),
        Mistake(
            "bits, every symbol taken as equally frequent",
            "two things: the logarithm to the base 2 gives bits, and symbols do not come equally often.",
            lambda P: _surprise(P).sum(axis=1).mean() / np.log(2),
        ),
        Mistake(
            "entropy of the shares",
            "that is the floor for a model which may not look at the symbol before. This one may.",
            lambda P: _of_shares(_stationary(P)),
        ),
        Mistake(
            "entropy of pairs",
            "that is the surprise of a symbol and its follower together. The symbol is known already.",
            lambda P: _surprise(_stationary(P)[:, None] * P).sum(),
        ),
        Mistake(
            "shares from the wrong side",
            "p P = p asks for a left eigenvector. From the right it is one number for every symbol, since rows sum to "
            "1, and with the length 1 it gives no shares.",
            lambda P: np.full(len(P), len(P) ** -0.5) @ _surprise(P).sum(axis=1),
        ),
        Mistake(
            "shares after one step",
            "one step from equal shares is not the long run. What stays the same when the chain moves on?",
            lambda P: P.mean(axis=0) @ _surprise(P).sum(axis=1),
        ),
        Mistake(
            "sign forgotten",
            "the logarithm of a probability is negative. A loss is not.",
            lambda P: -(_stationary(P) @ _surprise(P).sum(axis=1)),
        ),
        Mistake(
            "weighed by the column",
            "rows say where the chain stands, columns where it goes. Which of the two is known when one guesses?",
            lambda P: _surprise(P).sum(axis=0) @ _stationary(P),
        ),
        Mistake(
            "NaN from a probability of 0",
            "0 times ln 0 is NaN for NumPy. What never happens surprises nobody: let it count 0.",
            lambda P: _stationary(P) @ -(P * np.log(P)).sum(axis=1),
        ),
        Mistake(
            "NaN from a probability of 0, every symbol taken as equally frequent",
            "0 times ln 0 is NaN for NumPy: let it count 0. And symbols do not come equally often.",
            lambda P: -(P * np.log(P)).sum(axis=1).mean(),
        ),
    ),
)


def check_entropy_floor(fn: Any) -> CheckResult:
    """Check ``fn(P)``: the entropy in nats of a symbol given the one before, in the long run."""
    return check(ENTROPY_FLOOR, fn)


# ---------------------------------------------------------------------------------------------------------------------
# An induction score
# ---------------------------------------------------------------------------------------------------------------------


def _induction_cases(rng: np.random.Generator) -> list[tuple]:
    cases = []
    for B, N, symbols in ((2, 7, 4), (3, 9, 5), (1, 12, 3), (4, 11, 6)):
        T = rng.integers(symbols, size=(B, N))
        A = np.tril(np.exp(1.5 * rng.normal(size=(B, N, N))))
        cases.append((A / A.sum(axis=-1, keepdims=True), T))
    return cases


def _copies(T: np.ndarray) -> np.ndarray:
    """True [B, N, N] where j < i holds the symbol of i."""
    return (T[:, :, None] == T[:, None, :]) & np.tri(T.shape[1], k=-1, dtype=bool)


def _shifted(M: np.ndarray, steps: int) -> np.ndarray:
    """Move the columns to the right (or left), with False in what is free."""
    moved = np.roll(M, steps, axis=-1)
    moved[..., :steps] = False if steps > 0 else moved[..., :steps]
    if steps < 0:
        moved[..., steps:] = False
    return moved


def _score(A: np.ndarray, targets: np.ndarray, asked: np.ndarray) -> float:
    return (A * targets).sum(axis=-1)[asked].mean()


def _at(step: int) -> Callable:
    return lambda A, T: _score(A, _shifted(_copies(T), step) if step else _copies(T), _copies(T).any(axis=-1))


def _chosen(copy: int) -> Callable:
    """Only the first (0) or the last (-1) copy counts."""

    def score(A: np.ndarray, T: np.ndarray) -> float:
        weights = []
        for b, i in np.argwhere(_copies(T).any(axis=-1)):
            weights.append(A[b, i, np.flatnonzero(_copies(T)[b, i])[copy] + 1])
        return np.mean(weights)

    return score


def _inner_mean(A: np.ndarray, T: np.ndarray) -> np.ndarray:
    """The mean weight after the copies of each place, NaN where there are none."""
    targets = _shifted(_copies(T), 1)
    return (A * targets).sum(axis=-1) / targets.sum(axis=-1)


def _largest(A: np.ndarray, T: np.ndarray) -> float:
    targets = _shifted(_copies(T), 1)
    return np.take_along_axis(targets, A.argmax(axis=-1)[..., None], axis=-1)[..., 0][targets.any(axis=-1)].mean()


def _not_itself(A: np.ndarray, T: np.ndarray) -> float:
    """Copies right before the query left out, and with them places that have no other."""
    targets = _shifted(_copies(T), 1) & ~np.eye(T.shape[1], dtype=bool)
    return _score(A, targets, targets.any(axis=-1))


def _both_sides(T: np.ndarray) -> np.ndarray:
    return (T[:, :, None] == T[:, None, :]) & ~np.eye(T.shape[1], dtype=bool)


def _later_copies(A: np.ndarray, T: np.ndarray) -> float:
    targets = _shifted(_both_sides(T), 1)
    return _score(A, targets, _both_sides(T).any(axis=-1))


def _with_itself(A: np.ndarray, T: np.ndarray) -> float:
    same = T[:, :, None] == T[:, None, :]
    return _score(A, _shifted(same, 1), _copies(T).any(axis=-1))


def _with_itself_in_place(A: np.ndarray, T: np.ndarray) -> float:
    return _score(A, T[:, :, None] == T[:, None, :], _copies(T).any(axis=-1))


INDUCTION_SCORE = Exercise(
    arguments=("A", "T"),
    reference=_at(1),
    cases=_induction_cases,
    own=(induction_score,),
    success="Also where a symbol comes three times, and where two equal ones are neighbors.",
    symptoms=(
        Symptom(
            "a mean of weights lies between 0 and 1.", lambda case, got: got.shape == () and not 0 <= got <= 1 + 1e-9
        ),
    ),
    mistakes=(
        Mistake(
            "the copy itself, not the place after it",
            "you look at the earlier copies. That is a head for equal symbols. What does one need to know to go on?",
            _at(0),
        ),
        Mistake(
            "the copy itself, the place itself included",
            "you look at equal symbols, the query's own place among them. What does one need to know to go on?",
            _with_itself_in_place,
        ),
        Mistake(
            "the place before the copy",
            "you look one place to the left of the copy. Where does the answer stand, before or after it?",
            _at(-1),
        ),
        Mistake(
            "all places counted",
            "places whose symbol is new have nothing to look for, and yours counts them with 0. What do you divide by?",
            lambda A, T: (A * _shifted(_copies(T), 1)).sum(axis=-1).mean(),
        ),
        Mistake(
            "mean over pairs, not over places",
            "a place with three copies counts three times with you. First add up within a place, then average.",
            lambda A, T: A[_shifted(_copies(T), 1)].mean(),
        ),
        Mistake(
            "mean over the copies",
            "a half of the weight on each of two copies makes a perfect induction head. What becomes of it in a mean?",
            lambda A, T: np.nanmean(_inner_mean(A, T)),
        ),
        Mistake(
            "how often the largest weight is there",
            "you look at the largest weight of a row only. A head may share its weight among copies, or nearly miss.",
            _largest,
        ),
        Mistake(
            "sum over places",
            "you add up all places. Divide by how many there are.",
            lambda A, T: (A * _shifted(_copies(T), 1)).sum(),
        ),
        Mistake(
            "mean of the sequences' means",
            "a sequence with few repetitions weighs as much as another with you. Take all places together.",
            lambda A, T: np.mean(
                [
                    _score(a[None], _shifted(_copies(t[None]), 1), _copies(t[None]).any(axis=-1))
                    for a, t in zip(A, T, strict=True)
                ]
            ),
        ),
        Mistake(
            "only the last copy",
            "a symbol may come more than twice. You stop at the nearest copy, and the head may read another.",
            _chosen(-1),
        ),
        Mistake(
            "only the first copy",
            "a symbol may come more than twice. You stop at the first copy, and the head may read another.",
            _chosen(0),
        ),
        Mistake(
            "later copies too",
            "you count places whose symbol comes again only later. At that time nobody can know.",
            _later_copies,
        ),
        Mistake(
            "queries and keys exchanged",
            "row i of A says what place i reads. You take the column.",
            lambda A, T: _score(A.swapaxes(1, 2), _shifted(_copies(T), 1), _copies(T).any(axis=-1)),
        ),
        Mistake(
            "the row after, not the column",
            "you move the query one place on. It is the place that is *read* that stands after the copy.",
            lambda A, T: (A[:, 1:] * _copies(T)[:, :-1]).sum(axis=-1)[_copies(T)[:, :-1].any(axis=-1)].mean(),
        ),
        Mistake(
            "the place before, whatever stands there",
            "that is the score of a previous-token head. Where did this symbol stand before?",
            lambda A, T: np.diagonal(A, -1, 1, 2).mean(),
        ),
        Mistake(
            "places right before the query left out",
            "if two equal symbols are neighbors, the place after the copy is the query's own. It counts.",
            lambda A, T: _score(A, _shifted(_copies(T), 1) & ~np.eye(T.shape[1], dtype=bool), _copies(T).any(axis=-1)),
        ),
        Mistake(
            "places right before the query left out, and not counted",
            "if two equal symbols are neighbors, the place after the copy is the query's own. It counts.",
            _not_itself,
        ),
    ),
)


def check_induction_score(fn: Any) -> CheckResult:
    """Check ``fn(A, T)``: the mean weight on what came after earlier copies of a place's symbol."""
    return check(INDUCTION_SCORE, fn)


# ---------------------------------------------------------------------------------------------------------------------
# The ceiling of one head
# ---------------------------------------------------------------------------------------------------------------------


ONE_HEAD_CEILING = Exercise(
    arguments=("asked", "values"),
    reference=lambda asked, values: (1 + (asked - 1) / values) / asked,
    cases=lambda rng: [(2, 8), (3, 8), (1, 5), (4, 3), (5, 16), (2, 2)],
    success="Now train the model of three questions, and see whether it stops there.",
    symptoms=(Symptom("a share lies between 0 and 1.", lambda case, got: got.shape == () and not 0 <= got <= 1),),
    mistakes=(
        Mistake(
            "guesses never right",
            "a guess hits now and then. How often, with so many values?",
            lambda asked, values: 1 / asked,
        ),
        Mistake(
            "every answer guessed",
            "one of the keys is read, and its value is right every time.",
            lambda asked, values: 1 / values,
        ),
        Mistake(
            "one guess, however many are asked",
            "right for two keys. How many are guessed when there are more?",
            lambda asked, values: (1 + 1 / values) / asked,
        ),
        Mistake(
            "divided by two, however many are asked",
            "right for two keys. The share is of all the answers.",
            lambda asked, values: (1 + (asked - 1) / values) / 2,
        ),
        Mistake(
            "all right at once",
            "that is how often *every* answer is right. Asked is the share of single answers.",
            lambda asked, values: values ** -(asked - 1.0),
        ),
        Mistake(
            "brackets forgotten",
            "a division binds tighter than a sum. What is divided by what?",
            lambda asked, values: 1 + (asked - 1) / values / asked,
        ),
        Mistake(
            "the division rounded",
            "// cuts the fraction off. Which sign divides without rounding?",
            lambda asked, values: (1 + (asked - 1) // values) / asked,
        ),
        Mistake(
            "number of right answers, not their share",
            "you count the right answers to one question. Divide by how many it asks for.",
            lambda asked, values: 1 + (asked - 1) / values,
        ),
        Mistake(
            "the key that was read guessed too",
            "only the others are guessed. The one that is read counts once, not once and a bit.",
            lambda asked, values: (1 + asked / values) / asked,
        ),
        Mistake(
            "guessing among the other values",
            "a guess may be the value that was read: values are drawn independently, and two may be equal.",
            lambda asked, values: (1 + (asked - 1) / (values - 1)) / asked,
        ),
    ),
)


def check_one_head_ceiling(fn: Any) -> CheckResult:
    """Check ``fn(asked, values)``: the share of right answers when one key is read and the others are guessed."""
    return check(ONE_HEAD_CEILING, fn)
