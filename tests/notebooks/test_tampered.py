"""The nets hold: a changed output, a cell that raises, a kernel of another environment are all caught."""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "run_notebooks.py"
KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)"}}


def write(path, *sources_and_texts):
    """A notebook of cells, each with the text that it is said to print."""
    cells = [
        new_code_cell(source, execution_count=count, outputs=[new_output("stream", text=text)] if text else [])
        for count, (source, text) in enumerate(sources_and_texts, 1)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(new_notebook(cells=[new_markdown_cell("# A page"), *cells], metadata=KERNEL), path)


def run(command, *arguments, cwd):
    """Run a command of this environment."""
    program = shutil.which(command, path=sysconfig.get_path("scripts"))
    return subprocess.run([program, *arguments], cwd=cwd, capture_output=True, text=True, encoding="utf-8")


def test_nbval_sees_a_tampered_output(tmp_path):
    """As `make test` runs it, from another working directory; the first page shows that it would have passed."""
    here = f"import os, sys\nassert os.path.samefile(sys.prefix, {sys.prefix!r})\nimport attnlib\nprint(1 + 1)"
    write(tmp_path / "right.ipynb", (here, "2\n"))
    write(tmp_path / "tampered.ipynb", ("print(1 + 1)", "3\n"))
    ran = run("pytest", "--nbval", "--nbval-current-env", "-p", "no:cacheprovider", ".", cwd=tmp_path)
    assert ran.returncode == 1
    assert "1 failed, 1 passed" in ran.stdout, ran.stdout + ran.stderr


def test_build_fails_where_a_cell_raises(tmp_path):
    """Even without `-W`: by default Jupyter Book publishes the traceback and reports success."""
    for part in ("tools", "book/assets"):
        shutil.copytree(ROOT / part, tmp_path / part)
    for name in ("_config.yml", "book/descriptions.yml"):
        shutil.copy(ROOT / name, tmp_path / name)
    write(tmp_path / "book" / "index.ipynb", ("1 / 0", ""))
    (tmp_path / "_toc.yml").write_text("format: jb-book\nroot: book/index\n", encoding="utf-8")
    ran = run("jupyter-book", "build", ".", cwd=tmp_path)
    assert ran.returncode != 0
    assert "ZeroDivisionError" in ran.stdout + ran.stderr


def test_notebooks_run_again_are_the_same(tmp_path):
    """`make notebooks` leaves no difference, whatever an editor left in the file, and does not store a failure."""
    page, raising = tmp_path / "page.ipynb", tmp_path / "raising.ipynb"
    write(page, ("print(1 + 1)", ""))
    write(raising, ("print(1 / 0)", "7\n"))
    notebook, before = nbformat.read(page, as_version=4), raising.read_bytes()
    notebook.metadata["vscode"] = {"interpreter": {"hash": "1"}}
    notebook.cells[1].metadata["execution"] = {"iopub.status.busy": "2024-05-01T12:00:00Z"}
    nbformat.write(notebook, page)

    assert run("python", TOOL, page, raising, cwd=tmp_path).returncode == 1
    first, again = page.read_bytes(), nbformat.read(page, as_version=4)
    assert raising.read_bytes() == before
    assert [cell.id for cell in again.cells] == [cell.id for cell in notebook.cells]
    assert again.cells[1].outputs[0].text == "2\n"
    assert "vscode" not in again.metadata and "execution" not in again.cells[1].metadata

    assert run("python", TOOL, page, cwd=tmp_path).returncode == 0
    assert page.read_bytes() == first
