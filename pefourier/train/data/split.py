"""Splits of labelled series and of single examples into training, validation and test windows.

Conventions
-----------
Windows are stored as starts into rows (N, C), without copies. ``blocks`` is the split that does not
leak: blocks of time with borders at least one window away from any anomaly, dealt into folds by
their positives. ``chronological`` is a single fold, 60/20/20 with gaps of one window.
``random`` shuffles windows, which puts neighbours on both sides and makes the scores leaky.
Several series of a user are dealt as a whole if each part of each fold then has both classes; no
window is lost at a border in that case. `Task.dropped` counts dropped data by reason.

Recordings dealt together form a campaign: equal row numbers are assumed to be equal times, and one
incident appears in several recordings. Recordings whose lengths agree within 1% share nominal
borders; each recording moves them away from its own events. In each fold, no training or validation
window overlaps a test window in time on any recording of the campaign. (Of MSL's channels recorded
together, only those of equal length agree row by row in their commands.)
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from pefourier.errors import PefourierError, check_count
from pefourier.train.options import Split
from pefourier.types import Array, Counts, Ints, Strings, Texts
from pefourier.writing.text import first_few, join

FOLDS = 5
WINDOW = 100  # rows, by default
USER_BLOCKS = 10  # of a user's recording
MIN_BLOCK = 4  # windows in such a block, unless that leaves fewer blocks than folds
MOST_ROWS = 2**26  # of a window, or of all examples of a built-in task
SAME_LENGTH = 0.01  # recordings of a campaign with lengths this close have common borders
GROUPS_IN_TIME = "groups and --split chronological exclude each other; use --split blocks"
NO_GROUP = (
    "so no group can be held out: leave groups out (--columns group=none), or add groups with "
    "several classes"
)
SHARES = (0.6, 0.8)  # where validation and test begin in a chronological split


@dataclass(frozen=True, eq=False)
class Fold:
    """Window indices of a fold, and the channels' mean and scale from its training windows."""

    train: Array  # (n,)
    valid: Array
    test: Array
    mean: Array  # (C,)
    scale: Array  # (C,)


REMARKS = {  # on data before training, by code
    "border": (
        "{count} windows at block borders are dropped, half a window on each side, to separate "
        "test data"
    ),
    "overlap": (
        "{count} training and validation windows (over all folds) overlap a test window in time "
        "and are dropped"
    ),
    "end": "{count} rows after the last whole window of a series are dropped",
    "short": "{count} series shorter than one window are dropped",
    "missing": "{count} rows with missing numbers are dropped",
    "untested": (
        "{count} groups contain a single class; they are used for training and never tested"
    ),
    "one group": "all series belong to one group, so scores say nothing about other groups",
    "filled": "{count} missing numbers are filled",
    "read": "read as: {names}",
    "doubts": "{names}",
    "copies": (
        "{names} series equal another one in all values, so test data may be in training data; "
        "remove repeated series"
    ),
    "gap": "{count} windows that span a gap in time are dropped",
    "mixed": "{count} windows with several labels are dropped",
    "channels": "channels: {names}",
    "unused": "ignored arrays: {names}",
    "columns": "reads {names}; use --columns to choose other columns",
    "left out": "ignored columns: {names}",
    "commas": "commas in {names} are read as decimal points",
    "constant": "constant channels: {names}",
    "groups": (
        "{examples} examples in {count} groups; each whole group is for training, validation or "
        "testing"
    ),
    "no groups": (
        "no groups are given, so examples of a patient or machine may be in both training and "
        "test data; use {grouped_by} to keep them together"
    ),
    "padded": (
        "series have {shortest} to {length} rows; shorter ones are padded at the end and masked"
    ),
    "few examples": "class {label} has only {count} examples, so its scores are unreliable",
    "neither positive": (
        "classes {names} are balanced, so scores are averaged over both; use --positive NAME to "
        "choose one"
    ),
    "few codes": (
        "{encoding} has {count} distinct vectors for {tokens} tokens, so some tokens share one"
    ),
    "wide": (
        "d is {names}, enough for distinct vectors of tokens in every encoding; use --d to "
        "change it"
    ),
    "times": ("encodings use measured times; mtan and time2vec train their slopes and shifts"),
    "uneven": (
        "times are uneven but only order the rows; use --positions time to encode the time "
        "between them"
    ),
}


