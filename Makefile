# make demo: sets up, runs the main experiments in a quick version and writes a report.   make test: sets up and passes the tests.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test lint bench docs figures verdicts clean

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("cede needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: $(READY)
	$(BIN)/cede demo --out out/demo

test: $(READY)
	$(BIN)/python -m pytest -n auto --dist loadfile

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# All figures at full size, about an hour on two cores; goes on where it was stopped.
figures: $(READY)
	$(BIN)/cede figure all --out results

# The README's table of verdicts, from the tables in results/.
verdicts: $(READY)
	$(BIN)/cede claims --out results --readme README.md

# Ratios to what users would pick instead, measured in one run: a dated table and a plot in benchmarks/results/. Some minutes.
bench: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/fleets.py

# The documents' examples are executed by the tests; there is nothing to build yet.
docs: $(READY)
	$(BIN)/python -m pytest tests/test_house.py

clean:
	rm -rf .venv out .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
