"""How readers find a page and get to its source: addresses, cards, the sitemap, the page for lost addresses."""

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
BOOK_PAGES = [page for page in built_pages() if page.startswith("book/")]


def soup(name):
    return BeautifulSoup((HTML / name).read_text("utf-8"), "html.parser")


@pytest.mark.parametrize("name", BOOK_PAGES)
def test_card_and_address(name):
    head = soup(name).head
    tags = {tag.get("property") or tag.get("name"): tag["content"] for tag in head.find_all("meta", content=True)}
    assert [link["href"] for link in head.find_all("link", rel="canonical")] == [BASE + name] == [tags["og:url"]]
    assert tags["description"] == tags["og:description"] and 50 <= len(tags["description"]) <= 160
    assert tags["og:title"] in head.title.text
    assert (HTML / tags["og:image"].removeprefix(BASE)).is_file()


def test_descriptions_differ():
    words = [soup(name).find("meta", attrs={"name": "description"})["content"] for name in BOOK_PAGES]
    assert len(set(words)) == len(words)


def test_sitemap_lists_the_book():
    """All of it and nothing else, and no date, which would change with every build."""
    tree = ET.parse(HTML / "sitemap.xml")
    assert {element.text for element in tree.iter() if element.tag.endswith("loc")} == {BASE + p for p in BOOK_PAGES}
    assert not [element for element in tree.iter() if element.tag.endswith("lastmod")]
    assert f"Sitemap: {BASE}sitemap.xml" in (HTML / "robots.txt").read_text("utf-8")


@pytest.mark.parametrize("name", BOOK_PAGES)
def test_buttons_open_the_right_file(name):
    """The source of this page, on the branch that _config.yml names."""
    repository, branch = CONFIG["repository"]["url"], CONFIG["repository"]["branch"]
    owner = repository.removeprefix("https://github.com/")
    page = soup(name)
    links = [a["href"] for a in page.find_all("a", href=True)]
    source = next(
        path for path in (ROOT / name).parent.glob(Path(name).stem + ".*") if path.suffix in (".ipynb", ".md")
    )
    source = source.relative_to(ROOT).as_posix()
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
    for name in BOOK_PAGES:
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
