"""How small a difference so many runs find: beside a sum over spreads, and what a critic said."""

import numpy as np
import pytest
from scipy import stats
from training import SMALL, in_lines, result

from pefourier.errors import PefourierError
from pefourier.train import power, report, statistics, summary
from pefourier.train.conclusion import conclude_training
from pefourier.train.options import Options
from pefourier.train.run import run_comparison


@pytest.mark.parametrize("freedom", [1, 2, 7, 39, 300])
@pytest.mark.parametrize("level", [0.05, 0.005])
def test_power_is_that_of_the_noncentral_t(freedom, level):
    """Over the distribution of the standard deviation, by the midpoints of equal shares."""
    spread = np.sqrt(stats.chi2.ppf((np.arange(10_000) + 0.5) / 10_000, freedom) / freedom)
    limit = stats.t.ppf(1 - level / 2, freedom) * spread
    for shift in (0.5, 2.0, 4.0, 60.0):
        exact = (stats.norm.cdf(shift - limit) + stats.norm.cdf(-shift - limit)).mean()
        assert power.power_at(shift, freedom, level) == pytest.approx(exact, abs=2e-4)
    found = power.shift_found(freedom, level)
    assert power.power_at(found, freedom, level) == pytest.approx(0.8, abs=1e-6)


def test_the_power_of_simulated_runs_is_as_foretold(rng):
    """Differences of the size that 12 runs find are found four times in five."""
    least = power.detectable_difference(0.064, 12)
    drawn = rng.normal(least, 0.064, (4000, 12))
    assert (stats.ttest_1samp(drawn, 0, axis=1).pvalue < 0.05).mean() == pytest.approx(
        0.8, abs=0.02
    )


def test_simulated_folds_that_share_training_windows_err_and_find_as_foretold(rng):
    """Of five folds, correlated as Nadeau and Bengio assume, by the interval over folds."""
    folds, ratio, spread, drawn = np.arange(5), statistics.TEST_TO_TRAIN, 0.05, 3000
    least = power.shift_found(4) * spread * (1 / 5 + ratio) ** 0.5
    shared = spread * ratio**0.5 * rng.normal(size=(drawn, 1))
    means = shared + spread * rng.normal(size=(drawn, 5))
    for true, share in ((0.0, 0.05), (least, 0.8)):
        found = [statistics.interval_over_folds(one + true, folds) for one in means]
        assert np.mean([low > 0 or high < 0 for low, high in found]) == pytest.approx(
            share, abs=0.025
        )


def test_runs_needed_are_the_fewest_that_do():
    for spread, wanted in ((0.064, 0.01), (0.064, 0.5), (0.1, 0.03)):
        n = power.enough_runs(spread, wanted)
        assert power.detectable_difference(spread, n) <= wanted
        assert n == 2 or power.detectable_difference(spread, n - 1) > wanted
    assert power.enough_runs(1.0, 1e-6) is None
    assert np.isnan(power.detectable_difference(0.1, 1))


def test_what_is_excluded_is_what_two_one_sided_tests_reject(rng):
    values = rng.normal(-0.01, 0.05, 15)
    could = power.power_of(values, np.arange(15) % 5, 0.01, 0.05)
    low, high = (
        stats.ttest_1samp(values, bound, alternative=side).pvalue
        for bound, side in ((-could.excluded, "greater"), (could.excluded, "less"))
    )
    assert max(low, high) == pytest.approx(0.05, abs=1e-9)
    means = values.reshape(3, 5).mean(axis=0)
    error = means.std(ddof=1) * (1 / 5 + 1 / 3) ** 0.5
    assert could.folds_excluded == pytest.approx(
        abs(means.mean()) + stats.t.ppf(0.95, 4) * error, rel=1e-12
    )
    shift, limit = 0.01 / stats.sem(values), stats.t.ppf(0.975, 14)
    exact = stats.nct.sf(limit, 14, shift) + stats.nct.cdf(-limit, 14, shift)
    assert could.claimed_power == pytest.approx(exact, abs=2e-4)
    assert could.detectable_holm == could.detectable
    assert power.power_of(values, np.zeros(15), 0.01, 0.01).detectable_holm > could.detectable


def test_runs_that_are_all_alike_tell_nothing_of_others():
    """Where all reach 1, no difference is excluded, however many there are."""
    could = power.power_of(np.zeros(8), np.arange(8) % 2, 0.01, 0.05)
    numbers = (could.spread, could.detectable, could.excluded, could.folds_excluded)
    assert np.isnan(numbers).all()
    assert could.claimed_runs is None
    rows = [result(e, 1.0, seed=seed) for e in ("sinusoidal", "dft") for seed in range(8)]
    found = summary.summarize_runs(rows)
    assert "excluded" not in in_lines(found)
    assert "exclude" not in report.conclude_all(found)
    (record,) = [r for r in report.json_records(found) if r["spec"] == "dft"]
    assert np.isnan(record["power"]["excluded"])


def rows_apart(rng, dataset, n=8):
    shared = rng.normal(0.5, 0.05, (n, 5))
    return [
        result(e, one, seed=seed, fold=fold, dataset=dataset)
        for e, scores in (
            ("sinusoidal", shared),
            ("dft", shared + rng.normal(0, 0.064, shared.shape)),
        )
        for (seed, fold), one in np.ndenumerate(scores)
    ]


