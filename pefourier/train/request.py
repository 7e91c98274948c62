"""Requests, checked before torch is loaded: arms, schedules, lengths.

An encoding, scaled or unscaled, is an `Arm`. Checks that need data happen after they are read.
"""

from dataclasses import replace
from pathlib import Path

from pefourier.encodings.loader import source_of
from pefourier.encodings.registry import convert, parse_parameters
from pefourier.errors import PefourierError, check_above, check_count, shown
from pefourier.train.baselines import check_methods
from pefourier.train.data.load import check_dataset, load_task
from pefourier.train.data.split import MOST_ROWS, Task
from pefourier.train.data.synthetic import sides_of_task, with_length
from pefourier.train.options import (
    BESIDE,
    EPOCHS,
    FOR_OWN,
    LOOK,
    MINUTES,
    MOST_SEEDS,
    MOST_TOKENS,
    PATIENCE,
    PATIENCE_STEPS,
    PUBLISHED,
    STEPS,
    SYNTHETIC,
    USUAL,
    WITHOUT_TIMES,
    WITHOUT_VECTORS,
    Options,
    Positions,
    flag_of,
)
from pefourier.train.store import NOT_NUMBERS, read_configuration, read_rank, stored_options
from pefourier.types import Counts, Ints, frozen
from pefourier.writing.files import check_suffix

AT_RMS = "@rms="
MOST_STEPS = 10**9
MOST_DROPPED = 0.95
MOST_MINUTES = 10_000
# Tables that begin at 0.02 hardly change at the rate of the rest. Ten times that rate raises F1 on
# windows of 24 rows (five seeds): `learned` on order from 0.66 to 0.97, t5 from 0.990 to 0.997
FASTER = 10


@frozen
class Schedule:
    """Duration and pace of training in steps."""

    steps: int
    batch_size: int
    rate: float  # of Adam
    dropout: float = 0.0
    every: int = LOOK  # steps between two looks at validation windows
    patience: int = 0  # steps without better weights until a member is done; 0: no limit

    def __post_init__(self) -> None:
        check_above("--rate", self.rate)
        if not 0 <= self.dropout <= MOST_DROPPED:
            raise PefourierError(f"--dropout must be from 0 to {MOST_DROPPED}, got {self.dropout}")
        check_count("--batch-size", self.batch_size)
        check_count("--steps", self.steps, 1, MOST_STEPS)
        check_count("--patience-steps", self.patience, 0, MOST_STEPS)

    @property
    def budget(self) -> dict[str, int]:
        """Limits of a run, and its interval between looks."""
        return {"steps": self.steps, "patience": self.patience, "every": self.every}


def schedule_of(options: Options, epoch: int) -> Schedule:
    """Return the schedule of options for data with `epoch` steps per epoch.

    >>> schedule_of(Options(), 2).budget, schedule_of(Options(steps=90), 40).every
    ({'steps': 1000, 'patience': 250, 'every': 25}, 40)
    """
    o = options
    steps = max(EPOCHS * epoch, STEPS) if o.steps is None else o.steps
    patience = max(PATIENCE * epoch, PATIENCE_STEPS)
    return Schedule(
        steps=steps,
        patience=patience if o.patience_steps is None else o.patience_steps,
        every=min(max(epoch, LOOK), steps),
        batch_size=o.batch_size,
        rate=o.rate,
        dropout=o.dropout,
    )


@frozen
class Arm:
    """A row of the answer: an encoding, unscaled or scaled to a root mean square."""

    name: str
    spec: str
    rms: float | None = None


def parse_arm(name: str) -> Arm:
    """Parse SPEC or SPEC@rms=SIZE; equal sizes give equal names.

    >>> parse_arm("dft@rms=.50").name
    'dft@rms=0.5'
    """
    spec, sign, size = name.partition(AT_RMS)
    if not sign:
        return Arm(name, name)
    rms = convert("rms", size, float)
    if rms <= 0:
        raise PefourierError(f"{shown(name)}: rms must be above 0, got {size}")
    if spec in ("none", *WITHOUT_VECTORS):
        raise PefourierError(f"{shown(name)}: {spec} adds nothing, so @rms cannot scale it")
    short = f"{rms:g}"
    return Arm(f"{spec}{AT_RMS}{short if float(short) == rms else rms}", spec, rms)


