"""Conclusions in words: a table of situations, each with the whole sentences it is told in."""

import re
from dataclasses import replace

import numpy as np
import pytest

from pefourier.analysis.compare import compare
from pefourier.analysis.faithful import assess
from pefourier.analysis.reconstruct import position_functions
from pefourier.analysis.relations import relate
from pefourier.analysis.spectrum import density
from pefourier.answers.compare import conclude_comparison
from pefourier.answers.telling import conclude
from pefourier.encodings import load
from pefourier.encodings.domain import lattice, positions
from pefourier.encodings.encoding import Encoding, Finding, Measure, from_table
from pefourier.encodings.registry import BUILDERS
from pefourier.geometry.precision import FormatLoss

STAY = "In float32, float16 and bfloat16 codes stay different"
BOTH = f"{STAY}, rounded to the format or computed in it."
SOME = BOTH.replace("codes", "the different codes")


def table(array):
    return from_table(np.asarray(array, dtype=float), "file")


def checked(spec, length=80, d=256):
    enc = load(spec, length, d)
    return conclude(enc, assess(enc))


@pytest.mark.parametrize(
    ("spec", "length", "d", "told"),
    [
        (
            "sinusoidal",
            80,
            256,
            "All 80 positions have different codes; the closest two, 0 and 1, are 0.236 of a "
            "code's length apart. Linear maps of the codes can't pick out every position (1 "
            "there, 0 at others): they span 42 of 80 directions; the dft encoding of this size "
            "spans all. " + BOTH,
        ),
        (
            "dft",
            80,
            256,
            "All 80 positions have different codes; the closest two, 0 and 1, are 1.41 of a code's "
            "length apart. A linear map recovers every position and amplifies no noise: codes are "
            "equally long and at right angles (condition number 1). " + BOTH,
        ),
        (
            "dft",
            80,
            64,
            "Only 64 of 80 positions have different codes: they repeat every 64, so 0 and 64 share "
            "one; take at most 64 positions, or --d 80 or more. " + SOME,
        ),
        (
            "learned",
            12,
            16,
            "All 12 positions have different codes; the closest two, 4 and 8, are 0.665 of a "
            "code's length apart. A linear map recovers every position, amplifying noise up to "
            f"6.78 times (the condition number). {STAY}.",
        ),
        ("none", 80, 16, "All 80 codes are zero: they say nothing about positions."),
        (
            "rope",
            1,
            16,
            "With one of the positions there is nothing to tell apart; ask for more.",
        ),
        (
            "rope",
            1024,
            16,
            "All 1024 positions have different codes; the closest two, 0 and 1, are 0.359 of a "
            "code's length apart. Linear maps of the codes can't pick out every position (1 "
            "there, 0 at others): they span 16 of 1024 directions; 16 dimensions allow no more. In "
            "bfloat16 "
            "codes stay different if they are computed in a wider format and then rounded, as "
            "transformers does; computed there throughout, only 513 (bfloat16) of 1024 codes "
            "differ (whole numbers above 256 are rounded there).",
        ),
        (
            "ramp",
            1024,
            16,
            "All 1024 positions have different codes; the closest two, 0 and 1, are 0.00169 of a "
            "code's length apart. Linear maps of the codes can't pick out every position (1 "
            "there, 0 at others): they span 1 of 1024 directions; 16 dimensions allow at most 16. "
            "Rounded "
            "to the format, only 513 (bfloat16) of 1024 codes differ; float32 and float16 keep "
            "all.",
        ),
        (
            "alibi",
            30,
            16,
            "Only 30 of 59 lags have different codes: a lag and its opposite, such as -29 and 29, "
            "share one, which tells the distance and not the direction; a decoder sees one "
            f"direction, as causal=true has it. {STAY.replace('codes', 'the different codes')}.",
        ),
        (
            "alibi:causal=true",
            30,
            16,
            "All 30 lags have different codes; the closest two, -29 and -28, are 0.0592 of a "
            f"code's length apart. {STAY}.",
        ),
        (
            "t5",
            80,
            12,
            "Only 29 of 159 lags have different codes: far lags share one by design (buckets=32, "
            "max_distance=128), -79 and -78 first. "
            f"{STAY.replace('codes', 'the different codes')}.",
        ),
        (
            "shaw:clip=2",
            6,
            8,
            "Only 5 of 11 lags have different codes: far lags share one by design (clip=2), -5 and "
            f"-4 first. {STAY.replace('codes', 'the different codes')}.",
        ),
        (
            "tree",
            30,
            16,
            "All 30 nodes have different codes; the closest two, 7 and 15, are 0.267 of a code's "
            "length apart. Linear maps of the codes can't pick out every node (1 there, 0 at "
            f"others): they span 8 of 30 directions; 16 dimensions allow at most 16. {STAY}.",
        ),
    ],
)
def test_what_is_said_of_named_codes(spec, length, d, told):
    assert checked(spec, length, d) == told


