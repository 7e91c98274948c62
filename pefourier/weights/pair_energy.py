"""Which rows of a head are pairs, and which share of the head has each of them?

Pairs are told by config, by architecture, or by how long rows are; shares by energies of rows, or
by means of activations.

Means are those of WeianMao/triattention (2604.04921), made by a hook: arrays of a .pt, .npz or
.safetensors file as ``stats.layer00_head00.q_abs_mean``, the mean length of each pair, perhaps with
``k_abs_mean``.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pefourier.encodings.sources.huggingface import ModelFile
from pefourier.encodings.sources.tables import open_arrays
from pefourier.errors import PefourierError, shown
from pefourier.weights.model import LayerEnergies, ModelWeights

MEANS = re.compile(r"(?:stats\.)?layer(\d+)_head(\d+)\.([qk])_abs_mean")
LEAST_LIKENESS = 0.1  # correlation, and lead over the other, below which pairs are not told
PAIRINGS = {  # "interleaved" and "axes" are words of llama.cpp
    **{"halves": "halves", "neighbours": "neighbours"},
    **{"interleaved": "neighbours", "axes": "halves"},
}


@dataclass(frozen=True)
class PairLayout:
    """Which rows of a head are turned together."""

    name: str  # halves or neighbours
    source: str  # config, architecture, or weights: the layout that norms of rows look like
    halves: float | None  # correlation of the norms of rows that halves pair; None: all are alike
    neighbours: float | None  # and of those that stand side by side

    @property
    def likely(self) -> str | None:
        """The layout that weights look like; None where they look like neither, or like both.

        >>> PairLayout("", "weights", 0.7, -0.1).likely
        'halves'
        >>> PairLayout("", "weights", 0.996, 0.997).likely
        """
        a, b = (-1.0 if value is None else value for value in (self.halves, self.neighbours))
        is_clear = min(max(a, b), abs(a - b)) >= LEAST_LIKENESS
        return ("halves" if a > b else "neighbours") if is_clear else None

    @property
    def correlations(self) -> str:
        """Correlations of norms.

        >>> PairLayout("", "weights", 0.7, None).correlations
        'halves +0.70'
        """
        values = {"halves": self.halves, "neighbours": self.neighbours}
        return ", ".join(f"{n} {v:+.2f}" for n, v in values.items() if v is not None)


def pair_rows(count: int, name: str) -> NDArray[np.int64]:
    """The two rows of each of so many pairs (2, pairs).

    >>> pair_rows(2, "halves").tolist(), pair_rows(2, "neighbours").tolist()
    ([[0, 1], [2, 3]], [[0, 2], [1, 3]])
    """
    return np.arange(2 * count).reshape((2, count), order="C" if name == "halves" else "F")


def layout_likeness(
    rows: Sequence[tuple[NDArray[np.float64], int]],
) -> tuple[float | None, float | None]:
    r"""How alike the rows are that each layout pairs: the correlation of logarithms of their norms.

    Parameters
    ----------
    rows : sequence of (energies (heads, d), pairs)
        Of queries or keys, and how many pairs turn, which the first rows are.

    Notes
    -----
    Pooled over all heads, whose means are removed. Trained heads put like energies into the two
    rows of a pair, and neighbouring frequencies get like energies too: of both layouts the right
    one has the larger correlation.
    """
    logs = [np.log(np.maximum(energies[:, : 2 * count], 1e-300)) for energies, count in rows]
    logs = [log - log.mean(axis=1, keepdims=True) for log in logs]

    def likeness(name: str) -> float | None:
        pairs = [log[:, pair_rows(log.shape[1] // 2, name)].swapaxes(0, 1) for log in logs]
        x, y = np.concatenate([log.reshape(2, -1) for log in pairs], axis=1)
        x, y = np.r_[x, y], np.r_[y, x]  # neither row of a pair is the first
        return float(np.corrcoef(x, y)[0, 1]) if x.std() > 1e-9 else None

    return likeness("halves"), likeness("neighbours")


def choose_pairing(
    model: ModelWeights, rows: Sequence[tuple[NDArray[np.float64], int]]
) -> PairLayout:
    """The layout that a config or an architecture tells, or the one that rows look like.

    `rows` are energies as `layout_likeness` takes them.
    """
    source = "config" if isinstance(model.file, ModelFile) else "architecture"
    name = PAIRINGS.get(model.file.pairing or "")
    layout = PairLayout(name or "", source, *layout_likeness(rows))
    if name is not None:
        return layout
    if layout.likely is None:
        raise PefourierError(
            f"{model.label} does not say which rows of a head are turned together, and its weights "
            f"do not show it (correlation of norms: {layout.correlations or 'none'}; one of at "
            f"least {LEAST_LIKENESS}, and as much above the other, is needed)"
        )
    return replace(layout, name=layout.likely, source="weights")


@dataclass(frozen=True)
class LayerShares:
    """Shares of the pairs that turn, in each query head of a layer; NaN in a head of zeros."""

    layer: int
    rotation: int
    kv_heads: int
    q: NDArray[np.float64]  # (heads, pairs)
    k: NDArray[np.float64]  # of the keys of the head's group
    product: NDArray[np.float64]
    rows: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None  # energies (heads, d)
    halved: bool = False  # rows of a pair are unknown, and have a half of its energy

    @property
    def used(self) -> NDArray[np.float64]:
        """The shares of the product, or of queries where nothing is known of keys."""
        return self.q if np.isnan(self.product).all() else self.product


def normalise_pair_energy(
    layer: int, rotation: int, q: NDArray[np.float64], k: NDArray[np.float64]
) -> LayerShares:
    """Shares of the energies of pairs (heads, pairs) and (kv_heads, pairs)."""
    shares_q, shares_k = (normalised(np.repeat(e, len(q) // len(e), axis=0)) for e in (q, k))
    product = normalised(shares_q * shares_k)  # of shares, so that nothing overflows
    return LayerShares(layer, rotation, len(k), shares_q, shares_k, product)


def shares_of(layer: LayerEnergies, frequencies: NDArray[np.float64], layout: str) -> LayerShares:
    """The shares of the pairs that turn in each query head of a layer."""
    rows = pair_rows(len(frequencies), layout)[:, frequencies != 0]
    q, k = (part[:, rows].sum(axis=1) for part in (layer.q, layer.k))
    shares = normalise_pair_energy(layer.layer, layer.rotation, q, k)
    return shares if layer.latent else replace(shares, rows=(layer.q, layer.k))


def normalised(energies: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shares of each head (heads, pairs); NaN for a head of zeros."""
    totals = energies.sum(axis=1, keepdims=True)
    shares = np.full(energies.shape, np.nan)
    np.divide(energies, totals, out=shares, where=totals > 0)
    return shares


