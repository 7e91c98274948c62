"""Relations between vectors: published numbers, closed forms and slow references."""

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

import pefourier.encodings
from pefourier.encodings import load
from pefourier.encodings.encoding import as_encoding
from pefourier.encodings.registry import build
from pefourier.questions.relations import kernel, relate, rises, shift_residual

ROOM = sys.modules["pefourier.questions.relations"]  # the package exports the function
KERNELS = {  # k(lag)/k(0) at lags 1, 2, 10, 50, 100, 511, and the first lag at which it rises
    16: (None, 4),
    64: ((0.966151, 0.884496, 0.657863, 0.489806, 0.558583, 0.200753), 6),
    128: ((0.970214, 0.896592, 0.669063, 0.546172, 0.477241, 0.211428), 12),
    768: ((0.97336, 0.906143, 0.680028, 0.512001, 0.436889, 0.246429), 44),
}


@pytest.mark.parametrize("d", KERNELS)
def test_kernel_of_the_sinusoidal_encoding(d):
    values, rise = KERNELS[d]
    declared = kernel(build("sinusoidal", length=512, d=d))
    if values:
        assert declared[[1, 2, 10, 50, 100, 511]] == pytest.approx(values, abs=5e-7)
    assert rises(declared).argmax() == rise


def test_rounding_is_no_rise_and_zeros_have_no_kernel():
    assert relate(build("dft", length=40, d=64).table()).first_rise is None
    assert relate(build("dft", length=65, d=64).table()).first_rise == 64
    assert relate(build("dft", length=80, d=16)).zero is None  # orthogonal up to rounding
    r = relate(np.zeros((6, 3)))
    assert (r.shift_residual, r.toeplitz_residual, r.kernel) == (0.0, 0.0, None)
    assert (r.first_rise, r.distance_preservation, r.verdict) == (None, None, "zero codes")


def left(table, before, after):
    """Return the relative residual of the best linear map between rows, by a projection."""
    before, after = (x.reshape(-1, table.shape[-1]) for x in (before, after))
    rest = after - before @ np.linalg.pinv(before) @ after
    return pytest.approx(np.linalg.norm(rest) / np.linalg.norm(after), rel=1e-9)


def test_one_matrix_maps_each_vector_to_the_next(rng):
    table = rng.normal(size=(50, 8))
    assert shift_residual(as_encoding(table)) == left(table, table[:-1], table[1:])
    waves = as_encoding(build("sinusoidal", length=50, d=8).table())
    assert shift_residual(waves) < 1e-11
    assert shift_residual(build("learned", length=64, d=64)) is None  # some matrix fits
    assert shift_residual(as_encoding(np.ones((1, 4)))) is None


def test_a_shift_along_an_axis_is_fitted_to_a_grid(rng):
    table = rng.normal(size=(5, 6, 3))
    assert relate(load("axial", None, 8, grid=(5, 6))).shift_residual == [0.0, 0.0]
    result = pefourier.relations(table.reshape(30, 3), grid=(5, 6))
    down, right = (left(table, table[:-1], table[1:]), left(table, table[:, :-1], table[:, 1:]))
    assert result.shift_residual == [down, right]


def test_distances_of_a_ramp_are_those_of_positions(monkeypatch):
    assert relate(build("ramp", length=40, d=3)).distance_preservation == pytest.approx(1)
    assert relate(build("dft", length=40, d=64)).distance_preservation is None  # equal distances
    assert abs(relate(build("learned", length=80, d=64)).distance_preservation) < 0.1
    enc = build("sinusoidal", length=300, d=16)
    whole = relate(enc).distance_preservation
    table, (i, j) = enc.table(), np.triu_indices(300, 1)
    distances = np.linalg.norm(table[i] - table[j], axis=1)
    assert whole == pytest.approx(np.corrcoef(distances, j - i)[0, 1])
    monkeypatch.setattr(ROOM, "SAMPLE", 100)
    assert relate(enc).distance_preservation == pytest.approx(whole, abs=0.01)


def test_biases_of_lags():
    alibi = relate(build("alibi", length=9, d=4))
    assert (alibi.asymmetry, alibi.zero, alibi.verdict) == (0.0, None, "distance only")
    slopes, lags = 2.0 ** -np.arange(2, 9, 2), np.arange(400)
    assert_allclose(alibi.by_lag, -slopes.mean() * lags[:9])
    weights = np.exp(-np.outer(lags, slopes)).mean(axis=1)
    long = relate(build("alibi", length=400, d=4))
    assert (long.half, long.tenth) == tuple((weights <= level).argmax() for level in (0.5, 0.1))
    assert (long.length, len(long.by_lag), long.tenth > long.half) == (400, 400, True)
    t5 = relate(build("t5", length=80, d=4))
    assert (t5.asymmetry > 0.1, t5.verdict) == (True, "direction told")
    assert t5.zero == (np.sign(t5.by_lag) == -np.sign(t5.by_lag[0])).argmax()
    window = build("beit", length=9, d=4)  # on a line, after 3 rows; in one direction before
    table = window.table()[3:]
    asymmetry = np.linalg.norm(table - table[::-1]) / (2 * np.linalg.norm(table))
    found = relate(window)
    assert (found.length, found.asymmetry) == (9, pytest.approx(asymmetry))
    assert_allclose(found.by_lag, table[8::-1].mean(axis=1))
