"""How the answer to each question is told: a page, in words, as rows and as records.

An `Answer` is an encoding with a result, a frozen dataclass, and a `Refusal` a SPEC that could not
be answered among others that could. Words begin with the conclusion. They and rows have one
function for each kind of result; records need none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isnan
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from pefourier.answers.conclusions import conclude
from pefourier.answers.grid_words import axis_names, by_axis, ends_of, point_of, size_of
from pefourier.answers.page import Page, fields_of, flattened
from pefourier.answers.terminal_chart import chart, limits_of, shades
from pefourier.answers.text import agreeing, aligned, number, paragraph
from pefourier.bands import density_by_decade, group_waves, is_slow
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.specs import source_of
from pefourier.errors import PefourierError, printable

if TYPE_CHECKING:  # one question starts without the rooms of the others
    from pefourier.spectrum import Spectrum

LITTLE = 0.0005  # of the energy
COLUMNS_ACROSS = 4  # encodings side by side in a text table


@dataclass(frozen=True)
class Answer:
    """What a command found for one SPEC."""

    encoding: Encoding
    result: Any


@dataclass(frozen=True)
class Refusal:
    """A SPEC that could not be answered, among others that could."""

    spec: str
    error: str


@dataclass(frozen=True)
class Fact:
    """A row of a text table: its name, its value in a result, and why there may be none."""

    label: str
    value: Callable[[Any], Any]
    missing: Callable[[Answer], str] = lambda answer: "–"

    def cell(self, answer: Answer) -> str:
        """The value for a person, or the reason that there is none."""
        return number(self.value(answer.result), missing=self.missing(answer))


def answer_of(result: Any) -> Answer:
    """A result with the encoding it is about: rows of a table may turn out to be a grid's."""
    return Answer(result.about[0], result)


def record_of(answer: Answer | Refusal) -> dict[str, Any]:
    """One SPEC's JSON object: what was analysed, the conclusion, the fields of the result."""
    if isinstance(answer, Refusal):
        return fields_of(answer)
    conclusion = {"conclusion": conclude(answer.encoding, answer.result)}
    record = identity_of(answer.encoding) | conclusion | fields_of(answer.result)
    return record | model_of(answer.encoding) if "verdict" in record else record


def model_of(enc: Encoding) -> dict[str, Any]:
    """What of a model's config acts beside the codes: its layers, what multiplies logits."""
    if "model_type" not in enc.params or source_of(enc.spec) != "config":
        return {}
    from pefourier.encodings.sources.layers import tell_layers

    factor = enc.params.get("softmax_factor", 1.0)
    return {"layers": tell_layers(enc.spec), "softmax_factor": factor}


def identity_of(enc: Encoding) -> dict[str, Any]:
    """What was analysed: name, SPEC as typed, all parameters used."""
    return {"encoding": enc.name, "spec": enc.spec, "params": enc.params}


def page_of(
    command: str,
    asked: Sequence[Answer | Refusal],
    words: Callable[[Sequence[Answer]], str],
    rows: Callable[[Sequence[Answer]], Iterable[Sequence[Any]]],
    chart: Callable[[Sequence[Answer], bool], str] | None = None,
) -> Page:
    """A page about some SPECs; one that was refused is a record of JSON and nothing else."""
    answers = [one for one in asked if isinstance(one, Answer)]
    return Page(
        command,
        words=partial(words, answers),
        records=partial(map, record_of, asked),
        rows=partial(rows, answers),
        chart=chart and partial(chart, answers),
        conclusion=partial(conclusions, answers),
    )


def conclusions(answers: Sequence[Answer]) -> str:
    """A paragraph for each encoding: the verdict where there is one, and what it means."""
    return "".join(map(conclusion_of, answers))


def conclusion_of(answer: Answer) -> str:
    """The paragraph about one encoding."""
    verdict = getattr(answer.result, "verdict", "")
    said = conclude(answer.encoding, answer.result)
    parts = [f"{answer.encoding.label}:", f"{verdict}." if verdict else "", said]
    return paragraph(" ".join(filter(None, parts)), "  ")


