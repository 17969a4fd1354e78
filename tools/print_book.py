"""Print the built pages into one PDF, in the order of the contents.

    python tools/print_book.py _build/html _build/attention-book.pdf

Each page is printed by Chromium, with its formulas set and in the light theme. The prints become one file with an
outline of parts, chapters and sections, in which a link to another chapter leads there.
"""

import sys
import tempfile
from pathlib import Path
from urllib.parse import urldefrag

import yaml
from chromium import FLAGS, MATH_SET, MISSING, chromium
from playwright.sync_api import sync_playwright
from pypdf import PdfReader, PdfWriter
from pypdf.generic import ArrayObject, DictionaryObject, NameObject, NullObject

ROOT = Path(__file__).resolve().parents[1]
MARGIN = {"top": "18mm", "bottom": "18mm", "left": "16mm", "right": "16mm"}
FOOTER = '<div style="font-size:7pt; width:100%; text-align:center; color:#555"><span class="title"></span></div>'
# Opens what is folded, and gives each link to another page its published address: the file's own is of this machine.
PREPARE = """() => {
    document.querySelectorAll('details').forEach(element => element.open = true);
    document.querySelectorAll('.toggle-hidden').forEach(element => element.classList.remove('toggle-hidden'));
    const home = document.querySelector('link[rel=canonical]').href;
    document.querySelectorAll('a[href]:not([href^="#"])').forEach(link =>
        link.href = new URL(link.getAttribute('href'), home));
    return home;
}"""


def contents():
    """Yield (part, page) in reading order; the first page belongs to no part."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
    yield None, toc["root"]
    for part in toc["parts"]:
        for chapter in part["chapters"]:
            yield part["caption"], chapter["file"]


def print_page(browser, source, target):
    """Print one page; return its title and its published address."""
    page = browser.new_page(color_scheme="light")
    page.goto(source.resolve().as_uri(), wait_until="load")
    page.evaluate(MATH_SET)
    address = page.evaluate(PREPARE)
    page.pdf(
        path=target, format="A4", margin=MARGIN, print_background=True, outline=True, tagged=True,
        display_header_footer=True, header_template="<span></span>", footer_template=FOOTER,
    )  # fmt: skip
    title = page.locator("article h1").first.evaluate("h => h.textContent.replace(/#$/, '').trim()")
    page.close()
    return title, address


def join(prints):
    """Return one document made of prints, a list of (part, title, address, file), and its outline."""
    book, parts, starts = PdfWriter(), {}, {}
    for part, title, address, file in prints:
        starts[address] = first = len(book.pages)
        book.append(file, import_outline=False)
        if part and part not in parts:
            parts[part] = book.add_outline_item(title=part, page_number=first)
        chapter = book.add_outline_item(title=title, page_number=first, parent=parts.get(part))
        add_sections(book, PdfReader(file), first, chapter)
    lead_inside(book, starts)
    return book


def add_sections(book, chapter, first, parent):
    """Add the second level of headings of a chapter to the outline."""
    for entry in chapter.outline[1] if len(chapter.outline) > 1 and isinstance(chapter.outline[1], list) else []:
        if not isinstance(entry, list):
            place = first + chapter.get_destination_page_number(entry)
            book.add_outline_item(title=entry.title, page_number=place, parent=parent)


def lead_inside(book, starts):
    """Turn links to the published chapters into links to their first page in this file."""
    for page in book.pages:
        for note in page.get("/Annots", []):
            action = note.get_object().get("/A", {})
            target = starts.get(urldefrag(str(action.get("/URI", "")))[0])
            if target is not None:
                place = [book.pages[target].indirect_reference, NameObject("/XYZ"), *[NullObject()] * 3]
                goto = {NameObject("/S"): NameObject("/GoTo"), NameObject("/D"): ArrayObject(place)}
                note.get_object()[NameObject("/A")] = DictionaryObject(goto)


def print_book(browser, source, target, pages):
    """Print `pages`, a list of (part, page), of the built book `source` into the file `target`; count its sheets."""
    with tempfile.TemporaryDirectory() as folder:
        prints = []
        for number, (part, page) in enumerate(pages):
            file = Path(folder, f"{number}.pdf")
            prints.append((part, *print_page(browser, source / f"{page}.html", file), file))
        book = join(prints)
    book.add_metadata({"/Title": prints[0][1]})
    book.compress_identical_objects()
    book.write(target)
    return len(book.pages)


def main(source, target):
    source, target = Path(source), Path(target)
    if not (source / "index.html").exists():
        sys.exit(f"There is no book in {source}: make book")
    path = chromium() or sys.exit(MISSING)
    with sync_playwright() as playwright, playwright.chromium.launch(executable_path=path, args=FLAGS) as browser:
        sheets = print_book(browser, source, target, list(contents()))
    print(f"{target}: {sheets} pages, {target.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(*sys.argv[1:])
