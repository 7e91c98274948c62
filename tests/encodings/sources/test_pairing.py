"""Which rows of a head a model type turns together; test_models_law asks the models."""

from rotary_modules import TYPES

from pefourier.encodings.sources.layers import open_model
from pefourier.encodings.sources.models import type_row
from pefourier.encodings.sources.rope_config import pairing_of


def test_a_switch_of_the_config_decides(config):
    for switch, wanted in ((True, "neighbours"), (False, "halves")):
        model = open_model(config({"model_type": "deepseek_v3", "rope_interleave": switch}))
        assert pairing_of(model) == wanted


def test_every_type_that_rotates_on_a_line_has_a_pairing(config):
    kinds = [kind for kind in TYPES if type_row(kind)["kind"] == "rotary"]
    found = {}
    for kind in kinds:
        switch = type_row(kind).get("switch")
        own = {switch[0]: switch[1][0]} if switch else {}
        found[kind] = pairing_of(open_model(config({"model_type": kind, **own})))
    assert {kind for kind, pairing in found.items() if pairing is None} == set()
    assert len(found) > 190
    assert {"roformer", "glm_moe_dsa", "deepseek_v32"} <= {
        kind for kind, pairing in found.items() if pairing == "neighbours"
    }
    for kind in ("bert", "bloom", "no-such-type"):
        assert pairing_of(open_model(config({"model_type": kind, "rope_theta": 1e4}))) is None
