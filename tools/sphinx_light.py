"""Sphinx extension: what no page uses is not sent. Chapters are read on phones and on slow lines.

The theme brings a style for everything that it could draw, and every icon of Font Awesome, twice: 2.7 MB. Kept are the
rules whose class names occur in a page or in a script, and of the icon fonts the icons that those rules name. Names and
brackets in code have the color of plain text, and need no markup for that. Pictures are stored anew with 256 colors of
their own, a third of the bytes; the notebooks that readers download keep the originals.
"""

import logging
import re
from itertools import pairwise
from pathlib import Path

import tinycss2
from fontTools.subset import Options, Subsetter, load_font, save_font
from PIL import Image

ADDED_BY_SCRIPTS = ("bs-",)  # Bootstrap puts these names together as it runs
UNUSED = ("*.map", "*.ttf", "fontawesome.js*")
PLAIN_TOKEN = re.compile(r'<span class="(?:n|nn|p|w)">([^<]*)</span>')


def lighten_code(path):
    text = path.read_text("utf-8")
    path.write_text(re.sub(PLAIN_TOKEN, r"\1", text), encoding="utf-8", newline="\n")


def words(static, pages):
    """Return every word of the pages and of the scripts: a class that a page can have is one of them."""
    files = [*pages, *(path for path in static.rglob("*.js") if "mathjax" not in path.parts)]
    return {word for path in files for word in re.findall(r"[\w-]+", path.read_text("utf-8"))}


def split(tokens):
    """Yield the selectors of a rule, which commas separate."""
    selector = []
    for token in tokens:
        if token == ",":
            yield selector
            selector = []
        else:
            selector.append(token)
    yield selector


def can_match(selector, known):
    """Tell whether all classes and ids that a selector asks for occur; what stands in :not() or :is() is left aside."""
    asked = {token.value for token in selector if token.type == "hash"}
    asked |= {name.value for dot, name in pairwise(selector) if dot == "." and name.type == "ident"}
    return all(name in known or name.startswith(ADDED_BY_SCRIPTS) for name in asked)


def used(rules, known):
    """Yield the rules that can apply to a page, as text."""
    for rule in rules:
        if rule.type == "qualified-rule":
            selectors = [tinycss2.serialize(s) for s in split(rule.prelude) if can_match(s, known)]
            if selectors:
                yield f"{','.join(selectors).strip()}{{{tinycss2.serialize(rule.content).strip()}}}"
        elif rule.type == "at-rule" and rule.lower_at_keyword in ("media", "supports"):
            inner = "".join(used(tinycss2.parse_rule_list(rule.content, True, True), known))
            if inner:
                yield f"@{rule.at_keyword}{tinycss2.serialize(rule.prelude)}{{{inner}}}"
        else:
            yield rule.serialize()


def lighten_style(path, known):
    rules = tinycss2.parse_stylesheet(path.read_text("utf-8"), True, True)
    path.write_text("".join(used(rules, known)), encoding="utf-8", newline="\n")


def lighten_font(path, style):
    """Leave in an icon font the icons that the style names."""
    options = Options(flavor="woff2", layout_features=[], drop_tables=["FFTM"])
    font = load_font(path, options)
    subsetter = Subsetter(options)
    subsetter.populate(text="".join(character for character in style if ord(character) > 127))
    subsetter.subset(font)
    save_font(font, path, options)


def lighten_picture(path):
    picture = Image.open(path).convert("RGB")  # the figures are opaque
    picture.quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


def lighten(app, exception):
    if exception or app.builder.format != "html":
        return
    out = Path(app.outdir)
    static = out / "_static"
    for path in {path for pattern in UNUSED for path in static.rglob(pattern)}:
        path.unlink()
    for path in out.rglob("*.html"):
        lighten_code(path)
    for path in (out / "_images").glob("*.png"):
        lighten_picture(path)
    known = words(static, out.rglob("*.html"))
    for path in static.rglob("*.css"):
        lighten_style(path, known)
    style = (static / "styles/pydata-sphinx-theme.css").read_text("utf-8")
    for path in static.rglob("fa-*.woff2"):
        lighten_font(path, style)


def setup(app):
    logging.getLogger("fontTools").setLevel(logging.WARNING)  # it reports each table of a font
    app.connect("build-finished", lighten, priority=900)  # after the themes have copied their styles
    return {"parallel_read_safe": True, "parallel_write_safe": True}
