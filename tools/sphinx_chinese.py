"""Sphinx extension: the Chinese edition, built after the English one and out of what that has computed.

- A notebook shows the outputs that its English twin has just given: the code is the same, and nothing runs twice. Only
  an exercise's check answers in Chinese, as `make notebooks` has stored it.
- A heading has the anchor of its English twin. Of Chinese letters Sphinx makes none but id1, id2, id3.
- The search finds words of any length: jieba cuts the text at build time, and the reader's browser cuts a query by the
  words that the text was cut into.
- The themes speak Chinese where they know how; locale/ has the rest of their words, and better ones.
- When all is built it is moved to where the English site links to: _build/html/zh.
"""

import io
import logging
import re
import shutil
from gettext import GNUTranslations
from pathlib import Path

import jieba
import nbformat
import snowballstemmer
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from docutils import nodes
from sphinx.errors import ExtensionError
from sphinx.locale import translators
from sphinx.search import languages
from sphinx.search.zh import SearchChinese
from sphinx.transforms import SphinxTransform
from twins import speaks

ROOT = Path(__file__).resolve().parents[1]
ENGLISH = ROOT / "_build/html"
EXECUTED = ROOT / "_build/jupyter_execute/book"  # where MyST-NB keeps the notebooks that it ran
PLACE = ENGLISH / "zh"
WORDS = ROOT / "tools/locale/zh_CN/LC_MESSAGES"
LABELS = {  # which the themes leave in English
    "Main": "全书目录",
    "Page": "本页目录",
    "Binder logo": "Binder 标志",
    "Toggle primary sidebar": "显示或隐藏全书目录",
    "Toggle secondary sidebar": "显示或隐藏本页目录",
    "Toggle hidden content": "展开或收起",
}


def take_outputs(app, page, source):
    """Put the outputs of this build's English notebook in place of the stored ones."""
    path = EXECUTED / f"{page}.ipynb"
    if not app.env.doc2path(page).endswith(".ipynb") or not path.exists():
        return  # a Markdown page, or a notebook that could not run here and is shown as stored
    notebook = nbformat.reads(source[0], as_version=4)
    ran = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    own = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if [cell.source for cell in own] != [cell.source for cell in ran]:
        raise ExtensionError(f"The code of book/zh/{page}.ipynb is not that of its English twin: make notebooks")
    for cell, english in zip(own, ran, strict=True):
        if not speaks(cell):
            cell.outputs = english.outputs
    source[0] = nbformat.writes(notebook)


class TakeAnchors(SphinxTransform):
    """Give each section the anchor that it has in the English book."""

    default_priority = 100  # before links to sections are resolved

    def apply(self, **kwargs):
        page = self.env.docname
        text = (ENGLISH / "book" / f"{page}.html").read_text("utf-8")
        anchors = re.findall(r'<section[^>]*? id="([^"]+)"', text)
        sections = list(self.document.findall(nodes.section))
        if len(anchors) != len(sections):
            raise ExtensionError(f"book/zh/{page} has {len(sections)} sections, the English page {len(anchors)}.")
        for section, anchor in zip(sections, anchors, strict=True):
            section["ids"] = [anchor]


class Chinese(SearchChinese):
    """Words as jieba cuts them, and single characters; a query is cut into words of the index, the longest first."""

    js_splitter_code = r"""
function splitQuery(query) {
  const known = word => Object.hasOwn(Search._index.terms, word) || Object.hasOwn(Search._index.titleterms, word);
  const words = [];
  for (const run of query.match(/[一-鿿]+|(?:(?![一-鿿])[\p{L}\p{N}_])+/gu) ?? []) {
    for (let start = 0, end; start < run.length; start = end) {
      end = run.length;
      if (/[一-鿿]/.test(run)) while (end > start + 1 && !known(run.slice(start, end))) end--;
      words.push(run.slice(start, end));
    }
  }
  return words;
}
"""

    def init(self, options):
        jieba.setLogLevel(logging.WARNING)
        self.stemmer = snowballstemmer.stemmer("porter")  # as in the browser

    def split(self, text):
        return super().split(text) + re.findall(r"[一-鿿]", text)

    def word_filter(self, word):
        return len(word) > 1 or "一" <= word <= "鿿"


def speak_chinese(app):
    """Let our words come before those of Sphinx and of the themes."""
    for path in WORDS.glob("*.po"):
        compiled = io.BytesIO()
        write_mo(compiled, read_po(io.BytesIO(path.read_bytes())))
        compiled.seek(0)
        ours = GNUTranslations(compiled)
        ours.add_fallback(translators["general", path.stem])
        translators["general", path.stem] = ours
    app.builder.templates.environment.install_gettext_translations(translators["general", "sphinx"])


def name_labels(app, exception):
    for path in [] if exception else Path(app.outdir).rglob("*.html"):
        text = re.sub(
            r'(aria-label|alt|title)="([^"]*)"', lambda m: f'{m[1]}="{LABELS.get(m[2], m[2])}"', path.read_text("utf-8")
        )
        path.write_text(text, encoding="utf-8", newline="\n")


def read_toc_from_here(app, config):
    config.external_toc_path = str(Path(config.external_toc_path).resolve())  # as the command line means it


def put_in_place(app, exception):
    if exception is None and app.builder.format == "html":
        shutil.rmtree(PLACE, ignore_errors=True)
        shutil.copytree(app.outdir, PLACE)


def setup(app):
    languages["zh"] = Chinese
    app.connect("config-inited", read_toc_from_here, priority=100)
    app.connect("builder-inited", speak_chinese)
    app.connect("source-read", take_outputs)
    app.add_transform(TakeAnchors)
    app.connect("build-finished", name_labels)
    app.connect("build-finished", put_in_place, priority=1000)  # after all that finishes a page
    return {"parallel_read_safe": True, "parallel_write_safe": True}
