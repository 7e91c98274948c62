"""Data as tasks: the counts of published splits, layouts, what leaks and what is refused."""

import re

import numpy as np
import pytest
from training import recording

from pefourier.errors import PefourierError
from pefourier.train.data import load


def test_npz_of_examples_with_three_classes_and_of_a_labelled_series(tmp_path, rng):
    np.savez(tmp_path / "x.npz", X=rng.normal(size=(45, 6, 2)), y=np.repeat(["a", "b", "c"], 15))
    task = load.load_task(str(tmp_path / "x.npz"))
    assert task.classes == ("a", "b", "c")
    assert (task.length, task.rows.shape) == (6, (270, 2))
    _, rows, label = recording(rng)
    np.savez(tmp_path / "s.npz", rows=rows, label=label)
    cut = load.load_task(str(tmp_path / "s.npz"), window=20)
    assert cut.length == 20
    assert cut.folds[0].mean.shape == (3,)


def spoiled(tmp_path, **arrays):
    path = tmp_path / "bad.npz"
    np.savez(path, **arrays)
    return str(path)


RNG = np.random.default_rng(1)
X = RNG.normal(size=(40, 5, 2))
Y = np.arange(40) % 2


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"X": X[:, :, 0], "y": Y},
            "expected X of shape (n, length, channels) and y of shape (n,)",
        ),
        ({"X": X, "y": Y[:-1]}, "expected X of shape (n, length, channels) and y of shape (n,)"),
        ({"X": X, "y": Y * 0}, "y has 1 classes in 40 examples"),
        ({"X": np.where(X > 2, np.nan, X), "y": Y}, "fill missing values before training"),
        ({"X": np.where(X > 2, 1e300, X), "y": Y}, "is 1e+300; scale such values before training"),
        ({"X": X, "y": Y - np.inf}, "whole numbers or names; got -inf"),
        ({"X": X, "y": Y, "groups": Y}, "has 2 groups; 5 folds of whole groups need as many"),
        (
            {"X": X, "y": Y, "groups": Y[:4]},
            "groups must be 40, one for each example; got shape (4",
        ),
        ({"X": X, "y": Y, "group": Y}, "holds 'group'; name it groups, or leave it out"),
        ({"X": X, "y": Y, "groups": Y * np.nan}, "groups hold nan; give each such example a group"),
        ({"rows": X[0], "label": Y[:5], "groups": Y}, "groups go with examples X, y"),
        ({"X": X, "y": Y, "groups": Y.astype(object)}, "holds Python objects; save numbers, or na"),
        ({"Z": X}, "holds Z; expected X and y, or rows and label"),
        ({"rows": X[0], "label": Y[:4]}, "rows of shape (5, 2) and labels of shape (4,)"),
        ({"rows": X[0], "label": Y[:5]}, "has no window of 100 rows: its longest series has 5"),
    ],
    ids=range(15),
)
def test_bad_archives_are_refused_in_one_line(tmp_path, arrays, message):
    with pytest.raises(PefourierError, match=re.escape(message)) as caught:
        load.load_task(spoiled(tmp_path, **arrays))
    assert "\n" not in str(caught.value)


