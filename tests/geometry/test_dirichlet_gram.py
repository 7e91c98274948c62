"""Inner products of waves in closed form, in many digits, against mpmath."""

import mpmath
import numpy as np
import pytest

from pefourier.encodings import build
from pefourier.encodings.encoding import Measure
from pefourier.geometry.dirichlet_gram import dirichlet_gram

DIGITS = 120


def measure(frequencies, weights=None, **facts):
    omega = np.asarray(frequencies, dtype=float)
    weights = np.full(len(omega), 1 / len(omega)) if weights is None else np.asarray(weights)
    return Measure(omega, weights, 1.0, **facts)


TURN = 2 * np.pi
CASES = {
    "geometric": (build("sinusoidal", d=40).measure, 1000),
    "odd length": (build("rope:rho=5e5".partition(":")[0], d=40, rho=5e5).measure, 1001),
    "long": (build("sinusoidal", d=24).measure, 2**20 + 1),
    "dft": (build("dft", d=30).measure, 64),
    "dft, odd": (build("dft", d=15).measure, 45),
    "dft, longer than its period": (build("dft", d=12).measure, 1003),
    "equal": (measure([0.3, 0.3, 1.0, 1.0, 1.0]), 100),
    "zero": (measure([0.0, 0.0, 1e-300, 0.5]), 101),
    "nearly equal": (measure([0.3, np.nextafter(0.3, 1), 0.3 + 1e-9, 0.3 + 1e-5]), 5000),
    "sums of a turn": (measure([3.0, TURN - 3.0, TURN - 3.0 + 1e-12, np.pi, 1.0, TURN]), 500),
    "sums of a turn, odd": (measure([3.0, TURN - 3.0, TURN - 3.0 + 1e-12, np.pi, TURN]), 501),
    "aliases": (measure([0.5, 0.5 + TURN, 100.0, 12345.678]), 300),
    "slow": (measure(10.0 ** -np.arange(0.0, 60, 4)), 4096),
    "weights": (measure([0.1, 0.7, 2.0], [0.9, 0.1, 1e-12]), 77),
    "no weight": (measure([0.1, 0.7, 2.0], [0.5, 0.5, 0.0]), 77),
}


def dirichlet(x, n):
    """Sum of cos(x t), by the closed form, or with as many digits where that is 0 / 0."""
    turns = mpmath.nint(x / (2 * mpmath.pi))
    half = (x - 2 * mpmath.pi * turns) / 2
    sign = -1 if int(turns) * (n - 1) % 2 else 1
    if abs(half) < mpmath.mpf(10) ** -(DIGITS // 2):
        return mpmath.mpf(sign * n)
    return sign * mpmath.sin(n * half) / mpmath.sin(half)


def exact_product(case, n, wave, i, j):
    if case.period is None:
        a, b = (mpmath.mpf(float(case.frequencies[k])) for k in (i, j))
    else:
        a, b = (2 * mpmath.pi * int(case.index[k]) / case.period for k in (i, j))
    size = mpmath.mpf(float(case.amplitudes[i])) * mpmath.mpf(float(case.amplitudes[j]))
    sign = 1 if wave == "cosines" else -1
    return size * (dirichlet(a - b, n) + sign * dirichlet(a + b, n)) / 2


@pytest.mark.parametrize("wave", ["cosines", "sines"])
@pytest.mark.parametrize("name", CASES)
def test_products_are_exact_to_their_bound(name, wave):
    case, n = CASES[name]
    found = dirichlet_gram(case, n, wave)
    m = len(case.frequencies)
    size = n * float((case.amplitudes**2).max())
    assert found.error <= 1e-27 * size * m
    with mpmath.workdps(DIGITS):
        squared = sum(
            (
                mpmath.mpf(float(found.values[0][i, j]))
                + mpmath.mpf(float(found.values[1][i, j]))
                - exact_product(case, n, wave, i, j)
            )
            ** 2
            for i in range(m)
            for j in range(m)
        )
        assert mpmath.sqrt(squared) <= found.error + 1e-31 * size


@pytest.mark.parametrize("wave", ["cosines", "sines"])
def test_products_are_those_of_the_waves(wave):
    case = build("sinusoidal", d=24).measure
    for n in (90, 91):
        t = np.arange(n) - (n - 1) / 2
        waves = np.cos if wave == "cosines" else np.sin
        table = waves(np.multiply.outer(t, case.frequencies)) * case.amplitudes
        found = dirichlet_gram(case, n, wave).values
        np.testing.assert_allclose(found[0], table.T @ table, atol=1e-12)


def test_more_lost_digits_than_can_be_mended_are_told(monkeypatch):
    """Frequencies all alike: each kernel loses digits, and only some are computed one by one."""
    monkeypatch.setattr("pefourier.geometry.dirichlet_gram.FEW", 0)
    alike = measure(1 + 1e-14 * np.arange(60.0))
    assert not dirichlet_gram(alike, 1000, "cosines").error <= 1e-22
    few = measure(1 + 1e-14 * np.arange(10.0))
    assert dirichlet_gram(few, 1000, "cosines").error <= 1e-27
