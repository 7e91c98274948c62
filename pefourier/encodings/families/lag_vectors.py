"""Vectors of the lag that a trained matrix projects before attention uses them.

xl (Transformer-XL, XLNet, Conformer) has sines and cosines of the lag; deberta has a trained vector
for each bucket of lags. The vectors have the width of the model. Tables start with the largest
distance before the query, as in the source code of these models.
"""

from typing import Literal

import numpy as np

from pefourier.encodings.columns import Layout, waves
from pefourier.encodings.encoding import NO_WAVES, Encoding, equal_pairs
from pefourier.encodings.families.absolute import geometric_frequencies, stream
from pefourier.encodings.families.fourier import pair_count
from pefourier.encodings.families.relative import by_lag
from pefourier.encodings.registry import encoding
from pefourier.errors import LARGEST, PefourierError, check_above, check_count, check_size
from pefourier.types import Floats, Places


@encoding("xl", "Dai et al., 2019 (Transformer-XL), section 3.3", domain="lag", declared=True)
def xl(
    length: int,
    d: int,
    *,
    rho: float = 10000.0,
    layout: Layout = "halves",
    divisor: Literal["d", "d/2-1"] = "d",
    clamp: int = 0,
    causal: bool = False,
) -> Encoding:
    """Sines and cosines of the lag, projected and added to the key (Transformer-XL).

    Columns are sin(ω_i r), cos(ω_i r) of the distance r = query - key, with ω_i = ρ^(−2i/d). If R
    is the vector of a lag, a score is q·k + q·WR + u·k + v·WR, where W is a trained matrix, and u
    and v are trained vectors of each head. `train` adds R to the key, without W, u and v.

    Parameters
    ----------
    rho : float
        Base of the frequencies; a larger base lowers the lowest frequency.
    layout : str
        halves: all sines, then all cosines (Transformer-XL, XLNet); interleaved: sine and cosine of
        a frequency adjacent (Conformer).
    divisor : str
        Divisor in the exponent: d, or d/2-1, with which the lowest frequency is 1/ρ (Gemma).
    clamp : int
        Distance from which all lags of the same sign share a vector (clamp_len of XLNet); 0: no
        limit.
    causal : bool
        Whether to keep only the lags up to 0, as with attn_type uni of XLNet; otherwise both signs.

    Examples
    --------
    >>> xl(3, 2).table().round(3)  # keys 2 and 1 before the query, itself, 1 and 2 after
    array([[ 0.909, -0.416],
           [ 0.841,  0.54 ],
           [ 0.   ,  1.   ],
           [-0.841,  0.54 ],
           [-0.909, -0.416]])
    """
    pair_count("xl", d)
    check_count("clamp", clamp, minimum=0)
    measure = equal_pairs(geometric_frequencies(d, rho, divisor))
    farthest = clamp or LARGEST

    def vectors(lag: Places) -> Floats:
        return waves(measure.phases(np.clip(-np.asarray(lag), -farthest, farthest)), layout)

    kept = NO_WAVES if farthest < length - 1 else measure
    return by_lag("xl", length, d, vectors, causal=causal, injection="key", measure=kept)


def deberta_buckets(distance: Places, buckets: int = 256, max_distance: int = 512) -> Places:
    r"""Signed bucket of each distance query - key (DeBERTa V2): exact, then logarithmic.

    With e = buckets // 2, distances r up to e are their own bucket. Larger distances have bucket
    :math:`e + \lceil (e - 1) \ln(r/e) / \ln((\mathrm{max\_distance} - 1)/e) \rceil`. With buckets=0
    (DeBERTa V1), all distances are exact.

    >>> deberta_buckets(np.array([-511, -128, -1, 0, 5, 200]))
    array([-255, -128,   -1,    0,    5,  169])
    """
    distance = np.asarray(distance)
    if not buckets:
        return distance
    middle = buckets // 2
    if middle < 1 or max_distance <= middle + 1:
        raise PefourierError(
            f"buckets must be 0, or at least 2, and max_distance above {middle + 1}; got {buckets} "
            f"and {max_distance}"
        )
    size = np.maximum(np.abs(distance), middle)
    steps = np.log(size / middle) / np.log((max_distance - 1) / middle) * (middle - 1)
    far = (middle + np.ceil(steps)) * np.sign(distance)
    return np.where(size <= middle, distance, far).astype(np.int64)


@encoding("deberta", "He et al., 2021 (DeBERTa, before training)", domain="lag", untrained=True)
def deberta(
    length: int,
    d: int,
    *,
    buckets: int = 256,
    max_distance: int = 512,
    p2c: bool = True,
    causal: bool = False,
    scale: float = 0.02,
    seed: int = 0,
) -> Encoding:
    """A vector for each bucket of lags, multiplied by queries and keys in attention (DeBERTa).

    If E is the vector of a bucket (`deberta_buckets`), a score is q·k + q·W_k E + k·W_q E, divided
    by √(3 · head size). The second term is c2p, the third is p2c; without p2c, the divisor is
    √(2 · head size). Both terms use the bucket of query - key. The initial numbers are normal with
    standard deviation `scale`. `train` uses E without W_k and W_q, and divides by √(head size).

    Parameters
    ----------
    buckets : int
        Number of buckets of each sign; the first half have one distance each. 0: a bucket for each
        distance.
    max_distance : int
        Distance at which the buckets end; a SPEC can also call it max.
    p2c : bool
        Whether scores have the term p2c in addition to c2p.
    causal : bool
        Whether to keep only the lags up to 0, as in a decoder; otherwise both signs.
    scale : float
        Standard deviation of the initial values.
    seed : int
        Seed of the random numbers; the same seed gives the same vectors on every machine.

    Examples
    --------
    >>> len(np.unique(deberta(512, 8).table(), axis=0))
    511
    """
    check_above("scale", scale)
    check_count("buckets", buckets, minimum=0)
    check_count("max_distance", max_distance)
    check_size("deberta", 2 * (buckets or max_distance), d)
    table = stream(seed).normal(0.0, scale, (2 * (buckets or max_distance), d))
    return of_distances(length, table, buckets, max_distance, p2c=p2c, causal=causal)


def of_distances(
    length: int,
    table: Floats,
    buckets: int,
    max_distance: int,
    *,
    p2c: bool = True,
    causal: bool = False,
) -> Encoding:
    """Encoding of a table of vectors (2 span, d); row span belongs to distance 0."""
    span, d = len(table) // 2, table.shape[1]
    deberta_buckets(np.zeros(1, dtype=int), buckets, max_distance)  # refuses invalid numbers

    def vectors(lag: Places) -> Floats:
        row = deberta_buckets(-np.asarray(lag), buckets, max_distance) + span
        return table[np.clip(row, 0, 2 * span - 1)]

    kind = "key-query" if p2c else "key"
    return by_lag("deberta", length, d, vectors, causal=causal, injection=kind)
