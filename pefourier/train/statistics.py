r"""Statistics of a comparison: means, paired differences, and their uncertainty.

Conventions
-----------
A run is a (seed, fold). All encodings have the same runs, with equal initial weights and batches,
and are compared in pairs. Units of a comparison are folds, including resamples, each with the mean
of its runs. With a single fold, units are its runs, and conclusions apply to these test windows
only. There is one test per question: Student's t of the mean of n paired differences over its
standard error, with n - 1 degrees of freedom or more; the interval uses the same t. Fewer units
than `LEAST_UNITS` give no verdict: with two or three units of scores near 1, the error rate of the
test is 6 to 38% instead of 5% (simulated). Holm's p adjusts for all differences of a dataset. No
seed, fold or encoding is selected by its score.

Standard errors
---------------
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

Where folds test fewer than `FEW_WINDOWS` windows each, and each window once, S² is mostly the draw
of those windows, and J values estimate it badly. The variance is then v/N + τ² (1/J + r): the draw
of all windows, from the confusion matrices, and the variance τ² that training adds, which is
S² - J v/N but at least that of this project's results, `SPREAD`². By Satterthwaite, t has
(J - 1) (1 + v/N / (τ² (1/J + r)))² degrees of freedom. A test of paired windows alone (McNemar's,
or a sign test over series) would miss τ²: of noise, it reports up to 23% in the simulation.

A mean difference :math:`\delta` over M windows of equally large classes has a variance of at least
:math:`|\delta| (1 - |\delta|) / M`, because a share :math:`|\delta|` of the windows is classified
differently. Over runs, which share their windows, this term is added; over folds it is a minimum.
tests/tools/simulate_tests.py simulates the error rate and the power of both formulas.

Decision
--------
Headline, tables, page and JSON share the decision on the best encoding. The verdict on a dataset is

* leaky, alone, cut short: nothing is compared, because windows leak or fewer than two encodings
  with complete training are left;
* best, tied: some encodings are significantly worse than another, and one or several are not;
* no difference: no encoding is worse, and every pair has enough units to detect the difference;
* too few: no encoding is worse, and some pair has too few units to detect the difference.

The decision excludes baselines, encodings scaled by @rms if others are not scaled, encodings whose
training was cut short, and encodings that give several tokens one vector. Its steps are

1. Encodings that the table calls worse than their reference are worse, and so are references that
   are worse than another encoding.
2. If no reference remains, the table holds no pair of the best encodings, and all pairs of the
   remaining encodings are tested at 5%.
3. If a reference remains but another encoding has the highest mean, each remaining encoding is
   tested for being worse than the mean of the others, and therefore than the best. The level is
   `SHARED` of 5%. The table leaves room for it, as its differences have a reference in common.

Bonferroni's method adjusts for the number of tests. The last two steps are repeated until no more
encodings are worse. In a simulation (figures/simulation.md), 5% of headlines or fewer call a best
encoding worse.

Verdicts
--------
A difference in F1 from the reference is

* leaky, cut short: not assessed, because windows leak or training of one of the two was cut short;
* better, worse: Holm's p is below 0.05;
* not shown: Holm's p is higher, and the units detect the difference of --find with 80% power;
* too few: Holm's p is higher, and the units do not, or are fewer than `LEAST_UNITS`.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, field, fields, replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import nctdtrinc, ndtr, stdtr, stdtrit

from pefourier.train.data.split import FOLDS
from pefourier.train.options import BESIDE, FIND, LEVEL, WITHOUT_VECTORS, seeds_of
from pefourier.train.store import MEASURES
from pefourier.types import Array, Fields, Strings, Texts, Values, frozen
from pefourier.writing.files import read_toml

RESAMPLES = 10_000
LEAST_UNITS = 4
POWER = 0.8  # of detecting the difference of --find
MOST_UNITS = 1000  # limit of the search for enough units
LEAST_OF_CLASS = 10  # test windows; with fewer, no difference counts as detectable
TEST_TO_TRAIN = 1 / (FOLDS - 2)  # one fold tests, one validates, the rest train
REDRAWN = 2  # tests per window above which folds count as resamples
FEW_WINDOWS = 30  # tested per fold; with fewer, their draw is most of the spread of folds
SPREAD = 0.06  # deviation of a difference in F1 between folds: median of ten datasets of figures/
GRID = [i / 100 for i in range(1, 101)]  # differences in F1
MOST_TIMES = 1000  # limit of the search for enough windows


@frozen
class Chance:
    """Inputs of the standard error of mean differences, besides the spread of units."""

    folds: Array  # of each run
    ratio: float = TEST_TO_TRAIN  # test windows per training window
    windows: float = np.inf  # distinct test windows, as if classes had equal size
    rarest: float = np.inf  # test windows of the rarest class
    variances: Mapping[str, float] = field(default_factory=dict)  # of scores, by draw of windows
    are_redrawn: bool = False  # folds are resamples, which test the same windows repeatedly
    number: float = np.inf  # test windows of all folds

    @property
    def over(self) -> str:
        """The units that differences are averaged over."""
        return "folds" if len(np.unique(self.folds)) > 1 else "runs"

    @property
    def draws_decide(self) -> bool:
        """Whether folds have few windows, each tested once, so that their draw decides."""
        folds = len(np.unique(self.folds))
        return folds > 1 and not self.are_redrawn and self.number < FEW_WINDOWS * folds

    def drawn(self, pair: Strings) -> float:
        """Variance of the mean difference of two encodings by the draw of all windows."""
        return sum(self.variances.get(name, 0.0) for name in pair)

    def error(
        self,
        variance: float,
        units: int,
        difference: float,
        pair: Strings = (),
        times: float = 1.0,
    ) -> tuple[float, float]:
        """Return the standard error of a mean difference over units, and its degrees of freedom.

        If `draws_decide`, there may be several `times` as many windows in as many folds.

        >>> five = Chance(np.arange(5)), Chance(np.arange(5), ratio=20)
        >>> [round(chance.error(0.005, 5, 0.1)[0], 4) for chance in five]
        [0.0516, 0.0354]
        """
        least, drawn = difference * (1 - difference) / self.windows, self.drawn(pair)
        degrees, shared = float(units - 1), min(self.ratio, 1 / self.ratio)
        if self.over == "runs":
            square = variance / units + least
        elif self.draws_decide:
            training = max(SPREAD**2, variance - units * drawn) * (1 / units + self.ratio)
            square = drawn / times + training
            degrees *= (square / training) ** 2
        else:
            square = variance * (1 / units + shared) + drawn * (1 - shared**2) * (self.ratio > 1)
            square = max(square, drawn * self.are_redrawn)
        return float(np.sqrt(max(square, least))), degrees


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
    if not confusions:  # scores from elsewhere, of as many folds as there are
        return Chance(folds, max(TEST_TO_TRAIN, 1 / max(len(np.unique(folds)) - 1, 1)))
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
    equal, rarest = float(equal), float(classes.min())
    return Chance(folds, ratio, equal, rarest, variances, are_redrawn, number)


@frozen
class Mean:
    """A mean with its 95% bootstrap interval over runs; nan for a single run."""

    mean: float
    low: float
    high: float


@frozen
class PairedDifference:
    """Paired difference of an encoding from its reference."""

    reference: str
    mean: float
    low: float  # corrected 95% interval; nan for a single unit
    high: float
    p: float  # two-sided; nan for a single unit
    p_holm: float  # adjusted for all differences of the dataset
    better: float  # P(A > B): share of paired runs above the reference, ties count half
    over: str  # "folds", or "runs" with a single fold
    units: int
    needed: int | None  # units that detect the difference of --find; None: no number does
    detectable: float | None  # smallest difference that these units detect with 80% power
    windows: int | None  # test windows that would detect a difference like this one, if few


def interval(values: Array) -> Mean:
    """Mean of runs (n,) and its expanded percentile bootstrap interval, equal on every call.

    The percentiles are Φ(±t √(n / (n - 1))), with t of Student's distribution with n - 1 degrees of
    freedom, because 2.5 and 97.5% give intervals too narrow for few runs (Hesterberg, 2015, “What
    teachers should know about the bootstrap”). For four runs or fewer, the interval is their range.

    >>> interval(np.array([0.5, 0.5, 0.5]))
    Mean(mean=0.5, low=0.5, high=0.5)
    """
    n = len(values)
    if n == 1:
        return Mean(float(values[0]), np.nan, np.nan)
    resamples = np.random.default_rng(0).integers(0, n, (RESAMPLES, n))
    tail = ndtr(-stdtrit(n - 1, 0.975) * np.sqrt(n / (n - 1)))
    low, high = np.quantile(values[resamples].mean(axis=1), (tail, 1 - tail))
    return Mean(float(values.mean()), float(low), float(high))


def fold_means(values: Array, folds: Array) -> Array:
    """Mean of the runs of each fold."""
    return np.array([values[folds == fold].mean() for fold in np.unique(folds)])


def paired_units(a: Array, b: Array, folds: Array) -> tuple[Array, Array]:
    """Paired differences of runs, and of units: folds if there are several, else runs.

    `folds` has the fold of each run. If one side has a single run per fold, means by fold are
    compared.

    >>> two_each = np.array([0, 0, 1, 1])
    >>> paired_units(np.array([0.5, 0.75]), np.array([0.0, 0.5, 0.25, 0.75]), two_each)
    (array([0.25, 0.25]), array([0.25, 0.25]))
    """
    distinct = np.unique(folds)
    if not len(a) == len(b) == len(folds):
        a, b = (x if len(x) == len(distinct) else fold_means(x, folds) for x in (a, b))
        folds = distinct
    return a - b, fold_means(a - b, folds) if len(distinct) > 1 else a - b


def t_test(differences: Array, chance: Chance, pair: Strings = ()) -> tuple[float, float, float]:
    """Two-sided p of the mean of units (n,), and its 95% interval within [-1, 1].

    >>> d = np.array([0.0, 0.1, 0.2, 0.1, 0.1])
    >>> [round(x, 4) for x in t_test(d, Chance(folds=np.zeros(5)))]
    [0.0341, 0.0122, 0.1878]
    >>> [round(x, 4) for x in t_test(d, Chance(folds=np.arange(5), ratio=1 / 3))]
    [0.1249, -0.0434, 0.2434]
    """
    n, mean = len(differences), float(differences.mean())
    if n < 2:
        return float("nan"), float("nan"), float("nan")
    variance = float(differences.var(ddof=1))
    error, degrees = chance.error(variance, n, abs(mean), pair)
    if error < 1e-12:  # all units are equal
        return float(abs(mean) < 1e-12), mean, mean
    half = float(stdtrit(degrees, 0.975)) * error
    p = 2 * float(stdtr(degrees, -abs(mean) / error))
    return p, max(-1.0, mean - half), min(1.0, mean + half)


@cache
def detectable(degrees: float) -> float:
    """Standard errors from 0 that a t test detects with 80% power.

    >>> round(detectable(39), 2), round(detectable(4), 2)
    (2.87, 3.76)
    """
    return float(nctdtrinc(degrees, 1 - POWER, stdtrit(degrees, 1 - LEVEL / 2)))


def detects(
    difference: float, deviation: float, units: int, chance: Chance, pair: Strings = ()
) -> bool:
    """Whether units with this deviation detect a difference with 80% power in one comparison."""
    enough = units >= LEAST_UNITS and chance.rarest >= LEAST_OF_CLASS
    error, degrees = chance.error(deviation**2, units, difference, pair)
    return enough and error * detectable(min(degrees, MOST_UNITS)) <= difference


def least_difference(
    deviation: float, units: int, chance: Chance, pair: Strings = ()
) -> float | None:
    """Smallest difference, in hundredths, that units detect; None if they detect none.

    >>> least_difference(0.06, 8, Chance(np.zeros(8), windows=200))
    0.1
    """
    return next((d for d in GRID if detects(d, deviation, units, chance, pair)), None)


def windows_needed(
    difference: float, deviation: float, chance: Chance, pair: Strings
) -> int | None:
    """Smallest number of test windows in as many folds that detects a difference."""
    units = len(np.unique(chance.folds))

    def finds(tenths: int) -> bool:
        error, degrees = chance.error(deviation**2, units, 0.0, pair, tenths / 10)
        return error * detectable(min(degrees, MOST_UNITS)) <= difference

    tenths = bisect_left(range(10, 10 * MOST_TIMES), 1, key=finds) + 10
    return int(np.ceil(chance.number * tenths / 10)) if tenths < 10 * MOST_TIMES else None


def units_needed(deviation: float, find: float, chance: Chance, pair: Strings = ()) -> int | None:
    """Smallest number of units that detects a difference with 80% power in one comparison.

    If draws of windows decide, it is that of the folds there are. None if no number does: folds
    share too much, runs share too few windows, or a class has very few windows.

    >>> chances = Chance(folds=np.zeros(5)), Chance(folds=np.arange(5))
    >>> [units_needed(0.064, 0.1, chance) for chance in chances]
    [6, None]
    """
    if np.isnan(deviation):  # unknown from a single unit
        return LEAST_UNITS

    folds = len(np.unique(chance.folds))
    units = [folds] if chance.draws_decide else range(LEAST_UNITS, MOST_UNITS)
    place = bisect_left(units, 1, key=lambda n: detects(find, deviation, n, chance, pair))
    return units[place] if place < len(units) else None


def holm(p: Sequence[float]) -> Array:
    """Adjust p values by Holm's step-down method.

    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    order = np.argsort(p)
    steps = np.arange(len(p), 0, -1) * np.array(p)[order]
    return np.asarray(np.minimum(np.maximum.accumulate(steps), 1.0)[order.argsort()])


