"""What the page for teachers says is there: each name of a mistake, each chapter, each command."""

import re
from pathlib import Path

import pytest

from attnlib.exercises import CATALOGUE
from classroom.__main__ import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "book" / "teaching.md").read_text("utf-8")
SHEETS = dict(re.findall(r"^### (\d+) (.*?)(?=^##)", PAGE, re.M | re.S))
CHAPTERS = sorted((ROOT / "book").glob("[0-9][0-9]_*.ipynb"))


def test_every_chapter_has_a_run_sheet():
    assert [int(number) for number in SHEETS] == [int(chapter.stem[:2]) for chapter in CHAPTERS]


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.stem)
def test_a_run_sheet_has_its_parts_and_names_mistakes_of_its_chapter(chapter):
    sheet, text = SHEETS[str(int(chapter.stem[:2]))], chapter.read_text("utf-8")
    for part in ("Goal", "Predict", "Run", "Where students go wrong", "Exit question"):
        assert f"**{part}.**" in sheet
    assert f"({chapter.name})" in sheet
    exercises = [name for name in CATALOGUE if re.search(rf"\bcheck_{name}\(", text)]
    known = {mistake.name for name in exercises for mistake in CATALOGUE[name].mistakes}
    named = re.findall("“(.+?)”", sheet)
    assert len(named) >= 3
    assert not set(named) - known
    for section in re.findall('"([A-Z].+?)"', sheet):
        assert re.search(rf"#+ {re.escape(section)}", text), f"no section {section}"


def test_every_command_of_the_kit_is_shown():
    for command in set(COMMANDS) - {"build"}:
        assert f"python -m classroom {command}" in PAGE
    assert "make classroom" in PAGE
