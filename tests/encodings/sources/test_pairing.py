"""Which rows of a head a model type turns together; test_models_law asks the models."""

from rotary_modules import TYPES

from pefourier.encodings.sources.config import type_row
from pefourier.encodings.specs import open_model


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
    for kind in ("bert", "bloom", "no-such-type"):
        assert open_model(config({"model_type": kind, "rope_theta": 1e4})).pairing is None
