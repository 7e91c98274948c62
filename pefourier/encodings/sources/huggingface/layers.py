"""Derive the positions of each layer of a model from its config, as runs of equal layers.

The keys of transformers are ``layer_types`` or the pattern of the model type, ``no_rope_layers``,
``no_rope_layer_interval``, ``sliding_window``, ``use_sliding_window``, ``max_window_layers`` and
``attention_chunk_size``. A row of a model type (models.json) may differ by these fields:
``windows`` [keys, share of that number that a query sees]; ``window`` and ``chunk``, defaults;
``square``, if a window is a square of an image that consists of whole blocks: patches per side of a
block and pixels per side of a patch, each [key, default]; ``previous``, keys for the number of
tokens before the query; ``beyond``, keys for the first distance without a visible token, plus 1;
``local``, the types of layers with a window; ``slides``, the layers with a window if
``use_sliding_window`` is true; ``rotation_of``, the rotation of types of layers that have no
rotation under their name; ``indexed`` [key, type of the layers that it lists, type of the others,
default list: null for all]; ``coded`` [key of a list with a number per layer, type of layer by
number]; ``every`` [keys for the period of full_attention]; ``from_end``, the period of layers
without positions, counted from the last layer; ``dense_turn``, if dense layers at the start are
rotated whatever their type.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from math import log

from pefourier.encodings.encoding import Finding, finding
from pefourier.encodings.families.absolute import Temperature
from pefourier.encodings.sources.huggingface.config import PAIRED, PARAMS, TUNED, ModelConfig
from pefourier.encodings.sources.json_object import MOST_LAYERS, Section
from pefourier.errors import shown
from pefourier.types import Counts, Values

RECURRENT = ("linear_attention", "mamba", "conv", "recurrent", "kda")  # types without positions
TYPES = ("layer_types", "layers_block_type", "attention_layers")
LOCAL = ("sliding", "local")  # parts of the names of types of layers with a window
SLIDING, FULL = "sliding_attention", "full_attention"
WINDOWED = ("window", "windows", "slides", "square")
EVERY = ("sliding_window_pattern", "global_attn_every_n_layers")


@dataclass(frozen=True)
class LayerRun:
    """Layers with equal positions."""

    index: Counts  # layer numbers; empty if unknown
    kind: str  # rotary, none, or empty for the kind of the whole model
    part: str  # the type of layer that names its rotation; empty if all layers share a rotation
    window: int | None  # positions that a query sees; None: all


def layer_schedule(model: ModelConfig, rotations: Collection[str] | None) -> list[LayerRun]:
    """Return runs of layers in the order of their first layer, without a kind if nothing rotates.

    `rotations` are the types of layers with separate rotations, "" for all layers; None: the model
    does not rotate. If neither config nor model type sets types of layers, all layers are equal. If
    the part names a type of layer, only layers of that type are listed.
    """
    number = model.layers
    rotary, sections = rotations is not None, rotations or ()
    by_type, called = rotary and "" not in sections, model.row.get("rotation_of", {})
    kinds, laid = layer_types(model, number)
    if by_type and not kinds:
        kinds, laid = list(sections), False
    unrotated, dense = layers_without_positions(model, number), dense_layers(model)
    kinds = kinds or [""] * max(number, 1)
    rotating = {kind for kind in set(kinds) if rotates_by_type(model, kind)}
    windows = {kind: windows_of(model, kind, len(kinds)) for kind in dict.fromkeys(kinds)}
    runs: dict[LayerRun, list[int]] = {}
    for i, kind in enumerate(kinds):
        part = called.get(kind, kind) if by_type else ""
        has_rotation = part in sections or not model.row  # else without positions
        rotates = rotary and has_rotation and (i < dense or kind in rotating) and i not in unrotated
        run_kind = "rotary" if rotates else "none" if rotary else ""
        run = LayerRun((), run_kind, part if rotates else "", windows[kind][i])
        runs.setdefault(run, []).append(i)
    placed = number and laid
    placed_runs = [
        replace(run, index=tuple(index) if placed else ()) for run, index in runs.items()
    ]
    part_runs = [run for run in placed_runs if run.part and run.part == model.part]
    return part_runs if by_type and part_runs else placed_runs


def layer_types(model: ModelConfig, number: int) -> tuple[list[str], bool]:
    """Return the type of each layer, and whether the types are in the order of layers.

    Without a number of layers, each type is listed once. Empty if there are no types.
    """
    stated = stated_types(model.values) or by_source(model)
    if stated:
        return (stated[:number], True) if number else (list(dict.fromkeys(stated)), False)
    pattern = model.row.get("layer_types", "")
    if pattern.startswith("irregular: "):  # a formula of the class
        return pattern.removeprefix("irregular: ").split(", "), False
    steps = [part.split() for part in pattern.split(",") if part]
    once = [name for name, count in steps for _ in range(int(count))]
    interval = model.count(*model.row.get("every", EVERY))
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


def by_source(model: ModelConfig) -> list[str]:
    """Return the type of each layer from a list with a number per layer, as in DeepSeek-V4."""
    key, types = model.row.get("coded", ("", {}))
    codes = model.get(key)
    if codes is None:
        return []
    if not isinstance(codes, list) or any(str(code) not in types for code in codes):
        raise model.wrong(key, codes, f"a list of {', '.join(types)}, one for each layer")
    return [types[str(code)] for code in codes]


def by_index(model: ModelConfig, number: int) -> list[str]:
    """Return the type of each layer if a config lists the numbers of the layers of one type."""
    key, listed, other_type, usual = model.row["indexed"]
    entries = model.get(key)
    entries = usual if entries is None else entries
    if not isinstance(entries, list | None) or any(type(i) is not int for i in entries or ()):
        raise model.wrong(key, entries, "a list of layer numbers")
    return [listed if entries is None or i in entries else other_type for i in range(number)]


def dense_layers(model: ModelConfig) -> int:
    """Return the number of dense first layers that rotate whatever their type, as in Cohere."""
    keys = ("first_k_dense_replace", "prefix_dense_sliding_window_pattern")
    if "dense_turn" not in model.row or model.get(keys[1], 1) != 1:
        return 0
    kinds = model.get("mlp_layer_types")
    if isinstance(kinds, list):
        return next((i for i, kind in enumerate(kinds) if kind != "dense"), len(kinds))
    return model.count(keys[0], minimum=0) or 0


def stated_types(values: Values) -> list[str]:
    """Return the type of each layer from a config, including GPT-Neo's types with repetitions."""
    for key in TYPES:
        types = values.get(key)
        if isinstance(types, list) and types and all(isinstance(name, str) for name in types):
            return types
    schedule: list[str] = []
    for item in values.get("attention_types") or ():
        match item:
            case [[*kinds], int(times)] if all(isinstance(kind, str) for kind in kinds):
                room = MOST_LAYERS - len(schedule)
                schedule += islice(cycle(kinds), max(0, min(len(kinds) * times, room)))
    return schedule


