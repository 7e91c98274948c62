"""Curves in a terminal: a line of blocks for each curve."""

from collections.abc import Sequence
from shutil import get_terminal_size
from textwrap import wrap

import numpy as np

from pefourier.errors import shorten
from pefourier.types import Array
from pefourier.writing.text import printable

BLOCKS = " ▁▂▃▄▅▆▇█"
USUAL = 100  # characters per line if the output is not a terminal


def chart(
    title: str, curves: Sequence[tuple[str, Array, Array]], *, logarithmic: bool = False
) -> str:
    """Draw a line of blocks for each curve (label, x, y), as wide as the terminal.

    All lines share both axes. A block has the largest y at its x; between values, y is
    interpolated, and below 1% it is blank. With `logarithmic` the horizontal axis is log x.

    >>> x = np.arange(9.0)
    >>> first, line, *_ = chart("y over x", [("up", x, x)]).splitlines()
    >>> first, line[-9:]
    ('y over x; █ is 8', '█████████')
    """
    columns = get_terminal_size((USUAL, 24)).columns
    names = [shorten(printable(label), columns // 3) for label, *_ in curves]
    margin = max(map(len, names)) + 2
    drawn = [(np.log10(x) if logarithmic else x, np.nan_to_num(y)) for _, x, y in curves]
    every_x, every_y = map(np.concatenate, zip(*drawn, strict=True))
    low, high = every_y.min(initial=0.0), every_y.max(initial=0.0)
    if low == high:
        return f"{title}: nothing to draw\n\n"
    grid = np.linspace(every_x.min(), every_x.max(), max(columns - margin, 8))
    lines = wrap(f"{title}; █ is {high:.3g}", columns)
    for name, (x, y) in zip(names, drawn, strict=True):
        line = np.interp(grid, x, y, low, low)
        nearest = np.rint(np.interp(x, grid, np.arange(len(grid)))).astype(int)
        np.maximum.at(line, nearest, y)
        levels = np.ceil(8 * (line - low) / (high - low) - 0.08).astype(int)
        lines.append(f"{name:<{margin}}{''.join(BLOCKS[k] for k in levels)}".rstrip())
    first, last = (f"{10.0**end if logarithmic else end:.3g}" for end in grid[[0, -1]])
    return "\n".join([*lines, f"{'':{margin}}{first}{last:>{len(grid) - len(first)}}", "", ""])
