"""What positions does a model have? One description of a config, of a .gguf file, or of a name.

Layers that are alike, with their kind, rotation and window; each rotation as an encoding of the
length asked for; lengths, and where they come from; keys about positions that nobody has read. All
questions about models ask this; what a rotation is made of stands in the parameters of `rope`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from pefourier.encodings.checks import check_cost
from pefourier.encodings.encoding import DeclaredEncoding, Encoding, Finding
from pefourier.encodings.findings import finding
from pefourier.encodings.loader import load, open_model, source_of
from pefourier.encodings.sources.huggingface import (
    INDEXER,
    LayerRun,
    ModelConfig,
    ModelFile,
    Temperature,
    lint_layers,
    read_temperature,
    trained_as_stated,
)
from pefourier.errors import shown

if TYPE_CHECKING:
    from pefourier.encodings.sources.gguf_file import GgufFile

Source = Literal["stated", "assumed", "given", "unknown"]
FARTHEST = 2**53  # positions of a reading that is offered
BY_LENGTH = ("dynamic", "longrope")  # scalings whose frequencies depend on the length


@dataclass(frozen=True)
class TrainedLength:
    """Positions of training, and who says so."""

    length: int | None  # None: unknown
    source: Source  # stated: by a config without a scaling; assumed: before one; given: by the user

    def __str__(self) -> str:
        return "unknown" if self.length is None else f"{self.length} ({self.source})"


@dataclass(frozen=True)
class StatedLength:
    """The length that a config states with its scaling on, above that before the scaling."""

    length: int
    key: str  # of the config: max_position_embeddings, n_positions, context_length, …

    def __str__(self) -> str:
        return f"{self.length} ({self.key})"


@dataclass(frozen=True, eq=False)
class ModelPositions:
    """The positions of a model as a whole, or those of one encoding."""

    spec: str
    layers: tuple[LayerRun, ...]
    parts: tuple[str, ...]  # the types of layers with a rotation of their own; "" of all
    rotations: tuple[Encoding, ...]  # of each part, at the length
    codes: Encoding  # the first of them, or what positions there are
    indexer: Encoding | None  # the rotation of what chooses keys beside attention
    trained: TrainedLength
    stated: StatedLength | None
    stands_for: int | None  # positions that the rotation is for: with its scaling, or of training
    length: int  # asked for, else what the model allows
    allowed: int | None  # by a config, with its scaling
    unrotated: int  # dimensions of a head that are kept apart from those that turn
    temperature: Temperature | None
    tables: dict[str, int | None]  # `ModelConfig.tables`
    unread: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def trained_or_native(self) -> int:
        """Positions of training, or those of the shortest rotation where nobody says them."""
        before = (trained_as_stated(enc.params) or positions_of(enc) for enc in self.rotations)
        return self.trained.length or int(min(before))

    def widest_window(self, part: str | None = None) -> int | None:
        """The most positions that a query of layers with a rotation sees; None: all."""
        rotating = (run for run in self.layers if run.kind == "rotary" and part in (None, run.part))
        windows = [run.window for run in rotating]
        known = [window for window in windows if window is not None]
        return max(known, default=None) if len(known) == len(windows) else None


def describe_positions(
    spec: str, length: int | None = None, trained: int | None = None, d: int | None = None
) -> ModelPositions:
    """The one description of what a SPEC names, over `length` positions.

    `length` is by default what a config allows with its scaling. `trained` positions were trained
    with the rotation that there is now; without it the length before a scaling is assumed.

    >>> found = describe_positions("rope:scaling=yarn,factor=4,original=4096", d=128)
    >>> str(found.trained), found.length
    ('4096 (assumed)', 16384)
    """
    source = source_of(spec)
    file = open_model(spec) if source in ("config", "gguf") else None
    model = file.model if isinstance(file, ModelFile) else None
    stating = file.model if isinstance(file, ModelFile) else file
    layers = layer_runs(file, spec, d)
    parts = tuple(dict.fromkeys(run.part for run in layers if run.kind == "rotary"))
    is_endless = source == "name" or (model is not None and model.longest() is None)
    length = extended_length(spec, d) if source == "name" and not length else length
    if parts and length:  # before positions are numbered
        check_cost(shown(spec), "positions in narrow formats", length)
    default = length if is_endless else None
    native = [load_layers(file, spec, part, default, d) for part in parts or [""]]
    native_length = max(map(positions_of, native))
    longest = length or native_length
    is_whole = not parts or all(len(enc) == longest for enc in native)
    rotations = (
        native if is_whole else [load_layers(file, spec, part, longest, d) for part in parts]
    )
    trained_length = training_length(native, trained, model, is_endless=is_endless)
    is_indexed = bool(parts and model and "indexer" in model.row and not model.part)
    return ModelPositions(
        spec=spec,
        layers=tuple(layers),
        parts=parts,
        rotations=tuple(rotations[: len(parts)]),
        codes=rotations[0],
        indexer=load(file.spec_of(INDEXER), longest, d) if file and is_indexed else None,
        trained=trained_length,
        stated=stated_length(stating, native) if stating else None,
        stands_for=native_length if file and is_scaled(native) else trained_length.length,
        length=longest,
        allowed=native_length if model else None,
        unrotated=file.unrotated if file else 0,
        temperature=read_temperature(model, longest) if model else None,
        tables=model.tables() if model else {},
        unread=tuple(dict.fromkeys(k for enc in rotations for k in enc.params.get("unread", ()))),
        findings=(
            *notes_on(rotations, is_sized=length is not None),
            *(lint_layers(model, layers, trained_length.length or longest) if model else ()),
            *scaling_notes(rotations, trained_length, stating),
        ),
    )


def extended_length(spec: str, d: int | None) -> int | None:
    """Positions up to which the scaling of a named rotation extends; None: it does not say."""
    params = load(spec, None, d).params
    return round(params["original"] * params["factor"]) if params.get("original") else None


def notes_on(rotations: Sequence[Encoding], *, is_sized: bool) -> Iterator[Finding]:
    """Findings of rotations, each once; not that a length is missing where one is asked for."""
    notes = dict.fromkeys(note for enc in rotations for note in enc.findings)
    yield from (note for note in notes if not (is_sized and note.code == "length-default"))


def scaling_notes(
    rotations: Sequence[Encoding], met: TrainedLength, file: "ModelConfig | GgufFile | None"
) -> Iterator[Finding]:
    """What is assumed of a training with a scaling, and what depends on the length."""
    scaled = [enc.params for enc in rotations if enc.params.get("scaling", "none") != "none"]
    if met.source == "assumed" and met.length and scaled:
        is_before = any(map(trained_as_stated, scaled))
        yield assumed_length(scaled[0], met.length, file, is_before=is_before)
    lengths = {p["scaling"]: p["original"] for p in scaled if p["scaling"] in BY_LENGTH}
    for scaling, original in lengths.items():
        yield finding("rope-by-length", scaling, n=original)


def assumed_length(
    params: Mapping[str, Any],
    length: int,
    file: "ModelConfig | GgufFile | None",
    *,
    is_before: bool,
) -> Finding:
    """Which training is assumed, with the other reading of a config that can be read in two ways.

    The longest sequence may be that before or after linear and dynamic scaling, where the config
    does not state both.
    """
    scaling, variant = params["scaling"], "before" if is_before else "scaled"
    slots = {"scaling": scaling, "length": length}
    is_open = scaling in ("linear", "dynamic") and file and not file.settles_original
    stated = file.stated if file and is_open else None
    if stated and 1 < params["factor"] <= FARTHEST / stated[1]:
        key, longest = stated
        variant = scaling if length == longest and is_before else "reached"
        shorter = max(round(longest / params["factor"]), 1)
        slots |= {"key": key, "longest": longest, "shorter": shorter}
        slots |= {"reach": round(longest * params["factor"])}
    return finding("trained-assumed", variant, **slots)


def training_length(
    native: Sequence[Encoding],
    requested: int | None,
    model: ModelConfig | None,
    *,
    is_endless: bool,
) -> TrainedLength:
    """Positions of training: as given, before a scaling, or what a config allows without one."""
    before = [trained_as_stated(enc.params) for enc in native]
    if requested:
        return TrainedLength(requested, "given")
    if is_endless and not all(before):
        return TrainedLength(None, "unknown")
    shortest = min(n or positions_of(enc) for n, enc in zip(before, native, strict=True))
    unstated = model is not None and not (model.tables() or model.length_key)
    is_assumed = is_scaled(native) or any(before) or unstated
    return TrainedLength(int(shortest), "assumed" if is_assumed else "stated")


def stated_length(
    file: "ModelConfig | GgufFile", native: Sequence[Encoding]
) -> StatedLength | None:
    """The longest sequence of a config, where it is above the length before its scaling."""
    scaled = [enc.params for enc in native if enc.params.get("scaling", "none") != "none"]
    before = [n for params in scaled if (n := trained_as_stated(params))]
    if file.stated is None or not before or file.stated[1] <= min(before):
        return None
    key, length = file.stated
    return StatedLength(length, key)


def is_scaled(encodings: Sequence[Encoding]) -> bool:
    """Whether some rotation has a scaling."""
    return any(enc.params.get("scaling", "none") != "none" for enc in encodings)


def load_layers(
    file: "ModelFile | GgufFile | None", spec: str, part: str, length: int | None, d: int | None
) -> Encoding:
    """The encoding of one type of layer, or of all."""
    table = file.table_without_weights() if isinstance(file, ModelFile) else None
    return table or load(file.spec_of(part) if file and part else spec, length, d)


def positions_of(enc: Encoding) -> int:
    """Positions of an encoding; of one of lags those between which its farthest lag lies."""
    return int(np.abs(enc.domain.x).max()) + 1 if enc.domain.kind == "lag" else len(enc)


def layer_runs(file: "ModelFile | GgufFile | None", spec: str, d: int | None) -> list[LayerRun]:
    """Runs of layers of a model; of any other encoding one run without an index."""
    if file:
        runs = file.layers
        usual = "" if all(run.kind for run in runs) else load_layers(file, spec, "", None, d).name
        return [replace(run, kind=run.kind or usual) for run in runs]
    enc = load(spec, None, d)
    on_a_line = enc.injection == "rotate" and len(enc.domain.sides) == 1
    return [LayerRun((), "rotary" if on_a_line else enc.name, "", None)]


def axis_in(enc: Encoding) -> NDArray[np.int64] | None:
    """Which of the axes t, y, x turns each pair of a rotation of a model; None: text alone.

    That a config tells, or its model type has; of a .gguf file 3 stands for none of them.
    """
    if source_of(enc.spec) not in ("config", "gguf") or not isinstance(enc, DeclaredEncoding):
        return None
    return open_model(enc.spec).axis_of_pairs(len(enc.measure.frequencies))
