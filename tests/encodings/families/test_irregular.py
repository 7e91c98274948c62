"""Times: formulas of the authors, units, and times that are positions."""

import math

import numpy as np
import pytest
from refusal import refused

from pefourier.encodings import load
from pefourier.encodings.registry import BUILDERS
from pefourier.faithful import assess
from pefourier.spectrum import density

TIMED = [name for name in sorted(BUILDERS) if "times" in BUILDERS[name].parameters]
IRREGULAR = np.array([0.0, 0.4, 1.7, 2.0, 3.1, 5.9, 6.0, 8.2])


@pytest.mark.parametrize("name", TIMED)
def test_regular_times_are_positions(name):
    given = load(name, d=6, times=np.arange(9.0))
    counted = load(name, length=9, d=6)
    assert np.abs(given.table() - counted.table()).max() < 1e-15
    measured = density(given, lattice=12, method="periodogram")
    expected = density(counted, lattice=12, method="periodogram")
    assert np.abs(measured.density - expected.density).max() < 1e-12
    assert np.abs(density(given).density - density(counted).density).max() < 1e-12


@pytest.mark.parametrize("name", TIMED)
def test_times_set_the_length(name):
    enc = load(name, length=80, d=4, times=IRREGULAR)
    assert enc.domain.kind == "time"
    assert enc.params["length"] == len(enc) == 8
    assert enc.params["times"] == tuple(IRREGULAR)


@pytest.mark.parametrize("name", ["mtan", "mtan-fixed"])
def test_the_unit_of_time_does_not_matter_to_mtan(name):
    hours, seconds = load(name, d=6, times=IRREGULAR), load(name, d=6, times=3600 * IRREGULAR)
    assert np.abs(hours.table() - seconds.table()).max() < 1e-12
    assert np.abs(density(hours).density - density(seconds).density).max() < 1e-12


@pytest.mark.parametrize("name", TIMED)
def test_distances_of_codes_at_irregular_times_are_those_of_the_table(name):
    enc = load(name, d=6, times=IRREGULAR)
    table, n = enc.table(), len(IRREGULAR)
    slow = min(np.linalg.norm(table[i] - table[j]) for i in range(n) for j in range(i))
    assert abs(assess(enc).min_distance - slow) < 1e-12
    assert (
        enc.measure is None or enc.measure.squared_length is None
    )  # lags are no multiples of the spacing


def test_mtan_fixed_is_the_formula_of_its_authors():
    table = load("mtan-fixed", d=4, times=IRREGULAR).table()
    for row, t in zip(table, IRREGULAR / 8.2, strict=True):
        slow = 48 * t * math.exp(2 * -math.log(10.0) / 4)
        assert np.allclose(
            row, [math.sin(48 * t), math.cos(48 * t), math.sin(slow), math.cos(slow)], atol=1e-12
        )


@pytest.mark.parametrize(
    ("name", "drawn", "unit"), [("time2vec", "normal", 1.0), ("mtan", "uniform", 8.2)]
)
def test_a_line_and_sines(name, drawn, unit):
    table = load(name, d=5, times=IRREGULAR, seed=2).table()
    stream = np.random.RandomState(2)
    a, b = stream.normal(size=(2, 5)) if drawn == "normal" else stream.uniform(-1, 1, (2, 5))
    for row, t in zip(table, IRREGULAR / unit, strict=True):
        expected = [a[0] * t + b[0], *(math.sin(a[j] * t + b[j]) for j in range(1, 5))]
        assert np.allclose(row, expected, rtol=0, atol=1e-14)


def test_times_in_a_spec_are_a_file():
    refused("unknown file '3.npy'. There is no such file in '.'.", "mtan:times=3.npy")
