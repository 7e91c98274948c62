"""Series in long form."""

import re

import numpy as np
import pytest

from pefourier.errors import PefourierError
from pefourier.train.data import load
from pefourier.train.data.examples import from_examples
from pefourier.train.grid import remarks_on_examples


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
        return " ".join(remarks_on_examples(task)), task

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
        told[name] = " ".join(remarks_on_examples(load.load_task(str(tmp_path / "x.csv"))))
    assert "x.csv: channels patient, hr" in told["patient"]
    assert "channel patient never changes within an example" in told["patient"]
    assert "a column called group keeps them on one side" in told["patient"]
    assert "x.csv: channels hr" in told["group"]
    assert "no groups" not in told["group"]
    assert "never changes" not in told["group"]
    x, of = rng.normal(size=(40, 3, 2)), np.arange(40) // 4
    for name in ("patient", "groups"):
        own = np.where(name == "groups", x, np.dstack([x[..., 0], np.repeat(of[:, None], 3, 1)]))
        np.savez(tmp_path / "x.npz", X=own, y=np.arange(40) % 2, **{name: of})
        told[name] = " ".join(remarks_on_examples(load.load_task(str(tmp_path / "x.npz"))))
    assert "arrays not used: 'patient' (40,); is one of them the groups" in told["patient"]
    assert "channel 1 never changes within an example" in told["patient"]
    assert "an array called groups keeps them on one side" in told["patient"]
    assert "not used" not in told["groups"]
    assert "never changes" not in told["groups"]
    parts = {f"X_{s}": x for s in load.SIDES} | {f"y_{s}": np.arange(40) % 2 for s in load.SIDES}
    np.savez(tmp_path / "x.npz", groups=of, **parts)  # cut by who made them
    assert remarks_on_examples(load.load_task(str(tmp_path / "x.npz"))) == [
        f"{tmp_path / 'x.npz'}: arrays not used: 'groups' (40,)"
    ]


def test_dates_names_semicolons_and_decimal_commas_are_read(tmp_path, rng):
    label = ["fault" if i % 40 > 30 else "fine" for i in range(600)]
    rows = rng.normal(size=(600, 2)).round(3)
    lines = [
        f"{series};2024-03-{1 + i // 24:02d} {i % 24:02d}:30;{str(x).replace('.', ',')};{y};{name}"
        for series in "ab"
        for i, ((x, y), name) in enumerate(zip(rows, label, strict=True))
    ]
    (tmp_path / "x.csv").write_text("\n".join(["id;date;u;v;label", *lines[::-1]]) + "\n")
    task = load.load_task(str(tmp_path / "x.csv"), window=5)
    assert task.classes == ("fine", "fault")
    np.testing.assert_allclose(task.rows[:600], rows, rtol=1e-6)
    turned = load.load_task(str(tmp_path / "x.csv"), None, 5, None, "random", positive=["fine"])
    assert turned.classes == ("fault", "fine")
    assert turned.labels.mean() > 0.5 > task.labels.mean()


def test_times_of_zones_are_ordered_as_they_passed(tmp_path):
    ends = ("T01:00:00+02:00,1", "T00:00:00Z,2", "T00:30:00+00:00,3")
    lines = [f"s{i},2024-05-01{end},{'ab'[i % 2]}" for i in range(20) for end in ends[::-1]]
    (tmp_path / "x.csv").write_text("\n".join(["id,time,u,label", *lines]))
    task = load.load_task(str(tmp_path / "x.csv"))
    assert task.rows[:3, 0].tolist() == [1, 2, 3]


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
        ("", "is not a readable .csv file: it has no line"),
        ("id,time,a\n1,2,3\n", "lacks a column label: its first line names"),
        ("id,time,label\n1,2,3\n", "lacks columns of channels"),
        ("id,time,t,a,label\n1,2,3,4,5\n", "'time' and 't' can each be its time; rename"),
        (HEAD + "1,2,3\n", "line 2 has 3 cells, the first has 4"),
        (
            HEAD + "1,0,x,0\n",
            "line 2: channel a must be a finite number; fill missing values, or call the column "
            "group if it says whose a series is; got 'x'",
        ),
        (HEAD + "1,0,,0\n", "channel a must be a finite number"),
        (HEAD + "1,0,nan,0\n", "channel a must be a finite number; fill missing values"),
        (HEAD + "1,now,1,0\n", "line 2: time must be a number, or a date such as 2024-05-31T12"),
        (HEAD + "1,0,1,0\n\n1,now,1,0\n", "line 4: time must be a finite number; got 'now'"),
        (HEAD, "it has names of columns and no line below them"),
        (HEAD + "1,0,1,a\n1,1,1,b\n", "rows have 2 labels, 'a, b', 1 each; name the one that"),
        (HEAD + "1,0,1,a\n1,1,1,b\n1,2,1,c\n", "rows have 3 labels, 'a, b, c'; name the one"),
        (HEAD + "1,0,1,0\n1,0,2,0\n", "line 3: series '1' has a time twice; got '0'"),
        (
            HEAD + "1,0,1,0\n1,1,2,2\n",
            "line 3: the label of a row must be 0 or 1, or --positive NAME; got '2'",
        ),
        (HEAD + "1,0,1,0\n2,1,2,1\n", "y has 2 classes in 2 examples"),
        ("id,time,a,label,group\n1,0,1,0,a\n1,1,2,0,b\n", "series '1' is of two groups"),
        (
            "id,time,a,label,group\n1,0,1,0,a\n1,1,2,1,a\n",
            "group goes with series of one label each",
        ),
        (HEAD + '1,0,1,"' + "x" * 200_000 + "\n", "field larger than field limit"),
    ],
)
def test_lines_that_are_no_series_are_refused(tmp_path, text, message):
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(PefourierError, match=re.escape(message)) as caught:
        load.load_task(str(path))
    assert "\n" not in str(caught.value)


def test_examples_are_not_cut(tmp_path, rng):
    series = {f"s{i}": (rng.normal(size=(4, 2)).tolist(), i % 2) for i in range(20)}
    path = write_long(tmp_path / "x.csv", rng, series)
    with pytest.raises(PefourierError, match="--window and --stride are for recordings"):
        load.load_task(path, window=2)
    with pytest.raises(PefourierError, match=r"^no file .*no\.csv|^unknown file 'no\.csv'"):
        load.load_task(str(tmp_path / "no.csv"))
