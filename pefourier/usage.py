r"""Which rotary frequencies do the weights of a model use?

Conventions
-----------
Pair i of a head turns rows a and b of its query and key projections by :math:`p\,\omega_i` at
position p. Its energy is :math:`E_i^q = |q_a|^2 + |q_b|^2` for queries, with the gains of the norm
before multiplied into columns and those of a norm of queries into rows, :math:`E_i^k` for keys
likewise. The part of a score that pair i makes at lag D is :math:`x^\top (C_i \cos\omega_i D + S_i
\sin\omega_i D) y` with :math:`(|C_i|^2 + |S_i|^2)/2 = E_i^q E_i^k / 2`, so that the share

.. math:: E_i^q E_i^k \,/\, \sum_j E_j^q E_j^k

of a head depends neither on the angle in which a pair is written nor on scaling queries up and keys
down. Shares are those of a head, and means over layers and query heads; the keys of a query head
are those of its group. A turn is 2 pi. Weights alone say nothing of the means of activations.

`layout_likeness` guesses from the norms of rows which of them are pairs.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import pi

import numpy as np

from pefourier.context import (
    frequencies_before_scaling,
    layer_runs,
    load_layers,
    positions_of,
    still_dimensions,
    window_of_rotation,
    window_within,
)
from pefourier.encodings.encoding import Encoding, Finding
from pefourier.encodings.sources.activations import HeadMeans, read_activations
from pefourier.encodings.sources.config import HEADS
from pefourier.encodings.sources.heads import (
    Attention,
    HeadSizes,
    Projection,
    find_heads,
    known_names,
)
from pefourier.encodings.sources.layers import LayerRun, open_model
from pefourier.encodings.sources.models import rotary
from pefourier.encodings.sources.rope_config import pairing_of
from pefourier.encodings.sources.tensors import Tensor, list_tensors
from pefourier.encodings.specs import source_of
from pefourier.errors import PefourierError, shown
from pefourier.explained import Explained
from pefourier.files import suffix_of
from pefourier.geometry.threads import map_ahead
from pefourier.result import Result

AT_ONCE = 2**18  # numbers of a tensor in memory at a time
IN_TURN = 16  # times as many that one thread reads
OFTEN = 32  # turns within the length, from which on a pair counts as fast
LEAST_LIKENESS = 0.1  # correlation below which rows do not tell their pairs
KV_HEADS = (
    "num_key_value_heads",
    "num_kv_heads",
    "n_kv_heads",
    "n_head_kv",
    "multi_query_group_num",
)
SAMPLED = 8  # layers from which check-faithful guesses a pairing
OUTSTANDING = 5  # heads that are named


@dataclass(frozen=True)
class PairLayout(Explained):
    """Which rows of a head are turned together."""

    name: str  # halves or neighbours
    source: str  # config, architecture, or weights: the layout that norms of rows look like
    halves: float | None  # correlation of the norms of rows that halves pair
    neighbours: float | None  # and of those that stand side by side


@dataclass(frozen=True)
class PairUse(Explained):
    """A pair of a rotation, and what the heads put into it on average."""

    index: int
    wavelength: float | None  # positions; None for a pair that does not turn
    turns: float  # within the length
    share_q: float
    share_k: float | None  # None where only queries were measured
    share: float | None  # of the product
    bias_q: float | None  # share of the energy of biases; None where there are none
    bias_k: float | None
    concentration_q: float | None  # of activations: length of the mean over mean of the length
    concentration_k: float | None


@dataclass(frozen=True)
class Portion(Explained):
    """What some of the pairs have."""

    pairs: int
    uniform: float  # their share of all pairs
    q: float  # mean share of the energy of queries
    k: float | None
    product: float | None


@dataclass(frozen=True)
class Standout(Explained):
    """A head that uses some pairs far more than most heads do."""

    layer: int
    head: int
    of: str  # never_turn or often
    share: float
    median: float  # over all heads


@dataclass(frozen=True)
class RotationUse(Explained):
    """What the heads of all layers of one rotation use."""

    name: str  # the type of layer, or empty
    pairs: tuple[PairUse, ...]
    never_turn: Portion
    often: Portion
    unseen: Portion | None  # pairs that meet angles at the length which training never met
    slowest_quarter: Portion  # what a cut of the slowest quarter takes away
    effective_pairs: float  # median over heads of exp(entropy of the shares)
    half: tuple[int, ...]  # the fewest pairs that hold half of the product
    still: Portion | None  # rows of a head that do not turn, in pairs of rows; None: there are none
    bias: tuple[float, float] | None  # share of biases in the energy of queries and of keys
    standouts: tuple[Standout, ...]


@dataclass(frozen=True)
class HeadUse(Explained):
    """The shares of the product in one head."""

    layer: int
    head: int
    share: np.ndarray  # (pairs,)


@dataclass(frozen=True)
class UsedLayers(Explained):
    """Layers of a model that are alike."""

    index: tuple[int, ...]
    kind: str
    rotation: int | None
    heads: int | None
    kv_heads: int | None


@dataclass(frozen=True)
class LayerEnergies:
    """Energies of the rows of a layer's heads, gains multiplied in."""

    layer: int
    rotation: int
    q: np.ndarray  # (heads, d)
    k: np.ndarray  # (kv_heads, d)
    bias_q: np.ndarray | None
    bias_k: np.ndarray | None
    gains: bool  # whether those of the norm before are there
    normed: bool  # whether queries or keys are normalised again


