"""Which rows of a head are pairs? By config, by architecture, or by how long rows are."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pefourier.encodings.encoding import Encoding, Finding
from pefourier.encodings.sources.layers import open_model
from pefourier.encodings.sources.rope_config import pairing_of
from pefourier.encodings.specs import source_of
from pefourier.errors import PefourierError, shown
from pefourier.explained import Explained
from pefourier.weights.energies import energies_at
from pefourier.weights.model import ModelWeights, find_sites, open_model_weights, rotations_of_model

LEAST_LIKENESS = (
    0.1  # correlation, and lead over the other, below which rows do not tell their pairs
)

NAMED = {"interleaved": "neighbours", "halves": "halves", "axes": "halves"}
SAMPLED = 8  # layers from which check-faithful guesses a pairing


@dataclass(frozen=True)
class PairLayout(Explained):
    """Which rows of a head are turned together."""

    name: str  # halves or neighbours
    source: str  # config, architecture, or weights: the layout that norms of rows look like
    halves: float | None  # correlation of the norms of rows that halves pair
    neighbours: float | None  # and of those that stand side by side


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
    model: ModelWeights, enc: Encoding, likeness: Mapping[str, float | None]
) -> PairLayout:
    """The layout that a config or an architecture tells, or the one that the weights look like."""
    if model.gguf:
        from pefourier.encodings.sources.gguf_file import open_gguf

        told, source = NAMED.get(open_gguf(model.spec).pairing), "architecture"
    else:
        told, source = pairing_told(model.spec, enc), "config"
    if told is not None:
        return PairLayout(told, source, **likeness)
    return PairLayout(guess_layout(likeness, model.label), "weights", **likeness)


def pairing_told(spec: str, enc: Encoding) -> str | None:
    """The layout of a config's type of model; None where it is not known."""
    model, own = open_model(spec), enc.params.get("layout")
    if "axial" not in model.row:
        return pairing_of(model)
    if own not in NAMED:
        raise PefourierError(
            f"{shown(spec)} turns the two rows of a pair by different frequencies (layout {own}), "
            "which is no rotation: no pair has a frequency of its own"
        )
    return NAMED[own]


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
    name = likely_layout(likeness)
    if name is None:
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
    turned = rotations_of_model(model.spec)
    sites = find_sites(model, turned)
    picked = np.unique(np.linspace(0, len(sites) - 1, min(SAMPLED, len(sites))).astype(int))
    energies = [energies_at(model, sites[i]) for i in picked]
    rows = [(part, turned.pairs[e.rotation]) for e in energies for part in (e.q, e.k)]
    return layout_likeness(rows), pairing_of(open_model(model.spec))


def pairing_doubt(told: str, other: str, correlations: str) -> Finding:
    """The finding that weights look like another layout than the one that is told."""
    message = (
        f"the rows are turned as {told}, and the weights probably look like {other} (correlation "
        f"of norms: {correlations}); if they were made for {other}, 'pefourier convert' reorders "
        "them"
    )
    return Finding("usage-pairing-doubt", "warning", message)


def likely_layout(likeness: Mapping[str, float | None]) -> str | None:
    """The layout that weights look like; None where they look like neither, or like both.

    >>> likely_layout({"halves": 0.7, "neighbours": -0.1})
    'halves'
    >>> likely_layout({"halves": 0.996, "neighbours": 0.997})
    """
    known = {name: -1.0 if value is None else value for name, value in likeness.items()}
    name = max(known, key=known.__getitem__)
    lead = known[name] - min(known.values())
    return name if min(known[name], lead) >= LEAST_LIKENESS else None


def guess_layout(likeness: Mapping[str, float | None], label: str) -> str:
    """The layout that weights look like; refused where they do not tell."""
    name = likely_layout(likeness)
    if name is None:
        told = ", ".join(f"{n} {v:.2f}" for n, v in likeness.items() if v is not None) or "none"
        raise PefourierError(
            f"{label} does not say which rows of a head are turned together, and its weights do "
            f"not show it (correlation of norms: {told}; one of at least {LEAST_LIKENESS}, and as "
            "much above the other, is needed)"
        )
    return name


def doubtful(pairing: PairLayout) -> bool:
    """Whether weights look like another layout than the one that is told."""
    likeness = {"halves": pairing.halves, "neighbours": pairing.neighbours}
    return likely_layout(likeness) not in (None, pairing.name)