def compare_pairs(
    runs: Mapping[str, Array],
    pairs: Iterable[tuple[str, str]],
    chance: Chance,
    find: float = 0.1,
) -> list[PairedDifference]:
    """Difference of the first encoding of each pair from the second, adjusted for all pairs.

    `runs` gives the scores, from 0 to 1, of the same runs (n,) for all encodings, or one per fold.
    `find` is the difference to detect. An example with scores of seven seeds in one fold:

    >>> scores = {
    ...     "sinusoidal": np.array([0.80, 0.82, 0.79, 0.81, 0.80, 0.83, 0.78]),
    ...     "rope": np.array([0.84, 0.85, 0.81, 0.86, 0.83, 0.84, 0.82]),
    ...     "none": np.array([0.81, 0.80, 0.78, 0.82, 0.79, 0.83, 0.80]),
    ... }
    >>> pairs = [("rope", "sinusoidal"), ("none", "sinusoidal")]
    >>> rope, none = compare_pairs(scores, pairs, Chance(folds=np.zeros(7)))
    >>> round(rope.mean, 4), round(rope.p_holm, 5), rope.over, rope.units
    (0.0314, 0.00165, 'runs', 7)
    """
    differences = []
    for pair in pairs:
        paired, units = paired_units(runs[pair[0]], runs[pair[1]], chance.folds)
        p, low, high = t_test(units, chance, pair)
        deviation = float(units.std(ddof=1)) if len(units) > 1 else float("nan")
        mean, count = float(units.mean()), len(units)
        better = float((paired > 0).mean() + 0.5 * (paired == 0).mean())
        needed = units_needed(deviation, find, chance, pair)
        least, windows = least_difference(deviation, count, chance, pair), None
        if chance.draws_decide:
            windows = windows_needed(abs(mean), deviation, chance, pair)
        found = pair[1], mean, low, high, p, p, better, chance.over, count
        differences.append(PairedDifference(*found, needed, least, windows))
    adjusted = holm([d.p for d in differences]).tolist()
    return [replace(d, p_holm=p) for d, p in zip(differences, adjusted, strict=True)]


