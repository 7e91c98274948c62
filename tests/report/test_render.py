"""Each verdict of a question is reached and rendered, short and with its numbers."""

import json
import tempfile
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
from claims import DRAWN, read_conclusion
from drawn_usage import drawn_usage
from published_configs import PUBLISHED

from pefourier import context
from pefourier.encodings import load
from pefourier.encodings.encoding import (
    Finding,
    from_table,
    lattice,
)
from pefourier.encodings.registry import BUILDERS
from pefourier.errors import PefourierError
from pefourier.questions.check_faithful import check_faithful
from pefourier.questions.compare import compare
from pefourier.questions.design import design_base
from pefourier.questions.encode import Written, show_numbers
from pefourier.questions.extend import extend
from pefourier.questions.reconstruct import position_functions
from pefourier.questions.relations import relate
from pefourier.questions.resize import resize
from pefourier.questions.spectrum import spectrum
from pefourier.report.render import answer_of, page_of
from pefourier.report.terms import verdicts_by_command


def beside(enc, other=None):
    return compare(enc, enc if other is None else other)


def against(spec):
    return partial(beside, other=load(spec, 40, 8))


def written(enc):
    return Written("a.npy", (len(enc), enc.dim), enc.domain.x, encodings=(enc,))


def reach(source):
    """Return the answer of context to a SPEC with options, or to an encoding by its SPEC."""
    spec, options = source if isinstance(source, tuple) else (source.spec, {"d": 16, "length": 24})
    return context(spec, **options)


QUESTIONS = {"compare": beside, "spectrum": spectrum, "reconstruct": position_functions}
QUESTIONS |= {
    "check-faithful": check_faithful,
    "relations": relate,
    "encode": written,
    "context": reach,
}
FOLDER = Path(tempfile.mkdtemp())


def config(**values):
    """Write a config and return its path."""
    path = FOLDER / f"{len(list(FOLDER.iterdir()))}.json"
    path.write_text(json.dumps(values))
    return str(path)


def stored(array):
    """Write an array and return its path."""
    path = FOLDER / f"{len(list(FOLDER.iterdir()))}.npy"
    np.save(path, array)
    return str(path)


OF_A_WAY = {"xpos", "rope++", "fope"}  # context does not support them


def table(array, grid=()):
    enc = from_table(np.asarray(array, dtype=float), "file")
    return replace(enc, domain=lattice(grid)) if grid else enc


LLAMA3 = "rope:rho=5e5"
YARN = "rope:scaling=yarn,factor=4,original=4096"
STATED = PUBLISHED["meta-llama/Llama-3.1-8B"]
MISTRAL = PUBLISHED["mistralai/Mistral-7B-v0.1"]
GPT2 = {"model_type": "gpt2", "n_positions": 1024}
LONG = {"length": 60000}
SMALL = {"length": None, "d": 8, "grid": (4, 4)}
CROWDED, HALVES = [[0, 1], [1, 0], [1, 0], [0, 1]], [[0, 1], [1, 0], [0.5, 0], [0.5, 1]]


def rotated(enc):
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(enc.dim, enc.dim)))[0]
    return enc.table() @ turn


SINUSOIDAL, ROPE = load("sinusoidal", 40, 8), load("rope", 40, 8)
TWICE = np.random.default_rng(0).normal(size=(25, 3))
TWICE[7] = TWICE[4]
CUT = "rope:scaling=cut,original=1024,d=64"
LOUD = {"name": "global", "louder": 4, "of": slice(12, 16)}
CASES = [  # verdict, question, source of the encoding
    ("the same", beside, lambda: SINUSOIDAL),
    ("permuted", against("rope:layout=interleaved"), lambda: ROPE),
    ("equivalent", partial(beside, other=3 * SINUSOIDAL.table()), lambda: SINUSOIDAL),
    ("same geometry", partial(beside, other=rotated(SINUSOIDAL)), lambda: SINUSOIDAL),
    ("used differently", against("sinusoidal:layout=halves"), lambda: ROPE),
    ("different", against("rope:rho=5e5"), lambda: ROPE),
    ("written", written, lambda: load("dft", 8, 4)),
    ("shown", lambda one: show_numbers(one, one.domain.x, "vectors", None), lambda: load("dft", 8)),
    ("unseen angles", reach, lambda: (LLAMA3, {"length": 131072, "trained": 8192, "d": 128})),
    (
        "within the stated length",
        reach,
        lambda: (config(**STATED), {}),
    ),
    ("no new angles", reach, lambda: (LLAMA3, {"length": 8192, "trained": 8192, "d": 128})),
    ("training length unknown", reach, lambda: (LLAMA3, {"length": 8192, "d": 128})),
    ("beyond every window", reach, lambda: (config(**MISTRAL), {"length": 8192})),
    ("read differently", reach, lambda: (LLAMA3, {"against": "base=1e4"})),
    ("read alike", reach, lambda: (LLAMA3, {"against": LLAMA3})),
    ("logits scaled", reach, lambda: (YARN, {"against": "attention_factor=1", "d": 64})),
    ("no positions", reach, lambda: ("none", {})),
    ("any length", reach, lambda: ("alibi", {})),
    ("limited distance", reach, lambda: ("t5", {})),
    ("fixed length", reach, lambda: (config(**GPT2), {})),
    ("too few rows", reach, lambda: (config(**GPT2), {"length": 4096})),
    ("a grid", reach, lambda: ("axial-rope:grid=4x4,d=16", {})),
    ("codes repeat", reach, lambda: ("dft", {"length": 80, "d": 16})),
    ("no rotation", reach, lambda: ("recurrent", {"length": 24, "d": 16})),
    ("no base needed", partial(design_base, 80), lambda: 128),
    ("base found", partial(design_base, 1000, criteria=("turns",)), lambda: 64),
    ("no base serves", partial(design_base, 5), lambda: 4),
    ("all zero", partial(resize, to=(3, 3)), lambda: table(np.zeros((4, 3)), (2, 2))),
    ("still distinct", partial(resize, to=(6, 6)), lambda: load("axial", **SMALL)),
    ("no longer distinct", partial(resize, to=(2, 1)), lambda: table(HALVES, (2, 2))),
    ("now distinct", partial(resize, to=(4, 4)), lambda: table(TWICE, (5, 5))),
    ("not distinct", partial(resize, to=(3, 3)), lambda: table(CROWDED, (2, 2))),
    ("computed anew", partial(resize, to=(6, 6), **SMALL), lambda: "axial-rope"),
    ("slow pairs favoured", drawn_usage, lambda: {"louder": 4, "of": slice(12, 16)}),
    ("slow pairs neglected", drawn_usage, lambda: {"louder": 4, "of": slice(0, 8)}),
    ("fast pairs favoured", drawn_usage, lambda: {"louder": 4, "of": slice(0, 10), **LONG}),
    ("fast pairs neglected", drawn_usage, lambda: {"louder": 4, "of": slice(10, 16), **LONG}),
    ("no preference", drawn_usage, dict),
    ("few pairs used", drawn_usage, lambda: {"louder": 1e6, "of": slice(8, 9), "length": 2000}),
    ("by layer", partial(drawn_usage, apart=True), dict),
    ("by layer type", lambda one: drawn_usage(one, {"name": "local"}), lambda: LOUD),
    ("probably a mistake", partial(drawn_usage, doubt=True), dict),
    ("scaling needed", partial(extend, to=131072, trained=8192), lambda: "rope:rho=5e5,d=128"),
    ("further scaling needed", partial(extend, to=1024, trained=256), lambda: f"{YARN},d=16"),
    ("no scaling suffices", partial(extend, to=2048, trained=256), lambda: CUT),
    ("no scaling needed", partial(extend, to=300, trained=200), lambda: "rope:rho=2,d=16"),
]