def sines(n, d=16):
    return load("sinusoidal", n, d).table()


def clipped():
    codes = sines(60)
    codes[40:] = codes[40]
    return codes


@pytest.mark.parametrize(
    ("codes", "told"),
    [
        (
            np.ones((6, 4)),
            "Surely a bug: all positions have the same code: the table is indexed by the batch or "
            "by one row for all; take rows pe[:n], or pe[:, :n] of a table (1, length, d). The "
            "table is constant, exactly. All 6 positions share one code: none can be told from "
            "another.",
        ),
        (
            clipped(),
            "Surely a bug: all rows from 40 on are equal: the index is clipped at 40; make the "
            "table as long as the positions, 60. Only 41 of 60 positions have different codes: all "
            f"from 40 on share one. {STAY.replace('codes', 'the different codes')}.",
        ),
        (
            np.tile(np.random.default_rng(0).normal(size=(4, 6)), (2, 1)),
            "Only 4 of 8 positions have different codes: they repeat every 4, so 0 and 4 share one"
            f". {STAY.replace('codes', 'the different codes')}.",
        ),
        (
            np.array([[1.0, 0.0], [1.0, 1e-9], [0.0, 1.0]]),
            "All 3 positions have different codes; the closest two, 0 and 1, are 1e-09 of a code's "
            "length apart, so close that rounding may make them one. Linear maps of the codes "
            "can't pick out every position (1 there, 0 at others): they span 2 of 3 directions; 2 "
            "dimensions allow no more. Rounded to the format, only 2 (float16) of 3 codes differ; "
            "float32 and bfloat16 keep all.",
        ),
        (
            np.diag([1.0, 1e-7]),
            "All 2 positions have different codes; the closest two, 0 and 1, are 1.41 of a code's "
            "length apart. A linear map recovers every position, amplifying noise up to 1e+07 "
            f"times (the condition number), so that rounding in float32 can hide one. {STAY}.",
        ),
    ],
    ids=["constant", "clipped", "repeating", "nearly equal", "ill-conditioned"],
)
def test_what_is_said_of_tables(codes, told):
    enc = table(codes)
    assert conclude(enc, assess(enc)) == told


@pytest.mark.parametrize(
    ("formula", "told"),
    [
        (
            {"encoding": "sinusoidal", "params": {"rho": 1e4, "d": 16}, "max_difference": 3e-8},
            "The table is sinusoidal with rho=10000, d=16, to within 3e-08. All 8 positions have ",
        ),
        (
            {
                "encoding": "sinusoidal",
                "params": {"zero_rows": [0, 1], "columns": [*range(64)]},
                "max_difference": 0.0,
            },
            "The table is sinusoidal with zero_rows=[0, 1], columns=(64 numbers), exactly. All 8 ",
        ),
        (
            {"encoding": "constant", "params": {}, "max_difference": 0.0},
            "The table is constant, exactly. All 8 positions have ",
        ),
    ],
)
def test_a_table_that_was_recognised_is_named(formula, told):
    enc = table(np.eye(8))
    assert conclude(enc, replace(assess(enc), identified=formula)).startswith(told)


KEPT = {"distinct_cast": 100, "distinct_phase": 100, "max_phase_error": 0.1}


