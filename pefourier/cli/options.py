"""Options: their help in options.json, what their values mean, and those that commands share.

A command is a function; `with_shared_options` gives it the fields of its dataclasses as options,
beside its own parameters. It is made a part of the program when it is asked for.
"""

import inspect
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, Literal, get_origin

import typer
from typer.core import TyperCommand

from pefourier.cli.overwriting import refuse_overwriting
from pefourier.cli.process import coloured, draws_dots, say, takes_colours
from pefourier.errors import PefourierError, shown

# by command and option; JSON, which is read at each start, takes a tenth of the time of TOML
WORDS = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
SHARED_HEADINGS = ("Encodings", "Answers", "Figures")  # of help, below those of the command
SIDES = r"\d+([x×]\d+)+"
OF_IMAGES = "is a size of images, not a number of positions"
SHORT_NAMES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp8": "float8_e4m3"}
WIDTHS = {"column": 3.4, "page": 7.0}  # inches, of papers in two columns
NARROWEST, WIDEST = 3.0, 40.0  # inches
ANNOTATIONS = {"github", "sarif"}  # forms that other programs show beside a file
COMMANDS: dict[str, tuple[Callable[..., None], dict[str, Any], dict[str, Any]]] = {}


def register(name: str, groups: Mapping[str, Any] | None = None, **settings: Any) -> Any:
    """Register a command under its name; `groups` make dataclasses that take time to import."""

    def keep(function: Callable[..., None]) -> Callable[..., None]:
        COMMANDS[name] = function, dict(groups or {}), settings
        return function

    return keep


def add_commands(program: typer.Typer, names: Sequence[str]) -> typer.Typer:
    """Make commands a part of the program; making one takes as long as many answers do."""
    for name in names:
        function, groups, settings = COMMANDS[name]
        add = program.command(name, cls=CommandInGroups, **settings)
        add(with_shared_options(function, groups))
    return program


def set_once(option: Any, store: Callable[..., None], value: Any, state: Any) -> None:
    """Take the value of an option that has one, and refuse another."""
    first = state.opts.get(option.dest, value)
    if first != value:
        name, *short = option.obj.opts
        name += "".join(f" ({alias})" for alias in short)
        meaning = (option.obj.help or "").partition(". ")[0].removesuffix(".")
        raise PefourierError(
            f"{name} takes one value; got {shown(first)} and {shown(value)}. Its help: {meaning}"
        )
    store(value, state)


