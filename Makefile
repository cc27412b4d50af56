# The commands of this project. `make help` lists them.
.DEFAULT_GOAL := help
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Without what Python keeps beside the sources, every process would compile all of them again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install run test test-deep test-all check bench simulate format clean

help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# One stamp file: installing again happens only when what is installed has changed.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "TPU Steward needs Python 3.11 or newer; name one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r constraints.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $(STAMP)

install: $(STAMP) ## Make the virtual environment .venv, and nothing else.

run: $(STAMP) ## Start everything on this machine: emulator, daemon, API and dashboard.
	@$(BIN)/tpu-steward dev

# The journeys mostly wait, so two more than there are cores pay.
JOBS ?= $(shell $(PYTHON) -c 'import os; print(max(2, min(6, (os.cpu_count() or 1) + 2)))')
test: $(STAMP) ## Run the tests, on SQLite and on PostgreSQL, JOBS=2 to 6 at a time.
	@$(BIN)/python -m pytest --numprocesses $(JOBS) --dist worksteal -m "not deep"

test-deep: $(STAMP) ## Run what `make test` leaves out: planted bugs, and other long searches.
	@$(BIN)/python -m pytest --numprocesses $(JOBS) --dist worksteal -m deep

# ONLY='not planted' leaves out the tests that look for planted bugs, for instance.
ONLY ?=
test-all: $(STAMP) ## Run both in one go, which takes less time than one after the other.
	@$(BIN)/python -m pytest --numprocesses $(JOBS) --dist worksteal -k "$(ONLY)"

check: $(STAMP) ## Check format, lint, types and the layers of the project.
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: $(STAMP) ## Measure, and print ratios from one run.
	@$(BIN)/python -m tests.bench

# SEEDS=3000 is so many of them, SEEDS=500-999 those; `python -m tests.simulation 17` is one alone.
SEEDS ?= 1000
simulate: $(STAMP) ## Live through SEEDS=1000 fleets under faults and killed daemons.
	@$(BIN)/python -m tests.simulation $(if $(findstring -,$(SEEDS)),$(SEEDS),0-$(shell expr $(SEEDS) - 1))

format: $(STAMP) ## Put the code into its shape.
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format --quiet .

clean: ## Remove the virtual environment and what runs leave behind.
	@rm -rf $(VENV) var .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
