"""Steps in which two tables differ after their vectors were computed: rows, columns, numbers.

Conventions
-----------
A table (n, d) has an error for each of its numbers, by which rounding may change it. Causes change
both: a scale multiplies errors, and rounding to decimals or integers adds a unit where a number is
within its error of a tie. A cause is found if it gives every number of the other table within both
errors. Rows of zeros and columns of zeros are causes within a part of the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from pefourier.construction.explain import (
    Cause,
    Cover,
    Explanation,
    Kind,
    Named,
    Within,
    explain,
)
from pefourier.construction.rows import explain_rows
from pefourier.encodings.encoding import changes_by_name
from pefourier.geometry.precision import first_duplicate, float_blocks
from pefourier.geometry.tolerance import Allowed
from pefourier.types import Bools, Fields, Floats, Places, Table, frozen, frozen_arrays
from pefourier.writing import text

FEW = 64  # rows on which candidate matches of columns are tested first
PROBES = 8  # random directions in which rows are matched
PAIRED = 2**20  # most numbers of tables for which two causes are tried
SAMPLE = 2**14  # numbers on which a cause is tried before all numbers
DECIMALS = range(7)
WHOLE = 2**15  # integers that codes of 16 bits hold
NORM_EPS = (0.0, 1e-5, 1e-6, 1e-12)  # that layer norms add to the variance
DEVIATION = 1e-2  # of the lengths of rows from their mean, up to which a norm is proposed
EQUIVALENT = {"columns", "scaled", "offset-row", "padding"}


@frozen_arrays
class TableNumbers:
    """Numbers of a table, and the errors that rounding explains."""

    values: Floats  # (n, d)
    error: Floats  # (n, d)

    def times(self, factor: Any) -> TableNumbers:
        """Return the numbers times a factor, or one for each row."""
        return replace(self, values=self.values * factor, error=self.error * np.abs(factor))

    def at(self, rows: Any = slice(None), columns: Any = slice(None)) -> TableNumbers:
        """Return some rows and columns."""
        return TableNumbers(self.values[rows][:, columns], self.error[rows][:, columns])

    def to_units(self, unit: float) -> TableNumbers:
        """Round to multiples of a unit; numbers near a tie may be rounded either way."""
        scaled = self.values / unit
        whole = np.rint(scaled)
        is_tied = np.abs(np.abs(scaled - whole) - 0.5) <= self.error / unit + 1e-9
        return TableNumbers(whole * unit, np.where(is_tied, unit, 1e-9 * unit))


def agree(applied: TableNumbers, observed: TableNumbers) -> Bools:
    """Return which numbers are equal up to their errors; none if shapes differ."""
    if applied.values.shape != observed.values.shape:
        return np.zeros(observed.values.shape, bool)
    return np.asarray(np.abs(applied.values - observed.values) <= applied.error + observed.error)


@frozen
class IndexRange:
    """Numbers on one axis, first and last."""

    axis: str
    first: int
    last: int

    @property
    def within(self) -> Fields:
        """Indices for JSON."""
        return {self.axis: (self.first, self.last)}

    @property
    def words(self) -> str:
        """Where the numbers are, as the end of a sentence."""
        if self.first == self.last:
            return f"in {self.axis.replace('ies', 'ys').removesuffix('s')} {self.first}"
        return f"in {self.axis} {self.first} to {self.last}"


@frozen
class TablePart(IndexRange):
    """Rows or columns of a table."""

    @property
    def index(self) -> Any:
        """Index of the part in an array."""
        part = slice(self.first, self.last + 1)
        return part if self.axis == "rows" else (slice(None), part)

    def of(self, numbers: TableNumbers) -> TableNumbers:
        """Select the part."""
        return TableNumbers(numbers.values[self.index], numbers.error[self.index])

    def put(self, numbers: TableNumbers, part: TableNumbers) -> TableNumbers:
        """Replace the part."""
        values, error = numbers.values.copy(), numbers.error.copy()
        values[self.index], error[self.index] = part.values, part.error
        return TableNumbers(values, error)


@frozen
class OfNumbers(Named):
    """A cause that changes the numbers of a table."""

    changed = "numbers"


@frozen
class Zeroed(OfNumbers):
    """Numbers are zeros."""

    name = "zeroed"
    says = "zeros"

    @classmethod
    def propose(
        cls, expected: TableNumbers, observed: TableNumbers
    ) -> Iterator[Cause[TableNumbers]]:
        """Yield runs of rows and of columns that are all zeros in the observed table alone."""
        if expected.values.shape != observed.values.shape:
            return
        for axis, part in ((1, "rows"), (0, "columns")):
            is_zero = ~observed.values.any(axis=axis) & expected.values.any(axis=axis)
            for first, last in true_runs(np.asarray(is_zero)):
                yield Within(TablePart(part, first, last), cls())

    def apply(self, expected: TableNumbers) -> TableNumbers:
        """Return zeros."""
        return expected.times(0.0)


def shortest(value: float, slack: float) -> float:
    """Return the number with the fewest digits within a relative `slack`.

    >>> shortest(9999.9999997, 1e-9), shortest(0.08838834764, 1e-3)
    (10000.0, 0.0884)
    """
    return text.shortest(lambda x: abs(x - value) <= slack * abs(value), float(value))


def true_runs(mask: Bools) -> list[tuple[int, int]]:
    """Return the first and last index of each run of True.

    >>> true_runs(np.array([1, 1, 0, 1]) > 0)
    [(0, 1), (3, 3)]
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]])))
    return [(int(a), int(b) - 1) for a, b in edges.reshape(-1, 2)]


