"""Where do two models differ? In layers, rotations and windows, and by which axes pairs turn.

Conventions
-----------
Layers are counted from 0. Models are configs or .gguf files, each by its one description; what only
one of them says, such as the window of a .gguf file that has none, is not compared. The pairs of a
rotation turn by the frame, row or column of an image's token, t, y and x (`sections`), which are
one for text; a table of tokens shows for each pair the whole numbers that it turns by.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from pefourier.diagnosis.config_errors import Cause
from pefourier.diagnosis.pair_differences import list_differences
from pefourier.diagnosis.pairs import PairWaves
from pefourier.diagnosis.settings import describe_changes, describe_sides, settings_cause
from pefourier.encodings.columns import AXES, describe_axes
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.findings import finding
from pefourier.encodings.loader import source_of
from pefourier.encodings.model_positions import describe_positions
from pefourier.encodings.sources.huggingface import LayerRun
from pefourier.writing.text import ranges

Field = Literal["layers", "rotations", "windows", "factors"]
MOST = 12  # layers that are listed by number
UNREAD = ("unread-key", "gguf-unread")


@dataclass(frozen=True)
class LayerDifference:
    """Layers of two models that differ in one way."""

    index: tuple[int, ...]  # empty where layers are not numbered
    what: Field
    first: str  # as each has it
    second: str
    words: str = field(default="", metadata={"told": False})  # of rotations whose settings differ
    count: int = field(default=0, metadata={"told": False})  # layers that both models have

    @property
    def places(self) -> str:
        """The layers by number, the first few, or all; the models where they have none.

        >>> LayerDifference((3, 7), "layers", "rotary", "none").places
        'layers 3, 7'
        """
        if len(self.index) == self.count > 1:
            return "both layers" if self.count == 2 else f"all {self.count} layers"
        return f"layers {ranges(self.index, MOST)}" if self.index else "models"


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
    rotations = [dict(zip(model.parts, model.rotations, strict=True)) for model in models]
    gguf = [source_of(model.spec) == "gguf" for model in models]
    differences: dict[tuple[Field, str, str, str], list[int]] = {}
    worded: dict[tuple[str, ...], tuple[str, str, str] | None] = {}
    if not all(laid):
        differences |= {key: [] for key in unnumbered(*(model.layers for model in models))}
        laid = [{}, {}]
    count = [len(layers) for layers in laid]
    if count[0] != count[1]:
        beyond = range(min(count), max(count))
        differences["layers", f"{count[0]} layers", f"{count[1]} layers", ""] = [*beyond]
    for i in sorted(laid[0].keys() & laid[1].keys()):
        runs = [layers[i] for layers in laid]
        kinds, windows = [run.kind for run in runs], [run.window for run in runs]
        if kinds[0] != kinds[1]:
            differences.setdefault(("layers", *kinds, ""), []).append(i)
        elif kinds[0] == "rotary":
            pair = [turns[run.part] for turns, run in zip(rotations, runs, strict=True)]
            key = tuple(run.part for run in runs)
            if key not in worded:
                worded[key] = None if same_rotation(*pair) else rotations_in_words(*pair)
            if worded[key]:
                differences.setdefault(("rotations", *worded[key]), []).append(i)
        silent = any(g and window is None for g, window in zip(gguf, windows, strict=True))
        if windows[0] != windows[1] and not silent:
            sizes = [str(window or "all positions") for window in windows]
            differences.setdefault(("windows", *sizes, ""), []).append(i)
    factors = [float(enc.params.get("softmax_factor", 1.0)) for enc in (first, second)]
    if abs(factors[0] - factors[1]) > 1e-6 * max(factors) and not any(gguf):
        differences["factors", *(f"logits times {x:.6g}" for x in factors), ""] = []
    total = count[0] if count[0] == count[1] else 0
    return [LayerDifference(tuple(index), *key, total) for key, index in differences.items()]


def rotations_in_words(first: Encoding, second: Encoding) -> tuple[str, str, str]:
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


def same_rotation(first: Encoding, second: Encoding) -> bool:
    """Whether two rotations have the same frequencies and factor, to rounding in float32."""
    pair = (first, second)
    a, b = ([enc.params.get("attention_factor", 1.0), *enc.measure.frequencies] for enc in pair)
    return len(a) == len(b) and np.allclose(a, b, rtol=1e-6, atol=0)


def compare_axes(result: Any, first: PairWaves, second: PairWaves) -> Any:
    """Rotations that turn text alike, and images by other axes."""
    m = min(len(first.axis), len(second.axis))
    if not m or first.axis == second.axis:
        return result
    differs = np.array([a != b for a, b in zip(first.axis, second.axis, strict=False)])
    order = "".join((*AXES, "e"))
    changes = {
        "axes": tuple(
            describe_axes(np.array([order.index(letter) for letter in pairs.axis]))
            for pairs in (first, second)
        )
    }
    renamed = len({*zip(first.axis, second.axis, strict=False)}) == len({*first.axis})
    code = "axes" if renamed or differs.sum() == 1 else "sections"
    return replace(
        result,
        verdict="different",
        pairs=list_differences(first, second, differs),
        cause=Cause("both", (code,), changes, {}),
        differing=int(differs.sum()),
        counted=len(first.axis),
        unit="pairs",
    )


def axes_in_table(result: Any, *pairs: PairWaves) -> Any:
    """A table of an image's tokens beside a config whose pairs turn by frames, rows and columns."""
    declared, table = pairs if pairs[0].axis else pairs[::-1]
    if not declared.axis or table.form is None or len(declared.omega) != len(table.omega):
        return None
    if table.even is None or table.even.all():
        return None  # text
    axis = assign_axes(declared, table)
    if axis is None:
        return None
    fitted = replace(table, axis=axis, omega=declared.omega, even=None)
    ordered = (declared, fitted) if declared is pairs[0] else (fitted, declared)
    compared = compare_axes(result, *ordered)
    if compared is not result:
        return compared
    findings = (*result.findings, finding("pairing-unsaid"))
    return replace(result, verdict="the same", findings=findings)


def assign_axes(declared: PairWaves, table: PairWaves) -> tuple[str, ...] | None:
    """The axis of each pair of a table of tokens, by the whole numbers it turns by; None: text.

    Slow pairs show three rows of ids: those of columns change most often, those of frames least.
    """
    rows = np.arange(min(table.length, 4096))
    waves = table.waves(rows)
    if np.isnan(waves).any():
        return None
    angles = np.angle(waves)
    with np.errstate(divide="ignore", invalid="ignore"):
        ids = angles / declared.omega
    slow = np.flatnonzero((np.abs(ids - np.rint(ids)) < 0.02).all(axis=0) & (declared.omega < 0.5))
    columns = {tuple(np.rint(ids[:, k]).astype(int).tolist()) for k in slow}
    walks = sorted(columns, key=lambda walk: np.count_nonzero(np.diff(walk)))
    if len(walks) != 3:
        return None
    walk_waves = np.exp(1j * np.multiply.outer(np.array(walks), declared.omega))  # (3, n, m)
    residual = np.abs(walk_waves - waves / table.factor).max(axis=1)
    nearest = residual.argmin(axis=0)
    if residual.min(axis=0).max() > 1e-3:
        return None
    return tuple(AXES[i] for i in nearest)