@dataclass(frozen=True)
class Dropped:
    """A count of dropped windows, rows, series or groups, and its code in `REMARKS`."""

    reason: str
    count: int


def drops(counts: Mapping[str, int]) -> tuple[Dropped, ...]:
    """Return the counts that are not zero."""
    return tuple(Dropped(reason, count) for reason, count in counts.items() if count)


@dataclass(frozen=True, eq=False)
class Task:
    """Rows, windows into these rows, their classes, and the folds."""

    name: str
    split: str
    rows: Array  # (N, C) float32
    starts: Array  # (W,) first row of each window
    labels: Array  # (W,) class of each window, 0 … classes - 1
    length: int  # rows of a window
    classes: Texts
    folds: tuple[Fold, ...]
    leaky: bool = False  # windows of one event are in training and in test
    has_test_part: bool = False  # published with the data
    grid: Counts = ()  # sides, where the rows of an example are points in raster order
    groups: int | None = None  # of examples: people or machines, dealt as a whole
    grouped_by: str = ""  # a name for what would set groups; "": nothing can
    lengths: Array | None = None  # (W,) rows of each window, the rest is padding; None: all
    names: Strings = ()  # of examples, if they have any
    own_names: bool = False  # class names from the data, whose order has no meaning
    uneven: bool = False  # rows have uneven times, which only order them
    times: Array | None = None  # (N,) of rows, if encodings use times as positions
    # further remarks, by a code of `REMARKS`: names of columns or arrays
    remarks: Mapping[str, Strings] = field(default_factory=dict)
    dropped: tuple[Dropped, ...] = ()
    filled: int = 0  # missing numbers
    balanced: bool = False  # two classes, neither of which is positive

    @property
    def shortest(self) -> int:
        """Rows of the shortest window: fewer than `length` if some are padded."""
        return self.length if self.lengths is None else int(self.lengths.min())

    def times_of_tokens(self, step: int, tokens: int) -> Array:
        """Times (W, tokens) of tokens since the start of the window, by default in rows."""
        times = np.arange(len(self.rows)) if self.times is None else self.times
        starts = times[self.starts[:, None] + np.arange(tokens) * step]
        return np.asarray(starts - starts[:, :1])

    def windows_at(self, index: Array) -> Array:
        """Return windows (n, length, channels) by index, with nan in padding."""
        found = self.rows[self.starts[index][:, None] + np.arange(self.length)]
        if self.lengths is not None:
            found[np.arange(self.length) >= self.lengths[index][:, None]] = np.nan
        return np.asarray(found)

    @property
    def positive(self) -> str | None:
        """The positive class, which scores describe; None if scores are means over classes."""
        return self.classes[1] if len(self.classes) == 2 and not self.balanced else None


@dataclass(frozen=True, eq=False)
class Series:
    """A labelled recording; blocks with the same number and `dealt_with` share a fold."""

    name: str
    rows: Array  # (n, C) float32
    label: Array  # (n,) bool: anomalous; or number of an activity
    recorded_with: str  # block borders avoid the events of all recordings with this name
    dealt_with: str
    gaps: Ints = ()  # rows after a gap; no window spans a gap
    changes: Ints = ()  # rows that begin another activity; nor does it span a change


@dataclass(frozen=True)
class Dealing:
    """The units that a split deals into folds: whole series if possible, else blocks of time."""

    blocks: int = USER_BLOCKS  # of the longest recording
    units: Strings = ()  # of each series, what stays together: the series or its group
    grouped: bool = False


BY_BLOCKS = Dealing()


