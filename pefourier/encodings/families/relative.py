"""Encodings of the lag key - query inside attention: a vector for the key, or a bias per head.

shaw, t5, alibi, kerple and erpe have a vector for each lag; tupe for each query position. For
biases, d is the number of heads, with one column per head. Lags have both signs, as in an encoder;
``causal=true`` keeps the lags up to 0, as in a decoder.

sandwich and fire are biases of attention scores. fire can depend on the positions of query and key.
If the lag alone determines the bias, it has vectors of lags, as all others have.

A trained matrix projects the vectors of xl and deberta before attention uses them.
xl (Transformer-XL, XLNet, Conformer) has sines and cosines of the lag; deberta has a trained vector
for each bucket of lags. The vectors have the width of the model. Tables start with the largest
distance before the query, as in the source code of these models.
"""

from functools import cache
from typing import Any, Literal

import numpy as np

from pefourier.encodings.encoding import (
    NO_WAVES,
    Domain,
    Encoding,
    Layout,
    VectorsAt,
    bias_of_pairs,
    equal_pairs,
    finding,
    lags_between,
    lags_on,
    positions,
    waves,
    within,
)
from pefourier.encodings.families.absolute import geometric_frequencies, pair_count, stream
from pefourier.encodings.families.axial import check_points
from pefourier.encodings.grids import OF_CLASS_TOKEN, check_sides
from pefourier.encodings.registry import encoding
from pefourier.errors import LARGEST, PefourierError, check_count, check_size
from pefourier.types import Array, Counts, Floats, Places

Network = tuple[Floats, ...]  # arrays of learned numbers


def by_lag(
    name: str, length: int, d: int, vectors: VectorsAt, *, causal: bool, **facts: Any
) -> Encoding:
    """Encoding of the lags between positions, a bias of d heads by default."""
    facts = {"injection": "bias", **facts}
    return Encoding(name, lags_between(length, causal=causal), d, vectors, **facts)


@encoding("shaw", "Shaw et al., 2018, Eqs. 3-4 (before training)", domain="lag", untrained=True)
def shaw(
    length: int,
    d: int,
    *,
    clip: int = 16,
    causal: bool = False,
    values: bool = False,
    seed: int = 0,
) -> Encoding:
    """A vector for each lag from -clip to clip, shared by all lags beyond (Shaw et al., 2018).

    The vector is added to the key; d is the head size. With ``values=true`` a vector has 2d
    numbers: d added to the key, then d added to the value. The initial numbers are uniform on
    ±√(6/(2k + 1 + d)) with k = clip, as in tensor2tensor.

    Parameters
    ----------
    clip : int
        Lag from which all lags of the same sign share a vector.
    causal : bool
        Whether to keep only the lags up to 0, as in a decoder; otherwise both signs.
    values : bool
        Whether lags also have a vector for the value, which doubles the dimension.
    seed : int
        Seed of the random numbers; the same seed gives the same vectors on every machine.

    Examples
    --------
    >>> table = shaw(6, 8, clip=2).table()  # lags -5 … 5
    >>> len(np.unique(table, axis=0))
    5
    """
    size = (1 + values) * d
    check_size("shaw", 2 * clip + 1, size)
    bound = np.sqrt(6.0 / (2 * clip + 1 + d))
    drawn = np.hstack([*stream(seed).uniform(-bound, bound, (1 + values, 2 * clip + 1, d))])

    return by_lag(
        "shaw",
        length,
        size,
        lambda lag: drawn[np.clip(lag, -clip, clip) + clip],
        causal=causal,
        injection="key",
    )


