# Everything runs in the project's own .venv, made at the first call and brought up to date when pyproject.toml changes.
#
#   make lens    a logit lens of a real model (fetches SmolLM2 once, 93 MB)
#   make test    the whole suite, on two processes          make lint    ruff: rules and format
#   make bench   the budgets, each beside bare PyTorch       make types   mypy
#   make docs    the generated pages of docs/               make matrix  run every model type and keep what it serves
#   make check   lint, types and test                        make clean   remove .venv and caches
#   make versions   the suite on every Python and on the oldest transformers, each in an environment of its own
#
# Another interpreter, torch or transformers goes into an environment of its own, since one that is there stays as it is:
#   make test VENV=.venv-3.12 PYTHON=python3.12 TORCH='torch==2.12.*' TRANSFORMERS='transformers==5.20.*'

PYTHON ?= python3
TORCH ?= torch==2.13.0
TRANSFORMERS ?= transformers
WORKERS ?= 2
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.nnatlas-installed

.DEFAULT_GOAL := help
.PHONY: help install lens test versions lint types bench docs matrix check format clean

help:
	@sed -n '2,9s/^# \{0,1\}//p' $(MAKEFILE_LIST)

install: $(STAMP)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "nnatlas needs Python 3.11 or newer; " \
		"this is " + sys.version.split()[0] + ". Type: make PYTHON=python3.12 $(MAKECMDGOALS)")'
	$(PYTHON) -m venv $(VENV)

# torch first and by itself: an index that offers a CPU build of this version then gets its chance, and a torch that is
# already in the environment is never replaced.
$(STAMP): pyproject.toml | $(BIN)/python
	@$(BIN)/python -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)' \
		|| $(BIN)/python -m pip install '$(TORCH)'
	$(BIN)/python -m pip install --quiet --editable '.[dev]' '$(TRANSFORMERS)'
	@touch $@

lens: $(STAMP)
	$(BIN)/nnatlas lens smollm2 "The Eiffel Tower is in the city of"

# Two workers with one torch thread each: more threads than cores would make both slower.
test: $(STAMP)
	OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false $(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

versions:
	$(MAKE) test VENV=.venv-3.12 PYTHON=python3.12
	$(MAKE) test VENV=.venv-3.13 PYTHON=python3.13
	$(MAKE) test VENV=.venv-oldest TRANSFORMERS='transformers==5.20.0'

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/python -m bench $(ARGS)

docs: $(STAMP)
	$(BIN)/python -m nnatlas.cli.pages docs

# The laws on every model type, about a quarter of an hour on two cores; `nnatlas check --all --stale` runs only changed rows.
matrix: $(STAMP)
	$(BIN)/nnatlas check --all --processes $(WORKERS) --results src/nnatlas/data/support.json
	$(MAKE) docs

check: lint types test

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .venv-* .pytest_cache .ruff_cache .mypy_cache .hypothesis
