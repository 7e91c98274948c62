"""An event A and an event B: was A first?"""

import numpy as np

from pefourier.train.data.synthetic import Examples


def order(*, count: int = 1000, length: int = 12, noise: float = 0.1, seed: int = 0) -> Examples:
    """Channel 0 has event A, channel 1 event B, at different rows drawn at random."""
    rng = np.random.default_rng(seed)
    places = np.sort(np.argsort(rng.random((count, length)), axis=1)[:, :2], axis=1)
    first = rng.permutation(np.arange(count) % 2)
    x = rng.normal(0.0, noise, (count, length, 2))
    x[np.arange(count), places[:, 0], first] += 1.0
    x[np.arange(count), places[:, 1], 1 - first] += 1.0
    return x, first, ("A first", "B first")