def average_ranks(scores: Array) -> Array:
    """Average rank of each column over rows; rank 1 is the highest score, ties share ranks.

    >>> average_ranks(np.array([[0.9, 0.8, 0.8], [0.7, 0.6, 0.5]]))
    array([1.  , 2.25, 2.75])
    """
    from scipy.stats import rankdata  # imports much, only for several datasets

    return np.asarray(rankdata(-scores, axis=1).mean(axis=0))


def wilcoxon_holm(scores: Array) -> Array:
    """Holm-adjusted p of Wilcoxon's signed-rank test for every pair of columns, shape (k, k).

    Rows of `scores` (N, k) are datasets.

    >>> wilcoxon_holm(np.array([[0.9, 0.5], [0.8, 0.7]]))
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    k = scores.shape[1]
    above = np.triu_indices(k, 1)
    differences = (scores[:, above[0]] - scores[:, above[1]]).T
    p = np.eye(k)
    p[above] = holm([*map(signed_rank_p, differences)])
    return np.maximum(p, p.T)


def signed_rank_p(differences: Array) -> float:
    """Two-sided exact p of Wilcoxon's signed-rank test; zeros are dropped, ties share a rank.

    >>> signed_rank_p(np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5]))
    0.0625
    """
    d = differences[differences != 0]
    ranks = np.rint(2 * average_ranks(-abs(d)[None])).astype(int)  # doubled: ties have halves
    counts = np.ones(1)  # of sign patterns, by the sum of positive ranks
    for rank in ranks:
        counts = np.pad(counts, (0, rank)) + np.pad(counts, (rank, 0))
    off = abs(2 * np.arange(len(counts)) - ranks.sum())
    return float(counts[off >= abs((np.sign(d) * ranks).sum())].sum() / counts.sum())


def cliques(average: Mapping[str, float], p: Array) -> list[Texts]:
    """Largest groups of neighbours in rank without a significant difference; p in given order.

    >>> apart = np.array([[1, 0.9, 0.01], [0.9, 1, 0.3], [0.01, 0.3, 1]])
    >>> cliques({"a": 1.0, "b": 1.5, "c": 2.1}, apart)
    [('a', 'b'), ('b', 'c')]
    """
    names, order = (
        sorted(average, key=average.__getitem__),
        np.argsort([*average.values()], kind="stable"),
    )
    ordered, groups, last = p[np.ix_(order, order)], list[Texts](), 0
    for start in range(len(names)):
        ends = range(start + 1, len(names) + 1)
        stop = max(end for end in ends if ordered[start:end, start:end].min() >= LEVEL)
        if stop > max(last, start + 1):
            groups.append(tuple(names[start:stop]))
            last = stop
    return groups


SENTENCES = read_toml(Path(__file__).with_name("sentences.toml"))
REMARKS = SENTENCES["REMARKS"]  # on data before training
SHARED = 0.15  # of the level, for tests without a reference while a reference may be the best
KINDS = ("encoding", "scaled", "baseline")  # later kinds are compared if earlier ones are too few


@frozen
class Decision:
    """The verdict on the encodings of a dataset, or over datasets, with its reasons."""

    verdict: str  # from SENTENCES, or those that hold on different datasets
    best: Texts = ()  # highest mean F1 or best rank, then those tied with it
    worse: dict[str, float] = field(default_factory=dict)  # encoding: mean F1 minus the highest
    left_out: dict[str, str] = field(default_factory=dict)  # encoding: why it is not compared
    pair: Texts = ()  # the pair that needs most units, if there are too few
    shortage: PairedDifference | None = None  # of that pair
    no_gain: bool = False  # by 95% intervals, no encoding exceeds `none` by the difference to find


def compared(names: Iterable[str], excluded: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return the encodings that are compared with each other, and why the others are not.

    >>> compared(["none", "rope", "trees", "dft"], {"dft": "cut short"})
    (['none', 'rope'], {'dft': 'cut short', 'trees': 'baseline'})
    """
    kinds = {e: 2 if e in WITHOUT_VECTORS else int("@rms=" in e) for e in names}
    last = sorted(kinds.values())[:2][-1]
    left_out = {e: KINDS[kind] for e, kind in kinds.items() if kind > last}
    left_out = {e: excluded[e] for e in kinds if e in excluded} | left_out
    return [e for e in kinds if e not in left_out], left_out


