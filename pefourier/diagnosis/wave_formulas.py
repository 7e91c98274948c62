r"""Codes of sinusoids by name and parameters alone, and which numbers rounding explains.

Conventions
-----------
A column is :math:`A \sin(\omega (s + o) + \varphi)`, s the row; parameters are those that
`identify` answers.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import exp, log
from typing import Any

import numpy as np

from pefourier.diagnosis.frequency_grids import chosen_digits, frequencies, shortest, to_digits
from pefourier.encodings.columns import orders, pair_columns
from pefourier.encodings.encoding import BLOCK, FLOAT64_EPS, row_blocks
from pefourier.encodings.registry import build
from pefourier.geometry import precision

UNUSUAL = 1e9  # a base that nobody chooses, but is made by mistakes in exponents


@dataclass(frozen=True, eq=False)
class Formula:
    """A proposal: what a table may be, its codes of rows s (n,), and what rounding explains."""

    encoding: str
    params: dict
    codes: Callable[[np.ndarray], np.ndarray]  # (n, d) of rows s
    tolerance: Callable[[np.ndarray, np.ndarray, float], Any]  # of rows s, codes, resolution

    def residual(
        self, s: np.ndarray, codes: np.ndarray, eps: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Differences (n, d) of the codes of rows s, and of each row whether rounding explains it.

        Rows of zeros that the formula leaves out differ by nothing.
        """
        difference = np.abs(codes - self.codes(s))
        if "zero_rows" in self.params:
            difference[np.isin(s, self.params["zero_rows"]) & ~codes.any(axis=1)] = 0.0
        return difference, (difference <= self.tolerance(s, codes, eps)).all(axis=1)

    def compare(self, table: np.ndarray, eps: float) -> tuple[float, np.ndarray]:
        """The largest difference of a table, and the rows that rounding does not explain.

        A table of which more than half of a block does not follow is not read to its end.
        """
        largest, stray = 0.0, []
        for rows, codes in float_blocks(table):
            s = np.arange(rows.start, rows.stop)
            difference, explained = self.residual(s, codes, eps)
            largest = max(largest, float(difference.max(initial=0.0)))
            stray.append(s[~explained])
            if len(stray[-1]) > len(s) / 2:
                break
        return largest, np.concatenate(stray)


def float_blocks(table: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """The rows of a table in float64, in blocks."""
    for rows in row_blocks(len(table), BLOCK, table.shape[1]):
        yield rows, np.asarray(table[rows], dtype=float)


def rebuild(encoding: str, params: dict, d: int, top: float = np.inf) -> Formula:
    """Sinusoids by name and parameters alone; `top` is the largest number that was seen.

    >>> rebuild("rope", {"rho": 100.0, "layout": "halves"}, 4).codes(np.array([1])).round(3)
    array([[0.54 , 0.995, 0.841, 0.1  ]])
    """
    amplitude, omega, phase = table_waves(encoding, params, d)
    offset = params.get("offset", 0) * (-1 if params.get("backwards") else 1)
    largest = np.abs(amplitude).max()

    def codes(s: np.ndarray) -> np.ndarray:
        return amplitude * np.sin(np.multiply.outer(s + offset, omega) + phase)

    def tolerance(s: np.ndarray, codes: np.ndarray, eps: float) -> np.ndarray:
        stored = min(largest, max(top, np.abs(codes).max(initial=0.0)))
        return 3 * eps * stored + largest * precision.phase_errors(s + offset, omega, eps)

    return Formula(encoding, params, codes, tolerance)


def table_waves(encoding: str, params: dict, d: int) -> np.ndarray:
    """Signed amplitude, frequency and phase of each column, (3, d), in the table's order."""
    used = d - int(params.get("odd") == "zero")
    waves = reference_waves(encoding, params, used)
    if encoding != "dft" and "part" not in params:
        first = params.get("first", "cos" if encoding == "rope" else "sin")
        waves = waves[:, orders(used)[params["layout"], first]]
    waves[0] *= params.get("scale", 1.0)
    if params.get("backwards"):
        waves[0, (waves[2] == 0) & (waves[1] > 0)] *= -1
    return np.pad(waves, ((0, 0), (0, d - used)))


def reference_waves(encoding: str, params: dict, d: int) -> np.ndarray:
    """Amplitude, frequency and phase of each column in the order of reference, (3, d)."""
    waves = np.ones((3, d))
    if encoding == "dft":
        measure, paired = build("dft", length=1, d=d).measure, (d + 1) // 2
        k = np.concatenate([np.arange(paired), np.arange(1, paired), np.arange(paired, d // 2 + 1)])
        waves = np.stack([measure.amplitudes[k], measure.frequencies[k], np.full(d, np.pi / 2)])
        waves[2, paired : 2 * paired - 1] = 0.0
        return waves
    if "part" in params:
        layout = params.get("layout")
        omega = frequencies(params, 2 * d if layout is None else d)
        for place in pair_columns(layout, d // 2) if layout else (slice(d),):
            waves[1, place] = omega
        waves[2] = np.pi / 2 * (params["part"] == "cos")
        return waves
    waves[1] = np.repeat(frequencies(params, d), 2)[:d]
    waves[2] = np.pi / 2 * (np.arange(d) % 2)
    return waves


def refine_base(encoding: str, params: dict, rows: np.ndarray, start: int) -> dict:
    r"""Parameters whose base, unless few digits say that it was chosen, is of least squares.

    One step of Gauss and Newton in :math:`\ln\rho`, by which :math:`\omega` changes as
    :math:`\omega \ln(\omega / \mathrm{step}) / \ln\rho`; errors of a column go together.
    """
    rho, step = params.get("rho", 1.0), params.get("step", 1.0)
    chosen = rho < UNUSUAL and to_digits(rho, chosen_digits(precision.FLOAT32_EPS)) == rho
    if chosen or "scaling" in params:
        return params
    amplitude, omega, phase = table_waves(encoding, params, rows.shape[1])
    turns = np.log(np.where(omega > 0, omega, step) / step) / log(rho)
    offset = params.get("offset", 0) * (-1 if params.get("backwards") else 1)
    angles = np.multiply.outer(start + np.arange(len(rows)) + offset, omega)
    unit = -np.frexp(np.abs(rows).max())[1]  # squares of codes in it are no larger than 1
    height, codes = np.ldexp(amplitude, unit), np.ldexp(rows, unit)
    slope = height * np.cos(angles + phase) * angles * turns
    products = (slope * (codes - height * np.sin(angles + phase))).sum(axis=0)
    size = (slope**2).sum()
    change = products.sum() / size if size else 0.0
    error = 3 * np.linalg.norm(products - change * (slope**2).sum(axis=0)) / max(size, 1e-300)
    if abs(change) <= error + FLOAT64_EPS:
        return params
    return params | {"rho": shortest(rho * exp(change), error)}
