"""Encodings of real-valued times: mtan and mtan-fixed (Shukla & Marlin, 2021), time2vec.

Conventions
-----------
`times` (n,) are strictly increasing, in any unit; from the command line they come by ``--times
FILE`` and set the length. Without them the times are the positions 0 … length - 1, on which all
three can be compared with any other encoding. Frequencies are in radians per mean spacing.
"""

from dataclasses import replace

import numpy as np

from pefourier.encodings.checks import check_count, check_size
from pefourier.encodings.domain import Domain, nodes, time_axis
from pefourier.encodings.encoding import FLOAT64_EPS, Encoding, Finding, from_table
from pefourier.encodings.families.absolute import geometric_frequencies, stream
from pefourier.encodings.families.fourier import pair_count, sinusoids
from pefourier.encodings.findings import finding
from pefourier.encodings.registry import encoding
from pefourier.errors import PefourierError

UNUSUAL = 4.0  # a median step of times, or one over it, beyond which waves of unit rates suit less


def span(domain: Domain) -> float:
    """Time between the first point and the last; 1 for a single point."""
    return float(domain.x[-1] - domain.x[0]) or 1.0


def far_from_one(domain: Domain) -> list[Finding]:
    """What to divide times by whose steps are far from one, in whose unit waves count."""
    steps = np.diff(domain.x)
    median = float(np.median(steps)) if domain.kind == "time" and len(steps) else 1.0
    if 1 / UNUSUAL <= median <= UNUSUAL:
        return []
    values = {"span": domain.x[-1] - domain.x[0], "median": median}
    return [finding("times-unit", **values)]


def line_and_sines(
    name: str, domain: Domain, slopes: np.ndarray, shifts: np.ndarray, params: dict
) -> Encoding:
    r"""Columns :math:`a_0 t + b_0` and :math:`\sin(a_j t + b_j)`, j = 1 … d - 1."""

    def codes(t: np.ndarray) -> np.ndarray:
        table = np.multiply.outer(np.asarray(t, dtype=float), slopes) + shifts
        table[:, 1:] = np.sin(table[:, 1:])
        return table

    return Encoding(name, domain, len(slopes), codes, rates=slopes[1:], params=params)


@encoding("time2vec", "Kazemi et al., 2019, Eq. 1 (before training)", domain="time", untrained=True)
def time2vec(length: int, d: int, *, seed: int = 0, times: np.ndarray | None = None) -> Encoding:
    """One linear and d - 1 periodic functions of time (Kazemi et al., 2019, Eq. 1).

    Columns are a_0 t + b_0 and sin(a_j t + b_j); a and b start standard normal (the paper names no
    start).

    Parameters
    ----------
    seed : int
        Seed of the random numbers; the same one gives the same codes on every machine.
    times : array
        Irregular times, from --times FILE; without it regular positions.

    Examples
    --------
    >>> time2vec(3, 2).table().round(3)
    array([[0.979, 0.784],
           [2.743, 0.48 ],
           [4.507, 0.1  ]])
    """
    domain, noted = time_axis(length, times)
    slopes, shifts = stream(seed).normal(size=(2, d))
    plain = line_and_sines("time2vec", domain, slopes, shifts, noted)
    return replace(plain, findings=far_from_one(domain))


@encoding("mtan", "Shukla & Marlin, 2021 (before training)", domain="time", untrained=True)
def mtan(length: int, d: int, *, seed: int = 0, times: np.ndarray | None = None) -> Encoding:
    """The learned time embedding of mTAN (Shukla & Marlin, 2021), as it starts.

    Columns are a_0 t + b_0 and sin(a_j t + b_j) with t divided by the span of the times, as the
    authors do; a and b start uniform on (-1, 1), as torch's Linear(1, ·) does. So nothing turns by
    more than a sixth of a circle before training: the spectrum is all at 0.

    Parameters
    ----------
    seed : int
        Seed of the random numbers; the same one gives the same codes on every machine.
    times : array
        Irregular times, from --times FILE; without it regular positions.

    Examples
    --------
    >>> mtan(3, 2).table().round(3)
    array([[0.206, 0.09 ],
           [0.254, 0.3  ],
           [0.303, 0.497]])
    """
    domain, noted = time_axis(length, times)
    slopes, shifts = stream(seed).uniform(-1.0, 1.0, (2, d))
    return line_and_sines("mtan", domain, slopes / span(domain), shifts, noted)


@encoding(
    "mtan-fixed",
    "Shukla & Marlin, 2021 (reml-lab/mTAN, fixed_time_embedding)",
    domain="time",
    declared=True,
)
def mtan_fixed(
    length: int, d: int, *, rho: float = 10.0, scale: float = 48.0, times: np.ndarray | None = None
) -> Encoding:
    """Sines and cosines of 48 t at base 10, t divided by the span of the times (mTAN).

    Columns are sin(w_i t), cos(w_i t) alternating, with w_i = scale ρ^(−2i/d) / span: 48 are the
    hours of a stay in the authors' data, so that the fastest turns by one radian an hour.

    Parameters
    ----------
    rho : float
        Base of the frequencies: the larger, the slower the slowest wave.
    scale : float
        Radians that the fastest wave turns over the span of the times.
    times : array
        Irregular times, from --times FILE; without it regular positions.

    Examples
    --------
    >>> mtan_fixed(49, 4).measure.frequencies.round(6)
    array([1.      , 0.316228])
    """
    pair_count("mtan-fixed", d)
    domain, noted = time_axis(length, times)
    frequencies = geometric_frequencies(d, rho) * (scale / span(domain))
    return sinusoids("mtan-fixed", domain, frequencies, "interleaved", params=noted)


