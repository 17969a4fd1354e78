"""What every notebook of the book must hold, one function a rule: it takes a page and yields what is wrong with it.

`CHAPTER`, `SOLUTIONS` and `OTHER` say which pages a rule is for. test_lint.py runs every rule on every page, and shows
for each rule a page that breaks it.
"""

import ast
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import nbformat

BOOK = Path(__file__).resolve().parents[2] / "book"

CODE_LINES = 14  # in one cell; comments and blank lines are free
CODE_WIDTH = 100  # characters; a page is narrow
MAIN_WORDS = 1800  # of a chapter, outside "Deeper", exercises and further reading
MAIN_FIGURES = 5  # of a chapter, the strip that opens it included
SMALL = 10  # whole numbers up to this one count things in a sentence; larger ones and fractions are results
NEAR = 2  # a number in prose is computed in one of so many code cells before it or after it

CHAPTER, SOLUTIONS, OTHER = "chapter", "solutions", "other"
ALL = (CHAPTER, SOLUTIONS, OTHER)
FRAME_START = ["What you will see"]
FRAME_END = ["What breaks", "Summary", "Exercises", "Further reading"]

Rule = Callable[["Page"], Iterator[str]]
RULES: dict[str, tuple[Rule, tuple[str, ...]]] = {}


def rule(*kinds: str) -> Callable[[Rule], Rule]:
    """Register a rule for pages of these kinds."""

    def register(function: Rule) -> Rule:
        RULES[function.__name__] = (function, kinds or ALL)
        return function

    return register


# ---------------------------------------------------------------------------------------------------------------------
# A page and its parts
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Page:
    """One notebook, with the parts that the rules look at."""

    name: str
    kind: str
    notebook: nbformat.NotebookNode

    @classmethod
    def read(cls, path: Path) -> "Page":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `is_valid` says it better
            notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
        kind = SOLUTIONS if path.parent.name == "solutions" else CHAPTER if path.stem[:2].isdigit() else OTHER
        return cls(path.relative_to(BOOK).as_posix() if path.is_relative_to(BOOK) else path.name, kind, notebook)

    @property
    def cells(self) -> list[nbformat.NotebookNode]:
        return self.notebook.cells

    @cached_property
    def code(self) -> list[nbformat.NotebookNode]:
        return [cell for cell in self.cells if cell.cell_type == "code"]

    @cached_property
    def markdown(self) -> list[nbformat.NotebookNode]:
        return [cell for cell in self.cells if cell.cell_type == "markdown"]

    @cached_property
    def headings(self) -> list[tuple[int, str]]:
        return [found for cell in self.markdown for found in headings(cell.source)]

    @cached_property
    def exercises(self) -> list[str]:
        """The labels of its exercises, in order; '' for one that has none."""
        return [label for cell in self.markdown for label in exercise_labels(cell.source)]

    @cached_property
    def solutions(self) -> list[str]:
        """The labels of the exercises that it solves, in order."""
        return [label for cell in self.markdown for label in re.findall(r"\{solution\}[ \t]*(\S*)", cell.source)]

    @cached_property
    def main_path(self) -> list[nbformat.NotebookNode]:
        """The cells that every reader reads: up to the exercises, without the sections that go deeper."""
        kept, depth = [], 7
        for cell in self.cells:
            for level, title in headings(cell.source) if cell.cell_type == "markdown" else []:
                if title == "Exercises":
                    return kept
                if level <= depth:
                    depth = level if title.startswith("Deeper") else 7
            if depth == 7:
                kept.append(cell)
        return kept


def blank_fences(text: str) -> str:
    """Text without what stands in code fences; the lines stay, empty."""
    kept, fence = [], ""
    for line in text.splitlines():
        mark = re.match(r"\s*(`{3,}|~{3,})", line)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence):
            fence = ""
        else:
            kept.append("" if fence else line)
            continue
        kept.append("")
    return "\n".join(kept)


def headings(text: str) -> list[tuple[int, str]]:
    return [(len(marks), title.strip()) for marks, title in re.findall(r"^(#{1,6})\s+(.+)$", blank_fences(text), re.M)]


