"""What `pefourier train` can be asked: each option once, with its default and its type.

options.json has their help, under the headings of it. Neither torch nor the shell, which makes
command-line options of these fields, is imported.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

PUBLISHED = ("msl", "smd")  # datasets read under --data DIR
SYNTHETIC = ("grid", "lags", "order")  # tasks drawn when asked for
ORDER_FREE = "order-free"
BESIDE = ("trees", "minirocket")  # other methods, fitted once a fold
WITHOUT_CODES = (ORDER_FREE, *BESIDE)  # rows of the answer that no encoding makes
MOST_SEEDS = 10_000
# Small sets have a step or two an epoch, in a hundred of which nothing is learned
STEPS, EPOCHS = 1000, 100
PATIENCE_STEPS, PATIENCE = 250, 10
LOOK = 25  # steps between two looks at validation windows, at least
LEVEL = 0.05  # of Holm-adjusted p, below which encodings are told apart
FIND = 0.1  # difference in F1 asked about, where nothing is said
IN_HELP = {"look": LOOK, "steps": STEPS, "epochs": EPOCHS}  # for the names in braces there
IN_HELP |= {"patience_steps": PATIENCE_STEPS, "patience": PATIENCE}
IN_HELP |= {"synthetic": " or ".join(SYNTHETIC), "published": ", ".join(PUBLISHED)}
HELP = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
Split = Literal["blocks", "chronological", "random"]
Missing = Literal["previous", "mean", "drop"]
Inject = Literal["add", "concat"]


def seeds_of(encoding: str, seeds: int) -> int:
    """Runs with an encoding in each fold of so many seeds; another method is fitted once.

    >>> seeds_of("rope", 4), seeds_of("trees", 4)
    (4, 1)
    """
    return 1 if encoding in BESIDE else seeds


def help_of(name: str) -> dict[str, Any]:
    """What the shell shows of an option: its help and heading, its value's name, other names."""
    title, facts = next((title, group[name]) for title, group in HELP.items() if name in group)
    return facts | {"help": facts["help"].format(**IN_HELP), "rich_help_panel": title}


def flag_of(name: str) -> str:
    """An option as it is typed.

    >>> flag_of("batch_size"), flag_of("encoding")
    ('--batch-size', '-e')
    """
    return help_of(name).get("flags", [f"--{name.replace('_', '-')}"])[-1]


@dataclass(frozen=True)
class Options:
    """What `pefourier train` was asked; fields of more than one value may be given repeatedly."""

    dataset: tuple[str, ...] = ("order:length=24,noise=0.25",)
    data: str | None = None
    window: int | None = None
    stride: int | None = None
    columns: str | None = None
    missing: Missing | None = None
    split: Split = "blocks"
    positive: tuple[str, ...] = ()
    test_length: str | None = None
    encoding: tuple[str, ...] = ("none", "sinusoidal", "dft", "onehot", "rope", ORDER_FREE)
    beside: tuple[str, ...] = ()
    seeds: int = 8
    folds: int | None = None
    resamples: int | None = None
    learn: bool = False
    find: float | None = None
    steps: int | None = None
    epochs: int | None = None
    patience_steps: int | None = None
    patience: int | None = None
    batch_size: int = 32
    rate: float = 3e-3
    warmup: int = 0
    dropout: float = 0.0
    search: tuple[str, ...] = ()
    d: int = 32
    heads: int = 4
    layers: int = 1
    ffn: int | None = None
    patch: int = 1
    tokens: int | None = None
    inject: Inject = "add"
    device: str = "auto"
    processes: int | None = None
    out: str | None = None
    resume: bool = False
    save_models: str | None = None
    plot: str | None = None

    def __post_init__(self) -> None:
        """Names of encodings are those that synonyms stand for."""
        from pefourier.encodings.registry import canonical_spec  # and numpy, once one is made

        object.__setattr__(self, "encoding", tuple(map(canonical_spec, self.encoding)))

    @property
    def cut(self) -> tuple[int | None, int | None, Split]:
        """How recordings are cut into windows, and split."""
        return self.window, self.stride, self.split
