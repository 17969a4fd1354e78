"""Every page as readers meet it: offline, light and dark, on a desk and on a phone."""

from dataclasses import dataclass, field
from itertools import product

import pytest
from axe_playwright_python.sync_playwright import Axe
from browser.built import HTML, built_pages
from browser.conftest import together
from chromium import MATH_SET

WIDTHS = (1280, 360)
THEMES = ("light", "dark")
PAGES = built_pages() or ["book/index.html"]  # not built yet: the `built` fixture says so

# Opens all that is folded, so that what stands in it is looked at as well.
UNFOLD = """() => {
    document.querySelectorAll('details').forEach(element => element.open = true);
    document.querySelectorAll('.toggle-hidden').forEach(element => element.classList.remove('toggle-hidden'));
}"""
UNSET_MATH = """() => [...document.querySelectorAll('.math')]
    .filter(element => !element.querySelector('mjx-container') || element.querySelector('mjx-merror'))
    .map(element => element.textContent.slice(0, 80))"""
# Markup that reached the reader: a formula that was not recognised, a directive, a role, a star beside Chinese text.
RAW_MARKUP = r"""() => {
    const raw = /\$[^$]*\\[a-z]+[^$]*\$|\\\(|\\begin\{|:::|```|\{[a-z:-]+\}`|\*\*/;
    const walker = document.createTreeWalker(document.querySelector('article') ?? document.body, NodeFilter.SHOW_TEXT);
    const found = [];
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const inside = node.parentElement.closest('pre, code, .sig, .field-list strong, script, style, mjx-container');
        if (!inside && raw.test(node.data)) found.push(node.data.slice(0, 80));
    }
    return found;
}"""
# The theme's own skip link and closed sidebars lie outside the window on purpose; what widens the page is what counts.
TOO_WIDE = """() => document.documentElement.scrollWidth <= window.innerWidth ? [] :
    [...document.querySelectorAll('.bd-main *')]
        .filter(element => element.getBoundingClientRect().right > window.innerWidth + 1)
        .map(element => element.tagName + '.' + element.className).slice(0, 5)
        .concat(`page is ${document.documentElement.scrollWidth} px wide`)"""
NO_ALT = """() => [...document.images].filter(image => !image.hasAttribute('alt')).map(image => image.src)"""
BROKEN_IMAGES = """() => [...document.images].filter(image => image.complete && !image.naturalWidth)
    .map(image => image.src)"""


# Most of a page are colored tokens of code: one of each kind stays, else axe takes minutes.
UNWRAP_REPEATED = """() => {
    const seen = new Set();
    [...document.querySelectorAll(':is(pre, code, .sig) span')].reverse().forEach(span => {
        const kind = span.className + ' in ' + span.closest('div, dl')?.className;
        seen.has(kind) ? span.replaceWith(...span.childNodes) : seen.add(kind);
    });
}"""


@dataclass
class Visit:
    """What was found wrong on one page."""

    foreign_requests: list = field(default_factory=list)
    console_errors: list = field(default_factory=list)
    failed_requests: list = field(default_factory=list)
    unset_math: list = field(default_factory=list)
    raw_markup: list = field(default_factory=list)
    too_wide: list = field(default_factory=list)
    images: list = field(default_factory=list)
    axe: list = field(default_factory=list)


def open_page(browser, address, *, width=1280):
    """A page of its own (of a browser, or of one of its contexts), and the faults that loading it showed."""
    visit = Visit()
    page = browser.new_page()
    page.set_viewport_size({"width": width, "height": 800})
    home = address.split("/")[2]
    page.on(
        "request",
        lambda r: r.url.startswith("http") and r.url.split("/")[2] != home and visit.foreign_requests.append(r.url),
    )
    page.on("requestfailed", lambda r: visit.failed_requests.append(r.url))
    page.on("response", lambda r: r.status >= 400 and visit.failed_requests.append(f"{r.status} {r.url}"))
    page.on("console", lambda m: m.type in ("error", "warning") and visit.console_errors.append(m.text))
    page.on("pageerror", lambda error: visit.console_errors.append(str(error)))
    page.goto(address, wait_until="load")
    page.evaluate(MATH_SET)
    visit.unset_math = page.evaluate(UNSET_MATH)
    visit.raw_markup = page.evaluate(RAW_MARKUP)
    return page, visit


