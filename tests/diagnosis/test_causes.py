"""Dumps of an engine that misreads a config: the slip is named, to rounding, and what it costs.

The engine is numpy in float32, written down apart from the package: frequencies as transformers
computes them, phases as a product, both waves, one alone, each once or twice.
"""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest

from pefourier.analysis.compare import compare
from pefourier.diagnosis.identify import identify
from pefourier.diagnosis.misreadings import Hints, readings
from pefourier.encodings import load
from pefourier.encodings.encoding import as_encoding, from_table
from pefourier.encodings.families.axes import rows_of_blocks
from pefourier.geometry.precision import FORMATS, rounded

N = 300
F = np.float32
LLAMA3 = {
    **{"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "original_max_position_embeddings": 256,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}
CONFIGS = {
    "llama": {"rope_theta": 5e5, "rope_scaling": LLAMA3},
    "plain": {"rope_theta": 5e5},
    "root": {"rope_theta": 1e8},
    "yarn": {"rope_theta": 1e6, "rope_scaling": YARN},
    "partial": {"model_type": "glm", "head_dim": 64, "partial_rotary_factor": 0.5},
}


def grid(base, d=64, count=None):
    return F(base) ** -(np.arange(0, d, 2, dtype=F) / F(d))


def llama3(theta, factor=8.0, original=256):
    turns = original * theta / (2 * math.pi)
    t = (turns - 1) / 3
    blended = (1 - t) * theta / factor + t * theta
    return np.where(turns < 1, theta / factor, np.where(turns > 4, theta, blended)).astype(F)


def yarn(base, factor=4.0, original=512, truncate=True, turns=(32, 1)):
    theta = grid(base)
    low, high = (64 * math.log(original / (n * 2 * math.pi)) / (2 * math.log(base)) for n in turns)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, 63)
    ramp = np.clip((np.arange(32, dtype=F) - F(low)) / F(high - low), 0, 1)
    return (theta / F(factor) * ramp + theta * (1 - ramp)).astype(F)


def phases(theta, n=N):
    return np.outer(np.arange(n, dtype=F), theta)


def dump(theta, form="cos twice", factor=1.0, n=N):
    cos, sin = np.cos(phases(theta, n)), np.sin(phases(theta, n))
    made = {
        "cos twice": lambda: np.hstack([cos, cos]),
        "sin twice": lambda: np.hstack([sin, sin]),
        "cos repeated": lambda: np.repeat(cos, 2, axis=1),
        "cos once": lambda: cos,
        "sin once": lambda: sin,
        "cos and sin": lambda: np.hstack([cos, sin]),
        "both twice": lambda: np.hstack([cos, cos, sin, sin]),
        "both repeated": lambda: np.repeat(np.hstack([cos, sin]), 2, axis=1),
    }[form]()
    return from_table((F(factor) * made).astype(F), eps=2.0**-23)


ATTENTION = 0.1 * math.log(4.0) + 1
SLIPS = {  # config, frequencies and factor of the engine, what was done
    "as it is meant": ("llama", llama3(grid(5e5)), 1.0, ()),
    "scaling ignored": ("llama", grid(5e5), 1.0, ("scaling-ignored",)),
    "default base": ("plain", grid(1e4), 1.0, ("base-default",)),
    "another base": ("plain", grid(7e5), 1.0, ("base",)),
    "both lost": ("llama", grid(1e4), 1.0, ("base-default", "scaling-ignored")),
    "default base, scaled": ("llama", llama3(grid(1e4)), 1.0, ("base-default",)),
    "original": ("llama", llama3(grid(5e5), original=2048), 1.0, ("original-length",)),
    "factor": ("llama", llama3(grid(5e5), factor=32.0), 1.0, ("factor",)),
    "yarn as it is meant": ("yarn", yarn(1e6), ATTENTION, ()),
    "truncate": ("yarn", yarn(1e6, truncate=False), ATTENTION, ("truncate",)),
    "mscale": ("yarn", yarn(1e6), 1.0, ("mscale",)),
    "yarn's original": ("yarn", yarn(1e6, original=2048), ATTENTION, ("original-length",)),
    "yarn as linear": ("yarn", grid(1e6) / F(4), 1.0, ("scaling-type",)),
    "partial": ("partial", grid(1e4, 64), 1.0, ("partial-ignored",)),
    "partial grid": ("partial", grid(1e4, 64)[:16], 1.0, ("partial-grid",)),
    "head": ("plain", grid(5e5, 80), 1.0, ("head-size",)),
    "divisor": ("plain", grid(5e5, 128)[:32], 1.0, ("divisor",)),
    "divisor, scaled": ("llama", llama3(grid(5e5, 128)[:32]), 1.0, ("divisor",)),
    "width for head": ("plain", grid(5e5, 256)[:32], 1.0, ("divisor",)),
    "a round base": ("root", grid(1e4, 128)[:32], 1.0, ("base",)),
    "linear added": ("plain", grid(5e5) / F(4), 1.0, ("scaling-added",)),
    "ntk added": ("plain", grid(5e5 * 4 ** (64 / 62)), 1.0, ("scaling-added",)),
    "yarn added": ("root", yarn(1e8, original=2048), ATTENTION, ("scaling-added",)),
    "llama3 added": ("plain", llama3(grid(5e5), original=8192), 1.0, ("scaling-added",)),
    "ramp": ("yarn", yarn(1e6, turns=(16, 1)), ATTENTION, ("ramp",)),
    "bfloat16 frequencies": (
        "llama",
        rounded(llama3(grid(5e5)), FORMATS["bfloat16"]).astype(F),
        1.0,
        ("bfloat16-frequencies",),
    ),
}


@pytest.fixture
def config(tmp_path):
    def write(name, **more):
        sizes = {"hidden_size": 256, "num_attention_heads": 4, "max_position_embeddings": 2048}
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({"model_type": "llama", **sizes, **CONFIGS[name], **more}))
        return str(path)

    return write


