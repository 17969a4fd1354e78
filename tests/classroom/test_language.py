"""A course in Chinese is built from the Chinese book, and its checks and its feedback speak Chinese."""

import html
import json
import shutil

import nbformat
import pytest

from attnlib.exercises._language import SWITCH
from classroom import book
from classroom.__main__ import main
from classroom.course import read_course

HEAD = "03_single_head"
WRONG = "def my_softmax(S):\n    return np.exp(S) / np.exp(S).sum(axis=-1, keepdims=True)"


@pytest.fixture
def course(tmp_path, monkeypatch):
    """Build a course from a chapter that is Chinese as far as the kit reads it."""
    chinese = tmp_path / "book" / "zh"
    for folder in (".", "solutions"):
        (chinese / folder).mkdir(parents=True, exist_ok=True)
        shutil.copy(book.BOOKS["en"] / folder / f"{HEAD}.ipynb", chinese / folder / f"{HEAD}.ipynb")
    file = chinese / f"{HEAD}.ipynb"
    notebook = nbformat.read(file, as_version=4)
    for cell in notebook.cells:
        if "{exercise}" in cell.source:
            cell.source = cell.source.replace(" minutes", " 分钟").replace(
                "A softmax that survives 1000", "不怕 1000 的 softmax"
            )
    notebook.cells[0].source = "# 单头注意力"
    nbformat.write(notebook, file)
    monkeypatch.setitem(book.BOOKS, "zh", chinese)
    assert main(["--course", str(tmp_path / "course"), "build", "--language", "zh"]) == 0
    return tmp_path / "course"


def test_a_chinese_course_from_building_to_feedback(course, tmp_path):
    notebook = nbformat.read(course / "release" / HEAD / f"{HEAD}.ipynb", as_version=4)
    welcome, imports, task, *_ = [cell.source for cell in notebook.cells]
    assert welcome.startswith("# 单头注意力：练习\n\n")
    assert imports.startswith(f"import os\n\nos.environ['{SWITCH}'] = 'zh'\n\nimport numpy as np\n")
    assert task.startswith("## 练习 1：不怕 1000 的 softmax\n\n★☆☆ · 10 分钟 · 2 分\n\n")

    handed_in = tmp_path / "handed_in"
    handed_in.mkdir()
    next(cell for cell in notebook.cells if cell.id == "softmax-answer").source = WRONG
    nbformat.write(notebook, handed_in / "学生.ipynb")
    assert main(["--course", str(course), "collect", HEAD, str(handed_in)]) == 0
    assert main(["--course", str(course), "grade", HEAD]) == 0
    report = json.loads((course / "reports" / "学生" / HEAD / f"{HEAD}.json").read_text("utf-8"))
    first, second, *_ = report["verdicts"]
    assert first["mistake"] == "overflow"
    assert "这看起来像是“溢出”：" in first["message"]
    assert second["message"].startswith("还不对：没有返回任何值")
    page = html.unescape((course / "feedback" / "学生" / HEAD / f"{HEAD}.html").read_text("utf-8"))
    assert '<html lang="zh">' in page
    assert "<h1>单头注意力：0 分（满分 16 分）</h1>" in page
    assert "这看起来像是“溢出”：" in page


def test_a_course_that_was_built_without_a_language_is_english(course):
    file = course / "course.json"
    told = json.loads(file.read_text("utf-8"))
    assert [one.pop("language") for one in told] == ["zh"]
    file.write_text(json.dumps(told), encoding="utf-8")
    assert [assignment.language for assignment in read_course(course)] == ["en"]


def test_a_book_that_is_not_there_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(book.BOOKS, "zh", tmp_path)
    assert main(["--course", str(tmp_path / "course"), "build", "--language", "zh"]) == 2
    assert f"There are no chapters in {tmp_path}." in capsys.readouterr().err
    assert not (tmp_path / "course").exists()
