"""Bases by each criterion against published searches, scans and brute force."""

import re

import numpy as np
import pytest

from pefourier.analysis.context import base_bound
from pefourier.analysis.design import (
    Steps,
    base_of_turns,
    cast_distance,
    codes_between,
    design_base,
    design_grid,
    smallest_bounded_base,
)
from pefourier.answers.design import conclude_design, design_text
from pefourier.encodings import build, load
from pefourier.errors import PefourierError
from pefourier.geometry.precision import FORMATS, rounded
from pefourier.questions import design


@pytest.mark.parametrize(
    ("length", "d", "base"),
    [
        (80, 256, 12.990),
        (512, 128, 87.383),
        (4096, 128, 722.52),
        (8192, 128, 1461.03),
        (32768, 128, 5974.13),
        (131072, 128, 24428.2),
    ],
)
def test_base_with_which_every_pair_turns(length, d, base):
    assert base_of_turns(d, length) == pytest.approx(base, rel=1e-5)
    slowest = base ** (-(d - 2) / d)
    assert slowest * length == pytest.approx(2 * np.pi, rel=1e-4)


@pytest.mark.parametrize(
    ("length", "base"),  # Su's search, d 128: kexue.fm 10122; 65536 is one of the forty questions
    [
        (1024, 4.294e3),
        (2048, 1.159e4),
        (4096, 2.695e4),
        (8192, 8.379e4),
        (16384, 2.317e5),
    ],
)
def test_smallest_base_with_a_bound_is_that_of_the_published_search(length, base):
    assert smallest_bounded_base(128, length) == pytest.approx(base, rel=2e-3)


@pytest.mark.long
def test_a_base_that_a_coarse_cut_passes_over_is_found():
    """None of ten bases up to 1.024e8 serves 102400 positions, and once that was the end of it."""
    rho = smallest_bounded_base(64, 102400)
    sums = np.cos(np.multiply.outer(np.arange(102400.0), rho ** (-np.arange(32) / 32))).sum(axis=1)
    assert sums.min() >= 0


@pytest.mark.parametrize(("asked", "base"), [("0", 83443), ("0.9", 290609), ("0.9:32", 1616104)])
def test_the_bound_on_phases_is_the_published_one(asked, base):
    """arXiv 2602.10959, at 131072 positions; the cosine is that of the slowest wave at the end."""
    found = design_base(131072, 128, (), (f"phase={asked}",))
    rho = found.best[f"phase={asked}"]
    assert rho == pytest.approx(base, rel=4e-6)  # printed as whole numbers, one of them one up
    cosine, _, layers = asked.partition(":")
    assert np.cos(131072 / rho) ** int(layers or 1) == pytest.approx(float(cosine), abs=1e-9)
    assert f"slowest wave at {cosine} or above over the length" in conclude_design(found).text


@pytest.mark.parametrize("asked", ["1", "-0.1", "0.5:0", "x"])
def test_a_bound_on_phases_takes_a_cosine(asked):
    with pytest.raises(PefourierError, match="phase=E"):
        design_base(80, 16, (), (f"phase={asked}",))


RHO = (1.5, 3, 5, 10, 30, 100, 1000, 1e4)
SCAN = {  # length, d: smallest distance / rank / stable rank / pairs that never turn / first lag
    (80, 256): (
        *("8.79/40/7.7/0/2", "7.06/47/11.4/0/3", "6.08/48/10.9/0/4", "5.18/48/9.1/0/5"),
        *("4.30/47/6.2/32/18", "3.71/46/3.9/57/60", "3.06/44/2.0/80/-", "2.67/42/1.6/92/-"),
    ),
    (512, 128): (
        *("6.24/98/45.2/0/2", "5.01/128/62.7/0/3", "4.33/128/56.7/0/4", "3.69/126/42.9/0/5"),
        *("3.08/108/24.8/0/17", "2.67/92/13.4/2/59", "2.22/72/4.4/23/361", "1.95/61/2.4/33/-"),
    ),
    (100, 32): (
        *("3.09/32/9.6/0/2", "2.57/32/14.1/0/3", "2.24/32/13.5/0/4", "1.94/32/11.2/0/5"),
        *("1.66/32/8.1/2/16", "1.47/29/5.2/6/28", "1.28/24/2.3/9/-", "1.17/21/1.8/11/-"),
    ),
}


@pytest.mark.parametrize(("length", "d"), SCAN)
def test_scan_is_the_published_one(length, d):
    found = {c.rho: c for c in design_base(length, d, RHO, ()).candidates}
    for rho, row in zip(RHO, SCAN[length, d], strict=True):
        c = found[rho]
        distance, rank, stable, idle, bound = row.split("/")
        assert (f"{c.min_distance:.2f}", c.rank, c.idle) == (distance, int(rank), int(idle))
        assert c.stable_rank == pytest.approx(float(stable), abs=0.051)
        seen = c.bound if c.bound is not None and c.bound < length else "-"
        assert str(seen) == bound


