"""How a check tries a student's function, judges it, and names the mistake."""

import copy
import inspect
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnlib._arrays import shape_of

TOLERANCE = {2: 1e-2, 4: 1e-5, 8: 1e-9}  # by bytes a number: float16, float32, float64
NOTHING = "nothing came back: not attempted yet, or a forgotten return."


@dataclass(frozen=True)
class CheckResult:
    """The verdict on one attempt; true only when it is right.

    Attributes
    ----------
    passed : bool
    message : str
        What was printed.
    mistake : str or None
        The name of the recognised mistake.
    """

    passed: bool
    message: str
    mistake: str | None = None

    def __bool__(self) -> bool:
        return self.passed

    def _ipython_display_(self) -> None:
        """Show nothing: the message was printed already."""


@dataclass(frozen=True)
class Mistake:
    """A wrong implementation that people write, its name, and what helps them to see it."""

    name: str
    hint: str
    function: Callable


@dataclass(frozen=True)
class Symptom:
    """Something visibly wrong with a result: a sentence, shown when `shows(arguments, result)` is true."""

    sentence: str
    shows: Callable[[tuple, np.ndarray], bool]


@dataclass(frozen=True)
class Exercise:
    """What a check needs to know.

    Attributes
    ----------
    arguments : tuple of str
        What the student's function is given, in this order.
    reference : callable
        The right function.
    cases : callable
        Takes a random generator and returns argument tuples; all dimensions of a case differ.
    mistakes : tuple of Mistake
    success : str
        Closes the message "Right: ...".
    symptoms : tuple of Symptom
        Tried in order when a result is wrong.
    own : tuple of callable
        attnlib's own functions, which are not accepted as an answer.
    view : callable
        Takes (arguments, result) and returns the array that is compared. For exercises that have many
        right answers: what the answer *does*. It raises `Unreadable` for a result of another kind.
    keeps_dtype : bool
        The dtype counts too: float32 in, float32 out.
    convert : callable
        What becomes of each argument before the student's function gets it; for exercises in torch, a tensor.
    """

    arguments: tuple[str, ...]
    reference: Callable
    cases: Callable[[np.random.Generator], Iterable[tuple]]
    mistakes: tuple[Mistake, ...]
    success: str
    symptoms: tuple[Symptom, ...] = ()
    own: tuple[Callable, ...] = ()
    view: Callable[[tuple, Any], Any] = lambda arguments, result: result
    keeps_dtype: bool = False
    convert: Callable[[Any], Any] = lambda argument: argument


class Unreadable(ValueError):
    """Raised by a `view` that cannot read a result: its message continues "on ... your function returns"."""


@dataclass(frozen=True)
class Outcome:
    """What one call gave: an array and what it holds, or a complaint that explains why there is none."""

    array: np.ndarray | None = None
    complaint: str | None = None
    holds: str | None = None  # "booleans" or "numbers"; the dtype where it counts
    precision: int = 8  # bytes a number

    def equals(self, other: "Outcome") -> bool:
        if self.array is None or other.array is None:
            return self.array is other.array  # both failed
        a, b = self.array, other.array
        if a.shape != b.shape or self.holds != other.holds:
            return False
        tolerance = TOLERANCE.get(min(self.precision, other.precision), 1e-9)
        return np.allclose(a.astype(float), b.astype(float), rtol=tolerance, atol=tolerance, equal_nan=True)


def check(exercise: Exercise, fn: Any) -> CheckResult:
    """Try `fn` on the cases of an exercise, print the verdict and return it. Never raises."""
    result = judge(exercise, fn)
    print(result.message)
    return result


def judge(exercise: Exercise, fn: Any) -> CheckResult:
    """Return the verdict on `fn` without printing it."""
    if not callable(fn):
        return CheckResult(
            False, f"Not yet: hand in the function itself, without brackets, not its result ({type(fn).__name__})."
        )
    if any(fn is own for own in exercise.own):
        return CheckResult(False, f"Nice try: that is attnlib's own {fn.__name__}. Write yours, then compare the two.")
    cases = list(exercise.cases(np.random.default_rng(0)))
    expected = [call(exercise, exercise.reference, case) for case in cases]
    outcomes = [call(exercise, fn, case) for case in cases]
    wrong = [i for i in range(len(cases)) if not outcomes[i].equals(expected[i])]
    if not wrong:
        return CheckResult(True, f"Right: {len(cases)} random cases. {exercise.success}")
    first = wrong[0]
    with np.errstate(all="ignore"):
        message = f"Not yet: {describe(exercise, cases[first], outcomes[first], expected[first])}"
    if outcomes[first].complaint == NOTHING and any(outcome.array is not None for outcome in outcomes):
        where = inputs(exercise, cases[first])
        message = f"Not yet: on {where} nothing came back, elsewhere something did: is there a way past every return?"
    mistake = recognise(exercise, cases, outcomes)
    if mistake is None:
        return CheckResult(False, message)
    return CheckResult(False, f"{message}\nThis looks like “{mistake.name}”: {mistake.hint}", mistake.name)