def sliding_or_not(model: ModelConfig, number: int) -> list[str]:
    """Return the type of each layer if the config has a switch for windows, as in Qwen."""
    values, row = model.values, model.row
    rule, first = row["slides"]
    if rule != "after" and values.get("use_sliding_window") is not True:
        return [FULL] * number
    stated = model.count("max_window_layers", minimum=0)
    first = first if stated is None else stated
    sliding: Collection[int] = {
        "all": range(number),
        "from": range(first, number),
        "after": range(first, number),
        "even": range(0, first, 2),
        "still": layers_without_positions(model, number),
    }[rule]
    return [SLIDING if i in sliding else FULL for i in range(number)]


def windows_of(model: ModelConfig, kind: str, number: int) -> list[int | None]:
    """Return the number of positions that a query of each layer sees, if all layers have `kind`."""
    values, row = model.values, model.row
    if "chunked" in kind:
        return [model.count("attention_chunk_size") or row.get("chunk")] * number
    everything: list[int | None] = [None] * number
    local = row.get("local", LOCAL)
    if row and not any(key in row for key in WINDOWED):  # the class has no window
        return everything
    if (kind or not local) and not any(name in kind for name in local):
        return everything
    if not row or row.get("slides", ("after",))[0] != "after":  # other classes lack the switch
        if values.get("use_sliding_window", not row) is False:
            return everything
    keys, share = row.get("windows", (("sliding_window",), 1))
    key = next((key for key in keys if key in values), keys[0])
    if key not in values and "square" not in row:
        return [row.get("window")] * number
    window = values.get(key, row.get("window"))
    if isinstance(window, list):  # one per layer
        return [*(seen_of(model, key, w, share) for w in window[:number]), *everything][:number]
    return [seen_of(model, key, window, share)] * number


