"""Error rate and power of the test of differences, simulated: `make -C figures simulation.md`.

Two classifiers are trained on separate columns of windows of two classes with the same truth, on
five folds or on resamples of all N windows. For noise, the columns of both are drawn from one
distribution, and neither is better; otherwise the classes of the second are further apart. What a
learner learns depends on training windows not at all (fixed), little (centroids of two columns),
much (of thirty; 1-NN) or by choice of a column (stump). F1 of the second class is compared with
the variance of Nadeau and Bengio, the same with a ratio of at most 1, and
`pefourier.train.statistics`.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import special

from pefourier.train import statistics
from pefourier.train.statistics import Chance, chance_of

DRAWS = 400
SMALLEST = 60  # training windows, if there are more test windows; otherwise 300 windows of both
BETTER = 0.8  # added distance between the classes for the second classifier
COMMON = 0.3  # shared part of the variance of columns
FOLDS = (5, 10, 30)  # the first is cross-validation, with a fold for validation
RATIOS = (0.25, 1, 5, 15, 20)
METHODS = ("whole", "at most 1", "chosen")
HEADLINES = 4000  # draws
SPREAD = 0.02  # standard deviation of F1 over runs
GAPS = {8: 0.04, 30: 0.02}  # in F1, by the number of runs
LEVELS = {  # gaps below the best of each encoding; the first is the reference
    "all equal": (0, 0, 0, 0, 0, 0),
    "reference and two are best": (0, 0, 0, 9, 9, 9),
    "three others are best": (9, 0, 0, 0, 9, 9),
    "reference is best": (0, 1, 1, 1, 1, 1),
    "another is best": (1, 0, 1, 1, 1, 1),
    "one is worse": (0, 0, 0, 0, 0, 1),
    "reference in the middle": (0.5, 0, 0, 0, 1, 1),
}
PROCEDURES = ("two families", "one family", "chosen")
SERIES = ((40, 1), (40, 3), (20, 5), (140, 1))  # their number, and windows of each
LUCK = (0.0, 0.03, 0.06, 0.1)  # deviation of the share of windows that a training gets right
LEVEL, ALIKE = 0.75, 0.5  # that share, and the common part of what makes a window hard
PLANTED = 0.2  # more of that share for the second classifier
FEW_DRAWS = 1500
PAIRED = ("whole", "windows", "series", "chosen")


@dataclass(frozen=True)
class Learner:
    """A learner, its number of columns, and the total distance of their classes."""

    name: str
    columns: int
    apart: float

    def predict(self, x, y, training):
        """Return the class of every window (N,) after training on each fold (J, N)."""
        if self.name == "fixed":
            sums = x.sum(axis=1)
            return np.repeat([sums > np.sqrt(self.columns) * self.apart / 2], len(training), axis=0)
        if self.name == "1-NN":
            squares = (x * x).sum(axis=1)
            distances = squares[:, None] + squares - 2 * x @ x.T
            known = map(np.flatnonzero, training)
            return np.array([y[rows[distances[:, rows].argmin(axis=1)]] for rows in known])
        means = [(training & of) @ x / (training & of).sum(axis=1)[:, None] for of in (~y, y)]
        weights, middle = means[1] - means[0], (means[0] + means[1]) / 2
        if self.name == "stump":
            weights = np.eye(self.columns)[weights.argmax(axis=1)]
        return weights @ x.T > (weights * middle).sum(axis=1)[:, None]


LEARNERS = {
    "fixed": Learner("fixed", 1, 1.8),
    "centroids of 2": Learner("centroids", 2, 1.8),
    "centroids of 30": Learner("centroids", 30, 2.2),
    "1-NN of 5": Learner("1-NN", 5, 2.2),
    "stump of 10": Learner("stump", 10, 4.0),
}


def draw_folds(rng, y, folds, trained):
    """Return training and test windows (J, N) of cross-validation or of resamples."""
    if trained is None:
        fold = rng.permutation(np.arange(len(y)) % folds)
        number = np.arange(folds)[:, None]
        return (fold != number) & (fold != (number + 1) % folds), fold == number
    training = np.zeros((folds, len(y)), dtype=bool)
    positives = round(trained * y.mean())
    for row in training:
        for of, count in ((y, positives), (~y, trained - positives)):
            row[rng.permutation(np.flatnonzero(of))[:count]] = True
    return training, ~training


def compare(rng, learner, folds, ratio, better):
    """Return the differences in F1 of all folds, their chance, and the ratio of windows."""
    n = 300 if ratio is None else round(max(SMALLEST, 300 / (1 + ratio)) * (1 + ratio))
    trained = None if ratio is None else round(n / (1 + ratio))
    y = rng.permutation(n) < n / 2
    training, tested = draw_folds(rng, y, folds, trained)
    shared = rng.normal(size=(n, learner.columns))
    f1, confusions = {}, {}
    for name, apart in (("a", learner.apart), ("b", learner.apart + better)):
        own = rng.normal(size=shared.shape)
        x = np.sqrt(COMMON) * shared + np.sqrt(1 - COMMON) * own
        x[y] += apart / np.sqrt(learner.columns)
        stated = learner.predict(x, y, training)
        cells = [[(stated == s) & (y == t) & tested for s in (0, 1)] for t in (0, 1)]
        tables = np.array(cells).sum(axis=3)  # (class, prediction, J)
        confusions[name] = tables.sum(axis=2)
        f1[name] = 2 * tables[1, 1] / (2 * tables[1, 1] + tables[0, 1] + tables[1, 0])
    rows = [
        {"fold": j, "windows": int(t.sum()), "trained": int(known.sum()), "positive": "b"}
        for j, (known, t) in enumerate(zip(training, tested, strict=True))
    ]
    ratio = rows[0]["windows"] / rows[0]["trained"]
    return f1["b"] - f1["a"], chance_of(rows, confusions, np.arange(folds)), ratio


def rates(learner, folds, ratio, better, draws, seed=0):
    """Return the mean difference, and the share of draws in which each method finds one at 5%."""
    rng, found, means = np.random.default_rng(seed), np.zeros(len(METHODS)), []
    for _ in range(draws):
        differences, chance, r = compare(rng, learner, folds, ratio, better)
        mean = differences.mean()
        for method, shared in enumerate((r, min(r, 1.0))):  # the variance S² (1/J + shared)
            stretched = mean + np.sqrt(1 + shared * folds) * (differences - mean)
            found[method] += statistics.t_test(stretched, Chance(np.zeros(folds)))[0] < 0.05
        found[-1] += statistics.t_test(differences, chance, "ab")[0] < 0.05
        means.append(mean)
    return float(np.mean(means)), found / draws


def draw_right(rng, series, windows, luck, planted):
    """Return whether each of two classifiers is right on windows (2, series, windows), and folds.

    Half of what makes a window hard is common to the windows of its series, and half to both
    classifiers. Windows of a fold share its training.
    """
    fold = rng.permutation(np.arange(series) % FOLDS[0])
    hard = rng.normal(size=(3, series, windows + 1))
    hard = np.sqrt(ALIKE) * hard[:1] + np.sqrt(1 - ALIKE) * hard[1:]
    hard = np.sqrt(0.5) * hard[..., :1] + np.sqrt(0.5) * hard[..., 1:]
    share = LEVEL + np.array([[0.0], [planted]]) + rng.normal(0, luck, (2, FOLDS[0]))
    return hard < special.ndtri(np.clip(share, 0.02, 0.98))[:, fold, None], fold


def sign_p(differences):
    """Exact two-sided p of the sign test, which is McNemar's of paired windows."""
    above, below = (differences > 0).sum(), (differences < 0).sum()
    return min(1.0, 2 * special.bdtr(min(above, below), above + below, 0.5))


