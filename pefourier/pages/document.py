"""HTML pages: one file per page, without scripts and without requests to other servers.

document.html shows the parts of a page, and jinja2 escapes all of their texts: names of files,
arrays and encodings can only be text. Figures are embedded as matplotlib SVG images, which cannot
affect the page; its style adapts their colours to dark mode.

The page about encodings shows all results side by side. Each section has the results of one
command: conclusions, findings and a figure. Numbers, the
command that reproduces them and a glossary are folded.
"""

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from pefourier.encodings.encoding import Encoding
from pefourier.encodings.grids import size_of
from pefourier.encodings.loader import source_of
from pefourier.errors import PefourierError, command_line
from pefourier.geometry import Progress
from pefourier.questions.check_faithful import check_faithful
from pefourier.questions.context import describe_context
from pefourier.questions.reconstruct import position_functions
from pefourier.questions.relations import relate
from pefourier.questions.spectrum import spectrum
from pefourier.questions.usage import use_of_model
from pefourier.report.plot import USUAL, render
from pefourier.report.render import Answer, Refusal, conclude, conclusion_of, head_of, text_of
from pefourier.report.terms import Term, spelling, terms_of_files
from pefourier.types import Fields, Strings, Values, frozen
from pefourier.version import __version__
from pefourier.writing.files import split_spec
from pefourier.writing.page import Page, fields_of, flattened
from pefourier.writing.text import paragraph, parts_of_words, printable, visible

NUMBER = re.compile(r"[-−]?\d+(\.\d+)?(e[+-]?\d+)?")


# A part of a page is a paragraph, a table (rows, the header first), or one of these by its keys:
# label and text; command; picture and caption; listed; summary with the parts inside or the terms.
PagePart = str | Sequence[Strings] | Fields
PageSection = tuple[str, Sequence[PagePart]]  # heading and content


def figure(draw: Callable[..., Any], answers: Any, caption: str) -> PagePart:
    """Draw answers as a figure with a caption."""
    return {"picture": b64encode(render("svg", draw, answers, USUAL)).decode(), "caption": caption}


@cache  # the registry does not change while the program runs
def terms_by_name() -> Mapping[tuple[str, str], Term]:
    """Return terms by group and spelling."""
    terms = reversed(terms_of_files())  # the first of two names is kept
    return {(term.group, spelling(name)): term for term in terms for name in term.names}


def explanations(names: Iterable[str], groups: Strings) -> PagePart:
    """Explain names of rows, columns, verdicts and findings, by the first group that has them."""
    known, listed = terms_by_name(), []
    for name in dict.fromkeys(map(str.strip, names)):
        keys = ((group, spelling(name)) for group in (*groups, "words"))
        if key := next((key for key in keys if key in known), None):
            listed.append((name, known[key]))
    return {"summary": "Glossary", "terms": listed}


