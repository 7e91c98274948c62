"""Render the result of any question as text, JSON, CSV and figures.

An `Answer` is an encoding with a result; a `Refusal` is a SPEC that could not be answered. A result
has a `verdict`, a key of the `verdicts` of its class. The class also defines `shown` (row labels
and their fields) and `listed` (tables: a field with several dataclasses, and the labels of their
columns). `series()` returns the rows of CSV; without it, CSV has a row of single values. `draw` and
`chart` return a figure and curves for a terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from pefourier.encodings.encoding import Encoding, Finding, by_axis, by_name
from pefourier.encodings.grids import size_of
from pefourier.errors import command_line
from pefourier.types import Fields, Strings, Texts, Values, frozen
from pefourier.writing.files import read_toml
from pefourier.writing.page import Page, fields_of, flattened
from pefourier.writing.text import (
    agreeing,
    aligned,
    capital,
    fill,
    is_for_document,
    number,
    paragraph,
)

LEADING = ("error", "warning")  # severities of findings in a conclusion, worst first
MOST_LEADING = 2
MOST_LINES = 12  # of measurements of an encoding, without --full
STEPS = Path(__file__).with_name("next_steps.toml")
MORE = "Pass --full for all measurements.\n"


@frozen
class Answer:
    """An encoding and the result for it."""

    encoding: Encoding
    result: Any


Answers = Sequence[Answer]


@frozen
class Refusal:
    """A SPEC that could not be answered, and the reason."""

    spec: str
    error: str


def in_sentences(conclusion: Strings) -> str:
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


def text_of(answers: Answers) -> str:
    """Return the text of answers: rows with a column per encoding, tables, findings."""
    answers = list(map(with_all_names, answers))
    return "\n".join(map(table_text, tables_of(answers))) + "".join(map(findings_text, answers))


def short_text_of(answers: Answers) -> str:
    """Return the rows and tables that the verdict rests on, in few lines, and the findings.

    The class of a result lists them in `short`: labels of rows under "shown", and columns of tables
    by field, with the most important first. Rows that do not fit are left out.
    """
    answers = list(map(with_all_names, answers))
    short = type(answers[0].result).short
    parts, room, is_all = [], MOST_LINES * len(answers) - 1, not short
    for table in tables_of(answers, short):
        text, count = fitting_text(table, room)
        is_all = is_all and count == len(table.rows)
        parts += [text] if text else []
        room -= text.count("\n")
    more = "" if is_all else MORE
    return "\n".join(parts) + more + "".join(findings_text(a, leading(a.result)) for a in answers)


def tables_of(answers: Answers, short: Values | None = None) -> Iterator[TextTable]:
    """Yield the tables of answers, or those of `short`."""
    for field, labels in (short or {"shown": (), **answers[0].result.listed}).items():
        if field == "shown":
            yield from tables_of_rows(answers, labels)
        else:
            yield from listed_table(answers, field, labels)


@frozen
class TextTable:
    """Rows of cells, the header first."""

    rows: Sequence[Strings]
    has_encodings: bool  # a column for each; otherwise the first column names the encoding
    is_alone: bool  # of the only encoding, which the conclusion names


def fitting_text(table: TextTable, room: int) -> tuple[str, int]:
    """Return as much of a table as fits in some lines, without a second part; and its rows."""
    text = table_text(table)
    while "\n\n" in text and not table.has_encodings:
        table = replace(table, rows=[row[:-1] for row in table.rows])
        text = table_text(table)
    for count in range(len(table.rows), 1, -1):
        text = table_text(replace(table, rows=table.rows[:count]))
        if text.count("\n") <= room:
            return text, count
    return "", 0


def table_text(table: TextTable) -> str:
    """Align a table; outside documents, without the label that the conclusion names."""
    named, rows = table.is_alone and not is_for_document(), table.rows
    return aligned(rows[named:] if table.has_encodings else [row[named:] for row in rows])


def tables_of_rows(answers: Answers, chosen: Iterable[str]) -> Iterator[TextTable]:
    """Yield the table of rows that some answer has, with a column per encoding.

    `chosen` has the labels of rows; empty for all.
    """
    labels = chosen or dict.fromkeys(label for a in answers for label in a.result.shown)
    rows = [
        (name, [cell_of(value_at(a.result, a.result.shown.get(name, ""))) for a in answers])
        for name in labels
    ]
    rows = [(name, values) for name, values in rows if any(v not in (None, "") for v in values)]
    if rows:
        head = ["", *(a.encoding.label for a in answers)]
        body = ([name, *map(number, values)] for name, values in rows)
        yield TextTable([head, *body], has_encodings=True, is_alone=len(answers) == 1)


def with_all_names(answer: Answer) -> Answer:
    """Label an answer about several encodings with all their names."""
    if len(answer.result.encodings) < 2:
        return answer
    names = " | ".join(enc.spec for enc in answer.result.encodings)
    return replace(answer, encoding=replace(answer.encoding, spec=names))


def value_at(value: Any, path: str) -> Any:
    """Return the value at a path of fields such as "loss.distinct_cast"; None if missing."""
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    return value


def listed_table(answers: Answers, field: str, labels: Iterable[str]) -> Iterator[TextTable]:
    """Yield the table of a field with several dataclasses over all encodings, unless it is empty.

    `labels` are those of columns, alone or with other fields. Empty columns are left out.
    """
    of = labels if isinstance(labels, Mapping) else answers[0].result.listed[field]
    rows = [["encoding", *labels]]
    for a in answers:
        for item in getattr(a.result, field):
            cells = (number(cell_of(value_at(item, of[name]))) for name in labels)
            rows.append([a.encoding.label, *cells])
    filled = [column for column in zip(*rows, strict=True) if {*column[1:]} != {"–"}]
    if len(rows) > 1:
        table = list(map(list, zip(*filled, strict=True)))
        yield TextTable(table, has_encodings=False, is_alone=len(answers) == 1)


def findings_text(answer: Answer, stated: Sequence[Finding] = ()) -> str:
    """Return each finding with its severity and code, on separate lines.

    Those that the conclusion has stated are one line of codes.
    """
    label, findings = answer.encoding.label, answer.result.findings
    lines = [f"{f.severity}: {label}: {f.message} [{f.code}]" for f in findings if f not in stated]
    codes = dict.fromkeys(f"[{f.code}]" for f in stated)
    if codes:
        above = agreeing(len(codes), "the finding above is", "the findings above are")
        lines.insert(0, f"{stated[0].severity}: {label}: {above} {' '.join(codes)}")
    return "".join("\n" + paragraph(line, "  ") for line in lines)


def series_rows(answers: Answers) -> Iterable[Sequence[Any]]:
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
        for row in rows:
            cells = dict(zip(head, row, strict=True))
            yield [enc.name, enc.spec, *map(cells.get, names)]


def identity_of(enc: Encoding) -> Fields:
    """Return the analysed encoding: name, SPEC as typed, all parameters used."""
    return {"encoding": enc.name, "spec": enc.spec, "params": enc.params}


def leading(result: Any) -> list[Finding]:
    """Return the worst findings, which the conclusion states."""
    found = [f for level in LEADING for f in result.findings if f.severity == level]
    return found[:MOST_LEADING]


def conclude(result: Any) -> Texts:
    """Return the verdict, its meaning and action with numbers, and the worst findings."""
    words = result.verdicts[result.verdict]
    meaning, action = (fill(text, r=result) for text in (words.meaning, words.action))
    action = action or next_step(result)
    sentences = (f"{capital(f.message)}." for f in leading(result))
    return words.name(result.verdict), meaning, action, *sentences


def next_step(result: Any) -> str:
    """What to run next at the verdict; empty if there is nothing.

    Biases of pairs of query and key have no lags, and the other commands refuse them.
    """
    is_of_one_query = getattr(result, "query", None) is not None
    if is_of_one_query or any(enc.between for enc in result.encodings):
        return ""
    steps = read_toml(STEPS).get(result.command, {})
    key = result.verdict if result.encoding.domain.has_lags else "without lags"
    command, aim = steps.get(key) or steps.get("otherwise") or ("", "")
    specs, options = [enc.spec for enc in result.encodings], Fields()
    for enc in result.encodings:
        options |= {k: x for k, x in (enc.typed or {}).items() if x and k in enc.params}
    is_typed = all(enc.typed is not None for enc in result.encodings) and "-" not in specs
    words = ((f"--{key}", number(cell_of(x), 17)) for key, x in options.items())
    line = command_line("pefourier", command, *specs, *chain(*words))
    named = f"`{line}`" if is_typed else f"{command} on the same input"
    return f"Run {named} to {aim}." if command else ""


def conclusion_of(answer: Answer) -> str:
    """Return the paragraph about one answer."""
    return paragraph(f"{answer.encoding.label}: {in_sentences(conclude(answer.result))}", "  ")


def head_of(answer: Answer) -> Fields:
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


def record_of(answer: Answer) -> Fields:
    """Return the JSON object of a SPEC: its head, the fields of the result, further facts."""
    return {**head_of(answer), **fields_of(answer.result), **answer.result.extra_fields()}


def page_of(outcomes: Sequence[Answer | Refusal], **drawing: Any) -> Page:
    """Build a page about some SPECs with results of one kind; refused SPECs are only in JSON."""
    answers = [answer for answer in outcomes if isinstance(answer, Answer)]
    kind = type(answers[0].result)
    return Page(
        kind.command,
        words=partial(text_of, answers),
        short=partial(short_text_of, answers),
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
    return Answer(result.encoding, result)


def any_grid(answers: Answers) -> bool:
    """Whether any answer has several axes."""
    return any(a.result.on_grid for a in answers)
