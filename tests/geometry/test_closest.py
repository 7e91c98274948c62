"""The closest pair and the distinct vectors, by lags and by rows, equal a double loop."""

from functools import cache

import numpy as np
import pytest
from double_loop import assert_agree, by_definition
from grids import waves_on

from pefourier.encodings.encoding import from_table
from pefourier.geometry import closest as room
from pefourier.geometry.closest import ClosestPair, closest_pair

RANDOM = np.random.default_rng(20240513)


def dft(period, length):
    """Return an encoding of all frequencies of a period, with the weights of the real DFT."""
    k = np.arange(period // 2 + 1)
    weights = np.where((k == 0) | (2 * k == period), 1.0, 2.0) / period
    return waves_on(length, 2 * np.pi * k / period, weights, period=period)


MEASURES = {
    "geometric": waves_on(300, 100.0 ** (-np.arange(40) / 40), squared_length=20.0),
    "random": waves_on(400, RANDOM.standard_cauchy(50), RANDOM.dirichlet(np.ones(50))),
    "one frequency": waves_on(400, [1.0]),
    "nearly periodic": waves_on(300, [2 * np.pi / 7, 2 * np.pi * 3.0001 / 7]),
    "dft, even": dft(48, 48),
    "dft, odd": dft(51, 51),
    "dft, part": dft(60, 17),
    "periodic": waves_on(200, 2 * np.pi * np.array([1, 5, 70]) / 210, period=210),
}


@pytest.mark.parametrize("at_once", [7, 2**20])
@pytest.mark.parametrize("name", MEASURES)
def test_lags_and_rows_agree(name, at_once, monkeypatch):
    monkeypatch.setattr(room, "PHASES_AT_ONCE", at_once)
    enc = MEASURES[name]
    expected = by_definition(enc.table())
    assert_agree(closest_pair(enc), expected)
    assert_agree(closest_pair(from_table(enc.table())), expected)
    lags = np.arange(1, len(enc))[:, None]
    sines = np.sin(enc.measure.frequencies * lags / 2) ** 2 @ enc.measure.weights
    least = np.sqrt(4 * enc.measure.squared_length * sines.min())
    assert closest_pair(enc).distance == pytest.approx(least, rel=1e-10)


STEP = 2 * np.pi * 1e-11
KNOWN = [  # vectors and their known distance, pair and number of distinct vectors
    (from_table(np.ones((1, 4))), (np.inf, None, 1)),
    (from_table(np.array([[0.0], [1e-200], [1.0]])), (1e-200, (0, 1), 3)),  # its square is 0
    (waves_on(1, [1.0]), (np.inf, None, 1)),
    *((dft(p, k * p + 1), (0.0, (0, p), p)) for p in (2, 9, 128) for k in (1, 3)),
    (waves_on(100, 2 * np.pi * np.array([10, 15]) / 60, period=60), (0.0, (0, 12), 12)),
    *(
        (waves_on(5000, 2 * np.pi * k * np.array([1, 2, 12]) / 1e3), (0.0, (0, 1000), 1000))
        for k in (1, 3)
    ),
    (
        waves_on(400, [2 * np.pi / 75]),
        (0.0, (0, 75), 75),
    ),  # a later lag rounds to a smaller distance
    (waves_on(900, [2 * np.pi * (1 + 1e-11) / 500]), (STEP, (0, 500), 900)),  # nearly a period
    (waves_on(1000, [1e-9, 3e-9]), (5**0.5 * 1e-9, (0, 1), 1000)),  # a short step is not zero
    (waves_on(5, [0.0]), (0.0, (0, 1), 1)),
    (
        waves_on(50, [1e17]),
        (0.0, (0, 1), 1),
    ),  # phases without a correct digit distinguish nothing
    (waves_on((3, 3), [[1e17, 3e17], [2e17, 1e17]]), (0.0, (0, 1), 1)),
    (waves_on((3, 4), [[0.5, 0.0]]), (0.0, (0, 1), 3)),
]


@pytest.mark.parametrize(("enc", "expected"), KNOWN, ids=range(len(KNOWN)))
def test_periods_are_collisions_and_what_is_near_is_none(enc, expected):
    distance, pair, distinct = expected
    assert closest_pair(enc) == ClosestPair(
        pytest.approx(distance, rel=1e-3, abs=0), pair, distinct
    )


GRID = np.stack(np.meshgrid(*[np.arange(6.0)] * 3), axis=-1).reshape(-1, 3)
CURVE = np.outer(np.arange(150), 100.0 ** (-np.arange(6) / 6))
WAVES = np.hstack([np.sin(CURVE), np.cos(CURVE)])
TABLES = {
    "normal": RANDOM.standard_normal((150, 7)),
    "wide": RANDOM.standard_normal((40, 300)),
    "shuffled waves": RANDOM.permutation(WAVES),
    "integers": RANDOM.integers(-90, 90, (150, 4)),
    "float32": RANDOM.standard_normal((150, 7)).astype(np.float32),
    "unit vectors": np.eye(90),
    "shuffled grid": RANDOM.permutation(GRID),
    "offset": 1e6 + 1e-6 * RANDOM.standard_normal((150, 5)),
    "long and short": np.repeat([[100.0], [0.01]], 75, 0) * RANDOM.standard_normal((150, 7)),
    "clusters": np.repeat(np.eye(3) * 5, 50, 0) + 1e-9 * RANDOM.standard_normal((150, 3)),
    "tiny": 1e-90 * RANDOM.standard_normal((150, 5)),
    "rows and one far": np.vstack([RANDOM.standard_normal((90, 4)), np.full((1, 4), 1e9)]),
    "units apart": 5 + np.spacing(5.0) * RANDOM.integers(0, 60, (150, 4)),
    "equal halves": np.tile(RANDOM.standard_normal((60, 4)), (2, 1)),
    "signed zeros": np.where(RANDOM.random((90, 9)) < 0.5, 0.0, -0.0),
    "several equal": np.array([[5.0], [1.0], [2.0], [2.0], [1.0], [1.0]]),
    **{  # pairs that are not neighbours, and later pairs slightly nearer
        f"gaps {k}": np.array([0.0, 10.0, a, 10.0 + b])[:, None]
        for k, (a, b) in enumerate([(1, 0.9999), (0.9999, 1), (1, 1 - 3e-10), (1 + 3e-10, 1)])
    },
    **{
        f"later, shorter by {shorter}": np.array([0.0, 1.0, 10.0, 20.0, 11.0 - shorter])[:, None]
        for shorter in (1e-3, 1e-8, 3e-10)
    },
}
BLOCKS = {
    "as they are": {},
    "many": {"BLOCK_ROWS": 8, "MANY_PAIRS": 5, "NUMBERS_AT_ONCE": 40},
    "float64 always": {"BLOCK_ROWS": 16, "MANY_PAIRS": 0, "SAMPLE_ROWS": 5, "CACHE_BYTES": 0},
    "float32 always": {"BLOCK_ROWS": 16, "MANY_PAIRS": 10**9},
    "in their order": {"BLOCK_ROWS": 16, "FEW_COLUMNS": 0},
}


@pytest.fixture(params=BLOCKS)
def blocks(request, monkeypatch):
    for name, value in BLOCKS[request.param].items():
        monkeypatch.setattr(room, name, value)


@cache
def expected_of(name):
    return by_definition(TABLES[name])


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("name", TABLES)
def test_pair_distance_and_count_are_those_of_the_double_loop(name):
    assert_agree(closest_pair(from_table(TABLES[name])), expected_of(name))