@dataclass(frozen=True)
class LayerShares(Explained):
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


@dataclass(frozen=True)
class MovedHead(Explained):
    """A head whose shares differ between two checkpoints."""

    layer: int
    head: int
    moved: float  # half the sum of differences, 0 … 1


@dataclass(frozen=True)
class MovedRotation(Explained):
    """How much more is used than in the other checkpoint."""

    name: str
    never_turn: float
    often: float
    pairs: tuple[float, ...]


@dataclass(frozen=True)
class Moved(Explained):
    """What of the use of pairs differs between two checkpoints."""

    other: str
    moved: float  # mean over heads
    heads: tuple[MovedHead, ...]  # that differ most
    rotations: tuple[MovedRotation, ...]


@dataclass(frozen=True, repr=False)
class Usage(Result):
    """Which rotary frequencies the weights of a model use."""

    model: str
    length: int
    trained: int
    pairing: PairLayout
    layers: tuple[UsedLayers, ...]
    rotations: tuple[RotationUse, ...]
    heads: tuple[HeadUse, ...]
    gains: str  # applied or none
    findings: tuple[Finding, ...]
    against: Moved | None = None  # another checkpoint, where one was asked for
    shares: tuple[LayerShares, ...] = field(default=(), compare=False, metadata={"told": False})


Progress = Callable[[str], Callable[[int, int], None]]


def use_of_weights(
    spec: str,
    length: int | None = None,
    layers: range | None = None,
    every_head: bool = False,
    begin: Progress | None = None,
) -> Usage:
    """Which rotary frequencies the weights in a folder or file use, at a length.

    Parameters
    ----------
    spec : str
        A model's folder, a .safetensors file with a config.json beside it, or a .gguf file; behind
        ``#`` perhaps a part of it, as vision_config.
    length : int, optional
        Default: the positions of training.
    layers : range, optional
        Layers that are looked at, by default all.
    every_head : bool
        Whether the answer tells the shares of each head.
    begin : function, optional
        Of the name of a phase; gives what is told how many layers of all are done.
    """
    model = open_model_weights(spec)
    own, runs, trained = rotations_of_model(model.spec)
    sites = find_sites(model, own, runs, layers)
    show = begin("layers") if begin else None
    energies: list[LayerEnergies] = []
    for done, site in enumerate(sites, 1):
        energies.append(energies_at(model, site))
        if show:
            show(done, len(sites))
    pairs = [len(enc.measure.frequencies) for enc in own]
    rows = [(part, pairs[e.rotation]) for e in energies for part in (e.q, e.k)]
    pairing = choose_pairing(model, layout_likeness(rows))
    shares = [shares_of(e, own[e.rotation], pairing.name) for e in energies]
    gains = "applied" if all(e.gains for e in energies) else "none"
    notes = tuple(notes_on_usage(own, runs, pairing, energies))
    found = Found(spec, own, runs, trained, tuple(shares), pairing, gains, notes)
    return found.usage(length, layers, every_head)


def use_of_model(
    spec: str,
    length: int | None = None,
    layers: range | None = None,
    every_head: bool = False,
    against: str | None = None,
    stats: str | None = None,
    begin: Progress | None = None,
) -> Usage:
    """What weights use, or with `stats` activations, and what moved against another checkpoint."""

    def find(weights: str, means: str | None) -> Usage:
        if means is not None:
            return use_of_activations(weights, means, length, layers, every_head)
        return use_of_weights(weights, length, layers, every_head, begin)

    found = find(spec, stats)
    if against is None:
        return found
    other = find(spec, against) if stats is not None else find(against, None)
    named = replace(other, model=against)
    return replace(found, against=moved_since(found, named))


@dataclass(frozen=True)
class Found:
    """What was read of a model, which an answer is put together from."""

    spec: str
    own: list[Encoding]
    runs: list[LayerRun]
    trained: int
    shares: tuple[LayerShares, ...]
    pairing: PairLayout
    gains: str
    findings: tuple[Finding, ...]

    def usage(self, length: int | None, layers: range | None, every_head: bool) -> Usage:
        """The answer at a length."""
        asked, parts = length or self.trained, parts_of(self.runs)
        told = sorted({one.rotation for one in self.shares})  # all, but where layers were chosen
        shares = tuple(replace(one, rotation=told.index(one.rotation)) for one in self.shares)
        names = [parts[n] for n in told]
        return Usage(
            model=self.spec,
            length=asked,
            trained=self.trained,
            pairing=self.pairing,
            layers=tuple(used_layers(self.runs, names, shares, layers)),
            rotations=tuple(
                summarise(
                    self.own[n],
                    parts[n],
                    asked,
                    self.trained,
                    [one for one in self.shares if one.rotation == n],
                    window_of_rotation(self.runs, parts[n]),
                )
                for n in told
            ),
            heads=tuple(
                HeadUse(one.layer, head, row)
                for one in shares
                for head, row in enumerate(one.used)
                if every_head
            ),
            gains=self.gains,
            findings=self.findings,
            shares=shares,
            about=(replace(self.own[0], spec=self.spec),),
        )


