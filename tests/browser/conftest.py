"""One browser and one local server for all tests of the built book."""

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from browser.built import HTML, missing
from chromium import FLAGS, MISSING, chromium


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        """Say nothing: each request would be a line in the test's output."""


@pytest.fixture(scope="session")
def built():
    if not (HTML / "index.html").exists():
        missing("the book is not built: make book")
    return HTML


@pytest.fixture(scope="session")
def site(built):
    """The address of the built book on a local web server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(built)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api")
    path = chromium()
    if path is None:
        missing(MISSING)
    with sync_api.sync_playwright() as playwright, playwright.chromium.launch(executable_path=path, args=FLAGS) as one:
        yield one


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the marks
def pytest_collection_modifyitems(items):
    """Where tests share the processors: those of one page stay together, and so do those of any other file."""
    for item in items:
        page = item.callspec.params.get("visit") if hasattr(item, "callspec") else None
        item.add_marker(pytest.mark.xdist_group(page or item.path.name))
