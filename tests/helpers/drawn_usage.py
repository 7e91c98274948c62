"""Answers of `usage` for heads of random rows, with some pairs perhaps longer in queries."""

import numpy as np

from pefourier.encodings import load
from pefourier.encodings.encoding import finding
from pefourier.questions.usage import Usage
from pefourier.weights.pair_energy import LayerShares, PairLayout, normalised, summarise


def drawn_model(rng, shape, louder=1.0, of=slice(0), name="", length=512):
    """Draw a rotation from the numbers of layers, heads, key heads, pairs and columns."""
    layers, heads, kv, pairs, columns = shape
    shares = []
    for layer in range(layers):
        q, k = (rng.chisquare(2 * columns, (n, pairs)) for n in (heads, kv))  # two rows a pair
        q[:, of] *= louder
        q, k = (normalised(np.repeat(e, heads // len(e), axis=0)) for e in (q, k))
        shares.append(LayerShares(layer, 0, kv, q, k, normalised(q * k)))
    frequencies = 1e4 ** -(np.arange(pairs) / pairs)
    return summarise(name, frequencies, length, shares)


def drawn_usage(*rotations, doubt=False, apart=False):
    """Return the answer about rotations, each given by keywords of `drawn_model`."""
    rng = np.random.default_rng(0)
    models = [drawn_model(rng, (4, 8, 4, 16, 64), **one) for one in rotations]
    code = {"told": "halves", "name": "neighbours", "both": "halves -0.1, neighbours +0.7"}
    found = (finding("usage-pairing-doubt", **code),) if doubt else ()
    if apart:
        names = "of pairs count kind most least subject most_in least_in even over under"
        found = (finding("usage-layers-differ", **dict.fromkeys(names.split(), "x")),)
    pairing = PairLayout("halves", "config", -0.1, 0.7)
    encodings = (load("rope", 512, 32),)
    return Usage(
        "m", 512, 512, pairing, (), tuple(models), None, "applied", found, encodings=encodings
    )
