"""Answers on a terminal of a given size: a pseudo-terminal, as a person's window is one."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import unicodedata

import pytest

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COMMANDS = [
    "spectrum sinusoidal dft rope:rho=5e5,d=128",
    "reconstruct sinusoidal rope --d 64",
    "spectrum axial:grid=9x9 --d 16",
    "check-faithful sinusoidal alibi:d=8 ramp --d 12",
    "relations sinusoidal rope -S 64 --d 32",
    "context rope:rho=5e5,scaling=yarn,factor=4,original=64,d=32 --length 256",
    "design --length 80 --d 32",
    "list alibi",
    "explain gap",
]


TRAIN = pytest.param("train --epochs 1 --seeds 1 -e none -e rope", marks=pytest.mark.long)


def on_terminal(command, columns, **environment):
    """What a command writes to a terminal of so many columns, streams together."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    told = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
    words = [sys.executable, "-m", "pefourier", *command.split()]
    with subprocess.Popen(
        words, stdin=its, stdout=its, stderr=its, env=told | environment
    ) as process:
        os.close(its)
        written = bytearray()
        while True:
            try:
                part = os.read(ours, 2**16)
            except OSError:  # Linux' way to say that the other end is closed
                break
            if not part:
                break
            written += part
        os.close(ours)
    return process.returncode, written.decode()


def breadth(line):
    """Columns that a line takes on a terminal."""
    return sum(
        (not unicodedata.combining(c)) + (unicodedata.east_asian_width(c) in "WF") for c in line
    )


def is_one_piece(line):
    """Notes, one line each as the contract has them; a word; a command or code to be copied."""
    return "pefourier" in line[:24] or " " not in line.strip() or line.startswith(13 * " ")


@pytest.mark.parametrize("command", [*COMMANDS, TRAIN])
def test_forty_columns_are_enough(command):
    status, text = on_terminal(command, 40, TERM="xterm-256color")
    assert status == 0, text
    shown = [line.split("\r")[-1] for line in ESCAPES.sub("", text).split("\r\n")]
    wide = [line for line in shown if breadth(line) > 40 and not is_one_piece(line)]
    assert wide == []


@pytest.mark.parametrize("command", [COMMANDS[0], TRAIN])
def test_a_terminal_that_knows_nothing_gets_nothing_else_than_text(command):
    status, text = on_terminal(command, 80, TERM="dumb")
    assert status == 0, text
    assert "\x1b" not in text
    assert "\r" not in text.replace("\r\n", "")
    shown = text.split("\r\n")
    assert [line for line in shown if breadth(line) > 80 and not is_one_piece(line)] == []
