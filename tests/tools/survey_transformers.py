"""Write the positions of transformers' model types into the package: `make models`.

The program builds every configuration class with its defaults, its model without weights, and its
rotary modules. The modules run with the defaults and with one key changed at a time, which shows
the keys that have an effect, their order, and the defaults of missing keys. A row of the file is
one model type; `pefourier.encodings.sources.huggingface.config` explains the keys of rows. Facts
that running cannot show are in the table written by hand next to this file.
"""

import json
import re
import sys
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path

import numpy as np
import torch
import transformers
from rotary_modules import (
    TYPES,
    config_class,
    on_meta,
    quiet,
    rotary_classes,
    rotations,
)

SOURCES = Path(__file__).parents[2] / "pefourier" / "encodings" / "sources/huggingface"
FILE = SOURCES / "models.json"
BY_HAND = json.loads((SOURCES / "models_by_hand.json").read_text())
SWITCHED = {  # keys without which a type does not rotate
    kind: {row["switch"][0]: row["switch"][1][0]}
    for row in BY_HAND
    for kind in row["types"].split()
    if "switch" in row
}
SIZES = (
    "head_dim global_head_dim qk_rope_head_dim swa_head_dim kv_channels attention_head_dim d_kv"
).split()
BASES = (
    "rope_theta rotary_emb_base global_rope_theta local_rope_theta rope_local_base_freq "
    "swa_rope_theta compress_rope_theta"
).split()
SHARES = "partial_rotary_factor rotary_pct rotary_dim".split()
LENGTHS = (
    "max_position_embeddings n_positions max_source_positions max_target_positions "
    "max_seq_len seq_length context_length"
).split()
ORIGINAL = "original_max_position_embeddings"
PLAIN = {"rope_type": "default"}
LINEAR = {"rope_type": "linear", "factor": 2.0}
TABLE = re.compile(
    r"(^|\.)(wpe|w?pos(ition|itional)?_?(embed(ding)?s?|enc(oding)?)(_layer)?|embed_positions?|"
    r"position_embeddings?)(\.(weights?|embedding|position_embeddings?))?$"
)
SIGNS = {  # parts of tensor names that indicate positions
    "relative": re.compile(
        r"relative_(attention_)?(position_)?(bias|k_proj|coords|embed)|rel_pos|distance_embedding|"
        r"pos_bias_u|linear_pos|rel_logits|emb_rel|rel_embeddings|r_w_bias|rel_attn_embed|"
        r"relative_positions_encoding"
    ),
    "convolutional": re.compile(r"pos_conv_embed"),
}


def changed(kind, **edits):
    """Return the configuration of a type with keys set, as from a file with only these keys."""
    with quiet():
        return config_class(kind)(**deepcopy(SWITCHED.get(kind, {}) | edits))


@dataclass(frozen=True)
class Probe:
    """The rotary module of a model type, run with keys set, for one type of layer or all."""

    kind: str
    module: type
    layer: str = ""

    def run(self, **edits):
        """Return the rotations with keys set, or none if transformers cannot build them."""
        try:
            return rotations(self.module, changed(self.kind, **edits))
        except Exception:  # a class may fail in any way on an unexpected value
            return {}

    @cached_property
    def plain(self):
        """Return the rotations of the defaults."""
        return self.run()

    def pairs(self, **edits):
        """Return the number of rotated pairs of the layer with keys set."""
        rotated = self.run(**edits)
        return len(rotated[self.layer][0]) if self.layer in rotated else None

    def moves(self, **edits):
        """Return whether the keys change the rotation of the layer."""
        return self.layer in moved(self.plain, self.run(**edits))


def moved(before, after):
    """Return the types of layers that rotate in both, but differently."""
    return [
        layer
        for layer, (frequencies, factor) in before.items()
        if layer in after
        and not (factor == after[layer][1] and np.array_equal(frequencies, after[layer][0]))
    ]


