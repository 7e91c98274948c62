r"""What becomes of a table of positions at another size of images, or length of texts?

Conventions
-----------
A table has one row a point of a lattice, behind rows without a place, which are kept. It is
resized by the methods in use (`geometry.interpolation`), in float64. Neighbours are points one step
apart along an axis; their similarity is the mean cosine of their codes. Frequencies are cycles an
image where tables of two sizes are compared, so that those that stay have the same number.
Densities are those of `spectrum` without smoothing, over the lattice of the table's own points.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from pefourier.encodings.checks import NUMBERS, check_count, check_size
from pefourier.encodings.domain import lattice, lattice_points, positions
from pefourier.encodings.encoding import Encoding, Finding, from_table
from pefourier.encodings.families.axes import axis_letters
from pefourier.encodings.findings import finding
from pefourier.encodings.grids import (
    MAX_HEADS,
    as_stored,
    grid_options,
    on_grid,
    size_of,
    usual_grid,
    window_of_rows,
)
from pefourier.encodings.sources.models import type_row
from pefourier.encodings.specs import source_of
from pefourier.errors import PefourierError, shown, unknown
from pefourier.geometry import Progress
from pefourier.geometry.closest import closest_pair
from pefourier.geometry.grown_grids import frequencies_on_axes
from pefourier.geometry.interpolation import METHODS, resize_lattice
from pefourier.questions.spectrum import density
from pefourier.result import Result
from pefourier.writing.escapes import printable

SUMS_EPS = 2.0**-46  # to which sums of a few rows are known
DEFAULT = "bicubic"
ANEW = "anew"  # in place of a method: by the formula, as models compute it at every size


@dataclass(frozen=True)
class Picture:
    """A table of the points of a lattice: how its codes differ, and its frequencies."""

    name: str = field(metadata={"told": False})  # before or after
    grid: tuple[int, ...]
    norm: float  # rms length of a code
    distinct: int  # different codes
    nearest: float | None  # smallest distance of two codes over `norm`; None for a single point
    closest: list[list[int]] | None  # the two points that are so far apart
    neighbours: list[float]  # mean cosine of codes one step apart along each axis
    cycles: float  # mean frequency, cycles from end to end (root of squares over the axes)
    constant: float  # share of the energy that is the same at all points
    density: np.ndarray  # (K_1, …) over the half plane, sums to one

    @property
    def points(self) -> int:
        """How many points the lattice has."""
        return math.prod(self.grid)


@dataclass(frozen=True)
class Method:
    """A table as one method resizes it."""

    method: str
    norm_ratio: float  # rms length of the new codes over that of the old
    neighbours: list[float]
    largest_difference: float  # from the method asked for, of any number


@dataclass(frozen=True)
class Unseen:
    """How far pairs of a formula turn on the new lattice, and which meet phases never seen."""

    axis: str
    pairs: int
    unseen: int
    which: list[int]  # of the axis' pairs, counted from 0 in the formula's order
    step_ratio: float  # the angle from point to point, new over old
    reach_ratio: float  # the same from the first point to the last


@dataclass(frozen=True, repr=False)
class Resizing(Result):
    """A table on another lattice, and what each method makes of it."""

    shown: ClassVar[dict[str, str]] = {
        "from": "old",
        "to": "new",
        "rows before the grid": "prefix",
        "method": "method",
        "energy moved": "moved",
        "out": "out",
    }
    listed: ClassVar[dict[str, dict[str, str]]] = {
        "states": {
            "table": "name",
            "grid": "grid",
            "rms length of a code": "norm",
            "different codes": "distinct",
            "smallest distance over it": "nearest",
            "cosine of neighbours": "neighbours",
            "mean frequency, cycles end to end": "cycles",
            "share at frequency 0": "constant",
        },
        "methods": {
            "method": "method",
            "length of codes, new / old": "norm_ratio",
            "cosine of neighbours": "neighbours",
            "difference": "largest_difference",
        },
        "unseen_on_axes": {"axis": "axis", "pairs": "pairs", "unseen": "unseen"},
    }

    old: tuple[int, ...] = field(metadata={"told": "from"})
    new: tuple[int, ...] = field(metadata={"told": "to"})
    prefix: int
    method: str
    table: np.ndarray = field(metadata={"told": ""})  # (prefix + n, d), in the order of the weights
    before: Picture
    after: Picture
    methods: list[Method]  # empty where the table was computed anew
    moved: float  # share of the energy that has another frequency, in cycles from end to end
    unseen: list[Unseen] | None  # None where frequencies are not declared
    out: str | None = None  # the file that the table was written to

    @property
    def verdict(self) -> str:
        """Whether codes can still be told apart, and whether models interpolate them at all."""
        if not self.before.norm:
            return "all zero"
        if self.method == ANEW:
            return "computed anew"
        if self.after.distinct == self.after.points:
            return "still distinct"
        merged = self.before.distinct == self.before.points
        return "no longer distinct" if merged else "not distinct"

    @property
    def states(self) -> list[Picture]:
        """The table before and after."""
        return [self.before, self.after]

    @property
    def unseen_on_axes(self) -> list[Unseen]:
        """Axes of a formula some of whose pairs meet phases never seen."""
        return [axis for axis in self.unseen or () if axis.unseen]

    @property
    def old_size(self) -> str:
        """The sides of the old lattice."""
        return size_of(self.old)

    @property
    def new_size(self) -> str:
        """The sides of the new lattice."""
        return size_of(self.new)

    @property
    def moved_percent(self) -> float:
        """The part of the energy at other frequencies than before."""
        return 100 * self.moved

    @property
    def difference_percent(self) -> float:
        """How far another method is from this one, in parts of the rms of a number."""
        size = self.before.norm / math.sqrt(self.table.shape[-1])
        return 100 * max(entry.largest_difference for entry in self.methods) / size

    @property
    def findings(self) -> list[Finding]:
        """What is known of the table, and which pairs of a formula meet phases never seen."""
        notes = list(self.about[0].findings)
        for axis in self.unseen_on_axes:
            counts = {"count": axis.unseen, "total": axis.pairs, "axis": axis.axis}
            notes.append(finding("unseen-phases", **counts))
        kind = self.about[0].params.get("model_type") or ""
        if ways := (type_row(kind) or {}).get("resized"):
            sources = " and ".join(" by ".join(step) for step in ways)
            notes.append(finding("resized-by", kind=printable(kind), ways=sources))
        return notes

    def series(self) -> tuple[list[str], list[list[Any]]]:
        """Names of the columns of CSV, and a row for each method."""
        axes = [f"neighbours_{k}" for k in range(len(self.old))]
        rows = [
            [entry.method, entry.norm_ratio, *entry.neighbours, entry.largest_difference]
            for entry in self.methods
        ]
        return ["method", "norm_ratio", *axes, "difference"], rows


def resize_table(
    encoding: Encoding,
    new: Sequence[int],
    method: str = "",
    formula: Encoding | None = None,
    progress: Callable[[str], Progress] | None = None,
) -> Resizing:
    """Resize a table by one of `METHODS`, and compare them all.

    Parameters
    ----------
    encoding : Encoding
        Codes on a grid, maybe behind rows without a place.
    new : sequence of int
        Sides of the new grid, as many as the old one has; of biases those of the new window, whose
        displacements are 2 H - 1 by 2 W - 1.
    method : str, optional
        That of the table in the answer; by default bicubic, or the formula where models compute it
        at every size.
    formula : Encoding, optional
        The same formula on the new grid: its codes there, and which pairs meet unseen phases.
    progress : callable, optional
        Called with the name of each phase of the work; what it gives, with parts done and all.

    Examples
    --------
    >>> from pefourier.encodings import load
    >>> r = resize_table(load("axial", None, 8, grid=(4, 4)), (6, 6), "antialias")
    >>> r.table.shape, r.verdict
    ((36, 8), 'still distinct')
    """
    is_computed = formula is not None and (encoding.act == "rotate" or encoding.anew is not None)
    is_computed = is_computed and not method
    method = ANEW if is_computed else method or DEFAULT
    check_resizable(encoding, method)
    prefix, shape = encoding.domain.prefix, encoding.domain.sides
    old, new, table_sides = check_new_sides(encoding, new)
    front, rows = np.split(np.asarray(encoding.table(), dtype=float), [prefix])
    if is_computed:
        tables = {ANEW: formula.table()[prefix:]}
    else:
        tables = {name: resize_lattice(rows, shape, table_sides, name) for name in METHODS}
    chosen = tables[method]
    before = picture("before", rows, shape, progress)
    after = picture("after", chosen, table_sides, progress)
    return Resizing(
        old=old,
        new=new,
        prefix=prefix,
        method=method,
        table=as_stored(encoding, np.concatenate([front, chosen])),
        before=before,
        after=after,
        methods=[] if is_computed else compare_methods(tables, chosen, table_sides, before.norm),
        moved=energy_moved(before, after),
        unseen=None if formula is None else unseen_phases(encoding, formula),
        about=(encoding,),
    )


def compare_methods(
    tables: Mapping[str, np.ndarray], chosen: np.ndarray, sides: Sequence[int], norm: float
) -> list[Method]:
    """What each method makes of a table: norms over the old one, neighbours, the difference."""
    size = norm or np.nan
    return [
        Method(name, rms(t) / size, similarities(t, sides), float(np.abs(t - chosen).max()))
        for name, t in tables.items()
    ]


def check_resizable(encoding: Encoding, method: str) -> None:
    """Refuse a method that is not known."""
    if method not in (*METHODS, ANEW):
        raise unknown("method", method, METHODS)


def has_formula(enc: Encoding, source: Any, new: Sequence[int]) -> bool:
    """Whether the source of an encoding gives codes of a formula on a new grid, too.

    Tables that are drawn have none; frequencies that are drawn are the same on all grids.
    """
    is_named = isinstance(source, str) and enc.origin == "formula" and source_of(source) != "table"
    is_drawn = enc.untrained and enc.measure is None
    return is_named and not is_drawn and len(enc.domain.sides) == len(new)


def on_own_grid(enc: Encoding, axes: int = 2) -> Encoding:
    """A table on the grid that it has, or on a square behind its prefix; else it is refused.

    One that is on none, asked for one axis, is a line.
    """
    if axes > 1 and any(entry.code == "biases-as-codes" for entry in enc.findings):
        half = (math.isqrt(len(enc)) + 1) // 2
        if window_of_rows(enc, (half, half)):
            return on_grid(enc, (half, half), prefix=0)
    prefix = enc.domain.prefix
    if len(enc.domain.grid) > 1 or (enc.domain.grid and not prefix):
        return enc
    if axes == 1:
        return replace(enc, domain=lattice((len(enc) - prefix,), prefix))
    side = math.isqrt(len(enc) - prefix)
    is_square = side > 1 and side**2 == len(enc) - prefix
    may_be_biases = is_square and side % 2 == 1 and not prefix and enc.dim <= MAX_HEADS
    if is_square and not may_be_biases:
        settled = tuple(f for f in enc.findings if f.code != "grid-unknown")
        line = replace(enc, domain=positions(len(enc)), findings=settled)
        return on_grid(line, (side, side), prefix)
    sides, behind = usual_grid(len(enc), prefix)
    if window := window_of_rows(enc, sides):
        sides, behind = window, prefix  # a class token's rows come last
    half = (side + 1) // 2
    alternative = (
        f", or of biases those of their window, --from {half}x{half}" if may_be_biases else ""
    )
    raise PefourierError(
        f"{shown(enc.label)} has {len(enc)} rows, and no grid is known; give its sides, as "
        f"{grid_options(sides, behind, '--from')}{alternative}"
    )


def sides_of_window(enc: Encoding, new: Sequence[int]) -> Sequence[int]:
    """New sides of a window, where those of displacements were given; others as they are."""
    if not all(side % 2 for side in new):
        window = size_of(new)
        raise PefourierError(
            f"{shown(enc.label)} was placed by the displacements of a window, of which there are "
            f"odd numbers; got --to {window}; a window of {window} has "
            f"{size_of([2 * side - 1 for side in new])}"
        )
    return [(side + 1) // 2 for side in new]


def lags_of_map(enc: Encoding, new: Sequence[int]) -> Sequence[int]:
    """How many lags a map of these sides has along the axis that an array is named for.

    One number is that of the lags: a map of side n has 2 n - 1, as of weights named rel_pos_h.
    """
    messages = [entry.message for entry in enc.findings if entry.code == "lags-as-codes"]
    if not messages:
        return new
    axis = "thw".index(messages[0].split("rel_pos_")[1][0]) - 3
    if -axis <= len(new) > 1:
        return [2 * new[axis] - 1]
    if len(new) > 1 or new[0] % 2:
        return new
    raise PefourierError(
        f"{shown(enc.label)} holds lags, of which a map of side n has 2n - 1, so never {new[0]}; "
        f"--to {2 * new[0] - 1} (or {new[0]}x{new[0]}) resizes them for a map of side {new[0]}"
    )


def check_new_sides(encoding: Encoding, new: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The old sides, the new ones, and those of the new table; refused where none can be.

    Sides of biases are those of a window, whose displacements their table has.
    """
    lags, old = encoding.domain.kind == "lag", encoding.domain.sides
    old = tuple((n + 1) // 2 for n in old) if lags else old
    for side in new:
        check_count("a side of --to", side)
    if len(new) != len(old):
        raise PefourierError(
            f"--to {size_of(new)} is of {len(new)} axes, the table's grid {size_of(old)} of "
            f"{len(old)}; give as many sides"
        )
    table_sides = tuple(2 * n - 1 for n in new) if lags else tuple(new)
    rows = encoding.domain.prefix + math.prod(table_sides)
    check_size("the new table", rows, encoding.dim, limit=NUMBERS)
    return old, tuple(map(int, new)), table_sides


def rms(table: np.ndarray) -> float:
    """Root of the mean squared length of a code."""
    return float(np.sqrt((table**2).sum(axis=1).mean()))


def similarities(table: np.ndarray, sides: Sequence[int]) -> list[float]:
    """Mean cosine of codes one step apart along each axis; NaN on an axis of one point.

    >>> similarities(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 2.0], [0.0, 1.0]]), (2, 2))
    [0.0, 1.0]
    """
    lengths = np.linalg.norm(table, axis=1, keepdims=True)
    unit = (table / np.where(lengths > 0, lengths, 1.0)).reshape(*sides, -1)
    means = []
    for axis, n in enumerate(sides):
        along = np.moveaxis(unit, axis, 0)
        cosines = np.einsum("...i,...i->...", along[:-1], along[1:])
        means.append(float(cosines.mean()) if n > 1 else np.nan)
    return means


def picture(
    name: str,
    table: np.ndarray,
    sides: tuple[int, ...],
    progress: Callable[[str], Progress] | None = None,
) -> Picture:
    """A table on a lattice: its codes, and its frequencies; of one axis as a row of points."""
    enc, points = from_table(table), lattice(sides if len(sides) > 1 else (1, *sides))
    enc = replace(enc, domain=points, eps=max(enc.eps, SUMS_EPS))
    spectrum, norm, axes = density(enc, sigma=0.0), rms(table), len(sides)
    closest = closest_pair(enc, progress and progress(f"closest pair on {size_of(sides)}"))
    waves = [
        omega * n / (2 * np.pi) for omega, n in zip(spectrum.omega, spectrum.lattice, strict=True)
    ]
    cycles = np.linalg.norm(lattice_points(waves), axis=1)
    return Picture(
        name=name,
        grid=tuple(sides),
        norm=norm,
        distinct=closest.distinct,
        nearest=closest.distance / norm if norm and closest.pair else None,
        closest=closest.pair and np.transpose(np.unravel_index(closest.pair, sides)).tolist(),
        neighbours=similarities(table, sides),
        cycles=float(cycles @ spectrum.density.ravel()),
        constant=spectrum.summary.lowest_bin_share,
        density=spectrum.density if axes > 1 else spectrum.density[0],
    )


def by_cycles(picture: Picture) -> np.ndarray:
    """The energy at 0, 1, 2, … cycles from end to end along each axis, both directions together."""
    folded = picture.density
    for axis, n in enumerate(picture.grid[:-1]):  # the last axis has one direction
        cycles = np.arange(n // 2 + 1)
        forth, back = (np.take(folded, k, axis) for k in (cycles, -cycles))
        once = (2 * cycles % n == 0).reshape([-1 if a == axis else 1 for a in range(folded.ndim)])
        folded = forth + np.where(once, 0.0, back)
    return folded


def energy_moved(before: Picture, after: Picture) -> float:
    """The share of the energy that has other cycles from end to end after than before.

    >>> rows = np.eye(4)[:, :1] + 1.0
    >>> energy_moved(picture("", rows, (2, 2)), picture("", rows, (2, 2)))
    0.0
    """
    densities = [by_cycles(state) for state in (before, after)]
    shape = tuple(max(sides) for sides in zip(*(g.shape for g in densities), strict=True))
    padded_before, padded_after = (
        np.pad(g, [(0, n - k) for n, k in zip(shape, g.shape, strict=True)]) for g in densities
    )
    return float(np.abs(padded_before - padded_after).sum() / 2)


def unseen_phases(old: Encoding, new: Encoding) -> list[Unseen] | None:
    """Of each axis, the pairs that turn further on the new lattice than ever on the old.

    A pair that completed a turn on the old one has met all phases, and one that goes less than a
    step of the old grid beyond what it met is as good as there.
    """
    if old.measure is None or new.measure is None:
        return None
    slow, fast = (frequencies_on_axes(enc.measure) for enc in (old, new))
    axes = []
    for a, (n, m) in enumerate(zip(old.domain.sides, new.domain.sides, strict=True)):
        before, after = np.abs(slow[:, a]), np.abs(fast[:, a])
        turning = before > 0
        reached_before, reached = before[turning] * (n - 1), after[turning] * (m - 1)
        unseen = (reached_before < 2 * np.pi) & (
            reached > (reached_before + before[turning]) * (1 + 1e-9)
        )
        ratio = float(np.median(after[turning] / before[turning])) if turning.any() else np.nan
        index = np.flatnonzero(unseen).tolist()
        reach = ratio * (m - 1) / (n - 1) if n > 1 else np.nan
        letter = axis_letters(len(old.domain.sides))[a]
        axes.append(Unseen(letter, int(turning.sum()), len(index), index, ratio, reach))
    return axes
