"""Argument parsing, exit status, and errors in one line."""

import os
import subprocess
import sys
from importlib import import_module

import pytest
import typer

from pefourier import __version__
from pefourier.cli.main import program

PROGRAM = typer.main.get_command(program())
COMMAND = [sys.executable, "-m", "pefourier"]
ROOM = import_module("pefourier.questions.spectrum")  # the package exports the function


@pytest.mark.parametrize(
    "typed",
    ["--pos 5 40 75", "--pos 5,40,75", "--pos 5 --pos 40 --pos 75", "--positions 5,40 75"],
)
def test_positions_are_typed_in_three_ways_before_or_behind_encodings(run, typed):
    for words in (["dft", *typed.split()], [*typed.split(), "dft"]):
        (result,) = run("reconstruct", *words, "--json").results
        assert [r["position"] for r in result["reconstructions"]] == [5, 40, 75]


REFUSED = [  # command, and the value, name or remedy that its error line holds
    ("spectrum sinusoid", "Did you mean 'sinusoidal'?"),
    ("spectrum DINOv3", "axial-rope:convention=dinov3"),
    ("spectrum dft:k=3", "'k'"),
    ("spectrum sinusoidal:layout=half", "'half'"),
    ("spectrum rope:d=7", "got d=7"),
    ("spectrum rope --rho nan", "got nan"),
    ("spectrum rope --rho -3", "got -3.0"),
    ("spectrum --d 0", "got 0"),
    ("spectrum --d x", "'x' is not a whole number such as 4096, 3e5 or 128k"),
    ("spectrum -S 128q", "'128q'"),
    *((f"spectrum -S {text}", f"'{text}'") for text in ("0.5", "1.3k", "k", "1kk", "1e400", "nan")),
    ("spectrum learned --seed -1", "got -1"),
    ("spectrum --lattice 1", "got 1"),
    ("spectrum --lattice 16777217", "up to 16777216"),
    ("spectrum --sigma inf", "sigma"),
    ("spectrum --sigma 5e-324", "got 5e-324"),
    ("spectrum --json --csv", "json and csv"),
    ("spectrum --plot a.jpg", "'.jpg'"),
    ("spectrum --width 5", "--plot FILE"),
    ("spectrum --plot a.png --width wide", "'wide'"),
    ("spectrum --plot a.png --width nan", "got nan"),
    ("spectrum --plot a.png --dpi 1", "'--dpi'"),
    ("spectrum missing.npy", "'missing.npy'"),
    ("spectrum py:nowhere:f", "'nowhere'"),
    ("spectrum - -", "'-'"),
    ("reconstruct --pos -1", "got '-1'"),
    ("reconstruct --pos 300", "position 300"),
    ("encode sinusoidal --pos 3.5 --out c.csv", "--times FILE"),
    ("encode learned --out a.npy --positions 99", "position 99"),
    ("encode erpe --positions 80 --out x.npy", "position 80"),
    ("encode dft --out a.exe", "'.exe'"),
    ("encode dft ramp --out a.npy", "got 2: 'dft' 'ramp'"),
    ("encode dft --out a.npy --csv", ".csv"),
    ("encode dft", "'--out'"),
    ("check-faithful --require perfect", "'perfect'"),
    ("check-faithful --require-dtype bf16:cast", "'bf16:cast'"),
    ("check-faithful --baseline nothing.json", "'nothing.json'"),
    ("compare dft", "got 1: 'dft'"),
    ("compare a --plot", "'--plot'"),
    ("compare dft rope --permutation a.txt", "'.txt'"),
    ("context rope --against nothing", "'nothing'"),
    ("design --d 9 --length 9 --grid 3x3", "--grid"),
    ("design --length 9 --d 8 --to 9", "--extend-from"),
    ("usage rope", "'rope'"),
    ("usage model --layers 7-3", "'7-3'"),
    ("resize dft", "'--to'"),
    ("report --out page.txt", "'.txt'"),
    ("report --out no/such/page.html", "'no/such/page.html'"),
    ("list sinusoid", "Did you mean 'sinusoidal'?"),
    ("explain nothingness", "'nothingness'"),
    ("spectrm", "Did you mean 'spectrum'?"),
    ("check dft", "Did you mean 'check-faithful'?"),
    ("--nothing", "--nothing"),
    ("spectrum --latice 3", "--latice"),
    ("compare dft rope --pos 3", "--pos"),
    ("spectrum --plot", "'--plot'"),
    ("check-faithful --paths", "--paths"),
]


