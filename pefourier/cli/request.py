"""What was asked on the command line, and how it is answered: options and streams of all commands.

A command under `asking` receives a `Request`, made of the options that analysing commands share,
and its own options. Answers go to stdout, everything else to stderr.
"""

import functools
import inspect
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Annotated, Any

import typer

from pefourier.errors import PefourierError, printable


def spec_names(incomplete: str) -> list[str]:
    """Names that a SPEC may begin with, for the shell's completion."""
    from pefourier.answers import catalogue

    names = (record["encoding"] for record in catalogue.records())
    return [name for name in names if name.startswith(incomplete)]


SPEC_HELP = (
    "Encodings: NAME, NAME:key=value,…, PATH[#ARRAY] (.npy .npz .csv .pt .safetensors), - for "
    "standard input, a Hugging Face config.json or model folder, or py:module:function (runs your "
    "code). 'pefourier list' shows the names."
)
TIMES_HELP = "Irregular times for mtan, mtan-fixed and time2vec: a column of numbers (.csv, .npy)."
Specs = Annotated[
    list[str] | None, typer.Argument(metavar="SPEC", autocompletion=spec_names, help=SPEC_HELP)
]
Dim = Annotated[int | None, typer.Option("--d", help="Dimension of a code, default 256.")]
Length = Annotated[
    int | None,
    typer.Option("--length", "-S", help="Number of positions, default 80 (files: all rows)."),
]
Rho = Annotated[float | None, typer.Option(help="Base of geometric frequencies, default 10000.")]
Seed = Annotated[int | None, typer.Option(help="Seed of random encodings.")]
Times = Annotated[str | None, typer.Option(metavar="FILE", help=TIMES_HELP)]
Json = Annotated[bool, typer.Option("--json", help="Answer in JSON.")]
Csv = Annotated[bool, typer.Option("--csv", help="Answer in CSV.")]
Plot = Annotated[
    str | None, typer.Option(metavar="FILE", help="Write a figure: .png, .pdf or .svg.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress and notes on stderr.")]


@dataclass(frozen=True)
class Request:
    """The options that analysing commands share."""

    specs: Specs = None
    d: Dim = None
    length: Length = None
    rho: Rho = None
    seed: Seed = None
    times: Times = None
    as_json: Json = False
    as_csv: Csv = False
    plot: Plot = None
    quiet: Quiet = False

    def __post_init__(self) -> None:
        """Refuse an answer that could not be given, before anything is computed."""
        if self.as_json and self.as_csv:
            raise PefourierError("--json and --csv exclude each other; give one")
        if self.plot is not None:
            from pefourier.files import check_suffix

            check_suffix(self.plot, (".png", ".pdf", ".svg"))

    def encodings(self, least: int = 1) -> list[Any]:
        """The encodings of the SPECs, sinusoidal and dft where none is given."""
        from pefourier.encodings import load

        options = {"rho": self.rho, "seed": self.seed}
        if self.times is not None:
            from pefourier.encodings.sources.tables import read_numbers

            options["times"] = read_numbers(self.times)
        wanted = self.specs or ["sinusoidal", "dft"]
        if wanted.count("-") > 1:
            raise PefourierError("standard input ('-') can be read once; name it once")
        return [load(spec, self.length, self.d, least=least, **options) for spec in wanted]

    def note_unused(self, encodings: list[Any]) -> None:
        """Say which options have had no effect on any of the encodings."""
        for name in ("d", "length", "rho", "seed", "times"):
            value = getattr(self, name)
            sizes = {"d": [e.dim for e in encodings], "length": list(map(len, encodings))}
            keys = (name, "embedding") if name == "d" else (name,)  # tupe's d is that of the model
            own = [e.params[k] for e in encodings for k in keys if e.params.get(k) is not None]
            used = own if name == "times" else value in sizes.get(name, []) or value in own
            if value is not None and not used:
                labels = ", ".join(e.label for e in encodings)
                note(f"--{name} {value} has no effect on {labels}", self.quiet)

    def draw(self, figure: str, answers: list[Any]) -> None:
        """Write a figure if one was asked for; matplotlib is imported only then."""
        if self.plot is not None:
            from pefourier.answers import plot

            plot.save(self.plot, getattr(plot, figure), answers)

    def deliver(self, command: str, answers: list[Any], as_text: Callable, as_rows: Callable):
        """Print answers in the form asked for."""
        from pefourier.answers import report

        if self.as_json:
            say(report.as_json(command, map(report.record, answers)))
        elif self.as_csv:
            say(report.as_csv(as_rows(answers)))
        else:
            say(as_text(answers, sys.stdout.isatty(), colours(sys.stdout)))
        self.note_unused([a.encoding for a in answers])

    def progress(self, label: str) -> Callable[[int, int], None] | None:
        """A share of work done, on stderr, for work that lasts; None where nobody looks."""
        if self.quiet or not sys.stderr.isatty():
            return None

        def show(done: int, total: int) -> None:
            text = f"{label}: {100 * done // max(total, 1)} %" if done < total else ""
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

        return show


def asking(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command (request, own options) the options of its request beside its own.

    The request is a dataclass whose fields are options, such as `Request`.
    """
    first, *rest = inspect.signature(command).parameters.values()
    kind = inspect.Parameter.KEYWORD_ONLY
    shared = [
        inspect.Parameter(f.name, kind, default=f.default, annotation=f.type)
        for f in fields(first.annotation)
    ]
    own = [p.replace(kind=kind) for p in rest]

    @functools.wraps(command)
    def typed(**values: Any) -> None:
        asked = {p.name: values.pop(p.name) for p in shared}
        lists = {key: tuple(v) if isinstance(v, list) else v for key, v in asked.items()}
        command(first.annotation(**lists), **values)

    typed.__signature__ = inspect.Signature([shared[0], *own, *shared[1:]])
    typed.__annotations__ = {p.name: p.annotation for p in [*own, *shared]}
    return typed


def say(text: str) -> None:
    """Write an answer; a reader who has had enough (`| head`) ends the command quietly."""
    encoding = sys.stdout.encoding or "utf-8"  # what it cannot say is escaped
    try:
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except BrokenPipeError:
        give_up_stdout()
        raise typer.Exit(0) from None


def give_up_stdout() -> None:
    """Send what is left in the buffer nowhere; the interpreter would try to write it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def colours(stream: Any) -> bool:
    """Whether a stream is a terminal on which colours are welcome."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def note(text: str, quiet: bool = False) -> None:
    """A line on stderr for the person at the terminal, if anybody reads it."""
    if not quiet and sys.stderr is not None:
        with suppress(OSError):
            print(f"pefourier: {printable(text)}", file=sys.stderr, flush=True)


def answer_no(reasons: list[str], quiet: bool) -> None:
    """Exit with status 1 and say why, when what was required does not hold."""
    for reason in reasons:
        note(reason, quiet)
    if reasons:
        raise typer.Exit(1)
