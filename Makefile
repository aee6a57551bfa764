# `make` alone lists the targets. Each makes .venv first, and needs nothing else of the machine than Python ≥ 3.11.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help lock run test check rest pictures soak lint contract faults bench fuzz migrate sdk release image

# The first one that is new enough makes .venv: `make PYTHONS=/usr/bin/python3 test`.
PYTHONS ?= python3 python3.14 python3.13 python3.12 python3.11
VENV := .venv/.installed
NODE := node_modules/.installed
BIN := .venv/bin
# One more than the cores that are meant: tests wait for PostgreSQL, processes and clocks a fifth of their time.
WORKERS ?= 3
PICTURES ?= pictures
PYTEST := $(BIN)/python -m pytest -n $(WORKERS)
# The tests that draw from TEST_SEED; the others do the same with every seed.
SEEDED = $(shell grep -rlE 'hypothesis|random_seed|state_machines' tests --include='test_*.py')
# Compiling every test again takes as long as some hundred tests; empty is "off", which an image may have set.
export PYTHONDONTWRITEBYTECODE :=

LOCK_OPTIONS := pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate

help: ## List the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 10

run: $(VENV) ## Start the sandbox and show a freeze (PORT, FAKE_GITHUB_PORT, FAKE_STRIPE_PORT, FAKE_SLACK_PORT, MAILBOX_PORT, SANDBOX_DIR, DEMO=0)
	@$(BIN)/python -m tools.sandbox

test: $(VENV) ## Run the tests of behaviour (ARGS="-k freeze" narrows them)
	@$(PYTEST) -m "not check" $(ARGS)

check: lint test rest ## Run everything that must pass before a merge

rest: $(VENV) $(NODE) ## Run the tests of `make check` that `make test` leaves out: fuzzing, faults, sandbox, clients, Chromium
	@$(PYTEST) -m check

pictures: $(VENV) $(NODE) ## Write a picture of each page, at two widths, light and dark (PICTURES=pictures)
	@mkdir -p $(PICTURES)
	@PICTURES=$(abspath $(PICTURES)) $(BIN)/python -m pytest -n 0 -q -m check -k page tests/web/people/dashboard

soak: $(VENV) $(NODE) ## Run what takes hours: 100 kills, every fault at its real times, long fuzzing, every fault of a stop, 10,000 steps of I25, a second opinion, random seeds, mutants
	@$(BIN)/python -m tests.faults.suite --only kills --times 100
	@$(BIN)/python -m tests.faults.suite
	@$(BIN)/python -m tools.fuzz
	@EVERY_CASE=1 $(PYTEST) tests/jobs/stops
	@TEST_SEED=random INVARIANT_EXAMPLES=250 $(BIN)/python -m pytest -n 0 --timeout=0 -m "not check" tests/faults/test_blocked_means_refused.py
	@$(BIN)/python -m pytest -n 0 -q tests/integrations/emulate/calls.py
	@$(BIN)/python -m tools.mutants
	@for run in 1 2 3; do TEST_SEED=random $(PYTEST) $(SEEDED) || exit 1; done

lint: $(VENV) $(NODE) ## Check style, types, layers and the contract
	@$(MAKE) --no-print-directory --jobs=2 lint-types lint-others

# As long as the others together.
.PHONY: lint-types
lint-types:
	@$(BIN)/mypy .

.PHONY: lint-others
lint-others:
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports
	@cd cli && ../$(BIN)/lint-imports
	@$(BIN)/python -m tools.contract lint
	@npx --no-install spectral lint --fail-severity=error openapi.yaml

contract: $(VENV) ## Write openapi.yaml: the sources in contract/, and what follows from them
	@$(BIN)/python -m tools.contract complete

faults: $(VENV) ## Inject every fault into the whole service (ARGS="--times 5 --only redis", "--minutes 60 --seed 7", "--without-redis")
	@$(BIN)/python -m tests.faults.suite $(ARGS)

bench: $(VENV) ## Measure the figures, side by side, as ratios
	@$(BIN)/python -m tools.bench $(ARGS)

fuzz: $(VENV) ## Run Schemathesis over the whole contract
	@$(BIN)/python -m tools.fuzz $(ARGS)

migrate: $(VENV) ## Upgrade the schema as its owner (DATABASE_OWNER_URL, or DATABASE_URL)
	@$(BIN)/python -m app migrate

lock: $(VENV) ## Resolve the dependencies of pyproject.toml again, keeping what still fits (ARGS=--upgrade takes the newest)
	@$(BIN)/uv pip compile $(LOCK_OPTIONS) --all-extras --output-file requirements.lock $(ARGS)
	@$(BIN)/uv pip compile $(LOCK_OPTIONS) --constraint requirements.lock --output-file requirements-production.lock
	@$(BIN)/uv pip compile $(LOCK_OPTIONS) --constraint requirements.lock --extra tracing --extra sentry \
	  --output-file requirements-observability.lock

sdk: $(VENV) $(NODE) ## Generate the Python, TypeScript and Go clients
	@$(BIN)/python -m tools.sdk

release: $(VENV) ## Write the next version into every file that names it, and into the changelog (VERSION=1.2.0)
	@$(BIN)/python -m tools.release prepare $(VERSION)
	@$(MAKE) --no-print-directory contract

image: $(VENV) ## Build the image of this version, with docker or podman
	@$(BIN)/python -m tools.release image

$(VENV): requirements.lock
	@for python in $(PYTHONS); do \
	  $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && found=$$python && break; done; \
	if [ -z "$$found" ]; then echo "Python 3.11 or newer is needed; none of these is: $(PYTHONS)" >&2; exit 1; fi; \
	echo "Installing into .venv (once; about a minute)…"; \
	$$found -m venv .venv || { echo "On Debian and Ubuntu, apt-get install python3-venv brings what is missing." >&2; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements.lock
	@touch $@

$(NODE): package-lock.json
	@command -v npm >/dev/null || { echo "npm is needed for this (Spectral, openapi-typescript): install Node.js ≥ 18." >&2; exit 1; }
	@npm ci --silent --no-fund --no-audit
	@touch $@
