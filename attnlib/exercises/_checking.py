"""How a check tries a student's function, judges it, and names the mistake."""

import copy
import inspect
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnlib._arrays import shape_of
from attnlib.exercises._language import _

TOLERANCE = {2: 1e-2, 4: 1e-5, 8: 1e-9}  # by bytes a number: float16, float32, float64


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
    """A wrong implementation that people write, its name, and what helps them to see it.

    Name, hint, and all else that objects hold stand in English: who composes a message looks them up.
    """

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
        what = _("hand in the function itself, without brackets, not its result ({type}).")
        return CheckResult(False, not_yet(what.format(type=type(fn).__name__)))
    if any(fn is own for own in exercise.own):
        return CheckResult(False, nice_try(fn.__name__))
    cases = list(exercise.cases(np.random.default_rng(0)))
    expected = [call(exercise, exercise.reference, case) for case in cases]
    outcomes = [call(exercise, fn, case) for case in cases]
    wrong = [i for i in range(len(cases)) if not outcomes[i].equals(expected[i])]
    if not wrong:
        right = _("Right: {number} random cases. {success}")
        return CheckResult(True, right.format(number=len(cases), success=_(exercise.success)))
    first = wrong[0]
    with np.errstate(all="ignore"):
        message = not_yet(describe(exercise, cases[first], outcomes[first], expected[first]))
    if outcomes[first].complaint == nothing_came_back() and any(outcome.array is not None for outcome in outcomes):
        what = _("nothing came back, elsewhere something did: is there a way past every return?")
        message = not_yet(on(exercise, cases[first], what))
    mistake = recognise(exercise, cases, outcomes)
    if mistake is None:
        return CheckResult(False, message)
    looks_like = _("This looks like “{name}”: {hint}").format(name=_(mistake.name), hint=_(mistake.hint))
    return CheckResult(False, f"{message}\n{looks_like}", mistake.name)


def not_yet(what: str) -> str:
    return _("Not yet: {what}").format(what=what)


def nice_try(name: str) -> str:
    """Decline one of attnlib's own functions."""
    return _("Nice try: that is attnlib's own {name}. Write yours, then compare the two.").format(name=name)


def nothing_came_back() -> str:
    return _("nothing came back: not attempted yet, or a forgotten return.")


def call(exercise: Exercise, fn: Callable, case: tuple) -> Outcome:
    """Call `fn` on copies of the arguments and return what came of it, whatever that is."""
    given = copy.deepcopy(case)
    try:
        inspect.signature(fn).bind(*given)
    except TypeError:
        what = _("the check calls your function with ({names}), and it takes other arguments.")
        return Outcome(complaint=what.format(names=", ".join(exercise.arguments)))
    except ValueError:
        pass  # a builtin without a signature: just call it
    # BaseException: a student's exit() or an interrupted endless loop must not take the notebook along.
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            result = fn(*map(exercise.convert, given))
            if result is None or result is Ellipsis:
                return Outcome(complaint=nothing_came_back())
            array = as_plain_array(exercise.view(case, result))
            precision = min(bytes_a_number(array), bytes_a_number(result))  # a view may have widened float32
    except Unreadable as error:
        return Outcome(complaint=on(exercise, case, _("your function returns {what}").format(what=error)))
    except BaseException as error:
        what = _("your function raised {type}: {text}").format(type=type(error).__name__, text=error)
        return Outcome(complaint=on(exercise, case, what))
    if not all(same(a, b) for a, b in zip(case, given, strict=True)):
        return Outcome(complaint=_("your function changes the arrays it is given: work on a copy."))
    if array is None:
        return Outcome(complaint=_("your function returns {kind}, not an array of numbers.").format(kind=kind(result)))
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
    return outcome.complaint or on(exercise, case, fault(exercise, case, outcome, expected))


def fault(exercise: Exercise, case: tuple, outcome: Outcome, expected: Outcome) -> str:
    """Say in what an array differs from the right one."""
    got, want = outcome.array, expected.array
    if got.shape != want.shape and want.shape:
        what = _("your result has shape {got}, but should have {want}.")
        return what.format(got=shape_of(got), want=shape_of(want))
    if got.shape != want.shape:
        return _("your result has shape {got}, but should be one number.").format(got=shape_of(got))
    if outcome.holds != expected.holds:
        what = {"booleans": _("booleans"), "numbers": _("numbers")}.get(expected.holds, expected.holds)
        return _("your result holds {got}, but should hold {want}.").format(got=got.dtype, want=what)
    if np.isnan(got).any() and not np.isnan(want).any():
        return _("your result holds NaN.")
    gap = np.nanmax(np.abs(got.astype(float) - want.astype(float)), initial=0)
    if want.dtype.kind == "f" and gap < 1e-5 * np.abs(want[np.isfinite(want)]).max(initial=0):
        return _(
            "your result is nearly right, off by up to {gap}: an approximation, a small number added, or a lower "
            "precision on the way?"
        ).format(gap=f"{gap:.2g}")
    for symptom in exercise.symptoms:
        if symptom.shows(case, got):
            return _(symptom.sentence)
    if got.dtype == bool:
        return _("{share} of your entries are wrong.").format(share=f"{np.mean(got != want):.0%}")
    return _("your result is off by up to {gap}.").format(gap=f"{gap:.2g}")


def on(exercise: Exercise, case: tuple, what: str) -> str:
    """Say on which input something is so."""
    return _("on {inputs} {what}").format(inputs=inputs(exercise, case), what=what)


def inputs(exercise: Exercise, case: tuple) -> str:
    """Name the arguments of a case: arrays by their shape (and dtype, where it counts), numbers by their value."""
    return _(", ").join(
        f"{name} {shape_of(x)}{f' {x.dtype}' if exercise.keeps_dtype else ''}"
        if isinstance(x, np.ndarray)
        else f"{name} = {x}"
        for name, x in zip(exercise.arguments, case, strict=True)
    )


def kind(result: Any) -> str:
    """Say what a result is that is no array: a dict, a tuple of 2 things."""
    name = type(result).__name__
    one = (_("an {noun}") if name[0].lower() in "aeiou" else _("a {noun}")).format(noun=name)
    several = isinstance(result, tuple | list)
    return _("{kind} of {number} things").format(kind=one, number=len(result)) if several else one
