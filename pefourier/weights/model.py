"""What is known of a model whose weights are read: its config, rotations, layers and heads."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from pefourier.encodings.encoding import Encoding
from pefourier.encodings.families.axes import axis_letters
from pefourier.encodings.model_positions import (
    axis_in,
    layer_runs,
    load_layers,
    positions_of,
    still_dimensions,
)
from pefourier.encodings.sections import AXES
from pefourier.encodings.sources.config import HEADS
from pefourier.encodings.sources.layers import LayerRun, open_model
from pefourier.encodings.sources.models import rotary
from pefourier.encodings.sources.rope_config import trained_as_stated
from pefourier.errors import PefourierError, shown
from pefourier.files import suffix_of
from pefourier.weights.heads import Attention, HeadSizes, find_heads, known_names
from pefourier.weights.tensors import Tensor, list_tensors

KV_HEADS = (
    "num_key_value_heads",
    "num_kv_heads",
    "n_kv_heads",
    "n_head_kv",
    "multi_query_group_num",
)


@dataclass(frozen=True)
class ModelWeights:
    """The tensors of a model, and where its positions are told."""

    label: str
    spec: str  # of its config, or the .gguf file
    tensors: Mapping[str, Tensor]
    part: str
    gguf: bool
    kind: str  # model_type, or the architecture of a GGUF file

    @property
    def plus_one(self) -> bool:
        """Whether norms multiply by 1 + weight."""
        return not self.gguf and self.kind in known_names()["plus_one"]

    def centred(self, norm: str | None) -> bool:
        """Whether a norm before a projection, None: none with numbers, takes out the mean."""
        if norm is None:
            return self.kind in known_names()["bare"]
        biased = norm.removesuffix("weight") + "bias" in self.tensors
        return biased or self.kind in known_names()["centred"]


def config_beside(path: str) -> str | None:
    """The config in a model's folder, or beside a file of weights; None where there is none."""
    folder = path if os.path.isdir(path) else os.path.dirname(path) or "."
    file = os.path.join(folder, "config.json")
    return file if os.path.isfile(file) else None


@dataclass(frozen=True)
class Site:
    """The heads of a layer, and the number of their rotation."""

    attention: Attention
    rotation: int


def open_model_weights(spec: str) -> ModelWeights:
    """The weights that a SPEC names, and the config beside them."""
    path, _, part = spec.partition("#")
    tensors = list_tensors(path)
    if suffix_of(path) == ".gguf":
        from pefourier.encodings.sources.gguf_file import open_gguf

        kind = str(open_gguf(path).metadata.get("general.architecture"))
        return ModelWeights(shown(path), path, tensors, "", True, kind)
    file = config_beside(path)
    if file is None:
        raise PefourierError(
            f"{shown(path)} has no config.json beside it, which tells its rotation; put it there"
        )
    file_spec = f"{file}#{part}" if part else file
    return ModelWeights(shown(path), file_spec, tensors, part, False, open_model(file_spec).kind)


@dataclass(frozen=True)
class Rotations:
    """How a model turns queries and keys: an encoding for each type of layer that turns."""

    own: list[Encoding]  # of several axes with frequencies along the axis of each pair
    runs: list[LayerRun]
    trained: int  # positions; of several axes along the longest
    axes: list[tuple[str, ...]]  # of each pair; empty where there is one
    met: list[np.ndarray]  # positions of training along the axis of each pair

    @property
    def parts(self) -> list[str]:
        """The types of layers that have a rotation of their own."""
        return parts_of(self.runs)

    @property
    def pairs(self) -> list[int]:
        """Pairs of a head by rotation."""
        return [len(enc.measure.frequencies) for enc in self.own]


def rotations_of_model(spec: str) -> Rotations:
    """The rotations of a model.

    Raises
    ------
    PefourierError
        For a model that does not turn queries and keys.
    """
    runs = layer_runs(spec, None)
    parts = parts_of(runs)
    if parts:
        encodings = [load_layers(spec, part, None, None) for part in parts]
        trained = int(min(trained_as_stated(enc.params) or positions_of(enc) for enc in encodings))
        met = [np.full(len(enc.measure.frequencies), trained) for enc in encodings]
        return Rotations(
            encodings, runs, trained, [axes_of_text(spec, enc) for enc in encodings], met
        )
    enc = load_layers(spec, "", None, None)
    if enc.act != "rotate" or enc.measure is None or np.ndim(enc.measure.frequencies) != 2:
        raise PefourierError(
            f"{shown(spec)} does not turn queries and keys; its positions are {runs[0].kind}"
        )
    vectors, sides = enc.measure.frequencies, enc.domain.sides
    axis = np.abs(vectors).argmax(axis=1)
    along = replace(enc.measure, frequencies=np.abs(vectors).max(axis=1), offset=0)
    return Rotations(
        [replace(enc, measure=along)],
        [LayerRun((), "rotary", "", None)],
        max(sides),
        [tuple(axis_letters(len(sides))[i] for i in axis)],
        [np.array(sides)[axis]],
    )


