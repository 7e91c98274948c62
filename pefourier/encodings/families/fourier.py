"""Sines and cosines with other frequencies than the sinusoidal encoding.

learnable-sinusoidal (learned frequencies before training), fourier-features (Tancik et al., 2020)
and tape (Foumani et al., 2023) declare d / 2 frequencies of equal weight. mtan, mtan-fixed (Shukla
& Marlin, 2021) and time2vec encode real-valued times.

Conventions
-----------
`times` (n,) are strictly increasing, in any unit; on the command line, ``--times FILE`` sets the
times and the length. By default, the times are the positions 0 … length - 1, on which all three
can be compared with other encodings. Frequencies are in radians per mean spacing.
"""

from typing import Literal

import numpy as np

from pefourier.encodings.encoding import (
    Domain,
    Encoding,
    Layout,
    Wave,
    axis_letters,
    columns_of_blocks,
    equal_pairs,
    finding,
    positions,
    time_axis,
)
from pefourier.encodings.families.absolute import (
    geometric_frequencies,
    pair_count,
    sinusoids,
    stream,
)
from pefourier.encodings.families.axial import LINES, Axes, split_dimensions, wave_vectors
from pefourier.encodings.grids import grid_of
from pefourier.encodings.registry import encoding
from pefourier.errors import PefourierError
from pefourier.types import Array, Counts, Floats, frozen_arrays


