"""Readings of a config: lengths, unread keys, contradictions, names of vendors."""

import numpy as np
import pytest
from published_configs import PUBLISHED

from pefourier import context
from pefourier.encodings import load
from pefourier.encodings.model_positions import describe_positions
from pefourier.errors import PefourierError

LLAMA31 = PUBLISHED["meta-llama/Llama-3.1-8B"]
DEEPSEEK = PUBLISHED["deepseek-ai/DeepSeek-V3"]
LLAMA2 = PUBLISHED["meta-llama/Llama-2-7b-hf"]
PARAMS = {"dim": 2048, "n_heads": 16, "n_layers": 36, "rope_theta": 5e6}
KIMI = {key: value for key, value in DEEPSEEK.items() if key != "model_type"} | {
    "architectures": ["DeepseekV3ForCausalLM"],
    "kv_lora_rank": 512,
    "rope_theta": 5e4,
    "max_position_embeddings": 131072,
    "rope_scaling": {**DEEPSEEK["rope_scaling"], "factor": 32.0},
}


UNREAD = {  # Llama 2's config
    **{"no_rope_layers": [1, 0], "sliding_window": 512, "rope_interval": 2, "alibi": True},
    **{"position_embedding_type": "nope", "rope_tetha": 1e6, "yarn_factor": 4},
    **{"mrope_section": [16, 24, 24], "rotary_pct": 0.25},
    "rope_scaling": {"type": "linear", "factor": 2.0, "beta_fast": 3},
}
VENDOR = {"type": "xdrope", "factor": 2.0, "faktor": 3.0, "original_max_position_embeddings": 64}


@pytest.mark.parametrize(
    ("config", "key"),
    [
        *(({**LLAMA2, key: value}, key) for key, value in UNREAD.items()),
        ({**PARAMS, "no_rope_layer_interval": 4}, "no_rope_layer_interval"),
        ({**LLAMA2, "model_type": "hunyuan_v1_dense", "rope_scaling": VENDOR}, "faktor"),
        ({"model_type": "gpt2", "n_positions": 64, "rope_theta": 1e6}, "rope_theta"),
        ({"model_type": "mine", "head_dim": 64, "rope_theta": 1e4, "rope_every": 2}, "rope_every"),
        ({"model_type": "llava", "text_config": LLAMA2, "rope_scaling_new": {"a": 1}}, "rope_sc"),
    ],
)
def test_a_key_about_positions_that_is_not_read_is_named(config, key, written, run):
    path, key = written(config), "beta_fast" if key == "rope_scaling" else key
    if "alibi" not in config and config.get("model_type") != "gpt2":
        assert any(f.code == "unread-key" and key in f.message for f in load(path).findings)
    (result,) = run("context", path, "--json").results
    assert any(key in name for name in result["unread"])
    assert any(f["code"] == "unread-key" and key in f["message"] for f in result["findings"])
    assert run("context", path, "--strict").status == 1


@pytest.mark.parametrize("own", [{}, {"architectures": ["KimiK2ForCausalLM"]}])
def test_an_unknown_type_is_read_by_its_architectures_or_its_keys(own, written):
    """Kimi K2 pairs neighbours and scales logits by (0.1 ln 32 + 1)^2, both marked as assumed."""
    path = written({"model_type": "kimi_k2", **KIMI, **own})
    found = context(path)
    (r,) = found.rotations
    assert (r.pairing, round(r.softmax_factor, 3)) == ("neighbours", 1.813)
    assert found.facts["softmax_factor"]() == "1.813 (assumed)"
    assert found.facts["pairing"]() == "interleaved (assumed)"
    assert "model-type-unknown" in [f.code for f in found.findings]


SPELLINGS = [
    ({"rope_type": "default", "rope_theta": 1e4}, ["10000.0", "500000.0", "'llama3'"]),
    ({**LLAMA31["rope_scaling"], "factor": 32.0}, ["8.0", "32.0"]),
    ({"rope_type": "linear", "factor": 8.0}, ["'linear'", "'llama3'"]),
    ({**LLAMA31["rope_scaling"], "rope_theta": 5e5}, None),
]


