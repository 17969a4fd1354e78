"""Run notebooks in place and store them so that a second run leaves no difference.

    python tools/run_notebooks.py             every notebook of the book, in both languages
    python tools/run_notebooks.py FILE ...    only these

Each English notebook runs from top to bottom in a fresh kernel of this Python, in its own folder. Then its exercise
checks run once more in Chinese, and its Chinese twin is written with the same code and outputs (see twins.py). What
differs from one run or machine to the next (times, the Python version, an editor's metadata) is not stored. A notebook
that raises is left as it was.
"""

import copy
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError
from twins import BOOK, carry_page, pages, speaks
from weights import NEED_WEIGHTS, missing

ROOT = Path(__file__).resolve().parents[1]
BUDGET = 20  # seconds a chapter may take on two cores
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
LANGUAGE = {"file_extension": ".py", "mimetype": "text/x-python", "name": "python"}
KEPT_CELL_METADATA = ("editable", "mystnb", "slideshow", "tags", "nbgrader")
IN_CHINESE = "import os\nos.environ['ATTNLIB_LANGUAGE'] = 'zh'"


def normalise(notebook):
    """Leave in a notebook only what its author wrote and what its cells say."""
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNEL, "language_info": LANGUAGE})
    notebook.nbformat_minor = 5  # the first version with cell ids
    for cell in notebook.cells:
        cell.metadata = {key: value for key, value in cell.metadata.items() if key in KEPT_CELL_METADATA}
        cell.source = "\n".join(line.rstrip() for line in cell.source.splitlines())
        cell.setdefault("id", nbformat.v4.new_markdown_cell().id)
    notebook.cells = [cell for cell in notebook.cells if cell.source]


def run(path):
    """Execute one notebook and store it, and its Chinese twin; return the seconds that it took."""
    notebook = nbformat.read(path, as_version=4)
    normalise(notebook)
    whole = len(notebook.cells)
    spoken = copy.deepcopy([cell for cell in notebook.cells if speaks(cell)])
    notebook.cells += [nbformat.v4.new_code_cell(IN_CHINESE), *spoken]
    start = time.perf_counter()
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=120,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.execute()
    seconds = time.perf_counter() - start
    spoken = {cell.id: cell.outputs for cell in notebook.cells[whole + 1 :]}
    notebook.cells = notebook.cells[:whole]
    normalise(notebook)  # the kernel wrote its version into the metadata
    nbformat.validate(notebook)
    path.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8", newline="\n")
    if path.resolve().is_relative_to(BOOK):
        carry_page(path.resolve().relative_to(BOOK).as_posix(), spoken)
    return seconds


def show(path):
    path = path.resolve()
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def every_notebook():
    paths = {BOOK / name for name in pages() if name.endswith(".ipynb")}
    if missing():
        print(f"Left as they are, without the weights of chapter 11: {', '.join(NEED_WEIGHTS)}")
        paths -= {ROOT / name for name in NEED_WEIGHTS}
    return sorted(paths)


def main(names):
    paths = [Path(name) for name in names] or every_notebook()
    failed = []
    for number, path in enumerate(paths, 1):
        print(f"[{number}/{len(paths)}] {show(path)} ", end="", flush=True)
        try:
            seconds = run(path)
        except (CellExecutionError, CellTimeoutError) as error:
            failed.append(path)
            print(f"FAILED\n{error}")
        else:
            print(f"{seconds:.1f} s" + (f"  (over the budget of {BUDGET} s)" if seconds > BUDGET else ""))
    print(f"{len(paths) - len(failed)} of {len(paths)} notebooks ran; outputs are stored in the files themselves.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
