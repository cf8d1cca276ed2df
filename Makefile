# `make demo` and `make test` do everything on a fresh machine; both go through `make install`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: install demo test unit check lint types layers lock docs clean

install: $(VENV)/.installed

$(VENV)/.installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Kajitori needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version)."; \
		  echo "Name a newer one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: install
	$(BIN)/kaji demo

test: check unit

unit: install
	$(BIN)/pytest -n 3 --dist loadgroup --no-loadscope-reorder

check: lint types layers

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/mypy

layers: install
	$(BIN)/lint-imports --no-cache

lock:  ## Resolve pyproject.toml anew; the lock names neither hosts nor paths.
	$(BIN)/uv pip compile pyproject.toml --extra dev --extra examples --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-header --quiet --output-file requirements.lock

docs: install  ## Write the generated reference of CLI, API and policy anew.
	$(BIN)/python docs/generate.py

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
