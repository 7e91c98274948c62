"""Random numbers that are the same on every machine for the same seed."""

import numpy as np

from pefourier.errors import PefourierError


def stream(seed: int) -> np.random.RandomState:
    """A source of random numbers whose stream is frozen.

    >>> stream(0).uniform(size=2).round(6)
    array([0.548814, 0.715189])
    """
    if not 0 <= seed < 2**32:
        raise PefourierError(f"seed must be a whole number from 0 to {2**32 - 1}; got {seed}")
    # RandomState and not Generator: only its stream is frozen, the same for ever and everywhere
    return np.random.RandomState(seed)
