"""The book's conventions hold on every page, and each rule sees what it looks for."""

import nbformat
import pytest
import yaml
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from notebooks.rules import ALL, BOOK, CHAPTER, OTHER, RULES, SOLUTIONS, Page, book_faults, stated_numbers
from twins import pages

ROOT = BOOK.parent
PAGES = [Page.read(BOOK / name) for name in pages() if name.endswith(".ipynb")]  # the Chinese ones: test_twins.py


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
@pytest.mark.parametrize("name", RULES)
def test_page(name, page):
    rule, kinds = RULES[name]
    if page.kind in kinds and (faults := list(rule(page))):
        pytest.fail("\n".join(faults), pytrace=False)


def test_book():
    """Contents and files agree, labels are unique, every exercise is solved on the page made for it."""
    present = [name.rpartition(".")[0] for name in pages()]
    if faults := list(book_faults(PAGES, listed_in_toc(), present)):
        pytest.fail("\n".join(faults), pytrace=False)


def listed_in_toc() -> list[str]:
    """The pages that _toc.yml names, below book/."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
    files = [toc["root"]] + [chapter["file"] for part in toc["parts"] for chapter in part["chapters"]]
    return [file.removeprefix("book/") for file in files]


# ---------------------------------------------------------------------------------------------------------------------
# Each rule on a page that breaks it
# ---------------------------------------------------------------------------------------------------------------------

ALT = "The line rises by one with each token"
FIGURE = {"image": {"alt": ALT}, "figure": {"caption": "It rises."}}


def figure_cell(source="ax.plot([1, 2])\nplt.show()", **mystnb):
    output = new_output("display_data", data={"image/png": "iVBORw0KGgo=", "text/plain": "<Figure size 640x480>"})
    return new_code_cell(source, outputs=[output], metadata={"mystnb": FIGURE | mystnb})


def printing_cell(source, text, name="stdout"):
    return new_code_cell(source, outputs=[new_output("stream", text=text, name=name)])


def exercise(label="ex-inputs-lookup"):
    return f":::{{exercise}} Lookup\n:label: {label}\nEasy, 5 minutes. Write it.\n:::"


STUB = "def my_lookup(T, E):\n    ...\n\n\ncheck_lookup(my_lookup)"


def page(*cells, kind=CHAPTER, **metadata):
    """A chapter without faults, with these cells among its sections; or, of another kind, a page of only these."""
    cells = [new_markdown_cell(cell) if isinstance(cell, str) else cell for cell in cells]
    if kind == CHAPTER:
        strip = figure_cell('pipeline_strip("X")\nplt.show()', image={"alt": "The pipeline, with X lit: you are here"})
        first = [
            new_markdown_cell("# Inputs"),
            strip,
            new_markdown_cell("## What you will see\n\n**Predict.** How many?"),
        ]
        last = [new_markdown_cell("## What breaks\n\n## Summary\n\n## Exercises"), new_markdown_cell(exercise())]
        last += [new_code_cell(STUB), new_markdown_cell("## Further reading\n\nTwelve pages, 15 figures.")]
        cells = first + cells + last
    elif kind == SOLUTIONS and not cells:
        cells = [new_markdown_cell("# Solutions"), new_markdown_cell(":::{solution} ex-inputs-lookup\nSo.\n:::")]
    for count, cell in enumerate((cell for cell in cells if cell.cell_type == "code"), 1):
        cell.execution_count = count
    notebook = new_notebook(
        cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}} | metadata
    )
    return Page("01_inputs.ipynb" if kind == CHAPTER else "solutions/01_inputs.ipynb", kind, notebook)


def without_count(page):
    page.code[0].execution_count = None
    return page


def same_ids(page):
    page.cells[1].id = page.cells[0].id
    return page


def reordered(page):
    page.cells[-1], page.cells[-4] = page.cells[-4], page.cells[-1]
    return page


def retitled(page, old, new):
    for cell in page.cells:
        cell.source = cell.source.replace(old, new)
    return page


LONG = "\n".join(f"x_{i} = {i}" for i in range(20))
BAD = {
    "is_valid": [same_ids(page())],
    "kernel_is_python3": [page(kernelspec={"name": "conda-env-x-py", "display_name": "x"}), page(vscode={"hash": "1"})],
    "ran_in_order": [without_count(page())],
    "has_one_title": [page("# Another"), retitled(page(), "# Inputs", "Inputs")],
    "outputs_are_clean": [page(printing_cell("x", "careful", name="stderr"))],
    "outputs_are_stable": [
        page(printing_cell("x", text))
        for text in (
            "<Axes at 0x7f12ab34cd>", "/home/ann/book", "C:\\Users\\ann", "made 2024-05-01", "12:30:59",
            "took 3.2 ms", "1.5 ms ± 2 µs per loop", "np.float64(0.5)", "RuntimeWarning: overflow",
        )
    ],
    "figures_speak": [
        page(figure_cell(image={"alt": "plot.png"})),
        page(figure_cell(image={})),
        page(figure_cell(figure={})),
        page(figure_cell(), figure_cell()),
        page("![](assets/pipeline.svg)"),
    ],
    "figures_end_with_show": [page(figure_cell("ax.plot([1, 2])"))],
    "is_plain_python": [page(new_code_cell("%matplotlib inline")), page(new_code_cell("!ls"))],
    "code_is_portable": [
        page(new_code_cell(source))
        for source in (
            "import sys\nsys.path.append('..')", "input('?')", "np.random.seed(0)", "np.random.randn(3)",
            "os.chdir('..')", "from myst_nb import glue", "open('x.txt')",
        )
    ],
    "cells_are_short": [page(new_code_cell(LONG)), page(new_code_cell("x = " + "1 + " * 40 + "1"))],
    "helpers_live_in_attnlib": [page(new_code_cell("def helper(x):\n    return x"))],
    "directives_stay_readable": [
        page("```{note}\nProse.\n```"),
        page(":::{solution-start} ex-inputs-lookup\n:::"),
        page(":::{note}\nnever closed"),
        page(":::\n"),
    ],
    "tables_keep_their_columns": [page("| a |\n|---|\n| $|q|$ |"), page("| a | b |\n|---|---|\n| one |")],
    "follows_the_frame": [
        retitled(page(), "What breaks", "Mistakes"),
        retitled(page(), "Predict", "Guess"),
        retitled(page(), "pipeline_strip", "other_figure"),
        reordered(page()),
    ],
    "main_path_is_short": [
        page("word " * 1900),
        page(*[figure_cell(image={"alt": f"{ALT}, number {i}"}) for i in range(5)]),
    ],
    "numbers_are_computed": [
        page("It is 0.94."), page("It is 512."), page("It is 94 %."), page("It is $0.94$."), page("It is −3.5."),
        page("It is 0.94.", *[new_code_cell(f"y = {i}") for i in range(2)], new_code_cell("x = 0.94")),
        page("It is 0.94.", new_code_cell("x = 0.9")),
    ],
    "exercises_are_complete": [
        page(exercise("ex-masks-row"), new_code_cell(STUB)),
        page(exercise("lookup-2"), new_code_cell(STUB)),
        page(exercise(), new_code_cell(STUB)),
        page(exercise("ex-inputs-two"), "No stub."),
        page(exercise("ex-inputs-two"), new_code_cell(STUB.replace("...", "return E[T]"))),
        page(exercise("ex-inputs-two"), new_code_cell(STUB.replace("check_", "print"))),
        page(exercise("ex-inputs-two").replace("5 minutes", "soon"), new_code_cell(STUB)),
    ],
    "gives_no_solution_away": [page(":::{solution} ex-inputs-lookup\nSo.\n:::")],
    "solutions_come_labelled": [page("# S", ":::{solution}\nSo.\n:::", kind=SOLUTIONS)],
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_rule_sees_its_fault(name):
    rule, kinds = RULES[name]
    assert set(kinds) <= set(ALL)
    for bad in BAD[name]:
        assert list(rule(bad)) != [], bad.notebook


@pytest.mark.parametrize("name", RULES)
def test_rule_passes_what_is_right(name):
    good = [
        page(),
        page(kind=SOLUTIONS),
        page("# Notation", "| $a$ | `b` |\n|---|---|\n| one | two |", kind=OTHER),
        page("Deeper:\n\n:::{dropdown} Deeper\n" + "word " * 1900 + "\n:::"),
        page("## Deeper: a section", "word " * 1900, figure_cell()),
        page(":::{note}\n:class: dropdown\n" + "word " * 1900 + "\n:::"),
        page("In 2017, see chapter 12 and Figure 3.14, at 1.5 of `x[64]`.", new_code_cell("assert x == 1.5")),
        page("It is 0.94, or 94 %, of 4,000.", printing_cell("x", "0.9412 of 4000")),
        page(new_code_cell("rng = np.random.default_rng(64)"), "The seed is 64, not $\\sqrt{81}$."),
        page("## Predict\n\nIs it 12 or 64?"),
        page(printing_cell("x", "0.94"), *[new_code_cell("y = 0") for _ in range(3)], "## Summary\n\nIt was 0.94."),
        page("```python\n# no title\nx = 0.94\n```", "$$\nx = 0.94\n$$"),
        page(exercise("ex-inputs-two"), new_code_cell(STUB)),
    ]
    rule, kinds = RULES[name]
    for one in good:
        assert one.kind not in kinds or list(rule(one)) == []


def test_a_notebook_that_does_not_validate_is_seen():
    broken = nbformat.from_dict(page().notebook | {"cells": [{"cell_type": "code", "source": "x"}]})
    assert list(RULES["is_valid"][0](Page("x.ipynb", OTHER, broken))) != []


def test_book_rules_see_their_faults():
    chapter, solution = page(), page(kind=SOLUTIONS)
    names = ["01_inputs", "solutions/01_inputs"]
    assert list(book_faults([chapter, solution], names, names)) == []
    assert list(book_faults([chapter, solution], names, [*names, "draft"])) != []
    assert list(book_faults([chapter, solution], [*names, "gone"], names)) != []
    assert list(book_faults([chapter, solution], [*names, names[0]], names)) != []
    assert list(book_faults([chapter], names, names)) != []
    assert list(book_faults([solution], names, names)) != []
    assert list(book_faults([chapter, chapter, solution], names, names)) != []


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("one of 8 heads in 2017", []),
        ("**Predict.** Is it 12 or\n64?\n\nIt is 64.", ["64"]),
        (":::{admonition} Predict\n12 or 64?\n:::\nIt is 64.", ["64"]),
        ("about 0.17–0.18", ["0.17", "0.18"]),
        ("a drop of −0.5 to 1e-3", ["−0.5", "1e-3"]),
        ("12 heads, 64 wide", ["12", "64"]),
        ("4,000 pairs of d_64", ["4,000"]),
        ("$64$ and $\\sqrt{64}$ and $94\\,\\%$", ["64", "94"]),
        ("version 2.13.0 (chapters 11 and 12) of [64](64.ipynb)", []),
    ],
)
def test_numbers_of_a_sentence(text, numbers):
    assert [number for number, _, _ in stated_numbers(text)] == numbers
