"""Scores, tests, intervals and ranks equal their definitions."""

import numpy as np
import pytest
import simulate_tests as simulation
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.metrics import (
    average_precision_score,
    f1_score,
    precision_recall_fscore_support,
)

from pefourier.train import run_artifacts as metrics
from pefourier.train import statistics
from pefourier.train.statistics import Chance, chance_of, window_variance
from pefourier.train.store import MEASURES

ONE_FOLD, FIVE = Chance(np.zeros(6)), np.arange(5)


def differences(runs, references, chance):
    """Return the difference of each encoding from its reference."""
    found = statistics.compare_pairs(runs, references.items(), chance)
    return dict(zip(references, found, strict=True))


def test_holm_and_differences_are_their_definitions():
    assert_allclose(statistics.holm([0.01, 0.04, 0.03, 0.9]), [0.04, 0.09, 0.09, 0.9])
    runs = {"a": np.full(6, 0.5), "b": np.array([0.5, 1, 1, 1, 1, 0])}
    found = differences(runs, {"b": "a"}, ONE_FOLD)["b"]
    assert (found.better, found.mean, found.units) == (4.5 / 6, 0.25, 6)


def test_wilcoxons_p_is_that_of_all_sign_patterns(rng):
    scores = rng.normal(size=(7, 3)) + np.array([0, 0.5, 2.5])

    def exact(d):
        return stats.wilcoxon(d, method=stats.PermutationMethod()).pvalue

    pairs = [(0, 1), (0, 2), (1, 2)]
    p = statistics.holm([exact(scores[:, i] - scores[:, j]) for i, j in pairs])
    found = statistics.wilcoxon_holm(scores)
    assert_allclose([found[i, j] for i, j in pairs], p)
    assert_array_equal(found, found.T)
    assert statistics.wilcoxon_holm(np.ones((4, 2)))[0, 1] == 1.0
    assert statistics.signed_rank_p(np.ones(40)) < 0.001
    tied, long = rng.integers(-3, 4, 11) / 4, rng.normal(0.4, 1, 25)
    assert statistics.signed_rank_p(tied) == pytest.approx(exact(tied))
    expected = stats.wilcoxon(long, method="exact").pvalue
    assert statistics.signed_rank_p(long) == pytest.approx(expected)


def test_a_significant_pair_in_the_middle_splits_a_clique():
    p = np.ones((4, 4))
    p[1, 2] = p[2, 1] = 0.01  # a significant pair in the middle splits a clique
    ranks = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}
    assert statistics.cliques(ranks, p) == [("a", "b"), ("c", "d")]


def test_intervals_are_percentiles_of_resamples():
    # the percentile is 0.095%; of all 5^5 resamples 0.03% sum to 0, 0.19% to 1 or less
    assert statistics.interval(np.array([0.0, 1, 2, 4, 8])).low == pytest.approx(1 / 5)
    alone = statistics.interval(np.array([0.5]))
    assert np.isnan([alone.low, alone.high]).all()


def test_folds_as_units_have_scipys_t_and_the_corrected_variance(rng):
    d, folds, order = rng.uniform(size=(2, 12)) / 9, np.repeat(range(4), 3), rng.permutation(12)
    means = (d[1] - d[0]).reshape(4, 3).mean(axis=1)
    # Nadeau and Bengio, 2003: the variance of the mean of J folds is s^2 (1/J + n_test/n_train)
    wide = means.std(ddof=1) * (1 / 4 + (1 / 5) / (3 / 5)) ** 0.5
    runs = {"a": d[0][order], "b": d[1][order]}
    found = differences(runs, {"b": "a"}, Chance(folds[order]))["b"]
    low, high = stats.t.interval(0.95, 3, loc=means.mean(), scale=wide)
    assert_allclose([found.low, found.high], [low, high])
    assert (found.over, found.units) == ("folds", 4)
    assert found.p == pytest.approx(2 * stats.t.sf(abs(means.mean()) / wide, 3))


