# Every target sets up what it needs in .venv and says so.
# Another Python: make test PYTHON=python3.12
PYTHON ?= python3
# Where the benchmarks look for data.
DATA ?= data

BIN := .venv/bin
HINT := squaresvm needs Python 3.11 or later; name another as in: make test PYTHON=python3.12
# The tests run side by side, at most four at a time for the sake of memory; so one thread each.
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 \
	$(BIN)/python -m pytest -n auto --maxprocesses=4 -m "not slow"

.DEFAULT_GOAL := help
.PHONY: help test test-everywhere coverage demo docs lint format bench compare dist clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1	\2/p' Makefile

test: .venv/stamp-test lint  ## check style, types and layers, then run all tests
	@echo "== Running the tests"
	@$(PYTEST)

test-everywhere: .venv/stamp-everywhere  ## numerical tests over BLAS kernels, threads, Pythons, dependencies (CELLS=kernel)
	@$(BIN)/python tools/everywhere.py $(CELLS)

coverage: .venv/stamp-test  ## run all tests and list the lines that none of them reaches; takes twice as long
	@$(PYTEST) --cov

demo: .venv/stamp-demo  ## train, check, forget, and write one HTML page
	@echo "== Running the demonstration"
	@$(BIN)/python -m squaresvm demo

docs: .venv/stamp-docs  ## run the gallery and write the pages to docs/_build/html; warnings are errors
	@echo "== Building the documentation"
	@$(BIN)/python -m sphinx -q -W --keep-going --jobs auto docs docs/_build/html
	@echo "== Open docs/_build/html/index.html"

lint: .venv/stamp-test  ## check style, types and the direction of imports
	@echo "== Checking style"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@echo "== Checking types"
	@$(BIN)/mypy
	@echo "== Checking that imports point downwards"
	@$(BIN)/lint-imports --no-logo

format: .venv/stamp-test  ## rewrite the code in the project's style
	@echo "== Formatting"
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: .venv/stamp-demo  ## measure against scikit-learn, one ratio a line (DATA=folder with the papers' data)
	@echo "== Running the benchmarks"
	@for script in benchmarks/bench_*.py; do \
		echo "-- $$script"; SQUARESVM_DATA="$(DATA)" $(BIN)/python "$$script" || exit 1; done

compare: .venv/stamp-demo  ## time short cases in another source tree and in this one, in turn (BASE=other/src)
	@test -n "$(BASE)" || { echo "name the other tree, as in: make compare BASE=../old/src" >&2; exit 1; }
	@$(BIN)/python benchmarks/compare_trees.py "$(BASE)" src

dist: .venv/stamp-release  ## build wheel and source distribution, check both, and test the latter from itself
	@echo "== Building and checking dist/"
	@$(BIN)/python tools/distributions.py

clean:  ## remove caches, reports and builds, but not .venv
	@echo "== Removing caches, reports and builds"
	@rm -rf build dist docs/_build docs/auto_examples docs/generated .coverage .coverage.* coverage.xml .everywhere
	@rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp for each set of extras, renewed when pyproject.toml changes.
.venv/stamp-test: EXTRAS := dask,plot,serve,test
.venv/stamp-everywhere: EXTRAS := dask,plot,serve,test,everywhere
.venv/stamp-release: EXTRAS := dask,plot,serve,test,release
.venv/stamp-demo: EXTRAS := plot,cli
.venv/stamp-docs: EXTRAS := plot,docs
.venv/stamp-%: pyproject.toml | $(BIN)/python
	@echo "== Installing squaresvm[$(EXTRAS)] into .venv (a minute or two the first time)"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable ".[$(EXTRAS)]"
	@touch $@

$(BIN)/python:
	@command -v "$(PYTHON)" >/dev/null || { echo "$(PYTHON) was not found. $(HINT)" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "$(PYTHON) is $$("$(PYTHON)" -V 2>&1). $(HINT)" >&2; exit 1; }
	@echo "== Making a virtual environment in .venv"
	@"$(PYTHON)" -m venv .venv || { rm -rf .venv; exit 1; }
