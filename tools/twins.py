"""Hold the Chinese pages to the English ones: the same code and outputs, and no sentence left behind.

    python tools/twins.py                         carry code and outputs over, and name what is out of date
    python tools/twins.py fresh PAGE [CELL ...]   these Chinese cells (all of the page) say again what the English say

A page is a path below book/zh, such as 03_single_head.ipynb or glossary.md. Whoever changes an English cell changes its
Chinese twin too, and then calls `fresh`. Each Chinese cell keeps a digest of the English words that it renders
(`english` in its metadata, or at the head of a Markdown page), so that a twin that was forgotten is found.
"""

import copy
import hashlib
import re
import sys
from pathlib import Path

import nbformat

from attnlib import exercises

BOOK = Path(__file__).resolve().parents[1] / "book"
CHINESE = BOOK / "zh"
CHECKS = set(exercises.__all__)
HEAD = re.compile(r"---\nenglish: (\w*)\n---\n+")  # of a Markdown page


def pages(folder=BOOK):
    """Return the names of all pages of one edition, notebooks and Markdown, below its folder."""
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.suffix in (".ipynb", ".md"))
    other = (".ipynb_checkpoints", *(() if folder == CHINESE else ("zh",)))
    return sorted(path.as_posix() for path in paths if not any(part in other for part in path.parts))


def words(cell):
    """Return what a reader reads in a cell besides code and outputs: the text, or a figure's caption and alt text."""
    if cell.cell_type == "markdown":
        return cell.source
    shown = cell.metadata.get("mystnb", {})
    return "\n\n".join([shown.get("figure", {}).get("caption", ""), shown.get("image", {}).get("alt", "")]).strip()


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def speaks(cell):
    """Tell whether a cell runs an exercise's check, which answers in the language of the notebook."""
    called = re.findall(r"^(check_\w+)\(", cell.source, re.M) if cell.cell_type == "code" else []
    return not CHECKS.isdisjoint(called)


def twin(cell, chinese):
    """Return an English cell with the words of its Chinese twin; without one, with its own, marked as not rendered."""
    new = copy.deepcopy(cell)
    old = chinese.get(cell.id)
    if not words(cell):
        new.metadata.pop("english", None)
    else:
        new.metadata["english"] = old.metadata.get("english", "") if old else ""
    if old is None:
        return new
    if cell.cell_type == "markdown":
        new.source = old.source
        return new
    if words(cell) and words(old):
        shown = old.metadata["mystnb"]
        new.metadata["mystnb"]["figure"]["caption"] = shown["figure"]["caption"]
        new.metadata["mystnb"]["image"]["alt"] = shown["image"]["alt"]
    if speaks(cell) and old.source == cell.source:
        new.outputs = old.outputs  # in Chinese, from the last run
    return new


def carry(english, chinese=None):
    """Return the Chinese notebook: the cells, code and outputs of the English one, in the words of the Chinese one."""
    known = {cell.id: cell for cell in chinese.cells} if chinese else {}
    new = copy.deepcopy(english)
    new.cells = [twin(cell, known) for cell in english.cells]
    return new


def stale(english, chinese):
    """Yield the ids of English cells whose words have no Chinese twin, or one that renders an earlier wording."""
    known = {cell.id: cell.metadata.get("english") for cell in chinese.cells}
    for cell in english.cells:
        if words(cell) and known.get(cell.id) != digest(words(cell)):
            yield cell.id


def stale_page(name):
    """Return what is out of date in the Chinese twin of a page: ids of cells, or the page as a whole."""
    path = CHINESE / name
    if not path.exists():
        return ["no Chinese page"]
    if path.suffix == ".ipynb":
        return list(stale(read(BOOK / name), read(path)))
    head = HEAD.match(path.read_text("utf-8"))
    return [] if head and head[1] == digest((BOOK / name).read_text("utf-8")) else ["the page"]


def freshen(name, ids=()):
    """Note that Chinese cells (all of the page, unless some are named) render the English words of today."""
    path = CHINESE / name
    if path.suffix == ".md":
        text = HEAD.sub("", path.read_text("utf-8"), count=1)
        write_text(path, f"---\nenglish: {digest((BOOK / name).read_text('utf-8'))}\n---\n\n{text}")
        return
    english, chinese = ({cell.id: cell for cell in notebook.cells} for notebook in (read(BOOK / name), read(path)))
    unknown = set(ids) - {id for id, cell in english.items() if words(cell)}
    if unknown:
        raise SystemExit(f"{name} has no cell with words of the name {', '.join(sorted(unknown))}.")
    for id in ids or [id for id, cell in english.items() if words(cell)]:
        chinese[id].metadata["english"] = digest(words(english[id]))
    notebook = read(path)
    notebook.cells = list(chinese.values())
    write(notebook, path)


def read(path):
    return nbformat.read(path, as_version=4)


def write(notebook, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, nbformat.writes(notebook) + "\n")


def write_text(path, text):
    path.write_text(text, encoding="utf-8", newline="\n")


def carry_page(name, outputs=None):
    """Write the Chinese notebook of a page anew; `outputs` are those that its checks gave in Chinese, by cell."""
    path = CHINESE / name
    notebook = carry(read(BOOK / name), read(path) if path.exists() else None)
    for cell in notebook.cells:
        if outputs and cell.id in outputs:
            cell.outputs = outputs[cell.id]
    write(notebook, path)


def main(arguments):
    if arguments[:1] == ["fresh"] and len(arguments) > 1:
        freshen(arguments[1], arguments[2:])
    elif arguments:
        raise SystemExit(__doc__)
    for name in pages():
        if name.endswith(".ipynb"):
            carry_page(name)
    behind = {name: found for name in pages() if (found := stale_page(name))}
    for name, found in behind.items():
        print(f"book/zh/{name} is behind the English page: {', '.join(found)}")
    print(f"{len(pages()) - len(behind)} of {len(pages())} Chinese pages are up to date.")


if __name__ == "__main__":
    main(sys.argv[1:])
