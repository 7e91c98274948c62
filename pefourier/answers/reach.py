"""How is it told how far a rotation reaches and which base a length wants?"""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

from pefourier.answers.page import Page, fields_of
from pefourier.answers.text import aligned, number, paragraph
from pefourier.design import Candidate, Design

HEADS = {
    "rho": "base",
    "min_distance": "smallest distance",
    "min_distance_cast": "after rounding",
    "rank": "rank",
    "stable_rank": "stable rank",
    "condition_number": "condition number",
    "idle": "pairs that never turn",
    "bound": "first lag below the bound",
}
WANTS = {  # what is best by a criterion, in words
    "turns": "the largest base with which every pair finishes a turn is",
    "distance": "the codes lie furthest apart with",
    "rank": "the most position functions are kept with",
    "stable_rank": "energy is spread over the most directions with",
    "condition": "the inverse is the most stable with",
    "bound": "the smallest base whose sum of cosines stays positive is",
}


def design_page(design: Design, params: dict[str, Any]) -> Page:
    """The answer of `pefourier design`."""
    return Page(
        "design",
        words=lambda: design_text(design),
        records=lambda: [design_record(design, params)],
        rows=lambda: design_rows(design),
        conclusion=lambda: paragraph(conclude_design(design)),
    )


def design_record(design: Design, params: dict[str, Any]) -> dict[str, Any]:
    """The JSON object of a design."""
    identity = {"encoding": "rope", "spec": "rope", "params": params}
    return identity | {"conclusion": conclude_design(design)} | fields_of(design)


def conclude_design(design: Design) -> str:
    """What each criterion asks for, that they contradict one another, and when no base is needed.

    >>> from pefourier.design import design_base
    >>> print(conclude_design(design_base(80, 64, criteria=("turns", "distance"))))
    For 80 positions and d 64 the largest base with which every pair finishes a turn is 13.82; the
    codes lie furthest apart with 1.5 (smallest distance 4.453). The criteria contradict one
    another: choose by the one that your use needs.
    """
    bases = {c.rho: c for c in design.candidates}
    wants = [
        f"{want(name)} {number(rho)}{evidence(name, bases.get(rho))}"
        for name, rho in design.best.items()
        if rho is not None
    ]
    told = []
    if design.dft_serves:
        told.append(
            f"No base is needed: with {design.length} positions and d {design.d} the DFT's lattice "
            "(dft) keeps all codes the same distance apart and can be inverted exactly."
        )
    if wants:
        among = "Among bases" if told else f"For {design.length} positions and d {design.d}"
        told.append(f"{among} {'; '.join(wants)}.")
    if len({rho for rho in design.best.values() if rho is not None}) > 1:
        told.append("The criteria contradict one another: choose by the one that your use needs.")
    told += [
        "No base up to 1000 times the length keeps the sum of cosines positive."
        for name, rho in design.best.items()
        if rho is None and name == "bound"
    ]
    return " ".join(told)


def want(criterion: str) -> str:
    """What a criterion asks for."""
    name, _, lengths = criterion.partition("=")
    if name == "wavelength":
        return f"the slowest pair needs {lengths} lengths for a turn with"
    return WANTS[name]


def evidence(criterion: str, best: Candidate | None) -> str:
    """The number that speaks for a base."""
    told = {
        "distance": lambda c: f" (smallest distance {number(c.min_distance)})",
        "rank": lambda c: f" (rank {c.rank})",
        "stable_rank": lambda c: f" (stable rank {number(c.stable_rank)})",
        "condition": lambda c: f" (condition number {number(c.condition_number)})",
    }
    if best is None or criterion not in told:
        return ""
    if criterion == "condition" and best.condition_number is None:
        return f" (rank {best.rank} of the columns: it has no stable inverse)"
    return told[criterion](best)


def columns_of(design: Design) -> list[str]:
    """The columns of the table of candidates; without a format nothing was rounded."""
    cast = any(c.min_distance_cast is not None for c in design.candidates)
    return [key for key in HEADS if cast or key != "min_distance_cast"]


def design_text(design: Design) -> str:
    """The candidates, the best by a criterion marked with its name."""
    columns = columns_of(design)
    rows = [[*(HEADS[key] for key in columns), "best by"]]
    for c in design.candidates:
        names = [name for name, rho in design.best.items() if rho == c.rho]
        rows.append([*(number(getattr(c, key)) for key in columns), ", ".join(names)])
    return aligned(rows)


def design_rows(design: Design) -> Iterable[Sequence[Any]]:
    """A row for each candidate."""
    names = [field.name for field in fields(Candidate)]
    yield [*names, "best_by"]
    for c in design.candidates:
        best = " ".join(name for name, rho in design.best.items() if rho == c.rho)
        yield [*(getattr(c, name) for name in names), best]