def side_by_side(facts: Sequence[Fact], answers: Sequence[Answer]) -> str:
    """A table with a row for each fact and a column for each encoding."""
    tables = []
    for start in range(0, len(answers), COLUMNS_ACROSS):
        part = answers[start : start + COLUMNS_ACROSS]
        rows = [["", *(answer.encoding.label for answer in part)]]
        rows += [[fact.label, *map(fact.cell, part)] for fact in facts]
        tables.append(aligned(rows))
    return "\n".join(tables)


def spectrum_page(asked: Sequence[Answer | Refusal], axis: str = "auto") -> Page:
    """The answer of `pefourier spectrum`; the axis of its chart is linear, log or auto."""
    chart = partial(spectrum_chart, axis=axis)
    return page_of("spectrum", asked, spectrum_text, spectrum_rows, chart)


def by_decade(answers: Sequence[Answer], axis: str = "auto") -> bool:
    """Whether spectra are to be drawn over the logarithm of frequency; on grids they are not."""
    if axis == "auto":
        return not any_grid(answers) and all(is_slow(a.encoding, a.result.method) for a in answers)
    for a in answers if axis == "log" else ():
        if a.result.on_grid:
            raise PefourierError(
                f"--axis log draws frequencies of one axis; {a.encoding.label} has several, leave "
                "it out or the option"
            )
    return axis == "log"


def spectrum_text(answers: Sequence[Answer]) -> str:
    """The facts of each encoding and its declared waves; on grids those of axes and directions."""
    head, *rows = wave_cells(answers)
    cells = [[label, which, *map(number, values)] for label, which, *values in rows]
    waves = f"\n{aligned([head, *cells], keys=2)}" if rows else ""
    facts = [*SPECTRUM_FACTS, *(GRID_SPECTRUM_FACTS if any_grid(answers) else ())]
    if any(answer.result.summary.mean_share is not None for answer in answers):
        facts += TABLE_SPECTRUM_FACTS
    return side_by_side(facts, answers) + waves


def any_grid(answers: Sequence[Answer]) -> bool:
    """Whether some answer is about several axes."""
    return any(a.result.on_grid for a in answers)


def wave_cells(answers: Sequence[Answer]) -> Iterable[Sequence[Any]]:
    """A header, and a row for each decade of declared frequencies, where there are several."""
    yield WAVES
    for a in answers:
        groups = [] if a.result.on_grid else group_waves(a.encoding)
        for g in groups if len(groups) > 1 else ():
            which = f"{g.first}…{g.last}" if g.last > g.first else str(g.first)
            turns = g.most_turns, g.fewest_turns
            yield a.encoding.label, which, g.bands, g.shortest, g.longest, *turns


WAVES = ("encoding", "bands", "how many bands")
WAVES += ("from wave", "to wave", "most turns", "fewest turns")


def spectrum_chart(answers: Sequence[Answer], colour: bool, axis: str = "linear") -> str:
    """The curves of Fig. 1, or those by decade, and a picture of each density on a grid."""
    flat = [a for a in answers if not a.result.on_grid]
    draw = decades_chart if by_decade(flat, axis) else linear_chart
    text = draw(flat, colour) + "\n" if flat else ""
    for a in answers:
        if a.result.on_grid:
            density = a.result.density.sum(axis=tuple(range(a.result.density.ndim - 2)))
            shifted = np.fft.fftshift(density, axes=0)
            label = f"{a.encoding.label}: share of energy; ω_y from -π at the top, ω_x from 0"
            text += shades(shifted, label) + "\n"
    return text


def linear_chart(answers: Sequence[Answer], colour: bool) -> str:
    """Densities over the lattice."""
    curves = [(a.encoding.label, a.result.omega, a.result.density) for a in answers]
    ylabel = "share of energy at each lattice frequency"
    return chart(curves, "ω, radians per position", ylabel, colour=colour)


