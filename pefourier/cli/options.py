"""Groups of options that commands share, and parsing of their values.

The fields of a group become options of each command that uses it, under its heading: see
`flatten`. Groups are dataclasses without comparison and not frozen, because creating those
would take a millisecond at each start.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    TypeVar,
    dataclass_transform,
)

import typer
from typer import Argument, Option

from pefourier.cli.process import (
    coloured,
    note,
    say,
)
from pefourier.errors import PefourierError, UnknownPositions, shown
from pefourier.types import Counts, Fields, Strings
from pefourier.writing.text import printable, read_sides, whole_number

if TYPE_CHECKING:
    from pefourier.encodings.encoding import Encoding
    from pefourier.writing.page import Page, Reason

SHORT_NAMES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp8": "float8_e4m3"}
OF_POINTS = ("times", "edges")  # options whose files define the points
Kind = TypeVar("Kind")
ANNOTATIONS = {"github", "sarif"}  # forms that other programs show next to a file


@dataclass_transform()
def group(kind: type[Kind]) -> type[Kind]:
    """Make a dataclass of options; without comparison, which would take a millisecond each."""
    return dataclass(eq=False, repr=False)(kind)


def spec_names(incomplete: str) -> list[str]:
    """Complete a SPEC for the shell: a name, or a parameter after a name.

    >>> spec_names("sinus"), spec_names("rope:rho=5e5,lay")
    (['sinusoidal'], ['rope:rho=5e5,layout='])
    """
    from pefourier.report.catalogue import read_catalogue

    params = {record["encoding"]: record["params"] for record in read_catalogue()}
    name, colon, text = incomplete.partition(":")
    before = incomplete.removesuffix(text.rpartition(",")[2]) if colon else ""
    offers = [f"{before}{key}=" for key in params.get(name, ())] if colon else params
    return [offer for offer in offers if offer.startswith(incomplete)]


def count(text: str) -> int:
    """Parse a whole number, for an option."""
    value = whole_number(text)
    if value is None:
        raise typer.BadParameter(
            f"{shown(text)} is not a whole number such as 4096, 3e5 or 128k (131072)"
        )
    return value


def sides(text: str) -> Counts:
    """Parse the sides of a grid such as 14x14, for an option."""
    try:
        return read_sides(text)
    except PefourierError as error:
        raise typer.BadParameter(str(error)) from error


def point(text: str) -> Counts:
    """Parse a point of a grid such as 3,4, or positions such as 5,40,75, for an option.

    >>> point("10,2")
    (10, 2)
    """
    numbers = [whole_number(part) for part in text.split(",")]
    found = tuple(n for n in numbers if n is not None and 0 <= n < 2**53)
    if len(found) < len(numbers):
        raise typer.BadParameter(
            f"must be whole numbers from 0 on, such as 5,40,75; got {shown(text)} (times between: "
            "--times FILE, as with sinusoidal)"
        )
    return found


def format_name(text: str) -> str:
    """Expand a format such as ``bf16:computed`` to ``bfloat16:computed``, for an option."""
    name, colon, how = text.partition(":")
    full = SHORT_NAMES.get(name, name)
    if full not in SHORT_NAMES.values() or (colon and how != "computed"):
        names = ", ".join([*SHORT_NAMES.values(), *SHORT_NAMES])
        raise typer.BadParameter(f"{shown(text)} must be one of {names}, optionally with :computed")
    return full + colon + how


def layer_range(text: str) -> range:
    """Parse a range of layers that includes both ends (0-7), or a single layer."""
    numbers = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", text)
    if numbers is None or int(numbers[2] or numbers[1]) < int(numbers[1]):
        raise typer.BadParameter(f"{shown(text)} is not a layer or a range such as 0-7")
    return range(int(numbers[1]), int(numbers[2] or numbers[1]) + 1)


def as_path(argument: str) -> str:
    """Return an argument as a SPEC that can only be read as a path.

    >>> as_path("models/a/config.json"), as_path("py:evil:f.npy"), as_path("dft")
    ('models/a/config.json', './py:evil:f.npy', './dft')
    """
    unmistakable = ":" not in argument and ("/" in argument or "." in argument)
    return argument if unmistakable or Path(argument).is_absolute() else f"./{argument}"


WholeNumber = Annotated[int | None, Option(metavar="N", parser=count)]
Length = Annotated[int | None, Option("--length", "-S", metavar="N", parser=count)]
GridSides = Annotated[Sequence[int] | None, Option(metavar="HxW", parser=sides)]
File = Annotated[str | None, Option(metavar="FILE")]
Dimension = Annotated[WholeNumber, "Dimension of a vector (default: 256)."]
Prefix = Annotated[
    WholeNumber,
    "Number of rows before the grid that have no place on it: class, register and "
    "distillation tokens.",
]
Specs = Annotated[
    list[str] | None,
    Argument(metavar="SPEC", autocompletion=spec_names),
    "Encodings: NAME, NAME:key=value,…, PATH[#ARRAY] (.npy .npz .csv .pt .safetensors), - for "
    "standard input, a Hugging Face config.json or model folder (append #vision_config for the "
    "vision tower), model.gguf, or py:module:function (runs your code). 'pefourier list' shows "
    "the names.",
]
Paths = Annotated[
    bool,
    "Treat every argument as the path of a file or folder, whatever it looks like; write -- "
    "before the paths. For hooks and scripts that receive names from others.",
]
TypedPoints = Annotated[
    list[Any] | None,
    Option("--pos", "--positions", metavar="POS...", parser=point),
    "Positions, such as 5 40 75 or 5,40,75; on a grid, points such as 3,4.",
]
Lattice = Annotated[
    WholeNumber,
    "Number N of lattice points, on a grid along each axis (default: the dimension d, or the "
    "length if you pass a longer one or a config sets it; the sides of a grid).",
]
Sigma = Annotated[
    float | None,
    "Smoothing bandwidth in lattice steps; 0 turns smoothing off. A larger bandwidth blurs "
    "frequencies, not positions: the peaks of reconstruct get narrower (default: 4, on a grid 1).",
]


@group
class FigureOptions:
    """Path and style of a figure."""

    heading = "Figures"

    plot: Annotated[File, "Write a figure: .png, .pdf or .svg."] = None
    width: Annotated[
        float | None,
        Option(metavar="INCHES"),
        "Width of the figure in inches: 3.4 for one column of a paper, 7 for a full page.",
    ] = None
    dpi: Annotated[
        int | None, Option(min=20, max=2400), "Dots per inch of a .png (default: 200)."
    ] = None
    title: Annotated[str | None, Option(metavar="TEXT"), "Title above the figure."] = None

    def __post_init__(self) -> None:
        """Raise before any computation if the figure cannot be written."""
        if self.plot is not None:
            from pefourier.writing.files import check_suffix

            check_suffix(self.plot, (".png", ".pdf", ".svg"))
        elif self.width or self.dpi or self.title:
            raise PefourierError("--width, --dpi and --title need a figure; pass --plot FILE, too")
        if self.width is not None and not 3 <= self.width <= 40:
            raise PefourierError(f"--width must be 3 to 40 inch, got {self.width}")

    def draw(self, results: Outcomes, **drawing: Any) -> None:
        """Write the figure of all answers if requested; matplotlib is imported only then."""
        if self.plot is None:
            return
        if results.refusals:
            note(f"{shown(self.plot)} was not written: a figure needs answers for all SPECs")
            return
        from pefourier.report import plot

        look = plot.Look(self.width, self.dpi or plot.Look.dpi, self.title or "")
        draw = partial(type(results.answers[0].result).draw, **drawing)
        plot.save(self.plot, draw, results.answers, look)


@group
class OutputOptions:
    """Form of an answer: text by default, or another of `forms.FORMS`."""

    heading = "Answers"
    full = True

    quiet: Annotated[bool, Option("--quiet", "-q"), "No progress or notes on stderr."] = False
    as_json: Annotated[bool, Option("--json"), "Answer in JSON."] = False
    as_csv: Annotated[bool, Option("--csv"), "Answer in CSV."] = False
    form: Annotated[
        Literal["github", "sarif", "lint", "md", "latex"] | None,
        Option("--format"),
        "Output format: github and sarif report findings to GitHub Actions and code scanning, "
        "lint prints one line per error or warning, md is for documents, latex writes one table.",
    ] = None

    def __post_init__(self) -> None:
        """Raise before any computation if two forms are requested."""
        chosen = {"json": self.as_json, "csv": self.as_csv, self.form: self.form is not None}
        forms = [name for name, is_chosen in chosen.items() if name and is_chosen]
        if len(forms) > 1:
            raise PefourierError(f"forms {' and '.join(forms)} exclude each other; pass one")
        self.name = forms[0] if forms else "text"  # a key of `forms.FORMS`, or text

    def print(self, page: Page) -> None:
        """Print a page in its form; on a terminal, curves precede the numbers."""
        from pefourier.report.forms import FORMS

        if self.name != "text":
            say(FORMS[self.name](page))
            return
        is_terminal, dumb = sys.stdout.isatty(), os.environ.get("TERM") == "dumb"
        colour = is_terminal and not dumb and not os.environ.get("NO_COLOR")
        body = page.words if self.full or page.short is None else page.short
        texts = (page.conclusion(), body())
        conclusion, words = ("\n".join(map(printable, text.split("\n"))) for text in texts)
        if conclusion:
            conclusion += "\n"  # an empty line
        has_blocks = "utf" in (sys.stdout.encoding or "").lower()
        chart = page.chart() if has_blocks and is_terminal else ""
        say((coloured(conclusion) if colour else conclusion) + chart + words)


@group
class AnswerOptions(OutputOptions):
    """Form of an answer with measurements."""

    full: Annotated[bool, "Print all measurements, not only those that the verdict rests on."] = (
        False
    )


@group
class EncodingOptions:
    """Encodings and their common settings."""

    heading = "Encodings"

    specs: Specs = None
    d: Dimension = None
    length: Annotated[
        Length,
        "Number of positions, such as 4096, 3e5, 128k (131072) or 1M (default: 80; for a file, "
        "all its rows).",
    ] = None
    grid: Annotated[
        GridSides,
        "Sides of the grid whose points are the rows, such as 14x14 (rows x columns) or 8x30x52 "
        "(frames x rows x columns); the last axis varies fastest.",
    ] = None
    prefix: Prefix = None
    rho: Annotated[
        float | None,
        Option("--rho", "--base", "--theta"),
        "Base of geometric frequencies, also called rope_theta (default: 10000).",
    ] = None
    seed: Annotated[int | None, "Seed of random encodings."] = None
    times: Annotated[
        File,
        "File of irregular times (.csv, .npy): one column of numbers for sinusoidal, mtan, "
        "mtan-fixed and time2vec; for fourier-features one column per axis, such as latitude and "
        "longitude.",
    ] = None
    edges: Annotated[File, "File of edges of a graph: two columns, node numbers from 0 on."] = None
    paths: Paths = False

    @property
    def names(self) -> list[str]:
        """SPECs, by default sinusoidal and, without times, dft."""
        return self.specs or (["sinusoidal", "dft"] if self.times is None else ["sinusoidal"])

    @property
    def sizes(self) -> Fields:
        """Length and dimension."""
        return {"length": self.length, "d": self.d}

    def defaults(self) -> Fields:
        """Parameters for all SPECs that have them."""
        if self.names.count("-") > 1:
            raise PefourierError("standard input ('-') can be read once; name it once")
        defaults: Fields = {"rho": self.rho, "seed": self.seed}
        defaults |= {"grid": self.grid or (), "prefix": self.prefix or 0}
        for name in [name for name in OF_POINTS if getattr(self, name) is not None]:
            from pefourier.encodings.loader import read_points

            defaults[name] = read_points(name, getattr(self, name), self.names)
        return defaults

    def sources(self, *, split: bool = True) -> list[Any]:
        """Return the SPECs with common settings; `split` configs with several rotations."""
        from pefourier.encodings.loader import SpecWithDefaults, specs_of_rotations

        specs = [s for name in self.names for s in (specs_of_rotations(name) if split else [name])]
        defaults = self.defaults()
        return [SpecWithDefaults(spec, defaults) for spec in specs]

    def note_without_effect(self, encodings: Sequence[Encoding], *, quiet: bool) -> None:
        """Note options that affect none of the encodings, and points that lack effect on any."""
        for name in ("d", "length", "rho", "seed", *OF_POINTS):
            if (value := getattr(self, name)) is not None:
                without = [enc.label for enc in encodings if not has_setting(enc, name, value)]
                if without and (name in OF_POINTS or len(without) == len(encodings)):
                    note(f"--{name} {value} has no effect on {', '.join(without)}", quiet=quiet)


def has_setting(enc: Encoding, name: str, value: Any) -> bool:
    """Whether an option's value is the value of a parameter or a size of an encoding."""
    if name in OF_POINTS:
        return enc.params.get(name) is not None
    sizes = {"d": (enc.dim, enc.params.get("embedding")), "length": (len(enc),)}
    return value in (enc.params.get(name), *sizes.get(name, ()))


