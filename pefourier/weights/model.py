r"""Open the weights of a model, and measure the energy of its query and key rows.

Weights are a folder of .safetensors files, a single .safetensors file, or a .gguf file. The package
gguf decodes its quantised types. A tensor is never in memory as a whole: `Tensor.rows` reads a
range of rows. Rows are read once, with gains multiplied in.

The names of tensors per architecture are data, in model.toml. A head is a run of rows of a
projection. One tensor may hold the queries, keys and values of all heads, consecutively or by
groups of heads. For MLA only the rotated rows are listed: the last rows of each query head, and one
key for all heads.

A PEFT adapter is read with its base: :math:`W + s B A`, with :math:`s = \alpha / r`, or with
``use_rslora`` :math:`\alpha / \sqrt r`. Tensors of ``modules_to_save`` replace those of the base. A
is small and read as a whole; rows of W and B are read on demand.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import prod, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pefourier.encodings.encoding import Encoding
from pefourier.encodings.model_positions import (
    ModelPositions,
    describe_positions,
)
from pefourier.encodings.sources.gguf_file import GgufFile, open_gguf
from pefourier.encodings.sources.gguf_header import BLOCKS, NUMPY, read_header
from pefourier.encodings.sources.huggingface import ModelFile, all_tensors, open_config
from pefourier.encodings.sources.json_object import Section, read_object
from pefourier.encodings.sources.tables import DECODERS, KINDS, RawArray, bfloat16, open_arrays
from pefourier.errors import PefourierError, shown
from pefourier.types import Array, Counts, Fields, Floats, Ints, Strings, Texts, frozen
from pefourier.writing.files import (
    inside,
    is_folder,
    missing,
    os_errors,
    read_toml,
    split_spec,
    status_of,
    suffix_among,
    suffix_of,
)

Decoder = Callable[[NDArray[Any]], NDArray[Any]]


@frozen
class Tensor:
    """The place of a tensor's rows in a file, and the decoder of their bytes."""

    path: str
    name: str
    shape: Counts
    kind: str  # of the stored numbers
    start: int  # offset in the file, in bytes
    row_bytes: int
    decode: Decoder | None  # of bytes (rows, row_bytes); None: unknown

    def rows(self, first: int, last: int) -> Array:
        """Return the rows from first to last (last - first, columns)."""
        if self.decode is None:
            raise PefourierError(
                f"{self.name} of {shown(self.path)} has type {self.kind}, which is not supported; "
                "use the model in bfloat16, float16, float32 or float8"
            )
        count, offset = (last - first) * self.row_bytes, self.start + first * self.row_bytes
        with os_errors("read", self.path):
            stored = np.fromfile(self.path, np.uint8, count, offset=offset)
        if len(stored) < count:
            raise PefourierError(
                f"{shown(self.path)} became shorter while it was read; write it again"
            )
        return self.decode(stored.reshape(last - first, self.row_bytes))

    def vector(self) -> Array:
        """Return all numbers as float64 (n,), for the gains of a norm or for scales."""
        return self.rows(0, row_count(self.shape)).astype(float).reshape(-1)


Tensors = Mapping[str, Tensor]


def row_count(shape: Counts) -> int:
    """Return the number of rows of a tensor; a vector is one row."""
    return shape[0] if len(shape) > 1 else 1


def list_tensors(path: str) -> dict[str, Tensor]:
    """Return the tensors of a model's folder, a .safetensors file or a .gguf file, by name.

    Raises
    ------
    PefourierError
        If a file or a shard is missing or damaged, or the folder has no weights.
    """
    if status_of(path) is None:
        raise missing(path)
    if not is_folder(path):
        is_gguf = suffix_among(path, (".safetensors", ".gguf")) == ".gguf"
        return dict(gguf_tensors(path) if is_gguf else safetensors_of(path))
    file_of = dict(all_tensors(path))
    if not file_of:
        raise PefourierError(
            f"{shown(path)} must hold model.safetensors, or model.safetensors.index.json with the "
            "files that it lists; to read a .gguf file, give its path"
        )
    tensors: dict[str, Tensor] = {}
    for file in dict.fromkeys(file_of.values()):
        tensors |= safetensors_of(file)
    if absent := file_of.keys() - tensors.keys():
        raise PefourierError(
            f"{shown(path)} has no {shown(min(absent))}, which its index lists; download it again"
        )
    return tensors