def decades_chart(answers: Sequence[Answer], colour: bool) -> str:
    """Densities over the logarithm of frequency."""
    found = [density_by_decade(a.encoding, a.result.method) for a in answers]
    curves = [
        (f"{a.encoding.label}{share_at_zero(one.at_zero)}", one.omega, one.density)
        for a, one in zip(answers, found, strict=True)
    ]
    ylabel = "share of energy per factor ten of frequency"
    xlabel = "ω, radians per position (log)"
    return chart(curves, xlabel, ylabel, colour=colour, logarithmic=True)


def share_at_zero(share: float) -> str:
    """What a logarithmic axis leaves out, as a curve's name says it; nothing where it is little.

    >>> share_at_zero(0.25), share_at_zero(0.0)
    (' (25 % at 0)', '')
    """
    return f" ({100 * share:.3g} % at 0)" if share >= LITTLE else ""


def share_below(spectrum: Spectrum) -> str | None:
    """Declared frequencies below the first bin, with their share of all."""
    below, total = spectrum.summary.below_first_bin, spectrum.summary.frequencies_total
    return None if below is None else f"{below} ({100 * below / total:.0f} %)"


def both_counts(spectrum: Spectrum) -> str | None:
    """How many frequencies the energy is spread over, and how many they look where smeared."""
    s = spectrum.summary
    if s.effective is None:
        return None
    smeared = f"; {number(s.effective, 3)} points once smeared" if spectrum.sigma else ""
    return f"{number(s.effective_unsmeared, 4)}{smeared}"


def why_undeclared(answer: Answer) -> str:
    """Why frequencies are not counted."""
    return "not declared"


def why_no_root(answer: Answer) -> str:
    """Why Eq. 16 does not apply."""
    declared = answer.result.frequencies is not None
    return "no geometric grid" if declared else "not declared"


def why_no_spectrum(answer: Answer) -> str:
    """Why a number of the density is missing."""
    return "none: codes are zero"


def why_no_table(answer: Answer) -> str:
    """Why no share of the mean was taken."""
    return "of tables only" if answer.result.method == "declared" else "none"


SPECTRUM_FACTS = [
    Fact("lattice points N", lambda r: lattice_in_words(r.lattice)),
    Fact("bandwidth, lattice steps", lambda r: r.sigma or "0 (not smoothed)"),
    Fact("frequencies are", lambda r: "declared" if r.method == "declared" else "estimated"),
    Fact("how many", lambda r: r.summary.frequencies_total, why_undeclared),
    Fact("of them below the first bin 2π/N", share_below, why_undeclared),
    Fact("effective number, exp(entropy)", both_counts, why_no_spectrum),
    Fact("Eq. 16: index l that enters 2π/d", lambda r: r.summary.lowest_bin_index, why_no_root),
    Fact("share at frequency 0", lambda r: r.summary.lowest_bin_share, why_no_spectrum),
    Fact("mean frequency, rad", lambda r: r.summary.centroid, why_no_spectrum),
    Fact("95 % lie at or below, rad", lambda r: r.summary.cutoff95, why_no_spectrum),
    Fact("flatness (1 = flat)", lambda r: r.summary.flatness, why_no_spectrum),
]


TABLE_SPECTRUM_FACTS = [
    Fact("share the same in all rows", lambda r: r.summary.mean_share, why_no_table),
]


GRID_SPECTRUM_FACTS = [
    Fact("A2 (1 = bound to one axis)", lambda r: isotropy_of(r).get("A2"), why_undeclared),
    Fact("A4 (1 = bound to two axes)", lambda r: isotropy_of(r).get("A4"), why_undeclared),
    Fact("idle share", lambda r: by_axis(getattr(r, "idle", None)), why_undeclared),
    Fact("aliased share", lambda r: by_axis(getattr(r, "aliased", None)), why_undeclared),
    Fact("largest step, rad", lambda r: getattr(r, "largest_step", None), why_undeclared),
]


def isotropy_of(result: Any) -> Mapping[str, float]:
    """A2 and A4 of an answer about a grid, nothing of another."""
    return getattr(result, "isotropy", {})


def lattice_in_words(lattice: int | Sequence[int]) -> int | str:
    """Points of a lattice with one axis, or of each axis."""
    return lattice if isinstance(lattice, int) else size_of(lattice)


