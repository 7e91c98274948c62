"""What is to be trained: datasets × encodings × seeds × folds, in stacks.

An encoding as it is, or scaled, is an `Arm`; an arm with a seed and a fold is a `Run`. Runs of one
dataset that fit into memory together are a `Stack`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch

from pefourier.errors import PefourierError, shown
from pefourier.train.attention import most_windows
from pefourier.train.data.split import Task
from pefourier.train.device_data import batch_and_steps, device_memory
from pefourier.train.fit import AT_ONCE
from pefourier.train.injection import Injection, load_injection, varies
from pefourier.train.model import Classifier, OrderFree, Transformer
from pefourier.train.options import BESIDE, ORDER_FREE, WITHOUT_CODES, Options, seeds_of
from pefourier.train.report import words
from pefourier.train.request import Arm, Schedule, parse_arm, schedule_of
from pefourier.train.store import Key
from pefourier.writing.text import first_few, join

FEW = 10  # examples of a class
COSTS = {"bias": "biases", "key": "keys"}  # acts that cost more than codes that add or turn
MOST_NAMED = 12  # channels or arrays
STACK_BYTES = {"cpu": 2**28, "cuda": 2**34}  # activations of a stack
STACK_MOST = {"cpu": 16, "cuda": 256}


@dataclass(frozen=True)
class Run:
    """One training to be done."""

    arm: Arm
    seed: int
    fold: int

    def key(self, task: Task) -> Key:
        """What its line in results.jsonl is found by."""
        return task.name, self.arm.name, self.seed, self.fold


@dataclass(frozen=True, eq=False)
class ResolvedTask:
    """A task, its classifier, the arms that can be trained on it, and what they inject."""

    task: Task
    model: Transformer
    arms: tuple[Arm, ...]
    injections: Mapping[str, Injection]  # of each SPEC, for seed 0
    schedule: Schedule


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Runs of one dataset that are trained together."""

    resolved: ResolvedTask
    model: Classifier | None  # None: another method, which its arm names
    runs: Sequence[Run]

    @property
    def task(self) -> Task:
        return self.resolved.task

    @property
    def keys(self) -> list[Key]:
        return [run.key(self.task) for run in self.runs]


def resolve_task(task: Task, options: Options, device: torch.device) -> ResolvedTask:
    """Load what the arms inject, each SPEC once; refuses those that cannot be trained."""
    channels, classes = task.rows.shape[1], len(task.classes)
    patch, stride = sizes_of_tokens(task.length, options)
    sizes = options.d, options.heads, options.layers, patch, stride, options.ffn
    model = Transformer(task.length, channels, classes, *sizes, task.grid, options.inject)
    batch, steps = batch_and_steps(task, options.batch_size)
    check_memory(model, batch, device)
    injections: dict[str, Injection] = {}
    arms = []
    for arm in map(parse_arm, options.encoding):
        if arm.spec in BESIDE:
            from pefourier.train.baselines import check_method

            check_method(arm.spec, task)
        elif arm.spec != ORDER_FREE and arm.spec not in injections:
            injections[arm.spec] = load_for(model, arm.spec, 0, learn=options.learn)
        if arm.rms is not None:
            check_scaling(arm, injections[arm.spec])
        arms.append(arm)
    return ResolvedTask(task, model, tuple(arms), injections, schedule_of(options, steps))


