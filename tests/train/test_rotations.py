"""Trained vectors and rotations in attention equal an eager reference, and commands report them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from training import CPU, SIZES, epochs, injection

import pefourier
from pefourier.encodings import load
from pefourier.errors import PefourierError
from pefourier.train import program as fit
from pefourier.train import saved_models
from pefourier.train.data.load import load_task
from pefourier.train.model import waves_of_rotation
from pefourier.train.program import Resident
from pefourier.train.saved_models import lengthen

GRID = (2, 4)
SPECS = dict.fromkeys(("axial-rope", "axial-rope:convention=rope-vit", "mixed-rope"), GRID)
SPECS |= dict.fromkeys(("rope", "rope:partial=0.5,layout=interleaved", "xpos"), ())
KEYS = ("shaw", "shaw:values=true", "shaw:clip=2,values=true")
BOTH = ("deberta", "deberta:buckets=4,max=9")  # vectors on keys and queries


@pytest.fixture(scope="module")
def held():
    return Resident(load_task("order:count=40,length=8"), CPU, torch.float64)


def rotation(spec, length=8):
    sizes = replace(SIZES, length=length)
    return injection(spec, learn=True, sizes=sizes, grid=SPECS.get(spec, ()))


def members(specs):
    return [fit.Replica(spec, rotation(spec), 0, 0) for spec in specs]


def rotated(one, trained):
    """Return attention whose queries and keys (B, T, H, c) are rotated as complex numbers."""
    length = torch.as_tensor(np.hypot(*np.split(one.vectors, 2, axis=1)))  # length: xpos, yarn
    angle = torch.as_tensor(one.places) @ trained
    for_query = torch.polar(length, angle)[:, None]
    for_key = torch.polar(length[:1] ** 2 / length, angle)[:, None]

    def mix(q, k, v):
        q, k = (torch.complex(*z.chunk(2, dim=3)) for z in (q, k))
        scores = torch.einsum("bqhc,bkhc->bhqk", q * for_query, (k * for_key).conj()).real
        return torch.einsum("bhqk,bkhc->bqhc", (scores / 8**0.5).softmax(3), v)

    return mix


def with_lags(one, trained):
    """Return attention with vectors of the lag added to each key, and to each value or query."""
    lags = torch.arange(8) - torch.arange(8)[:, None] + 7
    keys, *values = trained[torch.as_tensor(one.index)][lags].split(8, dim=2)
    on_queries = keys if one.act == "key-query" else torch.zeros_like(keys)

    def mix(q, k, v):
        scores = torch.einsum("bqhc,bqkhc->bhqk", q, k[:, None] + keys[:, :, None])
        scores = scores + torch.einsum("qkc,bkhc->bhqk", on_queries, k)
        v = v[:, None] + (values[0][:, :, None] if values else 0)
        v = v.expand(len(q), 8, 8, 2, 8)
        return torch.einsum("bhqk,bqkhc->bqhc", (scores / 8**0.5).softmax(3), v)

    return mix


def eager_logits(p, i, mix, x):
    """Return the logits of one member's classifier, written out."""
    own = {name: value[i] for name, value in p.items() if not name.startswith("codes")}

    def linear(name, z):
        return z @ own[f"{name}.w"] + own[f"{name}.b"]

    def normed(n, z):
        return F.layer_norm(z, (16,), *(own[f"0.norm{n}.{k}"].flatten() for k in ("gain", "shift")))

    h = linear("project", x[i])
    mixed = mix(*(h @ own["0.qkv.w"]).unflatten(2, (3, 2, 8)).unbind(2)).flatten(2)
    h = normed(1, h + linear("0.out", mixed))
    h = normed(2, h + linear("0.narrow", linear("0.wide", h).relu()))
    return linear("head", h.mean(1))


@pytest.mark.parametrize("act", ["rotate", "key", "key-query"])
def test_gradients_of_vectors_are_those_of_an_eager_twin(held, act):
    every = members({"rotate": SPECS, "key": KEYS, "key-query": BOTH}[act])
    running = fit.Program(held, SIZES, every, epochs(1, 1e-3))
    p, trained = running.parameters, running.parameters[f"codes.{act}"]
    for step in range(3):  # the first step is at the formula
        index = torch.as_tensor(held.task.folds[0].train[4 * step :][:4]).expand(len(every), 4)
        running.index.copy_(index)
        before, y = trained.detach().clone(), held.labels[index]
        x = held.windows(index, running.mean, running.scale)
        trained.grad = None
        running.loss(index).mean(1).sum().backward()
        for i, one in enumerate(member.injection for member in every):
            start = one.frequencies if act == "rotate" else one.vectors
            rows, columns = map(slice, start.shape)
            own = before[i, rows, columns].clone().requires_grad_()
            logits = eager_logits(p, i, (rotated if act == "rotate" else with_lags)(one, own), x)
            loss = F.cross_entropy(logits, y[i], running.weights[i], reduction="none").mean()
            (expected,) = torch.autograd.grad(loss, own)
            if act == "rotate":
                expected = expected * torch.as_tensor(start != 0)
            assert (trained.grad[i, rows, columns] - expected).abs().max() < 1e-12, i
            assert expected.abs().max() > 1e-6, i
        running.step()
    assert (trained != running.injected[act].start).flatten(1).any(dim=1).all()


@pytest.mark.parametrize("spec", SPECS)
def test_training_begins_at_the_formula_and_leaves_alone_what_does_not_turn(held, spec):
    one = rotation(spec)
    np.testing.assert_allclose(one.rotated(np.zeros_like(one.frequencies)).vectors, one.vectors)
    (found,) = fit.fit(held, SIZES, members([spec]), epochs(2, 0.01))
    unrotated = one.frequencies == 0
    np.testing.assert_array_equal(found.injection.frequencies[unrotated], 0)
    assert (np.abs(found.injection.frequencies - one.frequencies)[~unrotated] > 1e-4).all()
    again = one.rotated(found.injection.frequencies - one.frequencies)
    np.testing.assert_allclose(again.vectors, found.injection.vectors, atol=1e-12)


def test_only_rotations_that_say_their_frequencies_are_trained():
    own = load("rope", 8, 8)
    for measure in (None, load("rope", 8, 8, rho=500.0).measure):
        assert waves_of_rotation(replace(own, measure=measure), own.table()) == {}


def test_other_commands_report_trained_vectors(held, tmp_path):
    added, found = fit.fit(held, SIZES, members(["learned", "rope"]), epochs(3, 0.02))
    for outcome in (added, found):
        saved_models.save_model(str(tmp_path), held.task, outcome, SIZES)
    path, rotated = (str(*tmp_path.glob(f"*{name}-*")) for name in ("learned", "rope"))
    np.testing.assert_allclose(load(f"{path}#codes").table(), added.injection.vectors, atol=1e-6)
    with pytest.raises(PefourierError, match=r"has 8 positions, fewer than length.9"):
        pefourier.spectrum(f"{path}#codes", length=9)
    saved, sizes = f"rope:inv_freq={rotated}#frequencies", {"d": 8, "length": 8}
    omega = pefourier.spectrum(saved, sigma=0, **sizes).frequencies
    np.testing.assert_allclose(omega, found.injection.frequencies.ravel(), rtol=1e-6)
    start = pefourier.spectrum("rope", sigma=0, **sizes).frequencies
    assert np.abs(np.asarray(start) - omega).max() > 1e-3
    longer = lengthen(found, rotation("rope", length=20), 20)
    angle = np.arange(20)[:, None] * found.injection.frequencies
    np.testing.assert_allclose(longer.vectors, np.hstack([np.cos(angle), np.sin(angle)]))
