# `make help` lists the targets. Everything is installed in .venv, nothing outside of it.
PYTHON ?= python3
# Source of torch. Empty: PyPI, whose Linux wheel needs gigabytes of CUDA libraries. `TORCH=cpu`: PyTorch's CPU build.
TORCH ?=
PYTEST_ARGS ?=
# `HASHES=1`: install the packages of requirements.hashes, each only as the file with its hash.
HASHES ?=
# Tests start over a hundred processes: with compiled modules, each saves the seconds of compiling cudalens again.
export PYTHONDONTWRITEBYTECODE :=
# One test process per core; `make test WORKERS=0` uses one process, for a debugger.
WORKERS ?= auto

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
LAB := $(VENV)/.lab
INSTALL := $(BIN)/python tools/install.py
CPU_TORCH := $(if $(filter cpu,$(TORCH)),--cpu-torch torch)
INTO := @echo "Installing into $(VENV) (PyTorch included: $(if $(CPU_TORCH),CPU build,the default build; TORCH=cpu for the CPU build))"
PIP := $(BIN)/python -m pip --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help setup demo lab test test-thorough hunt mutants coverage planted test-browser test-gpu gpu-campaign test-pytorch test-programs test-compiled test-tries test-hangs test-cluster check check-js fix js bench lock docs accuracy news build dist clean

help: ## list these targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 18
	@echo "  Without an NVIDIA GPU, add TORCH=cpu to the first call: PyPI's Linux wheel of torch needs gigabytes of CUDA libraries."
	@echo "  Another interpreter (3.11 or newer): PYTHON=python3.12."

setup: $(STAMP) ## create .venv and install cudalens with its development tools

