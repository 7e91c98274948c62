r"""List the tensors of a model's weights from headers, and read their rows on demand.

Weights are a folder of .safetensors files, a single .safetensors file, or a .gguf file. The package
gguf decodes its quantised types. A tensor is never in memory as a whole: `Tensor.rows` reads a
range of rows.

Read a PEFT adapter with its base: :math:`W + s B A`, with :math:`s = \alpha / r`.

With ``use_rslora`` the scale is :math:`\alpha / \sqrt r`. With ``use_dora`` each row of the sum is
scaled to the length in ``lora_magnitude_vector``. Tensors of ``modules_to_save`` replace those of
the base. A is small and read as a whole; rows of W and B are read on demand.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from math import prod, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pefourier.encodings.sources.gguf_file import BLOCKS, NUMPY, read_header
from pefourier.encodings.sources.huggingface import all_tensors
from pefourier.encodings.sources.json_object import Section, read_object
from pefourier.encodings.sources.tables import DECODERS, KINDS, RawArray, bfloat16, open_arrays
from pefourier.errors import PefourierError, shown
from pefourier.types import Array, Counts, frozen
from pefourier.writing.files import inside, is_folder, missing, os_errors, status_of, suffix_among

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
        tensors |= {n: tensor for n, tensor in safetensors_of(file) if file_of.get(n) == file}
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
PART = re.compile(r"(.+)\.(lora_[AB]|lora_magnitude_vector)(?:\.weight)?")
REFUSED = (  # settings with another merge
    *("fan_in_fan_out", "layer_replication", "use_qalora", "target_parameters", "arrow_config"),
    *("alora_invocation_tokens", "use_bdlora"),
)
MERGE = "merge it with peft's merge_and_unload, save the model, and pass its folder"


@frozen
class MergedTensor(Tensor):
    """A tensor of the base, to which the product of two small matrices is added."""

    a: Tensor  # (r, columns)
    b: Tensor  # (rows, r)
    scale: float
    magnitude: Tensor | None  # lengths of the rows, for DoRA

    def rows(self, first: int, last: int) -> Array:
        """Return the merged rows from first to last (last - first, columns)."""
        a, b = self.a.rows(0, self.a.shape[0]), self.b.rows(first, last)
        added = self.scale * (b.astype(np.float32) @ a.astype(np.float32))
        merged = super().rows(first, last).astype(np.float32) + added
        if self.magnitude is None:
            return np.asarray(merged)
        lengths = self.magnitude.vector()[first:last, None]
        return np.asarray(merged * (lengths / np.linalg.norm(merged, axis=1, keepdims=True)))


def is_adapter(path: str) -> bool:
    """Whether a path is the folder of a PEFT adapter."""
    return is_folder(path) and Path(inside(path, CONFIG)).is_file()


def base_of(path: str, base: str | None) -> str:
    """Return the folder of an adapter's base, as given or named in its config."""
    named = read_object(inside(path, CONFIG)).get("base_model_name_or_path")
    base = base or (named if isinstance(named, str) and is_folder(named) else None)
    if base is None:
        raise PefourierError(
            f"{shown(path)} is a PEFT adapter of {shown(str(named))}, which is not a folder here; "
            f"pass its folder as --base DIR, or {MERGE}"
        )
    return base


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
    if odd:
        raise PefourierError(f"{shown(path)} is an adapter with {odd[0]}; {MERGE}")
    tensors = list_tensors(base)
    parts: dict[str, dict[str, Tensor]] = {}
    for name, tensor in list_tensors(inside(path, WEIGHTS)).items():
        module = name.removeprefix(PREFIX)
        if match := PART.fullmatch(module):
            parts.setdefault(match[1], {})[match[2]] = tensor
        elif module in tensors:  # of modules_to_save
            tensors[module] = tensor
    for module, part in parts.items():
        name = name_in(tensors, f"{module}.weight", path, base)
        tensors[name] = merge(tensors, name, part, config, module)
    return tensors


def name_in(tensors: Mapping[str, Tensor], name: str, path: str, base: str) -> str:
    """Return the name of an adapted tensor in its base, which may be saved without its head."""
    names = name, f"model.{name}", name.removeprefix("model.")
    found = next((option for option in names if option in tensors), None)
    if found is None:
        raise PefourierError(
            f"{shown(path)} adapts {shown(name)}, which {shown(base)} lacks; pass the base that "
            "the adapter was trained on"
        )
    return found


def merge(
    tensors: Mapping[str, Tensor],
    name: str,
    part: Mapping[str, Tensor],
    config: Section,
    module: str,
) -> MergedTensor:
    """Merge the parts of an adapter into one tensor of the base."""
    base, a, b = tensors[name], part.get("lora_A"), part.get("lora_B")
    if a is None or b is None or (b.shape[0], a.shape[1:]) != (base.shape[0], base.shape[1:]):
        shapes = " and ".join(str(t.shape) for t in (b, a) if t)
        raise PefourierError(
            f"{config.label}: {shown(module)} has parts of shapes {shapes}, which do not fit the "
            f"base's {base.shape}; pass the base that the adapter was trained on"
        )
    if len(base.shape) != 2 or b.shape[1] != a.shape[0] or name + "_scale_inv" in tensors:
        raise PefourierError(f"{shown(name)} of the base is quantized or no matrix; {MERGE}")
    rank = a.shape[0]
    alpha = alpha_of(config, module)
    scale = alpha / (sqrt(rank) if config.values.get("use_rslora") else rank)
    magnitude = part.get("lora_magnitude_vector")
    if bool(config.values.get("use_dora")) != (magnitude is not None):
        raise PefourierError(f"{config.label}: use_dora contradicts the adapter's tensors; {MERGE}")
    return MergedTensor(**vars(base), a=a, b=b, scale=scale, magnitude=magnitude)


def alpha_of(config: Section, module: str) -> float:
    """Return the alpha of a module: that of a name in ``alpha_pattern``, or the general one."""
    patterns = config.values.get("alpha_pattern") or {}
    for key in patterns:
        if not re.fullmatch(r"[\w.]+", key):
            raise PefourierError(f"alpha_pattern of {config.label} has {shown(key)}; {MERGE}")
        if f".{module}".endswith(f".{key}"):
            return Section(config.label, patterns).number(key) or 0.0
    return config.number("lora_alpha") or 0.0