@pytest.mark.parametrize(
    ("losses", "told"),
    [
        ({}, BOTH),
        ({f: {"distinct_phase": None} for f in ("float32", "float16", "bfloat16")}, f"{STAY}."),
        (
            {"bfloat16": {"distinct_phase": 60}},
            "In bfloat16 codes stay different if they are computed in a wider format and then "
            "rounded, as transformers does; computed there throughout, only 60 (bfloat16) of "
            "100 codes differ.",
        ),
        (
            {"bfloat16": {"distinct_cast": 90}},
            "Rounded to the format, only 90 (bfloat16) of 100 codes differ; float32 and float16 "
            "keep all.",
        ),
        (
            {
                "bfloat16": {"distinct_cast": 90, "distinct_phase": 60},
                "float16": {"distinct_cast": 95},
            },
            "Rounded to the format, only 95 (float16) and 90 (bfloat16) of 100 codes differ; "
            "float32 keeps all; computed in the format, only 60 (bfloat16) of 100 codes differ.",
        ),
        (
            {f: {"distinct_cast": 9} for f in ("float32", "float16", "bfloat16")},
            "Rounded to the format, only 9 (float32), 9 (float16) and 9 (bfloat16) of 100 codes "
            "differ.",
        ),
        ({"float8_e4m3": {"distinct_cast": 1, "distinct_phase": 1}}, BOTH),
    ],
)
def test_what_is_said_of_precision(losses, told):
    enc = load("rope", 100, 16)
    r = assess(enc)
    forms = {form: FormatLoss(**{**KEPT, **losses.get(form, {})}) for form in r.precision}
    assert conclude(enc, replace(r, precision=forms)).endswith(f" {told}")


def test_only_findings_that_are_surely_bugs_are_said_and_the_others_counted():
    enc = load("dft", 8, 8)
    one, two = (Finding(code, "error", code) for code in ("first", "second"))
    doubt = Finding("doubt", "warning", "perhaps")
    told = conclude(enc, replace(assess(enc), findings=[one, two, doubt]))
    assert told.startswith("Surely a bug: first (1 more below). All 8 positions ")
    assert "perhaps" not in told
    assert "perhaps" not in conclude(enc, replace(assess(enc), findings=[doubt]))


LOOK = "a --lattice as long as your context, with --sigma 0, shows more."


