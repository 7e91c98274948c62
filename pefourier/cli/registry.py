"""Registry of commands: a function becomes a command of the program when it is requested.

Each parameter is an option or an argument. Its annotation has the type, settings for typer and the
help (a text in `Annotated`, or the `help` of typer's `Option`). A parameter whose type is a
dataclass is replaced by the fields of the dataclass.
"""

import inspect
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import is_dataclass
from functools import cache, partial
from textwrap import fill
from typing import Annotated, Any, cast, get_args, get_origin

import typer
from typer.core import TyperCommand

from pefourier.cli.options import ANNOTATIONS, OutputOptions, as_path
from pefourier.cli.process import refuse_overwriting
from pefourier.errors import PefourierError
from pefourier.types import Fields, Values

HEADINGS = ("Encodings", "Answers", "Figures")  # in help, after the command's own options
CHOICES: Fields = {"subsequent_indent": "  ", "break_on_hyphens": False}  # in lines of help
KEYWORD = inspect.Parameter.KEYWORD_ONLY
Command = Callable[..., None]
COMMANDS: dict[str, Command] = {}


def register(name: str) -> Callable[[Command], Command]:
    """Register a command under a name."""
    return partial(COMMANDS.setdefault, name)


def add_command(program: typer.Typer, name: str) -> None:
    """Add a command to the program, which takes as long as many answers do."""
    function = COMMANDS[name]

    def command(**values: Any) -> None:
        try:
            if values.get("paths"):
                if not values["specs"]:
                    raise PefourierError("--paths needs paths of files and folders; got none")
                values["specs"] = list(map(as_path, values["specs"]))
            refuse_overwriting(values)
            call(function, values)
        except PefourierError as error:
            if values.get("form") in ANNOTATIONS:  # other programs read why nothing is answered
                from pefourier.writing.page import Page

                spec = "".join(values.get("specs") or ())
                refusals = error.refusals or [{"spec": spec, "error": str(error)}]
                OutputOptions(form=values["form"]).print(Page(name, str, lambda: refusals))
            raise

    command.__doc__ = function.__doc__
    vars(command)["__signature__"] = inspect.Signature(list(flatten(function)))
    program.command(name, cls=CommandInGroups)(command)


@cache
def parameters_of(part: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a function, or the fields of a dataclass."""
    return list(inspect.signature(part, eval_str=True).parameters.values())


def call(part: Callable[..., Any], values: Values) -> Any:
    """Call a function with the values of its options; a dataclass is made of its fields."""
    return part(
        **{
            p.name: call(cast("type", p.annotation), values)
            if is_dataclass(p.annotation)
            else values[p.name]
            for p in parameters_of(part)
        }
    )


def flatten(part: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    """Yield the options of a function for typer; those of a dataclass are its fields.

    A text in an annotation becomes the help, and the heading of a dataclass that of its options.
    Flags have no negative form.
    """
    for p in parameters_of(part):
        if is_dataclass(p.annotation):
            yield from flatten(cast("type", p.annotation))
            continue
        kind = p.annotation
        if get_origin(kind) is Annotated:
            plain, *notes = get_args(kind)
            flags = [f"--{p.name.replace('_', '-')}"] if plain is bool else []
            option = copy(next((n for n in notes if not isinstance(n, str)), typer.Option(*flags)))
            option.help = next((n for n in notes if isinstance(n, str)), option.help)
            option.rich_help_panel = option.rich_help_panel or getattr(part, "heading", None)
            kind = Annotated[plain, option]
        yield p.replace(kind=KEYWORD, annotation=kind)


class CommandInGroups(TyperCommand):
    """A command whose help lists its own options first, then shared options under headings."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each group of options."""
        groups: dict[str, list[Any]] = {"Arguments": [], "Options": []}
        for p in self.get_params(ctx):
            heading = getattr(p, "rich_help_panel", None) or f"{p.param_type_name}s".capitalize()
            if record := p.get_help_record(ctx):
                folded = fill(record[0].replace("|", "| "), formatter.width - 2, **CHOICES)
                groups.setdefault(heading, []).append((folded.replace("| ", "|"), record[1]))
        for name in sorted(filter(groups.get, groups), key=HEADINGS.count):
            with formatter.section(name):
                formatter.write_dl(groups[name])
