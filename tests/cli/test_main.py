"""The program as a whole: how arguments are read, exit status, and errors in one line."""

import os
import subprocess
import sys

import pytest
import typer

from pefourier import __version__
from pefourier.cli.main import app, main

COMMANDS = sorted(typer.main.get_command(app).commands)
NO_COUNT = "is not a whole number such as 4096, 3e5 or 128k (131072)"
PROGRAM = [sys.executable, "-m", "pefourier"]


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
        (["spectrum", "--d", "x"], f"Invalid value for '--d': 'x' {NO_COUNT}\n"),
        (["spectrum", "--d", "3", "--d", "x"], f"'--d': 'x' {NO_COUNT}\n"),
        (["spectrum", "--lattice", "12.5"], f"Invalid value for '--lattice': '12.5' {NO_COUNT}\n"),
        (["spectrum", "-S", "128q"], f"'128q' {NO_COUNT}\n"),
        (["spectrum", "DFTT"], "unknown encoding 'DFTT'. Did you mean 'dft'?"),
        (["spectrum", "learned", "--seed", "-1"], "seed must be a whole number from 0 on; got -1"),
        (["spectrum", "--lattice", "1"], "a lattice needs at least 2 points; got 1"),
        (["spectrum", "--sigma", "inf"], "sigma must be a finite number of lattice steps from 0"),
        (["spectrum", "--json", "--csv"], "--json and --csv exclude each other; give one"),
        (["list", "--json", "--csv"], "--json and --csv exclude each other; give one"),
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
    done = run("spectrum", "sinusoid", "--debug")
    assert done.status == 2
    assert done.err.startswith("Traceback (most recent call last):\n")
    assert "in source_of\n" in done.err  # where it was found, not where it was told
    assert done.err.splitlines()[-1].startswith("pefourier: unknown encoding 'sinusoid'.")


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
