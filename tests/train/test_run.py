"""The comparison as a whole: position matters, results survive a kill, ranks share the grid."""

import json
import os
import re
import subprocess
import sys
import time

import numpy as np
import pytest
from forked import Forked
from training import SMALL, lines, numbers, of_datasets, train_aside

from pefourier.cli.main import main
from pefourier.encodings import load
from pefourier.errors import PefourierError
from pefourier.train import fit, model, report, search, summary
from pefourier.train.options import Options, flag_of
from pefourier.train.run import run_comparison
from pefourier.train.store import Store


def test_only_position_solves_the_task():
    options = Options(
        dataset=("order:length=6,count=400",),
        encoding=("none", "onehot", "order-free"),
        seeds=1,
        epochs=12,
    )
    (found,) = run_comparison(options).datasets
    f1 = {name: scores["f1"].mean for name, scores in found.scores.items()}
    assert f1["onehot"] > 0.95
    assert f1["none"] < 0.75
    assert f1["order-free"] < 0.75


@pytest.mark.drawn
def test_a_folder_gets_the_whole_answer(tmp_path):
    out = tmp_path / "a" / "b"
    tables = tmp_path / "tables"
    found = run_comparison(
        Options(**SMALL, out=str(out), save_tables=str(tables), match_rms=(0.25,))
    )
    assert sorted(p.name for p in out.iterdir()) == [
        "comparison.png",
        "config.json",
        "curves.png",
        "results.jsonl",
        "scores",
        "summary.json",
        "summary.md",
    ]
    assert sorted(numbers(lines(out))) == sorted(numbers(found.runs))
    arms = list(dict.fromkeys(row["encoding"] for row in found.runs))
    assert arms == ["none", "sinusoidal", "t5", "sinusoidal@rms=0.25", "order-free"]
    assert len(found.runs) == 2 * len(arms)
    barred = summary.summarize_runs(of_datasets(1, {"a|b": 0.5}))
    assert report.as_markdown(barred).count(r"a\|b") == 2
    text = (out / "summary.md").read_text()
    verdict, cut, rest = text.split("\n\n", 3)[1:]
    assert verdict.startswith("CUT SHORT. ")  # of one look
    assert cut.startswith("Training was cut short on order:count=60,length=6: none, ")
    assert rest.startswith("| P / R / F1 | none | sinusoidal | t5 |")
    saved = json.loads((out / "summary.json").read_text())
    assert (
        saved["datasets"][0]["scores"]["t5"]["f1"]["mean"]
        == found.datasets[0].scores["t5"]["f1"].mean
    )
    config = json.loads((out / "config.json").read_text())
    assert config["epochs"] == 2
    assert f"\n* each run keeps the weights with the {config['choice']}\n" in text
    assert f"\n* sizes, {config['size']}\n" in text
    table = np.load(tables / "order_count=60_length=6-t5-seed0-fold0.npy")
    assert (table.shape, table.dtype) == ((11, 2), np.float32)
    assert np.load(tables / "order_count=60_length=6-sinusoidal-seed0-fold0.npy").shape == (6, 8)


def test_two_runs_give_the_same_numbers_and_a_second_folder_is_refused(tmp_path):
    one, other = (run_comparison(Options(**SMALL, out=str(tmp_path / name))) for name in "ab")
    assert numbers(one.runs) == numbers(other.runs)
    with pytest.raises(PefourierError, match="holds results already; go on with --resume"):
        run_comparison(Options(**SMALL, out=str(tmp_path / "a")))
    message = "config.json has epochs 2; leave --epochs out, or choose another --out for 3"
    with pytest.raises(PefourierError, match=re.escape(message)):
        run_comparison(Options(**{**SMALL, "epochs": 3}, out=str(tmp_path / "a"), resume=True))


