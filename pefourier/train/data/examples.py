"""Examples of equal length as a `Task`: X with y and optional groups, and .ts sets through aeon.

Shorter series are padded at the end; padding is masked in training and in tests.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from pefourier.encodings.encoding import EVEN
from pefourier.encodings.sources.formats import reads_as_number
from pefourier.errors import PefourierError, shown
from pefourier.train.data import split
from pefourier.train.data.split import Task
from pefourier.train.options import Missing, Options, Split
from pefourier.types import Array, Counts, Strings
from pefourier.writing.text import first_few

DEFAULTS = Options()
LARGEST = 1e30  # of input values: float32 ends at 3e38
FEW_NUMBERS, MOST_NUMBERS = 10, 100  # classes whose names are numbers
NO_REGRESSION = "regression is not supported: write a class for each range of numbers"
NO_AEON = "needs the package aeon; install it with pip install 'pefourier[data]'"


def from_examples(
    name: str,
    x: Array,
    y: Array,
    options: Options = DEFAULTS,
    *,
    classes: Strings = (),
    tested: int | None = None,
    groups: Array | None = None,
    lengths: Array | None = None,
) -> Task:
    """Make a task of examples, shuffled into folds by class; the last `tested` are the test part.

    Rows from `lengths` (n,) on are padding; their values are ignored.

    Independent examples have no neighbours to leak from, so blocks and random split them equally.
    Examples of one of `groups` (n,), a person or a machine, stay on one side except with random.
    """
    if options.window is not None or options.stride is not None:
        raise PefourierError(
            f"--window and --stride are for recordings; {shown(name)} holds examples (set the "
            "length of built-in tasks by name: order:length=24)"
        )
    labels, names = np.zeros(y.shape, int), ["?"]
    if options.predict is None:
        labels, names = read_classes(name, x, y)
    lengths = check_lengths(name, lengths, *x.shape[:2])
    x, lengths, filled, lost = fill_examples(name, x, lengths, options.missing)
    n, length, channels = x.shape
    rows = x.reshape(n * length, channels)
    check_rows(f"{name}, X in rows of {length} an example", rows)
    rows = rows.astype(np.float32)
    starts = np.arange(n) * length
    if options.predict is not None:  # for trained models: nothing is split
        whole = name, options.split, rows, starts, labels, length, tuple(names), ()
        return Task(*whole, lengths=lengths, own_names=True, filled=filled)
    parts = split_examples(name, labels, options, tested, groups)
    row_counts = length if lengths is None else lengths
    leaky = groups is not None and options.split == "random"
    count = 0 if groups is None or leaky else len(np.unique(groups))
    untested = count - len(parts) if 1 < count < split.FOLDS else 0
    folds = tuple(split.make_fold(rows, starts, row_counts, p, own_scale=True) for p in parts)
    own = name, options.split, rows, starts, labels, length, tuple(classes or names), folds
    task = Task(
        *own,
        leaky=leaky,
        has_test_part=tested is not None,
        groups=count if count > 1 else None,
        lengths=lengths,
        own_names=not classes,
        dropped=split.drops({"untested": untested, "one group": int(count == 1), "missing": lost}),
        filled=filled,
    )
    split.check_task(task)
    return task


def check_rows(name: str, rows: Array) -> None:
    """Reject rows that are not finite numbers of shape (n, channels)."""
    if rows.ndim != 2 or 0 in rows.shape or rows.dtype.kind not in "fiub":
        raise PefourierError(
            f"{name}: expected numbers of shape (n, channels), got {rows.dtype} {rows.shape}"
        )
    if rows.dtype.kind != "f":
        return
    wide = rows.astype(np.float32) if rows.dtype.name == "float16" else rows
    bad = np.argwhere(~(np.abs(wide) <= LARGEST))
    if len(bad):
        value = rows[tuple(bad[0])]
        way_out = "scale such values" if np.isfinite(value) else "fill missing values"
        raise PefourierError(
            f"{name}: row {bad[0, 0]}, column {bad[0, 1]} is {value}; {way_out} before training"
        )


def fill_missing(
    rows: Array,
    missing: Missing | None,
    place: Callable[[int, int], str],
    names: Strings = (),
) -> tuple[Array, Array, int]:
    """Fill or drop missing numbers (nan) of a series; also return kept rows and the filled count.

    A missing number at the start of a channel gets the channel's next number. `place` names the
    position of a row and a column in messages, and `names` are those of the columns.

    >>> rows = np.array([[np.nan, 1.0], [2.0, np.nan]])
    >>> fill_missing(rows, "previous", lambda row, column: "")[0].tolist()
    [[2.0, 1.0], [2.0, 1.0]]
    """
    absent = np.isnan(rows) if rows.dtype.kind == "f" else np.zeros(rows.shape, bool)
    complete = np.ones(len(rows), bool)
    if not absent.any():
        return rows, complete, 0
    drops = missing == "drop"
    if missing is None or (absent.any(axis=1).all() if drops else absent.all(axis=0).any()):
        where, counts = place(*np.argwhere(absent)[0].tolist()), absent.sum(axis=0).tolist()
        each = [f"{names[i] if names else i} {n}" for i, n in enumerate(counts) if n]
        raise PefourierError(
            f"{where} is missing ({first_few(each)} of {len(rows)} rows); fill it, or pass "
            "--missing previous, mean or drop if some remain"
        )
    if drops:
        complete = np.logical_not(absent.any(axis=1))
        return rows[complete], complete, 0
    if missing == "mean":
        return np.where(absent, np.nanmean(rows, axis=0), rows), complete, int(absent.sum())
    last = np.maximum.accumulate(np.where(absent, -1, np.arange(len(rows))[:, None]), axis=0)
    last = np.where(last < 0, (~absent).argmax(axis=0), last)
    return np.take_along_axis(rows, last, axis=0), complete, int(absent.sum())


def fill_examples(
    name: str, x: Array, lengths: Array | None, missing: Missing | None
) -> tuple[Array, Array | None, int, int]:
    """Fill or drop missing numbers; return examples, their rows, and filled and dropped counts."""
    if x.dtype.kind != "f" or not np.isnan(x).any():
        return x, lengths, 0, 0
    row_counts = np.full(len(x), x.shape[1]) if lengths is None else lengths
    where = "{}: example {}, row {}, channel {}"
    if missing is None:
        read = np.arange(x.shape[1]) < row_counts[:, None]
        at = np.argwhere(read)
        fill_missing(x[read], None, lambda row, i: where.format(name, *at[row], i))
    series = [
        fill_missing(example[:rows], missing, partial(where.format, name, i))
        for i, (example, rows) in enumerate(zip(x, row_counts, strict=True))
    ]
    x, remaining = padded_series([rows for rows, _, _ in series])
    filled = sum(count for _, _, count in series)
    lengths = check_lengths(name, remaining, *x.shape[:2])
    return x, lengths, filled, int((row_counts - remaining).sum())


def check_lengths(name: str, lengths: Array | None, n: int, length: int) -> Array | None:
    """Check the rows of each example; None if all examples have full length."""
    if lengths is None:
        return None
    if lengths.shape != (n,) or lengths.dtype.kind not in "iu":
        raise PefourierError(
            f"{name}: lengths must be {n} whole numbers, got {lengths.dtype} {lengths.shape}"
        )
    if wrong := lengths[(lengths < 1) | (lengths > length)].tolist():
        raise PefourierError(f"{name}: lengths must be 1 to the {length} rows of X, got {wrong[0]}")
    return None if (lengths == length).all() else lengths.astype(np.int64)


def check_times(name: str, times: Array, shape: Counts, lengths: Array | None = None) -> Array:
    """Check the times (n, length) of the rows of each example; padding repeats the last time.

    >>> check_times("x", np.array([[1, 2, 0]]), (1, 3), np.array([2])).tolist()
    [[1.0, 2.0, 2.0]]
    """
    if times.shape != shape or times.dtype.kind not in "fiu":
        raise PefourierError(
            f"{name}: times must be numbers of shape {shape}, got {times.dtype} {times.shape}"
        )
    last = np.full(len(times), shape[1]) if lengths is None else lengths
    places = np.minimum(np.arange(shape[1]), last[:, None] - 1)
    times = np.take_along_axis(times.astype(float), places, axis=1)
    wrong = ~((np.diff(times) > 0) | (np.diff(places) == 0)) | ~np.isfinite(times[:, 1:])
    if len(rows := np.argwhere(wrong)):
        example, row = rows[0]
        raise PefourierError(
            f"{name}: times must increase; example {example} has {times[example, row]} in row "
            f"{row} and {times[example, row + 1]} in the next"
        )
    return times


def with_times(task: Task, times: Array, steps: Array) -> Task:
    """Add the times of all rows; steps between rows that are 0 are of padding."""
    steps = steps[steps > 0]
    uneven = len(steps) > 0 and bool(np.ptp(steps) > EVEN * steps.mean())
    return replace(task, times=times.ravel(), uneven=uneven)


def read_classes(name: str, x: Array, y: Array) -> tuple[Array, list[str]]:
    """Return the class of each example, counted from 0, and the names of the classes."""
    if x.ndim != 3 or 0 in x.shape or x.dtype.kind not in "fiub" or y.shape != x.shape[:1]:
        raise PefourierError(
            f"{name}: expected X of shape (n, length, channels) and y of shape (n,); "
            f"got {x.dtype} {x.shape} and {y.shape}"
        )
    if y.dtype.kind == "f" and (odd := y[~(np.isfinite(y) & (np.floor(y) == y))].tolist()):
        raise PefourierError(
            f"{name}: y must hold whole numbers or class names, got {odd[0]}; {NO_REGRESSION}"
        )
    found, labels = np.unique(y, return_inverse=True)
    names = [f"{c:.0f}" if y.dtype.kind == "f" else str(c) for c in found]
    check_labels(name, names, len(y))
    if len(names) < 2 or len(names) > len(y) // 2:
        raise PefourierError(
            f"{name}: y has {len(names)} classes in {len(y)} examples; need 2 or more, each several"
        )
    return labels, names


def check_labels(name: str, names: Strings, count: int) -> None:
    """Reject labels of so many numbers that they are measurements."""
    most = min(MOST_NUMBERS, max(FEW_NUMBERS, count // split.FOLDS))
    if len(names) > most and all(map(reads_as_number, names)):
        raise PefourierError(
            f"{name}: {len(names)} classes in {count} labels look like numbers; {NO_REGRESSION}"
        )


def split_examples(
    name: str, labels: Array, options: Options, tested: int | None, groups: Array | None
) -> list[split.Parts]:
    """Split examples: published test part, groups, time order or a shuffle within classes."""
    n = len(labels)
    if groups is not None:
        return split_by_groups(name, labels, options.split, groups)
    if tested is not None:
        drawn = [random_parts(labels, tested, seed) for seed in range(1, options.resamples or 1)]
        return [with_validation(labels, np.arange(n) < n - tested), *drawn]
    if options.split == "chronological":
        train, valid, test = np.split(np.arange(n), [int(share * n) for share in split.SHARES])
        return [(train, valid, test)]
    return split.deal_within_classes(labels)


def split_by_groups(name: str, labels: Array, split_by: Split, groups: Array) -> list[split.Parts]:
    """Split by whole groups; each of two to four is a test part; random ignores groups."""
    if groups.shape != labels.shape or (groups.dtype.kind == "f" and np.isnan(groups).any()):
        raise PefourierError(
            f"{name}: groups must be {len(labels)} names without nan, one for each example, got "
            f"{groups.dtype} {groups.shape}"
        )
    if split_by == "chronological":
        raise PefourierError(f"{name}: {split.GROUPS_IN_TIME}")
    names = np.unique(groups)
    if split_by == "random" or len(names) == 1:
        return split.deal_within_classes(labels)
    if len(names) >= split.FOLDS:
        return split.deal_groups(labels, groups)
    tested = [groups == group for group in names if len(np.unique(labels[groups == group])) > 1]
    if not tested:
        raise PefourierError(f"{name}: each group has one class, {split.NO_GROUP}")
    return [with_validation(labels, ~mask) for mask in tested]


def random_parts(labels: Array, tested: int, seed: int) -> split.Parts:
    """Draw a training part with the class counts of the published one.

    >>> labels = np.array([0, 1] * 10 + [0, 0, 0, 1])
    >>> train, valid, test = random_parts(labels, 4, 1)
    >>> np.bincount(labels[test]), len(train) + len(valid), bool((test < 20).any())
    (array([3, 1]), 20, True)
    """
    rng = np.random.default_rng(seed)
    counts = np.bincount(labels[: len(labels) - tested], minlength=labels.max() + 1)
    learning = np.zeros(len(labels), bool)
    for label, count in enumerate(counts):
        learning[rng.permutation(np.flatnonzero(labels == label))[:count]] = True
    return with_validation(labels, learning)


def with_validation(labels: Array, learning: Array) -> split.Parts:
    """Hold out a fifth of each class of the learning examples (n,) for validation."""
    learned = np.flatnonzero(learning)
    valid = learned[split.deal_within_classes(labels[learned])[0][1]]
    return np.setdiff1d(learned, valid), valid, np.flatnonzero(~learning)


def from_ts(name: str, options: Options) -> Task:
    """Read a UCR or UEA set by name, a folder with NAME_TRAIN.ts and NAME_TEST.ts, or one file."""
    parts = read_ts(name, options.data)
    series = [example for x, _ in parts for example in x]  # each (channels, length)
    channels = {example.shape[0] for example in series}
    if len(channels) != 1 or not all(len(x) and x[0].size for x, _ in parts):
        problem = "no values" if len(channels) < 2 else f"series of {sorted(channels)} channels"
        raise PefourierError(f"{name} holds {problem} in one of its files; download it again")
    x, lengths = padded_series([example.T for example in series])
    y = np.concatenate([y for _, y in parts])
    tested = len(parts[1][1]) if len(parts) == 2 and options.split == "blocks" else None
    return from_examples(name, x, y, options, tested=tested, lengths=lengths)


def padded_series(series: Sequence[Array]) -> tuple[Array, Array]:
    """Pad series (rows, channels) to the longest; also return the rows of each.

    >>> x, lengths = padded_series([np.array([[1.0], [2.0]]), np.array([[3.0]])])
    >>> x[:, :, 0].tolist(), lengths.tolist()
    ([[1.0, 2.0], [3.0, 0.0]], [2, 1])
    """
    lengths = np.array([len(example) for example in series])
    x = np.zeros((len(series), lengths.max(), series[0].shape[1]))
    for padded, example in zip(x, series, strict=True):
        padded[: len(example)] = example
    return x, lengths


def read_ts(name: str, data: str | None) -> list[tuple[Array, Array]]:
    """Read training and test series (n, channels, length) with their classes, through aeon."""
    path, set_name = Path(name), name.removeprefix("uea:")
    files = [path]
    if set_name == name and path.suffix.lower() != ".ts":
        sides = [sorted(path.glob(f"*_{side}.ts")) for side in ("TRAIN", "TEST")]
        files = [file for side in sides for file in side]
        if [len(side) for side in sides] != [1, 1]:
            names = ", ".join(file.name for file in files) or "neither"
            raise PefourierError(
                f"{shown(name)} must hold one *_TRAIN.ts and one *_TEST.ts, or be a .ts file; "
                f"found {names}"
            )
    from pefourier.encodings.sources.tables import check_regular

    for file in files if set_name == name else ():
        check_regular(str(file))
    try:
        from aeon.datasets import load_classification, load_from_ts_file
    except ModuleNotFoundError as error:
        raise PefourierError(f"{shown(name)} {NO_AEON}") from error
    try:
        if set_name != name:
            how = {"extract_path": data, "load_equal_length": False}  # not truncated
            return [load_classification(set_name, split=p, **how)[:2] for p in ("train", "test")]
        return [load_from_ts_file(str(file))[:2] for file in files]
    except (OSError, ValueError, KeyError, IndexError) as error:
        text = " ".join(str(error).split())
        raise PefourierError(f"aeon cannot read {shown(name)}: {shown(text)}") from error
