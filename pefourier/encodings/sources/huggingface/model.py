"""Open Hugging Face's config.json, as data, and read the positions that it sets.

Conventions
-----------
The rows of `pefourier.encodings.sources.huggingface.config` hold, by ``model_type``, the defaults
of a model's source code: sizes, the offset of the first position, the order of columns. A config
that transformers refuses is refused here; its warnings become findings of the encoding. Keys that
name remote code (``auto_map``) are never followed.

A key with a name about positions is unread if no reader has used it. A key that is null, false or
empty has no effect. `HARMLESS` lists keys that repeat what the reader knows, or that no model of
transformers reads.
"""

import re
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches

from pefourier.encodings.encoding import Encoding, Finding, axes_of_sections, finding
from pefourier.encodings.registry import REASONS
from pefourier.encodings.sources.huggingface.config import (
    LONGEST,
    NESTED,
    PAIRED,
    WIDTH,
    LayerRun,
    ModelConfig,
    Pairing,
    as_timm,
    choose_part,
    known_temperature,
    layer_schedule,
    type_row,
    version,
)
from pefourier.encodings.sources.huggingface.rope import (
    EVIDENCE,
    NAMED,
    SEEN,
    layer_sections,
    layout_of,
    read_rotation,
    rotates,
    sections_of,
    trained_as_stated,
)
from pefourier.encodings.sources.huggingface.weights import (
    declared_table,
    has_no_table,
    read_axes,
    read_biases,
    read_displacements,
    read_lags,
    read_positions,
    read_sinusoid,
)
from pefourier.encodings.sources.json_object import Section, TrackedKeys, read_object
from pefourier.errors import PefourierError, UnknownPositions, shown
from pefourier.types import Counts, Places, Texts, Values, frozen_by_name
from pefourier.writing.files import inside, is_folder, read_toml, split_spec


@frozen_by_name
class ModelFile(ModelConfig):
    """The positions that a config sets, or an inner config that a SPEC names.

    `pefourier.encodings.sources.gguf_file.GgufFile` has the same interface.
    `pefourier.encodings.model_positions.ModelPositions` describes the positions over a length.
    """

    spec: str
    outer: Section  # the whole file

    @property
    def model(self) -> ModelConfig:
        """Return the config; its part is the selected type of layer."""
        return self

    @property
    def layers(self) -> list[LayerRun]:
        """Return runs of layers with equal positions."""
        return layer_schedule(self, layer_sections(self) if rotates(self) else None)

    @property
    def rotations(self) -> list[str]:
        """Return the types of layers with different rotations, in order; empty for one rotation."""
        if self.part or not rotates(self):
            return []
        sections = layer_sections(self)
        unlike = {str((section.values, turns)) for section, turns in sections.values()}
        if len(unlike) < 2:
            return []
        laid = [run.part for run in self.layers if run.kind == "rotary"]
        return list(dict.fromkeys(laid)) or list(sections)

    def of_layer(self, layer: str) -> "ModelFile":
        """Return the file with another type of layer selected; "" selects all layers."""
        path, part = split_spec(self.spec)
        inner = part.removesuffix(self.part).removesuffix(".")
        spec = "#".join(filter(None, (path, ".".join(filter(None, (inner, layer))))))
        return select_part(spec, self.file, self.outer.values)

    def axis_of_pairs(self, pairs: int) -> Places | None:
        """Return the axis (t, y or x) that rotates each pair; None if there is one position."""
        sections = sections_of(self)
        return None if sections is None else axes_of_sections(*sections, pairs)

    @property
    def pairing(self) -> Pairing | None:
        """Return which rows of a head are rotated together; None if unknown, or without rotation.

        halves: rows i and i + r/2 of the r rotated rows; neighbours: rows 2i and 2i + 1.
        """
        turns = self.row and rotates(self)
        return PAIRED.get(layout_of(self)) if turns else None

    @property
    def unrotated(self) -> int:
        """Return the number of unrotated dimensions that DeepSeek's heads keep separately."""
        return (self.count("qk_rope_head_dim") and self.count("qk_nope_head_dim")) or 0

    def encoding(
        self,
        length: int | None = None,
        d: int | None = None,
        grid: Counts = (),
        prefix: int = 0,
    ) -> Encoding:
        """Return the encoding of the positions that the config sets.

        Parameters
        ----------
        length : int, optional
            Default: the longest sequence that the config allows. Frequencies of rope_type dynamic
            or longrope depend on the length, as in the model.
        d : int, optional
            Only if the config sets no dimension.
        grid, prefix
            Sides of the grid of a vision model, and rows before it, instead of the config's.
        """
        own = select_part(self.spec, self.file, self.outer.values)  # no key is read yet
        model = replace(own, length=length, d=d, grid=grid, prefix=prefix)
        ways = (read_lags, read_displacements, read_axes, read_biases, read_sinusoid)
        for reader in (*ways, read_rotation, read_none, read_positions):
            enc = reader(model)
            if enc is not None:
                notes = [] if split_spec(self.spec)[1] else tower_notes(self)
                enc = note_unread(with_trained(enc, model), model)
                remote = [key for key in ("auto_map", "trust_remote_code") if model.get(key)]
                for key in remote[:1]:
                    note = finding("remote-code", key=key, config=model.label, version=version())
                    notes.append(note)
                return replace(enc, spec=self.spec, file=self, findings=(*enc.findings, *notes))
        raise no_answer(model)

    def table_without_weights(self) -> Encoding | None:
        """Return a learned table with the length of the config, if weights are absent.

        Its vectors are unknown. None for other models.
        """
        own = select_part(self.spec, self.file, self.outer.values)
        enc = declared_table(own)
        return enc and note_unread(replace(enc, spec=self.spec, file=self), own)


