"""The stacked classifier: its slow twin, what acts do, a member alone and in company."""

import numpy as np
import pytest
import torch

import pefourier.encodings  # noqa: F401 (fills the registry)
from pefourier.encodings import build
from pefourier.encodings.registry import BUILDERS
from pefourier.errors import PefourierError
from pefourier.train import attention, loop, metrics, model
from pefourier.train.data.examples import from_examples
from pefourier.train.data.load import load_task
from pefourier.train.grid import most_members
from pefourier.train.injection import ACTS, load_injection, scaled_to_rms

SIZES = model.Transformer(length=8, channels=2, classes=2, d=16, heads=2)
SCHEDULE = loop.Schedule(epochs=1, batch_size=4, rate=1e-3)
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def task():
    return load_task("order:count=40,length=8")


def injection(spec, seed=0, learn=False, sizes=SIZES):
    return load_injection(spec, sizes.tokens, sizes.d, sizes.heads, seed, learn)


def member(spec, seed=0, learn=False):
    return loop.Member(spec, injection(spec, seed, learn), seed, 0)


def program(task, members, sizes=SIZES, dtype=torch.float64):
    ordered = sorted(members, key=lambda m: ACTS.index(m.injection.act))
    return loop.Program(loop.put_on_device(task, CPU, dtype), sizes, ordered, SCHEDULE)


def steps(task, members, number=3, dtype=torch.float64):
    """Parameters and logits of each member after some steps, by encoding and seed."""
    running = program(task, members, dtype=dtype)
    fold = task.folds[0]
    drawn = [loop.draw_batches(fold, m.seed, 0, 0, number, 4) for m in running.members]
    for index in torch.as_tensor(np.stack(drawn, axis=1)):
        running.index.copy_(index)
        running.step()
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


@pytest.mark.parametrize("name", sorted(BUILDERS))
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
    fold = task.folds[0]
    one, again, third = (loop.draw_batches(fold, seed, 0, 2, 5, 4) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, again)
    assert (one != third).any()
    assert (one != loop.draw_batches(fold, 0, 0, 3, 5, 4)).any()
    assert set(one.ravel()) <= set(fold.train)


def test_two_runs_give_the_same_bits(task):
    members = [member(spec) for spec in COMPANY]
    one, other = (steps(task, members, dtype=torch.float32) for _ in range(2))
    for key in one:
        assert torch.equal(one[key][0], other[key][0])


@pytest.mark.parametrize("patch", [1, 2])
def test_it_is_torchs_transformer_encoder(rng, patch):
    sizes = model.Transformer(8, 2, 3, d=16, heads=2, layers=2, patch=patch)
    p = {k: v.float()[None] for k, v in model.draw_parameters(sizes.shapes(), 5).items()}
    for key in p:
        if "norm" in key or key.endswith(".b"):
            p[key] = p[key] + torch.as_tensor(rng.normal(size=p[key].shape)).float()
    x = torch.as_tensor(rng.normal(size=(1, 4, 8, 2))).float()
    codes = build("dft", length=sizes.tokens, d=16).table()
    injected = attention.codes_by_act([injection("dft", sizes=sizes)], CPU, torch.float32)
    got = sizes.logits(p, injected, x)[0]
    h = x[0].reshape(4, sizes.tokens, -1) @ p["project.w"][0] + p["project.b"][0]
    h = h + torch.as_tensor(codes).float()
    for i in range(2):
        h = twin(p, i).eval()(h)
    expected = h.mean(1) @ p["head.w"][0] + p["head.b"][0]
    assert (got - expected).abs().max() < 1e-5


