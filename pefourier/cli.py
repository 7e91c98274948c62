"""The command line: each command parses, calls one room and reports."""

import os
import sys
from itertools import pairwise
from typing import Annotated, Any, Literal

import typer

from pefourier import __version__
from pefourier.errors import PefourierError, shown

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

COMPLETION = "_PEFOURIER_COMPLETE"  # set by the shell when it asks for completions


def spec_names(incomplete: str) -> list[str]:
    """Names that a SPEC may begin with, for the shell's completion."""
    from pefourier import encodings  # noqa: F401 (fills the registry)
    from pefourier.encoding import BUILDERS

    return [name for name in BUILDERS if name.startswith(incomplete)]


Specs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SPEC",
        autocompletion=spec_names,
        help="Encodings: NAME, NAME:key=value,…, PATH[#ARRAY] (.npy .npz .csv .pt .safetensors), - "
        "for standard input, a Hugging Face config.json or model folder, or py:module:function "
        "(runs your code). 'pefourier list' shows the names.",
    ),
]
Dim = Annotated[int | None, typer.Option("--d", help="Dimension of a code, default 256.")]
Length = Annotated[
    int | None,
    typer.Option(
        "--length", "-S", min=1, help="Number of positions, default 80 (files: all rows)."
    ),
]
Rho = Annotated[float | None, typer.Option(help="Base of geometric frequencies, default 10000.")]
Seed = Annotated[int | None, typer.Option(help="Seed of random encodings.")]
Times = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Irregular times for mtan, mtan-fixed and time2vec: a column of numbers (.csv, .npy).",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Answer in JSON.")]
Csv = Annotated[bool, typer.Option("--csv", help="Answer in CSV.")]
Plot = Annotated[
    str | None, typer.Option(metavar="FILE", help="Write a figure: .png, .pdf or .svg.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress and notes on stderr.")]
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
def spectrum(
    specs: Specs = None,
    lattice: Lattice = None,
    sigma: Sigma = None,
    method: Method = "auto",
    d: Dim = None,
    length: Length = None,
    rho: Rho = None,
    seed: Seed = None,
    times: Times = None,
    as_json: Json = False,
    as_csv: Csv = False,
    plot: Plot = None,
    quiet: Quiet = False,
) -> None:
    """Which frequencies does an encoding have?

    Default: sinusoidal and dft.

    \b
    Example: pefourier spectrum sinusoidal rope:rho=5e5 --d 128
    """
    check_plot(plot)
    encodings = load_all(specs, length, d, rho=rho, seed=seed, times=times)
    from pefourier import report
    from pefourier.spectrum import density

    answers = [report.Answer(e, density(e, lattice, sigma, method)) for e in encodings]
    for a in answers:
        if a.result.density[0] != a.result.density[0]:
            note(f"{a.encoding.spec} has no spectrum: all of its codes are zero", quiet)
    draw(plot, "spectrum", answers)
    deliver("spectrum", answers, report.spectrum_text, report.spectrum_rows, as_json, as_csv)


@app.command()
def reconstruct(
    specs: Specs = None,
    pos: Annotated[
        list[str] | None,
        typer.Option(metavar="S...", help="Positions of deltas: 5 40 75, or 5,40,75."),
    ] = None,
    lattice: Lattice = None,
    sigma: Sigma = None,
    method: Method = "auto",
    d: Dim = None,
    length: Length = None,
    rho: Rho = None,
    seed: Seed = None,
    times: Times = None,
    as_json: Json = False,
    as_csv: Csv = False,
    plot: Plot = None,
    quiet: Quiet = False,
) -> None:
    """What is left of a position?

    Deltas are rebuilt from an encoding's frequencies, and from its codes.

    Default: sinusoidal and dft.

    \b
    Example: pefourier reconstruct --pos 5 40 75 --plot fig2.pdf
    """
    check_plot(plot)
    positions = whole_numbers("--pos", pos or ["5", "40", "75"])
    encodings = load_all(
        specs, length, d, least=max(positions) + 1, rho=rho, seed=seed, times=times
    )
    from pefourier import report
    from pefourier.reconstruct import position_functions

    answers = [
        report.Answer(e, position_functions(e, positions, lattice, sigma, method))
        for e in encodings
    ]
    draw(plot, "reconstruct", answers)
    deliver(
        "reconstruct", answers, report.reconstruct_text, report.reconstruct_rows, as_json, as_csv
    )


