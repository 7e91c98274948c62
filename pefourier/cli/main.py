"""The program as a whole: arguments in, exit status out, every error in one line."""

import os
import re
import sys
from itertools import pairwise
from typing import Annotated, Literal

import typer

from pefourier import __version__
from pefourier.cli.commands import app
from pefourier.cli.streams import give_up_stdout, note, say
from pefourier.errors import PefourierError, shown

NUMBER = re.compile(r"-*[.\d]*\d(e\d+)?[kM]?")  # as --pos takes it
COMPLETION = "_PEFOURIER_COMPLETE"  # set by the shell when it wants completions


def main(arguments: list[str]) -> int:
    """Run a command; its exit status: 0 answered, 1 "no", 2 usage or input, 130 interrupted."""
    debug = "--debug" in arguments
    wanted = repeat_pos([a for a in arguments if a != "--debug"]) or ["--help"]
    if COMPLETION in os.environ:
        from typer.completion import completion_init

        completion_init()
    try:
        if sys.stdout is None:
            raise PefourierError("standard output is closed; there is nowhere to answer")
        status = app(args=wanted, prog_name="pefourier", standalone_mode=False)
        if status == 130:
            note("interrupted")
        return status if isinstance(status, int) else 0
    except (PefourierError, typer.TyperException, OSError, MemoryError) as error:
        if debug:
            raise
        if isinstance(error, OSError):
            give_up_stdout()
        note(error_line(error, wanted))
        return 2


@app.callback(invoke_without_command=True)
def main_options(
    version: Annotated[bool, typer.Option("--version", "-V", help="Print the version.")] = False,
    show_completion: Annotated[
        Literal["bash", "zsh", "fish"] | None,
        typer.Option(help="Print the completion script for a shell."),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Fourier analysis of positional encodings: what does an encoding say about position?

    \b
    pefourier spectrum --rho 10000 --d 256      which frequencies does it have?
    pefourier reconstruct --pos 5 40 75         what is left of a position?
    pefourier check-faithful my_table.npy       are codes distinct, can they be inverted?
    pefourier list                              the encodings it knows
    pefourier explain gap                       what a word of an answer means
    """
    if version:
        say(f"pefourier {__version__}\n")
    elif show_completion:
        from typer.completion import get_completion_script

        names = {"prog_name": "pefourier", "complete_var": COMPLETION}
        say(get_completion_script(shell=show_completion, **names) + "\n")


def repeat_pos(arguments: list[str]) -> list[str]:
    """Write ``--pos 5 40 75`` as the repeated option that the parser takes.

    >>> repeat_pos(["--pos", "5", "40", "dft"])
    ['--pos', '5', '--pos', '40', 'dft']
    """
    written: list[str] = []
    for argument in arguments:
        parts = list(filter(None, argument.split(",")))
        number = bool(parts) and all(map(NUMBER.fullmatch, parts))
        if number and len(written) >= 2 and written[-2] == "--pos":
            written.append("--pos")
        written.append(argument)
    return written


def error_line(error: Exception, arguments: list[str]) -> str:
    """An error in one line, with the value that was given."""
    if isinstance(error, typer.TyperException):
        text = usage_error(error, arguments)
    elif isinstance(error, OSError):
        what = shown(error.filename) if error.filename else "standard output"
        text = f"{what}: {error.strerror or error}"
    elif isinstance(error, MemoryError):
        reason = str(error) or "the system has no more"
        text = f"not enough memory ({reason}); try a smaller --length, --d or --lattice"
    else:
        text = str(error)
    return " ".join(text.split())


def usage_error(error: typer.TyperException, arguments: list[str]) -> str:
    """The parser's message, with the value given to the option where the message lacks it."""
    text = error.format_message().replace("Value error, ", "")
    options = getattr(getattr(error, "param", None), "opts", [])
    given = [shown(value) for option, value in pairwise(arguments) if option in options]
    if not given or any(value in text for value in given):
        return text
    return f"{text}; got {given[-1]}"
