"""Encodings of points on several axes: each pair of columns belongs to one of them, or to all.

axial (sines and cosines added to the input), axial-rope (the same for rotation) with the parameters
of `Axes`, which span the conventions of published models; `convention` sets them all by name.
mixed-rope turns each pair by a frequency that is a vector (Heo et al., 2024).
"""

from typing import Any

from pefourier.encodings.encoding import Encoding
from pefourier.encodings.families.axes import Axes, encoding_on_axes, taking_axes
from pefourier.encodings.grids import grid_of
from pefourier.encodings.registry import encoding


@encoding("axial", "He et al., 2022 (MAE); Carion et al., 2020 (DETR)", declared=True)
@taking_axes()
def axial(
    length: int,
    d: int,
    *,
    grid: tuple[int, ...] = (),
    prefix: int = 0,
    convention: str = "",
    **given: Any,
) -> Encoding:
    r"""Sines and cosines of each axis of a grid, in columns of its own.

    Columns are :math:`\sin(\omega_i u), \cos(\omega_i u)` with :math:`\omega_i = \rho^{-i/n}` for
    i = 0 … n - 1 and the coordinate u of one axis. Inner products are a function of the rows
    apart plus one of the columns apart.

    Parameters
    ----------
    grid : tuple of int
        Sides, the slowest axis first: 14x14, or 8x30x52 for frames; one axis by default.
    prefix : int
        Rows of zeros before the grid (class and register tokens).
    convention : str
        A published model's choice of all that follows; what is given beside it wins.
    <axes>

    Examples
    --------
    >>> axial(4, 4, grid=(2, 2)).table().round(3)
    array([[0.   , 1.   , 0.   , 1.   ],
           [0.   , 1.   , 0.841, 0.54 ],
           [0.841, 0.54 , 0.   , 1.   ],
           [0.841, 0.54 , 0.841, 0.54 ]])
    """
    return encoding_on_axes("axial", grid_of(length, grid, prefix), d, Axes(**given), "sin")


@encoding("axial-rope", "Heo et al., 2024; Fang et al., 2023 (EVA-02)", declared=True)
@taking_axes(layout="halves")
def axial_rope(
    length: int,
    d: int,
    *,
    grid: tuple[int, ...] = (),
    prefix: int = 0,
    convention: str = "",
    **given: Any,
) -> Encoding:
    r"""Rotation by the axes of a grid: each pair of a head is turned by one of them.

    Columns are :math:`\cos(\omega_i u), \sin(\omega_i u)` with :math:`\omega_i = \rho^{-i/n}` for
    i = 0 … n - 1 and the coordinate u of one axis; d is the size of a head.

    Parameters
    ----------
    grid : tuple of int
        Sides, the slowest axis first: 14x14, or 8x30x52 for frames; one axis by default.
    prefix : int
        Rows before the grid that are not turned (class and register tokens).
    convention : str
        A published model's choice of all that follows; what is given beside it wins.
    <axes>

    Examples
    --------
    >>> axial_rope(6, 4, grid=(2, 3), rho=100.0).table()[5].round(3)
    array([ 0.54 , -0.416,  0.841,  0.909])
    """
    domain = grid_of(length, grid, prefix)
    return encoding_on_axes("axial-rope", domain, d, Axes(**given), "cos", act="rotate")
