"""A config is data: any value is read, named or refused in one line, and mistakes are found."""

import copy
import json
import time
from contextlib import suppress
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from published_configs import PUBLISHED, yarn
from refusals import refusal
from rotary_modules import config_class, quiet
from stored import gguf_bytes

from pefourier import context
from pefourier.encodings import load
from pefourier.encodings.loader import open_model
from pefourier.encodings.model_positions import describe_positions
from pefourier.errors import PefourierError


def test_infinity_where_transformers_itself_writes_it_passes(config):
    enc = load(config('{"model_type": "bamba", "time_step_limit": [0.0, Infinity]}'), length=3)
    assert enc.name == "rope"


BAD = {
    "a hundred thousand misspelt keys": {f"rope_thet{i}": 1 for i in range(100_000)},
    "a hundred thousand keys of a scaling": {
        "rope_parameters": {"rope_theta": 1.0, **{f"facto{i}": i for i in range(100_000)}}
    },
    "a list of a hundred thousand layers": {"layer_types": ["full_attention"] * 100_000},
}


REFUSED = {
    b"{": "line 1 column 2",
    b'{"a": 1, "b": 2, "a": 3}': "key 'a' is repeated",
    b'{"a": {"b": 2, "b": 2}}': "key 'b' is repeated",
    b"\xff{}": "0xff",
    b"": "is not readable JSON",
    b"[" * 10**6: "is not readable JSON",
    b"[1, 2]": "is not a model config",
    bytes(2**26 + 1): "67108865 bytes",
    b'{"model_type": "llama", "rope_theta": NaN}': "got nan",
    b'{"model_type": "llama", "rope_theta": 1e999}': "got inf",
    b'{"model_type": "llama", "rope_theta": ' + b"9" * 5000 + b"}": "is not readable JSON",
}


@pytest.mark.parametrize(("content", "stated"), REFUSED.items(), ids=range(len(REFUSED)))
def test_invalid_configs_are_refused_in_one_line(content, stated, tmp_path):
    path = tmp_path / "config.json"
    for place in (path, tmp_path, tmp_path / "nowhere" / "config.json"):
        with refusal(r"(no file|unknown file) '"):
            load(str(place))
    path.write_bytes(content)
    with refusal(part=stated):
        load(str(path))


@pytest.mark.parametrize("name", BAD)
def test_large_configs_take_seconds_and_not_minutes(name, config):
    path = config({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 1, **BAD[name]})
    begun = time.process_time()
    enc = load(path, length=9)
    assert time.process_time() - begun < 10  # a search for names near each key takes over 60
    assert len(enc.findings) < 12


@pytest.mark.parametrize("key", ["auto_map", "trust_remote_code"])
def test_source_code_named_by_a_config_is_not_run(key, config, folder):
    (folder / "modeling_mine.py").write_text("raise SystemExit('run')")
    path = config(
        {"model_type": "mine", "head_dim": 8, "rope_theta": 5.0, key: {"A": "modeling_mine.B"}}
    )
    enc = load(path, length=3)
    assert [f.code for f in enc.findings] == ["model-type-unknown", "remote-code"]


