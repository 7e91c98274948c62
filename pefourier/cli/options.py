"""Options: their help in options.json, what their values mean, and those that commands share.

A command is a function; `with_shared_options` gives it the fields of its dataclasses as options,
beside its own parameters. It is made a part of the program when it is asked for.
"""

import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, get_origin

import typer
from typer.core import TyperCommand

from pefourier.cli.process import (
    coloured,
    draws_dots,
    note,
    refuse_overwriting,
    say,
    takes_colours,
)
from pefourier.errors import PefourierError, UnknownPositions, shown
from pefourier.writing.text import printable_lines

# by command and option; JSON, which is read at each start, takes a tenth of the time of TOML
WORDS = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
HEADINGS = ("Encodings", "Answers", "Figures")  # of help, below those of the command
SHORT_NAMES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp8": "float8_e4m3"}
NARROWEST, WIDEST = 3.0, 40.0  # inches of a figure
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


def with_help(command_name: str, name: str, kind: Any) -> Any:
    """The type of a command's parameter with its option's flags and help: its own, or shared."""
    if get_origin(kind) is Annotated:
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
            if values.get("paths"):
                if not values["specs"]:
                    raise PefourierError("--paths takes paths of files and folders; got none")
                values["specs"] = list(map(as_path, values["specs"]))
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


def as_path(argument: str) -> str:
    """An argument as a SPEC that can only be read as the path that it is.

    >>> as_path("models/a/config.json"), as_path("py:evil:f.npy"), as_path("dft")
    ('models/a/config.json', './py:evil:f.npy', './dft')
    """
    unmistakable = ":" not in argument and ("/" in argument or "." in argument)
    return argument if unmistakable or os.path.isabs(argument) else f"./{argument}"


@dataclass(frozen=True)
class FigureOptions:
    """Where a figure is written, and how it is to look."""

    plot: str | None = None
    width: float | None = None
    dpi: int | None = None
    title: str | None = None

    def __post_init__(self) -> None:
        """Refuse a figure that could not be written, before anything is computed."""
        names = [f"--{name}" for name in ("width", "dpi", "title") if getattr(self, name)]
        if self.plot is not None:
            from pefourier.writing.files import check_suffix

            check_suffix(self.plot, (".png", ".pdf", ".svg"))
        elif names:
            raise PefourierError(
                f"{' and '.join(names)} say how a figure is to look; give --plot FILE too"
            )
        if self.width is not None and not NARROWEST <= self.width <= WIDEST:
            raise PefourierError(f"--width is {NARROWEST} to {WIDEST} inches; got {self.width}")

    def draw(
        self, figure: Callable[..., Any], answers: Sequence[Any], refusals: Sequence[Any] = ()
    ) -> None:
        """Write the figure of all answers if one was asked for; only then matplotlib is loaded."""
        if self.plot is None:
            return
        if refusals:
            note(f"{shown(self.plot)} was not written: a figure shows all SPECs or none")
            return
        from pefourier.report import plot

        look = plot.Look(self.width, self.dpi or plot.Look.dpi, self.title or "")
        plot.save(self.plot, figure, answers, look)


@dataclass(frozen=True)
class OutputOptions:
    """The form of an answer: words, unless an option names another of `forms.FORMS`."""

    as_json: bool = False
    as_csv: bool = False
    form: Literal["text", "json", "csv", "github", "sarif", "lint", "md", "latex"] | None = None

    def __post_init__(self) -> None:
        """Refuse an answer in two forms, before anything is computed."""
        if len(self.forms) > 1:
            raise PefourierError(f"forms {' and '.join(self.forms)} exclude each other; give one")

    @property
    def forms(self) -> list[str]:
        """The names of forms that were asked for."""
        return [form for form in (self.as_json * "json", self.as_csv * "csv", self.form) if form]

    @property
    def name(self) -> str:
        """The form, a key of `forms.FORMS`."""
        return [*self.forms, "text"][0]

    def print(self, page: Any) -> None:
        """Print a page in its form; on a terminal curves come before the numbers."""
        from pefourier.report.forms import FORMS

        if self.name != "text":
            say(FORMS[self.name](page))
            return
        colour = takes_colours(sys.stdout)
        conclusion, words = map(printable_lines, (page.conclusion(), page.words()))
        conclusion += "\n" * bool(conclusion)  # an empty line ends it
        chart = page.chart(colour=colour) if page.chart and draws_dots(sys.stdout) else ""
        say((coloured(conclusion) if colour else conclusion) + chart + words)


