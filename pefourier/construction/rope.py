"""Settings of a rotation: its frequencies with other settings, or with a named misreading.

Conventions
-----------
Settings are the parameters of ``rope``. A setting that differs is left out of `Rope.diff` if it
does not matter: a rotation with this setting of the first and all others of the second has the
frequencies of the second. This must hold at the compared length and where a scaling begins to act.
A scaling counts as one setting. Two scalings are equal if they divide each frequency by the same
number, as the factors in a .gguf file may.

A misreading is named by a SPEC or by the code of a mistake (mistakes.toml): ``scaling-ignored``,
``partial-ignored``, ``local-for-global``, or a setting of ``rope`` such as ``base=10000`` or
``original=131072``. Mistakes of one rotation can be combined, as in ``base=10000,scaling-ignored``.
All other settings keep their correct values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from functools import cache
from itertools import product
from math import log
from pathlib import Path
from typing import Any

import numpy as np

from pefourier.encodings import load
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.families.rotary import (
    Rotation,
    complete_settings,
    refuse_unused,
    rotation_of,
    scaling_parameters,
)
from pefourier.encodings.loader import load_model, open_model, source_of
from pefourier.encodings.registry import ALIASES, BUILDERS, build, parse_parameters
from pefourier.errors import PefourierError, shown, unknown
from pefourier.types import Fields, Floats, Values, frozen
from pefourier.writing.files import read_toml

ROUNDED = 1e-6  # relative tolerance, for numbers in float32
BEYOND = ((1, 0), (1, 1), (2, 0), (16, 0))  # times the original, plus
BY_LENGTH = ("dynamic", "longrope")  # scalings that change with the length
LENGTHS = tuple(2**k for k in range(11, 18))  # of training
OWN = ("d", "rho", "partial", "scaling", "layout", "attention_factor")  # of every rotation
MISREADINGS = (
    *("scaling-ignored", "partial-ignored", "base=NUMBER", "original=NUMBER"),
    *("local-for-global", "layout"),
)


@frozen
class Rope:
    """Settings of a rotation.

    >>> Rope(4, 100.0).with_(scaling="linear", factor=4.0).frequencies(80)
    array([0.25 , 0.025])
    >>> Rope(4, 100.0).diff(Rope(4, 400.0), 80)
    {'rho': (100.0, 400.0)}
    """

    d: int
    rho: float
    partial: float = 1.0
    scaling: str = "none"
    scaled_by: Values = field(default_factory=dict)  # settings of the scaling
    layout: str = "halves"
    attention_factor: float = 0.0  # as given; 0: as the scaling gives it

    @classmethod
    def of(cls, enc: Encoding) -> Rope | None:
        """Return the settings of a rotation or of sinusoids; None if they do not define it."""
        p = enc.params
        if enc.name == "sinusoidal":
            is_plain = p.get("divisor") == "d" and p.get("times") is None
            return cls(enc.dim, p["rho"]) if is_plain else None
        if not is_rotation(enc) or p.get("inv_freq") is not None:
            return None
        scaled_by = {key: p[key] for key in scaling_parameters(p["scaling"])}
        scaled_by.pop("attention_factor", None)
        rope = cls(p["d"], p["rho"], p["partial"], p["scaling"], scaled_by)
        given = p.get("attention_factor", 1.0)
        is_given = given != rope.rotation(len(enc))[1]
        layout = p.get("layout", "halves")
        return replace(rope, layout=layout, attention_factor=given if is_given else 0.0)

    @property
    def settings(self) -> Fields:
        """Settings that define the frequencies."""
        return {key: getattr(self, key) for key in OWN[:4]} | dict(self.scaled_by)

    def rotation(self, length: int) -> Rotation:
        """Return the frequencies, in radians per position, and the factor at a length.

        Raises
        ------
        PefourierError
            If settings are missing or contradict one another.
        """
        frequencies, factor = rotation_of(self.settings, length)
        return frequencies, self.attention_factor or factor

    def frequencies(self, length: int) -> Floats:
        """Return the frequencies of the pairs (m,) at a length, in radians per position."""
        return self.rotation(length)[0]

    def with_(self, **changes: Any) -> Rope:
        """Return the rotation with other settings; settings that no longer apply are dropped.

        A given attention factor stays unless the scaling changes.
        """
        own = {key: changes.pop(key) for key in OWN if key in changes}
        scaling = own.get("scaling", self.scaling)
        refuse_unused(scaling, changes)
        scaled_by = complete_settings(scaling, {**self.scaled_by, **changes})
        scaled_by.pop("attention_factor", None)
        if "scaling" in own:
            own = {"attention_factor": 0.0} | own
        return replace(self, scaled_by=scaled_by, **own)

    @property
    def unscaled(self) -> Rope:
        """The rotation without its scaling; p-RoPE keeps its pairs that do not rotate."""
        return self.with_(**self.without({"scaling": "none"}))

    def without(self, changes: Values) -> Values:
        """Return the changes that leave a setting out; unscaled p-RoPE has a factor of 1."""
        is_shared = changes == {"scaling": "none"} and self.scaling == "proportional"
        return {"factor": 1.0} if is_shared else changes

    def build(self, length: int) -> Encoding:
        """Build the encoding, with a SPEC that leaves out usual settings."""
        usual = {"partial": 1.0, "layout": "halves", "scaling": "none", "attention_factor": 0.0}
        chosen = {key: getattr(self, key) for key in usual if getattr(self, key) != usual[key]}
        defaults = scaling_parameters(self.scaling)
        chosen |= {k: v for k, v in self.scaled_by.items() if v != defaults[k].default}
        enc = build("rope", length=length, d=self.d, rho=self.rho, **chosen)
        entries = {"rho": enc.params["rho"], **chosen, "d": self.d}
        spec = "rope:" + ",".join(f"{key}={spelled(value)}" for key, value in entries.items())
        return replace(enc, spec=spec)

    def diff(self, other: Rope, length: int) -> dict[str, tuple[Any, Any]]:
        """Return the settings that differ and change a frequency at some length of interest."""
        first, second = self.settings, other.settings
        keys = dict.fromkeys((*first, *second))
        changes = {k: (first.get(k), second.get(k)) for k in keys if first.get(k) != second.get(k)}
        kinds = {self.scaling, other.scaling} if "scaling" in changes else {self.scaling}
        scaling = {"scaling"}.union(*map(scaling_parameters, kinds)) & changes.keys()
        lengths = lengths_of_interest(length, self, other)
        groups = [scaling, *({key} for key in changes.keys() - scaling - {"d"})]
        for group in filter(None, groups):
            mixed = first | {key: second.get(key) for key in changes.keys() - group}
            if all(are_close(both_at(n, mixed, second)) for n in lengths):
                changes = {key: pair for key, pair in changes.items() if key not in group}
        return changes


def is_rotation(enc: Encoding) -> bool:
    """Whether an encoding rotates pairs with known settings."""
    is_on_a_line = len(enc.measure) > 0 and enc.measure.frequencies.ndim == 1
    return is_on_a_line and enc.injection == "rotate" and "scaling" in enc.params


def both_at(length: int, first: Values, second: Values) -> list[Floats] | None:
    """Return the frequencies of two settings.

    None if settings are inconsistent or the numbers of pairs differ.
    """
    try:
        omega = [rotation_of(values, length)[0] for values in (first, second)]
    except PefourierError:
        return None
    return omega if len(omega[0]) == len(omega[1]) else None


def are_close(pair: Sequence[Any] | None) -> bool:
    """Whether two numbers, or lists of equal length, agree within float32 rounding."""
    return pair is not None and np.allclose(pair[0], pair[1], rtol=ROUNDED, atol=0)


def lengths_of_interest(length: int, *ropes: Rope) -> list[int]:
    """Return a length and the lengths around which scalings change frequencies."""
    originals = [rope.scaled_by["original"] for rope in ropes if rope.scaling in BY_LENGTH]
    return sorted({length, *(int(n * k + extra) for n in originals for k, extra in BEYOND)})


def list_at(settings: Values, length: int) -> str:
    """Return the list of factors that longrope uses at a length."""
    return "long" if length > settings["original"] else "short"


def base_of_grid(omega: Floats) -> float:
    """Return the base of geometric frequencies from 1, by the lowest (the base of NTK scaling).

    >>> base_of_grid(5e5 ** (-np.arange(64) / 64)).__round__(3)
    500000.0
    """
    m = len(omega)
    return float(omega[-1]) ** (-m / (m - 1)) if m > 1 else 1.0


def usual_scalings(
    factors: Iterable[float], originals: Iterable[int] = LENGTHS
) -> Iterator[Fields]:
    """Yield scalings by given factors and trained lengths."""
    for factor, original in product(factors, originals):
        lengths: Fields = {"factor": factor, "original": original}
        yield {"scaling": "llama3"} | lengths
        yield {"scaling": "yarn"} | lengths
        yield {"scaling": "yarn"} | lengths | {"truncate": False}


def spelled(value: Any) -> str:
    """Format a value as typed, with all digits of a number.

    >>> spelled(4.0), spelled(1e6), spelled(0.25), spelled("halves")
    ('4', '1000000', '0.25', 'halves')
    """
    is_whole = isinstance(value, float) and value == int(value) and abs(value) < 1e15
    return str(int(value) if is_whole else value)


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
    if (changes := changes_of(enc, reading)) is not None:
        return change_rotation(enc, changes)
    if reading == "local-for-global":
        second = next((rotation for _, rotation in other_layers(enc)), None)
        if not second:
            raise PefourierError(f"local-for-global needs two rotations; {shown(enc.spec)} has one")
    else:
        try:
            source_of(reading)
        except PefourierError:
            names = f"{', '.join(MISREADINGS)}, or a setting of rope such as original=N"
            way_out = f"Known: {names}; or pass another rotation, such as rope:rho=1e6."
            raise unknown("misreading", reading, MISREADINGS, way_out) from None
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
        elif equals and key in {*OWN[:4], *scaling_parameters(scaling)}:
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
    if not rope:
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
