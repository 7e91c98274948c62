"""Times: formulas of the authors, units, and times that are positions."""

import math
import re

import numpy as np
import pytest
from refusal import refused

import pefourier
from pefourier.encodings import load
from pefourier.encodings.domain import lattice_points
from pefourier.encodings.places import unit_of_waves
from pefourier.encodings.registry import BUILDERS
from pefourier.pages.encodings import Inquiry
from pefourier.questions.faithful import assess
from pefourier.questions.spectrum import density

TIMED = [name for name in sorted(BUILDERS) if "times" in BUILDERS[name].parameters]
DECLARED = [name for name in TIMED if BUILDERS[name].declared]
IRREGULAR = np.array([0.0, 0.4, 1.7, 2.0, 3.1, 5.9, 6.0, 8.2])


@pytest.mark.parametrize("name", TIMED)
def test_regular_times_are_positions(name):
    given = load(name, d=6, times=np.arange(9.0))
    counted = load(name, length=9, d=6)
    assert np.abs(given.table() - counted.table()).max() < 1e-15
    measured = density(given, lattice=12, method="periodogram")
    expected = density(counted, lattice=12, method="periodogram")
    assert np.abs(measured.density - expected.density).max() < 1e-12
    assert np.abs(density(given).density - density(counted).density).max() < 1e-12


@pytest.mark.parametrize("name", TIMED)
def test_times_set_the_length(name):
    enc = load(name, length=80, d=4, times=IRREGULAR)
    assert enc.domain.kind == "time"
    assert enc.params["length"] == len(enc) == 8
    assert enc.params["times"] == tuple(IRREGULAR)


@pytest.mark.parametrize("name", ["mtan", "mtan-fixed"])
def test_the_unit_of_time_does_not_matter_to_mtan(name):
    hours, seconds = load(name, d=6, times=IRREGULAR), load(name, d=6, times=3600 * IRREGULAR)
    assert np.abs(hours.table() - seconds.table()).max() < 1e-12
    assert np.abs(density(hours).density - density(seconds).density).max() < 1e-12


@pytest.mark.parametrize("name", TIMED)
def test_distances_of_codes_at_irregular_times_are_those_of_the_table(name):
    enc = load(name, d=6, times=IRREGULAR)
    table, n = enc.table(), len(IRREGULAR)
    slow = min(np.linalg.norm(table[i] - table[j]) for i in range(n) for j in range(i))
    assert abs(assess(enc).min_distance - slow) < 1e-12
    assert not enc.stationary  # lags are no multiples of the spacing
    assert enc.is_shift_invariant == (name in DECLARED)


@pytest.mark.parametrize("name", DECLARED)
def test_declared_codes_of_irregular_times_depend_on_differences_of_times_alone(name):
    """By the definition: each pair's inner product is the kernel at its difference of times."""
    table = pefourier.encode(name, d=6, times=IRREGULAR)
    found = pefourier.relations(name, d=6, times=IRREGULAR)
    apart = np.abs(np.subtract.outer(IRREGULAR, IRREGULAR))
    kernel = np.interp(apart, found.lags, found.kernel)  # at steps of a sixteenth of a wave
    assert np.abs(table @ table.T / 3 - kernel).max() < 0.02
    assert (found.toeplitz_residual, found.shift_residual) == (0, 0)
    assert found.conclusion.startswith("DEPENDS ON LAG ALONE.")
    assert found.lags[-1] == pytest.approx(8.2)
    rise = np.flatnonzero(np.diff(found.kernel) > 1e-12)[0] + 1
    assert found.first_rise == found.lags[rise]
    checked = pefourier.check(name, d=6, times=IRREGULAR)
    for axes in (found.plot().axes[0], checked.plot().axes[1]):
        assert axes.get_xlabel() == "lag (unit of the times)"
        assert axes.get_lines()[0].get_xdata()[-1] == pytest.approx(8.2)
    assert (checked.first_rising_lag, checked.toeplitz_residual) == (found.first_rise, 0)


