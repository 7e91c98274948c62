"""Factors of queries by position: published values, models' own attention, and who sees them."""

import numpy as np
import pytest
import torch
from refusals import refusal
from rotary_modules import config_class, modeling, quiet
from torch.testing import assert_close

from pefourier.encodings import load
from pefourier.encodings.families.absolute import temperature_in
from pefourier.nn import PositionalEncoding, Rotary
from pefourier.questions.compare import compare
from pefourier.train.model import load_injection

MINISTRAL = {"model_type": "ministral3", "hidden_size": 32, "num_attention_heads": 2}
MINISTRAL |= {"head_dim": 16, "num_hidden_layers": 2, "max_position_embeddings": 32}
ROPE = {"rope_type": "default", "rope_theta": 1e4, "llama_4_scaling_beta": 0.1}
ROPE |= {"original_max_position_embeddings": 4}

GOLDEN = [  # settings, position, factor by the closed form in its comment
    ("llama4", 8190, 1.0),
    ("llama4", 8191, 1.06931472),
    ("llama4", 131071, 1.28332133),
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


def queries_in_attention(attention, monkeypatch, code, *rest, **options):
    """The queries that a model's attention hands to the softmax."""
    seen = []

    def catch(_module, query, key, *_args, **_options):
        seen.append((query, key))
        return query.transpose(1, 2), None

    monkeypatch.setattr(code, "eager_attention_forward", catch)
    with torch.no_grad():
        attention(*rest, **options)
    return seen[0]


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
    queries, keys = queries_in_attention(
        attention, monkeypatch, code, x, rotation(x, ids), None, position_ids=ids
    )
    rows = x.view(1, 20, 2, 16).transpose(1, 2)
    path = written(MINISTRAL | {"rope_parameters": ROPE, "num_key_value_heads": 2})
    spec = "rope:temperature=ministral3,temperature_floor=4"
    for rotary in (Rotary(path), Rotary(spec, 16)):
        for chosen in (None, ids):
            q, k = rotary.rotate(rows, rows, chosen)
            assert_close(q, queries, atol=1e-5, rtol=1e-5)
            assert_close(k[:, :1], keys[:, :1], atol=1e-5, rtol=1e-5)


def test_queries_of_llama4_without_positions_have_the_factor_of_none(monkeypatch):
    with quiet():
        theirs = config_class("llama4_text")(
            hidden_size=32, num_attention_heads=2, num_key_value_heads=2, head_dim=16,
            num_hidden_layers=4, floor_scale=4, no_rope_layers=[0, 0, 0, 0],
        )  # fmt: skip
        theirs._attn_implementation = "eager"
        code = modeling("transformers.models.llama4.modeling_llama4")
        attention = code.Llama4TextAttention(theirs, 0)
    torch.nn.init.eye_(attention.q_proj.weight)
    x = torch.randn(1, 20, 32)
    queries, _ = queries_in_attention(attention, monkeypatch, code, x, None, None)
    params = load("none:temperature=llama4,temperature_floor=4", 20, 16).params
    factors = temperature_in(params, 20).at(np.arange(20))
    wanted = (
        x.view(1, 20, 2, 16).transpose(1, 2) * torch.tensor(factors, dtype=torch.float32)[:, None]
    )
    assert_close(queries, wanted, atol=1e-5, rtol=1e-5)


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
    assert [f.code for f in near.findings] == ["temperature-beyond"]
    assert far.unit == "query factors"


def test_what_cannot_multiply_queries_refuses():
    spec = "none:temperature=llama4,temperature_floor=8"
    with refusal("multiplies queries"):
        PositionalEncoding(spec, 8, 12)
    with refusal("multiplies queries of 12 tokens"):
        load_injection(spec, 12, 16, 2, 0)
    assert load_injection(spec, 7, 16, 2, 0).act == "add"