def decide(
    runs: Mapping[str, Array],
    differences: Mapping[str, PairedDifference],
    chance: Chance,
    find: float,
    excluded: Mapping[str, str],
) -> Decision:
    """Return the decision on a dataset from the F1 of all runs and differences from references.

    >>> swing = np.array([0.01, -0.01, 0.01, -0.01])
    >>> runs = {"a": 0.8 + swing, "b": 0.801 - swing, "trees": 0.9 + swing, "c": 0.5 + swing}
    >>> decide(runs, {}, Chance(np.zeros(4), windows=900), 0.1, {}).best
    ('b', 'a')
    """
    names, left_out = compared(runs, excluded)
    if len(names) < 2:
        verdict = "cut short" if "cut short" in left_out.values() else "alone"
        return Decision(verdict, tuple(names), left_out=left_out)
    means = {e: float(runs[e].mean()) for e in sorted(names, key=lambda e: -runs[e].mean())}
    pairs = list(combinations(means, 2))
    found = dict(zip(pairs, compare_pairs(runs, pairs, chance, find), strict=True))
    table = {frozenset((e, d.reference)): d for e, d in differences.items()}
    beaten = find_worse(runs, found, table, chance)
    gains = [d.high if b == "none" else -d.low for (a, b), d in found.items() if "none" in (a, b)]
    enough = all(d.units >= LEAST_UNITS for d in found.values())
    best = tuple(e for e in means if e not in beaten)
    worse = {e: means[e] - means[best[0]] for e in means if e in beaten}
    short: dict[Texts, PairedDifference] = {}
    if not beaten:
        short = {pair: d for pair, d in found.items() if not finds(d)}
    pair = max(short, key=lambda pair: short[pair].needed or np.inf, default=())
    verdict = "too few" if short else "no difference"
    if beaten:
        verdict = "tied" if len(best) > 1 else "best"
    no_gain = "none" in best and enough and max(gains) < find
    return Decision(verdict, best, worse, left_out, pair, short.get(pair), no_gain)


