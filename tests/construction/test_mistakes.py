"""Mistakes of rotations are named with their numbers, and only if they give every observed one."""

import json
import math

import numpy as np
import pytest

from pefourier.construction.waves import fit
from pefourier.encodings import load
from pefourier.encodings.encoding import from_table
from pefourier.geometry.precision import FORMATS, rounded
from pefourier.questions.compare import compare

N, D, WIDE = 600, 32, 64
EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def loaded(settings):
    return load("rope:" + ",".join(f"{k}={v}" for k, v in settings.items()), N)


def omega_of(settings):
    return loaded(settings).measure.frequencies


def stored(angles, form="float32", columns="halves", factor=1.0):
    """Return a table of cosines and sines, of one of both, or of angles, rounded to a format."""
    cos, sin = factor * np.cos(angles), factor * np.sin(angles)
    table = {
        "halves": lambda: np.hstack([cos, sin]),
        "neighbours": lambda: np.stack([cos, sin], axis=-1).reshape(len(cos), -1),
        "both twice": lambda: np.hstack([cos, cos, sin, sin]),
        "cos twice": lambda: np.hstack([cos, cos]),
        "sin once": lambda: sin,
        "angles": lambda: angles,
    }[columns]()
    table = table if form == "float64" else rounded(table, FORMATS[form])
    return from_table(table, eps=EPS[form])


NUMBERED = ("step", "positions-divided", "base", "factor", "scaling-ignored")
COLUMNS = ("halves", "neighbours", "both twice", "cos twice", "sin once", "angles")


def drawn(rng):
    """Draw the settings of a rotation."""
    base = {"d": D, "rho": float(rng.choice([1e4, 1e5, 5e5, 1e6]))}
    kind = rng.choice(["none", "linear", "ntk", "yarn", "llama3"])
    if kind == "none":
        return base
    base |= {"scaling": kind, "factor": float(rng.choice([2, 4, 8]))}
    return base | ({"original": 128} if kind in ("yarn", "llama3") else {})


