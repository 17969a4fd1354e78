"""Find the browser that looks at the pages and prints them: an installed Chromium, Chrome or Edge."""

import os
import shutil
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
PATHS = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "C:/Program Files/Google/Chrome/Application/chrome.exe",
    "C:/Program Files (x86)/Microsoft/Edge/Application/msedge.exe",
)
MISSING = "no Chromium, Chrome or Edge found; CHROMIUM=/path/to/one names it"
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
# Waits until MathJax has set the formulas of a page, if it has any.
MATH_SET = """async () => {
    if (!document.querySelector('.math')) return;
    while (!window.MathJax?.startup?.promise) await new Promise(done => setTimeout(done, 20));
    await window.MathJax.startup.promise;
}"""


def chromium():
    """Return the path of an installed browser, or None."""
    found = [os.environ.get("CHROMIUM"), *map(shutil.which, NAMES)]
    return next(filter(None, found + [path for path in PATHS if Path(path).exists()]), None)
