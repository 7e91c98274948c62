"""The comparison as a whole: position matters, results survive a kill, bad requests are refused."""

import json
import re

import numpy as np
import pytest
from training import SMALL, lines, numbers, of_datasets

from pefourier.cli.main import main
from pefourier.encodings import load
from pefourier.errors import PefourierError
from pefourier.train import model, report, search, summary
from pefourier.train.options import Options, flag_of
from pefourier.train.run import run_comparison

TASK = "order_count=60_length=6"


def asked(**own):
    return Options(**{**SMALL, **own})


def test_only_position_solves_the_task():
    arms = ("none", "onehot", "shaw:values=true", "order-free")
    options = {"dataset": ("order:length=6,count=400",), "seeds": 1, "epochs": 12}
    (found,) = run_comparison(Options(encoding=arms, **options)).datasets
    f1 = {name: scores["f1"].mean for name, scores in found.scores.items()}
    assert min(f1["onehot"], f1["shaw:values=true"]) > 0.95
    assert max(f1["none"], f1["order-free"]) < 0.75


@pytest.mark.drawn
def test_a_folder_gets_the_whole_answer(tmp_path):
    out, tables = tmp_path / "a" / "b", tmp_path / "tables"
    found = run_comparison(asked(out=str(out), save_tables=str(tables), match_rms=(0.25,)))
    pictures = ["comparison.png", "curves.png"]
    others = ["config.json", "results.jsonl", "scores", "summary.json", "summary.md"]
    assert sorted(p.name for p in out.iterdir()) == sorted(pictures + others)
    assert sorted(numbers(lines(out))) == sorted(numbers(found.runs))
    arms = list(dict.fromkeys(row["encoding"] for row in found.runs))
    assert arms == ["none", "sinusoidal", "t5", "sinusoidal@rms=0.25", "order-free"]
    assert len(found.runs) == 2 * len(arms)
    barred = summary.summarize_runs(of_datasets(1, {"a|b": 0.5}))
    assert report.as_markdown(barred).count(r"a\|b") == 2
    assert "| P / R / F1 | none | sinusoidal | t5 |" in (out / "summary.md").read_text()
    told = json.loads((out / "summary.json").read_text())["datasets"][0]
    assert told["scores"]["t5"]["f1"]["mean"] == found.datasets[0].scores["t5"]["f1"].mean
    assert json.loads((out / "config.json").read_text())["epochs"] == 2
    for name, shape in (("t5", (11, 2)), ("sinusoidal", (6, 8))):
        table = np.load(tables / f"{TASK}-{name}-seed0-fold0.npy")
        assert (table.shape, table.dtype) == (shape, np.float32)


def test_two_runs_give_the_same_numbers_and_a_second_folder_is_refused(tmp_path):
    one, other = (run_comparison(asked(out=str(tmp_path / name))) for name in "ab")
    assert numbers(one.runs) == numbers(other.runs)
    assert one.reference == "sinusoidal"
    before = (tmp_path / "a" / "results.jsonl").read_bytes()
    with pytest.raises(PefourierError, match="go on with --resume"):
        run_comparison(asked(out=str(tmp_path / "a")))
    assert (tmp_path / "a" / "results.jsonl").read_bytes() == before


def test_a_run_goes_on_where_data_have_moved_but_not_with_others(tmp_path, rng):
    given = {"dataset": ("msl",), "window": 20, "out": str(tmp_path / "out")}
    given |= {"encoding": ("none", "dft"), "seeds": 1, "epochs": 1, "folds": 1}
    made = rng.normal(size=(3, 400, 2)).astype(np.float32)
    for folder, event in (("one", 300), ("moved", 300), ("other", 200)):
        label = (np.arange(400) % 100 >= 80) & (np.arange(400) < event)
        (tmp_path / folder / "msl").mkdir(parents=True)
        for name, rows in zip(("A-1", "B-1", "C-1"), made, strict=True):
            parts = {"train": rows, "test": rows, "label": label}
            np.savez(tmp_path / folder / "msl" / f"{name}.npz", **parts)
    first = run_comparison(asked(**given, data=str(tmp_path / "one")))
    assert first.reference == "none"  # the first where sinusoidal is not there
    again = run_comparison(asked(**given, data=str(tmp_path / "moved"), resume=True))
    assert numbers(again.runs) == numbers(first.runs)
    with pytest.raises(PefourierError, match=r"^--resume: 'msl' \(windows\) has changed"):
        run_comparison(asked(**given, data=str(tmp_path / "other"), resume=True))