@frozen
class Scaled(OfNumbers):
    """All numbers are multiplied by one factor."""

    by: float
    name = "scaled"
    says = "all numbers multiplied by {c.by:.7g}"

    @classmethod
    def propose(cls, expected: TableNumbers, observed: TableNumbers) -> Iterator[Scaled]:
        """Yield the ratio of norms, with and without the mean row, with both signs."""
        x, y = expected.values, observed.values
        for a, b in ((x, y), (x - x.mean(axis=0), y - y.mean(axis=0))):
            size, ratio = float(np.linalg.norm(a)), float(np.linalg.norm(b))
            if size and ratio:
                ratio, slack = ratio / size, float(np.linalg.norm(expected.error)) / size
                for by in dict.fromkeys((shortest(ratio, slack + 1e-12), *in_few_digits(ratio))):
                    yield from (cls(by=factor) for factor in (by, -by) if factor not in (0, 1))

    def apply(self, expected: TableNumbers) -> TableNumbers:
        """Multiply."""
        return expected.times(self.by)


def in_few_digits(value: float) -> list[float]:
    """Return a number in one to four digits."""
    return [float(f"{value:.{digits}g}") for digits in range(1, 5)]


@frozen_arrays
class OffsetRow(OfNumbers):
    """One row is added to all rows."""

    row: Floats
    name = "offset-row"
    says = "one constant row added to all rows"

    @classmethod
    def propose(cls, expected: TableNumbers, observed: TableNumbers) -> Iterator[OffsetRow]:
        """Yield the mean difference."""
        if expected.values.shape == observed.values.shape:
            added = observed.values.mean(axis=0) - expected.values.mean(axis=0)
            middle, slack = float(np.median(added)), float(observed.error.max()) + 1e-12
            if (np.abs(added - middle) <= slack).all():  # one number for all columns
                added = np.full(len(added), shortest(middle, slack / (abs(middle) or 1.0)))
            if added.any():
                yield cls(row=added)

    def apply(self, expected: TableNumbers) -> TableNumbers:
        """Add the row."""
        return TableNumbers(expected.values + self.row, expected.error)


