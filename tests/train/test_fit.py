"""The stacked classifier: its slow twin, what acts do, a member alone and in company."""

import contextlib
import gc
import sys
import weakref
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from training import SIZES, injection

from pefourier.encodings.registry import BUILDERS
from pefourier.errors import PefourierError
from pefourier.train import fit, metrics
from pefourier.train.checkpoint import Checkpoint
from pefourier.train.data.examples import from_examples
from pefourier.train.data.load import load_task
from pefourier.train.injection import OTHERWISE

EPOCH = 6  # steps
SCHEDULE = fit.Schedule(steps=EPOCH, batch_size=4, rate=1e-3, every=EPOCH)
CPU = torch.device("cpu")


def epochs(number, rate=1e-3, patience=0, **own):
    """So many epochs of six steps, looked at after each."""
    given = {"batch_size": 4, "rate": rate, "every": EPOCH, "patience": EPOCH * patience}
    return fit.Schedule(steps=number * EPOCH, **{**given, **own})


@pytest.fixture(scope="module")
def task():
    return load_task("order:count=40,length=8")


def member(spec, seed=0, learn=False):
    return fit.Member(spec, injection(spec, seed, learn), seed, 0)


def program(task, members, sizes=SIZES, dtype=torch.float64):
    return fit.Program(fit.put_on_device(task, CPU, dtype), sizes, members, SCHEDULE)


def steps(task, members, number=3, dtype=torch.float64):
    """Parameters and logits of each member after some steps, by encoding and seed."""
    running = program(task, members, dtype=dtype)
    if number:
        running.train(number)
    logits = torch.as_tensor(np.stack(running.evaluate("test")))
    return {
        (m.encoding, m.seed): (
            logits[i],
            {k: p[i] for k, p in running.parameters.items() if not k.startswith("codes")},
        )
        for i, m in enumerate(running.members)
    }


COMPANY = ["sinusoidal", "learned", "rope", "t5", "tupe", "shaw"]


@pytest.mark.parametrize("learn", [False, True])
@pytest.mark.parametrize("name", ["dft", "xpos", "alibi", "tupe", "shaw", "none"])
def test_a_member_in_a_stack_is_the_member_alone(task, name, learn):
    alone = steps(task, [member(name, 3, learn)])
    company = [member(spec, seed) for spec in COMPANY for seed in (0, 3) if spec != name]
    together = steps(task, [*company, member(name, 3, learn)])
    (logits, parameters), (other, others) = alone[name, 3], together[name, 3]
    assert (logits - other).abs().max() < 1e-6
    for key, value in parameters.items():
        assert (value - others[key]).abs().max() < 1e-6, key


@pytest.mark.parametrize("name", ["dft", "rope", "t5", "shaw"])
def test_float32_stacks_agree_with_the_member_alone(task, name):
    alone = steps(task, [member(name, 3)], dtype=torch.float32)[name, 3][0]
    company = [member(spec) for spec in COMPANY]
    together = steps(task, [*company, member(name, 3)], dtype=torch.float32)[name, 3][0]
    assert (alone - together).abs().max() < 1e-5


@pytest.mark.parametrize("name", OTHERWISE)
def test_rotations_that_treat_queries_and_keys_otherwise_are_refused(name):
    with pytest.raises(PefourierError, match="this classifier turns both alike"):
        member(name)


@pytest.mark.parametrize("name", sorted(BUILDERS.keys() - OTHERWISE))
def test_every_encoding_trains(task, name):
    before = steps(task, [member(name)], number=0)[name, 0][0]
    after = steps(task, [member(name)])[name, 0][0]
    assert torch.isfinite(after).all()
    assert (before != after).any()


