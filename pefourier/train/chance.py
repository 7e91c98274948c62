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
    """What the standard error of a mean of units is made of, besides their spread."""

    ratio: float = 0.0  # test windows for each training window; of runs, which share all, 0
    drawn: float = 0.0  # variance of a difference by the draw of all windows, if it is known
    windows: float = np.inf  # as many as of classes of equal size
    are_folds: bool = True
    are_redrawn: bool = False  # resamples, which test the same windows again

    def error(self, variance: float, units: int, difference: float) -> float:
        """The standard error of the mean of units that share windows.

        >>> round(Chance(1 / 3).error(0.005, 5, 0.1), 4), round(Chance(20).error(0.005, 5, 0.1), 4)
        (0.0516, 0.0354)
        """
        shared = min(self.ratio, 1 / self.ratio) if self.ratio else 0.0
        drawn = self.drawn * (1 - shared**2) if self.ratio > 1 else 0.0
        spread = variance * (1 / units + shared) + drawn
        least = difference * (1 - difference) / self.windows
        if not self.are_folds:
            return float(np.sqrt(spread + least))
        return float(np.sqrt(max(spread, least, self.drawn * self.are_redrawn)))


@dataclass(frozen=True)
class Evaluation:
    """Which runs are of which fold, and what their test windows leave to chance."""

    folds: np.ndarray  # of each run
    ratio: float = TEST_TO_TRAIN  # test windows for each training window
    windows: float = np.inf  # different ones that are tested, as many as of classes of equal size
    rarest: float = np.inf  # of the rarest class
    variances: Mapping[str, float] = field(default_factory=dict)  # of scores, by draw of windows
    are_redrawn: bool = False

    @property
    def several(self) -> bool:
        """Whether there is more than one fold."""
        return len(np.unique(self.folds)) > 1

    def chance(self, *names: str) -> Chance:
        """Of the difference of encodings whose mistakes are independent."""
        if not self.several:
            return Chance(windows=self.windows, are_folds=False)
        drawn = sum(self.variances.get(name, 0.0) for name in names)
        return Chance(self.ratio, drawn, self.windows, are_redrawn=self.are_redrawn)


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


def evaluation_of(
    rows: Sequence[Mapping[str, Any]], confusions: Mapping[str, np.ndarray], folds: np.ndarray
) -> Evaluation:
    """The evaluation of a dataset by its rows of results; `folds` are those of all runs.

    Folds that test windows again and again are resamples, of which each has all windows. Training
    windows may overlap, so that there are not more test windows for one than in five folds.
    """
    tested = sum({row["fold"]: row["windows"] for row in rows}.values())
    whole = max(row["windows"] + row["trained"] for row in rows)
    are_redrawn = tested >= REDRAWN * whole
    number = whole if are_redrawn else tested
    positive = rows[0].get("positive") is not None
    counts = next(iter(confusions.values())).sum(axis=1)
    classes = number * counts[counts > 0] / counts.sum()
    equal = len(classes) ** 2 / (1 / classes).sum()
    if positive:  # F1 of a class moves by half a window of it
        equal = min(number, 2 * max(1.0, number * counts[1] / counts.sum()))
    return Evaluation(
        folds,
        ratio=max(TEST_TO_TRAIN, *(row["windows"] / row["trained"] for row in rows)),
        windows=float(equal),
        rarest=float(classes.min()),
        variances={
            e: window_variance(table, positive=positive) / number for e, table in confusions.items()
        },
        are_redrawn=are_redrawn,
    )
