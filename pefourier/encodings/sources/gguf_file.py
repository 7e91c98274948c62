"""Which rotation does a GGUF file of llama.cpp set? Its metadata, and its factors of frequencies.

Keys are those of llama.cpp's converters: ``ARCH.rope.freq_base``, ``rope.dimension_count``,
``rope.scaling.*``, ``attention.key_length``, ``context_length``; the tensors ``rope_freqs.weight``
and ``rope_factors_long.weight`` with ``rope_factors_short.weight`` divide the frequencies. Files
are read without the package gguf (`pefourier.encodings.sources.gguf_header`).
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import log, prod
from pathlib import Path
from typing import Any

import numpy as np

from pefourier.encodings.encoding import Encoding, Finding
from pefourier.encodings.registry import build
from pefourier.encodings.sources.gguf_header import LONGEST_LIST, TensorPlace, read_header
from pefourier.errors import PefourierError, shown
from pefourier.files import os_errors

FREQS, LONG, SHORT = (f"rope_{name}.weight" for name in ("freqs", "factors_long", "factors_short"))
NUMPY = {"F32": "<f4", "F16": "<f2", "F64": "<f8"}
TOO_WIDE = 2**53  # of a head: what is refused, in place of an infinity


@dataclass(frozen=True)
class GgufFile:
    """What a file says: metadata, and tensors of factors by name."""

    path: str
    metadata: Mapping[str, Any]
    factors: Mapping[str, tuple[float, ...]]

    @property
    def architecture(self) -> str:
        """What the file calls its model."""
        return str(self.metadata.get("general.architecture"))

    def value(self, key: str, default: Any = None) -> Any:
        """A value under a key of the file's architecture; of a list, one a layer, the first."""
        own = self.metadata.get(f"{self.architecture}.{key}", default)
        return own[0] if isinstance(own, list) and own else own

    def number(self, key: str) -> float | None:
        """A positive number under a key; None where there is none."""
        own = self.value(key)
        if own is not None and not (isinstance(own, int | float) and 0 < own < 1e300):
            raise PefourierError(
                f"{key} of {shown(self.path)} must be a number above 0; got {own!r}"
            )
        return own


def open_gguf(path: str) -> GgufFile:
    """The metadata and the factors in a file."""
    metadata, tensors = read_header(path)
    lists = {name: tensors[name] for name in (FREQS, LONG, SHORT) if name in tensors}
    return GgufFile(
        path, metadata, {name: tensor_numbers(path, name, at) for name, at in lists.items()}
    )


def tensor_numbers(path: str, name: str, tensor: TensorPlace) -> tuple[float, ...]:
    """The numbers of a tensor of a type that numpy knows."""
    if tensor.type not in NUMPY or prod(tensor.shape) > LONGEST_LIST:
        raise PefourierError(
            f"{name} of {shown(path)} must be at most {LONGEST_LIST} numbers of type "
            f"{' or '.join(NUMPY)}; it has {prod(tensor.shape)} of type {tensor.type}"
        )
    with os_errors("read", path):
        own = np.fromfile(path, NUMPY[tensor.type], prod(tensor.shape), offset=tensor.start)
    return tuple(own.astype(float).tolist())


def read_gguf(path: str, length: int | None = None, d: int | None = None) -> Encoding:
    """The rotation of a GGUF file, by default over the context that it tells.

    Whether partners stand side by side is llama.cpp's choice for the architecture (`pairing_in`);
    of one that is not known, halves are taken.
    """
    file = open_gguf(path)
    pairing = pairing_in(file.architecture)
    if pairing == "none":
        raise PefourierError(
            f"{shown(path)} sets no rotation: llama.cpp turns nothing in architecture "
            f"{shown(file.architecture)}"
        )
    turned = file.number("rope.dimension_count")
    keys = ("attention.key_length_mla", "attention.key_length")
    head = next(filter(None, map(file.number, keys)), None) or head_width(file) or turned or d
    if head is None:
        raise PefourierError(
            f"{shown(path)} sets no rotation: it has neither rope.dimension_count nor the size of "
            "a head; name an encoding or a config.json"
        )
    turned, found = turned or head, list(left_open(file, pairing))
    rows = length or file.number("context_length")
    try:
        enc = build(
            "rope",
            length=int(rows or 80),
            d=int(head),
            rho=float(file.number("rope.freq_base") or 1e4),
            layout="interleaved" if pairing == "interleaved" else "halves",
            partial=1.0 if turned >= head else float(np.nextafter(turned / head, 2.0)),
            **scaling_of_file(file),
        )
    except PefourierError as error:
        raise PefourierError(f"{shown(path)}: {error}") from error
    params = {**enc.params, "path": path}
    return replace(enc, spec=path, params=params, findings=(*found, *enc.findings))


