"""Encodings of points on several axes: each pair of columns depends on one axis, or on all.

axial (sines and cosines added to the input) and axial-rope (a rotation) have the parameters of
`Axes`, which cover the conventions of published models; `convention` sets all of the parameters by
name. mixed-rope rotates each pair by a frequency vector (Heo et al., 2024).

Conventions
-----------
Letters name the axes of a grid, slowest first: x; y, x; t, y, x; and a, b, c, … for more than three
axes. A pair is the cosine and sine of one phase: the frequency times the coordinate of one axis.
Coordinates are linear in the index of a point. In every convention, phases are therefore products
of frequencies (m, axes), in radians per step, and the index (`Measure`).
"""

import inspect
from collections.abc import Callable
from dataclasses import replace
from math import lcm, pi, prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pefourier.encodings.encoding import (
    NO_WAVES,
    WAVES,
    Columns,
    Domain,
    Encoding,
    Measure,
    Wave,
    axis_letters,
    check_inside,
    columns_of_blocks,
    equal_pairs,
    finding,
    lattice,
)
from pefourier.encodings.families.absolute import pair_count, stream
from pefourier.encodings.grids import grid_of, size_of
from pefourier.encodings.registry import Build, encoding, with_parameters
from pefourier.errors import PefourierError, check_above
from pefourier.types import Array, Counts, Fields, Floats, Places, Reals, frozen, frozen_arrays

AxesLayout = Literal["interleaved", "halves", "axis-halves", "mismatched"]
Coordinates = Callable[[Domain, NDArray[Any]], NDArray[Any]]  # coordinates of points, (n, axes)
AxisLine = tuple[float, float]  # slope and value at index 0 of the coordinate of an axis
LINES: dict[str, Callable[[float], AxisLine]] = {  # as functions of the side
    "unit": lambda n: (1 / n, 0.0),
    "2pi": lambda n: (2 * pi / (n + 1e-6), 0.0),
    "centred": lambda n: (2 / n, -1.0),
    "closed": lambda n: (2 / max(n - 1, 1), -1.0),
}


