r"""What does rounding cached keys cost attention scores, and which pairs should be spared?

Channels of queries and keys are taken as independent Gaussians with the second moments of their
rows. Rounding errors e of a key change a score by :math:`q \cdot e`; relative to scores, at
positions drawn from the length,

.. math:: \epsilon^2 = \sum_i E[q_i^2]\, E[e_i^2] \,/\, E[(q \cdot k)^2].

Squared errors are means over heads. Rotation at position p exchanges a part :math:`\sin^2 \omega p`
of the moments of a pair's rows; means over positions have closed forms. Drawn keys lose as much to
5%; to 8% where one row forty times as large as others is in a pair that hardly rotates.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from pefourier.weights.pair_energy import LayerShares
from pefourier.weights.rounding import Array, group_errors, largest_squares, token_steps
from pefourier.writing.text import ranges

BITS = 8, 4
MANTISSAS = {"fp8 e4m3": 3, "fp8 e5m2": 2}
AT_ONCE = 16  # heads: their arrays fit into a cache
NAMED = 0.9  # of the draws of heads: as often a pair is chosen that is named
DRAWS = 200
MANY = 64  # heads that pairs are chosen by
SMALL = 4  # at most one in so many pairs is spared
HALF = 0.23  # of squared errors, where pairs are chosen by estimates; a quarter is a half
Scheme = tuple[str, int, str, bool]  # format, bits, granularity, zero point


@dataclass(frozen=True)
class LayerError:
    """The error of scores of a layer."""

    layer: int
    before: float | None
    after: float


@dataclass(frozen=True)
class QuantisationError:
    """What rounding cached keys by one scheme costs attention scores."""

    rotation: str | None  # type of layer; None where there is one
    scheme: str
    bits: int
    granularity: str  # channels, or tokens, that share a step
    zero_point: bool
    before: float | None  # relative error where keys are rotated later; None: rows are unknown
    after: float  # where keys are cached rotated
    by_pair: Array  # (pairs,) of the latter; their squares and those of other rows add up
    layers: tuple[LayerError, ...]

    @property
    def label(self) -> str:
        """The scheme in words."""
        step = "" if self.granularity == "value" else f", one step per {self.granularity}"
        return f"{self.scheme}{step}{', zero point' * self.zero_point}"


@dataclass(frozen=True)
class Spared:
    """The pairs that are worth a higher precision, int4 with a step a token."""

    rotation: str | None
    pairs: tuple[int, ...]
    rows: tuple[tuple[int, int], ...]  # the two of each pair
    ratio: float  # error with these pairs exact, as a part of that without
    halved: bool
    searched: int  # as many pairs were tried at most

    @property
    def listing(self) -> str:
        """The pairs and their rows, all of them."""
        row = sorted(i for pair in self.rows for i in pair)
        count = len(row) or 1
        noun = "pair" if len(self.pairs) == 1 else "pairs"
        return f"{noun} {ranges(self.pairs, count)} (rows {ranges(row, count)})"


@dataclass(frozen=True)
class Keys:
    """Key heads of all layers, of which channels have a known size and cost."""

    layer: NDArray[np.int64]  # (heads,)
    moments: Array  # (heads, d), the largest of each head 1
    cost: Array  # (heads, d): squared relative error of scores by a unit of squared error

    def errors(self, squares: Array) -> Array:
        """Squared relative errors of heads by squared errors of channels."""
        relative: Array = (self.cost * squares).sum(axis=1)
        return relative


@dataclass(frozen=True)
class Rotation:
    """How the pairs of a head rotate, and over how many positions."""

    name: str | None
    index: NDArray[np.int64]  # of pairs that do
    rows: NDArray[np.int64]  # (2, pairs)
    omega: Array
    length: int

    @classmethod
    def of(cls, name: str | None, rows: NDArray[np.int64], omega: Array, length: int) -> "Rotation":
        """A rotation of which pairs of frequency 0 are left out."""
        index = np.flatnonzero(omega)
        return cls(name, index, rows[:, index], omega[index], length)


def mixed(moments: Array, rows: NDArray[np.int64], share: Array) -> Array:
    """Moments (heads, d) of which the two rows of a pair keep a part, and exchange the rest."""
    rotated, a, b = moments.copy(), moments[:, rows[0]], moments[:, rows[1]]
    rotated[:, rows[0]], rotated[:, rows[1]] = (
        share * a + (1 - share) * b,
        share * b + (1 - share) * a,
    )
    return rotated


def mean_rotation(omega: Array, length: int) -> NDArray[np.complex128]:
    """The mean of exp(2iωp) over positions."""
    sines, ratio = np.sin(omega), np.ones_like(omega)
    np.divide(np.sin(length * omega), length * sines, out=ratio, where=np.abs(sines) > 1e-15)
    mean: NDArray[np.complex128] = ratio * np.exp(1j * omega * (length - 1))
    return mean


def keys_of(shares: Sequence[LayerShares], turn: Rotation) -> tuple[Keys, Keys]:
    """Key heads before and after rotation, without those that are zero."""
    mean = mean_rotation(turn.omega, turn.length)
    lags, places = (1 + np.abs(mean) ** 2) / 2, (1 + mean.real) / 2
    parts: list[tuple[Array, ...]] = []
    for layer in shares:
        q, k = (e / np.maximum(e.max(axis=1, keepdims=True), 1e-300) for e in layer.rows or ())
        met = mixed(q, turn.rows, lags)
        score = (met * np.repeat(k, len(q) // len(k), axis=0)).sum(axis=1)[:, None]
        costs = [
            np.divide(e, score, out=np.zeros_like(e), where=score > 0)
            for e in (met, mixed(q, turn.rows, places))
        ]
        grouped = (cost.reshape(len(k), -1, k.shape[1]).mean(axis=1) for cost in costs)
        parts.append((np.full(len(k), layer.layer), k, mixed(k, turn.rows, places), *grouped))
    layers, before, after, *head_costs = (np.concatenate(part) for part in zip(*parts, strict=True))
    used = head_costs[0].any(axis=1)
    sides = zip((before, after), head_costs, strict=True)
    first, second = (Keys(layers[used], m[used], cost[used]) for m, cost in sides)
    return first, second


def squared_errors(
    keys: Keys, original: Array, turn: Rotation, *, rotated: bool
) -> dict[Scheme, Array]:
    """Squared errors (heads, d) of each scheme; `original` are moments before rotation."""
    parts_of: dict[Scheme, list[Array]] = {}
    for start in range(0, len(keys.moments), AT_ONCE):
        for name, bits, zero, part in group_errors(keys.moments[start : start + AT_ONCE], BITS):
            parts_of.setdefault((f"int{bits}", bits, name, zero), []).append(part)
    errors: dict[Scheme, Array] = {
        scheme: np.concatenate(parts) for scheme, parts in parts_of.items()
    }
    rows, omega = (turn.rows, turn.omega) if rotated else (turn.rows[:, :0], turn.omega[:0])
    steps = token_steps(original, rows, omega, turn.length)
    for bits in BITS:
        for zero, squares in zip((False, True), steps, strict=True):
            levels = 2**bits - 1 if zero else 2 ** (bits - 1) - 1
            exact = max(1 - (1 + zero) / turn.length, 0.0)  # but values that set the step
            errors[f"int{bits}", bits, "channel", zero] = squares * exact / (12 * levels**2)
    for name, bits in MANTISSAS.items():
        errors[name, 8, "value", False] = keys.moments / (4.0**bits * 32 * log(2))
    return errors


def quantisation_errors(
    shares: Sequence[LayerShares], turn: Rotation
) -> Iterator[QuantisationError]:
    """The errors of each scheme over the heads of the layers of a rotation."""
    before, after = keys_of(shares, turn)
    is_known = not any(layer.halved for layer in shares)
    rotated = squared_errors(after, before.moments, turn, rotated=True)
    plain = squared_errors(before, before.moments, turn, rotated=False) if is_known else {}
    for scheme, squares in rotated.items():
        costs = after.cost * squares
        early, late = before.errors(plain[scheme]) if plain else None, costs.sum(axis=1)
        of_pairs = costs[:, turn.rows].sum(axis=1).mean(axis=0)
        layers = tuple(
            LayerError(int(n), *mean_errors(early, late, after.layer == n))
            for n in np.unique(after.layer)
        )
        totals = mean_errors(early, late, np.ones(len(late), bool))
        yield QuantisationError(turn.name, *scheme, *totals, np.sqrt(of_pairs), layers)


def mean_errors(
    before: Array | None, after: Array, of: NDArray[np.bool_]
) -> tuple[float | None, float]:
    """The roots of mean squared errors of some heads."""
    early = None if before is None else sqrt(float(before[of].mean()))
    return early, sqrt(float(after[of].mean()))


def spared_pairs(shares: Sequence[LayerShares], turn: Rotation) -> Spared:
    """The pairs that resampled heads name, too, and what sparing them does."""
    keys = keys_of(shares, turn)[1]
    limit = max(len(turn.index) // SMALL, 1)
    sampled = slice(None, None, -(-len(keys.cost) // MANY))
    sample = Keys(keys.layer[sampled], keys.moments[sampled], keys.cost[sampled])
    path, gains, errors = greedy_path(sample, turn, limit)
    heads = len(sample.cost)
    weights = np.random.default_rng(0).multinomial(heads, np.full(heads, 1 / heads), DRAWS)
    count = np.zeros(len(turn.index))
    for draw in weights:
        remaining, chosen = errors @ draw, np.zeros(len(count), bool)
        for t in range(
            int(np.argmax(np.r_[remaining <= HALF * remaining[0], True][: len(path) + 1]))
        ):
            gain = gains[t] @ draw
            chosen[np.argmax(np.where(chosen, -np.inf, gain))] = True
        count += chosen
    stable = np.flatnonzero(count >= NAMED * DRAWS)
    ratio = sqrt(exact_error(keys, turn.rows[:, stable]) / exact_error(keys, turn.rows[:, :0]))
    rows = tuple((int(a), int(b)) for a, b in turn.rows[:, stable].T)
    return Spared(turn.name, tuple(turn.index[stable].tolist()), rows, ratio, ratio <= 0.5, limit)


def greedy_path(
    keys: Keys, turn: Rotation, limit: int
) -> tuple[list[int], list[Array], NDArray[np.float64]]:
    """Pairs one after the other that reduce the error of int4 with a step a token the most.

    And what each pair would have gained (pairs, heads) at each step, or when it was chosen; and
    errors (steps, heads) before each and after the last. Errors are estimates: those of the mean
    step, at most all of a channel.
    """
    path: list[int] = []
    gains: list[Array] = []
    errors: list[Array] = []
    for _ in range(limit + 1):
        square, squares_without = (
            e / (12 * 7**2) for e in largest_squares(keys.moments, turn.rows)
        )
        errors.append(keys.errors(np.minimum(square[:, None], keys.moments)))
        if len(path) == limit or errors[-1].mean() <= HALF * errors[0].mean():
            break
        remaining = (
            np.minimum(squares_without[:, :, None], keys.moments[:, None]) * keys.cost[:, None]
        )
        own_rows = np.take_along_axis(remaining, turn.rows.T[None], axis=2).sum(axis=2)
        gain = (errors[-1][:, None] - remaining.sum(axis=2) + own_rows).T
        if path:
            gain[path] = gains[-1][path]
        gains.append(gain)
        totals = gain.mean(axis=1)
        totals[path] = -np.inf
        path.append(int(np.argmax(totals)))
        keys = without(keys, turn.rows[:, path[-1]])
    return path, gains, np.array(errors)


def without(keys: Keys, rows: NDArray[np.int64]) -> Keys:
    """Key heads without some rows."""
    mask = np.ones(keys.cost.shape[1])
    mask[rows] = 0
    return replace(keys, moments=keys.moments * mask, cost=keys.cost * mask)


def exact_error(keys: Keys, spared: NDArray[np.int64]) -> float:
    """The mean squared error of int4 with a step a token, and some rows exact."""
    remaining, total = without(keys, spared), 0.0
    for start in range(0, len(remaining.cost), AT_ONCE):
        block = slice(start, start + AT_ONCE)
        *_, squares = next(group_errors(remaining.moments[block], (4,)))
        total += float((remaining.cost[block] * squares).sum())
    return total / len(remaining.cost)