@pytest.mark.parametrize("form", ["cos twice", "sin once", "cos and sin"])
@pytest.mark.parametrize("name", SLIPS)
def test_the_slip_of_an_engine_is_named(name, form, config):
    which, theta, factor, codes = SLIPS[name]
    found = compare(load(config(which)), dump(theta, form, factor))
    if codes:
        assert found.verdict == "different"
        assert (found.cause.of, found.cause.misreadings) == ("a", codes)
        assert found.cause.max_difference < 1e-3
    else:
        assert found.verdict == ("equal" if form == "cos and sin" else "equivalent")
        assert found.cause is None


@pytest.mark.parametrize(
    ("form", "by"),
    [
        ("cos twice", {"part": "cos", "times": 2}),
        ("cos repeated", {"part": "cos", "times": 2, "layout": "halves to interleaved"}),
        ("cos once", {"part": "cos", "times": 1}),
        ("sin once", {"part": "sin", "times": 1}),
        ("both twice", {"part": "both", "times": 2}),
        ("both repeated", {"part": "both", "times": 2, "layout": "halves to interleaved"}),
    ],
)
def test_every_form_of_a_table_is_seen(form, by):
    meant = load("rope:rho=5e5", N, 64)
    found = compare(meant, dump(grid(5e5), form))
    assert (found.verdict, found.by) == ("equivalent", by)
    said = {"both": "cosines and sines", "cos": "cosines alone", "sin": "sines alone"}
    assert said[by["part"]] in found.conclusion
    back = {"layout": "interleaved to halves"} if "layout" in by else {}
    assert compare(dump(grid(5e5), form), meant).by == by | back
    assert found.max_difference <= found.tolerance < 1e-2


def pairs_on_axes(sides, shares, base=1e4):
    """Phases (n, m) of points in raster order, in float32: the pairs of each axis in its turn."""
    places = np.stack(np.meshgrid(*map(np.arange, sides), indexing="ij"), -1).reshape(
        -1, len(sides)
    )
    return np.hstack(
        [np.outer(x.astype(F), grid(base, d)) for x, d in zip(places.T, shares, strict=True)]
    )


