# Everything happens in this folder: `make` keeps its own Python environment in .venv.

PYTHON ?= python3
TESTARGS ?=
DEMO_ARGS ?=
BENCH_ARGS ?=
PEERS_ARGS ?=
SIM_ARGS ?=

BIN := .venv/bin
READY := .venv/.ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input

# Tests start hundreds of processes, which would compile every module again without its bytecode.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo demo-matrix test check bench bench-postgres bench-peers bench-memory soak soak-drawn simulate mutants conformance coverage api proto format clean

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(READY) ## see limits at work, in a minute or less (DEMO_ARGS=...)
	$(BIN)/penstock demo $(DEMO_ARGS)

test: $(READY) ## run the tests, six minutes on two cores (TESTARGS="tests/unit -k lane" for a few)
	$(BIN)/python -m pytest -n 6 --dist loadfile --no-loadscope-reorder $(TESTARGS)

check: $(READY) ## run all that must hold before a change is accepted: style, types, layers, tests
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	@$(MAKE) --no-print-directory test

bench: $(READY) ## measure this machine (BENCH_ARGS=...)
	$(BIN)/penstock bench $(BENCH_ARGS)

bench-postgres: $(READY) ## measure the same on a PostgreSQL of its own (10 minutes; BENCH_ARGS=...)
	$(BIN)/python -m tests.support.postgres -- \
		sh -c 'exec $(BIN)/penstock bench --store "$$PENSTOCK_TEST_POSTGRES" $(BENCH_ARGS)'

bench-peers: $(READY) ## measure other queues on the same server in the same run (an hour; PEERS_ARGS=--quick for 5 minutes)
	$(BIN)/python -m peers $(PEERS_ARGS)

demo-matrix: $(READY) ## play the demo ten times with 1, 2 and 4 workers and spaced requests (9 minutes)
	for workers in 1 2 4; do \
		$(BIN)/penstock demo --workers $$workers --repeat 10 --spacing 20ms || exit 1; done

bench-memory: $(READY) ## watch a worker's memory while it drains a million jobs (3 minutes)
	$(BIN)/penstock bench MEM

soak-drawn: $(READY) ## run the tests that draw their cases by lot with many more of them (11 minutes)
	PENSTOCK_SOAK=1 $(BIN)/python -m pytest -n 6 --dist loadfile --no-loadscope-reorder \
		$$(grep -rlE '@given|StateMachine|often\(' tests --include='test_*.py')

soak: soak-drawn ## the same, then storms for minutes, wounded engines, half a million jobs (23 minutes)
	$(BIN)/python -m pytest -s tests/chaos/soak_chaos.py tests/chaos/soak_wounds.py tests/chaos/soak_size.py

simulate: $(READY) ## play a hundred thousand new random histories and stop at the first that fails (SIM_ARGS=...)
	$(BIN)/python -m tests.simulation $(SIM_ARGS)

mutants: $(READY) ## wound the engine, one way at a time, and see that the simulation notices each
	$(BIN)/python -m tests.simulation --mutants

conformance: $(READY) ## run the Open Job Spec's own suites, which lie beside the project (6 minutes)
	$(BIN)/python -m tests.conformance

coverage: $(READY) ## run the tests and demand that they reach every branch of the pure packages
	$(BIN)/coverage run -m pytest $(TESTARGS)
	$(BIN)/coverage report
	$(BIN)/coverage report --include='src/penstock/limits/*,src/penstock/lifecycle/*,src/penstock/workflows/*,src/penstock/sequences/*' --fail-under=100

api: $(READY) ## write docs/api.md, the page of the Python API, from the code
	$(BIN)/python docs/generate_api.py

proto: $(READY) ## write the messages of Silo's protocol from dialects/silo/silo.proto
	$(BIN)/python -m grpc_tools.protoc -I src --python_out=src --pyi_out=src penstock/dialects/silo/silo.proto

format: $(READY) ## write the code the way `make check` wants to see it
	$(BIN)/ruff format
	$(BIN)/ruff check --fix --exit-zero

clean: ## remove what `make` made
	rm -rf .venv .peers build dist .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name .git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

# Wheels only, pinned by hash, and the build backend among them: nothing else is ever fetched or run.
$(READY): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "penstock needs Python 3.11 or later; '$(PYTHON)' is $$($(PYTHON) --version 2>&1 || true)." >&2; \
		echo "Name another one, for example: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "Setting up .venv (once)"
	@test -x $(BIN)/pip || $(PYTHON) -m venv .venv
	@$(PIP) --require-hashes --only-binary :all: --requirement requirements/dev.txt
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@
