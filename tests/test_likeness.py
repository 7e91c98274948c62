"""Likeness of tables that are not the same, beside the formula with its (n, n) kernels."""

import numpy as np
import pytest

from pefourier.analysis.compare import compare
from pefourier.analysis.likeness import align_products, measure_likeness
from pefourier.answers.compare import alike_in_words
from pefourier.answers.compare import compare as draw
from pefourier.answers.telling import Answer
from pefourier.encodings import build, load
from pefourier.encodings.encoding import from_table

RNG = np.random.default_rng(5)
FREE = RNG.normal(size=(40, 16))
TURN = np.linalg.qr(RNG.normal(size=(16, 16)))[0]


def hsic(k, m):
    """Song et al. (2012), Eq. 5, term by term."""
    n = len(k)
    k, m = (kernel - np.diag(np.diag(kernel)) for kernel in (k, m))
    one = np.ones(n)
    total = np.trace(k @ m) + (one @ k @ one) * (one @ m @ one) / ((n - 1) * (n - 2))
    return (total - 2 / (n - 2) * (one @ k @ m @ one)) / (n * (n - 3))


@pytest.mark.parametrize("shape", [(4, 2), (9, 20), (40, 16)])
def test_alignment_is_that_of_the_formula(shape):
    a, b = RNG.normal(size=shape), RNG.normal(size=(shape[0], 7)) + 3.0
    k, m = a @ a.T, b @ b.T
    own = hsic(k, k) * hsic(m, m)
    expected = np.clip(hsic(k, m) / np.sqrt(own), -1, 1) if own > 0 else None
    assert align_products(a, b) == pytest.approx(expected, abs=1e-9)


def test_a_rotation_a_scale_and_an_offset_change_nothing():
    assert align_products(FREE, 3.0 * FREE @ TURN + 5.0) == pytest.approx(1.0, abs=1e-9)


def test_free_tables_are_not_alike_however_few_their_rows():
    found = [
        align_products(RNG.normal(size=(20, 64)), RNG.normal(size=(20, 64))) for _ in range(200)
    ]
    assert abs(np.mean(found)) < 4 * np.std(found) / np.sqrt(200)
    assert np.std(found) < 0.15


def test_energy_that_moved_is_all_of_it_where_no_frequency_is_shared():
    s = np.arange(64)[:, None]
    slow, fast = (np.cos(2 * np.pi * k * s / 64 + np.arange(4)) for k in (3, 30))
    found = measure_likeness(from_table(slow), from_table(fast))
    assert found.energy_moved == pytest.approx(1.0, abs=1e-3)
    assert found.mean_frequencies == pytest.approx((2 * np.pi * 3 / 64, 2 * np.pi * 30 / 64))
    same = measure_likeness(from_table(slow), from_table(2 * slow))
    assert same.energy_moved == pytest.approx(0.0, abs=1e-12)


def test_of_points_of_a_grid_rows_before_it_are_left_out():
    a = build("axial", d=16, grid=(5, 6), prefix=1)
    b = from_table(a.table()[1:] @ TURN)
    assert measure_likeness(a, b).products == pytest.approx(1.0, abs=1e-9)
    assert measure_likeness(a, b).energy_moved is None  # rows of no known grid
    c = build("axial", d=16, grid=(5, 6), rho=3.0)
    found = measure_likeness(a, c)
    assert 0 < found.energy_moved < 1
    assert found.mean_frequencies[0] < found.mean_frequencies[1]


def test_what_has_no_likeness_says_so():
    assert measure_likeness(from_table(np.eye(3)), from_table(np.eye(3))).products is None
    assert measure_likeness(load("none", 9, 8), load("dft", 9, 8)).products is None
    assert measure_likeness(load("alibi", 9, 8), load("alibi", 9, 8)).energy_moved is None


def test_compare_tells_two_runs_apart_and_how_alike_they_are(run, tmp_path):
    np.save(tmp_path / "a.npy", FREE)
    np.save(tmp_path / "b.npy", FREE @ TURN + 0.05 * RNG.normal(size=FREE.shape))
    done = run("compare", tmp_path / "a.npy", tmp_path / "b.npy")
    assert done.status == 1
    said = " ".join(done.out.split())
    assert "Their geometry is alike by 0.99" in said
    assert "of the energy lies at other frequencies" in said


def test_energy_moves_as_far_as_the_raw_periodograms_of_two_tables_differ(rng):
    """Summed up by hand: nothing is smeared, which would hide it in a short table."""
    one = rng.normal(size=(20, 32))
    two = one + 0.1 * rng.normal(size=one.shape)

    def shares(table):
        power = (np.abs(np.fft.rfft(table, axis=0)) ** 2).sum(axis=1)
        power[1:-1] *= 2  # of both signs
        return power / power.sum()

    moved = measure_likeness(from_table(one), from_table(two)).energy_moved
    assert moved == pytest.approx(np.abs(shares(one) - shares(two)).sum() / 2, rel=1e-9)
    assert moved > 0.003


def test_how_far_training_took_a_table(run, tmp_path, rng):
    """Beside the definition, at any size of numbers; the picture says which minus which."""
    one, two = rng.normal(size=(2, 12, 8)) * 1e-90
    two = one + 0.3 * two
    found = measure_likeness(from_table(one), from_table(two))
    one, two = one * 1e90, two * 1e90
    assert found.moved == pytest.approx(np.sqrt(((two - one) ** 2).sum() / (one**2).sum()))
    assert found.cosine == pytest.approx(np.corrcoef([*one.flat], [*two.flat])[0, 1], abs=0.01)
    assert measure_likeness(from_table(one), from_table(one[:, :4])).moved is None
    assert measure_likeness(from_table(one), from_table(0 * one)).cosine is None
    for name, table in (("a" * 60, one), ("b" * 60, two)):
        np.save(tmp_path / f"{name}.npy", table.astype("f4"))
    files = sorted(tmp_path.glob("*.npy"))
    said = " ".join(run("compare", *files, "--plot", tmp_path / "p.svg").out.split())
    assert f"the second differs from the first by {100 * found.moved:.3g} % of its size (" in said
    far = from_table(one), from_table(one + 50.7 * one[::-1] * rng.choice((-1, 1), one.shape))
    assert "by 50.7 times its size" in alike_in_words(compare(*far))
    tables = from_table(one), from_table(two)
    axes = draw([Answer(tables[0], compare(*tables))]).axes[2]
    assert np.allclose(axes.images[0].get_array(), two - one)
    assert axes.get_title("left") == "second − first (red: larger in the second)"


def test_products_that_round_to_one_are_not_called_the_same(run, tmp_path):
    np.save(tmp_path / "a.npy", FREE)
    np.save(tmp_path / "b.npy", FREE + 1e-3 * RNG.normal(size=FREE.shape))
    said = " ".join(run("compare", tmp_path / "a.npy", tmp_path / "b.npy").out.split())
    assert "alike by more than 0.999 (inner products without the mean code;" in said
    assert "1: the same up to a rotation and scale, 0: unrelated), and their spectra" in said