def open_config(spec: str) -> ModelFile:
    """Open the config.json of a SPEC, which names the file or its folder.

    ``#`` selects an inner config, then optionally a type of layer with a separate rotation
    (full_attention), encoder or decoder, or the name of a tensor of learned positions.
    """
    path, _ = split_spec(spec)
    file = inside(path, "config.json") if is_folder(path) else path
    return select_part(spec, file, as_timm(read_object(file)))


def select_part(spec: str, file: str, values: Values) -> ModelFile:
    """Select the part of a config that a SPEC names; the result records which keys are read."""
    outer = Section(shown(file), TrackedKeys(values))
    config, kind, part = choose_part(outer, split_spec(spec)[1])
    row = type_row(kind) or {}
    return ModelFile(
        **vars(config), file=file, part=part, kind=kind, row=row, spec=spec, outer=outer
    )


def no_answer(model: ModelConfig) -> PefourierError:
    """Return the error for a config with positions that are not supported."""
    who = f"{shown(model.file)} (model_type {shown(model.kind)})"
    if not model.row:
        return UnknownPositions(f"{who} is unknown and sets no rotation; name an encoding")
    kind = "none" if has_no_table(model) else model.row["kind"].split()[0]
    reason = model.row.get("reason") or read_toml(REASONS)["kinds"][kind]
    return UnknownPositions(f"{who} is not supported: {reason}")


def tower_notes(file: ModelFile) -> list[Finding]:
    """Return a finding that lists the inner configs of models with positions on image grids."""
    towers = [
        shown(f"{file.spec}#{key}")
        for key, value in file.outer.values.items()
        if isinstance(value, dict) and key != file.key and key.endswith("_config")
        if "axial" in (type_row(choose_part(file.outer, key)[1]) or ())
    ]
    return [finding("vision-tower", asked=" or ".join(towers))] if towers else []


def read_none(model: ModelConfig) -> Encoding | None:
    """Return an encoding without positions if a config switches off its model type's rotation."""
    row, embedding_type = model.row, model.untracked.get("position_embedding_type")
    switched = "switch" in row and row["kind"].split() == ["rotary"] and "otherwise" not in row
    if rotates(model) or not (
        switched or (not row and embedding_type in ("nope", "none", "no_position"))
    ):
        return None
    width = model.sized(model.own("width", WIDTH)) or model.d
    return model.build("none", model.dimension(width, "width"))


OF_POSITIONS = re.compile(
    "rope|rotary|yarn|alibi|position|nope|sliding|window|longrope|ntk|logn_attn|relative_att|"
    "local_attention|attention_chunk|max_pos|(context|ctx|seq(uence)?)_(len|size)|max_ctx|max_len$|"
    "context_window|(inter|extra)polation_(factor|scale)|logn|xpos"
)
HARMLESS = {*LONGEST} | set(
    """_sliding_window_pattern decoder_positional_dropout_rate dropout_positions
    encoder_positional_dropout_rate image_seq_length keep_window_size max_relative_positions
    model_max_length n_ctx num_position_embeddings num_sliding_attention_heads
    original_max_position_embeddings position_id_per_seconds positionwise_conv_kernel_size
    positionwise_layer_type qk_nope_head_dim qk_rope_head_dim rope_interleave
    segment_means_seq_len sliding_window_pattern video_seq_length""".split()
)
MISSPELT = 0.85  # similarity from which a key counts as a misspelling of another
SCHEDULED = {  # keys that are read if a row has the field
    "slides": "max_window_layers sliding_window",
    "window": "sliding_window",
    "windows": "sliding_window",
    "unrotated": "no_rope_layer_interval",
    "axial": "window_size use_relative_position_bias use_shared_relative_position_bias",
}
STATING = (  # keys that repeat a parameter of the encoding
    ("_len(gth)?$", "length"),
    ("theta|base", "rho"),
    ("dim", "rotated"),
    ("factor|rotary_p|rope_p|fraction", "partial"),
)


