"""What a student handed in, read without trust: any file may be missing, renamed, broken or huge."""

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnlib.exercises import CATALOGUE
from classroom.course import Assignment, Part

LARGEST = 20_000_000  # bytes


@dataclass
class Submission:
    """The cells to be run, and what there is to be said of them."""

    student: str
    problem: str = ""  # why there is nothing to run
    cells: list[tuple[int, str]] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)  # exercise → what stands in its cell
    notes: list[str] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)  # exercise → what became of its cell
    flags: dict[str, list[str]] = field(default_factory=dict)  # exercise → what the teacher should look at


class Unusable(Exception):
    """Raised for a notebook that cannot be read; says why."""


def read(folder: Path, student: str, assignment: Assignment, handed_out: dict[str, str]) -> Submission:
    """Return a student's cells for an assignment; `handed_out` holds the text of each cell that stays as it is."""
    submission = Submission(student)
    try:
        file = find(folder, assignment.name, submission)
        cells = read_cells(file)
    except Unusable as error:
        submission.problem = str(error)
        return submission
    sort_cells(cells, assignment, handed_out, submission)
    return submission


def find(folder: Path, name: str, submission: Submission) -> Path:
    """Return the notebook in a student's folder, also under another name."""
    expected = f"{name}.ipynb"
    if not folder.is_dir():
        raise Unusable("nothing was handed in.")
    files = sorted(f for f in folder.rglob("*") if not any(p.startswith(".") for p in f.relative_to(folder).parts))
    files = [file for file in files if not file.is_dir()]
    notebooks = [file for file in files if file.suffix.lower() == ".ipynb"]
    chosen = [file for file in notebooks if file.name == expected] or notebooks
    if not chosen:
        seen = f"; found: {', '.join(f.name for f in files[:5])}" if files else ""
        raise Unusable(f"there is no notebook {expected}{seen}.")
    if len(chosen) > 1:
        raise Unusable(f"there are {len(chosen)} notebooks, none or several of them named {expected}.")
    file = chosen[0]
    if file.is_symlink() or not file.is_file():
        raise Unusable(f"{file.name} is a link, not a notebook.")
    if file.name != expected:
        submission.notes.append(f"The file was renamed: it is called {file.name}, and should be called {expected}.")
    return file


def read_cells(file: Path) -> list[dict]:
    """Return the cells of a notebook. Raises `Unusable`."""
    if file.stat().st_size > LARGEST:
        raise Unusable(f"the file is larger than {LARGEST // 10**6} MB.")
    try:
        notebook = json.loads(file.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise Unusable("the file is not UTF-8 text, so it is no notebook.") from None
    except (ValueError, RecursionError):
        raise Unusable("the file is not JSON, so it is no notebook.") from None
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list):
        raise Unusable("the file holds no list of cells, so it is no notebook of today's format.")
    return [cell for cell in cells if isinstance(cell, dict)]


def sort_cells(cells: list[dict], assignment: Assignment, handed_out: dict[str, str], submission: Submission) -> None:
    """Sort out what is to be run: the answers and the student's own cells, not the checks."""
    by_answer = {part.answer_id: part for part in assignment.parts}
    seen: Counter[str] = Counter()
    kinds: dict[str, str] = {}
    for number, cell in enumerate(cells, 1):
        name, source = grade_id(cell), text_of(cell)
        seen[name] += name != ""
        kinds[name] = str(cell.get("cell_type"))
        if name in handed_out:
            if source.strip() != handed_out[name].strip():
                submission.notes.append(f"The cell “{name}” was changed: what stands in it does not count.")
            continue
        if cell.get("cell_type") != "code" or not source.strip():
            continue
        if name in by_answer:
            submission.answers[by_answer[name].name] = source
        submission.cells.append((number, without_magics(source)))
    for name, count in seen.items():
        if count > 1:
            submission.notes.append(f"The cell “{name}” is there {count} times, copied: the last one counts.")
    for name in [*by_answer, *handed_out]:
        if name not in seen:
            submission.notes.append(f"The cell “{name}” is gone.")
    for part in assignment.parts:
        if part.answer_id not in seen:
            submission.missing[part.name] = f"its cell is gone, and no other defines {part.function}."
        elif kinds[part.answer_id] != "code":
            submission.missing[part.name] = "its cell is no code cell any more, so nothing in it is run."
        submission.flags[part.name] = list(look_at(part, submission))


def grade_id(cell: dict) -> str:
    """Return nbgrader's name of a cell; empty if it has none."""
    metadata = cell.get("metadata")
    marks = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    return str(marks.get("grade_id", ""))[:100] if isinstance(marks, dict) else ""


def text_of(cell: dict) -> str:
    source: Any = cell.get("source", "")
    parts = source if isinstance(source, list) else [source]
    return "".join(part for part in parts if isinstance(part, str))


def without_magics(source: str) -> str:
    """Return a cell without lines for IPython, such as %timeit, if it is no Python as it stands."""
    try:
        ast.parse(source)
        return source
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return re.sub(r"^(\s*)[%!?].*$", r"\1pass", source, flags=re.M)


def look_at(part: Part, submission: Submission) -> Iterator[str]:
    """Yield what the teacher should look at: attnlib's own answer called inside, or the check's insides."""
    source = submission.answers.get(part.name, "")
    try:
        used = {name for node in ast.walk(ast.parse(source)) for name in names_of(node)}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for own in CATALOGUE[part.name].own:
        if own.__name__ in used:
            yield f"calls attnlib's own {own.__name__}"
    for inside in sorted(used & {"CATALOGUE", part.name.upper(), "reference", "_checking"}):
        yield f"mentions {inside}, from the insides of the check"


def names_of(node: ast.AST) -> list[str]:
    """Return the names that a node of Python uses."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [alias.name for alias in node.names]
    return [getattr(node, "id", None) or getattr(node, "attr", "")]