def moved_since(found: Usage, other: Usage) -> Moved:
    """What of the use of pairs differs between two checkpoints of one model.

    Raises
    ------
    PefourierError
        For models whose layers, heads or pairs differ.
    """
    two = {(one.layer, one.rotation, one.used.shape): one.used for one in other.shares}
    apart = []
    for one in found.shares:
        own = two.get((one.layer, one.rotation, one.used.shape))
        if own is None:
            heads, pairs = one.used.shape
            raise PefourierError(
                f"{shown(other.model)} has no {heads} heads of {pairs} pairs in layer {one.layer}, "
                f"as {shown(found.model)} has; --against compares checkpoints of one model"
            )
        apart += [
            (float(share), one.layer, head)
            for head, share in enumerate(np.abs(one.used - own).sum(axis=1) / 2)
            if np.isfinite(share)
        ]
    if not apart:
        raise PefourierError("no head of both has a share that is not zero")
    far = sorted(apart, key=lambda one: (-one[0], one[1:]))[:OUTSTANDING]
    return Moved(
        other.model,
        float(np.mean([share for share, _, _ in apart])),
        tuple(MovedHead(layer, head, share) for share, layer, head in far),
        tuple(
            MovedRotation(
                a.name,
                used_part(a.never_turn) - used_part(b.never_turn),
                used_part(a.often) - used_part(b.often),
                tuple(used_part(p) - used_part(q) for p, q in zip(a.pairs, b.pairs, strict=True)),
            )
            for a, b in zip(found.rotations, other.rotations, strict=True)
        ),
    )


def used_part(one: Portion | PairUse) -> float:
    """The share of the product, or of queries where nothing is known of keys."""
    if isinstance(one, Portion):
        return one.q if one.product is None else one.product
    return one.share_q if one.share is None else one.share


def use_of_activations(
    spec: str,
    stats: str,
    length: int | None = None,
    layers: range | None = None,
    every_head: bool = False,
) -> Usage:
    """The same of means of activations (`pefourier.encodings.sources.activations`).

    Shares are of the squares of mean lengths. `spec` is the model's config, or its folder, which
    says how fast pairs turn.
    """
    own, runs, trained = rotations_of_model(spec)
    if len(own) > 1:
        raise PefourierError(
            f"{shown(spec)} turns {len(own)} types of layers in different ways; name one behind #"
        )
    turning = own[0].measure.frequencies != 0
    means = read_activations(stats, len(turning))
    shares = []
    for layer in dict.fromkeys(layer for layer, _ in means):
        heads = [head for at, head in means if at == layer]
        if heads != list(range(len(heads))):
            raise PefourierError(f"{shown(stats)} has heads {heads} of layer {layer}, not all")
        if layers is None or layer in layers:
            shares.append(shares_of_means([means[layer, h] for h in heads], layer, turning))
    if not shares:
        raise PefourierError(f"{shown(stats)} has none of the layers that were asked for")
    config = open_model(spec) if source_of(spec) == "config" else None
    told = (pairing_of(config) if config else None) or "halves"
    message = "means of activations on the tokens that were run; others may use other pairs"
    notes = (Finding("usage-activations", "note", message),)
    pairing = PairLayout(told, "stats", None, None)
    return Found(spec, own, runs, trained, tuple(shares), pairing, "none", notes).usage(
        length, layers, every_head
    )


def shares_of_means(
    heads: Sequence[Mapping[str, HeadMeans]], layer: int, turning: np.ndarray
) -> LayerShares:
    """The shares of the squares of mean lengths in each head of a layer."""
    sizes, known = {}, {}
    for which in "qk":
        rows = [one[which] for one in heads if which in one]
        nothing = np.full((len(heads), int(turning.sum())), np.nan)
        if len(rows) < len(heads):
            sizes[which], known[which] = nothing, None
            continue
        size = np.array([row.size for row in rows])[:, turning]
        mean = np.abs([row.direction for row in rows])[:, turning]
        sizes[which] = normalised(size**2)
        known[which] = np.divide(mean, size, out=nothing, where=size > 0)
    product = normalised(sizes["q"] * sizes["k"])
    return LayerShares(
        layer,
        0,
        len(heads),
        sizes["q"],
        sizes["k"],
        product,
        None,
        None,
        None,
        None,
        known["q"],
        known["k"],
    )


@dataclass(frozen=True)
class ModelWeights:
    """The tensors of a model, and where its positions are told."""

    label: str
    spec: str  # of its config, or the .gguf file
    tensors: Mapping[str, Tensor]
    part: str
    gguf: bool
    kind: str
    plus_one: bool


def config_beside(path: str) -> str | None:
    """The config in a model's folder, or beside a file of weights; None where there is none."""
    folder = path if os.path.isdir(path) else os.path.dirname(path) or "."
    file = os.path.join(folder, "config.json")
    return file if os.path.isfile(file) else None


