"""Differences between two models, layer by layer.

Conventions
-----------
Layers are counted from 0. Models are configs or .gguf files, each with one description. Facts
that only one model states are not compared: for example, a .gguf file may state no window. Pairs
rotate by the frame, row or column (t, y, x) of the token of an image (`sections`); for text the
three are equal. A table of tokens shows the integer position by which each pair rotates.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import numpy as np

from pefourier.construction.mistakes import settings_cause
from pefourier.construction.steps import describe_changes, describe_sides
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.loader import source_of
from pefourier.encodings.model_positions import ModelPositions, describe_positions
from pefourier.types import Counts, Texts, frozen, hidden
from pefourier.writing.text import ranges

Field = Literal["layers", "rotations", "windows", "factors"]


MOST = 12  # most layers listed by number


UNREAD = ("unread-key", "gguf-unread")


@frozen
class LayerDifference:
    """Layers of two models that differ in one way."""

    index: Counts  # empty where layers are not numbered
    what: Field
    first: str  # as each has it
    second: str
    words: str = hidden(default="")  # how rotations differ
    count: int = hidden(default=0)  # layers that both models have

    @property
    def places(self) -> str:
        """The first few layer numbers, or all layers; the models if layers are not numbered.

        >>> LayerDifference((3, 7), "layers", "rotary", "none").places
        'layers 3, 7'
        """
        if len(self.index) == self.count > 1:
            return "both layers" if self.count == 2 else f"all {self.count} layers"
        return f"layers {ranges(self.index, MOST)}" if self.index else "models"


def has_layers(enc: Encoding) -> bool:
    """Whether an encoding belongs to a model whose file describes its layers."""
    return enc.origin == "formula" and bool(enc.spec) and source_of(enc.spec) in ("config", "gguf")


def unread_keys(enc: Encoding) -> Texts:
    """Keys about positions that the file sets and its reader ignores, or the findings about keys.

    The keys come from `params` if set there, otherwise from the findings.
    """
    keys = enc.params.get("unread") or ()
    return tuple(keys) or tuple(f.message for f in enc.findings if f.code in UNREAD)


def compare_layers(first: Encoding, second: Encoding) -> list[LayerDifference]:
    """List the differences between two models, layer by layer."""
    models = [describe_positions(enc.spec, len(enc)) for enc in (first, second)]
    is_numbered = all(run.index for model in models for run in model.layers)
    a, b = (facts_of_layers(model, is_numbered=is_numbered) for model in models)
    differences: dict[tuple[Field, str, str, str], list[int]] = {}
    in_words = cache(rotations_in_words)
    counts = [len(facts) for facts in (a, b)]
    if counts[0] != counts[1] and is_numbered:
        beyond = range(min(counts), max(counts))
        differences["layers", f"{counts[0]} layers", f"{counts[1]} layers", ""] = [*beyond]
    for i in sorted(a.keys() & b.keys()):
        for what, one in a[i].items():
            two = b[i].get(what, one)
            words = in_words(one, two) if what == "rotations" else (one, two, "")
            if words and one != two:
                differences.setdefault((what, *words), []).append(i)
    factors = [float(enc.params.get("softmax_factor", 1.0)) for enc in (first, second)]
    is_stated = "gguf" not in [source_of(model.spec) for model in models]
    if is_stated and abs(factors[0] - factors[1]) > 1e-6 * max(factors):
        one, two = (f"logits times {factor:.6g}" for factor in factors)
        differences["factors", one, two, ""] = []
    total = counts[0] if counts[0] == counts[1] else 0
    rows = [(tuple(i for i in index if i >= 0), key) for key, index in differences.items()]
    return [LayerDifference(index, *key, total) for index, key in rows]


def facts_of_layers(model: ModelPositions, *, is_numbered: bool) -> dict[int, dict[Field, Any]]:
    """Return the facts that a model states about each layer, or about each run (below 0)."""
    parts, t = dict(zip(model.parts, model.rotations, strict=True)), model.temperature
    is_gguf = source_of(model.spec) == "gguf"
    laid: dict[int, dict[Field, Any]] = {}
    for k, run in enumerate(model.layers):
        facts: dict[Field, Any] = {"layers": run.kind}
        if run.kind == "rotary":
            facts["rotations"] = parts[run.part]
        if not is_gguf:
            is_scaled = t and (t.layers == "all" or run.kind == "none")
            facts["factors"] = f"queries times {t if is_scaled else 1}"
        if not is_gguf or run.window:
            facts["windows"] = str(run.window or "all positions")
        laid |= dict.fromkeys(run.index if is_numbered else (-1 - k,), facts)
    return laid


def rotations_in_words(first: Encoding, second: Encoding) -> tuple[str, str, str] | None:
    """Describe both rotations and their difference, by settings or by frequencies, or None.

    Rotations are the same if their frequencies and factors are, within float32 rounding.
    """
    a, b = (
        np.append(enc.measure.frequencies, enc.params.get("attention_factor", 1.0))
        for enc in (first, second)
    )
    if len(a) == len(b) and np.allclose(a, b, rtol=1e-6, atol=0):
        return None
    cause = settings_cause(first, second)
    if not cause:
        return "", "", "other frequencies or another factor"
    return *describe_sides(cause.changes), describe_changes(cause.changes)