@pytest.mark.parametrize(
    ("spec", "length", "d", "given", "told"),
    [
        (
            "sinusoidal",
            80,
            256,
            {},
            "Slow waves dominate: 95 % of the energy is in waves of 8.26 positions or longer "
            "(flatness 0.17, where 1 is even). 76 of 128 frequencies, numbers 52 to 127 "
            "counted from 0 (columns 104 to 255), never finish a turn within the "
            f"256 points of the lattice: waves of up to 58500; {LOOK}",
        ),
        (
            "rope:rho=5e5",
            80,
            128,
            {},
            "Slow waves dominate: 95 % of the energy is in waves of 8 positions or longer "
            "(flatness 0.21, where 1 is even). 49 of 64 frequencies, numbers 15 to 63 "
            "counted from 0 (columns 15 to 63 and 79 to 127), never finish a turn within the "
            f"128 points of the lattice: waves of up to 2560000; {LOOK}",
        ),
        (
            "rope",
            80,
            16,
            {"lattice": 16},
            "The bandwidth of 4 steps blurs most of a lattice of 9 frequencies; take --sigma 0 or "
            "a longer --lattice to tell them apart. 7 of 8 frequencies, numbers 1 to 7 "
            "counted from 0 (columns 1 to 7 and 9 to 15), never finish a turn within the "
            f"16 points of the lattice: waves of up to 19900; {LOOK}",
        ),
        (
            "rope",
            80,
            128,
            {"lattice": 4096, "sigma": 0},
            "Slow waves dominate: 95 % of the energy is in waves of 9.68 positions or longer "
            "(flatness 0.012, where 1 is even). 18 of 64 frequencies, numbers 46 to 63 "
            "counted from 0 (columns 46 to 63 and 110 to 127), never finish a turn within the "
            "4096 points of the lattice: waves of up to 54400.",
        ),
        (
            "dft",
            80,
            64,
            {"lattice": 64},
            "Energy is spread evenly: all frequencies have about the same share (flatness 0.991 of "
            "1).",
        ),
        (
            "learned",
            64,
            64,
            {},
            "Energy is spread evenly: all frequencies have about the same share (flatness 0.983 of "
            "1). This is the encoding before training; for a trained one give the file of its "
            "table.",
        ),
        ("none", 80, 64, {}, "All codes are zero, so there is no spectrum."),
    ],
)
def test_what_is_said_of_a_spectrum(spec, length, d, given, told):
    enc = load(spec, length, d)
    assert conclude(enc, density(enc, **given)) == told


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        (
            [0, 0, 0],
            "100 % of the energy is at frequency 0: nearly the same at all positions.",
        ),
        (
            [2, 7],
            "Half of the energy is in waves of 8 positions or longer, 95 % in waves of 2.29 or "
            "longer (flatness 0.22, where 1 is even).",
        ),
        (
            [0.5, 2, 7],
            "Half of the energy is in waves of 8 positions or longer, 95 % in waves of 2.29 or "
            "longer (flatness 0.42, where 1 is even). 1 of 3 frequencies never finishes a turn "
            "within the 16 points of the lattice: waves of up to 32.",
        ),
        (
            [9, 9, 2, 2],
            "Half of the energy is in waves of 8 positions or longer, 95 % in waves of 2.29 or "
            "longer (flatness 0.22, where 1 is even). 2 of 4 frequencies are above π and look "
            "slower at whole positions (aliasing).",
        ),
        (
            [2, 2, 2, 9],
            "Half of the energy is in waves of 8 positions or longer, 95 % in waves of 2.29 or "
            "longer (flatness 0.19, where 1 is even). 1 of 4 frequencies is above π and looks like "
            "a slower one at whole positions (aliasing).",
        ),
        (
            [7, 8],
            "Fast waves dominate: 100 % of the energy is in waves below 4 positions.",
        ),
    ],
)
def test_what_is_said_of_known_frequencies(steps, told):
    """Waves of 16 / k positions, on a lattice of 16."""
    measure = Measure(2 * np.pi * np.array(steps) / 16, np.full(len(steps), 1 / len(steps)))
    enc = Encoding("test", positions(40), 2, lambda x: np.ones((len(x), 2)), measure)
    said = conclude(enc, density(enc, lattice=16, sigma=0))
    assert said.startswith(told)


@pytest.mark.parametrize(
    ("spec", "length", "d", "positions", "told"),
    [
        (
            "sinusoidal",
            80,
            256,
            [5, 40],
            "From its frequencies alone, smeared by sigma 4, a position comes back blurred, as a "
            "peak 11.9 positions wide and 0.34 of 1 high (error 1.15; 0 is exact), wide because 92 "
            "of its 128 waves are longer than 80 positions and hardly change from one to the next "
            "(smearing narrows it: --sigma 0 has all of its width). A linear map on the codes does "
            "not recover all 80 positions: the worst comes back wrong by 0.6, where a position is "
            "1 high; check-faithful says why.",
        ),
        (
            "dft",
            80,
            256,
            [5],
            "From its frequencies alone a position comes back as a sharp peak, 1 position wide and "
            "0.999 of 1 high (error 0.0442; 0 is exact). A linear map on the codes recovers all 80 "
            "positions (largest error ",
        ),
        (
            "none",
            80,
            64,
            [5],
            "All codes are zero, so there is nothing to rebuild a position from. A linear map on "
            "the codes does not recover all 80 positions: the worst comes back wrong by 1, where a "
            "position is 1 high; check-faithful says why.",
        ),
        (
            "mtan",
            80,
            16,
            [5],
            "From its frequencies alone, smeared by sigma 4, a position comes back blurred, as a "
            "peak ",
        ),
        (
            "dft",
            8,
            16,
            [5, 9, 10],
            "From its frequencies alone a position comes back as a sharp peak, 1 position wide and "
            "0.985 of 1 high (error 0.174; 0 is exact). A linear map on the codes recovers all 8 "
            "positions (largest error ",
        ),
    ],
)
def test_what_is_said_of_a_rebuilt_position(spec, length, d, positions, told):
    enc = load(spec, length, d)
    assert conclude(enc, position_functions(enc, positions)).startswith(told)


