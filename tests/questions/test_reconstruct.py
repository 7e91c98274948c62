"""Algorithm 1 equals a double loop, closed forms and the paper's numbers."""

import numpy as np
import pytest

from pefourier.encodings import build, load
from pefourier.encodings.encoding import from_table
from pefourier.questions.reconstruct import (
    position_functions,
)
from pefourier.questions.spectrum import spectrum


def algorithm_1(g, s, n):
    """Return Algorithm 1 as a slow reference: weighted real-DFT coefficients of delta_s, summed."""
    t = np.arange(n)
    values = np.zeros(n)
    for k, weight in enumerate(g):
        single = k == 0 or 2 * k == n
        a = np.cos(2 * np.pi * k * s / n) * weight * (1 if single else 2) / n
        b = 0 if single else np.sin(2 * np.pi * k * s / n) * weight * 2 / n
        values += a * np.cos(2 * np.pi * k * t / n) + b * np.sin(2 * np.pi * k * t / n)
    return values / np.linalg.norm(values)


def test_published_numbers_at_256():
    (r,) = position_functions(build("sinusoidal"), [40]).reconstructions
    assert r.peak == pytest.approx(0.3403, abs=5e-5)
    assert (r.width, r.half_max_count) == (pytest.approx(11.9, abs=0.05), 11)
    for name in ("sinusoidal", "rope"):  # sigma blurs frequencies, which sharpens positions
        results = [position_functions(build(name), [40], sigma=s) for s in (0.5, 1, 4, 16, 64)]
        widths = [result.reconstructions[0].width for result in results]
        assert widths == sorted(widths, reverse=True)


@pytest.mark.parametrize("name", ["sinusoidal", "dft", "learned"])
@pytest.mark.parametrize("n", [64, 65])
def test_values_are_those_of_the_double_loop(name, n):
    enc = build(name, d=n, length=n)
    g = spectrum(enc).density
    for r in position_functions(enc, [0, 5, 40, n - 1]).reconstructions:
        expected = algorithm_1(g, r.position, n)
        np.testing.assert_allclose(r.values, expected, atol=1e-12)
        assert r.error == pytest.approx(np.linalg.norm(expected - np.eye(n)[r.position]), abs=1e-9)


def test_inverse_error_of_a_position_is_its_row_of_the_projection():
    """The inverse error is 0 for dft (Theorem 1), and missing for positions beyond the table."""
    whole = position_functions(build("dft", length=256), [5, 40, 75])
    assert max(whole.inverse_error, *(r.inverse_error for r in whole.reconstructions)) < 1e-14
    table = build("dft", length=80, d=63).table()
    projection = table @ np.linalg.pinv(table)
    result = position_functions(build("dft", length=80, d=63), [0, 31, 62])
    for r in result.reconstructions:
        row = np.abs(projection[r.position] - np.eye(80)[r.position])
        assert r.inverse_error == pytest.approx(row.max(), abs=1e-12)
    assert result.inverse_error == pytest.approx(np.abs(projection - np.eye(80)).max(), abs=1e-12)
    beyond = position_functions(build("dft", length=8, d=16), [12])
    assert beyond.reconstructions[0].inverse_error is None
    assert [f.code for f in beyond.findings] == ["beyond-codes"]


def test_a_position_that_comes_back_at_several_places_is_not_sharp():
    """A position that repeats in seven equal peaks, like an hour in a week, is not sharp."""
    hours = from_table(np.eye(24)[np.arange(168) % 24])
    result = position_functions(hours, [5], sigma=0)
    assert (result.verdict, result.farthest_repeat) == ("repeated", 72)


@pytest.mark.parametrize(("spec", "sigma"), [("sinusoidal", None), ("rope:rho=100", 1), ("dft", 0)])
def test_positions_that_cannot_be_told_apart_are_listed(spec, sigma):
    """They are the runs of positions at or above half of the peak, without the position itself."""
    result = position_functions(load(spec, 80, 64), [0, 40], sigma=sigma)
    for r in result.reconstructions:
        high = set(np.flatnonzero(r.values >= r.peak / 2 - 1e-12).tolist()) - {r.position}
        listed = set()
        for run in (r.confused or "").split(", ") if r.confused else ():
            first, _, last = run.partition("-")
            listed |= set(range(int(first), int(last or first) + 1))
        assert listed == high
        assert r.half_max_count == len(high) + 1
        assert r.reach == max(
            (min(abs(t - r.position), 64 - abs(t - r.position)) for t in high), default=0
        )


def test_half_of_a_peak_has_a_margin_for_rounding():
    """A cosine at exactly half of the peak counts, despite rounding: 24 of 48 samples."""
    wave = position_functions(from_table(np.cos(np.arange(48)[:, None] * np.pi / 3)), sigma=0)
    assert wave.first.half_max == 24
    (peak,) = position_functions(
        from_table(np.cos(np.arange(48)[:, None] * np.pi / 24)), [40], sigma=0
    ).reconstructions
    assert (peak.half_max_count, peak.reach, peak.confused) == (17, 8, "0, 32-39, 41-47")
