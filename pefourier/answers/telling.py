"""How is an answer told? What all questions share: answers, facts, rules, records, pages.

An `Answer` is an encoding with a result, a frozen dataclass, and a `Refusal` a SPEC that could not
be answered among others that could. How the answers to one question are told stands in the room of
`answers` that has the question's name, all of it in its `TOLD`, and is opened when it is needed.
A conclusion is `Said` in parts: a verdict in capitals, what it means, what to do, what else was
found. Each is a sentence with the number that bears it, or empty where its situation is not there.
None says more than the numbers of its result do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING, Any

from pefourier.encodings.encoding import Encoding
from pefourier.encodings.places import by_axis
from pefourier.errors import PefourierError, shorten
from pefourier.files import read_toml
from pefourier.writing.escapes import in_html, printable
from pefourier.writing.page import Page, fields_of
from pefourier.writing.text import agreeing, aligned, number, paragraph

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from pefourier.answers.plot import Look
    from pefourier.result import Result

FIRST = frozenset(
    {
        "array-chosen",
        "biases-as-codes",
        "lags-as-codes",
        "positions-column",
    }
)  # begin a conclusion
EXACT = 1e-6  # error of a linear inverse that is rounding
LONG = 4  # numbers or names of a list that are told one by one
MOST = 3  # sentences of a conclusion that is made of what speaks first
SENTENCES = Path(__file__).with_name("sentences.toml")
SENTENCE = 180  # characters of a conclusion that a line shows
COLUMNS_ACROSS = 4  # encodings side by side in a text table


@dataclass(frozen=True)
class Answer:
    """What a command found for one SPEC; of a result about none the encoding is None."""

    encoding: Encoding
    result: Any


@dataclass(frozen=True)
class Refusal:
    """A SPEC that could not be answered, among others that could."""

    spec: str
    error: str


@dataclass(frozen=True)
class Said:
    """A conclusion: the verdict, what it means, what to do, and what else is worth a sentence.

    >>> Said("SHARP", "A position comes back.", "", ("Row 9 has no code.",)).text
    'SHARP. A position comes back. Row 9 has no code.'
    """

    verdict: str  # one to four words in capitals, of those in sentences.toml
    meaning: str
    action: str = ""
    more: tuple[str, ...] = ()  # findings, and last what holds of all of its kind

    @property
    def text(self) -> str:
        """All of it in one paragraph."""
        return " ".join(filter(None, (f"{self.verdict}.", self.meaning, self.action, *self.more)))


class Template(Formatter):
    """Words with numbers in few digits, {x:3}, and words that agree with them, {n:is|are}.

    >>> Template().format("{n} {n:wave|waves} of {x:2}", n=1, x=6.2832)
    '1 wave of 6.3'
    """

    def format_field(self, value: Any, spec: str) -> str:
        """One that is filled in."""
        if "|" in spec:
            return agreeing(value, *spec.split("|"))
        return number(value, int(spec)) if spec.isdigit() else super().format_field(value, spec)


def meaning_of(command: str, verdict: str, **told: Any) -> tuple[str, str]:
    """A verdict, and what it means in the words of sentences.toml; " | " leads to a variant.

    >>> meaning_of("resize", "ALL ZERO")[1]
    'All codes are zero, and stay so.'
    """
    words = Template().format(read_toml(SENTENCES)[command][verdict], **told)
    return verdict.partition(" | ")[0], words


def sentence(room: str, name: str, /, **told: Any) -> str:
    """A sentence of a room, or a part of one, in the words of sentences.toml."""
    return Template().format(read_toml(SENTENCES)["parts"][room][name], **told)


@dataclass(frozen=True)
class Fact:
    """A row of a text table: its name, its value in a result, and why there may be none."""

    label: str
    value: Callable[[Any], Any]
    missing: str | Callable[[Answer], str] = "–"

    def cell(self, answer: Answer) -> str:
        """The value for a person, of several axes each by name, or why there is none."""
        found = self.value(answer.result)
        if isinstance(found, list):
            return by_axis(found)
        why = self.missing if isinstance(self.missing, str) else self.missing(answer)
        return number(found, missing=why)


def answer_of(result: Any) -> Answer:
    """A result with the encoding it is about: rows of a table may turn out to be a grid's."""
    return Answer(result.about[0] if result.about else None, result)


