"""What do queries and keys of a model average to, pair by pair? A file of means, made by a hook.

The layout is that of WeianMao/triattention (2604.04921): ``stats.layer00_head00.q_abs_mean`` with
``q_mean_real`` and ``q_mean_imag``, one number for each pair before it is turned, in a .pt, .npz or
.safetensors file. Beside them may stand the same of the head's keys, ``k_abs_mean`` and so on.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pefourier.encodings.sources.tables import open_arrays
from pefourier.errors import PefourierError, shown

NAME = re.compile(r"(?:stats\.)?layer(\d+)_head(\d+)\.([qk])_(abs_mean|mean_real|mean_imag)")


@dataclass(frozen=True)
class HeadMeans:
    """Means over tokens of the pairs of one head (pairs,)."""

    size: np.ndarray  # of the length of a pair
    direction: np.ndarray  # of the pair as a complex number


def read_activations(path: str, pairs: int) -> dict[tuple[int, int], dict[str, HeadMeans]]:
    """Means by layer and head, of ``q`` and where they are there of ``k``.

    Raises
    ------
    PefourierError
        For a file without such names, with a part missing or of another number of pairs, and for
        means that no tokens can have.
    """
    parts: dict[tuple[int, int], dict[str, dict[str, np.ndarray]]] = {}
    with open_arrays(path, regular=True) as file:
        for name in file.arrays:
            if (match := NAME.fullmatch(name)) is None:
                continue
            row = file.load(name, "float64").reshape(-1)
            if len(row) != pairs or not np.isfinite(row).all():
                raise PefourierError(
                    f"{name} of {shown(path)} must be {pairs} finite numbers; it has {len(row)}"
                )
            of_head = parts.setdefault((int(match[1]), int(match[2])), {})
            of_head.setdefault(match[3], {})[match[4]] = row
    if not parts:
        raise PefourierError(
            f"{shown(path)} holds no means of heads: names are as layer00_head00.q_abs_mean"
        )
    return {key: means_of(of_head, key, path) for key, of_head in sorted(parts.items())}


def means_of(
    arrays: Mapping[str, Mapping[str, np.ndarray]], key: tuple[int, int], path: str
) -> dict[str, HeadMeans]:
    """The means of one head."""
    means = {}
    for kind, parts in arrays.items():
        if len(parts) < 3 or "q" not in arrays:
            raise PefourierError(
                f"layer {key[0]} head {key[1]} of {shown(path)} lacks some of q_abs_mean, "
                "q_mean_real, q_mean_imag, or of the same of k"
            )
        size, direction = parts["abs_mean"], parts["mean_real"] + 1j * parts["mean_imag"]
        if (np.abs(direction) > size * (1 + 1e-3) + 1e-6).any():
            raise PefourierError(
                f"layer {key[0]} head {key[1]} of {shown(path)} has means of {kind} longer than "
                "the mean of lengths, which no tokens can have"
            )
        means[kind] = HeadMeans(size, direction)
    return means