def find_worse(
    runs: Mapping[str, Array],
    found: Mapping[tuple[str, str], PairedDifference],
    table: Mapping[frozenset[str], PairedDifference],
    chance: Chance,
) -> set[str]:
    """Return the encodings that are worse than another, from all pairs and those of the table.

    >>> d = PairedDifference("b", 0.1, 0.0, 0.2, 0.04, 0.04, 1.0, "runs", 5, 4, 0.1, None)
    >>> find_worse({}, {("a", "b"): d}, {}, Chance(np.zeros(5)))
    {'b'}
    """
    tested = {pair: d for pair, d in found.items() if d.units >= LEAST_UNITS}
    in_table = {pair: table[frozenset(pair)] for pair in tested if frozenset(pair) in table}
    references = {d.reference for d in in_table.values()}
    worse = {pair[tested[pair].mean > 0] for pair, d in in_table.items() if d.p_holm < LEVEL}
    names = list(dict.fromkeys(name for pair in tested for name in pair))  # the highest mean first
    while True:
        remaining, new = [name for name in names if name not in worse], set[str]()
        if references <= worse:
            pairs = {pair: d for pair, d in tested.items() if not worse & {*pair}}
            new = {pair[d.mean > 0] for pair, d in pairs.items() if d.p * len(pairs) < LEVEL}
        elif remaining[0] not in references:
            rest = [name for name in remaining if name not in references]
            p = {name: p_of_worse(name, remaining, runs, chance) for name in rest}
            new = {name for name in rest if p[name] * len(rest) < LEVEL * SHARED}
        if not new:
            return worse
        worse |= new


