"""Resizing of columns of numbers to another length, as libraries compute it.

Conventions
-----------
A line of n numbers becomes one of m numbers; several axes are resized one after another. Number i
of the new line is sampled at :math:`x_i = (i + 1/2) s - 1/2` of the old line, with s = n / m
(PyTorch's ``align_corners=False``). Beyond its ends, the old line is extended with its outermost
numbers, except for antialiasing, which cuts its window there and normalises the rest. `Taps` are
the indices (m, k) of the old numbers in each new number, and their weights (m, k). Crops do not
change numbers.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from pefourier.encodings.encoding import changing_columns
from pefourier.types import Counts, Floats, Ints, Places, Table

Taps = tuple[Places, Floats]
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


def bicubic_taps(n: int, m: int, offset: float = 0.0) -> Taps:
    """Return the taps of torch's bicubic method, by a scale factor of (m + offset) / n.

    >>> weighted(np.arange(4.0)[:, None], *bicubic_taps(4, 6)).ravel().round(4)
    array([-0.0868,  0.4062,  1.213 ,  1.787 ,  2.5938,  3.0868])
    """
    places = ((np.arange(m) + 0.5) * n / (m + offset) - 0.5)[:, None]
    index = np.floor(places) + np.arange(-1, 3)
    return np.clip(index, 0, n - 1).astype(np.int64), cubic(places - index, PLAIN)


def antialias_taps(n: int, m: int) -> Taps:
    """Return the taps of torch's antialiased bicubic method, widened if the line gets shorter.

    >>> weighted(np.arange(4.0)[:, None], *antialias_taps(4, 6)).ravel().round(4)
    array([-0.0658,  0.4118,  1.1667,  1.8333,  2.5882,  3.0658])
    """
    step = n / m
    wide = max(step, 1.0)
    centre = (np.arange(m)[:, None] + 0.5) * step
    first = np.maximum(np.floor(centre - 2 * wide + 0.5), 0)
    last = np.minimum(np.floor(centre + 2 * wide + 0.5), n)
    index = first + np.arange((last - first).max())
    weights = np.where(index < last, cubic((index - centre + 0.5) / wide, SMOOTH), 0.0)
    return np.minimum(index, n - 1).astype(np.int64), weights / weights.sum(axis=1, keepdims=True)


def linear_taps(n: int, m: int) -> Taps:
    """Return the taps of torch's bilinear method: two neighbours.

    >>> weighted(np.array([[0.0], [1.0]]), *linear_taps(2, 3)).ravel()
    array([0. , 0.5, 1. ])
    """
    return taps_between(np.arange(n, dtype=float), (np.arange(m) + 0.5) * n / m - 0.5)


def aligned_taps(n: int, m: int) -> Taps:
    """Return the taps of torch's bilinear method with align_corners=True: lines with equal ends.

    >>> weighted(np.array([[0.0], [1.0], [4.0]]), *aligned_taps(3, 5)).ravel()
    array([0. , 0.5, 1. , 2.5, 4. ])
    """
    return taps_between(np.arange(n, dtype=float), np.linspace(0, n - 1, m))


def taps_between(old: Floats, new: Table) -> Taps:
    """Return taps that interpolate ascending places linearly, constant beyond the ends."""
    right = np.clip(np.searchsorted(old, new, "right"), min(len(old) - 1, 1), len(old) - 1)
    left = np.maximum(right - 1, 0)
    width = np.where(right > left, old[right] - old[left], 1.0)
    share = np.clip((new - old[left]) / width, 0.0, 1.0)
    return np.stack([left, right], axis=1), np.stack([1 - share, share], axis=1)


def geometric_taps(n: int, m: int) -> Taps:
    r"""Return timm's taps for relative-position biases: linear between geometric lags.

    Lag k of the old window is at :math:`1 + q + \dots + q^{k-1}` in the new window; timm bisects
    1.01 to 1.5 for the q that maps the last old lag to the last new lag.

    >>> weighted(np.arange(5.0)[:, None], *geometric_taps(5, 7)).ravel().round(4)
    array([0.    , 0.3333, 1.    , 2.    , 3.    , 3.6667, 4.    ])
    """
    low, high = 1.01, 1.5
    while high - low > Q_WITHIN:
        q = (low + high) / 2
        low, high = (low, q) if (1 - q ** (n // 2)) / (1 - q) > m // 2 else (q, high)
    lags = np.cumsum(q ** np.arange(n // 2))
    return taps_between(np.concatenate([-lags[::-1], [0.0], lags]), np.arange(m) - m // 2.0)


def weighted(line: Floats, index: Places, weights: Floats) -> Floats:
    """Return the weighted sums (m, d) of the rows of a line (n, d)."""
    total = np.zeros((len(index), line.shape[1]))
    for column, weight in zip(index.T, weights.T, strict=True):
        total += weight[:, None] * line[column]
    return total


def fourier(line: Floats, m: int) -> Floats:
    r"""Pad the spectrum of a line (n, d) with zeros, or drop its highest frequencies.

    The basis is :math:`\cos(\pi k (x + 1/2) / n)`, k = 0 … n - 1 (DCT-II), which mirrors the line
    at its ends; a periodic basis would jump there. Components below min(n, m) are resized exactly:
    lengthening a line and shortening it again restores it.

    >>> fourier(np.arange(4.0)[:, None], 6).ravel().round(4)
    array([-0.1027,  0.464 ,  1.1711,  1.8289,  2.536 ,  3.1027])
    """
    from scipy.fft import dct, idct  # slow import, rarely needed

    waves = dct(line, axis=0, norm="ortho")[:m]
    resized: Floats = idct(waves, n=m, axis=0, norm="ortho", overwrite_x=True)
    resized *= np.sqrt(m / len(line))
    return resized


TAPS: dict[str, Callable[[int, int], Taps]] = {
    "bicubic": bicubic_taps,
    "bilinear": linear_taps,
    "antialias": antialias_taps,
    "align-corners": aligned_taps,
    "dinov2": partial(bicubic_taps, offset=0.1),
    "geometric": geometric_taps,
}
WEIGHTS = ("bicubic", "bilinear", "antialias", "fourier", "align-corners", "dinov2", "geometric")
EVERY_AXIS = ("dinov2", "geometric")  # these resample every side, also one of unchanged length
METHODS = (*WEIGHTS, "center-crop")


def first_of_crop(method: str, old: Ints, new: Ints) -> Counts | None:
    """Return the first point of a centre crop (diffusers, SD3); None for other methods.

    >>> first_of_crop("center-crop", (96, 96), (64, 49)), first_of_crop("bicubic", (3,), (4,))
    ((16, 23), None)
    """
    middle = tuple((n - m) // 2 for n, m in zip(old, new, strict=True))
    return middle if method == "center-crop" else None


def why_not(method: str, old: Ints, new: Ints) -> str:
    """Return why a method cannot resize one lattice to another; empty if it can.

    >>> why_not("geometric", (5, 4), (9, 9)), why_not("dinov2", (5, 4), (9, 9))
    ('is for biases of a window, with odd sides of displacements', '')
    """
    if method == "geometric" and not all(side % 2 for side in (*old, *new)):
        return "is for biases of a window, with odd sides of displacements"
    if method == "center-crop" and any(m > n for n, m in zip(old, new, strict=True)):
        return "needs the new grid within the old one"
    return ""


def resize_lattice(table: Table, old: Ints, new: Ints, method: str) -> Floats:
    """Resize the rows (n, d) of one lattice to another, axis by axis.

    Most methods do not change a side of unchanged length.

    >>> resize_lattice(np.arange(4.0)[:, None], (2, 2), (1, 2), "bilinear").ravel()
    array([1., 2.])
    """
    values = table.astype(float).reshape(*old, -1)
    if starts := first_of_crop(method, old, new):
        cut = tuple(slice(start, start + m) for start, m in zip(starts, new, strict=True))
        return values[cut].reshape(-1, values.shape[-1])
    constant = [~changing_columns(values, axis) for axis in range(len(old))]
    for axis, (n, m, still) in enumerate(zip(old, new, constant, strict=True)):
        if n != m or (method in EVERY_AXIS and tuple(old) != tuple(new)):
            lines = np.moveaxis(values, axis, 0)
            line = lines.reshape(n, -1)
            is_smooth = method == "fourier"
            resized = fourier(line, m) if is_smooth else weighted(line, *TAPS[method](n, m))
            resized = resized.reshape(m, *lines.shape[1:])
            resized[..., still] = lines[:1][..., still]  # constant columns stay exact
            values = np.moveaxis(resized, 0, axis)
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