def test_a_run_goes_on_where_data_have_moved_but_not_with_others(tmp_path, rng):
    given = {**SMALL, "dataset": ("msl",), "window": 20, "out": str(tmp_path / "out")}
    given = {**given, "encoding": ("none", "dft"), "seeds": 1, "epochs": 1, "folds": 1}
    made = rng.normal(size=(3, 400, 2)).astype(np.float32)
    for folder, event in (("one", 300), ("moved", 300), ("other", 200)):
        label = (np.arange(400) % 100 >= 80) & (np.arange(400) < event)
        (tmp_path / folder / "msl").mkdir(parents=True)
        for name, rows in zip(("A-1", "B-1", "C-1"), made, strict=True):
            parts = {"train": rows, "test": rows, "label": label}
            np.savez(tmp_path / folder / "msl" / f"{name}.npz", **parts)
    first = run_comparison(Options(**given, data=str(tmp_path / "one")))
    again = run_comparison(Options(**given, data=str(tmp_path / "moved"), resume=True))
    assert numbers(again.runs) == numbers(first.runs)
    with pytest.raises(PefourierError, match=r"^--resume: 'msl' \(windows\) has changed since"):
        run_comparison(Options(**given, data=str(tmp_path / "other"), resume=True))


def started(folder, resume=False, **environment):
    return Forked(train_aside, folder, resume, **environment)


def test_a_killed_run_is_resumed_with_the_same_numbers(tmp_path):
    whole = run_comparison(Options(**SMALL, out=str(tmp_path / "whole")))
    first = started(tmp_path / "killed")
    while not (tmp_path / "killed" / "config.json").exists() and first.is_alive:
        time.sleep(0.02)
    time.sleep(np.random.default_rng().uniform(0.0, 0.6))
    first.kill()
    started(tmp_path / "killed", resume=True).finished()
    assert sorted(numbers(lines(tmp_path / "killed"))) == sorted(numbers(whole.runs))


@pytest.mark.parametrize("cut", [1, 40, 300])
def test_a_torn_line_is_trained_again(tmp_path, cut):
    out = tmp_path / "out"
    whole = run_comparison(Options(**SMALL, out=str(out)))
    file = out / "results.jsonl"
    file.write_bytes(file.read_bytes()[:-cut])
    again = run_comparison(Options(**SMALL, out=str(out), resume=True))
    assert numbers(whole.runs) == numbers(again.runs)
    assert sorted(numbers(lines(out))) == sorted(numbers(whole.runs))


def test_what_is_finished_is_not_trained_again(tmp_path, monkeypatch):
    out = str(tmp_path / "out")
    whole = run_comparison(Options(**SMALL, out=out))
    monkeypatch.setattr("pefourier.train.search.fit", lambda *a: pytest.fail("trained again"))
    assert numbers(run_comparison(Options(**SMALL, out=out, resume=True)).runs) == numbers(
        whole.runs
    )


def test_resuming_needs_no_other_option_and_refuses_another_by_name(tmp_path):
    out = str(tmp_path / "out")
    asked = {**SMALL, "beside": ("trees",), "search": ("rate=1e-3,1e-2",), "match_rms": (0.5,)}
    whole = run_comparison(Options(**asked, out=out))
    file = tmp_path / "out" / "results.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:3]))
    for given in ({}, asked, {"seeds": 2}, {"beside": ("trees",), "encoding": SMALL["encoding"]}):
        again = run_comparison(Options(**given, out=out, resume=True))
        assert numbers(again.runs) == numbers(whole.runs)
    for name, value in (
        ("seeds", 3),
        ("encoding", ("dft",)),
        ("dataset", ("lags",)),
        ("d", 16),
        ("search", ("rate=1,2",)),
        ("match_rms", (0.25,)),
        ("steps", 7),
        ("find", 0.2),
    ):
        with pytest.raises(PefourierError, match=f"has {name} .*; leave {flag_of(name)} out, or"):
            run_comparison(Options(**{name: value}, out=out, resume=True))


