"""What each registered encoding is known to be; an encoding without a row fails the laws.

Columns: verdict with fewer positions than dimensions (length 80, d 256), whether inner products
depend on the lag alone, and the code of the fourth point (position 3, lag -4, node 3) at length 8,
d 4, its first numbers. The code is `derived`, written here from the formula and, where one is
drawn, from the frozen stream of random numbers of seed 0; or `recorded` from the builder, whose
formula then has a slow twin in the tests of its family.
"""

from dataclasses import dataclass
from math import cos, log, pi, sin, sqrt

import numpy as np

LENGTH, DIM = 80, 256
ZETA = [(zeta / 1.4) ** (3 / 512) for zeta in (0.4, 0.9)]  # xpos at position 3
UNIFORM = np.random.RandomState(0).uniform(size=64)  # on [0, 1)
NORMAL = np.random.RandomState(0).normal(size=64)
ACROSS = [cos(2 * pi * UNIFORM[0]), -sin(2 * pi * UNIFORM[0])]  # mixed-rope: one head of two pairs
SLOW = 10.0**-0.5  # mtan-fixed: the second of two frequencies at base 10


@dataclass(frozen=True)
class Row:
    verdict: str
    stationary: bool
    derived: tuple[float, ...] = ()
    recorded: tuple[float, ...] = ()
    damped: bool = False  # its waves decay: their frequencies alone do not span the codes

    @property
    def code(self) -> tuple[float, ...]:
        return self.derived or self.recorded


def line_and_sines(slopes, shifts, t):
    """The first of four columns is a line, the others are sines of lines."""
    line, *phases = (a * t + b for a, b in zip(slopes, shifts, strict=True))
    return (line, *map(sin, phases))


ROWS = {
    "none": Row("collides", True, (0.0, 0.0, 0.0, 0.0)),
    "onehot": Row("isometric", True, (0.0, 0.0, 0.0, 1.0)),
    "ramp": Row("injective", False, (3 / 7, 3 / 7, 3 / 7, 3 / 7)),
    "sinusoidal": Row("injective", True, (sin(3), cos(3), sin(0.03), cos(0.03))),
    "dft": Row("isometric", True, (0.5, 0.0, -sqrt(0.5), -0.5)),
    "learned": Row("invertible", False, tuple(0.02 * NORMAL[12:16])),
    "rope": Row("injective", True, (cos(3), cos(0.03), sin(3), sin(0.03))),
    "xpos": Row(
        *("injective", False),
        tuple(z * wave(w) for wave in (cos, sin) for z, w in zip(ZETA, (3, 0.03), strict=True)),
        damped=True,
    ),
    "rope++": Row("injective", True, (sin(3), sin(0.03), -cos(3), -cos(0.03))),
    "pope": Row("injective", True, (cos(3), cos(0.3), cos(0.03), cos(0.003))),
    "grape": Row("injective", True, (cos(3), cos(0.03), -sin(3), -sin(0.03))),
    "axial": Row("injective", True, (sin(3), sin(0.03), cos(3), cos(0.03))),
    "axial-rope": Row("injective", True, (cos(3), cos(0.03), sin(3), sin(0.03))),
    "mixed-rope": Row(
        "injective", True, tuple(wave(3 * along) for along in ACROSS for wave in (cos, sin))
    ),
    "learnable-sinusoidal": Row(
        "invertible", True, tuple(wave(3 * pi * u) for u in UNIFORM[:2] for wave in (sin, cos))
    ),
    "fourier-features": Row(
        "injective",
        True,
        tuple(wave(2 * pi * 10 * b * 3 / 8) for wave in (cos, sin) for b in NORMAL[:2]),
    ),
    "tape": Row("injective", True, (sin(1.5), cos(1.5), sin(0.015), cos(0.015))),
    "time2vec": Row("injective", False, line_and_sines(NORMAL[:4], NORMAL[4:8], 3)),
    "mtan": Row(
        "injective", False, line_and_sines(2 * UNIFORM[:4] - 1, 2 * UNIFORM[4:8] - 1, 3 / 7)
    ),
    "mtan-fixed": Row(
        "injective", True, tuple(wave(144 / 7 * w) for w in (1, SLOW) for wave in (sin, cos))
    ),
    "recurrent": Row("collides", False, recorded=(0.56829423, -0.49895517, 0.52355962, 0.07832727)),
    "shaw": Row("collides", False, tuple(sqrt(6 / 37) * (2 * UNIFORM[48:52] - 1))),  # row 12
    "t5": Row("collides", False, tuple(0.02 * NORMAL[16:20])),  # bucket 4
    "alibi": Row("symmetric in the lag", False, (-4 / 2**2, -4 / 2**4, -4 / 2**6, -4 / 2**8)),
    "kerple": Row(
        "symmetric in the lag",
        False,
        tuple(-2 * p * log(1 + 4 * a) for p, a in zip(UNIFORM[:4], UNIFORM[4:8], strict=True)),
    ),
    "erpe": Row("distinct lags", False, tuple(0.02 * NORMAL[12:16])),  # the fourth of 15 lags
    "swin": Row("distinct lags", False, tuple(0.02 * NORMAL[44:48])),  # query - key 4: row 11 of 15
    "swin2": Row("distinct lags", False, recorded=(7.96411899, 7.97491985, 7.99233408, 7.98994052)),
    "beit": Row("distinct lags", False, tuple(0.02 * NORMAL[56:60])),  # row 14, behind three others
    "tupe": Row("invertible", False, recorded=(0.00901403, -0.03304318, -0.00818218, 0.00339314)),
    "tree": Row("injective", False, (sqrt(1.02), 0.0, 0.7 * sqrt(1.02), 0.0)),  # left, left
}
