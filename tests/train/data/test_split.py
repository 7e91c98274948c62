"""Windows and folds of recordings: no avoidable leak between parts."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_array_equal
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


def test_no_event_lies_on_two_sides_and_no_windows_touch(rng):
    one = series_of(rng)
    task = split.split_series("s", [one], 20, stride=5, split="blocks")
    event = np.cumsum(np.diff(one.label.astype(int), prepend=0) == 1) * one.label
    for fold in task.folds:
        parts = [rows_of(task, part) for part in (fold.train, fold.valid, fold.test)]
        for a in range(3):
            for b in range(a):
                assert not parts[a] & parts[b]
                events = [set(event[list(parts[i])]) - {0} for i in (a, b)]
                assert not events[0] & events[1]


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


def test_validation_and_test_windows_do_not_overlap_whatever_the_stride(rng):
    one = series_of(rng)
    dense, sparse = (split.split_series("s", [one], 20, stride=stride) for stride in (5, None))
    for a, b in zip(dense.folds, sparse.folds, strict=True):
        assert_array_equal(dense.starts[a.test], sparse.starts[b.test])
        assert_array_equal(dense.starts[a.valid], sparse.starts[b.valid])
        assert len(a.train) > 3 * len(b.train)


def test_chronological_leaves_a_gap_and_random_is_marked(rng):
    one = series_of(rng)
    task = split.split_series("s", [one], 20, split="chronological")
    (fold,) = task.folds
    last = [task.starts[part].max() + 20 for part in (fold.train, fold.valid)]
    first = [task.starts[part].min() for part in (fold.valid, fold.test)]
    assert all(a + 20 <= b for a, b in zip(last, first, strict=True))
    shuffled = split.split_series("s", [one], 20, stride=5, split="random")
    assert (shuffled.leaky, task.leaky) == (True, False)
    assert rows_of(shuffled, shuffled.folds[0].train) & rows_of(shuffled, shuffled.folds[0].test)


def test_folds_are_of_one_size():
    sizes = [len(t) for _, _, t in split.deal_within_classes(np.repeat([0, 1, 2], [6, 7, 8]))]
    assert sorted(sizes) == [4, 4, 4, 4, 5]
