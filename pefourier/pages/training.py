"""What did training in a folder show? One page of HTML about what `pefourier train --out` left.

Nothing is trained and no data is read: runs come from results.jsonl, what they were asked from
config.json, and both are checked before they are believed.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from pefourier.answers import training_figures
from pefourier.answers.terms import Term, read_terms
from pefourier.errors import PefourierError, shown
from pefourier.pages.document import (
    Chapter,
    Markup,
    Words,
    command,
    details,
    document,
    element,
    scroll_box,
    table,
    value_cell,
)
from pefourier.pages.encodings import page_written, report_page, versions_table
from pefourier.pages.inline_svg import INLINE_WIDE, draw_inline
from pefourier.train.options import BESIDE, Options, flag_of, help_of, seeds_of
from pefourier.train.report import (
    conclude_datasets,
    json_records,
    remarks_on_cuts,
    sentences,
    tables,
    three_decimals,
)
from pefourier.train.report import words as words_of
from pefourier.train.statistics import average_ranks
from pefourier.train.store import NOT_NUMBERS, Store, option_of, read_configuration
from pefourier.train.summary import DatasetSummary, Summary, common_runs, count_arms, summarize_runs
from pefourier.train.traces import read_curves
from pefourier.writing.escapes import printable
from pefourier.writing.page import Page
from pefourier.writing.text import agreeing, join

RULES = ("choice", "size")  # of training, in words
SHADES = 4  # of the matrix
SIDE_BY_SIDE = 3  # datasets that a narrow screen has room for
UNRECORDED = "Not recorded are where data lie (--data) and what changes no score:"
ELSEWHERE = {
    "data",
    "out",
    "plot",
    "resume",
    "device",
}  # options that a command on a machine repeats


@dataclass(frozen=True)
class TrainFolder:
    """What a folder of `pefourier train` holds."""

    path: str
    config: Mapping[str, Any]
    summary: Summary


def read_train_folder(path: str) -> TrainFolder:
    """Read and check a folder; only runs that were asked last count."""
    config = read_configuration(Path(path) / "config.json")
    rows = [row for row in Store(Path(path)).rows() if was_asked(row, config)]
    if not rows:
        raise PefourierError(f"{shown(path)} has no finished run; go on training with --resume")
    check_common_runs(path, rows)
    for row in rows:
        classes = len(config.get("windows", {}).get(row["dataset"], ()))
        if len(row["confusion"]) != classes:
            raise PefourierError(
                f"{shown(path)}: the confusion of a run of {shown(row['dataset'])} is not of the "
                f"{classes} classes of config.json; delete the line to have it trained again"
            )
    return TrainFolder(path, config, summarize_runs(rows, training=common_settings(config)))


def common_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """What all runs of a folder have in common, options and rules."""
    names = [one.name for one in fields(Options) if one.name not in ("dataset", "encoding")]
    return {name: config[name] for name in (*names, *RULES) if name in config}


def was_asked(row: Mapping[str, Any], config: Mapping[str, Any]) -> bool:
    """Whether a run is one of those that the folder was asked for last.

    >>> config = {"dataset": ["order"], "encoding": ["dft"], "seeds": 2, "match_rms": [0.5]}
    >>> rows = [("dft", 0), ("dft@rms=0.5", 1), ("dft", 2), ("rope", 0)]
    >>> [was_asked({"dataset": "order", "encoding": e, "seed": s}, config) for e, s in rows]
    [True, True, False, False]
    """
    spec, _, size = row["encoding"].partition("@rms=")
    encodings, sizes = option_of(config, "encoding"), option_of(config, "match_rms")
    scaled = spec in encodings and size in (f"{rms:g}" for rms in sizes)
    named = row["encoding"] in encodings
    seeds = seeds_of(row["encoding"], option_of(config, "seeds"))
    asked = row["dataset"] in option_of(config, "dataset") and row["seed"] < seeds
    return asked and (named or scaled)


def check_common_runs(path: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Refuse runs that cannot be compared: every encoding needs one that all others have."""
    for dataset in {row["dataset"] for row in rows}:
        if not common_runs([row for row in rows if row["dataset"] == dataset])[0]:
            raise PefourierError(
                f"{shown(path)}: no seed and fold of {shown(dataset)} is finished for every "
                "encoding yet; go on training with --resume"
            )


