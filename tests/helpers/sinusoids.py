"""Sinusoidal tables of 128 positions and 64 columns, correct or with changed rows."""

import numpy as np

from pefourier.encodings.encoding import from_table

LENGTH, DIM = 128, 64
S = np.arange(LENGTH)[:, None]
I = np.arange(DIM // 2)  # noqa: E741 (pairs, as in the papers)
GRID = 1e4 ** (-2 * I / DIM)
NORMAL = np.random.default_rng(3).standard_normal((LENGTH, DIM))


def waves(sine, cosine=None, offset=0):
    """Return sines and cosines in neighbouring columns at the given frequencies."""
    cosine = sine if cosine is None else cosine
    table = np.empty((LENGTH, 2 * len(sine)))
    table[:, ::2], table[:, 1::2] = np.sin((S + offset) * sine), np.cos((S + offset) * cosine)
    return table


def pairs(phases):
    """Return sines, then cosines."""
    return np.hstack([np.sin(phases), np.cos(phases)])


def stored(table, dtype=np.float32):
    return from_table(table.astype(dtype), eps=float(np.finfo(dtype).eps))


def changed(rows, values):
    table = waves(GRID)
    table[rows] = values
    return table
