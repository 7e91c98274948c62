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
from pathlib import Path
from typing import Any

import numpy as np

from pefourier.construction.rope import known_mistakes
from pefourier.construction.rows import Shifted
from pefourier.construction.waves import LAYOUTS, Form, Waves
from pefourier.encodings.encoding import CHANGES, Encoding, Wave
from pefourier.encodings.families.rotary import scaling_parameters
from pefourier.geometry.precision import FLOAT32_EPS
from pefourier.types import Texts, frozen
from pefourier.writing.files import read_toml

FEW = 64  # rows that show the columns of a table
WAVES: dict[Wave, str] = {"cos": "cosines", "sin": "sines"}
LABELS = Path(__file__).with_name("labels.toml")
Changes = Mapping[str, tuple[Any, Any]]  # settings, correct and misread


@frozen
class StepChanged:
    """A step that differs, with its values in the expected and the observed table."""

    code: str  # of a mistake
    step: str
    changes: Changes
    also: Texts = ()  # codes of mistakes that give the same numbers

    @property
    def words(self) -> str:
        """What was done, as the end of "the second equals the first with ..."."""
        values = (
            f"{label} {b}, not {a}".lstrip() for label, a, b in changes_in_words(self.changes)
        )
        return f"{known_mistakes()[self.code]['message']} ({'; '.join(values)})"


def changed_steps(
    expected: Waves, observed: Waves, encodings: tuple[Encoding, Encoding]
) -> Iterator[StepChanged | Shifted]:
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
        yield StepChanged(code, "waves", {name: (factor, observed.factor)})
    forms = [
        form_of(enc, waves) for enc, waves in zip(encodings, (expected, observed), strict=True)
    ]
    is_declared = [
        enc.injection == "rotate" and not form for enc, form in zip(encodings, forms, strict=True)
    ]
    if any(is_declared):  # it does not state its columns
        first = [WAVES["sin" if waves.has_sines_first else "cos"] for waves in (expected, observed)]
        if first[0] != first[1]:
            yield StepChanged("order", "columns", {"first": (first[0], first[1])})
        return
    if forms[0] and forms[1] and forms[0].part == forms[1].part == "both":
        yield from changed_columns(forms[0], forms[1])


def changed_columns(expected: Form, observed: Form) -> Iterator[StepChanged]:
    """Yield the layout, the order and the copies of columns that are not as expected.

    >>> [*changed_columns(Form("both", "halves"), Form("both", "halves", None, "sin"))]
    [StepChanged(code='order', step='columns', changes={'first': ('cosines', 'sines')}, also=())]
    """
    pairs = {
        "layout": (expected.layout, observed.layout),
        "order": (WAVES[expected.first], WAVES[observed.first]),
        "copies": (expected.copies or "none", observed.copies or "none"),
    }
    for code, (first, second) in pairs.items():
        if first != second:
            name = "first" if code == "order" else code
            yield StepChanged(code, "columns", {name: (first, second)})


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


def describe_changes(changes: Changes) -> str:
    """Describe the settings that differ.

    >>> describe_changes({"rho": (10000.0, 500000.0), "factor": (4.0, 8.0)})
    'base 10000 in the first, 500000 in the second; factor 4 in the first, 8 in the second'
    >>> describe_changes({"scaling": ("linear", "none"), "factor": (4.0, None)})
    'linear scaling (factor 4) in the first, no scaling in the second'
    """
    return "; ".join(
        f"{label} {a} in the first, {b} in the second".lstrip()
        if a != b
        else f"the numbers of {label}"
        for label, a, b in changes_in_words(changes)
    )


def describe_sides(changes: Changes) -> tuple[str, str]:
    """Describe the differing settings of each side.

    >>> describe_sides({"rho": (1e4, 5e5), "scaling": ("none", "ntk"), "factor": (None, 2.0)})
    ('no scaling, base 10000', 'ntk scaling (factor 2), base 500000')
    """
    words = [*changes_in_words(changes)]
    first, second = (", ".join(f"{w[0]} {w[k]}".lstrip() for w in words) for k in (1, 2))
    return first, second


def changes_in_words(changes: Changes) -> Iterator[tuple[str, str, str]]:
    """Yield the label of each setting and its values; a scaling has no label."""
    kinds, hidden = changes.get("scaling", (None, None)), {"scaling"}
    if None not in kinds:
        a, b = (scaling_in_words(kind, side, changes) for side, kind in enumerate(kinds))
        yield "", a, b
        hidden = hidden.union(*map(scaling_parameters, kinds)) - {"attention_factor"}
    for key, pair in changes.items():
        if key not in hidden:
            a, b = map(value_in_words, pair)
            name, along, axis = key.partition(" along ")
            yield read_toml(LABELS).get(name, name) + along + axis, a, b


def scaling_in_words(kind: str, side: int, changes: Changes) -> str:
    """Describe a scaling with its unusual settings."""
    texts = []
    for key, parameter in scaling_parameters(kind).items():
        value = changes[key][side] if key in changes else parameter.default
        if key != "attention_factor" and value != parameter.default:
            texts.append(f"{key} {value_in_words(value)}")
    unusual = ", ".join(texts)
    name = f"{kind} scaling".replace("none", "no")
    return f"{name} ({unusual})" if unusual else name


def value_in_words(value: Any) -> str:
    """Format a setting: a number in few digits, a long list by its length."""
    if isinstance(value, list | tuple) and np.size(value) > 4:
        return f"{np.size(value)} numbers"
    return f"{value:.8g}" if isinstance(value, float) else str(value).replace("None", "not set")