@pytest.mark.parametrize(("deviation", "ratio"), [(0.06, 0.0), (0.1, 0.0), (0.03, 1 / 3)])
def test_enough_units_find_what_was_requested_about_as_often_as_stated(deviation, ratio, rng):
    units = statistics.units_needed(deviation, 0.1, Chance(FIVE, ratio) if ratio else ONE_FOLD)
    error = deviation * (1 / units + ratio) ** 0.5 * units**0.5
    drawn = 0.1 + rng.normal(0, error, (400, units))
    found = np.mean([statistics.t_test(d, ONE_FOLD)[0] < 0.05 for d in drawn])
    assert found == pytest.approx(0.8, abs=0.12) or units == statistics.LEAST_UNITS
    third, least = Chance(FIVE), statistics.LEAST_UNITS
    runs = [Chance(np.zeros(8), windows=n) for n in (20, 2000)]  # two of 20 windows
    for spread, chance, needed in (
        *((0.064, third, None), (0.0, third, least), (np.nan, third, least)),
        *((0.0, runs[0], None), (0.0, runs[1], 4), (0.0, Chance(FIVE, windows=20), None)),
    ):
        assert statistics.units_needed(spread, 0.1, chance) == needed


def test_nothing_is_surer_than_its_windows():
    """Runs that all classify two of 20 windows otherwise show no difference; folds of 500 do."""
    same, spread = np.full(8, 0.1), np.array([0.0, 0.1, 0.2, 0.1])
    few, many = (Chance(np.zeros(8), windows=n) for n in (20, 2000))
    p = [statistics.t_test(same, chance)[0] for chance in (few, many)]
    assert p[0] > 0.1 > 100 * p[1]
    for values, chance, variance in (
        (same, few, 0.1 * 0.9 / 20),
        (spread, Chance(np.zeros(4), windows=50), spread.var(ddof=1) / 4 + 0.1 * 0.9 / 50),
        (spread, Chance(FIVE, windows=10), 0.1 * 0.9 / 10),
    ):
        n, mean = len(values), float(values.mean())
        error, _ = chance.error(float(values.var(ddof=1)), n, mean)
        assert error == pytest.approx(variance**0.5)
    for value, p in ((0.0, 1.0), (0.25, 0.0)):  # all equal: no noise
        assert statistics.t_test(np.full(5, value), Chance(FIVE)) == (p, value, value)


def test_the_draw_of_few_windows_is_added_to_the_spread_of_trainings():
    chance = Chance(FIVE, variances={"a": 0.003}, number=40)
    training = (0.02 - 5 * 0.003) * (1 / 5 + 1 / 3)

    def finds(windows):
        error, degrees = chance.error(0.02, 5, 0.0, "a", windows / 40)
        assert error**2 == pytest.approx(0.003 / (windows / 40) + training)
        assert degrees == pytest.approx(4 * (error**2 / training) ** 2)
        return error * statistics.detectable(degrees) <= 0.2

    needed = statistics.windows_needed(0.2, 0.02**0.5, chance, "a")
    assert [finds(windows) for windows in (needed - 4, needed)] == [False, True]


def test_what_resamples_share_is_added_to_their_spread():
    """Above one test window per training window another variance applies; at one both are equal."""
    spread, units, drawn = 0.04**2, 10, 0.02**2
    for ratio, variance in (
        (0.5, spread * (1 / 10 + 0.5)),
        (1.0, spread * (1 / 10 + 1)),
        (1 + 1e-12, spread * (1 / 10 + 1)),
        (4.0, spread * (1 / 10 + 1 / 4) + (1 - 1 / 16) * drawn),
    ):
        error, _ = Chance(FIVE, ratio, variances={"a": drawn / 3, "b": 2 * drawn / 3}).error(
            spread, units, 0.0, "ab"
        )
        assert error == pytest.approx(variance**0.5, abs=1e-9)
    redrawn = Chance(FIVE, 0.5, variances={"a": 0.05**2}, are_redrawn=True)
    assert redrawn.error(spread, units, 0.0, "ab")[0] == 0.05  # no more certain than all windows


@pytest.mark.parametrize("positive", [True, False])
def test_the_variance_of_a_window_is_that_of_drawn_tables(rng, positive):
    """Scores of 4000 multinomial tables of 2000 windows spread as the delta method predicts."""
    p = (
        np.array([[0.5, 0.1], [0.05, 0.35]])
        if positive
        else rng.dirichlet(np.ones(9)).reshape(3, 3)
    )
    tables = rng.multinomial(2000, p.ravel(), 4000).reshape(-1, *p.shape)
    right = np.diagonal(tables, axis1=1, axis2=2)
    f1 = 2 * right / (tables.sum(axis=1) + tables.sum(axis=2))
    scores = f1[:, 1] if positive else f1.mean(axis=1)
    found = window_variance(1000 * p, positive=positive) / 2000
    assert found == pytest.approx(scores.var(), rel=0.1)
    with_absent = np.pad(p, (0, 1))  # a class without windows has no effect
    if not positive:
        assert window_variance(with_absent, positive=False) == pytest.approx(2000 * found)