def test_keys_around_a_tower_are_the_text_models(config):
    """A key of the model around a vision tower is not reported as unread by the tower."""
    tower = {"model_type": "qwen2_vl_vision", "rope_interval": 2}
    around = {"rope_theta": 1e6, "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}}
    whole = {"model_type": "qwen2_vl", **around, "vision_config": tower}
    enc = load(f"{config(whole)}#vision_config", grid=(4, 4))
    assert enc.params["unread"] == ("rope_interval",)
    (note,) = [f.message for f in enc.findings if f.code == "unread-key"]
    assert "vision_config" in note


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
        ({**LLAMA2, "train_context_length": 512}, "train_context_length"),
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
    assert found.facts["softmax_factor"] == "1.813 (assumed)"
    assert found.facts["pairing"] == "interleaved (assumed)"
    assert "model-type-unknown" in [f.code for f in found.findings]


SPELLINGS = [
    ({"rope_type": "default", "rope_theta": 1e4}, ["10000.0", "500000.0", "'llama3'"]),
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
    assert_allclose(enc.measure.frequencies, by_name.measure.frequencies, rtol=1e-12)
    assert enc.params["attention_factor"] == 1.0
    assert found.temperature.largest == pytest.approx(1 + 0.1 * np.log1p(262143 // 16384))
    assert (found.unread, enc.params["layout"]) == ((), "interleaved")
    scaled = load(written({**PARAMS, "use_scaled_rope": True}, "llama.json"), 80)
    meta = load("rope:rho=5e6,scaling=llama3,factor=8,original=8192", 80, 128)
    assert_allclose(scaled.measure.frequencies, meta.measure.frequencies, rtol=1e-12)


QWEN25 = PUBLISHED["Qwen/Qwen2.5-7B-Instruct, with its YaRN"]
GPT_OSS = PUBLISHED["openai/gpt-oss-20b"]
QWEN_VL = PUBLISHED["Qwen/Qwen2.5-VL-7B-Instruct"]
NEMO = PUBLISHED["mistralai/Mistral-Nemo-Base-2407"]
GLM_AIR = PUBLISHED["zai-org/GLM-4.5-Air"]
ORIGINAL = "original_max_position_embeddings"
FEW = [1, 1, 1, 0] * 9


def changed(config, *dropped, **own):
    kept = {key: value for key, value in config.items() if key not in dropped}
    return {**copy.deepcopy(kept), **own}


def within(config, *dropped, **own):
    """Return a config with another rope_scaling."""
    return changed(config, rope_scaling=changed(config["rope_scaling"], *dropped, **own))


def moved(config):
    """Return a config as transformers 5 saves it, with all settings in rope_parameters."""
    new = {"rope_theta": config["rope_theta"], **(config.get("rope_scaling") or {})}
    new.setdefault("rope_type", "default")
    return changed(config, "rope_theta", "rope_scaling", rope_parameters=new)


SMOLLM3 = {"model_type": "smollm3", "num_hidden_layers": 36}
LOCAL = {"model_type": "gemma3_text", "num_hidden_layers": 6, "sliding_window": 512}
NULL = changed(GPT_OSS, "rope_theta", "rope_scaling", rope_parameters={"rope_theta": 150000})
MISTAKES = {  # finding and severity: configs
    "rope-new-keys note": [moved(LLAMA31)],
    "rope-new-keys warning": [changed(moved(LLAMA31), transformers_version="4.57.1")],
    "rope-scaling-lost warning": [changed(LLAMA31, "rope_scaling"), NULL],
    "rope-two-types warning": [within(LLAMA31, type="linear")],
    "rope-no-type warning": [within(LLAMA31, "rope_type")],
    "rope-lengths warning": [changed(QWEN25, max_position_embeddings=65536)],
    "rope-original-missing warning": [
        changed(within(QWEN25, ORIGINAL), max_position_embeddings=131072)
    ],
    "rope-original-unusual warning": [
        changed(PUBLISHED["Qwen/Qwen3-8B"], rope_scaling=yarn(4.0, 40960))
    ],
    "rope-original warning": [within(LLAMA31, **{ORIGINAL: 131072})],
    "rope-head-guessed note": [changed(NEMO, "head_dim")],
    "rope-head-guessed warning": [changed(GLM_AIR, "head_dim")],
    "rope-sections warning": [within(QWEN_VL, mrope_section=[16, 16, 16])],
    "layers-inverted warning": [changed(SMOLLM3, no_rope_layers=[1 - i for i in FEW])],
    "layers-no-global warning": [changed(LOCAL, layer_types=["sliding_attention"] * 6)],
    "rope-indexer note": [{"model_type": "deepseek_v32", "num_hidden_layers": 2}],
}


@pytest.fixture
def findings(config):
    """Return a function that lists the findings of a part of a config, or of its context."""

    def read(values, part=None):
        path = config(values)
        found = describe_positions(path) if part is None else load(f"{path}{part}", length=16)
        return found.findings

    return read


@pytest.mark.parametrize("expected", MISTAKES)
def test_a_mistake_is_found(expected, findings):
    for config in MISTAKES[expected]:
        found = {f"{f.code} {f.severity}" for f in findings(config)}
        assert expected in found
        others = {key for key in found if key.endswith("warning")} - {expected}
        assert others <= {"unread-key warning"}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_configs_have_no_mistake(name, findings):
    found, stated = findings(PUBLISHED[name]), {code.split()[0] for code in MISTAKES}
    assert [f.code for f in found if f.severity != "note" or f.code in stated] == []


SECOND = {  # a second name of a setting, with its value in the first config
    "initial_context_length": (GPT_OSS, 4096),
    "seq_length": (LLAMA2, 4096),
    "n_embd": (LLAMA2, 4096),
    "n_head": (LLAMA2, 32),
    "rotary_emb_base": (changed(LLAMA2, rope_theta=10000.0), 10000),
    "kv_channels": (changed(LLAMA2, head_dim=128), 128),
}


@pytest.mark.parametrize("key", SECOND)
def test_a_second_name_of_a_setting_has_a_finding_if_it_contradicts_the_first(key, findings):
    config, value = SECOND[key]
    for own, expected in (value, []), (2 * value, ["unread-key"]):
        found = [f.code for f in findings(changed(config, **{key: own})) if f.code == "unread-key"]
        assert found == expected


@pytest.mark.parametrize("kind", ["musicflamingo", "granite_speech", "granite_speech_plus"])
def test_keys_of_other_parts_of_a_model_have_no_finding(kind, findings):
    with quiet():
        saved = json.loads(config_class(kind)().to_json_string(use_diff=False))
    assert "unread-key" not in {f.code for f in findings(saved)}
    inner = {**saved["text_config"], "rope_interval": 4}
    assert "unread-key" in {f.code for f in findings({**saved, "text_config": inner})}
    assert "unread-key" in {f.code for f in findings({**saved, "yarn_factor": 4})}


HUGE = 10**400
ODD = [None, "x", "1e4", -1, 0, 0.5, 1e-320, 1e308, -1e308, 2**53, HUGE, float("nan"), [], {}]
ODD += [True, False, [1, "x"], {"a": 1}, float("inf")]
SIZES = {"hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 1024}
CONFIGS = {
    "llama": {"rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}},
    "qwen2": {"rope_scaling": {"factor": 4.0, "beta_fast": 32, "beta_slow": 1}},
    "gemma3_text": {
        "head_dim": 16,
        "rope_parameters": {
            name: {"rope_theta": 1e4} for name in ("full_attention", "sliding_attention")
        },
    },
    "exaone4": {"sliding_window": 64, "layer_types": ["sliding_attention", "full_attention"]},
    "qwen3_vl_text": {"rope_scaling": {"type": "default", "mrope_section": [4, 2, 2]}},
    "dinov3_vit": {"image_size": 64, "patch_size": 16, "num_register_tokens": 4},
    "t5": {"num_heads": 8, "relative_attention_num_buckets": 32},
}
KEYS = ["rotary_pct", "partial_rotary_factor", "rope_theta", "head_dim", "num_hidden_layers"]
KEYS += ["original_max_position_embeddings", "sliding_window", "layer_types"]
INNER = ["rope_type", "type", "factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"]
INNER += ["low_freq_factor", "high_freq_factor", "attention_factor", "truncate", "rope_theta"]
INNER += ["original_max_position_embeddings", "mrope_section", "rotary_pct"]


def places(config):
    """Yield each key of a config and of its inner objects, and other keys allowed there."""
    for key in dict.fromkeys([*config, *KEYS]):
        yield (key,)
        inner = config.get(key)
        if isinstance(inner, dict):
            deeper = [name for name, own in inner.items() if isinstance(own, dict)]
            yield from ((key, name) for name in dict.fromkeys([*inner, *INNER]))
            yield from ((key, name, last) for name in deeper for last in INNER)


def with_value(config, place, value):
    whole = json.loads(json.dumps(config))
    at = whole
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value
    return whole


@pytest.mark.parametrize("kind", CONFIGS)
def test_any_value_of_a_config_is_answered_or_refused(written, kind):
    config = {"model_type": kind, **SIZES, **CONFIGS[kind]}
    for place, value in product(places(config), ODD):
        path = written(with_value(config, place, value))
        for part in ("", "#sliding_attention"):
            with suppress(PefourierError):
                enc = load(f"{path}{part}", length=8)
                assert np.isfinite(enc.table()).all(), (place, value)
                assert open_model(str(path)).layers


METADATA = {
    **{"context_length": 4096, "embedding_length": 64, "block_count": 4},
    **{"attention.head_count": 4, "attention.key_length": 16, "attention.sliding_window": 64},
    **{"rope.dimension_count": 16, "rope.freq_base": 5e5, "rope.scaling.type": "yarn"},
    **{"rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 1024},
    **{"rope.scaling.attn_factor": 1.0, "rope.scaling.yarn_log_multiplier": 0.1},
    **{"rope.freq_base_swa": 1e4, "rope.scaling.alpha": 2.0, "rope.dimension_sections": 8},
    **{"attention.sliding_window_pattern": 2},
}
WRONG = ["x", "", True, -1, 0, 0.0, 2**62, -(2**62), float("nan"), float("inf"), 1e-45]


@pytest.mark.parametrize("arch", ["llama", "deepseek2", "gemma3", "qwen2vl"])
def test_any_value_of_a_gguf_file_is_answered_or_refused(tmp_path, arch):
    path = tmp_path / "model.gguf"
    plain = {"general.architecture": arch, **{f"{arch}.{k}": v for k, v in METADATA.items()}}
    for key, value in product(METADATA, WRONG):
        path.write_bytes(gguf_bytes((plain | {f"{arch}.{key}": value}).items()))
        with suppress(PefourierError):
            assert np.isfinite(load(str(path), length=8).table()).all(), (key, value)
            assert open_model(str(path)).layers
