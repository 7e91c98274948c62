"""Singular values of declared codes by closed forms: against arb and against the matrices."""

import numpy as np
import pytest

from pefourier.encodings import build, load
from pefourier.encodings.domain import positions
from pefourier.encodings.encoding import Encoding, Measure
from pefourier.geometry import even_odd_svd, singular_values
from pefourier.geometry.singular_values import decompose

# (length, d, rho): singular values by place, of inner products in 260 bits (python-flint, arb)
BY_ARB = {
    (4096, 256, 1e4): {
        0: 321.06968672137236,
        1: 210.16315026485995,
        74: 45.32366825689946,
        138: 0.8776958811263053,
        145: 3.9301717566499967e-07,
        146: 3.615390569202371e-08,
        147: 2.8497296018156607e-09,
    },
    (2048, 512, 1e4): {
        0: 377.9041570621998,
        1: 210.89059854989884,
        104: 32.58932049865744,
        198: 0.021954130559465088,
        206: 3.7083236151399225e-09,
        207: 4.1963594621743304e-10,
    },
    (2048, 512, 5e5): {
        0: 505.7018059482199,
        1: 176.87008111322837,
        81: 32.42296089593918,
        153: 0.18027807820848135,
        160: 1.6026607027024036e-07,
        161: 1.6840053653396392e-08,
        162: 1.6461280585511998e-09,
    },
}


@pytest.fixture
def closed(monkeypatch):
    """No part is small enough to be made whole."""
    monkeypatch.setattr("pefourier.geometry.even_odd_svd.DIRECT", 0)
    monkeypatch.setattr("pefourier.geometry.singular_values.AT_ONCE", 2**12)


@pytest.fixture
def angles(monkeypatch):
    """How many angles of waves were made, in a list of one number."""
    made, before = [0], Measure.angles

    def counted(self, *arguments, **named):
        found = before(self, *arguments, **named)
        made[0] += found.size
        return found

    monkeypatch.setattr(Measure, "angles", counted)
    return made


def declared(frequencies, length, **facts):
    """The encoding of cosines and sines that a measure of equal weights declares."""
    omega = np.asarray(frequencies, dtype=float)
    measure = Measure(omega, np.full(len(omega), 1 / len(omega)), float(len(omega)), **facts)

    def codes(x):
        phases = measure.phases(x)
        return np.hstack([np.cos(phases), np.sin(phases)])

    return Encoding("waves", positions(length), 2 * len(omega), codes, measure)


@pytest.mark.usefixtures("closed")
@pytest.mark.parametrize(("length", "d", "rho"), BY_ARB)
def test_singular_values_have_their_digits_down_to_the_tolerance(length, d, rho):
    factors = decompose(build("sinusoidal", length=length, d=d, rho=rho))
    known = BY_ARB[length, d, rho]
    assert factors.rank == max(known) + 1
    for place, sigma in known.items():
        assert abs(factors.sigma[place] - sigma) <= 2e-15 * factors.sigma[0]
        assert factors.sigma[place] == pytest.approx(sigma, rel=1e-6)


CASES = {
    "one frequency": declared([0.3], 40),
    "zero frequencies": declared([0.0, 0.0], 41),
    "equal frequencies": declared([0.1, 0.1, 0.5, 0.5, 2.0], 60),
    "nearly equal frequencies": declared([0.1, 0.1 + 1e-9, 0.5, 0.5 + 1e-13], 60),
    "sums of a turn": declared([2.0, 2 * np.pi - 2.0, 2 * np.pi - 2.0 + 1e-8, np.pi], 60),
    "all alike": declared(1 + 1e-12 * np.arange(20), 100),
    "aliases": declared([0.5, 0.5 + 2 * np.pi, 40.0], 50),
    "beyond the digits of phases": declared([1e6, 2.5e9, 1e17], 50),
    "slow": declared(10.0 ** -np.arange(0, 40, 3), 90),
    "tall, even": build("sinusoidal", length=300, d=24),
    "tall, odd": build("rope", length=301, d=24),
    "tall, dft": build("dft", length=100, d=30),
    "tall, dft of odd d": build("dft", length=101, d=31),
    "wide, even": build("sinusoidal", length=40, d=90),
    "wide, odd": build("rope", length=41, d=90),
    "wide, dft": build("dft", length=40, d=90),
    "wide, dft of odd d": build("dft", length=41, d=91),
    "wide, one position": build("sinusoidal", length=1, d=8),
    "wide, well conditioned": build("learnable-sinusoidal", length=31, d=256),
}


