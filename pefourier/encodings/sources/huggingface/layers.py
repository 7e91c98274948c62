"""Which layers of a model have which positions? Runs of layers that are alike, from its config.

Keys are those of transformers: ``layer_types`` or the pattern of the model type, ``no_rope_layers``
and ``no_rope_layer_interval``, ``sliding_window``, ``use_sliding_window``, ``max_window_layers``
and ``attention_chunk_size``. A row of `pefourier.encodings.sources.huggingface.config` may say otherwise:
``windows`` [keys, share of the number there that a query sees], ``window`` and ``chunk`` where no
key is set, ``square``, where it is the side of a window of an image, which has whole blocks of so
many patches a side, of so many pixels, each [key, default], ``previous``, keys of how many
tokens before itself a query sees, ``local``, which types of layers have
one, ``slides``, which layers do where ``use_sliding_window`` says so, ``rotation_of``, by which
rotation types of layers turn that have none under their own name, ``indexed`` [key, type of the
layers whose numbers stand there, type of the others, numbers where the key is not set: null for
all], ``coded`` [key of a number for each layer, type of the layers that each stands for],
``every`` [keys of how often a layer of type full_attention comes], ``from_end``, where a
pattern is laid from the last layer on, every so many of which have no positions, ``dense_turn``,
where dense layers at the start turn whatever their type.

Keys that speak of positions by their names are unread where nothing has looked at them. One that is
null, false or empty asks for nothing; some state what the reader knows without them, or what no
model of transformers takes from its config: `HARMLESS`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import cycle, islice
from math import log1p
from typing import Any

from pefourier.encodings.encoding import Encoding, Finding
from pefourier.encodings.findings import finding
from pefourier.encodings.sources.huggingface.config import LONGEST, ModelConfig, type_row
from pefourier.encodings.sources.huggingface.rope import (
    EVIDENCE,
    PAIRED,
    PARAMS,
    layer_sections,
    layers_without_positions,
    rotates,
    turns_by_type,
)
from pefourier.encodings.sources.huggingface.scaling import NAMED, SEEN, TUNED
from pefourier.encodings.sources.json_object import MOST_LAYERS, Section
from pefourier.errors import PefourierError, shown

TYPES = ("layer_types", "layers_block_type", "attention_layers")
LOCAL = ("sliding", "local")  # types of layers with a window have one of these in their names
SLIDING, FULL = "sliding_attention", "full_attention"
WINDOWED = ("window", "windows", "slides", "square")
EVERY = ("sliding_window_pattern", "global_attn_every_n_layers")


@dataclass(frozen=True)
class LayerRun:
    """Layers that are alike."""

    index: tuple[int, ...]  # empty where their number, or which they are, is not known
    kind: str  # rotary, none, or empty: that of the whole model
    part: str  # the type of layer that names its rotation, empty where all have one
    window: int | None  # positions that a query sees; None: all


def layer_schedule(model: ModelConfig) -> list[LayerRun]:
    """Runs of layers in the order of their first; of a model that does not rotate without a kind.

    Where neither config nor model type tells types of layers, all are alike. Of a part that names a
    type of layer only those of that type are told.
    """
    number = model.layers
    rotary = rotates(model)
    sections = layer_sections(model) if rotary else {"": None}
    by_type, called = "" not in sections, model.row.get("rotation_of", {})
    kinds, laid = layer_types(model, number)
    if by_type and not kinds:
        kinds, laid = list(sections), False
    unrotated, dense = layers_without_positions(model, number), dense_layers(model)
    runs: dict[LayerRun, list[int]] = {}
    for i, kind in enumerate(kinds or [""] * max(number, 1)):
        part = called.get(kind, kind) if by_type else ""
        has_rotation = part in sections or not model.row  # others of a known type have no positions
        turns = i < dense or turns_by_type(model, kind)
        turns = turns and rotary and has_rotation and i not in unrotated
        run_kind = "rotary" if turns else "none" if rotary else ""
        run = LayerRun((), run_kind, part if turns else "", window_of(model, kind, i))
        runs.setdefault(run, []).append(i)
    placed = number and laid
    placed_runs = [
        replace(run, index=tuple(index) if placed else ()) for run, index in runs.items()
    ]
    part_runs = [run for run in placed_runs if run.part and run.part == model.part]
    return part_runs if by_type and part_runs else placed_runs


def layer_types(model: ModelConfig, number: int) -> tuple[list[str], bool]:
    """The type of each layer, and whether they stand in order; without a number each type once.

    Empty where there are no types.
    """
    stated = told_types(model.config.values) or by_code(model)
    if stated:
        return (stated[:number], True) if number else (list(dict.fromkeys(stated)), False)
    pattern = model.row.get("layer_types", "")
    if pattern.startswith("irregular: "):  # by a formula of the class, which depends on the number
        return pattern.removeprefix("irregular: ").split(", "), False
    steps = [part.split() for part in pattern.split(",") if part]
    once = [name for name, count in steps for _ in range(int(count))]
    interval = model.config.count(*model.row.get("every", EVERY))
    if interval and FULL in once and len(set(once)) == 2:
        windowed = [next(name for name in once if name != FULL)] * (interval - 1)
        once = [FULL, *windowed] if once[0] == FULL else [*windowed, FULL]
    if "slides" in model.row:
        once = sliding_or_not(model, number) if number else []
    if "indexed" in model.row:
        once = by_index(model, number)
    if not number:
        return list(dict.fromkeys(once)), False
    if model.row.get("from_end"):
        return list(islice(cycle(once[::-1]), number))[::-1], True
    first = [FULL] * min(dense_layers(model), number)
    return ([*first, *islice(cycle(once), number - len(first))] if once else []), True


def by_code(model: ModelConfig) -> list[str]:
    """The type of each layer where a config has a number for each, as DeepSeek-V4's ratios are."""
    key, types = model.row.get("coded", ("", {}))
    codes = model.config.values.get(key)
    if codes is None:
        return []
    if not isinstance(codes, list) or any(str(code) not in types for code in codes):
        raise model.config.wrong(key, codes, f"a list of {', '.join(types)}, one for each layer")
    return [types[str(code)] for code in codes]


