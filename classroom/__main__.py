"""The commands of the teacher's kit; `python -m classroom --help` lists them."""

import argparse
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from classroom.course import COURSE

if TYPE_CHECKING:
    from classroom.grading import Report


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m classroom", description="Hand out, collect, grade, give feedback.")
    parser.add_argument("--course", type=Path, default=COURSE, help="its folder (default: _build/classroom)")
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="write the course from the book, with what is handed out")
    build.add_argument("assignment", nargs="*", help="chapters such as 03_single_head (default: all)")
    build.add_argument("--language", choices=("en", "zh"), default="en", help="of the course (default: en)")
    collect = commands.add_parser("collect", help="take what students handed in: a folder with one file or folder each")
    collect.add_argument("assignment")
    collect.add_argument("folder", type=Path)
    grade = commands.add_parser("grade", help="grade, and write feedback and tables")
    grade.add_argument("assignment", nargs="*", help="all that was handed in, if none is named")
    grade.add_argument("--jobs", type=int, default=0, help="submissions at a time (default: one a processor)")
    grade.add_argument("--seconds", type=float, default=20, help="time for one answer of a student's function")
    commands.add_parser("table", help="write grades.csv again, with the scores given by hand")
    copy = commands.add_parser("copy", help="copy the book for a class: without solutions")
    copy.add_argument("folder", type=Path)
    chosen = parser.parse_args(arguments)
    return COMMANDS[chosen.command](chosen)


def build(chosen: argparse.Namespace) -> int:
    from classroom.book import BOOKS, read_chapters
    from classroom.course import build

    chapters = read_chapters(chosen.language)
    if not chapters:
        return complain(f"There are no chapters in {BOOKS[chosen.language]}.")
    if unknown := set(chosen.assignment) - {chapter.name for chapter in chapters}:
        return complain(f"No such chapter: {', '.join(sorted(unknown))}.")
    assignments = build(chosen.course, [c for c in chapters if not chosen.assignment or c.name in chosen.assignment])
    print(f"{len(assignments)} assignments. Hand out: {chosen.course / 'release'}. Keep: everything else.")
    return 0


def complain(sentence: str) -> int:
    print(sentence, file=sys.stderr)
    return 2


def collect(chosen: argparse.Namespace) -> int:
    from classroom.course import collect

    students = collect(chosen.course, chosen.assignment, chosen.folder)
    print(f"{chosen.assignment}: {len(students)} students handed something in.")
    return 0


def grade(chosen: argparse.Namespace) -> int:
    from classroom.batch import grade_students
    from classroom.course import read_course, students_of
    from classroom.records import record, write_tables
    from classroom.sandbox import Limits

    known = [assignment.name for assignment in read_course(chosen.course)]
    if unknown := set(chosen.assignment) - set(known):
        there = ", ".join(known) or "none: run `make classroom` first"
        return complain(f"No such assignment: {', '.join(sorted(unknown))}. There are: {there}.")
    for name in [name for name in known if not chosen.assignment or name in chosen.assignment]:
        students = students_of(chosen.course, name, everyone=bool(chosen.assignment))
        reports = grade_students(chosen.course, name, students, chosen.jobs, Limits(chosen.seconds))
        record(chosen.course, tell(reports))
        print(f"{name}: {len(students)} graded." if students else f"{name}: nothing was handed in.")
    print(f"Points: {write_tables(chosen.course)}. Feedback: {chosen.course / 'feedback'}.")
    return 0


def tell(reports: "Iterable[Report]") -> "Iterator[Report]":
    """Pass reports on, and say a line about each."""
    for report in reports:
        flags = [flag for verdict in report.verdicts for flag in verdict.flags]
        remarks = "; ".join([report.problem] * bool(report.problem) + report.notes + flags)
        print(f"{report.assignment} {report.student}: {report.points}" + f" ({remarks})" * bool(remarks), flush=True)
        yield report


def table(chosen: argparse.Namespace) -> int:
    from classroom.records import write_tables

    print(f"Points: {write_tables(chosen.course)}.")
    return 0


def copy(chosen: argparse.Namespace) -> int:
    from classroom.copy import copy_book

    copy_book(chosen.folder)
    print(f"A copy without solutions: {chosen.folder}")
    return 0


COMMANDS = {"build": build, "collect": collect, "grade": grade, "table": table, "copy": copy}

if __name__ == "__main__":
    sys.exit(main())
