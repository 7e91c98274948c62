"""What does low precision do to the codes? Distinct codes and phase errors for each number format.

Conventions
-----------
Two ways to lose positions: codes computed in float64 and *cast*, and codes whose positions,
frequencies and products (the *phases*) are rounded to the format before the cosines and sines are
taken and rounded too. Rounding is to nearest, ties to even. A value beyond the format's range is
infinite, its waves are NaN, and all NaN are one; float8_e4m3, which has no infinity, saturates at
448 (as torch does).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from math import prod

import numpy as np

from pefourier.encodings.checks import check_cost
from pefourier.encodings.domain import positions
from pefourier.encodings.encoding import Encoding, Measure, row_blocks, unit_of
from pefourier.errors import shown
from pefourier.geometry.duplicates import first_duplicate
from pefourier.geometry.threads import map_ahead

FLOAT32_EPS = 2.0**-23
WHOLE = 2**18  # numbers of a table up to which it is made and cast whole
AT_ONCE = 2**17  # numbers of a part of the codes that is looked at
MOST_PLACES = 10  # decimals of so many places are not rounded
FIRST_COLUMNS = 6  # of many codes, which tell most of them apart in each format
NEAR_TOP = 15  # binary places above 1 up to which float16 goes: its smallest numbers still fit
CACHED = 2**15  # numbers that are rounded together: arrays that stay in the cache
Columns = Callable[[np.ndarray, slice], np.ndarray]  # (rows, columns) -> numbers of a table


@dataclass(frozen=True)
class Format:
    """A binary floating-point format."""

    digits: int  # significand bits, the hidden one counted
    lowest: int  # that of the smallest normal number
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
    safe_cast: int | None = None  # positions from the first on whose codes all differ, so rounded
    safe_phase: int | None = None  # and so computed

    def within(self, distinct: int) -> "FormatLoss":
        """The same where so many codes are distinct at all: rounding tells no more apart.

        >>> FormatLoss(35, None, None).within(24).distinct_cast
        24
        """
        counts = ("distinct_cast", "distinct_phase", "safe_cast", "safe_phase")
        values = {name: getattr(self, name) for name in counts}
        return replace(self, **{k: min(v, distinct) for k, v in values.items() if v is not None})


def rounded(x: np.ndarray, form: Format) -> np.ndarray:
    """Values rounded to a format, as float64.

    >>> rounded(np.array([257.0, 0.1, 1e9]), FORMATS["float16"])
    array([2.57000000e+02, 9.99755859e-02,            inf])
    """
    x = np.asarray(x, dtype=float)
    result = np.empty(x.shape)
    flat, output = x.reshape(-1), result.reshape(-1)
    lost = np.uint64(53 - form.digits)  # bits of a float64: half of their last one, a tie to even
    half, last = (np.uint64(1) << lost - np.uint64(1)) - np.uint64(1), np.uint64(1)
    normal, coarse = 2.0**form.lowest, 1.5 * 2.0 ** (53 + form.lowest - form.digits)
    for part in row_blocks(x.size, CACHED):
        numbers, nearest = flat[part], output[part]
        bits, size = numbers.view(np.uint64), np.abs(numbers)
        nearest.view(np.uint64)[:] = (bits + (half + (bits >> lost & last))) >> lost << lost
        if not size.min() >= normal:
            small = np.flatnonzero(~(size >= normal))  # these all have one step; NaN stays NaN
            nearest[small] = np.copysign(numbers[small] + coarse - coarse, numbers[small])
        if not size.max() <= form.largest:
            beyond = np.abs(nearest) > form.largest
            nearest[beyond] = np.copysign(form.beyond, nearest[beyond])
    return result


def coarse_format(numbers: np.ndarray) -> str | None:
    """The format of 16 bits, the coarser first, that all of some numbers have; None: neither.

    Few digits that happen to be enough say nothing (`has_format`), nor do whole numbers, such as
    positions.

    >>> coarse_format(rounded(np.sin(np.arange(50.0)), FORMATS["bfloat16"]))
    'bfloat16'
    """
    if (numbers == np.rint(numbers)).all():
        return None
    return next((k for k in ("bfloat16", "float16") if has_format(numbers, FORMATS[k])), None)


def has_format(numbers: np.ndarray, form: Format) -> bool:
    """Whether all of some numbers fit a format, and a tenth need all of its digits (0, 1 don't).

    Columns of which all are whole multiples of the last digit of their largest were rounded by no
    format: counts, such as 0.25 times a lag.

    >>> lags = np.abs(np.subtract.outer(np.arange(250.0), np.arange(24.0)))
    >>> has_format(-0.25 * lags, FORMATS["bfloat16"])
    False
    """
    if (rounded(numbers, form) != numbers).any():
        return False
    last = np.frexp(np.abs(numbers).max(axis=0, initial=0.0))[1] - form.digits
    units = np.ldexp(numbers, -last)
    counts = (units == np.rint(units)).all(axis=0)
    coarser = rounded(numbers, replace(form, digits=form.digits - 1)) != numbers
    return bool((coarser & ~counts).mean() > 0.1)


def coarse_eps(numbers: np.ndarray) -> float:
    """The resolution of the format of 16 bits that some numbers have; 0 where they have none."""
    name = coarse_format(numbers)
    return 2.0 ** (1 - FORMATS[name].digits) if name else 0.0


def stored_resolution(numbers: np.ndarray, eps: float) -> tuple[float, float]:
    """Resolution of some numbers, relative and absolute, that were rounded before they were stored.

    In a wider format lie numbers of float32 or of 16 bits, whatever their unit, and decimals of few
    places. Numbers that are as fine at zero as at the largest, such as positions, have no format.

    >>> stored_resolution(np.array([0.1, 0.25, 0.333]), 2.0**-52)[1]
    0.001
    """
    near_one = unit_of(numbers) * numbers
    for form in (FORMATS[name] for name in ("bfloat16", "float16", "float32")):
        steps = np.ldexp(near_one, form.digits)
        if (steps != np.rint(steps)).any() and has_format(np.ldexp(near_one, NEAR_TOP), form):
            eps = max(eps, 2.0 ** (1 - form.digits))
            break
    places = (k for k in range(MOST_PLACES) if (np.round(numbers, k) == numbers).all())
    decimals = next(places, 0)
    return eps, 10.0**-decimals if decimals else 0.0


@dataclass(frozen=True)
class Distinct:
    """How many rows of a table differ, and how many from the first on are all different."""

    count: int
    safe: int


def precision(
    enc: Encoding,
    distinct: int | None = None,
    first: np.ndarray | None = None,
    gap: float = 0.0,
) -> dict[str, FormatLoss]:
    """Loss of each format in `FORMATS`; so many codes are `distinct` in no format at all.

    Of rows of a table that repeat, `first` is the index of the first row alike of each, (n,);
    `gap` is a distance that no two codes fall below.

    >>> from pefourier.encodings import load
    >>> precision(load("rope", length=512, d=64))["bfloat16"].distinct_phase
    385
    """
    losses = format_losses(enc, FORMATS, first, gap)
    return losses if distinct is None else {k: loss.within(distinct) for k, loss in losses.items()}


def check_formats(enc: Encoding) -> None:
    """Refuse more positions than can be told apart in each format within memory."""
    if enc.measure is not None:
        points = min(len(enc), enc.measure.period or len(enc))
        check_cost(shown(enc.spec), "positions in narrow formats", points)


def format_losses(
    enc: Encoding,
    formats: Iterable[str],
    first: np.ndarray | None = None,
    gap: float = 0.0,
) -> dict[str, FormatLoss]:
    """Distinct codes and phase error in some formats, by their names; see `precision`."""
    enc, names = row_by_row(enc), list(formats)
    take = map if len(enc) * enc.dim < WHOLE else map_ahead
    columns, count = code_columns(enc)
    lossless = [name for name in names if enc.measure is None and keeps(enc, FORMATS[name])]
    unlike = [
        name for name in names if name not in lossless[1:]
    ]  # what loses nothing is counted once
    first = first if enc.measure is None else None
    loss = partial(format_loss, enc, columns, count, first, gap)
    losses = dict(zip(unlike, take(loss, (FORMATS[name] for name in unlike)), strict=True))
    return {name: losses[lossless[0] if name in lossless else name] for name in names}


def rounding_of_codes(enc: Encoding, form: Format) -> float:
    """The farthest that rounding to a format moves a code of declared length; else infinity.

    >>> from pefourier.encodings import load
    >>> rounding_of_codes(load("rope", length=9, d=128), FORMATS["bfloat16"])
    0.03125
    """
    length = np.sqrt(enc.measure.squared_length) if enc.stationary else np.inf
    if not length <= form.largest:
        return np.inf
    underflow = np.sqrt(enc.dim) * 2.0 ** (form.lowest - form.digits)  # of numbers near 0
    return float(length * 2.0**-form.digits + underflow)


def keeps(enc: Encoding, form: Format) -> bool:
    """Whether rounding to a format changes no code of a table."""
    table = enc.table()
    blocks = (table[rows].astype(float) for rows in row_blocks(len(enc), AT_ONCE, enc.dim))
    return all(np.array_equal(rounded(codes, form), codes, equal_nan=True) for codes in blocks)


def format_loss(
    enc: Encoding,
    columns: Columns,
    count: int,
    first: np.ndarray | None,
    gap: float,
    form: Format,
) -> FormatLoss:
    """Distinct codes and phase error in one format, of codes by so many columns.

    A row of a table with a number that becomes infinite is lost. Codes of which no two are within
    a `gap` that is more than rounding moves them need no count. Rounded phases tell codes apart
    that are one, those of s and of s plus a period: they are not counted beyond the period.
    """
    period = enc.measure.period if enc.measure is not None else None
    points = min(len(enc), period or len(enc))  # beyond a period codes repeat, exactly
    leaders = np.arange(points) if first is None else np.flatnonzero(first == np.arange(points))
    if enc.measure is None:
        top = np.maximum(enc.table().max(axis=1), -enc.table().min(axis=1))
        leaders = leaders[np.isfinite(rounded(top[leaders], form))]
    if gap > 2 * rounding_of_codes(enc, form):
        cast = Distinct(len(leaders), len(leaders))
    else:
        cast = count_distinct(
            lambda rows, part: rounded(columns(leaders[rows], part), form), len(leaders), count
        )
    repeat = np.append(leaders != np.arange(len(leaders)), True).argmax()  # the first row left out
    cast = Distinct(cast.count, int(min(np.append(leaders, points)[cast.safe], repeat)))
    if enc.domain.kind != "position":
        return FormatLoss(cast.count, None, None)
    measure, x = enc.measure, enc.domain.x
    if measure is None:
        return FormatLoss(cast.count, None, None, cast.safe)
    x = enc.domain.places(x) + measure.offset
    phase = count_distinct_phases(measure, x, form)
    error = max_phase_error(measure, x, form)
    return FormatLoss(cast.count, phase.count, error, cast.safe, phase.safe).within(points)


def row_by_row(enc: Encoding) -> Encoding:
    """An encoding of whole positions that was laid on a grid, as it is computed: by rows' numbers.

    >>> from pefourier.encodings import build
    >>> from pefourier.encodings.grids import on_grid
    >>> row_by_row(on_grid(build("rope", length=6, d=4), (2, 3), 0)).measure.frequencies
    array([1.  , 0.01])
    """
    sides, measure = enc.domain.sides, enc.measure
    if len(sides) < 2 or measure is None or measure.frequencies.ndim < 2:
        return enc
    strides = np.array([prod(sides[axis + 1 :]) for axis in range(len(sides))])
    along_rows = measure.frequencies[:, -1]
    if not np.array_equal(measure.frequencies, np.multiply.outer(along_rows, strides)):
        return enc
    line = replace(measure, frequencies=along_rows, offset=np.ravel(measure.offset)[-1])
    return replace(enc, domain=positions(len(enc)), measure=line)


def code_columns(enc: Encoding) -> tuple[Columns, int]:
    """Some columns of the codes: of the table, or of what a declared inner product stands for."""
    measure = enc.measure
    if not enc.stationary or len(enc) * enc.dim < WHOLE:
        table = enc.table()
        return lambda rows, part: table[rows, part].astype(float), enc.dim

    def made(rows: np.ndarray | slice, part: slice) -> np.ndarray:
        phases = measure.phases(enc.domain.places(enc.domain.x[rows]), pairs_of(part))
        return np.repeat(measure.amplitudes[pairs_of(part)], 2) * cosines_and_sines(phases)

    count = 2 * len(measure.frequencies)
    first = slice(0, min(count, FIRST_COLUMNS) if len(enc) * FIRST_COLUMNS <= WHOLE else 0)
    begun = made(slice(None), first)

    def columns(rows: np.ndarray, part: slice) -> np.ndarray:
        return begun[rows, part] if part.stop <= first.stop else made(rows, part)

    return columns, count


def pairs_of(columns: slice) -> slice:
    """The pairs of a cosine and a sine that an even number of columns holds."""
    return slice(columns.start // 2, columns.stop // 2)


def cosines_and_sines(phases: np.ndarray) -> np.ndarray:
    """Cosine and sine of each phase, side by side."""
    waves = np.empty((len(phases), 2 * phases.shape[1]))
    np.cos(phases, out=waves[:, ::2])
    np.sin(phases, out=waves[:, 1::2])
    return waves


def count_distinct_phases(measure: Measure, x: np.ndarray, form: Format) -> Distinct:
    """Distinct codes when positions, frequencies, products and waves are rounded to a format."""
    nearest = rounded(x, form)
    first = first_of_runs(nearest)
    positions = nearest[first]
    frequencies = rounded(measure.frequencies, form)

    def columns(rows: np.ndarray, part: slice) -> np.ndarray:
        with np.errstate(invalid="ignore"):  # an infinite phase has no waves
            phases = rounded_products(positions[rows], frequencies[pairs_of(part)], form)
            return rounded(cosines_and_sines(phases), form)

    distinct = count_distinct(columns, len(positions), 2 * len(frequencies))
    ends = np.append(first, len(x))
    merged = np.flatnonzero(first != np.arange(len(first)))
    unmerged = int(merged[0]) if len(merged) else len(first)  # so many positions are themselves
    return Distinct(distinct.count, min(unmerged, int(ends[distinct.safe])))


def first_of_runs(points: np.ndarray) -> np.ndarray:
    """Index of the first of each run of equal points, which ascend, or of all alike on axes.

    >>> first_of_runs(np.array([0.0, 1.0, 1.0, 4.0]))
    array([0, 1, 3])
    """
    if points.ndim > 1:
        return np.sort(np.unique(points, axis=0, return_index=True)[1])
    return np.flatnonzero(np.append(True, points[1:] != points[:-1]))


def rounded_products(x: np.ndarray, frequencies: np.ndarray, form: Format) -> np.ndarray:
    """Phases of points (n,) or (n, axes), each product and each sum rounded to a format."""
    if x.ndim == 1:
        return rounded(np.multiply.outer(x, frequencies), form)
    total = np.zeros((len(x), len(frequencies)))
    for along, omega in zip(x.T, frequencies.T, strict=True):
        total = rounded(total + rounded(np.multiply.outer(along, omega), form), form)
    return total


def max_phase_error(measure: Measure, x: np.ndarray, form: Format) -> float:
    """Largest |rounded phase - exact phase| in radians over positions and frequencies.

    Frequencies are taken by descending bound on their error, until no bound exceeds what was found.
    """
    nearest = rounded(x, form)
    frequencies = measure.frequencies
    if x.ndim > 1:
        return max_phase_error_on_grid(frequencies, x, form)
    nearby = rounded(frequencies, form)
    top = float(np.abs(x).max())
    with np.errstate(over="ignore"):
        farthest = np.array([top, 1.0]) * np.abs(frequencies).max()
    if not np.isfinite(rounded(farthest, form)).all():
        return np.nan
    slack = np.abs(nearest - x).max()
    bounds = (
        top * np.abs(nearby - frequencies)
        + slack * np.abs(nearby)
        + 2.0 ** (1 - form.digits) * (top + slack) * np.abs(nearby)
        + 2.0 ** (form.lowest - form.digits + 1)
        + np.maximum((top + slack) * np.abs(nearby) - form.largest, 0.0)
    )
    worst, order = 0.0, np.argsort(-bounds)
    for part in row_blocks(len(order), AT_ONCE, len(x)):
        j = order[part]
        if bounds[j[0]] <= worst:
            break
        phases = np.multiply.outer(frequencies[j], x)
        error = np.abs(rounded(np.multiply.outer(nearby[j], nearest), form) - phases).max()
        worst = max(worst, float(error))
    return worst


def max_phase_error_on_grid(frequencies: np.ndarray, x: np.ndarray, form: Format) -> float:
    """Largest |rounded phase - exact phase| in radians of points (n, axes), all of them walked."""
    nearest, nearby, worst = rounded(x, form), rounded(frequencies, form), 0.0
    for rows in row_blocks(len(x), AT_ONCE, len(frequencies)):
        with np.errstate(invalid="ignore"):  # an infinite phase has no error
            phases = rounded_products(nearest[rows], nearby, form)
            worst = max(worst, float(np.abs(phases - x[rows] @ frequencies.T).max()))
    return worst if np.isfinite(worst) else np.nan


def phase_rounding(omega: np.ndarray, eps: float) -> np.ndarray:
    r"""How far a phase may be off, in radians per position, where it was computed in low precision.

    A frequency is made as exp(ln omega), so that its exponent is rounded as well as itself and the
    product with the position: :math:`\omega\,(3 + |\ln\omega|)\,\varepsilon`. Numbers stored more
    coarsely than float32 are taken to come from phases in float32.
    """
    units = 3 + np.abs(np.log(np.maximum(omega, 1e-300)))
    with np.errstate(over="ignore"):
        return omega * units * min(eps, FLOAT32_EPS)


def phase_errors(s: np.ndarray, omega: np.ndarray, eps: float) -> np.ndarray:
    """How far the phases omega · s (n, m) may be off, in radians; more than 1 explains nothing."""
    rounding = np.minimum(phase_rounding(omega, eps), 1e200)  # of a phase without a digit
    return np.minimum(np.multiply.outer(np.abs(s), rounding), 1.0)


def count_distinct(columns: Columns, n: int, count: int) -> Distinct:
    """Distinct rows of a table given by its columns; NaN equals NaN.

    Rows are told apart by some columns at a time, ever more of them, and only those that still
    share all of their values with another row are looked at further.
    """
    rows, group, part = np.arange(n), np.zeros(n), slice(0, 0)
    again = rows[1:]  # rows that equal one before them
    while part.stop < count and len(rows):
        width = 2 * max(1, AT_ONCE // (2 * len(rows)), part.stop - part.start)
        part = slice(part.stop, min(part.stop + width, count))
        values = columns(rows, part)
        values[np.isnan(values)] = np.finfo(float).max  # one value, so that NaN equals NaN
        first = first_duplicate(np.column_stack([group, values]))
        again = rows[first != np.arange(len(rows))]
        shared = np.bincount(first, minlength=len(rows))[first] > 1
        rows, group = rows[shared], first[shared].astype(float)
    return Distinct(n - len(again), int(again.min(initial=n)))