def with_trained(enc: Encoding, model: ModelConfig) -> Encoding:
    """Add the trained length that a config states under another name, such as train_seq_len."""
    key = model.trained_key
    if key is None or trained_as_stated(enc.params) or enc.domain.grid:
        return enc
    trained = model.count(key)
    note = finding("trained-key", key=key, config=model.label, n=trained)
    params = {**enc.params, "trained": trained}
    return replace(enc, params=params, findings=(*enc.findings, note))


def find_unread(model: ModelFile, enc: Encoding) -> Texts:
    """Return the keys about positions, in a config and around it, that no reader has used.

    Keys around the config of a tower are about the text model.
    """
    with suppress(PefourierError):  # reported by the commands that need these keys
        read_the_rest(model)
    whole = type_row(str(model.outer.untracked.get("model_type"))) or {}
    is_tower = model.key and model.key not in (*NESTED, whole.get("text"))
    unread_keys = {*enc.params.get("unread", ())} | sections_not_read(model)
    for section in (model,) if is_tower else (model, model.outer):
        values = section.untracked.values
        foreign = () if section is model else whole.get("beside", ())  # of other parts of the model
        unread = sorted(getattr(section.values, "unread", set()).difference(foreign))
        misspelt = {key for key in unread[:SEEN] if near_key(key, values)}
        for key in unread:
            names = [name for pattern, name in STATING if re.search(pattern, key)]
            repeats = any(values[key] == enc.params.get(name) for name in names)
            # without positions, the keys of a rotation are switched off
            is_off = enc.name == "none" and key in EVIDENCE
            if (key in misspelt or is_about(key, values)) and not (repeats or is_off):
                unread_keys.add(key)
    return tuple(sorted(unread_keys)[:SEEN])


def sections_not_read(model: ModelConfig) -> set[str]:
    """Return the sections of a rotation that the model type ignores, fully or in this format."""
    row, values = model.row, model.untracked.values
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
    """Read the keys of all rotations, layers, windows and temperatures of queries.

    This also marks the keys of windows as read if no layer has a window: they have no effect.
    """
    for name in SCHEDULED.keys() & model.row.keys():
        for key in SCHEDULED[name].split():
            model.get(key)
    sections = layer_sections(model) if rotates(model) else None
    for _, turns in (sections or {}).values():
        for keys in filter(None, (turns.bases, turns.shares, turns.size)):
            model.first(*keys)
    layer_schedule(model, sections)
    known_temperature(model)
    model.tables()


def near_key(key: str, values: Values) -> list[str]:
    """Return the unset rotation key that a key probably misspells."""
    candidates = sorted(EVIDENCE - values.keys())
    return get_close_matches(key[:80], candidates, n=1, cutoff=MISSPELT)


def is_about(key: str, values: Values) -> bool:
    """Return whether a key affects positions.

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
        return value not in ("rope", "rotary", "absolute")  # which model types imply
    return not (
        key in ("sliding_window", "max_window_layers") and values.get("use_sliding_window") is False
    )


def note_unread(enc: Encoding, model: ModelFile) -> Encoding:
    """Add the unread keys of a config to an encoding, with findings about the first keys.

    Keys that already have a finding get no second one.
    """
    unread, findings = find_unread(model, enc), list(enc.findings)
    messages = " ".join(note.message for note in enc.findings if note.code == "unread-key")
    within = enc.params.get("unread", ())
    for key in [key for key in unread if key not in messages and key not in within][:NAMED]:
        section = (model if key in model.values else model.outer).untracked
        similar = "".join(near_key(key, section.values))
        variant = "misspelt" if similar else "plain"
        findings.append(
            finding(
                "unread-key",
                variant,
                config=section.label,
                key=shown(key),
                value=shown(section.get(key, "…")),
                near=similar,
            )
        )
    params = {**enc.params, "unread": unread} if unread else enc.params
    return replace(enc, params=params, findings=tuple(findings))
