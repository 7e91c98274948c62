"""The comparison as a whole: position matters, results survive a kill, ranks share the grid."""

import io
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

from pefourier.answers.report import as_json
from pefourier.cli.commands import main
from pefourier.errors import PefourierError
from pefourier.train import metrics, model, statistics, store, summary
from pefourier.train.grid import list_arms
from pefourier.train.options import Options
from pefourier.train.run import run_comparison, write_summary
from pefourier.train.store import Store

SMALL = {
    "dataset": ("order:count=60,length=6",),
    "encoding": ("none", "sinusoidal", "t5", "order-free"),
    **{
        "seeds": 2,
        "epochs": 2,
        "d": 8,
        "heads": 2,
        "batch_size": 8,
    },
}
MEASURED = ("dataset", "encoding", "seed", "fold", "precision", "recall", "f1", "auprc", "epoch")


def numbers(rows):
    return [tuple(row[name] for name in MEASURED) for row in rows]


def lines(folder):
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


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


def test_a_folder_gets_the_whole_answer(tmp_path):
    out = tmp_path / "a" / "b"
    tables = tmp_path / "tables"
    found = run_comparison(
        Options(**SMALL, out=str(out), save_tables=str(tables), match_rms=(0.25,))
    )
    assert sorted(p.name for p in out.iterdir()) == [
        *("comparison.png", "config.json", "results.jsonl", "summary.json", "summary.md")
    ]
    assert numbers(lines(out)) == numbers(found.runs)
    arms = list(dict.fromkeys(row["encoding"] for row in found.runs))
    assert arms == ["none", "sinusoidal", "t5", "sinusoidal@rms=0.25", "order-free"]
    assert len(found.runs) == 2 * len(arms)
    assert (
        summary.markdown_page(summary.summarize_runs(of_datasets(1, {"a|b": 0.5}))).count(r"a\|b")
        == 2
    )
    text = (out / "summary.md").read_text()
    assert text.startswith("# Encodings compared\n\n| P / R / F1 | none | sinusoidal | t5 |")
    saved = json.loads((out / "summary.json").read_text())
    assert (
        saved["datasets"][0]["scores"]["t5"]["f1"]["mean"]
        == found.datasets[0].scores["t5"]["f1"].mean
    )
    assert json.loads((out / "config.json").read_text())["epochs"] == 2
    table = np.load(tables / "order_count=60_length=6-t5-seed0-fold0.npy")
    assert (table.shape, table.dtype) == ((11, 2), np.float32)
    assert np.load(tables / "order_count=60_length=6-sinusoidal-seed0-fold0.npy").shape == (6, 8)


def test_two_runs_give_the_same_numbers_and_a_second_folder_is_refused(tmp_path):
    one, other = (run_comparison(Options(**SMALL, out=str(tmp_path / name))) for name in "ab")
    assert numbers(one.runs) == numbers(other.runs)
    with pytest.raises(PefourierError, match="holds results already; go on with --resume"):
        run_comparison(Options(**SMALL, out=str(tmp_path / "a")))
    message = "config.json has epochs 2, now it is 3; give the same or choose another --out"
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
    with pytest.raises(PefourierError, match=r"^--resume: 'msl' has changed since .* \(windows\)"):
        run_comparison(Options(**given, data=str(tmp_path / "other"), resume=True))


CODE = (
    "import sys; from pefourier.train.options import Options; "
    "from pefourier.train.run import run_comparison; "
    "run_comparison(Options(dataset=('order:count=60,length=6',), "
    "encoding=('none', 'sinusoidal', 't5', 'order-free'), seeds=2, epochs=2, d=8, heads=2, "
    "batch_size=8, out=sys.argv[1], resume=len(sys.argv) > 2))"
)


def started(folder, *resume, **environment):
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", CODE, str(folder), *resume],
        env=os.environ | environment,
        stderr=subprocess.PIPE,
    )


def finished(process):
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err.decode()


def test_a_killed_run_is_resumed_with_the_same_numbers(tmp_path):
    whole = run_comparison(Options(**SMALL, out=str(tmp_path / "whole")))
    first = started(tmp_path / "killed")
    while not (tmp_path / "killed" / "config.json").exists() and first.poll() is None:
        time.sleep(0.02)
    time.sleep(np.random.default_rng().uniform(0.0, 0.6))
    first.send_signal(signal.SIGKILL)
    first.communicate()
    finished(started(tmp_path / "killed", "--resume"))
    assert numbers(lines(tmp_path / "killed")) == numbers(whole.runs)


@pytest.mark.parametrize("cut", [1, 40, 300])
def test_a_torn_line_is_trained_again(tmp_path, cut):
    out = tmp_path / "out"
    whole = run_comparison(Options(**SMALL, out=str(out)))
    file = out / "results.jsonl"
    file.write_bytes(file.read_bytes()[:-cut])
    again = run_comparison(Options(**SMALL, out=str(out), resume=True))
    assert numbers(lines(out)) == numbers(whole.runs) == numbers(again.runs)


def test_a_run_has_one_line_even_before_ranks_are_merged(tmp_path, monkeypatch):
    out = tmp_path / "out"
    whole = run_comparison(Options(**SMALL, out=str(out)))
    file = out / "results.jsonl"
    file.write_bytes(file.read_bytes()[:-40])
    monkeypatch.setattr(Store, "merge", lambda store, order: store.rows())
    run_comparison(Options(**SMALL, out=str(out), resume=True))
    assert sorted(numbers(lines(out))) == sorted(numbers(whole.runs))


def test_what_is_finished_is_not_trained_again(tmp_path, monkeypatch):
    out = str(tmp_path / "out")
    whole = run_comparison(Options(**SMALL, out=out))
    monkeypatch.setattr("pefourier.train.loop.fit", lambda *a: pytest.fail("trained again"))
    assert numbers(run_comparison(Options(**SMALL, out=out, resume=True)).runs) == numbers(
        whole.runs
    )


