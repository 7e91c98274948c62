"""Find the rotary pairs among the rows of a head, and the share of each pair.

The config, the architecture or the norms of rows identify the pairs. Shares come from the energies
of rows, or from mean activations.

Files of mean activations follow WeianMao/triattention (2604.04921), which records them with a hook.
A .pt, .npz or .safetensors file holds arrays such as ``stats.layer00_head00.q_abs_mean``, the mean
length of each pair, and optionally ``k_abs_mean``.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from pefourier.encodings.sources.huggingface import ModelFile
from pefourier.encodings.sources.tables import open_arrays
from pefourier.errors import PefourierError, shown
from pefourier.types import Bools, Floats, Places, frozen
from pefourier.weights.model import LayerEnergies, ModelWeights

MEANS = re.compile(r"(?:stats\.)?layer(\d+)_head(\d+)\.([qk])_abs_mean")
LEAST_LIKENESS = 0.1  # least correlation, and least lead over the other layout, for a decision
PAIRINGS = {  # llama.cpp calls pairings "interleaved" and "axes"
    "halves": "halves",
    "neighbours": "neighbours",
    "interleaved": "neighbours",
    "axes": "halves",
}


@frozen
class PairLayout:
    """The rows of a head that are rotated together, and the evidence for it."""

    name: str  # halves or neighbours
    source: str  # config, architecture, or weights (from the norms of rows)
    halves: float | None  # correlation of norms within pairs of halves; None: norms are equal
    neighbours: float | None  # correlation of norms within pairs of neighbours

    @property
    def likely(self) -> str | None:
        """Return the layout that the weights suggest; None if they suggest neither, or both.

        >>> PairLayout("", "weights", 0.7, -0.1).likely
        'halves'
        >>> PairLayout("", "weights", 0.996, 0.997).likely
        """
        a, b = (-1.0 if value is None else value for value in (self.halves, self.neighbours))
        is_clear = min(max(a, b), abs(a - b)) >= LEAST_LIKENESS
        return ("halves" if a > b else "neighbours") if is_clear else None

    @property
    def correlations(self) -> str:
        """Return the correlations of norms as text.

        >>> PairLayout("", "weights", 0.7, None).correlations
        'halves +0.70'
        """
        values = {"halves": self.halves, "neighbours": self.neighbours}
        return ", ".join(f"{n} {v:+.2f}" for n, v in values.items() if v is not None)


def pair_rows(count: int, name: str) -> Places:
    """Return the two rows of each pair (2, pairs).

    >>> pair_rows(2, "halves").tolist(), pair_rows(2, "neighbours").tolist()
    ([[0, 1], [2, 3]], [[0, 2], [1, 3]])
    """
    return np.arange(2 * count).reshape((2, count), order="C" if name == "halves" else "F")


def layout_likeness(
    rows: Sequence[tuple[Floats, int]],
) -> tuple[float | None, float | None]:
    r"""Return, for each layout, the correlation of log norms between the two rows of a pair.

    Parameters
    ----------
    rows : sequence of (energies (heads, d), pairs)
        Energies of queries or keys, and the number of rotary pairs, which use the first rows.

    Notes
    -----
    Correlations are pooled over all heads after removing the mean of each head. Trained heads put
    similar energies into the two rows of a pair, and also into pairs of similar frequencies. The
    correct layout therefore has the larger correlation.
    """
    logs = [np.log(np.maximum(energies[:, : 2 * count], 1e-300)) for energies, count in rows]
    logs = [log - log.mean(axis=1, keepdims=True) for log in logs]

    def likeness(name: str) -> float | None:
        pairs = [log[:, pair_rows(log.shape[1] // 2, name)].swapaxes(0, 1) for log in logs]
        x, y = np.concatenate([log.reshape(2, -1) for log in pairs], axis=1)
        x, y = np.r_[x, y], np.r_[y, x]  # the order of the rows in a pair does not matter
        return float(np.corrcoef(x, y)[0, 1]) if x.std() > 1e-9 else None

    return likeness("halves"), likeness("neighbours")


def choose_pairing(model: ModelWeights, rows: Sequence[tuple[Floats, int]]) -> PairLayout:
    """Return the layout of the config or the architecture, otherwise the layout of the weights.

    `rows` are energies in the form that `layout_likeness` expects.
    """
    source = "config" if isinstance(model.file, ModelFile) else "architecture"
    name = PAIRINGS.get(model.file.pairing or "")
    layout = PairLayout(name or "", source, *layout_likeness(rows))
    if name is not None:
        return layout
    if layout.likely is None:
        raise PefourierError(
            f"{model.label} does not state which rows of a head are rotated together, and its "
            f"weights do not show it (correlation of norms: {layout.correlations or 'none'}; a "
            f"correlation of at least {LEAST_LIKENESS}, and as much above the other, is needed)"
        )
    return replace(layout, name=layout.likely, source="weights")


@frozen
class LayerShares:
    """Shares of the rotary pairs in each query head of a layer; NaN in a head of zeros."""

    layer: int
    rotation: int
    kv_heads: int
    q: Floats  # (heads, pairs)
    k: Floats  # shares of the keys of the head's group
    product: Floats
    rows: tuple[Floats, Floats] | None = None  # energies (heads, d)
    halved: bool = False  # only pairs are known; each row gets half the energy of its pair

    @property
    def used(self) -> Floats:
        """Return the shares of the product, or of the queries if keys are unknown."""
        return self.q if np.isnan(self.product).all() else self.product


def normalise_pair_energy(layer: int, rotation: int, q: Floats, k: Floats) -> LayerShares:
    """Return shares from the energies of pairs (heads, pairs) and (kv_heads, pairs)."""
    shares_q, shares_k = (normalised(np.repeat(e, len(q) // len(e), axis=0)) for e in (q, k))
    product = normalised(shares_q * shares_k)  # products of shares cannot overflow
    return LayerShares(layer, rotation, len(k), shares_q, shares_k, product)


def shares_of(layer: LayerEnergies, frequencies: Floats, layout: str) -> LayerShares:
    """Return the shares of the rotary pairs in each query head of a layer."""
    rows = pair_rows(len(frequencies), layout)[:, frequencies != 0]
    q, k = (part[:, rows].sum(axis=1) for part in (layer.q, layer.k))
    shares = normalise_pair_energy(layer.layer, layer.rotation, q, k)
    return shares if layer.latent else replace(shares, rows=(layer.q, layer.k))


def normalised(energies: Floats) -> Floats:
    """Divide energies by the sum of each head (heads, pairs); NaN for a head of zeros."""
    totals = energies.sum(axis=1, keepdims=True)
    shares = np.full(energies.shape, np.nan)
    np.divide(energies, totals, out=shares, where=totals > 0)
    return shares


def shares_of_means(path: str, rotating: Bools, layout: str) -> Iterator[LayerShares]:
    """Yield shares of squared mean lengths, layer by layer, from a file of mean activations.

    `rotating` (pairs,) is True for rotary pairs. Keys may be stored for groups of heads, under the
    first head numbers, or be absent.

    Raises
    ------
    PefourierError
        If the file has no such names, lacks a head, or has another number of pairs.
    """
    means: dict[int, dict[str, dict[int, Floats]]] = {}
    with open_arrays(path, regular=True) as file:
        for match in filter(None, map(MEANS.fullmatch, file.arrays)):
            name, (layer, head, part) = match[0], match.groups()
            row = file.load(name, "float64").reshape(-1)
            if len(row) != len(rotating) or not np.isfinite(row).all():
                raise PefourierError(
                    f"{name} of {shown(path)} must be {len(rotating)} finite numbers; it has "
                    f"{len(row)}"
                )
            of_layer = means.setdefault(int(layer), {"q": {}, "k": {}})
            of_layer[part][int(head)] = row**2
    if not means:
        raise PefourierError(
            f"{shown(path)} holds no means of heads; expected names like layer00_head00.q_abs_mean"
        )
    for layer, parts in sorted(means.items()):
        q, k = ([heads[i] for i in sorted(heads)] for heads in (parts["q"], parts["k"]))
        numbers = [sorted(heads) for heads in parts.values()]
        if not q or len(q) % max(len(k), 1) or numbers != [list(range(len(e))) for e in (q, k)]:
            raise PefourierError(
                f"{shown(path)} has queries of heads {numbers[0]}, keys of heads {numbers[1]} in "
                f"layer {layer}; expected heads without gaps from 0 on, and keys of equal groups"
            )
        both = np.array(q), np.array(k or np.full_like(q, np.nan))
        shares = normalise_pair_energy(layer, 0, *(e[:, rotating] for e in both))
        of_row = np.argsort(pair_rows(len(rotating), layout).ravel()) % len(rotating)
        rows = both[0][:, of_row] / 2, both[1][:, of_row] / 2
        yield replace(shares, rows=rows if k else None, halved=True)
