"""Rotary frequencies by closed forms in 50 digits, published values, and the published code."""

import re

import mpmath as mp
import numpy as np
import pytest

from pefourier.encodings import load
from pefourier.encodings.registry import BUILDERS, build
from pefourier.errors import PefourierError

LLAMA2 = "rope:scaling=yarn,factor=16,original=4096"
LLAMA31 = "rope:scaling=llama3,factor=8,original=8192,rho=5e5"
LLAMA32 = "rope:scaling=llama3,factor=32,original=8192,rho=5e5"
QWEN = "rope:scaling=yarn,factor=4,original=32768,rho=1e6"
DYNAMIC = "rope:scaling=dynamic,factor=2,original=4096"

# float32 values of transformers 5.23: spec, length, d, {pair: frequency}
PUBLISHED = [
    (
        "rope",
        80,
        128,
        {1: 0.865964353, 16: 0.1, 32: 0.00999999978, 45: 0.00153992651, 63: 0.000115478193},
    ),
    (DYNAMIC, 8192, 128, {63: 3.849273e-05}),
    (DYNAMIC, 16384, 128, {63: 1.6496886e-05}),
    (
        LLAMA2,
        80,
        128,
        {24: 0.0270618014, 32: 0.00567307696, 45: 0.000151771645, 63: 7.21738706e-06},
    ),
    (QWEN, 80, 128, {32: 0.000602941145}),
    (
        LLAMA31,
        80,
        128,
        {
            29: 0.00216657063,
            30: 0.00137189368,
            31: 0.00085675146,
            32: 0.000524846022,
            35: 9.55621217e-05,
            63: 3.06892588e-07,
        },
    ),
    (LLAMA32, 80, 64, {16: 0.000429556705, 31: 9.41830649e-08}),
]


def frequencies(spec, d, length=80):
    return load(spec, length=length, d=d).measure.frequencies


@pytest.mark.parametrize(("spec", "length", "d", "table"), PUBLISHED)
def test_frequencies_are_the_published_ones(spec, length, d, table):
    own = frequencies(spec, d, length)
    np.testing.assert_allclose(own[list(table)], list(table.values()), rtol=2e-6)


@pytest.mark.parametrize(
    ("spec", "factor"),
    [
        ("rope", 1.0),
        (LLAMA2, 1.2772588722239782),
        (QWEN, 1.138629436111989),
        (LLAMA31, 1.0),
        (LLAMA2 + ",attention_factor=1.5", 1.5),
        # quotient of 0.1 m ln 16 + 1 for both m
        (LLAMA2 + ",mscale=2,mscale_all_dim=1", 1.5545177444479562 / 1.2772588722239782),
        (LLAMA2 + ",mscale=2", 1.2772588722239782),
        ("rope:scaling=yarn,factor=0.5,original=64", 1.0),
        ("rope:scaling=yarn,factor=0.5,original=64,mscale=2,mscale_all_dim=1", 1.0),
    ],
)
def test_attention_factor_is_reported_and_multiplies_the_codes(spec, factor):
    enc = load(spec, length=20, d=128)
    assert enc.params["attention_factor"] == pytest.approx(factor, rel=1e-12)
    squared = (enc.table() ** 2).sum(axis=1)
    np.testing.assert_allclose(squared, 64 * factor**2, rtol=1e-12)
    assert enc.measure.squared_length == pytest.approx(64 * factor**2, rel=1e-12)


# Closed forms in 50 digits, written from the papers and the published code, not from the module


