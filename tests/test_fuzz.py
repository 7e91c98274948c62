"""A short draw of every target of `fuzz`, and an eye on what no file may cause."""

import re
import subprocess
import sys
from pathlib import Path

import fuzz
import pytest

COUNTS = [10, pytest.param(100, marks=pytest.mark.long)]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", fuzz.TARGETS)
def test_inputs_end_in_an_answer_or_in_one_line(name, count):
    for number in range(count):
        assert fuzz.draw(name, f"{count} {number}") is None


EVIL = """
import os
import sys

import fuzz

fuzz.TARGETS.clear()

@fuzz.target
def evil(rng):
    return fuzz.ended(own["act"], lambda _: True)

fuzz.SECONDS = 0.5
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


@pytest.mark.long
def test_the_eye_sees(tmp_path):
    root = Path(fuzz.__file__).parents[1]
    env = {"PYTHONPATH": f"{root}:{root / 'tests'}", "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-W", "error", "-c", EVIL, *SEEN]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.stderr == ""
    *lines, end = done.stdout.split("|")
    assert (lines[1::2], end) == (["1"] * len(SEEN), "")
    for line, seen in zip(lines[::2], SEEN.values(), strict=True):
        assert re.match(f"evil: {seen}", line)
