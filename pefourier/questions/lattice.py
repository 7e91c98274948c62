"""Which lattice of frequencies is an encoding seen on, and how is it smoothed? Eq. 15.

Conventions
-----------
Frequencies are in lattice steps, 2 pi / N radians each; points are 0, 1 … of half the circle.
"""

from math import ceil

import numpy as np

from pefourier.encodings.checks import LARGEST, NUMBERS, check_count, check_size
from pefourier.encodings.encoding import Encoding, row_blocks
from pefourier.errors import PefourierError

DEFAULT_SIGMA = 4.0  # lattice steps
DEFAULT_GRID_SIGMA = 1.0  # of several axes, whose sides are short
AT_ONCE = 2**15  # frequencies that are smeared together
SMALL = 2**25  # frequency-lattice pairs up to which no tail is left out


def lattice_sides(enc: Encoding, lattice: int | None) -> tuple[int, ...]:
    """Points of the lattice along each axis: those given, or the encoding's own."""
    axes = len(enc.domain.sides)
    if axes == 1 or lattice is not None:
        n = (enc.lattice or enc.dim) if lattice is None else lattice
        if n < 2:
            raise PefourierError(f"a lattice needs at least 2 points; got {n}; set --lattice")
        check_count("lattice", n, maximum=LARGEST)
        sides = (n,) * axes
    else:
        sides = enc.domain.sides
    check_size("a lattice", *sides, limit=NUMBERS)
    return sides


def points_of_line(enc: Encoding, n: int, steps: np.ndarray, sigma: float) -> int:
    """Points of a lattice of one axis: to half a turn, at uneven times to the fastest wave."""
    points = n // 2 + 1
    if enc.domain.irregular:
        points = max(points, ceil(steps.max() + 3 * sigma) + 1)
    if points > LARGEST:
        raise PefourierError(
            f"{enc.name}: {points} lattice points would reach its fastest wave, and {LARGEST} are "
            "the most; set a shorter --lattice"
        )
    return points


def usual_sigma(steps: np.ndarray, method: str, axes: int) -> float:
    """The bandwidth where none is given: none is needed for what lies wholly on the lattice."""
    if method == "declared" and np.abs(steps - np.rint(steps)).max() < 1e-9:
        return 0.0
    return DEFAULT_SIGMA if axes == 1 else DEFAULT_GRID_SIGMA


def check_sigma(sigma: float | None, smallest: float) -> None:
    """Refuse a bandwidth that is no number of steps, or that reaches no lattice point."""
    if sigma is not None and not (np.isfinite(sigma) and sigma >= 0):
        raise PefourierError(
            f"sigma must be a finite number of lattice steps from 0 on; got {sigma}"
        )
    if sigma is not None and 0 < sigma < smallest:
        raise PefourierError(
            f"sigma must be 0, which does not smooth, or {smallest} lattice steps or more, "
            f"which reach the nearest point; got {sigma}"
        )


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
