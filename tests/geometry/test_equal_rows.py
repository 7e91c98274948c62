"""Rows that rounding alone tells apart are one code; the count is that of whole-number angles."""

import numpy as np
import pytest
from double_loop import assert_agree, by_definition

from pefourier.encodings import load
from pefourier.encodings.encoding import from_table
from pefourier.geometry.closest import ClosestPair, closest_pair
from pefourier.questions.faithful import assess, shortfalls

RANDOM = np.random.default_rng(20261122)


def table_of(turns, n, dtype, within=float, waves=(np.sin, np.cos)):
    """Waves that make p turns in q steps each, their phases computed in a type."""
    t = np.arange(n).astype(within)
    phases = [within(2 * np.pi) * t * within(p) / within(q) for p, q in turns]
    return np.stack([wave(phase) for phase in phases for wave in waves], axis=1).astype(dtype)


def codes_of(turns, n):
    """How many codes there are: angles are the same where p s is, modulo q."""
    return len({tuple(p * s % q for p, q in turns) for s in range(n)})


def found_in(table):
    return closest_pair(from_table(table, eps=float(np.finfo(table.dtype).eps)))


CALENDARS = {
    "hour of the day": ([(1, 24)], 168),
    "its harmonics": ([(k, 24) for k in range(1, 13)], 168),
    "hour and day of the week": ([(1, 24), (2, 24), (1, 168)], 500),
    "every fifth hour": ([(5, 24)], 100),
    "quarters of an hour": ([(1, 96), (1, 7 * 96)], 1400),
}


@pytest.mark.parametrize("dtype", [float, np.float32, np.float16])
@pytest.mark.parametrize("name", CALENDARS)
def test_calendars_have_as_many_codes_as_their_period_has_steps(name, dtype):
    turns, n = CALENDARS[name]
    count = codes_of(turns, n)
    assert found_in(table_of(turns, n, dtype)) == ClosestPair(0.0, (0, count), count)


@pytest.mark.parametrize("name", ["its harmonics", "hour and day of the week"])
def test_phases_computed_in_float32(name):
    turns, n = CALENDARS[name]
    table = table_of(turns, n, np.float32, np.float32)
    assert found_in(table).distinct == found_in(table.astype(float)).distinct == codes_of(turns, n)


@pytest.mark.parametrize("digits", [2, 3, 6])
def test_decimals_of_few_places(digits):
    table = 0.5 * table_of([(1, 24)], 168, float)
    assert found_in(np.round(table + 5e-13 * RANDOM.random(table.shape), digits)).distinct == 24


def test_decimals_rounded_apart_are_one_code():
    table = 0.5 * table_of([(1, 24)], 168, float)
    table += 4e-7 * np.random.default_rng(1).uniform(-1, 1, table.shape)
    assert found_in(np.round(table, 6)).distinct == 24


def test_one_wave_of_a_pair_has_the_same_code_on_both_sides():
    cosines = table_of([(1, 24), (2, 24)], 168, float, waves=[np.cos])
    assert found_in(cosines) == ClosestPair(0.0, (0, 24), 13)


def test_one_number_rounded_differently_is_one_code():
    table = np.full((50, 6), 0.3) + np.spacing(0.3) * RANDOM.integers(-1, 2, (50, 6))
    assert found_in(table) == ClosestPair(0.0, (0, 1), 1)


def grown(frequencies, n):
    phases = np.multiply.outer(np.arange(float(n)), frequencies)
    return np.hstack([np.sin(phases), np.cos(phases)])


