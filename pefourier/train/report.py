"""Report of a training: sentences, tables and records of a summary.

Verdicts come from the summary; this module makes no decisions.

Scores of a user's own runs, compared like the runs of `pefourier train`.

A .csv has the columns `encoding` and `score` (or f1, accuracy, auprc or auc), and of `dataset`,
`seed` and `fold` those that there are; others are ignored. Runs of two encodings with the same
dataset, seed and fold are a pair; without seeds and folds, the n-th runs of encodings are.
Differences over folds have the standard error of cross-validation: folds share training data, and
the ratio of test to training data is that of as many folds.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pefourier.errors import PefourierError, shown
from pefourier.train.data.tables import number_in, read_columns
from pefourier.train.options import seeds_of
from pefourier.train.statistics import (
    COLLIDES,
    LEAKY,
    SENTENCES,
    DatasetSummary,
    Decision,
    Mean,
    PairedDifference,
    Summary,
    common_runs,
    paired_run,
    rows_by,
    summarize_runs,
)
from pefourier.train.store import MEASURES
from pefourier.types import Fields, Values
from pefourier.writing.escapes import in_markdown, markdown_table
from pefourier.writing.page import Page, Reason, flattened
from pefourier.writing.text import (
    agreeing,
    aligned,
    fill,
    first_few,
    join,
    number,
    paragraph,
    printable,
)

NAMED = ("P / R / F1", "AUPRC")
CAPTIONS = {"f1": "F1", "auprc": "AUPRC"}
DIFFERENCES = ("against", "verdict", "F1", "p", "Holm p", "P(A > B)", "needed", "AUPRC")
MARKS = {"better": "▲", "worse": "▼"}
# of a dataset, equal for all of its encodings
MUST_AGREE = ("split", "leaky", "folds", "length", "positive", "shortest", "budget")
ReportTable = tuple[str, list[list[str]]]  # a title, and rows with the header first


def score_cell(mean: Mean) -> str:
    """Format a mean with its interval, if it has one.

    >>> score_cell(Mean(0.5, 0.4, 0.6))
    '0.500 [0.400, 0.600]'
    """
    ends = f" [{mean.low:.3f}, {mean.high:.3f}]"
    return f"{mean.mean:.3f}{ends if mean.low < mean.high else ''}"


def difference_cell(d: PairedDifference | None) -> str:
    """Format a difference with its interval, if it has one."""
    if d is None:
        return "–"
    ends = f" [{d.low:+.3f}, {d.high:+.3f}]" if d.low == d.low else ""  # not nan
    return f"{d.mean:+.3f}{ends}"


def triple_cell(data: DatasetSummary, encoding: str) -> str:
    """Precision, recall and F1 as in Table 1, with a mark if the encoding is not compared."""
    if encoding not in data.scores:
        return "–"
    triple = " / ".join(f"{data.scores[encoding][m].mean:.3f}" for m in MEASURES[:3])
    return triple + f" {exclusion_mark(data, encoding)}".rstrip()


def exclusion_mark(data: DatasetSummary, encoding: str) -> str:
    """Mark of an encoding that is not compared: training was cut short, or vectors collide."""
    return {"cut short": "†", COLLIDES: "‡"}.get(data.excluded.get(encoding, ""), "")


def marked_f1(data: DatasetSummary, encoding: str) -> str:
    """Mean F1 with the mark of its verdict."""
    if encoding not in data.scores:
        return "–"
    mark = exclusion_mark(data, encoding) or MARKS.get(data.verdicts.get(encoding, ""), "")
    return f"{data.scores[encoding]['f1'].mean:.3f}{mark}"


def title(data: DatasetSummary) -> str:
    """Name of a dataset, with its split unless that is the default, and a warning if it leaks."""
    how = f", {LEAKY}" if data.leaky else "" if data.split == "blocks" else f", {data.split}"
    return data.dataset + how


def scores_title(data: DatasetSummary) -> str:
    """Title of a table of scores."""
    positive = f"; positive: {data.positive}" if data.positive is not None else ""
    chance = f"; one class always: F1 {data.chance['f1']:.3f}" if data.chance else ""
    inputs = f", {data.inputs}" if data.length else ""  # unknown of scores from elsewhere
    runs = f"seeds {data.seeds} × folds {data.folds}"
    return f"{title(data)}{inputs}: mean [95% interval], {runs}{positive}{chance}"


# Sentences


def fill_verdict(
    verdict: Iterable[str],
    summary: Summary,
    data: DatasetSummary,
    d: PairedDifference | None,
    **own: Any,
) -> dict[str, str]:
    """Meaning and action of a verdict on a difference or a dataset."""
    slots = {"d": d, "find": summary.find, "longer": data.longer, "more": "", **own}
    if d is not None:
        way = d.over if d.needed is not None else "windows" if d.windows is not None else "data"
        slots["more"] = fill(SENTENCES["MORE_DATA"][way], d=d, needed=d.needed)
        slots["units"] = f"{d.units} {d.over if d.units > 1 else d.over.removesuffix('s')}"
        slots["reference"] = named(d.reference)
        slots["least"] = ""
        if d.detectable is not None and d.detectable > summary.find:
            slots["least"] = f", only of {d.detectable} or more"
    filled = [fill(text, **slots) for text in verdict]
    return dict(zip(("meaning", "action"), filled, strict=True))


def named(encoding: str) -> str:
    """Name of an encoding in a sentence; that of `none` is quoted.

    >>> named("rope"), named("none")
    ('rope', "'none'")
    """
    return f"'{encoding}'" if encoding == "none" else encoding


def count_right(data: DatasetSummary, pair: Sequence[str], d: PairedDifference) -> str:
    """Sentence on the test windows that one of a pair classified correctly more than the other.

    `d` is a difference of the pair that few windows do not show.
    """
    if d.windows is None:
        return ""
    tables = [(e, np.array(data.confusion[e]), seeds_of(e, data.seeds)) for e in pair]
    right = {e: round(float(np.trace(table)) / seeds) for e, table, seeds in tables}
    tested = round(tables[0][1].sum() / tables[0][2])
    fewer, more = sorted(right, key=right.__getitem__)
    if right[fewer] == right[more] or d.windows <= tested:
        return ""
    seeds = f"{data.seeds} {agreeing(data.seeds, 'seed', 'seeds')}"
    return (
        f" {named(more)} classified {right[more]} of {tested} test windows correctly, "
        f"{named(fewer)} {right[fewer]}; {d.units} folds of {seeds} cannot show that this "
        f"repeats: about {d.windows} windows would."
    )


def conclude_all(summary: Summary) -> str:
    """Conclusion on all encodings, with the best, and those with training cut short."""
    parts, left_out = [f"{summary.verdict.upper()}."], dict(summary.left_out)
    if len(summary.datasets) == 1:
        parts, left_out = [conclude_dataset(summary, summary.datasets[0])], {}
    elif summary.best:
        slots = leaders(summary, "{} {:.2f}") | {"rank": summary.ranks[summary.best[0]]}
        parts.append(fill(SENTENCES["BY_RANK"][summary.verdict], over=summary.over, **slots))
    else:
        groups: dict[str, list[str]] = {}
        for d in summary.datasets:
            name = f"{d.dataset} ({', '.join(d.best)})" if d.worse else d.dataset
            groups.setdefault(d.verdict, []).append(name)
            left_out |= d.left_out
        for code, names in groups.items():
            parts.append(
                fill(SENTENCES["ON_SEVERAL"][code], names="; ".join(names), find=summary.find)
            )
    parts.append(left_out_sentence(left_out, {}))
    cut = [data for data in summary.datasets if data.cut_short]
    if cut and (len(summary.datasets) > 1 or summary.verdict != "cut short"):
        where = "; ".join(
            f"{data.dataset}: {', '.join(map(named, data.cut_short))}" for data in cut
        )
        parts.append(
            f"More than a fifth of the runs on {where} ended at the step limit without converging. "
            f"Train longer with {cut[-1].longer}."
        )
    return " ".join(filter(None, parts))


def conclude_dataset(summary: Summary, data: DatasetSummary) -> str:
    """Conclusion on a dataset, with the best encoding and those not compared."""
    f1 = {e: f" {scores['f1'].mean:.3f}" for e, scores in data.scores.items()}
    over = next((d.over for d in data.differences.values()), "folds")
    tested = f"these test windows of {data.dataset}" if over == "runs" else data.dataset
    slots = {"dataset": tested, "pair": " and ".join(map(named, data.pair))}
    slots |= leaders(data, "{} {:+.3f}")
    first = max(data.scores, key=lambda e: data.scores[e]["f1"].mean)
    if data.best and data.verdict != "cut short":
        first = data.best[0]
    is_cut = first in data.cut_short
    slots |= {"first": named(first), "f1": f1[first]}
    slots["unfinished"] = ", although its training was cut short" if is_cut else ""
    slots["counted"] = count_right(data, data.pair, data.shortage) if data.shortage else ""
    slots["lead"] = fill(SENTENCES["NOTES"]["lead"], **slots)
    verdict = {**SENTENCES["VERDICTS"], **SENTENCES["CONCLUSIONS"]}[data.verdict]
    filled = fill_verdict(verdict, summary, data, data.shortage, **slots)
    parts = [f"{data.verdict.upper()}.", *filled.values(), left_out_sentence(data.left_out, f1)]
    if data.no_gain:
        parts.insert(1, fill(SENTENCES["NOTES"]["no gain"], find=summary.find))
    return " ".join(filter(None, parts))


def leaders(decision: Decision, form: str) -> Fields:
    """Texts for the best encoding of a decision, its ties, and worse encodings with numbers."""
    best, worse = list(map(named, decision.best)), decision.worse.items()
    slots = {"best": best[0] if best else "", "ties": join(best[1:]) if best[1:] else ""}
    return slots | {"worse": ", ".join(form.format(named(e), less) for e, less in worse)}


def left_out_sentence(left_out: Mapping[str, str], f1: Mapping[str, str]) -> str:
    """Sentence on encodings that are not compared, with their scores and the reason."""
    names = ", ".join(f"{named(e)}{f1.get(e, '')} ({why})" for e, why in left_out.items())
    return f"Not compared: {names}." if names else ""


# Tables


def answer_table(summary: Summary) -> ReportTable:
    """Table of the answer: encodings of a dataset, or marked mean F1 on several datasets."""
    if len(summary.datasets) > 1:
        names = list(dict.fromkeys(e for data in summary.datasets for e in data.scores))
        body = [[e, *(marked_f1(data, e) for data in summary.datasets)] for e in names]
        body = [[*row, number(summary.ranks.get(row[0]), 3)] for row in body]
        head = ["F1", *(data.dataset for data in summary.datasets), "rank"]
        return "▲ better, ▼ worse than its reference, † cut short, ‡ vectors collide", [head, *body]
    (data,) = summary.datasets
    references = dict.fromkeys(d.reference for d in data.differences.values())
    several = len(references) > 1  # scaled encodings have a reference of their size
    less = ["against", "F1 difference"] if several else [f"F1 minus {'–'.join(references)}"]
    named, body = ["F1"], []
    for e, scores in data.scores.items():
        d, row = data.differences.get(e), [e, score_cell(scores["f1"])]
        if "auprc" in scores:
            row, named = [e, triple_cell(data, e), f"{scores['auprc'].mean:.3f}"], [*NAMED]
        if several:
            row.append(d.reference if d else "–")
        row.append(difference_cell(d))
        body.append([*row, number(d.p_holm, 2) if d else "–", data.verdicts.get(e, "–")])
    return scores_title(data), [["encoding", *named, *less, "Holm p", "verdict"], *body]


def tables(summary: Summary) -> list[ReportTable]:
    """Titles and rows of all tables: Table 1, intervals and differences by dataset, ranks."""
    encodings = list(dict.fromkeys(e for data in summary.datasets for e in data.scores))
    body = [[title(o), *(triple_cell(o, e) for e in encodings)] for o in summary.datasets]
    entries = [("", [["P / R / F1", *encodings], *body])]
    entries += [entry for data in summary.datasets for entry in tables_of(data)]
    ordered = sorted(summary.ranks.items(), key=lambda item: item[1])
    body = [["encoding", "rank"], *([e, f"{rank:.2f}"] for e, rank in ordered)]
    if summary.ranked:
        entries.append((f"average ranks by F1 {summary.over}", body))
    return entries


def tables_of(data: DatasetSummary) -> list[ReportTable]:
    """Tables of a dataset: scores, differences, scores at other lengths."""
    name, longer = title(data), [row.length for row in next(iter(data.lengths.values()), ())]
    over = next((f"{d.over} ({d.units})" for d in data.differences.values()), "")
    by_length = f"{name}, trained on {data.length} rows: F1 / accuracy by length"
    scored = [[e, *map(score_cell, scores.values())] for e, scores in data.scores.items()]
    differing = [
        [
            *(e, d.reference, data.verdicts[e], difference_cell(d), number(d.p, 2)),
            *(number(d.p_holm, 2), f"{d.better:.2f}", number(d.needed)),
            difference_cell(data.auprc_differences[e]),
        ]
        for e, d in data.differences.items()
    ]
    entries: list[tuple[str, Sequence[Any], list[list[str]]]] = [
        (scores_title(data), [CAPTIONS.get(measure, measure) for measure in MEASURES], scored),
        (f"{name}, differences over {over}", DIFFERENCES, differing),
        (by_length, [data.length, *longer], [length_row(data, e) for e in data.lengths]),
    ]
    return [(text, [["encoding", *map(str, head)], *body]) for text, head, body in entries if body]


def length_row(data: DatasetSummary, encoding: str) -> list[str]:
    """F1 and accuracy of an encoding at each length."""
    scores = data.scores[encoding]
    pairs = [(row.f1, row.accuracy) for row in data.lengths[encoding]]
    cells = [
        f"{f1.mean:.3f} / {score_cell(accuracy)}" if f1 and accuracy else "–"
        for f1, accuracy in [(scores["f1"], scores["accuracy"]), *pairs]
    ]
    return [encoding, *cells]


def sentences(summary: Summary) -> list[str]:
    """Notes for the reader of conclusions and tables."""
    notes = SENTENCES["NOTES"]
    codes = {code for data in summary.datasets for code in data.verdicts.values()}
    one_fold = any(data.folds == 1 and data.differences for data in summary.datasets)
    conditions = {"test": codes, "one fold": one_fold, "too few": "too few" in codes}
    entries = [fill(notes[c], find=summary.find) for c, holds in conditions.items() if holds]
    if summary.ranked:
        groups = "; ".join(map(", ".join, summary.cliques)) or "none"
        slots = {"over": summary.over, "cliques": groups, "reach": summary.out_of_reach}
        entries.append(fill(notes["ranks"], **slots))
    for data in summary.datasets:
        lines = SENTENCES["VERDICTS"]["leaky"][:1] if data.leaky else []
        for name, count in data.diverged.items():
            lines.append(fill(notes["diverged"], encoding=name, count=count))
        rows = [(name, row) for name, lengths in data.lengths.items() for row in lengths]
        lines += [fill(notes["untested"], name=e, row=row) for e, row in rows if row.reason]
        entries += [f"{data.dataset}: {line}" for line in lines]
    return entries


# Forms


def answer_page(
    command: str,
    text: Callable[[], str],
    records: Callable[[], Sequence[Any]],
    words: Callable[[], str] = str,
    remarks: Sequence[Reason] = (),
) -> Page:
    """Page of a conclusion, records, and tables in words."""
    return Page(
        command,
        words=words,
        records=records,
        rows=lambda: flattened(records()),
        conclusion=lambda: paragraph(printable(text())),
        together=text,
        remarks=remarks,
    )


def summary_page(summary: Summary) -> Page:
    """Page of `pefourier train`."""
    return answer_page(
        "train",
        lambda: conclude_all(summary),
        lambda: json_records(summary),
        lambda: tables_in_words([answer_table(summary)]),
    )


def all_words(summary: Summary) -> str:
    """All tables and notes in words, for an HTML page."""
    notes = "".join(paragraph(printable(line)) for line in sentences(summary))
    return f"{tables_in_words(tables(summary))}\n{notes}"


def tables_in_words(entries: Iterable[ReportTable]) -> str:
    """Format tables with their titles for a terminal."""
    return "\n".join(
        (paragraph(printable(caption)) if caption else "")
        + aligned([list(map(printable, row)) for row in rows])
        for caption, rows in entries
    )


def as_markdown(summary: Summary) -> str:
    """Format the answer as summary.md."""
    lines = [conclude_all(summary)]
    if len(summary.datasets) > 1:
        lines += [f"{d.dataset}: {conclude_dataset(summary, d)}" for d in summary.datasets]
    parts = ["# Encodings compared", *map(in_markdown, lines)]
    for caption, rows in tables(summary):
        parts += [f"## {in_markdown(caption)}"] if caption else []
        parts.append(markdown_table(rows))
    notes = "\n".join(f"* {in_markdown(line)}" for line in sentences(summary))
    return "\n\n".join([*parts, "## How to read these numbers", notes]) + "\n"


def json_records(summary: Summary) -> list[Fields]:
    """Records of the answer for JSON: one for each dataset and encoding."""
    return [record_of(summary, data, name) for data in summary.datasets for name in data.scores]


def record_of(summary: Summary, data: DatasetSummary, name: str) -> Fields:
    """Record of an encoding on a dataset."""
    d, auprc = data.differences.get(name), data.auprc_differences.get(name)
    code = data.verdicts.get(name) or ("reference" if data.differences else "alone")
    counted = count_right(data, (name, d.reference), d) if d is not None else ""
    verdict = fill_verdict(SENTENCES["VERDICTS"][code], summary, data, d, counted=counted)
    score = f"F1 {data.scores[name]['f1'].mean:.3f}."
    conclusion = [f"{code.upper()}.", verdict["meaning"], score, verdict["action"]]
    return {
        "dataset": data.dataset,
        "encoding": name.partition(":")[0].partition("@")[0],
        "spec": name,
        "params": data.params.get(name, {}),
        "verdict": code,
        **verdict,
        "findings": [],
        "conclusion": " ".join(filter(None, conclusion)),
        "training": summary.training,
        "seeds": seeds_of(name, data.seeds),
        **{key: getattr(data, key) for key in MUST_AGREE},
        "dataset_verdict": data.verdict,
        "best": list(data.best),
        "left_out": data.left_out.get(name),
        "chance": data.chance,
        **{measure: asdict(mean) for measure, mean in data.scores[name].items()},
        "difference": None if d is None else asdict(d),
        "auprc_difference": None if auprc is None else asdict(auprc),
        "confusion": data.confusion.get(name),
        "lengths": [asdict(row) for row in data.lengths.get(name, ())],
        **{key: getattr(data, key).get(name, 0) for key in ("diverged", "last_kept")},
        "cut_short": name in data.cut_short,
        "average_rank": summary.ranks.get(name),
    }


SCORE = ("score", "f1", "accuracy", "auprc", "auc")  # names of the column, the usual one first
KEPT = "dataset encoding spec params verdict meaning action findings conclusion seeds folds"
KEPT += " dataset_verdict best left_out difference average_rank"


def read_scores(path: str) -> list[Fields]:
    """Read a .csv as rows with dataset, encoding, numbers of seed and fold, and the score as f1."""
    from pandas import DataFrame, factorize

    found = read_columns(Path(path))
    names = [name.lower() for name in found.names]
    score = next((name for name in SCORE if name in names), "score")
    for name in ("encoding", score):
        if names.count(name) != 1:
            raise PefourierError(
                f"--scores {shown(path)} needs one column {name}, and at best dataset, seed and "
                f"fold; its first line names {shown(', '.join(names))}"
            )
    cells = DataFrame(dict(zip(names, found.cells, strict=True)), index=found.lines)
    units = [name for name in ("dataset", "encoding", "seed", "fold") if name in names]
    rows = DataFrame({"dataset": Path(path).stem}, index=cells.index).assign(**cells[units])
    if not {"seed", "fold"} & {*units}:  # paired in order
        rows["seed"] = rows.groupby(["dataset", "encoding"]).cumcount().astype(str)
    f1 = cells[score].map(partial(number_in, delimiter=found.delimiter))
    wrong, again = ~f1.between(0, 1) | (rows == "").any(axis=1), rows.duplicated()
    if wrong.any():
        line = wrong.idxmax()
        raise PefourierError(
            f"--scores {shown(path)}, line {line}: expected a score from 0 to 1 (percent: divide "
            f"by 100) and no empty cell, got {shown(cells[score][line])}, "
            f"{', '.join(rows.loc[line])}"
        )
    if again.any():
        line = again.idxmax()
        first = cells.index[(rows == rows.loc[line]).all(axis=1)][0]
        raise PefourierError(
            f"--scores {shown(path)}, line {line} repeats dataset, encoding, seed and fold of line "
            f"{first}; add a column seed or fold that tells the runs apart"
        )
    for unit in ("seed", "fold"):
        rows[unit] = factorize(rows[unit])[0] if unit in rows else 0
    records: list[Fields] = rows.assign(split="blocks", f1=f1, line=cells.index).to_dict("records")
    return records


def unpaired(rows: Sequence[Values]) -> list[Reason]:
    """Warnings about the runs that some encoding of their dataset lacks."""
    reasons = []
    for dataset, of in rows_by("dataset", rows).items():
        runs = common_runs(of)[0]
        if not runs:
            raise PefourierError(
                f"{dataset}: no run has the same seed and fold in all encodings; check the columns"
            )
        for encoding, own in rows_by("encoding", of).items():
            paired = {paired_run(encoding, run) for run in runs}
            left = [row for row in own if (row["seed"], row["fold"]) not in paired]
            if left:
                runs_left = first_few([f"line {row['line']}" for row in left], 5)
                words = f"is not paired on {dataset} and left out: {runs_left}"
                reasons.append(Reason(encoding, "left", words))
    return reasons


def scores_page(path: str, find: float | None) -> Page:
    """Page of `pefourier train --scores`."""
    rows = read_scores(path)
    reasons = unpaired(rows)
    summary = summarize_runs(rows, training={"find": find})
    caption, table = answer_table(summary)
    own_table = as_score(caption), [list(map(as_score, row)) for row in table]
    return answer_page(
        "scores",
        lambda: as_score(conclude_all(summary)),
        lambda: [  # scores in place of what training measures
            {key: record[key] for key in KEPT.split()}
            | {key: as_score(record[key]) for key in ("meaning", "action", "conclusion")}
            | {"score": record["f1"]}
            for record in json_records(summary)
        ],
        lambda: tables_in_words([own_table]),
        reasons,
    )


def as_score(text: str) -> str:
    """Word a sentence on F1 and on options of training for other scores and runs.

    >>> as_score("F1 +0.1. Use --seeds 9 or more.")
    'score +0.1. Use 9 runs or more.'
    """
    text = text.replace(" on these test windows of ", " on ")
    return re.sub(r"\bF1\b", "score", re.sub(r"--seeds (\d+)", r"\1 runs", text))
