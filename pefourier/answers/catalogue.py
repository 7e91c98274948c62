"""What `pefourier list` says of the registered encodings, read without importing their builders.

catalogue.json holds `encodings.specs.records()`; a test fails when the two differ, and ``make
catalogue`` writes it again.
"""

import json
from pathlib import Path
from textwrap import wrap
from typing import Any

from pefourier.answers.page import Page
from pefourier.answers.text import aligned

FILE = Path(__file__).with_suffix(".json")
SIZES = ("length", "d")  # parameters that every encoding has


def read_catalogue() -> list[dict[str, Any]]:
    """A JSON object for each registered encoding."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def catalogue_page() -> Page:
    """The answer of `pefourier list`."""
    return Page("list", words=text, records=read_catalogue, rows=rows)


def rows() -> list[list[str]]:
    """A row of words for each registered encoding, the header first."""
    table = [["encoding", "family", "domain", "measure", "source", "parameters"]]
    for record in read_catalogue():
        words = [record[key] for key in ("encoding", "family", "domain", "measure", "paper")]
        own = {key: value for key, value in record["params"].items() if key not in SIZES}
        table.append([*words, ",".join(assignment(*item) for item in own.items())])
    return table


def assignment(key: str, value: Any) -> str:
    """A parameter with its default, or alone where it has none.

    >>> assignment("rho", 10000.0), assignment("times", None)
    ('rho=10000.0', 'times')
    """
    typed = as_typed(value)
    return f"{key}={typed}" if typed else key


def as_typed(value: Any) -> str:
    """A default as it would be typed in a SPEC; empty where there is none.

    >>> as_typed([0.7, 0.5]), as_typed(False), as_typed(None)
    ('0.7;0.5', 'false', '')
    """
    if isinstance(value, list):
        return ";".join(map(as_typed, value))
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def text() -> str:
    """A line for each registered encoding, its parameters under it."""
    table = rows()
    top, *lines = aligned([row[:-1] for row in table]).splitlines()
    parts = [top]
    for line, row in zip(lines, table[1:], strict=True):
        words = row[-1].replace(",", ", ")
        indent = "    "
        parts += [line, *wrap(words, 96, initial_indent=indent, subsequent_indent=indent)]
    return "\n".join(parts) + "\n"
