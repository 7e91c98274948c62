"""The program as a whole: how arguments are read, exit status, and errors in one line."""

import os
import subprocess
import sys
from importlib import import_module

import pytest
import typer

from pefourier import __version__
from pefourier.cli.main import main
from pefourier.cli.program import program

COMMANDS = sorted(typer.main.get_command(program()).commands)
NO_COUNT = "is not a whole number such as 4096, 3e5 or 128k (131072)"
PROGRAM = [sys.executable, "-m", "pefourier"]
ROOM = import_module("pefourier.questions.spectrum")  # the package gives the question of that name


@pytest.mark.parametrize(
    "pos",
    [
        ["--pos", 5, 40, 75],
        ["--pos", "5,40,75"],
        ["--pos", 5, "--pos", 40, "--pos", 75],
        ["--positions", 5, 40, 75],
        ["--positions", "5,40", "75"],
        ["--pos", 5, "--positions", 40, 75],
    ],
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
        (["spectrum", "DINOv3"], "Did you mean axial-rope:convention=dinov3 (with --grid HxW)?"),
        (["spectrum", "dft:k=3"], "unknown parameter of dft 'k'. Known: d, length."),
        (["spectrum", "sinusoidal:layout=half"], "unknown sinusoidal:layout value 'half'. Did you"),
        (["spectrum", "rope:d=7"], "rope turns pairs of dimensions and needs an even d; got d=7"),
        (["spectrum", "--rho", "nan"], "rho must be a finite number above 0; got nan"),
        (["spectrum", "--rho", "-3"], "rho must be a finite number above 0; got -3.0"),
        (["spectrum", "--d", "0"], "d must be a whole number from 1 on; got 0"),
        (["spectrum", "--d", "x"], f"Invalid value for '--d': 'x' {NO_COUNT}\n"),
        (["spectrum", "--d", "3", "--d", "x"], "--d takes one value; got '3' and 'x'. Its help: D"),
        (
            ["context", "rope", "-S", "512", "--length", "2048"],
            "--length (-S) takes one value; got '512' and '2048'. Its help: Positions",
        ),
        (["relations", "--plot", "a.png", "--plot=b.pdf"], "--plot takes one value; got 'a.png'"),
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
        (
            ["encode", "sinusoidal", "--pos", "3.5", "--out", "c.csv"],
            "--times FILE, as with sinusoidal",
        ),
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
        (["encode", "dft"], "Missing option '--out'. Example: pefourier encode dft --d 64 "),
        (["chek"], "No such command 'chek'. Did you mean 'check-faithful'?"),
        (["extend"], "It is an option: 'pefourier design --extend-from'."),
        (["version"], "It is an option: 'pefourier --version'."),
        (["frequencies"], "Did you mean 'spectrum'?"),
        (["diff", "a", "b"], "Did you mean 'compare'?"),  # once none was proposed
        (["analyze", "a"], "Did you mean 'report'?"),
        (["compare", "a", "--plot"], "Option '--plot' requires an argument."),
        (["train", "--length", "24"], "of --dataset, such as order:length=24"),
        (["spectrm"], "No such command 'spectrm'. Did you mean 'spectrum'?"),
        (["check", "dft"], "No such command 'check'. Did you mean 'check-faithful'?"),
        (["spectrum", "--latice", "3"], "No such option: --latice"),
        (["compare", "dft", "rope", "--pos", "3"], "--pos belongs to reconstruct, encode; compare"),
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
    *shown, line = done.err.splitlines()
    assert (done.status, done.out) == (2, "")
    assert shown[0] == "Traceback (most recent call last):"
    assert any("pefourier/encodings/" in one for one in shown)
    assert line.startswith("pefourier: unknown encoding 'sinusoid'. Did you mean 'sinusoidal'?")


@pytest.mark.parametrize("raised", [ZeroDivisionError, AssertionError, RecursionError, SystemExit])
def test_an_internal_error_is_one_line_with_a_status_of_its_own(run, monkeypatch, raised):
    def broken(*_):
        raise raised("division\nby zero" + 1000 * "!")

    monkeypatch.setattr(ROOM, "density", broken)
    done = run("spectrum")
    what = f"{raised.__name__}: division by zero"
    what += (60 - len(what)) * "!" + "…" + 60 * "!"
    rest = (
        "this is a bug in pefourier, please report it with the command; --debug shows the traceback"
    )
    assert (done.status, done.out) == (3, "")
    assert done.err == f"pefourier: internal error ({what}); {rest}\n"
    debugged = run("spectrum", "--debug")
    assert (debugged.status, debugged.out) == (3, "")
    assert debugged.err.startswith("Traceback (most recent call last):\n")
    assert debugged.err.endswith(done.err)


def test_no_thread_to_be_had_is_no_bug(run, monkeypatch):
    def refuse(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(ROOM, "density", refuse)
    done = run("spectrum")
    message = "the system starts no more threads for you; end other programs or raise ulimit -u"
    assert (done.status, done.out, done.err) == (2, "", f"pefourier: {message}\n")


LONG = {
    "word": 5000 * "x",
    "digits": 3000 * "9",
    "words": 1250 * "a b ",
    "white": 1600 * "é\n\t",
    "escapes": 1000 * "\x1b[31m",
    "bytes": 600 * "\udcff",
    "path": "/tmp/" + 1500 * "ab/" + "x.npy",
    "value": "rope:rho=" + 900 * "1 ",
    "code": "py:os:" + 400 * "f ",
}
OPTIONS = [
    (name, parameter.opts[0])
    for name, command in sorted(typer.main.get_command(program()).commands.items())
    for parameter in command.params
    if parameter.param_type_name == "option" and not parameter.is_flag
]


def repeats_too_much(line, value):
    forms = [value, repr(value), ascii(value), " ".join(value.split())]
    windows = {line[i : i + 201] for i in range(len(line) - 200)}
    return any(window in form for window in windows for form in forms)


def long_cases():
    """Every third option with two of the values, by turns; each with all in `make test-all`."""
    kinds = list(LONG)
    for place, (command, option) in enumerate([*OPTIONS, ("list", "--json")]):
        if place % 3 == 0:
            two = [kinds[(2 * place // 3 + one) % len(kinds)] for one in (0, 1)]
            yield pytest.param(command, option, two, id=f"{command}{option}")
        yield pytest.param(
            command, option, kinds, id=f"{command}{option}, all", marks=pytest.mark.long
        )
    yield pytest.param("", "", kinds, id="without option")


@pytest.mark.usefixtures("sketched", "undrawn")
@pytest.mark.parametrize(("command", "option", "kinds"), [*long_cases()])
def test_a_line_repeats_little_of_a_long_argument(
    run, tmp_path, monkeypatch, command, option, kinds
):
    monkeypatch.chdir(tmp_path)
    given = {
        "encode": ["dft", "--out", "a.npy"],
        "train": ["--epochs", "0"],
        "report": ["none", "--lattice", "8"],  # a page that is soon made
    }.get(command, [])
    for value in (LONG[kind] for kind in kinds):
        lines = [[command, option, value, *given], [command, *given, f"{option}={value}"]]
        if (command, option) in (("train", "--epochs"), ("reproduce", "--out")):
            lines = []  # an endless training, a folder with a long name: answers
        elif not command:
            lines = [[value], [f"--{value}"], ["spectrum", f"--{value}"]]
            lines += [["spectrum", f"-S{value}"], ["check-faithful", value]]
            lines += [["compare", "dft", value], ["encode", value, "dft"]]
        for line in lines:
            done = run(*line)
            assert done.status in (0, 1, 2), line
            assert done.err.count("\n") == 1 or done.status != 2, done.err
            assert not repeats_too_much(done.err, value), done.err


def test_version_and_help(run):
    assert run("--version").out == f"pefourier {__version__}\n"
    assert run().out == run("--help").out
    for command in COMMANDS:
        text = run(command, "--help").out
        assert f"\n  Example: pefourier {command} " in text


def test_help_has_own_options_before_those_that_commands_share(run):
    """--require and --baseline stood behind ten that say where rows are."""
    said = run("check-faithful", "--help").out
    places = [said.index(f"\n{name}:\n") for name in ("Options", "Encodings", "Answers", "Figures")]
    assert places == sorted(places)
    places = [
        said.index(one)
        for one in ("--require ", "--skip-unknown", "\n  --d N", "\n  --json", "\n  --plot")
    ]
    assert places == sorted(places)


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

    monkeypatch.setattr(ROOM, "density", interrupted)
    assert main(["spectrum"]) == 130
    assert capsys.readouterr().err.strip().splitlines()[-1] == "pefourier: interrupted"
