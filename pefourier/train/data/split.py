"""Tasks: windows of series, or whole series as examples, split for training and tests.

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

Examples of unequal length are padded at the end; padding is masked in training and in tests.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from pefourier.encodings.encoding import EVEN
from pefourier.encodings.sources.tables import reads_as_number
from pefourier.errors import PefourierError, check_count, shown
from pefourier.train.options import Missing, Options, Split
from pefourier.types import Array, Counts, Ints, Strings, Texts, frozen, frozen_arrays
from pefourier.writing.text import first_few, join

FOLDS = 5
WINDOW = 100  # rows, by default
USER_BLOCKS = 10  # of a user's recording
MIN_BLOCK = 4  # windows in such a block, unless that leaves fewer blocks than folds
MOST_ROWS = 2**26  # of a window, or of all examples of a built-in task
SAME_LENGTH = 0.01  # recordings of a campaign with lengths this close have common borders
SHARES = (0.6, 0.8)  # where validation and test begin in a chronological split
DEFAULTS = Options()
LARGEST = 1e30  # of input values: float32 ends at 3e38
FEW_NUMBERS, MOST_NUMBERS = 10, 100  # classes whose names are numbers
GROUPS_IN_TIME = "groups and --split chronological exclude each other; use --split blocks"
NO_GROUP = (
    "so no group can be held out: leave groups out (--columns group=none), or add groups with "
    "several classes"
)
NO_REGRESSION = "regression is not supported: write a class for each range of numbers"


@frozen_arrays
class Fold:
    """Window indices of a fold, and the channels' mean and scale from its training windows."""

    train: Array  # (n,)
    valid: Array
    test: Array
    mean: Array  # (C,)
    scale: Array  # (C,)


@frozen
class Dropped:
    """A count of dropped windows, rows, series or groups, and the code of its remark."""

    reason: str
    count: int


def drops(counts: Mapping[str, int]) -> tuple[Dropped, ...]:
    """Return the counts that are not zero."""
    return tuple(Dropped(reason, count) for reason, count in counts.items() if count)


@frozen_arrays
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
    remarks: Mapping[str, Strings] = field(default_factory=dict)  # names of columns, by code
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


@frozen_arrays
class Series:
    """A labelled recording; blocks with the same number and `dealt_with` share a fold."""

    name: str
    rows: Array  # (n, C) float32
    label: Array  # (n,) bool: anomalous; or number of an activity
    recorded_with: str  # block borders avoid the events of all recordings with this name
    dealt_with: str
    unit: str = ""  # what stays together if series are dealt as a whole; "": they are not
    gaps: Ints = ()  # rows after a gap; no window spans a gap
    changes: Ints = ()  # rows that begin another activity; nor does it span a change


@frozen
class Stretch:
    """Rows [start, stop) of all series concatenated, and the unit that is dealt as a whole."""

    start: int
    stop: int
    unit: tuple[str, int]  # a campaign, and the number of a block
    first: int  # row from which the clock of the campaign counts
    breaks: Counts  # first rows of pieces within the span; no window spans two pieces


FoldParts = tuple[np.ndarray, np.ndarray, np.ndarray]  # of training, validation, test: indices
Cut = Iterable[tuple[int, int, int]]  # number, first and last row of spans of a series


def machine_memory() -> int:
    """Bytes of memory of the machine, if the system reports them."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # Windows
        return 2**36


# Recordings


def split_series(
    name: str,
    series: Sequence[Series],
    window: int | None = None,
    stride: int | None = None,
    split: Split = "blocks",
    *,
    blocks: int = USER_BLOCKS,
    grouped: bool = False,
    own_scale: bool = False,
    classes: Texts = ("normal", "anomaly"),
    **facts: Any,
) -> Task:
    """Cut labelled series into windows, positive if any row is anomalous, and split them.

    A window of activities has the activity of all of its rows. Activities without such a window
    are no classes. Validation and test windows do not overlap; training windows start every
    `stride` rows, by default a window's length. `blocks` are those of the longest recording;
    `grouped` units are never divided. With `own_scale`, training windows give each fold's mean and
    scale. `facts` are further fields of the task.
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
        spans, dealt = deal_spans(name, series, label, window, split, blocks, grouped=grouped)
        starts, places, overlaps = cut_spans(spans, dealt, window, stride)
    dropped = drops({**count_dropped(series, spans, window), "overlap": overlaps})
    labels = window_classes(label, starts, window)
    folds = tuple(make_fold(rows, starts, window, p, own_scale=own_scale) for p in places)
    whole = name, split, rows, starts, labels, window, classes, folds, split == "random"
    return check_task(Task(*whole, dropped=dropped, **facts))


