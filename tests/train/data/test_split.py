"""Windows and folds of recordings: no avoidable leak between parts."""

from itertools import pairwise

import numpy as np
import pytest
from training import recording

from pefourier.train.data import split


def series_of(rng, **own):
    _, rows, label = recording(rng, **own)
    return split.Series("s", rows, label.astype(bool), "s", "s")


def quiet(name, n, group="", label=None):
    """Return a recording without events, or with the given events."""
    label = np.zeros(n, bool) if label is None else label
    return split.Series(name, np.zeros((n, 1), np.float32), label, group or name, "c")


def rows_of(task, windows):
    return {row for s in task.starts[windows] for row in range(s, s + task.length)}


@pytest.mark.parametrize("stride", [None, 5])
@pytest.mark.parametrize("how", ["blocks", "chronological"])
def test_no_row_and_no_event_is_on_two_sides_whatever_the_stride(rng, how, stride):
    one = series_of(rng)
    task, sparse = (split.split_series("s", [one], 20, step, how) for step in (stride, None))
    event = np.cumsum(np.diff(one.label.astype(int), prepend=0) == 1) * one.label
    for fold, other in zip(task.folds, sparse.folds, strict=True):
        parts = [rows_of(task, part) for part in (fold.train, fold.valid, fold.test)]
        assert sum(map(len, parts)) == len(set.union(*parts))
        events = [set(event[list(rows)]) - {0} for rows in parts]
        assert how == "chronological" or sum(map(len, events)) == len(set.union(*events))
        for name in ("valid", "test"):
            own = [t.starts[getattr(f, name)] for t, f in ((task, fold), (sparse, other))]
            np.testing.assert_array_equal(*own)
        assert (len(fold.train) > 3 * len(other.train)) == (stride == 5)
        gaps = [min(b) - max(a) for a, b in pairwise(parts)]
        assert how == "blocks" or min(gaps) > 20
    shuffled = split.split_series("s", [one], 20, stride, "random")
    assert (shuffled.leaky, task.leaky) == (True, False)


@pytest.mark.parametrize("how", ["blocks", "chronological"])
def test_what_is_tested_is_trained_on_at_no_other_place_at_that_time(rng, how):
    """Windows that share a time with a tested window are not trained on in another recording.

    An event moves a border of the first recording only.
    """
    series = []
    for number, n in enumerate((1200, 1197)):
        _, rows, label = recording(rng, n=1200)
        label[470:500] |= number == 0  # near the border at 480
        name = f"s{number}"
        series.append(split.Series(name, rows[:n], label[:n].astype(bool), name, "c"))
    task = split.split_series("s", series, 20, stride=5, split=how)
    lost = 0
    for fold in task.folds:
        times = [
            {row % 1200 if row < 1200 else row - 1200 for row in rows_of(task, part)}
            for part in (fold.train, fold.valid, fold.test)
        ]
        assert not (times[0] | times[1]) & times[2]
        used = np.concatenate([fold.train, fold.valid, fold.test])
        lost += len(task.starts) - len(np.unique(used))
    overlap = sum(drop.count for drop in task.dropped if drop.reason == "overlap")
    assert how == "chronological" or 0 < overlap <= lost


def starts_of(series, row):
    """Return the starts of blocks in the recording that begins at a row."""
    return [s.start - s.first for s in split.block_spans(series, 10, 20) if s.first == row]


def test_borders_are_the_same_rows_in_all_recordings_of_one_length():
    """Recordings of one length share borders, which are a window apart and avoid all events."""
    three = [quiet("a", 1212), quiet("b", 1200), quiet("c", 900)]
    expected = [0, *(i * 1212 // 10 + 10 for i in range(1, 10))]
    assert starts_of(three, 0) == starts_of(three, 1212) == expected
    assert starts_of(three, 2412) == [0, *range(100, 900, 90)]  # recorded at another time
    near = [b.start - a.stop for a, b in pairwise(split.block_spans([quiet("a", 1200)], 10, 20))]
    assert near == [20] * 9
    event = (np.arange(1200) >= 470) & (np.arange(1200) < 500)  # near the border at 480
    both = [quiet("a", 1200, "r", event), quiet("b", 1200, "r")]
    assert starts_of(both, 0) == starts_of(both, 1200) != [0, *range(130, 1200, 120)]


def test_folds_are_of_one_size():
    sizes = [len(t) for _, _, t in split.deal_within_classes(np.repeat([0, 1, 2], [6, 7, 8]))]
    assert sorted(sizes) == [4, 4, 4, 4, 5]
