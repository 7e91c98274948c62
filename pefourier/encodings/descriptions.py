"""What a builder's docstring says: summary, formula, meanings of parameters and an example.

`records` in specs.py puts all of it into the catalogue that `pefourier list` and `explain` read.
"""

import inspect
import re
from collections.abc import Callable
from typing import Any

SECTION = re.compile(r"^(\w+)\n-+\n", re.MULTILINE)


def describe(function: Callable[..., Any]) -> dict[str, Any]:
    """The parts of a docstring, in plain text.

    >>> def wave(d, *, rho=10.0):
    ...     '''A wave.
    ...
    ...     sin(ρ^(−l) s).
    ...
    ...     Parameters
    ...     ----------
    ...     rho : float
    ...         Base.
    ...     '''
    >>> describe(wave)
    {'meaning': 'A wave.', 'formula': 'sin(ρ^(−l) s).', 'meanings': {'rho': 'Base.'}, 'example': ''}
    """
    prose, *sections = SECTION.split(inspect.getdoc(function) or "")
    parts = dict(zip(sections[::2], sections[1::2], strict=True))
    prose, arrow, doctest = prose.partition(">>>")
    meaning, _, formula = prose.strip().partition("\n\n")
    return {
        "meaning": as_plain_text(meaning),
        "formula": as_plain_text(formula),
        "meanings": read_meanings(parts.get("Parameters", "")),
        "example": (arrow + doctest or parts.get("Examples", "")).strip(),
    }


def read_meanings(section: str) -> dict[str, str]:
    """Names and meanings of a section of parameters; names before one colon share a meaning."""
    entries = re.findall(r"^([\w, ]+) : [^\n]+\n((?: +[^\n]*\n?)+)", section, re.MULTILINE)
    return {
        name.strip(): as_plain_text(meaning)
        for names, meaning in entries
        for name in names.split(",")
    }


def as_plain_text(text: str) -> str:
    """A text without markup, in one line.

    >>> as_plain_text("half ``d`` of √(2/d) cos ω_k s")
    'half d of √(2/d) cos ω_k s'
    """
    return " ".join(text.replace("`", "").split())