@encoding("tree", "Shiv & Quirk, 2019", domain="tree")
def tree(
    length: int,
    d: int,
    *,
    parents: tuple[int, ...] = (),
    width: int = 2,
    p: tuple[float, ...] = (0.7,),
) -> Encoding:
    """Branches chosen from a node up to the root, each one-hot among `width`, weighted by depth.

    The step j above the node has the weight p^j √((1 − p^2) d/2), for each p of several in turn
    (learned in the paper, as tanh of a free parameter). The root's code is zero. d columns hold the
    lowest d // (width · number of p) steps; the rest of the columns is zero.

    `parents` gives each node's parent, -1 for the root, which comes first; its size sets the
    length. Without it the tree is the complete one of `length` nodes in breadth-first order.

    Parameters
    ----------
    parents : tuple of int
        Parent of each node, -1 for the root: tree:parents=-1;0;0;1.
    width : int
        Most children that a node has.
    p : tuple of float
        Decay of a step with its depth, between -1 and 1; several side by side.

    Examples
    --------
    >>> tree(4, 4, p=(0.6,)).table().round(3)
    array([[0.   , 0.   , 0.   , 0.   ],
           [1.131, 0.   , 0.   , 0.   ],
           [0.   , 1.131, 0.   , 0.   ],
           [1.131, 0.   , 0.679, 0.   ]])
    """
    check_count("width", width)
    decay = np.array(p)
    if len(decay) == 0 or not (np.abs(decay) < 1).all():
        raise PefourierError(f"p must be one or more numbers between -1 and 1; got {p}")
    depth = d // (width * len(decay))
    if depth == 0:
        raise PefourierError(
            f"one step of a tree of width {width} with {len(decay)} p takes "
            f"{width * len(decay)} columns; got d={d}"
        )
    parent = np.array(parents) if parents else (np.arange(length) - 1) // width
    domain = nodes(parent)
    check_size("tree", len(parent), d)
    choices, children = np.zeros((len(parent), depth, width)), np.zeros(len(parent), dtype=int)
    for node, above in enumerate(parent[1:].tolist(), start=1):
        if children[above] == width:
            raise PefourierError(f"node {above} has more than {width} children; set width=…")
        choices[node, 1:] = choices[above, :-1]  # steps beyond the depth are forgotten
        choices[node, 0, children[above]] = 1.0
        children[above] += 1
    weights = decay ** np.arange(depth)[:, None] * np.sqrt((1 - decay**2) * d / 2)
    table = np.zeros((len(parent), d))
    steps = choices[..., None] * weights[:, None, :]
    table[:, : depth * width * len(decay)] = steps.reshape(len(parent), -1)
    params = {"length": len(parent)}
    return replace(from_table(table, "tree", params=params), domain=domain)


@encoding(
    "recurrent",
    "Neishi & Yoshinaga, 2019; GRU of Cho et al., 2014 (before training)",
    untrained=True,
)
def recurrent(length: int, d: int, *, seed: int = 0) -> Encoding:
    """States of a gated recurrent unit that reads the constant 1 at every position.

    As in torch: r, z = σ(W x + U h + b), n = tanh(W_n x + b_n + r (U_n h + c_n)),
    h' = (1 − z) n + z h from h = 0, with all weights uniform on ±1/√d. The code of position s is
    the state after s + 1 steps. The state has arrived, and stays, when a step is no longer than its
    rounding: from there on positions share their code.

    Parameters
    ----------
    seed : int
        Seed of the random numbers; the same one gives the same codes on every machine.

    Examples
    --------
    >>> recurrent(3, 2).table().round(4)
    array([[-0.0617,  0.1168],
           [-0.104 ,  0.2132],
           [-0.135 ,  0.2924]])
    """
    check_size("recurrent", max(length, 3 * d), d)
    bound = d**-0.5
    draw = stream(seed).uniform
    # rows of the gates r, z, n one under the other, in torch's order of parameters
    w, u = draw(-bound, bound, 3 * d), draw(-bound, bound, (3 * d, d))
    b, c = draw(-bound, bound, (2, 3 * d))
    inputs, table, h = w + b, np.empty((length, d)), np.zeros(d)
    for s in range(length):
        recalled = u @ h + c
        gates = 0.5 * (inputs[: 2 * d] + recalled[: 2 * d])
        r, z = 0.5 * (1.0 + np.tanh(gates)).reshape(2, d)  # the logistic function
        step = (1 - z) * (np.tanh(inputs[2 * d :] + r * recalled[2 * d :]) - h)
        if np.linalg.norm(step) <= 4 * FLOAT64_EPS * np.linalg.norm(h):
            table[s:] = h  # else the order of a sum, and so the machine, would tell them apart
            break
        h = h + step
        table[s] = h
    return from_table(table, "recurrent")
