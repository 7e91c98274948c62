"""Data as tasks: the counts of published splits, layouts, what leaks and what is refused."""

import hashlib
import re
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from pefourier.errors import PefourierError
from pefourier.train.data import load, recordings, split, synthetic
from pefourier.train.data.examples import from_examples

SHARED = Path(__file__).parents[4] / "shared" / "data"
published = pytest.mark.skipif(not SHARED.is_dir(), reason="needs ../shared/data (SMD and MSL)")


@cache
def published_recordings(name):
    return recordings.read_recordings(load.published_source(name), str(SHARED))


@published
@pytest.mark.parametrize(
    ("name", "window", "windows", "positive"),
    [
        ("smd", 64, 6825, 570),
        ("smd", 100, 4223, 462),
        ("msl", 64, 933, 148),
        ("msl", 100, 550, 107),
    ],
)
def test_windows_of_the_blocks_split_are_as_many_as_published(name, window, windows, positive):
    task = split.split_series(
        name, published_recordings(name), window, blocks=load.published_source(name).blocks
    )
    assert (len(task.tested), int(task.labels[task.tested].sum())) == (windows, positive)
    assert sum(len(fold.test) for fold in task.folds) == windows
    assert not task.leaky
    if name == "msl":
        assert task.rows.shape[1] == 55


@published
def test_windows_are_gathered_and_not_kept():
    task = split.split_series("smd", published_recordings("smd"), 64, stride=1)
    assert len(task.starts) > 300_000
    held = sum(a.nbytes for a in (task.rows, task.starts, task.labels))
    assert held < 100e6  # a copy of every window would be 3 GB


EVENTS = tuple((50 + 120 * i, 60 + 120 * i) for i in range(10))


def recording(rng, n=1200, channels=3, events=EVENTS):
    label = np.zeros(n, dtype=np.uint8)
    for first, last in events:
        label[first : last + 1] = 1
    test = rng.normal(size=(n, channels)).astype(np.float32) + 3 * label[:, None]
    return rng.normal(size=(n, channels)).astype(np.float32), test.astype(np.float32), label


def archives(folder, rng, names=("machine-1-1", "machine-1-2")):
    folder.mkdir(parents=True)
    found = {name: recording(rng) for name in names}
    for name, (train, test, label) in found.items():
        np.savez(folder / f"{name}.npz", train=train, test=test, label=label)
    return found


def test_smd_in_archives_and_in_text_are_the_same_task(tmp_path, rng):
    found = archives(tmp_path / "a" / "smd", rng)
    for part, column in (("train", 0), ("test", 1), ("test_label", 2)):
        folder = tmp_path / "b" / "ServerMachineDataset" / part
        folder.mkdir(parents=True)
        for name, parts in found.items():
            np.savetxt(folder / f"{name}.txt", parts[column], delimiter=",", fmt="%.9g")
    one = load.load_task("smd", str(tmp_path / "a"), 16)
    other = load.load_task("smd", str(tmp_path / "b"), 16)
    np.testing.assert_allclose(one.rows, other.rows, atol=1e-6)
    np.testing.assert_array_equal(one.starts, other.starts)
    for mine, theirs in zip(one.folds, other.folds, strict=True):
        np.testing.assert_array_equal(mine.test, theirs.test)


def test_msl_as_published_counts_both_ends_of_an_event(tmp_path, rng):
    train, test, label = recording(rng)
    for part, rows in (("train", train), ("test", test)):
        (tmp_path / part).mkdir()
        for name in ("A-1", "P-10", "B-2"):
            np.save(tmp_path / part / f"{name}.npy", rows)
    events = f'"{[list(event) for event in EVENTS]}"'
    lines = ["chan_id,spacecraft,anomaly_sequences,class,num_values"]
    lines += [
        f"{name},{craft},{events},[point],1200"
        for name, craft in (("A-1", "MSL"), ("P-10", "MSL"), ("B-2", "SMAP"))
    ]
    (tmp_path / "labeled_anomalies.csv").write_text("\n".join(lines) + "\n")
    (only,) = recordings.read_recordings(load.published_source("msl"), str(tmp_path))
    assert only.name == "A-1"
    np.testing.assert_array_equal(only.label, label.astype(bool))


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


