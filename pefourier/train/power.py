r"""How small a difference could so many runs find, and which ones do they exclude?

Conventions
-----------
n paired differences with standard deviation s, tested by Student's t at `level`, two-sided, one
comparison alone: their mean has the standard error s / √n, and with folds as units
s √(1/J + n_test/n_train) (Nadeau and Bengio, 2003). The power for a difference :math:`\delta` is
that of the noncentral t with :math:`\delta` over the standard error. A difference is excluded where
two one-sided tests (Schuirmann, 1987) reject it, each at `level`. A claimed gain is tested on one
side: how often would runs fall so far below it if the difference were that or more? Scores differ
by at most 1: what is beyond that is nan. What is said over runs is said of these windows, what is
said over folds of others like them.
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.special import nctdtr, stdtr, stdtrit

from pefourier.train.options import BESIDE, LEVEL, Options, fewest_runs
from pefourier.train.statistics import TEST_TO_TRAIN, fold_means, subtract
from pefourier.writing.text import agreeing

WANTED = 0.8  # power
MOST_NEEDED = 10**9  # runs
# F1 of the DFT encoding less that of the original one, Table 1 of the paper
CLAIMED = {"smd": 0.010, "msl": 0.018}


@dataclass(frozen=True)
class Power:
    """What the runs of one difference in F1 could find; nan where they do not spread, or none."""

    runs: int
    spread: float  # standard deviation of the paired differences
    detectable: float  # found with a power of .8
    detectable_holm: float  # the same at Holm's strictest level
    excluded: float  # differences beyond ± this
    folds_detectable: float  # with folds as units; nan with one fold
    folds_excluded: float
    claimed: float  # what the paper claims, or what was asked for
    claimed_power: float  # of these runs for it
    claimed_runs: int | None  # that a power of .8 for it needs
    claimed_p: float = float("nan")  # one-sided, of so much or more
    folds_claimed_p: float = float("nan")


def power_at(shift: float, freedom: int, level: float = LEVEL) -> float:
    """Power of the two-sided t test for a mean `shift` standard errors from 0.

    >>> round(power_at(0.0, 7), 3), round(power_at(2.88, 39), 3)
    (0.05, 0.802)
    """
    limit = stdtrit(freedom, 1 - level / 2)
    below = nctdtr(freedom, shift, np.array([-limit, limit]))
    near, far = np.nan_to_num(below)  # nan is what underflows
    return float(1 - far + near)


@lru_cache
def shift_found(freedom: int, level: float = LEVEL) -> float:
    """Standard errors from 0 at which the power is .8."""
    low, high = 0.0, 10 * float(stdtrit(freedom, 1 - level / 2))
    for _ in range(60):
        middle = (low + high) / 2
        found = power_at(middle, freedom, level) >= WANTED
        low, high = (low, middle) if found else (middle, high)
    return high


def detectable_difference(spread: float, runs: int, level: float = LEVEL) -> float:
    """The smallest difference that so many runs find with a power of .8; nan of one run.

    >>> round(detectable_difference(0.064, 40), 3)
    0.029
    """
    if runs < 2:
        return float("nan")
    return shift_found(runs - 1, level) * spread / runs**0.5


def enough_runs(spread: float, difference: float) -> int | None:
    """How many runs find a difference with a power of .8; None where no number of them would do.

    >>> enough_runs(0.064, 0.010)
    324
    """
    every = range(2, MOST_NEEDED)
    least = bisect_left(every, -difference, key=lambda n: -detectable_difference(spread, n))
    return every[least] if least < len(every) else None


def claim_for(dataset: str, find: float | None = None) -> float:
    """The difference to find: without one what the paper claims, for other data the least."""
    return find or CLAIMED.get(dataset, min(CLAIMED.values()))


def judge_power(
    runs: Mapping[str, np.ndarray],
    references: Mapping[str, str],
    folds: np.ndarray,
    claim: float,
    ratio: float = TEST_TO_TRAIN,
) -> dict[str, Power]:
    """What the runs of each encoding could tell of its difference to its reference.

    Where one of the two is another method, no number of seeds finds more than its folds do.
    """
    strictest, found = LEVEL / max(1, len(references)), {}
    for name, other in references.items():
        apart, own = subtract(runs[name], runs[other], folds)
        found[name] = power_of(apart, own, claim, strictest, ratio)
        if {name, other} & {*BESIDE}:
            found[name] = replace(found[name], claimed_runs=None)
    return found


def power_of(
    values: np.ndarray,
    folds: np.ndarray,
    claimed: float,
    strictest: float,
    ratio: float = TEST_TO_TRAIN,
) -> Power:
    """What paired differences (n,) of these folds could tell; `ratio` of test to training."""
    n, means = len(values), fold_means(values, folds)
    spread, between = deviation(values), deviation(means)
    error = spread / n**0.5
    over = between * (1 / len(means) + ratio) ** 0.5
    return Power(
        runs=n,
        spread=spread,
        detectable=possible(detectable_difference(spread, n)),
        detectable_holm=possible(detectable_difference(spread, n, strictest)),
        excluded=possible(exclusion_bound(values.mean(), error, n - 1)),
        folds_detectable=possible(shift_found(len(means) - 1) * over if over > 0 else np.nan),
        folds_excluded=possible(exclusion_bound(means.mean(), over, len(means) - 1)),
        claimed=claimed,
        claimed_power=power_at(claimed / error, n - 1) if spread > 0 else float("nan"),
        claimed_runs=enough_runs(spread, claimed) if spread > 0 else None,
        claimed_p=p_of_so_much(values.mean(), error, n - 1, claimed),
        folds_claimed_p=p_of_so_much(means.mean(), over, len(means) - 1, claimed),
    )


def possible(difference: float) -> float:
    """A difference that two scores can have; else nan.

    >>> possible(0.25), possible(1.331)
    (0.25, nan)
    """
    return float(difference) if difference <= 1 else float("nan")


def p_of_so_much(mean: float, error: float, freedom: int, claimed: float) -> float:
    """One-sided p of a difference of `claimed` or more by Student's t; nan of one run.

    >>> round(p_of_so_much(-0.009, 0.064 / 40**0.5, 39, 0.010), 3)
    0.034
    """
    return float(stdtr(freedom, (mean - claimed) / error)) if freedom and error > 0 else np.nan


def deviation(values: np.ndarray) -> float:
    """Standard deviation; nan of one value, and of values that are all alike: none is known.

    >>> deviation(np.array([0.25, 0.25])), deviation(np.array([1.0, 3.0])).__round__(3)
    (nan, 1.414)
    """
    found = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return found if found > 1e-12 else float("nan")


def exclusion_bound(mean: float, error: float, freedom: int) -> float:
    """The difference beyond which, either way, one of two one-sided tests rejects; nan of one run.

    >>> round(exclusion_bound(-0.009, 0.064 / 40**0.5, 39), 3)
    0.026
    """
    if freedom < 1:
        return float("nan")
    return float(abs(mean) + stdtrit(freedom, 1 - LEVEL) * error)


def foretell(
    dataset: str,
    seeds: int,
    folds: int,
    spread: float,
    *,
    find: float | None = None,
    differences: int = 1,
) -> str:
    """What so many runs of each encoding will be able to find, if differences spread so.

    Fewer than let the adjusted p of so many differences fall below .05 show none.

    >>> print(foretell("smd", 8, 5, 0.064))
    smd: 40 runs of each encoding show differences in F1 from 0.029 on with 80 % power; if these
    spread by 0.064 as on SMD (--spread), finding +0.010, as the paper claims, takes 324 (--seeds
    65)
    >>> print(foretell("my.npz", 3, 1, 0.3, find=0.02, differences=5))
    my.npz: 3 runs of each encoding show no difference (from 8 on p can fall below .05: --seeds 8);
    if these spread by 0.3, finding +0.020 (--find) takes 1768 (--seeds 1768)
    """
    runs, claim = seeds * folds, claim_for(dataset, find)
    whose = ", as the paper claims," if dataset in CLAIMED and find is None else " (--find)"
    least = detectable_difference(spread, runs)
    fewest, needed = fewest_runs(differences), enough_runs(spread, claim)
    each = agreeing(runs, "run of each encoding shows", "runs of each encoding show")
    shown = f"{each} differences in F1 from {least:.3f} on with 80 % power"
    if runs < fewest:
        enough = f"--seeds {-(-fewest // folds)}"
        shown = f"{each} no difference (from {fewest} on p can fall below .05: {enough})"
    needed = needed and max(needed, fewest)
    as_on_smd = " as on SMD (--spread)" if spread == Options.spread else ""
    spread = f"if these spread by {spread:g}{as_on_smd}"
    takes = f"finding {claim:+.3f}{whose} takes {told_with_seeds(needed, folds)}"
    return f"{dataset}: {runs} {shown}; {spread}, {takes}"


def told_with_seeds(runs: int | None, folds: int) -> str:
    """How many runs, and the --seeds that make them.

    >>> told_with_seeds(324, 5), told_with_seeds(None, 5)
    ('324 (--seeds 65)', 'more than any number of runs')
    """
    if runs is None:
        return "more than any number of runs"
    return f"{runs} (--seeds {-(-runs // folds)})"
