"""Which keys of a config speak of positions and are not read? By their names, after all is read.

A key that is null, false or empty asks for nothing. Some state what the reader knows without them,
or what no model of transformers takes from its config: `HARMLESS`.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from pefourier.encodings.encoding import Encoding
from pefourier.encodings.findings import finding
from pefourier.encodings.sources.config import LONGEST, ModelConfig, Section
from pefourier.encodings.sources.layers import known_temperature, layer_schedule
from pefourier.encodings.sources.models import type_row
from pefourier.encodings.sources.rope_config import EVIDENCE, NAMED, SEEN, layer_sections, rotates
from pefourier.errors import PefourierError, shown

OF_POSITIONS = re.compile(
    "rope|rotary|yarn|alibi|position|nope|sliding|window|longrope|ntk_|relative_att|"
    "local_attention|attention_chunk|max_pos"
)
HARMLESS = {
    *LONGEST,
    "_sliding_window_pattern",
    "keep_window_size",
    "max_relative_positions",
    "model_max_length",
    "n_ctx",
    "num_position_embeddings",
    "num_sliding_attention_heads",
    "original_max_position_embeddings",
    "position_id_per_seconds",
    "qk_nope_head_dim",
    "qk_rope_head_dim",
    "rope_interleave",
    "sliding_window_pattern",
}
MISSPELT = 0.85  # ratio of letters from which on one key is meant for another
SWITCHED_OFF = {"sliding_window", "max_window_layers"}  # where use_sliding_window is false
SCHEDULED = {  # keys that a row's field says how to read
    "slides": ("max_window_layers", "sliding_window"),
    "window": ("sliding_window",),
    "windows": ("sliding_window",),
    "unrotated": ("no_rope_layer_interval",),
    "axial": ("window_size", "use_relative_position_bias", "use_shared_relative_position_bias"),
}
USUAL_WAYS = {"rope", "rotary", "absolute"}  # of positions, which say no more than the type does
STATING = (  # keys under which something is said, and the parameter that says it, too
    ("theta|base", "rho"),
    ("dim", "rotated"),
    ("factor|rotary_p|rope_p|fraction", "partial"),
)


def find_unread(model: ModelConfig, outer: Section, enc: Encoding) -> tuple[str, ...]:
    """Keys about positions in a config and around it that nothing has read, in their order."""
    for reader in (read_all_rotations, read_schedule):
        with suppress(PefourierError):  # which those who ask for it are told
            reader(model)
    still, unread_keys = enc.name == "none", set(enc.params.get("unread", ()))
    foreign = (type_row(str(outer.untracked.values.get("model_type"))) or {}).get("beside", ())
    for section in (model.config, outer):
        values = section.untracked.values
        unread = sorted(getattr(section.values, "unread", ()))
        if section is not model.config:  # what other parts of it read
            unread = [key for key in unread if key not in foreign]
        misspelt = {key for key in unread[:SEEN] if near_key(key, values)}
        for key in unread:
            if (key in misspelt or is_about(key, values)) and not states_known(key, values, enc):
                # of no positions: what its keys say of a rotation is switched off
                unread_keys |= set() if still and key in EVIDENCE else {key}
    return tuple(sorted(unread_keys | sections_not_read(model))[:SEEN])


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


def read_all_rotations(model: ModelConfig) -> None:
    """Look at the keys of the rotation of every type of layer, not only of one that is named."""
    for _, turns in layer_sections(model).values() if rotates(model) else ():
        for keys in (turns.bases, turns.shares, turns.size):
            if keys:
                model.config.first(*keys)


def read_schedule(model: ModelConfig) -> None:
    """Look at the keys of layers, of windows and of what queries grow by.

    A schedule in which no layer has a window has been told; then a window changes nothing.
    """
    for name in SCHEDULED.keys() & model.row.keys():
        for key in SCHEDULED[name]:
            model.config.values.get(key)
    layer_schedule(model)
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
    if value in (None, False, "", [], {}) or key in HARMLESS or not OF_POSITIONS.search(key):
        return False
    if isinstance(value, dict) and key.endswith("_config"):
        return False
    if key == "position_embedding_type":
        return value not in USUAL_WAYS
    return not (key in SWITCHED_OFF and values.get("use_sliding_window") is False)


def note_unread(enc: Encoding, model: ModelConfig, outer: Section) -> Encoding:
    """An encoding that was read from a config, with the keys that were not, each with a finding.

    The first are named, but for those with a finding already.
    """
    unread = find_unread(model, outer, enc)
    values, findings = model.config.untracked.values, []
    messages = " ".join(note.message for note in enc.findings if note.code == "unread-key")
    within = enc.params.get("unread", ())
    for key in [key for key in unread if key not in messages and key not in within][:NAMED]:
        similar = near_key(key, values)
        details = {
            "key": shown(key),
            "value": shown(values.get(key, "…")),
            "near": "".join(similar),
        }
        variant = "misspelt" if similar else "plain"
        findings.append(finding("unread-key", variant, config=model.config.label, **details))
    params = {**enc.params, "unread": unread} if unread else enc.params
    return replace(enc, params=params, findings=(*enc.findings, *findings))