def trained_anew(monkeypatch):
    """Encodings and seeds of all members that are trained from now on."""
    from pefourier.train import loop

    seen, whole = [], loop.fit

    def fit(data, sizes, members, *more):
        seen.extend((m.encoding, m.seed) for m in members)
        return whole(data, sizes, members, *more)

    monkeypatch.setattr(loop, "fit", fit)
    return seen


def test_more_may_be_asked_of_a_folder_and_only_that_is_trained(tmp_path, monkeypatch):
    out = tmp_path / "out"
    first = run_comparison(
        Options(**{**SMALL, "encoding": ("sinusoidal", "order-free")}, out=str(out))
    )
    seen = trained_anew(monkeypatch)
    more = {**SMALL, "seeds": 3}
    found = run_comparison(Options(**more, out=str(out), resume=True))
    assert sorted(seen) == sorted(
        [(name, seed) for name in ("none", "t5") for seed in range(3)]
        + [(name, 2) for name in ("sinusoidal", "order-free")]
    )
    assert set(numbers(first.runs)) <= set(numbers(found.runs))
    at_once = run_comparison(Options(**more))
    assert [row[:4] for row in numbers(found.runs)] == [row[:4] for row in numbers(at_once.runs)]
    for row, other in zip(numbers(found.runs), numbers(at_once.runs), strict=True):
        np.testing.assert_allclose(row[4:], other[4:], atol=1e-4)
    assert list(found.datasets[0].scores) == list(SMALL["encoding"])
    seen.clear()
    assert numbers(run_comparison(Options(**more, out=str(out), resume=True)).runs) == numbers(
        lines(out)
    )
    assert seen == []
    run_comparison(Options(**more, out=str(out), resume=True, match_rms=(0.25,)))
    assert seen == [("sinusoidal@rms=0.25", seed) for seed in range(3)]
    seen.clear()
    assert run_comparison(Options(**more, out=str(out), resume=True)).runs == found.runs
    found = run_comparison(Options(**more, out=str(out), resume=True, match_rms=(0.25,)))
    fewer = run_comparison(Options(**{**SMALL, "encoding": ("t5",)}, out=str(out), resume=True))
    assert [row[1:3] for row in numbers(fewer.runs)] == [("t5", 0), ("t5", 1)]
    assert sorted(numbers(lines(out))) == sorted(numbers(found.runs))
    assert seen == []


def test_what_was_asked_by_mistake_is_not_trained(tmp_path, monkeypatch):
    out = tmp_path / "out"
    asked = {**SMALL, "encoding": ("none", "dft"), "out": str(out)}
    whole = "pefourier.train.run.train_stacks"
    for seeds in (1, 500):
        monkeypatch.setattr(whole, lambda *a: (_ for _ in ()).throw(KeyError))
        with pytest.raises(KeyError):
            run_comparison(Options(**{**asked, "seeds": seeds}, resume=seeds > 1))
        config = json.loads((out / "config.json").read_text())  # before anything is trained
        assert config["seeds"] == seeds
        assert [stage["seeds"] for stage in config["stages"]] == [1, 500][:seeds]
        monkeypatch.undo()
        if seeds == 1:
            run_comparison(Options(**{**asked, "seeds": seeds}, resume=True))
    seen = trained_anew(monkeypatch)
    found = run_comparison(Options(**asked, resume=True))
    assert sorted(seen) == [("dft", 1), ("none", 1)]
    assert len(found.runs) == 4
    seen.clear()
    assert numbers(run_comparison(Options(**asked, resume=True)).runs) == numbers(found.runs)
    assert seen == []


def test_what_was_asked_later_is_resumed_with_the_same_numbers(tmp_path):
    out = tmp_path / "out"
    other = "order:count=60,length=4"
    run_comparison(Options(**SMALL, out=str(out)))
    more = Options(**{**SMALL, "dataset": (other, *SMALL["dataset"])}, out=str(out), resume=True)
    whole = run_comparison(more)
    config = json.loads((out / "config.json").read_text())
    assert [stage["dataset"] for stage in config["stages"]] == [
        [*SMALL["dataset"]],
        [other, *SMALL["dataset"]],
    ]
    assert [d.dataset for d in whole.datasets] == [other, *SMALL["dataset"]]
    kept = [json.dumps(row) for row in lines(out)]
    (out / "results.jsonl").write_text("".join(line + "\n" for line in kept[1:7]))
    assert numbers(run_comparison(more).runs) == numbers(whole.runs)


def test_two_ranks_share_the_grid(tmp_path):
    alone = run_comparison(Options(**SMALL, out=str(tmp_path / "alone")))
    ranks = [started(tmp_path / "two", RANK=str(r), WORLD_SIZE="2") for r in (0, 1)]
    for process in ranks:
        finished(process)
    assert not list((tmp_path / "two").glob("results.rank*"))
    (stage,) = json.loads((tmp_path / "two" / "config.json").read_text())["stages"]
    assert stage["stack"] == 4  # of 8 runs
    two = lines(tmp_path / "two")
    assert [n[:4] for n in numbers(two)] == [n[:4] for n in numbers(alone.runs)]
    np.testing.assert_allclose(
        [r["auprc"] for r in two], [r["auprc"] for r in alone.runs], atol=0.05
    )


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
    with pytest.raises(PefourierError, match="several ranks meet in a folder; give --out DIR"):
        run_comparison(Options(**SMALL))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seeds": 0}, "--seeds must be from 1 to 10000; got 0"),
        ({"seeds": 10**30}, "--seeds must be from 1 to 10000; got 1000"),
        ({"encoding": ("-",)}, "-e -: standard input can be read once, and training may"),
        ({"epochs": 0}, "--epochs must be 1 or more; got 0"),
        ({"batch_size": -1}, "--batch-size must be 1 or more; got -1"),
        ({"encoding": ("dft", "dft")}, "--encoding 'dft' is given twice; name it once"),
        ({"encoding": ("dfft",)}, "unknown encoding 'dfft'. Did you mean 'dft'?"),
        ({"device": "gpu"}, "--device must be auto, cpu, cuda or cuda:0; got 'gpu'"),
        ({"device": "cuda:99"}, "--device cuda:99: this machine has"),
        ({"resume": True}, "--resume needs --out DIR, the folder to go on in"),
        ({"rate": float("nan")}, "--rate must be above 0; got nan"),
        ({"match_rms": (0.0,)}, "--match-rms must be above 0; got 0.0"),
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