def call(exercise: Exercise, fn: Callable, case: tuple) -> Outcome:
    """Call `fn` on copies of the arguments and return what came of it, whatever that is."""
    given = copy.deepcopy(case)
    try:
        inspect.signature(fn).bind(*given)
    except TypeError:
        names = ", ".join(exercise.arguments)
        return Outcome(complaint=f"the check calls your function with ({names}), and it takes other arguments.")
    except ValueError:
        pass  # a builtin without a signature: just call it
    # BaseException: a student's exit() or an interrupted endless loop must not take the notebook along.
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            result = fn(*map(exercise.convert, given))
            if result is None or result is Ellipsis:
                return Outcome(complaint=NOTHING)
            array = as_plain_array(exercise.view(case, result))
            precision = min(bytes_a_number(array), bytes_a_number(result))  # a view may have widened float32
    except Unreadable as error:
        return Outcome(complaint=f"on {inputs(exercise, case)} your function returns {error}")
    except BaseException as error:
        return Outcome(complaint=f"on {inputs(exercise, case)} your function raised {type(error).__name__}: {error}")
    if not all(same(a, b) for a, b in zip(case, given, strict=True)):
        return Outcome(complaint="your function changes the arrays it is given: work on a copy.")
    if array is None:
        return Outcome(complaint=f"your function returns {kind(result)}, not an array of numbers.")
    holds = "booleans" if array.dtype == bool else str(array.dtype) if exercise.keeps_dtype else "numbers"
    return Outcome(array, holds=holds, precision=precision)


def as_plain_array(result: Any) -> np.ndarray | None:
    """Return a result as a base NumPy array, whose comparisons cannot lie; None unless it holds numbers."""
    if hasattr(result, "detach"):
        result = result.detach().cpu().numpy()
    try:
        array = np.array(result, subok=False)
    except ValueError:  # a tuple of several arrays, lists of unequal length
        return None
    return array if array.dtype.kind in "bif" else None


def bytes_a_number(result: Any) -> int:
    """Return the fewest bytes of a floating number in an array, or in arrays side by side; 8 where there is none."""
    parts = map(as_plain_array, result) if isinstance(result, tuple | list) else [as_plain_array(result)]
    return min((part.dtype.itemsize for part in parts if part is not None and part.dtype.kind == "f"), default=8)


def same(a: Any, b: Any) -> bool:
    """Say whether two arguments are equal, to the bit."""
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.shape == b.shape and a.tobytes() == b.tobytes()
    return bool(a == b)


def recognise(exercise: Exercise, cases: list[tuple], outcomes: list[Outcome]) -> Mistake | None:
    """Return the catalogued mistake that gives the same outcome in every case."""
    if all(outcome.array is None for outcome in outcomes):
        return None  # nothing but failures: too little to tell one mistake from another
    for mistake in exercise.mistakes:
        tried = (call(exercise, mistake.function, case) for case in cases)
        if all(outcome.equals(wrong) for outcome, wrong in zip(outcomes, tried, strict=True)):
            return mistake
    return None


def describe(exercise: Exercise, case: tuple, outcome: Outcome, expected: Outcome) -> str:
    """Say what is wrong with one result, without giving the right one away."""
    if outcome.complaint:
        return outcome.complaint
    where = f"on {inputs(exercise, case)} "
    got, want = outcome.array, expected.array
    if got.shape != want.shape:
        asked = f"have {shape_of(want)}" if want.shape else "be one number"
        return f"{where}your result has shape {shape_of(got)}, but should {asked}."
    if outcome.holds != expected.holds:
        return f"{where}your result holds {got.dtype}, but should hold {expected.holds}."
    if np.isnan(got).any() and not np.isnan(want).any():
        return f"{where}your result holds NaN."
    gap = np.nanmax(np.abs(got.astype(float) - want.astype(float)), initial=0)
    if want.dtype.kind == "f" and gap < 1e-5 * np.abs(want[np.isfinite(want)]).max(initial=0):
        return (
            f"{where}your result is nearly right, off by up to {gap:.2g}: an approximation, a small number added, or a "
            "lower precision on the way?"
        )
    for symptom in exercise.symptoms:
        if symptom.shows(case, got):
            return where + symptom.sentence
    if got.dtype == bool:
        return f"{where}{np.mean(got != want):.0%} of your entries are wrong."
    return f"{where}your result is off by up to {gap:.2g}."


def inputs(exercise: Exercise, case: tuple) -> str:
    """Name the arguments of a case: arrays by their shape (and dtype, where it counts), numbers by their value."""
    return ", ".join(
        f"{name} {shape_of(x)}{f' {x.dtype}' if exercise.keeps_dtype else ''}"
        if isinstance(x, np.ndarray)
        else f"{name} = {x}"
        for name, x in zip(exercise.arguments, case, strict=True)
    )


def kind(result: Any) -> str:
    """Say what a result is that is no array: a dict, a tuple of 2 things."""
    several = f" of {len(result)} things" if isinstance(result, tuple | list) else ""
    return article(type(result).__name__) + several


def article(noun: str) -> str:
    """Return the noun with a or an before it."""
    return f"{'an' if noun[0].lower() in 'aeiou' else 'a'} {noun}"
