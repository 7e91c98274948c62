# make run: the paper recomputed into figures/; make test: the tests.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# pip would otherwise fetch gigabytes of CUDA where a CPU build lies at hand
TORCH ?= torch==2.13.0

.DEFAULT_GOAL := help
.PHONY: help run test test-all coverage lint check fuzz bench figures catalogue schema readme models clean

help:  ## what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

# what analysis needs: all dependencies but torch, which is larger than the others together
$(BIN)/pefourier: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	sed -n '/^dependencies/,/^]/s/^ *"\(.*\)",$$/\1/p' $< | grep -v ^torch >$(VENV)/needed.txt
	$(BIN)/python -m pip install --quiet --requirement $(VENV)/needed.txt
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	$(BIN)/python -m compileall -q pefourier  # at install, as for wheels; some never write bytecode
	@touch $@

$(BIN)/torchrun: $(BIN)/pefourier  # what training needs besides
	$(BIN)/python -m pip install --quiet $(TORCH)
	@touch $@

$(BIN)/pytest: $(BIN)/torchrun  # what tests and style need besides
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

run: $(BIN)/pefourier  ## recompute the paper: figures, numbers, claims
	$(BIN)/pefourier reproduce

figures: $(BIN)/pefourier  ## every picture of README and of the paper; of trainings see figures/Makefile
	$(BIN)/pefourier reproduce
	$(MAKE) -C figures bands.png

# one thread each: numbers of BLAS and torch are shared out among processes, not among threads;
# bytecode of tests is kept, which takes ten seconds to make
PYTEST = PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal
WORKERS ?= 2

test: $(BIN)/pytest  ## tests and doctests: five minutes on two cores
	$(PYTEST)

test-all: $(BIN)/pytest  ## what is long and `make test` leaves out: whole grids of cases, every model type
	$(PYTEST) -m long

coverage: $(BIN)/pytest  ## the same, and which lines they run: half as long again
	$(BIN)/python -m pytest --cov=pefourier --cov-report=term:skip-covered

lint: $(BIN)/pytest  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict pefourier

check: lint test test-all  ## style, and what CI runs

catalogue: $(BIN)/pefourier  ## what `pefourier list` reads, from the registry
	$(BIN)/python -c 'from pefourier.report.catalogue import catalogue_of_registry; print(catalogue_of_registry())' >catalogue.tmp
	mv catalogue.tmp pefourier/report/catalogue.json

schema: $(BIN)/pytest  ## the JSON Schema of all answers, from the types of results
	PYTHONPATH=. $(BIN)/python tests/tools/json_schema.py

readme: $(BIN)/pytest  ## the outputs that README shows, from the program as it is
	PYTHONPATH=.:tests/helpers $(BIN)/python tests/test_readme.py

models: $(BIN)/pytest  ## what model types do with positions, from transformers
	PYTHONPATH=.:tests/helpers $(BIN)/python tests/tools/survey_transformers.py

SECONDS ?= 3600

fuzz: $(BIN)/pytest  ## damaged and malicious files for SECONDS=3600, until one is not refused in a line
	PYTHONPATH=tests/helpers $(BIN)/python -W error tests/tools/fuzz.py --seconds $(SECONDS)

bench: $(BIN)/pytest  ## time against what one would call today; ONLY=commands; CHECK=1: commands that became slower
ifdef CHECK
	$(BIN)/python tests/tools/bench.py check
else
	$(BIN)/python -m pip install --quiet '.[bench]'
	PYTHONPATH=tests/helpers $(BIN)/python tests/tools/bench.py $(ONLY)
	$(if $(ONLY),,PYTHONPATH=tests/helpers $(BIN)/python tests/tools/bench_training.py)
endif

clean:  ## forget the environment
	rm -rf $(VENV) build *.egg-info