def exercise_labels(text: str) -> list[str]:
    bodies = re.findall(r"\{exercise\}(.*?)(?=^:{3,}\s*$|^`{3,}\s*$|\Z)", text, re.M | re.S)
    labels = [re.search(r"^:label:\s*(\S+)", body, re.M) for body in bodies]
    return [label[1] if label else "" for label in labels]


def without_dropdowns(text: str) -> str:
    """Text without folded blocks: `:::{dropdown}` and any directive of the class `dropdown`."""
    kept, closing = [], ""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        fence = re.match(r"(:{3,}|`{3,})\{(\w+)\}", line)
        options = "\n".join(lines[number + 1 : number + 6]).split("\n\n")[0]
        if fence and not closing and (fence[2] == "dropdown" or re.search(r"^:class:.*dropdown", options, re.M)):
            closing = fence[1]
        elif closing and line.strip() == closing:
            closing = ""
        elif not closing:
            kept.append(line)
    return "\n".join(kept)


def is_figure(cell: nbformat.NotebookNode) -> bool:
    return bool(images(cell))


def images(cell: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    outputs = cell.get("outputs", [])
    return [out for out in outputs if {"image/png", "image/svg+xml", "image/jpeg"} & set(out.get("data", {}))]


def output_text(cell: nbformat.NotebookNode) -> str:
    parts = []
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        parts += [output.get("text", ""), data.get("text/plain", ""), data.get("text/html", "")]
    return "\n".join(parts)


def start(cell: nbformat.NotebookNode) -> str:
    """How a message names a cell."""
    first = next((line for line in cell.source.splitlines() if line.strip()), "an empty cell")
    return f"[{first[:60]}]"


def tree(cell: nbformat.NotebookNode) -> ast.Module:
    try:
        return ast.parse(cell.source)
    except SyntaxError:
        return ast.Module([], [])  # `is_plain_python` says so


# ---------------------------------------------------------------------------------------------------------------------
# The file
# ---------------------------------------------------------------------------------------------------------------------


@rule()
def is_valid(page: Page) -> Iterator[str]:
    """Valid by nbformat, without warnings, with unique cell ids."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            nbformat.validate(page.notebook)
        except Exception as error:
            yield f"not a valid notebook: {str(error)[:200]}"
    ids = [cell.get("id") for cell in page.cells]
    if None in ids or len(set(ids)) < len(ids):
        yield "cell ids are missing or not unique"


@rule()
def kernel_is_python3(page: Page) -> Iterator[str]:
    """A kernel that every environment has, and nothing of the author's machine."""
    if page.notebook.metadata.get("kernelspec", {}).get("name") != "python3":
        yield "the kernel is not python3"
    extra = set(page.notebook.metadata) - {"kernelspec", "language_info"}
    if extra or "version" in page.notebook.metadata.get("language_info", {}):
        yield "metadata of an editor or a Python version: make notebooks removes it"


@rule()
def ran_in_order(page: Page) -> Iterator[str]:
    """Stored as run once from top to bottom; nbval skips a cell that has no count."""
    counts = [cell.execution_count for cell in page.code]
    if counts != list(range(1, len(counts) + 1)):
        yield f"execution counts are {counts}: make notebooks"


@rule()
def has_one_title(page: Page) -> Iterator[str]:
    titles = [title for level, title in page.headings if level == 1]
    if len(titles) != 1 or not page.cells or not page.cells[0].source.startswith("# "):
        yield f"needs one title, at its start; has {titles}"


# ---------------------------------------------------------------------------------------------------------------------
# Outputs
# ---------------------------------------------------------------------------------------------------------------------

UNSTABLE = {
    "an address": r"\b0x[0-9a-fA-F]{6,}",
    "a path": r"(?<![\w.:/])/(?:home|Users|root|tmp|usr|opt|var|mnt|work)/|\b[A-Z]:\\|site-packages|ipykernel_",
    "a date or a time of day": r"\b20\d\d-\d\d-\d\d\b|\b\d\d:\d\d:\d\d\b",
    "a timing": r"\b[mµn]?s ±|CPU times|Wall time|\bit/s\b|\b\d+(?:\.\d+)? ?(?:ms|µs|ns|s|sec|seconds)\b(?! of)",
    "a NumPy scalar's repr": r"\bnp\.(?:float|int|bool|str)\d*_?\(",
    "a warning": r"\w*Warning\b",
}


@rule()
def outputs_are_clean(page: Page) -> Iterator[str]:
    """No errors, nothing on stderr."""
    for cell in page.code:
        for output in cell.outputs:
            if output.output_type == "error" or output.get("name") == "stderr":
                yield f"{start(cell)} stores an error or text of stderr"


@rule()
def outputs_are_stable(page: Page) -> Iterator[str]:
    """Nothing that another run or another machine would print otherwise."""
    for cell in page.code:
        for what, pattern in UNSTABLE.items():
            if found := re.search(pattern, output_text(cell)):
                yield f"{start(cell)} prints {what}: {found[0]}"


# ---------------------------------------------------------------------------------------------------------------------
# Figures
# ---------------------------------------------------------------------------------------------------------------------


@rule()
def figures_speak(page: Page) -> Iterator[str]:
    """Every figure has alt text and a caption; no two have the same alt text."""
    seen = set()
    for cell in filter(is_figure, page.code):
        mystnb = cell.metadata.get("mystnb", {})
        alt = mystnb.get("image", {}).get("alt", "").strip()
        caption = mystnb.get("figure", {}).get("caption", "").strip()
        if len(images(cell)) > 1:
            yield f"{start(cell)} draws several figures, which would share one alt text"
        if len(alt) < 20 or re.search(r"^<|\.(png|svg|jpe?g)$", alt):
            yield f"{start(cell)} has no alt text that tells the finding: {alt!r}"
        if alt in seen:
            yield f"{start(cell)} repeats an alt text"
        if not caption:
            yield f"{start(cell)} has no caption"
        seen.add(alt)
    for cell in page.markdown:
        for alt in re.findall(r"!\[(.*?)\]\(", blank_fences(cell.source)):
            if len(alt) < 20:
                yield f"{start(cell)} holds an image without alt text"


@rule()
def figures_end_with_show(page: Page) -> Iterator[str]:
    """Else the repr of an artist is stored, with its address."""
    for cell in filter(is_figure, page.code):
        if not cell.source.rstrip().endswith("plt.show()"):
            yield f"{start(cell)} draws and does not end with plt.show()"


# ---------------------------------------------------------------------------------------------------------------------
# Code
# ---------------------------------------------------------------------------------------------------------------------

LEGACY_RANDOM = r"np\.random\.(?!default_rng|Generator|SeedSequence|PCG64)\w+"
UNPORTABLE = {
    "sys.path is edited: attnlib is installed": r"\bsys\.path\b",
    "a reader is asked, and a build would wait for ever": r"\binput\(",
    "the legacy random generator, with its hidden global seed": LEGACY_RANDOM,
    "the working directory is changed or asked for": r"\bos\.(?:chdir|getcwd)\b|\bPath\.cwd\b",
    "a module of the book's builder, absent elsewhere": r"\bmyst_nb\b",
    "open() without an encoding": r"\bopen\((?!.*encoding=)",
}


@rule()
def is_plain_python(page: Page) -> Iterator[str]:
    """No magics, no shell: they fail under nbval or on Windows."""
    for cell in page.code:
        try:
            ast.parse(cell.source)
        except SyntaxError as error:
            yield f"{start(cell)} is no plain Python: {error.msg}"


@rule()
def code_is_portable(page: Page) -> Iterator[str]:
    for cell in page.code:
        for what, pattern in UNPORTABLE.items():
            if re.search(pattern, cell.source):
                yield f"{start(cell)}: {what}"


@rule()
def cells_are_short(page: Page) -> Iterator[str]:
    for cell in page.code:
        lines = [line for line in cell.source.splitlines() if line.strip() and not line.strip().startswith("#")]
        if len(lines) > CODE_LINES:
            yield f"{start(cell)} has {len(lines)} lines of code, more than {CODE_LINES}"
        if any(len(line) > CODE_WIDTH for line in lines):
            yield f"{start(cell)} has a line of more than {CODE_WIDTH} characters"


@rule(CHAPTER, OTHER)
def helpers_live_in_attnlib(page: Page) -> Iterator[str]:
    """No functions or classes but the stubs of exercises."""
    for cell in page.code:
        defined = [node for node in ast.walk(tree(cell)) if isinstance(node, ast.FunctionDef | ast.ClassDef)]
        if defined and "check_" not in cell.source:
            yield f"{start(cell)} defines {defined[0].name}: a helper belongs in attnlib, with a test"


# ---------------------------------------------------------------------------------------------------------------------
# Text
# ---------------------------------------------------------------------------------------------------------------------

NO_PROSE = ("math", "code", "code-block", "literalinclude", "raw")
MATH = r"(?<![\\$])\$(?!\$)(?:\\.|[^$\\])+?\$"


@rule()
def directives_stay_readable(page: Page) -> Iterator[str]:
    """Prose stands in colon fences, which also read well where MyST is not rendered; none is left open."""
    for cell in page.markdown:
        for name in re.findall(r"^\s*`{3,}\{([\w:-]+)\}", cell.source, re.M):
            if name not in NO_PROSE:
                yield f"{start(cell)}: write ::: for {{{name}}}, not backticks"
        for name in re.findall(r"\{([\w:-]+-(?:start|end))\}", cell.source):
            yield f"{start(cell)}: {{{name}}} is a gated directive; use one block"
        open_fences: list[str] = []
        for marks, rest in re.findall(r"^(:{3,})(.*)$", blank_fences(cell.source), re.M):
            if rest.strip():
                open_fences.append(marks)
            elif not open_fences or open_fences.pop() != marks:
                yield f"{start(cell)}: a ::: closes nothing"
        if open_fences:
            yield f"{start(cell)}: a ::: block is not closed"


@rule()
def tables_keep_their_columns(page: Page) -> Iterator[str]:
    """A bar in a formula or in code would split a table's cell: \\mid, \\lvert."""
    for cell in page.markdown:
        for table in re.findall(r"(?:^[ \t]*\|.*(?:\n|\Z))+", blank_fences(cell.source), re.M):
            rows = table.splitlines()
            for row in rows:
                if any(re.search(r"(?<!\\)\|", part) for part in re.findall(MATH + r"|`[^`]+`", row)):
                    yield f"a bar in a formula or in code splits a cell: {row.strip()[:80]}"
            if len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) > 1:
                yield f"rows of different length: {rows[0].strip()[:80]}"