def test_two_ranks_share_the_grid(tmp_path):
    alone = run_comparison(Options(**SMALL, out=str(tmp_path / "alone")))
    ranks = [started(tmp_path / "two", RANK=str(r), WORLD_SIZE="2") for r in (0, 1)]
    for process in ranks:
        process.finished()
    config = json.loads((tmp_path / "two" / "config.json").read_text())
    assert config["stack"] == 4  # of 8 runs
    assert 0 < len(lines(tmp_path / "two")) < 8
    two, whole = sorted(numbers(Store(tmp_path / "two").rows())), sorted(numbers(alone.runs))
    assert [n[:4] for n in two] == [n[:4] for n in whole]
    np.testing.assert_allclose([n[7] for n in two], [n[7] for n in whole], atol=0.05)
    assert (tmp_path / "two" / "summary.json").is_file()  # the last one sums up


def test_a_rank_that_is_alone_says_so(tmp_path, monkeypatch):
    """What it has done is kept, and all of it can be finished without the others."""
    out, said = tmp_path / "alone", []
    for name, value in {"RANK": "0", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    assert run_comparison(Options(**SMALL, out=str(out)), note=said.append) is None
    assert said[-1] == "rank 0 is done; the last of 2 ranks sums up"
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name)
    kept = lines(out)
    assert 0 < len(kept) < 8
    found = run_comparison(Options(**SMALL, out=str(out), resume=True))
    assert len(found.runs) == 8
    assert set(numbers(kept)) <= set(numbers(lines(out)))


def test_ranks_of_a_job_array_come_in_any_order(tmp_path, monkeypatch):
    """The last one to come sums up, as does a run without ranks."""
    asked = Options(**SMALL, out=str(tmp_path / "array"), resume=True)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    assert run_comparison(asked) is None
    monkeypatch.setenv("RANK", "0")
    found = run_comparison(asked)
    assert len(found.runs) == 8
    monkeypatch.delenv("RANK")
    monkeypatch.delenv("WORLD_SIZE")
    assert numbers(run_comparison(asked).runs) == numbers(found.runs)


@pytest.mark.long
def test_torchrun_answers_once(tmp_path):
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    task = ["--dataset", "order:count=40,length=4", "--epochs", "1", "--seeds", "2", "-e", "dft"]
    command = [*launcher, "-m", "pefourier", "train", *task, "-e", "none", "--out", tmp_path]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*command, "--quiet"], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("P / R / F1") == 1
    assert len(lines(tmp_path)) == 4


def test_without_the_reference_the_first_encoding_is_compared_to():
    found = run_comparison(Options(**{**SMALL, "encoding": ("none", "dft")}))
    assert found.reference == "none"
    assert list(found.datasets[0].differences) == ["dft"]


