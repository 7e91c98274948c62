"""Where answers go: a pipe that closes, a full disk, a terminal."""

import io
import re
import subprocess
import sys

import pytest

from pefourier.cli.main import main
from pefourier.cli.process import percentages


def test_a_reader_that_stops_early_is_no_error():
    command = f"{sys.executable} -m pefourier spectrum --d 65536 --csv | head -n 1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("redirection", "message"),
    [
        (">&-", "standard output is closed; there is nowhere to answer"),
        (">/dev/full", "cannot write standard output: No space left on device"),
    ],
)
def test_an_answer_that_cannot_be_written(redirection, message):
    command = f"{sys.executable} -m pefourier spectrum {redirection}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, f"pefourier: {message}\n")


def test_progress_names_its_phase_and_only_goes_forward(monkeypatch, run):
    """A long table: the closest pair, then its singular values, walked through twice."""

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("pefourier.geometry.matrices.BLOCK", 2**12)
    monkeypatch.setattr("pefourier.geometry.matrices.KEPT", 0)
    assert main(["check-faithful", "learned", "-S", "3000", "--d", "8"]) == 0
    told = [line for line in screen.getvalue().split("\r\x1b[K") if line.strip()]
    parts = [re.fullmatch(r"learned: (.+?), (\d+) %", line).groups() for line in told]
    phases = list(dict.fromkeys(phase for phase, _ in parts))
    assert phases[-2:] == ["singular values", "singular values, pass 2"]
    assert phases[0] in ("closest pair", "singular values")
    places = [(phases.index(phase), int(share)) for phase, share in parts]
    assert places == sorted(places)
    assert len(set(places)) > 8
    screen.truncate(0)
    assert main(["resize", "learned", "--from", "40x40", "--to", "50x50", "--d", "64"]) == 0
    # of a film's table minutes passed without a word
    assert "learned: closest pair on 50x50, " in screen.getvalue()


def test_nobody_is_shown_progress_who_does_not_look(monkeypatch):
    assert percentages("dft", quiet=False) is None  # stderr is no terminal here
    monkeypatch.setattr(sys, "stderr", None)
    assert percentages("dft", quiet=False) is None


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
    assert re.search("[⠁-⣿]", plain.getvalue())


class Screen(io.StringIO):
    """A terminal that one cannot see."""

    def __init__(self, encoding="utf-8"):
        super().__init__()
        self.letters = encoding

    encoding = property(lambda self: self.letters)

    def isatty(self):
        return True


def test_slow_waves_are_drawn_over_their_logarithm(monkeypatch):
    monkeypatch.setattr(sys, "stdout", Screen())
    assert main(["spectrum", "rope", "--d", "64"]) == 0
    assert "share of energy per factor ten of frequency" in sys.stdout.getvalue()
    monkeypatch.setattr(sys, "stdout", Screen())
    assert main(["spectrum", "rope", "--d", "64", "--axis", "linear"]) == 0
    assert "share of energy at each lattice frequency" in sys.stdout.getvalue()


def test_a_dumb_terminal_gets_letters_and_nothing_else(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys, "stdout", Screen())
    monkeypatch.setattr(sys, "stderr", Screen())
    for command in ("spectrum", "reconstruct", "check-faithful"):
        assert main([command, "rope", "dft"]) == 0
    assert not {"\x1b", "\r"} & {*sys.stdout.getvalue(), *sys.stderr.getvalue()}


def test_a_terminal_without_the_letters_of_a_chart_gets_none(monkeypatch):
    monkeypatch.setattr(sys, "stdout", Screen("iso-8859-15"))
    assert main(["spectrum", "dft"]) == 0
    assert "\\u28" not in sys.stdout.getvalue()
    assert "┤" not in sys.stdout.getvalue()


def test_charts_of_one_answer_have_one_axis(monkeypatch):
    monkeypatch.setattr(sys, "stdout", Screen())
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(["reconstruct", "rope", "dft", "none", "--d", "64", "--pos", "5", "-q"]) == 0
    tops = [line.split("┤")[0] for line in sys.stdout.getvalue().splitlines() if "┤" in line][::2]
    assert tops == ["   0.996 "] * 2