# ---------------------------------------------------------------------------------------------------------------------
# The frame of a chapter
# ---------------------------------------------------------------------------------------------------------------------


@rule(CHAPTER)
def follows_the_frame(page: Page) -> Iterator[str]:
    """Strip · what you will see · predict · sections · what breaks · summary · exercises · further reading."""
    sections = [title for level, title in page.headings if level == 2 and not title.startswith("Deeper")]
    if sections[:1] != FRAME_START or sections[-len(FRAME_END) :] != FRAME_END:
        yield f"sections are {sections}: begin with {FRAME_START}, end with {FRAME_END}"
    if not any(re.search(r"\bPredict", cell.source) for cell in page.markdown):
        yield "asks for no prediction"
    figures = list(filter(is_figure, page.code))
    if not figures or "pipeline_strip(" not in figures[0].source:
        yield "its first figure is not the strip of the pipeline: pipeline_strip(...)"


@rule(CHAPTER)
def main_path_is_short(page: Page) -> Iterator[str]:
    """Twenty minutes for a first reader; what goes deeper is folded, or stands at the end."""
    prose = [cell.source for cell in page.main_path if cell.cell_type == "markdown"]
    words = sum(len(re.findall(r"\w+", prose_of(text))) for text in prose)
    if words > MAIN_WORDS:
        yield f"{words} words on the main path, more than {MAIN_WORDS}: fold what goes deeper"
    figures = sum(map(is_figure, page.main_path))
    if figures > MAIN_FIGURES:
        yield f"{figures} figures on the main path, more than {MAIN_FIGURES}"


