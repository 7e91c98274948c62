"""How the answer to each question is told: a page, in words, as rows and as records.

An `Answer` is an encoding with a result, a frozen dataclass. Records of it need no code for each
kind of result; words and rows have one function each.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pefourier.answers.page import Page, fields_of
from pefourier.answers.terminal_chart import chart
from pefourier.answers.text import aligned, number
from pefourier.compare import Comparison
from pefourier.encodings.encoding import Encoding
from pefourier.errors import printable
from pefourier.faithful import Faithfulness
from pefourier.reconstruct import Reconstruction
from pefourier.spectrum import Spectrum

COLUMNS_ACROSS = 4  # encodings side by side in a text table


@dataclass(frozen=True)
class Answer:
    """What a command found for one SPEC."""

    encoding: Encoding
    result: Any


def record_of(answer: Answer) -> dict[str, Any]:
    """One SPEC's JSON object: what was analysed, then the fields of the result."""
    return {**identity_of(answer.encoding), **fields_of(answer.result)}


def identity_of(enc: Encoding) -> dict[str, Any]:
    """What was analysed: name, SPEC as typed, all parameters used."""
    return {"encoding": enc.name, "spec": enc.spec, "params": enc.params}


def side_by_side(
    answers: Sequence[Answer], facts: Sequence[tuple[str, Callable[[Any], Any]]]
) -> str:
    """A table with a row for each fact and a column for each encoding."""
    tables = []
    for start in range(0, len(answers), COLUMNS_ACROSS):
        part = answers[start : start + COLUMNS_ACROSS]
        rows = [["", *(answer.encoding.label for answer in part)]]
        for label, fact in facts:
            rows.append([label, *(number(fact(answer.result)) for answer in part)])
        tables.append(aligned(rows))
    return "\n".join(tables)


def spectrum_page(answers: Sequence[Answer]) -> Page:
    """The answer of `pefourier spectrum`."""
    return Page(
        "spectrum",
        words=partial(side_by_side, answers, SPECTRUM_FACTS),
        records=partial(map, record_of, answers),
        rows=partial(spectrum_rows, answers),
        chart=partial(spectrum_chart, answers),
    )


def spectrum_chart(answers: Sequence[Answer], colour: bool) -> str:
    """The curves of Fig. 1."""
    curves = [(a.encoding.label, a.result.omega, a.result.density) for a in answers]
    ylabel = "share of energy at each lattice frequency"
    return chart(curves, "ω, radians per position", ylabel, colour=colour) + "\n"


def share_below(spectrum: Spectrum) -> str | None:
    """Declared frequencies below the first bin, with their share of all."""
    below, total = spectrum.summary.below_first_bin, spectrum.summary.frequencies_total
    return None if below is None else f"{below} ({100 * below / total:.0f} %)"


SPECTRUM_FACTS: list[tuple[str, Callable[[Spectrum], Any]]] = [
    ("lattice points N", lambda r: r.lattice),
    ("bandwidth, lattice steps", lambda r: r.sigma or "0 (not smoothed)"),
    ("frequencies are", lambda r: "declared" if r.method == "declared" else "estimated"),
    ("how many", lambda r: r.summary.frequencies_total),
    ("of them below the first bin 2π/N", share_below),
    ("Eq. 16: index l that enters 2π/d", lambda r: r.summary.lowest_bin_index),
    ("share at frequency 0", lambda r: r.summary.lowest_bin_share),
    ("mean frequency, rad", lambda r: r.summary.centroid),
    ("95 % lie at or below, rad", lambda r: r.summary.cutoff95),
    ("flatness (1 = flat)", lambda r: r.summary.flatness),
]


def spectrum_rows(answers: Sequence[Answer]) -> Iterable[Sequence[Any]]:
    """A row for each encoding and lattice frequency."""
    yield "encoding", "spec", "k", "omega", "density"
    for a in answers:
        for k, (omega, share) in enumerate(zip(a.result.omega, a.result.density, strict=True)):
            yield a.encoding.name, a.encoding.spec, k, omega, share


def reconstruct_page(answers: Sequence[Answer]) -> Page:
    """The answer of `pefourier reconstruct`."""
    return Page(
        "reconstruct",
        words=partial(reconstruct_text, answers),
        records=partial(map, record_of, answers),
        rows=partial(reconstruct_rows, answers),
        chart=partial(reconstruct_chart, answers),
    )


