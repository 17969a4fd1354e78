"""What `make book` has built, for the tests that look at it."""

import os
from pathlib import Path

import pytest

HTML = Path(__file__).resolve().parents[2] / "_build" / "html"
ROOT = "index.html"
LOST = "404.html"  # its links begin at the published root: test_found.py looks at it there


def built_pages():
    """The pages of both editions, as paths below the built site; the root is a redirect and no page."""
    folders = {"_static", "_sources", "_images", "_downloads"}
    pages = (path.relative_to(HTML) for path in sorted(HTML.rglob("*.html")))
    return [page.as_posix() for page in pages if not folders & {*page.parts} and page.as_posix() not in (LOST, ROOT)]


def chapters(folder="book/"):
    """The pages of one edition that are numbered chapters."""
    return [page for page in built_pages() if page.startswith(folder) and page.removeprefix(folder)[:2].isdigit()]


def missing(what):
    """Skip where a tool is absent, but never on CI: there a skipped test would pass for a run one."""
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)
