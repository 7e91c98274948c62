"""Write what transformers' model types do with positions into the package: `make models`.

Every configuration class is made with its defaults, its model built without weights, its rotary
modules run: with the defaults, and with one key changed at a time, which tells the keys that count,
in their order, and what stands in for those left out. A row of the file is one model type; keys of
rows are explained in `pefourier.encodings.sources.config`. What running cannot tell stands in the
table by hand beside it.
"""

import json
import re
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from rotary_modules import (
    TYPES,
    Rotations,
    config_class,
    modeling,
    on_meta,
    quiet,
    rotary_classes,
    rotations,
)

SOURCES = Path(__file__).parents[1] / "pefourier" / "encodings" / "sources"
FILE = SOURCES / "models.json"
BY_HAND = json.loads((SOURCES / "models_by_hand.json").read_text())
SWITCHED = {  # keys without which a type does not rotate
    kind: {row["switch"][0]: row["switch"][1][0]}
    for row in BY_HAND
    for kind in row["types"].split()
    if "switch" in row
}
SIZES = (
    *("head_dim", "global_head_dim", "qk_rope_head_dim", "swa_head_dim", "kv_channels"),
    *("attention_head_dim", "d_kv"),
)
BASES = (
    *("rope_theta", "rotary_emb_base", "global_rope_theta", "local_rope_theta"),
    *("rope_local_base_freq", "swa_rope_theta", "compress_rope_theta"),
)
SHARES = ("partial_rotary_factor", "rotary_pct", "rotary_dim")
LENGTHS = (
    *("max_position_embeddings", "n_positions", "max_source_positions", "max_target_positions"),
    *("max_seq_len", "seq_length", "context_length"),
)
ORIGINAL = "original_max_position_embeddings"
PLAIN = {"rope_type": "default"}
RELATIVE = re.compile(
    r"relative_(attention_)?(position_)?(bias|k_proj|coords|embed)|rel_pos|distance_embedding|"
    r"pos_bias_u|linear_pos|rel_logits|emb_rel|rel_embeddings|r_w_bias|rel_attn_embed|"
    r"relative_positions_encoding"
)
TABLE = re.compile(
    r"(^|\.)(wpe|w?pos(ition|itional)?_?(embed(ding)?s?|enc(oding)?)(_layer)?|embed_positions?|"
    r"position_embeddings?)(\.(weights?|embedding|position_embeddings?))?$"
)
CONVOLUTION = re.compile(r"pos_conv_embed")


def changed(kind: str, **edits: Any) -> Any:
    """The configuration of a type with keys set, as a file with only these would give it."""
    with quiet():
        return config_class(kind)(**deepcopy(SWITCHED.get(kind, {}) | edits))


def run(kind: str, module: type, **edits: Any) -> Rotations:
    """The rotations of a changed configuration; none where transformers cannot make them."""
    try:
        return rotations(module, changed(kind, **edits))
    except Exception:  # whatever a class does with a value it does not expect
        return {}


def size(found: Rotations, layer: str) -> int | None:
    """Number of rotated pairs of a type of layer."""
    return len(found[layer][0]) if layer in found else None


def differ(one: Rotations, other: Rotations, layer: str) -> bool:
    """Whether both are there and turn otherwise."""
    return (
        layer in one
        and layer in other
        and not (
            one[layer][1] == other[layer][1] and np.array_equal(one[layer][0], other[layer][0])
        )
    )


def numbers(config: Any) -> dict[str, Any]:
    """Keys of a configuration that hold plain numbers."""
    return {k: v for k, v in vars(config).items() if type(v) in (int, float) and k[0] != "_"}


def size_keys(kind: str, module: type, layer: str, ref: Rotations) -> list[str]:
    """Keys of the size of a head, the one that wins first."""
    own = numbers(changed(kind))
    keys = [
        key for key in SIZES if differ(ref, run(kind, module, **{key: 2 * own.get(key, 20)}), layer)
    ]
    ordered = []
    while len(keys) > 1:
        values = {key: 16 * (3 + i) for i, key in enumerate(keys)}
        both = size(run(kind, module, **values), layer)
        alone = {k: size(run(kind, module, **{k: v}), layer) for k, v in values.items()}
        winner = next((k for k in keys if alone[k] == both and both), keys[0])
        ordered.append(winner)
        keys.remove(winner)
    return ordered + keys


