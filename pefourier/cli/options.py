"""What options mean: the words of their help in options.json, and what is typed as values."""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_origin

import typer
from typer.core import TyperCommand

from pefourier.errors import PefourierError, shown
from pefourier.train.options import GROUPS

# by command and option; JSON, which is read at each start, takes a tenth of the time of TOML
WORDS = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
HEADINGS = ("Arguments", "Options", *GROUPS, "Encodings", "Answers", "Figures")  # of help
SIDES = r"\d+([x×]\d+)+"
OF_IMAGES = "is a size of images, not a number of positions"
SHORT_NAMES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp8": "float8_e4m3"}


def set_once(option: Any, store: Callable[..., None], value: Any, state: Any) -> None:
    """Take the value of an option that has one, and refuse another."""
    first = state.opts.get(option.dest, value)
    if first != value:
        name, *short = option.obj.opts
        name += "".join(f" ({one})" for one in short)
        meaning = (option.obj.help or "").partition(". ")[0].removesuffix(".")
        raise PefourierError(
            f"{name} takes one value; got {shown(first)} and {shown(value)}. Its help: {meaning}"
        )
    store(value, state)


class InGroups(TyperCommand):
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
        groups: dict[str, list[tuple[str, str]]] = {name: [] for name in HEADINGS}
        for one in self.get_params(ctx):
            if record := one.get_help_record(ctx):
                told = "Answers" if one.name == "help" else getattr(one, "rich_help_panel", None)
                groups[told or f"{one.param_type_name.capitalize()}s"].append(record)
        for name, records in groups.items():
            if records:
                with formatter.section(name):
                    formatter.write_dl(records)


class Commands(typer.Typer):
    """An application all of whose commands have their options in groups."""

    def command(self, *names: str, **facts: Any) -> Any:
        """Add a command."""
        return super().command(*names, **{"cls": InGroups} | facts)


def as_typed(command: str, name: str, kind: Any) -> Any:
    """The type of a command's parameter with what its option is: of this command, or shared."""
    if kind is typer.Context or get_origin(kind) is Annotated:
        return kind
    facts = dict(WORDS.get(command, {}).get(name) or WORDS["shared"][name])
    facts |= {key: MEANT[facts[key]] for key in ("parser", "autocompletion") if key in facts}
    made = typer.Argument if facts.pop("argument", False) else typer.Option
    return Annotated[kind, made(*facts.pop("flags", ()), **facts)]


def spec_names(incomplete: str) -> list[str]:
    """How a SPEC may go on, for the shell's completion: a name, or behind it a parameter.

    >>> spec_names("sinus"), spec_names("rope:rho=5e5,lay")
    (['sinusoidal'], ['rope:rho=5e5,layout='])
    """
    from pefourier.answers.catalogue import read_catalogue

    known = {record["encoding"]: record["params"] for record in read_catalogue()}
    name, colon, text = incomplete.partition(":")
    if not colon:
        return [one for one in known if one.startswith(incomplete)]
    *given, last = text.split(",")
    before = "".join(f"{item}," for item in given)
    used = {item.partition("=")[0] for item in given}
    keys = (key for key in known.get(name, ()) if key.startswith(last) and key not in used)
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


def count_or_sides(text: str) -> int | tuple[int, ...]:
    """A number of positions, or the sides of a grid, for an option."""
    return sides(text) if re.fullmatch(SIDES, text) else count(text)


def format_asked(text: str) -> str:
    """A format by its full name, ``bf16:computed`` as ``bfloat16:computed``, for an option."""
    name, colon, how = text.partition(":")
    full = SHORT_NAMES.get(name, name)
    if full not in SHORT_NAMES.values() or (colon and how != "computed"):
        known = ", ".join([*SHORT_NAMES.values(), *SHORT_NAMES])
        raise typer.BadParameter(
            f"{shown(text)} is not one of {known}, or one of these with :computed"
        )
    return full + colon + how


def layer_range(text: str) -> range:
    """Layers from one to another, both included: 0-7, or a single one."""
    found = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", text)
    if found is None or int(found[2] or found[1]) < int(found[1]):
        raise typer.BadParameter(f"{shown(text)} is no run of layers such as 0-7, or one layer")
    return range(int(found[1]), int(found[2] or found[1]) + 1)


MEANT = {
    one.__name__: one
    for one in (
        spec_names,
        count,
        sides,
        count_or_sides,
        format_asked,
        layer_range,
    )
}