@frozen
class Axes:
    """Settings that map coordinates to phases, and phases to columns.

    Parameters
    ----------
    convention : str
        Settings of a published model for all parameters below; parameters that you pass override
        them.
    order : str
        Letters of the axes in the order of their columns, such as yx, xy or tyx; by default slowest
        first. A letter that is not an axis of the grid is an axis with one point.
    share : tuple of float
        Parts of d for the axes of `order`, such as 16;56;56 or 2;3;3; by default equal parts.
    rest : str
        Dimensions that do not split into pairs. refuse: an error; slowest: the first axis gets them
        (Wan: 44 of 128 for t, 42 each for y and x); front, back: they are idle, with frequency 0
        (LTX, V-JEPA 2).
    layout : str
        interleaved: the two columns of a pair adjacent; halves: the first columns of all pairs,
        then the second columns; axis-halves: halves for each axis separately; mismatched: laid out
        as axis-halves but rotated as interleaved, which is not a rotation (V-JEPA 2).
    arrange : str
        axes: the pairs of one axis after another; alternate: the pairs of the axes alternate.
    frequencies : str
        own: each axis has its own geometric grid. All axes share one grid with dealt (cyclically,
        Pixtral), sections (consecutive parts, M-RoPE) or rows-first (y and x alternate, and t has
        the lowest frequencies, VideoRoPE).
    rho : float
        Base of the frequencies rho^(-i/n), i = 0 … n - 1, with n the number of pairs in the grid;
        if rho is below 1, the frequencies increase.
    divisor : str
        Divisor in the exponent. n: the last frequency is above 1/rho; n-1: it is 1/rho exactly.
    stretch : tuple of float
        Extension factor of each axis of `order`; with coordinates=diagonal, also a divisor of i.
    stretch_by : str
        ntk: change the base to divide the last frequency by the factor (Cosmos); linear: divide all
        frequencies; yarn: divide frequencies with few rotations over the side `trained`, as in YaRN
        on one axis, but with attention factor 1.
    trained : tuple of float
        yarn: the trained side of each axis of `order`.
    scale : float
        Factor of all frequencies.
    coordinates : str
        index: i; unit: i/N; 2pi: 2 pi i/(N + 1e-6) (DETR); centred: 2i/N - 1; closed: N points from
        -1 to 1; signed: i - ceil(N/2) on y and x, i on t (Qwen-Image). N is the side.
    offset : float
        Number added to i: 0, 0.5 (the centre of a patch) or 1.
    normalise : str
        N of the coordinates. own: side of the axis; max, min: larger or smaller side of y and x
        (DINOv3).
    reference : tuple of float
        N' for each axis of `order`: an index becomes i N'/N; other coordinates use N' as N.
    rows : str
        Order of the rows. raster; transposed: down the columns of the grid (RT-DETR's mistake);
        blocks: 2 x 2 points at a time, the token order of models that merge them (Qwen2-VL).
    """

    convention: str = ""
    order: str = ""
    share: Reals = ()
    rest: Literal["refuse", "slowest", "front", "back"] = "refuse"
    layout: AxesLayout = "axis-halves"
    arrange: Literal["axes", "alternate"] = "axes"
    frequencies: Literal["own", "dealt", "sections", "rows-first"] = "own"
    rho: float = 10000.0
    divisor: Literal["n", "n-1"] = "n"
    stretch: Reals = ()
    stretch_by: Literal["ntk", "linear", "yarn"] = "ntk"
    trained: Reals = ()
    scale: float = 1.0
    coordinates: Literal["index", "unit", "2pi", "centred", "closed", "signed", "diagonal"] = (
        "index"
    )
    offset: float = 0.0
    normalise: Literal["own", "max", "min"] = "own"
    reference: Reals = ()
    rows: Literal["raster", "transposed", "blocks"] = "raster"

    def resolved(self, sides: Counts) -> "Axes":
        """Return the settings with an explicit order, and refuse settings that do not fit."""
        letters = axis_letters(len(sides))
        order = self.order or letters
        if len(set(order)) < len(order) or not set(letters) <= set(order):
            raise PefourierError(
                f"order must name each of the axes {', '.join(letters)} of "
                f"{'×'.join(map(str, sides))} points once, as order={letters}; got {order}"
            )
        for key in ("share", "stretch", "trained", "reference"):
            values = getattr(self, key)
            for value in values:
                check_above(key, value)
            if values and len(values) != len(order):
                raise PefourierError(
                    f"{key} needs one number for each of the axes {', '.join(order)}; "
                    f"got {';'.join(f'{v:g}' for v in values)}"
                )
        if self.arrange == "alternate" and self.layout == "axis-halves":
            raise PefourierError(
                "arrange=alternate needs layout=interleaved or layout=halves; got "
                "layout=axis-halves"
            )
        if self.stretch_by == "yarn" and not self.trained:
            raise PefourierError("stretch_by=yarn needs trained, the trained side of each axis")
        return replace(self, order=order)


@frozen_arrays
class Pairs:
    """The pairs of a vector in the order of their columns."""

    axis: Places  # (m,) index in `order` of the axis of each phase
    omega: Floats  # (m,) radians per unit of the coordinate
    blocks: Counts  # pairs of each axis, in the order of columns


