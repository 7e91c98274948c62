"""Which rows of a head are pairs? By config, by architecture, or by how long rows are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pefourier.encodings.specs import open_model
from pefourier.errors import PefourierError
from pefourier.weights.model import ModelWeights

LEAST_LIKENESS = 0.1  # correlation, and lead over the other, below which pairs are not told
PAIRINGS = {"interleaved": "neighbours", "halves": "halves", "axes": "halves"}  # of llama.cpp
Likeness = Mapping[str, float | None]  # correlation by the name of a layout; None: no norms differ


@dataclass(frozen=True)
class PairLayout:
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
    return np.arange(2 * count).reshape((2, count), order="C" if name == "halves" else "F")


def layout_likeness(rows: Sequence[tuple[np.ndarray, int]]) -> Likeness:
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
    likeness: dict[str, float | None] = {}
    logs = [np.log(np.maximum(energies[:, : 2 * count], 1e-300)) for energies, count in rows]
    logs = [log - log.mean(axis=1, keepdims=True) for log in logs]
    for name in ("halves", "neighbours"):
        pairs = [log[:, pair_rows(log.shape[1] // 2, name)].swapaxes(0, 1) for log in logs]
        x, y = np.concatenate([log.reshape(2, -1) for log in pairs], axis=1)
        x, y = np.r_[x, y], np.r_[y, x]  # neither row of a pair is the first
        likeness[name] = float(np.corrcoef(x, y)[0, 1]) if x.std() > 1e-9 else None
    return likeness


def choose_pairing(model: ModelWeights, likeness: Likeness) -> PairLayout:
    """The layout that a config or an architecture tells, or the one that the weights look like."""
    if model.gguf is not None:
        name, source = PAIRINGS.get(model.gguf.pairing), "architecture"
    else:
        name, source = open_model(model.spec).pairing, "config"
    if name is not None:
        return PairLayout(name, source, **likeness)
    likely = likely_layout(likeness)
    if likely is None:
        raise PefourierError(
            f"{model.label} does not say which rows of a head are turned together, and its weights "
            f"do not show it (correlation of norms: {correlations(likeness) or 'none'}; one of at "
            f"least {LEAST_LIKENESS}, and as much above the other, is needed)"
        )
    return PairLayout(likely, "weights", **likeness)


def likely_layout(likeness: Likeness) -> str | None:
    """The layout that weights look like; None where they look like neither, or like both.

    >>> likely_layout({"halves": 0.7, "neighbours": -0.1})
    'halves'
    >>> likely_layout({"halves": 0.996, "neighbours": 0.997})
    """
    values = {name: -1.0 if value is None else value for name, value in likeness.items()}
    name = max(values, key=values.__getitem__)
    lead = values[name] - min(values.values())
    return name if min(values[name], lead) >= LEAST_LIKENESS else None


def correlations(likeness: Likeness) -> str:
    """Correlations of norms.

    >>> correlations({"halves": 0.7, "neighbours": None})
    'halves +0.70'
    """
    return ", ".join(f"{n} {v:+.2f}" for n, v in likeness.items() if v is not None)
