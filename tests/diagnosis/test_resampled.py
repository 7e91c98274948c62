"""Tables that torch resized: which method, and from which grid."""

import numpy as np
import pytest
import torch

from pefourier.analysis.compare import compare
from pefourier.encodings.encoding import from_table
from pefourier.geometry.interpolation import resize_lattice

WAYS = {
    "bicubic": {"mode": "bicubic"},
    "bicubic-corners": {"mode": "bicubic", "align_corners": True},
    "antialias": {"mode": "bicubic", "antialias": True},
    "bilinear": {"mode": "bilinear"},
    "bilinear-corners": {"mode": "bilinear", "align_corners": True},
    "nearest": {"mode": "nearest"},
}


def resized(table, prefix, side, method):
    """By torch in float32, behind rows that are kept."""
    rows = torch.tensor(table[prefix:])
    planes = rows.T.reshape(1, rows.shape[1], *[round(len(rows) ** 0.5)] * 2)
    found = torch.nn.functional.interpolate(planes, size=(side, side), **WAYS[method])
    return stored(np.vstack([table[:prefix], found.flatten(2)[0].T.numpy()]))


def stored(table):
    return from_table(table.astype(np.float32), eps=2.0**-23)


@pytest.fixture(params=[0, 1])
def prefix(request):
    return request.param


@pytest.fixture(params=[24, pytest.param(768, marks=pytest.mark.long)])
def table(request, prefix, rng):
    return (0.02 * rng.normal(size=(prefix + 196, request.param))).astype(np.float32)


@pytest.mark.parametrize("side", [24, 9])
@pytest.mark.parametrize("method", WAYS)
def test_a_resized_table_is_the_other_by_its_method(table, prefix, side, method):
    source, made = stored(table), resized(table, prefix, side, method)
    for of, pair in (("b", (source, made)), ("a", (made, source))):
        found = compare(*pair)
        assert (found.verdict, found.same) == ("equivalent", False)
        sides = {"from": [14, 14], "to": [side, side]}
        assert found.by == {"resized": of, **sides, "method": method}
        assert found.conclusion.startswith("THE SAME, RESIZED. The ")


def test_one_way_in_float32_and_in_float64_is_the_same(prefix, rng):
    """Sums of 16 products in float32 are further off than the numbers' own rounding."""
    table = (0.02 * rng.normal(size=(prefix + 196, 768))).astype(np.float32)
    made = resize_lattice(table[prefix:].astype(float), (14, 14), (24, 24), "bicubic")
    one, two = resized(table, prefix, 24, "bicubic"), stored(np.vstack([table[:prefix], made]))
    found = compare(one, two)
    assert (found.verdict, found.cause, found.same) == ("equal", None, True)


@pytest.mark.parametrize("back", [False, True])
def test_numbers_that_were_taken_as_planes_are_told(table, prefix, back):
    """The permute before is forgotten, and the one behind it may be."""
    planes = torch.tensor(table[prefix:]).reshape(1, -1, 14, 14)
    made = torch.nn.functional.interpolate(planes, size=(24, 24), mode="bicubic")[0]
    rows = made.permute(1, 2, 0) if back else made
    two = stored(np.vstack([table[:prefix], rows.reshape(576, -1).numpy()]))
    found = compare(stored(table), two)
    assert (found.verdict, found.cause.of, found.same) == ("different", "a", False)
    told = found.cause.misreadings, found.cause.changes
    assert told == (("unpermuted",), {"method": (None, "bicubic")})
    assert compare(two, stored(table)).cause.of == "b"


@pytest.mark.parametrize("one", ["bicubic", "bilinear-corners"])
@pytest.mark.parametrize("other", ["bicubic-corners", "bilinear", "antialias"])
def test_two_ways_up_are_told(table, prefix, one, other):
    found = compare(*(resized(table, prefix, 24, way) for way in (one, other)))
    assert (found.verdict, found.cause.misreadings) == ("different", ("resized",))
    assert found.cause.changes == {"method": (one, other), "resized": ("14x14", "24x24")}
    words = "Both are one table resized from 14x14 to 24x24, the first by"
    assert words in found.conclusion


def test_nothing_is_resized_that_was_not(table, prefix, rng):
    way = resized(table, prefix, 24, "bicubic")
    other = stored(rng.normal(size=way.table().shape))
    near = stored(way.table() + 1e-4 * rng.normal(size=way.table().shape))
    for pair in ((way, other), (other, way), (near, resized(table, prefix, 24, "bilinear"))):
        assert compare(*pair).cause is None
    for source in (other, near):
        assert "resized" not in compare(stored(table), source).by
