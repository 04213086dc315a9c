# Two commands do everything; each builds its own .venv from the pinned constraints.txt.
#   make reproduce   run the whole paper: networks, posteriors, tables, figures, report
#   make test        lint, types, import rules, tests, doctests, README commands
# and, when changing samplers:
#   make test-slow   simulation-based calibration, many seeds, the longer notebook; a quarter of an hour
#   make stress      every sampler 5,000 times on busy cores, bit-equal every time; an hour or two
#   make test-longer processes, whole commands and pages, kill -9, Ctrl-C, full disks; some minutes
# and, when changing docs:
#   make site        the documentation as pages, in site/
# PYTHON chooses the interpreter (3.11 or newer): make test PYTHON=python3.12

PYTHON ?= python3
BIN := .venv/bin

.PHONY: reproduce test tests test-slow stress test-longer lint site bench lock clean

reproduce: .venv/.installed
	$(BIN)/equivocal reproduce --out runs/paper

# The tests spend their time on compilation: the workers share a cache of compiled programs, and two of
# XLA's flags give programs that are a little slower but compile in two thirds of the time. The short
# tests compile without optimizations, which takes a fifth of their time away. Python's own bytecode is
# kept as well: without it each worker takes ten seconds longer to collect the tests.
TEST_ENV := JAX_PLATFORMS=cpu OPENBLAS_NUM_THREADS=1 JAX_COMPILATION_CACHE_DIR=$(CURDIR)/.venv/jax-cache \
	JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0 \
	PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX=$(CURDIR)/.venv/bytecode \
	XLA_FLAGS="--xla_backend_optimization_level=1 --xla_cpu_use_fusion_emitters=false"
SHORT_ENV := $(TEST_ENV) JAX_DISABLE_MOST_OPTIMIZATIONS=1

# In parallel: the type checker uses one core, and tests sometimes wait.
test: .venv/.installed-dev
	$(MAKE) --jobs 2 lint tests

tests: .venv/.installed-dev
	$(SHORT_ENV) $(BIN)/python -m pytest -n 2 --dist loadfile $(TESTS)

# Calibration by 1,000 simulations, and the draws of all seeds from 0 to 99.
test-slow: .venv/.installed-dev
	$(TEST_ENV) EQUIVOCAL_SEEDS=100 $(BIN)/python -m pytest packages/lastlayer/tests/test_posterior.py -k draws
	$(TEST_ENV) $(BIN)/python -m pytest -m slow

# The same seed gives the same bits under load; `make test` tries 5 runs of each sampler, `.ci/run` 30:
# 364 in all.
STRESS := 5000

stress: .venv/.installed-dev
	$(TEST_ENV) EQUIVOCAL_STRESS=$(STRESS) $(BIN)/python -m pytest packages/lastlayer/tests/test_stress.py

test-longer: .venv/.installed-dev
	$(TEST_ENV) $(BIN)/python -m pytest -n 2 --dist worksteal -m longer

lint: .venv/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The documentation as pages, in site/.
site: .venv/.installed-dev
	$(BIN)/python -m properdocs build --strict

# Benchmarks compare with PyTorch, which nothing else here requires.
bench: .venv/.installed-dev
	$(BIN)/pip install --quiet --constraint constraints.txt "torch==2.13.0"
	$(BIN)/python -m benchmarks.training
	$(BIN)/python -m benchmarks.large_world
	$(BIN)/python -m benchmarks.sampling --full --record
	$(BIN)/python -m benchmarks.reproduction
	$(BIN)/python -m benchmarks.measuring
	$(BIN)/python -m benchmarks.doubt
	$(BIN)/python -m benchmarks.mixed_models
	$(BIN)/python -m benchmarks.peers

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("equivocal needs Python 3.11 or newer, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv .venv

.venv/.installed: .venv/bin/python packages/lastlayer/pyproject.toml packages/equivocal/pyproject.toml constraints.txt Makefile
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable "packages/lastlayer[nuts]" --editable packages/equivocal
	@touch $@

.venv/.installed-dev: .venv/bin/python packages/lastlayer/pyproject.toml packages/equivocal/pyproject.toml constraints.txt Makefile
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable packages/lastlayer --editable "packages/equivocal[dev]"
	@touch $@ .venv/.installed

# Renew the pins for every supported Python at once.
lock: .venv/.installed-dev
	$(BIN)/uv pip compile --universal --python-version 3.11 --extra dev --extra english --upgrade --quiet \
		--no-emit-package lastlayer --no-emit-package equivocal --no-emit-index-url --custom-compile-command "make lock" \
		--output-file constraints.txt packages/equivocal/pyproject.toml

clean:
	rm -rf .venv
