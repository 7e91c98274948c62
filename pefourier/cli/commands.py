"""The commands: help, options, one call of the room that answers, one page.

A command imports what it needs when it runs, so that help and the list start without numpy.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from functools import partial
from math import isnan
from typing import Any, Literal

import typer

from pefourier.cli import reach_options, request
from pefourier.cli.options import Commands
from pefourier.cli.streams import note, percentages
from pefourier.cli.train_options import Setting, TrainOptions, fill_options
from pefourier.errors import PefourierError
from pefourier.writing.escapes import printable

app = Commands(
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Method = Literal["auto", "declared", "periodogram"]

Axis = Literal["auto", "linear", "log"]
Interpolation = Literal[
    "bicubic",
    "antialias",
    "timm",
    "dinov2",
    "bilinear",
    "bicubic-corners",
    "bilinear-corners",
    "fourier",
]


@app.command()
@request.asking
def spectrum(
    question: request.Question,
    form: request.Form,
    drawing: request.Drawing,
    lattice: int | None = None,
    sigma: float | None = None,
    method: Method = "auto",
    axis: Axis = "auto",
    demean: bool = False,
) -> None:
    """Which frequencies does an encoding have?

    Default: sinusoidal and dft.

    \b
    Example: pefourier spectrum sinusoidal rope:rho=5e5 --d 128
    """
    from pefourier import questions
    from pefourier.answers.spectrum import TOLD, by_decade, spectrum_chart

    own = {"lattice": lattice, "sigma": sigma, "method": method, "demean": demean}
    asked = request.ask_each(question, partial(questions.spectrum, **own))
    answers = asked.answers
    for a in answers:
        if isnan(a.result.summary.lowest_bin_share):
            note(f"{a.encoding.label} has no spectrum: all of its codes are zero", question.quiet)
    lattices = sorted({a.result.lattice for a in answers if isinstance(a.result.lattice, int)})
    if len(lattices) > 1:
        different = " and ".join(map(str, lattices))
        note(f"lattices of {different} points differ; compare with --lattice", question.quiet)
    page = TOLD.page(asked.each, chart=partial(spectrum_chart, axis=axis))
    if drawing.plot is not None:
        which = ".spectrum_by_decade" if by_decade(answers, axis) else ""
        drawing.draw(f"spectrum{which}", answers)
    form.deliver(page)
    question.note_unused([a.encoding for a in answers])
    asked.finish([])


@app.command()
@request.asking
def reconstruct(
    question: request.Question,
    form: request.Form,
    drawing: request.Drawing,
    pos: list[str] | None = None,
    lattice: int | None = None,
    sigma: float | None = None,
    method: Method = "auto",
    demean: bool = False,
) -> None:
    """What is left of a position?

    Deltas are rebuilt from an encoding's frequencies, and from its codes. Default: sinusoidal and
    dft, positions 5, 40 and 75; on a grid its middle.

    \b
    Example: pefourier reconstruct --pos 5 40 75 --plot fig2.pdf
    """
    request.spare_threads()
    points = request.parse_points(pos)
    from pefourier import questions
    from pefourier.answers.reconstruct import TOLD

    own = {"lattice": lattice, "sigma": sigma, "method": method, "demean": demean}
    asked = request.ask_each(question, partial(questions.reconstruct, positions=points, **own))
    if not points:
        note_positions(asked, question.quiet)
    elif any(len(point) != 2 for point in points):
        note_points(asked, question.quiet)
    drawing.draw("reconstruct", asked.answers)
    form.deliver(TOLD.page(asked.each))
    question.note_unused([a.encoding for a in asked.answers])
    asked.finish([])


def note_positions(asked: request.Asked, quiet: bool) -> None:
    """Say which positions were taken where the usual ones lie outside a lattice."""
    from pefourier.analysis.reconstruct import USUAL

    for a in asked.answers:
        taken = [r.position for r in a.result.reconstructions]
        if taken != list(USUAL) and isinstance(a.result.lattice, int):  # on a grid: its middle
            which = f"{', '.join(map(str, taken))} of {a.result.lattice} were rebuilt"
            note(f"{a.encoding.label}: positions {which}; --pos chooses others", quiet)


def note_points(asked: request.Asked, quiet: bool) -> None:
    """Say where rows were taken as positions of one axis that show a grid otherwise."""
    from pefourier.encodings.grids import size_of
    from pefourier.geometry.found_grids import on_found_grid

    for a in asked.answers:
        enc = a.encoding
        grid = () if enc.domain.grid else on_found_grid(enc).domain.grid
        if grid:
            point = ",".join(str(side // 2) for side in grid)
            note(
                f"{enc.label}: --pos of one number asks for a row of one axis; its rows show a "
                f"grid of {size_of(grid)}, of which a point is named as --pos {point}",
                quiet,
            )


@dataclass(frozen=True)
class Demands:
    """What codes are held against by `pefourier check-faithful`."""

    require: Literal["collides", "injective", "separable", "invertible", "isometric"] | None = None
    require_dtype: str | None = None
    strict: bool = False
    skip_unknown: bool = False
    baseline: str | None = None


@app.command()
@request.asking
def check_faithful(
    question: request.Question, form: request.Form, drawing: request.Drawing, demands: Demands
) -> None:
    """Are codes distinct, can they be inverted?

    Also identifies tables and your code, and names what is wrong with them. Verdicts: collides <
    injective < separable (on grids) < invertible < isometric. Default: sinusoidal and dft, 80
    positions, d 256.

    \b
    Example: pefourier check-faithful wpe.npy --require injective
    """
    request.spare_threads(question.wanted)
    from pefourier import questions
    from pefourier.analysis.faithful import shortfalls
    from pefourier.answers.faithful import faithful_page

    stored = request.answers_of(demands.baseline, "check-faithful", question.lengths, drawing)

    def check(source: Any, **sizes: Any) -> Any:
        show = percentages(printable(source.spec), question.quiet)
        return questions.check(source, progress=show, **sizes)

    asked = request.ask_each(question, check, skip=demands.skip_unknown, sweep=True)
    drawing.draw("faithful", asked.answers)
    page = faithful_page(asked.each)
    if len(question.lengths) > 1:
        from pefourier.answers.faithful import faithful_over_lengths

        page = faithful_over_lengths(page, asked.answers)
    else:
        question.note_unused([a.encoding for a in asked.answers])
    held = {"rung": demands.require, "dtype": demands.require_dtype, "strict": demands.strict}
    lacking = partial(shortfalls, **held)
    request.deliver_held(page, asked, lacking, stored, form, question.quiet, demands.strict)


@app.command()
@request.asking
def compare(
    question: request.Question,
    form: request.Form,
    drawing: request.Drawing,
    tolerance: float | None = None,
    permutation: str | None = None,
) -> None:
    """Are two implementations the same encoding?

    Equal; equal up to column order, signs, layout, scale or an offset in positions, which is said;
    or different: where, and how alike they are, as tables of two runs or before and after training.
    Exits with status 0 where a model with trained weights would see no difference, else with 1.
    --plot draws both tables and, where lengths agree, their difference.

    \b
    Example: pefourier compare sinusoidal:layout=halves py:model:PositionalEncoding --d 512
    """
    if permutation is not None:
        from pefourier.files import check_suffix

        check_suffix(permutation, (".npy", ".json"))
    request.check_number(question, 2, "compare takes two encodings")
    from pefourier import questions
    from pefourier.answers.compare import TOLD, reasons_against
    from pefourier.answers.telling import answer_of

    sources = question.sources(whole=True)
    size = {"length": question.length, "d": question.d}
    result = questions.compare(*sources, **size, tolerance=tolerance)
    for enc in result.about:
        request.note_grids(enc, question.quiet)
    drawing.draw("compare", [answer_of(result)])
    form.deliver(replace(TOLD.page([answer_of(result)]), reasons=reasons_against(result)))
    question.note_unused(list(result.about))
    if permutation is not None:
        write_permutation(permutation, result.operator)
    if not result.same:
        raise typer.Exit(1)


def write_permutation(path: str, found: Any) -> None:
    """Write the order of rows that leads from one rotation to another."""
    if found is None or found.permutation is None:
        relation = "two of which one is no rotation" if found is None else found.relation
        raise PefourierError(
            f"--permutation {path} was not written: no order of rows leads from the first to the "
            f"second ({relation})"
        )
    import numpy as np

    from pefourier.encodings.sources.formats import write_npy
    from pefourier.files import suffix_of, write_whole

    order = list(found.permutation)
    if suffix_of(path) == ".json":
        write_text(path, f"{order}\n")
    else:
        write_whole(path, lambda stream: write_npy(stream, np.array(order)))


@app.command()
@request.asking
def relations(question: request.Question, form: request.Form, drawing: request.Drawing) -> None:
    """How do the codes of positions relate to one another?

    Inner products by lag, whether one matrix leads from every code to the next, whether distances
    are kept. --csv has the inner product at each lag. Default: sinusoidal and dft.

    \b
    Example: pefourier relations sinusoidal learned -S 512 --d 64 --plot kernel.pdf
    """
    from pefourier import questions
    from pefourier.answers.relations import TOLD

    asked = request.ask_each(question, questions.relations)
    drawing.draw("relations", asked.answers)
    form.deliver(TOLD.page(asked.each))
    question.note_unused([a.encoding for a in asked.answers])
    asked.finish([])


@app.command()
@request.asking
def context(
    given: reach_options.ContextOptions, form: request.Form, drawing: request.Drawing
) -> None:
    """How far do a model's positions reach?

    Its layers, their rotations, what a scaling does to each band of frequencies, which phases
    training never met, and what a misreading of the config costs.

    \b
    Example: pefourier context config.json --length 128k --against scaling-ignored
    """
    reach_options.tell_reach(given, form, drawing)


@app.command()
@request.asking
def convert(
    form: request.Form,
    spec: str,
    source: Literal["halves", "neighbours"] = ...,
    target: Literal["halves", "neighbours"] = ...,
    out: str = ...,
    heads: tuple | None = None,
) -> None:
    """Write weights for code that pairs other rows.

    Reorders the rows of W_q and W_k within each head, their biases and the gains of norms of
    queries and keys; all else is copied. Converting back gives the same bytes.

    \b
    Example: pefourier convert model.safetensors --from halves --to neighbours --out new.safetensors
    """
    from pefourier.answers.convert import convert_page
    from pefourier.weights.convert import convert_weights

    form.deliver(convert_page(convert_weights(spec, source, target, out, heads)))


@dataclass(frozen=True)
class Weights:
    """What `pefourier usage` looks at."""

    model: str = ...
    length: int | None = None
    layers: range | None = None
    every_head: bool = False
    against: str | None = None
    stats: str | None = None
    quiet: bool = False


@app.command()
@request.asking
def usage(given: Weights, form: request.Form, drawing: request.Drawing) -> None:
    """Which rotary frequencies do a model's weights use?

    How the energy of queries and keys is spread over pairs, from those that turn with every
    position to those that never complete a turn: by layers and heads, in the product that scores
    are made of. Reads only the rows of queries and keys; nothing of the model is run.

    \b
    Example: pefourier usage SmolLM2-135M/ --plot usage.png
    """
    from pefourier.answers.telling import answer_of
    from pefourier.answers.usage import TOLD
    from pefourier.weights.usage import use_of_model

    *asked, quiet = astuple(given)
    found = use_of_model(*asked, percentages(given.model, quiet))
    drawing.draw("usage", [answer_of(found)])
    form.deliver(TOLD.page([answer_of(found)]))


@app.command()
@request.asking
def design(
    given: reach_options.DesignOptions, form: request.Form, drawing: request.Drawing
) -> None:
    """Which encoding, and which base, for my length?

    Which encoding is told by rules ('pefourier explain advice'). Criteria of its base contradict
    one another: distance and rank want small ones, the bound of long contexts a large one; each is
    shown with the base that it asks for, or those of --for alone. With --extend-from: which scaling
    takes a model to --to positions, what each does to its bands of frequencies and how near it
    stays to the trained rotation, with the lines for config.json and a SPEC.

    \b
    Example: pefourier design --length 64k --d 128 --for bound
    Example: pefourier design --extend-from config.json --to 128k
    """
    request.spare_threads()
    reach_options.tell_design(given, form, drawing)


@app.command()
@request.asking
def resize(
    form: request.Form,
    drawing: request.Drawing,
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
    from pefourier.encodings.sources.formats import WRITERS
    from pefourier.encodings.sources.tables import in_form_of, write_table
    from pefourier.encodings.specs import source_of
    from pefourier.files import check_suffix

    if out is not None:
        check_suffix(out, WRITERS)
    from pefourier import questions
    from pefourier.answers.resize import TOLD, resize_record, resize_text
    from pefourier.answers.telling import answer_of

    own = {"d": d, "grid": old or (), "prefix": prefix or 0}
    own["progress"] = percentages(printable(spec), quiet)
    found = questions.resize(spec, new, method=method or "", **own)
    request.note_grids(found.about[0], quiet)
    drawing.draw("resize", [answer_of(found)])
    if out is not None:
        path, array = (found.about[0].params.get(key) for key in ("path", "array"))
        stored = path != "-" and (array or source_of(spec) == "table")
        own = in_form_of(path, array, found.table, out, new) if stored else (found.table,)
        write_table(out, *own)
    written = {"words": partial(resize_text, out=out), "record": partial(resize_record, out=out)}
    form.deliver(TOLD.page([answer_of(found)], **written))


@app.command()
@request.asking
def encode(
    question: request.Question,
    form: request.Form,
    drawing: request.Drawing,
    out: str = ...,
    pos: list[str] | None = None,
) -> None:
    """Write codes to a file.

    A table (positions, dimensions) of float64.

    \b
    Example: pefourier encode dft --d 64 --positions 0,5,131071 --out codes.npy
    """
    from pefourier.encodings.sources.formats import WRITERS
    from pefourier.encodings.sources.tables import write_table
    from pefourier.files import check_suffix

    if form.name == "csv":
        raise PefourierError("encode writes its table to --out; for CSV, end that name in .csv")
    check_suffix(out, WRITERS)
    points = request.parse_points(pos)
    request.check_number(question, 1, "encode writes one encoding")
    from pefourier import questions
    from pefourier.answers.encode import encode_page
    from pefourier.answers.telling import Answer

    (source,) = question.sources(whole=True)
    enc, x, table = questions.codes_at(source, points, question.length, question.d)
    drawing.draw("encode.heatmap", [Answer(enc, table)])
    write_table(out, table)
    form.deliver(encode_page(enc, table, x, out))
    question.note_unused([enc])
    question.note_faults_of_points([enc])


@app.command(name="report")
@request.asking
def write_report(
    question: request.Question,
    form: request.Form,
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
    from pefourier.files import check_suffix

    check_suffix(out, (".html", ".htm"))
    folders = [spec for spec in question.wanted if is_train_folder(spec)]
    options = {name: getattr(question, name) for name in OF_ENCODINGS}
    if folders:
        others = [spec for spec in question.wanted if spec not in folders]
        every = {**options, "lattice": lattice, "sigma": sigma}
        refuse_beside_folder(folders, others, every)
        if not others:
            form.deliver(report_folder(folders[0], out, title or ""))
            return
        question = replace(question, specs=others)
    from pefourier.answers.telling import Refusal
    from pefourier.pages import encodings as room
    from pefourier.questions import encoding_of

    sizes = {"length": question.length, "d": question.d}
    loaded = request.attempt_each(question.sources(), partial(encoding_of, **sizes))
    encodings = [one for one in loaded if not isinstance(one, Refusal)]
    inquiry = room.Inquiry(options, lattice, sigma, tuple(folders))

    def study(enc: Any) -> Any:
        return inquiry.study(enc, percentages(enc.label, question.quiet))

    asked = request.keep_answers(request.attempt_each(loaded, study))
    refused = [one for one in asked.each if isinstance(one, Refusal)]
    if folders:
        sections = partial(room.encoding_sections, asked.answers, refused, inquiry)
        form.deliver(report_folder(folders[0], out, title or "", sections, asked.each))
    else:
        write_text(out, room.encodings_document(asked.answers, refused, inquiry, title or ""))
        form.deliver(room.report_page(asked.each, out))
    question.note_unused(encodings)
    asked.finish([])


def report_folder(
    folder: str, out: str, title: str, sections: Any = None, asked: Sequence[Any] = ()
) -> Any:
    """Write the page about a folder of training, and what was asked about SPECs; the answer."""
    from pefourier.pages.training import folder_document, folder_page, read_train_folder

    found = read_train_folder(folder)
    write_text(out, folder_document(found, title, sections))
    return folder_page(found, out, asked)


OF_ENCODINGS = ("d", "length", "grid", "prefix", "rho", "seed", "times")  # options of a Question


RESULTS = "results.jsonl"  # what training leaves in a folder


def is_train_folder(path: str) -> bool:
    """Whether training has left its results in a folder."""
    return path != "-" and is_file_of(path, RESULTS)


def is_file_of(folder: str, name: str) -> bool:
    """Whether a folder has a file of a name."""
    from pefourier.files import status_of

    return status_of(os.path.join(folder, name)) is not None


def refuse_beside_folder(
    folders: Sequence[str], others: Sequence[str], options: dict[str, Any]
) -> None:
    """Refuse what says nothing about a train folder."""
    if len(folders) > 1:
        raise PefourierError(f"report takes one folder; got {' and '.join([*folders, *others])}")
    given = [f"--{name}" for name, value in options.items() if value is not None and not others]
    if given:
        raise PefourierError(
            f"{' and '.join(given)} say nothing about a folder of pefourier train; leave them out"
        )


def write_text(path: str, text: str) -> None:
    """Write a text whole."""
    from pefourier.files import write_whole

    write_whole(path, lambda stream: stream.write(text.encode()))


@app.command(name="list")
@request.asking
def list_encodings(form: request.Form, names: list[str] | None = None) -> None:
    """List the encodings that have a name.

    With a NAME: its formula, and what its parameters mean.

    \b
    Example: pefourier list rope
    """
    from pefourier.answers.catalogue import catalogue_page

    form.deliver(catalogue_page(names or ()))


@app.command(context_settings={"ignore_unknown_options": True})  # they are to be explained
@request.asking
def explain(form: request.Form, term: list[str] | None = None, schema: bool = False) -> None:
    """What does a word mean?

    Its meaning, formula, unit, range, what is good and where it comes from. Without TERM some words
    to begin with, with all those that there are.

    \b
    Example: pefourier explain condition number
    """
    from pefourier.answers.terms import SCHEMA, explain_page
    from pefourier.cli.vocabulary import command_terms, option_terms

    if schema:
        typer.echo(SCHEMA.read_text(encoding="utf-8"), nl=False)
        return
    page = explain_page(term or (), [*command_terms(app), *option_terms(app)])
    form.deliver(page)
    for reason in page.reasons:
        note(reason.text)
    if page.reasons:
        raise typer.Exit(2)


@app.command()
@request.asking
def train(
    given: TrainOptions,
    context: typer.Context,
    setting: Setting = None,
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
    options, told = fill_options(given, setting, context), None if quiet else note
    if plan:
        from pefourier.train.plan import plan_page, plan_training

        request.Form(as_json, as_csv).deliver(plan_page(plan_training(options, told)))
        return
    from pefourier.train.request import check_options

    check_options(options)  # before torch is loaded, which takes seconds
    from pefourier.train.report import summary_page
    from pefourier.train.run import run_comparison
    from pefourier.train.summary import Summary

    def deliver(found: Summary) -> None:
        with suppress(typer.Exit):  # nobody reads the answer, but files are to be written
            request.Form(as_json, as_csv).deliver(summary_page(found))

    run_comparison(options, deliver, told)


@app.command()
@request.asking
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

    form = request.Form(as_json, as_csv)
    claims, files = recompute_paper(out, percentages("reproduce", quiet))
    form.deliver(claims_page(claims))
    note(f"wrote {', '.join(files)}", quiet)
    if not has_results(out):
        note("Table 1 is that of the results that come with this version", quiet)


@app.command()
@request.asking
def cite(form: request.Form) -> None:
    """How do I cite it?

    The program and the paper, as BibTeX.

    \b
    Example: pefourier cite --json
    """
    from pefourier.answers.cite import citation_page

    form.deliver(citation_page())
