r"""Do the rows of a table look like random numbers? By what independent normal ones would have.

Conventions
-----------
Coefficients of the real Fourier basis, without the mean and the alternating one, of independent
normal rows of one variance are such rows again: m of them. Three numbers of theirs are known, and
told as deviations z of about unit variance: the mean of d cos² between two of them, which is 1; the
variance of their energies, 2/d relative to the mean; and the correlation of neighbours, the mean of
cos ω over energies, which is 0. Few directions, as of waves in any order, change the first; waves
and trends the second; codes alike nearby the third. Orthogonal rows are far too regular for it.
"""

import numpy as np

FEWEST = (16, 8)  # rows and columns, of which something can be said
ENOUGH = 400  # numbers: a correlation of neighbours above 1/4 is then seen
ENDS = 2**9  # rows at each end of a table that are looked at
BEYOND = 4.5  # of normal tables about one in a thousand is further from what is expected


def deviations(rows: np.ndarray) -> np.ndarray:
    """How far directions, energies and neighbours are from those of random rows, shape (3,).

    Examples
    --------
    >>> bool(np.abs(deviations(np.random.default_rng(0).normal(size=(64, 32)))).max() < 3)
    True
    >>> bool(np.abs(deviations(np.eye(64))).max() > 30)
    True
    """
    n, d = rows.shape
    waves = np.fft.rfft(rows / (np.abs(rows).max() or 1.0), axis=0)[1 : (n + 1) // 2]
    cosine = np.tile(np.cos(2 * np.pi * np.arange(1, len(waves) + 1) / n), 2)
    products = np.vstack([waves.real, waves.imag])
    products = products @ products.T
    energy = products.diagonal()
    if not energy.min() > 0:
        return np.full(3, np.inf)
    m, relative = len(energy), energy / energy.mean()
    pairs = m * (m - 1) / 2
    excess = d * ((products**2 / np.outer(energy, energy)).sum() - m) / 2 / pairs - 1
    spread = ((relative - 1) ** 2).mean() * d / 2 - 1
    return np.array(
        [
            excess / np.sqrt(2 * (d - 1) / (d + 2) / pairs),
            spread * np.sqrt(m / 2),
            (relative @ cosine) / np.sqrt(2 * (cosine @ cosine) / d),
        ]
    )


def look_random(rows: np.ndarray) -> bool:
    """Whether rows are as independent normal numbers could be, and enough of them to say so."""
    n, d = rows.shape
    if n < FEWEST[0] or d < FEWEST[1] or n * d < ENOUGH:
        return False
    return bool(np.abs(deviations(rows)).max() <= BEYOND)


def numbers_look_random(table: np.ndarray) -> bool:
    """Whether the rows at either end of a table look random: no order of positions."""
    ends = (table[:ENDS], table[-ENDS:])
    return all(look_random(np.asarray(rows, dtype=float)) for rows in ends)
