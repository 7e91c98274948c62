"""What `pefourier train` can be asked: each option once, with its default, its type and its help.

It imports neither torch nor the shell, which makes command-line options of these fields.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from pefourier.train.data import PUBLISHED, SYNTHETIC

ORDER_FREE = "order-free"
MOST_SEEDS = 10_000
LEVEL = 0.05  # of Holm-adjusted p, below which encodings are told apart
Split = Literal["blocks", "chronological", "random"]


def option(default: Any, help: str, metavar: str | None = None, flags: tuple[str, ...] = ()) -> Any:
    """A field of `Options`; without `flags` it is given by its name."""
    return field(default=default, metadata={"help": help, "metavar": metavar, "flags": flags})


@dataclass(frozen=True)
class Options:
    """What `pefourier train` was asked; fields of more than one value may be given repeatedly."""

    dataset: tuple[str, ...] = option(
        ("order",),
        f"{' or '.join(SYNTHETIC)} (made up: only position solves them), {', '.join(PUBLISHED)}, "
        "uea:NAME, a folder of NAME_TRAIN.ts and NAME_TEST.ts, or a .npz with X (n, length, "
        "channels), y and maybe groups, or with rows (n, channels) and label; repeatable.",
        metavar="NAME|PATH",
    )
    data: str | None = option(None, f"Folder of {' and '.join(PUBLISHED)}.", "DIR")
    encoding: tuple[str, ...] = option(
        ("none", "sinusoidal", "dft", "onehot", "rope", ORDER_FREE),
        "Encoding to train with, SPEC@rms=SIZE to scale it, order-free for a baseline blind to "
        "order; repeatable.",
        metavar="SPEC",
        flags=("--encoding", "-e"),
    )
    seeds: int = option(8, "Runs with each encoding.")
    folds: int | None = option(None, "Parts that are tested once each, default all: 5 or 1.")
    split: Split = option(  # noqa: RUF009 (it is a field)
        "blocks", "How windows are split; random leaks and is for comparison only."
    )
    window: int | None = option(None, "Rows of a window, default 100.")
    stride: int | None = option(
        None, "Rows from one training window to the next, default those of a window."
    )
    epochs: int = option(40, "Passes over the training windows, at most.")
    patience: int = option(
        10, "End a run after so many epochs without a better one on validation; 0: never."
    )
    batch_size: int = option(32, "Windows in a step.")
    rate: float = option(3e-3, "Learning rate of Adam.")
    spread: float = option(
        0.064, "Spread of paired differences in F1, as measured on SMD, by which power is foretold."
    )
    d: int = option(32, "Dimension of the model.", flags=("--d",))
    heads: int = option(4, "Heads of attention.")
    layers: int = option(1, "Layers of attention.")
    patch: int = option(1, "Rows in a token.")
    learn: bool = option(False, "Train the codes too.")
    match_rms: tuple[float, ...] = option(
        (), "Train all added codes at this rms size about their mean too; repeatable."
    )
    device: str = option("auto", "auto, cpu, cuda or cuda:0.")
    out: str | None = option(None, "Folder for results, written as they come.", "DIR")
    resume: bool = option(False, "Train only what --out lacks; more may be asked for than before.")
    save_tables: str | None = option(None, "Folder for codes after training.", "DIR")
