"""The closest rows of a table and the distinct ones, against the double loop over all pairs."""

from functools import cache

import numpy as np
import pytest
from double_loop import assert_agree, by_definition

from pefourier.encodings.encoding import from_table
from pefourier.geometry import closest_rows, duplicates
from pefourier.geometry.closest import ClosestPair, closest_pair

RANDOM = np.random.default_rng(20240513)
GRID = np.stack(np.meshgrid(*[np.arange(6.0)] * 3), axis=-1).reshape(-1, 3)
CURVE = np.outer(np.arange(150), 100.0 ** (-np.arange(6) / 6))
WAVES = np.hstack([np.sin(CURVE), np.cos(CURVE)])
TABLES = {
    "normal": RANDOM.standard_normal((150, 7)),
    "one column": RANDOM.standard_normal((150, 1)),
    "wide": RANDOM.standard_normal((40, 300)),
    "waves": WAVES,
    "shuffled waves": RANDOM.permutation(WAVES),
    "walk": np.cumsum(RANDOM.standard_normal((150, 5)), axis=0),
    "integers": RANDOM.integers(-90, 90, (150, 4)),
    "float32": RANDOM.standard_normal((150, 7)).astype(np.float32),
    "float16": RANDOM.standard_normal((150, 7)).astype(np.float16),
    "unit vectors": np.eye(90),
    "grid": GRID,
    "shuffled grid": RANDOM.permutation(GRID),
    "ramp": np.repeat(np.arange(150.0)[:, None], 3, axis=1) / 149,
    "offset": 1e6 + 1e-6 * RANDOM.standard_normal((150, 5)),
    "long and short": np.repeat([[100.0], [0.01]], 75, 0) * RANDOM.standard_normal((150, 7)),
    "clusters": np.repeat(np.eye(3) * 5, 50, 0) + 1e-9 * RANDOM.standard_normal((150, 3)),
    "tiny": 1e-90 * RANDOM.standard_normal((150, 5)),
    "large": 1e90 * RANDOM.standard_normal((150, 5)),
    "rows and one far": np.vstack([RANDOM.standard_normal((90, 4)), np.full((1, 4), 1e9)]),
    "equal halves": np.tile(RANDOM.standard_normal((60, 4)), (2, 1)),
    "all equal": np.full((70, 3), 0.1),
    "signed zeros": np.where(RANDOM.random((90, 9)) < 0.5, 0.0, -0.0),
    "two": np.array([[1.0, 2.0], [4.0, 6.0]]),
}
BLOCKS = {
    "as they are": {},
    "many": {"BLOCK_ROWS": 8, "STRIP_ROWS": 3, "MANY_PAIRS": 5, "NUMBERS_AT_ONCE": 40},
    "float64 always": {"BLOCK_ROWS": 16, "MANY_PAIRS": 0, "SAMPLE_ROWS": 5, "CACHE_BYTES": 0},
    "float32 always": {"BLOCK_ROWS": 16, "MANY_PAIRS": 10**9, "STRIP_ROWS": 5},
}


@pytest.fixture(params=BLOCKS)
def blocks(request, monkeypatch):
    for name, value in BLOCKS[request.param].items():
        monkeypatch.setattr(closest_rows, name, value)


@cache
def expected_of(name):
    return by_definition(TABLES[name])


@pytest.mark.parametrize("name", TABLES)
def test_pair_distance_and_count_are_those_of_the_double_loop(name, blocks):
    assert_agree(closest_pair(from_table(TABLES[name])), expected_of(name))


def test_more_rows_than_a_block_holds():
    table = RANDOM.standard_normal((closest_rows.BLOCK_ROWS + 700, 3))
    squared = ((table[:, None, :1] - table[:, 0]) ** 2).squeeze(1)
    for column in (1, 2):
        squared += (table[:, None, column] - table[:, column]) ** 2
    np.fill_diagonal(squared, np.inf)
    pair = divmod(int(squared.argmin()), len(table))
    found = closest_pair(from_table(table))
    assert found.pair == pair
    assert found.distance == pytest.approx(np.sqrt(squared.min()), rel=1e-12)
    assert found.distinct == len(table)


