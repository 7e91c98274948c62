"""What is there to say of some encodings? All of it, side by side, on one page of HTML.

A section for each question, made from its answers alone as every other form is: conclusions,
findings, a picture; numbers and the meanings of words are folded, with the command that gives them.
"""

import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from pefourier.encodings.encoding import Encoding
from pefourier.encodings.sources.weights import all_tensors
from pefourier.encodings.specs import source_of
from pefourier.errors import PefourierError
from pefourier.geometry import Progress
from pefourier.pages.document import (
    Chapter,
    Markup,
    command,
    details,
    document,
    explanations,
    figure,
    remark,
    sentence_of,
    table,
    versions_table,
)
from pefourier.questions.context import describe_context
from pefourier.questions.faithful import assess
from pefourier.questions.reconstruct import position_functions
from pefourier.questions.relations import relate
from pefourier.questions.spectrum import density
from pefourier.report.encode import heatmap
from pefourier.report.frame import (
    Answer,
    Refusal,
    answer_of,
    identity_of,
    record_of_conclusion,
    telling_of,
)
from pefourier.report.spectrum import by_decade, spectrum_by_decade
from pefourier.weights.usage import use_of_model
from pefourier.writing.escapes import printable
from pefourier.writing.page import Page, fields_of, flattened
from pefourier.writing.text import number, paragraph, parts_of_words

SMOOTHED = ("spectrum", "reconstruct", "report")  # commands that take --lattice and --sigma
OF_CONTEXT = ("d", "length")  # options that `context` has, too
PICTURED_ROWS = 128  # of a table
HEADINGS = {
    "check-faithful": "Can positions be told apart and recovered?",
    "spectrum": "Which frequencies are there?",
    "reconstruct": "What is left of a position?",
    "relations": "How do positions relate to one another?",
}
PICTURES = {
    "check-faithful": "Singular values (those above the dotted line are the rank), and the mean "
    "inner product by lag.",
    "spectrum": "Share of energy at each frequency (Eq. 15), or per factor ten of it.",
    "reconstruct": "A 1 at each of some positions, rebuilt from frequencies alone (Algorithm 1).",
    "relations": "Mean inner product of two codes by lag, as a share of that at lag 0.",
    "context": "Each pair at its wavelength, by what the scaling does to it; dashed: trained.",
    "usage": "How much of the scores each layer makes in which pairs, over their wavelengths.",
}


@dataclass(frozen=True)
class Study:
    """All that is found about one SPEC: results by command."""

    encoding: Encoding
    results: Mapping[str, Any]

    def answer(self, question: str) -> Answer:
        """What one of the commands answers."""
        return Answer(self.encoding, self.results[question])


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
        results = {
            "check-faithful": faithful,
            "spectrum": density(enc, self.lattice, self.sigma),
            "relations": relate(enc, faithful.shift_residual),
        }
        if not enc.domain.irregular:
            results["reconstruct"] = position_functions(enc, None, self.lattice, self.sigma)
        return Study(enc, results)

    def line(self, question: str, specs: Iterable[str], takes: Sequence[str] | None = None) -> str:
        """The command that answers one of the questions about these encodings."""
        options = {k: v for k, v in self.options.items() if takes is None or k in takes}
        if question in SMOOTHED:
            options |= {"lattice": self.lattice, "sigma": self.sigma}
        words = ["pefourier", question, *specs]
        for name, value in options.items():
            if value is not None:
                typed = "x".join(map(str, value)) if isinstance(value, tuple) else str(value)
                words += [f"--{name}", typed]
        return shlex.join(words)


def encodings_document(
    studies: Sequence[Study], refusals: Sequence[Refusal], inquiry: Inquiry, title: str = ""
) -> str:
    """The page about some encodings, and why others could not be answered for."""
    names = list(dict.fromkeys(study.encoding.label for study in studies))
    listed = ", ".join(names) if len(names) <= 4 else f"{len(names)} encodings"
    sections = encoding_sections(studies, refusals, inquiry)
    return document(title or f"Positional encodings: {listed}", "", sections)


def encoding_sections(
    studies: Sequence[Study], refusals: Sequence[Refusal], inquiry: Inquiry
) -> list[Chapter]:
    """The parts of a page, what matters most first."""
    refused = [sentence_of(f"{refusal.spec}: not answered.", refusal.error) for refusal in refusals]
    specs = [study.encoding.spec for study in studies]
    sections = [
        Chapter("At a glance", [glance(studies), *refused]),
        context_section([study.encoding for study in studies], inquiry),
        *usage_sections([study.encoding for study in studies], inquiry),
    ]
    for question, heading in HEADINGS.items():
        answers = [study.answer(question) for study in studies if question in study.results]
        if answers:
            line = inquiry.line(question, [a.encoding.spec for a in answers])
            sections.append(answers_section(heading, answers, line))
    codes = [Answer(s.encoding, next(s.encoding.blocks(PICTURED_ROWS))[1]) for s in studies]
    caption = f"The codes themselves, {PICTURED_ROWS} rows at most."
    pictures = (figure(heatmap, [a], f"{a.encoding.label}: {caption}") for a in codes)
    line = command(inquiry.line("report", [*inquiry.folder, *specs]))
    parameters = details("Parameters and versions", parameters_table(studies), versions_table())
    sections += [
        Chapter("What do the codes look like?", [details("Pictures of the codes", pictures)]),
        Chapter("How these numbers were made", [line, parameters]),
    ]
    return [section for section in sections if any(section.inside)]


