"""What training showed, in one to three sentences for each dataset and encoding."""

import csv
import re
from dataclasses import replace

import pytest

from pefourier.train.conclusion import (
    conclude_datasets,
    conclude_training,
    sum_up,
    sum_up_differences,
    sum_up_lengths,
    sum_up_order,
    sum_up_power,
    verdict_word,
)
from pefourier.train.power import Power
from pefourier.train.statistics import Difference, Mean
from pefourier.train.summary import DatasetSummary, LengthScores, Summary

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
    auprc_differences={"dft": replace(APART, p_holm=1.0)},
    diverged={},
    runs={"sinusoidal": 40, "dft": 40},
    last_kept={},
    cut_short=(),
    params={},
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
            f"{DFT} That is better than sinusoidal on these windows; others may differ (difference "
            "+0.050, Holm p 0.01).",
        ),
        (
            {"differences": {"dft": replace(APART, p_holm=0.3)}},
            f"{DFT} It does not differ significantly from sinusoidal (difference +0.050, Holm p "
            "0.3).",
        ),
        (
            {
                "differences": {"dft": replace(APART, p_holm=0.3)},
                "auprc_differences": {"dft": APART},
            },
            f"{DFT} It does not differ significantly from sinusoidal (difference +0.050, Holm p "
            "0.3); by AUPRC it is better (+0.050, Holm p 0.01).",
        ),
        (
            {"differences": {"dft": replace(APART, p_holm=0.5, p_floor=0.5)}},
            f"{DFT} With so few runs no difference from sinusoidal can be significant (difference "
            "+0.050, Holm p 0.5); give --seeds 2 or more, or --resamples of data with a test part.",
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
            f"Its training was cut short, so there is no verdict on it; give more --steps. {DFT}",
        ),
        (
            {"cut_short": ("sinusoidal",)},
            f"{DFT} There is no verdict, because sinusoidal, with which it is compared, was "
            "trained too briefly: give more --steps.",
        ),
    ],
    ids=[
        *(
            "better",
            "worse",
            "in doubt",
            "not told",
            "told by AUPRC",
            "too few",
            "leaky",
            "diverged",
        ),
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


def over(*datasets, ranks=None, cliques=()):
    """The summary of some datasets."""
    return Summary("sinusoidal", datasets, ranks or {}, cliques, ())


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, "BETTER. Compared with sinusoidal by F1, better: dft (+0.050). Take"),
        (
            {"dft": replace(APART, mean=-0.05)},
            "WORSE. Compared with sinusoidal by F1, worse: dft (-0.050). Do without it",
        ),
        ({"dft": replace(APART, p_holm=0.3)}, "NO DIFFERENCE SHOWN. No encoding differs"),
        ({"dft": APART, "t5": replace(APART, mean=-0.05)}, "SOME BETTER, SOME WORSE. Compared"),
        (
            {"dft": replace(APART, p_holm=0.3), "trees": APART},
            "NO DIFFERENCE SHOWN. No encoding differs significantly from sinusoidal. Of other "
            "models, better: trees (+0.050).",
        ),
        ({"trees": APART}, "BETTER. Of other models compared with sinusoidal by F1, better: trees"),
        ({"dft": replace(APART, p_holm=0.5, p_floor=0.5)}, "NO VERDICT. With so few runs no"),
        (
            {"dft": replace(APART, folds_low=-1)},
            "BETTER. Compared with sinusoidal by F1, better: dft (+0.050). This may not hold on "
            "other test windows (no evidence over folds). Try other test windows (more folds or "
            "--resamples) before you choose by it.",
        ),
    ],
)
def test_the_verdict_on_all_comes_first(change, told):
    assert conclude_datasets(over(replace(ONE, differences=change or ONE.differences)))[
        0
    ].startswith(told)


