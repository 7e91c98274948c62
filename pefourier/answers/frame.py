"""How is any result told? From its dataclass and words.toml alone: one frame for all questions.

A result has a `verdict`, one of those of its question in words.toml, where its meaning and action
stand. Its class lists what is `shown` (labels of rows and the fields in them) and what is `listed`
(tables: a field that holds several dataclasses, and the labels of its columns). A `series()` is its
CSV; without one that is a row of single values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from pefourier.answers.telling import (
    Answer,
    Fact,
    Said,
    Telling,
    Template,
    identity_of,
    side_by_side,
)
from pefourier.answers.terms import WORDS
from pefourier.encodings.encoding import Encoding, Finding
from pefourier.encodings.grids import size_of
from pefourier.encodings.places import by_axis, by_name
from pefourier.files import read_toml
from pefourier.writing.page import fields_of, flattened
from pefourier.writing.text import aligned, number, paragraph

URGENT = ("error", "warning")  # severities of findings that a conclusion ends with, worst first
MOST_URGENT = 2


def framed(command: str, **pictures: Any) -> Telling:
    """The telling of a question whose words, tables and rows are made by the frame."""
    return Telling(
        command,
        conclude=partial(conclude_by_words, command),
        words=text_of,
        rows=series_rows,
        leads=(),
        **pictures,
    )


def conclude_by_words(command: str, enc: Encoding | None, result: Any) -> Said:
    """The verdict, its meaning and action with numbers filled in, and the worst findings."""
    words = read_toml(WORDS)[command][result.verdict]
    meaning, action = (Template().format(words.get(key, ""), r=result) for key in WORDED)
    urgent = [f.message for severity in URGENT for f in result.findings if f.severity == severity]
    sentences = tuple(f"{one[0].upper()}{one[1:]}." for one in urgent[:MOST_URGENT])
    return Said(result.verdict.upper(), meaning, action, sentences)


WORDED = ("meaning", "action")


def cell_of(value: Any) -> Any:
    """A field as a cell shows it: sides, shares by axis or by name, numbers as they are.

    >>> cell_of((14, 14)), cell_of({"A2": 0.5}), cell_of([0.25, None])
    ('14x14', 'A2 0.5', 'y 0.25, x –')
    """
    if isinstance(value, Mapping):
        return by_name(list(value), list(value.values()))
    if isinstance(value, tuple):
        return size_of(value)
    return by_axis(value) if isinstance(value, list) else value


def text_of(answers: Sequence[Answer]) -> str:
    """Rows of what is shown, an encoding a column; then what is listed; then the findings."""
    labels = dict.fromkeys(label for a in answers for label in a.result.shown)
    facts = [Fact(label, partial(shown_value, label)) for label in labels]
    facts = [f for f in facts if any(f.value(a.result) is not None for a in answers)]
    parts = [side_by_side(facts, answers)] if facts else []
    parts += [part for part in map(partial(listed_table, answers), listed_tables(answers)) if part]
    return "\n".join(parts) + "".join(map(findings_text, answers))


def shown_value(label: str, result: Any) -> Any:
    """What a row shows of a result; None where it has no such row."""
    value = result
    for name in result.shown.get(label, "").split("."):
        value = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    return cell_of(value)


def listed_tables(answers: Sequence[Answer]) -> list[tuple[str, tuple[str, ...]]]:
    """Fields that are listed, with the labels of their columns, those of each kind of result."""
    return list(
        dict.fromkeys((f, tuple(cols)) for a in answers for f, cols in a.result.listed.items())
    )


def listed_table(answers: Sequence[Answer], table: tuple[str, tuple[str, ...]]) -> str:
    """A table of what fields hold several of, of all encodings that have the same columns."""
    field, labels = table
    rows = []
    for a in answers:
        columns = a.result.listed.get(field, {})
        if tuple(columns) == labels:
            for item in getattr(a.result, field):
                cells = (cell_of(attrgetter(path)(item)) for path in columns.values())
                rows.append([a.encoding.label, *map(number, cells)])
    return aligned([["encoding", *labels], *rows], keys=2) if rows else ""


def findings_text(answer: Answer) -> str:
    """Each finding with its severity and code, on lines of its own."""
    label = answer.encoding.label
    return "".join(finding_line(label, finding) for finding in answer.result.findings)


def finding_line(label: str, finding: Finding) -> str:
    """A finding about an encoding as text has it."""
    return "\n" + paragraph(
        f"{finding.severity}: {label}: {finding.message} [{finding.code}]", "  "
    )


def finding_codes(result: Any) -> str:
    """The codes of its findings, as one cell of CSV."""
    return " ".join(finding.code for finding in result.findings)


def series_rows(answers: Sequence[Answer]) -> Iterable[Sequence[Any]]:
    """The series of each encoding in one table of CSV, columns by name; else single values."""
    if not hasattr(answers[0].result, "series"):
        yield from flattened(
            {**identity_of(a.encoding), **fields_of(a.result), "findings": finding_codes(a.result)}
            for a in answers
        )
        return
    told = [(a.encoding, *a.result.series()) for a in answers]
    names = list(dict.fromkeys(name for _, own, _ in told for name in own))
    yield ["encoding", "spec", *names]
    for enc, own, rows in told:
        place = [own.index(name) if name in own else None for name in names]
        for row in rows:
            yield [enc.name, enc.spec, *(None if i is None else row[i] for i in place)]
