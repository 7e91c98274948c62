"""Columns and paragraphs of text, and numbers in few digits."""

from collections.abc import Sequence
from math import isfinite
from shutil import get_terminal_size
from textwrap import wrap

WIDEST = 96  # letters of a line that is read with ease
UNITS = {"k": 2**10, "M": 2**20}  # as context lengths are told: 128k is 131072


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells in columns of equal width, two spaces apart."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def paragraph(text: str, indent: str = "") -> str:
    r"""Lines as wide as the terminal, at most `WIDEST`, those after the first indented.

    >>> paragraph("codes " * 20, "    ").splitlines()[1]
    '    codes codes codes codes'
    """
    width = max(min(WIDEST, get_terminal_size((WIDEST, 24)).columns), 24)
    lines = wrap(
        text, width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )
    return "\n".join(lines) + "\n"


def number(value: float | int | bool | str | None, digits: int = 4, missing: str = "–") -> str:
    """A value for a person: few digits for a float, `missing` where there is none.

    >>> number(0.1069871), number(5.2e-107), number(None), number(True), number(131072)
    ('0.107', '5.2e-107', '–', 'yes', '131072')
    """
    if value is None or (isinstance(value, float) and not isfinite(value)):
        return missing
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


def whole_number(text: str) -> int | None:
    """A whole number as people write it: digits, 3e5, 128k or 1M; None for any other text.

    >>> whole_number("128k"), whole_number("3e5"), whole_number("1.5")
    (131072, 300000, None)
    """
    unit = UNITS.get(text[-1:].replace("K", "k").replace("m", "M"), 1)
    digits = text[:-1] if unit > 1 else text
    try:
        value = int(digits) if digits.lstrip("+-").isdecimal() else float(digits)
    except ValueError:
        return None
    exact = isinstance(value, int) or (isfinite(value) and abs(value) <= 2**53)
    return int(value * unit) if exact and value * unit % 1 == 0 else None
