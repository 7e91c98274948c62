"""Which rows of a head a model type turns together, by the functions of transformers themselves.

A function is run on unit vectors, the query at position 1 and the key at 0: what scores beside a
row itself is its partner. Cosines and sines are made here, in the form that each function takes.
"""

import pytest
from rotary_modules import TYPES, config_class, modeling, quiet, torch

from pefourier.encodings.sources.config import type_row
from pefourier.encodings.specs import open_model

D = 16
ANGLES = torch.outer(torch.arange(2.0), 10.0 ** -torch.arange(D // 2))
TWICE = torch.cat([ANGLES, ANGLES], dim=-1)
BESIDE = ANGLES.repeat_interleave(2, dim=-1)
COMPLEX = torch.polar(torch.ones_like(ANGLES), ANGLES)


def by_waves(angles, heads_at=1):
    """Functions of (q, k, cos, sin), waves (batch, n, d) as their rotary modules give them."""

    def turn(function, x):
        cos, sin = angles.cos()[None], angles.sin()[None]
        return function(x, x, cos, sin, unsqueeze_dim=heads_at)[0]

    return turn


def by_turns(function, x):
    """Functions of (q, k, freqs_cis), heads behind positions."""
    return function(x.transpose(1, 2), x.transpose(1, 2), COMPLEX[None])[0].transpose(1, 2)


def by_sines_first(function, x):
    """GPT-J and CodeGen: (tensor, sin, cos), each wave once, heads behind positions."""
    sin, cos = ANGLES.sin()[None], ANGLES.cos()[None]
    return function(x.transpose(1, 2), sin, cos).transpose(1, 2)


def by_complex_heads_first(function, x):
    return function(x, x, COMPLEX[None])[0]


FUNCTIONS = {  # model type: the function that its attention calls, and how
    "llama": ("apply_rotary_pos_emb", by_waves(TWICE), "halves"),
    "qwen3": ("apply_rotary_pos_emb", by_waves(TWICE), "halves"),
    "gpt_neox": ("apply_rotary_pos_emb", by_waves(TWICE), "halves"),
    "phi3": ("apply_rotary_pos_emb", by_waves(TWICE), "halves"),
    "gemma2": ("apply_rotary_pos_emb", by_waves(TWICE), "halves"),
    "gptj": ("apply_rotary_pos_emb", by_sines_first, "neighbours"),
    "codegen": ("apply_rotary_pos_emb", by_sines_first, "neighbours"),
    "cohere": ("apply_rotary_pos_emb", by_waves(BESIDE), "neighbours"),
    "cohere2": ("apply_rotary_pos_emb", by_waves(BESIDE), "neighbours"),
    "glm": ("apply_rotary_pos_emb", by_waves(TWICE), "neighbours"),
    "glm4": ("apply_rotary_pos_emb", by_waves(TWICE), "neighbours"),
    "ernie4_5": ("apply_rotary_pos_emb", by_waves(TWICE), "neighbours"),
    "helium": ("apply_rotary_pos_emb", by_waves(TWICE), "neighbours"),
    "moonshine": ("apply_rotary_pos_emb", by_waves(TWICE), "neighbours"),
    "deepseek_v2": ("apply_rotary_emb", by_complex_heads_first, "neighbours"),
    "deepseek_v3": ("apply_rotary_pos_emb_interleave", by_waves(TWICE), "neighbours"),
    "llama4_text": ("apply_rotary_emb", by_turns, "neighbours"),
}


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_the_pairing_of_a_model_type_is_that_of_its_function(kind, config):
    name, turn, wanted = FUNCTIONS[kind]
    with quiet():
        function = getattr(modeling(config_class(kind).__module__), name)
    units = torch.eye(D)[:, None, None].expand(D, 1, 2, D)  # (batch, heads, positions, d)
    turned = turn(function, units.clone())[:, 0]
    scores = (turned[:, 1] @ turned[:, 0].T)[0]
    (partner,) = [j for j in range(1, D) if abs(scores[j]) > 1e-6]
    assert {1: "neighbours", D // 2: "halves"}[partner] == wanted
    assert open_model(config({"model_type": kind})).pairing == wanted


def test_a_switch_of_the_config_decides(config):
    for switch, wanted in ((True, "neighbours"), (False, "halves")):
        model = open_model(config({"model_type": "deepseek_v3", "rope_interleave": switch}))
        assert model.pairing == wanted


def test_every_type_that_rotates_on_a_line_has_a_pairing(config):
    kinds = [kind for kind in TYPES if type_row(kind)["kind"] == "rotary"]
    found = {}
    for kind in kinds:
        switch = type_row(kind).get("switch")
        own = {switch[0]: switch[1][0]} if switch else {}
        found[kind] = open_model(config({"model_type": kind, **own})).pairing
    assert {kind for kind, pairing in found.items() if pairing is None} == set()
    assert len(found) > 190
    assert {"roformer", "glm_moe_dsa", "deepseek_v32"} <= {
        kind for kind, pairing in found.items() if pairing == "neighbours"
    }


@pytest.mark.parametrize("kind", ["bert", "bloom", "no-such-type"])
def test_what_turns_nothing_or_is_not_known_has_none(kind, config):
    assert open_model(config({"model_type": kind, "rope_theta": 1e4})).pairing is None
