"""The same series in every shape of files are the same task, without options."""

import gzip
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from pandas import read_csv
from refusals import refusal

from pefourier.train.data import load
from pefourier.train.data.load import load_task
from pefourier.train.options import Options

N, ROWS = 40, 14
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, ROWS, 2)).round(3)
Y = np.array(["ok", "worn"])[np.arange(N) % 2]
WIDE = [",".join(map(str, x[:, 0])) for x in X]
TWO = [",".join(map(str, x.ravel())) for x in X]  # x0, y0, x1, y1, …


def write(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


def in_long_form(head="time,series,label,a,b", by=",", cells="{t} {i:02d} {y} {a} {b}", step=1):
    def made(folder):
        lines = [
            cells.format(t=t, i=i, y=Y[i], a=X[i, t, 0], b=X[i, t, 1]).replace(" ", by)
            for i in range(N)
            for t in range(ROWS)
        ]
        return write(folder / "x.csv", [head.replace(",", by), *lines[::step]])

    return made


def in_files(name, lines):
    """Write a file a series; its name is made from its number and its class."""

    def made(folder):
        for i, x in enumerate(X):
            rows = [f"{t / 10},{a},{b}" for t, (a, b) in enumerate(x)]
            write(folder / "of" / name.format(i=i, y=Y[i]), ["t_sec,a,b", *rows])
        if lines:
            write(folder / "of" / "labels.csv", [lines.format(i=i, y=Y[i]) for i in range(N)])
        return folder / "of"

    return made


def in_arrays(**arrays):
    def made(folder):
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array)
        np.savez(folder / "x.npz", **arrays)
        return folder / "x.npz"

    return made


def wide(head, form, suffix=".csv"):
    def made(folder):
        lines = [form.format(y=Y[i], i=i, one=WIDE[i], two=TWO[i]) for i in range(N)]
        return write(folder / f"x{suffix}", head + lines)

    return made


def ucr(folder):
    lines = [
        f"{1 + (y == 'ok')}\t" + one.replace(",", "\t") for y, one in zip(Y, WIDE, strict=True)
    ]
    write(folder / "S_TRAIN.tsv", lines[:30])
    write(folder / "S_TEST.tsv", lines[30:])
    return folder


def ts(folder):
    pytest.importorskip("aeon", reason="needs the package aeon")
    head = ["@univariate true", "@classLabel true ok worn", "@data"]
    lines = [f"{one}:{y}" for one, y in zip(WIDE, Y, strict=True)]
    write(folder / "S_TRAIN.ts", head + lines[:30])
    write(folder / "S_TEST.ts", head + lines[30:])
    return folder


def compressed(folder):
    (folder / "y.csv.gz").write_bytes(gzip.compress(in_long_form()(folder).read_bytes()))
    return folder / "y.csv.gz"


def parquet(folder):
    pytest.importorskip("pyarrow", reason="needs the package pyarrow")
    read_csv(in_long_form()(folder), dtype={"series": str}).to_parquet(folder / "x.parquet")
    return folder / "x.parquet"


NUMBERS = ",".join(map(str, range(ROWS)))
SHAPES = {  # channels, and what writes the series
    "long": (2, in_long_form()),
    "units": (2, in_long_form("Time [s],unit_number,isFaulty,a,b")),
    "semicolons": (2, in_long_form(by=";")),
    "blanks": (2, in_long_form("timestamp_ms,trial,activityID,a,b", by=" ")),
    "trials": (2, in_long_form("t,subject,trial,y,a,b", cells="{t} p{i:02d} {i} {y} {a} {b}")),
    "clock backwards": (
        2,
        in_long_form(
            "ts,series,label,a,b", cells="2024-05-31T00:{t:02d} {i:02d} {y} {a} {b}", step=-1
        ),
    ),
    "compressed": (2, compressed),
    "in order": (2, in_long_form("cycle_id,condition,a,b", cells="{i:02d} {y} {a} {b}")),
    "wide": (1, wide([f"label,{NUMBERS}"], "{y},{one}")),
    "label last": (1, wide([], "{one},{y}", ".txt")),
    "of pandas": (1, wide([f",{NUMBERS},target"], "{i},{one},{y}")),
    "two channels": (
        2,
        wide(["id," + ",".join(f"x{t},y{t}" for t in range(ROWS)) + ",class"], "s{i},{two},{y}"),
    ),
    "sensors": (
        1,
        wide(["id," + ",".join(f"s{t}" for t in range(ROWS)) + ",target"], "{i},{one},{y}"),
    ),
    "any names": (1, wide([f"id,{','.join('abcdefghijklmn')},target"], "p{i},{one},{y}")),
    "no names": (1, wide([], "p{i},{one},{y}")),
    "ucr": (1, ucr),
    "labels": (2, in_files("{i:02d}.csv", "{i:02d}.csv,{y}")),
    "classes": (2, in_files("{y}/{i:02d}.csv", "")),
    "arrays": (2, in_arrays(X=X, y=Y)),
    "channels first": (
        2,
        in_arrays(
            x_train=X[:30].swapaxes(1, 2),
            y_train=Y[:30],
            x_test=X[30:].swapaxes(1, 2),
            y_test=Y[30:],
        ),
    ),
    "one channel": (1, in_arrays(data=X[..., 0], labels=Y)),
    "npy": (2, lambda folder: in_arrays(X=X, y=Y)(folder).with_name("X.npy")),
    "ts": (1, ts),
    "parquet": (2, parquet),
}


