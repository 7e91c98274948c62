"""Encodings of the measured times of each window."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from training import CPU, SIZES, numbers

from pefourier.encodings.families.absolute import stream
from pefourier.errors import PefourierError
from pefourier.train import model
from pefourier.train.data.load import load_task
from pefourier.train.data.synthetic import draw_examples
from pefourier.train.injection import WITH_TIMES, load_injection
from pefourier.train.options import Options
from pefourier.train.run import run_comparison

T, D, HEADS, WINDOWS = SIZES.tokens, SIZES.d, SIZES.heads, 5
SPECS = WITH_TIMES.split()


def at(spec, times, **settings):
    return load_injection(spec, T, D, HEADS, 0, times=times, **settings)


def drawn_times(rng):
    times = np.cumsum(rng.exponential(size=(WINDOWS, T)), axis=1)
    return times - times[:, :1]


@pytest.mark.parametrize("spec", SPECS)
def test_times_in_even_steps_have_the_vectors_of_positions(spec):
    one = at(spec, np.tile(np.arange(T), (3, 1)))
    expected = load_injection(spec, T, D, HEADS, 0)
    assert (one.act, one.learn) == (expected.act, False)
    for window in one.vectors[one.index]:
        np.testing.assert_array_equal(window, expected.table())


def waves(times, rates):
    """Return sines and cosines of each rate in neighbouring columns."""
    angles = times[..., None] * rates
    return np.stack([np.sin(angles), np.cos(angles)], axis=3).reshape(*times.shape, -1)


def mtan(times):
    slopes, shifts = stream(0).uniform(-1.0, 1.0, (2, D))
    lines = times[..., None] * slopes / (T - 1) + shifts
    return np.concatenate([lines[..., :1], np.sin(lines[..., 1:])], axis=2)


RATES = 10000.0 ** -(2 * np.arange(D // 2) / D)
HEAD_RATES = 10000.0 ** -(2 * np.arange(D // HEADS // 2) / (D // HEADS))
FORMULAS = {
    "sinusoidal": lambda t: waves(t, RATES),
    "tape": lambda t: waves(t, RATES * D / T),
    "mtan": mtan,
    "rope": lambda t: np.concatenate(
        [np.cos(t[..., None] * HEAD_RATES), np.sin(t[..., None] * HEAD_RATES)], axis=2
    ),
    "alibi": lambda t: (
        -np.abs(t[:, None] - t[:, :, None]).reshape(len(t), -1, 1) * 2.0 ** -np.array([4.0, 8.0])
    ),
}


@pytest.mark.parametrize("spec", FORMULAS)
def test_uneven_times_have_the_vectors_of_a_formula(spec, rng):
    times = drawn_times(rng)
    one = at(spec, times)
    np.testing.assert_allclose(one.vectors[one.index], FORMULAS[spec](times), atol=1e-8)


@pytest.mark.parametrize("few", [32, 0])  # tokens up to which attention is written out
@pytest.mark.parametrize("sizes", [SIZES, replace(SIZES, inject="concat", layers=2)])
def test_each_window_of_a_batch_is_as_alone_with_its_own_table(rng, monkeypatch, few, sizes):
    """Each window has its table in a stack of all encodings, reordered and partly padded."""
    monkeypatch.setitem(model.FEW_TOKENS, "cpu", few)
    times = drawn_times(rng)
    members = [at(spec, times) for spec in SPECS]
    p = {k: v[None] for k, v in model.draw_parameters(sizes.shapes(), 0).items()}
    several = {k: v.repeat(len(members), *[1] * (v.dim() - 1)) for k, v in p.items()}
    stack = model.stack_vectors(members, CPU, torch.float64)
    order, lengths = [3, 0, 4, 1], [8, 3, 8, 6]
    x = torch.as_tensor(rng.normal(size=(1, len(order), T, 2)))
    windows = torch.tensor([order]).expand(len(members), -1)
    rows = torch.tensor([lengths]).expand(len(members), -1)
    whole = x.expand(len(members), -1, -1, -1)
    got = sizes.logits(several, stack, whole, None, rows, windows)
    for m, one in enumerate(members):
        for b, (window, length) in enumerate(zip(order, lengths, strict=True)):
            own = replace(one, vectors=one.vectors[one.index[window]])
            own = replace(own, index=np.arange(len(own.vectors)))
            alone = model.stack_vectors([own], CPU, torch.float64)
            expected = sizes.logits(p, alone, x[:, b : b + 1], None, torch.tensor([[length]]))
            assert (got[m, b] - expected[0, 0]).abs().max() < 1e-12, (SPECS[m], b)


def write_series(path, times, rng, *, rows=9, series=40):
    lines = [
        f"{s},{times(s, t)},{s % 2},{rng.normal():.3f}"
        for s in range(series)
        for t in range(rows - s % 3)
    ]
    path.write_text("\n".join(["series,time,label,v", *lines]))
    return str(path)


TINY = {"encoding": ("none", "sinusoidal", "rope", "alibi", "tape", "order-free")}
TINY |= {"seeds": 2, "steps": 20, "folds": 1, "d": 16}


def test_times_in_even_steps_of_any_unit_train_the_same_models(tmp_path, rng):
    path = write_series(tmp_path / "x.csv", lambda s, t: 5 + s + t / 50, rng)
    runs = {}
    for positions in ("index", "time"):
        summary = run_comparison(Options(dataset=(path,), positions=positions, **TINY))
        runs[positions] = numbers(summary.runs)
        assert summary.training["positions"] == positions
    assert runs["index"] == runs["time"]


def test_times_are_in_mean_steps_since_the_first_row_of_a_window(tmp_path, rng):
    path = write_series(tmp_path / "x.csv", lambda s, t: 1000 * s + t * t, rng)
    task = load_task(path, Options(positions="time"))
    found = task.times_of_tokens(task.times, 1, task.length)
    series = [np.arange(9 - s % 3) ** 2 for s in range(40)]  # sorted by name
    mean = sum(own[-1] for own in series) / sum(len(own) - 1 for own in series)
    for row, length in zip(found, task.lengths if task.lengths is not None else [], strict=True):
        np.testing.assert_allclose(row[:length], np.arange(length) ** 2 / mean)
        np.testing.assert_array_equal(row[length:], row[length - 1])
    recorded = "\n".join(f"{t * t},{int(t % 20 > 16)},{t}" for t in range(400))
    (tmp_path / "y.csv").write_text(f"time,label,v\n{recorded}")
    task = load_task(str(tmp_path / "y.csv"), Options(positions="time", window=6))
    found = task.times_of_tokens(task.times, 3, 2)
    steps = (task.starts + 3) ** 2 - task.starts**2
    np.testing.assert_allclose(found, np.stack([0 * steps, steps / steps.mean()], axis=1))
    assert load_task(path).times is None


@pytest.mark.parametrize(
    ("change", "named"),
    [
        *(({"encoding": (name,)}, f"{name} has no times") for name in ("dft", "learned", "t5")),
        ({"dataset": ("order",)}, "'order' has no times"),
        *(({name: value}, "excludes") for name, value in (("learn", True), ("test_length", "24"))),
    ],
)
def test_what_has_no_times_is_refused_by_name(change, named):
    with pytest.raises(PefourierError, match=named):
        run_comparison(Options(**{"dataset": ("irregular",), "positions": "time", **change}))


def test_classes_of_irregular_depend_on_times_only():
    x, y, _, times = draw_examples("irregular:count=20000,noise=0,length=9")
    events = np.array([np.flatnonzero(row) for row in x[:, :, 0]])
    elapsed = np.diff(np.take_along_axis(times, events, axis=1))[:, 0]
    np.testing.assert_allclose(elapsed, np.where(y, 1 / 2, 1 / 6))
    assert (np.diff(times) >= 0).all()
    counts = [np.zeros((9, 9)), np.zeros((9, 9))]
    for label, table in enumerate(counts):
        np.add.at(table, tuple(events[y == label].T), 1)
    a, b = (table[np.triu_indices(9, 1)] for table in counts)
    assert ((a - b) ** 2 / (a + b)).sum() < 36 + 5 * (2 * 36) ** 0.5  # 36 cells, chi squared


def test_times_of_too_many_windows_are_refused():
    with pytest.raises(PefourierError, match="larger --patch"):
        at("alibi", np.zeros((100_000, T)))


@pytest.mark.long
def test_what_depends_on_time_is_learned_from_times_alone():
    arms = ("none", "sinusoidal", "rope", "tape", "mtan", "order-free")
    found = {}
    for positions in ("index", "time"):
        options = Options(dataset=("irregular",), encoding=arms, seeds=2, positions=positions)
        (data,) = run_comparison(options).datasets
        found[positions] = {e: scores["accuracy"].mean for e, scores in data.scores.items()}
    assert max(found["index"].values()) < 0.65
    for arm in ("sinusoidal", "rope", "tape", "mtan"):
        assert found["time"][arm] > 0.95
    assert max(found["time"]["none"], found["time"]["order-free"]) < 0.65
