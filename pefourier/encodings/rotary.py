"""Encodings that rotate queries and keys: the code of a position is the cosines and sines used."""

from typing import Literal

import numpy as np

from pefourier.domain import positions
from pefourier.encoding import Encoding, Measure, encoding
from pefourier.encodings.absolute import geometric
from pefourier.errors import PefourierError


@encoding("rope", "Su et al., 2021", measure="declared")
def rope(
    length: int,
    d: int,
    *,
    rho: float = 10000.0,
    layout: Literal["halves", "interleaved"] = "halves",
) -> Encoding:
    """Rotary positions (Su et al., 2021): cosines and sines of s rho^(-2i/d), d the head size."""
    if d % 2:
        raise PefourierError(f"rope turns pairs of dimensions and needs an even d; got d={d}")
    frequencies = geometric(d, rho)
    measure = Measure(frequencies, np.full(d // 2, 2.0 / d), d / 2)

    def codes(x: np.ndarray) -> np.ndarray:
        phases = measure.phases(x)
        waves = np.stack([np.cos(phases), np.sin(phases)], axis=1 if layout == "halves" else 2)
        return waves.reshape(len(phases), d)

    return Encoding("rope", positions(length), d, codes, measure, act="rotate")
