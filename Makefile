# make demo: sets up, lets the recommended learner work, and writes a page.   make test: sets up and passes the tests.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test check lint bench bench-service hunt audit mutants docs dist figures paper verdicts api clean

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("cede needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: $(READY)
	$(BIN)/cede demo --out out/demo

test: $(READY)
	$(BIN)/python -m pytest -n auto --dist loadfile

# While you work: lint, types and a core of tests, about a minute once kernels are compiled.
CORE := tests/_base tests/_kernels tests/problem tests/planning tests/learning/test_settings.py tests/learning/test_state.py \
	tests/learning/test_counts.py tests/learning/test_algorithms.py tests/fleet/test_shard.py tests/test_golden.py
check: lint
	$(BIN)/python -m pytest -n auto --dist loadfile -m 'not slow' $(CORE)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# All figures at full size, some hours on two cores; goes on where it was stopped.
figures: $(READY)
	$(BIN)/cede figure all --out results

# The paper, run again from nothing: its figures in its order, verdicts, errata and digests on one page, out/paper/paper.html, and which
# tables came out as those in results/. Nearly three hours on two cores; goes on where it was stopped.
paper: $(READY)
	$(BIN)/cede paper --out out/paper --errata docs/paper-map.md --against results

# The table of verdicts and the page of figures in docs/, from results/.
verdicts: $(READY)
	$(BIN)/cede claims --out results --page docs/verdicts.md --gallery docs/figures.md

# The reference of the service's HTTP interface, from its OpenAPI document.
api: $(READY)
	$(BIN)/python -m cede.serve.api_page docs/service-api.md

# Ratios to what users would pick instead, measured in one run: a dated table and a plot in benchmarks/results/. Some minutes.
bench: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/fleets.py
	$(BIN)/python benchmarks/cold_start.py

# The service under load, killed and asked nonsense, over SQLite and PostgreSQL: a dated table in benchmarks/results/. The sizes that
# were asked for take hours; SIZE=--middle about half an hour, SIZE=--quick minutes (into out/bench).
SIZE ?=
bench-service: $(READY)
	$(BIN)/python benchmarks/service.py $(SIZE)

# What comes from outside is made wrong in every way; 0 if nothing breaks. With KEEP=1 the result goes into docs/reliability.md.
MINUTES ?= 10
SEED ?= 1
hunt: $(READY)
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check atheris
	cd tests && ../$(BIN)/python -m hunt --minutes $(MINUTES) --seed $(SEED) $(if $(KEEP),--out hunt/result.json)
	$(if $(KEEP),cd tests && ../$(BIN)/python -m hunt --page)

# A second opinion on every answer: random problems with every feature against a slow reference; 0 if nothing differs.
audit: $(READY)
	cd tests && ../$(BIN)/python -m audit --minutes $(MINUTES) --seed $(SEED)

# The source is changed in one place at a time, and a test must fail; 0 if at least 95% do. 60 to 90 minutes on two quiet cores for 300;
# goes on where it was stopped. With KEEP=1 the result goes into docs/reliability.md.
COUNT ?= 300
WORKERS ?= 2
mutants: $(READY)
	cd tests && ../$(BIN)/python -m mutants --count $(COUNT) --seed $(SEED) --workers $(WORKERS) $(if $(KEEP),--out mutants/result.json)
	$(if $(KEEP),cd tests && ../$(BIN)/python -m mutants --page)

# The site, strictly: a broken link or name fails. The documents' code is executed by the tests. Open out/site/index.html.
docs: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# sdist and wheel, and the wheel tried in an environment of its own, away from the repository.
dist: $(READY)
	rm -rf dist
	$(BIN)/python -m build --quiet
	$(PYTHON) -m venv out/smoke --clear
	out/smoke/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	cd out && smoke/bin/python ../tests/smoke.py

clean:
	rm -rf .venv out dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
