"""Verdicts of check-faithful and their numbers, with a case on both sides of each threshold."""

import numpy as np
import pytest
from findings import codes
from grids import table_on
from refusals import refusal

from pefourier.encodings import build, load
from pefourier.questions.check_faithful import LADDER, check_faithful, shortfalls
from pefourier.questions.relations import relate
from pefourier.questions.spectrum import spectrum


def test_published_numbers_of_the_sinusoidal_encoding():
    r = check_faithful(build("sinusoidal", length=80, d=256))
    assert (r.faithful, r.closest_pair, r.rank, r.condition_number) == (True, (0, 1), 42, None)
    assert (r.min_distance, r.toeplitz_residual) == (pytest.approx(2.6712016, abs=5e-8), 0)
    assert r.gap == pytest.approx(2.6712016 / np.sqrt(128), abs=1e-8)


def test_shortfalls_name_what_is_lacking():
    r = check_faithful(build("sinusoidal", length=512, d=64))
    assert [len(shortfalls(r, rung)) for rung in LADDER] == [0, 0, 0, 1, 1, 1]
    constant = check_faithful(np.ones((8, 4)))
    assert len(shortfalls(check_faithful(np.eye(9, 64)), dtype="bfloat16:computed")) == 1
    assert shortfalls(constant, strict=True) == ["has constant-codes"]


def test_rows_before_a_line_are_left_out_of_everything(rng):
    rows = rng.normal(size=(12, 5))
    rows[[4, 7]] = rows[2]
    for table in (rows, rows[:2]):
        with_prefix, without = (
            check_faithful(table_on((len(table) - 1,), table, prefix=1)),
            check_faithful(table[1:]),
        )
        assert with_prefix.min_distance == without.min_distance
        assert codes(with_prefix) == codes(without)
    r = check_faithful(table_on((11,), rows, prefix=1))
    assert (r.closest_pair, r.closest_ends) == ((2, 4), "(1) and (3)")
    assert "3 = 1, 6 = 1;" in r.findings[0].message
    assert r.findings[0].message.endswith("; row 0 is the first after --prefix 1")


def test_masks_are_apart_from_biases():
    n = 9
    lag = np.arange(n) - np.arange(n)[:, None]
    slopes = -np.array([0.5, 0.25])[:, None, None] * np.abs(lag)
    causal = np.where(lag > 0, -np.inf, slopes)
    r = check_faithful(causal)
    assert (r.verdict, r.length, r.distinct) == ("distinct lags", n, n)
    assert spectrum(causal).summary.centroid > 0
    assert relate(causal).verdict == "one direction"
    for ask in (check_faithful, spectrum, relate):
        with refusal(r"-inf, a mask, at lag -8: .*pefourier compare"):
            ask(np.where(np.abs(lag) > 3, -np.inf, slopes))
        with refusal("-inf, a mask, at lag 1: "):
            ask(np.where(lag > 0, -np.inf, 0 * slopes))


def test_the_most_positions_that_are_distinct():
    for spec, length, d, most in (("dft", 80, 64, 64), ("shaw", 80, 16, 17), ("t5", 80, 12, 9)):
        assert check_faithful(load(spec, length, d)).distinct_up_to == most
    assert check_faithful(load("dft", 64, 64)).distinct_up_to is None
