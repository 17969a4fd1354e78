"""What the published pages cost beside the same content built with default Jupyter Book settings.

    python benchmarks/site.py

Both are built here in one run, from the same pages (first page, notation, chapters 1 to 4, glossary, bibliography) with
their stored outputs, nothing executed. A browser then opens a chapter as a first-time reader, and the next one. Where a
page asks another host, nothing answers: the request is counted, and MathJax, which such a page cannot do without, is
answered from the local package, as one file of the same version.
"""

import shutil
import subprocess
import sys
import tempfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import yaml
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
from chromium import FLAGS, MATH_SET, MISSING, chromium  # noqa: E402

CHAPTERS = ("03_single_head", "04_scaling")
PAGES = ("notation", "01_inputs", "02_query_key_value", *CHAPTERS, "glossary", "bibliography")
ROUNDS = 5
MATHJAX = Path(find_spec("sphinx-mathjax-offline").origin).parent / "static/mathjax/tex-mml-chtml.js"
# What a default configuration cannot be without, for these pages to be built at all.
NEEDED = {"sphinx": {"extra_extensions": ["sphinx_exercise"]}, "parse": {"myst_enable_extensions": [
    "amsmath", "colon_fence", "deflist", "dollarmath"]}, "only_build_toc_files": True}  # fmt: skip


def build(folder, ours):
    """Build the pages in a folder with our settings or with the default ones; return the folder of the pages."""
    shutil.copytree(ROOT / "book", folder / "book", ignore=shutil.ignore_patterns("reference", "solutions"))
    config = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8")) if ours else dict(NEEDED)
    config |= {"title": "Attention, step by step", "execute": {"execute_notebooks": "off"}}
    if ours:
        shutil.copytree(ROOT / "tools", folder / "tools")
    toc = {"format": "jb-book", "root": "book/index", "chapters": [{"file": f"book/{page}"} for page in PAGES]}
    for name, content in (("_config.yml", config), ("_toc.yml", toc)):
        (folder / name).write_text(yaml.safe_dump(content), encoding="utf-8")
    command = [Path(sys.executable).with_name("jupyter-book"), "build", str(folder), "--all", "-q"]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "_build/html"


class Handler(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        """Say nothing."""


def serve(folder):
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_port}/"


def answer(route):
    """Let the site's own files through, give MathJax from the local package, and refuse the rest."""
    url = route.request.url
    if url.startswith("http://127.0.0.1"):
        route.continue_()
    elif "mathjax" in url and url.endswith(".js"):
        route.fulfill(path=MATHJAX, content_type="text/javascript")
    else:
        route.abort()


def visit(context, address):
    """Return {address: bytes} of what one page asked for, and the milliseconds until its formulas were set."""
    page, asked = context.new_page(), {}

    def count(request):
        response = request.response() if request.failure is None else None
        asked[request.url] = len(response.body()) if response and response.ok else 0

    page.on("requestfinished", count)
    page.on("requestfailed", count)
    page.goto(address, wait_until="load")
    page.evaluate(MATH_SET)
    seconds = page.evaluate("performance.now()")
    page.wait_for_load_state("networkidle")
    page.close()
    return asked, seconds


def measure(browser, site):
    """Return what a first chapter and the one after it moved, and the time until the first one's formulas were set."""
    context = browser.new_context()
    context.route("**/*", answer)
    first, time = visit(context, f"{site}book/{CHAPTERS[0]}.html")
    later, _ = visit(context, f"{site}book/{CHAPTERS[1]}.html")
    context.close()
    more = {url: size for url, size in later.items() if url not in first}
    elsewhere = [url for url in first if not url.startswith(site)]
    return sum(first.values()) / 1e6, sum(more.values()) / 1e6, len(first), len(elsewhere), time


def main():
    path = chromium() or sys.exit(MISSING)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        sites = []
        for name, ours in (("ours", True), ("default", False)):
            (Path(folder) / name).mkdir()
            sites.append(serve(build(Path(folder) / name, ours)))
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        rounds = [[measure(browser, address) for _, address in sites] for _ in range(ROUNDS)]
        browser.close()
        for server, _ in sites:
            server.shutdown()
    rows = ("first chapter, MB", "a later one, MB more", "requests", "  of them to other hosts", "math set after, ms")
    print(f"{'':26}{'ours':>10}{'default':>10}{'ratio':>8}")
    for row, name in enumerate(rows):
        ours, default = (median(one[side][row] for one in rounds) for side in (0, 1))
        ratio = median(one[0][row] / one[1][row] if one[1][row] else float("nan") for one in rounds)
        digits = 2 if "MB" in name else 0
        print(f"{name:26}{ours:10.{digits}f}{default:10.{digits}f}{ratio:8.2f}")


if __name__ == "__main__":
    main()