@group
class Outcomes:
    """Answer or refusal for each SPEC, in the given order."""

    per_spec: list[Any]

    @property
    def answers(self) -> list[Any]:
        """Answers to the SPECs that were answered."""
        return [result for result in self.per_spec if hasattr(result, "encoding")]

    @property
    def refusals(self) -> list[Any]:
        """Refusals of the SPECs that were not answered."""
        return [result for result in self.per_spec if hasattr(result, "error")]


def answer_each(
    sources: Sequence[Any], ask: Callable[[Any], Any], *, quiet: bool, skip: bool = False
) -> Outcomes:
    """Answer each SPEC, or note its refusal; raise if all are refused.

    With `skip`, configs without a known positional encoding are skipped.
    """
    from pefourier.report.render import Refusal

    results = Outcomes([])
    for source in sources:
        try:
            results.per_spec.append(ask(source))
        except PefourierError as error:
            if skip and isinstance(error, UnknownPositions):
                note(f"skipped: {error}", quiet=quiet)
                continue
            if len(sources) == 1:
                raise  # keep the traceback for --debug
            results.per_spec.append(Refusal(getattr(source, "spec", source), str(error)))
    if not results.per_spec:
        note("all were skipped; nothing was checked", quiet=quiet)
        raise typer.Exit(0)
    if not results.answers:
        *reasons, last = dict.fromkeys(refusal.error for refusal in results.refusals)
        for reason in reasons:
            note(reason)
        raise PefourierError(last, results.refusals)
    for refusal in results.refusals:
        spec = shown(refusal.spec)
        note(refusal.error if spec in refusal.error else f"{spec}: {refusal.error}")
    return results


