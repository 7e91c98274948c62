"""What commands are asked in common: about which encodings, and in which form to answer.

A command under `asking` takes dataclasses whose fields are options, such as `Question` and `Form`,
and options of its own.
"""

import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial, wraps
from importlib import import_module
from typing import Any, Literal

import typer

from pefourier.cli.options import as_typed
from pefourier.cli.overwriting import refuse_overwriting
from pefourier.cli.streams import coloured, draws_dots, note, say, takes_colours
from pefourier.errors import PefourierError, UnknownPositions, shown

WIDTHS = {"column": 3.4, "page": 7.0}  # inches, of papers in two columns
NARROWEST, WIDEST = 3.0, 40.0  # inches
ANNOTATIONS = {"github", "sarif"}  # forms that other programs show beside a file


@dataclass(frozen=True)
class Question:
    """The options that analysing commands share: which encodings."""

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
    def wanted(self) -> list[str]:
        """The SPECs; where none is given sinusoidal, and dft where no times are."""
        return list(self.specs or (["sinusoidal", "dft"] if self.times is None else ["sinusoidal"]))

    @property
    def rotations(self) -> list[str]:
        """The SPECs, of a config with several rotations one of each."""
        from pefourier.encodings.specs import specs_of_rotations

        return [one for spec in self.wanted for one in specs_of_rotations(spec)]

    def options(self) -> dict[str, Any]:
        """What is said for all SPECs; options that suit none are refused here."""
        from pefourier.encodings.checks import check_above, check_count

        options: dict[str, Any] = {"rho": self.rho, "seed": self.seed}
        if self.rho is not None:
            check_above("rho", self.rho)
        if self.seed is not None:
            check_count("seed", self.seed, least=0, most=2**32 - 1)
        if self.times is not None:
            from pefourier.encodings.sources.tables import read_numbers
            from pefourier.encodings.specs import refuse_times

            options["times"] = read_numbers(self.times)
            refuse_times(self.wanted)
        if self.wanted.count("-") > 1:
            raise PefourierError("standard input ('-') can be read once; name it once")
        options |= {"grid": self.grid or (), "prefix": self.prefix or 0}
        if len(self.grid or ()) == 1:
            self.note_one_side()
        return options

    def sources(self, *, whole: bool = False) -> list[Any]:
        """The SPECs with what is said for all: each rotation of a config, or the `whole`."""
        from pefourier.questions import WithDefaults

        options, placed = self.options(), partial(note_grids, quiet=self.quiet)
        specs = self.wanted if whole else self.rotations
        return [WithDefaults(spec, options, placed) for spec in specs]

    def note_one_side(self) -> None:
        """Say what a single side is where an encoding has a grid of its own."""
        from pefourier.encodings.registry import BUILDERS

        (side,) = self.grid
        for spec in self.wanted:
            builder = BUILDERS.get(spec.partition(":")[0])
            if builder is not None and "grid" in builder.parameters:
                line = f"--grid {side} is one axis of {side} points"
                note(f"{spec}: {line}; a square is --grid {side}x{side}", self.quiet)

    def note_unused(self, encodings: list[Any]) -> None:
        """Say which options have had no effect on any of the encodings."""
        self.note_times_unused(encodings)
        for name in ("d", "length", "rho", "seed"):
            value = getattr(self, name)
            sizes = {"d": [e.dim for e in encodings], "length": list(map(len, encodings))}
            keys = (name, "embedding") if name == "d" else (name,)  # tupe's d is that of the model
            own = [e.params[k] for e in encodings for k in keys if e.params.get(k) is not None]
            if value is not None and value not in [*sizes.get(name, []), *own]:
                labels = ", ".join(e.label for e in encodings)
                note(f"--{name} {value} has no effect on {labels}", self.quiet)

    def note_times_unused(self, encodings: list[Any]) -> None:
        """Say which encodings have positions, though times were given for others."""
        labels = [e.label for e in encodings if e.params.get("times") is None]
        if self.times is not None and labels:
            have = "has" if len(labels) == 1 else "have"
            line = f"{', '.join(labels)} {have} positions 0, 1, …, not the times of {self.times}"
            note(line, self.quiet)

    def note_faults_of_points(self, encodings: list[Any]) -> None:
        """Say what is wrong with points that were given, where no answer lists findings."""
        for enc in encodings if self.times is not None else ():
            for finding in enc.findings:
                note(f"{enc.label}: {finding.message}", self.quiet)