def spectrum_rows(answers: Sequence[Answer]) -> Iterable[Sequence[Any]]:
    """A row for each encoding and lattice frequency; on grids k and omega of each axis."""
    if any_grid(answers):
        yield from grid_spectrum_rows(answers)
        return
    yield "encoding", "spec", "k", "omega", "density"
    for a in answers:
        for k, (omega, share) in enumerate(zip(a.result.omega, a.result.density, strict=True)):
            yield a.encoding.name, a.encoding.spec, k, omega, share


def grid_spectrum_rows(answers: Sequence[Answer]) -> Iterable[Sequence[Any]]:
    """The same where some have several axes; what has one stands along the last."""
    axes = max(np.ndim(a.result.density) for a in answers)
    names = axis_names(axes)
    yield "encoding", "spec", *(f"k_{n}" for n in names), *(f"omega_{n}" for n in names), "density"
    for a in answers:
        r, identity = a.result, (a.encoding.name, a.encoding.spec)
        omega = r.omega if r.on_grid else [r.omega]
        none = [None] * (axes - len(omega))
        for k, share in np.ndenumerate(r.density):
            at = [one[i] for one, i in zip(omega, k, strict=True)]
            yield *identity, *none, *k, *none, *at, share


def reconstruct_page(asked: Sequence[Answer | Refusal]) -> Page:
    """The answer of `pefourier reconstruct`."""
    return page_of("reconstruct", asked, reconstruct_text, reconstruct_rows, reconstruct_chart)


def reconstruct_chart(answers: Sequence[Answer], colour: bool) -> str:
    """The curves of Fig. 2, one chart per encoding, all with one vertical axis."""
    flat = [r.values for a in answers for r in a.result.reconstructions if r.values.ndim == 1]
    limits = limits_of(np.concatenate([*flat, [0.0]]))
    parts = []
    for a in answers:
        if a.result.on_grid:
            parts += map(partial(picture_of, a.encoding), a.result.reconstructions)
            continue
        curves = [
            (f"{a.encoding.label}, s = {r.position}", np.arange(a.result.lattice), r.values)
            for r in a.result.reconstructions
        ]
        label = f"position function rebuilt from {a.encoding.label}"
        drawn = chart(curves, "position", label, height=8, colour=colour, ylimits=limits)
        parts.append(drawn + "\n")
    return "".join(parts)


def picture_of(enc: Encoding, r: Any) -> str:
    """A rebuilt point as a picture; of several frames the one that it lies in."""
    values = r.values[r.position[:-2]]
    label = f"{enc.label}: {point_of(r.position)} rebuilt, rows down, columns across"
    return shades(values, label) + "\n"


def why_no_code(answer: Answer) -> str:
    """Why a position has no linear inverse."""
    return f"no code: length {len(answer.encoding)}"


RECONSTRUCT_FACTS = [
    Fact("position", lambda r: r.position),
    Fact("peak", lambda r: r.peak, why_no_spectrum),
    Fact("width", lambda r: r.width, why_no_spectrum),
    Fact("samples ≥ half", lambda r: r.half_max_count),
    Fact("side lobe", lambda r: r.side_lobe, why_no_spectrum),
    Fact("error", lambda r: r.error, why_no_spectrum),
    Fact("error of linear inverse", lambda r: r.inverse_error, why_no_code),
]


GRID_RECONSTRUCT_FACTS = [
    Fact("position", lambda r: point_of(r.position)),
    Fact("peak", lambda r: r.peak, why_no_spectrum),
    Fact("points ≥ half", lambda r: r.half_max_area),
    Fact("cross", lambda r: r.cross, why_no_spectrum),
    Fact("outside 3×3", lambda r: r.side_lobe, why_no_spectrum),
    Fact("error", lambda r: r.error, why_no_spectrum),
    Fact("error of linear inverse", lambda r: r.inverse_error, why_no_code),
]


