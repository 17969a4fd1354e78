"""A class's copy of the book holds everything but the solutions, and builds."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from classroom.book import read_chapters
from classroom.copy import copy_book, without_links, without_solutions

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    target = tmp_path_factory.mktemp("class") / "book"
    copy_book(target)
    return target


def test_no_solution_is_in_the_copy(copied):
    assert not [file for file in copied.rglob("*") if "solutions" in file.name or file.name == "classroom"]
    notebooks = "".join(file.read_text("utf-8") for file in copied.rglob("*.ipynb"))
    assert "{exercise}" in notebooks
    assert "{solution}" not in notebooks
    for chapter in read_chapters():
        for task in chapter.tasks:
            assert f"def {task.function}(" in notebooks


@pytest.mark.parametrize(("contents", "folder"), [("_toc.yml", "."), ("_toc_zh.yml", "book/zh")])
def test_contents_and_files_agree(copied, contents, folder):
    files = re.findall(r"- file: (\S+)", (copied / contents).read_text("utf-8"))
    assert any(file.endswith("01_inputs") for file in files) and not [file for file in files if "solutions" in file]
    assert not [file for file in files if not list((copied / folder).glob(f"{file}.*"))]


def test_nothing_is_overwritten(copied):
    with pytest.raises(SystemExit, match="is there already"):
        copy_book(copied)


def test_only_the_part_of_the_solutions_goes():
    kept = "root: book/index\nparts:\n  - caption: A\n    chapters:\n      - file: book/01_inputs\n"
    part = "  - caption: Solutions\n    chapters:\n      - file: book/solutions/01_inputs\n"
    last = "  - caption: B\n    chapters:\n      - file: book/glossary\n"
    assert without_solutions(kept + part + last) == kept + last


def test_links_to_solutions_become_words():
    text = (
        "see [the answers](solutions/01_inputs.ipynb), [chapter 1](01_inputs.ipynb), [both](../book/solutions/x.ipynb)"
    )
    assert without_links(text) == "see the answers, [chapter 1](01_inputs.ipynb), both"


@pytest.mark.slow
def test_the_copy_builds_without_a_warning(copied):
    config = copied / "_config.yml"
    config.write_text(
        re.sub("execute_notebooks: force", 'execute_notebooks: "off"', config.read_text("utf-8")), "utf-8"
    )
    build = [Path(sys.executable).parent / "jupyter-book", "build", "-W", "--keep-going"]
    chinese = "book/zh --config _config_zh.yml --toc _toc_zh.yml --path-output _build/zh"
    for what in (".", chinese):
        done = subprocess.run([*build, *what.split()], cwd=copied, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    pages = list((copied / "_build" / "html").rglob("*.html"))
    assert len(pages) > 10
    assert not [page for page in pages if "solutions" in str(page.relative_to(copied))]
