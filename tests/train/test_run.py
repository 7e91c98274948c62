"""The whole comparison: position matters, runs survive a kill, bad requests are refused."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
from refusals import refusal
from training import SMALL, archives, lines, numbers, small

from pefourier.errors import PefourierError
from pefourier.train import ensembles
from pefourier.train.options import Options, flag_of
from pefourier.train.request import name_once
from pefourier.train.run import run_comparison


def test_only_position_solves_the_task():
    arms = ("none", "onehot", "shaw:values=true", "order-free")
    options = {"dataset": ("order:length=6,count=400",), "seeds": 1, "steps": 84}
    (found,) = run_comparison(Options(encoding=arms, **options)).datasets
    f1 = {name: scores["f1"].mean for name, scores in found.scores.items()}
    assert min(f1["onehot"], f1["shaw:values=true"]) > 0.95
    assert max(f1["none"], f1["order-free"]) < 0.75


@pytest.mark.drawn
def test_a_folder_gets_the_whole_answer(tmp_path):
    out = tmp_path / "a" / "b"
    own = {"out": str(out)}
    own["encoding"] = ("none", "sinusoidal", "t5", "sinusoidal@rms=0.25", "order-free")
    found = run_comparison(small(**own, positive=("A first",)))
    names = ["comparison.png", "config.json", "results.jsonl", "scores", "summary.json"]
    assert sorted(p.name for p in out.iterdir()) == [*names, "summary.md"]
    assert sorted(numbers(lines(out))) == sorted(numbers(found.runs))
    assert tuple(dict.fromkeys(row["encoding"] for row in found.runs)) == own["encoding"]
    (reported,) = json.loads((out / "summary.json").read_text())["datasets"]
    assert reported["scores"]["t5"]["f1"]["mean"] == found.datasets[0].scores["t5"]["f1"].mean
    assert (reported["positive"], found.reference) == ("A first", "sinusoidal")


def test_a_run_goes_on_where_data_have_moved_but_not_with_others(tmp_path):
    given = {"dataset": ("smd",), "window": 20, "out": str(tmp_path / "out")}
    given |= {"encoding": ("none", "dft"), "seeds": 1, "steps": 4, "folds": 1}
    found = []
    for folder in ("one", "moved", "other"):
        archives(tmp_path / folder / "smd", np.random.default_rng(0))
        options = small(**given, data=str(tmp_path / folder), resume=bool(found))
        if folder == "other":
            (tmp_path / "other" / "smd" / "machine-1-2.npz").unlink()
            with refusal(r"^--resume: 'smd' \(windows\) has changed"):
                run_comparison(options)
        else:
            found.append(run_comparison(options))
    assert numbers(found[0].runs) == numbers(found[1].runs)
    assert found[0].reference == "none"  # the first encoding, without sinusoidal


def test_examples_and_tables_that_have_changed_are_not_gone_on_with(tmp_path, rng):
    own, vectors = str(tmp_path / "own.npz"), str(tmp_path / "own.npy")
    x, y, table = rng.normal(size=(40, 4, 2)), np.arange(40) % 2, rng.normal(size=(4, 8))
    given = {"dataset": (f"{tmp_path}/./own.npz",), "encoding": ("none", vectors), "seeds": 1}
    given |= {"folds": 1, "out": str(tmp_path / "out")}
    whole, kinds = {"X": x, "y": y * (np.arange(40) > 3)}, []
    np.savez(own, **whole)
    np.save(vectors, table)
    first = run_comparison(small(**given))
    np.save(vectors, np.nextafter(table, 9))  # rounding on another machine
    assert numbers(run_comparison(small(**given, resume=True)).runs) == numbers(first.runs)
    changes = [{"y": whole["y"][::-1]}, {"groups": np.arange(40) // 4}, {"X": x[:, ::-1]}, {}]
    for change in changes:
        np.savez(own, **{**whole, **change})
        np.save(vectors, table if change else 1.01 * table)
        with refusal("has changed") as caught:
            run_comparison(small(**given, resume=True))
        kinds += re.findall(r"\((\w+)\) has changed", str(caught.value))
    assert kinds == ["splits", "splits", "data", "tables"]


def test_a_torn_line_is_trained_again_and_what_is_finished_is_not(tmp_path, monkeypatch):
    out = tmp_path / "out"
    whole, file = run_comparison(small(out=str(out))), out / "results.jsonl"
    before = file.read_bytes()
    with refusal("--resume"):
        run_comparison(small(out=str(out)))
    assert file.read_bytes() == before
    for cut in (1, 40, 900, 0):
        if not cut:
            monkeypatch.setattr(ensembles, "fit", lambda *_: pytest.fail("trained again"))
        file.write_bytes(file.read_bytes()[: -cut or None])
        again = run_comparison(small(out=str(out), resume=True))
        assert numbers(whole.runs) == numbers(again.runs)
        assert sorted(numbers(lines(out))) == sorted(numbers(whole.runs))


def test_resuming_needs_no_other_option_and_refuses_another_by_name(tmp_path):
    out = str(tmp_path / "out")
    given = {**SMALL, "beside": ("trees",)}
    whole = run_comparison(Options(**given, out=out))
    file = tmp_path / "out" / "results.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:3]))
    for own in ({}, given, {"seeds": 2}, {"beside": ("trees",), "encoding": SMALL["encoding"]}):
        again = run_comparison(Options(**own, out=out, resume=True))
        assert numbers(again.runs) == numbers(whole.runs)
    others = {"seeds": 3, "encoding": ("dft",), "dataset": ("lags",), "d": 16, "find": 0.2}
    for name, value in {**others, "steps": 7}.items():
        with refusal(f"has {name} .*; omit {flag_of(name)}, or"):
            run_comparison(Options(**{name: value}, out=out, resume=True))


REFUSED = [
    *(({"seeds": 10**30}, "--seeds"), ({"batch_size": -1}, "--batch-size")),
    *(({"layers": 2**63 - 1}, "--layers"), ({"d": 10**4000 // 3}, "--d must")),
    ({"layers": 2**10, "d": 2**13, "batch_size": 9}, "--batch-size 9 on windows of 6"),
    ({"d": 2**21, "encoding": ("order-free",)}, " GiB per run, and "),
    *(
        ({"dataset": (f"{name}=10000000000000",)}, "at most")
        for name in ("order:count", "lags:length")
    ),
    ({"dataset": ("order:seed=-1",)}, "seed=-1"),
    (
        {"dataset": ("order:count=20,length=100000",), "encoding": ("alibi",), "batch_size": 1},
        "larger --patch",
    ),
    *(({"encoding": (name,)}, f"'{name}'") for name in ("order-free@rms=1", "rope@rms=1")),
    *(
        ({"device": wrong}, "--device")
        for wrong in ("gpu", "cuda:", "cuda:²", "cpu:99999999999", "cuda:0\n", "cuda:99")
    ),
    ({"resume": True}, "--resume needs --out"),
    ({"tokens": 8, "patch": 2}, "--tokens"),
    *(
        ({"save_models": wrong}, "^--save-models .*; choose another$")
        for wrong in ("/dev/null/x", "/dev/full", "/proc/models", "x" * 300, "a\0b")
    ),
]


@pytest.mark.parametrize(("options", "named"), REFUSED)
def test_bad_options_are_refused_in_one_line_before_training(monkeypatch, options, named):
    monkeypatch.setattr(ensembles, "fit", lambda *_: pytest.fail("trained"))
    with refusal(named):
        run_comparison(small(**options))


def test_vectors_too_large_and_a_full_disk_cost_neither_a_run_nor_the_answer(
    tmp_path, monkeypatch, run, rng
):
    def full(path="", *_):
        raise PefourierError(f"cannot write {path}: No space left on device")

    own, out = str(tmp_path / "own.npy"), tmp_path / "out"
    np.save(own, 1e30 * rng.normal(size=(6, 8)))
    with refusal(r"own.npy, seed 0, fold 0: non-finite logits"):
        run_comparison(small(encoding=(own, "none"), out=str(out)))
    assert [row["encoding"] for row in lines(out)] == ["none", "none"]
    monkeypatch.setattr("pefourier.train.saved_models.save_model", full)
    with refusal("No space left"):
        run_comparison(small(out=str(tmp_path / "one"), save_models=str(tmp_path)))
    assert lines(tmp_path / "one")  # rows that fit are kept, and --resume trains their models
    monkeypatch.setattr("pefourier.train.run.write_json", full)
    task = ["--dataset", "order:count=40,length=4", "--steps", 2, "--seeds", 1, "--quiet"]
    stated = run("train", *task, "-e", "dft", "--out", tmp_path / "two")
    assert (stated.status, "P / R / F1" in stated.out) == (2, True)
    assert stated.err.endswith("summary.json: No space left on device\n")


TYPED = {  # command line, and the option or value in its error
    "--seeds 0": "--seeds",
    "--patience-steps -1": "--patience-steps",
    "--rate nan": "--rate",
    "-e dfft": "'dft'",
    "-e dft@rms=x": "rms",
    "--dataset nosuch": "'nosuch'",
    "-e nosuch": "'nosuch'",
    "-e rope:foo=3": "'foo'",
    "-e -": "-e -",
    "-e dft@rms=0": "'dft@rms=0'",
    "-e none@rms=1": "'none@rms=1'",
    "--steps 0": "--steps",
    "--steps 1000000001": "--steps",
    "--beside tree": "'tree'",
    "--test-length 24,x": "'24,x'",
    "--test-length 24,24": "'24,24'",
    "--test-length 3": "'3'",
    "--test-length 48 --dataset grid": "'grid'",
    "--test-length 48 --dataset smd": "'smd'",
    "--rate -1": "--rate",
    "--find 2": "--find",
    "--plot a.jpg": "'.jpg'",
}


def test_a_refusal_and_a_page_about_training_cost_no_torch(trained, tmp_path):
    page = ["report", str(trained), "--out", str(tmp_path / "a.html")]
    requested = [["train", *typed.split()] for typed in TYPED]
    code = (
        "import sys; from pefourier.cli.main import main\n"
        f"for one in {[*requested, page]!r}: print(main(one))\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[: len(TYPED)] == ["2"] * len(TYPED)
    assert done.stdout.split()[-2:] == ["0", "False"]
    for line, (typed, named) in zip(done.stderr.splitlines(), TYPED.items(), strict=False):
        assert line.startswith("pefourier: "), typed
        assert named in line, typed


def test_what_is_named_twice_is_trained_once():
    typed = {"encoding": ("dft", "dft@rms=.5", "dft@rms=0.50", "dft"), "beside": ("trees",) * 2}
    once = name_once(Options(dataset=("order", "./a.npz", "a.npz"), **typed))
    assert once.encoding == ("dft", "dft@rms=0.5", "trees")
    assert (once.dataset, once.beside) == (("order", "a.npz"), ())
