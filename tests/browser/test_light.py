"""How much a reader's first chapter moves over the line, and a later one; uncompressed, all pictures included."""

import base64
import json

import matplotlib.pyplot as plt
import numpy as np
import pytest
from browser.built import HTML, chapters
from chromium import MATH_SET
from fontTools.ttLib import TTFont
from sphinx_light import lighten_picture

FIRST, LATER = 1.6e6, 0.6e6  # bytes


def visit(page, address):
    """Open a page, wait for its formulas, and return the bytes of each file that came over the line."""
    moved = {}

    def count(request):
        sizes = request.sizes()
        moved[request.url] = sizes["responseBodySize"]

    page.on("requestfinished", count)
    page.goto(address, wait_until="networkidle")
    page.evaluate(MATH_SET)
    page.wait_for_load_state("networkidle")
    page.remove_listener("requestfinished", count)
    return moved


@pytest.mark.parametrize("name", chapters())
def test_first_and_later_visits_are_light(browser, site, name):
    later = chapters()[chapters().index(name) - 1]
    context = browser.new_context()
    page = context.new_page()
    first = visit(page, site + name)
    second = {url: size for url, size in visit(page, site + later).items() if url not in first}
    context.close()
    assert any("mathjax" in url for url in first) and any("_images" in url for url in first), "nothing was measured"
    assert sum(first.values()) <= FIRST, sorted(first.items(), key=lambda item: -item[1])[:5]
    assert sum(second.values()) <= LATER, sorted(second.items(), key=lambda item: -item[1])[:5]


def test_icons_are_drawn(browser, site):
    """Each from a font that has come, by a rule that is still there."""
    page = browser.new_page()
    page.goto(f"{site}{chapters()[0]}")
    page.evaluate("document.fonts.ready")
    fonts = "[...document.fonts].filter(font => font.family.includes('Awesome') && font.status === 'loaded').length"
    assert page.evaluate(fonts) >= 2
    drawn = page.locator("i[class*='fa-'], span[class*='fa-']").evaluate_all(
        "icons => icons.map(icon => [icon.className, getComputedStyle(icon, '::before').content])"
    )
    assert drawn and all(len(content) == 3 for _, content in drawn), drawn  # a character in quotes
    page.close()


def test_every_icon_of_the_pages_is_in_the_fonts():
    fonts = [TTFont(path) for path in (HTML / "_static").rglob("fa-*.woff2")]
    kept = {code for font in fonts for code in font.getBestCmap()}
    style = (HTML / "_static/styles/pydata-sphinx-theme.css").read_text("utf-8")
    named = {ord(character) for character in style if ord(character) > 0xE000}
    assert named and named <= kept


def test_pictures_keep_their_colors(tmp_path):
    """Stored with 256 colors each, they take half the bytes and differ by less than anyone can see."""
    cells = json.loads((HTML.parents[1] / "book/03_single_head.ipynb").read_text("utf-8"))["cells"]
    outputs = [output.get("data", {}) for cell in cells for output in cell.get("outputs", [])]
    stored = [data["image/png"] for data in outputs if "image/png" in data]
    for number, picture in enumerate(stored):
        path = tmp_path / f"{number}.png"
        path.write_bytes(base64.b64decode("".join(picture)))
        size, before = path.stat().st_size, np.asarray(plt.imread(path))[..., :3]
        lighten_picture(path)
        after = np.asarray(plt.imread(path))[..., :3]
        assert path.stat().st_size < size / 2
        assert np.abs(after - before).mean() < 5e-4  # of 1, over all pixels and colors
