"""What is to be trained: datasets × encodings × seeds × folds, in stacks.

An encoding as it is, or scaled, is an `Arm`; an arm with a seed and a fold is a `Run`. Runs of one
dataset that fit into memory together are a `Stack`. A folder's stages say which requests have been
put into stacks before: a run stays in the stage that asked for it first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pefourier.answers.telling import sentence
from pefourier.errors import PefourierError, shown
from pefourier.train import beside, loop
from pefourier.train.asked import Arm, Schedule, list_arms, schedule_of
from pefourier.train.attention import most_windows
from pefourier.train.beside import OtherMethod
from pefourier.train.data.recordings import machine_memory
from pefourier.train.data.split import ORDER_ALONE, Task
from pefourier.train.injection import Injection, load_injection, varies
from pefourier.train.model import OrderFree, Transformer
from pefourier.train.options import BESIDE, ORDER_FREE, WITHOUT_CODES, Options, seeds_of
from pefourier.train.schema import MOST_STACKED, Row
from pefourier.train.store import Key
from pefourier.writing.text import first_few, join

FEW = 10  # examples of a class
MOST_NAMED = 12  # channels or arrays
STACK_BYTES = {"cpu": 2**28, "cuda": 2**34}  # activations of a stack
STACK_MOST = {"cpu": 16, "cuda": MOST_STACKED}
said = partial(sentence, "train")


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
class Stack:
    """Runs of one dataset that are trained together."""

    resolved: ResolvedTask
    model: Transformer | OrderFree | OtherMethod
    runs: Sequence[Run]

    @property
    def task(self) -> Task:
        return self.resolved.task

    @property
    def keys(self) -> list[Key]:
        return [run.key(self.task) for run in self.runs]


def resolve_task(task: Task, options: Options, device: torch.device) -> ResolvedTask:
    """Load what the arms inject, each SPEC once; refuses those that cannot be trained."""
    model = Transformer(
        task.length,
        task.rows.shape[1],
        len(task.classes),
        d=options.d,
        heads=options.heads,
        layers=options.layers,
        **sizes_of_tokens(task.length, options),
        ffn=options.ffn,
        pool=options.pool,
        grid=task.grid,
    )
    batch, steps = loop.batch_and_steps(task, options.batch_size)
    check_memory(model, batch, device)
    injections: dict[str, Injection] = {}
    arms = []
    for arm in list_arms(options.encoding, options.match_rms):
        if arm.spec in BESIDE:
            beside.check_method(arm.spec, task)
        elif arm.spec != ORDER_FREE and arm.spec not in injections:
            injections[arm.spec] = load_for(model, arm.spec, 0, options.learn)
        if arm.rms is None or has_size(arm, injections[arm.spec]):
            arms.append(arm)
    return ResolvedTask(task, model, tuple(arms), injections, schedule_of(options, steps))


def budget_of(task: Task, schedule: Schedule) -> dict[str, int]:
    """How long a run may last."""
    steps = loop.batch_and_steps(task, schedule.batch_size)[1]
    return {"epochs": schedule.epochs, "patience": schedule.patience, "steps": steps}


def sizes_of_tokens(length: int, options: Options) -> dict[str, int | None]:
    """Rows of a token and from one to the next, as given or so that there are few enough tokens.

    >>> sizes_of_tokens(251, Options(tokens=32)), sizes_of_tokens(24, Options(tokens=32))
    ({'patch': 11, 'stride': 10}, {'patch': 1, 'stride': 1})
    """
    most = options.tokens
    if most is None:
        return {"patch": options.patch, "stride": options.patch_stride}
    if most < 2 or options.patch != Options.patch or options.patch_stride is not None:
        raise PefourierError(
            f"--tokens must be 2 or more and stands in place of --patch; got {most}"
        )
    return tokens_at_most(length, most)


def tokens_at_most(length: int, most: int) -> dict[str, int]:
    """Rows of a token and from one to the next, so that there are at most so many tokens."""
    for patch in range(-(-length // most), length):
        for stride in range(patch, 0, -1):
            if (length - patch) % stride == 0 and (length - patch) // stride < most:
                return {"patch": patch, "stride": stride}
    return {"patch": length, "stride": length}


def load_for(model: Transformer, spec: str, seed: int, learn: bool) -> Injection:
    """What a SPEC injects into a classifier."""
    return load_injection(spec, model.tokens, model.d, model.heads, seed, learn, model.grid)


def has_size(arm: Arm, injection: Injection) -> bool:
    """Whether codes are added to the input and vary, so that they can be scaled; else refused."""
    if injection.act != "add":
        reason = f"is not added to the input (act {injection.act!r})"
    elif not varies(injection):
        reason = "is the same at every position"
    else:
        return True
    if arm.named:
        raise PefourierError(
            f"{shown(arm.name)}: {arm.spec} {reason}, so that it has no size to match"
        )
    return False


def stack_injections(
    stack: Stack, learn: bool, before: Mapping[tuple[str, int], Injection]
) -> dict[tuple[str, int], Injection]:
    """What each SPEC injects for each seed in a stack; those of the stack `before` are kept."""
    found: dict[tuple[str, int], Injection] = {}
    for run in stack.runs:
        spec, seed = run.arm.spec, run.seed
        if spec in WITHOUT_CODES or (spec, seed) in found:
            continue
        first = stack.resolved.injections[spec]
        if seed == 0 or not first.seeded:
            found[spec, seed] = first
        elif (spec, seed) in before:
            found[spec, seed] = before[spec, seed]
        else:
            found[spec, seed] = load_for(stack.resolved.model, spec, seed, learn)
    return found


def check_memory(model: Transformer, batch: int, device: torch.device) -> None:
    """Refuse a classifier that the device's memory does not hold once, before anything is made."""
    kept = model.patch * model.channels + (10 * model.d + model.wide) * model.layers  # of a token
    adam = 4 * model.size  # parameters, their gradients and two means of those
    needed = 4 * (batch * model.tokens * kept + adam)
    there = memory_of(device)
    if needed > there:
        raise PefourierError(
            f"--d {model.d}, --heads {model.heads}, --layers {model.layers} and --batch-size "
            f"{batch} on windows of {model.tokens} tokens need at least {needed / 2**30:,.0f} GiB "
            f"a run; there are {there / 2**30:,.0f} GiB: choose smaller ones"
        )


