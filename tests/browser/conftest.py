"""One browser and one local server for all tests of the built book."""

import os
import shutil
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from browser.built import HTML, missing

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
CHROMIUM_PATHS = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "C:/Program Files/Google/Chrome/Application/chrome.exe",
    "C:/Program Files (x86)/Microsoft/Edge/Application/msedge.exe",
)
# Without these a browser without a network looks for updates at every start; a container's root has no sandbox.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium():
    """The path of an installed Chromium, Chrome or Edge, or None."""
    found = [os.environ.get("CHROMIUM"), *map(shutil.which, CHROMIUM_NAMES)]
    return next(filter(None, found + [path for path in CHROMIUM_PATHS if Path(path).exists()]), None)


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
        missing("no Chromium, Chrome or Edge found; CHROMIUM=/path/to/one names it")
    with sync_api.sync_playwright() as playwright, playwright.chromium.launch(executable_path=path, args=FLAGS) as one:
        yield one
