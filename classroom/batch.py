"""Many submissions, a few at a time, each in a process of its own: whatever happens to one, the others are graded."""

import multiprocessing
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from multiprocessing.connection import Connection
from pathlib import Path

import nbformat

from attnlib.exercises._language import SWITCH
from classroom.course import Assignment, read_course
from classroom.grading import Report, grade, nothing
from classroom.sandbox import Limits, adopt_orphans
from classroom.submission import read

PATIENCE = 600  # seconds for one submission; its own limits end it long before


def grade_students(course: Path, name: str, students: Iterable[str], jobs: int, limits: Limits) -> Iterator[Report]:
    """Yield a report for every student, in the order in which they are ready; 0 jobs are one a processor."""
    assignment = next(a for a in read_course(course) if a.name == name)
    handed_out = locked_cells(course, name)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["classroom.batch"])

    def one(student: str) -> Report:
        ours, theirs = context.Pipe(duplex=False)
        arguments = (theirs, course / "submitted" / student / name, student, assignment, handed_out, limits)
        process = context.Process(target=grade_apart, args=arguments, daemon=False)
        process.start()
        theirs.close()
        why = "the process that graded it ended."
        try:
            if ours.poll(PATIENCE):
                return ours.recv()
            why = f"grading it took more than {PATIENCE} s."
        except EOFError:
            pass
        finally:
            process.kill()
            process.join()
            ours.close()
        return Report(student, name, [nothing(part, why) for part in assignment.parts], problem=why)

    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        for done in as_completed([pool.submit(one, student) for student in students]):
            yield done.result()


def grade_apart(
    answer: Connection,
    folder: Path,
    student: str,
    assignment: Assignment,
    handed_out: dict[str, str],
    limits: Limits,
) -> None:
    """Grade one submission in this process, and send the report."""
    adopt_orphans()
    os.environ[SWITCH] = assignment.language
    try:
        report = grade(assignment, read(folder, student, assignment, handed_out), limits)
    except Exception as error:
        why = f"the grader itself failed ({type(error).__name__}: {error})."
        report = Report(student, assignment.name, [nothing(part, why) for part in assignment.parts], problem=why)
    answer.send(report)


def locked_cells(course: Path, name: str) -> dict[str, str]:
    """Return the text of each cell that was handed out not to be changed, by its grade id."""
    notebook = nbformat.read(course / "release" / name / f"{name}.ipynb", as_version=4)
    marked = [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("locked")]
    return {cell.metadata.nbgrader.grade_id: cell.source for cell in marked}