def planted(rng, settings):
    """Plant one mistake of each kind that applies: code, frequencies, angles made of them."""
    omega, places = omega_of(settings), np.arange(N)
    plain = omega_of({"d": D, "rho": settings["rho"]})
    step = float(rng.choice([2.0, 3.0, 1.5]))
    mistakes = {
        "step": np.outer(step * places, omega),
        "reversed": np.outer(-places, omega),
        "degrees": np.outer(places, omega * rng.choice([np.pi / 180, 180 / np.pi])),
        "single-pair": np.outer(places, np.where(np.arange(D // 2) == 5, 1.01, 1) * omega),
        "positions-divided": np.outer(places // 2, omega),
        "base": np.outer(places, omega_of(settings | {"rho": 3 * settings["rho"]})),
        "bfloat16-frequencies": np.outer(places, rounded(omega, FORMATS["bfloat16"])),
    }
    if settings.get("scaling", "none") != "none":
        mistakes["scaling-ignored"] = np.outer(places, plain)
        mistakes["factor"] = np.outer(places, omega_of(settings | {"factor": 5.0}))
    for name in ("bfloat16", "float16"):
        narrow = FORMATS[name]
        angles = np.outer(rounded(places.astype(float), narrow), rounded(omega, narrow))
        mistakes[f"{name}-angles"] = rounded(angles, narrow)
    return mistakes


def is_reproduced(found, settings, angles):
    """Whether the reported changes give the planted angles, by their own arithmetic."""
    (reading,) = found.causes
    omega, places = omega_of(settings), np.arange(N)
    changes = {k: v[1] for k, v in reading.changes.items()}
    if reading.code == "step":
        a, b = changes["positions"].replace("p / ", "1/").replace(" p", "").split("/")[:1] * 2
        places = places / float(a[2:]) if a.startswith("1/") else places * float(b)
    elif reading.code == "positions-divided":
        places = places // 2
    elif set(changes) & {"rho", "factor", "scaling"}:
        keys = settings if "scaling" not in changes else {"d": D, "rho": settings["rho"]}
        omega = omega_of({**keys, **{k: v for k, v in changes.items() if k in keys}})
    else:
        return False
    return np.abs(np.exp(1j * np.outer(places, omega)) - np.exp(1j * angles)).max() < 2e-3


@pytest.mark.parametrize(
    "seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(6, 60))]
)
def test_law_each_mistake_alone_is_named_and_reproduces(seed):
    rng = np.random.default_rng(seed)
    settings = drawn(rng)
    meant = loaded(settings)
    factor = meant.params["attention_factor"]
    for code, angles in planted(rng, settings).items():
        whole = code in ("reversed", "degrees", "float16-angles", "bfloat16-angles")
        columns = "halves" if whole else str(rng.choice(COLUMNS))
        table = stored(angles, columns=columns, factor=factor)
        for pair, side in (((meant, table), "first"), ((table, meant), "second")):
            found = compare(*pair)
            verdict = "equivalent" if code == "reversed" else "different"  # by signs of sines
            assert found.verdict == verdict, (settings, code, columns)
            assert found.causes or found.cause, (settings, code, columns)
            codes = [cause.code for cause in found.causes] or list(found.cause.misreadings)
            equal = {"scaling-ignored": "step"} if settings.get("scaling") == "linear" else {}
            assert codes in ([code], [equal.get(code)]) or len(found.causes) == 1
            assert (
                code not in NUMBERED or not found.causes or is_reproduced(found, settings, angles)
            )
            assert found.expected == side or not found.causes
            assert found.explained == 1.0 or found.positions


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("form", EPS)
@pytest.mark.parametrize("seed", range(3))
def test_right_dumps_of_every_format_are_the_same(seed, form, columns):
    if columns == "angles" and "16" in form:
        return  # angles of 16 bits are a mistake
    settings = drawn(np.random.default_rng(seed))
    meant = loaded(settings)
    angles = np.outer(np.arange(N), meant.measure.frequencies)
    table = stored(angles, form, columns, meant.params["attention_factor"])
    for pair in ((meant, table), (table, meant)):
        found = compare(*pair)
        assert (found.same, found.causes, found.cause, found.pairs) == (True, (), None, ())
        alone = {"cos twice": ("cosines",), "sin once": ("sines",)}
        assert found.compared == alone.get(columns, ("codes", "rotations", "factors"))


@pytest.mark.parametrize("seed", range(6))
def test_random_damage_has_no_cause_and_a_first_difference(seed):
    rng = np.random.default_rng(seed)
    meant = load("rope:d=32", N)
    table = stored(np.outer(np.arange(N), meant.measure.frequencies)).table()
    rows = rng.choice(N, N // 3, replace=False)
    damaged = [table + 1e-2 * rng.normal(size=table.shape), table.copy()]
    damaged[1][np.sort(rows)] = table[rows]
    for numbers in damaged:
        found = compare(meant, from_table(numbers, eps=2.0**-23))
        assert (found.verdict, found.causes, found.cause) == ("different", (), None)


def test_a_config_without_its_scaling_is_a_scaling_left_out_not_positions(written):
    """A table that equals the config without a key lacks that key; the table is not accused."""
    config = {"model_type": "llama", "hidden_size": 256, "num_attention_heads": 8, "head_dim": 32}
    config |= {"num_hidden_layers": 2, "rope_scaling": {"rope_type": "linear", "factor": 4.0}}
    meant = load(written(config, "config.json"), 256)
    table = stored(np.outer(np.arange(256), 1e4 ** (-np.arange(16) / 16)))
    for pair in ((meant, table), (table, meant)):
        found = compare(*pair)
        assert found.cause.misreadings == ("scaling-ignored",)
        assert "positions" not in json.dumps(found.to_dict()["cause"])


@pytest.mark.parametrize("form", ["float16", "bfloat16"])
def test_a_file_of_cosines_is_compared_with_cosines(form):
    """Angles rounded to 16 bits: the difference is that of cosines, and none is at position 0."""
    meant, narrow = load("rope:d=32", 2048), FORMATS[form]
    omega, places = meant.measure.frequencies, np.arange(2048.0)
    angles = rounded(np.outer(rounded(places, narrow), rounded(omega, narrow)), narrow)
    found = compare(meant, stored(angles, form, "cos twice"))
    if found.cause is not None:
        assert found.cause.misreadings == (f"{form}-angles",)
    worst = np.abs(rounded(np.cos(angles), narrow) - np.cos(np.outer(places, omega))).max()
    assert found.max_difference == pytest.approx(worst, rel=1e-6)
    assert found.first_difference is None
    both = compare(meant, stored(angles, form))
    assert both.cause.misreadings == (f"{form}-angles",)
    assert all(pair.second is None for pair in both.pairs)


@pytest.mark.parametrize("by", [-4880, -17, 40, 500])
def test_sinusoids_that_begin_elsewhere_are_an_offset(by):
    omega = 1e4 ** (-np.arange(32) / 32)
    for places in (np.arange(120), np.arange(119, -1, -1)):
        first, second = (np.outer(places + shift, omega) for shift in (0, by))
        found = compare(*(stored(angles, columns="neighbours") for angles in (first, second)))
        later = by if places[0] == 0 else -by  # rows later in the first
        assert (found.verdict, found.transform) == ("equivalent", {"offset": later})
        assert [(cause.code, cause.by) for cause in found.causes] == [("shifted", later)]


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(4, 40))]
)
def test_law_two_mistakes_are_named_both_or_not_at_all(seed):
    """What is named reproduces the frequencies; a single mistake is never the whole truth."""
    rng = np.random.default_rng(seed)
    settings = {"d": D, "rho": 5e5, "scaling": "llama3", "factor": 8.0, "original": 128}
    meant, places = loaded(settings), np.arange(N)
    other = float(rng.choice([7e4, 1e4, 3e6]))
    cases = {
        ("scaling-ignored", "base"): omega_of({"d": D, "rho": other}),
        ("base", "factor"): omega_of(settings | {"rho": other, "factor": 3.0}),
        ("factor", "original-length"): omega_of(settings | {"factor": 3.0, "original": 500}),
        ("base", "step"): 2 * omega_of(settings | {"rho": other}),
    }
    for codes, omega in cases.items():
        found = compare(meant, stored(np.outer(places, omega)))
        if not found.causes:
            assert (found.cause, found.first is not None) == (None, True)
            continue
        assert found.cause.misreadings == codes
        read = {k: v[1] for k, v in found.cause.changes.items()}
        speed = float(read.pop("positions", "1 p").split()[0])
        read = {"d": D, "rho": read["rho"]} if codes[0] == "scaling-ignored" else settings | read
        np.testing.assert_allclose(speed * omega_of(read), omega, rtol=1e-4)
    for codes in (("scaling-ignored", "base"), ("base", "step")):
        assert compare(meant, stored(np.outer(places, cases[codes]))).causes


ROWS = {  # positions by row, and whether their cause is one
    "reversed": (np.arange(N)[::-1], True),
    "reversed, from 5 on": (np.arange(5, N + 5)[::-1], True),
    "divided": (np.arange(N) // 3, True),
    "restarted": (np.arange(N) % 400, True),
    "divided, then restarted": (np.arange(240).repeat(2)[np.arange(N) % 480], False),
    "divided from the end": (N // 2 - (np.arange(N) + 1) // 2, False),
    "divided, with a gap": (np.r_[:100, 110:400].repeat(2)[:N], False),
    "restarted backwards": (np.r_[399:-1:-1, 399:199:-1], False),
}


def moved_by(causes):
    """Apply the causes of rows, in their order, to positions."""
    places = index = np.arange(N)
    for cause in causes:
        if cause.code == "gap":
            places = places + cause.by * (index >= cause.at)
        elif cause.code == "restarted":
            places = np.r_[places[: cause.at], places[: N - cause.at]]
        elif cause.code == "reversed":
            places = places[::-1]
        elif cause.code in ("divided", "positions-divided"):
            places = places // (cause.by if cause.code == "divided" else cause.divisor)
        elif cause.step == "positions":
            places = places + cause.by
    return places


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("base", [5e5, 1e4])
@pytest.mark.parametrize("form", ["float32", "bfloat16"])
def test_another_base_and_other_rows_are_named_together_or_not_at_all(name, base, form):
    places, is_named = ROWS[name]
    first, second = (
        stored(np.outer(p, omega_of({"d": D, "rho": rho})), form)
        for p, rho in ((np.arange(N), 5e5), (places, base))
    )
    for meant in (loaded({"d": D, "rho": 5e5}), first):
        causes = compare(meant, second).causes
        assert causes or not is_named
        if causes:
            np.testing.assert_array_equal(moved_by(causes), places)
            changed = [cause.changes for cause in causes if cause.code == "base"]
            assert changed == [{"rho": (5e5, 1e4)}] * (base != 5e5)


def test_a_pair_at_rest_besides_another_base_has_no_cause():
    omega = omega_of({"d": D, "rho": 7e4})
    omega[0] = 0
    assert compare(loaded({"d": D}), stored(np.outer(np.arange(N), omega))).causes == ()


def test_small_angles_are_no_sines_of_the_same_rotation():
    """Angles of radians taken for degrees stay below 1; no amplitude makes them sines."""
    meant = loaded({"d": D, "scaling": "linear", "factor": 8})
    angles = np.outer(np.arange(N), meant.measure.frequencies * np.pi / 180)
    assert not compare(meant, stored(angles, columns="angles")).same


def test_frequencies_of_almost_zero_are_compared_without_a_division_by_zero(tmp_path):
    np.save(tmp_path / "w.npy", np.full(D // 2, 6.93e-18))  # float16 rounds them to 0
    unset = load(f"rope:inv_freq={tmp_path / 'w.npy'}", N)
    assert compare(loaded({"d": D}), unset).verdict == "different"


PAIRS = np.arange(WIDE // 2)
PLAIN = {"d": WIDE, "rho": 5e5}
SPECS = {
    "default": PLAIN,
    "wide": PLAIN | {"rho": 1e8},
    "llama3": PLAIN | {"scaling": "llama3", "factor": 8, "original": 512},
    "yarn": PLAIN | {"rho": 1e6, "scaling": "yarn", "factor": 4, "original": 512},
}


@pytest.mark.parametrize("wave", [np.cos, np.sin])
def test_one_column_out_of_step_hides_no_other(wave):
    table = wave(np.outer(np.arange(64), 100.0 ** (-np.arange(8) / 8)))
    table[40:, 3] = 0.0
    assert (fit(table, 2.0**-52).even == (np.arange(8) != 3)).all()


def compared_as(name, omega, form="halves"):
    """Compare the intended rotation with a dump of frequencies that has its attention factor."""
    meant, angles = loaded(SPECS[name]), np.outer(np.arange(N), omega)
    return compare(meant, stored(angles, columns=form, factor=meant.params["attention_factor"]))


def unscaled(name):
    return omega_of(PLAIN | {"rho": SPECS[name]["rho"]})


def blended(name, divided):
    """Return frequencies of which the share `divided` is divided by the factor."""
    theta, factor = unscaled(name), {"llama3": 8, "yarn": 4}[name]
    return theta / factor * divided + theta * (1 - divided)


def yarn_share(around=2 * math.pi):
    """Return YaRN's ramp; `around` replaces the 2π by which original / beta is divided."""
    low, high = (WIDE * math.log(512 / (n * around)) / (2 * math.log(1e6)) for n in (32, 1))
    low, high = max(math.floor(low), 0), min(math.ceil(high), WIDE - 1)
    return np.clip((PAIRS - low) / (high - low), 0, 1)


def llama3_share():
    return 1 - np.clip((512 * unscaled("llama3") / (2 * math.pi) - 1) / 3, 0, 1)


SETTINGS = [  # config, changed settings, finding code
    ("default", {"rho": 1e4}, "base"),
    ("wide", {"rho": 1e4}, "base"),
    ("llama3", {"original": 1024}, "original-length"),
    ("yarn", {"original": 2048}, "original-length"),
    ("llama3", {"low_freq_factor": 2}, "ramp-low"),
    ("llama3", {"high_freq_factor": 8}, "ramp-high"),
    ("yarn", {"beta_fast": 8}, "ramp-fast"),
    ("yarn", {"beta_slow": 2}, "ramp-slow"),
    ("yarn", {"truncate": "false"}, "truncate"),
    ("llama3", {"low_freq_factor": 4, "high_freq_factor": 1}, "ramp-exchanged"),
    ("yarn", {"beta_fast": 1, "beta_slow": 32}, "ramp-exchanged"),
]
FORMULAS = [  # config, frequencies, finding code
    ("yarn", lambda: unscaled("yarn") / 4, "scaling-type"),
    ("yarn", lambda: blended("yarn", 1 - yarn_share()), "ramp-reversed"),
    ("llama3", lambda: blended("llama3", 1 - llama3_share()), "ramp-reversed"),
    ("yarn", lambda: blended("yarn", yarn_share(1 / (2 * math.pi))), "ramp-parentheses"),
    ("yarn", lambda: blended("yarn", yarn_share(1)), "ramp-parentheses"),
    ("default", lambda: 5e5 ** (-2 * PAIRS / (WIDE - 2)), "exponent"),
    ("default", lambda: 5e5 ** (-2 * (PAIRS + 1) / WIDE), "exponent"),
    ("default", lambda: 5e5 ** (-PAIRS / WIDE), "exponent"),
    ("default", lambda: omega_of(SPECS["llama3"]), "scaling-added"),
    ("default", lambda: omega_of(PLAIN | {"scaling": "ntk", "factor": 4}), "scaling-added"),
]


@pytest.mark.parametrize("form", ["halves", "cos twice"])
@pytest.mark.parametrize(("name", "changes", "code"), SETTINGS, ids=str)
def test_a_changed_setting_is_found_with_its_value(name, changes, code, form):
    """A changed setting is found with a value that gives the same frequencies.

    YaRN's ramp begins and ends at whole pairs, so several values of a setting may give them.
    """
    omega = omega_of(SPECS[name] | changes)
    found = compared_as(name, omega, form)
    assert found.verdict == "different"
    assert found.cause.misreadings == (code,)
    read = {key: pair[1] for key, pair in found.cause.changes.items()}
    assert read.keys() == changes.keys()
    if name != "yarn" or code == "base":
        for key, value in changes.items():
            assert read[key] == pytest.approx(value, rel=1e-4)
    text = {key: str(value).lower() for key, value in read.items()}
    np.testing.assert_allclose(omega_of(SPECS[name] | text), omega, rtol=1e-4)
    ratio = omega / omega_of(SPECS[name])
    reported = {pair.index: pair.ratio for pair in found.pairs}
    for k in np.flatnonzero(abs(ratio - 1) > 1e-3) if form == "halves" else ():
        assert reported[k] == pytest.approx(ratio[k], rel=1e-2)


@pytest.mark.parametrize("form", ["halves", "cos twice"])
@pytest.mark.parametrize(("name", "make", "code"), FORMULAS)
def test_a_formula_gone_wrong_is_named(name, make, code, form):
    found = compared_as(name, make(), form)
    assert found.verdict == "different"
    equal = {"ramp-parentheses": ("original-length",)}.get(code, ())  # 4 pi^2 times as long
    assert found.cause.misreadings[0] in (code, *equal)


@pytest.mark.parametrize("name", SPECS)
def test_unexplained_differences_are_shown_by_pair(name, rng):
    omega, some = omega_of(SPECS[name]), rng.permutation(WIDE // 2)[:7]
    omega[some] *= rng.uniform(1.1, 1.5, 7)
    found = compared_as(name, omega)
    assert (found.verdict, found.cause, found.causes) == ("different", None, ())
    seen = set(some[omega[some] * N > 0.01].tolist())
    assert seen <= {pair.index for pair in found.pairs} <= set(some.tolist())
