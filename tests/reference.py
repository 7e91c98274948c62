"""What each registered encoding is known to be; an encoding without a row fails the laws.

Columns: verdict with fewer positions than dimensions (length 80, d 256), whether inner products
depend on the lag alone, whether the density at N = d is flat, and the code of position 3 at d = 4,
length 8 (its first numbers): by hand where a formula is written, else recorded from builders whose
formulas have a slow twin in test_families.py.
"""

from dataclasses import dataclass
from math import cos, sin, sqrt

LENGTH, DIM = 80, 256
ZETA = [(zeta / 1.4) ** (3 / 512) for zeta in (0.4, 0.9)]  # xpos at position 3


@dataclass(frozen=True)
class Row:
    verdict: str
    stationary: bool
    code: tuple[float, ...]  # of position 3 (the fourth point) at length 8, d 4
    damped: bool = False  # its waves decay: their frequencies alone do not span the codes


ROWS = {
    "none": Row("collides", True, (0.0, 0.0, 0.0, 0.0)),
    "onehot": Row("isometric", True, (0.0, 0.0, 0.0, 1.0)),
    "ramp": Row("injective", False, (3 / 7, 3 / 7, 3 / 7, 3 / 7)),
    "sinusoidal": Row("injective", True, (sin(3), cos(3), sin(0.03), cos(0.03))),
    "dft": Row("isometric", True, (0.5, 0.0, -sqrt(0.5), -0.5)),
    "learned": Row("invertible", False, (0.01522075, 0.00243350, 0.00887726, 0.00667349)),
    "rope": Row("injective", True, (cos(3), cos(0.03), sin(3), sin(0.03))),
    "xpos": Row(
        "injective",
        False,
        (ZETA[0] * cos(3), ZETA[1] * cos(0.03), ZETA[0] * sin(3), ZETA[1] * sin(0.03)),
        damped=True,
    ),
    "learnable-sinusoidal": Row(
        "invertible", True, (-0.89602744, 0.44399868, 0.44154121, 0.89724097)
    ),
    "fourier-features": Row(
        "injective", True, (-0.74929486, -0.99999314, -0.66223653, -0.00370413)
    ),
    "tape": Row("injective", True, (0.99749499, 0.07073720, 0.01499944, 0.99988750)),
    "time2vec": Row("injective", False, (7.15971503, 0.22134527, -0.67775840, 0.28416660)),
    "mtan": Row("injective", False, (-0.11085026, 0.45843749, -0.03673442, 0.73252059)),
    "mtan-fixed": Row("injective", True, (0.98860966, -0.15050228, 0.22025082, 0.97544327)),
    "recurrent": Row("collides", False, (0.56829423, -0.49895517, 0.52355962, 0.07832727)),
    "shaw": Row("collides", False, (-0.14865166, -0.10976561, 0.05653559, -0.04944956)),
    "t5": Row("collides", False, (0.02988158, -0.00410317, 0.00626135, -0.01708191)),
    "alibi": Row("collides", False, (-1.00000000, -0.25000000, -0.06250000, -0.01562500)),
    "kerple": Row("collides", False, (-1.08803034, -1.82568007, -1.21966488, -1.65522072)),
    "erpe": Row("invertible", False, (0.01522075, 0.00243350, 0.00887726, 0.00667349)),
    "tupe": Row("invertible", False, (0.00901403, -0.03304318, -0.00818218, 0.00339314)),
    "tree": Row("injective", False, (1.00995049, 0.00000000, 0.70696535, 0.00000000)),
}
