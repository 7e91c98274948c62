"""Which share of a head has each of its pairs? By energies of rows, or by means of activations.

Means are those of WeianMao/triattention (2604.04921), made by a hook: arrays of a .pt, .npz or
.safetensors file as ``stats.layer00_head00.q_abs_mean``, the mean length of each pair, perhaps with
``k_abs_mean``.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pefourier.encodings.encoding import Encoding
from pefourier.encodings.sources.tables import open_arrays
from pefourier.errors import PefourierError, shown
from pefourier.weights.energies import LayerEnergies
from pefourier.weights.layout import pair_rows

MEANS = re.compile(r"(?:stats\.)?layer(\d+)_head(\d+)\.([qk])_abs_mean")


@dataclass(frozen=True)
class LayerShares:
    """Shares of the pairs that turn, in each query head of a layer; NaN in a head of zeros."""

    layer: int
    rotation: int
    kv_heads: int
    q: np.ndarray  # (heads, pairs)
    k: np.ndarray  # of the keys of the head's group
    product: np.ndarray

    @property
    def used(self) -> np.ndarray:
        """The shares of the product, or of queries where nothing is known of keys."""
        return self.q if np.isnan(self.product).all() else self.product


def share_out(layer: int, rotation: int, q: np.ndarray, k: np.ndarray) -> LayerShares:
    """Shares of the energies of pairs (heads, pairs) and (kv_heads, pairs)."""
    shares_q, shares_k = (normalised(np.repeat(e, len(q) // len(e), axis=0)) for e in (q, k))
    product = normalised(shares_q * shares_k)  # of shares, so that nothing overflows
    return LayerShares(layer, rotation, len(k), shares_q, shares_k, product)


def shares_of(layer: LayerEnergies, enc: Encoding, layout: str) -> LayerShares:
    """The shares of the pairs that turn in each query head of a layer."""
    frequencies = enc.measure.frequencies
    rows = pair_rows(len(frequencies), layout)[:, frequencies != 0]
    energies = (part[:, rows].sum(axis=1) for part in (layer.q, layer.k))
    return share_out(layer.layer, layer.rotation, *energies)


def normalised(energies: np.ndarray) -> np.ndarray:
    """Shares of each head (heads, pairs); NaN for a head of zeros."""
    totals = energies.sum(axis=1, keepdims=True)
    return np.divide(energies, totals, out=np.full(energies.shape, np.nan), where=totals > 0)


def shares_of_means(path: str, turning: np.ndarray) -> Iterator[LayerShares]:
    """The shares of the squares of mean lengths, by layers, in a file of means of activations.

    `turning` (pairs,) says which pairs turn. Keys may be those of groups of heads, under the first
    numbers, or not there.

    Raises
    ------
    PefourierError
        For a file without such names, with a head left out, or of another number of pairs.
    """
    means: dict[int, dict[str, dict[int, np.ndarray]]] = {}
    with open_arrays(path, regular=True) as file:
        for name in filter(MEANS.fullmatch, file.arrays):
            layer, head, part = MEANS.fullmatch(name).groups()
            row = file.load(name, "float64").reshape(-1)
            if len(row) != len(turning) or not np.isfinite(row).all():
                raise PefourierError(
                    f"{name} of {shown(path)} must be {len(turning)} finite numbers; it has "
                    f"{len(row)}"
                )
            of_layer = means.setdefault(int(layer), {"q": {}, "k": {}})
            of_layer[part][int(head)] = row[turning] ** 2
    if not means:
        raise PefourierError(
            f"{shown(path)} holds no means of heads: names are as layer00_head00.q_abs_mean"
        )
    for layer, parts in sorted(means.items()):
        q, k = ([heads[i] for i in sorted(heads)] for heads in (parts["q"], parts["k"]))
        numbers = [sorted(heads) for heads in parts.values()]
        if not q or len(q) % max(len(k), 1) or numbers != [list(range(len(e))) for e in (q, k)]:
            raise PefourierError(
                f"{shown(path)} has queries of heads {numbers[0]}, keys of heads {numbers[1]} in "
                f"layer {layer}; expected all from 0 on, and keys of equal groups of them"
            )
        yield share_out(layer, 0, np.array(q), np.array(k or np.full_like(q, np.nan)))
