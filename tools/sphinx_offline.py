"""Sphinx extension: MathJax from the book itself, so that no page asks another host for anything.

The package sphinx-mathjax-offline carries all of MathJax (24 MB). A page needs TeX in, HTML out, and MathML for screen
readers: joined in one script. Copied beside it are the TeX extensions that a formula may ask for, and the fonts.
Left out is the menu, half a megabyte, which would also make each formula a stop of the Tab key.
"""

import json
from importlib.util import find_spec
from pathlib import Path

from sphinx.util.fileutil import copy_asset

COMPONENTS = ("core", "input/tex", "output/chtml", "output/chtml/fonts/tex", "a11y/assistive-mml")
FOLDERS = ("input/tex/extensions", "output/chtml/fonts/woff-v2")
SCRIPT = "mathjax/mathjax.js"


def configure(app, config):
    config.mathjax_path = SCRIPT


def join(source):
    """Return one script of the loader and the components; the loader is told not to look for these elsewhere."""
    start, *parts = (Path(source, f"{name}.js").read_text("utf-8") for name in ("startup", *COMPONENTS))
    here = f"MathJax.loader.preLoad(...{json.dumps(COMPONENTS)});"
    return "\n".join([start, here, *parts])


def copy_mathjax(app, exception):
    if exception or app.builder.format != "html":
        return
    source = Path(find_spec("sphinx-mathjax-offline").origin).parent / "static" / "mathjax"
    script = Path(app.outdir, "_static", SCRIPT)
    for folder in FOLDERS:
        copy_asset(source / folder, script.parent / folder)
    (script.parent / "input/tex/extensions/all-packages.js").unlink()  # all of them once more
    script.write_text(join(source), encoding="utf-8", newline="\n")


def setup(app):
    app.connect("config-inited", configure)
    app.connect("build-finished", copy_mathjax)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