def paired_rates(series, windows, luck, planted, draws):
    """Share of draws in which each test finds a difference, on five folds with few windows."""
    rng, found, folds = np.random.default_rng(0), np.zeros(len(PAIRED)), range(FOLDS[0])
    true = np.arange(series) % 2 == 1
    for _ in range(draws):
        right, fold = draw_right(rng, series, windows, luck, planted)
        cells = [[(right == (t == s)) & (true == t)[:, None] for s in (0, 1)] for t in (0, 1)]
        tables = np.array([np.array(cells)[:, :, :, fold == j].sum(axis=(3, 4)) for j in folds])
        tables = tables.transpose(3, 1, 2, 0)  # (classifier, class, prediction, fold)
        sums = 2 * tables[:, 1, 1] + tables[:, 0, 1] + tables[:, 1, 0]
        f1 = 2 * tables[:, 1, 1] / np.maximum(sums, 1)
        rows = [
            {"fold": j, "windows": int(n), "trained": 3 * int(n), "positive": "b"}
            for j, n in enumerate(tables[0].sum(axis=(0, 1)))
        ]
        chance = chance_of(rows, dict(zip("ab", tables.sum(axis=3), strict=True)), np.arange(5))
        d, each = f1[1] - f1[0], right[1].astype(int) - right[0]
        p = [statistics.t_test(d, Chance(np.arange(5)))[0], sign_p(each), sign_p(each.sum(axis=1))]
        found += np.array([*p, statistics.t_test(d, chance, "ab")[0]]) < 0.05
    return found / draws


