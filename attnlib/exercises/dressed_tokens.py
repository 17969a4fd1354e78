"""The exercises of chapter 7: one word in two sentences, a residual with a knob, the reach of a stack of layers."""

from typing import Any

import numpy as np

from attnlib.exercises._checking import CheckResult, Exercise, Mistake, Symptom, check
from attnlib.layers import encoder_layer, layer_norm

# ---------------------------------------------------------------------------------------------------------------------
# The cosine of two occurrences, layer by layer
# ---------------------------------------------------------------------------------------------------------------------


def _cosine_cases(rng: np.random.Generator) -> list[tuple]:
    cases = []
    for layers, N, d_model in ((3, 6, 8), (1, 5, 4), (5, 7, 3), (2, 9, 12)):
        states = rng.normal(0.7, 1.3, size=(layers + 1, 2, N, d_model))
        i = int(rng.integers(1, N - 1))
        states[0, 1, i] = states[0, 0, i]  # bare: the same word at the same place
        cases.append((states, i))
    return cases


def _cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the cosine along the last axis."""
    return (a * b).sum(axis=-1) / (np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1))


def _pair(states: np.ndarray, i: int) -> tuple[np.ndarray, np.ndarray]:
    return states[:, 0, i], states[:, 1, i]


def _centred(x: np.ndarray) -> np.ndarray:
    return x - x.mean(axis=-1, keepdims=True)


TWO_OCCURRENCES = Exercise(
    arguments=("states", "i"),
    reference=lambda states, i: _cosine(*_pair(states, i)),
    cases=_cosine_cases,
    success="The bare vectors give exactly what equal vectors must give.",
    symptoms=(
        Symptom(
            "a cosine is larger than 1 in size.",
            lambda case, got: got.shape == case[0].shape[:1] and np.abs(got).max() > 1 + 1e-9,
        ),
        Symptom(
            "the first number should be that of two equal vectors, and it is not 1.",
            lambda case, got: got.shape == case[0].shape[:1] and abs(got[0] - 1) > 1e-9,
        ),
    ),
    mistakes=(
        Mistake(
            "dot product, lengths not divided out",
            "a long vector has large dot products with everything. What is left of a·b when both have length 1?",
            lambda states, i: (states[:, 0, i] * states[:, 1, i]).sum(axis=-1),
        ),
        Mistake(
            "divided by one length squared",
            "right for the bare vectors, which are equal and so of equal length. Later layers change each length by "
            "itself.",
            lambda states, i: (states[:, 0, i] * states[:, 1, i]).sum(axis=-1) / (states[:, 0, i] ** 2).sum(axis=-1),
        ),
        Mistake(
            "lengths not rooted",
            "you divide by squared lengths. The length of a vector is the root of the sum of its squares.",
            lambda states, i: (
                (states[:, 0, i] * states[:, 1, i]).sum(axis=-1)
                / ((states[:, 0, i] ** 2).sum(axis=-1) * (states[:, 1, i] ** 2).sum(axis=-1))
            ),
        ),
        Mistake(
            "divided by one length, multiplied by the other",
            "a / b * c divides by b and multiplies by c. Where do brackets belong?",
            lambda states, i: (
                (states[:, 0, i] * states[:, 1, i]).sum(axis=-1)
                / np.linalg.norm(states[:, 0, i], axis=-1)
                * np.linalg.norm(states[:, 1, i], axis=-1)
            ),
        ),
        Mistake(
            "every layer with every layer",
            "you compare the first sentence after each layer with the second after each *other* layer too. What you "
            "want stands on the diagonal, and can be had without the rest.",
            lambda states, i: _cosine(states[:, None, 0, i], states[None, :, 1, i]),
        ),
        Mistake(
            "sign lost",
            "vectors that point to opposite sides have a negative cosine, and yours is never negative.",
            lambda states, i: np.abs(_cosine(*_pair(states, i))),
        ),
        Mistake(
            "one length for all layers",
            "each layer's vectors have a length of their own. Along which axis does your norm run, and does it leave "
            "one number for each layer?",
            lambda states, i: (
                (states[:, 0, i] * states[:, 1, i]).sum(axis=-1)
                / (np.linalg.norm(states[:, 0, i]) * np.linalg.norm(states[:, 1, i]))
            ),
        ),
        Mistake(
            "only the last layer",
            "that is one number, of the last layer. The question is how the pair drifts apart: bare first, then "
            "after each layer.",
            lambda states, i: _cosine(*_pair(states, i))[-1],
        ),
        Mistake(
            "the bare vectors left out",
            "your list starts after layer 1. states[0] holds the bare tokens.",
            lambda states, i: _cosine(*_pair(states, i))[1:],
        ),
        Mistake(
            "every token, not only token i",
            "that is a cosine for each place of the sentence. Only the word at place i is asked for.",
            lambda states, i: _cosine(states[:, 0], states[:, 1]),
        ),
        Mistake(
            "whole sentences",
            "you flattened the sentences and compared all their words at once. The word stands at place i.",
            lambda states, i: _cosine(states[:, 0].reshape(len(states), -1), states[:, 1].reshape(len(states), -1)),
        ),
        Mistake(
            "compared with its own bare vector",
            "that tells how far the first sentence's word has moved from its start. Compare the two sentences "
            "within each layer.",
            lambda states, i: _cosine(states[:, 0, i], states[0, 0, i]),
        ),
        Mistake(
            "one sentence with itself",
            "all your numbers are 1. Axis 1 of states is the sentence: which two do you take?",
            lambda states, i: _cosine(states[:, 0, i], states[:, 0, i]),
        ),
        Mistake(
            "means subtracted",
            "you subtract each vector's mean first: that is a correlation, another measure. The cosine takes the "
            "vectors as they are.",
            lambda states, i: _cosine(*map(_centred, _pair(states, i))),
        ),
        Mistake(
            "the angle, not its cosine",
            "equal vectors give 0 with you. The cosine of that angle is asked for.",
            lambda states, i: np.arccos(np.clip(_cosine(*_pair(states, i)), -1, 1)),
        ),
        Mistake(
            "one minus the cosine",
            "equal vectors give 0 with you: that is a distance. How similar are they?",
            lambda states, i: 1 - _cosine(*_pair(states, i)),
        ),
        Mistake(
            "the distance",
            "equal vectors give 0 with you, and longer ones lie further apart. A cosine does not know lengths.",
            lambda states, i: np.linalg.norm(states[:, 0, i] - states[:, 1, i], axis=-1),
        ),
    ),
)


def check_two_occurrences(fn: Any) -> CheckResult:
    """Check ``fn(states, i)``: from states [L+1, 2, N, d_model] the cosine of token i in both sentences, [L+1]."""
    return check(TWO_OCCURRENCES, fn)


# ---------------------------------------------------------------------------------------------------------------------
# The residual, with a knob
# ---------------------------------------------------------------------------------------------------------------------

_EPS = 1e-5


def _residual_cases(rng: np.random.Generator) -> list[tuple]:
    cases = []
    for B, N, d_model, knob in ((2, 5, 6, 1.0), (3, 4, 8, 0.0), (1, 7, 5, 0.5), (2, 3, 4, 2.0)):
        X, read = rng.normal(0.3, 1.4, size=(2, B, N, d_model))
        X[0, 0], read[0, 0] = X[0, 0] * 3e-3, read[0, 0] * 3e-3  # a token so small that eps shows
        cases.append((X, read, knob, rng.normal(1, 0.5, size=d_model), rng.normal(0, 0.5, size=d_model)))
    return cases


def _norm(Y: np.ndarray, axis: Any = -1, *, power: float = 0.5, ddof: int = 0, eps: float = _EPS) -> np.ndarray:
    centred = Y - Y.mean(axis=axis, keepdims=True)
    return centred / (Y.var(axis=axis, keepdims=True, ddof=ddof) + eps) ** power


RESIDUAL_KNOB = Exercise(
    arguments=("X", "read", "knob", "gain", "shift"),
    reference=lambda X, read, knob, gain, shift: _norm(knob * X + read) * gain + shift,
    cases=_residual_cases,
    own=(layer_norm, encoder_layer),
    success="With the knob at 1 this is the post-norm residual, at 0 there is none.",
    symptoms=(
        Symptom(
            "with gain and shift taken back out, a token's components do not have mean 0.",
            lambda case, got: (
                got.shape == case[0].shape and np.abs(((got - case[4]) / case[3]).mean(axis=-1)).max() > 1e-6
            ),
        ),
    ),
    mistakes=(
        Mistake(
            "no residual",
            "what came in is gone: only what was read is left. Where does X enter?",
            lambda X, read, knob, gain, shift: _norm(read) * gain + shift,
        ),
        Mistake(
            "knob ignored",
            "right when the knob is 1. What should be left of X when it is 0?",
            lambda X, read, knob, gain, shift: _norm(X + read) * gain + shift,
        ),
        Mistake(
            "residual twice",
            "X enters the sum twice. With the knob at 0 it should not enter at all.",
            lambda X, read, knob, gain, shift: _norm(knob * X + read + X) * gain + shift,
        ),
        Mistake(
            "knob on what was read",
            "your knob turns the reading up and down, and X always passes in full. Which of the two is the residual?",
            lambda X, read, knob, gain, shift: _norm(X + knob * read) * gain + shift,
        ),
        Mistake(
            "knob shared out",
            "you turn down what was read while you turn up X. The knob belongs to X alone.",
            lambda X, read, knob, gain, shift: _norm(knob * X + (1 - knob) * read) * gain + shift,
        ),
        Mistake(
            "knob on the whole sum",
            "the norm divides a common factor out again. The knob belongs to one summand.",
            lambda X, read, knob, gain, shift: _norm(knob * (X + read)) * gain + shift,
        ),
        Mistake(
            "norm before the sum",
            "you normalize what was read and add X afterward. Post-norm normalizes the sum.",
            lambda X, read, knob, gain, shift: knob * X + _norm(read) * gain + shift,
        ),
        Mistake(
            "X normalised, not the sum",
            "you normalize X and add what was read. Post-norm adds first.",
            lambda X, read, knob, gain, shift: knob * (_norm(X) * gain + shift) + read,
        ),
        Mistake(
            "residual around the norm",
            "X is added once more after the norm. Nothing follows the norm but gain and shift.",
            lambda X, read, knob, gain, shift: knob * X + _norm(knob * X + read) * gain + shift,
        ),
        Mistake(
            "norm over the tokens",
            "you take mean and variance over the words of a sentence, so every token depends on all others. Each "
            "token is normalized by itself: over which axis?",
            lambda X, read, knob, gain, shift: _norm(knob * X + read, axis=-2) * gain + shift,
        ),
        Mistake(
            "norm over the whole sentence",
            "one mean and one variance for all tokens of a sentence. Each token has its own.",
            lambda X, read, knob, gain, shift: _norm(knob * X + read, axis=(-2, -1)) * gain + shift,
        ),
        Mistake(
            "one mean and variance for everything",
            "without an axis, mean() and var() take the whole batch together. Each token has its own.",
            lambda X, read, knob, gain, shift: _norm(knob * X + read, axis=None) * gain + shift,
        ),
        Mistake(
            "divided by the variance",
            "to get variance 1, divide by its root.",
            lambda X, read, knob, gain, shift: _norm(knob * X + read, power=1.0) * gain + shift,
        ),
        Mistake(
            "variance with N − 1",
            "that is the estimate for a sample. A token vector is no sample: divide by the number of its components.",
            lambda X, read, knob, gain, shift: _norm(knob * X + read, ddof=1) * gain + shift,
        ),
        Mistake(
            "eps forgotten",
            "right for tokens of ordinary size. One token is so small that 1e-5 shows, and a constant one would be "
            "divided by 0.",
            lambda X, read, knob, gain, shift: _norm(knob * X + read, eps=0.0) * gain + shift,
        ),
        Mistake(
            "eps outside the root",
            "you add 1e-5 to the root. It is added to the variance, and the root is taken after that.",
            lambda X, read, knob, gain, shift: (
                (((Y := knob * X + read) - Y.mean(axis=-1, keepdims=True)) / (Y.std(axis=-1, keepdims=True) + _EPS))
                * gain
                + shift
            ),
        ),
        Mistake(
            "mean not subtracted",
            "the components of a token should have mean 0 before gain and shift.",
            lambda X, read, knob, gain, shift: (
                (knob * X + read) / np.sqrt((knob * X + read).var(axis=-1, keepdims=True) + _EPS) * gain + shift
            ),
        ),
        Mistake(
            "gain and shift swapped",
            "gain multiplies, shift is added.",
            lambda X, read, knob, gain, shift: _norm(knob * X + read) * shift + gain,
        ),
        Mistake(
            "shift before gain",
            "your gain multiplies the shift too. First stretch, then shift.",
            lambda X, read, knob, gain, shift: (_norm(knob * X + read) + shift) * gain,
        ),
        Mistake(
            "gain and shift forgotten",
            "mean 0 and variance 1 are right. After them come the two learned vectors.",
            lambda X, read, knob, gain, shift: _norm(knob * X + read),
        ),
    ),
)


def check_residual_knob(fn: Any) -> CheckResult:
    """Check ``fn(X, read, knob, gain, shift)``: the layer norm of knob * X + read, [B, N, d_model]."""
    return check(RESIDUAL_KNOB, fn)


# ---------------------------------------------------------------------------------------------------------------------
# The reach of L layers under a window mask
# ---------------------------------------------------------------------------------------------------------------------


def _reach_cases(rng: np.random.Generator) -> list[tuple]:
    fixed = [(9, 1, 1), (12, 1, 3), (11, 2, 2), (14, 3, 2), (6, 2, 5), (13, 2, 3), (8, 0, 3)]
    return [*fixed, (int(rng.integers(20, 25)), 3, 4)]


def _band(N: int, reach: float) -> np.ndarray:
    i = np.arange(N)
    return np.abs(i[:, None] - i) <= reach


REACH = Exercise(
    arguments=("N", "window", "L"),
    reference=lambda N, window, L: _band(N, window * L),
    cases=_reach_cases,
    success="Each layer adds one window on both sides.",
    symptoms=(
        Symptom(
            "some token does not reach its own output.",
            lambda case, got: got.dtype == bool and not got.diagonal().all(),
        ),
        Symptom(
            "token j reaches output i, but token i does not reach output j: the window is open to both sides.",
            lambda case, got: got.dtype == bool and not np.array_equal(got, got.T),
        ),
    ),
    mistakes=(
        Mistake(
            "one layer only",
            "that is the window mask itself. What have the neighbors read before they are read?",
            lambda N, window, L: _band(N, window),
        ),
        Mistake(
            "a window of 1 assumed",
            "right for a window of 1. How far does one layer reach if the window is 2?",
            lambda N, window, L: _band(N, L),
        ),
        Mistake(
            "slice one short",
            "to one side yours reaches a place less than to the other. The end of a slice in Python is not part of it.",
            lambda N, window, L: _band(N, window * L) & ~np.eye(N, k=window * L, dtype=bool),
        ),
        Mistake(
            "window to the power of L",
            "for a window of 1 yours never grows. Follow one token by hand: where can it be after one layer, where "
            "after two?",
            lambda N, window, L: _band(N, window**L),
        ),
        Mistake(
            "one layer too few",
            "with L = 1 yours reads itself alone. How far does one layer reach?",
            lambda N, window, L: _band(N, window * (L - 1)),
        ),
        Mistake(
            "one layer too many",
            "with L = 1 yours reaches two windows. How far does one layer reach?",
            lambda N, window, L: _band(N, window * (L + 1)),
        ),
        Mistake(
            "window plus layers",
            "right for a window of 1, and too short for a wider one. How much further does each layer bring a token?",
            lambda N, window, L: _band(N, window + L - 1),
        ),
        Mistake(
            "window plus L",
            "with L = 1 yours reaches one place beyond the window. And how much does every further layer add?",
            lambda N, window, L: _band(N, window + L),
        ),
        Mistake(
            "window doubled by each layer",
            "you double the reach in each layer. A token's neighbors bring what lies one window further, not twice "
            "as far.",
            lambda N, window, L: _band(N, window * 2 ** (L - 1)),
        ),
        Mistake(
            "edge left out",
            "the token at exactly the distance of the window may be read: its border belongs to it.",
            lambda N, window, L: _band(N, window * L - 1) if window * L else np.zeros((N, N), dtype=bool),
        ),
        Mistake(
            "edge of every layer left out",
            "the token at exactly the distance of the window may be read, in every layer: its border belongs to it.",
            lambda N, window, L: _band(N, (window - 1) * L) if window else np.zeros((N, N), dtype=bool),
        ),
        Mistake(
            "one place too far",
            "even one layer goes one place beyond its window with you. Which distance is the largest allowed?",
            lambda N, window, L: _band(N, window * L + 1),
        ),
        Mistake(
            "window taken as the whole width",
            "you give each side half. Here window is the distance to either side.",
            lambda N, window, L: _band(N, window // 2 * L),
        ),
        Mistake(
            "only the past",
            "yours is causal. The window here is open to both sides.",
            lambda N, window, L: np.tril(_band(N, window * L)),
        ),
        Mistake(
            "only the future",
            "yours reads what comes after. The window here is open to both sides.",
            lambda N, window, L: np.triu(_band(N, window * L)),
        ),
        Mistake(
            "no absolute value",
            "j − i is negative for all of the past, and so it is always below the window. What is a distance?",
            lambda N, window, L: np.arange(N)[None, :] - np.arange(N)[:, None] <= window * L,
        ),
        Mistake(
            "no absolute value, past and future exchanged",
            "i − j is negative for all of the future, and so it is always below the window. What is a distance?",
            lambda N, window, L: np.arange(N)[:, None] - np.arange(N)[None, :] <= window * L,
        ),
        Mistake(
            "itself left out",
            "a token reads itself too, so it always reaches its own output.",
            lambda N, window, L: _band(N, window * L) & ~np.eye(N, dtype=bool),
        ),
        Mistake(
            "hidden, not read",
            "True marks what reaches, and yours marks what does not.",
            lambda N, window, L: ~_band(N, window * L),
        ),
        Mistake(
            "numbers of ways, not yes or no",
            "a power of the mask counts in how many ways token j comes to output i. Is that number 0 or not?",
            lambda N, window, L: np.linalg.matrix_power(_band(N, window).astype(int), L),
        ),
        Mistake(
            "0 and 1 instead of booleans",
            "right, but as numbers. What dtype says only yes or no?",
            lambda N, window, L: _band(N, window * L).astype(int),
        ),
        Mistake(
            "how many, not which",
            "you count the tokens that reach an output. Which ones are they?",
            lambda N, window, L: _band(N, window * L).sum(axis=-1),
        ),
    ),
)


def check_reach(fn: Any) -> CheckResult:
    """Check ``fn(N, window, L)``: boolean [N, N], True where token j reaches output i after L layers."""
    return check(REACH, fn)