@frozen
class UnitRows(OfNumbers):
    """Each row is divided by its Euclidean norm."""

    length: float
    name = "unit-rows"
    says = "each row scaled to length {c.length:g}"

    @classmethod
    def propose(cls, _: TableNumbers, observed: TableNumbers) -> Iterator[UnitRows]:
        """Yield the common length of the observed rows."""
        norms = np.linalg.norm(observed.values, axis=1)
        norms = norms[norms > 0]
        if len(norms) and np.ptp(norms) <= DEVIATION * norms.mean():
            yield cls(length=float(f"{np.median(norms):.4g}"))

    def apply(self, expected: TableNumbers) -> TableNumbers:
        """Divide rows by their norms; rows of zeros stay."""
        return divided(expected, np.linalg.norm(expected.values, axis=1) / self.length)


@frozen
class LayerNorm(OfNumbers):
    """Each row has its mean subtracted and is divided by its standard deviation."""

    eps: float
    name = "layer-norm"
    says = "a layer norm of each row (eps {c.eps:g})"

    @classmethod
    def propose(cls, _: TableNumbers, observed: TableNumbers) -> Iterator[LayerNorm]:
        """Yield the constants that layer norms add, if observed rows have mean 0."""
        x = observed.values
        means, spread = np.abs(x.mean(axis=1)), max(x.std(axis=1).max(initial=0.0), 1e-9)
        if means.max(initial=0.0) <= DEVIATION * spread:
            yield from (cls(eps=eps) for eps in NORM_EPS)

    def apply(self, expected: TableNumbers) -> TableNumbers:
        """Normalise rows; rows of constants become zeros."""
        mean, slack = (x.mean(axis=1, keepdims=True) for x in (expected.values, expected.error))
        values, error = expected.values - mean, expected.error + slack
        return divided(TableNumbers(values, error), np.sqrt(values.var(axis=1) + self.eps))


def divided(numbers: TableNumbers, norms: Floats) -> TableNumbers:
    """Divide rows by norms, which err as the numbers do; rows within their error become zeros."""
    is_flat = (np.abs(numbers.values) <= numbers.error).all(axis=1)
    scaled = numbers.times((1 / np.where(is_flat, np.inf, norms))[:, None])
    slack = np.linalg.norm(scaled.error, axis=1, keepdims=True)
    size = np.linalg.norm(scaled.values, axis=1, keepdims=True)
    return TableNumbers(
        scaled.values, scaled.error + slack * np.abs(scaled.values) / np.maximum(size, 1e-300)
    )


@frozen
class Decimals(OfNumbers):
    """Numbers are rounded to decimals."""

    digits: int
    name = "decimals"
    says = "numbers rounded to {c.digits} decimals"

    @classmethod
    def propose(cls, _: TableNumbers, observed: TableNumbers) -> Iterator[Decimals]:
        """Yield the fewest decimals that all observed numbers have."""
        sample = observed.values.ravel()[:SAMPLE]
        for digits in DECIMALS:
            scaled = sample * 10**digits
            slack = observed.error.ravel()[:SAMPLE] * 10**digits + 1e-9
            if (np.abs(scaled - np.rint(scaled)) <= slack).all() and slack.max() < 0.1:
                yield cls(digits=digits)
                return

    def apply(self, expected: TableNumbers) -> TableNumbers:
        """Round."""
        return expected.to_units(10.0**-self.digits)


@frozen
class Integers(Named):
    """Numbers are multiplied by a factor and rounded to integers, as codes of 8 bits."""

    scale: float
    changed = "storage"
    name = "integers"
    says = "numbers stored as integers without their scale (numbers times {c.scale:.6g})"

    @classmethod
    def propose(cls, expected: TableNumbers, observed: TableNumbers) -> Iterator[Integers]:
        """Yield factors that map the largest number to the largest integer, and round factors."""
        x, y = expected.values, observed.values
        largest, top = (np.abs(z).max(initial=0.0) for z in (y, x))
        sample = y.ravel()[:SAMPLE]
        if top and 0 < largest <= WHOLE and (sample == np.rint(sample)).all():
            factors = [float(most / top) for most in (largest, largest + 1, largest + 0.5)]
            factors += in_few_digits(float(np.linalg.norm(y) / np.linalg.norm(x)))
            yield from (cls(scale=factor) for factor in factors)

    def apply(self, expected: TableNumbers) -> TableNumbers:
        """Multiply and round."""
        return expected.times(self.scale).to_units(1.0)