def safetensors_of(path: str) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of a .safetensors file."""
    with open_arrays(path, regular=True) as file:
        arrays = file.arrays
    for name, stored in arrays.items():
        if isinstance(stored, RawArray):  # true for every array of a .safetensors file
            width = stored.file_bytes // max(row_count(stored.shape), 1)
            decode = DECODERS.get(stored.kind)
            reader = partial(as_numbers, stored.bits, decode) if stored.kind in KINDS else None
            yield name, Tensor(path, name, stored.shape, stored.kind, stored.start, width, reader)


def gguf_tensors(path: str) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of a .gguf file."""
    for name, place in read_header(path)[1].items():
        block, size = BLOCKS.get(place.type, (1, 0))
        width = prod(place.shape) // max(row_count(place.shape), 1) // block * size
        decode: Decoder | None = partial(dequantised, place.type) if place.type in BLOCKS else None
        if place.type in NUMPY:
            decode = partial(as_numbers, np.dtype(NUMPY[place.type]), None)
        elif place.type == "BF16":
            decode = partial(as_numbers, np.dtype("<u2"), bfloat16)
        yield name, Tensor(path, name, place.shape, place.type, place.start, width, decode)


def as_numbers(dtype: np.dtype[Any], decode: Decoder | None, stored: Array) -> Array:
    """Convert rows of bytes to numbers."""
    bits = stored.view(dtype)
    return decode(bits) if decode else bits


def dequantised(kind: str, stored: Array) -> Array:
    """Decode rows of quantised blocks with the package gguf."""
    try:
        from gguf import GGMLQuantizationType, quants
    except ImportError as error:
        raise PefourierError(
            f"tensors of type {kind} need the package gguf; run pip install gguf"
        ) from error
    with suppress(NotImplementedError, AttributeError):
        return np.asarray(quants.dequantize(stored, getattr(GGMLQuantizationType, kind)))
    raise PefourierError(f"tensors of type {kind} are not decoded by this version of gguf")


CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
PREFIX = "base_model.model."
PART = re.compile(r"(.+)\.(lora_[AB])(?:\.weight)?")
REFUSED = (  # settings with another merge
    *("fan_in_fan_out", "layer_replication", "use_qalora", "target_parameters", "arrow_config"),
    *("alora_invocation_tokens", "use_bdlora", "use_dora", "alpha_pattern"),
)
MERGE = "merge it with peft's merge_and_unload, save the model, and pass its folder"


@frozen
class MergedTensor(Tensor):
    """A tensor of the base, to which the product of two small matrices is added."""

    a: Tensor  # (r, columns)
    b: Tensor  # (rows, r)
    scale: float

    def rows(self, first: int, last: int) -> Array:
        """Return the merged rows from first to last (last - first, columns)."""
        a, b = self.a.rows(0, self.a.shape[0]), self.b.rows(first, last)
        added = self.scale * (b.astype(np.float32) @ a.astype(np.float32))
        return super().rows(first, last).astype(np.float32) + added


def is_adapter(path: str) -> bool:
    """Whether a path is the folder of a PEFT adapter."""
    return is_folder(path) and Path(inside(path, CONFIG)).is_file()


