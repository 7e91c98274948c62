"""Biases of attention scores: sandwich, pseudo-gaussian, dpb, fire and fox.

d is the number of heads, with one column per head. fire and fox can depend on the positions of
query and key. If the lag alone determines the bias, they have vectors of lags, as all others have.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Literal

import numpy as np

from pefourier.encodings.encoding import Encoding, bias_of_pairs, finding, lags_between
from pefourier.encodings.families.absolute import stream
from pefourier.encodings.families.relative import alibi_slopes, by_lag
from pefourier.encodings.registry import encoding
from pefourier.errors import PefourierError, check_above, check_count, check_size
from pefourier.types import Array, Counts, Fields, Floats, Places

Layers = Sequence[tuple[Floats, Floats]]  # weights (inputs, outputs) and shifts (outputs,)


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


@encoding("pseudo-gaussian", "TPS in imics-lab/positional-encoding-benchmark", domain="lag")
def pseudo_gaussian(length: int, d: int, *, power: int = 2, causal: bool = False) -> Encoding:
    """Bias −r²/2, or −r with power=1, of the distance r, the same for each of d heads.

    Added before the softmax, the bias multiplies weights by exp(−r²/2) before these are normalised
    (TPS, temporal pseudo-Gaussian attention). power=1 is `alibi` with slope 1 in all heads; the
    power kernel of `kerple` contains both, with p = power and a = 1/power. Nothing is trained.

    Parameters
    ----------
    power : int
        Power of the distance, 1 or 2.
    causal : bool
        Whether to keep only the lags up to 0, as in a decoder; otherwise both signs.

    Examples
    --------
    >>> pseudo_gaussian(4, 1, causal=True).table().T  # lags -3 … 0
    array([[-4.5, -2. , -0.5, -0. ]])
    """
    check_count("power", power, maximum=2)

    def vectors(lag: Places) -> Floats:
        return np.repeat(-(np.abs(lag)[:, None] ** float(power)) / power, d, axis=1)

    return by_lag("pseudo-gaussian", length, d, vectors, causal=causal)


@lru_cache(maxsize=4)
def linear_layers(seed: int, sizes: Counts) -> Layers:
    """Draw the weights and shifts of linear layers, uniform on ±1/√inputs as in torch."""
    draw = stream(seed).uniform
    shapes = [(inputs**-0.5, (inputs, outputs)) for inputs, outputs in pairwise(sizes)]
    return [(draw(-b, b, shape), draw(-b, b, shape[1])) for b, shape in shapes]


def network(x: Floats, layers: Layers, activation: Callable[[Floats], Floats]) -> Floats:
    """Apply linear layers to rows (…, inputs), with the activation between them.

    >>> network(np.array([[2.0], [-2.0]]), [(np.ones((1, 1)), np.zeros(1))] * 2, relu).ravel()
    array([2., 0.])
    """
    for k, (weights, shifts) in enumerate(layers):
        x = activation(x) if k else x  # sums have one order for any number of rows, unlike x @ w
        x = np.asarray(sum((x[..., i, None] * w for i, w in enumerate(weights)), shifts))
    return x


def relu(x: Floats) -> Floats:
    """The positive part of numbers."""
    return np.maximum(x, 0.0)


def silu(x: Floats) -> Floats:
    """x times its logistic sigmoid.

    >>> silu(np.array([-1e9, 0.0, 1.0])).round(4)
    array([-0.    ,  0.    ,  0.7311])
    """
    return np.asarray(x * (1 + np.tanh(x / 2)) / 2)  # exp(-x) could overflow


@encoding("dpb", "DynamicPositionBias of x-transformers", domain="lag", untrained=True)
def dpb(
    length: int,
    d: int,
    *,
    distance: Literal["linear", "log"] = "linear",
    depth: int = 2,
    width: int = 128,
    causal: bool = False,
    seed: int = 0,
) -> Encoding:
    """Dynamic position bias: a network computes the biases of d heads from the distance.

    The input is u = query − key, or sign(u) ln(1 + |u|); `depth` hidden layers have SiLU. The
    defaults are those of x-transformers for a model of 512 dimensions, a quarter of which is the
    width. The initial weights are uniform on ±1/√inputs. `swin2` has another network and input.

    Parameters
    ----------
    distance : str
        Input of the network: linear or log.
    depth : int
        Number of hidden layers.
    width : int
        Units of a hidden layer.
    causal : bool
        Whether to keep only the lags up to 0, as in a decoder; otherwise both signs.
    seed : int
        Seed of the random numbers; the same seed gives the same vectors on every machine.

    Examples
    --------
    >>> dpb(6, 8, distance="log").table().shape
    (11, 8)
    """
    check_count("depth", depth)
    check_count("width", width)
    check_size("dpb", depth, width, max(width, d))

    def vectors(lag: Places) -> Floats:
        u = -np.asarray(lag, dtype=float)[:, None]
        u = np.sign(u) * np.log1p(np.abs(u)) if distance == "log" else u
        return network(u, linear_layers(seed, (1, *(width,) * depth, d)), silu)

    return by_lag("dpb", length, d, vectors, causal=causal)


def fire_share(distance: Floats, query: Array, c: float, threshold: float) -> Floats:
    """Input of FIRE's network: the log-scaled distance over that of the query, at least L.

    >>> fire_share(np.array([7.0, 300.0]), np.array([10.0, 600.0]), 0.1, 512).round(6)
    array([0.134164, 0.835342])
    """
    divisor = np.log1p(c * np.maximum(query, threshold)) + 1e-6  # as in public source code
    return np.asarray(np.log1p(c * np.abs(distance)) / divisor)


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
    check_above("c", c)
    check_count("threshold", threshold)

    def biases(lag: Array, query: Array) -> Floats:
        share = fire_share(np.asarray(lag, dtype=float), query, c, threshold)
        return network(share[..., None], linear_layers(seed, (1, 32, d)), relu)

    def between(queries: Places, keys: Places) -> Floats:
        lag = keys - queries[:, None]
        bias = np.moveaxis(biases(lag, queries[:, None]), -1, 0)
        return np.where(causal & (lag > 0), -np.inf, bias)

    if length > threshold + 1:
        lags = lags_between(length, causal=causal)
        notes = (finding("distances-interpolated", threshold=threshold),)
        return bias_of_pairs("fire", between, lags, d, findings=notes)
    return by_lag("fire", length, d, lambda lag: biases(lag, np.zeros(1)), causal=causal)


@encoding("fox", "Lin et al., 2025 (arXiv 2503.02130)", domain="pair")
def fox(length: int, d: int, *, gates: Floats | None = None) -> Encoding:
    """Forget gates: each position after a key, up to the query, lowers the score of the key.

    The bias is Σ ln f_t over the positions t after the key, up to and including the query, where
    f_t is the gate of position t. A model computes the gates from its tokens (FoX, Forgetting
    Transformer); --gates FILE reads the gates of one input, (n,) or (heads, n). A constant gate f
    is `alibi` with slope −ln f. Without a file, gates are constant with the slopes of `alibi`. Keys
    after the query are masked.

    Parameters
    ----------
    gates : array
        Gates above 0 and up to 1, (n,) or (heads, n), from --gates FILE.

    Examples
    --------
    >>> fox(4, 1, gates=np.array([0.9, 0.5, 0.8, 0.99])).bias[0, 3].round(4)  # query 3
    array([-0.9263, -0.2332, -0.0101,  0.    ])
    """
    facts: Fields = {"findings": (finding("gates-default"),)}
    logs = -alibi_slopes(d)[:, None]
    if gates is not None:
        stored = gates_up_to(length, gates)
        facts = {"params": {"d": len(stored), "gates": tuple(map(tuple, stored.tolist()))}}
        logs = np.log(stored)
    lags, totals = lags_between(length, causal=True), np.cumsum(logs, axis=1)

    def vectors(lag: Places) -> Floats:
        return np.asarray(np.abs(lag)[:, None] * logs[:, -1])

    def between(queries: Places, keys: Places) -> Floats:
        bias = totals[:, queries][..., None] - totals[:, keys][:, None]
        return np.where(keys > queries[:, None], -np.inf, bias)

    if (logs[:, 1:] == logs[:, -1:]).all():  # the first gate affects no pair
        return Encoding("fox", lags, len(logs), vectors, injection="bias", **facts)
    return bias_of_pairs("fox", between, lags, len(logs), **facts)


def gates_up_to(length: int, gates: Floats) -> Floats:
    """Return the gates (heads, length) of the first positions; refuse numbers outside (0, 1]."""
    array = np.atleast_2d(np.asarray(gates, dtype=float))
    (heads, n), low, high = array.shape[-2:], array.min(initial=1), array.max(initial=0)
    if array.ndim > 2 or not (max(length, heads) <= n and 0 < low <= high <= 1):
        raise PefourierError(
            f"gates must be (n,) or (heads, n), above 0 and up to 1, with n of at least {length} "
            f"and at least the number of heads; got {np.shape(gates)}, {low:.6g} to {high:.6g}"
        )
    return array[:, :length]
