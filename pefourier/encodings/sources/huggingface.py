"""What positions does this model config set? Hugging Face's config.json, read as data.

Conventions
-----------
What a model's code adds to its config (defaults, the offset of its first position, the order of
columns) is in the rows of `pefourier.encodings.sources.models`, by ``model_type``. What
transformers refuses is refused here; what it only warns of is a finding of the encoding. Keys that
name code of the model's own (``auto_map``) are never followed.
"""

import os
from dataclasses import dataclass, replace

import numpy as np

from pefourier.encodings.columns import exchanged
from pefourier.encodings.encoding import Encoding, Finding
from pefourier.encodings.findings import finding
from pefourier.encodings.refused import REASONS
from pefourier.encodings.sections import axes_of_sections
from pefourier.encodings.sources import weights
from pefourier.encodings.sources.axes_config import read_axes
from pefourier.encodings.sources.config import (
    HEADS,
    WIDTH,
    ModelConfig,
    Section,
    TrackedKeys,
    choose_part,
    read_object,
)
from pefourier.encodings.sources.layers import LayerRun, layer_schedule
from pefourier.encodings.sources.models import type_row, version
from pefourier.encodings.sources.rope_config import (
    Pairing,
    layer_sections,
    pairing_of,
    read_rotation,
    rotates,
    sections_of,
)
from pefourier.encodings.sources.unread import note_unread
from pefourier.errors import PefourierError, UnknownPositions, shown, unknown
from pefourier.files import read_toml


@dataclass(frozen=True)
class ModelFile:
    """What a config says of the positions of its model, or of the one inside that a SPEC names.

    A .gguf file says the same (`pefourier.encodings.sources.gguf_file.GgufFile`). What follows from
    it over a length is `pefourier.encodings.model_positions.ModelPositions`.
    """

    spec: str
    model: ModelConfig  # its part is the type of layer that is named
    section: Section  # all that is in the file

    @property
    def layers(self) -> list[LayerRun]:
        """Layers that are alike."""
        return layer_schedule(self.model)

    @property
    def rotations(self) -> list[str]:
        """The types of layers with a rotation of their own, in their order; else none."""
        if self.model.part or not rotates(self.model):
            return []
        sections = layer_sections(self.model)
        unlike = {str((section.values, turns)) for section, turns in sections.values()}
        if len(unlike) < 2:
            return []
        laid = [run.part for run in self.layers if run.kind == "rotary"]
        return list(dict.fromkeys(laid)) or list(sections)

    def spec_of(self, layer: str) -> str:
        """The SPEC of a type of layer, or of all."""
        path, _, part = self.spec.partition("#")
        inner = part.removesuffix(self.model.part).removesuffix(".")
        return f"{path}#{'.'.join(filter(None, (inner, layer)))}" if layer else self.spec

    def axis_of_pairs(self, pairs: int) -> np.ndarray | None:
        """Which of the axes t, y, x turns each pair; None where all turn by one position."""
        sections = sections_of(self.model)
        return sections and axes_of_sections(*sections, pairs)

    @property
    def pairing(self) -> Pairing | None:
        """Which rows of a head turn together; None: not known."""
        return pairing_of(self.model)

    @property
    def still(self) -> int:
        """Dimensions of a head that are kept apart from those that turn, as DeepSeek's has."""
        config = self.model.config
        return (config.count("qk_rope_head_dim") and config.count("qk_nope_head_dim")) or 0

    def encoding(
        self,
        length: int | None = None,
        d: int | None = None,
        grid: tuple[int, ...] = (),
        prefix: int = 0,
    ) -> Encoding:
        """The positions that the config sets.

        Parameters
        ----------
        length : int, optional
            Default: the longest sequence that the config allows. Frequencies scaled by rope_type
            dynamic or longrope depend on it, as in the model.
        d : int, optional
            Only where the config sets no dimension.
        grid, prefix
            Sides of the grid of a vision model, where they are not those of its config.
        """
        model = replace(self.model, length=length, d=d, grid=grid, prefix=prefix)
        ways = (read_axes, read_biases, read_sinusoid, read_rotation, read_none)
        for reader in (*ways, weights.read_positions):
            enc = reader(model)
            if enc is not None:
                notes = () if "#" in self.spec else tower_notes(self.spec, self.section)
                enc = note_unread(enc, model, self.section)
                notes = (*enc.findings, *notes, *code_notes(model.config))
                return replace(enc, spec=self.spec, findings=notes)
        raise no_answer(model)