@pytest.mark.parametrize("name", ["order", "lags", "order:noise=0.5,length=9,count=40"])
def test_synthetic_classes_hold_the_same_rows_in_another_order(name):
    x, y, classes = synthetic.draw_examples(name)
    quiet = synthetic.draw_examples(name.split(":")[0] + ":noise=0")
    sums = [quiet[0][quiet[1] == c].sum(axis=(1, 2)) for c in (0, 1)]
    assert {2.0} == set(sums[0]) == set(sums[1])
    assert abs(int((y == 0).sum()) - int((y == 1).sum())) <= 1
    assert len(classes) == 2
    assert x.ndim == 3


def test_scale_of_examples_comes_from_training_windows_alone():
    rng = np.random.default_rng(0)
    x, y = rng.normal(3, 2, (40, 5, 2)), np.arange(40) % 2
    task = from_examples("x", x, y, (), "blocks")
    fold = task.folds[2]
    np.testing.assert_allclose(fold.mean, x[fold.train].mean(axis=(0, 1)), rtol=1e-5)
    np.testing.assert_allclose(fold.scale, x[fold.train].std(axis=(0, 1)), rtol=1e-5)
    assert sorted(np.concatenate([f.test for f in task.folds])) == list(range(40))


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


def test_groups_of_few_classes_are_dealt_to_the_smallest_fold():
    classes = [(0, 1), (2, 3), (0, 1), (2, 3), (0, 1, 2, 3)]
    labels = np.concatenate([np.repeat(own, 6) for own in classes])
    groups = np.repeat(range(5), [6 * len(own) for own in classes])
    tests = [test for _, _, test in split.deal_groups(labels, groups)]
    assert sorted(len(np.unique(groups[test])) for test in tests) == [1] * 5


def test_missing_and_half_downloaded_data_are_said(tmp_path, rng):
    with pytest.raises(PefourierError, match=re.escape("give --data DIR that holds smd/")):
        load.load_task("smd")
    with pytest.raises(PefourierError, match="holds no smd: expected smd/ or Server"):
        load.load_task("smd", str(tmp_path))
    archives(tmp_path / "smd", rng)
    whole = (tmp_path / "smd" / "machine-1-2.npz").read_bytes()
    (tmp_path / "smd" / "machine-1-2.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(PefourierError, match=re.escape("machine-1-2.npz is damaged or half")):
        load.load_task("smd", str(tmp_path), 16)
    (tmp_path / "MANIFEST.csv").write_text("file\nsmd/machine-1-1.npz\nsmd/machine-9-9.npz\n")
    with pytest.raises(PefourierError, match=re.escape("machine-9-9.npz is missing")):
        load.load_task("smd", str(tmp_path), 16)


def as_published(folder, name="A-1"):
    """A channel of MSL with a list of anomalies that the caller spoils."""
    rows = np.random.default_rng(0).normal(size=(1200, 3))
    for part in ("train", "test"):
        (folder / part).mkdir(parents=True, exist_ok=True)
        np.save(folder / part / f"{name}.npy", rows)
    return folder / "labeled_anomalies.csv"


HEAD = "chan_id,spacecraft,anomaly_sequences,class,num_values\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "lacks A-1, whose rows are in"),
        (HEAD, "lacks A-1, whose rows are in"),
        (HEAD + 'B-1,MSL,"[[1, 2]]",[point],1200\n', "lacks A-1, whose rows are in"),
        (HEAD + "A-1,MSL", "is damaged or half downloaded"),
        (HEAD + 'A-1,MSL,"[[1, 2]', "is damaged or half downloaded"),
        (HEAD + 'A-1,SMAP,"[[1, 2]]",[point],1200\n', "holds no recording of msl"),
        ("spacecraft\nSMAP\n", "is damaged or half downloaded (KeyError: 'chan_id')"),
        ("<html>\n<p>404</p>\n", "is damaged or half downloaded (KeyError: 'spacecraft')"),
        *(
            (HEAD + f'A-1,MSL,"{events}",[point],1200\n', f"A-1 has 1200 rows and an event {one}")
            for events, one in (
                *(
                    ("[[7, 5]]", "[7, 5]"),
                    ("[[5, 1200]]", "[5, 1200]"),
                    ("[5, 10]", "5"),
                    ("5", "5"),
                ),
                *(("[[5, 7, 9]]", "[5, 7, 9]"), ("[[1.5, 7]]", "[1.5, 7]")),
                *(("[[-1, 7]]", "[-1, 7]"), ("null", "None")),
            )
        ),
    ],
)
def test_labels_of_msl_are_whole_or_refused(tmp_path, text, message):
    as_published(tmp_path).write_text(text)
    with pytest.raises(PefourierError, match=re.escape(message)):
        load.load_task("msl", str(tmp_path), 16)


