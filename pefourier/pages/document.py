"""HTML pages: one file per page, without scripts and without requests to other servers.

All content passes through `element`, which escapes everything except `Markup`: names of files,
arrays and encodings can only be text. Figures are embedded as matplotlib SVG images, which cannot
affect the page; its style adapts their colours to dark mode.

The page about encodings shows all results side by side. Each section has the results of one
command: conclusions, findings and a figure. Numbers, the
command that reproduces them and a glossary are folded.
"""

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from string import Template
from typing import Any

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
from pefourier.report.terms import Term, read_terms, spelling
from pefourier.types import Fields, Strings, Values, frozen
from pefourier.version import __version__
from pefourier.writing.files import split_spec
from pefourier.writing.page import Page, fields_of, flattened
from pefourier.writing.text import in_html, paragraph, parts_of_words, printable

TEMPLATE = Path(__file__).with_suffix(".html")
NUMBER = re.compile(r"[-−]?\d+(\.\d+)?(e[+-]?\d+)?")
FACTS = ("formula", "unit", "range", "good", "source")  # of a term, besides its meaning
SEVERITIES = ("error", "warning")  # first words of remarks


class Markup(str):
    """HTML text with special characters that are not escaped."""

    __slots__ = ()


def element(name: str, *inside: Any, **attributes: Any) -> Markup:
    """Make an element; content and attributes are escaped unless they are `Markup`.

    A final underscore in an attribute's name is removed, others become hyphens.

    >>> element("p", "a < b", element("b", "c"), class_="x")
    '<p class="x">a &lt; b<b>c</b></p>'
    """
    pairs = {k.rstrip("_").replace("_", "-"): v for k, v in attributes.items() if v is not None}
    text = "".join(f' {key}="{in_html(str(value))}"' for key, value in pairs.items())
    return Markup(f"<{name}{text}>{''.join(map(markup, flat(inside)))}</{name}>")


def markup(value: Any) -> str:
    r"""Return a value as HTML text.

    >>> markup("<a\n>")
    '&lt;a\\n&gt;'
    """
    return value if isinstance(value, Markup) else in_html(str(value))


def flat(items: Iterable[Any]) -> Iterator[Any]:
    """Yield the items of nested lists, without None and empty strings."""
    for item in items:
        if isinstance(item, str | int | float):
            if item != "":
                yield item
        elif item is not None:
            yield from flat(item)


def sentence_of(label: str, text: str) -> Markup:
    """Make a paragraph with a bold label."""
    return element("p", element("strong", label), f" {text}")


def remark(text: str) -> Markup:
    """Make a paragraph; the severity of a finding is coloured."""
    severity, _, message = text.partition(":")
    if severity not in SEVERITIES:
        return element("p", text)
    return element("p", element("strong", severity), f":{message}", class_=severity)


def table(rows: Sequence[Sequence[Any]], caption: str = "") -> Markup:
    """Make a table that scrolls if it is wide; the first row and column are headers.

    Numbers are right-aligned.
    """
    head, *body = ([str(cell).strip() for cell in row] for row in rows)
    lines = [
        element(
            "tr",
            element("th", first, scope="row"),
            (element("td", x, class_="number" if NUMBER.fullmatch(x) else None) for x in cells),
        )
        for first, *cells in body
    ]
    inside = [
        element("caption", caption) if caption else None,
        element("thead", element("tr", (element("th", cell, scope="col") for cell in head))),
        element("tbody", lines),
    ]
    return element("div", element("table", inside), class_="scroll", tabindex="0")


def markup_of_words(words: Callable[[], str]) -> list[Markup]:
    """Return the words of an answer and its tables as elements."""
    return [remark(p) if isinstance(p, str) else table(p) for p in parts_of_words(words)]


def figure(draw: Callable[..., Any], answers: Any, caption: str) -> Markup:
    """Draw answers as a figure with a caption."""
    picture = b64encode(render("svg", draw, answers, USUAL)).decode()
    picture = Markup(f'<img src="data:image/svg+xml;base64,{picture}" alt="{in_html(caption)}">')
    return element("figure", picture, element("figcaption", caption))


def details(summary: str, *inside: Any) -> Markup | None:
    """Make a folded element for long content; None without content."""
    shown = list(flat(inside))
    return element("details", element("summary", summary), shown) if shown else None


def command(line: str) -> Markup:
    """Show a command line that reproduces numbers."""
    return element("pre", element("code", line))


@cache  # the registry does not change while the program runs
def terms_by_name() -> Mapping[str, list[Term]]:
    """Group terms by spelling."""
    terms: dict[str, list[Term]] = {}
    for term in read_terms():
        for name in term.names:
            terms.setdefault(spelling(name), []).append(term)
    return terms


