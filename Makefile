# Every target sets up what it needs in .venv: Python 3.11 or later, git and make are enough.

PYTHON ?= $(shell for each in python3.13 python3.12 python3.11 python3; do \
	$$each -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$each && break; done)
VENV := .venv
BIN := $(VENV)/bin
# More than the two cores of continuous integration: most tests wait for something.
TEST_PROCESSES ?= 4
# Where this is set, each of the hundreds of processes that tests start would compile the sources anew.
unexport PYTHONDONTWRITEBYTECODE
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: help demo test check format bench screenshots schema docs dashboards services constraints clean

help:  ## Show the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 18

demo: $(VENV)/.demo  ## Do the main job on real input, on this machine
	@$(BIN)/minions demo

test: check  ## Formatting, lint, types, import contracts, and all tests
	@tests/services/system_packages.sh
	@$(BIN)/python -m tests.run $(TEST_PROCESSES)

check: $(VENV)/.dev  ## Formatting, lint, types and import contracts
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@found=$$($(BIN)/basedpyright --level error) || { echo "$$found"; exit 1; }
	@found=$$($(BIN)/lint-imports --no-cache) || { echo "$$found"; exit 1; }
	@echo "Format, lint, types and import contracts are clean."

format: $(VENV)/.dev  ## Format the code and mend what lint can mend
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .

bench: $(VENV)/.dev  ## Measure every figure and write benchmarks/RESULTS.md
	@$(BIN)/python benchmarks/run.py

screenshots: $(VENV)/.dev  ## Photograph every page of a lifelike deployment into screenshots/
	@tests/services/system_packages.sh
	@$(BIN)/python -m tests.browser.screenshots

schema: $(VENV)/.dev  ## Dump the schema that the migrations make
	@$(BIN)/python -m tests.services.write_schema

docs: $(VENV)/.dev  ## Write docs/cli.md from --help
	@$(BIN)/python -m minions.commands.reference > docs/cli.md

dashboards: $(VENV)/.dev  ## Write Grafana's dashboards from deploy/grafana
	@$(BIN)/python -m deploy.grafana.generate

services: $(VENV)/.dev  ## Write deploy/launchd and deploy/systemd
	@$(BIN)/python -m deploy.service_files

constraints: $(VENV)/.dev  ## Resolve constraints.txt anew
	@$(INSTALL) uv
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras --no-emit-index-url --no-annotate \
		--no-header pyproject.toml --output-file constraints.txt

clean:  ## Remove what the targets made
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis .import_linter_cache

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later is needed, and none was found; name one with PYTHON=…" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml constraints.txt requirements-demo.txt | $(BIN)/python
	@echo "Setting up $(VENV) (once, a minute or two) …" >&2
	@$(INSTALL) --constraint constraints.txt --editable '.[up]'
	@$(INSTALL) --no-deps --requirement requirements-demo.txt
	@touch $@

$(VENV)/.dev: $(VENV)/.demo
	@$(INSTALL) --constraint constraints.txt --editable '.[dev]'
	@touch $@