@frozen
class Transposed(Named):
    """Rows and columns are exchanged."""

    changed = "columns"
    name = "transposed"
    says = "rows and columns exchanged (transposed)"

    @classmethod
    def propose(cls, expected: TableNumbers, observed: TableNumbers) -> Iterator[Transposed]:
        """Yield the cause if shapes allow it."""
        if expected.values.shape == observed.values.shape[::-1]:
            yield cls()

    def apply(self, expected: TableNumbers) -> TableNumbers:
        """Transpose."""
        return TableNumbers(expected.values.T, expected.error.T)


@frozen
class Padding(Named):
    """Columns of zeros are added after the last column, or the last columns are cut off."""

    columns: int  # added; negative: cut off
    changed = "columns"
    name = "padding"

    @property
    def words(self) -> str:
        """What was done."""
        count = abs(self.columns)
        noun = "column" if count == 1 else "columns"
        if self.columns < 0:
            return f"the last {count} {noun} cut off"
        return f"{count} {noun} of zeros added after the last"

    @classmethod
    def propose(cls, expected: TableNumbers, observed: TableNumbers) -> Iterator[Padding]:
        """Yield the difference of widths."""
        (n, own), (m, other) = expected.values.shape, observed.values.shape
        if n == m and own != other and (other < own or not observed.values[:, own:].any()):
            yield cls(columns=other - own)

    def apply(self, expected: TableNumbers) -> TableNumbers:
        """Add zeros or cut."""
        if self.columns < 0:
            return expected.at(columns=slice(expected.values.shape[1] + self.columns))
        added = ((0, 0), (0, self.columns))
        return TableNumbers(np.pad(expected.values, added), np.pad(expected.error, added))


@frozen_arrays
class Ordered(Named):
    """Columns are in another order, some with the opposite sign."""

    order: Places  # of each column, its column in the expected table
    signs: Floats
    changed = "columns"
    name = "columns"

    @property
    def moved(self) -> Bools:
        """The columns at another place."""
        return np.asarray(self.order != np.arange(len(self.order)))

    @property
    def layout(self) -> str | None:
        """The name of the order; None without one."""
        names = changes_by_name(len(self.order)).items()
        return next((name for name, order in names if (order == self.order).all()), None)

    @property
    def words(self) -> str:
        """What was done."""
        moved, flipped = self.moved, self.signs < 0
        texts = []
        if self.layout:
            texts.append(f"columns in another order ({self.layout})")
        elif moved.sum() == 2:
            texts.append("columns {} and {} exchanged".format(*np.flatnonzero(moved)))
        elif moved.any():
            texts.append("columns in another order")
        if flipped.all():
            texts.append("the opposite sign of all columns")
        elif flipped.any():
            texts.append(f"the opposite sign of {flipped.sum()} columns")
        return " and ".join(texts)

    @classmethod
    def propose(cls, expected: TableNumbers, observed: TableNumbers) -> Iterator[Ordered]:
        """Yield the order in which columns agree, those that agree in place first."""
        a, b = expected.values, observed.values
        if a.shape != b.shape:
            return
        error = expected.error + observed.error
        for order, signs in column_maps(a, b, lambda rows: error[rows], 1.0):
            ordered = cls(order=order, signs=signs)
            if ordered.words:
                yield ordered

    def apply(self, expected: TableNumbers) -> TableNumbers:
        """Order columns and change signs."""
        ordered = expected.at(columns=self.order)
        return TableNumbers(ordered.values * self.signs, ordered.error)


