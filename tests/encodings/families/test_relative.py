"""Fourier features, times, recurrent states, trees and lags: published values and laws."""

import math
import re

import numpy as np
import pytest

from pefourier.encodings import domain, load
from pefourier.encodings.domain import periodogram, tree
from pefourier.encodings.families.relative import alibi_slopes, t5_buckets
from pefourier.encodings.registry import BUILDERS
from pefourier.errors import PefourierError
from pefourier.faithful import assess
from pefourier.geometry.singular_values import decompose
from pefourier.reconstruct import position_functions
from pefourier.spectrum import density

FAMILIES = {"fourier", "irregular", "recurrent", "tree", "relative"}
NAMES = sorted(name for name, builder in BUILDERS.items() if builder.family in FAMILIES)
SEEDED = [name for name in NAMES if "seed" in BUILDERS[name].parameters]
DECLARED = [name for name in NAMES if BUILDERS[name].declared]
TIMED = [name for name in NAMES if "times" in BUILDERS[name].parameters]
IRREGULAR = np.array([0.0, 0.4, 1.7, 2.0, 3.1, 5.9, 6.0, 8.2])


def refused(message, spec, **given):
    with pytest.raises(PefourierError, match=f"^{re.escape(message)}$"):
        load(spec, **given)


# ---- laws of all families


def test_the_families_are_all_here():
    relative = {"shaw", "t5", "alibi", "tupe", "kerple", "erpe"}
    additive = {"learnable-sinusoidal", "fourier-features", "tape", "recurrent", "tree"}
    assert set(NAMES) == relative | additive | {"time2vec", "mtan", "mtan-fixed"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("length", "d"), [(1, 8), (7, 16), (12, 8)])
def test_codes_are_float64_and_the_same_in_pieces(name, length, d):
    enc = load(name, length=length, d=d)
    table = enc.table()
    assert table.dtype == np.float64
    assert np.isfinite(table).all()
    assert table.shape == (len(enc), enc.dim)
    assert enc.params["length"] == length
    assert enc.params["d"] == enc.dim
    pieces = np.vstack([rows for _, rows in enc.blocks(3)])
    assert np.abs(pieces - table).max() < 1e-12


@pytest.mark.parametrize("name", NAMES)
def test_every_question_is_answered(name):
    enc = load(name, length=24, d=16)
    assert abs(density(enc, lattice=16).density.sum() - 1) < 1e-12
    assert len(position_functions(enc, [5], lattice=16).reconstructions) == 1
    assert assess(enc).rank <= min(len(enc), enc.dim)


@pytest.mark.parametrize("name", SEEDED)
def test_a_seed_names_one_table(name):
    table = load(name, length=9, d=8, seed=3).table()
    assert np.array_equal(table, load(f"{name}:seed=3", length=9, d=8).table())
    assert not np.array_equal(table, load(name, length=9, d=8, seed=4).table())


@pytest.mark.parametrize("name", DECLARED)
def test_inner_products_are_what_the_measure_declares(name):
    enc = load(name, length=20, d=12)
    table, lag = enc.table(), np.subtract.outer(np.arange(20), np.arange(20))
    declared = enc.measure.squared_length * enc.measure.kernel(lag.ravel()).reshape(20, 20)
    assert np.abs(table @ table.T - declared).max() < 1e-12
    svd = np.linalg.svd(table, compute_uv=False)
    assert np.abs(decompose(enc).sigma - svd).max() < 1e-12


@pytest.mark.parametrize("name", DECLARED)
def test_an_odd_d_is_refused(name):
    refused(f"{name} pairs each sine with a cosine and needs an even d; got d=7", name, d=7)


@pytest.mark.parametrize("name", ["fourier-features", "t5", "erpe", "tupe"])
def test_a_scale_of_nothing_is_refused(name):
    refused("scale must be a finite number above 0; got 0.0", f"{name}:scale=0")


# ---- sines and cosines off the geometric grid


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


# ---- times


