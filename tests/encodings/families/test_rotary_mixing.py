"""FoPE and LieRE: published numbers, twins written out, their layers, and who refuses them."""

import numpy as np
import pytest
import torch
from scipy.linalg import expm

from pefourier.encodings import load
from pefourier.encodings.families.rotary import planes_of_generator, sums_of_frequencies
from pefourier.errors import PefourierError
from pefourier.nn import Rotary
from pefourier.questions.compare import compare
from pefourier.questions.context import describe_context
from pefourier.questions.spectrum import spectrum


def test_pairs_are_sums_over_all_frequencies_with_torch_s_spread():
    d, n = 16, 9
    enc = load("fope:gain=0.4,seed=3,original=64", n, d)
    omega = 1e4 ** (-np.arange(8) / 8)
    omega[omega < 2 * np.pi / 64] = 0
    c, s = sums_of_frequencies(8, 0.4, 3)
    wanted = [
        [sum(matrix[k, m] * wave(p * omega[k]) for k in range(8)) for m in range(8)]
        for p in range(n)
        for wave, matrix in ((np.cos, c), (np.sin, s))
    ]
    np.testing.assert_allclose(enc.table(), np.reshape(wanted, (n, d)), atol=1e-13)
    drawn = np.array([sums_of_frequencies(64, 0.3, seed) - np.eye(64) for seed in range(9)])
    theirs = torch.nn.init.xavier_normal_(torch.empty(512, 512), gain=0.3 * np.sqrt(512 / 64))
    assert drawn.std() == pytest.approx(float(theirs.std()), rel=0.02)


def test_without_gain_it_is_rope_with_a_floor():
    assert compare(load("fope:gain=0", 80, 64), load("rope:scaling=cut,original=512", 80, 64)).same
    assert not compare(load("fope", 80, 64), load("fope:gain=0", 80, 64)).same
    _, found = describe_context("fope:gain=0", 512, d=64)
    assert (found.rotations[0].scaling, found.rotations[0].rotated) == ("cut", 16)
    assert describe_context("rope:scaling=cut,original=512", d=64)[1].length == 80  # had crashed


def test_energy_declared_is_that_of_the_columns():
    """Over many positions, the energy at a frequency is the share that is declared."""
    enc = load("fope:original=16,gain=0.5", 4096, 8)
    lines = np.unique(enc.measure.frequencies)
    waves = np.hstack([f(np.outer(np.arange(4096), lines)) for f in (np.cos, np.sin)])
    weights = np.linalg.lstsq(waves, enc.table(), rcond=None)[0].reshape(2, len(lines), 8)
    energy = (weights**2).sum(axis=(0, 2)) / np.where(lines == 0, 1, 2)
    declared = [enc.measure.weights[enc.measure.frequencies == w].sum() for w in lines]
    np.testing.assert_allclose(energy / energy.sum(), declared, rtol=1e-12)


@pytest.mark.parametrize("spec", ["fope", "fope:gain=0", "liere", "liere:seed=7"])
def test_the_layer_multiplies_as_the_table_says(spec):
    rotary, table = Rotary(spec, 16), load(spec, 24, 16).table()
    q = torch.randn(1, 2, 24, 16)
    cosine, sine = (torch.tensor(part, dtype=torch.float32) for part in np.hsplit(table, 2))
    a, b = q[..., :8], q[..., 8:]
    wanted = torch.cat([a * cosine - b * sine, b * cosine + a * sine], dim=-1)
    for turned in rotary.rotate(q, q):
        torch.testing.assert_close(turned, wanted, atol=2e-4, rtol=1e-4)


def test_generator_of_liere_is_the_published_one():
    """Ones above the diagonal, a quarter of a step: expm as the authors' code."""
    upper = np.triu(np.ones((4, 4)), 1)
    rotation = expm(0.25 * (upper - upper.T))
    found = [rotation[0, j] for j in (0, 1, 3)]
    assert found == pytest.approx([0.90898358, 0.17664268, 0.29778359], abs=5e-9)
    planes = planes_of_generator(np.ones((4, 4)))
    assert planes == pytest.approx([1 + np.sqrt(2), np.sqrt(2) - 1])
    assert 2 * np.cos(0.25 * planes).sum() == pytest.approx(np.trace(rotation))


@pytest.mark.parametrize(("d", "seed"), [(4, 0), (8, 1), (16, 5)])
def test_rotation_of_liere_has_the_angles_declared(d, seed):
    """Attention through the exponential is attention through the planes, in another basis."""
    enc = load(f"liere:seed={seed}", 6, d)
    numbers = np.triu(2 * np.pi * np.random.RandomState(seed).uniform(size=(d, d)), 1)
    skew = numbers - numbers.T
    for s in range(1, 6):
        angles = np.sort(np.angle(np.linalg.eigvals(expm(s * skew))))[d // 2 :]
        wanted = np.sort(np.abs(np.angle(np.exp(1j * s * enc.measure.frequencies))))
        np.testing.assert_allclose(angles, wanted, atol=1e-8)
        cosines, sines = np.hsplit(enc.vectors(np.array([s])), 2)
        np.testing.assert_allclose(cosines[0], np.cos(s * enc.measure.frequencies))
        np.testing.assert_allclose(sines[0], np.sin(s * enc.measure.frequencies))
    assert spectrum(enc).encodings[0].measure is enc.measure


@pytest.mark.parametrize(
    ("spec", "d", "words"),
    [
        ("fope", 7, "even d"),
        ("liere", 7, "even d"),
        ("fope:original=0", 8, "original"),
        ("fope:gain=1e308,original=99", 8, "fope"),
        ("fope:layout=halves", 8, "layout"),
        ("liere:seed=-1", 8, "seed"),
        ("liere", 8192, "up to 2048"),
        ("fope", 65536, "the limit is"),
    ],
)
def test_wrong_parameters_are_refused(spec, d, words):
    with pytest.raises(PefourierError, match=words):
        load(spec, 9, d)
