"""Encodings of points on several axes: each pair of columns depends on one axis, or on all.

axial (sines and cosines added to the input) and axial-rope (a rotation) have the parameters of
`Axes`, which cover the conventions of published models; `convention` sets all of the parameters by
name. mixed-rope rotates each pair by a frequency vector (Heo et al., 2024).
"""

from typing import Any

import numpy as np

from pefourier.encodings.encoding import Encoding, equal_pairs
from pefourier.encodings.families.absolute import stream
from pefourier.encodings.families.axes import Axes, encoding_on_axes, taking_axes, wave_vectors
from pefourier.encodings.families.fourier import pair_count
from pefourier.encodings.grids import grid_of, size_of
from pefourier.encodings.registry import encoding
from pefourier.errors import PefourierError, check_above, check_count
from pefourier.types import Counts, Fields


@encoding("axial", "He et al., 2022 (MAE); Carion et al., 2020 (DETR)", declared=True)
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


@encoding("axial-rope", "Heo et al., 2024 (RoPE-ViT); Fang et al., 2023 (EVA-02)", declared=True)
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


@encoding(
    "mixed-rope", "Heo et al., 2024 (RoPE-ViT, before training)", declared=True, untrained=True
)
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
    check_count("heads", heads)
    domain = grid_of(length, grid, prefix)
    if len(domain.sides) > 2:
        raise PefourierError(
            f"mixed-rope needs a grid with two axes; got {size_of(domain.sides)}; pass --grid HxW"
        )
    pair_count("mixed-rope", d)
    check_above("rho", rho)
    lengths = rho ** (-4.0 * np.arange((d + 2) // 4) / d)
    angles = 2 * np.pi * stream(seed).uniform(size=heads)[:, None]
    angles = np.hstack([angles, angles + np.pi / 2])[:, :, None]  # directions of the two halves
    waves = [(lengths * wave(angles)).reshape(heads, -1) for wave in (np.sin, np.cos)]
    across = [wave[:, : d // 2].ravel() for wave in waves]  # y, x
    omega = np.stack(across, axis=-1) if len(domain.sides) > 1 else across[1]
    m = len(omega)
    columns = (2 * np.arange(m), 2 * np.arange(m) + 1)
    measure = equal_pairs(omega)
    noted = {"length": len(domain), "d": 2 * m, "head": d, "heads": heads, "layout": "interleaved"}
    vectors = wave_vectors("mixed-rope", domain, measure, columns=columns)
    facts: Fields = {"injection": "rotate", "params": noted, "measure": measure}
    return Encoding("mixed-rope", domain, 2 * m, vectors, **facts)
