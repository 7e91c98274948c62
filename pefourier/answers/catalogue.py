"""What `pefourier list` tells of the registered encodings, read without importing their builders.

catalogue.json holds `encodings.records()`; a test fails when the two differ, and ``make catalogue``
writes it again.
"""

import json
from pathlib import Path
from textwrap import wrap
from typing import Any

from pefourier.answers.text import aligned

FILE = Path(__file__).with_suffix(".json")
SIZES = ("length", "d")  # parameters that every encoding has


def records() -> list[dict[str, Any]]:
    """A JSON object for each registered encoding."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def rows() -> list[list[str]]:
    """A row of words for each registered encoding, the header first."""
    found = [["encoding", "family", "domain", "measure", "source", "parameters"]]
    for r in records():
        own = {key: value for key, value in r["params"].items() if key not in SIZES}
        words = ",".join(key + "=" * bool(as_typed(v)) + as_typed(v) for key, v in own.items())
        found.append([*(r[k] for k in ("encoding", "family", "domain", "measure", "paper")), words])
    return found


def as_typed(value: Any) -> str:
    """A default as a SPEC has it; nothing for what has none.

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
    found = rows()
    lines = aligned([row[:-1] for row in found]).splitlines()
    for i, row in reversed(list(enumerate(found))):
        if i and row[-1]:
            words = row[-1].replace(",", ", ")
            lines[i + 1 : i + 1] = wrap(words, 96, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(lines) + "\n"
