"""What does another reading of a rotation cost: another SPEC, or settings that were misread?

Codes of two readings have one length, so that the cosine between them at p, the mean over pairs of
cos p (w - w'), is what is left (`pefourier.encodings.readings`). Slips are those of
`pefourier.diagnosis.misreadings`, several with commas; ``layout`` pairs neighbours for halves.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isclose, log
from typing import Any

import numpy as np

from pefourier.diagnosis.misreadings import MISREADINGS, changes_of, layer_of, misread
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.readings import FARTHEST, layouts_apart, levels_below, readings_apart
from pefourier.encodings.specs import source_of
from pefourier.errors import PefourierError, shown, unknown

NOTICED = 5e-4  # relative, from which on logits are others


@dataclass(frozen=True)
class Fall:
    """From where on a cosine is below a level."""

    level: str
    position: int | None


@dataclass(frozen=True)
class Reading:
    """What is left where a rotation is read as another one."""

    other: str
    rotation: str  # the type of layer that is misread, of several the one it costs most
    cosine: tuple[tuple[int, float], ...]  # position, cosine between the codes of both readings
    below: dict[str, int | None]  # first position at which it falls below .99, .9 and .5
    logits: float  # how many times the meant ones, at every position: by factors of the readings
    differences: np.ndarray = field(metadata={"told": False})  # of frequencies

    @property
    def verdict(self) -> str:
        """Whether angles differ, or the size of logits alone, or nothing."""
        if self.below[".99"] is not None:
            return "read differently"
        return "read alike" if isclose(self.logits, 1, rel_tol=NOTICED) else "logits scaled"

    @property
    def first_fall(self) -> int | None:
        """The first position at which the cosine falls below .99."""
        return self.below[".99"]

    @property
    def falls(self) -> list[Fall]:
        """From where on the cosine is below each level."""
        return [Fall(level, position) for level, position in self.below.items()]

    @property
    def positions(self) -> np.ndarray:
        """Where the cosine is shown."""
        return np.array([position for position, _ in self.cosine])

    @property
    def cosines(self) -> np.ndarray:
        """The cosines there."""
        return np.array([cosine for _, cosine in self.cosine])


def read_against(
    encodings: Sequence[Encoding], misreading: str, length: int, d: int | None = None
) -> Reading:
    """The cosine between a rotation and another one, or a misreading of it, up to a length.

    Of several rotations the one is told that is read most differently.

    >>> from pefourier.encodings import load
    >>> read_against([load("rope:rho=5e5", 8192, 128)], "base=10000", 8192).below
    {'.99': 3, '.9': 9, '.5': 27}
    """
    for enc in encodings:
        if enc.act != "rotate" or enc.measure is None:
            raise PefourierError(f"{shown(enc.spec)} is not rotary; --against compares rotations")
    readings = [reading_of(enc, misreading, length, d) for enc in encodings]
    return min(readings, key=likeness_of)


def likeness_of(reading: Reading) -> tuple[float, ...]:
    """How long the cosine of a reading stays, then how near its logits are: less is worse."""
    falls = (FARTHEST if p is None else p for p in reading.below.values())
    return (*falls, -abs(log(reading.logits)))


def reading_of(enc: Encoding, misreading: str, length: int, d: int | None) -> Reading:
    """One rotation and its misreading."""
    slips = misreading.split(",")
    settings_only = ",".join(slip for slip in slips if slip != "layout")
    omega, settings = enc.measure.frequencies, enc.params
    frequencies = omega
    if settings_only:
        check_reading(enc, settings_only)
        frequencies, settings = misread(enc, settings_only, length, d)
    parting = layouts_apart if "layout" in slips else readings_apart
    differences = parting(omega, frequencies)
    below = levels_below(differences)
    points = [*np.geomspace(1, max(length, 2), 64), *(p for p in below.values() if p is not None)]
    positions = np.unique(np.array(points).astype(np.int64))
    positions = positions[positions <= max(length, 2)]
    cosine = np.cos(np.multiply.outer(positions.astype(float), differences)).mean(axis=1)
    logits = logits_factor(settings) / logits_factor(enc.params)
    pairs = tuple(zip(positions.tolist(), cosine.tolist(), strict=True))
    return Reading(misreading, layer_of(enc), pairs, below, logits, differences)


def check_reading(enc: Encoding, misreading: str) -> None:
    """Refuse what is neither a misreading nor a SPEC, with the misreadings that are known."""
    if misreading in MISREADINGS or changes_of(enc, misreading) is not None:
        return
    try:
        source_of(misreading)
    except PefourierError:
        way_out = f"Known: {', '.join(MISREADINGS)}; or give another rotation, as rope:rho=1e6."
        raise unknown("misreading", misreading, MISREADINGS, way_out) from None


def logits_factor(settings: Mapping[str, Any]) -> float:
    """What a rotation multiplies logits with: queries and keys have a factor each."""
    factor: float = settings["attention_factor"] ** 2 * settings.get("softmax_factor", 1.0)
    return factor
