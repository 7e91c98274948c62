"""Eq. 15 on a torus equals sums written out; directions and ranges of phases on grids."""

import numpy as np
import pytest

from pefourier.encodings.encoding import lattice, periodogram
from pefourier.geometry.torus import (
    aliased_shares,
    idle_shares,
    multiplicity,
    torus_density,
)


def written_out(frequencies, weights, sides, sigma):
    """Return the density of a torus from all frequencies, with images two periods away."""
    total = np.zeros(sides)
    for place in np.ndindex(*sides):
        for sign in (1, -1):
            for omega, weight in zip(frequencies, weights, strict=True):
                share = weight
                for k, w, n in zip(place, sign * omega, sides, strict=True):
                    apart = k - n * w / (2 * np.pi) + n * np.arange(-3, 4)
                    share *= np.exp(-0.5 * (apart / sigma) ** 2).sum()
                total[place] += share
    return total / total.sum()


@pytest.mark.parametrize("sides", [(5, 8), (4, 7), (3, 4, 5)], ids=str)
def test_the_density_is_the_sum_written_out(sides, rng):
    frequencies = rng.uniform(-np.pi, np.pi, (4, len(sides)))
    weights = rng.random(4)
    density = torus_density(frequencies, weights, sides, 0.8)
    whole = written_out(frequencies, weights, sides, 0.8)
    np.testing.assert_allclose(density, whole[..., : sides[-1] // 2 + 1], atol=1e-15)
    assert (density * multiplicity(sides)).sum() == pytest.approx(1, abs=1e-14)
    table = rng.standard_normal((np.prod(sides), 3))
    omega, energy = periodogram(lattice(sides), table)
    whole = (np.abs(np.fft.fftn(table.reshape(*sides, 3), axes=range(len(sides)))) ** 2).sum(-1)
    folded = whole[..., : sides[-1] // 2 + 1] * multiplicity(sides) / len(table)
    np.testing.assert_allclose(energy, folded.ravel(), rtol=1e-12)
    assert omega.shape == (len(energy), len(sides))


def test_idle_and_aliased_shares_are_of_each_axis():
    frequencies = np.array([[0.5, 0.0], [0.4, 0.0], [0.0, 4.0], [0.0, 0.1], [0.0, 0.0]])
    weights = np.array([0.3, 0.1, 0.2, 0.2, 0.2])
    assert idle_shares(frequencies, weights, (14, 20)) == pytest.approx([0.25, 0.5])
    assert aliased_shares(frequencies, weights) == pytest.approx([0.0, 0.5])
    assert np.isnan(idle_shares(np.zeros((1, 2)), np.ones(1), (3, 3))).all()
