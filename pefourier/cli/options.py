"""Groups of options that commands share, and parsing of their values.

The fields of a group become options of each command that uses it, under its heading: see
`cli.registry`. Groups are dataclasses without comparison and not frozen, because creating those
would take a millisecond at each start.
"""

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

import typer
from typer import Argument, Option

from pefourier.cli.process import coloured, draws_dots, note, say, takes_colours
from pefourier.errors import PefourierError, shown
from pefourier.types import Counts, Fields
from pefourier.writing.text import printable_lines

if TYPE_CHECKING:
    from pefourier.encodings.encoding import Encoding
    from pefourier.writing.page import Page

SHORT_NAMES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp8": "float8_e4m3"}
NARROWEST, WIDEST = 3.0, 40.0  # width of a figure in inches
OF_POINTS = ("times", "places", "edges")  # options whose files define the points
ANNOTATIONS = {"github", "sarif"}  # forms that other programs show next to a file


def spec_names(incomplete: str) -> list[str]:
    """Complete a SPEC for the shell: a name, or a parameter after a name.

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
    """Parse a whole number, for an option."""
    from pefourier.writing.text import whole_number

    value = whole_number(text)
    if value is None:
        raise typer.BadParameter(
            f"{shown(text)} is not a whole number such as 4096, 3e5 or 128k (131072)"
        )
    return value


def sides(text: str) -> Counts:
    """Parse the sides of a grid such as 14x14, for an option."""
    from pefourier.writing.text import read_sides

    try:
        return read_sides(text)
    except PefourierError as error:
        raise typer.BadParameter(str(error)) from error


def point(text: str) -> Counts:
    """Parse a point of a grid such as 3,4, for an option."""
    if not re.fullmatch(r"\d{1,9}(,\d{1,9})*", text):
        raise typer.BadParameter(f"{shown(text)} is not a point; write whole numbers such as 3,4")
    return tuple(map(int, text.split(",")))


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


def parse_points(texts: list[str] | None) -> list[Counts]:
    """Parse points: whole numbers from 0 on, separated by commas.

    >>> parse_points(["3,4", "10,2"])
    [(3, 4), (10, 2)]
    """
    from pefourier.writing.text import whole_number

    points = []
    for text in texts or []:
        numbers = [whole_number(part) for part in text.split(",")]
        point = tuple(n for n in numbers if n is not None and 0 <= n < 2**53)
        if len(point) < len(numbers):
            raise PefourierError(
                f"--pos must be whole numbers from 0 on, such as 5,40,75; got {shown(text)} (times "
                "between: --times FILE, as with sinusoidal)"
            )
        points.append(point)
    return points


Count = Annotated[int | None, Option(metavar="N", parser=count)]
Length = Annotated[int | None, Option("--length", "-S", metavar="N", parser=count)]
Sides = Annotated[Sequence[int] | None, Option(metavar="HxW", parser=sides)]
File = Annotated[str | None, Option(metavar="FILE")]
Dimension = Annotated[Count, "Dimension of a vector (default: 256)."]
Prefix = Annotated[
    Count,
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
Gates = Annotated[File, "File of forget gates for fox, above 0 and up to 1: (n,) or (heads, n)."]
Points = Annotated[
    list[str] | None,
    Option("--pos", "--positions", metavar="POS..."),
    "Positions, such as 5 40 75 or 5,40,75; on a grid, points such as 3,4.",
]
Lattice = Annotated[
    Count,
    "Number N of lattice points, on a grid along each axis (default: the dimension d, or the "
    "length if you pass a longer one or a config sets it; the sides of a grid).",
]
Sigma = Annotated[
    float | None,
    "Smoothing bandwidth in lattice steps; 0 turns smoothing off. A larger bandwidth blurs "
    "frequencies, not positions: the peaks of reconstruct get narrower (default: 4, on a grid 1).",
]


@dataclass(eq=False, repr=False)
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
        names = [f"--{name}" for name in ("width", "dpi", "title") if getattr(self, name)]
        if self.plot is not None:
            from pefourier.writing.files import check_suffix

            check_suffix(self.plot, (".png", ".pdf", ".svg"))
        elif names:
            raise PefourierError(f"{' and '.join(names)} need a figure; pass --plot FILE as well")
        if self.width is not None and not NARROWEST <= self.width <= WIDEST:
            raise PefourierError(f"--width must be {NARROWEST} to {WIDEST} inch, got {self.width}")

    def draw(
        self, draw: Callable[..., Any], answers: Sequence[Any], refusals: Sequence[Any] = ()
    ) -> None:
        """Write the figure of all answers if requested; matplotlib is imported only then."""
        if self.plot is None:
            return
        if refusals:
            note(f"{shown(self.plot)} was not written: a figure needs answers for all SPECs")
            return
        from pefourier.report import plot

        look = plot.Look(self.width, self.dpi or plot.Look.dpi, self.title or "")
        plot.save(self.plot, draw, answers, look)


@dataclass(eq=False, repr=False)
class OutputOptions:
    """Form of an answer: text by default, or another of `forms.FORMS`."""

    heading = "Answers"

    quiet: Annotated[bool, Option("--quiet", "-q"), "No progress or notes on stderr."] = False
    as_json: Annotated[bool, Option("--json"), "Answer in JSON."] = False
    as_csv: Annotated[bool, Option("--csv"), "Answer in CSV."] = False
    form: Annotated[
        Literal["text", "json", "csv", "github", "sarif", "lint", "md", "latex"] | None,
        Option("--format"),
        "Output format: github and sarif report findings to GitHub Actions and code scanning, "
        "lint prints one line per error or warning, md and latex are for documents.",
    ] = None

    def __post_init__(self) -> None:
        """Raise before any computation if two forms are requested."""
        if len(self.forms) > 1:
            raise PefourierError(f"forms {' and '.join(self.forms)} exclude each other; pass one")

    @property
    def forms(self) -> list[str]:
        """Names of the requested forms."""
        flags = {"json": self.as_json, "csv": self.as_csv}
        names = [name for name, is_set in flags.items() if is_set]
        return [*names, self.form] if self.form else names

    @property
    def name(self) -> str:
        """Name of the form, a key of `forms.FORMS`."""
        return [*self.forms, "text"][0]

    def words(self, page: "Page") -> str:
        """Return the text of a page, below its conclusion."""
        return page.words()

    def print(self, page: "Page") -> None:
        """Print a page in its form; on a terminal, curves precede the numbers."""
        from pefourier.report.forms import FORMS

        if self.name != "text":
            say(FORMS[self.name](page))
            return
        colour = takes_colours(sys.stdout)
        conclusion, words = map(printable_lines, (page.conclusion(), self.words(page)))
        if conclusion:
            conclusion += "\n"  # followed by an empty line
        chart = page.chart(colour=colour) if page.chart and draws_dots(sys.stdout) else ""
        say((coloured(conclusion) if colour else conclusion) + chart + words)


@dataclass(eq=False, repr=False)
class AnswerOptions(OutputOptions):
    """Form of an answer with measurements."""

    full: Annotated[bool, "Print all measurements, not only those that the verdict rests on."] = (
        False
    )

    def words(self, page: "Page") -> str:
        """Return the text of a page, below its conclusion: short unless all is requested."""
        return page.words() if self.full or page.short is None else page.short()


class Sizes(TypedDict):
    """Length and dimension."""

    length: int | None
    d: int | None


@dataclass(eq=False, repr=False)
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
        Sides,
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
    places: Annotated[File, "File: longitude and latitude in degrees; space2vec: x and y."] = None
    edges: Annotated[File, "File of edges of a graph: two columns, node numbers from 0 on."] = None
    paths: Paths = False

    @property
    def names(self) -> list[str]:
        """SPECs, by default sinusoidal and, without times, dft."""
        return self.specs or (["sinusoidal", "dft"] if self.times is None else ["sinusoidal"])

    @property
    def sizes(self) -> Sizes:
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

    def note_without_effect(self, encodings: Sequence["Encoding"], *, quiet: bool) -> None:
        """Note options that affect none of the encodings, and points that lack effect on any."""
        for name in ("d", "length", "rho", "seed", *OF_POINTS):
            if (value := getattr(self, name)) is not None:
                without = [enc for enc in encodings if not has_setting(enc, name, value)]
                if without and (name in OF_POINTS or len(without) == len(encodings)):
                    labels = ", ".join(enc.label for enc in without)
                    note(f"--{name} {value} has no effect on {labels}", quiet=quiet)


def has_setting(enc: "Encoding", name: str, value: Any) -> bool:
    """Whether an option's value is the value of a parameter or a size of an encoding."""
    if name in OF_POINTS:
        return enc.params.get(name) is not None
    params = [enc.params.get(key) for key in (name, "embedding" if name == "d" else name)]
    return value in [*params, {"d": enc.dim, "length": len(enc)}.get(name)]
