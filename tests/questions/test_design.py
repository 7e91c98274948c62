"""Bases by each criterion equal published searches, scans and brute force."""

import numpy as np
import pytest

from pefourier.encodings import load
from pefourier.geometry.precision import FORMATS, rounded
from pefourier.questions.design import bases_with_bound, cast_distance, design_base
from pefourier.report import render
from pefourier.report.render import answer_of

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


def has_bound(rho, d, length):
    """Return whether B(m) is at least 0 at every lag, written out."""
    omega = rho ** (-np.arange(d // 2) * 2 / d)
    return np.cos(np.multiply.outer(np.arange(length), omega)).sum(axis=1).min() >= 0


@pytest.mark.parametrize(
    ("length", "d"), [(64, 8), (4, 8), (33, 12), (300, 6), (80, 128), (1000, 64)]
)
def test_bases_with_the_bound_are_the_first_whole_decade_of_the_scan(length, d):
    """All bases tried pass by brute force, and no smaller decade of the grid does."""
    found = bases_with_bound(d, length)
    grid = np.array([float(f"{10 ** (k / 100):.4g}") for k in range(1, 1400)])
    grid = grid[grid <= found[-1]]
    passing = np.array([has_bound(rho, d, length) for rho in grid])
    np.testing.assert_array_equal(grid[-len(found) :], found)
    assert passing[-len(found) :].all()
    assert len(found) == 101
    assert found[-1] / found[0] == pytest.approx(10, rel=1e-3)
    failing = np.flatnonzero(~passing)
    assert not len(failing) or failing[-1] == len(grid) - len(found) - 1
    assert np.diff([-1, *failing, len(grid)]).max() == len(found) + 1


@pytest.mark.parametrize(
    ("length", "d", "chosen", "other"),
    [(2047, 64, "turns", "bound"), (2048, 64, "bound", "turns")],
)
def test_one_criterion_is_chosen_by_the_length(length, d, chosen, other):
    found = design_base(length, d)
    assert (list(found.best), list(found.other)) == ([chosen], [other])
    for name, rho in (found.best | found.other).items():
        assert design_base(length, d, criteria=(name,)).best == {name: rho}
    assert found.to_dict()["other"] == found.other
    assert render.short_text_of([answer_of(found)])


@pytest.mark.parametrize("length", [7, 80, 1000, 131072, 8640000])
@pytest.mark.parametrize("d", [4, 16, 128])
@pytest.mark.parametrize("criterion", ["turns", "wavelength=1", "wavelength=3"])
def test_the_printed_base_meets_its_criterion(length, d, criterion):
    """The printed base meets its criterion exactly when typed, and so does its row."""
    (candidate,) = design_base(length, d, (), (criterion,)).tried
    typed = float(candidate.spec.partition("rho=")[2].partition(",")[0])
    assert float(candidate.base) == typed == candidate.rho
    radians = length * typed ** (-(d - 2) / d)
    last = 2 * np.pi / (3 if criterion == "wavelength=3" else 1)
    assert radians >= last * (1 - 1e-12)
    assert radians == pytest.approx(last, rel=1e-6)
    assert candidate.idle == 0 or criterion == "wavelength=3"
