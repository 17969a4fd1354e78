"""Sphinx extension: each page leads to the same page in the other language, and says to search engines that it does.

The English edition stands at the root of the site, with its pages in book/; the Chinese one, whole, in zh/. A page has
the same name in both.
"""

from urllib.parse import urljoin

from sphinx.util.osutil import relative_uri

EDITIONS = {"en": "book/", "zh-CN": "zh/"}  # where the pages of a language stand on the site
ROOTS = {"en": "", "zh-CN": "zh/"}  # where the site of a language begins: its search, its index of terms
NAMES = {"en": "English", "zh-CN": "中文"}


def tag(app):
    """Return the language of this build as HTML writes it; zh_CN, as Sphinx writes it, is none."""
    return app.config.language.replace("_", "-")


def addresses(app, page):
    """Return where a page stands on the site, in each language; `page` is its name in this build."""
    folders = EDITIONS if page in app.env.found_docs else ROOTS
    name = page.rpartition("book/")[2] + app.builder.out_suffix
    return {language: folder + name for language, folder in folders.items()}


def published(app, page):
    """Return the addresses of a page in the world, in each language."""
    site = app.config.html_baseurl.removesuffix(ROOTS[tag(app)])
    return {language: urljoin(site, address) for language, address in addresses(app, page).items()}


def add_switch(app, page, template, context, doctree):
    here = addresses(app, page)
    own = here.pop(tag(app))
    context["twins"] = [(lang, NAMES[lang], relative_uri(own, address)) for lang, address in here.items()]
    if doctree is not None:
        links = {**published(app, page), "x-default": published(app, page)["en"]}
        lines = [f'<link rel="alternate" hreflang="{lang}" href="{address}" />' for lang, address in links.items()]
        context["metatags"] += "".join("\n    " + line for line in lines)


def setup(app):
    app.connect("html-page-context", add_switch, priority=400)  # the theme then leaves out what is empty
    return {"parallel_read_safe": True, "parallel_write_safe": True}
