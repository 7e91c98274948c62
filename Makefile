# make run: the paper recomputed into figures/; make test: everything CI runs.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# pip would otherwise fetch gigabytes of CUDA where a CPU build lies at hand
TORCH ?= torch==2.13.0

.DEFAULT_GOAL := help
.PHONY: help run test lint check bench figures clean

help:  ## what can be made
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

$(BIN)/pefourier: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet $(TORCH)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

run: $(BIN)/pefourier  ## recompute the paper: figures, numbers, claims
	$(BIN)/pefourier reproduce

test: $(BIN)/pefourier  ## all tests and doctests, with coverage
	$(BIN)/python -m pytest --cov=pefourier --cov-report=term:skip-covered

lint: $(BIN)/pefourier  ## style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

check: lint test  ## what CI runs

clean:  ## forget the environment
	rm -rf $(VENV) build *.egg-info
