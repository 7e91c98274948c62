"""Series in long form."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from refusals import refusal
from training import read_task

from pefourier.train.data import split


def of_series(path, labels, rows=12, group=None, head="id,time,label,v", seed=0):
    """Write a file of series with one label each or one for each row, and perhaps groups."""
    rng = np.random.default_rng(seed)
    lines = [head + (",group" if group else "")]
    for name, own in enumerate(labels):
        every = own if isinstance(own, list) else [own] * rows
        for t, label in enumerate(every):
            extra = f",{group[name]}" if group else ""
            lines.append(f"{name:02d},{t},{label},{rng.normal():.3f}{extra}")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


HEAD = "id,time,a,label\n"
REFUSED = {  # the text of a file, and part of the error
    "": "no line",
    HEAD: "no line below",
    "id,time,a\n1,2,3\n": "is read as a line for each time of a series, and lacks a column label",
    "id,s0,s1,s2,s3\n1,2.5,3,4,5\n": "is read as a series in each line, and lacks a column label",
    "id,time,label\n1,2,3\n": "no other column has numbers",
    "id,time,time,a,label\n1,2,3,4,5\n": "several columns time",
    HEAD + "1,2,3\n": "line 2 has 3 cells",
    HEAD + "1,0,x,0\n1,1,2,0\n": "line 2: series '1', column a",
    HEAD + "1,0,1,0\n1,1,1e999,0\n": "'1e999'",
    HEAD + "1,0,1,0\n1,1,,0\n": "line 3: series '1', column a is missing",
    HEAD + "1,0, N/A ,0\n1,1,1,0\n": "column a is missing",
    HEAD + "1,31/05/2024 12:00,1,0\n": "line 2: series '1', column time",
    HEAD + "1,2024-05-31T12:00,1,0\n1,2024-05-31T13:00Z,1,0\n": "line 3: series '1', column time",
    HEAD + '1,0,"1,5",0\n': "no other column has numbers",
    HEAD + '1,0,1,0\n1,1,"1,500",0\n': "line 3: series '1', column a: expected a finite number",
    HEAD + "1,0,1,0\n\n1,nan,1,0\n": "line 4: series '1', column time",
    HEAD + "1,0,1,\n": "line 2: series '1', column label",
    HEAD + "1,0,1,0\n,0,1,0\n": "line 3: series '', column id: series is missing",
    HEAD + "1,0,1,0\n1,0,2,0\n": "line 3: series '1' has a time twice: 0",
    HEAD + "1,0,1,0\n2,1,2,1\n": "2 classes in 2 examples",
    "id,time,a,label,group\n1,0,1,0,a\n1,1,2,0,b\n2,0,0,1,a\n": "line 3: series '1' has 2 groups",
    HEAD + '1,0,1,"' + "x" * 200_000 + "\n": "EOF inside string",
}


@pytest.mark.parametrize("text", REFUSED, ids=range(len(REFUSED)))
def test_lines_that_are_no_series_are_refused(tmp_path, text):
    (tmp_path / "x.csv").write_text(text)
    with refusal(part=REFUSED[text]):
        read_task(tmp_path / "x.csv")


OK, FAULT = ["ok"] * 8, ["fault"]
HEADS = {"RUL": "id,time,RUL,v", "hour": "id,hour,label,v"}
LABELS = {  # series of labels, settings, and part of the error
    "odd": ({3: ["ok"] * 3 + ["OK"] + OK}, {}, "line 41: .*'03'.*'OK'"),
    "first": ({5: FAULT + ["ok"] * 11}, {}, "line 62: .*'05'.*'fault'"),
    "last": ({5: ["ok"] * 11 + ["oops"], 9: FAULT + ["ok"] * 11}, {}, "line 73: .*'05'.*'oops'"),
    "two": ({i: OK + FAULT * 4 for i in range(1, 40, 5)}, {}, "--window ROWS"),
    "many": (
        {i: OK + FAULT + ["worse"] for i in range(40)},
        {"window": 5, "positive": ("fault", "worse")},
        "--positive names fault and worse",
    ),
    "RUL": (dict(enumerate(range(40))), {}, "regression is not supported"),
    "fractions": (dict(enumerate(np.arange(40) / 7)), {}, "regression is not supported"),
    "few": (dict.fromkeys(range(3, 40), "ok"), {}, "1 of fault.*5 series per class for 5 folds"),
    "channel": ({}, {"channels": "b"}, "--channels .*'b'"),
    "hour": ({}, {}, "hour increases.*--columns time="),
    "lists": ({}, {"labels": "map.csv"}, r"no label of '39' \(1 of 40"),
    "arrays": ({}, {"channels_first": True}, r"--channels-first is for \.npz"),
}


@pytest.mark.parametrize("name", LABELS)
def test_labels_that_make_no_classes_are_refused(tmp_path, name, monkeypatch):
    monkeypatch.chdir(tmp_path)
    change, settings, named = LABELS[name]
    labels = [change.get(i, "ok" if i % 5 else "fault") for i in range(40)]
    (tmp_path / "map.csv").write_text("\n".join(f"{i:02d},{'ab'[i % 2]}" for i in range(39)))
    path = of_series(tmp_path / "x.csv", labels, head=HEADS.get(name, "id,time,label,v"))
    with refusal(named):
        read_task(path, **settings)


@pytest.mark.parametrize(
    ("labels", "settings", "classes", "rarer"),
    [
        ([["b"] * 8 + ["a"] * 4 if i % 5 else ["b"] * 12 for i in range(40)], 4, ("b", "a"), 32),
        ([["ok"] * 20 + FAULT * 3 + ["worse"] * 2] * 12, 5, ("not fault", "fault"), 12),
        ([["x"] * 3 + ["ok"] * 21] * 12, 4, ("ok", "x"), 12),
        ([("0", "1", "0.0", "1.0")[i % 4] for i in range(40)], None, ("0", "1"), 20),
    ],
)
def test_labels_of_a_column_are_classes(tmp_path, labels, settings, classes, rarer):
    positive = ("fault",) if "fault" in classes else ()
    task = read_task(of_series(tmp_path / "x.csv", labels), window=settings, positive=positive)
    assert (task.classes, task.labels.sum()) == (classes, rarer)


def test_what_borders_of_blocks_and_short_series_drop_is_counted(tmp_path):
    label = ["1" if i % 40 > 30 else "0" for i in range(403)]
    task = read_task(of_series(tmp_path / "x.csv", [label, label, ["0"] * 3]), window=4)
    dropped = {drop.reason: drop.count for drop in task.dropped}
    assert dropped == {"short": 1, "end": 6, "border": 200 - len(task.starts)}
    assert 0 < dropped["border"] < 80


@pytest.mark.parametrize("count", [1, 2, 4, 5, 8])
@pytest.mark.parametrize("cut", [False, True])
def test_groups_are_left_out_one_at_a_time_where_there_are_few(tmp_path, count, cut):
    """Few groups are left out one at a time, and five or more are dealt into folds.

    This holds for recordings and for whole series.
    """
    marked = ["0"] * 9 + ["1"] * 3 if cut else "1"
    group = [f"g{i // 2 % count}" for i in range(48)]
    path = of_series(tmp_path / "x.csv", [marked if i % 2 else "0" for i in range(48)], group=group)
    window = 3 if cut else None
    task = read_task(path, window=window)
    if count == 1:
        assert len(task.folds) == 5
        assert cut or task.dropped == (split.Dropped("one group", 1),)
        return
    assert len(task.folds) == min(count, 5)
    tested = set()
    for fold in task.folds:
        places = [task.starts[p] // 12 for p in (fold.train, fold.valid, fold.test)]
        train, valid, test = ({group[i] for i in own} for own in places)
        assert not (train | valid) & test
        tested |= test
        assert count > 4 or (len(train), len(test)) == (count - 1, 1)
    assert tested == set(group)
    with refusal("exclude each other"):
        read_task(path, window=window, split="chronological")
    labels = ["0" if i < 16 or i % 2 else "1" for i in range(48)]  # a group of one class
    task = read_task(
        of_series(tmp_path / "x.csv", labels, group=[f"g{i // 16}" for i in range(48)])
    )
    assert (len(task.folds), task.dropped) == (2, (split.Dropped("untested", 1),))


def test_columns_have_the_roles_that_are_given(tmp_path):
    labels = ["no" if i % 2 else "yes" for i in range(40)]
    plain = read_task(of_series(tmp_path / "x.csv", labels))
    path, head = tmp_path / "y.csv", "unit,hour,state,v"
    of_series(path, labels, head=head, group=[i // 8 for i in range(40)])
    path.write_text(path.read_text().replace(",group", ",plant", 1))
    with refusal("--columns"):
        read_task(path)
    task = read_task(path, columns="time=hour,series=unit,label=state,group=plant")
    assert (task.remarks["channels"], task.groups) == (["v"], 5)
    assert_array_equal(task.rows, plain.rows)
    assert read_task(path, columns="time=hour,series=unit,label=state,group=unit").groups == 40
    # with a role given, the column of that name is a channel
    path = of_series(tmp_path / "z.csv", [0, 1] * 20, head="id,time,y,label")
    task = read_task(path, columns="label=y")
    assert (task.remarks["channels"], task.classes) == (["label"], ("0", "1"))


@pytest.mark.parametrize(
    ("name", "settings", "named"),
    [
        *(
            ("x.csv", {"columns": text}, rf"{text.rpartition('=')[2]}'")
            for text in ("time=hour", "time=time,time=v", "time=v,label=v")
        ),
        *(("x.csv", {"columns": text}, "'ti") for text in ("tine=time", "time")),
        ("order", {"columns": "time=t"}, r"--columns is for \.csv, \.tsv"),
        ("x.csv", {"window": 2}, "--window and --stride"),
        ("no.csv", {}, r"no\.csv"),
    ],
)
def test_columns_that_are_not_there_are_refused(tmp_path, monkeypatch, name, settings, named):
    monkeypatch.chdir(tmp_path)
    of_series(tmp_path / "x.csv", [0, 1] * 10)
    with refusal(named):
        read_task(name, **settings)


def test_missing_numbers_of_a_series_are_filled_or_their_rows_dropped(tmp_path):
    path = tmp_path / "x.csv"
    lines = [f"{i:02d},{t},{i % 2},{4 * i + t}" for i in range(40) for t in range(4)]
    lines[0], lines[2] = "00,0,0,", "00,2,0,NaN"
    path.write_text("\n".join(["id,time,label,v", *lines]))
    for how, rows in (("previous", [1, 1, 1, 3]), ("mean", [2, 1, 2, 3]), ("drop", [1, 3])):
        task = read_task(path, missing=how)
        assert task.rows[: len(rows), 0].tolist() == rows
        assert (task.filled, task.lengths is None) == (2 * (how != "drop"), how != "drop")
    assert (task.lengths[0], task.dropped) == (2, (split.Dropped("missing", 2),))
