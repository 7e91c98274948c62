"""Encodings of the nodes of a graph or a tree: eigenvectors, random walks, branches; and a GRU.

On the command line, ``--edges FILE`` sets the edges, two node numbers a row, from 0 on; edges are
undirected and have no weights. The Laplacian is L = I - D^(-1/2) A D^(-1/2). An eigenvalue
1 - cos ω has the angular frequency ω: 2 pi k / n on a cycle, as in the DFT, and pi k / (n - 1) on a
path. Nodes of a tree have the branches that lead to them (Shiv & Quirk, 2019). The states of a
recurrent unit number the positions of a sequence.
"""

from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from pefourier.encodings.encoding import (
    FLOAT64_EPS,
    LARGEST_BASIS,
    BasisDomain,
    Encoding,
    check_basis,
    finding,
    from_table,
    nodes,
)
from pefourier.encodings.families.absolute import stream
from pefourier.encodings.registry import encoding
from pefourier.errors import PefourierError, check_size
from pefourier.types import Counts, Fields, Floats, Places
from pefourier.writing.text import first_few

EQUAL = 1e-9  # difference of equal eigenvalues
EXACT = 2**34  # products up to which equal probabilities of a random walk are found exactly
PRIME = 2**31 - 1  # residues and their products fit into 64 bits
SMALLEST = 1e-7  # part of a node in an eigenspace that exceeds rounding


def graph_of(edges: ArrayLike | None, length: int) -> tuple[BasisDomain, Fields]:
    """Graph of edges, by default a path of `length` nodes, and the parameters that follow from it.

    >>> graph_of([[0, 1], [1, 2]], 0)[1]["eigenvalues"]
    (0.0, 1.0, 2.0)
    """
    pairs, adjacent = adjacency(edges, length)
    n, degrees = len(adjacent), adjacent.sum(axis=1)
    if n > 1 and not degrees.all():
        reason = "libraries disagree on isolated nodes; number other nodes from 0 without gaps"
        raise PefourierError(f"node {np.argmin(degrees)} of 0 … {n - 1} has no edge: {reason}")
    scale = np.maximum(degrees, 1.0) ** -0.5
    values, basis = np.linalg.eigh(np.eye(n) - scale[:, None] * adjacent * scale)
    values = np.clip(values, 0.0, 2.0).round(12)
    omega = 2 * np.arcsin(np.sqrt(values / 2))
    graph = BasisDomain("graph", np.arange(n), omega=omega, basis=basis)
    for space in eigenspaces(graph):
        basis[:, space] = by_first_nodes(basis[:, space])
    stated = {} if edges is None else {"edges": tuple(map(tuple, pairs.tolist()))}
    return graph, {"length": n, "eigenvalues": tuple(values.tolist()), **stated}


def adjacency(edges: ArrayLike | None, length: int) -> tuple[Places, Floats]:
    """Pairs of nodes, by default those of a path, and the adjacency matrix (n, n) of 0 and 1.

    Edges must be pairs of different nodes; each is returned once, in order.
    """
    line = np.stack([np.arange(length - 1), np.arange(1, length)], axis=-1)
    pairs = line if edges is None else np.atleast_2d(np.asarray(edges, dtype=float))
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise PefourierError(f"edges must be two columns, without weights; got shape {pairs.shape}")
    are_nodes = ((pairs >= 0) & (pairs <= LARGEST_BASIS) & (pairs % 1 == 0)).all(axis=1)
    wrong = np.flatnonzero(~are_nodes | (pairs[:, 0] == pairs[:, 1]))
    if edges is not None and len(wrong):
        rule = f"an edge must join two different nodes, whole numbers from 0 to {LARGEST_BASIS}"
        raise PefourierError(f"{rule}; edge {wrong[0]} is {tuple(pairs[wrong[0]].tolist())}")
    pairs = np.unique(np.sort(pairs, axis=1), axis=0).astype(np.int64)
    n = int(pairs.max(initial=0)) + 1
    check_basis(n, "nodes of a graph")
    adjacent = np.zeros((n, n))
    adjacent[pairs[:, 0], pairs[:, 1]] = adjacent[pairs[:, 1], pairs[:, 0]] = 1.0
    return pairs, adjacent


def eigenspaces(graph: BasisDomain) -> list[Places]:
    """Columns of the basis with equal eigenvalues."""
    return np.split(graph.x, np.flatnonzero(np.diff(-np.cos(graph.omega)) > EQUAL) + 1)


def by_first_nodes(space: Floats) -> Floats:
    """Rotate an orthonormal basis (n, m) so that the first nodes define its columns.

    Column 1 is the projection of the first node that the space contains, column 2 that of the next
    node orthogonal to it, and so on; each is positive there. This fixes signs and rotations, which
    eigenvectors leave open: on a cycle, a cosine comes first and then a sine.

    >>> by_first_nodes(np.array([[0.0, -1.0], [1.0, 0.0]])) + 0.0
    array([[1., 0.],
           [0., 1.]])
    """
    rest, columns = space.copy(), []
    for _ in range(space.shape[1]):
        sizes = np.linalg.norm(rest, axis=1)
        node = int(np.argmax(sizes > SMALLEST))
        direction = rest[node] / sizes[node]
        columns.append(space @ direction)
        rest = rest - np.outer(rest @ direction, direction)
    return np.stack(columns, axis=1)


