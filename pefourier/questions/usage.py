r"""Measure which rotary frequencies the weights of a model use.

Conventions
-----------
At position p, pair i of a head rotates rows a and b of its query and key projections by
:math:`p\,\omega_i`. Its energy is :math:`E_i^q = |q_a|^2 + |q_b|^2` for queries, and
:math:`E_i^k` for keys. Columns are multiplied by the gains of the norm before the projection, rows
by the gains of a query or key norm. If the norm before subtracts a mean, the component along it is
left out. At lag D, pair i adds :math:`x^\top (C_i \cos\omega_i D + S_i \sin\omega_i D) y` to a
score, with :math:`(|C_i|^2 + |S_i|^2)/2 = E_i^q E_i^k / 2`. Therefore the share

.. math:: E_i^q E_i^k \,/\, \sum_j E_j^q E_j^k

of a head depends neither on the basis within a pair nor on scaling queries up and keys down. Shares
are given per head, and as means over layers and query heads. A query head uses the keys of its
group. A full rotation is 2 pi. Weights alone do not show the means of activations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pefourier.encodings.encoding import Encoding, Finding, Findings, finding
from pefourier.encodings.model_positions import ModelPositions
from pefourier.errors import PefourierError, command_line, shown
from pefourier.geometry import Progress, map_ahead
from pefourier.questions.result import Result
from pefourier.types import Counts, CsvTable, Fields, Floats, Ints, frozen, hidden
from pefourier.weights.model import (
    LayerEnergies,
    ModelWeights,
    energies_at,
    find_attentions,
    frequencies_of,
    is_adapter,
    open_model_weights,
    rotations_of_model,
)
from pefourier.weights.pair_energy import (
    LayerShares,
    PairLayout,
    RotationUse,
    choose_pairing,
    notes_on_contrasts,
    shares_of,
    shares_of_means,
    summarise,
)
from pefourier.writing.text import Verdict, number, percent, ranges

Begin = Callable[[str], Progress]
PAIR_FIELDS = ("index", "wavelength", "turns", "share_q", "share_k", "share")
MOST_MOVED = 5  # heads that a comparison lists
STRONGEST = 3  # pairs in the short answer, of each rotation
SAMPLED = 8  # layers that check-faithful samples to test a pairing


@frozen
class HeadUse:
    """Shares of the product in one head."""

    layer: int
    head: int
    share: Floats  # (pairs,)


@frozen
class UsedLayers:
    """Layers of a model with equal properties."""

    index: Counts
    kind: str
    rotation: int | None
    heads: int | None
    kv_heads: int | None  # unrotated layers have no numbers of heads
    name: str | None = hidden(default=None)  # of the rotation

    @property
    def layers(self) -> str:
        """Return the layers as ranges."""
        return ranges(self.index)


@frozen
class MovedHead:
    """A head with shares that differ between two checkpoints."""

    layer: int
    head: int
    moved: float  # half the sum of differences, 0 … 1


@frozen
class MovedPair:
    """A pair with mean shares of two checkpoints."""

    rotation: str | None
    index: int
    before: float  # in the other checkpoint
    now: float

    def __str__(self) -> str:
        of = f" ({self.rotation})" if self.rotation else ""
        return f"pair {self.index}{of}: {percent(self.before, 2)} -> {percent(self.now, 2)}"


@frozen
class EnergyMoved:
    """Difference in the use of pairs between two checkpoints."""

    other: str
    moved: float  # mean over heads
    heads: tuple[MovedHead, ...]  # the heads that differ most
    pairs: tuple[MovedPair, ...]  # all pairs, those that differ most first


NONE = "no preference"
VERDICTS = {
    "slow pairs favoured": Verdict(
        "{r.first.never_turn.pairs} of {r.first.count} rotary pairs never complete a full "
        "rotation within {r.length:,} positions, yet they carry {r.first.never_turn.used:2%} "
        "of {r.first.subject} ({r.first.never_turn.uniform:2%} if all pairs were used evenly).",
        title="low frequencies preferred",
    ),
    "slow pairs neglected": Verdict(
        "{r.first.never_turn.pairs} of {r.first.count} rotary pairs never complete a full "
        "rotation within {r.length:,} positions and carry only {r.first.never_turn.used:2%} of "
        "{r.first.subject} ({r.first.never_turn.uniform:2%} if all pairs were used evenly).",
        title="low frequencies neglected",
    ),
    "fast pairs favoured": Verdict(
        "{r.first.often.pairs} of {r.first.count} rotary pairs complete more than 32 rotations "
        "within {r.length:,} positions and carry {r.first.often.used:2%} of {r.first.subject} "
        "({r.first.often.uniform:2%} if all pairs were used evenly).",
        title="high frequencies preferred",
    ),
    "fast pairs neglected": Verdict(
        "{r.first.often.pairs} of {r.first.count} rotary pairs complete more than 32 rotations "
        "within {r.length:,} positions but carry only {r.first.often.used:2%} of {r.first.subject} "
        "({r.first.often.uniform:2%} if all pairs were used evenly).",
        title="high frequencies neglected",
    ),
    "few pairs used": Verdict(
        "In at least half of the heads, {r.first.subject} are spread no wider than over "
        "{r.first.effective_pairs:3} evenly used pairs, of {r.first.count}. "
        "{r.first.never_turn.pairs} pairs never complete a full rotation within {r.length:,} "
        "positions and carry {r.first.never_turn.used:2%} ({r.first.never_turn.uniform:2%} if "
        "all pairs were used evenly).",
    ),
    NONE: Verdict(
        "Neither low nor high frequencies are preferred beyond chance. "
        "{r.first.never_turn.pairs} of {r.first.count} rotary pairs never complete a full "
        "rotation within {r.length:,} positions and carry {r.first.never_turn.used:2%} of "
        "{r.first.subject} ({r.first.never_turn.uniform:2%} if all pairs were used evenly); "
        "{r.first.often.pairs} complete more than 32 and carry {r.first.often.used:2%} "
        "({r.first.often.uniform:2%}).",
    ),
    "by layer": Verdict(
        "In the mean over layers no frequencies are preferred beyond chance, but "
        "{r.layers_in_words}.",
        title="preferred frequencies differ by layer",
    ),
    "by layer type": Verdict("Preferred pairs by layer type: {r.preferences}."),
    "probably a mistake": Verdict(
        "The shares below assume {r.pairing.name}, but the norms of the weight rows contradict "
        "that.",
        "Check in the model's source code how rows are paired.",
    ),
}


@frozen
class Usage(Result):
    """Result of `pefourier usage`: the rotary frequencies that a model's weights use."""

    command = "usage"
    figure = "usage"
    verdicts = {
        code: replace(
            verdict,
            meaning=verdict.meaning + "{r.moved_in_words}",
            action=verdict.action or "{r.next_step}",
        )
        for code, verdict in VERDICTS.items()
    }
    shown = {
        "positions": "length",
        "trained length": "trained",
        "pairing": "pairing.name",
        "source of pairing": "pairing.source",
        "norm correlation, halves": "pairing.halves",
        "norm correlation, neighbours": "pairing.neighbours",
        "norm gains": "gains",
        "shares moved since": "against.moved",
    }
    listed = {
        "layers": {
            "layers": "layers",
            "kind": "kind",
            "rotation": "name",
            "heads": "heads",
            "key/value heads": "kv_heads",
        },
        "rotations": {
            "rotation": "part",
            "pairs": "count",
            "effective pairs": "effective_pairs",
        },
        "kinds": {
            "rotation": "rotation",
            "pairs (wavelengths)": "kind",
            "pairs": "portion.pairs",
            "if even": "portion.uniform",
            "queries": "portion.q",
            "keys": "portion.k",
            "scores": "portion.product",
        },
    }
    short = {
        "shown": ("positions", "trained length", "shares moved since"),
        "main_kinds": listed["kinds"],
        "strongest": {
            "rotation": "rotation",
            "strongest pairs": "pair.index",
            "wavelength": "pair.wavelength",
            "queries": "pair.share_q",
            "keys": "pair.share_k",
            "scores": "pair.share",
        },
    }

    model: str
    length: int
    trained: int
    pairing: PairLayout
    layers: tuple[UsedLayers, ...]
    rotations: tuple[RotationUse, ...]
    heads: tuple[HeadUse, ...] | None  # None without --all
    gains: str  # applied or none
    findings: Findings
    against: EnergyMoved | None = None  # comparison with another checkpoint
    shares: tuple[LayerShares, ...] = hidden(default=(), compare=False)

    @property
    def verdict(self) -> str:
        """Return the preference of the rotation, unless the pairing is doubtful."""
        if any(entry.code == "usage-pairing-doubt" for entry in self.findings):
            return "probably a mistake"
        if len(self.rotations) > 1:
            return "by layer type"
        preference = self.first.preference
        return "by layer" if preference == NONE and self.layers_in_words else preference

    @property
    def first(self) -> RotationUse:
        """Return the rotation of the first rotated layers."""
        return self.rotations[0]

    @property
    def layers_in_words(self) -> str:
        """Return how layers differ; empty if they do not."""
        messages = {entry.code: entry.message for entry in self.findings}
        return messages.get("usage-layers-differ", "")

    @property
    def next_step(self) -> str:
        """Return a command or an option that shows more about the preferred pairs."""
        file = self.encoding.file
        if file and self.verdict.startswith("slow pairs"):
            words = ("design", "--extend-from", file.spec, "--to", 4 * self.trained)
            command = command_line("pefourier", *words)
            return f"Run `{command}` to see how scalings for longer contexts change these pairs."
        return (
            "Add --all --csv to list the shares of every layer and head, or --plot usage.png to "
            "draw them by layer."
        )

    @property
    def moved_in_words(self) -> str:
        """A sentence on the pairs that moved most since the other checkpoint."""
        if self.against is None:
            return ""
        pairs = ", ".join(map(str, self.against.pairs[:STRONGEST]))
        return f" Since {shown(self.against.other)[1:-1]}, {pairs}."

    @property
    def preferences(self) -> str:
        """Return each rotation with the title of its preference."""
        titles = {code: verdict.title or code for code, verdict in self.verdicts.items()}
        return "; ".join(f"{use.name}: {titles[use.preference]}" for use in self.rotations)

    @property
    def kinds(self) -> list[Fields]:
        """Return the kinds of pairs of all rotations."""
        return [kind for rotation in self.rotations for kind in rotation.kinds]

    @property
    def main_kinds(self) -> list[Fields]:
        """Return the pairs of each rotation with few and with many rotations."""
        return [kind for rotation in self.rotations for kind in rotation.kinds[-2:]]

    @property
    def strongest(self) -> list[Fields]:
        """Return the pairs of each rotation with the largest shares."""
        return [
            {"rotation": use.part, "pair": pair}
            for use in self.rotations
            for pair in sorted(use.pairs, key=lambda pair: -pair.used)[:STRONGEST]
        ]

    def series(self) -> CsvTable:
        """Return the columns of the CSV output and one row per pair, or per head and pair."""
        rows: list[list[Any]] = []
        for r in self.rotations:
            fields = ([getattr(pair, name) for name in PAIR_FIELDS] for pair in r.pairs)
            rows += ([r.name, None, None, *own] for own in fields)
        rotation_of = {layer.layer: self.rotations[layer.rotation] for layer in self.shares}
        for use in self.heads or ():
            r = rotation_of[use.layer]
            for pair, share in zip(r.pairs, use.share, strict=True):
                place = pair.index, pair.wavelength, pair.turns
                rows.append([r.name, use.layer, use.head, *place, None, None, share])
        return ["rotation", "layer", "head", *PAIR_FIELDS], rows


