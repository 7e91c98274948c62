"""Published datasets: layouts, counts and errors."""

import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refusal
from training import EVENTS, archives, recording

from pefourier.train.data import load, split
from pefourier.train.options import Options

SHARED = Path(__file__).parents[4] / "shared" / "data"


shared = pytest.mark.skipif(not SHARED.is_dir(), reason="needs ../shared/data (SMD and MSL)")


def read(name, folder, **settings):
    return load.load_task(name, Options(data=str(folder), window=16, **settings))


@cache
def published_recordings(name):
    return load.read_recordings(name, str(SHARED))


@shared
@pytest.mark.parametrize(
    ("name", "window", "windows", "positive"),
    [
        ("smd", 64, 6824, 578),
        ("smd", 100, 4222, 464),
        ("msl", 64, 933, 148),
        ("msl", 100, 550, 107),
    ],
)
def test_windows_of_the_blocks_split_are_as_many_as_published(name, window, windows, positive):
    blocks = load.SOURCES[name].blocks
    task = split.split_series(name, published_recordings(name), window, blocks=blocks)
    tested = np.unique(np.concatenate([fold.test for fold in task.folds]))
    assert (len(tested), int(task.labels[tested].sum())) == (windows, positive)
    assert sum(len(fold.test) for fold in task.folds) == windows
    assert (task.leaky, task.rows.shape[1]) == (False, {"msl": 55, "smd": 38}[name])


@shared
def test_windows_are_gathered_and_not_kept():
    task = split.split_series("smd", published_recordings("smd"), 64, stride=1)
    assert len(task.starts) > 300_000
    held = sum(a.nbytes for a in (task.rows, task.starts, task.labels))
    assert held < 100e6  # a copy of every window would be 3 GB


def test_layouts_of_smd_are_the_same_task(tmp_path, rng):
    folder = tmp_path / "text" / "ServerMachineDataset"
    for name, arrays in archives(tmp_path / "smd", rng).items():
        for part, own in zip(("train", "test", "test_label"), arrays, strict=True):
            (folder / part).mkdir(parents=True, exist_ok=True)
            np.savetxt(folder / part / f"{name}.txt", own, delimiter=",", fmt="%.9g")
    first, other = read("smd", tmp_path), read("smd", tmp_path / "text")
    assert_allclose(first.rows, other.rows, atol=1e-6)
    assert_array_equal(first.labels, other.labels)
    for mine, theirs in zip(first.folds, other.folds, strict=True):
        assert_array_equal(mine.test, theirs.test)


HEAD = "chan_id,spacecraft,anomaly_sequences,class,num_values\n"


def as_published(folder, text, names=("A-1",), seed=0):
    """Write channels of MSL with their list of anomalies."""
    train, test, label = recording(np.random.default_rng(seed))
    for part, rows in (("train", train), ("test", test)):
        (folder / part).mkdir(parents=True, exist_ok=True)
        for name in names:
            np.save(folder / part / f"{name}.npy", rows)
    content = text if isinstance(text, bytes) else text.encode()
    (folder / "labeled_anomalies.csv").write_bytes(content)
    return label


def test_msl_as_published_counts_both_ends_of_an_event(tmp_path):
    events = f'"{[list(event) for event in EVENTS]}"'
    crafts = (("A-1", "MSL"), ("P-10", "MSL"), ("B-2", "SMAP"))
    lines = [f"{name},{craft},{events},[point],1200\n" for name, craft in crafts]
    label = as_published(tmp_path / "data", HEAD + "".join(lines), ("A-1", "P-10", "B-2"))
    (tmp_path / "data" / "labeled_anomalies.csv").rename(tmp_path / "labeled_anomalies.csv")
    (only,) = load.read_recordings("msl", str(tmp_path))
    assert only.name == "A-1"
    assert_array_equal(only.label, label.astype(bool))


