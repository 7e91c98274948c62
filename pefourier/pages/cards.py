"""What is there to know first about an encoding? A card: verdict, a few numbers, one sentence.

As Lighthouse has gauges and ydata-profiling an overview with alerts, a card has the rung of the
ladder that holds and counts of findings; as in scikit-learn's page of an estimator what is long is
folded. Sorting and filtering, as pytest-html has them, are left out: they take a script.
"""

from collections.abc import Iterator
from typing import Any

from pefourier.analysis.faithful import LADDER, MAIN_FORMATS, SPECIAL_RUNGS, Faithfulness
from pefourier.answers.telling import telling_of
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.grids import size_of
from pefourier.geometry.precision import FormatLoss
from pefourier.pages.document import Markup, Words, element, for_people, grouped, value_cell
from pefourier.pages.reach import Reach
from pefourier.writing.text import join

GROUPS = ["check-faithful", "words"]
SEVERITIES = ("error", "warning", "note")
SEVERE = {
    "PROBABLY A MISTAKE": "error",
    "UNSEEN ANGLES": "warning",
    "UNSEEN UNLESS TRAINED ON": "warning",
    "BEYOND EVERY WINDOW": "warning",
    "CODES REPEAT": "warning",
    "TOO FEW ROWS": "warning",
}


def card(enc: Encoding, faithful: Faithfulness, reach: Reach | None, words: Words) -> Markup:
    """An encoding's name, what it is, how far up the ladder it is, numbers and a sentence."""
    said = telling_of(faithful).said(enc, faithful)
    rows = [
        element("div", element("dt", words.term(name, GROUPS)), element("dd", value))
        for name, value in facts_of(faithful, reach)
    ]
    return element(
        "article",
        element("h3", enc.label),
        element("p", what_it_is(enc, faithful, reach), class_="quiet"),
        reach_in_words(reach) if reach is not None else None,
        ladder(faithful, words),
        element("dl", rows),
        element("p", grouped(said.meaning)),
        class_="card",
    )


def reach_in_words(reach: Reach) -> Markup:
    """How far a model's rotations reach and what to do, which counts for more than its codes."""
    said = telling_of(reach.found).conclude(reach.encoding, reach.found)
    verdict = element("strong", f"{said.verdict}.", class_=SEVERE.get(said.verdict))
    what_to_do = next(filter(None, (said.action, *said.more)), "")
    return element("p", verdict, " ", grouped(f"{said.meaning} {what_to_do}"))


def what_it_is(enc: Encoding, faithful: Faithfulness, reach: Reach | None) -> str:
    """The family's name, base, layers and size."""
    base = enc.params.get("rho")
    layers = sum(len(run.index) for run in reach.found.layers) if reach is not None else 0
    size = f"grid of {size_of(faithful.grid)}" if faithful.grid else for_people(faithful.length)
    points = "" if faithful.grid else f" {enc.domain.kind}s"
    parts = [
        enc.name if enc.name != enc.label else "",
        f"{size}{points}",
        f"d {faithful.dimension}",
    ]
    parts += [f"base {for_people(base)}"] if isinstance(base, int | float) else []
    parts += [f"{layers} layers"] if layers > 1 else []
    return ", ".join(filter(None, parts))


def ladder(faithful: Faithfulness, words: Words) -> Markup:
    """The rungs, the one that holds in bold, those below it filled."""
    rungs = [
        rung
        for rung in LADDER
        if rung not in SPECIAL_RUNGS
        or rung == faithful.verdict
        or (rung == "separable" and faithful.on_grid)
    ]
    at = rungs.index(faithful.verdict)
    bad = "bad " if at == 0 else ""
    steps = [
        element(
            "li",
            words.term(rung, ["verdicts"]),
            class_=f"{bad}reached" if i <= at else None,
            aria_current="true" if i == at else None,
        )
        for i, rung in enumerate(rungs)
    ]
    return element("ol", steps, class_="ladder", aria_label="Verdicts, from the lowest")


def facts_of(r: Faithfulness, reach: Reach | None) -> Iterator[tuple[str, Any]]:
    """The numbers of a card, by their terms."""
    yield "gap", value_cell(r.gap)
    yield "rank", [value_cell(r.rank), f" of {for_people(min(r.length, r.dimension))}"]
    yield "precision", formats_in_words(r)
    about = list(r.findings)
    if reach is not None:
        found = reach.found
        verdict = telling_of(found).conclude(reach.encoding, found).verdict
        met = found.trained.length
        trained = f"trained {for_people(met)}, " if met else ""
        lengths = f"{trained}asked {for_people(found.length)}"
        told = f"{verdict.lower()} ({lengths})" if found.rotations else verdict.lower()
        yield "reach", element("span", told, class_=SEVERE.get(verdict))
        about += [one for one in found.findings if one not in about]
    counts = {s: sum(one.severity == s for one in about) for s in SEVERITIES}
    told = [f"{n} {s}{'s' * (n > 1)}" for s, n in counts.items() if n]
    worst = next((s for s, n in counts.items() if n), None)
    yield "findings", element("span", ", ".join(told) or "none", class_=worst)


def formats_in_words(r: Faithfulness) -> list[Markup]:
    """Which formats keep all codes that differ, and how many others do: if cast, if computed."""
    if r.distinct == 1:
        return [element("div", "nothing to keep apart")]
    told = {}
    for how in ("cast", "computed"):
        left = {form: kept_in(r.precision[form], how) for form in MAIN_FORMATS}
        lost = {form: n for form, n in left.items() if n < r.distinct}
        kept = [form for form in MAIN_FORMATS if form not in lost]
        whole = f"all {for_people(r.distinct)} codes in {join(kept)}" if kept else ""
        rest = ", ".join(f"{form} {for_people(n)}" for form, n in lost.items())
        told[how] = "; ".join(filter(None, (whole, rest)))
    if told["cast"] == told["computed"]:
        return [element("div", told["cast"])]
    return [element("div", f"if {how}: {one}") for how, one in told.items()]


def kept_in(loss: FormatLoss, how: str) -> int:
    """How many codes stay different in a format."""
    computed = how == "computed" and loss.distinct_phase is not None
    return min(loss.distinct_cast, loss.distinct_phase) if computed else loss.distinct_cast
