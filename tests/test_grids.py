"""Questions about grids: published numbers, slow twins, and what only several axes have."""

import numpy as np
import pytest
from grids import mean_products, mixed_frequencies, table_on, waves_on

import pefourier
from pefourier.encodings import load
from pefourier.encodings.axis_parts import axis_parts
from pefourier.encodings.encoding import from_table, without_prefix
from pefourier.errors import PefourierError
from pefourier.geometry.closest import closest_pair
from pefourier.geometry.precision import precision
from pefourier.geometry.products import DIRECT, toeplitz_residual
from pefourier.geometry.singular_values import decompose
from pefourier.questions.faithful import assess, shortfalls
from pefourier.questions.reconstruct import position_functions
from pefourier.questions.relations import relate
from pefourier.questions.spectrum import density


def named(spec, sides, d=64, prefix=0):
    return load(spec, None, d, grid=sides, prefix=prefix)


def full_dft(sides):
    """All frequencies of the torus, as many as points."""
    k = np.indices(sides).reshape(len(sides), -1).T
    omega = 2 * np.pi * k / np.array(sides)
    return waves_on(sides, (omega + np.pi) % (2 * np.pi) - np.pi)


SQUARE = {  # of 16 x 16 points: encoding, gap², rank, stable rank, K(3,4), K(0,5), largest step
    "theta 1e4": (lambda: named("axial-rope", (16, 16)), 0.0429, 27, 1.30, 0.748, 0.868, 1.0),
    "theta 100": (
        lambda: named("axial-rope:rho=100", (16, 16)),
        0.0677,
        31,
        1.76,
        0.548,
        0.735,
        1.0,
    ),
    "dinov3": (
        lambda: named("axial-rope:convention=dinov3", (16, 16)),
        *(0.0426, 29, 1.61, 0.642, 0.750, 0.785),
    ),
    "pixtral": (
        lambda: named("axial-rope:convention=pixtral", (16, 16)),
        *(0.0248, 26, 1.28, 0.767, 0.866, 1.0),
    ),
    "dft": (lambda: full_dft((16, 16)), 2.0, 256, 256.0, 0.0, 0.0, np.pi),
}


@pytest.mark.parametrize("name", SQUARE)
def test_published_numbers_of_a_square(name):
    build, gap, rank, stable, far, side, step = SQUARE[name]
    enc = build()
    r, k = assess(enc), relate(enc).kernel
    assert r.gap**2 == pytest.approx(gap, abs=6e-5)
    assert (r.rank, r.toeplitz_residual) == (rank, 0.0)
    assert r.stable_rank == pytest.approx(stable, abs=6e-3)
    assert [k[18, 19], k[15, 20]] == pytest.approx([far, side], abs=6e-4)
    assert density(enc).largest_step == pytest.approx(step, abs=5e-4)
    assert r.isotropy["A2"] == pytest.approx(0, abs=5e-3)
    assert r.isotropy["A4"] == pytest.approx(0.13 if name == "dft" else 1, abs=5e-3)


@pytest.mark.parametrize(
    ("build", "peak"),
    [
        (lambda: named("axial-rope", (16, 16)), 0.243),
        (lambda: named("axial-rope:rho=100", (16, 16)), 0.259),
        (lambda: full_dft((16, 16)), 1.0),
    ],
)
def test_published_peaks_of_a_rebuilt_point(build, peak):
    found = position_functions(build(), [(3, 4), (10, 2)], sigma=None if peak == 1 else 1.0)
    for one, at in zip(found.reconstructions, [(3, 4), (10, 2)], strict=True):
        assert one.peak == pytest.approx(peak, abs=6e-4)
        assert np.unravel_index(one.values.argmax(), (16, 16)) == at
        assert np.linalg.norm(one.values) == pytest.approx(1)
        delta = np.zeros((16, 16))
        delta[at] = 1
        assert one.error == pytest.approx(np.linalg.norm(one.values - delta), abs=1e-7)
        rows = (one.values[at[0]] ** 2).sum() + (one.values[:, at[1]] ** 2).sum() - one.peak**2
        assert one.cross == pytest.approx(rows)


def test_mixed_frequencies_are_rounder_than_axes():
    enc = waves_on((16, 16), mixed_frequencies(seed=3))
    found = position_functions(enc, [(8, 8)]).reconstructions[0]
    assert assess(enc).isotropy["A4"] < 0.5
    assert 0.27 < found.peak < 0.32  # of 12 heads with random angles; .294 published
    assert assess(enc).rank > 31


