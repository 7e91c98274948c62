r"""Which rotary frequencies do the weights of a model use?

Conventions
-----------
Pair i of a head turns rows a and b of its query and key projections by :math:`p\,\omega_i` at
position p. Its energy is :math:`E_i^q = |q_a|^2 + |q_b|^2` for queries, with the gains of the norm
before multiplied into columns (without what is along a mean that the norm takes out) and those of a
norm of queries into rows, :math:`E_i^k` for keys likewise. The part of a score that pair i makes at
lag D is :math:`x^\top (C_i \cos\omega_i D + S_i \sin\omega_i D) y` with :math:`(|C_i|^2 +
|S_i|^2)/2 = E_i^q E_i^k / 2`, so that the share

.. math:: E_i^q E_i^k \,/\, \sum_j E_j^q E_j^k

of a head depends neither on the angle in which a pair is written nor on scaling queries up and keys
down. Shares are those of a head, and means over layers and query heads; the keys of a query head
are those of its group. A turn is 2 pi. Weights alone say nothing of the means of activations.

`layout_likeness` guesses from the norms of rows which of them are pairs.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from pefourier.encodings.encoding import Finding
from pefourier.encodings.findings import finding
from pefourier.encodings.sources.layers import LayerRun
from pefourier.encodings.specs import source_of
from pefourier.errors import PefourierError, shown
from pefourier.geometry.threads import map_ahead
from pefourier.result import Result
from pefourier.weights import layout, summary
from pefourier.weights.activations import read_activations
from pefourier.weights.energies import LayerEnergies, energies_at
from pefourier.weights.model import Rotations, find_sites, open_model_weights, rotations_of_model
from pefourier.weights.shares import LayerShares, shares_of, shares_of_means

Progress = Callable[[str], Callable[[int, int], None]]


@dataclass(frozen=True)
class HeadUse:
    """The shares of the product in one head."""

    layer: int
    head: int
    share: np.ndarray  # (pairs,)


@dataclass(frozen=True)
class UsedLayers:
    """Layers of a model that are alike."""

    index: tuple[int, ...]
    kind: str
    rotation: int | None
    heads: int | None
    kv_heads: int | None


@dataclass(frozen=True)
class MovedHead:
    """A head whose shares differ between two checkpoints."""

    layer: int
    head: int
    moved: float  # half the sum of differences, 0 … 1


@dataclass(frozen=True)
class MovedRotation:
    """How much more is used than in the other checkpoint."""

    name: str
    never_turn: float
    often: float
    pairs: tuple[float, ...]


@dataclass(frozen=True)
class Moved:
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
    pairing: layout.PairLayout
    layers: tuple[UsedLayers, ...]
    rotations: tuple[summary.RotationUse, ...]
    heads: tuple[HeadUse, ...]
    gains: str  # applied or none
    findings: tuple[Finding, ...]
    against: Moved | None = None  # another checkpoint, where one was asked for
    shares: tuple[LayerShares, ...] = field(default=(), compare=False, metadata={"told": False})


def use_of_model(
    spec: str,
    length: int | None = None,
    layers: range | None = None,
    every_head: bool = False,
    against: str | None = None,
    stats: str | None = None,
    begin: Progress | None = None,
) -> Usage:
    """Which rotary frequencies a model uses at a length: its weights, or means of activations.

    Parameters
    ----------
    spec : str
        A model's folder, a .safetensors file with a config.json beside it, or a .gguf file; behind
        ``#`` perhaps a part of it, as vision_config. With `stats` its config is enough.
    length : int, optional
        Default: the positions of training.
    layers : range, optional
        Layers that are looked at, by default all.
    every_head : bool
        Whether the answer tells the shares of each head.
    against : str, optional
        Another checkpoint, or with `stats` another file of means: the answer tells what moved.
    stats : str, optional
        A file of means of activations (`pefourier.weights.activations`); shares are then of the
        squares of mean lengths.
    begin : function, optional
        Of the name of a phase; gives what is told how many layers of all are done.
    """

    def find(weights: str, means: str | None) -> Usage:
        if means is None:
            return read_weights(weights, layers, begin).usage(length, layers, every_head)
        return read_means(weights, means, layers).usage(length, layers, every_head)

    found = find(spec, stats)
    if against is None:
        return found
    other = find(spec, against) if stats is not None else find(against, None)
    return replace(found, against=moved_since(found, replace(other, model=against)))


@dataclass(frozen=True)
class Found:
    """What was read of a model, which an answer is put together from."""

    spec: str
    turned: Rotations
    shares: tuple[LayerShares, ...]
    pairing: layout.PairLayout
    gains: str
    findings: tuple[Finding, ...]

    def usage(self, length: int | None, layers: range | None, every_head: bool) -> Usage:
        """The answer at a length."""
        turned, parts = self.turned, self.turned.parts
        asked = length or turned.trained
        told = sorted({one.rotation for one in self.shares})  # all, but where layers were chosen
        shares = tuple(replace(one, rotation=told.index(one.rotation)) for one in self.shares)
        names = [parts[n] for n in told]
        return Usage(
            model=self.spec,
            length=asked,
            trained=turned.trained,
            pairing=self.pairing,
            layers=tuple(used_layers(turned.runs, names, shares, layers)),
            rotations=tuple(
                summary.summarise(
                    parts[n],
                    summary.pairs_that_turn(turned, n, length),
                    [one for one in self.shares if one.rotation == n],
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
            about=(replace(turned.own[0], spec=self.spec),),
        )


def read_weights(spec: str, layers: range | None, begin: Progress | None) -> Found:
    """What the weights in a folder or file put into pairs."""
    model = open_model_weights(spec)
    turned = rotations_of_model(model.spec)
    sites = find_sites(model, turned, layers)
    show = begin("layers") if begin else None
    energies: list[LayerEnergies] = []
    for one in map_ahead(partial(energies_at, model), sites):
        energies.append(one)
        if show:
            show(len(energies), len(sites))
    rows = [(part, turned.pairs[e.rotation]) for e in energies for part in (e.q, e.k)]
    pairing = layout.choose_pairing(model, turned.own[0], layout.layout_likeness(rows))
    shares = tuple(shares_of(e, turned.own[e.rotation], pairing.name) for e in energies)
    gains = "applied" if all(e.gains for e in energies) else "none"
    notes = tuple(notes_on_usage(turned, pairing, energies))
    return Found(spec, turned, shares, pairing, gains, notes)


def read_means(spec: str, stats: str, layers: range | None) -> Found:
    """The same of means of activations."""
    turned = rotations_of_model(spec)
    if len(turned.own) > 1:
        raise PefourierError(
            f"{shown(spec)} has {len(turned.own)} rotations, by type of layer; name one behind #"
        )
    turning = turned.own[0].measure.frequencies != 0
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
    config = source_of(spec) == "config"
    told = (layout.pairing_told(spec, turned.own[0]) if config else None) or "halves"
    pairing, notes = layout.PairLayout(told, "stats", None, None), (finding("usage-activations"),)
    return Found(spec, turned, tuple(shares), pairing, "none", notes)


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
        heads = [(len(one.q), one.kv_heads) for one in shares if one.rotation == rotation]
        if kept:
            yield UsedLayers(kept, run.kind, rotation, *(heads or [(None, None)])[0])


def notes_on_usage(
    turned: Rotations, pairing: layout.PairLayout, energies: Sequence[LayerEnergies]
) -> Iterator[Finding]:
    """What to know of an answer."""
    likeness = {"halves": pairing.halves, "neighbours": pairing.neighbours}
    both, like = layout.correlations(likeness), layout.likely_layout(likeness)
    if pairing.source == "weights":
        yield finding("usage-pairing-guessed", name=pairing.name, both=both)
    elif like not in (None, pairing.name):
        yield finding("usage-pairing-doubt", told=pairing.name, name=like, both=both)
    still = [i for run in turned.runs if run.kind != "rotary" for i in run.index]
    if still:
        some = ", ".join(map(str, still[:6])) + ", …" * (len(still) > 6)
        yield finding("usage-layers-left-out", layers=some)
    if any(e.normed for e in energies):
        yield finding("usage-normed")
    if not all(e.gains for e in energies):
        yield finding("usage-no-gains")
    if any(f.code == "rope-axes" for enc in turned.own for f in enc.findings):
        yield finding("usage-axes")
    yield finding("usage-weights-only")


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
    far = sorted(apart, key=lambda one: (-one[0], one[1:]))[: summary.OUTSTANDING]
    return Moved(
        other.model,
        float(np.mean([share for share, _, _ in apart])),
        tuple(MovedHead(layer, head, share) for share, layer, head in far),
        tuple(
            MovedRotation(
                a.name,
                summary.used_part(a.never_turn) - summary.used_part(b.never_turn),
                summary.used_part(a.often) - summary.used_part(b.often),
                tuple(
                    summary.used_part(p) - summary.used_part(q)
                    for p, q in zip(a.pairs, b.pairs, strict=True)
                ),
            )
            for a, b in zip(found.rotations, other.rotations, strict=True)
        ),
    )
