"""Commands as typed: streams, exit status, whole answers of small cases, and errors in one line."""

import csv
import io
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from pefourier import __version__
from pefourier.cli.main import main

COMMANDS = ("spectrum", "reconstruct", "check-faithful", "compare", "encode", "list", "reproduce")
PROGRAM = [sys.executable, "-m", "pefourier"]


def test_spectrum_in_words(run):
    done = run("spectrum", "dft", "--d", 8)
    assert (done.status, done.err) == (0, "")
    assert (
        done.out
        == """\
                                  dft
lattice points N                  8
bandwidth, lattice steps          0 (not smoothed)
frequencies are                   declared
how many                          5
of them below the first bin 2π/N  1 (20 %)
Eq. 16: index l that enters 2π/d  –
share at frequency 0              0.125
mean frequency, rad               1.571
95 % lie at or below, rad         3.142
flatness (1 = flat)               0.9514
"""
    )


def test_spectrum_json_has_the_fields_of_the_contract(run):
    done = run("spectrum", "--d", 16, "--rho", 100, "--json")
    answer = json.loads(done.out)
    assert (answer["command"], answer["version"]) == ("spectrum", __version__)
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
    }
    assert sinusoidal["frequencies"] == pytest.approx(100.0 ** (-np.arange(0, 16, 2) / 16))
    assert dft["density"] == pytest.approx([1 / 16, *[1 / 8] * 7, 1 / 16])
    assert set(dft) == {
        "encoding",
        "spec",
        "params",
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
    }


def test_csv_reads_back_exactly(run):
    done = run("spectrum", "sinusoidal", "--d", 16, "--csv")
    header, *rows = done.out.splitlines()
    assert header == "encoding,spec,k,omega,density"
    density = run("spectrum", "sinusoidal", "--d", 16, "--json").results[0]["density"]
    assert [float(row.split(",")[-1]) for row in rows] == density


@pytest.mark.parametrize(
    "pos", [["--pos", 5, 40, 75], ["--pos", "5,40,75"], ["--pos", 5, "--pos", 40, "--pos", 75]]
)
def test_three_ways_to_give_positions(run, pos):
    (result,) = run("reconstruct", "dft", *pos, "--json").results
    assert [r["position"] for r in result["reconstructions"]] == [5, 40, 75]
    assert set(result["reconstructions"][0]) == {
        "position",
        "values",
        "peak",
        "width",
        "half_max_count",
        "side_lobe",
        "error",
        "inverse_error",
    }


def test_positions_may_stand_before_encodings(run):
    results = run("reconstruct", "--pos", 5, 40, "dft", "learned", "--json").results
    assert [r["spec"] for r in results] == ["dft", "learned"]


def test_reconstruct_in_words(run):
    """g = (1, 2, 2, 2, 1)/8 on 8 points: h is delta - (1 + (-1)^t) / 16, times a constant."""
    done = run("reconstruct", "dft", "--pos", 3, "--d", 8)
    header, row = done.out.splitlines()
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
    }


@pytest.mark.parametrize(
    ("rung", "status"), [("collides", 0), ("injective", 0), ("invertible", 1), ("isometric", 1)]
)
def test_require_exits_1_below_the_rung(run, rung, status):
    done = run("check-faithful", "sinusoidal", "--require", rung)
    assert done.status == status
    expected = f"pefourier: sinusoidal is injective, not {rung}\n" if status else ""
    assert done.err == expected
    assert "verdict" in done.out


def test_require_dtype_wants_distinct_codes_there(run):
    fine = run("check-faithful", "sinusoidal", "--require-dtype", "bfloat16")
    lost = run("check-faithful", "sinusoidal", "-S", 512, "--require-dtype", "bfloat16")
    assert (fine.status, lost.status) == (0, 1)
    assert lost.err == "pefourier: sinusoidal has 385 of 512 codes distinct in bfloat16\n"


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


def test_standard_input_is_read(run, monkeypatch):
    class Stdin:
        buffer = io.BytesIO(b"1,0\n0,1\n")

    monkeypatch.setattr(sys, "stdin", Stdin())
    assert run("check-faithful", "-", "--json").results[0]["verdict"] == "isometric"


