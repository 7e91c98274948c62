"""Distinct vectors and phase errors of an encoding in low-precision number formats.

Conventions
-----------
Low precision loses positions in two ways. Vectors may be computed in float64 and *cast*. Or
positions, frequencies and their products (the *phases*) are rounded to the format first, and the
cosines and sines of the phases are rounded again. Rounding is to nearest, ties to even. A value
beyond the format's range becomes infinite, and its cosine and sine NaN; all NaN count as equal.
float8_e4m3 has no infinity and saturates at 448, as in torch.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from math import prod, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pefourier.encodings.encoding import FLOAT32_EPS as FLOAT32_EPS
from pefourier.encodings.encoding import (
    Encoding,
    axis_encodings,
    is_separable,
    positions,
    row_blocks,
    unit_of,
)
from pefourier.errors import check_cost, shown
from pefourier.types import Array, Bools, Floats, Indices, Ints, Table, frozen

CACHED = 2**15  # numbers rounded at a time: their arrays stay in the cache
NUMBERS_AT_ONCE = 2**20  # of a table, per block of rows read in float64


def float_blocks(table: Table) -> Iterator[tuple[slice, Floats]]:
    """Yield the rows of a table in float64, in blocks."""
    for rows in row_blocks(len(table), NUMBERS_AT_ONCE, table.shape[1]):
        yield rows, table[rows].astype(float)


def first_duplicate(table: Table) -> Indices:
    """Return the index of the first row equal to each row, shape (n,).

    >>> first_duplicate(np.array([[1.0], [0.0], [1.0], [-0.0]]))
    array([0, 1, 0, 1])
    """
    key, check = row_hashes(table).T
    _, index, group = np.unique(key, return_index=True, return_inverse=True)
    first = index[group]
    return np.where(check[first] == check, first, np.arange(len(first)))


def least_of_runs(rows: Indices, is_new: Bools) -> Indices:
    """Return the least row of each run of rows, for every row.

    >>> least_of_runs(np.array([3, 1, 2]), np.array([True, False, True]))
    array([1, 1, 2])
    """
    starts = np.flatnonzero(is_new)
    return np.repeat(np.minimum.reduceat(rows, starts), np.diff(starts, append=len(rows)))


def row_hashes(table: Table) -> NDArray[np.uint64]:
    """Return two 64-bit hashes per row: equal for equal rows, almost surely distinct for others.

    Both hashes of two different rows agree with a probability of about 10^-26.
    """
    from hashlib import shake_128  # loads OpenSSL

    n, d = table.shape
    random = np.frombuffer(shake_128(b"rows").digest(16 * d), np.uint64)
    factors = random.reshape(d, 2) | np.uint64(1)
    hashes = np.empty((n, 2), dtype=np.uint64)
    for rows, vectors in float_blocks(table):
        bits = (vectors + 0.0).view(np.uint64)
        bits ^= bits >> np.uint64(32)  # short fractions such as 1.0 have zeros in their low bits
        hashes[rows] = bits @ factors
    return hashes


WHOLE = 2**18  # numbers of a table up to which it is built and cast as a whole
COLUMNS_OF_ZEROS = 16  # times as long if numbers round to zero or one unit: more columns are read
AT_ONCE = 2**17  # numbers of the vectors processed at a time
MOST_PLACES = 10  # decimals with this many places do not count as rounded
NEAR_TOP = 15  # scale by 2^15, near the top of float16's range, so small numbers stay normal
ColumnsAt = Callable[[Indices, slice], Floats]  # (rows, columns) -> numbers of a table


@frozen
class Format:
    """A binary floating-point format."""

    digits: int  # significand bits, including the hidden bit
    lowest: int  # exponent of the smallest normal number
    largest: float
    beyond: float  # result of an overflow


FORMATS = {
    "float32": Format(24, -126, (2 - 2.0**-23) * 2.0**127, np.inf),
    "float16": Format(11, -14, 65504.0, np.inf),
    "bfloat16": Format(8, -126, (2 - 2.0**-7) * 2.0**127, np.inf),
    "float8_e4m3": Format(4, -6, 448.0, 448.0),
}


@frozen
class FormatLoss:
    """Distinct vectors and phase error of an encoding in one format."""

    distinct_cast: int
    distinct_phase: int | None  # None if the encoding declares no frequencies
    max_phase_error: float | None  # radians; NaN if a phase overflows
    safe_cast: int | None = None  # leading positions with distinct vectors when cast
    safe_phase: int | None = None  # the same from rounded phases

    def within(self, distinct: int) -> "FormatLoss":
        """Cap all counts at the number of distinct vectors before rounding.

        >>> FormatLoss(35, None, None).within(24).distinct_cast
        24
        """
        counts = {k: v for k, v in vars(self).items() if k != "max_phase_error" and v is not None}
        return replace(self, **{k: min(v, distinct) for k, v in counts.items()})


def rounded(x: ArrayLike, form: Format) -> Floats:
    """Round values to a format; the result is float64.

    >>> rounded(np.array([257.0, 0.1, 1e9]), FORMATS["float16"])
    array([2.57000000e+02, 9.99755859e-02,            inf])
    """
    x = np.asarray(x, dtype=float)
    result = np.empty(x.shape)
    source, target = x.reshape(-1), result.reshape(-1)
    for part in row_blocks(x.size, CACHED):
        numbers = source[part]
        last = np.maximum(np.frexp(numbers)[1], form.lowest + 1) - form.digits  # exponent
        nearest = np.ldexp(np.rint(np.ldexp(numbers, -last)), last)
        overflow = np.copysign(form.beyond, nearest)
        target[part] = np.where(np.abs(nearest) > form.largest, overflow, nearest)
    return result


def has_format(numbers: Table, form: Format) -> bool:
    """Whether all numbers fit a format and over a tenth need all of its digits (0 and 1 do not).

    A column whose numbers are all multiples of the last digit of its largest number does not count:
    such numbers, for example 0.25 times a lag, are exact in any format.

    >>> lags = np.abs(np.subtract.outer(np.arange(250.0), np.arange(24.0)))
    >>> has_format(-0.25 * lags, FORMATS["bfloat16"])
    False
    """
    parts = np.array_split(numbers, numbers.size // CACHED + 1)
    if any((rounded(part, form) != part).any() for part in parts):
        return False
    last = np.frexp(np.abs(numbers).max(axis=0, initial=0.0))[1] - form.digits
    units = np.ldexp(numbers, -last)
    counts = (units == np.rint(units)).all(axis=0)
    coarser = rounded(numbers, replace(form, digits=form.digits - 1)) != numbers
    return bool((coarser & ~counts).mean() > 0.1)


def stored_resolution(numbers: Table, eps: float) -> tuple[float, float]:
    """Return the relative and absolute resolution of numbers rounded before they were stored.

    A wider format may hold float32 or 16-bit numbers, in any unit, or decimals with few places.
    Numbers that are as finely spaced at zero as at the largest, such as positions, fit no format.

    >>> stored_resolution(np.array([0.1, 0.25, 0.333]), 2.0**-52)[1]
    0.001
    """
    parts, unit = np.array_split(numbers, numbers.size // CACHED + 1), unit_of(numbers)

    def scaled(part: Table, power: int) -> Floats:
        return np.ldexp(unit * part.astype(float), power)

    for form in (FORMATS[name] for name in ("bfloat16", "float16", "float32")):
        resolution = 2.0 ** (1 - form.digits)
        if resolution <= eps:  # eps is coarser already
            break
        is_finer = any((x != np.rint(x)).any() for x in (scaled(p, form.digits) for p in parts))
        if is_finer and has_format(scaled(numbers, NEAR_TOP), form):
            eps = resolution
            break
    places = (
        k
        for k in range(MOST_PLACES)
        if all((np.round(x, k) == x).all() for x in (p.astype(float) for p in parts))
    )
    decimals = next(places, 0)
    return eps, 10.0**-decimals if decimals else 0.0


def precision(
    enc: Encoding,
    distinct: int | None = None,
    first: Indices | None = None,
    min_distance: float = 0.0,
) -> dict[str, FormatLoss]:
    """Return the loss of each format in `FORMATS`; `distinct` vectors differ before rounding.

    If rows of a table repeat, `first` (n,) is the index of the first row equal to each row.
    No two vectors are closer than `min_distance`.

    >>> from pefourier.encodings import load
    >>> precision(load("rope", length=512, d=64))["bfloat16"].distinct_phase
    385
    """
    by_axis = enc.is_stationary or (not enc.measure and first is None)
    lines = axis_encodings(enc) if by_axis else None
    if lines is None:
        losses = format_losses(enc, FORMATS, first, min_distance)
    else:
        per_axis, sides = [format_losses(line, FORMATS) for line in lines], enc.domain.sides
        losses = {name: loss_on_axes([loss[name] for loss in per_axis], sides) for name in FORMATS}
    return losses if distinct is None else {k: loss.within(distinct) for k, loss in losses.items()}


def check_formats(enc: Encoding) -> None:
    """Refuse more positions than can be compared in each format within memory."""
    if enc.measure and not is_separable(enc):
        points = min(len(enc), enc.measure.period or len(enc))
        unit = max(2.0 ** (form.lowest - form.digits + 1) for form in FORMATS.values())
        if enc.is_stationary and enc.measure.amplitudes.max() < unit:
            points *= COLUMNS_OF_ZEROS
        check_cost(shown(enc.spec), "positions in narrow formats", points)


def loss_on_axes(losses: Sequence[FormatLoss], sides: Ints) -> FormatLoss:
    """Combine the losses along the axes of a grid: counts multiply, the largest error stays."""
    facts = {name: [vars(loss)[name] for loss in losses] for name in vars(losses[0])}
    phases, errors = (
        [value for value in facts[name] if value is not None]
        for name in ("distinct_phase", "max_phase_error")
    )
    return FormatLoss(
        prod(facts["distinct_cast"]),
        prod(phases) if phases else None,
        float(np.max(errors)) if errors else None,
        first_points(facts["safe_cast"], sides),
        first_points(facts["safe_phase"], sides),
    )


def first_points(safe: Sequence[int | None], sides: Ints) -> int | None:
    """Count the leading points of a raster that all differ, from such counts along each axis.

    >>> first_points([2, 5], (3, 5)), first_points([3, 4], (3, 5))
    (10, 4)
    """
    counts = [count for count in safe if count is not None]
    if len(counts) < len(sides):
        return None
    unsafe = (axis for axis, side in enumerate(sides) if counts[axis] < side)
    return prod(counts[max(unsafe, default=0) :])


def format_losses(
    enc: Encoding, formats: Iterable[str], first: Indices | None = None, min_distance: float = 0.0
) -> dict[str, FormatLoss]:
    """Return distinct vectors and phase error by the name of each format; see `precision`."""
    enc = row_by_row(enc)
    columns, count = vector_columns(enc)
    first = first if not enc.measure else None
    about = enc, columns, count, first, min_distance
    return {name: format_loss(*about, FORMATS[name]) for name in formats}


def format_loss(
    enc: Encoding,
    columns: ColumnsAt,
    count: int,
    first: Indices | None,
    min_distance: float,
    form: Format,
) -> FormatLoss:
    """Return distinct vectors and phase error in one format, from `count` columns.

    A table row with a number that overflows is lost. Vectors need no count if `min_distance`
    exceeds twice the distance that rounding moves a vector. Rounded phases would separate position
    s from s plus a period, although both have one vector: the count stops at the period.
    """
    measure, x = enc.measure, enc.domain.x
    points = min(len(enc), measure.period or len(enc))  # beyond a period, vectors repeat exactly
    leaders = np.arange(points) if first is None else np.flatnonzero(first == np.arange(points))
    if not measure:
        top = np.maximum(enc.table().max(axis=1), -enc.table().min(axis=1))
        leaders = leaders[np.isfinite(rounded(top[leaders], form))]
    cast = safe = len(leaders)
    if min_distance <= 2 * rounding_distance(enc, form):
        cast, safe = count_distinct(
            lambda rows, part: rounded(columns(leaders[rows], part), form), len(leaders), count
        )
    repeat = np.append(leaders != np.arange(len(leaders)), True).argmax()  # first row left out
    safe = int(min(np.append(leaders, points)[safe], repeat))
    if enc.domain.kind != "position":
        return FormatLoss(cast, None, None)
    if not measure or enc.kernel:
        return FormatLoss(cast, None, None, safe)
    x = (enc.domain.places(x) + measure.offset).reshape(len(enc), -1)
    frequencies = measure.frequencies.reshape(len(measure), -1)
    phase, safe_phase = count_distinct_phases(x, frequencies, form)
    error = max_phase_error(x, frequencies, form)
    return FormatLoss(cast, phase, error, safe, safe_phase).within(points)


def rounding_distance(enc: Encoding, form: Format) -> float:
    """Return how far rounding moves a vector of declared length at most; otherwise infinity.

    >>> from pefourier.encodings import load
    >>> rounding_distance(load("rope", length=9, d=128), FORMATS["bfloat16"])
    0.03125
    """
    length = sqrt(enc.measure.squared_length) if enc.is_stationary else np.inf
    if not length <= form.largest:
        return np.inf
    near_zero = np.sqrt(enc.dim) * 2.0 ** (form.lowest - form.digits)
    return float(length * 2.0**-form.digits + near_zero)


def row_by_row(enc: Encoding) -> Encoding:
    """Return an encoding that was laid on a grid as an encoding of its row numbers.

    >>> from pefourier.encodings import build
    >>> from pefourier.encodings.grids import on_grid
    >>> row_by_row(on_grid(build("rope", length=6, d=4), (2, 3), 0)).measure.frequencies
    array([1.  , 0.01])
    """
    sides, measure = enc.domain.sides, enc.measure
    if len(sides) < 2 or measure.frequencies.ndim < 2:
        return enc
    strides = np.array([prod(sides[axis + 1 :]) for axis in range(len(sides))])
    along_rows = measure.frequencies[:, -1]
    if not np.array_equal(measure.frequencies, np.multiply.outer(along_rows, strides)):
        return enc
    line = replace(measure, frequencies=along_rows, offset=np.ravel(measure.offset)[-1])
    return replace(enc, domain=positions(len(enc)), measure=line)


def vector_columns(enc: Encoding) -> tuple[ColumnsAt, int]:
    """Return a function for columns of the vectors, and the number of columns.

    Columns are those of the table, or the cosines and sines of a declared inner product.
    """
    if not enc.is_stationary or len(enc) * enc.dim < WHOLE:
        table = enc.table()
        return lambda rows, part: table[rows, part].astype(float), enc.dim
    measure, domain = enc.measure, enc.domain

    def columns(rows: Indices, part: slice) -> Floats:
        phases = measure.phases(domain.places(domain.x[rows]), pairs_of(part))
        waves = cosines_and_sines(phases)
        waves *= np.repeat(measure.amplitudes[pairs_of(part)], 2)
        return waves

    return columns, 2 * len(measure)


def pairs_of(columns: slice) -> slice:
    """Return the pairs of a cosine and a sine within an even number of columns."""
    return slice(columns.start // 2, columns.stop // 2)


def cosines_and_sines(phases: Floats) -> Floats:
    """Return the cosine and sine of each phase in neighbouring columns."""
    return np.stack([np.cos(phases), np.sin(phases)], axis=-1).reshape(len(phases), -1)


def count_distinct_phases(x: Floats, frequencies: Floats, form: Format) -> tuple[int, int]:
    """Count distinct vectors when positions, frequencies, products and sinusoids are rounded."""
    nearest, frequencies = rounded(x, form), rounded(frequencies, form)
    first = np.flatnonzero(first_duplicate(nearest) == np.arange(len(nearest)))
    places = nearest[first]

    def columns(rows: Indices, part: slice) -> Floats:
        with np.errstate(invalid="ignore"):  # the cosine of an infinite phase is NaN
            phases = rounded_products(places[rows], frequencies[pairs_of(part)], form)
            return rounded(cosines_and_sines(phases), form)

    count, safe = count_distinct(columns, len(places), 2 * len(frequencies))
    merged = np.append(first != np.arange(len(first)), True).argmax()  # earlier points are distinct
    return count, int(min(merged, np.append(first, len(x))[safe]))


def rounded_products(x: Floats, frequencies: Floats, form: Format) -> Floats:
    """Return the phases of points (n, axes), with each product and each sum rounded."""
    axes = zip(x.T, frequencies.T, strict=True)
    parts = (rounded(np.multiply.outer(along, omega), form) for along, omega in axes)
    return reduce(lambda total, part: rounded(total + part, form), parts)


def max_phase_error(x: Floats, frequencies: Floats, form: Format) -> float:
    """Return the largest |rounded phase - exact phase| in radians, or NaN if a phase is infinite.

    The search starts at the last points. On one axis, it reads frequencies by descending bound on
    their error, four units of the phase or all of it, until no bound exceeds the largest error.
    """
    nearest, nearby, worst = rounded(x, form), rounded(frequencies, form), 0.0
    if not np.isfinite(nearest).all():
        return np.nan
    for points in row_blocks(len(x), AT_ONCE)[::-1]:
        own, exact, bounds = nearest[points], x[points], np.full(len(frequencies), np.inf)
        if x.shape[1] == 1:
            top, omega = np.abs(own).max(), np.abs(nearby[:, 0])
            size, least = top * omega, 2.0 ** (form.lowest - form.digits + 1)
            share = np.where(size > form.largest / 2, 1.0, 2.0 ** (2 - form.digits))
            bounds = share * size + (1 + top + omega) * least
        order = np.argsort(-bounds)
        for part in row_blocks(len(order), AT_ONCE, len(own)):
            j = order[part]
            if bounds[j[0]] <= worst or np.isnan(worst):
                break
            with np.errstate(invalid="ignore"):  # of infinite phases
                errors = rounded_products(own, nearby[j], form) - exact @ frequencies[j].T
                worst = float(np.maximum(worst, np.abs(errors).max()))
    return worst if np.isfinite(worst) else np.nan


def phase_rounding(omega: Floats, eps: float) -> Floats:
    r"""Return the error bound of a phase computed in low precision, in radians per position.

    A frequency is computed as exp(ln omega): the exponent, the frequency and its product with the
    position are all rounded, which gives :math:`\omega\,(3 + |\ln\omega|)\,\varepsilon`. Numbers
    stored more coarsely than float32 are assumed to come from phases in float32.
    """
    units = 3 + np.abs(np.log(np.maximum(omega, 1e-300)))
    with np.errstate(over="ignore"):
        rounding: Floats = omega * units * min(eps, FLOAT32_EPS)
    return rounding


def phase_errors(s: Array, omega: Floats, eps: float) -> Floats:
    """Return error bounds of the phases omega · s (n, m), in radians, limited to 1."""
    rounding = np.minimum(phase_rounding(omega, eps), 1e200)  # keeps the product finite
    errors: Floats = np.minimum(np.multiply.outer(np.abs(s), rounding), 1.0)
    return errors


def count_distinct(columns: ColumnsAt, n: int, count: int) -> tuple[int, int]:
    """Count the distinct rows of a table, and the leading rows that are all distinct.

    Rows are compared by growing blocks of columns. Only rows that still share all values with
    another row are compared further. NaN equals NaN.
    """
    rows, group, part = np.arange(n), np.zeros(n), slice(0, 0)
    again = rows[1:]  # rows that equal one before them
    while part.stop < count and len(rows):
        width = 2 * max(1, AT_ONCE // (2 * len(rows)), part.stop - part.start)
        part = slice(part.stop, min(part.stop + width, count))
        values = columns(rows, part)
        values[np.isnan(values)] = np.finfo(float).max  # one value: NaN equals NaN
        first = first_duplicate(np.column_stack([group, values]))
        again = rows[first != np.arange(len(rows))]
        shared = np.bincount(first, minlength=len(rows))[first] > 1
        rows, group = rows[shared], first[shared].astype(float)
    return n - len(again), int(again.min(initial=n))