def numbers(config):
    """Return the keys of a configuration that hold plain numbers."""
    return {k: v for k, v in vars(config).items() if type(v) in (int, float) and k[0] != "_"}


def size_keys(probe):
    """Return the keys of the size of a head, in order of precedence."""
    defaults = numbers(changed(probe.kind))
    keys = [key for key in SIZES if probe.moves(**{key: 2 * defaults.get(key, 20)})]
    ordered = []
    while len(keys) > 1:
        values = {key: 16 * (3 + i) for i, key in enumerate(keys)}
        both = probe.pairs(**values)
        winner = next((k for k in keys if both and probe.pairs(**{k: values[k]}) == both), keys[0])
        ordered.append(winner)
        keys.remove(winner)
    return ordered + keys


def quotient(probe, settings):
    """Return the width and number of heads whose quotient is the default size of a head."""
    row = {}
    config, before = changed(probe.kind), probe.pairs(**settings)
    aliases = {key: alias for alias, key in getattr(config, "attribute_map", {}).items()}
    for key, value in numbers(config).items():
        if key in SIZES or type(value) is not int or value < 2:
            continue
        pairs = probe.pairs(**{key: 2 * value}, **settings)
        if pairs not in (None, before):
            names = [key, aliases[key]] if key in aliases else [key]
            row["width" if pairs > before else "heads"] = [names, value]
    return row if len(row) == 2 else {}


def base_keys(probe, settings):
    """Return the keys outside the rope parameters that set the base of a type of layer."""
    before = probe.run(**settings)
    return [k for k in BASES if probe.layer in moved(before, probe.run(**{k: 777.0}, **settings))]


def share_keys(probe, settings):
    """Return the keys outside the rope parameters that set the rotated share of a head."""
    values = {key: 0.375 if key != "rotary_dim" else 12 for key in SHARES}
    usual = (None, probe.pairs())
    return [k for k, v in values.items() if probe.pairs(**{k: v}, **settings) not in usual]


def rotation(probe, *, nested):
    """Return the settings of the rotation of one type of layer."""
    settings = {} if nested else {"rope_parameters": PLAIN}
    config = changed(probe.kind)
    default = getattr(config, "rope_parameters", None) or {}
    default = dict(default.get(probe.layer) or {} if nested else default)
    row = {"size": size_keys(probe), **quotient(probe, {})}
    if "width" not in row and row["size"]:
        sizes = (vars(config).get(key) for key in row["size"])
        row["head"] = next((value for value in sizes if type(value) is int), None)
    row["bases"] = base_keys(probe, settings)
    row["shares"] = share_keys(probe, settings)
    if nested:
        plain = {**default, **({} if row["shares"] else section_shares(probe))}
    else:
        plain = bare(probe.kind, default)
    row["base"] = plain.get("rope_theta") or vars(config).get("rope_theta")
    row["share"] = plain.get("partial_rotary_factor") or 1.0
    row["scaled_share"] = plain.pop("scaled", None)
    if not row["shares"] and not counts_share(probe, default, nested=nested):
        row["whole"] = True
    if "head" in row:
        row |= where_null(probe, row["size"][0])
    usual = {**plain, **PLAIN} if nested else {**PLAIN, **plain}
    if any(usual.get(key) != value for key, value in default.items()):
        row["rope"] = default
    if "width" not in row and row.get("head") is None:
        share = default.get("partial_rotary_factor", row["share"])
        rotated = 1.0 if default.get("rope_type") == "proportional" else share
        row["head"] = int(2 * probe.pairs() / rotated)
    return row


