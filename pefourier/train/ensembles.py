"""An experiment in stacks: what is trained, and what the numbers depend on.

An encoding, scaled or unscaled, is an `Arm`; a run is an arm with a seed and a fold, named by its
key. Runs of one dataset that fit into memory together form a stack.

Work of a rank: stacks are claimed, trained, scored, stored and sent.

After a crash, a stack with missing runs is trained again from its beginning, with the same
members: resumed numbers equal those of an undisturbed run, bit for bit
on a CPU.

Plan
----
A plan checks its options like a training, rejects the same options, and writes nothing. The time
is extrapolated from a few steps, whose weights are discarded. The detectable difference assumes
that folds differ as much as in the results of this project.
"""

import json
import os
import platform
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import cache, lru_cache, partial
from itertools import product
from pathlib import Path

import numpy as np
import torch

from pefourier.encodings.loader import source_of
from pefourier.errors import PefourierError, shown
from pefourier.train import baselines, run_artifacts, saved_models
from pefourier.train.data.load import load_task, name_positives
from pefourier.train.data.split import Dropped, Task
from pefourier.train.model import (
    NOTHING,
    Classifier,
    Injection,
    OrderFree,
    Transformer,
    load_injection,
    most_windows,
    scale_to_rms,
    token_rate,
    varies,
)
from pefourier.train.options import (
    BESIDE,
    EPOCHS,
    FIND,
    LEAST_D,
    LOOK,
    ORDER_FREE,
    STEPS,
    WITHOUT_VECTORS,
    Options,
    seeds_of,
)
from pefourier.train.program import (
    AT_ONCE,
    EAGER,
    Compiler,
    Program,
    Replica,
    Resident,
    TrainedRun,
    batch_and_steps,
    device_memory,
    fit,
    pays_to_compile,
    seconds_of_step,
    threshold_of,
    trace_of,
)
from pefourier.train.report import tables_in_words
from pefourier.train.request import (
    Arm,
    Schedule,
    draw_longer,
    parse_arm,
    parse_lengths,
    schedule_of,
    settle_options,
)
from pefourier.train.run_artifacts import count_confusions, decide, score
from pefourier.train.statistics import (
    LEAST_UNITS,
    REMARKS,
    SPREAD,
    Chance,
    Summary,
    chance_of,
    least_difference,
    summarize_runs,
    units_needed,
    windows_needed,
)
from pefourier.train.store import (
    KEY,
    NOT_NUMBERS,
    RULES,
    Group,
    Key,
    Store,
    check_same,
    join_group,
    key_of,
    read_rank,
)
from pefourier.types import Array, Fields, Texts, Values, frozen, frozen_arrays
from pefourier.version import __version__
from pefourier.writing.files import remove_old_drafts
from pefourier.writing.page import Page, flattened, plain
from pefourier.writing.text import agree, agreeing, fill, first_few, join, paragraph, printable

Note = Callable[[str], object]  # shows a line to the user during training
FEW = 10  # examples of a class
# what each act costs, in the order of stacks
COSTS = {"bias": "biases", "add": "codes", "rotate": "codes", "key": "keys", "key-query": "queries"}
MOST_NAMED = 12  # channels or arrays
STACK_BYTES = {"cpu": 2**28, "cuda": 2**34}  # activations of a stack
STACK_MOST = {"cpu": 16, "cuda": 256}
FACTS = ("split", "leaky", "length", "positive")  # of a task, in lines of results
RIGHT = 0.85  # share of windows of each class that a planned classifier gets right
PLANNED = ("planned", "planned")  # two encodings before training
# the subject of a comparison, and options that do not change its numbers
APART = {"dataset", "encoding", "seeds", "folds", "split", "positive", "window", "stride"}
APART |= {"device", "columns", "channels", "labels", "channels_first", "missing"}
APART |= {*NOT_NUMBERS}


@frozen_arrays
class ResolvedTask:
    """A task with its classifier, arms, injections and runs."""

    task: Task
    model: Transformer
    arms: Mapping[str, Arm]  # by name
    injections: Mapping[str, Injection]  # of each SPEC, for seed 0
    schedule: Schedule
    runs: Sequence[Key]


@frozen_arrays
class Ensemble:
    """Runs of one dataset that are trained together."""

    resolved: ResolvedTask
    model: Classifier | None  # None: the arm names another method
    runs: Sequence[Key]
    kind: str  # equal for stacks that cost the same

    @property
    def task(self) -> Task:
        return self.resolved.task


