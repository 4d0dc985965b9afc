# The commands of the README, and those that a maintainer types daily. `make help` lists them.
# Settings go behind the target: make track RANGE=HEAD~5..HEAD ROUNDS=3
SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv build track report pictures nightly test test-slow lint format docs

PYTHON ?= python3
ifeq ($(origin TORCH),undefined)
TORCH := torch==2.13.0
endif
TORCH_INDEX ?=
$(if $(filter-out pip,$(NVCC_FROM)),$(error NVCC_FROM=$(NVCC_FROM): got no place to take nvcc from, wanted pip; one that is installed is found on PATH, by CUDACXX or CUDA_HOME))
VENV ?= .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.up-to-date
MEASURES := $(VENV)/.measures
# cmake and ninja come with the venv; `env` and not `export PATH`, so that `PYTHON` is looked up as the user's shell does.
IN_VENV := env PATH="$$(cd "$(VENV)/bin" && pwd):$$PATH"

# A file of tests stays in one process: many share a costly beginning. tests/conftest.py says which file begins.
JOBS ?= 2
SIDE_BY_SIDE = -n $(JOBS) --dist loadfile --no-loadscope-reorder

# Settings of `make track`: exported only when given, under the names that tools and benchmarks read.
KV_SETTINGS := RANGE BENCH ROUNDS TIER MACHINE AGAIN WAIT RULE EPS T_MIN T_MAX T_SOFT POWER THREADS TIMER PATIENCE ISOLATE
$(foreach name,$(KV_SETTINGS),$(if $(value $(name)),$(eval export KV_$(name) := $$(value $(name)))))

# A name that nothing here reads is a slip more often than a variable meant for a compiler: ROUND=3 would measure 8 rounds.
VENV_SETTINGS := PYTHON TORCH TORCH_INDEX NVCC_FROM
READ := $(KV_SETTINGS) $(VENV_SETTINGS) VENV JOBS BUDGET DEVICE KV_% C% LD% NVCC%
GIVEN := $(foreach name,$(.VARIABLES),$(if $(filter command,$(origin $(name))),$(name)))
$(foreach name,$(filter-out $(READ) -*-%,$(GIVEN)),$(info note: $(name) is no setting of this Makefile; `make help` lists them))

FORCE:

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 12
	@echo "settings of track: $(KV_SETTINGS)"
	@echo "settings of venv: $(VENV_SETTINGS)"

venv: $(STAMP) ## .venv with everything that track and test need (PYTHON=, TORCH=, TORCH_INDEX=, NVCC_FROM=pip)

# A torch that PYTHON has is used, by a path file that names its site folders (a venv made inside another venv does not see
# that one's packages); else TORCH is installed, from TORCH_INDEX if that is given. The kernels are never installed:
# what is measured are their commits.
# MEASURES says which TORCH it was made with: one that was left out is installed when it is no longer left out. What tests,
# style and documentation need is as much again, and waits until somebody asks for them.
LEFT_OUT := $(if $(TORCH),$(if $(shell cat "$(MEASURES)" 2>/dev/null),,FORCE))
$(MEASURES): pyproject.toml tools/pyproject.toml tools/kernel_velocity/make_venv.py $(if $(filter file,$(origin TORCH)),$(LEFT_OUT),FORCE) $(if $(NVCC_FROM),FORCE)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: $(PYTHON) is no Python 3.11 or newer: make venv PYTHON=/path/to/python" >&2; exit 2; }
	$(PYTHON) -P tools/kernel_velocity/make_venv.py "$(VENV)" --torch "$(TORCH)" --torch-index "$(TORCH_INDEX)" $(if $(NVCC_FROM),--nvcc)
	@printf '%s\n' "$(TORCH)" > "$@"

$(STAMP): $(MEASURES)
	$(PYTHON) -P tools/kernel_velocity/make_venv.py "$(VENV)" --torch "$(TORCH)" --torch-index "$(TORCH_INDEX)" --all
	@touch "$@"

build: $(MEASURES) ## the working tree's kernels, in place (for tests and live work; track builds commits itself)
	$(IN_VENV) cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release
	$(IN_VENV) cmake --build build
	$(IN_VENV) cmake --install build --prefix .
	@touch kernels/_native/libkernel_velocity.so # as new as what it was built from, whatever that included

track: $(MEASURES) ## measure the last commits of the kernels and write the dashboard
	@$(IN_VENV) kv track

report: $(MEASURES) ## write the dashboard of what is recorded, without measuring: the history that ships, after a clone
	@$(IN_VENV) kv report

pictures: $(STAMP) report ## take the pictures of README.md and docs/ from that dashboard
	$(PY) -m tests.site.pictures .asv/html/kernel-velocity docs/pictures

nightly: $(MEASURES) ## measure what is new, judge and confirm it, write findings and the dashboard (BUDGET= minutes, DEVICE=cpu)
	@$(IN_VENV) kv nightly $(if $(BUDGET),--budget $(BUDGET)) $(if $(DEVICE),--device $(DEVICE))

test: $(STAMP) build ## the tests, without those that take minutes
	$(IN_VENV) $(PY) -m pytest $(SIDE_BY_SIDE)

# Many of them wait for processes and clocks: three keep two cores busy. Each collects all files that it is given, so these
# are the ones with slow tests: collecting them takes half of the time of all (tests/test_docs.py holds the expression).
SLOW_FILES := $$(grep -rlE --include='test_*.py' 'mark\.slow|instruction_sets' tests)
test-slow: JOBS := $(if $(filter command environment,$(origin JOBS)),$(JOBS),3)
test-slow: $(STAMP) build ## the tests that take minutes
	$(IN_VENV) $(PY) -m pytest $(SIDE_BY_SIDE) -m 'slow and not alone' $(SLOW_FILES)
	$(IN_VENV) $(PY) -m pytest $$(grep -rl --include='test_*.py' 'pytest.mark.alone' tests) -m 'slow and alone'

# TypeScript reads the scripts as they are; npm keeps it in its cache: 4 MB, 24 unpacked.
TSC := npm exec --yes --package=typescript@5.9.3 -- tsc -p .ci/jsconfig.json

lint: $(STAMP) ## formatting, style, words, types, and the workflows
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) .ci/words.py
	$(PY) -m mypy
	git ls-files '*.cpp' '*.cu' '*.h' '*.cuh' | xargs $(VENV)/bin/clang-format --dry-run -Werror
	$(VENV)/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*
	$(VENV)/bin/check-jsonschema --builtin-schema vendor.github-actions .github/actions/*/action.yml
	$(VENV)/bin/zizmor --offline --quiet --persona pedantic .github
	@if command -v npm >/dev/null; then echo "$(TSC)"; $(TSC); \
	elif [ "$(CI)" = true ]; then echo "error: no npm on PATH: CI checks the types of the pages' scripts" >&2; exit 2; \
	else echo "note: no npm on PATH: the types of the pages' scripts are not checked"; fi

# Not --quiet, which hides warnings from the strict build, too.
docs: $(STAMP) ## the documentation, into build/docs: strict, without a network
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --clean -f .ci/mkdocs.yml
	@echo "Documentation: file://$(CURDIR)/build/docs/index.html"

format: $(STAMP) ## rewrite files as `make lint` wants them
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .
	git ls-files '*.cpp' '*.cu' '*.h' '*.cuh' | xargs $(VENV)/bin/clang-format -i