@pytest.mark.parametrize(
    ("spec", "sides", "shares"),
    [
        ("axial-rope:convention=cogvideox", (3, 4, 5), (16, 24, 24)),
        ("axial-rope:convention=wan", (3, 4, 5), (24, 20, 20)),
        ("axial-rope:convention=qwen2-vl", (6, 8), (32, 32)),
        ("axial-rope:convention=qwen2-vl,rows=blocks", (6, 8), (32, 32)),
        ("axial-rope:layout=axis-halves", (6, 8), (32, 32)),
    ],
)
def test_the_forms_of_tables_are_those_of_grids_too(spec, sides, shares):
    """As diffusers and transformers keep them, they were DIFFERENT, with no reason."""
    meant = load(spec, None, 64, grid=sides, prefix=2)
    phase = pairs_on_axes(sides, shares)
    if "blocks" in spec:
        phase = phase[rows_of_blocks(sides)]
    phase = np.vstack([np.zeros((meant.domain.prefix, 32), F), phase])
    ends = np.cumsum(shares)[:-1] // 2
    own = {
        "interleaved": lambda x: np.repeat(x, 2, axis=1),
        "halves": lambda x: np.hstack([x, x]),
        "axis-halves": lambda x: np.hstack([np.hstack([p, p]) for p in np.split(x, ends, axis=1)]),
    }[meant.params["layout"]]
    cos, sin = own(np.cos(phase)), own(np.sin(phase))
    for table, by in (
        (cos, {"part": "cos", "times": 2}),
        (sin, {"part": "sin", "times": 2}),
        (np.hstack([cos, sin]), {"part": "both", "times": 2}),
        (np.cos(phase), {"part": "cos", "times": 1}),
    ):
        held = replace(from_table(table, eps=2.0**-23), domain=meant.domain)
        found = compare(meant, held)
        assert (found.verdict, found.by) == ("equivalent", by)
        assert (found.operator is None) == (meant.measure is None)
        assert found.same == (by["part"] == "both")
        assert compare(held, meant).by == by
        off = replace(from_table(table + F(1e-4) * (table == table.max()), eps=2.0**-23))
        assert compare(meant, replace(off, domain=meant.domain)).verdict == "different"


def test_a_frequency_that_is_wrong_on_a_large_grid_is_no_rounding():
    """The row of a point stood for its place: 17550 rows explained .004."""
    meant = load("axial-rope:convention=cogvideox", None, 64, grid=(13, 30, 45))
    phase = pairs_on_axes((13, 30, 45), (16, 24, 24))
    for slip in (0.0, 1e-5):
        turns = np.exp(1j * phase * (1 + slip)).astype(np.complex64)
        held = as_encoding(turns)
        found = compare(meant, replace(held, domain=meant.domain))
        assert found.verdict == ("different" if slip else "equal")
        assert found.tolerance < 1e-4


@pytest.mark.parametrize("grid_of", [(), (6, 8)])
@pytest.mark.parametrize("product", [float, F])
def test_float64_waves_of_float32_frequencies_are_rounded_as_those_are(product, grid_of):
    """To the last bit of float64 they were DIFFERENT; of another base they are."""
    spec, sides = ("axial-rope", grid_of) if grid_of else ("rope", (200,))
    meant = load(spec, None if grid_of else 200, 64, grid=grid_of)
    places = np.stack(np.meshgrid(*map(np.arange, sides), indexing="ij"), -1).reshape(
        -1, len(sides)
    )

    def made(theta):
        phase = [np.multiply.outer(x.astype(product), theta) for x in places.T]
        phase = np.hstack(phase).astype(float)
        table = from_table(np.hstack([np.cos(phase), np.sin(phase)]))
        return replace(table, domain=meant.domain)

    width = 64 // len(sides)
    found = compare(meant, made(grid(1e4, width)))
    assert (found.verdict, found.float32_phases) == ("equal", ("b",))
    assert "The second was computed from frequencies in float32" in found.conclusion
    exact = compare(meant, made((1e4 * (1 + 1e-6)) ** (-np.arange(0, width, 2) / width)))
    coarse = compare(meant, made(grid(10001, width)))
    assert (exact.verdict, coarse.verdict) == ("different", "different")
    assert (exact.float32_phases, coarse.float32_phases) == ((), ("b",))


