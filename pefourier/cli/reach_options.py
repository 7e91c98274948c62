"""What `pefourier context` and `pefourier design` are asked, and the calls that answer them."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from pefourier.cli import request
from pefourier.cli.options import SHORT_NAMES
from pefourier.cli.streams import note
from pefourier.errors import PefourierError


@dataclass(frozen=True)
class ContextOptions:
    """The options of `pefourier context`."""

    specs: list[str] | None = None
    length: int | None = None
    trained: int | None = None
    d: int | None = None
    against: str | None = None
    require_dtype: str | None = None
    strict: bool = False
    baseline: str | None = None
    paths: bool = False
    quiet: bool = False


@dataclass(frozen=True)
class DesignOptions:
    """The options of `pefourier design`."""

    length: int | None = None
    d: int | None = None
    span: str | None = None
    resolution: str | None = None
    wanted: list[str] | None = None
    base: list[float] | None = None
    dtype: Literal["float32", "float16", "bfloat16", "fp32", "fp16", "bf16"] | None = None
    grid: tuple | None = None
    extend_from: str | None = None
    to: int | None = None
    quiet: bool = False

    @property
    def asked(self) -> dict[str, Any]:
        """Criteria, bases that are tried, and the format that codes are rounded to."""
        dtype = SHORT_NAMES.get(self.dtype, self.dtype)
        return {"criteria": self.wanted or (), "bases": self.base or (), "dtype": dtype}


def tell_reach(given: ContextOptions, form: request.Form, drawing: request.Drawing) -> None:
    """Answer `pefourier context`."""
    if not given.specs:
        raise PefourierError(
            "context takes a model's config.json or folder, or a rotation; got none"
        )
    from pefourier.analysis.context import lost_in_format
    from pefourier.answers.context import TOLD
    from pefourier.answers.telling import answer_of
    from pefourier.questions import context

    stored = request.answers_of(given.baseline, "context")
    own = {"trained": given.trained, "d": given.d, "against": given.against}

    def answer(spec: str) -> Any:
        return answer_of(context(spec, length=given.length, **own))

    asked = request.keep_answers(request.attempt_each(given.specs, answer))
    for a in asked.answers:
        if given.length is not None and a.encoding.measure and len(a.encoding.domain.sides) > 1:
            note_image(a.encoding, given.quiet)
    drawing.draw("context", asked.answers)
    dtype = given.require_dtype
    lacking = partial(lost_in_format, dtype=dtype, strict=given.strict)
    request.deliver_held(
        TOLD.page(asked.each), asked, lacking, stored, form, given.quiet, given.strict
    )


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


def tell_design(given: DesignOptions, form: request.Form, drawing: request.Drawing) -> None:
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
    if isinstance(given.length, tuple):
        raise PefourierError(
            "a grid as --length is one of training, beside --extend-from; give --grid"
        )
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


def tell_extension(given: DesignOptions, form: request.Form, drawing: request.Drawing) -> None:
    """Answer `pefourier design --extend-from`."""
    from pefourier.analysis.extend import grid_specs, presumed_grid
    from pefourier.answers.extend import TOLD, extensions_text
    from pefourier.answers.telling import answer_of
    from pefourier.questions import extend

    config, to = given.extend_from, given.grid or given.to
    ways = extend(config, to, trained=given.length, d=given.d, **given.asked)
    own = {}
    if given.grid:
        trained = given.length or ()
        presumed = () if trained else presumed_grid(config)
        own = {"specs": grid_specs(config, to, ways, trained), "grid": presumed}
    answers = list(map(answer_of, ways if given.grid else (ways,)))
    drawing.draw("extend", answers)
    form.deliver(TOLD.page(answers, words=partial(extensions_text, **own)))
