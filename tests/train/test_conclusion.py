"""What training showed, in one to three sentences for each dataset and encoding."""

import csv
import re
from dataclasses import replace

import pytest

from pefourier.train.conclusion import conclude_training, conclusions_of, sum_up_differences
from pefourier.train.statistics import Difference, Mean
from pefourier.train.summary import DatasetSummary

APART = Difference("sinusoidal", 0.05, 0.02, 0.08, 0.004, 0.01, 0.004, 0.9, 0.01, 0.09)
ONE = DatasetSummary(
    dataset="smd",
    split="blocks",
    leaky=False,
    length=100,
    seeds=8,
    folds=5,
    scores={
        "sinusoidal": {"f1": Mean(0.5, 0.45, 0.55)},
        "dft": {"f1": Mean(0.55, 0.5, 0.6)},
    },
    differences={"dft": APART},
    auprc_differences={"dft": APART},
    diverged={},
    runs={"sinusoidal": 40, "dft": 40},
    last_kept={},
    cut_short=(),
    params={},
    verdicts=("",),
)
DFT = "It reaches F1 0.550 (95 % 0.500 … 0.600) over 40 runs."


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, f"{DFT} That is better than sinusoidal (difference +0.050, Holm p 0.01)."),
        (
            {"differences": {"dft": replace(APART, mean=-0.05)}},
            f"{DFT} That is worse than sinusoidal (difference -0.050, Holm p 0.01).",
        ),
        (
            {"differences": {"dft": replace(APART, folds_low=-0.02)}},
            f"{DFT} That is better than sinusoidal on these windows, others may differ (difference "
            "+0.050, Holm p 0.01).",
        ),
        (
            {"differences": {"dft": replace(APART, p_holm=0.3)}},
            f"{DFT} The data do not tell it from sinusoidal (difference +0.050, Holm p 0.3).",
        ),
        (
            {"differences": {"dft": replace(APART, p_holm=0.5, p_floor=0.5)}},
            f"{DFT} So few runs could not tell it from sinusoidal in any case (difference +0.050, "
            "Holm p 0.5); give more --seeds.",
        ),
        (
            {"leaky": True},
            "Windows were shuffled, which leaks: the scores do not carry over to new data. "
            f"{DFT} That is better than sinusoidal (difference +0.050, Holm p 0.01).",
        ),
        (
            {"diverged": {"dft": 3}},
            "3 of 40 runs diverged at once; try a smaller --rate. "
            f"{DFT} That is better than sinusoidal (difference +0.050, Holm p 0.01).",
        ),
        (
            {"cut_short": ("dft",)},
            "Its training was cut short, so that there is no verdict on it; give more --epochs. "
            f"{DFT}",
        ),
        (
            {"cut_short": ("sinusoidal",)},
            f"{DFT} There is no verdict: the training of what it is compared with was cut short.",
        ),
    ],
    ids=[
        *("better", "worse", "in doubt", "not told", "too few", "leaky", "diverged"),
        *("cut short", "reference cut short"),
    ],
)
def test_what_is_said_of_an_encoding(change, told):
    assert conclude_training(replace(ONE, **change), "dft") == told


def test_what_is_said_of_the_reference():
    told = "It reaches F1 0.500 (95 % 0.450 … 0.550) over 40 runs."
    assert conclude_training(ONE, "sinusoidal") == f"{told} The others are compared with it."
    alone = replace(ONE, differences={}, seeds=1, folds=1, scores={"dft": {"f1": Mean(1, 1, 1)}})
    assert conclude_training(alone, "dft") == "It reaches F1 1.000 over 1 run."


def test_each_dataset_and_encoding_has_a_paragraph():
    lines = conclusions_of([ONE, replace(ONE, dataset="msl")]).splitlines()
    begins = [line.partition(":")[0] for line in lines if line[0] != " "]
    assert begins == ["smd, sinusoidal", "smd, dft", "msl, sinusoidal", "msl, dft"]


def test_a_hostile_name_is_escaped():
    told = conclusions_of([replace(ONE, dataset="\x1b[31m.npz")])
    assert told.startswith("\\x1b[31m.npz, sinusoidal: It reaches F1 0.500 ")


def test_train_answers_in_csv(run):
    given = ["train", "--dataset", "order:count=40,length=4", "--epochs", "1", "--seeds", "1"]
    done = run(*given, "-e", "none", "-e", "dft", "-q", "--csv")
    rows = list(csv.DictReader(done.out.splitlines()))
    assert [row["spec"] for row in rows] == ["none", "dft"]
    results = run(*given, "-e", "none", "-e", "dft", "-q", "--json").results
    assert [float(row["f1.mean"]) for row in rows] == [r["f1"]["mean"] for r in results]
    assert [row["difference.reference"] for row in rows] == ["", "none"]
    assert "conclusion" not in rows[0]
    assert all(re.search(r"\bIt reaches F1 .*\.$", r["conclusion"]) for r in results)


CHANCE = replace(APART, p_holm=0.3)


@pytest.mark.parametrize(
    ("differences", "told"),
    [
        ({}, ""),
        ({"dft": CHANCE}, "No encoding is told from sinusoidal: differences may be chance."),
        (
            {"dft": CHANCE, "dft@rms=1": replace(CHANCE, reference="sinusoidal@rms=1")},
            "No encoding is told from its own reference: differences may be chance.",
        ),
        (
            {"dft": APART, "rope": APART, "none": replace(APART, mean=-0.1), "t5": CHANCE},
            "Compared with sinusoidal, better: dft, rope; worse: none; not told from it: t5.",
        ),
        ({"dft": APART, "cut": APART}, "Compared with sinusoidal, better: dft."),
        (
            {"dft": replace(APART, folds_low=-0.02)},
            "Compared with sinusoidal, better: dft. On other windows that may differ.",
        ),
    ],
)
def test_a_dataset_is_summed_up_in_a_sentence(differences, told):
    assert sum_up_differences(replace(ONE, differences=differences, cut_short=("cut",))) == told


def test_shuffled_windows_are_not_summed_up():
    assert sum_up_differences(replace(ONE, leaky=True)) == ""
