"""Which lattice of frequencies is an encoding seen on, and how far is it smoothed?"""

from math import ceil

import numpy as np

from pefourier.encodings.checks import LARGEST, NUMBERS, check_count, check_size
from pefourier.encodings.encoding import Encoding
from pefourier.errors import PefourierError

DEFAULT_SIGMA = 4.0  # lattice steps
DEFAULT_GRID_SIGMA = 1.0  # of several axes, whose sides are short


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