def test_a_full_disk_is_said_and_what_is_finished_stays(tmp_path, monkeypatch):
    results = Store(tmp_path)
    row = dict.fromkeys((*store.KEY, *store.NEEDED), 0)
    results.append([row])
    monkeypatch.setattr(os, "write", lambda handle, line: len(line) // 2)
    with pytest.raises(PefourierError, match="No space left on device; nothing finished is lost"):
        results.append([{**row, "seed": 1}])
    assert results.rows() == [row]


def test_torn_and_foreign_lines_are_dropped(tmp_path):
    row = dict.fromkeys((*store.KEY, *store.NEEDED), 0)
    line = json.dumps(row).encode() + b"\n"
    file = tmp_path / "results.jsonl"
    key = json.dumps(dict.fromkeys(store.KEY, 0)).encode() + b"\n"
    for torn in (b"", key, line[:9], b'{"seed": 1}\n', b"\xff\n", b"[]\n"):
        file.write_bytes(line + torn)
        assert store.read_rows(file) == [row]
        Store(tmp_path).drop_torn_line()
        assert file.read_bytes() == line


def test_sign_flips_holm_and_ranks_are_their_definitions(rng):
    d = rng.normal(0.3, 1, 7)
    flips = [abs(np.dot(s, d)) for s in itertools.product((-1, 1), repeat=7)]
    assert statistics.sign_flip(d) == np.mean(np.array(flips) >= abs(d.sum()) - 1e-12)
    assert statistics.sign_flip(np.ones(5)) == 2.0**-4
    assert statistics.sign_flip(np.zeros(5)) == 1.0
    assert statistics.sign_flip(np.ones(40)) < 0.001
    np.testing.assert_allclose(statistics.holm([0.01, 0.04, 0.03, 0.9]), [0.04, 0.09, 0.09, 0.9])
    runs = {"a": np.ones(6), "b": np.array([1.0, 2, 2, 2, 2, 0])}
    found = statistics.paired_differences(runs, {"b": "a"}, np.zeros(6))["b"]
    assert (found.better, found.p_floor, found.mean) == (4.5 / 6, 2.0**-5, 0.5)


def test_wilcoxons_p_is_that_of_all_sign_patterns(rng):
    scores = rng.normal(size=(7, 3)) + np.array([0, 0.5, 2.5])

    def exact(d):
        rank = np.abs(d).argsort().argsort() + 1
        seen = abs((np.sign(d) * rank).sum())
        sums = [abs((s * rank).sum()) for s in itertools.product((-1, 1), repeat=len(d))]
        return np.mean(np.array(sums) >= seen)

    pairs = [(0, 1), (0, 2), (1, 2)]
    p = statistics.holm([exact(scores[:, i] - scores[:, j]) for i, j in pairs])
    found = statistics.wilcoxon_holm(scores)
    np.testing.assert_allclose([found[i, j] for i, j in pairs], p)
    np.testing.assert_array_equal(found, found.T)
    assert statistics.wilcoxon_holm(np.ones((4, 2)))[0, 1] == 1.0


def test_a_pair_apart_in_the_middle_parts_a_clique():
    p = np.ones((4, 4))
    p[1, 2] = p[2, 1] = 0.01
    ranks = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}
    assert statistics.cliques(ranks, p) == [["a", "b"], ["c", "d"]]


def test_differences_are_adjusted_for_their_number():
    runs = {"a": np.zeros(6), "b": np.ones(6), "c": np.ones(6)}
    found = statistics.paired_differences(runs, {"b": "a", "c": "a"}, np.zeros(6))
    assert [found[name].p for name in "bc"] == [2.0**-5] * 2
    assert [found[name].p_holm for name in "bc"] == [2.0**-4] * 2
    words = summary.verdict_sentence("here", "b", found["b"], 2)
    assert words.endswith("Holm p 0.0625 (with so few runs .05 is out of reach)")
    assert "out of reach" not in summary.verdict_sentence("here", "b", found["b"], 1)


@pytest.mark.parametrize(("n", "share"), [(5, 0.92), (8, 0.94)])  # plain percentiles: .85, .89
def test_intervals_hold_the_mean_as_often_as_they_say(rng, n, share):
    held = [
        one.low <= 0 <= one.high for one in map(statistics.interval, rng.normal(size=(1000, n)))
    ]
    assert np.mean(held) == pytest.approx(share, abs=0.025)
    # of all 5^5 resamples .03 % sum up to 0, .19 % to 1 or less, .67 % to 2 or less
    assert stats.norm.sf(stats.t.ppf(0.975, 4) * (5 / 4) ** 0.5) == pytest.approx(0.00095, abs=1e-5)
    assert statistics.interval(np.array([0.0, 1, 2, 4, 8])).low == pytest.approx(1 / 5)
    alone = statistics.interval(np.array([0.5]))
    assert np.isnan([alone.low, alone.high]).all()


