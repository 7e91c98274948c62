"""Findings about frequencies: aliased frequencies, and lists that no known rule produces."""

import numpy as np
import pytest
from sinusoids import pairs

from pefourier.construction.wave_rules import follows_a_rule
from pefourier.encodings.encoding import from_table
from pefourier.encodings.registry import build
from pefourier.geometry.precision import FORMATS, rounded
from pefourier.questions.check_faithful import check_faithful

S, I = np.arange(200)[:, None], np.arange(32)  # noqa: E741 (pairs, as in the papers)


def aliased_in(enc):
    found = [f.message for f in check_faithful(enc).findings if f.code == "aliased-frequencies"]
    return found[0].rpartition(": ")[2] if found else ""


POINTS = 10 * 1e4 ** (-I[:16] / 16)  # centimetres in units of millimetres
OCTAVES = np.pi / 100 * 2.0 ** np.arange(10)
TABLES = {
    "points, two axes constant": (np.hstack([pairs(S * POINTS), pairs(0 * S + POINTS)]), "3 of 16"),
    "octaves": (pairs(S * OCTAVES), "3 of 10"),
    "below the fold": (pairs(S * 3.14 * 1e4 ** (-I / 32)), ""),
    "random": (pairs(S * np.random.default_rng(0).uniform(0, 7, 32)), ""),
}


@pytest.mark.parametrize("name", TABLES)
def test_frequencies_above_nyquist_are_counted(name):
    table, count = TABLES[name]
    assert aliased_in(from_table(table)) == count


def test_formulas_and_their_files_have_one_finding():
    tape = build("tape", length=80, d=256)  # d / length: 3.2 radians a position
    assert aliased_in(tape) == aliased_in(from_table(tape.table())) == "1 of 128"
    assert aliased_in(build("fourier-features", length=9, d=16)) != ""


SCALINGS = [
    {},
    {"scaling": "linear", "factor": 4.0},
    {"scaling": "ntk", "factor": 8.0},
    {"scaling": "yarn", "factor": 32.0, "original": 4096},
    {"scaling": "llama3", "factor": 8.0, "original": 8192},
    {"scaling": "cut", "original": 4096},
]


@pytest.mark.parametrize("rho", [1e4, 5e5, 1e6])
@pytest.mark.parametrize("d", [16, 64, 128])
@pytest.mark.parametrize("scaling", SCALINGS)
def test_lists_of_known_scalings_are_known(scaling, d, rho):
    omega = build("rope", length=64, d=d, rho=rho, **scaling).measure.frequencies
    for listed in (omega, rounded(omega, FORMATS["bfloat16"]), np.tile(omega, 2)):
        assert follows_a_rule(listed)


def test_lists_that_no_rule_makes_are_warnings(rng):
    grid = 1e4 ** (-I / 32)
    longrope = grid / np.cumsum(rng.uniform(0, 4, 32))
    for omega, irregular in (
        (10 ** rng.uniform(-38, 2, 32), True),
        (rng.permutation(grid), True),
        (np.linspace(1, 0.01, 32), True),
        (grid, False),
        (longrope / max(longrope[0], 1), False),
        (np.full(32, 0.1), False),
    ):
        findings = check_faithful(build("rope", length=20, d=64, inv_freq=omega)).findings
        vectors = [f.code for f in findings if f.severity != "note"]
        assert vectors == ["irregular-frequencies"] * irregular