def test_two_ranks_without_a_folder_are_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(
        PefourierError, match="meet in a folder; give --out DIR, or unset RANK=0 and W"
    ):
        run_comparison(Options(**SMALL))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seeds": 0}, "--seeds must be a whole number from 1 on; got 0"),
        (
            {"layers": 2**63 - 1},
            "--layers must be a whole number up to 2097152; got 9223372036854775807",
        ),
        ({"d": 10**4000 // 3}, "--d must be a whole number up to 2097152; got 333"),
        (
            {"layers": 2**10, "d": 2**13, "batch_size": 9},
            "--layers 1024 and --batch-size 9 on windows of 6",
        ),
        ({"d": 2**21, "encoding": ("order-free",)}, " GiB a run; there are "),
        (
            {"epochs": 2**63},
            "--epochs must be a whole number up to 1000000; got 9223372036854775808",
        ),
        ({"dataset": ("order:count=1000000000000",)}, "order draws at most 67108864 rows; got"),
        ({"dataset": ("lags:length=1000000000000",)}, "lags draws at most 67108864 rows; got"),
        ({"dataset": ("order:seed=-1",)}, "and no negative noise or seed; got 'seed=-1'"),
        (
            {"dataset": ("order:count=20,length=100000",), "encoding": ("alibi",), "batch_size": 1},
            "alibi has 10000000000 codes of 2 numbers, over 1073741824; choose a larger --patch",
        ),
        ({"seeds": 10**30}, "--seeds must be a whole number up to 10000; got 1000"),
        ({"encoding": ("-",)}, "-e -: standard input can be read once, and training may"),
        ({"epochs": 0}, "--epochs must be a whole number from 1 on; got 0"),
        ({"patience": -1}, "--patience must be a whole number from 0 on; got -1"),
        ({"batch_size": -1}, "--batch-size must be a whole number from 1 on; got -1"),
        ({"encoding": ("dft", "dft")}, "--encoding 'dft' is given twice; name it once"),
        ({"encoding": ("dfft",)}, "unknown encoding 'dfft'. Did you mean 'dft'?"),
        ({"device": "gpu"}, "--device must be auto, cpu, cuda or cuda:0; got 'gpu'"),
        ({"device": "cuda:"}, "--device must be auto, cpu, cuda or cuda:0; got 'cuda:'"),
        ({"device": "cuda:²"}, "--device must be auto, cpu, cuda or cuda:0; got 'cuda:²'"),
        ({"device": "cpu:99999999999"}, "cuda or cuda:0; got 'cpu:99999999999'"),
        ({"device": "cuda:0\n"}, r"cuda or cuda:0; got 'cuda:0\n'"),
        ({"device": "cuda:99"}, "--device cuda:99: this machine has"),
        ({"resume": True}, "--resume needs --out DIR, the folder to go on in"),
        ({"rate": float("nan")}, "--rate must be a finite number above 0; got nan"),
        ({"match_rms": (0.0,)}, "--match-rms must be a finite number above 0; got 0.0"),
        ({"encoding": ("dft@rms=0",)}, "'dft@rms=0': rms must be above 0; got 0"),
        ({"encoding": ("order-free@rms=1",)}, "order-free adds nothing, so that it has no size"),
        ({"encoding": ("dft@rms=.5", "dft@rms=0.50")}, "--encoding 'dft@rms=0.5' is given twice"),
        ({"encoding": ("dft@rms=x",)}, "rms must be a finite number; got 'x'"),
        ({"encoding": ("rope@rms=1",)}, "'rope@rms=1': rope is not added to the input (act 'rot"),
    ],
)
def test_bad_options_are_refused_in_one_line(options, message):
    with pytest.raises(PefourierError, match=re.escape(message)) as caught:
        run_comparison(Options(**{**SMALL, **options}))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("rank", "ranks"), [("x", "2"), ("1", "1"), ("2", "2"), ("0", "-1"), ("²", "2"), ("0", "٣")]
)
def test_ranks_that_cannot_be_are_refused(monkeypatch, rank, ranks):
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", ranks)
    with pytest.raises(PefourierError, match=f"^RANK={rank} must be .* WORLD_SIZE={ranks}; unset"):
        run_comparison(Options(**SMALL))


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        ("file/tables", "Not a directory"),
        ("file", "File exists"),
        ("/proc/tables", "No such file or directory"),
        ("/sys/tables", ""),
        ("x" * 300, "File name too long"),
        ("a\0b", "embedded null byte"),
    ],
)
def test_tables_that_cannot_be_written_are_refused_before_training(
    tmp_path, monkeypatch, folder, said
):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(search, "fit", lambda *a: pytest.fail("trained"))
    with pytest.raises(PefourierError, match=f"^--save-tables .*{said}.*; name another folder"):
        run_comparison(Options(**SMALL, save_tables=str(tmp_path / folder)))


def test_tables_on_a_full_disk_are_refused_before_training(monkeypatch):
    monkeypatch.setattr(search, "fit", lambda *a: pytest.fail("trained"))
    message = r"^--save-tables '/dev/full': (File exists|Not a directory); name another folder"
    with pytest.raises(PefourierError, match=message):
        run_comparison(Options(**SMALL, save_tables="/dev/full"))


def test_tables_whose_names_cannot_be_are_refused_before_training(tmp_path, monkeypatch, rng):
    monkeypatch.setattr(search, "fit", lambda *a: pytest.fail("trained"))
    monkeypatch.chdir(tmp_path)
    deep = "d" * 130 + "/" + "e" * 130
    (tmp_path / deep).mkdir(parents=True)
    for name in ("a b.npy", "a+b.npy", f"{deep}/own.npy"):
        np.save(tmp_path / name, rng.normal(size=(6, 8)))
    given = {**SMALL, "save_tables": "tables"}
    with pytest.raises(PefourierError, match=r"is longer than 255 bytes; shorten"):
        run_comparison(Options(**{**given, "encoding": (f"{deep}/own.npy",)}))
    with pytest.raises(PefourierError, match=r"'a b.npy' and 'a\+b.npy' would be written to one"):
        run_comparison(Options(**{**given, "encoding": ("a b.npy", "a+b.npy")}))


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


