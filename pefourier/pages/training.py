"""HTML page about a folder of `pefourier train --out`.

Nothing is trained and no data are read: runs come from results.jsonl and options from config.json,
and both are checked first. The page shows the same answer as `pefourier train`.
"""

from dataclasses import fields
from functools import partial
from pathlib import Path

import numpy as np

from pefourier.errors import PefourierError, command_line, shown
from pefourier.pages.document import (
    PagePart,
    PageSection,
    document,
    explanations,
    figure,
    page_written,
)
from pefourier.report import training_figures
from pefourier.train.options import BESIDE, Options, flag_of
from pefourier.train.report import all_words, summary_page
from pefourier.train.statistics import Summary, common_runs, rows_by, summarize_runs
from pefourier.train.store import (
    RULES,
    Store,
    earlier_options,
    read_configuration,
    stored_options,
)
from pefourier.types import Texts, Values, frozen
from pefourier.writing.page import Page
from pefourier.writing.text import parts_of_words, printable

COSTS = (
    "Seconds are training time divided by the runs that were trained together, so they compare "
    "encodings of one kind on one device."
)


@frozen
class TrainFolder:
    """Content of a folder of `pefourier train`."""

    path: str
    config: Values
    summary: Summary


def read_train_folder(path: str) -> TrainFolder:
    """Read and check a folder of `pefourier train`."""
    config = read_configuration(Path(path) / "config.json")
    order = {name: place for place, name in enumerate([*config["dataset"], *config["encoding"]])}
    rows = sorted(  # in the order of the options, not of completion
        Store(Path(path)).rows(),
        key=lambda row: [order.get(row[key], len(order)) for key in ("dataset", "encoding")],
    )
    lacking = [name for name, of in rows_by("dataset", rows).items() if not common_runs(of)[0]]
    if lacking or not rows:
        raise PefourierError(
            f"{shown(path)}: no seed and fold of {shown((lacking or config['dataset'])[0])} is "
            "finished for every encoding yet; continue training with --resume"
        )
    names = {option.name for option in fields(Options)} | RULES.keys() - {"dataset", "encoding"}
    training = {name: value for name, value in config.items() if name in names}
    return TrainFolder(path, config, summarize_runs(rows, training=training))


def folder_document(folder: TrainFolder, title: str = "") -> str:
    """Make the page about a folder."""
    summary = folder.summary
    answer, numbers = summary_page(summary), parts_of_words(partial(all_words, summary))
    listed = [(of["spec"], of["meaning"]) for of in answer.records() if of["meaning"]]
    names = [cell for part in numbers if not isinstance(part, str) for cell in part[0]]
    pictures = [
        figure(draw, summary, training_figures.CAPTIONS[name])
        for name, draw in training_figures.pictures(summary).items()
    ]
    sections: list[PageSection] = [
        ("Which encoding", parts_of_words(answer.conclusion)),
        ("How sure", [{"listed": listed}]),
        ("What it costs", [costs(summary), COSTS]),
        ("Pictures", pictures),
        (
            "Numbers",
            [
                {"summary": "All scores and differences", "inside": numbers},
                explanations(names, ("train",)),
            ],
        ),
        ("How these numbers were made", settings_part(folder)),
    ]
    datasets = ", ".join(printable(dataset.dataset) for dataset in summary.datasets)
    title = title or f"Which encoding classifies better: {datasets}"
    lead = f"The paper's classifier: {len(summary.runs)} runs, in the folder {folder.path}."
    return document(title, lead, sections)


def costs(summary: Summary) -> list[Texts]:
    """Table of the seconds of a run of each encoding, and of its steps until the kept weights."""
    rows: list[Texts] = [
        ("dataset", "encoding", "seconds of a run", "steps until the best weights")
    ]
    for name, of in rows_by("dataset", summary.runs).items():
        for encoding, runs in rows_by("encoding", of).items():
            means = [float(np.mean([run[key] for run in runs])) for key in ("seconds", "step")]
            rows.append((name, encoding, f"{means[0]:.2f}", f"{means[1]:.0f}"))
    return rows


def settings_part(folder: TrainFolder) -> list[PagePart]:
    """Commands, settings and versions of a folder."""
    trained = [("program", "version"), *folder.config.get("versions", {}).items()]
    gone = [f"{name} {value}" for name, value in earlier_options(folder.config).items()]
    earlier = f"Trained with options of an earlier version: {', '.join(gone)}." if gone else ""
    return [
        {"command": training_command(folder.config, folder.path)},
        *([printable(earlier)] if earlier else []),
        {"command": command_line("pefourier", "report", folder.path)},
        {"summary": "Versions used in training", "inside": [trained]},
    ]


def training_command(config: Values, path: str) -> str:
    """Return the command of a folder, with options that differ from their defaults."""
    words, usual = ["pefourier", "train"], vars(Options())
    for name, value in vars(stored_options(config)).items():
        if name == "device" or value == usual[name]:
            continue
        flag = flag_of(name)
        values = value if isinstance(value, tuple) else [value]
        pairs = [(flag_of("beside") if v in BESIDE else flag, str(v)) for v in values]
        words += [flag] if value is True else [word for pair in pairs for word in pair]
    return command_line(*words, "--out", path)


def folder_page(folder: TrainFolder, out: str) -> Page:
    """Answer of `pefourier report DIR`."""
    return page_written([*summary_page(folder.summary).records()], out)