@dataclass(frozen=True)
class Site:
    """The heads of a layer, and the number of their rotation."""

    attention: Attention
    rotation: int


def open_model_weights(spec: str) -> ModelWeights:
    """The weights that a SPEC names, and the config beside them."""
    path, _, part = spec.partition("#")
    tensors = list_tensors(path)
    if suffix_of(path) == ".gguf":
        from pefourier.encodings.sources.gguf_file import open_gguf

        kind = str(open_gguf(path).metadata.get("general.architecture"))
        return ModelWeights(shown(path), path, tensors, "", True, kind, False)
    file = config_beside(path)
    if file is None:
        raise PefourierError(
            f"{shown(path)} has no config.json beside it, which says how its heads are turned; put "
            "it there"
        )
    told = f"{file}#{part}" if part else file
    kind = open_model(told).kind
    plus_one = kind in known_names()["plus_one"]
    return ModelWeights(shown(path), told, tensors, part, False, kind, plus_one)


def rotations_of_model(spec: str) -> tuple[list[Encoding], list[LayerRun], int]:
    """The rotations of a model, runs of its layers, and its trained length.

    Raises
    ------
    PefourierError
        For a model that does not turn queries and keys along one axis.
    """
    runs = layer_runs(spec, None)
    parts = parts_of(runs)
    if not parts:
        raise PefourierError(
            f"{shown(spec)} does not turn queries and keys along one axis; its positions are "
            f"{runs[0].kind}"
        )
    own = [load_layers(spec, part, None, None) for part in parts]
    trained = min(enc.params.get("original") or positions_of(enc) for enc in own)
    return own, runs, int(trained)


def parts_of(runs: Sequence[LayerRun]) -> list[str]:
    """The types of layers that have a rotation of their own, the empty one where all have one."""
    return list(dict.fromkeys(run.part for run in runs if run.kind == "rotary"))


def find_sites(
    model: ModelWeights,
    own: Sequence[Encoding],
    runs: Sequence[LayerRun],
    layers: range | None,
) -> list[Site]:
    """The heads of all layers that turn, in their order."""
    parts = parts_of(runs)
    of_layer = {i: run for run in runs for i in run.index}
    only = runs[0] if len(runs) == 1 and not runs[0].index else None
    if len(runs) > 1 and not of_layer:
        raise PefourierError(
            f"{model.label} does not say which of its layers turn in which way; its config needs "
            "the number of its layers"
        )
    sizes = [sizes_of(model, enc) for enc in own]

    def rotation_at(layer: int) -> int | None:
        run = only or of_layer.get(layer)
        return parts.index(run.part) if run is not None and run.kind == "rotary" else None

    def sizes_at(layer: int) -> HeadSizes | None:
        rotation = rotation_at(layer)
        asked = layers is None or layer in layers
        return sizes[rotation] if rotation is not None and asked else None

    found = find_heads(model.tensors, sizes_at, model.label, model.part)
    wanted = {i for i, run in of_layer.items() if sizes_at(i) is not None}
    absent = sorted(wanted - {one.layer for one in found})
    if absent or not found:
        some = ", ".join(map(str, absent[:6])) + ", …" * (len(absent) > 6)
        which = f"layers {some}" if absent else "the layers that were asked for"
        raise PefourierError(
            f"{model.label} has no queries and keys of {which}; fetch all of its files, or choose "
            "among its layers by --layers"
        )
    return [Site(one, rotation_at(one.layer)) for one in found]


def sizes_of(model: ModelWeights, enc: Encoding) -> HeadSizes:
    """The sizes of heads that are turned by a rotation."""
    d, kind = int(enc.params["d"]), model.kind
    if model.gguf:
        return gguf_sizes(model, d, 2 * len(enc.measure.frequencies))
    config = open_model(model.spec)
    values, row = config.config.values, config.row
    many = "layers" in row  # types of layers may have key heads of their own
    keys, usual = (
        rotary(row, next(iter(row.get("layers", {"": {}})))).heads if row else (HEADS, None)
    )
    heads = config.config.count(*keys, *HEADS) or usual
    kv = None if many else config.config.count(*KV_HEADS)
    grouped = kind in known_names()["grouped"]
    if kind == "falcon":
        new, single = (values.get(k) for k in ("new_decoder_architecture", "multi_query"))
        grouped = new is True or single is False
        kv = kv if new is True else 1 if single is not False else heads
    elif grouped:
        kv = heads
    return HeadSizes(kind, d, still_dimensions(model.spec), heads, kv, grouped)


def gguf_sizes(model: ModelWeights, d: int, turned: int) -> HeadSizes:
    """The sizes of heads that the metadata of a .gguf file tell."""
    from pefourier.encodings.sources.gguf_file import open_gguf

    file = open_gguf(model.spec)
    counts = [file.number(f"attention.head_count{end}") for end in ("", "_kv")]
    heads, kv = (int(count) if count else None for count in counts)
    if any(name.endswith("attn_kv_a_mqa.weight") for name in model.tensors):  # MLA
        wide = int(file.number("attention.key_length_mla") or d)
        return HeadSizes(model.kind, turned, wide - turned, heads, None)
    several = isinstance(file.metadata.get(f"{model.kind}.attention.head_count"), list)
    return HeadSizes(model.kind, d, 0, None if several else heads, None if several else kv)