def head_width(file: GgufFile) -> float | None:
    """The width of the model over its heads."""
    width, heads = file.number("embedding_length"), file.number("attention.head_count")
    return min(width // heads, TOO_WIDE) if width and heads else None


def scaling_of_file(file: GgufFile) -> dict[str, Any]:
    """The scaling that a file sets, as parameters of `rope`."""
    kind, factors = file.value("rope.scaling.type", "linear"), file.factors
    factor = file.number("rope.scaling.factor") or file.number("rope.scale_linear") or 1.0
    original = file.number("rope.scaling.original_context_length") or file.number("context_length")
    if LONG in factors and SHORT in factors and original:
        own = {"short_factor": factors[SHORT], "long_factor": factors[LONG]}
        attention = file.number("rope.scaling.attn_factor") or 1.0
        own |= {"factor": float(factor), "original": int(original), "attention_factor": attention}
        return {"scaling": "longrope", **own}
    if FREQS in factors and (kind in ("none", "llama3") or (kind == "linear" and factor == 1)):
        return {"scaling": "factors", "factors": factors[FREQS]}
    if kind in ("none", "linear") and FREQS not in factors:
        return {"scaling": "linear", "factor": float(factor)} if factor != 1 else {}
    if kind == "yarn" and original and not factors:
        attention = (file.number("rope.scaling.attn_factor") or 1.0) * (1 + 0.1 * log(factor))
        own = {"factor": float(factor), "original": int(original), "attention_factor": attention}
        return {"scaling": "yarn", **own}
    named = ", ".join(factors) or "no factors"
    raise PefourierError(
        f"a scaling of type {shown(kind)} with {named} is not known; give rope:inv_freq=FILE"
    )


@cache
def known_architectures() -> dict[str, str]:
    """How llama.cpp pairs the rows of a head, by architecture."""
    own = tomllib.loads(Path(__file__).with_name("gguf_architectures.toml").read_text("utf-8"))
    del own["source"]
    return {name: pairing for pairing, names in own.items() for name in names.split()}


def pairing_in(architecture: str) -> str | None:
    """How llama.cpp pairs the rows of a head: interleaved, halves, axes (halves too), or none.

    None for an architecture that is not known. The converter has put q and k rows of a model whose
    pairs lie otherwise into that order.

    >>> pairing_in("llama"), pairing_in("qwen3"), pairing_in("nobody")
    ('interleaved', 'halves', None)
    """
    return known_architectures().get(architecture)


def left_open(file: GgufFile, pairing: str | None) -> Iterator[Finding]:
    """What a file leaves to the code of its architecture, and what is taken."""
    who = f"{shown(file.path)} (architecture {shown(file.architecture)})"
    if pairing is None:
        message = f"{who} does not say how columns are paired; halves are taken"
        yield Finding("gguf-unsaid", "note", message)
    if pairing == "axes":
        message = "for tokens of text; those of images and videos have places on three axes"
        yield Finding("rope-axes", "note", message)
    if file.value("attention.sliding_window"):
        local = file.number("rope.freq_base_swa")
        base = f"{local:g} (rope.freq_base_swa)" if local else "a base that it does not say"
        message = f"{who} turns layers with a window by {base}; this is the rotation of the others"
        yield Finding("gguf-unsaid", "note", message)
