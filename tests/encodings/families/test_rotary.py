"""Rotary frequencies and factors of queries: closed forms, published values, public code."""

from unittest.mock import Mock

import mpmath as mp
import numpy as np
import pytest
import torch
from findings import codes
from numpy.testing import assert_allclose, assert_array_equal
from published_configs import sized
from refusals import refusal
from rotary_modules import config_class, modeling, quiet
from torch.testing import assert_close
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from pefourier.construction.operators import operator_at
from pefourier.encodings import build, load
from pefourier.encodings.families.absolute import temperature_in
from pefourier.encodings.families.rotary import SCALINGS, sums_of_frequencies
from pefourier.nn import PositionalEncoding, Rotary
from pefourier.questions.compare import compare
from pefourier.questions.context import describe_context
from pefourier.train.model import load_injection

LLAMA2 = "rope:scaling=yarn,factor=16,original=4096"
LLAMA31 = "rope:scaling=llama3,factor=8,original=8192,rho=5e5"


FACTORED = [
    ("rope", 1.0),
    (LLAMA2, 1.2772588722239782),
    (LLAMA2 + ",attention_factor=1.5", 1.5),
    # quotient of 0.1 m ln 16 + 1 for both m
    (LLAMA2 + ",mscale=2,mscale_all_dim=1", 1.5545177444479562 / 1.2772588722239782),
    # as in DeepSeek's source code: with only one m, or zero, neither has an effect
    (LLAMA2 + ",mscale=0.707,mscale_all_dim=0", 1.2772588722239782),
    (LLAMA2 + ",mscale_all_dim=0.707", 1.2772588722239782),
    ("rope:scaling=yarn,factor=0.5,original=64", 1.0),
]


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
@pytest.mark.parametrize(("spec", "factor"), FACTORED)
def test_vectors_are_cosines_and_sines_times_the_attention_factor(spec, factor, layout):
    typed = f"{spec}{',' if ':' in spec else ':'}layout={layout}"
    enc = load(typed, length=20, d=64)
    assert enc.params["attention_factor"] == pytest.approx(factor, rel=1e-12)
    assert enc.measure.squared_length == pytest.approx(32 * factor**2, rel=1e-12)
    phases = np.outer(np.arange(20), enc.measure.frequencies)
    waves = factor * np.stack([np.cos(phases), np.sin(phases)], axis=1 if layout == "halves" else 2)
    assert_allclose(enc.table(), waves.reshape(20, 64), atol=1e-13)


# Closed forms in 50 digits, written from the papers and the published code, not from the module