def test_tables_of_different_datasets_have_different_names(tmp_path):
    names = tuple(f"order:count=40,length=4,noise={noise}" for noise in (0.1, 0.3))
    run_comparison(Options(**{**SMALL, "dataset": names, "seeds": 1}, save_tables=str(tmp_path)))
    assert len(list(tmp_path.glob("*-sinusoidal-*"))) == 2


def test_trained_tables_have_beside_them_what_training_began_with(tmp_path):
    said, arms = [], ("sinusoidal", "learned")
    given = {**SMALL, "encoding": arms, "seeds": 2, "learn": True, "save_tables": str(tmp_path)}
    run_comparison(Options(**given), note=said.append)
    task = "order_count=60_length=6"
    starts = {"sinusoidal-start": 0, "learned-seed0-start": 0, "learned-seed1-start": 1}
    files = {file.stem.partition("-")[2] for file in tmp_path.glob("*-start.npy")}
    assert files == {*starts}
    for name, seed in starts.items():
        start = load(name.partition("-")[0], 6, 8, seed=seed).table().astype(np.float32)
        assert np.array_equal(np.load(tmp_path / f"{task}-{name}.npy"), start)
        assert not np.array_equal(
            np.load(tmp_path / f"{task}-{name.split('-')[0]}-seed{seed}-fold0.npy"), start
        )
    pair = [tmp_path / f"{task}-learned-seed1{end}.npy" for end in ("-start", "-fold0")]
    assert said[-1] == f"what training made of a table: pefourier compare {pair[0]} {pair[1]}"
    fixed = {**given, "learn": False, "encoding": ("dft",), "save_tables": str(tmp_path / "fixed")}
    run_comparison(Options(**fixed))
    assert not [*(tmp_path / "fixed").glob("*start*")]


