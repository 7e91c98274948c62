r"""Relations between the vectors of positions: inner products, shifts, asymmetry and distances.

Conventions
-----------
Rows of a table (n, d) are vectors; a lag is a difference of positions, or of times in their unit.
At uneven times hardly any lag occurs twice, so results are declared or unknown. A shift rotates the
sine and cosine of a frequency. For sinusoids, one matrix T(k) therefore maps every vector to the
vector k positions later (Denk, 2019): PE(t + k) = T(k) PE(t). Inner products then depend only on
the lag. Their mean at each lag, relative to lag 0, is the `kernel`. Frequencies are radians per
position. On a grid, lags are displacements (dy, dx), and each axis has a T for one step.

Biases have no inner products. Their weight at a lag is the factor exp(bias) that a logit's bias
puts on attention, as a mean over heads, relative to lag 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pefourier.encodings.encoding import (
    BLOCK,
    Encoding,
    Finding,
    as_encoding,
    axis_letters,
    finding,
    lattice_points,
    points_in_words,
    row_blocks,
    steps_ahead,
    unit_of,
    without_prefix,
)
from pefourier.errors import command_line
from pefourier.geometry import keep_last
from pefourier.geometry.products import mean_products, toeplitz_residual
from pefourier.geometry.waves import numbers_look_random
from pefourier.questions.result import Result
from pefourier.report.render import cell_of
from pefourier.types import Counts, Fields, Floats, Table, Values, frozen
from pefourier.writing.text import Verdict, join, number

EXACT = 1e-6  # largest residual that counts as rounding
MOST_LAGS = 2**16  # most lags of times at uneven steps
LAGS_A_WAVE = 16  # lags per shortest wavelength
FITTED = 2**11  # most positions to which a shift is fitted
LARGEST_SHIFT = FITTED // 2  # most dimensions for which a shift is fitted
SAMPLE = 2**10  # evenly spaced positions used to correlate distances
WITH_BASE = ("rope", "sinusoidal")  # for which `pefourier design` finds a base
LEVELS = {"half": 0.5, "tenth": 0.1, "zero": 0.0}  # of lag 0
FALLS = {  # labels of rows
    "falls to half at lag": "half",
    "falls to a tenth at lag": "tenth",
    "crosses zero at lag": "zero",
}


ASYMMETRIC = {  # verdicts on lags and their opposites
    "one direction": Verdict(
        "The encoding is causal: keys after the query have no vector, so directions cannot be "
        "compared.{r.fall}",
        "Run `{r.check_command}` to see which lags can be told apart.",
    ),
    "distance only": Verdict(
        "A lag and its opposite have the same vector, so without a causal mask attention "
        "cannot tell before from after.{r.fall}",
        "Use a causal mask if order matters, or a bias that differs by direction, such as t5.",
    ),
    "direction told": Verdict(
        "A lag and its opposite have different vectors (asymmetry {r.asymmetry:2}), so "
        "attention can tell before from after.{r.fall}",
        "Run `{r.check_command}` to see which lags can be told apart.",
        title="asymmetric in the lag",
    ),
}


@frozen
class Relations(Result):
    """Relations of vectors to the distance and order of positions; None if undefined."""

    command = "relations"
    figure = "relations"
    verdicts = {
        "no lags": Verdict(
            "No lag occurs often enough between these points to compare their vectors.",
            "Run `{r.check_command}` to see which vectors are closest.",
        ),
        "zero codes": Verdict(
            "All vectors are zero and carry no information about position.",
            "Check the table or its source code.",
            title="zero vectors",
        ),
        "depends on position": Verdict(
            "Inner products depend on absolute positions, not only on the lag (Toeplitz residual "
            "{r.toeplitz_residual:2}; 0 would mean the lag alone).{r.fall}",
            "If a lag should look the same everywhere, use rope or sinusoidal.",
        ),
        "depends on lag alone": Verdict(
            "{r.products} depend only on the lag between positions.{r.fall}",
            "{r.next_step}",
        ),
        **ASYMMETRIC,
        "depends on place": Verdict(
            "Inner products depend on where two points are, not only on their displacement "
            "(Toeplitz residual {r.toeplitz_residual:2}; 0 would mean the displacement alone). "
            "{r.fall}",
            "If a displacement should look the same everywhere, use axial or axial-rope.",
        ),
        "depends on displacement alone": Verdict(
            "Inner products depend only on the displacement between points.{r.fall}",
            "{r.next_step}",
        ),
    }
    shown = {
        "positions": "length",
        "dimensions": "dimension",
        **FALLS,
        "Toeplitz residual (0 = lag alone)": "toeplitz_residual",
        "inner products first rise at lag": "first_rise",
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
    half: float | list[int | None] | None  # first lag at which it is at most half of lag 0
    tenth: float | list[int | None] | None
    zero: float | list[int | None] | None
    asymmetry: float | None  # 0: opposite lags have equal vectors
    distance_preservation: float | None  # correlation of distances of vectors and of positions

    @property
    def verdict(self) -> str:
        """The property on which inner products, or biases, depend."""
        enc = self.encodings[0]
        if not (enc.domain.has_lags or enc.measure.squared_length):
            return "no lags"
        if enc.domain.kind == "lag":
            if self.asymmetry is None:
                return "one direction"
            return "distance only" if self.asymmetry <= EXACT else "direction told"
        if self.kernel is None:
            return "zero codes"
        return "depends on lag alone" if self.is_stationary else "depends on position"

    @property
    def products(self) -> str:
        """What depends on the lag, in words."""
        if self.encodings[0].inverse_keys:
            return "Inner products of queries and keys"
        return "Inner products"

    @property
    def fall(self) -> str:
        """How far inner products fall with the lag, in a sentence; empty without a kernel."""
        if self.kernel is None or self.kernel.size == 1:
            return ""
        subject = "They" if self.is_stationary else "Their means"
        lags = {"half": self.half, "a tenth": self.tenth, "zero": self.zero}
        return f" {subject} {fall_in_words('fall', lags) or 'stay above half of lag 0'}."

    @property
    def next_step(self) -> str:
        """A base whose inner products stay positive, or the question about reading positions."""
        enc = self.encodings[0]
        n, d, name = self.length, self.dimension, enc.name
        if (
            self.zero is not None
            and name in WITH_BASE
            and enc.params.get("scaling") in (None, "none")
        ):
            command = command_line("pefourier", "design", "--length", n, "--d", d, "--for", "bound")
            return (
                f"Run `{command}` for the smallest base whose inner products stay positive at "
                f"all {n} positions."
            )
        return (
            f"Run `{self.check_command}` to see whether a linear layer can read {self.points} back."
        )

    @property
    def points(self) -> str:
        """What the rows represent."""
        return points_in_words(self.encodings[0])

    @property
    def is_stationary(self) -> bool:
        """Whether inner products depend only on the lag."""
        return self.toeplitz_residual is not None and self.toeplitz_residual <= EXACT

    @property
    def findings(self) -> list[Finding]:
        """Findings of the encoding, and whether the table looks random."""
        enc = self.encodings[0]
        table = not enc.measure and enc.domain.kind == "position" and self.toeplitz_residual
        is_random = table and numbers_look_random(enc.table())
        return [*enc.findings, *([finding("random-codes")] if is_random else [])]

    def series(self) -> tuple[list[str], Iterator[list[Any]]]:
        """Column names for CSV, and the inner product at each lag (dy×dx on grids)."""
        kernel = np.zeros(0) if self.kernel is None else self.kernel
        lags = lag_names(kernel) if self.lags is None else self.lags
        return ["lag", "inner_product"], ([*row] for row in zip(lags, kernel.ravel(), strict=True))

    @property
    def kernel_lines(self) -> Any:
        """Inner products by lag, for the figure."""
        return kernel_curves(self.encodings[0], self.kernel)


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
        return "depends on displacement alone" if self.is_stationary else "depends on place"


@frozen
class BiasRelations(Result):
    """How biases fall with the lag; lags are numbers of positions from the query back to the key.

    On a grid of displacements, `half`, `tenth` and `zero` have one lag per axis.
    """

    command = "relations"
    figure = "relations"
    verdicts = {
        **ASYMMETRIC,
        "zero codes": Verdict(
            "All biases are zero and carry no information about position.",
            "Check the table or its source code.",
            title="zero biases",
        ),
        "biases": Verdict(
            "Biases of displacements, added to attention logits.{r.fall}",
            "Run `{r.check_command}` to see which displacements can be told apart.",
        ),
    }
    shown = {
        "positions": "length",
        "heads": "dimension",
        **FALLS,
        "constant from lag": "constant_from",
        "asymmetry (lag vs. opposite)": "asymmetry",
    }
    listed = {"samples": {"lag": "lag", "mean bias": "bias", "weight exp(bias)": "weight"}}

    length: int
    dimension: int
    by_lag: Floats  # mean bias over heads at each lag; on a grid at each displacement
    half: int | list[int | None] | None  # first lag whose weight is at most half of that at lag 0
    tenth: int | list[int | None] | None
    zero: int | list[int | None] | None  # first lag at which the mean bias changes its sign
    constant_from: int | None  # first lag of the last stretch of equal biases
    asymmetry: float | None  # 0: opposite lags have equal biases

    @property
    def verdict(self) -> str:
        """Whether biases tell a lag from its opposite."""
        if not np.any(self.by_lag):
            return "zero codes"
        if self.encodings[0].domain.grid:
            return "biases"
        if self.asymmetry is None:
            return "one direction"
        return "distance only" if self.asymmetry <= EXACT else "direction told"

    @property
    def findings(self) -> list[Finding]:
        """Findings of the encoding."""
        return list(self.encodings[0].findings)

    @property
    def samples(self) -> list[Fields]:
        """The mean bias and weight at lags 0, 1, 2, 4, … and the last lag; on a line."""
        if self.by_lag.ndim > 1:
            return []
        end = len(self.by_lag) - 1
        lags = sorted({0, end, *(2**k for k in range(end.bit_length()))} - {end + 1})
        biases = biases_back(without_prefix(self.encodings[0]))
        weights = kernel_of_biases(biases)
        return [{"lag": k, "bias": self.by_lag[k], "weight": weights[k]} for k in lags]

    @property
    def last(self) -> float | None:
        """Mean bias at the last lag; None on a grid."""
        return None if self.by_lag.ndim > 1 else float(self.by_lag[-1])

    @property
    def fall(self) -> str:
        """How fast the weight of a key falls, and where the bias ends, in sentences."""
        fall = fall_in_words("falls", {"half": self.half, "a tenth": self.tenth})
        words = f" Averaged over heads, the weight exp(bias) {fall or 'stays above half'}."
        if self.last is None:
            return words
        if self.zero is not None:
            words += f" The mean bias changes its sign at lag {self.zero}."
        end = f"The mean bias ends at {number(self.last, 3)}, at lag {len(self.by_lag) - 1}"
        if self.constant_from is not None:
            end += f", and is constant from lag {self.constant_from}"
        return f"{words} {end}."

    @property
    def kernel_lines(self) -> dict[str, tuple[Floats, Floats]]:
        """Mean biases by lag, for the figure."""
        enc = without_prefix(self.encodings[0])
        if enc.domain.grid:
            return dict(kernel_curves(enc, self.by_lag) or {})
        lines, means = {}, enc.table().mean(axis=1)
        for name, is_side in (("", enc.domain.x <= 0), (" after the query", enc.domain.x >= 0)):
            lags, order = np.abs(enc.domain.x[is_side]), np.abs(enc.domain.x[is_side]).argsort()
            lines[name] = lags[order].astype(float), means[is_side][order]
        return lines if self.asymmetry and self.asymmetry > EXACT else {"": lines[""]}

    def series(self) -> tuple[list[str], Iterator[list[Any]]]:
        """Column names for CSV, and biases by lag; keys after the query have negative lags."""
        enc = without_prefix(self.encodings[0])
        table = np.asarray(enc.table(), dtype=float)
        names = [str(-x) for x in enc.domain.x.tolist()]
        if enc.domain.grid:
            names = lag_names(self.by_lag)
        else:
            names, table = names[::-1], table[::-1]
        rows = zip(names, table.mean(axis=1).tolist(), table.tolist(), strict=True)
        heads = [f"head_{k}" for k in range(self.dimension)]
        return ["lag", "bias", *heads], ([name, mean, *row] for name, mean, row in rows)


def lag_names(values: Floats) -> list[str]:
    """Return the name of each lag of an array: a number, or dy×dx around the middle of a grid.

    >>> lag_names(np.zeros(2)), lag_names(np.zeros((1, 3)))
    (['0', '1'], ['0×-1', '0×0', '0×1'])
    """
    middle = [n // 2 if values.ndim > 1 else 0 for n in values.shape]
    return [
        "×".join(str(i - m) for i, m in zip(index, middle, strict=True))
        for index in np.ndindex(values.shape)
    ]


def fall_in_words(verb: str, lags: Values) -> str:
    """Say at which lags a curve reaches each level; empty if it reaches none.

    >>> fall_in_words("fall", {"half": 2, "zero": None}), fall_in_words("fall", {"half": [None, 3]})
    ('fall to half at lag 2', 'fall to half at lag y –, x 3')
    """
    reached = {k: v for k, v in lags.items() if v is not None and set(np.atleast_1d(v)) != {None}}
    words = [f"to {level} at lag {number(cell_of(lag))}" for level, lag in reached.items()]
    return f"{verb} {join(words)}" if words else ""


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
    if enc.injection == "bias" and enc.domain.kind == "lag":
        return relate_biases(source, enc)
    k = kernel(enc)
    has_unit = enc.domain.kind == "time"
    sequence = has_unit or enc.domain.kind == "position"
    kind: partial[Relations] | partial[GridRelations] = partial(Relations)
    if len(enc.domain.sides) > 1:
        kind = partial(GridRelations, grid=enc.domain.sides, prefix=enc.domain.prefix)
    return kind(
        length=len(enc),
        dimension=enc.dim,
        shift_residual=shift_residual(enc) if sequence else None,
        toeplitz_residual=residual_of(enc),
        kernel=k,
        lags=in_units(enc, np.arange(len(k))) if has_unit and k is not None else None,
        first_rise=of_lines(enc, k, first_rise),
        **{name: of_lines(enc, k, partial(first_low, level)) for name, level in LEVELS.items()},
        asymmetry=asymmetry(enc),
        distance_preservation=distance_preservation(enc) if sequence else None,
        encodings=(source,),
    )


def residual_of(enc: Encoding) -> float | None:
    """Return the Toeplitz residual of positions; vectors of lags have none."""
    if enc.inverse_keys:
        return 0.0
    return None if enc.domain.kind == "lag" else toeplitz_residual(enc)


def biases_back(enc: Encoding) -> Floats:
    """Return the biases (n, heads) of keys at lags 0, 1, … back from the query."""
    return np.asarray(enc.table(enc.domain.x[enc.domain.x <= 0]), dtype=float)[::-1]


def relate_biases(source: Encoding, enc: Encoding) -> BiasRelations:
    """Measure how the biases of lags fall; `enc` is the source without prefix.

    >>> from pefourier.encodings import load
    >>> relate(load("alibi", length=9, d=4)).by_lag[:3]
    array([ 0.        , -0.08300781, -0.16601562])
    """
    table, sides = np.asarray(enc.table(), dtype=float), enc.domain.sides
    before, points = table, [(side + 1) // 2 for side in sides]
    if not enc.domain.grid:
        before = biases_back(enc)
        sides, points = (len(before),), [len(before)]
    means = before.mean(axis=1).reshape(sides)
    middle = 0
    if len(sides) > 1:
        middle = int(np.ravel_multi_index([n // 2 for n in sides], sides))
    weights = kernel_of_biases(np.vstack([before[[middle]], before]))[1:].reshape(sides)
    equal = np.flatnonzero((before != before[-1:]).any(axis=1))
    constant = int(equal[-1]) + 1 if len(equal) else 0
    falls: Fields = {
        name: of_lines(enc, weights, partial(first_low, LEVELS[name])) for name in ("half", "tenth")
    }
    return BiasRelations(
        length=prod(points),
        dimension=enc.dim,
        by_lag=means,
        **falls,
        zero=of_lines(enc, means, first_change_of_sign),
        constant_from=constant if not enc.domain.grid and constant < len(before) - 1 else None,
        asymmetry=asymmetry(enc),
        encodings=(source,),
    )


def shift_residual(enc: Encoding, k: int = 1) -> float | list[float | None] | None:
    """Norm of T(k) PE(t) - PE(t + k) over that of PE(t + k); 0 if inner products are declared.

    For a table, at most the first 2,048 positions are fitted. None if they are linearly independent
    (some T then fits any table), if d exceeds 1,024 (too slow), or for times at uneven steps. On a
    grid, the result has one number for a shift along each axis.
    """
    if len(enc.domain.sides) > 1:
        return [shift_along(enc, axis, k) for axis in range(len(enc.domain.sides))]
    if enc.measure.squared_length:
        return 0.0
    return shift_along(enc, 0, k) if enc.domain.has_lags else None


def shift_along(enc: Encoding, axis: int, k: int = 1) -> float | None:
    """Relative residual of the best shift by k points along an axis, fitted to a corner of a grid.

    None if any shift fits. Vectors and targets are rescaled first, because LAPACK rounds very small
    and very large numbers differently.
    """
    sides = enc.domain.sides
    if enc.is_stationary and k < sides[axis]:
        return 0.0
    side = max(2, int(FITTED ** (1 / len(sides))))
    corner = [np.arange(min(n, side)) for n in sides]
    if not k < len(corner[axis]) or enc.dim > LARGEST_SHIFT:
        return None
    places = lattice_points(corner)
    starts = places[places[:, axis] < len(corner[axis]) - k]
    ends = [starts, starts + k * (np.arange(len(sides)) == axis)]
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
    r"""Mean inner product of vectors at each lag, relative to lag 0, shape (n,); see `lag_axis`.

    On a grid, at each displacement: shape (2 N_1 - 1, …), with lag 0 in the middle.

    :math:`k(r)/k(0)` with :math:`k(r) = \frac{1}{n - r}\sum_t \mathrm{PE}(t)\cdot
    \mathrm{PE}(t + r)`, or :math:`\sum_j w_j \cos\omega_j r` as declared.
    """
    if enc.injection in ("key", "key-query") or not (
        enc.domain.has_lags or enc.measure.squared_length
    ):
        return None
    if enc.domain.kind == "lag" and enc.domain.grid:
        return None  # displacements have no order
    if enc.domain.kind == "lag":
        return kernel_of_biases(biases_back(enc))
    sides = enc.domain.sides
    if len(sides) > 1 and enc.is_stationary:  # one half, and the other by symmetry
        ahead, m = steps_ahead(sides), len(enc.measure)
        blocks = (enc.measure.kernel(ahead[rows]) for rows in row_blocks(len(ahead), BLOCK, m))
        half = np.concatenate([np.zeros(0), *blocks])
        whole = np.concatenate([half[::-1], [1.0], half])
        return np.asarray(whole.reshape([2 * n - 1 for n in sides]))
    if len(sides) == 1 and enc.measure.squared_length:
        count, finer = lag_axis(enc)
        parts = (np.arange(b.start, b.stop) for b in row_blocks(count, BLOCK, len(enc.measure)))
        lags = (part if finer == 1 else part / finer for part in parts)
        return np.concatenate([enc.measure.kernel(part) for part in lags])
    if enc.inverse_keys:  # scores of queries with the key at 0, where factors are 1
        table = enc.table()
        return np.asarray(table @ table[0] / (table[0] @ table[0]))
    means = mean_products(enc.table(), sides)
    size = means[tuple(n - 1 for n in sides)]
    means = means if len(sides) > 1 else means[len(enc) - 1 :]
    return means / size if size else None


def lag_axis(enc: Encoding) -> tuple[int, int]:
    """Number of lags at which a kernel is computed, and number of lags per step between points.

    At even steps, one lag per step. At uneven steps, enough lags to show the shortest declared
    wavelength over the span of the times, limited to the first 65,536.

    >>> from pefourier.encodings import load
    >>> [lag_axis(load("mtan-fixed", d=4, times=[0.0, t, 2.0])) for t in (1.0, 1.5)]
    [(3, 1), (125, 62)]
    """
    if enc.domain.has_lags or not enc.measure:
        return len(enc), 1
    fastest = np.abs(enc.measure.frequencies).max()
    finer = max(1, int(np.ceil(fastest * LAGS_A_WAVE / (2 * np.pi))))
    return min((len(enc) - 1) * finer + 1, MOST_LAGS), finer


def in_units(enc: Encoding, lag: Any) -> Any:
    """Convert lag numbers to lags, for times in their unit."""
    if lag is None or enc.domain.kind != "time":
        return lag
    return lag * enc.domain.spacing / lag_axis(enc)[1]


def of_lines(enc: Encoding, k: Floats | None, first: Callable[..., int | None]) -> Any:
    """Return the lag that a function finds in the kernel; on a grid, along each axis."""
    if k is None:
        return None
    lags = [first(line, enc.eps) for line in kernel_lines(k)]
    return lags if k.ndim > 1 else in_units(enc, lags[0])


def kernel_curves(enc: Encoding, k: Floats | None) -> dict[str, tuple[Floats, Floats]] | None:
    """Return lags and the kernel at these, by the axis in words ("" for a single axis)."""
    if k is None:
        return None
    names = [f" along {axis}" for axis in axis_letters(k.ndim)] if k.ndim > 1 else [""]
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


def first_rise(kernel: Floats, eps: float = 0.0) -> int | None:
    """First lag at which the kernel rises beyond rounding; None if it never rises.

    >>> first_rise(np.array([1.0, 0.5, 0.2, 0.3]))
    3
    """
    rises = np.flatnonzero(kernel[1:] > kernel[:-1] + max(1e-12, eps))
    return int(rises[0]) + 1 if len(rises) else None


def first_low(level: float, kernel: Floats, eps: float = 0.0) -> int | None:
    """First lag at which the kernel is at most `level`, up to rounding; None if it stays above.

    >>> first_low(0.5, np.array([1.0, 0.6, 0.2, 0.7]))
    2
    """
    low = np.flatnonzero(kernel[1:] <= level + max(1e-12, eps))
    return int(low[0]) + 1 if len(low) else None


def first_change_of_sign(biases: Floats, eps: float = 0.0) -> int | None:
    """First lag at which biases have another sign than those before; None if none has.

    >>> first_change_of_sign(np.array([0.0, -1.0, -2.0, 0.0, 1.0]))
    4
    """
    sizes = np.abs(biases)
    signs = np.where(sizes <= max(1e-12, eps) * sizes.max(), 0.0, np.sign(biases))
    known = np.flatnonzero(signs)
    changed = known[signs[known] != signs[known[:1]]]
    return int(changed[0]) if len(changed) else None


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
    table = np.asarray(enc.table(x), dtype=float)
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
