"""What came of grading, where teachers and students look for it: nbgrader's gradebook, a page a student, tables."""

import csv
import html
import json
import warnings
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import nbformat
from nbformat.v4 import new_output
from nbgrader.api import Gradebook, MissingEntry
from sqlalchemy.exc import SAWarning

from classroom.course import Assignment, read_course
from classroom.grading import Report, Verdict
from classroom.submission import Submission, read

RISKY = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet would take for the beginning of a formula
PAGE = """<!DOCTYPE html>
<html lang="{language}"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }}
pre {{ white-space: pre-wrap; overflow-wrap: anywhere; border-left: 0.25rem solid #8888; padding-left: 0.75rem; }}
</style></head><body><main>
{body}
</main></body></html>
"""
SCORE = {"en": "{title}: {points} of {of} points", "zh": "{title}：{points} 分（满分 {of} 分）"}


def open_gradebook(course: Path) -> Gradebook:
    return Gradebook(f"sqlite:///{course.resolve() / 'gradebook.db'}", "attention-book")


def record(course: Path, reports: Iterable[Report]) -> None:
    """Write each report as soon as it comes: into the gradebook, as a file, as a page, as a notebook for formgrader."""
    assignments = {assignment.name: assignment for assignment in read_course(course)}
    with open_gradebook(course) as gradebook, warnings.catch_warnings():
        warnings.simplefilter("ignore", SAWarning)  # of nbgrader's own way with its tables
        for report in reports:
            assignment = assignments[report.assignment]
            submission = read(course / "submitted" / report.student / assignment.name, report.student, assignment, {})
            enter(gradebook, assignment, report)
            write_notebook(course, assignment, report, submission)
            write(course / "feedback", report, ".html", feedback_page(assignment, report, submission))
            write(course / "reports", report, ".json", json.dumps(asdict(report), ensure_ascii=False, indent=1))


def write(folder: Path, report: Report, ending: str, text: str) -> None:
    file = folder / report.student / report.assignment / f"{report.assignment}{ending}"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)  # nbgrader makes its files read-only
    file.write_bytes(text.encode("utf-8", errors="replace"))


def enter(gradebook: Gradebook, assignment: Assignment, report: Report) -> None:
    """Enter the points as automatic scores, and the messages as comments; a score given by hand stays."""
    gradebook.update_or_create_student(report.student)
    gradebook.update_or_create_submission(assignment.name, report.student)
    where = (assignment.name, assignment.name, report.student)
    for part, verdict in zip(assignment.parts, report.verdicts, strict=True):
        try:
            grade, comment = gradebook.find_grade(part.test_id, *where), gradebook.find_comment(part.answer_id, *where)
        except MissingEntry:  # the exercises have changed since it was first graded
            gradebook.remove_submission(assignment.name, report.student)
            enter(gradebook, assignment, report)
            return
        grade.auto_score = verdict.points
        grade.needs_manual_grade = bool(verdict.flags) and grade.manual_score is None
        comment.auto_comment = verdict.message
    gradebook.db.commit()


def write_notebook(course: Path, assignment: Assignment, report: Report, submission: Submission) -> None:
    """Write what formgrader shows: the notebook as handed out, with the student's answers and the verdicts."""
    notebook = nbformat.read(course / "release" / assignment.name / f"{assignment.name}.ipynb", as_version=4)
    answers = {part.answer_id: submission.answers.get(part.name, "") for part in assignment.parts}
    verdicts = {part.test_id: verdict for part, verdict in zip(assignment.parts, report.verdicts, strict=True)}
    for cell in notebook.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        if name in answers:
            cell.source = answers[name]
        if name in verdicts:
            text = "\n".join([verdicts[name].message, *(f"For the teacher: {flag}" for flag in verdicts[name].flags)])
            cell.outputs = [new_output("stream", name="stdout", text=text)]
    write(course / "autograded", report, ".ipynb", nbformat.writes(notebook))


def feedback_page(assignment: Assignment, report: Report, submission: Submission) -> str:
    """Return a student's page: points, what the check saw, the recognised mistake with its hint, the answer."""
    score = SCORE[assignment.language]
    title = score.format(title=assignment.title, points=report.points, of=assignment.points)
    parts = [f"<h1>{html.escape(title)}</h1>", f"<p>{html.escape(report.student)}</p>"]
    if report.problem:
        parts.append(f"<p><strong>Not graded: {html.escape(report.problem)}</strong></p>")
    if report.notes:
        parts.append(f"<ul>{''.join(f'<li>{html.escape(note)}</li>' for note in report.notes)}</ul>")
    for part, verdict in zip(assignment.parts, report.verdicts, strict=True):
        answer = submission.answers.get(part.name, "")
        parts += [
            f"<h2>{html.escape(score.format(title=part.title, points=verdict.points, of=verdict.of))}</h2>",
            f"<p>{html.escape(verdict.message).replace(chr(10), '<br>')}</p>",
            f"<pre><code>{html.escape(answer)}</code></pre>" if answer.strip() else "",
        ]
    return PAGE.format(language=assignment.language, title=html.escape(title), body="\n".join(parts))


def read_reports(course: Path) -> list[Report]:
    files = sorted((course / "reports").glob("*/*/*.json"))
    told = [json.loads(file.read_text("utf-8")) for file in files]
    return [Report(**{**one, "verdicts": [Verdict(**verdict) for verdict in one["verdicts"]]}) for one in told]


def write_tables(course: Path) -> Path:
    """Write grades.csv, a row a submission, and exercises.csv, a row an exercise; scores given by hand count."""
    grades, exercises = [], []
    assignments = {assignment.name: assignment for assignment in read_course(course)}
    with open_gradebook(course) as gradebook:
        for report in read_reports(course):
            assignment = assignments[report.assignment]
            where = (assignment.name, assignment.name, report.student)
            scores = [gradebook.find_grade(part.test_id, *where).score for part in assignment.parts]
            flags = [f"{v.name}: {flag}" for v in report.verdicts for flag in v.flags]
            remarks = "; ".join([report.problem, *report.notes] if report.problem else report.notes)
            row = [report.student, report.assignment, sum(scores), assignment.points, remarks, "; ".join(flags)]
            grades.append(row)
            for score, verdict in zip(scores, report.verdicts, strict=True):
                row = [report.student, report.assignment, verdict.name, score, verdict.of, verdict.mistake or ""]
                exercises.append([*row, verdict.message.splitlines()[0], "; ".join(verdict.flags)])
    heads = ["student", "assignment", "points", "of"]
    write_table(course / "exercises.csv", [*heads[:2], "exercise", *heads[2:], "mistake", "message", "look"], exercises)
    return write_table(course / "grades.csv", [*heads, "remarks", "look"], grades)


def write_table(file: Path, head: list[str], rows: list[list]) -> Path:
    """Write a table that spreadsheets open: with a mark for UTF-8, and no text that one would take for a formula."""
    with file.open("w", encoding="utf-8-sig", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(head)
        table.writerows([[f"'{x}" if isinstance(x, str) and x.startswith(RISKY) else x for x in row] for row in rows])
    return file