def use_of_model(
    spec: str,
    length: int | None = None,
    layers: Ints | None = None,
    *,
    every_head: bool = False,
    against: str | None = None,
    stats: str | None = None,
    base: str | None = None,
    begin: Begin | None = None,
) -> Usage:
    """Measure which rotary frequencies a model uses, from its weights or its mean activations.

    Parameters
    ----------
    spec : str
        A model's folder, a .safetensors file in a folder with a config.json, or a .gguf file. A
        part of the config may follow after ``#``. With `stats` the config is enough.
    length : int, optional
        Number of positions. Default: the trained length.
    layers : range, optional
        Layers to read. Default: all.
    every_head : bool
        Whether the result lists the shares of each head.
    against : str, optional
        Another checkpoint to compare with, or with `stats` another file of mean activations.
    stats : str, optional
        A file of mean activations; shares are then those of squared mean lengths.
    base : str, optional
        The folder of the base of a PEFT adapter; the default is the folder that it names.
    begin : function, optional
        Called with the name of a phase; returns a function that is called with the number of
        finished layers and of all layers.
    """
    gains, findings = "none", [finding("usage-activations")]
    if stats is None:
        described, energies, pairing = measure_rows(
            open_model_weights(spec, base), layers, begin=begin
        )
        frequencies = frequencies_of(described)
        found: Iterable[LayerShares] = (
            shares_of(e, frequencies[e.rotation], pairing.name) for e in energies
        )
        gains = "applied" if all(e.gains for e in energies) else "none"
        findings = list(notes_on_usage(described, pairing, energies))
    else:
        described = rotations_of_model(spec)
        frequencies = frequencies_of(described)
        if len(frequencies) > 1:
            raise PefourierError(
                f"{shown(spec)} has {len(frequencies)} rotations, by type of layer; choose a type "
                "with PATH#TYPE"
            )
        file = described.encoding.file
        name = file.pairing if file and file.model else None
        pairing = PairLayout(name or "halves", "stats", None, None)
        found = shares_of_means(stats, frequencies[0] != 0, pairing.name)
    length = length or described.trained_or_native
    chosen = [layer for layer in found if layers is None or layer.layer in layers]
    if not chosen:
        raise PefourierError(f"{shown(spec)} has none of the selected layers")
    numbers = sorted({layer.rotation for layer in chosen})  # rotations of the chosen layers
    rotations: list[RotationUse] = []
    for n in numbers:
        omega = frequencies[n]
        own_shares = [layer for layer in chosen if layer.rotation == n]
        use = summarise(described.parts[n], omega, length, own_shares)
        rotations.append(use)
        findings += notes_on_contrasts(use, omega[omega != 0], own_shares)
    shares = tuple(replace(layer, rotation=numbers.index(layer.rotation)) for layer in chosen)
    runs, parts = list[UsedLayers](), [use.name for use in rotations]
    for run in described.layers:
        is_rotary = run.kind == "rotary" and run.part in parts
        rotation = parts.index(run.part) if is_rotary else None
        index = run.index or tuple(dict.fromkeys(s.layer for s in shares if is_rotary))
        if selected := tuple(i for i in index if layers is None or i in layers):
            own = next((s for s in shares if s.rotation == rotation), None)
            q_heads, kv_heads = (len(own.q), own.kv_heads) if own else (None, None)
            place = selected, run.kind, rotation
            runs.append(UsedLayers(*place, q_heads, kv_heads, run.part or None))
    heads = (HeadUse(s.layer, head, row) for s in shares for head, row in enumerate(s.used))
    usage = Usage(
        model=spec,
        length=length,
        trained=described.trained_or_native,
        pairing=pairing,
        layers=tuple(runs),
        rotations=tuple(rotations),
        heads=tuple(heads) if every_head else None,
        gains=gains,
        findings=tuple(findings),
        shares=shares,
        encodings=(replace(described.rotations[0], spec=spec),),
    )
    if against is None:
        return usage
    other, means = (against, None) if stats is None else (spec, against)
    base = base if is_adapter(other) else None
    reference = use_of_model(other, length, layers, stats=means, base=base, begin=begin)
    moved = moved_since(usage, replace(reference, model=against))
    first = moved.heads[0]
    slots = {"layer": first.layer, "head": first.head, "other": shown(against)[1:-1]}
    slots |= {"percent": number(100 * moved.moved, 2), "most": number(100 * first.moved, 2)}
    note = finding("usage-moved", "some" if first.moved else "none", **slots)
    return replace(usage, against=moved, findings=(*usage.findings, note))