def test_encodings_of_a_seed_begin_alike_and_read_the_same_windows(task):
    running = program(task, [member(spec, seed) for spec in COMPANY for seed in (0, 1)])
    own = [i for i, m in enumerate(running.members) if m.seed == 0]
    for name, p in running.parameters.items():
        if not name.startswith("codes"):
            assert (p[own] == p[own[0]]).all(), name
    other = next(i for i, m in enumerate(running.members) if m.seed == 1)
    assert (running.parameters["0.qkv.w"][own[0]] != running.parameters["0.qkv.w"][other]).any()
    one, again, third = (fit.draw_batches(task, member("dft", s), 12, 5, 4) for s in (0, 0, 1))
    np.testing.assert_array_equal(one, again)
    assert (one != third).any()
    assert (one != fit.draw_batches(task, member("dft"), 18, 5, 4)).any()
    assert set(one.ravel()) <= set(task.folds[0].train)


def test_batches_are_the_same_however_steps_are_cut(task):
    """Each epoch shuffles anew, and a look may come in the midst of one."""
    whole = fit.draw_batches(task, member("dft"), 0, 2 * EPOCH, 4)
    for first, count in ((0, 4), (4, 5), (9, 3), (5, 2)):
        part = fit.draw_batches(task, member("dft"), first, count, 4)
        np.testing.assert_array_equal(part, whole[first : first + count])
    for epoch in np.split(whole, 2):
        assert sorted(epoch.ravel()) == sorted(task.folds[0].train)


def test_runs_of_a_seed_share_neither_weights_nor_batches_across_folds(rng):
    task = from_examples("x", rng.normal(size=(40, 8, 2)), np.arange(40) % 2, (), "blocks")
    codes = injection("learned", 3)
    running = program(task, [fit.Member("learned", codes, 3, fold) for fold in (0, 1)])
    assert (running.parameters["0.qkv.w"][0] != running.parameters["0.qkv.w"][1]).all()
    assert torch.equal(*running.parameters["codes.add"])  # what the seed alone draws


def test_two_runs_give_the_same_bits(task):
    members = [member(spec) for spec in COMPANY]
    one, other = (steps(task, members, dtype=torch.float32) for _ in range(2))
    for key in one:
        assert torch.equal(one[key][0], other[key][0])


def test_codes_that_places_share_stay_shared_under_training(task):
    running = program(task, [member("t5")])
    for _ in range(2):
        running.index.copy_(torch.as_tensor(task.folds[0].train[:4])[None])
        running.step()
    (stacked,) = running.injected.values()
    table = stacked.table(running.parameters["codes.bias"])[0].detach().numpy().reshape(8, 8, 2)
    start = injection("t5").table().reshape(8, 8, 2)
    for lag in range(-7, 8):
        assert np.ptp(np.diagonal(table[:, :, 0], lag)) == 0
    assert (table != start).any()
    rows = injection("t5").as_rows(table.reshape(64, 2))
    np.testing.assert_array_equal(rows, [table[max(-lag, 0), max(lag, 0)] for lag in range(-7, 8)])


def test_the_weights_with_the_best_average_precision_on_validation_are_kept(task):
    schedule = epochs(6, 0.05)
    members = [member("dft"), member("none"), member("learned")]
    held = fit.put_on_device(task, CPU, torch.float64)
    found = fit.fit(held, SIZES, members, schedule)
    running = fit.Program(held, SIZES, members, schedule)
    scores = []
    for _ in range(6):
        running.train(EPOCH)
        scores.append(running.validate()[:, 0])
    labels = task.labels[task.folds[0].valid]
    for outcome, own in zip(found, np.transpose(scores), strict=True):
        logits = outcome.valid
        assert metrics.average_precision(logits[:, 1] - logits[:, 0], labels == 1) == max(own)
        assert outcome.step == EPOCH * (list(own).index(max(own)) + 1)
    assert (np.argmax(scores, axis=0) < 5).any()


def judged(monkeypatch, *looks):
    """Let validation find these scores and losses, look after look, of members by their codes."""
    each = iter(looks)
    monkeypatch.setattr(
        fit.Program,
        "validate",
        lambda self: np.array([found[m.encoding] for found in [next(each)] for m in self.members]),
    )


