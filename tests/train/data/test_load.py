"""Data as tasks: the counts of published splits, layouts, what leaks and what is refused."""

import io
import os
import re
import tracemalloc
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from stored import HEADER, npy_bytes
from training import recording

from pefourier.errors import PefourierError
from pefourier.train.data import examples, load, recordings, split


def test_published_sets_are_read_from_a_folder_of_data():
    names = ("smd", "uea:GunPoint", "order", "mine.npz")
    assert [name for name in names if load.reads_data_folder(name)] == ["smd", "uea:GunPoint"]


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
        (
            {"X": np.where(X > 2, np.nan, X), "y": Y},
            "give --missing previous, mean or drop",
        ),
        ({"X": np.where(X > 2, 1e300, X), "y": Y}, "is 1e+300; scale such values before training"),
        ({"X": X, "y": Y - np.inf}, "whole numbers or names; got -inf"),
        ({"X": X, "y": Y, "groups": Y}, "has 2 groups, each of one class: none can be tested"),
        (
            {"X": X, "y": Y, "groups": Y[:4]},
            "groups must be 40, one for each example; got shape (4",
        ),
        ({"X": X, "y": Y, "group": Y}, "holds 'group'; name it groups, or leave it out"),
        ({"X": X, "y": Y, "groups": Y * np.nan}, "groups hold nan; give each such example a group"),
        ({"rows": X[0], "label": Y[:5], "groups": Y}, "groups go with examples X, y"),
        ({"X": X, "y": Y, "groups": Y.astype(object)}, "holds Python objects; save numbers, or na"),
        ({"Z": X}, "holds 'Z' (40, 5, 2); expected X and y, or rows and label"),
        ({"rows": X[0], "label": Y[:4]}, ", labels (n,); got (5, 2) and (4,)"),
        (
            {"rows": X[0], "label": Y[:5]},
            "the longest series has 5 rows; choose a --window of at most that",
        ),
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
    for spoil in (
        lambda stream: stream.write(b"X,y\n1,2\n"),
        lambda stream: np.save(stream, X),
        lambda stream: None,
    ):
        with path.open("wb") as stream:
            spoil(stream)
        reason = "it is no archive of arrays, as numpy.savez writes; write it again"
        with pytest.raises(
            PefourierError, match=rf"own\.npz' is not a readable .npz file: {reason}$"
        ):
            load.load_task(str(path))


def test_a_pipe_and_a_folder_are_no_archive(tmp_path):
    os.mkfifo(tmp_path / "own.npz")
    os.mkdir(tmp_path / "folder.npz")
    for name, what in {"own": "pipe or a device", "folder": "folder"}.items():
        message = rf"{name}\.npz' is a {what}; put a file there, to be read twice$"
        with pytest.raises(PefourierError, match=message):
            load.load_task(str(tmp_path / f"{name}.npz"))
    with pytest.raises(PefourierError, match=r"^unknown file 'own\.npy'\. Did you mean 'own\.npz'"):
        load.from_archive(tmp_path / "own.npy", None, None, "blocks")


def odd(stored):
    """An array that no reader of data expects, as numpy.save writes it."""
    stream = io.BytesIO()
    np.save(stream, stored)
    return stream.getvalue()