def test_folds_as_units_are_scipys_t(rng):
    d, folds = rng.normal(size=(2, 12)), np.repeat(range(4), 3)
    found = statistics.paired_differences({"a": d[0], "b": d[1]}, {"b": "a"}, folds)["b"]
    means = (d[1] - d[0]).reshape(4, 3).mean(axis=1)
    low, high = stats.ttest_1samp(means, 0).confidence_interval()
    np.testing.assert_allclose([found.folds_low, found.folds_high], [low, high])
    np.random.default_rng(0).shuffle(order := np.arange(12))
    again = statistics.paired_differences(
        {"a": d[0][order], "b": d[1][order]}, {"b": "a"}, folds[order]
    )["b"]
    np.testing.assert_allclose(again.folds_low, low)


def of_folds(f1, auprc):
    """Eight seeds with the F1 and AUPRC given for each of five folds, beside .5 of sinusoidal."""
    return [
        {
            **{"dataset": "one", "encoding": e, "seed": seed, "fold": fold, "split": "blocks"},
            **{"precision": a, "recall": a, "f1": a, "auprc": b, "leaky": False, "length": 9},
        }
        for e, each in (("sinusoidal", [(0.5, 0.5)] * 5), ("dft", zip(f1, auprc, strict=True)))
        for fold, (a, b) in enumerate(each)
        for seed in range(8)
    ]


def test_what_one_fold_denies_is_said_of_these_windows():
    same, one_off = [0.6, 0.61, 0.62, 0.61, 0.6], [0.6, 0.61, 0.45, 0.61, 0.62]
    found = summary.summarize_runs(of_folds(same, [0.5] * 5))
    assert "dft is better than sinusoidal: F1 difference +0.108" in found.datasets[0].verdicts[0]
    assert "AUPRC" not in found.datasets[0].verdicts[0]
    found = summary.summarize_runs(of_folds(one_off, same))
    (words,) = found.datasets[0].verdicts
    assert "dft is better than sinusoidal on these windows: F1 difference +0.078" in words
    assert ", over folds -0.011 … +0.167, Holm p " in words
    assert "; better by AUPRC: +0.108, 95 % " in words
    assert "over folds: 95 % by Student's t" in summary.terminal_text(found)
    title, (head, row) = summary.tables(found)[2]
    assert (title, head[-2:], row[0]) == ("one, less sinusoidal", ["AUPRC", "Holm p"], "dft")
    (one,) = found.datasets
    f1, ap = one.differences["dft"], one.auprc_differences["dft"]
    assert row[1:6] == [
        f"+0.078 [{f1.low:+.3f}, {f1.high:+.3f}]",
        *("[-0.011, +0.167]", f"{f1.p:.3g}", f"{f1.p_holm:.3g}", "0.80"),
    ]
    assert row[6:] == [f"+0.108 [{ap.low:+.3f}, {ap.high:+.3f}]", f"{ap.p_holm:.3g}"]
    found = summary.summarize_runs(of_folds([0.5] * 5, one_off))
    assert "; better on these windows by AUPRC: +0.078" in found.datasets[0].verdicts[0]
    (_, (_, row)) = summary.tables(found)[2]
    assert (row[4], row[7]) == ("1", "1e-05")  # Holm p of F1 and of AUPRC
    (record,) = [r for r in summary.json_records(found) if r["encoding"] == "dft"]
    assert record["difference"]["mean"] == 0
    assert record["auprc_difference"]["mean"] == pytest.approx(0.078)


def test_one_encoding_alone_has_scores_and_no_differences():
    rows = [row for row in of_folds([0.5] * 5, [0.5] * 5) if row["encoding"] == "dft"]
    text = summary.terminal_text(summary.summarize_runs(rows))
    assert "over 8 seeds × 5 folds" in text
    assert "over folds" not in text
    assert "less dft" not in text


def test_few_runs_have_but_their_range():
    rows = [row for row in of_folds([0.6] * 5, [0.6] * 5) if row["fold"] == 0]
    for n, share in ((2, 50), (3, 75), (4, 88)):
        few = [{**row, "f1": row["seed"] / 10} for row in rows if row["seed"] < n]
        found = summary.summarize_runs(few)
        mean = found.datasets[0].scores["dft"]["f1"]
        assert (mean.low, mean.high) == pytest.approx((0, (n - 1) / 10), abs=0.03)
        said = f"of {n} runs 95 % is but their range, which holds the mean {share} % of the time"
        assert said in summary.terminal_text(found)
    assert "but their range" not in summary.terminal_text(summary.summarize_runs(rows))


def test_one_run_has_no_interval():
    found = summary.summarize_runs(of_datasets(1, {"sinusoidal": 0.5, "dft": 0.6}))
    assert ": F1 difference +0.100, Holm p 1 (with" in found.datasets[0].verdicts[0]
    assert json.loads(as_json("train", summary.json_records(found)))["results"][0]["f1"] == {
        **{"mean": 0.5, "low": None, "high": None}
    }


def of_datasets(number, scores):
    return [
        {
            **{"dataset": f"set {i}", "encoding": e, "seed": 0, "fold": 0, "split": "blocks"},
            **{"precision": v, "recall": v, "f1": v, "auprc": v, "leaky": False, "length": 9},
        }
        for i in range(number)
        for e, v in scores.items()
    ]


def test_all_told_apart_is_an_answer_too(tmp_path):
    found = summary.summarize_runs(of_datasets(8, {"sinusoidal": 0.5, "dft": 0.6}))
    assert found.cliques == ()
    text = summary.terminal_text(found)
    assert "average ranks by F1 over 8 datasets" in text
    assert "not told apart: none\n" in text
    write_summary(Store(tmp_path), found)
    assert (tmp_path / "critical-difference.png").is_file()


