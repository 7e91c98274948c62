"""Grids: whether the rows of an encoding fit a grid, and positions placed on a grid.

The sides of a grid start with the slowest axis, such as 14x14 (rows, columns) or 8x30x52 (frames,
rows, columns). Each point is a row of the table, in raster order, after `prefix` other rows.
"""

import math
import re
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from pefourier.encodings.encoding import (
    Domain,
    Encoding,
    Measure,
    finding,
    from_table,
    lags_on,
    lattice,
    positions,
    without_prefix,
)
from pefourier.errors import MAX_HEADS as MAX_HEADS
from pefourier.errors import OtherGrid, PefourierError, check_count, shown
from pefourier.types import Array, Counts, Fields, Ints, Table

OF_CLASS_TOKEN = 3  # rows for the class token: from it, to it, with itself (BEiT)
LONGEST_SIDE = 2  # longer side over shorter side, at most, of a proposed grid
USUAL_PREFIX = 8  # rows before a proposed grid, at most
IMAGE_PREFIXES = (0, 1, 2, 4, 5)  # class, distillation and register tokens
MIN_SQUARE = 7  # side of an image that a row count suggests
IMAGE_NAME = re.compile(r"vision|visual|image|patch|pos_embed|\bvit\b")  # names of arrays
LINES, CONTRAST = 16, 0.9  # lines of a grid that are tested; chance gives 0.5
BIAS_CODES = ("biases-as-codes", "lags-as-codes")


def size_of(sides: Ints) -> str:
    """Format sides as typed on the command line.

    >>> size_of((8, 30, 52))
    '8x30x52'
    """
    return "x".join(map(str, sides))


def grid_options(sides: Ints, prefix: int, option: str = "--grid") -> str:
    """Format the options that place rows on a grid.

    >>> grid_options((14, 14), 1)
    '--grid 14x14 --prefix 1'
    """
    return f"{option} {size_of(sides)}" + (f" --prefix {prefix}" if prefix else "")


def count_points(sides: Ints, prefix: int = 0) -> int:
    """Number of rows of a table on a grid; 0 without a grid."""
    return prefix + math.prod(sides) if sides else 0


def grid_of(length: int, sides: Ints, prefix: int) -> Domain:
    """Return the domain of an encoding built for `length` rows: a grid if sides are given.

    >>> len(grid_of(13, (3, 4), 1)), grid_of(80, (), 0).grid
    (13, ())
    """
    check_sides("a grid", sides, prefix, None)
    if not sides and not prefix:
        return positions(length)
    check_fit(f"length {length}", length, sides, prefix)
    return lattice(sides or (length - prefix,), prefix)


def check_sides(spec: str, sides: Ints, prefix: int, length: int | None) -> None:
    """Refuse an invalid grid or prefix, or a length that contradicts them."""
    for side in sides:
        check_count("a side of --grid", side)
    check_count("prefix", prefix, minimum=0)
    if length is not None:
        check_fit(f"{shown(spec)} with --length {length}", length, sides, prefix)


def check_fit(subject: str, rows: int, sides: Ints, prefix: int) -> None:
    """Refuse a grid with a different number of points than rows, and propose a grid that fits."""
    if not sides and prefix >= rows:
        raise PefourierError(f"{subject}: --prefix must be less than {rows} rows; got {prefix}")
    points = count_points(sides, prefix)
    if sides and points != rows:
        behind = f" after {prefix} rows" if prefix else ""
        fact = f"{subject}: {rows} rows do not fit a grid of {size_of(sides)}{behind}"
        raise OtherGrid(f"{fact}, {points} points", f"{grid_options(*usual_grid(rows))} would fit")


def usual_grid(rows: int, prefix: int = 0) -> tuple[Counts, int]:
    """Return the most likely grid for a number of rows, and its prefix, `prefix` if nonzero.

    This is a square after the fewest rows, or else a grid with sides that differ at most by a
    factor of 2.

    >>> usual_grid(197), usual_grid(161), usual_grid(77)
    (((14, 14), 1), ((10, 16), 1), ((7, 11), 0))
    """
    behind = [prefix] if prefix else range(min(USUAL_PREFIX, rows - 1) + 1)
    grids = [(most_square(rows - count), count) for count in behind]
    squares = [place for place in grids if place[0][0] == place[0][1] >= MIN_SQUARE]
    slender = [place for place in grids if place[0][1] <= LONGEST_SIDE * place[0][0]]
    return next(iter((*squares, *slender)), (most_square(rows - prefix), prefix))


