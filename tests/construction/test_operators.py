"""R(p) equals explicit blocks and public functions; relations between rotations are found.

The slow reference writes each 2 x 2 block into a matrix, with pairs and frequencies given one by
one.
"""

import re
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

import pefourier
from pefourier.construction.operators import operator_at
from pefourier.encodings import load
from pefourier.questions.compare import compare

N, D = 40, 16


def blocks(p, pairs, omega, factor=1.0):
    """Return R(p), written block by block."""
    matrix = np.eye(D)
    for (i, j), w in zip(pairs, omega, strict=True):
        matrix[i, i] = matrix[j, j] = factor * np.cos(w * p)
        matrix[j, i], matrix[i, j] = factor * np.sin(w * p), -factor * np.sin(w * p)
    return matrix


def grid(d, rho=1e4):
    return [rho ** (-2 * i / d) for i in range(d // 2)]


HALVES = [(i, i + D // 2) for i in range(D // 2)]
NEIGHBOURS = [(2 * i, 2 * i + 1) for i in range(D // 2)]
YARN = "rope:scaling=yarn,factor=4,original=32"
BY_NAME = {
    "rope": (HALVES, grid(D)),
    "rope:rho=500,layout=interleaved": (NEIGHBOURS, grid(D, 500.0)),
    "rope:partial=0.5": ([(i, i + 4) for i in range(4)], grid(8)),
    "rope:scaling=linear,factor=4": (HALVES, [w / 4 for w in grid(D)]),
    YARN: (HALVES, load(YARN, N, D).measure.frequencies, 0.1 * np.log(4) + 1),
}


def rotated(x, gap, sign=1.0, last=np.inf):
    """Rotate pairs (i, i + gap) in blocks of 2 gap columns, at the frequencies of rope."""
    n, d = x.shape[-2:]
    places = torch.arange(n).double().clamp(max=last)
    angle = torch.outer(places, torch.tensor(grid(d)).double()).to(x.dtype)
    cos, sin, y = angle.cos(), sign * angle.sin(), x.clone()
    first = np.flatnonzero(np.arange(d) // gap % 2 == 0)
    a, b = x[..., first], x[..., first + gap]
    y[..., first], y[..., first + gap] = a * cos - b * sin, b * cos + a * sin
    return y


class Turning(torch.nn.Module):
    def __init__(self, gap=8, signs=(1.0, 1.0), last=np.inf):
        super().__init__()
        self.gap, self.signs, self.last = gap, signs, last

    def forward(self, q, k):
        one, two = self.signs
        return rotated(q, self.gap, one, self.last), rotated(k, self.gap, two, self.last)


FOURS = [(i, i + 4) for i in range(D) if (i // 4) % 2 == 0], grid(D)
OPERATORS = [*((spec, turns, 1e-12) for spec, turns in BY_NAME.items()), (Turning(4), FOURS, 1e-5)]


@pytest.mark.parametrize(("source", "turns", "atol"), OPERATORS)
def test_an_operator_is_its_blocks(source, turns, atol):
    at = [*range(0, N, 7), 3, N - 1]
    query, key = operator_at(load(source, N, D), np.array(at))
    for p, q, k in zip(at, query, key, strict=True):
        np.testing.assert_allclose(q, blocks(p, *turns), atol=atol)
        np.testing.assert_array_equal(q, k)


AXES = "axial-rope:grid=5x8,order="
RELATIONS = [  # relation of the two operators, and the first position that differs
    ("rope", "rope", "same", None, None),
    ("rope", "rope:layout=interleaved", "permuted", "halves-to-neighbours", 1),
    ("rope:layout=interleaved", "rope", "permuted", "neighbours-to-halves", 1),
    ("rope:partial=0.5", "rope:partial=0.5,layout=interleaved", "permuted", "partial", 1),
    ("rope", "rope:rho=500", "different", None, 1),
    ("rope", "rope:partial=0.5", "different", None, 1),
    ("rope", "rope:scaling=yarn,factor=4,original=32", "different", None, 0),  # by its factor
    ("xpos", "xpos:layout=interleaved", "permuted", "halves-to-neighbours", 1),
    ("xpos", "rope", "different", None, 1),
    (AXES + "yx", AXES + "xy", "permuted", "axes-exchanged", 1),
]


@pytest.mark.parametrize(("one", "two", "relation", "name", "first"), RELATIONS)
def test_relations_have_names(one, two, relation, name, first):
    a, b = load(one, N, D), load(two, N, D)
    found = compare(a, b)
    assert found.verdict == relation.replace("same", "the same")
    found = found.operator
    assert (found.relation, found.name, found.first_position) == (relation, name, first)
    queries, other = (operator_at(enc, np.arange(N))[0] for enc in (a, b))
    if relation == "permuted":
        order = np.array(found.permutation)
        np.testing.assert_allclose(queries[:, order][:, :, order], other, atol=1e-12)
    elif relation == "different":
        assert found.max_score_difference > 0.01


@pytest.mark.parametrize(
    ("signs", "relation", "name"),
    [((-1.0, -1.0), "permuted", "reversed"), ((-1.0, 1.0), "different", None)],
)
def test_both_signs_rotated_back_are_reversed_and_one_is_another_operator(signs, relation, name):
    found = pefourier.compare(Turning(8), Turning(8, signs), length=N, d=D).operator
    assert (found.relation, found.name) == (relation, name)
    assert not name or list(found.permutation) == [*range(8, 16), *range(8)]


def test_the_first_different_position_is_reported():
    found = pefourier.compare(Turning(last=700), "rope", length=2000, d=D).operator
    assert (found.relation, found.first_position) == ("different", 701)


def test_a_table_does_not_hold_the_pairs():
    """A dump of angles has no pairing, so it equals rotations of both layouts, with a note."""
    cos, sin = (wave(np.outer(np.arange(N), grid(D))) for wave in (np.cos, np.sin))
    beside = np.stack([cos, sin], axis=-1).reshape(N, -1)
    for table in (np.hstack([cos, sin]), beside, np.hstack([cos, cos, sin, sin])):
        for layout in ("halves", "interleaved"):
            found = compare(load(f"rope:layout={layout}", N, D), table)
            assert (found.operator.relation, found.verdict) == ("unknown", "the same")
            shown = table.shape[1] == 2 * D and layout == "halves"  # cosines twice, in halves
            assert ("pairing-unsaid" in [f.code for f in found.findings]) != shown
    half = compare(load("rope", N, D), np.tile(cos, 2))
    assert "part-alone" in [f.code for f in half.findings]


@pytest.mark.usefixtures("folder")
def test_the_recipe_of_the_readme_puts_rows_into_the_order(run, rng):
    """Scores of reordered weights with interleaved pairs equal those of the original in halves."""
    shapes = {"q_proj.weight": (32, 12), "k_proj.weight": (16, 12), "q_proj.bias": (32,)}
    shapes["v_proj.weight"] = 16, 12
    weights = {f"l.{name}": rng.normal(size=shape) for name, shape in shapes.items()}
    save_file(weights, "model.safetensors")
    pair = "rope:d=16", "rope:d=16,layout=interleaved"
    assert run("compare", *pair, "--permutation", "order.npy").status == 1
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    (recipe,) = re.findall(r"    import numpy as np, safe.*?\n\n", readme, re.DOTALL)
    exec(textwrap.dedent(recipe), {})  # source code of a document
    after = load_file("reordered.safetensors")
    assert np.array_equal(after["l.v_proj.weight"], weights["l.v_proj.weight"])
    x, scores = rng.normal(size=(5, 12)), []
    for held, spec in ((weights, pair[0]), (after, pair[1])):
        rotated = operator_at(load(spec, 5, 16), np.arange(5))[0]
        q, k = (x @ held[f"l.{name}.weight"].T for name in ("q_proj", "k_proj"))
        q = (q + held["l.q_proj.bias"]).reshape(5, 2, 16)[:, 1]
        scores.append(np.einsum("pij,pj,qik,qk->pq", rotated, q, rotated, k))
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-9)
