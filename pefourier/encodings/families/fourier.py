"""Sines and cosines with other frequencies than the sinusoidal encoding.

learnable-sinusoidal (learned frequencies before training), fourier-features (Tancik et al., 2020)
and tape (Foumani et al., 2023). All declare d / 2 frequencies of equal weight.
"""

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from pefourier.encodings.columns import Layout, Wave, columns_of_blocks, waves
from pefourier.encodings.encoding import Domain, Encoding, equal_pairs, positions
from pefourier.encodings.families.absolute import geometric_frequencies, stream
from pefourier.encodings.families.axes import (
    LINES,
    Axes,
    axis_letters,
    split_dimensions,
    wave_vectors,
)
from pefourier.encodings.grids import grid_of
from pefourier.encodings.registry import encoding
from pefourier.errors import PefourierError, check_above
from pefourier.types import Array, Counts, Floats, Ints


def pair_count(name: str, d: int) -> int:
    """Number of pairs of a sine and a cosine in d columns."""
    if d % 2:
        raise PefourierError(f"{name} has pairs and needs an even d; got d={d}; use d={d + 1}")
    return d // 2


def sinusoids(
    name: str, domain: Domain, frequencies: Floats, layout: Layout, offset: float = 0, **facts: Any
) -> Encoding:
    """Sines and cosines of positions or times at given frequencies, in radians per unit."""
    plain = equal_pairs(frequencies, offset=offset)

    def vectors(x: Array) -> Floats:
        return waves(plain.phases(x), layout)

    step = domain.spacing
    measure = replace(plain, frequencies=frequencies * step, offset=offset / step)
    return Encoding(name, domain, 2 * len(frequencies), vectors, measure=measure, **facts)


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
    """Sines and cosines at learned frequencies, before training.

    Columns are sin(ω_i s), cos(ω_i s), i = 0 … d/2 - 1. The initial frequencies are independent and
    uniform on [0, pi], which gives a flat spectrum, or the geometric frequencies ρ^(−2i/d) of the
    sinusoidal encoding.

    Parameters
    ----------
    start : str
        uniform: frequencies drawn from [0, pi]; geometric: those of the sinusoidal encoding.
    seed : int
        Seed of the random numbers; the same seed gives the same vectors on every machine.
    rho : float
        Base of the frequencies; a larger base lowers the lowest frequency.
    layout : str
        interleaved: sine and cosine of a frequency adjacent; halves: all sines, then all cosines.

    Examples
    --------
    >>> learnable_sinusoidal(2, 4).measure.frequencies.round(4)
    array([1.7241, 2.2468])
    """
    count = pair_count("learnable-sinusoidal", d)
    uniform = stream(seed).uniform(0.0, np.pi, count)
    frequencies = uniform if start == "uniform" else geometric_frequencies(d, rho)
    return sinusoids("learnable-sinusoidal", positions(length), frequencies, layout)


Mapping = Literal["gaussian", "sam", "nerf", "perceiver"]
Coordinates = Literal["own", "unit", "position", "centred", "closed"]
SCALE = 10.0  # of Tancik et al. for images
USUAL: dict[Mapping, Coordinates] = {  # coordinates that the authors of each mapping use
    "gaussian": "unit",
    "sam": "centred",
    "nerf": "closed",
    "perceiver": "closed",
}


