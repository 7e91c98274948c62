r"""Resizing of a table of positions to a different image size or text length.

Conventions
-----------
A table has one row for each point of a lattice, after rows without a place, which are kept. It is
resized by the methods in use (`geometry.interpolation`), in float64. Neighbours are points one step
apart along an axis; their similarity is the mean cosine of their vectors. When tables of two sizes
are compared, frequencies are in cycles per side, so a preserved frequency keeps its number.
Densities are those of `spectrum` without smoothing, over the lattice of the points of the table. If
a sequence declares its inner products, closed forms describe it without its table.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from pefourier.encodings.encoding import (
    Encoding,
    Finding,
    axis_letters,
    finding,
    from_table,
    half_plane,
    lattice,
    lattice_points,
    point_of,
    positions,
    row_blocks,
    without_prefix,
)
from pefourier.encodings.grids import (
    BIAS_CODES,
    MAX_HEADS,
    as_stored,
    grid_options,
    on_grid,
    size_of,
    usual_grid,
)
from pefourier.encodings.loader import Source, load
from pefourier.encodings.sources.huggingface import type_row
from pefourier.errors import NUMBERS, PefourierError, check_count, check_size, shown, unknown
from pefourier.geometry.closest import closest_pair
from pefourier.geometry.interpolation import METHODS, first_of_crop, resize_lattice, why_not
from pefourier.geometry.precision import NUMBERS_AT_ONCE
from pefourier.geometry.products import better_reading
from pefourier.questions.result import Result, csv_table
from pefourier.questions.spectral_density import estimate_spectrum, sampled_density
from pefourier.types import Array, Counts, CsvTable, Fields, Floats, Ints, Strings, frozen, hidden
from pefourier.writing.page import fields_of, labelled_fields
from pefourier.writing.text import Verdict, join, printable, read_sides

SUMS_EPS = 2.0**-46  # relative error of sums of a few rows
DEFAULT = "bicubic"
FEW_POINTS = 1024  # up to which the closest two vectors are found at once
VERDICTS = ("not distinct", "now distinct"), ("no longer distinct", "still distinct")
RECOMPUTED = "anew"  # computed by the formula, as models do at every size, not by a method


@frozen
class TableWaves:
    """Distances of a table on a lattice, and its frequencies."""

    nearest: float | None  # smallest distance of two vectors over the RMS norm; None for one point
    neighbours: list[float]  # mean cosine of vectors one step apart along each axis
    cycles: float  # mean frequency in cycles per side (Euclidean norm over the axes)
    constant: float  # share of the energy that is constant over all points
    density: Array  # (K_1, …) over the half plane, sums to one


@frozen
class Picture:
    """Vectors of a table on a lattice, with `TableWaves` that are computed on first access."""

    name: str = hidden()  # before or after
    grid: Counts
    norm: float  # RMS norm of the vectors
    distinct: int  # number of distinct vectors
    equal: tuple[int, int] | None = hidden()  # the first two equal rows
    points_of: Encoding = hidden(compare=False)  # the vectors on their lattice

    @cached_property
    def waves(self) -> TableWaves:
        """Frequencies of the table: by closed forms for sequences, or by the FFT of its columns."""
        enc, sides = self.points_of, self.grid
        if enc.is_stationary:
            kernel = enc.measure.kernel(np.arange(len(enc)))
            neighbours = [float(kernel[1:2].sum()) if len(enc) > 1 else np.nan]
            density = sampled_density(kernel)
        else:
            raw = estimate_spectrum(enc, sigma=0.0).raw
            density = raw.reshape(-1, *map(len, half_plane(sides)))[0]
            table = enc.float_table()
            neighbours = similarities(neighbour_products(table, sides))
        waves = [omega * n / (2 * np.pi) for omega, n in zip(half_plane(sides), sides, strict=True)]
        cycles = np.linalg.norm(lattice_points(waves), axis=1)
        return TableWaves(
            nearest=self.nearest,
            neighbours=neighbours,
            cycles=float(cycles @ density.ravel()),
            constant=float(density.flat[0]),
            density=density,
        )

    @cached_property
    def nearest(self) -> float | None:
        """The smallest distance of two vectors, relative to their RMS norm."""
        closest = closest_pair(self.points_of)
        return closest.distance / self.norm if self.norm and closest.pair else None

    def __getstate__(self) -> Fields:
        """Return the state to pickle, with the waves in place of the vectors."""
        return {**vars(self), "waves": self.waves, "points_of": None}

    @property
    def collision(self) -> str:
        """Description of two points that share a vector."""
        ends = (point_of(map(int, np.unravel_index(row, self.grid))) for row in self.equal or ())
        return f"for example, those of {join(ends)} are equal"

    @property
    def nearest_of_few(self) -> float | None:
        """The smallest distance, if its search is quick."""
        return self.nearest if self.points <= FEW_POINTS else None

    @property
    def points(self) -> int:
        """Number of points of the lattice."""
        return math.prod(self.grid)

    def along(self, axis: int) -> Array:
        """Energy at 0, 1, 2, … cycles per side along an axis, in both directions."""
        density = self.waves.density
        cycles = np.indices(density.shape)[axis].ravel()
        folded = np.minimum(cycles, self.grid[axis] - cycles)
        return np.bincount(folded, density.ravel())


@frozen
class MethodResult:
    """Result of resizing a table by one method."""

    method: str
    norm_ratio: float  # RMS norm of the new vectors over that of the old
    neighbours: list[float]
    largest_difference: float  # from the chosen method, over all numbers


@frozen
class Unseen:
    """Pairs of a formula that reach angles on the new lattice not seen on the old."""

    axis: str
    pairs: int
    unseen: int
    which: list[int]  # among the pairs of the axis, from 0 in the order of the formula


LIBRARY_METHOD = (  # action of most verdicts
    "{r.unsure:?Use the method of the library that runs the model (timm: antialias, for biases "
    "geometric; transformers: mostly bicubic).}"
)


@frozen
class Resizing(Result):
    """A table resized to a new lattice, with a comparison of methods."""

    command = "resize"
    figure = "resizing"
    verdicts = {
        "all zero": Verdict(
            "All vectors are zero, and stay zero.",
            "Check the table or its source code.",
        ),
        "still distinct": Verdict(
            "All {r.before.points:,} vectors are distinct, and all {r.after.points:,} after "
            "{r.step}; their RMS norm is {r.after.norm:3} (before: {r.before.norm:3}).",
            LIBRARY_METHOD,
        ),
        "no longer distinct": Verdict(
            "After {r.step} only {r.after.distinct:,} of {r.after.points:,} vectors are distinct "
            "({r.after.collision}); before, all were.",
            LIBRARY_METHOD,
        ),
        "now distinct": Verdict(
            "Only {r.before.distinct:,} of {r.before.points:,} vectors are distinct before "
            "resizing ({r.before.collision}); after {r.step} all {r.after.points:,} are.",
            LIBRARY_METHOD,
        ),
        "not distinct": Verdict(
            "Only {r.before.distinct:,} of {r.before.points:,} vectors are distinct before "
            "resizing ({r.before.collision}), and {r.after.distinct:,} of {r.after.points:,} after "
            "{r.step} ({r.after.collision}).",
            LIBRARY_METHOD,
        ),
        "computed anew": Verdict(
            "The model computes these vectors by a formula at every size: at the new one "
            "{r.after.distinct:,} of {r.after.points:,} are distinct.{r.unchanged_in_words}",
            "Give the model the new size; only embedding tables are interpolated{r.beside}.",
            title="recomputed",
        ),
    }
    shown = {
        "from": "old",
        "to": "new",
        "rows before the grid": "prefix",
        "method": "method",
        "written to": "out",
    }
    listed = {
        "states": {
            "table": "name",
            "grid": "grid",
            "RMS norm": "norm",
            "distinct vectors": "distinct",
            "smallest distance / RMS norm": "waves.nearest",
            "cosine between neighbours": "waves.neighbours",
            "mean frequency (cycles per side)": "waves.cycles",
            "energy at frequency 0": "waves.constant",
        },
        "methods": {
            "method": "method",
            "RMS norm, new / old": "norm_ratio",
            "cosine between neighbours": "neighbours",
            "difference": "largest_difference",
        },
        "unseen": {"axis": "axis", "pairs": "pairs", "pairs at unseen angles": "unseen"},
    }
    short = {
        "shown": (
            "from",
            "to",
            "method",
            "written to",
        ),
        "states": {
            "table": "name",
            "RMS norm": "norm",
            "distinct vectors": "distinct",
            "smallest distance / RMS norm": "nearest_of_few",
        },
        "unseen": listed["unseen"],
    }

    old: Counts = field(metadata={"told": "from"})
    new: Counts = field(metadata={"told": "to"})
    prefix: int
    method: str
    make_table: Callable[[], Array] = hidden(compare=False)
    make_methods: Callable[[], list[MethodResult]] = hidden(compare=False)
    before: Picture = hidden()
    after: Picture = hidden()
    unseen: list[Unseen]  # by axis; empty if frequencies are not declared
    unchanged: int | None  # rows of a sequence's formula that keep their values
    library: str | None = None  # library that resizes tables of the model by this method
    crop: Counts | None = None  # the first point of a crop
    out: str | None = None  # the file that the table was written to

    @cached_property
    def table(self) -> Array:
        """The new table (prefix + n, d), in the order of the weights."""
        return as_stored(self.encoding, self.make_table())

    @cached_property
    def methods(self) -> list[MethodResult]:
        """The results of all methods; empty if the table was recomputed."""
        return self.make_methods()

    def extra_fields(self) -> Fields:
        """Return the facts that the default text does not need."""
        before, after = ({**fields_of(state), **fields_of(state.waves)} for state in self.states)
        return {"before": before, "after": after, "methods": self.methods}

    def __getstate__(self) -> Fields:
        """Return the state to pickle, with results in place of the closures that make them."""
        made = {"table": self.table, "methods": self.methods}
        return {**super().__getstate__(), **made, "make_table": None, "make_methods": None}

    @property
    def unchanged_in_words(self) -> str:
        """A sentence on how many common rows keep their values."""
        common = min(self.before.points, self.after.points)
        if self.unchanged in (None, common):
            return "" if self.unchanged is None else f" The first {common:,} rows are unchanged."
        return (
            f" {common - self.unchanged:,} of the first {common:,} rows change, because the "
            "formula depends on the length."
        )

    @property
    def beside(self) -> str:
        """Words on a learned table that the model adds beside a rotation."""
        sides = self.encoding.params.get("table_beside", ())
        return f", such as its own of {size_of(sides)} points" if sides else ""

    @property
    def step(self) -> str:
        """Description of the resizing, and the library that uses it."""
        step = f"a crop from {point_of(self.crop)}" if self.crop else f"{self.method} interpolation"
        return step + (f" as in {self.library}" if self.library else "")

    @property
    def unsure(self) -> bool:
        """Whether the model may use a different method."""
        return len(self.old) > 1 and not self.library

    @property
    def verdict(self) -> str:
        """Whether vectors stay distinct, are recomputed, or are all zero."""
        if not self.before.norm:
            return "all zero"
        if self.method == RECOMPUTED:
            return "computed anew"
        distinct = [state.distinct == state.points for state in self.states]
        return VERDICTS[distinct[0]][distinct[1]]

    @property
    def states(self) -> list[Picture]:
        """The table before and after."""
        return [self.before, self.after]

    @property
    def findings(self) -> list[Finding]:
        """Findings of the table, and pairs of a formula that reach unseen angles."""
        notes = [
            *self.encoding.findings,
            *(
                finding("unseen-phases", "grid", count=a.unseen, total=a.pairs, axis=a.axis)
                for a in self.unseen
                if a.unseen
            ),
        ]
        kind = self.encoding.params.get("model_type")
        if kind and (ways := ways_of(self.encoding)):
            sources = join(f"{library} by {join(methods, 'or')}" for library, *methods in ways)
            notes.append(finding("resized-by", kind=printable(kind), ways=sources))
        return notes

    def series(self) -> CsvTable:
        """Column names for CSV, and one row for each method."""
        return csv_table(self.methods, labelled_fields(MethodResult))


def resize(encoding: Source, to: Ints | str, method: str = "", **params: Any) -> Resizing:
    """Resize a table for another image size or text length, and compare all methods.

    Parameters
    ----------
    encoding, **params
        As in `pefourier.spectrum`; ``grid`` and ``prefix`` are those of the table.
    to : sequence of int, or str
        Sides of the new grid, the slowest axis first, such as (24, 24) or "24x24"; for biases,
        sides of the new window, which has 2 H - 1 by 2 W - 1 displacements.
    method : str
        bicubic, bilinear, align-corners, antialias, fourier, dinov2, geometric or center-crop. By
        default the method of the model if known, otherwise bicubic; rotations and the biases of
        Swin V2 are recomputed.

    Examples
    --------
    >>> resize("axial", (20, 24), grid=(14, 14), d=16).table.shape
    (480, 16)
    """
    to = read_sides(to) if isinstance(to, str) else tuple(to)
    grid = params.get("grid") or ()
    sides = read_sides(grid) if isinstance(grid, str) else tuple(grid)
    enc = load(encoding, **params)
    enc = enc if sides else on_own_grid(enc, len(to))
    if enc.domain.kind == "lag" and sides == enc.domain.grid:
        raise PefourierError(
            f"{shown(enc.label)} has the biases of a window; pass the sides of windows, not of "
            "displacements, as --from and --to"
        )
    formula = None
    has_sides, is_drawn = len(enc.domain.sides) == len(to), enc.untrained and not enc.measure
    if enc.rebuild_at is not None and has_sides:
        formula = enc.rebuild_at(to)
    elif isinstance(encoding, str) and enc.origin == "formula" and has_sides and not is_drawn:
        elsewhere = re.sub(r"(?<=[:,])grid=[^,]*", "", encoding)  # it would take precedence
        formula = load(elsewhere, **params | {"grid": to})
    by_formula = enc.injection == "rotate" or enc.rebuild_at is not None
    computed = formula if by_formula and not method else None
    old, new, table_sides = check_new_sides(enc, to)
    prefix, shape = enc.domain.prefix, enc.domain.sides
    make_methods: Callable[[], list[MethodResult]] = list
    libraries = methods_of(enc, table_sides)
    if computed is not None:
        method, libraries = RECOMPUTED, {}
        make_table = partial(rows_behind, enc, computed)
        states = picture("before", enc, shape), picture("after", computed, table_sides)
    else:
        method = method or next(iter(libraries.values()), DEFAULT)
        if method not in METHODS:
            raise unknown("method", method, METHODS)
        if reason := why_not(method, shape, table_sides):
            sizes = f"{size_of(shape)} to {size_of(table_sides)}"
            raise PefourierError(f"--method {method} {reason}; got {sizes}")
        front, rows = np.split(enc.float_table(), [prefix])
        chosen = resize_lattice(rows, shape, table_sides, method)
        make_table = partial(np.concatenate, [front, chosen])
        states = picture("before", enc, shape, rows), picture("after", enc, table_sides, chosen)
        usable = methods_on(enc, table_sides, method)
        make_methods = partial(compare_methods, usable, rows, chosen, states)
    return Resizing(
        old=old,
        new=new,
        prefix=prefix,
        method=method,
        make_table=make_table,
        before=states[0],
        after=states[1],
        make_methods=make_methods,
        unseen=[] if formula is None else unseen_phases(enc, formula),
        unchanged=unchanged_rows(enc, computed),
        library=join([name for name, own in libraries.items() if own == method] or [""]) or None,
        crop=first_of_crop(method, shape, table_sides),
        encodings=(enc if computed is not None else with_doubts(enc),),
    )


def with_doubts(enc: Encoding) -> Encoding:
    """Add findings if the rows of a table do not fit the points of its grid."""
    points, sides = without_prefix(enc), enc.domain.sides
    is_read = enc.domain.kind == "position" and enc.origin != "formula" and len(sides) > 1
    if not is_read or better_reading(table := points.table(), sides) is None:
        return enc
    from pefourier.construction import grid_rules

    closest, prefix = closest_pair(points), enc.domain.prefix
    facts = grid_rules.GridFacts(table, sides, enc.eps, closest, prefix=prefix)
    rules = grid_rules.order_of_rows, grid_rules.neighbours_of_another_grid
    return replace(enc, findings=(*(f for rule in rules for f in rule(facts)), *enc.findings))


def methods_on(enc: Encoding, new: Ints, chosen: str) -> list[str]:
    """Names of the methods to compare: those for this kind of table, and the chosen method."""
    sides, names = enc.domain.sides, [*METHODS[:4]]
    if len(sides) > 1:
        names += ["geometric" if enc.domain.kind == "lag" else "dinov2", "center-crop"]
    usable = [name for name in names if not why_not(name, sides, new)]
    return list(dict.fromkeys([*usable, chosen]))


def rows_behind(encoding: Encoding, computed: Encoding) -> Array:
    """Vectors of a formula on a new grid, after the rows of the old table without a place."""
    prefix = encoding.domain.prefix
    front = encoding.table(encoding.domain.x[:prefix])
    return np.concatenate([front, computed.table()[prefix:]], dtype=float)


def unchanged_rows(old: Encoding, new: Encoding | None) -> int | None:
    """Number of rows of a sequence's formula that are bitwise equal at both lengths."""
    if new is None or not old.domain.is_line or old.domain.prefix:
        return None
    if old.is_stationary and new.is_stationary:
        measures = old.measure, new.measure
        before, after = ([*m.frequencies, *m.weights, m.squared_length] for m in measures)
        if before == after:
            return min(len(old), len(new))
    blocks = zip(old.blocks(), new.blocks(), strict=False)
    return sum(int((a[: len(b)] == b[: len(a)]).all(axis=1).sum()) for (_, a), (_, b) in blocks)


