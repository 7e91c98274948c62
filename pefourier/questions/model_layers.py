"""Where do two models differ? In layers, rotations and windows, and by which axes pairs turn.

Conventions
-----------
Layers are counted from 0. Models are configs or .gguf files, each by its one description; what only
one of them says, such as the window of a .gguf file that has none, is not compared. The pairs of a
rotation turn by the frame, row or column of an image's token, t, y and x (`sections`), which are
one for text; a table of tokens shows for each pair the whole numbers that it turns by.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from pefourier.diagnosis.config_errors import is_rotation
from pefourier.diagnosis.settings import describe_changes, describe_sides, settings_cause
from pefourier.encodings.encoding import DeclaredEncoding, Encoding
from pefourier.encodings.loader import source_of
from pefourier.encodings.model_positions import ModelPositions, describe_positions
from pefourier.encodings.sources.huggingface import LayerRun
from pefourier.questions.outcome import Field, LayerDifference

UNREAD = ("unread-key", "gguf-unread")


def has_layers(enc: Encoding) -> bool:
    """Whether an encoding is a model's, whose layers its file tells."""
    return enc.origin == "formula" and bool(enc.spec) and source_of(enc.spec) in ("config", "gguf")


def unread_keys(enc: Encoding) -> tuple[str, ...]:
    """Keys about positions that the file has and its reader does not use, or what is said of them.

    This is where they come from: `params`, or the findings about keys.
    """
    keys = enc.params.get("unread") or ()
    return tuple(keys) or tuple(f.message for f in enc.findings if f.code in UNREAD)


def model_runs(enc: Encoding) -> tuple[LayerRun, ...]:
    """Runs of layers of a model that are alike."""
    return describe_positions(enc.spec, len(enc)).layers


def compare_layers(first: Encoding, second: Encoding) -> list[LayerDifference]:
    """What differs between the layers of two models, layer by layer."""
    models = [describe_positions(enc.spec, len(enc)) for enc in (first, second)]
    laid = [{i: run for run in model.layers for i in run.index} for model in models]
    rotations = [rotations_of(model) for model in models]
    gguf = [source_of(model.spec) == "gguf" for model in models]
    differences: dict[tuple[Field, str, str, str], list[int]] = {}
    worded: dict[tuple[str, str], tuple[str, str, str] | None] = {}
    if not all(laid):
        differences |= {key: [] for key in unnumbered(*(model.layers for model in models))}
        laid = [{}, {}]
    count = [len(layers) for layers in laid]
    if count[0] != count[1]:
        beyond = range(min(count), max(count))
        differences["layers", f"{count[0]} layers", f"{count[1]} layers", ""] = [*beyond]
    for i in sorted(laid[0].keys() & laid[1].keys()):
        a, b = laid[0][i], laid[1][i]
        if a.kind != b.kind:
            differences.setdefault(("layers", a.kind, b.kind, ""), []).append(i)
        elif a.kind == "rotary":
            parts = a.part, b.part
            if parts not in worded:
                pair = rotations[0][a.part], rotations[1][b.part]
                worded[parts] = None if same_rotation(*pair) else rotations_in_words(*pair)
            if words := worded[parts]:
                differences.setdefault(("rotations", *words), []).append(i)
        is_silent = (gguf[0] and a.window is None) or (gguf[1] and b.window is None)
        if a.window != b.window and not is_silent:
            sizes = str(a.window or "all positions"), str(b.window or "all positions")
            differences.setdefault(("windows", *sizes, ""), []).append(i)
    factor_a, factor_b = (float(enc.params.get("softmax_factor", 1.0)) for enc in (first, second))
    if abs(factor_a - factor_b) > 1e-6 * max(factor_a, factor_b) and not any(gguf):
        differences[
            "factors", f"logits times {factor_a:.6g}", f"logits times {factor_b:.6g}", ""
        ] = []
    total = count[0] if count[0] == count[1] else 0
    return [LayerDifference(tuple(index), *key, total) for key, index in differences.items()]


def rotations_of(model: ModelPositions) -> dict[str, DeclaredEncoding]:
    """The rotation of each type of layer of a model."""
    parts = zip(model.parts, model.rotations, strict=True)
    return {part: enc for part, enc in parts if is_rotation(enc)}


def rotations_in_words(first: DeclaredEncoding, second: DeclaredEncoding) -> tuple[str, str, str]:
    """What two rotations that differ are, and a sentence: by their settings, or frequencies."""
    cause = settings_cause(first, second)
    if cause is None:
        differs = ~np.isclose(first.measure.frequencies, second.measure.frequencies, rtol=1e-6)
        return "", "", f"{differs.sum()} of {len(differs)} frequencies differ"
    return *describe_sides(cause.changes), describe_changes(cause.changes)


def unnumbered(*models: Sequence[LayerRun]) -> Iterator[tuple[Field, str, str, str]]:
    """What differs between layers whose numbers are not known: their kinds and windows."""
    aspects: tuple[tuple[Field, str], ...] = (("layers", "kind"), ("windows", "window"))
    for aspect, name in aspects:
        sets = ({str(getattr(run, name) or "all positions") for run in runs} for runs in models)
        first, second = (", ".join(sorted(names)) for names in sets)
        if first != second:
            yield aspect, first, second, ""


def same_rotation(first: DeclaredEncoding, second: DeclaredEncoding) -> bool:
    """Whether two rotations have the same frequencies and factor, to rounding in float32."""
    pair = (first, second)
    a, b = ([enc.params.get("attention_factor", 1.0), *enc.measure.frequencies] for enc in pair)
    return len(a) == len(b) and np.allclose(a, b, rtol=1e-6, atol=0)
