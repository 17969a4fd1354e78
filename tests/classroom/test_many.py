"""A class of 200: nothing is lost, memory stays flat, and how long it takes beside running the notebook alone."""

import copy
import os
import sys
import time
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from classroom.batch import grade_students
from classroom.book import read_chapters
from classroom.course import build
from classroom.records import read_reports, record, write_tables
from classroom.sandbox import Limits

HEAD = "03_single_head"
MANY = 200
ENDLESS = "def my_softmax(S):\n    while True:\n        pass"
WRONG = "def my_softmax(S):\n    return np.exp(S) / np.exp(S).sum(axis=-1, keepdims=True)"


def resident():
    """Return the megabytes that this process holds."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def seconds_to_run(notebook):
    start = time.perf_counter()
    NotebookClient(copy.deepcopy(notebook), kernel_name="python3").execute()
    return time.perf_counter() - start


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.filterwarnings("ignore")
def test_two_hundred_submissions(tmp_path, capsys, monkeypatch):
    apart = tmp_path / "apart"
    apart.mkdir()
    monkeypatch.setenv("TMPDIR", str(apart))
    build(tmp_path, [chapter for chapter in read_chapters() if chapter.name == HEAD])
    source = nbformat.read(tmp_path / "source" / HEAD / f"{HEAD}.ipynb", as_version=4)
    for cell in source.cells:
        cell.source = cell.source.split("### BEGIN HIDDEN TESTS")[0]
    kinds = {"right": None, "wrong": WRONG, "blank": "def my_softmax(S):\n    ...", "endless": ENDLESS}
    students = [f"{'endless' if n % 50 == 49 else list(kinds)[n % 3]}-{n:03d}" for n in range(MANY)]
    for student in students:
        notebook = copy.deepcopy(source)
        answer = next(cell for cell in notebook.cells if cell.id == "softmax-answer")
        answer.source = kinds[student[:-4]] or answer.source
        folder = tmp_path / "submitted" / student / HEAD
        folder.mkdir(parents=True)
        nbformat.write(notebook, folder / f"{HEAD}.ipynb")

    held = []

    def watched(reports):
        for report in reports:
            held.append(resident())
            yield report

    start = time.perf_counter()
    record(tmp_path, watched(grade_students(tmp_path, HEAD, students, jobs=2, limits=Limits(seconds=5))))
    each = (time.perf_counter() - start) / MANY
    alone = sorted(seconds_to_run(source) for _ in range(3))[1]

    reports = {report.student: report for report in read_reports(tmp_path)}
    assert sorted(reports) == sorted(students)
    for student, report in reports.items():
        verdict = report.verdicts[0]
        assert bool(verdict.points) == student.startswith("right"), (student, verdict.message)
        assert verdict.mistake == ("overflow" if student.startswith("wrong") else None)
        assert ("no answer within" in verdict.message) == student.startswith("endless")
        assert report.verdicts[2].points == report.verdicts[2].of
    assert len(write_tables(tmp_path).read_text("utf-8").splitlines()) == MANY + 1
    assert held[-1] < held[MANY // 4] + 30
    assert not list(apart.iterdir()), "a folder of a student's process is left"
    with capsys.disabled():
        print(
            f"\n{MANY} submissions, two at a time: {each:.2f} s each; the notebook alone: {alone:.2f} s; "
            f"ratio {each / alone:.2f}; memory {held[MANY // 4]:.0f} MB after a quarter, {held[-1]:.0f} MB at the end"
        )
