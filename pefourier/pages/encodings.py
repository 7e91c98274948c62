"""What is there to say of some encodings? All of it, side by side, on one page of HTML.

The page has what `spectrum`, `reconstruct`, `check-faithful` and `relations` answer: a card for
each encoding first, then conclusions with pictures; numbers are folded, each table with the
command that gives it.
"""

import platform
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np

from pefourier.analysis.faithful import Faithfulness, assess, formula_in_words
from pefourier.analysis.reconstruct import Reconstructions, position_functions
from pefourier.analysis.relations import Relations, relate
from pefourier.analysis.spectrum import Spectrum, density
from pefourier.answers import plot, telling
from pefourier.answers.choice import choose
from pefourier.answers.encode import heatmap
from pefourier.answers.faithful_figures import singular_values
from pefourier.answers.grid_reach import reach_on_grid
from pefourier.answers.reconstruct import reconstruct
from pefourier.answers.relations import relations
from pefourier.answers.spectrum import by_decade, spectrum, spectrum_by_decade
from pefourier.answers.terms import read_terms
from pefourier.encodings.encoding import Encoding, Finding
from pefourier.geometry import Progress
from pefourier.pages.cards import card
from pefourier.pages.document import (
    Chapter,
    Markup,
    Words,
    about,
    answer_tables,
    command,
    details,
    document,
    element,
    grouped,
    table,
)
from pefourier.pages.inline_svg import INLINE, INLINE_WIDE, draw_inline
from pefourier.pages.reach import Reach, find_reach, reach_part
from pefourier.pages.usage import usage_part
from pefourier.version import __version__
from pefourier.writing.escapes import printable
from pefourier.writing.page import Page, fields_of, flattened
from pefourier.writing.text import number, paragraph

LIBRARIES = ("numpy", "scipy", "matplotlib")
SMOOTHED = ("spectrum", "reconstruct", "report")  # commands that take --lattice and --sigma
NUMBERS = "Numbers, and the command that gives them"
SPIKE = 0.05  # of an axis that is all a curve takes above as much of its height
MOST_ROWS = 128  # of a table, in a picture
REACH = "How far do rotations reach?"
USED = "Which frequencies do its weights use?"


@dataclass(frozen=True)
class Study:
    """All that is found about one SPEC."""

    encoding: Encoding
    spectrum: Spectrum
    rebuilt: Reconstructions | None  # None of times at uneven steps
    faithful: Faithfulness
    related: Relations

    @property
    def first_rows(self) -> np.ndarray:
        """The codes that a picture of the table shows."""
        return next(self.encoding.blocks(MOST_ROWS))[1]

    def answer(self, name: str) -> telling.Answer:
        """What one of the commands answers."""
        return telling.Answer(self.encoding, getattr(self, name))


@dataclass(frozen=True)
class Inquiry:
    """What a page is asked: how the encodings were named, and with which options."""

    options: Mapping[str, Any] = field(default_factory=dict)  # of all commands, as typed
    lattice: int | None = None
    sigma: float | None = None
    folder: tuple[str, ...] = ()  # of training that is on the page, too

    def study(self, enc: Encoding, progress: Callable[[str], Progress] | None = None) -> Study:
        """Ask all questions about an encoding; rows that prove to be a grid's are one for all."""
        faithful = assess(enc, progress)
        (enc,) = faithful.about
        return Study(
            enc,
            density(enc, self.lattice, self.sigma),
            None
            if enc.domain.irregular
            else position_functions(enc, None, self.lattice, self.sigma),
            faithful,
            relate(enc, faithful.shift_residual),
        )

    def line(self, question: str, studies: Sequence[Study]) -> str:
        """The command that answers one of the questions about these encodings."""
        folder = self.folder if question == "report" else ()
        words = ["pefourier", question, *folder, *(study.encoding.spec for study in studies)]
        options = {f"--{name}": value for name, value in self.options.items()}
        if question in SMOOTHED:
            options |= {"--lattice": self.lattice, "--sigma": self.sigma}
        given = [
            (name, option_value(value)) for name, value in options.items() if value is not None
        ]
        return shlex.join([*words, *(part for pair in given for part in pair)])