def test_other_examples_with_the_same_classes_are_not_gone_on_with(tmp_path, rng):
    own = tmp_path / "own.npz"
    x, y = rng.normal(size=(40, 4, 2)), np.arange(40) % 2 * (np.arange(40) > 3)
    given = {"dataset": (f"{tmp_path}/./own.npz",), "folds": 1, "out": str(tmp_path / "out")}
    np.savez(own, X=x, y=y)
    assert len(run_comparison(asked(**given)).runs) == 8
    for what, change in (
        ("splits", {"X": x, "y": y[::-1]}),
        ("splits", {"X": x, "y": y, "groups": np.arange(40) // 4}),
        ("data", {"X": x[:, ::-1], "y": y}),
    ):
        np.savez(own, **change)
        with pytest.raises(PefourierError, match=rf"own.npz' \({what}\) has changed"):
            run_comparison(asked(**given, resume=True))


def test_a_table_that_has_changed_is_not_gone_on_with(tmp_path, rng):
    table, own = rng.normal(size=(6, 8)), str(tmp_path / "own.npy")
    given = {"encoding": ("none", own), "seeds": 1, "out": str(tmp_path / "out")}
    np.save(own, table)
    first = run_comparison(asked(**given))
    np.save(own, np.nextafter(table, 9))  # rounding on another machine
    assert numbers(run_comparison(asked(**given, resume=True)).runs) == numbers(first.runs)
    np.save(own, 1.01 * table)
    with pytest.raises(PefourierError, match=r"own.npy on .* \(tables\) has changed"):
        run_comparison(asked(**given, resume=True))


def test_a_torn_line_is_trained_again_and_what_is_finished_is_not(tmp_path, monkeypatch):
    out = tmp_path / "out"
    whole = run_comparison(asked(out=str(out)))
    file = out / "results.jsonl"
    for cut in (1, 40, 900):
        file.write_bytes(file.read_bytes()[:-cut])
        again = run_comparison(asked(out=str(out), resume=True))
        assert numbers(whole.runs) == numbers(again.runs)
        assert sorted(numbers(lines(out))) == sorted(numbers(whole.runs))
    monkeypatch.setattr(search, "fit", lambda *a: pytest.fail("trained again"))
    again = run_comparison(asked(out=str(out), resume=True))
    assert numbers(again.runs) == numbers(whole.runs)


def test_resuming_needs_no_other_option_and_refuses_another_by_name(tmp_path):
    out = str(tmp_path / "out")
    given = {**SMALL, "beside": ("trees",), "search": ("rate=1e-3,1e-2",), "match_rms": (0.5,)}
    whole = run_comparison(Options(**given, out=out))
    file = tmp_path / "out" / "results.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:3]))
    for own in ({}, given, {"seeds": 2}, {"beside": ("trees",), "encoding": SMALL["encoding"]}):
        again = run_comparison(Options(**own, out=out, resume=True))
        assert numbers(again.runs) == numbers(whole.runs)
    others = {"seeds": 3, "encoding": ("dft",), "dataset": ("lags",), "d": 16, "find": 0.2}
    for name, value in {**others, "search": ("rate=1,2",), "steps": 7}.items():
        with pytest.raises(PefourierError, match=f"has {name} .*; leave {flag_of(name)} out, or"):
            run_comparison(Options(**{name: value}, out=out, resume=True))


HUGE = {"dataset": ("order:count=20,length=100000",), "encoding": ("alibi",), "batch_size": 1}
REFUSED = [
    *(({"seeds": wrong}, "--seeds") for wrong in (0, 10**30)),
    *(({"epochs": wrong}, "--epochs") for wrong in (0, 2**63)),
    *(({"steps": 0, "epochs": None}, "--steps"), ({"steps": 2}, "--steps and --epochs")),
    *(({"patience": -1}, "--patience"), ({"batch_size": -1}, "--batch-size")),
    ({"patience": 1, "patience_steps": 2}, "--patience-steps and --patience"),
    *(({"layers": 2**63 - 1}, "--layers"), ({"d": 10**4000 // 3}, "--d must")),
    ({"layers": 2**10, "d": 2**13, "batch_size": 9}, "--batch-size 9 on windows of 6"),
    ({"d": 2**21, "encoding": ("order-free",)}, " GiB a run; there are "),
    ({"dataset": ("order:count=1000000000000",)}, "order draws at most"),
    ({"dataset": ("lags:length=1000000000000",)}, "lags draws at most"),
    ({"dataset": ("order:seed=-1",)}, "seed=-1"),
    (HUGE, "larger --patch"),
    ({"encoding": ("-",)}, "-e -"),
    ({"encoding": ("dfft",)}, "Did you mean 'dft'?"),
    *(({"encoding": (f"dft@rms={wrong}",)}, f"rms must be .*got '?{wrong}") for wrong in "0x"),
    ({"encoding": ("order-free@rms=1",)}, "'order-free@rms=1'"),
    ({"encoding": ("rope@rms=1",)}, "'rope@rms=1'"),
    *(
        ({"device": wrong}, "--device")
        for wrong in ("gpu", "cuda:", "cuda:²", "cpu:99999999999", "cuda:0\n", "cuda:99")
    ),
    ({"resume": True}, "--resume needs --out"),
    ({"rate": float("nan")}, "--rate"),
    ({"match_rms": (0.0,)}, "--match-rms"),
    *(
        ({"save_tables": wrong}, "^--save-tables .*; name another folder")
        for wrong in ("/dev/null/x", "/dev/full", "/proc/tables", "x" * 300, "a\0b")
    ),
]


@pytest.mark.parametrize(("options", "named"), REFUSED)
def test_bad_options_are_refused_in_one_line_before_training(monkeypatch, options, named):
    monkeypatch.setattr(search, "fit", lambda *a: pytest.fail("trained"))
    with pytest.raises(PefourierError, match=named) as caught:
        run_comparison(asked(**options))
    assert "\n" not in str(caught.value)


def test_tables_whose_names_cannot_be_are_refused_before_training(tmp_path, monkeypatch, rng):
    monkeypatch.setattr(search, "fit", lambda *a: pytest.fail("trained"))
    monkeypatch.chdir(tmp_path)
    deep = "d" * 130 + "/" + "e" * 130
    (tmp_path / deep).mkdir(parents=True)
    for name in ("a b.npy", "a+b.npy", f"{deep}/own.npy"):
        np.save(tmp_path / name, rng.normal(size=(6, 8)))
    for arms in ((f"{deep}/own.npy",), ("a b.npy", "a+b.npy")):
        for option in ("save_tables", "save_models"):
            with pytest.raises(PefourierError, match="rename or move it"):
                run_comparison(asked(encoding=arms, **{option: "folder"}))


def test_names_with_escapes_are_shown_escaped(tmp_path, monkeypatch, capsys, rng):
    monkeypatch.chdir(tmp_path)
    own, table = "\x1b[31mred\n.npz", "\x1b]0;x\x07\udcff.npy"
    np.savez(own, X=rng.normal(size=(40, 4, 2)), y=np.arange(40) % 2)
    np.save(table, rng.normal(size=(4, 8)))
    task = ["--dataset", own, "-e", "none", "-e", table, "--match-rms", ".5", "--epochs", "1"]
    more = ["--seeds", "1", "--d", "8", "--heads", "2", "--out", "out", "--positive", "1"]
    assert main(["train", *task, *more]) == 0
    said = capsys.readouterr()
    for text in (said.out, said.err, (tmp_path / "out" / "summary.md").read_text()):
        assert [c for c in text if not c.isprintable() and c != "\n"] == []
    assert r"\x1b[31mred\n.npz" in said.out
    assert r"\x1b]0;x\x07\udcff.npy" in said.out
    assert main(["train", *task, *more, "--resume", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["results"][1]["spec"] == table


def test_trained_tables_have_beside_them_what_training_began_with(tmp_path):
    names = ("order:count=60,length=6", "order:count=40,length=6")
    given = {"encoding": ("sinusoidal", "learned"), "dataset": names, "save_tables": str(tmp_path)}
    run_comparison(asked(**given, learn=True))
    starts = {"sinusoidal-start": 0, "learned-seed0-start": 0, "learned-seed1-start": 1}
    assert len([*tmp_path.glob("*-start.npy")]) == 2 * len(starts)
    for name, seed in starts.items():
        encoding = name.partition("-")[0]
        seeded = {"seed": seed} if encoding == "learned" else {}
        start = load(encoding, 6, 8, **seeded).table().astype(np.float32)
        assert np.array_equal(np.load(tmp_path / f"{TASK}-{name}.npy"), start)
        trained = np.load(tmp_path / f"{TASK}-{encoding}-seed{seed}-fold0.npy")
        assert not np.array_equal(trained, start)
    fixed = {**given, "encoding": ("dft",), "save_tables": str(tmp_path / "fixed")}
    run_comparison(asked(**fixed))
    assert not [*(tmp_path / "fixed").glob("*start*")]


def interrupted(monkeypatch, options, **noted):
    """What is said where a stack, here of the order-free model, is interrupted."""
    said, whole = [], search.fit

    def fit(data, sizes, *more):
        if isinstance(sizes, model.OrderFree):
            raise KeyboardInterrupt
        return whole(data, sizes, *more)

    monkeypatch.setattr(search, "fit", fit)
    with pytest.raises(KeyboardInterrupt):
        run_comparison(options, **({"note": said.append} | noted))
    monkeypatch.setattr(search, "fit", whole)
    return [line for line in said if "--resume goes on" in line]


def test_an_interrupt_says_what_is_kept(tmp_path, monkeypatch):
    out = tmp_path / "told"
    assert re.search(rf"{out}: 6;", interrupted(monkeypatch, asked(out=str(out)))[0])
    assert len(lines(out)) == 6
    assert interrupted(monkeypatch, asked(out=str(tmp_path / "quiet")), note=None) == []
    assert interrupted(monkeypatch, asked())[0].startswith("nothing is kept: --out DIR")
    said, tables = [], tmp_path / "tables"
    run_comparison(asked(out=str(out), resume=True, save_tables=str(tables)), note=said.append)
    assert "6 runs that were finished before" in said[-1]


def full(path, *_):
    raise PefourierError(f"cannot write {path}: No space left on device")


def test_a_full_disk_costs_neither_a_run_nor_the_answer(tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    monkeypatch.setattr("pefourier.train.work.write_table", full)
    with pytest.raises(PefourierError, match="No space left"):
        run_comparison(asked(out=str(out), save_tables=str(tmp_path)))
    assert len(lines(out)) == 2  # the first stack's
    monkeypatch.setattr("pefourier.train.run.write_json", full)
    task = ["--dataset", "order:count=40,length=4", "--epochs", "1", "--seeds", "1"]
    assert main(["train", *task, "-e", "dft", "--quiet", "--out", str(tmp_path / "two")]) == 2
    said = capsys.readouterr()
    assert "P / R / F1" in said.out
    assert said.err.endswith("summary.json: No space left on device\n")


def test_a_file_that_goes_while_it_trains_costs_no_answer(tmp_path, monkeypatch, rng):
    own, whole = tmp_path / "own.npy", search.fit
    np.save(own, rng.normal(size=(6, 8)))
    monkeypatch.setattr(search, "fit", lambda *a: [own.unlink(missing_ok=True), whole(*a)][1])
    found = run_comparison(asked(encoding=(str(own),)))
    assert found.datasets[0].params[str(own)]["length"] == 6


def test_a_batch_is_no_larger_than_what_there_is(monkeypatch):
    sizes, whole = set(), model.Transformer.logits

    def logits(self, p, injected, x, *others):
        sizes.add(x.shape[1])
        return whole(self, p, injected, x, *others)

    monkeypatch.setattr(model.Transformer, "logits", logits)
    run_comparison(asked(encoding=("none",), batch_size=10**9))
    assert max(sizes) == 36  # of 60 examples


def test_data_without_effect_are_noted():
    for data in ("nowhere", None):
        said = []
        run_comparison(asked(encoding=("dft",), seeds=1, epochs=1, data=data), note=said.append)
        assert any("--data nowhere has no effect" in line for line in said) == (data is not None)


def test_codes_too_large_for_numbers_are_refused(tmp_path, rng):
    own, out = str(tmp_path / "own.npy"), tmp_path / "out"
    np.save(own, 1e30 * rng.normal(size=(6, 8)))
    with pytest.raises(PefourierError, match=r"own.npy, seed 0, fold 0: non-finite logits"):
        run_comparison(asked(encoding=(own, "none"), out=str(out)))
    assert [row["encoding"] for row in lines(out)] == ["none", "none"]


def test_the_rarer_class_is_positive_whatever_its_name(tmp_path, rng):
    x, y = rng.normal(size=(120, 5, 1)), np.arange(120) % 12 == 0
    rare, even = y.astype(int), np.arange(120) % 2
    found, given = [], {"encoding": ("none",), "seeds": 1, "epochs": 1, "folds": 1}
    for name, labels, own in (
        ("01", rare, {}),
        ("named", np.where(y, "anomaly", "normal"), {}),
        ("even", even, {}),
        ("asked", even, {"positive": ("0",)}),
    ):
        file, out = str(tmp_path / f"{name}.npz"), tmp_path / name
        np.savez(file, X=x, y=labels)
        options = asked(**given, dataset=(file,), out=str(out), **own)
        found.append(run_comparison(options).datasets[0])
        assert sum(map(sum, lines(out)[0]["confusion"])) == 24
    assert [one.positive for one in found] == ["1", "anomaly", None, "0"]
    for one in found[:2]:
        assert one.scores["none"]["f1"].mean < 0.5  # noise: 8 % of windows are positive


def test_budget_and_patience_are_counted_in_steps_too(tmp_path):
    given = {"encoding": ("none",), "seeds": 1, "epochs": None}  # 4 steps an epoch
    run_comparison(asked(**given, steps=10, patience_steps=7, out=str(tmp_path)))
    assert lines(tmp_path)[0]["budget"] == {"steps": 10, "patience": 7, "every": 10}
