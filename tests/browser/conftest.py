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


def together(nodeid):
    """What a test shares with others: the page that it looks at, or else its file."""
    file, _, test = nodeid.partition("::")
    return test[test.index("[") :] if test.endswith(".html]") else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give tests that belong together to one processor, so that each page is opened once.

    xdist's own way to say so, the mark xdist_group, does nothing with this pytest, and does not tell.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return together(nodeid)

    return Together(config, log)
