r"""Standard error of a mean difference over folds or runs.

Folds share windows, so the variance of their mean exceeds S²/J, where S² is the variance over J
folds. Let r = n_test/n_train, N the number of windows, and v the variance contributed by a window.
Shared test windows leave v/N in the mean, and shared training windows leave :math:`n_{train}/N` of
the variance due to training. S² contains v/N r⁻¹ and :math:`n_{test}/N` of that variance. Hence

* up to r = 1, the variance is S² (1/J + r) (Nadeau and Bengio, 2003, “Inference for the
  generalization error”), which is exact if training adds no variance;
* for r > 1, that formula overestimates the variance due to training by a factor r². Solving for
  both parts gives S² (1/J + 1/r) + (1 - 1/r²) v/N. The unknown v is replaced by that of two
  classifiers with independent mistakes, which is no smaller, from their confusion matrices by the
  delta method. Both formulas agree at r = 1, and resamples never have a variance below v/N.

A mean difference :math:`\delta` over M windows of equally large classes has a variance of at least
:math:`|\delta| (1 - |\delta|) / M`, because a share :math:`|\delta|` of the windows is classified
differently. Over runs, which share their windows, this term is added; over folds it is a minimum.
tests/tools/simulate_tests.py simulates the error rate and the power of both formulas.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from pefourier.train.data.split import FOLDS
from pefourier.types import Array, Strings, Values

TEST_TO_TRAIN = 1 / (FOLDS - 2)  # one fold tests, one validates, the rest train
REDRAWN = 2  # tests per window above which folds count as resamples


@dataclass(frozen=True)
class Chance:
    """Inputs of the standard error of mean differences, besides the spread of units."""

    folds: Array  # of each run
    ratio: float = TEST_TO_TRAIN  # test windows per training window
    windows: float = np.inf  # distinct test windows, as if classes had equal size
    rarest: float = np.inf  # test windows of the rarest class
    variances: Mapping[str, float] = field(default_factory=dict)  # of scores, by draw of windows
    are_redrawn: bool = False  # folds are resamples, which test the same windows repeatedly

    @property
    def over(self) -> str:
        """The units that differences are averaged over."""
        return "folds" if len(np.unique(self.folds)) > 1 else "runs"

    def error(self, variance: float, units: int, difference: float, pair: Strings = ()) -> float:
        """Return the standard error of a mean difference of two encodings over units.

        >>> five = Chance(np.arange(5)), Chance(np.arange(5), ratio=20)
        >>> [round(chance.error(0.005, 5, 0.1), 4) for chance in five]
        [0.0516, 0.0354]
        """
        least = difference * (1 - difference) / self.windows
        if self.over == "runs":
            return float(np.sqrt(variance / units + least))
        drawn = sum(self.variances.get(name, 0.0) for name in pair)
        shared = min(self.ratio, 1 / self.ratio)
        spread = variance * (1 / units + shared) + drawn * (1 - shared**2) * (self.ratio > 1)
        return float(np.sqrt(max(spread, least, drawn * self.are_redrawn)))


def window_variance(confusion: Array, *, positive: bool) -> float:
    """Variance of F1 per window (delta method), of the second class or the mean of all classes.

    >>> round(window_variance(np.array([[40, 10], [10, 40]]), positive=False), 3)  # 0.8 × 0.2
    0.16
    """
    p = confusion / confusion.sum()
    total = p.sum(axis=0) + p.sum(axis=1)
    weights = (total > 0) / np.where(total > 0, total, 1.0)
    weights *= (np.arange(len(p)) == 1) if positive else 1 / np.count_nonzero(total)
    slope = weights * np.divide(2 * np.diag(p), total, out=np.zeros(len(p)), where=total > 0)
    gain = 2 * np.diag(weights) - slope[:, None] - slope
    return float((p * gain**2).sum())


def chance_of(rows: Sequence[Values], confusions: Mapping[str, Array], folds: Array) -> Chance:
    """Return the `Chance` of a dataset from its result rows and the folds of all runs.

    Folds that test windows repeatedly are resamples, each of which uses all windows. Training
    windows may overlap, so the ratio is at least that of five folds.
    """
    tested = sum({row["fold"]: row["windows"] for row in rows}.values())
    whole = max(row["windows"] + row["trained"] for row in rows)
    are_redrawn = tested >= REDRAWN * whole
    number, positive = whole if are_redrawn else tested, rows[0].get("positive") is not None
    counts = next(iter(confusions.values())).sum(axis=1)
    classes = number * counts[counts > 0] / counts.sum()
    equal = len(classes) ** 2 / (1 / classes).sum()
    if positive:  # a window moves the F1 of its class by half a window of that class
        equal = min(number, 2 * max(1.0, number * counts[1] / counts.sum()))
    tables = confusions.items()
    variances = {e: window_variance(table, positive=positive) / number for e, table in tables}
    ratio = max(TEST_TO_TRAIN, *(row["windows"] / row["trained"] for row in rows))
    return Chance(folds, ratio, float(equal), float(classes.min()), variances, are_redrawn)