def test_of_equal_scores_the_least_loss_is_kept_then_the_first_and_lost_ones_never(
    task, monkeypatch
):
    held = fit.put_on_device(task, CPU, torch.float64)
    nan = (np.nan, np.nan)
    judged(
        monkeypatch,
        {"dft": (0.5, 0.1), "none": (0.9, 3.0)},
        {"dft": (0.9, 0.7), "none": nan},
        {"dft": (0.9, 0.6), "none": (0.8, 0.1)},
        {"dft": (0.9, 0.592), "none": (0.9, 3.1)},
        {"dft": nan, "none": nan},
    )
    found = fit.fit(held, SIZES, [member("dft"), member("none")], epochs(5))
    assert [outcome.step for outcome in found] == [3 * EPOCH, EPOCH]


def test_where_the_score_is_1_early_training_goes_on_by_the_loss(rng):
    """Three examples of each class to validate: their ranking is perfect long before the rest's."""
    y = np.arange(300) % 2
    x = rng.normal(0, 1.0, (300, 8, 2)) + 0.6 * (2 * y - 1)[:, None, None]
    whole = from_examples("x", x, y, (), "blocks", most_folds=1)
    fold = whole.folds[0]
    few = np.concatenate([fold.valid[whole.labels[fold.valid] == c][:3] for c in (0, 1)])
    task = replace(whole, folds=(replace(fold, valid=few),))
    each = len(fold.train) // 8
    schedule = fit.Schedule(8 * each, 8, 3e-4, every=each)
    held = fit.put_on_device(task, CPU)
    running = fit.Program(held, SIZES, [member("none")], schedule)
    found = np.array([[running.train(each), running.validate()[0]][1] for _ in range(8)])
    first, least = found[:, 0].argmax(), found[:, 1].argmin()
    assert found[first, 0] == found[least, 0] == 1
    (outcome,) = fit.fit(held, SIZES, [member("none")], schedule)
    assert first < least == outcome.step // each - 1


def test_of_more_classes_macro_f1_chooses_the_weights(rng):
    y = np.arange(60) % 3
    task = from_examples("x", rng.normal(size=(60, 8, 2)) + y[:, None, None], y, (), "blocks")
    sizes, schedule = replace(SIZES, classes=3), fit.Schedule(24, 8, 3e-3, every=4)
    held, members = fit.put_on_device(task, CPU), [member("none", seed) for seed in range(4)]
    labels = task.labels[task.folds[0].valid]
    running = fit.Program(held, sizes, members, schedule)
    chosen = []
    for look in range(6):
        running.train(4)
        for logits, (f1, loss) in zip(running.evaluate("valid"), running.validate(), strict=True):
            said = logits.argmax(axis=1)
            own = [metrics.precision_recall_f1(said == c, labels == c)[2] for c in range(3)]
            assert f1 == pytest.approx(np.mean(own), abs=1e-12)
            weights = torch.tensor(fit.class_weights(task, task.folds[0]))
            parts = torch.tensor(logits), torch.tensor(labels)
            each = torch.nn.functional.cross_entropy(*parts, reduction="none")
            assert loss == pytest.approx((each * weights[parts[1]]).mean().item(), rel=1e-9)
            chosen.append((f1, loss, 4 * (look + 1)))
    outcomes = fit.fit(held, sizes, members, schedule)
    for i, outcome in enumerate(outcomes):
        best = chosen[i]
        for one in chosen[i::4]:
            better = one[0] > best[0] or (one[0] == best[0] and one[1] < best[1] - 0.01)
            best = one if better else best
        assert outcome.step == best[2]


def test_patience_ends_a_member_and_changes_no_other(task, monkeypatch):
    held = fit.put_on_device(task, CPU, torch.float64)
    members = [member(name, seed, True) for name in ("dft", "learned", "t5") for seed in (0, 1)]
    members += [member(name) for name in ("rope", "shaw", "alibi")]
    seen, whole = [], fit.Program.train
    monkeypatch.setattr(
        fit.Program,
        "train",
        lambda self, number: [seen.append(len(self.members)), whole(self, number)][1],
    )
    outcomes = {}
    for patience in (0, 2):
        found = fit.fit(held, SIZES, members, epochs(12, 0.02, patience))
        outcomes[patience] = {(o.member.encoding, o.member.seed): o for o in found}
    assert seen[:12] == [9] * 12
    short = seen[12:]
    assert short == sorted(short, reverse=True)
    assert len(set(short)) > 2
    same = 0
    for key, one in outcomes[2].items():
        other = outcomes[0][key]
        if one.step == other.step:
            same += 1
            np.testing.assert_allclose(one.test, other.test, atol=1e-9)
            np.testing.assert_allclose(one.codes, other.codes, atol=1e-9)
    assert same > 3