@encoding("laplacian", "Dwivedi et al., 2020, arXiv 2003.00982", domain="graph")
def laplacian(length: int, d: int, *, edges: Floats | None = None) -> Encoding:
    """Eigenvectors 1 … d of the normalized Laplacian of a graph, by increasing eigenvalue.

    L = I − D^(−1/2) A D^(−1/2) with adjacency matrix A and degrees D. The first eigenvector is left
    out, and columns beyond n - 1 are zero. The sign of each column, and any rotation of columns
    with equal eigenvalues, are arbitrary: here the first node in each eigenspace is positive. On a
    cycle, the columns are the cosines and sines of the DFT; on a path, cos(π k s / (n − 1)) times
    the square root of the degree.

    Parameters
    ----------
    edges : array
        Node numbers of each edge, from --edges FILE; by default a path of `length` nodes.

    Examples
    --------
    >>> laplacian(4, 2).table().round(3)
    array([[ 0.577,  0.577],
           [ 0.408, -0.408],
           [-0.408, -0.408],
           [-0.577,  0.577]])
    """
    graph, params = graph_of(edges, length)
    check_size("laplacian", len(graph), d)
    table, count = np.zeros((len(graph), d)), min(d, len(graph) - 1)
    table[:, :count] = graph.basis[:, 1 : count + 1]
    spaces = [space for space in eigenspaces(graph) if len(space) > 1 and space[0] <= d]
    remarks = []
    if spaces:
        groups = first_few([f"{space[0]} to {space[-1]}" for space in spaces])
        remarks.append(finding("equal-eigenvalues", groups=groups))
    if spaces and (part := spaces[-1])[-1] > d:
        sizes = " or ".join(f"--d {size}" for size in (part[0] - 1, part[-1]) if size > 0)
        remarks.append(finding("cut-eigenspace", count=len(part), d=d, sizes=sizes))
    facts = {"params": params, "findings": (*remarks, finding("eigenvector-signs"))}
    return replace(from_table(table, "laplacian", **facts), domain=graph)


@encoding("random-walk", "Dwivedi et al., 2022, arXiv 2110.07875", domain="graph")
def random_walk(length: int, d: int, *, edges: Floats | None = None) -> Encoding:
    """Probabilities that a random walk is back at its node after 1 … d steps.

    Columns are the diagonals of P, P^2 … P^d with P = D^(−1) A, adjacency matrix A and degrees D.
    Nodes that an automorphism of the graph maps to each other share a vector, for every d. Numbers
    of small graphs are equal only if they are equal exactly.

    Parameters
    ----------
    edges : array
        Node numbers of each edge, from --edges FILE; by default a path of `length` nodes.

    Examples
    --------
    >>> random_walk(4, 4).table()
    array([[0.    , 0.5   , 0.    , 0.375 ],
           [0.    , 0.75  , 0.    , 0.6875],
           [0.    , 0.75  , 0.    , 0.6875],
           [0.    , 0.5   , 0.    , 0.375 ]])
    """
    graph, params = graph_of(edges, length)
    check_size("random-walk", len(graph), d)
    if len(graph) ** 3 * d > EXACT:
        powers = np.cos(graph.omega)[:, None] ** np.arange(1, d + 1)
        table, eps = merged(graph.basis**2 @ powers), FLOAT64_EPS
    else:
        table, eps = return_probabilities(adjacency(edges, length)[1], d), 0.0
    return replace(from_table(table, "random-walk", params=params, eps=eps), domain=graph)


def return_probabilities(adjacent: Floats, d: int) -> Floats:
    """Diagonals of P … P^d: numbers of a column are equal exactly if their residues are equal.

    Residues modulo a prime are exact, while float64 rounds numbers that differ by less than one
    unit to the same; the larger is then the next float64.

    >>> return_probabilities(np.array([[0.0, 1.0], [1.0, 0.0]]), 2)
    array([[0., 1.],
           [0., 1.]])
    """
    degrees = adjacent.sum(axis=1, keepdims=True).clip(1)
    inverses = np.array([[pow(int(degree), -1, PRIME)] for degree in degrees.ravel()])
    walk = residues = np.eye(len(adjacent))
    columns = []
    for _ in range(d):
        walk = adjacent @ walk / degrees
        residues = (adjacent @ residues % PRIME).astype(np.int64) * inverses % PRIME
        _, first, group = np.unique(residues.diagonal(), return_index=True, return_inverse=True)
        values = walk.diagonal()[first]
        order = np.argsort(values)
        for low, high in pairwise(order):
            values[high] = max(values[high], np.nextafter(values[low], 2.0))
        columns.append(values[group])
    return np.stack(columns, axis=1)


def merged(table: Floats) -> Floats:
    """Set numbers that differ by rounding to the smallest, so that equal nodes stay equal.

    >>> merged(np.array([[0.3], [0.1], [0.1 + 0.2]])).ravel()
    array([0.3, 0.1, 0.3])
    """
    values, index = np.unique(table, return_inverse=True)
    starts = np.diff(values, prepend=-1.0) > 1e-12
    groups = np.maximum.accumulate(np.arange(len(values)) * starts)
    return np.asarray(values[groups].round(14)[index.reshape(table.shape)] + 0.0)


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
    return replace(from_table(table, "tree", params={"length": len(parent)}), domain=domain)


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
