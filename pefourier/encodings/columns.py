"""The order of sines and cosines in the columns of a table.

Conventions
-----------
A pair is a sine and a cosine of the same phase. Interleaved: the two columns of a pair are
adjacent. Halves: the first columns of all pairs precede the second columns. Either the sines or the
cosines come first. The analysis does not depend on the order; rotations do. The reference order is
interleaved, sines first, pairs in the order of their phases.
"""

import re
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pefourier.encodings.encoding import Encoding
from pefourier.errors import PefourierError
from pefourier.types import Array, Counts, Floats, Ints, Places

Layout = Literal["interleaved", "halves"]
Wave = Literal["sin", "cos"]
Interleaving = bool | Literal["rows"]  # of the axes' pairs: cyclic, or only those of y and x
Order = tuple[Layout, Wave]
Columns = tuple[NDArray[np.int64], NDArray[np.int64]]  # first and second column of each pair


def pair_columns(layout: Layout, pairs: int) -> tuple[slice, slice]:
    """First and second columns of the pairs, as slices.

    >>> pair_columns("halves", 3)
    (slice(0, 3, None), slice(3, 6, None))
    """
    if layout == "interleaved":
        return slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)
    return slice(0, pairs), slice(pairs, 2 * pairs)


def columns_of_blocks(layout: str, sizes: Ints) -> Columns:
    """First and second columns of the pairs, for blocks of `sizes` pairs.

    The layouts interleaved and halves ignore blocks; all other layouts use halves in each block.

    >>> columns_of_blocks("axis-halves", (1, 2))
    (array([0, 2, 3]), array([1, 4, 5]))
    """
    counts = np.array([sum(sizes)] if layout == "halves" else sizes)
    pair = np.arange(counts.sum())
    if layout == "interleaved":
        return 2 * pair, 2 * pair + 1
    begin = np.repeat(np.cumsum(counts) - counts, counts)  # first pair of each pair's block
    return begin + pair, begin + pair + np.repeat(counts, counts)


def rotated_columns(enc: Encoding) -> Columns:
    """First and second columns of the pairs of a rotation, in the order of its phases."""
    layout, sizes = enc.params.get("layout", "halves"), [enc.dim // 2]
    if layout == "axis-halves" and len(enc.domain.sides) > 1:
        axis = np.argmax(enc.measure.frequencies != 0, axis=1)
        sizes = np.diff(np.flatnonzero(np.diff(axis, prepend=-1, append=-1))).tolist()
    return columns_of_blocks(layout, sizes)


def waves(phases: Floats, layout: Layout, first: Wave = "sin", d: int | None = None) -> Floats:
    """Sines and cosines of (n, m) phases in d columns, by default 2m.

    If d = 2m - 1, the last pair has no second column; columns beyond 2m are zero.

    >>> waves(np.zeros((1, 2)), "halves", first="cos", d=5)
    array([[1., 1., 0., 0., 0.]])
    """
    n, pairs = phases.shape
    table = np.zeros((n, 2 * pairs if d is None else d))
    functions = (np.sin, np.cos) if first == "sin" else (np.cos, np.sin)
    for place, function in zip(pair_columns(layout, pairs), functions, strict=True):
        columns = table[:, place]
        columns[:] = function(phases[:, : columns.shape[1]])
    return table


def split_pairs(table: Array, layout: Layout) -> tuple[Array, Array]:
    """Split a table (n, d) into the first and second columns of its pairs, views (n, d // 2)."""
    first, second = pair_columns(layout, table.shape[1] // 2)
    return table[:, first], table[:, second]


def exchanged(table: Array, layout: Layout) -> Array:
    """Return a copy of the table with the two columns of each pair swapped.

    >>> exchanged(np.array([[1, 2, 3, 4, 0]]), "halves")
    array([[3, 4, 1, 2, 0]])
    """
    result = table.copy()
    first, second = split_pairs(result, layout)
    second[:], first[:] = split_pairs(table, layout)
    return result


def orders(d: int) -> dict[Order, Places]:
    """Map layout and first function to the reference column of each of d columns.

    If d is odd, the last sine has no cosine; the interleaved order with cosines first is left out.

    >>> orders(5)["halves", "cos"]
    array([1, 3, 0, 2, 4])
    """
    j = np.arange(d)
    sines, cosines = j[::2], j[1::2]
    return {
        ("interleaved", "sin"): j,
        **({} if d % 2 else {("interleaved", "cos"): j ^ 1}),
        ("halves", "sin"): np.concatenate([sines, cosines]),
        ("halves", "cos"): np.concatenate([cosines, sines]),
    }


CHANGES: dict[str, tuple[Order, Order]] = {  # from one order to another
    "interleaved to halves": (("interleaved", "sin"), ("halves", "sin")),
    "halves to interleaved": (("halves", "sin"), ("interleaved", "sin")),
    "halves exchanged": (("halves", "cos"), ("halves", "sin")),
    "neighbours exchanged": (("interleaved", "sin"), ("interleaved", "cos")),
}


def changes_by_name(d: int) -> dict[str, Places]:
    """Map named changes of the order of d columns to the old column of each new column.

    >>> changes_by_name(4)["halves exchanged"]
    array([2, 3, 0, 1])
    """
    column_orders = orders(d)
    return {
        name: np.argsort(column_orders[old])[column_orders[new]]
        for name, (old, new) in CHANGES.items()
        if old in column_orders and new in column_orders
    }


AXES = "tyx"


def describe_axes(axis: Places) -> str:
    """Describe which axis rotates each pair, with runs and repeated cycles of axes merged.

    >>> describe_axes(np.repeat([0, 1, 2], [16, 24, 24])), describe_axes(np.arange(64) % 3)
    ('16 t + 24 y + 24 x', '21 × (t, y, x) + 1 t')
    """
    letters = "".join((AXES + "e")[i] for i in axis)
    runs = re.finditer(r"(.{1,3}?)\1+|(.)", letters)
    parts = ((run[1] or run[2], len(run[0])) for run in runs)
    counts = [(n // len(unit), ", ".join(unit)) for unit, n in parts]
    return " + ".join(f"{n} × ({axes})" if "," in axes else f"{n} {axes}" for n, axes in counts)


def axes_of_sections(sections: Counts, interleaved: Interleaving, pairs: int) -> Places:
    """Index of the axis (t, y, x) that rotates each pair: in blocks, cyclic, or as in Ernie 4.5.

    The sections of Ernie 4.5 count pairs of rows, columns and frames. Rows and columns alternate,
    and the pairs of frames follow.

    >>> axes_of_sections((2, 1, 1), interleaved=True, pairs=4)
    array([0, 1, 2, 0])
    >>> axes_of_sections((2, 2, 1), interleaved="rows", pairs=5)
    array([1, 2, 1, 2, 0])
    """
    fits = sum(sections) <= pairs if interleaved is True else sum(sections) == pairs
    if len(sections) != 3 or not fits or (interleaved == "rows" and sections[0] != sections[1]):
        condition = ", the first two equal" if interleaved == "rows" else ""
        raise PefourierError(
            f"mrope_section must be three numbers with sum {pairs}{condition}; got {list(sections)}"
        )
    if interleaved == "rows":
        return np.array([1, 2] * sections[0] + [0] * sections[2])
    if not interleaved:
        return np.repeat(np.arange(3), sections)
    cycle = np.arange(pairs) % 3  # t rotates the pairs beyond a section, as in transformers
    return np.where(np.arange(pairs) < 3 * np.array(sections)[cycle], cycle, 0)
