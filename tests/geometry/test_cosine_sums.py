"""Sums of cosines by a transform against the sums themselves."""

import numpy as np
import pytest

from pefourier.geometry.cosine_sums import ERROR, cosine_sums


@pytest.mark.parametrize("n", [1, 2, 7, 64, 1000])
def test_sums_are_within_their_bound(rng, n):
    angles, weights = rng.uniform(-9, 9, (40, 50)), rng.normal(size=(40, 50))
    angles[0, :5] = [0.0, np.pi, -np.pi, 2 * np.pi, 1e-300]
    direct = np.cos(np.multiply.outer(np.arange(n), angles.ravel())) @ weights.ravel()
    halves = [(angles[:20], weights[:20]), (angles[20:], weights[20:])]
    assert np.abs(cosine_sums(halves, n) - direct).max() <= ERROR * np.abs(weights).sum()


def test_one_angle_between_grid_points_is_within_the_bound(rng):
    """The worst case of the bound: nothing averages out."""
    for angle in rng.uniform(0, np.pi, 200):
        direct = np.cos(np.arange(128) * angle)
        found = cosine_sums([(np.array([angle]), np.ones(1))], 128)
        assert np.abs(found - direct).max() <= ERROR