def note_grids(enc: Any, quiet: bool) -> Any:
    """An encoding, with a note of the grid that its rows may have."""
    for finding in enc.findings:
        if finding.code in ("grid-unknown", "window-biases"):
            note(f"{enc.label}: {finding.message}", quiet)
    return enc


@dataclass(frozen=True)
class Drawing:
    """The options of commands that draw: where to, and how it is to look."""

    plot: str | None = None
    width: str | None = None
    dpi: int | None = None
    title: str | None = None
    dark: bool = False

    def __post_init__(self) -> None:
        """Refuse a figure that could not be written, before anything is computed."""
        if self.plot is not None:
            from pefourier.files import check_suffix

            check_suffix(self.plot, (".png", ".pdf", ".svg"))
            self.inches()
        elif self.looks:
            names = " and ".join(f"--{name}" for name in self.looks)
            raise PefourierError(f"{names} say how a figure is to look; give --plot FILE too")

    @property
    def looks(self) -> dict[str, Any]:
        """What was asked of the look."""
        names = ("width", "dpi", "title", "dark")
        given = {name: getattr(self, name) for name in names}
        return {name: value for name, value in given.items() if value not in (None, False)}

    def inches(self) -> float | None:
        """The width in inches, None where it is not given."""
        if self.width is None:
            return None
        try:
            wide = WIDTHS.get(self.width) or float(self.width)
        except ValueError:
            wide = float("nan")
        if not NARROWEST <= wide <= WIDEST:
            raise PefourierError(
                f"--width must be column ({WIDTHS['column']} inches), page ({WIDTHS['page']}) or "
                f"inches from {NARROWEST} to {WIDEST}; got {shown(self.width)}"
            )
        return wide

    def draw(self, figure: str, answers: list[Any]) -> None:
        """Write a figure if one was asked for; matplotlib is imported only then.

        The figure is that of a room of `answers`, or the function that is named behind it.
        """
        if self.plot is None:
            return

        from pefourier.answers import plot

        room, _, name = figure.partition(".")
        look = {}
        if self.looks:
            theme = plot.DARK if self.dark else plot.USUAL
            dpi, title = self.dpi or theme.dpi, self.title or ""
            look["look"] = replace(theme, width=self.inches(), dpi=dpi, title=title)
        own = import_module(f"pefourier.answers.{room}")
        draw = getattr(own, name) if name else own.TOLD.figure
        plot.save(self.plot, draw, answers, **look)


def spare_threads(specs: Sequence[str] = ()) -> None:
    """Give BLAS one thread where it would wait for others, if numpy is not loaded yet.

    Matrix products are long and thin in reconstruct and design; in check-faithful where all SPECs
    have declared frequencies, whose two parts are decomposed at a time.
    """
    from pefourier.answers.catalogue import read_catalogue

    records = read_catalogue() if specs else ()
    known = {one["encoding"] for one in records if one["measure"] == "declared"}
    if all(spec.partition(":")[0] in known for spec in specs):
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@dataclass(frozen=True)
class Asked:
    """What was found for each SPEC, in the order given: an answer, or why there is none."""

    each: list[Any]

    @property
    def answers(self) -> list[Any]:
        """The SPECs that were answered."""
        return [one for one in self.each if hasattr(one, "encoding")]

    def finish(self, reasons: list[Any], told: bool = False) -> None:
        """End with status 1 for what was required and does not hold, 2 for a SPEC refused."""
        for reason in () if told else reasons:
            note(reason.text)
        if len(self.answers) < len(self.each):
            raise typer.Exit(2)
        if reasons:
            raise typer.Exit(1)


def ask_each(question: Question, ask: Callable[..., Any], *, skip: bool = False) -> Asked:
    """Ask a question of `pefourier.questions` about each SPEC."""
    from pefourier.answers.telling import answer_of

    def answer(source: Any) -> Any:
        return answer_of(ask(source, length=question.length, d=question.d))

    return keep_answers(attempt_each(question.sources(), answer, skip, question.quiet))


def answers_of(baseline: str | None, command: str) -> Mapping[str, Any] | None:
    """The answers of a baseline; None where none is given, whose room is then not opened."""
    if baseline is None:
        return None
    from pefourier.answers.baseline import read_baseline

    return read_baseline(baseline, command)


