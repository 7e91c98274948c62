"""HTML page about several encodings, with all results side by side.

Each section shows the results of one command: conclusions, findings and a figure. Numbers, the
command that reproduces them and a glossary are folded.
"""

import shlex
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pefourier.encodings.encoding import Encoding, is_of_pairs
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
from pefourier.report.render import Answer, Refusal, conclude, conclusion_of, head_of, text_of
from pefourier.types import Fields, Values
from pefourier.weights.usage import use_of_model
from pefourier.writing.files import split_spec
from pefourier.writing.page import Page, fields_of, flattened
from pefourier.writing.text import number, paragraph, parts_of_words, printable

SMOOTHED = ("spectrum", "reconstruct", "report")  # commands with --lattice and --sigma
OPTIONS = {"context": ("d", "length"), "usage": ("length",)}  # of commands with fewer options
PICTURED_ROWS = 128  # of a table
HEADINGS = {
    "context": "Context length of rotations",
    "usage": "Frequencies used by the weights",
    "check-faithful": "Distinguishing and reading back positions",
    "spectrum": "Energy by frequency",
    "reconstruct": "Reconstruction of positions",
    "relations": "Relations between positions",
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
    """All results about one SPEC, by command."""

    encoding: Encoding
    results: Values

    def answer(self, question: str) -> Answer:
        """Return the answer of a command."""
        return Answer(self.encoding, self.results[question])


@dataclass(frozen=True)
class Inquiry:
    """Options of a page, with which its encodings were loaded."""

    options: Values = field(default_factory=dict)  # of all commands, as typed
    lattice: int | None = None
    sigma: float | None = None

    def study(self, enc: Encoding, progress: Callable[[str], Progress] | None = None) -> Study:
        """Run all commands that apply; a grid found by check-faithful is used by all."""
        faithful, has_lags = check_faithful(enc, progress), not is_of_pairs(enc)
        (enc,) = faithful.encodings
        results: Fields = {"check-faithful": faithful}
        if has_lags and enc.domain.kind != "place":
            results["spectrum"] = spectrum(enc, self.lattice, self.sigma)
        if has_lags:
            results["relations"] = relate(enc)
        if has_lags and not enc.domain.irregular and enc.domain.kind not in ("place", "graph"):
            results["reconstruct"] = position_functions(enc, None, self.lattice, self.sigma)
        for question, ask in (("context", self.context), ("usage", self.usage)):
            with suppress(PefourierError):  # the command itself reports the reason
                results[question] = ask(enc)
        return Study(enc, {q: result for q, result in results.items() if result is not None})

    def context(self, enc: Encoding) -> Any:
        """Context length of a rotation; None with a base, which `context` does not accept."""
        typed = {key for key, value in self.options.items() if value is not None}
        is_rotation = enc.injection == "rotate" and len(enc.domain.sides) == 1
        if not is_rotation or not typed <= set(OPTIONS["context"]):
            return None
        sizes = {name: self.options.get(name) for name in OPTIONS["context"]}
        _, context = describe_context(enc.spec, **sizes)
        return context if context.rotations else None

    def usage(self, enc: Encoding) -> Any:
        """Frequencies that a model's weights use, if they are in the folder of its config."""
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
        """Return the command line of a section."""
        takes = OPTIONS.get(question, self.options)
        options = {k: v for k, v in self.options.items() if k in takes}
        if question in SMOOTHED:
            options |= {"lattice": self.lattice, "sigma": self.sigma}
        words = ["pefourier", question, *specs]
        for name, value in options.items():
            if value is not None:
                typed = "x".join(map(str, value)) if isinstance(value, tuple) else str(value)
                words += [f"--{name}", typed]
        return shlex.join([*words, *["--full"] * (question in HEADINGS)])


def encodings_document(
    studies: Sequence[Study], refusals: Sequence[Refusal], inquiry: Inquiry, title: str = ""
) -> str:
    """Make the page about encodings, with the conclusions first, and errors of other SPECs."""
    names = list(dict.fromkeys(study.encoding.label for study in studies))
    listed = ", ".join(names) if len(names) <= 4 else f"{len(names)} encodings"
    refused = [
        html.sentence_of(f"{refusal.spec}: no answer.", refusal.error) for refusal in refusals
    ]
    vectors = [Answer(s.encoding, next(s.encoding.blocks(PICTURED_ROWS))[1]) for s in studies]
    caption = f"Values of the vectors, at most {PICTURED_ROWS} rows."
    pictures = (html.figure(heatmap, [a], f"{a.encoding.label}: {caption}") for a in vectors)
    line = html.command(inquiry.line("report", [study.encoding.spec for study in studies]))
    parameters = html.details(
        "Parameters and versions", parameters_table(studies), html.versions_table()
    )
    sections = [
        html.Chapter("At a glance", [glance(studies), *refused]),
        *(question_section(question, studies, inquiry) for question in HEADINGS),
        html.Chapter("Values of the vectors", [html.details("Heatmaps of the vectors", pictures)]),
        html.Chapter("How these numbers were made", [line, parameters]),
    ]
    sections = [section for section in sections if any(section.inside)]
    return html.document(title or f"Positional encodings: {listed}", "", sections)


def glance(studies: Sequence[Study]) -> html.Markup:
    """Table of verdicts, with a row for each encoding."""
    questions = [question for question in HEADINGS if question not in OPTIONS]
    rows = [["encoding", "vectors", *questions]]
    for study in studies:
        verdicts = [getattr(study.results.get(q), "verdict", "–") for q in questions]
        size = f"{len(study.encoding)} × {study.encoding.dim}"
        rows.append([study.encoding.label, size, *verdicts])
    return html.table(rows)


def question_section(question: str, studies: Sequence[Study], inquiry: Inquiry) -> html.Chapter:
    """Make a section: conclusions, findings and figures, then folded numbers and glossary."""
    answers = [study.answer(question) for study in studies if question in study.results]
    if not answers:
        return html.Chapter(HEADINGS[question], [])
    kind = type(answers[0].result)
    conclusions = [conclude(a.result) for a in answers]
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
    groups = (kind.command, "findings", "verdicts", "every answer", "check-faithful")
    line = inquiry.line(question, [a.encoding.spec for a in answers])
    numbers = html.details(
        "Numbers and the command for them", map(html.table, tables), html.command(line)
    )
    pictures = [
        html.figure(
            kind.draw,
            part,
            f"{', '.join(a.encoding.label for a in part)}: {CAPTIONS[question]}",
        )
        for part in ([[a] for a in answers] if question == "usage" else [answers])
    ]
    words = html.explanations(names, groups)
    return html.Chapter(HEADINGS[question], [*sentences, *remarks, *pictures, numbers, words])


def parameters_table(studies: Sequence[Study]) -> html.Markup:
    """Table of all parameters in use, as typed."""
    rows: list[list[Any]] = [["encoding", "name", "points", "dimensions", "parameters"]]
    for enc in (study.encoding for study in studies):
        params = {k: size_of(v) if k == "grid" and v else v for k, v in enc.params.items()}
        used = [f"{k}={number(v, 17)}" for k, v in params.items() if v is not None]
        rows.append([enc.label, enc.name, len(enc), enc.dim, ", ".join(used) or "–"])
    return html.table(rows, "Encodings with all parameters in use")


def report_page(outcomes: Sequence[Study | Refusal], out: str) -> Page:
    """Answer of `pefourier report`: the conclusion on each SPEC, and the path of the page."""
    answers = [s.answer("check-faithful") for s in outcomes if isinstance(s, Study)]
    records = [
        fields_of(s) if isinstance(s, Refusal) else head_of(s.answer("check-faithful"))
        for s in outcomes
    ]
    return page_written(records, out, lambda: "".join(map(conclusion_of, answers)))


def page_written(records: Sequence[Values], out: str, words: Callable[[], str] = str) -> Page:
    """Answer of `pefourier report`, from the records of the page."""
    written = [record if "error" in record else {**record, "out": out} for record in records]
    sentence = f"The page is in {printable(out)}. Open it in a browser, or share the single file."
    return Page(
        "report",
        words=words,
        records=lambda: written,
        rows=lambda: flattened(written),
        conclusion=lambda: paragraph(sentence),
    )
