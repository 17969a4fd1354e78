"""Sphinx extension: which members of attnlib the reference shows, and how their shapes are written.

A reference page names modules. Shown is what a reader may import: the names in the `__all__` of attnlib, attnlib.plots
or attnlib.exercises; of a module that these leave out, its own public names. Helpers beside them are not.
"""

import re
from importlib import import_module

from sphinx.domains.python import PyObject

PACKAGES = ("attnlib", "attnlib.plots", "attnlib.exercises")
SIGNATURE_LIST = r"(?<=<span class=\"sig-paren\">\(</span>)\s*<dl>(.*?)</dl>"


def exported(module):
    """Return the names of a module that readers may import, or None if no package exports any of it."""
    own = vars(import_module(module))
    names = {name for package in PACKAGES for name in import_module(package).__all__}
    shown = {name for name in names & set(own) if getattr(own[name], "__module__", module) == module}
    return shown or None


def skip_member(app, what, name, member, skip, options):
    """Leave out what readers have no need to import, and the fields of a tuple, which its docstring lists."""
    if what != "module":
        return True if (getattr(member, "__doc__", None) or "").startswith("Alias for field") else None
    shown = exported(app.env.temp_data["autodoc:module"])
    return None if shown is None else skip or name not in shown


def write_shapes(app, what, name, obj, options, signature, result):
    """Write `Float[Any, '*#b N d']` as Float['*b N d']: the kind of the numbers, then the axes, as docstrings do."""
    pattern = r"~?(?:jaxtyping\.)?(\w+)\[~?(?:typing\.)?Any, ('[^']*')\]"

    def write(text):
        text = re.sub(pattern, lambda found: f"{found[1]}[{re.sub('[#{}]', '', found[2])}]", text)
        text = re.sub(r"<function [\w.]*<lambda>>", "...", text)  # defaults that are no literals
        return re.sub(r"<function (\w+)>", r"\1", text)

    return tuple(text and write(text) for text in (signature, result))


def break_signatures(app, page, template, context, doctree):
    """Write a signature of several lines with spans: Sphinx writes a list without terms, which is no list."""

    def lines(found):
        return found[1].replace("<dd>", '<span class="sig-line">').replace("</dd>", "</span>")

    if "sig-paren" in context.get("body", ""):
        context["body"] = re.sub(SIGNATURE_LIST, lines, context["body"], flags=re.S)


def name_attributes():
    """Head the attributes of a class as its docstring does; Sphinx says "Variables"."""
    for field in PyObject.doc_field_types:
        if field.name == "variable":
            field.label = "Attributes"


def setup(app):
    name_attributes()
    app.setup_extension("sphinx.ext.autodoc")
    app.setup_extension("sphinx.ext.napoleon")
    app.connect("autodoc-skip-member", skip_member)
    app.connect("autodoc-process-signature", write_shapes)
    app.connect("html-page-context", break_signatures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