def test_memory_mapped_table(tmp_path, blocks):
    np.save(tmp_path / "codes.npy", TABLES["float32"])
    mapped = np.load(tmp_path / "codes.npy", mmap_mode="r")
    assert closest_pair(from_table(mapped)) == closest_pair(from_table(TABLES["float32"]))


def test_two_equal_rows_among_many():
    table = RANDOM.standard_normal((3000, 5))
    table[2891] = table[517]
    assert closest_pair(from_table(table)) == ClosestPair(0.0, (517, 2891), 2999)


def test_first_of_several_repeated_rows():
    table = np.array([[5.0], [1.0], [2.0], [2.0], [1.0], [1.0]])
    assert closest_pair(from_table(table)) == ClosestPair(0.0, (1, 4), 3)


def test_equal_hashes_are_looked_at(monkeypatch):
    same = np.zeros(6, dtype=np.uint64)
    monkeypatch.setattr(duplicates, "row_hashes", lambda table: same)
    table = np.array([[1.0], [2.0], [1.0], [3.0], [2.0], [2.0]])
    assert duplicates.first_duplicate(table).tolist() == [0, 1, 0, 3, 1, 1]


def test_hashes_of_unit_vectors_differ():
    assert len(np.unique(duplicates.row_hashes(np.eye(1000)))) == 1000


@pytest.mark.parametrize(("units", "expected"), [(1, (0.0, 39)), (200, (200 * 2.0**-50, 40))])
def test_units_in_the_last_place_are_a_distance_where_rounding_explains_them_not(units, expected):
    table = np.ones((40, 6)) * np.arange(1, 41)[:, None]
    table[30] = table[3]
    table[30, 2] += units * np.spacing(4.0)
    found = closest_pair(from_table(table))
    assert (found.distance, found.distinct) == expected
    assert found.pair == (3, 30)


def test_distance_whose_square_is_too_small_for_a_float():
    found = closest_pair(from_table(np.array([[0.0], [1e-200], [1.0]])))
    assert found == ClosestPair(pytest.approx(1e-200, rel=1e-12, abs=0), (0, 1), 3)


@pytest.mark.parametrize("share", [3e-10, 8e-10, 3e-9])
def test_ties_are_those_with_the_smallest_distance(share, monkeypatch):
    """Each gap is shorter by a share: a tie with the gap before is not one with the shortest."""
    monkeypatch.setattr(closest_rows, "NUMBERS_AT_ONCE", 1)
    gaps = 1 - share * np.arange(6)
    table = np.cumsum(np.append(0.0, gaps))[:, None]
    assert closest_pair(from_table(table)).pair == by_definition(table)[1]


@pytest.mark.parametrize("gaps", [(1, 0.9999), (0.9999, 1), (1, 1 - 3e-10), (1 + 3e-10, 1)])
def test_pairs_that_are_not_neighbours(gaps, blocks):
    table = np.array([0.0, 10.0, gaps[0], 10.0 + gaps[1]])[:, None]
    assert_agree(closest_pair(from_table(table)), by_definition(table))


@pytest.mark.parametrize("shorter", [1e-3, 1e-5, 1e-8, 3e-10])
def test_later_pair_that_is_little_nearer(shorter, blocks):
    table = np.array([0.0, 1.0, 10.0, 20.0, 11.0 - shorter])[:, None]
    assert_agree(closest_pair(from_table(table)), by_definition(table))


def test_a_tie_passed_over_is_found_again(monkeypatch):
    """As met: the first pair is held, the second ties with it, the third ties with that alone."""
    monkeypatch.setattr(closest_rows, "NUMBERS_AT_ONCE", 1)
    gaps = 1 + np.array([9e-10, 1e-10, -3e-10])
    start = np.array([0.0, 10.0, 20.0])
    table = np.concatenate([start, start[::-1] + gaps[::-1]])[[0, 1, 2, 5, 4, 3]][:, None]
    assert closest_pair(from_table(table)).pair == (1, 4) == by_definition(table)[1]


