"""Code that turns queries and keys: its table, its operators, and what is wrong with them."""

import numpy as np
import pytest
import torch

import pefourier
from pefourier.encodings import load
from pefourier.errors import PefourierError
from pefourier.questions.operators import operator_at

LENGTH, D = 100, 64
AT = np.array([0, 3, 99])


def angles(n, d, base=1e4, start=0):
    return torch.outer(torch.arange(start, n + start), base ** (-torch.arange(0, d, 2) / d))


def halves(x, angle, sign=-1.0):
    a, b = x.chunk(2, -1)
    cos, sin = (torch.cat([w, w], -1) for w in (angle.cos(), angle.sin()))
    return x * cos + torch.cat([sign * b, a], -1) * sin


def neighbours(x, angle):
    a, b = x[..., 0::2], x[..., 1::2]
    cos, sin = angle.cos(), angle.sin()
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


def of(x, **given):
    return angles(*x.shape[-2:], **given)


def turn_x(x):
    return halves(x, of(x))


def turn_both(q, k):
    return halves(q, of(q)), halves(k, of(k))


def heads_last(q, k):
    return tuple(turn_x(x.transpose(1, 2)).transpose(1, 2) for x in (q, k))


def at_places(x, positions):
    return halves(x, angles(int(positions.max()) + 1, x.shape[-1])[positions])


class OfX(torch.nn.Module):
    def forward(self, x):
        return turn_x(x)


class OfPlaces(torch.nn.Module):
    def forward(self, x, position_ids):
        return at_places(x, position_ids)


PLAIN = ["turns-its-input"]


@pytest.mark.parametrize("code", [turn_both, at_places, OfX, OfX(), OfPlaces()])
def test_a_rotation_is_called_by_the_names_of_what_it_takes(code):
    enc, rope = load(code, LENGTH, D), load("rope:layout=halves", LENGTH, D)
    assert [f.code for f in enc.findings] == PLAIN
    assert np.allclose(enc.operator(AT), operator_at(rope, AT), atol=2e-5)
    assert pefourier.compare(enc, rope).operator.relation == "same"
    np.testing.assert_allclose(enc.table(), rope.table(), atol=2e-5)


def lost_minus(q, k):
    return tuple(halves(x, of(x), sign=1.0) for x in (q, k))


def lost_minus_in_keys(q, k):
    return turn_both(q, k)[0], lost_minus(q, k)[1]


def keys_apart(name):
    def rotate(q, k):
        keys = {
            "not turned": k,
            "by neighbours": neighbours(k, of(k)),
            "backward": halves(k, -of(k)),
            "by another base": halves(k, of(k, base=5e5)),
            "half of them": torch.cat([turn_x(k[..., : D // 2]), k[..., D // 2 :]], -1),
            "shifted": halves(k, of(k, start=1)),
        }
        return halves(q, of(q)), keys[name]

    return rotate


def mixed_layouts(q, k):
    def turned(x):
        angle = of(x).repeat_interleave(2, -1)
        a, b = x.chunk(2, -1)
        return x * angle.cos() + torch.cat([-b, a], -1) * angle.sin()

    return turned(q), turned(k)


KEYS = ("not turned", "by neighbours", "backward", "by another base", "half of them")
DIFFER = ["turns-its-input", "queries-keys-differ"]
WRONG = [(keys_apart(name), DIFFER, "error") for name in KEYS]
WRONG += [(keys_apart("shifted"), DIFFER, "warning")]
WRONG += [(lost_minus, [*PLAIN, "lost-minus"], "error")]
WRONG += [(lost_minus_in_keys, [*PLAIN, "lost-minus", DIFFER[1]], "error")]
WRONG += [(mixed_layouts, [*PLAIN, "not-a-rotation"], "error")]


@pytest.mark.parametrize(("code", "findings", "severity"), WRONG)
def test_queries_and_keys_that_are_not_rotated_alike_are_findings(code, findings, severity):
    """All of them had rope's table, and were told to be rope."""
    enc = load(code, LENGTH, D)
    assert [f.code for f in enc.findings] == findings
    assert {f.severity for f in enc.findings[1:]} == {severity}


@pytest.mark.parametrize("code", [lost_minus, mixed_layouts, keys_apart("by neighbours")])
def test_the_operator_is_the_codes_own_map(code):
    units = torch.eye(D)[:, None].expand(D, LENGTH, D)
    for own, image in zip(load(code, LENGTH, D).operator(AT), code(units, units), strict=True):
        np.testing.assert_allclose(own, np.moveaxis(image.numpy(), 0, 2)[AT], atol=1e-6)


def by_factors(q, k):
    return tuple(x * of(x).cos().repeat_interleave(2, -1) for x in (q, k))


def growing(x):
    return turn_x(x) * (1 + torch.arange(x.shape[-2]) / 10)[:, None]


def still(q, k):
    return q, k


def endless(q, k):
    return tuple(turn_x(x) / 0 for x in (q, k))


REFUSED = [by_factors, growing, still, endless]


@pytest.mark.parametrize("code", [*REFUSED, heads_last])
def test_what_is_no_rotation_is_refused_with_a_wrapper(code):
    with pytest.raises(PefourierError) as error:
        load(code, LENGTH, D)
    assert "\n" not in str(error.value)
    (wrapper,) = error.value.__notes__
    compile(wrapper, "wrapper", "exec")


def test_code_of_a_config_is_the_config(config):
    """Half of a head is turned, by neighbours (GLM): its codes are those of the config."""
    values = {"model_type": "glm4", "head_dim": 32, "partial_rotary_factor": 0.5}
    path = config(values | {"max_position_embeddings": 64, "rope_theta": 1e4})

    def rotate(q, k):
        return tuple(
            torch.cat([neighbours(x[..., :16], of(x[..., :16])), x[..., 16:]], -1) for x in (q, k)
        )

    found = pefourier.compare(path, rotate)
    code = found.about[1]
    assert (code.dim, code.params["d"], code.params["rotated"]) == (16, 32, 16)
    assert (found.verdict, found.same, found.operator.relation) == ("the same", True, "same")
    assert pefourier.compare(rotate, "rope:partial=0.5,layout=interleaved", d=32).same
