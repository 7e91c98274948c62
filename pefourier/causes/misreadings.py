"""Rotations as a named mistake in reading their config gives them.

A user names a misreading by a SPEC or by the code of a mistake: ``scaling-ignored``,
``partial-ignored``, ``local-for-global``, or a setting of ``rope`` such as ``base=10000`` or
``original=131072``. Mistakes of one rotation can be combined, as in ``base=10000,scaling-ignored``.
All other settings keep their correct values. mistakes.toml lists the mistakes.
"""

from collections.abc import Iterator
from functools import cache
from math import log
from pathlib import Path

from pefourier.causes.rope import Rope
from pefourier.encodings import load
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.families.rotary import scaling_parameters
from pefourier.encodings.loader import load_model, open_model, source_of
from pefourier.encodings.registry import ALIASES, BUILDERS, parse_parameters
from pefourier.errors import PefourierError, shown
from pefourier.types import Fields, Floats, Values
from pefourier.writing.files import read_toml

MISREADINGS = (
    *("scaling-ignored", "partial-ignored", "base=NUMBER", "original=NUMBER"),
    *("local-for-global", "layout"),
)
WHOLE = {"rho", "d", "partial", "scaling"}  # settings of every rotation


@cache
def known_mistakes() -> dict[str, Fields]:
    """Read the mistakes by code: words, values to try, scalings to which they apply."""
    return read_toml(Path(__file__).with_name("mistakes.toml"))


def misread(enc: Encoding, reading: str, length: int, d: int | None) -> tuple[Floats, Values]:
    """Return the frequencies of a misread rotation, in radians per position, and its settings.

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
        _, second = next(other_layers(enc), ("", None))
        if second is None:
            raise PefourierError(f"local-for-global needs two rotations; {shown(enc.spec)} has one")
    else:
        second = load_like(enc, reading, length, d or enc.params["d"])
    if second.injection != "rotate" or not second.measure:
        slips = ", ".join(MISREADINGS)
        raise PefourierError(f"{shown(reading)} is not rotary; use a rotation or one of {slips}")
    return second.measure.frequencies, {"attention_factor": 1.0, **second.params}


def changes_of(enc: Encoding, slips: str) -> Fields | None:
    """Return the settings that named mistakes change; None if the text is a SPEC."""
    changes: Fields = {}
    scaling = str(enc.params.get("scaling", "none"))
    for part in slips.split(","):
        key, equals, _ = part.partition("=")
        key = ALIASES.get(key, key)
        if left_out := known_mistakes().get(part, {}).get("set"):
            rope = Rope.of(enc)
            changes |= rope.without(left_out) if rope else left_out
        elif equals and key in {*WHOLE, *scaling_parameters(scaling)}:
            changes |= parse_parameters("rope", part)
        elif equals and key in BUILDERS["rope"].parameters:
            raise PefourierError(
                f"{shown(part)} is not a misreading of {shown(enc.spec)} (scaling {scaling}); use "
                "its own settings, or a full rotation such as rope:…"
            )
        else:
            return None
    return changes


def change_rotation(enc: Encoding, changes: Values) -> tuple[Floats, Values]:
    """Return the frequencies of a rotation with changed settings, and these settings."""
    rope = Rope.of(enc)
    if rope is None:
        if changes == {"scaling": "none"} and enc.measure:
            return enc.measure.frequencies, enc.params  # a scaling, if any, is unknown
        raise PefourierError(
            f"{' and '.join(changes)} cannot be changed: {shown(enc.spec)} lists its frequencies "
            f"instead of a base and a rotated fraction"
        )
    changed = rope.with_(**changes)
    omega, factor = changed.rotation(len(enc))
    settings = {**enc.params, **changed.settings, "attention_factor": factor}
    if "softmax_factor" in settings:
        settings["softmax_factor"] = softmax_of(settings)
    return omega, settings


def load_like(enc: Encoding, spec: str, length: int, d: int) -> Encoding:
    """Load another rotation; from a config with several, that of the same layer type."""
    if source_of(spec) != "config":
        return load(spec, length, d)
    part, file = layer_of(enc), open_model(spec)
    rotary_parts = {run.part for run in file.layers if run.kind == "rotary"} if part else ()
    is_named = part in rotary_parts and not (file.model and file.model.part)
    return load_model(file.of_layer(part), length) if is_named else load_model(file, length)


def other_layers(enc: Encoding, length: int | None = None) -> Iterator[tuple[str, Encoding]]:
    """Yield the names and rotations of the other layer types of the same config."""
    if part := layer_of(enc):
        file = enc.file.of_layer("")
        for name in dict.fromkeys(run.part for run in file.layers):
            if name not in ("", part):
                yield name, load_model(file.of_layer(name), length)


def layer_of(enc: Encoding) -> str:
    """Return the layer type that a SPEC names, or an empty string."""
    return enc.file.model.part if enc.file and enc.file.model else ""


def softmax_of(settings: Values) -> float:
    """Return the factor on logits in DeepSeek models, from YaRN's factor and mscale_all_dim."""
    mscale, factor = settings.get("mscale_all_dim") or 0.0, settings.get("factor") or 1.0
    is_scaled = settings["scaling"] != "none" and factor > 1
    return float(0.1 * mscale * log(factor) + 1) ** 2 if is_scaled else 1.0
