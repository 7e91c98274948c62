"""Comparisons of two encodings: applied transformations of any size are found."""

import json

import numpy as np
import pytest
import torch
from findings import codes
from sinusoids import pairs, stored

from pefourier.encodings import load
from pefourier.encodings.encoding import as_encoding
from pefourier.questions.compare import compare


def test_equal_within_phases_in_float32_but_not_beyond():
    exact = load("sinusoidal:layout=halves", 4096, 64)
    frequencies = exact.measure.frequencies.astype(np.float32)
    table = pairs(np.arange(4096, dtype=np.float32)[:, None] * frequencies)
    c = compare(exact, stored(table))
    assert c.verdict == "the same"
    assert 1e-4 < c.max_difference < c.tolerance < 2e-3
    table[10, 3] += 1e-4  # early phases are rounded little
    c = compare(exact, stored(table))
    assert (c.verdict, c.first_difference) == ("different", (10, 3))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("size", [(40, 16), (300, 64), (9, 32)], ids=str)
@pytest.mark.parametrize("spec", ["sinusoidal", "dft", "learned"])
def test_order_signs_and_scale_are_found(spec, size, dtype, rng):
    enc = load(spec, *size)
    order, signs = rng.permutation(size[1]), rng.choice([-1, 1], size[1])
    c = compare(enc, stored(2.5 * enc.table()[:, order] * signs, dtype))
    assert c.verdict == "equivalent"
    assert c.transform == {"columns": order.tolist(), "signs": signs.tolist(), "scale": 2.5}


@pytest.mark.parametrize("kept", ["float16", "bfloat16", "in float32"])
@pytest.mark.parametrize("way", ["pow", "exact"])
def test_dumps_of_16_bits_agree_to_half_a_unit_and_noise_is_found(way, kept, rng):
    """Dumps computed by models or cast from the formula agree; noise of a few units is found."""
    exact, rho, d = load("rope:layout=halves,rho=5e5", 400, 32), 5e5, 32
    table, steps = torch.from_numpy(exact.table()), torch.arange(0, d, 2).float()
    phases = torch.outer(torch.arange(400).float(), 1 / rho ** (steps / d))
    made = table if way == "exact" else torch.cat([phases.cos(), phases.sin()], -1)
    form = torch.float16 if kept == "float16" else torch.bfloat16

    def dump(noise):
        cast = (made + torch.from_numpy(noise)).to(form)
        return as_encoding(cast.float() if kept == "in float32" else cast)

    late = rng.normal(size=table.shape) * (np.arange(400) > 280)[:, None]
    sound = compare(exact, dump(0 * late))
    assert (sound.verdict, sound.transform, sound.same) == ("the same", {}, True)
    noisy = compare(exact, dump(4 * late * torch.finfo(form).eps))
    assert (noisy.verdict, noisy.same, noisy.cause) == ("different", False, None)
    assert compare(exact, dump(late), tolerance=6.0).same


@pytest.mark.parametrize(("length", "farthest"), [(60, 15), (4, 1), (3, 1)])
def test_offsets_are_looked_for_up_to_a_quarter_of_the_rows(length, farthest):
    table = load("learned", 200, 16).table()
    for offset in (farthest, farthest + 1):
        found = compare(table[:length], table[offset:][:length])
        assert found.transform == ({"offset": offset} if offset == farthest else {})
    late = np.vstack([np.zeros((20, 16)), table[:40]])  # rows of zeros need no explanation
    assert compare(table[:60], late).transform == {"offset": -20, "zero_rows": 20}


@pytest.mark.parametrize("spec", ["sinusoidal", "learned"])
def test_rows_in_another_order_are_a_difference(spec, rng):
    """Reversed or permuted rows are different, although inner products may agree."""
    table, order = load(spec, 60, 16).table(), rng.permutation(60)
    for rows, name in ((np.arange(60)[::-1], "reversed"), (order, "in another order")):
        found = compare(table, table[rows])
        assert (found.verdict, found.same, found.transform) == ("different", False, {"rows": name})
        assert "rows-reordered" in codes(found)
        assert (found.unit, found.differing) == ("rows", (rows != np.arange(60)).sum())
        runs = ((r.first, r.last, r.last_row - r.first_row + 1) for r in found.positions)
        np.testing.assert_array_equal(np.hstack([np.linspace(*run) for run in runs]), rows)
    twice = np.vstack([table, table[:3]])
    found = compare(twice, rng.permutation(twice))
    assert (found.verdict, found.transform) == ("different", {"rows": "in another order"})
    assert (
        json.loads(json.dumps(compare(table, -table[order] + 1).to_dict()))["tried"]["rows"] == 60
    )


