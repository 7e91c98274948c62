"""How is it told what resizing does to a table?"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from pefourier.answers.grid_words import by_axis, point_of, size_of
from pefourier.answers.page import Page, fields_of
from pefourier.answers.report import identity_of
from pefourier.answers.text import aligned, number, paragraph
from pefourier.encodings.encoding import Encoding
from pefourier.errors import printable
from pefourier.resize import Resizing


def resize_page(enc: Encoding, r: Resizing, out: str | None) -> Page:
    """The answer of `pefourier resize`."""
    return Page(
        "resize",
        words=lambda: resize_text(r, out),
        records=lambda: [resize_record(enc, r, out)],
        rows=lambda: resize_rows(r),
        conclusion=lambda: paragraph(conclude_resizing(enc, r)),
    )


def resize_record(enc: Encoding, r: Resizing, out: str | None = None) -> dict[str, Any]:
    """The JSON object: all but the table itself, which --out writes."""
    told = {key: value for key, value in fields_of(r).items() if key not in ("table", "old", "new")}
    sides = {"from": r.old, "to": r.new}
    return (
        identity_of(enc) | {"conclusion": conclude_resizing(enc, r)} | sides | told | {"out": out}
    )


def conclude_resizing(enc: Encoding, r: Resizing) -> str:
    """How far methods differ, what happens to codes, and which pairs meet unseen phases."""
    if not r.before.norm:
        return "All codes are zero, and stay so."
    share = r.largest_difference / (r.before.norm / enc.dim**0.5)
    how = f"{number(100 * share, 2 if share < 0.1 else 3)} % of a number's rms size"
    same = r.largest_difference <= 1e-12 * r.before.norm
    first = (
        f"From {size_of(r.old)} to {size_of(r.new)} the methods agree."
        if same
        else f"From {size_of(r.old)} to {size_of(r.new)} the methods differ by up to "
        f"{number(r.largest_difference, 3)} ({how}), {r.between[0]} from {r.between[1]} at "
        f"{point_of(r.at)}: take the one that the weights were trained with."
    )
    return " ".join(filter(None, [first, codes_in_words(r), unseen_in_words(r)]))


def codes_in_words(r: Resizing) -> str:
    """Whether codes can still be told apart, and how much of their spectrum stays."""
    old, new, points = r.before, r.after, math.prod(r.after.grid)
    moved = f"{number(100 * r.moved, 2)} % of the energy moves to other frequencies"
    if new.nearest is None or old.nearest is None:
        return f"By {r.method} {moved}, in cycles an image."
    if new.distinct < points:
        told = f"only {new.distinct} of {points} codes differ"
    else:
        told = (
            f"all {points} codes differ, the closest two by {number(new.nearest, 3)} of a code's "
            f"length ({number(old.nearest, 3)} before)"
        )
    return f"By {r.method} {told}; {moved}, in cycles an image."


def unseen_in_words(r: Resizing) -> str:
    """What the formula itself does on the new grid."""
    if r.unseen is None:
        return ""
    if not any(one.unseen for one in r.unseen):
        steps = ", ".join(f"{one.axis} {number(one.step_ratio, 3)}" for one in r.unseen)
        return f"Computed anew, the formula meets no unseen phases; its steps change by {steps}."
    counts = ", ".join(
        f"{one.unseen} of {one.pairs} along {one.axis}"
        + (f", numbers {runs_in_words(one.which)}" if one.which else "")
        for one in r.unseen
    )
    return f"Computed anew, pairs of the formula meet phases never seen: {counts} (counted from 0)."


def runs_in_words(numbers: Sequence[int]) -> str:
    """Ascending whole numbers, those that follow one another by the first and the last.

    >>> runs_in_words([0, 3, 4, 5])
    '0, 3 to 5'
    """
    runs: list[list[int]] = []
    for one in numbers:
        if runs and one == runs[-1][-1] + 1:
            runs[-1][1:] = [one]
        else:
            runs.append([one])
    return ", ".join(" to ".join(map(str, run)) for run in runs)


def resize_text(r: Resizing, out: str | None) -> str:
    """A line a method, then the table before and after."""
    rows = [["method", "length of codes, new / old", "cosine of neighbours", "difference"]]
    for one in r.methods:
        chosen = "  (asked for)" if one.method == r.method else ""
        rows.append(
            [
                one.method + chosen,
                number(one.norm_ratio),
                by_axis(one.neighbours, 4),
                number(one.largest_difference, 3),
            ]
        )
    rows_of_pictures = [["", "before", "after"]]
    for label, value in PICTURE_FACTS:
        rows_of_pictures.append([label, value(r.before), value(r.after)])
    text = f"{aligned(rows)}\n{aligned(rows_of_pictures)}"
    size = f"{len(r.table)} rows × {r.table.shape[1]}"
    return text + (
        f"\n{printable(out)}: {size}, {r.prefix} of them before the grid\n" if out else ""
    )


PICTURE_FACTS = [
    ("grid", lambda p: size_of(p.grid)),
    ("rms length of a code", lambda p: number(p.norm)),
    ("different codes", lambda p: number(p.distinct)),
    ("smallest distance over it", lambda p: number(p.nearest)),
    ("cosine of neighbours", lambda p: by_axis(p.neighbours, 4)),
    ("mean frequency, cycles an image", lambda p: number(p.cycles)),
    ("share at frequency 0", lambda p: number(p.constant)),
    ("A2 (1 = bound to one axis)", lambda p: number(p.isotropy["A2"])),
    ("A4 (1 = bound to two axes)", lambda p: number(p.isotropy["A4"])),
]


def resize_rows(r: Resizing) -> Iterable[Sequence[Any]]:
    """A row a method."""
    yield "method", "norm_ratio", *(f"neighbours_{k}" for k in range(len(r.old))), "difference"
    for one in r.methods:
        yield one.method, one.norm_ratio, *one.neighbours, one.largest_difference