@pytest.mark.parametrize("name", sorted({*TIMED} - {*DECLARED}))
def test_measured_codes_of_irregular_times_are_not_compared_by_rows(name):
    found = pefourier.relations(name, d=6, times=IRREGULAR)
    assert found.verdict == "no lags"
    assert (found.toeplitz_residual, found.shift_residual) == (None, None)
    assert (found.kernel, found.lags, found.first_rise) == (None, None, None)
    assert pefourier.check(name, d=6, times=IRREGULAR).toeplitz_residual is None


@pytest.mark.parametrize("name", DECLARED)
def test_lags_of_even_times_are_those_of_positions_in_another_unit(name):
    per = 1 if name == "sinusoidal" else 4  # its waves count in the unit of the times
    found = pefourier.relations(name, d=6, times=np.arange(9) / per + 7)
    rows = pefourier.relations(name, length=9, d=6)
    assert found.lags.tolist() == (np.arange(9) / per).tolist()
    assert np.abs(found.kernel - rows.kernel).max() < 1e-9
    assert found.first_rise == rows.first_rise / per


def test_nothing_folds_at_irregular_times():
    """Waves of 48 / 10^(2 i / 6) radians a span of 8.2: two of three beyond pi a mean step."""
    enc = load("mtan-fixed", d=6, times=IRREGULAR)
    waves = 2 * np.pi * 8.2 / (48 / 10.0 ** (2 * np.arange(3) / 6))
    found = pefourier.spectrum("mtan-fixed", d=6, times=IRREGULAR, lattice=64, sigma=0)
    at = np.flatnonzero(found.density)
    assert found.density[at].tolist() == pytest.approx([1 / 3] * 3)
    steps = enc.domain.spacing / waves[::-1] * 64
    assert np.abs(at - steps).max() <= 0.5
    assert found.omega[at] == pytest.approx(2 * np.pi * at / 64)
    assert found.findings == []
    assert found.cutoff_wave == pytest.approx(waves[0])
    assert (found.unit, found.frequency_unit) == ("units of time", "mean step")
    (axes,) = found.plot().axes[:1]
    assert axes.get_xlabel() == "angular frequency ω (radians per unit of time)"
    drawn = np.array([line[0, 0] for line in axes.collections[0].get_segments()])
    assert drawn * waves[::-1] == pytest.approx(2 * np.pi, rel=0.1)
    with pytest.raises(pefourier.PefourierError, match="are the most; set a shorter --lattice"):
        pefourier.spectrum("mtan-fixed:scale=1e10", d=6, times=IRREGULAR)
    with pytest.raises(pefourier.PefourierError, match="on a lattice of even steps"):
        pefourier.reconstruct("mtan-fixed", d=6, times=IRREGULAR)


def test_even_times_fold():
    even = pefourier.spectrum("mtan-fixed", d=6, times=np.arange(9) * 0.1 + 5)
    assert "aliased-frequencies" in [f.code for f in even.findings]
    assert even.omega[-1] <= np.pi
    assert unit_of_waves(even.about[0])[1] == "time steps of 0.1"
    assert even.plot().axes[0].get_xlabel().endswith("(radians per time step of 0.1)")
    assert " of " not in unit_of_waves(load("mtan-fixed", 9, 6))[1]


def test_the_page_of_irregular_times_rebuilds_no_positions():
    study = Inquiry().study(load("mtan-fixed", d=6, times=IRREGULAR))
    assert set(study.results) == {"check-faithful", "spectrum", "relations"}


def test_mtan_fixed_is_the_formula_of_its_authors():
    table = load("mtan-fixed", d=4, times=IRREGULAR).table()
    for row, t in zip(table, IRREGULAR / 8.2, strict=True):
        slow = 48 * t * math.exp(2 * -math.log(10.0) / 4)
        assert np.allclose(
            row, [math.sin(48 * t), math.cos(48 * t), math.sin(slow), math.cos(slow)], atol=1e-12
        )


