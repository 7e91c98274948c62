"""The commands that answer questions: options, one question, one form.

A command imports what it needs when it runs, so that help and the list start without numpy.
"""

import os
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from functools import partial
from typing import Any, Literal

import typer

from pefourier.cli.options import (
    SHORT_NAMES,
    FigureOptions,
    OutputOptions,
    register,
)
from pefourier.cli.process import percentages
from pefourier.cli.results import (
    EncodingOptions,
    Results,
    answer_each,
    ask_each,
    hold_against,
    parse_points,
    print_and_exit,
)
from pefourier.errors import PefourierError, shown
from pefourier.writing.escapes import printable

Method = Literal["auto", "declared", "periodogram"]
Axis = Literal["auto", "linear", "log"]
Rung = Literal["collides", "injective", "separable", "invertible", "isometric"]
Format = Literal["float32", "float16", "bfloat16", "fp32", "fp16", "bf16"]


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
    from pefourier.files import write_whole

    write_whole(path, lambda stream: stream.write(text.encode()))


@dataclass(frozen=True)
class DensityOptions:
    """How a density over frequencies is made."""

    lattice: int | None = None
    sigma: float | None = None
    method: Method = "auto"
    demean: bool = False


def tell(
    telling: Any,
    results: Results,
    options: EncodingOptions,
    output: OutputOptions,
    figure: FigureOptions,
) -> None:
    """Draw the figure of the results, name options without effect, print the page."""
    figure.draw(telling.figure, results.answers)
    options.note_without_effect([a.encoding for a in results.answers])
    print_and_exit(telling.page(results.per_spec), results, output)


def tell_result(result: Any, output: OutputOptions, figure: FigureOptions) -> None:
    """Draw and print one result, or those of each axis of a grid."""
    from pefourier.report.frame import answer_of, telling_of

    answers = list(map(answer_of, result if isinstance(result, tuple) else (result,)))
    telling = telling_of(answers[0].result)
    figure.draw(telling.figure, answers)
    output.print(telling.page(answers))


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
    from pefourier.report import spectrum as words

    results = ask_each(options, partial(api.spectrum, **vars(density)))
    telling = replace(words.TOLD, chart=partial(words.spectrum_chart, axis=axis))
    if words.by_decade(results.answers, axis):
        telling = replace(telling, figure=words.spectrum_by_decade)
    tell(telling, results, options, output, figure)


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
    from pefourier.report.reconstruct import TOLD

    question = partial(api.reconstruct, positions=points, **vars(density))
    tell(TOLD, ask_each(options, question), options, output, figure)


@dataclass(frozen=True)
class Requirements:
    """What codes are held against by `pefourier check-faithful`."""

    require: Rung | None = None
    require_dtype: str | None = None
    strict: bool = False
    skip_unknown: bool = False
    baseline: str | None = None


