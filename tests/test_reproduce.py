"""The recomputed paper: claims have the numbers of theory, and files are whole."""

import json
from pathlib import Path

import numpy as np
import pytest
from training import result

from pefourier.report import plot
from pefourier.reproduce import (
    all_claims,
    read_summaries,
    recompute_paper,
    results_folder,
)
from pefourier.train.run import write_summary
from pefourier.train.statistics import summarize_runs
from pefourier.train.store import Store
from pefourier.writing.escapes import in_markdown

pytestmark = pytest.mark.usefixtures("sketched")


@pytest.fixture(scope="module")
def claims():
    return all_claims()


def find(claims, where, part=""):
    (claim,) = [c for c in claims if c.where == where and part in c.statement]
    return claim


EXACT, SENSE = "largest error below 1e-14", "holds in another sense"
CLAIMS = [
    ("Eq. 16", "256", "103.04", "holds"),
    ("Eq. 16", "512", "244.62", "holds"),
    ("text after Eq. 16", "256", "76 of 128 = 59%", SENSE),
    ("text after Eq. 16", "512", "133 of 256 = 52%", SENSE),
    ("Eqs. 10, 13", "", EXACT, "holds"),
    ("Eq. 12", "", EXACT, "holds"),
    ("Eqs. 17, 18, 20", "", "largest difference below 1e-14", "holds"),
    ("Eq. 19", "", "at s = 40 φ_K is 0.0491, b_K -0.0735: l2 error 0.123", "does not hold"),
    ("Eq. 21", "", "largest difference below 1e-14; all distances √2 = 1.414214", "holds"),
    ("Eq. 22", "", "0.003906 at 0 and π, 0.007812 between", "holds"),
    ("text on Fig. 2", "perfectly", "l2 error 0.0442, peak 0.99902", SENSE),
    ("text on Fig. 2", "30", "11.9 at half height, 30 at 13.4% of the peak", SENSE),
    ("Fig. 2", "", "12 of 12 over sinusoidal, dft, learned, ramp", "holds"),
    ("Definition 1", "", "smallest distance 2.67 > 0; rank 42 of 80", SENSE),
    ("Theorem 1", "", f"{EXACT}, verdict isometric", "holds"),
    ("Table 1", "SMD", "–", "not yet compared"),
    ("Table 1", "Elevator", "–", "private data"),
]


def test_a_picture_of_the_same_numbers_stays_as_it_is(tmp_path, monkeypatch):
    saved = []

    def save(path, _draw, _answers, look):
        saved.append(path)
        Path(path).write_text(look.keywords)

    monkeypatch.setattr(plot, "save", save)
    recompute_paper(tmp_path)
    recompute_paper(tmp_path)
    assert len(saved) == 4
    (tmp_path / "figure1.png").write_text("of other numbers")
    recompute_paper(tmp_path)
    assert saved[4:] == [str(tmp_path / "figure1.png")]


@pytest.mark.parametrize(("where", "part", "computed", "verdict"), CLAIMS)
def test_claims(claims, where, part, computed, verdict):
    claim = find(claims, where, part)
    assert claim.computed.startswith(computed)
    assert claim.verdict == verdict


def test_indices_of_the_lowest_bin_are_even_and_above_the_root_of_equation_16(claims):
    assert "104 … 254" in find(claims, "Eq. 16", "256").reason  # the root is 103.04


def trained(folder, gains, *, leaky=False, folds=5, step=1):
    """Write a folder like that of `pefourier train`, with dft better than sinusoidal by `gains`."""
    split = {"split": "random" if leaky else "blocks", "leaky": leaky}
    facts = {"dataset": "smd", "length": 64, "step": step, **split}
    facts |= {"budget": {"steps": 10, "patience": 0, "every": 1}, "windows": 1200, "trained": 3600}
    rows = [
        result(name, 0.5 + gain, seed=run // folds, fold=run % folds, **facts)
        for name, own in (("sinusoidal", [0.0] * len(gains)), ("dft", gains))
        for run, gain in enumerate(own)
    ]
    folder.mkdir()
    write_summary(Store(folder), summarize_runs(rows, training={}))


TABLE_1 = [
    ([[0.1] * 20], "holds"),
    ([[-0.1] * 20], "does not hold"),
    ([[0.001, -0.001] * 10], "not supported by the data"),
    ([[0.1] * 20, [0.001, -0.001] * 10], "not supported by the data"),
    ([[0.1] * 20, [0.4, *[-0.1] * 4] * 4], "holds"),  # folds too different for a conclusion
    ([[0.4, *[-0.1] * 4] * 4], "not supported by the data"),
    ([[0.1] * 20, [-0.1] * 20], "not supported by the data"),
]


@pytest.mark.parametrize(("gains", "verdict"), TABLE_1)
def test_table_1_is_filled_from_what_training_left(tmp_path, gains, verdict):
    for i, own in enumerate(gains):
        trained(tmp_path / f"run{i}", own)
    trained(tmp_path / "run-leaky", [0.4] * 20, leaky=True)
    claims, _ = recompute_paper(str(tmp_path))
    claim = find(claims, "Table 1", "SMD")
    assert claim.verdict == verdict
    after = f"{0.5 + np.mean(gains[0]):.3f}"
    first, *rest = claim.computed.split("; ")
    assert first == f"0.500 / 0.500 / 0.500 → {after} / {after} / {after}"
    assert len(rest) == len(gains) - 1
    assert "which leak into the test set, F1 is 0.500 → 0.900." in claim.reason
    assert find(claims, "Table 1", "MSL").verdict == "not yet compared"


@pytest.mark.parametrize("how", [{"folds": 1}, {"step": 10}])
def test_one_fold_or_too_short_a_training_supports_no_claim(tmp_path, how):
    trained(tmp_path / "run", [0.1] * 20, **how)
    claims, _ = recompute_paper(str(tmp_path))
    assert find(claims, "Table 1", "SMD").verdict == "not supported by the data"


@pytest.mark.parametrize("text", ["", "[]", "{}", "\xff", '{"datasets": [{}]}'])
def test_a_foreign_summary_is_stated(tmp_path, refused, text):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "summary.json").write_bytes(text.encode("latin-1"))
    assert "summary.json" in refused("reproduce --out", tmp_path)


@pytest.mark.drawn
def test_files_are_written_whole_into_a_new_folder(tmp_path, run):
    out = tmp_path / "deep" / "figures"
    assert run("reproduce --out", out).status == 0
    names = {f"figure{n}.{kind}" for n in (1, 2) for kind in ("pdf", "png")}
    names |= {"reproduction.json", "reproduction.md"}
    assert {p.name for p in out.iterdir()} == names
    answer = json.loads((out / "reproduction.json").read_text())
    assert [r["computed"] for r in answer["results"]] == [
        claim.computed for claim in all_claims(read_summaries(results_folder()))
    ]
    pages = (out / "reproduction.md").read_text()
    assert all(in_markdown(record["reason"]) in pages for record in answer["results"])
