"""The closest pair by lags where inner products are declared, against the double loop over rows."""

import numpy as np
import pytest
from double_loop import assert_agree, by_definition

from pefourier.encodings.domain import positions
from pefourier.encodings.encoding import Encoding, Measure, from_table
from pefourier.geometry import closest as room
from pefourier.geometry import closest_rows
from pefourier.geometry.closest import ClosestPair, closest_pair

RANDOM = np.random.default_rng(20240513)
NORMAL = RANDOM.standard_normal((150, 7))


def waves(frequencies, length, weights=None, **facts):
    """The encoding of cosines and sines that a measure declares."""
    omega = np.asarray(frequencies, dtype=float)
    weights = np.full(len(omega), 1 / len(omega)) if weights is None else np.asarray(weights)
    measure = Measure(omega, weights, facts.pop("squared_length", 1.0), **facts)

    def codes(x):
        phases = measure.phases(x)
        amplitudes = np.sqrt(measure.squared_length * weights)
        return np.hstack([amplitudes * np.cos(phases), amplitudes * np.sin(phases)])

    return Encoding("waves", positions(length), 2 * len(omega), codes, measure)


def dft(period, length):
    """All frequencies of a period, with the weights of the real DFT."""
    k = np.arange(period // 2 + 1)
    weights = np.where((k == 0) | (2 * k == period), 1.0, 2.0) / period
    return waves(2 * np.pi * k / period, length, weights, period=period)


MEASURES = {
    "geometric": waves(100.0 ** (-np.arange(40) / 40), 300, squared_length=20.0),
    "random": waves(RANDOM.standard_cauchy(50), 400, RANDOM.dirichlet(np.ones(50))),
    "one frequency": waves([1.0], 400),
    "nearly periodic": waves([2 * np.pi / 7, 2 * np.pi * 3.0001 / 7], 300),
    "dft, even": dft(48, 48),
    "dft, odd": dft(51, 51),
    "dft, part": dft(60, 17),
    "periodic": waves(2 * np.pi * np.array([1, 5, 70]) / 210, 200, period=210),
}


def test_one_code_has_no_pair():
    assert closest_pair(from_table(np.ones((1, 4)))) == ClosestPair(np.inf, None, 1)
    assert closest_pair(waves([1.0], 1)) == ClosestPair(np.inf, None, 1)


@pytest.mark.parametrize("lags_at_once", [7, 2**12])
@pytest.mark.parametrize("name", MEASURES)
def test_lags_and_rows_agree(name, lags_at_once, monkeypatch):
    monkeypatch.setattr(room, "LAGS_AT_ONCE", lags_at_once)
    monkeypatch.setattr(room, "FREQUENCIES_AT_ONCE", lags_at_once // 3)
    enc = MEASURES[name]
    by_lags = closest_pair(enc)
    assert by_lags == ClosestPair(pytest.approx(by_lags.distance), by_lags.pair, len(enc))
    assert_agree(by_lags, by_definition(enc.table()))
    assert_agree(closest_pair(from_table(enc.table())), by_definition(enc.table()))


@pytest.mark.parametrize("name", MEASURES)
def test_smallest_distance_over_lags_is_that_of_the_sum(name):
    enc = MEASURES[name]
    omega, weights, c = enc.measure.frequencies, enc.measure.weights, enc.measure.squared_length
    squared = [
        4 * c * sum(w * np.sin(o * lag / 2) ** 2 for o, w in zip(omega, weights, strict=True))
        for lag in range(1, len(enc))
    ]
    assert closest_pair(enc).distance == pytest.approx(min(squared) ** 0.5, rel=1e-10)


@pytest.mark.parametrize("period", [2, 8, 9, 97, 128])
def test_dft_has_as_many_codes_as_its_period(period):
    assert closest_pair(dft(period, period)) == ClosestPair(pytest.approx(2**0.5), (0, 1), period)
    assert closest_pair(dft(period, period + 1)) == ClosestPair(0.0, (0, period), period)
    assert closest_pair(dft(period, 3 * period)) == ClosestPair(0.0, (0, period), period)


def test_period_of_codes_can_be_shorter_than_that_of_the_measure():
    enc = waves(2 * np.pi * np.array([10, 15]) / 60, 100, period=60)
    assert closest_pair(enc) == ClosestPair(0.0, (0, 12), 12)


@pytest.mark.parametrize("turns", [1, 3])
def test_period_nobody_declared_is_found_in_spite_of_rounding(turns):
    enc = waves(2 * np.pi * turns * np.array([1, 2, 12]) / 1000, 5000)
    assert closest_pair(enc) == ClosestPair(0.0, (0, 1000), 1000)


def test_first_of_several_collisions_is_kept_though_a_later_one_rounds_to_less():
    assert closest_pair(waves([2 * np.pi / 75], 400)) == ClosestPair(0.0, (0, 75), 75)


def test_nearly_a_period_is_no_collision():
    step = 2 * np.pi * 1e-11
    enc = waves([2 * np.pi * (1 + 1e-11) / 500], 900)
    assert closest_pair(enc) == ClosestPair(pytest.approx(step, rel=1e-3), (0, 500), 900)


def test_short_step_is_no_collision():
    enc = waves([1e-9, 3e-9], 1000, [0.5, 0.5])
    assert closest_pair(enc) == ClosestPair(pytest.approx(5**0.5 * 1e-9, rel=1e-12), (0, 1), 1000)


def test_measure_that_is_constant_has_one_code():
    assert closest_pair(waves([0.0], 5)) == ClosestPair(0.0, (0, 1), 1)


def test_measure_without_power_is_searched_by_rows():
    table = NORMAL
    measure = Measure(np.array([0.0]), np.array([1.0]))
    assert_agree(closest_pair(from_table(table, measure=measure)), by_definition(table))


def test_lags_that_cannot_be_nearest_are_given_up_early(monkeypatch):
    computed = []
    whole = room.squared_distances

    def counted(measure, lags, columns=slice(None)):
        computed.append(len(lags) * len(measure.weights[columns]))
        return whole(measure, lags, columns)

    monkeypatch.setattr(room, "squared_distances", counted)
    assert closest_pair(waves(1e4 ** (np.arange(-511, 1) / 512), 20000)).pair == (0, 1)
    assert sum(computed) < 20000 * 512 / 8


@pytest.mark.parametrize("enc", [MEASURES["geometric"], from_table(NORMAL)])
def test_progress_counts_blocks_to_the_last(enc, monkeypatch):
    monkeypatch.setattr(closest_rows, "BLOCK_ROWS", 40)
    monkeypatch.setattr(room, "LAGS_AT_ONCE", 40)
    calls = []
    closest_pair(enc, lambda done, total: calls.append((done, total)))
    total = calls[-1][1]
    assert total > 3
    assert calls == [(done, total) for done in range(1, total + 1)]
