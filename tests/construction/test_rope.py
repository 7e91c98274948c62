"""A rotation with other settings equals the rotation that is loaded with them."""

import numpy as np
import pytest

from pefourier.construction.rope import Rope
from pefourier.encodings import load
from pefourier.encodings.families.rotary import SCALINGS, scaling_parameters

D, N = 16, 700
NEEDED = {"factor": 4.0, "original": 512, "repeat": 40}
NEEDED |= {"short_factor": (1.0,) * 8, "long_factor": (2.0,) * 8, "factors": (1.0, *(2.0,) * 7)}
OTHER = {"rho": 5e4, "factor": 8.0, "original": 256, "beta_fast": 16.0, "clipped": 4, "repeat": 20}


def rope_with(scaling):
    used = scaling_parameters(scaling)
    return Rope(D, 1e4).with_(scaling=scaling, **{k: NEEDED[k] for k in NEEDED if k in used})


@pytest.mark.parametrize("scaling", SCALINGS)
def test_changed_settings_give_the_rotation_of_the_changed_spec(scaling):
    rope = rope_with(scaling)
    for key in ({"rho"} | scaling_parameters(scaling).keys()) & OTHER.keys():
        changed = rope.with_(**{key: OTHER[key]})
        enc = changed.build(N)
        np.testing.assert_array_equal(changed.frequencies(N), enc.measure.frequencies)
        assert changed.rotation(N)[1] == enc.params["attention_factor"]
        again = enc if "(" in enc.spec else load(enc.spec, N)  # a SPEC has no lists of numbers
        read = Rope.of(again)
        assert (read.settings, read.attention_factor) == (changed.settings, 0.0)
        differ = not np.array_equal(rope.frequencies(N), changed.frequencies(N))
        assert set(rope.diff(read, N)) - {"factor"} <= {key}
        assert differ <= bool(rope.diff(read, N))
    plain = rope.unscaled.frequencies(N)
    expected = 1e4 ** (-np.arange(D // 2) / (D // 2))
    np.testing.assert_allclose(plain[plain != 0], expected[plain != 0])


def test_a_given_factor_stays_unless_the_scaling_changes():
    rope = Rope.of(load("rope:scaling=yarn,factor=4,original=64,attention_factor=1", 80, D))
    assert rope.with_(rho=5e4).rotation(80)[1] == 1.0
    assert rope.with_(scaling="none").attention_factor == 0.0


def test_a_scaling_by_1_besides_another_fraction_is_no_difference():
    narrow = Rope(16, 1e4).with_(partial=0.5)
    unscaled = narrow.with_(scaling="linear", factor=1.0)
    assert Rope(16, 1e4).diff(unscaled, 80) == {"partial": (1.0, 0.5)}
