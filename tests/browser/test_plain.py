"""The book without its scripts, and on paper."""

import io

import pytest
from browser.built import chapters
from pypdf import PdfReader


@pytest.fixture(scope="module")
def chapter():
    return chapters()[0]


def test_book_reads_without_javascript(browser, site, chapter):
    """Text, figures, code and navigation are there; formulas stand as their TeX source."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(site + chapter)
    article = page.locator("article")
    assert article.locator("h1").is_visible() and article.locator("p").nth(1).is_visible()
    assert article.locator("img").first.is_visible() and article.locator("pre").first.is_visible()
    assert article.locator(".math").first.inner_text().startswith("\\(")
    assert page.locator(".bd-sidebar-primary a", has_text="Glossary").is_visible()
    page.click("a.right-next")
    assert page.url != site + chapter
    context.close()


def test_page_prints_as_text_alone(browser, site, chapter):
    """No sidebar, no button; the whole of each line of code; light, whatever the screen was."""
    page = browser.new_page(color_scheme="dark")
    page.goto(site + chapter)
    lines = "\n".join(page.locator("article .cell_input:visible pre").all_inner_texts()).splitlines()
    paper = PdfReader(io.BytesIO(page.pdf(format="A4")))
    page.emulate_media(media="print")
    for gone in (".bd-sidebar-primary", ".bd-sidebar-secondary", ".bd-header-article", ".prev-next-footer"):
        assert not page.locator(gone).first.is_visible(), gone
    assert page.locator("article h1").is_visible()
    assert page.evaluate("[...document.querySelectorAll('pre')].every(pre => pre.scrollWidth <= pre.clientWidth + 1)")
    page.close()
    text = "".join(sheet.extract_text() for sheet in paper.pages)
    assert "".join(max(lines, key=len).split()) in "".join(text.split())
    assert "Search" not in text and "Next" not in text
