"""Windows and folds of recordings: nothing leaks that need not."""

import numpy as np
import pytest
from training import recording

from pefourier.errors import PefourierError
from pefourier.train.data import split


def test_no_event_lies_on_two_sides_and_no_windows_touch(rng):
    _, rows, label = recording(rng)
    one = split.Series("s", rows, label.astype(bool), "s", "s")
    task = split.split_series("s", [one], 20, stride=5, split="blocks")
    event = np.cumsum(np.diff(label.astype(int), prepend=0) == 1) * label
    for fold in task.folds:
        parts = [rows_of(task, getattr(fold, part)) for part in ("train", "valid", "test")]
        for a in range(3):
            for b in range(a):
                assert not parts[a] & parts[b]
                events = [set(event[list(parts[i])]) - {0} for i in (a, b)]
                assert not events[0] & events[1]


def rows_of(task, windows):
    return {row for s in task.starts[windows] for row in range(s, s + task.length)}


def test_validation_and_test_windows_do_not_overlap_whatever_the_stride(rng):
    _, rows, label = recording(rng)
    one = split.Series("s", rows, label.astype(bool), "s", "s")
    dense = split.split_series("s", [one], 20, stride=5)
    sparse = split.split_series("s", [one], 20)
    for a, b in zip(dense.folds, sparse.folds, strict=True):
        np.testing.assert_array_equal(dense.starts[a.test], sparse.starts[b.test])
        assert len(a.train) > 3 * len(b.train)


def test_chronological_leaves_a_gap_and_random_is_marked(rng):
    _, rows, label = recording(rng)
    one = split.Series("s", rows, label.astype(bool), "s", "s")
    task = split.split_series("s", [one], 20, split="chronological")
    (fold,) = task.folds
    last = [task.starts[part].max() + 20 for part in (fold.train, fold.valid)]
    first = [task.starts[part].min() for part in (fold.valid, fold.test)]
    assert all(a + 20 <= b for a, b in zip(last, first, strict=True))
    shuffled = split.split_series("s", [one], 20, stride=5, split="random")
    assert shuffled.leaky
    assert rows_of(shuffled, shuffled.folds[0].train) & rows_of(shuffled, shuffled.folds[0].test)


def test_groups_of_few_classes_are_dealt_to_the_smallest_fold():
    classes = [(0, 1), (2, 3), (0, 1), (2, 3), (0, 1, 2, 3)]
    labels = np.concatenate([np.repeat(own, 6) for own in classes])
    groups = np.repeat(range(5), [6 * len(own) for own in classes])
    tests = [test for _, _, test in split.deal_groups(labels, groups)]
    assert sorted(len(np.unique(groups[test])) for test in tests) == [1] * 5


def test_one_class_in_a_part_is_refused(rng):
    _, rows, label = recording(rng, events=((100, 110),))
    one = split.Series("s", rows, label.astype(bool), "s", "s")
    with pytest.raises(PefourierError, match="has only normal in its"):
        split.split_series("s", [one], 20)