@group
class Requirements:
    """Checks that apply to the answer to any question."""

    strict: Annotated[
        bool,
        "Exit with status 1 on any error or warning and, for context with --length, if the length "
        "exceeds what the model was made for; with --baseline, also on any change from the "
        "baseline.",
    ] = False
    skip_unknown: Annotated[
        bool,
        "Skip, with a note, any config.json that is not a model's, or that does not define a "
        "positional encoding.",
    ] = False
    baseline: Annotated[
        File,
        "Earlier answer, written with --json. Exit with status 1 if a verdict, a distance or a "
        "finding is worse than in that answer, or if rotations, layers, windows or factors of a "
        "model have changed.",
    ] = None

    def check(self, page: Page, results: Outcomes, **limits: str | None) -> Page:
        """Return a page with unmet requirements and changes from a baseline.

        Changes that are not worse are remarks, unless `strict`.
        """
        from pefourier.writing.page import Reason

        reasons: list[Reason] = []
        remarks: list[Reason] = []
        if self.strict or any(limits.values()):
            from pefourier.questions.check_faithful import shortfalls

            for a in results.answers:
                unmet = shortfalls(a.result, strict=self.strict, **limits)
                reasons += [Reason(a.encoding.label, "unmet", words) for words in unmet]
        if self.baseline is not None:
            from pefourier.report.baseline import judge, read_baseline

            worse, remarks = judge(read_baseline(self.baseline, page.command), results.per_spec)
            reasons += worse
        if self.strict:
            reasons, remarks = reasons + remarks, []
        return replace(page, reasons=reasons, remarks=remarks)


