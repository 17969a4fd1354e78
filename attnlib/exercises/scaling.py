"""The exercises of chapter 4: the slope of the variance, the Jacobian of softmax, and the crossover."""

from collections.abc import Callable
from typing import Any

import numpy as np

from attnlib.exercises._checking import CheckResult, Exercise, Mistake, Symptom, check
from attnlib.measure import jacobian_norm, softmax_jacobian
from attnlib.single_head import scores, softmax


def _slope_cases(rng: np.random.Generator) -> list[tuple]:
    sizes = [(300, (2, 8, 32)), (500, (1, 3, 10, 30)), (400, (4, 16, 64, 100))]
    return [(*rng.normal(size=(2, pairs, dims[-1])), dims) for pairs, dims in sizes]


def _slope_of(spread: Callable[[np.ndarray], float], scale: Callable[[int], float] = lambda d: 1.0) -> Callable:
    def slope(Q, K, dims):
        spreads = [spread((Q[:, :d] * K[:, :d]).sum(axis=1) * scale(d)) for d in dims]
        return np.polyfit(np.log(dims), np.log(spreads), 1)[0]

    return slope


def _line(Q, K, dims, *, x: Callable = np.log, y: Callable = np.log, degree: int = 1):
    return np.polyfit(x(dims), y([(Q[:, :d] * K[:, :d]).sum(axis=1).var() for d in dims]), degree)


def _slope_of_single_products(Q, K, dims):
    return np.polyfit(np.log(dims), np.log([(Q[:, :d] * K[:, :d]).var() for d in dims]), 1)[0]


def _slope_of_all_pairs(Q, K, dims):
    return np.polyfit(np.log(dims), np.log([(Q[:, :d] @ K[:, :d].T).var() for d in dims]), 1)[0]


def _slope_swapped(Q, K, dims):
    return np.polyfit(np.log([(Q[:, :d] * K[:, :d]).sum(axis=1).var() for d in dims]), np.log(dims), 1)[0]


VARIANCE_SLOPE = Exercise(
    arguments=("Q", "K", "dims"),
    reference=_slope_of(np.var),
    cases=_slope_cases,
    success="Near 1: the variance grows in proportion to d_h.",
    mistakes=(
        Mistake(
            "standard deviation",
            "your slope is near one half. Which power of the variance is the standard deviation?",
            _slope_of(np.std),
        ),
        Mistake(
            "no logarithms",
            "the slope of the variance itself depends on its unit. A power of d is a straight line on which axes?",
            lambda *case: _line(*case, x=np.asarray, y=np.asarray)[0],
        ),
        Mistake(
            "no logarithm of the variance",
            "you fit the variance itself against log d. Both axes should be logarithmic.",
            lambda *case: _line(*case, y=np.asarray)[0],
        ),
        Mistake(
            "no logarithm of the width",
            "you fit the log of the variance against d itself. Both axes should be logarithmic.",
            lambda *case: _line(*case, x=np.asarray)[0],
        ),
        Mistake(
            "slope and intercept",
            "np.polyfit returns both numbers of the line, the highest power first. Which of the two is the slope?",
            _line,
        ),
        Mistake(
            "intercept",
            "your number is where the line meets the axis. In what order does np.polyfit return the powers?",
            lambda *case: _line(*case)[1],
        ),
        Mistake(
            "mean square",
            "you took the mean of the squares. The variance is measured from the mean, which is not exactly 0 here.",
            _slope_of(lambda products: (products**2).mean()),
        ),
        Mistake(
            "products not added up",
            "you took the variance of the single products of components. A dot product is their sum over a row.",
            _slope_of_single_products,
        ),
        Mistake(
            "axes swapped",
            "you fit log d against log variance. The variance is what depends on d.",
            _slope_swapped,
        ),
        Mistake(
            "already scaled",
            "your slope is near 0: these dot products were divided by √d before their variance was taken.",
            _slope_of(np.var, lambda d: d**-0.5),
        ),
        Mistake(
            "divided by d",
            "your slope is near −1: a mean over components is not the dot product.",
            _slope_of(np.var, lambda d: 1 / d),
        ),
        Mistake(
            "every query with every key",
            "row i of Q belongs to row i of K: one dot product for each pair, not a table of all of them.",
            _slope_of_all_pairs,
        ),
    ),
)


def check_variance_slope(fn: Any) -> CheckResult:
    """Check ``fn(Q, K, dims)``: the slope of log variance of q·k against log d, over the first d components."""
    return check(VARIANCE_SLOPE, fn)


def _jacobian_cases(rng: np.random.Generator) -> list[tuple]:
    return [(rng.normal(size=N) * 2,) for N in (2, 3, 5, 8)]


