"""Bases by each criterion equal published searches, scans and brute force."""

import numpy as np
import pytest

from pefourier.api import design
from pefourier.encodings import load
from pefourier.errors import PefourierError
from pefourier.geometry.precision import FORMATS, rounded
from pefourier.questions.design import (
    base_of_angle,
    bounded_bases,
    cast_distance,
    design_base,
    negative_lags,
    smallest_bounded_base,
)


@pytest.mark.parametrize(
    ("length", "base"),  # Su's search, d 128: kexue.fm 10122
    [(1024, 4.294e3), (2048, 1.159e4), (4096, 2.695e4), (8192, 8.379e4), (16384, 2.317e5)],
)
def test_smallest_base_with_a_bound_is_that_of_the_published_search(length, base):
    assert smallest_bounded_base(128, length) == pytest.approx(base, rel=2e-3)


RHO = (1.5, 3, 5, 10, 30, 100, 1000, 1e4)
SCAN = {  # length, d: smallest distance / rank / stable rank / idle pairs / first lag
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
    """The scan equals the published one; bfloat16 costs at most 0.006 of distance."""
    by_base = {c.rho: c for c in design_base(length, d, RHO, (), dtype="bfloat16").candidates}
    for rho, row in zip(RHO, SCAN[length, d], strict=True):
        c = by_base[rho]
        distance, rank, stable, idle, bound = row.split("/")
        assert (f"{c.min_distance:.2f}", c.rank, c.idle) == (distance, int(rank), int(idle))
        assert c.stable_rank == pytest.approx(float(stable), abs=0.051)
        assert str(c.bound if c.bound is not None and c.bound < length else "-") == bound
        assert 0 <= c.min_distance - c.min_distance_cast < 0.006
        enc = load(c.spec, 64)
        assert (enc.dim, enc.params["rho"]) == (d, pytest.approx(c.rho, rel=1e-6))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize(
    "spec",
    [
        *(f"rope:rho={rho}" for rho in (3, 100, 1e6)),
        *(f"rope:scaling=yarn,factor=4,original=32,attention_factor={a}" for a in (0.1, 3.0)),
    ],
)
def test_distance_after_rounding_is_that_of_all_pairs(spec, dtype):
    """The distance after rounding equals that of all pairs, with an attention factor too."""
    enc, form = load(spec, 90, 16), FORMATS[dtype]
    tables = enc.table(), rounded(enc.table(), form)
    exact, direct = (
        min(np.linalg.norm(x[i] - x[j]) for i in range(90) for j in range(i)) for x in tables
    )
    assert cast_distance(enc, exact, form) == pytest.approx(direct, rel=1e-9, abs=1e-12)


SPANS = [("1h", "1"), ("1h", None), ("1s", "1h"), ("1 fortnight", "1h"), ("nan", "1")]
SPANS += [("9", "-1"), ("9", "0"), ("1y", "1ns")]
CRITERIA = ["phase=1", "phase=-.1", "phase=.5:0", "phase=x", "beauty"]
CRITERIA += ["wavelength=x", "wavelength=0", "wavelength=inf"]
LONG = {"span": "1d", "resolution": "10ms", "d": 64}  # too long for a table


@pytest.mark.parametrize(
    "options",
    [
        *({"length": n, "d": d} for n, d in ((1, 64), (80, 7), (80, 2), ((4, 4, 4, 4), 16))),
        *({"length": 80, "d": 16, "criteria": [name]} for name in CRITERIA),
        *({"span": span, "resolution": step, "d": 16} for span, step in SPANS),
        {"span": "1h", "resolution": "1s", "length": 9, "d": 16},
        *(LONG | {"criteria": [name]} for name in ("distance", "bound", "rank")),
        LONG | {"dtype": "bfloat16"},
    ],
    ids=str,
)
def test_what_has_no_base_is_refused(options):
    with pytest.raises(PefourierError) as error:
        design(**options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("cosine", "layers", "base"), [(0, 1, 83443), (0.9, 1, 290609)])
def test_the_bound_on_phases_is_the_published_one_for_endless_d(cosine, layers, base):
    """The bases are those of arXiv 2602.10959 at 131072 positions."""
    angle = np.arccos(cosine ** (1 / layers))
    assert base_of_angle(10**9, 131072, angle) == pytest.approx(base, rel=4e-6)


def has_bound(rho, d, length):
    """Return whether B(m) is at least 0 at every lag, written out."""
    omega = rho ** (-np.arange(d // 2) * 2 / d)
    return np.cos(np.multiply.outer(np.arange(length), omega)).sum(axis=1).min() >= 0


def fails_between(low, high, d, length):
    """Return whether all bases of seven digits between two fail.

    Each cosine is replaced by its largest value in the interval.
    """
    exponents, lags = np.arange(d // 2) * 2 / d, np.arange(1, length)[:, None]
    ends = lags * low**-exponents, lags * high**-exponents
    wraps = np.floor(ends[0] / (2 * np.pi)) > np.floor(ends[1] / (2 * np.pi))
    largest = np.where(wraps, 1.0, np.maximum(*np.cos(ends)))
    if largest.sum(axis=1).min() < 0:
        return True
    middle = float(f"{np.sqrt(low * high):.7g}")
    if not low < middle < high:
        return not has_bound(low, d, length) and not has_bound(high, d, length)
    return fails_between(low, middle, d, length) and fails_between(middle, high, d, length)


@pytest.mark.parametrize(
    ("length", "d"),
    [(64, 8), (33, 12), (4, 8), (31, 16), (32, 16), pytest.param(512, 32, marks=pytest.mark.long)],
)
def test_no_base_of_seven_digits_is_smaller(length, d):
    """All smaller bases of seven digits fail, by intervals."""
    smallest = smallest_bounded_base(d, length)
    assert smallest == float(f"{smallest:.7g}")
    assert has_bound(smallest, d, length)
    step = 10.0 ** (np.floor(np.log10(smallest)) - 6)
    assert fails_between(1.000001, float(f"{smallest - step:.7g}"), d, length)


@pytest.mark.parametrize(("length", "d"), [(500, 32), (131072, 128), (5000, 6), (90, 128), (7, 4)])
def test_a_base_passes_as_all_lags_say(length, d):
    steady = bounded_bases(d, length).steady
    for base in np.geomspace(1.5, 4 * steady, 60 if length < 10**5 else 6).tolist():
        exponents, lags = np.arange(d // 2) * 2 / d, np.arange(length)
        sums = sum(np.cos(lags * w) for w in (base**-exponents).tolist())
        found = negative_lags(base**-exponents, length).astype(int)
        assert (len(found) == 0) == (sums.min() >= 0)
        assert (sums[found] < 0).all()


@pytest.mark.parametrize(
    ("length", "d", "smallest"), [(1000, 64, 7752.983), (300, 6, 6254281), (80, 128, 158.6375)]
)
def test_all_bases_tried_up_to_ten_times_the_base_have_the_bound(length, d, smallest):
    """The base for the bound is not an island: larger bases up to ten times the base pass too."""
    result = design_base(length, d, bases=(), criteria=("bound",))
    base = result.best["bound"]
    assert all(has_bound(rho, d, length) for rho in base * 10 ** (np.arange(401) / 400))
    found = bounded_bases(d, length)
    assert found.smallest == pytest.approx(smallest, rel=1e-6)
    assert has_bound(found.smallest, d, length)
    assert found.failing is None or not has_bound(found.failing, d, length)
    assert (found.failing is None) == (base == found.smallest)
    (note,) = result.findings
    assert ("fails" in note.message) == (found.failing is not None)


@pytest.mark.parametrize("length", [7, 80, 1000, 131072, 8640000])
@pytest.mark.parametrize("d", [4, 16, 128])
@pytest.mark.parametrize("criterion", ["turns", "wavelength=1", "wavelength=3", "phase=.9"])
def test_the_printed_base_meets_its_criterion(length, d, criterion):
    """The printed base meets its criterion exactly when typed, and so does its row."""
    (candidate,) = design_base(length, d, (), (criterion,)).candidates
    typed = float(candidate.spec.partition("rho=")[2].partition(",")[0])
    assert float(candidate.base) == typed == candidate.rho
    radians = length * typed ** (-(d - 2) / d)
    if criterion == "phase=.9":
        assert radians <= np.arccos(0.9) * (1 + 1e-12)
    else:
        last = 2 * np.pi / (3 if criterion == "wavelength=3" else 1)
        assert radians >= last * (1 - 1e-12)
        assert radians == pytest.approx(last, rel=1e-6)
        assert candidate.idle == 0 or criterion == "wavelength=3"


@pytest.mark.parametrize(("length", "d"), [(90, 64), (80, 16), (500, 32)])
def test_a_condition_number_that_no_base_has_is_no_answer(length, d):
    """A criterion that no candidate meets has no best base."""
    result = design_base(length, d, criteria=("condition",))
    rho = result.best["condition"]
    assert (rho is None) == ({c.condition_number for c in result.candidates} == {None})
    assert (rho is None) == (max(c.rank for c in result.candidates) < min(length, d))
    assert (result.verdict == "no base serves") == (rho is None)
