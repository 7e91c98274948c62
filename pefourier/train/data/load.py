"""The data that a name or a path stands for, as a `Task`.

The names of tasks that are drawn, or published and read under --data, ``uea:NAME`` (UCR and
UEA sets through the package aeon), a folder or file of .ts, .npz of arrays, and .csv in long form.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from pefourier.encodings.checks import check_count
from pefourier.errors import PefourierError, shown, unknown
from pefourier.train.data import split
from pefourier.train.data.examples import DEFAULTS, from_examples, from_ts
from pefourier.train.data.split import Task
from pefourier.train.data.synthetic import draw_examples, sides_of_task
from pefourier.train.options import PUBLISHED, SYNTHETIC, Options

MOST_RESAMPLES = 1000
BALANCED = 0.4  # share of the rarer of two classes from which on neither is the positive one


def load_task(name: str, options: Options = DEFAULTS) -> Task:
    """The task that a name or path stands for, cut and split as options say."""
    if options.columns is not None and Path(name).suffix.lower() != ".csv":
        raise PefourierError(f"--columns is for .csv files; {shown(name)} is none")
    if options.resamples is not None:
        check_count("--resamples", options.resamples, 1, MOST_RESAMPLES)
    task, folds = find_task(name, options), options.folds
    if options.resamples is not None and not task.has_test_part:
        raise PefourierError(
            f"--resamples needs a published test part and --split blocks; {shown(name)} has not "
            "got them: name uea:NAME, a .ts folder or a .npz of X_train, y_train, X_test and y_test"
        )
    if folds is not None and not 1 <= folds <= len(task.folds):
        raise PefourierError(f"--folds must be from 1 to {len(task.folds)} for {name}; got {folds}")
    return replace(task, folds=task.folds[:folds])


def name_positives(tasks: Sequence[Task], names: Sequence[str]) -> list[Task]:
    """Tasks of two classes whose second is the positive one: a named one, or the rarer."""
    classes = {label for task in tasks if len(task.classes) == 2 for label in task.classes}
    if names and not classes:
        raise PefourierError(
            f"--positive {shown(names[0])} needs a dataset of two classes, and {tasks[0].name} has "
            f"{len(tasks[0].classes)}, whose scores are means over all; leave it out"
        )
    for name in names:
        if name not in classes:
            raise unknown("class of --positive", name, classes)
    return [name_positive(task, names) for task in tasks]


def name_positive(task: Task, names: Sequence[str]) -> Task:
    """A task whose second class is the positive one; more classes, or two balanced, have none."""
    if len(task.classes) != 2:
        return task
    chosen = [name for name in task.classes if name in names]
    if len(chosen) > 1:
        raise PefourierError(f"{task.name}: --positive names both of its classes; name one")
    counts = np.bincount(task.labels, minlength=2)
    balanced = not chosen and task.own_names and counts.min() >= BALANCED * counts.sum()
    flip = chosen == [task.classes[0]] if chosen else task.own_names and counts[0] < counts[1]
    if flip and not balanced:
        task = replace(task, classes=task.classes[::-1], labels=1 - task.labels)
    return replace(task, balanced=balanced)


def find_task(name: str, options: Options) -> Task:
    """The task with all of its folds."""
    check_dataset(name)
    suffix = Path(name).suffix.lower()
    if name in PUBLISHED:
        from pefourier.train.data import recordings

        series = recordings.read_recordings(name, options.data)
        return split.split_series(name, series, *options.cut, recordings.SOURCES[name].blocks)
    if suffix == ".npz":
        from pefourier.train.data.archives import from_archive

        return from_archive(Path(name), options)
    if suffix == ".csv":
        from pefourier.train.data.tables import from_csv

        return from_csv(Path(name), options)
    if name.partition(":")[0] in SYNTHETIC:
        x, y, classes = draw_examples(name)
        task = from_examples(name, x, y, options, classes=classes)
        # fresh draws are as good as folds
        return replace(task, folds=task.folds[:1], grid=sides_of_task(name))
    return from_ts(name, options)


def check_dataset(name: str) -> None:
    """Refuse a name that neither a dataset nor a file of examples can have."""
    is_file = Path(name).suffix.lower() in (".npz", ".csv", ".ts") or (name and Path(name).is_dir())
    if name.partition(":")[0] in (*SYNTHETIC, "uea") or name in PUBLISHED or is_file:
        return
    datasets = [*SYNTHETIC, *PUBLISHED, "uea:NAME"]
    files = "a .npz or .csv file, a .ts folder"
    raise unknown("dataset", name, datasets, f"Known: {', '.join(datasets)}, {files}.")
