# make run: recompute the paper into figures/. make test: run the tests.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# without this, pip would fetch gigabytes of CUDA where a local CPU build exists
TORCH ?= torch==2.13.0

.DEFAULT_GOAL := help
.PHONY: help run test test-all test-kernels coverage lint check fuzz bench figures catalogue schema readme models clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

# dependencies of analysis: all but torch, which is larger than the others together
$(BIN)/pefourier: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	sed -n '/^dependencies/,/^]/s/^ *"\(.*\)",$$/\1/p' $< | grep -v ^torch >$(VENV)/needed.txt
	$(BIN)/python -m pip install --quiet --requirement $(VENV)/needed.txt
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	$(BIN)/python -m compileall -q pefourier  # bytecode at install time, as wheels get it
	@touch $@

$(BIN)/torchrun: $(BIN)/pefourier  # dependencies of training
	$(BIN)/python -m pip install --quiet $(TORCH)
	@touch $@

$(BIN)/pytest: $(BIN)/torchrun  # dependencies of tests and style checks
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

run: $(BIN)/pefourier  ## recompute the paper: figures, numbers, claims
	$(BIN)/pefourier reproduce

figures: $(BIN)/pefourier  ## draw every picture of README and the paper (training: see figures/Makefile)
	$(BIN)/pefourier reproduce
	$(MAKE) -C figures bands.png

# one BLAS and torch thread per process: the work is divided among processes; the bytecode of
# tests is kept, since compiling it takes ten seconds
PYTEST = PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal
WORKERS ?= 2

test: $(BIN)/pytest  ## tests and doctests: five minutes on two cores; lists the ten slowest
	$(PYTEST) --durations=10

test-all: $(BIN)/pytest  ## long tests that `make test` leaves out: full grids of cases, every model type
	$(PYTEST) -m long

# OpenBLAS chooses a kernel by processor, and each rounds in an order of its own
LINEAR_ALGEBRA = tests/geometry $(addprefix tests/questions/test_,check_faithful.py grids.py relations.py reconstruct.py)

test-kernels: $(BIN)/pytest  ## tests of linear algebra under the BLAS kernels of other processors
	OPENBLAS_CORETYPE=Haswell $(PYTEST) $(LINEAR_ALGEBRA)
	OPENBLAS_CORETYPE=Prescott $(PYTEST) $(LINEAR_ALGEBRA)

coverage: $(BIN)/pytest  ## tests with line coverage: half as long again
	$(BIN)/python -m pytest --cov=pefourier --cov-report=term:skip-covered

lint: $(BIN)/pytest  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict pefourier

check: lint test test-all  ## style and all tests, as in CI

catalogue: $(BIN)/pefourier  ## write the catalogue that `pefourier list` reads, from the registry
	$(BIN)/python -c 'import json; from pefourier.encodings.loader import records; print(json.dumps(records(), indent=1, ensure_ascii=False))' >catalogue.tmp
	mv catalogue.tmp pefourier/report/catalogue.json

schema: $(BIN)/pytest  ## write the JSON Schema of all answers, from the types of results
	PYTHONPATH=. $(BIN)/python tests/tools/json_schema.py

readme: $(BIN)/pytest  ## update the outputs in README
	PYTHONPATH=.:tests/helpers $(BIN)/python tests/test_readme.py

models: $(BIN)/pytest  ## record how model types use positions, from transformers
	PYTHONPATH=.:tests/helpers $(BIN)/python tests/tools/survey_transformers.py

SECONDS ?= 3600

fuzz: $(BIN)/pytest  ## feed damaged and malicious files for SECONDS=3600, until one is not refused in one line
	PYTHONPATH=tests/helpers $(BIN)/python -W error tests/tools/fuzz.py --seconds $(SECONDS)

bench: $(BIN)/pytest  ## benchmark against other libraries; ONLY=commands; CHECK=1 lists commands that became slower
ifdef CHECK
	PYTHONPATH=tests/helpers $(BIN)/python tests/tools/bench.py check
else
	$(BIN)/python -m pip install --quiet '.[bench]'
	PYTHONPATH=tests/helpers $(BIN)/python tests/tools/bench.py $(ONLY)
	$(if $(ONLY),,PYTHONPATH=tests/helpers $(BIN)/python tests/tools/bench_training.py)
endif

clean:  ## delete the environment
	rm -rf $(VENV) build *.egg-info
