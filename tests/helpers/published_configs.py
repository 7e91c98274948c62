"""Configs of real models, as published on the Hugging Face hub.

Each config is named by its repository and has only the keys about positions.
"""

import json
from pathlib import Path

PUBLISHED = json.loads(Path(__file__).with_suffix(".json").read_text())


def sized(kind, width, heads, length, **own):
    """Return a config with the keys that nearly all models have."""
    return {
        "model_type": kind,
        "hidden_size": width,
        "num_attention_heads": heads,
        "max_position_embeddings": length,
        **own,
    }


# a model of two small layers
SMALL_LLAMA = sized("llama", 64, 4, 128, num_hidden_layers=2, vocab_size=10)


def yarn(factor, original, **own):
    return {"type": "yarn", "factor": factor, "original_max_position_embeddings": original, **own}