def test_condition_numbers_of_the_scan_are_the_published_ones():
    found = {c.rho: c.condition_number for c in design_base(100, 32, RHO, ()).candidates}
    assert [f"{found[rho]:.4g}" for rho in (3, 5)] == ["9182", "3021"]
    assert [f"{found[rho]:.1e}" for rho in (10, 30)] == ["2.2e+05", "4.3e+11"]
    ((c,),) = (design_base(512, 128, (5.0,), ()).candidates,)
    assert f"{c.condition_number:.1e}" == "7.4e+09"


@pytest.mark.parametrize(("length", "d"), SCAN)
def test_rounding_to_bfloat16_costs_little_distance(length, d):
    """By .003 to .004 in the published scan: storage is not what limits."""
    for c in design_base(length, d, (3.0, 100.0, 1e4), (), dtype="bfloat16").candidates:
        assert 0 <= c.min_distance - c.min_distance_cast < 0.006


@pytest.mark.parametrize(
    ("side", "d", "rho", "idle", "times", "base"),
    [  # pairs of an axis that never turn, longest wavelength over the side, base that ends there
        (64, 56, 1e4, 20, 707, 11.1),  # FLUX at 1024 pixels
        (128, 56, 1e4, 18, 353, 22.8),
        (64, 32, 2000.0, 11, 122, 11.9),  # FLUX.2
        (80, 56, 256.0, 15, 16.5, 14.0),  # HunyuanVideo
        (33, 16, 256.0, 5, 24.4, 6.7),
        (21, 44, 1e4, 19, 1969, 3.5),  # Wan
        (80, 42, 1e4, 15, 507, 14.5),
        (13, 16, 1e4, 7, 1528, 2.3),  # CogVideoX
        (36, 40, 1e4, 16, 1101, 6.3),  # Qwen2-VL
        (14, 32, 100.0, 13, 33.7, 2.4),  # RoPE-ViT
        (64, 48, 256.0, 13, 19.9, 11.3),  # Z-Image
    ],
)
def test_axes_of_image_models_are_the_published_ones(side, d, rho, idle, times, base):
    (c,) = design_base(side, d, (rho,), ()).candidates
    assert c.idle == idle
    longest = 2 * np.pi * rho ** ((d - 2) / d)
    assert longest / side == pytest.approx(times, rel=3e-3)
    assert round(base_of_turns(d, side), 1) == base


def test_the_best_of_some_bases_is_not_told_as_the_best():
    """Base 1.561 has 2.293 at L 200, d 16, where 2.11 of base 2 was told as the best."""
    found = design_base(200, 16)
    (better,) = design_base(200, 16, (1.561,), ()).candidates
    assert better.min_distance > max(c.min_distance for c in found.candidates) + 0.1
    told = conclude_design(found).text
    assert "score above random ones, on average, at every lag below the length" in told
    rows = [line for line in design_text("", found).splitlines() if line[0].isdigit()]
    (row,) = (line for line in rows if "distance" in line)
    alone = conclude_design(design_base(200, 16, criteria=("distance",))).text
    assert row.startswith("2 ")
    assert "the best of the 14 bases tried is 2 by distance (smallest distance 2.11)" in alone


def test_what_is_tied_has_no_winner():
    """Bases 3 and 5 were "5 by rank (128)", where 1.5 to 1000 had 128."""
    found = design_base(512, 128, criteria=("rank", "distance"))
    ranks = {c.rho: c.rank for c in found.candidates}
    assert found.tied == {"rank": tuple(rho for rho, rank in ranks.items() if rank == 128)}
    assert (
        "all from " in conclude_design(found).text
        or "3 and 5 by rank (128)" in conclude_design(found).text
    )
    marked = [line for line in design_text("", found).splitlines() if "rank" in line][1:]
    assert len(marked) == len(found.tied["rank"])