def test_one_dataset_is_not_taken_for_another(tmp_path, rng):
    archives(tmp_path / "smd", rng)
    with pytest.raises(
        PefourierError, match=r"holds no msl: expected msl/ or data/ with \.npz arch"
    ):
        load.load_task("msl", str(tmp_path / "smd"))
    as_published(tmp_path / "nasa")
    with pytest.raises(PefourierError, match=r"holds no smd: .* test/ of \.txt files"):
        load.load_task("smd", str(tmp_path / "nasa"))


@pytest.mark.parametrize("part", ["train", "test", "test_label"])
def test_a_machine_without_one_of_its_files_is_said(tmp_path, part):
    for one in ("train", "test", "test_label"):
        (tmp_path / one).mkdir()
        for machine in range(1, 3):
            (tmp_path / one / f"machine-1-{machine}.txt").write_text("0\n1\n" * 600)
    (tmp_path / part / "machine-1-2.txt").unlink()
    with pytest.raises(PefourierError, match=rf"{part}/machine-1-2\.txt is missing"):
        load.load_task("smd", str(tmp_path), 16)


def test_a_foreign_manifest_is_no_matter(tmp_path, rng):
    archives(tmp_path / "smd", rng)
    (tmp_path / "MANIFEST.csv").write_text("name,bytes\nx,1\n")
    assert load.load_task("smd", str(tmp_path), 16).name == "smd"


def test_an_archive_is_the_one_of_the_manifest(tmp_path, rng):
    archives(tmp_path / "smd", rng)
    files = [tmp_path / "smd" / f"machine-1-{number}.npz" for number in (1, 2)]
    sums = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    rows = [f"smd/{file.name},{one}" for file, one in zip(files, sums, strict=True)]
    (tmp_path / "MANIFEST.csv").write_text("\n".join(["file,sha256", *rows, "msl/A-1.npz,0"]))
    assert load.load_task("smd", str(tmp_path), 16).name == "smd"
    files[1].write_bytes(files[0].read_bytes())
    with pytest.raises(PefourierError, match=r"machine-1-2\.npz is not the one of"):
        load.load_task("smd", str(tmp_path), 16)


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


def test_numpys_advice_to_unpickle_is_not_passed_on(tmp_path):
    as_published(tmp_path).write_text(HEAD + 'A-1,MSL,"[[1, 2]]",[point],1200\n')
    (tmp_path / "test" / "A-1.npy").write_text("<html>\n<p>404</p>\n")
    with pytest.raises(
        PefourierError, match=r"A-1\.npy is damaged or half downloaded; download it"
    ):
        load.load_task("msl", str(tmp_path), 16)


@pytest.mark.parametrize("label", [0, 1])
def test_a_class_that_no_window_has_is_said(tmp_path, rng, label):
    np.savez(tmp_path / "own.npz", rows=rng.normal(size=(4000, 2)), label=np.full(4000, label))
    lacking = ["anomaly", "normal"][label]
    with pytest.raises(PefourierError, match=f"no window of 20 rows is of class {lacking}; "):
        load.load_task(str(tmp_path / "own.npz"), window=20)


def test_one_class_in_a_part_is_refused(rng):
    _, rows, label = recording(rng, events=((100, 110),))
    one = split.Series("s", rows, label.astype(bool), "s", "s")
    with pytest.raises(PefourierError, match="has only normal in its"):
        split.split_series("s", [one], 20)


