"""The program: arguments in, exit status out, every error in one line.

Here are also the commands that write a page, train, or look words up. A command imports what it
needs when it runs, so that help and the list start without numpy.
"""

import os
import re
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Annotated, Any, Literal

import typer

from pefourier.cli.commands import check_count_of_specs, write_text
from pefourier.cli.options import (
    COMMANDS,
    EncodingOptions,
    OutputOptions,
    add_commands,
    answer_each,
    options_of,
    print_and_exit,
    register,
)
from pefourier.cli.process import (
    LISTENER,
    give_up_stdout,
    is_of_stdout,
    note,
    paste,
    percentages,
    report_interrupt,
    say,
)
from pefourier.errors import PefourierError, nearest, shorten, shown
from pefourier.version import __version__

NUMBER = re.compile(r"-*[.\d]*\d(e\d+)?[kM]?")  # as --pos takes it
SETTING = re.compile(r"[a-z_][a-z_-]*=")  # as --search takes it
OPTIONAL = {"torch", "matplotlib"}  # that most commands do without
NO_ROOM = re.compile("failed to map|can(no|')t allocate memory|bad_alloc|start new thread", re.I)
COMPLETION = "_PEFOURIER_COMPLETE"  # set by the shell when it wants completions
OF_ENCODINGS = ("d", "length", "grid", "prefix", "rho", "seed", "times")  # options of a page
RESULTS = "results.jsonl"  # what training leaves in a folder


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

    >>> repeat_options(["--pos", "5", "40", "dft", "--search", "rate=.1,.2", "dropout=0"])
    ['--pos', '5', '--pos', '40', 'dft', '--search', 'rate=.1,.2', '--search', 'dropout=0']
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


def program(names: Sequence[str] = ()) -> typer.Typer:
    """The program with some of its commands, or all."""
    settings = {"context_settings": {"help_option_names": ["-h", "--help"]}}
    app = typer.Typer(add_completion=False, rich_markup_mode=None, **settings)
    app.callback(invoke_without_command=True)(about_program)
    return add_commands(app, names or tuple(COMMANDS))


