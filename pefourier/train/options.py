"""What `pefourier train` can be asked: each option once, with its default, its type and its help.

It imports neither torch nor the shell, which makes command-line options of these fields.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from pefourier.train.data import PUBLISHED, SYNTHETIC

ORDER_FREE = "order-free"
BESIDE = ("trees", "minirocket")  # other methods, fitted once a fold
WITHOUT_CODES = (ORDER_FREE, *BESIDE)  # rows of the answer that no encoding makes
MOST_SEEDS = 10_000
# Small sets have a step or two an epoch, in a hundred of which nothing is learned
STEPS, EPOCHS = 1000, 100
PATIENCE_STEPS, PATIENCE = 250, 10
LEVEL = 0.05  # of Holm-adjusted p, below which encodings are told apart
Split = Literal["blocks", "chronological", "random"]
Pool = Literal["mean", "max", "mean+max", "first"]


def seeds_of(encoding: str, seeds: int) -> int:
    """Runs with an encoding in each fold of so many seeds; another method is fitted once.

    >>> seeds_of("rope", 4), seeds_of("trees", 4)
    (4, 1)
    """
    return 1 if encoding in BESIDE else seeds


def option(default: Any, help: str, metavar: str | None = None, flags: tuple[str, ...] = ()) -> Any:
    """A field of `Options`; without `flags` it is given by its name."""
    return field(default=default, metadata={"help": help, "metavar": metavar, "flags": flags})


@dataclass(frozen=True)
class Options:
    """What `pefourier train` was asked; fields of more than one value may be given repeatedly."""

    dataset: tuple[str, ...] = option(
        ("order",),
        f"{' or '.join(SYNTHETIC)} (made up: only position solves them; order:length=24 sets the "
        f"rows), {', '.join(PUBLISHED)}, "
        "digits (scikit-learn), uea:NAME, a folder of NAME_TRAIN.ts and NAME_TEST.ts, or a .npz "
        "with X (n, length, channels), y and maybe groups (or X_train, y_train, X_test, y_test), "
        "or with rows (n, channels) and label, or a .csv with columns id, time, label, "
        "maybe group, and channels; groups, as of patients, are not split; repeatable.",
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
    beside: tuple[str, ...] = option(
        (),
        "Other methods on the same parts: trees (boosted ones on means, deviations, least and "
        "greatest; scikit-learn) or minirocket (aeon), fitted once a fold; repeatable.",
        "METHOD",
    )
    seeds: int = option(8, "Runs with each encoding.")
    folds: int | None = option(None, "Cross-validation folds to run, default all: 5 or 1.")
    resamples: int | None = option(
        None, "Splits of a set that has a test part: its own, then others drawn with its sizes."
    )
    split: Split = option(  # noqa: RUF009 (it is a field)
        "blocks", "How windows are split; random leaks and is for comparison only."
    )
    test_length: str | None = option(
        None, "Test on windows of these lengths too: 24,48,96; built-in tasks alone.", "N,N"
    )
    positive: tuple[str, ...] = option(
        (),
        "Class of which precision, recall and F1 are told where there are two; default: the rarer, "
        "of recordings the anomaly, of built-in tasks the second; repeatable, a name for a dataset "
        "each.",
        "NAME",
    )
    causal: bool = option(
        False,
        "Next tokens under a causal mask: --dataset copy, reverse, addition, parity or recall "
        "(copy:length=8 sets the size of problems), trained on short problems and tested on "
        "--test-length; -e none is NoPE.",
    )
    window: int | None = option(None, "Rows of a window of a recording, default 100.")
    stride: int | None = option(
        None, "Rows from one training window to the next, default those of a window."
    )
    steps: int | None = option(
        None,
        f"Updates of the weights, at most, as many whole epochs as hold them; default {STEPS}, or "
        f"those of {EPOCHS} epochs where they are more: see --patience.",
    )
    epochs: int | None = option(None, "Passes over the training windows, in place of --steps.")
    patience_steps: int | None = option(
        None,
        "End a run after so many steps, in whole epochs, without a better epoch on validation; 0: "
        f"never; default {PATIENCE_STEPS}, or those of {PATIENCE} epochs where they are more.",
    )
    patience: int | None = option(None, "The same in epochs, in place of --patience-steps.")
    batch_size: int = option(32, "Windows in a step.")
    rate: float = option(3e-3, "Learning rate of Adam.")
    code_rate: float | None = option(
        None, "Learning rate of codes under training, default that of the rest."
    )
    warmup: int = option(0, "Epochs over which the rate rises from 0.")
    weight_decay: float = option(0.0, "Decoupled decay of weights, as AdamW has it.")
    dropout: float = option(
        0.0, "Share dropped of the input with its codes, of what sub-layers add and within them."
    )
    search: tuple[str, ...] = option(
        (),
        "Settings to choose among by validation, for each run anew: rate=3e-4,1e-3,3e-3 "
        "dropout=0,.2; also code-rate, weight-decay, pool, ffn, layers, d, heads and tokens.",
        metavar="KEY=A,B…",
    )
    refit: bool = option(
        False,
        "Train each run once more on its training and validation windows together, for the steps "
        "that validation kept; the threshold stays that of validation.",
    )
    spread: float = option(
        0.064, "Spread of paired differences in F1, as measured on SMD, by which power is foretold."
    )
    find: float | None = option(
        None,
        "Difference in F1 that you want to find: how many runs it takes; default .010, which the "
        "paper claims on SMD, on MSL .018.",
    )
    d: int = option(32, "Dimension of the model.", flags=("--d",))
    heads: int = option(4, "Heads of attention.")
    layers: int = option(1, "Layers of attention.")
    ffn: int | None = option(None, "Width within the feed-forward layer, default twice --d.")
    pool: Pool = option(  # noqa: RUF009 (it is a field)
        "mean", "What of all tokens the class is read from."
    )
    patch: int = option(1, "Rows in a token.")
    patch_stride: int | None = option(
        None, "Rows from one token to the next, default those of a token; fewer overlap."
    )
    tokens: int | None = option(
        None,
        "Of long windows at most so many tokens, in place of --patch: each dataset gets its own.",
    )
    learn: bool = option(
        False,
        "Train fixed codes too, of rotations their frequencies, from where they start; learned "
        "tables always are.",
    )
    match_rms: tuple[float, ...] = option(
        (), "Train all added codes at this rms size about their mean too; repeatable."
    )
    device: str = option("auto", "auto, cpu, cuda or cuda:0.")
    out: str | None = option(None, "Folder for results, written as they come.", "DIR")
    resume: bool = option(
        False, "Train only what --out lacks; more datasets, encodings and seeds may be asked for."
    )
    processes: int | None = option(
        None,
        "Processes that share the work on a CPU, default one a core where it is long.",
    )
    rank_timeout: float = option(
        300.0, "Seconds without a sign of life after which a rank of torchrun counts as gone."
    )
    save_tables: str | None = option(
        None,
        "Folder for codes after training, and before it (…-start.npy) where they are trained, as "
        "compare and spectrum read them.",
        "DIR",
    )
    save_models: str | None = option(
        None, "Folder for trained classifiers, a .safetensors a run.", "DIR"
    )


# What is published of others' trainings, by the name that --setting takes: the authors' companion
# code trains so on windows of 80 tokens, with a small CNN a channel before them that is not made
# here; how the paper's SMD and MSL were trained is published nowhere
IDE_2024 = {
    "d": 240,
    "heads": 10,
    "layers": 1,
    "ffn": 2048,
    "dropout": 0.1,
    "rate": 1e-5,
    "batch_size": 16,
    "epochs": 200,
    "patience": 40,
    "pool": "mean",
}
SETTINGS = {"idé2024": IDE_2024, "ide2024": IDE_2024}
