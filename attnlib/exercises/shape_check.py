"""The exercises of chapter 9: the table of shapes, a checker that names the axis, a test against the museum."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from attnlib.exercises._checking import (
    CheckResult,
    Exercise,
    Mistake,
    Outcome,
    Symptom,
    Unreadable,
    call,
    check,
    judge,
    not_yet,
    recognise,
)
from attnlib.exercises._language import _
from attnlib.exercises.museum import MUSEUM, RIGHT
from attnlib.properties import TESTS, attend_right, outcome, random_input
from attnlib.shapes import check_shapes, shape_table

# ---------------------------------------------------------------------------------------------------------------------
# The table for new sizes
# ---------------------------------------------------------------------------------------------------------------------

ROWS = ("X", "Q", "S", "H", "concat")


def _table_cases(rng: np.random.Generator) -> list[tuple]:
    return [(2, 5, 12, 4), (3, 7, 10, 2), (4, 6, 15, 5), (1, 8, 6, 3), (5, 9, 14, 2)]  # B, N, d_model, h


def _view_table(arguments: tuple, result: Any) -> np.ndarray:
    """Return one row a tensor: how many axes, four sizes (0 where there is none), and 1 if all are whole numbers."""
    if not isinstance(result, dict) or not set(ROWS) <= result.keys():
        raise Unreadable(_("no dict with the names {names}.").format(names=_(", ").join(ROWS)))
    rows = []
    for name in ROWS:
        shape = result[name]
        numbers = isinstance(shape, tuple | list) and all(isinstance(n, int | float | np.number) for n in shape)
        if not numbers or len(shape) > 4:
            what = _("{shape} for {name}: each shape is a tuple of at most four numbers.")
            raise Unreadable(what.format(shape=repr(shape), name=name))
        whole = all(isinstance(n, int | np.integer) for n in shape)
        rows.append([len(shape), *shape, *[0] * (4 - len(shape)), whole])
    return np.array(rows, dtype=float)


def _rows(**changed: Callable) -> Callable:
    """Return a table in which some rows are ``changed[name](B, N, d_model, h, d_h)``."""

    def table(B, N, d_model, h):
        right = {name: shape_table(B, N, d_model, h)[name] for name in ROWS}
        return right | {name: shape(B, N, d_model, h, d_model // h) for name, shape in changed.items()}

    return table


def _row_is_wrong(row: int) -> Callable:
    return lambda case, got: not np.array_equal(got[row], _view_table(case, _rows()(*case))[row])


SHAPE_TABLE = Exercise(
    arguments=("B", "N", "d_model", "h"),
    reference=_rows(),
    cases=_table_cases,
    own=(shape_table,),
    view=_view_table,
    success="You can predict a model's shapes before it runs.",
    symptoms=tuple(
        Symptom(f"your shape of {name} is the first that is not right.", _row_is_wrong(row))
        for row, name in enumerate(ROWS)
    ),
    mistakes=(
        Mistake(
            "every head as wide as a token",
            "your heads are d_model wide each. Joined, they should be as wide as one token: what is left for each?",
            _rows(Q=lambda B, N, d, h, d_h: (B, h, N, d), H=lambda B, N, d, h, d_h: (B, h, N, d)),
        ),
        Mistake(
            "tokens before heads",
            "the last two axes are multiplied, the ones before are repeated over. Do queries meet keys within a head, "
            "or heads within a token?",
            _rows(Q=lambda B, N, d, h, d_h: (B, N, h, d_h), H=lambda B, N, d, h, d_h: (B, N, h, d_h)),
        ),
        Mistake(
            "h and d_h swapped",
            "you have as many heads as a head should have components.",
            _rows(
                Q=lambda B, N, d, h, d_h: (B, d_h, N, h),
                S=lambda B, N, d, h, d_h: (B, d_h, N, N),
                H=lambda B, N, d, h, d_h: (B, d_h, N, h),
            ),
        ),
        Mistake(
            "one matrix of scores for all heads",
            "each head has scores of its own. Which axis says which head?",
            _rows(S=lambda B, N, d, h, d_h: (B, N, N)),
        ),
        Mistake(
            "scores as wide as a head",
            "a query meets every key once. How many numbers does a row of scores hold, and over which axis was summed?",
            _rows(S=lambda B, N, d, h, d_h: (B, h, N, d_h)),
        ),
        Mistake(
            "components compared with components",
            "your scores have a row for each component. Which axis do Q and K share, so that it can be summed over?",
            _rows(S=lambda B, N, d, h, d_h: (B, h, d_h, d_h)),
        ),
        Mistake(
            "head outputs already joined",
            "H holds what each head found. Joining is the step after.",
            _rows(H=lambda B, N, d, h, d_h: (B, N, d)),
        ),
        Mistake(
            "concat as wide as one head",
            "side by side, h heads of width d_h are how wide?",
            _rows(concat=lambda B, N, d, h, d_h: (B, N, d_h)),
        ),
        Mistake(
            "no batch",
            "a batch of B sentences goes through at once. Which axis of each tensor says which sentence?",
            lambda B, N, d_model, h: {name: shape[1:] for name, shape in _rows()(B, N, d_model, h).items()},
        ),
        Mistake(
            "d_h is no whole number",
            "the sizes are right, but one slash in Python gives 4.0, and no array has 4.0 columns.",
            _rows(Q=lambda B, N, d, h, d_h: (B, h, N, d / h), H=lambda B, N, d, h, d_h: (B, h, N, d / h)),
        ),
    ),
)


def check_shape_table(fn: Any) -> CheckResult:
    """Check ``fn(B, N, d_model, h)``: a dict of X, Q, S, H and concat to the shape of each, a tuple."""
    return check(SHAPE_TABLE, fn)


# ---------------------------------------------------------------------------------------------------------------------
# A checker that names the axis
# ---------------------------------------------------------------------------------------------------------------------

ORDER = {
    "X": ("B", "N_q", "d_model"),
    "Q": ("B", "h", "N_q", "d_h"),
    "K": ("B", "h", "N_k", "d_h"),
    "V": ("B", "h", "N_k", "d_v"),
    "S": ("B", "h", "N_q", "N_k"),
    "A": ("B", "h", "N_q", "N_k"),
    "H": ("B", "h", "N_q", "d_v"),
    "concat": ("B", "N_q", "h*d_v"),
    "output": ("B", "N_q", "d_model"),
}
AXIS_NAMES = ("", *dict.fromkeys(axis for axes in ORDER.values() for axis in axes))


def _checker_cases(rng: np.random.Generator) -> list[tuple]:
    faults = [  # tensor and place of each size that is changed
        [],
        [("K", 3)],
        [("V", 2)],
        [],
        [("S", 3)],
        [("concat", 2)],
        [("K", 0), ("H", 2)],
        [("H", 3)],
        [("output", 2)],
        [("A", 1), ("output", 1)],
        [("Q", 2)],
        [],
    ]
    cases = []
    for number, fault in enumerate(faults):
        B, h, N_q, N_k, d_h, d_v = rng.permutation(np.arange(2, 8)).tolist()
        d_model = h * d_v + int(rng.integers(1, 4))
        if number == len(faults) - 1:  # self-attention as the book's table has it
            N_k, d_v, d_model = N_q, d_h, h * d_h
        sizes = {"B": B, "h": h, "N_q": N_q, "N_k": N_k, "d_h": d_h, "d_v": d_v, "h*d_v": h * d_v, "d_model": d_model}
        shapes = {name: [sizes[axis] for axis in axes] for name, axes in ORDER.items()}
        for name, place in fault:
            shapes[name][place] += 11
        cases.append(({name: tuple(shape) for name, shape in shapes.items()},))
    return cases


def _checker(
    axes: dict[str, tuple] = ORDER,
    *,
    same: dict[str, str] | None = None,
    ignored: Iterable[str] = (),
    product: bool = True,
    pick: int = 0,
) -> Callable:
    """Return a checker that takes some axes for one, ignores some, or picks another disagreement than the first."""
    same = same or {}

    def find(shapes):
        sizes, faults = {}, []
        for name in axes:
            for axis, size in zip(axes[name], shapes[name], strict=True):
                if axis == "h*d_v" and product:
                    sizes[axis] = sizes["h"] * sizes[same.get("d_v", "d_v")]
                if axis not in ignored and sizes.setdefault(same.get(axis, axis), size) != size:
                    faults.append(axis)
        return faults[pick] if faults else ""

    return find


def _view_axis(arguments: tuple, result: Any) -> int:
    if not isinstance(result, str) or result not in AXIS_NAMES:
        what = _("{text}, but should return the name of an axis, or an empty text.")
        raise Unreadable(what.format(text=repr(str(result)[:40])))
    return AXIS_NAMES.index(result)


SHAPE_CHECKER = Exercise(
    arguments=("shapes",),
    reference=_checker(),
    cases=_checker_cases,
    own=(check_shapes,),
    view=_view_axis,
    success="Cross-attention and values of their own width pass, too.",
    symptoms=(
        Symptom("you find a disagreement where there is none.", lambda case, got: _checker()(*case) == ""),
        Symptom("you find nothing, but one axis disagrees.", lambda case, got: got == 0),
        Symptom("another axis than the one that you name is the first to disagree.", lambda case, got: True),
    ),
    mistakes=(
        Mistake("nothing is ever wrong", "a checker that cannot fail checks nothing.", lambda shapes: ""),
        Mistake(
            "N_q and N_k taken for one",
            "queries may come from one sentence and keys from another, of another length.",
            _checker(same={"N_k": "N_q"}),
        ),
        Mistake(
            "d_v taken for d_h",
            "values are never compared with queries, and may have a width of their own.",
            _checker(same={"d_v": "d_h"}),
        ),
        Mistake(
            "concat taken to be as wide as X",
            "W_O may lead from any width to d_model. How wide are h heads side by side?",
            _checker(same={"h*d_v": "d_model"}, product=False),
        ),
        Mistake(
            "the last disagreement, not the first",
            "what is wrong first can make all that follows wrong. Return as soon as you find it.",
            _checker(pick=-1),
        ),
        Mistake(
            "concat not multiplied out",
            "the last axis of concat stands once in the table, so nothing contradicts it. But you know h and d_v.",
            _checker(product=False),
        ),
        Mistake(
            "the batch never compared",
            "the first axis can be wrong as well: think of batch and heads swapped.",
            _checker(ignored=("B",)),
        ),
        Mistake(
            "stops before concat",
            "the heads are fine. Two tensors follow.",
            _checker({name: axes for name, axes in ORDER.items() if name not in ("concat", "output")}),
        ),
    ),
)


def check_shape_checker(fn: Any) -> CheckResult:
    """Check ``fn(shapes)``: from the shapes of a trace the name of the first axis that disagrees, or an empty text."""
    return check(SHAPE_CHECKER, fn)


# ---------------------------------------------------------------------------------------------------------------------
# Beat the museum
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Exhibit:
    """One attention, right or wrong, under its name."""

    name: str
    attend: Callable

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self.attend(*arguments, **options)

    def __str__(self) -> str:
        return _("“{name}”").format(name=_(self.name))


SHOWN = 8  # survivors that are named
TURNS = 3  # a test that draws its inputs anew gets each right implementation so many times
RIGHT_EXHIBITS = [Exhibit(name, attend) for name, attend in RIGHT.items()]
EXHIBITS = [*RIGHT_EXHIBITS, *(Exhibit(mistake.name, mistake.function) for mistake in MUSEUM)]


@cache
def _passed(name: str, attention_fn: Callable, **sizes: int) -> bool:
    return outcome(TESTS[name], attention_fn, **sizes) == "passed"


def _passes(*names: str, **sizes: int) -> Callable:
    """Return a test that passes if all the named ones of attnlib pass."""
    return lambda attention_fn: all(_passed(name, attention_fn, **sizes) for name in names)


def _compares(equal: Callable, **options: Any) -> Callable:
    """Return a test that compares the output with the right one under some options."""

    def test(attention_fn):
        X, weights = random_input(np.random.default_rng(7), B=2, N=5, d_model=12, h=3)
        try:
            return bool(equal(attention_fn(X, weights, **options).output, attend_right(X, weights, **options).output))
        except ValueError:
            return False

    return test


def _close(a: np.ndarray, b: np.ndarray) -> bool:
    return np.allclose(a, b, rtol=0, atol=1e-9)


MUSEUM_TEST = Exercise(
    arguments=("attention_fn",),
    reference=_passes("reference"),
    cases=lambda rng: [(exhibit,) for exhibit in EXHIBITS],
    own=tuple(TESTS.values()),
    success="Every bug is caught, and no right implementation is blamed.",
    mistakes=(
        Mistake("everything passes", "a test that cannot fail says nothing about what it tests.", lambda fn: True),
        Mistake(
            "everything fails",
            "a test that blames right code is switched off sooner or later. Start from what right code does.",
            lambda fn: False,
        ),
        Mistake(
            "the verdict turned round",
            "True should mean: this attention passes.",
            lambda fn: not _passes("reference")(fn),
        ),
        Mistake(
            "shapes alone",
            "you look at shapes only. What else is true of every right attention? The chapter lists five things.",
            _passes("shapes"),
        ),
        Mistake(
            "output shape alone",
            "you look at one shape, that of the output. The intermediates have shapes as well, and all of them values.",
            _compares(lambda a, b: a.shape == b.shape),
        ),
        Mistake(
            "row sums alone", "that A is a table of shares says nothing about what it shares.", _passes("row sums")
        ),
        Mistake(
            "no mask tried",
            "you never ask for a mask, so its bugs are never run: causal=True, words=..., and both.",
            _compares(_close),
        ),
        Mistake(
            "only the causal mask tried",
            "you never pass words=..., so the padding is never there to be ignored.",
            _compares(_close, causal=True),
        ),
        Mistake(
            "compared to the bit",
            "sums in another order round differently. How much may two right results differ?",
            _compares(np.array_equal),
        ),
        Mistake(
            "properties alone",
            "shapes, row sums, permutation, causality and padding: what is left passes them all, since it is an "
            "attention, only not this one. A few numbers worked out in another way would show it.",
            _passes(*list(TESTS)[:5]),
        ),
        Mistake(
            "one head alone",
            "with one head there is nothing to split and nothing to merge. Use sizes that all differ.",
            _passes("reference", h=1),
        ),
        Mistake(
            "one token alone",
            "a token by itself gives itself the weight 1, whatever its score is.",
            _passes("reference", N=1),
        ),
    ),
)


def check_museum(my_test: Any) -> CheckResult:
    """Check ``my_test(attention_fn)``: True for right attentions, False (or an exception) for those of the museum.

    Prints how many bugs it catches, which survive, and which right implementations it blames.
    """
    result = judge_museum(my_test)
    print(result.message)
    return result


def judge_museum(my_test: Any) -> CheckResult:
    """Return the verdict of `check_museum` without printing it."""
    if not callable(my_test) or any(my_test is own for own in MUSEUM_TEST.own):
        return judge(MUSEUM_TEST, my_test)
    blamed = []
    for exhibit in RIGHT_EXHIBITS:
        for verdict in (call(MUSEUM_TEST, my_test, (exhibit,)) for turn in range(TURNS)):
            if verdict.complaint:
                return CheckResult(False, not_yet(verdict.complaint))
            if verdict.holds != "booleans" or verdict.array.ndim:
                return CheckResult(False, not_yet(_("your function should return True or False.")))
            if not verdict.array and exhibit.name not in blamed:
                blamed.append(exhibit.name)
    verdicts = [call(MUSEUM_TEST, my_test, (exhibit,)) for exhibit in EXHIBITS]
    # An attention that raises is caught, however the test is written.
    verdicts = [Outcome(np.array(False), holds="booleans") if v.array is None else v for v in verdicts]
    survivors = [m for m, v in zip(MUSEUM, verdicts[len(RIGHT) :], strict=True) if v.array.all()]
    score = _("{caught} of {bugs} bugs caught, {blamed} of {right} right implementations blamed.").format(
        caught=len(MUSEUM) - len(survivors), bugs=len(MUSEUM), blamed=len(blamed), right=len(RIGHT)
    )
    if not survivors and not blamed:
        return CheckResult(True, _("Right: {score}").format(score=score))
    lines = [not_yet(score)]
    if blamed:
        lines.append(_("Blamed, though right: {names}.").format(names=_(", ").join(map(_, blamed))))
    if survivors and not blamed:
        lines += tell_survivors(survivors)
    mistake = recognise(MUSEUM_TEST, [(exhibit,) for exhibit in EXHIBITS], verdicts)
    if mistake is not None:
        looks_like = _("Your test looks like “{name}”: {hint}")
        lines.append(looks_like.format(name=_(mistake.name), hint=_(mistake.hint)))
    return CheckResult(False, "\n".join(lines), mistake and mistake.name)


def tell_survivors(survivors: list[Mistake]) -> list[str]:
    """Name the bugs that a test does not catch, not all if there are many, and give the first one's hint."""
    names = _("; ").join(_(bug.name) for bug in survivors[:SHOWN])
    if len(survivors) > SHOWN:
        names = _("{names} and {number} more").format(names=names, number=len(survivors) - SHOWN)
    first = _("The first, “{name}”, in the words for whoever wrote it: {hint}")
    return [
        _("Survivors: {names}.").format(names=names),
        first.format(name=_(survivors[0].name), hint=_(survivors[0].hint)),
    ]
