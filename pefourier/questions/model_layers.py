"""Differences between the layers, rotations and windows of two models.

Conventions
-----------
Layers are counted from 0. Models are configs or .gguf files, each with one description. Facts
that only one model states are not compared: for example, a .gguf file may state no window. Pairs
rotate by the frame, row or column (t, y, x) of the token of an image (`sections`); for text the
three are equal. A table of tokens shows the integer position by which each pair rotates.
"""

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np

from pefourier.causes.mistakes import describe_changes, describe_sides, settings_cause
from pefourier.causes.rope import is_rotation
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.loader import source_of
from pefourier.encodings.model_positions import ModelPositions, describe_positions
from pefourier.encodings.sources.huggingface import LayerRun
from pefourier.questions.outcome import Field, LayerDifference
from pefourier.types import Texts

UNREAD = ("unread-key", "gguf-unread")


def has_layers(enc: Encoding) -> bool:
    """Whether an encoding belongs to a model whose file describes its layers."""
    return enc.origin == "formula" and bool(enc.spec) and source_of(enc.spec) in ("config", "gguf")


def unread_keys(enc: Encoding) -> Texts:
    """Keys about positions that the file sets and its reader ignores, or the findings about keys.

    The keys come from `params` if set there, otherwise from the findings.
    """
    keys = enc.params.get("unread") or ()
    return tuple(keys) or tuple(f.message for f in enc.findings if f.code in UNREAD)


def model_runs(enc: Encoding) -> tuple[LayerRun, ...]:
    """Runs of equal layers of a model."""
    return describe_positions(enc.spec, len(enc)).layers


def compare_layers(first: Encoding, second: Encoding) -> list[LayerDifference]:
    """List the differences between two models, layer by layer."""
    models = [describe_positions(enc.spec, len(enc)) for enc in (first, second)]
    laid = [{i: run for run in model.layers for i in run.index} for model in models]
    rotations = [rotations_of(model) for model in models]
    gguf = [source_of(model.spec) == "gguf" for model in models]
    differences: dict[tuple[Field, str, str, str], list[int]] = {}
    in_words = cache(rotations_in_words)
    if not all(laid):
        differences |= {key: [] for key in unnumbered(*(model.layers for model in models))}
        laid = [{}, {}]
    count = [len(layers) for layers in laid]
    if count[0] != count[1]:
        beyond = range(min(count), max(count))
        differences["layers", f"{count[0]} layers", f"{count[1]} layers", ""] = [*beyond]
    for i in sorted(laid[0].keys() & laid[1].keys()):
        a, b = laid[0][i], laid[1][i]
        seen: list[tuple[Field, str, str, str]] = []
        if a.kind != b.kind:
            seen.append(("layers", a.kind, b.kind, ""))
        elif a.kind == "rotary" and (words := in_words(rotations[0][a.part], rotations[1][b.part])):
            seen.append(("rotations", *words))
        if not any(gguf):
            factors = factor_of_queries(models[0], a.kind), factor_of_queries(models[1], b.kind)
            seen.append(("factors", *factors, ""))
        if not (gguf[0] and a.window is None) and not (gguf[1] and b.window is None):
            sizes = str(a.window or "all positions"), str(b.window or "all positions")
            seen.append(("windows", *sizes, ""))
        for key in seen:
            if key[0] == "rotations" or key[1] != key[2]:
                differences.setdefault(key, []).append(i)
    factor_a, factor_b = (float(enc.params.get("softmax_factor", 1.0)) for enc in (first, second))
    if abs(factor_a - factor_b) > 1e-6 * max(factor_a, factor_b) and not any(gguf):
        differences[
            "factors", f"logits times {factor_a:.6g}", f"logits times {factor_b:.6g}", ""
        ] = []
    total = count[0] if count[0] == count[1] else 0
    return [LayerDifference(tuple(index), *key, total) for key, index in differences.items()]


def factor_of_queries(model: ModelPositions, kind: str) -> str:
    """Describe by what a model multiplies the queries of a layer."""
    t = model.temperature
    return f"queries times {t if t and (t.layers == 'all' or kind == 'none') else 1}"


def rotations_of(model: ModelPositions) -> dict[str, Encoding]:
    """Map each type of layer of a model to its rotation."""
    parts = zip(model.parts, model.rotations, strict=True)
    return {part: enc for part, enc in parts if is_rotation(enc)}


def rotations_in_words(first: Encoding, second: Encoding) -> tuple[str, str, str] | None:
    """Describe both rotations and their difference, by settings or by frequencies, or None.

    Rotations are the same if their frequencies and factors are, within float32 rounding.
    """
    pair = (first, second)
    a, b = (
        np.append(enc.measure.frequencies, enc.params.get("attention_factor", 1.0)) for enc in pair
    )
    if len(a) == len(b) and np.allclose(a, b, rtol=1e-6, atol=0):
        return None
    cause = settings_cause(first, second)
    if cause is None:
        return "", "", "other frequencies or another factor"
    return *describe_sides(cause.changes), describe_changes(cause.changes)


def unnumbered(*models: Sequence[LayerRun]) -> Iterator[tuple[Field, str, str, str]]:
    """Differences in kind and window between layers without known numbers."""
    aspects: tuple[tuple[Field, str], ...] = (("layers", "kind"), ("windows", "window"))
    for aspect, name in aspects:
        sets = ({str(getattr(run, name) or "all positions") for run in runs} for runs in models)
        first, second = (", ".join(sorted(names)) for names in sets)
        if first != second:
            yield aspect, first, second, ""