def twin(p, i):
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    pairs = {
        "self_attn.in_proj_weight": p[f"{i}.qkv.w"][0].T,
        "self_attn.in_proj_bias": torch.zeros(48),
        "self_attn.out_proj.weight": p[f"{i}.out.w"][0].T,
        "self_attn.out_proj.bias": p[f"{i}.out.b"][0, 0],
        "linear1.weight": p[f"{i}.wide.w"][0].T,
        "linear1.bias": p[f"{i}.wide.b"][0, 0],
        "linear2.weight": p[f"{i}.narrow.w"][0].T,
        "linear2.bias": p[f"{i}.narrow.b"][0, 0],
    }
    for n in (1, 2):
        pairs[f"norm{n}.weight"] = p[f"{i}.norm{n}.gain"][0, 0, 0]
        pairs[f"norm{n}.bias"] = p[f"{i}.norm{n}.shift"][0, 0, 0]
    layer.load_state_dict(pairs)
    return layer


def slow_attention(act, q, k, v, table):
    """The sums written out for one member and head: q, k, v (T, c)."""
    length, size = q.shape
    out = np.zeros_like(v)
    for i in range(length):
        logits = np.zeros(length)
        for j in range(length):
            key = k[j] + table[j - i + length - 1] if act == "key" else k[j]
            logits[j] = q[i] @ key / np.sqrt(size)
            if act == "bias":
                logits[j] += table[i * length + j, 0]
        weights = np.exp(logits - logits.max())
        out[i] = weights / weights.sum() @ v
    return out


@pytest.mark.parametrize("act", ["add", "bias", "key"])
def test_attention_is_its_definition(rng, act):
    length, size = 5, 4
    q, k, v = rng.normal(size=(3, length, size))
    table = rng.normal(size={"add": (5, 4), "bias": (25, 1), "key": (9, 4)}[act])
    parts = [torch.as_tensor(x)[None, None, :, None] for x in (q, k, v)]
    got = attention.ATTEND[act](*parts, torch.as_tensor(table)[None])[0, 0]
    np.testing.assert_allclose(got, slow_attention(act, q, k, v, table), atol=1e-12)


@pytest.mark.parametrize(
    "spec", ["rope", "rope:layout=interleaved", "xpos:span=4", "rope:partial=0.5"]
)
def test_rotated_logits_depend_on_the_lag_alone(rng, spec):
    one = load_injection(spec, 7, 8, 1, 0)
    table = torch.as_tensor(one.table())[None]
    cosine, sine = table.chunk(2, dim=2)
    square = cosine**2 + sine**2
    inverse = square[:, :1] / square
    q, k = (torch.as_tensor(x).expand(7, 8)[None, None, :, None] for x in rng.normal(size=(2, 8)))
    turned = attention.turn(q, cosine, sine), attention.turn(k, cosine * inverse, sine * inverse)
    logits = np.einsum("ic,jc->ij", *(x[0, 0, :, 0].numpy() for x in turned))
    for lag in range(-6, 7):
        assert np.ptp(np.diagonal(logits, lag)) < 1e-10
    assert abs(logits[0, 0] - float((q[0, 0, 0, 0] * k[0, 0, 0, 0]).sum())) < 1e-12
    assert len(set(logits[0].round(9))) == 7


def test_xpos_is_turned_as_its_definition_says(rng):
    """zeta^(s - t) before the rotation of pair i, Sun et al., 2022, Eq. 12, by complex numbers."""
    d, span = 4, 4.0
    one = load_injection(f"xpos:span={span}", 6, d, 1, 0)
    q, k = rng.normal(size=(2, d))
    v = torch.eye(6, dtype=torch.float64)[None, None, :, None]
    parts = [torch.as_tensor(x).expand(6, d)[None, None, :, None] for x in (q, k)]
    got = attention.attend_rotated(*parts, v, torch.as_tensor(one.table())[None])[0, 0]
    theta, zeta = 10000.0 ** (-2 * np.arange(2) / d), (2 * np.arange(2) / d + 0.4) / 1.4
    pair = (q[:2] + 1j * q[2:]) * np.conj(k[:2] + 1j * k[2:])
    lag = np.arange(6)[:, None] - np.arange(6)
    logits = sum(
        (pair[i] * np.exp(1j * theta[i] * lag)).real * zeta[i] ** (lag / span) for i in (0, 1)
    ) / np.sqrt(d)
    weights = np.exp(logits)
    np.testing.assert_allclose(got, weights / weights.sum(1, keepdims=True), atol=1e-10)


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


