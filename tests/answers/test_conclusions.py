"""Conclusions in words: situations, and in `conclusions.toml` the whole sentences each is told in.

``python tests/answers/test_conclusions.py`` writes these anew, to be read aloud before they stay.
"""

import json
import re
import tomllib
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from pefourier.analysis.compare import compare
from pefourier.analysis.context import describe_context
from pefourier.analysis.design import design_base
from pefourier.analysis.extend import extend
from pefourier.analysis.faithful import assess
from pefourier.analysis.reconstruct import position_functions
from pefourier.analysis.relations import relate
from pefourier.analysis.spectrum import density
from pefourier.answers.compare import conclude_comparison
from pefourier.answers.spectrum import few_waves
from pefourier.answers.telling import SENTENCES, conclude, telling_of
from pefourier.encodings import load
from pefourier.encodings.domain import lattice, positions
from pefourier.encodings.encoding import Encoding, Finding, Measure, from_table
from pefourier.encodings.registry import BUILDERS
from pefourier.files import read_toml
from pefourier.geometry.precision import FormatLoss

LONGEST = 30  # words of a sentence
SAID = Path(__file__).with_name("conclusions.toml")


def table(array):
    return from_table(np.asarray(array, dtype=float), "file")


def checked(enc):
    return conclude(enc, assess(enc))


def sines(n, d=16):
    return load("sinusoidal", n, d).table()


def clipped():
    codes = sines(60)
    codes[40:] = codes[40]
    return codes


def turns(steps):
    """Waves of 16 / k positions, on a lattice of 16."""
    measure = Measure(2 * np.pi * np.array(steps) / 16, np.full(len(steps), 1 / len(steps)))
    enc = Encoding("test", positions(40), 2, lambda x: np.ones((len(x), 2)), measure)
    return conclude(enc, density(enc, lattice=16, sigma=0))


def shown(find):
    def told(spec, length, d, *given, **options):
        enc = load(spec, length, d)
        return conclude(enc, find(enc, *given, **options))

    return told


def compared(a, b):
    return conclude_comparison(compare(table(a), table(b))).text


ONE = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]])
NEARLY = np.array([[1.0, 0.0], [1.0, 1e-9], [0.0, 1.0]])
REPEATING = np.tile(np.random.default_rng(0).normal(size=(4, 6)), (2, 1))
SIZES = {
    "sinusoidal": (80, 256),
    "dft": (80, 256),
    "dft d=64": (80, 64),
    "learned": (12, 16),
    "none": (80, 16),
    "rope n=1": (1, 16),
    "rope n=1024": (1024, 16),
    "ramp": (1024, 16),
    "alibi": (30, 16),
    "alibi:causal=true": (30, 16),
    "t5": (80, 12),
    "shaw:clip=2": (6, 8),
    "swin2:scale=100": (9, 4),
    "tree": (30, 16),
}
TABLES = {
    "constant": np.ones((6, 4)),
    "clipped": clipped(),
    "repeating": REPEATING,
    "two alike": np.eye(7)[[0, 1, 2, 3, 1, 4, 2]],
    "nearly equal": NEARLY,
    "ill-conditioned": np.diag([1.0, 1e-7]),
}
SPECTRA = {
    "sinusoidal": (80, 256, {}),
    "rope:rho=5e5": (80, 128, {}),
    "rope coarse": (80, 16, {"lattice": 16}),
    "rope": (80, 128, {"lattice": 4096, "sigma": 0}),
    "dft": (80, 64, {"lattice": 64}),
    "learned": (64, 64, {}),
    "none": (80, 64, {}),
}
STEPS = ([0, 0, 0], [2, 7], [0.5, 2, 7], [9, 9, 2, 2], [2, 2, 2, 9], [7, 8])
REBUILT = {
    "sinusoidal": (80, 256, [5, 40]),
    "dft": (80, 256, [5]),
    "none": (80, 64, [5]),
    "mtan": (80, 16, [5]),
    "dft beyond": (8, 16, [5, 9, 10]),
}
PAIRS = {
    "equal": ONE,
    "lengths": ONE[:3],
    "rounding": ONE * (1 + 2.0**-52),
    "equivalent": -2 * ONE,
    "different": ONE + 0.5 * np.eye(4)[:, 1:],
    "dimensions": ONE[:, :2],
}
RELATED = ("none", "sinusoidal", "dft", "ramp", "alibi", "alibi:causal=true", "shaw", "tree")
ON_GRID = ("axial:grid=5x6", "swin:grid=5x6")
REACHES = {
    "unseen": ("rope:rho=5e5,d=128", 131072, 8192),
    "no news": ("rope:rho=5e5,d=128", 8192, 8192),
    "scaled": ("rope:rho=5e5,scaling=llama3,factor=8,original=8192,d=128", 131072, 8192),
    "alibi": ("alibi", 4096, None),
    "t5": ("t5", 4096, None),
    "none": ("none", 4096, None),
    "shaw": ("shaw", 4096, None),
}


