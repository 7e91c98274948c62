"""Description of a model's positions, from a config, a .gguf file or the name of an encoding.

The description has runs of equal layers, with their kind, rotation and window; each rotation as an
encoding of the requested length; lengths and their sources; and ignored keys about positions. All
commands about models use it. The parameters of `rope` describe each rotation.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from pefourier.encodings.encoding import Encoding, Finding, Findings, finding
from pefourier.encodings.families.absolute import Temperature, temperature_in
from pefourier.encodings.loader import load, load_model, open_model, source_of
from pefourier.encodings.sources.huggingface import (
    INDEXER,
    LayerRun,
    ModelConfig,
    ModelFile,
    lint_layers,
    read_temperature,
    trained_as_stated,
)
from pefourier.errors import PefourierError, check_cost, shown
from pefourier.types import Places, Texts, Values, frozen, frozen_arrays

if TYPE_CHECKING:
    from pefourier.encodings.sources.gguf_file import GgufFile

FARTHEST = 2**53  # largest length in a finding
BY_LENGTH = ("dynamic", "longrope")  # scalings whose frequencies depend on the length


@frozen
class TrainedLength:
    """The trained length and its source."""

    length: int | None  # None: unknown
    # of a config without scaling, before scaling, by the user
    source: Literal["stated", "assumed", "given", "unknown"]

    def __str__(self) -> str:
        return "unknown" if self.length is None else f"{self.length} ({self.source})"


@frozen
class StatedLength:
    """The length that a config states with scaling, greater than the length before scaling."""

    length: int
    key: str  # key of the config: max_position_embeddings, n_positions, context_length, …

    def __str__(self) -> str:
        return f"{self.length} ({self.key})"


@frozen_arrays
class ModelPositions:
    """The positions of a model, or of one encoding."""

    spec: str
    layers: tuple[LayerRun, ...]
    parts: Texts  # types of layers with different rotations; "" for all layers
    rotations: tuple[Encoding, ...]  # the rotation of each part, at `length`
    encoding: Encoding  # the first rotation, or another positional encoding
    indexer: Encoding | None  # rotation of the indexer, which selects keys for attention
    trained: TrainedLength
    stated: StatedLength | None
    stands_for: int | None  # length that the rotation supports: with its scaling, or as trained
    length: int  # requested length, by default the length that the model allows
    allowed: int | None  # length that a config allows, with its scaling
    unrotated: int  # dimensions of a head that are stored apart from the rotated dimensions
    temperature: Temperature | None
    tables: dict[str, int | None]  # `ModelConfig.tables`
    unread: Texts
    findings: Findings

    @property
    def trained_or_native(self) -> int:
        """Trained length, or the length of the shortest rotation if unknown."""
        before = (trained_as_stated(enc.params) or positions_of(enc) for enc in self.rotations)
        return self.trained.length or int(min(before))

    def widest_window(self, part: str | None = None) -> int | None:
        """Widest attention window of layers with a rotation; None: all positions."""
        rotating = (run for run in self.layers if run.kind == "rotary" and part in (None, run.part))
        windows = [run.window for run in rotating]
        known = [window for window in windows if window is not None]
        return max(known, default=None) if len(known) == len(windows) else None


def describe_positions(
    spec: str, length: int | None = None, trained: int | None = None, d: int | None = None
) -> ModelPositions:
    """Describe the positions of the model or encoding that a SPEC names.

    By default, `length` is what a config allows with its scaling. `trained` is the length trained
    with the current rotation; by default, the length before scaling is assumed.

    >>> found = describe_positions("rope:scaling=yarn,factor=4,original=4096", d=128)
    >>> str(found.trained), found.length
    ('4096 (assumed)', 16384)
    """
    is_name = source_of(spec) == "name"
    file = open_model(spec) if source_of(spec) in ("config", "gguf") else None
    model = file if isinstance(file, ModelFile) else None
    layers = layer_runs(file, spec, d)
    parts = tuple(dict.fromkeys(run.part for run in layers if run.kind == "rotary"))
    is_endless = is_name or (model is not None and model.longest() is None)
    if is_name and not length:  # the length to which the scaling extends
        params = load(spec, None, d).params
        factor = params.get("factor") and params.get("original")
        length = round(params["original"] * params["factor"]) if factor else None
    if parts and length:  # checked before loading the rotations
        check_cost(shown(spec), "positions in narrow formats", length)
    default = length if is_endless else None
    native = [load_layers(file, spec, part, default, d) for part in parts or [""]]
    native_length = max(map(positions_of, native))
    longest = length or native_length
    is_whole = not parts or all(len(enc) == longest for enc in native)
    rotations = (
        native if is_whole else [load_layers(file, spec, part, longest, d) for part in parts]
    )
    notes = dict.fromkeys(note for enc in rotations for note in enc.findings)
    before = [trained_as_stated(enc.params) for enc in native]
    if trained:
        trained_length = TrainedLength(trained, "given")
    elif is_endless and not all(before):
        trained_length = TrainedLength(None, "unknown")
    else:  # before scaling, or that of a config without scaling
        lengths = (n or positions_of(enc) for n, enc in zip(before, native, strict=True))
        unstated = model is not None and not (model.tables() or model.length_key)
        is_assumed = scaled_params(native) or any(before) or unstated
        trained_length = TrainedLength(int(min(lengths)), "assumed" if is_assumed else "stated")
    is_indexed = bool(parts and model and "indexer" in model.row and not model.part)
    return ModelPositions(
        spec=spec,
        layers=tuple(layers),
        parts=parts,
        rotations=tuple(rotations[: len(parts)]),
        encoding=rotations[0],
        indexer=load_model(file.of_layer(INDEXER), longest, d) if file and is_indexed else None,
        trained=trained_length,
        stated=stated_length(file, native) if file else None,
        stands_for=native_length if file and scaled_params(native) else trained_length.length,
        length=longest,
        allowed=native_length if model else None,
        unrotated=file.unrotated if file else 0,
        temperature=read_temperature(model, longest)
        if model
        else temperature_in(rotations[0].params, longest),
        tables=model.tables() if model else {},
        unread=tuple(dict.fromkeys(k for enc in rotations for k in enc.params.get("unread", ()))),
        findings=(
            *(note for note in notes if length is None or note.code != "length-default"),
            *(lint_layers(model, layers, trained_length.length or longest) if model else ()),
            *scaling_notes(rotations, trained_length, file),
        ),
    )


def temperature_of(enc: Encoding, length: int) -> Temperature | None:
    """Temperature of rotated queries, by the parameters of an encoding or its config."""
    model = enc.file and enc.file.model
    temperature = read_temperature(model, length) if model else temperature_in(enc.params, length)
    return temperature if temperature and temperature.layers == "all" else None


def refuse_random(first: Encoding, second: Encoding) -> None:
    """Refuse to compare numbers that a config leaves to its weights with other numbers."""
    for enc, other in ((first, second), (second, first)):
        if enc.file is not None and enc.untrained and not other.untrained:
            raise PefourierError(
                f"the numbers of {shown(enc.spec)} are random, because its folder has no weights; "
                "put model.safetensors there to compare them"
            )


def scaling_notes(
    rotations: Sequence[Encoding], met: TrainedLength, file: "ModelConfig | GgufFile | None"
) -> Iterator[Finding]:
    """Yield findings on the trained length assumed, and on scalings that depend on the length.

    For linear and dynamic scaling, the length in a config may apply before or after scaling, unless
    the config states both.
    """
    scaled = scaled_params(rotations)
    if met.source == "assumed" and met.length and scaled:
        params, is_before = scaled[0], any(map(trained_as_stated, scaled))
        scaling, variant = params["scaling"], "before" if is_before else "scaled"
        slots = {"scaling": scaling, "length": met.length}
        is_open = scaling in ("linear", "dynamic") and file and not file.settles_original
        stated = file.stated if file and is_open else None
        if stated and 1 < params["factor"] <= FARTHEST / stated[1]:
            key, longest = stated
            variant = scaling if met.length == longest and is_before else "reached"
            shorter = max(round(longest / params["factor"]), 1)
            slots |= {"key": key, "longest": longest, "shorter": shorter}
            slots |= {"reach": round(longest * params["factor"])}
        yield finding("trained-assumed", variant, **slots)
    lengths = {p["scaling"]: p["original"] for p in scaled if p["scaling"] in BY_LENGTH}
    for scaling, original in lengths.items():
        yield finding("rope-by-length", scaling, n=original)


def stated_length(
    file: "ModelConfig | GgufFile", native: Sequence[Encoding]
) -> StatedLength | None:
    """Length that a config states, if it is greater than the length before scaling."""
    before = [n for params in scaled_params(native) if (n := trained_as_stated(params))]
    if file.stated is None or not before or file.stated[1] <= min(before):
        return None
    key, length = file.stated
    return StatedLength(length, key)


def scaled_params(encodings: Sequence[Encoding]) -> list[Values]:
    """Return the parameters of the rotations that have a scaling."""
    return [enc.params for enc in encodings if enc.params.get("scaling", "none") != "none"]


def load_layers(
    file: "ModelFile | GgufFile | None", spec: str, part: str, length: int | None, d: int | None
) -> Encoding:
    """Load the encoding of one type of layer, or of all layers."""
    if file is None:
        return load(spec, length, d)
    return load_model(file.of_layer(part) if part else file, length, d, is_sketch=True)


def positions_of(enc: Encoding) -> int:
    """Number of positions of an encoding; for lags, the largest lag plus 1."""
    return int(np.abs(enc.domain.x).max()) + 1 if enc.domain.kind == "lag" else len(enc)


def layer_runs(file: "ModelFile | GgufFile | None", spec: str, d: int | None) -> list[LayerRun]:
    """Runs of layers of a model; for an encoding, one run without indices."""
    if file:
        runs = file.layers
        usual = "" if all(run.kind for run in runs) else load_layers(file, spec, "", None, d).name
        return [replace(run, kind=run.kind or usual) for run in runs]
    enc = load(spec, None, d)
    on_a_line = enc.injection == "rotate" and enc.domain.is_line
    return [LayerRun((), "rotary" if on_a_line else enc.name, "", None)]


def axis_in(enc: Encoding) -> Places | None:
    """Index of the axis (t, y, x) that rotates each pair of a model; None: text only.

    The config or its model type sets the axes. In a .gguf file, 3 is axis e of llama.cpp.
    """
    if enc.file is None or not enc.measure:
        return None
    axes: Places | None = enc.file.axis_of_pairs(len(enc.measure))
    return axes


def at_rows_of(enc: Encoding, counterpart: Encoding) -> Encoding:
    """Reload a rotation whose frequencies depend on the length at the length of a table."""
    is_fixed = enc.params.get("scaling") not in BY_LENGTH or counterpart.origin == "formula"
    if is_fixed or not enc.spec or len(enc) == len(counterpart):
        return enc
    return load(enc.spec, len(counterpart), enc.params["d"])


def axes_of(enc: Encoding) -> Texts:
    """Image axis (t, y, x; e of llama.cpp) that rotates each pair of a model; empty: text only."""
    try:
        axis = axis_in(enc)
    except PefourierError:  # sections do not fit the pairs, which a finding reports
        return ()
    return () if axis is None else tuple("tyxe"[i] for i in axis)
