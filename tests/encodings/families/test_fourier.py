"""Sines and cosines off the geometric grid: formulas and published values."""

import math

import numpy as np
import pytest
from refusal import refused

from pefourier.encodings import load
from pefourier.questions.faithful import assess
from pefourier.questions.spectrum import density


@pytest.mark.parametrize(
    ("length", "d", "rise", "distance", "stable_rank"),
    [
        (100, 16, 23, 0.16849, 1.366),
        (512, 64, 41, 0.18887, 1.578),
        (1024, 128, 46, 0.24985, 1.766),
    ],
)
def test_tape_stretches_the_kernel(length, d, rise, distance, stable_rank):
    enc = load("tape", length=length, d=d)
    kernel = enc.measure.kernel(np.arange(length))
    assert np.flatnonzero(np.diff(kernel) > 0)[0] + 1 == rise
    found = assess(enc)
    assert abs(found.min_distance - distance) < 5e-6
    assert abs(found.stable_rank - stable_rank) < 5e-4


def test_tape_is_the_formula_of_convtran():
    table, length, d = load("tape", length=6, d=4).table(), 6, 4
    for s in range(length):
        for i in range(0, d, 2):
            phase = s * math.exp(i * -math.log(10000.0) / d) * (d / length)
            assert abs(table[s, i] - math.sin(phase)) < 1e-15
            assert abs(table[s, i + 1] - math.cos(phase)) < 1e-15


def test_fourier_features_are_cosines_then_sines_of_gaussian_frequencies():
    table = load("fourier-features:scale=3", length=10, d=6, seed=5).table()
    b = 3 * np.random.RandomState(5).normal(size=3)
    assert b.min() < 0 < b.max()  # the sine keeps the sign that the measure drops
    for s in range(10):
        for j in range(3):
            assert abs(table[s, j] - math.cos(2 * math.pi * b[j] * s / 10)) < 1e-14
            assert abs(table[s, 3 + j] - math.sin(2 * math.pi * b[j] * s / 10)) < 1e-14


def test_fourier_features_of_positions_do_not_depend_on_the_length():
    spec = "fourier-features:coordinates=position,scale=0.1"
    assert np.array_equal(load(spec, length=5, d=6).table(), load(spec, length=9, d=6).table()[:5])


def test_learnable_sinusoidal_may_start_on_the_geometric_grid():
    started = load("learnable-sinusoidal:start=geometric,layout=halves", length=9, d=6, rho=50.0)
    grid = load("sinusoidal:layout=halves", length=9, d=6, rho=50.0)
    assert np.array_equal(started.table(), grid.table())


def test_learnable_sinusoidal_starts_with_a_flat_spectrum():
    flat = density(load("learnable-sinusoidal", d=4096), lattice=64).summary
    grid = density(load("sinusoidal", d=4096), lattice=64).summary
    assert flat.flatness > 0.97 > 0.8 > grid.flatness


@pytest.mark.parametrize("name", ["learnable-sinusoidal", "fourier-features", "tape", "mtan-fixed"])
def test_an_odd_d_is_refused(name):
    refused(f"{name} has pairs and needs an even d; got d=7; write d=6 or d=8", name, d=7)


@pytest.mark.parametrize("name", ["fourier-features", "t5", "erpe", "tupe", "learned"])
def test_a_scale_of_nothing_is_refused(name):
    refused("scale must be a finite number above 0; got 0.0", f"{name}:scale=0")


@pytest.mark.parametrize("scale", [4.0, 10.0, 25.0])
def test_the_length_scale_of_fourier_features_is_as_explained(scale):
    """Half at 0.187/scale of the range, and 1/√d by chance far away."""
    table = load(f"fourier-features:scale={scale}", 2000, 2048).table()
    products = table @ table[0] / (table[0] @ table[0])
    lag = np.argmax(products < 0.5) / 2000
    assert lag == pytest.approx(0.187 / scale, rel=0.1)
    near = np.arange(0, round(0.3 / scale * 2000)) / 2000
    gaussian = np.exp(-((2 * np.pi * scale * near) ** 2) / 2)
    np.testing.assert_allclose(products[: len(near)], gaussian, atol=0.1)
    assert np.sqrt((products[1000:] ** 2).mean()) == pytest.approx(2048**-0.5, rel=0.5)