def by_index(model: ModelConfig, number: int) -> list[str]:
    """The type of each layer where a config lists the numbers of those of one type."""
    key, listed, other_type, usual = model.row["indexed"]
    entries = model.config.values.get(key)
    entries = usual if entries is None else entries
    if not isinstance(entries, list | None) or any(type(i) is not int for i in entries or ()):
        raise model.config.wrong(key, entries, "a list of numbers of layers")
    return [listed if entries is None or i in entries else other_type for i in range(number)]


def dense_layers(model: ModelConfig) -> int:
    """How many dense layers at the start turn whatever their type, as Cohere's do."""
    keys = ("first_k_dense_replace", "prefix_dense_sliding_window_pattern")
    if "dense_turn" not in model.row or model.config.values.get(keys[1], 1) != 1:
        return 0
    kinds = model.config.values.get("mlp_layer_types")
    if isinstance(kinds, list):
        return next((i for i, kind in enumerate(kinds) if kind != "dense"), len(kinds))
    return model.config.count(keys[0], minimum=0) or 0


def told_types(values: Mapping[str, Any]) -> list[str]:
    """The type of each layer as a config tells it; GPT-Neo's types with how often they repeat."""
    for key in TYPES:
        types = values.get(key)
        if isinstance(types, list) and types and all(isinstance(name, str) for name in types):
            return types
    schedule = []
    for item in values.get("attention_types") or ():
        match item:
            case [[*kinds], int(times)] if all(isinstance(kind, str) for kind in kinds):
                room = MOST_LAYERS - len(schedule)
                schedule += islice(cycle(kinds), max(0, min(len(kinds) * times, room)))
    return schedule