@pytest.mark.parametrize("name", ["t5", "shaw", "erpe"])
def test_a_place_has_the_code_of_its_lag(name):
    """Lag is key - query."""
    one = injection(name)
    enc = build(name, length=8, d=2 if one.act == "bias" else 8)
    table = one.table()
    if one.act == "key":
        np.testing.assert_array_equal(table, enc.table())
        return
    for query, key in ((0, 7), (5, 2), (3, 3)):
        (code,) = enc.codes(np.array([key - query]))
        np.testing.assert_array_equal(table[8 * query + key], code)


def test_the_epoch_with_the_best_average_precision_on_validation_is_kept(task):
    schedule = loop.Schedule(epochs=6, batch_size=4, rate=0.05)
    members = [member("dft"), member("none"), member("learned")]
    held = loop.put_on_device(task, CPU, torch.float64)
    found = loop.fit(held, SIZES, members, schedule)
    running = loop.Program(held, SIZES, members, schedule)
    scores = []
    for epoch in range(6):
        running.train_epoch(epoch)
        scores.append(running.valid_scores())
    labels = task.labels[task.folds[0].valid]
    for outcome, own in zip(found, np.transpose(scores), strict=True):
        logits = outcome.valid
        assert metrics.average_precision(logits[:, 1] - logits[:, 0], labels == 1) == max(own)
        assert outcome.epoch == list(own).index(max(own)) + 1
    assert (np.argmax(scores, axis=0) < 5).any()


def test_of_equal_epochs_the_first_is_kept_and_lost_ones_never(task, monkeypatch):
    held = loop.put_on_device(task, CPU, torch.float64)
    members = [member("dft"), member("none")]
    scores = iter(np.array([[0.5, 0.2], [0.9, np.nan], [0.9, 0.1], [np.nan, np.nan]]))
    monkeypatch.setattr(loop.Program, "valid_scores", lambda self: next(scores))
    found = loop.fit(held, SIZES, members, loop.Schedule(epochs=4, batch_size=4, rate=1e-3))
    assert [outcome.epoch for outcome in found] == [2, 1]


def test_a_member_that_diverges_keeps_the_weights_it_began_with(task):
    held = loop.put_on_device(task, CPU, torch.float64)
    before = program(task, [member("dft"), member("rope")]).evaluate("test")
    schedule = loop.Schedule(epochs=2, batch_size=4, rate=1e300)
    lost = loop.fit(held, SIZES, [member("dft"), member("rope")], schedule)
    for outcome, logits in zip(lost, before, strict=True):
        assert outcome.epoch == 0
        np.testing.assert_allclose(outcome.test, logits, rtol=1e-12)


def test_fixed_codes_stay_and_learned_ones_move(task):
    running = program(task, [member("dft"), member("learned"), member("sinusoidal", learn=True)])
    before = running.parameters["codes.add"].detach().clone()
    running.index.copy_(torch.as_tensor(task.folds[0].train[:4]).expand(3, 4))
    running.step()
    table = running.injected["add"].table(running.parameters["codes.add"]).detach()
    np.testing.assert_array_equal(table[0], injection("dft").table())
    assert (running.parameters["codes.add"][1:] != before[1:]).any(dim=(1, 2)).all()


def test_what_is_before_training_is_trained():
    """The registry says of some encodings that they stand before training."""
    said = {n for n, b in BUILDERS.items() if "before training" in b.paper or "initial" in b.paper}
    assert said == {n for n, b in BUILDERS.items() if b.untrained}
    assert injection("learned").learn
    assert not injection("rope", learn=True).learn
    assert not injection("sinusoidal").learn


