# make demo: installs core and plots, lets the recommended learner work, writes a page.   make test: installs all, runs the tests.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
DEMO := .venv-demo
INSTALL := -m pip install --quiet --disable-pip-version-check

.PHONY: demo test check lint bench bench-service hunt audit mutants docs dist figures paper verdicts api clean

IS_NEW := import sys; sys.exit("cede needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)

$(READY): pyproject.toml
	@$(PYTHON) -c '$(IS_NEW)'
	@echo "installing cede with all that its tests need into .venv: 1.3 GB, some minutes"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python $(INSTALL) --editable '.[dev]'
	@touch $@

# The demo has an environment of its own, with core and plots only.
$(DEMO)/.ready: pyproject.toml
	@$(PYTHON) -c '$(IS_NEW)'
	@echo "1/2 installing NumPy, SciPy, Numba, Matplotlib and cede into $(DEMO): 600 MB, about half a minute"
	@$(PYTHON) -m venv $(DEMO)
	@$(DEMO)/bin/python $(INSTALL) --editable '.[plots]'
	@touch $@

demo: $(DEMO)/.ready
	@echo "2/2 running the demo: about half a minute"
	@$(DEMO)/bin/cede demo --out out/demo

test: $(READY)
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

# While you work: lint, types and a core of tests, about a minute once kernels are compiled.
CORE := tests/_base tests/_kernels tests/problem tests/beliefs tests/planning tests/learners/test_settings.py tests/learners/test_state.py \
	tests/rows tests/steps/test_steps.py tests/learners/test_algorithms.py tests/fleet/test_shard.py tests/test_golden.py
check: lint
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder -m 'not slow' $(CORE)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# All figures at full size, some hours on two cores; goes on where it was stopped.
figures: $(READY)
	$(BIN)/python -m studies figure all --out studies/results

# The paper, run again from nothing: its figures in its order, verdicts, errata and digests on one page, out/paper/paper.html, and which
# tables came out as those in studies/results/. Nearly three hours on two cores; goes on where it was stopped.
paper: $(READY)
	$(BIN)/python -m studies paper --out out/paper --errata docs/paper-map.md --against studies/results

# The table of verdicts and the page of figures in docs/, from studies/results/.
verdicts: $(READY)
	$(BIN)/python -m studies claims --out studies/results --page docs/verdicts.md --gallery docs/figures.md

# The reference of the service's HTTP interface, from its OpenAPI document.
api: $(READY)
	$(BIN)/python tests/api_page.py docs/service-api.md

# Ratios to what users would pick instead, measured in one run: a dated table and a plot in benchmarks/results/. Some minutes.
bench: $(READY)
	$(BIN)/python $(INSTALL) --editable '.[bench]'
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
	-$(BIN)/python $(INSTALL) atheris
	cd tests && PYTHONPATH=.. ../$(BIN)/python -m hunt --minutes $(MINUTES) --seed $(SEED) $(if $(KEEP),--out hunt/result.json)
	$(if $(KEEP),cd tests && ../$(BIN)/python -m hunt --page)

# A second opinion on every answer: random problems with every feature against a slow reference, and all golden runs with kernels that
# are compiled without Numba's private names; 0 if nothing differs.
audit: $(READY)
	CEDE_PLAIN_NUMBA=1 $(BIN)/python -m pytest -n0 -m 'not slow' tests/test_golden.py
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
	$(BIN)/python $(INSTALL) --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# sdist and wheel, and the wheel tried in an environment of its own, away from the repository.
dist: $(READY)
	rm -rf dist
	$(BIN)/python -m build --quiet
	$(PYTHON) -m venv out/smoke --clear
	out/smoke/bin/python $(INSTALL) dist/*.whl
	cd out && smoke/bin/python ../tests/smoke.py

clean:
	rm -rf .venv $(DEMO) out dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
