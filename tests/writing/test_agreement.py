"""Messages of 0, 1 and 2 things agree in number, and no slot is left empty."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from texts import strings_of

import pefourier
from pefourier.encodings.encoding import from_table
from pefourier.errors import PefourierError
from pefourier.report.terms import FINDINGS, SLOT, verdicts_by_command
from pefourier.writing.text import NOUNS, agree, singular_noun

PACKAGE = Path(pefourier.__file__).parent
SENTENCES = [
    PACKAGE / f"{name}.toml"
    for name in ("train/sentences", "questions/positions", "construction/mistakes", "ids/names")
]
ONE = r"(?<![\w.,×^/–=|-])(?<!\d of )1 (?!of|to|and|in)(?:[a-z-]*[a-z] )?"
PLURAL = re.compile(rf"{ONE}(?:{'|'.join(NOUNS)})\b(?! [a-z]* ?of)")
EMPTY = re.compile(
    r"of ''|\(\)|\bof of\b|  |\?\.|, [,.;]|: [.;]| \.|\bpairs \d+:|\blayers \d+ differ"
)
LABELS = re.compile(r"(row|layer|head|column|token|position|document|of [\d,]+) 1 ")


def messages():
    """Yield the texts of findings and verdicts, with their slots."""
    for row in tomllib.loads(FINDINGS.read_text()).values():
        opening = row.get("opening", "")
        yield from (
            opening + text
            for key in ("error", "warning", "note")
            if key in row
            for text in strings_of(row[key])
        )
    for _, verdicts in verdicts_by_command():
        yield from (text for v in verdicts.values() for text in (v.meaning, v.action))
    for path in SENTENCES:
        yield from strings_of(tomllib.loads(path.read_text()))


def test_a_count_of_one_is_in_the_singular_in_every_message():
    texts = [agree(re.sub(SLOT, "1", text)) for text in messages()]
    assert len(texts) > 400
    plural = [text for text in texts if PLURAL.search(LABELS.sub("", text))]
    assert plural == []


@pytest.mark.parametrize("count", ["0", "2"])
def test_another_count_is_in_the_plural_in_every_message(count):
    nouns = "|".join(map(singular_noun, NOUNS))
    singular = re.compile(rf"(?<![\w.,×^/–=|-]){count} (?:{nouns})\b(?! (?:[a-z]* ?of|from))")
    texts = [agree(re.sub(SLOT, count, text)) for text in messages()]
    assert [text for text in texts if singular.search(LABELS.sub("", text))] == []
    assert [text for text in texts if re.search(r"of of|  |\?\.|, [,.;]| \.(?!\w)", text)] == []


SMALL = [(n, d) for n in (1, 2, 3) for d in (1, 2, 4)]
SPECS = ["none", "sinusoidal", "dft", "rope", "alibi", "learned", "axial", "xpos"]
ASKED = [pefourier.spectrum, pefourier.reconstruct, pefourier.check, pefourier.relations]


def texts_of(answer):
    record = answer.to_dict()
    yield from (record["conclusion"], record["meaning"], record["action"])
    yield from (finding.message for finding in answer.findings)
    yield repr(answer)


@pytest.mark.parametrize("ask", ASKED, ids=lambda ask: ask.__name__)
def test_answers_about_one_or_two_things_are_whole_sentences(ask):
    seen = 0
    tables = [np.zeros((n, d)) for n, d in SMALL] + [np.eye(n, d) for n, d in SMALL]
    tables = [from_table(table) for table in tables]
    for n, d in SMALL:
        for source in SPECS if (n, d) != (1, 1) else [*SPECS, *tables]:
            sizes = {"length": n, "d": d} if isinstance(source, str) else {}
            try:
                texts = [*texts_of(ask(source, **sizes))]
            except PefourierError as error:
                texts = [str(error)]
            wrong = [t for t in texts if EMPTY.search(t) or PLURAL.search(t) or " of : " in t]
            assert wrong == [], (source, n, d)
            seen += len(texts)
    assert seen > 100


def test_nouns_have_a_singular():
    assert {singular_noun(noun) for noun in NOUNS}.isdisjoint(NOUNS)
