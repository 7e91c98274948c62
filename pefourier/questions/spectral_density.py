"""The lattice of frequencies of a density, its smoothing and its summary: Eq. 15.

Conventions
-----------
Frequencies are in lattice steps, 2 pi / N radians each; points are 0, 1 … of half the circle.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log, pi
from typing import Any

import numpy as np

from pefourier.encodings.checks import check_count, check_size
from pefourier.encodings.domain import lattice_points, periodogram
from pefourier.encodings.encoding import BLOCK, Encoding, as_encoding, row_blocks, without_prefix
from pefourier.encodings.places import axis_encodings
from pefourier.errors import PefourierError, unknown
from pefourier.geometry.precision import FLOAT32_EPS
from pefourier.geometry.torus import (
    aliased_shares,
    directions_of,
    idle_shares,
    isotropy,
    multiplicity,
)
from pefourier.geometry.waves import fit_sinusoid_pairs

DEFAULT_SIGMA = 4.0  # lattice steps
DEFAULT_GRID_SIGMA = 1.0  # of several axes, whose sides are short
AT_ONCE = 2**15  # frequencies that are smeared together
SMALL = 2**25  # frequency-lattice pairs up to which no tail is left out
LATTICE = 2**24  # points of a lattice: more would take over 1 GiB or 10 seconds
METHODS = ("auto", "declared", "periodogram")
SMEAR = 0.1  # decades: the width of the Gaussian around each frequency
POINTS = 50  # of the density, in a decade
FIRST = 1 / 16  # of the frequency axis
NEGLIGIBLE = 1e-12  # of the energy: what a transform leaves of nothing


def lattice_sides(enc: Encoding, lattice: int | None) -> tuple[int, ...]:
    """Points of the lattice along each axis: those given, or the encoding's own."""
    axes = len(enc.domain.sides)
    if axes == 1 or lattice is not None:
        n = (enc.lattice or enc.dim) if lattice is None else lattice
        if n < 2:
            raise PefourierError(f"a lattice needs at least 2 points; got {n}; set --lattice")
        check_count("lattice", n, maximum=LATTICE)
        sides = (n,) * axes
    else:
        sides = enc.domain.sides
    check_size("a lattice", *sides, limit=LATTICE)
    return sides