def on_own_grid(enc: Encoding, axes: int = 2) -> Encoding:
    """Place a table on its grid, or on a square after its prefix; otherwise raise an error.

    With one axis, a table without a grid is a line. Possible biases or lags are not placed on a
    square.
    """
    prefix = enc.domain.prefix
    if len(enc.domain.grid) > 1 or (enc.domain.grid and not prefix):
        return enc
    if enc.domain.kind not in ("position", "time"):
        reason = f"{shown(enc.label)} encodes a {enc.domain.kind}, not a position"
        raise PefourierError(f"{reason}; to resize a trained table, pass its file")
    if axes == 1:
        return replace(enc, domain=lattice((len(enc) - prefix,), prefix))
    if enc.file and enc.origin == "formula":
        raise PefourierError(
            f"{shown(enc.label)} has {len(enc)} positions of text, not points of a grid; pass one "
            "side, such as --to 2048"
        )
    side = math.isqrt(len(enc) - prefix)
    may_be_biases = side % 2 == 1 and not prefix and enc.dim <= MAX_HEADS
    may_be_biases |= any(entry.code in BIAS_CODES for entry in enc.findings)
    if 1 < side == (len(enc) - prefix) / side and not may_be_biases:
        settled = tuple(f for f in enc.findings if f.code != "grid-unknown")
        line = replace(enc, domain=positions(len(enc)), findings=settled)
        return on_grid(line, (side, side), prefix)
    raise PefourierError(
        f"{shown(enc.label)} has {len(enc)} rows and an unknown grid; pass its sides, such as "
        f"{grid_options(*usual_grid(len(enc), prefix), '--from')}, or for biases the window's"
    )


