"""What a builder's docstring says: summary, formula, meanings of parameters and an example.

Formulas stand in docstrings as LaTeX; here they are plain text. `records` in specs.py puts all of
it into the catalogue that `pefourier list` and `pefourier explain` read.
"""

import inspect
import re
from collections.abc import Callable
from typing import Any

SYMBOLS = {
    r"\omega": "ω",
    r"\rho": "ρ",
    r"\pi": "π",
    r"\zeta": "ζ",
    r"\sigma": "σ",
    r"\pm": "±",
    r"\sim": "~ ",
    r"\lfloor": "⌊",
    r"\rfloor": "⌋",
}
NAMES = ("sin", "cos", "tanh", "ln")  # functions, which LaTeX begins with a backslash
SECTION = re.compile(r"^(\w+)\n-+\n", re.MULTILINE)


def describe(function: Callable[..., Any]) -> dict[str, Any]:
    """The parts of a docstring, in plain text.

    >>> def wave(d, *, rho=10.0):
    ...     r'''A wave.
    ...
    ...     :math:`\\sin(\\rho^{-l} s)`.
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
    r"""A text without markup, in one line.

    >>> as_plain_text(r"half ``d`` of :math:`\sqrt{2/d}\cos\omega_k s`")
    'half d of √(2/d) cos ω_k s'
    """
    text = re.sub(r":math:`([^`]*)`", lambda match: formula_as_text(match[1]), text)
    return " ".join(text.replace("`", "").split())


def formula_as_text(formula: str) -> str:
    """A formula of LaTeX in letters, as far as docstrings go."""
    names = "|".join(NAMES)
    formula = re.sub(rf"\\({names})\b\s*", r" \1 ", formula)
    formula = re.sub(rf"\b({names}) \(", r"\1(", formula)
    formula = formula.replace(r"\,", " ")
    for symbol, letter in SYMBOLS.items():
        formula = re.sub(rf"{re.escape(symbol)}(?![a-z]) ?", letter, formula)
    formula = re.sub(r"\\mathrm\{(\w+)\}", r"\1", formula)
    formula = re.sub(r"\\sqrt\{([^{}]*)\}", r"√(\1)", formula).replace(r"\sqrt ", "√")
    formula = re.sub(r"([_^])\{([^{}]*)\}", r"\1(\2)", formula)
    return " ".join(formula.replace("-", "−").split()).replace("( ", "(")
