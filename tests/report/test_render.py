"""Each verdict of a question is reached and rendered, short and with its numbers."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
from claims import DRAWN, assert_stated, read_conclusion
from drawn_usage import drawn_usage
from published_configs import PUBLISHED

from pefourier.encodings import load
from pefourier.encodings.encoding import Finding
from pefourier.encodings.registry import BUILDERS
from pefourier.questions.check_faithful import check_faithful
from pefourier.report.terms import verdicts_by_command

CONFIGS = {
    "llama": PUBLISHED["meta-llama/Llama-3.1-8B"],
    "mistral": PUBLISHED["mistralai/Mistral-7B-v0.1"],
    "gpt2": {"model_type": "gpt2", "n_positions": 1024},
}
RNG = np.random.default_rng(0)
TWICE = RNG.normal(size=(25, 3))
TWICE[7] = TWICE[4]
TABLES = {
    "zeros": np.zeros((4, 3)),
    "halves": [[0, 1], [1, 0], [0.5, 0], [0.5, 1]],
    "crowded": [[0, 1], [1, 0], [1, 0], [0, 1]],
    "twice": TWICE,
    "turned": load("sinusoidal", 40, 8).table() @ np.linalg.qr(RNG.normal(size=(8, 8)))[0],
}
YARN = "rope:scaling=yarn,factor=4,original=4096"
CASES = {
    "compare sinusoidal sinusoidal -S 40 --d 8": "the same",
    "compare rope rope:layout=interleaved -S 40 --d 8": "permuted",
    "compare sinusoidal sinusoidal:layout=halves -S 40 --d 8": "equivalent",
    "compare sinusoidal turned.npy -S 40 --d 8": "same geometry",
    "compare rope sinusoidal:layout=halves -S 40 --d 8": "used differently",
    "compare rope rope:rho=5e5 -S 40 --d 8": "different",
    "encode dft -S 8 --d 4 --out a.npy": "written",
    "encode dft -S 8 --d 8": "shown",
    "context rope:rho=5e5 --length 128k --trained 8192 --d 128": "unseen angles",
    "context llama.json": "within the stated length",
    "context rope:rho=5e5 --length 8192 --trained 8192 --d 128": "no new angles",
    "context rope:rho=5e5 --length 8192 --d 128": "training length unknown",
    "context mistral.json --length 8192": "beyond every window",
    "context rope:rho=5e5 --against base=1e4": "read differently",
    "context rope:rho=5e5 --against rope:rho=5e5": "read alike",
    f"context {YARN} --against attention_factor=1 --d 64": "logits scaled",
    "context none": "no positions",
    "context alibi": "any length",
    "context t5": "limited distance",
    "context gpt2.json": "fixed length",
    "context gpt2.json --length 4096": "too few rows",
    "context axial-rope:grid=4x4,d=16": "a grid",
    "context dft --length 80 --d 16": "codes repeat",
    "context recurrent --length 24 --d 16": "no rotation",
    "design --length 80 --d 128": "no base needed",
    "design --length 1000 --d 64 --for turns": "base found",
    "design --length 5 --d 4": "no base serves",
    "design --extend-from rope:rho=5e5,d=128 --length 8192 --to 128k": "scaling needed",
    f"design --extend-from {YARN},d=16 --length 256 --to 1024": "further scaling needed",
    "design --extend-from rope:scaling=cut,original=1024,d=64 --length 256 --to 2k": (
        "no scaling suffices"
    ),
    "design --extend-from rope:rho=2,d=16 --length 200 --to 300": "no scaling needed",
    "resize zeros.npy --from 2x2 --to 3x3": "all zero",
    "resize axial --d 8 --from 4x4 --to 6x6": "still distinct",
    "resize halves.npy --from 2x2 --to 2x1": "no longer distinct",
    "resize twice.npy --from 5x5 --to 4x4": "now distinct",
    "resize crowded.npy --from 2x2 --to 3x3": "not distinct",
    "resize axial-rope --d 8 --from 4x4 --to 6x6": "computed anew",
}
WORDS = {(name, code): of for name, of in verdicts_by_command() for code in of}


@pytest.fixture
def inputs(folder):
    """Write the files of the cases into the working directory."""
    for name, values in CONFIGS.items():
        (folder / f"{name}.json").write_text(json.dumps(values))
    for name, table in TABLES.items():
        np.save(f"{name}.npy", table)


@pytest.mark.usefixtures("inputs")
@pytest.mark.parametrize("line", CASES)
def test_a_verdict_is_reached_and_its_words_are_rendered(line, ask):
    record = ask(line)
    assert record["verdict"] == CASES[line]
    assert_stated(record, WORDS[line.split()[0], CASES[line]])


LONG = {"length": 60000}
USED = {  # rotations of a model
    "slow pairs favoured": [{"louder": 4, "of": slice(12, 16)}],
    "slow pairs neglected": [{"louder": 4, "of": slice(0, 8)}],
    "fast pairs favoured": [{"louder": 4, "of": slice(0, 10), **LONG}],
    "fast pairs neglected": [{"louder": 4, "of": slice(10, 16), **LONG}],
    "no preference": [{}],
    "few pairs used": [{"louder": 1e6, "of": slice(8, 9), "length": 2000}],
    "by layer": [{}],
    "by layer type": [{"name": "global", "louder": 4, "of": slice(12, 16)}, {"name": "local"}],
    "probably a mistake": [{}],
}


@pytest.mark.parametrize("verdict", USED)
def test_a_verdict_of_usage_is_reached_and_its_words_are_rendered(verdict):
    found = {"apart": verdict == "by layer", "doubt": verdict == "probably a mistake"}
    assert read_conclusion(drawn_usage(*USED[verdict], **found))["verdict"] == verdict


def test_every_verdict_of_the_words_is_reached_by_a_case_or_a_drawn_claim():
    reached = {(line.split()[0], verdict) for line, verdict in CASES.items()}
    reached |= {("usage", verdict) for verdict in USED}
    elsewhere = DRAWN | {"positions"}  # test_claims, and tests/ids
    assert {(name, verdict) for name, verdict in WORDS if name not in elsewhere} == reached


OF_A_WAY = {"xpos", "rope++", "fope"}  # context does not support them


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("command", [*sorted(DRAWN), "compare", "context"])
def test_every_encoding_has_an_answer_to_every_question(name, command, run):
    if command == "context" and "grid" in BUILDERS[name].parameters:
        return
    refused = command == "context" and name in OF_A_WAY
    refused |= command == "reconstruct" and BUILDERS[name].domain == "graph"
    names = [name] * (1 + (command == "compare"))
    words, rows = (run(command, *names, *"-S 24 --d 16".split(), *form) for form in ((), ["--csv"]))
    assert words.status == rows.status == (2 if refused else 0)
    assert refused or len({*map(len, csv.reader(rows.out.splitlines()))}) == 1


def test_a_conclusion_ends_with_the_two_worst_findings():
    severities = enumerate(("note", "warning", "error", "error"))
    found = [Finding(f"c{i}", severity, f"case {i}") for i, severity in severities]
    reported = replace(check_faithful(load("dft", 8, 8)), findings=found).conclusion
    assert reported.endswith(" Case 2. Case 3.")
    assert "Case 1" not in reported


@pytest.mark.usefixtures("folder")
def test_signed_frequencies_are_counted_by_their_size(ask):
    np.save("signed.npy", -(1e4 ** (-np.arange(16) / 16)))
    record = ask("spectrum rope:inv_freq=signed.npy -S 97")
    slow = sum(abs(w) < 2 * np.pi / record["lattice"] for w in record["frequencies"])
    assert record["summary"]["below_first_bin"] == slow == 11
