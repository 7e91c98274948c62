"""Configs of real models as they are published on the Hugging Face hub: the keys that matter.

Each is named by its repository; keys that say nothing of positions are left out.
"""

import json
from pathlib import Path

PUBLISHED = json.loads(Path(__file__).with_suffix(".json").read_text())


def sized(kind, width, heads, length, **own):
    """A config with the keys that nearly all have."""
    return {
        "model_type": kind,
        "hidden_size": width,
        "num_attention_heads": heads,
        "max_position_embeddings": length,
        **own,
    }


def yarn(factor, original, **own):
    return {"type": "yarn", "factor": factor, "original_max_position_embeddings": original, **own}
