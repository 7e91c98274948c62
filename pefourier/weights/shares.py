"""Which share of a head has each of its pairs? By energies of rows, or by means of activations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pefourier.encodings.encoding import Encoding
from pefourier.weights.activations import HeadMeans
from pefourier.weights.energies import LayerEnergies
from pefourier.weights.layout import pair_rows


@dataclass(frozen=True)
class LayerShares:
    """Shares of the pairs that turn, in each query head of a layer; NaN in a head of zeros."""

    layer: int
    rotation: int
    kv_heads: int
    q: np.ndarray  # (heads, pairs)
    k: np.ndarray  # of the keys of the head's group
    product: np.ndarray
    bias_q: np.ndarray | None
    bias_k: np.ndarray | None
    bias: tuple[float, float] | None  # their share in the energy of queries and of keys
    still: tuple[float, float] | None  # share of rows that do not turn
    concentration_q: np.ndarray | None = None  # of activations
    concentration_k: np.ndarray | None = None

    @property
    def used(self) -> np.ndarray:
        """The shares of the product, or of queries where nothing is known of keys."""
        return self.q if np.isnan(self.product).all() else self.product


def shares_of(layer: LayerEnergies, enc: Encoding, layout: str) -> LayerShares:
    """The shares of the pairs that turn in each query head of a layer."""
    frequencies = enc.measure.frequencies
    rows = pair_rows(len(frequencies), layout)[:, frequencies != 0]
    groups = len(layer.q) // len(layer.k)

    def of_pairs(energies: np.ndarray | None, times: int = 1) -> np.ndarray | None:
        if energies is None:
            return None
        return normalised(np.repeat(energies[:, rows].sum(axis=1), times, axis=0))

    q, k = of_pairs(layer.q), of_pairs(layer.k, groups)
    constant = (
        constant_share(layer.q, layer.bias_q),
        constant_share(layer.k, layer.bias_k),
    )
    return LayerShares(
        layer=layer.layer,
        rotation=layer.rotation,
        kv_heads=len(layer.k),
        q=q,
        k=k,
        product=normalised(q * k),  # of shares, so that nothing overflows
        bias_q=of_pairs(layer.bias_q),
        bias_k=of_pairs(layer.bias_k, groups),
        bias=None if layer.bias_q is None and layer.bias_k is None else constant,
        still=(still_share(layer.q, rows), still_share(layer.k, rows)),
    )


def normalised(energies: np.ndarray) -> np.ndarray:
    """Shares of each head (heads, pairs); NaN for a head of zeros."""
    totals = energies.sum(axis=1, keepdims=True)
    return np.divide(energies, totals, out=np.full(energies.shape, np.nan), where=totals > 0)


def constant_share(energies: np.ndarray, bias: np.ndarray | None) -> float:
    """Mean share of a bias in the energy of a head, of inputs whose numbers have variance 1."""
    if bias is None:
        return 0.0
    totals = energies.sum(axis=1) + bias.sum(axis=1)
    return (
        float(np.mean(bias.sum(axis=1)[totals > 0] / totals[totals > 0])) if totals.any() else 0.0
    )


def still_share(energies: np.ndarray, rows: np.ndarray) -> float:
    """Mean share of the rows of a head that do not turn."""
    totals, turning = energies.sum(axis=1), energies[:, rows.ravel()].sum(axis=1)
    return float(np.mean(1 - turning[totals > 0] / totals[totals > 0])) if totals.any() else 0.0


def shares_of_means(
    heads: Sequence[Mapping[str, HeadMeans]], layer: int, turning: np.ndarray
) -> LayerShares:
    """The shares of the squares of mean lengths in each head of a layer.

    Keys may be those of groups of heads, under the first numbers.
    """
    sizes, concentrations = {}, {}
    keys = sum("k" in head for head in heads)
    shared = keys > 0 and len(heads) % keys == 0 and all("k" in head for head in heads[:keys])
    for part, count in (("q", len(heads)), ("k", keys if shared else 0)):
        nothing = np.full((len(heads), int(turning.sum())), np.nan)
        if not count:
            sizes[part], concentrations[part] = nothing, None
            continue
        rows = np.repeat([head[part] for head in heads[:count]], len(heads) // count)
        size = np.array([row.size for row in rows])[:, turning]
        mean = np.abs([row.direction for row in rows])[:, turning]
        sizes[part] = normalised(size**2)
        concentrations[part] = np.divide(mean, size, out=nothing, where=size > 0)
    return LayerShares(
        layer,
        0,
        keys if shared else len(heads),
        sizes["q"],
        sizes["k"],
        normalised(sizes["q"] * sizes["k"]),
        *(None, None, None, None),
        concentrations["q"],
        concentrations["k"],
    )
