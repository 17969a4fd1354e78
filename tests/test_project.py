"""What holds the project together: exact pins, a light import, portable code, one address."""

import importlib
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from sphinx_glossary import address

ROOT = Path(__file__).resolve().parents[1]
REQUIREMENTS = sorted(path.name for path in ROOT.glob("requirements*.txt"))
CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))
TEXT = (".py", ".md", ".yml", ".yaml", ".toml", ".txt", ".cff", ".ipynb", ".css", ".html", ".svg", "")


def needs(name):
    lines = (line.split("#")[0].strip() for line in (ROOT / name).read_text("utf-8").splitlines())
    return [line for line in lines if line]


def tracked_texts():
    """Name and text of each file that is, or would be, in the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, encoding="utf-8", check=True,
    ).stdout.splitlines()  # fmt: skip
    paths = [ROOT / name for name in listed if Path(name).suffix in TEXT]
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in paths if path.is_file()}


@pytest.fixture(scope="module")
def texts():
    if not (ROOT / ".git").exists():
        pytest.skip("not a git repository")
    return tracked_texts()


@pytest.mark.parametrize("name", [*REQUIREMENTS, "constraints.txt"])
def test_pins_are_exact(name):
    for line in needs(name):
        assert line.startswith(("-c ", "-r ", "-e ")) or re.match(r"[\w.-]+==[\w.]+( ; .+)?$", line), line


def test_requirements_of_the_book():
    lines = needs("requirements.txt")
    assert {"jupyter-book==1.0.4.post1", "torch==2.13.0"} <= set(lines)
    assert lines[-1] == "-e ."
    constrained = [name for name in REQUIREMENTS if name != "requirements-real.txt"]  # installed with --no-deps
    assert all("-c constraints.txt" in needs(name) for name in constrained)


def test_a_version_is_written_once():
    """A direct need stands in one requirements file and not among the constraints."""
    names = [re.split("[=;]", line)[0].lower() for name in [*REQUIREMENTS, "constraints.txt"] for line in needs(name)]
    names = [name for name in names if not name.startswith("-")]
    twice = {name for name in names if names.count(name) > 1}
    assert twice <= {"soupsieve"}  # one version for Python 3.11.0 to 3.11.4, one for later ones


def test_import_is_light():
    """`import attnlib` loads neither torch nor pyplot, which would cost each notebook seconds."""
    code = "import sys, attnlib; print([m for m in ('torch', 'matplotlib.pyplot', 'matplotlib') if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_ci_can_be_run():
    assert os.name == "nt" or os.access(ROOT / ".ci" / "run", os.X_OK)


def test_actions_are_pinned(texts):
    """By commit: a tag can be moved."""
    for name, text in texts.items():
        if name.startswith(".github/workflows/"):
            assert re.findall(r"uses: (?!\S+@[0-9a-f]{40} # v)", text) == [], name
            assert re.search(r"^permissions:\n  contents: read$", text, re.M), name


def test_the_repository_has_one_address(texts):
    """_config.yml names it; the citation, whose format wants it too, and nothing else, repeats it."""
    address, site = CONFIG["repository"]["url"], CONFIG["html"]["baseurl"]
    citation = yaml.safe_load(texts["CITATION.cff"])
    assert (citation["repository-code"], citation["url"]) == (address, site)
    owner = address.removeprefix("https://github.com/")
    for name, text in texts.items():
        if name not in ("_config.yml", "_config_zh.yml", "CITATION.cff", "README.md"):
            assert owner not in text, f"{name} names the repository: read it from _config.yml"


def test_versions_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))["version"] == project["version"]


def test_no_path_of_a_machine(texts):
    pattern = r"(?<![\w./~<>-])/(?:home|root|work|Users)/\w+|[A-Z]:\\Users"
    for name, text in texts.items():
        if name not in ("tests/test_project.py", "tests/notebooks/rules.py", "tests/notebooks/test_lint.py"):
            assert re.findall(pattern, text) == [], name


def test_every_page_is_described():
    """In book/descriptions.yml, by hand: 50 to 160 characters, no two alike."""
    described = yaml.safe_load((ROOT / "book/descriptions.yml").read_text("utf-8"))
    assert yaml.safe_load((ROOT / "book/zh/descriptions.yml").read_text("utf-8")).keys() == described.keys()
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
    listed = [toc["root"], *(chapter["file"] for part in toc["parts"] for chapter in part["chapters"])]
    assert {page.removeprefix("book/") for page in listed} <= set(described)
    assert all(50 <= len(words) <= 160 for words in described.values())
    assert len(set(described.values())) == len(described)


def test_the_reference_is_whole():
    """Each module with something to import stands on a page of the reference."""
    pages = "".join(path.read_text("utf-8") for path in (ROOT / "book/reference").glob("*.md"))
    named = set(re.findall(r"automodule:: (\S+)", pages))
    for package in ("attnlib", "attnlib.plots", "attnlib.exercises"):
        module = importlib.import_module(package)
        members = {getattr(module, name) for name in module.__all__ if callable(getattr(module, name))}
        assert {member.__module__ for member in members} <= named, package


def test_links_to_the_glossary_lead_there():
    """Also in JupyterLab, where nothing checks them; and each chapter has some."""
    names = re.findall(r"^\*\*(.+?)\*\*", (ROOT / "book/glossary.md").read_text("utf-8"), re.M)
    anchors = {address(name) for entry in names for name in re.sub(r"\(.*?\)", "", entry).split(",")}
    for path in sorted((ROOT / "book").glob("0*.ipynb")):
        links = re.findall(r"\(glossary\.md#([^)]+)\)", path.read_text("utf-8"))
        assert len(links) >= 5 and set(links) <= anchors, path.name


def test_binder_installs_the_book(texts):
    """The book itself, with the small build of torch, and nothing that only its authors need."""
    lines = needs("binder/requirements.txt")
    assert lines == ["--extra-index-url https://download.pytorch.org/whl/cpu", "-r ../requirements.txt"]
    assert os.name == "nt" or os.access(ROOT / "binder/postBuild", os.X_OK)


def test_no_static_folder_at_the_top():
    """Jupyter Book would add every script and style in it to every page."""
    assert not (ROOT / "_static").exists()
