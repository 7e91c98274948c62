"""What each registered encoding is known to be; an encoding without a row fails the laws.

Columns: verdict with fewer positions than dimensions (length 80, d 256), whether inner products
depend on the lag alone, whether the density at N = d is flat, and the code of position 3 at d = 4,
length 8 (its first numbers), worked out by hand from the formula of the source.
"""

from dataclasses import dataclass
from math import cos, sin, sqrt

LENGTH, DIM = 80, 256


@dataclass(frozen=True)
class Row:
    verdict: str
    stationary: bool
    code: tuple[float, ...]  # of position 3 (the fourth point) at length 8, d 4


ROWS = {
    "none": Row("collides", True, (0.0, 0.0, 0.0, 0.0)),
    "onehot": Row("isometric", True, (0.0, 0.0, 0.0, 1.0)),
    "ramp": Row("injective", False, (3 / 7, 3 / 7, 3 / 7, 3 / 7)),
    "sinusoidal": Row("injective", True, (sin(3), cos(3), sin(0.03), cos(0.03))),
    "dft": Row("isometric", True, (0.5, 0.0, -sqrt(0.5), -0.5)),
    "learned": Row("invertible", False, (0.01522075, 0.00243350, 0.00887726, 0.00667349)),
    "rope": Row("injective", True, (cos(3), cos(0.03), sin(3), sin(0.03))),
}