@dataclass(frozen=True)
class Span:
    """Rows [start, stop) of all series concatenated, and the unit that is dealt as a whole."""

    start: int
    stop: int
    unit: tuple[str, int]
    campaign: str  # its clock counts the rows from `first`
    first: int
    breaks: Counts = ()  # first rows of pieces; no window spans two pieces

    def pieces(self) -> Iterator[tuple[int, int]]:
        """Rows [start, stop) of each piece."""
        inner = [row for row in self.breaks if self.start < row < self.stop]
        return pairwise([self.start, *inner, self.stop])


def machine_memory() -> int:
    """Bytes of memory of the machine, if the system reports them."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # Windows
        return 2**36


def borders(anomalous: Array, n: int, blocks: int, window: int, clock: int) -> list[int]:
    """Find clean rows between blocks of a recording of n rows, near i clock / blocks.

    A row is clean if no anomaly lies within a window's length on either side; a border without a
    clean row within half a block is omitted. `clock` is the length of the longest recording of the
    same time, which gives all of them common nominal borders.

    >>> anomalous = np.zeros(100, dtype=bool); anomalous[48:52] = True
    >>> borders(anomalous, 100, 2, 8, 100), borders(anomalous[:90], 90, 2, 8, 100)
    ([60], [60])
    """
    edges = []
    for i in range(1, blocks):
        nominal, reach = i * clock // blocks, clock // blocks // 2
        rows = np.arange(max(nominal - reach, 1), min(nominal + reach, n - 1) + 1)
        clean = [not anomalous[max(r - window, 0) : r + window + 1].any() for r in rows]
        rows = rows[np.array(clean, dtype=bool)]
        if len(rows):
            edges.append(int(rows[np.abs(rows - nominal).argmin()]))
    return sorted(set(edges))


def block_spans(series: Sequence[Series], blocks: int, window: int) -> list[Span]:
    """Cut every series into blocks, and drop half a window on each side of a border."""
    spans = []
    for recording, first in with_first_rows(series):
        n, campaign = len(recording.rows), recording.dealt_with
        clock = max(
            len(s.rows)
            for s in series
            if s.dealt_with == campaign and abs(len(s.rows) - n) <= SAME_LENGTH * n
        )
        together = [s for s in series if s.recorded_with == recording.recorded_with]
        events = anomalous_in_any([s.label * (s.label.dtype == bool) > 0 for s in together])
        edges = [0, *borders(events, n, blocks, window, clock), n]
        for start, stop in pairwise(edges):
            number = (start + stop) * blocks // (2 * clock)  # of the nominal block in the middle
            inner = start + (window // 2 if start else 0), stop - (window // 2 if stop < n else 0)
            bounds = first + inner[0], first + inner[1]
            unit = campaign, number
            spans.append(Span(*bounds, unit, campaign, first, breaks_of(recording, first)))
    return spans


def breaks_of(recording: Series, first: int) -> Counts:
    """Return the rows of all series that begin a piece of a recording."""
    return tuple(first + row for row in sorted({*recording.gaps, *recording.changes}))


def anomalous_in_any(labels: Sequence[Array]) -> Array:
    """Return the rows that are anomalous in any recording, up to the longest."""
    union = np.zeros(max(map(len, labels)), dtype=bool)
    for label in labels:
        union[: len(label)] |= label
    return union


def deal(positives: Ints | Array, folds: int = FOLDS) -> Array:
    """Deal units into folds, largest count first, each to the fold with the fewest positives.

    No fold gets more than its share of units; units without positives even out the sizes.

    >>> deal([5, 1, 4, 2, 3, 0], 2)
    array([0, 0, 1, 0, 1, 1])
    """
    dealt, size = np.zeros(folds, dtype=int), np.zeros(folds, dtype=int)
    fold = np.zeros(len(positives), dtype=int)
    share = -(-len(positives) // folds)
    for unit in np.argsort(-np.asarray(positives), kind="stable"):
        order = (size, dealt, size >= share) if positives[unit] else (dealt, size)
        fold[unit] = np.lexsort(order)[0]
        dealt[fold[unit]] += positives[unit]
        size[fold[unit]] += 1
    return fold


def split_series(
    name: str,
    series: Sequence[Series],
    window: int | None = None,
    stride: int | None = None,
    split: Split = "blocks",
    dealing: Dealing = BY_BLOCKS,
    *,
    own_scale: bool = False,
    classes: Texts = ("normal", "anomaly"),
) -> Task:
    """Cut labelled series into windows, positive if any row is anomalous, and split them.

    A window of activities has the activity of all of its rows. Activities without such a window
    are no classes. Validation and test windows do not overlap; training windows start every
    `stride` rows, by default a window's length. With `own_scale`, training windows give each fold's
    mean and scale.
    """
    window = WINDOW if window is None else window
    stride = window if stride is None else stride
    check_count("--window", window, 1, MOST_ROWS)
    check_count("--stride", stride, 1, MOST_ROWS)
    rows = np.concatenate([s.rows for s in series])
    label = np.concatenate([s.label for s in series])
    longest = max(len(s.rows) for s in series)
    if longest < window:
        raise PefourierError(
            f"{name}: the longest series has {longest} rows; choose a --window of at most that"
        )
    if label.dtype != bool:
        present = np.unique(label[cut_windows(whole_spans(series), window, window)[:, 1]])
        if len(present) < 2:
            raise PefourierError(
                f"{name}: {len(present)} of {len(classes)} labels hold for all {window} rows of a "
                "window; choose a smaller --window, or name the label of anomalies by --positive"
            )
        label = np.minimum(np.searchsorted(present, label), len(present) - 1)
        classes = tuple(classes[i] for i in present)
    if split == "random":  # regardless of what neighbours share
        spans, overlaps = whole_spans(series), 0
        starts = cut_windows(spans, window, stride)[:, 1]
        places = deal_within_classes(window_classes(label, starts, window))
    else:
        spans, masks = deal_spans(name, series, label, window, split, dealing)
        starts, places, overlaps = cut_spans(spans, masks, window, stride)
    dropped = drops({**count_dropped(series, spans, window), "overlap": overlaps})
    labels = window_classes(label, starts, window)
    folds = tuple(make_fold(rows, starts, window, p, own_scale=own_scale) for p in places)
    leaky = split == "random"
    task = Task(name, split, rows, starts, labels, window, classes, folds, leaky, dropped=dropped)
    check_task(task)
    return task


def count_missing(task: Task, filled: int, lost: int) -> Task:
    """Add the counts of filled numbers and of rows dropped for missing numbers."""
    return replace(task, filled=filled, dropped=(*task.dropped, *drops({"missing": lost})))


def count_dropped(series: Sequence[Series], spans: Sequence[Span], window: int) -> dict[str, int]:
    """Count series shorter than a window, rows after the last window, and windows at borders."""
    sizes = np.array([len(s.rows) for s in series])
    between = [np.diff([0, *s.gaps, len(s.rows)]) // window for s in series]
    counts = [int((sizes // window).sum()), int(np.concatenate(between).sum())]
    counts += [len(cut_windows(cut, window, window)) for cut in (whole_spans(series), spans)]
    gap, mixed, border = (-np.diff(counts)).tolist()
    end = int((sizes[sizes >= window] % window).sum())
    short = int((sizes < window).sum())
    return {"short": short, "end": end, "gap": gap, "mixed": mixed, "border": border}


def holds_anomaly(label: Array, starts: Array, window: int) -> Array:
    """Whether each window holds an anomalous row."""
    total = np.concatenate([[0], np.cumsum(label)])
    return np.asarray(total[starts + window] > total[starts])


def window_classes(label: Array, starts: Array, window: int) -> Array:
    """Return the class of each window: 1 if it holds an anomalous row, or its activity."""
    holds = holds_anomaly(label > 0, starts, window)
    return np.asarray(holds * np.maximum(label[starts], 1), np.int64)


Parts = tuple[np.ndarray, np.ndarray, np.ndarray]  # of training, validation, test: indices
Masks = list[Parts]  # which spans are in each part of a fold


def deal_spans(
    name: str,
    series: Sequence[Series],
    label: Array,
    window: int,
    split: Split,
    dealing: Dealing,
) -> tuple[list[Span], Masks]:
    """Return spans and the parts of each fold: whole series if possible, else blocks of time."""
    blocks = dealing.blocks
    if dealing.units and split == "blocks":
        if dealt := deal_series(series, label, window, dealing):
            return dealt
        fitting = min(len(s.rows) for s in series) // (MIN_BLOCK * window)
        blocks = min(blocks, max(FOLDS, fitting))
    if dealing.grouped:
        some = f"no group has several classes that the others have too, {NO_GROUP}"
        raise PefourierError(f"{name}: {some if split == 'blocks' else GROUPS_IN_TIME}")
    if split == "blocks":
        spans = block_spans(series, blocks, window)
        places = {unit: i for i, unit in enumerate(sorted({span.unit for span in spans}))}
        unit = np.array([places[span.unit] for span in spans])
        return spans, rotate_masks(deal_units(unit, count_classes(spans, label, window)), FOLDS)
    spans = chronological_spans(series, window)
    part = np.array([span.unit[1] for span in spans])
    return spans, [(part == 0, part == 1, part == 2)]


def deal_series(
    series: Sequence[Series], label: Array, window: int, dealing: Dealing
) -> tuple[list[Span], Masks] | None:
    """Deal whole series by `units`; None if too few hold both classes."""
    spans = whole_spans(series)
    counts = count_classes(spans, label, window)
    names, unit = np.unique(dealing.units, return_inverse=True)
    if dealing.grouped and len(names) < FOLDS:
        masks = leave_groups_out(counts, unit)
        return (spans, masks) if masks else None
    for folds in range(min(FOLDS, len(names)), 2, -1):
        masks = rotate_masks(deal_units(unit, counts, folds), folds)
        if all(have_classes(counts, parts) for parts in masks):
            return spans, masks
    return None


def have_classes(counts: Array, parts: Parts) -> bool:
    """Whether parts of spans with class counts (n, K) have all classes for training, two others."""
    train, *others = (np.count_nonzero(counts[part].sum(axis=0)) for part in parts)
    return bool(train == counts.shape[1] and min(others) > 1)


def deal_units(unit: Array, counts: Array, folds: int = FOLDS) -> Array:
    """Return the fold of each span; spans of a unit share a fold."""
    total = np.zeros((unit.max() + 1, counts.shape[1]))
    np.add.at(total, unit, counts)
    dealt = deal(total[:, 1], folds) if counts.shape[1] == 2 else deal_classes(total, folds)
    return np.asarray(dealt[unit])


def cut_windows(spans: Sequence[Span], window: int, stride: int) -> Array:
    """Windows within spans: the span's number and the first row of each window, (n, 2)."""
    starts = [
        np.concatenate([np.arange(a, b - window + 1, stride) for a, b in span.pieces()])
        for span in spans
    ]
    numbers = np.repeat(np.arange(len(spans)), [len(rows) for rows in starts])
    return np.column_stack([numbers, np.concatenate(starts)])


