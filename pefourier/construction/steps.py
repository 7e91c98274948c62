"""Steps after the frequencies in which two tables or rotations differ: start, factor, columns.

Conventions
-----------
Numbers are made in seven steps: frequencies, positions, angles, waves, columns, numbers, storage. A
table that is fitted has a first position, a factor and an order of columns of its own. These are
differences like any other: a cause names each of them, or it does not reproduce the table. The
columns of a dump of a rotation are not compared, because a rotation does not state them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from pefourier.causes.rope import known_mistakes
from pefourier.causes.rows import Shifted
from pefourier.encodings.encoding import CHANGES, Encoding
from pefourier.geometry.precision import FLOAT32_EPS
from pefourier.geometry.waves import LAYOUTS, Form, Waves
from pefourier.types import Texts, frozen

FEW = 64  # rows that show the columns of a table
STEPS = ("frequencies", "positions", "angles", "waves", "columns", "numbers", "storage")
WAVES = {"cos": "cosines", "sin": "sines"}


@frozen
class Changed:
    """A step that differs, with its values in the expected and the observed table."""

    code: str  # of a mistake
    step: str
    changes: Mapping[str, tuple[Any, Any]]
    also: Texts = ()  # codes of mistakes that give the same numbers

    @property
    def words(self) -> str:
        """What was done, as the end of "the second equals the first with ..."."""
        values = (f"{name} {b}, not {a}" for name, (a, b) in self.changes.items())
        return f"{known_mistakes()[self.code]['message']} ({'; '.join(values)})"


def changed_steps(
    expected: Waves, observed: Waves, encodings: tuple[Encoding, Encoding]
) -> Iterator[Changed | Shifted]:
    """Yield the start, the factor and the columns of observed sinusoids, if not as expected.

    `encodings` are those of the expected and the observed sinusoids.
    """
    moved = observed.offset - expected.offset
    if moved and np.isfinite(moved) and not observed.has_angles:
        yield Shifted(int(moved))
    factor = expected.factor
    is_shown = shows_factor(expected) and shows_factor(observed)
    if is_shown and is_scaled(factor, observed.factor, expected, observed):
        is_rotation = any(enc.injection == "rotate" or enc.operator for enc in encodings)
        code, name = ("mscale", "attention_factor") if is_rotation else ("scaled", "amplitude")
        yield Changed(code, "waves", {name: (factor, observed.factor)})
    forms = [
        form_of(enc, waves) for enc, waves in zip(encodings, (expected, observed), strict=True)
    ]
    is_declared = [
        enc.injection == "rotate" and not form for enc, form in zip(encodings, forms, strict=True)
    ]
    if any(is_declared):  # it does not state its columns
        first = [WAVES["sin" if waves.has_sines_first else "cos"] for waves in (expected, observed)]
        if first[0] != first[1]:
            yield Changed("order", "columns", {"first": (first[0], first[1])})
        return
    if forms[0] and forms[1] and forms[0].part == forms[1].part == "both":
        yield from changed_columns(forms[0], forms[1])


def changed_columns(expected: Form, observed: Form) -> Iterator[Changed]:
    """Yield the layout, the order and the copies of columns that are not as expected.

    >>> [*changed_columns(Form("both", "halves"), Form("both", "halves", None, "sin"))]
    [Changed(code='order', step='columns', changes={'first': ('cosines', 'sines')}, also=())]
    """
    pairs = {
        "layout": (expected.layout, observed.layout),
        "order": (WAVES[expected.first], WAVES[observed.first]),
        "copies": (expected.copies or "none", observed.copies or "none"),
    }
    for code, (first, second) in pairs.items():
        if first != second:
            name = "first" if code == "order" else code
            yield Changed(code, "columns", {name: (first, second)})


def shows_factor(waves: Waves) -> bool:
    """Whether the numbers determine a factor: cosines do; sines alone and angles do not."""
    return waves.form is None or waves.form.part in ("both", "cos")


def is_scaled(first: float, second: float, *waves: Waves) -> bool:
    """Whether two factors differ by more than the rounding of the sinusoids that show them.

    A factor is the median of rounded numbers.
    """
    eps = max(FLOAT32_EPS, *(sinusoids.eps for sinusoids in waves))
    return abs(second - first) > 4 * eps * abs(first)


def form_of(enc: Encoding, waves: Waves) -> Form | None:
    """Return the columns that hold the cosines and sines of an encoding; None if not known."""
    if enc.injection == "rotate" and waves.is_declared:
        return None
    if waves.form or enc.dim != 2 * len(waves) or not shows_factor(waves):
        return waves.form
    rows = np.arange(min(len(enc), FEW))
    table, seen = enc.table(enc.domain.x[rows]), waves.numbers(rows)
    forms = (Form("both", layout, None, first) for layout in LAYOUTS for first in WAVES)
    return next((form for form in forms if np.allclose(form.numbers(table), seen)), None)


def name_of_order(expected: Form, observed: Form) -> str | None:
    """Return the name of a change of the order of columns; None for another.

    >>> name_of_order(Form("both", "interleaved", None, "sin"), Form("both", "halves", None, "sin"))
    'interleaved to halves'
    """
    orders = (expected.layout, expected.first), (observed.layout, observed.first)
    return next((name for name, change in CHANGES.items() if change == orders), None)