def merged_tensors(path: str, base: str) -> dict[str, Tensor]:
    """Return the tensors of a base by name, merged with those of an adapter.

    Raises
    ------
    PefourierError
        If the adapter is not LoRA, merges in another way, or does not fit the base.
    """
    config = Section(shown(inside(path, CONFIG)), read_object(inside(path, CONFIG)))
    kind = config.values.get("peft_type")
    odd = [f"peft_type {kind}"] if kind != "LORA" else []
    odd += [key for key in REFUSED if config.values.get(key)]
    adapter = list_tensors(inside(path, WEIGHTS))
    odd += [shown(name) for name in adapter if "lora_magnitude" in name]  # scales of rows
    if odd:
        raise PefourierError(f"{shown(path)} is an adapter with {odd[0]}; {MERGE}")
    tensors = list_tensors(base)
    parts: dict[str, dict[str, Tensor]] = {}
    for name, tensor in adapter.items():
        module = name.removeprefix(PREFIX)
        if match := PART.fullmatch(module):
            parts.setdefault(match[1], {})[match[2]] = tensor
        elif module in tensors:  # of modules_to_save
            tensors[module] = tensor
    for module, part in parts.items():
        weight = f"{module}.weight"  # the base may be saved without its head
        names = weight, f"model.{weight}", weight.removeprefix("model.")
        name = next((option for option in names if option in tensors), "")
        if not name:
            raise PefourierError(
                f"{shown(path)} adapts {shown(weight)}, which {shown(base)} lacks; pass the base "
                "that the adapter was trained on"
            )
        old, a, b = tensors[name], part.get("lora_A"), part.get("lora_B")
        if a is None or b is None or (b.shape[0], a.shape[1:]) != (old.shape[0], old.shape[1:]):
            shapes = " and ".join(str(t.shape) for t in (b, a) if t)
            raise PefourierError(
                f"{config.label}: {shown(module)} has parts of shapes {shapes}, which do not fit "
                f"the base's {old.shape}; pass the base that the adapter was trained on"
            )
        rank, alpha = a.shape[0], config.number("lora_alpha") or 0.0
        if len(old.shape) != 2 or b.shape[1] != rank or name + "_scale_inv" in tensors:
            raise PefourierError(f"{shown(name)} of the base is quantized or no matrix; {MERGE}")
        scale = alpha / (sqrt(rank) if config.values.get("use_rslora") else rank)
        tensors[name] = MergedTensor(**vars(old), a=a, b=b, scale=scale)
    return tensors


KNOWN: Fields = read_toml(Path(__file__).with_suffix(".toml"))  # names by architecture
LAYER = re.compile(r"(?:^|\.)(\d+)(?:\.|$)")


@frozen
class ModelWeights:
    """The tensors of a model, and the file that describes its positions."""

    label: str
    tensors: Tensors
    file: ModelFile | GgufFile

    @property
    def kind(self) -> str:
        """Return the model_type, or the architecture of a GGUF file."""
        return self.file.kind

    def centred(self, norm: str | None) -> bool:
        """Return whether a norm subtracts the mean of its input; None: a norm without gains."""
        if norm is None:
            return self.kind in KNOWN["bare"]
        biased = norm.removesuffix("weight") + "bias" in self.tensors
        return biased or self.kind in KNOWN["centred"]


@frozen
class HeadSizes:
    """Sizes of a model's heads, from its config or GGUF file."""

    d: int  # rows of a head that are used, including all rotated rows
    unrotated: int = 0  # rows of a query head before the d rows, for MLA
    heads: int | None = None  # None: derived from the number of rows
    kv_heads: int | None = None
    grouped: bool = False  # a tensor with queries and keys stores them by groups of heads


@frozen
class Projection:
    """The rows of one tensor that hold queries, or keys."""

    tensor: str
    index: Array  # (heads, d): row numbers in the tensor
    norm: str | None  # the norm before the projection
    gains: Texts  # gains of the query or key norm: one tensor, or one per head


@frozen
class Attention:
    """Queries and keys of one layer, or of one module in it."""

    layer: int
    rotation: int  # index among the rotations of the model
    q: Projection
    k: Projection


def modules_of(model: ModelWeights) -> list[tuple[int, str, list[str]]]:
    """Return the layer, the name and the projections of each module, by the first known names.

    Raises
    ------
    PefourierError
        If no name is known, or the file holds several towers.
    """
    found: dict[str, tuple[int, str, list[str]]] = {}
    for leaves in KNOWN["projections"]:
        for name in model.tensors:
            module, end, rest = f".{name}".rpartition(f".{leaves[0]}.weight")
            module = module.removeprefix(".")
            layer = LAYER.search(module)
            if not end or rest or not layer or any(word in module for word in KNOWN["apart"]):
                continue
            if all(dotted(module, leaf, "weight") in model.tensors for leaf in leaves):
                found.setdefault(module, (int(layer[1]), module, leaves))
    towers = {LAYER.sub(".*.", module, count=1).partition("*")[0] for module in found}
    if len(towers) != 1:
        stems = towers or {LAYER.sub(".*.", name, count=1) for name in model.tensors}
        listing = ", ".join(shown(stem)[1:-1] for stem in sorted(stems)[:6])
        raise PefourierError(
            f"{model.label} must hold the queries and keys of one text model under known names, "
            f"quantised only in .gguf files; it has {listing}"
        )
    return sorted(found.values())