def test_criteria_contradict_one_another():
    best = design_base(80, 256).best
    assert best["distance"] == 1.5
    assert (best["stable_rank"], best["rank"]) == (3.0, 5.0)
    assert best["turns"] == pytest.approx(12.99, abs=0.001)
    assert best["bound"] > 100
    assert design_base(100, 32).best["condition"] == 5.0


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_distance_after_rounding_is_that_of_all_pairs(dtype):
    form = FORMATS[dtype]
    for rho in (3.0, 100.0, 1e6):
        enc = build("rope", length=90, d=16, rho=rho)
        table = rounded(enc.table(), form)
        direct = min(
            np.linalg.norm(table[i] - table[j]) for i in range(len(table)) for j in range(i)
        )
        exact = enc.table()
        least = min(np.linalg.norm(exact[i] - exact[j]) for i in range(90) for j in range(i))
        assert cast_distance(enc, least, form) == pytest.approx(direct, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("attention", [0.1, 3.0])
def test_distance_after_rounding_counts_the_factor_before_cosines(attention):
    """Once infinite: lags were chosen by distances without the factor."""
    spec = f"rope:scaling=yarn,factor=4,original=32,attention_factor={attention}"
    enc, form = load(spec, 90, 16), FORMATS["bfloat16"]
    table = enc.table()
    cast = rounded(table, form)
    pairs = [(i, j) for i in range(len(table)) for j in range(i)]
    least, direct = (min(np.linalg.norm(x[i] - x[j]) for i, j in pairs) for x in (table, cast))
    assert cast_distance(enc, least, form) == pytest.approx(direct, rel=1e-9)


def test_codes_between_positions_are_those_of_the_encoding():
    enc = load("rope:rho=5e5,scaling=yarn,factor=4,original=32768", 131072, 64)
    own = enc.codes(np.arange(130_800, 131_072))
    cosines, sines = own[:, :32], own[:, 32:]
    found = codes_between(enc.measure, 130_800, 131_072)
    np.testing.assert_allclose(found[:, ::2], cosines, atol=1e-10)
    np.testing.assert_allclose(found[:, 1::2], sines, atol=1e-10)


def test_wavelength_is_a_criterion_with_a_number():
    found = design_base(1000, 64, criteria=("wavelength=2.5",))
    rho = found.best["wavelength=2.5"]
    assert rho ** (-62 / 64) * 2500 == pytest.approx(2 * np.pi)
    with pytest.raises(PefourierError, match=r"^unknown criterion 'wavelength=x': turns, distance"):
        design_base(1000, 64, criteria=("wavelength=x",))


@pytest.mark.parametrize(
    ("length", "d", "message"),
    [
        (1, 64, "length must be a whole number from 2 on; got 1"),
        (80, 7, "a base is chosen for pairs of dimensions: an even d; got d=7"),
        (80, 2, "a base is chosen for d of at least 4, two pairs; got d=2"),
    ],
)
def test_sizes_that_have_no_base(length, d, message):
    with pytest.raises(PefourierError, match=f"^{message}$"):
        design_base(length, d)


def test_the_lattice_of_the_dft_serves_short_lengths():
    assert design_base(80, 256, bases=(10.0,), criteria=()).dft_serves
    assert not design_base(80, 32, bases=(10.0,), criteria=()).dft_serves


def test_the_lattice_of_the_dft_is_not_offered_for_grids():
    """Side by side, codes of two axes that are each equidistant have two distances."""
    found = design_grid((8, 8), 32, bases=(10.0,), criteria=())
    assert not any(one.dft_serves for one in found)
    axis = build("dft", length=8, d=16).table()
    both = np.hstack([np.repeat(axis, 8, axis=0), np.tile(axis, (8, 1))])
    apart = np.linalg.norm(both[:, None] - both, axis=-1)[~np.eye(64, dtype=bool)]
    assert apart.max() / apart.min() == pytest.approx(2**0.5)


def test_axes_that_are_alike_are_told_once(run):
    same = run("design", "--grid", "8x8", "--d", 16, "--base", 10, "--for", "turns").out
    assert same.startswith("both axes: ")
    assert same.count("8 positions, d 8") == 1  # above the table
    assert "axis y" not in same
    apart = run("design", "--grid", "8x9", "--d", 16, "--base", 10, "--for", "turns").out
    assert "axis y: 8 positions, d 8" in apart
    assert "axis x: 9 positions, d 8" in apart
    records = run("design", "--grid", "8x8", "--d", 16, "--base", 10, "--json").results
    assert [one["axis"] for one in records] == ["y", "x"]


def test_each_candidate_is_a_spec_that_gives_it_back():
    for one in design_base(64, 16, (1.5, 1e4), ("turns",)).candidates:
        enc = load(one.spec, 64)
        assert (enc.dim, enc.params["rho"]) == (16, pytest.approx(one.rho, rel=1e-6))


@pytest.mark.parametrize(
    ("length", "d"), [(80, 256), (1024, 128), (4096, 128), (8192, 64), (16384, 128), (4096, 64)]
)
def test_the_base_that_is_told_serves_when_it_is_typed_back(length, d):
    """Rounded to the digits of words and SPEC; a base above it may fail, which the words say."""
    found = design_base(length, d, bases=(), criteria=("bound",))
    told = conclude_design(found).text
    (typed,) = re.findall(r"(?:that serves is|None below) ([\d.e+]+\d)\b", told)
    for base in (typed, *re.findall(r"takes base ([\d.e+]+):", told)):
        rope = build("rope", length=length, d=d, rho=float(base))
        assert base_bound(rope.measure.frequencies) >= length
    assert found.candidates[0].spec == f"rope:rho={typed},d={d}"
    assert design_text("", found).splitlines()[1].startswith(typed)


@pytest.mark.parametrize(("length", "d"), [(4096, 128), (65536, 128), (1000, 64)])
def test_the_base_that_is_advised_is_not_on_a_thin_island(length, d):
    """Once 2100000 was advised for 65536 positions: a base 1 % larger fails."""
    found = design_base(length, d, bases=(), criteria=("bound",))
    (typed,) = re.findall(r"takes base ([\d.e+]+):", conclude_design(found).text)
    for larger in (1.001, 1.008, 1.02, 1.03, 1.045):
        frequencies = (larger * float(typed)) ** (-2 * np.arange(d // 2) / d)
        assert base_bound(frequencies, length) is None


def test_a_base_above_the_smallest_may_fail_and_is_not_advised():
    found = design_base(65536, 128, bases=(3e6,), criteria=("bound",))
    assert found.candidates[1].bound < 65536
    assert "or more" not in conclude_design(found).text
    assert "some between fail" in conclude_design(found).text


@pytest.mark.parametrize(
    ("span", "resolution", "length"),
    [
        ("1h", "1s", 3600),
        ("2d", "15min", 192),
        ("1", "0.01", 100),
        ("0.3", "0.1", 3),
    ],
)
def test_a_span_in_steps_is_a_length_whose_slowest_wave_lasts_the_span(span, resolution, length):
    found = design(d=16, span=span, resolution=resolution, criteria=["turns"], bases=[2.0])
    assert (found.length, found.candidates) == (
        length,
        design(length, 16, criteria=["turns"], bases=[2.0]).candidates,
    )
    lasts, _ = found.steps.lasting(2 * np.pi * found.best["turns"] ** (14 / 16), span)
    assert lasts == pytest.approx(float(span.rstrip("hds")), rel=1e-12)
    assert Steps("7s", "2s").length == 4  # what is begun is covered


def test_waves_are_told_in_the_units_of_span_and_resolution(run):
    sizes = ("--span", "1h", "--resolution", "500ms", "--d", "16", "--for", "turns", "--base", "2")
    lines = run("design", *sizes).out.splitlines()
    assert "7200 positions (1h in steps of 500ms)" in lines[0]
    assert "position = time / 500ms; the fastest wave lasts 3142 ms" in lines
    (row,) = (line for line in lines if line.endswith("turns"))
    assert "  1 h  " in row


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"span": "1h", "resolution": "1"}, "both have a unit or neither"),
        ({"span": "1h"}, "both a span and a resolution"),
        ({"span": "1s", "resolution": "1h"}, "has 0.0002778 of 1h"),
        ({"span": "1 fortnight", "resolution": "1h"}, "span must be a number above 0"),
        ({"span": "nan", "resolution": "1"}, "span must be a number above 0"),
        ({"span": "9", "resolution": "-1"}, "resolution must be a number above 0"),
        ({"span": "1h", "resolution": "1s", "length": 9}, "leave one out"),
    ],
)
def test_a_span_that_is_none_is_refused(given, why):
    with pytest.raises(PefourierError, match=why):
        design(d=16, **given)


@pytest.mark.parametrize(("length", "d"), [(14, 384), (14, 128), (80, 256), (4096, 128)])
def test_with_the_base_of_turns_all_pairs_turn(length, d):
    (found,) = design_base(length, d, bases=(), criteria=("turns",)).candidates
    assert found.idle == 0


def test_a_series_is_told_which_base_to_take(run):
    idle = int((1e4 ** (-np.arange(32) / 32) * 1008 < 2 * np.pi).sum())
    said = run("design", "--span", "7d", "--resolution", "10min", "--d", 64).out
    told = f"every pair completes a turn; with the usual 10000 {idle} of 32 never do."
    assert told in " ".join(said.split())
    spec, gap = re.search(
        r"or not, (sin\S+) has .* differ by ([.\d]+) times", " ".join(said.split())
    ).groups()
    one, other = build("sinusoidal", length=2, d=64, rho=float(spec.partition("=")[2])).table()
    assert float(gap) == pytest.approx(np.linalg.norm(one - other) / np.linalg.norm(one), rel=0.02)
    assert f"{spec} --times times.csv --d 64" in said
