"""The next step of an answer is a command that can be typed and answers."""

import re
import shlex

import numpy as np
import pytest

import pefourier
from pefourier.encodings import load

CODE = """import numpy as np
def table(length, d):
    return np.sin(np.outer(np.arange(length), np.linspace(0.1, 1, d)))
"""
ASKED = [  # command line and the command of its next step
    ("spectrum sinusoidal --d 16 --rho 50 --length 30", "relations"),
    ("spectrum sinusoidal learned --d 16 --seed 3", "relations"),
    ("spectrum onehot --d 16 --length 16", "check-faithful"),
    ("spectrum py:mine:table --d 16 --length 9", "relations"),
    ("spectrum a.npy --grid 4x5", "relations"),
    ("reconstruct sinusoidal", "check-faithful"),
    ("reconstruct a.npy --pos 3", "check-faithful"),
    ("relations rope --theta 50 --length 90", "check-faithful"),
    ("relations mixed-rope --rho 10000", "check-faithful"),
    ("relations t5", "check-faithful"),
    ("check-faithful axial --d 16 --grid 4x5 --prefix 1", "relations"),
    ("check-faithful alibi:d=4 --length 20", "relations"),
    ("check-faithful learned:seed=3,S=9 --d 4", "relations"),
    ("check-faithful rope:base=50 --d 16", "relations"),
    ("check-faithful a.npy --length 10", "relations"),
    ("compare rope rope:theta=50 --d 16", "relations"),
    ("compare a.npy b.npy", "relations"),
    ("compare a.npy sinusoidal", "relations"),
    ("compare alibi t5 --d 4", "relations"),
]


@pytest.mark.parametrize(("line", "following"), ASKED)
def test_the_next_step_is_a_command_that_answers(line, following, run, folder, rng):
    table = rng.normal(size=(20, 16))
    np.save("a.npy", table)
    np.save("b.npy", table[::-1] * np.arange(1, 17))
    (folder / "mine.py").write_text(CODE)
    asked, *_ = run(line, "--json").results
    (command,) = re.findall("^Run `pefourier (.+)` to see [^`]+[.]$", asked["action"])
    assert command.startswith(following)
    assert asked["action"] in asked["conclusion"]
    done = run(*shlex.split(command), "--json")
    assert (done.status, done.err) == (0, "")
    sides = [asked, asked["other"]] if "other" in asked else [asked]
    for side, result in zip(sides, done.results, strict=True):
        for key in {"length", "d", "rho", "seed", "grid", "prefix"} & side["params"].keys():
            assert result["params"][key] == side["params"][key]


def test_inputs_that_cannot_be_typed_are_named_in_words(rng):
    table = rng.normal(size=(9, 4))
    encoding = load("sinusoidal", 9, 4, layout="halves")
    for source in (table, encoding, load(table), np.eye):
        answer = pefourier.spectrum(source)
        assert "on the same input to see" in answer.conclusion
    without_mean = pefourier.spectrum("sinusoidal", d=8, demean=True)
    assert "on the same input to see" in without_mean.conclusion


def test_biases_of_pairs_have_no_step_that_refuses_them(rng):
    biases = rng.normal(size=(2, 2, 6, 6))
    assert pefourier.compare(*biases).to_dict()["action"] == ""
    assert "Run " not in pefourier.check(biases[0]).conclusion
