r"""Frequencies of a lattice with several axes, and the density of weights over them.

Conventions
-----------
The Fourier transform treats a lattice of sides :math:`N_a` as a torus, with frequencies
:math:`\omega_a = 2\pi k_a / N_a` in radians per point of axis a. Real vectors have the same energy
at :math:`\omega` and :math:`-\omega`; only a half plane is kept, in the order of ``numpy.rfftn``:
the last axis runs over :math:`0 \dots N // 2`, the others over :math:`0, 1, \dots, -2, -1`. A point
of the half plane whose mirror image lies outside represents two frequencies (`multiplicity`).
"""

from math import prod

import numpy as np

from pefourier.encodings.encoding import half_plane, lattice_points, row_blocks
from pefourier.types import Bools, Floats, Ints

AT_ONCE = 2**22  # numbers of a block of Gaussians
TAILS = 39.0  # standard deviations at which a Gaussian underflows
WIDEST = 3.0  # sides: a Gaussian this wide is flat on its torus
MEASURED = 1e-6  # relative error of a frequency fitted to vectors in float32
ROUNDING = 1e-24  # share of the energy that rounding of a transform may add
DIRECTIONS = 12  # bins of a half circle


def multiplicity(sides: Ints) -> Floats:
    """Return the number of frequencies (1 or 2) that each point of the half plane represents.

    >>> multiplicity((3, 4))
    array([1., 2., 1.])
    """
    k = np.arange(sides[-1] // 2 + 1)
    return np.where((k == 0) | (2 * k == sides[-1]), 1.0, 2.0)


def shares_along(steps: Floats, side: int, points: int, sigma: float) -> Floats:
    """Return the shares of frequencies (m,), in lattice steps, at the first points: (m, points).

    Shares follow a Gaussian of sigma steps wrapped around the axis. Without smoothing, the nearest
    point gets everything, or two equally near points get half each.
    """
    k = np.arange(points)
    if not sigma:
        below, above = np.ceil(steps - 0.5 - 1e-9), np.floor(steps + 0.5 + 1e-9)
        nearest = [np.mod(edge, side)[:, None] == k for edge in (below, above)]
        halves: Floats = np.mean(nearest, axis=0, dtype=float)
        return halves
    sigma = min(sigma, WIDEST * side)
    distance = np.mod(k - steps[:, None], side)
    wraps = int(TAILS * sigma / side) + 1
    total = np.zeros(distance.shape)
    for r in range(-wraps, wraps + 1):
        total += np.exp(-0.5 * ((distance + r * side) / sigma) ** 2)
    return total


def torus_density(frequencies: Floats, weights: Floats, sides: Ints, sigma: float) -> Floats:
    r"""Return the frequency density (Eq. 15) on a torus, over the half plane.

    .. math:: G_k \propto \sum_j w_j \tfrac12 \left(e^{-|k - s_j|^2/2\sigma^2} +
              e^{-|k + s_j|^2/2\sigma^2}\right), \qquad s_{ja} = N_a \omega_{ja} / 2\pi,

    with distances measured around the torus. The sum over all frequencies (each value times its
    `multiplicity`) is 1; the density is flat if all frequencies have equal weight.

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
        NaN if all weights are 0 or NaN.
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


def directions_of(density: Floats, sides: Ints) -> list[dict[str, Floats]]:
    """Sum the density of a half plane over rings of one lattice step, and over directions.

    Lengths are in the middle of each ring, the step is that of the shortest side. Directions lie in
    the plane of the last two axes, y and x, from 0 (x) to pi, without the constant.

    >>> radial, angular = directions_of(np.diag([0.5, 0.5, 0.0]), (3, 4))
    >>> radial["density"].tolist(), angular["density"].tolist()[:5]
    ([0.5, 0.5, 0.0], [0.0, 0.0, 0.0, 0.0, 0.5])
    """
    omega = lattice_points(half_plane(sides))
    flat, step = density.ravel(), 2 * np.pi / min(sides)
    ring = np.rint(np.linalg.norm(omega, axis=1) / step).astype(int)
    y, x = omega[:, -2:].T
    width = np.pi / DIRECTIONS
    bins = np.rint(np.arctan2(y, x) / width).astype(int) % DIRECTIONS
    aimed = (y != 0) | (x != 0)  # frequencies with a direction
    radial = np.bincount(ring, weights=flat)
    angular = np.bincount(bins[aimed], weights=flat[aimed], minlength=DIRECTIONS)
    return [
        {"omega": step * np.arange(len(radial)), "density": radial},
        {"angle": width * np.arange(DIRECTIONS), "density": angular.astype(float)},
    ]


def isotropy(frequencies: Floats, weights: Floats) -> dict[str, float]:
    r"""Return the preference for one direction (A2) or two perpendicular ones (A4); 0 = isotropic.

    :math:`A_n = |\sum_j w_j e^{in\varphi_j}|` over frequencies in the plane of the last two axes.
    :math:`\varphi_j` is the direction; frequencies without a direction are left out, and the other
    weights sum to 1. NaN on one axis.

    >>> isotropy(np.array([[1.0, 0.0], [0.0, 0.3]]), np.array([0.5, 0.5]))
    {'A2': 0.0, 'A4': 1.0}
    """
    plane = frequencies[:, -2:]
    aimed = plane.any(axis=1) & (weights > ROUNDING * weights.sum())
    total = weights[aimed].sum()
    if frequencies.shape[1] == 1 or not total:
        return {"A2": np.nan, "A4": np.nan}
    share = weights[aimed] / total
    angle = np.arctan2(plane[aimed, 0], plane[aimed, 1])
    moments = {n: float(np.abs((share * np.exp(1j * n * angle)).sum())) for n in (2, 4)}
    return {f"A{n}": 0.0 if value <= 1e-12 else value for n, value in moments.items()}


def idle_shares(frequencies: Floats, weights: Floats, sides: Ints) -> list[float]:
    """Return, for each axis, the idle share of the weight of frequencies along it.

    An idle frequency completes less than a full rotation across the lattice along its direction:
    :math:`\\sum_a (N_a \\omega_a / 2\\pi)^2 < 1`. NaN for an axis without frequencies.
    """
    rotations = np.linalg.norm(frequencies * np.array(sides), axis=1) / (2 * np.pi)
    return shares_where(frequencies, weights, rotations[:, None] < 1 - MEASURED)


def aliased_shares(frequencies: Floats, weights: Floats) -> list[float]:
    """Return, for each axis, the share of weight that rotates by more than pi between points.

    >>> aliased_shares(np.array([[3.2, 1.0], [np.pi, 0.0]]), np.ones(2))
    [0.5, 0.0]
    """
    return shares_where(frequencies, weights, np.abs(frequencies) > np.pi * (1 + 1e-12))


def shares_where(frequencies: Floats, weights: Floats, passes: Bools) -> list[float]:
    """Return, for each axis, the share of weight of its frequencies (m, axes) that pass a test."""
    moving = frequencies != 0
    with np.errstate(invalid="ignore"):  # an axis may have no frequencies
        shares: list[float] = (weights @ (moving & passes) / (weights @ moving)).tolist()
    return shares