def grid(d, rho, count=None):
    return [mp.power(rho, -mp.mpf(2 * i) / d) for i in range(count or d // 2)]


def ntk_twin(d, rho, length, factor):
    return grid(d, rho * mp.mpf(factor) ** (mp.mpf(d) / (d - 2)))


def dynamic_twin(d, rho, length, factor, original):
    ratio = mp.mpf(factor) * max(length, original) / original - (factor - 1)
    return grid(d, rho * ratio ** (mp.mpf(d) / (d - 2)))


def yarn_twin(d, rho, length, factor, original, beta_fast=32, beta_slow=1, truncate=True):
    low, high = (
        d * mp.log(original / (turns * 2 * mp.pi)) / (2 * mp.log(rho))
        for turns in (beta_fast, beta_slow)
    )
    if truncate:
        low, high = mp.floor(low), mp.ceil(high)
    low, high = max(low, 0), min(high, d - 1)
    high += mp.mpf("0.001") if low == high else 0
    ramp = [min(max((i - low) / (high - low), 0), 1) for i in range(d // 2)]
    return [t / factor * r + t * (1 - r) for t, r in zip(grid(d, rho), ramp, strict=True)]


def longrope_twin(d, rho, length, factor, original, short_factor, long_factor):
    own = long_factor if length > original else short_factor
    return [t / mp.mpf(f) for t, f in zip(grid(d, rho), own, strict=True)]


def llama3_twin(d, rho, length, factor, original, low_freq_factor=1, high_freq_factor=4):
    out = []
    for theta in grid(d, rho):
        wavelength = 2 * mp.pi / theta
        if wavelength > mp.mpf(original) / low_freq_factor:
            out.append(theta / factor)
        elif wavelength < mp.mpf(original) / high_freq_factor:
            out.append(theta)
        else:
            t = (original / wavelength - low_freq_factor) / (high_freq_factor - low_freq_factor)
            out.append((1 - t) * theta / factor + t * theta)
    return out


def cut_twin(d, rho, length, original):
    return [t if 2 * mp.pi / t <= original else mp.mpf(0) for t in grid(d, rho)]


def clip_twin(d, rho, length, clipped=20):
    found = grid(d, rho)
    n = min(clipped, len(found))
    fade = [(1 + mp.cos(mp.pi * k / max(n - 1, 1))) / 2 for k in range(n)]
    return found[: len(found) - n] + [t * f for t, f in zip(found[-n:], fade, strict=True)]


def riflex_twin(d, rho, length, factor, original, repeat):
    found = grid(d, rho)
    apart = [abs(2 * mp.pi / t - repeat) for t in found]
    k = apart.index(min(apart))
    found[k] = min(found[k], 2 * mp.pi / (original * mp.mpf(factor)))
    return found


TWINS = {
    "none": lambda d, rho, length: grid(d, rho),
    "linear": lambda d, rho, length, factor: [t / mp.mpf(factor) for t in grid(d, rho)],
    "ntk": ntk_twin,
    "dynamic": dynamic_twin,
    "yarn": yarn_twin,
    "longrope": longrope_twin,
    "llama3": llama3_twin,
    "proportional": lambda d, rho, length, factor=1: [t / mp.mpf(factor) for t in grid(d, rho)],
    "cut": cut_twin,
    "clip": clip_twin,
    "riflex": riflex_twin,
    "factors": lambda d, rho, length, factors: [
        t / mp.mpf(f) for t, f in zip(grid(d, rho), factors, strict=True)
    ],
}
FACTORS = {
    "short_factor": tuple(1 + i / 7 for i in range(32)),
    "long_factor": tuple(1 + i * i / 3 for i in range(32)),
}
CASES = [
    ("none", {}),
    ("linear", {"factor": 3.7}),
    ("ntk", {"factor": 7.3}),
    ("dynamic", {"factor": 2.5, "original": 100}),
    ("dynamic", {"factor": 2.5, "original": 10_000}),
    ("yarn", {"factor": 16.0, "original": 4096}),
    ("yarn", {"factor": 40.0, "original": 4096, "truncate": False}),
    ("yarn", {"factor": 5.0, "original": 700, "beta_fast": 20.0, "beta_slow": 2.0}),
    ("yarn", {"factor": 5.0, "original": 3}),  # both limits below the first pair
    ("yarn", {"factor": 5.0, "original": 10**9}),  # the upper limit beyond the last
    (
        "yarn",
        {"factor": 5.0, "original": 7, "beta_fast": 9.0, "beta_slow": 2.0},
    ),  # equal after rounding
    (
        "yarn",
        {"factor": 5.0, "original": 700, "beta_fast": 9.0, "beta_slow": 9.0, "truncate": False},
    ),
    ("longrope", {"factor": 32.0, "original": 100, **FACTORS}),
    ("longrope", {"factor": 32.0, "original": 5000, **FACTORS}),
    ("llama3", {"factor": 8.0, "original": 8192}),
    ("llama3", {"factor": 4.0, "original": 999, "low_freq_factor": 0.7, "high_freq_factor": 9.0}),
    ("llama3", {"factor": 4.0, "original": 999, "low_freq_factor": 9.0, "high_freq_factor": 0.7}),
    ("proportional", {"factor": 3.0}),
    ("cut", {"original": 512}),
    ("cut", {"original": 5}),
    ("clip", {}),
    ("clip", {"clipped": 7}),
    ("clip", {"clipped": 99}),  # more than there are
    ("clip", {"clipped": 1}),
    ("riflex", {"factor": 2.5, "original": 49, "repeat": 48}),
    ("riflex", {"factor": 1.0, "original": 4, "repeat": 900}),
    ("factors", {"factors": FACTORS["long_factor"]}),
]


@pytest.mark.parametrize("rho", [500.0, 10000.0, 1e6])
@pytest.mark.parametrize(("scaling", "own"), CASES)
def test_frequencies_are_those_of_the_formula_in_50_digits(scaling, own, rho):
    built = build("rope", length=3000, d=64, rho=rho, scaling=scaling, **own)
    with mp.workdps(50):
        wanted = [float(x) for x in TWINS[scaling](64, mp.mpf(rho), 3000, **own)]
    np.testing.assert_allclose(built.measure.frequencies, wanted, rtol=1e-13)


def test_every_scaling_has_a_twin_and_a_case():
    from pefourier.encodings.families.rotary import SCALINGS

    assert set(TWINS) == set(SCALINGS) == {scaling for scaling, _ in CASES}


def test_base_of_dynamic_is_the_published_one():
    base = frequencies(DYNAMIC, 128, 8192)[1] ** -64
    assert base == pytest.approx(30527.7367488067, rel=1e-12)
    assert frequencies(DYNAMIC, 128, 16384)[1] ** -64 == pytest.approx(72195.86008650938, rel=1e-12)


@pytest.mark.parametrize(
    ("spec", "d", "kept", "blended"), [(LLAMA31, 128, 29, 6), (LLAMA32, 64, 15, 3)]
)
def test_llama3_keeps_blends_and_scales_as_many_pairs_as_published(spec, d, kept, blended):
    share = frequencies(spec, d) / frequencies("rope:rho=5e5", d)
    factor = load(spec, d=d).params["factor"]
    assert (share > 1 - 1e-12).sum() == kept
    assert (share < (1 + 1e-12) / factor).sum() == d // 2 - kept - blended


@pytest.mark.parametrize(
    ("spec", "d", "low", "high"),
    [
        (LLAMA2, 128, 20, 46),
        (QWEN, 128, 23, 40),
        ("rope:scaling=yarn,factor=40,original=4096", 64, 10, 23),
    ],
)
def test_yarn_ramps_between_the_published_pairs(spec, d, low, high):
    enc = load(spec, d=d)
    share = enc.measure.frequencies / frequencies(f"rope:rho={enc.params['rho']}", d)
    ramp = (1 - share) / (1 - 1 / enc.params["factor"])
    expected = np.clip((np.arange(d // 2) - low) / (high - low), 0, 1)
    np.testing.assert_allclose(ramp, expected, atol=1e-12)


def test_identities_between_scalings():
    plain = frequencies("rope", 16)
    ones, threes = ";".join(["1"] * 8), ";".join(["3"] * 8)
    longrope = (
        f"rope:scaling=longrope,factor=3,original=50,short_factor={ones},long_factor={threes}"
    )
    np.testing.assert_array_equal(frequencies(longrope, 16, 50), plain)
    np.testing.assert_array_equal(frequencies(longrope, 16, 51), plain / 3)
    np.testing.assert_array_equal(frequencies("rope:scaling=linear,factor=3", 16), plain / 3)
    np.testing.assert_array_equal(
        frequencies("rope:scaling=yarn,factor=1,original=50", 16), plain * 1.0
    )
    ntk = frequencies("rope:scaling=ntk,factor=3", 16)
    np.testing.assert_allclose(ntk[[0, -1]], [1, plain[-1] / 3], rtol=1e-14)
    stretched = frequencies("rope:scaling=dynamic,factor=3,original=40", 16, 80)
    np.testing.assert_allclose(stretched, frequencies("rope:scaling=ntk,factor=4", 16), rtol=1e-14)


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
def test_codes_are_cosines_and_sines_times_the_attention_factor(layout):
    enc = load(f"rope:scaling=yarn,factor=4,original=16,layout={layout}", length=5, d=6)
    a, slow = enc.params["attention_factor"], np.zeros((5, 6))
    for s in range(5):
        for i, omega in enumerate(enc.measure.frequencies):
            cosine, sine = (i, i + 3) if layout == "halves" else (2 * i, 2 * i + 1)
            slow[s, cosine], slow[s, sine] = a * np.cos(s * omega), a * np.sin(s * omega)
    np.testing.assert_allclose(enc.table(), slow, atol=1e-15)


@pytest.mark.parametrize(
    ("partial", "columns", "grid_over"), [(0.25, 24, 24), (0.4, 38, 38), (0.5, 48, 48)]
)
def test_partial_rotation_has_codes_for_the_rotated_dimensions_only(partial, columns, grid_over):
    enc = load(f"rope:partial={partial}", length=9, d=96)
    assert enc.dim == enc.table().shape[1] == enc.params["rotated"] == columns
    assert enc.params["d"] == 96
    wanted = 10000.0 ** (-2 * np.arange(columns // 2) / grid_over)
    np.testing.assert_allclose(enc.measure.frequencies, wanted, rtol=1e-14)


def test_an_odd_share_is_rounded_up_to_pairs():
    enc = load("rope:partial=0.5", length=9, d=90)  # 45 dimensions: grid over 45, 23 pairs
    np.testing.assert_allclose(
        enc.measure.frequencies, 10000.0 ** (-2 * np.arange(23) / 45), rtol=1e-14
    )
    assert enc.dim == 46


@pytest.mark.parametrize(
    ("rho", "repeat", "k", "wavelength"),
    [(256.0, 48, 4, 50.27), (1e4, 20, 2, 19.87)],  # HunyuanVideo, CogVideoX: the authors' 4 and 2
)
def test_riflex_slows_the_published_pair(rho, repeat, k, wavelength):
    own = frequencies(f"rope:rho={rho}", 16)
    assert 2 * np.pi / own[k - 1] == pytest.approx(wavelength, abs=0.006)
    slowed = frequencies(f"rope:rho={rho},scaling=riflex,factor=2,original=64,repeat={repeat}", 16)
    assert np.flatnonzero(slowed != own).tolist() == [k - 1]
    assert 2 * np.pi / slowed[k - 1] == pytest.approx(128)


def test_cut_pairs_stand_still():
    enc = load("rope:scaling=cut,original=4096", length=9, d=128)
    assert (enc.measure.frequencies == 0).sum() == 18  # those that YaRN divides
    np.testing.assert_array_equal(enc.table()[:, 46:64], 1.0)


def test_clipped_rope_has_the_frequencies_of_its_authors_code():
    """Golden numbers of Llama 3, computed by torch."""
    own = load("rope:rho=5e5,scaling=clip", 9, 128).measure.frequencies
    golden = {44: 1.20769737e-4, 45: 9.77102144e-5, 53: 1.03269056e-5, 62: 2.05525485e-8}
    np.testing.assert_allclose(own[[*golden]], [*golden.values()], rtol=1e-6)
    assert own[63] == 0
    plain = load("rope:rho=5e5", 9, 128).measure.frequencies
    np.testing.assert_array_equal(own[:45], plain[:45])
    first = [np.cos(np.arange(23000)[:, None] * omega).sum(axis=1) < 0 for omega in (plain, own)]
    assert [int(below.argmax()) for below in first] == [18438, 22634]


def test_proportional_zeroes_the_lowest_frequencies_of_the_full_head():
    enc = load("rope:scaling=proportional,partial=0.75", length=9, d=16)
    wanted = np.append(10000.0 ** (-np.arange(6) / 8), [0.0, 0.0])
    np.testing.assert_allclose(enc.measure.frequencies, wanted, rtol=1e-14)
    table = enc.table()
    np.testing.assert_array_equal(table[:, [6, 7, 14, 15]], np.tile([1.0, 1.0, 0.0, 0.0], (9, 1)))
    lag = np.subtract.outer(np.arange(9), np.arange(9))
    inner = enc.measure.squared_length * enc.measure.kernel(lag.ravel()).reshape(9, 9)
    np.testing.assert_allclose(table @ table.T, inner, atol=1e-13)


def test_the_registry_reads_every_parameter_with_its_type():
    parameters = BUILDERS["rope"].parameters
    assert list(parameters)[:4] == ["rho", "layout", "partial", "scaling"]
    assert parameters["truncate"].annotation is bool
    assert parameters["original"].annotation is int
    assert {p.default for name, p in parameters.items() if name not in list(parameters)[:4]} == {
        None
    }
    enc = load(f"{LLAMA2},truncate=false", d=128)
    assert enc.params["truncate"] is False
    assert enc.params["beta_fast"] == 32.0
    assert enc.params["short_factor"] is None


LONG = "rope:scaling=longrope,factor=2,original=9,short_factor=1;1"


@pytest.mark.parametrize(
    ("spec", "d", "message"),
    [
        (
            "rope:factor=2",
            8,
            "scaling=none does not use factor=2.0; leave it out or choose scaling=linear or ntk or "
            "dynamic or yarn or longrope or llama3 or proportional or riflex",
        ),
        (
            "rope:scaling=linear,factor=2,original=64",
            8,
            "scaling=linear does not use original=64; leave it out or choose scaling=dynamic or "
            "yarn or longrope or llama3 or cut or riflex",
        ),
        ("rope:scaling=yarn,factor=2", 8, "scaling=yarn needs original; write original=…"),
        ("rope:scaling=linear", 8, "scaling=linear needs factor; write factor=…"),
        (
            "rope:scaling=linear,factor=0",
            8,
            "factor must be a finite number above 0; got 0.0",
        ),
        (
            "rope:scaling=yarn,factor=2,original=9,beta_slow=-1",
            8,
            "beta_slow must be a finite number above 0; got -1.0",
        ),
        (
            "rope:scaling=yarn,factor=2,original=0",
            8,
            "original must be a whole number from 1 on; got 0",
        ),
        (
            "rope:scaling=yarn,factor=2,original=9,rho=1",
            8,
            "rho must be a finite number above 1; got 1.0",
        ),
        (
            "rope:scaling=yarn,factor=2,original=9,attention_factor=-1",
            8,
            "attention_factor must be a finite number above 0; got -1.0",
        ),
        ("rope:rho=-3", 8, "rho must be a finite number above 0; got -3.0"),
        (
            f"{LONG},long_factor=1;2;3",
            4,
            "long_factor needs 2 numbers, one per rotated pair; got 3",
        ),
        (
            f"{LONG},long_factor=1;0",
            4,
            "long_factor must be a finite number above 0; got 0.0",
        ),
        (
            "rope:scaling=longrope,factor=2,original=1,short_factor=1,long_factor=1",
            2,
            "original must be a whole number from 2 on; got 1",
        ),
        (
            "rope:scaling=ntk,factor=2",
            2,
            "this scaling needs at least 4 rotated dimensions; got 2",
        ),
        (
            "rope:scaling=linear,factor=1e-320",
            4,
            "scaling=linear with {'factor': 1e-320} gives a frequency of inf; "
            "choose numbers nearer to 1",
        ),
        ("rope", 7, "rope turns pairs of dimensions and needs an even d; got d=7"),
        ("xpos", 7, "xpos turns pairs of dimensions and needs an even d; got d=7"),
        ("rope:partial=1.5", 8, "partial is the share of d to rotate, in (0, 1]; got 1.5"),
        ("rope:partial=0.2", 8, "partial=0.2 of d=8 leaves no pair of dimensions to rotate"),
        ("xpos:span=0", 8, "span must be a finite number above 0; got 0.0"),
    ],
)
def test_what_cannot_be_is_refused(spec, d, message):
    with pytest.raises(PefourierError, match=f"^{re.escape(message)}$"):
        load(spec, length=12, d=d)


def test_an_unknown_scaling_is_refused_in_python_too():
    message = (
        "unknown scaling 'yarm'. Did you mean 'yarn'? "
        "Known: clip, cut, dynamic, factors, linear, llama3, longrope, none, ntk, proportional, "
        "riflex, yarn."
    )
    with pytest.raises(PefourierError, match=f"^{re.escape(message)}$"):
        build("rope", scaling="yarm")


@pytest.mark.parametrize(
    ("spec", "findings"),
    [
        ("rope:scaling=linear,factor=1", []),
        (
            "rope:scaling=linear,factor=0.5",
            [
                (
                    "rope-factor",
                    "warning",
                    "factor=0.5 is below 1 and shortens the context; give its inverse",
                )
            ],
        ),
        (
            "rope:scaling=yarn,factor=2,original=9,beta_fast=1,beta_slow=2",
            [
                ("rope-order", "warning", "beta_fast=1 is below beta_slow=2; exchange the two"),
            ],
        ),
        (
            "rope:scaling=llama3,factor=2,original=9,low_freq_factor=4,high_freq_factor=2",
            [
                (
                    "rope-order",
                    "warning",
                    "high_freq_factor=2 is below low_freq_factor=4; exchange the two",
                )
            ],
        ),
        (
            f"{LONG},long_factor=1;2",
            [
                (
                    "rope-long-factor",
                    "note",
                    "12 positions are more than the 9 of training: long_factor is used, as the "
                    "model does; a smaller --length takes short_factor",
                )
            ],
        ),
    ],
)
def test_what_is_odd_is_found(spec, findings):
    enc = load(spec, length=12, d=4)
    assert [(f.code, f.severity, f.message) for f in enc.findings] == findings


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
def test_xpos_is_the_formula_and_its_products_with_keys_depend_on_the_lag(layout):
    enc = load(f"xpos:span=7,layout={layout}", length=12, d=6)
    i = np.arange(3)
    zeta = (2 * i / 6 + 0.4) / 1.4
    theta = 10000.0 ** (-2 * i / 6)
    s = np.arange(12)[:, None]
    query = zeta ** (s / 7) * np.exp(1j * s * theta)
    key = zeta ** (-s / 7) * np.exp(1j * s * theta)
    cosines, sines = (slice(0, 3), slice(3, 6)) if layout == "halves" else (slice(0, 6, 2),) * 2
    if layout == "interleaved":
        sines = slice(1, 6, 2)
    np.testing.assert_allclose(enc.table()[:, cosines], query.real, rtol=1e-13)
    np.testing.assert_allclose(enc.table()[:, sines], query.imag, rtol=1e-12, atol=1e-15)
    products = (query @ key.conj().T).real
    for lag in range(-11, 12):
        diagonal = np.diagonal(products, lag)
        np.testing.assert_allclose(diagonal, diagonal[0], rtol=1e-12)
    assert enc.measure.squared_length is None
    np.testing.assert_allclose(enc.measure.frequencies, theta, rtol=1e-15)


def test_decayed_codes_of_long_sequences_are_zero_and_not_wrong():
    code = load("xpos", length=2, d=4).codes(np.array([10**6]))
    np.testing.assert_array_equal(code[:, [0, 2]], 0.0)
    assert np.isfinite(code).all()


def test_llama3_without_a_band_between_steps_at_the_turns():
    """As Llama 4 has it, low_freq_factor = high_freq_factor = 1."""
    spec = (
        "rope:rho=5e5,scaling=llama3,factor=16,original=8192,low_freq_factor=1,high_freq_factor=1"
    )
    plain = load("rope:rho=5e5", length=3, d=128).measure.frequencies
    wanted = np.where(8192 * plain / (2 * np.pi) > 1, plain, plain / 16)
    np.testing.assert_array_equal(load(spec, length=3, d=128).measure.frequencies, wanted)


def test_a_base_whose_phases_no_number_holds_is_refused():
    """With rope_theta 1e-300 all positions were said to share one code."""
    with pytest.raises(PefourierError, match="whose phases no number holds; a base is 1 or more"):
        load("rope:rho=1e-300", 80, 64)
    assert len(load("rope:rho=0.5", 80, 64)) == 80


def test_polar_positions_are_those_of_x_transformers():
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip("x_transformers.x_transformers")
    n, d = 12, 8
    q, k = torch.randn(2, 1, 1, n, d, generator=torch.Generator().manual_seed(0))
    freqs, bias = theirs.PolarEmbedding(d, 1)(torch.arange(n))
    turned = [theirs.apply_polar_pos_emb(x, (freqs + bias[0, 0]).detach())[0, 0] for x in (q, k)]
    codes = load("pope", n, d).table().reshape(n, 2, d)
    own = [
        (np.logaddexp(0, x[0, 0].double().numpy())[:, None] * codes).reshape(n, -1) for x in (q, k)
    ]
    for one, other in zip(own, turned, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_scores_of_imaginary_heads_have_the_sine_of_the_lag():
    """-Im of the sum whose real part rope has, by complex numbers."""
    from pefourier.questions.operators import operator_at

    n, d = 9, 6
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((2, n, d))
    number = [x[:, : d // 2] + 1j * x[:, d // 2 :] for x in (q, k)]
    s = np.arange(n)[:, None, None]
    lag = np.exp(-1j * (s.transpose(1, 0, 2) - s) * 10000.0 ** (-2 * np.arange(d // 2) / d))
    # query s, key t: e^(iw(s - t)) = e^(-iw(t - s)), and Re(-i z) = Im z
    expected = np.einsum("sm,tm,stm->st", number[0], number[1].conj(), lag).imag
    query, key = operator_at(load("rope++", n, d), np.arange(n))
    ours = np.einsum("sij,sj->si", query, q) @ np.einsum("sij,sj->si", key, k).T
    np.testing.assert_allclose(ours, expected, atol=1e-12)
    kernel = np.einsum("sij,tij->st", query[:, :, :3], key[:, :, :3])  # of q = k = 1 in each plane
    np.testing.assert_allclose(kernel, np.sin(np.angle(lag)).sum(axis=2), atol=1e-12)


def test_commuting_planes_turn_as_the_code_of_grape_has_them(tmp_path):
    """y1 = x1 cos + x2 sin, y2 = x2 cos - x1 sin, by frequencies exp(log_freq) in a file."""
    from pefourier.questions.operators import compare_operators, operator_at

    frequencies = np.exp(np.random.default_rng(0).normal(-2, 1, 4))
    np.save(tmp_path / "freq.npy", frequencies)
    enc = load(f"grape:inv_freq={tmp_path / 'freq.npy'}", 12)
    x = np.random.default_rng(1).standard_normal(8)
    angle = 11 * frequencies
    wanted = [x[:4] * np.cos(angle) + x[4:] * np.sin(angle)]
    wanted += [x[4:] * np.cos(angle) - x[:4] * np.sin(angle)]
    query, _ = operator_at(enc, np.array([11]))
    np.testing.assert_allclose(query[0] @ x, np.concatenate(wanted), atol=1e-12)
    found = compare_operators(load("rope", 80, 8), load("grape", 80, 8))
    assert (found.relation, found.name) == ("permuted", "reversed")
