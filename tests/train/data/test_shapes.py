"""The same series in every shape of files are the same task, without options."""

import gzip
import tracemalloc

import numpy as np
import pytest

from pefourier.errors import PefourierError
from pefourier.train.data import load, tables
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
    text = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def in_long_form(
    head="time,series,label,a,b", by=",", cells="{t} {i:02d} {y} {a} {b}", name="x.csv", order=1
):
    """Write a line for each time of each series; `order` is the step between lines."""

    def made(folder):
        lines = [
            cells.format(
                t=t, s=stamp(t), z=stamp(t, t % 3), o=t % 3, i=i, y=Y[i], a=X[i, t, 0], b=X[i, t, 1]
            )
            for i in range(N)
            for t in range(ROWS)
        ][::order]
        if by == ";":
            lines = [line.replace(".", ",") for line in lines]
        lines = [line.replace(" ", by) for line in lines]
        return write(folder / name, [head.replace(",", by), *lines])

    return made


def stamp(t, zone=0):
    """Return a time, five minutes after the one before, across midnight, in a zone."""
    start = np.datetime64("2024-01-01T23:30:00")
    return str(start + np.timedelta64(5 * t + 60 * zone, "m"))


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


def parquet(folder):
    pandas = pytest.importorskip("pandas", reason="needs the package pandas")
    pytest.importorskip("pyarrow", reason="needs the package pyarrow")
    frame = pandas.read_csv(in_long_form()(folder), dtype={"series": str})
    frame.to_parquet(folder / "x.parquet")
    return folder / "x.parquet"


NUMBERS = ",".join(map(str, range(ROWS)))
SENSORS, AXES = (",".join(f"{name}{t}" for t in range(ROWS)) for name in ("s", "sensor_"))
MONTHS = ",".join("abcdefghijklmnop"[t] * 3 for t in range(ROWS))
SHAPES = {  # channels, and what writes the series
    "long": (2, in_long_form()),
    "units": (2, in_long_form("Time [s],unit_number,isFaulty,a,b")),
    "blanks": (2, in_long_form("timestamp_ms,trial,activityID,a,b", by=" ")),
    "trials": (2, in_long_form("t,subject,trial,y,a,b", cells="{t} p{i:02d} {i} {y} {a} {b}")),
    "in order": (2, in_long_form("cycle_id,condition,a,b", cells="{i:02d} {y} {a} {b}")),
    "wide": (1, wide([f"label,{NUMBERS}"], "{y},{one}")),
    "label last": (1, wide([], "{one},{y}", ".txt")),
    "of pandas": (1, wide([f",{NUMBERS},target"], "{i},{one},{y}")),
    "two channels": (
        2,
        wide(["id," + ",".join(f"x{t},y{t}" for t in range(ROWS)) + ",class"], "s{i},{two},{y}"),
    ),
    "id and s0": (1, wide([f"id,{SENSORS},target"], "m{i:02d},{one},{y}")),
    "label and s0": (1, wide([f"{SENSORS},label"], "{one},{y}")),
    "sensor_0 first": (1, wide([f"{AXES},kind,id"], "{one},{y},m{i:02d}", ".csv.gz")),
    "a date each": (1, wide([f"label,date,id,{AXES}"], "{y},2024-05-06,{i},{one}")),
    "names": (1, wide([f"id,label,{MONTHS}"], "{i:02d},{y},{one}")),
    "unnamed": (1, wide([f"id,label{',' * ROWS}"], "{i:02d},{y},{one}")),
    "line numbers": (1, wide([], "{i},{y},{one}")),
    "gz": (2, in_long_form(name="x.csv.gz")),
    "commas": (2, in_long_form(by=";")),
    "ts": (2, in_long_form("ts,id,label,a,b", cells="{s}Z {i:02d} {y} {a} {b}", order=-1)),
    "zones": (2, in_long_form("t,id,label,a,b", cells="{z}+0{o}00 {i:02d} {y} {a} {b}", order=-1)),
    "Zeit": (2, in_long_form("Zeit,id,label,a,b", cells="{s} {i:02d} {y} {a} {b}", order=-1)),
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
    ".ts": (1, ts),
    "parquet": (2, parquet),
}


