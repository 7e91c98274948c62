"""Handwritten digits that come with scikit-learn: 8 x 8 points of one channel, ten classes."""

import numpy as np

from pefourier.errors import PefourierError

SIDES = (8, 8)
NO_SKLEARN = "digits needs scikit-learn; install it with pip install 'pefourier[digits]'"
Digits = tuple[np.ndarray, np.ndarray, tuple[str, ...]]  # X (n, 64, 1), y (n,), classes


def read_digits() -> Digits:
    """1797 digits in raster order, ink from 0 to 1 (Alpaydin and Kaynak, 1998)."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise PefourierError(NO_SKLEARN) from error
    images, classes = load_digits(return_X_y=True)
    return images[:, :, None] / 16.0, classes, tuple("0123456789")