@pytest.mark.parametrize("kind", ["normal", "waves", "clusters", "long and short"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_of_products_stays_below_its_bound(kind, dtype):
    table = TABLES[kind].astype(float)
    means = table[:75].mean(axis=0), table[75:].mean(axis=0)
    exact = ((table[:75, None] - table[75:]) ** 2).sum(axis=-1)
    rows = closest_rows.Rows(table, 1.0)
    one = closest_rows.make_block(rows, np.arange(75), means[0], dtype)
    two = closest_rows.make_block(rows, np.arange(75, 150), means[1], dtype)
    apart = means[1] - means[0]
    error = np.abs(-2.0 * closest_rows.minus_half_squares(one, two, apart) - exact)
    bound = np.add.outer(*closest_rows.rounding_bounds(one, two, apart))
    assert error.max() > 0
    assert (error <= bound).all()
    assert bound.max() <= 1e4 * np.finfo(dtype).eps * exact.max()


def test_near_rows_of_two_blocks_survive_the_rounding_of_projections():
    for _ in range(50):
        near = RANDOM.standard_normal(40)
        apart = RANDOM.standard_normal(40)
        steps = RANDOM.uniform(0, 1, (2, 30, 1))
        one = np.vstack([near, near - steps[0] * apart])
        two = np.vstack([near + 1e-9 * apart, near + steps[1] * apart])
        best = closest_rows.BestPair(closest_rows.scale_rows(np.vstack([one, two])))
        best.smallest = ((1e-9 * apart) ** 2).sum()
        blocks = [
            closest_rows.make_block(
                closest_rows.Rows(part, 1.0), np.arange(31), part.mean(axis=0), np.float32
            )
            for part in (one, two)
        ]
        kept = closest_rows.facing_rows(*blocks, two.mean(axis=0) - one.mean(axis=0), best)
        assert all(0 in block.index for block in kept)
        assert sum(len(block.index) for block in kept) < 10


@pytest.mark.parametrize("name", TABLES)
def test_scaled_rows_fill_the_unit_interval(name):
    table = TABLES[name]
    rows, index = closest_rows.scale_rows(table), np.arange(len(table))
    entries = rows.about(rows.centre(index), index)
    assert np.ptp(table) == 0 or 0.25 <= np.abs(entries).max() <= 1


def sizes(least, n=240, d=5):
    """Rows in random directions, of sizes 10^least … 1."""
    rows = np.random.default_rng(1).standard_normal((n, d))
    return rows * 10 ** np.random.default_rng(2).uniform(least, 0, (n, 1))


@pytest.mark.parametrize("least", [-30, -12, -8, -3])
@pytest.mark.parametrize("offset", [0.0, 3.0])
def test_rows_of_many_sizes_leave_few_pairs_to_differences(least, offset, monkeypatch):
    table, looked_at = sizes(least) + offset, []
    consider = closest_rows.BestPair.consider
    monkeypatch.setattr(
        closest_rows.BestPair,
        "consider",
        lambda best, i, j: (looked_at.append(len(i)), consider(best, i, j))[1],
    )
    table = np.unique(table, axis=0)
    monkeypatch.setattr(closest_rows, "BLOCK_ROWS", 48)
    monkeypatch.setattr(closest_rows, "MANY_PAIRS", 64)
    assert_agree(closest_pair(from_table(table)), by_definition(table))
    assert sum(looked_at) < 8 * len(table)


def test_rows_a_few_units_in_the_last_place_apart_are_told_apart():
    """What is taken from a row has to be rounded as its small distances need, not as its size."""
    rng = np.random.default_rng(3)
    near = 5 + np.spacing(5.0) * rng.integers(0, 60, (300, 4))
    table = np.unique(np.vstack([near, rng.standard_normal((300, 4))]), axis=0)
    assert_agree(closest_pair(from_table(table)), by_definition(table))


@pytest.mark.parametrize("name", ["normal", "waves", "walk", "shuffled grid"])
def test_rotating_columns_or_adding_a_row_to_all_moves_nothing(name, blocks):
    table = TABLES[name]
    turn = np.linalg.qr(RANDOM.standard_normal((table.shape[1],) * 2))[0]
    expected = expected_of(name)
    assert_agree(closest_pair(from_table(table @ turn)), expected)
    assert_agree(closest_pair(from_table(table + 10 * turn[0])), expected)


@pytest.mark.parametrize("name", ["normal", "waves", "integers", "equal halves", "clusters"])
def test_order_of_rows_changes_no_distance(name, blocks):
    before = closest_pair(from_table(TABLES[name]))
    after = closest_pair(from_table(RANDOM.permutation(TABLES[name])))
    assert after.distance == pytest.approx(before.distance, rel=1e-9, abs=0)
    assert after.distinct == before.distinct


def lattice(n, d, rng):
    sides = [np.arange(int(n ** (1 / d)) + 2)] * d
    return 0.3 * rng.permutation(np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, d))


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng, d: rng.standard_normal((300, d)),
        lambda rng, d: np.exp(4 * rng.standard_normal((300, d))),
        lambda rng, d: lattice(200, d, rng),
        lambda rng, d: 2.5 * rng.integers(0, 2, (300, 20 * d)) - 1,
        lambda rng, d: rng.integers(-9, 9, (300, 5 * d)).astype(float),
    ],
)
@pytest.mark.parametrize("d", [1, 2, 3])
def test_cells_and_parts_of_columns_find_what_all_pairs_hold(draw, d, monkeypatch):
    """The first in order of all tied pairs, whichever way rows are searched."""
    monkeypatch.setattr(closest_rows, "FEW_ROWS", 50)
    rng = np.random.default_rng(d)
    table = rng.permutation(np.unique(draw(rng, d), axis=0))
    squared = ((table[:, None] - table) ** 2).sum(axis=-1) + np.diag(np.full(len(table), np.inf))
    distance, pair = closest_rows.closest_rows(table, lambda done, total: None)
    assert distance == pytest.approx(squared.min() ** 0.5, rel=1e-12)
    first = np.argwhere(squared <= squared.min() * (1 + closest_rows.TIE))[0]
    assert pair == tuple(first)