def check_new_sides(encoding: Encoding, new: Ints) -> tuple[Counts, ...]:
    """Return the sides of the old grid, of the new grid and of the new table, after checks.

    Sides of biases are those of a window; their table has one row per displacement.
    """
    lags, sides = encoding.domain.kind == "lag", encoding.domain.sides
    old = tuple((n + 1) // 2 for n in sides) if lags else sides
    for side in new:
        check_count("a side of --to", side)
    if len(new) != len(old):
        raise PefourierError(f"--to {size_of(new)} needs as many sides as {size_of(old)}")
    table_sides = tuple(2 * n - 1 if lags else int(n) for n in new)
    rows = encoding.domain.prefix + math.prod(table_sides)
    check_size("the new table", rows, encoding.dim, limit=NUMBERS)
    return old, tuple(map(int, new)), table_sides


def compare_methods(
    names: Strings, rows: Floats, chosen: Floats, states: Sequence[Picture]
) -> list[MethodResult]:
    """Compare the results of methods with the chosen table, in blocks of columns."""
    (before, after), size = states, states[0].norm or np.nan
    blocks = [*row_blocks(rows.shape[1], NUMBERS_AT_ONCE, len(chosen))]
    methods = []
    for name in names:
        products, largest = np.zeros((len(after.grid) + 1, *after.grid)), 0.0
        for columns in blocks:
            part = resize_lattice(rows[:, columns], before.grid, after.grid, name)
            products += neighbour_products(part, after.grid)
            largest = max(largest, float(np.abs(part - chosen[:, columns]).max()))
        norm = float(np.sqrt(products[0].mean()))
        methods.append(MethodResult(name, norm / size, similarities(products), largest))
    return methods


def neighbour_products(table: Floats, sides: Ints) -> Floats:
    """Inner products of each vector with itself and with the next along each axis.

    The shape is (1 + axes, *sides); the last point of an axis is followed by the first.
    """
    grid = table.reshape(*sides, -1)
    others = [grid, *(np.roll(grid, -1, axis) for axis in range(len(sides)))]
    return np.array([np.einsum("...i,...i->...", grid, other) for other in others])


def similarities(products: Floats) -> list[float]:
    """Mean cosine of vectors one step apart along each axis; NaN on an axis of one point.

    >>> table = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 2.0], [0.0, 1.0]])
    >>> similarities(neighbour_products(table, (2, 2)))
    [0.0, 1.0]
    """
    lengths = np.sqrt(np.where(products[0] > 0, products[0], 1.0))
    means = []
    for axis, n in enumerate(lengths.shape):
        cosines = products[axis + 1] / lengths / np.roll(lengths, -1, axis)
        means.append(float(np.moveaxis(cosines, axis, 0)[:-1].mean()) if n > 1 else np.nan)
    return means


def picture(name: str, enc: Encoding, sides: Counts, table: Array | None = None) -> Picture:
    """Describe the vectors of a lattice: those of a table, or else of an encoding.

    One axis of a table is treated as a row of a grid.
    """
    prefix = enc.domain.prefix
    if table is None and not (enc.is_stationary and len(sides) == 1 and not prefix):
        table = np.asarray(enc.table()[prefix:], dtype=float)
    if table is not None:
        enc, points = from_table(table), lattice(sides if len(sides) > 1 else (1, *sides))
        enc = replace(enc, domain=points, eps=max(enc.eps, SUMS_EPS))
        norm = float(np.sqrt(np.einsum("ij,ij->i", table, table).mean()))
    else:
        norm = math.sqrt(enc.measure.squared_length)
    closest = closest_pair(enc, measured=False)
    equal = None if closest.distance else closest.pair
    return Picture(name, tuple(sides), norm, closest.distinct, equal, enc)


def unseen_phases(old: Encoding, new: Encoding) -> list[Unseen]:
    """Pairs of each axis that reach angles on the new lattice beyond those on the old.

    A pair with a full rotation on the old lattice has seen all angles. An excess of less than one
    step of the old grid is ignored.
    """
    if not old.measure or not new.measure:
        return []
    shape = -1, len(old.domain.sides)
    (before, last), (after, farther) = (
        (np.abs(enc.measure.frequencies.reshape(shape)), np.array(enc.domain.sides) - 1)
        for enc in (old, new)
    )
    is_unseen = before * last < 2 * np.pi
    is_unseen &= after * farther > before * (last + 1) * (1 + 1e-9)
    axes = []
    for axis, letter in enumerate(axis_letters(len(old.domain.sides))):
        rotating = before[:, axis] > 0
        indices = np.flatnonzero(is_unseen[rotating, axis]).tolist()
        axes.append(Unseen(letter, int(rotating.sum()), len(indices), indices))
    return axes


def ways_of(enc: Encoding) -> list[list[str]]:
    """Libraries that resize a table, each followed by its methods; empty if unknown."""
    by_lag = any(entry.code == "lags-as-codes" for entry in enc.findings)
    kind = "sam_vision_model" if by_lag else str(enc.params.get("model_type") or "")
    row = type_row(kind)
    by_lag |= enc.domain.kind == "lag"
    ways: list[list[str]] = row.get("resized_lags" if by_lag else "resized", [])
    return ways


def methods_of(enc: Encoding, new: Ints) -> dict[str, str]:
    """Method of each library that can resize a table to a lattice of this size."""
    return {
        library: fitting[0]
        for library, *methods in ways_of(enc)
        if (fitting := [name for name in methods if not why_not(name, enc.domain.sides, new)])
    }