def about_program(
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
    pefourier report rope --out page.html       all of it on one page
    pefourier list                              the encodings it knows
    pefourier explain gap                       what a word of an answer means
    """
    if version:
        say(f"pefourier {__version__}\n")
    elif show_completion:
        from typer.completion import get_completion_script

        names = {"prog_name": "pefourier", "complete_var": COMPLETION}
        say(get_completion_script(shell=show_completion, **names) + "\n")


@register("report")
def write_report(
    options: EncodingOptions,
    output: OutputOptions,
    out: str = "report.html",
    title: str | None = None,
    lattice: int | None = None,
    sigma: float | None = None,
) -> None:
    """Write one page with all answers, to be sent to somebody.

    A self-contained file of HTML: conclusions, pictures, numbers, the commands that give them, and
    what the words mean. Takes SPECs, default sinusoidal and dft, and one folder of pefourier train.

    \b
    Example: pefourier report rope rope:rho=5e5 --d 128 --lattice 4096 --out report.html
    """
    from pefourier.writing.files import check_suffix, status_of

    check_suffix(out, (".html", ".htm"))
    typed = {name: getattr(options, name) for name in OF_ENCODINGS}
    folders = [s for s in options.specs or () if status_of(os.path.join(s, RESULTS)) is not None]
    if folders:
        check_count_of_specs(options, 1, "report takes one folder of pefourier train, or SPECs")
        if any(value is not None for value in (*typed.values(), lattice, sigma)):
            raise PefourierError("a folder of pefourier train takes no options of encodings")
        from pefourier.pages.training import folder_document, folder_page, read_train_folder

        training = read_train_folder(folders[0])
        write_text(out, folder_document(training, title or ""))
        output.print(folder_page(training, out))
        return
    from pefourier.encodings.loader import load
    from pefourier.pages.encodings import Inquiry, encodings_document, report_page

    inquiry = Inquiry(typed, lattice, sigma)

    def study(source: Any) -> Any:
        enc = load(source, **options.sizes)
        return inquiry.study(enc, percentages(enc.label, options.quiet))

    results = answer_each(options.sources(), study, options.quiet)
    page = encodings_document(results.answers, results.refusals, inquiry, title or "")
    write_text(out, page)
    if not results.refusals:
        options.note_without_effect([study.encoding for study in results.answers])
    print_and_exit(report_page(results.per_spec, out), results, output)


@register("list")
def list_encodings(output: OutputOptions, names: list[str] | None = None) -> None:
    """List the encodings that have a name.

    With a NAME: its formula, and what its parameters mean.

    \b
    Example: pefourier list rope
    """
    from pefourier.report.catalogue import catalogue_page

    output.print(catalogue_page(names or ()))


@register("explain", context_settings={"ignore_unknown_options": True})  # to be explained
def explain(output: OutputOptions, term: list[str] | None = None, schema: bool = False) -> None:
    """What does a word mean?

    Its meaning, formula, unit, range, what is good and where it comes from. Without TERM some words
    to begin with, with all those that there are.

    \b
    Example: pefourier explain condition number
    """
    from pefourier.report.terms import SCHEMA, explain_page

    if schema:
        say(SCHEMA.read_text(encoding="utf-8"))
        return
    output.print(explain_page(term or (), command_terms()))


def command_terms() -> list[Any]:
    """A term for each command, and for each option; those of one name and help are one."""
    from pefourier.report.terms import Term

    terms = []
    for name, (function, *_) in COMMANDS.items():
        text = function.__doc__ or ""
        good = text.rpartition("Example: ")[2].strip()
        terms.append(Term(name, "commands", text.partition("\n")[0], good=good))
    users: dict[tuple[Any, ...], list[str]] = {}
    for command_name, option in options_of(typer.main.get_command(program())):
        choices = ", ".join(getattr(option.type, "choices", ()))
        users.setdefault((option.help or "", choices, *option.opts), []).append(command_name)
    for (meaning, choices, *names), commands in users.items():
        name, *also = sorted(names, key=lambda name: not name.startswith("--"))
        meaning = f"{meaning} Option of {', '.join(commands)}."
        terms.append(Term(name, "options", meaning, range=choices, also=also))
    return terms


def train_groups() -> type:
    """The dataclass of the options of training, whose room is opened for its command alone."""
    from pefourier.cli.train_options import TrainOptions

    return TrainOptions


@register("train", groups={"options": train_groups})
def train(
    options: Any,
    plan: bool = False,
    as_json: bool = False,
    as_csv: bool = False,
    quiet: bool = False,
) -> None:
    """Which encoding classifies better?

    Trains the paper's transformer with each encoding on the same data, batches and seeds, and says
    which differences the data support. It classifies windows or whole series, and neither forecasts
    nor regresses. Without options it takes under two minutes. For the same statistics of scores
    that you have see 'pefourier explain own scores'.

    \b
    Example: pefourier train --dataset smd --data data -e none -e sinusoidal -e dft --out runs
    """
    from pefourier.train.options import Options

    chosen, print_results = Options(**vars(options)), None if quiet else note
    output = OutputOptions(as_json, as_csv)
    if plan:
        from pefourier.train.plan import plan_page, plan_training

        output.print(plan_page(plan_training(chosen, print_results)))
        return
    from pefourier.train.run import run_comparison

    def deliver(summary: Any) -> None:
        from pefourier.train.report import summary_page

        with suppress(typer.Exit):  # nobody reads the answer, but files are to be written
            output.print(summary_page(summary))

    run_comparison(chosen, deliver, print_results)


@register("reproduce")
def reproduce(
    out: str = "figures", as_json: bool = False, as_csv: bool = False, quiet: bool = False
) -> None:
    """Recompute the paper.

    Every figure, equation, number and claim.

    Printed value beside computed value, with a verdict.

    \b
    Example: pefourier reproduce --out figures
    """
    from pefourier.reproduce import claims_page, has_results, recompute_paper

    output = OutputOptions(as_json, as_csv)
    claims, files = recompute_paper(out)
    output.print(claims_page(claims))
    note(f"wrote {', '.join(files)}", quiet)
    if not has_results(out):
        note("Table 1 is that of the results that come with this version", quiet)