def test_zeros_have_no_spectrum(run):
    done = run("spectrum", "none", "dft", "--d", 8, "--json")
    assert done.status == 0
    assert done.results[0]["density"] == [None] * 5
    assert done.err == "pefourier: none has no spectrum: all of its codes are zero\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["spectrum", "sinusoid"], "unknown encoding 'sinusoid'. Did you mean 'sinusoidal'?"),
        (["spectrum", "dft:k=3"], "unknown parameter of dft 'k'. Known: d, length."),
        (["spectrum", "sinusoidal:layout=half"], "unknown sinusoidal:layout value 'half'. Did you"),
        (["spectrum", "rope:d=7"], "rope turns pairs of dimensions and needs an even d; got d=7"),
        (["spectrum", "--rho", "nan"], "rho must be a finite number above 0; got nan"),
        (["spectrum", "--rho", "-3"], "rho must be a finite number above 0; got -3.0"),
        (["spectrum", "--d", "0"], "d must be a whole number from 1 on; got 0"),
        (["spectrum", "--d", "x"], "Invalid value for '--d': 'x' is not a valid int."),
        (["spectrum", "--d", "3", "--d", "x"], "'--d': 'x' is not a valid int.\n"),
        (["spectrum", "DFTT"], "unknown encoding 'DFTT'. Did you mean 'dft'?"),
        (["spectrum", "learned", "--seed", "-1"], "seed must be a whole number from 0 on; got -1"),
        (["spectrum", "--lattice", "1"], "a lattice needs at least 2 points; got 1"),
        (["spectrum", "--sigma", "inf"], "sigma must be a finite number of lattice steps from 0"),
        (["spectrum", "--json", "--csv"], "--json and --csv exclude each other; give one"),
        (["spectrum", "--plot", "a.jpg"], "unknown suffix '.jpg'"),
        (["spectrum", "missing.npy"], "'missing.npy'"),
        (["spectrum", "a\nb"], "unknown encoding 'a\\nb'."),
        (["spectrum", "py:nowhere:f"], "cannot import 'nowhere' from the working directory"),
        (["spectrum", "-", "-"], "standard input ('-') can be read once; name it once"),
        (["reconstruct", "--pos", "-1"], "--pos takes whole numbers from 0 on, such as 5,40,75"),
        (["reconstruct", "--pos", "300"], "position 300 is outside the lattice 0 … 255;"),
        (["reconstruct", "--pos", "x"], "--pos takes whole numbers from 0 on, such as 5,40,75"),
        (
            ["check-faithful", "--require", "perfect"],
            "Invalid value for '--require': 'perfect' is not one of",
        ),
        (["encode", "learned", "--out", "a.npy", "--positions", "99"], "position 99 is outside 0"),
        (["encode", "dft", "--out", "a.exe"], "unknown suffix '.exe'"),
        (
            ["encode", "dft", "ramp", "--out", "a.npy"],
            "encode writes one encoding; got 2: 'dft' 'ramp'",
        ),
        (["encode", "dft"], "Missing option '--out'."),
        (["spectrm"], "No such command 'spectrm'. Did you mean 'spectrum'?"),
        (["spectrum", "--latice", "3"], "No such option: --latice"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_error_is_one_line_and_status_2(run, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    done = run(*arguments)
    assert (done.status, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert message in done.err
    assert list(tmp_path.iterdir()) == []


def test_debug_shows_where(run):
    with pytest.raises(ValueError, match="unknown encoding"):
        run("spectrum", "sinusoid", "--debug")


def test_version_and_help(run):
    assert run("--version").out == f"pefourier {__version__}\n"
    assert run().out == run("--help").out
    for command in COMMANDS:
        text = run(command, "--help").out
        assert f"\n  Example: pefourier {command} " in text


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(run, shell):
    done = run("--show-completion", shell)
    assert done.status == 0
    assert "_PEFOURIER_COMPLETE" in done.out


def test_completion_answers():
    environment = {**os.environ, "_PEFOURIER_COMPLETE": "complete_bash"}
    environment |= {"COMP_WORDS": "pefourier spec", "COMP_CWORD": "1"}
    done = subprocess.run(PROGRAM, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["spectrum"], done.stderr


def test_interrupt_exits_130(monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("pefourier.spectrum.density", interrupted)
    assert main(["spectrum"]) == 130
    assert capsys.readouterr().err.strip().splitlines()[-1] == "pefourier: interrupted"


def test_a_reader_that_stops_early_is_no_error():
    command = f"{sys.executable} -m pefourier spectrum --d 65536 --csv | head -n 1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("redirection", "message"),
    [
        (">&-", "standard output is closed; there is nowhere to answer"),
        (">/dev/full", "standard output: No space left on device"),
    ],
)
def test_an_answer_that_cannot_be_written(redirection, message):
    command = f"{sys.executable} -m pefourier spectrum {redirection}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, f"pefourier: {message}\n")


def test_a_terminal_gets_curves_and_colours_and_a_pipe_does_not(monkeypatch, run):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert main(["spectrum"]) == 0
    assert "\x1b[34m" in screen.getvalue()
    assert "ω, radians per position" in screen.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Terminal()
    monkeypatch.setattr(sys, "stdout", plain)
    assert main(["spectrum"]) == 0
    assert "\x1b" not in plain.getvalue()
    assert "⡆" in plain.getvalue()


def test_times_come_from_a_file(run, tmp_path):
    (tmp_path / "t.csv").write_text("0\n0.5\n3\n3.5\n9\n")
    np.save(tmp_path / "t.npy", np.array([0, 0.5, 3, 3.5, 9]))
    one = run("check-faithful", "mtan-fixed", "--times", tmp_path / "t.csv", "--json")
    two = run("check-faithful", "mtan-fixed", "--times", tmp_path / "t.npy", "--json")
    assert one.out == two.out
    (result,) = one.results
    assert (result["length"], result["closest_pair"]) == (5, [0.0, 0.5])
    assert result["params"]["times"] == [0.0, 0.5, 3.0, 3.5, 9.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0\n2\n1\n", "times must be one row of finite, strictly increasing numbers"),
        ("0,1\n2,3\n", "holds an array (2, 2); a list of numbers has one column"),
    ],
)
def test_times_that_are_none(run, tmp_path, text, message):
    (tmp_path / "t.csv").write_text(text)
    done = run("spectrum", "mtan", "--times", tmp_path / "t.csv")
    assert (done.status, done.out) == (2, "")
    assert message in done.err


@pytest.mark.parametrize(
    ("a", "b", "status", "text"),
    [
        ("dft", "dft", 0, "dft and dft are equal to the bit\n"),
        (
            "sinusoidal",
            "sinusoidal:layout=halves",
            0,
            "sinusoidal and sinusoidal:layout=halves are equivalent: columns interleaved to halves",
        ),
        (
            "sinusoidal",
            "sinusoidal:offset=2",
            0,
            "sinusoidal and sinusoidal:offset=2 are equivalent: moved by 2 positions\n",
        ),
        ("sinusoidal", "dft", 1, "sinusoidal and dft are different\n"),
        ("dft:d=8", "dft:d=6", 1, "dft:d=8 and dft:d=6 are different\ndimensions 8 and 6\n"),
    ],
)
def test_compare_says_how_two_encodings_relate(run, a, b, status, text):
    done = run("compare", a, b, "--d", 16, "-S", 40, "--quiet")
    assert (done.status, done.err) == (status, "")
    assert done.out.startswith(text)


def test_compare_says_where_a_table_differs(run, tmp_path):
    table = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]])
    np.save(tmp_path / "a.npy", table)
    table[2, 1] += 0.5
    table[3, 2] += 0.75
    np.save(tmp_path / "b.npy", table[:4])
    done = run("compare", tmp_path / "a.npy", tmp_path / "b.npy")
    assert done.status == 1
    lines = done.out.splitlines()
    assert lines[1].startswith("largest difference 0.75, rounding explains ")
    assert lines[2] == "first at position 2, column 1; largest at position 3, column 2"
    (result,) = run("compare", tmp_path / "a.npy", tmp_path / "b.npy", "--json").results
    assert (result["verdict"], result["first_difference"]) == ("different", [2, 1])
    assert result["other"]["spec"] == str(tmp_path / "b.npy")


