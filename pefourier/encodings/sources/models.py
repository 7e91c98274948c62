"""What does a model type do with positions? A row for each that transformers knows.

``models.json`` is made by running the configuration and modeling classes of transformers (``make
models``; the version stands in it), ``models_by_hand.json`` is what that cannot tell, with sources;
the second wins. Reading a config needs neither transformers nor torch.

Conventions
-----------
``kind`` of a row: rotary, axes (turns on several axes), learned, sinusoidal, alibi, t5, relative
(other biases and vectors of lags), convolutional, mixer (no positions), none (none were found),
parts (has a text model inside), unbuilt (a model cannot be made of the default config). Of a
rotation a row holds what differs from the defaults of `Rotary`; with ``layers`` it has one for each
type of layer. ``ends``: tables beyond which the model refuses input, by side of the model or "" of
both; each a list of sizes, whose sum are its rows (empty: not known here).
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

Sized = tuple[tuple[str, ...], int | None]  # keys of a size, the first that is set, and its default


@dataclass(frozen=True)
class Rotary:
    """How configs of a model type say what one type of layer rotates by."""

    size: tuple[str, ...] = ("head_dim",)  # keys of the size of a head, the first that is set
    head: int | None = None  # the size where no key is set, else width // heads
    times: int = 1  # or a multiple of that
    null: bool = False  # a key that is null asks for width // heads itself
    width: Sized = (("hidden_size",), None)
    heads: Sized = (("num_attention_heads",), None)
    bases: tuple[str, ...] = ("rope_theta",)  # keys of the base, beside rope_theta of the section
    base: float = 10000.0
    shares: tuple[str, ...] = ()  # keys of the share of a head that turns
    share: float = 1.0
    scaled_share: float | None = None  # that of a section with scaling, where it is another
    turned: int | None = None  # dimensions that turn where no key tells a share
    whole: bool = False  # without scaling no share counts
    fixed: bool = False  # nor with one: what size says is what turns
    added: Mapping[str, Any] = field(default_factory=dict)  # by rope_type: keys where none are set
    rope: Mapping[str, Any] = field(default_factory=dict)  # the section where a config has none


@cache
def model_types() -> dict[str, dict[str, Any]]:
    """The row of each model type; ``transformers`` stands for the version.

    >>> model_types()["opt"]["first"]
    2
    """
    here = Path(__file__)
    rows = json.loads(here.with_name("models.json").read_bytes())
    for by_hand in json.loads(here.with_name("models_by_hand.json").read_bytes()):
        for kind in by_hand["types"].split():
            rows[kind] = merge(rows.get(kind, {}), by_hand)
    return rows


def merge(row: dict[str, Any], by_hand: dict[str, Any]) -> dict[str, Any]:
    """A row with what is known by hand, also of its types of layers."""
    layers = {
        name: layer | by_hand.get("layers", {}).get(name, {})
        for name, layer in row.get("layers", {}).items()
    }
    return {**row, **by_hand, **({"layers": layers} if layers else {})}


def type_row(kind: str) -> dict[str, Any] | None:
    """The row of a model type, None where it is not known."""
    return None if kind == "transformers" else model_types().get(kind)


def stand_in(values: Mapping[str, Any]) -> str:
    """The model type that a config of an unknown one is read as: by its architecture or its keys.

    >>> stand_in({"model_type": "kimi_k2", "architectures": ["DeepseekV3ForCausalLM"]})
    'deepseek_v3'
    """
    architectures = values.get("architectures")
    for name in architectures if isinstance(architectures, list) else ():
        stem = re.sub("(For[A-Z]|Model$|LMHead).*", "", name) if isinstance(name, str) else ""
        if (kind := kinds_by_class().get(stem.lower())) is not None:
            return kind
    candidates = (kind for keys, kind in BY_KEYS.items() if all(values.get(key) for key in keys))
    return next(candidates, "")


BY_KEYS = {  # keys that all models with them read alike
    ("kv_lora_rank", "qk_rope_head_dim"): "deepseek_v3",
    ("dim", "n_heads", "n_layers", "rope_theta"): "params.json",
}


@cache
def kinds_by_class() -> dict[str, str]:
    """Model types by the stem of their classes, in lower case; rotary ones have one row each."""
    rows = model_types().items()
    models = {kind: row for kind, row in rows if kind not in ("transformers", "params.json")}
    return {re.sub("[-_.]", "", kind): kind for kind in sorted(models, reverse=True)}


def version() -> str:
    """The version of transformers that the rows were made from."""
    return model_types()["transformers"]


def rotary(row: Mapping[str, Any], layer: str = "") -> Rotary:
    """What a row says of the rotation of a type of layer.

    >>> rotary(type_row("gemma3_text"), "full_attention").base
    1000000.0
    """
    settings = {**row, **row["layers"].get(layer, {})} if "layers" in row else row
    frozen = {key: as_tuple(settings[key]) for key in NAMES & settings.keys()}
    return Rotary(**frozen)


NAMES = {parameter.name for parameter in fields(Rotary)}


def as_tuple(value: Any) -> Any:
    """Lists as tuples, all the way down."""
    return tuple(map(as_tuple, value)) if isinstance(value, list) else value