def energies_at(model: ModelWeights, site: Site) -> LayerEnergies:
    """The energies of the rows of a layer's heads, a tensor at a time."""
    one = site.attention
    (q, bias_q), (k, bias_k) = (
        row_energies(model.tensors, part, model.plus_one) for part in (one.q, one.k)
    )
    gains, normed = one.k.norm is not None, bool(one.q.gains or one.k.gains)
    return LayerEnergies(one.layer, site.rotation, q, k, bias_q, bias_k, gains, normed)


def row_energies(
    tensors: Mapping[str, Tensor], part: Projection, plus_one: bool
) -> tuple[np.ndarray, np.ndarray | None]:
    """Energies (heads, d) of the rows of a projection with its gains, and those of its bias."""
    tensor = tensors[part.tensor]
    columns = tensor.shape[1]
    gain = np.ones(columns)
    if part.norm is not None:
        gain = tensors[part.norm].vector() + plus_one
        if len(gain) != columns:
            raise PefourierError(
                f"{shown(part.norm)} has {len(gain)} gains, {shown(part.tensor)} {columns} columns"
            )
    first, last = int(part.index.min()), int(part.index.max()) + 1
    scale = scale_of(tensors, tensor)
    squared = (gain**2).astype(np.float32)
    step = max(AT_ONCE // max(columns, 1), 1)
    energies = np.zeros(last)

    def add_energies(a: int) -> None:
        for top, end, some, sizes in tensor.sizes(a, min(a + IN_TURN * step, last), step):
            gains = squared if scale is None else squared * scale(top, end) ** 2
            with np.errstate(invalid="ignore", over="ignore"):  # told below
                np.multiply(sizes, sizes, out=sizes)
                energies[top:end] += weighted_sums(sizes, np.ascontiguousarray(gains[..., some]))

    deque(map_ahead(add_energies, range(first, last, IN_TURN * step)), maxlen=0)
    if not np.isfinite(energies).all():
        raise PefourierError(
            f"{shown(part.tensor)} of {shown(tensor.path)} holds NaN, infinities or numbers beyond "
            "1e19"
        )
    found = energies[part.index]
    bias = tensors[part.bias].vector()[part.index] ** 2 if part.bias else None
    rows = head_gains(tensors, part, plus_one)
    return found * rows**2, None if bias is None else bias * rows**2


def weighted_sums(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Sums over columns of float32 times weights; sums of up to 512 are added as float64.

    >>> weighted_sums(np.float32([[9, 16], [0, 4]]), np.float32([1, 0.5]))
    array([17.,  2.])
    """
    columns = rows.shape[-1]
    run = next(n for n in range(min(columns, 512), 0, -1) if columns % n == 0)
    runs, weights = (one.reshape(*one.shape[:-1], -1, run) for one in (rows, weights))
    return np.vecdot(runs, weights).sum(axis=-1, dtype=float)


def scale_of(
    tensors: Mapping[str, Tensor], tensor: Tensor
) -> Callable[[int, int], np.ndarray] | None:
    """What the stored numbers of some rows are multiplied by; None where they are plain."""
    stem = tensor.name.removesuffix("weight")
    name = next((stem + end for end in known_names()["scales"] if stem + end in tensors), None)
    if name is None:
        return None
    own = tensors[name]
    scale = own.vector().reshape(own.shape or (1,)).astype(np.float32)
    rows, columns = tensor.shape
    if scale.size == 1:
        return lambda a, b: scale.reshape(1, 1)
    if scale.shape in ((rows,), (rows, 1)):
        return lambda a, b: scale.reshape(-1, 1)[a:b]
    if scale.ndim == 2:
        blocks = [block_size(n, m) for n, m in zip(tensor.shape, scale.shape, strict=True)]
        if all(blocks):
            tall, wide = blocks
            return lambda a, b: np.repeat(scale[np.arange(a, b) // tall], wide, axis=1)[:, :columns]
    raise PefourierError(
        f"{shown(name)} has the shape {own.shape}, which scales {tensor.shape} in no known way"
    )


def block_size(whole: int, parts: int) -> int | None:
    """The power of two that cuts a side into so many blocks, the last one maybe shorter."""
    return next((2**n for n in range(30) if -(-whole // 2**n) == parts), None)


def head_gains(tensors: Mapping[str, Tensor], part: Projection, plus_one: bool) -> np.ndarray:
    """The gains of the norm of queries or keys for each row (heads, d); ones without it."""
    if not part.gains:
        return np.ones(part.index.shape)
    heads, d = part.index.shape
    own = np.concatenate([tensors[name].vector() for name in part.gains]) + plus_one
    if len(own) == heads * d:
        return own.reshape(heads, d)
    if len(own) == d:
        return np.broadcast_to(own, (heads, d))
    raise PefourierError(
        f"{shown(part.gains[0])} has {len(own)} gains for {heads} heads of {d} rows"
    )


def pair_rows(count: int, name: str) -> np.ndarray:
    """The two rows of each of so many pairs (2, pairs).

    >>> pair_rows(2, "halves").tolist(), pair_rows(2, "neighbours").tolist()
    ([[0, 1], [2, 3]], [[0, 2], [1, 3]])
    """
    shape, order = ((2, count), "C") if name == "halves" else ((2, count), "F")
    return np.arange(2 * count).reshape(shape, order=order)


def layout_likeness(rows: Sequence[tuple[np.ndarray, int]]) -> dict[str, float | None]:
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
    found: dict[str, float | None] = {}
    for name in ("halves", "neighbours"):
        left, right = [], []
        for energies, count in rows:
            logs = np.log(np.maximum(energies[:, : 2 * count], 1e-300))
            logs = logs - logs.mean(axis=1, keepdims=True)
            a, b = pair_rows(count, name)
            left.append(logs[:, a].ravel())
            right.append(logs[:, b].ravel())
        x, y = np.concatenate(left), np.concatenate(right)
        x, y = np.r_[x, y], np.r_[y, x]  # neither row of a pair is the first
        spread = float(x.std())
        found[name] = float(np.corrcoef(x, y)[0, 1]) if spread > 1e-9 else None
    return found


def choose_pairing(
    model: ModelWeights,
    likeness: Mapping[str, float | None],
) -> PairLayout:
    """The layout that a config or an architecture tells, or the one that the weights look like."""
    if model.gguf:
        from pefourier.encodings.sources.gguf_file import pairing_in

        of_llama_cpp = {"interleaved": "neighbours", "halves": "halves", "axes": "halves"}
        told, source = of_llama_cpp.get(pairing_in(model.kind)), "architecture"
    else:
        told, source = pairing_of(open_model(model.spec)), "config"
    if told is not None:
        return PairLayout(told, source, **likeness)
    return PairLayout(guess_layout(likeness, model.label), "weights", **likeness)


def with_pairing(enc: Encoding) -> Encoding:
    """A rotation of a config, with a finding of the pairing that weights beside it look like.

    Of some layers, evenly spread. As it was where there are no weights, or none that are known.
    """
    path = enc.params.get("path") if enc.act == "rotate" else None
    if path is None or source_of(enc.spec) != "config" or len(enc.domain.sides) > 1:
        return enc
    try:
        likeness, told = likeness_beside(enc.spec, os.path.dirname(str(path)) or ".")
    except PefourierError:  # which `usage` says where it is asked
        return enc
    name, best = max(likeness.items(), key=lambda item: -2.0 if item[1] is None else item[1])
    if best is None or best < LEAST_LIKENESS:
        return enc
    both = ", ".join(f"{n} {v:+.2f}" for n, v in likeness.items() if v is not None)
    if told in (None, name):
        message = f"the weights probably pair rows as {name} (correlation of norms: {both})"
        found = Finding("weights-pairing", "note", message)
    else:
        found = pairing_doubt(told, name, both)
    return replace(enc, findings=(*enc.findings, found))


def likeness_beside(spec: str, folder: str) -> tuple[dict[str, float | None], str | None]:
    """How alike rows are that each layout pairs in weights beside a config, and what it tells."""
    part = spec.partition("#")[2]
    model = open_model_weights(f"{folder}#{part}" if part else folder)
    own, runs, _ = rotations_of_model(model.spec)
    sites = find_sites(model, own, runs, None)
    picked = np.unique(np.linspace(0, len(sites) - 1, min(SAMPLED, len(sites))).astype(int))
    energies = [energies_at(model, sites[i]) for i in picked]
    pairs = [len(enc.measure.frequencies) for enc in own]
    rows = [(part, pairs[e.rotation]) for e in energies for part in (e.q, e.k)]
    return layout_likeness(rows), pairing_of(open_model(model.spec))


def pairing_doubt(told: str, other: str, correlations: str) -> Finding:
    """The finding that weights look like another layout than the one that is told."""
    message = (
        f"the rows are turned as {told}, and the weights probably look like {other} (correlation "
        f"of norms: {correlations}); if they were made for {other}, 'pefourier convert' reorders "
        "them"
    )
    return Finding("usage-pairing-doubt", "warning", message)


def guess_layout(likeness: Mapping[str, float | None], label: str) -> str:
    """The layout that weights look like.

    >>> guess_layout({"halves": 0.7, "neighbours": -0.1}, "")
    'halves'
    """
    name, best = max(likeness.items(), key=lambda item: -2.0 if item[1] is None else item[1])
    if best is None or best < LEAST_LIKENESS:
        told = ", ".join(f"{n} {v:.2f}" for n, v in likeness.items() if v is not None) or "none"
        raise PefourierError(
            f"{label} does not say which rows of a head are turned together, and its weights do "
            f"not show it (correlation of norms: {told}; at least {LEAST_LIKENESS} is needed)"
        )
    return name


def shares_of(one: LayerEnergies, enc: Encoding, layout: str) -> LayerShares:
    """The shares of the pairs that turn in each query head of a layer."""
    frequencies = enc.measure.frequencies
    rows = pair_rows(len(frequencies), layout)[:, frequencies != 0]
    groups = len(one.q) // len(one.k)
    own, keys = (pair_energies(e, rows) for e in (one.q, one.k))
    keys = np.repeat(keys, groups, axis=0)
    biases = [e if e is None else pair_energies(e, rows) for e in (one.bias_q, one.bias_k)]
    bias_q, bias_k = biases
    return LayerShares(
        one.layer,
        one.rotation,
        len(one.k),
        normalised(own),
        normalised(keys),
        normalised(normalised(own) * normalised(keys)),  # no overflow
        bias_q if bias_q is None else normalised(bias_q),
        bias_k if bias_k is None else normalised(np.repeat(bias_k, groups, axis=0)),
        None
        if bias_q is None and bias_k is None
        else (constant_share(one.q, one.bias_q), constant_share(one.k, one.bias_k)),
        (still_share(one.q, rows), still_share(one.k, rows)),
    )


def pair_energies(energies: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Energies (heads, pairs) of the two rows (2, pairs) of each pair."""
    return energies[:, rows].sum(axis=1)


def normalised(energies: np.ndarray) -> np.ndarray:
    """Shares of each head (heads, pairs); NaN for a head of zeros."""
    whole = energies.sum(axis=1, keepdims=True)
    return np.divide(energies, whole, out=np.full(energies.shape, np.nan), where=whole > 0)


def constant_share(energies: np.ndarray, bias: np.ndarray | None) -> float:
    """Mean share of a bias in the energy of a head, of inputs whose numbers have variance 1."""
    if bias is None:
        return 0.0
    whole = energies.sum(axis=1) + bias.sum(axis=1)
    return float(np.mean(bias.sum(axis=1)[whole > 0] / whole[whole > 0])) if whole.any() else 0.0


def still_share(energies: np.ndarray, rows: np.ndarray) -> float:
    """Mean share of the rows of a head that do not turn."""
    whole, turning = energies.sum(axis=1), energies[:, rows.ravel()].sum(axis=1)
    return float(np.mean(1 - turning[whole > 0] / whole[whole > 0])) if whole.any() else 0.0


def summarise(
    enc: Encoding,
    name: str,
    length: int,
    trained: int,
    shares: Sequence[LayerShares],
    window: int | None = None,
) -> RotationUse:
    """What the heads of the layers of one rotation use."""
    turning = enc.measure.frequencies != 0
    own, before = enc.measure.frequencies[turning], frequencies_before_scaling(enc)[turning]
    means = [head_mean([getattr(one, part) for one in shares]) for part in ("q", "k", "product")]
    beside = ("bias_q", "bias_k", "concentration_q", "concentration_k")
    others = [head_mean([getattr(one, part) for one in shares]) for part in beside]
    used = np.concatenate([one.used for one in shares])
    used = used[~np.isnan(used).any(axis=1)]
    if not len(used):
        raise PefourierError("all queries, or all keys, are zero; there is nothing to share out")
    turns = own * length / (2 * pi)

    def portion(members: np.ndarray) -> Portion:
        count = int(members.sum())
        return Portion(
            count, count / len(own), *(m if m is None else float(m[members].sum()) for m in means)
        )

    classes = {"never_turn": turns < 1, "often": turns > OFTEN}
    slow = np.zeros(len(own), dtype=bool)
    slow[np.argsort(own, kind="stable")[: len(own) // 4]] = True
    far = window_within(window, length) or length
    beyond = own * far > before * trained * (1 + 1e-9)
    unseen = beyond & (before * trained < 2 * pi)
    entropy = -(used * np.log(np.where(used > 0, used, 1.0))).sum(axis=1)
    return RotationUse(
        name=name,
        pairs=tuple(
            PairUse(
                int(index),
                float(2 * pi / own[i]),
                float(turns[i]),
                *(None if m is None else float(m[i]) for m in (*means, *others)),
            )
            for i, index in enumerate(np.flatnonzero(turning))
        ),
        **{key: portion(members) for key, members in classes.items()},
        unseen=portion(unseen) if length > trained else None,
        slowest_quarter=portion(slow),
        effective_pairs=float(np.median(np.exp(entropy))),
        half=tuple(np.flatnonzero(turning)[fewest_holding(used.mean(axis=0), 0.5)].tolist()),
        still=still_part(enc, len(own), shares),
        bias=mean_constant(shares),
        standouts=tuple(
            one for key, members in classes.items() for one in find_standouts(key, members, shares)
        ),
    )


def head_mean(parts: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """The mean over heads of what some layers have; None where none has it, or it is zero."""
    there = [part for part in parts if part is not None and not np.isnan(part).all()]
    return np.nanmean(np.concatenate(there), axis=0) if there else None


def mean_constant(shares: Sequence[LayerShares]) -> tuple[float, float] | None:
    """The mean share of biases in queries and keys over layers; None where there are none."""
    there = [one.bias or (0.0, 0.0) for one in shares]
    mean = np.mean(there, axis=0)
    return (float(mean[0]), float(mean[1])) if mean.any() else None


def still_part(enc: Encoding, pairs: int, shares: Sequence[LayerShares]) -> Portion | None:
    """What the rows of a head that do not turn have of its energy; None where all turn."""
    rows = int(enc.params["d"]) - 2 * pairs
    if not rows:
        return None
    told = [one.still for one in shares if one.still is not None]
    if not told:
        return None
    q, k = np.mean(told, axis=0)
    return Portion(rows // 2, rows / enc.params["d"], float(q), float(k), None)


def fewest_holding(shares: np.ndarray, part: float) -> np.ndarray:
    """The fewest of some shares whose sum is at least a part of all, in order.

    >>> fewest_holding(np.array([0.1, 0.4, 0.2, 0.3]), 0.5).tolist()
    [1, 3]
    """
    order = np.argsort(-shares, kind="stable")
    count = int(np.searchsorted(np.cumsum(shares[order]), part * shares.sum() * (1 - 1e-12))) + 1
    return np.sort(order[:count])


def find_standouts(
    key: str, members: np.ndarray, shares: Sequence[LayerShares]
) -> Iterator[Standout]:
    """Heads that have far more of their product in some pairs than heads usually have."""
    each = [
        (float(row[members].sum()), one.layer, head)
        for one in shares
        for head, row in enumerate(one.used)
        if not np.isnan(row).any()
    ]
    if len(each) < 3 or not members.any():
        return
    held = np.array([share for share, _, _ in each])
    median = float(np.median(held))
    spread = 1.4826 * float(np.median(np.abs(held - median)))
    far = median + FAR * max(spread, 1e-6)
    above = sorted(
        (one for one in each if one[0] > max(far, SIZEABLE)),
        key=lambda one: (-one[0], one[1:]),
    )
    for share, layer, head in above[:OUTSTANDING]:
        yield Standout(layer, head, key, share, median)


FAR = 4.0  # spreads above the median, from which on a head stands out
SIZEABLE = 0.25  # of a head's product, which it must have there


def used_layers(
    runs: Sequence[LayerRun],
    parts: Sequence[str],
    shares: Sequence[LayerShares],
    layers: range | None,
) -> Iterator[UsedLayers]:
    """Runs of layers with their heads; of those that do not turn only which they are."""
    for run in runs:
        turns = run.kind == "rotary" and run.part in parts
        rotation = parts.index(run.part) if turns else None
        index = run.index or tuple(
            dict.fromkeys(one.layer for one in shares if run.kind == "rotary")
        )
        kept = tuple(i for i in index if layers is None or i in layers)
        own = [one for one in shares if one.rotation == rotation]
        if not kept:
            continue
        first = own[0] if rotation is not None else None
        heads = len(first.q) if first else None
        yield UsedLayers(kept, run.kind, rotation, heads, first.kv_heads if first else None)


def notes_on_usage(
    own: Sequence[Encoding],
    runs: Sequence[LayerRun],
    pairing: PairLayout,
    energies: Sequence[LayerEnergies],
) -> Iterator[Finding]:
    """What to know of an answer."""
    likeness = {"halves": pairing.halves, "neighbours": pairing.neighbours}
    told = ", ".join(f"{n} {v:+.2f}" for n, v in likeness.items() if v is not None)
    if pairing.source == "weights":
        message = (
            f"which rows are turned together is not said; the weights look like {pairing.name} "
            f"(correlation of norms: {told}), so that all of this holds probably"
        )
        yield Finding("usage-pairing-guessed", "warning", message)
    elif doubtful(pairing):
        other = "neighbours" if pairing.name == "halves" else "halves"
        yield pairing_doubt(pairing.name, other, told)
    still = [i for run in runs if run.kind != "rotary" for i in run.index]
    if still:
        some = ", ".join(map(str, still[:6])) + ", …" * (len(still) > 6)
        message = f"layers {some} do not turn queries and keys and are left out"
        yield Finding("usage-layers-left-out", "note", message)
    if any(e.normed for e in energies):
        message = (
            "queries and keys are normalised after their projection; gains are multiplied in, and "
            "how large a head is depends on the data"
        )
        yield Finding("usage-normed", "note", message)
    if not all(e.gains for e in energies):
        message = "the norm before queries and keys has no gains of its own in the weights"
        yield Finding("usage-no-gains", "note", message)
    if any(finding.code == "rope-axes" for enc in own for finding in enc.findings):
        message = "pairs turn as for text, whose tokens have one place on all axes"
        yield Finding("usage-axes", "note", message)
    message = (
        "weights alone: shares are those for inputs without a direction; means of activations, "
        "which can be massive, are not in them"
    )
    yield Finding("usage-weights-only", "note", message)


def doubtful(pairing: PairLayout) -> bool:
    """Whether weights look like another layout than the one that is told."""
    own, other = pairing.halves, pairing.neighbours
    if pairing.name == "neighbours":
        own, other = other, own
    return own is not None and other is not None and other >= LEAST_LIKENESS and other > own