def dotted(*words: str) -> str:
    """Join the parts of a name by dots, without empty parts."""
    return ".".join(filter(None, words))


def projections(
    model: ModelWeights, sizes: HeadSizes, module: str, leaves: list[str]
) -> Iterator[Projection]:
    """Return the query and the key projection of a module.

    Refuses tensors that are not matrices, integers without a scale, and a bias of wrong size.
    """
    tensors, label = model.tensors, model.label
    weights = [dotted(module, leaf, "weight") for leaf in leaves]
    for name in weights:
        tensor, stem = tensors[name], name.removesuffix("weight")
        bias = tensors.get(f"{stem}bias")
        if len(tensor.shape) != 2 or (bias and bias.shape != tensor.shape[:1]):
            raise PefourierError(
                f"{shown(name)} of {label} has shape {tensor.shape}, its bias "
                f"{bias.shape if bias else 'none'}; expected a matrix, and one bias number per row"
            )
        scaled = any(stem + end in tensors for end in KNOWN["scales"])
        moved = f"{name}_zero_point" in tensors
        if tensor.kind.startswith(("int", "uint", "bool")) and (moved or not scaled):
            raise PefourierError(
                f"{shown(name)} of {label} has type {tensor.kind}, which cannot be read without a "
                "scale in a supported format; give the unquantised weights"
            )
    index = rows_of_heads(model, sizes, leaves, weights)
    before = first_of(tensors, module, KNOWN["before"])
    is_latent = leaves[0] in ("q_b_proj", "attn_q_b")
    norms = first_of(tensors, module, KNOWN["between"]) if is_latent else before, before
    gains = (gains_of(tensors, module, KNOWN[part]) for part in ("q_norms", "k_norms"))
    return map(Projection, (weights[0], weights[-1]), index, norms, gains)


