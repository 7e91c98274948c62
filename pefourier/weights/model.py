"""Open the weights of a model and measure the energy of its query and key rows.

Rows are read once, with gains multiplied in.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pefourier.encodings.encoding import Encoding
from pefourier.encodings.model_positions import (
    ModelPositions,
    describe_positions,
)
from pefourier.encodings.sources.gguf_file import GgufFile, open_gguf
from pefourier.encodings.sources.huggingface import ModelFile, open_config
from pefourier.errors import PefourierError, shown
from pefourier.types import Floats, Ints, Strings, frozen
from pefourier.weights.heads import (
    Attention,
    HeadSizes,
    Projection,
    Tensors,
    find_heads,
    known_names,
)
from pefourier.weights.tensors import Tensor, base_of, is_adapter, list_tensors, merged_tensors
from pefourier.writing.files import inside, is_folder, split_spec, suffix_of

AT_ONCE = 2**18  # numbers of a tensor in memory at a time; threads rarely wait
Scale = Callable[[int, int], NDArray[np.float32]]  # of the rows between two row numbers
KV_HEADS = "num_key_value_heads num_kv_heads n_kv_heads n_head_kv multi_query_group_num".split()


@frozen
class ModelWeights:
    """The tensors of a model, and the file that describes its positions."""

    label: str
    tensors: Mapping[str, Tensor]
    file: ModelFile | GgufFile

    @property
    def kind(self) -> str:
        """Return the model_type, or the architecture of a GGUF file."""
        return self.file.kind

    @property
    def plus_one(self) -> bool:
        """Return whether norms multiply by 1 + weight."""
        return isinstance(self.file, ModelFile) and self.kind in known_names()["plus_one"]

    def centred(self, norm: str | None) -> bool:
        """Return whether a norm subtracts the mean of its input; None: a norm without gains."""
        if norm is None:
            return self.kind in known_names()["bare"]
        biased = norm.removesuffix("weight") + "bias" in self.tensors
        return biased or self.kind in known_names()["centred"]


def open_model_weights(spec: str, base: str | None = None) -> ModelWeights:
    """Open the weights that a SPEC names, and the config in the same folder.

    For a PEFT adapter, these are the weights of its base, merged with the adapter.
    """
    path, part = split_spec(spec)
    if is_adapter(path):
        base = base_of(path, base)
        return replace(
            open_model_weights("#".join(filter(None, (base, part)))),
            label=shown(path),
            tensors=merged_tensors(path, base),
        )
    if base is not None:
        raise PefourierError(f"{shown(path)} is no PEFT adapter; leave out --base")
    tensors = list_tensors(path)
    if suffix_of(path) == ".gguf":
        return ModelWeights(shown(path), tensors, open_gguf(path))
    config = inside(path if is_folder(path) else os.path.split(path)[0], "config.json")
    if not Path(config).is_file():
        raise PefourierError(
            f"{shown(path)} needs a config.json in its folder, which sets the model's rotation"
        )
    spec = f"{config}#{part}" if part else config
    return ModelWeights(shown(path), tensors, open_config(spec))


def rotations_of_model(spec: str) -> ModelPositions:
    """Return the positions of a model that rotates queries and keys by one position each."""
    described = describe_positions(spec)
    if not described.rotations:
        raise PefourierError(
            f"{shown(spec)} does not rotate queries and keys by one position each; its positions "
            f"are {described.layers[0].kind}"
        )
    return described


def frequencies_of(described: ModelPositions) -> list[Floats]:
    """Return the frequencies of each rotation, one per pair."""
    return [enc.measure.frequencies for enc in described.rotations if enc.measure]


def find_attentions(
    model: ModelWeights, described: ModelPositions, layers: Ints | None = None
) -> list[Attention]:
    """Return the queries and keys of all rotated layers, in order."""
    runs = described.layers
    of_layer = {i: run for run in runs for i in run.index}
    if len(runs) > 1 and not of_layer:
        raise PefourierError(
            f"{model.label} needs the number of layers in its config to assign its rotations"
        )
    if any(enc.params.get("trailing") for enc in described.rotations):
        raise PefourierError(
            f"{model.label} rotates the last rows of each head and uses its keys as values, some "
            "pooled over several tokens; a row alone does not determine its share of the scores"
        )

    def rotation_of(layer: int) -> int | None:
        run = of_layer.get(layer) if of_layer else runs[0]
        if run is None or run.kind != "rotary" or (layers is not None and layer not in layers):
            return None
        return described.parts.index(run.part)

    sizes = [sizes_of(model, enc) for enc in described.rotations]
    attentions = find_heads(model.tensors, rotation_of, sizes, model.label)
    turning = {layer for layer in of_layer if rotation_of(layer) is not None}
    absent = sorted(turning - {attention.layer for attention in attentions})
    if absent or not attentions:
        raise PefourierError(
            f"{model.label} has no queries and keys of layers "
            f"{', '.join(map(str, absent[:6])) or 'in the selection'}; download all of its files, "
            "or choose other layers with --layers"
        )
    return attentions


def sizes_of(model: ModelWeights, enc: Encoding) -> HeadSizes:
    """Return the sizes of the heads of a rotation."""
    d, kind, file = int(enc.params["d"]), model.kind, model.file
    if isinstance(file, GgufFile):
        return gguf_sizes(model, file, d, enc.params["rotated"])
    config, row = file, file.row
    by_type = "layers" in row  # the number of key heads may depend on the type of layer
    heads = file.query_heads
    kv = None if by_type else config.count(*KV_HEADS)
    grouped = kind in known_names()["grouped"]
    if kind == "falcon":
        new, single = (config.values.get(k) for k in ("new_decoder_architecture", "multi_query"))
        grouped = new is True or single is False
        kv = kv if new is True else 1 if single is not False else heads
    elif grouped:
        kv = heads
    return HeadSizes(kind, d, file.unrotated, heads, kv, grouped)


def gguf_sizes(model: ModelWeights, file: GgufFile, d: int, described: int) -> HeadSizes:
    """Return the sizes of heads from the metadata of a .gguf file."""
    if any(name.endswith("attn_kv_a_mqa.weight") for name in model.tensors):  # MLA
        wide = file.count("attention.key_length_mla") or d
        heads = file.count("attention.head_count")
        return HeadSizes(model.kind, described, wide - described, heads, None)
    if isinstance(file.metadata.get(f"{model.kind}.attention.head_count"), list):
        return HeadSizes(model.kind, d)
    heads, kv = (file.count(f"attention.head_count{end}") for end in ("", "_kv"))
    return HeadSizes(model.kind, d, 0, heads, kv)


@frozen
class LayerEnergies:
    """Energies of the rows of a layer's heads, with gains multiplied in."""

    layer: int
    rotation: int
    q: Floats  # (heads, d)
    k: Floats  # (kv_heads, d)
    gains: bool  # whether the file holds the gains of the norm before the projection
    normed: bool  # whether queries or keys are normalised again
    latent: bool = False  # MLA: these rows are only a part of a key and are not cached as such