def count_classes(spans: Sequence[Span], label: Array, window: int) -> Array:
    """Count the windows of each class in each span, (n, K)."""
    number, starts = cut_windows(spans, window, window).T
    counts = np.zeros((len(spans), 1 + max(int(label.max()), 1)), int)
    np.add.at(counts, (number, window_classes(label, starts, window)), 1)
    return counts


def leave_groups_out(counts: Array, group: Array) -> Masks:
    """Use each of a few groups as a test part; series (n, 2) of the others validate and train."""
    dealt = []
    for number in range(group.max() + 1):
        test = group == number
        remaining = np.flatnonzero(~test)
        for folds in range(min(FOLDS, len(remaining)), 1, -1):
            valid = np.zeros(len(counts), bool)
            valid[remaining] = deal_units(np.arange(len(remaining)), counts[remaining], folds) == 0
            masks = (~(valid | test), valid, test)
            if have_classes(counts, masks):
                dealt.append(masks)
                break
    return dealt


def cut_spans(
    spans: Sequence[Span], masks: Masks, window: int, stride: int
) -> tuple[Array, list[Parts], int]:
    """Return starts of windows, the parts of each fold, and the count of overlaps in time.

    Windows that overlap a test window on the same clock are not used for training or validation.
    """
    spaced, dense = (cut_windows(spans, window, step) for step in (window, stride))
    starts = np.unique(np.concatenate([spaced[:, 1], dense[:, 1]]))
    parts, overlaps = [], 0
    for train, valid, test in masks:
        tested, learning = spaced[test[spaced[:, 0]]], []
        for windows in (dense[train[dense[:, 0]]], spaced[valid[spaced[:, 0]]]):
            overlapping = overlap_in_time(spans, windows, tested, window)
            overlaps += int(overlapping.sum())
            learning.append(windows[~overlapping, 1])
        parts.append(tuple(np.searchsorted(starts, rows) for rows in (*learning, tested[:, 1])))
    return starts, parts, overlaps