def parse_lengths(text: str | None) -> Counts:
    """Parse the lengths of --test-length.

    >>> parse_lengths("24,48"), parse_lengths(None)
    ((24, 48), ())
    """
    parts = [] if text is None else text.split(",")
    lengths = tuple(int(p) if p.strip().isdecimal() and len(p) < 10 else 0 for p in parts)
    if len(set(lengths)) < len(lengths) or not all(4 <= part <= MOST_ROWS for part in lengths):
        raise PefourierError(
            f"--test-length must be distinct whole numbers from 4 to {MOST_ROWS} with commas, such "
            f"as 24,48,96, got {shown(text)}"
        )
    return lengths


def draw_longer(name: str, lengths: Ints, positions: Positions = "index") -> list[Task]:
    """Draw the task of a name at other lengths."""
    if lengths and (name.partition(":")[0] not in SYNTHETIC or sides_of_task(name)):
        raise PefourierError(
            f"--test-length needs a built-in task of one axis, order, lags or irregular; "
            f"{shown(name)} has a fixed length"
        )
    return [load_task(with_length(name, n), Options(positions=positions)) for n in lengths]


def name_once(options: Options) -> Options:
    """Remove repeated names, normalize spelling, and move other methods to encodings."""
    arms = dict.fromkeys(parse_arm(spec).name for spec in (*options.encoding, *options.beside))
    datasets = dict.fromkeys(n if n in SYNTHETIC else str(Path(n)) for n in options.dataset)
    return replace(options, beside=(), encoding=tuple(arms), dataset=tuple(datasets))


def check_options(options: Options) -> None:
    """Reject invalid values and repeated settings before training."""
    schedule_of(options, 1)
    check_methods((*options.beside, *(e for e in options.encoding if e in BESIDE)))
    for name in options.dataset:
        check_dataset(name)
        draw_longer(name, parse_lengths(options.test_length), options.positions)
    for spec in (parse_arm(name).spec for name in options.encoding):
        if spec == "-":
            raise PefourierError("-e -: standard input can be read once; name a file")
        if spec not in WITHOUT_VECTORS and source_of(spec) == "name":
            family, _, text = spec.partition(":")
            parse_parameters(family, text)
    if options.plot is not None:
        check_suffix(options.plot, (".png", ".pdf", ".svg"))
    check_count("--seeds", options.seeds, 1, MOST_SEEDS)
    if options.minutes is not None and not 0.1 <= options.minutes <= MOST_MINUTES:
        raise PefourierError(
            f"--minutes must be from 0.1 to {MOST_MINUTES}, got {options.minutes:g}"
        )
    if options.minutes is not None and (options.steps or options.seeds != Options.seeds):
        raise PefourierError("--minutes chooses --seeds and --steps; omit those")
    if options.find is not None and not 1e-6 <= options.find <= 1:
        raise PefourierError(f"--find must be from 1e-06 to 1, got {options.find}")
    if options.positions == "time" and any(AT_RMS in e for e in options.encoding):
        raise PefourierError("--positions time excludes @rms; omit it")


def settle_options(options: Options) -> Options:
    """Check the options and merge them with config.json for --resume; reject differing options."""
    check_options(options)
    options, file = name_once(options), Path(options.out or "", "config.json")
    if not options.resume or options.out is None or not file.is_file():
        return with_defaults(options)
    here = {name: getattr(options, name) for name in (*NOT_NUMBERS, "device")}
    resumed = replace(stored_options(read_configuration(file)), **here)
    default = vars(name_once(Options()))
    for name, value in vars(options).items():
        if value not in (default[name], was := vars(resumed)[name]):
            raise PefourierError(
                f"--resume: {file} has {name} {shown(was)}; omit {flag_of(name)}, or choose "
                f"another --out for {shown(value)}"
            )
    check_options(resumed)
    return resumed


def with_defaults(options: Options) -> Options:
    """Choose the defaults of a user's data, and of measured times, in place of the usual ones.

    >>> with_defaults(Options(dataset=("valve.csv",), positions="time")).encoding
    ('none', 'sinusoidal', 'rope')
    >>> with_defaults(Options(dataset=("valve.csv",), steps=500)).tokens
    64
    """
    names = {name.partition(":")[0] for name in options.dataset}
    own = not names & {*SYNTHETIC, *PUBLISHED, "uea"}
    if options.encoding == USUAL:
        chosen = FOR_OWN if own else USUAL
        drop = WITHOUT_TIMES if options.positions == "time" else ()
        options = replace(options, encoding=tuple(e for e in chosen if e not in drop))
    if own and options.tokens is None and options.patch == Options.patch:
        options = replace(options, tokens=MOST_TOKENS)
    budget = options.steps, options.minutes, options.resamples, options.resume
    if own and not any(budget) and options.seeds == Options.seeds and read_rank()[1] == 1:
        options = replace(options, minutes=MINUTES)
    return options
