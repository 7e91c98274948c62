"""How far phases go where a grid grows."""

import numpy as np
import pytest

from pefourier.encodings import build, load
from pefourier.geometry.grown_grids import turn_limits

SIDES = (4, 7)


def span(sides, **params):
    """The angle from the first point to the last of each axis, of one pair."""
    omega = build("axial", d=8, grid=sides, **params).measure.frequencies
    return np.abs(omega).max(axis=0) * (np.array(sides) - 1)


@pytest.mark.parametrize(
    "params",
    [
        {"coordinates": "unit"},
        {"coordinates": "2pi", "offset": 1.0},
        {"coordinates": "centred", "offset": 0.5},
        {"coordinates": "closed"},
        {"coordinates": "centred", "normalise": "max"},
        {"coordinates": "centred", "normalise": "min"},
        {"reference": (10.0, 12.0)},
    ],
    ids=str,
)
def test_limits_are_those_of_a_huge_grid(params):
    huge = span(tuple(1000 * side for side in SIDES), **params) / span(SIDES, **params)
    limits = turn_limits(build("axial", d=8, grid=SIDES, **params))
    np.testing.assert_allclose(limits, huge, rtol=1e-3)


def test_there_is_no_limit_where_points_are_counted():
    assert turn_limits(build("axial", d=8, grid=SIDES)) == [np.inf, np.inf]
    assert turn_limits(build("axial", d=8, grid=SIDES, coordinates="signed")) == [np.inf, np.inf]


def test_what_is_not_known_is_nan():
    numbered = load("dft", None, 8, grid=(4, 7))
    assert np.isnan(turn_limits(numbered)).all()
    row = turn_limits(build("axial", d=8, grid=(1, 7), coordinates="unit"))
    assert np.isnan(row[0])
    assert row[1] == pytest.approx(7 / 6)