@pytest.mark.parametrize("kind", ["standard_normal", "standard_cauchy"])
def test_rows_of_few_columns_are_not_compared_pair_by_pair(kind, monkeypatch):
    """Once 10 MB of two columns took half a minute, more with rows far out, as Cauchy's are."""
    table = getattr(np.random.default_rng(0), kind)((20_000, 2))
    seen = []
    own = closest_rows.BestPair.consider
    count = lambda best, i, j: (seen.append(len(i)), own(best, i, j))  # noqa: E731
    monkeypatch.setattr(closest_rows.BestPair, "consider", count)
    monkeypatch.setattr(closest_rows, "search_blocks", lambda *_: pytest.fail("pair by pair"))
    closest_rows.closest_rows(table, lambda done, total: None)
    assert sum(seen) < 4 * len(table)


def test_numbers_close_to_within_rounding_are_neighbours_in_order(monkeypatch):
    """Once a column with a pair 1e-14 of its range apart was compared pair by pair, for hours."""
    column = np.random.default_rng(0).standard_normal(20_000)
    column[[70, 9_000]] = 0.5, 0.5 + 1e-14
    monkeypatch.setattr(closest_rows, "search_blocks", lambda *_: pytest.fail("pair by pair"))
    distance, pair = closest_rows.closest_rows(column[:, None], lambda done, total: None)
    assert pair == (70, 9_000)
    assert distance == pytest.approx(1e-14, rel=0.02)


def test_a_pair_that_was_passed_over_is_found_where_ties_chain(rng, monkeypatch):
    """The second ties with the first and with the third, the first not with the third."""
    monkeypatch.setattr(closest_rows, "FEW_ROWS", 50)
    table = 10.0 * rng.permutation(np.indices((60, 50)).reshape(2, -1).T)
    for k, (i, j) in enumerate([(0, 600), (1, 601), (1500, 2500)]):
        table[j] = table[i] + [1 - 0.8e-9 * k, 0.0]
    assert closest_rows.closest_rows(table, lambda done, total: None)[1] == (1, 601)
