"""Codes of the nodes of a tree: the path from a node to the root (Shiv & Quirk, 2019)."""

from dataclasses import replace

import numpy as np

from pefourier.encodings.checks import check_count, check_size
from pefourier.encodings.domain import nodes
from pefourier.encodings.encoding import Encoding, from_table
from pefourier.encodings.registry import encoding
from pefourier.errors import PefourierError


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
