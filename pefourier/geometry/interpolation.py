r"""Weights that resize a column of numbers to another length, as libraries compute them.

Conventions
-----------
An (m, n) matrix maps n numbers along a line to m numbers; several axes are resized one after
another. Number i of the new line is sampled at :math:`x_i = (i + 1/2) s - 1/2` of the old line,
with s = n / m (PyTorch's ``align_corners=False``). Beyond its ends, the old line is extended with
its outermost numbers, except for antialiasing, which cuts its window there and normalises the
rest. Crops do not change numbers.
"""

from collections.abc import Callable
from functools import partial
from math import prod

import numpy as np

from pefourier.encodings.encoding import changing_columns
from pefourier.types import Counts, Floats, Ints, Table

PLAIN, SMOOTH = -0.75, -0.5  # a of torch's cubic kernel: plain, and antialiased as in PIL
Q_WITHIN = 1e-6  # tolerance of timm's bisection


def cubic(x: Floats, a: float) -> Floats:
    r"""Keys' kernel: :math:`(a+2)|x|^3 - (a+3)|x|^2 + 1` up to 1, then
    :math:`a|x|^3 - 5a|x|^2 + 8a|x| - 4a` up to 2.

    >>> cubic(np.array([0.0, 0.5, 1.5, 2.0]), -0.5)
    array([ 1.    ,  0.5625, -0.0625,  0.    ])
    """
    x = np.abs(x)
    inner = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, inner, np.where(x < 2, far, 0.0))


def bicubic_weights(n: int, m: int, offset: float = 0.0, a: float = PLAIN) -> Floats:
    """Return bicubic weights, scale factor (m + offset) / n: four neighbours, by default as torch.

    >>> (bicubic_weights(4, 6) @ np.arange(4.0)).round(4)
    array([-0.0868,  0.4062,  1.213 ,  1.787 ,  2.5938,  3.0868])
    """
    places = (np.arange(m) + 0.5) * n / (m + offset) - 0.5
    weights = np.zeros((m, n))
    for k in range(-1, 3):
        place = np.floor(places) + k
        column = np.clip(place, 0, n - 1).astype(int)
        np.add.at(weights, (np.arange(m), column), cubic(places - place, a))
    return weights


def triangle(x: Floats) -> Floats:
    """Return 1 - |x| up to 1."""
    sides: Floats = 1 - np.abs(x)
    return np.maximum(sides, 0.0)


def antialias_weights(n: int, m: int, kernel: Callable[[Floats], Floats], support: int) -> Floats:
    """Return torch's antialiased weights, of a kernel widened by s if the line gets shorter.

    >>> (WEIGHTS["antialias"](4, 6) @ np.arange(4.0)).round(4)
    array([-0.0658,  0.4118,  1.1667,  1.8333,  2.5882,  3.0658])
    """
    step = n / m
    wide = max(step, 1.0)
    centre = (np.arange(m)[:, None] + 0.5) * step
    column = np.arange(n)
    first = np.maximum(np.floor(centre - support * wide + 0.5), 0)
    last = np.minimum(np.floor(centre + support * wide + 0.5), n)
    weights = kernel((column - centre + 0.5) / wide)
    weights = np.where((column >= first) & (column < last), weights, 0.0)
    weights /= weights.sum(axis=1, keepdims=True)
    return weights


def linear_weights(n: int, m: int) -> Floats:
    """Return torch's bilinear weights: two neighbours.

    >>> linear_weights(2, 3) @ np.array([0.0, 1.0])
    array([0. , 0.5, 1. ])
    """
    return linear_between(np.arange(n, dtype=float), (np.arange(m) + 0.5) * n / m - 0.5)


def aligned_weights(n: int, m: int) -> Floats:
    """Return torch's bilinear weights with align_corners=True: both lines have the same ends.

    >>> aligned_weights(3, 5) @ np.array([0.0, 1.0, 4.0])
    array([0. , 0.5, 1. , 2.5, 4. ])
    """
    return linear_between(np.arange(n, dtype=float), np.linspace(0, n - 1, m))


def linear_between(old: Floats, new: Table) -> Floats:
    """Return weights that interpolate ascending places linearly, constant beyond the ends."""
    return np.stack([np.interp(new, old, column) for column in np.eye(len(old))], axis=1)


def fourier_weights(n: int, m: int) -> Floats:
    r"""Return weights that pad the spectrum with zeros, or drop its highest frequencies.

    The basis is :math:`\cos(\pi k (x + 1/2) / n)`, k = 0 … n - 1 (DCT-II), which mirrors the line
    at its ends; a periodic basis would jump there. Components below min(n, m) are resized exactly:
    lengthening a line and shortening it again restores it.

    >>> (fourier_weights(4, 6) @ np.arange(4.0)).round(4)
    array([-0.1027,  0.464 ,  1.1711,  1.8289,  2.536 ,  3.1027])
    """
    k = np.arange(min(n, m))
    old, new = (np.cos(np.pi * np.outer(np.arange(size) + 0.5, k) / size) for size in (n, m))
    weights: Floats = new @ (old * np.where(k, 2 / n, 1 / n)).T
    return weights


