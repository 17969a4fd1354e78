"""Sphinx extension: each term of the glossary has an address, `glossary.md#term-softmax`, and a place in the index.

Links to the glossary are plain links, `[softmax](glossary.md#term-softmax)`. JupyterLab would show a `{term}` as a link
to an entry of the same notebook, which leads nowhere; a plain link opens the glossary there too. The address is made of
the term's English name, in ASCII.
"""

import re

from docutils import nodes
from sphinx import addnodes
from sphinx.locale import _
from sphinx.transforms import SphinxTransform

PAGES = ("book/glossary", "glossary")  # English and Chinese


def names(term):
    """Return the English names in the heading of an entry: "Bare token, dressed token" has two.

    They are set in bold in the English glossary; in the Chinese one, where the Chinese name is, in italics.
    """
    text = next(iter([*term.findall(nodes.emphasis), *term.findall(nodes.strong)])).astext()
    return [name.strip() for name in re.sub(r"\(.*?\)", "", text).split(",")]


def address(name):
    """Return the anchor of a name: Key–value cache is at term-key-value-cache."""
    return "term-" + "-".join(re.findall(r"[a-z0-9]+", name.lower()))


class NameTerms(SphinxTransform):
    """Give each entry its anchors, a link to itself, and its place in the index."""

    default_priority = 800  # before the index is collected (850)

    def apply(self, **kwargs):
        page = self.env.docname
        if page not in PAGES:
            return
        slugs = self.env.metadata[page].setdefault("myst_slugs", {})
        for term in list(self.document.findall(nodes.term)):
            entries = {address(name): name for name in names(term)}
            slugs.update({anchor: (term.line, anchor, name) for anchor, name in entries.items()})
            term["ids"] += entries
            term.insert(0, addnodes.index(entries=[("single", entries[id], id, "", None) for id in entries]))
            term.append(
                nodes.reference("", "#", refid=term["ids"][0], classes=["headerlink"], reftitle=_("Link to this term"))
            )


def setup(app):
    app.add_transform(NameTerms)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
