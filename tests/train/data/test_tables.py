"""Series in long form."""

import re

import numpy as np
import pytest

from pefourier.errors import PefourierError
from pefourier.train.data import split
from pefourier.train.data.examples import from_examples
from pefourier.train.data.load import load_task
from pefourier.train.options import Options
from pefourier.train.stacks import remarks_on_task


def read(path, **settings):
    return load_task(str(path), Options(**settings))


def of_series(path, labels, rows=12, group=None, head="id,time,label,v", seed=0):
    """A file of series, each with its labels (one, or one a row), and maybe groups."""
    rng = np.random.default_rng(seed)
    lines = [head + (",group" if group else "")]
    for name, own in enumerate(labels):
        every = own if isinstance(own, list) else [own] * rows
        for t, label in enumerate(every):
            extra = f",{group[name]}" if group else ""
            lines.append(f"{name:02d},{t},{label},{rng.normal():.3f}{extra}")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_examples_in_long_form_are_those_of_an_array(tmp_path, rng, separator):
    """Lines may stand in any order; shorter series are padded, and nothing is learned of that."""
    x, y, lengths = rng.normal(size=(40, 6, 2)), np.arange(40) % 2, 4 + np.arange(40) % 3
    x = np.where((np.arange(6) < lengths[:, None])[..., None], x, 0).astype(np.float32)
    lines = [
        separator.join([f"s{i:02d}", str(t / 2), *map(str, x[i, t]), ("no", "yes")[y[i]]])
        for i in range(40)
        for t in range(lengths[i])
    ]
    rng.shuffle(lines)
    head = separator.join("id,time,a,b,label".split(","))
    (tmp_path / "x.csv").write_text("\n".join([head, *lines]) + "\n", encoding="utf-8-sig")
    found = read(tmp_path / "x.csv")
    wanted = from_examples("x", x, np.array(["no", "yes"])[y], (), "blocks", lengths=lengths)
    for name in ("rows", "labels", "lengths"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
    assert (found.classes, found.shortest, found.channels) == (("no", "yes"), 4, ("a", "b"))
    for one, other in zip(found.folds, wanted.folds, strict=True):
        np.testing.assert_array_equal(one.test, other.test)
        own = np.concatenate([x[i, : lengths[i]] for i in one.train])
        np.testing.assert_allclose(one.mean, own.mean(axis=0), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(one.scale, own.std(axis=0), rtol=1e-4)


def test_what_is_worth_knowing_of_a_file_is_told(tmp_path):
    def told(head="id,time,label,patient,hr", steps=(1,)):
        lines = [
            f"s{i},{t * steps[t % len(steps)]},{i % 2},{i // 4},{t + i}"
            for i in range(40)
            for t in range(3 + i % 2)
        ]
        (tmp_path / "x.csv").write_text("\n".join([head, *lines]))
        return " ".join(remarks_on_task(read(tmp_path / "x.csv")))

    remarks, grouped = told(), told("id,time,label,group,hr")
    assert all(text in remarks for text in ("3 to 4 rows", "channels patient, hr", "no groups"))
    assert ("no groups" in grouped, "10 groups" in grouped) == (False, True)
    order = "their order alone"
    assert (order in told(), order in told(steps=(0.5, 0.75))) == (False, True)


HEAD = "id,time,a,label\n"
REFUSED = {  # the text of a file, and what is named
    "": "no line",
    HEAD: "no line below",
    "id,time,a\n1,2,3\n": "column label",
    "id,time,label\n1,2,3\n": "columns of channels",
    "id,time,time,a,label\n1,2,3,4,5\n": "several columns time",
    HEAD + "1,2,3\n": "line 2 has 3 cells",
    HEAD + "1,0,x,0\n": "line 2: series '1', column a",
    HEAD + "1,0,1e999,0\n": "'1e999'",
    HEAD + "1,0,1,0\n1,1,,0\n": "line 3: series '1', column a is missing",
    HEAD + "1,0,nan,0\n": "column a is missing",
    HEAD + "1,0, N/A ,0\n": "column a is missing",
    HEAD + "1,2024-05-31T12:00,1,0\n": "line 2: series '1', column time",
    HEAD + "1,0,1,0\n\n1,nan,1,0\n": "line 4: series '1', column time",
    HEAD + "1,0,1,\n": "line 2: series '1', column label",
    HEAD + "1,0,1,0\n,0,1,0\n": "line 3: series '', column id",
    HEAD + "1,0,1,a\n1,1,1,b\n": "'a, b'",
    HEAD + "1,0,1,a\n1,1,1,b\n1,2,1,c\n": "'a, b, c'",
    HEAD + "1,0,1,0\n1,0,2,0\n": "line 3: series '1' has a time twice: 0",
    HEAD + "1,0,1,0\n1,1,2,2\n": "must be 0 or 1",
    HEAD + "1,0,1,0\n2,1,2,1\n": "2 classes in 2 examples",
    "id,time,a,label,group\n1,0,1,0,a\n1,1,2,0,b\n2,0,0,1,a\n": "line 3: series '1' has 2 groups",
    HEAD + '1,0,1,"' + "x" * 200_000 + "\n": "field limit",
}


@pytest.mark.parametrize("text", REFUSED, ids=range(len(REFUSED)))
def test_lines_that_are_no_series_are_refused(tmp_path, text):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(PefourierError, match=re.escape(REFUSED[text])) as caught:
        read(tmp_path / "x.csv")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "group", "named"),
    [
        ({3: ["ok", "ok", "ok", "OK", *["ok"] * 8]}, False, ("'03'", "'OK'", "41")),
        ({5: ["fault", *["ok"] * 11]}, True, ("'05'", "'fault'", "62")),
        ({5: [*["ok"] * 11, "oops"], 9: ["fault", *["ok"] * 11]}, False, ("'05'", "'oops'", "73")),
    ],
)
def test_a_series_with_two_labels_is_named(tmp_path, change, group, named):
    labels = ["fault" if i % 5 == 0 else "ok" for i in range(40)]
    for i, own in change.items():
        labels[i] = own
    path = of_series(tmp_path / "x.csv", labels, group=[i // 5 for i in range(40)] * group)
    with pytest.raises(PefourierError, match=f"line {named[2]}") as caught:
        read(path)
    assert all(name in str(caught.value) for name in named)


def test_series_with_two_labels_are_recordings_where_a_window_says_so(tmp_path):
    labels = ["a" if i % 8 == 0 else "b" for i in range(40)]
    for i in range(1, 40, 5):
        labels[i] = ["b"] * 8 + ["a"] * 4
    path = of_series(tmp_path / "x.csv", labels)
    with pytest.raises(PefourierError, match="--window ROWS"):
        read(path)
    assert read(path, window=4).labels.sum() == 4 * 3 + 8


def test_labels_that_differ_in_capitals_are_no_classes(tmp_path):
    path = of_series(tmp_path / "x.csv", [["ok"] * 20 + ["bad"] * 4 + ["OK"] for _ in range(12)])
    with pytest.raises(PefourierError, match=r"line \d+.* has label 'OK', .* 'ok'"):
        read(path, window=4)


def test_of_many_labels_one_marks_anomalies(tmp_path):
    labels = [["ok"] * 20 + ["bad"] * 3 + ["worse"] * 2 for _ in range(12)]
    path = of_series(tmp_path / "x.csv", labels)
    for named in ((), ("bad", "worse")):
        with pytest.raises(PefourierError, match="--positive 'worse'"):
            read(path, window=5, positive=named)
    task = read(path, window=5, positive=("bad",))
    assert (task.classes, task.labels.sum()) == (("not bad", "bad"), 12)
    two = of_series(tmp_path / "y.csv", [["x"] * 3 + ["ok"] * 21 for _ in range(12)])
    assert read(two, window=4).classes == ("ok", "x")


@pytest.mark.parametrize(("rows", "window", "series"), [(60, 4, 40), (24, 4, 40), (30, 7, 12)])
def test_whole_series_stand_on_one_side_and_none_of_their_windows_is_lost(
    tmp_path, rows, window, series
):
    labels = [["0"] * rows if i % 3 else ["0"] * (rows - 3) + ["1"] * 3 for i in range(series)]
    task = read(of_series(tmp_path / "x.csv", labels), window=window)
    assert len(task.starts) == series * (rows // window)
    assert (task.classes, len(task.folds)) == (("normal", "anomaly"), min(5, series // 3))
    for fold in task.folds:
        parts = [set(task.starts[p] // rows) for p in (fold.train, fold.valid, fold.test)]
        assert sum(map(len, parts)) == len(set.union(*parts)) == series
        assert len(fold.train) + len(fold.valid) + len(fold.test) == len(task.starts)
    ends = [split.Dropped("end", series * (rows % window))] if rows % window else []
    assert list(task.dropped) == ends


def test_what_borders_of_blocks_and_short_series_drop_is_counted(tmp_path):
    label = ["1" if i % 40 > 30 else "0" for i in range(403)]
    task = read(of_series(tmp_path / "x.csv", [label, label, ["0"] * 3]), window=4)
    dropped = {drop.reason: drop.count for drop in task.dropped}
    assert dropped == {"short": 1, "end": 6, "border": 200 - len(task.starts)}
    assert 0 < dropped["border"] < 80
    for fold in task.folds:
        rows = [
            {r for s in task.starts[p] for r in range(s, s + 4)} for p in (fold.train, fold.test)
        ]
        assert not rows[0] & rows[1]
    path = of_series(tmp_path / "y.csv", [["1" if i % 30 == 5 else "0" for i in range(80)]])
    with pytest.raises(PefourierError, match=r"[1-9] more dropped at borders of blocks"):
        read(path, window=8)


def test_numbers_as_labels_are_the_same_however_they_are_written(tmp_path):
    labels = [("0", "1", "0.0", "1.0")[i % 4] for i in range(40)]
    task = read(of_series(tmp_path / "x.csv", labels))
    assert task.classes == ("0", "1")
    assert task.labels.tolist() == [i % 2 for i in range(40)]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("cut", [False, True])
def test_groups_are_left_out_one_at_a_time_where_there_are_few(tmp_path, count, cut):
    """Recordings and whole series alike; of five or more groups folds are dealt."""
    marked = ["0"] * 9 + ["1"] * 3 if cut else "1"
    group = [f"g{i // 2 % count}" for i in range(48)]
    path = of_series(tmp_path / "x.csv", [marked if i % 2 else "0" for i in range(48)], group=group)
    window = 3 if cut else None
    task = read(path, window=window)
    if count == 1:
        assert len(task.folds) == 5
        assert cut or task.dropped == (split.Dropped("one group", 1),)
        return
    assert len(task.folds) == min(count, 5)
    tested = set()
    for fold in task.folds:
        train, valid, test = (
            {group[row // 12] for row in task.starts[p]}
            for p in (fold.train, fold.valid, fold.test)
        )
        assert not (train | valid) & test
        tested |= test
        if count < 5:
            assert (len(train), len(test)) == (count - 1, 1)
    assert tested == set(group)
    with pytest.raises(PefourierError, match="exclude each other"):
        read(path, window=window, split="chronological")


def test_a_group_of_one_class_is_not_tested(tmp_path):
    labels = ["0" if i < 16 or i % 2 else "1" for i in range(48)]
    task = read(of_series(tmp_path / "x.csv", labels, group=[f"g{i // 16}" for i in range(48)]))
    assert (len(task.folds), task.dropped) == (2, (split.Dropped("untested", 1),))


def test_columns_have_the_roles_that_are_given(tmp_path):
    labels = ["no" if i % 2 else "yes" for i in range(40)]
    plain = read(of_series(tmp_path / "x.csv", labels))
    path = of_series(tmp_path / "y.csv", labels, head="unit,hour,state,v")
    with pytest.raises(PefourierError, match="--columns"):
        read(path)
    roles = "time=hour,series=unit,label=state"
    task = read(path, columns=roles)
    assert task.channels == ("v",)
    np.testing.assert_array_equal(task.rows, plain.rows)
    # a role that is given leaves a column of its name a channel
    path = of_series(tmp_path / "z.csv", [0, 1] * 20, head="id,time,y,label")
    task = read(path, columns="label=y")
    assert (task.channels, task.classes) == (("label",), ("0", "1"))
    grouped = of_series(
        tmp_path / "g.csv", labels, head="unit,hour,state,v", group=[i // 8 for i in range(40)]
    )
    text = (tmp_path / "g.csv").read_text().replace(",group", ",plant", 1)
    (tmp_path / "g.csv").write_text(text)
    assert read(grouped, columns=f"{roles},group=plant").groups == 5


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        ("time=hour", "'hour'"),
        ("tine=time", "'tine'"),
        ("time", "'time'"),
        ("time=time,time=v", "'time=v'"),
        ("time=v,label=v", "'label=v'"),
    ],
)
def test_columns_that_are_not_there_are_refused(tmp_path, columns, named):
    path = of_series(tmp_path / "x.csv", [0, 1] * 10)
    with pytest.raises(PefourierError, match=named):
        read(path, columns=columns)
    with pytest.raises(PefourierError, match=r"--columns is for \.csv files"):
        read("order", columns="time=t")


def test_missing_numbers_of_a_series_are_filled_or_their_rows_dropped(tmp_path):
    path = tmp_path / "x.csv"
    of_series(path, [i % 2 for i in range(40)], rows=4)
    lines = path.read_text().splitlines()
    lines[1], lines[3] = "00,0,0,", "00,2,0,NaN"
    path.write_text("\n".join(lines))
    known = [float(lines[i].rpartition(",")[2]) for i in (2, 4)]
    found = {how: read(path, missing=how) for how in ("previous", "mean", "drop")}
    own = {how: task.rows[:4, 0].round(6).tolist() for how, task in found.items()}
    first, last = (np.float32(value).round(6).item() for value in known)
    assert own["previous"] == [first, first, first, last]
    assert own["mean"][0] == pytest.approx(np.mean(known), abs=1e-6)
    assert own["drop"][:2] == [first, last]
    assert (found["drop"].lengths[0], found["drop"].dropped) == (2, (split.Dropped("missing", 2),))
    assert [task.filled for task in found.values()] == [2, 2, 0]


def test_examples_are_not_cut_and_files_that_are_not_there_are_named(tmp_path):
    path = of_series(tmp_path / "x.csv", [0, 1] * 10)
    with pytest.raises(PefourierError, match="--window and --stride"):
        read(path, window=2)
    with pytest.raises(PefourierError, match=r"no\.csv"):
        read(tmp_path / "no.csv")
