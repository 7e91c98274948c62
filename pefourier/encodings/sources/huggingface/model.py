"""What positions does this model config set? Hugging Face's config.json, read as data.

Conventions
-----------
What a model's code adds to its config (defaults, the offset of its first position, the order of
columns) is in the rows of `pefourier.encodings.sources.huggingface.config`, by ``model_type``. What
transformers refuses is refused here; what it only warns of is a finding of the encoding. Keys that
name code of the model's own (``auto_map``) are never followed.

Keys that speak of positions by their names are unread where nothing has looked at them. One that is
null, false or empty asks for nothing; some state what the reader knows without them, or what no
model of transformers takes from its config: `HARMLESS`.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pefourier.encodings.columns import axes_of_sections, exchanged
from pefourier.encodings.encoding import Encoding, Finding
from pefourier.encodings.findings import finding
from pefourier.encodings.registry import REASONS
from pefourier.encodings.sources.huggingface import weights
from pefourier.encodings.sources.huggingface.biases import read_displacements
from pefourier.encodings.sources.huggingface.config import (
    LONGEST,
    NESTED,
    PAIRED,
    WIDTH,
    ModelConfig,
    Pairing,
    as_timm,
    choose_part,
    type_row,
    version,
)
from pefourier.encodings.sources.huggingface.grid import read_axes
from pefourier.encodings.sources.huggingface.layers import (
    LayerRun,
    known_temperature,
    layer_schedule,
)
from pefourier.encodings.sources.huggingface.rope import (
    EVIDENCE,
    layer_sections,
    layout_of,
    read_rotation,
    rotates,
    sections_of,
)
from pefourier.encodings.sources.huggingface.scaling import NAMED, SEEN
from pefourier.encodings.sources.json_object import HEADS, Section, TrackedKeys, read_object
from pefourier.errors import PefourierError, UnknownPositions, shown, unknown
from pefourier.writing.files import inside, is_folder, read_toml, split_spec


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
    def kind(self) -> str:
        """The model_type."""
        return self.model.kind

    @property
    def layers(self) -> list[LayerRun]:
        """Layers that are alike."""
        return layer_schedule(
            self.model, layer_sections(self.model) if rotates(self.model) else None
        )

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

    def axis_of_pairs(self, pairs: int) -> NDArray[np.int64] | None:
        """Which of the axes t, y, x turns each pair; None where all turn by one position."""
        sections = sections_of(self.model)
        return None if sections is None else axes_of_sections(*sections, pairs)

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
        ways = (read_displacements, read_axes, read_biases, read_sinusoid, read_rotation, read_none)
        for reader in (*ways, weights.read_positions):
            enc = reader(model)
            if enc is not None:
                own, named = self.model.config.key, split_spec(self.spec)[1]
                notes = () if named else tower_notes(self.spec, self.section, own)
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
    file = inside(path, "config.json") if is_folder(path) else path
    section = Section(shown(file), TrackedKeys(as_timm(read_object(file))))
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


def tower_notes(spec: str, section: Section, own: str) -> list[Finding]:
    """How to ask of the configs inside one whose models have positions on the points of images."""
    inside = [k for k, value in section.values.items() if isinstance(value, dict) and k != own]
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


OF_POSITIONS = re.compile(
    "rope|rotary|yarn|alibi|position|nope|sliding|window|longrope|ntk_|relative_att|"
    "local_attention|attention_chunk|max_pos"
)
HARMLESS = {*LONGEST} | set(
    """_sliding_window_pattern keep_window_size max_relative_positions model_max_length n_ctx
    num_position_embeddings num_sliding_attention_heads original_max_position_embeddings
    position_id_per_seconds qk_nope_head_dim qk_rope_head_dim rope_interleave
    sliding_window_pattern""".split()
)
MISSPELT = 0.85  # ratio of letters from which on one key is meant for another
SWITCHED_OFF = {"sliding_window", "max_window_layers"}  # where use_sliding_window is false
SCHEDULED = {  # keys that a row's field says how to read
    "slides": ("max_window_layers", "sliding_window"),
    "window": ("sliding_window",),
    "windows": ("sliding_window",),
    "unrotated": ("no_rope_layer_interval",),
    "axial": ("window_size", "use_relative_position_bias", "use_shared_relative_position_bias"),
}
USUAL_WAYS = ("rope", "rotary", "absolute")  # of positions, which say no more than the type does
STATING = (  # keys under which something is said, and the parameter that says it, too
    ("theta|base", "rho"),
    ("dim", "rotated"),
    ("factor|rotary_p|rope_p|fraction", "partial"),
)


def find_unread(model: ModelConfig, outer: Section, enc: Encoding) -> tuple[str, ...]:
    """Keys about positions in a config and around it that nothing has read, in their order."""
    with suppress(PefourierError):  # which those who ask for it are told
        read_the_rest(model)
    unrotated, unread_keys = enc.name == "none", set(enc.params.get("unread", ()))
    foreign = (type_row(str(outer.untracked.values.get("model_type"))) or {}).get("beside", ())
    for section in sections_about(model, outer):
        values = section.untracked.values
        unread = sorted(getattr(section.values, "unread", ()))
        if section is not model.config:  # what other parts of it read
            unread = [key for key in unread if key not in foreign]
        misspelt = {key for key in unread[:SEEN] if near_key(key, values)}
        for key in unread:
            if (key in misspelt or is_about(key, values)) and not states_known(key, values, enc):
                # of no positions: what its keys say of a rotation is switched off
                unread_keys |= set() if unrotated and key in EVIDENCE else {key}
    return tuple(sorted(unread_keys | sections_not_read(model))[:SEEN])


def sections_about(model: ModelConfig, outer: Section) -> tuple[Section, ...]:
    """The sections that speak of a model's positions.

    What stands around a tower's config is about the text model.
    """
    row = type_row(str(outer.untracked.values.get("model_type"))) or {}
    is_tower = model.config.key and model.config.key not in (*NESTED, row.get("text"))
    return (model.config,) if is_tower else (model.config, outer)


def sections_not_read(model: ModelConfig) -> set[str]:
    """Sections of a rotation that the model type does not read, or not as they are written."""
    row, values = model.row, model.config.untracked.values
    if not row or not rotates(model):
        return set()
    unread, section = set(row.get("unread", ())), values.get(model.rope_key)
    if isinstance(section, dict) and section:
        is_by_layer = any(isinstance(value, dict) for value in section.values())
        untyped = "type" in unread and "type" in section and "rope_type" not in section
        needs_layers = row.get("flat", []) == [] and model.rope_key == "rope_parameters"
        if untyped or (needs_layers and not is_by_layer if "layers" in row else is_by_layer):
            unread.add(model.rope_key)
    return {key for key in unread - {"type"} if values.get(key)}


def read_the_rest(model: ModelConfig) -> None:
    """Look at the keys of every rotation, of layers, of windows and of what queries grow by.

    A schedule in which no layer has a window has been read; then a window changes nothing.
    """
    for name in SCHEDULED.keys() & model.row.keys():
        for key in SCHEDULED[name]:
            model.config.values.get(key)
    sections = layer_sections(model) if rotates(model) else None
    for _, turns in (sections or {}).values():
        for keys in filter(None, (turns.bases, turns.shares, turns.size)):
            model.config.first(*keys)
    layer_schedule(model, sections)
    known_temperature(model)
    model.tables()


def states_known(key: str, values: Mapping[str, Any], enc: Encoding) -> bool:
    """Whether a key that is not read states a base or a share which the rotation has anyway."""
    value = values[key]
    return any(re.search(names, key) and value == enc.params.get(name) for names, name in STATING)


def near_key(key: str, values: Mapping[str, Any]) -> list[str]:
    """The key of a rotation that another one is nearly, where it is not set itself."""
    candidates = sorted(EVIDENCE - values.keys())
    return get_close_matches(key[:80], candidates, n=1, cutoff=MISSPELT)


def is_about(key: str, values: Mapping[str, Any]) -> bool:
    """Whether a key asks for something that positions depend on.

    >>> is_about("rope_interval", {"rope_interval": 4}), is_about("alibi", {"alibi": False})
    (True, False)
    """
    value = values[key]
    is_config = isinstance(value, dict) and key.endswith("_config")
    if value in (None, False, "", [], {}) or key in HARMLESS or is_config:
        return False
    if not OF_POSITIONS.search(key):
        return False
    if key == "position_embedding_type":
        return value not in USUAL_WAYS
    return not (key in SWITCHED_OFF and values.get("use_sliding_window") is False)


def note_unread(enc: Encoding, model: ModelConfig, outer: Section) -> Encoding:
    """An encoding that was read from a config, with the keys that were not, each with a finding.

    The first are named, but for those with a finding already.
    """
    unread, findings = find_unread(model, outer, enc), []
    messages = " ".join(note.message for note in enc.findings if note.code == "unread-key")
    within = enc.params.get("unread", ())
    for key in [key for key in unread if key not in messages and key not in within][:NAMED]:
        section = model.config if key in model.config.untracked.values else outer
        values = section.untracked.values
        similar = "".join(near_key(key, values))
        details = {"key": shown(key), "value": shown(values.get(key, "…")), "near": similar}
        variant = "misspelt" if similar else "plain"
        findings.append(finding("unread-key", variant, config=section.label, **details))
    params = {**enc.params, "unread": unread} if unread else enc.params
    return replace(enc, params=params, findings=(*enc.findings, *findings))