@encoding(
    "fourier-features",
    "Tancik et al., 2020; Mildenhall et al., 2020 (NeRF); Jaegle et al., 2021 (Perceiver)",
    declared=True,
)
def fourier_features(
    length: int,
    d: int,
    *,
    grid: Counts = (),
    prefix: int = 0,
    mapping: Mapping = "gaussian",
    scale: float = SCALE,
    coordinates: Coordinates = "own",
    seed: int = 0,
) -> Encoding:
    """Fourier features (Tancik et al., 2020): sines and cosines at frequency vectors.

    Columns are cos(2πb_j v) for all j and then sin(2πb_j v), with b_j ~ N(0, scale^2) on every
    axis. NeRF and Perceiver use sines and cosines of each axis separately: of 2^k pi u in NeRF, and
    of pi u times evenly spaced factors from 1 to N/2 in Perceiver.

    Parameters
    ----------
    grid : tuple of int
        Sides, slowest axis first: 14x14, or 8x30x52 with frames; one axis by default.
    prefix : int
        Rows of zeros before the grid.
    mapping : str
        gaussian; sam: gaussian with axes in the order x, y, sines first; nerf; perceiver.
    scale : float
        Standard deviation of the frequencies b, in full rotations per unit of coordinates. Vectors
        of points much nearer than 1/(2 pi scale) are similar; those of points much farther apart
        are unrelated. Use about 1/(2 pi r) if points within r are neighbours, and try a third and
        three times that. For coordinates in [0, 1), scale 10 gives r = 0.016; with
        coordinates=position, r is in steps. SAM starts from 1; nerf and perceiver have no scale.
    coordinates : str
        own: those of the mapping; unit: i/N in [0, 1) (gaussian); position: i itself; centred:
        2(i + 1/2)/N - 1 (sam); closed: N points from -1 to 1 (nerf, perceiver). The two end points
        have the same vector in NeRF.
    seed : int
        Seed of the random numbers; the same seed gives the same vectors on every machine.

    Examples
    --------
    >>> fourier_features(4, 2, scale=1.0).table().round(3)
    array([[ 1.   ,  0.   ],
           [-0.932,  0.362],
           [ 0.738, -0.675],
           [-0.443,  0.897]])
    """
    domain, kind = grid_of(length, grid, prefix), coordinates
    if coordinates == "own":
        kind = USUAL[mapping]
    check_above("scale", scale)
    if mapping in ("nerf", "perceiver") and scale != SCALE:
        raise PefourierError(f"mapping={mapping} has no scale; leave out scale={scale:g}")
    frequencies = frequency_vectors(mapping, domain.sides, d, scale, seed)
    steps, starts = np.array([line_of(kind, side) for side in domain.sides]).T
    signs = np.where(frequencies[:, 0] < 0, -1.0, 1.0)  # a spectrum has no signs of frequencies
    scaled_omega, offset = frequencies * steps * signs[:, None], starts / steps
    if len(domain.sides) == 1:
        scaled_omega, offset = scaled_omega[:, 0], float(offset[0])
    measure = equal_pairs(scaled_omega, offset=offset)
    first: Wave = "cos" if mapping == "gaussian" else "sin"
    columns = columns_of_blocks("interleaved" if mapping == "nerf" else "halves", [d // 2])
    wave_table = wave_vectors(
        "fourier-features", domain, measure, columns=columns, first=first, rotates=False
    )

    def vectors(x: Array) -> Floats:
        table = wave_table(x)
        table[:, columns[first == "cos"]] *= signs
        return table

    noted = {"length": len(domain), "coordinates": kind}
    return Encoding("fourier-features", domain, d, vectors, params=noted, measure=measure)


def line_of(coordinates: Coordinates, side: int) -> tuple[float, float]:
    """Step of a coordinate between points, and its value at the first point."""
    if coordinates == "position":
        return 1.0, 0.0
    step, start = LINES[coordinates](side)
    return step, start + (step / 2 if coordinates == "centred" else 0.0)


def frequency_vectors(mapping: Mapping, sides: Ints, d: int, scale: float, seed: int) -> Floats:
    """Frequency vectors (m, axes), radians per unit of the coordinates, slowest axis first.

    SAM draws a matrix (axes, m) with x, the fastest axis, in the first row. Along each axis, NeRF
    uses pi, 2 pi, 4 pi, …, and Perceiver uses evenly spaced frequencies from pi to pi N/2.
    """
    if mapping in ("gaussian", "sam"):
        size = (pair_count("fourier-features", d), len(sides))
        normal = stream(seed).normal
        if mapping == "gaussian":
            return 2 * np.pi * normal(0.0, scale, size)
        return 2 * np.pi * normal(0.0, scale, size[::-1])[::-1].T
    counts = split_dimensions("fourier-features", Axes(order=axis_letters(len(sides))), d)[0]
    bands = [
        2.0 ** np.arange(n) if mapping == "nerf" else np.linspace(1.0, side / 2, n)
        for side, n in zip(sides, counts, strict=True)
    ]
    axis = np.repeat(np.arange(len(sides)), counts)
    is_own = axis[:, None] == np.arange(len(sides))
    return np.asarray(np.pi * np.concatenate(bands)[:, None] * is_own)


@encoding("tape", "Foumani et al., 2023 (ConvTran)", declared=True)
def tape(length: int, d: int, *, rho: float = 10000.0) -> Encoding:
    """Time absolute position encoding: sinusoidal, with frequencies scaled by d / length.

    Columns are sin(w_i s), cos(w_i s), interleaved, with w_i = ρ^(−2i/d) d / length (Foumani et
    al., 2023, ConvTran).

    Parameters
    ----------
    rho : float
        Base of the frequencies; a larger base lowers the lowest frequency.

    Examples
    --------
    >>> tape(100, 16).measure.frequencies[:2].round(6)
    array([0.16    , 0.050596])
    """
    pair_count("tape", d)
    frequencies = geometric_frequencies(d, rho) * (d / length)
    return sinusoids("tape", positions(length), frequencies, "interleaved")