@pytest.mark.parametrize("name", TIMED)
def test_regular_times_are_positions(name):
    given = load(name, d=6, times=np.arange(9.0))
    counted = load(name, length=9, d=6)
    assert np.abs(given.table() - counted.table()).max() < 1e-15
    measured = density(given, lattice=12, method="periodogram")
    expected = density(counted, lattice=12, method="periodogram")
    assert np.abs(measured.density - expected.density).max() < 1e-12
    assert np.abs(density(given).density - density(counted).density).max() < 1e-12


@pytest.mark.parametrize("name", TIMED)
def test_times_set_the_length(name):
    enc = load(name, length=80, d=4, times=IRREGULAR)
    assert enc.domain.kind == "time"
    assert enc.params["length"] == len(enc) == 8
    assert enc.params["times"] == tuple(IRREGULAR)


@pytest.mark.parametrize("name", ["mtan", "mtan-fixed"])
def test_the_unit_of_time_does_not_matter_to_mtan(name):
    hours, seconds = load(name, d=6, times=IRREGULAR), load(name, d=6, times=3600 * IRREGULAR)
    assert np.abs(hours.table() - seconds.table()).max() < 1e-12
    assert np.abs(density(hours).density - density(seconds).density).max() < 1e-12


@pytest.mark.parametrize("name", TIMED)
def test_distances_of_codes_at_irregular_times_are_those_of_the_table(name):
    enc = load(name, d=6, times=IRREGULAR)
    table, n = enc.table(), len(IRREGULAR)
    slow = min(np.linalg.norm(table[i] - table[j]) for i in range(n) for j in range(i))
    assert abs(assess(enc).min_distance - slow) < 1e-12
    assert (
        enc.measure is None or enc.measure.squared_length is None
    )  # lags are no multiples of the spacing


def test_mtan_fixed_is_the_formula_of_its_authors():
    table = load("mtan-fixed", d=4, times=IRREGULAR).table()
    for row, t in zip(table, IRREGULAR / 8.2, strict=True):
        slow = 48 * t * math.exp(2 * -math.log(10.0) / 4)
        assert np.allclose(
            row, [math.sin(48 * t), math.cos(48 * t), math.sin(slow), math.cos(slow)], atol=1e-12
        )


@pytest.mark.parametrize(
    ("name", "drawn", "unit"), [("time2vec", "normal", 1.0), ("mtan", "uniform", 8.2)]
)
def test_a_line_and_sines(name, drawn, unit):
    table = load(name, d=5, times=IRREGULAR, seed=2).table()
    stream = np.random.RandomState(2)
    a, b = stream.normal(size=(2, 5)) if drawn == "normal" else stream.uniform(-1, 1, (2, 5))
    for row, t in zip(table, IRREGULAR / unit, strict=True):
        expected = [a[0] * t + b[0], *(math.sin(a[j] * t + b[j]) for j in range(1, 5))]
        assert np.allclose(row, expected, rtol=0, atol=1e-14)


def test_times_are_not_typed_into_a_spec():
    refused("mtan:times is read from a file; use --times FILE", "mtan:times=3")


# ---- recurrent states


def test_recurrent_states_are_those_of_a_gru():
    d, bound = 3, 3**-0.5
    stream = np.random.RandomState(1)
    w, u = stream.uniform(-bound, bound, (3, d)), stream.uniform(-bound, bound, (3, d, d))
    b, c = stream.uniform(-bound, bound, (3, d)), stream.uniform(-bound, bound, (3, d))
    h = [0.0] * d
    for row in load("recurrent", length=6, d=d, seed=1).table():
        recalled = [
            [sum(u[g, i, j] * h[j] for j in range(d)) + c[g, i] for i in range(d)] for g in range(3)
        ]
        new = []
        for i in range(d):
            r, z = (1 / (1 + math.exp(-(w[g, i] + b[g, i] + recalled[g][i]))) for g in (0, 1))
            n = math.tanh(w[2, i] + b[2, i] + r * recalled[2][i])
            new.append((1 - z) * n + z * h[i])
        h = new
        assert np.abs(row - h).max() < 1e-14


