"""Rates of members equal torch's optimizers."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from training import CPU, EPOCH, SIZES, epochs, injection

from pefourier.train import model
from pefourier.train import program as fit
from pefourier.train.data.load import load_task
from pefourier.train.program import Resident

PLAIN = epochs(1)


@pytest.fixture(scope="module")
def held():
    return Resident(load_task("order:count=40,length=8"), CPU, torch.float64)


def member(name, seed=3):
    return fit.Replica(name, injection(name, seed), seed, 0)


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
    np.testing.assert_allclose(together.evaluate("test")[2], alone.evaluate("test")[0], atol=1e-9)


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
    np.testing.assert_allclose(whole.evaluate("test")[1], alone.evaluate("test")[0], atol=1e-9)


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
