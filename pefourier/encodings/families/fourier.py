"""Sines and cosines whose frequencies are not those of the sinusoidal encoding.

learnable-sinusoidal (frequencies that training moves, at their start), fourier-features (Tancik et
al., 2020), tape (Foumani et al., 2023). All have d / 2 pairs of equal weight and declare them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from pefourier.encodings.checks import check_above
from pefourier.encodings.columns import Layout, pair_columns, waves
from pefourier.encodings.domain import Domain, instants, positions, scattered
from pefourier.encodings.encoding import Encoding, Finding, Measure
from pefourier.encodings.families.absolute import geometric_frequencies
from pefourier.encodings.families.axes import (
    LINES,
    Axes,
    axis_letters,
    split_dimensions,
    wave_codes,
)
from pefourier.encodings.families.seeds import stream
from pefourier.encodings.findings import finding
from pefourier.encodings.grids import grid_of
from pefourier.encodings.registry import encoding
from pefourier.errors import PefourierError


def pair_count(name: str, d: int) -> int:
    """Number of pairs of a sine and a cosine in d columns."""
    if d % 2:
        fits = " or ".join(f"d={fit}" for fit in (d - 1, d + 1) if fit)
        raise PefourierError(f"{name} has pairs and needs an even d; got d={d}; write {fits}")
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
    uniform = stream(seed).uniform(0.0, np.pi, count)
    frequencies = uniform if start == "uniform" else geometric_frequencies(d, rho)
    return sinusoids("learnable-sinusoidal", length, frequencies, layout)


Mapping = Literal["gaussian", "sam", "nerf", "perceiver"]
Coordinates = Literal["own", "unit", "position", "centred", "closed"]
NEAR_SEAM = 5.0  # degrees from the seam, within which both ends of longitudes lie
ALIKE = 0.5  # cosine of codes 360 degrees apart, from which they are taken to come round
SCALE = 10.0  # Tancik et al. for images
USUAL: dict[Mapping, Coordinates] = {  # coordinates that a mapping's authors take
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
    grid: tuple[int, ...] = (),
    prefix: int = 0,
    mapping: Mapping = "gaussian",
    scale: float = SCALE,
    coordinates: Coordinates = "own",
    seed: int = 0,
    times: np.ndarray | None = None,
) -> Encoding:
    r"""Fourier features (Tancik et al., 2020): waves of coordinates at given frequency vectors.

    Columns are :math:`\cos(2\pi b_j v)` for all j and then :math:`\sin(2\pi b_j v)`, with
    :math:`b_j \sim N(0, \mathrm{scale}^2)` on every axis. NeRF and Perceiver have sines and cosines
    of each axis by itself: 2^k pi u, and pi u times even steps from 1 to N/2.

    Parameters
    ----------
    grid : tuple of int
        Sides, the slowest axis first: 14x14, or 8x30x52 for frames; one axis by default.
    prefix : int
        Rows of zeros before the grid.
    mapping : str
        gaussian; sam, the same with axes from x on, sines first; nerf; perceiver.
    scale : float
        Standard deviation of the frequencies b, in turns per unit of coordinates: points much
        nearer than 1/(2 pi scale) look alike, and those much farther unrelated. Take about
        1/(2 pi r) where points within r shall count as near, and try a third and three times
        that. In [0, 1) scale 10 has r = .016; with coordinates=position r is in steps. SAM starts
        from 1; nerf and perceiver draw nothing.
    coordinates : str
        own, those of the mapping; unit: i/N in [0, 1) (gaussian); position: i itself; centred:
        2(i + 1/2)/N - 1 (sam); closed: N points from -1 to 1 (nerf, perceiver), where the ends of
        NeRF have the same code.
    seed : int
        Seed of the random numbers; the same one gives the same codes on every machine.
    times : array
        Irregular times, or points with a column for each axis, from --times FILE. On an axis i
        then is (x - min)/(max - min) times N - 1, N the different values there; itself with
        coordinates=position.

    Examples
    --------
    >>> fourier_features(4, 2, scale=1.0).table().round(3)
    array([[ 1.   ,  0.   ],
           [-0.932,  0.362],
           [ 0.738, -0.675],
           [-0.443,  0.897]])
    """
    if times is not None and (grid or prefix):
        raise PefourierError("points are given by --times or by --grid and --prefix; leave one out")
    domain = grid_of(length, grid, prefix) if times is None else points_at(times)
    columns = [] if times is None else np.asarray(times, dtype=float).reshape(len(domain), -1).T
    sides = tuple(len(np.unique(x)) for x in columns) or domain.sides
    kind = USUAL[mapping] if coordinates == "own" else coordinates
    check_above("scale", scale)
    if mapping in ("nerf", "perceiver") and scale != SCALE:
        raise PefourierError(f"mapping={mapping} draws nothing; leave out scale={scale:g}")
    frequencies = FREQUENCIES[mapping](sides, d, scale, seed)
    lines = [line_of(kind, side) for side in sides]
    if times is not None and kind != "position":
        lines = [line_through(x, *line) for x, line in zip(columns, lines, strict=True)]
    steps, starts = np.array(lines).T
    signs = np.where(frequencies[:, 0] < 0, -1.0, 1.0)  # a spectrum knows no sign of a frequency
    turns, offset = frequencies * steps * signs[:, None], starts / steps
    if len(sides) == 1 and domain.at is None:
        turns, offset = turns[:, 0], float(offset[0])
    measure = replace(equal_pairs(turns), offset=offset)
    noted = {"length": len(domain), "coordinates": kind}
    codes = signed_waves(domain, measure, signs, mapping)
    if times is not None:
        noted["times"] = tuple(np.asarray(times, dtype=float).tolist())
        measure = equal_pairs(turns * domain.spacing) if domain.at is None else None
    remarks = () if domain.at is None else tuple(seams(domain.at, turns))
    return Encoding("fourier-features", domain, d, codes, measure, params=noted, findings=remarks)


def seams(points: np.ndarray, turns: np.ndarray) -> Iterator[Finding]:
    """Columns of points (n, axes) that are longitudes, whose waves do not come round.

    These go from one side of the seam of -180 to 180 degrees, or of 0 to 360, to the other, beside
    a column within 90 degrees; the codes of a place 360 degrees on are others.

    >>> at = np.array([[48.0, -179.0], [52.0, 179.0]])
    >>> [f.code for f in seams(at, np.array([[0.0, 0.01]]))], [*seams(at, np.array([[0.0, np.pi]]))]
    (['longitude-seam'], [])
    """
    for axis, x in enumerate(points.T):
        start = -180.0 if x.min() < 0 else 0.0
        ends = np.array([x.min() - start, start + 360.0 - x.max()])
        latitudes = (np.abs(np.delete(points, axis, axis=1)) <= 90.0).all(axis=0)
        along = turns[turns[:, axis] != 0, axis]
        around = ((ends >= 0) & (ends <= NEAR_SEAM)).all() and latitudes.any()
        if around and len(along) and np.cos(360.0 * along).mean() < ALIKE:
            yield finding("longitude-seam", column=axis + 1, low=start, high=start + 360.0)


def points_at(times: np.ndarray) -> Domain:
    """Points of several coordinates, or times."""
    return scattered(times) if np.ndim(times) > 1 else instants(times)


def line_through(x: np.ndarray, step: float, start: float) -> tuple[float, float]:
    """A line over 0 … N - 1 as one over the N different values of x, as if evenly spaced.

    >>> line_through(np.array([10.0, 30.0, 20.0]), 1.0, 0.0)
    (0.1, -1.0)
    """
    per_unit = step * (len(np.unique(x)) - 1) / (float(np.ptp(x)) or 1.0)
    per_unit = per_unit or step  # all have the same coordinate, and its code is that of a first
    return per_unit, start - float(x.min()) * per_unit


def signed_waves(
    domain: Domain, measure: Measure, signs: np.ndarray, mapping: Mapping
) -> Callable[[np.ndarray], np.ndarray]:
    """Codes of frequencies whose sines have a sign of their own, in the mapping's columns."""
    layout = "interleaved" if mapping == "nerf" else "halves"
    first = "cos" if mapping == "gaussian" else "sin"
    columns = tuple(np.arange(2 * len(signs))[part] for part in pair_columns(layout, len(signs)))
    turned = wave_codes(
        "fourier-features", domain, measure, columns=columns, first=first, turns=False
    )

    def codes(x: np.ndarray) -> np.ndarray:
        table = turned(x)
        table[:, columns[first == "cos"]] *= signs
        return table

    return codes