class CommandInGroups(TyperCommand):
    """A command whose help has its own options first, then those it shares, under headings.

    An option of one value is refused where it is given two; the parser would keep the last.
    """

    def make_parser(self, ctx: Any) -> Any:
        """The parser, which takes what has one value once."""
        parser = super().make_parser(ctx)
        for option in {*parser._long_opt.values(), *parser._short_opt.values()}:
            if option.action == "store":
                option.process = partial(set_once, option, option.process)
        return parser

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each group."""
        groups: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            if record := parameter.get_help_record(ctx):
                panel = getattr(parameter, "rich_help_panel", None)
                panel = "Answers" if parameter.name == "help" else panel
                kind = f"{parameter.param_type_name.capitalize()}s"
                groups.setdefault(panel or kind, []).append(record)
        shared = {name: groups.pop(name) for name in SHARED_HEADINGS if name in groups}
        for name, records in (groups | shared).items():
            if records:
                with formatter.section(name):
                    formatter.write_dl(records)


def with_help(command_name: str, name: str, kind: Any) -> Any:
    """The type of a command's parameter with its option's flags and help: its own, or shared."""
    if kind is typer.Context or get_origin(kind) is Annotated:
        return kind
    facts = dict(WORDS.get(command_name, {}).get(name) or WORDS["shared"][name])
    for key in ("parser", "autocompletion"):
        if key in facts:
            facts[key] = PARSERS[facts[key]]
    make = typer.Argument if facts.pop("argument", False) else typer.Option
    return Annotated[kind, make(*facts.pop("flags", ()), **facts)]


def with_shared_options(
    function: Callable[..., None], groups: Mapping[str, Callable[[], type]]
) -> Callable[..., None]:
    """A command whose dataclasses are given as options, beside its own parameters."""
    parameters = inspect.signature(function).parameters.values()
    kinds = {p.name: groups[p.name]() if p.name in groups else p.annotation for p in parameters}
    shared = {name: kind for name, kind in kinds.items() if is_dataclass(kind)}
    options = [(f.name, f.type, f.default) for kind in shared.values() for f in fields(kind)]
    single = [(p.name, p.annotation, p.default) for p in parameters if p.name not in shared]
    typed = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=with_help(function.__name__, name, kind),
        )
        for name, kind, default in [*options, *single]
    ]

    @wraps(function)
    def answer(**values: Any) -> None:
        try:
            check_paths(values)
            refuse_overwriting(values)
            tuples = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
            filled = {
                name: kind(**{f.name: tuples[f.name] for f in fields(kind)})
                for name, kind in shared.items()
            }
            function(**filled, **{name: values[name] for name, *_ in single})
        except PefourierError as error:
            if values.get("form") in ANNOTATIONS:
                annotate_refusals(function.__name__.replace("_", "-"), values, error)
            raise

    answer.__signature__ = inspect.Signature(typed)
    answer.__annotations__ = {p.name: p.annotation for p in typed}
    return answer


def check_paths(values: dict[str, Any]) -> None:
    """Take all SPECs as paths where ``--paths`` says so."""
    if values.get("paths"):
        if not values["specs"]:
            raise PefourierError("--paths takes paths of files and folders; got none")
        values["specs"] = list(map(as_path, values["specs"]))


def as_path(argument: str) -> str:
    """An argument as a SPEC that can only be read as the path that it is.

    >>> as_path("models/a/config.json"), as_path("py:evil:f.npy"), as_path("dft")
    ('models/a/config.json', './py:evil:f.npy', './dft')
    """
    unmistakable = ":" not in argument and ("/" in argument or "." in argument)
    unchanged = unmistakable or not argument or os.path.isabs(argument)
    return argument if unchanged else f"./{argument}"


@dataclass(frozen=True)
class FigureOptions:
    """Where a figure is written, and how it is to look."""

    plot: str | None = None
    width: str | None = None
    dpi: int | None = None
    title: str | None = None
    dark: bool = False

    def __post_init__(self) -> None:
        """Refuse a figure that could not be written, before anything is computed."""
        names = [f"--{name}" for name in ("width", "dpi", "title", "dark") if getattr(self, name)]
        if self.plot is not None:
            from pefourier.files import check_suffix

            check_suffix(self.plot, (".png", ".pdf", ".svg"))
            self.inches()
        elif names:
            raise PefourierError(
                f"{' and '.join(names)} say how a figure is to look; give --plot FILE too"
            )

    def inches(self) -> float | None:
        """The width in inches, None where it is not given."""
        if self.width is None:
            return None
        try:
            inches = WIDTHS.get(self.width) or float(self.width)
        except ValueError:
            inches = float("nan")
        if not NARROWEST <= inches <= WIDEST:
            raise PefourierError(
                f"--width must be column ({WIDTHS['column']} inches), page ({WIDTHS['page']}) or "
                f"inches from {NARROWEST} to {WIDEST}; got {shown(self.width)}"
            )
        return inches

    def draw(self, figure: Callable[..., Any], answers: Sequence[Any]) -> None:
        """Write the figure of some answers if one was asked for; only then matplotlib is loaded."""
        if self.plot is None:
            return
        from pefourier.report import plot

        look = plot.DARK if self.dark else plot.USUAL
        typed = {"width": self.inches(), "title": self.title, "dpi": self.dpi}
        typed = {name: value for name, value in typed.items() if value is not None}
        looks = {"look": replace(look, **typed)} if typed or self.dark else {}
        plot.save(self.plot, figure, answers, **looks)


@dataclass(frozen=True)
class OutputOptions:
    """The form of an answer: words, unless an option names another of `forms.FORMS`."""

    as_json: bool = False
    as_csv: bool = False
    form: Literal["text", "json", "csv", "github", "sarif", "lint", "md", "latex"] | None = None

    def __post_init__(self) -> None:
        """Refuse an answer in two forms, before anything is computed."""
        if len(self.forms) > 1:
            options = (f"--{'' if name == flag else 'format '}{name}" for name, flag in self.forms)
            raise PefourierError(f"{' and '.join(options)} exclude each other; give one")

    @property
    def forms(self) -> list[tuple[str, str | None]]:
        """The names of forms that were asked for, with the flag that did."""
        flags = {"json": self.as_json, "csv": self.as_csv}
        return [(name, name) for name, is_given in flags.items() if is_given] + (
            [(self.form, None)] if self.form else []
        )

    @property
    def name(self) -> str:
        """The form, a key of `forms.FORMS`."""
        return self.forms[0][0] if self.forms else "text"

    def print(self, page: Any) -> None:
        """Print a page in its form; on a terminal curves come before the numbers."""
        import sys

        from pefourier.report.forms import FORMS
        from pefourier.writing.page import beginning

        if self.name != "text":
            say(FORMS[self.name](page))
            return
        colour, conclusion = takes_colours(sys.stdout), beginning(page)
        chart = page.chart(colour) if page.chart and draws_dots(sys.stdout) else ""
        say((coloured(conclusion) if colour else conclusion) + chart + page.words())


class NothingAnswered(PefourierError):
    """Several SPECs, and each was refused."""

    def __init__(self, refusals: Sequence[Any], reason: str) -> None:
        super().__init__(reason)
        self.refusals = refusals


def annotate_refusals(command_name: str, values: Mapping[str, Any], error: PefourierError) -> None:
    """Print what other programs show where nothing could be answered."""
    from pefourier.report.frame import Refusal
    from pefourier.writing.page import Page

    specs = values.get("specs") or ()
    refusals = [Refusal(specs[0] if len(specs) == 1 else "", str(error))]
    if isinstance(error, NothingAnswered):
        refusals = list(error.refusals)
    OutputOptions(form=values["form"]).print(Page(command_name, str, lambda: refusals))


def spec_names(incomplete: str) -> list[str]:
    """How a SPEC may go on, for the shell's completion: a name, or behind it a parameter.

    >>> spec_names("sinus"), spec_names("rope:rho=5e5,lay")
    (['sinusoidal'], ['rope:rho=5e5,layout='])
    """
    from pefourier.report.catalogue import read_catalogue

    params = {record["encoding"]: record["params"] for record in read_catalogue()}
    name, colon, text = incomplete.partition(":")
    if not colon:
        return [name for name in params if name.startswith(incomplete)]
    *settings, last = text.split(",")
    before = "".join(f"{setting}," for setting in settings)
    used = {setting.partition("=")[0] for setting in settings}
    keys = (key for key in params.get(name, ()) if key.startswith(last) and key not in used)
    return [f"{name}:{before}{key}=" for key in keys]


def count(text: str) -> int:
    """A whole number as people write it, for an option."""
    from pefourier.writing.text import whole_number

    if re.fullmatch(SIDES, text):
        raise typer.BadParameter(f"{shown(text)} {OF_IMAGES}")
    value = whole_number(text)
    if value is None:
        raise typer.BadParameter(
            f"{shown(text)} is not a whole number such as 4096, 3e5 or 128k (131072)"
        )
    return value


def sides(text: str) -> tuple[int, ...]:
    """Sides of a grid such as 14x14, for an option."""
    from pefourier.writing.text import read_sides

    try:
        return read_sides(text)
    except PefourierError as error:
        raise typer.BadParameter(str(error)) from error


def format_name(text: str) -> str:
    """A format by its full name, ``bf16:computed`` as ``bfloat16:computed``, for an option."""
    name, colon, how = text.partition(":")
    full = SHORT_NAMES.get(name, name)
    if full not in SHORT_NAMES.values() or (colon and how != "computed"):
        names = ", ".join([*SHORT_NAMES.values(), *SHORT_NAMES])
        raise typer.BadParameter(
            f"{shown(text)} is not one of {names}, or one of these with :computed"
        )
    return full + colon + how


def layer_range(text: str) -> range:
    """Layers from one to another, both included: 0-7, or a single one."""
    numbers = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", text)
    if numbers is None or int(numbers[2] or numbers[1]) < int(numbers[1]):
        raise typer.BadParameter(f"{shown(text)} is no run of layers such as 0-7, or one layer")
    return range(int(numbers[1]), int(numbers[2] or numbers[1]) + 1)


PARSERS: dict[str, Callable[[str], Any]] = {
    parser.__name__: parser for parser in (spec_names, count, sides, format_name, layer_range)
}


def options_of(program: Any) -> Iterator[tuple[str, Any]]:
    """Options with the command that has them, those of the program itself first."""
    for name, part in {"pefourier": program, **program.commands}.items():
        for parameter in part.params:
            if parameter.param_type_name == "option":
                yield name, parameter
