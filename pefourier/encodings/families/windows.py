"""Biases of displacements on a grid: what attention in windows of an image adds to its logits.

swin has a free number for each displacement and head, beit three more for its class token, swin2 a
small network of log-spaced displacements. d is the number of heads. Codes belong to displacements
key - query, (2H - 1)(2W - 1) of them in raster order; the authors' tables run the other way round.
"""

from collections.abc import Callable
from functools import cache

import numpy as np

from pefourier.encodings.checks import check_above, check_count, check_size
from pefourier.encodings.domain import Domain, lags_between, lags_on
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.families.absolute import stream
from pefourier.encodings.families.axes import check_points
from pefourier.encodings.grids import check_sides
from pefourier.encodings.registry import encoding
from pefourier.errors import PefourierError

HIDDEN = 512  # width of SwinV2's network
BEIT_ROWS = 3  # class to token, token to class, class to class


def lags_of_window(length: int, grid: tuple[int, ...]) -> Domain:
    """Displacements within a window: of a grid where one is given, else of one axis."""
    check_sides("a window", grid, 0, length if grid else None)
    return lags_on(grid) if grid else lags_between(length)


def toward_query(domain: Domain, x: np.ndarray) -> np.ndarray:
    """Displacements query - key of points, (n, axes): the sign that the authors take."""
    return -domain.places(x).reshape(len(x), len(domain.sides))


def free_biases(name: str, domain: Domain, d: int, scale: float, seed: int) -> Encoding:
    """Numbers of a table that runs through displacements query - key, others behind."""
    check_above("scale", scale)
    check_size(name, len(domain), d)
    prefix = domain.prefix

    @cache  # all codes are drawn at once
    def bias() -> np.ndarray:
        return stream(seed).normal(0.0, scale, (len(domain), d))

    def codes(x: np.ndarray) -> np.ndarray:
        x = np.asarray(x)
        check_points(name, domain, x)
        table, row = bias(), np.empty(len(x), dtype=int)
        inside = x >= prefix if domain.grid else np.ones(len(x), dtype=bool)
        row[~inside] = len(domain) - prefix + x[~inside]
        places = toward_query(domain, x[inside]) + np.array(domain.sides) // 2
        row[inside] = np.ravel_multi_index(tuple(places.T), domain.sides)
        return table[row]

    return Encoding(name, domain, d, codes, act="bias")


@encoding("swin", "Liu et al., 2021 (before training)", domain="lag", untrained=True)
def swin(
    length: int, d: int, *, grid: tuple[int, ...] = (), scale: float = 0.02, seed: int = 0
) -> Encoding:
    """One free scalar for each displacement in a window and each of d heads (Swin Transformer).

    The row of a table is (dy + H − 1)(2W − 1) + dx + W − 1 with the displacement (dy, dx) from key
    to query. Biases start normal with standard deviation `scale`.

    Parameters
    ----------
    grid : tuple of int
        Sides of the window, such as 7x7; one axis by default.
    scale : float
        Standard deviation of the numbers that training starts from.
    seed : int
        Seed of the random numbers; the same one gives the same codes on every machine.

    Examples
    --------
    >>> swin(49, 3, grid=(7, 7)).table().shape
    (169, 3)
    """
    return free_biases("swin", lags_of_window(length, grid), d, scale, seed)


@encoding("beit", "Bao et al., 2022 (before training)", domain="lag", untrained=True)
def beit(
    length: int, d: int, *, grid: tuple[int, ...] = (), scale: float = 0.02, seed: int = 0
) -> Encoding:
    r"""Swin's biases over the whole image, and three for the class token (BEiT).

    Three rows come first that belong to no displacement: from the class token to others, from
    others to it, and to itself; in the authors' table they are the last. Training starts from
    zeros, where all are alike; here they are normal with standard deviation `scale`.

    Parameters
    ----------
    grid : tuple of int
        Sides of the image in patches, such as 14x14; one axis by default.
    scale : float
        Standard deviation of the numbers that training starts from.
    seed : int
        Seed of the random numbers; the same one gives the same codes on every machine.

    Examples
    --------
    >>> beit(196, 12, grid=(14, 14)).table().shape
    (732, 12)
    """
    check_sides("a window", grid, 0, length if grid else None)
    domain = lags_on(grid or (length,), prefix=BEIT_ROWS)
    return free_biases("beit", domain, d, scale, seed)