@cache
def case_result(number):
    _, find, make = CASES[number]
    return find(make())


@pytest.mark.parametrize("number", range(len(CASES)), ids=[verdict for verdict, *_ in CASES])
def test_a_verdict_is_reached_and_its_words_are_rendered(number):
    verdict, result = CASES[number][0], case_result(number)
    assert read_conclusion(result)["verdict"] == result.verdict == verdict


def test_every_verdict_of_the_words_is_reached_by_a_case_or_a_drawn_claim():
    results = map(case_result, range(len(CASES)))
    reached = {(result.command, result.verdict) for result in results}
    words = {(name, verdict) for name, of in verdicts_by_command() for verdict in of}
    elsewhere = DRAWN | {"positions"}  # test_claims, and tests/ids
    assert {(name, verdict) for name, verdict in words if name not in elsewhere} == reached


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("command", QUESTIONS)
def test_every_encoding_has_an_answer_to_every_question(name, command):
    if command == "context" and (name in OF_A_WAY or "grid" in BUILDERS[name].parameters):
        return
    if command == "reconstruct" and BUILDERS[name].domain == "graph":
        with pytest.raises(PefourierError, match="even steps"):
            QUESTIONS[command](load(name, 24, 16))
        return
    result = QUESTIONS[command](load(name, 24, 16))
    assert result.verdict in result.verdicts
    page = page_of([answer_of(result)])
    rows = list(page.rows())
    assert page.words()
    assert len({*map(len, rows)}) == 1


def test_a_conclusion_ends_with_the_two_worst_findings():
    severities = enumerate(("note", "warning", "error", "error"))
    found = [Finding(f"c{i}", severity, f"case {i}") for i, severity in severities]
    reported = replace(check_faithful(load("dft", 8, 8)), findings=found).conclusion
    assert reported.endswith(" Case 2. Case 3.")
    assert "Case 1" not in reported


@pytest.mark.parametrize("sigma", [0, 4])
def test_a_rebuilt_position_is_that_of_the_double_sum_on_a_long_lattice(sigma):
    enc, n = load("rope:rho=5e5", 8192, 128), 8192
    steps, k = 5e5 ** (-np.arange(64) / 64) * n / (2 * np.pi), np.arange(n // 2 + 1)
    reach = k[:, None] - steps  # Eq. 15 written out, and the sum of Algorithm 1
    g = (np.exp(-((reach / sigma) ** 2) / 2) if sigma else k[:, None] == np.rint(steps)).sum(axis=1)
    h = np.roll(np.fft.irfft(g, n), 4096)
    above, result = np.flatnonzero(h >= h.max() / 2), position_functions(enc, [4096], n, sigma)
    assert result.first.peak == pytest.approx(h.max() / np.linalg.norm(h), rel=1e-9)
    assert max(result.repeats[0])[1] == np.abs(above - 4096).max()


def test_signed_frequencies_are_counted_by_their_size(run):
    spec = f"rope:inv_freq={stored(-(1e4 ** (-np.arange(16) / 16)))}"
    (record,) = run("spectrum", spec, "-S", 97, "--json").results
    slow = sum(abs(w) < 2 * np.pi / record["lattice"] for w in record["frequencies"])
    assert record["summary"]["below_first_bin"] == slow == 11
