"""Commands for training and for recomputing the paper."""

from contextlib import suppress
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import typer
from typer import Option

from pefourier.cli.options import OutputOptions, spec_names
from pefourier.cli.process import note
from pefourier.cli.registry import register, typer_option
from pefourier.train.options import FLAGS, HEADINGS, PUBLISHED, SYNTHETIC, Options, flag_of

if TYPE_CHECKING:
    from pefourier.train.summary import Summary


def dataset_names(incomplete: str) -> list[str]:
    """Return the names of datasets, for the shell's completion."""
    names = (*SYNTHETIC, *PUBLISHED, "uea:")
    return [name for name in names if name.startswith(incomplete)]


COMPLETIONS = {"encoding": spec_names, "dataset": dataset_names}
NAMES = [field.name for field in fields(Options)]


def train_option(name: str, kind: Any, _: str | None) -> Any:
    """Convert a field of `Options` to an option for typer."""
    plain, *facts, text = get_args(kind)
    flags = FLAGS.get(name, [flag_of(name)] if plain is bool else [])
    option = Option(*flags, metavar=[*facts, None][0], autocompletion=COMPLETIONS.get(name))
    first = [key for key in HEADINGS if NAMES.index(key) <= NAMES.index(name)][-1]
    plain = list[str] if get_origin(plain) is tuple else plain  # tuple[str, ...]: a repeated option
    return typer_option(name, Annotated[plain, option, text], HEADINGS[first])


@register("train", option_of={"options": train_option})
def train(
    *,
    options: Options,
    output: OutputOptions,
    plan: Annotated[
        bool,
        "Show what would be trained, for how long, on which windows, and what differences it "
        "could detect; train and write nothing.",
    ] = False,
) -> None:
    """Compare encodings by training classifiers.

    Trains the paper's transformer with each encoding on the same data, batches and seeds, and
    reports which differences are significant. It classifies windows or whole series; forecasting
    and regression are not supported. Without options it takes under two minutes. For the same
    statistics of your own scores, see 'pefourier explain own scores'.

    \b
    Example:
    pefourier train --dataset smd --data data
    """
    print_results = None if output.quiet else note
    if plan:
        from pefourier.train.plan import plan_page, plan_training

        output.print(plan_page(plan_training(options, print_results)))
        return
    from pefourier.train.run import run_comparison

    def deliver(summary: "Summary") -> None:
        from pefourier.train.report import summary_page

        with suppress(typer.Exit):  # write the files even if the answer is not read
            output.print(summary_page(summary))

    run_comparison(options, deliver, print_results)


@register("reproduce")
def reproduce(
    output: OutputOptions,
    out: Annotated[str, Option(metavar="DIR"), "Folder to write to."] = "figures",
) -> None:
    """Recompute the paper.

    Recomputes every figure, equation, number and claim, and lists the printed and the computed
    value with a verdict.

    \b
    Example:
    pefourier reproduce --out figures
    """
    from pefourier.reproduce import claims_page, has_results, recompute_paper

    claims, files = recompute_paper(out)
    output.print(claims_page(claims))
    note(f"wrote {', '.join(files)}", quiet=output.quiet)
    if not has_results(out):
        note("Table 1 uses the results that are shipped with this version", quiet=output.quiet)
