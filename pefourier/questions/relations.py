r"""Relations between the vectors of positions: inner products, shifts, asymmetry and distances.

Conventions
-----------
Rows of a table (n, d) are vectors; a lag is a difference of positions, or of times in their unit.
At uneven times hardly any lag occurs twice, so results are declared or unknown. A shift rotates the
sine and cosine of a frequency. For sinusoids, one matrix T(k) therefore maps every vector to the
vector k positions later (Denk, 2019): PE(t + k) = T(k) PE(t). Inner products then depend only on
the lag. Their mean at each lag, relative to lag 0, is the `kernel`. Frequencies are radians per
position. On a grid, lags are displacements (dy, dx), and each axis has a T for one step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pefourier.construction.waves import numbers_look_random
from pefourier.encodings.encoding import (
    Encoding,
    Finding,
    as_encoding,
    axis_letters,
    finding,
    lattice_points,
    steps_ahead,
    unit_of,
    without_prefix,
)
from pefourier.geometry import keep_last
from pefourier.geometry.products import mean_products, toeplitz_residual
from pefourier.questions.result import Result
from pefourier.types import Bools, Counts, CsvTable, Fields, Floats, Table, frozen
from pefourier.writing.text import Verdict, number

EXACT = 1e-6  # largest residual that counts as rounding
FITTED = 2**11  # most positions to which a shift is fitted
LARGEST_SHIFT = FITTED // 2  # most dimensions for which a shift is fitted
SAMPLE = 2**10  # evenly spaced positions used to correlate distances


FALLS = {  # labels of rows
    "falls to half at lag": "half",
    "falls to a tenth at lag": "tenth",
    "changes its sign at lag": "zero",
}
OF_LAGS = {
    "one direction": Verdict(
        "The encoding is causal: keys after the query have no vector, so directions cannot be "
        "compared.{r.fall}",
    ),
    "distance only": Verdict(
        "A lag and its opposite have the same vector, so without a causal mask attention "
        "cannot tell before from after.{r.fall}",
        "Use a causal mask if order matters, or a bias that differs by direction, such as t5.",
    ),
    "direction told": Verdict(
        "A lag and its opposite have different vectors (asymmetry {r.asymmetry:2}), so "
        "attention can tell before from after.{r.fall}",
        title="asymmetric in the lag",
    ),
}


@frozen
class Relations(Result):
    """Relations of vectors to the distance and order of positions; None if undefined."""

    command = "relations"
    figure = "relations"
    quantity = "kernel (1 at lag 0)"
    verdicts = {
        "no lags": Verdict(
            "No lag occurs often enough between these points to compare their vectors.",
            "Use `pefourier check-faithful` to see which vectors are similar.",
        ),
        "zero codes": Verdict(
            "All vectors are zero and carry no information about position.",
            "Check the table or its source code.",
            title="zero vectors",
        ),
        "depends on position": Verdict(
            "Inner products depend on absolute positions, not only on the lag (Toeplitz residual "
            "{r.toeplitz_residual:2}; 0 would mean the lag alone).",
            "If a lag should look the same everywhere, use rope or sinusoidal.",
        ),
        "depends on lag alone": Verdict(
            "Inner products{r.encoding.inverse_keys:? of queries and keys} depend only on the "
            "lag between positions.{r.fall}",
        ),
        **OF_LAGS,
        "depends on place": Verdict(
            "Inner products depend on where two points are, not only on their displacement "
            "(Toeplitz residual {r.toeplitz_residual:2}; 0 would mean the displacement alone).",
            "If a displacement should look the same everywhere, use axial or axial-rope.",
        ),
        "depends on displacement alone": Verdict(
            "Inner products depend only on the displacement between points.",
        ),
    }
    shown = {
        "positions": "length",
        "dimensions": "dimension",
        "Toeplitz residual (0 = lag alone)": "toeplitz_residual",
        "inner products first rise at lag": "first_rise",
        **FALLS,
        "residual of one-step map T(1)": "shift_residual",
        "asymmetry (lag vs. opposite)": "asymmetry",
        "distance correlation": "distance_preservation",
    }

    length: int
    dimension: int
    shift_residual: float | list[float | None] | None  # of the best T(1); None if any T fits
    toeplitz_residual: float | None  # 0: inner products depend only on the lag
    kernel: Floats | None  # (K,) inner product at each lag, relative to lag 0
    lags: Floats | None  # (K,) in the unit of times; None for 0, 1, … positions
    first_rise: float | list[int | None] | None  # first lag at which the kernel rises
    half: float | list[int | None] | None  # first lag at which the kernel is at most this
    tenth: float | list[int | None] | None
    zero: float | list[int | None] | None
    asymmetry: float | None  # 0: opposite lags have equal vectors
    distance_preservation: float | None  # correlation of distances of vectors and of positions

    @property
    def verdict(self) -> str:
        """The property on which inner products, or biases, depend."""
        enc = self.encoding
        if not (enc.domain.has_lags or enc.measure.squared_length):
            return "no lags"
        if enc.domain.kind == "lag":
            if self.asymmetry is None:
                return "one direction"
            return "distance only" if self.asymmetry <= EXACT else "direction told"
        if self.kernel is None and enc.domain.has_lags:
            return "zero codes"
        return "depends on lag alone" if self.by_lag else "depends on position"

    @property
    def fall(self) -> str:
        """How the inner product falls with the lag, in a sentence."""
        return "" if self.kernel is None else f" The inner product {fall_in_words(self)}."

    @property
    def by_lag(self) -> bool:
        """Whether inner products depend only on the lag."""
        return self.toeplitz_residual is not None and self.toeplitz_residual <= EXACT

    @property
    def findings(self) -> list[Finding]:
        """Findings of the encoding, and whether the table looks random."""
        enc = self.encoding
        table = not enc.measure and enc.domain.kind == "position" and self.toeplitz_residual
        is_random = table and numbers_look_random(enc.table())
        return [*enc.findings, *([finding("random-codes")] if is_random else [])]

    def series(self) -> CsvTable:
        """Column names for CSV, and the inner product at each lag (dy×dx on grids)."""
        kernel = np.zeros(0) if self.kernel is None else self.kernel
        return ["lag", "inner_product"], rows_by_lag(kernel, self.lags)

    @property
    def kernel_lines(self) -> Any:
        """Inner products by lag, for the figure."""
        return kernel_curves(self.encoding, self.kernel)


@frozen
class GridRelations(Relations):
    """Relations of vectors of grid points to their displacements.

    `kernel` has the shape (2 N_1 - 1, …) with lag 0 in the middle; `shift_residual` and
    `first_rise` are lists with one number per axis.
    """

    on_grid = True

    grid: Counts  # points along each axis, in row-major order
    prefix: int  # rows before the grid that have no place

    @property
    def verdict(self) -> str:
        """The property on which inner products on a grid depend."""
        if self.kernel is None:
            return "zero codes"
        return "depends on displacement alone" if self.by_lag else "depends on place"


@frozen
class BiasRelations(Result):
    """How biases change with the lag, a number of positions from the query back to the key.

    On a grid, lags are displacements, and the numbers are lists with one lag per axis.
    """

    command = "relations"
    figure = "relations"
    quantity = "mean bias"
    verdicts = {
        **OF_LAGS,
        "biases": Verdict("Biases of displacements, which are added to attention logits."),
    }
    shown = {
        "positions": "length",
        "heads": "dimension",
        **FALLS,
        "asymmetry (lag vs. opposite)": "asymmetry",
    }

    length: int
    dimension: int
    by_lag: Floats  # mean bias over heads at each lag
    half: int | list[int | None] | None  # first lag at which exp(bias) is at most this
    tenth: int | list[int | None] | None
    zero: int | list[int | None] | None  # first lag at which the mean bias has another sign
    asymmetry: float | None  # 0: opposite lags have equal biases

    @property
    def verdict(self) -> str:
        """Whether biases tell a lag from its opposite."""
        if self.by_lag.ndim > 1:
            return "biases"
        if self.asymmetry is None:
            return "one direction"
        return "distance only" if self.asymmetry <= EXACT else "direction told"

    @property
    def findings(self) -> list[Finding]:
        """Findings of the encoding."""
        return list(self.encoding.findings)

    @property
    def fall(self) -> str:
        """How the weight of a key falls on a line, and where the bias ends, in a sentence."""
        return (
            f" Averaged over heads, the weight exp(bias) {fall_in_words(self)}; the mean bias is "
            f"{number(self.by_lag[-1], 3)} at the last lag, {len(self.by_lag) - 1}."
        )

    @property
    def kernel_lines(self) -> Any:
        """Mean biases by lag, for the figure."""
        return kernel_curves(self.encoding, self.by_lag)

    def series(self) -> CsvTable:
        """Column names for CSV, and the mean bias at each lag (dy×dx on grids)."""
        return ["lag", "bias"], rows_by_lag(self.by_lag)


def fall_in_words(r: Relations | BiasRelations) -> str:
    """Describe the lags of half and a tenth on a line, with a verb."""
    lags: dict[Any, str] = {r.half: "half", r.tenth: "a tenth"}
    falls = [f"to {name} at lag {number(lag)}" for lag, name in lags.items() if lag]
    return f"falls {' and '.join(falls)}" if falls else "stays above half of that at lag 0"


def rows_by_lag(values: Floats, lags: Floats | None = None) -> Iterable[list[Any]]:
    """Return a row for each lag, with its name and value."""
    names = lag_names(values) if lags is None else lags.tolist()
    return map(list, zip(names, values.ravel().tolist(), strict=True))


def lag_names(values: Floats) -> list[str]:
    """Return the name of each lag of an array: a number, or dy×dx around the middle of a grid.

    >>> lag_names(np.zeros(2)), lag_names(np.zeros((1, 3)))
    (['0', '1'], ['0×-1', '0×0', '0×1'])
    """
    middle = [n // 2 if values.ndim > 1 else 0 for n in values.shape]
    places = np.ndindex(values.shape)
    return ["×".join(str(i - m) for i, m in zip(at, middle, strict=True)) for at in places]


def relate(encoding: Encoding | ArrayLike) -> Relations | BiasRelations:
    """Measure relations between the vectors of positions, or of lags.

    Parameters
    ----------
    encoding : Encoding or np.ndarray, shape (n, d)
        An encoding, or a table with one row for each position.

    Notes
    -----
    Biases of lags are compared directly: see `BiasRelations`. Vectors of lags and nodes of a tree
    have no kernel here.

    Examples
    --------
    >>> from pefourier.encodings import load
    >>> relate(load("sinusoidal", length=512, d=64)).first_rise
    6
    >>> relate(load("alibi", length=9, d=4)).asymmetry
    0.0
    """
    source = as_encoding(encoding)
    enc = without_prefix(source)
    is_of_lags = enc.domain.kind == "lag"
    if enc.injection == "bias" and is_of_lags:
        return relate_biases(source, enc)
    k = kernel(enc)
    has_unit = enc.domain.kind == "time"
    sequence = has_unit or enc.domain.kind == "position"
    kind: partial[Relations] | partial[GridRelations] = partial(Relations)
    if not enc.domain.is_line:
        kind = partial(GridRelations, grid=enc.domain.sides, prefix=enc.domain.prefix)
    return kind(
        length=enc.tokens if is_of_lags else len(enc),
        dimension=enc.dim,
        shift_residual=shift_residual(enc) if sequence else None,
        toeplitz_residual=None
        if is_of_lags
        else 0.0
        if enc.inverse_keys
        else toeplitz_residual(enc),
        kernel=k,
        lags=in_units(enc, np.arange(len(k))) if has_unit and k is not None else None,
        first_rise=first_lags(enc, k, partial(rises, eps=enc.eps)),
        **fall_of(enc, k),
        zero=first_lags(enc, k, partial(np.greater_equal, -max(1e-12, enc.eps))),
        asymmetry=asymmetry(enc),
        distance_preservation=distance_preservation(enc) if sequence else None,
        encodings=(source,),
    )


def relate_biases(source: Encoding, enc: Encoding) -> BiasRelations:
    """Measure how the biases of lags fall; `enc` is the source without its prefix.

    >>> from pefourier.encodings import load
    >>> result = relate(load("alibi", length=9, d=4))
    >>> result.by_lag[:2], result.half, result.tenth
    (array([ 0.        , -0.08300781]), None, None)
    """
    sides, x, at_zero = enc.domain.sides, enc.domain.x, 0
    if is_window := len(sides) > 1:
        at_zero = int(np.ravel_multi_index([n // 2 for n in sides], sides))
    else:
        middle = len(x) // 2 if enc.domain.grid else -x[0]
        x = x[middle::-1]
        sides = (len(x),)
    back = enc.table(x)
    weights = kernel_of_biases(np.vstack([back[at_zero], back]))[1:].reshape(sides)
    means = back.mean(axis=1).reshape(sides)
    return BiasRelations(
        length=prod((n + 1) // 2 for n in sides) if is_window else len(x),
        dimension=enc.dim,
        by_lag=means,
        **fall_of(enc, weights),
        zero=first_lags(enc, means, other_sign),
        asymmetry=asymmetry(enc),
        encodings=(source,),
    )


def shift_residual(enc: Encoding) -> float | list[float | None] | None:
    """Norm of T(1) PE(t) - PE(t + 1) over that of PE(t + 1); 0 if inner products are declared.

    For a table, at most the first 2,048 positions are fitted. None if they are linearly independent
    (some T then fits any table), if d exceeds 1,024 (too slow), or for times at uneven steps. On a
    grid, the result has one number for a shift along each axis.
    """
    if not enc.domain.is_line:
        return [shift_along(enc, axis) for axis in range(len(enc.domain.sides))]
    if enc.measure.squared_length:
        return 0.0
    return shift_along(enc, 0) if enc.domain.has_lags else None


def shift_along(enc: Encoding, axis: int) -> float | None:
    """Relative residual of the best shift by a point along an axis, fitted to a corner of a grid.

    None if any shift fits. Vectors and targets are rescaled first, because LAPACK rounds very small
    and very large numbers differently.
    """
    sides = enc.domain.sides
    if enc.is_stationary and sides[axis] > 1:
        return 0.0
    side = max(2, int(FITTED ** (1 / len(sides))))
    corner = [np.arange(min(n, side)) for n in sides]
    if len(corner[axis]) < 2 or enc.dim > LARGEST_SHIFT:
        return None
    places = lattice_points(corner)
    starts = places[places[:, axis] < len(corner[axis]) - 1]
    ends = [starts, starts + (np.arange(len(sides)) == axis)]
    rows = [enc.domain.x[np.ravel_multi_index(tuple(end.T), sides)] for end in ends]
    tables = (enc.table(x) for x in rows)
    before, after = (table * unit_of(table) for table in tables)
    shift, _, rank, _ = np.linalg.lstsq(before, after)
    size = np.linalg.norm(after)
    if rank == len(before):
        return None
    return float(np.linalg.norm(before @ shift - after) / size) if size else 0.0


@keep_last
def kernel(enc: Encoding) -> Floats | None:
    r"""Mean inner product of vectors at each lag, relative to lag 0, shape (n,).

    On a grid, at each displacement: shape (2 N_1 - 1, …), with lag 0 in the middle.

    :math:`k(r)/k(0)` with :math:`k(r) = \frac{1}{n - r}\sum_t \mathrm{PE}(t)\cdot
    \mathrm{PE}(t + r)`, or :math:`\sum_j w_j \cos\omega_j r` as declared.
    """
    if enc.injection in ("key", "key-query") or not enc.domain.has_lags:
        return None
    if enc.domain.kind == "lag" and enc.domain.grid:
        return None  # displacements have no order
    if enc.domain.kind == "lag":
        return kernel_of_biases(enc.table(enc.domain.x[enc.domain.x <= 0])[::-1])
    sides = enc.domain.sides
    if len(sides) > 1 and enc.is_stationary:  # one half, and the other by symmetry
        half = enc.measure.kernel(steps_ahead(sides))
        whole = np.concatenate([half[::-1], [1.0], half])
        return whole.reshape([2 * n - 1 for n in sides])
    if len(sides) == 1 and enc.measure.squared_length:
        return enc.measure.kernel(np.arange(len(enc)))
    if enc.inverse_keys:  # scores of queries with the key at 0, where factors are 1
        table = enc.table()
        return np.asarray(table @ table[0] / (table[0] @ table[0]))
    means = mean_products(enc.table(), sides)
    size = means[tuple(n - 1 for n in sides)]
    means = means if len(sides) > 1 else means[len(enc) - 1 :]
    return means / size if size else None


def in_units(enc: Encoding, lag: Any) -> Any:
    """Convert lag numbers to lags, for times in their unit."""
    if lag is None or enc.domain.kind != "time":
        return lag
    return lag * enc.domain.spacing


def first_lags(enc: Encoding, k: Floats | None, holds: Callable[[Floats], Bools]) -> Any:
    """Return the first lag at which a condition holds; on a grid, along each axis."""
    if k is None:
        return None
    places = (np.flatnonzero(holds(line)).tolist() for line in kernel_lines(k))
    found = [next(iter(lags), None) for lags in places]
    return found if k.ndim > 1 else in_units(enc, found[0])


def fall_of(enc: Encoding, k: Floats | None) -> Fields:
    """Return the first lags at which a curve is at most half, and a tenth."""
    levels = {"half": 0.5, "tenth": 0.1}
    return {n: first_lags(enc, k, partial(np.greater_equal, x)) for n, x in levels.items()}


def other_sign(line: Floats) -> Bools:
    """Whether each number has another sign than those before it from lag 0; zeros have none.

    >>> other_sign(np.array([0.0, -1.0, 2.0])).tolist(), other_sign(np.zeros(1)).tolist()
    ([False, False, True], [False])
    """
    return np.asarray(line * np.sign(line[line != 0][:1]).sum() < 0)


def kernel_curves(enc: Encoding, k: Floats | None) -> dict[str, tuple[Floats, Floats]] | None:
    """Return lags and the kernel at these, by the name of the axis ("" for a single axis)."""
    if k is None:
        return None
    names = axis_letters(k.ndim) if k.ndim > 1 else [""]
    lines = zip(names, kernel_lines(k), strict=True)
    return {name: (in_units(enc, np.arange(len(line))), line) for name, line in lines}


def kernel_lines(k: Floats) -> list[Floats]:
    """Return the kernel along each axis of a grid, from lag 0 on; for one axis, the kernel.

    >>> [line.tolist() for line in kernel_lines(np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8]]))]
    [[4, 7], [4, 5]]
    """
    if k.ndim == 1:
        return [k]
    middle = [n // 2 for n in k.shape]
    places = [
        [slice(m, None) if a == b else m for b, m in enumerate(middle)] for a in range(k.ndim)
    ]
    return [k[tuple(place)] for place in places]


def kernel_of_biases(biases: Table) -> Floats:
    """Mean of exp(bias) over heads at each lag (n, d), relative to lag 0; infinite on overflow.

    >>> kernel_of_biases(np.array([[-1e9], [-2e9], [1e9]]))
    array([ 1.,  0., inf])
    """
    largest = biases.max(axis=1)
    means = np.exp(biases - largest[:, None]).mean(axis=1)
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(largest - largest[0]) * (means / means[0]))


def rises(kernel: Floats, eps: float = 0.0) -> Bools:
    """Whether the kernel rises beyond rounding at each lag.

    >>> rises(np.array([1.0, 0.5, 0.2, 0.3])).tolist()
    [False, False, False, True]
    """
    return np.append(False, kernel[1:] > kernel[:-1] + max(1e-12, eps))


def asymmetry(enc: Encoding) -> float | None:
    """Norm of the vectors of lags minus those of opposite lags, over twice the norm of all.

    Inner products of positions are symmetric, so the result is 0. None for causal lags, which have
    no opposites, for positions with a row of biases, and if keys have inverse factors.
    """
    if enc.domain.kind != "lag":
        return None if enc.injection == "bias" or enc.inverse_keys else 0.0
    if not enc.domain.grid and enc.domain.x[-1] != -enc.domain.x[0]:
        return None
    table = enc.table()  # in a window, displacement i from the end is opposite to i
    size = 2 * np.linalg.norm(table)
    return float(np.linalg.norm(table - table[::-1]) / size) if size else 0.0


def distance_preservation(enc: Encoding) -> float | None:
    """Correlation of distances of vectors and of positions over pairs (Zheng et al., 2021).

    At most 1,024 evenly spaced positions are used. None if distances are equal.
    """
    points = np.unique(np.linspace(0, len(enc) - 1, min(len(enc), SAMPLE)).astype(int))
    x = enc.domain.x[points]
    table = enc.float_table(x)
    places = enc.domain.places(x).reshape(len(x), -1).astype(float)
    # a common offset would drown the differences
    distances, between = map(distances_of_pairs, (table - table.mean(axis=0), places))
    if len(distances) < 2 or np.ptp(distances) <= 1e-7 * distances.max():
        return None
    return float(np.corrcoef(distances, between)[0, 1])


def distances_of_pairs(points: Floats) -> Floats:
    """Euclidean distances of all pairs of rows, each pair once.

    >>> distances_of_pairs(np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]])).round(3)
    array([5.   , 1.   , 4.243])
    """
    squared = (points**2).sum(axis=1)
    squared = np.maximum(squared[:, None] + squared - 2 * points @ points.T, 0.0)
    return np.asarray(np.sqrt(squared[np.triu_indices(len(points), 1)]))