def option_value(value: Any) -> str:
    """The value of an option as it is typed: sides of a grid with x between them."""
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


def encodings_document(
    studies: Sequence[Study], refusals: Sequence[telling.Refusal], inquiry: Inquiry, title: str = ""
) -> str:
    """The page about some encodings, and why others could not be answered for."""
    words = Words(read_terms())
    return document(
        title or f"What {names_of(studies)} {'say' if len(studies) > 1 else 'says'} about position",
        None,
        encoding_sections(studies, refusals, inquiry, words),
        words,
    )


def names_of(studies: Sequence[Study]) -> str:
    """The names of encodings, each once, or how many there are."""
    names = list(dict.fromkeys(study.encoding.label for study in studies))
    return ", ".join(names) if len(names) <= 4 else f"{len(names)} encodings"


def encoding_sections(
    studies: Sequence[Study], refusals: Sequence[telling.Refusal], inquiry: Inquiry, words: Words
) -> list[Chapter]:
    """The parts of a page, the cards first."""
    reaches, unknown = find_reach([study.encoding for study in studies], inquiry.options)
    own = [study.encoding for study in studies]
    grids = (e for e in own if e.act == "rotate" and e.measure and len(e.domain.sides) > 1)
    on_grids = [about(enc.label, reach_on_grid(enc)) for enc in grids]
    parts = [
        Chapter("conclusions", "At a glance", cards_part(studies, refusals, reaches, words)),
        Chapter("reach", REACH, [*reach_part(reaches, unknown, inquiry.options, words), *on_grids]),
        Chapter("findings", "Findings", findings_part(studies, words)),
        *(answered(name, studies, inquiry, words) for name in QUESTIONS),
        Chapter("usage", USED, usage_part(own, inquiry.options, words)),
        Chapter("made", "How these numbers were made", made_part(studies, inquiry, words)),
    ]
    return [part for part in parts if part.inside]


def cards_part(
    studies: Sequence[Study],
    refusals: Sequence[telling.Refusal],
    reaches: Sequence[Reach],
    words: Words,
) -> list[Any]:
    """A card for each encoding, which of several to take, and of which nothing is known."""
    known = {one.label: one for one in reversed(reaches)}
    found = [
        card(study.encoding, study.faithful, known.get(study.encoding.label), words)
        for study in studies
    ]
    for refusal in refusals:
        said = element("h3", refusal.spec), about("Not answered:", refusal.error, "error")
        found.append(element("article", said, class_="card"))
    chosen = choose([telling.Answer(study.encoding, study.faithful) for study in studies])
    return [
        element("div", found, class_="cards"),
        [element("h3", "Which of them?"), element("p", grouped(chosen))] if chosen else None,
    ]


def conclusions(studies: Sequence[Study], name: str) -> list[Markup]:
    """What the numbers of each encoding say about one of the questions."""
    told = [(s.encoding, getattr(s, name)) for s in studies]
    return [about(enc.label, grouped(telling.conclude(enc, own))) for enc, own in told]


def findings_part(studies: Sequence[Study], words: Words) -> list[Any]:
    """What is wrong or worth knowing, with its explanation."""
    listed = []
    for study in studies:
        label, known = study.encoding.label, study.faithful.identified
        if known:
            said = [element("strong", "identified"), f" {label} is {formula_in_words(known)}."]
            listed.append(element("li", said, class_="note"))
        listed += [finding_item(label, one, words) for one in study.faithful.findings]
    return [element("ul", listed, class_="findings")] if listed else []


