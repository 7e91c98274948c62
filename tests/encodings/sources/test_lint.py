"""Mistakes of configs as people made them: each has its finding and a way out."""

import copy
import json
import re
from pathlib import Path

import pytest
from published_configs import PUBLISHED, sized, yarn
from rotary_modules import config_class, quiet

from pefourier.encodings import load
from pefourier.encodings.sources import lint
from pefourier.encodings.sources.models import type_row
from pefourier.errors import PefourierError

CODES = set(re.findall(r'says\("([a-z-]+)"', Path(lint.__file__).read_text()))
LLAMA31 = PUBLISHED["meta-llama/Llama-3.1-8B"]
SCALING = LLAMA31["rope_scaling"]
QWEN25 = PUBLISHED["Qwen/Qwen2.5-7B-Instruct, with its YaRN"]
GPT_OSS = PUBLISHED["openai/gpt-oss-20b"]
GLM = PUBLISHED["THUDM/glm-4-9b-chat-hf"]
DEEPSEEK = PUBLISHED["deepseek-ai/DeepSeek-V3"]
QWEN_VL = PUBLISHED["Qwen/Qwen2.5-VL-7B-Instruct"]
NEMO = PUBLISHED["mistralai/Mistral-Nemo-Base-2407"]
PHI3 = PUBLISHED["microsoft/Phi-3-mini-128k-instruct"]


def changed(config, *dropped, **own):
    kept = {key: value for key, value in config.items() if key not in dropped}
    return {**copy.deepcopy(kept), **own}


def within(config, *dropped, **own):
    """A config with another rope_scaling."""
    return changed(config, rope_scaling=changed(config["rope_scaling"], *dropped, **own))


def moved(config):
    """As transformers 5 saves it: base and scaling in rope_parameters alone."""
    new = {"rope_theta": config["rope_theta"], **(config.get("rope_scaling") or {})}
    new.setdefault("rope_type", "default")
    return changed(config, "rope_theta", "rope_scaling", rope_parameters=new)


QWEN3_VL = {
    **{"model_type": "qwen3_vl_text", "hidden_size": 4096, "num_attention_heads": 32},
    **{"head_dim": 128, "max_position_embeddings": 262144, "rope_theta": 5000000.0},
    "rope_scaling": {"mrope_section": [24, 20, 20], "rope_type": "default"},
}
OLMO3 = PUBLISHED["allenai/Olmo-3-1025-7B"]

