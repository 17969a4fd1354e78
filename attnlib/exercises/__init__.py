"""The checks of the book's exercises, and the one catalogue of mistakes behind them."""

from attnlib.exercises._checking import CheckResult, Exercise, Mistake
from attnlib.exercises.single_head import SOFTMAX, check_softmax

CATALOGUE: dict[str, Exercise] = {
    "softmax": SOFTMAX,
}

__all__ = ["CATALOGUE", "CheckResult", "Exercise", "Mistake", "check_softmax"]
