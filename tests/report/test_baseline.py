"""Regressions from a stored answer: each kind is named, and other changes are not."""

import json
import os
import threading
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from pefourier.encodings import load
from pefourier.encodings.encoding import from_table
from pefourier.questions.check_faithful import check_faithful
from pefourier.report.baseline import differences, fields_of_record
from pefourier.report.forms import as_json
from pefourier.report.render import Answer, page_of
from pefourier.writing.page import SCHEMA

pytestmark = pytest.mark.usefixtures("folder")


@pytest.fixture
def store(run):
    """Return a function that writes the answer of a command to the file `base`."""
    return lambda *words: Path("base").write_text(run(*words, "--json").out)


def answer_of(enc):
    return Answer(enc, check_faithful(enc))


def record_of(enc):
    """Return the record that the command writes for an encoding."""
    return json.loads(as_json(page_of([answer_of(enc)])))["results"][0]


def sines(rows=20, d=8, scale=1.0):
    angle = np.outer(np.arange(rows), 0.7 ** np.arange(d // 2))
    return scale * np.stack([np.sin(angle), np.cos(angle)], axis=2).reshape(rows, d)


TWIN = np.concatenate([sines()[:-1], sines()[:1]])
SQUARED = 4 * (np.sin(0.7 ** np.arange(4) / 2) ** 2).sum()  # of neighbouring vectors
FORMATS = ("float32", "float16", "bfloat16", "float8_e4m3")
WORSE = ["verdict", "min_distance", "gap"]
WORSE += [*(f"precision.{form}.distinct_cast" for form in FORMATS), "a new error"]


@pytest.mark.parametrize(
    ("before", "after", "worse"),
    [
        (sines(), sines(), []),
        (sines(scale=0.5), sines(), []),
        (TWIN, sines(), []),
        (sines(), sines() * (1 - 1e-9), []),
        (sines(scale=2.0), sines(), ["min_distance"]),
        (sines(), TWIN, WORSE),
        (sines(), sines(rows=21), ["length"]),
    ],
)
def test_regressions_are_named(before, after, worse):
    stored = fields_of_record(record_of(from_table(before)))
    words, _ = differences(answer_of(from_table(after)), stored)
    pairs = zip(worse, words, strict=True)
    assert [start for start, text in pairs if not text.startswith(f"has {start}")] == []
    if worse == ["min_distance"]:
        assert f"{np.sqrt(SQUARED):.4g}, {2 * np.sqrt(SQUARED):.4g}" in words[0]


def test_vectors_that_fewer_formats_report_apart_and_a_severer_finding_got_worse():
    enc = load("rope", 300, 8)
    for key, change in product(("distinct_cast", "distinct_phase"), (1, -1)):
        record = record_of(enc)
        record["precision"]["bfloat16"][key] += change
        assert len(differences(answer_of(enc), fields_of_record(record))[0]) == (change > 0)
    record = record_of(from_table(TWIN))
    for finding in record["findings"]:
        finding["severity"] = "warning"
    worse, _ = differences(answer_of(from_table(TWIN)), fields_of_record(record))
    assert [text.partition(":")[0] for text in worse] == ["has a new error"]


def test_a_renamed_file_is_compared_with_the_only_one_of_the_baseline(run):
    np.save("old.npy", sines(scale=2.0))
    Path("base.json").write_text(run("check-faithful old.npy --json").out)
    np.save("new.npy", sines())
    Path("old.npy").unlink()
    compared = run("check-faithful new.npy --baseline base.json --json")
    reasons = json.loads(compared.out)["reasons"]
    assert (compared.status, {one["spec"] for one in reasons}) == (1, {"new.npy"})
    for specs in (["new.npy", "dft"], ["dft"]):  # not one file on each side
        assert run("check-faithful", *specs, "--baseline", "base.json").status == 2


ROPE = {"command": "check-faithful", "schema": SCHEMA, "results": []}
FILES = ["", "[]", "[" * 100_000, "b\x00", json.dumps(ROPE | {"command": "spectrum"})]
FILES += [json.dumps(ROPE | {"schema": 1}), json.dumps(ROPE | {"results": [{"spec": "dft"}]})]
FILES += [json.dumps(ROPE | {"results": 3}), json.dumps(ROPE | {"results": [3]})]
EDITED = [
    ("spec", 5),
    ("verdict", ["injective"]),
    ("min_distance", "1"),
    ("gap", float("nan")),
    ("findings", 3),
    ("findings", [{"code": "x", "severity": "bad"}]),
    ("findings", [{"code": ["x"], "severity": "note", "message": ""}]),
    ("layers", 5),
    ("layers", [{"index": ["x"], "kind": "rotary", "window": None}]),
]


@pytest.mark.parametrize("content", [*FILES, *EDITED], ids=lambda x: str(x)[:40])
def test_another_or_an_edited_file_is_refused_in_a_line(run, refused, folder, content):
    words = "check-faithful rope -S 9 --d 8"
    if isinstance(content, tuple):
        whole = json.loads(run(words, "--json").out)
        whole["results"][0] |= dict([content])
        whole["results"][0]["params"]["d"] = 10**400
        content = json.dumps(whole)
    (folder / "base").write_text(content)
    line = refused(words, "--baseline", "base")
    assert "'base' is not an answer of check-faithful" in line


def test_a_baseline_in_a_pipe_is_read(run, folder):
    os.mkfifo("pipe")
    text = run("check-faithful rope -S 9 --json").out
    writer = threading.Thread(target=(folder / "pipe").write_text, args=(text,))
    writer.start()
    assert run("check-faithful rope -S 9 --baseline pipe").status == 0
    writer.join()


def test_the_command_fails_on_what_got_worse_and_says_what(run, refused, store):
    np.save("a.npy", sines())
    np.save("b.npy", sines())
    store("check-faithful a.npy b.npy")
    done = run("check-faithful ./a.npy b.npy --baseline base")
    assert (done.status, done.err) == (0, "")
    np.save("b.npy", sines(scale=0.5))
    done = run("check-faithful a.npy b.npy dft nothing --baseline base --json")
    answer = json.loads(done.out)
    reasons = [(r["spec"], r["kind"]) for r in answer["reasons"]]
    assert (done.status, reasons) == (2, [("nothing", "refused"), ("b.npy", "worse")])
    assert ("dft", "changed") in [(r["spec"], r["kind"]) for r in answer["remarks"]]
    assert "'a.npy', 'b.npy'" in refused("check-faithful dft --baseline base")


def test_parameters_that_changed_for_no_worse_count_where_it_is_strict(run, store):
    words = "check-faithful rope -S 300 --d 64"
    store(words, "--rho", "5e5")
    words += " --baseline base"
    done = run(words)
    assert (done.status, "params.rho 10000 instead of 500000" in done.err) == (0, True)
    assert run(words, "--quiet").err == ""
    strict = run(words, "--quiet", "--strict")
    assert (strict.status, strict.err) == (1, done.err)


def test_a_table_that_is_another_encoding_counts_where_it_is_strict(run, store):
    words, table = "check-faithful a.npy --grid 4x5 -q", "--grid 4x5 --d 16 --out a.npy"
    run(f"encode axial:convention=transformers {table}")
    store(words)
    run(f"encode axial:convention=mae {table}")
    words += " --baseline base"
    assert [run(words).status, run(words, "--strict").status] == [0, 1]


# a config, a key and its new value; by distances alone, a smaller base would be better
CHANGES = json.loads(Path(__file__).with_name("changed_settings.json").read_text())


@pytest.mark.parametrize("command", ["context", "check-faithful"])
@pytest.mark.parametrize(("config", "key", "value"), CHANGES, ids=lambda x: str(x)[-60:])
def test_no_setting_of_any_rotation_or_layer_changes_unseen(
    command, config, key, value, run, store, written
):
    written(config)
    store(command, "config.json", "rope")
    words = (command, ".", "rope", "--baseline", "base", "-q")
    assert run(*words).status == 0  # the folder means its config
    written(config | {key: value})
    assert run(*words).status == 1


def test_only_what_was_answered_is_compared_and_whole_answers(run, folder):
    np.save("b.npy", TWIN)
    words = ("check-faithful", "a.npy", "b.npy")
    whole = json.loads(run(*words, "--json").out)
    np.save("a.npy", TWIN)
    for lacking, status in ((), 0), (("min_distance",), 2):
        for name in lacking:
            del whole["results"][1][name]
        (folder / "base").write_text(json.dumps(whole))
        assert run(*words, "--baseline", "base").status == status