def test_smearing_is_said_and_narrows_the_peak():
    enc = load("sinusoidal", 80, 256)
    smeared, plain = (position_functions(enc, [5], sigma=sigma) for sigma in (4, 0))
    assert smeared.reconstructions[0].width < plain.reconstructions[0].width
    told = conclude(enc, plain)
    assert told.startswith("From its frequencies alone a position comes back blurred")
    assert "wide because 92 of its 128 waves are longer than 80 positions" in told
    longer = conclude(enc, position_functions(enc, [5], lattice=4096, sigma=0))
    assert "wide because 92 of its 128 waves are longer than 80 positions" in longer
    assert (plain.below_first_bin, plain.frequencies_total) == (76, 128)
    known = position_functions(table(enc.table()), [5])
    assert (known.below_first_bin, known.frequencies_total) == (None, None)
    assert "waves are longer" not in conclude(table(enc.table()), known)


@pytest.mark.parametrize("spec", ["axial", "mixed-rope"])
def test_smearing_is_said_of_points(spec):
    enc = load(spec, None, 64, grid=(14, 14))
    smeared, plain = (position_functions(enc, sigma=sigma) for sigma in (1, 0))
    areas = [found.reconstructions[0].half_max_area for found in (smeared, plain)]
    assert areas[0] < areas[1]
    told = conclude(enc, smeared)
    assert told.startswith("From its frequencies alone, smeared by sigma 1, a point comes back")
    slow = smeared.below_first_bin
    assert (f", wide because {slow} of its 32 waves are longer than" in told) == (2 * slow >= 32)
    assert "smear" not in conclude(enc, plain)


def test_a_picture_that_is_nearly_even_is_no_cross():
    """MAE's table without smearing: all points at or above half of the peak."""
    enc = load("axial:convention=mae", None, 768, grid=(14, 14))
    told = conclude(enc, position_functions(enc, sigma=0))
    assert "a point comes back as hardly more than a plateau" in told
    assert "196 of 196 points at or above half of it, and no point is below 0.7" in told


def test_positions_without_a_code_are_named():
    enc = load("dft", 8, 16)
    one, two = (conclude(enc, position_functions(enc, p)) for p in ([5, 9], [9, 10]))
    assert one.endswith(" Position 9 has no code at a length of 8.")
    assert two.endswith(" Positions 9 and 10 have no code at a length of 8.")


def test_a_position_of_which_nothing_is_left():
    enc = table(np.ones((40, 16)))
    told = conclude(enc, position_functions(enc, [5], lattice=16, sigma=0))
    assert told.startswith(
        "From its frequencies alone nothing of a position is left: the rebuilt curve nowhere falls "
        "to half of its peak of 0.25. A linear map on the codes does not recover all 40 positions"
    )


ONE = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]])


@pytest.mark.parametrize(
    ("a", "b", "told"),
    [
        (
            ONE,
            ONE,
            "The two are the same: every number of 4 positions and 3 columns agrees to the bit.",
        ),
        (
            ONE,
            ONE[:3],
            "The two are the same: every number of 3 positions and 3 columns agrees to the bit. "
            "Only 3 common positions were compared; the lengths are 4 and 3.",
        ),
        (
            ONE,
            ONE * (1 + 2.0**-52),
            "The two are the same within rounding: over 4 positions and 3 columns they differ by "
            "at most 2.2e-16, and rounding explains 8.9e-16.",
        ),
        (
            ONE,
            -2 * ONE,
            "The two are one encoding, written differently: 3 columns with the other sign, scaled "
            "by 2; after that change they agree to the bit.",
        ),
        (
            ONE,
            ONE + 0.5 * np.eye(4)[:, 1:],
            "The two differ by up to 0.5, where rounding explains 8.9e-16; no order of columns, "
            "signs, scale or offset was found that makes them agree. They part first at position "
            "1, column 0, and most at position 1, column 0.",
        ),
        (
            ONE,
            ONE[:, :2],
            "The two differ: their codes have 3 and 2 dimensions; compare them at one --d.",
        ),
    ],
    ids=["equal", "lengths", "rounding", "equivalent", "different", "dimensions"],
)
def test_what_is_said_of_a_comparison(a, b, told):
    one, two = table(a), table(b)
    assert conclude_comparison(compare(one, two)).text == told


