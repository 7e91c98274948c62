"""Write tests/helpers/recorded_layers.json: the layers of each model type that rotate.

Usage: PYTHONPATH=tests/helpers python tests/tools/record_layers.py It takes six minutes. Every
model type with a rotation is built on the meta device by its source code and run on shapes only.
The functions that rotate queries and keys (functions of its module with rotary, rotate or rope in
their names) record the layer that calls them. A record has one letter for each layer: R rotated, .
did not rotate, ? did not finish, for the defaults and for changed settings. It has at most twelve
layers where the type allows a choice.
"""

import contextlib
import inspect
import json
import re
import sys
from itertools import product
from pathlib import Path
from unittest import mock

import numpy as np
from rotary_modules import TYPES, models_of, quiet, torch
from survey_transformers import changed
from torch import nn

from pefourier.encodings.sources.huggingface import type_row

FILE = Path(__file__).parents[1] / "helpers" / "recorded_layers.json"
TURNS = re.compile(r"rot(ary|ate)|rope|multimodal")
MAKES = re.compile(r"compute|get_|build|init|permut|validat|standardi")
MIXES = re.compile(r"^(?!.*norm).*(attn|attention|mixer|conv|mamba|temporal|ssm|rec)")
MOST = 12
HALF = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}
OWN = {  # settings without which a class cannot be built or run
    "hunyuan_v1_dense": {"head_dim": 64},
    "hunyuan_v1_moe": {"head_dim": 64},
    "hunyuan_vl_text": {
        "head_dim": 64,
        "rope_parameters": {"rope_theta": 1e4, "rope_type": "default", "mrope_section": [8] * 4},
    },
    "ministral": {"head_dim": 128},
    "esm": {"vocab_size": 33, "pad_token_id": 1},
    "nemotron": {"num_key_value_heads": 8},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 3, "num_hidden_layers": 6},
    "step3p5": {"sliding_window": 512},
    "bamba": {"attn_layer_indices": [2, 5]},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"] * 3, "num_hidden_layers": 6},
    "chameleon": {"vocabulary_map": {"<image>": 4}},
    "deepseek_ocr2_text": {"mlp_layer_types": ["dense"] * 6, "num_hidden_layers": 6},
    "diffusion_gemma_text": {"num_experts": 8, "top_k_experts": 2, "moe_intermediate_size": 64},
    "dots1": {"n_routed_experts": 8, "n_shared_experts": 1},
    **{
        kind: {"head_dim": 128, "rope_parameters": HALF}
        for kind in ("glm4v_moe_text", "glm4v_text", "glm_image_text")
    },
    "moonshine_streaming": {"num_key_value_heads": 8},
    "qwen4_exp_text": {
        **{"indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 256},
        **{"indexer_budget": 64, "indexer_compress_ratio": 4},
    },
    "t5gemma2_text": {"dropout_rate": 0.0},
}
POCKET = ("pocket_tts_audio_tokenizer", "pocket_tts_audio_tokenizer_encoder")
SMALL = {  # small sizes of models that depend on numbers, such as experts, and run on the CPU
    "jetmoe": {"hidden_size": 64, "kv_channels": 16, "num_key_value_heads": 2, "vocab_size": 50}
    | {"num_local_experts": 2, "intermediate_size": 32, "num_hidden_layers": 3},
    "longcat_flash": {"hidden_size": 64, "ffn_hidden_size": 64, "expert_ffn_hidden_size": 32}
    | {"num_layers": 3, "vocab_size": 50, "n_routed_experts": 4, "moe_topk": 2}
    | {"num_attention_heads": 4, "kv_lora_rank": 16, "q_lora_rank": 16, "zero_expert_num": 2},
    "dbrx": {"d_model": 64, "n_heads": 4, "n_layers": 3, "vocab_size": 50, "max_seq_len": 64}
    | {"attn_config": {"rope_theta": 10000.0, "kv_n_heads": 2, "clip_qkv": 8.0}}
    | {"ffn_config": dict(hidden_size=64, ffn_hidden_size=32, moe_num_experts=2, moe_top_k=1)},
    "higgs_audio_v2": {"hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 4}
    | {"num_hidden_layers": 3, "vocab_size": 50, "head_dim": 16, "num_key_value_heads": 2}
    | {"pad_token_id": 1},
    **{kind: {"num_hidden_layers": 3} for kind in ("mimi", "mimi_encoder", *POCKET)},
}
COUNT = {"longcat_flash": "num_layers", "hrm_text": "num_layers_per_stack"}  # layers that run twice
ONLY = {"moonshine_streaming": "MoonshineStreamingDecoder"}  # models whose encoder comes first
GIVEN = {  # inputs in addition to the first
    "mllama_text_model": lambda own: {"cross_attention_states": torch.zeros(1, 4, own.hidden_size)},
    "blt_local_decoder": lambda own: {"patch_embeds": torch.zeros(1, 5, own.hidden_size_global)},
    "deepseek_ocr2_encoder": lambda _own: {"num_patches": 2},
    "dia_decoder": lambda own: {
        "input_ids": torch.zeros(1, 5, own.num_channels, dtype=torch.long),
        "encoder_hidden_states": torch.zeros(1, 4, own.cross_hidden_size),
    },
    "dots3_note_audio_encoder": lambda own: {
        "input_features": torch.zeros(1, own.feature_size, 3000),
        "chunk_sample_lengths": torch.zeros(1, dtype=torch.long),
    },
    "qwen2_5_omni_dit": lambda own: {
        "hidden_states": torch.zeros(1, 8, own.mel_dim),
        "condition_vector": torch.zeros(1, 8, own.mel_dim),
        "speaker_embedding": torch.zeros(1, 8, own.enc_emb_dim),
        "quantized_code": torch.zeros(1, 4, dtype=torch.long),
        "time_step": torch.zeros(1),
    },
    "lasr_encoder": lambda own: {"input_features": torch.zeros(1, 99, own.num_mel_bins)},
    "muse_glimmer_assistant": lambda own: {
        "noise_embeds": torch.zeros(1, 5, own.hidden_size),
        "context_hidden_states": torch.zeros(1, 5, 33280),
    },
    "idefics": lambda own: {
        "image_encoder_embeddings": torch.zeros(1, 1, 4, own.vision_config.embed_dim),
        "image_attention_mask": torch.zeros(1, 5, 1),
    },
    "moonshine_streaming": lambda own: {
        "encoder_hidden_states": torch.zeros(1, 4, own.hidden_size)
    },
    "neucodec": lambda _own: {"input_features": torch.zeros(1, 99, 160)},
    "xcodec2": lambda _own: {"input_features": torch.zeros(1, 50, 160)},
    "kyutai_speech_to_text": lambda own: {
        "input_ids": torch.zeros(1, 5, own.num_codebooks + 1, dtype=torch.long)
    },
}
FIRST = {  # first inputs by the name of the argument, tried in this order
    "input_ids": lambda _own: torch.zeros(1, 5, dtype=torch.long),
    "inputs_embeds": lambda own: torch.zeros(1, 5, own.hidden_size),
    "input_features": lambda own: torch.zeros(1, own.num_mel_bins, 3000),
    "input_values": lambda _own: torch.zeros(1, 1, 16000),
    "past_values": lambda _own: torch.zeros(1, 512),
    "latents": lambda own: torch.zeros(1, 5, own.hidden_size),
}
FAILED = (lambda x: x, lambda x: (x, None))  # outputs of a layer that did not finish, by its input
NOUGHT = {  # values read from a tensor that the meta device does not have
    "__bool__": lambda _x: False,
    "item": lambda _x: 0,
    "tolist": lambda x: np.zeros(x.shape, int).tolist(),
}


def record(kind, edits):
    """Return a letter for each layer of a model type with some settings, or None."""
    own = OWN.get(kind, {}) | SMALL.get(kind, {}) | edits
    fixed = {"num_hidden_layers", "num_layers", "n_layers", "layer_types"} & own.keys()
    best, settings = None, {}
    for settings in [own] if fixed else [own | {"num_hidden_layers": MOST}, own]:
        try:
            config = changed(kind, **settings)
            config._attn_implementation = "eager"
        except Exception:
            continue
        models = [c for c in models_of(type(config)) if c.__name__ == ONLY.get(kind, c.__name__)]
        for cls, options, failed in product(models[:6], ({}, {"use_cache": False}), FAILED):
            row = letters(kind, cls, config, options, failed)
            if row and (best is None or row.count("?") < best.count("?")):
                best = row
            if best and "?" not in best:
                return settings, best
        if best:
            break
    return settings, best


def letters(kind, cls, config, options, failed):
    """Return the letters of one model class; `failed` makes a layer's output from its input."""
    device = "cpu" if kind in SMALL else "meta"
    try:
        with quiet(), torch.device(device):
            model = cls(config).eval()
    except Exception:
        return None
    count = getattr(config, COUNT.get(kind, "num_hidden_layers"))
    layers = next(
        (m for m in model.modules() if isinstance(m, nn.ModuleList) and len(m) == count), ()
    )
    now, seen = [], {}
    for i, layer in enumerate(layers):
        watch(layer, i, now, seen, failed)
    with contextlib.ExitStack() as undo, quiet(), torch.device(device), torch.no_grad():
        for name, nought in NOUGHT.items() if device == "meta" else ():
            undo.enter_context(mock.patch.object(torch.Tensor, name, nought))
        for kept in {type(m) for m in model.modules()}:
            spy(sys.modules[kept.__module__], now, seen, undo)
            spy(kept, now, seen, undo)
        taken = inspect.signature(model.forward).parameters
        more = GIVEN[kind](config) if kind in GIVEN else {}
        for first in [n for n in FIRST if n in taken and n not in more] or [""]:
            with contextlib.suppress(Exception):
                model(**({first: FIRST[first](config)} if first else {}), **more, **options)
    return "".join(seen.get(i, "?") for i in range(len(layers)))


def watch(layer, i, now, seen, failed):
    """Record that a layer runs, and that the layer or its mixer finished."""
    forward = layer.forward

    def own(*args, **kwargs):
        now.append(i)
        try:
            out = forward(*args, **kwargs)
            seen.setdefault(i, ".")
            return out
        except Exception:  # experts are chosen by numbers, which a shape lacks; they come last
            return failed(args[0] if args else kwargs["hidden_states"])
        finally:
            now.pop()

    layer.forward = own
    for name, part in layer.named_children():
        if MIXES.search(name):
            part.register_forward_hook(lambda *_: seen.update({i: seen.get(i, ".")}))


def spy(place, now, seen, undo):
    """Replace the functions that rotate by ones that record the calling layer."""
    for name, kept in list(vars(place).items()):
        function = getattr(place, name) if isinstance(kept, staticmethod) else kept
        if inspect.isfunction(function) and TURNS.search(name) and not MAKES.search(name):

            def noted(*args, function=function, **kwargs):
                seen.update(dict.fromkeys(now, "R"))
                return function(*args, **kwargs)

            setattr(place, name, type(kept)(noted) if function is not kept else noted)
            undo.callback(setattr, place, name, kept)


def records(kind):
    """Return settings and letters of a model type, for several settings if layers differ."""
    found = [record(kind, {})]
    settings, letters_of = found[0]
    if not letters_of or not set(letters_of) - {"?"}:
        return found
    types = getattr(changed(kind, **settings), "layer_types", None) or []
    if len(set(types)) > 1:
        found.append(record(kind, {**settings, "layer_types": types[::-1]}))
    if "full_attention" in types:
        plain = {"layer_types": ["full_attention"] * len(types), "sliding_window": None}
        found.append(record(kind, {**settings, **plain}))
    if (len(set(types)) > 1 or "." in letters_of) and "layer_types" not in settings:
        found.append(record(kind, {"num_hidden_layers": 7}))
    return [one for one in found if one[1]]


def main():
    """Write the file."""
    torch.set_num_threads(1)
    rows = {}
    for kind in [k for k in TYPES if type_row(k).get("kind") == "rotary"]:
        try:
            rows[kind] = records(kind)
        except Exception:  # a class that its defaults do not build
            rows[kind] = [({}, None)]
        print(kind, [row for _, row in rows[kind]], flush=True)
    lines = (f"{json.dumps(kind)}: {json.dumps(rows[kind])}" for kind in rows)
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
