"""Which encoding classifies best: one decision, which headline, tables, page and JSON read.

On a dataset it is

* leaky, alone, cut short: nothing is compared, as windows leak or fewer than two encodings are
  left that were trained to their end;
* best, tied: some encodings are significantly worse than another, and one or several are not;
* no difference: none is, and for each pair there are units to find the difference asked about;
* too few: none is, and for some pair there are not.

Baselines, encodings scaled by @rms beside others that are not, and encodings whose training was cut
short are left out, by name. Each pair has one p: with a reference that of Holm's method over all
differences from references, else that over all pairs.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from pefourier.train import statistics
from pefourier.train.chance import Evaluation
from pefourier.train.options import LEVEL, WITHOUT_CODES
from pefourier.train.statistics import LEAST_UNITS, Difference

ALL = ("best", "tied", "no difference", "too few", "cut short", "alone", "leaky")
KINDS = ("encodings", "scaled", "baselines")  # compared if there are not two of those before


@dataclass(frozen=True)
class Shortage:
    """The pair of encodings that needs most units, folds or runs."""

    pair: tuple[str, str]
    units: int
    over: str
    needed: int | None  # None: no number of them


@dataclass(frozen=True)
class Decision:
    """The verdict on the encodings of a dataset, or over datasets, and what it says of each."""

    verdict: str  # one of `ALL`, or several that hold on different datasets
    best: tuple[str, ...] = ()  # the highest mean F1 or best rank, then those not told apart
    worse: dict[str, float] = field(default_factory=dict)  # than one of them; less the highest
    left_out: dict[str, str] = field(default_factory=dict)  # not compared, and why
    shortage: Shortage | None = None


def kind_of(encoding: str) -> str:
    """One of `KINDS`.

    >>> kind_of("rope"), kind_of("dft@rms=0.5"), kind_of("trees")
    ('encodings', 'scaled', 'baselines')
    """
    return KINDS[2 if encoding in WITHOUT_CODES else 1 if "@rms=" in encoding else 0]


def compared(names: Iterable[str], excluded: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """The encodings that are compared with each other, and why each of the others is not.

    >>> compared(["none", "rope", "trees", "dft"], {"dft": "cut short"})
    (['none', 'rope'], {'trees': 'baselines', 'dft': 'cut short'})
    """
    kinds = {name: kind_of(name) for name in names}
    for number in range(1, 1 + len(KINDS)):
        left_out = {e: kind for e, kind in kinds.items() if kind not in KINDS[:number]}
        if len(kinds) - len(left_out) > 1:
            break
    left_out |= {e: why for e, why in excluded.items() if e in kinds and e not in left_out}
    return [e for e in kinds if e not in left_out], left_out


def decide(
    runs: Mapping[str, np.ndarray],
    differences: Mapping[str, Difference],
    evaluation: Evaluation,
    find: float,
    cut_short: Collection[str],
) -> Decision:
    """The decision on a dataset by F1 of all runs and what differences from references there are.

    >>> swing = np.array([0.01, -0.01, 0.01, -0.01])
    >>> runs = {"a": 0.8 + swing, "b": 0.801 - swing, "trees": 0.9 + swing, "c": 0.5 + swing}
    >>> decide(runs, {}, Evaluation(np.zeros(4), windows=900), 0.1, ()).best
    ('b', 'a')
    """
    names, left_out = compared(runs, dict.fromkeys(cut_short, "cut short"))
    if len(names) < 2:
        is_cut = "cut short" in left_out.values()
        return Decision("cut short" if is_cut else "alone", tuple(names), left_out=left_out)
    means = {name: float(runs[name].mean()) for name in names}
    order = sorted(names, key=lambda name: -means[name])
    pairs = [(a, b) for i, a in enumerate(order) for b in order[i + 1 :]]
    found = statistics.compare_pairs(runs, pairs, evaluation, find)
    decided = {frozenset((e, d.reference)): d.p_holm for e, d in differences.items()}
    above = [
        pair if d.mean > 0 else pair[::-1]
        for pair, d in found.items()
        if d.units >= LEAST_UNITS and decided.get(frozenset(pair), d.p_holm) < LEVEL
    ]
    leading = set(names) - {worse for _, worse in above}
    beaten = {worse for better, worse in above if better in leading}
    best = tuple(name for name in order if name not in beaten)
    worse = {name: means[name] - means[best[0]] for name in order if name in beaten}
    shortage = None if worse else shortage_of(found)
    if worse:
        verdict = "tied" if len(best) > 1 else "best"
    else:
        verdict = "too few" if shortage else "no difference"
    return Decision(verdict, best, worse, left_out, shortage)


def finds(d: Difference) -> bool:
    """Whether there are units enough to find the difference asked about."""
    return d.needed is not None and d.units >= max(d.needed, LEAST_UNITS)


def shortage_of(pairs: Mapping[tuple[str, str], Difference]) -> Shortage | None:
    """The pair that needs most units, if it has fewer."""
    short = {pair: d for pair, d in pairs.items() if not finds(d)}
    if not short:
        return None
    pair = max(short, key=lambda pair: short[pair].needed or np.inf)
    return Shortage(pair, short[pair].units, short[pair].over, short[pair].needed)


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
    order = sorted(judged, key=ranks.__getitem__)
    place = {name: i for i, name in enumerate(ranks)}
    worse = {e: ranks[e] for e in order[1:] if p[place[order[0]], place[e]] < LEVEL}
    if not worse:
        return None
    best = tuple(e for e in order if e not in worse)
    return Decision("tied" if len(best) > 1 else "best", best, worse, left_out)
