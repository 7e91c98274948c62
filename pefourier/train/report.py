"""How it is told what training found: words of words.toml by code, tables and records of a summary.

A verdict is taken from the summary as it is; nothing is judged here.
"""

import math
from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from pefourier.files import read_toml
from pefourier.train.options import WITHOUT_CODES, seeds_of
from pefourier.train.request import TUNED, parse_search
from pefourier.train.score_terms import TERMS
from pefourier.train.statistics import Difference, Mean
from pefourier.train.summary import FEW, LEAKY, MEASURES, VERDICTS, DatasetSummary, Summary
from pefourier.writing.escapes import in_markdown, printable
from pefourier.writing.page import Page, flattened
from pefourier.writing.text import agreeing, aligned, join, markdown_table, number, paragraph

WORDS = Path(__file__).with_name("words.toml")
CAPTIONS = {"f1": "F1", "auprc": "AUPRC"}
COLUMNS = 5  # encodings side by side, at most
MARKS = {"better": "▲", "worse": "▼", "cut short": "†"}
# of a dataset, the same for all of its encodings
OF_ENCODINGS = ("confusion", "per_class", "step_seconds", "terms")
ALIKE = ("split", "leaky", "folds", "length", "positive", "shortest", "uneven", "budget")


def words(room: str, code: str, /, **slots: Any) -> str:
    """Words of words.toml with numbers and names filled in."""
    return str(read_toml(WORDS)[room][code]).format(**slots)


def runs_of(seeds: int, folds: int) -> str:
    """How many runs each encoding has.

    >>> runs_of(8, 1)
    '8 seeds × 1 fold'
    """
    counted = ((seeds, "seed"), (folds, "fold"))
    return " × ".join(f"{n} {agreeing(n, what, f'{what}s')}" for n, what in counted)


def three_decimals(value: float) -> str:
    """Three decimals, without the zero before the point."""
    return f"{value:.3f}".replace("0.", ".", 1) if 0 <= value < 1 else f"{value:.3f}"


def score_cell(mean: Mean) -> str:
    """A mean with its interval, where there is one.

    >>> score_cell(Mean(0.5, 0.4, 0.6))
    '.500 [.400, .600]'
    """
    if not mean.low < mean.high:
        return three_decimals(mean.mean)
    return f"{three_decimals(mean.mean)} [{three_decimals(mean.low)}, {three_decimals(mean.high)}]"


def difference_cell(d: Difference) -> str:
    """A difference with its interval, where there is one."""
    return f"{d.mean:+.3f}" + ("" if math.isnan(d.low) else f" [{d.low:+.3f}, {d.high:+.3f}]")


def title(one: DatasetSummary) -> str:
    """A dataset, its split unless that is the default, and a warning where it leaks."""
    how = f", {LEAKY}" if one.leaky else "" if one.split == "blocks" else f", {one.split}"
    return one.dataset + how


# What all of it says


def conclude_datasets(summary: Summary) -> list[str]:
    """The verdict on all encodings, and below it what each dataset says where there are several."""
    several = len(summary.datasets) > 1
    each = [f"{one.dataset}: {verdicts_sentence(summary, [one])}" for one in summary.datasets]
    first = [f"{summary.verdict.upper()}.", *verdict_words(summary)]
    first += [verdicts_sentence(summary, summary.datasets), *leaders_sentences(summary)]
    return [" ".join(filter(None, first)), *(each if several else ())]


def verdict_words(summary: Summary) -> list[str]:
    """What the verdict on all means, and what to do."""
    code = summary.verdict
    slots = {"find": summary.find, "over": "runs", "more": "", "longer": ""}
    if summary.verdicts:
        differences = [one.differences[name] for one, name, c in summary.verdicts if c == code]
        slots["over"] = differences[0].over if differences else "runs"
        slots["more"] = more_words(differences)
        slots["longer"] = max((one.longer for one in summary.datasets), key=len)
    known = read_toml(WORDS)["all"][code]
    return [known[key].format(**slots) for key in ("meaning", "action")]


def more_words(differences: Iterable[Difference]) -> str:
    """How many runs or folds find the difference asked about, as an option to type."""
    many = list(differences)
    needed = [d.needed for d in many if d.needed is not None]
    if not many:
        return ""
    if not needed:
        return words("more", "data")
    return words("more", many[0].over, needed=max(needed))


