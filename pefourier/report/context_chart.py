"""How are the bands of rotations drawn in letters, for a terminal?"""

from __future__ import annotations

from collections.abc import Sequence
from math import log, pi
from shutil import get_terminal_size

from pefourier.questions.context import Context
from pefourier.questions.rotations import treatments
from pefourier.report.frame import Answer

MARKS = {"same": ("█", "34"), "kept": ("█", "34"), "blended": ("▒", "33"), "stretched": ("░", "31")}
ACROSS = 64  # letters of the picture where nobody looks at a terminal


def bands_charts(answers: Sequence[Answer], colour: bool) -> str:
    """The bands of each answer's rotations."""
    return "".join(bands_chart(a.result, colour) for a in answers)


def bands_chart(result: Context, colour: bool = False) -> str:
    """The bands of each rotation over the logarithm of the wavelength, with lengths as lines.

    A letter stands for the wavelengths of at least one pair; │ for the trained length and ║ for the
    one asked for hide those beneath.

    >>> from pefourier.questions.context import describe_context
    >>> scaled = "rope:rho=5e5,scaling=llama3,factor=8,original=8192"
    >>> print(bands_chart(describe_context(scaled, 131072, d=64)[1]).splitlines()[0].rstrip())
    kept      ██ █ ██ █ █ ██ █ █ ██ █ █     │           ║
    """
    across = max(get_terminal_size((ACROSS + 10, 24)).columns - 10, 24)
    turning = [r for r in result.rotations if r.rotated]
    if not turning:
        return ""
    slowest = max(2 * pi / r.frequencies.min() for r in turning)
    ends = log(2 * pi), log(max(slowest, result.length, 2 * pi) * 1.01)

    def column(wavelength: float) -> int:
        share = (log(wavelength) - ends[0]) / (ends[1] - ends[0])
        return int(min(max(share, 0.0), 1.0) * (across - 1))

    lines = []
    for r in turning:
        lines += [r.name] if r.name else []
        for treatment, members in treatments(r.frequencies, r.trained_frequencies).items():
            mark, paint = MARKS[treatment]
            cells = {column(2 * pi / w): mark for w in r.frequencies[members]}
            cells |= {
                column(result.trained.length or result.length): "│",
                column(result.length): "║",
            }
            row = "".join(cells.get(i, " ") for i in range(across))
            row = row.replace(mark, f"\x1b[{paint}m{mark}\x1b[0m") if colour else row
            lines += [f"{treatment:<9} {row}"] if members.any() else []
    last = f"{max(slowest, result.length):.3g} positions"
    scale = f"{'':9} {2 * pi:.3g}{last:>{across - 4}}"
    length = result.trained.length
    trained = f"│ trained {length}  " if length else ""
    return "\n".join([*lines, scale, f"{'':10}{trained}║ asked {result.length}", "", ""])