@pytest.mark.filterwarnings("default")  # warnings of aeon and its imports
@pytest.mark.parametrize("shape", SHAPES)
def test_series_are_one_task_in_every_shape(tmp_path, shape):
    channels, make = SHAPES[shape]
    task = load_task(str(make(tmp_path)))
    order = np.argsort(Y, kind="stable") if shape == "classes" else np.arange(N)
    rows = task.rows.reshape(N, ROWS, channels)
    assert_array_equal(rows, X[order][..., :channels].astype(np.float32))
    expected = ["2" if y == "ok" else "1" for y in Y] if shape == "ucr" else Y[order].tolist()
    assert [task.classes[label] for label in task.labels] == expected
    published = shape in ("ucr", "channels first", "ts")
    assert (len(task.folds), task.has_test_part) == ((1, True) if published else (5, False))
    assert task.groups == (N if shape == "trials" else None)
    assert f"{ROWS} rows and {channels} channels, 2 classes" in task.remarks["read"][0]


def recordings(folder, labels, gap=0, head="time,subject,a,activity"):
    """Write recordings with a label per row, the same in each, and a gap after a third."""
    rows = len(labels)
    lines = [
        f"{t + gap * (t >= rows // 3 + 5)},{s},{RNG.normal():.3f},{label}"
        for s in range(6)
        for t, label in enumerate(labels)
    ]
    return str(write(folder / "x.csv", [head, *lines]))