def reconstruct_text(answers: Sequence[Answer]) -> str:
    """A line for each encoding and rebuilt position; grids have a table of their own."""
    on_grid = [a.result.on_grid for a in answers]
    flat = [a for a, grid in zip(answers, on_grid, strict=True) if not grid]
    grids = [a for a, grid in zip(answers, on_grid, strict=True) if grid]
    parts = [(RECONSTRUCT_FACTS, flat), (GRID_RECONSTRUCT_FACTS, grids)]
    return "\n".join(lines_of(facts, some) for facts, some in parts if some)


def lines_of(facts: Sequence[Fact], answers: Sequence[Answer]) -> str:
    """A line for each encoding and rebuilt position."""
    rows = [["encoding", *(fact.label for fact in facts)]]
    for a in answers:
        for r in a.result.reconstructions:
            one = Answer(a.encoding, r)
            rows.append([a.encoding.label, *(fact.cell(one) for fact in facts)])
    return aligned(rows, keys=2)


def reconstruct_rows(answers: Sequence[Answer]) -> Iterable[Sequence[Any]]:
    """A row for each encoding, rebuilt position and lattice point."""
    if any_grid(answers):
        yield from grid_reconstruct_rows(answers)
        return
    yield "encoding", "spec", "position", "t", "value"
    for a in answers:
        for r in a.result.reconstructions:
            for t, value in enumerate(r.values):
                yield a.encoding.name, a.encoding.spec, r.position, t, value


def grid_reconstruct_rows(answers: Sequence[Answer]) -> Iterable[Sequence[Any]]:
    """The same where some have several axes; what has one stands along the last."""
    axes = max(r.values.ndim for a in answers for r in a.result.reconstructions)
    names = axis_names(axes)
    yield "encoding", "spec", *(f"position_{n}" for n in names), *names, "value"
    for a in answers:
        for r in a.result.reconstructions:
            none = [None] * (axes - r.values.ndim)
            centre = np.atleast_1d(r.position).tolist()
            for place, value in np.ndenumerate(r.values):
                yield a.encoding.name, a.encoding.spec, *none, *centre, *none, *place, value


def faithful_page(asked: Sequence[Answer | Refusal]) -> Page:
    """The answer of `pefourier check-faithful`; of several SPECs also what speaks for which."""
    page = page_of("check-faithful", asked, faithful_text, faithful_rows)
    answers = [one for one in asked if isinstance(one, Answer)]
    if len(answers) < 2:  # the room of choices stays closed
        return page
    from pefourier.answers.choice import choose

    def conclude_all() -> str:
        chosen = choose(answers)
        return page.conclusion() + (paragraph(chosen, "  ") if chosen else "")

    return replace(page, conclusion=conclude_all, together=partial(choose, answers))


def why_no_pair(answer: Answer) -> str:
    """Why there are no closest two."""
    return "only one position"


def why_singular(answer: Answer) -> str:
    """Why the condition number is infinite."""
    r = answer.result
    return f"infinite: rank {r.rank} of {min(r.length, r.dimension)}"


def why_zero(answer: Answer) -> str:
    """Why a table has no stable rank."""
    return "none: codes are zero"


def why_no_shift(answer: Answer) -> str:
    """Why no matrix that moves codes by a position was looked for, or any would do."""
    if answer.encoding.domain.kind not in ("position", "time"):
        return f"not for {answer.encoding.domain.kind}s"
    if answer.result.length == 1:
        return "only one position"
    from pefourier.relations import LARGEST_SHIFT

    if answer.result.dimension > LARGEST_SHIFT:
        return f"not fitted for d over {LARGEST_SHIFT}"
    return "any T fits: codes are independent"


def why_no_lags(answer: Answer) -> str:
    """Why inner products were not compared with those of a lag."""
    return "no lags"


def why_no_rise(answer: Answer) -> str:
    """Why there is no lag from which inner products rise."""
    enc = answer.encoding
    if not enc.domain.has_lags or enc.act == "key":
        return "no inner products by lag"
    zero = isnan(answer.result.stable_rank)
    return why_zero(answer) if zero else "they never rise"