def test_partners_that_stand_elsewhere_are_permuted_along():
    one, two = load("rope", 40, 8), load("rope:layout=interleaved", 40, 8)
    for a, b, words in ((one, two, "halves to neighbours"), (two, one, "neighbours to halves")):
        assert conclude_comparison(compare(a, b)).text.startswith(
            "The two are the same rotation with rows in another order: weights made for the first "
            "work in the second after the rows of W_q and W_k, their biases and gains of q/k norms "
            f"are permuted in each head, {words} (--permutation FILE writes the order); W_v and "
            "W_o stay. Loaded unpermuted, scores of random unit queries and keys differ from "
            "position 1 on, by up to "
        )
    unknown = "Whether a model is the same is not known: a table of cosines and sines does not hold"
    assert unknown in conclude_comparison(compare(one, table(two.table()))).text
    twice = table(np.repeat(one.table(), 2, axis=1))
    told = conclude_comparison(compare(one, twice)).text
    assert told.startswith(
        "The two are one encoding, written differently: cosines and sines, each frequency twice, "
        "columns halves to interleaved; after that change they agree to "
    )
    assert unknown in told


def test_the_order_of_columns_that_are_added_needs_nothing():
    one, two = load("sinusoidal", 40, 8), load("sinusoidal:layout=halves", 40, 8)
    assert "permuted" not in conclude_comparison(compare(one, two)).text
    exchanged = load("sinusoidal:layout=halves", 40, 8)
    rope = load("rope", 40, 8)
    assert "permuted" not in conclude_comparison(compare(rope, exchanged)).text


def test_a_parameter_that_one_table_lacks_is_said_to_be_the_others():
    codes = load("rope", 40, 8).table()
    one, two = table(3.5 * codes), table(codes)
    told = [conclude_comparison(compare(a, b)).text for a, b in ((one, two), (two, one))]
    assert told[0].endswith("they differ in scale 3.5 in the first, 1 in the second.")
    assert told[1].endswith("they differ in scale 1 in the first, 3.5 in the second.")


def test_a_rotation_keeps_products_and_says_so(rng):
    codes = rng.normal(size=(20, 6))
    turned = codes @ np.linalg.qr(rng.normal(size=(6, 6)))[0]
    one, two = table(codes), table(turned)
    assert conclude_comparison(compare(one, two)).text == (
        "The two are one encoding, written differently: columns rotated (all inner products agree);"
        " products of codes are the same, single numbers are not."
    )
    tripled = table(3 * turned)
    assert conclude_comparison(compare(one, tripled)).text == (
        "The two are one encoding, written differently: columns rotated, scaled by 3; products of "
        "codes are 9 times those of the first, single numbers are others."
    )


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("none", "All codes are zero: they say nothing about positions."),
        (
            "sinusoidal",
            "Inner products of codes depend on the lag alone; with it they rise first at lag 4. "
            "One matrix leads from every code to the next: a fixed lag is a linear map. "
            "Distances of codes and of positions correlate by 0.67 (1: near codes are near "
            "positions).",
        ),
        (
            "ramp",
            "Inner products of codes depend on the positions and not on their lag alone (Toeplitz "
            "residual 0.63; 0 is the lag alone). No matrix leads from every code to the next: the "
            "best is off by 2.2 % of the codes' size. Distances of codes and of positions "
            "correlate by 1 (1: near codes are near positions).",
        ),
        (
            "alibi",
            "A lag and its opposite have the same code: distance is told and direction is not.",
        ),
        (
            "alibi:causal=true",
            "Only keys up to the query have a code: there are no opposite lags.",
        ),
        (
            "shaw",
            "A lag and its opposite have different codes (asymmetry 0.74): direction is told.",
        ),
        (
            "tree",
            "Nodes of a tree have no lags; 'pefourier check-faithful' says what their codes do.",
        ),
    ],
)
def test_what_is_said_of_relations(spec, told):
    enc = load(spec, 40, 16)
    assert conclude(enc, relate(enc)) == told


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (
            "axial:grid=5x6",
            "Inner products of codes depend on the displacement alone; they rise first at the lag: "
            "y 4, x 4. Diagonals are not treated like rows and columns: of the inner product at "
            "lag 0 are left y 0.746, x 0.746 after 3 points, and 0.641 as far on the diagonal, at "
            "(2,2). One matrix an axis leads from every code to the next along it. Distances of "
            "codes and of positions correlate by 0.74 (1: near codes are near positions).",
        ),
        (
            "swin:grid=5x6",
            "These are biases of displacements: there are no inner products of codes by lag.",
        ),
    ],
)
def test_what_is_said_of_relations_on_a_grid(spec, told):
    enc = load(spec, None, 16)
    assert conclude(enc, relate(enc)) == told


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize(
    "find", [assess, density, relate, lambda enc: position_functions(enc, [3])]
)
def test_a_conclusion_is_one_to_three_sentences_without_a_missing_number(name, find):
    enc = load(name, 24, 16)
    told = conclude(enc, find(enc))
    sentences = re.split(r"(?<=\.) (?=[A-Z])", told)
    assert 1 <= len(sentences) <= 3
    assert all(one.endswith(".") for one in sentences)
    assert not re.search(r"nan|None|inf\b|–|\[|\{", told)