def measure_rows(
    model: ModelWeights,
    layers: Ints | None = None,
    limit: int | None = None,
    begin: Begin | None = None,
) -> tuple[ModelPositions, list[LayerEnergies], PairLayout]:
    """Return the rotations of a model, the energies of its rows, and the layout of its pairs.

    `limit` reads at most this many layers, evenly spread.
    """
    described = rotations_of_model(model.file.spec)
    attentions = find_attentions(model, described, layers)
    if limit:
        attentions = attentions[:: -(-len(attentions) // limit)]
    show = begin("layers") if begin else None
    energies: list[LayerEnergies] = []
    for layer in map_ahead(partial(energies_at, model), attentions):
        energies.append(layer)
        if show:
            show(len(energies), len(attentions))
    pairs = list(map(len, frequencies_of(described)))
    rows = [(part, pairs[e.rotation]) for e in energies for part in (e.q, e.k)]
    return described, energies, choose_pairing(model, rows)


def with_pairing(enc: Encoding) -> Encoding:
    """Add a finding to a rotation from a config if weights in its folder contradict the pairing.

    A sample of layers is read. Without weights, or with unknown names, the rotation is unchanged.
    """
    folder = Path(str(enc.params["path"])).parent
    try:
        described, energies, pairing = measure_rows(open_model_weights(str(folder)), limit=SAMPLED)
    except PefourierError:  # `pefourier usage` reports such errors
        return enc
    notes = notes_on_usage(described, pairing, energies)
    doubts = [note for note in notes if note.code == "usage-pairing-doubt"]
    return replace(enc, findings=(*enc.findings, *doubts))


def notes_on_usage(
    described: ModelPositions, pairing: PairLayout, energies: list[LayerEnergies]
) -> Iterator[Finding]:
    """Yield findings about a result."""
    if pairing.source == "weights":
        yield finding("usage-pairing-guessed", name=pairing.name, both=pairing.correlations)
    elif pairing.likely not in (None, pairing.name):
        slots = {"told": pairing.name, "name": pairing.likely, "both": pairing.correlations}
        yield finding("usage-pairing-doubt", **slots)
    unrotated = [i for run in described.layers if run.kind != "rotary" for i in run.index]
    if unrotated:
        yield finding("usage-layers-left-out", layers=ranges(unrotated))
    if any(e.normed for e in energies):
        yield finding("usage-normed")
    if not all(e.gains for e in energies):
        yield finding("usage-no-gains")
    if any(f.code == "rope-axes" for enc in described.rotations for f in enc.findings):
        yield finding("usage-axes")
    yield finding("usage-weights-only")


def moved_since(usage: Usage, reference: Usage) -> EnergyMoved:
    """Compare the use of pairs between two checkpoints of one model.

    Raises
    ------
    PefourierError
        If layers, heads or pairs of the models differ.
    """
    before = {(s.layer, s.rotation, s.used.shape): s.used for s in reference.shares}
    heads = []
    for layer in usage.shares:
        used = before.get((layer.layer, layer.rotation, layer.used.shape))
        if used is None:
            count, pairs = layer.used.shape
            raise PefourierError(
                f"{shown(reference.model)} must have {count} heads of {pairs} pairs in layer "
                f"{layer.layer}, like {shown(usage.model)}; --against compares checkpoints of one "
                "model"
            )
        moved = np.abs(layer.used - used).sum(axis=1) / 2
        heads += [
            MovedHead(layer.layer, head, float(share))
            for head, share in enumerate(moved)
            if np.isfinite(share)
        ]
    if not heads:
        raise PefourierError("the two checkpoints have no head with shares in common")
    farthest = sorted(heads, key=lambda head: (-head.moved, head.layer, head.head))[:MOST_MOVED]
    mean = float(np.mean([head.moved for head in heads]))
    pairs = (
        MovedPair(use.part, pair.index, was.used, pair.used)
        for use, old in zip(usage.rotations, reference.rotations, strict=True)
        for pair, was in zip(use.pairs, old.pairs, strict=True)
    )
    order = sorted(pairs, key=lambda pair: (-abs(pair.now - pair.before), pair.index))
    return EnergyMoved(reference.model, mean, tuple(farthest), tuple(order))
