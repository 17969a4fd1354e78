"""The chapters' exercises as an nbgrader course: what the teacher keeps, and what is handed out."""

import json
import logging
import os
import re
import secrets
import shutil
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from attnlib.exercises._language import SWITCH
from classroom.book import ROOT, Chapter, Task

COURSE = ROOT / "_build" / "classroom"
SOLUTION_MARK = "SOLUTION-OF-THE-BOOK"  # stands in every solution and in every hidden test, and nowhere else
HIDDEN_MARK = "HIDDEN-TEST-OF-THE-BOOK"
CONFIG = '''"""Written by `make classroom`."""

import os

c = get_config()  # noqa: F821
c.CourseDirectory.course_id = "attention-book"
c.CourseDirectory.root = os.path.dirname(os.path.abspath(__file__))
c.ClearSolutions.code_stub = {{"python": "..."}}
# nbgrader calls alembic, and its hidden tests call the kit.
os.environ["PATH"] = os.pathsep.join([{bin!r}, os.environ.get("PATH", "")])
os.environ["PYTHONPATH"] = os.pathsep.join([{root!r}, os.environ.get("PYTHONPATH", "")])
'''
WELCOME = {
    "en": """# {title}: exercises

Write your answer below each `def` line, in place of the `...`, and run the cell after it: the check says what it sees.
{points} points in all. Points are given later, on other inputs.

Keep the name of this file, the names of the functions, and the cells with the checks. Cells of your own may stand
anywhere.""",
    "zh": """# {title}：练习

把答案写在每个 `def` 行的下面，换掉 `...`，再运行后面那一格：检查会告诉你它看到了什么。

全部共 {points} 分。分数以后另用别的输入来评。

请不要改动文件名、函数名和检查所在的单元格。你自己的单元格放在哪里都行。""",
}
HEAD = {
    "en": "## Exercise {number}: {title}\n\n{level} · {minutes} minutes · {points} points\n\n",
    "zh": "## 练习 {number}：{title}\n\n{level} · {minutes} 分钟 · {points} 分\n\n",
}
SPEAKS = {  # a student's folder has another name than the book's: the checks are told their language
    "en": "",
    "zh": f"import os\n\nos.environ[{SWITCH!r}] = 'zh'\n\n",
}


@dataclass(frozen=True)
class Part:
    """What is needed to grade one exercise: no more of it leaves the book."""

    name: str
    title: str
    function: str
    points: int
    answer_id: str
    test_id: str
    seed: int


@dataclass(frozen=True)
class Assignment:
    """What is needed to grade one chapter."""

    name: str
    title: str
    imports: str
    parts: tuple[Part, ...]
    language: str = "en"

    @property
    def points(self) -> int:
        return sum(part.points for part in self.parts)


def build(course: Path, chapters: list[Chapter]) -> list[Assignment]:
    """Write these chapters' assignments; return them. What was handed in, grades and other chapters stay."""
    course.mkdir(parents=True, exist_ok=True)
    there = {assignment.name: assignment for assignment in read_course(course)}
    seeds = {part.name: part.seed for assignment in there.values() for part in assignment.parts}
    assignments = [describe(chapter, seeds) for chapter in chapters]
    bin_folder = str(Path(sys.executable).parent)
    (course / "nbgrader_config.py").write_text(CONFIG.format(bin=bin_folder, root=str(ROOT)), encoding="utf-8")
    together = there | {assignment.name: assignment for assignment in assignments}
    text = json.dumps([as_dict(together[name]) for name in sorted(together)], indent=1)
    (course / "course.json").write_text(text, encoding="utf-8")
    for chapter, assignment in zip(chapters, assignments, strict=True):
        folder = course / "source" / chapter.name
        folder.mkdir(parents=True, exist_ok=True)
        nbformat.write(source_notebook(chapter, assignment), folder / f"{chapter.name}.ipynb")
    release(course, assignments)
    return assignments


def describe(chapter: Chapter, seeds: dict[str, int]) -> Assignment:
    parts = []
    for task in chapter.tasks:
        seed = seeds.get(task.name) or secrets.randbelow(2**31 - 2) + 1
        ids = (f"{task.name}-answer", f"{task.name}-check")
        parts.append(Part(task.name, task.title, task.function, task.points, *ids, seed))
    return Assignment(chapter.name, chapter.title, chapter.imports, tuple(parts), chapter.language)


def as_dict(assignment: Assignment) -> dict:
    return {**vars(assignment), "parts": [vars(part) for part in assignment.parts]}


def read_course(course: Path) -> list[Assignment]:
    """Return the assignments of a course that was built; none if it was not."""
    file = course / "course.json"
    told = json.loads(file.read_text("utf-8")) if file.exists() else []
    return [Assignment(**{**a, "parts": tuple(Part(**part) for part in a["parts"])}) for a in told]