SOURCES := pyproject.toml requirements.lock hatch_build.py $(wildcard cudalens/*/*/native/*)

# Python compiles a module when it is first imported (--no-compile): most of the installed ones never are.
$(STAMP): $(SOURCES) | $(BIN)/python
	$(INTO)
	@$(INSTALL) --upgrade "pip>=25.1"
	@$(if $(HASHES),$(INSTALL) --no-compile --require-hashes --no-deps -r requirements.hashes)
	@$(INSTALL) $(CPU_TORCH) --no-compile -c requirements.lock -e ".[lab]" --group dev --group docs
	@$(BIN)/python -m compileall -q cudalens
	@touch $@ $(LAB)

$(LAB): $(SOURCES) | $(BIN)/python
	$(INTO)
	@$(INSTALL) $(CPU_TORCH) --no-compile -c requirements.lock -e ".[lab]"
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else f"cudalens needs Python 3.11 or newer; this is {v[0]}.{v[1]}. Try: make setup PYTHON=python3.12")'
	@$(PYTHON) -m venv $(VENV)

demo: $(LAB) ## run notebooks/quickstart.ipynb, write an HTML report, print the verdict
	@$(BIN)/python notebooks/run_demo.py

lab: $(LAB) ## open JupyterLab on the notebooks
	@$(BIN)/jupyter lab --notebook-dir=notebooks

test: setup ## run the tests (browser and GPU tests skip, with a reason, without a browser or GPU)
	@$(BIN)/python -m pytest -n $(WORKERS) --maxprocesses=8 --dist worksteal $(PYTEST_ARGS)

test-thorough: setup ## as test, with 40 times as many examples in the property tests (hours)
	@CUDALENS_HYPOTHESIS=thorough $(BIN)/python -m pytest -n $(WORKERS) --maxprocesses=8 --dist worksteal $(PYTEST_ARGS)

hunt: setup ## search random programs for faults for MINUTES=20, of all subjects or SUBJECT=NAME, with new seeds or SEED=N; into out/hunt
	@$(BIN)/python tests/hunt/run.py --minutes $(or $(MINUTES),20) $(foreach name,$(SUBJECT),--subject $(name)) $(if $(SEED),--seed $(SEED))

mutants: setup ## change one operator or constant at a time in FILES (default: those that differ from main), report what no test notices
	@$(BIN)/python tools/mutants.py $(FILES) $(MUTANTS_ARGS)

coverage: setup ## run the tests without a browser and report the lines that they reach, into out/coverage; fails below the floor
	@$(BIN)/python -m pytest -n $(WORKERS) --maxprocesses=8 --dist worksteal -m "not browser" --cov --cov-report=term --cov-report=html $(PYTEST_ARGS)

planted: setup ## run programs with a planted bottleneck and print how well the findings name and price it
	@$(BIN)/python tests/planted/scores.py

test-browser: setup ## install Chromium if needed, then run the browser tests
	@sh tools/chromium.sh
	@$(BIN)/python -m pytest -m browser tests/browser $(PYTEST_ARGS)

test-gpu: ## run the GPU tests, with the interpreter PYTHON
	@if [ -x $(BIN)/python ] && [ "$(origin PYTHON)" = file ]; then $(BIN)/python -m pytest -m gpu tests/gpu $(PYTEST_ARGS); \
	 else PYTHONPATH=. $(PYTHON) -m pytest -m gpu tests/gpu $(PYTEST_ARGS); fi

gpu-campaign: ## measure everything that needs a GPU, in less than 8 minutes, at most 8 files into OUT, with the interpreter PYTHON
	@test -n "$(OUT)" || { echo "gpu-campaign: no folder for the results; set OUT=FOLDER"; exit 2; }
	@if [ -x $(BIN)/python ] && [ "$(origin PYTHON)" = file ]; then $(BIN)/python tests/gpu/campaign --out "$(OUT)" $(CAMPAIGN_ARGS); \
	 else $(PYTHON) tests/gpu/campaign --out "$(OUT)" $(CAMPAIGN_ARGS); fi

test-hangs: setup ## run jobs of gloo processes that do not go on, of all kinds (minutes)
	@CUDALENS_HANGS=1 $(BIN)/python -m pytest tests/integration/test_hangs.py $(PYTEST_ARGS)

test-cluster: setup ## read the ranks of a job on a Dask cluster of processes, of which one is killed (half a minute)
	@CUDALENS_CLUSTER=1 $(BIN)/python -m pytest tests/integration/test_rank_cluster.py $(PYTEST_ARGS)

test-pytorch: setup ## run PyTorch 2.6's CUDA tests on a virtual device; PYTORCH=folder of its sources, kept outside of this project
	@$(PIP) install --quiet expecttest psutil
	@$(BIN)/python tools/pytorch_suites.py "$(PYTORCH)"

test-programs: ## run third-party programs in every mode, in .venv-programs; PROGRAM=NAME selects some
	@test -x $(VENV)-programs/bin/python || $(PYTHON) -m venv $(VENV)-programs
	@$(VENV)-programs/bin/python tools/install.py $(CPU_TORCH) -e . -r tests/programs/requirements.txt
	@$(VENV)-programs/bin/python tools/third_party.py $(if $(PROGRAM),--only $(PROGRAM),--page docs/programs.md)

test-compiled: ## compile the steps of third-party programs on a virtual device, in .venv-programs; PROGRAM=NAME selects some
	@test -x $(VENV)-programs/bin/python || $(PYTHON) -m venv $(VENV)-programs
	@$(VENV)-programs/bin/python tools/install.py $(CPU_TORCH) -e . -r tests/programs/requirements.txt triton
	@$(VENV)-programs/bin/python tools/third_party.py --mode compiled $(if $(PROGRAM),--only $(PROGRAM))

test-tries: ## try all fixes for third-party programs on a virtual device, in .venv-programs (an hour); PROGRAM=NAME selects some
	@test -x $(VENV)-programs/bin/python || $(PYTHON) -m venv $(VENV)-programs
	@$(VENV)-programs/bin/python tools/install.py $(CPU_TORCH) -e . -r tests/programs/requirements.txt
	@$(VENV)-programs/bin/python tools/third_party.py --mode tried $(if $(PROGRAM),--only $(PROGRAM))

docs: setup ## build the documentation site into out/docs; a warning is an error
	@$(BIN)/python -m sphinx -b html -W --keep-going -q -j auto -c docs . out/docs
	@echo "out/docs/index.html"

accuracy: setup ## write the accuracy of modelled times into docs/virtual.md; DATA=FOLDER of measured times draws the picture
	@$(BIN)/python tools/accuracy.py $(if $(DATA),--data $(DATA))

news: setup ## print the changelog entry that the fragments in news/ make
	@$(BIN)/towncrier build --draft --version Unreleased

check: setup docs check-js ## ruff, mypy, import-linter, project files, JavaScript, generated docs and the site; edits no source
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python tools/import_cycles.py
	@$(BIN)/python tools/code_shape.py --check
	@$(BIN)/python tools/frame_docs.py --check
	@$(BIN)/python tools/accuracy.py --check
	@$(BIN)/python tools/benchmark_docs.py --check
	@$(BIN)/python tools/fix_docs.py --check
	@$(BIN)/python tools/refusal_docs.py --check
	@sh tools/lint_project.sh $(BIN)

check-js: ## biome, tsc and the bundles of the JavaScript; skips with a reason without Node
	@sh tools/js/run.sh check

js: ## build cudalens/views/static from the modules in cudalens/views/js (needs Node)
	@sh tools/js/run.sh build

fix: setup ## repair what ruff can repair, and write the generated docs
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .
	@sh tools/js/run.sh fix
	@$(BIN)/python tools/frame_docs.py
	@$(BIN)/python tools/benchmark_docs.py
	@$(BIN)/python tools/fix_docs.py
	@$(BIN)/python tools/refusal_docs.py

bench: setup ## run the benchmarks against the peers, results into benchmarks/results
	@$(BIN)/python benchmarks/run_all.py

HASHED := --universal --generate-hashes --no-header --no-annotate --quiet
# PyTorch and its CUDA libraries: the builds of different indexes have different hashes.
UNHASHED = torch $(filter-out nvidia-ml-py,$(shell sed -n 's/^\(cuda-[a-z0-9-]*\|nvidia-[a-z0-9-]*\)==.*/\1/p' requirements.lock))

lock: setup ## resolve requirements.lock, requirements.hashes and tools/build.lock again
	@$(PIP) install --quiet uv
	@$(BIN)/uv pip compile pyproject.toml -c tools/lock.in --extra lab --group dev --group docs --universal --python-version 3.11 --no-header --no-annotate --quiet -o requirements.lock
	@$(BIN)/uv pip compile requirements.lock $(HASHED) --python-version 3.11 --no-deps $(UNHASHED:%=--no-emit-package %) -o requirements.hashes
	@$(BIN)/uv pip compile tools/build.in $(HASHED) --python-version 3.13 -o tools/build.lock

build: setup ## build the wheel and the sdist into dist/
	@$(PIP) install --quiet build
	@$(BIN)/python -m build

dist: setup ## build the sdist and the wheels, and use each in a bare environment, with and without a compiler (minutes)
	@$(PIP) install --quiet build
	@$(BIN)/python tools/dist.py

clean: ## remove .venv and all build results
	rm -rf $(VENV) $(VENV)-programs tools/js/node_modules dist build out .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
