"""What is requested, judged before torch is loaded: arms, schedules, candidates, lengths.

An encoding as it is, or scaled, is an `Arm`. What only data can refuse is refused once they are
read.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np

from pefourier.encodings.checks import check_above, check_count
from pefourier.encodings.registry import convert
from pefourier.encodings.specs import parse_parameters, source_of
from pefourier.errors import PefourierError, shown, unknown
from pefourier.files import check_suffix, reason
from pefourier.train.beside import check_methods
from pefourier.train.data import SYNTHETIC
from pefourier.train.data.load import check_dataset, load_task
from pefourier.train.data.split import MOST_ROWS, Task
from pefourier.train.data.synthetic import has_length, with_length
from pefourier.train.options import (
    BESIDE,
    EPOCHS,
    LOOK,
    MOST_SEEDS,
    PATIENCE,
    PATIENCE_STEPS,
    STEPS,
    WITHOUT_CODES,
    Options,
    flag_of,
)

AT_RMS = "@rms="
MOST_STEPS = 10**9
MOST_EPOCHS = 1_000_000
MOST_DROPPED = 0.95
MOST_CHOICES = 64
MOST_WAITED = 10**6
# Tables that begin at .02 hardly move at the rate of the rest; five seeds each on windows of 24
# rows: `learned` on order reaches F1 .66, and .97 at ten times the rate, t5 .990 and .997
FASTER = 10


@dataclass(frozen=True)
class Tuning:
    """What members of one stack may differ in."""

    rate: float  # of Adam
    dropout: float = 0.0
    weight_decay: float = 0.0
    code_rate: float | None = None  # of codes; None: FASTER times that of the rest

    def rate_of(self, codes: bool) -> float:
        """The rate of Adam, of codes or of the rest.

        >>> Tuning(0.01).rate_of(True), Tuning(0.01, code_rate=0.02).rate_of(True)
        (0.1, 0.02)
        """
        if not codes:
            return self.rate
        return FASTER * self.rate if self.code_rate is None else self.code_rate


TUNED = tuple(f.name for f in fields(Tuning))


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to train; all in steps."""

    steps: int
    batch_size: int
    rate: float  # of Adam
    every: int = LOOK  # steps between two looks at validation windows
    patience: int = 0  # steps without better weights, after which a member is done; 0: never
    dropout: float = 0.0
    weight_decay: float = 0.0
    warmup: int = 0
    code_rate: float | None = None  # of codes under training, as `Tuning` has it

    def __post_init__(self) -> None:
        check_count("--batch-size", self.batch_size)
        check_count("--warmup", self.warmup, 0, MOST_STEPS)
        check_tuning(self.tuning)

    @property
    def tuning(self) -> Tuning:
        """What members have that have nothing of their own."""
        return Tuning(self.rate, self.dropout, self.weight_decay, self.code_rate)

    @property
    def budget(self) -> dict[str, int]:
        """How long a run may last, and how often it is looked at."""
        return {"steps": self.steps, "patience": self.patience, "every": self.every}


def check_tuning(tuning: Tuning) -> None:
    """Refuse a rate, a share or a decay that nothing could be trained with."""
    check_above("--rate", tuning.rate)
    check_above("--code-rate", tuning.rate_of(True))
    if not 0 <= tuning.dropout <= MOST_DROPPED:
        raise PefourierError(f"--dropout must be from 0 to {MOST_DROPPED}; got {tuning.dropout}")
    if not (np.isfinite(tuning.weight_decay) and tuning.weight_decay >= 0):
        raise PefourierError(f"--weight-decay must be 0 or more; got {tuning.weight_decay}")


def schedule_of(options: Options, epoch: int) -> Schedule:
    """How long and how fast to train on data of so many steps an epoch.

    >>> schedule_of(Options(epochs=3, patience=2), 20).budget
    {'steps': 60, 'patience': 40, 'every': 25}
    >>> schedule_of(Options(), 2).budget, schedule_of(Options(steps=90), 40).every
    ({'steps': 1000, 'patience': 250, 'every': 25}, 40)
    """
    steps = steps_of(options, ("steps", "epochs"), epoch, STEPS, EPOCHS)
    patience = steps_of(options, ("patience_steps", "patience"), epoch, PATIENCE_STEPS, PATIENCE)
    names = ("batch_size", "rate", "code_rate", "dropout", "weight_decay")
    settings = {name: getattr(options, name) for name in names}
    look = min(max(epoch, LOOK), steps)
    warmup = options.warmup * epoch
    return Schedule(steps=steps, patience=patience, every=look, warmup=warmup, **settings)