def geometric_weights(n: int, m: int) -> Floats:
    r"""Return timm's weights for relative-position biases: linear between geometric lags.

    Lag k of the old window is at :math:`1 + q + \dots + q^{k-1}` in the new window; timm bisects
    1.01 to 1.5 for the q that maps the last old lag to the last new lag.

    >>> (geometric_weights(5, 7) @ np.arange(5.0)).round(4)
    array([0.    , 0.3333, 1.    , 2.    , 3.    , 3.6667, 4.    ])
    """
    low, high = 1.01, 1.5
    while high - low > Q_WITHIN:
        q = (low + high) / 2
        low, high = (low, q) if (1 - q ** (n // 2)) / (1 - q) > m // 2 else (q, high)
    lags = np.cumsum(q ** np.arange(n // 2))
    return linear_between(np.concatenate([-lags[::-1], [0.0], lags]), np.arange(m) - m // 2.0)


WEIGHTS: dict[str, Callable[[int, int], Floats]] = {
    "bicubic": bicubic_weights,
    "bilinear": linear_weights,
    "antialias": partial(antialias_weights, kernel=partial(cubic, a=SMOOTH), support=2),
    "fourier": fourier_weights,
    "align-corners": aligned_weights,
    "triangle": partial(antialias_weights, kernel=triangle, support=1),
    "keys": partial(bicubic_weights, a=SMOOTH),
    "dinov2": partial(bicubic_weights, offset=0.1),
    "geometric": geometric_weights,
}
EVERY_AXIS = ("dinov2", "geometric")  # these resample every side, also one of unchanged length
METHODS = (*WEIGHTS, "center-crop", "crop")


def first_of_crop(method: str, old: Ints, new: Ints, first: Ints = ()) -> Counts | None:
    """Return the first point of a crop: as given, or of a centre crop (diffusers, SD3).

    >>> first_of_crop("center-crop", (96, 96), (64, 49)), first_of_crop("bicubic", (3,), (4,))
    ((16, 23), None)
    """
    if method == "crop":
        return tuple(first) or (0,) * len(old)
    middle = tuple((n - m) // 2 for n, m in zip(old, new, strict=True))
    return middle if method == "center-crop" else None


def why_not(method: str, old: Ints, new: Ints, first: Ints = ()) -> str:
    """Return why a method cannot resize one lattice to another; empty if it can.

    >>> why_not("geometric", (5, 4), (9, 9)), why_not("dinov2", (5, 4), (9, 9))
    ('is for biases of a window, with odd sides of displacements', '')
    """
    if method == "geometric" and not all(side % 2 for side in (*old, *new)):
        return "is for biases of a window, with odd sides of displacements"
    starts = first_of_crop(method, old, new, first)
    if starts and not all(0 <= a <= n - m for a, n, m in zip(starts, old, new, strict=True)):
        return "needs the new grid within the old one"
    return ""


def resize_lattice(
    table: Table,
    old: Ints,
    new: Ints,
    method: str,
    first: Ints = (),
) -> Floats:
    """Resize the rows (n, d) of one lattice to another, axis by axis; a crop begins at `first`.

    Most methods do not change a side of unchanged length.

    >>> resize_lattice(np.arange(4.0)[:, None], (2, 2), (1, 2), "bilinear").ravel()
    array([1., 2.])
    """
    values = table.astype(float).reshape(*old, -1)
    if starts := first_of_crop(method, old, new, first):
        cut = tuple(slice(start, start + m) for start, m in zip(starts, new, strict=True))
        return values[cut].reshape(-1, values.shape[-1])
    changes = [changing_columns(values, axis) for axis in range(len(old))]
    for axis, (n, m, changing) in enumerate(zip(old, new, changes, strict=True)):
        if n != m or (method in EVERY_AXIS and tuple(old) != tuple(new)):
            before, after = values.shape[:axis], values.shape[axis + 1 : -1]
            moving = values if changing.all() else values[..., changing]
            resized = WEIGHTS[method](n, m) @ moving.reshape(prod(before), n, -1)
            values = np.take(values, [0] * m, axis)  # constant columns stay exact
            values[..., changing] = resized.reshape(*before, m, *after, -1)
    return values.reshape(-1, values.shape[-1])


def recovered_sides(points: Floats, like: tuple[Floats, Ints] | None = None) -> tuple[int, int]:
    """Return the height and width for which rows (n, d) are most like their neighbours.

    With a table and its sides in `like`, they are those to which that table must be resized
    (bilinear) to be most like the rows.

    >>> recovered_sides(np.indices((4, 6)).reshape(2, -1).T.astype(float))
    (4, 6)
    """
    n = len(points)
    sides = [(h, n // h) for h in range(2, n // 2 + 1) if n % h == 0]

    def distance(shape: tuple[int, int]) -> float:
        if like:
            return float(np.abs(resize_lattice(*like, shape, "bilinear") - points).mean())
        grid = points.reshape(*shape, -1)
        return sum(float((np.diff(grid, axis=axis) ** 2).mean()) for axis in (0, 1))

    return min(sides, key=distance, default=(1, n))