MISTAKES = {  # what was done: config, part, finding, severity, first positions below .99 and .9
    "keys of transformers 5 alone": (moved(LLAMA31), "", "rope-new-keys note"),
    "and saved by an older one": (
        changed(moved(LLAMA31), transformers_version="4.57.1"),
        *("", "rope-new-keys warning"),
    ),
    "base left out": (
        changed(PUBLISHED["mistralai/Mixtral-8x7B-v0.1"], "rope_theta"),
        *("", "rope-theta-default note"),
    ),
    "scaling lost": (
        changed(LLAMA31, "rope_scaling"),
        "",
        "rope-scaling-lost warning",
    ),
    "a scaling that the class refuses": (
        changed(PHI3, rope_scaling={"type": "linear", "factor": 2.0}, max_position_embeddings=8192),
        *("", "rope-type-refused warning"),
    ),
    "scaling null": (
        changed(LLAMA31, rope_scaling=None),
        "",
        "rope-scaling-lost warning",
    ),
    "scaling of gpt-oss null": (
        changed(GPT_OSS, "rope_theta", "rope_scaling", rope_parameters={"rope_theta": 150000}),
        *("", "rope-scaling-lost warning"),
    ),
    "scaling of Phi-3 lost": (changed(PHI3, "rope_scaling"), "", "rope-scaling-lost warning"),
    "two types": (within(LLAMA31, type="linear"), "", "rope-two-types warning"),
    "no type": (within(LLAMA31, "rope_type"), "", "rope-no-type warning"),
    "length not raised by the factor": (
        changed(QWEN25, max_position_embeddings=65536),
        *("", "rope-lengths warning"),
    ),
    "original length missing": (
        changed(within(QWEN25, "original_max_position_embeddings"), max_position_embeddings=131072),
        *("", "rope-original-missing warning"),
    ),
    "original length of Qwen3": (
        changed(PUBLISHED["Qwen/Qwen3-8B"], rope_scaling=yarn(4.0, 40960)),
        *("", "rope-original-unusual warning"),
    ),
    "original length of gpt-oss": (
        changed(
            within(GPT_OSS, original_max_position_embeddings=131072),
            max_position_embeddings=131072 * 32,
        ),
        *("", "rope-original-unusual warning"),
    ),
    "original not below the longest": (
        within(LLAMA31, original_max_position_embeddings=131072),
        *("", "rope-original warning"),
    ),
    "two spellings that differ": (
        changed(LLAMA31, rope_parameters={"rope_type": "default", "rope_theta": 1e4}),
        *("", "rope-spellings warning"),
    ),
    "longrope without a length of training": (
        changed(PHI3, "original_max_position_embeddings", model_type="llama"),
        *("", "rope-original-missing warning"),
    ),
    "factors of longrope under other keys": (
        within(changed(PHI3, model_type="llama"), short_mscale=1.1, long_mscale=1.2),
        *("", "unread-key warning"),
    ),
    "share under another name": (
        changed(GLM, "partial_rotary_factor", rotary_pct=0.25),
        *("", "unread-key warning"),
    ),
    "share of a type that has none": (
        changed(PUBLISHED["Qwen/Qwen3-8B"], rotary_dim=64),
        *("", "unread-key warning"),
    ),
    "share left out": (
        changed(GLM, "partial_rotary_factor"),
        *("", "rope-share-default note"),
    ),
    "head of Mistral-Nemo": (changed(NEMO, "head_dim"), "", "rope-head-guessed note"),
    "head that is not whole": (
        changed(PUBLISHED["zai-org/GLM-4.5-Air"], "head_dim", "partial_rotary_factor"),
        *("", "rope-head-guessed warning"),
    ),
    "mscale alone": (within(DEEPSEEK, "mscale_all_dim"), "", "rope-mscale warning"),
    "mscale_all_dim alone": (within(DEEPSEEK, "mscale"), "", "rope-mscale warning"),
    "sections that do not fit": (
        within(QWEN_VL, mrope_section=[16, 16, 16]),
        *("", "rope-sections warning"),
    ),
    "sections that are null": (
        within(QWEN_VL, mrope_section=None),
        *("", "rope-sections warning"),
    ),
    "order of sections not said": (QWEN3_VL, "", "rope-sections note"),
    "order of sections wrong": (
        within(QWEN3_VL, mrope_interleaved=False),
        *("", "rope-sections warning"),
    ),
    "key of a scaling that is not read": (
        sized("gemma3_text", 2560, 8, 131072, rope_scaling={"type": "linear", "factor": 8.0}),
        *("#full_attention", "unread-key warning"),
    ),
    "scaling that is not read": (
        {"model_type": "cohere2_moe", "rope_scaling": {"rope_type": "linear", "factor": 2.0}},
        *("", "unread-key warning"),
    ),
    "truncate of a type of layer": (
        sized(
            *("nobody", 4096, 64, 131072),
            rope_parameters={"full_attention": {**GPT_OSS["rope_scaling"], "rope_theta": 150000.0}},
        ),
        *("#full_attention", "unread-key warning"),
    ),
    "one rotation for types of a model that is not known": (
        sized(
            *("nobody", 4096, 32, 131072),
            rope_theta=1e6,
            layer_types=["sliding_attention", "full_attention"],
        ),
        *("", "rope-one-for-all note"),
    ),
    "a type of layer without a section": (
        sized(
            *("nobody", 4096, 32, 131072),
            rope_parameters={"full_attention": {"rope_theta": 1e6}},
            layer_types=["sliding_attention", "full_attention", "linear_attention"],
        ),
        *("#full_attention", "rope-no-section warning"),
    ),
    "sections lost to YaRN": (
        changed(QWEN_VL, rope_scaling=yarn(4.0, 32000)),
        *("", "rope-sections note"),
    ),
}


