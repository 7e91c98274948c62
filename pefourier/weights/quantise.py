r"""Error of attention scores from rounding cached keys, and the pairs to keep in high precision.

The model treats channels of queries and keys as independent Gaussians with the second moments of
their rows. A rounding error e of a key changes a score by :math:`q \cdot e`. Relative to scores, at
random positions within the length,

.. math:: \epsilon^2 = \sum_i E[q_i^2]\, E[e_i^2] \,/\, E[(q \cdot k)^2].

Squared errors are means over heads. Rotation at position p exchanges a part :math:`\sin^2 \omega p`
of the moments of a pair's rows; means over positions have closed forms.

Keys with a step per token or group are drawn with a fixed seed, rotated and rounded. A quantiser of
b bits has the step :math:`D = \max_i |x_i| / (2^{b-1} - 1)`, or with a zero point, the stored
minimum, :math:`(\max_i x_i - \min_i x_i) / (2^b - 1)`. A step per channel depends on the extremes
of all tokens, which have a closed form. The errors of the channel have the variance :math:`D^2/12`;
the values that set the step have no error. Formats with m bits of mantissa round in proportion to
x: :math:`E[e^2] = E[x^2]\, 4^{-m} / (32 \ln 2)`, averaged over scales.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import erfc, log, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from pefourier.encodings.encoding import row_blocks
from pefourier.types import Array, Bools, Counts, Floats, Places
from pefourier.weights.pair_energy import LayerShares
from pefourier.writing.text import agreeing, ranges

BITS = 8, 4
SIZES = {"token": None, "group of 64": 64, "group of 32": 32}  # channels that share a step
MANTISSAS = {"fp8 e4m3": 3, "fp8 e5m2": 2}
TOKENS, FEWEST = 2**13, 2**5  # drawn for all heads together, and at least for each
AT_ONCE = 16  # heads
TINY = 1e-30  # replaces the step of channels of zeros
SIZE = np.linspace(0.0, 10.0, 64)  # of extremes, in standard deviations
PHASES = 8  # of the moments of a channel over positions
PER_DEVIATION, FARTHEST = 2**10, 8  # steps of a table, up to 8 deviations
OUTSIDE = np.array(  # probability that a Gaussian exceeds a number of deviations in size
    [erfc(i / PER_DEVIATION / sqrt(2)) for i in range(FARTHEST * PER_DEVIATION)]
)
NAMED = 0.9  # least share of the bootstrap draws that choose a reported pair
DRAWS = 200
SMALL = 4  # at most one in SMALL pairs is spared
HALF = 0.23  # target for squared errors; below 1/4 (half the error) since estimates are rough
BOTH = False, True
SCHEMES: tuple[tuple[str, int, str, bool], ...] = (  # format, bits, granularity, zero point
    *((f"int{bits}", bits, name, zero) for zero in BOTH for name in SIZES for bits in BITS),
    *((f"int{bits}", bits, "channel", zero) for bits in BITS for zero in BOTH),
    *((name, 8, "value", False) for name in MANTISSAS),
)


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
        noun = agreeing(len(self.pairs), "pair", "pairs")
        return f"{noun} {ranges(self.pairs, count)} (rows {ranges(row, count)})"


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

    def exchanged(self, x: Array) -> Array:
        """Exchange the two rows of each pair in (…, d)."""
        found = x.copy()
        found[..., self.rows] = x[..., self.rows[::-1]]
        return found

    def mixed(self, moments: Array, share: Array) -> Array:
        """Mix moments (heads, d): both rows of a pair keep a share and exchange the rest."""
        kept = np.ones(moments.shape[1])
        kept[self.rows] = share
        return kept * moments + (1 - kept) * self.exchanged(moments)

    def rotate(self, x: Array, places: Places) -> Array:
        """Rotate vectors (tokens, heads, d) at the positions of tokens."""
        waves = np.exp(1j * np.multiply.outer(places, self.omega))
        cosines, sines = np.ones((len(x), 1, x.shape[2])), np.zeros((len(x), 1, x.shape[2]))
        cosines[:, 0, self.rows] = waves.real[:, None]
        sines[:, 0, self.rows] = np.stack([-waves.imag, waves.imag], axis=1)
        return np.asarray(x * cosines.astype(x.dtype) + self.exchanged(x) * sines.astype(x.dtype))

    @property
    def mean(self) -> NDArray[np.complex128]:
        """The mean of exp(2iωp) over positions."""
        whole, ratio = np.sin(self.length * self.omega), np.ones_like(self.omega)
        sines = np.sin(self.omega)
        np.divide(whole, self.length * sines, out=ratio, where=np.abs(sines) > 1e-15)
        mean: NDArray[np.complex128] = ratio * np.exp(1j * self.omega * (self.length - 1))
        return mean

    @property
    def kept(self) -> Array:
        """The share of its moment that a row keeps, as a mean over positions."""
        return np.asarray((1 + self.mean.real) / 2)


@dataclass(frozen=True)
class Keys:
    """Key heads of all layers before rotation.

    The cost of a channel is the squared relative error of scores per unit of its squared error.
    """

    layer: Places  # (heads,)
    moments: Array  # (heads, d), scaled to a maximum of 1 in each head
    before: Array  # (heads, d): the cost of errors before rotation
    after: Array  # (heads, d): of errors after rotation

    def drawn(self, rotation: Rotation) -> Iterator[tuple[slice, Array, Array]]:
        """Yield heads, and their keys (tokens, heads, d) before and after rotation."""
        rng, count = np.random.default_rng(0), len(self.moments)
        tokens = max(TOKENS // count, FEWEST)
        for heads in row_blocks(count, AT_ONCE):
            deviations = np.sqrt(self.moments[heads], dtype=np.float32)
            x = rng.standard_normal((tokens, *deviations.shape), np.float32) * deviations
            yield heads, x, rotation.rotate(x, rng.integers(rotation.length, size=tokens))


def keys_of(shares: Sequence[LayerShares], rotation: Rotation) -> Keys:
    """Return key heads, without heads of zeros."""
    lags = (1 + np.abs(rotation.mean) ** 2) / 2
    parts: list[tuple[Array, ...]] = []
    for layer in shares:
        q, k = (e / np.maximum(e.max(axis=1, keepdims=True), 1e-300) for e in layer.rows or ())
        met = rotation.mixed(q, lags)
        score = (met * np.repeat(k, len(q) // len(k), axis=0)).sum(axis=1)[:, None]
        costs = (
            np.divide(e, score, out=np.zeros_like(e), where=score > 0)
            for e in (met, rotation.mixed(q, rotation.kept))
        )
        grouped = (cost.reshape(len(k), -1, k.shape[1]).mean(axis=1) for cost in costs)
        parts.append((np.full(len(k), layer.layer), k, *grouped))
    layers, moments, *sides = (np.concatenate(part) for part in zip(*parts, strict=True))
    used = sides[0].any(axis=1)
    return Keys(layers[used], moments[used], *(cost[used] for cost in sides))


def squared_errors(x: Array, bits: int, size: int | None, *, zero: bool) -> Array:
    """Return the mean squared errors (heads, d) of keys (tokens, heads, d) rounded in groups."""
    squares = []
    for part in np.split(x, range(size, x.shape[2], size) if size else [], axis=2):
        top = (part if zero else np.abs(part)).max(axis=2, keepdims=True)
        low = part.min(axis=2, keepdims=True) if zero else np.float32(0)
        step = np.maximum((top - low) / np.float32(2 ** (bits - 1 + zero) - 1), np.float32(TINY))
        steps = (part - low) / step
        squares.append(np.square((steps - np.rint(steps)) * step).mean(axis=0, dtype=float))
    return np.concatenate(squares, axis=1)


def channel_extremes(moments: Array, rotation: Rotation) -> tuple[Array, Array]:
    """Return E[max x^2] and E[(max x - min x)^2] over the tokens of each channel (heads, d).

    Moments of rows are those before rotation.
    """
    other = rotation.exchanged(moments)
    mean = np.maximum((moments + other) / 2, 1e-300)
    angles = np.zeros(moments.shape[1])
    angles[rotation.rows] = np.minimum(2 * rotation.omega * rotation.length, 2 * pi)
    phases = np.multiply.outer(angles, (np.arange(PHASES) + 0.5) / PHASES)
    relative = 1 + ((moments - other) / (2 * mean))[..., None] * np.cos(phases)
    place = SIZE * PER_DEVIATION / np.sqrt(np.maximum(relative, 1e-12))[..., None]
    beyond = OUTSIDE[np.minimum(place, len(OUTSIDE) - 1).astype(np.int32)].mean(axis=2)
    beyond = np.minimum(beyond, 1 - 1e-12)
    largest, one_side = (
        1 - np.exp(rotation.length * np.log1p(-part)) for part in (beyond, beyond / 2)
    )
    square, square_of_side = (np.trapezoid(2 * SIZE * part, SIZE) for part in (largest, one_side))
    ends = square_of_side + np.trapezoid(one_side, SIZE) ** 2
    return mean * square, 2 * mean * ends


def scheme_errors(x: Array, moments: Array, rotation: Rotation) -> Iterator[Array]:
    """Yield the squared errors (heads, d) of drawn keys for each of `SCHEMES`."""
    extremes = channel_extremes(moments, rotation)
    for name, bits, unit, zero in SCHEMES:
        if unit == "channel":
            rounded = max(1 - (1 + zero) / rotation.length, 0.0)  # the others set a step
            yield extremes[zero] * rounded / (12 * (2 ** (bits - 1 + zero) - 1) ** 2)
        elif unit == "value":
            yield rotation.mixed(moments, rotation.kept) / (4.0 ** MANTISSAS[name] * 32 * log(2))
        else:
            yield squared_errors(x, bits, SIZES[unit], zero=zero)


def quantisation_errors(
    shares: Sequence[LayerShares], rotation: Rotation
) -> Iterator[QuantisationError]:
    """Yield the error of each scheme over all heads of a rotation."""
    keys = keys_of(shares, rotation)
    is_known = not any(layer.halved for layer in shares)
    still = replace(rotation, rows=rotation.rows[:, :0], omega=rotation.omega[:0])
    blocks = [
        (scheme_errors(x, m, still), scheme_errors(rotated, m, rotation))
        for heads, x, rotated in keys.drawn(rotation)
        for m in [keys.moments[heads]]
    ]
    first, second = (
        map(np.concatenate, zip(*side, strict=True)) for side in zip(*blocks, strict=True)
    )
    for scheme, plain, squares in zip(SCHEMES, first, second, strict=True):
        costs = keys.after * squares
        early = (keys.before * plain).sum(axis=1) if is_known else None
        late = costs.sum(axis=1)
        of_pairs = costs[:, rotation.rows].sum(axis=1).mean(axis=0)
        layers = tuple(
            LayerError(int(n), *mean_errors(early, late, keys.layer == n))
            for n in np.unique(keys.layer)
        )
        totals = mean_errors(early, late, np.ones(len(late), bool))
        yield QuantisationError(rotation.name, *scheme, *totals, np.sqrt(of_pairs), layers)


def mean_errors(before: Array | None, after: Array, of: Bools) -> tuple[float | None, float]:
    """Return the root mean squared errors of some heads."""
    early = None if before is None else sqrt(float(before[of].mean()))
    return early, sqrt(float(after[of].mean()))


def spared_pairs(shares: Sequence[LayerShares], rotation: Rotation) -> Spared:
    """Return the pairs that bootstrap samples of heads agree on, and the effect of sparing them."""
    keys = keys_of(shares, rotation)
    limit = max(len(rotation.index) // SMALL, 1)
    gains, errors = greedy_path(keys, rotation, limit)
    heads = len(keys.after)
    weights = np.random.default_rng(0).multinomial(heads, np.full(heads, 1 / heads), DRAWS)
    count = np.zeros(len(rotation.index))
    for draw in weights:
        remaining, chosen = errors @ draw, np.zeros(len(count), bool)
        enough = np.r_[remaining <= HALF * remaining[0], True][: len(gains) + 1]
        for gain in gains[: int(np.argmax(enough))]:
            chosen[np.argmax(np.where(chosen, -np.inf, gain @ draw))] = True
        count += chosen
    stable = np.flatnonzero(count >= NAMED * DRAWS)
    rows = rotation.rows[:, stable]
    ratio = sqrt(exact_error(keys, rotation, rows) / exact_error(keys, rotation, rows[:, :0]))
    index = tuple(rotation.index[stable].tolist())
    pairs = tuple((int(a), int(b)) for a, b in rows.T)
    return Spared(rotation.name, index, pairs, ratio, ratio <= 0.5, limit)


def greedy_path(keys: Keys, rotation: Rotation, limit: int) -> tuple[list[Array], Floats]:
    """Choose pairs one by one that reduce the error of int4 with one step per token the most.

    Returns the gain of each pair (pairs, heads) at each step, for a chosen pair that at its choice;
    and the errors (steps, heads) before each step and after the last. Errors are estimates for the
    mean step, limited to the moment of a channel.
    """
    x = np.abs(np.concatenate([x for _, _, x in keys.drawn(rotation)], axis=1))
    moments, cost = np.square(x).mean(axis=0, dtype=float), keys.after.copy()
    rows, path = rotation.rows, list[int]()
    gains: list[Array] = []
    errors: list[Array] = []
    for _ in range(limit + 1):
        square, squares_without = largest_squares(x, rows)
        errors.append((cost * np.minimum(square[:, None], moments)).sum(axis=1))
        if len(path) == limit or errors[-1].mean() <= HALF * errors[0].mean():
            break
        remaining = np.minimum(squares_without[..., None], moments[:, None]) * cost[:, None]
        own = np.minimum(squares_without[:, None], moments[:, rows]) * cost[:, rows]
        gain = (errors[-1][:, None] - remaining.sum(axis=2) + own.sum(axis=1)).T
        if path:
            gain[path] = gains[-1][path]
        gains.append(gain)
        totals = gain.mean(axis=1)
        totals[path] = -np.inf
        path.append(int(np.argmax(totals)))
        x[..., rows[:, path[-1]]] = cost[:, rows[:, path[-1]]] = 0
    return gains, np.array(errors)


def largest_squares(sizes: Array, rows: Places) -> tuple[Array, Array]:
    """Return squared errors of int4 with a step per token: (heads,), and without each pair.

    A step is the largest of the sizes (tokens, heads, d) over 7.
    """
    others = np.delete(sizes, rows.ravel(), axis=2).max(axis=2, initial=0, keepdims=True)
    competing = np.concatenate([sizes[..., rows].max(axis=2), others], axis=2)
    second, first = np.moveaxis(np.square(np.partition(competing, -2, axis=2)[..., -2:]), 2, 0)
    sets_step = competing.argmax(axis=2)[..., None] == np.arange(rows.shape[1])
    less = np.where(sets_step, (first - second)[..., None], 0).mean(axis=0, dtype=float)
    square = first.mean(axis=0, dtype=float)
    return square / (12 * 7**2), (square[:, None] - less) / (12 * 7**2)


def exact_error(keys: Keys, rotation: Rotation, spared: Places) -> float:
    """Return the mean squared error of int4 with one step per token if some rows are exact."""
    total = 0.0
    for heads, _, x in keys.drawn(rotation):
        x[..., spared] = 0
        squares = squared_errors(x, 4, None, zero=False)
        total += float((keys.after[heads] * squares).sum())
    return total / len(keys.after)
