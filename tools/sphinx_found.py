"""Sphinx extension: what brings readers to a page. Social cards, a sitemap, a page for addresses that lead nowhere.

All addresses begin with `html.baseurl` of the config, and the words are those of descriptions.yml beside the pages.
What stands at the root of the site (its first page, the sitemap of both languages) is written with the English edition.
"""

import re
from html import escape
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import yaml
from sphinx.errors import ExtensionError
from sphinx_languages import published

LOST = "404"  # the name that GitHub Pages and most servers ask for
ALT = {"en": "A causal attention matrix beside the title of the book", "zh_CN": "书名旁边的因果注意力矩阵"}
CARD = "_static/card.png"  # 1200 x 630, the size that all networks show


def read_descriptions(app):
    folder = app.config.root_doc.removesuffix("index")
    text = Path(app.srcdir, folder, "descriptions.yml").read_text("utf-8")
    app.config.descriptions = {folder + page: words for page, words in yaml.safe_load(text).items()}


def tags(app, title, address, words):
    """Return the tags that a link to a page is shown with."""
    base, site = app.config.html_baseurl, app.config.html_title
    named = {"description": words, "twitter:card": "summary_large_image"}
    graph = {"title": title, "description": words, "type": "article", "url": address, "site_name": site}
    graph |= {"image": urljoin(base, CARD), "image:alt": ALT[app.config.language]}
    lines = [f'<meta name="{name}" content="{escape(text)}" />' for name, text in named.items()]
    lines += [f'<meta property="og:{name}" content="{escape(text)}" />' for name, text in graph.items()]
    return "\n    ".join(lines)


def add_tags(app, page, template, context, doctree):
    """Describe each page of the book; those that Sphinx makes (the index, the search) are for people who are here."""
    if doctree is None:
        context["metatags"] = '\n    <meta name="robots" content="noindex" />'
        context["pageurl"] = None
        return
    if page not in app.config.descriptions:
        raise ExtensionError(f"{page} has no description in descriptions.yml")
    title = re.sub("<.*?>", "", context["title"])
    context["metatags"] += "\n    " + tags(app, title, context["pageurl"], app.config.descriptions[page])


def write_sitemap(app, out):
    """List each page in both languages, and beside each where the other one stands."""
    lines = []
    for page in sorted(app.env.found_docs):
        both = published(app, page)
        links = [f'<xhtml:link rel="alternate" hreflang="{lang}" href="{url}"/>' for lang, url in both.items()]
        lines += [f"  <url><loc>{escape(url)}</loc>{''.join(links)}</url>" for url in both.values()]
    head = '<?xml version="1.0" encoding="utf-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
    head += ' xmlns:xhtml="http://www.w3.org/1999/xhtml">'
    (out / "sitemap.xml").write_text("\n".join([head, *lines, "</urlset>\n"]), encoding="utf-8", newline="\n")
    sitemap = urljoin(app.config.html_baseurl, "sitemap.xml")
    (out / "robots.txt").write_text(f"User-agent: *\nAllow: /\nSitemap: {sitemap}\n", encoding="utf-8", newline="\n")


def write_first_page(app, out):
    """Forward the root of the site to the first page, and describe it: this is the address that people share."""
    first = app.builder.get_target_uri(app.config.master_doc)
    address, site = urljoin(app.config.html_baseurl, first), app.config.html_title
    text = f"""<!DOCTYPE html>
<html lang="{app.config.language}">
  <head>
    <meta charset="utf-8" />
    <title>{escape(site)}</title>
    <meta http-equiv="Refresh" content="0; url={first}" />
    <link rel="canonical" href="{address}" />
    {tags(app, site, address, app.config.descriptions[app.config.master_doc])}
  </head>
  <body><p><a href="{first}">{escape(site)}</a></p></body>
</html>
"""
    (out / "index.html").write_text(text, encoding="utf-8", newline="\n")


def anchor_lost_page(app, out):
    """Begin each link of the 404 page at the root of the site: it is shown at any depth, below any folder."""
    path = out / f"{LOST}.html"
    root = urlsplit(app.config.html_baseurl).path or "/"
    text = re.sub(r'((?:href|src|action|content_root)=")(?!#|/|\w+:)', rf"\g<1>{root}", path.read_text("utf-8"))
    path.write_text(text, encoding="utf-8", newline="\n")


def finish(app, exception):
    if exception or app.builder.format != "html" or app.config.language != "en":
        return
    for write in (write_sitemap, write_first_page, anchor_lost_page):
        write(app, Path(app.outdir))


def setup(app):
    app.add_config_value("descriptions", {}, "html")
    app.connect("builder-inited", read_descriptions)
    app.connect("html-page-context", add_tags)
    app.connect("build-finished", finish, priority=950)  # the first page has been written by then
    return {"parallel_read_safe": True, "parallel_write_safe": True}