@pytest.mark.parametrize(("new", "names"), SPELLINGS)
def test_contradicting_spellings_are_both_named(new, names, written):
    """transformers uses rope_scaling where both spellings are set."""
    enc = load(written({**LLAMA31, "rope_parameters": new}))
    taken = load(written(LLAMA31, "one.json")).measure.frequencies
    assert np.array_equal(enc.measure.frequencies, taken)
    reported = [f for f in enc.findings if f.code == "rope-spellings"]
    assert [f.severity for f in reported] == ["warning"] * (names is not None)
    assert all(name in reported[0].message for name in names or ())


def test_a_vendors_name_of_a_scaling_is_refused(written):
    scaling = {"type": "deepseek_yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
    with pytest.raises(PefourierError, match="unknown rope_type"):
        load(written({**LLAMA2, "rope_scaling": scaling}))


STATING = "max_trained_positions train_context_length pretrain_seq_len original_ctx_length".split()


@pytest.mark.parametrize("key", STATING)
@pytest.mark.parametrize("kind", ["llama", "mine"])
def test_a_trained_length_under_another_name_is_unread(key, kind, written):
    config = {"model_type": kind, "head_dim": 64, "rope_theta": 1e4, key: 512}
    assert context(written(config), length=600).unread == (key,)


def test_a_table_of_roberta_has_rows_before_its_first_id(written):
    config = {"model_type": "roberta", "max_position_embeddings": 514, "pad_token_id": 3}
    found = context(written(config), length=512)
    assert (found.verdict, found.held, found.lost) == ("too few rows", 510, 2)
    assert (found.held_text, found.encoding.params["offset"]) == (514, 4)


OFF = [
    {"model_type": "granitemoehybrid", "position_embedding_type": "nope"},
    {"model_type": "granitemoehybrid", "position_embedding_type": None},
    {"model_type": "zamba2", "use_mem_rope": False},
    {"model_type": "smollm3", "no_rope_layers": [0] * 4},
    {"model_type": "mine", "position_embedding_type": "nope"},
]


@pytest.mark.parametrize("config", OFF, ids=str)
def test_a_rotation_that_is_switched_off_is_no_positions(config, written):
    sizes = {"hidden_size": 1536, "num_attention_heads": 12, "num_hidden_layers": 4}
    found = context(written({**sizes, "rope_theta": 1e4, **config}))
    assert (found.verdict, found.unread) == ("no positions", ())
    assert {run.kind for run in found.layers} == {"none"}


def test_a_params_json_is_read_as_its_models_code_reads_it(written):
    """The pairs are neighbours; yarn, use_scaled_rope and llama_4_scaling are scalings."""
    yarn = {"original_max_position_embeddings": 16384, "factor": 16, "apply_scale": False}
    config = {**PARAMS, "yarn": {**yarn, "beta": 32.0, "alpha": 1.0}, "head_dim": 128}
    config["llama_4_scaling"] = {"original_max_position_embeddings": 16384, "beta": 0.1}
    found = describe_positions(written(config, "params.json"), 262144)
    by_name = load("rope:rho=5e6,layout=interleaved,scaling=yarn,factor=16,original=16384", 80, 128)
    (enc,) = found.rotations
    np.testing.assert_allclose(enc.measure.frequencies, by_name.measure.frequencies, rtol=1e-12)
    assert enc.params["attention_factor"] == 1.0
    assert found.temperature.largest == pytest.approx(1 + 0.1 * np.log1p(262143 // 16384))
    assert (found.unread, enc.params["layout"]) == ((), "interleaved")
    scaled = load(written({**PARAMS, "use_scaled_rope": True}, "llama.json"), 80)
    meta = load("rope:rho=5e6,scaling=llama3,factor=8,original=8192", 80, 128)
    np.testing.assert_allclose(scaled.measure.frequencies, meta.measure.frequencies, rtol=1e-12)
