"""Sinusoidal tables of 128 positions and 64 columns, correct or with changed rows."""

import numpy as np
import planted
from planted import D, beside, ladder, rows

from pefourier.encodings.encoding import from_table

DIM, NORMAL = D, planted.NORMAL
S = rows(int)
I = np.arange(DIM // 2)  # noqa: E741 (pairs, as in the papers)
GRID = ladder(float)


def waves(sine, cosine=None, offset=0):
    """Return sines and cosines in neighbouring columns at the given frequencies."""
    places = S + offset
    return beside(places * sine, places * (sine if cosine is None else cosine))


def pairs(phases):
    """Return sines, then cosines."""
    return np.hstack([np.sin(phases), np.cos(phases)])


def stored(table, dtype=np.float32):
    return from_table(table.astype(dtype), eps=float(np.finfo(dtype).eps))


def changed(at, values):
    return planted.changed(float, at, values)
