"""Conclusions in words: situations, and in `conclusions.toml` the whole sentences each is told in.

``python tests/answers/test_conclusions.py`` writes these anew, to be read aloud before they stay.
"""

import json
import tomllib
from functools import partial
from pathlib import Path

import pytest

from pefourier.analysis.context import describe_context
from pefourier.answers.telling import SENTENCES, conclude
from pefourier.files import read_toml

LONGEST = 30  # words of a sentence
SAID = Path(__file__).with_name("conclusions.toml")


REACHES = {
    "unseen": ("rope:rho=5e5,d=128", 131072, 8192),
    "no news": ("rope:rho=5e5,d=128", 8192, 8192),
    "scaled": ("rope:rho=5e5,scaling=llama3,factor=8,original=8192,d=128", 131072, 8192),
    "alibi": ("alibi", 4096, None),
    "t5": ("t5", 4096, None),
    "none": ("none", 4096, None),
    "shaw": ("shaw", 4096, None),
}


def reached(spec, length, trained):
    (enc, *_), found = describe_context(spec, length, trained=trained)
    return conclude(enc, found)


def situations():
    """Each by name, with what says its conclusion."""
    for key, given in REACHES.items():
        yield f"context: {key}", partial(reached, *given)


SITUATIONS = dict(situations())


def recorded():
    return tomllib.loads(SAID.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_situation_is_told_in_these_sentences(name):
    assert SITUATIONS[name]() == recorded()[name]


def test_no_sentence_is_left_of_a_situation_that_is_gone():
    assert recorded().keys() == SITUATIONS.keys()


def declared(command):
    """The verdicts of a question."""
    return {verdict.partition(" | ")[0] for verdict in read_toml(SENTENCES)[command]}


@pytest.mark.parametrize("name", SITUATIONS)
def test_what_is_said_of_a_situation_opens_with_a_declared_verdict(name):
    verdict = SITUATIONS[name]().partition(". ")[0]
    assert any(verdict in declared(command) for command in read_toml(SENTENCES))
    assert len(verdict.split()) <= 4


@pytest.mark.parametrize(
    ("trained", "said"),
    [
        (5, "2 of 2 pairs reach angles unseen in training"),
        (50, "1 of 2 pairs reaches angles unseen in training"),
    ],
)
def test_numbers_agree_with_their_verbs(run, trained, said):
    done = run("context", "rope:rho=100,d=4", "--trained", trained, "--length", 99)
    assert said in " ".join(done.out.split())


if __name__ == "__main__":  # the sentences of all situations, as they are told now
    lines = [
        f"{json.dumps(name)} = {json.dumps(tell(), ensure_ascii=False)}\n"
        for name, tell in SITUATIONS.items()
    ]
    SAID.write_text("".join(lines), encoding="utf-8")