FAITHFUL_FACTS = [
    Fact("verdict", lambda r: r.verdict),
    Fact("positions", lambda r: r.length),
    Fact("dimensions", lambda r: r.dimension),
    Fact("distinct codes", lambda r: r.distinct),
    Fact("smallest distance", lambda r: r.min_distance, why_no_pair),
    Fact(
        "  between positions",
        lambda r: r.closest_pair and "{} and {}".format(*r.closest_pair),
        why_no_pair,
    ),
    Fact("  over rms code length (gap)", lambda r: r.gap, why_no_pair),
    Fact("rank", lambda r: r.rank),
    Fact("  singular values above", lambda r: r.rank_tolerance),
    Fact("condition number", lambda r: r.condition_number, why_singular),
    Fact("error of the linear inverse", lambda r: r.inverse_error),
    Fact("stable rank", lambda r: r.stable_rank, why_zero),
    Fact("Toeplitz residual", lambda r: r.toeplitz_residual, why_no_lags),
    Fact("residual of T(1) (Denk)", lambda r: of_axes(r.shift_residual), why_no_shift),
    Fact("inner products fall up to lag", lambda r: of_axes(r.first_rising_lag), why_no_rise),
]


def of_axes(value: Any) -> Any:
    """A value, or one for each axis by name."""
    return by_axis(value) if isinstance(value, list) else value


def why_no_grid(answer: Answer) -> str:
    """Why there is nothing to say about axes."""
    on_grid = answer.result.grid is not None
    return "no frequencies declared" if on_grid else "one axis"


GRID_FAITHFUL_FACTS = [
    Fact("grid", lambda r: r.grid if r.grid is None else size_of(r.grid), why_no_grid),
    Fact("rows before the grid", lambda r: r.prefix, why_no_grid),
    Fact("closest points, displacement", lambda r: r.displacement, why_no_grid),
    Fact("error of a(y) + b(x)", lambda r: r.separable_error, why_no_grid),
    Fact("A2 (1 = bound to one axis)", lambda r: (r.isotropy or {}).get("A2"), why_no_grid),
    Fact("A4 (1 = bound to two axes)", lambda r: (r.isotropy or {}).get("A4"), why_no_grid),
    Fact("idle share", lambda r: by_axis(r.idle), why_no_grid),
    Fact("aliased share", lambda r: by_axis(r.aliased), why_no_grid),
]
GRID_FIELDS = "grid prefix displacement axial separable_error isotropy idle aliased".split()


def grid_facts(answer: Answer) -> Answer:
    """An answer whose result has the fields of a grid: None where there is none."""
    r = answer.result
    facts = {name: getattr(r, name, None) for name in GRID_FIELDS}
    if r.on_grid and r.displacement is not None:
        facts["displacement"] = (
            " to ".join(ends_of(answer.encoding, r)) + f", {point_of(r.displacement)}"
        )
    return Answer(answer.encoding, SimpleNamespace(**facts))


def why_no_phases(answer: Answer) -> str:
    """Why no phases were rounded."""
    if answer.encoding.measure is not None and answer.encoding.domain.kind == "time":
        return "irregular times"
    return "no frequencies declared"


def why_no_phase_error(answer: Answer) -> str:
    """Why there is no largest error of a phase."""
    computed = answer.result.distinct_phase is not None
    return "beyond its range" if computed else why_no_phases(answer)


PRECISION_FACTS = [
    Fact("different when rounded to it", lambda r: r.distinct_cast),
    Fact("when computed in it", lambda r: r.distinct_phase, why_no_phases),
    Fact("phase error there, rad", lambda r: r.max_phase_error, why_no_phase_error),
]


def faithful_text(answers: Sequence[Answer]) -> str:
    """The facts of each encoding, what low precision costs it, and the findings in full."""
    text = side_by_side(FAITHFUL_FACTS, answers)
    if any_grid(answers):
        text += "\n" + side_by_side(GRID_FAITHFUL_FACTS, list(map(grid_facts, answers)))
    text += f"\n{precision_text(answers)}"
    for a in answers:
        if a.result.identified:
            text += f"\n{a.encoding.label} is {formula_in_words(a.result.identified)}\n"
        for finding in a.result.findings:
            message = f"{a.encoding.label}: {finding.message} [{finding.code}]"
            text += f"\n{finding.severity}: {message}\n"
    return text


