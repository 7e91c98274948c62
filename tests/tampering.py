"""A folder of results, tampered with at random; ``python -m tampering 10000`` tries so many.

What comes of it must be the answer that the folder held, or one line and exit status 2. Numbers
changed within their range are not tried: nobody can see that.
"""

import copy
import json
import shutil
import sys
import tempfile
import traceback
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np

from pefourier.cli.main import main

TASK = ["train", "--dataset", "order:count=20,length=4", "--epochs", "1", "--seeds", "2"]
TASK += ["--d", "8", "--heads", "2", "-e", "none", "-e", "dft", "--quiet", "--resume", "--json"]
ODD = [None, True, -1, 1.5, 7.5, 10**400, -(2**63), float("nan"), float("inf"), "", "dft"]
ODD += ["\x1b[31m", "\ud800", [], {}, [[]], [0], {"a": 1}, [None], "x" * 999, [10**30], "9" * 5000]


def asked(folder):
    """Exit status, answer and errors of asking again for what a folder holds."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main([*TASK, "--out", str(folder)])
    return status, out.getvalue(), err.getvalue()


def untimed(answer):
    """What an answer holds but for the times of runs that were trained anew."""
    return [one | {"step_seconds": None} for one in json.loads(answer)["results"]]


def places(value, path=()):
    """Paths to everything in a JSON value, the value itself first."""
    inner = enumerate(value) if isinstance(value, list) else ()
    inner = value.items() if isinstance(value, dict) else inner
    return [path, *(p for key, one in inner for p in places(one, (*path, key)))]


def changed(value, rng):
    """A JSON value with something in it replaced, dropped, added, renamed or doubled."""
    value = inner = copy.deepcopy(value)
    every = places(value)[1:]
    *path, last = every[rng.integers(len(every))]
    for key in path:
        inner = inner[key]
    kind, odd = rng.integers(5), ODD[rng.integers(len(ODD))]
    if kind == 0:
        del inner[last]
    elif kind == 1 and isinstance(inner, dict):
        inner[f"{last}s"] = inner.pop(last)
    elif kind in (2, 3) and isinstance(inner, list):
        inner.append(copy.deepcopy(inner[last]) if kind == 2 else odd)
    else:
        inner[last] = odd
    return value


def mangled(content, rng):
    """Bytes with some cut out, put in or flipped."""
    at = rng.integers(len(content))
    before, after = content[:at], content[at:]
    odd = bytes(rng.integers(128, 256, 3, np.uint8))
    flipped = before + bytes([content[at] ^ 128]) + after[1:]
    return [before, after, before + odd + after, b"[" * 100_000, flipped][rng.integers(5)]


def tamper(folder, rng):
    """Change one file of a folder of results; what was done, in words."""
    name, kind = ("config.json", "results.jsonl")[rng.integers(2)], rng.integers(8)
    file = folder / name
    if kind == 0:
        file.write_bytes(mangled(file.read_bytes(), rng))
        return f"{name} mangled"
    rows = [json.loads(line) for line in file.read_text().splitlines() if name != "config.json"]
    rows = rows or [json.loads(file.read_text())]
    i = rng.integers(len(rows))
    if kind == 1 and name != "config.json":
        rows.append(rows[i])
    else:
        rows[i] = changed(rows[i], rng)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"{name}, kind {kind}"


def fault(whole, seed):
    """What went wrong with a tampered copy of a whole folder; empty where nothing did."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "out"
        shutil.copytree(whole, folder)
        what = tamper(folder, np.random.default_rng(seed))
        try:
            status, out, err = asked(folder)
        except BaseException:
            return f"seed {seed}: {what}: {traceback.format_exc(limit=-2)}"
        if status == 2 and out == "" and err.count("\n") == 1 and len(err) < 800:
            return ""
        if status == 0 and untimed(out) == untimed(asked(whole)[1]):
            return ""
        return f"seed {seed}: {what}: status {status}, {out[:300]} {err[:300]}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        base = Path(made) / "whole"
        assert asked(base)[0] == 0
        tries = int(sys.argv[1])
        wrong = [line for line in (fault(base, seed) for seed in range(tries)) if line]
        print(*wrong[:20], f"{len(wrong)} of {tries} tampered folders went wrong", sep="\n")
