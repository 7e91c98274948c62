"""How answers look: JSON, CSV and columns of text, made of plain Python values."""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

from pefourier import __version__


def as_json(command: str, results: Sequence[Any]) -> str:
    """The JSON answer of a command."""
    answer = {"command": command, "version": __version__, "results": results}
    return json.dumps(answer, allow_nan=False) + "\n"


def as_csv(rows: Iterable[Iterable[Any]]) -> str:
    """Rows, the header first, as comma-separated text with full precision.

    >>> as_csv([["n", "share"], [3, 0.1], [4, None]])
    'n,share\\n3,0.1\\n4,\\n'
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(
        ["" if cell is None else cell for cell in row] for row in rows
    )
    return text.getvalue()


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells in columns of equal width, two spaces apart."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines) + "\n"