def answer_specs(
    question: Callable[..., Any],
    options: EncodingOptions,
    output: AnswerOptions,
    figure: FigureOptions,
    *,
    check: Callable[[Page, Outcomes], Page] = lambda page, _: page,
    skip: bool = False,
    **drawing: Any,
) -> None:
    """Ask a question of `pefourier.api` about each SPEC; draw, check and print the answers.

    Notes name options that have no effect on any of the encodings.
    """
    from pefourier.report.render import answer_of, page_of

    def ask(source: Any) -> Any:
        return answer_of(question(source, **options.sizes))

    results = answer_each(options.sources(), ask, quiet=output.quiet, skip=skip)
    page = check(page_of(results.per_spec, **drawing), results)
    figure.draw(results, **drawing)
    if not results.refusals:
        options.note_without_effect([a.encoding for a in results.answers], quiet=output.quiet)
    print_and_exit(page, results, output)


def print_result(
    result: Any,
    output: OutputOptions,
    figure: FigureOptions,
    reasons: Sequence[Reason] = (),
) -> None:
    """Draw and print one result, or the results of each axis of a grid."""
    from pefourier.report.render import answer_of, page_of

    parts = result if isinstance(result, tuple) else (result,)
    results = Outcomes(list(map(answer_of, parts)))
    figure.draw(results)
    output.print(replace(page_of(results.per_spec), reasons=reasons))


def print_and_exit(page: Page, results: Outcomes, output: OutputOptions) -> None:
    """Print a page and its reasons; exit with status 2 for a refusal, 1 for another reason."""
    for remark in page.remarks:
        note(remark.text, quiet=output.quiet)
    output.print(page)
    for reason in () if output.quiet and output.name == "lint" else page.reasons:
        note(reason.text)
    if results.refusals or page.reasons:
        raise typer.Exit(2 if results.refusals else 1)


def check_count_of_specs(options: EncodingOptions, required: int, rule: str) -> None:
    """Raise if the number of SPECs is not what the command expects."""
    specs = options.specs or []
    if len(specs) != required:
        raise PefourierError(f"{rule}; got {len(specs)}: {' '.join(map(shown, specs)) or 'none'}")


def spare_threads(specs: Strings = ()) -> None:
    """Limit BLAS to one thread where more threads would wait, if numpy is not loaded yet.

    Matrix products are long and thin in reconstruct and design, and in check-faithful if all SPECs
    have declared frequencies, because two parts are then decomposed at the same time.
    """
    from pefourier.report.catalogue import read_catalogue

    records = read_catalogue() if specs else ()
    declared = {record["encoding"] for record in records if record["measure"] == "declared"}
    if all(spec.partition(":")[0] in declared for spec in specs):
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
