"""What is there to say of some encodings? All of it, side by side, on one page of HTML.

A section for each question, made from its answers alone as every other form is: conclusions,
findings, a picture; numbers and the meanings of words are folded, with the command that gives them.
"""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pefourier.encodings.encoding import Encoding
from pefourier.encodings.grids import size_of
from pefourier.encodings.loader import source_of
from pefourier.encodings.sources.huggingface import all_tensors
from pefourier.errors import PefourierError
from pefourier.geometry import Progress
from pefourier.pages import document as html
from pefourier.questions.check_faithful import check_faithful
from pefourier.questions.context import describe_context
from pefourier.questions.reconstruct import position_functions
from pefourier.questions.relations import relate
from pefourier.questions.spectrum import spectrum
from pefourier.report.code_figures import heatmap
from pefourier.report.render import Answer, Refusal, renderer_named, renderer_of, text_of
from pefourier.weights.usage import use_of_model
from pefourier.writing.files import split_spec
from pefourier.writing.page import Page, fields_of, flattened
from pefourier.writing.text import number, paragraph, parts_of_words, printable

SMOOTHED = ("spectrum", "reconstruct", "report")  # commands that take --lattice and --sigma
OPTIONS = {"context": ("d", "length"), "usage": ("length",)}  # of those that do not take all
PICTURED_ROWS = 128  # of a table
HEADINGS = {
    "context": "How far do rotations reach?",
    "usage": "Which frequencies do the weights use?",
    "check-faithful": "Can positions be distinguished and read back?",
    "spectrum": "Which frequencies does it have?",
    "reconstruct": "What is left of a position?",
    "relations": "How do positions relate to one another?",
}
CAPTIONS = {
    "context": "Pairs by wavelength, coloured by what the scaling does (dashed: trained length). "
    "For the position ids of a batch: pefourier positions BATCH CONFIG.",
    "usage": "Share of attention scores by pair wavelength, for each layer.",
    "check-faithful": "Singular values (dotted: threshold for zero) and inner products by lag.",
    "spectrum": "Share of energy at each frequency (Eq. 15), or per decade.",
    "reconstruct": "Deltas at some positions, reconstructed from frequencies alone (Algorithm 1).",
    "relations": "Mean inner product by lag, relative to lag 0.",
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
    """What a page is asked: with which options the encodings were named."""

    options: Mapping[str, Any] = field(default_factory=dict)  # of all commands, as typed
    lattice: int | None = None
    sigma: float | None = None

    def study(self, enc: Encoding, progress: Callable[[str], Progress] | None = None) -> Study:
        """Ask all questions about an encoding; rows that prove to be a grid's are one for all."""
        faithful = check_faithful(enc, progress)
        (enc,) = faithful.encodings
        results: dict[str, Any] = {
            "check-faithful": faithful,
            "spectrum": spectrum(enc, self.lattice, self.sigma),
            "relations": relate(enc),
        }
        if not enc.domain.irregular:
            results["reconstruct"] = position_functions(enc, None, self.lattice, self.sigma)
        for question, ask in (("context", self.context), ("usage", self.usage)):
            with suppress(PefourierError):  # the command says why there is no answer
                results[question] = ask(enc)
        return Study(enc, {q: result for q, result in results.items() if result is not None})

    def context(self, enc: Encoding) -> Any:
        """How far a rotation reaches; `context` takes no base, so that with one nothing is said."""
        typed = {key for key, value in self.options.items() if value is not None}
        is_rotation = enc.injection == "rotate" and len(enc.domain.sides) == 1
        if not is_rotation or not typed <= set(OPTIONS["context"]):
            return None
        sizes = {name: self.options.get(name) for name in OPTIONS["context"]}
        _, context = describe_context(enc.spec, **sizes)
        return context if context.rotations else None

    def usage(self, enc: Encoding) -> Any:
        """Which frequencies a model's weights use, where they lie beside its config."""
        path = str(enc.params.get("path", ""))
        if enc.injection != "rotate" or source_of(enc.spec) not in ("config", "gguf"):
            return None
        if not path.endswith(".gguf"):
            path = str(Path(path).parent)
            if next(all_tensors(path), None) is None:
                return None
        part = split_spec(enc.spec)[1]
        return use_of_model(f"{path}#{part}" if part else path, self.options.get("length"))

    def line(self, question: str, specs: Iterable[str]) -> str:
        """The command that answers one of the questions about these encodings."""
        takes = OPTIONS.get(question, self.options)
        options = {k: v for k, v in self.options.items() if k in takes}
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
    """The page about some encodings, what matters most first, and why others have no answer."""
    names = list(dict.fromkeys(study.encoding.label for study in studies))
    listed = ", ".join(names) if len(names) <= 4 else f"{len(names)} encodings"
    refused = [
        html.sentence_of(f"{refusal.spec}: not answered.", refusal.error) for refusal in refusals
    ]
    codes = [Answer(s.encoding, next(s.encoding.blocks(PICTURED_ROWS))[1]) for s in studies]
    caption = f"The codes themselves, {PICTURED_ROWS} rows at most."
    pictures = (html.figure(heatmap, [a], f"{a.encoding.label}: {caption}") for a in codes)
    line = html.command(inquiry.line("report", [study.encoding.spec for study in studies]))
    parameters = html.details(
        "Parameters and versions", parameters_table(studies), html.versions_table()
    )
    sections = [
        html.Chapter("At a glance", [glance(studies), *refused]),
        *(question_section(question, studies, inquiry) for question in HEADINGS),
        html.Chapter(
            "What do the codes look like?", [html.details("Pictures of the codes", pictures)]
        ),
        html.Chapter("How these numbers were made", [line, parameters]),
    ]
    sections = [section for section in sections if any(section.inside)]
    return html.document(title or f"Positional encodings: {listed}", "", sections)


def glance(studies: Sequence[Study]) -> html.Markup:
    """The verdict on each question, a row for each encoding."""
    questions = [question for question in HEADINGS if question not in OPTIONS]
    rows = [["encoding", "codes", *questions]]
    for study in studies:
        verdicts = [getattr(study.results.get(q), "verdict", "–") for q in questions]
        size = f"{len(study.encoding)} × {study.encoding.dim}"
        rows.append([study.encoding.label, size, *verdicts])
    return html.table(rows)


def question_section(question: str, studies: Sequence[Study], inquiry: Inquiry) -> html.Chapter:
    """Conclusions and findings, pictures; numbers, the command and what the words mean folded."""
    answers = [study.answer(question) for study in studies if question in study.results]
    if not answers:
        return html.Chapter(HEADINGS[question], [])
    renderer = renderer_of(answers[0].result)
    conclusions = [renderer.conclude(a.result) for a in answers]
    sentences = [
        html.sentence_of(f"{a.encoding.label}: {verdict}.", f"{meaning} {action}")
        for a, (verdict, meaning, action, *_) in zip(answers, conclusions, strict=True)
    ]
    parts = parts_of_words(partial(text_of, answers))
    remarks = [html.remark(part) for part in parts if isinstance(part, str)]
    tables = [part for part in parts if not isinstance(part, str)]
    names = [verdict.lower() for verdict, *_ in conclusions]
    names += [cell for rows in tables for cell in [*rows[0], *(row[0] for row in rows)]]
    names += [f.code for a in answers for f in getattr(a.result, "findings", ())]
    groups = (renderer.command, "findings", "verdicts", "every answer", "check-faithful")
    line = inquiry.line(question, [a.encoding.spec for a in answers])
    numbers = html.details(
        "Numbers, and the command that gives them", map(html.table, tables), html.command(line)
    )
    pictures = [
        html.figure(
            renderer.figure,
            part,
            f"{', '.join(a.encoding.label for a in part)}: {CAPTIONS[question]}",
        )
        for part in ([[a] for a in answers] if question == "usage" else [answers])
    ]
    words = html.explanations(names, groups)
    return html.Chapter(HEADINGS[question], [*sentences, *remarks, *pictures, numbers, words])


def parameters_table(studies: Sequence[Study]) -> html.Markup:
    """All parameters that were used, as they are typed."""
    rows: list[list[Any]] = [["encoding", "name", "points", "dimensions", "parameters"]]
    for enc in (study.encoding for study in studies):
        params = {k: size_of(v) if k == "grid" and v else v for k, v in enc.params.items()}
        used = [f"{k}={number(v, 17)}" for k, v in params.items() if v is not None]
        rows.append([enc.label, enc.name, len(enc), enc.dim, ", ".join(used) or "–"])
    return html.table(rows, "The encodings, with all parameters that were used")


def report_page(outcomes: Sequence[Study | Refusal], out: str) -> Page:
    """The answer of `pefourier report`: for each SPEC what the page says first, and where it is."""
    answers = [s.answer("check-faithful") for s in outcomes if isinstance(s, Study)]
    renderer = renderer_named("check_faithful")
    records = [
        fields_of(s) if isinstance(s, Refusal) else renderer.head(s.answer("check-faithful"))
        for s in outcomes
    ]
    return page_written(records, out, lambda: "".join(map(renderer.conclusion, answers)))


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