@pytest.mark.parametrize(("length", "verdict"), [(30, "injective"), (300, "collides")])
def test_a_recurrent_state_forgets_the_position_when_it_has_arrived(length, verdict):
    found = assess(load("recurrent", length=length, d=64))
    assert found.verdict == verdict
    table = load("recurrent", length=300, d=64).table()
    assert 60 < len(np.unique(table, axis=0)) < 80
    assert 0 < np.abs(table[-1] - table[50]).max() < 1e-9


# ---- trees


def test_the_basis_of_a_path_is_the_dct():
    n = 9
    path = tree(range(-1, n - 1))
    k, i = np.meshgrid(np.arange(n), np.arange(n))
    dct = np.cos(np.pi * k * (i + 0.5) / n) * np.sqrt(np.where(k == 0, 1, 2) / n)
    assert np.abs(path.omega - np.pi * np.arange(n) / n).max() < 1e-9
    assert np.abs(np.abs(path.basis.T @ dct) - np.eye(n)).max() < 1e-12


def test_tree_codes_are_the_branches_to_the_root():
    # root with children 1, 2; node 1 with 3, 4; node 4 with 5 (microsoft/icecaps, util/trees.py)
    table = load("tree:parents=-1;0;0;1;1;4,p=0.5", d=6).table()
    unit = math.sqrt((1 - 0.25) * 6 / 2)
    left, right, none = [1, 0], [0, 1], [0, 0]
    paths = [
        [none, none, none],
        [left, none, none],
        [right, none, none],
        [left, left, none],
        [right, left, none],
        [left, right, left],
    ]
    weights = unit * np.array([1, 0.5, 0.25])[:, None]
    assert np.allclose(table, [(np.array(path) * weights).ravel() for path in paths], atol=1e-15)


def test_several_decays_stand_side_by_side():
    table = load(
        "tree:parents=-1;0;1,p=0.5;-0.6", d=9
    ).table()  # two steps of 2 x 2, one column over
    first, second = math.sqrt(0.75 * 4.5), math.sqrt(0.64 * 4.5)
    expected = [first, second, 0, 0, 0.5 * first, -0.6 * second, 0, 0, 0]
    assert np.allclose(table[2], expected, atol=1e-15)


def test_the_spectrum_of_a_path_is_by_the_dct():
    n = 6
    enc = load("tree:parents=-1;0;1;2;3;4", d=12)
    k, i = np.meshgrid(np.arange(n), np.arange(n))
    dct = np.cos(np.pi * k * (i + 0.5) / n) * np.sqrt(np.where(k == 0, 1, 2) / n)
    omega, energy = periodogram(enc.domain, enc.table())
    assert np.allclose(omega, np.pi * np.arange(n) / n, atol=1e-9)
    assert np.allclose(energy, ((dct.T @ enc.table()) ** 2).sum(axis=1), rtol=1e-9)


def test_without_parents_the_tree_is_complete():
    complete = load("tree", length=7, d=8)
    given = load("tree:parents=-1;0;0;1;1;2;2", length=80, d=8)
    assert np.array_equal(complete.table(), given.table())
    assert given.params["length"] == 7
    assert np.array_equal(complete.domain.omega, given.domain.omega)


@pytest.mark.parametrize(("d", "verdict"), [(4, "collides"), (8, "injective")])
def test_steps_beyond_the_columns_are_forgotten(d, verdict):
    assert assess(load("tree", length=15, d=d)).verdict == verdict


def test_a_tree_that_cannot_be_is_refused():
    refused("node 0 has 3 children and width is 2; set width=3", "tree:parents=-1;0;0;0")
    refused(
        "one step of a tree of width 4 with 2 p takes 8 columns; got d=6",
        "tree:width=4,p=0.5;0.6",
        d=6,
    )
    refused("p must be one or more numbers between -1 and 1; got (1.0,)", "tree:p=1")
    refused("width must be a whole number from 1 on; got 0", "tree:width=0")