HOURS = table_of([(1, 24)], 240, float)
NEAR = {
    "steps of 1e-12": grown(1e-12 * 1e4 ** (-np.arange(8) / 8), 90),
    "steps of 1e-17": grown(1e-17 * 1e4 ** (-np.arange(8) / 8), 90),
    "rho 1e100": grown(1e100 ** (-np.arange(8) / 8), 300),
    "hours and a trend": np.column_stack([HOURS, 1e-9 * np.arange(240)]),
    "the same trend in float32": np.column_stack([HOURS, 1e-6 * np.arange(240)]).astype(np.float32),
    "nearly 24 hours": grown(np.array([2 * np.pi / 24 * (1 + 1e-11)]), 168),
    "two periods without a common one": grown(2 * np.pi / np.array([24, 12.42]), 300),
    "a row of another size": np.vstack([RANDOM.standard_normal((60, 5)), np.full((1, 5), -1e30)]),
    "a column of another size": np.column_stack([np.arange(60.0), np.full(60, 1e20)]),
    "positions in float16": np.arange(0, 400.0, 2)[:, None].astype(np.float16),
    "a ramp in float16": np.linspace(0.5, 1, 200)[:, None].astype(np.float16),
    "noise of 1e-13 in clusters": np.repeat(np.eye(3), 20, 0) + 1e-13 * RANDOM.random((60, 3)),
}


@pytest.mark.parametrize("name", NEAR)
def test_rows_that_are_near_and_not_equal_keep_their_distance(name):
    assert_agree(found_in(NEAR[name]), by_definition(NEAR[name]))


@pytest.mark.parametrize("dtype", [float, np.float32])
def test_113_turns_in_nearly_710_steps_are_no_period(dtype):
    found = found_in(grown(np.ones(1), 720).astype(dtype))
    assert found.distance == pytest.approx(2 * abs(np.sin(355)), rel=1e-3)
    assert (found.pair[1] - found.pair[0], found.distinct) == (710, 720)


@pytest.mark.parametrize("dtype", [float, np.float32, np.float16])
def test_the_dft_beyond_its_period(dtype):
    table = load("dft", 150, 64).table().astype(dtype)
    assert found_in(table) == ClosestPair(0.0, (0, 64), 64)


@pytest.mark.parametrize("name", CALENDARS)
def test_a_period_is_told_and_no_mistake(name):
    turns, n = CALENDARS[name]
    result, count = assess(table_of(turns, n, float)), codes_of(turns, n)
    assert (result.verdict, result.distinct, result.gap) == ("collides", count, 0.0)
    assert shortfalls(result, "injective") == ["collides, where injective is required"]
    assert not shortfalls(result, strict=True)
    (found,) = [f for f in result.findings if f.code == "repeating-codes"]
    assert f"period {count}: positions s and s + {count} collide" in found.message
    assert {loss.distinct_cast for loss in result.precision.values()} <= set(range(count + 1))
    assert result.precision["float32"].safe_cast == count


@pytest.mark.parametrize("front", [0, 2])
@pytest.mark.parametrize("dtype", [float, np.float32])
def test_rows_of_zeros_hide_no_period(dtype, front):
    """Once 8 rows of padding made a day's 24 codes 165, and a bug of four of them."""
    hours = table_of([(k, 24) for k in range(1, 13)], 168, dtype)
    result = assess(np.pad(hours, [(front, 8), (0, 0)]))
    assert (result.distinct, result.gap) == (25, 0.0)
    told = {f.code: f for f in result.findings if f.severity != "note" or "period" in f.message}
    assert told.keys() <= {"repeating-codes", "unused-tail", "padding-row"}
    repeated = told["repeating-codes"]
    assert repeated.severity == "note"
    assert "period 24" in repeated.message


@pytest.mark.parametrize("dtype", [float, np.float32])
@pytest.mark.parametrize("n", [17, 100, 1001])
def test_a_grid_whose_ends_are_one_point_of_the_circle_collides(n, dtype):
    """sin 2^k pi x from -1 to 1; once "injective", with ends 5e-14 of a code's length apart."""
    x = np.linspace(-1, 1, n, dtype=dtype)[:, None]
    phases = x * dtype(np.pi) * 2 ** np.arange(12, dtype=dtype)
    assert found_in(np.hstack([np.sin(phases), np.cos(phases)])).distinct == n - 1