@app.command()
def check_faithful(
    specs: Specs = None,
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
    d: Dim = None,
    length: Length = None,
    rho: Rho = None,
    seed: Seed = None,
    times: Times = None,
    as_json: Json = False,
    as_csv: Csv = False,
    plot: Plot = None,
    quiet: Quiet = False,
) -> None:
    """Are codes distinct, can they be inverted?

    Says what a table or your code is, too, and what is wrong with it.

    Verdicts: collides < injective < invertible < isometric. Default: sinusoidal and dft, 80
    positions, d 256.

    \b
    Example: pefourier check-faithful wpe.npy --require injective
    """
    check_plot(plot)
    encodings = load_all(specs, length, d, rho=rho, seed=seed, times=times)
    from pefourier import report
    from pefourier.faithful import LADDER, assess

    answers = [report.Answer(e, assess(e, progress(e.spec, quiet))) for e in encodings]
    draw(plot, "faithful", answers)
    deliver("check-faithful", answers, report.faithful_text, report.faithful_rows, as_json, as_csv)
    short = []
    for a in answers:
        r = a.result
        if require and LADDER.index(r.verdict) < LADDER.index(require):
            short.append(f"{a.encoding.spec} is {r.verdict}, not {require}")
        if require_dtype:
            loss = r.precision[require_dtype]
            fewest = min(loss.distinct_cast, loss.distinct_phase or loss.distinct_cast)
            if fewest < r.length:
                kept = f"{fewest} of {r.length} codes distinct"
                short.append(f"{a.encoding.spec} has {kept} in {require_dtype}")
        if strict:
            bad = [f.code for f in r.findings if f.severity != "note"]
            short += [f"{a.encoding.spec} has {code}" for code in bad]
    answer_no(short, quiet)


@app.command()
def encode(
    specs: Annotated[list[str], typer.Argument(metavar="SPEC", help="One encoding.")],
    out: Annotated[
        str, typer.Option(metavar="FILE", help="Table to write: .npy, .npz, .csv, .safetensors.")
    ],
    positions: Annotated[
        str | None, typer.Option(metavar="0,5,…", help="Only these positions, in this order.")
    ] = None,
    d: Dim = None,
    length: Length = None,
    rho: Rho = None,
    seed: Seed = None,
    times: Times = None,
    as_json: Json = False,
    plot: Plot = None,
    quiet: Quiet = False,
) -> None:
    """Write codes to a file.

    A table (positions, dimensions) of float64.

    \b
    Example: pefourier encode dft --d 64 --positions 0,5,131071 --out codes.npy
    """
    import numpy as np

    from pefourier.files import check_suffix, write_table
    from pefourier.formats import WRITERS

    check_suffix(out, WRITERS)
    check_plot(plot)
    if len(specs) != 1:
        raise PefourierError(f"encode writes one encoding; got {len(specs)}: {' '.join(specs)}")
    (enc,) = load_all(specs, length, d, rho=rho, seed=seed, times=times)
    x = enc.domain.x
    if positions is not None:
        x = np.array(whole_numbers("--positions", [positions]), dtype=np.int64)
    table = np.asarray(enc.codes(x), dtype=float)
    from pefourier import report

    draw(plot, "heatmap", [report.Answer(enc, table)])
    write_table(out, table)
    fields = {"encoding": enc.name, "spec": enc.spec, "params": enc.params}
    written = {**fields, "out": out, "shape": list(table.shape), "positions": x}
    if as_json:
        say(report.as_json("encode", [written]))
    else:
        say(f"{out}: codes of {enc.spec}, {table.shape[0]} positions × {table.shape[1]}\n")


