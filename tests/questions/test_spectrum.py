"""Densities equal 50-digit values, closed forms and sums written out."""

import mpmath
import numpy as np
import pytest
from findings import codes
from numpy.testing import assert_allclose, assert_array_equal
from published_configs import sized
from refusals import refusal

from pefourier.encodings import build, load
from pefourier.encodings.encoding import as_encoding, from_table, without_mean
from pefourier.questions.reconstruct import position_functions
from pefourier.questions.spectrum import spectrum


def eq15(frequencies, weights, lattice, sigma):
    """Return Eq. 15 in 50 digits, as a slow reference."""
    with mpmath.workdps(50):
        step = 2 * mpmath.pi / lattice
        g = [
            mpmath.fsum(
                w * mpmath.exp(-(((k - f / step) / sigma) ** 2) / 2)
                for f, w in zip(frequencies, weights, strict=True)
            )
            for k in range(lattice // 2 + 1)
        ]
        total = mpmath.fsum(g)
        return np.array([float(value / total) for value in g])


@pytest.mark.parametrize(("d", "rho", "sigma"), [(256, 10000, 4), (64, 500, 1.5), (30, 2, 0.3)])
def test_sinusoidal_density_is_eq_15_to_the_last_digits(d, rho, sigma):
    with mpmath.workdps(50):
        frequencies = [mpmath.mpf(rho) ** (-mpmath.mpf(l) / d) for l in range(0, d, 2)]  # noqa: E741
    expected = eq15(frequencies, [1] * len(frequencies), d, sigma)
    result = spectrum(build("sinusoidal", d=d, rho=float(rho)), sigma=sigma)
    assert_allclose(result.density, expected, rtol=1e-12, atol=1e-300)
    rope = spectrum(build("rope", d=d, rho=float(rho)), sigma=sigma)
    assert_array_equal(rope.density, result.density)


@pytest.mark.parametrize("d", [8, 9, 256])
def test_dft_on_its_own_lattice_is_eq_22(d):
    result = spectrum(build("dft", d=d))
    k = np.arange(d // 2 + 1)
    weights = np.where((k == 0) | (2 * k == d), 1, 2) / d
    assert_allclose(result.density, weights, atol=1e-16)
    assert result.sigma == 0
    given = spectrum(build("dft", d=16), sigma=4)
    weights = np.where(np.arange(9) % 8 == 0, 1, 2) / 16
    expected = eq15(2 * np.pi * np.arange(9) / 16, weights, 16, 4)
    assert_allclose(given.density, expected, rtol=1e-12)


@pytest.mark.parametrize("n", [15, 16])
def test_periodogram_is_the_double_loop(rng, n):
    table = rng.normal(size=(n, 5))
    k, s = np.arange(n // 2 + 1), np.arange(n)
    energy = np.zeros(n // 2 + 1)
    for column in table.T:
        for j in k:
            wave = sum(column[t] * np.exp(-2j * np.pi * j * t / n) for t in s)
            energy[j] += abs(wave) ** 2 * (1 if j == 0 or 2 * j == n else 2)
    result = spectrum(table, lattice=n, sigma=0)
    assert_allclose(result.density, energy / energy.sum(), atol=1e-14)
    assert (result.method, result.frequencies) == ("periodogram", None)


POINTS = ["rope:d=16 - 16", "rope:d=16 12 16", "rope:d=16 500 500", "rope:d=16,length=500 - 500"]
POINTS += ["alibi:d=8 500 500", "config.json - 512", "config.json 20 20", "table.npy - 40"]


@pytest.mark.parametrize("case", POINTS)
@pytest.mark.usefixtures("folder")
def test_the_lattice_is_the_length_where_that_is_set(case, written):
    """The lattice has the number of positions if that is set; the default of 80 does not count.

    The 500 positions of ALiBi have 999 lags.
    """
    written(sized("llama", 1536, 1, 512))
    np.save("table.npy", np.eye(40, 16))
    spec, length, points = case.split()
    enc = load(spec, None if length == "-" else int(length))
    assert spectrum(enc).lattice == int(points)
    assert position_functions(enc, [int(points) - 1]).lattice == int(points)
    for count in (12, 30):
        timed = load("mtan-fixed", None, 16, times=np.arange(count) / 3)
        assert spectrum(timed).lattice == max(count, 16)


@pytest.mark.parametrize("spec", ["rope:scaling=linear,factor=4", "tape", "mtan-fixed", "dft"])
def test_eq_16_is_of_the_geometric_grid_alone(spec):
    assert spectrum(load(spec, 80, 64)).summary.lowest_bin_index is None
    assert spectrum(load("rope", 80, 64)).summary.lowest_bin_index == pytest.approx(
        64 * np.log(64 / (2 * np.pi)) / np.log(10000)
    )


@pytest.mark.parametrize("offset", [0.0, 5.0])
@pytest.mark.parametrize(("size", "grid"), [((64, 16), {}), ((12, 8), {"grid": (3, 4)})])
def test_the_share_that_is_the_same_in_all_rows(size, grid, offset, rng, tmp_path):
    """The share equals the energy of the repeated mean row over that of the table."""
    table = rng.normal(size=size) + offset
    np.save(tmp_path / "t.npy", table)
    repeated = np.broadcast_to(table.mean(axis=0), table.shape)
    share = (repeated**2).sum() / (table**2).sum()
    result = spectrum(load(str(tmp_path / "t.npy"), **grid))
    assert result.summary.mean_share == pytest.approx(share, rel=1e-12)
    assert spectrum(load("sinusoidal", 40, 16)).summary.mean_share is None
    assert spectrum(np.zeros((4, 4))).summary.mean_share is None


def test_without_its_mean_a_table_has_nothing_at_frequency_zero(rng):
    table = rng.normal(size=(40, 6)) + 3
    assert "common-part" in codes(spectrum(table))
    enc = without_mean(as_encoding(table))
    result, expected = (spectrum(x, 40, 0) for x in (enc, table - table.mean(axis=0)))
    assert result.density[0] == pytest.approx(0, abs=1e-25)
    assert_allclose(result.density, expected.density, atol=1e-14)
    assert (result.summary.mean_share, result.findings) == (0, [])
    with refusal("the table of sinusoidal"):
        spectrum(without_mean(load("sinusoidal", 50, 8)), method="declared")


def test_the_peaks_of_a_mixed_helix_are_its_waves(rng):
    """Peaks of a ramp and a wavelength of 16 positions are found under a random rotation."""
    t = np.arange(256)[:, None]
    helix = np.hstack([t / 128, np.cos(t * np.pi / 8), np.sin(t * np.pi / 8), np.zeros((256, 5))])
    r = spectrum(from_table(helix @ np.linalg.qr(rng.normal(size=(8, 8)))[0]))
    peaks = {round(peak["period"], 6): peak["share"] for peak in r.peaks}
    assert peaks[16] == pytest.approx(256 / (helix**2).sum(), rel=0.01)
    assert spectrum(load("learned", 256, 64)).peaks == spectrum(load("dft", 256, 64)).peaks == []