@pytest.mark.parametrize("gap", [0, 1, 50])
@pytest.mark.parametrize("how", ["blocks", "chronological", "random"])
def test_windows_have_the_activity_of_all_their_rows_and_span_no_gap(tmp_path, gap, how):
    labels = np.repeat(
        ["walk", "run", "sit", "run", "up", "walk", "sit"], [50, 45, 64, 30, 3, 40, 68]
    )
    labels = np.tile(labels, 1 if how == "blocks" else 5)
    n = len(labels)
    task = load_task(recordings(tmp_path, labels, gap), Options(window=10, stride=5, split=how))
    assert task.classes == ("run", "sit", "walk")  # no window has the label up alone
    for start, label in zip(task.starts, task.labels, strict=True):
        own = (start % n) + np.arange(10)
        assert {*labels[own]} == {task.classes[label]}
        assert gap < 2 or own[0] >= n // 3 + 5 or own[-1] < n // 3 + 5
    for fold in task.folds:
        parts = [{*(task.starts[p] // n)} for p in (fold.train, fold.valid, fold.test)]
        assert how != "blocks" or sum(map(len, parts)) == 6
    dropped = {drop.reason: drop.count for drop in task.dropped}
    assert (dropped.get("gap", 0) > 0) == (gap == 50)
    assert dropped["mixed"] > 0


@pytest.mark.parametrize("positive", [(), ("fault",)])
def test_rare_labels_of_rows_are_anomalies_unless_they_are_activities(tmp_path, positive):
    labels = ["ok"] * 95 + ["fault"] * 5
    for head, classes in (
        ("time,machine,a,state", ("ok", "fault")),
        ("time,machine,a,activity", ("ok", "fault") if positive else ("fault", "ok")),
    ):
        path = recordings(tmp_path, labels, head=head)
        task = load_task(path, Options(window=5, positive=positive))
        assert task.classes == classes


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("time,timestamp,series,a,label", "time and timestamp fit time, time is used"),
        ("time,RUL,series,a,label", "label and RUL fit label, label is used"),
        ("time,b,trial,subject,label", "subject and trial fit series"),
    ],
)
def test_two_columns_that_fit_a_role_are_said(tmp_path, head, said):
    lines = [f"{t},{t},{i},{X[i, t, 0]},{Y[i]}" for i in range(N) for t in range(ROWS)]
    lines = [line.replace(",", ",0.", 1) for line in lines] if ",b," in head else lines
    task = load_task(str(write(tmp_path / "x.csv", [head, *lines])))
    assert said in task.remarks["doubts"][0]
    assert "RUL" not in task.remarks["channels"]


def test_rows_are_the_longer_axis_unless_it_is_said(tmp_path):
    x = RNG.normal(size=(40, 3, 9))
    path = str(in_arrays(X=x, y=Y)(tmp_path))
    for how, rows, is_doubted in ((None, 9, True), (True, 9, False), (False, 3, False)):
        task = load_task(path, Options(channels_first=how))
        assert (task.length, bool(task.remarks.get("doubts"))) == (rows, is_doubted)
    timed = in_arrays(X=x, y=Y, times=np.arange(120).reshape(40, 3))(tmp_path)
    assert load_task(str(timed)).length == 3


def test_repeated_series_and_missing_numbers_are_counted_by_channel(tmp_path):
    x = np.concatenate([X, X[:4]])
    task = load_task(str(in_arrays(X=x, y=np.concatenate([Y, Y[:4]]))(tmp_path)))
    assert task.remarks["copies"] == ["4"]
    lines = [
        f"{t},{i},{'' if t < 2 else 1},{'' if t == i else 2},{Y[i]}"
        for i in range(N)
        for t in range(ROWS)
    ]
    path = write(tmp_path / "x.csv", ["time,series,flow,heat,label", *lines])
    with refusal(f"flow {2 * N}, heat {ROWS} of {N * ROWS} rows"):
        load_task(str(path))


def test_the_size_of_an_archive_is_that_of_its_rows_in_training(tmp_path, monkeypatch):
    """Bytes that compress well are refused before they are read: 131 kB would take 3 GiB."""
    x = np.zeros((2**14, 2**13, 1), np.int8)
    np.savez_compressed(tmp_path / "x.npz", X=x, y=np.arange(2**14) % 2)
    del x
    tracemalloc.start()
    with refusal(f"{2**29}"):
        load_task(str(tmp_path / "x.npz"))
    assert tracemalloc.get_traced_memory()[1] < 2**22
    tracemalloc.stop()
    path = in_arrays(X=X, y=Y)(tmp_path)
    monkeypatch.setattr(load, "machine_memory", lambda: 8 * X.nbytes)
    assert load_task(str(path)).length == ROWS
    monkeypatch.setattr(load, "machine_memory", lambda: 8 * X.nbytes - 8)
    with refusal(f"{X.nbytes}"):
        load_task(str(path))


def test_two_spellings_of_a_label_are_refused(tmp_path):
    lines = [f"{('ok', 'OK', 'bad')[i % 3]},{one}" for i, one in enumerate(WIDE)]
    wide_path = write(tmp_path / "wide.csv", lines)
    for path in (wide_path, recordings(tmp_path, ["ok"] * 30 + ["OK"] * 30)):
        with refusal("one spelling"):
            load_task(str(path))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("t_sec,a,b\n0,1\n", "'.*07.csv' is not a readable .csv file: line 2 has 2 cells"),
        ("t_sec,a,c\n0,1,2\n", "'.*07.csv' has other columns than '.*00.csv'"),
        ('t_sec,a,b\n0,1,"2\n', "'.*07.csv'.*EOF"),
        ("t_sec,a,b\n0,1,2\n0.5,1,x\n", "'.*07.csv', line 3: series '07', column b"),
    ],
)
def test_the_file_of_a_folder_that_is_unlike_the_others_is_named(tmp_path, text, named):
    folder = in_files("{i:02d}.csv", "{i:02d}.csv,{y}")(tmp_path)
    (folder / "07.csv").write_text(text)
    with refusal(named):
        load_task(str(folder))