@frozen_arrays
class ColumnsRepeated(Named):
    """Some columns hold the numbers of others, whose own numbers are lost."""

    order: Places  # of each column, its column in the expected table
    changed = "columns"
    name = "columns-repeated"

    @property
    def words(self) -> str:
        """The columns, and those that they repeat."""
        moved = np.flatnonzero(self.order != np.arange(len(self.order)))
        own, other = (text.first_few([*map(str, x)]) for x in (moved, self.order[moved]))
        return f"columns {own} replaced by columns {other}"

    @classmethod
    def propose(cls, expected: TableNumbers, observed: TableNumbers) -> Iterator[ColumnsRepeated]:
        """Match each column that differs by its sum with random weights."""
        if expected.values.shape == observed.values.shape:
            weights = np.random.default_rng(0).standard_normal(len(expected.values))
            p, q = (weights @ numbers.values for numbers in (expected, observed))
            differs = (~agree(expected, observed)).any(axis=0)
            order = np.where(differs, np.abs(p - q[:, None]).argmin(axis=1), np.arange(len(p)))
            if len({*order.tolist()}) < len(order):
                yield cls(order=order)

    def apply(self, expected: TableNumbers) -> TableNumbers:
        """Repeat columns."""
        return expected.at(columns=self.order)


def column_maps(
    a: Table, b: Table, allowed: Allowed, scale: float
) -> Iterator[tuple[Places, Floats]]:
    """Yield candidates (columns, signs) with b = scale · a[:, columns] · signs.

    Columns that already fit keep their place. For the rest, named orders come first, because
    several low-frequency columns may fit one place. Other columns are matched by the size of their
    products with random weights. The first rows come first: their phases have little rounding.
    """
    n, d = a.shape
    columns, signs = np.arange(d), np.ones(d)
    fitting, signed = (compare_columns(a, b, allowed, columns, k)[0] for k in (scale, -scale))
    signs[signed & ~fitting] = -1.0
    unmatched = np.flatnonzero(~(fitting | signed))
    if len(unmatched) == 0:
        yield columns, signs
        return
    for order in changes_by_name(d).values():
        if compare_columns(a[:FEW], b[:FEW], allowed, order, scale)[0].all():
            yield order, np.ones(d)
    for count in sorted({min(FEW, n), min(512, n), n}):
        weights = np.random.default_rng(count).standard_normal(count)
        sums = (sum(weights[k] @ rows for k, rows in float_blocks(x[:count])) for x in (a, b))
        p, q = (x[unmatched] for x in sums)
        columns[unmatched[np.argsort(np.abs(q))]] = unmatched[np.argsort(np.abs(p))]
        products = sum(
            np.einsum("ij,ij->j", numbers[:, columns[unmatched]], b[rows][:, unmatched])
            for rows, numbers in float_blocks(a[:count])
        )
        signs[unmatched] = np.where(products < 0, -1.0, 1.0)
        yield columns.copy(), signs.copy()


def compare_columns(
    a: Table, b: Table, allowed: Allowed, columns: Places, factors: Any
) -> tuple[Bools, float]:
    """Return which columns of b are the scaled columns of a, and the largest difference.

    Rows are read until no column fits.
    """
    fits, worst, index = np.ones(len(columns), bool), 0.0, np.arange(len(a))
    for rows, numbers in float_blocks(a):
        residual = np.abs(numbers[:, columns] * factors - b[rows])
        fits &= (residual <= allowed(index[rows])[:, columns]).all(axis=0)
        worst = max(worst, float(residual.max()))
        if not fits.any():
            break
    return fits, worst


@frozen_arrays
class RowsMoved(Named):
    """Rows are at other positions, by causes of positions."""

    causes: tuple[Cause[Any], ...]
    rows: Places
    changed = "positions"
    name = "rows"

    @property
    def words(self) -> str:
        """What was done."""
        return ", and ".join(cause.words for cause in self.causes)

    @classmethod
    def propose(cls, expected: TableNumbers, observed: TableNumbers) -> Iterator[RowsMoved]:
        """Yield the causes of the rows that are nearest to the observed rows."""
        if expected.values.shape == observed.values.shape:
            rows, _ = nearest_rows(expected, observed)
            if found := explain_rows(np.arange(len(rows)), rows).causes:
                yield cls(causes=found, rows=rows)

    def apply(self, expected: TableNumbers) -> TableNumbers:
        """Move rows."""
        return expected.at(rows=self.rows)


