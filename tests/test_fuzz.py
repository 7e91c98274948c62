"""Inputs by the hundred of every target of `fuzz`, and an eye on what no file may cause."""

import re
import subprocess
import sys
from pathlib import Path

import fuzz
import pytest

TARGETS = fuzz.load_targets()


SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 10))]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", TARGETS)
def test_a_hundred_inputs_end_in_an_answer_or_in_one_line(name, seed):
    for count in range(100):
        assert fuzz.draw(name, f"{seed} {count}") is None


def test_no_file_makes_python_import_unpickle_or_start_anything():
    """In a process that notes such events; `make fuzz` goes on as long as one likes."""
    command = [sys.executable, "-W", "error", fuzz.__file__, "--seconds", "4", "--seed", "1"]
    root = str(Path(fuzz.__file__).parents[1])
    done = subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": root})
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout.startswith("seed 1: {")
    assert "nothing found" in done.stdout


EVIL = """
import os
import sys

import fuzz

fuzz.TARGETS.clear()

@fuzz.target
def evil(rng):
    return fuzz.ended(own["act"], lambda _: True)

fuzz.SECONDS = 0.5
fuzz.load_targets = lambda: fuzz.TARGETS
for act in sys.argv[1:]:
    own = {}
    exec(f"def act():\\n    {act}", own)
    if not os.fork():
        sys.argv[1:] = ["--seconds", "9"]
        sys.exit(fuzz.main())
    print(end=f"|{os.waitstatus_to_exitcode(os.wait()[1])}|", flush=True)
"""
SEEN = {
    "import pickle; pickle.loads(b'cos\\nsystem\\n.')": "events: .*pickle.find_class",
    "__import__('this_' + 'module')": "traceback: ModuleNotFoundError",
    "exec('1')": "events: .*exec",
    "import os, sys; sys.path[:0] = [os.getcwd()]; name = 'n' + os.urandom(4).hex(); "
    "os.mknod(name + '.py'); __import__(name)": "events: .*import .'n",
    "import os; os.system('true')": "events: .*os.system",
    "import numpy; numpy.memmap('/dev/zero', object, 'r', 0, 1)": "events: .*object.* is mapped",
    "import warnings; warnings.warn('x')": "traceback: UserWarning: x",
    "raise KeyError": "traceback: KeyError",
    "from pefourier.errors import PefourierError as E; raise E(chr(10))": "line: ",
    "sum(range(10**8))": "slow: ",
}


def test_the_eye_sees(tmp_path):
    root = Path(fuzz.__file__).parents[1]
    path = f"{root}:{root / 'tests'}"
    command = [sys.executable, "-c", EVIL, *SEEN]
    done = subprocess.run(
        command, capture_output=True, text=True, env={"PYTHONPATH": path, "TMPDIR": str(tmp_path)}
    )
    assert done.stderr == ""
    *said, end = done.stdout.split("|")
    assert (said[1::2], end) == (["1"] * len(SEEN), "")
    for one, seen in zip(said[::2], SEEN.values(), strict=True):
        assert re.match(f"evil: {seen}", one)