def prose_of(text: str) -> str:
    """The sentences of the main path: no folded blocks, no code, no formulas, no targets of links."""
    text = without_dropdowns(blank_fences(text))
    text = re.sub(r"\$\$.*?\$\$|\\begin\{(\w+\*?)\}.*?\\end\{\1\}", " ", text, flags=re.S)
    text = re.sub(MATH, " ", text)
    return re.sub(r"`[^`]*`|\]\([^)]*\)|^:\w+:.*$", " ", text, flags=re.M)


# ---------------------------------------------------------------------------------------------------------------------
# Numbers in prose
# ---------------------------------------------------------------------------------------------------------------------

# In prose: −0.5, 4000 or 4,000 or 4 000, 1e-6; not the 2 of d_2, the parts of 1.2.3 or of a-5.
NUMBER = r"(?<![\w.,^_−-])[−-]?\d+(?:[,\u00a0\u2009\u202f]\d{3})*(?:\.\d+)?(?:e[−-]?\d+)?(?![\w,.]*\d)"
NUMBER_IN_CODE = r"(?<![\w.])\d[\d_]*(?:\.\d*)?(?:e-?\d+)?"
REFERENCES = (
    r"(?i)\b(?:chapters?|sections?|figures?|tables?|exercises?|parts?|equations?|eqs?\.|step|page|version|Python|PyTorch"
    r"|NumPy|seed|appendix|§|No\.)\s*[\d.]+(?:(?:\s*(?:,|and|to|or|–|-)\s*)[\d.]+)*"
)
PREDICTION = r"^:{3,}\{\w+\} Predict.*?^:{3,}$|^\*\*Predict.*?(?:\n\n|\Z)"
YEARS = r"\b(?:1[89]|20)\d\d\b"


