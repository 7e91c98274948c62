"""Render the result of any question as text, JSON, CSV and figures.

An `Answer` is an encoding with a result; a `Refusal` is a SPEC that could not be answered. A result
has a `verdict`, a key of the `verdicts` of its class. The class also defines `shown` (row labels
and their fields) and `listed` (tables: a field with several dataclasses, and the labels of their
columns). `series()` returns the rows of CSV; without it, CSV has a row of single values. `draw` and
`chart` return a figure and curves for a terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pefourier.encodings.encoding import Encoding
from pefourier.encodings.grids import size_of
from pefourier.encodings.places import by_axis, by_name
from pefourier.errors import shorten
from pefourier.writing.page import Page, fields_of, flattened
from pefourier.writing.text import (
    aligned,
    capital,
    fill,
    in_html,
    number,
    paragraph,
    printable,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEADING = ("error", "warning")  # severities of findings in a conclusion, worst first
MOST_LEADING = 2
SENTENCE = 180  # characters of a conclusion in one line
COLUMNS_ACROSS = 4  # encodings side by side in a text table


@dataclass(frozen=True)
class Answer:
    """An encoding and the result for it."""

    encoding: Encoding
    result: Any


@dataclass(frozen=True)
class Refusal:
    """A SPEC that could not be answered, and the reason."""

    spec: str
    error: str


def in_sentences(conclusion: Sequence[str]) -> str:
    """Join a conclusion into one paragraph.

    >>> in_sentences(("SHARP", "A position comes back.", "", "Row 9 has no code."))
    'SHARP. A position comes back. Row 9 has no code.'
    """
    verdict, *sentences = conclusion
    return " ".join(filter(None, (f"{verdict}.", *sentences)))


def cell_of(value: Any) -> Any:
    """Format a field for a cell: sides, values by axis or by name; numbers are unchanged.

    >>> cell_of((14, 14)), cell_of({"A2": 0.5}), cell_of([0.25, None])
    ('14x14', 'A2 0.5', 'y 0.25, x –')
    """
    if isinstance(value, Mapping):
        return by_name(list(value), list(value.values()))
    if isinstance(value, tuple):
        return size_of(value)
    return by_axis(value) if isinstance(value, list) else value


def text_of(answers: Sequence[Answer]) -> str:
    """Return the text of answers: rows with a column per encoding, tables, findings."""
    answers = list(map(with_all_names, answers))
    rows = shown_rows(answers)
    parts = []
    for start in range(0, len(answers) if rows else 0, COLUMNS_ACROSS):
        columns = slice(start, start + COLUMNS_ACROSS)
        head = ["", *(a.encoding.label for a in answers[columns])]
        body = ([label, *map(number, values[columns])] for label, values in rows.items())
        parts.append(aligned([head, *body]))
    parts += listed_tables(answers)
    return "\n".join(parts) + "".join(map(findings_text, answers))


def with_all_names(answer: Answer) -> Answer:
    """Label an answer about several encodings with all their names."""
    if len(answer.result.encodings) < 2:
        return answer
    names = " | ".join(enc.spec for enc in answer.result.encodings)
    return replace(answer, encoding=replace(answer.encoding, spec=names))


def shown_rows(answers: Sequence[Answer]) -> dict[str, list[Any]]:
    """Return the values of each row that some answer has."""
    labels = dict.fromkeys(label for a in answers for label in a.result.shown)
    rows = {label: [shown_value(label, a.result) for a in answers] for label in labels}
    return {label: values for label, values in rows.items() if any(v is not None for v in values)}


def shown_value(label: str, result: Any) -> Any:
    """Return the value of a result in a row; None if it lacks the row."""
    return cell_of(value_at(result, result.shown.get(label, "")))


def value_at(value: Any, path: str) -> Any:
    """Return the value at a path of fields such as "loss.distinct_cast"; None if missing."""
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    return value


def listed_tables(answers: Sequence[Answer]) -> Iterator[str]:
    """Yield tables of fields with several dataclasses, joined over encodings with equal columns.

    Empty columns are left out.
    """
    tables = ((field, tuple(c)) for a in answers for field, c in a.result.listed.items())
    for field, labels in dict.fromkeys(tables):
        rows = []
        for a in answers:
            columns = a.result.listed.get(field, {})
            for item in getattr(a.result, field) if tuple(columns) == labels else ():
                cells = (cell_of(value_at(item, path)) for path in columns.values())
                rows.append([a.encoding.label, *map(number, cells)])
        table = zip(*[["encoding", *labels], *rows], strict=True)
        filled = [column for column in table if set(column[1:]) != {"–"}]
        if rows:
            yield aligned(list(map(list, zip(*filled, strict=True))), keys=2)


def findings_text(answer: Answer) -> str:
    """Return each finding with its severity and code, on separate lines."""
    label = answer.encoding.label
    lines = (f"{f.severity}: {label}: {f.message} [{f.code}]" for f in answer.result.findings)
    return "".join("\n" + paragraph(line, "  ") for line in lines)


def series_rows(answers: Sequence[Answer]) -> Iterable[Sequence[Any]]:
    """Yield the series of all encodings as one CSV table by column names, or single values."""
    if not hasattr(answers[0].result, "series"):
        yield from flattened(
            {
                **identity_of(a.encoding),
                **fields_of(a.result),
                "findings": " ".join(finding.code for finding in a.result.findings),
            }
            for a in answers
        )
        return
    series = [(a.encoding, *a.result.series()) for a in answers]
    names = list(dict.fromkeys(name for _, head, _ in series for name in head))
    yield ["encoding", "spec", *names]
    for enc, head, rows in series:
        places = [head.index(name) if name in head else None for name in names]
        for row in rows:
            yield [enc.name, enc.spec, *(None if i is None else row[i] for i in places)]


def identity_of(enc: Encoding) -> dict[str, Any]:
    """Return the analysed encoding: name, SPEC as typed, all parameters used."""
    return {"encoding": enc.name, "spec": enc.spec, "params": enc.params}


def conclude(result: Any) -> tuple[str, ...]:
    """Return the verdict, its meaning and action with numbers, and the worst findings."""
    words = result.verdicts[result.verdict]
    meaning, action = (fill(text, r=result) for text in (words.meaning, words.action))
    leading = [f.message for level in LEADING for f in result.findings if f.severity == level]
    sentences = (f"{capital(message)}." for message in leading[:MOST_LEADING])
    return words.name(result.verdict), meaning, action, *sentences


def conclusion_of(answer: Answer) -> str:
    """Return the paragraph about one answer."""
    return paragraph(f"{answer.encoding.label}: {in_sentences(conclude(answer.result))}", "  ")


def head_of(answer: Answer) -> dict[str, Any]:
    """Return the first fields of every JSON object: the encoding and the conclusion."""
    _, meaning, action, *_ = conclusion = conclude(answer.result)
    reference = answer.result.encodings[1:]
    return {
        **identity_of(answer.encoding),
        **({"other": identity_of(reference[0])} if reference else {}),
        "verdict": answer.result.verdict,
        "meaning": meaning,
        "action": action,
        "findings": list(answer.result.findings),
        "conclusion": in_sentences(conclusion),
    }


def record_of(answer: Answer) -> dict[str, Any]:
    """Return the JSON object of a SPEC: its head, the fields of the result, further facts."""
    return {**head_of(answer), **fields_of(answer.result), **answer.result.extra_fields()}


def page_of(kind: type[Any], outcomes: Sequence[Answer | Refusal], **drawing: Any) -> Page:
    """Build a page about some SPECs with results of a kind; refused SPECs appear only in JSON."""
    answers = [answer for answer in outcomes if isinstance(answer, Answer)]
    return Page(
        kind.command,
        words=partial(text_of, answers),
        records=lambda: (
            record_of(entry) if isinstance(entry, Answer) else fields_of(entry)
            for entry in outcomes
        ),
        rows=partial(series_rows, answers),
        chart=partial(kind.chart, answers, **drawing),
        conclusion=lambda: "".join(map(conclusion_of, answers)),
    )


def answer_of(result: Any) -> Answer:
    """Return a result with its encoding, which may have been recognized as a grid."""
    return Answer(result.encodings[0], result)


def any_grid(answers: Sequence[Answer]) -> bool:
    """Whether any answer has several axes."""
    return any(a.result.on_grid for a in answers)


def figure_of(result: Any, width: float | None, title: str) -> Figure:
    """Return the figure of a result, in the style of the command line."""
    from pefourier.report import plot

    look = plot.Look(width, title=title)
    return plot.draw_styled(result.draw, [answer_of(result)], look)


def in_a_line(result: Any) -> str:
    """Return one line with the kind of result, its SPECs, the verdict and its meaning.

    >>> import pefourier
    >>> pefourier.check("dft", length=4, d=4)
    <Faithfulness of dft: ISOMETRIC. All 4 positions have distinct vectors, and a \
linear layer can read all positions back without amplifying noise.>
    """
    of = " and ".join(shorten(printable(enc.label), SENTENCE // 2) for enc in result.encodings)
    sentence = ". ".join(result.conclusion.split(". ")[:2]).removesuffix(".") + "."
    return f"<{result.kind()} of {of}: {shorten(sentence, SENTENCE)}>"


def as_html(result: Any) -> str:
    """Return the output of the command as HTML, for notebooks."""
    answer = answer_of(result)
    words = f"{conclusion_of(answer)}\n{text_of([answer])}"
    return "<pre>{}</pre>".format("\n".join(map(in_html, words.split("\n"))))
