"""Do codes tell positions apart, and can the positions be recovered? The paper's Definition 1.

The ladder: ``collides`` (two positions share a code) < ``injective`` < ``invertible`` (position
functions are recovered by a linear map: rank = length) < ``isometric`` (invertible with condition
number 1). The paper defines faithful as injective; its intent, "if there exists an inverse
mapping", is the third rung. Both are reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pefourier.encodings.encoding import Encoding, Finding, as_encoding

if TYPE_CHECKING:  # pages of other answers name this one's types: they start without its geometry
    from pefourier.geometry.closest import ClosestPair
    from pefourier.geometry.precision import FormatLoss
    from pefourier.geometry.singular_values import Factors

LADDER = ("collides", "injective", "invertible", "isometric")


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
    shift_residual: float | None  # of the best T with PE(t + 1) = T PE(t); None: any would do
    first_rising_lag: int | None  # inner products fall up to here; None: they never rise
    identified: dict | None
    precision: dict[str, FormatLoss]
    findings: list[Finding]


def assess(encoding: Encoding | np.ndarray, progress=None) -> Faithfulness:
    """Everything `pefourier check-faithful` reports.

    Parameters
    ----------
    encoding : Encoding or np.ndarray, shape (n, d)
        An encoding, or a table with one row a position.
    progress : callable, optional
        Called as ``progress(done, total)`` during long work.

    Examples
    --------
    >>> from pefourier.encodings import load
    >>> assess(load("dft", length=80, d=256)).verdict
    'isometric'
    >>> assess(load("dft", length=80, d=64)).closest_pair
    (0, 64)
    """
    from pefourier.diagnosis import diagnose
    from pefourier.geometry.closest import closest_pair
    from pefourier.geometry.precision import precision
    from pefourier.geometry.singular_values import check_products, decompose
    from pefourier.relations import first_rising_lag, shift_residual, toeplitz_residual

    enc = as_encoding(encoding)
    check_products(enc)
    closest = closest_pair(enc, progress)
    factors = decompose(enc, progress)
    rms = float(np.sqrt((factors.sigma**2).sum() / factors.n))
    identified, findings = diagnose(enc, closest, factors.rank)
    sequence = enc.domain.kind in ("position", "time")
    pair = closest.pair and tuple(enc.domain.x[i].item() for i in closest.pair)
    return Faithfulness(
        length=factors.n,
        dimension=factors.d,
        verdict=verdict(closest, factors),
        faithful=closest.distinct == factors.n,
        min_distance=closest.distance if pair else None,
        closest_pair=pair,
        gap=(closest.distance / rms if rms else 0.0) if pair else None,
        distinct=closest.distinct,
        rank=factors.rank,
        rank_tolerance=factors.tolerance,
        condition_number=factors.condition_number,
        inverse_error=factors.inverse_error(),
        stable_rank=factors.stable_rank,
        toeplitz_residual=toeplitz_residual(enc),
        shift_residual=shift_residual(enc) if sequence else None,
        first_rising_lag=first_rising_lag(enc),
        identified=identified,
        precision=precision(enc),
        findings=findings,
    )


def verdict(closest: ClosestPair, factors: Factors) -> str:
    """The highest rung of the ladder; singular values within twice the tolerance are equal."""
    if closest.distinct < factors.n:
        return "collides"
    if factors.rank < factors.n:
        return "injective"
    spread = factors.sigma[0] - factors.sigma[-1]
    return "isometric" if spread <= 2 * factors.tolerance else "invertible"


def safe_length(loss: FormatLoss) -> str:
    """Up to how many positions all codes differ in a format; nothing where points are no such.

    >>> from pefourier.encodings import load
    >>> safe_length(assess(load("rope", 512)).precision["bfloat16"])
    '; 257 positions are safe'
    """
    safe = [n for n in (loss.safe_cast, loss.safe_phase) if n is not None]
    if not safe:
        return ""
    return f"; {min(safe)} position{' is' if min(safe) == 1 else 's are'} safe"


def shortfalls(
    result: Faithfulness,
    rung: str | None = None,
    dtype: str | None = None,
    strict: bool = False,
) -> list[str]:
    """What a result lacks of a required rung, of distinct codes in a format, or of having no fault.

    >>> from pefourier.encodings import load
    >>> shortfalls(assess(load("sinusoidal")), "invertible")
    ['is injective, not invertible']
    """
    lacking = []
    if rung and LADDER.index(result.verdict) < LADDER.index(rung):
        lacking.append(f"is {result.verdict}, not {rung}")
    if dtype:
        loss = result.precision[dtype]
        kept = min(loss.distinct_cast, loss.distinct_phase or loss.distinct_cast)
        if kept < result.length:
            lacking.append(
                f"has {kept} of {result.length} codes distinct in {dtype}{safe_length(loss)}"
            )
    if strict:
        lacking += [f"has {f.code}" for f in result.findings if f.severity != "note"]
    return lacking