def test_too_few_runs_show_who_was_ahead_in_each():
    few = replace(APART, p_holm=0.5, p_floor=0.5)
    found = {"dft": replace(few, better=1.0), "rope": few, "none": replace(few, better=0.0)}
    scores = {"none": {"f1": Mean(0.25, 0.2, 0.3)}, **ONE.scores}
    one = replace(ONE, scores=scores, folds=1)
    (said,) = conclude_datasets(over(replace(one, differences=found)))
    assert "give --seeds 7 or more" in said
    assert 3 * 2.0 ** (1 - 7) < 0.05 < 3 * 2.0 ** (1 - 6)
    unsaid = "So few runs cannot say whether order matters; F1 of none, the same model without "
    assert f"{unsaid}positions, is 0.250, of sinusoidal 0.500." in said
    assert "No encoding differs" not in said
    assert f"In each of {ONE.seeds} runs, better than sinusoidal: dft; worse than sinus" in said
    alone = {name: replace(d, better=0.5) for name, d in found.items()}
    assert "In each of" not in conclude_datasets(over(replace(one, differences=alone)))[0]


def test_without_a_comparison_that_comes_first():
    shuffled, cut = replace(ONE, leaky=True), replace(ONE, cut_short=("sinusoidal",))
    assert conclude_datasets(over(shuffled))[0].startswith(
        "NO VERDICT. Windows were shuffled, so training"
    )
    assert conclude_datasets(over(cut))[0].startswith("NO VERDICT. Too many runs were cut short")
    (said,) = conclude_datasets(over(replace(ONE, differences={})))
    assert said.startswith("ONE ALONE. sinusoidal is compared with nothing. It reaches F1 0.500 (")


def test_several_datasets_are_counted_and_ranked():
    far = replace(ONE, dataset="msl", differences={"dft": replace(APART, mean=0.1, folds_low=-1)})
    ranks = {"trees": 1.0, "dft": 1.5, "sinusoidal": 2.5}
    found = replace(over(ONE, far, ranks=ranks), cliques=(("dft", "sinusoidal"),))
    first, *each = conclude_datasets(found)
    assert first == (
        "BETTER. Compared with sinusoidal by F1 on 2 datasets, better: dft on 2 (up to +0.100). 1 "
        "of these 2 differences may not hold on other test windows (no evidence over folds). Take "
        "it for data like these. Of encodings, dft has the best average rank (1.50), not "
        "significantly ahead of sinusoidal (2.50)."
    )
    assert [line.partition(": ")[0] for line in each] == ["smd", "msl"]
    assert (
        "dft has"
        not in conclude_datasets(replace(found, datasets=(replace(ONE, leaky=True), far)))[0]
    )


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({}, "better"),
        ({"differences": {"dft": replace(APART, mean=-0.05, folds_low=-1)}}, "worse here"),
        ({"differences": {"dft": replace(APART, p_holm=0.3)}}, "better by AUPRC"),
        (
            {
                "differences": {"dft": replace(APART, p_holm=0.3)},
                "auprc_differences": {"dft": replace(APART, p_holm=0.3)},
            },
            "not significant",
        ),
        ({"differences": {"dft": replace(APART, p_holm=1, p_floor=1)}}, "too few runs"),
        ({"leaky": True}, "leaky split"),
        ({"cut_short": ("dft",)}, "cut short"),
        ({"cut_short": ("sinusoidal",)}, "reference cut short"),
    ],
)
def test_a_table_has_the_verdict_in_a_word_or_two(change, word):
    assert (
        verdict_word(replace(ONE, **{"auprc_differences": {"dft": APART}} | change), "dft") == word
    )


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
        ({"dft": CHANCE}, "No encoding differs significantly from sinusoidal."),
        (
            {"dft": CHANCE, "dft@rms=1": replace(CHANCE, reference="sinusoidal@rms=1")},
            "No encoding differs significantly from its own reference.",
        ),
        (
            {"dft": APART, "rope": APART, "none": replace(APART, mean=-0.1), "t5": CHANCE},
            "Compared with sinusoidal by F1, better: dft (+0.050), rope (+0.050); worse: none "
            "(-0.100); no significant difference: t5.",
        ),
        ({"dft": APART, "cut": APART}, "Compared with sinusoidal by F1, better: dft (+0.050)."),
        (
            {"dft": replace(APART, folds_low=-0.02)},
            "Compared with sinusoidal by F1, better: dft (+0.050). This may not hold on other "
            "test windows (no evidence over folds).",
        ),
    ],
)
def test_a_dataset_is_summed_up_in_a_sentence(differences, told):
    assert sum_up_differences(replace(ONE, differences=differences, cut_short=("cut",))) == told