def quotient(
    kind: str, module: type, layer: str, ref: Rotations, given: dict | None = None
) -> dict[str, Any]:
    """Width and number of heads, whose quotient is the size of a head that is not given."""
    row: dict[str, Any] = {}
    config = changed(kind)
    aliases = {own: other for other, own in getattr(config, "attribute_map", {}).items()}
    for key, value in numbers(config).items():
        if key in SIZES or type(value) is not int or value < 2:
            continue
        pairs, before = (
            size(run(kind, module, **{key: 2 * value}, **(given or {})), layer),
            size(ref, layer),
        )
        if pairs is None or pairs == before:
            continue
        names = [key, aliases[key]] if key in aliases else [key]
        row["width" if pairs > before else "heads"] = [names, value]
    return row if len(row) == 2 else {}


def base_keys(kind: str, module: type, layer: str, given: dict) -> list[str]:
    """Keys above the rope parameters that set the base of a type of layer."""
    ref = run(kind, module, **given)
    return [k for k in BASES if differ(ref, run(kind, module, **{k: 777.0}, **given), layer)]


def share_keys(kind: str, module: type, layer: str, ref: Rotations, given: dict) -> list[str]:
    """Keys that set the share of a head to rotate, above the rope parameters."""
    keys = []
    for key in SHARES:
        value = 0.375 if key != "rotary_dim" else 12
        if size(run(kind, module, **{key: value}, **given), layer) not in (None, size(ref, layer)):
            keys.append(key)
    return keys


def rotation(kind: str, module: type, layer: str, nested: bool) -> dict[str, Any]:
    """What sets the rotation of one type of layer."""
    given = {} if nested else {"rope_parameters": PLAIN}
    ref = run(kind, module)
    default = changed(kind).rope_parameters if hasattr(changed(kind), "rope_parameters") else {}
    default = dict((default or {}).get(layer) or {}) if nested else dict(default or {})
    row: dict[str, Any] = {"size": size_keys(kind, module, layer, ref)}
    derived = quotient(kind, module, layer, ref)
    config = changed(kind)
    if derived:
        row |= derived
    elif row["size"]:
        told = (vars(config).get(key) for key in row["size"])
        row["head"] = next((value for value in told if type(value) is int), None)
    row["bases"] = base_keys(kind, module, layer, given)
    row["shares"] = share_keys(kind, module, layer, ref, given)
    told = given_shares(kind, module, layer, ref) if nested and not row["shares"] else {}
    plain = {**default, **told} if nested else bare(kind, default)
    row["base"] = plain.get("rope_theta") or vars(config).get("rope_theta")
    row["share"] = plain.get("partial_rotary_factor") or 1.0
    row["scaled_share"] = plain.pop("scaled", None)
    if not row["shares"] and not counts_share(kind, module, layer, ref, nested, default):
        row["whole"] = True
    if "head" in row and row["size"]:
        row |= where_null(kind, module, layer, ref, row["size"][0])
    usual = {**plain, **PLAIN} if nested else {**PLAIN, **plain}
    if any(usual.get(key) != value for key, value in default.items()):
        row["rope"] = default
    if "width" not in row and row.get("head") is None:
        share = default.get("partial_rotary_factor", row["share"])
        turned = 1.0 if default.get("rope_type") == "proportional" else share
        row["head"] = int(2 * len(ref[layer][0]) / turned)
    return row


def given_shares(kind: str, module: type, layer: str, ref: Rotations) -> dict[str, Any]:
    """Shares of a section that is given without one, unscaled and scaled, where not the default's.

    Where only the scaled one is another, ``scaled`` stands for that.
    """
    sections = deepcopy(changed(kind).rope_parameters)
    if not sections[layer].pop("partial_rotary_factor", None):
        return {}
    whole = []
    for scaling in (PLAIN, {"rope_type": "linear", "factor": 2.0}):
        given = {**sections, layer: {**sections[layer], **scaling}}
        found = run(kind, module, rope_parameters=given)
        whole.append(layer in found and len(found[layer][0]) != np.count_nonzero(ref[layer][0]))
    return {"partial_rotary_factor": 1.0} if all(whole) else {"scaled": 1.0} if whole[1] else {}