@app.command(name="list")
def list_encodings(as_json: Json = False, as_csv: Csv = False) -> None:
    """List the encodings that have a name.

    \b
    Example: pefourier list --json
    """
    from pefourier import encodings, report  # noqa: F401 (fills the registry)

    if as_json:
        say(report.as_json("list", report.list_records()))
    elif as_csv:
        say(report.as_csv(report.list_rows()))
    else:
        say(report.aligned(report.list_rows()))


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
    from pefourier import report
    from pefourier.reproduce import as_markdown, reproduction

    claims, files = reproduction(out)
    if as_json:
        say(report.as_json("reproduce", claims))
    else:
        say(as_markdown(claims))
    note(f"wrote {', '.join(files)}", quiet)


def load_all(
    specs: list[str] | None,
    length: int | None,
    d: int | None,
    least: int = 1,
    times: str | None = None,
    **options: Any,
) -> list[Any]:
    """The encodings of the SPECs, sinusoidal and dft where none is given."""
    from pefourier.encodings import load

    if times is not None:
        from pefourier.files import read_numbers

        options["times"] = read_numbers(times)
    wanted = specs or ["sinusoidal", "dft"]
    if wanted.count("-") > 1:
        raise PefourierError("standard input ('-') can be read once; name it once")
    return [load(spec, length, d, least=least, **options) for spec in wanted]


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


def check_plot(plot: str | None) -> None:
    """Refuse a figure that could not be written, before anything is computed."""
    if plot is not None:
        from pefourier.files import check_suffix

        check_suffix(plot, (".png", ".pdf", ".svg"))


def draw(plot: str | None, figure: str, answers: list[Any]) -> None:
    """Write a figure if one was asked for; matplotlib is imported only then."""
    if plot is not None:
        from pefourier import plot as drawing

        drawing.save(plot, getattr(drawing, figure), answers)


def deliver(command: str, answers, as_text, as_rows, as_json: bool, as_csv: bool) -> None:
    """Print answers in the form asked for."""
    from pefourier import report

    if as_json and as_csv:
        raise PefourierError("--json and --csv exclude each other; give one")
    if as_json:
        text = report.as_json(command, map(report.record, answers))
    elif as_csv:
        text = report.as_csv(as_rows(answers))
    else:
        text = as_text(answers, sys.stdout.isatty(), colours(sys.stdout))
    say(text)


def say(text: str) -> None:
    """Write an answer; a reader who has had enough (`| head`) ends the command quietly."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        give_up_stdout()
        raise typer.Exit(0) from None


def give_up_stdout() -> None:
    """Send what is left in the buffer nowhere; the interpreter would try to write it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def colours(stream) -> bool:
    """Whether a stream is a terminal on which colours are welcome."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def note(text: str, quiet: bool) -> None:
    """A line on stderr for the person at the terminal."""
    if not quiet:
        print(f"pefourier: {text}", file=sys.stderr)


def answer_no(reasons: list[str], quiet: bool) -> None:
    """Exit with status 1 and say why, when what was required does not hold."""
    for reason in reasons:
        note(reason, quiet)
    if reasons:
        raise typer.Exit(1)


def progress(label: str, quiet: bool):
    """A bar on stderr for work that lasts, on a terminal; None elsewhere."""
    if quiet or not sys.stderr.isatty():
        return None

    def show(done: int, total: int) -> None:
        end = "\r" if done < total else "\r\x1b[K"
        bar = f"{label}: {100 * done // max(total, 1)} %" if done < total else ""
        print(bar, end=end, file=sys.stderr, flush=True)

    return show


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
        given = [b for a, b in pairwise(arguments) if a in options and shown(b) not in text]
        text += f"; got {shown(given[-1])}" if given else ""
    elif isinstance(error, OSError):
        give_up_stdout()
        what = shown(error.filename) if error.filename else "standard output"
        text = f"{what}: {error.strerror or error}"
    else:
        text = str(error) or "not enough memory; try a smaller --length, --d or --lattice"
    return " ".join(text.split())


def run() -> None:
    """The installed command."""
    sys.exit(main(sys.argv[1:]))
