"""Sinusoid pairs of columns are found, and random rows are recognised."""

import numpy as np
import pytest

from pefourier.construction.waves import align, deviations, fit_columns, numbers_look_random
from pefourier.encodings import load
from pefourier.encodings.registry import BUILDERS
from pefourier.errors import PefourierError
from pefourier.questions.check_faithful import check_faithful


@pytest.mark.parametrize("unit", [2.0, 2e-80])
@pytest.mark.parametrize("n", [4, 60])
def test_sinusoid_pairs_are_found_in_any_order(rng, n, unit):
    omega = np.array([1.0, 0.3, 2.5, 0.01])
    phase = np.multiply.outer(np.arange(n) + 3.5, omega)
    table = unit * np.hstack([np.sin(phase), np.cos(phase)])
    found = fit_columns(table[:, rng.permutation(8)], 2.0**-52)
    order = np.argsort(found.frequency)
    np.testing.assert_allclose(found.frequency[order], np.sort(omega), rtol=1e-9)
    np.testing.assert_allclose(found.amplitude, unit)
    assert fit_columns(rng.standard_normal((n, 8)), 2.0**-52) is None
    sorted_pairs = fit_columns(table, 2.0**-52)
    rotated, sign, offset = align(sorted_pairs, np.zeros(4), n, 2.0**-52)
    assert offset == pytest.approx(3.5)
    sines = unit * np.sin(np.outer(np.arange(n) + offset, rotated.frequency))
    np.testing.assert_allclose(table[:, rotated.columns[1]] * sign[1], sines, atol=1e-9 * unit)


SHAPES = [(25, 16), (64, 64), (256, 40)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_random_tables_are_recognised_but_one_in_a_thousand(shape):
    draw = np.random.default_rng(7).normal
    found = np.array([deviations(draw(size=shape)) for _ in range(8000 // shape[0])])
    assert np.mean(np.abs(found).max(axis=1) > 4.5) <= 0.01
    np.testing.assert_allclose(found.std(axis=0), 1, atol=0.35)


DRAWN = {"beit", "erpe", "learned", "swin"}  # without an order, before training


@pytest.mark.parametrize("name", sorted(BUILDERS))
def test_only_what_is_drawn_looks_random(name):
    for n, d in [(32, 16), (64, 64), (80, 256), (196, 64), (400, 32)]:
        try:
            table = np.asarray(load(name, n, d).table(), dtype=float)
        except PefourierError:  # its dimension is that of heads or of a grid
            continue
        is_drawn = name in DRAWN or (name == "deberta" and n <= 128)  # lags without a common bucket
        assert numbers_look_random(table) == is_drawn


def test_structure_of_any_kind_is_no_noise(rng):
    noise, waves = rng.normal(size=(64, 64)), load("sinusoidal", 64, 64).table()
    tables = [noise, rng.permutation(waves), noise + waves, np.linalg.qr(noise)[0]]
    found = ["random-codes" in [f.code for f in check_faithful(table).findings] for table in tables]
    assert found == [True, False, False, False]
