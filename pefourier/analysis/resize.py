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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np

from pefourier.analysis.spectrum import axis_shares, density
from pefourier.encodings.checks import NUMBERS, check_count, check_size
from pefourier.encodings.domain import lattice, lattice_points, positions
from pefourier.encodings.encoding import Encoding, from_table
from pefourier.encodings.families.axes import axis_letters
from pefourier.encodings.grids import (
    MAX_HEADS,
    as_stored,
    grid_options,
    on_grid,
    size_of,
    usual_grid,
    window_of_rows,
)
from pefourier.encodings.specs import source_of
from pefourier.errors import PefourierError, shown, unknown
from pefourier.geometry import Progress
from pefourier.geometry.closest import closest_pair
from pefourier.geometry.grown_grids import frequencies_on_axes, turn_limits
from pefourier.geometry.interpolation import METHODS, resize_lattice
from pefourier.result import Result

SUMS_EPS = 2.0**-46  # to which sums of a few rows are known
DEFAULT = "bicubic"
ANEW = "anew"  # in place of a method: by the formula, as models compute it at every size
ASKED_FOR = {"fourier", "bicubic-corners", "bilinear-corners"}  # of no library's own models
IN_USE = dict.fromkeys(name for name in METHODS if name not in ASKED_FOR)


@dataclass(frozen=True)
class Picture:
    """A table of the points of a lattice: how its codes differ, and its frequencies."""

    grid: tuple[int, ...]
    norm: float  # rms length of a code
    distinct: int  # different codes
    nearest: float | None  # smallest distance of two codes over `norm`; None for a single point
    closest: list[list[int]] | None  # the two points that are so far apart
    inside: float | None  # `nearest` of points between old ones, where the two lie beyond these
    neighbours: list[float]  # mean cosine of codes one step apart along each axis
    cycles: float  # mean frequency, cycles from end to end (root of squares over the axes)
    constant: float  # share of the energy that is the same at all points
    isotropy: dict[str, float]  # A2, A4
    omega: list[np.ndarray]  # (K_a,) of each axis, radians per point, in numpy.rfftn's order
    density: np.ndarray  # (K_1, …) over the half plane, sums to one
    marginals: list[np.ndarray]  # (K_a,) of each axis: sums over the others


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
    reach_limit: float | None  # of an endless grid; None: it grows without end, or is not known


