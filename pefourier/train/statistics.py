"""What do the data support? Means, paired differences, and how sure one may be.

Conventions
-----------
A run is a (seed, fold); every encoding has the same runs, with the same initial weights and the
same batches, so that encodings are compared in pairs. Runs of one fold share their test windows.
Runs of one seed in several folds share neither weights nor batches, which are drawn anew for each
fold: only codes that a seed draws (learned ones) begin alike there. So intervals and p over runs
speak of these windows; the interval over folds speaks of others like them. Folds share training
windows, so that their means vary less than those of independent data would: their variance is
taken times 1/J + n_test/n_train in place of 1/J (Nadeau and Bengio, 2003, “Inference for the
generalization error”). Another method has one run a fold: it is compared with an encoding's means
over the runs of each fold, so that there are as many differences as folds. No seed, fold or
encoding is ever picked by its score.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, stdtrit

from pefourier.errors import PefourierError
from pefourier.train.data.split import FOLDS
from pefourier.train.options import LEVEL

RESAMPLES = 10_000
FLIPS = 100_000
TEST_TO_TRAIN = 1 / (FOLDS - 2)  # one fold tests, one validates, the rest train
EXACT = 14  # runs up to which all sign patterns are tried


@dataclass(frozen=True)
class Mean:
    """A mean with its 95 % bootstrap interval over runs; of one run there is none (nan)."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Difference:
    """An encoding less its reference, run by run."""

    reference: str
    mean: float
    low: float  # 95 % bootstrap interval
    high: float
    p: float  # two-sided sign-flip permutation test
    p_holm: float  # adjusted for all differences of the dataset
    p_floor: float  # the least p that this number of runs can give
    better: float  # P(A > B): share of runs above the reference, ties half
    folds_low: float  # corrected 95 % interval with folds as units; nan with one fold
    folds_high: float

    @property
    def supported(self) -> bool:
        """Whether the data tell the two apart, on these test windows."""
        return self.p_holm < LEVEL

    @property
    def in_doubt(self) -> bool:
        """Whether other windows may not bear the difference out: folds differ, or there is one."""
        return not (self.folds_low > 0 or self.folds_high < 0)


def interval(values: np.ndarray) -> Mean:
    """Mean of runs (n,) and its expanded percentile bootstrap interval, the same on every call.

    Percentiles Φ(±t √(n / (n - 1))), t of Student's distribution with n - 1 degrees of freedom,
    stand where those of 2.5 and 97.5 % are too near for few runs (Hesterberg, 2015, “What teachers
    should know about the bootstrap”); of four runs or fewer that is their range.

    >>> interval(np.array([0.5, 0.5, 0.5]))
    Mean(mean=0.5, low=0.5, high=0.5)
    """
    n = len(values)
    if n == 1:
        return Mean(float(values[0]), np.nan, np.nan)
    drawn = np.random.default_rng(0).integers(0, n, (RESAMPLES, n))
    tail = ndtr(-stdtrit(n - 1, 0.975) * np.sqrt(n / (n - 1)))
    low, high = np.quantile(values[drawn].mean(axis=1), (tail, 1 - tail))
    return Mean(float(values.mean()), float(low), float(high))


def fold_means(values: np.ndarray, folds: np.ndarray) -> np.ndarray:
    """The mean of each fold's runs."""
    return np.array([values[folds == fold].mean() for fold in np.unique(folds)])


