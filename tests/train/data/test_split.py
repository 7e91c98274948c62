"""Windows and folds of recordings: nothing leaks that need not."""

from itertools import pairwise

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


def campaign(rng, lengths=(1200, 1197)):
    """Recordings that are dealt together; an event moves a border of the first one alone."""
    found = []
    for number, n in enumerate(lengths):
        _, rows, label = recording(rng, n=1200)
        if number == 0:
            label[470:500] = 1  # about the border at 480
        found.append(
            split.Series(f"s{number}", rows[:n], label[:n].astype(bool), f"s{number}", "c")
        )
    return found


@pytest.mark.parametrize("how", ["blocks", "chronological"])
def test_what_is_tested_is_trained_on_at_no_other_place_at_that_time(rng, how):
    series = campaign(rng)
    task = split.split_series("s", series, 20, stride=5, split=how)
    dropped = 0
    for fold in task.folds:
        times = [
            {row % 1200 if row < 1200 else row - 1200 for row in rows_of(task, part)}
            for part in (fold.train, fold.valid, fold.test)
        ]
        assert not times[0] & times[2]
        assert not times[1] & times[2]
        used = np.concatenate([fold.train, fold.valid, fold.test])
        dropped += len(task.starts) - len(np.unique(used))
    assert how == "chronological" or dropped


def test_borders_are_the_same_rows_in_all_recordings_of_one_length(rng):
    """Nominal ones were parts of each recording's own length."""
    quiet = [
        split.Series(name, np.zeros((n, 1), np.float32), np.zeros(n, bool), name, "c")
        for name, n in (("a", 1212), ("b", 1200), ("c", 900))  # a hundredth apart
    ]
    spans = split.block_spans(quiet, 10, 20)
    edges = {
        first: [span.start - first for span in spans if span.first == first]
        for first in (0, 1212, 2412)
    }
    assert edges[0] == edges[1212] == [0, *(i * 1212 // 10 + 10 for i in range(1, 10))]
    assert edges[2412] == [0, *range(100, 900, 90)]  # it ran at another time


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


def test_scale_is_that_of_the_rows_that_train(rng):
    _, rows, label = recording(rng)
    one = split.Series("s", rows, label.astype(bool), "s", "s")
    for fold in (task := split.split_series("s", [one], 20, own_scale=True)).folds:
        seen = task.rows[sorted(rows_of(task, fold.train))].astype(float)
        np.testing.assert_allclose(fold.mean, seen.mean(axis=0), rtol=1e-5)
        np.testing.assert_allclose(fold.scale, seen.std(axis=0), rtol=1e-5)


def test_blocks_are_a_window_apart():
    quiet = split.Series("a", np.zeros((1200, 1), np.float32), np.zeros(1200, bool), "a", "a")
    assert [b.start - a.stop for a, b in pairwise(split.block_spans([quiet], 10, 20))] == [20] * 9


def test_of_windows_at_another_place_those_stay_that_share_no_row_with_one_tested():
    spans = [split.Span(100 * i, 100 * i + 100, ("c", i), "c", 100 * i) for i in (0, 1)]
    none = np.zeros(0, dtype=int)
    times = split.ticks_of_test(spans, [np.array([30]), none], [True, False], 20)
    _, kept = split.outside(spans, [none, 100 + np.arange(81)], times, 20)
    assert (kept - 100).tolist() == [*range(11), *range(50, 81)]


def test_shuffled_folds_are_of_one_size():
    labels = np.repeat([0, 1, 2], [6, 7, 8])
    sizes = [len(test) for _, _, test in split.deal_within_classes(labels)]
    assert sorted(sizes) == [4, 4, 4, 4, 5]


def test_borders_keep_away_from_events_of_what_was_recorded_with_it():
    labels = np.zeros((2, 1200), dtype=bool)
    labels[0, 470:500] = True  # about the border at 480
    rows = np.zeros((1200, 1), np.float32)
    both = [split.Series(name, rows, own, "r", "c") for name, own in zip("ab", labels, strict=True)]
    first, second = (
        [s.start - s.first for s in split.block_spans(both, 10, 20) if s.first == at]
        for at in (0, 1200)
    )
    assert first == second != [0, *range(130, 1200, 120)]


def test_rows_anomalous_in_a_longer_recording_alone_count():
    labels = [np.array(one, dtype=bool) for one in ([1, 0, 0], [0, 0, 0, 1, 0], [0, 1])]
    assert split.anomalous_in_any(labels).tolist() == [True, True, False, True, False]