@encoding(
    "learnable-sinusoidal",
    "Lin et al., 2021; Wang et al., 2021 (frequencies before training)",
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
    uniform = stream(seed).uniform(0.0, np.pi, pair_count("learnable-sinusoidal", d))
    frequencies = uniform if start == "uniform" else geometric_frequencies(d, rho)
    return sinusoids("learnable-sinusoidal", positions(length), frequencies, layout)


Mapping = Literal["gaussian", "sam", "nerf", "perceiver"]
FeatureCoordinates = Literal["own", "unit", "position", "centred", "closed"]
SCALE = 10.0  # of Tancik et al. for images
OWN_LINES = LINES | {  # step of a coordinate between points, and its value at the first point
    "position": lambda _: (1.0, 0.0),
    "centred": lambda n: (2 / n, 1 / n - 1),
}
USUAL: dict[Mapping, FeatureCoordinates] = {  # coordinates that the authors of each mapping use
    "gaussian": "unit",
    "sam": "centred",
    "nerf": "closed",
    "perceiver": "closed",
}


@encoding(
    "fourier-features",
    "Tancik et al., 2020; Mildenhall et al., 2020 (NeRF); Jaegle et al., 2021 (Perceiver)",
)
def fourier_features(
    length: int,
    d: int,
    *,
    grid: Counts = (),
    prefix: int = 0,
    mapping: Mapping = "gaussian",
    scale: float = SCALE,
    coordinates: FeatureCoordinates = "own",
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
    if mapping in ("nerf", "perceiver"):
        if scale != SCALE:
            raise PefourierError(f"mapping={mapping} has no scale; leave out scale={scale:g}")
        order = axis_letters(len(domain.sides))
        counts = split_dimensions("fourier-features", Axes(order=order), d)[0]
        bands = [
            2.0 ** np.arange(n) if mapping == "nerf" else np.linspace(1.0, side / 2, n)
            for side, n in zip(domain.sides, counts, strict=True)
        ]
        is_own = np.repeat(np.eye(len(order)), counts, axis=0)
        frequencies = np.pi * np.concatenate(bands)[:, None] * is_own
    else:
        size, normal = (pair_count("fourier-features", d), len(domain.sides)), stream(seed).normal
        if mapping == "gaussian":
            frequencies = 2 * np.pi * normal(0.0, scale, size)
        else:  # a matrix (axes, pairs) with x, the fastest axis, in the first row
            frequencies = 2 * np.pi * normal(0.0, scale, size[::-1])[::-1].T
    steps, starts = np.array([OWN_LINES[kind](side) for side in domain.sides]).T
    signs = np.where(frequencies[:, 0] < 0, -1.0, 1.0)  # a spectrum has no signs of frequencies
    scaled_omega, offset = frequencies * steps * signs[:, None], starts / steps
    if domain.is_line:
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

    return Encoding(
        "fourier-features",
        domain,
        d,
        vectors,
        params={"length": len(domain), "coordinates": kind},
        measure=measure,
    )


@encoding("tape", "Foumani et al., 2023 (ConvTran)")
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


UNUSUAL = 4.0  # ratio of the median step to 1 beyond which the initial rates do not fit the times


def span(domain: Domain) -> float:
    """Time between the first and the last point; 1 for a single point."""
    return float(domain.x[-1] - domain.x[0]) or 1.0


@frozen_arrays
class LineAndSines:
    r"""Columns :math:`a_0 t + b_0` and :math:`\sin(a_j t + b_j)`, j = 1 … d - 1."""

    slopes: Floats  # (d,)
    shifts: Floats

    def __call__(self, t: Array) -> Floats:
        """Return the vectors of times."""
        table: Floats = np.multiply.outer(np.asarray(t, dtype=float), self.slopes) + self.shifts
        table[:, 1:] = np.sin(table[:, 1:])
        return table


@encoding("time2vec", "Kazemi et al., 2019, Eq. 1 (before training)", domain="time", untrained=True)
def time2vec(length: int, d: int, *, seed: int = 0, times: Floats | None = None) -> Encoding:
    """One linear and d - 1 periodic functions of time (Kazemi et al., 2019, Eq. 1).

    Columns are a_0 t + b_0 and sin(a_j t + b_j). The initial a and b are standard normal (the paper
    does not specify the initial values).

    Parameters
    ----------
    seed : int
        Seed of the random numbers; the same seed gives the same vectors on every machine.
    times : array
        Irregular times, from --times FILE; by default regular positions.

    Examples
    --------
    >>> time2vec(3, 2).table().round(3)
    array([[0.979, 0.784],
           [2.743, 0.48 ],
           [4.507, 0.1  ]])
    """
    domain, noted = time_axis(length, times)
    slopes, shifts = stream(seed).normal(size=(2, d))
    steps = np.diff(domain.x)
    median = float(np.median(steps)) if domain.kind == "time" and len(steps) else 1.0
    is_usual = 1 / UNUSUAL <= median <= UNUSUAL
    unit = {"span": domain.x[-1] - domain.x[0], "median": median}
    notes = () if is_usual else (finding("times-unit", **unit),)
    vectors = LineAndSines(slopes, shifts)
    return Encoding("time2vec", domain, d, vectors, params=noted, findings=notes)


@encoding("mtan", "Shukla & Marlin, 2021 (before training)", domain="time", untrained=True)
def mtan(length: int, d: int, *, seed: int = 0, times: Floats | None = None) -> Encoding:
    """The learned time embedding of mTAN (Shukla & Marlin, 2021), before training.

    Columns are a_0 t + b_0 and sin(a_j t + b_j) with t divided by the span of the times, as in the
    authors' source code. The initial a and b are uniform on (-1, 1), as in torch's Linear(1, ·).
    Phases therefore change by less than 1 radian before training, and the spectrum is all at 0.

    Parameters
    ----------
    seed : int
        Seed of the random numbers; the same seed gives the same vectors on every machine.
    times : array
        Irregular times, from --times FILE; by default regular positions.

    Examples
    --------
    >>> mtan(3, 2).table().round(3)
    array([[0.206, 0.09 ],
           [0.254, 0.3  ],
           [0.303, 0.497]])
    """
    domain, noted = time_axis(length, times)
    slopes, shifts = stream(seed).uniform(-1.0, 1.0, (2, d))
    vectors = LineAndSines(slopes / span(domain), shifts)
    return Encoding("mtan", domain, d, vectors, params=noted)


@encoding(
    "mtan-fixed",
    "Shukla & Marlin, 2021 (reml-lab/mTAN, fixed_time_embedding)",
    domain="time",
)
def mtan_fixed(
    length: int, d: int, *, rho: float = 10.0, scale: float = 48.0, times: Floats | None = None
) -> Encoding:
    """Sines and cosines of 48 t at base 10, with t divided by the span of the times (mTAN).

    Columns are sin(w_i t), cos(w_i t), interleaved, with w_i = scale ρ^(−2i/d) / span. A stay in
    the authors' data has 48 hours, and the highest frequency is then one radian per hour.

    Parameters
    ----------
    rho : float
        Base of the frequencies; a larger base lowers the lowest frequency.
    scale : float
        Phase of the highest frequency over the span of the times, in radians.
    times : array
        Irregular times, from --times FILE; by default regular positions.

    Examples
    --------
    >>> mtan_fixed(49, 4).measure.frequencies.round(6)
    array([1.      , 0.316228])
    """
    pair_count("mtan-fixed", d)
    domain, noted = time_axis(length, times)
    frequencies = geometric_frequencies(d, rho) * (scale / span(domain))
    return sinusoids("mtan-fixed", domain, frequencies, "interleaved", params=noted)
