"""Decision on the best encoding, shared by headline, tables, page and JSON.

The verdict on a dataset is

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
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from pefourier.train import statistics
from pefourier.train.options import LEVEL, WITHOUT_VECTORS
from pefourier.train.statistics import LEAST_UNITS, Chance, Difference
from pefourier.types import Array, Texts
from pefourier.writing.files import read_toml

SENTENCES = read_toml(Path(__file__).with_name("sentences.toml"))
REMARKS = SENTENCES["REMARKS"]  # on data before training
SHARED = 0.15  # of the level, for tests without a reference while a reference may be the best
KINDS = ("encoding", "scaled", "baseline")  # later kinds are compared if earlier ones are too few


@dataclass(frozen=True)
class Decision:
    """The verdict on the encodings of a dataset, or over datasets, with its reasons."""

    verdict: str  # from SENTENCES, or those that hold on different datasets
    best: Texts = ()  # highest mean F1 or best rank, then those tied with it
    worse: dict[str, float] = field(default_factory=dict)  # encoding: mean F1 minus the highest
    left_out: dict[str, str] = field(default_factory=dict)  # encoding: why it is not compared
    pair: Texts = ()  # the pair that needs most units, if there are too few
    shortage: Difference | None = None  # of that pair
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
    differences: Mapping[str, Difference],
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
    pairs = [(a, b) for i, a in enumerate(means) for b in list(means)[i + 1 :]]
    found = dict(zip(pairs, statistics.compare_pairs(runs, pairs, chance, find), strict=True))
    table = {frozenset((e, d.reference)): d for e, d in differences.items()}
    beaten = find_worse(runs, found, table, chance)
    gains = [d.high if b == "none" else -d.low for (a, b), d in found.items() if "none" in (a, b)]
    enough = all(d.units >= LEAST_UNITS for d in found.values())
    best = tuple(e for e in means if e not in beaten)
    no_gain = "none" in best and enough and max(gains) < find
    if beaten:
        worse = {e: means[e] - means[best[0]] for e in means if e in beaten}
        return Decision("tied" if len(best) > 1 else "best", best, worse, left_out, no_gain=no_gain)
    short = {pair: d for pair, d in found.items() if not finds(d)}
    if not short:
        return Decision("no difference", best, left_out=left_out, no_gain=no_gain)
    pair = max(short, key=lambda pair: short[pair].needed or np.inf)
    return Decision("too few", best, {}, left_out, pair, short[pair], no_gain)


def find_worse(
    runs: Mapping[str, Array],
    found: Mapping[tuple[str, str], Difference],
    table: Mapping[frozenset[str], Difference],
    chance: Chance,
) -> set[str]:
    """Return the encodings that are worse than another, from all pairs and those of the table.

    >>> d = Difference("b", 0.1, 0.0, 0.2, 0.04, 0.04, 1.0, "runs", 5, 4)
    >>> find_worse({}, {("a", "b"): d}, {}, Chance(np.zeros(5)))
    {'b'}
    """
    tested = {pair: d for pair, d in found.items() if d.units >= LEAST_UNITS}
    in_table = {pair: table[frozenset(pair)] for pair in tested if frozenset(pair) in table}
    references = {d.reference for d in in_table.values()}
    worse = {pair[tested[pair].mean > 0] for pair, d in in_table.items() if d.p_holm < LEVEL}
    names = list(dict.fromkeys(name for pair in tested for name in pair))  # the highest mean first
    while True:
        pairs = {pair: d for pair, d in tested.items() if not worse & {*pair}}
        remaining = [name for name in names if name not in worse]
        rest = [name for name in remaining if name not in references]
        if references <= worse:
            new = {pair[d.mean > 0] for pair, d in pairs.items() if d.p * len(pairs) < LEVEL}
        elif remaining[0] in references:
            return worse
        else:
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
    units = [statistics.paired_units(runs[a], runs[b], chance.folds)[1] for a, b in pairs]
    mean = np.mean(units, axis=0)
    p = statistics.t_test(mean, chance, pairs[0])[0]
    return p / 2 if mean.mean() < 0 else 1 - p / 2


def finds(d: Difference) -> bool:
    """Whether there are enough units to detect the difference of --find."""
    return d.needed is not None and d.units >= max(d.needed, LEAST_UNITS)


def verdict_on(encoding: str, d: Difference, *, leaky: bool, cut_short: Container[str]) -> str:
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
