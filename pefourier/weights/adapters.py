r"""Read a PEFT adapter with its base: :math:`W + s B A`, with :math:`s = \alpha / r`.

With ``use_rslora`` the scale is :math:`\alpha / \sqrt r`. With ``use_dora`` each row of the sum is
scaled to the length in ``lora_magnitude_vector``. Tensors of ``modules_to_save`` replace those of
the base. A is small and read as a whole; rows of W and B are read on demand.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pefourier.encodings.sources.json_object import Section, read_object
from pefourier.errors import PefourierError, shown
from pefourier.weights.tensors import Tensor, list_tensors
from pefourier.writing.files import inside, is_folder

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
PREFIX = "base_model.model."
PART = re.compile(r"(.+)\.(lora_[AB]|lora_magnitude_vector)(?:\.weight)?")
REFUSED = (  # settings with another merge
    *("fan_in_fan_out", "layer_replication", "use_qalora", "target_parameters", "arrow_config"),
    *("alora_invocation_tokens", "use_bdlora"),
)
MERGE = "merge it with peft's merge_and_unload, save the model, and pass its folder"


@dataclass(frozen=True)
class MergedTensor(Tensor):
    """A tensor of the base, to which the product of two small matrices is added."""

    a: Tensor  # (r, columns)
    b: Tensor  # (rows, r)
    scale: float
    magnitude: Tensor | None  # lengths of the rows, for DoRA

    def rows(self, first: int, last: int) -> NDArray[Any]:
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
    own = {entry.name: getattr(base, entry.name) for entry in fields(Tensor)}
    return MergedTensor(**own, a=a, b=b, scale=scale, magnitude=magnitude)


def alpha_of(config: Section, module: str) -> float:
    """Return the alpha of a module: that of a name in ``alpha_pattern``, or the general one."""
    patterns = config.values.get("alpha_pattern") or {}
    for key in patterns:
        if not re.fullmatch(r"[\w.]+", key):
            raise PefourierError(f"alpha_pattern of {config.label} has {shown(key)}; {MERGE}")
        if f".{module}".endswith(f".{key}"):
            return Section(config.label, patterns).number(key) or 0.0
    return config.number("lora_alpha") or 0.0
