r"""The frequencies of a lattice with several axes, and how weights spread over them.

Conventions
-----------
A lattice of sides :math:`N_a` is a torus to the Fourier transform: its frequencies are
:math:`\omega_a = 2\pi k_a / N_a`, radians per point of axis a. Real codes have the same energy at
:math:`\omega` and :math:`-\omega`, so that half of them is kept, in the order of ``numpy.rfftn``:
the last axis runs over :math:`0 \dots N // 2`, the others over :math:`0, 1, \dots, -2, -1`. A point
of the half plane that has its mirror image outside stands for `multiplicity` of two frequencies.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod, sqrt

import numpy as np
from numpy.typing import NDArray

from pefourier.encodings.domain import half_plane, lattice_points
from pefourier.encodings.encoding import Floats, Measure, row_blocks

AT_ONCE = 2**22  # numbers of a block of Gaussians
TAILS = 39.0  # standard deviations at which a Gaussian underflows
WIDEST = 3.0  # of a side: a Gaussian as wide is flat on its torus
MEASURED = 1e-6  # of a frequency that is read from codes in float32
ROUNDING = 1e-24  # share of the energy that a transform may leave where there is none
DIRECTIONS = 12  # bins of half a turn


def multiplicity(sides: Sequence[int]) -> Floats:
    """How many frequencies of the whole torus each point of the half plane stands for, 1 or 2.

    >>> multiplicity((3, 4))
    array([1., 2., 1.])
    """
    k = np.arange(sides[-1] // 2 + 1)
    return np.where((k == 0) | (2 * k == sides[-1]), 1.0, 2.0)


def shares_along(steps: Floats, side: int, points: int, sigma: float) -> Floats:
    """What frequencies (m,), in steps of one axis, give to its first lattice points: (m, points).

    A Gaussian of sigma steps, wound around the axis; without smoothing all to the nearest point, or
    halves to two that are equally near.
    """
    k = np.arange(points)
    if not sigma:
        below, above = np.ceil(steps - 0.5 - 1e-9), np.floor(steps + 0.5 + 1e-9)
        nearest = [np.mod(edge, side)[:, None] == k for edge in (below, above)]
        halves: Floats = np.mean(nearest, axis=0, dtype=float)
        return halves
    sigma = min(sigma, WIDEST * side)
    distance = np.mod(k - steps[:, None], side)
    turns = int(TAILS * sigma / side) + 1
    total = np.zeros(distance.shape)
    for r in range(-turns, turns + 1):
        total += np.exp(-0.5 * ((distance + r * side) / sigma) ** 2)
    return total


def torus_density(
    frequencies: Floats, weights: Floats, sides: Sequence[int], sigma: float
) -> Floats:
    r"""Eq. 15 on a torus: the density at each of its frequencies, over the half plane.

    .. math:: G_k \propto \sum_j w_j \tfrac12 \left(e^{-|k - s_j|^2/2\sigma^2} +
              e^{-|k + s_j|^2/2\sigma^2}\right), \qquad s_{ja} = N_a \omega_{ja} / 2\pi,

    with distances around the torus, so that the sum over all frequencies, `multiplicity` times
    these, is 1; flat where each of them has the same weight.

    Parameters
    ----------
    frequencies : np.ndarray, shape (m, axes)
        Radians per point of each axis.
    weights : np.ndarray, shape (m,)
    sides : sequence of int
        Points of the lattice along each axis.
    sigma : float
        Bandwidth in lattice steps; 0 does not smooth.

    Returns
    -------
    np.ndarray, shape (N_1, …, N_last // 2 + 1)
        NaN where all weights are 0 or NaN.
    """
    points = [len(axis) for axis in half_plane(sides)]
    steps = frequencies * (np.array(sides) / (2 * np.pi))
    total = np.zeros((prod(points[:-1]), points[-1]))
    for rows in row_blocks(len(steps), AT_ONCE, prod(points[:-1]) + points[-1]):
        for sign in (1.0, -1.0):
            along = [
                shares_along(sign * s, n, count, sigma)
                for s, n, count in zip(steps[rows].T, sides, points, strict=True)
            ]
            before = weights[rows, None]
            for share in along[:-1]:
                before = (before[:, :, None] * share[:, None, :]).reshape(len(share), -1)
            total += before.T @ along[-1]
    with np.errstate(invalid="ignore"):
        total /= (multiplicity(sides) * total).sum()
    return total.reshape(points)


@dataclass(frozen=True, eq=False)
class Directions:
    """A density by the length of its frequencies, and by their direction."""

    lengths: Floats  # (R,) radians per point, the middle of each ring
    radial: Floats  # (R,)
    angles: Floats  # (DIRECTIONS,) 0 … pi, 0 along the last axis
    angular: Floats  # (DIRECTIONS,) what has a direction: all but the constant


def directions_of(density: Floats, sides: Sequence[int]) -> Directions:
    """Sums of a half plane's density over rings of one lattice step, and over directions.

    Directions are those in the plane of the last two axes, y and x. A step is that of the shortest
    side.

    >>> found = directions_of(np.diag([0.5, 0.5, 0.0]), (3, 4))
    >>> found.radial.tolist(), found.angular.tolist()[:5]
    ([0.5, 0.5, 0.0], [0.0, 0.0, 0.0, 0.0, 0.5])
    """
    omega = lattice_points(half_plane(sides))
    flat, step = density.ravel(), 2 * np.pi / min(sides)
    ring = np.rint(np.linalg.norm(omega, axis=1) / step).astype(int)
    y, x = omega[:, -2:].T
    width = np.pi / DIRECTIONS
    bins = np.rint(np.arctan2(y, x) / width).astype(int) % DIRECTIONS
    turned = (y != 0) | (x != 0)
    radial = np.bincount(ring, weights=flat).astype(float, copy=False)
    angular = np.bincount(bins[turned], weights=flat[turned], minlength=DIRECTIONS)
    return Directions(
        lengths=step * np.arange(len(radial), dtype=float),
        radial=radial,
        angles=width * np.arange(DIRECTIONS, dtype=float),
        angular=angular.astype(float, copy=False),
    )


def isotropy(frequencies: Floats, weights: Floats) -> dict[str, float]:
    r"""How far a measure prefers an axis (A2), or two crossing directions (A4); 0 = round.

    :math:`A_n = |\sum_j w_j e^{in\varphi_j}|` over frequencies in the plane of the last two axes,
    :math:`\varphi` their direction, weights made to sum to 1 without those that have none. NaN on
    one axis.

    >>> isotropy(np.array([[1.0, 0.0], [0.0, 0.3]]), np.array([0.5, 0.5]))
    {'A2': 0.0, 'A4': 1.0}
    """
    plane = frequencies[:, -2:]
    turned = plane.any(axis=1) & (weights > ROUNDING * weights.sum())
    total = weights[turned].sum()
    if frequencies.shape[1] == 1 or not total:
        return {"A2": np.nan, "A4": np.nan}
    share = weights[turned] / total
    angle = np.arctan2(plane[turned, 0], plane[turned, 1])
    waves_of = {n: float(np.abs((share * np.exp(1j * n * angle)).sum())) for n in (2, 4)}
    return {f"A{n}": 0.0 if value <= 1e-12 else value for n, value in waves_of.items()}


def idle_shares(frequencies: Floats, weights: Floats, sides: Sequence[int]) -> list[float]:
    """Of what each axis has (weights of frequencies with a part along it), the share that is idle.

    Idle waves complete less than a full rotation from side to side along the direction in which
    they run, :math:`\\sum_a (N_a \\omega_a / 2\\pi)^2 < 1`. NaN where there are none.
    """
    rotations = np.linalg.norm(frequencies * np.array(sides), axis=1) / (2 * np.pi)
    return shares_where(frequencies, weights, rotations[:, None] < 1 - MEASURED)


def aliased_shares(frequencies: Floats, weights: Floats) -> list[float]:
    """Of what each axis has, the share that turns by more than pi from point to point.

    >>> aliased_shares(np.array([[3.2, 1.0], [np.pi, 0.0]]), np.ones(2))
    [0.5, 0.0]
    """
    return shares_where(frequencies, weights, np.abs(frequencies) > np.pi * (1 + 1e-12))


def shares_where(frequencies: Floats, weights: Floats, passes: NDArray[np.bool_]) -> list[float]:
    """Share of the weights, of each axis' own frequencies (m, axes), that pass a test."""
    moving = frequencies != 0
    with np.errstate(invalid="ignore"):  # an axis may have none
        shares: list[float] = (weights @ (moving & passes) / (weights @ moving)).tolist()
    return shares


def least_sigma(axes: int, on_line: float) -> float:
    """The smallest bandwidth at which a Gaussian half a step away on all axes is a number."""
    return on_line * sqrt(axes)


def frequencies_on_axes(measure: Measure) -> Floats:
    """Frequencies as (m, axes), those of one axis, too."""
    return measure.frequencies.reshape(len(measure.weights), -1)