WITHOUT = "none, the same model without positions, is"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"mean": -0.1}, f"Order matters: {WITHOUT} worse than sinusoidal"),
        ({"mean": 0.1}, f"Positions do not help: {WITHOUT} better than sinusoidal"),
        ({"p_holm": 0.2}, f"No evidence that order matters: {WITHOUT} not significantly worse"),
        ({"mean": -0.1, "folds_low": -0.2, "folds_high": 0.1}, "Order matters on these windows: "),
    ],
)
def test_whether_order_matters_is_said(change, told):
    found = replace(ONE, differences={"dft": CHANCE, "none": replace(APART, **change)})
    assert sum_up_order(found).startswith(told)
    assert sum_up_order(replace(found, cut_short=("none",))) == ""
    assert sum_up_order(ONE) == ""


def test_whether_order_matters_is_said_where_all_are_compared_with_none():
    own = replace(APART, reference="none")
    found = replace(ONE, differences={"dft": own, "order-free": own})
    assert sum_up_order(found).startswith("Order matters: dft is better than none, the same model")
    found = replace(ONE, differences={"dft": replace(own, p_holm=0.3), "order-free": own})
    assert sum_up_order(found).startswith("No evidence that order matters: no encoding")


def test_a_model_of_another_kind_does_not_say_whether_order_matters():
    worse = {"dft": CHANCE, "order-free": replace(APART, mean=-0.3)}
    said = "Add -e none, the same model without positions, to see whether order matters."
    assert sum_up_order(replace(ONE, differences=worse)) == said
    beside = {"order-free": replace(APART, reference="none")}
    said = "Add an encoding with positions beside none to see whether order matters."
    assert sum_up_order(replace(ONE, differences=beside)) == said
    alike = worse | {"none": CHANCE}
    said = sum_up_order(replace(ONE, differences=alike))
    assert said.startswith("No evidence that order matters")


def test_how_many_runs_the_wanted_difference_takes_is_said():
    could = Power(40, 0.3, 0.1, 0.1, 0.1, 0.1, 0.1, 0.02, 0.1, 1768)
    found = replace(ONE, power={"dft": could})
    assert sum_up_power(found) == (
        "With the spread of these runs, detecting +0.020 in F1 on these windows takes up to 1768 "
        "runs of each encoding (--seeds 354)."
    )
    enough = {"dft": replace(could, claimed_runs=39)}
    assert sum_up_power(replace(ONE, power=enough)) == sum_up_power(ONE) == ""


def test_what_is_compared_with_a_training_that_was_cut_short_is_not_summed_up():
    assert sum_up_differences(ONE) != ""
    assert sum_up_differences(replace(ONE, cut_short=("sinusoidal",))) == ""


def test_shuffled_windows_are_not_summed_up():
    assert sum_up_differences(replace(ONE, leaky=True)) == ""


def at(length, mean, low, high, reason=""):
    own = None if reason else Mean(mean, low, high)
    return LengthScores(length, own, own, own, reason)


def lengths(**means):
    """Each encoding at 48 rows, where all are alike, and at 96."""
    own = Mean(0.99, 0.98, 1.0)
    scores = {name: {"f1": own, "accuracy": own} for name in means}
    known = {name: (at(48, 0.9, 0.8, 1.0), at(96, *mean)) for name, mean in means.items()}
    return replace(ONE, length=24, scores=scores, differences={}, lengths=known)