def p_of_worse(name: str, names: Iterable[str], runs: Mapping[str, Array], chance: Chance) -> float:
    """One-sided p of an encoding that is as good as the mean of the others, with the same units.

    >>> swing = np.array([0.01, -0.01, 0.01, -0.01])
    >>> runs = {"a": 0.8 + swing, "b": 0.8 - swing, "c": 0.7 + swing}
    >>> [round(p_of_worse(e, "abc", runs, Chance(np.zeros(4))), 4) for e in "abc"]
    [0.9984, 0.9886, 0.0002]
    """
    pairs = [(name, other) for other in names if other != name]
    units = [paired_units(runs[a], runs[b], chance.folds)[1] for a, b in pairs]
    mean = np.mean(units, axis=0)
    p = t_test(mean, chance, pairs[0])[0]
    return p / 2 if mean.mean() < 0 else 1 - p / 2


def finds(d: PairedDifference) -> bool:
    """Whether there are enough units to detect the difference of --find."""
    return d.needed is not None and d.units >= max(d.needed, LEAST_UNITS)


def verdict_on(
    encoding: str, d: PairedDifference, *, leaky: bool, cut_short: Container[str]
) -> str:
    """Return the verdict on a difference from a reference."""
    if leaky:
        return "leaky"
    if encoding in cut_short or d.reference in cut_short:
        return "cut short"
    if d.units >= LEAST_UNITS and d.p_holm < LEVEL:
        return "better" if d.mean > 0 else "worse"
    return "not shown" if finds(d) else "too few"


def decide_ranks(
    names: Iterable[str], ranks: Mapping[str, float], p: Array, excluded: Mapping[str, str]
) -> Decision | None:
    """Return the decision over datasets by average ranks; None if all are tied with the best.

    `p` is a matrix of all pairs of encodings, in the order of `ranks`.

    >>> apart = np.array([[1, 0.9, 0.01], [0.9, 1, 0.3], [0.01, 0.3, 1]])
    >>> found = decide_ranks("abc", {"a": 1.0, "b": 1.5, "c": 2.1}, apart, {})
    >>> found.verdict, found.best, found.worse
    ('tied', ('a', 'b'), {'c': 2.1})
    """
    judged, left_out = compared(names, excluded)
    order, place = sorted(judged, key=ranks.__getitem__), [*ranks].index
    worse = {e: ranks[e] for e in order[1:] if p[place(order[0]), place(e)] < LEVEL}
    best = tuple(e for e in order if e not in worse)
    return Decision("tied" if len(best) > 1 else "best", best, worse, left_out) if worse else None


REFERENCE = "sinusoidal"
LEAKY = "leaky split"
Rows = Sequence[Mapping[str, Any]]  # of results.jsonl
COLLIDES = "vectors collide"  # of encodings that give several tokens one vector
CUT_SHORT = 5  # training is cut short if more than one run in this many keeps its last weights


@frozen
class LengthMeans:
    """Means of an encoding's runs on windows of a length, or the reason why they are missing."""

    length: int
    f1: Mean | None
    accuracy: Mean | None
    auprc: Mean | None
    reason: str = ""


@frozen
class DatasetSummary(Decision):
    """Summary of a dataset: the decision, and each encoding's scores, difference and verdict."""

    _: KW_ONLY
    dataset: str
    split: str
    leaky: bool
    length: int  # rows of a window
    seeds: int
    folds: int
    scores: dict[str, dict[str, Mean]]  # encoding → measure → mean
    differences: dict[str, PairedDifference]  # in F1, from the reference of the same size
    auprc_differences: dict[str, PairedDifference]
    verdicts: dict[str, str]  # of each difference
    diverged: dict[str, int]  # runs that keep their initial weights
    last_kept: dict[str, int]  # runs that keep the weights of the last step
    cut_short: Texts  # encodings with too many such runs
    params: Mapping[str, Values]  # of each encoding
    lengths: dict[str, tuple[LengthMeans, ...]] = field(default_factory=dict)  # further lengths
    confusion: dict[str, list[list[int]]] = field(default_factory=dict)  # summed over runs
    budget: Mapping[str, int] | None = None  # steps, patience, and steps between two looks
    positive: str | None = None  # class that scores describe; None: means over classes
    shortest: int | None = None  # rows of the shortest window

    @property
    def chance(self) -> dict[str, float]:
        """Scores of a classifier that always predicts one class, on all test windows.

        With a positive class of share p, it predicts that class, with F1 2p / (1 + p). Otherwise it
        predicts the most common of K classes, and scores are means over classes.
        """
        if not self.confusion:  # of scores from elsewhere
            return {}
        counts = np.sum(next(iter(self.confusion.values())), axis=1).tolist()
        positive = self.positive is not None
        k = 1 if positive else len(counts)
        share = (counts[1] if positive else max(counts)) / sum(counts)
        scores = {"precision": share / k, "recall": 1 / k, "f1": 2 * share / (1 + share) / k}
        return scores | {"accuracy": share, "auprc": share if positive else 1 / k}

    @property
    def excluded(self) -> dict[str, str]:
        """Reasons why encodings are not compared that other options could remove."""
        return exclusions(self.scores, self.cut_short, self.params)

    @property
    def longer(self) -> str:
        """Option for longer runs, with a number if the budget is known."""
        return f"--steps, such as {2 * self.budget['steps']}" if self.budget else "--steps"

    @property
    def inputs(self) -> str:
        """Description of the classified windows for titles."""
        padded = self.shortest not in (None, self.length)
        return f"{f'series of {self.shortest} to' if padded else 'windows of'} {self.length} rows"