# ---- lags


def test_alibi_slopes_are_those_of_bloom():
    eight = [2.0**-i for i in range(1, 9)]
    assert np.array_equal(alibi_slopes(8), eight)
    assert np.array_equal(alibi_slopes(6), [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125])
    twelve = [*eight, 0.707107, 0.353553, 0.176777, 0.088388]
    assert np.abs(alibi_slopes(12) - twelve).max() < 5e-7
    assert np.abs(alibi_slopes(40)[:4] - [0.840896, 0.707107, 0.594604, 0.5]).max() < 5e-7
    assert len(alibi_slopes(40)) == 40
    assert np.array_equal(alibi_slopes(1), [2.0**-8])


TWO_SIDED = [*range(9), 12, 16, 23, 32, 46, 64, 91]  # distance at which buckets 0 … 15 start
CAUSAL = [*range(17), 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113]


def test_t5_buckets_start_where_transformers_has_them():
    lag = np.arange(-3000, 3001)
    two_sided = np.searchsorted(TWO_SIDED, np.abs(lag), side="right") - 1
    assert np.array_equal(t5_buckets(lag), two_sided + 16 * (lag > 0))
    causal = np.searchsorted(CAUSAL, np.maximum(-lag, 0), side="right") - 1
    assert np.array_equal(t5_buckets(lag, causal=True), causal)


@pytest.mark.parametrize(("buckets", "longest"), [(4, 3), (16, 64), (32, 128), (64, 1000)])
def test_t5_buckets_agree_with_whole_numbers(buckets, longest):
    side, exact = buckets // 2, buckets // 4
    for r in range(exact, 2 * longest):
        steps = 0  # largest k with exact (longest / exact)^(k / (side - exact)) <= r
        while steps + exact < side - 1 and exact ** (side - exact - steps - 1) * longest ** (
            steps + 1
        ) <= r ** (side - exact):
            steps += 1
        assert t5_buckets(np.array([-r]), buckets, longest)[0] == exact + steps


def test_t5_numbers_that_cannot_be_are_refused():
    rule = "buckets must be an even number from 4 on, or 2 or more if causal; got"
    refused(f"{rule} 7", "t5:buckets=7")
    refused(f"{rule} 2", "tupe:buckets=2")
    refused(
        "max_distance must be above 8, the distances that have a bucket of their own; got 8",
        "t5:max_distance=8",
    )


@pytest.mark.parametrize(
    ("spec", "length", "verdict", "distinct"),
    [
        ("shaw:clip=5", 6, "injective", 11),  # every lag has its vector
        ("shaw:clip=4", 6, "collides", 9),
        ("shaw:clip=4,causal=true", 6, "collides", 5),
        ("alibi", 6, "collides", 6),  # left and right are one
        ("alibi:causal=true", 6, "injective", 6),
        ("kerple", 6, "collides", 6),
        ("kerple:kernel=power,causal=true", 6, "injective", 6),
        ("t5", 9, "injective", 17),  # distances 0 … 8 have a bucket each
        ("t5", 10, "collides", 17),
        ("t5", 200, "collides", 31),
        ("t5:causal=true", 18, "collides", 17),
        ("t5:causal=true", 200, "collides", 32),
        ("erpe", 6, "injective", 11),
        ("tupe:heads=2", 6, "invertible", 6),
    ],
)
def test_which_lags_can_be_told_apart(spec, length, verdict, distinct):
    found = assess(load(spec, length=length, d=4))
    assert (found.verdict, found.distinct) == (verdict, distinct)


def test_shaw_clips_the_lag_of_the_key():
    table = load("shaw:clip=2", length=5, d=3).table()  # lags -4 … 4
    vectors = np.random.RandomState(0).uniform(-np.sqrt(0.75), np.sqrt(0.75), (5, 3))
    assert np.array_equal(table, vectors[[0, 0, 0, 1, 2, 3, 4, 4, 4]])
    assert load("shaw").act == "key"
    refused("clip must be a whole number from 0 on; got -1", "shaw:clip=-1")
    assert load("t5").act == load("tupe").act == "bias"


