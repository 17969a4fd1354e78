"""Sphinx extension: MathJax from the book itself, so that no page asks another host for anything.

The package sphinx-mathjax-offline carries all of MathJax (24 MB). A page needs three parts of it, and only these are
copied: the TeX-to-HTML component, the extensions that it loads on demand, and its fonts.
"""

from importlib.util import find_spec
from pathlib import Path

from sphinx.util.fileutil import copy_asset

PARTS = ("tex-chtml.js", "input/tex/extensions", "output/chtml/fonts/woff-v2")


def copy_mathjax(app, exception):
    if exception or app.builder.format != "html":
        return
    source = Path(find_spec("sphinx-mathjax-offline").origin).parent / "static" / "mathjax"
    for part in PARTS:
        target = Path(app.outdir, "_static", "mathjax", part)
        copy_asset(source / part, target.parent if (source / part).is_file() else target)


def setup(app):
    app.connect("build-finished", copy_mathjax)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