@frozen
class Summary(Decision):
    """Summary of all datasets: average ranks and the overall decision."""

    _: KW_ONLY
    reference: str
    datasets: tuple[DatasetSummary, ...]
    ranks: dict[str, float]
    cliques: tuple[Texts, ...]  # without significant difference; () for one dataset
    runs: tuple[Fields, ...]
    training: Values = field(default_factory=dict)  # settings of all models

    @property
    def find(self) -> float:
        """The difference in F1 to detect."""
        return self.training.get("find") or FIND

    @property
    def ranked(self) -> bool:
        """Whether there are datasets to rank encodings over."""
        return len(self.datasets) > 1 and len(self.ranks) > 1

    @property
    def over(self) -> str:
        """Description of the datasets that ranks are averaged over."""
        leaky = any(data.leaky for data in self.datasets)
        return f"over {len(self.datasets)} datasets" + (f", {LEAKY}" if leaky else "")

    @property
    def out_of_reach(self) -> str:
        """Sentence if too few datasets can show a significant difference among encodings."""
        n, k = len(self.datasets), len(self.ranks)
        smallest_p = 2.0 ** (1 - n) * k * (k - 1) / 2  # p of the best pair, adjusted
        sentence = f"With {n} datasets and {k} rows, p cannot fall below 0.05."
        return sentence if smallest_p > LEVEL else ""


def summarize_runs(
    rows: Rows, params: Values | None = None, training: Values | None = None
) -> Summary:
    """Summarize the rows of results.jsonl; without `REFERENCE`, the first encoding replaces it.

    `params` has the parameters of each dataset's encodings.
    """
    names = list(dict.fromkeys(row["encoding"] for row in rows))
    reference = REFERENCE if REFERENCE in names else names[0]
    find = (training or {}).get("find") or FIND
    datasets = tuple(
        summarize_dataset(of, reference, (params or {}).get(name, {}), find)
        for name, of in rows_by("dataset", rows).items()
    )
    shared = [e for e in datasets[0].scores if all(e in data.scores for data in datasets)]
    f1 = np.array([[data.scores[e]["f1"].mean for e in shared] for data in datasets])
    ranks = dict(zip(shared, average_ranks(f1).tolist(), strict=True)) if shared else {}
    p = wilcoxon_holm(f1)
    return Summary(
        **vars(decide_all(datasets, ranks, p)),
        reference=reference,
        datasets=datasets,
        ranks=ranks,
        cliques=tuple(cliques(ranks, p)) if len(datasets) > 1 else (),
        runs=tuple(map(dict, rows)),
        training=training or {},
    )


def decide_all(
    datasets: Sequence[DatasetSummary], ranks: Mapping[str, float], p: Array
) -> Decision:
    """Decide on one dataset, by ranks over several, or combine the verdicts on each."""
    if len(datasets) == 1:
        return Decision(**{f.name: getattr(datasets[0], f.name) for f in fields(Decision)})
    names = dict.fromkeys(e for data in datasets for e in data.scores)
    excluded = {e: why for data in datasets for e, why in data.excluded.items()}
    excluded |= {e: "not on all" for e in names if e not in ranks}
    found = {data.verdict for data in datasets}
    if "leaky" not in found and (by_ranks := decide_ranks(names, ranks, p, excluded)):
        return by_ranks
    return Decision(" and ".join(code for code in SENTENCES["ON_SEVERAL"] if code in found))


def summarize_dataset(rows: Rows, reference: str, params: Values, find: float) -> DatasetSummary:
    """Summarize a dataset over the runs that all encodings have."""
    runs, values = common_runs(rows)
    scores = {e: {m: interval(v) for m, v in s.items()} for e, s in values.items()}
    references = {e: reference_of(e, values, reference) for e in values if e != reference}
    facts, folds = facts_of_runs(rows), np.array([fold for _, fold in runs])
    leaky, cut = facts["leaky"], facts["cut_short"]
    paired = rows_by("encoding", (r for r in rows if (r["seed"], r["fold"]) in runs))
    confusions = {}
    if "confusion" in rows[0]:
        confusions = {e: np.sum([r["confusion"] for r in of], axis=0) for e, of in paired.items()}
    samples = {m: {e: s[m] for e, s in values.items() if m in s} for m in ("f1", "auprc")}
    chance, pairs = chance_of(rows, confusions, folds), references.items()
    differences, auprc = (
        dict(zip(references, compare_pairs(f, pairs, chance, find), strict=True)) if f else {}
        for f in samples.values()
    )
    verdicts = {e: verdict_on(e, d, leaky=leaky, cut_short=cut) for e, d in differences.items()}
    decision = decide(samples["f1"], differences, chance, find, exclusions(values, cut, params))
    return DatasetSummary(
        **vars(Decision("leaky") if leaky else decision),
        **facts,
        seeds=len({seed for seed, _ in runs}),
        folds=len(np.unique(folds)),
        scores=scores,
        differences=differences,
        auprc_differences=auprc,
        verdicts=verdicts,
        params=params,
        lengths={e: lengths for e, of in paired.items() if (lengths := summarize_lengths(of))},
        confusion={e: counts.tolist() for e, counts in confusions.items()},
    )


