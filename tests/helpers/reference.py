"""Known facts about each registered encoding; an encoding without a row fails the laws.

A row holds the verdict of check-faithful at length 80 and d 256, the vector of the fourth point
(position 3, lag -4, node 3) at length 8 and d 4, and whether inner products depend only on the lag
(`stationary`). The vector is a tuple of its first numbers, preferably all four. It is `derived`:
written here from the formula of the paper, not printed by the builder, and from the frozen stream
of random numbers of seed 0 if the builder draws numbers. If a formula is too long for a line, the
vector is `recorded` from the builder; a slow reference in the tests of the family then checks it.
"""

from dataclasses import KW_ONLY, dataclass
from math import cos, log, pi, sin, sqrt

import numpy as np

LENGTH, DIM = 80, 256
ZETA = [(zeta / 1.4) ** (3 / 512) for zeta in (0.4, 0.9)]  # xpos at position 3
UNIFORM = np.random.RandomState(0).uniform(size=64)  # on [0, 1)
NORMAL = np.random.RandomState(0).normal(size=64)
DISTANCES = np.random.RandomState(0).normal(size=4 * 512)  # deberta: 2 · 256 rows of 4 numbers
ACROSS = [cos(2 * pi * UNIFORM[0]), -sin(2 * pi * UNIFORM[0])]  # mixed-rope: one head of two pairs
MIXED = np.eye(2) + 0.3 / sqrt(2) * NORMAL[:8].reshape(2, 2, 2)  # fope: C and S of two pairs
SLOW = 10.0**-0.5  # mtan-fixed: the second of two frequencies at base 10


@dataclass(frozen=True)
class Row:
    verdict: str  # verdict of check-faithful at length 80, d 256
    derived: tuple[float, ...] = ()  # the vector of position 3, written here from its formula
    recorded: tuple[float, ...] = ()  # the vector of position 3, as the builder computed it
    _: KW_ONLY
    stationary: bool = False  # inner products depend only on the lag
    damped: bool = False  # amplitudes decay: the frequencies do not span the vectors

    @property
    def code(self):
        return self.derived or self.recorded


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
    "xpos": Row(
        "injective",
        tuple(z * wave(w) for wave in (cos, sin) for z, w in zip(ZETA, (3, 0.03), strict=True)),
        damped=True,
    ),
    "rope++": Row("injective", (sin(3), sin(0.03), -cos(3), -cos(0.03)), stationary=True),
    "fope": Row("injective", (*((cos(3), 1) @ MIXED[0]), *((sin(3), 0) @ MIXED[1]))),
    "axial": Row("injective", (sin(3), sin(0.03), cos(3), cos(0.03)), stationary=True),
    "axial-rope": Row("injective", (cos(3), cos(0.03), sin(3), sin(0.03)), stationary=True),
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
    "fourier-features": Row(
        "injective",
        tuple(wave(2 * pi * 10 * b * 3 / 8) for wave in (cos, sin) for b in NORMAL[:2]),
        stationary=True,
    ),
    "tape": Row("injective", (sin(1.5), cos(1.5), sin(0.015), cos(0.015)), stationary=True),
    "time2vec": Row("injective", line_and_sines(NORMAL[:4], NORMAL[4:8], 3)),
    "mtan": Row("injective", line_and_sines(2 * UNIFORM[:4] - 1, 2 * UNIFORM[4:8] - 1, 3 / 7)),
    "mtan-fixed": Row(
        "injective",
        tuple(wave(144 / 7 * w) for w in (1, SLOW) for wave in (sin, cos)),
        stationary=True,
    ),
    "recurrent": Row("collides", recorded=(0.56829423, -0.49895517, 0.52355962, 0.07832727)),
    "shaw": Row("collides", tuple(sqrt(6 / 37) * (2 * UNIFORM[48:52] - 1))),  # row 12
    "t5": Row("collides", tuple(0.02 * NORMAL[16:20])),  # bucket 4
    "alibi": Row("symmetric in the lag", (-4 / 2**2, -4 / 2**4, -4 / 2**6, -4 / 2**8)),
    "kerple": Row(
        "symmetric in the lag",
        tuple(-2 * p * log(1 + 4 * a) for p, a in zip(UNIFORM[:4], UNIFORM[4:8], strict=True)),
    ),
    "sandwich": Row(
        "symmetric in the lag",
        tuple(
            (sum(cos(4 * 10000 ** (-k / 32)) for k in range(1, 33)) - 32) / (2 * h)
            for h in range(1, 5)
        ),
    ),
    "fire": Row("symmetric in the lag", recorded=(0.06989419, 0.33047967, -0.03079051, 0.16209896)),
    "erpe": Row("distinct lags", tuple(0.02 * NORMAL[12:16])),  # the fourth of 15 lags
    "xl": Row("injective", (sin(4), sin(0.04), cos(4), cos(0.04)), stationary=True),  # lag -4
    "deberta": Row("invertible", tuple(0.02 * DISTANCES[4 * 260 : 4 * 261])),  # row 256 + 4
    "swin": Row("distinct lags", tuple(0.02 * NORMAL[44:48])),  # query - key 4: row 11 of 15
    "swin2": Row("distinct lags", recorded=(7.96411899, 7.97491985, 7.99233408, 7.98994052)),
    "beit": Row("distinct lags", tuple(0.02 * NORMAL[56:60])),  # row 14, after three other rows
    "tupe": Row("invertible", recorded=(0.00901403, -0.03304318, -0.00818218, 0.00339314)),
    "tree": Row("injective", (sqrt(1.02), 0.0, 0.7 * sqrt(1.02), 0.0)),  # a left branch, twice
    "laplacian": Row("injective", tuple(sqrt(2 / 7) * cos(3 * pi * k / 7) for k in (1, 2, 3, 4))),
    "random-walk": Row("collides", (0.0, 1 / 2, 0.0, 3 / 8)),
}