def overlap_in_time(spans: Sequence[Span], windows: Array, tested: Array, window: int) -> Array:
    """Whether windows (n, 2) share a tick of a campaign's clock with a test window."""
    longest = max(span.stop - span.first for span in spans)
    _, campaign = np.unique([span.campaign for span in spans], return_inverse=True)
    shift = campaign * longest - [span.first for span in spans]  # from rows to ticks of all clocks
    ticks = np.zeros((campaign.max() + 1) * longest, bool)
    ticks[(tested[:, 1] + shift[tested[:, 0]])[:, None] + np.arange(window)] = True
    return holds_anomaly(ticks, windows[:, 1] + shift[windows[:, 0]], window)


def with_first_rows(series: Sequence[Series]) -> list[tuple[Series, int]]:
    """Pair each series with the index of its first row in the concatenated rows."""
    ends = np.cumsum([len(s.rows) for s in series])
    return [(s, int(end) - len(s.rows)) for s, end in zip(series, ends, strict=True)]


def whole_spans(series: Sequence[Series]) -> list[Span]:
    """Return one span for each series."""
    return [
        Span(first, first + len(s.rows), (s.name, 0), s.dealt_with, first, breaks_of(s, first))
        for s, first in with_first_rows(series)
    ]


def chronological_spans(series: Sequence[Series], window: int) -> list[Span]:
    """Training, validation and test spans in time order, with gaps of one window."""
    spans = []
    for recording, first in with_first_rows(series):
        cuts = [int(share * len(recording.rows)) for share in (0, *SHARES, 1)]
        for part, (start, stop) in enumerate(pairwise(cuts)):
            rows = first + start + (window if part else 0), first + stop
            unit, breaks = (recording.name, part), breaks_of(recording, first)
            spans.append(Span(*rows, unit, recording.dealt_with, first, breaks))
    return spans


