"""Error rate and power of the test of differences, simulated: `make -C figures simulation.md`.

Two classifiers are trained on separate columns of windows of two classes with the same truth, on
five folds or on resamples of all N windows. For noise, the columns of both are drawn from one
distribution, and neither is better; otherwise the classes of the second are further apart. What a
learner learns depends on training windows not at all (fixed), little (centroids of two columns),
much (of thirty; 1-NN) or by choice of a column (stump). F1 of the second class is compared with
the variance of Nadeau and Bengio, the same with a ratio of at most 1, and
`pefourier.train.chance`.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pefourier.train import statistics
from pefourier.train.chance import Chance, chance_of

DRAWS = 400
SMALLEST = 60  # training windows, if there are more test windows; otherwise 300 windows of both
BETTER = 0.8  # added distance between the classes for the second classifier
COMMON = 0.3  # shared part of the variance of columns
FOLDS = (5, 10, 30)  # the first is cross-validation, with a fold for validation
RATIOS = (0.25, 1, 5, 15, 20)
METHODS = ("whole", "at most 1", "chosen")


@dataclass(frozen=True)
class Learner:
    """A learner, its number of columns, and the total distance of their classes."""

    name: str
    columns: int
    apart: float

    def predict(self, x: np.ndarray, y: np.ndarray, training: np.ndarray) -> np.ndarray:
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


def draw_folds(
    rng: np.random.Generator, y: np.ndarray, folds: int, trained: int | None
) -> tuple[np.ndarray, np.ndarray]:
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


def compare(
    rng: np.random.Generator, learner: Learner, folds: int, ratio: float | None, better: float
) -> tuple[np.ndarray, Chance, float]:
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


def rates(
    learner: Learner, folds: int, ratio: float | None, better: float, draws: int, seed: int = 0
) -> tuple[float, np.ndarray]:
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


def lines_of_table(draws: int) -> Iterator[str]:
    """Yield the lines of the table."""
    head = ["learner", "folds", "n_test/n_train", "difference"]
    head += [f"{of}: {method}" for of in ("noise", "found") for method in METHODS]
    yield "| " + " | ".join(head) + " |"
    yield "|---" * len(head) + "|"
    for name, learner in LEARNERS.items():
        for folds in FOLDS:
            for ratio in (None,) if folds == FOLDS[0] else RATIOS:
                noise = rates(learner, folds, ratio, 0.0, draws)[1]
                mean, planted = rates(learner, folds, ratio, BETTER, draws)
                shares = [f"{100 * share:.1f}" for share in noise]
                shares += [f"{100 * share:.0f}" for share in planted]
                cells = [name, str(folds), f"{ratio or 1 / 3:.3g}", f"{mean:.3f}", *shares]
                yield "| " + " | ".join(cells) + " |"


def main() -> None:
    """Write the table to the named file."""
    intro = (
        f"# Tests of differences, simulated\n\nShare of {DRAWS} draws, in %, in which a difference "
        "in F1 is found at 5 %: of noise (three columns, should be 5 or less), and of the "
        "difference in the table (the last three, should be high). “whole”: variance S² (1/J + r), "
        "r = n_test/n_train (Nadeau and Bengio, 2003); “at most 1”: the same with r of 1 at most; "
        "“chosen”: what `pefourier train` does (pefourier/train/chance.py). Five folds are of "
        "cross-validation, ten and thirty are resamples. Program: tests/tools/simulate_tests.py\n\n"
    )
    with Path(sys.argv[1]).open("w", encoding="utf-8") as out:
        out.write(intro)
        for line in lines_of_table(DRAWS):
            out.write(line + "\n")
            out.flush()


if __name__ == "__main__":
    main()
