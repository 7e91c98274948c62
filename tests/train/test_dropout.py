"""Dropout of a stack: the share, who drops what, and its hash."""

import numpy as np
import pytest
import torch

from pefourier.train import dropout
from pefourier.train.dropout import Dropout, mix


def slow_hash(x):
    x &= 2**32 - 1
    x ^= x >> 16
    x = x * 0x7FEB352D % 2**32
    x ^= x >> 15
    x = x * 0x846CA68B % 2**32
    x ^= x >> 16
    return x - 2**32 if x >= 2**31 else x


def count(steps=0):
    return torch.tensor(steps, dtype=torch.int32)


def test_the_hash_is_that_of_whole_numbers():
    values = [0, 1, 2, 12345, 2**31 - 1, -1, -(2**31)]
    found = mix(torch.tensor(values, dtype=torch.int32))
    assert found.tolist() == [slow_hash(one) for one in values]


def test_each_member_drops_its_own_share_and_the_mean_stays():
    x = torch.ones(4, 100, 1000)
    drop = Dropout([0.0, 0.1, 0.5, 0.9], [7, 7, 7, 7], count())
    found = drop(x)
    assert torch.equal(found[0], x[0])
    for one, share in zip(found[1:], (0.1, 0.5, 0.9), strict=True):
        assert abs((one == 0).double().mean() - share) < 0.005
        assert abs(one.mean() - 1) < 0.02
        np.testing.assert_allclose(one[one != 0].unique(), 1 / (1 - share), rtol=1e-6)


def test_what_is_dropped_depends_on_member_step_layer_and_place_alone():
    x = torch.ones(3, 50, 40)
    drop = Dropout([0.5, 0.5, 0.5], [1, 2, 1], count())
    first, second = drop(x), drop(x)
    assert torch.equal(first[0], first[2])  # of one seed and fold
    later = Dropout([0.5, 0.5, 0.5], [1, 2, 1], count(1))(x)
    alone = Dropout([0.5], [2], count())(x[:1])
    assert torch.equal(alone[0], first[1])
    for other in (first[1], second[0], later[0], first[0].flip(0), first[0].roll(1, 1)):
        both = ((first[0] > 0) == (other > 0)).double().mean()
        assert abs(both - 0.5) < 0.06  # as strangers agree
    drop.begin()
    assert torch.equal(drop(x), first)


@pytest.mark.long  # the compiler takes seconds to import
@pytest.mark.filterwarnings("ignore")  # its own
def test_one_compiled_kernel_drops_the_same_and_has_the_same_gradient(monkeypatch):
    made = torch.compile(dropout.drop_by_hash, dynamic=True)
    found = []
    for kernel in (dropout.drop_by_hash, made):
        monkeypatch.setattr(dropout, "kernel_for", lambda device, kernel=kernel: kernel)
        drop = Dropout([0.1, 0.5, 0.9], [7, 7, 8], count(3))
        for shape in ((3, 40, 7), (3, 11, 5, 2)):
            x = torch.arange(np.prod(shape)).float().view(shape).requires_grad_()
            y = drop(x)
            found.append((y.detach(), torch.autograd.grad(y.square().sum(), x)[0]))
    for one, other in zip(found[:2], found[2:], strict=True):
        assert all(torch.equal(*pair) for pair in zip(one, other, strict=True))
