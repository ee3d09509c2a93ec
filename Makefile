# Needs only make and Python 3.11 or later. `make demo` and `make test` set up .venv by themselves.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.febm-installed
WORKERS ?= 2

# The first Python on the path that is new enough and can make a virtual environment.
PYTHON ?= $(shell for candidate in python3 python3.13 python3.12 python3.11 python3.14 python; do \
	$$candidate -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 \
	&& { echo $$candidate; break; }; done)

# One thread for each of the workers: NPROC is what JAX sizes its pool by, the others are NumPy's and SciPy's. A file of
# tests goes to one worker, which then fits what they share only once; what is compiled is compiled once for all, and
# quickly: programs of this size take longer to optimise than to run.
SINGLE_THREAD := NPROC=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
COMPILED := JAX_COMPILATION_CACHE_DIR=$(CURDIR)/.cache/jax JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0.2 JAX_DISABLE_MOST_OPTIMIZATIONS=1
PYTEST := JAX_PLATFORMS=$${JAX_PLATFORMS-cpu} MPLBACKEND=Agg $(SINGLE_THREAD) $(COMPILED) $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --max-worker-restart 0

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all lint types docs format bench clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## ?/\1\t/' | expand -t 12

setup: $(STAMP)  ## make .venv with febm and the developers' tools in it

# Made anew when the requirements change, and only then: the package itself is installed in place.
$(STAMP): pyproject.toml
	@test -x $(BIN)/python || test -n "$(strip $(PYTHON))" || { \
		echo "make: no Python 3.11 or later with venv on the path; install one, or say make PYTHON=/path/to/python" >&2; exit 1; }
	@test -x $(BIN)/python || { echo "Making $(VENV) with $(PYTHON)"; $(PYTHON) -m venv $(VENV); }
	@echo "Installing febm and what it needs into $(VENV) (some minutes the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(STAMP)  ## fit a model, draw, condition; a picture and a table in febm-demo/
	$(BIN)/febm demo

test: $(STAMP)  ## all the fast tests
	$(PYTEST)

test-all: $(STAMP)  ## the slow tests too
	$(PYTEST) -m "slow or not slow"

lint: $(STAMP)  ## style and common mistakes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)  ## static types
	$(BIN)/mypy

docs: $(STAMP)  ## the documentation, in docs/_build/html; warnings are errors
	JAX_PLATFORMS=$${JAX_PLATFORMS-cpu} $(BIN)/python -m sphinx -b html -n -W --keep-going -q docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

format: $(STAMP)  ## put the code in order
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)  ## run every script in benchmarks/
	@ls benchmarks/*.py >/dev/null 2>&1 || { echo "make: there is no script in benchmarks/" >&2; exit 1; }
	@set -e; for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script; done

clean:  ## remove everything that can be made again, .venv too
	rm -rf $(VENV) build dist docs/_build febm-demo febm-benchmark febm-examples .cache .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find src tests docs examples -name __pycache__ -type d -prune -exec rm -rf {} +
