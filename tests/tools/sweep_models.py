"""Record tiny random models of every text type of transformers: figures/models.md.

Usage: PYTHONPATH=tests/helpers python tests/tools/sweep_models.py It builds each causal model and
encoder from its config, runs a forward, and a `generate` of a left-padded batch of two where the
model has one, and checks each recording against the model's own config.
"""

import inspect
import re
import sys
from pathlib import Path

from rotary_modules import TYPES, config_class, quiet, torch
from transformers import AutoModel, AutoModelForCausalLM

import pefourier

FILE = Path(__file__).parents[2] / "figures" / "models.md"
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
PADDED = "generate does not pass ids by the mask to this type, so left padding moves its vectors"
FROM_ZERO = "generate passes ids from 0 to a type whose ids start after the padding row"
EXCEPTIONS = {  # types that a recording rightly calls different in generate
    **dict.fromkeys(
        "bart bigbird_pegasus blenderbot blenderbot-small marian mbart mvp pegasus plbart "
        "trocr".split(),
        PADDED,
    ),
    **dict.fromkeys(
        "camembert data2vec-text roberta roberta-prelayernorm xlm-roberta xlm-roberta-xl".split(),
        FROM_ZERO,
    ),
}
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


def rows_of_faults():
    """Yield a row for each kind of planted fault: how many types have it, and are told it."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "recording"))
    from test_record import FAULTY, batch, codes, planted

    found = {}
    for kind in FAULTY:
        for name, wanted, seen in planted(tiny(kind), batch()[0][1:]):
            named, verdict = codes(seen)
            is_right = bool(named & wanted) if wanted else verdict == "as expected"
            found.setdefault(name, []).append(is_right)
    yield from (f"| {name} | {len(x)} | {sum(x)} |" for name, x in found.items())


def main(kinds):
    """Write the tables of models and of faults that are planted in twenty of them."""
    torch.set_num_threads(1)
    rows = []
    for kind in kinds or TYPES:
        found = checks_of_type(kind)
        for what, check in found.items():
            reason = EXCEPTIONS.get(kind, "") if check.verdict == "different" else ""
            if check.verdict == "partly seen":
                unseen = [g.seen[-1] for g in check.layers if g.verdict == "partly seen"]
                reason = "; ".join(dict.fromkeys(unseen))
            rows.append(
                f"| {kind} | {what} | {len(set().union(*(g.layers for g in check.layers)))} "
                f"| {check.verdict} | {reason} |"
            )
            print(kind, what, str(check).replace("\n", " "), flush=True)
    if not kinds:
        FILE.write_text(
            "| type | run | layers seen | verdict | reason |\n| --- | --- | --- | --- | --- |\n"
            + "\n".join(rows)
            + "\n\n| planted | types | named (right: as expected) |\n| --- | --- | --- |\n"
            + "\n".join(rows_of_faults())
            + "\n"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