def test_examples_of_a_group_stay_on_one_side(tmp_path, rng):
    groups = rng.integers(0, 23, 300)  # people with several recordings each
    y = (rng.random(300) < 0.1 + 0.6 * (groups % 3 == 0)).astype(int) + (groups % 7 == 5)
    x = rng.normal(size=(300, 4, 2))
    path = spoiled(tmp_path, X=x, y=y, groups=np.array([f"person {g}" for g in groups]))
    task = load.load_task(path)
    tested = np.concatenate([fold.test for fold in task.folds])
    assert sorted(tested) == list(range(300))
    for k, fold in enumerate(task.folds):
        parts = [set(groups[one]) for one in (fold.train, fold.valid, fold.test)]
        assert sum(map(len, parts)) == 23
        assert set(fold.valid) == set(task.folds[(k + 1) % 5].test)
    counts = np.array([np.bincount(task.labels[fold.test], minlength=3) for fold in task.folds])
    shares = counts[:, :2] / counts.sum(axis=0)[:2]  # the third class has few groups
    assert np.ptp(shares, axis=0).max() < 0.1, shares
    assert not task.leaky
    shuffled = load.load_task(path, split_by="random")
    assert shuffled.leaky
    assert set(groups[shuffled.folds[0].train]) & set(groups[shuffled.folds[0].test])
    load.load_task(
        spoiled(tmp_path, X=x, y=np.arange(300) % 2, groups=np.arange(300) // 60)
    )  # just five
    with pytest.raises(PefourierError, match="groups and --split chronological exclude each other"):
        load.load_task(path, split_by="chronological")


def test_what_is_no_archive_is_said(tmp_path):
    path = tmp_path / "own.npz"
    for spoil in (lambda stream: stream.write(b"X,y\n1,2\n"), lambda stream: np.save(stream, X)):
        with path.open("wb") as stream:
            spoil(stream)
        with pytest.raises(PefourierError, match=r"own\.npz is no archive of arrays, as numpy"):
            load.load_task(str(path))
    path.write_bytes(b"")
    with pytest.raises(PefourierError, match=r"own\.npz is damaged or half downloaded \(EOFErr"):
        load.load_task(str(path))


@pytest.mark.parametrize("label", [0, 1])
def test_a_class_that_no_window_has_is_said(tmp_path, rng, label):
    np.savez(tmp_path / "own.npz", rows=rng.normal(size=(4000, 2)), label=np.full(4000, label))
    lacking = ["anomaly", "normal"][label]
    with pytest.raises(PefourierError, match=f"no window of 20 rows is of class {lacking}; "):
        load.load_task(str(tmp_path / "own.npz"), window=20)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("ordr", {}, "unknown dataset 'ordr'. Did you mean 'order'?"),
        ("SMD", {}, "unknown dataset 'SMD'. Did you mean 'smd'?"),
        ("", {}, "unknown dataset ''. Known: lags, order, msl, smd, uea:NAME, a .npz"),
        ("order:nois=1", {}, "unknown parameter of order 'nois'. Did you mean 'noise'?"),
        ("order:noise=-1", {}, "no negative noise"),
        ("order:count", {}, "order:count lacks its value; give count=1000"),
        ("lags:long=1", {}, "lags needs 0 < short < long < length"),
        ("order", {"window": 5}, "--window and --stride are for recordings"),
        ("order", {"folds": 9}, "--folds must be from 1 to 1 for order, split blocks; got 9"),
    ],
)
def test_bad_requests_are_refused(name, options, message):
    with pytest.raises(PefourierError, match=re.escape(message)):
        load.load_task(name, **options)


def test_other_arrays_beside_examples_are_no_matter(tmp_path):
    assert len(load.load_task(spoiled(tmp_path, X=X, y=Y, rows=X[0], label=Y)).labels) == 40


def test_a_window_of_no_rows_is_refused(tmp_path, rng):
    label = np.arange(400) % 100 >= 80
    np.savez(tmp_path / "own.npz", rows=rng.normal(size=(400, 2)), label=label)
    with pytest.raises(PefourierError, match="--window must be 1 or more rows; got 0"):
        load.load_task(str(tmp_path / "own.npz"), window=0)
    for sizes in ({"window": 2**63 - 1}, {"window": 10**22}, {"window": 9, "stride": 10**22}):
        with pytest.raises(PefourierError, match=r"must be at most 67108864 rows; got [19]"):
            load.load_task(str(tmp_path / "own.npz"), **sizes)
    np.savez(tmp_path / "few.npz", rows=np.zeros((5, 2)), label=[0, 1, 0, 0, 0])
    with pytest.raises(PefourierError, match=r"few.npz, split blocks: fold 0 has "):
        load.load_task(str(tmp_path / "few.npz"), window=1)