def sizes_of_tokens(length: int, options: Options) -> tuple[int, int | None]:
    """Rows of a token and from one to the next, as given or so that there are few enough tokens.

    >>> sizes_of_tokens(251, Options(tokens=32)), sizes_of_tokens(24, Options(tokens=32))
    ((11, 10), (1, 1))
    """
    limit = options.tokens
    if limit is None:
        return options.patch, None
    if limit < 2 or options.patch != Options.patch:
        raise PefourierError(
            f"--tokens must be 2 or more and stands in place of --patch; got {limit}"
        )
    return next(
        (patch, stride)
        for patch in range(-(-length // limit), length + 1)
        for stride in range(patch, 0, -1)
        if (length - patch) % stride == 0 and (length - patch) // stride < limit
    )


def load_for(model: Transformer, spec: str, seed: int, *, learn: bool) -> Injection:
    """What a SPEC injects into a classifier."""
    return load_injection(
        spec, model.tokens, model.d, model.heads, seed, learn=learn, grid=model.grid
    )


def check_scaling(arm: Arm, injection: Injection) -> None:
    """Refuse to scale codes that are not added to the input, or that do not vary."""
    if injection.act != "add" or not varies(injection):
        raise PefourierError(
            f"{shown(arm.name)}: {arm.spec} has no size to match: it is not added to the input "
            f"(act {injection.act!r}), or is the same at every position"
        )


def stack_injections(
    stack: Ensemble, load: Callable[..., Injection]
) -> dict[tuple[str, int], Injection]:
    """What each SPEC injects for each seed in a stack; `load` is a `load_for`."""
    resolved, injections = stack.resolved, dict[tuple[str, int], Injection]()
    for spec, seed in {(r.arm.spec, r.seed) for r in stack.runs if r.arm.spec not in WITHOUT_CODES}:
        first = resolved.injections[spec]
        is_first = seed == 0 or not first.seeded
        injections[spec, seed] = first if is_first else load(resolved.model, spec, seed)
    return injections


def activations(model: Transformer, batch: int) -> int:
    """Bytes of what one member has between its layers, scores apart, roughly."""
    layer = 20 * model.d + 2 * model.wide
    return 4 * batch * model.tokens * (model.patch * model.channels + layer * model.layers)


def check_memory(model: Transformer, batch: int, device: torch.device) -> None:
    """Refuse a classifier that the device's memory does not hold once, before anything is made."""
    # half of them at least, and parameters, their gradients and two means of those
    needs = activations(model, batch) // 2 + 16 * model.size
    if needs > (memory := device_memory(device)):
        raise PefourierError(
            f"--d {model.d}, --heads {model.heads}, --layers {model.layers} and --batch-size "
            f"{batch} on windows of {model.tokens} tokens need at least {needs / 2**30:,.0f} GiB "
            f"a run; there are {memory / 2**30:,.0f} GiB: choose smaller ones"
        )


def most_members(model: Transformer, batch: int, device: torch.device) -> int:
    """How many members fit into the bytes a stack may take, roughly."""
    scores = 8 * batch * model.tokens * model.heads * model.tokens * model.layers
    members = STACK_BYTES[device.type] // (activations(model, batch) + scores)
    if device.type == "cuda":
        windows = most_windows(model.heads, model.tokens, model.d // model.heads)
        members = min(members, windows // max(batch, AT_ONCE))
    return max(1, min(members, STACK_MOST[device.type]))


def plan_runs(resolved: ResolvedTask, seeds: int) -> list[Run]:
    """The runs of a dataset, order-free ones last: a seed and fold has all its encodings near."""
    places = product(range(seeds), range(len(resolved.task.folds)), resolved.arms)
    runs = [Run(a, seed, fold) for seed, fold, a in places if seed < seeds_of(a.spec, seeds)]
    return sorted(runs, key=lambda run: run.arm.spec in WITHOUT_CODES)


def facts_of_fold(task: Task, number: int) -> dict[str, Any]:
    """What every run of a fold has in its row."""
    fold = task.folds[number]
    facts = {"split": task.split, "leaky": task.leaky, "length": task.length}
    facts |= {"windows": len(fold.test), "trained": len(fold.train)}
    return facts | {"positive": task.positive}


def check_runs(rows: Sequence[Mapping[str, Any]], resolved: Sequence[ResolvedTask]) -> None:
    """Refuse runs that these tasks could not have had."""
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
                f"--resume: the data cannot have had this run: {shown(row['dataset'])}, "
                f"{shown(row['encoding'])}, seed {row['seed']}, fold {row['fold']}; delete its "
                "line or choose another --out"
            )


def plan_ensembles(resolved: ResolvedTask, seeds: int, size: int) -> list[Ensemble]:
    """Runs of a task in stacks of at most `size`, those beside one another that cost alike.

    Biases, and keys of lags, are paid for by all of a stack. Another method's runs are stored one
    by one.
    """
    model = resolved.model
    blind = OrderFree(model.length, model.channels, model.classes, model.d)
    kinds: dict[str, list[Run]] = {}
    for run in plan_runs(resolved, seeds):
        injection = resolved.injections.get(run.arm.spec)
        kind = run.arm.spec if injection is None else COSTS.get(injection.act, "codes")
        kinds.setdefault(kind, []).append(run)
    ensembles = []
    for kind in (*sorted(kinds.keys() - set(WITHOUT_CODES)), *WITHOUT_CODES):
        kind_runs = kinds.get(kind, [])
        kind_model = None if kind in BESIDE else blind if kind == ORDER_FREE else model
        limit = 1 if kind in BESIDE else size
        even = -(-len(kind_runs) // max(1, -(-len(kind_runs) // limit)))  # no small one at the end
        starts = range(0, len(kind_runs), max(even, 1))
        ensembles += [Ensemble(resolved, kind_model, kind_runs[i : i + even]) for i in starts]
    return ensembles


def parameters(resolved: ResolvedTask) -> dict[str, dict[str, Any]]:
    """All parameters of each arm's encoding, defaults too."""
    params: dict[str, dict[str, Any]] = {}
    for arm in resolved.arms:
        params[arm.name] = {} if arm.rms is None else {"rms": arm.rms}
        if arm.spec not in WITHOUT_CODES:
            params[arm.name] |= resolved.injections[arm.spec].params
    return params


def remarks_on_task(task: Task) -> list[str]:
    """What to know of a task before training: what is dropped, filled, and who its examples are."""
    counts = np.bincount(task.labels, minlength=len(task.classes)).tolist()
    facts: list[tuple[str, Any, dict[str, Any]]] = [
        *((drop.reason, True, {"count": drop.count}) for drop in task.dropped),
        ("filled", task.filled, {"count": task.filled}),
        ("channels", task.channels, {"names": first_few(task.channels, MOST_NAMED)}),
        ("unused", task.unused, {"names": first_few(task.unused, MOST_NAMED)}),
        ("uneven", task.uneven, {}),
        ("neither positive", task.balanced, {"names": join(task.classes)}),
        ("groups", task.groups is not None, {"examples": len(task.starts), "count": task.groups}),
        ("no groups", task.groups is None and task.grouped_by, {"grouped_by": task.grouped_by}),
        ("padded", task.shortest < task.length, {"shortest": task.shortest, "length": task.length}),
    ]
    for label, count in zip(task.classes, counts, strict=True):
        facts.append(("few examples", count < FEW, {"label": label, "count": count}))
    chosen = [(code, slots) for code, applies, slots in facts if applies]
    return [f"{task.name}: {words('remarks', code, **slots)}" for code, slots in chosen]


def list_remarks(resolved: ResolvedTask) -> list[str]:
    """What to know before training, of encodings too that give several tokens one code."""
    remarks, tokens = remarks_on_task(resolved.task), resolved.model.tokens
    for arm in resolved.arms:
        injection = resolved.injections.get(arm.spec)
        if injection is None or injection.act != "add" or arm.spec == "none":
            continue
        if (count := len(injection.codes)) < tokens:
            text = words("remarks", "few codes", encoding=arm.name, count=count, tokens=tokens)
            remarks.append(f"{resolved.task.name}: {text}")
    return remarks
