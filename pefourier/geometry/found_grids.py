r"""Is a flat table that of points on a grid, and of which, behind how many other rows?

Inner products of codes on a grid are functions of the displacement (dy, dx). `residual_of_products`
measures by how much those of a table are not,
:math:`T_2 = \lVert G - \mathrm{mean}(G)\rVert / \lVert G\rVert` with :math:`G = E E^T` and the mean
over pairs of points with one displacement; `find_grid` looks for the sides with the least.
"""

import re
from dataclasses import dataclass, replace
from functools import cached_property
from math import isqrt, prod

import numpy as np

from pefourier.encodings.domain import positions
from pefourier.encodings.encoding import Encoding, Finding, unit_of
from pefourier.encodings.findings import finding
from pefourier.encodings.grids import (
    MOST_HEADS,
    Sides,
    grid_options,
    on_grid,
    size_of,
    with_rows_behind,
)
from pefourier.encodings.lines import (
    LEAST_POINTS,
    LEAST_SIDE,
    find_lines,
    may_be_lines,
    squares_with_others,
)
from pefourier.errors import PefourierError, shown

MOST_PREFIX = 8  # rows before a grid that are looked for
MEASURED = 2**10  # points of which all inner products are looked at
WIDEST = MEASURED // 2  # two rows of a grid are among them
FINALISTS = 8  # grids that are compared by all inner products, not those of neighbours alone
UNEVEN = 0.5  # share of neighbours' products beyond which a grid is none
LARGEST_RESIDUAL = 0.2  # of a table that is called one on a grid
RATIO = 0.6  # residuals of all other grids are larger: found over next
OF_PLACES = ("grid-found", "grid-unknown", "window-biases", "rows-behind-grid", "prefix-shift")
OF_IMAGES = re.compile(r"vision|visual|image|patch|pos_embed|\bvit\b")  # names of arrays
SURE_RESIDUAL = 0.05
RESOLVED = 1e-6  # residuals below are rounding


@dataclass(frozen=True)
class FoundGrid:
    """The grid of a table, with how well it and the next best suit."""

    grid: tuple[int, int]  # rows and columns
    prefix: int  # rows before the grid
    residual: float  # T2 of the grid
    next_residual: float  # least T2 of any other grid, or of the rows on one axis


@dataclass(frozen=True, eq=False)
class FlatTable:
    """A table whose rows may be points of a grid behind `prefix` others."""

    table: np.ndarray

    @cached_property
    def products(self) -> np.ndarray:
        """Inner products of the first rows, in a unit that their squares can bear."""
        first = np.asarray(self.table[: MEASURED + MOST_PREFIX], dtype=float)
        first = first * unit_of(first)
        return first @ first.T

    def screen(self, width: int, prefix: int) -> float:
        """Share of neighbours' inner products that is not a function of the displacement."""
        apart = total = 0.0
        for step in dict.fromkeys((1, 2, width)):
            products = self.products.diagonal(step)
            column = (np.arange(len(products)) - prefix) % width
            inside = (np.arange(len(products)) >= prefix) & (
                (column + step < width) | (step == width)
            )
            own = products[inside]
            if len(own):
                apart += float(((own - own.mean()) ** 2).sum())
                total += float((own**2).sum())
        return apart / total if total else np.inf

    def residual(self, width: int, prefix: int) -> float:
        """T2 of the first rows of a grid."""
        height = min(len(self.table) - prefix, MEASURED) // width
        return self.residual_on((height, width), prefix)

    def flat_residual(self, prefix: int) -> float:
        """T2 of the first rows on one axis."""
        return self.residual_on((min(len(self.table) - prefix, MEASURED),), prefix)

    def residual_on(self, sides: tuple[int, ...], prefix: int) -> float:
        """T2 of the rows behind a prefix as the points of a grid."""
        points = slice(prefix, prefix + prod(sides))
        return residual_of_products(self.products[points, points], sides)


