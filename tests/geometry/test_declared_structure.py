"""Declared structure avoids dense computations where a short one is exact."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refusal

from pefourier.encodings import build
from pefourier.encodings import encoding as encodings
from pefourier.encodings.encoding import axis_encodings, from_table
from pefourier.encodings.grids import on_grid
from pefourier.encodings.sources.tables import read_table, rows_of_vectors, write_table
from pefourier.geometry import precision
from pefourier.geometry.precision import FORMATS, format_losses
from pefourier.geometry.singular_values import decompose
from pefourier.questions.check_faithful import check_faithful


def grid_table(dtype, *, constant=False, factor=1.0):
    rng = np.random.default_rng(3)
    y, x = rng.normal(size=(6, 4)), rng.normal(size=(9, 5))
    table = factor * np.hstack([np.repeat(y, 9, axis=0), np.tile(x, (6, 1))])
    table[:, :1] = 1.5 if constant else table[:, :1]
    eps = float(np.finfo(dtype).eps)
    return on_grid(from_table(table.astype(dtype), eps=eps), (6, 9), 0)


SEPARABLE = {
    "axial": build("axial", d=32, grid=(6, 9)),
    "rotation": build("axial-rope", d=24, grid=(3, 40), prefix=1),
    "frames": build("axial", d=48, grid=(3, 4, 5)),
    "far": build("axial", d=8, grid=(2, 600)),
    "one row": build("axial", d=16, grid=(1, 9)),
    "float32": grid_table(np.float32),
    "float16": grid_table(np.float16),
    "constant column": grid_table(np.float64, constant=True),
    "beyond float16": grid_table(np.float64, factor=5e4),
}


@pytest.mark.parametrize("name", SEPARABLE)
def test_a_grid_by_its_axes_is_what_its_table_is(name):
    enc = encodings.without_prefix(SEPARABLE[name])
    assert [len(line) for line in axis_encodings(enc)] == list(enc.domain.sides)
    whole, by_axes = format_losses(enc, FORMATS), precision.precision(enc)
    for form, loss in whole.items():
        assert vars(by_axes[form]) == pytest.approx(vars(loss), nan_ok=True)
    factors, table = decompose(enc), np.asarray(enc.table(), dtype=float)
    sigma = np.linalg.svd(table, compute_uv=False)
    assert_allclose(factors.sigma, sigma, atol=1e-12 * sigma[0])
    left = np.linalg.svd(table, full_matrices=False)[0][:, : factors.rank]
    rows = np.arange(len(enc))
    if sigma[factors.rank - 1] > 1e-3 * sigma[0]:
        assert_allclose((factors.left(rows) ** 2).sum(axis=1), (left**2).sum(axis=1), atol=1e-9)


def test_orthonormal_rows_beyond_memory_are_isometric(rng):
    n = 2**14
    enc = build("onehot", length=n, d=n)
    rows = rng.integers(0, n, 50)
    sample = enc.vectors(rows)
    assert_array_equal(sample @ sample.T, np.equal.outer(rows, rows))
    result = check_faithful(enc)
    assert (result.verdict, result.rank, result.distinct) == ("isometric", n, n)
    assert (result.condition_number, result.inverse_error) == (1.0, 0.0)
    assert result.min_distance == pytest.approx(2**0.5, rel=1e-12)
    assert {loss.distinct_cast for loss in result.precision.values()} == {n}
    assert {loss.distinct_phase for loss in result.precision.values()} == {None}


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".safetensors"])
def test_a_table_that_memory_does_not_hold_is_written_in_blocks(suffix, monkeypatch, tmp_path):
    enc = build("rope", length=2**13, d=64)
    table, path = enc.table(), str(tmp_path / f"x{suffix}")
    monkeypatch.setattr("pefourier.encodings.encoding.COMPUTED", 2**16)
    monkeypatch.setattr("pefourier.encodings.sources.tables.AT_ONCE", 2**15)
    with refusal("limit"):
        enc.table()
    tracemalloc.start()
    write_table(path, rows_of_vectors(enc, enc.domain.x))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < table.nbytes / 2
    assert_array_equal(read_table(path)[0], table)


def test_millions_of_rows_are_never_read():
    result = check_faithful(build("sinusoidal", length=10**6, d=256))
    assert (result.distinct, result.precision["float32"].distinct_phase) == (10**6, 10**6)
    assert check_faithful(build("dft", length=10**5, d=10**5)).verdict == "isometric"
