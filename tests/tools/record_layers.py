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
import tomllib
from itertools import product
from operator import attrgetter
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
OF = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
FAILED = (lambda x: x, lambda x: (x, None))  # outputs of a layer that did not finish, by its input
NOUGHT = {  # values read from a tensor that the meta device does not have
    "__bool__": lambda _x: False,
    "item": lambda _x: 0,
    "tolist": lambda x: np.zeros(x.shape, int).tolist(),
}


def record(kind, edits):
    """Return a letter for each layer of a model type with some settings, or None."""
    own = OF["own"].get(kind, {}) | OF["small"].get(kind, {}) | edits
    fixed = {"num_hidden_layers", "num_layers", "n_layers", "layer_types"} & own.keys()
    best, settings = None, {}
    for settings in [own] if fixed else [own | {"num_hidden_layers": MOST}, own]:
        try:
            config = changed(kind, **settings)
            config._attn_implementation = "eager"
        except Exception:
            continue
        models = [
            c for c in models_of(type(config)) if c.__name__ == OF["only"].get(kind, c.__name__)
        ]
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
    device = "cpu" if kind in OF["small"] else "meta"
    try:
        with quiet(), torch.device(device):
            model = cls(config).eval()
    except Exception:
        return None
    count = getattr(config, OF["count"].get(kind, "num_hidden_layers"))
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
        more = OF["given"].get(kind, {})
        for first in [n for n in OF["first"] if n in taken and n not in more] or [""]:
            shapes = more | ({first: OF["first"][first]} if first else {})
            with contextlib.suppress(Exception):
                model(**{name: zeros(name, at, config) for name, at in shapes.items()}, **options)
    return "".join(seen.get(i, "?") for i in range(len(layers)))


def zeros(name, shape, config):
    """Return an input of a shape, which may name sizes of the configuration; numbers are kept."""
    if not isinstance(shape, list):
        return shape
    sizes = [attrgetter(n)(config) if isinstance(n, str) else n for n in shape]
    is_whole = name.endswith(("_ids", "_code", "_lengths"))
    return torch.zeros(sizes, dtype=torch.long if is_whole else torch.float)


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
