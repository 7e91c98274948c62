"""The answer of a comparison: a table like the paper's Table 1, and what the data support."""

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pefourier.train import power, statistics
from pefourier.train.data.load import sides_of_data
from pefourier.train.options import BESIDE, LEVEL, STEPS, WITHOUT_CODES, seeds_of
from pefourier.train.power import Power
from pefourier.train.statistics import Difference, Mean

REFERENCE = "sinusoidal"
CLAIMANT = "dft"  # of whose gain over the reference the paper has claims
MEASURES = ("precision", "recall", "f1", "auprc", "accuracy")
LEAKY = "leaky split"
FEW = 4  # runs, of which the ends of an interval are the least and the greatest
CUT_SHORT = 5  # where more than one run in so many keeps its last epoch, training ended too soon


@dataclass(frozen=True)
class LengthScores:
    """What the runs of an encoding came to on windows of a length, or why they could not."""

    length: int
    f1: Mean | None
    accuracy: Mean | None
    auprc: Mean | None
    reason: str = ""


@dataclass(frozen=True)
class DatasetSummary:
    """One dataset: each encoding's scores over its runs, and differences in F1 and AUPRC."""

    dataset: str
    split: str
    leaky: bool
    length: int  # rows of a window
    seeds: int
    folds: int
    scores: dict[str, dict[str, Mean]]  # encoding → measure → mean
    differences: dict[str, Difference]  # in F1, from the reference of the same size
    auprc_differences: dict[str, Difference]
    diverged: dict[str, int]  # runs that keep the weights they began with
    runs: dict[str, int]  # of each encoding, those that not all have too
    last_kept: dict[str, int]  # runs that keep the last epoch there was
    cut_short: tuple[str, ...]  # encodings that too many such runs have
    params: Mapping[str, Mapping[str, Any]]  # of each encoding
    power: dict[str, Power] = field(default_factory=dict)  # of each difference in F1
    # what validation chose: encoding → setting → value → runs
    chosen: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)
    lengths: dict[str, tuple[LengthScores, ...]] = field(default_factory=dict)  # tested too
    confusion: dict[str, list[list[int]]] = field(default_factory=dict)  # summed over runs
    per_class: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # of these sums
    falling: dict[str, int] = field(default_factory=dict)  # runs that lost patience too soon
    budget: Mapping[str, int] | None = None  # epochs, patience in epochs, steps of an epoch
    positive: str | None = None  # class whose scores are told; of more than two there is none
    shortest: int | None = None  # rows of the shortest window
    uneven: bool = False  # rows are at uneven times, of which only the order counts
    step_seconds: dict[str, float] = field(default_factory=dict)  # of a step of one run
    in_epochs: bool = False  # whether its length was asked for in epochs

    def counted(self, encoding: str) -> int:
        """Runs that an encoding's means are over."""
        return seeds_of(encoding, self.seeds) * self.folds

    @property
    def fitted_once(self) -> list[str]:
        """Other methods that have fewer runs than encodings have."""
        return [e for e in self.scores if self.counted(e) < self.seeds * self.folds]

    def way_out(self, encoding: str) -> str:
        """The option of which an encoding that was cut short needs more."""
        last, falling = self.last_kept.get(encoding, 0), self.falling.get(encoding, 0)
        return self.longer if last >= falling else "--patience-steps"

    @property
    def longer(self) -> str:
        """The option that makes runs longer, as it was given, with a number where one is known."""
        flag = "--epochs" if self.in_epochs else "--steps"
        if self.budget is None:
            return flag
        epochs, steps = self.budget["epochs"], self.budget["steps"]
        few = -(-STEPS // steps) if self.in_epochs else STEPS
        return f"{flag}, such as {max(2 * epochs * (1 if self.in_epochs else steps), few)}"

    def interval(self, encoding: str) -> str:
        """What the ends of an encoding's interval are: of so few runs their range."""
        return "range" if 1 < self.counted(encoding) <= FEW else "95 %"

    @property
    def inputs(self) -> str:
        """What is classified, as a title has it."""
        sides = sides_of_data(self.dataset)
        if not sides:
            padded = self.shortest not in (None, self.length)
            return (
                f"{f'series of {self.shortest} to' if padded else 'windows of'} {self.length} rows"
            )
        return f"{'pictures' if len(sides) == 2 else 'grids'} of {'x'.join(map(str, sides))} points"


@dataclass(frozen=True)
class Summary:
    """All datasets, and average ranks over them."""

    reference: str
    datasets: tuple[DatasetSummary, ...]
    ranks: dict[str, float]
    cliques: tuple[tuple[str, ...], ...]  # not told apart over datasets; with one there are none
    runs: tuple[dict[str, Any], ...]
    training: Mapping[str, Any] = field(default_factory=dict)  # what all models have in common

    @property
    def ranked(self) -> bool:
        """Whether there are datasets to rank encodings over."""
        return len(self.datasets) > 1 and len(self.ranks) > 1

    @property
    def lengthened(self) -> bool:
        """Whether some runs were tested on windows of other lengths, too."""
        return any(one.lengths for one in self.datasets)

    @property
    def others(self) -> list[str]:
        """Rows of the answer that no encoding makes."""
        return [e for e in WITHOUT_CODES if any(e in one.scores for one in self.datasets)]

    @property
    def over(self) -> str:
        """What ranks are averaged over."""
        leaky = any(one.leaky for one in self.datasets)
        return f"over {len(self.datasets)} datasets" + (f", {LEAKY}" if leaky else "")

    @property
    def out_of_reach(self) -> str:
        """Whether so few datasets could tell any two of so many encodings apart, in words."""
        n, k = len(self.datasets), len(self.ranks)
        least = 2.0 ** (1 - n) * k * (k - 1) / 2  # p of the best pair, adjusted
        few = f"with {n} datasets for {count_arms(self.ranks)} .05 is out of reach"
        return few if least > LEVEL else ""


def summarize_runs(
    rows: Sequence[Mapping[str, Any]],
    params: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
    training: Mapping[str, Any] | None = None,
    classes: Mapping[str, Sequence[str]] | None = None,
) -> Summary:
    """What the rows of results.jsonl say; without `REFERENCE` the first encoding is compared to.

    `params` are those of each dataset's encodings, `classes` the names of its classes.
    """
    names = list(dict.fromkeys(row["encoding"] for row in rows))
    reference = REFERENCE if REFERENCE in names else names[0]
    datasets = list(dict.fromkeys(row["dataset"] for row in rows))
    found = [
        summarize_dataset(
            [r for r in rows if r["dataset"] == name],
            reference,
            (params or {}).get(name, {}),
            (training or {}).get("epochs"),
            (classes or {}).get(name, ()),
            (training or {}).get("find"),
        )
        for name in datasets
    ]
    shared = [
        e for e in (found[0].scores if found else ()) if all(e in one.scores for one in found)
    ]
    f1 = np.array([[one.scores[e]["f1"].mean for e in shared] for one in found])
    ranks = dict(zip(shared, statistics.average_ranks(f1).tolist(), strict=True)) if shared else {}
    groups = statistics.cliques(ranks, statistics.wilcoxon_holm(f1)) if len(found) > 1 else []
    return Summary(
        reference=reference,
        datasets=tuple(found),
        ranks=ranks,
        cliques=tuple(tuple(group) for group in groups),
        runs=tuple(dict(row) for row in rows),
        training=training or {},
    )


def summarize_dataset(
    rows: Sequence[Mapping[str, Any]],
    reference: str,
    params: Mapping[str, Mapping[str, Any]],
    epochs: int | None = None,
    classes: Sequence[str] = (),
    find: float | None = None,
) -> DatasetSummary:
    """Scores and differences of one dataset, over the runs that every encoding has.

    Without `epochs`, the most there could be, nobody can say whether they were too few.
    """
    runs, values = common_runs(rows)
    scores = {e: {m: statistics.interval(v) for m, v in one.items()} for e, one in values.items()}
    others = {e: reference_of(e, values, reference) for e in values if e != reference}
    of_run, ratio = np.array([fold for _, fold in runs]), test_to_train(rows)
    by = {m: {e: one[m] for e, one in values.items()} for m in ("f1", "auprc")}
    apart = {m: statistics.paired_differences(one, others, of_run, ratio) for m, one in by.items()}
    claim = power.claim_for(rows[0]["dataset"], find)
    could = power.judge_power(by["f1"], others, of_run, claim, ratio)
    seeds, folds = (len({run[i] for run in runs}) for i in (0, 1))
    return DatasetSummary(
        **{key: rows[0][key] for key in ("dataset", "split", "leaky", "length")},
        seeds=seeds,
        folds=folds,
        scores=scores,
        differences=apart["f1"],
        auprc_differences=apart["auprc"],
        **count_runs(rows, epochs, tuple(scores)),
        params=params,
        power=could,
        budget=rows[0].get("budget"),
        **{key: rows[0][key] for key in ("positive", "shortest", "uneven") if key in rows[0]},
        chosen=count_choices(rows),
        step_seconds=step_costs(rows),
        in_epochs=epochs is not None,
        lengths=summarize_lengths(rows, set(runs)),
        **summarize_classes(rows, set(runs), classes),
    )


def step_costs(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Seconds of a step of one run of each encoding, the median over runs; earlier rows have none.

    >>> step_costs([{"encoding": "rope", "step_seconds": s} for s in (1, 2, 9)] + [{}])
    {'rope': 2.0}
    """
    timed = [row for row in rows if "step_seconds" in row]
    names = dict.fromkeys(row["encoding"] for row in timed)
    of = {e: [row["step_seconds"] for row in timed if row["encoding"] == e] for e in names}
    return {e: float(np.median(own)) for e, own in of.items()}


def test_to_train(rows: Sequence[Mapping[str, Any]]) -> float:
    """Test windows for each training window, at least as in five folds: training ones may overlap.

    >>> test_to_train([{"windows": 40, "trained": 32}])
    1.25
    """
    return max(statistics.TEST_TO_TRAIN, *(row["windows"] / row["trained"] for row in rows))


def count_runs(
    rows: Sequence[Mapping[str, Any]], epochs: int | None, encodings: Sequence[str]
) -> dict[str, Any]:
    """How many runs each encoding has, and of them those that kept no epoch, the last one there

    could be, and one before patience ended them too soon; the encodings that were cut short. All
    are judged by one rule: patience counts only where every run records how it ended.
    """
    kept = [
        (row["encoding"], row.get("epoch"), row.get("budget", {"epochs": epochs})["epochs"])
        for row in rows
    ]
    every = Counter(e for e, _, _ in kept)
    last = Counter(e for e, at, most in kept if most and at == most and e not in BESIDE)
    falling = Counter(row["encoding"] for row in rows if row.get("falling"))
    short = last + falling if records_falling(rows) else last
    return {
        "runs": dict(every),
        "diverged": dict(Counter(e for e, epoch, _ in kept if epoch == 0)),
        "last_kept": dict(last),
        "falling": dict(falling),
        "cut_short": tuple(e for e in encodings if short[e] * CUT_SHORT > every[e]),
    }


def records_falling(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether all runs of models say if patience ended them too soon; earlier versions did not.

    >>> records_falling([{"encoding": "rope", "falling": True}, {"encoding": "dft"}])
    False
    """
    return all("falling" in row for row in rows if row["encoding"] not in BESIDE)


def count_choices(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, dict[str, int]]]:
    """How many runs of each encoding chose each value of what was searched."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    for row in rows:
        for setting, value in row.get("chosen", {}).items():
            own = found.setdefault(row["encoding"], {}).setdefault(setting, {})
            name = value if isinstance(value, str) else f"{value:g}"
            own[name] = own.get(name, 0) + 1
    return found


def summarize_classes(
    rows: Sequence[Mapping[str, Any]],
    runs: Container[tuple[int, int]],
    names: Sequence[str],
) -> dict[str, Any]:
    """Windows of each class that are said to be of each, over the runs that every encoding has."""
    found: dict[str, np.ndarray] = {}
    for row in rows:
        if (row["seed"], row["fold"]) in runs:
            own = np.array(row["confusion"])
            found[row["encoding"]] = own + found.get(row["encoding"], 0)
    return {
        "confusion": {e: one.tolist() for e, one in found.items()},
        "per_class": {e: score_classes(one, names) for e, one in found.items()},
    }


def score_classes(confusion: Sequence[Sequence[int]], names: Sequence[str]) -> list[dict[str, Any]]:
    """Precision, recall and F1 of each class, and its windows; 0 where nothing is said or true.

    >>> score_classes([[1, 1], [0, 2]], ["a", "b"])[1]
    {'class': 'b', 'precision': 0.6666666666666666, 'recall': 1.0, 'f1': 0.8, 'windows': 2}
    """
    found, table = [], np.array(confusion)
    for label, (row, said) in enumerate(zip(table, table.sum(axis=0), strict=True)):
        hits, true = int(row[label]), int(row.sum())
        found.append(
            {
                "class": names[label] if names else str(label),
                "precision": hits / max(int(said), 1),
                "recall": hits / max(true, 1),
                "f1": 2 * hits / max(true + int(said), 1),
                "windows": true,
            }
        )
    return found


def summarize_lengths(
    rows: Sequence[Mapping[str, Any]], runs: Container[tuple[int, int]]
) -> dict[str, tuple[LengthScores, ...]]:
    """Means over the runs that every encoding has, at each length that was tested too."""
    by: dict[str, dict[int, list[Mapping[str, Any]]]] = {}
    for row in rows:
        for tested in row.get("tested", ()) if (row["seed"], row["fold"]) in runs else ():
            by.setdefault(row["encoding"], {}).setdefault(tested["length"], []).append(tested)
    return {
        e: tuple(mean_at_length(length, tested) for length, tested in one.items())
        for e, one in by.items()
    }


def mean_at_length(
    length: int,
    tested: Sequence[Mapping[str, Any]],
    measures: Sequence[str] = ("accuracy", "f1", "auprc"),
) -> LengthScores:
    """Means of what runs came to at one length; none where some could not be tested."""
    reason = next((one["reason"] for one in tested if one["reason"]), "")
    known = () if reason else measures
    means = [statistics.interval(np.array([one[measure] for one in tested])) for measure in known]
    accuracy, f1, auprc = (*means, None, None, None)[:3]
    return LengthScores(length, f1, accuracy, auprc, reason)


def common_runs(
    rows: Sequence[Mapping[str, Any]],
) -> tuple[list[tuple[int, int]], dict[str, dict[str, np.ndarray]]]:
    """The runs (seed, fold) that every encoding has, and its measures over them.

    Another method has the first seed alone, and its measures are over folds.
    """
    by: dict[str, dict[tuple[int, int], Mapping[str, Any]]] = {}
    for row in rows:
        by.setdefault(row["encoding"], {})[row["seed"], row["fold"]] = row
    every = {own_run(e, run) for e, one in by.items() for run in one}
    runs = sorted(r for r in every if all(own_run(e, r) in one for e, one in by.items()))
    own = {e: sorted({own_run(e, run) for run in runs}) for e in by}
    return runs, {
        e: {m: np.array([one[run][m] for run in own[e]]) for m in MEASURES} for e, one in by.items()
    }


def own_run(encoding: str, run: tuple[int, int]) -> tuple[int, int]:
    """What a run (seed, fold) of others is compared with: of another method its only one.

    >>> own_run("rope", (2, 1)), own_run("trees", (2, 1))
    ((2, 1), (0, 1))
    """
    return (min(run[0], seeds_of(encoding, run[0] + 1) - 1), run[1])


def count_arms(names: Iterable[str]) -> str:
    """How many encodings there are, and other models beside them.

    >>> count_arms(["none", "dft"]), count_arms(["dft", "trees", "order-free"])
    ('2 encodings', '1 encoding and 2 other models')
    """
    counts = Counter(name in WITHOUT_CODES for name in names)
    kinds = (("encoding", counts[False]), ("other model", counts[True]))
    return " and ".join(f"{n} {what}{'s' * (n > 1)}" for what, n in kinds if n)


def reference_of(encoding: str, encodings: Container[str], reference: str) -> str:
    """What an encoding is compared to: `REFERENCE` at the size that it is scaled to, if there.

    >>> reference_of("dft@rms=0.5", ["sinusoidal", "sinusoidal@rms=0.5"], "sinusoidal")
    'sinusoidal@rms=0.5'
    """
    own = f"{REFERENCE}@{encoding.rpartition('@')[2]}"
    return own if "@" in encoding and own != encoding and own in encodings else reference