class Interrupted(Exception):
    """What ends training in a test."""


@pytest.mark.parametrize("looks", [1, 3, 6, 8])
@pytest.mark.parametrize("own", [{}, {"dropout": 0.2, "warmup": 9, "weight_decay": 0.1}])
def test_what_a_checkpoint_goes_on_from_gives_the_same_bits(
    task, tmp_path, monkeypatch, looks, own
):
    """Members that patience has ended, codes under training and candidates included."""
    held = fit.put_on_device(task, CPU)
    members = [member(name, seed, True) for name in ("dft", "t5", "rope") for seed in (0, 1)]
    members += [member("none"), member("shaw")]
    schedule = epochs(9, 0.02, 2, **own)
    whole = fit.fit(held, SIZES, members, schedule)
    monkeypatch.setattr("pefourier.train.checkpoint.EVERY", 0.0)
    path = tmp_path / "checkpoints" / "one.safetensors"

    def stop(taken, members, loss):
        if taken == EPOCH * (looks + 1):
            raise Interrupted

    with contextlib.suppress(Interrupted):
        fit.fit(held, SIZES, members, schedule, stop, Checkpoint(path))
    assert path.is_file()
    seen = []
    again = fit.fit(held, SIZES, members, schedule, lambda *now: seen.append(now), Checkpoint(path))
    assert [taken for taken, _, _ in seen][:1] in ([], [EPOCH * (looks + 1)])
    for one, other in zip(whole, again, strict=True):
        assert one.step == other.step
        np.testing.assert_array_equal(one.test, other.test)
        np.testing.assert_array_equal(one.curve, other.curve)
        np.testing.assert_array_equal(one.codes, other.codes)
    Checkpoint(path).drop()
    assert not path.parent.exists()


def test_a_stack_whose_members_are_all_done_ends(task, monkeypatch):
    held = fit.put_on_device(task, CPU, torch.float64)
    looks = [{"dft": (0.9 - i / 10, 1.0), "rope": (min(i, 3), 1.0)} for i in range(9)]
    judged(monkeypatch, *looks)
    told = []
    members = [member("dft"), member("rope")]
    found = fit.fit(held, SIZES, members, epochs(9, patience=2), lambda *now: told.append(now[:2]))
    assert [o.step for o in found] == [EPOCH, 4 * EPOCH]
    assert told == [(EPOCH * n, 2 if n < 4 else 1) for n in range(1, 7)]


def test_a_member_that_diverges_keeps_the_weights_it_began_with(task):
    held = fit.put_on_device(task, CPU, torch.float64)
    before = program(task, [member("dft"), member("rope")]).evaluate("test")
    lost = fit.fit(held, SIZES, [member("dft"), member("rope")], epochs(2, 1e300))
    for outcome, logits in zip(lost, before, strict=True):
        assert outcome.step == 0
        np.testing.assert_allclose(outcome.test, logits, rtol=1e-12)


def test_fixed_codes_stay_and_learned_ones_move(task):
    running = program(task, [member("dft"), member("learned"), member("sinusoidal", learn=True)])
    before = running.parameters["codes.add"].detach().clone()
    running.index.copy_(torch.as_tensor(task.folds[0].train[:4]).expand(3, 4))
    running.step()
    table = running.injected["add"].table(running.parameters["codes.add"]).detach()
    np.testing.assert_array_equal(table[0], injection("dft").table())
    assert (running.parameters["codes.add"][1:] != before[1:]).any(dim=(1, 2)).all()


def test_classes_count_the_same_and_the_first_loss_is_that_of_a_guess(task):
    running = program(task, [member("none")])
    fold = task.folds[0]
    np.testing.assert_allclose(fit.class_weights(task, fold), [1.0, 1.0], atol=0.2)
    running.parameters["head.w"].data.zero_()
    loss = running.loss(torch.as_tensor(fold.train)[None]).mean().item()
    assert loss == pytest.approx(np.log(2), abs=1e-12)