def counts_share(
    kind: str, module: type, layer: str, ref: Rotations, nested: bool, default: dict
) -> bool:
    """Whether a share in the rope parameters counts where nothing is scaled."""
    section = {**PLAIN, "partial_rotary_factor": 0.375}
    if nested:
        section = {**changed(kind).rope_parameters, layer: {**default, **section}}
    return differ(ref, run(kind, module, rope_parameters=section), layer)


def where_null(kind: str, module: type, layer: str, ref: Rotations, key: str) -> dict[str, Any]:
    """Whether null for the size of a head asks for the quotient, where nothing for it does not."""
    found = run(kind, module, **{key: None})
    if not differ(ref, found, layer):
        return {}
    return {"null": True, **quotient(kind, module, layer, found, {key: None})}


def bare(kind: str, default: dict) -> dict[str, Any]:
    """The rope parameters that a class makes of none but the type."""
    try:
        return dict(changed(kind, rope_parameters=dict(PLAIN)).rope_parameters)
    except Exception:
        return default


def layout(module: type, config: Any, layer: str) -> str | None:
    """Where the partner of column 0 is: beside it, or half of the columns away.

    The functions of the modeling file are run on unit vectors, queries at position 1 and keys at 0;
    none where they do not agree or take other arguments.
    """
    source = sys.modules[module.__module__]
    told = set()
    for name, function in vars(source).items():
        if not re.match(r"_?apply_(rotary|multimodal|interleaved)", name):
            continue
        try:
            told.add(partner(function, module, config, layer))
        except Exception:
            continue
    return told.pop() if len(told) == 1 else None


