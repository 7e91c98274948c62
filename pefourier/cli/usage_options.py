"""What `pefourier usage` and `pefourier convert` are asked."""

import re
from dataclasses import dataclass
from typing import Annotated

import typer

from pefourier.cli.request import Drawing, Form, Quiet, count
from pefourier.cli.streams import percentages
from pefourier.errors import shown


def layer_range(text: str) -> range:
    """Layers from one to another, both included: 0-7, or a single one."""
    found = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", text)
    if found is None or int(found[2] or found[1]) < int(found[1]):
        raise typer.BadParameter(f"{shown(text)} is no run of layers such as 0-7, or one layer")
    return range(int(found[1]), int(found[2] or found[1]) + 1)


def two_counts(text: str) -> tuple[int, ...]:
    """Heads of queries and of keys: 32,8, or one number for both."""
    parts = text.split(",")
    if len(parts) > 2 or not all(re.fullmatch(r"[1-9]\d{0,5}", part) for part in parts):
        raise typer.BadParameter(f"{shown(text)} is no number of heads such as 32,8, or 12")
    return (int(parts[0]), int(parts[-1]))


@dataclass(frozen=True)
class UsageOptions:
    """The options of `pefourier usage`."""

    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="A model's folder, its .safetensors file, or a .gguf file."
        ),
    ] = ...
    length: Annotated[
        int | None,
        typer.Option(
            "--length",
            "-S",
            parser=count,
            metavar="N",
            help="Positions asked for, such as 128k; default those of training.",
        ),
    ] = None
    layers: Annotated[
        range | None,
        typer.Option(parser=layer_range, metavar="A-B", help="Layers to look at; default all."),
    ] = None
    every_head: Annotated[
        bool, typer.Option("--all", help="Tell the shares of each head in JSON and CSV, too.")
    ] = False
    against: Annotated[
        str | None,
        typer.Option(
            metavar="OTHER",
            help="Another checkpoint of the model, as before fine-tuning or an extension: what "
            "moved; with --stats another file of means.",
        ),
    ] = None
    stats: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Means of activations, layer00_head00.q_abs_mean and so on, in place of weights: "
            ".pt, .npz, .safetensors. MODEL may be a config.json then.",
        ),
    ] = None
    quiet: Quiet = False


def tell_usage(given: UsageOptions, form: Form, drawing: Drawing) -> None:
    """Answer `pefourier usage`."""
    from pefourier.answers.telling import answer_of
    from pefourier.answers.usage import TOLD
    from pefourier.weights.usage import use_of_model

    begin = percentages(given.model, given.quiet)
    found = use_of_model(
        given.model,
        given.length,
        given.layers,
        given.every_head,
        given.against,
        given.stats,
        begin,
    )
    drawing.draw("usage", [answer_of(found)])
    form.deliver(TOLD.page([answer_of(found)]))
