"""CAPE and SHAPE: published numbers, and shifts of positions drawn in training."""

import numpy as np
import pytest
import torch

from pefourier.encodings import load
from pefourier.errors import PefourierError
from pefourier.questions.compare import compare
from pefourier.train.injection import load_injection
from pefourier.train.model import Dropout, stack_vectors

AUDIO = "cape:shift=60,stretch=1.1,normalise=true,position_scale=0.03,frequency_scale=30"


def test_without_shifts_they_are_sinusoids():
    assert compare(load("cape", 40, 16), load("sinusoidal", 40, 16)).same
    assert compare(load("shape", 40, 16), load("sinusoidal:offset=500", 40, 16)).same


def test_scaled_sinusoids_of_x_transformers_are_halves_times_a_scale():
    """As `explain ScaledSinusoidal` says."""
    module = pytest.importorskip("x_transformers.x_transformers")
    theirs = module.ScaledSinusoidalEmbedding(8)(torch.zeros(1, 40, 8)).detach().numpy()
    assert theirs[3, [0, 1, 4]] == pytest.approx([0.04989346, 0.10448217, -0.3500152], abs=1e-7)
    result = compare(load("sinusoidal:layout=halves", 40, 8), theirs)
    assert (result.verdict, result.transform["scale"]) == ("equivalent", pytest.approx(8**-0.5))


def drawn(spec, batch=400, tokens=12, d=8, keys=(5,), step=3, specs=None):
    """Positions that the vectors of each window show, at the highest frequency's phase."""
    injections = [load_injection(s, tokens, d, 2, 0) for s in specs or [spec] * len(keys)]
    stack = stack_vectors(injections, torch.device("cpu"), torch.float64)["add"]
    drop = Dropout([0.0] * len(keys), keys, torch.device("cpu")).begin(step)
    return injections[0], stack.shifted(stack.table(None), batch, drop)


def slow_positions(vectors, omega):
    """Positions of vectors at the lowest frequency, which stays within half a rotation."""
    return np.arctan2(vectors[..., -2], vectors[..., -1]) / omega


@pytest.mark.parametrize("spec", [AUDIO, "cape", "cape:shift=2,stretch=1.5,local_shift=0"])
def test_positions_of_cape_are_drawn_as_published(spec):
    """Each window's positions are (p + g + l) z with the ranges that its code draws."""
    injection, vectors = drawn(spec)
    p, omega = injection.shifts.positions, injection.shifts.frequencies
    low, _span, near, log_stretch, _whole = injection.shifts.ranges
    found = slow_positions(vectors[0].numpy(), omega[-1])  # (B, T)
    slopes = np.polyfit(p, found.T, 1)[0]
    assert (np.abs(np.log(slopes)) <= log_stretch + near).all()
    assert np.abs(np.log(slopes)).max() > 0.8 * log_stretch
    middle = found.mean(axis=1) / np.exp(log_stretch), found.mean(axis=1) * np.exp(log_stretch)
    shifts = found.mean(axis=1) - p.mean()
    reach = abs(low) * np.exp(log_stretch) + p.mean() * (np.exp(log_stretch) - 1) + near
    assert np.abs(shifts).max() <= reach
    assert np.abs(shifts).max() > 0.8 * abs(low)
    assert len(np.unique(shifts.round(9))) == len(shifts)
    assert (np.diff(found, axis=1) > 0).all() == (near <= 1), middle
    phases = found[..., None] * omega
    wanted = np.stack([np.sin(phases), np.cos(phases)], axis=-1).reshape(*found.shape, -1)
    np.testing.assert_allclose(vectors[0].numpy(), wanted, atol=1e-8 / omega[-1])


def test_positions_of_shape_are_whole_shifts_of_a_window():
    injection, vectors = drawn("shape:shift=7")
    found = slow_positions(vectors[0].numpy(), injection.shifts.frequencies[-1])
    first = found[:, 0].round(9)
    assert set(first.tolist()) == set(range(7))
    np.testing.assert_allclose(found - first[:, None], np.tile(np.arange(12), (400, 1)), atol=1e-6)


def test_draws_depend_on_seed_and_step_and_not_on_the_stack():
    _, alone = drawn("cape", keys=(5,))
    _, beside = drawn("", keys=(4, 5), specs=["sinusoidal", "cape"])
    torch.testing.assert_close(beside[1], alone[0], rtol=0, atol=0)
    plain = torch.tensor(load("sinusoidal", 12, 8).table()).expand(400, 12, 8)
    torch.testing.assert_close(beside[0], plain, rtol=0, atol=0)
    assert torch.equal(drawn("cape")[1], alone)
    for other in (drawn("cape", keys=(6,)), drawn("cape", step=4)):
        assert not torch.equal(other[1], alone)


def test_a_run_draws_in_training(run):
    """Without ranges, a run of cape is one of sinusoidal, to the last bit."""
    still = "cape:shift=0,local_shift=0,stretch=1"
    specs = ["sinusoidal", still, "cape", "shape:shift=3"]
    words = ["train", "--dataset", "order", "--seeds", "1", "--steps", "12", "--json"]
    records = run(*words, *(word for spec in specs for word in ("-e", spec))).results
    scores = {record["spec"]: record["f1"]["mean"] for record in records}
    assert scores[still] == scores["sinusoidal"]
    assert len({*scores.values()}) == 3
    answer = run(*words, "-e", "sinusoidal", "-e", "cape@rms=0.5")
    assert answer.status == 2
    assert "cape@rms" in answer.err


@pytest.mark.parametrize(
    ("spec", "d", "words"),
    [
        ("cape", 7, "d=8"),
        ("shape", 7, "d=8"),
        ("cape:shift=-1", 8, "must be at least 0, stretch at least 1"),
        ("cape:local_shift=-1", 8, "must be at least 0, stretch at least 1"),
        ("cape:stretch=0.5", 8, "must be at least 0, stretch at least 1"),
        ("cape:position_scale=0", 8, "position_scale"),
        ("shape:shift=0", 8, "shift"),
    ],
)
def test_wrong_parameters_are_refused(spec, d, words):
    with pytest.raises(PefourierError, match=words):
        load(spec, 9, d)
