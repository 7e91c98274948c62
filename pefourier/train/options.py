"""Options of `pefourier train`: each option once, with its type and default.

This module imports neither torch nor the shell, which makes command-line options from the fields
and from their help in options.toml.
"""

from typing import Literal

from pefourier.types import Texts, frozen

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
Split = Literal["blocks", "chronological", "random"]
Missing = Literal["previous", "mean", "drop"]
Positions = Literal["index", "time"]


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


@frozen
class Options:
    """Options of `pefourier train`; fields with several values may be repeated."""

    dataset: Texts = ("order:length=24,noise=0.25",)
    data: str | None = None
    window: int | None = None
    stride: int | None = None
    columns: str | None = None
    channels: str | None = None
    labels: str | None = None
    channels_first: bool | None = None
    missing: Missing | None = None
    split: Split = "blocks"
    positive: Texts = ()
    test_length: str | None = None
    encoding: Texts = USUAL
    beside: Texts = ()
    seeds: int = 8
    folds: int | None = None
    resamples: int | None = None
    find: float | None = None
    minutes: float | None = None
    steps: int | None = None
    patience_steps: int | None = None
    batch_size: int = 32
    rate: float = 3e-3
    dropout: float = 0.0
    d: int | None = None
    heads: int = 4
    layers: int = 1
    ffn: int | None = None
    patch: int = 1
    tokens: int | None = None
    positions: Positions = "index"
    device: str = "auto"
    out: str | None = None
    resume: bool = False
    save_models: str | None = None
    predict: str | None = None
    plot: str | None = None

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
