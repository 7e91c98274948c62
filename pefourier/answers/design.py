"""How is it told which base suits a length? The answer of `pefourier design`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import starmap
from math import ceil, floor, log10, pi
from shlex import quote
from typing import TYPE_CHECKING, Any

import numpy as np

from pefourier.analysis.context import count_idle
from pefourier.analysis.design import (
    CRITERIA,
    Candidate,
    Design,
    find_first_base,
    grid_spec,
    steady_base,
)
from pefourier.answers.choice import TRAINABLE, advise, pasted
from pefourier.answers.plot import USUAL, WIDTH, Look, add_legend, literal, make_panels
from pefourier.answers.telling import Answer, Said, Telling, meaning_of, record_of_fields, sentence
from pefourier.writing.page import Page, fields_told
from pefourier.writing.text import aligned, capital, join, number, paragraph

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEADS = {
    "rho": "base",
    "idle": "never turn",
    "bound": "sum < 0 from lag",
    "min_distance": "smallest distance",
    "min_distance_cast": "after rounding",
    "rank": "rank",
    "stable_rank": "stable rank",
    "condition_number": "condition number",
}
ALWAYS = {"rho", "idle", "bound"}  # columns: what every base costs
CURVES = {  # of a design: field of a candidate, the axis, its scale, the criteria it answers
    "min_distance": ("smallest distance", "linear", ("distance",)),
    "rank": ("rank", "linear", ("rank",)),
    "stable_rank": ("stable rank", "linear", ("stable_rank",)),
    "condition_number": ("condition number", "log", ("condition",)),
    "idle": ("pairs never turning", "linear", ("turns", "wavelength")),
    "bound": ("first lag with Σ\u00a0cos\u00a0<\u00a00", "log", ("bound",)),
}
MARKED = "C6"  # the best, of whatever curve


def by_axes(designs: Sequence[Design]) -> list[tuple[str, Design]]:
    """Each design behind its axis, as its words begin; axes that are alike have one.

    >>> from pefourier.analysis.design import design_grid
    >>> found = design_grid((4, 8, 8), 12, bases=(2.0,), criteria=())
    >>> [axes for axes, _ in by_axes(found)], [axes for axes, _ in by_axes(found[1:])]
    (['axis t: ', 'axes y and x: '], ['both axes: '])
    """
    alike: dict[tuple[int, int], list[Design]] = {}
    for one in designs:
        alike.setdefault((one.length, one.d), []).append(one)
    return [(names_of_axes(same, len(designs)), same[0]) for same in alike.values()]


def names_of_axes(same: Sequence[Design], axes: int) -> str:
    """The axes of designs that are alike; nothing where there is no grid."""
    names = [one.axis for one in same if one.axis]
    if len(names) > 1:
        every = {2: "both axes", 3: "all axes"}[axes]
        return f"{every if len(names) == axes else f'axes {join(names)}'}: "
    return f"axis {names[0]}: " if names else ""


def grid_specs_text(designs: Sequence[Design]) -> list[str]:
    """The rotation of a grid by each criterion."""
    if len(designs) == 1:
        return []
    specs = {name: grid_spec(designs, name) for name in designs[0].best}
    told = {name.replace("_", " "): quote(spec) for name, spec in specs.items() if spec}
    rows = [[f"best by {name}", spec] for name, spec in told.items()]
    return [aligned(rows)] if rows else []


def designs_text(answers: Sequence[Answer]) -> str:
    """The candidates of one design, or of one for each axis of a grid."""
    designs = [a.result for a in answers]
    return "\n".join([*starmap(design_text, by_axes(designs)), *grid_specs_text(designs)])


def design_record(answer: Answer) -> dict[str, Any]:
    """The JSON object of a design."""
    design: Design = answer.result
    asked = {"length": design.length, "d": design.d, "for": design.criteria}
    asked |= {"axis": design.axis} if design.axis else {}
    params = asked | {"dtype": design.dtype} | (vars(design.steps) if design.steps else {})
    return record_of_fields(answer, {"encoding": "rope", "spec": "rope", "params": params})


def conclude_design(design: Design) -> Said:
    """Whether a base is needed, and what each use, or else each criterion of codes, asks for.

    >>> from pefourier.analysis.design import design_base
    >>> said = conclude_design(design_base(80, 64, criteria=("turns", "distance"))).text
    >>> print(said)  # doctest: +NORMALIZE_WHITESPACE
    CRITERIA DISAGREE. For 80 positions and d 64 a series takes base 13.8: up to 13.82141 every pair
    completes a turn; at lag 9 the sum of cosines first turns negative:
    similar tokens then score below random ones on average. The best of the 15 bases tried is 1.5 by
    distance (smallest distance 4.453).
    """
    size = f"{design.length} positions{steps_words(design)} and d {design.d}"
    first, *more = asked_bases(design)
    if design.dft_serves:
        more = [f"With another encoding, {first}", *more]
        return Said(*meaning_of("design", "NO BASE NEEDED", size=size), "", tuple(more))
    bases = {design.best[name] for name in told_criteria(design)}
    found = "NO BASE FOUND" if bases <= {None} else "BASE FOUND"
    verdict = "CRITERIA DISAGREE" if len(bases) > 1 else found
    return Said(*meaning_of("design", verdict, size=size, first=first), "", tuple(more))


def steps_words(design: Design) -> str:
    """Which time is cut into which steps, where positions are those."""
    steps = design.steps
    return f" ({steps.span} in steps of {steps.resolution})" if steps else ""


def told_criteria(design: Design) -> list[str]:
    """The criteria that were asked for, the rule of language models first; else those of use.

    Where all are shown, the table marks the best by codes, and the length says which use it has.
    """
    if design.criteria != CRITERIA:
        numbers = {c.rho: c.condition_number for c in design.candidates}
        known = [n for n, rho in design.best.items() if n != "condition" or numbers[rho]]
        return sorted(known, key="bound".__ne__)
    text = not (design.steps or design.axis)
    return ["turns"] * (not text or design.length <= TRAINABLE) + ["bound"] * text


def asked_bases(design: Design) -> list[str]:
    """A sentence for each criterion of use, and one for all that are seen in the codes."""
    told = told_criteria(design)
    facts = [fact(name, design) for name in told if name not in EVIDENCE]
    codes = [name for name in told if name in EVIDENCE]
    first, *more = [*facts, *([best_by_codes(design, codes)] if codes or not facts else [])]
    return [first, *map(capital, more)]


def best_by_codes(design: Design, criteria: Sequence[str]) -> str:
    """The best base by each criterion that is seen in the table of codes."""
    bases = {c.rho: c for c in design.candidates}
    tried = f"the {len(bases)} bases tried" if len(bases) > 1 else "one base tried"
    if not criteria:
        return sentence("design", "none")
    asked = [
        f"{tied_words(design, name)} by {name.replace('_', ' ')} "
        f"({EVIDENCE[name](bases[design.best[name]])})"
        for name in criteria
    ]
    verb = "is" if len(asked) == 1 and not design.tied.keys() & set(criteria) else "are"
    return sentence("design", "codes", tried=tried, verb=verb, asked=join(asked))


def in_few_digits(rho: float, criterion: str, design: Design) -> str:
    """A base in three digits, or in as many more as it takes to serve as well.

    What is a most is not rounded up, nor what is a least down. Bases above the least may fail: it
    is one from which on some serve.
    """
    if criterion == "bound":
        rho = steady_base(rho, design.d, design.length)
    unit = 10.0 ** (floor(log10(rho)) - 2)
    if criterion == "turns":
        return number(floor(round(rho / unit, 9)) * unit, 7)
    above = (ceil(round(rho / u, 9)) * u for u in (unit, unit / 10, unit / 100))
    serving = (b for b in above if find_first_base(np.array([b]), design.d, design.length, []))
    return number(next(serving, rho), 7)


def fact(criterion: str, design: Design) -> str:
    """What a criterion that has a formula or a search of its own asks for, and what it costs."""
    name, _, given = criterion.partition("=")
    rho, found = design.best[criterion], {c.rho: c for c in design.candidates}
    if rho is None:
        return sentence("design", "no bound")
    text = not (design.steps or design.axis)
    inputs = "patches" if design.axis else "rows" if design.steps else "tokens"
    told: dict[str, Any] = {"rho": rho, "lengths": given, "cost": "", "inputs": inputs}
    if name == "phase":
        told["similarity"], _, layers = given.partition(":")
        told["through"] = f" after {layers} layers" if layers else ""
    elif name in ("turns", "bound"):
        told["few"] = in_few_digits(rho, name, design)
    c = found.get(rho)  # none where it is below 1
    usual = found.get(1e4)
    if name == "turns" and design.steps and usual and usual.idle and rho < usual.rho:
        told["cost"] = sentence("design", "still", idle=usual.idle, pairs=design.d // 2)
    elif name == "turns" and design.axis and (most := design.best.get("bound")):
        told["cost"] = sentence("design", "positive", few=in_few_digits(most, "bound", design))
    elif name == "turns" and c and c.bound:
        told["cost"] = sentence("design", "negative", lag=c.bound, inputs=inputs)
    elif name == "bound":
        told["who"] = "a language model takes" if text else "the rule of language models asks for"
        far = float(told["few"]) > 1.02 * rho
        told["others"] = sentence("design", "island" if far else "edge", rho=rho)
        frequencies = float(told["few"]) ** (-2 * np.arange(design.d // 2) / design.d)
        if idle := count_idle(frequencies, design.length):
            told["cost"] = sentence("design", "idle", idle=idle, pairs=design.d // 2)
    said = "turns of a side" if design.axis and name == "turns" else name
    return sentence("design", said, **told)


def tied_words(design: Design, criterion: str) -> str:
    """The base that is best by a criterion of the table of codes, or all that are as good.

    >>> from pefourier.analysis.design import design_base
    >>> tied_words(design_base(100, 32, (2.0, 3.0, 5.0, 1e4), ("rank",)), "rank")
    'all from 2 to 5'
    """
    tied = best_bases(design, criterion)
    if len(tied) < 3:
        return " and ".join(map(base_words, tied))
    between = [c.rho for c in design.candidates if tied[0] <= c.rho <= tied[-1]]
    ends = f"all from {base_words(tied[0])} to {base_words(tied[-1])}"
    left = [base_words(rho) for rho in between if rho not in tied]
    return f"{ends} but {join(left)}" if left else ends


EVIDENCE = {  # the number that speaks for a base, of criteria that are seen in the table of codes
    "distance": lambda c: f"smallest distance {number(c.min_distance)}",
    "rank": lambda c: f"{c.rank}",
    "stable_rank": lambda c: f"{number(c.stable_rank)}",
    "condition": lambda c: f"number {number(c.condition_number)}",
}


def base_words(rho: float) -> str:
    """A base in as many digits as it takes to type it back: the next ones may not serve.

    >>> base_words(1e6), base_words(2090300.0), base_words(722.5228)
    ('1000000', '2090300', '722.5228')
    """
    return number(rho, 7)


def best_bases(design: Design, criterion: str) -> tuple[float | None, ...]:
    """All candidates that are best by a criterion."""
    return design.tied.get(criterion, (design.best[criterion],))


def columns_of(design: Design) -> list[str]:
    """The columns of the table of candidates: what is asked about, and what every base costs."""
    asked = set(design.criteria or CRITERIA)
    shown = ALWAYS | {field for field, (*_, names) in CURVES.items() if asked & set(names)}
    if design.dtype:
        shown |= {"min_distance", "min_distance_cast"}
    return [key for key in HEADS if key in shown]


def design_text(axes: str, design: Design) -> str:
    """The candidates, the best by a criterion marked with its name; of a grid, on which axes."""
    columns = columns_of(design)
    timed = ["slowest wave"] * (design.steps is not None)
    rows = [[*(HEADS[key] for key in columns), *timed, "best by"]]
    lead = f"{axes}{design.length} positions, d {design.d}\n" if axes else ""
    if design.steps:
        fastest = lasting(design, 2 * pi, design.steps.resolution)
        lead = f"position = time / {design.steps.resolution}; the fastest wave lasts {fastest}\n"
    for c in design.candidates:
        names = [name for name in design.best if c.rho in best_bases(design, name)]
        values = (number(getattr(c, key)) for key in columns if key != "rho")
        slowest = 2 * pi * c.rho ** (1 - 2 / design.d)
        lasts = [lasting(design, slowest, design.steps.span) for _ in timed]
        rows.append([base_words(c.rho), *values, *lasts, ", ".join(names)])
    return lead + aligned(rows)


def lasting(design: Design, positions: float, text: str) -> str:
    """How long so many positions last, in the unit of a text."""
    value, unit = design.steps.lasting(positions, text)
    return f"{number(value)} {unit}".rstrip()


def design_rows(answers: Sequence[Answer]) -> Iterable[Sequence[Any]]:
    """A row for each candidate, of a grid with its axis."""
    designs: list[Design] = [a.result for a in answers]
    names = list(fields_told(Candidate))
    axes = ["axis"] if len(designs) > 1 else []
    yield [*axes, *names, "best_by"]
    for design in designs:
        for c in design.candidates:
            best = " ".join(name for name in design.best if c.rho in best_bases(design, name))
            yield [*([design.axis] if axes else []), *(getattr(c, n) for n in names), best]


def criteria(answers: Sequence[Answer], look: Look = USUAL) -> Figure:
    """Each criterion over the base with its best base marked, a curve for each axis of a grid."""
    designs = by_axes([a.result for a in answers])
    figure, panels = make_panels(len(CURVES), 1, (WIDTH, 8.4), look, sharex=True)
    for axes, (field, (label, scale, names)) in zip(panels[:, 0], CURVES.items(), strict=True):
        axes.grid(axis="x", color="0.5", alpha=0.25, linewidth=0.6)
        best: dict[str, list[str]] = {}
        for i, (letters, design) in enumerate(designs):
            known = np.array(
                [(c.rho, v) for c in design.candidates if (v := getattr(c, field)) is not None]
            ).reshape(-1, 2)
            told = f"{letters}{design.length} positions, d {design.d}"
            axes.plot(
                *known.T, color=f"C{i}", marker="o", markersize=2.5, linewidth=1.2, label=told
            )
            for name in design.best:
                if name.partition("=")[0] in names:
                    bases = mark_best(axes, design, name, known)
                    best.setdefault(name.replace("_", " "), []).append(bases)
        axes.set(xscale="log", yscale=scale)
        axes.set_ylabel(label, fontsize=8)
        title = ", ".join(f"{name}: {join(filter(None, each))}" for name, each in best.items())
        axes.set_title(literal(title), loc="right", fontsize=8, color=MARKED, pad=2)
    panels[-1, 0].set_xlabel("base ρ")
    figure.align_ylabels(panels)
    add_legend(figure, panels[0, 0], look)
    return figure


def mark_best(axes: Axes, design: Design, name: str, known: np.ndarray) -> str:
    """Mark the best base by a criterion, or those that are as good, and tell which these are."""
    bases = design.tied.get(name, (design.best[name],))
    best = known[np.isin(known[:, 0], bases)]
    if not len(best):
        return ""
    if name not in design.tied:
        axes.axvline(best[0, 0], color=MARKED, linestyle="--", linewidth=0.9)
    axes.plot(*best.T, "D", color=MARKED, markersize=5, linestyle="none")
    return " … ".join(number(base) for base in dict.fromkeys(best[[0, -1], 0].tolist()))


TOLD = Telling(
    "design",
    conclude=lambda _, found: conclude_design(found),
    words=designs_text,
    rows=design_rows,
    record=design_record,
    figure=criteria,
    lead=None,
)


def design_page(answers: Sequence[Answer]) -> Page:
    """The answer of `pefourier design`; axes of a grid that are alike have one conclusion.

    Where no criterion was asked for, which encoding to take is said before its base.
    """
    designs: list[Design] = [a.result for a in answers]

    def advice() -> tuple[str, ...]:
        one = designs[0]
        if one.criteria != CRITERIA:
            return ()
        found = ((name, one.best[name]) for name in ("turns", "bound"))
        bases = {name: in_few_digits(rho, name, one) for name, rho in found if rho}
        d, step = sum(each.d for each in designs), one.steps.resolution if one.steps else ""
        return advise([each.length for each in designs], d, bases, steps_words(one), step)

    def conclude_all() -> str:
        if not (found := advice()):
            told = ((axes, conclude_design(one).text) for axes, one in by_axes(designs))
            return "".join(paragraph(axes + text) for axes, text in told)
        known = [sentence("design", "grid")] if len(designs) > 1 else []
        known += [f"{axes}{' '.join(asked_bases(one))}" for axes, one in by_axes(designs)]
        base = paragraph(" ".join(["Base:", known[0], *map(capital, known[1:])]))
        take, rest, command = found
        return f"{paragraph(take)}\n{base}\n{paragraph(rest)}{pasted(command)}"

    told = TOLD.page(answers)
    return replace(told, conclusion=conclude_all, together=lambda: " ".join(advice()))
