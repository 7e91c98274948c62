"""By which axis of an image does each pair turn, of a config and of a table of its tokens?

Conventions
-----------
The pairs of a rotation turn by the frame, row or column of a token, t, y and x (`sections`), which
are one for text. A table of tokens shows for each pair the whole numbers that it turns by.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from pefourier.diagnosis.misreadings import Cause
from pefourier.diagnosis.pairs import PairWaves, list_differences
from pefourier.encodings.columns import AXES, describe_axes
from pefourier.encodings.findings import finding


def compare_axes(result: Any, first: PairWaves, second: PairWaves) -> Any:
    """Rotations that turn text alike, and images by other axes."""
    m = min(len(first.axis), len(second.axis))
    if not m or first.axis == second.axis:
        return result
    differs = np.array([a != b for a, b in zip(first.axis, second.axis, strict=False)])
    order = "".join((*AXES, "e"))
    changes = {
        "axes": tuple(
            describe_axes(np.array([order.index(letter) for letter in pairs.axis]))
            for pairs in (first, second)
        )
    }
    renamed = len({*zip(first.axis, second.axis, strict=False)}) == len({*first.axis})
    code = "axes" if renamed or differs.sum() == 1 else "sections"
    return replace(
        result,
        verdict="different",
        pairs=list_differences(first, second, differs),
        cause=Cause("both", (code,), changes, {}),
        differing=int(differs.sum()),
        counted=len(first.axis),
        unit="pairs",
    )


def axes_in_table(result: Any, *pairs: PairWaves) -> Any:
    """A table of an image's tokens beside a config whose pairs turn by frames, rows and columns."""
    declared, table = pairs if pairs[0].axis else pairs[::-1]
    if not declared.axis or table.form is None or len(declared.omega) != len(table.omega):
        return None
    if table.even is None or table.even.all():
        return None  # text
    axis = assign_axes(declared, table)
    if axis is None:
        return None
    fitted = replace(table, axis=axis, omega=declared.omega, even=None)
    ordered = (declared, fitted) if declared is pairs[0] else (fitted, declared)
    compared = compare_axes(result, *ordered)
    if compared is not result:
        return compared
    findings = (*result.findings, finding("pairing-unsaid"))
    return replace(result, verdict="the same", findings=findings)


def assign_axes(declared: PairWaves, table: PairWaves) -> tuple[str, ...] | None:
    """The axis of each pair of a table of tokens, by the whole numbers it turns by; None: text.

    Slow pairs show three rows of ids: those of columns change most often, those of frames least.
    """
    rows = np.arange(min(table.length, 4096))
    waves = table.waves(rows)
    if np.isnan(waves).any():
        return None
    angles = np.angle(waves)
    with np.errstate(divide="ignore", invalid="ignore"):
        ids = angles / declared.omega
    slow = np.flatnonzero((np.abs(ids - np.rint(ids)) < 0.02).all(axis=0) & (declared.omega < 0.5))
    columns = {tuple(np.rint(ids[:, k]).astype(int).tolist()) for k in slow}
    walks = sorted(columns, key=lambda walk: np.count_nonzero(np.diff(walk)))
    if len(walks) != 3:
        return None
    walk_waves = np.exp(1j * np.multiply.outer(np.array(walks), declared.omega))  # (3, n, m)
    residual = np.abs(walk_waves - waves / table.factor).max(axis=1)
    nearest = residual.argmin(axis=0)
    if residual.min(axis=0).max() > 1e-3:
        return None
    return tuple(AXES[i] for i in nearest)