def t5_buckets(
    lag: Places, buckets: int = 32, max_distance: int = 128, *, causal: bool = False
) -> Places:
    r"""Bucket of each lag (Raffel et al., 2020): single distances, then increasingly wide ranges.

    With b buckets per sign and e = b // 2, a distance r below e has bucket r. Larger distances have
    bucket :math:`e + \lfloor (b - e) \ln(r/e) / \ln(\mathrm{max\_distance}/e) \rfloor`, at most
    b - 1. If two-sided, each sign has half of the buckets, and keys after the query have the upper
    half. If causal, keys after the query share bucket 0.

    Parameters
    ----------
    lag : array of int
        Key - query.

    Examples
    --------
    >>> t5_buckets(np.array([-128, -8, -1, 0, 1, 8, 128]))
    array([15,  8,  1,  0, 17, 24, 31])
    >>> t5_buckets(np.array([-128, -16, -1, 0, 1]), causal=True)
    array([31, 16,  1,  0,  0])
    """
    side = buckets if causal else buckets // 2
    exact = side // 2
    if exact < 1 or (buckets % 2 and not causal) or max_distance <= exact:
        raise PefourierError(
            f"buckets must be an even number from 4 on, or 2 or more if causal, and max_distance "
            f"must be above {exact}; got {buckets} and {max_distance}"
        )
    lag = np.asarray(lag)
    distance = np.maximum(-lag, 0) if causal else np.abs(lag)
    steps = np.log(np.maximum(distance, exact) / exact) / np.log(max_distance / exact)
    far = np.minimum(exact + (steps * (side - exact)).astype(int), side - 1)
    bucket = np.where(distance < exact, distance, far)
    return bucket if causal else bucket + side * (lag > 0)


@encoding("t5", "Raffel et al., 2020, section 2.1 (before training)", domain="lag", untrained=True)
def t5(
    length: int,
    d: int,
    *,
    buckets: int = 32,
    max_distance: int = 128,
    causal: bool = False,
    scale: float = 0.02,
    seed: int = 0,
) -> Encoding:
    """A bias for each head and bucket of lags (`t5_buckets`); d is the number of heads.

    The initial biases are normal with standard deviation `scale`. Lags in the same bucket share a
    vector.

    Parameters
    ----------
    buckets : int
        Number of buckets: one for each small lag, then one for each of increasingly wide ranges.
    max_distance : int
        Distance at which the ranges stop widening. All larger lags share the last bucket, which
        starts nearer: with 32 buckets and 128, at 91, or at 113 if causal.
    causal : bool
        Whether to keep only the lags up to 0, as in a decoder; otherwise both signs.
    scale : float
        Standard deviation of the initial values.
    seed : int
        Seed of the random numbers; the same seed gives the same vectors on every machine.

    Examples
    --------
    >>> len(np.unique(t5(80, 12).table(), axis=0))
    29
    """
    check_size("t5", buckets, d)
    bias = stream(seed).normal(0.0, scale, (buckets, d))

    return by_lag(
        "t5",
        length,
        d,
        lambda lag: bias[t5_buckets(lag, buckets, max_distance, causal=causal)],
        causal=causal,
    )


def alibi_slopes(heads: int) -> Floats:
    """Slopes 2^(-8 i / heads), i = 1 … heads, if heads is a power of 2; otherwise as in BLOOM.

    BLOOM uses the slopes for the next lower power of 2, then every other slope for its double.

    >>> alibi_slopes(6)
    array([0.25      , 0.0625    , 0.015625  , 0.00390625, 0.5       , 0.125     ])
    """
    largest = 2 ** (heads.bit_length() - 1)
    slopes = 2.0 ** (-8.0 * np.arange(1, largest + 1) / largest)
    between = 2.0 ** (-4.0 * np.arange(1, 2 * largest, 2) / largest)
    return np.concatenate([slopes, between[: heads - largest]])


@encoding("alibi", "Press et al., 2022, section 3", domain="lag")
def alibi(length: int, d: int, *, causal: bool = False) -> Encoding:
    """Bias -slope · |lag|, a slope for each head (Press et al., 2022); d is the number of heads.

    If two-sided, opposite lags share a vector; the models in the paper are causal.

    Parameters
    ----------
    causal : bool
        Whether to keep only the lags up to 0, as in a decoder; otherwise both signs.

    Examples
    --------
    >>> alibi(3, 2).table().T
    array([[-0.125     , -0.0625    ,  0.        , -0.0625    , -0.125     ],
           [-0.0078125 , -0.00390625,  0.        , -0.00390625, -0.0078125 ]])
    """
    slopes = alibi_slopes(d)

    return by_lag("alibi", length, d, lambda lag: -np.abs(lag)[:, None] * slopes, causal=causal)