def spans_of(series: Sequence[Series], cut: Callable[[Series], Cut]) -> list[Stretch]:
    """Return the spans into which each series is cut."""
    spans, first = list[Stretch](), 0
    for s in series:
        for number, a, b in cut(s):
            inner = tuple(first + row for row in sorted({*s.gaps, *s.changes}) if a < row < b)
            spans.append(Stretch(first + a, first + b, (s.dealt_with, number), first, inner))
        first += len(s.rows)
    return spans


def whole_spans(series: Sequence[Series]) -> list[Stretch]:
    """Return one span for each series."""
    return spans_of(series, lambda s: [(0, 0, len(s.rows))])


def block_spans(series: Sequence[Series], blocks: int, window: int) -> list[Stretch]:
    """Cut every series into blocks, and drop half a window on each side of a border."""
    half = window // 2

    def cut(s: Series) -> Cut:
        n = len(s.rows)
        sizes = [len(other.rows) for other in series if other.dealt_with == s.dealt_with]
        clock = max(size for size in sizes if abs(size - n) <= SAME_LENGTH * n)
        together = [other.label for other in series if other.recorded_with == s.recorded_with]
        events = np.unique(np.concatenate([np.flatnonzero(y) for y in together if y.dtype == bool]))
        edges = [0, *borders(events, n, blocks, window, clock), n]
        return [  # numbers of the nominal block in the middle
            ((a + b) * blocks // (2 * clock), a + half * (a > 0), b - half * (b < n))
            for a, b in pairwise(edges)
        ]

    return spans_of(series, cut)


def borders(events: Array, n: int, blocks: int, window: int, clock: int) -> list[int]:
    """Find clean rows between blocks of a recording of n rows, near i clock / blocks.

    A row is clean if no anomaly lies within a window's length on either side; a border without a
    clean row within half a block is omitted. `clock` is the length of the longest recording of the
    same time, which gives all of them common nominal borders.

    >>> events = np.arange(48, 52)
    >>> borders(events, 100, 2, 8, 100), borders(events, 90, 2, 8, 100)
    ([60], [60])
    """
    edges = set[int]()
    for i in range(1, blocks):
        nominal, reach = i * clock // blocks, clock // blocks // 2
        rows = np.arange(max(nominal - reach, 1), min(nominal + reach, n - 1) + 1)
        before, after = (np.searchsorted(events, rows + shift) for shift in (-window, window + 1))
        clean = rows[before == after]
        edges.update(clean[abs(clean - nominal).argsort(kind="stable")][:1].tolist())
    return sorted(edges)


def count_dropped(
    series: Sequence[Series], spans: Sequence[Stretch], window: int
) -> dict[str, int]:
    """Count series shorter than a window, rows after the last window, and windows at borders."""
    sizes = np.array([len(s.rows) for s in series])
    between = np.concatenate([np.diff([0, *s.gaps, len(s.rows)]) // window for s in series])
    whole, kept = (len(cut_windows(cut, window, window)) for cut in (whole_spans(series), spans))
    fitting, is_short = between.sum(), sizes < window
    return {
        "short": int(is_short.sum()),
        "end": int((sizes % window)[~is_short].sum()),
        "gap": int((sizes // window).sum() - fitting),
        "mixed": int(fitting - whole),
        "border": whole - kept,
    }


def holds_anomaly(label: Array, starts: Array, window: int) -> Array:
    """Whether each window holds an anomalous row."""
    total = np.concatenate([[0], np.cumsum(label)])
    return np.asarray(total[starts + window] > total[starts])


def window_classes(label: Array, starts: Array, window: int) -> Array:
    """Return the class of each window: 1 if it holds an anomalous row, or its activity."""
    holds = holds_anomaly(label > 0, starts, window)
    return np.asarray(holds * np.maximum(label[starts], 1), np.int64)


def deal_spans(
    name: str,
    series: Sequence[Series],
    label: Array,
    window: int,
    split: Split,
    blocks: int,
    *,
    grouped: bool,
) -> tuple[list[Stretch], list[FoldParts]]:
    """Return spans and the parts of each fold: whole series if possible, else blocks of time."""
    if series[0].unit and split == "blocks":
        spans = whole_spans(series)
        if parts := deal_series(series, count_classes(spans, label, window), grouped=grouped):
            return spans, parts
        fitting = min(len(s.rows) for s in series) // (MIN_BLOCK * window)
        blocks = min(blocks, max(FOLDS, fitting))
    if grouped:
        some = f"no group has several classes that the others have too, {NO_GROUP}"
        raise PefourierError(f"{name}: {some if split == 'blocks' else GROUPS_IN_TIME}")
    if split == "blocks":
        spans = block_spans(series, blocks, window)
        places = {unit: i for i, unit in enumerate(sorted({span.unit for span in spans}))}
        unit = np.array([places[span.unit] for span in spans])
        return spans, rotate_parts(deal(unit, count_classes(spans, label, window)))

    def cut(s: Series) -> Cut:  # in time order, with gaps of one window
        cuts = pairwise([int(share * len(s.rows)) for share in (0, *SHARES, 1)])
        return [
            (part, start + window * (part > 0), stop) for part, (start, stop) in enumerate(cuts)
        ]

    spans = spans_of(series, cut)
    return spans, [parts_of(2 - np.array([span.unit[1] for span in spans]))]


def deal_series(
    series: Sequence[Series], counts: Array, *, grouped: bool
) -> list[FoldParts] | None:
    """Deal whole series with class counts (n, K) by their units; None if too few hold both."""
    names, unit = np.unique([s.unit for s in series], return_inverse=True)
    if grouped and len(names) < FOLDS:
        return leave_groups_out(counts, unit)
    for folds in range(min(FOLDS, len(names)), 2, -1):
        dealt = rotate_parts(deal(unit, counts, folds), folds)
        if all(have_classes(counts, parts) for parts in dealt):
            return dealt
    return None


def have_classes(counts: Array, parts: FoldParts) -> bool:
    """Whether parts of spans with class counts (n, K) have all classes for training, two others."""
    train, *others = (np.count_nonzero(counts[part].sum(axis=0)) for part in parts)
    return bool(train == counts.shape[1] and min(others) > 1)


def leave_groups_out(counts: Array, group: Array) -> list[FoldParts]:
    """Use each of a few groups as a test part; series (n, 2) of the others validate and train."""
    dealt = []
    for number in range(group.max() + 1):
        where, others = np.zeros(len(group), int), np.flatnonzero(group != number)
        for folds in range(min(FOLDS, len(others)), 1, -1):
            where[others] = 1 + deal(np.arange(len(others)), counts[others], folds)
            if have_classes(counts, parts := parts_of(where)):
                dealt.append(parts)
                break
    return dealt


def cut_windows(spans: Sequence[Stretch], window: int, stride: int) -> Array:
    """Windows within spans: the span's number and the first row of each window, (n, 2)."""
    starts = [
        np.concatenate(
            [
                np.arange(a, b - window + 1, stride)
                for a, b in pairwise([span.start, *span.breaks, span.stop])
            ]
        )
        for span in spans
    ]
    numbers = np.repeat(np.arange(len(spans)), [len(rows) for rows in starts])
    return np.column_stack([numbers, np.concatenate(starts)])


def count_classes(spans: Sequence[Stretch], label: Array, window: int) -> Array:
    """Count the windows of each class in each span, (n, K)."""
    number, starts = cut_windows(spans, window, window).T
    counts = np.zeros((len(spans), 1 + max(int(label.max()), 1)), int)
    np.add.at(counts, (number, window_classes(label, starts, window)), 1)
    return counts


def cut_spans(
    spans: Sequence[Stretch], dealt: Sequence[FoldParts], window: int, stride: int
) -> tuple[Array, list[FoldParts], int]:
    """Return starts of windows, the parts of each fold, and the count of overlaps in time.

    Windows that overlap a test window on the same clock are not used for training or validation.
    """
    spaced, dense = (cut_windows(spans, window, step) for step in (window, stride))
    starts = np.unique(np.concatenate([spaced[:, 1], dense[:, 1]]))
    parts, overlaps = [], 0
    for train, valid, test in dealt:
        tested, learning = spaced[np.isin(spaced[:, 0], test)], []
        for every, own in ((dense, train), (spaced, valid)):
            windows = every[np.isin(every[:, 0], own)]
            overlapping = overlap_in_time(spans, windows, tested, window)
            overlaps += int(overlapping.sum())
            learning.append(windows[~overlapping, 1])
        parts.append(tuple(np.searchsorted(starts, rows) for rows in (*learning, tested[:, 1])))
    return starts, parts, overlaps


def overlap_in_time(spans: Sequence[Stretch], windows: Array, tested: Array, window: int) -> Array:
    """Whether windows (n, 2) share a tick of a campaign's clock with a test window."""
    longest = max(span.stop - span.first for span in spans)
    _, campaign = np.unique([span.unit[0] for span in spans], return_inverse=True)
    shift = campaign * longest - [span.first for span in spans]  # from rows to ticks of all clocks
    ticks = np.zeros((campaign.max() + 1) * longest, bool)
    ticks[(tested[:, 1] + shift[tested[:, 0]])[:, None] + np.arange(window)] = True
    return holds_anomaly(ticks, windows[:, 1] + shift[windows[:, 0]], window)


# Deals


def deal(unit: Array, counts: Array, folds: int = FOLDS, *, all_classes: bool = False) -> Array:
    """Deal units, whose members have class counts (n, K), into folds; return each member's fold.

    Units are dealt largest first. Of two classes, the second is positive unless `all_classes` are
    dealt: each unit goes to the fold with the fewest positives, no fold gets more than its share of
    units, and units without positives even out the sizes. Otherwise each goes to the fold that
    lacks its classes most, and ties to the smallest fold; rounding makes the choice identical on
    all machines.

    >>> positives = np.array([[0, 5], [0, 1], [0, 4], [0, 2], [0, 3], [0, 0]])
    >>> deal(np.arange(6), positives, 2)
    array([0, 0, 1, 0, 1, 1])
    >>> groups, labels = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 0, 1, 1, 0, 1])
    >>> deal(groups, np.eye(2)[labels], 2, all_classes=True)
    array([0, 0, 1, 1, 0, 0])
    """
    total = np.zeros((unit.max() + 1, counts.shape[1]))
    np.add.at(total, unit, counts)
    by_positives = counts.shape[1] == 2 and not all_classes
    share = total[:, 1:] if by_positives else total / np.maximum(total.sum(axis=0), 1)
    dealt, fold = np.zeros((folds, share.shape[1])), np.zeros(len(total), int)
    size, most = np.zeros(folds, int), -(-len(total) // folds)
    for number in np.argsort(-share.max(axis=1), kind="stable"):
        keys: tuple[Array, ...]
        own, held = share[number], dealt.sum(axis=1).round(9)
        if not by_positives:
            keys = held, (dealt * own).sum(axis=1).round(9)
        else:
            keys = (size, held, size >= most) if own[0] else (held, size)
        fold[number] = np.lexsort(keys)[0]
        dealt[fold[number]] += own
        size[fold[number]] += 1
    return fold[unit]


def deal_within_classes(labels: Array) -> list[FoldParts]:
    """Return the parts of each fold from a shuffle within each class."""
    where = np.zeros(len(labels), dtype=int)
    where[np.concatenate(shuffle_classes(labels, 0))] = np.arange(len(labels)) % FOLDS
    return rotate_parts(where)


def shuffle_classes(labels: Array, seed: int) -> list[Array]:
    """Return the places of each class in labels (n,), shuffled."""
    rng = np.random.default_rng(seed)
    return [rng.permutation(np.flatnonzero(labels == k)) for k in np.unique(labels)]


def rotate_parts(where: Array, folds: int = FOLDS) -> list[FoldParts]:
    """FoldParts from fold numbers: test = fold k, validation = k + 1, train = the rest."""
    return [parts_of((where - k) % folds) for k in range(folds)]


def parts_of(number: Array) -> FoldParts:
    """Test where a number is 0, validate where it is 1, and train elsewhere."""
    return np.flatnonzero(number > 1), np.flatnonzero(number == 1), np.flatnonzero(number == 0)


def make_fold(
    rows: Array, starts: Array, window: int | Array, parts: FoldParts, *, own_scale: bool
) -> Fold:
    """Make a fold; with `own_scale`, its training windows give each channel's mean and scale.

    `window` is the number of rows of all windows, or of each window (W,).
    """
    mean, scale = np.zeros(rows.shape[1]), np.ones(rows.shape[1])
    if own_scale and len(parts[0]):
        used = np.zeros(len(rows) + 1, dtype=int)
        np.add.at(used, starts[parts[0]], 1)
        np.add.at(used, (starts + window)[parts[0]].astype(int), -1)
        training_rows = rows[np.cumsum(used[:-1]) > 0].astype(float)
        mean, scale = training_rows.mean(axis=0), training_rows.std(axis=0)
        scale = np.where(scale > 1e-6 * abs(mean), scale, 1.0)  # constant channels: no scaling
    return Fold(*parts, mean.astype(np.float32), scale.astype(np.float32))


def check_task(task: Task) -> Task:
    """Reject a task with a fold that cannot be trained, validated or tested."""
    for number, fold in enumerate(task.folds):
        for part, fewest in (("train", len(task.classes)), ("valid", 2), ("test", 2)):
            present = np.unique(task.labels[getattr(fold, part)])
            if len(present) < fewest:
                names = f"only {join(task.classes[c] for c in present)}" if len(present) else "none"
                counts = np.bincount(task.labels, minlength=len(task.classes)).tolist()
                each = first_few([f"{n} of {c}" for n, c in zip(counts, task.classes, strict=True)])
                raise PefourierError(
                    f"{task.name}: {len(task.labels)} windows of {task.length} rows ({each}); "
                    f"split {task.split}, fold {number} has {names} in its {part} part, which "
                    f"needs {fewest} classes: have at least "
                    f"{max(len(task.folds), 3)} series per class for {len(task.folds)} folds, or "
                    "for recordings use a smaller --window or another --split"
                )
    return task


# Examples


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
    times: Array | None = None,
    **facts: Any,
) -> Task:
    """Make a task of examples, shuffled into folds by class; the last `tested` are the test part.

    Rows from `lengths` (n,) on are padding; their values are ignored. `times` (n, length) are those
    of the rows, and `facts` further fields of the task.

    Independent examples have no neighbours to leak from, so blocks and random split them equally.
    Examples of one of `groups` (n,), a person or a machine, stay on one side except with random.
    """
    if options.window is not None or options.stride is not None:
        raise PefourierError(
            f"--window and --stride are for recordings; {shown(name)} holds examples (set the "
            "length of built-in tasks by name: order:length=24)"
        )
    if x.ndim != 3 or 0 in x.shape or x.dtype.kind not in "fiub" or y.shape != x.shape[:1]:
        raise PefourierError(
            f"{name}: expected X of shape (n, length, channels) and y of shape (n,); "
            f"got {x.dtype} {x.shape} and {y.shape}"
        )
    labels, names = np.zeros(y.shape, int), ["?"]
    if options.predict is None:
        labels, names = read_classes(name, y)
    lengths = check_lengths(name, lengths, *x.shape[:2])
    if times is not None:
        times = check_times(name, times, x.shape[:2], lengths)
        if options.missing == "drop" and np.isnan(x).any():
            raise PefourierError(f"{name}: --missing drop excludes times; use previous or mean")
    filled, lost = 0, 0
    if x.dtype.kind == "f" and np.isnan(x).any():
        before = [x.shape[1]] * len(x) if lengths is None else lengths
        series = [example[:rows] for example, rows in zip(x, before, strict=True)]
        place = partial("{}: example {}, row {}, channel {}".format, name)
        series, _, filled = fill_series(series, options.missing, place)
        x, after = padded_series(series)
        lengths, lost = check_lengths(name, after, *x.shape[:2]), int((before - after).sum())
    n, length, channels = x.shape
    rows = x.reshape(n * length, channels)
    check_rows(f"{name}, X in rows of {length} an example", rows)
    rows = rows.astype(np.float32)
    starts, row_counts = np.arange(n) * length, length if lengths is None else lengths
    tested = tested if options.split == "blocks" else None
    leaky = groups is not None and options.split == "random"
    count = 0 if groups is None or leaky else len(np.unique(groups))
    parts = []  # nothing is split for trained models
    if options.predict is None:
        parts = split_examples(name, labels, options, tested, groups)
    untested = count - len(parts) if 1 < count < FOLDS else 0
    folds = tuple(make_fold(rows, starts, row_counts, p, own_scale=True) for p in parts)
    own = name, options.split, rows, starts, labels, length, tuple(classes or names), folds
    task = Task(
        *own,
        leaky=leaky,
        has_test_part=tested is not None,
        groups=count if count > 1 else None,
        lengths=lengths,
        own_names=not classes,
        dropped=drops({"untested": untested, "one group": int(count == 1), "missing": lost}),
        filled=filled,
        **facts,
    )
    return with_times(check_task(task), times)


def with_times(task: Task, times: Array | None) -> Task:
    """Add the times of all rows, if there are any; padding repeats the last time."""
    if times is None:
        return task
    steps = np.diff(times)
    steps = steps[steps > 0]
    uneven = len(steps) > 0 and bool(np.ptp(steps) > EVEN * steps.mean())
    return replace(task, times=times.ravel(), uneven=uneven)


def check_rows(name: str, rows: Array) -> None:
    """Reject rows that are not finite numbers of shape (n, channels)."""
    if rows.ndim != 2 or 0 in rows.shape or rows.dtype.kind not in "fiub":
        raise PefourierError(
            f"{name}: expected numbers of shape (n, channels), got {rows.dtype} {rows.shape}"
        )
    beyond = ~(abs(rows) <= np.float64(LARGEST))
    if beyond.any():
        row, column = np.argwhere(beyond)[0]
        value = rows[row, column]
        way_out = "scale such values" if np.isfinite(value) else "fill missing values"
        raise PefourierError(
            f"{name}: row {row}, column {column} is {value}; {way_out} before training"
        )


def fill_series(
    series: Sequence[Array],
    missing: Missing | None,
    place: Callable[[int, int, int], str],
    names: Strings = (),
) -> tuple[list[Array], list[Array], int]:
    """Fill or drop missing numbers (nan) of each series; return series, kept rows, filled count.

    A missing number at the start of a channel gets the channel's next number. `place` names the
    position of a series, row and column in messages, and `names` are those of the columns.

    >>> rows = np.array([[np.nan, 1.0], [2.0, np.nan]])
    >>> fill_series([rows], "previous", lambda *_: "")[0][0].tolist()
    [[2.0, 1.0], [2.0, 1.0]]
    """
    filled, complete, count = list[Array](), list[Array](), 0
    for number, rows in enumerate(series):
        lacking = np.isnan(rows)
        kept = np.asarray(~lacking.any(axis=1) | (missing != "drop"))
        known = kept.any() and not lacking.all(axis=0).any()
        if lacking.any() and not (missing and known):
            every = np.isnan(np.concatenate(series))
            each = [f"{names[i] if names else i} {n}" for i, n in enumerate(every.sum(axis=0)) if n]
            raise PefourierError(
                f"{place(number, *np.argwhere(lacking)[0].tolist())} is missing "
                f"({first_few(each)} of {len(every)} rows); fill it, or pass "
                "--missing previous, mean or drop if some remain"
            )
        own = rows[kept]
        if missing == "mean":
            own = np.where(lacking, np.nanmean(rows, axis=0), rows)
        elif missing == "previous" and lacking.any():
            from pandas import DataFrame

            own = DataFrame(rows).ffill().bfill().to_numpy()
        filled.append(own)
        complete.append(kept)
        count += int(lacking[kept].sum())
    return filled, complete, count


def padded_series(series: Sequence[Array]) -> tuple[Array, Array]:
    """Pad series (rows, channels) to the longest; also return the rows of each.

    >>> x, lengths = padded_series([np.array([[1.0], [2.0]]), np.array([[3.0]])])
    >>> x[:, :, 0].tolist(), lengths.tolist()
    ([[1.0, 2.0], [3.0, 0.0]], [2, 1])
    """
    lengths = np.array([len(example) for example in series])
    x = np.zeros((len(series), lengths.max(), *series[0].shape[1:]))
    for padded, example in zip(x, series, strict=True):
        padded[: len(example)] = example
    return x, lengths


def check_lengths(name: str, lengths: Array | None, n: int, length: int) -> Array | None:
    """Check the rows of each example; None if all examples have full length."""
    if lengths is None:
        return None
    fits = lengths.shape == (n,) and lengths.dtype.kind in "iu"
    if not fits or not ((lengths >= 1) & (lengths <= length)).all():
        raise PefourierError(
            f"{name}: lengths must be {n} whole numbers from 1 to the {length} rows of X, got "
            f"{lengths.dtype} {lengths.shape} {shown(lengths.tolist())}"
        )
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
    if wrong.any():
        example, row = np.argwhere(wrong)[0]
        raise PefourierError(
            f"{name}: times must increase; example {example} has {times[example, row]} in row "
            f"{row} and {times[example, row + 1]} in the next"
        )
    return times


def read_classes(name: str, y: Array) -> tuple[Array, list[str]]:
    """Return the class of each example, counted from 0, and the names of the classes."""
    if y.dtype.kind == "f" and (odd := y[~(np.isfinite(y) & (np.floor(y) == y))].tolist()):
        raise PefourierError(
            f"{name}: y must hold whole numbers or class names, got {odd[0]}; {NO_REGRESSION}"
        )
    found, labels = np.unique(y, return_inverse=True)
    names = [f"{c:.0f}" if y.dtype.kind == "f" else str(c) for c in found]
    check_labels(name, names, len(y))
    if not 2 <= len(names) <= len(y) // 2:
        raise PefourierError(
            f"{name}: y has {len(names)} classes in {len(y)} examples; need 2 or more, each several"
        )
    return labels, names


def check_labels(name: str, names: Strings, count: int) -> None:
    """Reject labels of so many numbers that they are measurements, and two spellings of one."""
    spelled = dict[str, str]()
    for label in names:
        if (other := spelled.setdefault(label.casefold(), label)) != label:
            raise PefourierError(
                f"{name}: labels {shown(other)} and {shown(label)} differ in case; use one spelling"
            )
    most = min(MOST_NUMBERS, max(FEW_NUMBERS, count // FOLDS))
    if len(names) > most and all(map(reads_as_number, names)):
        raise PefourierError(
            f"{name}: {len(names)} classes in {count} labels look like numbers; {NO_REGRESSION}"
        )


def split_examples(
    name: str, labels: Array, options: Options, tested: int | None, groups: Array | None
) -> list[FoldParts]:
    """Split examples: by groups, published test part, time order or a shuffle within classes.

    Each of two to four groups is a test part; random ignores groups.
    """
    n = len(labels)
    if groups is not None:
        names, unit = np.unique(groups, return_inverse=True)
        if groups.shape != labels.shape or (groups.dtype.kind == "f" and np.isnan(groups).any()):
            raise PefourierError(
                f"{name}: groups must be {n} names without nan, one for each example, got "
                f"{groups.dtype} {groups.shape}"
            )
        if options.split == "chronological":
            raise PefourierError(f"{name}: {GROUPS_IN_TIME}")
    if groups is not None and len(names) > 1 and options.split != "random":
        if len(names) >= FOLDS:
            counts = np.eye(labels.max() + 1)[labels]
            return rotate_parts(deal(unit, counts, all_classes=True))
        learning = [groups != g for g in names if len(np.unique(labels[groups == g])) > 1]
        if not learning:
            raise PefourierError(f"{name}: each group has one class, {NO_GROUP}")
    elif groups is None and tested is not None:
        seeds = range(1, options.resamples or 1)
        drawn = [draw_learning(labels, tested, seed) for seed in seeds]
        learning = [np.arange(n) < n - tested, *drawn]
    elif groups is None and options.split == "chronological":
        return [parts_of(2 - np.searchsorted([int(s * n) for s in SHARES], np.arange(n), "right"))]
    else:
        return deal_within_classes(labels)
    return [with_validation(labels, own) for own in learning]


def draw_learning(labels: Array, tested: int, seed: int) -> Array:
    """Draw a training part (n,) with the class counts of the published one.

    >>> labels = np.array([0, 1] * 10 + [0, 0, 0, 1])
    >>> learning = draw_learning(labels, 4, 1)
    >>> np.bincount(labels[~learning]), learning.sum(), bool(learning[20:].any())
    (array([3, 1]), np.int64(20), True)
    """
    learning = np.zeros(len(labels), bool)
    for own in shuffle_classes(labels, seed):
        learning[own[: np.count_nonzero(own < len(labels) - tested)]] = True
    return learning


def with_validation(labels: Array, learning: Array) -> FoldParts:
    """Hold out a fifth of each class of the learning examples (n,) for validation."""
    number = np.where(learning, 2, 0)
    learned = np.flatnonzero(learning)
    number[learned[deal_within_classes(labels[learned])[0][1]]] = 1
    return parts_of(number)
