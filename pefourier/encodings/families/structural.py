"""Encodings of structure: branches of a tree (Shiv & Quirk, 2019), states of a recurrent unit."""

from dataclasses import replace

import numpy as np

from pefourier.encodings.encoding import FLOAT64_EPS, Encoding, from_table, nodes
from pefourier.encodings.families.absolute import stream
from pefourier.encodings.registry import encoding
from pefourier.errors import PefourierError, check_size
from pefourier.types import Counts


@encoding("tree", "Shiv & Quirk, 2019", domain="tree")
def tree(
    length: int,
    d: int,
    *,
    parents: Counts = (),
    width: int = 2,
    p: tuple[float, ...] = (0.7,),
) -> Encoding:
    """Branches on the path from a node to the root, one-hot among `width`, weighted by depth.

    Step j above the node has the weight p^j √((1 − p^2) d/2), for each p (learned in the paper, as
    tanh of a free parameter). The vector of the root is zero. The d columns hold the lowest
    d // (width · number of p) steps; the remaining columns are zero.

    `parents` lists the parent of each node, with -1 for the root, which comes first; its size sets
    the length. By default, the tree is complete, with `length` nodes in breadth-first order.

    Parameters
    ----------
    parents : tuple of int
        Parent of each node, -1 for the root: tree:parents=-1;0;0;1.
    width : int
        Largest number of children of a node.
    p : tuple of float
        Decay per step of depth, between -1 and 1; each value has separate columns.

    Examples
    --------
    >>> tree(4, 4, p=(0.6,)).table().round(3)
    array([[0.   , 0.   , 0.   , 0.   ],
           [1.131, 0.   , 0.   , 0.   ],
           [0.   , 1.131, 0.   , 0.   ],
           [1.131, 0.   , 0.679, 0.   ]])
    """
    decay = np.array(p)
    if len(decay) == 0 or not (np.abs(decay) < 1).all():
        raise PefourierError(f"p must be one or more numbers between -1 and 1; got {p}")
    depth = d // (width * len(decay))
    if depth == 0:
        raise PefourierError(
            f"d must be at least {width * len(decay)} for one step of a tree of width {width} with "
            f"{len(decay)} values of p; got d={d}"
        )
    parent = np.array(parents) if parents else (np.arange(length) - 1) // width
    domain = nodes(parent)
    check_size("tree", len(parent), d)
    choices, children = np.zeros((len(parent), depth, width)), np.zeros(len(parent), dtype=int)
    for node, above in enumerate(parent[1:].tolist(), start=1):
        if children[above] == width:
            raise PefourierError(f"node {above} has more than {width} children; set width=…")
        choices[node, 1:] = choices[above, :-1]  # steps beyond the depth are dropped
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
    """States of a gated recurrent unit (GRU) that reads the constant 1 at every position.

    As in torch: r, z = σ(W x + U h + b), n = tanh(W_n x + b_n + r (U_n h + c_n)),
    h' = (1 − z) n + z h from h = 0, with all weights uniform on ±1/√d. The vector of position s is
    the state after s + 1 steps. The state is final once a step is as small as its rounding; all
    later positions share its vector.

    Parameters
    ----------
    seed : int
        Seed of the random numbers; the same seed gives the same vectors on every machine.

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
    # rows of the gates r, z, n are stacked, in torch's order of parameters
    w, u = draw(-bound, bound, 3 * d), draw(-bound, bound, (3 * d, d))
    b, c = draw(-bound, bound, (2, 3 * d))
    inputs, table, h = w + b, np.empty((length, d)), np.zeros(d)
    for s in range(length):
        recalled = u @ h + c
        gates = 0.5 * (inputs[: 2 * d] + recalled[: 2 * d])
        r, z = 0.5 * (1.0 + np.tanh(gates)).reshape(2, d)  # the logistic function
        step = (1 - z) * (np.tanh(inputs[2 * d :] + r * recalled[2 * d :]) - h)
        if np.linalg.norm(step) <= 4 * FLOAT64_EPS * np.linalg.norm(h):
            table[s:] = h  # otherwise rounding, which depends on the machine, would separate them
            break
        h = h + step
        table[s] = h
    return from_table(table, "recurrent")
