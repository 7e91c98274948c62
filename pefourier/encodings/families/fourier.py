"""Sines and cosines whose frequencies are not those of the sinusoidal encoding.

learnable-sinusoidal (frequencies that training moves, at their start), fourier-features (Tancik et
al., 2020), tape (Foumani et al., 2023). All have d / 2 pairs of equal weight and declare them.
"""

from typing import Literal

import numpy as np

from pefourier.encodings.checks import check_above
from pefourier.encodings.columns import Layout, pair_columns, waves
from pefourier.encodings.domain import positions
from pefourier.encodings.encoding import Encoding, Measure
from pefourier.encodings.families.absolute import geometric_frequencies
from pefourier.encodings.families.seeds import stream
from pefourier.encodings.registry import encoding
from pefourier.errors import PefourierError


def pair_count(name: str, d: int) -> int:
    """Number of pairs of a sine and a cosine in d columns."""
    if d % 2:
        raise PefourierError(f"{name} pairs each sine with a cosine and needs an even d; got d={d}")
    return d // 2


def equal_pairs(frequencies: np.ndarray) -> Measure:
    """The measure of one sine and one cosine of amplitude 1 at each of m frequencies."""
    m = len(frequencies)
    return Measure(frequencies, np.full(m, 1 / m), float(m))


def sinusoids(name: str, length: int, frequencies: np.ndarray, layout: Layout) -> Encoding:
    """Sines and cosines of positions at given frequencies, radians per position."""
    measure = equal_pairs(frequencies)

    def codes(x: np.ndarray) -> np.ndarray:
        return waves(measure.phases(x), layout)

    return Encoding(name, positions(length), 2 * len(frequencies), codes, measure)


@encoding(
    "learnable-sinusoidal",
    "Lin et al., 2021; Wang et al., 2021 (frequencies before training)",
    declared=True,
    untrained=True,
)
def learnable_sinusoidal(
    length: int,
    d: int,
    *,
    start: Literal["uniform", "geometric"] = "uniform",
    seed: int = 0,
    rho: float = 10000.0,
    layout: Layout = "interleaved",
) -> Encoding:
    r"""Sines and cosines at free frequencies, as they are before training.

    Columns are :math:`\sin(\omega_i s), \cos(\omega_i s)`, i = 0 … d/2 - 1. Frequencies start
    independent and uniform on [0, pi], a flat spectrum, or on the geometric grid
    :math:`\rho^{-2i/d}` of the sinusoidal encoding, where neither seed nor training has moved them.

    Parameters
    ----------
    start : str
        uniform: frequencies drawn from [0, pi]; geometric: the grid of the sinusoidal encoding.
    seed : int
        Seed of the random numbers; the same one gives the same codes on every machine.
    rho : float
        Base of the frequencies: the larger, the slower the slowest wave.
    layout : str
        interleaved: sine and cosine of a frequency side by side; halves: sines, then cosines.

    Examples
    --------
    >>> learnable_sinusoidal(2, 4).measure.frequencies.round(4)
    array([1.7241, 2.2468])
    """
    count = pair_count("learnable-sinusoidal", d)
    drawn = stream(seed).uniform(0.0, np.pi, count)
    frequencies = drawn if start == "uniform" else geometric_frequencies(d, rho)
    return sinusoids("learnable-sinusoidal", length, frequencies, layout)


@encoding("fourier-features", "Tancik et al., 2020 (Gaussian mapping)", declared=True)
def fourier_features(
    length: int,
    d: int,
    *,
    scale: float = 10.0,
    coordinates: Literal["unit", "position"] = "unit",
    seed: int = 0,
) -> Encoding:
    r"""Gaussian Fourier features (Tancik et al., 2020).

    Columns are :math:`\cos(2\pi b_j v)` for all j and then :math:`\sin(2\pi b_j v)`, with
    :math:`b_j \sim N(0, \mathrm{scale}^2)`. The paper's coordinates v lie in [0, 1): s / length;
    ``coordinates=position`` takes v = s. The default scale is the paper's for images.

    Parameters
    ----------
    scale : float
        Standard deviation of the frequencies b: the larger, the finer and the noisier.
    coordinates : str
        unit: positions as s / length in [0, 1); position: s itself.
    seed : int
        Seed of the random numbers; the same one gives the same codes on every machine.

    Examples
    --------
    >>> fourier_features(4, 2, scale=1.0).table().round(3)
    array([[ 1.   ,  0.   ],
           [-0.932,  0.362],
           [ 0.738, -0.675],
           [-0.443,  0.897]])
    """
    check_above("scale", scale)
    b = stream(seed).normal(0.0, scale, pair_count("fourier-features", d))
    turns = b / length if coordinates == "unit" else b
    measure = equal_pairs(2 * np.pi * np.abs(turns))  # a spectrum knows no sign of a frequency

    def codes(x: np.ndarray) -> np.ndarray:
        table = waves(measure.phases(x), "halves", first="cos")
        table[:, pair_columns("halves", len(b))[1]] *= np.sign(b)
        return table

    return Encoding("fourier-features", positions(length), d, codes, measure)


@encoding("tape", "Foumani et al., 2023 (ConvTran)", declared=True)
def tape(length: int, d: int, *, rho: float = 10000.0) -> Encoding:
    r"""Time absolute position encoding: sinusoidal with frequencies times d / length.

    Columns are :math:`\sin(w_i s), \cos(w_i s)` alternating, with
    :math:`w_i = \rho^{-2i/d}\, d / \mathrm{length}` (Foumani et al., 2023, ConvTran).

    Parameters
    ----------
    rho : float
        Base of the frequencies: the larger, the slower the slowest wave.

    Examples
    --------
    >>> tape(100, 16).measure.frequencies[:2].round(6)
    array([0.16    , 0.050596])
    """
    pair_count("tape", d)
    return sinusoids("tape", length, geometric_frequencies(d, rho) * (d / length), "interleaved")