def subtract(
    own: np.ndarray, other: np.ndarray, folds: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Paired differences and their folds; `folds` are those of runs, where there are several each.

    Who has one run a fold is compared with the other's mean in each fold.

    >>> two_each = np.array([0, 0, 1, 1])
    >>> subtract(np.array([0.5, 0.75]), np.array([0.0, 0.5, 0.25, 0.75]), two_each)
    (array([0.25, 0.25]), array([0, 1]))
    """
    if len(own) == len(other) == len(folds):
        return own - other, folds
    every = np.unique(folds)
    own, other = (x if len(x) == len(every) else fold_means(x, folds) for x in (own, other))
    return own - other, every


def interval_over_folds(
    values: np.ndarray, folds: np.ndarray, ratio: float = TEST_TO_TRAIN
) -> tuple[float, float]:
    """95 % interval of Student's t of the folds' means, corrected; nan with one fold.

    Half of it is t s √(1/J + ratio), s the standard deviation of the J means, the ratio that of
    test to training windows.

    >>> low, high = interval_over_folds(np.array([0.0, 0.2, 0.1, 0.2]), np.array([0, 0, 1, 1]))
    >>> round(low, 3), round(high, 3)
    (-0.285, 0.535)
    """
    means = fold_means(values, folds)
    n = len(means)
    if n == 1:
        return np.nan, np.nan
    half = stdtrit(n - 1, 0.975) * means.std(ddof=1) * np.sqrt(1 / n + ratio)
    return float(means.mean() - half), float(means.mean() + half)


def sign_flip(differences: np.ndarray) -> float:
    """Two-sided p of the mean under random signs; at least 2^(1 - n).

    >>> sign_flip(np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0]))
    0.03125
    """
    n = len(differences)
    if n <= EXACT:
        sums = (1 - 2 * (np.arange(2**n)[:, None] >> np.arange(n) & 1)) @ differences
        extra = 0
    else:
        rng = np.random.default_rng(0)
        flips = (rng.integers(0, 2, (RESAMPLES, n), np.int8) for _ in range(FLIPS // RESAMPLES))
        sums = np.concatenate([(1 - 2 * flip) @ differences for flip in flips])
        extra = 1  # the data's own signs count among those drawn
    seen = abs(differences.sum())
    as_far = np.abs(sums) >= seen * (1 - 1e-12) - 1e-15
    return float((as_far.sum() + extra) / (len(sums) + extra))


def holm(p: Sequence[float]) -> np.ndarray:
    """Holm's step-down adjustment.

    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    values = np.asarray(p, dtype=float)
    order = np.argsort(values, kind="stable")
    steps = (len(values) - np.arange(len(values))) * values[order]
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def paired_differences(
    runs: Mapping[str, np.ndarray],
    references: Mapping[str, str],
    folds: np.ndarray,
    ratio: float = TEST_TO_TRAIN,
) -> dict[str, Difference]:
    """Each encoding less its reference; `runs` gives all the same runs (n,), of these folds, or

    one for each fold. They are scores from 0 to 1, so that intervals of differences end at -1 and
    1. So scores of your own are compared, here of seven seeds in one fold:

    >>> scores = {
    ...     "sinusoidal": np.array([0.80, 0.82, 0.79, 0.81, 0.80, 0.83, 0.78]),
    ...     "rope": np.array([0.84, 0.85, 0.81, 0.86, 0.83, 0.84, 0.82]),
    ...     "none": np.array([0.81, 0.80, 0.78, 0.82, 0.79, 0.83, 0.80]),
    ... }
    >>> references = {"rope": "sinusoidal", "none": "sinusoidal"}
    >>> found = paired_differences(scores, references, folds=np.zeros(7))
    >>> round(found["rope"].mean, 4), found["rope"].p, found["rope"].p_holm, found["none"].p_holm
    (0.0314, 0.015625, 0.03125, 1.0)
    """
    for score in np.concatenate(list(runs.values())):
        if not 0 <= score <= 1:
            raise PefourierError(f"scores are from 0 to 1 (percent: divide by 100); got {score}")
    apart = {n: subtract(runs[n], runs[other], folds) for n, other in references.items()}
    p = {name: sign_flip(d) for name, (d, _) in apart.items()}
    adjusted = dict(zip(p, holm(list(p.values())).tolist(), strict=True))
    found = {}
    for name, (d, own) in apart.items():
        mean = interval(d)
        low, high = np.clip(interval_over_folds(d, own, ratio), -1, 1).tolist()
        floor = max(2.0 ** (1 - len(d)), 1 / (FLIPS + 1) if len(d) > EXACT else 0.0)
        better = float((d > 0).mean() + 0.5 * (d == 0).mean())
        found[name] = Difference(
            reference=references[name],
            mean=mean.mean,
            low=mean.low,
            high=mean.high,
            p=p[name],
            p_holm=adjusted[name],
            p_floor=floor,
            better=better,
            folds_low=low,
            folds_high=high,
        )
    return found


def average_ranks(scores: np.ndarray) -> np.ndarray:
    """Average rank of each column over rows, 1 the highest score, ties shared.

    >>> average_ranks(np.array([[0.9, 0.8, 0.8], [0.7, 0.6, 0.5]]))
    array([1.  , 2.25, 2.75])
    """
    above = (scores[:, None, :] > scores[:, :, None]).sum(axis=2)
    equal = (scores[:, None, :] == scores[:, :, None]).sum(axis=2)
    return (above + (equal + 1) / 2).mean(axis=0)


def wilcoxon_holm(scores: np.ndarray) -> np.ndarray:
    """Holm-adjusted p of Wilcoxon's signed-rank test for every two columns, shape (k, k).

    Rows of `scores` (N, k) are datasets.

    >>> wilcoxon_holm(np.array([[0.9, 0.5], [0.8, 0.7]]))
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    k = scores.shape[1]
    above = np.triu_indices(k, 1)
    apart = [scores[:, i] - scores[:, j] for i, j in zip(*above, strict=True)]
    p = np.eye(k)
    p[above] = holm([signed_rank_p(d) for d in apart])
    return np.maximum(p, p.T)


def signed_rank_p(differences: np.ndarray) -> float:
    """Two-sided p of Wilcoxon's test: sign flips of ranks, zeros left out, ties sharing a rank.

    >>> signed_rank_p(np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5]))
    0.0625
    """
    d = differences[differences != 0]
    return sign_flip(np.sign(d) * average_ranks(-np.abs(d)[None])) if len(d) else 1.0


def cliques(average: Mapping[str, float], p: np.ndarray) -> list[list[str]]:
    """Largest runs of neighbours in rank of whom no two are told apart; p in the order given.

    >>> apart = np.array([[1, 0.9, 0.01], [0.9, 1, 0.3], [0.01, 0.3, 1]])
    >>> cliques({"a": 1.0, "b": 1.5, "c": 2.1}, apart)
    [['a', 'b'], ['b', 'c']]
    """
    names = list(average)
    order = sorted(range(len(names)), key=lambda i: average[names[i]])
    groups: list[list[int]] = []
    for start in range(len(order)):
        stop = start + 1
        while stop < len(order) and p[order[start : stop + 1], order[stop]].min() >= LEVEL:
            stop += 1
        if stop - start > 1 and not (groups and set(order[start:stop]) <= set(groups[-1])):
            groups.append(order[start:stop])
    return [[names[i] for i in group] for group in groups]
