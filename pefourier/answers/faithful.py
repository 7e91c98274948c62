"""How is it told whether codes are distinct and can be inverted? `pefourier check-faithful`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

from pefourier.answers import telling
from pefourier.answers.faithful_figures import faithful
from pefourier.answers.frame import framed
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.specs import source_of
from pefourier.writing.page import Page


def faithful_page(asked: Sequence[telling.Answer | telling.Refusal]) -> Page:
    """The answer of `pefourier check-faithful`; of several SPECs also what speaks for which."""
    page = TOLD.page(asked)
    answers = [one for one in asked if isinstance(one, telling.Answer)]
    if len(answers) < 2:  # the room of choices stays closed
        return page
    from pefourier.answers.choice import choose, with_command

    def conclude_all() -> str:
        chosen = choose(answers)
        return page.conclusion() + (with_command(chosen, "  ") if chosen else "")

    return replace(page, conclusion=conclude_all, together=partial(choose, answers))


FAITHFUL = {
    "length": lambda r: r.length,
    "verdict": lambda r: r.verdict,
    "smallest distance": lambda r: r.min_distance,
    "rank": lambda r: r.rank,
    "condition number": lambda r: r.condition_number,
    "different in bfloat16": lambda r: r.precision["bfloat16"].distinct_cast,
    "computed in it": lambda r: r.precision["bfloat16"].distinct_phase,
}


def faithful_over_lengths(page: Page, answers: Sequence[telling.Answer]) -> Page:
    """The page of `pefourier check-faithful` for several lengths: a table in place of pages."""

    def row(a: telling.Answer) -> Iterable[Sequence[Any]]:
        yield [tell(a.result) for tell in FAITHFUL.values()]

    return telling.over_lengths(page, answers, FAITHFUL, row, conclude_faithful)


def conclude_faithful(name: str, answers: Sequence[telling.Answer]) -> str:
    """From which length on a verdict changes, and up to which length formats are safe."""
    results = [a.result for a in answers]
    first = f"{name}: {results[0].verdict} at {results[0].length} positions"
    later = [
        f"{r.verdict} from {r.length} on"
        for before, r in pairwise(results)
        if r.verdict != before.verdict
    ]
    rest = later or [f"and at all up to {results[-1].length}"]
    whole = f"{first}{',' if later else ''} {', '.join(rest)}."
    return f"{whole} {safe_words(results[-1])}".rstrip()


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


def model_of(enc: Encoding) -> dict[str, Any]:
    """What of a model's config acts beside the codes: its layers, what multiplies logits."""
    if "model_type" not in enc.params or source_of(enc.spec) != "config":
        return {}
    from pefourier.encodings.sources.layers import tell_layers

    factor = enc.params.get("softmax_factor", 1.0)
    return {"layers": tell_layers(enc.spec), "softmax_factor": factor}


TOLD = replace(
    framed("check-faithful", figure=faithful),
    record=lambda a: telling.record_of_fields(a) | model_of(a.encoding),
)