@rule(CHAPTER)
def numbers_are_computed(page: Page) -> Iterator[str]:
    """A number that prose states is asserted or printed in a code cell beside it; the summary's, anywhere before it.

    Free are whole numbers up to SMALL, years, references (chapter 12, Figure 3.1), formulas, code, headings,
    predictions (which offer wrong answers), exercises and further reading. A number may be rounded, and 94 % be 0.94.
    """
    section = ""
    for place, cell in enumerate(page.cells):
        if cell.cell_type != "markdown":
            continue
        section = next((title for level, title in headings(cell.source)[::-1] if level == 2), section)
        if section in ("Exercises", "Further reading"):
            return
        before = [c for c in page.cells[:place] if c.cell_type == "code"]
        after = [c for c in page.cells[place:] if c.cell_type == "code"]
        beside = before if section == "Summary" else before[-NEAR:] + after[:NEAR]
        known = [value for c in beside for value in computed_numbers(c)]
        for text, value, unit in [] if section.startswith("Predict") else stated_numbers(cell.source):
            scales = (1, 100) if unit else (1,)
            if not any(is_rounded(text, value, scale * other) for other in known for scale in scales):
                yield f"{start(cell)} states {text}{unit}, and no cell beside it computes it"


def stated_numbers(source: str) -> list[tuple[str, float, str]]:
    """The numbers that a reader takes from the text, each with its value and '%' where it is a percentage."""
    text = re.sub(r"^#+ .*$|^:\w+:.*$", " ", blank_fences(source), flags=re.M)
    text = re.sub(PREDICTION + r"|\$\$.*?\$\$|\\begin\{(\w+\*?)\}.*?\\end\{\1\}", " ", text, flags=re.S | re.M)
    text = re.sub(MATH, bare_number, text)
    text = re.sub(r"`[^`]*`|\[[^\]]*\]\([^)]*\)|\{\w+\}`[^`]*`|https?://\S+", " ", text)
    text = re.sub(YEARS, " ", re.sub(REFERENCES, " ", text))
    found = []
    for match in re.finditer(NUMBER, text):
        value = as_float(match[0])
        unit = "%" if re.match(r"\s?\\?%", text[match.end() :]) else ""
        if not (value == int(value) and 0 <= value <= SMALL and "." not in match[0] and not unit):
            found.append((match[0], value, unit))
    return found