def test_alibi_is_a_low_pass_filter_of_the_width_of_its_slope():
    enc = load("alibi", length=4096, d=8)
    weights = np.exp(enc.table()[:, 0])  # slope 1/2: the factor on attention before softmax
    omega, a = 0.7, math.exp(-0.5)
    closed = (1 - a**2) / (1 - 2 * a * math.cos(omega) + a**2)
    assert abs(closed - 1.436379841675) < 1e-12
    assert abs(weights @ np.cos(omega * enc.domain.x) - closed) < 1e-12


def test_the_spectrum_of_a_bias_is_over_its_lags():
    enc = load("alibi:causal=true", length=16, d=2)
    omega, energy = periodogram(enc.domain, enc.table())
    direct = [
        np.abs(np.exp(-1j * w * enc.domain.x) @ enc.table()) ** 2 @ [1, 1] / 16 for w in omega
    ]
    assert np.allclose(energy, np.array(direct) * [1, *[2] * 7, 1], rtol=1e-12)


@pytest.mark.parametrize("kernel", ["log", "power"])
def test_kerple_is_the_formula_of_its_authors(kernel):
    table = load(f"kerple:kernel={kernel}", length=5, d=400).table()
    stream = np.random.RandomState(0)
    p, a = stream.uniform(0, 2, 400), stream.uniform(0, 1, 400)
    assert p.min() < 0.01 > a.min()  # where the authors clip
    for row, lag in zip(table, range(-4, 5), strict=True):
        for j in range(400):
            slope, exponent = max(a[j], 0.01), max(p[j], 0.01)
            log = -exponent * math.log(1 + slope * abs(lag))
            expected = log if kernel == "log" else -slope * abs(lag) ** exponent
            assert abs(row[j] - expected) < 1e-14


def test_tupe_adds_untied_positions_and_buckets():
    length, d, heads = 5, 4, 2
    table = load("tupe:heads=2,scale=0.5", length=length, d=d).table()
    stream = np.random.RandomState(0)
    p, u, v = (stream.normal(0, 0.5, size) for size in ((length, d), (d, d), (d, d)))
    bias = stream.normal(0, 0.5, (32, heads))
    p = [(row - row.mean()) / math.sqrt(row.var() + 1e-5) for row in p]
    for i in range(length):
        for head in range(heads):
            own = slice(2 * head, 2 * head + 2)
            for j in range(length):
                logit = (p[i] @ u)[own] @ (p[j] @ v)[own] / math.sqrt(2 * 2)
                logit += bias[t5_buckets(np.array([j - i]))[0], head]
                assert abs(table[i, head * length + j] - logit) < 1e-14


def test_tupe_gives_a_classification_token_its_own_biases():
    plain = load("tupe:heads=2", length=4, d=4).table().reshape(4, 2, 4)
    untied = load("tupe:heads=2,cls=true", length=4, d=4).table().reshape(4, 2, 4)
    assert np.array_equal(untied[1:, :, 1:], plain[1:, :, 1:])
    for head in range(2):
        assert len(np.unique(untied[0, head])) == 1
        assert len(np.unique(untied[1:, head, 0])) == 1
    assert untied[0, 0, 0] != untied[1, 0, 0]


def test_tupe_needs_a_whole_head():
    refused("tupe cuts d into heads and needs a multiple of heads=3; got d=8", "tupe:heads=3", d=8)


@pytest.mark.parametrize(
    "make", [lambda n: domain.times(range(n)), lambda n: domain.tree([-1, *[0] * (n - 1)])]
)
def test_a_dense_basis_has_a_limit(monkeypatch, make):
    monkeypatch.setattr("pefourier.encodings.domain.LARGEST_BASIS", 8)
    assert len(make(8)) == 8
    with pytest.raises(PefourierError, match=r"^9 .* are too many: they take an \(n, n\) basis"):
        make(9)
