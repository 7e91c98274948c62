"""Inputs by the hundred of every target of `fuzz`, and an eye on what no file may cause."""

import re
import subprocess
import sys
from pathlib import Path

import fuzz
import pytest

TARGETS = fuzz.load_targets()


SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 10))]


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
import fuzz
fuzz.TARGETS.clear()

@fuzz.target
def evil(rng):
    def act():
        {act}
    return fuzz.ended(act, lambda _: True)

import sys
sys.argv[1:] = ["--seconds", "9"]
fuzz.SECONDS = 0.5
fuzz.load_targets = lambda: fuzz.TARGETS
sys.exit(fuzz.main())
"""


@pytest.mark.parametrize(
    ("act", "seen"),
    [
        ("import pickle; pickle.loads(b'cos\\nsystem\\n.')", "events: .*pickle.find_class"),
        ("__import__('this_' + 'module')", "traceback: ModuleNotFoundError"),
        ("exec('1')", "events: .*exec"),
        (
            "import os, sys; sys.path[:0] = [os.getcwd()]; name = 'n' + os.urandom(4).hex(); "
            "os.mknod(name + '.py'); __import__(name)",
            "events: .*import .'n",
        ),
        ("import os; os.system('true')", "events: .*os.system"),
        (
            "import numpy; numpy.memmap('/dev/zero', object, 'r', 0, 1)",
            "events: .*object.* is mapped",
        ),
        ("import warnings; warnings.warn('x')", "traceback: UserWarning: x"),
        ("raise KeyError", "traceback: KeyError"),
        ("from pefourier.errors import PefourierError as E; raise E(chr(10))", "line: "),
        ("sum(range(10**8))", "slow: "),
    ],
    ids=range(10),
)
def test_the_eye_sees(act, seen, tmp_path):
    root = Path(fuzz.__file__).parents[1]
    path = f"{root}:{root / 'tests'}"
    command = [sys.executable, "-c", EVIL.format(act=act)]
    done = subprocess.run(
        command, capture_output=True, text=True, env={"PYTHONPATH": path, "TMPDIR": str(tmp_path)}
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert re.match(f"evil: {seen}", done.stdout)