def steps_of(options: Options, names: tuple[str, str], epoch: int, fewest: int, epochs: int) -> int:
    """Steps that two options give, one in steps and one in epochs; else those of a default."""
    (in_steps, in_epochs), bound = names, int(names[0] == "steps")  # no patience: 0
    steps, passes = getattr(options, in_steps), getattr(options, in_epochs)
    if steps is not None and passes is not None:
        raise PefourierError(
            f"{flag_of(in_steps)} and {flag_of(in_epochs)} say the same; give one of them"
        )
    if steps is not None:
        check_count(flag_of(in_steps), steps, bound, MOST_STEPS)
        return steps
    if passes is not None:
        check_count(flag_of(in_epochs), passes, bound, MOST_EPOCHS)
        return passes * epoch
    return max(epochs * epoch, fewest)


@dataclass(frozen=True)
class Arm:
    """One row of the answer: an encoding as it is, or scaled to a root mean square."""

    name: str
    spec: str
    rms: float | None = None
    is_named: bool = True  # and not one of all that --match-rms scales


def list_arms(encodings: Sequence[str], match_rms: Sequence[float]) -> list[Arm]:
    """The rows of the answer, those of --match-rms after those that are named."""
    arms = [parse_arm(spec) for spec in encodings]
    scaled = [
        replace(parse_arm(f"{spec}{AT_RMS}{rms!r}"), is_named=False)
        for rms in match_rms
        for spec in encodings
        if spec not in ("none", *WITHOUT_CODES) and AT_RMS not in spec
    ]
    names = [arm.name for arm in arms]
    return arms + [arm for arm in scaled if arm.name not in names]


def parse_arm(name: str) -> Arm:
    """SPEC, or SPEC@rms=SIZE; one size has one name.

    >>> parse_arm("dft@rms=.50").name
    'dft@rms=0.5'
    """
    spec, sign, size = name.partition(AT_RMS)
    if not sign:
        return Arm(name, name)
    rms = convert("rms", size, float)
    if rms <= 0:
        raise PefourierError(f"{shown(name)}: rms must be above 0; got {size}")
    if spec in ("none", *WITHOUT_CODES):
        raise PefourierError(f"{shown(name)}: {spec} adds nothing, so that it has no size to match")
    short = f"{rms:g}"
    return Arm(f"{spec}{AT_RMS}{short if float(short) == rms else rms}", spec, rms)


@dataclass(frozen=True)
class Choice:
    """One choice of settings."""

    values: Mapping[str, Any]  # of those that are chosen among
    tuning: Tuning


def list_candidates(options: Options) -> list[Choice]:
    """All choices that --search leaves; one without a choice where nothing is searched."""
    searched = parse_search(options.search)
    count = int(np.prod([len(values) for values in searched.values()], dtype=object))
    if count > MOST_CHOICES:
        raise PefourierError(
            f"--search has {count} combinations; at most {MOST_CHOICES} are trained"
        )
    plain = Tuning(options.rate, options.dropout, options.weight_decay, options.code_rate)
    choices = []
    for chosen in product(*searched.values()):
        values = dict(zip(searched, chosen, strict=True))
        choices.append(Choice(values, replace(plain, **values)))
        check_tuning(choices[-1].tuning)
    return choices


def parse_search(texts: Sequence[str]) -> dict[str, list[float]]:
    """The values of each setting, in the order given.

    >>> parse_search(["rate=3e-4,1e-3 dropout=0,.2"])["dropout"]
    [0.0, 0.2]
    """
    settings: dict[str, list[float]] = {}
    for item in (item for text in texts for item in text.split()):
        name, _, text = item.partition("=")
        key = name.replace("-", "_")
        if key not in TUNED:
            raise unknown("setting of --search", name, [key.replace("_", "-") for key in TUNED])
        values = [convert(f"--search {name}", value, float) for value in text.split(",")]
        if key in settings or len(set(values)) < len(values):
            raise PefourierError(f"--search {shown(item)}: name each setting and value once")
        settings[key] = values
    return settings


