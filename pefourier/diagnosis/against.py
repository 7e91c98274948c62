"""What does another reading of a rotation turn by? A SPEC, or a slip that has a name.

Slips are ``scaling-ignored``, ``partial-ignored``, ``local-for-global`` and a setting of ``rope``
such as ``base=10000``, ``original=131072`` or ``truncate=true``; those of one rotation may come
together, ``base=10000,scaling-ignored``. What they do not name stays as it is meant.
"""

from collections.abc import Mapping
from math import log
from typing import Any

import numpy as np

from pefourier.encodings import load
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.families.rotary import rotation_of, scaling_parameters
from pefourier.encodings.registry import ALIASES, BUILDERS, parse_parameters
from pefourier.encodings.specs import open_model, source_of
from pefourier.errors import PefourierError, shown

SLIPS = ("scaling-ignored", "partial-ignored", "base=NUMBER", "local-for-global", "layout")
WHOLE = {"rho", "d", "partial", "scaling"}  # settings of every rotation


def misread(
    enc: Encoding, reading: str, length: int, d: int | None
) -> tuple[np.ndarray, Mapping[str, Any]]:
    """The frequencies of another reading of a rotation, in radians per position, and its settings.

    >>> enc = load("rope:rho=5e5,scaling=linear,factor=4", 80, 4)
    >>> misread(enc, "scaling-ignored", 80, None)[0].round(4)
    array([1.    , 0.0014])
    >>> misread(enc, "base=10000", 80, None)[0].round(4)
    array([0.25  , 0.0025])
    """
    changes = changes_of(enc, reading)
    if changes is not None:
        return change_rotation(enc, changes)
    if reading == "local-for-global":
        second = other_layers(enc)
    else:
        second = load_like(enc, reading, length, d or enc.params["d"])
    if second.act != "rotate" or second.measure is None:
        slips = ", ".join(SLIPS)
        raise PefourierError(f"{shown(reading)} is not rotary; give a rotation, or one of {slips}")
    return second.measure.frequencies, {"attention_factor": 1.0, **second.params}


def changes_of(enc: Encoding, slips: str) -> dict[str, Any] | None:
    """The settings that some slips change; None where they are none, but a SPEC."""
    changes: dict[str, Any] = {}
    for part in slips.split(","):
        key, equals, _ = part.partition("=")
        if part == "scaling-ignored":
            shared = enc.params["scaling"] == "proportional"  # p-RoPE, which may be stretched, too
            changes |= {"factor": 1.0} if shared else {"scaling": "none"}
        elif part == "partial-ignored":
            changes |= {"partial": 1.0}
        elif equals and ALIASES.get(key, key) in {*WHOLE, *scaling_parameters(scaling_of(enc))}:
            changes |= parse_parameters("rope", part)
        elif equals and ALIASES.get(key, key) in BUILDERS["rope"].parameters:
            raise PefourierError(
                f"{shown(part)} isn't a misreading of {shown(enc.spec)}, whose scaling is "
                f"{scaling_of(enc)}; name its own settings, or give a whole rotation, rope:…"
            )
        else:
            return None
    return changes


def scaling_of(enc: Encoding) -> str:
    """The scaling of a rotation; none where only its frequencies are known."""
    return enc.params.get("scaling", "none")


def change_rotation(
    enc: Encoding, changes: Mapping[str, Any]
) -> tuple[np.ndarray, Mapping[str, Any]]:
    """The frequencies of a rotation with some settings changed, and its factors.

    A factor that was given stays, but with another scaling.
    """
    settings, changed = enc.params, {**enc.params, **changes}
    if settings.get("inv_freq") is not None:
        if changes == {"scaling": "none"}:
            return enc.measure.frequencies, settings  # whose scaling, if any, is not known
        raise PefourierError(
            f"{shown(enc.spec)} has frequencies by themselves, not by a base and a share of the "
            f"head; {' and '.join(changes)} can't be changed"
        )
    scaling = changed["scaling"]
    for key, parameter in scaling_parameters(scaling).items():
        if parameter.default is parameter.empty and changed.get(key) is None:
            raise PefourierError(f"scaling={scaling} needs {key}; write {key}=… too")
    omega, by_formula = rotation_of(changed, len(enc))
    is_chosen = settings["attention_factor"] != rotation_of(settings, len(enc))[1]
    if "attention_factor" in changes or not is_chosen or "scaling" in changes:
        changed["attention_factor"] = changes.get("attention_factor") or by_formula
    if "softmax_factor" in settings:
        changed["softmax_factor"] = softmax_of(changed)
    return omega, changed


def load_like(enc: Encoding, spec: str, length: int, d: int) -> Encoding:
    """Another rotation; of another config with several, that of the same type of layer."""
    if source_of(spec) != "config":
        return load(spec, length, d)
    part, file = layer_of(enc), open_model(spec)
    rotary_parts = {run.part for run in file.layers if run.kind == "rotary"} if part else ()
    is_named = part in rotary_parts and not file.model.part
    return load(file.spec_of(part) if is_named else spec, length)


def other_layers(enc: Encoding) -> Encoding:
    """The rotation of the other type of layer of the same config."""
    part = layer_of(enc)
    if part:
        model = open_model(enc.spec.removesuffix(part).rstrip(".#"))
        parts = [run.part for run in model.layers if run.part not in ("", part)]
        if parts:
            return load(model.spec_of(parts[0]))
    raise PefourierError(f"{shown(enc.spec)} has one rotation; local-for-global needs two")


def layer_of(enc: Encoding) -> str:
    """The type of layer that a SPEC names; empty where it names none."""
    return open_model(enc.spec).model.part if source_of(enc.spec) == "config" else ""


def softmax_of(settings: Mapping[str, Any]) -> float:
    """What DeepSeek's models multiply logits with, by YaRN's factor and mscale_all_dim."""
    mscale, factor = settings.get("mscale_all_dim"), settings.get("factor") or 1.0
    scaled = settings["scaling"] != "none" and mscale and factor > 1
    return (0.1 * mscale * log(factor) + 1) ** 2 if scaled else 1.0