def section_shares(probe):
    """Return the shares of a section without one, where they differ from the default.

    If only the scaled share differs, the key is ``scaled``.
    """
    sections = deepcopy(changed(probe.kind).rope_parameters)
    section = sections[probe.layer]
    if not section.pop("partial_rotary_factor", None):
        return {}
    usual = (None, np.count_nonzero(probe.plain[probe.layer][0]))
    whole = [
        probe.pairs(rope_parameters={**sections, probe.layer: {**section, **scaling}}) not in usual
        for scaling in (PLAIN, LINEAR)
    ]
    return {"partial_rotary_factor": 1.0} if all(whole) else {"scaled": 1.0} if whole[1] else {}


def counts_share(probe, default, *, nested):
    """Return whether a share in the rope parameters has an effect without a scaling."""
    section = {**PLAIN, "partial_rotary_factor": 0.375}
    if nested:
        sections = changed(probe.kind).rope_parameters
        section = {**sections, probe.layer: {**default, **section}}
    return probe.moves(rope_parameters=section)


def where_null(probe, key):
    """Return whether null for the size of a head requests the quotient, unlike a missing key."""
    null = {key: None}
    return {"null": True, **quotient(probe, null)} if probe.moves(**null) else {}


def bare(kind, default):
    """Return the rope parameters that a class makes from only the type."""
    try:
        return dict(changed(kind, rope_parameters=dict(PLAIN)).rope_parameters)
    except Exception:
        return default


def layout(module, config, layer):
    """Return where the partner of column 0 is: its neighbour, or half of the columns away.

    The functions of the modeling file run on unit vectors, with queries at position 1 and keys at
    0. The result is None if they disagree or have other arguments.
    """
    source = sys.modules[module.__module__]
    layouts = set()
    for name, function in vars(source).items():
        if re.match(r"_?apply_(rotary|multimodal|interleaved)", name):
            with suppress(Exception):
                layouts.add(partner(function, module, config, layer))
    return layouts.pop() if len(layouts) == 1 else None