def glance(studies: Sequence[Study]) -> Markup:
    """The verdict on each question, a row for each encoding."""
    rows = [["encoding", "codes", *HEADINGS]]
    for study in studies:
        verdicts = [getattr(study.results.get(q), "verdict", "–") for q in HEADINGS]
        size = f"{len(study.encoding)} × {study.encoding.dim}"
        rows.append([study.encoding.label, size, *verdicts])
    return table(rows)


def answers_section(heading: str, answers: Sequence[Answer], line: str) -> Chapter:
    """Conclusions and findings, pictures; numbers, the command and what the words mean folded."""
    telling = telling_of(answers[0].result)
    conclusions = [telling.conclude(a.encoding, a.result) for a in answers]
    sentences = [
        sentence_of(f"{a.encoding.label}: {c.verdict}.", f"{c.meaning} {c.action}")
        for a, c in zip(answers, conclusions, strict=True)
    ]
    parts = parts_of_words(partial(telling.words, answers))
    remarks = [remark(part) for part in parts if isinstance(part, str)]
    tables = [part for part in parts if not isinstance(part, str)]
    names = [c.verdict.lower() for c in conclusions]
    names += [cell for rows in tables for cell in [*rows[0], *(row[0] for row in rows)]]
    names += [f.code for a in answers for f in getattr(a.result, "findings", ())]
    groups = (telling.command, "findings", "verdicts", "every answer", "check-faithful")
    numbers = details("Numbers, and the command that gives them", map(table, tables), command(line))
    caption = f"{', '.join(a.encoding.label for a in answers)}: {PICTURES[telling.command]}"
    is_by_decade = telling.command == "spectrum" and by_decade(answers)
    draw: Any = spectrum_by_decade if is_by_decade else telling.figure
    picture = figure(draw, answers, caption)
    return Chapter(heading, [*sentences, *remarks, picture, numbers, explanations(names, groups)])


def context_section(encodings: Sequence[Encoding], inquiry: Inquiry) -> Chapter:
    """How far rotations reach; `context` takes no base, so that with one nothing is said."""
    heading = "How far do rotations reach?"
    unknown = [k for k, v in inquiry.options.items() if v is not None and k not in OF_CONTEXT]
    rotations = [e for e in encodings if e.act == "rotate" and len(e.domain.sides) == 1]
    answers, refused = [], []
    for enc in () if unknown else rotations:
        try:
            options = inquiry.options
            (model, *_), context = describe_context(
                enc.spec, options.get("length"), None, options.get("d")
            )
        except PefourierError as error:
            refused.append(sentence_of(f"{enc.label}: not answered.", str(error)))
            continue
        model = replace(model, spec=enc.spec)
        if context.rotations:
            answers.append(Answer(model, replace(context, about=(model,))))
    if not answers:
        return Chapter(heading, refused)
    line = inquiry.line("context", [a.encoding.spec for a in answers], OF_CONTEXT)
    section = answers_section(heading, answers, line)
    return replace(section, inside=[*refused, *section.inside])


def usage_sections(encodings: Sequence[Encoding], inquiry: Inquiry) -> list[Chapter]:
    """Which frequencies the weights of each model use."""
    sections = []
    for spec in dict.fromkeys(filter(None, map(weights_of, encodings))):
        heading = f"Which frequencies do the weights of {printable(spec)} use?"
        try:
            result = use_of_model(spec, inquiry.options.get("length"))
        except PefourierError as error:
            sections.append(Chapter(heading, [sentence_of("Not answered.", str(error))]))
            continue
        line = inquiry.line("usage", [spec], ("length",))
        sections.append(answers_section(heading, [answer_of(result)], line))
    return sections


def weights_of(enc: Encoding) -> str | None:
    """What `usage` is asked for a rotation's weights; None where there are none."""
    path = str(enc.params.get("path", ""))
    if enc.act == "rotate" and path.endswith(".gguf"):
        return path
    if enc.act != "rotate" or not path or source_of(enc.spec) != "config":
        return None
    folder, part = os.path.dirname(path) or ".", enc.spec.partition("#")[2]
    if next(all_tensors(folder), None) is None:
        return None
    return f"{folder}#{part}" if part else folder


def parameters_table(studies: Sequence[Study]) -> Markup:
    """All parameters that were used, as they are typed."""
    rows: list[list[Any]] = [["encoding", "name", "points", "dimensions", "parameters"]]
    for enc in (study.encoding for study in studies):
        used = [f"{k}={number(v, 17)}" for k, v in enc.params.items() if v is not None]
        rows.append([enc.label, enc.name, len(enc), enc.dim, ", ".join(used) or "–"])
    return table(rows, "The encodings, with all parameters that were used")


def report_page(outcomes: Sequence[Study | Refusal], out: str) -> Page:
    """The answer of `pefourier report`: for each SPEC what the page says first, and where it is."""
    answers = [
        outcome.answer("check-faithful") for outcome in outcomes if isinstance(outcome, Study)
    ]
    records = [study_record(s) if isinstance(s, Study) else fields_of(s) for s in outcomes]
    conclusions = (telling_of(answer.result).conclusion(answer) for answer in answers)
    return page_written(records, out, lambda: "".join(conclusions))


def study_record(study: Study) -> dict[str, Any]:
    """The JSON object of a SPEC on a page."""
    return identity_of(study.encoding) | record_of_conclusion(study.answer("check-faithful"))


def page_written(
    records: Sequence[Mapping[str, Any]], out: str, words: Callable[[], str] = str
) -> Page:
    """The answer of `pefourier report`, from the records of what is on the page."""
    written = [record if "error" in record else {**record, "out": out} for record in records]
    sentence = f"The page is in {printable(out)}; open it in a browser, or send it as it is."
    return Page(
        "report",
        words=words,
        records=lambda: written,
        rows=lambda: flattened(written),
        conclusion=lambda: paragraph(sentence),
    )