def finding_item(label: str, finding: Finding, words: Words) -> Markup:
    """A finding: what was seen, and what is behind it."""
    group = ["findings"]
    term = words.find(finding.code, group)
    said = [element("strong", finding.severity), f" {label}: {finding.message} ["]
    told = f"{term.meaning} {term.good}".strip() if term else ""
    return element(
        "li",
        element("p", said, words.term(finding.code, group), "]"),
        element("p", told, class_="quiet") if told else None,
        class_=finding.severity,
    )


def folded_numbers(
    studies: Sequence[Study], name: str, question: str, inquiry: Inquiry, words: Words
) -> Markup | None:
    """The tables that a command answers with, folded, and the command."""
    asked = [study.answer(name) for study in studies]
    tell = partial(telling.telling_of(asked[0].result).words, asked)
    groups = [question, "check-faithful", "reconstruct", "spectrum", "every answer"]
    line = command(inquiry.line(question, studies))
    return details(NUMBERS, answer_tables(f"{question} in numbers", tell, words, groups), line)


def drawn(
    studies: Sequence[Study],
    name: str,
    draw: Callable[..., Any],
    told: str,
    look: plot.Look = INLINE,
    most: int = plot.MANY,
) -> list[Markup]:
    """A picture of some encodings at a time, as many as can be told apart in one."""
    found = []
    for start in range(0, len(studies), most):
        part = [study.answer(name) for study in studies[start : start + most]]
        labels = ", ".join(a.encoding.label for a in part)
        here = f"{draw.__name__.replace('_', '-')}-of-{most}-{start}"
        found.append(draw_inline(here, told, draw, part, look, of=labels))
    return found


def divide_by_axes(studies: Sequence[Study]) -> tuple[list[Study], list[Study]]:
    """Encodings with one axis, then those on grids."""
    flat = [study for study in studies if not study.spectrum.on_grid]
    return flat, [study for study in studies if study not in flat]


def figures(*pictures: Sequence[Markup]) -> Markup:
    """Pictures side by side where there is room."""
    return element("div", pictures, class_="figures")


def is_spike(answers: Sequence[telling.Answer]) -> bool:
    """Whether densities over evenly spaced frequencies all lie in a corner, at the slowest.

    >>> from pefourier.encodings import load
    >>> made = [Inquiry(lattice=n).study(load("rope", 32, 16)) for n in (32, 8192)]
    >>> [is_spike([one.answer("spectrum")]) for one in made]
    [False, True]
    """
    found = (a.result.density for a in answers)
    return by_decade(answers) and all((g > SPIKE * g.max()).mean() < SPIKE for g in found)


def spectrum_pictures(studies: Sequence[Study]) -> list[Any]:
    """Frequencies, evenly spaced and by their logarithm, and the waves that they are."""
    flat, grids = divide_by_axes(studies)
    linear = "Share of energy at each frequency of the lattice (Eq. 15)."
    decades = "Share of energy per factor ten of frequency; slow waves have room here."
    plane = "Share of energy at each pair of frequencies, and summed along each axis."
    seen = [] if is_spike([one.answer("spectrum") for one in flat]) else flat
    lines = drawn(seen, "spectrum", spectrum, linear)
    return [
        figures(lines, drawn(flat, "spectrum", spectrum_by_decade, decades)),
        drawn(grids, "spectrum", spectrum, plane, INLINE_WIDE, most=1),
    ]


def rebuilt_pictures(studies: Sequence[Study]) -> Markup:
    """Position functions rebuilt from frequencies, and from codes."""
    flat, grids = divide_by_axes(studies)
    told = "A 1 at each of some positions, rebuilt from the frequencies alone (Algorithm 1)."
    lines = drawn(flat, "rebuilt", reconstruct, told)
    return figures(lines, drawn(grids, "rebuilt", reconstruct, told, most=1))