LISTS = {  # what the list of anomalies holds, and what is named
    "": "no line below",
    HEAD: "no line below",
    HEAD + "A-2,SMAP,[],,\n": "no recording of msl",
    HEAD.replace("chan_id", "name") + "A-1,MSL,[],,\n": "no column chan_id",
    HEAD + "A-1,MSL": "A-1|not a readable",
    HEAD + 'A-1,SMAP,"[[1, 2]]",[point],1200\n': "no recording of msl",
    b"\xff\xfe": "codec",
    HEAD + 'A-1,SMAP,"[]",,\n../A-1,MSL,"[]",,\n': r"'\.\./A-1'",
}
EVENTS_REFUSED = ["[" * 50000 + "]" * 50000, "9" * 5000, "[[1, 2]", "null", "[[7, 5]]", "[5, 10]"]
EVENTS_REFUSED += ["[[5, 1200]]", "[[5, 7, 9]]", "[[1.5, 7]]", "[[-1, 7]]"]
LISTS |= {HEAD + f'A-1,MSL,"{events}",,\n': "labeled_anomalies.csv" for events in EVENTS_REFUSED}


@pytest.mark.parametrize("text", LISTS, ids=range(len(LISTS)))
def test_labels_of_msl_are_whole_or_refused(tmp_path, text):
    as_published(tmp_path, text)
    with refusal(LISTS[text]):
        read("msl", tmp_path)


def test_what_is_missing_or_of_another_dataset_is_stated(tmp_path, rng):
    found = archives(tmp_path / "smd", rng)
    as_published(tmp_path / "nasa", HEAD)
    (tmp_path / "empty").mkdir()
    with refusal("--data DIR"):
        load.load_task("smd")
    for name, folder in (("smd", "empty"), ("msl", "smd"), ("smd", "nasa")):
        with refusal(f"holds no {name}"):
            read(name, tmp_path / folder)
    path = tmp_path / "smd" / "machine-1-2.npz"
    train, test, label = found["machine-1-2"]
    for arrays, named in (
        ({"train": train, "test": test}, "machine-1-2.npz' holds 'train'"),
        ({"train": train[:, :2], "test": test, "label": label}, r"got \(\d+, 2\), \(\d+, 3\)"),
        ({"train": train[:, :2], "test": test[:, :2], "label": label}, "different columns"),
        ({"train": train, "test": test, "label": label + 1}, "0 or 1, got 2"),
    ):
        np.savez(path, **arrays)
        with refusal(named):
            read("smd", tmp_path)
    path.write_bytes(path.read_bytes()[:99])
    with refusal(r"machine-1-2\.npz.*download it again"):
        read("smd", tmp_path)


@pytest.mark.parametrize("part", ["train", "test", "test_label"])
def test_a_machine_without_one_of_its_files_is_stated(tmp_path, part):
    for folder in ("train", "test", "test_label"):
        (tmp_path / folder).mkdir()
        for machine in (1, 2):
            (tmp_path / folder / f"machine-1-{machine}.txt").write_text("0\n1\n" * 600)
    path = tmp_path / part / "machine-1-2.txt"
    path.write_text("0,1\n2,x\n")
    for named in (".*'x'.*download it again", "|There is no such file"):
        with refusal(rf"{part}/machine-1-2\.txt{named}"):
            read("smd", tmp_path)
        path.unlink(missing_ok=True)


CHANNELS = {  # content of a channel, and part of the error
    "row": (np.ones(1200), "n, channels"),
    "empty": (np.ones((0, 3)), "n, channels"),
    "page": (b"<html>\n<p>404</p>\n", "header does not describe"),
    "pipe": (None, r"A-1\.npy"),
}


@pytest.mark.parametrize("part", ["train", "test"])
@pytest.mark.parametrize("name", CHANNELS)
def test_channels_that_are_no_rows_of_numbers_are_refused(tmp_path, name, part):
    as_published(tmp_path, HEAD + 'A-1,MSL,"[[1, 2]]",[point],1200\n')
    path, (content, named) = tmp_path / part / "A-1.npy", CHANNELS[name]
    path.unlink()
    if content is None:
        os.mkfifo(path)
    elif isinstance(content, bytes):
        path.write_bytes(content)
    else:
        np.save(path, content)
    with refusal(named):
        read("msl", tmp_path)


def test_recordings_are_scaled_by_their_unlabelled_part(rng):
    train, test = rng.normal(size=(50, 3)) * [9, 9, 1e-5], rng.normal(size=(1000, 3))
    rows = test.astype(np.float32)
    found = load.scale_recording("x", (train, rows, np.zeros(1000)), 0.01, "x", "x").rows
    scale = np.maximum(train.std(axis=0), 0.01)
    expected = np.clip((rows - train.mean(axis=0)) / scale, -20, 20)
    assert_array_equal(found, expected.astype(np.float32))
    assert np.abs(found).max() == 20
