# `make demo` and `make test` do everything on a fresh machine; both go through `make install`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check
# uv takes a tenth of pip's time. It does not read pip's configuration, so pip is tried if uv reaches no index.
UV := $(BIN)/uv pip install --quiet --system-certs --python $(BIN)/python
# npm trusts the machine's certificate authorities, as pip and uv do.
export NODE_EXTRA_CA_CERTS ?= $(wildcard /etc/ssl/certs/ca-certificates.crt)
export NPM := --ignore-scripts --no-audit --no-fund --no-update-notifier --prefer-offline --loglevel=error
LOCK := --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --quiet
# A test on a cluster waits for half of its time, so six workers keep two cores busy (measured: four leave a third idle).
WORKERS := 6
PYTEST := $(BIN)/pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder
PAGE_INSTALLED := web/node_modules/.package-lock.json

# The tests start hundreds of processes. With this variable set, each would compile every module that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install web emulators demo test test-everywhere before-tests explore check lint types page-tests layers lock reference pictures docs clean

install: $(VENV)/.installed $(VENV)/.web

web: $(VENV)/.installed  ## Build the web page into the package, also if it was built before.
	@web/build.sh $(BIN)/python
	@touch $(VENV)/.web

$(VENV)/.web: web/build.sh web/package-lock.json $(shell find web/src web/public web/index.html web/vite.config.ts) $(shell find src/kajitori/api -name '*.py') | $(VENV)/.installed
	@web/build.sh $(BIN)/python
	@touch $@

# Without npm, or where it reaches no registry, the tests that use these servers are skipped.
emulators:  ## Install the servers of the npm registry that some tests use.
	@npm ci --prefix tests/emulators $(NPM) || \
		echo "The servers in tests/emulators could not be installed: tests that use them are skipped." >&2

$(VENV)/.installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Kajitori needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version)."; \
		  echo "Name a newer one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@sed -n '/^uv==/,/# via/p' requirements.lock >$(VENV)/uv.lock
	$(PIP) --require-hashes -r $(VENV)/uv.lock
	$(UV) --require-hashes -r requirements.lock || $(PIP) --require-hashes -r requirements.lock
	$(PIP) --no-deps --no-build-isolation --editable .
	$(BIN)/python -m compileall -q src
	@$(BIN)/python -c 'import kajitori.entrypoints.up, kajitori.client.submit.request, kajitori.cli.connection.execution' # uv compiles nothing, so compile now what every start imports
	@rm -f $(VENV)/.collected
	@touch $@

demo: install
	$(BIN)/kaji demo

# What comes before the tests uses one core at a time, so that all of it runs at once.
test: before-tests  ## All tests, lint and layers. Types are left to `make types`.
	@$(PYTEST) --conformance

# Where a real API server is found, this takes twice as long.
test-everywhere: before-tests  ## The same, but every test that can runs on both kinds of API server.
	@$(PYTEST)

before-tests: install
	@$(MAKE) --no-print-directory --jobs=4 lint layers page-tests $(VENV)/.collected

# Collecting the tests once compiles what they import; otherwise each worker would.
$(VENV)/.collected: | install
	@$(BIN)/pytest --collect-only -qq >/dev/null 2>&1; touch $@

explore: install  ## Test properties with new random examples; `make test` tries the same ones each time.
	$(PYTEST) -m hypothesis --hypothesis-profile=explore tests/unit

check: lint types layers  ## What is checked without running tests.

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install  ## Check the types of Python and of the web page.
	$(BIN)/mypy
	! [ -e $(PAGE_INSTALLED) ] || npm run --prefix web --silent check

page-tests: install  ## Run the web page's own tests, which need no browser.
	! [ -e $(PAGE_INSTALLED) ] || npm run --prefix web --silent test -- --reporter=dot

layers: install
	$(BIN)/lint-imports --no-cache

lock:  ## Resolve the dependencies in pyproject.toml again; the lock files name neither hosts nor paths.
	$(BIN)/uv pip compile pyproject.toml --extra up --extra dev --extra examples $(LOCK) --output-file requirements.lock
	$(BIN)/uv pip compile --group docs --constraints requirements.lock $(LOCK) --output-file requirements-docs.lock

reference: install  ## Generate the pages of docs/ and the manifests of deploy/ that are made from the code.
	$(BIN)/python docs/generate.py

pictures: web  ## Take the pictures of the web page in docs/figures; look at them before they are committed.
	$(BIN)/python docs/screenshots.py

# Without --quiet, which keeps warnings from --strict.
docs: reference $(VENV)/.docs  ## Build the documentation's site into site/ (to read it: python3 -m http.server -d site).
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

$(VENV)/.docs: requirements-docs.lock | install
	$(UV) --require-hashes -r requirements-docs.lock || $(PIP) --require-hashes -r requirements-docs.lock
	@touch $@

clean:
	rm -rf site $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