def annotate_refusals(command_name: str, values: Mapping[str, Any], error: PefourierError) -> None:
    """Print what other programs show where nothing could be answered."""
    from pefourier.writing.page import Page

    spec = "".join(values.get("specs") or ())
    refusals = error.refusals or [{"spec": spec, "error": str(error)}]
    OutputOptions(form=values["form"]).print(Page(command_name, str, lambda: refusals))


@dataclass(frozen=True)
class EncodingOptions:
    """Which encodings, and what holds of all of them."""

    specs: list[str] | None = None
    d: int | None = None
    length: int | None = None
    grid: tuple | None = None
    prefix: int | None = None
    rho: float | None = None
    seed: int | None = None
    times: str | None = None
    paths: bool = False
    quiet: bool = False

    @property
    def names(self) -> list[str]:
        """The SPECs; where none is given sinusoidal, and dft where no times are."""
        return list(self.specs or (["sinusoidal", "dft"] if self.times is None else ["sinusoidal"]))

    @property
    def sizes(self) -> dict[str, int | None]:
        """The length and dimension."""
        return {"length": self.length, "d": self.d}

    def defaults(self) -> dict[str, Any]:
        """Parameters of all SPECs that have them."""
        if self.names.count("-") > 1:
            raise PefourierError("standard input ('-') can be read once; name it once")
        defaults = {"rho": self.rho, "seed": self.seed}
        defaults |= {"grid": self.grid or (), "prefix": self.prefix or 0}
        if self.times is None:
            return defaults
        from pefourier.encodings.loader import refuse_times
        from pefourier.encodings.sources.tables import read_numbers

        refuse_times(self.names)
        return defaults | {"times": read_numbers(self.times)}

    def sources(self, *, split: bool = True) -> list[Any]:
        """The SPECs with what holds of all, a config with several rotations `split` into these."""
        from pefourier.encodings.loader import SpecWithDefaults, specs_of_rotations

        specs = [s for name in self.names for s in (specs_of_rotations(name) if split else [name])]
        defaults = self.defaults()
        return [SpecWithDefaults(spec, defaults) for spec in specs]

    def note_without_effect(self, encodings: Sequence[Any]) -> None:
        """Name the options that are settings of none of the encodings; times of any."""
        for name in ("d", "length", "rho", "seed", "times"):
            if (value := getattr(self, name)) is not None:
                without = [enc for enc in encodings if not has_setting(enc, name, value)]
                if without and (name == "times" or len(without) == len(encodings)):
                    labels = ", ".join(enc.label for enc in without)
                    note(f"--{name} {value} has no effect on {labels}", self.quiet)


def has_setting(enc: Any, name: str, value: Any) -> bool:
    """Whether an option's value is that of a parameter, or a size, of an encoding."""
    if name == "times":
        return enc.params.get("times") is not None
    params = [enc.params.get(key) for key in (name, "embedding" if name == "d" else name)]
    return value in [*params, {"d": enc.dim, "length": len(enc)}.get(name)]


def parse_points(texts: list[str] | None) -> list[tuple[int, ...]]:
    """Points, each of whole numbers from 0 on with commas between.

    >>> parse_points(["3,4", "10,2"])
    [(3, 4), (10, 2)]
    """
    from pefourier.writing.text import whole_number

    points = [tuple(map(whole_number, text.split(","))) for text in texts or []]
    for text, point in zip(texts or [], points, strict=True):
        if any(value is None or not 0 <= value < 2**53 for value in point):
            raise PefourierError(
                f"--pos takes whole numbers from 0 on, such as 5,40,75; got {shown(text)} (times "
                "between: --times FILE, as with sinusoidal)"
            )
    return points


@dataclass(frozen=True)
class Results:
    """What was found for each SPEC, in the order given: an answer, or why there is none."""

    per_spec: list[Any]

    @property
    def answers(self) -> list[Any]:
        """The SPECs that were answered."""
        return [result for result in self.per_spec if hasattr(result, "encoding")]

    @property
    def refusals(self) -> list[Any]:
        """The SPECs that were not."""
        return [result for result in self.per_spec if hasattr(result, "error")]


