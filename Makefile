# One named target an action; the same ones run in CI. `make` alone lists them.
PYTHON ?= python3
BIN := .venv/bin
# One torch thread a test process and one process a core; a file stays with one process, which sets up its fixtures once.
PYTEST := OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 $(BIN)/pytest -n auto --dist loadfile
# Held in the lock: the CPU attention calls aten's own kernels, so a newer torch is a change to be tested.
HOLD ?= torch==2.13.0

.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint docs lock build clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: .venv/.ready ## pretrain, fine-tune, predict and audit on the bundled sample; 6 to 7 minutes on 2 cores
	$(BIN)/maskwright demo

test: lint ## linters, types, layers and every test but the slow ones
	$(PYTEST) -m "not slow"

test-all: lint ## the same with the slow tests
	$(PYTEST)

lint: .venv/.ready ## ruff, mypy, import layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: .venv/.ready ## rewrite the generated parts of docs/
	$(BIN)/python docs/generate.py

build: .venv/.ready ## sdist and wheel into dist/
	$(BIN)/python -m build --no-isolation

# A build tag (+cpu) and the accelerator packages torch itself pins belong to a machine, not to the project.
lock: ## pin the developers' environment anew from pyproject.toml
	$(PYTHON) -m venv --clear build/lock
	build/lock/bin/pip install --quiet --upgrade pip
	build/lock/bin/pip install --quiet --group dev . '$(HOLD)'
	build/lock/bin/pip freeze --exclude maskwright | sed -E '/^(nvidia-|cuda-|triton)/d; s/\+[a-z0-9.]+$$//' > requirements-dev.lock
	rm -r build/lock

clean: ## remove what the other targets made, .venv included
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.venv/.ready: requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "maskwright needs Python 3.11 or newer, and $(PYTHON) is not: set PYTHON, as in 'make PYTHON=python3.12 test'" >&2; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -r requirements-dev.lock
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@
