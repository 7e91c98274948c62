"""Numbers of 32 digits against fractions."""

from fractions import Fraction

import numpy as np
import pytest

from pefourier.geometry.double_double import (
    UNIT,
    add,
    matrix_product,
    product,
    quotient,
    split,
    two_sum,
)


def exactly(pair, *index):
    return sum(Fraction(float(part[index])) for part in pair)


@pytest.fixture
def pairs(rng):
    """Two pairs of numbers of many sizes."""
    size = 10.0 ** rng.integers(-9, 9, 50)
    return [two_sum(rng.normal(size=50) * size, rng.normal(size=50) * size * 1e-17) for _ in "ab"]


@pytest.mark.parametrize(
    ("operation", "exact"),
    [
        (add, lambda a, b: a + b),
        (lambda a, b: product(split(*a), split(*b)), lambda a, b: a * b),
        (quotient, lambda a, b: a / b),
    ],
    ids=["sum", "product", "quotient"],
)
def test_an_operation_errs_by_less_than_its_unit(pairs, operation, exact):
    a, b = pairs
    found = operation(a, b)
    for i in range(50):
        true = exact(exactly(a, i), exactly(b, i))
        size = max(abs(true), *(abs(exactly(p, i)) for p in pairs)) if operation is add else true
        assert abs(exactly(found, i) - true) <= abs(size) * UNIT


def test_a_matrix_product_keeps_digits_that_float64_cancels(rng):
    """Columns of b are nearly in the kernel of a: what is left is 1e-16 of the terms."""
    basis = np.linalg.qr(rng.normal(size=(60, 60)))[0]
    a = (basis * 10.0 ** -np.linspace(0, 30, 60)) @ basis.T, 1e-17 * rng.normal(size=(60, 60))
    b = np.linalg.eigh(a[0])[1][:, :4]
    found = matrix_product(a, b)
    for i, j in [(0, 0), (17, 3), (59, 2)]:
        true = sum(exactly(a, i, k) * Fraction(float(b[k, j])) for k in range(60))
        assert abs(Fraction(float(found[i, j])) - true) <= 1e-30
    assert np.abs(found).max() < 1e-14


def test_a_matrix_product_of_any_numbers(rng):
    a, b = rng.normal(size=(5, 40)) * 1e90, rng.normal(size=(40, 3)) * 1e-90
    found = matrix_product((a, np.zeros_like(a)), b)
    np.testing.assert_allclose(found, a @ b, rtol=0, atol=1e-13)
    assert not matrix_product((np.zeros((2, 3)), np.zeros((2, 3))), np.ones((3, 1))).any()