def line_of(coordinates: Coordinates, side: int) -> tuple[float, float]:
    """Step from point to point of a coordinate, and its value at the first."""
    if coordinates == "position":
        return 1.0, 0.0
    step, start = LINES[coordinates](side)
    return step, start + (step / 2 if coordinates == "centred" else 0.0)


def gaussian_vectors(sides: Sequence[int], d: int, scale: float, seed: int) -> np.ndarray:
    """Random vectors (m, axes), radians per unit of the coordinates, the slowest axis first."""
    size = (pair_count("fourier-features", d), len(sides))
    return 2 * np.pi * stream(seed).normal(0.0, scale, size)


def sam_vectors(sides: Sequence[int], d: int, scale: float, seed: int) -> np.ndarray:
    """The same drawn as a matrix (axes, m) whose first row is that of x, the fastest axis."""
    size = (len(sides), pair_count("fourier-features", d))
    return 2 * np.pi * stream(seed).normal(0.0, scale, size)[::-1].T


def octaves(sides: Sequence[int], d: int, scale: float, seed: int) -> np.ndarray:
    """pi, 2 pi, 4 pi, … along each axis in its turn."""
    return along_axes([np.pi * 2.0 ** np.arange(n) for n in bands_of_axes(sides, d)])


def even_bands(sides: Sequence[int], d: int, scale: float, seed: int) -> np.ndarray:
    """pi to pi N/2 in even steps along each axis in its turn."""
    counts = bands_of_axes(sides, d)
    bands = zip(sides, counts, strict=True)
    return along_axes([np.pi * np.linspace(1.0, side / 2, count) for side, count in bands])


def bands_of_axes(sides: Sequence[int], d: int) -> list[int]:
    """Pairs of each axis, all alike."""
    return split_dimensions("fourier-features", Axes(order=axis_letters(len(sides))), d)[0]


def along_axes(frequencies: Sequence[np.ndarray]) -> np.ndarray:
    """Frequencies of single axes as vectors (m, axes)."""
    axes = np.repeat(np.arange(len(frequencies)), [len(along) for along in frequencies])
    return np.concatenate(frequencies)[:, None] * (axes[:, None] == np.arange(len(frequencies)))


FREQUENCIES: dict[Mapping, Callable[[Sequence[int], int, float, int], np.ndarray]] = {
    "gaussian": gaussian_vectors,
    "sam": sam_vectors,
    "nerf": octaves,
    "perceiver": even_bands,
}


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
