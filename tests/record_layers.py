"""Write tests/recorded_layers.json: which layers of each model type turn queries and keys.

Usage: python tests/record_layers.py [TYPE …], six minutes for all. Every model type with a rotation
is built on the meta device by its own code and run on shapes alone; whatever turns queries and keys
(functions of its module with rotary, rotate or rope in their names) notes the layer that calls it.
A record is a letter a layer: R turned, . did not, ? did not finish, of the defaults and of edits of
them. Twelve layers at most, where the type lets one choose.
"""

import contextlib
import inspect
import json
import re
import sys
from pathlib import Path

from rotary_modules import TYPES, models_of, quiet, torch
from survey_transformers import changed
from torch import nn

from pefourier.encodings.sources.models import type_row

FILE = Path(__file__).with_name("recorded_layers.json")
TURNS = re.compile(r"rot(ary|ate)|rope|multimodal")
MAKES = re.compile(r"compute|get_|build|init|permut|validat|standardi")
MIXES = re.compile(r"^(?!.*norm).*(attn|attention|mixer|conv|mamba|temporal|ssm|rec)")
MOST = 12
OWN = {  # settings without which a class cannot be made or run of its defaults
    "hunyuan_v1_dense": {"head_dim": 64},
    "hunyuan_v1_moe": {"head_dim": 64},
    "hunyuan_vl_text": {"head_dim": 64},
    "ministral": {"head_dim": 128},
    "esm": {"vocab_size": 33, "pad_token_id": 1},
    "nemotron": {"num_key_value_heads": 8},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 3, "num_hidden_layers": 6},
    "step3p5": {"sliding_window": 512},
    "bamba": {"attn_layer_indices": [2, 5]},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"] * 3, "num_hidden_layers": 6},
}
GIVEN = {  # inputs beside ids of tokens
    "mllama_text_model": lambda own: {"cross_attention_states": torch.zeros(1, 4, own.hidden_size)},
}


def record(kind, edits):
    """A letter for each layer of a model type with some settings; None where it is not built."""
    own = OWN.get(kind, {}) | edits
    fixed = {"num_hidden_layers", "layer_types"} & own.keys()
    best, settings = None, {}
    for settings in [own] if fixed else [own | {"num_hidden_layers": MOST}, own]:
        try:
            config = changed(kind, **settings)
            config._attn_implementation = "eager"
        except Exception:
            continue
        for cls in models_of(type(config))[:6]:
            for cached in ({}, {"use_cache": False}):
                for failed in (lambda x: x, lambda x: (x, None)):
                    told = letters(kind, cls, config, cached, failed)
                    if told and (best is None or told.count("?") < best.count("?")):
                        best = told
                    if told and "?" not in told:
                        return settings, told
        if best:
            break
    return settings, best


def letters(kind, cls, config, options, failed):
    """What `record` says, of one model class; `failed` makes a layer's output of its input."""
    try:
        with quiet(), torch.device("meta"):
            model = cls(config).eval()
    except Exception:
        return None
    count = config.num_hidden_layers
    layers = next(
        (m for m in model.modules() if isinstance(m, nn.ModuleList) and len(m) == count), ()
    )
    now, seen = [], {}
    for i, layer in enumerate(layers):
        watch(layer, i, now, seen, failed)
    with contextlib.ExitStack() as undo, quiet(), torch.device("meta"), torch.no_grad():
        for name in {type(m).__module__ for m in model.modules()}:
            spy(sys.modules[name], now, seen, undo)
        given = GIVEN[kind](config) if kind in GIVEN else {}
        with contextlib.suppress(Exception):
            model(input_ids=torch.zeros(1, 5, dtype=torch.long), **given, **options)
    return "".join(seen.get(i, "?") for i in range(len(layers)))


def watch(layer, i, now, seen, failed):
    """Note that a layer runs, and that it or what mixes its tokens came to an end."""
    forward = layer.forward

    def own(*args, **kwargs):
        now.append(i)
        try:
            out = forward(*args, **kwargs)
            seen.setdefault(i, ".")
            return out
        except Exception:  # experts choose by numbers, which a shape has not; they come last
            return failed(args[0] if args else kwargs["hidden_states"])
        finally:
            now.pop()

    layer.forward = own
    for name, part in layer.named_children():
        if MIXES.search(name):
            part.register_forward_hook(lambda *_: seen.update({i: seen.get(i, ".")}))


def spy(module, now, seen, undo):
    """Put functions in the place of those that turn, which note the layer that calls them."""
    for name, function in list(vars(module).items()):
        if inspect.isfunction(function) and TURNS.search(name) and not MAKES.search(name):

            def noted(*args, function=function, **kwargs):
                seen.update(dict.fromkeys(now, "R"))
                return function(*args, **kwargs)

            setattr(module, name, noted)
            undo.callback(setattr, module, name, function)


def records(kind):
    """Settings and letters of a model type, of more than one setting where its layers differ."""
    found = [record(kind, {})]
    settings, told = found[0]
    if not told or not set(told) - {"?"}:
        return found
    types = getattr(changed(kind, **settings), "layer_types", None) or []
    if len(set(types)) > 1:
        found.append(record(kind, {**settings, "layer_types": types[::-1]}))
    if "full_attention" in types:
        plain = {"layer_types": ["full_attention"] * len(types), "sliding_window": None}
        found.append(record(kind, {**settings, **plain}))
    if (len(set(types)) > 1 or "." in told) and "layer_types" not in settings:
        found.append(record(kind, {"num_hidden_layers": 7}))
    return [one for one in found if one[1]]


def main():
    """Write the file, or the records of some types into it."""
    torch.set_num_threads(1)
    kinds = sys.argv[1:] or [k for k in TYPES if type_row(k).get("kind") == "rotary"]
    rows = json.loads(FILE.read_text()) if sys.argv[1:] and FILE.exists() else {}
    for kind in kinds:
        try:
            rows[kind] = records(kind)
        except Exception:  # a class that its defaults do not make
            rows[kind] = [({}, None)]
        print(kind, [told for _, told in rows[kind]], flush=True)
    lines = (f"{json.dumps(kind)}: {json.dumps(rows[kind])}" for kind in sorted(rows))
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
