"""Chapter 4's checks beyond the catalogue: what is right passes, and a mistake is not taken for another one."""

import numpy as np
import pytest

from attnlib import jacobian_norm, scores, softmax
from attnlib.exercises import CATALOGUE
from attnlib.exercises._checking import judge


def first_width(Q, K, dims, *, scale=lambda d: d**-0.5, cut=True):
    """Return the first width at which the median answer without a factor is below the one with `scale(d)`."""
    for d in dims:
        few = slice(d if cut else None)
        bare, scaled = (jacobian_norm(softmax(scores(Q[:, few], K[:, few], scale=c))) for c in (1.0, scale(d)))
        if np.median(bare) < np.median(scaled):
            return d
    return None


@pytest.mark.parametrize("number", [int, float, np.float32])
def test_a_loop_passes_whatever_number_it_returns(number):
    result = judge(CATALOGUE["crossover"], lambda *case: number(first_width(*case)))
    assert result, result.message


@pytest.mark.parametrize(
    ("wrong", "mistake"),
    [
        (lambda Q, K, dims: first_width(Q, K, dims, scale=lambda d: 1 / d), "another factor"),
        (lambda Q, K, dims: first_width(Q, K, dims, scale=lambda d: dims[-1] ** -0.5), "another factor"),
        (lambda Q, K, dims: first_width(Q, K, dims, cut=False), "always the first width"),
    ],
)
def test_a_wrong_factor_or_width_is_named(wrong, mistake):
    result = judge(CATALOGUE["crossover"], wrong)
    assert not result
    assert result.mistake == mistake


@pytest.mark.parametrize("log", [np.log2, np.log10])
def test_the_base_of_the_logarithm_does_not_matter(log):
    def slope(Q, K, dims):
        return np.polyfit(log(dims), log([(Q[:, :d] * K[:, :d]).sum(axis=1).var(ddof=1) for d in dims]), 1)[0]

    result = judge(CATALOGUE["variance_slope"], slope)
    assert result, result.message
