# The commands of a working copy. They need python3 (3.11 to 3.14), git and make, and nothing else.
#
#   make torture kills a writer 10,000 times, fails each system call of an append, of a recovery and
#                of a checkpoint; minutes; strace
#   make demo    the worked example on real data, in fairtrial-demo/
#   make test    every test, in as many processes as there are cores
#                (make test ARGS="-n 0 tests/ledger -k merkle": some, in one process)
#   make check   lint and types
#   make clean   removes what the other targets made
#   make lock    renews the pinned requirements (needs uv)
#
# .venv is built from the pinned and hashed requirements. A stamp file remembers each step, so the
# next call starts at once. The caller may set PYTHON, VENV and ARGS.

VENV ?= .venv
ARGS ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input --quiet
CREATED := $(VENV)/.stamp-created
RUNTIME := $(VENV)/.stamp-runtime
TOOLS := $(VENV)/.stamp-tools
PACKAGES := analysis custody drivers engine examples ledger protocols schemas verbs verdicts cli.py py.typed

.PHONY: test torture demo check clean lock

# Tests start the command some thousand times, which takes twice as long without compiled modules.
test: $(TOOLS)
	@PATH="$(abspath $(BIN)):$$PATH" PYTHONDONTWRITEBYTECODE= pytest -n auto --dist worksteal $(ARGS)

torture: $(RUNTIME)
	@$(BIN)/python -P benchmarks/torture.py kills $(ARGS)
	@$(BIN)/python -P benchmarks/torture.py faults
	@$(BIN)/python -m benchmarks.checkpoint_faults

demo: $(RUNTIME)
	@$(BIN)/ledger demo $(ARGS)

check: $(TOOLS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@rm -rf $(VENV)/typing && mkdir -p $(VENV)/typing/fairtrial
	@cp -R $(PACKAGES) $(VENV)/typing/fairtrial/
	sh .ci/types $(BIN) $(VENV)/typing

$(CREATED):
	@PYTHON="$(PYTHON)" sh .ci/venv $(VENV)
	@touch $@

# The project goes in last, alone and offline: everything that it may use is pinned above it.
$(RUNTIME): $(CREATED) requirements.txt requirements-build.txt pyproject.toml
	@echo "$(VENV): installing the pinned requirements"
	@$(PIP) install --require-hashes -r requirements.txt -r requirements-build.txt
	@PYTHONWARNINGS=ignore $(PIP) install --no-index --no-deps --no-build-isolation --editable .
	@touch $@

$(TOOLS): $(RUNTIME) requirements-test.txt
	@echo "$(VENV): installing the pinned test tools"
	@$(PIP) install --require-hashes -r requirements-test.txt
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info fairtrial-demo .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -name __pycache__ -type d -prune -not -path './.git/*' -exec rm -rf {} +

LOCK := uv pip compile --quiet --universal --python-version 3.11 --only-binary :all: --emit-build-options \
	--generate-hashes --no-header --no-annotate

lock:
	$(LOCK) --upgrade pyproject.toml --extra test -o requirements-test.txt
	$(LOCK) pyproject.toml -c requirements-test.txt -o requirements.txt
	echo setuptools | $(LOCK) - -c requirements-test.txt -o requirements-build.txt