@register("check-faithful")
def check_faithful(
    options: EncodingOptions, output: OutputOptions, figure: FigureOptions, required: Requirements
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
    from pefourier.questions.faithful import shortfalls
    from pefourier.report.faithful import TOLD

    def check(source: Any, **sizes: Any) -> Any:
        show = percentages(printable(source.spec), options.quiet)
        return api.check(source, progress=show, **sizes)

    results = ask_each(options, check, skip=required.skip_unknown)
    figure.draw(TOLD.figure, results.answers)
    options.note_without_effect([a.encoding for a in results.answers])
    limits = {"rung": required.require, "dtype": required.require_dtype, "strict": required.strict}
    page, lacking = TOLD.page(results.per_spec), partial(shortfalls, **limits)
    page = hold_against(page, results, lacking, required.baseline, required.strict)
    print_and_exit(page, results, output, options.quiet)


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
        from pefourier.files import check_suffix

        check_suffix(permutation, (".npy", ".json"))
    check_count_of_specs(options, 2, "compare takes two encodings")
    from pefourier import api
    from pefourier.report.compare import TOLD, reasons_against
    from pefourier.report.frame import answer_of

    a, b = options.sources(split=False)
    comparison = api.compare(a, b, **options.sizes, tolerance=tolerance)
    answers = [answer_of(comparison)]
    figure.draw(TOLD.figure, answers)
    output.print(replace(TOLD.page(answers), reasons=reasons_against(comparison)))
    options.note_without_effect(comparison.about)
    if permutation is not None:
        write_permutation(permutation, comparison.operator)
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

    from pefourier.encodings.sources.writers import write_npy
    from pefourier.files import suffix_of, write_whole

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
    from pefourier.report.relations import TOLD

    tell(TOLD, ask_each(options, api.relations), options, output, figure)


@dataclass(frozen=True)
class ContextOptions:
    """The options of `pefourier context`."""

    specs: list[str] | None = None
    length: int | None = None
    trained: int | None = None
    d: int | None = None
    against: str | None = None
    strict: bool = False
    baseline: str | None = None
    skip_unknown: bool = False
    brief: bool = False
    paths: bool = False
    quiet: bool = False


@register("context")
def context(options: ContextOptions, output: OutputOptions, figure: FigureOptions) -> None:
    """How far do a model's positions reach?

    Its layers, their rotations, what a scaling does to each band of frequencies, which phases
    training never met, and what a misreading of the config costs.

    \b
    Example: pefourier context config.json --length 128k --against scaling-ignored
    """
    if not options.specs:
        raise PefourierError(
            "context takes a model's config.json or folder, or a rotation; got none"
        )
    from pefourier import api
    from pefourier.report.context import TOLD
    from pefourier.report.frame import answer_of

    settings = {name: getattr(options, name) for name in ("length", "trained", "d", "against")}

    def ask(spec: str) -> Any:
        return answer_of(api.context(spec, **settings))

    results = answer_each(options.specs, ask, options.quiet, options.skip_unknown)
    figure.draw(TOLD.figure, results.answers)

    def lacking(result: Any) -> list[str]:
        faults = result.findings if options.strict else ()
        return [f"has {f.code}" for f in faults if f.severity != "note"]

    page = TOLD.page(results.per_spec)
    if options.brief:
        lines = [f"{a.encoding.label}: {a.result.verdict}\n" for a in results.answers]
        page = replace(page, words=lambda: "".join(lines), conclusion=str, chart=None)
    page = hold_against(page, results, lacking, options.baseline, options.strict)
    print_and_exit(page, results, output, options.quiet)


@dataclass(frozen=True)
class UsageOptions:
    """What `pefourier usage` looks at."""

    model: str = ...
    length: int | None = None
    layers: range | None = None
    every_head: bool = False
    against: str | None = None
    stats: str | None = None
    quiet: bool = False


@register("usage")
def usage(options: UsageOptions, output: OutputOptions, figure: FigureOptions) -> None:
    """Which rotary frequencies do a model's weights use?

    How the energy of queries and keys is spread over pairs, from those that turn with every
    position to those that never complete a turn: by layers and heads, in the product that scores
    are made of. Reads only the rows of queries and keys; nothing of the model is run.

    \b
    Example: pefourier usage SmolLM2-135M/ --plot usage.png
    """
    from pefourier.weights.usage import use_of_model

    *settings, quiet = astuple(options)
    tell_result(use_of_model(*settings, percentages(options.model, quiet)), output, figure)


@dataclass(frozen=True)
class DesignOptions:
    """The options of `pefourier design`."""

    length: int | None = None
    d: int | None = None
    criteria: list[str] | None = None
    base: list[float] | None = None
    dtype: Format | None = None
    grid: tuple | None = None
    span: str | None = None
    resolution: str | None = None
    extend_from: str | None = None
    to: int | None = None
    quiet: bool = False

    def __post_init__(self) -> None:
        """Refuse sizes that do not say what is to be designed."""
        extends = self.extend_from is not None
        if extends != (self.to is not None) or (extends and self.grid is not None):
            raise PefourierError(
                "--extend-from and --to go together, without --grid: the config, and the length"
            )
        sizes = [self.length, self.grid, self.span]
        is_sized = sizes.count(None) == 2 and (self.span is None) == (self.resolution is None)
        if not extends and (self.d is None or not is_sized):
            raise PefourierError(
                "design needs --d and one of --length, --grid and --span with --resolution, or "
                "--extend-from CONFIG and --to"
            )

    @property
    def bases(self) -> dict[str, Any]:
        """Criteria, bases that are tried, and the format that codes are rounded to."""
        dtype = SHORT_NAMES.get(self.dtype or "", self.dtype)
        return {"criteria": self.criteria or (), "bases": self.base or (), "dtype": dtype}


@register("design")
def design(options: DesignOptions, output: OutputOptions, figure: FigureOptions) -> None:
    """Which encoding, and which base, for my length?

    Criteria of a base contradict one another: distance and rank want small ones, the bound of long
    contexts a large one; each is shown with the base that it asks for, or those of --for alone.
    With --extend-from: which scaling takes a model to --to positions, what each does to its bands
    of frequencies and how near it stays to the trained rotation, as a SPEC.

    \b
    Example: pefourier design --length 64k --d 128 --for bound
    Example: pefourier design --extend-from config.json --to 128k
    """
    spare_threads()
    from pefourier import api

    size = options.grid or options.length
    if options.extend_from is None:
        steps = {"span": options.span, "resolution": options.resolution}
        result = api.design(size, options.d, **steps, **options.bases)
    else:
        from pefourier.questions.extend import extend

        sizes = {"trained": options.length, "d": options.d}
        result = extend(options.extend_from, options.to, **sizes, **options.bases)
    tell_result(result, output, figure)