def folder_document(
    folder: TrainFolder,
    title: str = "",
    beside: Callable[[Words], Sequence[Chapter]] | None = None,
) -> str:
    """The page about a folder, and about encodings `beside` it."""
    words = Words([*read_terms(), *map(option_term, fields(Options))])
    datasets = names_of_datasets(folder.summary)
    many = len(datasets) > SIDE_BY_SIDE
    arms = count_arms({row["encoding"] for row in folder.summary.runs})
    runs = f"{len(folder.summary.runs)} runs, in the folder {printable(folder.path)}"
    on = f" on {join(one.dataset for one in folder.summary.datasets)}" if many else ""
    lead = f"The paper's classifier with {arms}{on}: {runs}."
    parts = [
        Chapter("conclusions", "Conclusions", training_conclusions(folder.summary, words)),
        Chapter("scores", "Scores and differences", scores_part(folder.summary, words)),
        Chapter("curves", "How training went", curves_part(folder, words)),
        Chapter("made", "How these numbers were made", settings_part(folder, words, not beside)),
    ]
    for one in beside(words) if beside else ():
        heading = f"Encodings: {one.heading[0].lower()}{one.heading[1:]}"
        parts.append(Chapter(f"encodings-{one.name}", heading, one.inside))
    told = f"{len(datasets)} datasets" if many else ", ".join(datasets.values())
    title = title or f"Which encoding classifies better: {told}"
    return document(title, element("p", lead, class_="quiet"), parts, words)


def names_of_datasets(summary: Summary) -> dict[str, str]:
    """What datasets are called where there is little room: without a source that all have."""
    specs = [one.dataset for one in summary.datasets]
    sources = {spec.partition(":")[0] + ":" for spec in specs}
    alike = sources.pop() if len(specs) > 1 == len(sources) else ""
    return {spec: spec.removeprefix(alike) for spec in specs}


def briefly(text: str, summary: Summary) -> str:
    """Words about datasets with what they are called; the lead of the page has their source."""
    for spec, name in names_of_datasets(summary).items():
        text = text.replace(spec, name)
    return text


def training_conclusions(summary: Summary, words: Words) -> list[Any]:
    """The verdict, what was cut short, the matrix, what each dataset says; folded: how to read."""
    verdict, *each = [briefly(line, summary) for line in conclude_datasets(summary)]
    cuts = [briefly(line, summary) for line in remarks_on_cuts(summary)]
    cuts = [element("p", line, class_="warning") for line in cuts]
    told = [with_strong_start(line, ": ") for line in each]
    told = [details("Dataset by dataset", told, class_="printed")] if len(told) > 2 else told
    remarks = element("ul", [element("li", line) for line in sentences(summary)])
    keep = details("What to keep in mind", remarks)
    return [with_strong_start(verdict, ". "), *cuts, rank_matrix(summary, words), *told, keep]


def with_strong_start(line: str, end: str) -> Markup:
    """A paragraph that begins with a verdict or a name."""
    start, _, rest = line.partition(end)
    return element("p", element("strong", f"{start}{end}"), rest)


def rank_matrix(summary: Summary, words: Words) -> Markup:
    """Mean F1 of encodings (rows, the best first) on datasets, coloured by rank, which is told."""
    ranks = {one.dataset: ranks_of(one) for one in summary.datasets}
    called = names_of_datasets(summary)
    order = summary.ranks if summary.ranked else next(iter(ranks.values()))
    names = {e: None for one in summary.datasets for e in one.scores}
    names = sorted(names, key=lambda e: order.get(e, len(names) + 1))
    head = ["encoding", *["mean rank"] * summary.ranked, *called.values()]
    texts = [f"{order[e]:.2f}" if e in order else "–" for e in names]
    rows = [
        element(
            "tr",
            element("th", name, scope="row"),
            element("td", text, data_head="mean rank") if summary.ranked else None,
            [
                rank_cell(one, name, ranks[one.dataset], called[one.dataset])
                for one in summary.datasets
            ],
        )
        for name, text in zip(names, texts, strict=True)
    ]
    told = words_of("notes", "matrix", reference=summary.reference)
    if summary.others:
        told += f" {join(summary.others)}: other models, without encodings."
    heads = [element("th", words.term(name, ["train"]), scope="col") for name in head]
    inside = (element("thead", element("tr", heads)), element("tbody", rows))
    many = " stacked" if len(ranks) > SIDE_BY_SIDE else ""
    found = element("table", element("caption", element("span", told)), inside)
    return scroll_box(found, "F1 by rank", f" matrix{many}")


