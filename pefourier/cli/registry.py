"""Registry of commands: a function becomes a command of the program when it is requested.

Each parameter is an option or an argument. Its annotation has the type, settings for typer and the
help (a text in `Annotated`, or the `help` of typer's `Option`). A parameter whose type is a
dataclass is replaced by the fields of the dataclass.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import fields, is_dataclass
from itertools import chain
from textwrap import fill
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand

from pefourier.cli.answers import annotate_refusals
from pefourier.cli.options import ANNOTATIONS, as_path
from pefourier.cli.process import refuse_overwriting
from pefourier.errors import PefourierError
from pefourier.types import Fields

HEADINGS = ("Encodings", "Answers", "Figures")  # in help, after the command's own options
KEYWORD = inspect.Parameter.KEYWORD_ONLY
Function = TypeVar("Function", bound=Callable[..., None])
OptionOf = Callable[[str, Any, str | None], Any]
COMMANDS: dict[str, tuple[Callable[..., None], Mapping[str, OptionOf], Fields]] = {}


def register(
    name: str, *, option_of: Mapping[str, OptionOf] | None = None, **context_settings: Any
) -> Callable[[Function], Function]:
    """Register a command; `option_of` maps a parameter to the options of its fields."""

    def keep(function: Function) -> Function:
        COMMANDS[name] = function, option_of or {}, context_settings
        return function

    return keep


def add_command(program: typer.Typer, name: str) -> None:
    """Add a command to the program, which takes as long as many answers do."""
    function, option_of, context_settings = COMMANDS[name]
    add = program.command(name, cls=CommandInGroups, context_settings=context_settings)
    add(flatten(name, function, option_of))


def flatten(
    name: str, function: Callable[..., None], option_of: Mapping[str, OptionOf]
) -> Callable[..., None]:
    """Return a command whose dataclass parameters are replaced by their fields as options."""
    parameters = inspect.signature(function, eval_str=True).parameters
    groups = {
        key: list(fields_as_options(p.annotation, option_of.get(key, typer_option)))
        for key, p in parameters.items()
        if is_dataclass(p.annotation)
    }
    single = {
        key: p.replace(kind=KEYWORD, annotation=typer_option(key, p.annotation))
        for key, p in parameters.items()
        if key not in groups
    }

    def command(**values: Any) -> None:
        try:
            if values.get("paths"):
                if not values["specs"]:
                    raise PefourierError("--paths needs paths of files and folders; got none")
                values["specs"] = list(map(as_path, values["specs"]))
            refuse_overwriting(values)
            arguments = {key: values[key] for key in single}
            for key, options in groups.items():
                make = parameters[key].annotation
                arguments[key] = make(**{o.name: values[o.name] for o in options})
            function(**arguments)
        except PefourierError as error:
            if values.get("form") in ANNOTATIONS:
                annotate_refusals(name, values, error)
            raise

    command.__doc__ = function.__doc__
    vars(command)["__signature__"] = inspect.Signature([*chain(*groups.values()), *single.values()])
    return command


def fields_as_options(group: Any, option_of: OptionOf) -> Iterator[inspect.Parameter]:
    """Return the fields of a dataclass as options, under its heading."""
    kinds, heading = get_type_hints(group, include_extras=True), getattr(group, "heading", None)
    for field in fields(group):
        kind = option_of(field.name, kinds[field.name], heading)
        yield inspect.Parameter(field.name, KEYWORD, default=field.default, annotation=kind)


def typer_option(name: str, kind: Any, heading: str | None = None) -> Any:
    """Convert a type for typer, with its text as help; flags have no negative form."""
    if get_origin(kind) is not Annotated:
        return kind
    plain, *notes = get_args(kind)
    flags = [f"--{name.replace('_', '-')}"] if plain is bool else []
    option = copy(next((n for n in notes if not isinstance(n, str)), typer.Option(*flags)))
    option.help = next((n for n in notes if isinstance(n, str)), option.help)
    option.rich_help_panel = option.rich_help_panel or heading
    return Annotated[plain, option]


class CommandInGroups(TyperCommand):
    """A command whose help lists its own options first, then shared options under headings."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each group of options."""
        groups: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            if record := parameter.get_help_record(ctx):
                heading = getattr(parameter, "rich_help_panel", None) or "Options"
                if parameter.param_type_name == "argument":
                    heading = "Arguments"
                elif parameter.name == "help":
                    heading = "Answers"
                groups.setdefault(heading, []).append((fold(record[0], formatter.width), record[1]))
        for name in sorted(filter(groups.get, groups), key=HEADINGS.count):
            with formatter.section(name):
                formatter.write_dl(groups[name])


def fold(names: str, width: int) -> str:
    """Break a list of choices that is wider than a line of help.

    >>> print(fold("--crop <no|center-crop|free>", 28))
    --crop <no|center-crop|
      free>
    """
    text = names.replace("|", "| ")
    return fill(text, width - 2, subsequent_indent="  ", break_on_hyphens=False).replace("| ", "|")


def options_of(program: Any) -> list[tuple[str, Any]]:
    """Yield options with their command, beginning with options of the program."""
    parts = {"pefourier": program, **program.commands}.items()
    return [(name, p) for name, part in parts for p in part.params if hasattr(p, "is_flag")]
