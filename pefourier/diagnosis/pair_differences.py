"""Pairs in which two tables or rotations differ, and their frequencies as far as rows show them.

Conventions
-----------
A table determines a frequency up to full rotations per row. If its first row is not at phase 0, the
order of cosines and sines is open, too. An ambiguity that one table resolves is resolved for both;
otherwise the frequency is NaN.
"""

from dataclasses import replace

import numpy as np

from pefourier.diagnosis.pairs import (
    BLOCK,
    PairDifference,
    PairWaves,
    apart,
    pair_tolerance,
    position_offset,
    shortened,
    waves_of_phases,
)
from pefourier.encodings.columns import Wave
from pefourier.encodings.domain import Bools
from pefourier.encodings.encoding import Floats, row_blocks

COMMON = 1e-3  # relative tolerance for equal ratios of frequencies
OTHER: dict[Wave, Wave] = {"cos": "sin", "sin": "cos"}
AT_ZERO = 0.01  # of the factor: 16-bit numbers at phase 0 are closer to 0


def in_one_order(a: PairWaves, b: PairWaves) -> tuple[PairWaves, PairWaves]:
    """Bring cosines and sines of two sets of pairs into one order if first rows leave it open."""
    begins = [pairs.is_declared or begins_at_zero(pairs) for pairs in (a, b)]
    if a.omega.shape != b.omega.shape or all(begins) or np.sign(a.omega * b.omega).sum() >= 0:
        return a, b
    return (a, exchanged_waves(b)) if begins[0] or not begins[1] else (exchanged_waves(a), b)


def begins_at_zero(pairs: PairWaves) -> bool:
    """Whether every pair has a multiple of 90 degrees as its first phase, to 16 bits."""
    waves = pairs.waves(np.zeros(1, dtype=int))[0]
    sizes = np.fmin(np.abs(waves.real), np.abs(waves.imag))
    return bool((sizes <= AT_ZERO * pairs.factor).all()) or np.isnan(waves).any()


def exchanged_waves(pairs: PairWaves) -> PairWaves:
    """Exchange cosines and sines, which reverses the direction of rotation."""
    if pairs.form is None or pairs.form.part != "both":
        return pairs
    waves, form = pairs.waves, replace(pairs.form, first=OTHER[pairs.form.first])
    start = np.angle(1j * waves(np.zeros(1, dtype=int))[0].conj())
    return replace(
        pairs,
        omega=-pairs.omega,
        form=form,
        waves=lambda rows: 1j * waves(rows).conj(),
        offset=position_offset(start, -pairs.omega, pairs.eps),
    )


def list_differences(a: PairWaves, b: PairWaves, differs: Bools) -> tuple[PairDifference, ...]:
    """List the pairs that differ, with frequencies if these explain all rows."""
    omega = np.full((2, len(differs)), np.nan)
    common = min(len(a.omega), len(b.omega))
    omega[:, :common] = unfolded(*(shortened(pairs, common) for pairs in (a, b)))
    for k, pairs in enumerate((a, b)):
        omega[k, common : len(pairs.omega)] = pairs.omega[common:]
        is_explained = explained_pairs(pairs)  # a few low frequencies are uncertain
        omega[k, : len(is_explained)][~is_explained | (is_explained.mean() < 0.5)] = np.nan
        omega[k] /= pairs.repeats
    differences = []
    for i in np.flatnonzero(differs).tolist():
        first, second = (None if np.isnan(w) else float(w) for w in omega[:, i])
        ratio = second / first if first and second is not None else None
        letters = [pairs.axis[i] for pairs in (a, b) if i < len(pairs.axis)]
        axis = "/".join(dict.fromkeys(letters)) or None
        differences.append(PairDifference(i, axis, first, second, ratio))
    return tuple(differences)


def unfolded(a: PairWaves, b: PairWaves) -> Floats:
    """Return frequencies (2, m), aliased ones resolved by the other set; NaN if unknown."""
    is_certain = np.array([certain_pairs(pairs) for pairs in (a, b)])
    omega = np.array([a.omega, b.omega], dtype=float)
    shared = is_certain.all(axis=0) & (omega != 0).all(axis=0)
    ratios = omega[1, shared] / omega[0, shared]
    ratio = float(np.median(ratios)) if len(ratios) > 1 else np.nan
    ratio = ratio if len(ratios) > 1 and np.ptp(ratios) <= COMMON * abs(ratio) else np.nan
    expected = np.array([omega[1] / ratio, omega[0] * ratio])
    fits = is_certain[::-1] & (np.abs(np.angle(np.exp(1j * (omega - expected)))) <= COMMON)
    return np.where(is_certain, omega, np.where(fits, expected, np.nan))


def certain_pairs(pairs: PairWaves) -> Bools:
    """Return which frequencies (m,) are unambiguous: declared, or fitted without aliasing.

    Frequencies grow in one direction from the lowest. Where this order reverses, higher
    frequencies may exceed pi per row and appear lower.
    """
    omega = pairs.omega
    if pairs.is_declared or pairs.has_angles or not (omega > 0).any() or not (omega < 0).any():
        return np.ones(len(omega), bool)
    ways = []
    for slow in (omega, omega[::-1]):
        grows = np.cumprod(np.append(slow[0] != 0, np.diff(slow * np.sign(slow[0])) > 0)) == 1
        ways.append(grows if slow is omega else grows[::-1])
    return max(ways, key=np.count_nonzero)


def explained_pairs(pairs: PairWaves) -> Bools:
    """Return which pairs (m,) follow their frequency in every row of a table, up to rounding."""
    if pairs.even is None or pairs.rows is not None:
        return np.ones(len(pairs.omega), bool)
    first = pairs.waves(np.zeros(1, dtype=int))[0]
    start = np.angle(first) if pairs.form and pairs.form.part == "both" else 0.0
    fits = pairs.even.copy()
    for block in row_blocks(pairs.length, BLOCK, len(pairs.omega)):
        steps = np.arange(block.start, block.stop) // pairs.repeats
        phases = np.multiply.outer(steps, pairs.omega) + start
        residual = apart(
            pairs.waves(np.arange(block.start, block.stop)),
            waves_of_phases(phases, pairs.factor, pairs.form),
        )
        limit = 4 * pair_tolerance(steps, pairs.omega, pairs.factor, pairs.eps)
        limit += np.abs(pairs.omega) * steps[-1] * pairs.eps * pairs.has_angles
        fits &= (residual <= limit).all(axis=0)
    return fits