def residual_of_products(products: np.ndarray, sides: tuple[int, ...]) -> float:
    """T2 of a table on a grid, from all of its inner products; rounding leaves about 1e-8.

    >>> from pefourier.encodings import build
    >>> table = build("axial", d=16, grid=(5, 7)).table()
    >>> products = table @ table.T
    >>> residual_of_products(products, (5, 7)) < 1e-6 < residual_of_products(products, (7, 5))
    True
    """
    doubled = [2 * n - 1 for n in sides]
    key = np.ravel_multi_index(np.unravel_index(np.arange(len(products)), sides), doubled)
    apart = (key - key[:, None] + key[-1]).ravel()  # a number for each displacement
    sums, counts = np.bincount(apart, products.ravel()), np.bincount(apart)
    total, shared = float((products**2).sum()), float((sums**2 / np.maximum(counts, 1)).sum())
    return float(np.sqrt(max(total - shared, 0.0) / total)) if total else 0.0


def find_grid(table: np.ndarray) -> FoundGrid | None:
    """The sides and prefix of a table's grid; None where its inner products do not decide.

    The smallest prefix and the least T2 win. A table of one axis has the least T2 on any grid, and
    a table of free numbers about the same on all: both have none.

    >>> from pefourier.encodings import build
    >>> found = find_grid(build("axial", d=32, grid=(7, 11), prefix=1).table())
    >>> found.grid, found.prefix
    ((7, 11), 1)
    """
    rows = FlatTable(table)
    if rows.flat_residual(0) <= RESOLVED:
        return None
    screened = sorted((rows.screen(w, k), k, w) for k, w in possible_grids(len(table)))
    measured = [(rows.residual(w, k), k, w) for s, k, w in screened[:FINALISTS] if s <= UNEVEN]
    if not measured:
        return None
    least = min(residual for residual, _, _ in measured)
    near = [one for one in measured if one[0] <= max(1.1 * least, RESOLVED)]
    residual, prefix, width = min(near, key=lambda one: one[1])
    others = [r for r, k, w in measured if w != width or (k - prefix) % width]
    beyond = min([rows.flat_residual(prefix), *others])
    if residual > LARGEST_RESIDUAL or max(residual, RESOLVED) > RATIO * beyond:
        return None
    return FoundGrid(((len(table) - prefix) // width, width), prefix, residual, beyond)


@dataclass(frozen=True)
class Placing:
    """Where the rows of a table turn out to stand, and by what it is known."""

    grid: Sides
    prefix: int
    after: int  # rows behind the grid
    reason: str


def find_placing(table: np.ndarray) -> Placing | None:
    """The grid of a table by its lines, or else by its inner products where these are sure."""
    lines = find_lines(table)
    if lines is not None:
        reason = (
            f"similarity to the next row drops every {lines.grid[1]} rows (R² {lines.share:.2f}; "
            f"next best {lines.next_share:.2f})"
        )
        return Placing(lines.grid, lines.prefix, lines.after, reason)
    found = find_grid(table)
    if found is None or min(found.grid) < LEAST_SIDE or found.residual > SURE_RESIDUAL:
        return None
    reason = (
        f"of all grids their inner products suit this one best (residual {found.residual:.2g}, "
        f"the next {found.next_residual:.2g})"
    )
    return Placing(found.grid, found.prefix, 0, reason)


def on_found_grid(enc: Encoding) -> Encoding:
    """A table of rows as points of the grid that it turns out to have, which a note says.

    A formula's grid is part of it, and is not looked for; nor is that of biases and rotations. Rows
    behind a grid are no part of it: such a table stays on one axis, which a warning says. That of
    which a prefix alone was told is looked for, too, and must begin behind it.
    """
    if enc.origin == "formula" or enc.domain.kind != "position" or is_settled(enc):
        return enc
    if enc.act != "add" or len(enc) < LEAST_POINTS:
        return enc
    found, behind = find_placing(enc.table()), enc.domain.prefix
    if found is None:
        return replace(enc, findings=(*enc.findings, *doubts_on_axis(enc)))
    if found.after:
        what = with_rows_behind(enc.table(), found.grid, found.prefix, found.after)
        note = finding("rows-behind-grid", rows=len(enc), what=what)
        return replace(enc, findings=(*enc.findings, note))
    if behind not in (0, found.prefix):
        raise PefourierError(
            f"{shown(enc.label)} is on a grid of {size_of(found.grid)} behind {found.prefix} rows, "
            f"not {behind}; give its grid too (--grid, --from), or leave out --prefix"
        )
    asked = grid_options(found.grid, found.prefix)
    note = finding("grid-found", asked=asked, reason=found.reason, rows=len(enc))
    line = replace(enc, domain=positions(len(enc)))
    whole = on_grid(line, found.grid, found.prefix)
    params = {**whole.params, "grid_found": True}
    return replace(
        whole, params=params, findings=(*enc.findings, note, *may_be_biases(enc, *found.grid))
    )


def is_settled(enc: Encoding) -> bool:
    """Whether rows have a grid that was given, beyond the prefix of one."""
    place = enc.domain
    alone = len(place.grid) == 1 and place.prefix and not enc.params.get("grid")
    return bool(place.grid) and not alone


def doubts_on_axis(enc: Encoding) -> list[Finding]:
    """The note that a table on one axis may be a square of an image; none where it is no such."""
    table, rows = enc.table(), FlatTable(enc.table())
    of_images = OF_IMAGES.search(str(enc.params.get("array") or "").lower()) is not None
    for side, others in squares_with_others(len(enc)):
        if rows.flat_residual(others) <= RESOLVED:
            return []
        if may_be_lines(table, side, others, of_images):
            behind = f" behind {others} more (class, register tokens)" if others else ""
            told = {"rows": len(enc), "side": side, "behind": behind}
            asked = grid_options((side, side), others)
            return [finding("grid-unknown", asked=asked, **told), *may_be_biases(enc, side, side)]
    return []


def may_be_biases(enc: Encoding, *sides: int) -> list[Finding]:
    """The note that points may be displacements within a window, as Swin keeps its biases."""
    named = any(one.code == "biases-as-codes" for one in enc.findings)
    if named or min(side % 2 for side in sides) == 0 or enc.dim > MOST_HEADS:
        return []
    window, grid = size_of([(side + 1) // 2 for side in sides]), size_of(sides)
    return [finding("window-biases", window=window, grid=grid, heads=enc.dim)]


def remarks_on_grids(enc: Encoding) -> list[str]:
    """What is to be said of where rows stand: a grid that was found, rows that do not fit it."""
    return [finding.message for finding in enc.findings if finding.code in OF_PLACES]


def on_common_grid(one: Encoding, two: Encoding) -> tuple[Encoding, Encoding]:
    """Two tables on one grid: one that both have, or, of as many rows, the first or the second.

    Each keeps a grid of several axes that was asked for, and codes of lags or times are left as
    they are.
    """
    pair = on_found_grid(one), on_found_grid(two)
    if len(one) != len(two) and pair[0].domain.sides == pair[1].domain.sides:
        return pair
    lead = max((enc.domain for enc in pair), key=lambda domain: len(domain.grid or ()))
    kinds = {enc.domain.kind for enc in pair}
    if not lead.grid or len(one) != len(two) or kinds != {"position"}:
        return one, two

    def placed_alike(enc: Encoding, found: Encoding) -> Encoding:
        if (found.domain.grid, found.domain.prefix) == (lead.grid, lead.prefix):
            return found
        if len(enc.domain.grid or ()) > 1:
            return enc
        return on_grid(replace(enc, domain=positions(len(enc))), lead.grid, lead.prefix)

    first, second = map(placed_alike, (one, two), pair)
    return first, second


def possible_grids(count: int) -> list[tuple[int, int]]:
    """Prefixes and widths of the grids that so many rows may be, each side of two points or more.

    Two rows of a grid are among the points that are measured.

    >>> possible_grids(9)[:4]
    [(0, 3), (1, 4), (1, 2), (3, 3)]
    """
    found = []
    for prefix in range(min(MOST_PREFIX, count - 4) + 1):
        points = count - prefix
        heights = [h for h in range(2, isqrt(points) + 1) if points % h == 0]
        widths = {w for h in heights for w in (points // h, h) if w <= WIDEST}
        found += [(prefix, w) for w in sorted(widths, reverse=True)]
    return found
