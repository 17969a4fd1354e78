"""Every link inside the book leads to a page that is there, and every anchor to a place on it."""

from functools import cache
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
from browser.built import HTML, built_pages
from bs4 import BeautifulSoup


@cache
def soup(path: Path) -> BeautifulSoup:
    return BeautifulSoup(path.read_text("utf-8"), "html.parser")


@cache
def anchors(path: Path) -> set[str]:
    named = soup(path).find_all(attrs={"name": True})
    return {tag["id"] for tag in soup(path).find_all(id=True)} | {tag["name"] for tag in named}


def broken_links(page: Path) -> list[str]:
    broken = []
    for tag in soup(page).find_all(["a", "link", "script", "img"]):
        link = tag.get("href") or tag.get("src") or ""
        if link.split(":")[0] in ("http", "https", "mailto", "data", "javascript") or link in ("", "#"):
            continue
        file, anchor = urldefrag(link)
        target = (page.parent / unquote(file.split("?")[0])).resolve() if file else page
        if not target.is_file() or (target.suffix == ".html" and anchor and unquote(anchor) not in anchors(target)):
            broken.append(link)
    return broken


@pytest.mark.parametrize("name", built_pages())
def test_links_lead_somewhere(name):
    assert broken_links(HTML / name) == []


def test_a_broken_link_is_found(tmp_path):
    page = tmp_path / "page.html"
    page.write_text('<a href="gone.html">1</a><a href="#gone">2</a><a id="here" href="#here">3</a>', encoding="utf-8")
    assert broken_links(page) == ["gone.html", "#gone"]


def test_first_page_leads_to_the_book(built):
    """The root only redirects: to a page that is there."""
    refresh = soup(built / "index.html").find("meta", attrs={"http-equiv": "Refresh"})
    assert refresh is None or (built / refresh["content"].split("url=")[1]).is_file()


def test_unlisted_files_are_not_published(built):
    """Nothing but the pages of the contents: no draft, no test, nothing of the environment, nothing twice."""
    english, chinese = (
        {path.relative_to(sources).with_suffix("").as_posix() for path in sources.rglob("*") if path.is_file()}
        for sources in (built / "_sources/book", built / "zh/_sources")
    )
    assert english == chinese
    assert {path.name for path in (built / "_sources").iterdir()} == {"book"}
