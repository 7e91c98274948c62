"""Commands that write files, list encodings or explain terms."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from pefourier.cli.answers import (
    answer_each,
    check_count_of_specs,
    print_and_exit,
    print_result,
    write_text,
)
from pefourier.cli.options import (
    EncodingOptions,
    FigureOptions,
    File,
    Lattice,
    OutputOptions,
    Points,
    Sigma,
    parse_points,
    spec_names,
)
from pefourier.cli.process import percentages, say
from pefourier.cli.registry import options_of, register
from pefourier.errors import PefourierError

if TYPE_CHECKING:
    from pefourier.report.terms import Term

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
