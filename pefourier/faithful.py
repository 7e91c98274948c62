"""Do codes tell positions apart, and can the positions be recovered? The paper's Definition 1.

The ladder: ``collides`` (two positions share a code) < ``injective`` < ``invertible`` (position
functions are recovered by a linear map: rank = length) < ``isometric`` (invertible with condition
number 1). The paper defines faithful as injective; its intent, "if there exists an inverse
mapping", is the third rung. Both are reported.
"""

from dataclasses import dataclass

import numpy as np

from pefourier.closest import Closest, closest
from pefourier.encoding import Encoding, Finding, as_encoding
from pefourier.linear import Factors, decompose
from pefourier.precision import Loss, precision

LADDER = ("collides", "injective", "invertible", "isometric")
DIRECT = 2**31  # n^2 d up to which inner products are walked for the Toeplitz residual


@dataclass(frozen=True)
class Faithfulness:
    """What codes say about positions; distances are l2, tolerances absolute."""

    length: int
    dimension: int
    verdict: str  # the highest rung of LADDER that holds
    faithful: bool  # Definition 1: no two positions share a code
    min_distance: float | None  # None for a single position
    closest_pair: tuple[float, float] | None  # their coordinates: positions, lags, times or nodes
    gap: float | None  # min_distance over the rms length of a code
    distinct: int
    rank: int
    rank_tolerance: float  # singular values at or below count as zero
    condition_number: float | None  # None where the rank is deficient
    inverse_error: float  # largest |E E+ - I|
    stable_rank: float
    toeplitz_residual: float  # 0: inner products depend on the lag only
    identified: dict | None
    precision: dict[str, Loss]
    findings: list[Finding]


def assess(codes: Encoding | np.ndarray, progress=None) -> Faithfulness:
    """Everything `pefourier check-faithful` reports.

    Parameters
    ----------
    codes : Encoding or np.ndarray, shape (n, d)
        An encoding, or a table with one row a position.
    progress : callable, optional
        Called as ``progress(done, total)`` during long searches.

    Examples
    --------
    >>> from pefourier.encodings import load
    >>> assess(load("dft", length=80, d=256)).verdict
    'isometric'
    >>> assess(load("dft", length=80, d=64)).closest_pair
    (0, 64)
    """
    enc = as_encoding(codes)
    nearest = closest(enc, progress)
    factors = decompose(enc)
    rms = float(np.sqrt((factors.sigma**2).sum() / factors.n))
    pair = nearest.pair and tuple(enc.domain.x[i].item() for i in nearest.pair)
    return Faithfulness(
        length=factors.n,
        dimension=factors.d,
        verdict=verdict(nearest, factors),
        faithful=nearest.distinct == factors.n,
        min_distance=nearest.distance if pair else None,
        closest_pair=pair,
        gap=(nearest.distance / rms if rms else 0.0) if pair else None,
        distinct=nearest.distinct,
        rank=factors.rank,
        rank_tolerance=factors.tolerance,
        condition_number=factors.condition_number,
        inverse_error=factors.inverse_error(),
        stable_rank=factors.stable_rank,
        toeplitz_residual=toeplitz_residual(enc, factors),
        identified=None,
        precision=precision(enc),
        findings=list(enc.findings),
    )


def verdict(nearest: Closest, factors: Factors) -> str:
    """The highest rung of the ladder; singular values within twice the tolerance are equal."""
    if nearest.distinct < factors.n:
        return "collides"
    if factors.rank < factors.n:
        return "injective"
    spread = factors.sigma[0] - factors.sigma[-1]
    return "isometric" if spread <= 2 * factors.tolerance else "invertible"


def toeplitz_residual(enc: Encoding, factors: Factors) -> float:
    r"""Relative distance of the inner products to a function of the lag.

    :math:`\lVert G - \mathrm{Toep}(G)\rVert_F / \lVert G\rVert_F` with :math:`G = E E^T` and Toep
    the mean along diagonals (Wang et al., 2021). 0 where the encoding declares such inner products.
    Long tables use :math:`\lVert G\rVert^2 - \lVert\mathrm{Toep}(G)\rVert^2`, which resolves 1e-8.
    """
    n, d = factors.n, factors.d
    total = float((factors.sigma**4).sum())
    if total == 0 or (enc.measure is not None and enc.measure.power is not None):
        return 0.0
    means = autocorrelation(enc.table()) / np.arange(n, 0, -1)
    if n * n * d > DIRECT:
        shared = means[0] ** 2 * n + 2 * (means[1:] ** 2 * np.arange(n - 1, 0, -1)).sum()
        return float(np.sqrt(max(total - shared, 0.0) / total))
    table, squared = np.asarray(enc.table(), dtype=float), 0.0
    for start, rows in enc.blocks(max(1, 2**22 // n)):
        lag = np.abs(np.arange(start, start + len(rows))[:, None] - np.arange(n))
        squared += float(((rows @ table.T - means[lag]) ** 2).sum())
    return float(np.sqrt(squared / total))


def autocorrelation(table: np.ndarray) -> np.ndarray:
    """Sums of the inner products of rows at each lag 0 … n - 1, by zero-padded FFT."""
    n, total = len(table), 0.0
    for start in range(0, table.shape[1], 64):
        columns = np.asarray(table[:, start : start + 64], dtype=float)
        spectrum = np.fft.rfft(columns, 2 * n, axis=0)
        total = total + (spectrum.real**2 + spectrum.imag**2).sum(axis=1)
    return np.fft.irfft(total, 2 * n)[:n]