def grid(d, rho):
    return [mp.power(rho, -mp.mpf(2 * i) / d) for i in range(d // 2)]


def of_transformers(scaling, rho, own):
    """Return the frequencies that the function of transformers computes, in float32."""
    rope = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "rope_type": scaling} | own
    rope |= {"rope_theta": rho, "original_max_position_embeddings": own.get("original")}
    sizes = {"hidden_size": 64, "num_attention_heads": 1}
    sizes["max_position_embeddings"] = own.get("original", 3000)
    with quiet():
        config = config_class("llama")(**sizes, rope_parameters=rope)
        return ROPE_INIT_FUNCTIONS[scaling](config, "cpu", seq_len=3000)[0].numpy()


def clip_twin(d, rho, clipped=20, **_):
    n = min(clipped, d // 2)
    fade = [(1 + mp.cos(mp.pi * k / max(n - 1, 1))) / 2 for k in range(n)]
    return [t * f for t, f in zip(grid(d, rho), [1] * (d // 2 - n) + fade, strict=True)]


def riflex_twin(d, rho, factor, original, repeat, **_):
    theta = grid(d, rho)
    apart = [abs(2 * mp.pi / t - repeat) for t in theta]
    k = apart.index(min(apart))
    return [*theta[:k], min(theta[k], 2 * mp.pi / (original * mp.mpf(factor))), *theta[k + 1 :]]


TWINS = {
    "none": lambda d, rho, **_: grid(d, rho),
    "ntk": lambda d, rho, factor, **_: grid(d, rho * mp.mpf(factor) ** (mp.mpf(d) / (d - 2))),
    "cut": lambda d, rho, original, **_: [
        t if t * original >= 2 * mp.pi else mp.mpf(0) for t in grid(d, rho)
    ],
    "clip": clip_twin,
    "riflex": riflex_twin,
    "factors": lambda d, rho, factors, **_: [
        t / mp.mpf(f) for t, f in zip(grid(d, rho), factors, strict=True)
    ],
}
SHORT, LONG = (tuple(1 + i / 7 for i in range(32)), tuple(1 + i * i / 3 for i in range(32)))
LISTS = {"short_factor": SHORT, "long_factor": LONG}
CASES = [
    ("none", {}),
    ("cut", {"original": 512}),
    ("riflex", {"factor": 2.5, "original": 49, "repeat": 48}),
    ("riflex", {"factor": 1.0, "original": 4, "repeat": 900}),
    ("linear", {"factor": 3.7}),
    ("ntk", {"factor": 7.3}),
    ("dynamic", {"factor": 2.5, "original": 100}),
    ("dynamic", {"factor": 2.5, "original": 10_000}),
    ("yarn", {"factor": 40.0, "original": 4096, "truncate": False}),
    ("yarn", {"factor": 5.0, "original": 700, "beta_fast": 20.0, "beta_slow": 2.0}),
    ("yarn", {"factor": 5.0, "original": 3}),  # both limits below the first pair
    ("yarn", {"factor": 5.0, "original": 10**9}),  # the upper limit beyond the last pair
    ("yarn", {"factor": 5.0, "original": 7, "beta_fast": 9.0, "beta_slow": 2.0}),  # equal limits
    *(("longrope", {"factor": 32.0, "original": n, **LISTS}) for n in (100, 5000)),
    ("llama3", {"factor": 8.0, "original": 8192}),
    ("llama3", {"factor": 4.0, "original": 999, "low_freq_factor": 0.7, "high_freq_factor": 9.0}),
    ("llama3", {"factor": 4.0, "original": 999, "low_freq_factor": 1.0, "high_freq_factor": 1.0}),
    ("proportional", {"factor": 3.0}),
    ("clip", {}),
    ("clip", {"clipped": 99}),  # more pairs than the head has
    ("clip", {"clipped": 1}),
    ("factors", {"factors": LONG}),
]


@pytest.mark.parametrize("rho", [500.0, 1e6])
@pytest.mark.parametrize(("scaling", "own"), CASES)
def test_frequencies_are_those_of_transformers_or_of_the_formula_in_50_digits(scaling, own, rho):
    built = build("rope", length=3000, d=64, rho=rho, scaling=scaling, **own)
    if scaling in ROPE_INIT_FUNCTIONS:
        wanted, error = of_transformers(scaling, rho, own), 5e-6
    else:
        with mp.workdps(50):
            wanted, error = [float(x) for x in TWINS[scaling](64, mp.mpf(rho), **own)], 1e-13
    assert_allclose(built.measure.frequencies, wanted, rtol=error)


def test_every_scaling_has_a_twin_and_a_case():
    assert {*TWINS, *ROPE_INIT_FUNCTIONS} == set(SCALINGS) == {scaling for scaling, _ in CASES}


@pytest.mark.parametrize(("partial", "d", "over"), [(0.25, 96, 24), (0.4, 96, 38), (0.5, 90, 45)])
def test_partial_rotation_has_vectors_for_the_rotated_dimensions_only(partial, d, over):
    """An odd number of rotated dimensions is rounded up to pairs; exponents keep the odd number."""
    enc = load(f"rope:partial={partial}", length=9, d=d)
    pairs = (over + 1) // 2
    assert enc.dim == enc.table().shape[1] == enc.params["rotated"] == 2 * pairs
    assert enc.params["d"] == d
    wanted = 10000.0 ** (-2 * np.arange(pairs) / over)
    assert_allclose(enc.measure.frequencies, wanted, rtol=1e-14)


FOUND = [
    ("rope:scaling=linear,factor=1", []),
    ("rope:scaling=linear,factor=0.5", ["rope-factor warning"]),
    (LLAMA2 + ",beta_fast=1,beta_slow=2", ["rope-order warning"]),
    (LLAMA31 + ",low_freq_factor=4,high_freq_factor=2", ["rope-order warning"]),
    (
        "rope:scaling=longrope,factor=2,original=9,short_factor=1;1,long_factor=1;2",
        ["rope-long-factor note"],
    ),
]


@pytest.mark.parametrize(("spec", "findings"), FOUND)
def test_what_is_odd_is_found(spec, findings):
    found = load(spec, length=12, d=4).findings
    assert [f"{f.code} {f.severity}" for f in found] == findings


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
def test_xpos_is_the_formula(layout):
    enc = load(f"xpos:span=7,layout={layout}", length=12, d=6)
    i, s = np.arange(3), np.arange(12)[:, None]
    zeta, theta = (2 * i / 6 + 0.4) / 1.4, 10000.0 ** (-2 * i / 6)
    query = zeta ** (s / 7) * np.exp(1j * s * theta)
    parts = np.stack([query.real, query.imag], axis=1 if layout == "halves" else 2)
    assert_allclose(enc.table(), parts.reshape(12, 6), rtol=1e-12, atol=1e-15)
    assert not enc.measure.squared_length
    assert not load("xpos", length=2, d=4).vectors(np.array([10**6]))[:, [0, 2]].any()


GRID = 5e5 ** (-np.arange(8) / 8)  # inv_freq vectors as models and engines store them


@pytest.mark.usefixtures("folder")
def test_a_vector_of_frequencies_is_the_rotation_of_its_base(rng):
    np.savez("some.npz", a=GRID, b=np.eye(2), c=[1.0, np.nan])
    enc, known = load("rope:inv_freq=some.npz#a", 40), load("rope:rho=5e5", 40, 16)
    assert_array_equal(enc.table(), known.table())
    assert (enc.dim, enc.params["d"], enc.params["rho"]) == (16, 16, 5e5)
    assert enc.params["inv_freq"] == tuple(GRID.tolist())
    part = load("rope:inv_freq=some.npz#a,partial=0.25", 10, 128)
    assert (part.dim, part.params["d"], len(part.measure)) == (16, 64, 8)
    vector = rng.uniform(-3, 3, 5)
    enc = build("rope", length=7, inv_freq=vector, layout="interleaved")
    assert_allclose(enc.table()[:, 1::2], np.sin(np.outer(np.arange(7), vector)))
    assert enc.params["rho"] is None
    for wrong in ("#a,rho=500", "#c", "#d", "#b", "#a,partial=0", "#a,scaling=linear,factor=2"):
        with refusal(r"inv_freq|unknown array|partial"):
            load(f"rope:inv_freq=some.npz{wrong}", 9)


def test_scores_of_imaginary_heads_have_the_sine_of_the_lag(rng):
    """The score is minus the imaginary part of the complex sum whose real part is rope's score."""
    n, d = 9, 6
    q, k = rng.standard_normal((2, n, d))
    number = [x[:, : d // 2] + 1j * x[:, d // 2 :] for x in (q, k)]
    lags = np.subtract.outer(np.arange(n), np.arange(n))
    turns = np.exp(1j * lags[..., None] * 10000.0 ** (-2 * np.arange(d // 2) / d))
    expected = np.einsum("sm,tm,stm->st", number[0], number[1].conj(), turns).imag
    query, key = operator_at(load("rope++", n, d), np.arange(n))
    scores = np.einsum("sij,sj->si", query, q) @ np.einsum("sij,sj->si", key, k).T
    assert_allclose(scores, expected, atol=1e-12)


def test_pairs_are_sums_over_all_frequencies_with_torch_s_spread():
    d, n = 16, 9
    enc = load("fope:gain=0.4,seed=3,original=64", n, d)
    omega = 1e4 ** (-np.arange(8) / 8)
    omega[omega < 2 * np.pi / 64] = 0
    c, s = sums_of_frequencies(8, 0.4, 3)
    wanted = [
        [sum(matrix[k, m] * wave(p * omega[k]) for k in range(8)) for m in range(8)]
        for p in range(n)
        for wave, matrix in ((np.cos, c), (np.sin, s))
    ]
    assert_allclose(enc.table(), np.reshape(wanted, (n, d)), atol=1e-13)
    drawn = np.array([sums_of_frequencies(64, 0.3, seed) - np.eye(64) for seed in range(9)])
    theirs = torch.nn.init.xavier_normal_(torch.empty(512, 512), gain=0.3 * np.sqrt(512 / 64))
    assert drawn.std() == pytest.approx(float(theirs.std()), rel=0.02)


def test_without_gain_it_is_rope_with_a_floor():
    assert compare(load("fope:gain=0", 80, 64), load("rope:scaling=cut,original=512", 80, 64)).same
    _, found = describe_context("fope:gain=0", 512, d=64)
    assert (found.rotations[0].scaling, found.rotations[0].rotated) == ("cut", 16)


def test_energy_declared_is_that_of_the_columns():
    """Over many positions, the energy at a frequency is the share that is declared."""
    enc = load("fope:original=16,gain=0.5", 4096, 8)
    lines = np.unique(enc.measure.frequencies)
    waves = np.hstack([f(np.outer(np.arange(4096), lines)) for f in (np.cos, np.sin)])
    weights = np.linalg.lstsq(waves, enc.table(), rcond=None)[0].reshape(2, len(lines), 8)
    energy = (weights**2).sum(axis=(0, 2)) / np.where(lines == 0, 1, 2)
    declared = [enc.measure.weights[enc.measure.frequencies == w].sum() for w in lines]
    assert_allclose(energy / energy.sum(), declared, rtol=1e-12)


@pytest.mark.parametrize("spec", ["fope", "fope:gain=0"])
def test_the_layer_multiplies_as_the_table_says(spec):
    rotary, table = Rotary(spec, 16), load(spec, 24, 16).table()
    q = torch.randn(1, 2, 24, 16)
    cosine, sine = (torch.tensor(part, dtype=torch.float32) for part in np.hsplit(table, 2))
    a, b = q[..., :8], q[..., 8:]
    wanted = torch.cat([a * cosine - b * sine, b * cosine + a * sine], dim=-1)
    for turned in rotary.rotate(q, q):
        torch.testing.assert_close(turned, wanted, atol=2e-4, rtol=1e-4)


MINISTRAL = sized("ministral3", 32, 2, 32, num_hidden_layers=2, head_dim=16)
ROPE = {"rope_type": "default", "rope_theta": 1e4, "llama_4_scaling_beta": 0.1}
ROPE |= {"original_max_position_embeddings": 4}

GOLDEN = [  # settings, position, factor by the closed form in its comment
    ("llama4", 8190, 1.0),
    ("llama4", 8191, 1.06931472),
    ("llama4", 131071, 1.28332133),
    ("llama4,temperature_floor=4", 23, 1.19459101),  # 1 + .1 ln 7
    ("ministral3", 16383, 1.0),
    ("ministral3", 16384, 1.06931472),
    ("ministral3", 262143, 1.27725887),
    ("ministral3,temperature_floor=100", 299, 1.10986123),  # 1 + .1 ln 3
    ("inkling,temperature_floor=8192", 16383, 1.06931472),
    ("inkling", 255999, 1.06931472),
    ("log-n", 8191, 1.0),
    ("log-n", 32767, 1.15384615),  # 15/13
    ("log-n,temperature_floor=4", 15, 2.0),
]


@pytest.mark.parametrize("name", ["rope", "none"])
@pytest.mark.parametrize(("settings", "position", "factor"), GOLDEN)
def test_factors_are_the_published_ones(name, settings, position, factor):
    params = load(f"{name}:temperature={settings}", 4, 8).params
    found = temperature_in(params, position + 1)
    assert found.largest == pytest.approx(factor, abs=5e-9)
    assert found.at(np.array([position])) == pytest.approx(factor, abs=5e-9)


def test_queries_of_ministral_are_those_of_the_module(written, monkeypatch):
    with quiet():
        theirs = config_class("ministral3")(**{**MINISTRAL, "rope_parameters": dict(ROPE)})
        theirs._attn_implementation = "eager"
        code = modeling("transformers.models.ministral3.modeling_ministral3")
        attention = code.Ministral3Attention(theirs, 0)
        rotation = code.Ministral3RotaryEmbedding(theirs)
    torch.nn.init.eye_(attention.q_proj.weight)
    torch.nn.init.eye_(attention.k_proj.weight)
    x, ids = torch.randn(1, 20, 32), torch.arange(20)[None]
    seen = Mock(side_effect=lambda _, query, *__, **___: (query.transpose(1, 2), None))
    monkeypatch.setattr(code, "eager_attention_forward", seen)
    with torch.no_grad():
        attention(x, rotation(x, ids), None, position_ids=ids)
    _, queries, keys, *_ = seen.call_args.args
    rows = x.view(1, 20, 2, 16).transpose(1, 2)
    path = written(MINISTRAL | {"rope_parameters": ROPE, "num_key_value_heads": 2})
    spec = "rope:temperature=ministral3,temperature_floor=4"
    for rotary in (Rotary(path), Rotary(spec, 16)):
        for chosen in (None, ids):
            q, k = rotary.rotate(rows, rows, chosen)
            assert_close(q, queries, atol=1e-5, rtol=1e-5)
            assert_close(k[:, :1], keys[:, :1], atol=1e-5, rtol=1e-5)


@pytest.fixture
def pair(written):
    """Two configs of Ministral 3 that differ in the scale alone."""
    yarn = ROPE | {"rope_type": "yarn", "factor": 8.0}
    return [
        written(MINISTRAL | {"rope_parameters": yarn | {"llama_4_scaling_beta": scale}}, name)
        for name, scale in (("a.json", 0.1), ("b.json", 0.2))
    ]


def test_compare_sees_other_factors(pair):
    """Two configs with other temperatures were the same."""
    result = compare(*map(load, pair))
    assert (result.verdict, result.cause_codes) == ("different", "factors")
    assert [layer.index for layer in result.layers] == [(0, 1)]
    yarn = "rope:scaling=yarn,factor=8,original=4,"
    for scale, verdict in ((0.1, "the same"), (0.3, "different")):
        spec = f"{yarn}temperature=ministral3,temperature_floor=4,temperature_scale={scale}"
        assert compare(load(pair[0]), load(spec, 32, 16)).verdict == verdict


@pytest.mark.parametrize("name", ["rope", "none"])
def test_compare_of_names_is_right_at_both_sides_of_the_floor(name):
    spec = f"{name}:temperature=llama4,temperature_floor=16"
    near, far = (compare(load(name, n, 8), load(spec, n, 8)) for n in (15, 16))
    assert (near.verdict, far.verdict) == ("the same", "different")
    assert codes(near) == ["temperature-beyond"]
    assert far.unit == "query factors"


def test_what_cannot_multiply_queries_refuses():
    spec = "none:temperature=llama4,temperature_floor=8"
    with refusal("multiplies queries"):
        PositionalEncoding(spec, 8, 12)
    with refusal("multiplies queries of 12 tokens"):
        load_injection(spec, 12, 16, 2, 0)
    assert load_injection(spec, 7, 16, 2, 0).act == "add"
