"""What does low precision do to the codes? Distinct codes and phase errors for each number format.

Conventions
-----------
Two ways to lose positions: codes computed in float64 and *cast*, and codes whose positions,
frequencies and products (the *phases*) are rounded to the format before the cosines and sines are
taken and rounded too. Rounding is to nearest, ties to even. A value beyond the format's range is
infinite, its waves are NaN, and all NaN are one; float8_e4m3, which has no infinity, saturates at
448 (as torch does).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pefourier.encodings.encoding import Encoding, Measure

FLOAT32_EPS = 2.0**-23
WHOLE = 2**24  # numbers of a table up to which it is made and cast whole


@dataclass(frozen=True)
class Format:
    """A binary floating-point format."""

    digits: int  # significand bits, the hidden one counted
    least: int  # exponent of the smallest normal number
    largest: float
    beyond: float  # what an overflow becomes


FORMATS = {
    "float32": Format(24, -126, (2 - 2.0**-23) * 2.0**127, np.inf),
    "float16": Format(11, -14, 65504.0, np.inf),
    "bfloat16": Format(8, -126, (2 - 2.0**-7) * 2.0**127, np.inf),
    "float8_e4m3": Format(4, -6, 448.0, 448.0),
}


@dataclass(frozen=True)
class FormatLoss:
    """What one format leaves of an encoding."""

    distinct_cast: int
    distinct_phase: int | None  # None where the codes declare no frequencies
    max_phase_error: float | None  # radians; NaN where a phase leaves the range


def rounded(x: np.ndarray, form: Format) -> np.ndarray:
    """Values rounded to a format, as float64.

    >>> rounded(np.array([257.0, 0.1, 1e9]), FORMATS["float16"])
    array([2.57000000e+02, 9.99755859e-02,            inf])
    """
    x = np.asarray(x, dtype=float)
    _, exponent = np.frexp(x)
    step = np.maximum(exponent - 1, form.least) - (form.digits - 1)
    near = np.ldexp(np.rint(np.ldexp(x, -step)), step)
    return np.where(np.abs(near) > form.largest, np.copysign(form.beyond, near), near)


def precision(enc: Encoding) -> dict[str, FormatLoss]:
    """Loss of each format in `FORMATS`.

    >>> from pefourier.encodings import load
    >>> precision(load("rope", length=512, d=64))["bfloat16"].distinct_phase
    385
    """
    return {name: format_loss(enc, form) for name, form in FORMATS.items()}


def format_loss(enc: Encoding, form: Format) -> FormatLoss:
    """Distinct codes and phase error in one format."""
    column, count = code_columns(enc)
    period = enc.measure.period if enc.measure is not None else None
    points = min(len(enc), period or len(enc))  # beyond a period codes repeat, exactly
    cast = count_distinct(lambda rows, j: rounded(column(rows, j), form), points, count)
    if enc.measure is None or enc.domain.kind != "position":
        return FormatLoss(cast, None, None)
    x = enc.domain.x + enc.measure.offset
    distinct = count_distinct_phases(enc.measure, x, form)
    return FormatLoss(cast, distinct, max_phase_error(enc.measure, x, form))


def code_columns(enc: Encoding) -> tuple[Callable[[np.ndarray, int], np.ndarray], int]:
    """Single columns of the codes: of the table, or of what a declared inner product stands for."""
    measure = enc.measure
    if not enc.stationary or len(enc) * enc.dim < WHOLE:
        table = enc.table()
        return lambda rows, j: table[rows, j].astype(float), enc.dim

    def column(rows: np.ndarray, j: int) -> np.ndarray:
        phase = measure.phases(enc.domain.x[rows], slice(j // 2, j // 2 + 1))[:, 0]
        return measure.amplitudes[j // 2] * (np.sin(phase) if j % 2 else np.cos(phase))

    return column, 2 * len(measure.frequencies)


def count_distinct_phases(measure: Measure, x: np.ndarray, form: Format) -> int:
    """Distinct codes when positions, frequencies, products and waves are rounded to a format."""
    positions = np.unique(rounded(x, form))
    frequencies = rounded(measure.frequencies, form)

    def column(rows: np.ndarray, j: int) -> np.ndarray:
        with np.errstate(invalid="ignore"):  # an infinite phase has no waves
            phase = rounded(positions[rows] * frequencies[j // 2], form)
            return rounded(np.sin(phase) if j % 2 else np.cos(phase), form)

    return count_distinct(column, len(positions), 2 * len(frequencies))


def max_phase_error(measure: Measure, x: np.ndarray, form: Format) -> float:
    """Largest |rounded phase - exact phase| in radians over positions and frequencies.

    Frequencies are taken by descending bound on their error, until no bound exceeds what was found.
    """
    near = rounded(x, form)
    frequencies = measure.frequencies
    nearby = rounded(frequencies, form)
    top = float(np.abs(x).max())
    if not np.isfinite(rounded(np.array([top * np.abs(frequencies).max()]), form)).all():
        return np.nan
    slack = np.abs(near - x).max()
    bounds = (
        top * np.abs(nearby - frequencies)
        + slack * np.abs(nearby)
        + 2.0 ** (1 - form.digits) * (top + slack) * np.abs(nearby)
        + 2.0 ** (form.least - form.digits + 1)
        + np.maximum((top + slack) * np.abs(nearby) - form.largest, 0.0)
    )
    worst = 0.0
    for j in np.argsort(-bounds):
        if bounds[j] <= worst:
            break
        worst = max(
            worst, float(np.abs(rounded(near * nearby[j], form) - x * frequencies[j]).max())
        )
    return worst


def phase_rounding(omega: np.ndarray, eps: float) -> np.ndarray:
    r"""How far a phase may be off, in radians per position, where it was computed in low precision.

    A frequency is made as exp(ln omega), so that its exponent is rounded as well as itself and the
    product with the position: :math:`\omega\,(3 + |\ln\omega|)\,\varepsilon`. Numbers stored more
    coarsely than float32 are taken to come from phases in float32.
    """
    units = 3 + np.abs(np.log(np.maximum(omega, 1e-300)))
    return omega * units * min(eps, FLOAT32_EPS)


def count_distinct(column: Callable[[np.ndarray, int], np.ndarray], n: int, columns: int) -> int:
    """Number of distinct rows of a table given by its columns; NaN equals NaN.

    Rows are told apart column by column, and only those that still share all of their values with
    another row are looked at further.
    """
    rows, group, alone = np.arange(n), np.zeros(n, dtype=np.int64), 0
    for j in range(columns):
        value = column(rows, j) + 0.0  # -0.0 equals 0.0
        value[np.isnan(value)] = np.finfo(float).max  # one value, so that NaN equals NaN
        order = np.lexsort((value, group))
        new = np.ones(len(rows), dtype=bool)
        new[1:] = (np.diff(group[order]) != 0) | (value[order][1:] != value[order][:-1])
        group = np.cumsum(new) - 1
        shared = np.bincount(group)[group] > 1
        alone += int((~shared).sum())
        rows, group = rows[order][shared], group[shared]
        if len(rows) == 0:
            return alone
    return alone + len(np.unique(group))