def resolve_task(task: Task, options: Options, device: torch.device) -> ResolvedTask:
    """Load the injection of each SPEC once, and reject arms that cannot be trained."""
    channels, classes = task.rows.shape[1], len(task.classes)
    patch, stride = sizes_of_tokens(task.length, options)
    even = 2 * max(len(task.grid), 1) * options.heads  # a rotary pair for each axis
    d = even if options.d is None else options.d
    sizes = d, options.heads, options.layers, patch, stride, options.ffn
    model = Transformer(task.length, channels, classes, *sizes, task.grid)
    if options.d is None:
        model = replace(model, d=-(-max(LEAST_D, model.tokens) // even) * even)
    batch, steps = batch_and_steps(task, options.batch_size)
    # at least half of the activations, and parameters, gradients and Adam's two means
    needs = model.bytes_between_layers(batch) // 2 + 16 * model.size
    if needs > (memory := device_memory(device)):  # before anything is allocated
        raise PefourierError(
            f"--d {model.d}, --heads {model.heads}, --layers {model.layers} and --batch-size "
            f"{batch} on windows of {model.tokens} tokens need at least {needs / 2**30:,.0f} GiB "
            f"per run, and {memory / 2**30:,.0f} GiB are available; choose smaller values"
        )
    injections: dict[str, Injection] = {}
    arms = {name: parse_arm(name) for name in options.encoding}
    for arm in arms.values():
        if arm.spec in BESIDE:
            baselines.check_method(arm.spec, task)
        elif arm.spec != ORDER_FREE and arm.spec not in injections:
            injections[arm.spec] = load_for(model, arm.spec, 0, task)
        if arm.rms is not None:
            injection = injections[arm.spec]
            if injection.act != "add" or not varies(injection):
                raise PefourierError(
                    f"{shown(arm.name)}: @rms cannot scale {arm.spec}: it is not added to the "
                    f"input (act {injection.act!r}), or is constant over positions"
                )
    runs = plan_runs(task, arms, options.seeds)
    return ResolvedTask(task, model, arms, injections, schedule_of(options, steps), runs)


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


def load_for(model: Transformer, spec: str, seed: int, task: Task) -> Injection:
    """Load the injection of a SPEC for a task, at its times if it has any."""
    sizes, times = (model.tokens, model.d, model.heads, seed), None
    if task.times is not None:
        times = task.times_of_tokens(model.step, model.tokens) * token_rate(model, task)
    return load_injection(spec, *sizes, grid=model.grid, times=times)


def most_members(model: Transformer, batch: int, device: torch.device) -> int:
    """Estimate how many members fit into the memory allowed for a stack."""
    scores = 8 * batch * model.tokens * model.heads * model.tokens * model.layers
    room = min(STACK_BYTES[device.type], device_memory(device) // 5)
    members = room // (model.bytes_between_layers(batch) + scores)
    if device.type == "cuda":
        windows = most_windows(model.heads, model.tokens, model.d // model.heads)
        members = min(members, windows // max(batch, AT_ONCE))
    return max(1, min(members, STACK_MOST[device.type]))


def plan_runs(task: Task, names: Iterable[str], seeds: int) -> list[Key]:
    """Plan the runs of a dataset, grouped by seed and fold, those without vectors last."""
    places = product(range(seeds), range(len(task.folds)), names)
    runs = [(task.name, name, s, fold) for s, fold, name in places if s < seeds_of(name, seeds)]
    return sorted(runs, key=lambda run: run[1] in WITHOUT_VECTORS)


def facts_of_fold(task: Task, number: int) -> Fields:
    """Facts that the result rows of all runs of a fold share."""
    fold = task.folds[number]
    return {
        **{name: getattr(task, name) for name in FACTS},
        "fold": number,
        "windows": len(fold.test),
        "trained": len(fold.train),
    }


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
    kinds: dict[str, list[Key]] = {kind: [] for kind in (*COSTS.values(), *WITHOUT_VECTORS)}
    for run in resolved.runs:
        injection = resolved.injections.get(resolved.arms[run[1]].spec)
        kinds[run[1] if injection is None else COSTS[injection.act]].append(run)
    ensembles = []
    for kind, runs in kinds.items():
        kind_model = None if kind in BESIDE else blind if kind == ORDER_FREE else model
        stacks = -(-len(runs) // (1 if kind in BESIDE else size))
        even = -(-len(runs) // (stacks or 1)) or 1  # no small last stack
        starts = range(0, len(runs), even)
        ensembles += [Ensemble(resolved, kind_model, runs[i : i + even], kind) for i in starts]
    return ensembles


def planned_units(task: Task, seeds: int) -> tuple[float, int, Chance, Texts]:
    """Expected deviation of a comparison's units, folds or runs; units, chance and encodings."""
    facts = [facts_of_fold(task, number) for number in range(len(task.folds))]
    several = len(facts) > 1
    units = len(facts) if several else seeds
    tested = np.concatenate([task.labels[fold.test] for fold in task.folds])
    counts = np.bincount(tested, minlength=len(task.classes))
    mistakes = (1 - RIGHT) * counts / max(len(counts) - 1, 1)  # spread over the other classes
    table = np.diag(RIGHT * counts - mistakes) + mistakes[:, None]
    chance = chance_of(facts, {"planned": table}, np.arange(units) * several)
    deviation = SPREAD
    if several and not chance.are_redrawn:  # folds differ at least by the draw of their windows
        deviation = max(SPREAD, float(np.sqrt(units * chance.drawn(PLANNED))))
    return deviation, units, chance, PLANNED


def describe_detection(task: Task, options: Options) -> tuple[float | None, str]:
    """Smallest difference that the planned runs detect, and what would detect that of --find."""
    deviation, units, chance, _ = planned = planned_units(task, options.seeds)
    found, find = least_difference(*planned), options.find or FIND
    least = "no difference" if found is None else f"differences of {found} or more"
    named = (
        f"{agree(f'{units} {chance.over}')} with a standard deviation of {deviation:.2g} "
        f"{agreeing(units, 'detects', 'detect')} {least} in F1 with 80% power"
    )
    if found is not None and found <= find:
        return found, named
    ways = [] if found is None else [f"--find {found}"]
    if chance.draws_decide:
        if number := windows_needed(find, deviation, chance, PLANNED):
            ways.append(f"about {number} examples")
    elif chance.over == "runs":
        if number := units_needed(deviation, find, chance, PLANNED):
            ways.append(f"--seeds {number}")
        elif found is None and (number := units_needed(deviation, FIND, chance, PLANNED)):
            ways.append(f"--seeds {number} --find {FIND}")
    return found, f"{named}, not of {find:g}; use {' or '.join(ways or ['more data'])}"


def parameters(resolved: ResolvedTask) -> dict[str, Fields]:
    """All parameters of each arm's encoding with defaults, and whether tokens share a vector."""
    params: dict[str, Fields] = {}
    for arm in resolved.arms.values():
        own: Fields = {} if arm.rms is None else {"rms": arm.rms}
        params[arm.name] = own
        if (injection := resolved.injections.get(arm.spec)) is not None:
            own |= injection.params
            few = injection.has_vectors and len(injection.vectors) < resolved.model.tokens
            if injection.act == "add" and few:  # some tokens share a vector
                own["collides"] = True
    return params


def remarks_on_task(task: Task) -> list[str]:
    """Remarks on a task before training: dropped and filled data, groups and classes."""
    lines = [
        fill(REMARKS[code], names=first_few(names, MOST_NAMED))
        for code, names in task.remarks.items()
        if names
    ]
    lines += [fill(REMARKS[drop.reason], count=drop.count) for drop in task.dropped]
    conditions = {
        "filled": task.filled,
        "times": task.times is not None,
        "uneven": task.uneven and task.times is None,
        "neither positive": task.balanced,
        "groups": task.groups is not None,
        "no groups": task.groups is None and task.grouped_by,
        "padded": task.shortest < task.length,
    }
    slots = {"task": task, "names": join(task.classes), "examples": len(task.starts)}
    lines += [fill(REMARKS[code], **slots) for code, holds in conditions.items() if holds]
    counts = np.bincount(task.labels, minlength=len(task.classes)).tolist()
    return lines + [
        fill(REMARKS["few examples"], label=label, count=count)
        for label, count in zip(task.classes, counts, strict=True)
        if count < FEW
    ]


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
        return [run for entry in self.resolved for run in entry.runs]

    @property
    def remarks(self) -> list[str]:
        """Remarks before training, on data and on encodings that give tokens one vector.

        A line for each of two datasets, or one for all.
        """
        all_lines = []
        for entry in self.resolved:
            task, tokens = entry.task, entry.model.tokens
            lines = remarks_on_task(task)
            for name, own in parameters(entry).items():
                if own.get("collides"):
                    count = len(entry.injections[entry.arms[name].spec].vectors)
                    text = REMARKS["few codes"]
                    lines.append(fill(text, encoding=name, count=count, tokens=tokens))
            if lines:
                all_lines.append(f"{task.name}: {'; '.join(lines)}")
        return all_lines if len(all_lines) < 3 else [". ".join(all_lines)]

    @property
    def description(self) -> Fields:
        """All that the numbers depend on, including the largest number of runs in a stack."""
        sizes, tasks = [-(-len(self.keys) // self.ranks)], [entry.task for entry in self.resolved]
        for entry in self.resolved:
            batch, _ = batch_and_steps(entry.task, self.options.batch_size)
            sizes.append(most_members(entry.model, batch, self.device))
        timed = {f"times of {t.name}": t.times[:, None] for t in tasks if t.times is not None}
        arrays = {task.name: task.rows for task in tasks} | timed
        return {
            **{k: v for k, v in asdict(self.options).items() if k not in NOT_NUMBERS},
            "windows": {t.name: np.bincount(t.labels).tolist() for t in tasks},  # of a class
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
                for entry in self.resolved
                for spec, injection in entry.injections.items()
                if source_of(spec) != "name"
            },
            **RULES,
            "device": str(self.device),
            "versions": {
                "pefourier": __version__,
                "torch": torch.__version__,
                "numpy": np.__version__,
                "python": platform.python_version(),
            },
            "stack": max(1, min(sizes)),
        }


def resolve(options: Options, began: float, note: Note) -> Experiment:
    """Resolve options, and --minutes since `began`, to data, classifiers and runs.

    Only the first rank writes.
    """
    rank, ranks = read_rank()
    store = Store(None if options.out is None or rank else Path(options.out))
    device = choose_device(options.device)
    loaded = [load_task(name, options) for name in options.dataset]
    tasks = name_positives(loaded, options.positive)
    resolved = [resolve_task(task, options, device) for task in tasks]
    whole = Experiment(options, rank, ranks, device, store, resolved)
    return whole if options.minutes is None else fit_into_minutes(whole, began, note)


def choose_device(device: str) -> torch.device:
    """Choose the device; auto is the GPU of this process if it has one."""
    count = torch.cuda.device_count()
    if device == "auto":
        device = "cuda" if count else "cpu"
    if device == "cuda":
        device = f"cuda:{int(os.environ.get('LOCAL_RANK', '0')) % max(1, count)}"
    if device not in ("cpu", "cpu:0", *(f"cuda:{i}" for i in range(count))):
        raise PefourierError(
            f"--device must be auto, cpu, or cuda or cuda:N of the CUDA devices ({count}) of this "
            f"machine, got {shown(device)}"
        )
    if device.startswith("cuda"):
        torch.cuda.set_device(device)
    return torch.device(device)


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


Results = Sequence[tuple[Fields, bytes]]  # rows of results.jsonl, with traces
LINE_EVERY = 10.0  # seconds between notes


def train_rank(experiment: Experiment, note: Note) -> Summary | None:
    """Train the missing runs as one rank; rank 0 summarizes the results."""
    options, store, begun = experiment.options, experiment.store, time.time()
    several = experiment.ranks > 1
    meeting = join_group(experiment.rank, experiment.ranks) if several else nullcontext()
    with meeting as group:
        work = Work(experiment, group, note)
        for line in experiment.remarks:
            note(line)
        work.train_share()
        if options.resume and store.path is not None:
            folders = [store.path, *store.path.glob("*/")]
            remove_old_drafts([*folders, *filter(None, [options.save_models])], begun)
        rows = {key_of(row): row for row in (*work.rows, *store.rows())}
        if experiment.rank:
            return None
        params = {r.task.name: parameters(r) for r in experiment.resolved}
        shared = {k: v for k, v in asdict(options).items() if k not in APART} | RULES
        sizes = {r.task.name: r.model.d for r in experiment.resolved}
        shared["d"] = sizes if len({*sizes.values()}) > 1 else max(sizes.values())
        return summarize_runs([rows[key] for key in experiment.keys], params, shared)


class Work:
    """The stacks of a comparison, and the results of this rank's share."""

    def __init__(self, experiment: Experiment, group: Group | None, note: Note) -> None:
        self.experiment, self.group, self.note = experiment, group, note
        self.options, self.store = experiment.options, experiment.store
        self.done: set[Key] = set()  # runs that were finished before, on rank 0
        self.rows: list[Fields] = []
        missing = self.agree()
        self.share = missing[experiment.rank :: experiment.ranks]
        self.awaited = {*missing} - {*self.share}  # on rank 0, until they arrive
        self.resident = lru_cache(maxsize=1)(Resident)
        self.compiler = Compiler(note)
        self.finished = self.steps = 0  # trained stacks, and the step limit of the current stack
        self.began = self.shown = time.perf_counter()
        self.load = cache(load_for)
        lengths = parse_lengths(self.options.test_length)
        positions = self.options.positions
        self.longer = {n: draw_longer(n, lengths, positions) for n in self.options.dataset}

    def agree(self) -> list[int]:
        """Plan all stacks as rank 0 does, and return the numbers of unfinished ones.

        A stack is unfinished if a run has no row, or no model in the folder of --save-models.
        """
        whole, group, folder = self.experiment, self.group, self.options.save_models
        if group is not None and group.rank:
            config, unfinished = json.loads(group.store.get("plan"))  # waits for rank 0
            check_same(Path(f"rank {group.rank}"), config, whole.description)
        else:
            config = self.store.settle(whole.description, resume=self.options.resume)
            rows = self.store.rows()
            check_runs(rows, whole.resolved)
            self.done = {key_of(row) for row in rows}
            unfinished = [run for run in whole.keys if run not in self.done]
            if folder is not None:
                models = [run for run in whole.keys if run[1] not in BESIDE]
                file_of = run_artifacts.file_of_model
                unfinished += [run for run in models if not file_of(folder, run).is_file()]
            if group is not None:
                group.store.set("plan", json.dumps([config, unfinished]))
        self.ensembles = [e for r in whole.resolved for e in plan_ensembles(r, config["stack"])]
        runs = set(map(tuple, unfinished))
        return [n for n, stack in enumerate(self.ensembles) if not runs.isdisjoint(stack.runs)]

    def count_steps(self, steps: int, members: int, loss: float) -> None:
        """Report the step that a stack, or a part of it, has reached."""
        self.take_over()
        moment = time.perf_counter()
        if moment - self.shown >= LINE_EVERY:
            share = min(1.0, (self.finished + steps / self.steps) / self.count)
            minutes, seconds = divmod(round((moment - self.began) * (1 / share - 1)), 60)
            methods, self.shown = [*+self.fits], moment
            self.note(
                f"{100 * share:.0f}% · {members} members · step {steps}/{self.steps} · loss "
                f"{loss:.3f} · {minutes}:{seconds:02d} left"
                + (f", then {join(methods)}" if methods else "")
            )

    def train_share(self) -> None:
        """Train this rank's stacks in sequence, and collect those of other ranks on rank 0."""
        stacks, group = [self.ensembles[number] for number in self.share], self.group
        self.fits = Counter(stack.kind for stack in stacks if stack.model is None)  # to come
        self.count = len(stacks) - self.fits.total()
        for number, stack in zip(self.share, stacks, strict=True):
            results = self.train(stack)
            if group is not None and group.rank:
                group.send(number, results)
        if group is not None and group.rank == 0:
            group.wait_for(self.awaited, self.take_over)

    def take_over(self) -> None:
        """Store results that have arrived from other ranks, on rank 0; others say they work."""
        group = self.group
        if group is not None and group.rank:
            group.store.add("looks", 1)
        elif group is not None:
            for number in sorted(self.awaited):
                if (sent := group.receive(number)) is not None:
                    self.awaited.remove(number)
                    self.put_away(sent)

    def put_away(self, results: Results) -> None:
        """Store rows and traces run by run: those that fit on the disk are kept."""
        for row, trace in results:
            if self.store.path is not None:
                run_artifacts.write_trace(self.store.path, key_of(row), trace)
                self.store.append([row] if key_of(row) not in self.done else [])
            self.rows.append(row)

    def train(self, stack: Ensemble) -> Results:
        """Train a stack, store its results, and save requested models."""
        task, folder, outcomes = stack.task, self.options.save_models, self.fit_runs(stack)
        finite = [outcome for outcome in outcomes if outcome.finite]
        results = [(self.row_of(stack, outcome), trace_of(task, outcome)) for outcome in finite]
        self.put_away(results)  # before models, for which the disk may be too small
        if folder is not None and stack.model is not None:
            for outcome in finite:
                saved_models.save_model(folder, task, outcome, stack.model)
        for outcome in outcomes:
            if not outcome.finite:  # other runs of the stack are stored already
                m = outcome.member
                raise PefourierError(
                    f"{m.encoding}, seed {m.seed}, fold {m.fold}: non-finite logits; its vectors "
                    "may be too large: use SPEC@rms=SIZE to scale them"
                )
        return results

    def fit_runs(self, stack: Ensemble) -> list[TrainedRun]:
        """Train the runs of a stack."""
        members = [
            Replica(name, self.injection_of(stack.resolved, name, seed), seed, fold)
            for _, name, seed, fold in stack.runs
        ]
        if stack.model is None:  # a single run
            fitted = baselines.fit_method(stack.kind, stack.task, members[0].fold)
            self.fits[stack.kind] -= 1
            self.began += fitted[-1]  # the time that is left is that of stacks
            return [TrainedRun(members[0], *fitted)]
        resident = self.resident(stack.task, self.experiment.device)
        schedule, compiler = stack.resolved.schedule, self.compiler
        self.steps = schedule.steps
        given = (schedule, self.count_steps, compiler if self.is_compiled(stack) else EAGER)
        outcomes = fit(resident, stack.model, members, *given)
        self.finished += 1
        return outcomes

    def is_compiled(self, stack: Ensemble) -> bool:
        """Whether compiling the step of a stack, and of all equal stacks, is worthwhile."""
        if not isinstance(stack.model, Transformer):
            return False
        equal = [e for e in self.ensembles if e.model is stack.model and e.kind == stack.kind]
        batch, _ = batch_and_steps(stack.task, self.options.batch_size)
        runs = sum(len(one.runs) for one in equal)
        seconds = seconds_of_step(stack.model, batch, runs // len(equal)) * len(equal)
        seconds *= stack.resolved.schedule.steps / self.experiment.ranks
        return pays_to_compile(self.experiment.device, seconds)

    def injection_of(self, resolved: ResolvedTask, name: str, seed: int) -> Injection:
        """Return the injection of a run; the order-free baseline and other methods have none."""
        arm = resolved.arms[name]
        injection = resolved.injections.get(arm.spec, NOTHING)
        if seed and "seed" in injection.params:  # other seeds may have other vectors
            injection = self.load(resolved.model, arm.spec, seed, resolved.task)
        return injection if arm.rms is None else scale_to_rms(injection, arm.rms)

    def row_of(self, stack: Ensemble, outcome: TrainedRun) -> Fields:
        """Return a line of results.jsonl."""
        fold, task, longer = outcome.member.fold, stack.task, self.longer.get(stack.task.name, [])
        labels = task.labels[task.folds[fold].test]
        predicted = decide(outcome.test, threshold_of(task, outcome))
        confusion = count_confusions(predicted, labels, len(task.classes))
        return {
            **dict(zip(KEY, outcome.key_in(task), strict=True)),
            **score(predicted, outcome.test, labels, macro=task.positive is None),
            "step": outcome.step,
            "seconds": round(outcome.seconds, 3),
            **facts_of_fold(task, fold),
            "confusion": confusion.tolist(),
            "shortest": task.shortest,
            "uneven": task.uneven,
            "budget": stack.resolved.schedule.budget,
            "device": str(self.experiment.device),
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "tested": saved_models.score_lengths(task, stack.model, outcome, longer, self.load),
        }


PARTS = ("train", "valid", "test")
TIMES = (2, 5, 10, 20, 40, 80)  # minutes
TIMED = 5  # steps
SAFE = 0.9  # share of --minutes for training; the rest is for loading and the answer
MOST_RUNS, LONGER = 64, 4  # largest number of runs per fold, and multiple of the usual steps


@frozen
class DatasetPlan:
    """Plan of the training on a dataset."""

    dataset: str
    encodings: Texts
    seeds: int
    folds: tuple[Values, ...]  # number, and windows of each class in each part
    classes: Texts  # in the order of window counts
    positive: str | None  # class that scores describe; None: scores are means over classes
    split: str
    leaky: bool
    length: int  # rows of a window
    channels: int
    d: int  # dimension of the model
    runs: int  # not yet trained
    finished: int  # stored already
    budget: Mapping[str, int]
    dropped: tuple[Dropped, ...]
    seconds: float  # estimated limit of training time, without other methods
    detectable: float | None  # smallest difference in F1 that these folds or runs detect
    minutes: tuple[Values, ...]  # seeds and steps that --minutes would choose, and detectable
    conclusion: str


def plan_training(options: Options, note: Note = str) -> tuple[DatasetPlan, ...]:
    """Plan the training on each dataset, without training or writing anything."""
    began = time.monotonic()
    options = settle_options(options)
    if read_rank()[0]:
        return ()
    experiment = resolve(options, began, note)
    for entry in experiment.resolved:
        found, sentence = describe_detection(entry.task, experiment.options)
        if options.find is not None and (found is None or found > options.find):
            raise PefourierError(f"--plan: {entry.task.name}: {sentence}")
    finished = {key_of(row) for row in experiment.store.rows()}
    for line in experiment.remarks:
        note(line)
    return tuple(plan_of(e, experiment, finished) for e in experiment.resolved)


def plan_of(resolved: ResolvedTask, experiment: Experiment, finished: set[Key]) -> DatasetPlan:
    """Plan the training on a dataset, in numbers and in words."""
    task, options = resolved.task, experiment.options
    counts = partial(np.bincount, minlength=len(task.classes))
    keys = set(resolved.runs)
    unfinished, steps = len(keys - finished), resolved.schedule.steps
    of_step = seconds_of_steps(resolved, experiment)
    seconds = of_step * steps * unfinished / len(keys)
    found, sentence = describe_detection(task, options)
    conclusion = (
        f"{task.name}: {agree(f'{unfinished} runs')} of at most {steps} steps, at most about "
        f"{max(1, round(seconds / 60))} min. {sentence}."
    )
    choices = [
        {
            "minutes": minutes,
            "seeds": seeds,
            "steps": number,
            "detectable": least_difference(*planned_units(task, seeds)),
        }
        for minutes in TIMES
        for seeds, number in [divide_time(60 * minutes, of_step / options.seeds, experiment)]
        if number >= LOOK
    ]
    return DatasetPlan(
        dataset=task.name,
        encodings=tuple(resolved.arms),
        seeds=options.seeds,
        folds=tuple(
            {"fold": i}
            | {part: counts(task.labels[getattr(fold, part)]).tolist() for part in PARTS}
            for i, fold in enumerate(task.folds)
        ),
        **{name: getattr(task, name) for name in ("classes", "dropped", *FACTS)},
        channels=task.rows.shape[1],
        d=resolved.model.d,
        runs=unfinished,
        finished=len(keys & finished),
        budget=resolved.schedule.budget,
        seconds=round(seconds, 1),
        detectable=found,
        minutes=tuple(choices),
        conclusion=conclusion,
    )


def seconds_of_steps(resolved: ResolvedTask, experiment: Experiment) -> float:
    """Estimate the seconds of one step of all runs, with its share of looks, from a few steps.

    One stack of each kind is timed.
    """
    planned = plan_ensembles(resolved, experiment.description["stack"])
    data = Resident(resolved.task, experiment.device)
    seconds, timed = 0.0, dict[str, float]()
    for stack in planned:
        if stack.model is None:  # another method
            continue
        if stack.kind not in timed:
            members = [
                Replica(name, resolved.injections.get(resolved.arms[name].spec, NOTHING), 0, fold)
                for _, name, _, fold in stack.runs
            ]
            program = Program(data, stack.model, members, resolved.schedule, eager=True)
            program.train(1).cpu()  # waits for a GPU
            began = time.perf_counter()
            program.train(TIMED).cpu()
            then = time.perf_counter()
            parts = torch.split(program.parts["valid"], AT_ONCE, dim=1)
            with torch.no_grad():
                program.evaluated(parts[0]).cpu()
            look = (time.perf_counter() - then) * len(parts) / resolved.schedule.every
            timed[stack.kind] = ((then - began) / TIMED + look) / len(members)
        seconds += timed[stack.kind] * len(stack.runs)
    return seconds / experiment.ranks


def divide_time(seconds: float, of_step: float, experiment: Experiment) -> tuple[int, int]:
    """Choose runs per fold and steps for a time, from the seconds of a step of one seed.

    Runs get the usual number of steps if there is time, but there is a run of each fold, or
    `LEAST_UNITS` runs of a single fold.
    """
    tasks = [entry.task for entry in experiment.resolved]
    epochs = [batch_and_steps(task, experiment.options.batch_size)[1] for task in tasks]
    usual = max(STEPS, EPOCHS * max(epochs))
    least = LEAST_UNITS if any(len(task.folds) == 1 for task in tasks) else 1
    available = SAFE * seconds / of_step  # steps of one seed
    seeds = min(max(int(available / usual), least), MOST_RUNS)
    return seeds, min(int(available / seeds), LONGER * usual)


def fit_into_minutes(experiment: Experiment, began: float, note: Note) -> Experiment:
    """Choose runs and steps for --minutes since `began`, and report them; without patience."""
    options, minutes = experiment.options, experiment.options.minutes or 0
    if experiment.ranks > 1:
        raise PefourierError("--minutes excludes ranks; use --plan, then --seeds and --steps")

    def of_steps(chosen: Experiment) -> float:
        return sum(seconds_of_steps(e, chosen) for e in chosen.resolved)

    each = of_steps(experiment) / options.seeds
    for _ in range(2):  # the second time with stacks of as many runs
        seeds, steps = divide_time(60 * minutes - time.monotonic() + began, each, experiment)
        if steps < LOOK:
            least = np.ceil(each * seeds * LOOK / SAFE / 6) / 10
            raise PefourierError(
                f"--minutes {minutes:g} is too short: {seeds} runs of each fold and encoding take "
                f"{max(steps, 0)} steps; allow {least:g} minutes or more, or "
                "use fewer encodings, --folds or --tokens"
            )
        given: Fields = {"minutes": None, "seeds": seeds, "steps": steps, "patience_steps": 0}
        options = replace(options, **given)
        resolved = [
            replace(
                entry,
                schedule=schedule_of(options, batch_and_steps(entry.task, options.batch_size)[1]),
                runs=plan_runs(entry.task, entry.arms, seeds),
            )
            for entry in experiment.resolved
        ]
        experiment = replace(experiment, options=options, resolved=resolved)
        each = of_steps(experiment) / seeds
    note(
        f"{agree(f'{seeds} runs')} of each fold and encoding, {steps} steps each, "
        f"about {each * seeds * steps / 60:.1f} min; --seeds {seeds} --steps {steps} "
        "--patience-steps 0 repeats them"
    )
    return experiment


def plan_page(plans: Sequence[DatasetPlan]) -> Page:
    """Page of `pefourier train --plan`."""
    runs = sum(plan.runs for plan in plans)
    first = f"NOTHING TRAINED. Runs that would be trained: {runs}."
    lines = [first, *(plan.conclusion for plan in plans)]
    return Page(
        "plan",
        words=lambda: tables_in_words(table for plan in plans for table in plan_tables(plan)),
        records=lambda: plans,
        rows=lambda: flattened(plain(plans)),
        conclusion=lambda: "\n".join(paragraph(printable(line)) for line in lines),
        together=lambda: first,
    )


def plan_tables(plan: DatasetPlan) -> list[tuple[str, list[list[str]]]]:
    """Titles and tables: windows of each class, and what --minutes would choose and detect."""
    body = [
        [f"{fold['fold']}", *(f"{sum(fold[p])} ({' / '.join(map(str, fold[p]))})" for p in PARTS)]
        for fold in plan.folds
    ]
    split = f"{plan.split}, leaky" if plan.leaky else plan.split
    sizes = f"windows of {plan.length} rows and {agree(f'{plan.channels} channels')}"
    title = f"{plan.dataset}: {sizes}, split {split}, of classes {' / '.join(plan.classes)}"
    detects = f"{plan.dataset}: runs of each fold and encoding in a time, and what they detect"
    choices = [[str(value or "none") for value in choice.values()] for choice in plan.minutes]
    return [
        (title, [["fold", *PARTS], *body]),
        (detects, [["--minutes", "runs", "steps", "difference in F1"], *choices]),
    ]
