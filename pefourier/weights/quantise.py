r"""Error of attention scores from rounding cached keys, and the pairs to keep in high precision.

The model treats channels of queries and keys as independent Gaussians with the second moments of
their rows. A rounding error e of a key changes a score by :math:`q \cdot e`. Relative to scores, at
random positions within the length,

.. math:: \epsilon^2 = \sum_i E[q_i^2]\, E[e_i^2] \,/\, E[(q \cdot k)^2].

Squared errors are means over heads. Rotation at position p exchanges a part :math:`\sin^2 \omega p`
of the moments of a pair's rows; means over positions have closed forms. Simulated keys agree within
5%, or 8% if a pair that hardly rotates has one row 40 times as large as the others.

Squared errors of quantisers in channels that are independent Gaussians.

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
from dataclasses import dataclass, replace
from functools import cache
from math import erfc, exp, log, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from pefourier.types import Array, Bools, Counts, Floats, Ints, Places
from pefourier.weights.pair_energy import LayerShares
from pefourier.writing.text import ranges

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


def looked_up(table: Array, ratios: Array, of: Singles) -> Array:
    """Look up a table at log ratios of (channels, heads, blocks) times (cells,)."""
    with np.errstate(divide="ignore"):
        scale = np.float32((len(LOGS) - 1) / (LOGS[-1] - LOGS[0]))
        shift = (np.log(ratios) - np.float32(LOGS[0])) * scale
        place = shift[..., None] + np.log(of) * scale
    values: Array = table[np.clip(place, 0, len(LOGS) - 1).astype(np.int32)]
    return values


def group_errors(moments: Array, bits: Ints) -> Iterator[tuple[str, int, bool, Array]]:
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


def share_of_setting(hazards: Array) -> Array:
    """Return the probability that a channel sets a step (block, heads, groups, blocks, cells)."""
    total: Array = np.maximum(hazards.sum(axis=(0, 3), keepdims=True), np.float32(1e-30))
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


def token_steps(moments: Array, rows: Places, omega: Array, length: int) -> list[Array]:
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


def largest_squares(moments: Array, rows: Places) -> tuple[Array, Array]:
    """Return E[max x^2] over channels: (heads,), and without each pair (heads, pairs)."""
    deviations = np.sqrt(np.maximum(moments, FEWEST**2)).astype(np.float32)
    inside = looked_up(within(), 1 / deviations, EDGES)
    total, pairs = inside.prod(axis=1), inside[:, rows[0]] * inside[:, rows[1]]

    def second_moment(below: Singles) -> Array:
        middle = below - np.diff(below, axis=-1, prepend=np.float32(0)) / 2
        moment: Array = (1 - middle) @ np.diff(EDGES**2, prepend=np.float32(0))
        return moment

    return second_moment(total), second_moment(total[:, None] / pairs)


BITS = 8, 4
MANTISSAS = {"fp8 e4m3": 3, "fp8 e5m2": 2}
AT_ONCE = 16  # heads: their arrays fit into a cache
NAMED = 0.9  # least share of the bootstrap draws that choose a reported pair
DRAWS = 200
MANY = 64  # largest number of heads in the search for pairs
SMALL = 4  # at most one in SMALL pairs is spared
HALF = 0.23  # target for squared errors; below 1/4 (half the error) since estimates are rough
Scheme = tuple[str, int, str, bool]  # format, bits, granularity, zero point


@dataclass(frozen=True)
class LayerError:
    """Error of the attention scores of a layer."""

    layer: int
    before: float | None
    after: float


@dataclass(frozen=True)
class QuantisationError:
    """Error of the attention scores if cached keys are rounded by one scheme."""

    rotation: str | None  # type of layer; None if the model has one rotation
    scheme: str
    bits: int
    granularity: str  # the unit that shares a step: token, group of channels, channel, value
    zero_point: bool
    before: float | None  # relative error if keys are cached before rotation; None: unknown rows
    after: float  # relative error if keys are cached after rotation
    by_pair: Array  # (pairs,) contributions to `after`; squares of all rows add up to its square
    layers: tuple[LayerError, ...]

    @property
    def label(self) -> str:
        """Return the scheme in words."""
        step = "" if self.granularity == "value" else f", one step per {self.granularity}"
        return f"{self.scheme}{step}{', zero point' * self.zero_point}"


@dataclass(frozen=True)
class Spared:
    """Pairs that deserve a higher precision when keys are int4 with one step per token."""

    rotation: str | None
    pairs: Counts
    rows: tuple[tuple[int, int], ...]  # the two rows of each pair
    ratio: float  # error with these pairs exact, divided by the error with all pairs rounded
    halved: bool
    searched: int  # largest number of pairs that the search allows

    @property
    def listing(self) -> str:
        """Return the full list of pairs and rows."""
        row = sorted(i for pair in self.rows for i in pair)
        count = len(row) or 1
        noun = "pair" if len(self.pairs) == 1 else "pairs"
        return f"{noun} {ranges(self.pairs, count)} (rows {ranges(row, count)})"


@dataclass(frozen=True)
class Keys:
    """Key heads of all layers, with the size and the cost of each channel."""

    layer: Places  # (heads,)
    moments: Array  # (heads, d), scaled to a maximum of 1 in each head
    cost: Array  # (heads, d): squared relative error of scores per unit of squared error

    def errors(self, squares: Array) -> Array:
        """Return squared relative errors of heads from squared errors of channels."""
        relative: Array = (self.cost * squares).sum(axis=1)
        return relative


@dataclass(frozen=True)
class Rotation:
    """The rotation of the pairs of a head, and the number of positions."""

    name: str | None
    index: Places  # of the pairs with a frequency above 0
    rows: Places  # (2, pairs)
    omega: Array
    length: int

    @classmethod
    def of(cls, name: str | None, rows: Places, omega: Array, length: int) -> "Rotation":
        """Create a rotation without the pairs of frequency 0."""
        index = np.flatnonzero(omega)
        return cls(name, index, rows[:, index], omega[index], length)


def mixed(moments: Array, rows: Places, share: Array) -> Array:
    """Mix moments (heads, d): both rows of a pair keep a share and exchange the rest."""
    rotated, a, b = moments.copy(), moments[:, rows[0]], moments[:, rows[1]]
    rotated[:, rows[0]], rotated[:, rows[1]] = (
        share * a + (1 - share) * b,
        share * b + (1 - share) * a,
    )
    return rotated


def mean_rotation(omega: Array, length: int) -> NDArray[np.complex128]:
    """Return the mean of exp(2iωp) over positions."""
    sines, ratio = np.sin(omega), np.ones_like(omega)
    np.divide(np.sin(length * omega), length * sines, out=ratio, where=np.abs(sines) > 1e-15)
    mean: NDArray[np.complex128] = ratio * np.exp(1j * omega * (length - 1))
    return mean


def keys_of(shares: Sequence[LayerShares], rotation: Rotation) -> tuple[Keys, Keys]:
    """Return key heads before and after rotation, without heads of zeros."""
    mean = mean_rotation(rotation.omega, rotation.length)
    lags, places = (1 + np.abs(mean) ** 2) / 2, (1 + mean.real) / 2
    parts: list[tuple[Array, ...]] = []
    for layer in shares:
        q, k = (e / np.maximum(e.max(axis=1, keepdims=True), 1e-300) for e in layer.rows or ())
        met = mixed(q, rotation.rows, lags)
        score = (met * np.repeat(k, len(q) // len(k), axis=0)).sum(axis=1)[:, None]
        costs = [
            np.divide(e, score, out=np.zeros_like(e), where=score > 0)
            for e in (met, mixed(q, rotation.rows, places))
        ]
        grouped = (cost.reshape(len(k), -1, k.shape[1]).mean(axis=1) for cost in costs)
        parts.append((np.full(len(k), layer.layer), k, mixed(k, rotation.rows, places), *grouped))
    layers, before, after, *head_costs = (np.concatenate(part) for part in zip(*parts, strict=True))
    used = head_costs[0].any(axis=1)
    sides = zip((before, after), head_costs, strict=True)
    first, second = (Keys(layers[used], m[used], cost[used]) for m, cost in sides)
    return first, second


def squared_errors(
    keys: Keys, original: Array, rotation: Rotation, *, rotated: bool
) -> dict[Scheme, Array]:
    """Return squared errors (heads, d) of each scheme; `original` are moments before rotation."""
    parts_of: dict[Scheme, list[Array]] = {}
    for start in range(0, len(keys.moments), AT_ONCE):
        for name, bits, zero, part in group_errors(keys.moments[start : start + AT_ONCE], BITS):
            parts_of.setdefault((f"int{bits}", bits, name, zero), []).append(part)
    errors: dict[Scheme, Array] = {
        scheme: np.concatenate(parts) for scheme, parts in parts_of.items()
    }
    rows, omega = (
        (rotation.rows, rotation.omega) if rotated else (rotation.rows[:, :0], rotation.omega[:0])
    )
    steps = token_steps(original, rows, omega, rotation.length)
    for bits in BITS:
        for zero, squares in zip((False, True), steps, strict=True):
            levels = 2**bits - 1 if zero else 2 ** (bits - 1) - 1
            exact = max(
                1 - (1 + zero) / rotation.length, 0.0
            )  # the values that set a step are exact
            errors[f"int{bits}", bits, "channel", zero] = squares * exact / (12 * levels**2)
    for name, bits in MANTISSAS.items():
        errors[name, 8, "value", False] = keys.moments / (4.0**bits * 32 * log(2))
    return errors


def quantisation_errors(
    shares: Sequence[LayerShares], rotation: Rotation
) -> Iterator[QuantisationError]:
    """Yield the error of each scheme over all heads of a rotation."""
    before, after = keys_of(shares, rotation)
    is_known = not any(layer.halved for layer in shares)
    rotated = squared_errors(after, before.moments, rotation, rotated=True)
    plain = squared_errors(before, before.moments, rotation, rotated=False) if is_known else {}
    for scheme, squares in rotated.items():
        costs = after.cost * squares
        early, late = before.errors(plain[scheme]) if plain else None, costs.sum(axis=1)
        of_pairs = costs[:, rotation.rows].sum(axis=1).mean(axis=0)
        layers = tuple(
            LayerError(int(n), *mean_errors(early, late, after.layer == n))
            for n in np.unique(after.layer)
        )
        totals = mean_errors(early, late, np.ones(len(late), bool))
        yield QuantisationError(rotation.name, *scheme, *totals, np.sqrt(of_pairs), layers)


def mean_errors(before: Array | None, after: Array, of: Bools) -> tuple[float | None, float]:
    """Return the root mean squared errors of some heads."""
    early = None if before is None else sqrt(float(before[of].mean()))
    return early, sqrt(float(after[of].mean()))


def spared_pairs(shares: Sequence[LayerShares], rotation: Rotation) -> Spared:
    """Return the pairs that bootstrap samples of heads agree on, and the effect of sparing them."""
    keys = keys_of(shares, rotation)[1]
    limit = max(len(rotation.index) // SMALL, 1)
    sampled = slice(None, None, -(-len(keys.cost) // MANY))
    sample = Keys(keys.layer[sampled], keys.moments[sampled], keys.cost[sampled])
    path, gains, errors = greedy_path(sample, rotation, limit)
    heads = len(sample.cost)
    weights = np.random.default_rng(0).multinomial(heads, np.full(heads, 1 / heads), DRAWS)
    count = np.zeros(len(rotation.index))
    for draw in weights:
        remaining, chosen = errors @ draw, np.zeros(len(count), bool)
        for t in range(
            int(np.argmax(np.r_[remaining <= HALF * remaining[0], True][: len(path) + 1]))
        ):
            gain = gains[t] @ draw
            chosen[np.argmax(np.where(chosen, -np.inf, gain))] = True
        count += chosen
    stable = np.flatnonzero(count >= NAMED * DRAWS)
    ratio = sqrt(
        exact_error(keys, rotation.rows[:, stable]) / exact_error(keys, rotation.rows[:, :0])
    )
    rows = tuple((int(a), int(b)) for a, b in rotation.rows[:, stable].T)
    return Spared(
        rotation.name, tuple(rotation.index[stable].tolist()), rows, ratio, ratio <= 0.5, limit
    )


def greedy_path(
    keys: Keys, rotation: Rotation, limit: int
) -> tuple[list[int], list[Array], Floats]:
    """Choose pairs one by one that reduce the error of int4 with one step per token the most.

    Returns the pairs; the gain of each pair (pairs, heads) at each step, for a chosen pair that at
    its choice; and the errors (steps, heads) before each step and after the last. Errors are
    estimates for the mean step, limited to the moment of a channel.
    """
    path: list[int] = []
    gains: list[Array] = []
    errors: list[Array] = []
    for _ in range(limit + 1):
        square, squares_without = (
            e / (12 * 7**2) for e in largest_squares(keys.moments, rotation.rows)
        )
        errors.append(keys.errors(np.minimum(square[:, None], keys.moments)))
        if len(path) == limit or errors[-1].mean() <= HALF * errors[0].mean():
            break
        remaining = (
            np.minimum(squares_without[:, :, None], keys.moments[:, None]) * keys.cost[:, None]
        )
        own_rows = np.take_along_axis(remaining, rotation.rows.T[None], axis=2).sum(axis=2)
        gain = (errors[-1][:, None] - remaining.sum(axis=2) + own_rows).T
        if path:
            gain[path] = gains[-1][path]
        gains.append(gain)
        totals = gain.mean(axis=1)
        totals[path] = -np.inf
        path.append(int(np.argmax(totals)))
        keys = without(keys, rotation.rows[:, path[-1]])
    return path, gains, np.array(errors)


def without(keys: Keys, rows: Places) -> Keys:
    """Return key heads without some rows."""
    mask = np.ones(keys.cost.shape[1])
    mask[rows] = 0
    return replace(keys, moments=keys.moments * mask, cost=keys.cost * mask)


def exact_error(keys: Keys, spared: Places) -> float:
    """Return the mean squared error of int4 with one step per token if some rows are exact."""
    remaining, total = without(keys, spared), 0.0
    for start in range(0, len(remaining.cost), AT_ONCE):
        block = slice(start, start + AT_ONCE)
        *_, squares = next(group_errors(remaining.moments[block], (4,)))
        total += float((remaining.cost[block] * squares).sum())
    return total / len(remaining.cost)