def test_folds_of_unequal_size_are_told_alike_in_company(rng):
    x, y = rng.normal(size=(43, 8, 2)), np.arange(43) % 2
    unequal = from_examples("x", x, y, (), "blocks")
    assert len({len(fold.valid) for fold in unequal.folds}) > 1
    codes = injection("dft")
    members = [fit.Member("dft", codes, 0, fold) for fold in range(5)]
    together = program(unequal, members).evaluate("valid")
    for one, logits in zip(members, together, strict=True):
        (alone,) = program(unequal, [one]).evaluate("valid")
        np.testing.assert_allclose(alone, logits, atol=1e-12)
    outcomes = fit.fit(fit.put_on_device(unequal, CPU), SIZES, members, SCHEDULE)
    sizes = [(len(o.valid), len(o.test)) for o in outcomes]
    assert sizes == [(len(fold.valid), len(fold.test)) for fold in unequal.folds]


def test_the_stack_halves_where_memory_ends(task, monkeypatch):
    """On a GPU, that is; its room is looked at before."""
    seen = []

    class Limited(fit.Training):
        def run(self, progress):
            seen.append(len(self.members))
            if len(self.members) > 2:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return super().run(progress)

    monkeypatch.setattr(fit, "Training", Limited)
    held, members = fit.put_on_device(task, CPU), [member(spec) for spec in COMPANY[:5]]
    with pytest.raises(PefourierError, match="memory does not hold the runs"):
        fit.fit(held, SIZES, members, SCHEDULE)
    monkeypatch.setattr(fit, "HALVED", ("cpu",))
    seen.clear()
    found = fit.fit(held, SIZES, members, SCHEDULE)
    assert [o.member.encoding for o in found] == COMPANY[:5]
    assert seen == [5, 2, 3, 1, 2]


def test_out_of_memory_while_a_step_is_captured_halves_too_and_leaves_the_stream(task, monkeypatch):
    """A capture that has failed fails again as it ends: the error of that hides the first one."""
    streams = ["own"]

    @contextmanager
    def broken(graph, stream):
        streams.append(stream)
        try:
            yield
        finally:
            if sys.exc_info()[0] is not None:
                raise RuntimeError("CUDA error: operation failed due to a previous error")
        streams.pop()

    fakes = {
        "Stream": lambda: SimpleNamespace(wait_stream=lambda other: None),
        "current_stream": lambda: SimpleNamespace(wait_stream=lambda other: None, name=streams[-1]),
        "set_stream": lambda one: streams.append(one.name),
        "stream": lambda one: nullcontext(),
        "CUDAGraph": lambda: SimpleNamespace(replay=lambda: None),
        "graph": broken,
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    running = program(task, [member("dft"), member("rope")])
    for error in (torch.OutOfMemoryError("CUDA out of memory"), ValueError("other")):
        calls = iter([None] * fit.WARM_UP + [error])

        def step(calls=calls):
            fit.Program.eager_step(running)
            if (failure := next(calls)) is not None:
                raise failure

        running.eager_step = step
        wanted = type(error) if isinstance(error, RuntimeError) else RuntimeError
        with pytest.raises(wanted, match="memory" if wanted is type(error) else "previous"):
            fit.capture_cuda_graph(running)
        assert streams[-1] == "own"


def test_a_program_that_is_left_frees_its_memory_at_once(task):
    """Without waiting for the collector: a GPU's memory has room for one."""
    running = program(task, [member("dft", learn=True), member("rope")])
    running.train(EPOCH)
    held = [weakref.ref(running), weakref.ref(running.parameters["codes.add"])]
    gc.disable()
    try:
        running = running.with_members([1])
        assert [one() for one in held] == [None, None]
    finally:
        gc.enable()


@pytest.mark.parametrize("name", ["dft", "rope", "xpos", "alibi", "t5", "shaw"])
def test_products_in_bfloat16_train_as_those_in_float32_do(task, monkeypatch, name):
    """What a GPU does, by the autocast of the CPU: tables and sums stay in float32."""
    members = [member(name, seed) for seed in (0, 1)]
    exact = program(task, members, dtype=torch.float32).train(EPOCH)
    cast = torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False)
    monkeypatch.setattr(fit.Program, "precision", lambda self: cast)
    running = program(task, members, dtype=torch.float32)
    rounded = running.train(EPOCH)
    assert (rounded != exact).all()
    np.testing.assert_allclose(rounded, exact, rtol=0.02)
    assert {p.dtype for p in running.parameters.values()} == {torch.float32}
    assert running.logits(running.index).dtype == torch.float32


