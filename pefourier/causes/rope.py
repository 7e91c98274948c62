"""Settings of a rotation: its frequencies at any length, with other settings, and what differs.

Conventions
-----------
Settings are the parameters of ``rope``. A setting that differs is left out of `Rope.diff` if it
does not matter: a rotation with this setting of the first and all others of the second has the
frequencies of the second. This must hold at the compared length and where a scaling begins to act.
A scaling counts as one setting. Two scalings are equal if they divide each frequency by the same
number, as the factors in a .gguf file may.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from pefourier.encodings.encoding import Encoding
from pefourier.encodings.families.rotary import (
    Rotation,
    complete_settings,
    refuse_unused,
    rotation_of,
    scaling_parameters,
)
from pefourier.encodings.registry import build
from pefourier.errors import PefourierError
from pefourier.types import Fields, Floats, Values

ROUNDED = 1e-6  # relative tolerance, for numbers in float32
BEYOND = ((1, 0), (1, 1), (2, 0), (16, 0))  # times the original, plus
BY_LENGTH = ("dynamic", "longrope")  # scalings that change with the length
LENGTHS = tuple(2**k for k in range(11, 18))  # of training
OWN = ("d", "rho", "partial", "scaling", "layout", "attention_factor")  # of every rotation


@dataclass(frozen=True)
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
        shared = {key: getattr(self, key) for key in usual}
        chosen = {key: value for key, value in shared.items() if value != usual[key]}
        defaults = scaling_parameters(self.scaling)
        chosen |= {k: v for k, v in self.scaled_by.items() if v != defaults[k].default}
        enc = build("rope", length=length, d=self.d, rho=self.rho, **chosen)
        entries = {"rho": enc.params["rho"], **chosen, "d": self.d}
        spec = "rope:" + ",".join(f"{key}={spelled(value)}" for key, value in entries.items())
        return replace(enc, spec=spec)

    def diff(self, other: Rope, length: int) -> dict[str, tuple[Any, Any]]:
        """Return the settings that differ and change a frequency at some length of interest."""
        first, second = self.settings, other.settings
        pairs = {key: (first.get(key), second.get(key)) for key in dict.fromkeys((*first, *second))}
        changes = {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}
        kinds = {self.scaling, other.scaling} if "scaling" in changes else {self.scaling}
        scaling = {key for kind in kinds for key in scaling_parameters(kind)} & changes.keys()
        scaling |= {"scaling"} & changes.keys()
        lengths = lengths_of_interest(length, self, other)
        groups = [scaling, *({key} for key in changes.keys() - scaling - {"d"})]
        for group in filter(None, groups):
            mixed = first | {key: second.get(key) for key in changes.keys() - group}
            is_scaling = group is scaling
            pair = (first if is_scaling else mixed, second)
            if all(are_close(both_at(n, *pair, relative=is_scaling)) for n in lengths):
                changes = {key: pair for key, pair in changes.items() if key not in group}
        return changes


def is_rotation(enc: Encoding) -> bool:
    """Whether an encoding rotates pairs with known settings."""
    is_on_a_line = len(enc.measure) > 0 and enc.measure.frequencies.ndim == 1
    return is_on_a_line and enc.injection == "rotate" and "scaling" in enc.params


def both_at(
    length: int, first: Values, second: Values, *, relative: bool = False
) -> list[Floats] | None:
    """Return the frequencies of two settings, or the factors of their scalings if `relative`.

    None if settings are inconsistent or the numbers of pairs differ.
    """
    settings = [first, second]
    settings += [{**values, "scaling": "none"} for values in settings] if relative else []
    try:
        omega = [rotation_of(values, length)[0] for values in settings]
    except PefourierError:
        return None
    if len({*map(len, omega)}) > 1:
        return None
    return [omega[0] / omega[2], omega[1] / omega[3]] if relative else omega


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