def verdicts_sentence(summary: Summary, datasets: Iterable[DatasetSummary]) -> str:
    """Every verdict on some datasets with the encodings it is on, in the order of `VERDICTS`."""
    pairs = [(one, name, code) for one in datasets for name, code in one.verdicts.items()]
    parts = []
    for code in VERDICTS:
        own: dict[str, list[float]] = {}
        for one, name, _ in (pair for pair in pairs if pair[2] == code):
            own.setdefault(name, []).append(one.differences[name].mean)
        told = [
            name
            + (f" {max(d, key=abs):+.3f}" if code in ("better", "worse") else "")
            + (f" ({len(d)} of {len(summary.datasets)})" if len(d) > 1 else "")
            for name, d in own.items()
        ]
        parts += [f"{code}: {', '.join(told)}"] if told else []
    against = {one.differences[name].reference for one, name, _ in pairs}
    other = against.pop() if len(against) == 1 else "their references"
    of_runs = {one.differences[name].over for one, name, _ in pairs} == {"runs"}
    where = " on these test windows" if of_runs else ""
    return f"F1 against {other}{where}: {'; '.join(parts)}." if parts else ""


def leaders_sentences(summary: Summary) -> list[str]:
    """Which encoding is best and what is not told apart from it; over datasets by rank."""
    if summary.ranked:
        excluded = {e for one in summary.datasets for e in one.cut_short} | set(WITHOUT_CODES)
        order = sorted((e for e in summary.ranks if e not in excluded), key=summary.ranks.get)
        if len(order) < 2 or any(one.leaky for one in summary.datasets):
            return []
        slots = {"over": summary.over, "best": order[0], "rank": summary.ranks[order[0]]}
        slots |= {"then": order[1], "then_rank": summary.ranks[order[1]]}
        return [words("sentences", "rank", **slots)]
    found = []
    for one in summary.datasets:
        if len(one.best) and sum(e not in WITHOUT_CODES for e in one.scores) > 1:
            best, *alike = one.best
            slots = {"dataset": one.dataset, "best": best, "alike": join(alike) if alike else ""}
            slots["f1"] = one.scores[best]["f1"].mean
            found.append(words("sentences", "best" if alike else "best alone", **slots))
        found += lengths_sentence(one)
    return found


def lengths_sentence(one: DatasetSummary) -> list[str]:
    """Which encodings classify the longest windows best, those whose intervals overlap together."""
    if one.leaky:
        return []
    longest = max((at.length for lengths in one.lengths.values() for at in lengths), default=0)
    known = {
        e: at.accuracy
        for e, lengths in one.lengths.items()
        for at in lengths
        if at.length == longest and at.accuracy and e not in one.cut_short
    }
    if len(known) < 2:
        return []
    order = sorted(known, key=lambda name: -known[name].mean)
    lead = known[order[0]]
    alike = [n for n in order if n == order[0] or known[n].high >= lead.low]
    slots = {"length": longest, "trained": one.length, "best": join(alike)}
    slots |= {"verb": agreeing(len(alike), "is", "are"), "accuracy": f"{lead.mean:.3f}"}
    return [words("sentences", "lengths", **slots)]


def remarks_on_cuts(summary: Summary) -> list[str]:
    """Where training was cut short, and what to give more of."""
    cut = [one for one in summary.datasets if one.cut_short]
    if not cut:
        return []
    where = "; ".join(f"{one.dataset}: {', '.join(one.cut_short)}" for one in cut)
    return [words("sentences", "cut", where=where, longer=max((o.longer for o in cut), key=len))]


def said_first(summary: Summary) -> list[str]:
    """The verdict, where training was cut short, and what each dataset says: before all tables."""
    verdict, *each = conclude_datasets(summary)
    return [verdict, *remarks_on_cuts(summary), *each]


# Tables


def answer_table(summary: Summary) -> tuple[str, list[list[str]]]:
    """The table of the answer: encodings of a dataset, or mean F1 on several with their marks."""
    if len(summary.datasets) > 1:
        names = list(dict.fromkeys(e for one in summary.datasets for e in one.scores))
        head = ["F1", *(one.dataset for one in summary.datasets)]
        body = [[e, *(marked_f1(one, e) for one in summary.datasets)] for e in names]
        if summary.ranked:
            head.append("rank")
            body = [[*row, number(summary.ranks.get(row[0]), 3)] for row in body]
        return "▲ better, ▼ worse than its reference, † cut short", [head, *body]
    (one,) = summary.datasets
    head = ["encoding", "P / R / F1", "AUPRC", f"F1 less {summary.reference}", "Holm p", "verdict"]
    body = []
    for e, scores in one.scores.items():
        d, cells = one.differences.get(e), ["–", "–", "–"]
        if d is not None:
            cells = [difference_cell(d), number(d.p_holm, 2), one.verdicts[e]]
        triple = " / ".join(three_decimals(scores[m].mean) for m in MEASURES[:3])
        body.append([e, triple, three_decimals(scores["auprc"].mean), *cells])
    return scores_title(one), [head, *body]


