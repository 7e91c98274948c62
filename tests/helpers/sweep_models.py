"""Record tiny random models of any text type of transformers.

Each causal model or encoder is built from its config and runs a forward, and a `generate` of a
left-padded batch of two where the model has one. Each recording is checked against the model's own
config; figures/models.md has the results of all types of transformers 5.23.
"""

import inspect
import re

from rotary_modules import config_class, quiet, torch
from transformers import AutoModel, AutoModelForCausalLM

import pefourier

SMALL = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "intermediate_size": 64,
    "vocab_size": 128,
    "max_position_embeddings": 128,
    "head_dim": 16,
    "n_embd": 64,
    "n_head": 4,
    "n_layer": 2,
    "d_model": 64,
    "num_heads": 4,
    "num_layers": 2,
    "d_kv": 16,
    "d_ff": 64,
    "n_positions": 128,
    "num_local_experts": 4,
    "num_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "sliding_window": 6,
    "rotary_dim": 8,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 16,
    "q_lora_rank": 32,
    "kv_lora_rank": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
# Types that a recording rightly calls different in generate: the first get no ids by the mask, so
# left padding moves their vectors; others get ids from 0, though theirs start after a padding row
EXCEPTIONS = set(
    "bart bigbird_pegasus blenderbot blenderbot-small marian mbart mvp pegasus plbart trocr "
    "camembert data2vec-text roberta roberta-prelayernorm xlm-roberta xlm-roberta-xl".split()
)
TOKENS = 20
NOT_TEXT = re.compile(
    "vision|audio|speech|vit|detr|clip|image|_vl|vl_|omni|wav|whisper|video|seg|depth|codec|former_"
)


def tiny(kind, **more):
    """Return a tiny model of a type, or raise."""
    if NOT_TEXT.search(kind):
        raise ValueError("not text")
    cls = config_class(kind)
    with quiet():
        known = vars(cls()) | {key: 0 for key in getattr(cls, "attribute_map", {})}
        edits = {k: v for k, v in SMALL.items() if k in known} | more
        if known.get("head_dim", 1) is None:
            edits.pop("head_dim", None)
        if known.get("sliding_window", 1) is None:
            edits.pop("sliding_window", None)
        if "qk_rope_head_dim" in known:
            edits.pop("head_dim", None)
        if type(padding := known.get("pad_token_id")) is not int or not 0 <= padding < 128:
            edits["pad_token_id"] = 0
        config = cls(**edits)
        torch.manual_seed(0)
        for auto in (AutoModelForCausalLM, AutoModel):
            if type(config) in auto._model_mapping:
                with torch.device("meta"):
                    model = auto.from_config(config)
                if "input_ids" not in inspect.signature(model.forward).parameters:
                    raise ValueError("not text")
                if sum(p.numel() for p in model.parameters()) > 3e7:
                    raise ValueError("large")
                return auto.from_config(config).eval()
    raise ValueError("no text model")


def batch(padding=0):
    """Return tokens and the mask of a batch whose first row is left-padded."""
    torch.manual_seed(1)
    ids = torch.randint(3, 100, (2, TOKENS))
    mask = torch.ones_like(ids)
    ids[0, :5], mask[0, :5] = padding, 0
    return ids, mask


def checks(model):
    """Return the checks of a forward, and of generated tokens if the model has a cache."""
    ids, mask = batch(model.config.get_text_config().pad_token_id)
    found = {}
    with quiet(), torch.no_grad():
        given = {"input_ids": ids.flip(0)[:1]}
        if "decoder_input_ids" in inspect.signature(model.forward).parameters:
            given["decoder_input_ids"] = given["input_ids"]
        with pefourier.record(model) as seen:
            model(**given)
        found["forward"] = seen.check()
        if hasattr(model, "generate") and model.can_generate():
            with pefourier.record(model) as seen:
                model.generate(
                    input_ids=ids,
                    attention_mask=mask,
                    max_new_tokens=4,
                    min_new_tokens=4,
                    do_sample=False,
                )
            found["generate"] = seen.check()
    return found


def checks_of_type(kind):
    """Return the checks of a type; none if its tiny model cannot be built or run."""
    for more in ({}, {"num_hidden_layers": 4}):  # some types need a layer of each kind
        try:
            return checks(tiny(kind, **more))
        except Exception as error:  # hundreds of classes, which fail for different reasons
            if str(error) != "not text":
                print(kind, type(error).__name__, str(error)[:150], flush=True)
    return {}
