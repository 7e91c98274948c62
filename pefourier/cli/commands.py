"""The commands that ask a question about encodings.

Commands import modules when they run, so help and `list` start without numpy.

Commands that write files, list encodings or explain terms.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Option

from pefourier.cli.answers import (
    Requirements,
    answer_specs,
    check_count_of_specs,
    spare_threads,
    write_text,
)
from pefourier.cli.options import (
    AnswerOptions,
    EncodingOptions,
    FigureOptions,
    File,
    Gates,
    Lattice,
    Points,
    Sides,
    Sigma,
    format_name,
    parse_points,
)
from pefourier.cli.process import percentages
from pefourier.cli.registry import register
from pefourier.errors import PefourierError
from pefourier.writing.text import printable

if TYPE_CHECKING:
    from pefourier.questions.check_faithful import Faithfulness
    from pefourier.questions.operators import OperatorComparison


from pathlib import Path
from typing import TYPE_CHECKING

from typer import Argument

from pefourier.cli.answers import (
    answer_each,
    print_and_exit,
    print_result,
)
from pefourier.cli.options import (
    OutputOptions,
    spec_names,
)
from pefourier.cli.process import say
from pefourier.cli.registry import options_of

if TYPE_CHECKING:
    from pefourier.report.terms import Term


Rung = Literal["collides", "injective", "separable", "invertible", "isometric"]


@dataclass(eq=False, repr=False)
class DensityOptions:
    """Options for the density over frequencies."""

    lattice: Lattice = None
    sigma: Sigma = None
    method: Annotated[
        Literal["auto", "declared", "periodogram"],
        "Source of the frequencies: declared by the encoding, or measured from its table.",
    ] = "auto"
    demean: Annotated[
        bool, "Remove the mean row of the table, which is the same at every position."
    ] = False


@register("spectrum")
def spectrum(
    options: EncodingOptions,
    output: AnswerOptions,
    figure: FigureOptions,
    density: DensityOptions,
    axis: Annotated[
        Literal["auto", "linear", "log"],
        "Frequency axis of figures: log shows the share of energy per factor of ten in frequency, "
        "linear the share at each lattice frequency; auto uses log if all encodings have mostly "
        "low frequencies.",
    ] = "auto",
) -> None:
    """Show the frequencies of an encoding.

    Default: sinusoidal and dft.

    \b
    Example:
    pefourier spectrum rope rope:rho=5e5 --d 128
    """
    from pefourier import api
    from pefourier.questions.spectrum import Spectrum

    question = partial(api.spectrum, **vars(density))
    answer_specs(Spectrum, question, options, output, figure, axis=axis)


@register("reconstruct")
def reconstruct(
    options: EncodingOptions,
    output: AnswerOptions,
    figure: FigureOptions,
    density: DensityOptions,
    pos: Points = None,
) -> None:
    """Reconstruct positions from an encoding.

    Reconstructs position functions (1 at a position, 0 elsewhere) from an encoding's frequencies
    and from its vectors. Default: sinusoidal and dft, positions 5, 40 and 75; on a grid its middle.

    \b
    Example:
    pefourier reconstruct --pos 5 40 --plot fig.pdf
    """
    spare_threads()
    points = parse_points(pos)
    from pefourier import api
    from pefourier.questions.reconstruct import Reconstructions

    question = partial(api.reconstruct, positions=points, **vars(density))
    answer_specs(Reconstructions, question, options, output, figure)


@register("check-faithful")
def check_faithful(
    options: EncodingOptions,
    output: AnswerOptions,
    figure: FigureOptions,
    required: Requirements,
    require: Annotated[Rung | None, "Exit with status 1 if a verdict is lower."] = None,
    require_dtype: Annotated[
        str | None,
        Option(metavar="DTYPE[:computed]", parser=format_name),
        "Also exit with status 1 if vectors are no longer distinct when rounded to this format "
        "(float32, float16, bfloat16, float8_e4m3; fp32, fp16, bf16, fp8), or, with :computed as "
        "in bf16:computed, when computed in it.",
    ] = None,
    gates: Gates = None,
) -> None:
    """Check whether vectors are distinct and invertible.

    Also identifies tables and source code, and reports mistakes in them. Verdicts: collides <
    injective < separable (on grids) < invertible < isometric. Default: sinusoidal and dft, 80
    positions, d 256.

    \b
    Example:
    pefourier check-faithful wpe.npy
    """
    spare_threads(options.names)
    from pefourier import api
    from pefourier.encodings.loader import with_gates
    from pefourier.questions.check_faithful import Faithfulness

    options = replace(options, specs=with_gates(options.names, gates))

    def ask(source: Any, **sizes: Any) -> "Faithfulness":
        show = percentages(printable(source.spec), quiet=output.quiet)
        return api.check(source, progress=show, **sizes)

    answer_specs(
        Faithfulness,
        ask,
        options,
        output,
        figure,
        check=partial(required.check, rung=require, dtype=require_dtype),
        skip=required.skip_unknown,
    )


@register("compare")
def compare(
    options: EncodingOptions,
    output: AnswerOptions,
    figure: FigureOptions,
    tolerance: Annotated[
        float | None,
        Option(metavar="X"),
        "Count tables as identical if their numbers differ by at most X, such as 1e-3 for another "
        "engine's arithmetic; 0 requires identical bits (default: what rounding explains).",
    ] = None,
    permutation: Annotated[
        File,
        "Write the permutation of a head's rows that maps the first rotation to the second "
        "(.npy or .json).",
    ] = None,
    grid_second: Annotated[
        Sides,
        "Sides of the grid of the second SPEC, if it differs from --grid, such as a crop.",
    ] = None,
) -> None:
    """Compare two encodings or implementations.

    Reports whether they are equal, equal up to column order, signs, layout, scale or an offset in
    positions, or different. For different tables it reports where they differ and how similar they
    are, such as two training runs, or a table before and after training. Exit status 0 if a model
    with trained weights would see no difference, otherwise 1. --plot draws both tables and, if they
    have the same number of columns, their difference.

    \b
    Example:
    pefourier compare sinusoidal py:model:PE --d 512
    """
    if permutation is not None:
        from pefourier.writing.files import check_suffix

        check_suffix(permutation, (".npy", ".json"))
    check_count_of_specs(options, 2, "compare takes two encodings")
    from pefourier import api
    from pefourier.report.render import answer_of, page_of
    from pefourier.writing.page import Reason

    sources, sizes = options.sources(split=False), options.sizes
    comparison = api.compare(*sources, **sizes, tolerance=tolerance, grid_second=grid_second)
    answers = [answer_of(comparison)]
    if permutation is not None:
        write_permutation(permutation, comparison.operator)
    figure.draw(comparison.draw, answers)
    a, b = comparison.encodings
    words = f"is not the same as {b.label}: {comparison.verdict}"
    difference = Reason(a.label, "unmet", words)
    page = page_of(type(comparison), answers)
    output.print(replace(page, reasons=[] if comparison.same else [difference]))
    options.note_without_effect(comparison.encodings, quiet=output.quiet)
    if not comparison.same:
        raise typer.Exit(1)


def write_permutation(path: str, operator: "OperatorComparison | None") -> None:
    """Write the permutation of rows that turns one rotation into the other."""
    if operator is None or operator.permutation is None:
        raise PefourierError(
            f"--permutation {path} was not written: no permutation of rows maps the first to the "
            "second"
        )
    import numpy as np

    from pefourier.encodings.sources.formats import write_npy
    from pefourier.writing.files import suffix_of, write_whole

    order = list(operator.permutation)
    if suffix_of(path) == ".json":
        write_text(path, f"{order}\n")
    else:
        write_whole(path, lambda stream: write_npy(stream, np.array(order)))


@register("relations")
def relations(options: EncodingOptions, output: AnswerOptions, figure: FigureOptions) -> None:
    """Show how the vectors of positions relate to each other.

    Shows inner products by lag, whether one matrix maps every vector to the next, and whether
    distances are kept. --csv lists the inner product at each lag. Default: sinusoidal and dft.

    \b
    Example:
    pefourier relations sinusoidal learned --d 64
    """
    from pefourier import api
    from pefourier.questions.relations import Relations

    answer_specs(Relations, api.relations, options, output, figure)


OF_ENCODINGS = ("d", "length", "grid", "prefix", "rho", "seed", "times", "places", "edges")
RESULTS = "results.jsonl"  # written by training


@dataclass(eq=False, repr=False)
class Storage:
    """Content and format of a written file."""

    out: Annotated[File, "File to write: .npy, .npz, .csv or .safetensors."] = None
    golden: Annotated[
        File, "Instead of --out: a .json file for an engine's own tests (see 'explain golden')."
    ] = None
    what: Annotated[
        Literal["vectors", "inv_freq", "cos", "sin", "cos-sin", "complex"] | None,
        "What to write: vectors, or numbers of rotations as engines store them. cos-sin is vLLM's "
        "(half) or torchtune's (interleaved), complex is freqs_cis (default: vectors).",
    ] = None
    layout: Annotated[
        Literal["half", "interleaved"] | None,
        "Order of cos, sin and cos-sin: pair i has columns i and i + m (half) or columns 2i and "
        "2i + 1 (interleaved); default: the layout of the rotation.",
    ] = None
    dtype: Annotated[
        Literal["float64", "float32", "float16", "bfloat16"] | None,
        "Type of the numbers; bfloat16 is for .safetensors (default: float64).",
    ] = None

    def check(self) -> None:
        """Raise before any computation if the file cannot be written."""
        from pefourier.encodings.sources.formats import WRITERS
        from pefourier.writing.files import check_suffix

        if not (self.out or self.golden):
            raise PefourierError("pass '--out' FILE, or --golden FILE.json")
        if self.golden and any((self.out, self.what, self.layout, self.dtype)):
            raise PefourierError("--golden replaces --out, --what, --layout and --dtype; pass one")
        check_suffix(self.golden or self.out or "", (".json",) if self.golden else WRITERS)


@register("encode")
def encode(
    *,
    options: EncodingOptions,
    output: OutputOptions,
    figure: FigureOptions,
    storage: Storage,
    pos: Points = None,
) -> None:
    """Write vectors, or what engines store, to a file.

    Writes a table (positions, dimensions) in blocks, in float64 unless you pass --dtype.

    \b
    Example:
    pefourier encode dft --pos 0,5,99 --out v.npy
    """
    if output.name == "csv":
        raise PefourierError("encode writes its table to --out; for CSV, end the name in .csv")
    points = parse_points(pos)
    storage.check()
    if points and storage.what == "inv_freq":
        raise PefourierError("--what inv_freq has no positions; leave out --pos")
    check_count_of_specs(options, 1, "encode writes one encoding")
    from pefourier import api
    from pefourier.questions.encode import write_golden, write_numbers

    (source,) = options.sources(split=False)
    enc, x = api.points_at(source, points, **options.sizes)
    if storage.golden:
        result = write_golden(enc, x if points else None, storage.golden)
    else:
        kind = storage.what or "vectors", storage.layout, storage.dtype or "float64"
        result = write_numbers(enc, x, storage.out or "", *kind)
    options.note_without_effect([enc], quiet=output.quiet)
    print_result(result, output, figure)


@register("report")
def write_report(
    options: EncodingOptions,
    output: OutputOptions,
    out: Annotated[str, Option(metavar="FILE"), "Page to write: .html or .htm."] = "report.html",
    title: Annotated[str | None, Option(metavar="TEXT"), "Title of the page."] = None,
    lattice: Lattice = None,
    sigma: Sigma = None,
) -> None:
    """Write one page with all answers.

    Writes a self-contained HTML file: conclusions, figures, numbers, the commands that compute
    them, and explanations of terms. Accepts SPECs (default: sinusoidal and dft) or one folder of
    pefourier train.

    \b
    Example:
    pefourier report rope --d 128 --out rope.html
    """
    from pefourier.writing.files import check_suffix, status_of

    check_suffix(out, (".html", ".htm"))
    typed = {name: getattr(options, name) for name in OF_ENCODINGS}
    folders = [s for s in options.specs or () if status_of(str(Path(s) / RESULTS)) is not None]
    if folders:
        check_count_of_specs(options, 1, "report takes one folder of pefourier train, or SPECs")
        if any(value is not None for value in (*typed.values(), lattice, sigma)):
            raise PefourierError("a folder of pefourier train takes no options of encodings")
        from pefourier.pages.training import folder_document, folder_page, read_train_folder

        training = read_train_folder(folders[0])
        write_text(out, folder_document(training, title or ""))
        output.print(folder_page(training, out))
        return
    from pefourier.encodings.loader import load
    from pefourier.pages.encodings import Inquiry, encodings_document, report_page

    inquiry = Inquiry(typed, lattice, sigma)

    def study(source: Any) -> Any:
        enc = load(source, **options.sizes)
        return inquiry.study(enc, percentages(enc.label, quiet=output.quiet))

    results = answer_each(options.sources(), study, quiet=output.quiet)
    page = encodings_document(results.answers, results.refusals, inquiry, title or "")
    write_text(out, page)
    if not results.refusals:
        encodings = [study.encoding for study in results.answers]
        options.note_without_effect(encodings, quiet=output.quiet)
    print_and_exit(report_page(results.per_spec, out), results, output)


@register("list")
def list_encodings(
    output: OutputOptions,
    names: Annotated[
        list[str] | None,
        Argument(metavar="NAME", autocompletion=spec_names),
        "Encodings to describe in full.",
    ] = None,
) -> None:
    """List the named encodings.

    With a NAME: shows its formula and the meaning of its parameters.

    \b
    Example:
    pefourier list rope
    """
    from pefourier.report.catalogue import catalogue_page

    output.print(catalogue_page(names or ()))


@register("explain", ignore_unknown_options=True)  # options are terms, too
def explain(
    *,
    context: typer.Context,
    output: OutputOptions,
    term: Annotated[
        list[str] | None,
        Argument(),
        "A field, verdict, finding, option, parameter, encoding or command.",
    ] = None,
    schema: Annotated[bool, "Print the JSON Schema of all answers that --json writes."] = False,
) -> None:
    """Explain a term.

    Shows its meaning, formula, unit, range, good values and source. Without TERM: lists some terms
    to begin with, and all terms.

    \b
    Example:
    pefourier explain condition number
    """
    from pefourier.report.terms import SCHEMA, explain_page

    if schema:
        say(SCHEMA.read_text(encoding="utf-8"))
        return
    output.print(explain_page(term or (), command_terms(context.find_root().command)))


def command_terms(program: Any) -> list["Term"]:
    """Return a term for each command and each option; options with equal help are merged."""
    from pefourier.report.terms import Term

    terms = []
    for name, command in program.commands.items():
        summary, _, text = command.help.partition("\n")
        good = text.partition("Example:")[2].strip()
        terms.append(Term(name, "commands", summary, good=good))
    users: dict[tuple[Any, ...], list[str]] = {}
    for command_name, option in options_of(program):
        choices = ", ".join(getattr(option.type, "choices", ()))
        users.setdefault((option.help or "", choices, *option.opts), []).append(command_name)
    for (meaning, choices, *names), commands in users.items():
        name, *also = sorted(names, key=lambda name: not name.startswith("--"))
        text = f"{meaning} Option of {', '.join(commands)}."
        terms.append(Term(name, "options", text, range=choices, also=also))
    return terms