@pytest.mark.parametrize(
    ("dataset", "claim", "words"),
    [
        ("smd", 0.010, "the paper claims +0.010 on SMD for dft"),
        ("msl", 0.018, "the paper claims +0.018 on MSL for dft"),
        ("own.npz", 0.010, "runs to find +0.010: --find"),
    ],
)
def test_an_answer_without_a_difference_says_what_it_excludes(rng, dataset, claim, words):
    found = summary.summarize_runs(rows_apart(rng, dataset))
    could = found.datasets[0].power["dft"]
    assert could.detectable == pytest.approx(0.029, abs=0.006)
    assert could.claimed == claim
    assert could.claimed_runs == power.enough_runs(could.spread, claim)
    text = in_lines(found)
    numbers = (could.spread, could.detectable, could.folds_detectable)
    ((_, cells),) = [rows for what, rows in report.tables(found) if what.endswith("detect")]
    assert cells[:4] == ["dft", *(f"{number:.3f}" for number in numbers)]
    assert cells[4:6] == [f"±{could.excluded:.3f}", f"{could.folds_excluded:.3f}"]
    assert f"runs to find {claim:+.3f}" in text
    assert words in text
    said = conclude_training(found.datasets[0], "dft")
    assert f"; differences beyond ±{could.excluded:.3f}, over folds ±" in said


def test_the_claimed_gain_has_a_one_sided_p_with_and_without_folds(rng):
    rows = rows_apart(rng, "smd")
    found = summary.summarize_runs(rows)
    f1 = {(r["encoding"], r["seed"], r["fold"]): r["f1"] for r in rows}
    d = np.array([[f1["dft", s, k] - f1["sinusoidal", s, k] for k in range(5)] for s in range(8)])
    p = stats.ttest_1samp(d.ravel(), 0.010, alternative="less").pvalue
    means = d.mean(axis=0)
    over = stats.t.cdf((means.mean() - 0.010) / (means.std(ddof=1) * (1 / 5 + 1 / 3) ** 0.5), 4)
    could = found.datasets[0].power["dft"]
    assert (could.claimed_p, could.folds_claimed_p) == pytest.approx((p, over))
    said = f"has one-sided p {p:.2g} over runs, {over:.2g} corrected for folds: these runs"
    assert f"smd: a gain of +0.010 or more, as the paper claims for dft, {said}" in in_lines(found)
    for other in (rows_apart(rng, "own.npz"), rows_apart(rng, "smd", 8)[:40]):
        assert "as the paper claims for dft, has" not in in_lines(summary.summarize_runs(other))


def test_no_interval_leaves_what_scores_can_be():
    scores = {"a": np.array([0.9, 0.1, 0.1]), "b": np.array([0.0, 0.3, 0.9])}
    one = statistics.paired_differences(scores, {"b": "a"}, np.arange(3), 19.0)["b"]
    assert (one.folds_low, one.folds_high) == (-1, 1)
    could = power.power_of(np.array([-0.9, 0.2, 0.8]), np.arange(3), 0.01, 0.05, 19.0)
    assert np.isnan([could.folds_detectable, could.folds_excluded, could.detectable]).all()


def test_resamples_share_no_test_windows_by_seed(rng):
    rows = rows_apart(rng, "own.npz")
    assert "runs of a fold share its test windows, so both" in in_lines(
        summary.summarize_runs(rows)
    )
    text = in_lines(summary.summarize_runs(rows, training={"resamples": 5}))
    assert "runs of a fold share" not in text
    assert "resamples share test windows, so both" in text
    text = in_lines(summary.summarize_runs([row for row in rows if row["seed"] == 0]))
    assert "runs of a fold share" not in text


def test_power_is_told_before_training():
    said = []
    given = {**SMALL, "encoding": ("none",), "seeds": 1}
    run_comparison(Options(**given, spread=0.1), note=said.append)
    (line,) = [line for line in said if "power" in line or "spread" in line]
    assert line == (
        "order:count=60,length=6: 1 run of each encoding shows no difference (from 6 on p can fall "
        "below .05: --seeds 6); if these spread by 0.1, finding +0.010 (--find) takes 787 "
        "(--seeds 787)"
    )
    with pytest.raises(PefourierError, match="--spread must be a finite number above 0; got 0"):
        run_comparison(Options(**given, spread=0.0))


def test_the_difference_to_find_is_that_which_is_asked_for():
    said = []
    given = {**SMALL, "encoding": ("none", "sinusoidal"), "seeds": 2, "epochs": 2, "patience": 0}
    found = run_comparison(Options(**given, spread=0.1, find=0.02), note=said.append)
    (line,) = [line for line in said if "spread" in line]
    assert line.endswith("finding +0.020 (--find) takes 199 (--seeds 199)")
    (one,) = found.datasets
    assert one.power["none"].claimed == 0.02
    assert "runs to find +0.020" in in_lines(found)
    assert ": --find" in in_lines(found)
    for wrong in (0.0, 1.0, -0.1, float("nan")):
        with pytest.raises(PefourierError, match="--find must be a difference in F1 from 0 to 1"):
            run_comparison(Options(**given, find=wrong))
