"""The program: all commands, and those among them that write files or look words up.

A command imports what it needs when it runs, so that help and the list start without numpy.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any, Literal

import typer

from pefourier.cli.commands import check_count_of_specs, write_text
from pefourier.cli.options import (
    COMMANDS,
    FigureOptions,
    OutputOptions,
    add_commands,
    options_of,
    register,
)
from pefourier.cli.process import note, percentages, say
from pefourier.cli.results import EncodingOptions, answer_each, parse_points, print_and_exit
from pefourier.errors import PefourierError
from pefourier.version import __version__

COMPLETION = "_PEFOURIER_COMPLETE"  # set by the shell when it wants completions
OF_ENCODINGS = ("d", "length", "grid", "prefix", "rho", "seed", "times")  # options of a page
RESULTS = "results.jsonl"  # what training leaves in a folder
Interpolation = Literal["bicubic", "bilinear", "antialias", "fourier"]


def program(names: Sequence[str] = ()) -> typer.Typer:
    """The program with some of its commands, or all."""
    settings = {"context_settings": {"help_option_names": ["-h", "--help"]}}
    app = typer.Typer(add_completion=False, rich_markup_mode=None, **settings)
    app.callback(invoke_without_command=True)(about_program)
    return add_commands(app, names or tuple(COMMANDS))


def about_program(
    version: Annotated[bool, typer.Option("--version", "-V", help="Print the version.")] = False,
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
    pefourier report rope --out page.html       all of it on one page
    pefourier list                              the encodings it knows
    pefourier explain gap                       what a word of an answer means
    """
    if version:
        say(f"pefourier {__version__}\n")
    elif show_completion:
        from typer.completion import get_completion_script

        names = {"prog_name": "pefourier", "complete_var": COMPLETION}
        say(get_completion_script(shell=show_completion, **names) + "\n")


@register("resize")
def resize(
    output: OutputOptions,
    figure: FigureOptions,
    spec: str,
    old: tuple | None = None,
    new: tuple | None = ...,
    prefix: int | None = None,
    d: int | None = None,
    method: Interpolation | None = None,
    out: str | None = None,
    quiet: bool = False,
) -> None:
    """What becomes of positions at another size of images, or length of texts?

    Resizes a table of positions by the methods in use, says how far they differ, and what becomes
    of lengths, neighbours and frequencies; of a formula, which pairs meet unseen phases.

    \b
    Example: pefourier resize pos_embed.npy --from 14x14 --to 24x24 --prefix 1 --out new.npy
             pefourier resize model.safetensors#wpe.weight --to 2048 --out longer.npy
    """
    from pefourier.encodings.sources.tables import in_form_of, write_table
    from pefourier.encodings.sources.writers import WRITERS
    from pefourier.encodings.specs import source_of
    from pefourier.files import check_suffix

    if out is not None:
        check_suffix(out, WRITERS)
    from pefourier import api
    from pefourier.report.frame import answer_of
    from pefourier.report.resize import TOLD

    place = {"grid": old or (), "prefix": prefix or 0}
    resizing = api.resize(spec, new, method=method or "", d=d, **place)
    figure.draw(TOLD.figure, [answer_of(resizing)])
    if out is not None:
        path, array = (resizing.about[0].params.get(key) for key in ("path", "array"))
        stored = path != "-" and (array or source_of(spec) == "table")
        table = resizing.table
        write_table(out, *(in_form_of(path, array, table, out, new) if stored else (table,)))
    output.print(TOLD.page([answer_of(replace(resizing, out=out))]))


@register("encode")
def encode(
    options: EncodingOptions,
    output: OutputOptions,
    figure: FigureOptions,
    out: str = ...,
    pos: list[str] | None = None,
) -> None:
    """Write codes to a file.

    A table (positions, dimensions) of float64.

    \b
    Example: pefourier encode dft --d 64 --positions 0,5,131071 --out codes.npy
    """
    from pefourier.encodings.sources.tables import write_table
    from pefourier.encodings.sources.writers import WRITERS
    from pefourier.files import check_suffix

    if output.name == "csv":
        raise PefourierError("encode writes its table to --out; for CSV, end that name in .csv")
    check_suffix(out, WRITERS)
    points = parse_points(pos)
    check_count_of_specs(options, 1, "encode writes one encoding")
    from pefourier import api
    from pefourier.report.encode import encode_page, heatmap
    from pefourier.report.frame import Answer

    (source,) = options.sources(split=False)
    enc, x, table = api.codes_at(source, points, **options.sizes)
    figure.draw(heatmap, [Answer(enc, table)])
    write_table(out, table)
    options.note_without_effect([enc])
    output.print(encode_page(enc, table, x, out))