def test_an_equivalent_answer_agrees_with_itself(run, tmp_path):
    """Of cosines and sines, each twice, it said that rounding explains 0 of a difference."""
    table = np.concatenate([f(np.outer(np.arange(2000), grid(1e4))) for f in (np.cos, np.sin)], 1)
    pairs = table.shape[1] // 2
    twice = np.hstack([np.tile(table[:, :pairs], 2), np.tile(table[:, pairs:], 2)])
    np.save(tmp_path / "cache.npy", twice.astype(np.float32))
    done = run("compare", f"rope:d={2 * pairs}", tmp_path / "cache.npy", "--json", "-S", 2000)
    (result,) = done.results
    assert result["verdict"] == "equivalent"
    assert 0 < result["max_difference"] <= result["tolerance"]
    assert not result["conclusion"].endswith("rounding explains 0.")
    assert "and rounding explains " in result["conclusion"]


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_tables_rounded_to_16_bits_and_stored_wider_still_name_the_slip(name, config):
    own, lost = (
        rounded(dump(theta).table(), FORMATS[name]) for theta in (llama3(grid(5e5)), grid(5e5))
    )
    meant = load(config("llama"))
    assert compare(meant, from_table(own, eps=2.0**-23)).verdict == "equivalent"
    found = compare(meant, from_table(lost, eps=2.0**-23))
    assert found.cause.misreadings == ("scaling-ignored",)


def test_phases_computed_in_bfloat16_are_named(config):
    form = FORMATS["bfloat16"]
    near = rounded(np.outer(rounded(np.arange(N), form), rounded(grid(5e5), form)), form)
    found = compare(load(config("plain")), from_table(rounded(np.cos(near), form), eps=2.0**-7))
    assert found.cause.misreadings == ("bfloat16-phases",)


@pytest.mark.parametrize(("name", "n"), [("bfloat16", 600), ("float16", 4200)])
def test_the_cost_of_coarse_phases_is_that_of_the_tables(name, n):
    """It was that of the frequencies, which are the same: no position was said to differ."""
    form, meant = FORMATS[name], load("rope:rho=5e5", n, 128)
    near = rounded(np.outer(rounded(np.arange(n), form), rounded(grid(5e5, 128), form)), form)
    other = rounded(np.hstack([np.cos(near), np.sin(near)]), form)
    found = compare(meant, from_table(other, eps=2.0**-10))
    assert found.cause.misreadings == (f"{name}-phases",)
    assert list(found.cause.below.values())[:2] == first_rows_below(meant.table(), other)[:2]
    assert "falls below .99" in found.conclusion


@pytest.mark.parametrize(
    ("factor", "words", "logits"),
    [
        (1.0, "attention_factor 1 instead of 1.1386294, that is none", 0.7713),
        (ATTENTION**2, "attention_factor 1.296477 instead of 1.1386294, that is its square", 1.296),
        (2 * ATTENTION, "attention_factor 2.277259 instead of 1.1386294", 4.0),
    ],
)
def test_another_factor_before_a_rotation_is_no_way_of_writing_it(factor, words, logits, config):
    """It was called equivalent, or a rotation of the columns whose products are the same."""
    meant, other = load(config("yarn"), N), dump(yarn(1e6), "cos and sin", factor)
    found = compare(meant, other)
    assert (found.verdict, found.by) == ("different", {})
    assert found.cause.misreadings == ("mscale",)
    largest = np.abs(meant.table() - other.table()).max()
    assert found.max_difference == pytest.approx(largest)
    assert found.max_difference > found.tolerance
    assert found.conclusion == (
        "DIFFERENT. "
        f"The second is the first misread: another factor before cosines and sines ({words}). The "
        f"second's logits are {logits:.4g} times the first's. They differ by up to {largest:.3g}."
    )
    back = compare(other, meant)
    assert (back.verdict, back.cause.of) == ("different", "b")
    assert f"The first's logits are {logits:.4g} times the second's" in back.conclusion


def test_two_rotations_that_differ_by_their_factor(config):
    """Of two configs the answer was the other way round, in either order."""
    one = load(config("yarn"))
    other = load(config("yarn", rope_scaling=YARN | {"attention_factor": 1.0}))
    for pair in ((one, other), (other, one)):
        found = compare(*pair)
        assert found.verdict == "different"
        assert list(found.cause.changes) == ["attention_factor"]
        logits = [(enc.table()[1] ** 2).sum() for enc in pair]
        said = f"The second's logits are {logits[1] / logits[0]:.4g} times the first's."
        assert said in found.conclusion


def test_besides_other_frequencies_both_costs_of_another_factor_are_told(config):
    other = dump(yarn(1e6, truncate=False), "cos and sin", 1.0)
    found = compare(load(config("yarn")), other)
    assert found.cause.misreadings == ("truncate", "mscale")
    falls = "The cosine of their codes first falls below .99 at position 199 and .9 at 656"
    assert (
        f"{falls} (beyond those compared); the second's logits are 0.7713 times the first's."
        in found.conclusion
    )


