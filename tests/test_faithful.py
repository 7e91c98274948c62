"""The ladder and its numbers, both sides of every verdict."""

import numpy as np
import pytest

from pefourier.encodings import build, load
from pefourier.encodings.encoding import from_table
from pefourier.questions.faithful import LADDER, assess, shortfalls

LADDERED = {
    "isometric": ["dft 80 256", "dft 64 64", "dft 63 63", "onehot 8 8", "rope 1 4"],
    "collides": ["dft 65 64", "onehot 9 8", "none 2 4", "shaw:clip=4 8 64"],
    "injective": ["sinusoidal 80 256", "learned 64 20", "ramp 9 4", "none 1 4"],
    "invertible": ["learned 20 64", "shaw:clip=4 4 64"],
}
LADDERED["symmetric in the lag"] = ["alibi 8 4", "kerple 8 4"]
LADDERED["distinct lags"] = ["alibi:causal=true 8 4", "t5 3 12"]


@pytest.mark.parametrize(("verdict", "cases"), LADDERED.items())
def test_both_sides_of_every_verdict(verdict, cases):
    for spec, length, d in map(str.split, cases):
        assert assess(load(spec, int(length), int(d))).verdict == verdict


def test_published_numbers_of_the_sinusoidal_encoding():
    r = assess(build("sinusoidal", length=80, d=256))
    assert r.faithful
    assert r.min_distance == pytest.approx(2.6712016, abs=5e-8)
    assert r.closest_pair == (0, 1)
    assert r.gap == pytest.approx(2.6712016 / np.sqrt(128), abs=1e-8)
    assert (r.rank, r.condition_number) == (42, None)
    assert r.toeplitz_residual == 0


def test_coarse_isometric_tables_are_isometric():
    table = build("dft", length=32, d=32).table().astype(np.float32)
    assert assess(from_table(table, eps=2.0**-23)).verdict == "isometric"
    assert assess(from_table(table.astype(float))).verdict == "isometric"
    assert assess(from_table(table + 1e-7 * np.eye(32))).verdict == "invertible"


def test_shortfalls_name_what_is_lacking():
    r = assess(build("sinusoidal", length=512, d=64))
    assert [len(shortfalls(r, rung)) for rung in LADDER] == [0, 0, 0, 1, 1, 1]
    constant = assess(np.ones((8, 4)))
    assert len(shortfalls(assess(np.eye(9, 64)), dtype="bfloat16:computed")) == 1
    assert shortfalls(constant, strict=True) == ["has constant-codes"]