def reconstruct_chart(answers: Sequence[Answer], colour: bool) -> str:
    """The curves of Fig. 2, one chart per encoding."""
    parts = []
    for a in answers:
        curves = [
            (f"{a.encoding.label}, s = {r.position}", np.arange(a.result.lattice), r.values)
            for r in a.result.reconstructions
        ]
        label = f"position function rebuilt from {a.encoding.label}"
        parts.append(chart(curves, "position", label, height=8, colour=colour) + "\n")
    return "".join(parts)


RECONSTRUCT_FACTS: list[tuple[str, Callable[[Reconstruction], Any]]] = [
    ("position", lambda r: r.position),
    ("peak", lambda r: r.peak),
    ("width", lambda r: r.width),
    ("samples ≥ half", lambda r: r.half_max_count),
    ("side lobe", lambda r: r.side_lobe),
    ("error", lambda r: r.error),
    ("error of linear inverse", lambda r: r.inverse_error),
]


def reconstruct_text(answers: Sequence[Answer]) -> str:
    """A line for each encoding and rebuilt position."""
    rows = [["encoding", *(name for name, _ in RECONSTRUCT_FACTS)]]
    for a in answers:
        for r in a.result.reconstructions:
            rows.append([a.encoding.label, *(number(fact(r)) for _, fact in RECONSTRUCT_FACTS)])
    return aligned(rows)


def reconstruct_rows(answers: Sequence[Answer]) -> Iterable[Sequence[Any]]:
    """A row for each encoding, rebuilt position and lattice point."""
    yield "encoding", "spec", "position", "t", "value"
    for a in answers:
        for r in a.result.reconstructions:
            for t, value in enumerate(r.values):
                yield a.encoding.name, a.encoding.spec, r.position, t, value


def faithful_page(answers: Sequence[Answer]) -> Page:
    """The answer of `pefourier check-faithful`."""
    return Page(
        "check-faithful",
        words=partial(faithful_text, answers),
        records=partial(map, record_of, answers),
        rows=partial(faithful_rows, answers),
    )


FAITHFUL_FACTS: list[tuple[str, Callable[[Faithfulness], Any]]] = [
    ("verdict", lambda r: r.verdict),
    ("positions", lambda r: r.length),
    ("dimensions", lambda r: r.dimension),
    ("distinct codes", lambda r: r.distinct),
    ("smallest distance", lambda r: r.min_distance),
    ("  between positions", lambda r: r.closest_pair and "{} and {}".format(*r.closest_pair)),
    ("  over rms code length (gap)", lambda r: r.gap),
    ("rank", lambda r: r.rank),
    ("  singular values above", lambda r: r.rank_tolerance),
    ("condition number", lambda r: r.condition_number),
    ("error of the linear inverse", lambda r: r.inverse_error),
    ("stable rank", lambda r: r.stable_rank),
    ("Toeplitz residual", lambda r: r.toeplitz_residual),
    ("residual of T(1) (Denk)", lambda r: r.shift_residual),
    ("inner products fall up to lag", lambda r: r.first_rising_lag),
]


def faithful_text(answers: Sequence[Answer]) -> str:
    """The facts of each encoding, what low precision costs it, and the findings in full."""
    text = side_by_side(answers, FAITHFUL_FACTS)
    rows = [["", "distinct codes when cast to", "phases computed in", "phase error, rad"]]
    for a in answers:
        for form, loss in a.result.precision.items():
            cells = (loss.distinct_cast, loss.distinct_phase, loss.max_phase_error)
            rows.append([f"{a.encoding.label} in {form}", *map(number, cells)])
    text += "\n" + aligned(rows)
    for a in answers:
        if a.result.identified:
            text += f"\n{a.encoding.label} is {formula_in_words(a.result.identified)}\n"
        for finding in a.result.findings:
            message = f"{a.encoding.label}: {finding.message} [{finding.code}]"
            text += f"\n{finding.severity}: {message}\n"
    return text


def formula_in_words(identified: Mapping[str, Any]) -> str:
    """What a table turned out to be, in words."""
    params = ", ".join(f"{k}={number(v, 7)}" for k, v in identified["params"].items())
    return (
        f"{identified['encoding']} with {params or 'no parameters'}; "
        f"largest difference {number(identified['max_difference'], 2)}"
    )


