"""Algorithm 1 against the double loop, closed forms and the paper's numbers."""

import re

import numpy as np
import pytest

from pefourier.encodings import build
from pefourier.encodings.encoding import from_table
from pefourier.errors import PefourierError
from pefourier.questions.reconstruct import describe_peak, position_functions
from pefourier.questions.spectrum import density


def algorithm_1(g, s, n):
    """Real-DFT coefficients of delta_s weighted by g, renormalised, and summed: the slow twin."""
    t = np.arange(n)
    values = np.zeros(n)
    for k, weight in enumerate(g):
        single = k == 0 or 2 * k == n
        a = np.cos(2 * np.pi * k * s / n) * weight * (1 if single else 2) / n
        b = 0 if single else np.sin(2 * np.pi * k * s / n) * weight * 2 / n
        values += a * np.cos(2 * np.pi * k * t / n) + b * np.sin(2 * np.pi * k * t / n)
    return values / np.linalg.norm(values)


@pytest.mark.parametrize("name", ["sinusoidal", "dft", "learned"])
@pytest.mark.parametrize("n", [64, 65])
def test_values_are_those_of_the_double_loop(name, n):
    enc = build(name, d=n, length=n)
    g = density(enc).density
    for r in position_functions(enc, [0, 5, 40, n - 1]).reconstructions:
        np.testing.assert_allclose(r.values, algorithm_1(g, r.position, n), atol=1e-12)


def test_numbers_of_the_sinusoidal_encoding_at_256():
    (r,) = position_functions(build("sinusoidal"), [40]).reconstructions
    assert r.peak == pytest.approx(0.3403, abs=5e-5)
    assert r.width == pytest.approx(11.9, abs=0.05)
    assert r.half_max_count == 11
    for name in ("sinusoidal", "rope"):  # sigma blurs frequencies, and with that sharpens positions
        found = [position_functions(build(name), [40], sigma=s) for s in (0.5, 1, 4, 16, 64)]
        widths = [f.reconstructions[0].width for f in found]
        assert widths == sorted(widths, reverse=True)


def test_algorithm_1_with_eq_22_leaves_an_error():
    (r,) = position_functions(build("dft"), [40]).reconstructions
    assert r.error == pytest.approx(0.0442, abs=5e-5)
    assert r.peak == pytest.approx(0.99902, abs=5e-6)
    assert r.width == pytest.approx(1, abs=1e-2)


def test_equal_weights_rebuild_the_delta():
    h = np.fft.irfft(np.ones(129), 256)
    np.testing.assert_allclose(h, np.eye(256)[0], atol=1e-16)
    assert list(describe_peak(np.eye(8)[0]).values()) == [1.0, 1.0, 1, 0.0, 0.0]


def test_theorem_1_inverts_the_codes_of_the_dft():
    result = position_functions(build("dft", length=256), [5, 40, 75])
    assert result.inverse_error < 1e-14
    assert max(r.inverse_error for r in result.reconstructions) < 1e-14


def test_inverse_error_of_a_position_is_its_row_of_the_projection():
    enc = build("dft", length=80, d=63)
    table = enc.table()
    projection = table @ np.linalg.pinv(table)
    result = position_functions(enc, [0, 31, 62])
    for r in result.reconstructions:
        row = np.abs(projection[r.position] - np.eye(80)[r.position])
        assert r.inverse_error == pytest.approx(row.max(), abs=1e-12)
    assert result.inverse_error == pytest.approx(np.abs(projection - np.eye(80)).max(), abs=1e-12)


def test_there_is_no_inverse_beyond_the_length():
    (r,) = position_functions(build("dft", length=8, d=16), [12]).reconstructions
    assert r.inverse_error is None


def test_width_of_a_triangle_and_of_a_constant():
    triangle = np.maximum(0, 1 - np.minimum(np.arange(20), 20 - np.arange(20)) / 4)
    assert describe_peak(triangle)["width"] == pytest.approx(4)
    flat = describe_peak(np.full(7, 0.3))
    assert (flat["width"], flat["half_max_count"]) == (7.0, 7)


def test_side_lobe_is_outside_the_monotone_flanks():
    h = np.array([1.0, 0.2, -0.3, 0.1, -0.2, 0.1, -0.3, 0.2])
    assert describe_peak(h)["side_lobe"] == pytest.approx(0.2)


def test_a_position_outside_the_lattice_is_refused():
    message = "position 300 is outside the lattice 0 … 255; choose another or set --lattice"
    with pytest.raises(PefourierError, match=f"^{re.escape(message)}$"):
        position_functions(build("dft"), [300])


def test_a_position_that_comes_back_at_several_places_is_not_sharp():
    """The hour of the day of a week: seven peaks as high, once called sharp."""
    hours = from_table(np.eye(24)[np.arange(168) % 24])
    result = position_functions(hours, [5], sigma=0)
    assert (result.verdict, result.farthest_repeat) == ("repeated", 72)