def split_dimensions(name: str, axes: Axes, d: int) -> tuple[list[int], int]:
    """Return the number of pairs of each axis, and the number of idle pairs.

    >>> split_dimensions("rope", Axes(order="tyx", rest="slowest"), 64)
    ([12, 10, 10], 0)
    """
    from fractions import Fraction  # slow to import and rarely needed

    weights = [Fraction(s).limit_denominator(10**6) for s in axes.share or [1] * len(axes.order)]
    parts = [w / sum(weights) / 2 for w in weights]  # pairs for each dimension
    step = lcm(*(part.denominator for part in parts))
    if d % 2 or (axes.rest == "refuse" and d % step):
        step = max(step, 2) if axes.rest == "refuse" else 2
        fits = [fit for fit in (d - d % step, d - d % step + step) if fit]
        raise PefourierError(
            f"{name} splits d into pairs for the axes {', '.join(axes.order)} and needs a "
            f"multiple of {step}, such as d={' or d='.join(map(str, fits))}; got d={d}"
        )
    counts = [int(d * part) for part in parts]
    remaining = d // 2 - sum(counts)
    if axes.rest == "slowest":
        counts[0], remaining = counts[0] + remaining, 0
    return counts, remaining


def geometric(axes: Axes, count: int, stretch: float = 1.0, trained: float = 0.0) -> Floats:
    """Geometric frequencies of `count` pairs, in radians per unit of the coordinate."""
    under = count if axes.divisor == "n" else count - 1
    if count and not under:
        raise PefourierError("divisor=n-1 needs at least two pairs per axis; use a larger d")
    base = axes.rho
    if axes.stretch_by == "yarn":
        from pefourier.encodings.families.rotary import Head, blend_by_parts  # registered later

        return blend_by_parts(Head(2 * count, base, 1.0, 1), stretch, trained)
    if axes.stretch_by == "ntk" and stretch != 1:
        if count < 2:
            raise PefourierError("stretch needs at least two pairs per axis; use a larger d")
        base = axes.rho * stretch ** (count / (count - 1))
    scale = axes.scale / stretch if axes.stretch_by == "linear" else axes.scale
    return scale * np.float64(base) ** (-np.arange(count) / max(under, 1))


def pairs_of_axes(name: str, axes: Axes, d: int) -> Pairs:
    """Return the axis and frequency of each pair."""
    counts, remaining = split_dimensions(name, axes, d)
    blocks = np.repeat(np.arange(len(counts)), counts)
    last = axes.order.find("t") if axes.frequencies == "rows-first" else -1
    # axes take turns until each has its count; the axis `last` follows all others
    places = [(axis == last, place, axis) for axis, n in enumerate(counts) for place in range(n)]
    alternating = np.array([axis for *_, axis in sorted(places)], dtype=int)
    omega = np.empty(len(blocks))  # by axis
    if axes.frequencies == "own":
        stretch = axes.stretch or [1.0] * len(counts)
        trained = axes.trained or [0.0] * len(counts)
        omega[:] = np.concatenate(
            [geometric(axes, *sizes) for sizes in zip(counts, stretch, trained, strict=True)]
        )
    else:
        arrangement = blocks if axes.frequencies == "sections" else alternating
        omega[:] = geometric(axes, len(blocks))[np.argsort(arrangement, kind="stable")]
    if axes.arrange == "alternate":
        omega, blocks = omega[np.argsort(np.argsort(alternating, kind="stable"))], alternating
    idle = (remaining * (axes.rest == "front"), remaining * (axes.rest == "back"))
    sizes = [idle[0], *counts, idle[1]]
    return Pairs(np.pad(blocks, idle), np.pad(omega, idle), tuple(n for n in sizes if n))


def coordinate(axes: Axes, place: int, side: int, across: list[int]) -> AxisLine:
    """Coordinate of an axis as a linear function of the index of a point."""
    if axes.normalise != "own" and across:
        side = (max if axes.normalise == "max" else min)(across)
    points = axes.reference[place] if axes.reference else side
    if axes.coordinates in LINES:
        slope, start = LINES[axes.coordinates](points)
    elif axes.coordinates == "index":
        slope, start = points / side, 0.0
    else:  # signed, diagonal
        is_signed = axes.coordinates == "signed"
        middle = side - side // 2 if is_signed else (side - 1) // 2
        slope = 1.0 if is_signed or not axes.stretch else 1 / axes.stretch[place]
        start = 0.0 if axes.order[place] == "t" else -slope * middle
    return slope, start + slope * axes.offset