def open_config(spec: str) -> ModelFile:
    """The config.json, or the one in a model folder, that a SPEC names.

    Behind ``#`` stands a config inside, then perhaps a type of layer with rotations of its own
    (full_attention), encoder or decoder, or the name of a tensor of learned positions.
    """
    path, _, part = spec.partition("#")
    file = os.path.join(path, "config.json") if os.path.isdir(path) else path
    section = Section(shown(file), TrackedKeys(read_object(file)))
    config, kind, part = choose_part(section, part)
    model = ModelConfig(file, part, config, kind, None, None, type_row(kind) or {})
    return ModelFile(spec, model, section)


NO_POSITIONS = ("nope", "none", "no_position")  # as configs call them


def no_answer(model: ModelConfig) -> PefourierError:
    """Why a config is not answered."""
    who = f"{shown(model.file)} (model_type {shown(model.kind)})"
    if not model.row:
        return UnknownPositions(
            f"{shown(model.file)} sets no positions: model_type {shown(model.kind)} is not known "
            "here and no key of a rotation is set; name an encoding or a file of codes"
        )
    kinds = model.row["kind"].split()
    if weights.has_no_table(model):
        kinds = ["relative" if model.config.values.get("relative_attention") is True else "none"]
    reason = model.row.get("reason") or read_toml(REASONS)["kinds"][kinds[0]]
    return UnknownPositions(f"{who} is not answered: {reason}")


def tower_notes(spec: str, section: Section) -> list[Finding]:
    """How to ask of the configs inside one whose models have positions on the points of images."""
    inside = [key for key, value in section.values.items() if isinstance(value, dict)]
    kinds = {key: choose_part(section, key)[1] for key in inside if key.endswith("_config")}
    towers = [
        shown(f"{spec}#{key}") for key, kind in kinds.items() if "axial" in (type_row(kind) or ())
    ]
    return [finding("vision-tower", asked=" or ".join(towers))] if towers else []


def code_notes(config: Section) -> tuple[Finding, ...]:
    """What to know of a config that asks for code of its own."""
    keys = [key for key in ("auto_map", "trust_remote_code") if config.values.get(key)]
    if not keys:
        return ()
    return (finding("remote-code", key=keys[0], config=config.label, version=version()),)


def read_biases(model: ModelConfig) -> Encoding | None:
    """ALiBi and T5's buckets, one column per head."""
    row, config = model.row, model.config
    heads = model.own("heads", HEADS)
    attention = config.section(row["inside"]) if "inside" in row else config
    switched = row.get("otherwise", row.get("kind")) == "alibi" or not row
    usual = row.get("kind") == "alibi"
    alibi = attention.values.get("alibi", usual) if switched or usual else False
    if not isinstance(alibi, bool):
        raise attention.wrong("alibi", alibi, "true or false")
    if switched and alibi:
        steepest = attention.number("alibi_bias_max")
        if steepest not in (None, 8.0):
            raise attention.wrong("alibi_bias_max", steepest, "8, the slopes of ALiBi")
        check_part(model)
        return model.build(
            "alibi", model.dimension(model.sized(heads), "number of heads"), causal=True
        )
    trained = weights.read_buckets(model) if row.get("kind") == "t5" else None
    if trained is not None or row.get("kind") != "t5":
        return trained
    check_part(model)
    buckets = weights.bucket_keys(model)
    count = model.dimension(model.sized(heads), "number of heads")
    return model.build("t5", count, finding("untrained", "t5"), **buckets)


def read_none(model: ModelConfig) -> Encoding | None:
    """No positions at all, where a config switches off the rotation that its model type has."""
    row, embedding_type = model.row, model.config.untracked.values.get("position_embedding_type")
    switched = "switch" in row and row["kind"].split() == ["rotary"] and "otherwise" not in row
    if rotates(model) or not (switched or (not row and embedding_type in NO_POSITIONS)):
        return None
    width = model.sized(model.own("width", WIDTH)) or model.d
    return model.build("none", model.dimension(width, "width"))


def check_part(model: ModelConfig) -> None:
    """Refuse what follows # where it is neither side of the model."""
    if model.part not in ("", "encoder", "decoder"):
        raise unknown(f"part of {shown(model.file)}", model.part, ("encoder", "decoder"))


def read_sinusoid(model: ModelConfig) -> Encoding | None:
    """Sinusoids that the model's code computes."""
    row = model.row
    if not model.computes:
        return None
    if model.part and model.part == row.get("learned_part"):
        return None
    check_part(model)
    d = model.dimension(model.sized(model.own("width", WIDTH)), "width")
    offset = weights.first_row(model)
    enc = model.build(
        "sinusoidal", d, *weights.offset_notes(model.kind, offset), **row["table"], offset=offset
    )
    if not row.get("cosines_first"):
        return weights.read_stored_sinusoid(model, enc)
    return replace(enc, codes=lambda x: exchanged(enc.codes(x), row["table"]["layout"]))