TAPE, ROPE, NONE = (0.93, 0.92, 0.94), (0.7, 0.6, 0.8), (0.5, 0.49, 0.51)


@pytest.mark.parametrize(
    ("means", "told"),
    [
        (
            {"none": NONE, "tape": TAPE, "rope": ROPE},
            "tape is most accurate (0.930; 0.990 at 24), the others tested have 0.500 to 0.700.",
        ),
        (
            {"none": NONE, "tape": TAPE, "rope": (0.9, 0.8, 0.95)},
            "tape and rope are most accurate (0.900 to 0.930), none has 0.500.",
        ),
        (
            {"none": (0.6, 0.3, 0.95), "tape": TAPE},
            "no encoding is clearly most accurate, as all their intervals overlap.",
        ),
        (
            {"none": NONE, "tape": TAPE, "dft": (0, 0, 0, "its codes end")},
            "tape is most accurate (0.930; 0.990 at 24), none has 0.500; dft cannot be tested "
            "there.",
        ),
    ],
    ids=["one", "two", "overlap", "one is not tested"],
)
def test_which_encoding_goes_on_best(means, told):
    said = f"Trained on 24 rows and tested on 96, over 40 runs, {told}"
    found = lengths(**means)
    assert sum_up_lengths(found) == sum_up(found) == said
    assert sum_up_lengths(replace(found, leaky=True)) == ""
    ahead = sum_up_lengths(replace(found, cut_short=("tape",)))
    more = "tape (0.930) was cut short, and longer training may raise it."
    assert ahead == said.removesuffix(".") + f"; {more}"


def test_who_was_cut_short_and_is_behind_has_no_part():
    found = replace(lengths(none=NONE, tape=TAPE, rope=ROPE), cut_short=("rope", "none"))
    assert sum_up_lengths(found) == ""
    assert sum_up_lengths(replace(found, cut_short=("rope",))).endswith(
        "none has 0.500; rope (0.700) was cut short, and longer training may raise it."
    )
    assert sum_up_lengths(replace(found, cut_short=("none", "rope", "tape"))) == ""


def test_an_encoding_between_two_that_lead_is_among_the_others():
    found = lengths(a=(0.93, 0.92, 0.94), b=(0.9, 0.89, 0.91), c=(0.85, 0.6, 0.95))
    assert sum_up_lengths(found).endswith(
        "a and c are most accurate (0.850 to 0.930), b has 0.900."
    )


def test_touching_intervals_overlap():
    found = lengths(a=(0.93, 0.92, 0.94), b=(0.9, 0.88, 0.92), c=(0.5, 0.4, 0.6))
    assert "a and b are most accurate" in sum_up_lengths(found)


def test_chance_is_said_of_lengths():
    known = {"none": [[30, 20], [10, 40]]}
    found = replace(lengths(none=NONE, tape=TAPE), confusion=known)
    chance = "always naming the commonest class has 0.500."
    assert sum_up_lengths(found).endswith(f"none has 0.500; {chance}")
    found = replace(lengths(none=NONE, dft=(0.52, 0.49, 0.6)), confusion=known)
    told = "no encoding differs significantly from chance; the best, dft, has 0.520; "
    assert sum_up_lengths(found).endswith(f"{told}{chance}")


def test_one_run_has_no_intervals_and_still_an_order():
    nan = float("nan")
    found = replace(lengths(a=(0.9, nan, nan), b=(0.5, nan, nan)), seeds=1, folds=1)
    assert sum_up_lengths(found) == (
        "Trained on 24 rows and tested on 96, over 1 run, a is most accurate (0.900; 0.990 at 24), "
        "b has 0.500."
    )
    assert sum_up_lengths(replace(found, lengths={})) == ""