def phase_measure(axes: Axes, pairs: Pairs, domain: Domain) -> Measure:
    """Measure with frequencies (m, axes) in radians per step, or (m,) on one axis, and offsets."""
    letters = axis_letters(len(domain.sides))
    side = dict(zip(letters, domain.sides, strict=True))
    across = [side[letter] for letter in "yx" if letter in side]
    frequencies = np.zeros((len(pairs.omega), len(letters)))
    offset = np.zeros(len(letters))
    for place, letter in enumerate(axes.order):
        slope, start = coordinate(axes, place, side.get(letter, 1), across)
        on_axis = pairs.axis == place
        if letter in side:
            frequencies[on_axis, letters.index(letter)] = slope * pairs.omega[on_axis]
            offset[letters.index(letter)] = start / slope
        elif start and on_axis.any():
            raise PefourierError(
                f"axis {letter} of order={axes.order} has the coordinate {start:g}, but the grid "
                f"does not have this axis; pass --grid with {len(axes.order)} sides"
            )
    if axes.coordinates == "diagonal" and "t" in side:
        frame = axes.order.index("t")
        slope, _ = coordinate(axes, frame, side["t"], across)
        frequencies[pairs.axis != frame, 0] = slope * pairs.omega[pairs.axis != frame]
    if len(letters) == 1:
        return equal_pairs(frequencies[:, 0], offset=float(offset[0]))
    return equal_pairs(frequencies, offset=offset)


def encoding_on_axes(
    name: str, domain: Domain, d: int, axes: Axes, first: Wave, **facts: Any
) -> Encoding:
    """Encode the points of a grid by sines and cosines; `first` is the first column of a pair."""
    axes = axes.resolved(domain.sides)
    pairs = pairs_of_axes(name, axes, d)
    measure = phase_measure(axes, pairs, domain)
    places = ROWS[axes.rows if domain.grid else "raster"]
    if places is through_blocks:
        check_blocks(domain.sides)
    vectors = wave_vectors(
        name,
        domain,
        measure,
        columns=columns_of_blocks(axes.layout, pairs.blocks),
        first=first,
        rotates=first == "cos",
        places=places,
    )
    noted = {"length": len(domain), "order": axes.order, "grid": domain.grid}
    remarks = (finding("not-a-rotation", "axes"),) if axes.layout == "mismatched" else ()
    facts |= {"measure": measure if places is Domain.places else NO_WAVES}
    return Encoding(name, domain, d, vectors, params=noted, findings=remarks, **facts)


def wave_vectors(
    name: str,
    domain: Domain,
    measure: Measure,
    *,
    columns: Columns,
    first: Wave = "cos",
    rotates: bool = True,
    places: Coordinates = Domain.places,
) -> Callable[[Array], Floats]:
    """Return the function from points to vectors: cosines and sines in their columns.

    Rows before the grid are zero or, if `rotates`, have phase 0 (for rotary encodings).
    """
    d = 2 * len(measure)
    columns_a, columns_b = columns
    blank = np.zeros(d)
    blank[columns_a if first == "cos" else columns_b] = float(rotates)

    def vectors(x: Array) -> Floats:
        x = np.asarray(x)
        check_points(name, domain, x)
        table = np.tile(blank, (len(x), 1))
        inside = x >= domain.prefix if domain.prefix else np.ones(len(x), dtype=bool)
        phases = measure.phases(places(domain, x[inside]))
        for where, function in zip((columns_a, columns_b), WAVES[first], strict=True):
            table[np.ix_(inside, where)] = function(phases)
        return table

    return vectors


