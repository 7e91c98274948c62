"""Encodings of times: formulas of the authors, units, and times that are positions."""

import math

import numpy as np
import pytest

import pefourier
from pefourier.encodings import load
from pefourier.encodings.registry import BUILDERS
from pefourier.questions.spectrum import spectrum

TIMED = [name for name in sorted(BUILDERS) if "times" in BUILDERS[name].parameters]
DECLARED = [name for name in TIMED if BUILDERS[name].declared]
IRREGULAR = np.array([0.0, 0.4, 1.7, 2.0, 3.1, 5.9, 6.0, 8.2])


@pytest.mark.parametrize("name", TIMED)
def test_regular_times_are_positions(name):
    even = load(name, d=6, times=np.arange(9.0))
    counted = load(name, length=9, d=6)
    assert np.abs(even.table() - counted.table()).max() < 1e-15
    for method in ("auto", "periodogram"):
        one, other = (spectrum(enc, lattice=12, method=method).density for enc in (even, counted))
        assert np.abs(one - other).max() < 1e-12


@pytest.mark.parametrize("name", TIMED)
def test_vectors_at_irregular_times_are_answered_by_their_table(name):
    enc = load(name, length=80, d=6, times=IRREGULAR)
    assert (enc.domain.kind, enc.params["length"], len(enc)) == ("time", 8, 8)
    assert enc.params["times"] == tuple(IRREGULAR)
    table = enc.table()
    apart = np.linalg.norm(table[:, None] - table, axis=2) + 1e9 * np.eye(8)
    assert pefourier.check(enc).min_distance == pytest.approx(apart.min(), abs=1e-12)
    assert not enc.is_stationary  # lags are not multiples of the spacing
    assert bool(enc.measure.squared_length) == (name in DECLARED)


@pytest.mark.parametrize("name", DECLARED)
def test_declared_vectors_depend_on_differences_of_times_alone(name):
    """Each inner product is the kernel at the difference of two times."""
    table = pefourier.encode(name, d=6, times=IRREGULAR)
    found = pefourier.relations(name, d=6, times=IRREGULAR)
    apart = np.abs(np.subtract.outer(IRREGULAR, IRREGULAR))
    kernel = np.interp(apart, found.lags, found.kernel)  # in steps of 1/16 of a wavelength
    assert np.abs(table @ table.T / 3 - kernel).max() < 0.02
    assert (found.toeplitz_residual, found.shift_residual) == (0, 0)
    assert found.lags[-1] == pytest.approx(8.2)
    rise = np.flatnonzero(np.diff(found.kernel) > 1e-12)[0] + 1
    assert found.first_rise == found.lags[rise]
    per = 1 if name == "sinusoidal" else 4  # wavelengths in the unit of the times
    even = pefourier.relations(name, d=6, times=np.arange(9) / per + 7)
    rows = pefourier.relations(name, length=9, d=6)
    assert even.lags.tolist() == (np.arange(9) / per).tolist()
    assert np.abs(even.kernel - rows.kernel).max() < 1e-9
    assert even.first_rise == rows.first_rise / per


def test_nothing_folds_at_irregular_times_and_even_ones_do():
    """Irregular times have no aliasing; regular times with frequencies beyond pi a step do."""
    enc = load("mtan-fixed", d=6, times=IRREGULAR)
    waves = 2 * np.pi * 8.2 / (48 / 10.0 ** (2 * np.arange(3) / 6))
    found = pefourier.spectrum("mtan-fixed", d=6, times=IRREGULAR, lattice=64, sigma=0)
    at = np.flatnonzero(found.density)
    assert found.density[at].tolist() == pytest.approx([1 / 3] * 3)
    assert np.abs(at - enc.domain.spacing / waves[::-1] * 64).max() <= 0.5
    assert (found.findings, found.unit) == ([], "units of time")
    assert found.cutoff_wave == pytest.approx(waves[0])
    even = pefourier.spectrum("mtan-fixed", d=6, times=np.arange(9) * 0.1 + 5)
    assert "aliased-frequencies" in [f.code for f in even.findings]
    assert even.omega[-1] <= np.pi
    with pytest.raises(pefourier.PefourierError, match="lattice"):
        pefourier.spectrum("mtan-fixed:scale=1e10", d=6, times=IRREGULAR)
    with pytest.raises(pefourier.PefourierError, match="even steps"):
        pefourier.reconstruct("mtan-fixed", d=6, times=IRREGULAR)


def test_mtan_fixed_is_the_formula_of_its_authors():
    t, slow = IRREGULAR / 8.2, math.exp(2 * -math.log(10.0) / 4)
    waves = [wave(48 * t * share) for share in (1, slow) for wave in (np.sin, np.cos)]
    table = load("mtan-fixed", d=4, times=IRREGULAR).table()
    np.testing.assert_allclose(table, np.transpose(waves), atol=1e-12)


@pytest.mark.parametrize("d", [4, 5])
def test_sinusoidal_counts_times_in_the_unit_of_its_positions(d):
    enc = load(f"sinusoidal:rho=100,offset=2,layout=halves,d={d}", times=IRREGULAR)
    omega = 100.0 ** (-2 * np.arange((d + 1) // 2) / d)
    phases = np.outer(IRREGULAR + 2, omega)
    expected = np.hstack([np.sin(phases), np.cos(phases[:, : d // 2])])
    assert np.abs(enc.table() - expected).max() < 1e-14
    assert enc.measure.frequencies == pytest.approx(omega * 8.2 / 7)
    np.testing.assert_allclose(
        enc.measure.phases(enc.domain.x / enc.domain.spacing), phases, atol=1e-12
    )


@pytest.mark.parametrize(
    ("name", "drawn", "unit"), [("time2vec", "normal", 1.0), ("mtan", "uniform", 8.2)]
)
def test_a_line_and_sines(name, drawn, unit):
    table = load(name, d=5, times=IRREGULAR, seed=2).table()
    stream = np.random.RandomState(2)
    a, b = stream.normal(size=(2, 5)) if drawn == "normal" else stream.uniform(-1, 1, (2, 5))
    expected = np.outer(IRREGULAR / unit, a) + b
    expected[:, 1:] = np.sin(expected[:, 1:])
    np.testing.assert_allclose(table, expected, rtol=0, atol=1e-14)
