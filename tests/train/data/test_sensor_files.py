"""Typical files of sensors are read as intended, or refused with a remedy."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from refusals import refusal

from pefourier.train.data.load import load_task
from pefourier.train.ensembles import SPREAD, parameters, plan_training, resolve
from pefourier.train.options import Options
from pefourier.train.statistics import detectable

ROWS, SERIES = 12, 20
START = np.datetime64("2024-03-30T22:00:00")


def table(head, cells, *, rows=lambda _: ROWS, by=","):
    """Return a file of series; `cells` gives a line's cells from series, row and random numbers."""
    rng = np.random.default_rng(0)
    places = [(s, t) for s in range(SERIES) for t in range(rows(s))]
    lines = [by.join(cells(s, t, rng.normal(size=3).round(3))) for s, t in places]
    return "\n".join([head, *lines]) + "\n"


def stamp(t, minutes=10):
    return str(START + np.timedelta64(minutes * t, "m"))


FILES = {
    # a spreadsheet with decimal commas and other column names
    "export.csv": (
        table(
            "Zeit;Gerät;Wert;Zustand",
            lambda s, t, x: [stamp(t), f"g{s}", str(x[0]).replace(".", ","), "ab"[s % 2]],
            by=";",
        ),
        {"columns": "time=Zeit,series=Gerät,label=Zustand"},
        {"channels": ["Wert"], "windows": SERIES},
    ),
    # written by pandas with row numbers, from patients, with a column of text
    "ward.csv": (
        table(
            ",date,patient_id,ward,hr,class",
            lambda s, t, x: [
                str(12 * s + t),
                stamp(t, 1440)[:10],
                f"{s}",
                "a",
                f"{x[0]}",
                f"{s % 2}",
            ],
        ),
        {},
        {"channels": ["hr"], "windows": SERIES, "left out": ["number 1", "ward"]},
    ),
    # accelerations separated by tabs, whose column y is no label
    "moves.tsv": (
        table(
            "t\tsubject\tx\ty\tz\ttarget",
            lambda s, t, x: [str(t / 50), str(s), *map(str, x), "walk" if s % 2 else "run"],
            by="\t",
        ),
        {},
        {"channels": ["x", "y", "z"], "classes": ("run", "walk"), "uneven": False},
    ),
    # unequal lengths, with a dead sensor and an empty column, at uneven times
    "uneven.csv": (
        table(
            "datetime,unit,dead,level,note,label",
            lambda s, t, x: [f"{stamp(t * t)}.500Z", str(s), "0.0", str(x[0]), "", str(s % 2)],
            rows=lambda s: 6 + s % 5,
        ),
        {},
        {"left out": ["note"], "uneven": True, "shortest": 6},
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_files_are_read_as_they_are_meant(tmp_path, name):
    text, settings, facts = FILES[name]
    (tmp_path / name).write_text(text, encoding="utf-8-sig")
    task = load_task(str(tmp_path / name), Options(**settings))
    found = {"windows": len(task.starts)} | dict(task.remarks)
    found |= {key: getattr(task, key) for key in facts if hasattr(task, key)}
    assert {key: found.get(key) for key in facts} == facts
    assert found["left out"] == facts.get("left out", [])


def test_zones_and_rows_out_of_order_are_one_clock(tmp_path):
    """Times in two zones, with shuffled lines, give the rows of plain numbers."""
    rng, lines, plain = np.random.default_rng(1), [], []
    for s in range(SERIES):
        for t in range(ROWS):
            v, label = f"{rng.normal():.3f}", s % 2
            zone = "+02:00" if t % 2 else "-0330"
            hours = np.timedelta64(120 if t % 2 else -210, "m")
            lines.append(f"{s},{START + np.timedelta64(10 * t * t, 'm') + hours}{zone},{v},{label}")
            plain.append(f"{s},{600 * t * t},{v},{label}")
    rng.shuffle(lines)
    tasks = []
    for name, body in (("zoned", lines), ("plain", plain)):
        path = tmp_path / f"{name}.csv"
        path.write_text("\n".join(["id,time,v,label", *body]))
        tasks.append(load_task(str(path)))
    assert_array_equal(tasks[0].rows, tasks[1].rows)
    assert (tasks[0].uneven, tasks[1].uneven) == (True, True)


REFUSED = {
    "x.xlsx": ("", "read_excel"),
    "x.XLS": ("", "read_excel"),
    "no-series.csv": ("time,sensor,v,label\n0,a,1,0\n0,b,2,1\n", "--columns series=NAME"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_files_are_refused_with_a_way_out(tmp_path, name):
    text, named = REFUSED[name]
    (tmp_path / name).write_text(text)
    with refusal(named):
        load_task(str(tmp_path / name))


@pytest.mark.parametrize("seeds", [3, 8, 30])
def test_the_difference_of_a_plan_is_what_its_runs_find(seeds):
    options = Options(dataset=("order:count=400,length=4",), encoding=("none",), seeds=seeds)
    (plan,) = plan_training(options)
    windows = sum(plan.folds[0]["test"])

    def finds(d):
        return detectable(seeds) * np.sqrt(SPREAD**2 / seeds + d * (1 - d) / windows) <= d

    if seeds < 4:
        assert plan.detectable is None
    else:
        assert finds(plan.detectable)
        assert not finds(plan.detectable - 0.01)


@pytest.mark.parametrize(
    ("length", "heads", "d"), [(24, 4, 32), (33, 4, 40), (60, 4, 64), (35, 3, 36)]
)
def test_a_default_model_is_as_wide_as_a_window_has_tokens(length, heads, d):
    """With the default d no encoding collides; a smaller --d lists the encodings that do."""
    arms = ("none", "sinusoidal", "dft", "onehot")
    requested = {"dataset": (f"order:count=40,length={length}",), "encoding": arms, "heads": heads}
    for own, colliding in ({}, set()), ({"d": 4 * heads}, {"dft", "onehot"}):
        (entry,) = resolve(Options(**requested, **own), 0.0, print).resolved
        assert entry.model.d == own.get("d", d)
        found = {arm for arm, params in parameters(entry).items() if params.get("collides")}
        assert found == colliding
        (plan,) = plan_training(Options(**requested, **own, seeds=1))
        assert plan.d == entry.model.d
