"""Declared structure avoids dense computations where a short one is exact."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from pefourier.encodings import build
from pefourier.encodings.sources.tables import read_table, rows_of_vectors, write_table
from pefourier.errors import PefourierError
from pefourier.questions.check_faithful import check_faithful


@pytest.mark.parametrize("n", [1, 2, 7, 12])
def test_declared_inner_products_answer_as_the_table_does(n):
    enc = build("onehot", length=n, d=12)
    rows, lag = enc.table(), np.subtract.outer(np.arange(n), np.arange(n))
    np.testing.assert_allclose(rows @ rows.T, enc.kernel.kernel(lag), atol=1e-15)
    answers = [check_faithful(x).to_dict() for x in (enc, replace(enc, kernel=None))]
    assert answers[0].keys() == answers[1].keys()
    for key, value in answers[0].items():
        is_number = isinstance(value, float)
        assert value == (
            pytest.approx(answers[1][key], abs=1e-12) if is_number else answers[1][key]
        )


def test_orthonormal_rows_beyond_memory_are_isometric(rng):
    n = 2**14
    enc = build("onehot", length=n, d=n)
    rows = rng.integers(0, n, 50)
    sample = enc.vectors(rows)
    np.testing.assert_array_equal(sample @ sample.T, np.equal.outer(rows, rows))
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
    with pytest.raises(PefourierError, match="limit"):
        enc.table()
    tracemalloc.start()
    write_table(path, rows_of_vectors(enc, enc.domain.x))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < table.nbytes / 2
    np.testing.assert_array_equal(read_table(path)[0], table)


def test_millions_of_rows_are_never_read():
    result = check_faithful(build("sinusoidal", length=10**6, d=256))
    assert (result.distinct, result.precision["float32"].distinct_phase) == (10**6, 10**6)
    assert check_faithful(build("dft", length=10**5, d=10**5)).verdict == "isometric"
