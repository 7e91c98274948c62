"""Weights of frequencies over the points of a lattice: Eq. 15.

Conventions
-----------
Frequencies are in lattice steps, 2 pi / N radians each; points are 0, 1 … of half the circle.
"""

import numpy as np

from pefourier.encodings.encoding import row_blocks

AT_ONCE = 2**15  # frequencies that are smeared together
SMALL = 2**25  # frequency-lattice pairs up to which no tail is left out


def at_nearest_points(steps: np.ndarray, weights: np.ndarray, points: int) -> np.ndarray:
    """Each weight at its nearest lattice point, shared by two that are equally near."""
    below = np.clip(np.ceil(steps - 0.5 - 1e-9).astype(int), 0, points - 1)
    above = np.clip(np.floor(steps + 0.5 + 1e-9).astype(int), 0, points - 1)
    share = np.concatenate([weights, weights]) / 2
    return np.bincount(np.concatenate([below, above]), weights=share, minlength=points)


def smoothed(steps: np.ndarray, weights: np.ndarray, points: int, sigma: float) -> np.ndarray:
    """Eq. 15: a Gaussian of width sigma around every frequency, normalised over the lattice.

    Points are walked by their distance r from each frequency's own lattice point, which costs
    (frequencies x reach) in place of (frequencies x points) and needs no more memory than both.
    """
    # Beyond 39 sigma a term underflows to zero; beyond 10.3 sigma it is under 1e-22 of the peak.
    tails = 39.0 if len(steps) * 78 * sigma <= SMALL else 10.3
    reach = min(int(np.ceil(tails * min(sigma, points))), points)
    nearest = np.clip(np.rint(steps).astype(int), 0, points - 1)
    order = np.argsort(nearest, kind="stable")  # neighbours together: short stretches of it
    nearest, offsets, weights = nearest[order], (nearest - steps)[order], weights[order]
    g = np.zeros(points + 2 * reach)
    for part in row_blocks(len(nearest), AT_ONCE):
        first, places = nearest[part][0], nearest[part] - nearest[part][0]
        for r in range(-reach, reach + 1):
            height = weights[part] * np.exp(-0.5 * ((offsets[part] + r) / sigma) ** 2)
            start = first + r + reach
            g[start : start + places[-1] + 1] += np.bincount(places, weights=height)
    return g[reach : reach + points] / g[reach : reach + points].sum()