def test_whether_cliques_could_be_told_apart_counts_all_pairs():
    five = {"sinusoidal": 0.5, "dft": 0.6, "none": 0.1, "rope": 0.2, "t5": 0.3}
    assert "5 encodings .05 is out of reach" in summary.terminal_text(
        summary.summarize_runs(of_datasets(8, five))
    )


def test_a_scaled_encoding_is_compared_at_its_size():
    rows = [
        {
            **{"dataset": "one", "encoding": e, "seed": s, "fold": 0, "split": "blocks"},
            **{"precision": v, "recall": v, "f1": v, "auprc": v, "leaky": False, "length": 9},
        }
        for e, v in (("sinusoidal", 0.5), ("dft@rms=1", 0.6), ("sinusoidal@rms=1", 0.1))
        for s in range(2)
    ]
    apart = summary.summarize_runs(rows).datasets[0].differences
    assert apart["dft@rms=1"].mean == pytest.approx(0.5)
    assert apart["sinusoidal@rms=1"].mean == pytest.approx(-0.4)
    text = summary.terminal_text(summary.summarize_runs(rows))
    assert "do not separate dft@rms=1 from sinusoidal@rms=1" in text
    assert "one, less sinusoidal at its rms\n" in text


def test_average_ranks_over_datasets_and_who_is_not_told_apart():
    from pefourier.answers import plot

    rows = [
        {
            **{"dataset": name, "encoding": e, "seed": s, "fold": 0, "split": "random"},
            **{"precision": v, "recall": v, "f1": v, "auprc": v, "leaky": True, "length": 9},
        }
        for name in ("one", "two")
        for e, v in (("sinusoidal", 0.5), ("dft", 0.6), ("none", 0.1))
        for s in range(2)
    ]
    found = summary.summarize_runs(rows)
    assert found.ranks == {"sinusoidal": 2.0, "dft": 1.0, "none": 3.0}
    assert found.cliques == (("dft", "sinusoidal", "none"),)
    text = summary.terminal_text(found)
    assert "one, leaky split" in text
    assert "average ranks by F1 over 2 datasets, leaky split" in text
    assert "over 2 datasets, leaky split, by Wilcoxon's test" in text
    figure = plot.critical_difference(found)
    title = figure.axes[0].get_title()
    assert title.startswith("average rank by F1 over 2 datasets, leaky split\n")
    plot.plt.close(figure)
    assert "(with so few runs .05 is out of reach)" in text
    assert "do not carry over to new data" in text
    assert "not told apart: dft, sinusoidal, none (with 2 datasets and 3 encodings .05" in text


def test_scores_are_their_definitions(rng):
    from math import isclose

    score, true = rng.normal(size=50).round(1), rng.random(50) < 0.3
    best = max(metrics.precision_recall_f1(score >= t, true)[2] for t in np.unique(score))
    assert (
        metrics.precision_recall_f1(score >= metrics.best_threshold(score, true), true)[2] == best
    )
    slow, before = 0.0, 0.0
    for t in sorted(set(score), reverse=True):
        precision, recall, _ = metrics.precision_recall_f1(score >= t, true)
        slow, before = slow + precision * (recall - before), recall
    assert isclose(metrics.average_precision(score, true), slow)


def test_the_threshold_comes_from_validation_and_many_classes_are_averaged():
    logits = np.array([[0, 0.0], [0, 1], [0, 2], [0, 3]])
    labels = np.array([0, 0, 1, 1])
    shifted = logits + np.array([0, 5.0])
    perfect = metrics.score(logits, labels, logits, labels)
    assert (perfect.precision, perfect.recall, perfect.f1, perfect.auprc) == (1, 1, 1, 1)
    assert metrics.score(logits, labels, shifted, labels).precision == 0.5
    eye = np.eye(3)[[0, 1, 2, 2]]
    found = metrics.score(eye, np.array([0, 1, 2, 2]), eye, np.array([0, 1, 2, 1]))
    assert found.recall == pytest.approx((1 + 0.5 + 1) / 3)
    own = [metrics.average_precision(eye[:, c], np.array([0, 1, 2, 1]) == c) for c in range(3)]
    assert found.auprc == np.mean(own)


def test_every_run_is_a_point_in_the_figure():
    from pefourier.answers import plot

    found = run_comparison(Options(**SMALL))
    figure = plot.comparison(found)
    points = [line.get_xdata() for line in figure.axes[0].lines if line.get_marker() == "o"]
    np.testing.assert_array_equal(
        np.concatenate(points),
        [r["f1"] for e in found.datasets[0].scores for r in found.runs if r["encoding"] == e],
    )
    plot.plt.close(figure)


def two_datasets(ranks, cliques):
    """A summary of two datasets with the given ranks."""
    datasets = summary.summarize_runs(of_datasets(2, {"sinusoidal": 0.5})).datasets
    return summary.Summary("sinusoidal", datasets, ranks, cliques, ())


def test_bars_of_the_diagram_join_the_cliques():
    from pefourier.answers import plot

    ranks = {"none": 4.0, "dft": 1.25, "rope": 1.75, "sinusoidal": 3.0}
    cliques = (("dft", "rope"), ("rope", "sinusoidal"))
    figure = plot.critical_difference(two_datasets(ranks, cliques))
    (axes,) = figure.axes
    bars = [line.get_xdata() for line in axes.lines if line.get_linewidth() == 3]
    np.testing.assert_allclose(bars, [[1.19, 1.81], [1.69, 3.06]])
    heights = {
        text.get_text().split()[-1 if i > 1 else 0]: text.get_position()[1]
        for i, text in enumerate(axes.texts)
    }
    for line in axes.lines:
        if line.get_linewidth() < 3:  # a leader ends at the height of its name
            (name,) = [name for name, rank in ranks.items() if rank == line.get_xdata()[0]]
            assert line.get_ydata()[-1] == heights[name]
    sides = [text.get_ha() for text in axes.texts]  # away from the diagram
    assert sides == ["right", "right", "left", "left"]
    feet = sorted(line.get_xdata()[0] for line in axes.lines if line.get_linewidth() < 3)
    assert feet == sorted(ranks.values())
    assert {text.get_text().strip() for text in axes.texts} == {
        *("dft  1.25", "rope  1.75", "4.00  none", "3.00  sinusoidal")
    }
    assert axes.get_title().endswith("with 2 datasets and 4 encodings .05 is out of reach")
    plot.plt.close(figure)


