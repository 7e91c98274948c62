"""Argument parsing, exit status, and errors in one line."""

import os
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import typer
from published_configs import PUBLISHED, SMALL_LLAMA

from pefourier import __version__
from pefourier.cli.main import program

PROGRAM = typer.main.get_command(program())
COMMAND = [sys.executable, "-m", "pefourier"]
ROOM = import_module("pefourier.questions.spectrum")  # the package exports the function


@pytest.mark.parametrize(
    "typed",
    ["--pos 5 40 75", "--pos 5,40,75", "--pos 5 --pos 40 --pos 75", "--positions 5,40 75"],
)
def test_positions_are_typed_in_three_ways_before_or_behind_encodings(ask, typed):
    for words in (["dft", *typed.split()], [*typed.split(), "dft"]):
        result = ask("reconstruct", *words)
        assert [r["position"] for r in result["reconstructions"]] == [5, 40, 75]


REFUSED = tomllib.loads(Path(__file__).with_name("refusals.toml").read_text())
MODELS = {"llama": SMALL_LLAMA | {"max_position_embeddings": 131072}}
MODELS |= {"gemma": PUBLISHED["google/gemma-3-4b-it"], "marian": {"model_type": "marian"}}


@pytest.mark.parametrize("line", REFUSED)
def test_an_error_is_one_line_and_status_2(refused, folder, written, line, rng):
    for name, values in MODELS.items():
        written(values, f"{name}.json")
    np.savez("sam.npz", rel_pos_h=np.ones((49, 64)))
    for rows in (13, 24, 28, 78, 161, 197):
        np.save(f"{rows}.npy", rng.normal(size=(rows, 6)))
    for name, text in (("e", "0,1\n"), ("p", "1,2\n3,4\n")):
        (folder / f"{name}.csv").write_text(text)
    before = sorted(folder.iterdir())
    stated = refused(line)
    assert stated[:11] == "pefourier: "
    assert REFUSED[line] in stated
    assert sorted(folder.iterdir()) == before


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
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(ROOM, "spectrum", fail)
    done = run("spectrum")
    assert (done.status, done.out, done.err.count("\n")) == (status, "", 1)
    assert len(done.err) < 300
    assert ("bug in pefourier" in done.err) == (status == 3)
    if status != 130:
        debugged = run("spectrum --debug").err
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