def precision_text(answers: Sequence[Answer]) -> str:
    """What each format leaves of each encoding; a line says what the two ways are."""
    rows = [["", *(fact.label for fact in PRECISION_FACTS)]]
    for a in answers:
        for form, loss in a.result.precision.items():
            one = Answer(a.encoding, loss)
            rows.append([f"{a.encoding.label} in {form}", *(f.cell(one) for f in PRECISION_FACTS)])
    return aligned(rows) + paragraph(
        "rounded to it: codes are computed in float64 and only then rounded; computed in it: "
        "positions, frequencies, their products, sines and cosines are all rounded"
    )


def formula_in_words(identified: Mapping[str, Any]) -> str:
    """What a table turned out to be, in words."""
    params = ", ".join(f"{k}={number(v, 7)}" for k, v in identified["params"].items())
    names = identified.get("conventions", ())
    whose = f" (the convention of {', '.join(names)})" if names else ""
    what = identified.get("spec") or f"{identified['encoding']} with {params or 'no parameters'}"
    return f"{what}{whose}; largest difference {number(identified['max_difference'], 2)}"


def faithful_rows(answers: Sequence[Answer]) -> Iterable[Sequence[Any]]:
    """A row for each encoding: the single numbers, then distinct codes in each format."""
    several = ("identified", "precision", "findings", "closest_pair")
    names = dict.fromkeys(name for a in answers for name in fields_of(a.result))
    single = [name for name in names if name not in several]
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
        values = [in_one_cell(getattr(r, name, None)) for name in single]
        found = " ".join(finding.code for finding in r.findings)
        pair = r.closest_pair or (None, None)
        yield [a.encoding.name, a.encoding.spec, *values, *pair, *counts, found]


def in_one_cell(value: Any) -> Any:
    """A value as CSV has it: numbers of several axes, or by name, with spaces between.

    >>> in_one_cell((14, 14)), in_one_cell({"A2": 0.0, "A4": 1.0}), in_one_cell(0.5)
    ('14 14', '0.0 1.0', 0.5)
    """
    several = list(value.values()) if isinstance(value, Mapping) else value
    return " ".join(map(str, several)) if isinstance(several, list | tuple) else value


def encode_page(enc: Encoding, table: np.ndarray, positions: np.ndarray, out: str) -> Page:
    """The answer of `pefourier encode`."""
    size = f"{table.shape[0]} positions × {table.shape[1]}"
    written = {"out": out, "shape": list(table.shape), "positions": positions}
    conclusion = (
        f"The codes of {table.shape[0]} {agreeing(table.shape[0], 'position', 'positions')}, "
        f"{table.shape[1]} {agreeing(table.shape[1], 'number', 'numbers')} each, are in "
        f"{printable(out)} as float64, one row a position."
    )
    return Page(
        "encode",
        words=lambda: f"{printable(out)}: codes of {enc.label}, {size}\n",
        records=lambda: [identity_of(enc) | {"conclusion": conclusion} | written],
        conclusion=lambda: paragraph(conclusion),
    )


def report_page(asked: Sequence[Any], out: str) -> Page:
    """The answer of `pefourier report`: for each SPEC what the page says first, and where it is."""
    records = [
        fields_of(one) if isinstance(one, Refusal) else study_record(one, out) for one in asked
    ]
    told = (
        f"The page is in {printable(out)}; open it in a browser, or send it: it needs nothing else."
    )
    return Page(
        "report",
        words=lambda: "".join(
            conclusion_of(Answer(one.encoding, one.faithful))
            for one in asked
            if not isinstance(one, Refusal)
        ),
        records=lambda: records,
        rows=lambda: flattened(records),
        conclusion=lambda: paragraph(told),
    )


def study_record(study: Any, out: str) -> dict[str, Any]:
    """The JSON object of a SPEC on a page."""
    conclusion = {"conclusion": conclude(study.encoding, study.faithful)}
    return identity_of(study.encoding) | conclusion | {"out": out}