def record_of_fields(answer: Answer, about: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """One SPEC's JSON object: what was analysed, the conclusion, the fields of the result.

    The verdict is that of the result, or else that of the conclusion, in lower case.
    """
    said = telling_of(answer.result).said(answer.encoding, answer.result)
    conclusion = {
        "verdict": said.verdict.lower(),
        "meaning": said.meaning,
        "action": said.action,
        "findings": list(getattr(answer.result, "findings", ())),
        "conclusion": said.text,
    }
    return {**(about or identity_of(answer.encoding)), **conclusion, **fields_of(answer.result)}


def label_of(answer: Answer) -> str:
    """What the conclusion about one encoding begins with."""
    return f"{answer.encoding.label}: "


@dataclass(frozen=True)
class Telling:
    """How the answers to one question are told, in each way by a function of them."""

    command: str
    conclude: Callable[[Encoding, Any], Said]
    words: Callable[[Sequence[Answer]], str]
    rows: Callable[[Sequence[Answer]], Iterable[Sequence[Any]]]
    figure: Callable[[Sequence[Answer], Look], Figure] | None = None
    record: Callable[[Answer], dict[str, Any]] = record_of_fields
    chart: Callable[[Sequence[Answer], bool], str] | None = None
    lead: Callable[[Answer], str] | None = label_of  # before a conclusion; None: nothing
    leads: Collection[str] = FIRST  # codes of findings that a conclusion begins with

    def said(self, enc: Encoding | None, result: Any) -> Said:
        """What is concluded; what an array's name says of it comes first."""
        said = self.conclude(enc, result)
        codes = (
            sorted({one.code for one in enc.findings}.intersection(self.leads))
            if enc is not None
            else []
        )
        first = [sentence("telling", code, enc=enc) for code in codes]
        return replace(said, meaning=" ".join([*first, said.meaning]))

    def conclusion(self, answer: Answer) -> str:
        """The paragraph about one answer."""
        said = self.said(answer.encoding, answer.result).text
        return paragraph(self.lead(answer) + said, "  ") if self.lead else paragraph(said)

    def records(self, asked: Iterable[Answer | Refusal]) -> Iterable[dict[str, Any]]:
        """The objects of JSON."""
        return (self.record(a) if isinstance(a, Answer) else fields_of(a) for a in asked)

    def page(self, asked: Sequence[Answer | Refusal], **own: Any) -> Page:
        """A page about some SPECs; one that was refused is a record of JSON and nothing else."""
        told = replace(self, **own)
        answers = [one for one in asked if isinstance(one, Answer)]
        return Page(
            told.command,
            words=partial(told.words, answers),
            records=partial(told.records, asked),
            rows=partial(told.rows, answers),
            chart=told.chart and partial(told.chart, answers),
            conclusion=lambda: "".join(map(told.conclusion, answers)),
        )


def telling_of(result: Any) -> Telling:
    """How a result is told: as the room of answers says that has the name of the result's own."""
    room = type(result).__module__.rpartition(".")[2]
    told: Telling = import_module(f"pefourier.answers.{room}").TOLD
    return told


def identity_of(enc: Encoding) -> dict[str, Any]:
    """What was analysed: name, SPEC as typed, all parameters used."""
    return {"encoding": enc.name, "spec": enc.spec, "params": enc.params}


def side_by_side(facts: Sequence[Fact], answers: Sequence[Answer]) -> str:
    """A table with a row for each fact and a column for each encoding."""
    tables = []
    for start in range(0, len(answers), COLUMNS_ACROSS):
        part = answers[start : start + COLUMNS_ACROSS]
        rows = [["", *(answer.encoding.label for answer in part)]]
        rows += [[fact.label, *map(fact.cell, part)] for fact in facts]
        tables.append(aligned(rows))
    return "\n".join(tables)


def any_grid(answers: Sequence[Answer]) -> bool:
    """Whether some answer is about several axes."""
    return any(a.result.on_grid for a in answers)


def conclude(enc: Encoding, result: Any) -> str:
    """The conclusion of a result.

    >>> from pefourier.encodings import load
    >>> from pefourier.analysis.faithful import assess
    >>> dft = load("dft", length=8, d=4)
    >>> print(conclude(dft, assess(dft)))
    COLLIDES. Only 4 of 8 positions have different codes: 0 and 4 share one. Take fewer positions,
    or mend what the findings name.
    """
    return telling_of(result).said(enc, result).text


def first_sentences(found: Iterable[str]) -> str:
    """The first sentences of some that are not empty."""
    return " ".join(islice(filter(None, found), MOST))


def record_of_result(result: Result) -> dict[str, Any]:
    """The JSON object of a result."""
    if not result.about and not result.of_none:
        raise PefourierError(
            f"this {type(result).__name__} was put together by hand: it is about no encoding; "
            "give about=(encoding,)"
        )
    return telling_of(result).record(answer_of(result))


def figure_of(
    result: Result, width: float | None, title: str, dark: bool, ax: Axes | None
) -> Figure:
    """The figure of a result, in the style of the command's, or that of the axes it is drawn in."""
    if ax is not None and (width is not None or dark):
        raise PefourierError("width and dark are of a figure of its own; leave them out beside ax")
    from pefourier.answers.plot import DARK, USUAL, figure_style, fit_words

    look = replace(DARK if dark else USUAL, width=width, title=title, axes=ax)
    with figure_style(look):
        figure = telling_of(result).figure([answer_of(result)], look)
        if ax is None:
            fit_words(figure)
    return figure if ax is None else ax.get_figure()


def in_a_line(result: Result) -> str:
    """The kind of result, its SPECs, the verdict and what it means.

    >>> import pefourier
    >>> pefourier.check("dft", length=4, d=4)
    <Faithfulness of dft: ISOMETRIC. All 4 positions have different codes; a linear map \
recovers each without amplifying noise.>
    """
    name = type(result).__name__
    if not result.about and not result.of_none:
        return f"<{name} about no encoding>"
    of = " and ".join(shorten(printable(enc.label), SENTENCE // 2) for enc in result.about)
    sentence = ". ".join(result.conclusion.split(". ")[:2]).removesuffix(".") + "."
    return f"<{name}{f' of {of}' if of else ''}: {shorten(sentence, SENTENCE)}>"


def as_html(result: Result) -> str:
    """What the command prints, as notebooks show it."""
    if not result.about and not result.of_none:
        return f"<pre>{in_html(in_a_line(result))}</pre>"
    told, answer = telling_of(result), answer_of(result)
    words = f"{told.conclusion(answer)}\n{told.words([answer])}"
    return "<pre>{}</pre>".format("\n".join(map(in_html, words.split("\n"))))