JACOBIAN = Exercise(
    arguments=("s",),
    reference=lambda s: softmax_jacobian(softmax(s)),
    cases=_jacobian_cases,
    own=(softmax_jacobian,),
    success="Rows and columns sum to 0: what one key gains, the others lose.",
    symptoms=(
        Symptom(
            "your rows do not sum to 0, but weights that always sum to 1 cannot all grow.",
            lambda case, J: not np.allclose(J.sum(axis=-1), 0, atol=1e-8),
        ),
    ),
    mistakes=(
        Mistake(
            "each weight for itself",
            "your matrix is diagonal. Raising one score also lowers every other weight: where does that stand?",
            lambda s: np.diag(softmax(s) * (1 - softmax(s))),
        ),
        Mistake(
            "only the diagonal term",
            "you have the numerator's derivative. The denominator depends on every score, too.",
            lambda s: np.diag(softmax(s)),
        ),
        Mistake(
            "only the outer product",
            "you have the denominator's derivative. The numerator depends on its own score, too.",
            lambda s: -np.outer(softmax(s), softmax(s)),
        ),
        Mistake(
            "dot product for outer product",
            "a @ a is one number, Σ a², and you subtract it everywhere. Each pair of keys needs a product of its own.",
            lambda s: np.diag(softmax(s)) - softmax(s) @ softmax(s),
        ),
        Mistake(
            "squares for outer product",
            "a * a multiplies each weight by itself alone. Off the diagonal two different weights meet.",
            lambda s: np.diag(softmax(s)) - softmax(s) ** 2,
        ),
        Mistake(
            "weights instead of their diagonal matrix",
            "the first term stands in every row. It belongs on the diagonal alone.",
            lambda s: softmax(s) - np.outer(softmax(s), softmax(s)),
        ),
        Mistake(
            "sign of the outer product",
            "when one score grows, the other weights must shrink. Look at the sign off the diagonal.",
            lambda s: np.diag(softmax(s)) + np.outer(softmax(s), softmax(s)),
        ),
        Mistake(
            "sign of everything",
            "raising a score raises its own weight: the diagonal cannot be negative.",
            lambda s: -softmax_jacobian(softmax(s)),
        ),
        Mistake(
            "scores taken for weights",
            "the formula wants the weights a, and the function is given the scores s. What turns one into the other?",
            lambda s: np.diag(s) - np.outer(s, s),
        ),
    ),
)


def check_jacobian(fn: Any) -> CheckResult:
    """Check ``fn(s)``: the derivative of each weight with respect to each score, [N_k, N_k], from the scores."""
    return check(JACOBIAN, fn)


def _crossover_cases(rng: np.random.Generator) -> list[tuple]:
    dims = (4, 6, 9, 14, 21, 32, 48, 72, 108)
    return [(rng.normal(size=(queries, dims[-1])), rng.normal(size=(N, dims[-1])), dims) for queries, N in _SIZES]


_SIZES = ((200, 4), (300, 9), (250, 20))


def _norms(Q, K, d, *, scale=None):
    return jacobian_norm(softmax(scores(Q[:, :d], K[:, :d], scale=scale)))


def _crossover(typical: Callable = np.median, pick: Callable = lambda dims, below: dims[below.index(True)]) -> Callable:
    def crossover(Q, K, dims):
        return pick(dims, [bool(typical(_norms(Q, K, d, scale=1.0)) < typical(_norms(Q, K, d))) for d in dims])

    return crossover


def _crossover_with_another_factor(Q, K, dims):
    return next(d for d in dims if np.median(_norms(Q, K, d, scale=1.0)) < np.median(_norms(Q, K, d, scale=1 / d)))


CROSSOVER = Exercise(
    arguments=("Q", "K", "dims"),
    reference=_crossover(),
    cases=_crossover_cases,
    success="The more keys, the later the scale begins to pay.",
    symptoms=(Symptom("your result is not one of the values in dims.", lambda case, d: d.item() not in case[2]),),
    mistakes=(
        Mistake(
            "the place in the list",
            "you return where d_h stands in dims. Return d_h itself.",
            _crossover(pick=lambda dims, below: below.index(True)),
        ),
        Mistake(
            "mean instead of median",
            "the mean is held up by the few rows that still answer. The question is about the typical row.",
            _crossover(typical=np.mean),
        ),
        Mistake(
            "the other way round",
            "at the d_h that you return the unscaled rows answer more. Wanted is the first at which they answer less.",
            _crossover(pick=lambda dims, below: dims[below.index(False)]),
        ),
        Mistake(
            "the last one before",
            "at the d_h that you return the unscaled rows still answer more. Go one step further.",
            _crossover(pick=lambda dims, below: dims[below.index(True) - 1]),
        ),
        Mistake(
            "always the first width",
            "you return the first of dims, however many keys there are. Two ways lead there: all components at every "
            "width, or the largest weight instead of the Jacobian. (Unscaled weights are sharper at once. Sharper is "
            "not yet frozen.)",
            lambda Q, K, dims: dims[0],
        ),
        Mistake(
            "another factor",
            "your scaled rows are flatter than they should be. Is the root there, and of which width?",
            _crossover_with_another_factor,
        ),
    ),
)


def check_crossover(fn: Any) -> CheckResult:
    """Check ``fn(Q, K, dims)``: the first d_h at which a typical unscaled row answers less than a scaled one."""
    return check(CROSSOVER, fn)
