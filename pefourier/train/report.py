"""Report of a training: texts of words.toml by code, tables and records of a summary.

Verdicts come from the summary; this module makes no decisions.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pefourier.train.decision import Decision
from pefourier.train.metrics import TERMS
from pefourier.train.options import seeds_of
from pefourier.train.statistics import Difference, Mean
from pefourier.train.store import MEASURES
from pefourier.train.summary import COLLIDES, LEAKY, DatasetSummary, Summary
from pefourier.types import Fields
from pefourier.writing.files import read_toml
from pefourier.writing.page import Page, flattened
from pefourier.writing.text import (
    aligned,
    in_markdown,
    join,
    markdown_table,
    number,
    paragraph,
    printable,
)

WORDS = Path(__file__).with_name("words.toml")
CAPTIONS = {"f1": "F1", "auprc": "AUPRC"}
DIFFERENCES = ("against", "verdict", "F1", "p", "Holm p", "P(A > B)", "needed", "AUPRC")
MARKS = {"better": "▲", "worse": "▼"}
# of a dataset, equal for all of its encodings
MUST_AGREE = ("split", "leaky", "folds", "length", "positive", "shortest", "budget")
OF_ENCODINGS = ("confusion", "terms")
Table = tuple[str, list[list[str]]]  # a title, and rows with the header first


def words(room: str, code: str, /, **slots: Any) -> str:
    """Text of words.toml with its slots filled."""
    return str(read_toml(WORDS)[room][code]).format(**slots)


def score_cell(mean: Mean) -> str:
    """Format a mean with its interval, if it has one.

    >>> score_cell(Mean(0.5, 0.4, 0.6))
    '0.500 [0.400, 0.600]'
    """
    ends = f" [{mean.low:.3f}, {mean.high:.3f}]"
    return f"{mean.mean:.3f}" + ends * (mean.low < mean.high)


def difference_cell(d: Difference | None) -> str:
    """Format a difference with its interval, if it has one."""
    if d is None:
        return "–"
    return f"{d.mean:+.3f}" + f" [{d.low:+.3f}, {d.high:+.3f}]" * (d.low == d.low)


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
    chance = f"; one class always: F1 {data.chance['f1']:.3f}"
    runs = f"seeds {data.seeds} × folds {data.folds}"
    return f"{title(data)}, {data.inputs}: mean [95% interval], {runs}{positive}{chance}"


# Sentences


def fill_verdict(
    room: str, code: str, summary: Summary, data: DatasetSummary, d: Difference | None, **own: Any
) -> dict[str, str]:
    """Meaning and action of a verdict on a difference or a dataset."""
    slots = own | {"d": d, "find": summary.find, "longer": data.longer, "more": ""}
    if d is not None:
        slots["more"] = words("more", "data" if d.needed is None else d.over, needed=d.needed)
    texts = read_toml(WORDS)[room][code]
    return {key: texts.get(key, "").format(**slots) for key in ("meaning", "action")}


def conclude_all(summary: Summary) -> str:
    """Conclusion on all encodings, with the best, and those with training cut short."""
    parts, left_out = [f"{summary.verdict.upper()}."], dict(summary.left_out)
    if len(summary.datasets) == 1:
        parts, left_out = [conclude_dataset(summary, summary.datasets[0])], {}
    elif summary.best:
        slots = leaders(summary, "{} {:.2f}") | {"rank": summary.ranks[summary.best[0]]}
        parts.append(words("ranks", summary.verdict, over=summary.over, **slots))
    else:
        groups: dict[str, list[str]] = {}
        for d in summary.datasets:
            name = d.dataset + f" ({', '.join(d.best)})" * bool(d.worse)
            groups.setdefault(d.verdict, []).append(name)
            left_out |= d.left_out
        for code, names in groups.items():
            parts.append(words("each", code, names="; ".join(names), find=summary.find))
    parts.append(left_out_sentence(left_out, {}))
    cut = [data for data in summary.datasets if data.cut_short]
    if cut and (len(summary.datasets) > 1 or summary.verdict != "cut short"):
        where = "; ".join(f"{data.dataset}: {', '.join(data.cut_short)}" for data in cut)
        parts.append(words("sentences", "cut", where=where, longer=cut[-1].longer))
    return " ".join(filter(None, parts))


def conclude_dataset(summary: Summary, data: DatasetSummary) -> str:
    """Conclusion on a dataset, with the best encoding and those not compared."""
    f1 = {e: f" {scores['f1'].mean:.3f}" for e, scores in data.scores.items()}
    over = next((d.over for d in data.differences.values()), "folds")
    slots = {"dataset": words("over", over, dataset=data.dataset), "pair": data.pair}
    slots |= leaders(data, "{} {:+.3f}") | {"f1": f1.get("".join(data.best[:1]))}
    filled = fill_verdict("all", data.verdict, summary, data, data.shortage, **slots)
    parts = [f"{data.verdict.upper()}.", *filled.values(), left_out_sentence(data.left_out, f1)]
    return " ".join(filter(None, parts))


def leaders(decision: Decision, form: str) -> Fields:
    """Texts for the best encoding of a decision, its ties, and worse encodings with numbers."""
    ties, worse = decision.best[1:], decision.worse.items()
    slots = {"best": "".join(decision.best[:1]), "ties": join(ties) if ties else ""}
    return slots | {"worse": ", ".join(form.format(*one) for one in worse)}


def left_out_sentence(left_out: Mapping[str, str], f1: Mapping[str, str]) -> str:
    """Sentence on encodings that are not compared, with their scores and the reason."""
    names = ", ".join(f"{e}{f1.get(e, '')} ({why})" for e, why in left_out.items())
    return words("sentences", "left out", names=names) if names else ""


# Tables


def answer_table(summary: Summary) -> Table:
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
    head, body = ["encoding", "P / R / F1", "AUPRC", *less, "Holm p", "verdict"], []
    for e, scores in data.scores.items():
        d = data.differences.get(e)
        row = [e, triple_cell(data, e), f"{scores['auprc'].mean:.3f}"]
        row += [d.reference if d else "–"] * several + [difference_cell(d)]
        body.append([*row, number(d.p_holm, 2) if d else "–", data.verdicts.get(e, "–")])
    return scores_title(data), [head, *body]


def tables(summary: Summary) -> list[Table]:
    """Titles and rows of all tables: Table 1, intervals and differences by dataset, ranks."""
    encodings = list(dict.fromkeys(e for data in summary.datasets for e in data.scores))
    body = [[title(o), *(triple_cell(o, e) for e in encodings)] for o in summary.datasets]
    entries = [("", [["P / R / F1", *encodings], *body])]
    entries += [entry for data in summary.datasets for entry in tables_of(data)]
    if summary.ranked:
        ordered = sorted(summary.ranks.items(), key=lambda item: item[1])
        body = [[e, f"{rank:.2f}"] for e, rank in ordered]
        entries.append((f"average ranks by F1 {summary.over}", [["encoding", "rank"], *body]))
    return entries


def tables_of(data: DatasetSummary) -> list[Table]:
    """Tables of a dataset: scores, differences, scores at other lengths, terms, chosen settings."""
    name, longer = title(data), [row.length for row in next(iter(data.lengths.values()), ())]
    over = next((f"{d.units} {d.over}" for d in data.differences.values()), "")
    heads = {
        scores_title(data): [CAPTIONS.get(measure, measure) for measure in MEASURES],
        f"{name}, differences over {over}": DIFFERENCES,
        f"{name}, trained on {data.length} rows: F1 / accuracy by length": [data.length, *longer],
        f"{name}, shares of terms in the variance of first-layer scores": TERMS,
        f"{name}, chosen on validation": ["setting", "value", "runs"],
    }
    bodies = [
        [[e, *map(score_cell, scores.values())] for e, scores in data.scores.items()],
        [difference_row(data, e) for e in data.differences],
        [length_row(data, e) for e in data.lengths],
        [[e, *(f"{share:.2f}" for share in shares)] for e, shares in data.terms.items()],
        [[e, *map(str, row.values())] for e, rows in data.chosen.items() for row in rows],
    ]
    return [
        (caption, [["encoding", *map(str, head)], *body])
        for (caption, head), body in zip(heads.items(), bodies, strict=True)
        if body
    ]


def difference_row(data: DatasetSummary, encoding: str) -> list[str]:
    """Verdict on a difference from the reference, with its numbers."""
    d = data.differences[encoding]
    tests = [number(d.p, 2), number(d.p_holm, 2), f"{d.better:.2f}", number(d.needed)]
    auprc = difference_cell(data.auprc_differences[encoding])
    return [encoding, d.reference, data.verdicts[encoding], difference_cell(d), *tests, auprc]


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
    codes = {code for data in summary.datasets for code in data.verdicts.values()}
    one_fold = any(data.folds == 1 and data.differences for data in summary.datasets)
    conditions = {"test": codes, "one fold": one_fold, "too few": "too few" in codes}
    entries = [words("notes", c, find=summary.find) for c, holds in conditions.items() if holds]
    if summary.ranked:
        groups = "; ".join(map(", ".join, summary.cliques)) or "none"
        slots = {"over": summary.over, "cliques": groups, "reach": summary.out_of_reach}
        entries.append(words("notes", "ranks", **slots))
    for data in summary.datasets:
        lines = [words("notes", "leaky")] if data.leaky else []
        for name, count in data.diverged.items():
            lines.append(words("notes", "diverged", encoding=name, count=count))
        rows = [(name, row) for name, lengths in data.lengths.items() for row in lengths]
        lines += [words("notes", "untested", name=e, row=row) for e, row in rows if row.reason]
        entries += [f"{data.dataset}: {line}" for line in lines]
    return entries


# Forms


def summary_page(summary: Summary) -> Page:
    """Page of `pefourier train`."""
    return Page(
        "train",
        words=lambda: tables_in_words([answer_table(summary)]),
        records=lambda: json_records(summary),
        rows=lambda: flattened(json_records(summary)),
        conclusion=lambda: paragraph(printable(conclude_all(summary))),
        together=lambda: conclude_all(summary),
    )


def all_words(summary: Summary) -> str:
    """All tables and notes in words, for an HTML page."""
    notes = "".join(paragraph(printable(line)) for line in sentences(summary))
    return f"{tables_in_words(tables(summary))}\n{notes}"


def tables_in_words(entries: Iterable[Table]) -> str:
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
    verdict = fill_verdict("verdicts", code, summary, data, d)
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
        **{key: getattr(data, key).get(name) for key in OF_ENCODINGS},
        "lengths": [asdict(row) for row in data.lengths.get(name, ())],
        "chosen": data.chosen.get(name, []),
        **{key: getattr(data, key).get(name, 0) for key in ("diverged", "last_kept")},
        "cut_short": name in data.cut_short,
        "average_rank": summary.ranks.get(name),
    }
