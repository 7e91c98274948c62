"""Energy by wavelength: closed forms, a sum written out, and a total of 1."""

import numpy as np
import pytest

from pefourier.encodings import load
from pefourier.questions.spectral_density import SMEAR
from pefourier.questions.spectrum import spectrum


def test_the_sum_is_the_one_written_out():
    enc = load("fourier-features", 8, 8)
    assert enc.measure.frequencies.max() > np.pi  # this frequency is aliased
    found = spectrum(enc).measure.by_decade
    at = np.log10(found.omega)[:, None]
    folded = np.arccos(np.cos(enc.measure.frequencies))
    terms = np.exp(-0.5 * ((at - np.log10(folded)) / SMEAR) ** 2) / SMEAR / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(found.density, terms @ enc.measure.weights, rtol=1e-12)


def test_frequency_zero_is_distinguished():
    assert spectrum(load("dft", d=8)).measure.by_decade.at_zero == pytest.approx(1 / 8)
    nothing_moves = spectrum(np.ones((9, 3))).measure.by_decade
    assert (len(nothing_moves.omega), nothing_moves.at_zero) == (0, pytest.approx(1))
    assert np.isnan(spectrum(load("none", 8, 4)).measure.by_decade.density).all()


SLOW = {"rope": True, "sinusoidal": True, "ramp": True, "rope:d=16": True}
SLOW |= dict.fromkeys(["dft", "learned", "none", "onehot", "dft:d=8"], False)


@pytest.mark.parametrize(("spec", "slow"), SLOW.items())
def test_mostly_low_frequencies_are_recognised(spec, slow):
    assert spectrum(load(spec, d=256)).measure.is_slow == slow
    assert not spectrum(np.ones((9, 3))).measure.is_slow