def test_in_bfloat16_too_company_changes_nothing(task, monkeypatch):
    cast = torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False)
    found = []
    for company in ([], [member("dft")]):
        running = program(task, [*company, member("rope")], dtype=torch.float32)
        index = torch.as_tensor(task.folds[0].train[:4]).expand(len(company) + 1, 4)
        with cast:
            found.append(running.logits(index)[-1])
    assert (found[0] - found[1]).abs().max() < 1e-6


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("name", ["dft", "learned", "rope", "alibi", "t5", "shaw"])
def test_a_gpu_trains_as_a_cpu_does(task, name):
    members = [member(name, seed) for seed in (0, 1)]
    expected = program(task, members, dtype=torch.float32)
    got = fit.Program(fit.put_on_device(task, torch.device("cuda")), SIZES, members, SCHEDULE)
    for _ in range(3):
        losses = expected.train(EPOCH), got.train(EPOCH).cpu()
        torch.testing.assert_close(*losses, rtol=0.02, atol=0.02)
    for exact, other in zip(expected.evaluate("test"), got.evaluate("test"), strict=True):
        np.testing.assert_allclose(other, exact, atol=0.2)


def test_a_rare_class_counts_as_much_as_a_common_one(rng):
    y = (np.arange(60) % 4 == 0).astype(int)
    task = from_examples("x", rng.normal(size=(60, 8, 2)), y, (), "blocks")
    member = fit.Member("none", injection("none"), 0, 0)
    running = fit.Program(fit.put_on_device(task, CPU, torch.float64), SIZES, [member], SCHEDULE)
    running.parameters["head.w"].data.zero_()
    running.parameters["head.b"].data.copy_(torch.tensor([0.0, 1.0]))
    loss = running.loss(torch.as_tensor(task.folds[0].train)[None]).mean().item()
    assert loss == pytest.approx((np.log1p(np.e) + np.log1p(1 / np.e)) / 2, abs=1e-12)


def test_windows_are_scaled_by_their_fold(rng):
    x, y = 3 + 5 * rng.normal(size=(40, 8, 2)), np.arange(40) % 2
    task = from_examples("x", x, y, (), "blocks")
    fold = task.folds[0]
    held = fit.put_on_device(task, CPU, torch.float64)
    index = torch.as_tensor(fold.train)[None]
    mean, scale = (torch.as_tensor(v).double().view(1, 1, 1, -1) for v in (fold.mean, fold.scale))
    got = held.windows(index, mean, scale)[0].numpy()
    np.testing.assert_allclose(got.mean((0, 1)), 0, atol=1e-5)
    np.testing.assert_allclose(got.std((0, 1)), 1, atol=1e-5)


def test_the_loss_of_a_look_is_the_mean_of_its_steps(rng):
    x, y = rng.normal(size=(40, 8, 2)), np.arange(40) % 2
    task = from_examples("x", x, y, (), "blocks")
    members = [fit.Member("none", injection("none"), 0, fold) for fold in (0, 1)]
    slow = epochs(1, 1e-12)
    running = fit.Program(fit.put_on_device(task, CPU, torch.float64), SIZES, members, slow)
    for epoch in range(2):
        found = running.train(EPOCH)
        for own, member in enumerate(members):
            drawn = fit.draw_batches(task, member, epoch * EPOCH, EPOCH, 4)
            index = torch.as_tensor(drawn.ravel()).expand(2, -1)
            expected = running.loss(index)[own].mean().item()
            assert found[own].item() == pytest.approx(expected, rel=1e-5)