def reached(spec, length, trained):
    (enc, *_), found = describe_context(spec, length, trained=trained)
    return conclude(enc, found)


def situations():
    """Each by name, with what says its conclusion."""
    for key, size in SIZES.items():
        yield f"codes: {key}", partial(shown(assess), key.split()[0], *size)
    for key, codes in TABLES.items():
        yield f"table: {key}", partial(checked, table(codes))
    for key, (n, d, options) in SPECTRA.items():
        yield f"spectrum: {key}", partial(shown(density), key.split()[0], n, d, **options)
    for steps in STEPS:
        yield f"steps: {steps}", partial(turns, steps)
    for key, given in REBUILT.items():
        yield f"rebuilt: {key}", partial(shown(position_functions), key.split()[0], *given)
    for key, other in PAIRS.items():
        yield f"compared: {key}", partial(compared, ONE, other)
    for key in RELATED:
        yield f"relations: {key}", partial(shown(relate), key, 40, 16)
    for key in ON_GRID:
        yield f"relations: {key}", partial(shown(relate), key, None, 16)
        yield f"codes: {key}", partial(shown(assess), key, None, 16)
        yield f"spectrum: {key}", partial(shown(density), key, None, 16)
        yield f"rebuilt: {key}", partial(shown(position_functions), key, None, 16)
    for key, given in REACHES.items():
        yield f"context: {key}", partial(reached, *given)
    yield "design: one", lambda: design_base(4096, 128, criteria=("bound",)).conclusion
    yield "design: two", lambda: design_base(4096, 128, criteria=("bound", "turns")).conclusion
    yield "design: dft", lambda: design_base(16, 64, criteria=("turns",)).conclusion
    yield "extend", lambda: extend("rope:rho=1e6", 131072, trained=32768, d=128).conclusion


SITUATIONS = dict(situations())