def faithful_rows(answers: Sequence[Answer]) -> Iterable[Sequence[Any]]:
    """A row for each encoding: the single numbers, then distinct codes in each format."""
    several = ("identified", "precision", "findings", "closest_pair")
    single = [name for name in fields_of(answers[0].result) if name not in several]
    forms = list(answers[0].result.precision)
    yield (
        ["encoding", "spec", *single, "closest_a", "closest_b"]
        + [f"distinct_{kind}_{form}" for form in forms for kind in ("cast", "phase")]
        + ["findings"]
    )
    for a in answers:
        r = a.result
        counts = [
            c for f in forms for c in (r.precision[f].distinct_cast, r.precision[f].distinct_phase)
        ]
        values = [getattr(r, name) for name in single]
        found = " ".join(finding.code for finding in r.findings)
        pair = r.closest_pair or (None, None)
        yield [a.encoding.name, a.encoding.spec, *values, *pair, *counts, found]


def compare_page(a: Encoding, b: Encoding, result: Comparison) -> Page:
    """The answer of `pefourier compare`."""
    return Page(
        "compare",
        words=partial(compare_text, a, b, result),
        records=lambda: [compare_record(a, b, result)],
        rows=partial(compare_rows, a, b, result),
    )


def compare_record(a: Encoding, b: Encoding, result: Comparison) -> dict[str, Any]:
    """The JSON object of a comparison: both encodings, then the fields of the result."""
    return {**identity_of(a), "other": identity_of(b), **fields_of(result)}


def compare_text(a: Encoding, b: Encoding, result: Comparison) -> str:
    """A comparison in a sentence or three."""
    lines = [f"{a.label} and {b.label} are {result.verdict}"]
    if result.verdict == "equal":
        lines[0] += " to the bit" if result.bitwise else " within rounding"
    elif result.verdict == "equivalent":
        lines[0] += f": {change_in_words(result.by)}"
    difference, allowed = number(result.max_difference, 3), number(result.tolerance, 3)
    if result.max_difference is not None:
        lines.append(f"largest difference {difference}, rounding explains {allowed}")
    if result.verdict == "different" and result.first_difference:
        first, largest = result.first_difference, result.largest_difference
        lines.append(
            f"first at position {first[0]}, column {first[1]}; "
            f"largest at position {largest[0]}, column {largest[1]}"
        )
    if len(set(result.dimensions)) > 1:
        lines.append("dimensions {} and {}".format(*result.dimensions))
    if len(set(result.lengths)) > 1:
        lengths = "{} and {}".format(*result.lengths)
        lines.append(f"lengths {lengths}; {result.length} common positions were compared")
    return "\n".join(lines) + "\n"


def change_in_words(by: Mapping[str, Any]) -> str:
    """What leads from one table to another, in words."""
    words = {
        "layout": lambda v: f"columns {v}",
        "columns": lambda v: None if "layout" in by else "columns in another order",
        "signs": lambda v: f"{sum(s < 0 for s in v)} columns with the other sign",
        "scale": lambda v: f"scaled by {number(v, 7)}",
        "offset": lambda v: f"moved by {v} positions",
        "rotation": lambda v: "columns rotated (all inner products agree)",
    }
    return ", ".join(filter(None, (words[key](value) for key, value in by.items())))


def compare_rows(a: Encoding, b: Encoding, result: Comparison) -> Iterable[Sequence[Any]]:
    """A header and one row of single numbers."""
    names = ["verdict", "bitwise", "length", "tolerance", "max_difference"]
    yield ["a", "b", *names, "by"]
    values = [getattr(result, name) for name in names]
    yield [a.spec, b.spec, *values, change_in_words(result.by)]


def encode_page(enc: Encoding, table: np.ndarray, positions: np.ndarray, out: str) -> Page:
    """The answer of `pefourier encode`, whose codes are in a file."""
    size = f"{table.shape[0]} positions × {table.shape[1]}"
    written = {"out": out, "shape": list(table.shape), "positions": positions}
    return Page(
        "encode",
        words=lambda: f"{printable(out)}: codes of {enc.label}, {size}\n",
        records=lambda: [{**identity_of(enc), **written}],
    )
