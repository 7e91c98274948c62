"""Simulated trainings, for the error rate and power of the test of differences.

Two classifiers are trained on separate columns of windows of two classes with the same truth, on
five folds or on resamples of all N windows. For noise, the columns of both are drawn from one
distribution, and neither is better; otherwise the classes of the second are further apart. What a
learner learns depends on training windows not at all (fixed), little (centroids of two columns),
much (of thirty; 1-NN) or by choice of a column (stump). figures/simulation.md has rates of 400
draws, beside those of other variances.
"""

from dataclasses import dataclass

import numpy as np

from pefourier.train import statistics
from pefourier.train.statistics import chance_of

SMALLEST = 60  # training windows, if there are more test windows; otherwise 300 windows of both
COMMON = 0.3  # shared part of the variance of columns


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
    """Return the differences in F1 of all folds, and their chance."""
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
    return f1["b"] - f1["a"], chance_of(rows, confusions, np.arange(folds))


def share_found(learner, folds, ratio, better, draws, seed):
    """Return the share of draws in which `pefourier train` finds a difference at 5%."""
    rng = np.random.default_rng(seed)
    drawn = (compare(rng, learner, folds, ratio, better) for _ in range(draws))
    found = [
        statistics.t_test(differences, chance, "ab")[0] < 0.05 for differences, chance in drawn
    ]
    return np.mean(found)
