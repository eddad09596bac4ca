# Everything is made in .venv inside this checkout and nothing outside it, with one exception that
# scripts/java.sh states. `make demo` and `make test` need only python3 and make.

PYTHON ?= python3
LOCK_FLAGS ?=
export PYTHON LOCK_FLAGS

BIN := .venv/bin
# Newer than the files it depends on: then .venv holds what they ask for.
INSTALLED := .venv/.installed

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help java venv demo test test-spark bench lint types lock wheel clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

$(INSTALLED): requirements.lock pyproject.toml scripts/venv.sh
	@sh scripts/venv.sh
	@touch $@

java: ## find Java 17 or newer; install it where it is missing and apt allows
	@sh scripts/java.sh

venv: $(INSTALLED) ## create .venv and install what requirements.lock names

demo: java venv ## run the main job on generated data
	$(BIN)/tidegate demo

test: java venv ## run all tests, those marked nojit also as plain Python
	@sh scripts/test.sh

test-spark: java venv ## run only the tests that start a JVM
	$(BIN)/python -m pytest -m spark tests

bench: java venv ## measure against bare kernels and peers, and print the ratios
	$(BIN)/tidegate bench

lint: venv ## check style, layout and the import rule
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: venv ## check the types
	$(BIN)/python -m mypy

lock: ## pin every dependency again in requirements.lock
	@sh scripts/lock.sh

wheel: venv ## build a wheel that carries compiled code, in dist/
	$(BIN)/python scripts/wheel.py

clean: ## remove .venv, caches, compiled code of this checkout and whatever runs left behind
	-@$(PYTHON) -m tidegate.compiled.clean
	rm -rf .venv .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	rm -rf build dist outputs reports spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