def most_square(count: int) -> Counts:
    """Return the two sides of a grid of `count` points with the smallest difference.

    >>> most_square(77), most_square(13)
    ((7, 11), (1, 13))
    """
    height = next(h for h in range(math.isqrt(count), 0, -1) if count % h == 0)
    return height, count // height


def on_grid(enc: Encoding, sides: Ints, prefix: int) -> Encoding:
    """Place the rows of an encoding of positions on the points of a grid, in raster order.

    >>> from pefourier.encodings import build
    >>> on_grid(build("rope", length=12, d=2), (3, 4), 0).measure.frequencies
    array([[4., 1.]])
    """
    sides = tuple(sides)
    if enc.domain.grid:
        built_sides = tuple(enc.params.get("grid") or enc.domain.grid)
        if sides not in ((), built_sides) or prefix not in (0, enc.domain.prefix):
            raise PefourierError(
                f"{shown(enc.label)} already has a grid of {size_of(built_sides)}; leave out --grid"
            )
        return enc
    if enc.domain.kind != "position":
        raise PefourierError(
            f"--grid needs an encoding of positions; {shown(enc.label)} encodes a {enc.domain.kind}"
        )
    fits = not sides or len(enc) == count_points(sides, prefix)
    window = None if fits or prefix or enc.origin != "file" else window_of_rows(enc, sides)
    if window:
        params = {**enc.params, "grid": window, "prefix": 0}
        facts: Fields = {"params": params, "eps": enc.eps}
        behind = len(enc) - len(lags_on(window))
        doubts = [f for f in enc.findings if f.code != "biases-as-codes"]  # resolved by the window
        note = (
            "rows are numbered by displacements key - query: row r is row "
            f"{len(enc) - 1} - r of the file"
        )
        if behind:
            note += f", and rows 0 to {behind - 1} are its last rows, of a class token"
        facts["findings"] = [*doubts, finding("grid-convention", note=note)]
        facts["injection"] = "bias" if enc.dim <= MAX_HEADS else "key"
        return biases_within(window, enc.table(), enc.name, origin="file", spec=enc.spec, **facts)
    check_fit(shown(enc.label), len(enc), sides, prefix)
    domain = lattice(sides or (len(enc) - prefix,), prefix)
    params = {**enc.params, "grid": sides, "prefix": prefix}
    measure = raster_measure(enc.measure, domain) if enc.measure else enc.measure
    return replace(enc, domain=domain, params=params, measure=measure)


