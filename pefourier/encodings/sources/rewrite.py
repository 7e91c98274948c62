"""Which keys make a model config rotate so? Lines for config.json, read again before they are told.

Two spellings are known: ``rope_parameters`` (transformers 5), for all layers or for each type, and
``rope_theta`` with ``rope_scaling``. Of those that suit a config the first is taken that the reader
of configs turns into the rotation that is wanted.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pefourier.encodings.encoding import Encoding
from pefourier.encodings.families.rotary import scaling_parameters
from pefourier.encodings.sources import rope_config
from pefourier.encodings.sources.config import LONGEST, ModelConfig
from pefourier.encodings.sources.layers import open_whole
from pefourier.errors import PefourierError

Lines = dict[str, Any]
WORDS = {"original": rope_config.ORIGINAL}
NEEDED = {"factor", "original", "low_freq_factor", "high_freq_factor"}  # stated, default or not
COMPUTED = {"attention_factor"}  # by the scaling from the others


def lines_for(spec: str, wanted: Encoding) -> Lines | None:
    """The keys to set in a config.json so that it has the rotation and the length of `wanted`.

    Objects inside stand as in the file: what is not named there stays as it is. None where no
    spelling that is known gives that rotation.
    """
    model, whole = open_whole(spec)
    inner = model.config
    around = path_to(whole.values, inner.values)
    if around is None:
        return None
    rotations = rotations_of(model)
    for lines in spellings(model, rotations, wanted):
        told = replace(model, config=replace(inner, values=inner.values | lines))
        if reads_as(told, wanted) and others_stay(told, rotations):
            for name in reversed(around):
                lines = {name: lines}
            return lines
    return None


def path_to(whole: Mapping[str, Any], inner: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The keys that lead from an object to one inside."""
    if whole is inner:
        return ()
    for key, value in whole.items():
        found = path_to(value, inner) if isinstance(value, dict) else None
        if found is not None:
            return (key, *found)
    return None


def rotations_of(model: ModelConfig) -> dict[str, Encoding | None]:
    """The rotation of each type of layer, or of all under the empty name."""
    return {
        name: rope_config.read_rotation(replace(model, part=name))
        for name in rope_config.layer_sections(model)
    }


def others_stay(model: ModelConfig, rotations: Mapping[str, Encoding | None]) -> bool:
    """Whether types of layers that are not meant turn as before."""
    others = {name: enc for name, enc in rotations.items() if name != model.part and enc}
    return all(reads_as(replace(model, part=name), enc, None) for name, enc in others.items())


def spellings(
    model: ModelConfig, rotations: Mapping[str, Encoding | None], wanted: Encoding
) -> Iterator[Lines]:
    """Ways to state a rotation, those that the config uses itself first."""
    before = rotations.get(model.part)
    values, (base, section) = model.config.values, base_and_section(wanted)
    key = next((key for key in LONGEST if values.get(key)), None)
    longest = {key or model.row.get("length", (LONGEST[0],))[0]: len(wanted)}
    yield longest  # where nothing else changes
    given = values.get("rope_parameters") or {}
    kept = {name: given[name] for name in (*rope_config.SHARE, "mrope_section") if name in given}
    new = {"rope_parameters": {**kept, **section, "rope_theta": base}, **longest}
    each = {name: as_section(enc) for name, enc in rotations.items() if enc}
    layered = {"rope_parameters": {**each, **given, model.part: new["rope_parameters"]}, **longest}
    names = [
        name for name in (rope_config.GLOBAL_THETA, *rope_config.THETA) if values.get(name)
    ] or [rope_config.THETA[0]]
    same = before is not None and before.params["rho"] == base
    turned = {} if same else {names[0]: base}
    old = {**turned, "rope_scaling": section, **longest}
    plain = {**old, "rope_scaling": None}
    outer = {**old, rope_config.ORIGINAL: wanted.params.get("original")}
    ways = [plain, old, outer, layered if model.part else new]
    yield from ways if "rope_parameters" not in values else reversed(ways)


def as_section(enc: Encoding) -> Lines:
    """A rotation as a section of rope_parameters."""
    base, section = base_and_section(enc)
    return {**section, "rope_theta": base}


def base_and_section(wanted: Encoding) -> tuple[float, Lines]:
    """The base of a rotation, and its scaling as a config states it."""
    params = wanted.params
    rotated, scaling = params["rotated"], params["scaling"]
    if scaling == "ntk":  # which is another base
        ratio = np.float64(params["factor"]) ** (rotated / (rotated - 2))
        return float(params["rho"] * ratio), {"rope_type": "default"}
    usual = {key: one.default for key, one in scaling_parameters(scaling).items()}
    own = {
        WORDS.get(key, key): params[key]
        for key in usual.keys() - COMPUTED
        if key in NEEDED or params[key] != usual[key]
    }
    kind = "default" if scaling == "none" else scaling
    return params["rho"], {"rope_type": kind, **dict(sorted(own.items()))}


def reads_as(model: ModelConfig, wanted: Encoding, length: int | None = 0) -> bool:
    """Whether a config is read as a rotation of the same frequencies, factor and length.

    The length is that of `wanted` by default; None: any.
    """
    try:
        found = rope_config.read_rotation(model)
    except PefourierError:
        return False
    return (
        found is not None
        and (length is None or len(found) == (length or len(wanted)))
        and found.params["attention_factor"] == wanted.params["attention_factor"]
        and found.measure.frequencies.shape == wanted.measure.frequencies.shape
        and np.allclose(found.measure.frequencies, wanted.measure.frequencies, rtol=1e-12, atol=0)
    )
