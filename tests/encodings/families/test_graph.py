"""Vectors of nodes and trees: golden numbers, closed forms, exact walks, the link to the DFT."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from findings import codes
from numpy.testing import assert_allclose, assert_array_equal

from pefourier.encodings import build, load
from pefourier.questions.check_faithful import check_faithful
from pefourier.questions.spectrum import spectrum


def cycle(n):
    return np.array([[i, (i + 1) % n] for i in range(n)])


def path(n):
    return np.array([[i, i + 1] for i in range(n - 1)])


def complete(n):
    return np.array([[i, j] for i in range(n) for j in range(i)])


def drawn(rng, n=12):
    """A connected graph: a path and some edges."""
    extra = [sorted(rng.choice(n, 2, replace=False).tolist()) for _ in range(n)]
    return np.array([*path(n).tolist(), *extra])


def dense(edges):
    adjacent = np.zeros((edges.max() + 1, edges.max() + 1), dtype=int)
    adjacent[tuple(edges.T)] = adjacent[tuple(edges.T[::-1])] = 1
    return adjacent


def test_walks_are_the_exact_powers(rng):
    edges = drawn(rng)
    adjacent = dense(edges)
    step = np.vectorize(Fraction, otypes=[object])(adjacent, adjacent.sum(axis=1, keepdims=True))
    expected = [np.linalg.matrix_power(step, k).diagonal() for k in range(1, 7)]
    found = build("random-walk", d=6, edges=edges).table()
    assert_allclose(found, np.array(expected, dtype=float).T, atol=2e-12)


def test_columns_are_eigenvectors_of_the_laplacian_by_rising_eigenvalue(rng):
    edges = drawn(rng)
    adjacent = dense(edges)
    enc = build("laplacian", d=9, edges=edges)
    walk = adjacent / adjacent.sum(axis=1, keepdims=True)  # similar to I - L, not symmetric
    values = np.sort(1 - np.linalg.eigvals(walk).real)
    assert_allclose(enc.params["eigenvalues"], values, atol=1e-10)
    scale = adjacent.sum(axis=1) ** -0.5
    laplacian = np.eye(12) - scale[:, None] * adjacent * scale
    table = enc.table()
    assert_allclose(laplacian @ table, table * values[1:10], atol=1e-10)
    assert_allclose(table.T @ table, np.eye(9), atol=1e-10)
    first = table[(np.abs(table) > 1e-7).argmax(axis=0), np.arange(9)]
    assert (first > 0).all()


@pytest.mark.parametrize("n", [5, 8, 9, 16])
def test_on_a_cycle_the_columns_are_those_of_the_dft(n):
    table = build("laplacian", d=n - 1, edges=cycle(n)).table()
    dft = build("dft", length=n, d=n).table()
    waves = (n - 1) // 2
    order = [k + waves * part for k in range(1, waves + 1) for part in (0, 1)]
    order += [n - 1] * (n % 2 == 0)  # a cosine and a sine in turn, and Nyquist
    assert_allclose(table, dft[:, order], atol=1e-12)


@pytest.mark.parametrize(("verdict", "leaves"), [("constant and fast", 7), ("constant", 2)])
def test_the_mean_row_of_a_graph_is_not_its_frequency_0(verdict, leaves):
    """Frequency 0 is the root of the degree; nodes of unequal degree have unequal parts of it."""
    star = [[0, node] for node in range(1, leaves)]
    edges = np.concatenate([star, np.add(star, leaves), [[0, leaves]]])
    enc = build("random-walk", d=4, edges=edges if verdict != "constant" else cycle(7))
    table, answer = enc.table(), spectrum(enc)
    share = len(table) * (table.mean(axis=0) ** 2).sum() / (table**2).sum()
    assert answer.verdict == verdict
    assert answer.in_mean_row == pytest.approx(share, rel=1e-12)


def test_findings_name_what_eigenvectors_leave_open():
    assert codes(build("laplacian", length=9, d=4)) == ["eigenvector-signs"]
    cut = ["equal-eigenvalues", "cut-eigenspace", "eigenvector-signs"]
    for d in range(1, 9):  # a cosine and a sine each: the advice is an even d
        found = codes(build("laplacian", d=d, edges=cycle(9)))
        assert found == [code for code in cut if code != "cut-eigenspace" or d % 2]
    apart = [[0, 1], [1, 2], [3, 4], [4, 5]]
    assert "equal-eigenvalues" in codes(build("laplacian", d=5, edges=apart))
    assert codes(build("random-walk", d=5, edges=apart)) == []


def test_edges_come_from_a_file_in_any_order(run, folder):
    (folder / "e.csv").write_text("source,target\n2,1\n0,1\n1,0\n3,2\n")
    np.save("e.npy", [[0, 1], [1, 2], [2, 3]])
    for name in ("e.csv", "e.npy"):
        done = run("check-faithful", "laplacian", "--d", 3, "--edges", name, "--json")
        (answer,) = done.results
        assert (answer["length"], answer["rank"], done.err) == (4, 3, "")
        assert answer["params"]["edges"] == [[0, 1], [1, 2], [2, 3]]
        assert_allclose(answer["params"]["eigenvalues"], (0, 0.5, 1.5, 2), atol=1e-9)
    run("encode", "random-walk:edges=e.csv", "--d", 2, "--out", "o.npy")
    assert_array_equal(np.load("o.npy"), [(0, 0.5), (0, 0.75), (0, 0.75), (0, 0.5)])


WRONG = {
    "0,1\n1,a\n": "row 1",
    "0,1\n1,-2\n": "edge 1 is (1.0, -2.0)",
    "0,1\n1,1\n": "edge 1 is (1.0, 1.0)",
    "0,1.5\n2,3\n": "edge 0 is (0.0, 1.5)",
    "0,nan\n2,3\n": "edge 0 is (0.0, nan)",
    "0,inf\n2,3\n": "edge 0 is (0.0, inf)",
    "1,2\n2,3\n": "node 0 of 0 … 3",
    "0,1\n3,4\n": "node 2 of 0 … 4",
    "0,1,2\n2,3,1\n": "(2, 3)",
    "0\n1\n2\n": "(1, 3)",
    "0,99999999\n1,2\n": "edge 0",
    "": "",
}


@pytest.mark.parametrize("text", WRONG)
@pytest.mark.parametrize("name", ["laplacian", "random-walk"])
def test_wrong_edges_are_refused_in_a_line(refused, tmp_path, name, text):
    (tmp_path / "edges.csv").write_text(text)
    assert WRONG[text] in refused("check-faithful", name, "--edges", tmp_path / "edges.csv")


@pytest.mark.parametrize(("d", "distinct"), [(16, 9), (64, 33), (128, 40)])
def test_random_walks_on_a_path_are_equal_only_if_their_fractions_are(d, distinct):
    """Node 32 differs from nodes 33 … by 2^-64 at step 64, which float64 does not hold."""
    doubled = np.eye(80, k=1, dtype=int) + np.eye(80, k=-1, dtype=int)
    doubled[[0, -1]] *= 2
    walk, steps = np.eye(80, dtype=object), []
    for k in range(1, d + 1):
        walk = walk @ doubled.astype(object)
        steps.append([entry / 2**k for entry in walk.diagonal()])
    enc = build("random-walk", length=80, d=d)
    assert check_faithful(enc).distinct == distinct
    assert_allclose(enc.table(), np.transpose(steps), rtol=0, atol=1e-16)


def test_tree_vectors_are_the_branches_to_the_root():
    # root with children 1, 2; node 1 with 3, 4; node 4 with 5 (microsoft/icecaps, util/trees.py)
    table = load("tree:parents=-1;0;0;1;1;4,p=0.5", d=6).table()
    left, right, none = [1, 0], [0, 1], [0, 0]
    paths = [
        [none, none, none],
        [left, none, none],
        [right, none, none],
        [left, left, none],
        [right, left, none],
        [left, right, left],
    ]
    weights = math.sqrt((1 - 0.25) * 6 / 2) * np.array([1, 0.5, 0.25])[:, None]
    expected = [(np.array(path) * weights).ravel() for path in paths]
    assert_allclose(table, expected, atol=1e-15)


def test_several_decays_stand_side_by_side():
    table = load("tree:parents=-1;0;1,p=0.5;-0.6", d=9).table()  # two steps of 2 x 2, one left
    first, second = math.sqrt(0.75 * 4.5), math.sqrt(0.64 * 4.5)
    expected = [first, second, 0, 0, 0.5 * first, -0.6 * second, 0, 0, 0]
    assert_allclose(table[2], expected, atol=1e-15)


def test_recurrent_states_are_those_of_torch():
    d, bound = 3, 3**-0.5
    stream = np.random.RandomState(1)
    w, u = stream.uniform(-bound, bound, 3 * d), stream.uniform(-bound, bound, (3 * d, d))
    b, c = stream.uniform(-bound, bound, (2, 3 * d))
    unit = torch.nn.GRU(1, d, dtype=torch.float64)
    for own, numbers in zip(unit.parameters(), (w[:, None], u, b, c), strict=True):
        own.data = torch.from_numpy(numbers)
    states = unit(torch.ones(6, 1, dtype=torch.float64))[0].detach().numpy()
    assert_allclose(load("recurrent", length=6, d=d, seed=1).table(), states, atol=1e-14)
