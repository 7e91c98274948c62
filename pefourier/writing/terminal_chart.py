"""Curves in a terminal: braille dots with axes."""

from collections.abc import Sequence
from shutil import get_terminal_size
from textwrap import wrap

import numpy as np
from numpy.typing import NDArray

from pefourier.errors import shorten
from pefourier.types import Bools, Floats, Strings
from pefourier.writing.text import printable

# Bits of the eight dots of a braille character, by row from the top and column from the left.
DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
COLOURS = ("\x1b[34m", "\x1b[33m", "\x1b[32m", "\x1b[35m", "\x1b[36m", "\x1b[31m")
SHADES = " ░▒▓█"
PLAIN = "\x1b[0m"
SEVERAL = -1  # owner of dots that several curves share
USUAL = 100  # characters per line if the output is not a terminal
MARKS = "●▲■◆▼★"  # distinguish curves without colours

Integers = NDArray[np.int64]
Curve = tuple[str, Floats, Floats]  # label, x and y
Limits = tuple[float, float]


def chart(
    curves: Sequence[Curve],
    xlabel: str,
    ylabel: str,
    *,
    width: int | None = None,
    height: int = 12,
    colour: bool = True,
    logarithmic: bool = False,
    ylimits: tuple[float, float] | None = None,
) -> str:
    """Draw curves (label, x, y) on common axes as lines of text, as wide as the terminal.

    By default, `ylimits` include all values and 0. With `logarithmic` the horizontal axis shows
    the logarithm of x. Dots that several curves share are drawn without a colour.

    >>> print(chart([("y = x", np.arange(3.0), np.arange(3.0))], "x", "y",
    ...             width=4, height=2, colour=False))
    y
     2 ┤⠀⠀⡠⠊
     0 ┤⡠⠊⠀⠀
       └────
        0  2  x
    ● y = x
    """
    if logarithmic:
        curves = [(label, np.log10(x), y) for label, x, y in curves]
    x = np.concatenate([curve[1] for curve in curves])
    y = np.concatenate([curve[2] for curve in curves])
    x, y = x[np.isfinite(x)], y[np.isfinite(y)]
    if len(y) == 0:
        return f"{ylabel}: nothing to draw\n"
    start, right = float(x.min()), float(x.max())
    low, high = ylimits or limits_of(y)
    columns = get_terminal_size((USUAL, 24)).columns
    width = width or max(columns - margin_of(low, high) - 3, 8)
    cells, owner = draw_curves(curves, (start, right), (low, high), width, height)
    rows = [
        paint_row(line, owners, colour=colour) for line, owners in zip(cells, owner, strict=True)
    ]
    if not colour and len(curves) > 1:
        rows = with_marks(rows, curves, (start, right), (low, high))
    ends = (10.0**start, 10.0**right) if logarithmic else (start, right)
    lines = draw_frame(rows, width, ends, (low, high), xlabel, ylabel, columns)
    labels = [printable(label) for label, _, _ in curves]
    return "\n".join(lines) + legend(labels, columns, colour=colour)


