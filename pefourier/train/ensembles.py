"""An experiment in stacks: what is trained, and what the numbers depend on.

An encoding, scaled or unscaled, is an `Arm`; an arm with a seed and a fold is a `Run`. Runs of one
dataset that fit into memory together form a `Stack`.
"""

import os
import platform
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path

import numpy as np
import torch

from pefourier.encodings.loader import source_of
from pefourier.errors import PefourierError, shown
from pefourier.train.data.load import load_task, name_positives
from pefourier.train.data.split import Task
from pefourier.train.model import (
    Classifier,
    Injection,
    OrderFree,
    Transformer,
    load_injection,
    most_windows,
    varies,
)
from pefourier.train.options import (
    BESIDE,
    FIND,
    LEAST_D,
    ORDER_FREE,
    WITHOUT_VECTORS,
    Options,
    seeds_of,
)
from pefourier.train.program import AT_ONCE, batch_and_steps, device_memory
from pefourier.train.request import Arm, Schedule, parse_arm, schedule_of
from pefourier.train.statistics import REMARKS, chance_of, units_needed
from pefourier.train.store import NOT_NUMBERS, Key, Store, read_rank
from pefourier.types import Array, Fields, Values, frozen, frozen_arrays
from pefourier.version import __version__
from pefourier.writing.text import agreeing, fill, first_few, join

FEW = 10  # examples of a class
# acts that cost more than adding or rotating
COSTS = {"bias": "biases", "key": "keys", "key-query": "queries"}
MOST_NAMED = 12  # channels or arrays
STACK_BYTES = {"cpu": 2**28, "cuda": 2**34}  # activations of a stack
STACK_MOST = {"cpu": 16, "cuda": 256}
SPREAD = 0.06  # deviation of a difference in F1 between folds: median of ten datasets of figures/
RIGHT = 0.85  # share of windows of each class that a planned classifier gets right
GRID = [i / 100 for i in range(1, 101)]  # differences in F1
RULES = {  # that the numbers depend on and that differed in an earlier version
    "choice": "highest score on validation (average precision; of more than two classes macro F1), "
    "then least loss",
    "size": "@rms: of codes less their mean over positions",
}
# the subject of a comparison, and options that do not change its numbers
APART = {"dataset", "encoding", "seeds", "folds", "split", "positive", "window", "stride"}
APART |= {"device", "compile", "columns", "channels", "labels", "channels_first", "missing"}
APART |= {*NOT_NUMBERS}


@frozen
class Run:
    """A single training: dataset, arm, seed and fold."""

    dataset: str
    arm: Arm
    seed: int
    fold: int

    @property
    def key(self) -> Key:
        """Key of its line in results.jsonl."""
        return self.dataset, self.arm.name, self.seed, self.fold


@frozen_arrays
class ResolvedTask:
    """A task with its classifier, arms, injections and runs."""

    task: Task
    model: Transformer
    arms: tuple[Arm, ...]
    injections: Mapping[str, Injection]  # of each SPEC, for seed 0
    schedule: Schedule
    runs: Sequence[Run]


@frozen_arrays
class Ensemble:
    """Runs of one dataset that are trained together."""

    resolved: ResolvedTask
    model: Classifier | None  # None: the arm names another method
    runs: Sequence[Run]
    kind: str = ""  # equal for stacks that cost the same

    @property
    def task(self) -> Task:
        return self.resolved.task

    @property
    def keys(self) -> list[Key]:
        return [run.key for run in self.runs]