def sliding_or_not(model: ModelConfig, number: int) -> list[str]:
    """The type of each layer where the config has a switch for windows, as Qwen's have."""
    values, row = model.config.values, model.row
    rule, first = row["slides"]
    if rule != "after" and values.get("use_sliding_window") is not True:
        return [FULL] * number
    stated = model.config.count("max_window_layers", minimum=0)
    first = first if stated is None else stated
    unrotated = layers_without_positions(model, number)
    slides = {
        "all": lambda _: True,
        "from": lambda i: i >= first,
        "after": lambda i: i >= first,
        "even": lambda i: i < first and i % 2 == 0,
        "still": lambda i: i in unrotated,
    }[rule]
    return [SLIDING if slides(i) else FULL for i in range(number)]


def window_of(model: ModelConfig, kind: str, layer: int = 0) -> int | None:
    """How many positions a query of a layer sees."""
    values, row = model.config.values, model.row
    if "chunked" in kind:
        return model.config.count("attention_chunk_size") or row.get("chunk")
    local = row.get("local", LOCAL)
    if row and not any(key in row for key in WINDOWED):  # whose class knows no window
        return None
    if (kind or not local) and not any(name in kind for name in local):
        return None
    if not row or row.get("slides", ("after",))[0] != "after":  # of others no class has the switch
        if values.get("use_sliding_window", not row) is False:
            return None
    keys, share = row.get("windows", (("sliding_window",), 1))
    key = next((key for key in keys if key in values), keys[0])
    if key not in values and "square" not in row:
        return row.get("window")
    window = values.get(key, row.get("window"))
    if isinstance(window, list):  # one for each layer
        window = window[layer] if layer < len(window) else None
    size = Section(model.config.label, {key: window}).count(key, minimum=-1) or 0
    if "square" in row:
        block, pixels = (model.config.count(key) or usual for key, usual in row["square"])
        return (max(size, 0) // (block * pixels) * block) ** 2 or None
    size += key in row.get("previous", ())  # tokens before a query, which sees itself, too
    return int(size * share) if size > 0 else None


LLAMA4 = {"attn_temperature_tuning": True, "floor_scale": 8192, "attn_scale": 0.1}


@dataclass(frozen=True)
class Temperature:
    r"""Queries at p are multiplied with :math:`1 + a \ln(1 + \lfloor (p + o)/F \rfloor)`."""

    layers: str  # those without positions, or all
    scale: float  # a
    floor: int  # F, positions
    first: int  # o: what the first position counts as
    largest: float  # at the last position of the length


def read_temperature(model: ModelConfig, length: int) -> Temperature | None:
    """How queries grow with their position; None where they do not."""
    temperature = known_temperature(model)
    if temperature is None:
        return None
    layers, scale, floor_scale, first = temperature
    largest = 1 + scale * log1p((length - 1 + first) // floor_scale)
    return Temperature(layers, scale, floor_scale, first, largest)


def known_temperature(model: ModelConfig) -> tuple[str, float, int, int] | None:
    """Layers, scale, floor and count of the first position, by model type."""
    if model.kind == "llama4_text":
        stated = {key: value for key, value in model.config.values.items() if value is not None}
        filled = Section(model.config.label, {**LLAMA4, **stated})
        if not filled.values["attn_temperature_tuning"]:
            return None
        return "without positions", filled.number("attn_scale"), filled.count("floor_scale"), 1
    key, section = TUNED.get(model.kind), model.config.section(model.rope_key)
    if model.kind == PARAMS:
        key, section = "beta", model.config.section("llama_4_scaling")
    elif not section.values:
        section = Section(model.rope_key, model.row.get("rope", {}))
    scale = section.number(key) if key else None
    before = section.count("original_max_position_embeddings")
    return ("all", scale, before, 0) if scale and before else None


def inverted(model: ModelConfig) -> Iterator[Finding]:
    """Layers without positions that are more than those with, where a model type has few."""
    switches, number = model.config.values.get("no_rope_layers"), model.layers
    step = model.row.get("unrotated", ())
    if not isinstance(switches, list) or not number or len(step) < 2:
        return
    unrotated, usual = sum(not turns for turns in switches), number // (step[1] - step[0])
    if unrotated > max(number / 2, usual):
        details = {"config": model.config.label, "kind": shown(model.kind)}
        yield finding("layers-inverted", unrotated=unrotated, number=number, usual=usual, **details)


def without_global(model: ModelConfig, runs: Sequence[LayerRun], trained: int) -> Iterator[Finding]:
    """Windows in all layers of a model type that has layers which see all."""
    windows = [run.window for run in runs for _ in run.index]
    is_told = FULL in model.row.get("layer_types", "") and told_types(model.config.values)
    if is_told and windows and all(w is not None and w < trained for w in windows):
        details = {"layers": len(windows), "config": model.config.label, "kind": shown(model.kind)}
        details |= {"widest": max(windows), "trained": trained}
        yield finding("layers-no-global", reach=sum(w - 1 for w in windows), **details)


def lint_layers(model: ModelConfig, runs: Sequence[LayerRun], trained: int) -> Iterator[Finding]:
    """Mistakes in the layers of a config, and the rotation of an indexer beside attention's."""
    yield from inverted(model)
    yield from without_global(model, runs, trained)
    if "indexer" in model.row:
        layouts = (model.row["indexer"], model.row.get("layout", "halves"))
        indexed, attended = map(PAIRED.get, layouts)
        yield finding("rope-indexer", indexed=indexed, attended=attended)


OF_POSITIONS = re.compile(
    "rope|rotary|yarn|alibi|position|nope|sliding|window|longrope|ntk_|relative_att|"
    "local_attention|attention_chunk|max_pos"
)
HARMLESS = {*LONGEST} | set(
    """_sliding_window_pattern keep_window_size max_relative_positions model_max_length n_ctx
    num_position_embeddings num_sliding_attention_heads original_max_position_embeddings
    position_id_per_seconds qk_nope_head_dim qk_rope_head_dim rope_interleave
    sliding_window_pattern""".split()
)
MISSPELT = 0.85  # ratio of letters from which on one key is meant for another
SWITCHED_OFF = {"sliding_window", "max_window_layers"}  # where use_sliding_window is false
SCHEDULED = {  # keys that a row's field says how to read
    "slides": ("max_window_layers", "sliding_window"),
    "window": ("sliding_window",),
    "windows": ("sliding_window",),
    "unrotated": ("no_rope_layer_interval",),
    "axial": ("window_size", "use_relative_position_bias", "use_shared_relative_position_bias"),
}
USUAL_WAYS = ("rope", "rotary", "absolute")  # of positions, which say no more than the type does
STATING = (  # keys under which something is said, and the parameter that says it, too
    ("theta|base", "rho"),
    ("dim", "rotated"),
    ("factor|rotary_p|rope_p|fraction", "partial"),
)


def find_unread(model: ModelConfig, outer: Section, enc: Encoding) -> tuple[str, ...]:
    """Keys about positions in a config and around it that nothing has read, in their order."""
    for reader in (read_all_rotations, read_schedule):
        with suppress(PefourierError):  # which those who ask for it are told
            reader(model)
    unrotated, unread_keys = enc.name == "none", set(enc.params.get("unread", ()))
    foreign = (type_row(str(outer.untracked.values.get("model_type"))) or {}).get("beside", ())
    for section in (model.config, outer):
        values = section.untracked.values
        unread = sorted(getattr(section.values, "unread", ()))
        if section is not model.config:  # what other parts of it read
            unread = [key for key in unread if key not in foreign]
        misspelt = {key for key in unread[:SEEN] if near_key(key, values)}
        for key in unread:
            if (key in misspelt or is_about(key, values)) and not states_known(key, values, enc):
                # of no positions: what its keys say of a rotation is switched off
                unread_keys |= set() if unrotated and key in EVIDENCE else {key}
    return tuple(sorted(unread_keys | sections_not_read(model))[:SEEN])


def sections_not_read(model: ModelConfig) -> set[str]:
    """Sections of a rotation that the model type does not read, or not as they are written."""
    row, values = model.row, model.config.untracked.values
    if not row or not rotates(model):
        return set()
    unread, section = set(row.get("unread", ())), values.get(model.rope_key)
    if isinstance(section, dict) and section:
        is_by_layer = any(isinstance(value, dict) for value in section.values())
        untyped = "type" in unread and "type" in section and "rope_type" not in section
        needs_layers = row.get("flat", []) == [] and model.rope_key == "rope_parameters"
        if untyped or (needs_layers and not is_by_layer if "layers" in row else is_by_layer):
            unread.add(model.rope_key)
    return {key for key in unread - {"type"} if values.get(key)}


def read_all_rotations(model: ModelConfig) -> None:
    """Look at the keys of the rotation of every type of layer, not only of one that is named."""
    for _, turns in layer_sections(model).values() if rotates(model) else ():
        for keys in (turns.bases, turns.shares, turns.size):
            if keys:
                model.config.first(*keys)


def read_schedule(model: ModelConfig) -> None:
    """Look at the keys of layers, of windows and of what queries grow by.

    A schedule in which no layer has a window has been told; then a window changes nothing.
    """
    for name in SCHEDULED.keys() & model.row.keys():
        for key in SCHEDULED[name]:
            model.config.values.get(key)
    layer_schedule(model)
    known_temperature(model)
    model.tables()


def states_known(key: str, values: Mapping[str, Any], enc: Encoding) -> bool:
    """Whether a key that is not read states a base or a share which the rotation has anyway."""
    value = values[key]
    return any(re.search(names, key) and value == enc.params.get(name) for names, name in STATING)


def near_key(key: str, values: Mapping[str, Any]) -> list[str]:
    """The key of a rotation that another one is nearly, where it is not set itself."""
    candidates = sorted(EVIDENCE - values.keys())
    return get_close_matches(key[:80], candidates, n=1, cutoff=MISSPELT)


def is_about(key: str, values: Mapping[str, Any]) -> bool:
    """Whether a key asks for something that positions depend on.

    >>> is_about("rope_interval", {"rope_interval": 4}), is_about("alibi", {"alibi": False})
    (True, False)
    """
    value = values[key]
    is_config = isinstance(value, dict) and key.endswith("_config")
    if value in (None, False, "", [], {}) or key in HARMLESS or is_config:
        return False
    if not OF_POSITIONS.search(key):
        return False
    if key == "position_embedding_type":
        return value not in USUAL_WAYS
    return not (key in SWITCHED_OFF and values.get("use_sliding_window") is False)


def note_unread(enc: Encoding, model: ModelConfig, outer: Section) -> Encoding:
    """An encoding that was read from a config, with the keys that were not, each with a finding.

    The first are named, but for those with a finding already.
    """
    unread = find_unread(model, outer, enc)
    values, findings = model.config.untracked.values, []
    messages = " ".join(note.message for note in enc.findings if note.code == "unread-key")
    within = enc.params.get("unread", ())
    for key in [key for key in unread if key not in messages and key not in within][:NAMED]:
        similar = "".join(near_key(key, values))
        details = {"key": shown(key), "value": shown(values.get(key, "…")), "near": similar}
        variant = "misspelt" if similar else "plain"
        findings.append(finding("unread-key", variant, config=model.config.label, **details))
    params = {**enc.params, "unread": unread} if unread else enc.params
    return replace(enc, params=params, findings=(*enc.findings, *findings))
