"""The commands about models and sizes: configs, ids, weights, another length or grid.

Commands that write files, list encodings or explain terms.
"""

from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from pefourier.cli.options import (
    AnswerOptions,
    Dimension,
    EncodingOptions,
    FigureOptions,
    File,
    GridSides,
    Lattice,
    Length,
    OutputOptions,
    Paths,
    Prefix,
    Requirements,
    Sigma,
    Specs,
    TypedPoints,
    WholeNumber,
    answer_each,
    check_count_of_specs,
    format_name,
    group,
    layer_range,
    print_and_exit,
    print_result,
    sides,
    spare_threads,
    spec_names,
)
from pefourier.cli.process import percentages, say
from pefourier.cli.registry import register
from pefourier.errors import PefourierError, shown
from pefourier.types import Fields, Ints
from pefourier.writing.text import number

if TYPE_CHECKING:
    from pefourier.report.render import Answer
    from pefourier.report.terms import Term


@group
class ReachOptions:
    """Requested and trained lengths of a model, as in `api.context`."""

    length: Annotated[
        Length,
        "Number of positions to examine, such as 128k (for the trained length use --trained).",
    ] = None
    trained: Annotated[WholeNumber, "Trained length, if you know it."] = None
    d: Annotated[int | None, "Head size; for named rotations only."] = None
    against: Annotated[
        str | None,
        Option(metavar="OTHER"),
        "Another SPEC to compare with, or misreadings of the config: scaling-ignored, "
        "partial-ignored, local-for-global, layout, or a setting of rope such as base=NUMBER or "
        "original=N; separate several with commas.",
    ] = None


@register("context")
def context(
    *,
    output: AnswerOptions,
    figure: FigureOptions,
    required: Requirements,
    reach: ReachOptions,
    specs: Specs,
    require: Annotated[
        Literal["fits"] | None,
        "Exit with status 1 unless the length fits: up to the length that the config states with "
        "its scaling, or within the trained angles if it states no length.",
    ] = None,
    brief: Annotated[
        bool,
        "Print one line per config: its verdict, the codes of its errors and warnings, and its "
        "base, scaling, trained and stated length.",
    ] = False,
    paths: Paths = False,  # noqa: ARG001 read by flatten
) -> None:
    """Show how far a model's positions reach.

    Shows layers, rotations, the effect of a scaling on each frequency band, angles never seen in
    training, and the effect of misreading the config.
    For the position ids of a batch, use pefourier positions.

    \b
    Example:
    pefourier context config.json --length 128k
    """
    from pefourier import api
    from pefourier.report.render import answer_of, page_of

    def ask(spec: str) -> "Answer":
        return answer_of(api.context(spec, **vars(reach)))

    results = answer_each(specs or [], ask, quiet=output.quiet, skip=required.skip_unknown)
    page = required.check(page_of(results.per_spec), results)
    figure.draw(results)
    if brief:
        lines = "".join(map(brief_line, results.answers))
        page = replace(page, words=lambda: lines, short=None, conclusion=str, chart=str)
    if require or (required.strict and reach.length is not None):
        from pefourier.writing.page import Reason

        reasons = [*page.reasons]
        for a in results.answers:
            is_unknown = require and a.result.rotations and a.result.trained.length is None
            words = "its trained length is unknown" if is_unknown else a.result.misfit
            reasons += (
                [Reason(a.encoding.label, "unmet", f"does not fit: {words}")] if words else []
            )
        page = replace(page, reasons=reasons)
    print_and_exit(page, results, output)


def brief_line(answer: "Answer") -> str:
    """Return base, scaling, lengths and verdict of a SPEC, and the codes of its warnings."""
    result = answer.result
    codes = dict.fromkeys(f.code for f in result.findings if f.severity != "note")
    faults = f" ({', '.join(codes)})" if codes else ""
    facts = [f"{answer.encoding.label}: {result.verdict}{faults}"]
    facts += [f"base {number(r.base)}, {r.scaling} scaling" for r in result.rotations]
    facts += [f"trained {result.trained}"] if result.rotations else []
    facts += [f"stated {result.stated}"] if result.stated else []
    return "; ".join(dict.fromkeys(facts)).replace("none scaling", "no scaling") + "\n"


@group
class BatchOptions:
    """Facts about position ids, as in `api.positions`."""

    mask: Annotated[
        File, "Attention mask: 0 and 1 per token, segment numbers, or queries by keys."
    ] = None
    segments: Annotated[
        File, "Where documents begin: segment numbers per token (0: padding), or cu_seqlens."
    ] = None
    depth: Annotated[File, "Depth of each token in a tree of draft tokens."] = None
    rank: Annotated[
        str | None, Option(metavar="R/N"), "This rank holds the tokens of rank R of N."
    ] = None
    shard: Annotated[
        Literal["every", "block", "zigzag"] | None,
        "How tokens are split among ranks: every Nth token, one block per rank, or zigzag, a block "
        "and its mirror (default: any of the three).",
    ] = None
    length: Annotated[Length, "Limit: ids must be below N (default: limit of the config)."] = None
    past: Annotated[WholeNumber, "Tokens in the cache: ids are expected from N on."] = None