def parse_lengths(text: str | None) -> tuple[int, ...]:
    """Lengths as --test-length names them.

    >>> parse_lengths("24,48"), parse_lengths(None)
    ((24, 48), ())
    """
    parts = [] if text is None else text.split(",")
    lengths = tuple(int(p) if p.strip().isdecimal() and len(p) < 10 else 0 for p in parts)
    if len(set(lengths)) < len(lengths) or not all(4 <= part <= MOST_ROWS for part in lengths):
        raise PefourierError(
            f"--test-length must be different whole numbers of 4 to {MOST_ROWS} with commas, such "
            f"as 24,48,96; got {shown(text)}"
        )
    return lengths


def draw_longer(name: str, lengths: Sequence[int]) -> list[Task]:
    """The task of a name at other lengths."""
    if lengths and not (name.partition(":")[0] in SYNTHETIC and has_length(name)):
        tasks = ", ".join(filter(has_length, SYNTHETIC))
        raise PefourierError(
            f"--test-length needs a built-in task ({tasks}); {shown(name)} is as long as it is"
        )
    return [load_task(with_length(name, length)) for length in lengths]


def name_once(options: Options) -> Options:
    """The same request with each name once, in one spelling, and other methods among encodings."""
    arms = dict.fromkeys(parse_arm(spec).name for spec in (*options.encoding, *options.beside))
    datasets = dict.fromkeys(n if n in SYNTHETIC else str(Path(n)) for n in options.dataset)
    sizes = tuple(dict.fromkeys(options.match_rms))
    names = {"encoding": tuple(arms), "dataset": tuple(datasets), "match_rms": sizes}
    return replace(options, beside=(), **names)


def check_options(options: Options) -> None:
    """Refuse numbers that no run could have, and what is named twice."""
    schedule_of(options, 1)
    list_candidates(options)
    check_methods((*options.beside, *(e for e in options.encoding if e in BESIDE)))
    for name in options.dataset:
        check_dataset(name)
        draw_longer(name, parse_lengths(options.test_length))
    for spec in (parse_arm(name).spec for name in options.encoding):
        if spec == "-":
            raise PefourierError("-e -: standard input can be read once; name a file")
        if spec not in WITHOUT_CODES and source_of(spec) == "name":
            family, _, text = spec.partition(":")
            parse_parameters(family, text)
    if options.plot is not None:
        check_suffix(options.plot, (".png", ".pdf", ".svg"))
    check_count("--seeds", options.seeds, 1, MOST_SEEDS)
    limits = {"rank_timeout": (1, MOST_WAITED), "find": (1e-6, 1)}
    for name, (smallest, largest) in limits.items():
        value = getattr(options, name)
        if value is not None and not smallest <= value <= largest:
            raise PefourierError(
                f"{flag_of(name)} must be from {smallest:g} to {largest:g}; got {value}"
            )
    for rms in options.match_rms:
        check_above("--match-rms", rms)
    for name in ("save_tables", "save_models"):
        if getattr(options, name) is not None:
            make_folder(flag_of(name), getattr(options, name))


@contextmanager
def without_new_folders(*paths: str | None) -> Iterator[None]:
    """Take away, at the end, the empty folders that are made for paths meanwhile."""
    folders = [Path(path) for path in paths if path is not None]
    new = [folder for path in folders for folder in (path, *path.parents) if not folder.exists()]
    try:
        yield
    finally:
        for folder in sorted(new, reverse=True):  # a folder before those that it lies in
            with suppress(OSError, ValueError):
                folder.rmdir()


def make_folder(flag: str, folder: str) -> None:
    """Make a folder and see that files can be written there, before hours of training."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder) as trial:
            trial.write(b"codes")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise PefourierError(
            f"{flag} {shown(folder)}: {reason(error)}; name another folder"
        ) from error