def ranks_of(one: DatasetSummary) -> dict[str, float]:
    """The rank of each encoding on a dataset, 1 the highest mean F1; equal ones share theirs."""
    means = np.array([[scores["f1"].mean for scores in one.scores.values()]])
    return dict(zip(one.scores, average_ranks(means).tolist(), strict=True))


def rank_cell(one: DatasetSummary, name: str, ranks: Mapping[str, float], called: str) -> Markup:
    """An encoding's mean F1 on a dataset, its rank, and a mark where the data tell it apart."""
    if name not in ranks:
        return element("td", "–", data_head=called)
    mean, d = one.scores[name]["f1"].mean, one.differences.get(name)
    mark, said = "", ""
    if name in one.cut_short:
        mark, said = "†", "cut short"
    elif d is not None and one.verdicts[name] in ("better", "worse"):
        mark = "▲" if d.mean > 0 else "▼"
        said = f"{one.verdicts[name]} than {d.reference}"
    shade = int((ranks[name] - 1) / max(len(ranks) - 1, 1) * SHADES)
    marked = element("span", mark, title=said, role="img", aria_label=said) if mark else None
    small = element("small", f" {ranks[name]:g}")
    exact = element("data", three_decimals(mean), value=repr(mean))
    inside = element("span", marked, exact, small)
    return element("td", inside, class_=f"rank-{shade}", data_head=called)


def scores_part(summary: Summary, words: Words) -> list[Any]:
    """Every run's F1, tables of means and differences, and what to keep in mind."""
    told = "F1 of every run (dots), and each encoding's mean (diamonds) with its interval "
    told += "over runs: of 95 %, of few runs their range, as the axis says."
    pictures = [draw_inline("comparison", told, training_figures.comparison, summary)]
    if summary.ranked:
        told = "Average rank of each encoding; bars join those without a significant difference."
        pictures.append(draw_inline("ranks", told, training_figures.critical_difference, summary))
    shown = "Pictures of every run and of ranks" if summary.ranked else "Picture of every run"
    found = [details(shown, element("div", pictures, class_="figures"), open="")]
    if summary.lengthened:
        told = "Accuracy on test windows of other lengths, with 95 % intervals over runs."
        drawn = draw_inline("lengths", told, training_figures.score_by_length, summary, INLINE_WIDE)
        found.append(details("Accuracy by length", drawn, open=""))
    for what, (head, *rows) in tables(summary):
        what = briefly(what, summary) or f"Precision, recall and F1 of {', '.join(head[1:])}"
        found.append(details(what, stacked(what, head, rows, words), class_="printed"))
    return found


def stacked(what: str, head: Sequence[str], rows: Sequence[Sequence[Any]], words: Words) -> Markup:
    """A table whose rows become lists where the screen is too narrow for it."""
    heads = [words.term(name, ["train"]) for name in head]
    return element("div", table(what, heads, rows), class_="stacked")


def curves_part(folder: TrainFolder, words: Words) -> list[Any]:
    """How runs learned, look by look where that is stored, and which weights they kept."""
    runs = folder.summary.runs
    kept = read_curves(Path(folder.path), runs)
    steps = details("Steps that were kept", steps_table(folder.summary, words))
    if not kept:
        said = "Losses are not in the folder; the step whose weights each run kept is."
        return [element("p", said), steps]
    told = "Means over runs, look by look: training loss, score and loss on validation."
    curves = training_figures.learning_curves
    drawn = draw_inline("curves-drawn", told, curves, kept, INLINE_WIDE)
    lacking = len(runs) - len(kept)
    has = agreeing(lacking, "has", "have")
    said = f"{lacking} of {len(runs)} runs {has} no stored curve." if lacking else ""
    more = element("p", said) if said else None
    return [details("Learning curves", drawn, more, open=""), steps]


