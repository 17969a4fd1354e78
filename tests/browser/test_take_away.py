"""The two files to take away: the site in one zip, the book in one PDF."""

import zipfile

import print_book
import pytest
import zip_book
from pypdf import PdfReader


def test_zip_opens_from_a_folder(tmp_path, capsys):
    """Whole, below one folder, and the same to the byte when it is made again."""
    site = tmp_path / "html"
    (site / "book").mkdir(parents=True)
    (site / "index.html").write_text("first", encoding="utf-8")
    (site / "book" / "a.html").write_text("a page", encoding="utf-8")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        zip_book.main(site, tmp_path / name / "the-book.zip")
    first, second = (tmp_path / name / "the-book.zip" for name in ("one", "two"))
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as packed:
        assert packed.namelist() == ["the-book/book/a.html", "the-book/index.html"]
        assert packed.read("the-book/index.html") == b"first"


def test_no_zip_of_nothing(tmp_path):
    with pytest.raises(SystemExit, match="make book"):
        zip_book.main(tmp_path, tmp_path / "the-book.zip")


def titles(outline, depth=0):
    for entry in outline:
        yield from titles(entry, depth + 1) if isinstance(entry, list) else [(depth, entry.title)]


@pytest.mark.slow
def test_pdf_is_the_book(browser, built, tmp_path):
    """All pages in order, formulas set, an outline of parts, chapters and sections, and links that stay inside."""
    pages = [page for page in print_book.contents() if page[0] != "Solutions"]
    print_book.print_book(browser, built, tmp_path / "book.pdf", pages)
    book = PdfReader(tmp_path / "book.pdf")
    outline = list(titles(book.outline))
    assert [title for depth, title in outline if depth == 0] == list(dict.fromkeys(
        part or book.metadata.title for part, _ in pages))  # fmt: skip
    assert {(1, "3. A single head"), (1, "Glossary"), (2, "3.12. What breaks")} <= set(outline)
    assert len([1 for depth, _ in outline if depth == 1]) >= len(pages) - 1
    text = "".join(page.extract_text() for page in book.pages)
    assert "\\frac" not in text and "What you will see" in text
    actions = [note.get_object().get("/A", {}) for page in book.pages for note in page.get("/Annots", [])]
    assert any(action.get("/S") == "/GoTo" for action in actions)
    assert not [uri for action in actions if (uri := str(action.get("/URI", ""))).startswith(("file:", "http://127"))]
