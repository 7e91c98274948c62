"""Configs of small models, written to files."""

import pytest

SMALL = {"num_attention_heads": 2, "num_hidden_layers": 1, "vocab_size": 100, "pad_token_id": 1}
LLAMA = SMALL | {"hidden_size": 64, "rope_theta": 5e5, "max_position_embeddings": 4096}
SECTIONS = {"rope_type": "default", "mrope_section": [4, 6, 6]}
CONFIGS = {
    "llama": LLAMA,
    "mistral": LLAMA,
    "gpt2": {"n_embd": 32, "n_head": 4, "n_layer": 1, "n_positions": 64},
    "roberta": SMALL | {"hidden_size": 32, "max_position_embeddings": 66},
    "opt": SMALL | {"hidden_size": 32, "max_position_embeddings": 64},
    "bloom": {"hidden_size": 64, "n_head": 4, "seq_length": 2048},
    "qwen2_vl": {
        "vision_config": {"spatial_merge_size": 2},
        "text_config": LLAMA
        | {"model_type": "qwen2_vl_text", "head_dim": 32, "rope_scaling": SECTIONS},
    },
}


@pytest.fixture
def config(written):
    """Return a function that writes a config with changes and returns its path."""

    def write(kind, **changes):
        return written({"model_type": kind} | CONFIGS.get(kind, {}) | changes, f"{kind}.json")

    write.llama = LLAMA
    return write
