"""Find the rotary pairs among the rows of a head, and the share of each pair.

The config, the architecture or the norms of rows identify the pairs. Shares come from the energies
of rows, or from mean activations.

Files of mean activations follow WeianMao/triattention (2604.04921), which records them with a hook.
A .pt, .npz or .safetensors file holds arrays such as ``stats.layer00_head00.q_abs_mean``, the mean
length of each pair, and optionally ``k_abs_mean``.

`summarise` describes the shares of pairs over the heads of all layers of a rotation.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import pi

import numpy as np

from pefourier.encodings.encoding import Finding, finding
from pefourier.encodings.sources.huggingface import ModelFile
from pefourier.encodings.sources.tables import open_arrays
from pefourier.errors import PefourierError, shown
from pefourier.recording.file import means_of_recording
from pefourier.types import Bools, Fields, Floats, Places, frozen, hidden
from pefourier.weights.model import LayerEnergies, ModelWeights
from pefourier.writing.text import number, percent, ranges

MEANS = re.compile(r"(?:stats\.)?layer(\d+)_head(\d+)\.([qk])_abs_mean$")
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
    return normalise_pair_energy(layer.layer, layer.rotation, q, k)


def normalised(energies: Floats) -> Floats:
    """Divide energies by the sum of each head (heads, pairs); NaN for a head of zeros."""
    totals = energies.sum(axis=1, keepdims=True)
    shares = np.full(energies.shape, np.nan)
    np.divide(energies, totals, out=shares, where=totals > 0)
    return shares


def shares_of_means(path: str, rotating: Bools, layout: str = "halves") -> Iterator[LayerShares]:
    """Yield shares of squared mean lengths, layer by layer, from a file of mean activations.

    `rotating` (pairs,) is True for rotary pairs; `layout` is that of a recording. Keys may be
    stored for groups of heads, under the first head numbers, or be absent.

    Raises
    ------
    PefourierError
        If the file has no such names, lacks a head, or has another number of pairs.
    """
    means: dict[int, dict[str, dict[int, Floats]]] = {}
    stored = means_of_recording(path, pair_rows(len(rotating), layout))
    with open_arrays(path, regular=True) as file:
        stored = stored or {n: file.load(n, "float64") for n in filter(MEANS.match, file.arrays)}
    for name, row in stored.items():
        layer, head, part = MEANS.findall(name)[0]
        if row.size != len(rotating) or not np.isfinite(row).all():
            raise PefourierError(
                f"{name} of {shown(path)} must be {len(rotating)} finite numbers; it has {row.size}"
            )
        of_layer = means.setdefault(int(layer), {"q": {}, "k": {}})
        of_layer[part][int(head)] = row.ravel() ** 2
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
        yield normalise_pair_energy(layer, 0, *(e[:, rotating] for e in both))


BANDS = 8  # rows of the table of pairs
OFTEN = 32  # a pair with more full rotations than this within the length counts as fast
EVEN = 0.1  # relative difference from the even share up to which use counts as even
CHANCE = 3.0  # difference, in spreads of shuffled pairs, up to which it may be chance
FEW = 0.5  # share of effective pairs up to which few pairs are used


@frozen
class PairUse:
    """A pair of a rotation, and its mean share over heads."""

    index: int
    wavelength: float  # positions
    turns: float  # full rotations within the length
    share_q: float
    share_k: float  # NaN if only queries were measured
    share: float  # of the product
    used: float = hidden()  # `share`, or `share_q` if keys are unknown


@frozen
class Portion:
    """Shares of a group of pairs."""

    pairs: int
    uniform: float  # share of the number of pairs
    q: float  # mean share of the energy of queries
    k: float  # NaN if keys are unknown
    product: float
    used: float = hidden()  # `product`, or `q` if keys are unknown
    spread: float = hidden(default=0.0)  # by chance: `shuffled_spread`

    @property
    def preference(self) -> int:
        """Return 1 for more than even use, -1 for less, 0 if use is even or may be chance."""
        excess = self.used - self.uniform
        is_even = abs(excess) <= max(EVEN * self.uniform, CHANCE * self.spread)
        return 0 if is_even else 1 if excess > 0 else -1


@frozen
class RotationUse:
    """Use of rotary pairs by the heads of all layers of one rotation."""

    name: str  # the type of layer, or empty
    pairs: tuple[PairUse, ...]
    never_turn: Portion
    often: Portion
    effective_pairs: float  # median over heads of exp(entropy of the shares)
    kinds: tuple[Fields, ...] = hidden(default=())  # bands, slow, fast

    @property
    def part(self) -> str | None:
        """Return the type of layer; None if the model has one rotation."""
        return self.name or None

    @property
    def count(self) -> int:
        """Return the number of rotary pairs."""
        return len(self.pairs)

    @property
    def preference(self) -> str:
        """Return which pairs are used more or less than evenly, slow pairs before fast pairs.

        If both are used evenly, report whether few pairs hold most of a head's energy.
        """
        verdicts = {1: "favoured", -1: "neglected"}
        for name, portion in (("slow pairs", self.never_turn), ("fast pairs", self.often)):
            if portion.preference:
                return f"{name} {verdicts[portion.preference]}"
        return "few pairs used" if self.effective_pairs <= FEW * self.count else "no preference"

    @property
    def subject(self) -> str:
        """Return the quantity that the shares describe."""
        has_keys = np.isfinite(self.never_turn.product)
        return "the attention scores" if has_keys else "the energy of queries"


def summarise(
    name: str, frequencies: Floats, length: int, shares: Sequence[LayerShares]
) -> RotationUse:
    """Summarise the use of pairs with these frequencies over the heads of a rotation's layers."""
    used = known_heads([layer.used for layer in shares])
    if not len(used):
        raise PefourierError("all queries or all keys are zero; no pair has a share")
    index = np.flatnonzero(frequencies)
    omega = frequencies[index]
    parts = ([getattr(layer, part) for layer in shares] for part in ("q", "k", "product"))
    with np.errstate(invalid="ignore"):  # of no head
        means = np.array([(h := known_heads(part)).sum(axis=0) / len(h) for part in parts])
    means = np.vstack([means, used.mean(axis=0)])
    turns, waves = omega * length / (2 * pi), 2 * pi / omega
    entropy = -(used * np.log(np.where(used > 0, used, 1.0))).sum(axis=1)
    groups = groups_of(shares)

    def portion(members: Bools) -> Portion:
        uniform = float(members.mean())
        spread = shuffled_spread(groups, uniform)
        q, k, product, used = (means @ members).tolist()
        return Portion(int(members.sum()), uniform, q, k, product, used, spread)

    slow, fast = portion(turns < 1), portion(turns > OFTEN)
    order, kinds = np.argsort(waves, kind="stable"), list[tuple[str, Portion]]()
    size = -(-len(order) // min(BANDS, len(order)))
    for start in range(0, len(order), size):
        band = order[start : start + size]
        ends = "…".join(number(float(waves[i]), 3) for i in band[[0, -1]])
        label = f"{ranges(sorted(index[band].tolist()))} ({ends})"
        kinds.append((label, portion(np.isin(np.arange(len(order)), band))))
    kinds += [("without a full rotation", slow), (f"more than {OFTEN} rotations", fast)]
    return RotationUse(
        name=name,
        pairs=tuple(map(PairUse, index.tolist(), *np.vstack([waves, turns, means]).tolist())),
        never_turn=slow,
        often=fast,
        effective_pairs=float(np.median(np.exp(entropy))),
        kinds=tuple({"rotation": name or None, "kind": k, "portion": p} for k, p in kinds),
    )


def known_heads(parts: Sequence[Floats]) -> Floats:
    """Return the shares of all heads of some layers that have shares."""
    heads = np.concatenate(parts)
    return heads[~np.isnan(heads).any(axis=1)]


def groups_of(shares: Sequence[LayerShares]) -> Floats:
    """Return rows (groups, pairs) that add up to the mean share, one for heads that share keys."""
    heads = sum(int((~np.isnan(layer.used).any(axis=1)).sum()) for layer in shares)
    groups = (
        np.nansum(layer.used.reshape(layer.kv_heads, -1, layer.used.shape[1]), axis=1)
        for layer in shares
    )
    return np.asarray(np.concatenate([*groups]) / heads)


def shuffled_spread(groups: Floats, part: float) -> float:
    """Return the standard deviation of the mean share of some pairs that chance alone causes.

    Random weights favour some pairs too. The estimate shuffles the pairs of each group of heads
    that share keys: the deviation is that of a sum of draws without replacement.
    """
    pairs = groups.shape[1]
    squares = float(groups.var(axis=1, ddof=1).sum()) if pairs > 1 else 0.0
    return float(np.sqrt(squares * part * (1 - part) * pairs))


def contrast(
    parts: Sequence[Floats], frequencies: Floats
) -> tuple[Fields, float, Floats, Floats] | None:
    """Return the half of the pairs that parts of a model use most differently, if beyond chance.

    Each part has rows (groups, pairs) that add up to its mean share. All pairs of parts are
    compared, so the limit is higher than for one: a union bound of Gaussian tails.

    Returns
    -------
    tuple or None
        Slots of a finding: the kind of wavelengths (longest or middle), the number of pairs and
        their share if used evenly. That share, the share in each part, and the difference from
        even use that chance may cause in each part.

    Examples
    --------
    >>> one, two = np.array([[0.49, 0.48, 0.02, 0.01]] * 9) / 9, np.full((1, 4), 0.25)
    >>> contrast([one, two], np.array([1.0, 0.1, 0.01, 0.001]))[2].round(2)
    array([0.03, 0.5 ])
    >>> contrast([two, two], np.ones(4))
    """
    pairs, found, largest = len(frequencies), None, 1.0
    place = np.argsort(np.argsort(-frequencies, kind="stable"))
    spreads = np.sqrt(CHANCE**2 + 2 * np.log(max(len(parts) * (len(parts) - 1), 1)))
    halves = {"longest": place >= pairs / 2, "middle": np.abs(2 * place - pairs + 1) < pairs / 2}
    for kind, members in halves.items():
        even = float(members.mean())
        shares = np.array([part.sum(axis=0) @ members for part in parts])
        chance = np.array([spreads * shuffled_spread(part, even) for part in parts])
        limits = np.maximum(EVEN * even, chance)
        of_ends = float(np.hypot(limits[shares.argmax()], limits[shares.argmin()]))
        if np.ptp(shares) > largest * of_ends:
            slots = {"kind": kind, "pairs": members.sum(), "even": percent(even, 2)}
            largest, found = float(np.ptp(shares)) / of_ends, (slots, even, shares, limits)
    return found


def notes_on_contrasts(
    use: RotationUse, frequencies: Floats, shares: Sequence[LayerShares]
) -> Iterator[Finding]:
    """Yield findings if layers, or queries and keys, use the pairs of a rotation differently."""
    slots: Fields = {"of": f" ({use.part})" if use.part else "", "count": use.count}
    known = [layer for layer in shares if not np.isnan(layer.used).all()]
    if found := contrast([groups_of([layer]) for layer in known], frequencies):
        half, even, share, limits = found
        excess, index = share - even, np.array([layer.layer for layer in known])
        for end, at in (("most", share.argmax()), ("least", share.argmin())):
            slots |= {end: percent(share[at], 2), f"{end}_in": index[at]}
        for side, beyond in (("over", excess > limits), ("under", -excess > limits)):
            slots[side] = ranges(index[beyond].tolist()) or "none"
        yield finding("usage-layers-differ", **slots, **half, subject=use.subject)
    queries = known_heads([layer.q for layer in shares])
    keys = known_heads([layer.k[:: len(layer.k) // layer.kv_heads] for layer in shares])
    sides = [rows / len(rows) for rows in (queries, keys) if len(rows)]
    if len(sides) == 2 and (found := contrast(sides, frequencies)):
        half, _, (q, k), _ = found
        slots |= {"queries": percent(q, 2), "keys": percent(k, 2)}
        yield finding("usage-queries-keys-differ", **slots, **half)
