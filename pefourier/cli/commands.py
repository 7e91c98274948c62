"""The command line: each command parses, calls one room and reports."""

import os
import sys
from dataclasses import replace
from itertools import pairwise
from typing import Annotated, Literal

import typer

from pefourier import __version__
from pefourier.cli.request import (
    Csv,
    Json,
    Quiet,
    Request,
    answer_no,
    asking,
    give_up_stdout,
    note,
    say,
)
from pefourier.cli.train_options import taking_options
from pefourier.errors import PefourierError, printable, shown
from pefourier.train.options import Options

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

COMPLETION = "_PEFOURIER_COMPLETE"  # set by the shell when it asks for completions
Lattice = Annotated[
    int | None, typer.Option(help="Points N of the lattice, default the dimension d.")
]
Sigma = Annotated[
    float | None,
    typer.Option(help="Bandwidth in lattice steps, default 4; 0 does not smooth."),
]
Method = Annotated[
    Literal["auto", "declared", "periodogram"],
    typer.Option(help="Where frequencies come from: declared by the encoding, or its table."),
]


@app.callback(invoke_without_command=True)
def main_options(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    show_completion: Annotated[
        Literal["bash", "zsh", "fish"] | None,
        typer.Option(help="Print the completion script for a shell."),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Fourier analysis of positional encodings: what does an encoding say about position?

    \b
    pefourier spectrum --rho 10000 --d 256      which frequencies does it have?
    pefourier reconstruct --pos 5 40 75         what is left of a position?
    pefourier check-faithful my_table.npy       are codes distinct, can they be inverted?
    pefourier list                              the encodings it knows
    """
    if version:
        say(f"pefourier {__version__}\n")
    elif show_completion:
        from typer.completion import get_completion_script

        names = {"prog_name": "pefourier", "complete_var": COMPLETION}
        say(get_completion_script(shell=show_completion, **names) + "\n")


@app.command()
@asking
def spectrum(
    request: Request, lattice: Lattice = None, sigma: Sigma = None, method: Method = "auto"
) -> None:
    """Which frequencies does an encoding have?

    Default: sinusoidal and dft.

    \b
    Example: pefourier spectrum sinusoidal rope:rho=5e5 --d 128
    """
    encodings = request.encodings()
    from pefourier.answers import report
    from pefourier.spectrum import density

    answers = [report.Answer(e, density(e, lattice, sigma, method)) for e in encodings]
    for a in answers:
        if a.result.density[0] != a.result.density[0]:
            note(f"{a.encoding.label} has no spectrum: all of its codes are zero", request.quiet)
    lattices = sorted({a.result.lattice for a in answers})
    if len(lattices) > 1:
        different = " and ".join(map(str, lattices))
        note(f"lattices of {different} points differ; compare with --lattice", request.quiet)
    request.draw("spectrum", answers)
    request.deliver("spectrum", answers, report.spectrum_text, report.spectrum_rows)


@app.command()
@asking
def reconstruct(
    request: Request,
    pos: Annotated[
        list[str] | None,
        typer.Option(metavar="S...", help="Positions of deltas: 5 40 75, or 5,40,75."),
    ] = None,
    lattice: Lattice = None,
    sigma: Sigma = None,
    method: Method = "auto",
) -> None:
    """What is left of a position?

    Deltas are rebuilt from an encoding's frequencies, and from its codes. Default: sinusoidal and
    dft, positions 5, 40 and 75.

    \b
    Example: pefourier reconstruct --pos 5 40 75 --plot fig2.pdf
    """
    # Its matrix products are long and thin: BLAS threads would only wait for one another.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    positions = whole_numbers("--pos", pos or ["5", "40", "75"])
    encodings = request.encodings(least=max(80, max(positions) + 1))
    from pefourier.answers import report
    from pefourier.reconstruct import position_functions

    results = [position_functions(e, positions, lattice, sigma, method) for e in encodings]
    answers = list(map(report.Answer, encodings, results))
    request.draw("reconstruct", answers)
    request.deliver("reconstruct", answers, report.reconstruct_text, report.reconstruct_rows)


@app.command()
@asking
def check_faithful(
    request: Request,
    require: Annotated[
        Literal["collides", "injective", "invertible", "isometric"] | None,
        typer.Option(help="Exit with status 1 when a verdict is below this one."),
    ] = None,
    require_dtype: Annotated[
        Literal["float32", "float16", "bfloat16", "float8_e4m3"] | None,
        typer.Option(help="Exit with status 1 when codes are not distinct in this format too."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with status 1 on an error or warning found.")
    ] = False,
) -> None:
    """Are codes distinct, can they be inverted?

    Says what a table or your code is, too, and what is wrong with it. Verdicts: collides <
    injective < invertible < isometric. Default: sinusoidal and dft, 80 positions, d 256.

    \b
    Example: pefourier check-faithful wpe.npy --require injective
    """
    encodings = request.encodings()
    from pefourier.answers import report
    from pefourier.faithful import assess, shortfalls

    answers = [report.Answer(e, assess(e, request.progress(e.label))) for e in encodings]
    request.draw("faithful", answers)
    request.deliver("check-faithful", answers, report.faithful_text, report.faithful_rows)
    reasons = [
        f"{a.encoding.label} {reason}"
        for a in answers
        for reason in shortfalls(a.result, require, require_dtype, strict)
    ]
    answer_no(reasons, request.quiet)


@app.command()
@asking
def compare(request: Request) -> None:
    """Are two implementations the same encoding?

    Equal; equal up to column order, signs, layout, scale or an offset in positions, which is said;
    or different, and where. Exits with status 1 when they are different. --plot draws both tables
    and their difference.

    \b
    Example: pefourier compare sinusoidal:layout=halves py:model:PositionalEncoding --d 512
    """
    a, b = alike(request)
    from pefourier.answers import report
    from pefourier.compare import compare as compared

    result = compared(a, b)
    if request.plot is not None:
        tables = [a.table(), b.table()]
        panels = [report.Answer(e, table) for e, table in zip((a, b), tables, strict=True)]
        if tables[0].shape == tables[1].shape:
            both = replace(a, spec=f"{a.spec} − {b.spec}")
            panels.append(report.Answer(both, tables[0] - tables[1]))
        request.draw("heatmap", panels)
    if request.as_json:
        say(report.as_json("compare", [report.compare_record(a, b, result)]))
    elif request.as_csv:
        say(report.as_csv(report.compare_rows(a, b, result)))
    else:
        say(report.compare_text(a, b, result))
    request.note_unused([a, b])
    if result.verdict == "different":
        raise typer.Exit(1)


@app.command()
@asking
def encode(
    request: Request,
    out: Annotated[
        str, typer.Option(metavar="FILE", help="Table to write: .npy, .npz, .csv, .safetensors.")
    ] = ...,
    positions: Annotated[
        str | None, typer.Option(metavar="0,5,…", help="Only these positions, in this order.")
    ] = None,
) -> None:
    """Write codes to a file.

    A table (positions, dimensions) of float64.

    \b
    Example: pefourier encode dft --d 64 --positions 0,5,131071 --out codes.npy
    """
    import numpy as np

    from pefourier.encodings.sources.formats import WRITERS
    from pefourier.encodings.sources.tables import write_table
    from pefourier.files import check_suffix

    if request.as_csv:
        raise PefourierError("encode writes its table to --out; for CSV end that in .csv")
    check_suffix(out, WRITERS)
    (enc,) = exactly(request, 1, "encode writes one encoding")
    x = enc.domain.x
    if positions is not None:
        x = np.array(whole_numbers("--positions", [positions]), dtype=np.int64)
    table = np.asarray(enc.table(x), dtype=float)
    from pefourier.answers import report

    request.draw("heatmap", [report.Answer(enc, table)])
    write_table(out, table)
    written = {"out": out, "shape": list(table.shape), "positions": x}
    if request.as_json:
        say(report.as_json("encode", [{**report.identity_of(enc), **written}]))
    else:
        size = f"{table.shape[0]} positions × {table.shape[1]}"
        say(f"{printable(out)}: codes of {enc.label}, {size}\n")
    request.note_unused([enc])


@app.command(name="list")
def list_encodings(as_json: Json = False, as_csv: Csv = False) -> None:
    """List the encodings that have a name.

    \b
    Example: pefourier list --json
    """
    from pefourier.answers import catalogue
    from pefourier.answers import text as layout

    if as_json:
        say(layout.as_json("list", catalogue.records()))
    elif as_csv:
        say(layout.as_csv(catalogue.rows()))
    else:
        say(catalogue.text())


@app.command()
@taking_options
def train(options: Options, as_json: Json = False, quiet: Quiet = False) -> None:
    """Which encoding classifies better?

    Trains the paper's transformer with each encoding on the same data, batches and seeds, and says
    which differences the data support. Without options it ends in under two minutes.

    \b
    Example: pefourier train --dataset smd --data data -e none -e sinusoidal -e dft --out runs
    """
    from pefourier.answers import report
    from pefourier.train import summary
    from pefourier.train.run import run_comparison

    def answer(found: summary.Summary) -> None:
        if as_json:
            say(report.as_json("train", summary.json_records(found)))
        else:
            say(summary.terminal_text(found))

    run_comparison(options, answer, None if quiet else note)


@app.command()
def reproduce(
    out: Annotated[str, typer.Option(metavar="DIR", help="Folder to write to.")] = "figures",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Recompute the paper.

    Every figure, equation, number and claim.

    Printed value beside computed value, with a verdict.

    \b
    Example: pefourier reproduce --out figures
    """
    from pefourier.answers import report
    from pefourier.reproduce import as_markdown, reproduction

    claims, files = reproduction(out)
    if as_json:
        say(report.as_json("reproduce", claims))
    else:
        say(as_markdown(claims))
    note(f"wrote {', '.join(files)}", quiet)


def alike(request: Request) -> list:
    """Two encodings; a named one has the length and dimension of a file, config or user's code."""
    a, b = exactly(request, 2, "compare takes two encodings")
    from pefourier.encodings.specs import source_of

    named = [source_of(enc.spec) == "name" for enc in (a, b)]
    if sum(named) != 1 or (request.length and request.d):
        return [a, b]
    size = {"length": request.length or len(b if named[0] else a)}
    size["d"] = request.d or (b if named[0] else a).dim
    again = replace(request, specs=[(a if named[0] else b).spec], **size).encodings()
    return [*again, b] if named[0] else [a, *again]


def exactly(request: Request, count: int, rule: str) -> list:
    """The encodings of a command that takes so many."""
    given = request.specs or []
    if len(given) != count:
        raise PefourierError(f"{rule}; got {len(given)}: {' '.join(map(shown, given)) or 'none'}")
    return request.encodings()


def whole_numbers(option: str, texts: list[str]) -> list[int]:
    """Whole numbers from 0 on, given one by one or separated by commas."""
    numbers = []
    for text in ",".join(texts).split(","):
        try:
            value = int(text)
        except ValueError:
            value = -1
        if not 0 <= value < 2**53:
            raise PefourierError(
                f"{option} takes whole numbers from 0 on, such as 5,40,75; got {shown(text)}"
            )
        numbers.append(value)
    return numbers


def spread(arguments: list[str]) -> list[str]:
    """Write ``--pos 5 40 75`` as the repeated option that the parser takes.

    >>> spread(["--pos", "5", "40", "dft"])
    ['--pos', '5', '--pos', '40', 'dft']
    """
    written: list[str] = []
    for argument in arguments:
        number = argument.replace(",", "").lstrip("-").isdigit()
        if number and len(written) >= 2 and written[-2] == "--pos":
            written.append("--pos")
        written.append(argument)
    return written


def main(arguments: list[str]) -> int:
    """Run a command; its exit status: 0 answered, 1 "no", 2 usage or input, 130 interrupted."""
    debug = "--debug" in arguments
    wanted = spread([a for a in arguments if a != "--debug"]) or ["--help"]
    if COMPLETION in os.environ:
        from typer.completion import completion_init

        completion_init()
    try:
        if sys.stdout is None:
            raise PefourierError("standard output is closed; there is nowhere to answer")
        status = app(args=wanted, prog_name="pefourier", standalone_mode=False)
        if status == 130:
            note("interrupted", quiet=False)
        return status if isinstance(status, int) else 0
    except (PefourierError, typer.TyperException, OSError, MemoryError) as error:
        if debug:
            raise
        note(explained(error, wanted), quiet=False)
        return 2


def explained(error: Exception, arguments: list[str]) -> str:
    """An error in one line."""
    if isinstance(error, typer.TyperException):
        text = error.format_message().replace("Value error, ", "")
        options = getattr(getattr(error, "param", None), "opts", [])
        given = [shown(b) for a, b in pairwise(arguments) if a in options]
        told = not given or any(one in text for one in given)
        text += "" if told else f"; got {given[-1]}"
    elif isinstance(error, OSError):
        give_up_stdout()
        what = shown(error.filename) if error.filename else "standard output"
        text = f"{what}: {error.strerror or error}"
    elif isinstance(error, MemoryError):
        told = str(error) or "no more could be had"
        text = f"not enough memory ({told}); try a smaller --length, --d or --lattice"
    else:
        text = str(error)
    return " ".join(text.split())