def seen_of(model: ModelConfig, key: str, window: object, share: float) -> int | None:
    """Return the number of positions that a query sees with a window; None: all."""
    row = model.row
    size = Section(model.label, {key: window}).count(key, minimum=-1) or 0
    if "square" in row:
        block, pixels = (model.count(key) or usual for key, usual in row["square"])
        return int((max(size, 0) // (block * pixels) * block) ** 2) or None
    size += key in row.get("previous", ())  # plus the query itself
    size -= key in row.get("beyond", ())
    return int(size * share) if size > 0 else None


def layers_without_positions(model: ModelConfig, number: int) -> set[int]:
    """Return the layers without positions in a rotary model."""
    row, unrotated = model.row, ("no_rope_layers",)
    keys = (
        row.get("still", unrotated * ("unrotated" in row))
        if row
        else (*unrotated, "layer_rope_theta")
    )
    flags = next(filter(None, map(model.values.get, keys)), None)
    if isinstance(flags, list):  # 1, or a base, if a layer rotates
        return {i for i, rotates in enumerate(flags) if not rotates}
    if "from_end" in row:
        return set(range(number - 1, -1, -row["from_end"]))
    usual = row.get("unrotated", [])
    step = usual[1] - usual[0] if len(usual) > 1 else None
    if usual:
        step = model.count("no_rope_layer_interval") or step
    return set(range(step - 1, number, step)) if usual and step else set(usual)


def rotates_by_type(model: ModelConfig, kind: str) -> bool:
    """Return whether layers of a type rotate.

    Some model types decide by the window: without a window, all layers of EXAONE rotate, and no
    layers of Cohere.
    """
    row = model.row
    if any(name in kind for name in RECURRENT):
        return False
    if "without_window" in row and model.get("sliding_window", ...) is None:
        return bool(row["without_window"] == "all")
    return kind in row.get("turning", [kind])


LLAMA4 = {"attn_temperature_tuning": True, "floor_scale": 8192, "attn_scale": 0.1}


def read_temperature(model: ModelConfig, length: int) -> Temperature | None:
    """Return how queries grow with their position; None if they do not."""
    temperature = known_temperature(model)
    return temperature and temperature.over(length)


def known_temperature(model: ModelConfig) -> Temperature | None:
    """Return the temperature of queries by the model type and the keys of a config."""
    if model.kind == "llama4_text":
        stated = {key: value for key, value in model.values.items() if value is not None}
        filled = Section(model.label, {**LLAMA4, **stated})
        if not filled.values["attn_temperature_tuning"]:
            return None
        scale, floor = filled.number("attn_scale"), filled.count("floor_scale")
        if scale is None or floor is None:
            return None
        return Temperature("without positions", scale, floor, 1)
    if model.kind == "qwen" and model.get("use_logn_attn", True):
        n = model.count("seq_length") or 0
        return Temperature("all", 1 / log(n), n, 1, stepwise=False) if n > 1 else None
    key, section = TUNED.get(model.kind), model.section(model.rope_key)
    if model.kind == PARAMS:
        key, section = "beta", model.section("llama_4_scaling")
    elif not section.values:
        section = Section(model.rope_key, model.row.get("rope", {}))
    scale = section.number(key) if key else None
    before = section.count("original_max_position_embeddings")
    return Temperature("all", scale, before, 0) if scale and before else None


def inverted(model: ModelConfig) -> Iterator[Finding]:
    """Report a majority of layers without positions in a model type that has few."""
    switches, number = model.get("no_rope_layers"), model.layers
    step = model.row.get("unrotated", ())
    if not isinstance(switches, list) or not number or len(step) < 2:
        return
    unrotated, usual = sum(not rotates for rotates in switches), number // (step[1] - step[0])
    if unrotated > max(number / 2, usual):
        details = {"config": model.label, "kind": shown(model.kind)}
        yield finding("layers-inverted", unrotated=unrotated, number=number, usual=usual, **details)


def without_global(model: ModelConfig, runs: Sequence[LayerRun], trained: int) -> Iterator[Finding]:
    """Report windows in all layers of a model type that has layers with full attention."""
    windows = [run.window or trained for run in runs for _ in run.index]  # 0 is no window
    is_stated = FULL in model.row.get("layer_types", "") and stated_types(model.values)
    if is_stated and windows and max(windows) < trained:
        details = {"config": model.label, "kind": shown(model.kind), "trained": trained}
        details |= {"layers": len(windows), "widest": max(windows)}
        yield finding("layers-no-global", reach=sum(windows) - len(windows), **details)


def lint_layers(model: ModelConfig, runs: Sequence[LayerRun], trained: int) -> Iterator[Finding]:
    """Yield findings about mistakes in the layers of a config, and about a rotated indexer."""
    yield from inverted(model)
    yield from without_global(model, runs, trained)
    if "indexer" in model.row:
        layouts = (model.row["indexer"], model.row.get("layout", "halves"))
        indexed, attended = map(PAIRED.get, layouts)
        yield finding("rope-indexer", indexed=indexed, attended=attended)