@pytest.fixture
def findings(tmp_path):
    def read(config, part=""):
        path = tmp_path / "config.json"
        path.write_text(json.dumps(config))
        return load(f"{path}{part}", length=16).findings

    return read


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found_with_a_way_out(name, findings):
    config, part, expected = MISTAKES[name]
    found = {f"{f.code} {f.severity}": f.message for f in findings(config, part)}
    assert expected in found
    message = found[expected]
    assert re.search("; (write|keep|correct|add|make it|leave it) ", message)
    others = {key for key in found if key.endswith("warning")} - {expected}
    assert others <= {"unread-key warning"}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_configs_have_no_mistake(name, findings):
    config = PUBLISHED[name]
    parts = [f"#{layer}" for layer in type_row(config["model_type"]).get("layers", ())]
    for part in parts or [""]:
        try:
            found = findings(config, part)
        except PefourierError:
            continue
        own = {f.code for f in found if f.code in CODES}
        assert own <= {"rope-theta-default"}  # which is as true as it was before there were rules
        assert [f.message for f in found if f.severity != "note"] == []


def test_every_rule_is_made_to_speak():
    said = {expected.split()[0] for _, _, expected in MISTAKES.values()}
    assert CODES <= said


def test_a_scaling_that_reaches_sliding_layers(findings):
    """ModernBERT's rope_scaling reaches both types of layers, Gemma-3's only the full ones."""
    linear = {"rope_type": "linear", "factor": 8.0}
    both = changed(PUBLISHED["answerdotai/ModernBERT-base"], rope_scaling=linear)
    (found,) = (f for f in findings(both, "#sliding_attention") if f.severity == "warning")
    assert found.code == "rope-one-for-all"
    full = [f.code for f in findings(both, "#full_attention")]
    gemma = PUBLISHED["google/gemma-3-4b-it"]["text_config"]
    assert "rope-one-for-all" not in full + [f.code for f in findings(gemma, "#sliding_attention")]


def test_a_scaling_that_is_there_is_not_lost(findings):
    for config in (LLAMA31, moved(LLAMA31), QWEN25, GPT_OSS, DEEPSEEK, PHI3):
        assert "rope-scaling-lost" not in {f.code for f in findings(config)}


def test_a_head_of_another_size_given_is_not_guessed(findings):
    sure = sized("mistral", 5120, 32, 4096, rope_theta=1e6, head_dim=160)
    assert "rope-head-guessed" not in {f.code for f in findings(sure)}


@pytest.mark.parametrize("kind", ["gemma3_text", "gemma3n_text", "olmo3", "ministral3", "mistral4"])
def test_a_config_as_transformers_saves_it_has_no_key_that_is_not_read(kind, findings):
    """Once rope_parameters was said not to be read, and a temperature's scale to have no use."""
    with quiet():
        saved = json.loads(json.dumps(config_class(kind)().to_dict(), default=str))
    parts = [f"#{layer}" for layer in type_row(kind).get("layers", ())]
    for part in parts or [""]:
        codes = {f.code for f in findings(saved, part)}
        assert not codes & {"unread-key", "rope-no-section"}


def test_sections_that_are_not_all_whole_numbers_are_refused(tmp_path):
    """Once told as none."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(within(QWEN_VL, mrope_section=[16, "24", 24])))
    with pytest.raises(PefourierError, match=r"mrope_section of .* finite number; got '24'"):
        load(str(path), 8)
    path.write_text(json.dumps(within(QWEN_VL, mrope_section=[16, 24.5, 23.5])))
    with pytest.raises(
        PefourierError, match=r"mrope_section of .* must be a list of whole numbers"
    ):
        load(str(path), 8)
