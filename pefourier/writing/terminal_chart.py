"""Curves in a terminal: braille dots with axes."""

from collections.abc import Sequence
from shutil import get_terminal_size
from textwrap import wrap

import numpy as np

from pefourier.errors import shorten
from pefourier.types import Bools, Floats, Places
from pefourier.writing.text import printable

DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])  # of a character
COLOURS = ("\x1b[34m", "\x1b[33m", "\x1b[32m", "\x1b[35m", "\x1b[36m", "\x1b[31m")
SHADES = " ░▒▓█"
PLAIN = "\x1b[0m"
USUAL = 100  # characters per line if the output is not a terminal
MARKS = "●▲■◆▼★"  # distinguish curves without colours
MARGIN = 11  # characters left of the axis

Curve = tuple[str, Floats, Floats]  # label, x and y


def chart(
    curves: Sequence[Curve],
    xlabel: str,
    ylabel: str,
    *,
    height: int = 12,
    colour: bool = True,
    logarithmic: bool = False,
    ylimits: tuple[float, float] | None = None,
) -> str:
    """Draw curves (label, x, y) on common axes as lines of text, as wide as the terminal.

    By default, `ylimits` include all values and 0. With `logarithmic` the horizontal axis shows
    the logarithm of x. Later curves cover earlier ones.
    """
    places = [np.log10(x) if logarithmic else x for _, x, _ in curves]
    values = np.concatenate([y for *_, y in curves])
    known = np.concatenate(places)
    known = known[np.isfinite(known)]
    if not np.isfinite(values).any():
        return f"{ylabel}: nothing to draw\n"
    columns = get_terminal_size((USUAL, 24)).columns
    width = max(columns - MARGIN - 1, 8)
    xlimits, ylimits = (float(known.min()), float(known.max())), ylimits or limits_of(values)
    cells = np.full((height, width), " ", dtype=object)
    labels = []
    for number, ((label, _, y), x) in enumerate(zip(curves, places, strict=True)):
        mark, paint = MARKS[number % len(MARKS)], COLOURS[number % len(COLOURS)]
        dots, points = raster(x, y, xlimits, ylimits, 2 * width, 4 * height)
        blocks = dots.reshape(height, 4, width, 2)
        for place in zip(
            *np.nonzero(bits := (blocks * DOTS[:, None, :]).sum(axis=(1, 3))), strict=True
        ):
            letter = chr(0x2800 + int(bits[place]))
            cells[place] = f"{paint}{letter}{PLAIN}" if colour else letter
        for row, column in points[number :: max(len(points) // 5, 1)] if not colour else ():
            cells[row // 4, column // 2] = mark
        sign = f"{paint}━━{PLAIN}" if colour else mark
        labels.append(f"{sign} {shorten(printable(label), columns - 4)}")
    ends = [f"{end:.4g}" for end in (10.0 ** np.array(xlimits) if logarithmic else xlimits)]
    heights = [f"{ylimits[1]:.3g}", *[""] * (height - 2), f"{ylimits[0]:.3g}"]
    rows = [
        f"{mark:>{MARGIN - 1}} {'┤' if mark else '│'}{''.join(row)}"
        for mark, row in zip(heights, cells, strict=True)
    ]
    below = ends[0] + ends[1].rjust(width - len(ends[0]))
    lines = [*wrap(ylabel, columns), *rows, " " * MARGIN + "└" + "─" * width]
    lines += [" " * (MARGIN + 1) + below, f"{' ' * (MARGIN + 1)}{xlabel}"[:columns], *labels]
    return "\n".join(lines) + "\n"


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


def raster(
    x: Floats,
    y: Floats,
    xlimits: tuple[float, float],
    ylimits: tuple[float, float],
    columns: int,
    rows: int,
) -> tuple[Bools, Places]:
    """Return the dots (rows, columns) of a polyline, the first row on top, and its places."""
    dots, good = np.zeros((rows, columns), dtype=bool), np.isfinite(x) & np.isfinite(y)
    ends = [
        np.rint((v[good] - low) / (high - low or 1.0) * (count - 1))
        for v, (low, high), count in ((y, ylimits, rows), (x, xlimits, columns))
    ]
    steps = np.maximum(*(np.abs(np.diff(end)) for end in ends))
    path = np.concatenate([[0.0], np.cumsum(steps)])  # in steps from the start
    if good.any():
        along = np.arange(path[-1] + 1)
        row, column = (np.rint(np.interp(along, path, end)).astype(int) for end in ends)
        places = np.stack([rows - 1 - row, column], axis=1)
        dots[tuple(places.T)] = True
        return dots, places
    return dots, np.zeros((0, 2), dtype=np.int64)
