"""In which layers do two models differ? Which turn, by which rotation, and how far each sees.

Conventions
-----------
Layers are counted from 0. Models are configs or .gguf files; what only one of them says, such as
the window of a .gguf file that has none, is not compared.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import numpy as np

from pefourier.encodings import load
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.sources.gguf_file import layers_in
from pefourier.encodings.sources.layers import LayerRun, layer_spec, read_layers
from pefourier.encodings.specs import source_of

Field = Literal["layers", "rotations", "windows", "factors"]
MOST = 12  # layers that are listed by number
UNREAD = ("unread-key", "rope-unknown-key", "rope-unread", "rope-share-unread", "gguf-unread")


@dataclass(frozen=True)
class LayerDifference:
    """Layers of two models that differ in one way."""

    index: tuple[int, ...]  # empty where layers are not numbered
    what: Field
    first: str  # as each has it
    second: str

    @property
    def places(self) -> str:
        """The layers by number, the first few; the models where they have none.

        >>> LayerDifference((3, 7), "layers", "rotary", "none").places
        'layers 3, 7'
        """
        ellipsis = "…" * (len(self.index) > MOST)
        return (
            f"layers {', '.join(map(str, self.index[:MOST]))}{ellipsis}" if self.index else "models"
        )


def has_layers(enc: Encoding) -> bool:
    """Whether an encoding is a model's, whose layers its file tells."""
    return enc.origin == "formula" and bool(enc.spec) and source_of(enc.spec) in ("config", "gguf")


def unread_keys(enc: Encoding) -> tuple[str, ...]:
    """Keys about positions that the file has and its reader does not use, or what is said of them.

    This is where they come from: `params`, or the findings about keys.
    """
    keys = enc.params.get("unread") or ()
    return tuple(keys) or tuple(f.message for f in enc.findings if f.code in UNREAD)


def model_runs(enc: Encoding) -> list[LayerRun]:
    """Runs of layers of a model that are alike."""
    if source_of(enc.spec) == "gguf":
        return layers_in(enc.spec)
    return read_layers(enc.spec, enc.name)


def compare_layers(first: Encoding, second: Encoding) -> list[LayerDifference]:
    """What differs between the layers of two models, layer by layer."""
    runs = [model_runs(enc) for enc in (first, second)]
    laid = [runs_by_layer(model) for model in runs]
    differences: dict[tuple[Field, str, str], list[int]] = {}
    if not all(laid):
        differences |= {difference: [] for difference in unnumbered(*runs)}
        laid = [{}, {}]
    count = [len(layers) for layers in laid]
    if count[0] != count[1]:
        beyond = range(min(count), max(count))
        differences[("layers", f"{count[0]} layers", f"{count[1]} layers")] = [*beyond]
    gguf = [source_of(enc.spec) == "gguf" for enc in (first, second)]
    turns = [rotation_reader(enc) for enc in (first, second)]
    for i in sorted(laid[0].keys() & laid[1].keys()):
        run_a, run_b = laid[0][i], laid[1][i]
        if run_a.kind != run_b.kind:
            differences.setdefault(("layers", run_a.kind, run_b.kind), []).append(i)
        elif run_a.kind == "rotary" and not same_rotation(
            turns[0](run_a.part), turns[1](run_b.part)
        ):
            parts = [run.part or "all layers'" for run in (run_a, run_b)]
            differences.setdefault(("rotations", *parts), []).append(i)
        silent = any(g and run.window is None for g, run in zip(gguf, (run_a, run_b), strict=True))
        if run_a.window != run_b.window and not silent:
            sizes = [
                "all positions" if run.window is None else str(run.window) for run in (run_a, run_b)
            ]
            differences.setdefault(("windows", *sizes), []).append(i)
    factors = [float(enc.params.get("softmax_factor", 1.0)) for enc in (first, second)]
    if abs(factors[0] - factors[1]) > 1e-6 * max(factors) and not any(gguf):
        differences[("factors", *(f"logits times {x:.6g}" for x in factors))] = []
    return [LayerDifference(tuple(index), *key) for key, index in differences.items()]


def runs_by_layer(runs: list[LayerRun]) -> dict[int, LayerRun]:
    """The run that each layer is in; empty where layers are not numbered."""
    return {i: replace(run, index=()) for run in runs for i in run.index}


def unnumbered(first: list[LayerRun], second: list[LayerRun]) -> Iterator[tuple[Field, str, str]]:
    """What differs between layers whose numbers are not known: their kinds and windows."""
    for aspect, name in (("layers", "kind"), ("windows", "window")):
        names = [
            sorted({str(getattr(run, name) or "all positions") for run in runs})
            for runs in (first, second)
        ]
        if names[0] != names[1]:
            yield aspect, *(", ".join(values) for values in names)


def rotation_reader(enc: Encoding):
    """The frequencies and the factor of each type of layer of a model, each read once."""

    @cache
    def read(part: str) -> tuple[np.ndarray, float] | None:
        rotation = load(layer_spec(enc.spec, part), len(enc)) if part else enc
        if rotation.measure is None:
            return None
        return rotation.measure.frequencies, float(rotation.params.get("attention_factor", 1.0))

    return read


def same_rotation(
    first: tuple[np.ndarray, float] | None, second: tuple[np.ndarray, float] | None
) -> bool:
    """Whether two rotations have the same frequencies and factor, to rounding in float32."""
    if first is None or second is None:
        return first is second
    close = first[0].shape == second[0].shape and np.allclose(
        first[0], second[0], rtol=1e-6, atol=0
    )
    return bool(close) and abs(first[1] - second[1]) <= 1e-6 * abs(first[1])