def exclusions(
    names: Iterable[str], cut_short: Iterable[str], params: Mapping[str, Values]
) -> dict[str, str]:
    """Reasons why encodings are not compared: vectors collide, or training was cut short."""
    colliding = (e for e in names if params.get(e, {}).get("collides"))
    return dict.fromkeys(cut_short, "cut short") | dict.fromkeys(colliding, COLLIDES)


def rows_by(key: str, rows: Iterable[Values]) -> dict[Any, list[Values]]:
    """Group rows by encoding or dataset, in order of appearance."""
    groups: dict[Any, list[Values]] = {}
    for row in rows:
        groups.setdefault(row[key], []).append(row)
    return groups


def facts_of_runs(rows: Rows) -> Fields:
    """Facts about a dataset's windows and training, independent of scores.

    Training of an encoding was cut short if too many of its runs keep their last weights; other
    methods are always fitted to the end.
    """
    row, trained = rows[0], [r for r in rows if "step" in r and r["encoding"] not in BESIDE]
    counts = Counter(r["encoding"] for r in trained)
    first = Counter(r["encoding"] for r in trained if r["step"] == 0)
    last = Counter(  # with the weights of the last possible step: may have been cut short
        r["encoding"] for r in trained if r.get("budget") and r["step"] >= r["budget"]["steps"]
    )
    return {
        **{key: row.get(key, 0) for key in ("dataset", "split", "leaky", "length")},
        **{key: row.get(key) for key in ("positive", "shortest", "budget")},
        "diverged": dict(first),
        "last_kept": dict(last),
        "cut_short": tuple(e for e in counts if last[e] * CUT_SHORT > counts[e]),
    }


def summarize_lengths(rows: Rows) -> tuple[LengthMeans, ...]:
    """Means of an encoding's runs at each further length; None if some runs have no scores."""
    means = []
    scores = rows_by("length", (tested for row in rows for tested in row.get("tested", ())))
    for length, of in scores.items():
        reason = next(filter(None, (tested["reason"] for tested in of)), "")
        columns = ([tested[measure] for tested in of] for measure in ("f1", "accuracy", "auprc"))
        f1, accuracy, auprc = (None if reason else interval(np.array(column)) for column in columns)
        means.append(LengthMeans(length, f1, accuracy, auprc, reason))
    return tuple(means)


def common_runs(rows: Rows) -> tuple[list[tuple[int, int]], dict[str, dict[str, Array]]]:
    """Return the runs (seed, fold) that all encodings have, and the measures over these runs.

    Other methods have only the first seed, and their measures are over folds.
    """
    arms = {
        e: {(row["seed"], row["fold"]): row for row in of}
        for e, of in rows_by("encoding", rows).items()
    }
    keys = {paired_run(e, run) for e, of_run in arms.items() for run in of_run}
    runs = sorted(r for r in keys if all(paired_run(e, r) in of_run for e, of_run in arms.items()))
    pairs = {e: sorted({paired_run(e, run) for run in runs}) for e in arms}
    return runs, {
        e: {m: np.array([of_run[run][m] for run in pairs[e]]) for m in MEASURES if m in rows[0]}
        for e, of_run in arms.items()
    }


def paired_run(encoding: str, run: tuple[int, int]) -> tuple[int, int]:
    """Return the run (seed, fold) of an encoding paired with a run: other methods have only one.

    >>> paired_run("rope", (2, 1)), paired_run("trees", (2, 1))
    ((2, 1), (0, 1))
    """
    return (min(run[0], seeds_of(encoding, run[0] + 1) - 1), run[1])


def reference_of(encoding: str, encodings: Container[str], reference: str) -> str:
    """Return the reference of an encoding: `REFERENCE` at the same scaled size, if present.

    >>> reference_of("dft@rms=0.5", ["sinusoidal", "sinusoidal@rms=0.5"], "sinusoidal")
    'sinusoidal@rms=0.5'
    """
    scaled = f"{REFERENCE}@{encoding.rpartition('@')[2]}"
    return scaled if "@" in encoding and scaled != encoding and scaled in encodings else reference
