"""What a Chinese page must hold beside its English one: the same facts, and Chinese as it is printed."""

import re

from markdown_it import MarkdownIt
from notebooks.rules import blank_fences, stated_numbers
from twins import BOOK, CHINESE, HEAD, read, words

HAN = "\u3400-\u9fff"
FORMULA = r"\$\$.*?\$\$|\$[^$\n]+\$"
COUNTED = ("headings", "figures", "formulas", "numbers", "code in the text", "links", "exercises")


def texts(name, folder):
    """Return the words of a page by place: the cells of a notebook, or a Markdown page as one."""
    path = folder / name
    if path.suffix == ".md":
        return {"page": HEAD.sub("", path.read_text("utf-8"), count=1)}
    return {cell.id: words(cell) for cell in read(path).cells if words(cell)}


def formulas(text):
    """Return the formulas of a text, blind to blanks, to words inside \\text and to the stop at the end."""
    found = re.findall(FORMULA, blank_fences(text), re.S)
    plain = (re.sub(r"\\text(?:rm)?\{[^}]*\}", "T", re.sub(r"\s+", "", formula)) for formula in found)
    return sorted(re.sub(r"[.,;](?=\$+$)", "", formula) for formula in plain)


def written_out(text):
    """Return a text with its round numbers in digits: 131 thousand, 13.1 万."""
    size = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "千": 1e3, "万": 1e4, "亿": 1e8}
    number = re.compile(rf"(\d+(?:\.\d+)?) ?({'|'.join(size)})")
    return number.sub(lambda found: f"{round(float(found[1]) * size[found[2]])} ", text)


def facts(text):
    """Return what a text states besides its words, kind by kind."""
    plain = blank_fences(text)
    return {
        "headings": re.findall(r"^(#+) ", plain, re.M),
        "figures": re.findall(r"^(?:!\[|:::\{(?:image|figure)\})", plain, re.M),
        "formulas": formulas(text),
        "numbers": sorted({value for _, value, _ in stated_numbers(written_out(text))}),
        "code in the text": sorted(re.findall(r"(?<!`)`([^`\n]+)`(?!`)", plain)),
        "links": sorted(re.findall(r"\]\(([^)\s]+)\)", plain)),
        "exercises": re.findall(r"^(?::label:|:{3,}\{solution\}) (\S+)$", plain, re.M),
    }


def is_lost(kind, english, chinese):
    """Tell whether facts of one kind differ. Of numbers Chinese may write more in digits (第 3 章), never fewer."""
    if kind == "numbers":
        return not set(english) <= set(chinese)
    return english != chinese


# ---------------------------------------------------------------------------------------------------------------------
# Chinese as it is printed
# ---------------------------------------------------------------------------------------------------------------------

RULES = {
    "a half-width mark beside Chinese": rf"[{HAN}][,;:?!]|[{HAN}]\.(?![A-Za-z0-9])|[{HAN}]\(|\)[{HAN}]",
    "a straight quotation mark beside Chinese": rf"[{HAN}][\"']|[\"'][{HAN}]",
    "a line break inside a paragraph": rf"[{HAN}，。；：、？！）”]\n(?=[{HAN}A-Za-z0-9$`“（*\[])(?!\d+\. |[-*] )",
    "italics, which Chinese type has not": rf"(?<!\*)\*(?!\*|选读)[{HAN}][^*\n]*\*(?!\*)",
    "no blank between Chinese and Latin": rf"[{HAN}][A-Za-z0-9X`]|[A-Za-z0-9X`][{HAN}]",
}


def prose(text):
    """Return a text with a letter for each formula and each link as its words, as a reader sees it."""
    text = re.sub(r"\$\$.*?\$\$", "", blank_fences(text), flags=re.S)
    text = re.sub(r"\$[^$\n]+\$", "X", text)
    return re.sub(r"\]\([^)]*\)|(?<=\()https?://\S+|\[(?=[^\]]*\]\()", "", text)


def chinese_faults(text):
    """Yield what is wrong with the typesetting of a Chinese text."""
    shown = prose(text)
    for what, pattern in RULES.items():
        seen = shown.replace("**", "") if what.startswith("no blank") else shown
        seen = seen if what.startswith("no blank") else re.sub(r"`[^`\n]+`", "X", seen)
        for found in re.finditer(pattern, seen):
            yield f"{what}: {seen[max(0, found.start() - 10) : found.end() + 10]!r}"
    for block in MarkdownIt().enable("table").parse(shown):
        for part in block.children or []:
            if part.type == "text" and "*" in part.content:
                yield f"a star that opens or closes nothing: {part.content[:40]!r}"


def coverage(name):
    """Count the facts of a page in both languages: {kind: (English, Chinese)}."""
    pages = {folder: "\n\n".join(texts(name, folder).values()) for folder in (BOOK, CHINESE)}
    counts = {folder: {kind: len(found) for kind, found in facts(text).items()} for folder, text in pages.items()}
    for folder in (BOOK, CHINESE) if name.endswith(".ipynb") else ():
        counts[folder]["figures"] += sum("figure" in c.metadata.get("mystnb", {}) for c in read(folder / name).cells)
    return {kind: (counts[BOOK][kind], counts[CHINESE][kind]) for kind in COUNTED}