@encoding("kerple", "Chi et al., 2022 (before training)", domain="lag", untrained=True)
def kerple(
    length: int,
    d: int,
    *,
    kernel: Literal["log", "power"] = "log",
    causal: bool = False,
    seed: int = 0,
) -> Encoding:
    """KERPLE: a bias that falls with the logarithm or a power of the distance, for d heads.

    The bias of distance r is −p ln(1 + a r) or −a r^p. The initial p is uniform on (0, 2) and a on
    (0, 1), both at least 0.01, as in the authors' source code (Chi et al., 2022). If two-sided,
    opposite lags share a vector.

    Parameters
    ----------
    kernel : str
        Decrease of the bias with distance: log or power.
    causal : bool
        Whether to keep only the lags up to 0, as in a decoder; otherwise both signs.
    seed : int
        Seed of the random numbers; the same seed gives the same vectors on every machine.

    Examples
    --------
    >>> kerple(3, 1, causal=True).table().T.round(4)  # lags -2, -1, 0
    array([[-0.9747, -0.5922, -0.    ]])
    """
    draw = stream(seed).uniform
    p, a = np.maximum(draw(0.0, 2.0, d), 0.01), np.maximum(draw(0.0, 1.0, d), 0.01)

    def vectors(lag: Places) -> Floats:
        r = np.abs(lag)[:, None].astype(float)
        return np.asarray(-p * np.log1p(a * r) if kernel == "log" else -a * r**p)

    return by_lag("kerple", length, d, vectors, causal=causal)


@encoding("erpe", "Foumani et al., 2023 (ConvTran, before training)", domain="lag", untrained=True)
def erpe(
    length: int, d: int, *, causal: bool = False, scale: float = 0.02, seed: int = 0
) -> Encoding:
    """A learned scalar for each lag and head (Foumani et al., 2023); d is the number of heads.

    The initial values are normal with standard deviation `scale`; the authors start from zero,
    which makes all lags equal. In the paper, the scalars are added after the softmax.

    Parameters
    ----------
    causal : bool
        Whether to keep only the lags up to 0, as in a decoder; otherwise both signs.
    scale : float
        Standard deviation of the initial values.
    seed : int
        Seed of the random numbers; the same seed gives the same vectors on every machine.

    Examples
    --------
    >>> erpe(3, 2).table().shape
    (5, 2)
    """
    check_size("erpe", 2 * length - 1, d)
    bias = stream(seed).normal(0.0, scale, (2 * length - 1, d))

    def vectors(lag: Places) -> Floats:
        within(np.abs(lag), length, "erpe")
        return bias[lag + length - 1]

    return by_lag("erpe", length, d, vectors, causal=causal)


