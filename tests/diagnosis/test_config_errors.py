"""A single mistake, planted in each of three configs, is found with its value."""

import math

import numpy as np
import pytest

from pefourier.encodings import load
from pefourier.encodings.encoding import from_table
from pefourier.geometry.waves import fit
from pefourier.questions.compare import compare

N, D = 600, 64
PAIRS = np.arange(D // 2)
SPECS = {
    "default": "rope:rho=5e5",
    "llama3": "rope:rho=5e5,scaling=llama3,factor=8,original=512",
    "yarn": "rope:rho=1e6,scaling=yarn,factor=4,original=512",
}


def omega_of(spec, **changes):
    own = dict(item.split("=") for item in spec.removeprefix("rope:").split(","))
    more = ",".join(f"{key}={value}" for key, value in (own | changes).items())
    return load(f"rope:{more}", N, D).measure.frequencies


@pytest.mark.parametrize("wave", [np.cos, np.sin])
def test_one_column_out_of_step_hides_no_other(wave):
    table = wave(np.outer(np.arange(64), 100.0 ** (-np.arange(8) / 8)))
    table[40:, 3] = 0.0
    assert (fit(table, 2.0**-52).even == (np.arange(8) != 3)).all()


def dump(omega, form="halves", factor=1.0):
    cos, sin = (factor * wave(np.outer(np.arange(N), omega)) for wave in (np.cos, np.sin))
    table = np.hstack([cos, sin if form == "halves" else cos]).astype(np.float32)
    return from_table(table, eps=2.0**-23)


def compared(name, omega, form="halves"):
    """Compare the intended rotation with a dump of frequencies that has its attention factor."""
    meant = load(SPECS[name], N, D)
    return compare(meant, dump(omega, form, factor=meant.params["attention_factor"]))


def unscaled(name):
    return omega_of(SPECS[name].partition(",scaling")[0])


def blended(name, divided):
    """Return frequencies of which the share `divided` is divided by the factor."""
    theta, factor = unscaled(name), {"llama3": 8, "yarn": 4}[name]
    return theta / factor * divided + theta * (1 - divided)


def yarn_share(around=2 * math.pi):
    """Return YaRN's ramp; `around` replaces the 2π by which original / beta is divided."""
    low, high = (D * math.log(512 / (n * around)) / (2 * math.log(1e6)) for n in (32, 1))
    low, high = max(math.floor(low), 0), min(math.ceil(high), D - 1)
    return np.clip((PAIRS - low) / (high - low), 0, 1)


def llama3_share():
    return 1 - np.clip((512 * unscaled("llama3") / (2 * math.pi) - 1) / 3, 0, 1)


SETTINGS = [  # config, changed settings, finding code
    ("default", {"rho": 1e4}, "base"),
    ("llama3", {"rho": 7e5}, "base"),
    ("yarn", {"factor": 6}, "factor"),
    ("llama3", {"original": 700}, "original-length"),
    ("yarn", {"original": 2048}, "original-length"),
    ("llama3", {"low_freq_factor": 2}, "ramp-low"),
    ("llama3", {"high_freq_factor": 5}, "ramp-high"),
    ("yarn", {"beta_fast": 8}, "ramp-fast"),
    ("yarn", {"beta_slow": 2}, "ramp-slow"),
    ("yarn", {"truncate": "false"}, "truncate"),
    ("llama3", {"low_freq_factor": 4, "high_freq_factor": 1}, "ramp-exchanged"),
    ("yarn", {"beta_fast": 1, "beta_slow": 32}, "ramp-exchanged"),
]
FORMULAS = [  # config, frequencies, finding code
    ("llama3", lambda: unscaled("llama3"), "scaling-ignored"),
    ("yarn", lambda: unscaled("yarn"), "scaling-ignored"),
    ("yarn", lambda: unscaled("yarn") / 4, "scaling-type"),
    ("yarn", lambda: blended("yarn", 1 - yarn_share()), "ramp-reversed"),
    ("llama3", lambda: blended("llama3", 1 - llama3_share()), "ramp-reversed"),
    ("yarn", lambda: blended("yarn", yarn_share(1 / (2 * math.pi))), "ramp-parentheses"),
    ("yarn", lambda: blended("yarn", yarn_share(1)), "ramp-parentheses"),
    ("default", lambda: 5e5 ** (-2 * PAIRS / (D - 2)), "exponent"),
    ("default", lambda: 5e5 ** (-2 * (PAIRS + 1) / D), "exponent"),
    ("default", lambda: 5e5 ** (-PAIRS / D), "exponent"),
    ("default", lambda: omega_of(SPECS["llama3"]), "scaling-added"),
    ("default", lambda: omega_of("rope:rho=5e5,scaling=ntk,factor=4"), "scaling-added"),
]


@pytest.mark.parametrize("form", ["halves", "cos twice"])
@pytest.mark.parametrize(("name", "changes", "code"), SETTINGS, ids=str)
def test_a_changed_setting_is_found_with_its_value(name, changes, code, form):
    """A changed setting is found with a value that gives the same frequencies.

    YaRN's ramp begins and ends at whole pairs, so several values of a setting may give them.
    """
    omega = omega_of(SPECS[name], **changes)
    found = compared(name, omega, form)
    assert found.verdict == "different"
    assert found.cause.misreadings == (code,)
    read = {key: pair[1] for key, pair in found.cause.changes.items()}
    assert read.keys() == changes.keys()
    if name != "yarn" or code in ("base", "factor"):
        for key, value in changes.items():
            assert read[key] == pytest.approx(value, rel=1e-4)
    text = {key: str(value).lower() for key, value in read.items()}
    np.testing.assert_allclose(omega_of(SPECS[name], **text), omega, rtol=1e-4)
    ratio, reported = (
        omega / omega_of(SPECS[name]),
        {pair.index: pair.ratio for pair in found.pairs},
    )
    for k in np.flatnonzero(abs(ratio - 1) > 1e-3) if form == "halves" else ():
        assert reported[k] == pytest.approx(ratio[k], rel=1e-2)


@pytest.mark.parametrize("form", ["halves", "cos twice"])
@pytest.mark.parametrize(("name", "make", "code"), FORMULAS)
def test_a_formula_gone_wrong_is_named(name, make, code, form):
    found = compared(name, make(), form)
    assert found.verdict == "different"
    equal = {"ramp-parentheses": ("original-length",)}.get(code, ())  # 4 pi^2 times as long
    assert found.cause.misreadings[0] in (code, *equal)


@pytest.mark.parametrize("name", SPECS)
def test_unexplained_differences_are_shown_by_pair(name, rng):
    omega, some = omega_of(SPECS[name]), rng.permutation(D // 2)[:7]
    omega[some] *= rng.uniform(1.1, 1.5, 7)
    found = compared(name, omega)
    assert (found.verdict, found.cause, found.causes) == ("different", None, ())
    seen = set(some[omega[some] * N > 0.01].tolist())
    assert seen <= {pair.index for pair in found.pairs} <= set(some.tolist())


@pytest.mark.parametrize("factor", [1.0, 0.5, 2.0])
def test_another_attention_factor_is_a_difference(factor):
    """A different attention factor makes two rotations different, not different in scale."""
    meant = load(SPECS["yarn"], N, D)
    found = compare(meant, dump(omega_of(SPECS["yarn"]), factor=factor))
    assert (found.verdict, found.unit, found.pairs) == ("different", "factors", ())
    assert found.cause.misreadings == ("mscale",)
    assert found.cause.changes["attention_factor"][1] == pytest.approx(factor, rel=1e-4)


@pytest.mark.parametrize(("rho", "divisor", "code"), [(1e4, D - 2, "exponent"), (5e4, D, "base")])
def test_additive_sinusoids_are_compared_pair_by_pair(rho, divisor, code):
    angles = np.outer(np.arange(N), rho ** (-2 * PAIRS / divisor))
    table = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(N, -1)
    found = compare(load("sinusoidal", N, D), from_table(table.astype(np.float32), eps=2.0**-23))
    assert (found.verdict, found.cause.misreadings) == ("different", (code,))
    assert len(found.pairs) == D // 2 - 1
