"""Two chapters as a student meets them: opened in JupyterLab, every cell run, no error, no raw markup."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import pytest
from browser.test_pages import RAW_MARKUP

BOOK = Path(__file__).resolve().parents[2] / "book"
CHAPTERS = ("03_single_head.ipynb", "09_shape_check.ipynb")  # two quick ones; the first has the explorer
# What waits for the end of a run, and tells what came of it.
RUN_ALL = """async () => {
    const {commands, shell} = window.jupyterapp, panel = shell.currentWidget;
    await panel.context.ready; await panel.sessionContext.ready;
    await commands.execute('notebook:run-all-cells');
    const cells = [...panel.content.model.cells].filter(cell => cell.type === 'code');
    const outputs = cells.flatMap(cell => cell.toJSON().outputs);
    return {run: cells.filter(cell => cell.executionCount).length, all: cells.length,
            errors: outputs.filter(output => output.output_type === 'error').map(output => output.evalue)};
}"""
# The same look at the text as on the pages; the source of a cell may stay as it is.
RAW = RAW_MARKUP.replace("querySelector('article')", "querySelector('.jp-Notebook')").replace(
    "closest('pre,", "closest('.cm-editor, .katex, pre,"
)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture(scope="module")
def lab(browser, tmp_path_factory):
    """JupyterLab on a copy of the book, with no setting of the user's, showing all cells at once."""
    folder = tmp_path_factory.mktemp("lab")
    for name in (*CHAPTERS, "glossary.md"):
        shutil.copy(BOOK / name, folder)
    settings = folder / "settings/@jupyterlab"
    for extension, value in {
        "notebook-extension/tracker": {"windowingMode": "none"},
        "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    }.items():
        path = settings / f"{extension}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value), encoding="utf-8")
    port = free_port()
    options = {
        "ServerApp.port": port,
        "ServerApp.root_dir": folder,
        "IdentityProvider.token": "",
        "LabApp.expose_app_in_browser": True,
        "LabApp.user_settings_dir": folder / "settings",
        "LabApp.workspaces_dir": folder / "spaces",
    }
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    command += [f"--{option}={value}" for option, value in options.items()]
    environment = os.environ | {"JUPYTER_PREFER_ENV_PATH": "1", "JUPYTER_CONFIG_DIR": str(folder / "config")}
    with (folder / "log").open("w", encoding="utf-8") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        try:
            yield wait_for(f"http://127.0.0.1:{port}/", server, folder / "log")
        finally:
            server.terminate()
            server.wait(20)


def wait_for(address, server, log):
    for _ in range(600):
        assert server.poll() is None, log.read_text("utf-8")
        try:
            with urlopen(f"{address}api/status", timeout=5):
                return address
        except OSError:
            time.sleep(0.1)
    pytest.fail("JupyterLab did not start:\n" + log.read_text("utf-8"))


@pytest.mark.parametrize("name", CHAPTERS)
def test_chapter_runs_in_jupyterlab(browser, lab, name):
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(120_000)
    page.goto(f"{lab}lab/tree/{name}?reset")
    page.wait_for_function("window.jupyterapp?.shell.currentWidget?.content?.model?.cells?.length > 5")
    ran = page.evaluate(RUN_ALL)
    assert ran["errors"] == [] and ran["run"] == ran["all"] > 10, ran
    page.wait_for_function("document.querySelectorAll('.jp-Notebook .myst').length > 10")
    assert page.evaluate(RAW) == []
    assert "Unknown" not in page.locator(".jp-Notebook").inner_text()  # so says a directive that is not known here
    assert page.locator(".jp-Notebook aside[id^=ex-]").count() >= 3  # exercises are boxes
    assert page.locator(".jp-Notebook .jp-OutputArea img").count() > 3
    assert page.locator(".jp-Notebook .myst a[href*='glossary.md']").count() > 3
    explorers = page.locator(".jp-Notebook attention-explorer").all()
    assert bool(explorers) == ("attention-explorer" in (BOOK / name).read_text("utf-8"))
    assert all(one.evaluate("element => element.weights().length > 0") for one in explorers)
    page.close()
