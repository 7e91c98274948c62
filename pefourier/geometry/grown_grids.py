r"""How far do phases go where a grid grows?

Conventions
-----------
A pair turns by :math:`w(N)\,(N - 1)` from the first to the last of N points along an axis. Where
coordinates are shares of a side a step is :math:`w(N) = 1 / (a N + b)`, and the turn grows towards
:math:`1 / a`; where they count points a is 0, and there is no end. All sides grow by one factor.
"""

import numpy as np

from pefourier.encodings.encoding import Encoding, Measure
from pefourier.encodings.registry import BUILDERS, build

GROWN = 2  # times the sides of the grid that is compared with
SAME = 1e-9  # relative, within which two numbers are one


def turn_limits(enc: Encoding) -> list[float]:
    """What pairs turn along each axis of an endless grid, over what they turn on this one.

    Infinite where coordinates count points; NaN where it is not known: along an axis of one point,
    and where a formula has no grid and its points are numbered one after another.

    >>> turn_limits(build("axial", d=8, grid=(5, 9), coordinates="unit"))
    [1.25, 1.125]
    >>> turn_limits(build("axial", d=8, grid=(5, 9)))
    [inf, inf]
    """
    sides = enc.domain.sides
    if "grid" not in BUILDERS[enc.name].parameters:
        return [np.nan] * len(sides)
    now, then = (fastest_on_axes(x.measure) for x in (enc, grown(enc)))
    return [turn_limit(*row) for row in zip(now, then, sides, strict=True)]


def turn_limit(now: float, then: float, side: int) -> float:
    """The same along one axis, from steps on it and on one `GROWN` times as long."""
    if side == 1 or not now:
        return np.nan
    growth = (now / then - 1) / (GROWN - 1)  # a N / w(N)
    return float(side / (side - 1) / growth) if growth > SAME else np.inf


def grown(enc: Encoding) -> Encoding:
    """The same formula on a grid whose sides are `GROWN` times as long."""
    keys = BUILDERS[enc.name].parameters.keys() - {"grid", "prefix"}
    params = {key: value for key, value in enc.params.items() if key in keys}
    sides = tuple(GROWN * side for side in enc.domain.sides)
    return build(enc.name, d=enc.dim, grid=sides, **params)


def fastest_on_axes(measure: Measure) -> list[float]:
    """The largest frequency along each axis, radians a point."""
    return np.abs(frequencies_on_axes(measure)).max(axis=0).tolist()


def frequencies_on_axes(measure: Measure) -> np.ndarray:
    """Frequencies as (m, axes), those of one axis, too."""
    return measure.frequencies.reshape(len(measure.weights), -1)
