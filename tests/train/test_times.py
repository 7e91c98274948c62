"""Encodings of the measured times of each window."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refusal
from training import CPU, SIZES, epochs

from pefourier.encodings import load
from pefourier.train import model, program, saved_models
from pefourier.train import program as fit
from pefourier.train.data.load import load_task
from pefourier.train.ensembles import load_for, token_rate
from pefourier.train.model import WITH_TIMES, load_injection
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
def test_uneven_times_have_the_vectors_of_their_encoding(spec, rng):
    times = drawn_times(rng)
    one, of_rows = at(spec, times), load_injection(spec, T, D, HEADS, 0)
    assert (one.act, one.learn) == (of_rows.act, spec in ("mtan", "time2vec"))
    d = {"add": D, "rotate": D // HEADS, "bias": HEADS}[one.act]
    x = times if one.act != "bias" else times[:, None] - times[:, :, None]
    expected = load(spec, T, d).vectors(x.ravel()).reshape(len(times), -1, d)
    assert_allclose(one.vectors[one.index], expected, atol=1e-8)


@pytest.mark.parametrize("few", [32, 0])  # tokens up to which attention is written out
@pytest.mark.parametrize("sizes", [SIZES, replace(SIZES, layers=2)])
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


def write_series(path, times, rng):
    lines = [
        f"{s},{times(s, t)},{s % 2},{rng.normal():.3f}" for s in range(40) for t in range(9 - s % 3)
    ]
    path.write_text("\n".join(["series,time,label,v", *lines]))
    return str(path)


def test_times_are_in_mean_steps_since_the_first_row_of_a_window(tmp_path, rng):
    path = write_series(tmp_path / "x.csv", lambda s, t: 1000 * s + t * t, rng)
    task = load_task(path, Options(positions="time"))
    every = model.Transformer(task.length, 1, 2)
    found = task.times_of_tokens(1, task.length) * token_rate(every, task)
    series = [np.arange(9 - s % 3) ** 2 for s in range(40)]  # which are sorted by name
    mean = sum(own[-1] for own in series) / sum(len(own) - 1 for own in series)
    for row, length in zip(found, task.lengths if task.lengths is not None else [], strict=True):
        assert_allclose(row[:length], np.arange(length) ** 2 / mean)
        assert_array_equal(row[length:], row[length - 1])
    recorded = "\n".join(f"{t * t},{int(t % 20 > 16)},{t}" for t in range(400))
    (tmp_path / "y.csv").write_text(f"time,label,v\n{recorded}")
    task = load_task(str(tmp_path / "y.csv"), Options(positions="time", window=6))
    found = task.times_of_tokens(3, 2) * token_rate(model.Transformer(6, 1, 2, patch=3), task)
    steps = (task.starts + 3) ** 2 - task.starts**2
    assert_allclose(found, np.stack([0 * steps, steps / steps.mean()], axis=1))
    assert load_task(path).times is None


@pytest.mark.parametrize(
    ("change", "named"),
    [
        *(({"encoding": (name,)}, f"{name} has no times") for name in ("dft", "learned", "t5")),
        ({"dataset": ("order",)}, "'order' has no times"),
        ({"encoding": ("rope", "tape@rms=1")}, "excludes @rms"),
    ],
)
def test_what_has_no_times_is_refused_by_name(change, named):
    with refusal(named):
        run_comparison(Options(**{"dataset": ("irregular",), "positions": "time", **change}))


LINES = ("mtan", "time2vec")


@pytest.fixture(scope="module")
def held():
    task = load_task("irregular:count=60,length=8", Options(positions="time"))
    return program.Resident(task, CPU, torch.float64)


def member_of(held, spec):
    sizes = replace(SIZES, channels=1)
    return sizes, fit.Replica(spec, load_for(sizes, spec, 0, held.task), 0, 0)


def test_slopes_and_shifts_are_trained_at_the_times_of_each_window(held):
    """Beside an encoding that is not trained; the gradient is that of vectors written out."""
    (sizes, fixed), *others = (member_of(held, spec) for spec in ("tape", *LINES))
    members = [fixed, *(member for _, member in others)]
    schedule = fit.Schedule(steps=30, batch_size=4, rate=1e-3)
    running = fit.Program(held, sizes, members, schedule)
    index = torch.tensor([[3, 40, 7, 21]]).expand(3, 4)
    times = held.task.times_of_tokens(1, T) * token_rate(sizes, held.task)
    for _ in range(2):
        p, x = running.parameters, held.windows(index, running.mean, running.scale)
        p["codes.add"].grad = None
        running.loss(index).mean(1).sum().backward()
        assert p["codes.add"].grad[0].abs().max() == 0
        for i in (1, 2):
            lines = p["codes.add"][i].detach().clone().requires_grad_()
            own = {k: v[i : i + 1].detach() for k, v in p.items() if k != "codes.add"}
            straight = torch.as_tensor(times)[index[i], :, None] * lines[0] + lines[1]
            codes = torch.cat([straight[..., :1], straight[..., 1:].sin()], dim=2)
            table = SimpleNamespace(table=lambda *_, codes=codes: codes[None])
            logits = sizes.logits(own, {"add": table}, x[i : i + 1])
            loss = torch.nn.functional.cross_entropy(
                logits[0], held.labels[index[i]], running.weights[i], reduction="none"
            ).mean()
            (expected,) = torch.autograd.grad(loss, lines)
            assert (p["codes.add"].grad[i] - expected).abs().max() < 1e-9
            assert expected.abs().max() > 1e-5
        running.index.copy_(index)
        running.step()


@pytest.mark.parametrize("spec", ["mtan", "rope"])
def test_windows_of_another_length_have_times_in_the_unit_of_training(held, spec):
    sizes, member = member_of(held, spec)
    (outcome,) = fit.fit(held, sizes, [member], epochs(2, 1e-2))
    longer = load_task("irregular:count=20,length=16", Options(positions="time"))
    (row,) = saved_models.score_lengths(held.task, sizes, outcome, [longer], load_for)
    assert (row["length"], row["reason"]) == (16, "")
    own = (held.task, outcome, sizes, outcome.injection)
    x, times = held.task.windows_at(np.arange(60)), held.task.times.reshape(60, T)
    logits = saved_models.classifier_of(*own).logits(x, times=times)
    assert_allclose(logits[held.task.folds[0].test], outcome.test, atol=2e-5)
    own = (*own[:2], replace(sizes, length=16), outcome.injection)
    assert saved_models.classifier_of(*own).rate == token_rate(sizes, held.task)


def test_times_of_archives_are_those_of_their_rows(tmp_path, rng):
    n, length = 40, 6
    arrays = {"X": rng.normal(size=(n, length, 2)), "y": np.arange(n) % 2}
    times = np.cumsum(rng.exponential(size=(n, length)), axis=1)
    np.savez(tmp_path / "x.npz", **arrays, times=times, lengths=np.full(n, 5))
    task = load_task(str(tmp_path / "x.npz"), Options(positions="time"))
    times[:, 5] = times[:, 4]
    assert_array_equal(task.times, times.ravel())
    assert task.uneven
    wrong = {"times": times[:, ::-1]}, {"times": times[:3]}
    for change in (*wrong, {"times": np.full((n, length), np.nan)}):
        np.savez(tmp_path / "z.npz", **arrays, **change)
        with refusal("times must"):
            load_task(str(tmp_path / "z.npz"))


def test_times_of_too_many_windows_are_refused():
    with refusal("larger --patch"):
        at("alibi", np.zeros((100_000, T)))
