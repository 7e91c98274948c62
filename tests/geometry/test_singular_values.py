"""Singular values and projections: against numpy, arb and mpmath, by matrices and closed forms."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from pefourier.encodings import build
from pefourier.encodings.domain import positions
from pefourier.encodings.encoding import KernelMeasure, ShiftInvariantEncoding, from_table
from pefourier.geometry import singular_values
from pefourier.geometry.dirichlet_gram import (
    UNIT,
    add,
    dirichlet_gram,
    matrix_product,
    product,
    quotient,
    split,
    two_sum,
)
from pefourier.geometry.even_odd_svd import ERROR, cosine_sums
from pefourier.geometry.singular_values import decompose


def measure(frequencies, weights=None, size=1.0, **facts):
    omega = np.asarray(frequencies, dtype=float)
    weights = np.full(len(omega), 1 / len(omega)) if weights is None else np.asarray(weights)
    return KernelMeasure(omega, weights, squared_length=size, **facts)


def declared(frequencies, length):
    """The encoding of cosines and sines that a measure of equal weights declares."""
    own = measure(frequencies, size=float(len(frequencies)))

    def codes(x):
        phases = own.phases(x)
        return np.hstack([np.cos(phases), np.sin(phases)])

    return ShiftInvariantEncoding(
        "waves", positions(length), 2 * len(frequencies), codes, measure=own
    )


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
    monkeypatch.setattr("pefourier.geometry.even_odd_svd.BLOCK", size)
    monkeypatch.setattr("pefourier.geometry.even_odd_svd.DIRECT", size)
    monkeypatch.setattr("pefourier.geometry.singular_values.AT_ONCE", size)
    enc = CASES[name]
    table = enc.table()
    left, sigma, _ = np.linalg.svd(table, full_matrices=False)
    factors = decompose(enc)
    np.testing.assert_allclose(factors.sigma, sigma, atol=2e-13 * sigma[0])
    above = sigma > factors.tolerance
    assert factors.rank == above.sum() == np.linalg.matrix_rank(table)
    full = factors.rank == min(table.shape)
    assert (factors.condition_number is not None) == full
    kept = sigma > 1e-5 * sigma[0]
    if (kept == above).all():  # else projections depend on rounding
        projection = left[:, kept] @ left[:, kept].T - np.eye(len(enc))
        assert factors.inverse_error() == pytest.approx(np.abs(projection).max(), abs=1e-9)
        for s in (0, len(enc) // 2, len(enc) - 1):
            row = np.abs(projection[s]).max()
            assert factors.inverse_error(s) == pytest.approx(row, abs=1e-9)


# (length, d, rho): singular values by place, of inner products in 260 bits (python-flint, arb)
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
    monkeypatch.setattr("pefourier.geometry.even_odd_svd.DIRECT", 0)
    factors = decompose(build("sinusoidal", length=length, d=d, rho=rho))
    table = BY_ARB[length, d, rho]
    assert factors.rank == max(table) + 1
    for place, sigma in table.items():
        assert abs(factors.sigma[place] - sigma) <= 2e-15 * factors.sigma[0]
        assert factors.sigma[place] == pytest.approx(sigma, rel=1e-6)


def test_coarse_storage_raises_the_tolerance():
    """Rounding to float32 lifts the small singular values; they are still not a rank."""
    table = build("sinusoidal", length=80, d=256).table().astype(np.float32)
    assert np.linalg.matrix_rank(table.astype(float)) == 80
    rank = decompose(from_table(table, eps=2.0**-23)).rank
    assert 30 <= rank <= 36
    assert decompose(from_table(table.astype(float))).rank == rank  # stored wider


@pytest.mark.parametrize(("length", "d", "numbers"), [(200001, 64, 2**19), (20000, 256, 2**14)])
def test_bounds_are_below_the_leverage_and_rule_rows_out(length, d, numbers, monkeypatch):
    monkeypatch.setattr(singular_values, "AT_ONCE", numbers)
    factors = decompose(build("rope" if d == 64 else "sinusoidal", length=length, d=d))
    exact = np.concatenate([factors.leverage(rows) for rows in factors.row_blocks()])
    bounds = factors.bounds()
    assert (bounds <= exact + 1e-12).all()
    assert np.abs(bounds - exact).max() < (1e-9 if d == 64 else 1)
    assert factors.inverse_error() == pytest.approx(1 - exact.min(), abs=1e-10)


TURN = 2 * np.pi
GRAMS = {
    "geometric": (build("sinusoidal", d=40).measure, 1000),
    "odd length": (build("rope", d=40, rho=5e5).measure, 1001),
    "long": (build("sinusoidal", d=24).measure, 2**20 + 1),
    "dft": (build("dft", d=30).measure, 64),
    "dft, longer than its odd period": (build("dft", d=15).measure, 1003),
    "zero": (measure([0.0, 0.0, 1e-300, 0.5]), 101),
    "nearly equal": (measure([0.3, 0.3, np.nextafter(0.3, 1), 0.3 + 1e-9, 0.3 + 1e-5]), 5000),
    "sums of a turn": (measure([3.0, TURN - 3.0, TURN - 3.0 + 1e-12, np.pi, 1.0, TURN]), 500),
    "sums of a turn, odd": (measure([3.0, TURN - 3.0, TURN - 3.0 + 1e-12, np.pi, TURN]), 501),
    "aliases": (measure([0.5, 0.5 + TURN, 100.0, 12345.678]), 300),
    "slow": (measure(10.0 ** -np.arange(0.0, 60, 4)), 4096),
    "weights": (measure([0.1, 0.7, 2.0, 1.0], [0.9, 0.1, 1e-12, 0.0]), 77),
}


LOSING = ("nearly equal", "sums of a turn", "sums of a turn, odd", "aliases")


def dirichlet(x, n):
    """Sum of cos(x t), by the closed form, or with as many digits where that is 0 / 0."""
    turns = mpmath.nint(x / (2 * mpmath.pi))
    half = (x - 2 * mpmath.pi * turns) / 2
    sign = -1 if int(turns) * (n - 1) % 2 else 1
    if abs(half) < mpmath.mpf(10) ** -60:
        return mpmath.mpf(sign * n)
    return sign * mpmath.sin(n * half) / mpmath.sin(half)


def exact_product(case, n, wave, i, j):
    if case.period is None:
        a, b = (mpmath.mpf(float(case.frequencies[k])) for k in (i, j))
    else:
        a, b = (2 * mpmath.pi * int(case.index(case.period)[k]) / case.period for k in (i, j))
    size = mpmath.mpf(float(case.amplitudes[i])) * mpmath.mpf(float(case.amplitudes[j]))
    sign = 1 if wave == "cosines" else -1
    return size * (dirichlet(a - b, n) + sign * dirichlet(a + b, n)) / 2


@pytest.mark.parametrize("wave", ["cosines", "sines"])
@pytest.mark.parametrize("name", GRAMS)
def test_inner_products_of_waves_are_exact_to_their_bound(name, wave):
    case, n = GRAMS[name]
    found, m = dirichlet_gram(case, n, wave), len(case.frequencies)
    size = n * float((case.amplitudes**2).max())
    assert (found.error <= 1e-25 * size * m) == (name not in LOSING)
    with mpmath.workdps(120):
        squared = sum(
            (sum(mpmath.mpf(float(part[i, j])) for part in found.values) - product) ** 2
            for i, j in np.ndindex(m, m)
            for product in [exact_product(case, n, wave, i, j)]
        )
        assert mpmath.sqrt(squared) <= found.error + 1e-31 * size
        assert name == "zero" or 25 <= found.error / mpmath.sqrt(squared) <= 110  # and no looser


def exactly(pair, *index):
    return sum(Fraction(float(part[index])) for part in pair)


OPERATIONS = {
    "sum": (add, lambda a, b: a + b),
    "product": (lambda a, b: product(split(*a), split(*b)), lambda a, b: a * b),
    "quotient": (quotient, lambda a, b: a / b),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_on_pairs_errs_by_less_than_its_unit(name, rng):
    operation, exact = OPERATIONS[name]
    size = 10.0 ** rng.integers(-9, 9, 50)
    a, b = (
        two_sum(rng.normal(size=50) * size, rng.normal(size=50) * size * 1e-17) for _ in range(2)
    )
    found = operation(a, b)
    for i in range(50):
        x, y = exactly(a, i), exactly(b, i)
        largest = max(abs(x), abs(y)) if name == "sum" else abs(exact(x, y))
        assert abs(exactly(found, i) - exact(x, y)) <= largest * UNIT


def test_a_matrix_product_keeps_digits_that_float64_cancels(rng):
    """Columns of b are nearly in the kernel of a: what is left is 1e-16 of the terms."""
    basis = np.linalg.qr(rng.normal(size=(60, 60)))[0]
    a = (basis * 10.0 ** -np.linspace(0, 30, 60)) @ basis.T, 1e-17 * rng.normal(size=(60, 60))
    b = np.linalg.eigh(a[0])[1][:, :4]
    found = matrix_product(a, b)
    for i, j in [(0, 0), (17, 3), (59, 2)]:
        true = sum(exactly(a, i, k) * Fraction(float(b[k, j])) for k in range(60))
        assert abs(Fraction(float(found[i, j])) - true) <= 1e-30
    a, b = rng.normal(size=(5, 40)) * 1e90, rng.normal(size=(40, 3)) * 1e-90
    np.testing.assert_allclose(matrix_product((a, np.zeros_like(a)), b), a @ b, rtol=0, atol=1e-13)
    assert not matrix_product((np.zeros((2, 3)), np.zeros((2, 3))), np.ones((3, 1))).any()


@pytest.mark.parametrize("n", [1, 2, 7, 1000])
def test_sums_of_cosines_are_within_their_bound(rng, n):
    angles, weights = rng.uniform(-9, 9, (40, 50)), rng.normal(size=(40, 50))
    angles[0, :5] = [0.0, np.pi, -np.pi, 2 * np.pi, 1e-300]
    direct = np.cos(np.multiply.outer(np.arange(n), angles.ravel())) @ weights.ravel()
    halves = [(angles[:20], weights[:20]), (angles[20:], weights[20:])]
    assert np.abs(cosine_sums(halves, n) - direct).max() <= ERROR * np.abs(weights).sum()
    for angle in rng.uniform(0, np.pi, 50):  # the worst case: nothing averages out
        one = cosine_sums([(np.array([angle]), np.ones(1))], n)
        assert np.abs(one - np.cos(np.arange(n) * angle)).max() <= ERROR