def energies_at(model: ModelWeights, attention: Attention) -> LayerEnergies:
    """Return the energies of the rows of a layer's heads, one tensor at a time."""
    q, k = attention.q, attention.k
    return LayerEnergies(
        attention.layer,
        attention.rotation,
        row_energies(model, q),
        row_energies(model, k),
        gains=k.norm is not None,
        normed=bool(q.gains or k.gains),
        latent="kv_a" in k.tensor,
    )


@np.errstate(invalid="ignore", over="ignore")  # values that are not finite are refused below
def row_energies(model: ModelWeights, part: Projection) -> Floats:
    r"""Return the energies (heads, d) of the rows of a projection with its gains.

    If the norm subtracts the mean of its input, a row w with gains g has the energy
    :math:`|w \circ g|^2 - (w \cdot g)^2 / n`, where n is the number of columns.
    """
    tensor = model.tensors[part.tensor]
    last, columns = int(part.index.max()) + 1, tensor.shape[1]
    step = max(AT_ONCE // max(columns, 1), 1)
    before = [part.norm] if part.norm else []
    gain = gains_of_norms(model, before, [columns], f"{columns} columns of {shown(part.tensor)}")
    scale = scale_of(model.tensors, tensor)
    weights = (gain**2).astype(np.float32)
    energies = np.zeros(last)
    for start in range(int(part.index.min()), last, step):
        stop = min(start + step, last)
        rows = tensor.rows(start, stop).astype(np.float32, copy=False)
        if scale is not None:
            rows = rows * scale(start, stop)
        mean = rows @ gain if model.centred(part.norm) else 0.0
        sizes = np.square(rows, out=rows) @ weights
        energies[start:stop] = np.maximum(sizes - np.square(mean) / columns, 0.0)
    heads, d = part.index.shape
    gains = gains_of_norms(model, part.gains, [d, heads * d], f"{heads} heads of {d} rows")
    scaled: Floats = energies[part.index] * gains.reshape(-1, d) ** 2
    if not np.isfinite(scaled).all():
        raise PefourierError(
            f"{shown(tensor.name)} of {shown(tensor.path)} or its gains must be finite and below "
            "1e19 in size; got NaN, infinities or larger numbers"
        )
    return scaled


def gains_of_norms(model: ModelWeights, names: Strings, lengths: Ints, of: str) -> Floats:
    """Concatenate the gains of norms and check their number; without a norm, gains are 1."""
    if not names:
        return np.ones(lengths[0])
    parts = [model.tensors[name].vector() for name in names]
    gains: Floats = np.concatenate(parts) + model.plus_one
    if len(gains) not in lengths:
        raise PefourierError(f"{shown(names[0])} must have gains for {of}; got {len(gains)}")
    return gains


def scale_of(tensors: Tensors, tensor: Tensor) -> Scale | None:
    """Return the factors of the stored numbers of some rows; None if they have no scale.

    A scale is one number for all, one per row, or one per block of rows and columns.
    """
    stem = tensor.name.removesuffix("weight")
    name = next((stem + end for end in known_names()["scales"] if stem + end in tensors), None)
    if name is None:
        return None
    stored, (rows, columns) = tensors[name], tensor.shape
    is_matrix = len(stored.shape) == 2
    scale = stored.vector().astype(np.float32).reshape(stored.shape if is_matrix else (-1, 1))
    tall, wide = (block_size(n, m) for n, m in zip(tensor.shape, scale.shape, strict=True))
    if not tall or not wide or (not is_matrix and len(scale) not in (1, rows)):
        raise PefourierError(
            f"{shown(name)} has shape {stored.shape}, which does not fit weights of shape "
            f"{tensor.shape}; expected one scale for all, one per row or one per block"
        )
    return lambda a, b: np.repeat(scale[np.arange(a, b) // tall], wide, axis=1)[:, :columns]


def block_size(side: int, parts: int) -> int | None:
    """Return the power of two that splits a side into this many blocks; the last may be shorter."""
    return next((2**n for n in range(30) if -(-side // 2**n) == parts), None)