def points_of_line(enc: Encoding, n: int, steps: np.ndarray, sigma: float) -> int:
    """Points of a lattice of one axis: to half a turn, at uneven times to the fastest wave."""
    points = n // 2 + 1
    if enc.domain.irregular:
        points = max(points, ceil(steps.max() + 3 * sigma) + 1)
    if points > LATTICE:
        raise PefourierError(
            f"{enc.name}: {points} lattice points would reach its highest frequency, and "
            f"{LATTICE} are the most; set a smaller --lattice"
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


def choose_method(enc: Encoding, method: str) -> str:
    """The method that "auto" stands for; any other as given, where the encoding allows it."""
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    if method == "declared" and enc.measure is None:
        less = " less its mean is a table and" if enc.params.get("demean") else ""
        raise PefourierError(
            f"{enc.name}{less} declares no spectral measure; use --method periodogram or auto"
        )
    if method == "auto":
        return "declared" if enc.measure else "periodogram"
    return method


def frequencies_and_weights(enc: Encoding, method: str) -> tuple[np.ndarray, np.ndarray]:
    """Frequencies (m,) in radians per position and weights (m,) that sum to one (NaN if all 0)."""
    if method == "declared":
        return enc.measure.frequencies, enc.measure.weights
    frequencies, energy = periodogram(enc.domain, enc.table())
    total = energy.sum()
    return frequencies, energy / total if total else np.full(len(energy), np.nan)


def visible_frequencies(enc: Encoding, frequencies: np.ndarray) -> np.ndarray:
    """Frequencies (m,), or (m, axes), as points show them; those of one axis have no sign.

    None folds at times at uneven steps.
    """
    visible = frequencies if enc.domain.irregular else alias(frequencies)
    return np.abs(visible) if frequencies.ndim == 1 else visible


def alias(frequencies: np.ndarray) -> np.ndarray:
    """Frequencies in [-pi, pi] that whole points cannot tell from the given ones (aliasing).

    >>> alias(np.array([-0.5, 2 * pi - 0.5, pi])).round(2)
    array([-0.5 , -0.5 ,  3.14])
    """
    inside = np.abs(frequencies) <= pi
    return np.where(inside, frequencies, (frequencies + pi) % (2 * pi) - pi)


@dataclass(frozen=True)
class DensitySummary:
    """Single numbers of a spectrum; frequencies in radians per position."""

    lowest_bin_index: float | None  # root of Eq. 16, where the geometric grid enters the lowest bin
    below_first_bin: int | None  # declared frequencies strictly below 2 pi / N
    frequencies_total: int | None
    lowest_bin_share: float  # density at k = 0
    centroid: float  # mean frequency
    cutoff95: float  # smallest frequency holding 95 % of the density below or at it
    flatness: float  # exp(entropy) / K, 1 = flat
    mean_share: float | None = None  # of a table's energy what is the same in all rows


def summarize_density(
    enc: Encoding,
    omega: np.ndarray | list[np.ndarray],
    g: np.ndarray,
    sides: Sequence[int],
    frequencies: np.ndarray | None,
) -> DensitySummary:
    """The single numbers of a density, of which some points stand for two frequencies."""
    on_line = len(sides) == 1
    length = omega if on_line else np.linalg.norm(lattice_points(omega), axis=1)
    times = np.ones(g.shape) if on_line else np.broadcast_to(multiplicity(sides), g.shape)
    shares, per_point = g.ravel(), (g / times).ravel()
    order = np.argsort(length, kind="stable")
    positive = per_point > 0
    entropy = -(shares[positive] * np.log(per_point[positive])).sum()
    slow = root = None
    if frequencies is not None:
        vectors = np.abs(frequencies.reshape(len(frequencies), -1))
        slow = int((vectors < 2 * pi / np.array(sides)).all(axis=1).sum())
        root = lowest_bin_index(enc, frequencies) if on_line else None
    return DensitySummary(
        lowest_bin_index=root,
        below_first_bin=slow,
        frequencies_total=None if frequencies is None else len(frequencies),
        lowest_bin_share=float(per_point[0]),
        centroid=float(length @ shares),
        cutoff95=first_holding(length[order], shares[order]),
        flatness=float(np.exp(entropy) / times.sum()) if positive.any() else np.nan,
    )


def first_holding(ascending: np.ndarray, shares: np.ndarray, part: float = 0.95) -> float:
    """The first frequency that with those before it holds a part of the energy."""
    reached = np.cumsum(shares) >= part - 1e-12
    return float(ascending[np.argmax(reached)]) if reached.any() else np.nan


def lowest_bin_index(enc: Encoding, frequencies: np.ndarray) -> float | None:
    """The root d ln(d / 2 pi) / ln rho of Eq. 16, where frequencies are rho^(-l/d), l = 0, 2, …"""
    rho, d = enc.params.get("rho"), enc.dim
    if rho is None or rho <= 0 or rho == 1:
        return None
    with np.errstate(over="ignore"):  # an infinite grid is not that of the frequencies
        grid = rho ** (-2.0 * np.arange(len(frequencies)) / d)
    geometric = np.allclose(frequencies, grid, rtol=1e-9, atol=0)
    return d * log(d / (2 * pi)) / log(rho) if geometric else None


def mean_share(
    enc: Encoding, method: str, frequencies: np.ndarray, weights: np.ndarray
) -> float | None:
    """The share of a table's energy that is the same in all rows; None where none was looked at.

    It is that of frequency 0 of a lattice's periodogram: n times the mean row's squared length.
    """
    if method == "declared" or not enc.domain.has_lags or np.isnan(weights).any():
        return None
    if enc.params.get("demean"):
        return 0.0
    unrotated = (frequencies.reshape(len(weights), -1) == 0).all(axis=1)
    return float(weights[unrotated].sum())


def declared_mean_share(enc: Encoding, frequencies: np.ndarray, weights: np.ndarray) -> float:
    """The share of the energy of the codes of all points that their mean row has.

    Of a wave at n even steps it is the squared Dirichlet kernel (sin(nω/2) / n sin(ω/2))²; other
    codes are summed.

    >>> from pefourier.encodings import load
    >>> rope = load("rope", length=2, d=2)  # codes 1 rad apart: cos(1/2)²
    >>> round(declared_mean_share(rope, np.ones(1), np.ones(1)), 4)
    0.7702
    """
    if enc.stationary:
        turns = alias(frequencies.reshape(len(weights), -1)) / (2 * pi)
        kernels = np.sinc(turns * enc.domain.sides) / np.sinc(turns)
        return float(weights @ kernels.prod(axis=1) ** 2)
    total, energy = np.zeros(enc.dim), 0.0
    for _, rows in enc.blocks():
        total += rows.sum(axis=0)
        energy += float((rows**2).sum())
    return float((total**2).sum() / (len(enc) * energy)) if energy else np.nan


@dataclass(frozen=True)
class DecadeDensity:
    """Energy over the logarithm of frequency."""

    omega: np.ndarray  # (K,) radians per position, at equal steps of the logarithm
    density: np.ndarray  # (K,) share of energy per decade
    at_zero: float  # share at frequency 0, which has no logarithm


def density_by_decade(encoding: Encoding | np.ndarray, method: str = "auto") -> DecadeDensity:
    r"""Share of energy per decade of frequency.

    .. math:: p(\log_{10}\omega) = \sum_{\omega_j > 0} w_j\,
              \mathcal{N}(\log_{10}\omega;\, \log_{10}\omega_j,\, 0.1^2)

    as Eq. 15 smears frequencies over the lattice. Its integral is 1 less the share at frequency 0.
    A table of zeros gives NaN; one with no energy beside frequency 0 an empty density.

    Examples
    --------
    >>> from pefourier.encodings import load
    >>> rope = density_by_decade(load("rope", d=256))  # base 10 000: four decades
    >>> float(rope.density[len(rope.density) // 2].round(3))
    0.25
    """
    waves = single_waves(encoding, method)
    if not len(waves.omega):
        return waves
    logs, heights, at_zero = np.log10(waves.omega), waves.density, waves.at_zero
    low, high = logs.min() - 3 * SMEAR, logs.max() + 3 * SMEAR
    exponents = np.linspace(low, high, int(np.ceil((high - low) * POINTS)) + 1)
    density = np.zeros(len(exponents))
    for part in row_blocks(len(logs), BLOCK, len(exponents)):
        offsets = (exponents - logs[part, None]) / SMEAR
        density += heights[part] @ np.exp(-0.5 * offsets**2)
    return DecadeDensity(10.0**exponents, density / (SMEAR * np.sqrt(2 * np.pi)), at_zero)


def single_waves(encoding: Encoding | np.ndarray, method: str = "auto") -> DecadeDensity:
    """Each frequency above 0 that has energy with its share of it, nothing smeared.

    >>> from pefourier.encodings import load
    >>> single_waves(load("rope", d=4)).density.tolist()
    [0.5, 0.5]
    """
    enc = without_prefix(as_encoding(encoding))
    frequencies, weights = frequencies_and_weights(enc, choose_method(enc, method))
    frequencies = visible_frequencies(enc, frequencies)
    moving = (frequencies > 0) & ~(weights <= NEGLIGIBLE)  # NaN stays
    at_zero = float(weights[frequencies == 0].sum())
    return DecadeDensity(frequencies[moving], weights[moving], at_zero)


def is_slow(encoding: Encoding | np.ndarray, method: str = "auto") -> bool:
    """Whether most energy beside frequency 0 is in the first sixteenth of the frequency axis.

    >>> from pefourier.encodings import load
    >>> [is_slow(load(name, d=128)) for name in ("rope", "dft", "none")]
    [True, False, False]
    """
    waves = single_waves(encoding, method)
    moving = float(waves.density.sum())
    slow = float(waves.density[waves.omega <= np.pi * FIRST].sum())
    return moving > NEGLIGIBLE and slow > moving / 2


def describe_on_grid(
    enc: Encoding, g: np.ndarray, sides: tuple[int, ...], method: str, declared: np.ndarray | None
) -> dict[str, Any]:
    """What a density on a torus says of axes and directions."""
    along, axes = directions_of(g, sides), range(len(sides))
    return {
        "marginals": [g.sum(axis=tuple(b for b in axes if b != a)) for a in axes],
        "radial": {"omega": along.lengths, "density": along.radial},
        "angular": {"angle": along.angles, "density": along.angular},
        **axis_shares(enc, method),
        "largest_step": None if declared is None else float(np.abs(declared).max()),
    }


def axis_shares(enc: Encoding, method: str = "auto") -> dict[str, Any]:
    """How a measure lies to the axes.

    What is aliased is known of declared frequencies, what is idle also of those that are read from
    columns that turn.
    """
    used = choose_method(enc, method)
    frequencies, weights = frequencies_and_weights(enc, used)
    frequencies = frequencies.reshape(len(weights), -1)
    is_declared = used == "declared"
    measured = (frequencies, weights) if is_declared else frequencies_read(enc)
    return {
        "isotropy": isotropy(alias(frequencies), weights),
        "idle": None if measured is None else idle_shares(*measured, enc.domain.sides),
        "aliased": aliased_shares(frequencies, weights) if is_declared else None,
    }


def frequencies_read(enc: Encoding) -> tuple[np.ndarray, np.ndarray] | None:
    """Frequencies (m, axes) and weights of the columns of a table on a grid, where all turn."""
    lines = axis_encodings(enc)
    if lines is None or any(len(line) < 3 or not line.table().any() for line in lines):
        return None
    eps = max(enc.eps, FLOAT32_EPS)
    fits = [fit_sinusoid_pairs(np.asarray(line.table(), dtype=float), eps) for line in lines]
    if None in fits:
        return None
    axes = np.eye(len(fits))
    omega = [np.multiply.outer(pairs.omega, axis) for pairs, axis in zip(fits, axes, strict=True)]
    weights = np.concatenate([pairs.amplitude**2 for pairs in fits])
    return np.concatenate(omega), weights / weights.sum()