@dataclass(frozen=True, repr=False)
class Resizing(Result):
    """A table on another lattice, and what each method makes of it."""

    old: tuple[int, ...] = field(metadata={"told": "from"})
    new: tuple[int, ...] = field(metadata={"told": "to"})
    prefix: int
    method: str
    table: np.ndarray = field(metadata={"told": ""})  # (prefix + n, d), in the order of the weights
    before: Picture
    after: Picture
    methods: list[Method]
    largest_difference: float  # between any two of the methods
    between: tuple[str, ...]  # the two; empty where nothing was interpolated
    at: tuple[int, ...]  # the point where
    moved: float  # share of the energy that has another frequency, in cycles from end to end
    unseen: list[Unseen] | None  # None where frequencies are not declared
    anew: Picture | None  # of a formula, its codes on the new grid; None where there is none
    logits: list[float] | None  # of biases, by head: how far they change where both windows reach


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
    >>> r = resize_table(load("axial", None, 8, grid=(4, 4)), (6, 6), "timm")
    >>> r.table.shape, r.between
    ((36, 8), ('dinov2', 'bilinear'))
    """
    computed = not method and is_computed(encoding, formula)
    check_resizable(encoding, method or DEFAULT)
    method = ANEW if computed else method or DEFAULT
    behind, shape = encoding.domain.prefix, encoding.domain.sides
    old, new, wanted = check_new_sides(encoding, new)
    others, rows = np.split(np.asarray(encoding.table(), dtype=float), [behind])
    own = None if formula is None else formula.table()[behind:]
    ways = {} if computed else {**IN_USE, method: None}
    tables = {name: resize_lattice(rows, shape, wanted, name) for name in ways}
    chosen = own if computed else tables[method]
    before, after = picture(rows, shape, progress), picture(chosen, wanted, progress)
    placed = rows.reshape(*shape, -1), chosen.reshape(*wanted, -1)
    size = before.norm or np.nan
    return Resizing(
        old=old,
        new=new,
        prefix=behind,
        method=method,
        table=as_stored(encoding, np.concatenate([others, chosen])),
        before=before,
        after=after if computed else replace(after, inside=nearest_inside(chosen, after, shape)),
        methods=[
            Method(name, rms(t) / size, similarities(t, wanted), float(np.abs(t - chosen).max()))
            for name, t in tables.items()
        ],
        **compare_methods(tables, wanted),
        moved=energy_moved(before, after),
        unseen=None if formula is None else unseen_phases(encoding, formula),
        anew=after if computed else None if own is None else picture(own, wanted, progress),
        logits=changes_by_head(*placed) if encoding.domain.kind == "lag" else None,
        about=(encoding,),
    )


def changes_by_head(old: np.ndarray, new: np.ndarray) -> list[float]:
    """The largest change of each column at displacements that are on both lattices.

    >>> changes_by_head(np.zeros((3, 1)), np.array([[9.0], [1.0], [2.0], [3.0], [9.0]]))
    [3.0]
    """
    both = []
    for one, other in ((old, new), (new, old)):
        more = [(n - min(n, m)) // 2 for n, m in zip(one.shape, other.shape, strict=True)]
        within = (slice(k, n - k) for k, n in zip(more, one.shape, strict=True))
        both.append(one[tuple(within)])
    return np.abs(both[0] - both[1]).reshape(-1, old.shape[-1]).max(axis=0).tolist()


def is_computed(encoding: Encoding, formula: object) -> bool:
    """Whether models compute it at every size by its formula, and interpolate nothing."""
    return formula is not None and (encoding.act == "rotate" or encoding.anew is not None)


def check_resizable(encoding: Encoding, method: str) -> None:
    """Refuse a method that is not known."""
    if method not in METHODS:
        raise unknown("method", method, METHODS)


def has_formula(enc: Encoding, source: Any, new: Sequence[int]) -> bool:
    """Whether the source of an encoding gives codes of a formula on a new grid, too.

    Tables that are drawn have none; frequencies that are drawn are the same on all grids.
    """
    named = isinstance(source, str) and enc.origin == "formula" and source_of(source) != "table"
    drawn = enc.untrained and enc.measure is None
    return named and not drawn and len(enc.domain.sides) == len(new)


def on_own_grid(enc: Encoding, axes: int = 2) -> Encoding:
    """A table on the grid that it has, or on a square behind its prefix; else it is refused.

    One that is on none, asked for one axis, is a line.
    """
    if axes > 1 and any(one.code == "biases-as-codes" for one in enc.findings):
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
    way = f", or of biases those of their window, --from {half}x{half}" if may_be_biases else ""
    raise PefourierError(
        f"{shown(enc.label)} has {len(enc)} rows, and no grid is known; give its sides, as "
        f"{grid_options(sides, behind, '--from')}{way}"
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
    named = [one.message for one in enc.findings if one.code == "lags-as-codes"]
    if not named:
        return new
    axis = "thw".index(named[0].split("rel_pos_")[1][0]) - 3
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
    wanted = tuple(2 * n - 1 for n in new) if lags else tuple(new)
    rows = encoding.domain.prefix + math.prod(wanted)
    check_size("the new table", rows, encoding.dim, limit=NUMBERS)
    return old, tuple(map(int, new)), wanted


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
    found = []
    for axis, n in enumerate(sides):
        along = np.moveaxis(unit, axis, 0)
        cosines = np.einsum("...i,...i->...", along[:-1], along[1:])
        found.append(float(cosines.mean()) if n > 1 else np.nan)
    return found


def picture(
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
        grid=tuple(sides),
        norm=norm,
        distinct=closest.distinct,
        nearest=closest.distance / norm if norm and closest.pair else None,
        closest=closest.pair and np.transpose(np.unravel_index(closest.pair, sides)).tolist(),
        inside=None,
        neighbours=similarities(table, sides),
        cycles=float(cycles @ spectrum.density.ravel()),
        constant=spectrum.summary.lowest_bin_share,
        isotropy=axis_shares(enc)["isotropy"],
        omega=spectrum.omega[-axes:],
        density=spectrum.density if axes > 1 else spectrum.density[0],
        marginals=spectrum.marginals[-axes:],
    )


def nearest_inside(table: np.ndarray, whole: Picture, old: Sequence[int]) -> float | None:
    """The closest two points that lie between old ones, where the closest of all do not.

    Beyond the first and the last of a side methods go on as at the edge: codes there are close.

    >>> rows = np.array([[0.0], [0.1], [1.0], [2.0], [2.9], [3.0]])
    >>> whole = picture(rows, (6,))
    >>> whole.closest, round(nearest_inside(rows, whole, (2,)) * whole.norm, 6)
    ([[0], [1]], 0.9)
    """
    ends = [int(np.ceil((n / m - 1) / 2)) for n, m in zip(whole.grid, old, strict=True)]
    inner = [range(k, n - k) for n, k in zip(whole.grid, ends, strict=True)]
    own = [all(map(range.__contains__, inner, place)) for place in whole.closest or ()]
    if all(own) or min(map(len, inner)) == 0 or max(map(len, inner)) < 2:
        return None
    within = table.reshape(*whole.grid, -1)[np.ix_(*inner)].reshape(-1, table.shape[1])
    return closest_pair(from_table(within)).distance / whole.norm


def by_cycles(picture: Picture) -> np.ndarray:
    """The energy at 0, 1, 2, … cycles from end to end along each axis, both directions together."""
    found = picture.density
    for axis, n in enumerate(picture.grid[:-1]):  # the last axis has one direction
        cycles = np.arange(n // 2 + 1)
        there, back = (np.take(found, k, axis) for k in (cycles, -cycles))
        once = (2 * cycles % n == 0).reshape([-1 if a == axis else 1 for a in range(found.ndim)])
        found = there + np.where(once, 0.0, back)
    return found


def energy_moved(before: Picture, after: Picture) -> float:
    """The share of the energy that has other cycles from end to end after than before.

    >>> rows = np.eye(4)[:, :1] + 1.0
    >>> energy_moved(picture(rows, (2, 2)), picture(rows, (2, 2)))
    0.0
    """
    densities = [by_cycles(one) for one in (before, after)]
    shape = tuple(max(sides) for sides in zip(*(g.shape for g in densities), strict=True))
    one, other = (
        np.pad(g, [(0, n - k) for n, k in zip(shape, g.shape, strict=True)]) for g in densities
    )
    return float(np.abs(one - other).sum() / 2)


def compare_methods(tables: dict[str, np.ndarray], sides: tuple[int, ...]) -> dict[str, Any]:
    """The largest difference of any two tables, which two, and at which point."""
    pairs = list(combinations(tables, 2))
    if not pairs:
        return {"largest_difference": 0.0, "between": (), "at": ()}
    apart = [np.abs(tables[one] - tables[other]).max(axis=1) for one, other in pairs]
    which, row = np.unravel_index(np.argmax(apart), np.shape(apart))
    at = tuple(int(k) for k in np.unravel_index(row, sides))
    return {"largest_difference": float(apart[which][row]), "between": pairs[which], "at": at}


def unseen_phases(old: Encoding, new: Encoding) -> list[Unseen] | None:
    """Of each axis, the pairs that turn further on the new lattice than ever on the old.

    A pair that completed a turn on the old one has met all phases, and one that goes less than a
    step of the old grid beyond what it met is as good as there.
    """
    if old.measure is None or new.measure is None:
        return None
    slow, fast = (frequencies_on_axes(enc.measure) for enc in (old, new))
    letters, limits = axis_letters(len(old.domain.sides)), turn_limits(old)
    found = []
    for a, (n, m) in enumerate(zip(old.domain.sides, new.domain.sides, strict=True)):
        before, after = np.abs(slow[:, a]), np.abs(fast[:, a])
        own = before > 0
        seen, met = before[own] * (n - 1), after[own] * (m - 1)
        unseen = (seen < 2 * np.pi) & (met > (seen + before[own]) * (1 + 1e-9))
        ratio = float(np.median(after[own] / before[own])) if own.any() else np.nan
        which = np.flatnonzero(unseen).tolist()
        reach = ratio * (m - 1) / (n - 1) if n > 1 else np.nan
        most = limits[a] if np.isfinite(limits[a]) else None
        found.append(Unseen(letters[a], int(own.sum()), len(which), which, ratio, reach, most))
    return found
