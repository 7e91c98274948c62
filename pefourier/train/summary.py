"""Summary of result rows: scores, differences and verdicts by dataset, and ranks over all.

The best encoding is decided in `statistics`. A difference in F1 from the reference is

* leaky, cut short: not assessed, because windows leak or training of one of the two was cut short;
* better, worse: Holm's p is below 0.05;
* not shown: Holm's p is higher, and the units detect the difference of --find with 80% power;
* too few: Holm's p is higher, and the units do not, or are fewer than `LEAST_UNITS`.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from pefourier.train import statistics
from pefourier.train.options import BESIDE, FIND, LEVEL, seeds_of
from pefourier.train.statistics import (
    SENTENCES,
    Decision,
    Difference,
    Mean,
    chance_of,
    decide,
    decide_ranks,
    verdict_on,
)
from pefourier.train.store import MEASURES
from pefourier.types import Array, Fields, Texts, Values

REFERENCE = "sinusoidal"
LEAKY = "leaky split"
Rows = Sequence[Mapping[str, Any]]  # of results.jsonl
COLLIDES = "vectors collide"  # of encodings that give several tokens one vector
CUT_SHORT = 5  # training is cut short if more than one run in this many keeps its last weights


@dataclass(frozen=True)
class LengthMeans:
    """Means of an encoding's runs on windows of a length, or the reason why they are missing."""

    length: int
    f1: Mean | None
    accuracy: Mean | None
    auprc: Mean | None
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class DatasetSummary(Decision):
    """Summary of a dataset: the decision, and each encoding's scores, difference and verdict."""

    dataset: str
    split: str
    leaky: bool
    length: int  # rows of a window
    seeds: int
    folds: int
    scores: dict[str, dict[str, Mean]]  # encoding → measure → mean
    differences: dict[str, Difference]  # in F1, from the reference of the same size
    auprc_differences: dict[str, Difference]
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


@dataclass(frozen=True, kw_only=True)
class Summary(Decision):
    """Summary of all datasets: average ranks and the overall decision."""

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

    @property
    def shows_ranks(self) -> bool:
        """Whether ranks over datasets distinguish at least two rows and deserve a figure."""
        return self.ranked and [set(group) for group in self.cliques] != [set(self.ranks)]


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
    ranks = dict(zip(shared, statistics.average_ranks(f1).tolist(), strict=True)) if shared else {}
    p = statistics.wilcoxon_holm(f1)
    cliques = statistics.cliques(ranks, p) if len(datasets) > 1 else []
    return Summary(
        **vars(decide_all(datasets, ranks, p)),
        reference=reference,
        datasets=datasets,
        ranks=ranks,
        cliques=tuple(map(tuple, cliques)),
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
    return Decision(" and ".join(code for code in SENTENCES["CONCLUSIONS"] if code in found))


def summarize_dataset(rows: Rows, reference: str, params: Values, find: float) -> DatasetSummary:
    """Summarize a dataset over the runs that all encodings have."""
    runs, values = common_runs(rows)
    scores = {e: {m: statistics.interval(v) for m, v in s.items()} for e, s in values.items()}
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
        dict(zip(references, statistics.compare_pairs(f, pairs, chance, find), strict=True))
        if f
        else {}
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
    row, groups = rows[0], rows_by("encoding", rows)
    steps = {e: [r for r in of if "step" in r and e not in BESIDE] for e, of in groups.items()}
    first = {e: sum(r["step"] == 0 for r in of) for e, of in steps.items()}
    last = {  # with the weights of the last possible step: may have been cut short
        e: sum(bool(r.get("budget") and r["step"] >= r["budget"]["steps"]) for r in of)
        for e, of in steps.items()
    }
    return {
        **{key: row.get(key, 0) for key in ("dataset", "split", "leaky", "length")},
        **{key: row.get(key) for key in ("positive", "shortest", "budget")},
        "diverged": {e: count for e, count in first.items() if count},
        "last_kept": {e: count for e, count in last.items() if count},
        "cut_short": tuple(e for e, n in last.items() if n * CUT_SHORT > len(groups[e])),
    }


def summarize_lengths(rows: Rows) -> tuple[LengthMeans, ...]:
    """Means of an encoding's runs at each further length; None if some runs have no scores."""
    means = []
    scores = rows_by("length", (tested for row in rows for tested in row.get("tested", ())))
    for length, of in scores.items():
        reason = next((tested["reason"] for tested in of if tested["reason"]), "")
        columns = ([tested[measure] for tested in of] for measure in ("f1", "accuracy", "auprc"))
        f1, accuracy, auprc = (
            None if reason else statistics.interval(np.array(column)) for column in columns
        )
        means.append(LengthMeans(length, f1, accuracy, auprc, reason))
    return tuple(means)


def common_runs(rows: Rows) -> tuple[list[tuple[int, int]], dict[str, dict[str, Array]]]:
    """Return the runs (seed, fold) that all encodings have, and the measures over these runs.

    Other methods have only the first seed, and their measures are over folds.
    """
    groups = rows_by("encoding", rows)
    arms = {e: {(row["seed"], row["fold"]): row for row in of} for e, of in groups.items()}
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