def with_grid_note(enc: Encoding) -> Encoding:
    """Add a note to a table if its rows may be the points of a square image.

    The number of rows must be a square plus a usual number of tokens. In addition, rows must be
    less similar across the ends of lines than within lines, or the array must be named as an image.
    """
    is_flat = enc.domain.kind == "position" and not enc.domain.grid and enc.injection == "add"
    if not is_flat or enc.origin == "formula" or any(f.code in BIAS_CODES for f in enc.findings):
        return enc
    is_image = IMAGE_NAME.search(str(enc.params.get("array") or "").lower())
    for prefix in IMAGE_PREFIXES:
        side = math.isqrt(max(len(enc) - prefix, 0))
        if side < MIN_SQUARE or side**2 + prefix != len(enc):
            continue
        if is_image or line_contrast(enc.table()[prefix:], side) >= CONTRAST:
            slots = {"asked": grid_options((side, side), prefix), "rows": len(enc), "side": side}
            notes = [finding("grid-unknown", **slots)]
            if side % 2 and not prefix and enc.dim <= MAX_HEADS:
                notes.append(finding("window-biases", window=(side + 1) // 2, heads=enc.dim))
            return replace(enc, findings=(*enc.findings, *notes))
    return enc


def line_contrast(table: Table, width: int) -> float:
    """How often neighbours across the end of a line are less similar than neighbours in a line.

    A share of all comparisons between the two groups (area under the ROC curve); 0.5 by chance.

    >>> from pefourier.encodings import build
    >>> table = build("axial", d=32, grid=(7, 11)).table()
    >>> line_contrast(table, 11), line_contrast(table, 7) < 0.7
    (1.0, True)
    """
    rows = np.array(table[: LINES * width], dtype=float)
    rows = rows[: len(rows) // width * width]
    rows -= rows.mean(axis=0)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    rows /= np.where(norms == 0, 1.0, norms)
    cosines = np.append(np.einsum("nd,nd->n", rows[1:], rows[:-1]), np.nan).reshape(-1, width)
    within, across = cosines[:, :-1].ravel(), cosines[:-1, -1]
    return float((across[:, None] < within - 1e-9).mean()) if across.size else 0.5


def rows_before(rows: int, domain: Domain) -> int | None:
    """Return how many of the rows stand before the points of a grid; None if they are too many."""
    before = domain.prefix + rows - len(domain.x)
    return before if 0 <= before <= domain.prefix + max(IMAGE_PREFIXES) else None


def on_common_grid(a: Encoding, b: Encoding) -> tuple[Encoding, Encoding]:
    """Place an encoding with one axis on the grid of the other if their numbers of rows agree.

    It may have other rows before the points of the grid, such as that of a class token. Those of
    a rotation do not turn, so a table may leave them out.
    """

    def placed(enc: Encoding, lead: Encoding) -> Encoding:
        grid, before = lead.domain.grid, rows_before(len(enc), lead.domain)
        is_line = len(enc.domain.grid) < 2 and before is not None
        if not (grid and is_line and enc.domain.kind == lead.domain.kind == "position"):
            return enc
        return on_grid(replace(enc, domain=positions(len(enc))), grid, before or 0)

    a, b = placed(a, b), placed(b, a)
    if a.domain.grid == b.domain.grid and "rotate" in (a.injection, b.injection):
        if not (a.domain.prefix and b.domain.prefix):
            return without_prefix(a), without_prefix(b)
    return a, b


def window_of_rows(enc: Encoding, sides: Counts) -> Counts:
    """Return the window if rows are its biases, maybe with those of a class token; otherwise ().

    `sides` may be those of the window or, with a class token, those of its displacements.
    """
    odd = tuple((side + 1) // 2 for side in sides if side % 2)
    lags = math.prod(2 * side - 1 for side in sides)
    rows = {lags + extra: sides for extra in (0, OF_CLASS_TOKEN)}
    rows |= {math.prod(sides) + OF_CLASS_TOKEN: odd} if len(odd) == len(sides) else {}
    return rows.get(len(enc), ()) if enc.dim <= MAX_HEADS or len(sides) == 1 else ()


def biases_within(
    window: Counts,
    bias: Table,
    name: str,
    *,
    injection: Literal["bias", "key"] = "bias",
    **facts: Any,
) -> Encoding:
    """Encoding of a window's biases from weights, with rows ordered by displacement query - key.

    With injection ``key`` the rows are vectors, and their products with queries are added to the
    attention scores (SAM).
    """
    points = len(lags_on(window))
    enc = from_table(np.vstack([bias[points:], bias[:points][::-1]]), name, **facts)
    return replace(enc, domain=lags_on(window, prefix=len(bias) - points), injection=injection)


def as_stored(enc: Encoding, rows: Array) -> Array:
    """Return rows of an encoding in the order of its weights.

    A window's biases are ordered by query - key, with rows of class tokens last.
    """
    if enc.origin not in ("weights", "file") or enc.domain.kind != "lag" or not enc.domain.grid:
        return rows
    behind = enc.domain.prefix
    return np.concatenate([rows[behind:][::-1], rows[:behind]])


def raster_measure(measure: Measure, domain: Domain) -> Measure:
    """Convert frequencies of the row index to vectors: a step along an axis is several rows."""
    strides = np.array([math.prod(domain.sides[axis + 1 :]) for axis in range(len(domain.sides))])
    offset = np.zeros(len(strides), dtype=type(measure.offset))
    offset[-1] = measure.offset + domain.prefix
    frequencies = np.multiply.outer(measure.frequencies, strides)
    if len(strides) == 1:
        return replace(measure, frequencies=frequencies[:, 0], offset=offset[0])
    return replace(measure, frequencies=frequencies, offset=offset)