def test_sizes_have_one_name_and_are_scaled_once():
    given = ("none", "dft", "dft@rms=.50", "order-free")
    found = list_arms(given, (0.5, 0.1234567))
    assert [(one.name, one.named) for one in found] == [
        *[("none", True), ("dft", True), ("dft@rms=0.5", True), ("order-free", True)],
        ("dft@rms=0.1234567", False),
    ]


def test_an_arm_may_be_named_with_its_size():
    found = run_comparison(Options(**{**SMALL, "encoding": ("sinusoidal", "dft@rms=0.25")}))
    assert list(found.datasets[0].scores) == ["sinusoidal", "dft@rms=0.25"]


@pytest.mark.parametrize(("rank", "ranks"), [("x", "2"), ("1", "1"), ("2", "2"), ("0", "-1")])
def test_ranks_that_cannot_be_are_refused(monkeypatch, rank, ranks):
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", ranks)
    with pytest.raises(PefourierError, match=f"^RANK={rank} must be .* WORLD_SIZE={ranks}; unset"):
        run_comparison(Options(**SMALL))


@pytest.mark.parametrize("text", ['{"model_type": "llama"}', "[1]", "no JSON"])
@pytest.mark.parametrize("resume", [False, True])
def test_another_config_json_is_never_replaced(tmp_path, text, resume):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(PefourierError, match="choose another --out"):
        run_comparison(Options(**SMALL, out=str(tmp_path), resume=resume))
    assert (tmp_path / "config.json").read_text() == text


def test_a_second_run_in_the_same_folder_is_refused_while_the_first_lasts(tmp_path):
    out = str(tmp_path / "out")
    with Store(tmp_path / "out").lock():
        with pytest.raises(PefourierError, match=r"^another run writes to .*; wait"):
            run_comparison(Options(**SMALL, out=out))
        Path(out).rmdir()  # nothing was written
        Path(out).mkdir()
    run_comparison(Options(**SMALL, out=out))


