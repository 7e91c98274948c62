"""Commands as typed: whole answers of small cases, fields of JSON, and what is required of them."""

import csv
import json
import math
import re

import numpy as np
import pytest
import typer

from pefourier import __version__
from pefourier.cli.options import options_of
from pefourier.cli.program import program


def numbers_of(done):
    """What follows the conclusion of an answer in words."""
    conclusion, _, rest = done.out.partition("\n\n")
    assert conclusion.endswith(".")
    return rest


def test_spectrum_in_words(run):
    done = run("spectrum", "dft", "--d", 8)
    assert (done.status, done.err) == (0, "")
    assert (
        done.out.partition("\n\nnote: ")[0] + "\n"
        == """\
dft: EVEN. All frequencies carry about the same share of its energy (flatness 0.951 of 1).

                                  dft
lattice points N                  8
bandwidth, lattice steps          0
frequencies are                   declared
how many                          5
of them below the first bin 2π/N  1
effective number, exp(entropy)    4.757
share at frequency 0              0.125
mean frequency, rad               1.571
95 % lie at or below, rad         3.142
flatness (1 = flat)               0.9514
"""
    )


def test_spectrum_json_has_the_fields_of_the_contract(run):
    done = run("spectrum", "--d", 16, "--rho", 100, "--json")
    answer = json.loads(done.out)
    assert list(answer) == ["command", "version", "schema", "results"]
    assert (answer["command"], answer["version"]) == ("spectrum", __version__)
    assert answer["schema"] == 4
    sinusoidal, dft = answer["results"]
    assert [r["spec"] for r in answer["results"]] == ["sinusoidal", "dft"]
    assert sinusoidal["params"] == {
        "length": 80,
        "d": 16,
        "rho": 100.0,
        "layout": "interleaved",
        "divisor": "d",
        "offset": 0,
        "odd": "sine",
        "times": None,
    }
    assert sinusoidal["frequencies"] == pytest.approx(100.0 ** (-np.arange(0, 16, 2) / 16))
    assert dft["density"] == pytest.approx([1 / 16, *[1 / 8] * 7, 1 / 16])
    assert set(dft) == {
        "encoding",
        "spec",
        "params",
        "verdict",
        "meaning",
        "action",
        "findings",
        "conclusion",
        "lattice",
        "sigma",
        "method",
        "omega",
        "density",
        "frequencies",
        "summary",
    }
    assert set(dft["summary"]) == {
        "lowest_bin_index",
        "below_first_bin",
        "frequencies_total",
        "lowest_bin_share",
        "centroid",
        "cutoff95",
        "flatness",
        "mean_share",
        "effective",
        "effective_unsmeared",
    }


def test_csv_reads_back_exactly(run):
    done = run("spectrum", "sinusoidal", "--d", 16, "--csv")
    header, *rows = done.out.splitlines()
    assert header == "encoding,spec,k,omega,density"
    density = run("spectrum", "sinusoidal", "--d", 16, "--json").results[0]["density"]
    assert [float(row.split(",")[-1]) for row in rows] == density


@pytest.mark.parametrize(
    ("spec", "at", "heads"),
    [
        ("dft", "3", {"position": "t"}),
        ("axial:grid=2x3", "1,2", {"position_y": "y", "position_x": "x"}),
    ],
)
def test_csv_of_a_rebuilt_position_reads_back_by_its_axes(run, spec, at, heads):
    given = ["reconstruct", spec, "--d", 8, "--pos", at]
    (one,) = run(*given, "--json").results[0]["reconstructions"]
    values = np.full(np.shape(one["values"]), np.nan)
    for row in csv.DictReader(run(*given, "--csv").out.splitlines()):
        assert ",".join(row[head] for head in heads) == at
        values[tuple(int(row[axis]) for axis in heads.values())] = float(row["value"])
    assert values.tolist() == one["values"]


def test_reconstruct_in_words(run):
    """g = (1, 2, 2, 2, 1)/8 on 8 points: h is delta - (1 + (-1)^t) / 16, times a constant."""
    done = run("reconstruct", "dft", "--pos", 3, "--d", 8)
    header, row = numbers_of(done).splitlines()[:2]
    assert header.split()[:3] == ["encoding", "position", "peak"]
    h = np.array([7 / 8, 0, -1 / 8, 0, -1 / 8, 0, -1 / 8, 0])
    h /= np.linalg.norm(h)
    error = np.linalg.norm(h - np.eye(8)[0])
    assert row.split()[:3] == ["dft", "3", f"{h[0]:.4g}"]
    assert row.split()[5:7] == [f"{-h[2]:.4g}", f"{error:.4g}"]


