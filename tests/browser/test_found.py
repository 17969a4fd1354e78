"""How readers find a page and get to its source: addresses, cards, the sitemap, the page for lost addresses."""

import re
import subprocess
import threading
import xml.etree.ElementTree as ET
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from browser.built import HTML, LOST, built_pages
from browser.conftest import QuietHandler
from browser.test_pages import WIDTHS, open_page, violations
from bs4 import BeautifulSoup

ROOT = Path(__file__).resolve().parents[2]
CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))
BASE = CONFIG["html"]["baseurl"]
MADE = ("genindex.html", "py-modindex.html", "search.html")  # by Sphinx, of no source
PAGES = [page for page in built_pages() if page.removeprefix("zh/") not in MADE]
ENGLISH = [page for page in PAGES if page.startswith("book/")]
CHINESE = [page for page in PAGES if page.startswith("zh/")]


def twin(name):
    """The same page in the other language."""
    return "zh/" + name.removeprefix("book/") if name in ENGLISH else "book/" + name.removeprefix("zh/")


def source_of(name):
    """The file that a page is made of."""
    folder = ROOT / (name if name in ENGLISH else "book/" + name)
    return next(path for path in folder.parent.glob(folder.stem + ".*") if path.suffix in (".ipynb", ".md"))


def soup(name):
    return BeautifulSoup((HTML / name).read_text("utf-8"), "html.parser")


@pytest.mark.parametrize("name", PAGES)
def test_card_and_address(name):
    head = soup(name).head
    tags = {tag.get("property") or tag.get("name"): tag["content"] for tag in head.find_all("meta", content=True)}
    assert [link["href"] for link in head.find_all("link", rel="canonical")] == [BASE + name] == [tags["og:url"]]
    least, most = (50, 160) if name in ENGLISH else (25, 80)  # Chinese says as much in fewer characters
    assert tags["description"] == tags["og:description"] and least <= len(tags["description"]) <= most
    assert tags["og:title"] in head.title.text
    assert (HTML / tags["og:image"].removeprefix(BASE)).is_file()


def test_descriptions_differ():
    words = [soup(name).find("meta", attrs={"name": "description"})["content"] for name in PAGES]
    assert len(set(words)) == len(words)


def test_sitemap_lists_the_book():
    """All of it and nothing else, in both languages, and no date, which would change with every build."""
    tree = ET.parse(HTML / "sitemap.xml")
    assert {element.text for element in tree.iter() if element.tag.endswith("loc")} == {BASE + p for p in PAGES}
    links = [element.attrib for element in tree.iter() if element.tag.endswith("link")]
    assert {(link["hreflang"], link["href"]) for link in links} == {
        *(("en", BASE + p) for p in ENGLISH), *(("zh-CN", BASE + p) for p in CHINESE)
    }  # fmt: skip
    assert not [element for element in tree.iter() if element.tag.endswith("lastmod")]
    assert f"Sitemap: {BASE}sitemap.xml" in (HTML / "robots.txt").read_text("utf-8")


def test_both_languages_are_whole():
    assert ENGLISH and sorted(map(twin, ENGLISH)) == CHINESE


@pytest.mark.parametrize("name", PAGES)
def test_a_page_leads_to_its_twin(name):
    """And back; to a person, and to a search engine. Its language is named as HTML names it."""
    page = soup(name)
    other = page.find("a", class_="language-switch")
    assert page.html["lang"] == ("en" if name in ENGLISH else "zh-CN")
    assert other["hreflang"] == other["lang"] == ("zh-CN" if name in ENGLISH else "en")
    assert (HTML / name).parent.joinpath(other["href"]).resolve() == HTML / twin(name)
    english, chinese = sorted((name, twin(name)), key=lambda one: one in CHINESE)
    links = {link["hreflang"]: link["href"] for link in page.head.find_all("link", rel="alternate", hreflang=True)}
    assert links == {"en": BASE + english, "zh-CN": BASE + chinese, "x-default": BASE + english}


