"""Rows that differ only by rounding are one vector; counts equal those of integer angles."""

import numpy as np
import pytest
from double_loop import assert_agree, by_definition
from sinusoids import pairs

from pefourier.encodings import load
from pefourier.encodings.encoding import from_table
from pefourier.geometry.closest import ClosestPair, closest_pair
from pefourier.questions.check_faithful import check_faithful, shortfalls

RANDOM = np.random.default_rng(20261122)


def table_of(turns, n, dtype, within=float, waves=(np.sin, np.cos)):
    """Return sinusoids of p rotations in q steps each, with phases computed in a dtype."""
    t = np.arange(n).astype(within)
    phases = [within(2 * np.pi) * t * within(p) / within(q) for p, q in turns]
    return np.stack([wave(phase) for phase in phases for wave in waves], axis=1).astype(dtype)


def codes_of(turns, n):
    """Return the number of distinct vectors: angles are equal if p s is equal modulo q."""
    return len({tuple(p * s % q for p, q in turns) for s in range(n)})


def found_in(table):
    return closest_pair(from_table(table, eps=float(np.finfo(table.dtype).eps)))


HARMONICS = [(k, 24) for k in range(1, 13)]
CALENDARS = {
    "hour of the day": ([(1, 24)], 168),
    "its harmonics": (HARMONICS, 168),
    "hour and day of the week": ([(1, 24), (2, 24), (1, 168)], 500),
    "every fifth hour": ([(5, 24)], 100),
    "quarters of an hour": ([(1, 96), (1, 7 * 96)], 1400),
}


@pytest.mark.parametrize("dtype", [float, np.float32, np.float16])
@pytest.mark.parametrize("name", CALENDARS)
def test_calendars_have_as_many_vectors_as_their_period_has_steps(name, dtype):
    turns, n = CALENDARS[name]
    count = codes_of(turns, n)
    assert found_in(table_of(turns, n, dtype)) == ClosestPair(0.0, (0, count), count)
    if dtype is float and n > count:
        result = check_faithful(table_of(turns, n, float))
        assert (result.verdict, result.distinct, result.gap) == ("collides", count, 0.0)
        assert not shortfalls(result, strict=True)
        assert "repeating-codes" in [f.code for f in result.findings]
        assert max(loss.distinct_cast for loss in result.precision.values()) <= count
        assert result.precision["float32"].safe_cast == count


DAY = 0.5 * table_of([(1, 24)], 168, float)
NOISE = np.random.default_rng(1).uniform(-1, 1, DAY.shape)
HOURS = table_of(HARMONICS, 168, np.float32, np.float32)  # phases computed in float32
ONE_VECTOR = {  # tables and their number of distinct vectors
    "phases in float32": (HOURS, 24),
    "the same, stored wider": (HOURS.astype(float), 24),
    "two decimals": (np.round(DAY + 5e-13 * NOISE, 2), 24),
    "six decimals, rounded apart": (np.round(DAY + 4e-7 * NOISE, 6), 24),
    "one wave of a pair": (table_of([(1, 24), (2, 24)], 168, float, waves=[np.cos]), 13),
    "one number rounded differently": (
        np.full((50, 6), 0.3) + np.spacing(0.3) * RANDOM.integers(-1, 2, (50, 6)),
        1,
    ),
    "rows within rounding": (np.repeat(np.eye(3), 20, 0) + 1e-16 * RANDOM.random((60, 3)), 3),
    **{f"dft in {t}": (load("dft", 150, 64).table().astype(t), 64) for t in ("f8", "f4", "f2")},
}


@pytest.mark.parametrize("name", ONE_VECTOR)
def test_rows_that_rounding_reports_apart_are_one_code(name):
    table, count = ONE_VECTOR[name]
    found = found_in(table)
    assert (found.distance, found.distinct) == (0.0, count)


def grown(frequencies, n):
    return pairs(np.multiply.outer(np.arange(float(n)), frequencies))


DAYS = table_of([(1, 24)], 240, float)
NEAR = {
    "steps of 1e-12": grown(1e-12 * 1e4 ** (-np.arange(8) / 8), 90),
    "hours and a trend": np.column_stack([DAYS, 1e-9 * np.arange(240)]),
    "the same trend in float32": np.column_stack([DAYS, 1e-6 * np.arange(240)]).astype(np.float32),
    "nearly 24 hours": grown(np.array([2 * np.pi / 24 * (1 + 1e-11)]), 168),
    "two periods without a common one": grown(2 * np.pi / np.array([24, 12.42]), 300),
    "a row of another size": np.vstack([RANDOM.standard_normal((60, 5)), np.full((1, 5), -1e30)]),
    "a column of another size": np.column_stack([np.arange(60.0), np.full(60, 1e20)]),
    "a ramp in float16": np.linspace(0.5, 1, 200)[:, None].astype(np.float16),
    "noise of 1e-13 in clusters": np.repeat(np.eye(3), 20, 0) + 1e-13 * RANDOM.random((60, 3)),
    "the same in float32": grown(np.ones(1), 720).astype(np.float32),
}


@pytest.mark.parametrize("name", NEAR)
def test_rows_that_are_near_and_not_equal_keep_their_distance(name):
    assert_agree(found_in(NEAR[name]), by_definition(NEAR[name]))


@pytest.mark.parametrize(("units", "expected"), [(1, (0.0, 39)), (200, (200 * 2.0**-50, 40))])
def test_units_in_the_last_place_count_unless_rounding_explains_them(units, expected):
    table = np.ones((40, 6)) * np.arange(1, 41)[:, None]
    table[30] = table[3]
    table[30, 2] += units * np.spacing(4.0)
    found = found_in(table)
    assert (found.distance, found.distinct) == expected
    assert found.pair == (3, 30)


@pytest.mark.parametrize("front", [0, 2])
@pytest.mark.parametrize("dtype", [float, np.float32])
def test_rows_of_zeros_hide_no_period(dtype, front):
    """Rows of zeros do not hide a period: 24 vectors of a day and one of padding."""
    hours = table_of(HARMONICS, 168, dtype)
    result = check_faithful(np.pad(hours, [(front, 8), (0, 0)]))
    assert (result.distinct, result.gap) == (25, 0.0)
    reported = {f.code: f.severity for f in result.findings}
    assert reported["repeating-codes"] == "note"
