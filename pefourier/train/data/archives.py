"""Examples or a labelled series in a user's .npz.

X (n, length, channels) with y (n,) and maybe `groups` and `lengths` (n,), the same in parts
X_train, y_train, X_test and y_test, or a labelled series: `rows` (n, channels) with `label` (n,)
and maybe `train`.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from pefourier.encodings.sources.tables import names_and_shapes, open_arrays
from pefourier.errors import PefourierError
from pefourier.train.data import recordings, split
from pefourier.train.data.examples import fill_missing, from_examples
from pefourier.train.data.split import Task
from pefourier.train.options import Options

SIDES = ("train", "test")
PARTS = tuple(f"{name}_{side}" for name in "Xy" for side in SIDES)
TEXTS = ("y", "groups", "y_train", "y_test", "label")  # may hold names


def from_archive(path: Path, options: Options) -> Task:
    """Examples X, y or a labelled series from a user's .npz."""
    with open_arrays(str(path), ".npz", regular=True) as file:
        stored = file.arrays
        kinds = [kind for kind in KINDS if set(kind[1]) <= stored.keys()]
        if not kinds:
            raise PefourierError(
                f"{path} holds {names_and_shapes(stored)}; expected X and y, or rows and label "
                "(and train, for the scale), or X_train, y_train, X_test and y_test"
            )
        make, required, optional = kinds[0]
        used = [name for name in stored if name in (*required, *optional)]
        arrays = {name: recordings.load_part(file, name, text=name in TEXTS) for name in used}
    unused = tuple(stored[name].label(name) for name in stored if name not in used)
    return replace(make(path, arrays, options), unused=unused)


def own_examples(path: Path, arrays: dict[str, np.ndarray], options: Options) -> Task:
    """A user's examples X (n, length, channels) with classes y, and maybe groups and lengths."""
    groups, lengths = arrays.get("groups"), arrays.get("lengths")
    x, y = arrays["X"], arrays["y"]
    task = from_examples(str(path), x, y, options, groups=groups, lengths=lengths)
    return replace(task, grouped_by="an array called groups")


def own_parts(path: Path, arrays: dict[str, np.ndarray], options: Options) -> Task:
    """A user's X_train, y_train, X_test and y_test: tested on that part."""
    x, y = ([arrays[f"{name}_{side}"] for side in SIDES] for name in "Xy")
    sizes = [labels.shape == data.shape[:1] for data, labels in zip(x, y, strict=True)]
    if not all(sizes) or x[0].shape[1:] != x[1].shape[1:]:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise PefourierError(
            f"{path}: expected X_train and X_test of shape (n, length, channels), the same but for "
            f"n, y_train and y_test (n,); got {shapes}"
        )
    tested = len(y[1]) if options.split == "blocks" else None
    return from_examples(str(path), np.concatenate(x), np.concatenate(y), options, tested=tested)


def own_series(path: Path, arrays: dict[str, np.ndarray], options: Options) -> Task:
    """A user's recording with a label for each row, scaled by its part `train` where it has one."""
    if "groups" in arrays:
        raise PefourierError(f"{path} holds groups beside rows; groups go with examples X, y")
    name, rows = path.stem, arrays["rows" if "rows" in arrays else "test"]
    label = recordings.truth_values(name, rows, arrays["label"])
    place = partial("{}: row {}, channel {}".format, path)
    rows, complete, filled = fill_missing(rows, options.missing, place)
    if "train" in arrays:
        recording = arrays["train"], rows, label[complete]
        series = recordings.scale_recording(name, recording, 1e-6, name, name)
    else:
        series = recordings.unscaled_series(name, rows, label[complete])
    name, own_scale = str(path), "train" not in arrays
    task = split.split_series(name, [series], *options.cut, own_scale=own_scale, units=(name,))
    return split.count_missing(task, filled, int((~complete).sum()))


KINDS = (  # of archives: who reads them, arrays that must be there, and that may be
    (own_parts, PARTS, ()),
    (own_examples, ("X", "y"), ("groups", "lengths")),
    (own_series, ("rows", "label"), ("train", "groups")),
    (own_series, ("test", "label"), ("train", "groups")),
)