@pytest.mark.parametrize(("line", "part"), REFUSED, ids=[line for line, _ in REFUSED])
def test_an_error_is_one_line_and_status_2(run, folder, line, part):
    done = run(*line.split())
    assert (done.status, done.out) == (2, "")
    assert (done.err.count("\n"), done.err[:11]) == (1, "pefourier: ")
    assert part in done.err
    assert list(folder.iterdir()) == []


RAISED = [
    *((kind("division\nby zero" + 1000 * "!"), 3) for kind in (ZeroDivisionError, RecursionError)),
    (SystemExit("left"), 3),
    (ModuleNotFoundError("no scipy", name="scipy"), 3),
    (ModuleNotFoundError("no torch", name="torch"), 2),
    (RuntimeError("can't start new thread"), 2),
    (ImportError("a.so: failed to map segment from shared object"), 2),
    (MemoryError("Unable to allocate 7 TiB"), 2),
    (MemoryError(), 2),
    (OSError(5, "Input/output error", "x\ny"), 2),
    (KeyboardInterrupt(), 130),
]


@pytest.mark.parametrize(("error", "status"), RAISED, ids=lambda x: repr(x)[:40])
def test_exceptions_end_in_one_line_and_a_status(run, monkeypatch, error, status):
    def fail(*_):
        raise error

    monkeypatch.setattr(ROOM, "spectrum", fail)
    done = run("spectrum")
    assert (done.status, done.out, done.err.count("\n")) == (status, "", 1)
    assert len(done.err) < 300
    assert ("bug in pefourier" in done.err) == (status == 3)
    if status != 130:
        debugged = run("spectrum", "--debug").err
        assert debugged.startswith("Traceback (most recent call last):\n")
        assert debugged.endswith(done.err)


@pytest.mark.parametrize("text", [5000 * "x", 1000 * "\x1b[31m", "/tmp/" + 1500 * "ab/" + "x.npy"])
@pytest.mark.usefixtures("folder")
def test_a_line_repeats_little_of_a_long_argument(run, text):
    for words in ([text], [f"--{text}"], ["spectrum", text], ["encode", text, "dft"]):
        done = run(*words)
        assert (done.status, done.err.count("\n")) == (2, 1)
        assert len(done.err) < 700


@pytest.mark.parametrize("width", [50, 80])
def test_help_fits_the_screen(run, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    screens = [run("--help").out, *(run(command, "--help").out for command in PROGRAM.commands)]
    lines = [line for screen in screens for line in screen.splitlines()]
    assert [line for line in lines if len(line) > width] == []


def test_version_and_help(run):
    assert run("--version").out == run("-V").out == f"pefourier {__version__}\n"
    assert run().out == run("--help").out == run("help").out
    for command in PROGRAM.commands:
        assert run(command, "--help").out == run("help", command).out != ""


@pytest.mark.parametrize(
    ("words", "offer"),
    [
        ("pefourier spec", "spectrum"),
        ("pefourier spectrum sinus", "sinusoidal"),
        ("pefourier compare dft rope:rho=5e5,fac", "rope:rho=5e5,factor="),
        ("pefourier train -e sinus", "sinusoidal"),
        ("pefourier train --dataset ue", "uea:"),
        ("pefourier check-faithful --require-d", "--require-dtype"),
        ("pefourier spectrum --method per", "periodogram"),
    ],
)
def test_the_shell_completes(words, offer):
    env = {"_PEFOURIER_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": words}
    done = subprocess.run(COMMAND, env=os.environ | env, capture_output=True, text=True, check=True)
    assert f'"{offer}"' in done.stdout.replace("\\", "")
