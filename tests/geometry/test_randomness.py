"""Random rows are known by what their numbers must be; nothing that has a formula is random."""

import numpy as np
import pytest

from pefourier.encodings import load
from pefourier.encodings.registry import BUILDERS
from pefourier.errors import PefourierError
from pefourier.geometry.randomness import deviations, look_random
from pefourier.questions.faithful import assess
from pefourier.questions.relations import relate

DRAWN = {"beit", "erpe", "learned", "swin"}  # without an order, before training
SIZES = [(32, 16), (64, 64), (80, 256), (196, 64), (400, 32)]


@pytest.mark.parametrize("kind", ["normal", "uniform"])
@pytest.mark.parametrize("shape", [(25, 16), (64, 64), (256, 40)], ids=str)
def test_random_tables_are_recognised_but_one_in_a_thousand(shape, kind):
    draw = getattr(np.random.default_rng(7), kind)
    far = [np.abs(deviations(draw(size=shape))).max() for _ in range(16000 // shape[0])]
    assert np.mean(np.array(far) > 4.5) <= 0.01


def test_deviations_have_the_variance_that_is_stated(rng):
    found = np.array([deviations(rng.normal(size=(40, 24))) for _ in range(400)])
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=0.25)
    np.testing.assert_allclose(found.std(axis=0), 1, atol=0.2)


@pytest.mark.parametrize("name", sorted(BUILDERS))
def test_only_what_is_drawn_looks_random(name):
    for n, d in SIZES:
        try:
            table = np.asarray(load(name, n, d).table(), dtype=float)
        except PefourierError:  # its dimension is that of heads or of a grid
            continue
        assert look_random(table[:512]) == (name in DRAWN)
        assert name not in DRAWN or BUILDERS[name].untrained


@pytest.mark.parametrize("kind", ["noise", "rows mixed", "weak order", "one-hot", "orthogonal"])
def test_structure_of_any_kind_is_no_noise(kind, rng):
    noise, waves = rng.normal(size=(64, 64)), load("sinusoidal", 64, 64).table()
    table = {
        "noise": noise,
        "rows mixed": rng.permutation(waves),
        "weak order": noise + waves,
        "one-hot": np.eye(64)[rng.permutation(64)],
        "orthogonal": np.linalg.qr(noise)[0],
    }[kind]
    found = assess(table)
    codes = [f"{f.code} {f.severity}" for f in found.findings]
    assert ("random-codes note" in codes) == (kind == "noise")
    assert ("random-codes" in [f.code for f in relate(table).findings]) == (kind == "noise")
