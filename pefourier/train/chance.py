r"""How much of a difference chance makes: the standard error of the mean of folds or of runs.

Folds share windows, so the variance of their mean is more than S²/J, S² that of J folds. Let r be
n_test/n_train, N all windows, v the variance that one window adds to a difference. Test windows
that all resamples share leave v/N, training windows that they share :math:`n_{train}/N` of the
variance by training; S² holds v/N r⁻¹ and :math:`n_{test}/N` of that by training. So

* up to r = 1 the variance is S² (1/J + r), as Nadeau and Bengio (2003, “Inference for the
  generalization error”) have it, which is exact where training adds nothing;
* beyond, that takes variance by training for r times what it leaves; solved for both parts, the
  variance is S² (1/J + 1/r) + (1 - 1/r²) v/N. v is not known; that of two classifiers whose
  mistakes are independent is not less, by the delta method from their confusions. The two agree at
  r = 1, and resamples never have less than v/N.

A mean difference of :math:`\delta` has at least the variance :math:`|\delta| (1 - |\delta|) / M`,
that of windows which one of the two decides otherwise, of M windows of classes of equal size; over
runs, which share their windows, it is added, over folds it is the least. How often all of this errs
and finds is simulated in tests/tools/simulate_tests.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pefourier.train.data.split import FOLDS

TEST_TO_TRAIN = 1 / (FOLDS - 2)  # one fold tests, one validates, the rest train
REDRAWN = 2  # times that a window is tested, from which on folds are resamples


@dataclass(frozen=True)
class Chance:
    """What standard errors of mean differences are made of, besides the spread of units."""

    folds: np.ndarray  # of each run
    ratio: float = TEST_TO_TRAIN  # test windows for each training window
    windows: float = np.inf  # different ones that are tested, as many as of classes of equal size
    rarest: float = np.inf  # of the rarest class
    variances: Mapping[str, float] = field(default_factory=dict)  # of scores, by draw of windows
    are_redrawn: bool = False  # folds are resamples, which test the same windows again

    @property
    def over(self) -> str:
        """What differences are averaged over."""
        return "folds" if len(np.unique(self.folds)) > 1 else "runs"

    def error(
        self, variance: float, units: int, difference: float, pair: Sequence[str] = ()
    ) -> float:
        """The standard error of a mean difference of two encodings over units of this variance.

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


def window_variance(confusion: np.ndarray, *, positive: bool) -> float:
    """Variance that one window adds to F1, of the second class or the mean of all (delta method).

    >>> round(window_variance(np.array([[40, 10], [10, 40]]), positive=False), 3)  # of .8: .8 × .2
    0.16
    """
    p = confusion / confusion.sum()
    total = p.sum(axis=0) + p.sum(axis=1)
    weights = (total > 0) / np.where(total > 0, total, 1.0)
    weights *= (np.arange(len(p)) == 1) if positive else 1 / np.count_nonzero(total)
    slope = weights * np.divide(2 * np.diag(p), total, out=np.zeros(len(p)), where=total > 0)
    gain = 2 * np.diag(weights) - slope[:, None] - slope
    return float((p * gain**2).sum())


def chance_of(
    rows: Sequence[Mapping[str, Any]], confusions: Mapping[str, np.ndarray], folds: np.ndarray
) -> Chance:
    """Of a dataset by its rows of results; `folds` are those of all runs.

    Folds that test windows again and again are resamples, of which each has all windows. Training
    windows may overlap, so that there are not more of them for a test window than in five folds.
    """
    tested = sum({row["fold"]: row["windows"] for row in rows}.values())
    whole = max(row["windows"] + row["trained"] for row in rows)
    are_redrawn = tested >= REDRAWN * whole
    number, positive = whole if are_redrawn else tested, rows[0].get("positive") is not None
    counts = next(iter(confusions.values())).sum(axis=1)
    classes = number * counts[counts > 0] / counts.sum()
    equal = len(classes) ** 2 / (1 / classes).sum()
    if positive:  # a window moves F1 of its class by half a window of it
        equal = min(number, 2 * max(1.0, number * counts[1] / counts.sum()))
    tables = confusions.items()
    variances = {e: window_variance(table, positive=positive) / number for e, table in tables}
    ratio = max(TEST_TO_TRAIN, *(row["windows"] / row["trained"] for row in rows))
    return Chance(folds, ratio, float(equal), float(classes.min()), variances, are_redrawn)
