"""A mark A and a mark B on a grid: is A left of B, whatever their rows?"""

import numpy as np

from pefourier.errors import PefourierError
from pefourier.train.data.split import MOST_ROWS
from pefourier.train.data.synthetic import Examples


def grid(
    *,
    count: int = 1000,
    height: int = 5,
    width: int = 7,
    gap: int = 1,
    noise: float = 0.1,
    seed: int = 0,
) -> Examples:
    """Channel 0 has mark A, channel 1 mark B, `gap` columns apart or more, in rows drawn at random.

    Points are rows of an example in raster order. The place of a point in the sequence tells its
    column only modulo the width: codes of one axis have to learn that, codes of two say it.
    """
    if height < 1 or not 0 < gap < width or count * height * width > MOST_ROWS:
        raise PefourierError(
            "grid needs height of at least 1, 0 < gap < width, and count times height times width "
            f"of at most {MOST_ROWS}; got height={height}, width={width}, gap={gap}, count={count}"
        )
    rng = np.random.default_rng(seed)
    right = rng.permutation(np.arange(count) % 2)
    columns = np.sort(draw_columns(rng, count, width, gap), axis=1)
    rows = rng.integers(0, height, (count, 2))
    first, second = (rows[:, i] * width + columns[:, i] for i in (0, 1))
    x = rng.normal(0.0, noise, (count, height * width, 2))
    x[np.arange(count), first, right] += 1.0
    x[np.arange(count), second, 1 - right] += 1.0
    return x, right, ("A left of B", "B left of A")


def draw_columns(rng: np.random.Generator, count: int, width: int, gap: int) -> np.ndarray:
    """Two columns an example that are `gap` or more apart, all such pairs equally likely."""
    pairs = np.argwhere(np.subtract.outer(np.arange(width), np.arange(width)) <= -gap)
    return pairs[rng.integers(0, len(pairs), count)]
