"""Up to which size of an image do phases stay new? Rotations by a formula of points."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pefourier.answers.telling import sentence
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.grids import size_of
from pefourier.encodings.places import WORDS, axis_names, further_in_words
from pefourier.geometry.grown_grids import frequencies_on_axes, turn_limits
from pefourier.writing.text import number

TURN = 2 * np.pi


def reach_on_grid(enc: Encoding) -> str:
    """Up to which size no two rows or columns meet the same phases, of declared frequencies.

    >>> from pefourier.encodings import build
    >>> print(reach_on_grid(build("axial-rope", d=16, grid=(14, 14), rho=100.0)))
    Queries and keys turn by a formula of the point's coordinates, the same for any size. The
    fastest wave along y meets a phase again after 6.28 rows, the slowest after 199: up to there no
    two rows have all phases in common. Along x it is the same.
    >>> print(reach_on_grid(build("axial-rope", d=16, grid=(14, 14), convention="dinov3")))
    Queries and keys turn by a formula of the point's coordinates, which are divided by the sides:
    however large the image, phases go beyond those of 14x14 by at most 7.69 %. The fastest wave
    along y makes 1.86 turns across the 14 rows, the slowest 0.0587: no image is so large that two
    rows have all phases in common, but neighbours come closer. Along x it is the same.
    """
    what = "Queries and keys turn by" if enc.act == "rotate" else "Codes are"
    limits = turn_limits(enc)
    scaled = bool(np.isfinite(limits).any())
    first = f"{what} a formula of the point's coordinates, {room_to_grow(enc, limits)}."
    told: dict[str, list[str]] = {}
    for name, words in each_axis(enc, scaled):
        told.setdefault(words, []).append(name)
    parts = []
    for words, (name, *same) in told.items():
        parts.append(words.replace("AXIS", name).replace("ROWS", WORDS.get(name, "points")))
        parts += [f"Along {' and '.join(same)} it is the same."] if same else []
    return " ".join([first, *parts])


def room_to_grow(enc: Encoding, limits: list[float]) -> str:
    """How much further phases go in larger images than in one of the size that there is."""
    if not np.isfinite(limits).any():
        return "the same for any size"
    more = further_in_words(limits)
    if not more:
        return "which are divided by the sides: phases span the same range in an image of any size"
    told, times = (
        {"size": size_of(enc.domain.sides), "more": more},
        enc.params.get("rescaled") or 1.0,
    )
    known = max(limits) <= times  # training met what turns further
    return sentence("grid_reach", "divided", **told) + (
        sentence("grid_reach", "rescaled", times=times) if known else ""
    )


def each_axis(enc: Encoding, scaled: bool) -> Iterator[tuple[str, str]]:
    """A sentence about each axis of more than one point, without its name."""
    sides = enc.domain.sides
    omega = np.abs(frequencies_on_axes(enc.measure))
    for name, side, own in zip(axis_names(len(sides)), sides, omega.T, strict=True):
        turning = own[own > 0]
        if side == 1 or not len(turning):
            continue
        fast, slow = float(turning.max()), float(turning.min())
        again = sentence("grid_reach", "again", fast=TURN / fast, slow=TURN / slow)
        yield name, across_image(fast, slow, side) if scaled else again


def across_image(fast: float, slow: float, side: int) -> str:
    """What waves do along an axis whose coordinates are shares of its side."""
    first, last = (number(w * (side - 1) / TURN, 3) for w in (fast, slow))
    end = "phases repeat within every image"
    if slow * side <= TURN:  # what side - 1 steps come to at last
        end = sentence("grid_reach", "never again")
    return sentence("grid_reach", "turns", first=first, side=side, last=last, end=end)