def deliver_held(
    page: Any,
    asked: Asked,
    lacking: Callable[[Any], Sequence[str]],
    stored: Mapping[str, Any] | None,
    form: "Form",
    quiet: bool,
    strict: bool = False,
) -> None:
    """Deliver a page with what its results lack, and what is not as in a baseline; end with 1 so.

    What is no worse and not as it was is a remark, where it is not `strict`.
    """
    from pefourier.writing.page import Reason

    unmet = [(a.encoding.label, words) for a in asked.answers for words in lacking(a.result)]
    reasons, remarks = [Reason(label, "unmet", words) for label, words in unmet], []
    if stored is not None:
        from pefourier.answers.baseline import judge

        worse, remarks = judge(stored, asked.each)
        reasons += worse
    if strict:
        reasons, remarks = reasons + remarks, []
    for one in remarks:
        note(one.text, quiet)
    form.deliver(replace(page, reasons=reasons, remarks=remarks))
    asked.finish(reasons, told=quiet and form.form == "lint")


def attempt_each(
    items: Sequence[Any], find: Callable[[Any], Any], skip: bool = False, quiet: bool = False
) -> list[Any]:
    """What is found for each SPEC or encoding, or its refusal; refusals stay as they are.

    With `skip` configs that set no positions which could be answered for are passed over, with a
    note unless `quiet`.
    """
    from pefourier.answers.telling import Refusal

    found = []
    for item in items:
        try:
            found.append(item if isinstance(item, Refusal) else find(item))
        except PefourierError as error:
            if skip and isinstance(error, UnknownPositions):
                note(f"skipped: {error}", quiet)
                continue
            if len(items) == 1:
                raise  # with where it happened, for --debug
            found.append(Refusal(getattr(item, "spec", item), str(error)))
    if not found:
        note("all were skipped; nothing was checked", quiet)
        raise typer.Exit(0)
    return found


class NothingAnswered(PefourierError):
    """Several SPECs, and each was refused."""

    def __init__(self, refused: Sequence[Any], reason: str) -> None:
        super().__init__(reason)
        self.refused = refused


def keep_answers(each: list[Any]) -> Asked:
    """Say on stderr what was refused; where nothing is left the last reason is raised."""
    asked = Asked(each)
    refused = [one for one in each if one not in asked.answers]
    said = list(dict.fromkeys(one.error for one in refused))  # once
    if not asked.answers:
        for reason in said[:-1]:
            note(reason)
        raise NothingAnswered(refused, said[-1])
    for one in refused:
        named = shown(one.spec) in one.error
        note(one.error if named else f"{shown(one.spec)}: {one.error}")
    return asked


def check_number(question: Question, count: int, rule: str) -> None:
    """Refuse another number of SPECs than a command takes."""
    given = question.specs or []
    if len(given) != count:
        raise PefourierError(f"{rule}; got {len(given)}: {' '.join(map(shown, given)) or 'none'}")


BETWEEN = " (times between: --times FILE, as with sinusoidal)"


def parse_whole_numbers(texts: list[str]) -> list[int]:
    """Positions, whole numbers from 0 on, given one by one or separated by commas."""
    from pefourier.writing.text import whole_number

    numbers = []
    for text in ",".join(texts).split(","):
        value = whole_number(text)
        if value is None or not 0 <= value < 2**53:
            raise PefourierError(
                f"--pos takes whole numbers from 0 on, such as 5,40,75; got {shown(text)}{BETWEEN}"
            )
        numbers.append(value)
    return numbers


def parse_points(texts: list[str] | None) -> list[tuple[int, ...]]:
    """Points, each of whole numbers from 0 on with commas between, or rows of a file of numbers.

    >>> parse_points(["3,4", "10,2"])
    [(3, 4), (10, 2)]
    """
    from pefourier.encodings.sources.formats import READERS
    from pefourier.encodings.sources.tables import split_spec

    points = []
    for text in texts or []:
        path = split_spec(text)[0]
        suffix = os.path.splitext(path)[1].lower()
        if suffix in READERS or (suffix and os.path.isfile(path)):
            points += points_of_file(text)
        else:
            points.append(tuple(parse_whole_numbers([text])))
    return points


def points_of_file(path: str) -> list[tuple[int, ...]]:
    """The rows of a file of whole numbers from 0 on: positions, or points of several columns."""
    from pefourier.encodings.sources.tables import read_numbers

    numbers = read_numbers(path)
    unusual = numbers[~((numbers >= 0) & (numbers < 2**53) & (numbers % 1 == 0))]
    if len(unusual):
        raise PefourierError(
            f"--pos takes whole numbers from 0 on; {shown(path)} holds {unusual[0]:g}{BETWEEN}"
        )
    rows = numbers.astype(int).reshape(len(numbers), -1)
    return list(map(tuple, rows.tolist()))


