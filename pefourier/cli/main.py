"""Entry point: run a command, report errors in one line, return the exit status."""

import os
import re
import signal
import sys
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Literal

import typer

from pefourier.cli.process import (
    LISTENER,
    give_up_stdout,
    is_of_stdout,
    note,
    report_interrupt,
    say,
)
from pefourier.cli.registry import COMMANDS, add_command
from pefourier.errors import PefourierError, command_line, naming_options, nearest, shorten, shown
from pefourier.types import Strings
from pefourier.version import __version__

NUMBER = re.compile(r"-*[.\d]*\d(e\d+)?[kM]?")  # a value of --pos
OPTIONAL = {"torch", "matplotlib"}  # not needed by most commands
NO_ROOM = re.compile("failed to map|can(no|')t allocate memory|bad_alloc|start new thread", re.I)
COMPLETION = "_PEFOURIER_COMPLETE"  # set by the shell to request completions
FILES = ("commands", "model_commands", "train_commands")  # most used first
EVERY = {"-h", "--help", "explain"}  # arguments that show all commands


@naming_options()
def main(arguments: list[str]) -> int:
    """Run a command and return its exit status.

    0: answered, 1: negative answer, 2: usage or unreadable input, 3: internal error,
    130: interrupted.
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
        # A library may have replaced a signal by an error, or suppressed it
        return report_interrupt(LISTENER.came[0]) if LISTENER.came else status
    except KeyboardInterrupt:
        return report_interrupt(signal.SIGINT)
    except (Exception, SystemExit) as error:
        if LISTENER.came:
            return report_interrupt(LISTENER.came[0])
        if "--debug" in arguments[:end] and sys.stderr is not None:
            import traceback

            with suppress(OSError):
                traceback.print_exception(error)
        return report_error(error, words)


def invoke(arguments: list[str]) -> int:
    """Parse arguments and run their command, without the error handling of the parser."""
    try:
        names = [word for word in arguments if word in EVERY or not word.startswith("-")][:1]
        command = typer.main.get_command(program(None if EVERY & {*names} else names))
        with command.make_context(
            "pefourier", arguments.copy()
        ) as context:  # a copy, because it is emptied
            command.invoke(context)
    except typer.Exit as done:
        return done.exit_code
    return 0


def complete(arguments: list[str]) -> None:
    """Print completions for the shell and exit."""
    from typer.completion import completion_init  # type: ignore[attr-defined]

    completion_init()
    program()(args=arguments, prog_name="pefourier")


def report_error(error: BaseException, arguments: list[str]) -> int:
    """Report an error in one line and return the exit status."""
    if is_of_stdout(error):
        give_up_stdout()
        if isinstance(error, BrokenPipeError):  # the reader closed the pipe
            return 0
    text, status = error_line(error, arguments)
    note(" ".join(text.split()))
    for line in "\n".join(getattr(error, "__notes__", ())).splitlines():  # code to paste
        note(line, prefix="")
    return status


def repeat_options(arguments: list[str]) -> list[str]:
    """Expand ``--pos 5 40 75`` to repeated options for the parser.

    >>> repeat_options(["--pos", "5", "40", "dft"])
    ['--pos', '5', '--pos', '40', 'dft']
    """
    repeated: list[str] = []
    for argument in arguments:
        parts = list(filter(None, argument.split(",")))
        number = bool(parts) and all(map(NUMBER.fullmatch, parts))
        if number and repeated[-2:-1] in (["--pos"], ["--positions"]):
            repeated.append(repeated[-2])
        repeated.append(argument)
    return repeated


def error_line(error: BaseException, arguments: list[str]) -> tuple[str, int]:
    """Return an error in one line, with the given value, and the exit status."""
    if isinstance(error, typer.TyperException):
        text, command = error.format_message(), arguments[0]
        if text.startswith("No such command"):
            likely = nearest(command, COMMANDS)
            hint = f"Did you mean {likely!r}?" if likely else "pefourier --help lists all."
            text = f"No such command {shown(command)}. {hint}"
        elif text.startswith("Missing"):
            text += f" 'pefourier {command} --help' has an example."
        return text, 2
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
        install = command_line("pip", "install", error.name)
        return f"this needs {error.name}, which is not installed; {install}", 2
    if NO_ROOM.search(str(error)):
        return "the system gives no more memory or threads; end other programs, raise ulimit", 2
    reason = shorten(" ".join(f"{type(error).__name__}: {error}".split()))
    return (
        f"internal error ({reason}); this is a bug in pefourier, please report it with the "
        "command; --debug shows the traceback"
    ), 3


def program(names: Strings | None = None) -> typer.Typer:
    """Build the program with some of its commands, or all.

    Files of commands are imported in order until the command is found, and only that command is
    built, because building one takes as long as many answers.
    """
    app = typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(about_program)
    for file in FILES:
        if names is None or not COMMANDS.keys() >= {*names}:
            import_module(f"pefourier.cli.{file}")
    for name in COMMANDS:
        if names is None or name in names:
            add_command(app, name)
    return app


def about_program(
    *,
    version: Annotated[bool, typer.Option("--version", "-V", help="Print the version.")] = False,
    show_completion: Annotated[
        Literal["bash", "zsh", "fish"] | None,
        typer.Option(help="Print the completion script for a shell."),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,  # noqa: ARG001
) -> None:
    """Fourier analysis of positional encodings.

    \b
    pefourier spectrum table.npy   show frequencies
    pefourier reconstruct --pos 5  rebuild positions
    pefourier check-faithful rope  test the vectors
    pefourier report --out a.html  write all answers
    pefourier list                 list encodings
    pefourier explain gap          explain a term
    """
    if version:
        say(f"pefourier {__version__}\n")
    elif show_completion:
        from typer.completion import get_completion_script  # type: ignore[attr-defined]

        script = get_completion_script(
            prog_name="pefourier", complete_var=COMPLETION, shell=show_completion
        )
        say(f"{script}\n")
