"""What the questions need that are not told by `answers.frame` yet: sentences put together by code.

All else of this room stands in the frame; names of it are handed on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from pefourier.answers.frame import (  # noqa: F401
    COLUMNS_ACROSS,
    Answer,
    Refusal,
    Said,
    Telling,
    Template,
    answer_of,
    any_grid,
    conclude,
    identity_of,
    record_of_fields,
    telling_of,
)
from pefourier.encodings.places import by_axis
from pefourier.files import read_toml
from pefourier.writing.text import aligned, number

EXACT = 1e-6  # error of a linear inverse that is rounding
LONG = 4  # numbers or names of a list that are told one by one
MOST = 3  # sentences of a conclusion that is made of what speaks first
SENTENCES = Path(__file__).with_name("sentences.toml")


def meaning_of(command: str, verdict: str, **told: Any) -> tuple[str, str]:
    """A verdict, and what it means in the words of sentences.toml; " | " leads to a variant."""
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
        value = self.value(answer.result)
        if isinstance(value, list):
            return by_axis(value)
        why = self.missing if isinstance(self.missing, str) else self.missing(answer)
        return number(value, missing=why)


def side_by_side(facts: Sequence[Fact], answers: Sequence[Answer]) -> str:
    """A table with a row for each fact and a column for each encoding."""
    tables = []
    for start in range(0, len(answers), COLUMNS_ACROSS):
        part = answers[start : start + COLUMNS_ACROSS]
        rows = [["", *(answer.encoding.label for answer in part)]]
        rows += [[fact.label, *map(fact.cell, part)] for fact in facts]
        tables.append(aligned(rows))
    return "\n".join(tables)


def first_sentences(found: Iterable[str]) -> str:
    """The first sentences of some that are not empty."""
    return " ".join(islice(filter(None, found), MOST))
