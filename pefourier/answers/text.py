"""Columns of text: cells side by side, and numbers in few digits."""

from collections.abc import Sequence
from math import isfinite


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells in columns of equal width, two spaces apart."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def number(value: float | int | bool | str | None, digits: int = 4) -> str:
    """A value for a person: a dash where there is none, few digits for a float.

    >>> number(0.1069871), number(5.2e-107), number(None), number(True), number(131072)
    ('0.107', '5.2e-107', '–', 'yes', '131072')
    """
    if value is None or (isinstance(value, float) and not isfinite(value)):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)
