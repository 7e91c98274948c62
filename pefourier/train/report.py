"""How is it told what training found? Tables, sentences and records of a summary."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from pefourier.answers.telling import sentence
from pefourier.train import conclusion, power
from pefourier.train.data.split import ORDER_ALONE
from pefourier.train.options import LEVEL, seeds_of
from pefourier.train.searched import read_search
from pefourier.train.statistics import Difference, Mean
from pefourier.train.summary import (
    CLAIMANT,
    FEW,
    LEAKY,
    MEASURES,
    REFERENCE,
    DatasetSummary,
    Summary,
    records_falling,
)
from pefourier.writing.escapes import in_markdown, printable
from pefourier.writing.page import Page, flattened
from pefourier.writing.text import agreeing, aligned, join, markdown_table, paragraph

CAPTIONS = {"f1": "F1", "auprc": "AUPRC"}
COLUMNS = 5  # encodings side by side, at most
LAST_EPOCH_ALONE = (
    "runs of an earlier version do not record whether the loss still fell when patience ended "
    "them, so a run counts as cut short only where it kept its last epoch"
)
# of a dataset, the same for all of its encodings
ALIKE = ("split", "leaky", "folds", "length", "positive", "shortest", "uneven", "budget")
said = partial(sentence, "train")


def runs_of(seeds: int, folds: int) -> str:
    """How many runs each encoding has.

    >>> runs_of(8, 1)
    '8 seeds × 1 fold'
    """
    counted = ((seeds, "seed"), (folds, "fold"))
    return " × ".join(f"{n} {agreeing(n, what, f'{what}s')}" for n, what in counted)


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
        body = [[title(one), *(table_1_cell(one, e) for e in part)] for one in summary.datasets]
        found.append(("", [["P / R / F1", *part], *body]))
    for one in summary.datasets:
        measures = list(next(iter(one.scores.values())))
        head = ["encoding", *(CAPTIONS.get(m, m) for m in measures)]
        body = [[e, *(cell(s[m]) for m in measures)] for e, s in one.scores.items()]
        always = "positive" if len(conclusion.class_counts(one)) == 2 else "the commonest"
        chance = [three_decimals(chance_scores(one)[m]) for m in measures]
        body.append([f"(always {one.positive or always})", *chance])
        found.append((scores_title(one), [head, *body]))
        found += difference_table(one, summary.reference)
        found += more_tables(one)
    if summary.ranked:
        ordered = sorted(summary.ranks.items(), key=lambda item: item[1])
        body = [[e, f"{rank:.2f}"] for e, rank in ordered]
        what = f"average ranks by F1 {summary.over}"
        found.append((what, [["encoding", "average rank"], *body]))
    return found


def scores_title(one: DatasetSummary) -> str:
    """What a table of scores is of, what its brackets are, and what is left without a verdict."""
    first = next(e for e in (*one.scores, "") if e not in one.fitted_once)
    over = f"mean [{one.interval(first)}] over {runs_of(one.seeds, one.folds)}"
    what = f"{title(one)}, {one.inputs}: {over}"
    if once := one.fitted_once:
        brackets = f" [{one.interval(once[0])}]" * (one.interval(once[0]) != one.interval(first))
        what += f", {join(once)}{brackets} over {runs_of(1, one.folds)}"
    what += f"; cut short, without a verdict: {join(one.cut_short)}" if one.cut_short else ""
    return what + (f"; positive: {one.positive}" if one.positive is not None else "")


def difference_table(one: DatasetSummary, reference: str) -> list[tuple[str, list[list[str]]]]:
    """Verdicts on differences from the reference, with their numbers; empty without any."""
    same = any(d.reference != reference for d in one.differences.values())
    over = ["over folds"] if one.folds > 1 else []
    head = ["encoding", "verdict", "F1", *over, "p", "Holm p", "P(A > B)", "AUPRC", "Holm p"]
    body = [
        [e, conclusion.verdict_word(one, e), *difference_cells(d, one.auprc_differences[e])]
        for e, d in one.differences.items()
    ]
    what = f"{title(one)}, difference from {reference}{' at the same rms' * same}"
    return [(what, [head, *body])] if body else []


def chance_scores(one: DatasetSummary) -> dict[str, float]:
    """Scores of always naming one class of the test windows together.

    Of two classes it is the positive one, of which a share p has F1 2p / (1 + p); of K it is the
    commonest, and its scores are means over classes.
    """
    counts = conclusion.class_counts(one)
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


def table_1_cell(one: DatasetSummary, encoding: str) -> str:
    """Precision, recall and F1 as in Table 1, marked where training was cut short."""
    if encoding not in one.scores:
        return "–"
    told = " / ".join(three_decimals(one.scores[encoding][m].mean) for m in MEASURES[:3])
    return f"{told} †" if encoding in one.cut_short else told


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
        least = [or_dash(v) for v in (could.detectable, could.folds_detectable)]
        beyond = [or_dash(could.excluded, "±"), or_dash(could.folds_excluded)]
        sizes = [*least[: 1 + len(over)], *beyond[: 1 + len(over)]]
        runs = could.claimed_runs
        needed = "–" if runs is None else power.told_with_seeds(runs, one.folds)
        body.append([name, or_dash(could.spread), *sizes, needed])
    return [[*head, f"runs to find {claim:+.3f}"], *body]


def or_dash(value: float, sign: str = "") -> str:
    """Three decimals behind a sign, or a dash for what is not known."""
    return "–" if np.isnan(value) else f"{sign}{value:.3f}"


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
        together=lambda: " ".join(conclusion.conclude_datasets(summary)),
    )


def terminal_text(summary: Summary) -> str:
    """The answer for a terminal."""
    remarks = "".join(paragraph(printable(line), "  ") for line in sentences(summary))
    return f"{tables_in_words(tables(summary))}\n{remarks}"


def tables_in_words(found: Iterable[tuple[str, list[list[str]]]]) -> str:
    """Tables with their titles for a terminal."""
    return "\n".join(
        (paragraph(printable(what)) if what else "")
        + aligned([list(map(printable, row)) for row in rows])
        for what, rows in found
    )


def as_markdown(summary: Summary) -> str:
    """The answer as summary.md."""
    parts = ["# Encodings compared", ""]
    parts += [text for line in said_first(summary) for text in (in_markdown(line), "")]
    for what, rows in tables(summary):
        parts += [f"## {in_markdown(what)}", ""] if what else []
        parts += [markdown_table(rows), ""]
    parts += ["## How to read these numbers", ""]
    points = [f"* {in_markdown(line)}" for line in sentences(summary) + remarks_on_time(summary)]
    return "\n".join([*parts, *points, ""])


def said_first(summary: Summary) -> list[str]:
    """The verdict, where training was cut short, and what each dataset says: before all tables."""
    verdict, *each = conclusion.conclude_datasets(summary)
    return [verdict, *remarks_on_cuts(summary), *each]


def remarks_on_cuts(summary: Summary) -> list[str]:
    """Where training was cut short, those together that need more of the same."""
    found: dict[str, list[str]] = {}
    for one in summary.datasets:
        for counts, what, way_out in (
            (one.last_kept, f"kept the last of {longest(summary, one)}", one.longer),
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
        found.append(said("p", least=least, others=others, whose=whose_windows(summary)))
    found += remarks_on_claims(summary)
    if any(not np.isnan(could.spread) for one in summary.datasets for could in one.power.values()):
        found.append(said("power", claim=claim_words(summary)))
    found += remarks_on_edges(summary)
    counts = {one.counted(e) for one in summary.datasets for e in one.scores}
    for n in sorted(counts & {*range(2, FEW + 1)}):
        often = 100 * (1 - 2.0 ** (1 - n))  # unless all lie on one side of it
        found.append(said("range", n=n, often=often))
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
            own = f"{key.replace('_', '-')} {value}, the {which}"
            found.append(said("edge", dataset=one.dataset, encodings=join(at), value=own))
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
        folds = "" if np.isnan(over) else f", {over:.2g} corrected for folds"
        verdict = "these runs do not exclude it"
        if could.claimed_p < LEVEL:
            verdict = "these runs speak against it"
            verdict += "" if over < LEVEL else ", though it may hold on other windows"
        told = {"dataset": one.dataset, "could": could, "folds": folds, "verdict": verdict}
        found.append(said("claim", **told))
    return found


def remarks_on_runs(summary: Summary) -> list[str]:
    """Scores that do not carry over, and runs that learned nothing."""
    leaks = [said("leaky", dataset=one.dataset) for one in summary.datasets if one.leaky]
    return leaks + [
        said("diverged", dataset=one.dataset, encoding=encoding, runs=conclusion.count_words(n))
        for one in summary.datasets
        for encoding, n in one.diverged.items()
    ]


def claim_words(summary: Summary) -> str:
    """Which differences the paper claims, DFT less original."""
    claims = {name: f"{claim:+.3f} on {name.upper()}" for name, claim in power.CLAIMED.items()}
    own = [claims[one.dataset] for one in summary.datasets if one.dataset in claims]
    find = summary.training.get("find")
    if find is not None or not own:
        return f"runs to find {find or power.claim_for(''):+.3f}: --find"
    return f"the paper claims {' and '.join(own)} for dft, in Table 1"


def remarks_on_time(summary: Summary) -> list[str]:
    """How long all runs of each dataset took together, and a step of one of them."""
    found = []
    for one in summary.datasets:
        seconds = sum(run["seconds"] for run in summary.runs if run["dataset"] == one.dataset)
        costs = sorted(1000 * cost for cost in one.step_seconds.values())
        range_of = dict.fromkeys(f"{cost:.3g}" for cost in costs[:1] + costs[-1:])
        step = f" (a step of one of them {' to '.join(range_of)} ms)" if costs else ""
        found.append(f"{one.dataset} {in_time(seconds)}{step}")
    return [f"all runs together took, on {', '.join(found)}"]


def in_time(seconds: float) -> str:
    """How long something took, in few words.

    >>> in_time(8.2), in_time(61), in_time(400)
    ('8 seconds', '61 seconds', '7 minutes')
    """
    unit, size = ("minute", 60) if seconds >= 90 else ("second", 1)
    count = max(1, round(seconds / size))
    return f"{count} {agreeing(count, unit, unit + 's')}"


def remarks_on_folds(summary: Summary) -> list[str]:
    """What folds, or a single one, say of other windows."""
    found = []
    if any(one.folds > 1 and one.differences for one in summary.datasets):
        found.append(said("folds"))
    if any(one.folds == 1 and one.differences for one in summary.datasets):
        found.append(said("one fold"))
    return found


def remarks_on_rules(summary: Summary) -> list[str]:
    """Which epoch was kept, and what sizes are of."""
    lasting: dict[str, list[str]] = {}
    for one in summary.datasets:
        if one.budget is not None:
            told = f"{longest(summary, one)}{ended_by_patience(one.budget)}"
            lasting.setdefault(told, []).append(one.dataset)
    found = [f"{', '.join(on)}: a run lasts at most {told}" for told, on in lasting.items()]
    found += remarks_on_patience(summary)
    if summary.training.get("search"):
        found.append(said("search", settings=" ".join(summary.training["search"])))
    if summary.training.get("refit"):
        found.append(said("refit"))
    if any(one.cut_short for one in summary.datasets):
        found.append("†: training was cut short, so there is no verdict on these scores")
    if "choice" in summary.training:
        found.append(f"each run keeps one epoch: {summary.training['choice']}")
    if "size" in summary.training and any("@rms=" in row["encoding"] for row in summary.runs):
        found.append(f"sizes, {summary.training['size']}")
    return found


def remarks_on_patience(summary: Summary) -> list[str]:
    """Where not all runs say if patience ended them too soon: what they are judged by instead."""
    found: dict[str, list[str]] = {}
    for one in summary.datasets:
        if not records_falling([row for row in summary.runs if row["dataset"] == one.dataset]):
            each = [f"{e} ({n} of {one.runs[e]} runs)" for e, n in one.falling.items()]
            known = f"; of those known, {join(each)} stopped while it fell" if each else ""
            found.setdefault(f"{LAST_EPOCH_ALONE}{known}", []).append(one.dataset)
    return [f"{', '.join(on)}: {told}" for told, on in found.items()]


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
    return said("ranks", over=summary.over, told=f"{told}{reach}")


def json_records(summary: Summary) -> list[dict[str, Any]]:
    """The answer for JSON: one record for each dataset and encoding."""
    return [record_of(summary, one, name) for one in summary.datasets for name in one.scores]


def record_of(summary: Summary, one: DatasetSummary, name: str) -> dict[str, Any]:
    """What is known of an encoding on a dataset."""
    return {
        "dataset": one.dataset,
        "encoding": name.partition(":")[0].partition("@")[0],
        "spec": name,
        "params": one.params.get(name, {}),
        "conclusion": conclusion.conclude_training(one, name),
        "training": summary.training,
        "seeds": seeds_of(name, one.seeds),
        **{key: getattr(one, key) for key in ALIKE},
        "chance": chance_scores(one),
        **{measure: asdict(mean) for measure, mean in one.scores[name].items()},
        "difference": asdict(one.differences[name]) if name in one.differences else None,
        "auprc_difference": (
            asdict(one.auprc_differences[name]) if name in one.differences else None
        ),
        "power": power_record(summary, one, name),
        **{key: getattr(one, key).get(name) for key in ("confusion", "per_class", "step_seconds")},
        "lengths": [asdict(at) for at in one.lengths.get(name, ())],
        "chosen": choices_of(one, name),
        **{key: getattr(one, key).get(name, 0) for key in ("diverged", "last_kept", "falling")},
        "cut_short": name in one.cut_short,
        "verdict": conclusion.verdict_on(one, name),
        "average_rank": summary.ranks.get(name),
    }


def choices_of(one: DatasetSummary, name: str) -> list[dict[str, Any]]:
    """Which settings the search chose, for how many runs of an encoding."""
    return [
        {"setting": setting, "value": value, "runs": n}
        for setting, values in one.chosen.get(name, {}).items()
        for value, n in values.items()
    ]


def power_record(summary: Summary, one: DatasetSummary, name: str) -> dict[str, Any] | None:
    """The power of an encoding's runs for JSON, with what was foretold before training."""
    if name not in one.power:
        return None
    spread, could = summary.training.get("spread"), one.power[name]
    least = power.detectable_difference(spread, could.runs) if spread else float("nan")
    return {"foretold": least, **asdict(could)}