def marked_f1(one: DatasetSummary, encoding: str) -> str:
    """Mean F1 with the mark of its verdict."""
    if encoding not in one.scores:
        return "–"
    mark = MARKS.get(one.verdicts.get(encoding, ""), "")
    mark = "†" if encoding in one.cut_short else mark
    return three_decimals(one.scores[encoding]["f1"].mean) + mark


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
        body = [[e, *(score_cell(s[m]) for m in measures)] for e, s in one.scores.items()]
        always = one.positive or "the commonest"
        body.append(
            [f"(always {always})", *(three_decimals(chance_scores(one)[m]) for m in measures)]
        )
        found.append((scores_title(one), [head, *body]))
        found += [*difference_table(one, summary.reference), *more_tables(one)]
    if summary.ranked:
        ordered = sorted(summary.ranks.items(), key=lambda item: item[1])
        body = [[e, f"{rank:.2f}"] for e, rank in ordered]
        what = f"average ranks by F1 {summary.over}"
        found.append((what, [["encoding", "average rank"], *body]))
    return found


def scores_title(one: DatasetSummary) -> str:
    """What a table of scores is of, and what its brackets are."""
    first = next(e for e in (*one.scores, "") if e not in one.fitted_once)
    what = f"{title(one)}, {one.inputs}: mean [{one.interval(first)}] over "
    what += runs_of(one.seeds, one.folds)
    if once := one.fitted_once:
        what += f", {join(once)} over {runs_of(1, one.folds)}"
    return what + (f"; positive: {one.positive}" if one.positive is not None else "")


def difference_table(one: DatasetSummary, reference: str) -> list[tuple[str, list[list[str]]]]:
    """Verdicts on differences from the reference, with their numbers; empty without any."""
    if not one.differences:
        return []
    same = any(d.reference != reference for d in one.differences.values())
    d = next(iter(one.differences.values()))
    head = ["encoding", "verdict", "F1", "p", "Holm p", "P(A > B)", f"{d.over} needed", "AUPRC"]
    body = []
    for e, d in one.differences.items():
        tests = [number(d.p, 2), number(d.p_holm, 2), f"{d.better:.2f}", number(d.needed)]
        auprc = difference_cell(one.auprc_differences[e])
        body.append([e, one.verdicts[e], difference_cell(d), *tests, auprc])
    what = f"{title(one)}, difference from {reference}{' at the same rms' * same}"
    return [(f"{what}, over {d.units} {d.over}", [head, *body])]


def chance_scores(one: DatasetSummary) -> dict[str, float]:
    """Scores of always naming one class of the test windows together.

    With a positive class, of which a share p is, it is that one, of F1 2p / (1 + p); else it is the
    commonest of K, and its scores are means over classes.
    """
    counts = [sum(row) for row in next(iter(one.confusion.values()))]
    positive = one.positive is not None
    k = 1 if positive else len(counts)
    share = (counts[1] if positive else max(counts)) / sum(counts)
    scores = {"precision": share / k, "recall": 1 / k, "f1": 2 * share / (1 + share) / k}
    return scores | {"accuracy": share, "auprc": share if positive else 1 / k}


def more_tables(one: DatasetSummary) -> list[tuple[str, list[list[str]]]]:
    """What the runs of a dataset did on longer windows, and chose."""
    found = []
    if one.lengths:
        what = f"{title(one)}, trained on windows of {one.length} rows: F1 / accuracy by length"
        found.append((what, length_cells(one)))
    if one.terms:
        body = [[e, *(f"{share:.2f}" for share in shares)] for e, shares in one.terms.items()]
        what = f"{title(one)}, shares of terms in the variance of first-layer scores"
        found.append((what, [["encoding", *TERMS], *body]))
    if one.chosen:
        found.append((f"{title(one)}, chosen on validation: runs", choice_cells(one)))
    return found


def table_1_cell(one: DatasetSummary, encoding: str) -> str:
    """Precision, recall and F1 as in Table 1, marked where training was cut short."""
    if encoding not in one.scores:
        return "–"
    triple = " / ".join(three_decimals(one.scores[encoding][m].mean) for m in MEASURES[:3])
    return f"{triple} †" if encoding in one.cut_short else triple