def test_uea_without_aeon_says_what_to_install(monkeypatch):
    for name in ("aeon", "aeon.datasets"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(PefourierError, match=re.escape("pip install 'pefourier[data]'")):
        load.load_task("uea:BasicMotions")


@pytest.mark.filterwarnings("default")  # of aeon and what it imports
def test_uea_sets_keep_their_published_test_part(tmp_path):
    pytest.importorskip("aeon", reason="needs the package aeon")
    task = load.load_task("uea:BasicMotions")
    assert (task.length, task.rows.shape, len(task.classes)) == (100, (8000, 6), 4)
    (fold,) = task.folds  # one test part, tested once
    assert fold.test.tolist() == list(range(40, 80))
    assert sorted([*fold.train, *fold.valid]) == list(range(40))
    with pytest.raises(PefourierError, match="aeon cannot read 'uea:NoSuchSet'"):
        load.load_task("uea:NoSuchSet")
    vowels = load.load_task("uea:JapaneseVowels")  # 7 to 29 rows each
    assert (vowels.length, vowels.rows.shape[1], len(vowels.classes)) == (29, 12, 9)
    last = vowels.rows[28::29][:270]  # filled up in all but the longest
    assert (last == np.median(last, axis=0)).all(axis=1).mean() > 0.9
    head = "@univariate true\n@classLabel true a b\n@data\n"
    for number, text, message in (
        (0, head + "1,2,3:a\n4,5,6:b\n" * 12, ""),
        (1, "", "holds no values in one of its files"),
        (2, head, "holds no values in one of its files"),
        (3, "<html>\n</html>\n", "one of its files"),
        (4, head.replace("univariate true", "univariate false") + "1:2:a\n3:4:b\n", "[1, 2] chann"),
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "S_TRAIN.ts").write_text(head + "1,2,3:a\n4,5,6:b\n" * 12)
        (folder / "S_TEST.ts").write_text(text)
        if number == 0:
            assert len(load.load_task(str(folder)).labels) == 48
            continue
        with pytest.raises(PefourierError, match=re.escape(message)):
            load.load_task(str(folder))


@pytest.mark.parametrize(
    ("files", "held"),
    [
        ((), "neither"),
        (("S_TRAIN",), "S_TRAIN.ts"),
        (("A_TEST", "A_TRAIN", "B_TRAIN"), "A_TRAIN.ts"),
    ],
)
def test_a_folder_of_ts_files_is_one_whole_set(tmp_path, files, held):
    for name in files:
        (tmp_path / f"{name}.ts").write_text("")
    with pytest.raises(PefourierError, match=rf"must hold one \*_TRAIN.ts .*; it holds {held}"):
        load.load_task(str(tmp_path))


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
        ("order", {"window": 5}, "--window and --stride cut series"),
        ("order", {"folds": 9}, "--folds must be from 1 to 1 for order, split blocks; got 9"),
    ],
)
def test_bad_requests_are_refused(name, options, message):
    with pytest.raises(PefourierError, match=re.escape(message)):
        load.load_task(name, **options)


def test_other_arrays_beside_examples_are_no_matter(tmp_path):
    assert len(load.load_task(spoiled(tmp_path, X=X, y=Y, rows=X[0], label=Y)).labels) == 40


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_the_unit_of_a_channel_does_not_matter(rng, unit):
    x = rng.normal(size=(40, 6, 2)) + 3
    task = from_examples("x", x * unit, np.arange(40) % 2, (), "blocks")
    fold = task.folds[0]
    at = task.starts[fold.train][:, None] + np.arange(6)
    np.testing.assert_allclose(((task.rows[at] - fold.mean) / fold.scale).std((0, 1)), 1, rtol=1e-4)


@pytest.mark.parametrize("y", [[0.5, 1.0], [0.0, np.nan]])
def test_classes_are_whole_numbers_or_names(rng, y):
    with pytest.raises(PefourierError, match="y holds classes, whole numbers or names; got"):
        from_examples("x", rng.normal(size=(20, 4, 1)), np.array(y * 10), (), "blocks")


def test_a_window_of_no_rows_is_refused(tmp_path, rng):
    label = np.arange(400) % 100 >= 80
    np.savez(tmp_path / "own.npz", rows=rng.normal(size=(400, 2)), label=label)
    with pytest.raises(PefourierError, match="--window must be 1 or more rows; got 0"):
        load.load_task(str(tmp_path / "own.npz"), window=0)


def test_labels_of_rows_are_numbers(rng):
    with pytest.raises(PefourierError, match="label of a row is 0 or 1; got 'a'"):
        recordings.truth_values("x", rng.normal(size=(4, 1)), np.array(["a", "b", "a", "b"]))
