"""Data as tasks: archives of a user, leaks between parts, and errors."""

import os

import numpy as np
import pytest
from refusals import refusal
from training import read_task

from pefourier.train.data import load, split
from pefourier.train.ensembles import remarks_on_task

RNG = np.random.default_rng(1)
X = RNG.normal(size=(40, 5, 2))
Y = np.arange(40) % 2


def archive(tmp_path, **arrays):
    np.savez(tmp_path / "own.npz", **arrays)
    return tmp_path / "own.npz"


REFUSED = {  # arrays of an archive, and part of the error
    "one axis": ({"X": X[:, 0, 0]}, "X of shape (n, length, channels)"),
    "a number": ({"X": np.array(1.5)}, "X of shape"),
    "too few y": ({"y": Y[:-1]}, "y of shape (n,)"),
    "one class": ({"y": Y * 0}, "1 classes in 40"),
    "classes of one": ({"y": np.arange(40)}, "40 classes in 40"),
    "missing": ({"X": np.where(X == X[7, 3, 1], np.nan, X)}, "example 7, row 3, channel 1"),
    "large": ({"X": np.where(X > 2, 1e300, X)}, "1e+300"),
    "infinite": ({"X": np.where(X > 2, np.inf, X)}, "inf"),
    **{f"{y[0]}": ({"y": y}, f"{y[0]}") for y in (Y - np.inf, Y + 0.5, Y * np.nan)},
    "groups of a class": ({"groups": Y}, "each group has one class"),
    **{
        name: ({"groups": groups}, "groups must be 40")
        for name, groups in (("few", Y[:4]), ("nan", Y * np.nan), ("no", np.array(1)))
    },
    "objects": ({"groups": Y.astype(object)}, "Python objects"),
    **{
        f"lengths {wrong[0]}": ({"lengths": wrong}, "lengths must be")
        for wrong in (Y, Y + 5, Y[:3] + 2, Y + 1.5)
    },
    "other names": ({"Z": X, "X": None}, "'Z' (40, 5, 2)"),
    "rows": ({"X": None, "rows": X[0], "label": Y[:5]}, "write a labelled recording as .csv"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_archives_are_refused_in_one_line(tmp_path, name):
    arrays, named = REFUSED[name]
    arrays = {"X": X, "y": Y, **arrays}
    arrays = {name: array for name, array in arrays.items() if array is not None}
    with refusal(part=named):
        read_task(archive(tmp_path, **arrays))


def test_what_is_no_archive_is_stated(tmp_path):
    os.mkfifo(tmp_path / "pipe.npz")
    (tmp_path / "folder.npz").mkdir()
    (tmp_path / "text.npz").write_bytes(b"X,y\n1,2\n")
    np.save(tmp_path / "array.npy", X)
    (tmp_path / "array.npy").rename(tmp_path / "array.npz")
    for name in ("pipe", "folder", "missing", "text", "array"):
        with refusal(rf"{name}\.npz"):
            read_task(tmp_path / f"{name}.npz")


def test_examples_of_a_group_stay_on_one_side(tmp_path, rng):
    groups = rng.integers(0, 23, 300)  # people with several recordings each
    y = (rng.random(300) < 0.1 + 0.6 * (groups % 3 == 0)).astype(int) + (groups % 7 == 5)
    x = rng.normal(size=(300, 4, 2))
    path = archive(tmp_path, X=x, y=y, groups=np.array([f"person {g}" for g in groups]), time=y)
    task = read_task(path)
    assert sorted(np.concatenate([fold.test for fold in task.folds])) == list(range(300))
    for fold in task.folds:
        assert sum(len({*groups[one]}) for one in (fold.train, fold.valid, fold.test)) == 23
    assert (task.leaky, task.groups) == (False, 23)
    assert any("'time' (300,)" in line for line in remarks_on_task(task))
    shuffled = read_task(path, split="random")
    assert shuffled.leaky
    assert set(groups[shuffled.folds[0].train]) & set(groups[shuffled.folds[0].test])


BAD = [  # a dataset, options, and part of the error
    *(("ordr", {}, "'order'"), ("SMD", {}, "'smd'"), ("", {}, "unknown dataset ''")),
    ("order:nois=1", {}, "'noise'"),
    *((f"order:{text}", {}, f"'{text}'") for text in ("noise=-1", "count=10", "length=3")),
    *(("order:count=9999999,length=999", {}, "67108864"), ("order:count", {}, "count=1000")),
    *(("lags:long=1", {}, "long=1"), ("grid:gap=7", {}, "gap=7")),
    *((f"grid:{text}", {}, "0 < gap") for text in ("gap=0", "height=0", "count=999999,height=99")),
    *(("order", {"window": 5}, "--window"), ("order", {"folds": 9}, "--folds")),
    *(("order", {"folds": 0}, "--folds"), ("order", {"resamples": 3}, "--resamples")),
    ("uea:GunPoint", {"resamples": 0}, "--resamples"),
    *(
        ("own.csv", own, f"--{next(iter(own))} must be a whole number")
        for own in ({"window": 0}, {"window": 10**22}, {"stride": 10**22})
    ),
]


@pytest.mark.parametrize(("name", "options", "named"), BAD)
def test_bad_requests_are_refused(tmp_path, monkeypatch, name, options, named):
    monkeypatch.chdir(tmp_path)
    lines = [f"{t},{t % 7},{int(t % 100 >= 80)}" for t in range(400)]
    (tmp_path / "own.csv").write_text("\n".join(["time,a,label", *lines]))
    with refusal(part=named):
        read_task(name, **options)


def test_parts_of_an_archive_are_trained_and_tested_on(tmp_path, rng):
    x, y = rng.normal(size=(60, 5, 2)), np.array(["a", "b"])[np.arange(60) % 2]
    parts = {"X_train": x[:40], "y_train": y[:40], "X_test": x[40:], "y_test": y[40:]}
    path = archive(tmp_path, **parts)
    (fold,) = read_task(path).folds
    assert fold.test.tolist() == list(range(40, 60))
    assert sorted([*fold.train, *fold.valid]) == list(range(40))
    assert [len(f.test) for f in read_task(path, resamples=7).folds] == [20] * 7
    assert len(read_task(path, split="random").folds) == 5
    for change in ({"X_test": x[40:, :4]}, {"y_test": y[:19]}, {"y_test": np.array("a")}):
        with refusal(r"X_test \("):
            read_task(archive(tmp_path, **parts | change))
    for own, how in ((parts, "random"), ({"X": x, "y": y}, "blocks")):
        with refusal("--resamples"):
            read_task(archive(tmp_path, **own), resamples=2, split=how)


@pytest.mark.parametrize(
    ("labels", "names", "classes", "positive"),
    [
        (np.where(np.arange(60) % 5, "normal", "anomaly"), (), ("normal", "anomaly"), "anomaly"),
        (np.where(np.arange(60) % 5, "a", "b"), ("a",), ("b", "a"), "a"),
        ((np.arange(60) % 5 > 0).astype(float), (), ("1", "0"), "0"),
        (np.arange(60) % 2, (), ("0", "1"), None),
        (np.arange(60) % 2, ("0",), ("1", "0"), "0"),
        (np.arange(60) % 3, (), ("0", "1", "2"), None),
        (np.arange(60) >= 23, (), ("True", "False"), "False"),
        (np.arange(60) >= 24, (), ("False", "True"), None),
    ],
)
def test_the_rarer_class_is_positive_unless_one_is_named(rng, labels, names, classes, positive):
    task = split.from_examples("x", rng.normal(size=(60, 4, 1)), labels)
    (found,) = load.name_positives([task], names)
    assert (found.classes, found.positive) == (classes, positive)
    reported = [classes[label] for label in found.labels]
    assert reported == [f"{x:.0f}" if labels.dtype.kind == "f" else str(x) for x in labels]
    for wrong in (classes[:2], ("upp",)):
        with refusal(r"names both|'upp'|has 3"):
            load.name_positives([task], wrong)


@pytest.mark.parametrize("how", ["previous", "mean", "drop"])
def test_a_channel_without_numbers_is_refused(how):
    with refusal("here is missing"):
        split.fill_series([np.array([[np.nan, 1.0]] * 2)], how, lambda *_: "here")