def shades(values: Floats, label: str, limit: int = 32) -> str:
    """Draw numbers (rows, columns) as shades: two characters per number, blank at 0 or below.

    If there are more than `most` rows or columns, or more than fit on the terminal, each cell shows
    the maximum of several neighbours.

    >>> print(shades(np.array([[0.0, 0.5], [0.1, 1.0]]), "two by two"))
    two by two; █ is 1
    │  ▒▒│
    │░░██│
    """
    columns = get_terminal_size((USUAL, 24)).columns
    limit = min(limit, max((columns - 2) // 2, 1))
    for axis in (0, 1):
        starts = np.linspace(0, values.shape[axis], min(limit, values.shape[axis]) + 1).astype(int)
        values = np.maximum.reduceat(values, starts[:-1], axis=axis)
    top = float(np.nanmax(values, initial=0.0))
    if not top > 0:
        return f"{label}: nothing to draw\n"
    level = np.ceil(np.clip(values / top, 0, 1) * (len(SHADES) - 1) - 1e-9).astype(int)
    level = np.where(values < top / 100, 0, level)
    rows = ["│" + "".join(2 * SHADES[k] for k in row) + "│" for row in level]
    return "\n".join([*wrap(f"{label}; █ is {top:.3g}", columns), *rows, ""])


def limits_of(values: Floats) -> tuple[float, float]:
    """Return the limits of finite values: the smallest value or 0, and the largest value.

    >>> limits_of(np.array([0.5, np.nan, 1.0]))
    (0.0, 1.0)
    """
    finite = values[np.isfinite(values)]
    return float(finite.min(initial=0.0)), float(finite.max(initial=0.0))


def margin_of(low: float, high: float) -> int:
    """Return the number of characters left of the vertical axis."""
    return max(len(f"{value:.3g}") for value in (low, high)) + 1


def draw_curves(
    curves: Sequence[Curve], xlimits: Limits, ylimits: Limits, width: int, height: int
) -> tuple[Integers, Integers]:
    """Return braille bits (height, width) of all curves, and the owner of each cell."""
    cells = np.zeros((height, width), dtype=np.int64)
    owner = np.zeros((height, width), dtype=np.int64)
    for number, (_, x, y) in enumerate(curves):
        bits = braille_bits(raster(x, y, xlimits, ylimits, 2 * width, 4 * height))
        owner[bits > 0] = np.where(cells > 0, SEVERAL, number)[bits > 0]
        cells |= bits
    return cells, owner


def raster(
    x: Floats, y: Floats, xlimits: Limits, ylimits: Limits, columns: int, rows: int
) -> Bools:
    """Return the dots (rows, columns) of a polyline through points, with the first row on top."""
    dots = np.zeros((rows, columns), dtype=bool)
    good = np.isfinite(x) & np.isfinite(y)
    if not good.any():
        return dots
    column = index_between(x[good], xlimits, columns)
    row = rows - 1 - index_between(y[good], ylimits, rows)
    steps = np.maximum(np.abs(np.diff(column)), np.abs(np.diff(row)))
    vertices = np.concatenate([[0], np.cumsum(steps)])  # in steps from the start of the polyline
    path = np.arange(vertices[-1] + 1)
    places = (np.rint(np.interp(path, vertices, ends)).astype(int) for ends in (row, column))
    dots[tuple(places)] = True
    return dots


def index_between(values: Floats, limits: Limits, count: int) -> Integers:
    """Return the index 0 … count - 1 of each value between the limits."""
    low, high = limits
    share: Floats = (values - low) / (high - low) if high > low else np.zeros(len(values))
    return np.rint(share * (count - 1)).astype(np.int64)


def braille_bits(dots: Bools) -> Integers:
    """Return braille bits (height, width) of dots (4 height, 2 width)."""
    blocks = dots.reshape(dots.shape[0] // 4, 4, dots.shape[1] // 2, 2)
    return np.asarray((blocks * DOTS[:, None, :]).sum(axis=(1, 3)))


def paint_row(bits: Integers, owner: Integers, *, colour: bool) -> str:
    """Return a row of braille characters, each in the colour of its curve."""
    letters = [chr(0x2800 + int(b)) for b in bits]
    if not colour:
        return "".join(letters)
    return "".join(
        f"{COLOURS[o % len(COLOURS)]}{letter}{PLAIN}" if b and o != SEVERAL else letter
        for letter, b, o in zip(letters, bits, owner, strict=True)
    )


def with_marks(
    rows: list[str], curves: Sequence[Curve], xlimits: Limits, ylimits: Limits
) -> list[str]:
    """Add each curve's mark at a few of its points, for output without colours."""
    grid = [list(row) for row in rows]
    width, height = len(grid[0]), len(grid)
    for number, (_, x, y) in enumerate(curves):
        good = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
        for share in (np.arange(5) + (number + 0.5) / len(curves)) / 5:
            i = good[int(share * len(good))] if len(good) else None
            if i is not None:
                column = index_between(x[i : i + 1], xlimits, 2 * width)[0] // 2
                row = (4 * height - 1 - index_between(y[i : i + 1], ylimits, 4 * height)[0]) // 4
                if grid[row][column] not in MARKS:  # keep the mark of another curve
                    grid[row][column] = MARKS[number % len(MARKS)]
    return ["".join(row) for row in grid]


def draw_frame(
    rows: Strings,
    width: int,
    xlimits: Limits,
    ylimits: Limits,
    xlabel: str,
    ylabel: str,
    columns: int,
) -> list[str]:
    """Draw axes around rows, with limits at their ends and the label next to or below them."""
    low, high = ylimits
    margin = margin_of(low, high)
    top, bottom = f"{high:.3g}", f"{low:.3g}"
    marks = [top, *[""] * (len(rows) - 2), bottom][: len(rows)]
    lines = wrap(ylabel, columns)
    for mark, row in zip(marks, rows, strict=True):
        lines.append(f"{mark:>{margin}} {'┤' if mark else '│'}{row}")
    first, last = f"{xlimits[0]:.4g}", f"{xlimits[1]:.4g}"
    lines.append(" " * margin + " └" + "─" * width)
    gap = " " * max(width - len(first) - len(last), 1)
    line = f"{' ' * margin}  {first}{gap}{last}"
    fits = len(line) + 2 + len(xlabel) <= columns
    under = [] if fits else [f"{' ' * margin}  {xlabel}"[:columns]]
    return [*lines, f"{line}  {xlabel}" if fits else line, *under, ""]


def legend(labels: Strings, columns: int, *, colour: bool) -> str:
    """Return the names of curves after their colours or marks, within the terminal's width."""
    lines, room = [""], 0
    for i, label in enumerate(labels):
        mark = f"{COLOURS[i % len(COLOURS)]}━━{PLAIN}" if colour else MARKS[i % len(MARKS)]
        size = (2 if colour else 1) + 1 + len(label)
        if lines[-1] and room + 3 + size > columns:
            lines.append("")
            room = 0
        gap = "   " if lines[-1] else ""
        lines[-1] += f"{gap}{mark} {shorten(label, columns - 4)}"
        room += len(gap) + size
    return "\n".join(lines) + "\n"
