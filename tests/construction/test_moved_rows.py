"""Positions recovered from rows of cosines and sines, and the comparison's report of moved rows."""

import numpy as np
import pytest

from pefourier.construction.pairs import runs_of
from pefourier.encodings import load
from pefourier.encodings.encoding import from_table
from pefourier.geometry.precision import FORMATS, rounded
from pefourier.questions.compare import compare

EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "bfloat16": 2.0**-7}


def waves_of(places, omega, form):
    """Return complex exponentials as engines compute them, in float32 angles, and store them."""
    if form == "float64":
        return np.exp(1j * np.outer(places, omega))
    angles = (np.float32(places)[:, None] * np.float32(omega)).astype(float)
    return rounded(np.cos(angles), FORMATS[form]) + 1j * rounded(np.sin(angles), FORMATS[form])


def dump(places, omega, factor=1.0, form="float32"):
    waves = factor * waves_of(places, omega, form)
    return from_table(np.hstack([waves.real, waves.imag]), eps=EPS[form])


S = np.arange(600)
MISTAKES = [
    (rounded(S, FORMATS["bfloat16"]).astype(int), ("rounded",)),
    (np.maximum(S - 7, 0), ("repeated",)),
    (np.minimum(S, 32), ("clamped",)),
    (np.where(S < 256, S, S - 256), ("restarted",)),
    (S + (S >= 100), ("gap",)),
    (S - (S >= 100), ("repeated",)),
    (4 * S + 1, ("step", "shifted")),
    (np.where(S < 100, S - 3, S), ("shifted", "gap")),
    (4095 - S, ("reversed",)),
    (4999 - S, ("reversed", "shifted")),
    (np.r_[:37, 400, 38:400, 37, 401:600], ("exchanged",)),
]


@pytest.mark.parametrize("form", ["float32", "bfloat16"])
@pytest.mark.parametrize(("places", "codes"), MISTAKES)
def test_moved_rows_are_named_and_no_frequency_is(places, codes, form):
    """Moved rows are named as moved rows, not as changed frequencies."""
    meant = load("rope:rho=5e5,d=64", 4096)
    table = dump(places, meant.measure.frequencies, form=form)
    for pair in ((meant, table), (table, meant)):
        found = compare(*pair)
        assert (found.verdict, found.unit, found.pairs) == ("different", "rows", ())
        assert "codes" not in found.compared
        assert found.differing == (places != S).sum()
        for run in found.positions:
            assert places[run.first_row] == run.first
            assert places[run.last_row] == run.last
        warnings = [f.code for f in found.findings if f.severity == "warning"]
        moved = "rows-reordered" if codes == ("exchanged",) else "rows-moved"
        assert warnings == ["explained", moved]
        assert tuple(cause.code for cause in found.causes) == codes
        assert pair[("first", "second").index(found.expected)] is meant


PHI3 = {"model_type": "phi3", "hidden_size": 256, "num_attention_heads": 8, "num_hidden_layers": 2}
PHI3 |= {"max_position_embeddings": 2048, "original_max_position_embeddings": 256}
LISTS = {"short_factor": [1 + 0.01 * i for i in range(16)]}
LISTS |= {"long_factor": [1 + 1.5 * i for i in range(16)], "type": "longrope"}


def test_longrope_is_read_at_the_rows_of_a_dump_by_either_list(written):
    """A dump of LongRoPE is compared with the list that applies at its number of rows."""
    meant = load(written(PHI3 | {"rope_scaling": LISTS}, "config.json"))
    omega, factor = 1e4 ** (-np.arange(16) / 16), meant.params["attention_factor"]
    short, long = (omega / np.array(LISTS[f"{name}_factor"]) for name in ("short", "long"))
    cases = [(256, short, True), (256, long, False), (512, long, True), (512, short, False)]
    for n, own, same in cases:
        found = compare(meant, dump(S[:n], own, factor))
        assert (found.same, found.length) == (same, n)
        assert same or found.cause.misreadings == ("factor-list",)
        note = next(f for f in found.findings if f.code == "read-at-length")
        assert ("long" if n > 256 else "short") in note.message
    chunks = np.vstack(
        [dump(S[:256], short, factor).table(), dump(S[256:512], long, factor).table()]
    )
    found = compare(meant, from_table(chunks, eps=2.0**-23))
    parts = [(run.rows, run.places, run.reading) for run in found.positions]
    assert parts == [("0-255", "0-255", "short"), ("256-511", "256-511", "long")]
    assert (found.verdict, found.differing) == ("different", 256)


def test_bases_that_a_length_or_a_factor_makes_are_printed():
    base = {n: 1e4 * (2 * n / 64 - 1) ** (64 / 62) for n in (256, 512)}
    meant = load("rope:d=64,scaling=dynamic,factor=2,original=64", 4096)
    grid = np.arange(32) / 32
    found = compare(meant, dump(S[:256], base[256] ** -grid))
    assert (found.same, found.length) == (True, 256)
    assert f"{base[256]:.2f}" in found.findings[-1].message
    found = compare(meant, dump(S[:256], base[512] ** -grid))
    assert found.cause.misreadings == ("other-length",)
    assert found.cause.changes["length"] == (256, 512)
    assert found.cause.changes["base"][1] == pytest.approx(base[512])
    plain = load("rope:d=64", 512)
    found = compare(plain, dump(S[:512], (1e4 * 4 ** (64 / 62)) ** -grid))
    assert found.cause.changes["scaling"] == ("none", "ntk")
    assert found.cause.changes["factor"][1] == 4
    assert found.cause.changes["base"][1] == pytest.approx(1e4 * 4 ** (64 / 62))