def test_compare_takes_two(run):
    done = run("compare", "dft")
    assert (done.status, done.err) == (2, "pefourier: compare takes two encodings; got 1: 'dft'\n")


def test_compare_builds_a_named_encoding_at_the_size_of_a_file(run, tmp_path):
    assert run("encode", "sinusoidal", "--d", 24, "-S", 33, "--out", tmp_path / "a.npy").status == 0
    for pair in ([tmp_path / "a.npy", "sinusoidal"], ["sinusoidal", tmp_path / "a.npy"]):
        done = run("compare", *pair, "--json")
        assert (done.status, done.results[0]["verdict"]) == (0, "equal")
        assert done.results[0]["length"] == 33
    assert run("compare", tmp_path / "a.npy", "sinusoidal", "--d", 16).status == 1


def test_encode_has_no_csv_answer(run, tmp_path):
    done = run("encode", "dft", "--out", tmp_path / "a.npy", "--csv")
    assert (
        done.err == "pefourier: encode writes its table to --out; for CSV, end that name in .csv\n"
    )
    assert (done.status, list(tmp_path.iterdir())) == (2, [])


def test_lattices_that_differ_are_noted(run):
    done = run("spectrum", "dft:d=8", "dft:d=16", "sinusoidal:d=8")
    assert done.err == "pefourier: lattices of 8 and 16 points differ; compare with --lattice\n"
    assert run("spectrum", "dft:d=8", "dft:d=16", "--lattice", 8).err == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["spectrum", "dft", "--rho", "3"], "--rho 3.0 has no effect on dft"),
        (["spectrum", "--seed", "3"], "--seed 3 has no effect on sinusoidal, dft"),
        (["check-faithful", "rope:d=8", "--d", "6"], "--d 6 has no effect on rope:d=8"),
        (["check-faithful", "sinusoidal:rho=9", "--rho", "8"], "--rho 8.0 has no effect on sinu"),
        (["spectrum", "table.npy", "--d", "3"], "--d 3 has no effect on table.npy"),
        (["spectrum", "dft", "--times", "times.csv"], "--times times.csv has no effect on dft"),
        (["compare", "dft", "dft", "--seed", "1"], "--seed 1 has no effect on dft, dft"),
        (["encode", "dft", "--seed", "1", "--out", "a.npy"], "--seed 1 has no effect on dft"),
        (["spectrum", "dft", "--seed", "1", "--quiet"], ""),
        (["spectrum", "learned", "--seed", "1", "--d", "4", "--length", "9"], ""),
        (["check-faithful", "alibi", "--length", "7", "--d", "4"], ""),
        (["check-faithful", "tupe:heads=2", "--length", "7", "--d", "4"], ""),
        (["spectrum", "mtan", "--times", "times.csv", "--seed", "1"], ""),
        (["check-faithful", "table.npy", "--length", "3", "--d", "4"], ""),
        (["spectrum", "sinusoidal", "dft", "--rho", "3", "--lattice", "8"], ""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_without_effect_are_noted(run, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    np.save("table.npy", np.arange(20.0).reshape(5, 4))
    (tmp_path / "times.csv").write_text("0\n1\n2.5\n")
    done = run(*arguments)
    assert done.status == 0
    assert done.err.startswith(f"pefourier: {said}" if said else "")
    assert done.err.count("\n") == bool(said)


def test_train_answers_in_words_and_in_json(run):
    given = ["train", "--dataset", "order:count=40,length=4", "--epochs", "1", "--seeds", "1"]
    given += ["-e", "none", "-e", "dft", "--quiet"]
    words = run(*given)
    assert (words.status, words.err) == (0, "")
    assert words.out.startswith("P / R / F1")
    answer = json.loads(run(*given, "--json").out)
    assert answer["command"] == "train"
    assert [r["spec"] for r in answer["results"]] == ["none", "dft"]


def test_the_list_is_the_same_in_all_forms(run):
    records = json.loads(run("list", "--json").out)["results"]
    rows = list(csv.reader(run("list", "--csv").out.splitlines()))
    assert rows[0] == ["encoding", "family", "domain", "measure", "source", "parameters"]
    assert [row[0] for row in rows[1:]] == [r["encoding"] for r in records]
    words = [line.split()[0] for line in run("list").out.splitlines() if line[0] != " "]
    assert words == [row[0] for row in rows]


@pytest.mark.parametrize(("other", "panels"), [("ramp", 3), ("dft:d=4", 2)])
def test_compare_draws_both_tables_and_their_difference(run, monkeypatch, other, panels):
    from pefourier.answers import plot

    drawn = []
    monkeypatch.setattr(plot, "save", lambda path, draw, answers: drawn.extend([draw, *answers]))
    done = run("compare", "onehot", other, "--d", 8, "-S", 8, "--plot", "a.png", "--quiet")
    assert done.status == 1
    draw, *answers = drawn
    assert draw == plot.compare
    axes = [each for each in draw(answers).axes if each.get_xlabel() == "dimension"]
    images = [each.images[0].get_array() for each in axes]
    assert len(axes) == panels
    if panels == 3:
        np.testing.assert_array_equal(images[2], images[0] - images[1])
        assert axes[2].get_title() == "onehot − ramp"
