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
    return " × ".join(f"{n} {agreeing(n, noun, f'{noun}s')}" for n, noun in counted)


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


def title(data: DatasetSummary) -> str:
    """A dataset, its split unless that is the default, and a warning where it leaks."""
    how = f", {LEAKY}" if data.leaky else "" if data.split == "blocks" else f", {data.split}"
    return data.dataset + how


# What all of it says


def conclude_datasets(summary: Summary) -> list[str]:
    """The verdict on all encodings, and below it what each dataset says where there are several."""
    several = len(summary.datasets) > 1
    lines = [f"{data.dataset}: {verdicts_sentence(summary, [data])}" for data in summary.datasets]
    first = [f"{summary.verdict.upper()}.", *verdict_words(summary)]
    first += [verdicts_sentence(summary, summary.datasets), *leaders_sentences(summary)]
    return [" ".join(filter(None, first)), *(lines if several else ())]


def verdict_words(summary: Summary) -> list[str]:
    """What the verdict on all means, and what to do."""
    code = summary.verdict
    slots = {"find": summary.find, "over": "runs", "more": "", "longer": ""}
    if summary.verdicts:
        differences = [data.differences[name] for data, name, c in summary.verdicts if c == code]
        slots["over"] = differences[0].over if differences else "runs"
        slots["more"] = more_words(differences)
        slots["longer"] = max((data.longer for data in summary.datasets), key=len)
    texts = read_toml(WORDS)["all"][code]
    return [texts[key].format(**slots) for key in ("meaning", "action")]


def more_words(differences: Iterable[Difference]) -> str:
    """How many runs or folds find the difference asked about, as an option to type."""
    listed = list(differences)
    counts = [d.needed for d in listed if d.needed is not None]
    if not listed:
        return ""
    if not counts:
        return words("more", "data")
    return words("more", listed[0].over, needed=max(counts))


def verdicts_sentence(summary: Summary, datasets: Iterable[DatasetSummary]) -> str:
    """Every verdict on some datasets with the encodings it is on, in the order of `VERDICTS`."""
    pairs = [(data, name, code) for data in datasets for name, code in data.verdicts.items()]
    parts = []
    for code in VERDICTS:
        means: dict[str, list[float]] = {}
        for data, name, _ in (pair for pair in pairs if pair[2] == code):
            means.setdefault(name, []).append(data.differences[name].mean)
        labels = [
            name
            + (f" {max(d, key=abs):+.3f}" if code in ("better", "worse") else "")
            + (f" ({len(d)} of {len(summary.datasets)})" if len(d) > 1 else "")
            for name, d in means.items()
        ]
        parts += [f"{code}: {', '.join(labels)}"] if labels else []
    against = {data.differences[name].reference for data, name, _ in pairs}
    reference = against.pop() if len(against) == 1 else "their references"
    of_runs = {data.differences[name].over for data, name, _ in pairs} == {"runs"}
    where = " on these test windows" if of_runs else ""
    return f"F1 against {reference}{where}: {'; '.join(parts)}." if parts else ""


def leaders_sentences(summary: Summary) -> list[str]:
    """Which encoding is best and what is not told apart from it; over datasets by rank."""
    if summary.ranked:
        excluded = {e for data in summary.datasets for e in data.cut_short} | set(WITHOUT_CODES)
        order = sorted((e for e in summary.ranks if e not in excluded), key=summary.ranks.get)
        if len(order) < 2 or any(data.leaky for data in summary.datasets):
            return []
        slots = {"over": summary.over, "best": order[0], "rank": summary.ranks[order[0]]}
        slots |= {"then": order[1], "then_rank": summary.ranks[order[1]]}
        return [words("sentences", "rank", **slots)]
    entries = []
    for data in summary.datasets:
        if len(data.best) and sum(e not in WITHOUT_CODES for e in data.scores) > 1:
            best, *ties = data.best
            slots = {"dataset": data.dataset, "best": best, "alike": join(ties) if ties else ""}
            slots["f1"] = data.scores[best]["f1"].mean
            entries.append(words("sentences", "best" if ties else "best alone", **slots))
        entries += lengths_sentence(data)
    return entries