def through_blocks(domain: Domain, x: Places, side: int = 2) -> Places:
    """Coordinates of rows that run through blocks of side x side points.

    >>> from pefourier.encodings.encoding import lattice
    >>> through_blocks(lattice((2, 4)), np.arange(5)).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1], [0, 2]]
    """
    *frames, height, width = domain.sides
    shape = (*frames, height // side, width // side, side, side)
    *outer, row, column, down, right = np.unravel_index(x - domain.prefix, shape)
    return np.stack([*outer, side * row + down, side * column + right], axis=-1)


def rows_of_blocks(sides: Counts, side: int = 2) -> Places:
    """Row in raster order of each row of a table that runs through blocks of points."""
    check_blocks(sides, side)
    places = through_blocks(lattice(sides), np.arange(prod(sides)), side)
    return np.asarray(np.ravel_multi_index(tuple(places.T), sides))


def check_blocks(sides: Counts, side: int = 2) -> None:
    """Refuse a grid that blocks of side x side points do not fill."""
    if len(sides) < 2 or sides[-1] % side or sides[-2] % side:
        fit = "x".join(map(str, [*sides[:-2], *(n + -n % side for n in ((1, *sides)[-2:]))]))
        raise PefourierError(
            f"blocks of {side}x{side} points need multiples of {side} as numbers of rows and "
            f"columns, such as {fit}; got {'x'.join(map(str, sides))}"
        )


ROWS: dict[str, Coordinates] = {
    "raster": Domain.places,
    "transposed": lambda domain, x: np.stack(  # as on a transposed grid
        np.unravel_index(x - domain.prefix, domain.sides, order="F"), axis=-1
    ),
    "blocks": through_blocks,
}


def check_points(name: str, domain: Domain, x: Array) -> None:
    """Refuse points that are not on the grid; a single axis without a grid is unlimited."""
    if domain.grid:
        sides = "x".join(map(str, domain.grid))
        check_inside(x, len(domain), "point", f"the points of {name} on a grid of {sides}")


def taking_axes(**defaults: Any) -> Callable[[Build], Build]:
    """Replace ``**settings`` of a builder by the parameters of `Axes`, and document them."""

    def extend(function: Build) -> Build:
        with_parameters(
            function,
            (
                p.replace(kind=p.KEYWORD_ONLY, default=defaults.get(key, p.default))
                for key, p in inspect.signature(Axes).parameters.items()
            ),
        )
        meanings = (inspect.getdoc(Axes) or "").partition("----------\n")[2]
        function.__doc__ = (inspect.getdoc(function) or "").replace("<axes>", meanings.strip())
        return function

    return extend


@encoding("axial", "He et al., 2022 (MAE); Carion et al., 2020 (DETR)")
@taking_axes()
def axial(length: int, d: int, *, grid: Counts = (), prefix: int = 0, **settings: Any) -> Encoding:
    """Sines and cosines of each axis of a grid, in separate columns.

    Columns are sin(ω_i u), cos(ω_i u) with ω_i = ρ^(−i/n) for i = 0 … n - 1 and the coordinate u of
    one axis. Inner products are a function of the distance in rows plus a function of the distance
    in columns. By default, the columns of y precede those of x, as in transformers 5; the tables of
    MAE and DETR are convention=mae and convention=detr.

    Parameters
    ----------
    grid : tuple of int
        Sides, slowest axis first: 14x14, or 8x30x52 with frames; one axis by default.
    prefix : int
        Rows of zeros before the grid (class and register tokens).
    <axes>

    Examples
    --------
    >>> axial(4, 4, grid=(2, 2)).table().round(3)
    array([[0.   , 1.   , 0.   , 1.   ],
           [0.   , 1.   , 0.841, 0.54 ],
           [0.841, 0.54 , 0.   , 1.   ],
           [0.841, 0.54 , 0.841, 0.54 ]])
    """
    return encoding_on_axes("axial", grid_of(length, grid, prefix), d, Axes(**settings), "sin")


@encoding("axial-rope", "Heo et al., 2024 (RoPE-ViT); Fang et al., 2023 (EVA-02)")
@taking_axes(layout="halves")
def axial_rope(
    length: int, d: int, *, grid: Counts = (), prefix: int = 0, **settings: Any
) -> Encoding:
    """Rotation by the axes of a grid: one axis rotates each pair of a head.

    Columns are cos(ω_i u), sin(ω_i u) with ω_i = ρ^(−i/n) for i = 0 … n - 1 and the coordinate u of
    one axis; d is the head size. The default is the convention qwen2-vl; RoPE-ViT and EVA-02 are
    convention=rope-vit and convention=eva02.

    Parameters
    ----------
    grid : tuple of int
        Sides, slowest axis first: 14x14, or 8x30x52 with frames; one axis by default.
    prefix : int
        Rows before the grid that are not rotated (class and register tokens).
    <axes>

    Examples
    --------
    >>> axial_rope(6, 4, grid=(2, 3), rho=100.0).table()[5].round(3)
    array([ 0.54 , -0.416,  0.841,  0.909])
    """
    domain = grid_of(length, grid, prefix)
    axes = Axes(**{"layout": "halves", **settings})
    return encoding_on_axes("axial-rope", domain, d, axes, "cos", injection="rotate")


@encoding("mixed-rope", "Heo et al., 2024 (RoPE-ViT, before training)", untrained=True)
def mixed_rope(
    length: int,
    d: int,
    *,
    grid: Counts = (),
    prefix: int = 0,
    heads: int = 1,
    rho: float = 10.0,
    seed: int = 0,
) -> Encoding:
    """Rotation by mixed axes: rows and columns together rotate each pair of a head.

    Columns are cos(ω_i s), sin(ω_i s) with frequency vectors ω_i of norm ρ^(−4i/d). Half of the
    frequencies of a head have one random direction, and half are perpendicular. Training changes
    them. Vectors contain the columns of all heads.

    Parameters
    ----------
    grid : tuple of int
        Sides, slowest axis first: 14x14; one row of points by default.
    prefix : int
        Rows before the grid that are not rotated (class and register tokens).
    heads : int
        Number of attention heads, each with a different direction; d is the head size.
    rho : float
        Base of the norms of the frequency vectors.
    seed : int
        Seed of the random directions; the same seed gives the same vectors on every machine.

    Examples
    --------
    >>> mixed_rope(6, 4, grid=(2, 3)).measure.frequencies.round(3)  # y, x
    array([[-0.302, -0.953],
           [-0.953,  0.302]])
    """
    domain = grid_of(length, grid, prefix)
    if len(domain.sides) > 2:
        raise PefourierError(
            f"mixed-rope needs a grid with two axes; got {size_of(domain.sides)}; pass --grid HxW"
        )
    pair_count("mixed-rope", d)
    lengths = rho ** (-4.0 * np.arange((d + 2) // 4) / d)
    angles = 2 * np.pi * stream(seed).uniform(size=heads)[:, None]
    angles = np.hstack([angles, angles + np.pi / 2])[:, :, None]  # directions of the two halves
    waves = [(lengths * wave(angles)).reshape(heads, -1) for wave in (np.sin, np.cos)]
    across = [wave[:, : d // 2].ravel() for wave in waves]  # y, x
    omega = np.stack(across, axis=-1) if not domain.is_line else across[1]
    m = len(omega)
    columns = (2 * np.arange(m), 2 * np.arange(m) + 1)
    measure = equal_pairs(omega)
    noted = {"length": len(domain), "d": 2 * m, "head": d, "heads": heads, "layout": "interleaved"}
    vectors = wave_vectors("mixed-rope", domain, measure, columns=columns)
    facts: Fields = {"injection": "rotate", "params": noted, "measure": measure}
    return Encoding("mixed-rope", domain, 2 * m, vectors, **facts)
