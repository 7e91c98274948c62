"""Series in long form."""

import re

import numpy as np
import pytest

from pefourier.errors import PefourierError
from pefourier.train.data import load, split
from pefourier.train.data.examples import from_examples
from pefourier.train.stacks import remarks_on_task


def write_long(path, rng, series, head="id,time,a,b,label", group=None):
    """Lines of series {name: (rows, label or labels)} in another order than that of time."""
    lines = []
    for name, (rows, labels) in series.items():
        every = labels if isinstance(labels, list) else [labels] * len(rows)
        for t, (row, label) in enumerate(zip(rows, every, strict=True)):
            extra = "" if group is None else f",{group[name]}"
            lines.append(f"{name},{t / 2},{row[0]!r},{row[1]!r},{label}{extra}")
    rng.shuffle(lines)
    path.write_text("\n".join([head, *lines]) + "\n")
    return str(path)


def test_examples_in_long_form_are_those_of_an_array(tmp_path, rng):
    x, y = rng.normal(size=(40, 6, 2)), np.arange(40) % 2
    x = x.astype(np.float32).astype(float)
    series = {f"s{i:02d}": (x[i].tolist(), ("no", "yes")[y[i]]) for i in range(40)}
    found = load.load_task(write_long(tmp_path / "x.csv", rng, series))
    expected = from_examples("x", x, np.array(["no", "yes"])[y], (), "blocks")
    np.testing.assert_array_equal(found.rows, expected.rows)
    np.testing.assert_array_equal(found.labels, expected.labels)
    assert found.classes == ("no", "yes")
    for one, other in zip(found.folds, expected.folds, strict=True):
        np.testing.assert_array_equal(one.test, other.test)
    group = {name: int(name[1:]) // 5 for name in series}
    path = write_long(tmp_path / "g.csv", rng, series, "id,time,a,b,label,group", group)
    task = load.load_task(path)
    for fold in task.folds:
        assert not set(fold.train // 5) & set(fold.test // 5)


def test_shorter_series_are_padded_and_nothing_is_learned_of_the_padding(tmp_path, rng):
    series = {f"s{i}": (rng.normal(size=(3 + i % 2, 2)).tolist(), i % 2) for i in range(20)}
    task = load.load_task(write_long(tmp_path / "x.csv", rng, series))
    assert (task.length, task.lengths[:2].tolist()) == (4, [3, 4])
    for fold in task.folds:
        names = sorted(series)
        own = np.concatenate([np.array(series[names[i]][0]) for i in fold.train])
        np.testing.assert_allclose(fold.mean, own.mean(axis=0), rtol=1e-5)
        np.testing.assert_allclose(fold.scale, own.std(axis=0), rtol=1e-5)


def test_what_times_and_lengths_are_for_is_told(tmp_path, rng):
    def told(steps, rows=(4, 4)):
        lines = [
            f"s{i},{t * steps[t % len(steps)]},{i % 2},{i}.5"
            for i in range(20)
            for t in range(rows[i % 2])
        ]
        (tmp_path / "x.csv").write_text("\n".join(["id,time,label,a", *lines]))
        task = load.load_task(str(tmp_path / "x.csv"))
        return " ".join(remarks_on_task(task)), task

    order = "times order the rows; models see their order alone, not how far apart they are"
    assert order not in told([0.5])[0]
    assert order in told([0.5, 0.75])[0]
    said, task = told([1], (3, 4))
    assert "x.csv: series of 3 to 4 rows; shorter ones are padded at their end" in said
    assert (task.shortest, task.uneven) == (3, False)


def test_whose_examples_are_is_asked_where_nothing_says_it(tmp_path, rng):
    lines = [f"s{i},{t},{i % 2},{i // 4},{t + i}" for i in range(40) for t in range(3 + i % 2)]
    told = {}
    for name in ("patient", "group"):
        (tmp_path / "x.csv").write_text("\n".join([f"id,time,label,{name},hr", *lines]))
        told[name] = " ".join(remarks_on_task(load.load_task(str(tmp_path / "x.csv"))))
    assert "x.csv: channels patient, hr" in told["patient"]
    assert "never change within an example: patient;" in told["patient"]
    assert "a column called group keeps them on one side" in told["patient"]
    assert "x.csv: channels hr" in told["group"]
    assert "no groups" not in told["group"]
    assert "never change" not in told["group"]
    x, of = rng.normal(size=(40, 3, 2)), np.arange(40) // 4
    for name in ("patient", "groups"):
        own = np.where(name == "groups", x, np.dstack([x[..., 0], np.repeat(of[:, None], 3, 1)]))
        np.savez(tmp_path / "x.npz", X=own, y=np.arange(40) % 2, **{name: of})
        told[name] = " ".join(remarks_on_task(load.load_task(str(tmp_path / "x.npz"))))
    assert "arrays not used: 'patient' (40,)" in told["patient"]
    assert "never change within an example: 1;" in told["patient"]
    assert "an array called groups keeps them on one side" in told["patient"]
    assert "not used" not in told["groups"]
    assert "never change" not in told["groups"]
    parts = {f"X_{s}": x for s in load.SIDES} | {f"y_{s}": np.arange(40) % 2 for s in load.SIDES}
    np.savez(tmp_path / "x.npz", groups=of, **parts)  # cut by who made them
    assert remarks_on_task(load.load_task(str(tmp_path / "x.npz"))) == [
        f"{tmp_path / 'x.npz'}: arrays not used: 'groups' (40,)"
    ]


def test_labels_that_change_make_recordings(tmp_path, rng):
    label = [int(i % 40 > 30) for i in range(600)]
    series = {name: (rng.normal(size=(600, 2)).tolist(), label) for name in "ab"}
    path = write_long(tmp_path / "x.csv", rng, series)
    task = load.load_task(path, window=5)
    assert (task.length, task.classes) == (5, ("normal", "anomaly"))
    np.testing.assert_allclose(task.rows[:600], series["a"][0], rtol=1e-6)
    for fold in task.folds:
        rows = [
            set((task.starts[p][:, None] + np.arange(5)).ravel()) for p in (fold.train, fold.test)
        ]
        assert not rows[0] & rows[1]


HEAD = "id,time,a,label\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it has no line"),
        ("id,time,a\n1,2,3\n", "lacks a column label"),
        ("id,time,label\n1,2,3\n", "lacks columns of channels"),
        ("id,time,t,a,label\n1,2,3,4,5\n", "'time' and 't' can each be its time"),
        (HEAD + "1,2,3\n", "line 2 has 3 cells, the first has 4"),
        (HEAD + "1,0,x,0\n", "line 2: series '1', column a: a channel must be a finite number"),
        (HEAD + "1,0,1e999,0\n", "got '1e999'"),
        (HEAD + "1,0,1,0\n1,1,,0\n", "line 3: series '1', column a is missing; fill it, or"),
        (HEAD + "1,0,nan,0\n", "line 2: series '1', column a is missing"),
        (HEAD + "1,0, N/A ,0\n", "line 2: series '1', column a is missing"),
        (HEAD + "1,2024-05-31T12:00,1,0\n", "line 2: series '1', column time: a time must be a f"),
        (HEAD + "1,0,1,0\n\n1,nan,1,0\n", "line 4: series '1', column time: a time must be a fi"),
        (HEAD + "1,0,1,\n", "line 2: series '1', column label: it has no label"),
        (HEAD + "1,0,1,0\n,0,1,0\n", "line 3: series '', column id: it has no id"),
        (HEAD, "it has names of columns and no line below them"),
        (HEAD + "1,0,1,a\n1,1,1,b\n", "rows have 2 labels, 'a, b', 1 each; name the one that"),
        (HEAD + "1,0,1,a\n1,1,1,b\n1,2,1,c\n", "rows have 3 labels, 'a, b, c'; name the one"),
        (HEAD + "1,0,1,0\n1,0,2,0\n", "line 3: series '1' has a time twice: 0"),
        (HEAD + "1,0,1,0\n1,1,2,2\n", "line 3: series '1': the label of a row must be 0 or 1"),
        (HEAD + "1,0,1,0\n2,1,2,1\n", "y has 2 classes in 2 examples"),
        (
            "id,time,a,label,group\n1,0,1,0,a\n1,1,2,0,b\n2,0,0,1,a\n",
            "line 3: series '1' is of two groups, 'a' and 'b'",
        ),
        (HEAD + '1,0,1,"' + "x" * 200_000 + "\n", "field larger than field limit"),
    ],
    ids=range(22),
)
def test_lines_that_are_no_series_are_refused(tmp_path, text, message):
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(PefourierError, match=re.escape(message)) as caught:
        load.load_task(str(path))
    assert "\n" not in str(caught.value)


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


