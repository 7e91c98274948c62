"""The streams of the program: answers go to stdout, everything else to stderr."""

import errno
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any

import typer

from pefourier.errors import LONGEST, shorten
from pefourier.writing.escapes import printable

UNWRITABLE = {errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT}
VERDICT = re.compile(r"^(\S.*?: |)([A-Z]+[A-Z, ]+)\.", re.MULTILINE)  # behind a label, if any
BAD = "COLLIDES|DIFFERENT|PROBABLY A MISTAKE|TOO FEW ROWS"
GOOD = "INVERTIBLE|ISOMETRIC|THE SAME|NO NEW ANGLES|SHARP|EXACT|NO SCALING NEEDED|STILL DISTINCT"
COLOURS = dict.fromkeys(BAD.split("|"), "1;31") | dict.fromkeys(GOOD.split("|"), "1;32")
LONG = 5  # seconds of a phase, from which on the rest is foretold
LONG_WORD = re.compile(rf"\S{{{LONGEST + 1},}}")


def say(text: str) -> None:
    """Write an answer; a reader who has had enough (`| head`) ends the command quietly."""
    encoding = sys.stdout.encoding or "utf-8"  # what it cannot write is escaped
    try:
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except BrokenPipeError:
        give_up_stdout()
        raise typer.Exit(0) from None


def give_up_stdout() -> None:
    """Send what is left in the buffer nowhere; it would be written at the end again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def is_of_stdout(error: BaseException) -> bool:
    """Whether an error is that nothing can be written to stdout; errors of files name them."""
    unnamed = isinstance(error, OSError) and error.filename is None
    return unnamed and error.errno in UNWRITABLE


def note(text: str, quiet: bool = False) -> None:
    """Write a line on stderr for the person at the terminal, if anybody reads it."""
    if not quiet and sys.stderr is not None:
        with suppress(OSError):
            line = LONG_WORD.sub(lambda word: shorten(word[0]), printable(text))
            print(f"pefourier: {line}", file=sys.stderr, flush=True)


def paste(code: str) -> None:
    """Write lines of Python on stderr, to be pasted."""
    if sys.stderr is not None:
        with suppress(OSError):
            print(*map(printable, code.splitlines()), sep="\n", file=sys.stderr, flush=True)


def takes_colours(stream: Any) -> bool:
    """Whether a stream is a terminal on which colours are welcome."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def coloured(said: str) -> str:
    r"""A conclusion whose verdicts, the first words behind a label, stand out on a terminal.

    >>> coloured("dft: COLLIDES. Only 64 of 80.")
    'dft: \x1b[1;31mCOLLIDES\x1b[0m. Only 64 of 80.'
    """
    return VERDICT.sub(lambda m: f"{m[1]}\x1b[{COLOURS.get(m[2], '1')}m{m[2]}\x1b[0m.", said)


def draws_dots(stream: Any) -> bool:
    """Whether a stream is a terminal whose letters include the dots of a chart."""
    return stream.isatty() and "utf" in (stream.encoding or "utf-8").lower()


def percentages(label: str, quiet: bool) -> Callable[[str], Callable[[int, int], None]] | None:
    """What shows on stderr how much of a phase of the work is done; None where nobody looks."""
    if quiet or sys.stderr is None or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return None

    def begin(phase: str) -> Callable[[int, int], None]:
        passes, last, begun = 1, 0, monotonic()

        def show(done: int, total: int) -> None:
            nonlocal passes, last, begun
            if done <= last:  # the codes are walked through again
                passes, begun = passes + 1, monotonic()
            last, spent = done, monotonic() - begun
            again = f", pass {passes}" if passes > 1 else ""
            text = f"{label}: {phase}{again}, {100 * done // max(total, 1)} %"
            if spent > LONG:
                text += f", about {spent * (total - done) / done:.0f} s left"
            print(f"\r\x1b[K{text if done < total else ''}", end="", file=sys.stderr, flush=True)

        return show

    return begin