def recorded():
    return tomllib.loads(SAID.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_situation_is_told_in_these_sentences(name):
    assert SITUATIONS[name]() == recorded()[name]


def test_no_sentence_is_left_of_a_situation_that_is_gone():
    assert recorded().keys() == SITUATIONS.keys()


def declared(command):
    """The verdicts of a question."""
    return {verdict.partition(" | ")[0] for verdict in read_toml(SENTENCES)[command]}


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize(
    "find", [assess, density, relate, lambda enc: position_functions(enc, [3])]
)
def test_a_conclusion_opens_with_a_verdict_and_is_short(name, find):
    """The verdict, what it means and what to do: 45 words where nothing else was found."""
    enc = load(name, 24, 16)
    found = find(enc)
    told = telling_of(found)
    said = told.conclude(enc, found)
    assert said.verdict in declared(told.command)
    assert said.text.startswith(f"{said.verdict}. ")
    assert len(f"{said.verdict} {said.meaning} {said.action}".split()) <= 45
    for sentence in re.split(r"(?<=\.) (?=[A-Z])", f"{said.meaning} {said.action}".strip()):
        assert sentence.endswith(".")
        assert len(sentence.split()) <= LONGEST, sentence
    assert not re.search(r"nan|None|inf\b|–|\[|\{", said.text)


@pytest.mark.parametrize("name", SITUATIONS)
def test_what_is_said_of_a_situation_opens_with_a_declared_verdict(name):
    verdict = SITUATIONS[name]().partition(". ")[0]
    assert any(verdict in declared(command) for command in read_toml(SENTENCES))
    assert len(verdict.split()) <= 4


@pytest.mark.parametrize(
    ("formula", "told"),
    [
        (
            {"encoding": "sinusoidal", "params": {"rho": 1e4, "d": 16}, "max_difference": 3e-8},
            " The table is sinusoidal with rho=10000, d=16, to within 3e-08.",
        ),
        (
            {
                "encoding": "sinusoidal",
                "params": {"zero_rows": [0, 1], "columns": [*range(64)]},
                "max_difference": 0.0,
            },
            " The table is sinusoidal with zero_rows=[0, 1], columns=(64 numbers), exactly.",
        ),
        (
            {"encoding": "constant", "params": {}, "max_difference": 0.0},
            " The table is constant, exactly.",
        ),
    ],
)
def test_a_table_that_was_recognised_is_named(formula, told):
    enc = table(np.eye(8))
    assert conclude(enc, replace(assess(enc), identified=formula)).endswith(told)


KEPT = {"distinct_cast": 100, "distinct_phase": 100, "max_phase_error": 0.1}


@pytest.mark.parametrize(
    ("losses", "told"),
    [
        ({}, "also in float32, float16 and bfloat16; "),
        (
            {f: {"distinct_phase": None} for f in ("float32", "float16", "bfloat16")},
            "also rounded to float32, float16 or bfloat16; ",
        ),
        (
            {"bfloat16": {"distinct_phase": 60}},
            "Compute codes in float32 and then round them: computed in bfloat16, only 60 of 100 "
            "differ.",
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
        (
            {"float8_e4m3": {"distinct_cast": 1, "distinct_phase": 1}},
            "also in float32, float16 and bfloat16; ",
        ),
    ],
)
def test_what_is_said_of_precision(losses, told):
    enc = load("rope", 100, 16)
    r = assess(enc)
    forms = {form: FormatLoss(**{**KEPT, **losses.get(form, {})}) for form in r.precision}
    assert told in conclude(enc, replace(r, precision=forms))


def test_only_findings_that_are_surely_bugs_are_said_and_the_others_counted():
    enc = load("dft", 8, 8)
    one, two = (Finding(code, "error", code) for code in ("first", "second"))
    doubt = Finding("doubt", "warning", "perhaps")
    told = conclude(enc, replace(assess(enc), findings=[one, two, doubt]))
    assert " This is surely a bug: first (1 more below)." in told
    assert "perhaps" not in told
    assert "perhaps" not in conclude(enc, replace(assess(enc), findings=[doubt]))


def test_smearing_is_said_and_narrows_the_peak():
    enc = load("sinusoidal", 80, 256)
    smeared, plain = (position_functions(enc, [5], sigma=sigma) for sigma in (4, 0))
    assert smeared.reconstructions[0].width < plain.reconstructions[0].width
    told = conclude(enc, plain)
    told_smeared = conclude(enc, smeared)
    assert "(smoothed, sigma 4), a position is a peak 12 wide and 0.34 high" in told_smeared
    assert "smoothed" not in told
    assert "usual: 92 of its 128 waves are longer than 80 positions" in told
    longer = conclude(enc, position_functions(enc, [5], lattice=4096, sigma=0))
    assert "usual: 92 of its 128 waves are longer than 80 positions" in longer
    assert (plain.below_first_bin, plain.frequencies_total) == (76, 128)
    known = position_functions(table(enc.table()), [5])
    assert (known.below_first_bin, known.frequencies_total) == (None, None)
    assert "waves are longer" not in conclude(table(enc.table()), known)


@pytest.mark.parametrize("sigma", [0, 4])
def test_on_the_lattice_of_a_context_sentence_and_table_tell_one_function(sigma):
    """Once 130 wide without smoothing, above a table, values and a figure of 82 with it."""
    enc, n = load("rope:rho=5e5", 8192, 128), 8192
    steps, k = 5e5 ** (-np.arange(64) / 64) * n / (2 * np.pi), np.arange(n // 2 + 1)
    reach = k[:, None] - steps  # Eq. 15 written out, and the sum of Algorithm 1
    g = (np.exp(-((reach / sigma) ** 2) / 2) if sigma else k[:, None] == np.rint(steps)).sum(axis=1)
    h = np.roll(np.fft.irfft(g, n), 4096)
    above, found = np.flatnonzero(h >= h.max() / 2), position_functions(enc, [4096], n, sigma)
    told, one = conclude(enc, found), found.reconstructions[0]
    width = float(f"{one.width:.2g}")
    assert f"a peak {width:.0f} wide and {one.peak:.3g} high" in told
    assert one.peak == pytest.approx(h.max() / np.linalg.norm(h), rel=1e-9)
    assert (" (smoothed, sigma 4)," in told) == (sigma == 4)
    peaks, far = (np.diff(above) > 1).sum(), np.abs(above - 4096).max()
    assert f"{peaks} other peaks reach half that height, up to {far} positions away" in told


@pytest.mark.parametrize("spec", ["axial", "mixed-rope"])
def test_smearing_is_said_of_points(spec):
    enc = load(spec, None, 64, grid=(14, 14))
    smeared, plain = (position_functions(enc, sigma=sigma) for sigma in (1, 0))
    areas = [found.reconstructions[0].half_max_area for found in (smeared, plain)]
    assert areas[0] < areas[1]
    told = conclude(enc, smeared)
    assert "--sigma 0 leaves out the smoothing." in told
    slow = smeared.below_first_bin
    assert (f", as {slow} of its 32 waves are longer than" in told) == (2 * slow >= 32)
    assert "smooth" not in conclude(enc, plain)


def test_a_picture_that_is_nearly_even_is_no_cross():
    """MAE's table without smearing: all points at or above half of the peak."""
    enc = load("axial:convention=mae", None, 768, grid=(14, 14))
    told = conclude(enc, position_functions(enc, sigma=0))
    assert told.startswith("A PLATEAU. ")
    assert "196 of 196 points reach half of that and none is below 0.7" in told


def test_positions_without_a_code_are_named():
    enc = load("dft", 8, 16)
    one, two = (conclude(enc, position_functions(enc, p)) for p in ([5, 9], [9, 10]))
    assert one.endswith(" Position 9 has no code at a length of 8.")
    assert two.endswith(" Positions 9 and 10 have no code at a length of 8.")


def test_a_position_of_which_nothing_is_left():
    enc = table(np.ones((40, 16)))
    told = conclude(enc, position_functions(enc, [5], lattice=16, sigma=0))
    assert told.startswith("LOST. Rebuilt from its frequencies alone, nothing of a position is ")


def test_partners_that_stand_elsewhere_are_permuted_along():
    one, two = load("rope", 40, 8), load("rope:layout=interleaved", 40, 8)
    for a, b, words in ((one, two, "halves to neighbours"), (two, one, "neighbours to halves")):
        said = conclude_comparison(compare(a, b))
        assert (said.verdict, words in said.meaning) == ("THE SAME, PERMUTED", True)
        assert "permute the rows of W_q and W_k, their biases and q/k-norm gains" in said.action
        assert "Loaded unpermuted, scores of random unit queries and keys differ" in said.more[0]
    unknown = "Whether a model is the same is not known: a table of cosines and sines does not hold"
    assert unknown in conclude_comparison(compare(one, table(two.table()))).text
    twice = table(np.repeat(one.table(), 2, axis=1))
    told = conclude_comparison(compare(one, twice)).text
    assert told.startswith(
        "THE SAME, REWRITTEN. "
        "One encoding, written differently: cosines and sines, each frequency twice, "
        "columns halves to interleaved; after that change they agree to "
    )
    assert unknown in told


def test_the_order_of_columns_that_are_added_needs_nothing():
    one, two = load("sinusoidal", 40, 8), load("sinusoidal:layout=halves", 40, 8)
    assert "permuted" not in conclude_comparison(compare(one, two)).text
    exchanged = load("sinusoidal:layout=halves", 40, 8)
    rope = load("rope", 40, 8)
    said = conclude_comparison(compare(rope, exchanged))
    assert said.verdict == "THE SAME CODES, USED DIFFERENTLY"
    assert said.meaning == (
        "rope turns queries and keys by its codes and sinusoidal:layout=halves adds its codes to "
        "the input: weights trained with one do not fit the other."
    )
    assert "permuted" not in said.text


def test_common_bugs_of_sinusoids_are_named(rng):
    """Once "columns neighbours exchanged" and "shifted by 1 position" were all that was said."""
    one = load("sinusoidal", 40, 8)
    swapped = np.arange(8) ^ 1
    said = conclude_comparison(compare(one, table(one.table()[:, swapped])))
    assert said.verdict == "SIN AND COS EXCHANGED"
    assert "sines and cosines exchanged (columns neighbours exchanged)" in said.meaning
    codes = rng.normal(size=(40, 8))
    other = conclude_comparison(compare(table(codes), table(codes[:, swapped])))
    assert other.verdict == "THE SAME, REWRITTEN"
    for shift in (-3, -1, 1, 2):
        one, two = load("sinusoidal:offset=3", 40, 8), load(f"sinusoidal:offset={3 + shift}", 40, 8)
        told = conclude_comparison(compare(one, two)).meaning
        assert ("off by one position" in told) == (abs(shift) == 1)
        i, j = map(
            int, re.search(r"row (\d) of the second is row (\d) of the first", told).groups()
        )
        assert np.allclose(two.table()[i], one.table()[j])


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
        "THE SAME, REWRITTEN. "
        "One encoding, written differently: columns rotated (all inner products agree);"
        " inner products are the same, individual entries differ."
    )
    tripled = table(3 * turned)
    assert conclude_comparison(compare(one, tripled)).text == (
        "THE SAME, REWRITTEN. "
        "One encoding, written differently: columns rotated, scaled by 3; inner "
        "products are 9 times those of the first, individual entries differ."
    )


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
    last = " If the times themselves are rounded, only 3 (bfloat16) of 4 stay different."
    assert told.endswith(last)
    told = conclude(enc := load("mtan-fixed", d=8, times=[0.0, 1.0, 2.5]), assess(enc))
    assert "the times themselves" not in told


def test_nothing_is_said_of_diagonals_where_nothing_is_left_along_them():
    enc = load("learned", 196, 256, grid=(14, 14))
    assert "Diagonals" not in conclude(enc, relate(enc))
    enc = load("axial", None, 64, grid=(14, 14))
    assert "Diagonals are" in conclude(enc, relate(enc))


@pytest.mark.parametrize("sigma", [None, 0, 7])
@pytest.mark.parametrize(("d", "rho", "lattice"), [(256, 1e4, 256), (128, 5e5, 131072)])
def test_what_smearing_does_is_not_told_as_the_encodings(d, rho, lattice, sigma):
    """Once 8.3 positions for 9.7, and 9.5 for 12: the wave's of the kernel's tail."""
    enc = load(f"rope:rho={rho:.0f}", None, d)
    found = density(enc, lattice, sigma)
    omega = sorted(rho ** (-2 * i / d) for i in range(d // 2))
    wave = 2 * np.pi / omega[int(np.ceil(0.95 * d / 2)) - 1]
    assert f"in waves of {wave:.2g} positions or longer" in conclude(enc, found)
    assert found.before_smearing().centroid == pytest.approx(sum(omega) / len(omega), rel=1e-12)
    grid = load(f"axial:rho={rho:.0f}", None, d, grid=(14, 14))
    mean = np.mean([rho ** (-4 * i / d) for i in range(d // 4)])
    told = conclude(grid, density(grid, sigma=sigma))
    assert f"mean frequency is {mean:.3g} rad per point" in told


@pytest.mark.parametrize(("condition", "hides"), [(2.0**20, True), (2.0**20 - 1, False)])
def test_float32_hides_from_a_condition_number_of_its_own_on(condition, hides):
    enc = table(np.diag([1.0, 0.5]))
    said = conclude(enc, replace(assess(enc), condition_number=condition))
    assert ("rounding in float32 can hide one" in said) is hides


def test_hours_of_the_day_over_a_week_may_be_meant():
    phase = 2 * np.pi / 24 * np.arange(168)
    hours = table(np.stack([np.sin(phase), np.cos(phase)], axis=1))
    told = conclude(hours, assess(hours))
    assert "they repeat every 24, so 0 and 24 share one. Right where only the place in a" in told
    assert "else add sine and cosine of period 168." in told


def test_positions_beyond_the_largest_number_of_float16_are_said_to_overflow():
    for length, said in ((65505, False), (65506, True)):
        found = assess(load("rope", length=length, d=4))
        assert ("positions beyond 65504 overflow in float16" in found.conclusion) == said


if __name__ == "__main__":  # the sentences of all situations, as they are told now
    lines = [
        f"{json.dumps(name)} = {json.dumps(tell(), ensure_ascii=False)}\n"
        for name, tell in SITUATIONS.items()
    ]
    SAID.write_text("".join(lines), encoding="utf-8")


@pytest.mark.parametrize("sigma", [0, None])
def test_the_waves_of_a_table_of_few_are_named(sigma, rng):
    """Once smoothed ones were mostly slow, and a period of 365 was told as 360."""
    s = np.arange(1460)[:, None]
    for period in (365, 340, 168, 12.3):  # between points of the lattice, too
        told = spectrum_told(wave_table(s, period), sigma)
        assert told.startswith("FEW WAVES. ")
        assert told.endswith(f"% of its energy is in a wave of {period} positions.")
    told = spectrum_told(np.hstack([wave_table(s, 365), wave_table(s, 7)]), sigma)
    assert " is in waves of 365 (50 %) and 7 (" in told
    for one, two in ((400, 300), (365, 260), (200, 240)):  # shares of neither alone: they overlap
        told = spectrum_told(wave_table(s[:400], one) + wave_table(s[:400], two), sigma)
        assert told.endswith(f" is in waves of {one} and {two} positions.")
    assert not spectrum_told(rng.normal(size=(256, 8)), sigma).startswith("FEW")


@pytest.mark.parametrize("seed", range(24))
def test_few_waves_are_those_a_table_was_made_of_or_are_not_told(seed):
    """Waves nearer than a bin overlap: fitted one by one, they held 124 % of the energy."""
    rng = np.random.default_rng(seed)
    n, d, count = rng.choice([100, 256]), rng.choice([1, 4, 64]), 1 + seed % 6
    bins = rng.uniform(0.5, 4) + rng.uniform(0.5, 5) * np.arange(count)
    bins = np.unique(np.rint(bins)) if seed % 3 == 0 else bins
    angles = 2 * np.pi * np.multiply.outer(bins, np.arange(n)) / n
    weights = rng.normal(size=(2, len(bins), 1, d))
    waves = np.cos(angles)[..., None] * weights[0] + np.sin(angles)[..., None] * weights[1]
    codes = waves.sum(axis=0) + 0.3 + seed % 2 * 0.01 * rng.normal(size=(n, d))
    energy = ((waves - waves.mean(axis=1, keepdims=True)) ** 2).sum(axis=(1, 2))
    found = density(table(codes))
    told = few_waves(found)
    for omega, _, alone in told:
        nearest = np.argmin(np.abs(bins - omega * n / 2 / np.pi))
        assert omega * n / 2 / np.pi == pytest.approx(bins[nearest], rel=0.01)
        assert alone == pytest.approx(energy[nearest] / (codes**2).sum(), abs=0.02)
    assert sum(share for _, share, _ in told) + found.summary.mean_share < 1 + 1e-3
    if len(bins) <= 4 and energy.min() > 0.1 * (codes**2).sum() and d > 1:
        assert len(told) == len(bins) or sum(energy) < 0.92 * (codes**2).sum()


def test_waves_longer_than_a_table_are_read_from_pairs_that_turn():
    """A day, a week and a year of hours, of which two weeks are there, in columns of their own."""
    hours = np.arange(336)[:, None] * 2 * np.pi / np.array([24, 168, 8766])
    codes = np.pad(np.hstack([np.sin(hours), np.cos(hours)]), ((0, 0), (0, 4)))
    said = conclude(table(codes), density(table(codes)))
    assert "waves of 8766 (33 %), 168 (33 %) and 24 (33 %) positions." in said
    assert "all rows share" not in said  # it is of the year


def test_a_short_lattice_is_told_as_it_is_before_smoothing(rng):
    codes = rng.normal(size=(12, 8)).cumsum(axis=0)
    smoothed, plain = spectrum_told(codes, None), spectrum_told(codes, 0)
    assert smoothed.partition(". ")[0] == plain.partition(". ")[0]
    assert "Smoothing (sigma 4) would blur all this" in smoothed
    assert "Smooth" not in plain


@pytest.mark.parametrize(("d", "said"), [(32, "all in waves of 6.3"), (64, "MOSTLY SLOW. 95 %")])
def test_slow_says_what_not_all_waves_are(d, said):
    """Once 95 % in waves of 6.3 positions or longer, which was the fastest of sixteen."""
    enc = load("rope", None, d)
    assert said in conclude(enc, density(enc, 2048, sigma=0))


def wave_table(s, period):
    return np.hstack([np.sin(2 * np.pi * s / period), np.cos(2 * np.pi * s / period)])


def spectrum_told(codes, sigma):
    return conclude(table(codes), density(table(codes), sigma=sigma))


def test_waves_along_both_diagonals_are_two_directions(run, tmp_path):
    rows, columns = np.indices((16, 16)).reshape(2, -1)
    along = [2 * np.pi / 16 * k * way for k in (2, 5) for way in (rows + columns, rows - columns)]
    np.save(tmp_path / "t.npy", np.stack([f(a) for a in along for f in (np.cos, np.sin)], axis=1))
    done = run("spectrum", tmp_path / "t.npy", "--grid", "16x16", "--sigma", 0)
    told = " ".join(done.out.split())
    assert "TWO DIRECTIONS. All waves run in two crossing directions (A4 = 1)" in told


def test_a_table_that_begins_elsewhere_is_shifted():
    moved = table(load("sinusoidal", 41, 8).table()[1:])
    said = conclude_comparison(compare(load("sinusoidal", 40, 8), moved))
    assert said.verdict == "THE SAME, SHIFTED"
