"""Training of a stack: members alone and in company, rates, kept weights, compiled steps."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch.testing import assert_close
from training import CPU, EPOCH, SIZES, epochs, injection, small

from pefourier.train import model
from pefourier.train import program as fit
from pefourier.train import run_artifacts as metrics
from pefourier.train.data.split import from_examples
from pefourier.train.program import (
    Compiler,
    Program,
    Resident,
    class_weights,
    draw_batches,
)
from pefourier.train.run import run_comparison

COMPANY = ["sinusoidal", "learned", "rope", "t5", "tupe", "shaw", "shaw:values=true"]


@pytest.fixture
def task(held):
    return held.task


@pytest.fixture(scope="module")
def unequal():
    """Return random windows in five folds of unequal size."""
    x, y = np.random.default_rng(0).normal(size=(43, 8, 2)), np.arange(43) % 2
    return from_examples("x", 3 + 5 * x, y)


def member(spec, seed=0, *, learn=False, fold=0):
    return fit.Replica(spec, injection(spec, seed, learn=learn), seed, fold)


def program(task, members, dtype=torch.float64, schedule=None):
    return fit.Program(Resident(task, CPU, dtype), SIZES, members, schedule or epochs(1))


def test_seeds_and_folds_alone_decide_weights_and_batches(unequal):
    places = [(0, 0), (1, 0), (0, 1)]
    members = [member(s, seed, fold=fold) for s in COMPANY for seed, fold in places]
    running = program(unequal, members)
    for name, p in running.parameters.items():
        if not name.startswith("codes"):
            assert (p[::3] == p[0]).all(), name
    weights, vectors = running.parameters["0.qkv.w"], running.parameters["codes.add"]
    assert (weights[0] != weights[1:3]).all()
    assert torch.equal(vectors[3], vectors[5])  # `learned` of one seed in two folds
    drawn = [draw_batches(unequal, seed, fold, 0, 5, 4) for seed, fold in (*places, (0, 0))]
    assert (drawn[0] == drawn[3]).all()
    assert (drawn[0] != drawn[1]).any()


@pytest.mark.parametrize("classes", [2, 3])
def test_validation_scores_and_losses_are_their_definitions(rng, classes):
    y = np.arange(60) % classes
    task = from_examples("x", rng.normal(size=(60, 8, 2)) + 0.5 * y[:, None, None], y)
    sizes, members = replace(SIZES, classes=classes), [member("none", seed) for seed in range(3)]
    schedule = fit.Schedule(steps=12, batch_size=8, rate=1e-2, every=4)
    held = Resident(task, CPU)
    running = fit.Program(held, sizes, members, schedule)
    labels, weights = task.labels[task.folds[0].valid], class_weights(task, task.folds[0])
    looks = []
    for _ in range(3):
        running.train(4)
        looks.append(fit.score_members(running, running.evaluate("valid")))
        for logits, (score, loss) in zip(running.evaluate("valid"), looks[-1], strict=True):
            parts = torch.tensor(logits), torch.tensor(labels)
            entropy = torch.nn.functional.cross_entropy(*parts, reduction="none").numpy()
            assert loss == pytest.approx((entropy * weights[labels]).mean(), rel=1e-9)
            assert score == metrics.validation_score(logits, labels, macro=classes > 2)
    for i, outcome in enumerate(fit.fit(held, sizes, members, schedule)):
        assert_allclose(outcome.curve[:, 1:], [look[i] for look in looks])
        scores = [look[i][0] for look in looks]
        assert scores[outcome.step // 4 - 1] == max(scores)


LOSING = [{"dft": (0.9 - i / 10, 1.0), "rope": (min(i, 3), 1.0)} for i in range(9)]
NAN = (np.nan, np.nan)
CLOSE = [
    {"dft": (0.5, 0.1), "rope": (0.9, 3.0)},
    {"dft": (0.9, 0.7), "rope": NAN},
    {"dft": (0.9, 0.6), "rope": (0.8, 0.1)},
    {"dft": (0.9, 0.592), "rope": (0.9, 3.1)},
    {"dft": NAN, "rope": NAN},
]


@pytest.mark.parametrize(
    ("looks", "patience", "kept", "members"),
    [(CLOSE, 0, [3, 1], [2] * 5), (LOSING, 2, [1, 4], [2, 2, 2, 1, 1, 1])],
)
def test_of_equal_scores_the_least_loss_is_kept_and_members_end(
    held, monkeypatch, looks, patience, kept, members
):
    """The kept step has the best validation score, then the smallest loss; NaN is never kept."""
    each, reported = iter(looks), []
    monkeypatch.setattr(
        fit,
        "score_members",
        lambda p, _: np.array([found[m.encoding] for found in [next(each)] for m in p.members]),
    )
    schedule = epochs(len(looks), patience=patience)
    pair = [member("dft"), member("rope")]
    found = fit.fit(held, SIZES, pair, schedule, lambda *now: reported.append(now[:2]))
    assert [outcome.step for outcome in found] == [EPOCH * look for look in kept]
    assert reported == [(EPOCH * n, count) for n, count in enumerate(members, 1)]


@pytest.mark.parametrize("own", [{"patience": 2}, {"patience": 3, "dropout": 0.2}, {}])
def test_looks_that_are_scored_later_give_the_same_numbers(held, monkeypatch, own):
    """Scoring an evaluation later changes no number."""
    members = [member(name, seed, learn=True) for name in ("dft", "t5") for seed in (0, 1)]
    whole = fit.fit(held, SIZES, members, epochs(8, 0.02, **own))
    monkeypatch.setitem(fit.AHEAD, "cpu", 1)
    later = fit.fit(held, SIZES, members, epochs(8, 0.02, **own))
    for one, other in zip(whole, later, strict=True):
        assert one.step == other.step
        assert_allclose(one.curve, other.curve, atol=1e-9)
        assert_allclose(one.test, other.test, atol=1e-9)


def test_a_member_that_diverges_keeps_the_weights_it_began_with(task, held):
    before = program(task, [member("dft"), member("rope")]).evaluate("test")
    lost = fit.fit(held, SIZES, [member("dft"), member("rope")], epochs(2, 1e300))
    for outcome, logits in zip(lost, before, strict=True):
        assert outcome.step == 0
        assert_allclose(outcome.test, logits, rtol=1e-12)


def test_classes_count_the_same_whatever_their_size(rng):
    y = (np.arange(60) % 4 == 0).astype(int)
    task = from_examples("x", rng.normal(size=(60, 8, 2)), y)
    running = program(task, [member("none")])
    running.parameters["head.w"].data.zero_()
    running.parameters["head.b"].data.copy_(torch.tensor([0.0, 1.0]))
    loss = running.loss(torch.as_tensor(task.folds[0].train)[None]).mean().item()
    assert loss == pytest.approx((np.log1p(np.e) + np.log1p(1 / np.e)) / 2, abs=1e-12)


def test_folds_of_unequal_size_are_as_alone_in_company(unequal):
    assert len({len(fold.valid) for fold in unequal.folds}) > 1
    members = [member("dft", fold=fold) for fold in range(5)]
    together = program(unequal, members)
    for one, logits in zip(members, together.evaluate("valid"), strict=True):
        (alone,) = program(unequal, [one]).evaluate("valid")
        assert_allclose(alone, logits, atol=1e-12)
    outcomes = fit.fit(together.data, SIZES, members, epochs(1))
    for fold, outcome in zip(unequal.folds, outcomes, strict=True):
        assert (len(outcome.valid), len(outcome.test)) == (len(fold.valid), len(fold.test))


@pytest.mark.parametrize("name", ["dft", "rope", "xpos", "alibi", "t5", "shaw", "shaw:values=true"])
def test_steps_in_bfloat16_train_as_those_in_float32_do(task, monkeypatch, name):
    """Steps in bfloat16 round weights and activations, but not the kept parameters."""
    members = [member(name, seed, learn=bool(seed)) for seed in (0, 1)]
    held = Resident(task, CPU)
    plain = fit.Program(held, SIZES, members, epochs(1))
    exact = plain.train(EPOCH)
    monkeypatch.setattr(fit, "step_precision", lambda *_: torch.bfloat16)
    running = fit.Program(held, SIZES, members, epochs(1))
    kinds = {p.dtype for n, p in running.rounded.items()}
    assert kinds == {torch.bfloat16}
    assert running.parameters.keys() - running.rounded.keys() >= {"head.w", "head.b"}
    rounded = running.train(EPOCH)
    assert (rounded != exact).all()
    assert_allclose(rounded, exact, rtol=0.02)
    assert {p.dtype for p in running.parameters.values()} == {torch.float32}
    assert running.logits(running.index).dtype == torch.float32
    for key, p in running.parameters.items():
        if not key.startswith("codes"):  # ten times as fast, starting near zero
            assert_close(p, plain.parameters[key], rtol=0.1, atol=0.02, msg=key)


PLAIN = epochs(1)


def trained(held, members, schedule=PLAIN, epochs=2):
    running = fit.Program(held, SIZES, members, schedule)
    running.train(epochs * EPOCH)
    return running


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("name", ["dft", "learned", "t5"])
def test_a_member_in_a_stack_is_the_member_alone(held, share, name):
    schedule = replace(PLAIN, dropout=share)
    alone = trained(held, [member(name)], schedule)
    company = [member("sinusoidal"), member("learned", seed=5)]
    together = trained(held, [*company, member(name), member("t5", seed=4)], schedule)
    for key, value in alone.parameters.items():
        other = together.parameters[key][2:3, : value.shape[1]]
        assert (value - other).abs().max() < 1e-9, key
    assert_allclose(together.evaluate("test")[2], alone.evaluate("test")[0], atol=1e-9)


@pytest.mark.parametrize("name", ["dft", "learned", "t5"])
def test_the_rate_of_vectors_is_that_of_torch(held, name):
    found = trained(held, [member(name)], epochs=3)
    twin = fit.Program(held, SIZES, [member(name)], PLAIN)
    groups = [
        {"params": [p], "lr": 1e-2 if key.startswith("codes.") else 1e-3}
        for key, p in twin.parameters.items()
    ]
    twin.optimizer = torch.optim.Adam(groups)
    twin.train(3 * EPOCH)
    for key, value in twin.parameters.items():
        assert (value - found.parameters[key]).abs().max() < 1e-9, key


def test_patience_goes_on_with_the_steps_that_were_taken(held):
    """Members that remain in a smaller stack keep their dropout."""
    members = [member("dft"), member("rope")]
    whole = fit.Program(held, SIZES, members, replace(PLAIN, dropout=0.2))
    whole.train(EPOCH)
    alone = whole.with_members([1])
    for running in (whole, alone):
        running.train(EPOCH)
    assert whole.done == alone.done == 2 * EPOCH
    assert_allclose(whole.evaluate("test")[1], alone.evaluate("test")[0], atol=1e-9)


def test_a_share_is_dropped_and_what_stays_is_scaled_up():
    x = torch.ones(2, 20, 500)
    for share in (0.5, 0.9):
        drop = model.Dropout(share, [1, 2], CPU).begin(4)
        first = drop(x)
        assert (first != 0).float().mean().item() == pytest.approx(1 - share, abs=0.02)
        assert first.unique().tolist() == pytest.approx([0, 1 / (1 - share)])
        assert not torch.equal(first, drop(x))  # another layer
        assert torch.equal(first, drop.begin(4)(x))
        assert not torch.equal(first, drop.begin(5)(x))
        alone = model.Dropout(share, [2], CPU).begin(4)(x[:1])
        assert torch.equal(alone[0], first[1])  # whatever the other members are


INJECTED = ("dft", "learned", "rope", "xpos", "t5", "tupe", "shaw", "shaw:values=true", "none")


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("g++"), reason="there is no C++ compiler")
def test_compiled_steps_are_the_eager_ones(held):
    """Compiled steps equal eager steps with all injections in a stack, half of it trained."""
    notes = []
    members = [member(name, learn=bool(i % 2)) for i, name in enumerate(INJECTED)]
    compiler = Compiler(notes.append)
    plain = Program(held, SIZES, members, epochs(1))
    compiled = Program(held, SIZES, members, epochs(1), compiler)
    for _ in range(2):
        assert_close(compiled.train(3), plain.train(3), rtol=1e-5, atol=1e-5)
    for name, p in plain.parameters.items():
        assert_close(compiled.parameters[name], p, rtol=1e-5, atol=1e-5, msg=name)
    assert (compiler.works, len(notes)) == (True, 1)


def test_training_goes_on_where_nothing_compiles(held, monkeypatch):
    """One note reports that compiling failed."""

    def refuse(_):
        raise torch._dynamo.exc.TorchDynamoException("there is no compiler\nand much more")

    import torch._dynamo.exc

    monkeypatch.setattr(fit, "compile_function", refuse)
    notes, members = [], [member(name) for name in ("dft", "t5")]
    plain = Program(held, SIZES, members, epochs(1)).train(6)
    compiler = Compiler(notes.append)
    for _ in range(2):
        running = Program(held, SIZES, members, epochs(1), compiler)
        assert_array_equal(running.train(6), plain)
    assert not compiler.works
    assert [note for note in notes if "there is no compiler" in note] == notes[1:]
    assert len(notes) == 2


def test_the_order_free_baseline_is_never_compiled(monkeypatch):
    """Stacks of transformers are compiled where that saves time."""
    calls, notes = [], []
    monkeypatch.setattr(fit, "compile_function", lambda loss: calls.append(loss) or loss)
    run_comparison(small(seeds=1), note=notes.append)
    assert not calls
    monkeypatch.setattr("pefourier.train.ensembles.pays_to_compile", lambda *_: True)
    run_comparison(small(seeds=1), note=notes.append)
    assert len({*calls}) == 1
    assert [line for line in notes if "compiling" in line] == [
        f"compiling the step of {n} members" for n in (1, 2)
    ]