def deal_within_classes(labels: Array) -> list[Parts]:
    """Return the parts of each fold from a shuffle within each class."""
    rng = np.random.default_rng(0)
    where = np.zeros(len(labels), dtype=int)
    begin = 0
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        where[members] = (begin + np.arange(len(members))) % FOLDS
        begin += len(members)
    return rotate_parts(where, FOLDS)


def deal_groups(labels: Array, groups: Array, folds: int = FOLDS) -> list[Parts]:
    """Deal whole groups into folds, largest first, each to the fold that lacks its classes most.

    Ties go to the smallest fold; rounding makes the choice identical on all machines.

    >>> labels, groups = np.array([0, 0, 1, 1, 0, 1]), np.array([7, 7, 8, 8, 9, 9])
    >>> [test.tolist() for _, _, test in deal_groups(labels, groups, 2)]
    [[0, 1, 4, 5], [2, 3]]
    """
    names, unit = np.unique(groups, return_inverse=True)
    counts = np.zeros((len(names), labels.max() + 1))
    np.add.at(counts, (unit, labels), 1)
    return rotate_parts(deal_classes(counts, folds)[unit], folds)


def deal_classes(counts: Array, folds: int) -> Array:
    """Deal units with class counts (n, K) into folds, as `deal_groups`; return their folds."""
    share = counts / np.maximum(counts.sum(axis=0), 1)  # of each class
    dealt, fold = np.zeros((folds, counts.shape[1])), np.zeros(len(counts), dtype=int)
    for number in np.argsort(-share.max(axis=1), kind="stable"):
        crowd = (dealt * share[number]).sum(axis=1)
        fold[number] = np.lexsort((dealt.sum(axis=1).round(9), crowd.round(9)))[0]
        dealt[fold[number]] += share[number]
    return fold