def memory_of(device: torch.device) -> int:
    """Bytes that a device has."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    return machine_memory()


def most_members(model: Transformer, batch: int, device: torch.device) -> int:
    """How many members fit into the bytes a stack may take, roughly."""
    layer = 20 * model.d + 2 * model.wide
    token = 4 * (model.patch * model.channels + layer * model.layers)
    scores = 8 * model.heads * model.tokens * model.layers
    member = batch * model.tokens * (token + scores)
    most = min(STACK_MOST[device.type], STACK_BYTES[device.type] // member)
    if device.type == "cuda":
        windows = most_windows(model.heads, model.tokens, model.d // model.heads)
        most = min(most, windows // max(batch, loop.AT_ONCE))
    return max(1, most)


def plan_runs(resolved: ResolvedTask, seeds: int) -> list[Run]:
    """The runs of a dataset, order-free ones last: a seed and fold has all its encodings near."""
    places = product(range(seeds), range(len(resolved.task.folds)), resolved.arms)
    found = [Run(a, seed, fold) for seed, fold, a in places if seed < seeds_of(a.spec, seeds)]
    return sorted(found, key=lambda run: run.arm.spec in WITHOUT_CODES)


def plan_stacks(
    resolved: Sequence[ResolvedTask],
    seeds: int,
    resampled: bool,
    stages: Sequence[Mapping[str, Any]],
) -> list[Stack]:
    """The runs of each task in stacks; one belongs to the first stage that asked for it."""
    found, had = [], set()
    runs = {one.task.name: plan_runs(one, seeds) for one in resolved}
    for stage in stages:
        names = {arm.name for arm in list_arms(stage["encoding"], stage["match_rms"])}
        for one in resolved:
            if one.task.name not in stage["dataset"]:
                continue
            known = [r for r in runs[one.task.name] if r.key(one.task) not in had]
            own = [r for r in known if r.arm.name in names and r.seed < stage["seeds"]]
            own = [r for r in own if not resampled or r.fold < (stage.get("resamples") or 1)]
            had |= {run.key(one.task) for run in own}
            found += cut_into_stacks(one, own, stage["stack"])
    return found


def check_runs(
    rows: Sequence[Row],
    resolved: Sequence[ResolvedTask],
    stages: Sequence[Mapping[str, Any]],
    lengths: Sequence[int] = (),
) -> None:
    """Refuse runs that no stage asked for, and those that these tasks could not have had."""
    asked = [
        {
            "dataset": set(stage["dataset"]),
            "encoding": {a.name for a in list_arms(stage["encoding"], stage["match_rms"])},
            "seed": range(stage["seeds"]),
        }
        for stage in stages
    ]
    known = {one.task.name: one for one in resolved}
    for row in rows:
        if not any(all(row[key] in values for key, values in one.items()) for one in asked):
            what = "of which config.json does not know"
        else:
            own = known.get(row["dataset"])
            what = own and find_misfit(row, own.task, own.schedule.epochs, lengths)
        if what:
            name = f"{shown(row['encoding'])}, seed {row['seed']}, fold {row['fold']}"
            raise PefourierError(
                f"--resume: the results hold a run of {shown(row['dataset'])} ({name}) {what}; "
                "delete its line or choose another --out"
            )


def find_misfit(row: Row, task: Task, epochs: int, lengths: Sequence[int]) -> str:
    """What a run says that cannot be of a task, in words; empty where there is nothing."""
    if row["fold"] >= len(task.folds):
        return f"where the data have {len(task.folds)} folds"
    fold, k = task.folds[row["fold"]], len(task.classes)
    own = {"split": task.split, "leaky": task.leaky, "length": task.length}
    own |= {"windows": len(fold.test), "trained": len(fold.train), "positive": task.positive}
    for key, value in own.items():
        if row.get(key, value) != value:
            return f"whose {key} is {shown(row[key])} where the data have {shown(value)}"
    if row["epoch"] > epochs:
        return f"that kept epoch {row['epoch']} of {epochs}"
    p, r, f1 = row["precision"], row["recall"], row["f1"]
    if k == 2 and abs(f1 * (p + r) - 2 * p * r) > 1e-9:
        return f"whose F1 {f1} is not that of its precision {p} and recall {r}"
    tested, said_of = row.get("tested", []), len(row["confusion"])
    if said_of != k:
        return f"whose confusion is of {said_of} classes where the data have {k}"
    if [one["length"] for one in tested] != list(lengths):
        return "that was tested at other lengths"
    for one in tested:
        lacking = sum(value is None for value in one.values())
        if lacking != (len(one) - 2 if one["reason"] else 0):
            return f"that has scores and a reason, or neither, at length {one['length']}"
    return ""


def cut_into_stacks(resolved: ResolvedTask, runs: Sequence[Run], size: int) -> list[Stack]:
    """Runs of a dataset in stacks of at most `size`; another method's are stored one by one."""
    model = resolved.model
    plain = OrderFree(model.length, model.channels, model.classes, model.d)
    found = []
    kinds = {ORDER_FREE: plain} | {name: OtherMethod(name) for name in BESIDE}
    for own in (model, *kinds.values()):
        some = [run for run in runs if kinds.get(run.arm.spec, model) == own]
        most = 1 if isinstance(own, OtherMethod) else size
        even = -(-len(some) // max(1, -(-len(some) // most)))  # no small one at the end
        starts = range(0, len(some), max(even, 1))
        found += [Stack(resolved, own, some[i : i + even]) for i in starts]
    return found


def parameters(resolved: ResolvedTask) -> dict[str, dict[str, Any]]:
    """All parameters of each arm's encoding, defaults too."""
    found: dict[str, dict[str, Any]] = {}
    for arm in resolved.arms:
        found[arm.name] = {} if arm.rms is None else {"rms": arm.rms}
        if arm.spec not in WITHOUT_CODES:
            found[arm.name] |= resolved.injections[arm.spec].params
    return found


def remarks_on_examples(task: Task) -> list[str]:
    """What to know of groups, of classes with few examples, and of examples on their side."""
    told = {"task": task, "few": FEW}
    found = []
    if task.channels:
        found.append(said("channels", names=first_few(task.channels, MOST_NAMED), **told))
    if task.unused:
        whose = said("unused groups", **told) if task.grouped_by and task.groups is None else ""
        found.append(said("unused", names=first_few(task.unused, MOST_NAMED), whose=whose, **told))
    if task.groups is not None:
        found.append(said("groups", examples=len(task.starts), **told))
    elif task.grouped_by:
        found.append(said("no groups", **told))
        if still := still_channels(task):
            found.append(said("still", names=join(still), count=len(still), **told))
    if task.shortest < task.length:
        found.append(said("padded", **told))
    if task.uneven:
        found.append(f"{task.name}: {ORDER_ALONE}")
    channels, counts = task.rows.shape[1], np.bincount(task.labels)
    for label in np.flatnonzero(counts < FEW):
        own = {"label": task.classes[label], "count": counts[label]}
        found.append(said("few examples", **own, **told))
    examples = len(task.rows) == len(task.starts) * task.length  # not a recording
    if Path(task.name).suffix.lower() == ".npz" and channels > task.length and examples:
        found.append(said("on its side", channels=channels, **told))
    return found


def still_channels(task: Task) -> list[str]:
    """Channels, by name or number, that stay the same within every example and differ between."""
    x = task.rows.reshape(len(task.starts), task.length, -1)
    there = np.arange(task.length) < (
        task.length if task.lengths is None else task.lengths[:, None]
    )
    still = ((x == x[:, :1]) | ~np.broadcast_to(there, x.shape[:2])[..., None]).all(axis=(0, 1))
    found = np.flatnonzero(still & (x[:, 0] != x[0, 0]).any(axis=0)).tolist()
    return [task.channels[at] if task.channels else str(at) for at in found]


def remarks_on_codes(resolved: ResolvedTask, learn: bool) -> list[str]:
    """What to know of encodings that give several tokens one code, or that --learn leaves alone."""
    tokens, d = resolved.model.tokens, resolved.model.d
    found = []
    for arm in resolved.arms:
        if arm.spec in ("none", *WITHOUT_CODES) or not arm.named:
            continue
        one = resolved.injections[arm.spec]
        if learn and one.act == "rotate" and not one.learn:
            found.append(said("not learned", encoding=arm.name))
        if one.act == "add" and len(one.codes) < tokens:
            few = f"{resolved.task.name}: {arm.name} has {len(one.codes)} codes for {tokens} tokens"
            way_out = "; a larger --d or --patch would tell them apart"
            found.append(few + way_out if len(one.codes) == d else few)
    return found
