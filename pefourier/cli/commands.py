"""The commands that answer questions or write tables: options, one question, one form.

A command imports what it needs when it runs, so that help and the list start without numpy.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import typer

from pefourier.cli.options import (
    SHORT_NAMES,
    EncodingOptions,
    FigureOptions,
    OutputOptions,
    Requirements,
    Results,
    answer_each,
    ask_each,
    parse_points,
    print_and_exit,
    register,
)
from pefourier.cli.process import percentages
from pefourier.errors import PefourierError, shown
from pefourier.writing.text import printable

Method = Literal["auto", "declared", "periodogram"]
Axis = Literal["auto", "linear", "log"]
Rung = Literal["collides", "injective", "separable", "invertible", "isometric"]
Format = Literal["float32", "float16", "bfloat16", "fp32", "fp16", "bf16"]
Shard = Literal["every", "block", "zigzag"]
Interpolation = Literal["bicubic", "bilinear", "antialias", "fourier"]


def spare_threads(specs: Sequence[str] = ()) -> None:
    """Give BLAS one thread where it would wait for others, if numpy is not loaded yet.

    Matrix products are long and thin in reconstruct and design; in check-faithful where all SPECs
    have declared frequencies, whose two parts are decomposed at a time.
    """
    from pefourier.report.catalogue import read_catalogue

    records = read_catalogue() if specs else ()
    declared = {record["encoding"] for record in records if record["measure"] == "declared"}
    if all(spec.partition(":")[0] in declared for spec in specs):
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def check_count_of_specs(options: EncodingOptions, required: int, rule: str) -> None:
    """Refuse another number of SPECs than a command takes."""
    specs = options.specs or []
    if len(specs) != required:
        raise PefourierError(f"{rule}; got {len(specs)}: {' '.join(map(shown, specs)) or 'none'}")


def write_text(path: str, text: str) -> None:
    """Write a text whole."""
    from pefourier.writing.files import write_whole

    write_whole(path, lambda stream: stream.write(text.encode()))


@dataclass(frozen=True)
class DensityOptions:
    """How a density over frequencies is made."""

    lattice: int | None = None
    sigma: float | None = None
    method: Method = "auto"
    demean: bool = False


def print_results(
    renderer: Any,
    results: Results,
    options: EncodingOptions,
    output: OutputOptions,
    figure: FigureOptions,
    required: Requirements | None = None,
    **limits: Any,
) -> None:
    """Draw the figure of the results, name options without effect, print the page."""
    page = renderer.page(results.per_spec)
    page = required.hold(page, results, **limits) if required else page
    figure.draw(renderer.figure, results.answers, results.refusals)
    if not results.refusals:
        options.note_without_effect([a.encoding for a in results.answers])
    print_and_exit(page, results, output, options.quiet)


def print_result(result: Any, output: OutputOptions, figure: FigureOptions) -> None:
    """Draw and print one result, or those of each axis of a grid."""
    from pefourier.report.render import answer_of, renderer_of

    answers = list(map(answer_of, result if isinstance(result, tuple) else (result,)))
    renderer = renderer_of(answers[0].result)
    figure.draw(renderer.figure, answers)
    output.print(renderer.page(answers))


@register("spectrum")
def spectrum(
    options: EncodingOptions,
    output: OutputOptions,
    figure: FigureOptions,
    density: DensityOptions,
    axis: Axis = "auto",
) -> None:
    """Which frequencies does an encoding have?

    Default: sinusoidal and dft.

    \b
    Example: pefourier spectrum sinusoidal rope:rho=5e5 --d 128
    """
    from pefourier import api
    from pefourier.report.render import renderer_named

    renderer = renderer_named("spectrum")
    pictures = {name: partial(getattr(renderer, name), axis=axis) for name in ("figure", "chart")}
    results = ask_each(options, partial(api.spectrum, **vars(density)))
    print_results(replace(renderer, **pictures), results, options, output, figure)


@register("reconstruct")
def reconstruct(
    options: EncodingOptions,
    output: OutputOptions,
    figure: FigureOptions,
    density: DensityOptions,
    pos: list[str] | None = None,
) -> None:
    """What is left of a position?

    Deltas are rebuilt from an encoding's frequencies, and from its codes. Default: sinusoidal and
    dft, positions 5, 40 and 75; on a grid its middle.

    \b
    Example: pefourier reconstruct --pos 5 40 75 --plot fig2.pdf
    """
    spare_threads()
    points = parse_points(pos)
    from pefourier import api
    from pefourier.report.render import renderer_named

    question = partial(api.reconstruct, positions=points, **vars(density))
    print_results(
        renderer_named("reconstruct"), ask_each(options, question), options, output, figure
    )


@register("check-faithful")
def check_faithful(
    options: EncodingOptions,
    output: OutputOptions,
    figure: FigureOptions,
    required: Requirements,
    require: Rung | None = None,
    require_dtype: str | None = None,
) -> None:
    """Are codes distinct, can they be inverted?

    Also identifies tables and your code, and names what is wrong with them. Verdicts: collides <
    injective < separable (on grids) < invertible < isometric. Default: sinusoidal and dft, 80
    positions, d 256.

    \b
    Example: pefourier check-faithful wpe.npy --require injective
    """
    spare_threads(options.names)
    from pefourier import api
    from pefourier.report.render import renderer_named

    def check(source: Any, **sizes: Any) -> Any:
        show = percentages(printable(source.spec), options.quiet)
        return api.check(source, progress=show, **sizes)

    results = ask_each(options, check, skip=required.skip_unknown)
    limits = {"required": required, "rung": require, "dtype": require_dtype}
    print_results(renderer_named("check_faithful"), results, options, output, figure, **limits)


@register("compare")
def compare(
    options: EncodingOptions,
    output: OutputOptions,
    figure: FigureOptions,
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
        from pefourier.writing.files import check_suffix

        check_suffix(permutation, (".npy", ".json"))
    check_count_of_specs(options, 2, "compare takes two encodings")
    from pefourier import api
    from pefourier.report.render import answer_of, renderer_named
    from pefourier.writing.page import Reason

    a, b = options.sources(split=False)
    comparison = api.compare(a, b, **options.sizes, tolerance=tolerance)
    answers, renderer = [answer_of(comparison)], renderer_named("compare")
    if permutation is not None:
        write_permutation(permutation, comparison.operator)
    figure.draw(renderer.figure, answers)
    a, b = comparison.encodings
    words = f"is not the same as {b.label}: {comparison.verdict}"
    difference = Reason(a.label, "unmet", words)
    output.print(replace(renderer.page(answers), reasons=[] if comparison.same else [difference]))
    options.note_without_effect(comparison.encodings)
    if not comparison.same:
        raise typer.Exit(1)


def write_permutation(path: str, operator: Any) -> None:
    """Write the order of rows that leads from one rotation to another."""
    if operator is None or operator.permutation is None:
        raise PefourierError(
            f"--permutation {path} was not written: no order of rows leads from the first to the "
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
def relations(options: EncodingOptions, output: OutputOptions, figure: FigureOptions) -> None:
    """How do the codes of positions relate to one another?

    Inner products by lag, whether one matrix leads from every code to the next, whether distances
    are kept. --csv has the inner product at each lag. Default: sinusoidal and dft.

    \b
    Example: pefourier relations sinusoidal learned -S 512 --d 64 --plot kernel.pdf
    """
    from pefourier import api
    from pefourier.report.render import renderer_named

    print_results(
        renderer_named("relations"), ask_each(options, api.relations), options, output, figure
    )


@register("context")
def context(
    output: OutputOptions,
    figure: FigureOptions,
    required: Requirements,
    specs: list[str] | None = None,
    length: int | None = None,
    trained: int | None = None,
    d: int | None = None,
    against: str | None = None,
    require: Literal["fits"] | None = None,
    brief: bool = False,
    paths: bool = False,
    quiet: bool = False,
) -> None:
    """Show how far a model's positions reach.

    Layers, rotations, what a scaling does to each band of frequencies, angles never seen in
    training, and the effect of misreading the config.
    For the position ids of a batch: pefourier positions.

    \b
    Example: pefourier context config.json --length 128k --against scaling-ignored
    """
    if not specs:
        raise PefourierError(
            "context needs a model's config.json, its folder, or a rotation; got none"
        )
    from pefourier import api
    from pefourier.report.render import answer_of, renderer_named

    settings = {"length": length, "trained": trained, "d": d, "against": against}

    def ask(spec: str) -> Any:
        return answer_of(api.context(spec, **settings))

    results = answer_each(specs, ask, quiet, required.skip_unknown)
    renderer = renderer_named("context")
    page = required.hold(renderer.page(results.per_spec), results)
    figure.draw(renderer.figure, results.answers, results.refusals)
    if brief:
        lines = "".join(map(brief_line, results.answers))
        page = replace(page, words=lambda: lines, conclusion=str, chart=None)
    if require or (required.strict and length is not None):
        unmet = misfits(results.answers, is_certain=require is None)
        page = replace(page, reasons=[*page.reasons, *unmet])
    print_and_exit(page, results, output, quiet)


def brief_line(answer: Any) -> str:
    """The verdict on a SPEC, and the codes of what its config has wrong."""
    codes = [f.code for f in answer.result.findings if f.severity != "note"]
    faults = f" ({', '.join(dict.fromkeys(codes))})" if codes else ""
    return f"{answer.encoding.label}: {answer.result.verdict}{faults}\n"


def misfits(answers: Sequence[Any], is_certain: bool) -> list[Any]:
    """Why lengths do not fit models; with `is_certain` not where training is unknown."""
    from pefourier.writing.page import Reason

    words = {a.encoding.label: a.result.misfit for a in answers}
    if not is_certain:
        unknown = [a for a in answers if a.result.rotations and a.result.trained.length is None]
        words |= {a.encoding.label: "its trained length is unknown" for a in unknown}
    return [Reason(label, "unmet", f"does not fit: {w}") for label, w in words.items() if w]


@register("positions")
def positions(
    output: OutputOptions,
    figure: FigureOptions,
    ids: str,
    config: str | None = None,
    mask: str | None = None,
    segments: str | None = None,
    depth: str | None = None,
    rank: str | None = None,
    shard: Shard | None = None,
    length: int | None = None,
) -> None:
    """Check position ids.

    Are they the ids that the model should see? Reports padding that is counted, packed documents
    that do not restart, gaps and repeats of caches, ids of another rank, and ids of text for an
    image. Exit status 0: as expected; 1: not, or undecided.

    \b
    Example: pefourier positions batch.npz config.json
    """
    from pefourier import api

    result = api.positions(
        ids,
        config=config,
        mask=mask,
        segments=segments,
        depth=depth,
        rank=rank,
        shard=shard,
        length=length,
    )
    print_result(result, output, figure)
    if result.verdict != "as expected":
        raise typer.Exit(1)


@register("usage")
def usage(
    output: OutputOptions,
    figure: FigureOptions,
    model: str,
    length: int | None = None,
    layers: range | None = None,
    every_head: bool = False,
    against: str | None = None,
    stats: str | None = None,
    quiet: bool = False,
) -> None:
    """Which rotary frequencies do a model's weights use?

    How the energy of queries and keys is spread over pairs, from those that turn with every
    position to those that never complete a turn: by layers and heads, in the product that scores
    are made of. Reads only the rows of queries and keys; nothing of the model is run.

    \b
    Example: pefourier usage SmolLM2-135M/ --plot usage.png
    """
    from pefourier.weights.usage import use_of_model

    show = percentages(model, quiet)
    files = {"against": against, "stats": stats}
    result = use_of_model(model, length, layers, every_head=every_head, **files, begin=show)
    print_result(result, output, figure)


@register("design")
def design(
    output: OutputOptions,
    figure: FigureOptions,
    length: int | None = None,
    d: int | None = None,
    criteria: list[str] | None = None,
    base: list[float] | None = None,
    dtype: Format | None = None,
    grid: tuple | None = None,
    span: str | None = None,
    resolution: str | None = None,
    extend_from: str | None = None,
    to: int | None = None,
    quiet: bool = False,
) -> None:
    """Which encoding, and which base, for my length?

    Criteria of a base contradict one another: distance and rank want small ones, the bound of long
    contexts a large one; each is shown with the base that it asks for, or those of --for alone.
    With --extend-from: which scaling takes a model to --to positions, what each does to its bands
    of frequencies and how near it stays to the trained rotation, as a SPEC.

    \b
    Example: pefourier design --length 64k --d 128 --for bound
    Example: pefourier design --extend-from config.json --to 128k
    """
    extends = extend_from is not None
    if extends != (to is not None) or (extends and grid is not None):
        raise PefourierError(
            "--extend-from and --to go together, without --grid: the config, and the length"
        )
    is_sized = [length, grid, span].count(None) == 2 and (span is None) == (resolution is None)
    if not extends and (d is None or not is_sized):
        raise PefourierError(
            "design needs --d and one of --length, --grid and --span with --resolution, or "
            "--extend-from CONFIG and --to"
        )
    spare_threads()
    from pefourier import api

    shared = {"criteria": criteria or (), "bases": base or ()}
    shared["dtype"] = SHORT_NAMES.get(dtype or "", dtype)
    if extends:
        from pefourier.questions.extend import extend

        result = extend(extend_from, to, trained=length, d=d, **shared)
    else:
        result = api.design(grid or length, d, span=span, resolution=resolution, **shared)
    print_result(result, output, figure)


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
    from pefourier.encodings.loader import source_of
    from pefourier.encodings.sources.formats import WRITERS
    from pefourier.encodings.sources.tables import in_form_of, write_table
    from pefourier.writing.files import check_suffix

    if out is not None:
        check_suffix(out, WRITERS)
    from pefourier import api

    place = {"grid": old or (), "prefix": prefix or 0}
    resizing = api.resize(spec, new, method=method or "", d=d, **place)
    if out is not None:
        path, array = (resizing.encodings[0].params.get(key) for key in ("path", "array"))
        stored = path != "-" and (array or source_of(spec) == "table")
        table = resizing.table
        write_table(out, *(in_form_of(path, array, table, out, new) if stored else (table,)))
    print_result(replace(resizing, out=out), output, figure)


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
    from pefourier.encodings.sources.formats import WRITERS
    from pefourier.encodings.sources.tables import rows_of_codes, write_table
    from pefourier.writing.files import check_suffix

    if output.name == "csv":
        raise PefourierError("encode writes its table to --out; for CSV, end that name in .csv")
    check_suffix(out, WRITERS)
    points = parse_points(pos)
    check_count_of_specs(options, 1, "encode writes one encoding")
    from pefourier import api
    from pefourier.questions.encode import Written

    (source,) = options.sources(split=False)
    enc, x = api.points_at(source, points, **options.sizes)
    write_table(out, rows_of_codes(enc, x))
    options.note_without_effect([enc])
    print_result(Written(out, (len(x), enc.dim), x, encodings=(enc,)), output, figure)