@encoding("tupe", "Ke et al., 2021 (before training)", untrained=True)
def tupe(
    length: int,
    d: int,
    *,
    heads: int = 1,
    buckets: int = 32,
    max_distance: int = 128,
    scale: float = 0.02,
    seed: int = 0,
) -> Encoding:
    """Untied absolute positions and T5 buckets: the biases of a query for all heads and keys.

    The bias is (p_i U^Q) (p_j U^K)^T / √(2 d/heads) + b_(j−i) with layer-normalised vectors p of
    size d and the biases b of `t5_buckets` (Ke et al., 2021). The vector of a position has
    heads · length columns, with all keys of one head before the next head; d is the size of p. The
    initial p, U and b are normal with standard deviation `scale`.

    Parameters
    ----------
    heads : int
        Number of attention heads; vectors have a column for each head and key.
    buckets : int
        Number of buckets: one for each small lag, then one for each of increasingly wide ranges.
    max_distance : int
        Distance at which the ranges stop widening. All larger lags share the last bucket, which
        starts nearer: at 91 with 32 buckets and 128.
    scale : float
        Standard deviation of the initial values.
    seed : int
        Seed of the random numbers; the same seed gives the same vectors on every machine.

    Examples
    --------
    >>> tupe(5, 8, heads=2).table().shape
    (5, 10)
    """
    if d % heads:
        raise PefourierError(
            f"tupe splits d into heads and needs a multiple of heads={heads}; got d={d}"
        )
    check_size("tupe", max(length, d, buckets), d)

    @cache  # drawn when first used, because a refused size must not cost time
    def weights() -> Network:
        draw = stream(seed).normal
        p = draw(0.0, scale, (length, d))
        p -= p.mean(axis=1, keepdims=True)
        p /= np.sqrt(p.var(axis=1, keepdims=True) + 1e-5)  # torch's epsilon
        query, key = (
            (p @ u).reshape(length, heads, d // heads) for u in draw(0.0, scale, (2, d, d))
        )
        return query, key, draw(0.0, scale, (buckets, heads))

    def vectors(x: Array) -> Floats:
        query, key, bias = weights()
        bins = t5_buckets(np.arange(-length, length), buckets, max_distance)  # at lag + length
        i = np.arange(length)[within(x, length, "tupe")]
        logits = np.einsum("ihc,jhc->ihj", query[i], key) / np.sqrt(2 * d / heads)
        lag = np.arange(length) - i[:, None]
        logits += bias[bins[lag + length]].transpose(0, 2, 1)
        return np.reshape(logits, (len(i), heads * length))

    return Encoding(
        "tupe",
        positions(length),
        heads * length,
        vectors,
        injection="bias",
        params={"d": heads * length, "embedding": d},
    )


HIDDEN = 512  # hidden units of SwinV2's network


def lags_of_window(length: int, grid: Counts, prefix: int = 0) -> Domain:
    """Displacements within a window on a grid, or on one axis without a grid or a prefix."""
    check_sides("a window", grid, 0, length if grid else None)
    return lags_on(grid or (length,), prefix) if grid or prefix else lags_between(length)


def free_biases(name: str, domain: Domain, d: int, scale: float, seed: int) -> Encoding:
    """Biases from a random table ordered by displacement query - key, then other rows."""
    check_size(name, len(domain), d)
    drawn, points = stream(seed).normal(0.0, scale, (len(domain), d)), len(domain) - domain.prefix
    table = np.vstack([drawn[points:], drawn[:points][::-1]])

    def vectors(x: Array) -> Floats:
        check_points(name, domain, x)
        return np.asarray(table[np.asarray(x) - domain.x[0]])

    return Encoding(name, domain, d, vectors, injection="bias")


@encoding("swin", "Liu et al., 2021 (before training)", domain="lag", untrained=True)
def swin(length: int, d: int, *, grid: Counts = (), scale: float = 0.02, seed: int = 0) -> Encoding:
    """A learned scalar for each displacement in a window and each of d heads (Swin Transformer).

    In the authors' table, the displacement (dy, dx) from key to query has row
    (dy + H − 1)(2W − 1) + dx + W − 1. The initial biases are normal with standard deviation
    `scale`.

    Parameters
    ----------
    grid : tuple of int
        Sides of the window, such as 7x7; one axis by default.
    scale : float
        Standard deviation of the initial values.
    seed : int
        Seed of the random numbers; the same seed gives the same vectors on every machine.

    Examples
    --------
    >>> swin(49, 3, grid=(7, 7)).table().shape
    (169, 3)
    """
    return free_biases("swin", lags_of_window(length, grid), d, scale, seed)


@encoding("beit", "Bao et al., 2022 (before training)", domain="lag", untrained=True)
def beit(length: int, d: int, *, grid: Counts = (), scale: float = 0.02, seed: int = 0) -> Encoding:
    r"""Swin's biases over the whole image, and three for the class token (BEiT).

    The first three rows belong to no displacement: from the class token to other tokens, from other
    tokens to it, and to itself. In the authors' table, they are the last rows. The authors start
    from zeros; here the initial values are normal with standard deviation `scale`.

    Parameters
    ----------
    grid : tuple of int
        Sides of the image in patches, such as 14x14; one axis by default.
    scale : float
        Standard deviation of the initial values.
    seed : int
        Seed of the random numbers; the same seed gives the same vectors on every machine.

    Examples
    --------
    >>> beit(196, 12, grid=(14, 14)).table().shape
    (732, 12)
    """
    return free_biases("beit", lags_of_window(length, grid, OF_CLASS_TOKEN), d, scale, seed)


def log_spaced(lags: Places, sides: Places) -> Floats:
    """SwinV2's input sign(u) log2(1 + |u|) / 3 with u = 8 lag / (side - 1); 0 for a side of 1.

    >>> log_spaced(np.array([[-6, 3]]), np.array([7, 7])).round(7)
    array([[-1.0566417,  0.773976 ]])
    """
    u = 8.0 * lags / np.maximum(np.asarray(sides) - 1, 1)
    return np.asarray(np.sign(u) * np.log2(1 + np.abs(u)) / 3)


def swin2_bias(coordinates: Floats, weights: Floats, shifts: Floats, heads: Floats) -> Floats:
    """16 sigmoid(relu(c W + b) V), (n, heads): W (axes, hidden), b (hidden,), V (hidden, heads)."""
    hidden = np.maximum(coordinates @ weights + shifts, 0.0)
    with np.errstate(over="ignore"):  # on overflow, the bias is 0, which is the limit
        return 16 / (1 + np.exp(-(hidden @ heads)))


def of_network(domain: Domain, sides: Places, network: Network) -> Encoding:
    """Biases of SwinV2 from the W, b and V of a network, which also apply to other windows."""

    def vectors(x: Array) -> Floats:
        check_points("swin2", domain, x)
        toward_query = -domain.places(x).reshape(len(x), len(domain.sides))  # query - key
        return swin2_bias(log_spaced(toward_query, sides), *network)

    return Encoding(
        "swin2",
        domain,
        network[-1].shape[1],
        vectors,
        injection="bias",
        rebuild_at=lambda window: of_network(lags_on(window), sides, network),
    )


@encoding(
    "swin2", "Liu et al., 2022 (Swin Transformer V2, before training)", domain="lag", untrained=True
)
def swin2(
    length: int,
    d: int,
    *,
    grid: Counts = (),
    pretrained: Counts = (),
    scale: float = 0.02,
    seed: int = 0,
) -> Encoding:
    """Continuous biases (Swin Transformer V2): 16 sigmoid of a network of log-spaced displacements.

    The input is sign(u) log2(1 + |u|) / 3 with u = 8 (query - key) / (H - 1) on each axis; the
    hidden layer has 512 units. The initial weights are normal with standard deviation `scale`, and
    the initial shifts are zero.

    Parameters
    ----------
    grid : tuple of int
        Sides of the window, such as 8x8; one axis by default.
    pretrained : tuple of int
        Sides of the pretraining window, which scale the displacements; by default `grid`.
    scale : float
        Standard deviation of the initial weights.
    seed : int
        Seed of the random numbers; the same seed gives the same vectors on every machine.

    Examples
    --------
    >>> swin2(64, 3, grid=(8, 8)).table().shape
    (225, 3)
    """
    check_size("swin2", HIDDEN, d)
    domain = lags_of_window(length, grid)
    sides = np.array(pretrained or grid or (length,))
    for side in sides.tolist():
        check_count("a side of pretrained", side)
    if len(sides) != len(domain.sides):
        raise PefourierError(
            f"pretrained needs one side for each of {len(domain.sides)} axes; got {len(sides)}"
        )

    draw = stream(seed).normal
    weights = draw(0.0, scale, (len(sides), HIDDEN))
    return of_network(domain, sides, (weights, np.zeros(HIDDEN), draw(0.0, scale, (HIDDEN, d))))


@encoding("sandwich", "Chi et al., 2023 (arXiv 2212.10356)", domain="lag")
def sandwich(length: int, d: int, *, head: int = 64, causal: bool = False) -> Encoding:
    """Bias from inner products of sinusoidal vectors, with a different scale for each of d heads.

    Head h = 1 … d has the bias (Σ_k cos(r 10000^(−2k/c)) − c/2) / (8h/d) at distance r. The sum is
    over k = 1 … c/2 with c = `head`, the size of a head; k starts at 1, as in NeMo's source code.
    Nothing is trained. If two-sided, opposite lags share a vector.

    Parameters
    ----------
    head : int
        Size of a head, an even number: twice the number of cosines.
    causal : bool
        Whether to keep only the lags up to 0, as in a decoder; otherwise both signs.

    Examples
    --------
    >>> sandwich(2, 8, causal=True).table()[0, [0, 7]].round(4)  # lag -1, heads 1 and 8
    array([-0.6235, -0.0779])
    """
    check_count("head / 2", head / 2, maximum=2**14)  # cosines of each lag
    frequencies = 10000.0 ** (-2.0 * np.arange(1, head // 2 + 1) / head)

    def vectors(lag: Places) -> Floats:
        cosines = [np.cos(np.abs(lag) * frequency) for frequency in frequencies]
        return np.asarray(
            (np.sum(cosines, axis=0) - head / 2)[:, None] * d / (8.0 * np.arange(1, d + 1))
        )

    return by_lag("sandwich", length, d, vectors, causal=causal)


UNITS = 32  # of the hidden layer of FIRE's network


@encoding("fire", "Li et al., 2024 (before training)", domain="pair", untrained=True)
def fire(
    length: int,
    d: int,
    *,
    c: float = 0.1,
    threshold: int = 512,
    causal: bool = False,
    seed: int = 0,
) -> Encoding:
    """FIRE: a network computes the biases of d heads from distances relative to the query.

    The bias of distance r and query i is f(ψ(r) / ψ(max(i, L))) with ψ(x) = ln(1 + cx). f is a
    network with one hidden layer of 32 units and ReLU; c, L and f are trained (arXiv 2310.04418).
    For queries beyond the threshold L, the divisor grows with the position of the query
    (progressive interpolation), and the input of f stays below 1 for keys before the query. For up
    to L + 1 positions, the bias depends on the lag alone, and all questions apply. For more,
    check-faithful, compare, context and train apply. The paper's listing starts from c = 0.1 and
    L = 512, trains c and a factor of L, and adds 1e-6 to the divisor, which is left out here;
    public source code halves L. The initial weights are uniform on ±1/√inputs.

    Parameters
    ----------
    c : float
        Scale of distances inside the logarithm.
    threshold : int
        Query L up to which the bias depends on the lag alone.
    causal : bool
        Whether to keep only the lags up to 0, as in a decoder; otherwise both signs.
    seed : int
        Seed of the random numbers; the same seed gives the same vectors on every machine.

    Examples
    --------
    >>> fire(40, 4, threshold=20).bias.shape
    (4, 40, 40)
    """

    check_size("fire", UNITS, d)
    draw, end = stream(seed).uniform, UNITS**-0.5
    inner, start = draw(-1.0, 1.0, (1, UNITS)), draw(-1.0, 1.0, UNITS)
    outer, shifts = draw(-end, end, (UNITS, d)), draw(-end, end, d)

    def biases(lag: Array, query: Array) -> Floats:
        divisor = np.log1p(c * np.maximum(query, threshold)) + 1e-6  # as in public source code
        share = np.log1p(c * np.abs(np.asarray(lag, dtype=float))) / divisor
        hidden = np.maximum(share[..., None] * inner[0] + start, 0.0)
        # sums have one order for any number of rows, unlike hidden @ outer
        terms = (hidden[..., i, None] * weights for i, weights in enumerate(outer))
        return sum(terms, shifts)

    def between(queries: Places, keys: Places) -> Floats:
        lag = keys - queries[:, None]
        bias = np.moveaxis(biases(lag, queries[:, None]), -1, 0)
        return np.where(causal & (lag > 0), -np.inf, bias)

    if length > threshold + 1:
        lags = lags_between(length, causal=causal)
        remarks = (finding("distances-interpolated", threshold=threshold),)
        return bias_of_pairs("fire", between, lags, d, findings=remarks)
    return by_lag("fire", length, d, lambda lag: biases(lag, np.zeros(1)), causal=causal)


@encoding("xl", "Dai et al., 2019 (Transformer-XL), section 3.3", domain="lag")
def xl(
    length: int,
    d: int,
    *,
    rho: float = 10000.0,
    layout: Layout = "halves",
    divisor: Literal["d", "d/2-1"] = "d",
    clamp: int = 0,
    causal: bool = False,
) -> Encoding:
    """Sines and cosines of the lag, projected and added to the key (Transformer-XL).

    Columns are sin(ω_i r), cos(ω_i r) of the distance r = query - key, with ω_i = ρ^(−2i/d). If R
    is the vector of a lag, a score is q·k + q·WR + u·k + v·WR, where W is a trained matrix, and u
    and v are trained vectors of each head. `train` adds R to the key, without W, u and v.

    Parameters
    ----------
    rho : float
        Base of the frequencies; a larger base lowers the lowest frequency.
    layout : str
        halves: all sines, then all cosines (Transformer-XL, XLNet); interleaved: sine and cosine of
        a frequency adjacent (Conformer).
    divisor : str
        Divisor in the exponent: d, or d/2-1, with which the lowest frequency is 1/ρ (Gemma).
    clamp : int
        Distance from which all lags of the same sign share a vector (clamp_len of XLNet); 0: no
        limit.
    causal : bool
        Whether to keep only the lags up to 0, as with attn_type uni of XLNet; otherwise both signs.

    Examples
    --------
    >>> xl(3, 2).table().round(3)  # keys 2 and 1 before the query, itself, 1 and 2 after
    array([[ 0.909, -0.416],
           [ 0.841,  0.54 ],
           [ 0.   ,  1.   ],
           [-0.841,  0.54 ],
           [-0.909, -0.416]])
    """
    pair_count("xl", d)
    measure = equal_pairs(geometric_frequencies(d, rho, divisor))
    farthest = clamp or LARGEST
    return by_lag(
        "xl",
        length,
        d,
        lambda lag: waves(measure.phases(np.clip(-np.asarray(lag), -farthest, farthest)), layout),
        causal=causal,
        injection="key",
        measure=NO_WAVES if farthest < length - 1 else measure,
    )


def deberta_buckets(distance: Places, buckets: int = 256, max_distance: int = 512) -> Places:
    r"""Signed bucket of each distance query - key (DeBERTa V2): exact, then logarithmic.

    With e = buckets // 2, distances r up to e are their own bucket. Larger distances have bucket
    :math:`e + \lceil (e - 1) \ln(r/e) / \ln((\mathrm{max\_distance} - 1)/e) \rceil`. With buckets=0
    (DeBERTa V1), all distances are exact.

    >>> deberta_buckets(np.array([-511, -128, -1, 0, 5, 200]))
    array([-255, -128,   -1,    0,    5,  169])
    """
    distance = np.asarray(distance)
    if not buckets:
        return distance
    middle = buckets // 2
    if middle < 1 or max_distance <= middle + 1:
        raise PefourierError(
            f"buckets must be 0, or at least 2, and max_distance above {middle + 1}; got {buckets} "
            f"and {max_distance}"
        )
    size = np.maximum(np.abs(distance), middle)
    steps = np.log(size / middle) / np.log((max_distance - 1) / middle) * (middle - 1)
    far = (middle + np.ceil(steps)) * np.sign(distance)
    return np.where(size <= middle, distance, far).astype(np.int64)


@encoding("deberta", "He et al., 2021 (DeBERTa, before training)", domain="lag", untrained=True)
def deberta(
    length: int,
    d: int,
    *,
    buckets: int = 256,
    max_distance: int = 512,
    p2c: bool = True,
    causal: bool = False,
    scale: float = 0.02,
    seed: int = 0,
) -> Encoding:
    """A vector for each bucket of lags, multiplied by queries and keys in attention (DeBERTa).

    If E is the vector of a bucket (`deberta_buckets`), a score is q·k + q·W_k E + k·W_q E, divided
    by √(3 · head size). The second term is c2p, the third is p2c; without p2c, the divisor is
    √(2 · head size). Both terms use the bucket of query - key. The initial numbers are normal with
    standard deviation `scale`. `train` uses E without W_k and W_q, and divides by √(head size).

    Parameters
    ----------
    buckets : int
        Number of buckets of each sign; the first half have one distance each. 0: a bucket for each
        distance.
    max_distance : int
        Distance at which the buckets end; a SPEC can also call it max.
    p2c : bool
        Whether scores have the term p2c in addition to c2p.
    causal : bool
        Whether to keep only the lags up to 0, as in a decoder; otherwise both signs.
    scale : float
        Standard deviation of the initial values.
    seed : int
        Seed of the random numbers; the same seed gives the same vectors on every machine.

    Examples
    --------
    >>> len(np.unique(deberta(512, 8).table(), axis=0))
    511
    """
    check_size("deberta", 2 * (buckets or max_distance), d)
    table = stream(seed).normal(0.0, scale, (2 * (buckets or max_distance), d))
    return of_distances(length, table, buckets, max_distance, p2c=p2c, causal=causal)


def of_distances(
    length: int,
    table: Floats,
    buckets: int,
    max_distance: int,
    *,
    p2c: bool = True,
    causal: bool = False,
) -> Encoding:
    """Encoding of a table of vectors (2 span, d); row span belongs to distance 0."""
    span = len(table) // 2

    def vectors(lag: Places) -> Floats:
        row = deberta_buckets(-np.asarray(lag), buckets, max_distance) + span
        return table[np.clip(row, 0, 2 * span - 1)]

    kind = "key-query" if p2c else "key"
    return by_lag("deberta", length, table.shape[1], vectors, causal=causal, injection=kind)
