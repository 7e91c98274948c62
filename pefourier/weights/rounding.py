r"""Squared errors of quantisers in channels that are independent Gaussians.

A quantiser of b bits has the step :math:`D = \max_i |x_i| / (2^{b-1} - 1)`, or with a zero point,
the stored minimum, :math:`(\max_i x_i - \min_i x_i) / (2^b - 1)`. Its errors have the variance
:math:`D^2/12` in channels wider than a step and :math:`s^2` in far narrower channels, which become
zero. The values that set a step have no error. With :math:`F_i(x) = \mathrm{erf}(x / s_i \sqrt 2)`
the largest magnitude A and the largest magnitude B on the other side of zero have

.. math:: P(A \le a, B \le b) = 2 \prod_i \frac{F_i(a) + F_i(b)}{2} - \prod_i F_i(b),\ b \le a.

Formats with m bits of mantissa round in proportion to x: :math:`E[e^2] = E[x^2]\, 4^{-m} / (32 \ln
2)`, averaged over scales.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from math import erfc, exp, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Singles = NDArray[np.float32]
SIZES = {"token": 0, "group of 64": 64, "group of 32": 32}  # channels that share a step; 0: all
BLOCK = 32  # channels that are multiplied first
EDGES = np.r_[0.0, np.geomspace(2e-3, 4.7, 24)].astype(np.float32)  # 1: largest deviation
MIDDLES = np.sqrt(EDGES * np.r_[np.float32(0), EDGES[:-1]])
FEWEST = 1e-6  # replaces the deviation of a channel of zeros
LOGS = np.linspace(-14, 3, 2**14)  # logarithms of the arguments of tables


@cache
def outside() -> Array:
    """Return the probability that a unit Gaussian exceeds exp(x) in size, for x in `LOGS`."""
    return np.array([erfc(exp(x) / sqrt(2)) for x in LOGS])


@cache
def within() -> Singles:
    """Return the probability that a unit Gaussian is within exp(x), for x in `LOGS`."""
    return (1 - outside()).astype(np.float32)


@cache
def rounding_error() -> Singles:
    """Return the squared error of rounding a Gaussian of deviation exp(x) to integers."""
    squares = np.exp(2 * LOGS)
    waves = ((-1) ** k / (pi * k) ** 2 * np.exp(-2 * pi**2 * k**2 * squares) for k in range(1, 9))
    return np.where(squares < 0.01, squares, 1 / 12 + sum(waves)).astype(np.float32)


def looked_up(table: NDArray[Any], ratios: NDArray[Any], of: Singles) -> NDArray[Any]:
    """Look up a table at log ratios of (channels, heads, blocks) times (cells,)."""
    with np.errstate(divide="ignore"):
        scale = np.float32((len(LOGS) - 1) / (LOGS[-1] - LOGS[0]))
        shift = (np.log(ratios) - np.float32(LOGS[0])) * scale
        place = shift[..., None] + np.log(of) * scale
    values: NDArray[Any] = table[np.clip(place, 0, len(LOGS) - 1).astype(np.int32)]
    return values


def group_errors(moments: Array, bits: Sequence[int]) -> Iterator[tuple[str, int, bool, Array]]:
    """Yield squared errors (heads, d) of channels that share steps, by size, bits, zero point."""
    heads, d = moments.shape
    wide = -(-d // 64) * 64
    filled = np.full((heads, wide), FEWEST, np.float32)
    filled[:, :d] = np.sqrt(np.maximum(moments, FEWEST**2))
    deviations = np.ascontiguousarray(filled.reshape(heads, -1, BLOCK).transpose(2, 0, 1))
    inside = looked_up(within(), 1 / deviations, EDGES)
    rises = np.diff(inside, axis=-1, prepend=np.float32(0))
    hazards, opposite = rises / inside, rises / (1 + inside)
    rounded = {}
    for b in bits:
        steps = MIDDLES / np.float32(2 ** (b - 1) - 1)
        with np.errstate(divide="ignore"):
            rounded[b] = looked_up(rounding_error(), deviations, 1 / steps) * steps**2

    def unblocked(errors: Singles) -> Array:
        return errors.transpose(1, 2, 3, 0).reshape(heads, wide)[:, :d].astype(np.float64)

    groups_of = {
        name: (heads, wide // (size or wide), -1, len(EDGES)) for name, size in SIZES.items()
    }
    free = {}
    for name, groups in groups_of.items():
        largest = np.diff(inside.reshape(BLOCK, *groups).prod(axis=(0, 3)), prepend=np.float32(0))
        free[name] = 1 - share_of_setting(hazards.reshape(BLOCK, *groups))
        for b, errors in rounded.items():
            summed = errors.reshape(free[name].shape) * free[name] * largest[:, :, None]
            yield name, b, False, unblocked(summed.sum(axis=4))
    below = np.zeros((*inside.shape[1:], len(EDGES)), np.float32)  # axes A and B of the docstring
    for b in range(len(EDGES)):
        below[..., b:, b] = ((inside[..., b:] + inside[..., [b]]) / 2).prod(axis=0)
    for name, groups in groups_of.items():
        chance = cells(below.reshape(*groups, len(EDGES)).prod(axis=2))
        ends = chance * np.square(MIDDLES[:, None] + MIDDLES)
        total = np.maximum(ends.sum(axis=3), np.float32(1e-30))
        second = share_of_setting(opposite.reshape(BLOCK, *groups))
        second = (second * ends.sum(axis=2)[:, :, None]).sum(axis=4) / total.sum(axis=2)[:, :, None]
        width = deviations.reshape(*free[name].shape[:-1], 1)
        for b in bits:
            rounding = offset_rounding(width, ends / total[..., None], b)
            errors = (free[name] * total[:, :, None] * rounding).sum(axis=4) * (1 - second)
            yield name, b, True, unblocked(errors) / (2**b - 1) ** 2


def offset_rounding(deviations: Singles, ends: Singles, bits: int) -> Singles:
    """Return squared errors, in steps, of channels on a grid from one extreme to the other.

    `ends` (heads, groups, A, B) are the probabilities of the nearer extreme given the farther.
    """
    steps = (MIDDLES[:, None] + MIDDLES) / np.float32(2**bits - 1) + np.float32(1e-9)
    if deviations[deviations > 2 * FEWEST].min() > 0.6 * steps.max():
        return np.broadcast_to(np.float32(1 / 12), (*deviations.shape[:-1], len(EDGES)))
    phases = MIDDLES / steps
    first, second, squares = (
        (ends * part).sum(axis=3)[:, :, None]
        for part in (np.cos(2 * pi * phases), np.cos(4 * pi * phases) / 4, phases**2)
    )
    ratios = np.square(deviations * ((ends / steps).sum(axis=3)[:, :, None]))
    waves = np.exp(np.float32(-2 * pi**2) * ratios)
    fourth = np.square(np.square(waves))
    wide = np.float32(1 / 12) - (first * waves - second * fourth) / np.float32(pi**2)
    return np.where(4 * ratios + squares < 0.06, ratios + squares, wide)


def cells(joint: Singles) -> Singles:
    """Return the probability of each cell (heads, groups, A, B) from products at its edges."""
    diagonal = np.diagonal(joint, axis1=2, axis2=3)
    above = np.triu(np.broadcast_to(diagonal[..., None], joint.shape), 1)
    chance = np.tril(2 * joint - diagonal[:, :, None, :]) + above
    zero = np.float32(0)
    chance = np.diff(np.diff(chance, axis=2, prepend=zero), axis=3, prepend=zero)
    return np.maximum(chance, zero)


def share_of_setting(hazards: Singles) -> Singles:
    """Return the probability that a channel sets a step (block, heads, groups, blocks, cells)."""
    total: Singles = np.maximum(hazards.sum(axis=(0, 3), keepdims=True), np.float32(1e-30))
    return hazards / total


def token_factors(omega: Array, ratios: Array, length: int) -> tuple[Array, Array]:
    """Return E[max x^2] and E[(max x - min x)^2] of a channel over tokens (pairs, ratios).

    The pair rotates by omega and has mean moment 1; the channel has moment 1 + ratio at angle 0.
    """
    x = np.linspace(0.0, 10.0, 160)
    phases = np.minimum(2 * omega * length, 2 * pi)[:, None] * (np.arange(16) + 0.5) / 16
    moments = 1 + ratios[:, None] * np.cos(phases)[:, None]  # (pairs, ratios, phases)
    deviations = np.sqrt(np.maximum(moments, FEWEST**2)).astype(np.float32)
    beyond = looked_up(outside(), 1 / deviations, x.astype(np.float32)).mean(axis=2)
    beyond = np.minimum(beyond, 1 - 1e-12)
    magnitude, one_side = (1 - np.exp(length * np.log1p(-part)) for part in (beyond, beyond / 2))
    largest = np.trapezoid(2 * x * magnitude, x)
    squares, mean = np.trapezoid(2 * x * one_side, x), np.trapezoid(one_side, x)
    return largest, 2 * squares + 2 * mean**2


def token_steps(moments: Array, rows: NDArray[np.int64], omega: Array, length: int) -> list[Array]:
    """Return E[max x^2] and E[(max x - min x)^2] over tokens of each channel (heads, d)."""
    unrotated = token_factors(np.zeros(1), np.zeros(1), length)
    by_kind = [moments * factor for factor in unrotated]
    a, b = moments[:, rows[0]], moments[:, rows[1]]
    mean = np.maximum((a + b) / 2, 1e-300)
    ratio, pairs = (a - b) / (2 * mean), np.arange(len(omega))
    tables = token_factors(omega, np.linspace(-1, 1, 17), length)
    for steps, table in zip(by_kind, tables, strict=True):
        for row, sign in zip(rows, (1, -1), strict=True):
            place = (1 + sign * ratio) * 8
            low = np.minimum(place.astype(int), 15)
            part = place - low
            steps[:, row] = mean * ((1 - part) * table[pairs, low] + part * table[pairs, low + 1])
    return by_kind


def largest_squares(moments: Array, rows: NDArray[np.int64]) -> tuple[Array, Array]:
    """Return E[max x^2] over channels: (heads,), and without each pair (heads, pairs)."""
    deviations = np.sqrt(np.maximum(moments, FEWEST**2)).astype(np.float32)
    inside = looked_up(within(), 1 / deviations, EDGES)
    total, pairs = inside.prod(axis=1), inside[:, rows[0]] * inside[:, rows[1]]

    def second_moment(below: Singles) -> Array:
        middle = below - np.diff(below, axis=-1, prepend=np.float32(0)) / 2
        moment: Array = (1 - middle) @ np.diff(EDGES**2, prepend=np.float32(0))
        return moment

    return second_moment(total), second_moment(total[:, None] / pairs)