def steps_table(summary: Summary, words: Words) -> Markup:
    """Whose steps' weights runs kept."""
    rows = []
    for one in summary.datasets:
        for name in one.scores:
            key = one.dataset, name
            own = [run for run in summary.runs if (run["dataset"], run["encoding"]) == key]
            steps = sorted(run["step"] for run in own)
            seconds = sum(run["seconds"] for run in own) / len(own)
            numbers = (len(own), steps[0], steps[len(steps) // 2], steps[-1], seconds)
            rows.append([one.dataset, name, *map(value_cell, numbers)])
    head = ["dataset", "encoding", "runs", "first step kept", "middle", "last", "seconds a run"]
    return stacked("Steps that were kept", head, rows, words)


def datasets_table(folder: TrainFolder, words: Words) -> Markup:
    """What was trained on."""
    rows, leaky = [], " (leaky: neighbours of test windows were trained on)"
    for one in folder.summary.datasets:
        windows = " / ".join(map(str, folder.config.get("windows", {}).get(one.dataset, ()))) or "–"
        split = one.split + leaky * one.leaky
        rows.append([one.dataset, one.length, windows, split, one.seeds, one.folds])
    head = ["dataset", "length", "windows of each class", "split", "seeds", "folds"]
    return stacked("Datasets", head, rows, words)


def settings_part(folder: TrainFolder, words: Words, alone: bool) -> list[Any]:
    """Settings, the commands and the versions."""
    common = common_settings(folder.config)
    common.pop("data", None)  # where data lie is not stored; the sums of its numbers are
    trained = table(
        "Versions that trained", ["program", "version"], folder.config.get("versions", {}).items()
    )
    return [
        details("Datasets", datasets_table(folder, words)),
        settings_table(common, words),
        element("p", f"{UNRECORDED} {', '.join(unrecorded())}."),
        command(command_line(folder.config, folder.path), "This command asks for the same runs"),
        command(shlex.join(["pefourier", "report", folder.path]), "This page comes from")
        if alone
        else None,
        details("Versions", trained, versions_table()),
    ]


def settings_table(settings: Mapping[str, Any], words: Words) -> Markup:
    """What all runs have in common."""
    groups = ["options", "train"]
    rows = [[words.term(n, groups), setting_in_words(value)] for n, value in settings.items()]
    found = table("Settings", ["setting", "value"], rows)
    return details("Settings that all runs have in common", found)


def option_term(option: Any) -> Term:
    """What an option of training means: its help."""
    return Term(option.name, "options", help_of(option.name)["help"])


def setting_in_words(value: Any) -> str:
    """A setting as a person reads it."""
    if value is None:
        return "by default"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return (", ".join(map(str, value)) or "none") if isinstance(value, list) else str(value)


def command_line(config: Mapping[str, Any], path: str) -> str:
    """The options that a folder was asked last, where they are not those that nobody gives."""
    words = ["pefourier", "train"]
    for one in fields(Options):
        value = option_of(config, one.name)
        if one.name in ELSEWHERE or value == option_of({}, one.name):
            continue
        flag = flag_of(one.name)
        values = value if isinstance(value, list) else [value]
        pairs = [(flag_of("beside") if v in BESIDE else flag, str(v)) for v in values]
        words += [flag] if value is True else [word for pair in pairs for word in pair]
    return shlex.join([*words, "--out", path])


def unrecorded() -> list[str]:
    """Options that may have been given, and that no folder knows of."""
    kept = {"data", "beside", "out", "plot"}  # told elsewhere
    return [flag_of(f.name) for f in fields(Options) if f.name in NOT_NUMBERS - kept]


def folder_page(folder: TrainFolder, out: str, asked: Sequence[Any] = ()) -> Page:
    """The answer of `pefourier report DIR`, with encodings that were asked about, too."""
    own = report_page(asked, out)
    return replace(
        page_written([*json_records(folder.summary), *own.records()], out), words=own.words
    )