def shares_of_means(path: str, turning: NDArray[np.bool_], layout: str) -> Iterator[LayerShares]:
    """The shares of the squares of mean lengths, by layers, in a file of means of activations.

    `turning` (pairs,) says which pairs turn. Keys may be those of groups of heads, under the first
    numbers, or not there.

    Raises
    ------
    PefourierError
        For a file without such names, with a head left out, or of another number of pairs.
    """
    means: dict[int, dict[str, dict[int, NDArray[np.float64]]]] = {}
    with open_arrays(path, regular=True) as file:
        for match in filter(None, map(MEANS.fullmatch, file.arrays)):
            name, (layer, head, part) = match[0], match.groups()
            row = file.load(name, "float64").reshape(-1)
            if len(row) != len(turning) or not np.isfinite(row).all():
                raise PefourierError(
                    f"{name} of {shown(path)} must be {len(turning)} finite numbers; it has "
                    f"{len(row)}"
                )
            of_layer = means.setdefault(int(layer), {"q": {}, "k": {}})
            of_layer[part][int(head)] = row**2
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
        both = np.array(q), np.array(k or np.full_like(q, np.nan))
        shares = normalise_pair_energy(layer, 0, *(e[:, turning] for e in both))
        of_row = np.argsort(pair_rows(len(turning), layout).ravel()) % len(turning)
        rows = both[0][:, of_row] / 2, both[1][:, of_row] / 2
        yield replace(shares, rows=rows if k else None, halved=True)