def test_a_file_system_without_locks_is_written_to(tmp_path, monkeypatch):
    def unknown(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", unknown)
    run_comparison(Options(**SMALL, out=str(tmp_path)))
    assert lines(tmp_path)


def test_tables_of_different_datasets_have_different_names(tmp_path):
    names = tuple(f"order:count=40,length=4,noise={noise}" for noise in (0.1, 0.3))
    run_comparison(Options(**{**SMALL, "dataset": names, "seeds": 1}, save_tables=str(tmp_path)))
    assert len(list(tmp_path.glob("*-sinusoidal-*"))) == 2


def test_other_examples_with_the_same_classes_are_not_gone_on_with(tmp_path, rng):
    own = tmp_path / "own.npz"
    x, y = rng.normal(size=(40, 4, 2)), np.arange(40) % 2
    given = {**SMALL, "dataset": (str(own),), "folds": 1, "out": str(tmp_path / "out")}
    np.savez(own, X=x, y=y)
    run_comparison(Options(**given))
    other = {"dataset": SMALL["dataset"], "encoding": ("none",), "folds": 1, "seeds": 1}
    run_comparison(Options(**{**given, **other}, resume=True))  # what is known of own.npz stays
    np.savez(own, X=x, y=y[::-1])
    with pytest.raises(PefourierError, match=r"own.npz' has changed since .* \(splits\); choose"):
        run_comparison(Options(**given, resume=True))
    np.savez(own, X=x, y=y, groups=np.arange(40) // 4)
    with pytest.raises(PefourierError, match=r"own.npz' has changed since .* \(splits\); choose"):
        run_comparison(Options(**given, resume=True))
    np.savez(own, X=x[:, ::-1], y=y)
    with pytest.raises(PefourierError, match=r"own.npz' has changed since .* \(data\); choose"):
        run_comparison(Options(**given, resume=True))


def test_an_interrupt_says_what_is_kept(tmp_path, monkeypatch):
    from pefourier.train import loop

    def fit(data, sizes, *more):
        if isinstance(sizes, model.OrderFree):
            raise KeyboardInterrupt
        return whole(data, sizes, *more)

    whole = loop.fit
    monkeypatch.setattr(loop, "fit", fit)
    for quiet, out in ((False, tmp_path / "told"), (True, tmp_path / "quiet"), (False, None)):
        said, options = [], Options(**SMALL, out=out and str(out))
        with pytest.raises(KeyboardInterrupt):
            run_comparison(options, note=None if quiet else said.append)
        kept = f"6 finished runs are in {out}; --resume goes on"
        assert said == ([] if quiet or out is None else [kept])
        assert out is None or len(lines(out)) == 6


def test_tables_that_do_not_fit_on_the_disk_cost_no_run(tmp_path, monkeypatch):
    def full(path, table, dtype):
        raise PefourierError(f"cannot write {path}: No space left on device")

    monkeypatch.setattr("pefourier.train.run.write_table", full)
    out = tmp_path / "out"
    with pytest.raises(PefourierError, match="No space left"):
        run_comparison(Options(**SMALL, out=str(out), save_tables=str(tmp_path)))
    assert len(lines(out)) == 6  # the first stack's


def test_the_answer_is_told_before_a_full_disk_can_cost_it(tmp_path, monkeypatch, capsys):
    def full(path, value):
        raise PefourierError(f"cannot write {path}: No space left on device")

    monkeypatch.setattr("pefourier.train.run.write_json", full)
    task = ["--dataset", "order:count=40,length=4", "--epochs", "1", "--seeds", "1"]
    assert main(["train", *task, "-e", "dft", "--quiet", "--out", str(tmp_path)]) == 2
    said = capsys.readouterr()
    assert said.out.startswith("P / R / F1")
    assert said.err.endswith("summary.json: No space left on device\n")


def test_a_file_that_goes_while_it_trains_costs_no_answer(tmp_path, monkeypatch, rng):
    from pefourier.train import loop

    own, whole = tmp_path / "own.npy", loop.fit
    np.save(own, rng.normal(size=(6, 8)))
    monkeypatch.setattr(loop, "fit", lambda *a: [own.unlink(), whole(*a)][1])
    found = run_comparison(Options(**{**SMALL, "encoding": (str(own),)}))
    assert found.datasets[0].params[str(own)]["length"] == 6


def test_a_batch_is_no_larger_than_what_there_is(monkeypatch):
    sizes = set()
    whole = model.Transformer.logits

    def logits(self, p, injected, x):
        sizes.add(x.shape[1])
        return whole(self, p, injected, x)

    monkeypatch.setattr(model.Transformer, "logits", logits)
    run_comparison(Options(**{**SMALL, "encoding": ("none",), "batch_size": 10**9}))
    assert max(sizes) == 36  # of 60 examples


def test_what_has_no_effect_is_noted():
    said, given = [], {**SMALL, "encoding": ("rope", "dft"), "seeds": 1, "epochs": 1}
    two = ("order:count=60,length=6", "order:count=60,length=4")
    options = Options(**{**given, "dataset": two}, learn=True, data="nowhere")
    run_comparison(options, note=said.append)
    assert said.count("--learn has no effect on rope: rotations keep their angles") == 1
    assert f"--data nowhere has no effect on {', '.join(two)}" in said
    said.clear()
    run_comparison(Options(**given), note=said.append)
    assert not any("no effect" in line for line in said)


def test_a_folder_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(PefourierError, match=r"file/out: Not a directory; choose another --out"):
        run_comparison(Options(**SMALL, out=str(tmp_path / "file" / "out")))


def test_a_folder_without_a_finished_run_is_begun_anew(tmp_path, monkeypatch):
    out = tmp_path / "out"
    with monkeypatch.context() as patched:
        patched.setattr("pefourier.train.loop.fit", lambda *a: (_ for _ in ()).throw(KeyError))
        with pytest.raises(KeyError):
            run_comparison(Options(**SMALL, out=str(out)))
    found = run_comparison(Options(**{**SMALL, "epochs": 1}, out=str(out), resume=True))
    assert {row["epoch"] for row in found.runs} <= {0, 1}
    assert json.loads((out / "config.json").read_text())["epochs"] == 1


def test_a_diagram_of_what_was_asked_before_goes(tmp_path):
    names = tuple(f"order:count=40,length=4,noise={noise}" for noise in (0.1, 0.3))
    given = {**SMALL, "encoding": ("none", "dft", "t5"), "seeds": 1, "epochs": 1}
    diagram = tmp_path / "critical-difference.png"
    run_comparison(Options(**{**given, "dataset": names}, out=str(tmp_path)))
    assert diagram.exists()
    run_comparison(Options(**{**given, "dataset": names[:1]}, out=str(tmp_path), resume=True))
    assert not diagram.exists()


def test_tables_of_runs_that_were_finished_before_are_missed_aloud(tmp_path):
    said, given = [], {**SMALL, "seeds": 1, "out": str(tmp_path / "out"), "resume": True}
    run_comparison(Options(**given))
    more = Options(**{**given, "seeds": 2}, save_tables=str(tmp_path / "tables"))
    run_comparison(more, note=said.append)
    assert said[-1] == ("--save-tables: 4 runs were finished before; their tables are not written")
    assert {file.name.rpartition("-seed")[2] for file in (tmp_path / "tables").iterdir()} == {
        "1-fold0.npy"
    }


def test_a_table_that_has_changed_is_not_gone_on_with(tmp_path, rng):
    table, own = rng.normal(size=(6, 8)), str(tmp_path / "own.npy")
    given = {**SMALL, "encoding": ("none", own), "seeds": 1, "out": str(tmp_path / "out")}
    np.save(own, table)
    first = run_comparison(Options(**given))
    assert numbers(run_comparison(Options(**given, resume=True)).runs) == numbers(first.runs)
    np.save(own, np.nextafter(table, 9))  # rounding on another machine
    run_comparison(Options(**given, resume=True))
    np.save(own, table[::-1])
    run_comparison(
        Options(**{**given, "encoding": ("none",)}, resume=True)
    )  # not asked for, not looked at
    os.remove(own)
    run_comparison(Options(**{**given, "encoding": ("none", "dft")}, resume=True))
    np.save(own, 1.01 * table)
    with pytest.raises(PefourierError, match=r"own.npy on .* has changed since .* \(tables\)"):
        run_comparison(Options(**given, resume=True))


def test_runs_that_diverge_are_scored_and_said():
    found = run_comparison(Options(**{**SMALL, "encoding": ("none", "sinusoidal"), "rate": 1e30}))
    said = ", none: 2 runs diverged at once and have the scores of untrained weights; a smaller"
    assert said in summary.terminal_text(found)
    assert [record["diverged"] for record in summary.json_records(found)] == [2, 2]
    fine = run_comparison(Options(**{**SMALL, "encoding": ("none",)}))
    assert "diverged" not in summary.terminal_text(fine)
    assert summary.json_records(fine)[0]["diverged"] == 0


def test_codes_too_large_for_numbers_are_refused(tmp_path, rng):
    own = str(tmp_path / "own.npy")
    np.save(own, 1e30 * rng.normal(size=(6, 8)))
    with pytest.raises(PefourierError, match=r"own.npy, seed 0, fold 0: non-finite logits"):
        run_comparison(Options(**{**SMALL, "encoding": (own, "none")}, out=str(tmp_path / "out")))
    assert [row["encoding"] for row in lines(tmp_path / "out")] == ["none", "none"]


def test_ranks_beside_the_first_are_quiet(tmp_path, monkeypatch, capsys):
    from pefourier.train import progress

    said = []
    monkeypatch.setattr(progress, "LINE_EVERY", 0.0)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert run_comparison(Options(**SMALL, out=str(tmp_path)), note=said.append) is None
    assert said == []
    assert capsys.readouterr().err == ""


def test_results_without_a_configuration_are_not_gone_on_with(tmp_path):
    (tmp_path / "results.jsonl").write_text("")
    with pytest.raises(PefourierError, match=r"holds results, but no config\.json"):
        run_comparison(Options(**SMALL, out=str(tmp_path), resume=True))


def test_memory_that_does_not_hold_the_runs_is_said(monkeypatch):
    def fails(*_):
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr("pefourier.train.loop.train_together", fails)
    with pytest.raises(PefourierError, match=r"^memory does not hold the runs"):
        run_comparison(Options(**SMALL))


def test_too_few_codes_are_noted():
    said, given = [], {**SMALL, "dataset": ("order:count=40,length=10",), "d": 8, "heads": 2}
    options = Options(**{**given, "encoding": ("none", "sinusoidal", "dft", "rope")})
    run_comparison(options, note=said.append)
    assert [line for line in said if "codes" in line] == [
        "order:count=40,length=10: dft has 8 codes for 10 tokens; a larger --d or --patch would "
        "tell them apart"
    ]


def test_records_hold_each_encodings_scores_and_its_difference():
    found = summary.json_records(run_comparison(Options(**{**SMALL, "match_rms": (0.5,)})))
    assert [(r["encoding"], r["spec"]) for r in found] == [
        *(("none", "none"), ("sinusoidal", "sinusoidal"), ("t5", "t5")),
        *(("sinusoidal", "sinusoidal@rms=0.5"), ("order-free", "order-free")),
    ]
    t5 = {"length": 6, "d": 2, "seed": 0, "buckets": 32}
    assert t5.items() <= found[2]["params"].items()
    assert found[3]["params"] == {"rms": 0.5, **found[1]["params"]}
    assert found[4]["params"] == {}
    assert found[0]["training"] == {
        **{"epochs": 2, "batch_size": 8, "rate": 3e-3, "d": 8, "heads": 2, "layers": 1},
        **{"patch": 1, "learn": False},
    }
    assert found[1]["difference"] is None
    assert found[2]["difference"]["p_floor"] == 0.5
    assert found[1]["verdict"] is None
    assert "the data do not separate t5 from sinusoidal" in found[2]["verdict"]
    assert found[2]["difference"]["mean"] == pytest.approx(
        found[2]["f1"]["mean"] - found[1]["f1"]["mean"]
    )


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_narrow_terminal_shows_the_time_left(monkeypatch, width):
    from pefourier.train import progress

    screen = io.StringIO()
    at = {"file": screen, "force_terminal": True, "width": width, "color_system": None}
    monkeypatch.setattr(progress, "Console", lambda stderr: Console(**at))
    with progress.bar() as (shown, task):
        for share in (20, 40):
            time.sleep(0.01)
            shown.update(task, completed=share, now="16 members · epoch 3/20 · loss 0.5")
        shown.refresh()
    assert re.search(r" 40 % +\d\d:\d\d .*· 16 members · epoch 3/20", screen.getvalue())


def test_progress_is_noted_where_there_is_no_terminal(capsys, monkeypatch):
    from pefourier.train import progress

    said = []
    monkeypatch.setattr(progress, "LINE_EVERY", 0.0)
    run_comparison(Options(**SMALL), note=said.append)
    pattern = r"2 members · epoch 2/2 · loss \d\.\d{3} · [\d,]+ examples/s · 0:00 left"
    assert re.fullmatch(r"100 % · " + pattern, said[-1])
    run_comparison(Options(**SMALL))
    assert capsys.readouterr() == ("", "")


def test_the_bench_trains_both_programs_and_counts_operations():
    import torch

    from pefourier.train import bench
    from pefourier.train.data.load import load_task
    from pefourier.train.model import Transformer

    task, sizes = load_task("order:count=60,length=6"), Transformer(6, 2, 2, d=8, heads=2)
    setting = bench.Setting(task, sizes, 2, 8, 4, torch.device("cpu"))
    first, loop, fused = bench.report(setting).splitlines()
    assert first.startswith("2 members, batch 8, 4 steps, 6 tokens, d 8, cpu, torch ")
    assert re.fullmatch(r"user's loop, eager float32 +[\d,]+ examples/s +1\.00 ×", loop)
    assert re.fullmatch(r"fused program +[\d,]+ examples/s +\d+\.\d\d ×", fused)
    own, torchs = bench.flops(sizes), counted(bench.Classifier(sizes, bench.codes_of(setting)))
    assert own == pytest.approx(torchs, rel=0.1)


def counted(classifier):
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    # the counter knows attention only as the products it is made of
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        classifier(torch.zeros(1, 6, 2)).sum().backward()
    return counter.get_total_flops()
