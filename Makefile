# The commands of this project. `make help` lists them.
.DEFAULT_GOAL := help
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Two stamps, one for each file of pins: what is installed is reused until its file changes.
RUNTIME := $(VENV)/.installed
DEVELOPMENT := $(VENV)/.installed-dev
# uv takes seconds where pip takes a minute: the uv of this machine, or else the one that is pinned.
UV := $(shell command -v uv || echo $(BIN)/uv)
WITH_UV = UV_HTTP_RETRIES=$${UV_HTTP_RETRIES:-1} $(UV) pip install --quiet --compile-bytecode --python $(BIN)/python
WITH_PIP = -m pip install --quiet --disable-pip-version-check
MAKE_PIP = [ -x $(BIN)/pip ] || $(PYTHON) -m venv $(VENV)
PINS := --require-hashes -r
ITSELF := --no-deps --no-build-isolation --editable .
# Without what Python keeps beside the sources, every process would compile all of them again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install run demo test test-deep test-all check bench mutations simulate screenshots references format clean

help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# $(call add,FILE) installs the pins of FILE with uv, or with pip where uv is missing or fails.
add = { $(WITH_UV) $(PINS) $(1) && $(WITH_UV) $(ITSELF); } 2>>$(VENV)/uv.log || { \
		echo "  uv cannot install here ($(VENV)/uv.log says why): pip goes on, in about a minute." >&2; \
		$(MAKE_PIP) && $(BIN)/python $(WITH_PIP) $(PINS) $(1) && $(BIN)/python $(WITH_PIP) $(ITSELF); }

$(RUNTIME): pyproject.toml constraints.txt
	@echo "Installing TPU Steward into $(VENV): $$(grep -c '^[a-z]' constraints.txt) packages, 40 MB to download, 220 MB on disk."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "TPU Steward needs Python 3.11 or newer; name one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv --without-pip $(VENV)
	@rm -f $(VENV)/uv.log
	@command -v $(UV) >/dev/null || echo "  First uv, which takes seconds for what takes pip a minute."
	@command -v $(UV) >/dev/null || { \
		sed -n '/^uv==/,/[^\\]$$/p' constraints-dev.txt >$(VENV)/uv.txt; \
		$(PYTHON) -m pip --python $(BIN)/python install --quiet $(PINS) $(VENV)/uv.txt \
		|| { $(MAKE_PIP) && $(BIN)/python $(WITH_PIP) $(PINS) $(VENV)/uv.txt; }; } >$(VENV)/uv.log 2>&1 || true
	@$(call add,constraints.txt)
	@touch $@

$(DEVELOPMENT): $(RUNTIME) constraints-dev.txt
	@echo "Adding the tools of development: $$(grep -c '^[a-z]' constraints-dev.txt) packages, 130 MB to download, 400 MB on disk."
	@$(call add,constraints-dev.txt)
	@touch $@

install: $(RUNTIME) ## Make the virtual environment .venv, and nothing else.
	@:

run: $(RUNTIME) ## Start everything on this machine: emulator, daemon, API and dashboard.
	@$(BIN)/tpu-steward dev

demo: $(RUNTIME) ## Start the same with 30 days of a lab's history, in a minute or two.
	@$(BIN)/tpu-steward demo

# The journeys mostly wait, so two more than there are cores pay.
JOBS ?= $(shell $(PYTHON) -c 'import os; print(max(2, min(6, (os.cpu_count() or 1) + 2)))')
test: $(DEVELOPMENT) ## Run the tests of a few minutes, JOBS=2 to 6 at a time.
	@$(BIN)/python -m compileall -q -j 0 service  # once, or each worker does it on its own
	@$(BIN)/python -m pytest --numprocesses $(JOBS) --dist worksteal -m "not deep"

# DEEP='deep and not exhaustive' leaves out the searches that take many minutes each.
DEEP ?= deep
test-deep: $(DEVELOPMENT) ## Run what `make test` leaves out: whole lives, planted bugs, long searches.
	@$(BIN)/python -m pytest --numprocesses $(JOBS) --dist worksteal -m "$(DEEP)"

# ONLY='not planted' leaves out the tests that look for planted bugs, for instance.
ONLY ?=
test-all: $(DEVELOPMENT) ## Run both in one go, which takes less time than one after the other.
	@$(BIN)/python -m pytest --numprocesses $(JOBS) --dist worksteal -k "$(ONLY)"

check: $(DEVELOPMENT) ## Check format, lint, types and the layers of the project.
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: $(DEVELOPMENT) ## Measure, and print ratios from one run.
	@$(BIN)/python -m tests.bench

# NAMES='a-price-begins-a-second-late' runs that mutation alone.
NAMES ?=
mutations: $(DEVELOPMENT) ## Check that unit tests notice small mistakes in the service.
	@$(BIN)/python -m tests.mutations $(NAMES)

# SEEDS=3000 is so many of them, SEEDS=500-999 those; `python -m tests.simulation 17` is one alone.
SEEDS ?= 1000
# fleet: faults and killed daemons. cleanup: idle nodes. interleaving: two daemons on PostgreSQL.
WHAT ?= fleet
SIMULATION_fleet := tests.simulation
SIMULATION_cleanup := tests.simulation.cleanup
SIMULATION_interleaving := tests.interleaving
simulate: $(DEVELOPMENT) ## Run SEEDS=1000 lives of WHAT=fleet, cleanup or interleaving.
	@[ -n "$(SIMULATION_$(WHAT))" ] || { echo "WHAT is fleet, cleanup or interleaving" >&2; exit 1; }
	@$(BIN)/python -m $(SIMULATION_$(WHAT)) $(if $(findstring -,$(SEEDS)),$(SEEDS),0-$(shell expr $(SEEDS) - 1))

# DEMO=http://127.0.0.1:8080 takes them of a demo that runs already.
DEMO ?=
screenshots: $(DEVELOPMENT) ## Make the pictures of the README and manual from the demo.
	@$(BIN)/python -m tests.screenshots $(DEMO)

references: $(DEVELOPMENT) ## Make the small pictures again that pages are compared with.
	@RECORD_PICTURES=1 $(BIN)/python -m pytest -q tests/dashboard/test_references.py -k every_page

format: $(DEVELOPMENT) ## Put the code into its shape.
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format --quiet .

clean: ## Remove the virtual environment and what runs leave behind.
	@rm -rf $(VENV) var .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
