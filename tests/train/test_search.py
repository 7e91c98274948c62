"""Nested choice of settings: by validation only, separately for each run, with equal budgets."""

from dataclasses import asdict, replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from training import SMALL, numbers

from pefourier.errors import PefourierError
from pefourier.train import ensembles, report, run, work
from pefourier.train.data.load import load_task
from pefourier.train.options import Options
from pefourier.train.request import list_candidates

ASKED = {
    **SMALL,
    "dataset": ("order:count=100,length=6",),
    "encoding": ("none", "dft", "rope", "order-free"),
    "epochs": 4,
    "search": ("rate=1e-3,1e-2", "dropout=0,.3"),
}


def test_a_run_is_the_one_of_the_settings_it_chose():
    found, alone = run.run_comparison(Options(**ASKED)), {}
    candidates = list_candidates(Options(**ASKED))
    assert len(candidates) == 4
    for one in candidates:
        for row in run.run_comparison(Options(**{**ASKED, "search": (), **asdict(one)})).runs:
            alone.setdefault((row["encoding"], row["seed"]), []).append((asdict(one), row))
    for row in found.runs:
        chosen = row["chosen"].items()
        every = alone[row["encoding"], row["seed"]]
        (same,) = [other for values, other in every if values.items() >= chosen]
        np.testing.assert_allclose(numbers([row])[0][4:], numbers([same])[0][4:], atol=1e-3)
    assert len({tuple(row["chosen"].items()) for row in found.runs}) > 1
    (record,) = [r for r in report.json_records(found) if r["spec"] == "dft"]
    for setting in ("rate", "dropout"):
        assert sum(one["runs"] for one in record["chosen"] if one["setting"] == setting) == 2


def test_test_windows_do_not_affect_the_search(monkeypatch):
    """Permuted labels of test windows change no choice and no step."""
    task = load_task("order:count=100,length=6")
    mixed, tested = task.labels.copy(), task.folds[0].test
    mixed[tested] = 1 - mixed[tested]
    chosen, f1 = [], []
    for own in (task, replace(task, labels=mixed)):
        monkeypatch.setattr(ensembles, "load_task", lambda *_, own=own: own)
        rows = run.run_comparison(Options(**ASKED)).runs
        chosen.append([(r["encoding"], r["seed"], r["step"], r["chosen"]) for r in rows])
        f1.append([r["f1"] for r in rows])
    assert chosen[0] == chosen[1]
    assert f1[0] != f1[1]


def test_the_best_on_validation_is_kept_then_the_least_loss_then_the_first(monkeypatch):
    found = [(0.5, 1.0), (0.9, 2.0), (0.9, 1.0), (0.9, 1.0)]
    monkeypatch.setattr(work, "score_and_loss", lambda _task, _fold, valid: found[valid])
    member = SimpleNamespace(fold=0)
    tried = [SimpleNamespace(finite=False)]
    tried += [SimpleNamespace(finite=True, member=member, valid=i) for i in range(4)]
    assert max(tried, key=partial(work.rank_candidate, None)) is tried[3]


@pytest.mark.parametrize(
    "given",
    [
        *("rat=1", "rate", "rate=1,,2", "rate=x", "rate=1,2 rate=3", "rate=1,1.0", "rate=0", "d=9"),
        "rate=" + ",".join(map(str, range(1, 66))),
    ],
)
def test_searches_that_cannot_be_are_refused(given):
    with pytest.raises(PefourierError, match=r"--search|^--rate") as caught:
        run.run_comparison(Options(**{**ASKED, "search": (given,)}))
    assert "\n" not in str(caught.value)
