"""From a notebook that was handed in to a verdict on each exercise."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from attnlib.exercises import CATALOGUE, CheckResult, Exercise
from attnlib.exercises._checking import judge, nice_try
from attnlib.exercises.shape_check import judge_museum
from classroom.course import Assignment, Part
from classroom.sandbox import Ended, Limits, Remote, Sandbox
from classroom.submission import Submission

JUDGES: dict[str, Callable[[Any], CheckResult]] = {"museum": judge_museum}  # an exercise with a score of its own
MOST_STARTS = 4  # of the untrusted process, if it ends while the cells are run


@dataclass
class Verdict:
    """What came of one exercise."""

    name: str
    points: int
    of: int
    message: str
    mistake: str | None = None
    flags: list[str] = field(default_factory=list)  # for the teacher


@dataclass
class Report:
    """What came of one student's notebook."""

    student: str
    assignment: str
    verdicts: list[Verdict]
    notes: list[str] = field(default_factory=list)  # for student and teacher
    problem: str = ""  # why there was nothing to grade
    closed: bool = False  # the file system was

    @property
    def points(self) -> int:
        return sum(verdict.points for verdict in self.verdicts)


def verdict_on(name: str, fn: Any, seed: int) -> CheckResult:
    """Judge a function on the book's cases, and on as many that nobody has seen."""
    if name in JUDGES:
        return JUDGES[name](fn)
    return judge(with_more_cases(CATALOGUE[name], seed), fn)


def with_more_cases(exercise: Exercise, seed: int) -> Exercise:
    def cases(rng: np.random.Generator) -> list[tuple]:
        return [*exercise.cases(rng), *exercise.cases(np.random.default_rng(seed))]

    return replace(exercise, cases=cases)


def passes(name: str, fn: Any, seed: int) -> bool:
    """Say whether a function is right; for nbgrader's own autograder, which has nothing but the student's kernel."""
    result = verdict_on(name, fn, seed)
    if not result:
        print(result.message)
    return bool(result)


def grade(assignment: Assignment, submission: Submission, limits: Limits) -> Report:
    """Grade what a student handed in."""
    report = Report(submission.student, assignment.name, [], list(submission.notes), submission.problem)
    if submission.problem:
        report.verdicts = [nothing(part, submission.problem) for part in assignment.parts]
        return report
    bench = Bench(assignment, submission, limits)
    try:
        report.verdicts = [bench.verdict(part) for part in assignment.parts]
    finally:
        bench.close()
    report.notes += [f"Cell {number}: {why}" for number, why in sorted(bench.failures.items())]
    report.closed = bench.closed
    return report


def nothing(part: Part, why: str) -> Verdict:
    return Verdict(part.name, 0, part.points, f"Not graded: {why}")


class Bench:
    """One student's cells, loaded in an untrusted process; in a new one after each that ended."""

    def __init__(self, assignment: Assignment, submission: Submission, limits: Limits):
        self.assignment, self.submission, self.limits = assignment, submission, limits
        self.failures: dict[int, str] = {}
        self.sandbox: Sandbox | None = None
        self.closed = False
        self.cells = list(submission.cells)
        # torch takes seconds to import, which are not the student's
        uses_torch = any("torch" in source for _, source in self.cells)
        self.setup = assignment.imports + "\nimport torch" * uses_torch
        self.starts = 0

    def verdict(self, part: Part) -> Verdict:
        """Judge one exercise."""
        missing = self.submission.missing.get(part.name)
        try:
            fn = self.ready().function(part.function)
        except Ended as error:
            return nothing(part, f"your cells could not be run: {error}.")
        if fn is None:
            why = missing or self.why_missing(part)
            return Verdict(part.name, 0, part.points, f"Not graded: {why}")
        flags = self.submission.flags.get(part.name, [])
        if isinstance(fn, Remote) and fn.own:
            return Verdict(part.name, 0, part.points, nice_try(fn.own), flags=[f"hands in attnlib's own {fn.own}"])
        result = verdict_on(part.name, fn, part.seed)
        points = part.points if result else 0
        return Verdict(part.name, points, part.points, result.message, result.mistake, flags)

    def why_missing(self, part: Part) -> str:
        answers = [i for i, source in self.submission.cells if f"def {part.function}" in source]
        failed = next((self.failures[i] for i in answers if i in self.failures), None)
        if failed:
            return f"the cell that defines {part.function} ended with {failed}."
        return f"there is no function {part.function}."

    def ready(self) -> Sandbox:
        """Return a process with the cells loaded. Raises `Ended` if that cannot be."""
        if self.sandbox is not None and not self.sandbox.why_ended:
            return self.sandbox
        for _ in range(MOST_STARTS):
            self.close()
            self.sandbox = Sandbox(self.limits, self.setup).__enter__()
            self.closed = self.sandbox.closed
            failures, ended_in = self.sandbox.load(self.cells)
            self.failures |= failures
            if ended_in is None:
                return self.sandbox
            self.cells = [cell for cell in self.cells if cell[0] != ended_in]
        raise Ended(f"{MOST_STARTS} cells ended the process, one after the other")

    def close(self) -> None:
        if self.sandbox is not None:
            self.sandbox.__exit__()
            self.sandbox = None
