"""What `pefourier context` and `pefourier design` are asked, and the calls that answer them."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal

import typer

from pefourier.cli.request import (
    SHORT_NAMES,
    AtLength,
    Drawing,
    Form,
    Quiet,
    RequireDtype,
    Specs,
    answers_of,
    attempt_each,
    count,
    count_or_sweep,
    keep_answers,
    sides,
    since,
)
from pefourier.cli.streams import note
from pefourier.errors import PefourierError


@dataclass(frozen=True)
class ContextOptions:
    """The options of `pefourier context`."""

    specs: Specs = None
    length: Annotated[
        int | None,
        typer.Option(
            "--length",
            "-S",
            parser=count_or_sweep,
            metavar="N",
            help="Positions asked for: 128k; several: 4k:1M:2x.",
        ),
    ] = None
    trained: Annotated[
        int | None,
        typer.Option(parser=count, metavar="N", help="Positions of training, where you know them."),
    ] = None
    d: Annotated[int | None, typer.Option("--d", help="Head size; named rotations only.")] = None
    against: Annotated[
        str | None,
        typer.Option(
            metavar="OTHER",
            help="Another SPEC, or misreadings: scaling-ignored, partial-ignored, "
            "local-for-global, layout, a setting of rope such as base=NUMBER or original=N; "
            "several with commas.",
        ),
    ] = None
    require_dtype: RequireDtype = None
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="An earlier answer, written with --json: exit with status 1 when rotations, "
            "layers, windows or factors are not as they were, or more phases are new.",
        ),
    ] = None
    quiet: Quiet = False


@dataclass(frozen=True)
class DesignOptions:
    """The options of `pefourier design`."""

    length: Annotated[
        int | None,
        typer.Option(
            "--length",
            "-S",
            parser=count,
            metavar="N",
            help="Positions: 64k; with --extend-from those of training.",
        ),
    ] = None
    d: Annotated[
        int | None,
        typer.Option("--d", parser=count, metavar="N", help="Dimension of a code or a head."),
    ] = None
    span: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="What positions cover, with --resolution in place of --length: 1h, 90min, 250ms, "
            "or a number without a unit.",
        ),
    ] = None
    resolution: Annotated[
        str | None, typer.Option(metavar="TIME", help="The step from one position to the next.")
    ] = None
    wanted: Annotated[
        list[str] | None,
        typer.Option(
            "--for",
            metavar="CRITERION",
            help="turns, distance, rank, stable_rank, condition, bound, wavelength=K (the slowest "
            "pair needs K lengths for a turn) or phase=E:N (its cosine stays at E after N layers); "
            "default: all but the last two. For language models bound is in use, for short series "
            "turns. Repeatable.",
        ),
    ] = None
    base: Annotated[
        list[float] | None, typer.Option("--rho", "--base", help="A base to try; repeatable.")
    ] = None
    dtype: Annotated[
        Literal["float32", "float16", "bfloat16", "fp32", "fp16", "bf16"] | None,
        typer.Option(help="Round codes to this format for another smallest distance."),
    ] = None
    grid: Annotated[
        tuple | None,
        typer.Option(
            parser=sides,
            metavar="HxW",
            help="A base for each axis of a grid, 14x14 or 8x30x52, in place of --length; with "
            "--extend-from the grid to extend to, in place of --to.",
        ),
    ] = None
    extend_from: Annotated[
        str | None,
        typer.Option(
            metavar="CONFIG",
            help="Extend this rotation, a model's config or rope:…, to the length --to: linear, "
            "ntk, yarn, llama3, and the bases of --rho and --for (turns, bound, wavelength=K).",
        ),
    ] = None
    to: Annotated[
        int | None,
        typer.Option(parser=count, metavar="N", help="Positions to extend to: 128k."),
    ] = None
    quiet: Quiet = False

    @property
    def asked(self) -> dict[str, Any]:
        """Criteria, bases that are tried, and the format that codes are rounded to."""
        dtype = SHORT_NAMES.get(self.dtype, self.dtype)
        return {"criteria": self.wanted or (), "bases": self.base or (), "dtype": dtype}


def tell_reach(given: ContextOptions, form: Form, drawing: Drawing) -> None:
    """Answer `pefourier context`."""
    if not given.specs:
        raise PefourierError(
            "context takes a model's config.json or folder, or a rotation; got none"
        )
    from pefourier.analysis.context import lost_in_format
    from pefourier.answers.context import TOLD, context_over_lengths
    from pefourier.answers.page import Reason
    from pefourier.answers.telling import answer_of
    from pefourier.questions import context

    lengths = given.length if isinstance(given.length, tuple) else (given.length,)
    stored = answers_of(given.baseline, "context")
    if len(lengths) > 1 and stored is not None:
        raise PefourierError("--baseline compares one length; give one, or leave --baseline out")

    own = {"trained": given.trained, "d": given.d, "against": given.against}

    def answer(asked: AtLength) -> Any:
        return answer_of(context(asked.spec, length=asked.length, **own))

    pairs = [AtLength(spec, one) for spec in given.specs for one in lengths]
    asked = keep_answers(attempt_each(pairs, answer))
    page = context_over_lengths if len(lengths) > 1 else TOLD.page
    for a in asked.answers:
        if given.length is not None and a.encoding.measure and len(a.encoding.domain.sides) > 1:
            note_image(a.encoding, given.quiet)
    drawing.draw("context.context_sweep" if len(lengths) > 1 else "context", asked.answers)
    dtype = given.require_dtype
    worse, remarks = since(stored, asked)
    for one in remarks:
        note(one.text, given.quiet)
    reasons = worse + [
        Reason(a.encoding.label, "unmet", lost)
        for a in asked.answers
        for lost in (lost_in_format(a.result, dtype) if dtype else ())
    ]
    form.deliver(replace(page(asked.each), reasons=reasons, remarks=remarks))
    asked.finish(reasons, given.quiet)


def note_image(enc: Any, quiet: bool) -> None:
    """Say that images have no length, and how their size is asked for."""
    from pefourier.encodings.grids import size_of

    own, other = enc.domain.sides, [2 * side for side in enc.domain.sides]
    note(
        f"--length has no effect on {enc.label}, whose positions are points of a grid of "
        f"{size_of(own)}; 'pefourier resize {enc.label} --to {size_of(other)}' tells of "
        "another size",
        quiet,
    )


def tell_design(given: DesignOptions, form: Form, drawing: Drawing) -> None:
    """Answer `pefourier design`."""
    extends, longer = given.extend_from is not None, given.to is not None
    if (extends or longer) and (not extends or longer == (given.grid is not None)):
        raise PefourierError(
            "--extend-from and --to go together: the config, and the length; of a rotation on axes "
            "--grid is in place of --to"
        )
    if extends:
        tell_extension(given, form, drawing)
        return
    sizes = [given.length, given.grid, given.span]
    spanned = (given.span is None) == (given.resolution is None)
    if sum(size is not None for size in sizes) != 1 or given.d is None or not spanned:
        raise PefourierError(
            "design needs --d and one of --length, --grid, or --span with --resolution; or "
            "--extend-from CONFIG and --to"
        )
    from pefourier.answers.design import design_page
    from pefourier.answers.telling import answer_of
    from pefourier.questions import design

    steps = {"span": given.span, "resolution": given.resolution}
    found = design(given.grid or given.length, given.d, **steps, **given.asked)
    answers = list(map(answer_of, found if given.grid else (found,)))
    drawing.draw("design", answers)
    form.deliver(design_page(answers))


def tell_extension(given: DesignOptions, form: Form, drawing: Drawing) -> None:
    """Answer `pefourier design --extend-from`."""
    from pefourier.analysis.extend import grid_specs
    from pefourier.answers.extend import TOLD, extensions_text
    from pefourier.answers.telling import answer_of
    from pefourier.questions import extend

    config, to = given.extend_from, given.grid or given.to
    ways = extend(config, to, trained=given.length, d=given.d, **given.asked)
    specs = grid_specs(config, to, ways) if given.grid else None
    answers = list(map(answer_of, ways))
    drawing.draw("extend", answers)
    form.deliver(TOLD.page(answers, words=partial(extensions_text, specs=specs)))