@pytest.mark.parametrize("d", [4, 5])
def test_sinusoidal_counts_times_in_the_unit_of_its_positions(d):
    enc = load(f"sinusoidal:rho=100,offset=2,layout=halves,d={d}", times=IRREGULAR)
    omega = 100.0 ** (-2 * np.arange((d + 1) // 2) / d)
    phases = np.outer(IRREGULAR + 2, omega)
    expected = np.hstack([np.sin(phases), np.cos(phases[:, : d // 2])])
    assert np.abs(enc.table() - expected).max() < 1e-14
    assert enc.measure.frequencies == pytest.approx(omega * 8.2 / 7)
    rows = load(f"sinusoidal:rho=100,d={d}", times=[0.0, 1.0, 5.0]).table()
    assert np.abs(rows - load("sinusoidal:rho=100", 6, d).table()[[0, 1, 5]]).max() < 1e-15


@pytest.mark.parametrize(
    ("name", "drawn", "unit"), [("time2vec", "normal", 1.0), ("mtan", "uniform", 8.2)]
)
def test_a_line_and_sines(name, drawn, unit):
    table = load(name, d=5, times=IRREGULAR, seed=2).table()
    stream = np.random.RandomState(2)
    a, b = stream.normal(size=(2, 5)) if drawn == "normal" else stream.uniform(-1, 1, (2, 5))
    for row, t in zip(table, IRREGULAR / unit, strict=True):
        expected = [a[0] * t + b[0], *(math.sin(a[j] * t + b[j]) for j in range(1, 5))]
        assert np.allclose(row, expected, rtol=0, atol=1e-14)


def test_times_in_a_spec_are_a_file():
    refused("unknown file '3.npy'. There is no such file in '.'.", "mtan:times=3.npy")


@pytest.mark.parametrize("coordinates", ["unit", "position", "centred", "closed"])
@pytest.mark.parametrize("mapping", ["gaussian", "sam", "nerf", "perceiver"])
def test_points_that_fill_a_grid_have_the_codes_of_the_grid(mapping, coordinates):
    spec, sides = f"fourier-features:mapping={mapping},coordinates={coordinates}", (3, 4, 5)
    points = lattice_points([np.arange(n) for n in sides])
    shuffled = np.random.default_rng(0).permutation(len(points))
    given = load(spec, d=12, times=points[shuffled]).table()
    assert np.abs(given - load(spec, d=12, grid=sides).table()[shuffled]).max() < 1e-12
    if coordinates != "position":
        moved = load(spec, d=12, times=7 * points[shuffled] - 40).table()
        assert np.abs(given - moved).max() < 1e-11


def test_scattered_points_are_read_from_a_file_and_compared_by_their_codes(tmp_path):
    path = tmp_path / "latlon.csv"
    path.write_text("lat,lon\n48.5,11.5\n52.5,-3\n-33,150\n40,-74\n")
    at = np.array([[48.5, 11.5], [52.5, -3], [-33, 150], [40, -74]])
    table = pefourier.encode("fourier-features:seed=3", d=6, times=path)
    b = np.random.RandomState(3).normal(0.0, 10.0, (3, 2))
    turns = 2 * np.pi * ((at - at.min(0)) / np.ptp(at, axis=0) * 3 / 4) @ b.T
    assert np.abs(table - np.hstack([np.cos(turns), np.sin(turns)])).max() < 1e-12
    found = pefourier.check("fourier-features:seed=3", d=6, times=path)
    apart = np.linalg.norm(table[:, None] - table, axis=2) + 9 * np.eye(4)
    assert found.min_distance == pytest.approx(apart.min(), rel=1e-12)
    a, b = found.closest_pair
    assert f"row {a} ({at[a][0]:g}, {at[a][1]:g})" in found.closest_ends
    assert found.toeplitz_residual is None
    related = pefourier.relations("fourier-features:seed=3", d=6, times=path)
    i, j = np.triu_indices(4, 1)
    between = np.linalg.norm(at[i] - at[j], axis=1)
    expected = np.corrcoef(apart[i, j], between)[0, 1]
    assert related.kernel is None
    assert related.distance_preservation == pytest.approx(expected, abs=1e-9)
    for question in (pefourier.spectrum, pefourier.reconstruct):
        with pytest.raises(pefourier.PefourierError, match="scattered points have no spectrum"):
            question("fourier-features:seed=3", d=6, times=path)


def test_longitudes_on_both_sides_of_the_seam_are_a_warning(rng, run, tmp_path):
    latitude, longitude = (
        np.degrees(np.arcsin(rng.uniform(-1, 1, 200))),
        rng.uniform(-180, 180, 200),
    )
    longitude[:2] = -179.9, 179.9

    def codes(*columns, spec="fourier-features"):
        found = pefourier.check(spec, d=8, times=np.column_stack(columns)).findings
        return [f"{one.code} {one.severity}" for one in found]

    assert codes(latitude, longitude) == ["longitude-seam warning"]
    assert codes(latitude, longitude % 360) == ["longitude-seam warning"]
    angle = np.radians(longitude)
    assert codes(latitude, np.cos(angle), np.sin(angle)) == []
    assert codes(latitude, longitude / 2) == []  # a half of the earth
    assert codes(5 * latitude, longitude) == []  # no latitude beside
    turning = "fourier-features:coordinates=closed,mapping=nerf"
    whole = np.column_stack([latitude, longitude])
    whole[:2, 1] = -180, 180  # as NeRF's waves of -1 … 1, which come round
    assert codes(*whole.T, spec=turning) == []
    lines = [f"{a},{b}" for a, b in zip(latitude, longitude, strict=True)]
    (tmp_path / "geo.csv").write_text("\n".join(["lat,lon", *lines]))
    done = run("relations", "fourier-features", "--d", 8, "--times", tmp_path / "geo.csv")
    assert "[longitude-seam]" in done.out


@pytest.mark.parametrize(
    ("spec", "given", "why"),
    [
        ("mtan", {"times": [[0, 1], [2, 3]]}, "fourier-features takes points of several"),
        ("fourier-features", {"times": [[0, 1], [2, 3], [0, 1]]}, "rows 1 and 3 are both 0, 1"),
        ("fourier-features", {"times": [[0, 1], [2, np.nan]]}, "row 2, column 2 is nan"),
        ("fourier-features", {"times": [[0, 1]], "grid": (1, 1)}, "leave one out"),
    ],
)
def test_points_that_are_none_are_refused(spec, given, why):
    with pytest.raises(pefourier.PefourierError, match=why):
        load(spec, d=4, **given)


@pytest.mark.parametrize("step", [1.0, 30.0, 1e-3])
@pytest.mark.parametrize("name", ["time2vec", "mtan", "mtan-fixed"])
def test_what_to_divide_times_by_is_said_where_their_unit_counts(name, step, rng):
    """Divided by it, codes of neighbours are as those of positions; mtan divides by the span."""
    times = step * np.cumsum(rng.uniform(0.8, 1.2, 50))
    found = load(name, None, 8, times=times).findings
    assert [one.code for one in found] == ["times-unit"] * (name == "time2vec" and step != 1)
    for one in found:
        by = float(re.search(r"divide the times by ([\d.e-]+),", one.message)[1])
        assert by == pytest.approx(np.median(np.diff(times)), rel=5e-3)
        assert load(name, None, 8, times=times / by).findings in ((), [])


def test_frequencies_of_times_say_what_they_are_per(run, tmp_path, rng):
    times = 100 + np.cumsum(rng.exponential(10, 300))
    np.save(tmp_path / "t.npy", times)
    out = run("spectrum", "mtan-fixed", "--times", tmp_path / "t.npy").out
    assert re.search(r"in radians per +mean step\n", out)