def lengths_sentence(data: DatasetSummary) -> list[str]:
    """Which encodings classify the longest windows best, those whose intervals overlap together."""
    if data.leaky:
        return []
    longest = max((row.length for lengths in data.lengths.values() for row in lengths), default=0)
    texts = {
        e: row.accuracy
        for e, lengths in data.lengths.items()
        for row in lengths
        if row.length == longest and row.accuracy and e not in data.cut_short
    }
    if len(texts) < 2:
        return []
    order = sorted(texts, key=lambda name: -texts[name].mean)
    lead = texts[order[0]]
    ties = [n for n in order if n == order[0] or texts[n].high >= lead.low]
    slots = {"length": longest, "trained": data.length, "best": join(ties)}
    slots |= {"verb": agreeing(len(ties), "is", "are"), "accuracy": f"{lead.mean:.3f}"}
    return [words("sentences", "lengths", **slots)]


def remarks_on_cuts(summary: Summary) -> list[str]:
    """Where training was cut short, and what to give more of."""
    cut = [data for data in summary.datasets if data.cut_short]
    if not cut:
        return []
    where = "; ".join(f"{data.dataset}: {', '.join(data.cut_short)}" for data in cut)
    return [words("sentences", "cut", where=where, longer=max((o.longer for o in cut), key=len))]


def said_first(summary: Summary) -> list[str]:
    """The verdict, where training was cut short, and what each dataset says: before all tables."""
    verdict, *lines = conclude_datasets(summary)
    return [verdict, *remarks_on_cuts(summary), *lines]


# Tables


def answer_table(summary: Summary) -> tuple[str, list[list[str]]]:
    """The table of the answer: encodings of a dataset, or mean F1 on several with their marks."""
    if len(summary.datasets) > 1:
        names = list(dict.fromkeys(e for data in summary.datasets for e in data.scores))
        head = ["F1", *(data.dataset for data in summary.datasets)]
        body = [[e, *(marked_f1(data, e) for data in summary.datasets)] for e in names]
        if summary.ranked:
            head.append("rank")
            body = [[*row, number(summary.ranks.get(row[0]), 3)] for row in body]
        return "▲ better, ▼ worse than its reference, † cut short", [head, *body]
    (data,) = summary.datasets
    head = ["encoding", "P / R / F1", "AUPRC", f"F1 less {summary.reference}", "Holm p", "verdict"]
    body = []
    for e, scores in data.scores.items():
        d, cells = data.differences.get(e), ["–", "–", "–"]
        if d is not None:
            cells = [difference_cell(d), number(d.p_holm, 2), data.verdicts[e]]
        triple = " / ".join(three_decimals(scores[m].mean) for m in MEASURES[:3])
        body.append([e, triple, three_decimals(scores["auprc"].mean), *cells])
    return scores_title(data), [head, *body]


def marked_f1(data: DatasetSummary, encoding: str) -> str:
    """Mean F1 with the mark of its verdict."""
    if encoding not in data.scores:
        return "–"
    mark = MARKS.get(data.verdicts.get(encoding, ""), "")
    mark = "†" if encoding in data.cut_short else mark
    return three_decimals(data.scores[encoding]["f1"].mean) + mark