def rows_of_pairs():
    """Yield the cells of the table of few windows."""
    for series, windows in SERIES:
        for luck in LUCK:
            noise, found = (
                paired_rates(series, windows, luck, planted, FEW_DRAWS)
                for planted in (0.0, PLANTED)
            )
            yield series, windows, f"{luck:g}", *in_percent(noise, 1), *in_percent(found)


def in_percent(shares, digits=0):
    return [f"{100 * share:.{digits}f}" for share in shares]


def rows_of_learners():
    """Yield the cells of the table of learners."""
    for name, learner in LEARNERS.items():
        for folds in FOLDS:
            for ratio in (None,) if folds == FOLDS[0] else RATIOS:
                noise = rates(learner, folds, ratio, 0.0, DRAWS)[1]
                mean, found = rates(learner, folds, ratio, BETTER, DRAWS)
                shares = (*in_percent(noise, 1), *in_percent(found))
                yield name, folds, f"{ratio or 1 / 3:.3g}", f"{mean:.3f}", *shares


def named_worse(runs, chance):
    """Encodings that the headline of each procedure calls worse than a leader."""
    first, *others = runs
    references = dict.fromkeys(others, first)
    differences = statistics.compare_pairs(runs, references.items(), chance)
    table = dict(zip(others, differences, strict=True))
    pairs = [(a, b) for i, a in enumerate(runs) for b in list(runs)[i + 1 :]]
    named = []
    of_all = statistics.compare_pairs(runs, pairs, chance)
    for by_table in (True, False):  # adjusted in two families, or all in one
        above = []
        for pair, d in zip(pairs, of_all, strict=True):
            p = table[pair[1]].p_holm if by_table and pair[0] == first else d.p_holm
            above += [pair if d.mean > 0 else pair[::-1]] if p < 0.05 else []
        leading = runs.keys() - {worse for _, worse in above}
        named.append({worse for better, worse in above if better in leading})
    return [*named, {*statistics.decide(runs, table, chance, 0.1, {}).worse}]


def headline_rates(levels, units, draws):
    """Shares of draws in which one of the best is called worse, and of worse encodings named."""
    rng, chance = np.random.default_rng(0), Chance(np.zeros(units))
    wrong, named = np.zeros(len(PROCEDURES)), np.zeros(len(PROCEDURES))
    truly = {f"arm {i}" for i, level in enumerate(levels) if level}
    for _ in range(draws):
        f1 = 0.8 + rng.normal(0, SPREAD, (len(levels), units)) + rng.normal(0, SPREAD, units)
        f1 -= GAPS[units] * np.array(levels)[:, None]
        runs = {f"arm {i}": np.clip(row, 0, 1) for i, row in enumerate(f1)}
        for number, worse in enumerate(named_worse(runs, chance)):
            wrong[number] += bool(worse - truly)
            named[number] += len(worse & truly) / max(len(truly), 1)
    return wrong / draws, named / draws


