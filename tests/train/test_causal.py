"""Next tokens under a causal mask, trained short and tested long."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from pages import Page
from training import SIZES, injection

from pefourier.errors import PefourierError
from pefourier.train import attention, causal, loop, model
from pefourier.train.data import sequences
from pefourier.train.options import Options

CPU = torch.device("cpu")
TINY = Options(
    dataset=("copy:length=3,count=40",),
    encoding=("none", "rope", "learned"),
    seeds=2,
    steps=4,
    d=8,
    heads=2,
    causal=True,
    test_length="6",
)


def solve(name, prompt):
    """The answer, worked out in another way."""
    if name == "addition":
        n = len(prompt) // 2
        a, b = (int("".join(map(str, part))) for part in (prompt[:n], prompt[n + 1 :]))
        return [int(digit) for digit in str(a + b).zfill(n + 1)]
    if name == "recall":
        pairs = dict(zip(prompt[:-1:2], prompt[1:-1:2], strict=True))
        return [pairs[prompt[-1]]]
    return {"copy": prompt, "reverse": prompt[::-1], "parity": [prompt.count(1) % 2]}[name]


@pytest.mark.parametrize("name", sequences.TASKS)
def test_answers_are_those_of_the_prompts(name):
    sizes = np.array([1, 2, 5, 7])
    x, y = sequences.draw_problems(name, sizes, 7, 3)
    assert x.shape[1] == sequences.tokens_of(name, 7)
    for tokens, targets in zip(x, y, strict=True):
        seen = tokens.argmax(axis=1)[: int(tokens.sum())].tolist()
        mark = seen.index(sequences.MARK)
        answer = targets[targets != sequences.UNASKED].tolist()
        assert seen[0] == sequences.BEGIN
        assert answer == solve(name, seen[1:mark])
        assert seen[mark + 1 :] == answer[:-1]  # the last is told to nobody
        assert np.flatnonzero(targets != sequences.UNASKED).tolist() == list(range(mark, len(seen)))


@pytest.mark.parametrize("few", [32, 0])  # tokens up to which attention is written out
def test_no_token_sees_a_later_one(rng, monkeypatch, few):
    monkeypatch.setattr(attention, "FEW_TOKENS", few)
    sizes = replace(SIZES, causal=True, layers=2)
    p = {k: v[None] for k, v in model.draw_parameters(sizes.shapes(), 0).items()}
    x = torch.as_tensor(rng.normal(size=(1, 3, 8, 2)))
    later = x.clone()
    later[:, :, 5:] += 1
    for name in ("none", "sinusoidal", "rope", "t5", "shaw"):
        codes = attention.codes_by_act([injection(name)], CPU, torch.float64)
        apart = (sizes.logits(p, codes, x) - sizes.logits(p, codes, later)).abs()
        assert apart.shape == (1, 3, 8, 2)
        assert apart[:, :, :5].max() < 1e-12, name
        assert apart[:, :, 5:].min() > 1e-9, name


def test_without_positions_a_causal_model_sees_order(rng):
    """NoPE: the last token sees a set, but what that set holds came in an order."""
    sizes = replace(SIZES, causal=True, layers=2)
    p = {k: v[None] for k, v in model.draw_parameters(sizes.shapes(), 0).items()}
    x = torch.as_tensor(rng.normal(size=(1, 1, 8, 2)))
    codes = attention.codes_by_act([injection("none")], CPU, torch.float64)
    turned = torch.cat([x[:, :, :7].flip(2), x[:, :, 7:]], dim=2)
    assert (sizes.logits(p, codes, x) - sizes.logits(p, codes, turned))[0, 0, -1].abs().max() > 1e-3


def test_a_folder_has_the_answer(tmp_path):
    found = causal.run_causal(replace(TINY, out=str(tmp_path / "a")))
    (one,) = found.datasets
    assert (one.length, one.seeds, list(one.lengths)) == (3, 2, ["none", "rope", "learned"])
    assert one.lengths["learned"][0].reason.endswith("were never trained")
    assert "learned cannot be tested on 6: " in causal.conclude_causal(one)  # learned or not
    assert set(one.differences) == {"rope"}
    page = causal.causal_page(found)
    head, *rows = page.rows()
    assert [dict(zip(head, row, strict=True))["spec"] for row in rows] == list(one.lengths)
    assert page.together() in " ".join(page.conclusion().split())
    assert all(name in page.words() for name in one.lengths)
    names = {path.name for path in (tmp_path / "a").iterdir()}
    assert names == {"results.json", "summary.json", "summary.md", "lengths.png"}
    rows = json.loads((tmp_path / "a" / "results.json").read_text())["runs"]
    assert len(rows) == 3 * 2 * 2
    assert exact(causal.run_causal(TINY)) == exact(found)
    read = causal.read_causal(tmp_path / "a")
    assert (read.runs, causal.causal_markdown(read)) == (found.runs, causal.causal_markdown(found))
    with pytest.raises(PefourierError, match="holds results already; add --resume or choose"):
        causal.run_causal(replace(TINY, out=str(tmp_path / "a")))


def exact(found):
    """The scores of all runs, without how long they took."""
    names = ("dataset", "encoding", "seed", "length", "exact")
    return [tuple(row[name] for name in names) for row in found.runs]


def test_what_a_crash_left_is_gone_on_from(tmp_path, monkeypatch):
    out, whole, seen = str(tmp_path / "a"), loop.fit, []

    def crash(data, model, members, *others):
        if len(seen) == 1:
            raise MemoryError
        seen.append([member.encoding for member in members])
        return whole(data, model, members, *others)

    monkeypatch.setattr(loop, "fit", crash)
    with pytest.raises(MemoryError):
        causal.run_causal(replace(TINY, out=out))
    assert causal.read_causal(tmp_path / "a").datasets[0].seeds == 1
    monkeypatch.undo()
    more = replace(TINY, out=out, resume=True, encoding=(*TINY.encoding, "alibi"))
    again = causal.run_causal(more)
    fresh = causal.run_causal(replace(more, out=None))
    assert sorted(exact(again)) == sorted(exact(fresh))
    path = tmp_path / "a" / "results.json"
    for change, message in (
        (lambda found: found["runs"][0].update(exact=1.5), "exact must be 0 … 1; got 1.5"),
        (lambda found: found["runs"][0].pop("seed"), "a line lacks|lacks 'seed'"),
        (lambda found: found["training"].update(d="8"), "d must be a whole number; got '8'"),
        (lambda found: found.update(runs=[]), "it has no run"),
    ):
        content = json.loads(path.read_text())
        change(content)
        (tmp_path / "b").mkdir(exist_ok=True)
        (tmp_path / "b" / "results.json").write_text(json.dumps(content))
        with pytest.raises(PefourierError, match=message):
            causal.run_causal(replace(more, out=str(tmp_path / "b")))
    for own, key in (({"steps": 5}, "steps 4, now it is 5"), ({"test_length": "8"}, "test_length")):
        with pytest.raises(PefourierError, match=f"--resume: .*{key}"):
            causal.run_causal(replace(more, **own))
    longer = replace(more, dataset=("copy:length=4,count=40",))
    with pytest.raises(PefourierError, match="has copy 'copy:length=3,count=40', now"):
        causal.run_causal(longer)


def test_a_report_tells_of_a_folder(run, tmp_path):
    folder = Path(__file__).parents[2] / "figures" / "causal" / "copy"
    done = run("report", folder, "--out", tmp_path / "page.html")
    assert done.status == 0, done.err
    page = Page(tmp_path / "page.html")
    assert page.faults == []
    known = json.loads((folder / "summary.json").read_text())["results"]
    assert {one["spec"] for one in known} <= set(page.text["th"])
    (said,) = [line for line in page.text["p"] if line.startswith("copy, trained on")]
    assert said in (folder / "summary.md").read_text()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"dataset": ("copi",)}, "unknown task of --causal 'copi'. Did you mean 'copy'?"),
        ({"dataset": ("copy:size=3",)}, "unknown parameter of copy 'size'"),
        ({"dataset": ("copy:length=1",)}, "length must be from 2 to 64, count from 20 to 1000000"),
        (
            {"dataset": ("recall",), "test_length": "65"},
            "recall has 64 keys, so that",
        ),
        ({"dataset": ("copy", "copy:length=4")}, "--dataset 'copy' is given twice"),
        ({"test_length": "6,9999999"}, "tests problems of at most 512; got --test-length 9999999"),
        ({"window": 3}, "--causal goes without --window; leave it out"),
        ({"encoding": ("order-free",)}, "--causal has no 'order-free'"),
    ],
)
def test_what_has_no_part_in_it_is_refused(given, message):
    with pytest.raises(PefourierError, match=re.escape(message)):
        causal.run_causal(replace(TINY, **given))


@pytest.mark.parametrize(
    "folder", sorted((Path(__file__).parents[2] / "figures/causal").iterdir()), ids=lambda f: f.name
)
def test_the_committed_summary_follows_from_its_runs(folder):
    found = causal.read_causal(folder)
    assert (folder / "summary.md").read_text() == causal.causal_markdown(found)


def test_guesses_are_as_often_right_as_all_problems_say():
    digits = np.indices([10, 10, 10, 10]).reshape(4, -1)
    sums = np.bincount(digits[0] * 10 + digits[1] + digits[2] * 10 + digits[3])
    assert sequences.guessed("addition", 2) == pytest.approx(sums.max() / 10**4)
    most = np.mean([np.bincount(values).max() / 4 for values in digits.T])
    assert sequences.guessed("recall", 4) == pytest.approx(most, abs=0.01)


@pytest.mark.parametrize(
    ("name", "shares", "told"),
    [
        ("parity", (0.45, 0.68), "no encoding does better than guessing (none 0.565; guessing 0.5"),
        ("parity", (0.52, 0.53, 0.535), "no encoding does better than guessing (none 0.528; "),
        ("parity", (0.95, 0.98), "none does best (none 0.965; guessing 0.500)"),
        ("copy", (0.0, 0.01), "no encoding solves them (none 0.005; guessing 0.000)"),
    ],
)
def test_no_encoding_does_best_that_guesses(name, shares, told):
    rows = [
        {"dataset": name, "encoding": "none", "seed": seed, "trained": 4, "length": n}
        | {"exact": exact, "reason": "", "seconds": 1.0}
        for seed, share in enumerate(shares)
        for n, exact in ((4, 1.0), (16, share))
    ]
    found = causal.summarize_causal(rows, Options(encoding=("none",), seeds=len(shares)))
    assert told in causal.conclude_causal(found.datasets[0])