@register("positions")
def positions(
    output: AnswerOptions,
    figure: FigureOptions,
    batch: BatchOptions,
    ids: Annotated[
        str,
        Argument(metavar="INPUT"),
        "Position ids: a .npy, .csv or .json list, or named arrays as a batch is dumped (.npz "
        ".safetensors .pt): position_ids, attention_mask, cu_seqlens, mm_token_type_ids, "
        "image_grid_thw, … Or a dump of cosines and sines, or a mask of queries and keys.",
    ],
    config: Annotated[
        str | None,
        Argument(metavar="CONFIG"),
        "The model's config.json or folder, or a named encoding.",
    ] = None,
    strict: Annotated[  # noqa: FBT002 an option
        bool, "Exit with status 1 also if unexpected ids change no attention score, or on warnings."
    ] = False,
) -> None:
    """Check the position ids of a batch.

    Reports counted padding, packed documents that do not restart, gaps and repeats in caches, ids
    of another rank, and text ids for an image, each with its cause. Exit status 0: as expected, or
    no attention score changes; 1: unexpected or undecided.

    \b
    Example:
    pefourier positions batch.npz config.json
    """
    from pefourier import api

    result = api.positions(ids, config=config, **vars(batch))
    print_result(result, output, figure)
    if not result.is_fine(strict=strict):
        raise typer.Exit(1)


@group
class Weights:
    """Selection of weights, as in `use_of_model`."""

    length: Annotated[
        Length, "Number of positions, such as 128k (default: the trained length)."
    ] = None
    layers: Annotated[
        range | None, Option(metavar="A-B", parser=layer_range), "Layers to read (default: all)."
    ] = None
    every_head: Annotated[
        bool, Option("--all"), "Include the shares of each head in JSON and CSV."
    ] = False
    against: Annotated[
        str | None,
        Option(metavar="OTHER"),
        "Another checkpoint of the model, such as before fine-tuning or context extension, to "
        "show which shares moved; with --stats, another file of means.",
    ] = None
    stats: Annotated[
        File,
        "File of mean activations (.pt, .npz, .safetensors), with names such as "
        "layer00_head00.q_abs_mean, in place of weights. MODEL may then be a config.json.",
    ] = None
    base: Annotated[
        str | None,
        Option(metavar="DIR"),
        "Folder of the base of a PEFT adapter (default: the folder that the adapter names).",
    ] = None


@register("usage")
def usage(
    *,
    output: AnswerOptions,
    figure: FigureOptions,
    weights: Weights,
    model: Annotated[
        str,
        Argument(metavar="MODEL"),
        "A model's folder, its .safetensors file, a .gguf file, or the folder of a PEFT adapter.",
    ],
) -> None:
    """Show which rotary frequencies a model's weights use.

    Shows how the energy of queries and keys is spread over rotary pairs, from high to low
    frequencies, by layers and heads, as it enters attention scores. Reads only the weights of
    queries and keys and does not run the model.

    \b
    Example:
    pefourier usage SmolLM2-135M/ --plot usage.png
    """
    from pefourier.questions.usage import use_of_model

    show = percentages(model, quiet=output.quiet)
    print_result(use_of_model(model, begin=show, **vars(weights)), output, figure)