def partner(function, module, config, layer):
    """Return the layout of one function."""
    with quiet():
        made = module(config)
    keys = {"layer_type": layer} if layer else {}
    pairs = next(len(b) for n, b in made.named_buffers() if n.endswith("inv_freq"))
    basis = torch.eye(d := 2 * pairs)[None, :, None, :]
    vectors = (basis, basis.clone()) if {"k", "xk"} & arguments(function) else (basis,)
    rotated = []
    for position in (1, 0):
        place = torch.tensor([[position]])
        try:
            waves = made(torch.zeros(1, 1, 4), place, **keys)
        except Exception:
            waves = made(torch.zeros(1, 1, 4), place.expand(3, 1, 1), **keys)
        waves = waves if isinstance(waves, tuple) else (waves,)
        out = function(*vectors, *waves)
        rotated.append((out[0] if isinstance(out, tuple) else out).reshape(d, -1))
    scores = (rotated[0] @ rotated[1].T)[0]
    at = [j for j in range(1, d) if abs(scores[j]) > 1e-6]
    return {1: "interleaved", d // 2: "halves"}[at[0]] if len(at) == 1 and d > 2 else "other"


def arguments(function):
    """Return the argument names of a function inside its decorators."""
    code = getattr(function, "__wrapped__", function).__code__
    return set(code.co_varnames[: code.co_argcount])


def types_of_layers(config):
    """Return the order of layer types, those that rotate, and the windows."""
    row = {}
    kinds = vars(config).get("layer_types")
    if isinstance(kinds, list) and len(set(kinds)) > 1:
        laid = period_of(kinds)
        regular = len([*groupby(laid)]) < 6
        row["layer_types"] = laid if regular else sorted(set(kinds))
        row |= {} if regular else {"irregular": True}
    rotated = getattr(config, "no_rope_layers", None)
    if isinstance(rotated, list) and 0 in rotated:
        row["unrotated"] = [i for i, turns in enumerate(rotated) if not turns]
    window = vars(config).get("sliding_window")
    if type(window) is int:
        row["window"] = window
    return row


def period_of(kinds):
    """Return the shortest list of types that is repeated."""
    return next(
        kinds[:p]
        for p in range(1, len(kinds) + 1)
        if all(a == kinds[i % p] for i, a in enumerate(kinds))
    )


def rotary_row(kind, config, module):
    """Return the row of a type whose model rotates queries and keys."""
    row = {"kind": "rotary", "module": module.__name__}
    source = module.__module__.removeprefix("transformers.models.").partition(".")[0]
    if source != type(config).__module__.removeprefix("transformers.models.").partition(".")[0]:
        row["of"] = source
    if "Rel" in module.__name__:
        return {**row, "kind": "relative"}
    if getattr(config, "default_rope_type", "default") == "axial" or (
        "position_ids" not in arguments(module.forward)  # for images
    ):
        return {**row, "kind": "axes"}
    probe = Probe(kind, module)
    if not probe.plain:
        return {**row, "kind": "unbuilt"}
    first = next(iter(probe.plain))
    row["layout"] = layout(module, config, first) or "unknown"
    if isinstance(getattr(config, "rope_interleave", None), bool):
        row["layout"] = "rope_interleave" if config.rope_interleave else "rope_interleave no"
    row |= of_layers(probe) if first else rotation(probe, nested=False)
    sections = (getattr(config, "rope_parameters", None) or {}).get("mrope_section")
    row |= {"unread": unread_keys(probe), "axes": len(sections or ())}
    return row | lengths(config) | types_of_layers(config)


def of_layers(probe):
    """Return the rotation of each type of layer, and the types that a common section sets."""
    layers = [Probe(probe.kind, probe.module, layer) for layer in probe.plain]
    flat = probe.run(rope_parameters={**LINEAR, "rope_theta": 777.0})
    return {
        "layers": {part.layer: rotation(part, nested=True) for part in layers},
        "scaled": moved(probe.plain, probe.run(rope_scaling=LINEAR)),
        "flat": moved(probe.plain, flat) if flat else None,
    }


def lengths(config):
    """Return the longest sequence, its key, and the trained length if a class has one."""
    row = {}
    length = next(((k, v) for k, v in numbers(config).items() if k in LENGTHS), None)
    mapped = getattr(config, "attribute_map", {}).get("max_position_embeddings")
    if mapped in vars(config):
        length = mapped, getattr(config, mapped)
    if length:
        row["length"] = list(length)
    if type(getattr(config, ORIGINAL, None)) is int:
        row["original"] = getattr(config, ORIGINAL)
    return row


def unread_keys(probe):
    """Return the places and names of a scaling that a class ignores."""

    def moves(**edits):
        rotated = probe.run(**edits)
        return not rotated or bool(moved(probe.plain, rotated))

    by_layer = {layer: {**LINEAR, "rope_theta": 777.0} for layer in probe.plain}
    places = ("rope_scaling", "rope_parameters")
    unread = [
        key
        for key in places
        if not moves(**{key: LINEAR}) and ("" in by_layer or not moves(**{key: by_layer}))
    ]
    key = next((key for key in places if key not in unread), None)
    if key and not moves(**{key: {"type": "linear", "factor": 2.0}}):
        unread.append("type")
    return unread


def other_row(config):
    """Return the row of a type without a rotation, from the position tensors of its model."""
    model = on_meta(config)
    if model is None:
        return {"kind": "unbuilt"}
    tensors = {
        re.sub(r"\.\d+\.", ".*.", name): tensor
        for name, tensor in (*model.named_parameters(), *model.named_buffers())
    }
    tables = [name for name, tensor in tensors.items() if TABLE.search(name) and tensor.ndim > 1]
    learned = [name for name in tables if tensors[name].requires_grad]
    kinds, row = [], {}
    if learned:
        kinds.append("learned")
        row["tables"] = learned[:4]
        first = first_row(model, config)
        if first:
            row["first"] = first
    if len(learned) < len(tables):
        kinds.append("sinusoidal")
    kinds += [kind for kind, sign in SIGNS.items() if any(map(sign.search, tensors))]
    for key, name in (("width", "hidden_size"), ("heads", "num_attention_heads")):
        own = getattr(config, "attribute_map", {}).get(name, name)
        value = vars(config).get(own)
        if kinds and type(value) is int:
            row[key] = [[own, name] if own != name else [own], value]
    return {"kind": " ".join(kinds) or "none", **row}


def first_row(model, config):
    """Return the row of a learned table for position 0, if its module defines it."""
    for name, module in model.named_modules():
        if not TABLE.search(name) or not hasattr(module, "weight"):
            continue
        if type(getattr(module, "offset", None)) is int:
            return module.offset
        padding = getattr(module, "padding_idx", None)
        if padding is not None and padding == getattr(config, "pad_token_id", None):
            return "padding"
    return None


def parts_of(config):
    """Return the configurations inside a configuration, and which is the text model's."""
    inner = {
        key: getattr(config, key)
        for key in getattr(config, "sub_configs", None) or {}
        if hasattr(getattr(config, key, None), "model_type")
    }
    if not inner:
        return {}
    row = {"parts": {key: value.model_type for key, value in inner.items()}}
    try:
        text = config.get_text_config()
    except ValueError:
        text = inner.get("decoder", config)
    for key, value in inner.items():
        if holds(value, text):
            row["text"] = key
    return row


def unusual(config):
    """Return the sizes and bases of an inner configuration that differ from its class."""
    with quiet():
        usual = type(config)().to_dict()
    own = config.to_dict()
    keys = (*SIZES, *BASES, *SHARES, *LENGTHS, "rope_parameters", "hidden_size", "d_model")
    keys = (*keys, "n_embd", "num_attention_heads", "num_heads", "n_head")
    found = {key: own[key] for key in keys if key in own and own[key] != usual.get(key)}
    sizes = {key: own[key] for key in SIZES if type(own.get(key)) is int}
    return sizes | found if found else {}


def holds(config, wanted):
    """Return whether a configuration is or contains another."""
    inner = (getattr(config, key, None) for key in getattr(config, "sub_configs", None) or ())
    return config is wanted or any(holds(part, wanted) for part in inner)


def flat(kind, text):
    """Return whether top-level keys reach the text model if its object is missing."""
    for key in ("hidden_size", "num_attention_heads", "max_position_embeddings"):
        with suppress(Exception):
            if getattr(getattr(changed(kind, **{key: 48}), text), key, None) == 48:
                return True
    return False


def row_of(kind):
    """Return the known facts about a model type."""
    try:
        config = changed(kind)
    except Exception:
        return {"kind": "unbuilt"}
    row = parts_of(config)
    if "text" in row:
        row["inner"] = unusual(getattr(config, row["text"]))
        return {"kind": "parts", **row, **({"flat": True} if flat(kind, row["text"]) else {})}
    modules = rotary_classes(config)
    if modules:
        return rotary_row(kind, config, modules[0]) | row
    return other_row(config) | row


USUAL = {
    "size": ["head_dim"],
    "width": [["hidden_size"], None],
    "bases": ["rope_theta"],
    "base": 10000.0,
    "shares": [],
    "share": 1.0,
    "scaled_share": None,
    "layout": "halves",
}


def short(row):
    """Return a row without its usual values."""
    if "layers" in row:
        row = {**row, "layers": {name: short(own) for name, own in row["layers"].items()}}
    return {
        key: value
        for key, value in row.items()
        if USUAL.get(key, ...) != value and (value not in ([], {}, 0) or key in ("bases", "size"))
    }


def main():
    """Write the file."""
    torch.set_num_threads(1)
    lines = [f"{json.dumps(kind)}: {json.dumps(short(row_of(kind)))}" for kind in TYPES]
    version = json.dumps(transformers.__version__)
    FILE.write_text('{"transformers": ' + version + ",\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