def nearest_rows(expected: TableNumbers, observed: TableNumbers) -> tuple[Places, Bools]:
    """Return the nearest expected row of each observed row, and whether all its numbers agree.

    Of equal rows, the one with the index of the row counts, and repeated rows are matched one to
    one.
    """
    a, b = expected.values, observed.values

    def fitting(rows: Places) -> Bools:
        return np.asarray(agree(expected.at(rows), observed).all(axis=1))

    index = np.arange(len(b))
    if len(a) == len(b) and (fits := fitting(index[::-1])).all():
        return index[::-1], fits
    rows = np.where(fitting(index), index, nearest(a, b))
    fits = fitting(rows)
    if fits.all() and len(a) == len(b):
        leaders = first_duplicate(a)
        orders = [np.argsort(x, kind="stable") for x in (leaders, leaders[rows])]
        if (leaders[orders[0]] == leaders[rows][orders[1]]).all():
            rows[orders[1]] = orders[0]
    return rows, fits


def nearest(a: Floats, b: Floats) -> Places:
    """Return the row of a that is nearest to each row of b.

    Rows are projected on a few random directions, which separate different rows.
    """
    from scipy.spatial import KDTree  # slow import, rarely needed

    directions = np.random.default_rng(0).standard_normal((a.shape[1], PROBES))
    return np.asarray(KDTree(a @ directions).query(b @ directions)[1])


KINDS = (
    *(Transposed, Padding, Zeroed, Scaled, OffsetRow, UnitRows, LayerNorm),
    *(Decimals, Integers, Ordered, RowsMoved),
)


def parts_of(_: TableNumbers, __: TableNumbers, differs: Bools) -> Iterator[Cover[TableNumbers]]:
    """Yield the rows and the columns to which differences are confined: one part, or two."""
    for axis, part in ((1, "rows"), (0, "columns")):
        runs = true_runs(np.asarray(differs.any(axis=axis)))
        if not runs:
            continue
        span = runs[0][0], runs[-1][1]
        if span != (0, differs.shape[1 - axis] - 1):
            yield [(TablePart(part, *span), PARTIAL)]
        if len(runs) == 2:
            yield [(TablePart(part, *run), PARTIAL) for run in runs]


PARTIAL = (Zeroed, Scaled, UnitRows, LayerNorm, Decimals, Integers, Ordered, RowsMoved)


def explain_tables(
    expected: TableNumbers, observed: TableNumbers, alone: Sequence[Kind[TableNumbers]] = ()
) -> Explanation[TableNumbers]:
    """Return the steps, at most two, that lead from one table to the other.

    Kinds that cause a difference `alone` are tried last, and not in pairs.

    >>> table = np.random.default_rng(0).normal(size=(9, 4))
    >>> numbers = [TableNumbers(x, 1e-12 + 0 * x) for x in (table, 2.5 * table[::-1])]
    >>> [cause.words for cause in explain_tables(*numbers).causes]
    ['all numbers multiplied by 2.5', 'positions in reverse order']
    """

    is_small = observed.values.size <= PAIRED
    found = explain(expected, observed, KINDS, agree, lambda *_: is_small, parts_of)
    if alone and not found.causes:
        found = explain(expected, observed, alone, agree, lambda *_: False)
    return Explanation(tuple(chain.from_iterable(map(single, found.causes))), found.reproduced)


def single(cause: Any) -> tuple[Cause[Any], ...]:
    """Return the causes of moved rows one by one, each within the part of all."""
    if isinstance(cause, Within):
        return tuple(Within(cause.part, one) for one in single(cause.cause))
    return cause.causes if isinstance(cause, RowsMoved) else (cause,)


def are_equivalent(causes: tuple[Cause[Any], ...]) -> bool:
    """Whether a model trained from scratch adapts to the causes: columns, one scale, one row."""
    return not any(isinstance(c, Within) or c.code not in EQUIVALENT for c in causes)