@dataclass(frozen=True)
class Form:
    """The form of an answer: words, unless one of these options names another of `forms.FORMS`."""

    as_json: bool = False
    as_csv: bool = False
    form: Literal["text", "json", "csv", "github", "sarif", "lint", "md", "latex"] | None = None

    def __post_init__(self) -> None:
        """Refuse an answer in two forms, before anything is computed."""
        if len(self.chosen) > 1:
            options = " and ".join(self.chosen)
            raise PefourierError(f"{options} exclude each other; give one")

    @property
    def chosen(self) -> list[str]:
        """Options that name a form."""
        flags = {"--json": self.as_json, "--csv": self.as_csv}
        named = [f"--format {self.form}"] if self.form else []
        return [*(name for name, given in flags.items() if given), *named]

    @property
    def name(self) -> str:
        """The form that was chosen, a key of `forms.FORMS`."""
        (option,) = self.chosen or ["text"]
        return option.removeprefix("--").removeprefix("format ")

    def deliver(self, page: Any) -> None:
        """Print a page in the form asked for; on a terminal curves come before the numbers."""
        from pefourier.answers.forms import FORMS
        from pefourier.writing.page import beginning

        if self.name != "text":
            say(FORMS[self.name](page))
            return
        colour, said = takes_colours(sys.stdout), beginning(page)
        chart = page.chart(colour) if page.chart and draws_dots(sys.stdout) else ""
        say((coloured(said) if colour else said) + chart + page.words())


def page_of_refusals(
    command: Callable[..., None], values: Mapping[str, Any], error: PefourierError
) -> Any:
    """What other programs show where nothing could be answered."""
    from pefourier.answers.telling import Refusal
    from pefourier.writing.page import Page

    given = values.get("specs") or ()
    refused = [Refusal(given[0] if len(given) == 1 else "", str(error))]
    if isinstance(error, NothingAnswered):
        refused = error.refused
    return Page(command.__name__.replace("_", "-"), str, lambda: refused)


def as_path(argument: str) -> str:
    """An argument as a SPEC that can only be read as the path that it is.

    >>> as_path("models/a/config.json"), as_path("py:evil:f.npy"), as_path("dft")
    ('models/a/config.json', './py:evil:f.npy', './dft')
    """
    unmistakable = ":" not in argument and ("/" in argument or "." in argument)
    as_it_is = unmistakable or not argument or os.path.isabs(argument)
    return argument if as_it_is else f"./{argument}"


def note_files_of_names(values: Mapping[str, Any]) -> None:
    """Say where a name of an encoding that was typed is also that of a file or folder."""
    typed = [*(values.get("specs") or ()), *(values.get(key) for key in ("spec", "extend_from"))]
    for spec in dict.fromkeys(one for one in typed if one and os.path.exists(one)):
        from pefourier.encodings.specs import source_of

        if source_of(spec) == "name" and ":" not in spec:
            kind = "folder" if os.path.isdir(spec) else "file"
            note(
                f"there is also a {kind} {spec}: write ./{spec} for it", values.get("quiet", False)
            )


def asking(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options in the fields of its dataclasses, beside its own options."""
    parameters = inspect.signature(command).parameters.values()
    groups = {p.name: p.annotation for p in parameters if is_dataclass(p.annotation)}
    kind = inspect.Parameter.KEYWORD_ONLY
    typed_as = partial(as_typed, command.__name__)
    own = [
        p.replace(kind=kind, annotation=typed_as(p.name, p.annotation))
        for p in parameters
        if p.name not in groups
    ]
    shared = [
        inspect.Parameter(f.name, kind, default=f.default, annotation=typed_as(f.name, f.type))
        for group in groups.values()
        for f in fields(group)
    ]

    @wraps(command)
    def typed(**values: Any) -> None:
        try:
            fill(values)
        except PefourierError as error:
            if values.get("form") in ANNOTATIONS:
                Form(form=values["form"]).deliver(page_of_refusals(command, values, error))
            raise

    def fill(values: dict[str, Any]) -> None:
        if values.get("paths"):
            if not values["specs"]:
                raise PefourierError("--paths takes paths of files and folders; got none")
            values["specs"] = [as_path(one) for one in values["specs"]]
        note_files_of_names(values)
        refuse_overwriting(values)
        given = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
        filled = {
            name: group(**{f.name: given.pop(f.name) for f in fields(group)})
            for name, group in groups.items()
        }
        command(**filled, **{p.name: values[p.name] for p in own})

    typed.__signature__ = inspect.Signature([*shared[:1], *own, *shared[1:]])
    typed.__annotations__ = {p.name: p.annotation for p in [*own, *shared]}
    return typed