def rows_of_headlines():
    """Yield the cells of the table of headlines."""
    for name, levels in LEVELS.items():
        for units in GAPS:
            wrong, named = headline_rates(levels, units, HEADLINES)
            found = in_percent(named) if any(levels) else ["–"] * len(named)
            yield name, units, *in_percent(wrong, 1), *found


GAPS_IN_WORDS = " or ".join(f"{gap} ({units} runs)" for units, gap in GAPS.items())
HEADLINE_INTRO = (
    f"\n## Headlines\n\nSix encodings, over runs of one fold of unlimited windows, {HEADLINES} "
    "draws. “wrong”: share of headlines, in %, that call one of the best encodings worse (should "
    "be 5 or less); “named”: share of the worse encodings that headlines name, in %. The worse "
    f"ones are worse by {GAPS_IN_WORDS}, in the middle by half of that, and by nine times that "
    "where several are best and others are not; the standard deviation of a run is "
    f"{SPREAD}. “two families”: Holm's method over differences from the reference, and again over "
    "all pairs (an earlier version); “one family”: Holm's method over all pairs; “chosen”: what "
    "`pefourier train` does (pefourier/train/statistics.py).\n\n"
)


PAIRED_INTRO = (
    "\n## Few windows\n\nTwo classifiers on five folds, each trained on three fifths of series of "
    f"two classes, {FEW_DRAWS} draws. Each gets {LEVEL} of the windows right, and windows of a "
    "series are alike; “luck”: standard deviation of that share from one training to another. "
    "“noise”: share of draws, in %, in which a test reports a difference where there is none "
    f"(should be 5 or less); “found”: if the second gets {PLANTED} more right. “whole”: as above; "
    "“windows”: exact McNemar test of paired windows; “series”: exact sign test over series; "
    "“chosen”: what `pefourier train` does. Tests of paired windows or series err because all "
    "windows of a fold share a training.\n\n"
)


INTRO = (
    f"# Tests of differences, simulated\n\nShare of {DRAWS} draws, in %, in which a difference "
    "in F1 is found at 5 %: of noise (three columns, should be 5 or less), and of the "
    "difference in the table (the last three, should be high). “whole”: variance S² (1/J + r), "
    "r = n_test/n_train (Nadeau and Bengio, 2003); “at most 1”: the same with r of 1 at most; "
    "“chosen”: what `pefourier train` does (pefourier/train/statistics.py). Five folds are of "
    "cross-validation, ten and thirty are resamples. Program: tests/tools/simulate_tests.py\n\n"
)
TABLES = [  # text before, first columns, kinds of shares, methods, rows
    (
        *(INTRO, ["learner", "folds", "n_test/n_train", "difference"]),
        *(("noise", "found"), METHODS, rows_of_learners),
    ),
    (
        *(PAIRED_INTRO, ["series", "windows of each", "luck"]),
        *(("noise", "found"), PAIRED, rows_of_pairs),
    ),
    (HEADLINE_INTRO, ["encodings", "runs"], ("wrong", "named"), PROCEDURES, rows_of_headlines),
]


def main():
    """Write the tables to the file that is named."""
    with Path(sys.argv[1]).open("w", encoding="utf-8") as out:
        for intro, first, kinds, methods, rows in TABLES:
            head = [*first, *(f"{kind}: {method}" for kind in kinds for method in methods)]
            out.write(intro)
            for cells in (head, *rows()):
                out.write("| " + " | ".join(map(str, cells)) + " |\n")
                out.write("|---" * len(head) + "|\n" if cells is head else "")


if __name__ == "__main__":
    main()
