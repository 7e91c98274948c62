"""The program as a whole: arguments in, exit status out, every error in one line."""

import os
import re
import signal
import sys
from contextlib import suppress
from itertools import pairwise

import typer

from pefourier.cli.options import COMMANDS, OF_IMAGES, options_of
from pefourier.cli.process import (
    LISTENER,
    give_up_stdout,
    is_of_stdout,
    note,
    paste,
    tell_of_interrupt,
)
from pefourier.cli.program import COMPLETION, command_terms, program
from pefourier.errors import LONGEST, PefourierError, nearest, shorten, shown
from pefourier.writing.escapes import printable

NUMBER = re.compile(r"-*[.\d]*\d(e\d+)?[kM]?")  # as --pos takes it
SETTING = re.compile(r"[a-z_][a-z_-]*=")  # as --search takes it
OPTIONAL = {"torch", "matplotlib"}  # that most commands do without
NO_ROOM = ("failed to map", "cannot allocate memory", "can't allocate memory", "bad_alloc")
NO_THREAD = "can't start new thread"  # Python's words
INSTEAD = {
    ("train", "--length"): "series have the length of --dataset, such as order:length=24",
    ("context", "--grid"): "'pefourier resize CONFIG --from 16x16 --to 32x32' tells of other sizes",
}


def main(arguments: list[str]) -> int:
    """Run a command; its exit status.

    0 answered, 1 "no", 2 usage or unreadable input, 3 internal error, 130 interrupted.
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options, paths = arguments[:end], arguments[end:]
    debug = "--debug" in options
    words = repeat_options([a for a in options if a != "--debug"]) + paths or ["--help"]
    if words[0] == "help":
        words = [*words[1:2], "--help"]
    if COMPLETION in os.environ:
        complete(words)
    try:
        if sys.stdout is None:
            raise PefourierError("standard output is closed; there is nowhere to answer")
        check_working_directory()
        if "--paths" in options and not paths:
            raise PefourierError("--paths takes paths behind --: write -- between options and them")
        status = invoke(words)
        # A library may have made of a signal an error that was reported, or nothing
        return tell_of_interrupt(LISTENER.came[0]) if LISTENER.came else status
    except KeyboardInterrupt:
        return tell_of_interrupt(signal.SIGINT)
    except (Exception, SystemExit) as error:
        if LISTENER.came:
            return tell_of_interrupt(LISTENER.came[0])
        if debug and sys.stderr is not None:
            import traceback

            with suppress(OSError):
                traceback.print_exception(error)
        return report_error(error, words)


def check_working_directory() -> None:
    """Refuse to work in a folder that is no more, of which libraries make errors of their own."""
    try:
        os.getcwd()
    except FileNotFoundError:
        raise PefourierError("the working directory was deleted; change to another") from None


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
    note(error_line(error, arguments))
    for wrapper in getattr(error, "__notes__", ()):  # of code that fits no convention, to paste
        paste(wrapper)
    expected = isinstance(error, PefourierError | typer.TyperException | OSError | MemoryError)
    expected = expected or is_missing(error) or has_no_room(error)
    return 2 if expected or str(error) == NO_THREAD else 3


def has_no_room(error: BaseException) -> bool:
    """Whether a library could not be loaded, or not work, within a limited address space."""
    return any(words in str(error).lower() for words in NO_ROOM)


def is_missing(error: BaseException) -> bool:
    """Whether a package is not there that a person may have left out of the installation."""
    return isinstance(error, ModuleNotFoundError) and error.name in OPTIONAL


def repeat_options(arguments: list[str]) -> list[str]:
    """Write ``--pos 5 40 75`` and ``--search a=1 b=2`` as the repeated options the parser takes.

    >>> repeat_options(["--pos", "5", "40", "dft", "--search", "rate=.1,.2", "pool=max"])
    ['--pos', '5', '--pos', '40', 'dft', '--search', 'rate=.1,.2', '--search', 'pool=max']
    """
    written: list[str] = []
    for argument in arguments:
        parts = list(filter(None, argument.split(",")))
        number = bool(parts) and all(map(NUMBER.fullmatch, parts))
        follows = {"--search": bool(SETTING.match(argument))}
        follows |= dict.fromkeys(("--pos", "--positions"), number)
        if len(written) >= 2 and follows.get(written[-2]):
            written.append(written[-2])
        written.append(argument)
    return written


def error_line(error: BaseException, arguments: list[str]) -> str:
    """An error in one line, with the value that was given."""
    if isinstance(error, typer.TyperException):
        text = usage_error(error, arguments)
    elif isinstance(error, PefourierError):
        text = str(error)
    elif isinstance(error, OSError):
        place = "cannot write standard output: " if is_of_stdout(error) else ""
        place = f"{shown(error.filename)}: " if error.filename else place
        text = place + (error.strerror or str(error))
    elif isinstance(error, MemoryError):
        reason = str(error) or "the system has no more"
        text = f"not enough memory ({reason}); try a smaller --length, --d or --lattice"
    elif has_no_room(error):
        text = "not enough address space to load what this needs; end other programs or raise "
        text += "ulimit -v"
    elif is_missing(error):
        text = f"this needs {error.name}, which is not installed; pip install {error.name}"
    elif str(error) == NO_THREAD:
        text = "the system starts no more threads for you; end other programs or raise ulimit -u"
    else:
        reason = shorten(" ".join(f"{type(error).__name__}: {error}".split()))
        text = f"internal error ({reason}); this is a bug in pefourier, please report it with "
        text += "the command; --debug shows the traceback"
    return cut_arguments(text, arguments)


def usage_error(error: typer.TyperException, arguments: list[str]) -> str:
    """The parser's message, with the value given to the option where the message lacks it."""
    text = error.format_message().replace("Value error, ", "")
    command = arguments[0]
    if (option := getattr(error, "option_name", None)) is not None:
        owners = owners_of(option)
        if not owners or command in owners:
            return text
        return f"{option} belongs to {', '.join(owners)}; {instead_of(option, command)}"
    if text.startswith("No such command"):
        return f"No such command {shown(command)}. {suggest(command)}"
    if text.startswith("Missing") and command in COMMANDS:
        help_text = COMMANDS[command][0].__doc__ or ""
        return f"{text} Example: {help_text.rpartition('Example: ')[2].strip()}"
    if text.endswith(OF_IMAGES):
        owned = command in owners_of("--grid")
        return f"{text}; {'give it as --grid' if owned else instead_of('--grid', command)}"
    options = getattr(getattr(error, "param", None), "opts", [])
    values = [value for option, value in pairwise(arguments) if option in options]
    if not values or any(repr(value) in text or shown(value) in text for value in values):
        return text
    return f"{text}; got {shown(values[-1])}"


