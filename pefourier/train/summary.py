"""The answer of a comparison: a table like the paper's Table 1, and what the data support."""

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from typing import Any

import numpy as np

from pefourier.answers.page import Page, flattened
from pefourier.answers.text import agreeing, aligned, join, markdown_table, paragraph
from pefourier.errors import printable
from pefourier.train import power, statistics
from pefourier.train.conclusion import (
    class_counts,
    conclude_datasets,
    conclude_training,
    verdict_on,
    verdict_word,
)
from pefourier.train.data.load import sides_of_data
from pefourier.train.data.split import ORDER_ALONE
from pefourier.train.options import BESIDE, LEVEL, WITHOUT_CODES, seeds_of
from pefourier.train.power import Power
from pefourier.train.searched import read_search
from pefourier.train.statistics import Difference, Mean

REFERENCE = "sinusoidal"
CLAIMANT = "dft"  # of whose gain over the reference the paper has claims
MEASURES = ("precision", "recall", "f1", "auprc")
LATER = ("accuracy",)  # rows of earlier versions have none
LEAKY = "leaky split"
CUT_SHORT = 5  # where more than one run in so many keeps its last epoch, training ended too soon
CAPTIONS = {"f1": "F1", "auprc": "AUPRC"}
COLUMNS = 5  # encodings side by side, at most


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
        return "--steps" if last >= falling else "--patience-steps"

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
    f1, auprc = ({e: one[m] for e, one in values.items()} for m in ("f1", "auprc"))
    apart, ranking = (
        statistics.paired_differences(one, others, of_run, ratio) for one in (f1, auprc)
    )
    claim = power.claim_for(rows[0]["dataset"], find)
    could = power.judge_power(f1, others, of_run, claim, ratio)
    seeds, folds = (len({run[i] for run in runs}) for i in (0, 1))
    every, diverged, last, falling = count_runs(rows, epochs)
    cut = tuple(e for e in scores if (last.get(e, 0) + falling.get(e, 0)) * CUT_SHORT > every[e])
    return DatasetSummary(
        **{key: rows[0][key] for key in ("dataset", "split", "leaky", "length")},
        seeds=seeds,
        folds=folds,
        scores=scores,
        differences=apart,
        auprc_differences=ranking,
        diverged=diverged,
        runs=every,
        last_kept=last,
        cut_short=cut,
        params=params,
        power=could,
        falling=falling,
        budget=rows[0].get("budget"),
        **{key: rows[0][key] for key in ("positive", "shortest", "uneven") if key in rows[0]},
        chosen=count_choices(rows),
        step_seconds=step_costs(rows),
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

    >>> test_to_train([{"windows": 40, "trained": 32}]), test_to_train([{}]) == 1 / 3
    (1.25, True)
    """
    known = [row["windows"] / row["trained"] for row in rows if "trained" in row]
    return max([*known, statistics.TEST_TO_TRAIN])


def count_runs(rows: Sequence[Mapping[str, Any]], epochs: int | None) -> tuple[dict[str, int], ...]:
    """How many runs each encoding has, and of them those that kept no epoch, the last one there

    could be, and one before patience ended them too soon.
    """
    kept = [
        (row["encoding"], row.get("epoch"), row.get("budget", {"epochs": epochs})["epochs"])
        for row in rows
    ]
    return (
        dict(Counter(e for e, _, _ in kept)),
        dict(Counter(e for e, epoch, _ in kept if epoch == 0)),
        dict(Counter(e for e, at, most in kept if most and at == most and e not in BESIDE)),
        dict(Counter(row["encoding"] for row in rows if row.get("falling"))),
    )


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
        if "confusion" in row and (row["seed"], row["fold"]) in runs:
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
    measures = [*MEASURES, *(m for m in LATER if all(m in row for row in rows))]
    return runs, {
        e: {m: np.array([one[run][m] for run in own[e]]) for m in measures} for e, one in by.items()
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


def runs_of(seeds: int, folds: int) -> str:
    """How many runs each encoding has.

    >>> runs_of(8, 1)
    '8 seeds × 1 fold'
    """
    counted = ((seeds, "seed"), (folds, "fold"))
    several = [f"{n} {what}s" if n > 1 else f"{n} {what}" for n, what in counted]
    return " × ".join(several)


def reference_of(encoding: str, encodings: Container[str], reference: str) -> str:
    """What an encoding is compared to: `REFERENCE` at the size that it is scaled to, if there.

    >>> reference_of("dft@rms=0.5", ["sinusoidal", "sinusoidal@rms=0.5"], "sinusoidal")
    'sinusoidal@rms=0.5'
    """
    own = f"{REFERENCE}@{encoding.rpartition('@')[2]}"
    return own if "@" in encoding and own != encoding and own in encodings else reference


def cell(mean: Mean) -> str:
    """A mean with its interval, where there is one.

    >>> cell(Mean(0.5, 0.4, 0.6))
    '.500 [.400, .600]'
    """
    if not mean.low < mean.high:
        return three_decimals(mean.mean)
    return f"{three_decimals(mean.mean)} [{three_decimals(mean.low)}, {three_decimals(mean.high)}]"


def three_decimals(value: float) -> str:
    """Three decimals, without the zero before the point."""
    return f"{value:.3f}".replace("0.", ".", 1) if 0 <= value < 1 else f"{value:.3f}"


def tables(summary: Summary) -> list[tuple[str, list[list[str]]]]:
    """Titles and rows: Table 1, each dataset's intervals and differences, ranks."""
    encodings = list(dict.fromkeys(e for one in summary.datasets for e in one.scores))
    found = []
    for part in np.array_split(encodings, -(-len(encodings) // COLUMNS)):
        body = [
            [title(one), *(table_1_cell(one.scores.get(e)) for e in part)]
            for one in summary.datasets
        ]
        found.append(("", [["P / R / F1", *part], *body]))
    for one in summary.datasets:
        measures = list(next(iter(one.scores.values())))
        head = ["encoding", *(CAPTIONS.get(m, m) for m in measures)]
        body = [[e, *(cell(s[m]) for m in measures)] for e, s in one.scores.items()]
        if chance := chance_scores(one):
            always = one.positive or (
                "positive" if len(class_counts(one)) == 2 else "the commonest"
            )
            body.append([f"(always {always})", *(three_decimals(chance[m]) for m in measures)])
        what = f"{title(one)}, {one.inputs}: mean [95 %] over " + runs_of(one.seeds, one.folds)
        if once := one.fitted_once:
            what += f", {join(once)} over {runs_of(1, one.folds)}"
        what += f"; positive: {one.positive}" if one.positive is not None else ""
        found.append((what, [head, *body]))
        found += difference_table(one, summary.reference)
        found += more_tables(one)
    if summary.ranked:
        ordered = sorted(summary.ranks.items(), key=lambda item: item[1])
        body = [[e, f"{rank:.2f}"] for e, rank in ordered]
        what = f"average ranks by F1 {summary.over}"
        found.append((what, [["encoding", "average rank"], *body]))
    return found


def difference_table(one: DatasetSummary, reference: str) -> list[tuple[str, list[list[str]]]]:
    """Verdicts on differences from the reference, with their numbers; empty without any."""
    same = any(d.reference != reference for d in one.differences.values())
    over = ["over folds"] if one.folds > 1 else []
    head = ["encoding", "verdict", "F1", *over, "p", "Holm p", "P(A > B)", "AUPRC", "Holm p"]
    body = [
        [e, verdict_word(one, e), *difference_cells(d, one.auprc_differences[e])]
        for e, d in one.differences.items()
    ]
    what = f"{title(one)}, difference from {reference}{' at the same rms' * same}"
    return [(what, [head, *body])] if body else []


def chance_scores(one: DatasetSummary) -> dict[str, float]:
    """Scores of always naming one class of the test windows together; empty if not known.

    Of two classes it is the positive one, of which a share p has F1 2p / (1 + p); of K it is the
    commonest, and its scores are means over classes.
    """
    counts = class_counts(one)
    if not counts:
        return {}
    two = len(counts) == 2
    share, k = (counts[1] if two else max(counts)) / sum(counts), 1 if two else len(counts)
    f1 = 2 * share / (1 + share) / k
    known = {"precision": share / k, "recall": 1 / k, "f1": f1, "accuracy": share}
    return known | {"auprc": share if two else 1 / k}


def more_tables(one: DatasetSummary) -> list[tuple[str, list[list[str]]]]:
    """What the runs of a dataset could tell, did on longer windows, and chose."""
    found = []
    cells = power_cells(one) if one.power else []
    if len(cells) > 1:
        found.append((f"{title(one)}, what its runs could detect", cells))
    if one.lengths:
        what = f"{title(one)}, trained on windows of {one.length} rows: F1 / accuracy by length"
        found.append((what, length_cells(one)))
    if one.chosen:
        found.append((f"{title(one)}, chosen on validation: runs", choice_cells(one)))
    return found


def table_1_cell(scores: Mapping[str, Mean] | None) -> str:
    """Precision, recall and F1 as in Table 1."""
    return " / ".join(three_decimals(scores[m].mean) for m in MEASURES[:3]) if scores else "–"


def title(one: DatasetSummary) -> str:
    """A dataset, its split unless that is the default, and a warning where it leaks."""
    how = f", {LEAKY}" if one.leaky else "" if one.split == "blocks" else f", {one.split}"
    return one.dataset + how


def difference_cells(f1: Difference, auprc: Difference) -> list[str]:
    """A difference in F1, its interval over folds if there are some, its tests; that in AUPRC."""
    folds = bounds(f1.folds_low, f1.folds_high)
    size, other = (f"{d.mean:+.3f} {bounds(d.low, d.high)}".rstrip() for d in (f1, auprc))
    tests = [f"{f1.p:.3g}", f"{f1.p_holm:.3g}", f"{f1.better:.2f}"]
    over = [folds] if folds else []
    return [size, *over, *tests, other, f"{auprc.p_holm:.3g}"]


def power_cells(one: DatasetSummary) -> list[list[str]]:
    """What the runs of a dataset could have found in F1 and what they exclude, with a head."""
    over = ["over folds"] if one.folds > 1 else []
    claim = next(iter(one.power.values())).claimed
    head = ["encoding", "spread", "detectable at 80 %", *over, "ruled out beyond", *over]
    body = []
    for name, could in one.power.items():
        silent = {name, one.differences[name].reference} & set(one.cut_short)
        if silent or np.isnan(could.spread):
            continue
        known = (could.spread, could.detectable, could.excluded)
        spread, least, beyond = ("–" if np.isnan(v) else f"{v:.3f}" for v in known)
        least_over, beyond_over = (
            ["–" if np.isnan(v) else f"{v:.3f}"] if over else []
            for v in (could.folds_detectable, could.folds_excluded)
        )
        needed = "–"
        if could.claimed_runs is not None:
            needed = power.told_with_seeds(could.claimed_runs, one.folds)
        beyond = beyond if beyond == "–" else f"±{beyond}"
        body.append([name, spread, least, *least_over, beyond, *beyond_over, needed])
    return [[*head, f"runs to find {claim:+.3f}"], *body]


def length_cells(one: DatasetSummary) -> list[list[str]]:
    """F1 and accuracy of each encoding at each length, with a head."""
    lengths = [at.length for at in next(iter(one.lengths.values()))]
    body = []
    for name, every in one.lengths.items():
        own = one.scores[name]
        first = f"{three_decimals(own['f1'].mean)} / {three_decimals(own['accuracy'].mean)}"
        rest = [
            "–" if at.reason else f"{three_decimals(at.f1.mean)} / {cell(at.accuracy)}"
            for at in every
        ]
        body.append([name, first, *rest])
    return [["encoding", f"{one.length} (test part)", *map(str, lengths)], *body]


def remarks_on_lengths(summary: Summary) -> list[str]:
    """Who could not be tested at another length, and why."""
    return [
        f"{one.dataset}: {name} cannot be tested on windows of {at.length} rows: {at.reason}"
        for one in summary.datasets
        for name, every in one.lengths.items()
        for at in every
        if at.reason
    ]


def choice_cells(one: DatasetSummary) -> list[list[str]]:
    """How often each value of each setting was chosen, with a head; – where it has no such one."""
    settings = list(dict.fromkeys(s for own in one.chosen.values() for s in own))
    body = []
    for name, own in one.chosen.items():
        counted = [
            ", ".join(f"{v} ×{n}" for v, n in sorted(own.get(s, {}).items())) for s in settings
        ]
        body.append([name, *(text or "–" for text in counted)])
    return [["encoding", *(s.replace("_", "-") for s in settings)], *body]


def bounds(low: float, high: float) -> str:
    """An interval in brackets, where there is one."""
    return "" if np.isnan(low) else f"[{low:+.3f}, {high:+.3f}]"


def conclude_all(summary: Summary) -> str:
    """The verdict, then where training was cut short, then what each dataset says."""
    return "\n".join(paragraph(printable(line)) for line in said_first(summary))


def summary_page(summary: Summary) -> Page:
    """The answer of `pefourier train`."""
    return Page(
        "train",
        words=lambda: terminal_text(summary),
        records=lambda: json_records(summary),
        rows=lambda: flattened(json_records(summary)),
        conclusion=lambda: conclude_all(summary),
        together=lambda: " ".join(conclude_datasets(summary)),
    )


def terminal_text(summary: Summary) -> str:
    """The answer for a terminal."""
    parts = [
        (paragraph(printable(what)) if what else "")
        + aligned([list(map(printable, row)) for row in rows])
        for what, rows in tables(summary)
    ]
    said = "".join(paragraph(printable(line), "  ") for line in sentences(summary))
    return "\n".join([*parts, said])


def as_markdown(summary: Summary) -> str:
    """The answer as summary.md."""
    parts = ["# Encodings compared", ""]
    parts += [text for line in said_first(summary) for text in (printable(line), "")]
    for what, rows in tables(summary):
        parts += [f"## {printable(what)}", ""] if what else []
        parts += [markdown_table(rows), ""]
    parts += ["## How to read these numbers", ""]
    points = [f"* {printable(line)}" for line in sentences(summary) + remarks_on_time(summary)]
    return "\n".join([*parts, *points, ""])


def said_first(summary: Summary) -> list[str]:
    """The verdict, where training was cut short, and what each dataset says: before all tables."""
    verdict, *each = conclude_datasets(summary)
    return [verdict, *remarks_on_cuts(summary), *each]


def remarks_on_cuts(summary: Summary) -> list[str]:
    """Where training was cut short, those together that need more of the same."""
    found: dict[str, list[str]] = {}
    for one in summary.datasets:
        for counts, what, way_out in (
            (one.last_kept, f"kept the last of {longest(summary, one)}", "--steps"),
            (one.falling, "stopped while the loss was still falling", "--patience-steps"),
        ):
            own = [e for e in one.cut_short if one.way_out(e) == way_out]
            runs = [f"{e} ({counts[e]} of {one.runs[e]} runs)" for e in own]
            why = f"{what} and may not have converged, so there is no verdict on them; give more"
            if runs:
                found.setdefault(f"{why} {way_out}", []).append(f"{one.dataset}: {', '.join(runs)}")
    return [f"Training was cut short on {'; '.join(on)}. They {why}." for why, on in found.items()]


def longest(summary: Summary, one: DatasetSummary) -> str:
    """How long a run of a dataset may last."""
    if one.budget is None:
        return f"{summary.training.get('epochs')} epochs"
    return epochs_in_words(one.budget["epochs"], one.budget["steps"])


def epochs_in_words(epochs: int, steps: int) -> str:
    """Epochs, and the steps that they have in all.

    >>> epochs_in_words(1, 20)
    '1 epoch (20 steps)'
    """
    return f"{epochs} {agreeing(epochs, 'epoch', 'epochs')} ({epochs * steps} steps)"


def sentences(summary: Summary) -> list[str]:
    """What to keep in mind when reading conclusions and tables."""
    found = [f"{one.dataset}: {ORDER_ALONE}" for one in summary.datasets if one.uneven]
    found += remarks_on_runs(summary) + remarks_on_lengths(summary)
    if summary.ranked:
        found.append(cliques_sentence(summary))
    floors = [
        (d.p_floor, e in one.fitted_once)
        for one in summary.datasets
        for e, d in one.differences.items()
    ]
    if floors:
        least, once = (max((p for p, o in floors if o == which), default=0) for which in (0, 1))
        others = f" ({once:.2g} for other methods, which have one run a fold)" if once else ""
        found.append(
            f"p is from a two-sided sign-flip test over (seed, fold) pairs and cannot fall below "
            f"{least:.2g} here{others}; each 95 % interval stands alone, Holm p allows for all "
            f"comparisons; {whose_windows(summary)}both are about these windows only"
        )
    found += remarks_on_claims(summary)
    if any(not np.isnan(could.spread) for one in summary.datasets for could in one.power.values()):
        found.append(
            "spread: standard deviation of paired differences in F1; detectable at 80 %: the "
            "smallest difference that this many runs detect with 80 % power (two-sided t test of "
            "one comparison at .05); ruled out beyond: two one-sided tests reject any larger "
            f"difference; {claim_words(summary)}"
        )
    found += remarks_on_edges(summary)
    counts = {one.counted(e) for one in summary.datasets for e in one.scores}
    for n in sorted(counts & {2, 3, 4}):
        often = 100 * (1 - 2.0 ** (1 - n))  # unless all lie on one side of it
        found.append(
            f"with {n} runs a 95 % interval is just their range, which contains the true mean "
            f"{often:.0f} % of the time"
        )
    return found + remarks_on_folds(summary) + remarks_on_rules(summary)


def whose_windows(summary: Summary) -> str:
    """Which runs are tested on the same windows."""
    if (summary.training.get("resamples") or 1) > 1:
        return "resamples share test windows, so "
    shared = any(one.seeds > 1 and one.folds > 1 for one in summary.datasets)
    return "runs of a fold share its test windows, so " if shared else ""


def remarks_on_edges(summary: Summary) -> list[str]:
    """Which encodings mostly chose the least or largest value of a setting that was searched."""
    searched = read_search(summary.training.get("search") or ())
    ends = [
        (key, f"{end(values):g}", "least" if end is min else "largest")
        for key, values in searched.items()
        for end in (min, max)
        if key != "pool" and len(values) > 1 and end(values) != 0
    ]
    found = []
    for one, (key, value, which) in product(summary.datasets, ends):
        counts = {e: own[key] for e, own in one.chosen.items() if key in own}
        at = [e for e, own in counts.items() if 2 * own.get(value, 0) > sum(own.values())]
        if at:
            found.append(
                f"{one.dataset}: most runs of {join(at)} chose {key.replace('_', '-')} {value}, "
                f"the {which} that was searched; widen --search there"
            )
    return found


def remarks_on_claims(summary: Summary) -> list[str]:
    """How the gains that the paper claims for dft stand with these runs."""
    if summary.training.get("find") is not None:
        return []
    found = []
    for one in summary.datasets:
        could, own = one.power.get(CLAIMANT), {CLAIMANT, REFERENCE} & {*one.cut_short}
        if one.dataset not in power.CLAIMED or could is None or np.isnan(could.claimed_p) or own:
            continue
        if one.leaky or one.differences[CLAIMANT].reference != REFERENCE:
            continue
        over = could.folds_claimed_p
        told = "" if np.isnan(over) else f", {over:.2g} corrected for folds"
        said = "these runs do not exclude it"
        if could.claimed_p < LEVEL:
            said = "these runs speak against it"
            said += "" if over < LEVEL else ", though it may hold on other windows"
        found.append(
            f"{one.dataset}: a gain of {could.claimed:+.3f} or more, as the paper claims for "
            f"{CLAIMANT}, has one-sided p {could.claimed_p:.2g} over runs{told}: {said}"
        )
    return found


def remarks_on_runs(summary: Summary) -> list[str]:
    """Scores that do not carry over, and runs that learned nothing."""
    leaks = [
        f"{one.dataset}: windows were shuffled, so training saw neighbours of test windows, or "
        "others of their group; these scores do not carry over to new data"
        for one in summary.datasets
        if one.leaky
    ]
    return leaks + [
        f"{one.dataset}, {encoding}: {n} {agreeing(n, 'run', 'runs')} diverged at once; these "
        "scores are of untrained weights; a smaller --rate may help"
        for one in summary.datasets
        for encoding, n in one.diverged.items()
    ]


def claim_words(summary: Summary) -> str:
    """Which differences the paper claims, DFT less original."""
    claims = {name: f"{claim:+.3f} on {name.upper()}" for name, claim in power.CLAIMED.items()}
    if (find := summary.training.get("find")) is not None:
        return f"runs to find {find:+.3f}: as --find asks"
    own = [claims[one.dataset] for one in summary.datasets if one.dataset in claims]
    return f"the paper claims {' and '.join(own or [claims['smd']])} for dft, in Table 1"


def remarks_on_time(summary: Summary) -> list[str]:
    """How long all runs of each dataset took together, and a step of one of them."""
    found = []
    for one in summary.datasets:
        seconds = sum(run["seconds"] for run in summary.runs if run["dataset"] == one.dataset)
        unit, size = ("minute", 60) if seconds >= 90 else ("second", 1)
        count = max(1, round(seconds / size))
        costs = sorted(1000 * cost for cost in one.step_seconds.values())
        range_of = dict.fromkeys(f"{cost:.2g}" for cost in costs[:1] + costs[-1:])
        step = f" (a step of one of them {' to '.join(range_of)} ms)" if costs else ""
        took = f"{count} {agreeing(count, unit, unit + 's')}"
        found.append(f"{one.dataset} {took}{step}")
    return [f"all runs together took, on {', '.join(found)}"]


def remarks_on_folds(summary: Summary) -> list[str]:
    """What folds, or a single one, say of other windows."""
    found = []
    if any(one.folds > 1 and one.differences for one in summary.datasets):
        found.append(
            "over folds: 95 % interval by Student's t on the means of folds, corrected for the "
            "training windows that they share (Nadeau and Bengio, 2003); where it contains 0, the "
            "difference may not hold on other windows (better here, worse here); more data can "
            "settle that, more --seeds cannot"
        )
    if any(one.folds == 1 and one.differences for one in summary.datasets):
        found.append("with one fold a difference is known on these test windows only")
    return found


def remarks_on_rules(summary: Summary) -> list[str]:
    """Which epoch was kept, and what sizes are of."""
    lasting: dict[str, list[str]] = {}
    for one in summary.datasets:
        if one.budget is not None:
            told = f"{longest(summary, one)}{ended_by_patience(one.budget)}"
            lasting.setdefault(told, []).append(one.dataset)
    found = [f"{', '.join(on)}: a run lasts at most {told}" for told, on in lasting.items()]
    if summary.training.get("search"):
        found.append(
            f"settings were chosen for each run by its own validation windows, from "
            f"{' '.join(summary.training['search'])}; test windows played no part"
        )
    if summary.training.get("refit"):
        found.append(
            "each run was trained once more on its training and validation windows together, for "
            "the steps that validation kept; its threshold was chosen before that"
        )
    if "choice" in summary.training:
        found.append(f"each run keeps one epoch: {summary.training['choice']}")
    if "size" in summary.training and any("@rms=" in row["encoding"] for row in summary.runs):
        found.append(f"sizes, {summary.training['size']}")
    return found


def ended_by_patience(budget: Mapping[str, int]) -> str:
    """After how long without a better epoch a run stops.

    >>> ended_by_patience({"epochs": 9, "patience": 2, "steps": 5})
    ' and stops after 2 epochs (10 steps) without a better one'
    """
    patience = budget["patience"]
    if not patience:
        return "; none stops early"
    return f" and stops after {epochs_in_words(patience, budget['steps'])} without a better one"


def cliques_sentence(summary: Summary) -> str:
    """Which encodings the datasets together do not tell apart, and whether they could."""
    cut = {e for one in summary.datasets for e in one.cut_short}
    judged = [[e for e in group if e not in cut] for group in summary.cliques]
    groups = "; ".join(", ".join(group) for group in judged if len(group) > 1)
    told = "those cut short are not judged" if cut else "all differ significantly"
    told = f"no significant difference among {groups}" if groups else told
    reach = f" ({summary.out_of_reach})" if summary.out_of_reach else ""
    return (
        f"average ranks {summary.over}: rank 1 has the highest mean F1 of a dataset, equal means "
        "share the mean of their ranks; by Wilcoxon's signed-rank test with Holm's correction, "
        f"{told}{reach}"
    )


def json_records(summary: Summary) -> list[dict[str, Any]]:
    """The answer for JSON: one record for each dataset and encoding."""
    return [
        {
            "dataset": one.dataset,
            "encoding": name.partition(":")[0].partition("@")[0],
            "spec": name,
            "params": one.params.get(name, {}),
            "conclusion": conclude_training(one, name),
            "training": summary.training,
            "split": one.split,
            "leaky": one.leaky,
            "seeds": seeds_of(name, one.seeds),
            "folds": one.folds,
            "length": one.length,
            "positive": one.positive,
            "shortest": one.shortest,
            "uneven": one.uneven,
            "chance": chance_scores(one) or None,
            **{measure: asdict(mean) for measure, mean in scores.items()},
            "difference": asdict(one.differences[name]) if name in one.differences else None,
            "auprc_difference": (
                asdict(one.auprc_differences[name]) if name in one.differences else None
            ),
            "power": power_record(summary, one, name),
            "confusion": one.confusion.get(name),
            "per_class": one.per_class.get(name),
            "lengths": [asdict(at) for at in one.lengths.get(name, ())],
            "chosen": [
                {"setting": setting, "value": value, "runs": n}
                for setting, values in one.chosen.get(name, {}).items()
                for value, n in values.items()
            ],
            "step_seconds": one.step_seconds.get(name),
            "diverged": one.diverged.get(name, 0),
            "last_kept": one.last_kept.get(name, 0),
            "falling": one.falling.get(name, 0),
            "budget": one.budget,
            "cut_short": name in one.cut_short,
            "verdict": verdict_on(one, name),
            "average_rank": summary.ranks.get(name),
        }
        for one in summary.datasets
        for name, scores in one.scores.items()
    ]


def power_record(summary: Summary, one: DatasetSummary, name: str) -> dict[str, Any] | None:
    """The power of an encoding's runs for JSON, with what was foretold before training."""
    if name not in one.power:
        return None
    spread, could = summary.training.get("spread"), one.power[name]
    least = power.detectable_difference(spread, could.runs) if spread else float("nan")
    return {"foretold": least, **asdict(could)}