def source_notebook(chapter: Chapter, assignment: Assignment) -> nbformat.NotebookNode:
    """Return what the teacher keeps: exercises, with solutions and hidden tests between nbgrader's marks."""
    welcome = WELCOME[chapter.language].format(title=chapter.title, points=assignment.points)
    cells = [
        new_markdown_cell(welcome, id="welcome"),
        new_code_cell(SPEAKS[chapter.language] + chapter.imports, id="imports", metadata=mark("imports")),
    ]
    for number, (task, part) in enumerate(zip(chapter.tasks, assignment.parts, strict=True), 1):
        level = "★" * task.stars + "☆" * (3 - task.stars)
        head = HEAD[chapter.language].format(
            number=number, title=task.title, level=level, minutes=task.minutes, points=task.points
        )
        cells += [
            new_markdown_cell(head + task.text, id=f"{task.name}-text"),
            new_code_cell(answer_cell(task), id=part.answer_id, metadata=mark(part.answer_id, solution=True)),
            new_code_cell(test_cell(task, part), id=part.test_id, metadata=mark(part.test_id, points=task.points)),
        ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return new_notebook(cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}})


def mark(name: str, *, solution: bool = False, points: int | None = None) -> dict:
    """Return nbgrader's marks of a cell."""
    marks = {"grade_id": name, "schema_version": 3, "task": False, "solution": solution}
    marks |= {"grade": points is not None, "locked": not solution}
    return {"nbgrader": marks | ({} if points is None else {"points": points})}


def answer_cell(task: Task) -> str:
    body = f"### BEGIN SOLUTION\n# {SOLUTION_MARK}\n{task.solution}\n### END SOLUTION"
    return f"{task.signature}\n{textwrap.indent(body, '    ')}"


def test_cell(task: Task, part: Part) -> str:
    return f"""{task.check}
### BEGIN HIDDEN TESTS
# {HIDDEN_MARK}
from classroom.grading import passes
assert passes({task.name!r}, {task.function}, {part.seed})
### END HIDDEN TESTS"""


def release(course: Path, assignments: list[Assignment]) -> None:
    """Let nbgrader make the students' notebooks, and see that nothing of the teacher's is in them."""
    api = nbgrader_api(course)
    for assignment in assignments:
        outcome = api.generate_assignment(assignment.name, force=True, create=True)
        if not outcome["success"]:
            raise RuntimeError(f"nbgrader generate_assignment {assignment.name}:\n{outcome.get('log', '')[-3000:]}")
    if found := leaks(course, course / "release"):
        shutil.rmtree(course / "release")
        raise RuntimeError(f"What is handed out holds {'; '.join(found)}")


def nbgrader_api(course: Path) -> Any:
    """Return nbgrader's commands for a course."""
    from nbgrader.apps import NbGraderAPI  # slow to import, and only this needs it
    from traitlets.config import Config

    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    config = Config()
    config.CourseDirectory.root = str(course.resolve())
    config.CourseDirectory.course_id = "attention-book"
    config.ClearSolutions.code_stub = {"python": "..."}
    config.NbGraderAPI.log_level = logging.ERROR
    return NbGraderAPI(config=config)


def leaks(course: Path, folder: Path) -> list[str]:
    """Return what of the solutions and the hidden tests stands in the files of a folder: marks and seeds."""
    secrets_of_course = [SOLUTION_MARK, HIDDEN_MARK, "BEGIN HIDDEN", "BEGIN SOLUTION"]
    secrets_of_course += [str(part.seed) for assignment in read_course(course) for part in assignment.parts]
    texts = [(f, f.read_text("utf-8", errors="replace")) for f in sorted(folder.rglob("*")) if f.is_file()]
    return [f"{secret!r} in {file}" for file, text in texts for secret in secrets_of_course if secret in text]


def student_name(text: str) -> str:
    """Return a student's id as it may stand in a file name."""
    return re.sub(r"[^\w.@-]+", "_", text).strip("._") or "unnamed"


def collect(course: Path, name: str, folder: Path) -> list[str]:
    """Take what students handed in from a folder that holds one file or one folder for each; return their names."""
    if name not in [assignment.name for assignment in read_course(course)]:
        raise SystemExit(f"There is no assignment {name}.")
    students = []
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith(".") or entry.is_symlink():
            continue
        student = student_name(entry.name if entry.is_dir() else entry.stem)
        target = course / "submitted" / student / name
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        if entry.is_dir():
            shutil.copytree(entry, target, symlinks=True, dirs_exist_ok=True)
        else:
            shutil.copy(entry, target / (f"{name}.ipynb" if entry.suffix == ".ipynb" else entry.name))
        students.append(student)
    return students


def students_of(course: Path, name: str, *, everyone: bool) -> list[str]:
    """Return who handed an assignment in; with `everyone`, also who is in students.csv and did not."""
    found = {folder.parent.name for folder in (course / "submitted").glob(f"*/{name}")}
    roster = course / "students.csv"
    if everyone and roster.exists():
        lines = roster.read_text("utf-8-sig").splitlines()
        found |= {student_name(line.split(",")[0]) for line in lines[1:] if line.strip()}
    return sorted(found)