CASES = {
    "axial": waves_on((5, 7), [[1.0, 0], [0.2, 0], [0, 1.3], [0, 0.4], [0, 0.1]]),
    "idle": waves_on((4, 5), [[0.9, 0], [0, 1.3], [0, 0]], [0.5, 0.3, 0.2]),
    "frames": waves_on((2, 3, 4), [[1.0, 0, 0], [0, 1.3, 0], [0, 0, 0.7], [0, 0, 0.1]]),
    "mixed": waves_on((4, 6), [[1.0, 0.3], [-0.2, 0.9], [0.1, 0.1]]),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("declared", [True, False])
def test_parts_of_axes_answer_as_the_whole_table(name, declared):
    whole = from_table(CASES[name].table())
    enc = CASES[name] if declared else table_on(CASES[name].domain.sides, whole.table())
    assert (axis_parts(enc) is None) == (name == "mixed")
    a, b = closest_pair(enc), closest_pair(whole)
    assert (a.pair, a.distinct) == (b.pair, b.distinct)
    assert a.distance == pytest.approx(b.distance, rel=1e-12)
    f, g = decompose(enc), decompose(whole)
    np.testing.assert_allclose(f.sigma, g.sigma, atol=1e-13 * g.sigma[0])
    assert (f.rank, f.tolerance) == (g.rank, pytest.approx(g.tolerance))
    assert f.inverse_error() == pytest.approx(g.inverse_error(), abs=1e-7)
    assert f.inverse_error(3) == pytest.approx(g.inverse_error(3), abs=1e-7)
    for form, loss in precision(enc).items():
        assert loss.distinct_cast == precision(whole)[form].distinct_cast


@pytest.mark.parametrize("name", CASES)
def test_what_is_declared_of_displacements_is_that_of_the_table(name):
    enc = CASES[name]
    a, b = relate(enc), relate(table_on(enc.domain.sides, enc.table()))
    np.testing.assert_allclose(a.kernel, b.kernel, atol=1e-13)
    assert a.first_rise == b.first_rise
    assert [x for x in b.shift_residual if x is not None and x > 1e-12] == []
    assert b.toeplitz_residual < 1e-7


@pytest.mark.parametrize("sides", [(4, 7), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("direct", [DIRECT, 0], ids=["walked", "by sums"])
def test_the_toeplitz_residual_is_that_of_all_products(sides, direct, monkeypatch):
    monkeypatch.setattr("pefourier.geometry.products.DIRECT", direct)
    rng = np.random.default_rng(1)
    rows, columns = rng.normal(size=(sides[0], 3)), rng.normal(size=(sides[-1], 2))
    n = int(np.prod(sides))
    parts = np.hstack([np.repeat(rows, n // sides[0], 0), np.tile(columns, (n // sides[-1], 1))])
    for table in (rng.normal(size=(n, 5)), parts):
        products, means = mean_products(table, sides)
        expected = np.linalg.norm(products - means) / np.linalg.norm(products)
        assert toeplitz_residual(table_on(sides, table)) == pytest.approx(expected, rel=1e-10)


def test_the_ladder_of_a_grid():
    sides, rng = (3, 5), np.random.default_rng(0)
    y, x = np.indices(sides).reshape(2, -1)
    sums = np.hstack([np.eye(3)[y], np.eye(5)[x]])
    tables = {
        "collides": np.eye(5)[x],
        "injective": np.stack([y, x], axis=1).astype(float),
        "separable": sums,
        "invertible": rng.normal(size=(15, 20)),
        "isometric": np.eye(15),
    }
    for verdict, table in tables.items():
        assert assess(table_on(sides, table)).verdict == verdict
    mixed = assess(table_on(sides, sums @ rng.normal(size=(8, 8))))  # no column on one axis
    assert (mixed.verdict, mixed.axial, mixed.rank) == ("separable", False, 7)
    short = assess(table_on(sides, tables["injective"]))
    assert shortfalls(short, "separable") == ["is injective, where separable is required"]


def test_rows_before_a_grid_are_left_out():
    table = named("axial:convention=mae", (3, 5), 16, prefix=2).table()
    r = assess(table_on((3, 5), table, prefix=2))
    assert (r.length, r.prefix, r.grid, r.distinct) == (15, 2, (3, 5), 15)
    assert (r.closest_pair, r.displacement) == ((2, 3), (0, 1))
    assert r.toeplitz_residual < 1e-15
    assert assess(from_table(table)).verdict == "collides"
    one = assess(named("sinusoidal", (9,), 32, prefix=1))
    assert (one.length, one.grid, one.prefix, one.displacement) == (9, (9,), 1, (1,))
    assert one.closest_pair == (1, 2)


def test_rows_of_zeros_before_a_grid_are_said():
    table = named("axial:convention=mae", (3, 5), 16, prefix=2).table()
    r = assess(table_on((3, 5), table, prefix=2))
    assert r.prefix_zeros == 2
    table[0, 3] = 1.0
    r = assess(table_on((3, 5), table, prefix=2))
    assert r.prefix_zeros == 1
    r = assess(table_on((3, 5), table[[0, *range(2, 17)]], prefix=1))
    assert r.prefix_zeros == 0
    r = assess(named("axial:convention=mae", (3, 5), 16, prefix=1))
    assert (r.prefix, r.prefix_zeros) == (1, 1)


def test_points_that_coincide_are_counted():
    checkers = waves_on((6, 6), np.pi / 2 * np.array([[2, 2], [1, -1]]))
    pair = closest_pair(checkers)
    assert (pair.distinct, pair.distance) == (4, 0.0)
    rows = np.round(checkers.table(), 9)
    assert len(np.unique(rows + 0.0, axis=0)) == 4
    first = closest_pair(from_table(rows + 0.0))
    assert (pair.pair, pair.distinct) == (first.pair, first.distinct)


def test_numbers_of_a_spectrum_on_a_grid():
    s = density(named("axial:convention=mae", (14, 10), 768))
    assert s.density.shape == (14, 6)
    assert s.idle[0] == pytest.approx(175 / 192)
    table = named("axial:convention=mae", (14, 10), 768).table().astype(np.float32)
    read = assess(table_on((14, 10), table, eps=2.0**-23))
    assert read.idle == pytest.approx(s.idle)
    assert read.aliased is None
    assert [m.sum() for m in s.marginals] == pytest.approx([1, 1])
    np.testing.assert_allclose(s.marginals[1], s.density.sum(axis=0))
    assert s.radial["density"].sum() == pytest.approx(1)
    assert density(named("axial", (4, 6), 8), lattice=10).density.shape == (10, 6)
    assert density(full_dft((4, 6))).summary.flatness == pytest.approx(1)


def test_points_beyond_a_lattice_are_refused():
    enc = named("axial", (4, 6), 8)
    for point in [(4, 0), (0, 6), (-1, 0), (1,), (1, 2, 3), 2]:
        with pytest.raises(PefourierError, match="outside the lattice 0,0 … 3,5"):
            position_functions(enc, [point])
    far = position_functions(enc, [(7, 7)], lattice=8).reconstructions[0]
    assert far.inverse_error is None


def test_a_table_of_zeros_on_a_grid_is_no_error():
    zeros = table_on((2, 3), np.zeros((6, 4)))
    assert assess(zeros).verdict == "collides"
    assert np.isnan(density(zeros).summary.lowest_bin_share)
    assert np.isnan(position_functions(zeros, [(0, 0)]).reconstructions[0].peak)


def test_one_axis_written_as_a_grid_is_a_sequence():
    plain, grid = load("sinusoidal", 20, 8), named("sinusoidal", (20,), 8)
    np.testing.assert_array_equal(density(plain).density, density(grid).density)
    assert closest_pair(without_prefix(grid)) == closest_pair(plain)
    assert without_prefix(grid).measure.frequencies.shape == (4,)


def test_the_kernel_is_that_of_all_displacements():
    enc = waves_on((3, 4), [[1.0, 0.3], [-0.2, 0.9]])
    r, table = relate(enc), enc.table()
    assert (r.kernel.shape, r.grid, r.first_rise) == ((5, 7), (3, 4), [None, None])
    products = table @ table.T / (table[0] @ table[0])
    for dy in range(-2, 3):
        for dx in range(-3, 4):
            start, end = 4 * max(-dy, 0) + max(-dx, 0), 4 * max(dy, 0) + max(dx, 0)
            assert r.kernel[2 + dy, 3 + dx] == pytest.approx(products[start, end])


def test_biases_of_displacements_have_answers_too():
    enc = load("beit", None, 4, grid=(3, 4))
    r = assess(enc)
    assert (r.grid, r.length, r.first_rising_lag) == ((5, 7), 35, None)
    assert relate(enc).kernel is None
    assert r.points == "displacements"


@pytest.mark.parametrize("sides", [(1, 1), (1, 6), (6, 1), (2, 2, 2, 2)], ids=str)
def test_grids_of_few_points_are_no_error(sides):
    enc = named("axial", sides, 16)
    middle = [tuple(n // 2 for n in sides)]
    for found in (assess(enc), density(enc), relate(enc), position_functions(enc, middle)):
        assert found.conclusion.endswith(".")
    table = table_on(sides, enc.table())
    assert assess(table).rank == assess(enc).rank


def test_a_constant_table_has_no_direction():
    s = density(table_on((7, 11), np.ones((77, 3))))
    assert np.isnan(s.isotropy["A4"])
    assert s.verdict == "constant"


def test_waves_as_long_as_the_side_are_not_idle_in_float32():
    """Hour by day of a week: each wave ends a turn, whatever float32 makes of its frequency."""
    t = np.arange(168)
    phases = 2 * np.pi * np.column_stack([t % 24 / 24, t // 24 / 7])
    week = np.hstack([np.sin(phases), np.cos(phases)]).astype(np.float32)
    assert pefourier.spectrum(week, grid=(7, 24)).idle == [0.0, 0.0]


def test_bare_biases_say_which_row_of_the_file_each_is(tmp_path, rng):
    stored = rng.normal(size=(13 * 13 + 3, 4))
    np.save(tmp_path / "beit.npy", stored)
    enc = load(str(tmp_path / "beit.npy"), grid=(7, 7))
    told = [one.message for one in enc.findings if "is row 171 - r of the file" in one.message]
    assert len(told) == 1
    assert (enc.table()[3:] == stored[171 - np.arange(3, 172)]).all()


def test_a_table_that_overflowed_in_float16_says_so():
    table = np.array([[1.0, 2.0], [np.inf, 3.0]], dtype=np.float16)
    with pytest.raises(PefourierError, match="float16 overflows beyond 65504"):
        from_table(table)
    with pytest.raises(PefourierError, match=r"finite numbers$"):
        from_table(table.astype(float))