def test_matched_codes_have_the_root_mean_square_asked_for():
    one = scaled_to_rms(injection("dft"), 0.25)
    assert np.sqrt((one.table() ** 2).mean()) == pytest.approx(0.25)
    own = injection("dft").table()
    np.testing.assert_allclose(one.table() * own.max(), own * one.table().max(), atol=1e-12)


def test_an_order_free_model_does_not_see_order(rng):
    sizes = model.OrderFree(8, 2, 2, 4)
    p = {k: v[None] for k, v in model.draw_parameters(sizes.shapes(), 0).items()}
    x = torch.as_tensor(rng.normal(size=(1, 3, 8, 2)))
    shuffled = x[:, :, torch.randperm(8)]
    assert (sizes.logits(p, {}, x) - sizes.logits(p, {}, shuffled)).abs().max() < 1e-12


def test_without_an_encoding_order_is_not_seen_and_with_one_it_is(rng):
    p = {k: v[None] for k, v in model.draw_parameters(SIZES.shapes(), 0).items()}
    x = torch.as_tensor(rng.normal(size=(1, 3, 8, 2)))
    for name in ("none", "sinusoidal", "rope", "t5", "shaw"):
        injected = attention.codes_by_act([injection(name)], CPU, torch.float64)
        apart = SIZES.logits(p, injected, x) - SIZES.logits(p, injected, x.flip(2))
        assert (apart.abs().max() < 1e-12) == (name == "none"), name


def test_classes_count_the_same_and_the_first_loss_is_that_of_a_guess(task):
    running = program(task, [member("none")])
    fold = task.folds[0]
    np.testing.assert_allclose(loop.class_weights(task, fold), [1.0, 1.0], atol=0.2)
    running.parameters["head.w"].data.zero_()
    loss = running.loss(torch.as_tensor(fold.train)[None]).mean().item()
    assert loss == pytest.approx(np.log(2), abs=1e-12)


def test_folds_of_unequal_size_are_told_alike_in_company(rng):
    x, y = rng.normal(size=(43, 8, 2)), np.arange(43) % 2
    unequal = from_examples("x", x, y, (), "blocks")
    assert len({len(fold.valid) for fold in unequal.folds}) > 1
    codes = injection("dft")
    members = [loop.Member("dft", codes, 0, fold) for fold in range(5)]
    together = program(unequal, members).evaluate("valid")
    for one, logits in zip(members, together, strict=True):
        (alone,) = program(unequal, [one]).evaluate("valid")
        np.testing.assert_allclose(alone, logits, atol=1e-12)
    outcomes = loop.fit(loop.put_on_device(unequal, CPU), SIZES, members, SCHEDULE)
    sizes = [(len(o.valid), len(o.test)) for o in outcomes]
    assert sizes == [(len(fold.valid), len(fold.test)) for fold in unequal.folds]


def test_the_stack_halves_where_memory_ends(task, monkeypatch):
    seen = []
    whole = loop.train_together

    def limited(data, sizes, members, schedule, progress):
        seen.append(len(members))
        if len(members) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return whole(data, sizes, members, schedule, progress)

    monkeypatch.setattr(loop, "train_together", limited)
    members = [member(spec) for spec in COMPANY[:5]]
    found = loop.fit(loop.put_on_device(task, CPU), SIZES, members, SCHEDULE)
    assert sorted(o.member.encoding for o in found) == sorted(COMPANY[:5])
    assert seen == [5, 2, 3, 1, 2]
    monkeypatch.setattr(
        loop, "train_together", lambda *a: (_ for _ in ()).throw(torch.OutOfMemoryError())
    )
    with pytest.raises(PefourierError, match="does not hold one member"):
        loop.fit(loop.put_on_device(task, CPU), SIZES, members, SCHEDULE)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"d": 10, "heads": 4}, "--d must be an even multiple of --heads 4"),
        ({"patch": 3}, "--patch must divide the 8 rows of a window; got 3"),
        ({"layers": 0}, "--layers must be 1 or more; got 0"),
    ],
)
def test_sizes_that_cannot_be_are_refused(options, message):
    with pytest.raises(PefourierError, match=message):
        model.Transformer(8, 2, 2, **options)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("t5:causal=true", "which this classifier attends to; leave out causal=true"),
        ("rope:d=32", "rope:d=32 has codes of 32 dimensions for 8 points"),
        ("alibi:d=3", "act 'bias' with d=16 and 2 heads needs 2 dimensions for 8 tokens"),
    ],
)
def test_encodings_that_do_not_fit_are_refused(spec, message):
    with pytest.raises(PefourierError, match=message):
        injection(spec)


