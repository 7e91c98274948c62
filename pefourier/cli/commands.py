"""The commands that ask a question about encodings.

Commands import modules when they run, so help and `list` start without numpy.
"""

from functools import partial
from typing import Annotated, Any, Literal

import typer
from typer import Option

from pefourier.cli.options import (
    AnswerOptions,
    EncodingOptions,
    FigureOptions,
    File,
    Lattice,
    Requirements,
    Sigma,
    TypedPoints,
    answer_specs,
    check_count_of_specs,
    format_name,
    group,
    print_result,
    spare_threads,
)
from pefourier.cli.process import percentages
from pefourier.cli.registry import register
from pefourier.errors import PefourierError
from pefourier.writing.text import printable

Rung = Literal["collides", "injective", "separable", "invertible", "isometric"]


@group
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
        "linear the share at each lattice frequency; auto uses log if the first encoding has "
        "mostly low frequencies.",
    ] = "auto",
) -> None:
    """Show the frequencies of an encoding.

    Default: sinusoidal and dft.

    \b
    Example:
    pefourier spectrum rope rope:rho=5e5 --d 128
    """
    from pefourier.questions.spectrum import spectrum as spectrum_of

    question = partial(spectrum_of, **vars(density))
    answer_specs(question, options, output, figure, axis=axis)


@register("reconstruct")
def reconstruct(
    options: EncodingOptions,
    output: AnswerOptions,
    figure: FigureOptions,
    density: DensityOptions,
    pos: TypedPoints = None,
) -> None:
    """Reconstruct positions from an encoding.

    Reconstructs position functions (1 at a position, 0 elsewhere) from an encoding's frequencies
    and from its vectors. Default: sinusoidal and dft, positions 5, 40 and 75; on a grid its middle.

    \b
    Example:
    pefourier reconstruct --pos 5 40 --plot fig.pdf
    """
    spare_threads()
    from pefourier.questions.reconstruct import position_functions

    question = partial(position_functions, positions=pos, **vars(density))
    answer_specs(question, options, output, figure)


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
    from pefourier.questions.check_faithful import check_faithful as check

    def ask(source: Any, **sizes: Any) -> Any:
        show = percentages(printable(source.spec), quiet=output.quiet)
        return check(source, show, **sizes)

    answer_specs(
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
        "Write the permutation of a head's rows that maps the first rotation to the second (.npy).",
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

        check_suffix(permutation, (".npy",))
    check_count_of_specs(options, 2, "compare takes two encodings")
    from pefourier import api
    from pefourier.writing.page import Reason

    sources, sizes = options.sources(split=False), options.sizes
    comparison = api.compare(*sources, **sizes, tolerance=tolerance)
    if permutation is not None:
        if comparison.operator is None or comparison.operator.permutation is None:
            raise PefourierError(
                f"--permutation {permutation} was not written: no permutation of rows maps the "
                "first to the second"
            )
        import numpy as np

        from pefourier.encodings.sources.tables import write_table

        write_table(permutation, np.array(comparison.operator.permutation), "<i8")
    a, b = comparison.encodings
    words = f"is not the same as {b.label}: {comparison.verdict}"
    reasons = [] if comparison.same else [Reason(a.label, "unmet", words)]
    print_result(comparison, output, figure, reasons)
    options.note_without_effect(comparison.encodings, quiet=output.quiet)
    if not comparison.same:
        raise typer.Exit(1)


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

    answer_specs(api.relations, options, output, figure)
