"""Any number in a file ends in an answer or in one error line."""

import json
from contextlib import suppress
from itertools import product

import numpy as np
import pytest
from stored import gguf_bytes

from pefourier.encodings import load
from pefourier.encodings.loader import open_model
from pefourier.errors import PefourierError

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