def length_cells(one: DatasetSummary) -> list[list[str]]:
    """F1 and accuracy of each encoding at each length, with a head."""
    lengths = [at.length for at in next(iter(one.lengths.values()))]
    body = []
    for name, every in one.lengths.items():
        scores = one.scores[name]
        first = f"{three_decimals(scores['f1'].mean)} / {three_decimals(scores['accuracy'].mean)}"
        rest = [
            "–" if at.reason else f"{three_decimals(at.f1.mean)} / {score_cell(at.accuracy)}"
            for at in every
        ]
        body.append([name, first, *rest])
    return [["encoding", f"{one.length} (test part)", *map(str, lengths)], *body]


def choice_cells(one: DatasetSummary) -> list[list[str]]:
    """How often each value of each setting was chosen, with a head; – where it has no such one."""
    settings = list(dict.fromkeys(s for chosen in one.chosen.values() for s in chosen))
    body = []
    for name, chosen in one.chosen.items():
        counts = [
            ", ".join(f"{v} ×{n}" for v, n in sorted(chosen.get(s, {}).items())) for s in settings
        ]
        body.append([name, *(text or "–" for text in counts)])
    return [["encoding", *(s.replace("_", "-") for s in settings)], *body]


# Notes on how to read it


def sentences(summary: Summary) -> list[str]:
    """What to keep in mind when reading conclusions and tables."""
    note = partial(words, "notes")
    found = [note("leaky", dataset=one.dataset) for one in summary.datasets if one.leaky]
    for one in summary.datasets:
        found += [f"{one.dataset}: {words('remarks', 'uneven')}"] if one.uneven else []
        for name, n in one.diverged.items():
            runs = f"{n} {agreeing(n, 'run', 'runs')}"
            found.append(note("diverged", dataset=one.dataset, encoding=name, runs=runs))
        found += [
            note("untested", dataset=one.dataset, name=name, length=at.length, reason=at.reason)
            for name, every in one.lengths.items()
            for at in every
            if at.reason
        ]
    if summary.ranked:
        found.append(note("ranks", over=summary.over, cliques=cliques_words(summary)))
    if summary.verdicts:
        found.append(note("test"))
    if any(one.folds == 1 and one.differences for one in summary.datasets):
        found.append(note("one fold"))
    if any(code == "too few" for _, _, code in summary.verdicts):
        found.append(note("too few", find=summary.find))
    counts = {one.counted(e) for one in summary.datasets for e in one.scores}
    found += [note("range", n=n) for n in sorted(counts & {*range(2, FEW + 1)})]
    return found + remarks_on_edges(summary) + remarks_on_rules(summary)


def cliques_words(summary: Summary) -> str:
    """Which encodings the datasets together do not tell apart, and whether they could."""
    cut = {e for one in summary.datasets for e in one.cut_short}
    judged = [[e for e in group if e not in cut] for group in summary.cliques]
    groups = "; ".join(", ".join(group) for group in judged if len(group) > 1)
    reach = f" ({summary.out_of_reach})" if summary.out_of_reach else ""
    none = "those cut short are not judged" if cut else "all differ"
    return (f"not told apart: {groups}" if groups else none) + reach


def remarks_on_edges(summary: Summary) -> list[str]:
    """Which encodings mostly chose the least or largest value of a setting that was searched."""
    ends = [
        (key, f"{end(values):g}", "least" if end is min else "largest")
        for key, values in searched_settings(summary).items()
        for end in (min, max)
        if len(values) > 1 and end(values) != 0
    ]
    found = []
    for one, (key, value, which) in product(summary.datasets, ends):
        counts = {e: chosen[key] for e, chosen in one.chosen.items() if key in chosen}
        at = [e for e, n in counts.items() if 2 * n.get(value, 0) > sum(n.values())]
        if at:
            edge = f"{key.replace('_', '-')} {value}, the {which}"
            slots = {"dataset": one.dataset, "encodings": join(at), "value": edge}
            found.append(words("notes", "edge", **slots))
    return found


def searched_settings(summary: Summary) -> dict[str, list[float]]:
    """The values of each setting of numbers that was searched."""
    items = (item for text in summary.training.get("search") or () for item in text.split())
    return parse_search([i for i in items if i.partition("=")[0].replace("-", "_") in TUNED])