def tables(summary: Summary) -> list[tuple[str, list[list[str]]]]:
    """Titles and rows: Table 1, each dataset's intervals and differences, ranks."""
    encodings = list(dict.fromkeys(e for data in summary.datasets for e in data.scores))
    entries = []
    for part in np.array_split(encodings, -(-len(encodings) // COLUMNS)):
        body = [[title(data), *(table_1_cell(data, e) for e in part)] for data in summary.datasets]
        entries.append(("", [["P / R / F1", *part], *body]))
    for data in summary.datasets:
        measures = list(next(iter(data.scores.values())))
        head = ["encoding", *(CAPTIONS.get(m, m) for m in measures)]
        body = [[e, *(score_cell(s[m]) for m in measures)] for e, s in data.scores.items()]
        always = data.positive or "the commonest"
        body.append(
            [f"(always {always})", *(three_decimals(chance_scores(data)[m]) for m in measures)]
        )
        entries.append((scores_title(data), [head, *body]))
        entries += [*difference_table(data, summary.reference), *more_tables(data)]
    if summary.ranked:
        ordered = sorted(summary.ranks.items(), key=lambda item: item[1])
        body = [[e, f"{rank:.2f}"] for e, rank in ordered]
        caption = f"average ranks by F1 {summary.over}"
        entries.append((caption, [["encoding", "average rank"], *body]))
    return entries


def scores_title(data: DatasetSummary) -> str:
    """What a table of scores is of, and what its brackets are."""
    first = next(e for e in (*data.scores, "") if e not in data.fitted_once)
    caption = f"{title(data)}, {data.inputs}: mean [{data.interval(first)}] over "
    caption += runs_of(data.seeds, data.folds)
    if once := data.fitted_once:
        caption += f", {join(once)} over {runs_of(1, data.folds)}"
    return caption + (f"; positive: {data.positive}" if data.positive is not None else "")


def difference_table(data: DatasetSummary, reference: str) -> list[tuple[str, list[list[str]]]]:
    """Verdicts on differences from the reference, with their numbers; empty without any."""
    if not data.differences:
        return []
    is_rescaled = any(d.reference != reference for d in data.differences.values())
    d = next(iter(data.differences.values()))
    head = ["encoding", "verdict", "F1", "p", "Holm p", "P(A > B)", f"{d.over} needed", "AUPRC"]
    body = []
    for e, d in data.differences.items():
        tests = [number(d.p, 2), number(d.p_holm, 2), f"{d.better:.2f}", number(d.needed)]
        auprc = difference_cell(data.auprc_differences[e])
        body.append([e, data.verdicts[e], difference_cell(d), *tests, auprc])
    caption = f"{title(data)}, difference from {reference}{' at the same rms' * is_rescaled}"
    return [(f"{caption}, over {d.units} {d.over}", [head, *body])]


def chance_scores(data: DatasetSummary) -> dict[str, float]:
    """Scores of always naming one class of the test windows together.

    With a positive class, of which a share p is, it is that one, of F1 2p / (1 + p); else it is the
    commonest of K, and its scores are means over classes.
    """
    counts = [sum(row) for row in next(iter(data.confusion.values()))]
    positive = data.positive is not None
    k = 1 if positive else len(counts)
    share = (counts[1] if positive else max(counts)) / sum(counts)
    scores = {"precision": share / k, "recall": 1 / k, "f1": 2 * share / (1 + share) / k}
    return scores | {"accuracy": share, "auprc": share if positive else 1 / k}


def more_tables(data: DatasetSummary) -> list[tuple[str, list[list[str]]]]:
    """What the runs of a dataset did on longer windows, and chose."""
    entries = []
    if data.lengths:
        caption = (
            f"{title(data)}, trained on windows of {data.length} rows: F1 / accuracy by length"
        )
        entries.append((caption, length_cells(data)))
    if data.terms:
        body = [[e, *(f"{share:.2f}" for share in shares)] for e, shares in data.terms.items()]
        caption = f"{title(data)}, shares of terms in the variance of first-layer scores"
        entries.append((caption, [["encoding", *TERMS], *body]))
    if data.chosen:
        entries.append((f"{title(data)}, chosen on validation: runs", choice_cells(data)))
    return entries


def table_1_cell(data: DatasetSummary, encoding: str) -> str:
    """Precision, recall and F1 as in Table 1, marked where training was cut short."""
    if encoding not in data.scores:
        return "–"
    triple = " / ".join(three_decimals(data.scores[encoding][m].mean) for m in MEASURES[:3])
    return f"{triple} †" if encoding in data.cut_short else triple


def length_cells(data: DatasetSummary) -> list[list[str]]:
    """F1 and accuracy of each encoding at each length, with a head."""
    lengths = [row.length for row in next(iter(data.lengths.values()))]
    body = []
    for name, of_lengths in data.lengths.items():
        scores = data.scores[name]
        first = f"{three_decimals(scores['f1'].mean)} / {three_decimals(scores['accuracy'].mean)}"
        cells = [
            "–" if row.reason else f"{three_decimals(row.f1.mean)} / {score_cell(row.accuracy)}"
            for row in of_lengths
        ]
        body.append([name, first, *cells])
    return [["encoding", f"{data.length} (test part)", *map(str, lengths)], *body]


def choice_cells(data: DatasetSummary) -> list[list[str]]:
    """How often each value of each setting was chosen, with a head; – where it has no such one."""
    settings = list(dict.fromkeys(s for chosen in data.chosen.values() for s in chosen))
    body = []
    for name, chosen in data.chosen.items():
        counts = [
            ", ".join(f"{v} ×{n}" for v, n in sorted(chosen.get(s, {}).items())) for s in settings
        ]
        body.append([name, *(text or "–" for text in counts)])
    return [["encoding", *(s.replace("_", "-") for s in settings)], *body]


# Notes on how to read it


def sentences(summary: Summary) -> list[str]:
    """What to keep in mind when reading conclusions and tables."""
    note = partial(words, "notes")
    entries = [note("leaky", dataset=data.dataset) for data in summary.datasets if data.leaky]
    for data in summary.datasets:
        entries += [f"{data.dataset}: {words('remarks', 'uneven')}"] if data.uneven else []
        for name, n in data.diverged.items():
            runs = f"{n} {agreeing(n, 'run', 'runs')}"
            entries.append(note("diverged", dataset=data.dataset, encoding=name, runs=runs))
        entries += [
            note("untested", dataset=data.dataset, name=name, length=row.length, reason=row.reason)
            for name, of_lengths in data.lengths.items()
            for row in of_lengths
            if row.reason
        ]
    if summary.ranked:
        entries.append(note("ranks", over=summary.over, cliques=cliques_words(summary)))
    if summary.verdicts:
        entries.append(note("test"))
    if any(data.folds == 1 and data.differences for data in summary.datasets):
        entries.append(note("one fold"))
    if any(code == "too few" for _, _, code in summary.verdicts):
        entries.append(note("too few", find=summary.find))
    counts = {data.counted(e) for data in summary.datasets for e in data.scores}
    entries += [note("range", n=n) for n in sorted(counts & {*range(2, FEW + 1)})]
    return entries + remarks_on_edges(summary) + remarks_on_rules(summary)


def cliques_words(summary: Summary) -> str:
    """Which encodings the datasets together do not tell apart, and whether they could."""
    cut = {e for data in summary.datasets for e in data.cut_short}
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
    entries = []
    for data, (key, value, extreme) in product(summary.datasets, ends):
        counts = {e: chosen[key] for e, chosen in data.chosen.items() if key in chosen}
        names = [e for e, n in counts.items() if 2 * n.get(value, 0) > sum(n.values())]
        if names:
            edge = f"{key.replace('_', '-')} {value}, the {extreme}"
            slots = {"dataset": data.dataset, "encodings": join(names), "value": edge}
            entries.append(words("notes", "edge", **slots))
    return entries


def searched_settings(summary: Summary) -> dict[str, list[float]]:
    """The values of each setting of numbers that was searched."""
    items = (item for text in summary.training.get("search") or () for item in text.split())
    return parse_search([i for i in items if i.partition("=")[0].replace("-", "_") in TUNED])


def remarks_on_rules(summary: Summary) -> list[str]:
    """How long runs last, which weights are kept, and what sizes are of."""
    note, training = partial(words, "notes"), summary.training
    entries = []
    for data in summary.datasets:
        if data.budget is not None:
            patience = data.budget["patience"]
            slots = {**data.budget, "patience": f"{patience} steps" if patience else "no number"}
            entries.append(note("budget", dataset=data.dataset, **slots))
    if training.get("search"):
        entries.append(note("search", settings=" ".join(training["search"])))
    if "choice" in training:
        entries.append(note("kept", choice=training["choice"]))
    if "size" in training and any("@rms=" in row["encoding"] for row in summary.runs):
        entries.append(note("size", size=training["size"]))
    for data in summary.datasets:
        seconds = sum(run["seconds"] for run in summary.runs if run["dataset"] == data.dataset)
        entries.append(note("time", dataset=data.dataset, seconds=seconds))
    return entries


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


def tables_in_words(entries: Iterable[tuple[str, list[list[str]]]]) -> str:
    """Tables with their titles for a terminal."""
    return "\n".join(
        (paragraph(printable(caption)) if caption else "")
        + aligned([list(map(printable, row)) for row in rows])
        for caption, rows in entries
    )


def as_markdown(summary: Summary) -> str:
    """The answer as summary.md."""
    parts = ["# Encodings compared", ""]
    parts += [text for line in said_first(summary) for text in (in_markdown(line), "")]
    for caption, rows in tables(summary):
        parts += [f"## {in_markdown(caption)}", ""] if caption else []
        parts += [markdown_table(rows), ""]
    parts += ["## How to read these numbers", ""]
    return "\n".join([*parts, *(f"* {in_markdown(line)}" for line in sentences(summary)), ""])


def json_records(summary: Summary) -> list[dict[str, Any]]:
    """The answer for JSON: one record for each dataset and encoding."""
    return [record_of(summary, data, name) for data in summary.datasets for name in data.scores]


def verdict_of(summary: Summary, data: DatasetSummary, name: str) -> dict[str, str]:
    """The verdict on an encoding with its meaning and action."""
    d = data.differences.get(name)
    code = data.verdicts.get(name) or ("reference" if data.differences else "alone")
    low, high = (d.low, d.high) if d is not None else (math.nan, math.nan)
    advice = more_words([d]) if d is not None else ""
    slots = {"d": d, "low": low, "high": high, "more": advice}
    slots |= {"find": summary.find, "longer": data.longer}
    texts = read_toml(WORDS)["verdicts"][code]
    filled = {key: texts.get(key, "").format(**slots) for key in ("meaning", "action")}
    return {"verdict": code, **filled}


def conclude_training(summary: Summary, data: DatasetSummary, name: str) -> str:
    """The conclusion about an encoding on a dataset: its score, the verdict, what to do."""
    verdict = verdict_of(summary, data, name)
    f1, n = data.scores[name]["f1"], data.counted(name)
    score = f"F1 {f1.mean:.3f} over {n} {agreeing(n, 'run', 'runs')}."
    head = f"{verdict['verdict'].upper()}."
    return " ".join(filter(None, (head, verdict["meaning"], score, verdict["action"])))


def record_of(summary: Summary, data: DatasetSummary, name: str) -> dict[str, Any]:
    """What is known of an encoding on a dataset."""
    d, auprc = data.differences.get(name), data.auprc_differences.get(name)
    return {
        "dataset": data.dataset,
        "encoding": name.partition(":")[0].partition("@")[0],
        "spec": name,
        "params": data.params.get(name, {}),
        **verdict_of(summary, data, name),
        "findings": [],
        "conclusion": conclude_training(summary, data, name),
        "training": summary.training,
        "seeds": seeds_of(name, data.seeds),
        **{key: getattr(data, key) for key in ALIKE},
        "best": list(data.best),
        "chance": chance_scores(data),
        **{measure: asdict(mean) for measure, mean in data.scores[name].items()},
        "difference": None if d is None else asdict(d),
        "auprc_difference": None if auprc is None else asdict(auprc),
        **{
            key: getattr(data, key).get(name)
            for key in ("confusion", "per_class", "step_seconds", "terms")
        },
        "lengths": [asdict(row) for row in data.lengths.get(name, ())],
        "chosen": choices_of(data, name),
        **{key: getattr(data, key).get(name, 0) for key in ("diverged", "last_kept")},
        "cut_short": name in data.cut_short,
        "average_rank": summary.ranks.get(name),
    }


def choices_of(data: DatasetSummary, name: str) -> list[dict[str, Any]]:
    """Which settings the search chose, for how many runs of an encoding."""
    return [
        {"setting": setting, "value": value, "runs": n}
        for setting, values in data.chosen.get(name, {}).items()
        for value, n in values.items()
    ]
