"""A rank at work: stacks are claimed, trained from their checkpoints, scored, stored, handed over.

A stack that lacks a run after a crash is trained again, from its checkpoint where there is one,
with the same members beside one another: so resumed numbers are those of an undisturbed run, bit
for bit on a CPU.
"""

import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import torch

from pefourier.errors import PefourierError
from pefourier.train import device_data, ensembles, fit, search
from pefourier.train.baselines import OtherMethod
from pefourier.train.ensembles import Ensemble, ResolvedTask
from pefourier.train.lengths import Longer
from pefourier.train.metrics import count_confusions, decide, score, score_terms
from pefourier.train.model import Transformer
from pefourier.train.options import Options
from pefourier.train.progress import Reporter
from pefourier.train.ranks import Group
from pefourier.train.request import draw_longer, list_candidates, parse_lengths
from pefourier.train.run_artifacts import trace_of, write_trace
from pefourier.train.saved_models import save_model
from pefourier.train.store import FOLDER, Checkpoint, Key, Store, check_handed_over, key_of


@dataclass(eq=False)
class Work:
    """Stacks and what has come of them."""

    options: Options
    device: torch.device
    store: Store
    group: Group | None
    ensembles: Sequence[Ensemble]
    share: Sequence[int]  # numbers of this rank's stacks, as far as they are known
    done: set[Key]  # runs that were finished before

    def __post_init__(self) -> None:
        self.candidates = list_candidates(self.options)
        self.rows: list[dict[str, Any]] = []
        self.device_data: device_data.Resident | None = None
        self.load = cache(ensembles.load_for)
        numbers, learn = parse_lengths(self.options.test_length), self.options.learn
        self.longer = {
            name: Longer(draw_longer(name, numbers), learn, self.load)
            for name in self.options.dataset
        }

    def train_share(self, reporter: Reporter) -> None:
        """Train this rank's stacks, one after another, except those that are finished."""
        numbers: Iterable[int] = self.share
        if self.group is not None:
            numbers = self.group.claims(len(self.ensembles))
        take_over: Callable[[], None] = partial(self.take_over, reporter)
        leads = self.group is not None and self.group.rank == 0
        if leads:
            reporter.after_look = take_over
        for number in numbers:
            self.train(number, reporter)
        if leads:
            self.group.wait_for_all(len(self.ensembles), take_over)

    def take_over(self, reporter: Reporter) -> None:
        """Store what other ranks have handed over, on rank 0."""
        for number, rows, traces in self.group.arrived(len(self.ensembles)):
            check_handed_over(rows, self.ensembles[number].keys)
            reporter.finished += bool(rows)
            self.put_away(rows, traces)

    def put_away(self, rows: Sequence[dict[str, Any]], traces: Sequence[bytes]) -> None:
        """Store rows, and what their runs left behind."""
        if self.store.path is not None:
            for row, trace in zip(rows, traces, strict=True):
                write_trace(self.store.path, key_of(row), trace)
        self.store.append(row for row in rows if key_of(row) not in self.done)
        self.rows += rows

    def train(self, number: int, reporter: Reporter) -> None:
        """Train a stack unless it is finished, and keep what comes of it."""
        stack = self.ensembles[number]
        rows, traces = [], []
        if not self.done.issuperset(stack.keys):
            checkpoint = self.checkpoint_of(stack)
            chosen = self.outcomes_of(stack, reporter, checkpoint)
            rows, traces = self.keep(stack, chosen)
            checkpoint.drop()
            reporter.finished += 1
            lost = [outcome.member for outcome, _ in chosen if not outcome.finite]
            if lost:  # those beside it are stored by now
                raise PefourierError(
                    f"{lost[0].encoding}, seed {lost[0].seed}, fold {lost[0].fold}: non-finite "
                    "logits; its codes may be too large: SPEC@rms=SIZE scales them"
                )
        if self.group is not None:
            self.group.finish(number, rows, traces)

    def checkpoint_of(self, stack: Ensemble) -> Checkpoint:
        """Where a stack goes on after an interruption."""
        if self.store.path is None or isinstance(stack.model, OtherMethod):
            return Checkpoint(None)
        name = f"{zlib.crc32(repr(stack.keys).encode()):08x}.safetensors"
        return Checkpoint(self.store.path / FOLDER / name)

    def outcomes_of(
        self, stack: Ensemble, reporter: Reporter, checkpoint: Checkpoint
    ) -> list[search.Chosen]:
        """What training made of the runs of a stack."""
        if isinstance(stack.model, OtherMethod):
            return search.fit_beside(stack)
        if self.device_data is None or self.device_data.task is not stack.task:
            self.device_data = device_data.put_on_device(stack.task, self.device)
        injections = ensembles.stack_injections(stack, self.options.learn, self.load)
        reporter.steps = stack.resolved.schedule.steps
        arguments = self.candidates, injections, reporter.count_steps, checkpoint
        return search.train_candidates(self.device_data, stack, *arguments)

    def keep(
        self, stack: Ensemble, chosen: Sequence[search.Chosen]
    ) -> tuple[list[dict[str, Any]], list[bytes]]:
        """Score and store what a stack came to, and save what is asked of it."""
        task, longer, options = stack.task, self.longer.get(stack.task.name), self.options
        finite = [pair for pair in chosen if pair[0].finite]
        rows = [row_of(stack.resolved, *pair, self.device) for pair in finite]
        for row, (outcome, _) in zip(rows, finite, strict=True):
            row["terms"] = terms_of(stack, outcome)
            row["tested"] = longer.test(stack, outcome, stack.model) if longer else []
        outcomes = [outcome for outcome, _ in finite]
        traces = [trace_of(task, o, key_of(row)) for row, o in zip(rows, outcomes, strict=True)]
        for outcome in outcomes:
            if options.save_models is not None and not isinstance(stack.model, OtherMethod):
                save_model(options.save_models, task, outcome, stack.model)
        self.put_away(rows, traces)  # last: a run with a row is not trained again
        return rows, traces


