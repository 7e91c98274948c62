"""What is to be trained: datasets × encodings × seeds × folds, parted into stacks.

An encoding as it is, or scaled, is an `Arm`; an arm with a seed and a fold is a `Run`. Runs of one
dataset that fit into memory together are a `Stack`. A folder's stages say which requests have been
parted before: a run stays in the stage that asked for it first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import torch

from pefourier.encodings.registry import convert
from pefourier.errors import PefourierError, shown
from pefourier.train import loop
from pefourier.train.attention import most_windows
from pefourier.train.data.split import Task
from pefourier.train.injection import injection
from pefourier.train.model import OrderFree, Transformer
from pefourier.train.options import ORDER_FREE, Options
from pefourier.train.store import ASKED, Key

AT_RMS = "@rms="
STACK_BYTES = {"cpu": 2**28, "cuda": 2**34}  # activations of a stack
STACK_MOST = {"cpu": 16, "cuda": 256}


@dataclass(frozen=True)
class Arm:
    """One row of the answer: an encoding as it is, or scaled to a root mean square."""

    name: str
    spec: str
    rms: float | None = None
    named: bool = True  # and not one of all that --match-rms scales


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
class Stack:
    """Runs of one dataset that are trained together."""

    task: Task
    model: Transformer | OrderFree
    runs: Sequence[Run]

    @property
    def keys(self) -> list[Key]:
        return [run.key(self.task) for run in self.runs]


def arms(options: Options) -> list[Arm]:
    """The rows of the answer, those of --match-rms after those that are named."""
    named = [arm(spec) for spec in options.encoding]
    scaled = [
        replace(arm(f"{spec}{AT_RMS}{rms!r}"), named=False)
        for rms in options.match_rms
        for spec in options.encoding
        if spec not in ("none", ORDER_FREE) and AT_RMS not in spec
    ]
    names = [one.name for one in named]
    return [*named, *(one for one in scaled if one.name not in names)]


def arm(name: str) -> Arm:
    """SPEC, or SPEC@rms=SIZE; one size has one name.

    >>> arm("dft@rms=.50").name
    'dft@rms=0.5'
    """
    spec, at, size = name.partition(AT_RMS)
    if not at:
        return Arm(name, name)
    rms = convert("rms", size, float)
    if rms <= 0:
        raise PefourierError(f"{shown(name)}: rms must be above 0; got {size}")
    if spec in ("none", ORDER_FREE):
        raise PefourierError(f"{shown(name)}: {spec} adds nothing, so that it has no size to match")
    short = f"{rms:g}"
    return Arm(f"{spec}{AT_RMS}{short if float(short) == rms else rms}", spec, rms)


def trainable(arm: Arm, model: Transformer) -> bool:
    """Whether an arm can be trained: as it is, or scaled if its codes are added to the input."""
    if arm.rms is None:
        return True
    act = injection(arm.spec, model.tokens, model.d, model.heads, 0).act
    if arm.named and act != "add":
        raise PefourierError(
            f"{shown(arm.name)}: {arm.spec} is not added to the input (act {act!r}), so that it "
            "has no size to match"
        )
    return act == "add"


def transformer(task: Task, options: Options) -> Transformer:
    """The classifier for a task."""
    sizes = (options.d, options.heads, options.layers, options.patch)
    return Transformer(task.length, task.rows.shape[1], len(task.classes), *sizes)


def room(model: Transformer, batch: int, device: torch.device) -> int:
    """How many members fit into the bytes a stack may take, roughly."""
    token = 4 * (model.patch * model.channels + 24 * model.d * model.layers)
    scores = 8 * model.heads * model.tokens * model.layers
    member = batch * model.tokens * (token + scores)
    most = min(STACK_MOST[device.type], STACK_BYTES[device.type] // member)
    if device.type == "cuda":
        windows = most_windows(model.heads, model.tokens, model.d // model.heads)
        most = min(most, windows // max(batch, loop.AT_ONCE))
    return max(1, most)


def wanted(task: Task, options: Options) -> list[Run]:
    """The runs of a dataset, order-free ones last: a seed and fold has all its encodings near."""
    model = transformer(task, options)
    own = [arm for arm in arms(options) if trainable(arm, model)]
    places = product(range(options.seeds), range(len(task.folds)))
    found = [Run(arm, seed, fold) for seed, fold in places for arm in own]
    return sorted(found, key=lambda run: run.arm.spec == ORDER_FREE)


def parted(
    tasks: Sequence[Task],
    runs: Mapping[str, Sequence[Run]],
    options: Options,
    stages: Sequence[Mapping[str, Any]],
) -> list[Stack]:
    """The runs of each task in stacks; one belongs to the first stage that asked for it."""
    found, had = [], set()
    for stage in stages:
        asked = replace(options, **{key: stage[key] for key in ASKED[1:]})
        names = {arm.name for arm in arms(asked)}
        for task in (task for task in tasks if task.name in stage["dataset"]):
            own = [
                run
                for run in runs[task.name]
                if run.arm.name in names and run.seed < asked.seeds and run.key(task) not in had
            ]
            had |= {run.key(task) for run in own}
            found += stacks(task, options, own, stage["stack"])
    return found


def stacks(task: Task, options: Options, new: Sequence[Run], size: int) -> list[Stack]:
    """Runs of a dataset in stacks of at most `size`."""
    model = transformer(task, options)
    plain = OrderFree(task.length, model.channels, model.classes, options.d)
    found = []
    for own, which in ((model, False), (plain, True)):
        some = [run for run in new if (run.arm.spec == ORDER_FREE) == which]
        even = -(-len(some) // max(1, -(-len(some) // size)))  # no small one at the end
        starts = range(0, len(some), max(even, 1))
        found += [Stack(task, own, some[i : i + even]) for i in starts]
    return found


def parameters(task: Task, options: Options) -> dict[str, dict[str, Any]]:
    """All parameters of each arm's encoding, defaults too."""
    model, found = transformer(task, options), {}
    for one in (one for one in arms(options) if trainable(one, model)):
        found[one.name] = {} if one.rms is None else {"rms": one.rms}
        if one.spec != ORDER_FREE:
            found[one.name] |= injection(one.spec, model.tokens, model.d, model.heads, 0).params
    return found


def remarks(task: Task, options: Options) -> list[str]:
    """What to know of encodings that give several tokens one code, or that --learn leaves alone.

    It also refuses encodings that cannot be trained, before anything is written.
    """
    model = transformer(task, options)
    found = []
    for row in arms(options):
        if row.spec in ("none", ORDER_FREE) or not row.named or not trainable(row, model):
            continue
        one = injection(row.spec, model.tokens, model.d, model.heads, 0)
        if options.learn and one.act == "rotate":
            found.append(f"--learn has no effect on {row.name}: rotations keep their angles")
        if one.act == "add" and len(one.codes) < model.tokens:
            found.append(
                f"{task.name}: {row.name} has {len(one.codes)} codes for {model.tokens} tokens"
                + "; a larger --d or --patch would tell them apart" * (len(one.codes) == model.d)
            )
    return found