def partner(function: Any, module: type, config: Any, layer: str) -> str:
    """What `layout` says, for one function."""
    with quiet():
        made = module(config)
    keys = {"layer_type": layer} if layer else {}
    names = list(function.__code__.co_varnames[: function.__code__.co_argcount])
    turned = []
    for position in (1, 0):
        place = torch.tensor([[position]])
        try:
            waves = made(torch.zeros(1, 1, 4), place, **keys)
        except Exception:
            waves = made(torch.zeros(1, 1, 4), place.expand(3, 1, 1), **keys)
        waves = waves if isinstance(waves, tuple) else (waves,)
        d = 2 * waves[0].shape[-1] if waves[0].is_complex() else waves[0].shape[-1]
        pairs = next(len(b) for n, b in made.named_buffers() if n.endswith("inv_freq"))
        d = 2 * pairs
        basis = torch.eye(d)[None, :, None, :]
        args = (basis, basis.clone()) if "k" in names or "xk" in names else (basis,)
        out = function(*args, *waves)
        turned.append((out[0] if isinstance(out, tuple) else out).reshape(d, -1))
    scores = (turned[0] @ turned[1].T)[0]
    at = [j for j in range(1, d) if abs(scores[j]) > 1e-6]
    return {1: "interleaved", d // 2: "halves"}[at[0]] if len(at) == 1 and d > 2 else "other"


def types_of_layers(config: Any, rotated: list[str]) -> dict[str, Any]:
    """How types of layers are laid out, which of them turn and how far sliding ones look."""
    row: dict[str, Any] = {}
    kinds = vars(config).get("layer_types")
    if isinstance(kinds, list) and len(set(kinds)) > 1:
        laid = runs(kinds)
        row["layer_types"] = (
            laid if laid.count(",") < 5 else "irregular: " + ", ".join(sorted(set(kinds)))
        )
    turned = getattr(config, "no_rope_layers", None)
    if isinstance(turned, list) and 0 in turned:
        row["unrotated"] = [i for i, turns in enumerate(turned) if not turns]
    window = vars(config).get("sliding_window")
    if type(window) is int:
        row["window"] = window
    return row


def runs(kinds: list[str]) -> str:
    """Types of layers in a row with their numbers: ``sliding 5, full 1`` for each period."""
    period = next(
        p for p in range(1, len(kinds) + 1) if all(a == kinds[i % p] for i, a in enumerate(kinds))
    )
    found: list[list] = []
    for kind in kinds[:period]:
        if found and found[-1][0] == kind:
            found[-1][1] += 1
        else:
            found.append([kind, 1])
    return ", ".join(f"{kind} {count}" for kind, count in found)


def rotary_row(kind: str, config: Any, module: type) -> dict[str, Any]:
    """The row of a type whose model turns queries and keys."""
    row: dict[str, Any] = {"kind": "rotary", "module": module.__name__}
    source = module.__module__.removeprefix("transformers.models.").partition(".")[0]
    if source != type(config).__module__.removeprefix("transformers.models.").partition(".")[0]:
        row["of"] = source
    if "Rel" in module.__name__:
        return {**row, "kind": "relative"}
    if getattr(config, "default_rope_type", "default") == "axial" or not in_line(module):
        return {**row, "kind": "axes"}
    found = run(kind, module)
    if not found:
        return {**row, "kind": "unbuilt"}
    layers = [layer for layer in found if layer]
    told = layout(module, config, next(iter(found), ""))
    row["layout"] = told or "unknown"
    if isinstance(getattr(config, "rope_interleave", None), bool):
        row["layout"] = "rope_interleave" if config.rope_interleave else "rope_interleave no"
    row |= of_layers(kind, module, layers, found) if layers else rotation(kind, module, "", False)
    unread = unread_keys(kind, module, found)
    sections = (getattr(config, "rope_parameters", None) or {}).get("mrope_section")
    row |= {"unread": unread, "axes": len(sections or ())}
    return row | lengths(config) | types_of_layers(config, layers)


def of_layers(kind: str, module: type, layers: list[str], found: Rotations) -> dict[str, Any]:
    """The rotation of each type of layer, and of which a section for all takes hold."""
    linear = {"rope_type": "linear", "factor": 2.0}
    scaled = run(kind, module, rope_scaling=linear)
    flat = run(kind, module, rope_parameters={**linear, "rope_theta": 777.0})
    return {
        "layers": {layer: rotation(kind, module, layer, True) for layer in layers},
        "scaled": [layer for layer in layers if differ(found, scaled, layer)],
        "flat": [layer for layer in layers if differ(found, flat, layer)] if flat else None,
    }


def lengths(config: Any) -> dict[str, Any]:
    """The longest sequence, its key, and that of training where a class has one."""
    row: dict[str, Any] = {}
    length = next(((k, v) for k, v in numbers(config).items() if k in LENGTHS), None)
    mapped = getattr(config, "attribute_map", {}).get("max_position_embeddings")
    if mapped in vars(config):
        length = mapped, getattr(config, mapped)
    if length:
        row["length"] = list(length)
    if type(getattr(config, ORIGINAL, None)) is int:
        row["original"] = getattr(config, ORIGINAL)
    return row


def unread_keys(kind: str, module: type, ref: Rotations) -> list[str]:
    """Which of the places and names of a scaling a class does not look at."""

    def moves(**edits: Any) -> bool:
        found = run(kind, module, **edits)
        return not found or any(differ(ref, found, layer) for layer in ref)

    new = {"rope_type": "linear", "factor": 2.0}
    by_layer = {layer: {**new, "rope_theta": 777.0} for layer in ref}
    unread = [
        key
        for key in ("rope_scaling", "rope_parameters")
        if not moves(**{key: new}) and not ("" not in ref and moves(**{key: by_layer}))
    ]
    key = next((key for key in ("rope_scaling", "rope_parameters") if key not in unread), None)
    if key and not moves(**{key: {"type": "linear", "factor": 2.0}}):
        unread.append("type")
    return unread


def in_line(module: type) -> bool:
    """Whether a module is run on positions in a line, not on an image."""
    code = module.forward
    code = getattr(code, "__wrapped__", code)
    names = code.__code__.co_varnames[: code.__code__.co_argcount]
    return "position_ids" in names


def other_row(config: Any) -> dict[str, Any]:
    """The row of a type without a rotation: which positions its model's tensors hold."""
    model = on_meta(config)
    if model is None:
        return {"kind": "unbuilt"}
    names = {re.sub(r"\.\d+\.", ".*.", n): p for n, p in model.named_parameters()}
    fixed = {re.sub(r"\.\d+\.", ".*.", n): p for n, p in model.named_buffers()}
    frozen = {n: p for n, p in names.items() if not p.requires_grad} | fixed
    kinds, row = [], {}
    tables = [n for n, p in names.items() if TABLE.search(n) and p.requires_grad and p.ndim > 1]
    if tables:
        kinds.append("learned")
        row["tables"] = tables[:4]
        first = first_row(model, config)
        if first:
            row["first"] = first
    if any(TABLE.search(n) and p.ndim > 1 for n, p in frozen.items()):
        kinds.append("sinusoidal")
    if any(RELATIVE.search(n) for n in [*names, *fixed]):
        kinds.append("relative")
    if any(CONVOLUTION.search(n) for n in names):
        kinds.append("convolutional")
    for key, name in (("width", "hidden_size"), ("heads", "num_attention_heads")):
        own = getattr(config, "attribute_map", {}).get(name, name)
        value = vars(config).get(own)
        if kinds and type(value) is int:
            row[key] = [[own, name] if own != name else [own], value]
    return {"kind": " ".join(kinds) or "none", **row}


def first_row(model: Any, config: Any) -> int | str | None:
    """The row of a learned table that belongs to position 0, where its module says so."""
    for name, module in model.named_modules():
        if not TABLE.search(name) or not hasattr(module, "weight"):
            continue
        if type(getattr(module, "offset", None)) is int:
            return module.offset
        padding = getattr(module, "padding_idx", None)
        if padding is not None and padding == getattr(config, "pad_token_id", None):
            return "padding"
    return None


def parts_of(config: Any) -> dict[str, Any]:
    """Configurations inside a configuration, and which of them is the text model's."""
    inner = {
        key: getattr(config, key)
        for key in getattr(config, "sub_configs", None) or {}
        if hasattr(getattr(config, key, None), "model_type")
    }
    if not inner:
        return {}
    row: dict[str, Any] = {"parts": {key: value.model_type for key, value in inner.items()}}
    try:
        text = config.get_text_config()
    except ValueError:
        text = inner.get("decoder", config)
    for key, value in inner.items():
        if text is value or (text is not config and holds(value, text)):
            row["text"] = key
    return row


def unusual(config: Any) -> dict[str, Any]:
    """What the default of an inner configuration sets other than its class, of sizes and bases."""
    with quiet():
        usual = type(config)().to_dict()
    own = config.to_dict()
    keys = (*SIZES, *BASES, *SHARES, *LENGTHS, "rope_parameters", "hidden_size", "d_model")
    keys = (*keys, "n_embd", "num_attention_heads", "num_heads", "n_head")
    found = {key: own[key] for key in keys if key in own and own[key] != usual.get(key)}
    sizes = {key: own[key] for key in SIZES if type(own.get(key)) is int}
    return sizes | found if found else {}


def holds(config: Any, wanted: Any) -> bool:
    """Whether a configuration is somewhere inside another."""
    inner = [getattr(config, key, None) for key in getattr(config, "sub_configs", None) or {}]
    return any(one is wanted or holds(one, wanted) for one in inner if one is not None)


def flat(kind: str, text: str) -> bool:
    """Whether keys at the top reach the text model where its own object is left out."""
    for key in ("hidden_size", "num_attention_heads", "max_position_embeddings"):
        try:
            inner = getattr(changed(kind, **{key: 48}), text)
        except Exception:
            continue
        if getattr(inner, key, None) == 48:
            return True
    return False


def row_of(kind: str) -> dict[str, Any]:
    """What is known of a model type."""
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


def short(row: dict[str, Any]) -> dict[str, Any]:
    """A row without what is usual."""
    if "layers" in row:
        row = {**row, "layers": {name: short(own) for name, own in row["layers"].items()}}
    return {
        key: value
        for key, value in row.items()
        if USUAL.get(key, ...) != value and (value not in ([], {}, 0) or key in ("bases", "size"))
    }


def main() -> None:
    """Write the file."""
    torch.set_num_threads(1)
    modeling.cache_clear()
    rows = {}
    for kind in TYPES:
        rows[kind] = short(row_of(kind))
    lines = [f"{json.dumps(kind)}: {json.dumps(row)}" for kind, row in rows.items()]
    version = json.dumps(transformers.__version__)
    FILE.write_text('{"transformers": ' + version + ",\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