def axes_of_text(spec: str, enc: Encoding) -> tuple[str, ...]:
    """The axis of each pair of a rotation with sections; empty where there are none, or unknown."""
    with suppress(PefourierError):  # of other sections, of which `context` tells
        axis = axis_in(spec, enc)
        return () if axis is None else tuple(f"{AXES}e"[i] for i in axis)
    return ()


def parts_of(runs: Sequence[LayerRun]) -> list[str]:
    """The types of layers that have a rotation of their own, the empty one where all have one."""
    return list(dict.fromkeys(run.part for run in runs if run.kind == "rotary"))


def find_sites(model: ModelWeights, turned: Rotations, layers: range | None = None) -> list[Site]:
    """The heads of all layers that turn, in their order."""
    parts, runs = turned.parts, turned.runs
    of_layer = {i: run for run in runs for i in run.index}
    only = runs[0] if len(runs) == 1 and not runs[0].index else None
    if len(runs) > 1 and not of_layer:
        raise PefourierError(
            f"{model.label} does not say which layers turn how; its config needs their number"
        )
    if any(enc.params.get("trailing") for enc in turned.own):
        raise PefourierError(
            f"{model.label} turns the last rows of each head, and its keys are its values too, "
            "some of them made of several tokens; what a row does to scores is not in it alone, "
            "and reordering it would reorder values"
        )
    sizes = [sizes_of(model, enc) for enc in turned.own]

    def rotation_at(layer: int) -> int | None:
        run = only or of_layer.get(layer)
        return parts.index(run.part) if run is not None and run.kind == "rotary" else None

    def sizes_at(layer: int) -> HeadSizes | None:
        rotation = rotation_at(layer)
        is_chosen = layers is None or layer in layers
        return sizes[rotation] if rotation is not None and is_chosen else None

    attentions = find_heads(model.tensors, sizes_at, model.label, model.part)
    turning = {i for i, run in of_layer.items() if sizes_at(i) is not None}
    absent = sorted(turning - {attention.layer for attention in attentions})
    if absent or not attentions:
        listing = ", ".join(map(str, absent[:6])) + ", …" * (len(absent) > 6)
        asked_layers = f"layers {listing}" if absent else "the layers that were asked for"
        raise PefourierError(
            f"{model.label} has no queries and keys of {asked_layers}; fetch all of its files, or "
            "choose among its layers by --layers"
        )
    return [Site(attention, rotation_at(attention.layer)) for attention in attentions]


def sizes_of(model: ModelWeights, enc: Encoding) -> HeadSizes:
    """The sizes of heads that are turned by a rotation."""
    d, kind = int(enc.params["d"]), model.kind
    if model.gguf:
        return gguf_sizes(model, d, 2 * len(enc.measure.frequencies))
    config = open_model(model.spec)
    values, row = config.config.values, config.row
    if "axial" in row:
        return HeadSizes(kind, d, 0, config.config.count(*HEADS))
    by_type = "layers" in row  # types of layers may have key heads of their own
    keys, usual = (
        rotary(row, next(iter(row.get("layers", {"": {}})))).heads if row else (HEADS, None)
    )
    heads = config.config.count(*keys, *HEADS) or usual
    kv = None if by_type else config.config.count(*KV_HEADS)
    grouped = kind in known_names()["grouped"]
    if kind == "falcon":
        new, single = (values.get(k) for k in ("new_decoder_architecture", "multi_query"))
        grouped = new is True or single is False
        kv = kv if new is True else 1 if single is not False else heads
    elif grouped:
        kv = heads
    return HeadSizes(kind, d, still_dimensions(model.spec), heads, kv, grouped)


def gguf_sizes(model: ModelWeights, d: int, turned: int) -> HeadSizes:
    """The sizes of heads that the metadata of a .gguf file tell."""
    from pefourier.encodings.sources.gguf_file import open_gguf

    file = open_gguf(model.spec)
    heads, kv = (file.count(f"attention.head_count{end}") for end in ("", "_kv"))
    if any(name.endswith("attn_kv_a_mqa.weight") for name in model.tensors):  # MLA
        wide = file.count("attention.key_length_mla") or d
        return HeadSizes(model.kind, turned, wide - turned, heads, None)
    several = isinstance(file.metadata.get(f"{model.kind}.attention.head_count"), list)
    return HeadSizes(model.kind, d, 0, None if several else heads, None if several else kv)