def test_check_faithful_json_has_the_fields_of_the_contract(run):
    sinusoidal, dft = run("check-faithful", "--json").results
    assert (sinusoidal["verdict"], dft["verdict"]) == ("injective", "isometric")
    assert sinusoidal["faithful"] is True
    assert sinusoidal["condition_number"] is None
    assert set(dft) == {
        "encoding",
        "spec",
        "params",
        "conclusion",
        "meaning",
        "action",
        "length",
        "dimension",
        "verdict",
        "faithful",
        "min_distance",
        "closest_pair",
        "gap",
        "distinct",
        "rank",
        "rank_tolerance",
        "condition_number",
        "inverse_error",
        "stable_rank",
        "toeplitz_residual",
        "shift_residual",
        "first_rising_lag",
        "identified",
        "precision",
        "findings",
    }
    assert set(dft["precision"]) == {"float32", "float16", "bfloat16", "float8_e4m3"}
    assert set(dft["precision"]["float16"]) == {
        "distinct_cast",
        "distinct_phase",
        "max_phase_error",
        "safe_cast",
        "safe_phase",
    }


@pytest.mark.parametrize(
    ("rung", "status"), [("collides", 0), ("injective", 0), ("invertible", 1), ("isometric", 1)]
)
def test_require_exits_1_below_the_rung(run, rung, status):
    done = run("check-faithful", "sinusoidal", "--require", rung)
    assert done.status == status
    expected = f"pefourier: sinusoidal is injective, where {rung} is required\n" if status else ""
    assert done.err == expected
    assert "INJECTIVE" in done.out


def test_require_dtype_wants_distinct_codes_there(run):
    fine = run("check-faithful", "sinusoidal", "--require-dtype", "bfloat16")
    cast = run("check-faithful", "sinusoidal", "-S", 512, "--require-dtype", "bfloat16")
    lost = run("check-faithful", "sinusoidal", "-S", 512, "--require-dtype", "bf16:computed")
    assert (fine.status, cast.status, lost.status) == (0, 0, 1)
    assert lost.err == (
        "pefourier: sinusoidal has 385 of 512 codes distinct computed in bfloat16; 257 positions "
        "are safe\n"
    )
    done = run("check-faithful", "sinusoidal", "--require-dtype", "bf16:cast")
    assert (done.status, done.err.count("\n")) == (2, 1)


def test_strict_exits_1_on_a_finding(run, tmp_path):
    np.save(tmp_path / "constant.npy", np.ones((8, 4)))
    np.save(tmp_path / "right.npy", np.linalg.qr(np.random.default_rng(0).normal(size=(8, 8)))[0])
    assert run("check-faithful", tmp_path / "constant.npy", "--strict").status == 1
    assert run("check-faithful", tmp_path / "right.npy", "--strict").status == 0


def test_encode_then_check(run, tmp_path):
    out = tmp_path / "codes.npy"
    done = run("encode", "dft", "--d", 16, "--positions", "0,5,1000000005", "--out", out, "--json")
    (written,) = done.results
    assert (written["shape"], written["positions"]) == ([3, 16], [0, 5, 1000000005])
    codes = np.load(out)
    np.testing.assert_array_equal(codes[1], codes[2])  # 1000000005 = 5 mod 16, exactly
    assert run("check-faithful", out, "--json").results[0]["closest_pair"] == [1, 2]


def test_zeros_have_no_spectrum(run):
    done = run("spectrum", "none", "dft", "--d", 8, "--json")
    assert done.status == 0
    assert done.results[0]["density"] == [None] * 5


@pytest.mark.parametrize(
    ("a", "b", "status", "verdict"),
    [
        ("sinusoidal", "sinusoidal", 0, "THE SAME"),
        ("sinusoidal", "sinusoidal:layout=halves", 1, "EQUIVALENT"),
        ("sinusoidal", "sinusoidal:offset=2", 1, "EQUIVALENT"),
        ("rope", "rope:layout=interleaved", 1, "PERMUTED"),
        ("sinusoidal", "dft", 1, "DIFFERENT"),
        ("dft:d=8", "dft:d=6", 1, "DIFFERENT"),
    ],
)
def test_compare_says_how_two_encodings_relate(run, a, b, status, verdict):
    done = run("compare", a, b, "--d", 16, "-S", 40, "--quiet")
    assert (done.status, done.err) == (status, "")
    assert done.out.startswith(f"{a}: {verdict}. ")


