"""Known facts about each registered encoding; an encoding without a row fails the laws.

A row holds the verdict of check-faithful at length 80 and d 256, the vector of the fourth point
(position 3, lag -4, node 3) at length 8 and d 4, and whether inner products depend only on the lag
(`stationary`). The vector is a tuple of its first numbers, preferably all four, written from the
formula of the paper, and from the frozen stream of random numbers of seed 0 if the builder draws
numbers. A row without a vector has a slow reference in the tests of its family.
"""

from dataclasses import KW_ONLY, dataclass
from math import cos, pi, sin, sqrt

import numpy as np

LENGTH, DIM = 80, 256
UNIFORM = np.random.RandomState(0).uniform(size=64)  # on [0, 1)
NORMAL = np.random.RandomState(0).normal(size=64)
ACROSS = [cos(2 * pi * UNIFORM[0]), -sin(2 * pi * UNIFORM[0])]  # mixed-rope: one head of two pairs
SLOW = 10.0**-0.5  # mtan-fixed: the second of two frequencies at base 10


@dataclass(frozen=True)
class Row:
    verdict: str  # verdict of check-faithful at length 80, d 256
    vector: tuple[float, ...] = ()  # of position 3, written here from its formula
    _: KW_ONLY
    stationary: bool = False  # inner products depend only on the lag
    damped: bool = False  # amplitudes decay: the frequencies do not span the vectors


def line_and_sines(slopes, shifts, t):
    """Return a vector whose first number is linear in t and the others are sines."""
    line, *phases = (a * t + b for a, b in zip(slopes, shifts, strict=True))
    return (line, *map(sin, phases))


ROWS = {
    "none": Row("collides", (0.0, 0.0, 0.0, 0.0), stationary=True),
    "onehot": Row("isometric", (0.0, 0.0, 0.0, 1.0), stationary=True),
    "ramp": Row("injective", (3 / 7, 3 / 7, 3 / 7, 3 / 7)),
    "sinusoidal": Row("injective", (sin(3), cos(3), sin(0.03), cos(0.03)), stationary=True),
    "dft": Row("isometric", (0.5, 0.0, -sqrt(0.5), -0.5), stationary=True),
    "learned": Row("invertible", tuple(0.02 * NORMAL[12:16])),
    "rope": Row("injective", (cos(3), cos(0.03), sin(3), sin(0.03)), stationary=True),
    "xpos": Row("injective", damped=True),
    "rope++": Row("injective", (sin(3), sin(0.03), -cos(3), -cos(0.03)), stationary=True),
    "fope": Row("injective"),
    "axial": Row("injective", stationary=True),
    "axial-rope": Row("injective", stationary=True),
    "mixed-rope": Row(
        "injective",
        tuple(wave(3 * along) for along in ACROSS for wave in (cos, sin)),
        stationary=True,
    ),
    "learnable-sinusoidal": Row(
        "invertible",
        tuple(wave(3 * pi * u) for u in UNIFORM[:2] for wave in (sin, cos)),
        stationary=True,
    ),
    "fourier-features": Row("injective", stationary=True),
    "tape": Row("injective", (sin(1.5), cos(1.5), sin(0.015), cos(0.015)), stationary=True),
    "time2vec": Row("injective", line_and_sines(NORMAL[:4], NORMAL[4:8], 3)),
    "mtan": Row("injective", line_and_sines(2 * UNIFORM[:4] - 1, 2 * UNIFORM[4:8] - 1, 3 / 7)),
    "mtan-fixed": Row(
        "injective",
        tuple(wave(144 / 7 * w) for w in (1, SLOW) for wave in (sin, cos)),
        stationary=True,
    ),
    "recurrent": Row("collides"),
    "shaw": Row("collides", tuple(sqrt(6 / 37) * (2 * UNIFORM[48:52] - 1))),  # row 12
    "t5": Row("collides", tuple(0.02 * NORMAL[16:20])),  # bucket 4
    "alibi": Row("symmetric in the lag", (-4 / 2**2, -4 / 2**4, -4 / 2**6, -4 / 2**8)),
    "kerple": Row("symmetric in the lag"),
    "sandwich": Row(
        "symmetric in the lag",
        tuple(
            (sum(cos(4 * 10000 ** (-k / 32)) for k in range(1, 33)) - 32) / (2 * h)
            for h in range(1, 5)
        ),
    ),
    "fire": Row("symmetric in the lag"),
    "erpe": Row("distinct lags", tuple(0.02 * NORMAL[12:16])),  # the fourth of 15 lags
    "xl": Row("injective", stationary=True),
    "deberta": Row("invertible"),
    "swin": Row("distinct lags", tuple(0.02 * NORMAL[44:48])),  # query - key 4: row 11 of 15
    "swin2": Row("distinct lags"),
    "beit": Row("distinct lags", tuple(0.02 * NORMAL[56:60])),  # row 14, after three other rows
    "tupe": Row("invertible"),
    "tree": Row("injective"),
    "laplacian": Row("injective"),
    "random-walk": Row("collides"),
}