@pytest.mark.parametrize("name", ENGLISH)
def test_twins_have_the_same_anchors(name):
    """A link to a section or a figure holds in both languages."""
    anchors = [
        [part["id"] for part in soup(one).article.select("section[id], figure[id]")] for one in (name, twin(name))
    ]
    assert anchors[0] == anchors[1] and anchors[0]


ENGLISH_WORDS = r"[A-Za-z]{2,}(?: [A-Za-z]{2,})+"  # two or more in a row


@pytest.mark.parametrize("name", [*CHINESE[:1], "zh/search.html", "zh/genindex.html"])
def test_the_interface_is_chinese(name):
    """What the themes write about a page: labels, tooltips, buttons."""
    page = soup(name)
    for tag in page.select(
        "article, script, style, noscript, .toctree-l1, .toc-entry, .prev-next-title, .component-author"
    ):
        tag.decompose()
    spoken = [
        tag.get(key, "") for tag in page.body.find_all(True) for key in ("title", "aria-label", "placeholder", "alt")
    ]
    assert [text for text in [*spoken, *page.body.stripped_strings] if re.search(ENGLISH_WORDS, text)] == []


@pytest.mark.parametrize("name", PAGES)
def test_buttons_open_the_right_file(name):
    """The source of this page, on the branch that _config.yml names."""
    repository, branch = CONFIG["repository"]["url"], CONFIG["repository"]["branch"]
    owner = repository.removeprefix("https://github.com/")
    page = soup(name)
    links = [a["href"] for a in page.find_all("a", href=True)]
    source = source_of(name).relative_to(ROOT).as_posix()
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", source],
                            cwd=ROOT, capture_output=True, text=True).stdout  # fmt: skip
    assert not (ROOT / ".git").exists() or listed.strip() == source
    assert f"{repository}/edit/{branch}/{source}" in links
    download = page.find("a", class_="btn-download-source-button")["href"]
    assert (HTML / Path(name).parent / download).resolve().read_bytes() == (ROOT / source).read_bytes()
    binder = [link for link in links if "mybinder" in link]
    if source.endswith(".ipynb"):
        assert binder == [f"https://mybinder.org/v2/gh/{owner}/{branch}?urlpath=lab/tree/{source}"]
    own = [link for link in links if link.startswith(repository)]
    assert all(f"/{branch}/" in link for link in own if "/edit/" in link or "/blob/" in link or "/tree/" in link)


def test_figures_and_sections_can_be_linked():
    """Each has a name of its own and shows a link to it."""
    for name in PAGES:
        article = soup(name).article
        for part in article.select("figure, section:not(.exercise section, .solution section)"):
            heading = part.find(["figcaption", "h1", "h2", "h3", "h4"])
            assert part.get("id") and heading.find("a", class_="headerlink"), f"{name}: {heading.text[:60]}"


class BelowAFolder(QuietHandler):
    """Publishes the site below the path of its address, and answers what is not there as GitHub Pages does."""

    def translate_path(self, path):
        return super().translate_path("/" + path.removeprefix(urlsplit(BASE).path))

    def send_error(self, code, message=None, explain=None):
        body = (HTML / LOST).read_bytes()
        self.send_response(code)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="module")
def published(built):
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(BelowAFolder, directory=str(built)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("path", ["gone.html", "book/deep/er/gone.html"])
def test_a_lost_address_is_answered(browser, published, path):
    """In the book's own style, with links that lead back, from any depth below any folder."""
    address = published + urlsplit(BASE).path + path
    page, visit = open_page(browser, address, width=WIDTHS[0])
    assert page.title().startswith("Page not found")
    assert visit.failed_requests == [f"404 {address}"] and visit.foreign_requests == []
    assert page.evaluate("getComputedStyle(document.querySelector('.bd-sidebar-primary')).display") == "flex"
    assert violations(page, "light") == []
    page.click("article a >> nth=1")
    assert page.url == published + urlsplit(BASE).path + "book/index.html"
    page.close()
