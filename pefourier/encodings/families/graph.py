"""Encodings of the nodes of a graph: eigenvectors of its Laplacian, and random walks.

On the command line, ``--edges FILE`` sets the edges, two node numbers a row, from 0 on; edges are
undirected and have no weights. The Laplacian is L = I - D^(-1/2) A D^(-1/2). An eigenvalue
1 - cos ω has the angular frequency ω: 2 pi k / n on a cycle, as in the DFT, and pi k / (n - 1) on a
path.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from pefourier.encodings.encoding import (
    LARGEST_BASIS,
    BasisDomain,
    Encoding,
    Finding,
    check_basis,
    finding,
    from_table,
)
from pefourier.encodings.registry import encoding
from pefourier.errors import PefourierError, check_size
from pefourier.types import Fields, Floats, Places
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
    """Pairs of nodes, by default those of a path, and the adjacency matrix (n, n) of 0 and 1."""
    line = np.stack([np.arange(length - 1), np.arange(1, length)], axis=-1)
    pairs = line if edges is None else check_edges(edges)
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


def check_edges(edges: ArrayLike) -> Places:
    """Refuse edges that are not pairs of different nodes; return each once, in order."""
    pairs = np.atleast_2d(np.asarray(edges, dtype=float))  # a file of one edge has one axis
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise PefourierError(f"edges must be two columns, without weights; got shape {pairs.shape}")
    are_nodes = ((pairs >= 0) & (pairs <= LARGEST_BASIS) & (pairs % 1 == 0)).all(axis=1)
    wrong = np.flatnonzero(~are_nodes | (pairs[:, 0] == pairs[:, 1]))
    if len(wrong):
        rule = f"an edge must join two different nodes, whole numbers from 0 to {LARGEST_BASIS}"
        raise PefourierError(f"{rule}; edge {wrong[0]} is {tuple(pairs[wrong[0]].tolist())}")
    return np.unique(np.sort(pairs, axis=1), axis=0).astype(np.int64)


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
    findings = tuple(remarks_on_eigenvectors(graph, d))
    return replace(from_table(table, "laplacian", params=params, findings=findings), domain=graph)


def remarks_on_eigenvectors(graph: BasisDomain, d: int) -> Iterator[Finding]:
    """Report signs, equal eigenvalues, and a part of an eigenspace."""
    spaces = [space for space in eigenspaces(graph) if len(space) > 1 and space[0] <= d]
    if spaces:
        groups = first_few([f"{space[0]} to {space[-1]}" for space in spaces])
        yield finding("equal-eigenvalues", groups=groups)
    if spaces and (cut := spaces[-1])[-1] > d:
        sizes = " or ".join(f"--d {size}" for size in (cut[0] - 1, cut[-1]) if size > 0)
        yield finding("cut-eigenspace", count=len(cut), d=d, sizes=sizes)
    yield finding("eigenvector-signs")


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
        table = merged(graph.basis**2 @ np.cos(graph.omega)[:, None] ** np.arange(1, d + 1))
        return replace(from_table(table, "random-walk", params=params), domain=graph)
    table = return_probabilities(adjacency(edges, length)[1], d)
    return replace(from_table(table, "random-walk", params=params, eps=0.0), domain=graph)


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
