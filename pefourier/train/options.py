"""What `pefourier train` is asked: one list of options, with their defaults, for shell and Python.

It imports no torch, so that ``pefourier train --help`` starts like any other.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from pefourier.cli.request import Json, Quiet

ORDER_FREE = "order-free"
LEVEL = 0.05  # of Holm-adjusted p, below which encodings are told apart
Split = Literal["blocks", "chronological", "random"]
Datasets = Annotated[
    list[str],
    typer.Option(
        metavar="NAME|PATH",
        help="order or lags (made up: only position solves them), smd, msl, uea:NAME, a folder of "
        "NAME_TRAIN.ts and NAME_TEST.ts, or a .npz with X (n, length, channels), y and maybe "
        "groups, or with rows (n, channels) and label; repeatable.",
    ),
]
Encodings = Annotated[
    list[str],
    typer.Option(
        "--encoding",
        "-e",
        metavar="SPEC",
        help="Encoding to train with, SPEC@rms=SIZE to scale it, order-free for a baseline blind "
        "to order; repeatable.",
    ),
]
Sizes = Annotated[
    list[float], typer.Option(help="Train all added codes at this rms size too; repeatable.")
]


def asked(text: str, metavar: str | None = None):
    """An option with its help."""
    return typer.Option(help=text, metavar=metavar)


@dataclass(frozen=True)
class Options:
    """What `pefourier train` was asked."""

    dataset: Datasets = ("order",)
    data: Annotated[str | None, asked("Folder of smd and msl.", "DIR")] = None
    encoding: Encodings = ("none", "sinusoidal", "dft", "onehot", "rope", ORDER_FREE)
    seeds: Annotated[int, asked("Runs with each encoding.")] = 8
    folds: Annotated[int | None, asked("Parts that are test once, default all: 5 or 1.")] = None
    split: Annotated[
        Split, asked("How windows are parted; random leaks and is for comparison only.")
    ] = "blocks"
    window: Annotated[int | None, asked("Rows of a window, default 100.")] = None
    stride: Annotated[
        int | None, asked("Rows between training windows, default those of a window.")
    ] = None
    epochs: Annotated[int, asked("Walks through the training windows.")] = 20
    batch_size: Annotated[int, asked("Windows a step.")] = 32
    rate: Annotated[float, asked("Learning rate of Adam.")] = 3e-3
    d: Annotated[int, typer.Option("--d", help="Dimension of the model.")] = 32
    heads: Annotated[int, asked("Heads of attention.")] = 4
    layers: Annotated[int, asked("Layers of attention.")] = 1
    patch: Annotated[int, asked("Rows of a token.")] = 1
    learn: Annotated[bool, typer.Option("--learn", help="Train the codes too.")] = False
    match_rms: Sizes = ()
    device: Annotated[str, asked("auto, cpu, cuda or cuda:0.")] = "auto"
    out: Annotated[str | None, asked("Folder for results, as they come.", "DIR")] = None
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Train what --out lacks; more may be asked than before."),
    ] = False
    save_tables: Annotated[str | None, asked("Folder for codes after training.", "DIR")] = None
    as_json: Json = False
    quiet: Quiet = False