def log_spaced(lags: np.ndarray, sides: np.ndarray) -> np.ndarray:
    """SwinV2's input: sign(u) log2(1 + |u|) / 3 with u = 8 lag / (side - 1), 0 on a side of one.

    >>> log_spaced(np.array([[-6, 3]]), np.array([7, 7])).round(7)
    array([[-1.0566417,  0.773976 ]])
    """
    u = 8.0 * lags / np.maximum(np.asarray(sides) - 1, 1)
    return np.sign(u) * np.log2(1 + np.abs(u)) / 3


def swin2_bias(
    coordinates: np.ndarray, weights: np.ndarray, shifts: np.ndarray, heads: np.ndarray
) -> np.ndarray:
    """16 sigmoid(relu(c W + b) V), (n, heads): W (axes, hidden), b (hidden,), V (hidden, heads)."""
    hidden = np.maximum(coordinates @ weights + shifts, 0.0)
    with np.errstate(over="ignore"):  # the bias is then 0, as it is in the limit
        return 16 / (1 + np.exp(-(hidden @ heads)))


def of_network(
    domain: Domain, sides: np.ndarray, d: int, network: Callable[[], tuple[np.ndarray, ...]]
) -> Encoding:
    """SwinV2's biases out of a network's W, b and V; those of another window are its, too."""

    def codes(x: np.ndarray) -> np.ndarray:
        x = np.asarray(x)
        check_points("swin2", domain, x)
        return swin2_bias(log_spaced(toward_query(domain, x), sides), *network())

    def anew(window: tuple[int, ...]) -> Encoding:
        return of_network(lags_on(window), sides, d, network)

    return Encoding("swin2", domain, d, codes, act="bias", anew=anew)


@encoding(
    "swin2", "Liu et al., 2022 (Swin Transformer V2, before training)", domain="lag", untrained=True
)
def swin2(
    length: int,
    d: int,
    *,
    grid: tuple[int, ...] = (),
    pretrained: tuple[int, ...] = (),
    scale: float = 0.02,
    seed: int = 0,
) -> Encoding:
    """Continuous biases (Swin Transformer V2): 16 sigmoid of a network of log-spaced displacements.

    Its input is sign(u) log2(1 + |u|) / 3 with u = 8 (query - key) / (H - 1) on
    each axis, its hidden layer has 512 units. Weights start normal with standard deviation `scale`,
    shifts at zero.

    Parameters
    ----------
    grid : tuple of int
        Sides of the window, such as 8x8; one axis by default.
    pretrained : tuple of int
        Sides of the window in pretraining, which displacements are divided by; by default `grid`.
    scale : float
        Standard deviation of the weights that training starts from.
    seed : int
        Seed of the random numbers; the same one gives the same codes on every machine.

    Examples
    --------
    >>> swin2(64, 3, grid=(8, 8)).table().shape
    (225, 3)
    """
    check_above("scale", scale)
    check_size("swin2", HIDDEN, d)
    domain = lags_of_window(length, grid)
    sides = np.array(pretrained or grid or (length,))
    for side in sides.tolist():
        check_count("a side of pretrained", side)
    if len(sides) != len(domain.sides):
        raise PefourierError(
            f"pretrained needs a side for each of the {len(domain.sides)} axes; got {len(sides)}"
        )

    @cache  # every code needs all of them
    def network() -> tuple[np.ndarray, ...]:
        draw = stream(seed).normal
        weights = draw(0.0, scale, (len(sides), HIDDEN))
        return weights, np.zeros(HIDDEN), draw(0.0, scale, (HIDDEN, d))

    return of_network(domain, sides, d, network)
