"""Conclusions in words: situations, and in `conclusions.toml` the whole sentences each is told in.

``python tests/answers/test_conclusions.py`` writes these anew, to be read aloud before they stay.
"""

import json
import re
import tomllib
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from pefourier.analysis.compare import compare
from pefourier.analysis.context import describe_context
from pefourier.answers.compare import conclude_comparison
from pefourier.answers.telling import SENTENCES, conclude
from pefourier.encodings import load
from pefourier.encodings.encoding import from_table
from pefourier.files import read_toml

LONGEST = 30  # words of a sentence
SAID = Path(__file__).with_name("conclusions.toml")


def table(array):
    return from_table(np.asarray(array, dtype=float), "file")


def compared(a, b):
    return conclude_comparison(compare(table(a), table(b))).text


ONE = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]])
PAIRS = {
    "equal": ONE,
    "lengths": ONE[:3],
    "rounding": ONE * (1 + 2.0**-52),
    "equivalent": -2 * ONE,
    "different": ONE + 0.5 * np.eye(4)[:, 1:],
    "dimensions": ONE[:, :2],
}
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
    for key, other in PAIRS.items():
        yield f"compared: {key}", partial(compared, ONE, other)
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


def test_partners_that_stand_elsewhere_are_permuted_along():
    one, two = load("rope", 40, 8), load("rope:layout=interleaved", 40, 8)
    for a, b, words in ((one, two, "halves to neighbours"), (two, one, "neighbours to halves")):
        said = conclude_comparison(compare(a, b))
        assert (said.verdict, words in said.meaning) == ("THE SAME, PERMUTED", True)
        assert "permute the rows of W_q and W_k, their biases and q/k-norm gains" in said.action
        assert "Loaded unpermuted, scores of random unit queries and keys differ" in said.more[0]
    unknown = "Whether a model is the same is not known: a table of cosines and sines does not hold"
    assert unknown in conclude_comparison(compare(one, table(two.table()))).text
    twice = table(np.repeat(one.table(), 2, axis=1))
    told = conclude_comparison(compare(one, twice)).text
    assert told.startswith(
        "THE SAME, REWRITTEN. "
        "One encoding, written differently: cosines and sines, each frequency twice, "
        "columns halves to interleaved; after that change they agree to "
    )
    assert unknown in told


def test_the_order_of_columns_that_are_added_needs_nothing():
    one, two = load("sinusoidal", 40, 8), load("sinusoidal:layout=halves", 40, 8)
    assert "permuted" not in conclude_comparison(compare(one, two)).text
    exchanged = load("sinusoidal:layout=halves", 40, 8)
    rope = load("rope", 40, 8)
    said = conclude_comparison(compare(rope, exchanged))
    assert said.verdict == "THE SAME CODES, USED DIFFERENTLY"
    assert said.meaning == (
        "rope turns queries and keys by its codes and sinusoidal:layout=halves adds its codes to "
        "the input: weights trained with one do not fit the other."
    )
    assert "permuted" not in said.text


def test_common_bugs_of_sinusoids_are_named(rng):
    """Once "columns neighbours exchanged" and "shifted by 1 position" were all that was said."""
    one = load("sinusoidal", 40, 8)
    swapped = np.arange(8) ^ 1
    said = conclude_comparison(compare(one, table(one.table()[:, swapped])))
    assert said.verdict == "SIN AND COS EXCHANGED"
    assert "sines and cosines exchanged (columns neighbours exchanged)" in said.meaning
    codes = rng.normal(size=(40, 8))
    other = conclude_comparison(compare(table(codes), table(codes[:, swapped])))
    assert other.verdict == "THE SAME, REWRITTEN"
    for shift in (-3, -1, 1, 2):
        one, two = load("sinusoidal:offset=3", 40, 8), load(f"sinusoidal:offset={3 + shift}", 40, 8)
        told = conclude_comparison(compare(one, two)).meaning
        assert ("off by one position" in told) == (abs(shift) == 1)
        i, j = map(
            int, re.search(r"row (\d) of the second is row (\d) of the first", told).groups()
        )
        assert np.allclose(two.table()[i], one.table()[j])


def test_a_parameter_that_one_table_lacks_is_said_to_be_the_others():
    codes = load("rope", 40, 8).table()
    one, two = table(3.5 * codes), table(codes)
    told = [conclude_comparison(compare(a, b)).text for a, b in ((one, two), (two, one))]
    assert told[0].endswith("they differ in scale 3.5 in the first, 1 in the second.")
    assert told[1].endswith("they differ in scale 1 in the first, 3.5 in the second.")


def test_a_rotation_keeps_products_and_says_so(rng):
    codes = rng.normal(size=(20, 6))
    turned = codes @ np.linalg.qr(rng.normal(size=(6, 6)))[0]
    one, two = table(codes), table(turned)
    assert conclude_comparison(compare(one, two)).text == (
        "THE SAME, REWRITTEN. "
        "One encoding, written differently: columns rotated (all inner products agree);"
        " inner products are the same, individual entries differ."
    )
    tripled = table(3 * turned)
    assert conclude_comparison(compare(one, tripled)).text == (
        "THE SAME, REWRITTEN. "
        "One encoding, written differently: columns rotated, scaled by 3; inner "
        "products are 9 times those of the first, individual entries differ."
    )


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


def test_a_table_that_begins_elsewhere_is_shifted():
    moved = table(load("sinusoidal", 41, 8).table()[1:])
    said = conclude_comparison(compare(load("sinusoidal", 40, 8), moved))
    assert said.verdict == "THE SAME, SHIFTED"