@register("design")
def design(
    output: AnswerOptions,
    figure: FigureOptions,
    length: Annotated[
        Length, "Number of positions, such as 64k; with --extend-from, the trained length."
    ] = None,
    d: Annotated[WholeNumber, "Dimension of a vector, or size of a head."] = None,
    grid: Annotated[
        GridSides,
        "Grid, such as 14x14 or 8x30x52, in place of --length; each axis gets its own base.",
    ] = None,
    span: Annotated[
        str | None,
        Option(metavar="TIME"),
        "Time that the positions cover, with --resolution in place of --length: 90min, 250ms, 2y "
        "(years of 365.25 days), or a number without a unit.",
    ] = None,
    resolution: Annotated[
        str | None, Option(metavar="TIME"), "Time from one position to the next."
    ] = None,
    criteria: Annotated[
        list[str] | None,
        Option("--for", metavar="CRITERION"),
        "Criterion for the base: turns, rank, bound, or wavelength=K (the slowest pair completes "
        "a rotation in K lengths). Language models use bound; short series use turns. Repeatable "
        "(default: bound from 2,048 positions on, else turns).",
    ] = None,
    rho: Annotated[
        list[float] | None, Option("--rho", "--base"), "Base to try. Repeatable."
    ] = None,
    dtype: Annotated[
        str | None,
        Option(metavar="float32|float16|bfloat16", parser=format_name),
        "Format to which vectors are rounded; adds the smallest distance after rounding.",
    ] = None,
    extend_from: Annotated[
        str | None,
        Option(metavar="CONFIG"),
        "Extend this rotation (a model's config, or rope:…) to the length --to by linear, ntk, "
        "yarn, llama3, and the bases of --rho and --for (turns, bound, wavelength=K).",
    ] = None,
    to: Annotated[WholeNumber, "Number of positions to extend to, such as 128k."] = None,
    engine: Annotated[
        Literal["transformers", "vllm", "llama.cpp"] | None,
        "Engine whose settings to print for an extension (default: transformers, for GGUF "
        "files the engine of GGUF).",
    ] = None,
) -> None:
    """Choose an encoding and a base for a length.

    Shows the best base by one criterion, or by each of --for: series and images need every pair to
    rotate fully, long contexts need a large base.
    With --extend-from: shows which scalings extend a model to --to positions, how each changes its
    frequency bands, how close it stays to the model's rotation, its SPEC, and what to type.

    \b
    Example:
    pefourier design -S 64k --d 128 --for bound
    pefourier design --extend-from a.json --to 128k
    """
    if grid is not None and (to is not None or length is not None):
        raise PefourierError("--grid replaces --length and excludes --to; leave one out")
    if (extend_from is None) != (to is None):
        raise PefourierError("--extend-from CONFIG and --to LENGTH need each other; pass both")
    if engine and extend_from is None:
        raise PefourierError("--engine prints the settings of an extension; pass --extend-from")
    spare_threads()
    from pefourier import api

    result: Any
    wanted: Fields = {"criteria": criteria or (), "bases": rho or ()}
    wanted |= {"dtype": dtype, "d": d}
    if extend_from is not None and to is not None:
        from pefourier.questions.extend import extend

        result = extend(extend_from, to, trained=length, engine=engine, **wanted)
    else:
        result = api.design(grid or length, span=span, resolution=resolution, **wanted)
    print_result(result, output, figure)


@register("resize")
def resize(
    *,
    output: AnswerOptions,
    figure: FigureOptions,
    spec: Annotated[str, Argument(metavar="TABLE"), "Table on a grid, or SPEC of such a table."],
    old: Annotated[
        Ints | None,
        Option("--from", metavar="HxW", parser=sides),
        "Sides of the table's grid; leave out for a text model's table (default: found from its "
        "inner products).",
    ] = None,
    new: Annotated[
        Ints,
        Option("--to", metavar="HxW", parser=sides),
        "Sides of the new grid; for a text model's table the new length, such as 2048.",
    ],
    prefix: Prefix = None,
    d: Dimension = None,
    method: Annotated[
        str | None,
        Option(metavar="METHOD"),
        "bicubic: as in torch; bilinear; align-corners: bilinear with align_corners=True "
        "(Qwen3-VL); antialias: bicubic with antialias=True; fourier: zero-padded spectrum, "
        "mirrored at the edges; dinov2: bicubic by a factor (n + 0.1) / N; geometric: of biases, "
        "as timm; center-crop: the middle (Stable Diffusion 3). Rotations and Swin V2 are "
        "recomputed by formula (default: the model's own method where it is known, else bicubic).",
    ] = None,
    out: Annotated[File, "Table to write: .npy, .npz, .csv, .safetensors."] = None,
) -> None:
    """Resize a table of positions for other images or texts.

    With --full, compares all common methods: how much they differ, and how they change norms,
    neighbours and frequencies. For a formula, shows which pairs reach phases that training never
    saw.

    \b
    Example:
    pefourier resize pos.npy --from 14x14 --to 24x24
    pefourier resize model.pt#wpe.weight --to 2048
    """
    from pefourier.encodings.sources.tables import WRITERS
    from pefourier.writing.files import check_suffix

    if out is not None:
        check_suffix(out, WRITERS)
    from pefourier.questions.resize import resize as resize_to

    place: Fields = {"grid": old or (), "prefix": prefix or 0, "d": d}
    try:
        resizing = resize_to(spec, new, method=method or "", **place)
    except PefourierError as error:
        raise PefourierError(str(error).replace("--grid", "--from")) from error
    if out is not None:
        from pefourier.encodings.loader import source_of
        from pefourier.encodings.sources.tables import in_form_of, write_table

        params = resizing.encoding.params
        if resizing.encoding.untrained:
            advice = "leave out --out, or pass the trained weights"
            raise PefourierError(
                f"{shown(spec)} has random initial values, before training; {advice}"
            )
        path, array = params.get("path", ""), params.get("array")
        if path != "-" and (array or source_of(spec) == "table"):  # in the layout of that file
            write_table(out, *in_form_of(path, array, resizing.table, out, new))
        else:
            write_table(out, resizing.table)
    print_result(replace(resizing, out=out), output, figure)