def document(title: str, lead: str, sections: Sequence[PageSection]) -> str:
    """Make the complete page; equal sections give equal text."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    environment.tests["number"] = NUMBER.fullmatch
    filled = [section for section in sections if section[1]]
    template = environment.get_template("document.html")
    return template.render(title=title, lead=lead, sections=filled, version=__version__) + "\n"


SMOOTHING = ("lattice", "sigma")
SMOOTHED = ("spectrum", "reconstruct", "report")  # commands with --lattice and --sigma
OPTIONS = {"context": ("d", "length"), "usage": ("length",)}  # of commands with fewer options
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


@frozen
class Study:
    """All answers about one SPEC, by command."""

    encoding: Encoding
    answers: Mapping[str, Answer]


def study_of(enc: Encoding, options: Values, progress: Callable[[str], Progress] | None) -> Study:
    """Run all commands that apply, with options as typed.

    A grid that check-faithful finds is used by all; `context` accepts no base.
    """
    faithful, has_lags = check_faithful(enc, progress), enc.by_lag
    smoothing = options["lattice"], options["sigma"]
    (enc,) = faithful.encodings
    results: Fields = {"check-faithful": faithful}
    if has_lags:
        results["spectrum"] = spectrum(enc, *smoothing)
        results["relations"] = relate(enc)
        if not enc.domain.irregular and enc.domain.kind != "graph":
            results["reconstruct"] = position_functions(enc, None, *smoothing)
    typed = {key for key, value in options.items() if value is not None}
    is_rotation = enc.injection == "rotate" and enc.domain.is_line
    if is_rotation and typed <= {*OPTIONS["context"], *SMOOTHING}:
        with suppress(PefourierError):  # the command itself reports the reason
            _, context = describe_context(enc.spec, options["length"], d=options["d"])
            results |= {"context": context} if context.rotations else {}
    path, part = str(enc.params.get("path", "")), split_spec(enc.spec)[1]
    if enc.injection == "rotate" and source_of(enc.spec) in ("config", "gguf"):
        folder = path if path.endswith(".gguf") else str(Path(path).parent)
        with suppress(PefourierError):  # weights are not required
            results["usage"] = use_of_model(f"{folder}{part and f'#{part}'}", options["length"])
    return Study(enc, {question: Answer(enc, result) for question, result in results.items()})


def line_of(question: str, specs: Iterable[str], options: Values) -> PagePart:
    """Show the command line of a section."""
    takes = OPTIONS.get(question, options)
    others = () if question in SMOOTHED else SMOOTHING
    words = ["pefourier", question, *specs]
    for name, value in options.items():
        if value is not None and name in takes and name not in others:
            words += [f"--{name}", size_of(value) if isinstance(value, tuple) else str(value)]
    if question in HEADINGS:
        words.append("--full")
    return {"command": command_line(*words)}


def encodings_document(
    studies: Sequence[Study], refusals: Sequence[Refusal], options: Values, title: str = ""
) -> str:
    """Make the page about encodings, with the conclusions first, and errors of other SPECs."""
    names = list(dict.fromkeys(study.encoding.label for study in studies))
    listed = ", ".join(names) if len(names) <= 4 else f"{len(names)} encodings"
    refused = [{"label": f"{r.spec}: no answer.", "text": r.error} for r in refusals]
    line = line_of("report", [study.encoding.spec for study in studies], options)
    sections = [
        ("At a glance", [glance(studies), *refused]),
        *(question_section(question, studies, options) for question in HEADINGS),
        ("How these numbers were made", [line]),
    ]
    return document(title or f"Positional encodings: {listed}", "", sections)


def glance(studies: Sequence[Study]) -> PagePart:
    """Table of verdicts, with a row for each encoding."""
    questions = [question for question in HEADINGS if question not in OPTIONS]
    rows = [["encoding", "vectors", *questions]]
    for study in studies:
        answers = map(study.answers.get, questions)
        verdicts = [conclude(a.result)[0] if a else "–" for a in answers]
        size = f"{len(study.encoding)} × {study.encoding.dim}"
        rows.append([study.encoding.label, size, *verdicts])
    return rows


def question_section(question: str, studies: Sequence[Study], options: Values) -> PageSection:
    """Make a section: conclusions, findings and figures, then folded numbers and glossary."""
    answers = [study.answers[question] for study in studies if question in study.answers]
    if not answers:
        return (HEADINGS[question], [])
    kind = type(answers[0].result)
    conclusions = [conclude(a.result) for a in answers]
    sentences = [
        {"label": f"{a.encoding.label}: {verdict}.", "text": f"{meaning} {action}"}
        for a, (verdict, meaning, action, *_) in zip(answers, conclusions, strict=True)
    ]
    parts = parts_of_words(partial(text_of, answers))
    tables = [part for part in parts if not isinstance(part, str)]
    names = [verdict.lower() for verdict, *_ in conclusions]
    names += [cell for rows in tables for cell in [*rows[0], *(row[0] for row in rows)]]
    names += [f.code for a in answers for f in getattr(a.result, "findings", ())]
    groups = (kind.command, "findings", "verdicts", "every answer", "check-faithful")
    line = line_of(question, [a.encoding.spec for a in answers], options)
    pictures = [
        figure(
            kind.draw, part, f"{', '.join(a.encoding.label for a in part)}: {CAPTIONS[question]}"
        )
        for part in ([[a] for a in answers] if question == "usage" else [answers])
    ]
    shown = [*sentences, *(part for part in parts if isinstance(part, str)), *pictures]
    numbers = {"summary": "Numbers and the command for them", "inside": [*tables, line]}
    return (HEADINGS[question], [*shown, numbers, explanations(names, groups)])


def report_page(outcomes: Sequence[Study | Refusal], out: str) -> Page:
    """Answer of `pefourier report`: the conclusion on each SPEC, and the path of the page."""
    answers = [s if isinstance(s, Refusal) else s.answers["check-faithful"] for s in outcomes]
    records = [fields_of(a) if isinstance(a, Refusal) else head_of(a) for a in answers]
    shown = [conclusion_of(a) for a in answers if isinstance(a, Answer)]
    return page_written(records, out, lambda: "".join(shown))


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