@pytest.mark.usefixtures("closed")
@pytest.mark.parametrize("name", CASES)
def test_closed_forms_give_what_the_table_gives(name):
    enc = CASES[name]
    left, sigma, _ = np.linalg.svd(enc.table(), full_matrices=False)
    factors = decompose(enc)
    np.testing.assert_allclose(factors.sigma, sigma, atol=2e-13 * sigma[0])
    above = sigma > factors.tolerance
    assert factors.rank == above.sum() == np.linalg.matrix_rank(enc.table())
    kept = sigma > 1e-5 * sigma[0]
    if (kept == above).all():  # else projections depend on rounding
        projection = left[:, kept] @ left[:, kept].T - np.eye(len(enc))
        assert factors.inverse_error() == pytest.approx(np.abs(projection).max(), abs=1e-9)
        for s in (0, len(enc) // 2, len(enc) - 1):
            row = np.abs(projection[s]).max()
            assert factors.inverse_error(s) == pytest.approx(row, abs=1e-9)


@pytest.mark.usefixtures("closed")
def test_a_unit_scales_singular_values_and_nothing_else():
    one = decompose(build("rope", length=400, d=16))
    frequencies = build("rope", d=16).measure.frequencies
    for size in (1e-99, 1e99):
        measure = Measure(frequencies, np.full(8, 1 / 8), 8 * size**2)
        other = decompose(Encoding("rope", positions(400), 16, None, measure))
        np.testing.assert_allclose(other.sigma, size * one.sigma, rtol=1e-9)
        assert other.rank == one.rank
        assert other.inverse_error() == pytest.approx(one.inverse_error(), rel=1e-9)


def test_where_closed_forms_lose_digits_the_matrices_are_walked(closed, monkeypatch, angles):
    enc = declared(1 + 1e-12 * np.arange(20), 2000)
    decompose(enc)
    assert angles[0] == 0
    monkeypatch.setattr("pefourier.geometry.dirichlet_gram.FEW", -1000)
    walked = decompose(enc)
    assert angles[0] > 0
    assert walked.rank == np.linalg.matrix_rank(enc.table())


def test_bounds_are_below_the_leverage_and_near_it():
    enc = build("sinusoidal", length=80000, d=64)
    factors = decompose(enc)
    exact = np.concatenate([factors.leverage(rows) for rows in factors.row_blocks()])
    bounds = factors.bounds()
    assert bounds.shape == exact.shape == (40000,)
    assert (bounds <= exact).all()
    even = build("dft", length=320000, d=16)
    assert np.abs(decompose(even).bounds() - 16 / 320000).max() < 1e-9


def test_rows_that_bounds_rule_out_are_not_looked_at(monkeypatch):
    factors = decompose(build("rope", length=600001, d=64))
    blocks = factors.row_blocks()
    assert len(blocks) > 8
    looked, before = [], singular_values.Factors.leverage

    def leverage(self, rows, below=1.0):
        looked.append(rows)
        return before(self, rows, below)

    monkeypatch.setattr(singular_values.Factors, "leverage", leverage)
    error = factors.inverse_error()
    assert len(looked) <= 2
    assert error == 1 - min(before(factors, rows).min() for rows in blocks)


def test_small_singular_values_make_bounds_of_rows_sharp(monkeypatch):
    """Of the blocks that bounds leave, few are made of all left singular vectors."""
    monkeypatch.setattr(singular_values, "AT_ONCE", 2**15)
    factors = decompose(build("sinusoidal", length=16384, d=512))
    blocks, bounds = factors.row_blocks(), factors.bounds()
    least = min(factors.leverage(rows).min() for rows in blocks)
    left = sum(bounds[rows].min() < least for rows in blocks)
    looked, before = [], singular_values.Factors.leverage

    def leverage(self, rows, below=1.0):
        looked.append(below)
        return before(self, rows, below)

    monkeypatch.setattr(singular_values.Factors, "leverage", leverage)
    assert factors.inverse_error() == pytest.approx(1 - least, abs=1e-10)
    assert looked.count(1.0) < left / 2 < left <= len(looked)


def test_more_positions_than_frequencies_need_no_wave(angles):
    enc = build("rope", length=131072, d=64)
    angles[0] = 0
    decompose(enc)
    assert angles[0] == 0


def test_more_frequencies_than_positions_need_a_wave_for_few_lags(angles):
    enc = load("dft", 64, 2**17)
    angles[0] = 0
    decompose(enc)
    assert angles[0] <= 4 * len(enc.measure.frequencies)


def test_parts_too_large_for_both_are_taken_in_turn(closed, monkeypatch):
    enc = build("sinusoidal", length=300, d=24)
    both = decompose(enc).sigma
    monkeypatch.setattr(even_odd_svd, "BOTH", 0)
    monkeypatch.setattr(even_odd_svd, "map_ahead", None)
    np.testing.assert_array_equal(decompose(enc).sigma, both)