def rotate_masks(where: Array, folds: int) -> Masks:
    """Masks of parts from fold numbers: test = fold k, validation = k + 1, train = the rest."""
    held_out = [(where == (k + 1) % folds, where == k) for k in range(folds)]
    return [(~(valid | test), valid, test) for valid, test in held_out]


def rotate_parts(where: Array, folds: int) -> list[Parts]:
    """Indices of the parts of each fold, from the masks of `rotate_masks`."""
    return [
        (np.flatnonzero(train), np.flatnonzero(valid), np.flatnonzero(test))
        for train, valid, test in rotate_masks(where, folds)
    ]


def make_fold(
    rows: Array, starts: Array, window: int | Array, parts: Parts, *, own_scale: bool
) -> Fold:
    """Make a fold; with `own_scale`, its training windows give each channel's mean and scale.

    `window` is the number of rows of all windows, or of each window (W,).
    """
    mean, scale = np.zeros(rows.shape[1]), np.ones(rows.shape[1])
    if own_scale and len(parts[0]):
        used = np.zeros(len(rows) + 1, dtype=int)
        np.add.at(used, starts[parts[0]], 1)
        np.add.at(used, np.asarray(starts + window, int)[parts[0]], -1)
        training_rows = rows[np.cumsum(used[:-1]) > 0].astype(float)
        mean, scale = training_rows.mean(axis=0), training_rows.std(axis=0)
        scale = np.where(scale > 1e-6 * np.abs(mean), scale, 1.0)  # constant channels: no scaling
    return Fold(*parts, mean.astype(np.float32), scale.astype(np.float32))


def check_task(task: Task) -> None:
    """Reject a task with a fold that cannot be trained, validated or tested."""
    for number, fold in enumerate(task.folds):
        for part, fewest in (("train", len(task.classes)), ("valid", 2), ("test", 2)):
            present = np.unique(task.labels[getattr(fold, part)])
            if len(present) < fewest:
                classes = (
                    f"only {join(task.classes[c] for c in present)}" if len(present) else "none"
                )
                counts = np.bincount(task.labels, minlength=len(task.classes)).tolist()
                each = first_few([f"{n} of {c}" for n, c in zip(counts, task.classes, strict=True)])
                border = sum(d.count for d in task.dropped if d.reason == "border")
                lost = f", {border} more dropped at block borders" if border else ""
                raise PefourierError(
                    f"{task.name}: {len(task.labels)} windows of {task.length} rows ({each}){lost}"
                    f"; split {task.split}, fold {number} has {classes} in its {part} part, which "
                    f"needs {fewest} classes: have at least {max(len(task.folds), 3)} series per "
                    f"class for {len(task.folds)} folds, or for recordings use a smaller --window "
                    "or another --split"
                )
