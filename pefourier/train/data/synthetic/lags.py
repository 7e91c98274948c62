"""Two equal events: was the second a short or a long lag after the first?"""

import numpy as np

from pefourier.errors import PefourierError
from pefourier.train.data.synthetic import Examples


def lags(
    *,
    count: int = 1000,
    length: int = 8,
    short: int = 1,
    long: int = 4,
    noise: float = 0.1,
    seed: int = 0,
) -> Examples:
    """One channel, two equal events `short` or `long` rows apart, at a place drawn at random.

    Both classes draw the place of the first event alike, so that no position tells them apart.
    """
    if not 0 < short < long < length:
        raise PefourierError(
            f"lags needs 0 < short < long < length; got short={short}, long={long}, length={length}"
        )
    rng = np.random.default_rng(seed)
    far = rng.permutation(np.arange(count) % 2)
    first = rng.integers(0, length, count)
    second = (first + np.where(far, long, short)) % length  # a ring: every row is as likely
    x = rng.normal(0.0, noise, (count, length, 1))
    x[np.arange(count), first, 0] += 1.0
    x[np.arange(count), second, 0] += 1.0
    return x, far, ("short lag", "long lag")
