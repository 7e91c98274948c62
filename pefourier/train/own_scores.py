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
from pefourier.writing.files import reason
from pefourier.writing.page import Page, Reason, flattened
from pefourier.writing.text import number, paragraph, printable

SCORE = ("score", "f1", "accuracy", "auprc", "auc")  # names of the column, the usual one first
UNITS = ("dataset", "seed", "fold")
KEPT = (
    *("dataset", "encoding", "spec", "params", "verdict", "meaning", "action", "findings"),
    *("conclusion", "seeds", "folds", "dataset_verdict", "best", "left_out", "difference"),
    "average_rank",
)


def read_scores(path: str) -> list[dict[str, Any]]:
    """Read a .csv as rows with dataset, encoding, numbers of seed and fold, and the score as f1."""
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            text = file.read(LONGEST + 1)
    except (OSError, ValueError) as error:
        raise PefourierError(f"--scores {shown(path)}: {reason(error)}") from error
    if len(text) > LONGEST:
        raise PefourierError(f"--scores {shown(path)} is longer than {LONGEST} characters")
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    lines = csv.reader(io.StringIO(text), delimiter=delimiter)
    names = [name.strip().lower() for name in next(lines, [])]
    score = next((name for name in SCORE if name in names), "score")
    if lacking := [name for name in ("encoding", score) if names.count(name) != 1]:
        raise PefourierError(
            f"--scores {shown(path)} needs one column {lacking[0]}, and at best dataset, seed and "
            f"fold; its first line names {shown(', '.join(names))}"
        )
    counts, numbers, rows = Counter[Any](), dict[tuple[str, str], int](), list[dict[str, Any]]()
    lines_of: dict[Any, int] = {}
    for cells in lines:
        if not any(cells):
            continue
        where = f"--scores {shown(path)}, line {lines.line_num}"
        row = dict(zip(names, (cell.strip() for cell in cells), strict=False))
        if any(not row.get(name) for name in ("encoding", score, *({*UNITS} & {*names}))):
            raise PefourierError(f"{where} has an empty cell or too few")
        try:
            value = float(row[score])
        except ValueError:
            value = float("nan")
        if not 0 <= value <= 1:
            raise PefourierError(
                f"{where}: scores are numbers from 0 to 1 (percent: divide by 100), got "
                f"{shown(row[score])}"
            )
        own: dict[str, Any] = {
            "dataset": row.get("dataset", Path(path).stem),
            "encoding": row["encoding"],
        }
        if not {"seed", "fold"} & {*names}:  # in order
            row["seed"] = str(counts[tuple(own.values())])
            counts[tuple(own.values())] += 1
        for unit in ("seed", "fold"):
            told = unit, row.get(unit, "0")
            own[unit] = numbers.setdefault(told, sum(key[0] == unit for key in numbers))
        key = tuple(own.values())
        if key in lines_of:
            raise PefourierError(
                f"{where} repeats dataset, encoding, seed and fold of line {lines_of[key]}; add a "
                "column seed or fold that tells the runs apart"
            )
        lines_of[key] = lines.line_num
        rows.append({**own, "f1": value, "line": lines.line_num, "run": run_in_words(row)})
    if not rows:
        raise PefourierError(f"--scores {shown(path)} has no line below the names of columns")
    return rows


def run_in_words(row: Mapping[str, str]) -> str:
    """Name a run by its units in the file."""
    return ", ".join(f"{unit} {row[unit]}" for unit in UNITS if unit in row)


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
                runs_left = "; ".join(f"{row['run']} (line {row['line']})" for row in left[:3])
                rest = f" and {len(left) - 3} more" if len(left) > 3 else ""
                words = f"is not paired and left out: {runs_left}{rest}"
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
        kept = {key: record[key] for key in KEPT} | {"score": record["f1"]}
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
