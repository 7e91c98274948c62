"""Commands for training and for recomputing the paper."""

from contextlib import suppress
from dataclasses import replace
from inspect import Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_origin

import typer
from typer import Argument, Option

from pefourier.cli.options import OutputOptions, spec_names
from pefourier.cli.process import note
from pefourier.cli.registry import register
from pefourier.train import options as settings
from pefourier.train.options import Options
from pefourier.writing.files import read_toml

if TYPE_CHECKING:
    from pefourier.train.statistics import Summary


def dataset_names(incomplete: str) -> list[str]:
    """Return the names of datasets, for the shell's completion."""
    names = (*settings.SYNTHETIC, *settings.PUBLISHED, "uea:")
    return [name for name in names if name.startswith(incomplete)]


COMPLETIONS = {"encoding": spec_names, "dataset": dataset_names}


def signature_of_options() -> Signature:
    """Convert the fields of `Options` to options for typer, with their help and headings."""
    parameters = dict(signature(Options, eval_str=True).parameters)
    constants = vars(settings).items()
    slots = {key: ", ".join(v) if isinstance(v, tuple) else v for key, v in constants}
    for heading, texts in read_toml(Path(settings.__file__).with_suffix(".toml")).items():
        for name, text in texts.items():
            metavar, words = (None, text) if isinstance(text, str) else text
            kind = parameters[name].annotation
            kind = list[str] if get_origin(kind) is tuple else kind
            option = Option(
                *settings.FLAGS.get(name, [settings.flag_of(name)] if kind is bool else []),
                metavar=metavar,
                autocompletion=COMPLETIONS.get(name),
                help=words.format(**slots),
                rich_help_panel=heading,
            )
            parameters[name] = parameters[name].replace(annotation=Annotated[kind, option])
    return Signature([*parameters.values()])


Options.__signature__ = signature_of_options()  # type: ignore[attr-defined]


@register("train")
def train(
    *,
    sources: Annotated[
        list[str] | None, Argument(metavar="DATA"), "Data, as with --dataset."
    ] = None,
    options: Options,
    output: OutputOptions,
    plan: Annotated[
        bool,
        "Show what would be trained, for how long, on which windows, and what differences it "
        "could detect; train and write nothing.",
    ] = False,
    scores: Annotated[
        str | None,
        Option(metavar="FILE.csv"),
        "Compare scores of your own runs instead of training: columns encoding and score, and "
        "dataset, seed or fold.",
    ] = None,
) -> None:
    """Compare encodings by training classifiers.

    Trains the paper's transformer with each encoding on the same data, batches and seeds, and
    reports which differences are significant. It classifies windows or whole series; forecasting
    and regression are not supported. Without options it takes under two minutes. With --scores it
    compares the scores of your own runs in the same way.

    torchrun --nproc-per-node 2 -m -- pefourier train --out runs shares the runs among processes.

    \b
    Example:
    pefourier train --dataset smd --data data
    """
    print_results = str if output.quiet else note  # `str` prints nothing
    if scores is not None:
        from pefourier.train.report import scores_page

        output.print(scores_page(scores, options.find))
        return
    if sources:
        named = () if options.dataset == Options.dataset else options.dataset
        options = replace(options, dataset=(*named, *sources))
    if options.predict is not None:
        from pefourier.train.saved_models import predict_classes

        output.print(predict_classes(options, print_results))
        return
    if plan:
        from pefourier.train.ensembles import plan_page, plan_training

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