@pytest.mark.parametrize(
    ("change", "group", "named"),
    [
        ({3: ["ok", "ok", "ok", "OK", *["ok"] * 8]}, False, ("'03'", "OK", "41")),
        ({3: ["ok", "ok", "ok", "OK", *["ok"] * 8]}, True, ("'03'", "OK", "41")),
        ({7: "Fault"}, False, ("'07'", "'Fault'", "86")),
        ({5: ["fault", *["ok"] * 11]}, True, ("'05'", "'fault'", "62")),
        ({5: [*["ok"] * 11, "oops"]}, False, ("'05'", "'oops'", "73")),
        ({5: [*["ok"] * 11, "oops"], 9: ["fault", *["ok"] * 11]}, False, ("'05'", "1 more", "73")),
    ],
    ids=range(6),
)
def test_a_series_with_two_labels_is_named(tmp_path, change, group, named):
    labels = ["fault" if i % 5 == 0 else "ok" for i in range(40)]
    for at, own in change.items():
        labels[at] = own
    path = of_series(tmp_path / "x.csv", labels, group=[i // 5 for i in range(40)] * group)
    with pytest.raises(PefourierError) as caught:
        load.load_task(path)
    assert all(name in str(caught.value) for name in named)
    assert f"line {named[2]}" in str(caught.value)


def test_series_with_two_labels_are_recordings_where_a_window_says_so(tmp_path):
    labels = ["a" if i % 8 == 0 else "b" for i in range(40)]
    for at in range(1, 40, 5):
        labels[at] = ["b"] * 8 + ["a"] * 4
    path = of_series(tmp_path / "x.csv", labels)
    with pytest.raises(PefourierError, match="--window ROWS"):
        load.load_task(path)
    assert load.load_task(path, window=4).labels.sum() == 4 * 3 + 8


@pytest.mark.parametrize(("rows", "window", "series"), [(60, 4, 40), (24, 4, 40), (30, 7, 12)])
def test_whole_series_stand_on_one_side_and_none_of_their_windows_is_lost(
    tmp_path, rows, window, series
):
    labels = [["0"] * rows if i % 3 else ["0"] * (rows - 3) + ["1"] * 3 for i in range(series)]
    task = load.load_task(of_series(tmp_path / "x.csv", labels), window=window)
    each = rows // window
    assert len(task.starts) == series * each
    assert len(task.folds) == min(5, series // 3)
    for fold in task.folds:
        parts = [set(task.starts[p] // rows) for p in (fold.train, fold.valid, fold.test)]
        assert sum(map(len, parts)) == len(set.union(*parts)) == series
        assert len(fold.train) + len(fold.valid) + len(fold.test) == len(task.starts)
    left = [split.Dropped("end", series * (rows % window))] if rows % window else []
    assert list(task.dropped) == left


def test_what_borders_of_blocks_and_short_series_drop_is_counted(tmp_path):
    label = ["1" if i % 40 > 30 else "0" for i in range(403)]
    task = load.load_task(of_series(tmp_path / "x.csv", [label, label, ["0"] * 3]), window=4)
    used = len(task.starts)
    known = {one.reason: one.count for one in task.dropped}
    assert known == {"short": 1, "end": 6, "border": 200 - used}
    assert 0 < known["border"] < 80


def test_a_window_that_blocks_leave_nothing_of_is_said_to_be_dropped(tmp_path):
    label = ["1" if i % 30 == 5 else "0" for i in range(80)]
    with pytest.raises(PefourierError, match=r"beside \d that borders of blocks drop"):
        load.load_task(of_series(tmp_path / "x.csv", [label]), window=8)


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("cut", [False, True])
def test_groups_are_left_out_one_at_a_time_where_there_are_few(tmp_path, count, cut):
    """Recordings and whole series alike; of five or more groups folds are dealt."""
    marked = ["0"] * 9 + ["1"] * 3 if cut else "1"
    labels = [marked if i % 2 else "0" for i in range(48)]
    group = [f"g{i // 2 % count}" for i in range(48)]
    window = 3 if cut else None
    task = load.load_task(of_series(tmp_path / "x.csv", labels, group=group), window=window)
    assert len(task.folds) == min(count, 5)
    tested = set()
    for fold in task.folds:
        of = [{group[row // 12] for row in task.starts[p]} for p in (fold.train, fold.test)]
        assert not of[0] & of[1]
        assert not {group[row // 12] for row in task.starts[fold.valid]} & of[1]
        tested |= of[1]
        if count < 5:
            assert (len(of[0]), len(of[1])) == (count - 1, 1)
    assert tested == set(group)


def test_one_group_says_nothing_and_a_group_of_one_class_is_not_tested(tmp_path):
    labels = ["0" if i < 16 or i % 2 else "1" for i in range(48)]
    group = [f"g{i // 16}" for i in range(48)]
    task = load.load_task(of_series(tmp_path / "x.csv", labels, group=group))
    assert (len(task.folds), task.dropped) == (2, (split.Dropped("untested", 1),))
    task = load.load_task(of_series(tmp_path / "x.csv", labels, group=["one"] * 48))
    assert (len(task.folds), task.dropped) == (5, (split.Dropped("one group", 1),))


def test_columns_have_the_roles_that_are_given(tmp_path):
    labels = ["no" if i % 2 else "yes" for i in range(40)]
    plain = load.load_task(of_series(tmp_path / "x.csv", labels))
    head = "unit,hour,state,v"
    path = of_series(tmp_path / "y.csv", labels, head=head)
    with pytest.raises(PefourierError, match="--columns time=…,series=…,label=…"):
        load.load_task(path)
    roles = "time=hour,series=unit,label=state"
    task = load.load_task(path, columns=roles)
    assert task.channels == ("v",)
    np.testing.assert_array_equal(task.rows, plain.rows)
    # a role that is given leaves a column of its name a channel
    path = of_series(tmp_path / "z.csv", [0, 1] * 20, head="id,time,y,label")
    task = load.load_task(path, columns="label=y")
    assert (task.channels, task.classes) == (("label",), ("0", "1"))
    grouped = of_series(tmp_path / "g.csv", labels, head=head, group=[i // 8 for i in range(40)])
    text = (tmp_path / "g.csv").read_text().replace(",group", ",plant", 1)
    (tmp_path / "g.csv").write_text(text)
    assert load.load_task(grouped, columns=f"{roles},group=plant").groups == 5


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("time=hour", "has no column 'hour'"),
        ("tine=time", "unknown role of --columns 'tine'"),
        ("time", "'time' lacks a column; give time=NAME"),
        ("time=time,time=v", "twice"),
        ("time=v,label=v", "twice"),
    ],
)
def test_columns_that_are_not_there_are_refused(tmp_path, columns, message):
    path = of_series(tmp_path / "x.csv", [0, 1] * 10)
    with pytest.raises(PefourierError, match=re.escape(message)):
        load.load_task(path, columns=columns)
    with pytest.raises(PefourierError, match=r"--columns is for \.csv files"):
        load.load_task("order", columns="time=t")


def test_missing_numbers_of_a_series_are_filled_or_their_rows_dropped(tmp_path):
    path = tmp_path / "x.csv"
    of_series(path, [i % 2 for i in range(40)], rows=4)
    lines = path.read_text().splitlines()
    lines[1] = "00,0,0,"
    lines[3] = "00,2,0,NaN"
    path.write_text("\n".join(lines))
    known = [float(lines[i].rpartition(",")[2]) for i in (2, 4)]
    with pytest.raises(PefourierError, match="line 2: series '00', column v is missing"):
        load.load_task(str(path))
    found = {how: load.load_task(str(path), missing=how) for how in ("previous", "mean", "drop")}
    own = {how: one.rows[:4, 0].round(6).tolist() for how, one in found.items()}
    first, last = (np.float32(value).round(6).item() for value in known)
    assert own["previous"] == [first, first, first, last]
    assert own["mean"][0] == pytest.approx(np.mean(known), abs=1e-6)
    assert own["drop"][:2] == [first, last]
    assert (found["drop"].lengths[0], found["drop"].dropped) == (2, (split.Dropped("missing", 2),))
    assert [one.filled for one in found.values()] == [2, 2, 0]


def test_examples_are_not_cut(tmp_path, rng):
    series = {f"s{i}": (rng.normal(size=(4, 2)).tolist(), i % 2) for i in range(20)}
    path = write_long(tmp_path / "x.csv", rng, series)
    with pytest.raises(PefourierError, match="--window and --stride are for recordings"):
        load.load_task(path, window=2)
    with pytest.raises(PefourierError, match=r"^no file .*no\.csv|^unknown file 'no\.csv'"):
        load.load_task(str(tmp_path / "no.csv"))
