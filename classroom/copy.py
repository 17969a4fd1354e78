"""A copy of the book for a class: everything that a student needs, and no solutions."""

import re
import shutil
from pathlib import Path

from classroom.book import ROOT

FILES = "Makefile README.md LICENSE LICENSE-content CITATION.cff pyproject.toml constraints.txt requirements.txt"
FILES += " requirements-real.txt _config.yml _config_zh.yml"
FOLDERS = "attnlib book tools benchmarks binder"
LEFT_OUT = ("solutions", "__pycache__", ".ipynb_checkpoints", "*.egg-info", "conftest.py")


def copy_book(target: Path, root: Path = ROOT) -> None:
    """Copy the book into a folder that does not exist yet, without solutions, the kit and the tests."""
    if target.exists():
        raise SystemExit(f"{target} is there already.")
    target.mkdir(parents=True)
    for folder in FOLDERS.split():
        shutil.copytree(root / folder, target / folder, ignore=shutil.ignore_patterns(*LEFT_OUT))
    for file in FILES.split():
        shutil.copy(root / file, target / file)
    for page in (*(target / "book").rglob("*.ipynb"), *(target / "book").rglob("*.md")):
        page.write_text(without_links(page.read_text("utf-8")), encoding="utf-8")
    for name in ("_toc.yml", "_toc_zh.yml"):
        contents = (root / name).read_text("utf-8")
        (target / name).write_text(without_solutions(contents), encoding="utf-8")


def without_solutions(contents: str) -> str:
    """Return a table of contents without the part that holds the solutions."""
    parts = re.split(r"(?m)^(?=  - caption:)", contents)
    return "".join(part for part in parts if re.search(r"\bsolutions/", part) is None)


def without_links(text: str) -> str:
    """Return a page in which links to the solutions are plain words."""
    return re.sub(r"\[([^\]\n]+)\]\([^)\s]*\bsolutions/[^)]*\)", r"\1", text)