def faithful_pictures(studies: Sequence[Study]) -> Markup:
    """The codes themselves, distances, rank, conditioning and what low precision costs."""
    sigma = "Singular values of the codes; how many are above the dotted line is the rank."
    table = f"The codes themselves (the first {MOST_ROWS} rows at most)."
    codes = drawn(studies, "first_rows", heatmap, table, most=1)
    return figures(codes, drawn(studies, "faithful", singular_values, sigma))


def related_pictures(studies: Sequence[Study]) -> Markup:
    """What codes say of distances and directions."""
    kernel = "Mean inner product of two codes by the lag between them, as a share of that at lag 0."
    return figures(drawn(studies, "related", relations, kernel))


def answered(name: str, studies: Sequence[Study], inquiry: Inquiry, words: Words) -> Chapter:
    """Conclusions, pictures and numbers of those that have an answer; empty without any."""
    command, link, heading = QUESTIONS[name]
    own = [study for study in studies if getattr(study, name) is not None]
    if not own:
        return Chapter(link, heading, [])
    numbers = folded_numbers(own, name, command, inquiry, words)
    return Chapter(link, heading, [conclusions(own, name), PICTURES[name](own), numbers])


QUESTIONS = {  # by field of a study: its command, the link and the heading of its chapter
    "faithful": ("check-faithful", "codes", "Can positions be told apart and recovered?"),
    "spectrum": ("spectrum", "frequencies", "Which frequencies are there?"),
    "rebuilt": ("reconstruct", "positions", "What is left of a position?"),
    "related": ("relations", "relations", "How do positions relate to one another?"),
}
PICTURES = {"faithful": faithful_pictures, "spectrum": spectrum_pictures}
PICTURES |= {"rebuilt": rebuilt_pictures, "related": related_pictures}


def made_part(studies: Sequence[Study], inquiry: Inquiry, words: Words) -> list[Any]:
    """Parameters, commands and versions."""
    own = [study.encoding for study in studies]
    rows = [[e.label, e.name, len(e), e.dim, parameters_in_words(e)] for e in own]
    head = [words.term(name, ["every answer"]) for name in ("spec", "encoding")]
    head += ["points", "dimensions", words.term("params", ["every answer"])]
    return [
        command(inquiry.line("report", studies), "This page comes from"),
        details(
            "Parameters and versions",
            table("The encodings, with all parameters that were used", head, rows),
            versions_table(),
        ),
    ]


def parameters_in_words(enc: Encoding) -> str:
    """Parameters that were used, as they are typed."""
    return ", ".join(f"{k}={number(v, 17)}" for k, v in enc.params.items() if v is not None) or "–"


def versions_table() -> Markup:
    """What computed the numbers."""
    found = {"pefourier": __version__, "Python": platform.python_version()}
    found |= {name: version(name) for name in LIBRARIES}
    return table("Versions", ["program", "version"], found.items())


def report_page(asked: Sequence[Any], out: str) -> Page:
    """The answer of `pefourier report`: for each SPEC what the page says first, and where it is."""
    studies = [one for one in asked if isinstance(one, Study)]
    records = [(study_record if isinstance(one, Study) else fields_of)(one) for one in asked]
    own = [(telling.telling_of(one.faithful), one.answer("faithful")) for one in studies]
    return page_written(records, out, lambda: "".join(told.conclusion(a) for told, a in own))


def page_written(
    records: Sequence[Mapping[str, Any]], out: str, words: Callable[[], str] = str
) -> Page:
    """The answer of `pefourier report`, from the records of what is on the page."""
    told = "open it in a browser, or send it: it needs nothing else."
    found = [one if "error" in one else {**one, "out": out} for one in records]
    return Page(
        "report",
        words=words,
        records=lambda: found,
        rows=lambda: flattened(found),
        conclusion=lambda: paragraph(f"The page is in {printable(out)}; {told}"),
    )


def study_record(study: Study) -> dict[str, Any]:
    """The JSON object of a SPEC on a page."""
    conclusion = {"conclusion": telling.conclude(study.encoding, study.faithful)}
    return telling.identity_of(study.encoding) | conclusion