NEW = {"divisor", "scaling-added", "ramp"}  # ramp: where no limits are known


def hints_of(meant):
    """What may be known of another table: nothing, a base, as many pairs, or half of them."""
    pairs = len(meant.measure.frequencies)
    yield from (Hints(count, {}) for count in (None, pairs, pairs // 2))
    yield from (Hints(pairs, {"rho": rho}) for rho in (100.0, 1e3, 1e6, 1e8, 123456.0))


@pytest.mark.parametrize("name", CONFIGS)
def test_no_reading_that_had_a_name_has_another(name, config):
    """Of readings that agree the first is named: it is no newer one where an older one was."""
    meant = load(config(name))
    for hints in hints_of(meant):
        found = list(readings(meant, hints))
        older = [read for read in found if not NEW & set(read.codes)]
        assert len(older) < len(found)
        for read in older:
            first, was = (next(r for r in some if agree(r, read)) for some in (found, older))
            assert first.codes == was.codes, (hints, read.changes)


def agree(one, other):
    a, b = one.frequencies, other.frequencies
    return a.shape == b.shape and bool((np.abs(a - b) <= 1e-7 * np.abs(b)).all())


def test_another_base_that_a_config_states_is_no_divisor():
    one = load("rope:rho=1e6", N, 64)
    found = compare(one, load("rope:rho=1000.5", N, 64)).cause
    assert (found.misreadings, found.changes) == (("parameters",), {"rho": (1e6, 1000.5)})


def test_of_two_rotations_by_their_settings_neither_is_the_other_misread():
    """llama3 was said to be llama3.1 misread, and the base in the order of what was given."""
    small, large = load("rope:rho=1e4", N, 64), load("rope:rho=5e5", N, 64)
    scaled = load("rope:rho=5e5,scaling=linear,factor=4", N, 64)
    for one, two, said in (
        (small, large, "They differ in rho 10000 in the first, 500000 in the second."),
        (large, small, "They differ in rho 500000 in the first, 10000 in the second."),
        (large, scaled, "scaling none in the first, linear (factor 4) in the second."),
        (scaled, large, "scaling linear (factor 4) in the first, none in the second."),
    ):
        found = compare(one, two)
        assert found.cause.of == "both"
        assert said in found.conclusion
        assert "misread" not in found.conclusion
    below = dict(zip((0.99, 0.9, 0.5), compare(large, scaled).cause.below.values(), strict=True))
    apart = 0.75 * np.outer(np.arange(400), large.measure.frequencies)
    cosine = np.cos(apart).mean(axis=1)
    assert below == {level: int(np.argmax(cosine < level)) for level in below}


def test_one_difference_of_tables_is_one():
    """Rotary tables of which one has positions divided by four were apart in six settings."""
    phases = np.outer(np.arange(N), grid(1e4))
    one, four = (from_table(np.hstack([np.cos(p), np.sin(p)])) for p in (phases, phases / 4))
    assert compare(one, four).cause.changes == {"step": (1.0, 0.25)}
    assert compare(four, one).cause.changes == {"step": (0.25, 1.0)}


@pytest.mark.parametrize("name", ["bfloat16-frequencies", "bfloat16-positions"])
def test_of_two_tables_that_whose_phases_are_coarse_is_named(name):
    form, s = FORMATS["bfloat16"], np.arange(N)
    own = np.outer(s, grid(5e5))
    coarse = {
        "bfloat16-frequencies": np.outer(s, rounded(grid(5e5), form)),
        "bfloat16-positions": np.outer(rounded(s, form), grid(5e5)),
    }[name]
    one, two = (from_table(np.hstack([np.cos(p), np.sin(p)])) for p in (own, coarse))
    assert (compare(one, two).cause.of, compare(two, one).cause.of) == ("a", "b")
    assert compare(one, two).cause.misreadings == (name,)
    said = compare(one, two).conclusion  # once ".5 at 8220" of tables of 4096 rows
    for at, later in re.findall(r"\.\d+ at (?:position )?(\d+)( \(beyond those compared\))?", said):
        assert (int(at) >= N) == bool(later)
    assert said.startswith("DIFFERENT. The second is the first misread: ")


def test_what_check_faithful_finds_in_one_table_alone_is_told():
    w = 1e4 ** -(np.arange(64) / 64)  # exponents of columns, not of pairs
    columns = np.outer(np.arange(N), w)
    mismatched = np.where(np.arange(64) % 2, np.cos(columns), np.sin(columns))
    rope = load("rope:rho=5e5", N, 64).table()
    clipped = rope[np.minimum(np.arange(N), 200)]
    for good, bad, code in (
        (load("sinusoidal", N, 64).table(), mismatched, "mismatched-pairs"),
        (rope, clipped, "clipped-index"),
    ):
        for order in ((good, bad), (bad, good)):
            found = compare(*map(from_table, order))
            name = "b" if order[1] is bad else "a"
            assert {k: [f.code for f in v] for k, v in found.findings.items() if v} == {
                name: [code]
            }
            which = {"a": "first", "b": "second"}[name]
            assert f"bug in the {which} alone: " in found.conclusion


def test_a_divisor_and_a_scaling_that_was_added_are_told_in_full(config):
    found = compare(load(config("plain")), dump(grid(5e5, 128)[:32], "cos and sin"))
    assert found.cause.changes == {"d": (64, 128)}
    assert (
        "frequencies are those of a head of another size, as many as this one has (d 128 "
        "instead of 64)" in found.conclusion
    )
    found = compare(load(config("plain")), dump(grid(5e5) / F(4), "cos and sin"))
    assert found.cause.changes == {"scaling": ("none", "linear"), "factor": (None, 4.0)}
    assert "a scaling was applied where none was meant (scaling linear" in found.conclusion


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_positions_in_16_bits_with_products_in_float32_are_named(name):
    n = {"bfloat16": 2000, "float16": 9000}[name]
    near = np.outer(rounded(np.arange(n), FORMATS[name]), grid(5e5)).astype(F)
    meant, table = load("rope:rho=5e5", n, 64), np.hstack([np.cos(near), np.sin(near)])
    found = compare(meant, from_table(table, eps=2.0**-23))
    assert found.cause.misreadings == (f"{name}-positions",)
    assert list(found.cause.below.values())[:2] == first_rows_below(meant.table(), table)


def first_rows_below(one, other):
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    cosine = (one * other).sum(axis=1) / lengths
    return [int(np.flatnonzero(cosine < level)[0]) for level in (0.99, 0.9) if cosine.min() < level]


@pytest.mark.parametrize(("meant", "read"), [("halves", "interleaved"), ("interleaved", "halves")])
def test_the_cost_of_another_base_is_counted_pair_by_pair_whatever_the_layout(meant, read):
    """A scaling that a GGUF file lost was told from position 1: it pairs neighbours."""
    one, two = load(f"rope:layout={meant}", 40, 64), load(f"rope:layout={read},rho=5e5", 40, 64)
    found = compare(one, two)
    assert found.cause.changes == {"rho": (1e4, 5e5), "layout": (meant, read)}
    both = [np.exp(1j * np.outer(np.arange(40), grid(base))).view(float) for base in (1e4, 5e5)]
    near, far = first_rows_below(*both)
    falls = f"The cosine of their codes, pair by pair, first falls below .99 at position {near}"
    assert f"{falls}, .9 at {far} and" in found.conclusion


def twice(wave, layout):
    return np.repeat(wave, 2, axis=1) if layout == "interleaved" else np.hstack([wave, wave])


@pytest.mark.parametrize("first", [1, 2, 37])
@pytest.mark.parametrize("form", ["cos twice", "cos once", "sin once", "sin twice", "both twice"])
def test_a_table_of_waves_may_begin_at_another_position(form, first):
    """With cosines and sines once it was found; of these "no offset was found"."""
    late = dump(grid(5e5), form)
    late = from_table(late.table()[first:], eps=2.0**-23)
    found = compare(load("rope:rho=5e5", N, 64), late)
    assert (found.verdict, found.by["offset"], found.cause) == ("equivalent", first, None)
    if form != "both twice":
        told = identify(late.table(), 2.0**-23)["params"]
        assert (told["offset"], told["rho"]) == (first, 5e5)


@pytest.mark.parametrize("form", ["cos repeated", "both repeated"])
def test_partners_side_by_side_are_named(form):
    found = compare(load("rope:rho=5e5", N, 64), dump(grid(1e4), form))
    assert found.cause.misreadings == ("base-default", "layout")
    side_by_side = compare(load("rope:rho=5e5,layout=interleaved", N, 64), dump(grid(5e5), form))
    assert (side_by_side.verdict, "layout" in side_by_side.by) == ("equivalent", False)


@pytest.mark.parametrize("gap", [1e-3, 1e-4])
def test_what_nothing_known_explains_has_no_cause(gap, config):
    theta = llama3(grid(5e5))
    theta[7] *= 1 + gap
    found = compare(load(config("llama")), dump(theta, n=2000))
    assert (found.verdict, found.cause) == ("different", None)
    noise = np.random.default_rng(0).normal(size=(N, 64))
    assert compare(load(config("llama")), from_table(noise)).cause is None


def test_two_configs(config):
    found = compare(load(config("llama")), load(config("plain")))
    assert (found.cause.of, found.cause.misreadings) == ("both", ("parameters",))
    own = {"factor": 8.0, "original": 256, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    alone = {key: (value, None) for key, value in own.items()}
    assert found.cause.changes == {"scaling": ("llama3", "none"), **alone}
    back = compare(load(config("plain")), load(config("llama")))
    assert back.cause.changes == {k: pair[::-1] for k, pair in found.cause.changes.items()}


def test_both_limits_of_a_ramp_may_be_wrong():
    scaled = "rope:rho=5e5,d=128,scaling=llama3,factor=8,original=8192"
    wrong = load(f"{scaled},low_freq_factor=4,high_freq_factor=8", 80)
    found = compare(load(scaled, 80), from_table(wrong.table().astype(F), eps=2.0**-23)).cause
    assert (found.of, found.misreadings) == ("a", ("ramp",))
    limits = {"low_freq_factor": (1.0, 4.0), "high_freq_factor": (4.0, 8.0)}
    assert found.changes == limits


def test_published_costs_of_misreadings():
    """First positions below .99, .9, .5 of Llama-3.1 and Qwen's YaRN, as computed elsewhere."""
    llama = "rope:rho=5e5,d=128,scaling=llama3,factor=8,original=8192"
    lost = compare(load(llama, 8), load("rope:rho=5e5,d=128", 8)).cause
    assert lost.below == {".99": 512, ".9": 1724, ".5": 60725}
    qwen = "rope:rho=1e6,d=128,scaling=yarn,factor=4,original={}"
    wrong = compare(load(qwen.format(32768), 8), load(qwen.format(131072), 8)).cause
    assert (list(wrong.changes), wrong.below[".9"]) == (["original"], 2775)
    base = compare(load("rope:rho=5e5,d=128", 8), load("rope:d=128", 8)).cause
    assert (list(base.changes), base.below) == (["rho"], {".99": 3, ".9": 9, ".5": 27})


def test_the_other_type_of_layer(tmp_path):
    path = tmp_path / "gemma.json"
    path.write_text(json.dumps({"model_type": "gemma3_text", "head_dim": 64}))
    meant = load(f"{path}#full_attention", 40)
    found = compare(meant, dump(grid(1e4), n=40))
    assert found.cause.misreadings == ("other-layers",)
    assert found.cause.changes == {"layer": ("full_attention", "sliding_attention")}


def test_a_vector_of_frequencies(tmp_path, config):
    np.save(tmp_path / "lost.npy", grid(5e5))
    found = compare(load(config("llama")), load(f"rope:inv_freq={tmp_path / 'lost.npy'}"))
    assert found.cause.misreadings == ("scaling-ignored",)
    np.save(tmp_path / "own.npy", llama3(grid(5e5)))
    same = compare(load(config("llama")), load(f"rope:inv_freq={tmp_path / 'own.npy'}", 2048))
    assert (same.verdict, same.cause) == ("equal", None)


def test_tables_differ_by_what_they_are_identified_as():
    one, two = load("sinusoidal", 60, 32), load("sinusoidal:divisor=d/2-1,offset=2", 60, 32)
    found = compare(one.table(), two.table()).cause
    assert (found.of, found.misreadings) == ("both", ("parameters",))
    assert found.changes == {"divisor": ("d", "d/2-1"), "offset": (0, 2)}
    padded = two.table()
    padded[1] = 0
    assert compare(two, from_table(padded)).cause.changes == {"zero_rows": (None, [1])}