def test_compare_says_where_a_table_differs(run, tmp_path):
    table = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]])
    np.save(tmp_path / "a.npy", table)
    table[2, 1] += 0.5
    table[3, 2] += 0.75
    np.save(tmp_path / "b.npy", table[:4])
    done = run("compare", tmp_path / "a.npy", tmp_path / "b.npy")
    assert done.status == 1
    lines = dict(line.split("  ", 1) for line in numbers_of(done).splitlines() if "  " in line)
    assert lines["largest difference"].strip() == "0.75"
    assert lines["first difference"].strip() == "position 2, column 1"
    (result,) = run("compare", tmp_path / "a.npy", tmp_path / "b.npy", "--json").results
    assert (result["verdict"], result["first_difference"]) == ("different", [2, 1])
    assert result["other"]["spec"] == str(tmp_path / "b.npy")


def test_encode_has_no_csv_answer(run, tmp_path):
    done = run("encode", "dft", "--out", tmp_path / "a.npy", "--csv")
    assert (
        done.err == "pefourier: encode writes its table to --out; for CSV, end that name in .csv\n"
    )
    assert (done.status, list(tmp_path.iterdir())) == (2, [])


def test_turns_of_waves_are_those_within_the_lattice_that_is_spoken_of(run):
    """Once the headline spoke of 4096 positions, and the table of the usual 80."""
    done = run("spectrum", "rope", "--d", 128, "--lattice", 4096, "--sigma", 0)
    assert re.search(r"below the first bin 2π/N +18\n", done.out)
    last = done.out.splitlines()[-1].split()
    assert float(last[-1]) == pytest.approx(4096 * 1e4 ** (-63 / 64) / (2 * math.pi), rel=1e-3)


def test_train_answers_in_words_and_in_json(run):
    given = ["train", "--dataset", "order:count=40,length=4", "--epochs", "1", "--seeds", "1"]
    given += ["-e", "none", "-e", "dft", "--quiet"]
    words = run(*given)
    assert (words.status, words.err) == (0, "")
    assert words.out.startswith("CUT SHORT. ")  # of one epoch
    assert "\n\nTraining was cut short on order:count=40,length=4: none, dft" in words.out
    assert "P / R / F1" in words.out
    answer = json.loads(run(*given, "--json").out)
    assert answer["command"] == "train"
    assert [r["spec"] for r in answer["results"]] == ["none", "dft"]


PROGRAM = typer.main.get_command(program())
LOOK_UP = {"list", "explain"}  # which analyse nothing


@pytest.mark.parametrize("name", sorted(PROGRAM.commands.keys() - LOOK_UP))
def test_every_analysing_command_can_be_quiet(name):
    names = [n for command, o in options_of(PROGRAM) if command == name for n in o.opts]
    assert {"--quiet", "-q"} <= set(names)


def test_quiet_leaves_the_answer_of_design_alone(run):
    asked = ["design", "--length", "80", "--d", "8", "--for", "turns"]
    quiet = run(*asked, "-q")
    assert (quiet.status, quiet.err) == (0, "")
    assert quiet.out == run(*asked).out


@pytest.mark.parametrize("suffix", ["npy", "csv", "txt"])
def test_positions_are_read_from_a_file(run, tmp_path, suffix):
    for name, given in (("rows", [5, 131071, 0]), ("points", [[3, 4], [10, 2]])):
        path = tmp_path / f"{name}.{suffix}"
        table = np.array(given)
        np.save(path, table) if suffix == "npy" else np.savetxt(path, table, "%d", ",")
        typed = [",".join(map(str, np.atleast_1d(one))) for one in given]
        asked = ["rope"] if name == "rows" else ["axial", "--grid", "14x14"]
        for option, positions in (("--pos", [path]), ("--positions", typed)):
            out = tmp_path / f"{option}.npy"
            done = run("encode", *asked, "--d", 64, option, *positions, "--out", out)
            assert (done.status, done.err) == (0, "")
        assert (tmp_path / "--pos.npy").read_bytes() == (tmp_path / "--positions.npy").read_bytes()
    np.savetxt(tmp_path / "half.csv", [0, 0.5])
    refused = run("encode", "rope", "--pos", tmp_path / "half.csv", "--out", tmp_path / "a.npy")
    assert refused.status == 2
    assert "half.csv' holds 0.5 (times between: --times FILE" in refused.err
