"""Rotations of configs: the equivalent SPEC, errors and findings."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from published_configs import PUBLISHED, sized, yarn
from refusals import refusal

from pefourier.encodings import load
from pefourier.encodings.registry import build, parse_parameters

LLAMA = sized("llama", 4096, 32, 4096, rope_theta=10000.0)
LLAMA31 = PUBLISHED["meta-llama/Llama-3.1-8B"]
PHI3 = PUBLISHED["microsoft/Phi-3-mini-128k-instruct"]
GEMMA3 = PUBLISHED["google/gemma-3-4b-it"]["text_config"]
DYNAMIC = {**LLAMA, "rope_scaling": {"type": "dynamic", "factor": 2.0}}
SHORT = PHI3["rope_scaling"]["short_factor"]
LONGROPE = (
    f"scaling=longrope,factor=32,original=4096,short_factor={';'.join(map(str, SHORT))},"
    f"long_factor={';'.join(str(2 * f) for f in SHORT)}"
)
NULL_FACTOR = {**yarn(None, 4096), "rope_type": "yarn"}
MODELS = {  # config, length, equivalent SPEC of rope, its d
    "Phi-3 long": (PHI3, 131072, LONGROPE, 96),
    "dynamic beyond": (DYNAMIC, 16384, "scaling=dynamic,factor=2,original=4096", 128),
    "rotary_dim that rounds down": (
        {"model_type": "gptj", "n_embd": 44, "n_head": 1, "n_positions": 8, "rotary_dim": 30},
        *(8, "layout=interleaved,partial=0.682", 44),
    ),
    "yarn with the ratio of the lengths": (
        sized("llama", 4096, 32, 65536, rope_parameters=NULL_FACTOR),
        *(9, "scaling=yarn,factor=16,original=4096", 128),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_rotates_as_the_spec_says(name, config):
    values, length, spec, d = MODELS[name]
    path = config(values)
    enc = load(path, None if length > 99 else length)
    if len(enc) != length:
        enc = load(path, length)
    same = build("rope", **{"length": length, "d": d, **parse_parameters("rope", spec)})
    assert_array_equal(enc.measure.frequencies, same.measure.frequencies)
    x = np.array([0, 1, length - 1])
    assert_array_equal(enc.vectors(x), same.vectors(x))
    noted = {"path": path, "model_type": enc.params["model_type"], "partial": enc.params["partial"]}
    for key in ("softmax_factor", "unread", "length"):
        noted |= {key: enc.params[key]} if key in enc.params else {}
    assert enc.params == {**same.params, **noted}


def scaling(**values):
    return {**LLAMA, "rope_scaling": values}


YARN = yarn(4.0, 1024)
LLAMA3 = LLAMA31["rope_scaling"]
LINEAR = {"rope_type": "linear", "factor": 2.0}
OLD_LINEAR = {"type": "linear", "factor": 2.0}
MROPE = {"type": "mrope", "mrope_section": [16, 24, 24]}
TYPE, MINE = {"full_attention": {"rope_theta": 7.0}}, {"model_type": "mine", "head_dim": 8}
UNREAD = [  # config, part, the unread key
    (scaling(**YARN, beta_fsat=8), "", "beta_fast"),
    (scaling(type="dynamic", factor=2.0, original_max_position_embeddings=3), "", "original_max"),
    (scaling(rope_typ="llama3", factor=8.0), "", "rope_type"),
    ({"model_type": "cohere2_moe", "rope_scaling": LINEAR}, "", "rope_scaling"),
    ({"model_type": "gemma3_text", "rope_scaling": OLD_LINEAR}, "#full_attention", "factor"),
    ({**LLAMA, "rope_parameters": TYPE}, "", "rope_parameters"),
    ({"model_type": "olmo3", "rope_parameters": LINEAR}, "#full_attention", "rope_parameters"),
]
NO_SECTION = ("#sliding_attention", "rope-no-section warning", "none for 'sliding_attention'")
FOUND = [  # config, part, finding code and severity, part of the message
    ({**LLAMA, "rope_parameters": {"rope_theta": 7.0}}, "", "rope-contradiction warning", ""),
    ({"model_type": "smollm3"}, "", "rope-some-layers note", ""),
    ({"model_type": "qwen2_vl", "rope_scaling": MROPE}, "", "rope-axes note", ""),
    ({**MINE, "rope_theta": 1e4}, "", "length-default note", ""),
    ({"model_type": "llama"}, "", "rope-theta-default note", "10000"),
    ({"model_type": "cohere"}, "", "rope-theta-default note", "500000"),
    ({"model_type": "gemma3_text", "rope_parameters": TYPE}, *NO_SECTION),
    (scaling(**YARN, mscale=0.7), "", "rope-mscale warning", "without mscale_all_dim"),
]
FOUND += [(*row[:2], "unread-key warning", row[2]) for row in UNREAD]


@pytest.mark.parametrize(("values", "part", "code", "named"), FOUND)
def test_findings_of_configs(values, part, code, named, config):
    enc = load(config(values) + part, length=None if "length-d" in code else 9)
    found = {f"{f.code} {f.severity}": f.message for f in enc.findings}
    assert named in found[code]
    assert sum(key.endswith("warning") for key in found) == code.endswith("warning")


CONFORMER = {"model_type": "wav2vec2-conformer"}
DEBERTA = {"model_type": "deberta-v2", "position_buckets": 32, "relative_attention": True}
DEBERTA |= {"position_biased_input": False, "pos_att_type": "c2p|p2c"}
REFUSED = [  # config, part, part of the error
    (scaling(type="linear", factor=None), "", "no factor"),
    (scaling(type="yarm", factor=2), "", "Did you mean 'yarn'?"),
    (scaling(**YARN, attention_factor=0.0), "", "attention_factor"),
    (scaling(type="longrope", short_factor=[1.0], long_factor=[1.0]), "", "needs 64 numbers"),
    ({**LLAMA, "head_dim": 127}, "", "an even d"),
    ({**DYNAMIC, "model_type": "mine", "max_position_embeddings": None}, "", "needs max_position"),
    ({"model_type": "mine", "rope_theta": 5.0}, "", "give the dimension by --d"),
    (GEMMA3, "", "#full_attention"),
    (LLAMA, "#full", "leave out '#full'"),
    ({"model_type": "laguna", "rope_parameters": {"rope_theta": 5.0}}, "", "section for each type"),
    ({"model_type": "gpt2", "n_positions": 1024, "n_embd": 768}, "", "are learned"),
    ({"model_type": "bert", "position_embedding_type": "relative_key"}, "", "'relative_key'"),
    ({"model_type": "mpt", "n_heads": 8, "attn_config": {"alibi_bias_max": 4}}, "", "got 4.0"),
    ({**LLAMA, "use_cope": True}, "", "rope:scaling=clip"),
    ({"model_type": "qwen2_vl_text", "rope_scaling": {**MROPE, "mrope_section": ["1"]}}, "", "'1'"),
    ({**CONFORMER, "position_embeddings_type": "rotary"}, "", "must be relative"),
    ({"model_type": "seamless_m4t"}, "", "CONFIG#speech_encoder"),
    ({"model_type": "gemma4_audio"}, "", "in blocks of queries"),
    ({**DEBERTA, "pos_att_type": "p2c"}, "", "c2p|p2c or c2p"),
    ({**DEBERTA, "pos_att_type": None}, "", "no table, rotation or bias"),
    ({**DEBERTA, "position_buckets": 2048}, "", "max_distance above 1025"),
]


@pytest.mark.parametrize(("values", "part", "stated"), REFUSED, ids=range(len(REFUSED)))
def test_what_transformers_cannot_use_is_refused_in_one_line(values, part, stated, config):
    with refusal(part=stated):
        load(config(values) + part, length=9)


def test_d_is_for_configs_that_set_none(config):
    path = config(LLAMA)
    with refusal("which contradicts --d 64"):
        load(path, d=64)
    assert load(path, d=128, length=3).dim == 128
    assert load(config({"model_type": "llama"}), d=64).table().shape == (2048, 64)
