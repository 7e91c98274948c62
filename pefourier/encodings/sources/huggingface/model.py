"""What positions does this model config set? Hugging Face's config.json, read as data.

Conventions
-----------
What a model's code adds to its config (defaults, the offset of its first position, the order of
columns) is in the rows of `pefourier.encodings.sources.huggingface.config`, by ``model_type``. What
transformers refuses is refused here; what it only warns of is a finding of the encoding. Keys that
name code of the model's own (``auto_map``) are never followed.

The grid of a vision model stands in its row under ``axial``, or a list of such, of which the first
counts whose ``when`` [key, value] holds. Keys: ``encoding`` (learned: a table in the weights) with
its ``own`` parameters and those that are ``read`` (parameter: keys); ``d`` (``head``, or ``width``
over ``heads``; ``times``: head times heads); ``sides``, one an axis: a ``size`` over another, each
[key, default] (``first``: one more for the first frame); ``usual`` sides where a config has none;
``prefix`` and a key of ``registers``; ``reference``, bases over scales; ``pretrained``, a key that
has the window of SwinV2's pretraining, or one for each stage; ``rescaled``, a key of the factor up
to which training stretches coordinates, and its default.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pefourier.encodings.columns import axes_of_sections, exchanged
from pefourier.encodings.domain import lattice
from pefourier.encodings.encoding import Encoding, Finding
from pefourier.encodings.findings import finding
from pefourier.encodings.grids import check_fit, count_points, size_of
from pefourier.encodings.registry import BUILDERS, REASONS
from pefourier.encodings.sources.huggingface import weights
from pefourier.encodings.sources.huggingface.config import (
    WIDTH,
    ModelConfig,
    choose_part,
    type_row,
    version,
)
from pefourier.encodings.sources.huggingface.layers import LayerRun, layer_schedule, note_unread
from pefourier.encodings.sources.huggingface.rope import (
    PAIRED,
    Pairing,
    layer_sections,
    layout_of,
    read_rotation,
    rotates,
    sections_of,
)
from pefourier.encodings.sources.json_object import HEADS, Section, TrackedKeys, read_object
from pefourier.errors import PefourierError, UnknownPositions, shown, unknown
from pefourier.writing.files import read_toml, split_spec

Block = Mapping[str, Any]
SCALED_FROM = 64  # patches a side that PixArt's scale is one for


def read_axes(model: ModelConfig) -> Encoding | None:
    """The positions on the grid of a vision model; None where its type is not known to have one."""
    block = block_of(model)
    if block is None:
        return None
    is_learned = block["encoding"] == "learned"
    if is_learned or block.get("stored"):
        enc = read_grid(model, block)
        if enc is not None or is_learned:
            return enc  # without weights another reader says where the table is
    if model.part:
        raise PefourierError(f"{shown(model.file)} has no part {shown(model.part)}; leave out #")
    return formula(model, block)


def block_of(model: ModelConfig) -> Block | None:
    """The block of the model's row that its config asks for."""
    blocks = model.row.get("axial", [])
    for block in blocks if isinstance(blocks, list) else [blocks]:
        key, expected, usual = block.get("when", ("", None, None))
        if not key or model.config.values.get(key, usual) == expected:
            return block
    return None


def formula(model: ModelConfig, block: Block) -> Encoding:
    """The encoding that the model computes, or that its training starts from."""
    sides, findings = sides_of(model, block)
    parameters = {**block.get("own", {}), **values_read(model, block)}
    if "reference" in block:
        parameters["reference"] = references(model, block)
    if "divided_by" in block:  # indices, of each axis of the order, as frequencies are
        numbers = tuple(divisor_of(model, *divisor) for divisor in block["divided_by"])
        parameters |= {"stretch": numbers, "stretch_by": "linear"}
    if "pretrained" in block:
        parameters["pretrained"] = pretrained(model, block, len(sides))
    if block["encoding"] in ("axial", "axial-rope"):
        parameters["prefix"] = prefix_of(model, block)
    if "note" in block:
        untrained = BUILDERS[block["encoding"]].untrained
        code = ("untrained", "biases") if untrained else ("grid-convention",)
        findings = (*findings, finding(*code, note=block["note"]))
    d = dimension_of(model, block)
    enc = model.named(findings, block["encoding"], d=d, grid=sides, **parameters)
    if "rescaled" not in block:
        return enc
    key, usual = block["rescaled"]
    rescaled = model.config.number(key) if key in model.config.values else usual
    return replace(enc, params={**enc.params, "rescaled": rescaled})


