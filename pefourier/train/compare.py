"""What do the data support? Means, paired differences, and how sure one may be.

Conventions
-----------
A run is a (seed, fold); every encoding has the same runs, so that encodings are compared in pairs.
Runs of one fold share their test windows and runs of one seed their weights: intervals over runs
speak of this data. Nothing is ever picked by its score.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 10_000
EXACT = 14  # runs up to which all sign patterns are tried
LEVEL = 0.05
# Upper .05 points of the studentized range over sqrt 2, k = 2 … 20 (Demsar, 2006, Table 5a)
NEMENYI = (
    *(1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164),
    *(3.219, 3.268, 3.313, 3.354, 3.391, 3.426, 3.458, 3.489, 3.517, 3.544),
)


@dataclass(frozen=True)
class Mean:
    """A mean with its 95 % bootstrap interval over runs."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Difference:
    """An encoding less the reference, run by run."""

    mean: float
    low: float  # 95 % bootstrap interval
    high: float
    p: float  # two-sided sign-flip permutation test
    p_holm: float  # adjusted for all encodings compared with the reference
    p_floor: float  # the least p that this number of runs can give
    better: float  # P(A > B): share of runs above the reference, ties half

    @property
    def supported(self) -> bool:
        """Whether the data tell the two apart."""
        return self.p_holm < LEVEL


def interval(values: np.ndarray) -> Mean:
    """Mean of runs (n,) and its percentile bootstrap interval, the same on every call.

    >>> interval(np.array([0.5, 0.5, 0.5]))
    Mean(mean=0.5, low=0.5, high=0.5)
    """
    drawn = np.random.default_rng(0).integers(0, len(values), (RESAMPLES, len(values)))
    low, high = np.quantile(values[drawn].mean(axis=1), (0.025, 0.975))
    return Mean(float(values.mean()), float(low), float(high))


def sign_flip(differences: np.ndarray) -> float:
    """Two-sided p of the mean under random signs; at least 2^(1 - n).

    >>> sign_flip(np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0]))
    0.03125
    """
    n = len(differences)
    if n <= EXACT:
        signs = 1 - 2 * (np.arange(2**n)[:, None] >> np.arange(n) & 1)
        extra = 0
    else:
        signs = np.random.default_rng(0).choice((-1, 1), (RESAMPLES, n))
        extra = 1  # the data's own signs count among those drawn
    seen = abs(differences.sum())
    as_far = np.abs(signs @ differences) >= seen * (1 - 1e-12) - 1e-15
    return float((as_far.sum() + extra) / (len(signs) + extra))


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


def differences(runs: Mapping[str, np.ndarray], reference: str) -> dict[str, Difference]:
    """Every other encoding less the reference; `runs` gives each the same runs (n,) in order."""
    others = [name for name in runs if name != reference]
    if reference not in runs or not others:
        return {}
    apart = [runs[name] - runs[reference] for name in others]
    p = [sign_flip(d) for d in apart]
    found = {}
    for name, d, raw, adjusted in zip(others, apart, p, holm(p), strict=True):
        mean = interval(d)
        floor = max(2.0 ** (1 - len(d)), 1 / (RESAMPLES + 1) if len(d) > EXACT else 0.0)
        better = float((d > 0).mean() + 0.5 * (d == 0).mean())
        found[name] = Difference(
            mean.mean, mean.low, mean.high, raw, float(adjusted), floor, better
        )
    return found


def ranks(scores: np.ndarray) -> np.ndarray:
    """Average rank of each column over rows, 1 the highest score, ties shared.

    >>> ranks(np.array([[0.9, 0.8, 0.8], [0.7, 0.6, 0.5]]))
    array([1.  , 2.25, 2.75])
    """
    above = (scores[:, None, :] > scores[:, :, None]).sum(axis=2)
    equal = (scores[:, None, :] == scores[:, :, None]).sum(axis=2)
    return (above + (equal + 1) / 2).mean(axis=0)


def critical_difference(encodings: int, datasets: int) -> float:
    r"""Nemenyi's :math:`q_{.05} \sqrt{k (k + 1) / 6 N}` (Demsar, 2006), k encodings, N datasets.

    >>> round(critical_difference(4, 14), 3)
    1.254
    """
    q = NEMENYI[min(encodings, len(NEMENYI) + 1) - 2]
    return q * float(np.sqrt(encodings * (encodings + 1) / (6 * datasets)))


def cliques(average: Mapping[str, float], critical: float) -> list[list[str]]:
    """Largest groups of encodings whose average ranks lie within the critical difference.

    >>> cliques({"a": 1.0, "b": 1.5, "c": 2.1}, 0.7)
    [['a', 'b'], ['b', 'c']]
    """
    names = sorted(average, key=lambda name: average[name])
    groups: list[list[str]] = []
    for i, name in enumerate(names):
        group = [n for n in names[i:] if average[n] - average[name] < critical]
        if len(group) > 1 and not (groups and set(group) <= set(groups[-1])):
            groups.append(group)
    return groups
