"""The book's exercises and their solutions, as they stand in its notebooks: the one source of both."""

import ast
import json
import re
import textwrap
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BOOKS = {"en": ROOT / "book", "zh": ROOT / "book" / "zh"}
POINTS_A_STAR = 2
NOT_NEEDED = r"matplotlib.*|attnlib\.plots.*|attnlib\.exercises\.museum"  # for figures, and what only a chapter shows


@dataclass(frozen=True)
class Task:
    """One exercise: its text, its stub, the call of its check, and its solution."""

    name: str  # of the exercise in attnlib's catalogue
    title: str
    stars: int
    minutes: int
    text: str
    function: str
    signature: str
    check: str
    solution: str

    @property
    def points(self) -> int:
        return POINTS_A_STAR * self.stars


@dataclass(frozen=True)
class Chapter:
    """A chapter's exercises, and the imports that they begin with."""

    name: str
    title: str
    imports: str
    tasks: tuple[Task, ...]
    language: str = "en"


def read_chapters(language: str = "en") -> list[Chapter]:
    """Return every chapter of the book in a language that has exercises with solutions, in order."""
    book = BOOKS[language]
    files = sorted(book.glob("[0-9][0-9]_*.ipynb"))
    return [read_chapter(file, language) for file in files if (book / "solutions" / file.name).exists()]


def read_chapter(file: Path, language: str = "en") -> Chapter:
    """Return one chapter. Raises `ValueError` for an exercise without stub or solution."""
    cells, solved = read_cells(file), read_cells(file.parent / "solutions" / file.name)
    imports = needed_imports(cells)
    known = names_in(imports)
    extra = [line for kind, source in solved if kind == "code" for line in imports_in(source)]
    tasks = []
    for (kind, text), (_, stub) in pairwise(cells):
        if kind == "markdown" and (label := re.search(r"\{exercise\}.*?^:label:\s*(\S+)", text, re.M | re.S)):
            tasks.append(read_task(label[1], text, stub, solved, [x for x in extra if not names_in([x]) <= known]))
    title = re.search(r"^# (.+)$", cells[0][1], re.M)
    return Chapter(file.stem, title[1] if title else file.stem, "\n".join(imports), tuple(tasks), language)


def needed_imports(cells: list[tuple[str, str]]) -> list[str]:
    """Return the imports of a chapter's first cell, and the later ones that an exercise speaks of, such as F."""
    first, *later = [imports_in(source) for kind, source in cells if kind == "code"]
    exercises = "\n".join(text for kind, text in cells if kind == "markdown" and "{exercise}" in text)
    spoken = [x for lines in later for x in lines if any(re.search(rf"`{n}\.", exercises) for n in names_in([x]))]
    return list(dict.fromkeys([*first, *spoken]))


def read_cells(file: Path) -> list[tuple[str, str]]:
    """Return the kind and the text of each cell."""
    cells = json.loads(file.read_text("utf-8"))["cells"]
    return [(cell["cell_type"], "".join(cell["source"])) for cell in cells]


def imports_in(source: str) -> list[str]:
    """Return the import lines at the top level of a cell, without those for figures."""
    kept = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            node.names = [a for a in node.names if not re.match(NOT_NEEDED, module + a.name)]
            kept += [ast.unparse(node)] if node.names else []
    return kept


def names_in(imports: list[str]) -> set[str]:
    """Return the names that import lines bind."""
    return {a.asname or a.name for line in imports for node in ast.parse(line).body for a in node.names}


def read_task(label: str, text: str, stub: str, solved: list[tuple[str, str]], extra: list[str]) -> Task:
    body = ast.parse(stub).body
    functions = [node for node in body if isinstance(node, ast.FunctionDef)]
    checks = [node.value for node in body if isinstance(node, ast.Expr) and "check_" in ast.unparse(node)]
    if not functions or not checks:
        raise ValueError(f"{label}: its cell is no stub of a function with its check")
    function = functions[-1]
    title, prose = re.search(r":{3,}\{exercise\}\s*(.*?)\n(?::\w+:[^\n]*\n)*\s*(.*?)\n:{3,}\s*$", text, re.S).groups()
    level, prose = prose.split("\n", 1)
    stars, minutes = level.count("★"), re.search(r"(\d+) (?:minutes|分钟)", level)
    if not stars or not minutes:
        raise ValueError(f"{label}: stars and minutes do not stand on its first line")
    return Task(
        name=checks[0].func.id.removeprefix("check_"),
        title=title,
        stars=stars,
        minutes=int(minutes[1]),
        text=prose.strip(),
        function=function.name,
        signature=f"def {function.name}({ast.unparse(function.args)}):",
        check=ast.unparse(checks[0]),
        solution=read_solution(label, function.name, solved, extra),
    )


def read_solution(label: str, name: str, solved: list[tuple[str, str]], extra: list[str]) -> str:
    """Return the body of the first function of this name after the solution's heading, with all that it needs."""
    start = next((i for i, (_, text) in enumerate(solved) if f"{{solution}} {label}\n" in text), len(solved))
    helpers: dict[str, str] = {}
    for kind, source in solved[start + 1 :]:
        if kind == "markdown" and "{solution}" in source:
            break
        for node in ast.parse(source).body if kind == "code" else []:
            code = ast.get_source_segment(source, node)
            if isinstance(node, ast.FunctionDef) and node.name == name:
                body = textwrap.dedent("\n".join(source.splitlines()[node.lineno : node.end_lineno]))
                return with_helpers(body, helpers, extra)
            if isinstance(node, ast.FunctionDef):
                helpers[node.name] = code
            elif isinstance(node, ast.Assign):
                helpers |= {target.id: code for target in node.targets if isinstance(target, ast.Name)}
    raise ValueError(f"{label}: no solution defines {name}")


def with_helpers(body: str, helpers: dict[str, str], imports: list[str]) -> str:
    """Return a function's body, with the helpers and imports that it needs before it."""
    needed: dict[str, str] = {}
    text = body
    while found := [name for name in helpers if name not in needed and re.search(rf"\b{name}\b", text)]:
        needed |= {name: helpers[name] for name in found}
        text = "\n".join([*needed.values(), body])
    wanted = [line for line in imports if any(re.search(rf"\b{n}\b", text) for n in names_in([line]))]
    return "\n".join([*dict.fromkeys(wanted), *(code for name, code in helpers.items() if name in needed), body])
