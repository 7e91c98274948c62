"""Known mistakes in configs and in their layers each have a finding."""

import copy
import json

import pytest
from published_configs import PUBLISHED, yarn
from rotary_modules import config_class, quiet

from pefourier.encodings import load
from pefourier.encodings.model_positions import describe_positions

LLAMA31 = PUBLISHED["meta-llama/Llama-3.1-8B"]
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


LLAMA2 = PUBLISHED["meta-llama/Llama-2-7b-hf"]
SECOND = {  # a second name of a setting, with its value in the first config
    "initial_context_length": (GPT_OSS, 4096),
    "seq_length": (LLAMA2, 4096),
    "n_positions": (LLAMA2, 4096),
    "model_max_length": (LLAMA2, 4096),
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