def answer_each(
    sources: Sequence[Any], ask: Callable[[Any], Any], quiet: bool, skip: bool = False
) -> Results:
    """The answer for each SPEC, or its refusal, which is told; where all are refused an error.

    With `skip` configs that set no positions which could be answered for are passed over.
    """
    from pefourier.report.render import Refusal

    results = Results([])
    for source in sources:
        try:
            results.per_spec.append(ask(source))
        except PefourierError as error:
            if skip and isinstance(error, UnknownPositions):
                note(f"skipped: {error}", quiet)
                continue
            if len(sources) == 1:
                raise  # with where it happened, for --debug
            results.per_spec.append(Refusal(getattr(source, "spec", source), str(error)))
    if not results.per_spec:
        note("all were skipped; nothing was checked", quiet)
        raise typer.Exit(0)
    if not results.answers:
        *reasons, last = dict.fromkeys(refusal.error for refusal in results.refusals)
        for reason in reasons:
            note(reason)
        raise PefourierError(last, results.refusals)
    for spec, error in ((shown(refusal.spec), refusal.error) for refusal in results.refusals):
        note(error if spec in error else f"{spec}: {error}")
    return results


def ask_each(options: EncodingOptions, question: Callable[..., Any], skip: bool = False) -> Results:
    """Ask a question of `pefourier.api` about each SPEC."""
    from pefourier.report.render import answer_of

    def ask(source: Any) -> Any:
        return answer_of(question(source, **options.sizes))

    return answer_each(options.sources(), ask, options.quiet, skip)


@dataclass(frozen=True)
class Requirements:
    """What an answer is held against, whatever the question is."""

    strict: bool = False
    skip_unknown: bool = False
    baseline: str | None = None

    def hold(self, page: Any, results: Results, **limits: Any) -> Any:
        """A page with what results lack, and what is not as in the file of a baseline.

        What is no worse and not as it was is a remark, where it is not `strict`.
        """
        from pefourier.questions.check_faithful import shortfalls
        from pefourier.writing.page import Reason

        reasons = [
            Reason(a.encoding.label, "unmet", words)
            for a in results.answers
            for words in shortfalls(a.result, strict=self.strict, **limits)
        ]
        remarks: list[Any] = []
        if self.baseline is not None:
            from pefourier.report.baseline import judge, read_baseline

            worse, remarks = judge(read_baseline(self.baseline, page.command), results.per_spec)
            reasons += worse
        if self.strict:
            reasons, remarks = reasons + remarks, []
        return replace(page, reasons=reasons, remarks=remarks)


def print_and_exit(page: Any, results: Results, output: OutputOptions, quiet: bool = False) -> None:
    """Print a page and why it says "no"; end with status 2 for a refusal, 1 for such a reason."""
    for remark in page.remarks:
        note(remark.text, quiet)
    output.print(page)
    for reason in () if quiet and output.name == "lint" else page.reasons:
        note(reason.text)
    if results.refusals or page.reasons:
        raise typer.Exit(2 if results.refusals else 1)


def spec_names(incomplete: str) -> list[str]:
    """How a SPEC may go on, for the shell's completion: a name, or behind it a parameter.

    >>> spec_names("sinus"), spec_names("rope:rho=5e5,lay")
    (['sinusoidal'], ['rope:rho=5e5,layout='])
    """
    from pefourier.report.catalogue import read_catalogue

    params = {record["encoding"]: record["params"] for record in read_catalogue()}
    name, colon, text = incomplete.partition(":")
    last = text.rpartition(",")[2]
    offers = [f"{key}=" for key in params.get(name, ())] if colon else params
    before = incomplete.removesuffix(last) if colon else ""
    return [before + offer for offer in offers if offer.startswith(last if colon else name)]


def count(text: str) -> int:
    """A whole number as people write it, for an option."""
    from pefourier.writing.text import whole_number

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


def options_of(program: Any) -> list[tuple[str, Any]]:
    """Options with the command that has them, those of the program itself first."""
    parts = {"pefourier": program, **program.commands}.items()
    return [(name, p) for name, part in parts for p in part.params if hasattr(p, "is_flag")]
