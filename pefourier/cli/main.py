"""The program as a whole: arguments in, exit status out, every error in one line."""

import os
import re
import signal
import sys
from contextlib import suppress
from itertools import pairwise

import typer

from pefourier.cli.options import COMMANDS
from pefourier.cli.process import (
    LISTENER,
    give_up_stdout,
    is_of_stdout,
    note,
    paste,
    tell_of_interrupt,
)
from pefourier.cli.program import COMPLETION, program
from pefourier.errors import PefourierError, nearest, shorten, shown

NUMBER = re.compile(r"-*[.\d]*\d(e\d+)?[kM]?")  # as --pos takes it
SETTING = re.compile(r"[a-z_][a-z_-]*=")  # as --search takes it
OPTIONAL = {"torch", "matplotlib"}  # that most commands do without
NO_ROOM = re.compile("failed to map|can(no|')t allocate memory|bad_alloc|start new thread", re.I)


def main(arguments: list[str]) -> int:
    """Run a command; its exit status.

    0 answered, 1 "no", 2 usage or unreadable input, 3 internal error, 130 interrupted.
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = [a for a in arguments[:end] if a != "--debug"]
    words = repeat_options(options) + arguments[end:] or ["--help"]
    if words[0] == "help":
        words = [*words[1:2], "--help"]
    if COMPLETION in os.environ:
        complete(words)
    try:
        if sys.stdout is None:
            raise PefourierError("standard output is closed; there is nowhere to answer")
        status = invoke(words)
        # A library may have made of a signal an error that was reported, or nothing
        return tell_of_interrupt(LISTENER.came[0]) if LISTENER.came else status
    except KeyboardInterrupt:
        return tell_of_interrupt(signal.SIGINT)
    except (Exception, SystemExit) as error:
        if LISTENER.came:
            return tell_of_interrupt(LISTENER.came[0])
        if "--debug" in arguments[:end] and sys.stderr is not None:
            import traceback

            with suppress(OSError):
                traceback.print_exception(error)
        return report_error(error, words)


def invoke(arguments: list[str]) -> int:
    """Parse arguments and run their command, without the parser's own handling of errors."""
    try:
        names = [arguments[0]] if arguments[0] in COMMANDS else []
        command = typer.main.get_command(program(names))
        with command.make_context("pefourier", arguments.copy()) as context:  # which it empties
            command.invoke(context)
    except typer.Exit as done:
        return done.exit_code
    return 0


def complete(arguments: list[str]) -> None:
    """Answer the shell that wants completions, and end."""
    from typer.completion import completion_init

    completion_init()
    program()(args=arguments, prog_name="pefourier")


def report_error(error: BaseException, arguments: list[str]) -> int:
    """Say in one line what went wrong; the exit status."""
    if is_of_stdout(error):
        give_up_stdout()
        if isinstance(error, BrokenPipeError):  # a reader who has had enough
            return 0
    text, status = error_line(error, arguments)
    note(" ".join(text.split()))
    for wrapper in getattr(error, "__notes__", ()):  # of code that fits no convention, to paste
        paste(wrapper)
    return status


def repeat_options(arguments: list[str]) -> list[str]:
    """Write ``--pos 5 40 75`` and ``--search a=1 b=2`` as the repeated options the parser takes.

    >>> repeat_options(["--pos", "5", "40", "dft", "--search", "rate=.1,.2", "pool=max"])
    ['--pos', '5', '--pos', '40', 'dft', '--search', 'rate=.1,.2', '--search', 'pool=max']
    """
    repeated: list[str] = []
    for argument in arguments:
        parts = list(filter(None, argument.split(",")))
        number = bool(parts) and all(map(NUMBER.fullmatch, parts))
        follows = {"--search": bool(SETTING.match(argument))}
        follows |= dict.fromkeys(("--pos", "--positions"), number)
        if len(repeated) >= 2 and follows.get(repeated[-2]):
            repeated.append(repeated[-2])
        repeated.append(argument)
    return repeated


def error_line(error: BaseException, arguments: list[str]) -> tuple[str, int]:
    """An error in one line, with the value that was given, and the exit status."""
    if isinstance(error, typer.TyperException):
        return usage_error(error, arguments), 2
    if isinstance(error, PefourierError):
        return str(error), 2
    if isinstance(error, OSError):
        place = "cannot write standard output: " if is_of_stdout(error) else ""
        place = f"{shown(error.filename)}: " if error.filename else place
        return place + (error.strerror or str(error)), 2
    if isinstance(error, MemoryError):
        reason = str(error) or "the system has no more"
        return f"not enough memory ({reason}); try a smaller --length, --d or --lattice", 2
    if isinstance(error, ModuleNotFoundError) and error.name in OPTIONAL:
        return f"this needs {error.name}, which is not installed; pip install {error.name}", 2
    if NO_ROOM.search(str(error)):
        return "the system gives no more memory or threads; end other programs, raise ulimit", 2
    reason = shorten(" ".join(f"{type(error).__name__}: {error}".split()))
    return (
        f"internal error ({reason}); this is a bug in pefourier, please report it with the "
        "command; --debug shows the traceback"
    ), 3


def usage_error(error: typer.TyperException, arguments: list[str]) -> str:
    """The parser's message, with the value given to the option where the message lacks it."""
    text, command = error.format_message().replace("Value error, ", ""), arguments[0]
    if text.startswith("No such command"):
        likely = nearest(command, COMMANDS)
        hint = f"Did you mean {likely!r}?" if likely else "pefourier --help has all."
        return f"No such command {shown(command)}. {hint}"
    if text.startswith("Missing"):
        return f"{text} 'pefourier {command} --help' has an example."
    options = getattr(getattr(error, "param", None), "opts", [])
    values = [value for option, value in pairwise(arguments) if option in options]
    if not values or any(repr(value) in text or shown(value) in text for value in values):
        return text
    return f"{text}; got {shown(values[-1])}"
