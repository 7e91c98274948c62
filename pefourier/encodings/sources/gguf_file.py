"""Which rotation does a GGUF file of llama.cpp set? Its metadata, and its factors of frequencies.

Keys are those of llama.cpp's converters: ``ARCH.rope.freq_base``, ``rope.dimension_count``,
``rope.scaling.*``, ``attention.key_length``, ``context_length``; the tensors ``rope_freqs.weight``
and ``rope_factors_long.weight`` with ``rope_factors_short.weight`` divide the frequencies. Files
are read by the package gguf, which is optional.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import log
from typing import Any

import numpy as np

from pefourier.encodings.encoding import Encoding, Finding
from pefourier.encodings.registry import build
from pefourier.errors import PefourierError, shown
from pefourier.files import missing, os_errors, status_of

FREQS, LONG, SHORT = (f"rope_{name}.weight" for name in ("freqs", "factors_long", "factors_short"))
FAULTS = (ValueError, TypeError, LookupError, ArithmeticError, OSError, MemoryError, EOFError)


@dataclass(frozen=True)
class GgufFile:
    """What a file says: metadata, and tensors of factors by name."""

    path: str
    metadata: Mapping[str, Any]
    factors: Mapping[str, tuple[float, ...]]

    def value(self, key: str, default: Any = None) -> Any:
        """A value under a key of the file's architecture; of a list, one a layer, the first."""
        own = self.metadata.get(f"{self.metadata.get('general.architecture')}.{key}", default)
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
    try:
        from gguf import GGUFReader
    except ImportError as error:
        raise PefourierError(
            f"{shown(path)} is read by the package gguf, which is not installed; pip install gguf"
        ) from error
    if status_of(path) is None:
        raise missing(path)
    try:
        with os_errors("read", path):
            reader = GGUFReader(path)
            metadata = {
                key: field.contents()
                for key, field in reader.fields.items()
                if key == "general.architecture" or ".rope." in key or key.endswith(USED)
            }
            factors = {
                tensor.name: tuple(np.asarray(tensor.data, dtype=float).ravel().tolist())
                for tensor in reader.tensors
                if tensor.name in (FREQS, LONG, SHORT)
            }
    except FAULTS as error:
        reason = str(error).partition("\n")[0]
        raise PefourierError(f"{shown(path)} is not a readable .gguf file: {reason}") from error
    return GgufFile(path, metadata, factors)


USED = (
    ".context_length",
    ".embedding_length",
    ".attention.head_count",
    ".attention.key_length",
    ".attention.sliding_window",
)


def read_gguf(path: str, length: int | None = None, d: int | None = None) -> Encoding:
    """The rotation of a GGUF file, by default over the context that it tells.

    Its columns are taken to lie in halves: whether partners stand side by side depends on the
    architecture, and inner products do not.
    """
    file = open_gguf(path)
    turned = file.number("rope.dimension_count")
    head = file.number("attention.key_length") or head_width(file) or turned or d
    if head is None:
        raise PefourierError(
            f"{shown(path)} sets no rotation: it has neither rope.dimension_count nor the size of "
            "a head; name an encoding or a config.json"
        )
    turned, found = turned or head, [Finding("gguf-unsaid", "note", left_open(file))]
    rows = length or file.number("context_length")
    try:
        enc = build(
            "rope",
            length=int(rows or 80),
            d=int(head),
            rho=float(file.number("rope.freq_base") or 1e4),
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
    return width // heads if width and heads else None


def scaling_of_file(file: GgufFile) -> dict[str, Any]:
    """The scaling that a file sets, as parameters of `rope`."""
    kind, factors = file.value("rope.scaling.type", "none"), file.factors
    factor = file.number("rope.scaling.factor") or file.number("rope.scale_linear") or 1.0
    original = file.number("rope.scaling.original_context_length") or file.number("context_length")
    if LONG in factors and SHORT in factors and original:
        own = {"short_factor": factors[SHORT], "long_factor": factors[LONG]}
        attention = file.number("rope.scaling.attn_factor") or 1.0
        own |= {"factor": float(factor), "original": int(original), "attention_factor": attention}
        return {"scaling": "longrope", **own}
    if FREQS in factors and kind in ("none", "llama3"):
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


def left_open(file: GgufFile) -> str:
    """What a file leaves to the code of its architecture."""
    who = f"{shown(file.path)} (architecture {shown(file.metadata.get('general.architecture'))})"
    window = file.value("attention.sliding_window")
    other = " and by which base layers with a window turn" if window else ""
    return f"{who} does not say how columns are paired{other}; halves and one base are taken"
