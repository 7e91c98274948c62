"""Random numbers that are the same on every machine for the same seed."""

import numpy as np


def stream(seed: int) -> "np.random.RandomState":
    """A source of random numbers whose stream is frozen.

    >>> stream(0).uniform(size=2).round(6)
    array([0.548814, 0.715189])
    """
    # Quoted above: naming numpy.random imports it, which commands without seeds need not pay.
    # RandomState and not Generator: only its stream is frozen, the same for ever and everywhere
    return np.random.RandomState(seed)
