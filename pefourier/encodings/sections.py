"""Which of the axes t, y, x turns each pair of a rotation (M-RoPE): frames, rows, columns."""

import re
from typing import Literal

import numpy as np

from pefourier.errors import PefourierError

AXES = "tyx"


def describe_axes(axis: np.ndarray) -> str:
    """Which axis turns each pair, those that turn alike or by turns together.

    >>> describe_axes(np.repeat([0, 1, 2], [16, 24, 24])), describe_axes(np.arange(64) % 3)
    ('16 t + 24 y + 24 x', '21 × (t, y, x) + 1 t')
    """
    letters = "".join((AXES + "e")[i] for i in axis)
    runs = re.finditer(r"(.{1,3}?)\1+|(.)", letters)
    parts = ((run[1] or run[2], len(run[0])) for run in runs)
    counts = [(n // len(unit), ", ".join(unit)) for unit, n in parts]
    return " + ".join(f"{n} × ({axes})" if "," in axes else f"{n} {axes}" for n, axes in counts)


def axes_of_sections(
    sections: tuple[int, ...], interleaved: bool | Literal["rows"], pairs: int
) -> np.ndarray:
    """Which of the axes t, y, x turns each pair: in blocks, by turns, or as Ernie 4.5 has it.

    Its sections are those of rows, columns and frames; rows and columns take turns, frames are
    behind them.

    >>> axes_of_sections((2, 1, 1), interleaved=True, pairs=4)
    array([0, 1, 2, 0])
    >>> axes_of_sections((2, 2, 1), interleaved="rows", pairs=5)
    array([1, 2, 1, 2, 0])
    """
    fits = sum(sections) <= pairs if interleaved is True else sum(sections) == pairs
    if len(sections) != 3 or not fits or (interleaved == "rows" and sections[0] != sections[1]):
        condition = ", the first two alike" if interleaved == "rows" else ""
        raise PefourierError(
            f"mrope_section {list(sections)} must be three numbers of pairs that sum to {pairs}, "
            f"half of the dimensions that turn{condition}"
        )
    if interleaved == "rows":
        return np.r_[np.tile([1, 2], sections[0]), np.zeros(sections[2], dtype=int)]
    if not interleaved:
        return np.repeat(np.arange(3), sections)
    turns = np.arange(pairs) % 3  # pairs that are nobody's are those of t, as in transformers
    return np.where(np.arange(pairs) < 3 * np.array(sections)[turns], turns, 0)
