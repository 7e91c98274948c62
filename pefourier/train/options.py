"""Options of `pefourier train`: each option once, with its type, help and default.

This module imports neither torch nor the shell, which makes command-line options from the fields.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pefourier.types import Texts

PUBLISHED = ("msl", "smd")  # datasets read under --data DIR
SYNTHETIC = ("grid", "irregular", "lags", "order")  # tasks drawn on request
ORDER_FREE = "order-free"
BESIDE = ("trees", "minirocket")  # other methods, fitted once per fold
WITHOUT_VECTORS = (ORDER_FREE, *BESIDE)  # rows of the answer without an encoding
MOST_SEEDS = 10_000
# Small sets have a step or two per epoch; a hundred such epochs are too few to learn
STEPS, EPOCHS = 1000, 100
PATIENCE_STEPS, PATIENCE = 250, 10
LEAST_D = 32  # default dimension of the model, for windows of few tokens
LOOK = 25  # minimum of steps between two looks at validation windows
LEVEL = 0.05  # Holm-adjusted p below this is significant
FIND = 0.1  # default difference in F1 to detect
USUAL = ("none", "sinusoidal", "dft", "onehot", "rope", ORDER_FREE)  # encodings of built-in tasks
FOR_OWN = ("none", "sinusoidal", "dft", "rope")  # by default for a user's data
WITHOUT_TIMES = ("dft", "onehot")  # of these
MINUTES, MOST_TOKENS = 10, 64  # by default for a user's data
FLAGS = {"encoding": ("--encoding", "-e")}  # of options with a short flag
HEADINGS = {  # of help, each by the first option below it
    "dataset": "Data",
    "encoding": "Comparison",
    "steps": "Training",
    "d": "Model",
    "device": "Running and files",
}
Split = Literal["blocks", "chronological", "random"]
Missing = Literal["previous", "mean", "drop"]
Inject = Literal["add", "concat"]
Positions = Literal["index", "time"]
Compile = Literal["auto", "on", "off"]


def seeds_of(encoding: str, seeds: int) -> int:
    """Runs of an encoding per fold with this many seeds; other methods are fitted once.

    >>> seeds_of("rope", 4), seeds_of("trees", 4)
    (4, 1)
    """
    return 1 if encoding in BESIDE else seeds


def flag_of(name: str) -> str:
    """Return an option as typed on the command line.

    >>> flag_of("batch_size"), flag_of("encoding")
    ('--batch-size', '-e')
    """
    return FLAGS.get(name, [f"--{name.replace('_', '-')}"])[-1]


@dataclass(frozen=True)
class Options:
    """Options of `pefourier train`; fields with several values may be repeated.

    Each type is annotated for the shell with the name of the value, if any, and the help.
    """

    dataset: Annotated[
        Texts,
        "NAME|PATH",
        f"Dataset: {' or '.join(SYNTHETIC)} (synthetic; they require positions; "
        f"order:length=24 sets the rows), {', '.join(PUBLISHED)}, uea:NAME, a .csv with columns "
        "time, series, label and channels or with a series in each line, a folder with a .csv of "
        "each series, .npz or .npy of X and y (or X_train, y_train, X_test, y_test; or rows and "
        "label), a folder of NAME_TRAIN.ts and NAME_TEST.ts. Repeatable.",
    ] = ("order:length=24,noise=0.25",)
    data: Annotated[str | None, "DIR", f"Folder of {', '.join(PUBLISHED)}."] = None
    window: Annotated[int | None, "Rows of a window of a recording (default: 100)."] = None
    stride: Annotated[int | None, "Rows between the starts of training windows."] = None
    columns: Annotated[str | None, "time=A,…", "Columns: time=A,series=B,label=C,group=D."] = None
    channels: Annotated[str | None, "A,B…", "Columns of channels (default: all)."] = None
    labels: Annotated[
        str | None, "FILE", "Labels of a folder's files, or of series: a .csv of name and label."
    ] = None
    channels_first: Annotated[
        bool | None, "X is (n, channels, rows), or not (default: rows are the longer axis)."
    ] = None
    missing: Annotated[Missing | None, "Fill missing numbers or drop rows (default: error)."] = None
    split: Annotated[Split, "How windows are split; random leaks, for comparison only."] = "blocks"
    positive: Annotated[
        Texts,
        "NAME",
        "Class for precision, recall and F1 in data with two classes. Repeatable, one name per "
        "dataset (default: the rarer; the anomaly in recordings, the second class in built-in "
        "tasks; none if the rarer has 40% or more, which averages scores over both).",
    ] = ()
    test_length: Annotated[str | None, "N,N", "Also test built-in tasks at these lengths."] = None
    encoding: Annotated[
        Texts,
        "SPEC",
        "Encoding, SPEC@rms=SIZE to scale it, or order-free. Repeatable (default for your own "
        f"data: {', '.join(FOR_OWN)}).",
    ] = USUAL
    beside: Annotated[
        Texts, "METHOD", "Another method: trees (boosted) or minirocket. Repeatable."
    ] = ()
    seeds: Annotated[int, "Runs of each encoding per fold."] = 8
    folds: Annotated[int | None, "Cross-validation folds to run (default: all, 5 or 1)."] = None
    resamples: Annotated[
        int | None, "Splits of data with a test part: the published one, then random ones."
    ] = None
    learn: Annotated[bool, "Also train fixed vectors, and the frequencies of rotations."] = False
    find: Annotated[
        float | None, f"Difference in F1 to be detected with 80% power (default: {FIND})."
    ] = None
    minutes: Annotated[
        float | None,
        "Time of the whole comparison, which chooses --seeds and --steps; runs then have no "
        f"patience (default for your own data: {MINUTES}, unless --seeds, --steps or --epochs is "
        "given).",
    ] = None
    steps: Annotated[
        int | None, f"Limit of weight updates (default: {STEPS}, or {EPOCHS} epochs if more)."
    ] = None
    epochs: Annotated[int | None, "Same limit in passes over the training windows."] = None
    patience_steps: Annotated[
        int | None,
        "End a run after this many steps without better weights on validation; 0: never "
        f"(default: {PATIENCE_STEPS}, or {PATIENCE} epochs if that is more).",
    ] = None
    patience: Annotated[int | None, "Same limit in epochs, instead of --patience-steps."] = None
    batch_size: Annotated[int, "Windows per step."] = 32
    rate: Annotated[float, "Learning rate of Adam."] = 3e-3
    warmup: Annotated[int, "Epochs over which the rate rises from 0."] = 0
    dropout: Annotated[float, "Share dropped from inputs, and after and within sub-layers."] = 0.0
    d: Annotated[
        int | None, f"Dimension of the model (default: {LEAST_D}, or a window's tokens if more)."
    ] = None
    heads: Annotated[int, "Attention heads."] = 4
    layers: Annotated[int, "Attention layers."] = 1
    ffn: Annotated[int | None, "Width of the feed-forward layer (default: twice --d)."] = None
    patch: Annotated[int, "Rows per token."] = 1
    tokens: Annotated[
        int | None,
        "Limit of tokens per window; sets --patch by dataset (default for your own data: "
        f"{MOST_TOKENS}).",
    ] = None
    inject: Annotated[Inject, "How vectors enter: added to input or concatenated."] = "add"
    positions: Annotated[Positions, "What is encoded: token numbers or token times."] = "index"
    device: Annotated[str, "auto, cpu, cuda or cuda:0."] = "auto"
    compile: Annotated[
        Compile,
        "Compile training steps with torch.compile; auto compiles on a GPU if training is long "
        "enough to save more time than compiling takes.",
    ] = "auto"
    out: Annotated[str | None, "DIR", "Folder for results, written during training."] = None
    resume: Annotated[bool, "Continue in --out with the options of its config.json."] = False
    save_models: Annotated[str | None, "DIR", "Folder for classifiers (.safetensors)."] = None
    predict: Annotated[
        str | None,
        "DIR|FILE",
        "Saved models (--save-models), or one, that predict the classes of --dataset; -e chooses "
        "an encoding, --out FILE.csv is written.",
    ] = None
    plot: Annotated[str | None, "FILE", "Figure of the comparison: .png, .pdf or .svg."] = None

    def __post_init__(self) -> None:
        """Replace synonyms of encodings by their names, and lists from the shell by tuples."""
        from pefourier.encodings.registry import canonical_spec  # imports numpy: only when needed

        object.__setattr__(self, "encoding", tuple(map(canonical_spec, self.encoding)))
        for name in ("dataset", "positive", "beside"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    @property
    def cut(self) -> tuple[int | None, int | None, Split]:
        """Window, stride and split of recordings."""
        return self.window, self.stride, self.split
