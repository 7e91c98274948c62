"""Scores of a user's own runs, compared like the runs of `pefourier train`.

A .csv has the columns `encoding` and `score` (or f1, accuracy, auprc or auc), and of `dataset`,
`seed` and `fold` those that there are; others are ignored. Runs of two encodings with the same
dataset, seed and fold are a pair; without seeds and folds, the n-th runs of encodings are.
Differences over folds have the standard error of cross-validation: folds share training data, and
the ratio of test to training data is that of as many folds.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pefourier.errors import PefourierError, shown
from pefourier.train.report import (
    Table,
    conclude_all,
    difference_cell,
    json_records,
    score_cell,
    tables_in_words,
)
from pefourier.train.store import LONGEST
from pefourier.train.summary import Summary, common_runs, paired_run, rows_by, summarize_runs
from pefourier.writing.files import os_errors
from pefourier.writing.page import Page, Reason, flattened
from pefourier.writing.text import first_few, number, paragraph, printable

SCORE = ("score", "f1", "accuracy", "auprc", "auc")  # names of the column, the usual one first
KEPT = "dataset encoding spec params verdict meaning action findings conclusion seeds folds"
KEPT += " dataset_verdict best left_out difference average_rank"


def read_scores(path: str) -> list[dict[str, Any]]:
    """Read a .csv as rows with dataset, encoding, numbers of seed and fold, and the score as f1."""
    with os_errors("read", path), Path(path).open("rb") as file:
        text = file.read(LONGEST + 1).decode("utf-8-sig", "replace")
    if len(text) > LONGEST:
        raise PefourierError(f"--scores {shown(path)} is longer than {LONGEST} bytes")
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    lines = csv.DictReader(io.StringIO(text), delimiter=delimiter, restval="")
    names = lines.fieldnames = [name.strip().lower() for name in lines.fieldnames or ()]
    score = next((name for name in SCORE if name in names), "score")
    units = [name for name in ("dataset", "encoding", "seed", "fold") if name in names]
    rows, lines_of, counts = list[dict[str, Any]](), dict[Any, int](), Counter[Any]()
    if lacking := [name for name in ("encoding", score) if names.count(name) != 1]:
        raise PefourierError(
            f"--scores {shown(path)} needs one column {lacking[0]}, and at best dataset, seed and "
            f"fold; its first line names {shown(', '.join(names))}"
        )
    for row in lines:
        where = f"--scores {shown(path)}, line {lines.line_num}"
        own = {"dataset": Path(path).stem} | {unit: row[unit].strip() for unit in units}
        if not {"seed", "fold"} & own.keys():  # paired in order
            counts[own["dataset"], own["encoding"]] += 1
            own["seed"] = str(counts[own["dataset"], own["encoding"]])
        try:
            value = float(row[score])
        except ValueError:
            value = -1.0
        if not 0 <= value <= 1 or "" in own.values():
            raise PefourierError(
                f"{where}: expected a score from 0 to 1 (percent: divide by 100) and no empty "
                f"cell, got {shown(row[score])}, {', '.join(own.values())}"
            )
        if (key := tuple(sorted(own.items()))) in lines_of:
            raise PefourierError(
                f"{where} repeats dataset, encoding, seed and fold of line {lines_of[key]}; add a "
                "column seed or fold that tells the runs apart"
            )
        lines_of[key] = lines.line_num
        rows.append({"seed": "0", "fold": "0", **own, "f1": value, "line": lines.line_num})
    if not rows:
        raise PefourierError(f"--scores {shown(path)} has no line below the names of columns")
    for unit in ("seed", "fold"):
        numbers = {name: i for i, name in enumerate(dict.fromkeys(row[unit] for row in rows))}
        rows = [row | {unit: numbers[row[unit]]} for row in rows]
    return rows


def unpaired(rows: Sequence[Mapping[str, Any]]) -> list[Reason]:
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
    return Page(
        "scores",
        words=lambda: tables_in_words(table_of(summary)),
        records=lambda: records(summary),
        rows=lambda: flattened(records(summary)),
        conclusion=lambda: paragraph(printable(as_score(conclude_all(summary)))),
        together=lambda: as_score(conclude_all(summary)),
        remarks=reasons,
    )


def as_score(text: str) -> str:
    """Word a sentence on F1 and on options of training for other scores and runs.

    >>> as_score("F1 +0.1. Use --seeds 9 or more.")
    'score +0.1. Use 9 runs or more.'
    """
    text = text.replace(" on these test windows of ", " on ")
    return re.sub(r"\bF1\b", "score", re.sub(r"--seeds (\d+)", r"\1 runs", text))


def records(summary: Summary) -> list[dict[str, Any]]:
    """Records for JSON: one for each dataset and encoding."""
    found = []
    for record in json_records(summary):
        kept = {key: record[key] for key in KEPT.split()} | {"score": record["f1"]}
        words = ("meaning", "action", "conclusion")
        found.append(kept | {key: as_score(kept[key]) for key in words})
    return found


def table_of(summary: Summary) -> list[Table]:
    """Tables of scores, differences and verdicts by dataset, and of ranks."""
    entries = []
    for data in summary.datasets:
        head, body = ["encoding", "score", "against", "difference", "Holm p", "verdict"], []
        for e, scores in data.scores.items():
            d = data.differences.get(e)
            row = [e, score_cell(scores["f1"]), d.reference if d else "–", difference_cell(d)]
            body.append([*row, number(d.p_holm, 2) if d else "–", data.verdicts.get(e, "–")])
        over = next((f"{d.units} {d.over}" for d in data.differences.values()), "one encoding")
        entries.append((f"{data.dataset}: mean [95% interval], over {over}", [head, *body]))
    if summary.ranked:
        ordered = sorted(summary.ranks.items(), key=lambda item: item[1])
        body = [[e, f"{rank:.2f}"] for e, rank in ordered]
        entries.append((f"average ranks {summary.over}", [["encoding", "rank"], *body]))
    return entries