VERDICTS = [
    ("sinusoidal", "sinusoidal:layout=halves", "equivalent", "interleaved to halves"),
    ("sinusoidal:layout=halves", "sinusoidal", "equivalent", "halves to interleaved"),
    ("sinusoidal", "sinusoidal:offset=2", "equivalent", None),
    ("dft:d=8", "dft:d=6", "different", None),
    ("sinusoidal:layout=halves", "rope", "used differently", "halves exchanged"),
    ("alibi", "alibi:causal=true", "the same", None),
]


@pytest.mark.parametrize(("one", "two", "verdict", "layout"), VERDICTS)
def test_verdict_same_status_and_layout_agree(one, two, verdict, layout, run):
    words = f"compare {one} {two} --d 8 -S 40 --quiet"
    reported, done = run(words), run(words, "--json")
    (record,) = done.results
    assert (reported.status, reported.err) == (done.status, "")
    assert reported.out.startswith(f"{one}: {verdict.upper()}. ")
    assert (record["verdict"], record["other"]["spec"]) == (verdict, two)
    assert record["same"] == (verdict == "the same") == (done.status == 0)
    assert (record["transform"] or {}).get("layout") == layout
    if layout:
        a, b = (load(spec, 40, 8).table() for spec in (one, two))
        np.testing.assert_allclose(a[:, record["transform"]["columns"]], b, atol=1e-14)


@pytest.mark.parametrize("size", [1e-6, 1e-5])
def test_noise_that_products_hardly_show_is_no_geometry(size, rng):
    """Noise within the limits of inner products, but beyond those of entries, is a difference."""
    a = load("sinusoidal", 64, 16).table().astype(np.float32).astype(float)
    b = a + size * rng.normal(size=a.shape)
    found = compare(stored(a), stored(b))
    assert (found.verdict, found.transform, found.cause) == ("different", {}, None)
    assert found.max_difference == pytest.approx(np.abs(a - b).max(), rel=0.1)
    a = np.hstack([a, np.zeros((64, 1))])  # for a column of zeros, products depend only on squares
    b = a + 1e-4 * rng.normal(size=a.shape) * (a == 0)
    assert compare(stored(a), stored(b)).verdict == "different"


def test_a_tolerance_that_is_given_decides(rng):
    table = load("learned", 60, 16).table()
    other = table + 1e-3 * rng.uniform(-1, 1, size=table.shape)
    largest = np.abs(table - other).max()
    assert largest == np.abs(table - other)[compare(table, other).largest_difference]
    assert compare(load("sinusoidal", 8, 4), load("sinusoidal", 9, 6)).dimensions == (4, 6)
    for factor, verdict in ((1.001, "the same"), (0.999, "different")):
        found = compare(table, other, tolerance=factor * largest)
        assert (found.verdict, found.same) == (verdict, verdict == "the same")
        assert found.given_tolerance == factor * largest
    noise = 1e-12 * rng.normal(size=table.shape)
    assert not compare(table, table + noise, tolerance=1e-15).same


@pytest.mark.parametrize("lengths", [(60, 40), (40, 60), (3, 60)])
def test_missing_rows_are_named_and_forbid_the_same(lengths):
    """A table of 50 of 60 rows is not the same, and the missing rows are named."""
    first, second = (load("learned", 60, 16).table()[:n] for n in lengths)
    found = compare(first, second)
    assert (found.same, found.length, found.lengths) == (False, min(lengths), lengths)
    assert (found.unit, found.differing, found.counted) == ("rows", 60 - min(lengths), 60)
    assert codes(found) == ["sizes-differ"]
    assert f"{min(lengths)}" in found.findings[0].message
    assert compare(load("learned", 60, 16), second).same  # a dump of some rows of a formula


@pytest.mark.parametrize(("n", "d"), [(7, 3), (40, 16), (6000, 5)])
def test_similarity_is_that_of_its_definitions(n, d, rng):
    a = rng.normal(size=(n, d))
    b = a + 0.1 * rng.normal(size=(n, d))
    b[3] = rng.normal(size=d) - 3 * a[3]
    found = compare(a, b).similarity
    assert compare(load("rope", 9, 8), load("rope:rho=500", 9, 8)).similarity is None
    rows = np.unique(np.linspace(0, n - 1, min(n, 4096)).astype(int))
    x, y = a[rows], b[rows]
    cosines = (x * y).sum(axis=1) / np.linalg.norm(x, axis=1) / np.linalg.norm(y, axis=1)
    assert found.mean_cosine == pytest.approx(cosines.mean(), rel=1e-12)
    if n <= 40:  # by the definition of Kornblith et al., with centred kernels
        one, two = (((t - t.mean(axis=0)) @ (t - t.mean(axis=0)).T).ravel() for t in (x, y))
        hsic = one @ two / np.sqrt((one @ one) * (two @ two))
        assert found.cka == pytest.approx(hsic, rel=1e-9)
