"""How is it told what changes with the length? One row for each length of a sweep."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from typing import Any

from pefourier.answers.page import Page
from pefourier.answers.reach import context_page, is_taken
from pefourier.answers.report import Answer, Refusal
from pefourier.answers.text import agreeing, aligned, number, paragraph

FAITHFUL = {
    "length": lambda r: r.length,
    "verdict": lambda r: r.verdict,
    "smallest distance": lambda r: r.min_distance,
    "rank": lambda r: r.rank,
    "condition number": lambda r: r.condition_number,
    "different in bfloat16": lambda r: r.precision["bfloat16"].distinct_cast,
    "computed in it": lambda r: r.precision["bfloat16"].distinct_phase,
}
REACH = {
    "pairs in phases not trained": lambda r: r.unseen,
    "pairs that never turn": lambda r: r.idle,
    "safe length, computed in bfloat16": lambda r: r.precision["bfloat16"].safe_phase,
    "phase error in float32, rad": lambda r: r.precision["float32"].max_phase_error,
}


def by_spec(answers: Sequence[Answer]) -> list[tuple[str, list[Answer]]]:
    """The answers of each SPEC, in the order asked."""
    return [(name, list(some)) for name, some in groupby(answers, key=lambda a: a.encoding.label)]


def faithful_over_lengths(page: Page, answers: Sequence[Answer]) -> Page:
    """The page of `pefourier check-faithful` for several lengths: a table in place of pages."""
    told = by_spec(answers)
    rows = {
        name: [[tell(a.result) for tell in FAITHFUL.values()] for a in some] for name, some in told
    }
    return replace(
        page,
        words=lambda: "\n".join(sweep_table(name, FAITHFUL, rows[name]) for name in rows),
        conclusion=lambda: "".join(paragraph(conclude_faithful(*one), "  ") for one in told),
        chart=None,
    )


def sweep_table(name: str, heads: Any, rows: Sequence[Sequence[Any]]) -> str:
    """A name and a table of numbers."""
    return f"{name}\n{aligned([list(heads), *([number(v) for v in row] for row in rows)])}"


def conclude_faithful(name: str, answers: Sequence[Answer]) -> str:
    """From which length on a verdict changes, and up to which length formats are safe."""
    results = [a.result for a in answers]
    changes = [(r.length, r.verdict) for r in results[:1]]
    changes += [
        (r.length, r.verdict) for before, r in pairwise(results) if r.verdict != before.verdict
    ]
    first = f"{name}: {changes[0][1]} at {changes[0][0]} positions"
    later = [f"{verdict} from {length} on" for length, verdict in changes[1:]]
    whole = (
        f"{', '.join([first, *later])}{'' if later else f' and at all up to {results[-1].length}'}."
    )
    safe = safe_words(results[-1])
    return f"{whole} {safe}" if safe else whole


def safe_words(result: Any) -> str:
    """Up to which length codes that are computed in 16 bits stay different."""
    lost = {
        form: result.precision[form].safe_phase
        for form in ("bfloat16", "float16")
        if (result.precision[form].safe_phase or result.length) < result.length
    }
    if not lost:
        return ""
    named = " and ".join(f"{form} to {length}" for form, length in lost.items())
    return f"Computed throughout in {named} positions, codes stay different; beyond, some are lost."


def context_over_lengths(asked: Sequence[Answer | Refusal]) -> Page:
    """The page of `pefourier context` for several lengths."""
    answers = [one for one in asked if isinstance(one, Answer)]
    told = by_spec(answers)
    rows = {
        name: [
            [a.result.length, r.name or "all layers", *(tell(r) for tell in REACH.values())]
            for a in some
            for r in a.result.rotations
        ]
        for name, some in told
    }
    heads = ["length", "rotation", *REACH]
    return replace(
        context_page(asked),
        words=lambda: "\n".join(sweep_table(name, heads, rows[name]) for name in rows),
        conclusion=lambda: "".join(paragraph(conclude_reach(*one), "  ") for one in told),
        chart=None,
    )


def conclude_reach(name: str, answers: Sequence[Answer]) -> str:
    """Up to which length every pair stays within phases of training."""
    unseen = [(a.result.length, sum(r.unseen for r in a.result.rotations)) for a in answers]
    if not any(a.result.rotations for a in answers):
        return f"{name}: nothing turns queries and keys, so that no length changes a rotation."
    trained = answers[0].result.trained
    if any(a.result.trained != trained for a in answers):
        return (
            f"{name}: no length of training is known, so each length was taken for it; give it by "
            "--trained to learn which pairs reach unseen angles."
        )
    told = "presumably trained" if is_taken(answers[0].result) else "trained"
    new = [(length, count) for length, count in unseen if count]
    if not new:
        return (
            f"{name}: {told} at {trained}; every pair stays within the angles of training at all "
            "lengths."
        )
    length, count = new[0]
    last = unseen[-1][1]
    more = f", {last} at {unseen[-1][0]}" if last != count else ""
    reach = agreeing(count, "pair reaches", "pairs reach")
    return (
        f"{name}: {told} at {trained}; from {length} positions on {count} {reach} angles unseen "
        f"in training{more}."
    )