def test_every_kind_of_result_has_rules():
    enc = load("dft", 8, 8)
    grid = replace(from_table(np.eye(6)), domain=lattice((2, 3)))
    found = [assess(enc), density(enc), relate(enc), position_functions(enc, [3])]
    found += [assess(grid), density(grid), relate(grid), position_functions(grid, [(1, 2)])]
    assert all(conclude(one.about[0], one).endswith(".") for one in found)


@pytest.mark.parametrize(
    ("trained", "said"),
    [
        (5, "2 of 2 pairs reach angles unseen in training"),
        (50, "1 of 2 pairs reaches angles unseen in training"),
    ],
)
def test_numbers_agree_with_their_verbs(run, trained, said):
    done = run("context", "rope:rho=100,d=4", "--trained", trained, "--length", 99)
    assert said in " ".join(done.out.split())


def test_whole_positions_on_a_grid_are_rounded_as_on_a_line():
    """By the formats' own rule: 513 whole numbers below 1024 are different in bfloat16."""
    line = assess(load("sinusoidal", 1024, 64))
    grid = assess(load("sinusoidal", 1024, 64, grid=(32, 32)))
    assert grid.precision == line.precision
    assert grid.precision["bfloat16"].distinct_phase == 513


def test_times_that_a_format_merges_are_told():
    told = conclude(enc := load("mtan-fixed", d=8, times=[0.0, 1.0, 500.0, 500.5]), assess(enc))
    assert told.endswith("; times held in the format are only 3 (bfloat16) of 4.")
    told = conclude(enc := load("mtan-fixed", d=8, times=[0.0, 1.0, 2.5]), assess(enc))
    assert "times held" not in told


def test_nothing_is_said_of_diagonals_where_nothing_is_left_along_them():
    enc = load("learned", 196, 256, grid=(14, 14))
    assert "Diagonals" not in conclude(enc, relate(enc))
    enc = load("axial", None, 64, grid=(14, 14))
    assert "Diagonals are" in conclude(enc, relate(enc))


def test_a_smeared_mean_on_a_grid_says_so():
    enc = load("axial", None, 64, grid=(14, 14))
    assert "rad a point, smeared by sigma 1." in conclude(enc, density(enc))
    assert "smeared" not in conclude(enc, density(enc, sigma=0))


@pytest.mark.parametrize(("condition", "hides"), [(2.0**20, True), (2.0**20 - 1, False)])
def test_float32_hides_from_a_condition_number_of_its_own_on(condition, hides):
    enc = table(np.diag([1.0, 0.5]))
    said = conclude(enc, replace(assess(enc), condition_number=condition))
    assert ("so that rounding in float32 can hide one" in said) is hides


def test_positions_beyond_the_largest_number_of_float16_are_said_to_overflow():
    for length, said in ((65505, False), (65506, True)):
        found = assess(load("rope", length=length, d=4))
        assert ("positions beyond 65504 overflow in float16" in found.conclusion) == said