def rows_of_heads(
    model: ModelWeights, sizes: HeadSizes, leaves: list[str], weights: list[str]
) -> tuple[Array, Array]:
    """Return the row numbers of the queries (heads, d) and of the keys (kv_heads, d)."""
    rows, d = [model.tensors[name].shape[0] for name in weights], sizes.d
    q = k = np.empty((0, d), int)
    if len(weights) == 1:  # with values
        heads = sizes.heads or 0
        kv = sizes.kv_heads or (rows[0] // d - heads) // 2
        if heads and kv > 0 and rows[0] == (heads + 2 * kv) * d and heads % kv == 0:
            groups = kv if sizes.grouped else 1
            in_groups = np.arange(rows[0]).reshape(groups, -1, d)
            q, k, _ = np.split(in_groups, [heads // groups, (heads + kv) // groups], axis=1)
            q, k = q.reshape(-1, d), k.reshape(-1, d)
    elif leaves[1].startswith(("kv_a", "attn_kv_a")):  # MLA: the last rows of each projection
        q = head_rows(rows[0], sizes.unrotated + d, sizes.unrotated, d, sizes.heads)
        k = np.arange(rows[1] - d, rows[1])[None] if rows[1] >= d else k
    else:
        is_gated = model.kind in KNOWN["gated"]
        q = head_rows(rows[0], d + d * is_gated, 0, d, sizes.heads)
        k = head_rows(rows[1], d, 0, d, sizes.kv_heads)
    if not len(q) or not len(k) or len(q) % len(k):
        raise PefourierError(
            f"{' and '.join(map(shown, weights))} of {model.label} have "
            f"{' and '.join(map(str, rows))} rows, which are not {sizes.heads or 'some'} heads of "
            f"{sizes.unrotated + d} with keys of {sizes.kv_heads or 'equal groups'}; use the "
            "config.json of the same model"
        )
    return q, k


def head_rows(rows: int, step: int, first: int, d: int, heads: int | None) -> Array:
    """Return rows (heads, d) if a head starts every `step` rows; empty if sizes do not fit."""
    fits = rows % step == 0 and heads in (None, rows // step)
    return np.arange(rows * fits).reshape(-1, step)[:, first : first + d]


def first_of(tensors: Tensors, module: str, names: list[str]) -> str | None:
    """Return the gains tensor of the first listed norm in a module or in its parent."""
    parent = module.rpartition(".")[0]
    places = [dotted(place, name) for name in names for place in (parent, module)]
    ends = "weight", "norm.weight"
    return next((n for place in places for end in ends if (n := f"{place}.{end}") in tensors), None)


def gains_of(tensors: Tensors, module: str, names: list[str]) -> Texts:
    """Return the gains of a query or key norm: one tensor, or one per head."""
    for name in names:
        if (tensor := dotted(module, name, "weight")) in tensors:
            return (tensor,)
        gains: list[str] = []
        while (tensor := dotted(module, name, "norms", str(len(gains)), "weight")) in tensors:
            gains.append(tensor)
        if gains:
            return tuple(gains)
    return ()


AT_ONCE = 2**18  # numbers of a tensor in memory at a time; threads rarely wait
Scale = Callable[[int, int], NDArray[np.float32]]  # of the rows between two row numbers
KV_HEADS = "num_key_value_heads num_kv_heads n_kv_heads n_head_kv multi_query_group_num".split()


def open_model_weights(spec: str, base: str | None = None) -> ModelWeights:
    """Open the weights that a SPEC names, and the config in the same folder.

    For a PEFT adapter, these are the weights of its base, merged with the adapter.
    """
    path, part = split_spec(spec)
    if is_adapter(path):
        named = read_object(inside(path, CONFIG)).get("base_model_name_or_path")
        base = base or (named if isinstance(named, str) and is_folder(named) else None)
        if base is None:
            raise PefourierError(
                f"{shown(path)} is a PEFT adapter of {shown(str(named))}, which is not a folder "
                f"here; pass its folder as --base DIR, or {MERGE}"
            )
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
    attentions = [
        Attention(layer, rotation, *projections(model, sizes[rotation], module, leaves))
        for layer, module, leaves in modules_of(model)
        if (rotation := rotation_of(layer)) is not None
    ]
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
        count, rotated = file.count, enc.params["rotated"]
        heads = count("attention.head_count")
        if any(name.endswith("attn_kv_a_mqa.weight") for name in model.tensors):  # MLA
            wide = count("attention.key_length_mla") or d
            return HeadSizes(rotated, wide - rotated, heads)
        if isinstance(file.metadata.get(f"{kind}.attention.head_count"), list):
            return HeadSizes(d)
        return HeadSizes(d, 0, heads, count("attention.head_count_kv"))
    heads = file.query_heads
    # the number of key heads may depend on the type of layer
    kv = None if "layers" in file.row else file.count(*KV_HEADS)
    grouped = kind in KNOWN["grouped"]
    if kind == "falcon":
        new, single = (file.values.get(k) for k in ("new_decoder_architecture", "multi_query"))
        grouped = new is True or single is False
        kv = kv if new is True else 1 if single is not False else heads
    elif grouped:
        kv = heads
    return HeadSizes(d, file.unrotated, heads, kv, grouped)


@frozen
class LayerEnergies:
    """Energies of the rows of a layer's heads, with gains multiplied in."""

    layer: int
    rotation: int
    q: Floats  # (heads, d)
    k: Floats  # (kv_heads, d)
    gains: bool  # whether the file holds the gains of the norm before the projection
    normed: bool  # whether queries or keys are normalised again


def energies_at(model: ModelWeights, attention: Attention) -> LayerEnergies:
    """Return the energies of the rows of a layer's heads, one tensor at a time."""
    q, k = attention.q, attention.k
    energies = row_energies(model, q), row_energies(model, k)
    facts = k.norm is not None, bool(q.gains or k.gains)
    return LayerEnergies(attention.layer, attention.rotation, *energies, *facts)


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
    is_beyond_one = isinstance(model.file, ModelFile) and model.kind in KNOWN["plus_one"]
    gains: Floats = np.concatenate(parts) + is_beyond_one  # such norms multiply by 1 + weight
    if len(gains) not in lengths:
        raise PefourierError(f"{shown(names[0])} must have gains for {of}; got {len(gains)}")
    return gains


def scale_of(tensors: Tensors, tensor: Tensor) -> Scale | None:
    """Return the factors of the stored numbers of some rows; None if they have no scale.

    A scale is one number for all, one per row, or one per block of rows and columns.
    """
    stem = tensor.name.removesuffix("weight")
    name = next((stem + end for end in KNOWN["scales"] if stem + end in tensors), None)
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