RESULTS = "results.jsonl"  # written by training


@group
class Storage:
    """Content and format of a written file."""

    out: Annotated[File, "File to write: .npy, .npz, .csv or .safetensors; - prints CSV."] = None
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
        from pefourier.encodings.sources.tables import WRITERS
        from pefourier.writing.files import check_suffix

        if self.golden and any((self.out, self.what, self.layout, self.dtype)):
            raise PefourierError("--golden replaces --out, --what, --layout and --dtype; pass one")
        if self.dtype and not self.out:
            raise PefourierError("--dtype is the type of written numbers; pass --out FILE")
        if self.golden or self.out not in (None, "-"):
            check_suffix(self.golden or self.out or "", (".json",) if self.golden else WRITERS)


@register("encode")
def encode(
    *,
    options: EncodingOptions,
    output: OutputOptions,
    figure: FigureOptions,
    storage: Storage,
    pos: TypedPoints = None,
) -> None:
    """Write vectors, or what engines store, to a file, or print them.

    Writes a table (positions, dimensions) in blocks, in float64 unless you pass --dtype. Without
    --out: prints the first numbers of the first positions.

    \b
    Example:
    pefourier encode dft --pos 0,5,99 --out v.npy
    """
    if output.name != "text" and (storage.out == "-" or output.name == "csv"):
        raise PefourierError("encode prints CSV by --out -, or writes it to a --out FILE in .csv")
    storage.check()
    if pos and storage.what == "inv_freq":
        raise PefourierError("--what inv_freq has no positions; leave out --pos")
    check_count_of_specs(options, 1, "encode writes one encoding")
    from pefourier.encodings.sources.tables import write_csv
    from pefourier.questions import encode as of

    (source,) = options.sources(split=False)
    enc, x = of.points_at(source, pos, **options.sizes)
    what = storage.what or "vectors"
    if storage.out == "-":
        of_file = of.layout_of(enc, what, storage.layout), storage.dtype or "float64"
        for block in of.numbers_of(enc, x, ".csv", what, *of_file).blocks:
            stream = BytesIO()
            write_csv(stream, block)
            say(stream.getvalue().decode())
        return
    if storage.golden:
        result = of.write_golden(enc, x if pos else None, storage.golden)
    elif storage.out:
        kind = storage.layout, storage.dtype or "float64"
        result = of.write_numbers(enc, x, storage.out, what, *kind)
    else:
        result = of.show_numbers(enc, x, what, storage.layout)
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
    from pefourier.writing.files import check_suffix, write_text

    check_suffix(out, (".html", ".htm"))
    typed = {k: value for k, value in vars(options).items() if k not in ("specs", "paths")}
    typed |= {"lattice": lattice, "sigma": sigma}
    folders = [spec for spec in options.specs or () if (Path(spec) / RESULTS).exists()]
    if folders:
        check_count_of_specs(options, 1, "report takes one folder of pefourier train, or SPECs")
        if any(value is not None for value in typed.values()):
            raise PefourierError("a folder of pefourier train takes no options of encodings")
        from pefourier.pages.training import folder_document, folder_page, read_train_folder

        training = read_train_folder(folders[0])
        write_text(out, folder_document(training, title or ""))
        output.print(folder_page(training, out))
        return
    from pefourier.encodings.loader import load
    from pefourier.pages.document import encodings_document, report_page, study_of

    def study(source: Any) -> Any:
        enc = load(source, **options.sizes)
        return study_of(enc, typed, percentages(enc.label, quiet=output.quiet))

    results = answer_each(options.sources(), study, quiet=output.quiet)
    page = encodings_document(results.answers, results.refusals, typed, title or "")
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


@register("explain")
def explain(
    *,
    context: typer.Context,
    output: OutputOptions,
    term: Annotated[
        list[str] | None,
        Argument(),
        "A word of an answer, verdict, finding, encoding, parameter or command.",
    ] = None,
    schema: Annotated[bool, "Print the JSON Schema of all answers that --json writes."] = False,
) -> None:
    """Explain a term.

    Shows its meaning, formula, unit, range, good values and source. Without TERM: lists some terms
    of each kind; all: lists all.

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
    """Return a term for each command."""
    from pefourier.report.terms import Term

    terms = []
    for name, command in program.commands.items():
        summary, _, text = command.help.partition("\n")
        terms.append(Term(name, "commands", summary, good=text.partition("Example:")[2].strip()))
    return terms
