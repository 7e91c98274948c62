"""What the questions need that are not told by `answers.frame` yet: sentences put together by code.

All else of this room stands in the frame; names of it are handed on.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

from pefourier.answers.frame import (  # noqa: F401
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
from pefourier.files import read_toml

MOST = 3  # sentences of a conclusion that is made of what speaks first
SENTENCES = Path(__file__).with_name("sentences.toml")


def meaning_of(command: str, verdict: str, **told: Any) -> tuple[str, str]:
    """A verdict, and what it means in the words of sentences.toml; " | " leads to a variant."""
    words = Template().format(read_toml(SENTENCES)[command][verdict], **told)
    return verdict.partition(" | ")[0], words


def sentence(room: str, name: str, /, **told: Any) -> str:
    """A sentence of a room, or a part of one, in the words of sentences.toml."""
    return Template().format(read_toml(SENTENCES)["parts"][room][name], **told)


def first_sentences(found: Iterable[str]) -> str:
    """The first sentences of some that are not empty."""
    return " ".join(islice(filter(None, found), MOST))