def dimension_of(model: ModelConfig, block: Block) -> int:
    """Size of a head, or of the whole model where codes are added."""
    sizes = {key: value_of(model, spec) for key, spec in block["d"].items() if key != "times"}
    head, width, heads = (sizes.get(key) for key in ("head", "width", "heads"))
    if head is None and heads and width % heads:
        raise PefourierError(f"{model.config.label}: {heads} heads do not divide its width {width}")
    d = head or (width // heads if heads else width)
    return model.dimension(d * heads if block["d"].get("times") else d, "size of a head or width")


def pretrained(model: ModelConfig, block: Block, axes: int) -> tuple[int, ...]:
    """The window of pretraining, of a list that of the first stage; empty where there is none."""
    key = block["pretrained"]
    value = model.config.values.get(key)
    size = value[0] if isinstance(value, list) and value else value
    window = replace(model.config, values={key: size}).count(key, minimum=0)
    return (window,) * axes if window else ()


def value_of(model: ModelConfig, spec: list[Any], place: int = 0) -> int | None:
    """A whole number [keys, default] of a config; of a list the one at a place."""
    keys, default = spec
    key, value = model.config.first(*([keys] if isinstance(keys, str) else keys))
    if isinstance(value, list) and -len(value) <= place < len(value):
        value = value[place]
    return replace(model.config, values={key: value}).count(key) or default


def sides_of(model: ModelConfig, block: Block) -> tuple[tuple[int, ...], tuple[Finding, ...]]:
    """Sides of the grid: as asked for, as the config has them, or usual ones with a note."""
    if model.grid:
        return tuple(model.grid), ()
    if "sides" not in block:
        sides = tuple(block["usual"])
        details = {"config": model.config.label, "grid": size_of(sides)}
        return sides, (finding("grid-default", **details),)
    places = range(-len(block["sides"]), 0)  # of a list: the last are rows and columns
    sides = [side_of(model, *axis) for axis in zip(block["sides"], places, strict=True)]
    return tuple(sides), ()


def side_of(model: ModelConfig, axis: Mapping[str, Any], place: int) -> int:
    """Points along one axis."""
    size, over = (
        value_of(model, axis[key], place) if key in axis else 1 for key in ("size", "over")
    )
    first = bool(axis.get("first"))
    side = (size - first) // over + first
    side = -(-side // value_of(model, axis["again"])) if "again" in axis else side
    if side < 1:
        raise PefourierError(f"{model.config.label} has no patch of {over} in {size}; give --grid")
    return side


def prefix_of(model: ModelConfig, block: Block) -> int:
    """Rows before the grid."""
    registers = block.get("registers")
    rows = model.config.count(registers, minimum=0) or 0 if registers else 0
    return model.prefix or block.get("prefix", 0) + rows


def values_read(model: ModelConfig, block: Block) -> dict[str, Any]:
    """Parameters whose keys are in the config, also in its rope_parameters."""
    parameters = {}
    rope = model.config.section("rope_parameters")
    kind = rope.values.get("rope_type", "axial")
    if kind not in ("axial", "default"):
        raise rope.wrong("rope_type", kind, "axial or default: no scaling is known on axes")
    for name, key in block.get("read", {}).items():
        section = rope if rope.values.get(key) is not None else model.config
        value = section.parameter(key, tuple[float, ...] if name != "rho" else float)
        if value is not None:
            parameters[name] = value
    return parameters


def references(model: ModelConfig, block: Block) -> tuple[float, ...]:
    """The base of each axis of the order, over the scale of its coordinates."""
    bases = []
    for axis in block["reference"]:
        key, default = axis["scale"]
        if default == "by size":
            default = max(value_of(model, axis["size"]) // SCALED_FROM, 1)
        bases.append(side_of(model, axis, -1) / divisor_of(model, key, default))
    return tuple(bases)


def divisor_of(model: ModelConfig, key: str, usual: float) -> float:
    """A number of a config by which something is divided."""
    divisor = model.config.number(key)
    if divisor == 0:
        raise model.config.wrong(key, 0, "a number other than 0")
    return usual if divisor is None else divisor


def read_grid(model: ModelConfig, block: Block) -> Encoding | None:
    """The table of positions in the weights beside the config, on its grid."""
    tensors = weights.tensors_beside(model, weights.GRID_TENSOR)
    tensors = tensors or weights.tensors_beside(model, weights.TENSOR)
    if len(tensors) != 1:
        return None
    ((name, path),) = tensors.items()
    # rows before the grid are counted from its end
    enc = weights.load_tensor(replace(model, length=None), name, path)
    sides, findings = sides_of(model, block)
    if not (model.grid or model.prefix):
        shape, rows = (len(enc), enc.dim), count_points(sides) + prefix_of(model, block)
        doubts = weights.shape_findings(model, name, path, shape, (rows, None))
        enc = replace(enc, findings=(*enc.findings, *doubts))
    if enc.domain.grid:
        return enc
    prefix = model.prefix or max(len(enc) - count_points(sides), 0)
    check_fit(f"{name} of {shown(path)}", len(enc), sides, prefix)
    params = {**enc.params, "grid": sides, "prefix": prefix}
    findings = (*enc.findings, *findings)
    return replace(enc, domain=lattice(sides, prefix), params=params, findings=findings)


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
        path, part = split_spec(self.spec)
        inner = part.removesuffix(self.model.part).removesuffix(".")
        return f"{path}#{'.'.join(filter(None, (inner, layer)))}" if layer else self.spec

    def axis_of_pairs(self, pairs: int) -> np.ndarray | None:
        """Which of the axes t, y, x turns each pair; None where all turn by one position."""
        sections = sections_of(self.model)
        return sections and axes_of_sections(*sections, pairs)

    @property
    def pairing(self) -> Pairing | None:
        """Which rows of a head turn together; None: not known, or what turns is no line.

        halves: i and i + r/2 of the r that turn; neighbours: 2i and 2i + 1.
        """
        turns = self.model.row and rotates(self.model)
        return PAIRED.get(layout_of(self.model)) if turns else None

    @property
    def unrotated(self) -> int:
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
                notes = () if split_spec(self.spec)[1] else tower_notes(self.spec, self.section)
                enc = note_unread(enc, model, self.section)
                notes = (*enc.findings, *notes, *code_notes(model.config))
                return replace(enc, spec=self.spec, findings=notes)
        raise no_answer(model)

    def table_without_weights(self) -> Encoding | None:
        """A learned table as long as its config says, where the weights are not at hand.

        The numbers of its rows are not known. Of distances alone their buckets; None for all else.
        """
        enc = weights.declared_table(self.model)
        return enc and note_unread(replace(enc, spec=self.spec), self.model, self.section)


def open_config(spec: str) -> ModelFile:
    """The config.json, or the one in a model folder, that a SPEC names.

    Behind ``#`` stands a config inside, then perhaps a type of layer with rotations of its own
    (full_attention), encoder or decoder, or the name of a tensor of learned positions.
    """
    path, part = split_spec(spec)
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
        return UnknownPositions(f"{who} is not known here and sets no rotation; name an encoding")
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
    details = {"config": config.label, "version": version()}
    return tuple(finding("remote-code", key=key, **details) for key in keys[:1])


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
    elif row.get("kind") != "t5":
        return None
    elif trained := weights.read_buckets(model):
        return trained
    check_part(model)
    count = model.dimension(model.sized(heads), "number of heads")
    if switched and alibi:
        return model.build("alibi", count, causal=True)
    return model.build("t5", count, finding("untrained", "t5"), **weights.bucket_keys(model))


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
    if not model.computes or (model.part and model.part == row.get("learned_part")):
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
