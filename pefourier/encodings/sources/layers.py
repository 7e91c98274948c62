"""Which layers of a model have which positions? Runs of layers that are alike, from its config.

Keys are those of transformers: ``layer_types`` or the pattern of the model type, ``no_rope_layers``
and ``no_rope_layer_interval``, ``sliding_window`` and ``attention_chunk_size``.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

from pefourier.encodings.sources.config import ModelConfig, Section, choose_part, read_object
from pefourier.encodings.sources.models import type_row
from pefourier.encodings.sources.rope_config import rotates
from pefourier.errors import shown

COUNTS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers")
RECURRENT = ("linear_attention", "mamba", "conv", "recurrent", "kda")
WINDOWED = {"sliding_attention": "sliding_window", "chunked_attention": "attention_chunk_size"}


@dataclass(frozen=True)
class LayerRun:
    """Layers that are alike."""

    index: tuple[int, ...]  # empty where the config does not say how many layers there are
    kind: str  # rotary, none, or that of the whole model
    part: str  # the type of layer that names its rotation, empty where all have one
    window: int | None  # positions that a query sees; None: all


def open_model(spec: str) -> ModelConfig:
    """The config that a SPEC names, without the part after its ``#`` that chooses a rotation."""
    path = spec.partition("#")[0]
    file = os.path.join(path, "config.json") if os.path.isdir(path) else path
    config, kind, part = choose_part(Section(shown(file), read_object(file)), "")
    return ModelConfig(file, part, config, kind, None, None, type_row(kind) or {})


def read_layers(spec: str, usual: str) -> list[LayerRun]:
    """Runs of layers in the order of their first; `usual` is the kind where none rotates.

    Where neither config nor model type tells types of layers, all are alike.
    """
    model = open_model(spec)
    number = model.config.count(*COUNTS) or 0
    rotary = rotates(model)
    kinds = layer_types(model, number)
    still = unrotated_layers(model, number)
    runs: dict[LayerRun, list[int]] = {}
    for i, kind in enumerate(kinds or [""]):
        turns = rotary and i not in still and turning(model.row, kind)
        own = "rotary" if turns else "none" if rotary else usual
        part = kind if turns and "layers" in model.row else ""
        runs.setdefault(LayerRun((), own, part, window_of(model, kind)), []).append(i)
    return [
        LayerRun(tuple(index) if number else (), run.kind, run.part, run.window)
        for run, index in runs.items()
    ]


def layer_types(model: ModelConfig, number: int) -> list[str]:
    """The type of each layer, empty names where there are no types."""
    told = model.config.values.get("layer_types")
    if isinstance(told, list) and told and all(isinstance(one, str) for one in told):
        return told[:number] if number else list(dict.fromkeys(told))
    pattern = model.row.get("layer_types", "")
    steps = [part.split() for part in pattern.split(",") if part]
    once = [name for name, count in steps for _ in range(int(count))]
    every = model.config.count("sliding_window_pattern")
    if every and {"sliding_attention", "full_attention"} == set(once):
        once = ["sliding_attention"] * (every - 1) + ["full_attention"]
    if not number:
        return list(dict.fromkeys(once))
    return list(islice(cycle(once or [""]), number))


def unrotated_layers(model: ModelConfig, number: int) -> set[int]:
    """Layers without positions in a model whose others rotate."""
    told = model.config.values.get("no_rope_layers")
    if isinstance(told, list) and told:  # 1 where a layer rotates
        return {i for i, turns in enumerate(told) if not turns}
    known = model.row.get("unrotated", [])
    step = model.config.count("no_rope_layer_interval")
    if len(known) > 1:
        step = step or known[1] - known[0]
    return set(range(step - 1, number, step)) if known and step else set(known)


def turning(row: Mapping[str, Any], kind: str) -> bool:
    """Whether layers of a type rotate."""
    return kind not in RECURRENT and kind in row.get("turning", [kind])


def window_of(model: ModelConfig, kind: str) -> int | None:
    """How many positions a query of a layer sees."""
    values = model.config.values
    if kind in WINDOWED:
        return model.config.count(WINDOWED[kind]) or model.row.get("window")
    if kind or values.get("use_sliding_window") is False or values.get("layer_types"):
        return None
    return model.config.count("sliding_window")