def test_other_examples_with_the_same_classes_are_not_gone_on_with(tmp_path, rng):
    own = tmp_path / "own.npz"
    x, y = rng.normal(size=(40, 4, 2)), np.arange(40) % 2 * (np.arange(40) > 3)
    given = {**SMALL, "dataset": (f"{tmp_path}/./own.npz",), "folds": 1}
    given["out"] = str(tmp_path / "out")
    np.savez(own, X=x, y=y)
    assert len(run_comparison(Options(**given)).runs) == 8
    np.savez(own, X=x, y=y[::-1])
    with pytest.raises(PefourierError, match=r"own.npz' \(splits\) has changed since .*; choose"):
        run_comparison(Options(**given, resume=True))
    np.savez(own, X=x, y=y, groups=np.arange(40) // 4)
    with pytest.raises(PefourierError, match=r"own.npz' \(splits\) has changed since .*; choose"):
        run_comparison(Options(**given, resume=True))
    np.savez(own, X=x[:, ::-1], y=y)
    with pytest.raises(PefourierError, match=r"own.npz' \(data\) has changed since .*; choose"):
        run_comparison(Options(**given, resume=True))


def test_an_interrupt_says_what_is_kept(tmp_path, monkeypatch):
    def fit(data, sizes, *more):
        if isinstance(sizes, model.OrderFree):
            raise KeyboardInterrupt
        return whole(data, sizes, *more)

    whole = search.fit
    monkeypatch.setattr(search, "fit", fit)
    for quiet, out in ((False, tmp_path / "told"), (True, tmp_path / "quiet"), (False, None)):
        said, options = [], Options(**SMALL, out=out and str(out))
        with pytest.raises(KeyboardInterrupt):
            run_comparison(options, note=None if quiet else said.append)
        kept = f"6 finished runs are in {out}; --resume goes on"
        if out is None:
            kept = "nothing is kept: --out DIR keeps what is finished, and --resume goes on"
        assert [line for line in said if "--resume" in line] == ([] if quiet else [kept])
        assert out is None or len(lines(out)) == 6


def test_an_interrupt_of_the_summary_says_so_too(tmp_path, monkeypatch):
    """Once that alone was silent, though all runs were there to go on with."""

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("pefourier.train.run.write_summary", stop)
    said = []
    with pytest.raises(KeyboardInterrupt):
        run_comparison(Options(**SMALL, out=str(tmp_path / "out")), note=said.append)
    assert said[-1] == f"8 finished runs are in {tmp_path / 'out'}; --resume goes on"


def test_tables_that_do_not_fit_on_the_disk_cost_no_run(tmp_path, monkeypatch):
    def full(path, table, dtype):
        raise PefourierError(f"cannot write {path}: No space left on device")

    monkeypatch.setattr("pefourier.train.run.write_table", full)
    out = tmp_path / "out"
    with pytest.raises(PefourierError, match="No space left"):
        run_comparison(Options(**SMALL, out=str(out), save_tables=str(tmp_path)))
    assert len(lines(out)) == 2  # the first stack's


def test_the_answer_is_told_before_a_full_disk_can_cost_it(tmp_path, monkeypatch, capsys):
    def full(path, value):
        raise PefourierError(f"cannot write {path}: No space left on device")

    monkeypatch.setattr("pefourier.train.run.write_json", full)
    task = ["--dataset", "order:count=40,length=4", "--epochs", "1", "--seeds", "1"]
    assert main(["train", *task, "-e", "dft", "--quiet", "--out", str(tmp_path)]) == 2
    said = capsys.readouterr()
    assert "P / R / F1" in said.out
    assert said.err.endswith("summary.json: No space left on device\n")


def test_a_file_that_goes_while_it_trains_costs_no_answer(tmp_path, monkeypatch, rng):
    own, whole = tmp_path / "own.npy", search.fit
    np.save(own, rng.normal(size=(6, 8)))
    monkeypatch.setattr(search, "fit", lambda *a: [own.unlink(missing_ok=True), whole(*a)][1])
    found = run_comparison(Options(**{**SMALL, "encoding": (str(own),)}))
    assert found.datasets[0].params[str(own)]["length"] == 6


def test_a_batch_is_no_larger_than_what_there_is(monkeypatch):
    sizes = set()
    whole = model.Transformer.logits

    def logits(self, p, injected, x, *others):
        sizes.add(x.shape[1])
        return whole(self, p, injected, x, *others)

    monkeypatch.setattr(model.Transformer, "logits", logits)
    run_comparison(Options(**{**SMALL, "encoding": ("none",), "batch_size": 10**9}))
    assert max(sizes) == 36  # of 60 examples


def test_what_has_no_effect_is_noted():
    said, given = [], {**SMALL, "encoding": ("rope", "dft"), "seeds": 1, "epochs": 1}
    two = ("order:count=60,length=6", "order:count=60,length=4")
    options = Options(**{**given, "dataset": two}, learn=True, data="nowhere")
    run_comparison(options, note=said.append)
    assert f"--data nowhere has no effect on {', '.join(two)}" in said
    said.clear()
    run_comparison(Options(**given), note=said.append)
    assert not any("no effect" in line for line in said)


def test_tables_of_runs_that_were_finished_before_are_missed_aloud(tmp_path):
    said, given = [], {**SMALL, "seeds": 1, "out": str(tmp_path / "out"), "resume": True}
    run_comparison(Options(**given))
    tables = tmp_path / "tables"
    more = Options(**given, save_tables=str(tables))
    run_comparison(more, note=said.append)
    names = [f"order_count=60_length=6-{name}-seed0-fold0.npy" for name in SMALL["encoding"][:3]]
    lacks = f"{tables} lacks tables of 3 runs that were finished before: "
    assert said[-1] == lacks + ", ".join(names)  # order-free has none
    for name in names:
        (tables / name).touch()
    run_comparison(more, note=said.append)
    assert said[-1] == f"{tables} keeps the tables of 3 runs that were finished before"


def test_a_table_that_has_changed_is_not_gone_on_with(tmp_path, rng):
    table, own = rng.normal(size=(6, 8)), str(tmp_path / "own.npy")
    given = {**SMALL, "encoding": ("none", own), "seeds": 1, "out": str(tmp_path / "out")}
    np.save(own, table)
    first = run_comparison(Options(**given))
    assert numbers(run_comparison(Options(**given, resume=True)).runs) == numbers(first.runs)
    np.save(own, np.nextafter(table, 9))  # rounding on another machine
    run_comparison(Options(**given, resume=True))
    np.save(own, 1.01 * table)
    with pytest.raises(PefourierError, match=r"own.npy on .* \(tables\) has changed since"):
        run_comparison(Options(**given, resume=True))


def test_codes_too_large_for_numbers_are_refused(tmp_path, rng):
    own = str(tmp_path / "own.npy")
    np.save(own, 1e30 * rng.normal(size=(6, 8)))
    with pytest.raises(PefourierError, match=r"own.npy, seed 0, fold 0: non-finite logits"):
        run_comparison(Options(**{**SMALL, "encoding": (own, "none")}, out=str(tmp_path / "out")))
    assert [row["encoding"] for row in lines(tmp_path / "out")] == ["none", "none"]


def test_memory_that_does_not_hold_the_runs_is_said(monkeypatch):
    def fails(*_):
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(fit.Training, "run", fails)
    with pytest.raises(PefourierError, match=r"^memory does not hold the runs"):
        run_comparison(Options(**SMALL))


def test_names_of_classes_change_no_score(tmp_path, rng):
    x, y = rng.normal(size=(120, 5, 1)), np.arange(120) % 12 == 0
    given = {**SMALL, "encoding": ("none",), "seeds": 1, "epochs": 1, "folds": 1}
    found = {}
    for name, labels in (("01", y.astype(int)), ("named", np.where(y, "anomaly", "normal"))):
        np.savez(tmp_path / f"{name}.npz", X=x, y=labels)
        asked = {**given, "dataset": (str(tmp_path / f"{name}.npz"),), "out": str(tmp_path / name)}
        found[name] = run_comparison(Options(**asked))
    (one,), (other,) = (found[name].datasets for name in ("01", "named"))
    for name in found:
        (row,) = found[name].runs
        assert [sum(said) for said in row["confusion"]] == [22, 2]  # of a fifth of the examples
    assert (one.positive, other.positive) == ("1", "anomaly")
    assert one.scores["none"]["f1"].mean < 0.5  # noise: 8 % of windows are positive
    assert "; positive: anomaly\n" in (tmp_path / "named" / "summary.md").read_text()
    assert report.json_records(found["named"])[0]["positive"] == "anomaly"
    np.savez(tmp_path / "even.npz", X=x, y=np.arange(120) % 2)
    given["dataset"] = (str(tmp_path / "even.npz"),)
    (neither,) = run_comparison(Options(**given)).datasets
    assert neither.positive is None
    assert neither.scores["none"]["f1"].mean == pytest.approx(
        np.mean([one["f1"] for one in neither.per_class["none"]])
    )
    found = run_comparison(Options(**given, positive=("0",)))
    assert found.datasets[0].positive == "0"


def test_budget_and_patience_are_counted_in_steps_too(tmp_path):
    given = {**SMALL, "encoding": ("none",), "seeds": 1, "epochs": None}  # 4 steps an epoch
    run_comparison(Options(**given, steps=10, patience_steps=7, out=str(tmp_path)))
    (row,) = lines(tmp_path)
    assert row["budget"] == {"steps": 10, "patience": 7, "every": 10}
    for wrong, message in (
        ({"epochs": 3, "steps": 2}, "--steps and --epochs say the same; give one of them"),
        ({"steps": 0}, "--steps must be a whole number from 1 on; got 0"),
        ({"patience": 1, "patience_steps": 2}, "--patience-steps and --patience say the same"),
    ):
        with pytest.raises(PefourierError, match=message):
            run_comparison(Options(**{**given, **wrong}))