def row_of(
    resolved: ResolvedTask,
    outcome: fit.Outcome,
    settings: Mapping[str, Any],
    device: torch.device,
) -> dict[str, Any]:
    """A line of results.jsonl; `settings` are those that were chosen on validation."""
    member, task = outcome.member, resolved.task
    fold, macro = task.folds[member.fold], task.positive is None
    labels = task.labels[fold.test]
    predicted = decide(outcome.valid, task.labels[fold.valid], outcome.test, macro)
    confusion = count_confusions(predicted, labels, len(task.classes))
    return {
        "dataset": task.name,
        "encoding": member.encoding,
        "seed": member.seed,
        "fold": member.fold,
        **asdict(score(predicted, outcome.test, labels, macro)),
        "step": outcome.step,
        "seconds": round(outcome.seconds, 3),
        **ensembles.facts_of_fold(task, member.fold),
        "confusion": confusion.tolist(),
        "shortest": task.shortest,
        "uneven": task.uneven,
        "budget": resolved.schedule.budget,
        "device": str(device),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "chosen": dict(settings),
    }


def terms_of(stack: Ensemble, outcome: fit.Outcome) -> list[list[float]]:
    """Shares of the four terms of scores of some test windows; [] unless codes are added."""
    task, injection = stack.task, outcome.member.injection
    added = injection.act == "add" and injection.has_codes and task.lengths is None
    if not isinstance(stack.model, Transformer) or not added:
        return []
    fold = task.folds[outcome.member.fold]
    starts = task.starts[fold.test[: fit.AT_ONCE]]
    windows = (task.rows[starts[:, None] + np.arange(task.length)] - fold.mean) / fold.scale
    return score_terms(stack.model, outcome.parameters, outcome.codes, windows)
