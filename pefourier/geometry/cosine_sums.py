r"""Sums of many cosines at all whole numbers, by one fast Fourier transform.

Conventions
-----------
Angles are in radians, any number of them anywhere on the circle. Each is spread over the points of
a grid near it as a Gaussian, whose transform is divided out afterwards (Greengard & Lee, 2004).
"""

from collections.abc import Iterable

import numpy as np

REACH = 13  # grid points that an angle is spread over to each side
ERROR = 1e-11  # bound on that of a sum, relative to the sum of the sizes of its weights


def cosine_sums(terms: Iterable[tuple[np.ndarray, np.ndarray]], n: int) -> np.ndarray:
    r"""Sums :math:`\sum_q w_q \cos(k \theta_q)` for k = 0 … n - 1.

    Parameters
    ----------
    terms : iterable of pairs of np.ndarray
        Angles and weights, of one shape in each pair.

    Notes
    -----
    Where the angles are exact, the error is below 1e-11 times the sum of :math:`|w_q|`.

    Examples
    --------
    >>> cosine_sums([(np.array([0.0, np.pi / 3]), np.array([1.0, 2.0]))], 4).round(6)
    array([ 3.,  2.,  0., -1.])
    """
    points = 4 * 2 ** int(np.ceil(np.log2(max(n, REACH))))
    spread = sum(gaussians(angles.ravel(), weights.ravel(), points) for angles, weights in terms)
    k = np.arange(n)
    variance = narrow_enough(points)
    scale = np.sqrt(2 * np.pi / variance) / points
    return np.fft.rfft(spread)[:n].real * np.exp(k * k * (variance / 2)) * scale


def narrow_enough(points: int) -> float:
    """Variance of a Gaussian that has ended at REACH and whose transform has at half the grid."""
    return 8 * np.pi * REACH / (3 * points**2)


def gaussians(angles: np.ndarray, weights: np.ndarray, points: int) -> np.ndarray:
    """Weights at the nearest grid points to their angles: exp(-(distance)^2 / 2 variance) each."""
    step, variance = 2 * np.pi / points, narrow_enough(points)
    nearest = np.floor(angles / step)
    beyond = angles - nearest * step
    height = weights * np.exp(-0.5 * beyond**2 / variance)
    ratio = np.exp(beyond * (step / variance))
    height *= ratio ** (1 - REACH)
    reach = np.arange(1 - REACH, REACH + 1)
    heights = np.empty((len(reach), len(angles)))
    for row, share in zip(heights, np.exp(-0.5 * (reach * step) ** 2 / variance), strict=True):
        np.multiply(height, share, out=row)
        height *= ratio
    points_near = (nearest.astype(np.int64) + reach[:, None]) % points
    return np.bincount(points_near.ravel(), heights.ravel(), minlength=points)
