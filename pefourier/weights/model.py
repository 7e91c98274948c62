"""What is known of a model whose weights are read: its config, rotations, layers and heads."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from pefourier.encodings.encoding import Encoding
from pefourier.encodings.model_positions import (
    ModelPositions,
    describe_positions,
)
from pefourier.encodings.sources.config import HEADS, rotary
from pefourier.encodings.sources.gguf_file import GgufFile
from pefourier.encodings.specs import open_model
from pefourier.errors import PefourierError, shown
from pefourier.files import suffix_of
from pefourier.weights.heads import Attention, HeadSizes, find_heads, known_names
from pefourier.weights.tensors import Tensor, list_tensors

KV_HEADS = "num_key_value_heads num_kv_heads n_kv_heads n_head_kv multi_query_group_num".split()


@dataclass(frozen=True)
class ModelWeights:
    """The tensors of a model, and where its positions are told."""

    label: str
    spec: str  # of its config, or the .gguf file
    tensors: Mapping[str, Tensor]
    gguf: GgufFile | None
    kind: str  # model_type, or the architecture of a GGUF file

    @property
    def plus_one(self) -> bool:
        """Whether norms multiply by 1 + weight."""
        return self.gguf is None and self.kind in known_names()["plus_one"]

    def centred(self, norm: str | None) -> bool:
        """Whether a norm before a projection, None: none with numbers, takes out the mean."""
        if norm is None:
            return self.kind in known_names()["bare"]
        biased = norm.removesuffix("weight") + "bias" in self.tensors
        return biased or self.kind in known_names()["centred"]


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
        file = open_model(path)
        return ModelWeights(shown(path), path, tensors, file, file.architecture)
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    config = os.path.join(folder, "config.json")
    if not os.path.isfile(config):
        raise PefourierError(
            f"{shown(path)} has no config.json beside it, which tells its rotation; put it there"
        )
    config = f"{config}#{part}" if part else config
    return ModelWeights(shown(path), config, tensors, None, open_model(config).model.kind)


def rotations_of_model(spec: str) -> ModelPositions:
    """The positions of a model that turns queries and keys by one position each."""
    turned = describe_positions(spec)
    if not turned.rotations:
        raise PefourierError(
            f"{shown(spec)} does not turn queries and keys by one position each; its positions are "
            f"{turned.layers[0].kind}"
        )
    return turned


def find_sites(
    model: ModelWeights, turned: ModelPositions, layers: range | None = None
) -> list[Site]:
    """The heads of all layers that turn, in their order."""
    runs = turned.layers
    of_layer = {i: run for run in runs for i in run.index}
    if len(runs) > 1 and not of_layer:
        raise PefourierError(
            f"{model.label} does not say which layers turn how; its config needs their number"
        )
    if any(enc.params.get("trailing") for enc in turned.rotations):
        raise PefourierError(
            f"{model.label} turns the last rows of each head, and its keys are its values too, "
            "some of them made of several tokens; what a row does to scores is not in it alone"
        )
    sizes = [sizes_of(model, enc) for enc in turned.rotations]

    def rotation_at(layer: int) -> int | None:
        run = of_layer.get(layer) if of_layer else runs[0]
        is_turned = run is not None and run.kind == "rotary" and (layers is None or layer in layers)
        return turned.parts.index(run.part) if is_turned else None

    def sizes_at(layer: int) -> HeadSizes | None:
        rotation = rotation_at(layer)
        return None if rotation is None else sizes[rotation]

    attentions = find_heads(model.tensors, sizes_at, model.label)
    turning = {i for i in of_layer if sizes_at(i) is not None}
    absent = sorted(turning - {attention.layer for attention in attentions})
    if absent or not attentions:
        raise PefourierError(
            f"{model.label} has no queries and keys of layers "
            f"{', '.join(map(str, absent[:6])) or 'that were asked for'}; fetch all of its files, "
            "or choose among its layers by --layers"
        )
    return [Site(attention, rotation_at(attention.layer)) for attention in attentions]


def sizes_of(model: ModelWeights, enc: Encoding) -> HeadSizes:
    """The sizes of heads that are turned by a rotation."""
    d, kind = int(enc.params["d"]), model.kind
    if model.gguf is not None:
        return gguf_sizes(model, model.gguf, d, 2 * len(enc.measure.frequencies))
    file = open_model(model.spec)
    config, row = file.model.config, file.model.row
    by_type = "layers" in row  # types of layers may have key heads of their own
    keys, usual = (
        rotary(row, next(iter(row.get("layers", {"": {}})))).heads if row else (HEADS, None)
    )
    heads = config.count(*keys, *HEADS) or usual
    kv = None if by_type else config.count(*KV_HEADS)
    grouped = kind in known_names()["grouped"]
    if kind == "falcon":
        new, single = (config.values.get(k) for k in ("new_decoder_architecture", "multi_query"))
        grouped = new is True or single is False
        kv = kv if new is True else 1 if single is not False else heads
    elif grouped:
        kv = heads
    return HeadSizes(kind, d, file.still, heads, kv, grouped)


def gguf_sizes(model: ModelWeights, file: GgufFile, d: int, turned: int) -> HeadSizes:
    """The sizes of heads that the metadata of a .gguf file tell."""
    if any(name.endswith("attn_kv_a_mqa.weight") for name in model.tensors):  # MLA
        wide = file.keys.count("attention.key_length_mla") or d
        heads = file.keys.count("attention.head_count")
        return HeadSizes(model.kind, turned, wide - turned, heads, None)
    if isinstance(file.metadata.get(f"{model.kind}.attention.head_count"), list):
        return HeadSizes(model.kind, d)
    heads, kv = (file.keys.count(f"attention.head_count{end}") for end in ("", "_kv"))
    return HeadSizes(model.kind, d, 0, heads, kv)
