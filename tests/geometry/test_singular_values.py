"""Singular values and projections equal those of numpy, arb, mpmath and closed forms."""

from dataclasses import replace

import numpy as np
import pytest
from grids import waves_on
from numpy.testing import assert_allclose

from pefourier.encodings import build
from pefourier.encodings.encoding import FLOAT64_EPS, from_table
from pefourier.geometry import singular_values
from pefourier.geometry.singular_values import decompose


def declared(frequencies, length):
    return waves_on(length, frequencies, squared_length=float(len(frequencies)))


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
    "wide, dft": build("dft", length=40, d=91),
    "wide, one position": build("sinusoidal", length=1, d=8),
    "wide, well conditioned": build("learnable-sinusoidal", length=31, d=256),
    "a grid": build("mixed-rope", grid=(6, 7), d=16),
    "a tall table": build("learned", length=100, d=20),
    "a wide table": build("learned", length=20, d=100),
    "zeros": build("none", length=5, d=3),
}


@pytest.mark.parametrize("size", [2**20, 37])
@pytest.mark.parametrize("name", CASES)
def test_factors_are_those_of_the_whole_table(name, size, monkeypatch):
    monkeypatch.setattr(singular_values, "BLOCK", size)
    monkeypatch.setattr("pefourier.geometry.singular_values.AT_ONCE", size)
    enc = CASES[name]
    table = enc.table()
    left, sigma, _ = np.linalg.svd(table, full_matrices=False)
    factors = decompose(enc)
    assert_allclose(factors.sigma, sigma, atol=2e-13 * sigma[0])
    above = sigma > factors.tolerance
    assert factors.rank == above.sum() == np.linalg.matrix_rank(table)
    full = factors.rank == min(table.shape)
    assert (factors.condition_number is not None) == full
    kept = sigma > 1e-5 * sigma[0]
    if (kept == above).all():  # otherwise projections depend on rounding
        projection = left[:, kept] @ left[:, kept].T - np.eye(len(enc))
        assert factors.inverse_error() == pytest.approx(np.abs(projection).max(), abs=1e-9)
        rows = [0, len(enc) // 2, len(enc) - 1]
        errors = factors.inverse_errors(rows)
        assert errors == pytest.approx(np.abs(projection[rows]).max(axis=1), abs=1e-9)


# (length, d, rho): singular values by index, of inner products in 260 bits (python-flint, arb)
BY_ARB = {
    (4096, 256, 1e4): {
        0: 321.06968672137236,
        74: 45.32366825689946,
        145: 3.9301717566499967e-07,
        147: 2.8497296018156607e-09,
    },
    (2048, 512, 5e5): {
        0: 505.7018059482199,
        81: 32.42296089593918,
        160: 1.6026607027024036e-07,
        162: 1.6461280585511998e-09,
    },
}


@pytest.mark.parametrize(("length", "d", "rho"), BY_ARB)
def test_singular_values_have_their_digits_down_to_the_tolerance(length, d, rho, monkeypatch):
    monkeypatch.setattr(singular_values, "BLOCK", 0)
    factors = decompose(build("sinusoidal", length=length, d=d, rho=rho))
    table = BY_ARB[length, d, rho]
    assert factors.rank == max(table) + 1
    for place, sigma in table.items():
        assert abs(factors.sigma[place] - sigma) <= 2e-15 * factors.sigma[0]


def test_coarse_storage_raises_the_tolerance():
    """Rounding to float32 raises small singular values, but not the rank."""
    table = build("sinusoidal", length=80, d=256).table().astype(np.float32)
    assert np.linalg.matrix_rank(table.astype(float)) == 80
    rank = decompose(from_table(table, eps=2.0**-23)).rank
    assert 30 <= rank <= 36
    assert decompose(from_table(table.astype(float))).rank == rank  # stored in a wider dtype


LONG = [(1e3, 40_000, 64), (5e5, 40_001, 64), (1e4, 4097, 640)]  # rho, n, d


@pytest.mark.parametrize(("rho", "n", "d"), LONG)
def test_long_declared_vectors_have_the_factors_of_their_table(rho, n, d, monkeypatch):
    """From inner products alone, with few small singular values, and with many below rounding.

    Rounding moves singular values by a few eps of the largest one, and their space by the sine of
    an angle of at most this over the gap at the cut (Wedin, 1972). Two decompositions thus agree
    to 1e-9 where singular values are cut at 1e-6 of the largest, and not at the rank's tolerance.
    """
    monkeypatch.setattr(singular_values, "BLOCK", 2**14)
    monkeypatch.setattr(singular_values, "FEW_PRODUCTS", 0)
    enc = build("rope", length=n, d=d, rho=rho)
    factors, table = decompose(enc), enc.table()
    left, sigma, _ = np.linalg.svd(table, full_matrices=False)
    error = 4 * FLOAT64_EPS * sigma[0]
    assert_allclose(factors.sigma, sigma, rtol=0, atol=2e-13 * sigma[0])
    for cut in (factors.tolerance, 1e-6 * sigma[0]):
        kept = replace(factors, tolerance=cut)
        assert kept.rank == (sigma > cut).sum()
        gap = sigma[kept.rank - 1] - np.append(sigma, 0.0)[kept.rank]
        leverage = (left[:, : kept.rank] ** 2).sum(axis=1)
        assert kept.inverse_error() == pytest.approx(1 - leverage.min(), abs=error / gap)
