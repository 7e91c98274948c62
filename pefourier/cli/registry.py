"""Commands by name: a function becomes a command of the program when it is asked for.

Each parameter is an option or an argument: its type, what typer has to know beside it, its help,
its default. A parameter whose type is a dataclass stands for all fields of it.
"""

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand

from pefourier.cli.answers import annotate_refusals
from pefourier.cli.options import ANNOTATIONS, as_path
from pefourier.cli.process import refuse_overwriting
from pefourier.errors import PefourierError

HEADINGS = ("Encodings", "Answers", "Figures")  # of help, below those of the command
KEYWORD = inspect.Parameter.KEYWORD_ONLY
Function = TypeVar("Function", bound=Callable[..., None])
OptionOf = Callable[[str, Any], Any]
COMMANDS: dict[str, tuple[Callable[..., None], OptionOf, dict[str, Any]]] = {}


def with_help(_: str, kind: Any) -> Any:
    """A type as typer reads it, with the text in it as the help of its option."""
    if get_origin(kind) is not Annotated:
        return kind
    plain, *facts, text = get_args(kind)
    option = facts[0] if facts else typer.Option()
    option.help = text
    return Annotated[plain, option]


def register(
    name: str, *, option_of: OptionOf = with_help, **context_settings: Any
) -> Callable[[Function], Function]:
    """Register a command; `option_of` makes typer's option of the name and type of a field."""

    def keep(function: Function) -> Function:
        COMMANDS[name] = function, option_of, context_settings
        return function

    return keep


def add_command(program: typer.Typer, name: str) -> None:
    """Make a command a part of the program, which takes as long as many answers do."""
    function, option_of, context_settings = COMMANDS[name]
    add = program.command(name, cls=CommandInGroups, context_settings=context_settings)
    add(flatten(name, function, option_of))


def flatten(name: str, function: Callable[..., None], option_of: OptionOf) -> Callable[..., None]:
    """A command with the fields of its dataclasses as options, beside its own parameters."""
    own = inspect.signature(function, eval_str=True).parameters.values()
    groups: dict[str, Any] = {p.name: p.annotation for p in own if is_dataclass(p.annotation)}
    options = [
        inspect.Parameter(
            f.name, KEYWORD, default=f.default, annotation=option_of(f.name, kinds[f.name])
        )
        for group in groups.values()
        for kinds in [get_type_hints(group, include_extras=True)]
        for f in fields(group)
    ]
    of_groups = {option.name for option in options}
    options += [
        p.replace(kind=KEYWORD, annotation=with_help(p.name, p.annotation))
        for p in own
        if p.name not in groups
    ]

    def command(**values: Any) -> None:
        try:
            if values.get("paths"):
                if not values["specs"]:
                    raise PefourierError("--paths takes paths of files and folders; got none")
                values["specs"] = list(map(as_path, values["specs"]))
            refuse_overwriting(values)
            given = {key: values[key] for key in values.keys() - of_groups}
            for key, group in groups.items():
                given[key] = group(**{f.name: values[f.name] for f in fields(group)})
            function(**given)
        except PefourierError as error:
            if values.get("form") in ANNOTATIONS:
                annotate_refusals(name, values, error)
            raise

    command.__doc__ = function.__doc__
    vars(command)["__signature__"] = inspect.Signature(options)
    return command


class CommandInGroups(TyperCommand):
    """A command whose help has its own options first, then those it shares, under headings."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each group."""
        groups: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            if record := parameter.get_help_record(ctx):
                panel = getattr(parameter, "rich_help_panel", None)
                panel = "Answers" if parameter.name == "help" else panel
                kind = f"{parameter.param_type_name.capitalize()}s"
                groups.setdefault(panel or kind, []).append(record)
        for name in sorted(filter(groups.get, groups), key=HEADINGS.count):
            with formatter.section(name):
                formatter.write_dl(groups[name])


def options_of(program: Any) -> list[tuple[str, Any]]:
    """Options with the command that has them, those of the program itself first."""
    parts = {"pefourier": program, **program.commands}.items()
    return [(name, p) for name, part in parts for p in part.params if hasattr(p, "is_flag")]