NOT_READ = "' is not a readable .npz file: its header does not describe an array; write it again"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("X", npy_bytes(b"{'descr': '<f8', 'shape': (40, 5, 2"), NOT_READ),
        ("X", npy_bytes(b"'" * 30), NOT_READ),
        ("X", npy_bytes(b"[" * 9000), NOT_READ),
        (
            "X",
            odd(np.array(1.5)),
            "expected X of shape (n, length, channels) and y of shape (n,); ",
        ),
        ("y", odd(np.array(1)), "expected X of shape (n, length, channels) and y of shape (n,); "),
        ("groups", odd(np.array(1)), "groups must be 40, one for each example; got shape ()"),
        (
            "X",
            odd(np.ones((40, 5), "f4,i4")),
            "' holds 'X' (40, 5) of void64; expected real numbers",
        ),
        (
            "y",
            odd(np.ones(40, "f4,i4")),
            "' holds 'y' (40,) of void64; expected numbers or text of a fixed width",
        ),
        ("y", odd(np.ones(40, "M8[s]")), "' holds 'y' (40,) of datetime64[s]; expected numbers or"),
        ("X", odd(np.ones((40, 5, 2), "U3")), "' holds 'X' (40, 5, 2) of str96; expected real num"),
        ("X", odd(np.full((40, 5, 2), None)), "' holds Python objects; save numbers, or names as"),
        (
            "X",
            npy_bytes(HEADER.replace(b"(5, 3)", b"(10000000000,)"), bytes(80)),
            "its shape (10000000000,) needs 80000000000 bytes, 80 are there; write it",
        ),
        (
            "X",
            npy_bytes(HEADER.replace(b"'<f8'", b"'|O'").replace(b"(5, 3)", b"(40, 5, 2)"))
            + b"A" * 3200,
            "' holds Python objects; save numbers, or names as np.array(names, dtype=str)",
        ),
    ],
    ids=range(13),
)
def test_odd_arrays_are_refused_by_their_header(tmp_path, name, content, message):
    """Unclosed literals, no axes, structures, pointers."""
    arrays = {"X": odd(X), "y": odd(Y), "groups": odd(Y)} | {name: content}
    with zipfile.ZipFile(tmp_path / "own.npz", "w") as archive:
        for key, member in arrays.items():
            archive.writestr(f"{key}.npy", member)
    with pytest.raises(PefourierError, match=re.escape(message)) as caught:
        load.load_task(str(tmp_path / "own.npz"))
    assert "\n" not in str(caught.value)


def test_arrays_of_half_precision_are_read_without_a_warning(tmp_path, rng):
    x = rng.normal(size=(40, 5, 2))
    halves, floats = (
        load.load_task(spoiled(tmp_path, X=x.astype(np.float16).astype(kind), y=Y))
        for kind in (np.float16, np.float32)
    )
    np.testing.assert_array_equal(halves.rows, floats.rows)
    with pytest.raises(PefourierError, match=r"row 0, column 1 is inf; fill missing values before"):
        load.load_task(spoiled(tmp_path, X=np.full((40, 5, 2), [1, np.inf], np.float16), y=Y))
    train, rows, label = (one.astype(np.float16) for one in recording(rng))
    halves, floats = (
        load.load_task(
            spoiled(tmp_path, train=train.astype(kind), rows=rows.astype(kind), label=label),
            window=20,
        )
        for kind in (np.float16, np.float32)
    )
    np.testing.assert_array_equal(halves.rows, floats.rows)