def resolve_task(task: Task, options: Options, device: torch.device) -> ResolvedTask:
    """Load the injection of each SPEC once, and reject arms that cannot be trained."""
    channels, classes = task.rows.shape[1], len(task.classes)
    patch, stride = sizes_of_tokens(task.length, options)
    even = 2 * max(len(task.grid), 1) * options.heads  # a rotary pair for each axis
    d = even if options.d is None else options.d
    sizes = d, options.heads, options.layers, patch, stride, options.ffn
    model = Transformer(task.length, channels, classes, *sizes, task.grid, options.inject)
    if options.d is None:
        model = replace(model, d=-(-max(LEAST_D, model.tokens) // even) * even)
    batch, steps = batch_and_steps(task, options.batch_size)
    check_memory(model, batch, device)
    injections: dict[str, Injection] = {}
    arms = []
    for arm in map(parse_arm, options.encoding):
        if arm.spec in BESIDE:
            from pefourier.train.baselines import check_method

            check_method(arm.spec, task)
        elif arm.spec != ORDER_FREE and arm.spec not in injections:
            injections[arm.spec] = load_for(model, arm.spec, 0, task, learn=options.learn)
        if arm.rms is not None:
            injection = injections[arm.spec]
            if injection.act != "add" or injection.shifts or not varies(injection):
                raise PefourierError(
                    f"{shown(arm.name)}: @rms cannot scale {arm.spec}: it is not added to the "
                    f"input (act {injection.act!r}), is constant over positions, or shifts them"
                )
        arms.append(arm)
    runs = plan_runs(task, arms, options.seeds)
    return ResolvedTask(task, model, tuple(arms), injections, schedule_of(options, steps), runs)


def sizes_of_tokens(length: int, options: Options) -> tuple[int, int | None]:
    """Rows per token and rows between token starts, as given or derived from --tokens.

    >>> sizes_of_tokens(251, Options(tokens=32)), sizes_of_tokens(24, Options(tokens=32))
    ((11, 10), (1, 1))
    """
    limit = options.tokens
    if limit is None:
        return options.patch, None
    if limit < 2 or options.patch != Options.patch:
        raise PefourierError(f"--tokens must be at least 2 and excludes --patch, got {limit}")
    return next(
        (patch, stride)
        for patch in range(-(-length // limit), length + 1)
        for stride in range(patch, 0, -1)
        if (length - patch) % stride == 0 and (length - patch) // stride < limit
    )


def token_rate(model: Transformer, task: Task) -> float:
    """Tokens per unit of time in the windows of a task."""
    since = task.times_of_tokens(model.step, model.tokens)
    count = np.count_nonzero(np.diff(since))  # padding has the time of the last row
    return float(count / since[:, -1].sum()) if count else 1.0


def load_for(model: Transformer, spec: str, seed: int, task: Task, *, learn: bool) -> Injection:
    """Load the injection of a SPEC for a task, at its times if it has any."""
    sizes, times = (model.tokens, model.d, model.heads, seed), None
    if task.times is not None:
        times = task.times_of_tokens(model.step, model.tokens) * token_rate(model, task)
    return load_injection(spec, *sizes, learn=learn, grid=model.grid, times=times)


def check_memory(model: Transformer, batch: int, device: torch.device) -> None:
    """Reject a classifier too large for the device's memory, before anything is allocated."""
    # at least half of the activations, and parameters, gradients and Adam's two means
    needs = model.bytes_between_layers(batch) // 2 + 16 * model.size
    if needs > (memory := device_memory(device)):
        raise PefourierError(
            f"--d {model.d}, --heads {model.heads}, --layers {model.layers} and --batch-size "
            f"{batch} on windows of {model.tokens} tokens need at least {needs / 2**30:,.0f} GiB "
            f"per run, and {memory / 2**30:,.0f} GiB are available; choose smaller values"
        )


def most_members(model: Transformer, batch: int, device: torch.device) -> int:
    """Estimate how many members fit into the memory allowed for a stack."""
    scores = 8 * batch * model.tokens * model.heads * model.tokens * model.layers
    room = min(STACK_BYTES[device.type], device_memory(device) // 5)
    members = room // (model.bytes_between_layers(batch) + scores)
    if device.type == "cuda":
        windows = most_windows(model.heads, model.tokens, model.d // model.heads)
        members = min(members, windows // max(batch, AT_ONCE))
    return max(1, min(members, STACK_MOST[device.type]))


def plan_runs(task: Task, arms: Sequence[Arm], seeds: int) -> list[Run]:
    """Plan the runs of a dataset, grouped by seed and fold, order-free ones last."""
    places = product(range(seeds), range(len(task.folds)), arms)
    runs = [Run(task.name, a, s, fold) for s, fold, a in places if s < seeds_of(a.spec, seeds)]
    return sorted(runs, key=lambda run: run.arm.spec in WITHOUT_VECTORS)


def facts_of_fold(task: Task, number: int) -> Fields:
    """Facts that the result rows of all runs of a fold share."""
    fold = task.folds[number]
    facts = {"split": task.split, "leaky": task.leaky, "length": task.length}
    facts |= {"windows": len(fold.test), "trained": len(fold.train)}
    return facts | {"positive": task.positive}


def check_runs(rows: Sequence[Values], resolved: Sequence[ResolvedTask]) -> None:
    """Reject stored runs that do not match these tasks."""
    tasks = {entry.task.name: entry.task for entry in resolved}
    for row in rows:
        task, number = tasks.get(row["dataset"]), row["fold"]
        if (
            task is None
            or number >= len(task.folds)
            or len(row["confusion"]) != len(task.classes)
            or not facts_of_fold(task, number).items() <= row.items()
        ):
            raise PefourierError(
                f"--resume: the data do not match the stored run of {shown(row['dataset'])}, "
                f"{shown(row['encoding'])}, seed {row['seed']}, fold {row['fold']}; delete its "
                "line or choose another --out"
            )


def plan_ensembles(resolved: ResolvedTask, size: int) -> list[Ensemble]:
    """Divide the runs of a task into stacks of at most `size` runs of similar cost.

    If one run of a stack has biases or keys of lags, all of its runs pay for them. Runs of other
    methods are stored one by one.
    """
    model = resolved.model
    blind = OrderFree(model.length, model.channels, model.classes, model.d)
    kinds: dict[str, list[Run]] = {}
    for run in resolved.runs:
        injection = resolved.injections.get(run.arm.spec)
        kind = run.arm.spec if injection is None else COSTS.get(injection.act, "codes")
        kinds.setdefault(kind, []).append(run)
    ensembles = []
    for kind in (*sorted(kinds.keys() - set(WITHOUT_VECTORS)), *WITHOUT_VECTORS):
        kind_runs = kinds.get(kind, [])
        kind_model = None if kind in BESIDE else blind if kind == ORDER_FREE else model
        limit = 1 if kind in BESIDE else size
        even = -(-len(kind_runs) // max(1, -(-len(kind_runs) // limit)))  # no small last stack
        starts = range(0, len(kind_runs), max(even, 1))
        ensembles += [Ensemble(resolved, kind_model, kind_runs[i : i + even], kind) for i in starts]
    return ensembles


def find_difference(task: Task, seeds: int) -> tuple[float | None, str]:
    """Find the smallest detectable difference in F1, and name its units: folds, or runs of one."""
    numbers = range(len(task.folds))
    facts = [facts_of_fold(task, number) | {"fold": number} for number in numbers]
    several = len(facts) > 1
    units = len(facts) if several else seeds
    tested = np.concatenate([task.labels[fold.test] for fold in task.folds])
    counts = np.bincount(tested, minlength=len(task.classes))
    mistakes = (1 - RIGHT) * counts / max(len(counts) - 1, 1)  # spread over the other classes
    table = np.diag(RIGHT * counts - mistakes) + mistakes[:, None]
    chance = chance_of(facts, {"planned": table}, np.arange(units) * several)
    pair = ("planned", "planned")
    found = (f for f in GRID if (units_needed(SPREAD, f, chance, pair) or np.inf) <= units)
    one, more = ("fold", "folds") if several else ("run", "runs")
    return next(found, None), f"{units} {agreeing(units, one, more)}"


def shortage(task: Task, options: Options) -> str:
    """Sentence if a difference of --find may not be detected, before anything is trained."""
    found, units = find_difference(task, options.seeds)
    find = options.find or FIND
    if found is not None and found <= find:
        return ""
    least = "no difference" if found is None else f"differences of {found} or more, not of {find:g}"
    more = "--resamples or more series" if len(task.folds) > 1 or not task.own_names else "--seeds"
    return f"The answer can be TOO FEW: {units} detect {least}; use {more}, or --find"


def parameters(resolved: ResolvedTask) -> dict[str, Fields]:
    """All parameters of each arm's encoding with defaults, and whether tokens share a vector."""
    params: dict[str, Fields] = {}
    for arm in resolved.arms:
        params[arm.name] = {} if arm.rms is None else {"rms": arm.rms}
        if arm.spec not in WITHOUT_VECTORS:
            injection = resolved.injections[arm.spec]
            fact = {"collides": True} if collides(injection, resolved.model.tokens) else {}
            params[arm.name] |= {**injection.params, **fact}
    return params


def remarks_on_task(task: Task) -> list[str]:
    """Remarks on a task before training: dropped and filled data, groups and classes."""
    facts: dict[str, Fields] = {
        code: {"names": first_few(names, MOST_NAMED)}
        for code, names in task.remarks.items()
        if names
    }
    facts |= {drop.reason: {"count": drop.count} for drop in task.dropped}
    if task.filled:
        facts["filled"] = {"count": task.filled}
    if task.times is not None or task.uneven:
        facts["uneven" if task.times is None else "times"] = {}
    if task.balanced:
        facts["neither positive"] = {"names": join(task.classes)}
    if task.groups is not None:
        facts["groups"] = {"examples": len(task.starts), "count": task.groups}
    elif task.grouped_by:
        facts["no groups"] = {"grouped_by": task.grouped_by}
    if task.shortest < task.length:
        facts["padded"] = {"shortest": task.shortest, "length": task.length}
    lines = [fill(REMARKS[code], **slots) for code, slots in facts.items()]
    counts = np.bincount(task.labels, minlength=len(task.classes)).tolist()
    for label, count in zip(task.classes, counts, strict=True):
        if count < FEW:
            lines.append(fill(REMARKS["few examples"], label=label, count=count))
    return [f"{task.name}: {line}" for line in lines]


def collides(injection: Injection, tokens: int) -> bool:
    """Whether added vectors are fewer than tokens, which makes some tokens share one."""
    return injection.act == "add" and injection.has_vectors and len(injection.vectors) < tokens


@frozen_arrays
class Experiment:
    """A comparison: its data, device, rank and result folder."""

    options: Options
    rank: int
    ranks: int
    device: torch.device
    store: Store
    resolved: Sequence[ResolvedTask]

    @property
    def keys(self) -> list[Key]:
        """All requested runs."""
        return [run.key for entry in self.resolved for run in entry.runs]

    @property
    def remarks(self) -> list[str]:
        """All remarks before training, on data and on encodings that give tokens one vector."""
        lines = []
        for entry in self.resolved:
            task, tokens = entry.task, entry.model.tokens
            lines += remarks_on_task(task)
            for arm in entry.arms:
                injection = entry.injections.get(arm.spec)
                if injection is not None and collides(injection, tokens):
                    slots = {"count": len(injection.vectors), "tokens": tokens}
                    text = fill(REMARKS["few codes"], encoding=arm.name, **slots)
                    lines.append(f"{task.name}: {text}")
            if few := shortage(task, self.options):
                lines.append(f"{task.name}: {few}")
        return list(dict.fromkeys(lines))

    @property
    def description(self) -> Fields:
        """All that the numbers depend on, including the largest number of runs in a stack."""
        sizes = [-(-len(self.keys) // self.ranks)]
        for entry in self.resolved:
            batch, _ = batch_and_steps(entry.task, self.options.batch_size)
            sizes.append(most_members(entry.model, batch, self.device))
        versions = {"pefourier": __version__, "torch": torch.__version__, "numpy": np.__version__}
        versions["python"] = platform.python_version()
        return {
            **{k: v for k, v in asdict(self.options).items() if k not in NOT_NUMBERS},
            **describe_data(self.resolved),
            **RULES,
            **{"device": str(self.device), "versions": versions, "stack": max(1, min(sizes))},
        }


def resolve(options: Options) -> Experiment:
    """Resolve options to data, classifiers and runs; only the first rank writes."""
    rank, ranks = read_rank()
    store = Store(None if options.out is None or rank else Path(options.out))
    device = choose_device(options.device)
    loaded = [load_task(name, options) for name in options.dataset]
    tasks = name_positives(loaded, options.positive)
    resolved = [resolve_task(task, options, device) for task in tasks]
    return Experiment(options, rank, ranks, device, store, resolved)


def choose_device(device: str) -> torch.device:
    """Choose the device; auto is the GPU of this process if it has one."""
    count = torch.cuda.device_count()
    if device == "auto":
        device = "cuda" if count else "cpu"
    if device == "cuda":
        device = f"cuda:{int(os.environ.get('LOCAL_RANK', '0')) % max(1, count)}"
    if device not in ("cpu", "cpu:0", *(f"cuda:{i}" for i in range(count))):
        raise PefourierError(
            f"--device must be auto, cpu, cuda or cuda:0, below {count} CUDA devices of this "
            f"machine, got {shown(device)}"
        )
    if device.startswith("cuda"):
        torch.cuda.set_device(device)
    return torch.device(device)


def describe_data(resolved: Sequence[ResolvedTask]) -> Fields:
    """Fingerprints of all data, splits and tables that the numbers depend on."""
    tasks = [entry.task for entry in resolved]
    timed = {f"times of {t.name}": t.times[:, None] for t in tasks if t.times is not None}
    arrays = {task.name: task.rows for task in tasks} | timed
    return {
        "windows": {task.name: np.bincount(task.labels).tolist() for task in tasks},  # of a class
        "splits": {
            task.name: checksum(
                task.labels,
                *(part for f in task.folds for part in (f.train, f.valid, f.test)),
                *([] if task.lengths is None else [task.lengths]),
            )
            for task in tasks
        },
        "data": {name: fingerprint(array) for name, array in arrays.items()},
        "tables": {
            f"{spec} on {entry.task.name}": fingerprint(injection.table())
            for entry in resolved
            for spec, injection in entry.injections.items()
            if source_of(spec) != "name"
        },
    }


def checksum(*arrays: Array) -> str:
    """CRC-32 of whole numbers and of the length of each array."""
    numbers = np.concatenate([np.array([len(array) for array in arrays]), *arrays])
    return f"{zlib.crc32(numbers.astype('<i8').tobytes()):08x}"


def fingerprint(array: Array) -> list[float]:
    """Two numbers that change with the (n, k) values or their order, but not with rounding.

    >>> table = np.arange(6.0).reshape(3, 2)
    >>> fingerprint(table), fingerprint(table[::-1]), fingerprint(2 * table)
    ([1.10779, -0.0393903], [1.10779, 1.13711], [1.80093, -0.0393903])
    """
    size = float(np.sqrt(np.einsum("ij,ij->", array, array, dtype=float) / array.size)) or 1.0
    down, across = (np.cos(np.arange(n)) for n in array.shape)
    along = np.einsum("i,ij,j->", down, array, across, dtype=float) / size / array.size**0.5
    return [float(f"{number:.6g}") for number in (np.log(size), along)]


def settings_in_common(experiment: Experiment) -> Fields:
    """Settings that all models of a comparison share; d by dataset if it differs."""
    settings = {k: v for k, v in asdict(experiment.options).items() if k not in APART} | RULES
    sizes = {entry.task.name: entry.model.d for entry in experiment.resolved}
    return settings | {"d": sizes if len({*sizes.values()}) > 1 else max(sizes.values())}