def rows_of(folds, windows, trained, positive=None):
    return [
        {"fold": f, "windows": windows, "trained": trained, "positive": positive}
        for f in range(folds)
    ]


@pytest.mark.parametrize(
    ("rows", "table", "windows", "rarest", "are_redrawn"),
    [
        (rows_of(5, 20, 60), [[45, 5], [5, 45]], 100, 50, False),
        (rows_of(10, 1000, 50), [[450, 50], [50, 450]], 1050, 525, True),
        (rows_of(5, 200, 600, "b"), [[900, 0], [60, 40]], 200, 100, False),
        (rows_of(5, 200, 600), [[900, 0], [60, 40]], 360, 100, False),
        (rows_of(5, 20, 60), [[94, 2], [2, 2]], 15.36, 4, False),
    ],
)
def test_windows_count_as_those_of_classes_of_one_size(rows, table, windows, rarest, are_redrawn):
    folds = np.arange(len(rows))
    found = chance_of(rows, {"a": np.array(table)}, folds)
    assert (found.are_redrawn, found.rarest) == (are_redrawn, pytest.approx(rarest))
    assert found.windows == pytest.approx(windows)


def test_a_class_of_a_handful_of_windows_hides_differences():
    """With nine windows in a class no number of runs suffices; with ten the least number does."""
    runs = {"a": np.full(8, 0.9), "b": np.full(8, 0.9)}
    for rarest, needed in ((9, None), (10, statistics.LEAST_UNITS)):
        chance = Chance(np.zeros(8), windows=2000, rarest=rarest)
        assert differences(runs, {"b": "a"}, chance)["b"].needed == needed


@pytest.mark.long
@pytest.mark.parametrize("name", simulation.LEARNERS)
@pytest.mark.parametrize(("folds", "ratio"), [(5, None), (10, 0.25), (10, 5), (30, 1), (10, 20)])
def test_noise_of_learners_is_distinguished_in_a_twentieth_at_most(name, folds, ratio):
    noise = simulation.rates(simulation.LEARNERS[name], folds, ratio, 0.0, 150, seed=1)[1]
    assert noise[-1] <= 0.05 + 2 * (0.05 * 0.95 / 150) ** 0.5


def test_the_threshold_has_the_best_f1_halfway_to_the_next_score(rng):
    score, true = rng.normal(size=50).round(1), rng.random(50) < 0.3
    found = f1_score(true, score >= metrics.best_threshold(score, true))
    assert found == max(f1_score(true, score >= level) for level in score)
    tied = np.array([4.0, 3, 2, 1]), np.array([True, False, False, True])
    assert metrics.best_threshold(*tied) == 3.5  # the highest of equally good thresholds


def defined(chosen, margin, true):
    """Return precision, recall, F1 and average precision of a class, by scikit-learn."""
    scores = precision_recall_fscore_support(true, chosen, average="binary", zero_division=0)
    return *scores[:3], average_precision_score(true, margin) if true.any() else 0.0


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(("classes", "macro"), [(2, False), (2, True), (3, True)])
def test_what_is_stated_is_what_is_scored(seed, classes, macro):
    """With ties, absent classes and classes that are never predicted; to 1e-12."""
    rng = np.random.default_rng(seed)
    logits, labels = rng.normal(size=(40, classes)).round(1), rng.integers(0, classes, 40)
    labels[labels == seed % 4] = 0  # some class may be missing
    margin = logits[:, 1] - logits[:, 0]
    chosen = metrics.decide(logits, None if macro else 0.25)
    assert_array_equal(chosen, logits.argmax(axis=1) if macro else margin >= 0.25)
    found = metrics.score(chosen, logits, labels, macro=macro)
    columns = logits if classes == 3 else np.column_stack([-margin, margin])
    judged = np.unique(labels) if macro else [1]
    each = [defined(chosen == c, columns[:, c], labels == c) for c in judged]
    expected = [*np.mean(each, axis=0), np.mean(chosen == labels)]
    assert list(found) == list(MEASURES)
    assert [*found.values()] == pytest.approx(expected, rel=1e-12, abs=1e-12)
    validated = metrics.score(logits.argmax(axis=1), logits, labels, macro=macro)
    own = metrics.validation_score(logits, labels, macro=macro)
    assert own == pytest.approx(validated["f1" if macro else "auprc"], abs=1e-12)
