"""What a trained classifier of `pefourier train --save-models` injects, from its file.

Conventions
-----------
Its `codes` are those of its tokens. A rotation has `frequencies` (axes, pairs) in radians a token,
the fastest axis first, as RoPE-ViT has them; where codes change in length too (xpos), those are
only part of it.
"""

import json
import os
from dataclasses import replace

import numpy as np

from pefourier.encodings.encoding import FLOAT32_EPS, Encoding, from_table, rows_up_to
from pefourier.encodings.registry import build
from pefourier.errors import PefourierError, shown

OWN = {"codes", "mean", "scale", "settings"}
ROUNDED = 1e-4  # of cosines: what float32 costs the angle of a position


def read_classifier(path: str, length: int | None) -> Encoding | None:
    """The codes that a classifier adds, or its rotation; None where a file is of something else."""
    from pefourier.encodings.sources.tables import open_arrays

    if not path.lower().endswith(".safetensors") or not os.path.isfile(path):
        return None
    with open_arrays(path) as file:
        if not file.arrays.keys() >= OWN:
            return None
        try:
            settings = json.loads(file.load("settings").tobytes())
            act, grid = settings["act"], tuple(settings["sizes"].get("grid", ()))
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
        turns = act == "rotate" and "frequencies" in file.arrays
        names = ["codes", "frequencies"] if turns else ["codes"]
        codes, *waves = (np.atleast_2d(file.load(name, "float64")) for name in names)
    if act == "add":
        rows = rows_up_to(codes, length, shown(path))
        return from_table(rows, "learned", eps=FLOAT32_EPS, origin="weights")
    return rotation_of_codes(path, codes, waves[0], grid, length) if waves else None


def rotation_of_codes(
    path: str, codes: np.ndarray, waves: np.ndarray, grid: tuple[int, ...], length: int | None
) -> Encoding:
    """The rotation by some frequencies (axes, pairs), if it gives the codes (tokens, 2 pairs)."""
    d = 2 * waves.shape[1]
    if len(waves) == 1:
        rotation = build("rope", inv_freq=waves[0], length=length or len(codes), d=d)
    else:
        rotation = build(
            "mixed-rope", frequencies=f"{path}#frequencies", d=d, grid=grid, length=length
        )
    count = min(len(codes), len(rotation))
    turns = np.cos(rotation.measure.phases(rotation.domain.places(rotation.domain.x[:count])))
    if codes.shape[1] != d or not np.allclose(turns, codes[:count, : d // 2], atol=ROUNDED):
        raise PefourierError(
            f"{shown(path)} turns and scales: its codes are no rotation by its frequencies alone; "
            "name one of them, #codes or #frequencies"
        )
    return replace(rotation, origin="weights")