def bare_number(formula: re.Match) -> str:
    """A formula that is only a number is a number in prose; any other is a formula."""
    inside = formula[0].strip("$").replace(r"\%", "%").replace(r"\,", "").replace(r"\approx", "").strip()
    return inside if re.fullmatch(NUMBER + r"\s*%?", inside) else " "


def computed_numbers(cell: nbformat.NotebookNode) -> list[float]:
    return [float(text) for text in re.findall(NUMBER_IN_CODE, cell.source + "\n" + output_text(cell))]


def as_float(text: str) -> float:
    return float(re.sub(r"[,\u00a0\u2009\u202f]", "", text).replace("−", "-"))


def is_rounded(text: str, value: float, computed: float) -> bool:
    """Whether the text states the computed number, sign aside, to as many places as the text has."""
    places = len(text.split(".")[1]) if "." in text else 0
    slack = 0 if "e" in text or value == 0 else 0.5 * 10**-places
    return abs(abs(value) - abs(computed)) <= slack * (1 + 1e-9)


# ---------------------------------------------------------------------------------------------------------------------
# Exercises
# ---------------------------------------------------------------------------------------------------------------------


@rule(CHAPTER)
def exercises_are_complete(page: Page) -> Iterator[str]:
    """Each has a label, says how long it takes, and is followed by one stub whose last line calls its check."""
    labels = page.exercises
    topics = {match[1] if (match := re.match(r"ex-([a-z0-9]+)-\w", label)) else None for label in labels}
    if None in topics or len(topics) > 1 or len(set(labels)) < len(labels):
        yield f"labels are not ex-TOPIC-NAME, one topic a chapter, each once: {labels}"
    for cell, after in zip(page.cells, [*page.cells[1:], None], strict=True):
        if cell.cell_type != "markdown" or "{exercise}" not in cell.source:
            continue
        if not re.search(r"\b\d+ min", cell.source):
            yield f"{start(cell)} does not say how many minutes it takes"
        if cell.source.count("{exercise}") > 1 or after is None or not is_stub(after):
            yield f"{start(cell)} is not followed by its own stub: `...` as the body, check_...(...) as the last line"


def is_stub(cell: nbformat.NotebookNode) -> bool:
    body = tree(cell).body if cell.cell_type == "code" else []
    stubs = [node for node in body if isinstance(node, ast.FunctionDef) and ast.unparse(node.body[-1]) == "..."]
    return bool(stubs) and ast.unparse(body[-1]).startswith("check_")


@rule(CHAPTER, OTHER)
def gives_no_solution_away(page: Page) -> Iterator[str]:
    """Solutions are pages of their own: what a student downloads holds none."""
    if page.solutions:
        yield f"holds the solutions of {page.solutions}"


@rule(SOLUTIONS)
def solutions_come_labelled(page: Page) -> Iterator[str]:
    if not all(page.solutions) or len(set(page.solutions)) < len(page.solutions) or page.exercises:
        yield f"not one labelled solution an exercise: {page.solutions}"


# ---------------------------------------------------------------------------------------------------------------------
# The book as a whole
# ---------------------------------------------------------------------------------------------------------------------


def book_faults(pages: list[Page], listed: list[str], present: list[str]) -> Iterator[str]:
    """What is wrong between pages: contents, labels, solutions."""
    for name in sorted(set(listed) ^ set(present)):
        yield f"{name} is {'not in _toc.yml' if name in present else 'in _toc.yml and absent'}"
    for name in sorted({name for name in listed if listed.count(name) > 1}):
        yield f"{name} is twice in _toc.yml"
    chapters = [page for page in pages if page.kind == CHAPTER]
    labels = [label for page in chapters for label in page.exercises]
    for label in sorted({label for label in labels if labels.count(label) > 1}):
        yield f"exercise {label} exists twice"
    solved = {page.name: page.solutions for page in pages if page.kind == SOLUTIONS}
    for chapter in chapters:
        if chapter.exercises != solved.pop(f"solutions/{chapter.name}", []):
            yield f"{chapter.name}: solutions/{chapter.name} does not solve its exercises, in their order"
    for name in solved:
        yield f"{name} belongs to no chapter"