@pytest.mark.filterwarnings("default")  # warnings of aeon and its imports
@pytest.mark.parametrize("shape", SHAPES)
def test_series_are_one_task_in_every_shape(tmp_path, shape):
    channels, make = SHAPES[shape]
    task = load_task(str(make(tmp_path)))
    order = np.argsort(Y, kind="stable") if shape == "classes" else np.arange(N)
    rows = task.rows.reshape(N, ROWS, channels)
    np.testing.assert_array_equal(rows, X[order][..., :channels].astype(np.float32))
    expected = ["2" if y == "ok" else "1" for y in Y] if shape == "ucr" else Y[order].tolist()
    assert [task.classes[label] for label in task.labels] == expected
    published = shape in ("ucr", "channels first", ".ts")
    assert (len(task.folds), task.has_test_part) == ((1, True) if published else (5, False))
    assert task.groups == (N if shape == "trials" else None)
    each = "1 channel" if channels == 1 else f"{channels} channels"
    assert f"{ROWS} rows and {each}, 2 classes" in task.remarks["read"][0]


def test_dates_that_do_not_change_within_a_series_are_no_times(tmp_path):
    made = in_long_form("day,trial,label,a,b", cells="2024-05-06T10:{i:02d} {i:02d} {y} {a} {b}")
    assert load_task(str(made(tmp_path))).remarks["left out"] == ["day"]


def test_line_numbers_of_a_file_without_names_are_no_series_of_one_row(tmp_path):
    lines = [f"{t},{t % 5},{t % 7},{'ab'[t // 50]}" for t in range(100)]
    with pytest.raises(PefourierError, match=r"c1 increases in each series.*time=c1"):
        load_task(str(write(tmp_path / "x.csv", lines)), Options(columns="label=c4"))


REFUSED = {  # lines of a file, and parts of the error
    "features": (
        ["sepal_length,sepal_width,name,class", *["1,2,a,b", "1,2,a,c"] * 9],
        "read with a line for each time, .*'sepal_length, sepal_width, name, class'.*x0, x1",
    ),
    "one line each": (["id,a,b,label", *(f"{i},{i},2,{i % 2}" for i in range(40))], "x0, x1"),
    "many columns": (
        ["unit,RUL," + SENSORS, *(f"{i // 2},{i}{',1' * ROWS}" for i in range(20))],
        "'unit, RUL, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, …'",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_names_the_shape_and_the_option_that_helps(tmp_path, name):
    lines, named = REFUSED[name]
    with pytest.raises(PefourierError, match=named):
        load_task(str(write(tmp_path / "x.csv", lines)))


def test_compressed_files_are_refused_above_the_size_of_others(tmp_path, monkeypatch):
    path = in_long_form(name="x.csv.gz")(tmp_path)
    whole = path.read_bytes()
    text = gzip.decompress(whole)
    monkeypatch.setattr(tables, "LARGEST", len(text))
    assert load_task(str(path)).length == ROWS
    monkeypatch.setattr(tables, "LARGEST", len(text) - 1)
    for content, named in (
        (whole, f"{len(text) - 1} bytes"),
        (whole[:99], "ended"),
        (text, "gzip"),
    ):
        path.write_bytes(content)
        with pytest.raises(PefourierError, match=named):
            load_task(str(path))


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
    for how, rows in ((None, 9), (True, 9), (False, 3)):
        task = load_task(path, Options(channels_first=how))
        assert (task.length, bool(task.remarks["doubts"])) == (rows, how is None)
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
    with pytest.raises(PefourierError, match=f"flow {2 * N}, heat {ROWS} of {N * ROWS} rows"):
        load_task(str(path))


def test_the_size_of_an_archive_is_that_of_its_rows_in_training(tmp_path, monkeypatch):
    """Bytes that compress well are refused before they are read: 131 kB would take 3 GiB."""
    x = np.zeros((2**14, 2**13, 1), np.int8)
    np.savez_compressed(tmp_path / "x.npz", X=x, y=np.arange(2**14) % 2)
    del x
    tracemalloc.start()
    with pytest.raises(PefourierError, match=f"{2**29}"):
        load_task(str(tmp_path / "x.npz"))
    assert tracemalloc.get_traced_memory()[1] < 2**22
    tracemalloc.stop()
    path = in_arrays(X=X, y=Y)(tmp_path)
    monkeypatch.setattr(load, "machine_memory", lambda: 8 * X.nbytes)
    assert load_task(str(path)).length == ROWS
    monkeypatch.setattr(load, "machine_memory", lambda: 8 * X.nbytes - 8)
    with pytest.raises(PefourierError, match=f"{X.nbytes}"):
        load_task(str(path))