@pytest.mark.parametrize("name", ["dft", "rope", "xpos", "alibi", "t5", "shaw"])
def test_products_in_bfloat16_train_as_those_in_float32_do(task, monkeypatch, name):
    """What a GPU does, by the autocast of the CPU: tables and sums stay in float32."""
    members = [member(name, seed) for seed in (0, 1)]
    exact = program(task, members, dtype=torch.float32).train_epoch(0)
    cast = torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False)
    monkeypatch.setattr(loop.Program, "precision", lambda self: cast)
    running = program(task, members, dtype=torch.float32)
    rounded = running.train_epoch(0)
    assert (rounded != exact).all()
    np.testing.assert_allclose(rounded, exact, rtol=0.02)
    assert {p.dtype for p in running.parameters.values()} == {torch.float32}
    assert running.logits(running.index).dtype == torch.float32


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("name", ["dft", "learned", "rope", "alibi", "t5", "shaw"])
def test_a_gpu_trains_as_a_cpu_does(task, name):
    members = [member(name, seed) for seed in (0, 1)]
    expected = program(task, members, dtype=torch.float32)
    got = loop.Program(loop.put_on_device(task, torch.device("cuda")), SIZES, members, SCHEDULE)
    for number in range(3):
        losses = expected.train_epoch(number), got.train_epoch(number).cpu()
        torch.testing.assert_close(*losses, rtol=0.02, atol=0.02)
    for exact, other in zip(expected.evaluate("test"), got.evaluate("test"), strict=True):
        np.testing.assert_allclose(other, exact, atol=0.2)


def test_positions_of_a_config_are_injected_as_they_are(tmp_path):
    file = tmp_path / "config.json"
    text = '{"model_type": "llama", "hidden_size": 32, "num_attention_heads": 4'
    file.write_text(text + ', "max_position_embeddings": 64, "rope_theta": 500.0}')
    own, named = (
        load_injection(spec, 12, 32, 4, 0).table() for spec in (str(file), "rope:rho=500")
    )
    np.testing.assert_allclose(own, named, atol=1e-12)
    with pytest.raises(PefourierError, match=r"sets a dimension of 8 \(head_dim\), --d 16 an"):
        load_injection(str(file), 12, 64, 4, 0)
    file.write_text('{"model_type": "bloom", "hidden_size": 32, "n_head": 4}')
    with pytest.raises(PefourierError, match="no codes of later keys, which this classifier att"):
        load_injection(str(file), 12, 32, 4, 0)


def test_a_gpus_stack_stays_within_what_its_attention_can_index():
    assert attention.most_windows(1, 64, 8) == 2**16 - 1
    elements = attention.most_windows(8, 300, 64) * 8 * 384 * 64
    assert 2**31 - 8 * 384 * 64 < elements <= 2**31
    gpu = torch.device("cuda")
    assert most_members(SIZES, 1024, gpu) == (2**16 - 1) // 1024
    assert most_members(SIZES, 1, gpu) == 256
    wide = model.Transformer(1024, 2, 2, d=512, heads=16)
    assert most_members(wide, 1, gpu) == 4096 // 64  # windows at once in evaluation
    assert most_members(wide, 8192, gpu) == 1
    assert most_members(SIZES, 1024, CPU) == 16