def explanations(names: Iterable[str], groups: Strings) -> Markup | None:
    """Explain names of rows, columns, verdicts and findings, by the first group that has them."""
    listed = []
    for name in dict.fromkeys(map(str.strip, names)):
        terms = terms_by_name().get(spelling(name), [])
        terms = [term for group in (*groups, "words") for term in terms if term.group == group]
        for term in terms[:1]:
            facts = [f"{fact}: {getattr(term, fact)}" for fact in FACTS if getattr(term, fact)]
            lines = filter(None, (term.meaning, "; ".join(facts)))
            listed += [element("dt", name), *(element("dd", line) for line in lines)]
    return details("Glossary", element("dl", listed) if listed else None)


Section = tuple[str, Sequence[Any]]  # heading and content


def document(title: str, lead: Any, sections: Sequence[Section]) -> str:
    """Make the complete page; equal sections give equal text."""
    filled = [section for section in sections if any(section[1])]
    numbered = [(f"part-{i}", *section) for i, section in enumerate(filled, 1)]
    links = [element("li", element("a", name, href=f"#{anchor}")) for anchor, name, _ in numbered]
    parts = [
        element("section", element("h2", name, id=anchor), inside)
        for anchor, name, inside in numbered
    ]
    slots = {"title": markup(title), "lead": markup(lead or ""), "version": __version__}
    slots |= {"links": "".join(links), "main": "\n".join(parts)}
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(slots)


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
    is_rotation = enc.injection == "rotate" and len(enc.domain.sides) == 1
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


def line_of(question: str, specs: Iterable[str], options: Values) -> Markup:
    """Show the command line of a section."""
    takes = OPTIONS.get(question, options)
    others = () if question in SMOOTHED else SMOOTHING
    words = ["pefourier", question, *specs]
    for name, value in options.items():
        if value is not None and name in takes and name not in others:
            words += [f"--{name}", size_of(value) if isinstance(value, tuple) else str(value)]
    return command(command_line(*words, *["--full"] * (question in HEADINGS)))


def encodings_document(
    studies: Sequence[Study], refusals: Sequence[Refusal], options: Values, title: str = ""
) -> str:
    """Make the page about encodings, with the conclusions first, and errors of other SPECs."""
    names = list(dict.fromkeys(study.encoding.label for study in studies))
    listed = ", ".join(names) if len(names) <= 4 else f"{len(names)} encodings"
    refused = [sentence_of(f"{refusal.spec}: no answer.", refusal.error) for refusal in refusals]
    line = line_of("report", [study.encoding.spec for study in studies], options)
    sections = [
        ("At a glance", [glance(studies), *refused]),
        *(question_section(question, studies, options) for question in HEADINGS),
        ("How these numbers were made", [line]),
    ]
    return document(title or f"Positional encodings: {listed}", "", sections)


def glance(studies: Sequence[Study]) -> Markup:
    """Table of verdicts, with a row for each encoding."""
    questions = [question for question in HEADINGS if question not in OPTIONS]
    rows = [["encoding", "vectors", *questions]]
    for study in studies:
        answers = map(study.answers.get, questions)
        verdicts = [conclude(a.result)[0] if a else "–" for a in answers]
        size = f"{len(study.encoding)} × {study.encoding.dim}"
        rows.append([study.encoding.label, size, *verdicts])
    return table(rows)


def question_section(question: str, studies: Sequence[Study], options: Values) -> Section:
    """Make a section: conclusions, findings and figures, then folded numbers and glossary."""
    answers = [study.answers[question] for study in studies if question in study.answers]
    if not answers:
        return (HEADINGS[question], [])
    kind = type(answers[0].result)
    conclusions = [conclude(a.result) for a in answers]
    sentences = [
        sentence_of(f"{a.encoding.label}: {verdict}.", f"{meaning} {action}")
        for a, (verdict, meaning, action, *_) in zip(answers, conclusions, strict=True)
    ]
    parts = parts_of_words(partial(text_of, answers))
    remarks = [remark(part) for part in parts if isinstance(part, str)]
    tables = [part for part in parts if not isinstance(part, str)]
    names = [verdict.lower() for verdict, *_ in conclusions]
    names += [cell for rows in tables for cell in [*rows[0], *(row[0] for row in rows)]]
    names += [f.code for a in answers for f in getattr(a.result, "findings", ())]
    groups = (kind.command, "findings", "verdicts", "every answer", "check-faithful")
    line = line_of(question, [a.encoding.spec for a in answers], options)
    numbers = details("Numbers and the command for them", map(table, tables), line)
    pictures = [
        figure(
            kind.draw, part, f"{', '.join(a.encoding.label for a in part)}: {CAPTIONS[question]}"
        )
        for part in ([[a] for a in answers] if question == "usage" else [answers])
    ]
    words = explanations(names, groups)
    return (HEADINGS[question], [*sentences, *remarks, *pictures, numbers, words])


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