def remarks_on_rules(summary: Summary) -> list[str]:
    """How long runs last, which weights are kept, and what sizes are of."""
    note, training = partial(words, "notes"), summary.training
    found = []
    for one in summary.datasets:
        if one.budget is not None:
            patience = one.budget["patience"]
            slots = {**one.budget, "patience": f"{patience} steps" if patience else "no number"}
            found.append(note("budget", dataset=one.dataset, **slots))
    if training.get("search"):
        found.append(note("search", settings=" ".join(training["search"])))
    if "choice" in training:
        found.append(note("kept", choice=training["choice"]))
    if "size" in training and any("@rms=" in row["encoding"] for row in summary.runs):
        found.append(note("size", size=training["size"]))
    for one in summary.datasets:
        seconds = sum(run["seconds"] for run in summary.runs if run["dataset"] == one.dataset)
        found.append(note("time", dataset=one.dataset, seconds=seconds))
    return found


# Forms


def conclude_all(summary: Summary) -> str:
    """The verdict, then where training was cut short, then what each dataset says."""
    return "\n".join(paragraph(printable(line)) for line in said_first(summary)[:2])


def summary_page(summary: Summary) -> Page:
    """The answer of `pefourier train`."""
    return Page(
        "train",
        words=lambda: tables_in_words([answer_table(summary)]),
        records=lambda: json_records(summary),
        rows=lambda: flattened(json_records(summary)),
        conclusion=lambda: conclude_all(summary),
        together=lambda: " ".join(conclude_datasets(summary)),
    )


def all_words(summary: Summary) -> str:
    """Every table and all that is to be kept in mind, for a page."""
    notes = "".join(paragraph(printable(line)) for line in sentences(summary))
    return f"{tables_in_words(tables(summary))}\n{notes}"


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
    return "\n".join([*parts, *(f"* {in_markdown(line)}" for line in sentences(summary)), ""])


def json_records(summary: Summary) -> list[dict[str, Any]]:
    """The answer for JSON: one record for each dataset and encoding."""
    return [record_of(summary, one, name) for one in summary.datasets for name in one.scores]


def verdict_of(summary: Summary, one: DatasetSummary, name: str) -> dict[str, str]:
    """The verdict on an encoding with its meaning and action."""
    d = one.differences.get(name)
    code = one.verdicts.get(name) or ("reference" if one.differences else "alone")
    low, high = (d.low, d.high) if d is not None else (math.nan, math.nan)
    more = more_words([d]) if d is not None else ""
    slots = {"d": d, "low": low, "high": high, "more": more}
    slots |= {"find": summary.find, "longer": one.longer}
    known = read_toml(WORDS)["verdicts"][code]
    filled = {key: known.get(key, "").format(**slots) for key in ("meaning", "action")}
    return {"verdict": code, **filled}


def conclude_training(summary: Summary, one: DatasetSummary, name: str) -> str:
    """The conclusion about an encoding on a dataset: its score, the verdict, what to do."""
    verdict = verdict_of(summary, one, name)
    f1, n = one.scores[name]["f1"], one.counted(name)
    score = f"F1 {f1.mean:.3f} over {n} {agreeing(n, 'run', 'runs')}."
    head = f"{verdict['verdict'].upper()}."
    return " ".join(filter(None, (head, verdict["meaning"], score, verdict["action"])))


def record_of(summary: Summary, one: DatasetSummary, name: str) -> dict[str, Any]:
    """What is known of an encoding on a dataset."""
    d, auprc = one.differences.get(name), one.auprc_differences.get(name)
    return {
        "dataset": one.dataset,
        "encoding": name.partition(":")[0].partition("@")[0],
        "spec": name,
        "params": one.params.get(name, {}),
        **verdict_of(summary, one, name),
        "findings": [],
        "conclusion": conclude_training(summary, one, name),
        "training": summary.training,
        "seeds": seeds_of(name, one.seeds),
        **{key: getattr(one, key) for key in ALIKE},
        "best": list(one.best),
        "chance": chance_scores(one),
        **{measure: asdict(mean) for measure, mean in one.scores[name].items()},
        "difference": None if d is None else asdict(d),
        "auprc_difference": None if auprc is None else asdict(auprc),
        **{
            key: getattr(one, key).get(name)
            for key in ("confusion", "per_class", "step_seconds", "terms")
        },
        "lengths": [asdict(at) for at in one.lengths.get(name, ())],
        "chosen": choices_of(one, name),
        **{key: getattr(one, key).get(name, 0) for key in ("diverged", "last_kept")},
        "cut_short": name in one.cut_short,
        "average_rank": summary.ranks.get(name),
    }


def choices_of(one: DatasetSummary, name: str) -> list[dict[str, Any]]:
    """Which settings the search chose, for how many runs of an encoding."""
    return [
        {"setting": setting, "value": value, "runs": n}
        for setting, values in one.chosen.get(name, {}).items()
        for value, n in values.items()
    ]