@register("report")
def write_report(
    options: EncodingOptions,
    output: OutputOptions,
    out: str = "report.html",
    title: str | None = None,
    lattice: int | None = None,
    sigma: float | None = None,
) -> None:
    """Write one page with all answers, to be sent to somebody.

    A self-contained file of HTML: conclusions, pictures, numbers, the commands that give them, and
    what the words mean. Takes SPECs, default sinusoidal and dft, and one folder of pefourier train.

    \b
    Example: pefourier report rope rope:rho=5e5 --d 128 --lattice 4096 --out report.html
    """
    from pefourier.files import check_suffix, status_of

    check_suffix(out, (".html", ".htm"))
    typed = {name: getattr(options, name) for name in OF_ENCODINGS}
    folders = [s for s in options.specs or () if status_of(os.path.join(s, RESULTS)) is not None]
    if folders:
        check_count_of_specs(options, 1, "report takes one folder of pefourier train, or SPECs")
        if any(value is not None for value in (*typed.values(), lattice, sigma)):
            raise PefourierError("a folder of pefourier train takes no options of encodings")
        from pefourier.pages.training import folder_document, folder_page, read_train_folder

        training = read_train_folder(folders[0])
        write_text(out, folder_document(training, title or ""))
        output.print(folder_page(training, out))
        return
    from pefourier.encodings.specs import load
    from pefourier.pages.encodings import Inquiry, encodings_document, report_page

    inquiry = Inquiry(typed, lattice, sigma)

    def study(source: Any) -> Any:
        enc = load(source, **options.sizes)
        return inquiry.study(enc, percentages(enc.label, options.quiet))

    results = answer_each(options.sources(), study, options.quiet)
    page = encodings_document(results.answers, results.refusals, inquiry, title or "")
    write_text(out, page)
    options.note_without_effect([study.encoding for study in results.answers])
    print_and_exit(report_page(results.per_spec, out), results, output)


@register("list")
def list_encodings(output: OutputOptions, names: list[str] | None = None) -> None:
    """List the encodings that have a name.

    With a NAME: its formula, and what its parameters mean.

    \b
    Example: pefourier list rope
    """
    from pefourier.report.catalogue import catalogue_page

    output.print(catalogue_page(names or ()))


@register("explain", context_settings={"ignore_unknown_options": True})  # to be explained
def explain(output: OutputOptions, term: list[str] | None = None, schema: bool = False) -> None:
    """What does a word mean?

    Its meaning, formula, unit, range, what is good and where it comes from. Without TERM some words
    to begin with, with all those that there are.

    \b
    Example: pefourier explain condition number
    """
    from pefourier.report.terms import SCHEMA, explain_page

    if schema:
        say(SCHEMA.read_text(encoding="utf-8"))
        return
    page = explain_page(term or (), [*command_terms(), *option_terms()])
    output.print(page)
    for reason in page.reasons:
        note(reason.text)
    if page.reasons:
        raise typer.Exit(2)


def command_terms() -> list[Any]:
    """A term for each command: the question that it answers, and its example."""
    from pefourier.report.terms import Term

    helps = {name: function.__doc__ or "" for name, (function, *_) in COMMANDS.items()}
    return [
        Term(
            name, "commands", text.partition("\n")[0], good=text.rpartition("Example: ")[2].strip()
        )
        for name, text in helps.items()
    ]


def option_terms() -> list[Any]:
    """A term for each option; those of one name and help in several commands are one."""
    from pefourier.report.terms import Term

    users: dict[tuple[Any, ...], list[str]] = {}
    for command_name, option in options_of(typer.main.get_command(program())):
        choices = ", ".join(getattr(option.type, "choices", ()))
        users.setdefault((option.help or "", choices, *option.opts), []).append(command_name)
    terms = []
    for (meaning, choices, *names), commands in users.items():
        name, *also = sorted(names, key=lambda name: not name.startswith("--"))
        meaning = f"{meaning} Option of {', '.join(commands)}."
        terms.append(Term(name, "options", meaning, range=choices, also=also))
    return terms


def train_groups() -> type:
    """The dataclass of the options of training, whose room is opened for its command alone."""
    from pefourier.cli.train_options import TrainOptions

    return TrainOptions


@register("train", groups={"options": train_groups})
def train(
    options: Any,
    plan: bool = False,
    as_json: bool = False,
    as_csv: bool = False,
    quiet: bool = False,
) -> None:
    """Which encoding classifies better?

    Trains the paper's transformer with each encoding on the same data, batches and seeds, and says
    which differences the data support. It classifies windows or whole series, and neither forecasts
    nor regresses. Without options it takes under two minutes. For the same statistics of scores
    that you have see 'pefourier explain own scores'.

    \b
    Example: pefourier train --dataset smd --data data -e none -e sinusoidal -e dft --out runs
    """
    from pefourier.train.options import Options

    chosen, tell = Options(**vars(options)), None if quiet else note
    output = OutputOptions(as_json, as_csv)
    if plan:
        from pefourier.train.plan import plan_page, plan_training

        output.print(plan_page(plan_training(chosen, tell)))
        return
    from pefourier.train.request import check_options

    check_options(chosen)  # before torch is loaded, which takes seconds
    from pefourier.train.report import summary_page
    from pefourier.train.run import run_comparison

    def deliver(summary: Any) -> None:
        with suppress(typer.Exit):  # nobody reads the answer, but files are to be written
            output.print(summary_page(summary))

    run_comparison(chosen, deliver, tell)


@register("reproduce")
def reproduce(
    out: str = "figures", as_json: bool = False, as_csv: bool = False, quiet: bool = False
) -> None:
    """Recompute the paper.

    Every figure, equation, number and claim.

    Printed value beside computed value, with a verdict.

    \b
    Example: pefourier reproduce --out figures
    """
    from pefourier.reproduce import claims_page, has_results, recompute_paper

    output = OutputOptions(as_json, as_csv)
    claims, files = recompute_paper(out)
    output.print(claims_page(claims))
    note(f"wrote {', '.join(files)}", quiet)
    if not has_results(out):
        note("Table 1 is that of the results that come with this version", quiet)