QWEN = {"model_type": "qwen2_vl", "text_config": {"model_type": "qwen2_vl_text"}}
QWEN["text_config"] |= {"hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 2}
QWEN["text_config"] |= {"max_position_embeddings": 4096, "rope_theta": 1e6}
QWEN["text_config"] |= {"rope_scaling": {"type": "mrope", "mrope_section": [8, 12, 12]}}


@pytest.mark.parametrize("form", ["float32", "float64"])
def test_positions_of_each_axis_are_shown_and_not_taken_for_right(form, written):
    """Dumps of (t, y, x) ids list the positions by axis, and only an image's dump is the same."""
    meant, axis = load(written(QWEN, "config.json")), np.repeat([0, 1, 2], [8, 12, 12])
    image = np.array([(0, y, x) for y in range(4) for x in range(6)]) + 5
    text = np.repeat(np.arange(5)[:, None], 3, axis=1)
    ids = {"images": np.vstack([text, image, text + 11])}
    ids |= {"text": np.repeat(np.arange(34)[:, None], 3, axis=1)}
    ids |= {"back": np.vstack([text, image, text + 2]), "frames": np.vstack([image, image])}
    for kind, places in ids.items():
        waves = np.exp(1j * places[:, axis] * 1e6 ** (-np.arange(32) / 32))
        table = np.hstack([waves.real, waves.real, waves.imag, waves.imag])
        found = compare(meant, from_table(table.astype(form), eps=EPS[form]))
        assert (found.same, "codes" in found.compared) == (kind in ("images", "text"), False)
        assert not (found.same and found.max_difference)
        assert "axis-positions" in [f.code for f in found.findings]
        for k, name in enumerate("tyx"):
            runs = [run for run in found.positions if run.axis == name]
            assert runs == list(runs_of(np.arange(len(places)), places[:, k], name))


def test_folded_frequencies_have_one_sign_and_ratios_of_those_known():
    """Aliased frequencies are compared without a sign, and only known ratios are reported."""
    x, bands = np.linspace(-1, 1, 201)[:, None], 2.0 ** np.arange(10)
    tables = [
        np.stack([np.sin(w * x * bands), np.cos(w * x * bands)], 1).reshape(201, -1)
        for w in (np.pi, 1.0)
    ]
    found = compare(*tables)
    assert (found.verdict, len(found.pairs)) == ("different", 10)
    ratios = [pair.ratio for pair in found.pairs if pair.ratio is not None]
    assert len(ratios) >= 7
    np.testing.assert_allclose(ratios, 1 / np.pi, rtol=1e-5)
    assert all(pair.first is None or pair.first > 0 for pair in found.pairs)


def test_an_offset_of_a_rotation_is_no_change_of_scores_and_of_vectors_is():
    meant = load("rope:d=64", 40)
    found = compare(meant, dump(S[:40] + 5, meant.measure.frequencies))
    assert (found.verdict, found.transform) == ("equivalent", {"offset": 5})
    assert "cached keys" in found.conclusion
    assert found.compared == ("rotations", "factors")
    assert found.positions[0].first == 5
    found = compare(dump(S[:40] + 5, meant.measure.frequencies), meant)
    assert (found.transform, found.expected) == ({"offset": -5}, "second")
    assert [(cause.code, cause.by) for cause in found.causes] == [("shifted", 5)]
    shifted = load("sinusoidal:offset=5", 40, 8)
    assert "trained weights do not" in compare(load("sinusoidal", 40, 8), shifted).conclusion


def test_pairs_that_one_of_two_lacks_are_named_by_their_count():
    table = load("sinusoidal:layout=halves", 64, 32).table()
    narrow = table[:, np.r_[:8, 16:24]]
    found = compare(table, narrow)
    assert (found.pair_counts, found.differing, found.counted) == ((16, 8), 8, 16)
    assert [f.code for f in found.findings] == ["sizes-differ"]
    other = load("sinusoidal:layout=halves,rho=50", 64, 16).table()
    vectors = {f.code: f.message for f in compare(table, other).findings}
    assert "16 pairs, the second 8" in vectors["sizes-differ"]
    assert "pairs 1 to 7" in vectors["pairs-differ"]


def test_a_damaged_row_of_many_is_one_row_and_no_frequency():
    """A row of zeros, and two rows of other positions, are rows: all frequencies agree."""
    meant = load("rope:d=64", 5000)
    table = dump(np.arange(5000), meant.measure.frequencies).table().copy()
    table[3777] = 0.0
    for pair in ((meant, table), (table, meant), (dump(np.arange(5000), OMEGA), table)):
        found = compare(*pair)
        assert (found.verdict, found.unit, found.differing, found.pairs) == (
            "different",
            "rows",
            1,
            (),
        )
        assert "3777" in next(f.message for f in found.findings if f.code == "rows-moved")


OMEGA = 1e4 ** (-np.arange(32) / 32)


def test_rows_that_repeat_are_no_reference_for_positions():
    """Positions p // 2 and frequencies divided by 4: one factor does not give all rows."""
    omega, p = 1e6 ** (-np.arange(16) / 16), np.arange(64)
    first, second = np.outer(p, omega), np.outer(p // 2, omega / 4)
    found = compare(*(np.hstack([np.cos(x), np.sin(x)]) for x in (first, second)))
    assert (found.verdict, found.causes) == ("different", ())