def test_what_an_archive_would_take_is_weighed_before_it_is_read(tmp_path, monkeypatch):
    """300 MB of zeros in 300 kB; and what does not fit into the machine."""
    path, header = tmp_path / "own.npz", HEADER.replace(b"(5, 3)", b"(40, 10000, 100)")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("y.npy", odd(Y))
        with archive.open("X.npy", "w") as member:
            member.write(npy_bytes(header))
            for _ in range(40):
                member.write(bytes(8 * 10**6))
        held = archive.getinfo("X.npy").compress_size
    limits = f"the limits are {recordings.memory_limit()} and, above 268435456, 100 times the bytes"
    message = f"' has {held} bytes for an array that takes 320000000; {limits} in the file"
    tracemalloc.start()
    with pytest.raises(PefourierError, match=f"{re.escape(message)}$"):
        load.load_task(str(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**21
    monkeypatch.setattr(recordings, "memory_limit", lambda: 3000)
    with pytest.raises(PefourierError, match=r"' has 3328 bytes for an array that takes 3200; the"):
        load.load_task(spoiled(tmp_path, X=X, y=Y))


@pytest.mark.parametrize("label", [0, 1])
def test_a_class_that_no_window_has_is_said(tmp_path, rng, label):
    np.savez(tmp_path / "own.npz", rows=rng.normal(size=(4000, 2)), label=np.full(4000, label))
    lacking = ["anomaly", "normal"][label]
    with pytest.raises(PefourierError, match=f"windows of 20 rows.*, none is of class {lacking}; "):
        load.load_task(str(tmp_path / "own.npz"), window=20)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("ordr", {}, "unknown dataset 'ordr'. Did you mean 'order'?"),
        ("SMD", {}, "unknown dataset 'SMD'. Did you mean 'smd'?"),
        (
            "",
            {},
            "unknown dataset ''. Known: grid, lags, order, msl, smd, digits, uea:NAME, a .npz",
        ),
        ("order:nois=1", {}, "unknown parameter of order 'nois'. Did you mean 'noise'?"),
        ("order:noise=-1", {}, "no negative noise"),
        ("order:count", {}, "order:count lacks its value; give count=1000"),
        ("lags:long=1", {}, "lags needs 0 < short < long < length"),
        ("order", {"window": 5}, "--window and --stride are for recordings"),
        ("order", {"folds": 9}, "--folds must be from 1 to 1 for order; got 9"),
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
    with pytest.raises(PefourierError, match="--window must be a whole number from 1 on; got 0"):
        load.load_task(str(tmp_path / "own.npz"), window=0)
    for sizes in ({"window": 2**63 - 1}, {"window": 10**22}, {"window": 9, "stride": 10**22}):
        with pytest.raises(
            PefourierError, match=r"must be a whole number up to 67108864; got [19]"
        ):
            load.load_task(str(tmp_path / "own.npz"), **sizes)
    np.savez(tmp_path / "few.npz", rows=np.zeros((5, 2)), label=[0, 1, 0, 0, 0])
    with pytest.raises(PefourierError, match=r"of 5 windows .*, fold 0 has "):
        load.load_task(str(tmp_path / "few.npz"), window=1)


def test_parts_of_an_archive_are_trained_and_tested_on(tmp_path, rng):
    x, y = rng.normal(size=(60, 5, 2)), np.array(["a", "b"])[np.arange(60) % 2]
    path = str(tmp_path / "x.npz")
    np.savez(path, X_train=x[:40], y_train=y[:40], X_test=x[40:], y_test=y[40:])
    (fold,) = load.load_task(path).folds
    assert fold.test.tolist() == list(range(40, 60))
    assert sorted([*fold.train, *fold.valid]) == list(range(40))
    resampled = load.load_task(path, resamples=3)
    assert [len(f.test) for f in resampled.folds] == [20] * 3
    assert len(load.load_task(path, split_by="random").folds) == 5
    with pytest.raises(PefourierError, match="--window and --stride are for recordings"):
        load.load_task(path, window=2)
    np.savez(path, X_train=x[:40], y_train=y[:40], X_test=x[40:, :4], y_test=y[40:])
    with pytest.raises(
        PefourierError, match=r"expected X_test of shape \(n, length, channels\), as"
    ):
        load.load_task(path)
    np.savez(path, X_train=x[:40], y_train=np.arange(40) % 2, X_test=x[40:], y_test=y[40:])
    with pytest.raises(PefourierError, match="must both hold numbers, or both names"):
        load.load_task(path)


@pytest.mark.parametrize(
    ("labels", "names", "classes"),
    [
        (np.where(np.arange(60) % 5, "normal", "anomaly"), (), ("normal", "anomaly")),
        (np.where(np.arange(60) % 5, "a", "b"), (), ("a", "b")),
        (np.where(np.arange(60) % 5, "normal", "anomaly"), ("normal",), ("anomaly", "normal")),
        ((np.arange(60) % 5 > 0).astype(float), (), ("1", "0")),
        (np.arange(60) % 2, ("0",), ("1", "0")),
        (np.arange(60) % 3, (), ("0", "1", "2")),
    ],
)
def test_the_rarer_class_is_positive_unless_one_is_named(rng, labels, names, classes):
    given = examples.from_examples("x", rng.normal(size=(60, 4, 1)), labels, (), "blocks")
    (found,) = load.name_positives([given], names)
    assert found.classes == classes
    told = [classes[label] for label in found.labels]
    assert told == [f"{x:.0f}" if labels.dtype.kind == "f" else str(x) for x in labels]


def test_of_balanced_classes_neither_is_the_positive_one(rng):
    y = np.array(["up", "down"])[np.arange(60) % 2]
    task = examples.from_examples("x", rng.normal(size=(60, 4, 1)), y, (), "blocks")
    (balanced,) = load.name_positives([task], ())
    assert (balanced.positive, balanced.classes) == (None, ("down", "up"))
    for few, positive in ((23, "up"), (24, None), (36, None), (37, "down")):
        y = np.array(["up", "down"])[(np.arange(60) >= few).astype(int)]
        unequal = examples.from_examples("x", rng.normal(size=(60, 4, 1)), y, (), "blocks")
        assert load.name_positives([unequal], ())[0].positive == positive
        assert load.name_positives([unequal], ("down",))[0].positive == "down"
    with pytest.raises(PefourierError, match="names both classes"):
        load.name_positives([task], ("up", "down"))
    with pytest.raises(PefourierError, match=r"unknown class .* 'upp'\. Did you mean 'up'"):
        load.name_positives([task], ("up", "upp"))
    drawn = load.load_task("order:count=60,length=6")
    three = replace(task, classes=("a", "b", "c"))
    with pytest.raises(PefourierError, match=r"needs a dataset of two classes, and .* has 3"):
        load.name_positives([three], ("a",))
    assert load.name_positives([drawn], ())[0].positive == "B first"


@pytest.mark.parametrize("kind", ["X", "rows", "parts"])
def test_missing_numbers_are_named_or_dealt_with_as_asked(tmp_path, rng, kind):
    x, y = rng.normal(size=(40, 6, 2)), np.arange(40) % 2
    x[7, 0, 1] = x[7, 3, 1] = np.nan
    rows, label = rng.normal(size=(4000, 2)), (np.arange(4000) % 200 < 5).astype(int)
    rows[4, 1] = rows[7, 1] = np.nan
    arrays = {
        "X": {"X": x, "y": y},
        "rows": {"rows": rows, "label": label},
        "parts": {"X_train": x[:20], "y_train": y[:20], "X_test": x[20:], "y_test": y[20:]},
    }[kind]
    path = str(tmp_path / "own.npz")
    np.savez(path, **arrays)
    window = 10 if kind == "rows" else None
    where = "row 4, channel 1" if kind == "rows" else "example 7, row 0, channel 1"
    with pytest.raises(PefourierError, match=where):
        load.load_task(path, window=window)
    found = {
        how: load.load_task(path, window=window, missing=how)
        for how in ("previous", "mean", "drop")
    }
    assert [one.filled for one in found.values()] == [2, 2, 0]
    assert split.Dropped("missing", 2) in found["drop"].dropped
    if kind == "rows":
        assert found["previous"].rows[4, 1] == np.float32(rows[3, 1])
        assert found["mean"].rows[7, 1] == np.float32(np.nanmean(rows[:, 1]))
        np.testing.assert_array_equal(found["drop"].rows[4], rows[5].astype(np.float32))
    else:
        own = {how: one.rows.reshape(40, 6, 2)[7, :, 1] for how, one in found.items()}
        given = x[7, :, 1].astype(np.float32)
        assert own["previous"].tolist() == given[[1, 1, 2, 2, 4, 5]].tolist()
        assert own["mean"][3] == np.float32(np.nanmean(x[7, :, 1]))
        assert own["drop"][:4].tolist() == given[[1, 2, 4, 5]].tolist()
        assert found["drop"].lengths[7] == 4