def suggest(word: str) -> str:
    """What somebody may have meant by a word that is no command: an option, or a command."""
    short, names = word.lower(), {name.partition("-")[0]: name for name in COMMANDS}
    owners = {
        option: name
        for name, parameter in [*options_of(typer.main.get_command(program()))][::-1]
        for option in parameter.opts
    }
    likely = nearest(short, COMMANDS) or names.get(nearest(short, names) or "")
    longer = [option for option in owners if option.startswith(f"--{short}-") and not likely]
    for option in [f"--{short}"] * (f"--{short}" in owners) + longer:
        command = " ".join(dict.fromkeys(("pefourier", owners[option])))
        return f"It is an option: '{command} {option}'."
    terms = [t.term for t in command_terms() if short in (*t.meaning.lower().split(), *t.also)]
    likely = next(iter(terms), likely)
    return f"Did you mean {likely!r}?" if likely else "pefourier --help has all."


def owners_of(option: str) -> list[str]:
    """The commands that take an option."""
    pairs = options_of(typer.main.get_command(program()))
    return [name for name, parameter in pairs if option in parameter.opts and name != "pefourier"]


def instead_of(option: str, command: str) -> str:
    """What to do where a command does not take an option of others."""
    return INSTEAD.get((command, option), f"{command} does not take it")


def cut_arguments(text: str, arguments: list[str]) -> str:
    """A text in one line, safe on a terminal, that repeats little of a long argument.

    >>> cut_arguments(f"no {300 * 'x'} here", [300 * "x"]) == f"no {60 * 'x'}…{60 * 'x'} here"
    True
    """
    line = as_line(text)
    for argument in arguments:
        for form in (argument, repr(argument), ascii(argument)):
            line = cut_runs(line, as_line(form))
    return line


def cut_runs(line: str, source: str) -> str:
    """A line with the middle cut out of each run of over `LONGEST` characters of the source."""
    start = 0
    while len(source) > LONGEST and start + LONGEST < len(line):
        end = start + LONGEST + 1
        if line[start:end] not in source:
            start += 1
            continue
        step = len(line) - end
        while step:
            if end + step <= len(line) and line[start : end + step] in source:
                end += step
            else:
                step //= 2
        run = shorten(line[start:end])
        line = line[:start] + run + line[end:]
        start += len(run)
    return line


def as_line(text: str) -> str:
    """A text without line breaks, as it is printed."""
    return printable(" ".join(text.split()))
