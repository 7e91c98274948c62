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
from dataclasses import replace
from math import erfc, log, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from pefourier.encodings.encoding import row_blocks
from pefourier.types import Array, Bools, Counts, Places, frozen
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
SMALL = 4  # at most one in SMALL pairs is spared
OFTEN, MOSTLY = 3, 0.6  # even shares of the tokens, or a share, in which a spared pair is largest
BOTH = False, True
SCHEMES: tuple[tuple[str, int, str, bool], ...] = (  # format, bits, granularity, zero point
    *((f"int{bits}", bits, name, zero) for zero in BOTH for name in SIZES for bits in BITS),
    *((f"int{bits}", bits, "channel", zero) for bits in BITS for zero in BOTH),
    *((name, 8, "value", False) for name in MANTISSAS),
)


@frozen
class LayerError:
    """Error of the attention scores of a layer."""

    layer: int
    before: float | None
    after: float


@frozen
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


@frozen
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


@frozen
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
        waves = np.exp(1j * np.multiply.outer(places, self.omega)).astype(np.complex64)
        rotated, (a, b) = x.copy(), self.rows
        pairs = (x[..., a] + 1j * x[..., b]) * waves[:, None]
        rotated[..., a], rotated[..., b] = pairs.real, pairs.imag
        return rotated

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


@frozen
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
    """Return the pairs that set the step of most tokens, until sparing them halves the error.

    A pair is spared if it holds the largest number of a token far more often than an even share, in
    the median head. One pair after another is made exact.
    """
    keys, count = keys_of(shares, rotation), len(rotation.index)
    limit, chosen = max(count // SMALL, 1), list[int]()
    x = np.concatenate([rotated for *_, rotated in keys.drawn(rotation)], axis=1)
    whole = left = int4_error(keys, x)
    while len(chosen) < limit and left > whole / 4:
        sizes = np.abs(x)
        largest = sizes.max(axis=2, keepdims=True)
        often = (sizes[..., rotation.rows].max(axis=2) == largest).mean(axis=0)
        often = np.median(np.where(largest[0] > 0, often, 0), axis=0)
        if often.max() < min(OFTEN / count, MOSTLY):
            break
        chosen.append(int(np.argmax(often)))
        x[..., rotation.rows[:, chosen[-1]]] = 0
        left = int4_error(keys, x)
    chosen.sort()
    rows = tuple((int(a), int(b)) for a, b in rotation.rows[:, chosen].T)
    index, ratio = tuple(rotation.index[chosen].tolist()), sqrt(left / whole)
    return Spared(rotation.name, index, rows, ratio, ratio <= 0.5, limit)


def int4_error(keys: Keys, x: Array) -> float:
    """Return the mean squared error of rotated keys in int4 with one step per token."""
    return float((keys.after * squared_errors(x, 4, None, zero=False)).sum(axis=1).mean())
