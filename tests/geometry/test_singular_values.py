"""Singular values and projections against numpy's decomposition of the whole table."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from pefourier.encodings import build, load
from pefourier.encodings.encoding import from_table
from pefourier.geometry.singular_values import decompose

CASES = [
    ("dft", 80, 256),
    ("dft", 80, 63),
    ("dft", 81, 81),
    ("rope", 40, 128),
    ("rope", 400, 8),
    ("sinusoidal:offset=2", 33, 12),
    ("learned", 100, 20),
    ("learned", 20, 100),
]


@pytest.fixture(
    params=[(2**20, 0), (37, 2**20), (37, 0)], ids=["one block", "many, kept", "many, made twice"]
)
def blocks(request, monkeypatch):
    monkeypatch.setattr("pefourier.geometry.matrices.BLOCK", request.param[0])
    monkeypatch.setattr("pefourier.geometry.matrices.KEPT", request.param[1])
    monkeypatch.setattr("pefourier.geometry.even_odd_svd.DIRECT", request.param[0])
    monkeypatch.setattr("pefourier.geometry.singular_values.AT_ONCE", request.param[0])


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize(("spec", "length", "d"), CASES, ids=str)
def test_factors_are_those_of_the_whole_table(spec, length, d):
    enc = load(spec, length, d)
    table = enc.table()
    left, sigma, _ = np.linalg.svd(table, full_matrices=False)
    factors = decompose(enc)
    np.testing.assert_allclose(factors.sigma, sigma, atol=1e-13 * sigma[0])
    assert factors.rank == np.linalg.matrix_rank(table)
    if factors.rank == min(length, d) and sigma[0] < 1e6 * sigma[-1]:
        projection = left @ left.T - np.eye(length)
        assert factors.inverse_error() == pytest.approx(np.abs(projection).max(), abs=1e-9)
        for s in (0, 7, length // 2, length - 1):
            row = np.abs(projection[s]).max()
            assert factors.inverse_error(s) == pytest.approx(row, abs=1e-9)


@pytest.mark.parametrize("eps", [2.0**-52, 2.0**-7])
@pytest.mark.parametrize("apart", [1.0, 3e-2, 1e-2, 1e-3, 1e-6, 1e-12])
def test_a_wide_table_with_two_rows_ever_closer(monkeypatch, rng, apart, eps):
    """From some distance on values alone are computed: rank and projection are those of all."""
    monkeypatch.setattr("pefourier.geometry.matrices.BLOCK", 37)
    table = rng.standard_normal((20, 100))
    table[19] = table[18] + apart * table[19]
    factors = decompose(from_table(table, eps=eps))
    left, sigma, _ = np.linalg.svd(table, full_matrices=False)
    kept = left[:, sigma > factors.tolerance]
    np.testing.assert_allclose(factors.sigma, sigma, atol=1e-13 * sigma[0])
    assert factors.rank == kept.shape[1]
    error = np.abs(kept @ kept.T - np.eye(20)).max()
    assert factors.inverse_error() == pytest.approx(error, abs=1e-9)


def test_numerical_rank_of_the_sinusoidal_encoding():
    factors = decompose(build("sinusoidal", length=80, d=256))
    assert factors.rank == 42
    assert factors.condition_number is None


def test_condition_number_of_rotary_codes_at_131072():
    assert decompose(build("rope", length=131072, d=128)).condition_number == pytest.approx(
        288, abs=0.5
    )


def test_stable_ranks_of_the_literature():
    """Section 2d of Zheng et al.'s setting: sinusoidal tables, length x d."""
    for length, d, expected in [(512, 64, 2.4477), (256, 256, 2.0196), (100, 16, 1.8362)]:
        enc = build("sinusoidal", length=length, d=d)
        assert decompose(enc).stable_rank == pytest.approx(expected, abs=5e-5)


def test_coarse_storage_raises_the_tolerance():
    """Rounding to float32 lifts the small singular values; they are still not a rank."""
    table = build("sinusoidal", length=80, d=256).table().astype(np.float32)
    assert np.linalg.matrix_rank(table.astype(float)) == 80
    rank = decompose(from_table(table, eps=2.0**-23)).rank
    assert 30 <= rank <= 36
    assert decompose(from_table(table.astype(float))).rank == rank  # stored wider


def test_a_table_of_zeros():
    factors = decompose(build("none", length=5, d=3))
    assert factors.rank == 0
    assert np.isnan(factors.stable_rank)
    assert factors.inverse_error() == 1


def test_progress_is_reported_on_every_walk(monkeypatch):
    monkeypatch.setattr("pefourier.geometry.matrices.BLOCK", 37)
    monkeypatch.setattr("pefourier.geometry.matrices.KEPT", 0)
    calls = []
    decompose(build("learned", length=50, d=5), lambda done, total: calls.append((done, total)))
    assert calls == [(k, 8) for k in range(1, 9)] * 2


THREADS = """
import json, sys
import numpy as np
from pefourier.encodings.encoding import from_table
from pefourier.geometry.singular_values import decompose
found = decompose(from_table(np.random.default_rng(0).standard_normal((3000, 300))))
print(json.dumps([found.condition_number, found.stable_rank, found.tolerance, found.rank]))
"""


def test_ten_digits_do_not_depend_on_threads():
    """As `explain` says of these fields; the last ones may be others."""

    def told(threads):
        own = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), threads)
        command = [sys.executable, "-c", THREADS]
        return json.loads(subprocess.check_output(command, env=os.environ | own))

    one, two = told("1"), told("2")
    assert one == pytest.approx(two, rel=1e-11)
