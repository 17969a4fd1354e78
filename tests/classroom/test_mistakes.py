"""Every mistake of the catalogue keeps its name on its way through the untrusted process, on unseen cases as well."""

import random

import pytest

from attnlib.exercises import CATALOGUE
from classroom.book import read_chapters
from classroom.course import answer_cell, describe
from classroom.grading import grade, verdict_on
from classroom.sandbox import Limits, Sandbox
from classroom.submission import Submission

LIMITS = Limits(seconds=60, cpu=600, close=False)
ANSWERS = """from attnlib.exercises import CATALOGUE

EXERCISE = CATALOGUE[{name!r}]


def right(*arguments):
    return EXERCISE.reference(*arguments)


def make(number):
    return lambda *arguments: EXERCISE.mistakes[number].function(*arguments)


globals().update({{f"wrong_{{n}}": make(n) for n in range(len(EXERCISE.mistakes))}})
"""


@pytest.mark.parametrize("chapter", read_chapters(), ids=lambda chapter: chapter.name)
def test_the_books_solutions_earn_full_marks(chapter):
    cells = [(number, answer_cell(task)) for number, task in enumerate(chapter.tasks)]
    report = grade(describe(chapter, {}), Submission("right", cells=cells), Limits(seconds=60))
    assert not report.notes
    assert [verdict.message for verdict in report.verdicts if verdict.points < verdict.of] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", CATALOGUE)
def test_every_mistake_is_recognised(name):
    with Sandbox(LIMITS) as sandbox:
        assert sandbox.load([(1, ANSWERS.format(name=name))]) == ({}, None)
        seed = random.randrange(1, 2**31)
        result = verdict_on(name, sandbox.function("right"), seed)
        assert result, (seed, result.message)
        for number, mistake in enumerate(CATALOGUE[name].mistakes):
            result = verdict_on(name, sandbox.function(f"wrong_{number}"), seed)
            assert (bool(result), result.mistake) == (False, mistake.name), (seed, result.message)
            assert mistake.hint in result.message