def violations(page, state):
    """What axe finds, by all of its rules."""
    page.evaluate(UNWRAP_REPEATED)
    options = {"resultTypes": ["violations"], "preload": False}
    shown = {"exclude": [["mjx-math"]]}  # the drawing of a formula, hidden from screen readers; what they read stays
    found = Axe().run(page, context=shown, options=options).response["violations"]
    return [
        f"{state}: {rule['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for rule in found
        for node in rule["nodes"][:3]
    ]


def show(page, *, width, theme):
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=theme)
    page.wait_for_function("theme => document.documentElement.dataset.theme === theme", arg=theme)


@pytest.fixture(scope="session")
def visits():
    return {}


@pytest.fixture(scope="session")
def context(browser):
    """One reader of all pages, whose browser keeps what it has loaded."""
    one = browser.new_context()
    yield one
    one.close()


@pytest.fixture(params=PAGES)
def visit(request, context, site, visits):
    """One page, loaded once for all tests and looked at in both themes and both widths.

    Axe takes most of the time. It looks at each English page narrow in light and wide in dark, at its Chinese twin,
    whose markup is the same, in one of these two in turn, and at the first chapter in all four.
    """
    name = request.param
    if name not in visits:
        page, visits[name] = found = open_page(context, site + name)
        visit = found[1]
        page.evaluate(UNFOLD)
        page.add_style_tag(content="* { transition: none !important }")  # axe would measure a color half-way
        visit.images = page.evaluate(NO_ALT) + page.evaluate(BROKEN_IMAGES)
        wide, narrow = WIDTHS
        for width in WIDTHS:
            for theme in THEMES:
                show(page, width=width, theme=theme)
                visit.too_wide += page.evaluate(TOO_WIDE)
        looks = [(narrow, "light"), (wide, "dark")]
        if name.startswith("zh/"):
            looks = [looks[PAGES.index(name) % 2]]
        if "/01_" in name:
            looks = list(product(WIDTHS, THEMES))
        for width, theme in looks:
            show(page, width=width, theme=theme)
            page.wait_for_timeout(400)  # the theme looks which blocks scroll 300 ms after a change
            visit.axe += violations(page, f"{width} px, {theme}")
        page.close()
    return visits[name]


def test_no_other_host_is_asked(visit):
    assert visit.foreign_requests == []


def test_nothing_is_missing(visit):
    assert visit.failed_requests == []


def test_console_is_silent(visit):
    assert visit.console_errors == []


def test_math_is_set(visit):
    assert visit.unset_math == []


def test_markup_is_rendered(visit):
    assert visit.raw_markup == []


def test_page_does_not_scroll_sideways(visit):
    assert visit.too_wide == []


def test_images_load_and_have_alt_text(visit):
    assert visit.images == []


def test_axe_finds_nothing(visit):
    assert visit.axe == []


def test_book_opens_from_a_folder(browser, built):
    """Without a web server, too: a book on a stick in a classroom without a network."""
    for name in [page for page in PAGES if "/01_" in page]:
        page, visit = open_page(browser, (built / name).as_uri())
        page.close()
        assert visit == Visit()


def test_a_fault_is_found(browser, site, tmp_path):
    """The tests above see what they look for."""
    bad = tmp_path / "bad.html"
    bad.write_text(
        '<img src="missing.png"><p class="math">x</p><p style="width:3000px">wide</p>'
        "<p>$\\frac12$</p><p>:::{note}</p><p>**bold**</p><p>fine: 5 $ and $</p>"
        '<script>console.error("no")</script><script src="http://127.0.0.2:9/x.js"></script>',
        encoding="utf-8",
    )
    page = browser.new_page(viewport={"width": 360, "height": 800})
    seen = []
    page.on("request", lambda r: seen.append(r.url))
    page.goto(bad.as_uri())
    assert page.evaluate(UNSET_MATH) and page.evaluate(TOO_WIDE) and page.evaluate(NO_ALT) and violations(page, "bad")
    assert len(page.evaluate(RAW_MARKUP)) == 3
    assert "http://127.0.0.2:9/x.js" in seen
    page.close()


def test_tests_of_one_page_stay_together():
    """On one processor, or each would open the page again."""
    here = "tests/browser/test_pages.py::"
    assert together(f"{here}test_math_is_set[zh/01.html]") == together(f"{here}test_axe_finds_nothing[zh/01.html]")
    assert together(f"{here}test_math_is_set[zh/01.html]") != together(f"{here}test_math_is_set[book/01.html]")
    assert together(f"{here}test_a") == together(f"{here}test_b[W_O]") == here[:-2]


def test_the_book_is_whole(built):
    """A build that lost its pages would pass the tests above."""
    assert len(built_pages()) >= 3
    assert (HTML / "genindex.html").exists()
