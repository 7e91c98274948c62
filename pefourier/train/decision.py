"""Which encoding classifies best: one decision, which headline, tables, page and JSON read.

On a dataset it is

* leaky, alone, cut short: nothing is compared, as windows leak or fewer than two encodings are
  left that were trained to their end;
* best, tied: some encodings are significantly worse than another, and one or several are not;
* no difference: none is, and for each pair there are units to find the difference asked about;
* too few: none is, and for some pair there are not.

Baselines, encodings scaled by @rms beside others that are not, encodings whose training was cut
short and those that give several tokens one vector are left out, by name. Each pair has one p: with
a reference that of Holm's method over all differences from references, else that over all pairs.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from pefourier.train import statistics
from pefourier.train.chance import Chance
from pefourier.train.options import LEVEL, WITHOUT_CODES
from pefourier.train.statistics import LEAST_UNITS, Difference

ALL = ("best", "tied", "no difference", "too few", "cut short", "alone", "leaky")
KINDS = ("encoding", "scaled", "baseline")  # compared where there are not two of those before


@dataclass(frozen=True)
class Decision:
    """The verdict on the encodings of a dataset, or over datasets, and what it says of each."""

    verdict: str  # one of `ALL`, or those that hold on different datasets
    best: tuple[str, ...] = ()  # the highest mean F1 or best rank, then those not told apart
    worse: dict[str, float] = field(default_factory=dict)  # than one of them; less the highest
    left_out: dict[str, str] = field(default_factory=dict)  # not compared, and why
    pair: tuple[str, ...] = ()  # that needs most units, where there are too few
    shortage: Difference | None = None  # of that pair


def compared(names: Iterable[str], excluded: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """The encodings that are compared with each other, and why each of the others is not.

    >>> compared(["none", "rope", "trees", "dft"], {"dft": "cut short"})
    (['none', 'rope'], {'dft': 'cut short', 'trees': 'baseline'})
    """
    kinds = {e: 2 if e in WITHOUT_CODES else int("@rms=" in e) for e in names}
    last = sorted(kinds.values())[:2][-1]
    left_out = {e: KINDS[kind] for e, kind in kinds.items() if kind > last}
    left_out = {e: excluded[e] for e in kinds if e in excluded} | left_out
    return [e for e in kinds if e not in left_out], left_out


def decide(
    runs: Mapping[str, np.ndarray],
    differences: Mapping[str, Difference],
    chance: Chance,
    find: float,
    excluded: Mapping[str, str],
) -> Decision:
    """The decision on a dataset by F1 of all runs and what differences from references there are.

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
    pairs = [(a, b) for i, a in enumerate(means) for b in list(means)[i + 1 :]]
    found = dict(zip(pairs, statistics.compare_pairs(runs, pairs, chance, find), strict=True))
    decided = {frozenset((e, d.reference)): d.p_holm for e, d in differences.items()}
    above = [
        pair if d.mean > 0 else pair[::-1]
        for pair, d in found.items()
        if d.units >= LEAST_UNITS and decided.get(frozenset(pair), d.p_holm) < LEVEL
    ]
    leading = set(names) - {worse for _, worse in above}
    beaten = {worse for better, worse in above if better in leading}
    best = tuple(e for e in means if e not in beaten)
    if beaten:
        worse = {e: means[e] - means[best[0]] for e in means if e in beaten}
        return Decision("tied" if len(best) > 1 else "best", best, worse, left_out)
    short = {pair: d for pair, d in found.items() if not finds(d)}
    if not short:
        return Decision("no difference", best, left_out=left_out)
    pair = max(short, key=lambda pair: short[pair].needed or np.inf)
    return Decision("too few", best, {}, left_out, pair, short[pair])


def finds(d: Difference) -> bool:
    """Whether there are units enough to find the difference asked about."""
    return d.needed is not None and d.units >= max(d.needed, LEAST_UNITS)


def verdict_on(encoding: str, d: Difference, *, leaky: bool, cut_short: Container[str]) -> str:
    """The verdict on a difference from a reference."""
    if leaky:
        return "leaky"
    if encoding in cut_short or d.reference in cut_short:
        return "cut short"
    if d.units >= LEAST_UNITS and d.p_holm < LEVEL:
        return "better" if d.mean > 0 else "worse"
    return "not shown" if finds(d) else "too few"


def decide_ranks(
    names: Iterable[str], ranks: Mapping[str, float], p: np.ndarray, excluded: Mapping[str, str]
) -> Decision | None:
    """The decision over datasets by average ranks; None where they tell nothing from the best.

    `p` is of every two encodings, in the order of `ranks`.

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
