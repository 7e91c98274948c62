"""A rank at work: stacks are claimed, trained from their checkpoints, scored, stored, handed over.

A stack that lacks a run after a crash is trained again, from its checkpoint where there is one,
with the same members beside one another: so resumed numbers are those of an undisturbed run, bit
for bit on a CPU.

`--search` names values of several settings; a candidate is one of each. Every run (arm, seed, fold)
trains all candidates on its training windows, as members of one stack, and keeps the one that is
best on its own validation windows by the rule that keeps weights (score, then least loss; of equal
ones the first). So every arm has the same budget, no run's choice depends on another, and no test
window has a say.
"""

import json
import sys
import time
import zlib
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pefourier.errors import PefourierError, shown
from pefourier.train import ensembles
from pefourier.train.data.split import Task
from pefourier.train.device_data import Resident, put_on_device
from pefourier.train.ensembles import (
    Ensemble,
    Experiment,
    ResolvedTask,
    Run,
    plan_ensembles,
    resolve,
    settings_in_common,
)
from pefourier.train.fit import AT_ONCE, Outcome, Replica, fit, score_and_loss
from pefourier.train.injection import ACTS, Injection, scale_to_rms
from pefourier.train.metrics import count_confusions, decide, score, score_terms
from pefourier.train.model import Transformer
from pefourier.train.options import Options
from pefourier.train.progress import Note, Reporter, report_progress
from pefourier.train.ranks import Group, has_meeting_point, join_group, read_rank
from pefourier.train.request import (
    Tuning,
    draw_longer,
    list_candidates,
    parse_lengths,
    parse_search,
)
from pefourier.train.store import FOLDER, Checkpoint, Key, check_handed_over, check_same, key_of
from pefourier.train.summary import Summary, summarize_runs
from pefourier.writing.files import remove_old_drafts

NOTHING = Injection(ACTS[0], np.zeros((1, 1)), np.zeros(1, dtype=int), learn=False)


def start_rank(options: Options, *, is_noted: bool) -> Summary | None:
    """Train as one of the ranks that this machine has started."""
    rank, ranks = read_rank()
    note = (lambda line: print(f"pefourier: {line}", file=sys.stderr)) if is_noted else None
    return train_rank(resolve(options, rank, ranks), None if rank else note)


def train_rank(experiment: Experiment, note: Note | None) -> Summary | None:
    """Train what the folder lacks as one rank; the last one that is done sums up."""
    options, store, begun = experiment.options, experiment.store, time.time()
    say: Note = note or (lambda _: None)
    meets = has_meeting_point(experiment.ranks)
    meeting = join_group(experiment.rank, experiment.ranks) if meets else nullcontext()
    with meeting as group:
        config, done = agree_on_configuration(experiment, group)
        for line in experiment.remarks:
            say(line)
        planned = [e for r in experiment.resolved for e in plan_ensembles(r, config["stack"])]
        work = Work(experiment, group, planned, done)
        with report_progress(work.count_unfinished(), note) as reporter:
            work.train_share(reporter)
        if lost := work.count_lost_models():
            folder = shown(options.save_models)
            say(f"no model in {folder} for {lost} of the runs that finished before")
        if options.resume and store.path is not None:
            folders = [store.path, *store.path.glob("*/")]
            remove_old_drafts([*folders, *filter(None, [options.save_models])], begun)
        rows = {key_of(row): row for row in (*work.rows, *store.rows())}
        if group is not None and experiment.rank:
            return None
        keys = experiment.keys
        if set(keys) - rows.keys():  # of other ranks of a job array, which are at work
            count = experiment.ranks
            say(f"rank {experiment.rank} is done; the last of {count} ranks sums up")
            return None
        params = {r.task.name: ensembles.parameters(r) for r in experiment.resolved}
        return summarize_runs([rows[key] for key in keys], params, settings_in_common(options))


def agree_on_configuration(
    experiment: Experiment, group: Group | None
) -> tuple[dict[str, Any], set[Key]]:
    """The configuration that holds for all ranks, and the runs that are finished before."""
    if group is not None and experiment.rank:
        plan = group.plan()
        check_same(Path(f"rank {experiment.rank}"), plan["config"], experiment.description)
        return plan["config"], set(map(tuple, plan["done"]))
    config = experiment.store.settle(experiment.description, resume=experiment.options.resume)
    rows = experiment.store.rows()
    ensembles.check_runs(rows, experiment.resolved)
    done = [key_of(row) for row in rows]
    if group is not None:
        group.publish({"config": json.loads(json.dumps(config)), "done": done})
    return config, set(done)


class Work:
    """The stacks of a comparison, a rank's share of them, and what has come of it."""

    def __init__(
        self,
        experiment: Experiment,
        group: Group | None,
        planned: Sequence[Ensemble],
        done: set[Key],  # runs that were finished before
    ) -> None:
        self.options, self.device = experiment.options, experiment.device
        self.store, self.group, self.ensembles, self.done = experiment.store, group, planned, done
        first, step = (0, 1) if group is not None else (experiment.rank, experiment.ranks)
        self.share = range(first, len(planned), step)  # numbers, as far as they are known
        self.rows: list[dict[str, Any]] = []
        self.resident: Resident | None = None
        self.load = cache(partial(ensembles.load_for, learn=self.options.learn))
        lengths = parse_lengths(self.options.test_length)
        self.longer = {name: draw_longer(name, lengths) for name in self.options.dataset}

    def count_unfinished(self) -> int:
        """How many stacks of this rank's share have runs to be trained."""
        return sum(not self.done.issuperset(self.ensembles[i].keys) for i in self.share)

    def count_lost_models(self) -> int:
        """How many runs that finished before have no model in the folder that is to hold them."""
        if (folder := self.options.save_models) is None:
            return 0
        from pefourier.train.saved_models import file_of_model

        keys = {key for e in self.ensembles if e.model is not None for key in e.keys}
        return sum(not file_of_model(folder, key).is_file() for key in keys & self.done)

    def train_share(self, reporter: Reporter) -> None:
        """Train this rank's stacks, one after another, except those that are finished."""
        if self.group is None:
            for number in self.share:
                self.train(number, reporter)
            return
        group = self.group
        take_over = partial(self.take_over, group, reporter)
        if group.rank == 0:
            reporter.after_look = take_over
        for number in group.claims(len(self.ensembles)):
            group.finish(number, *self.train(number, reporter))
        if group.rank == 0:
            group.wait_for_all(len(self.ensembles), take_over)

    def take_over(self, group: Group, reporter: Reporter) -> None:
        """Store what other ranks have handed over, on rank 0."""
        for number, rows, traces in group.arrived(len(self.ensembles)):
            check_handed_over(rows, self.ensembles[number].keys)
            reporter.finished += bool(rows)
            self.put_away(rows, traces)

    def put_away(self, rows: Sequence[dict[str, Any]], traces: Sequence[bytes]) -> None:
        """Store rows, and what their runs left behind."""
        if self.store.path is not None:
            from pefourier.train.run_artifacts import write_trace

            for row, trace in zip(rows, traces, strict=True):
                write_trace(self.store.path, key_of(row), trace)
        self.store.append(row for row in rows if key_of(row) not in self.done)
        self.rows += rows

    def train(self, number: int, reporter: Reporter) -> tuple[list[dict[str, Any]], list[bytes]]:
        """Train a stack unless it is finished, and keep what comes of it."""
        stack = self.ensembles[number]
        if self.done.issuperset(stack.keys):
            return [], []
        checkpoint = self.checkpoint_of(stack)
        outcomes = self.outcomes_of(stack, reporter, checkpoint)
        rows, traces = self.keep(stack, [outcome for outcome in outcomes if outcome.finite])
        checkpoint.drop()
        reporter.finished += 1
        lost = [outcome.member for outcome in outcomes if not outcome.finite]
        if lost:  # those beside it are stored by now
            raise PefourierError(
                f"{lost[0].encoding}, seed {lost[0].seed}, fold {lost[0].fold}: non-finite "
                "logits; its codes may be too large: SPEC@rms=SIZE scales them"
            )
        return rows, traces

    def checkpoint_of(self, stack: Ensemble) -> Checkpoint:
        """Where a stack goes on after an interruption."""
        if self.store.path is None or stack.model is None:
            return Checkpoint(None)
        name = f"{zlib.crc32(repr(stack.keys).encode()):08x}.safetensors"
        return Checkpoint(self.store.path / FOLDER / name)

    def outcomes_of(
        self, stack: Ensemble, reporter: Reporter, checkpoint: Checkpoint
    ) -> list[Outcome]:
        """What training made of the runs of a stack."""
        if stack.model is None:
            return fit_other_method(stack)
        if self.resident is None or self.resident.task is not stack.task:
            self.resident = put_on_device(stack.task, self.device)
        injections = ensembles.stack_injections(stack, self.load)
        schedule = stack.resolved.schedule
        reporter.steps = schedule.steps
        members = [
            member_of(run, injections, tuning, number)
            for number, run in enumerate(stack.runs)
            for tuning in list_candidates(self.options)
        ]
        progress = reporter.count_steps
        outcomes = fit(self.resident, stack.model, members, schedule, progress, checkpoint)
        tried = (tuple(of_run) for _, of_run in groupby(outcomes, lambda o: o.member.number))
        return [best_candidate(stack.task, of_run) for of_run in tried]

    def keep(
        self, stack: Ensemble, outcomes: Sequence[Outcome]
    ) -> tuple[list[dict[str, Any]], list[bytes]]:
        """Score and store what a stack came to, and save what is asked of it."""
        task, model, folder = stack.task, stack.model, self.options.save_models
        rows, traces = [], list[bytes]()
        for outcome in outcomes:
            row = row_of(stack.resolved, outcome, self.device)
            searched = parse_search(self.options.search) if model is not None else ()
            row["chosen"] = {name: getattr(outcome.member.tuning, name) for name in searched}
            row["terms"], row["tested"] = terms_of(stack, outcome), []
            if longer := self.longer.get(task.name):
                from pefourier.train.lengths import Longer

                row["tested"] = Longer(longer, self.load).test(stack, outcome)
            rows.append(row)
        if self.store.path is not None or self.group is not None:
            from pefourier.train.run_artifacts import trace_of

            traces = [trace_of(task, outcome) for outcome in outcomes]
        if folder is not None and model is not None:
            from pefourier.train.saved_models import save_model

            for outcome in outcomes:
                save_model(folder, task, outcome, model)
        self.put_away(rows, traces)  # last: a run with a row is not trained again
        return rows, traces


def fit_other_method(stack: Ensemble) -> list[Outcome]:
    """What another method comes to in each run of a stack; it has no settings to choose."""
    from pefourier.train.baselines import fit_method

    outcomes = []
    for number, run in enumerate(stack.runs):
        valid, test, seconds = fit_method(run.arm.spec, stack.task, run.fold)
        member = Replica(run.arm.name, NOTHING, run.seed, run.fold, number=number)
        outcomes.append(Outcome(member, valid, test, 1, seconds))
    return outcomes


def member_of(
    run: Run, injections: Mapping[tuple[str, int], Injection], tuning: Tuning, number: int
) -> Replica:
    """The member that a run trains; the order-free baseline has no codes."""
    injection = injections.get((run.arm.spec, run.seed), NOTHING)
    injection = injection if run.arm.rms is None else scale_to_rms(injection, run.arm.rms)
    return Replica(run.arm.name, injection, run.seed, run.fold, tuning, number)


def best_candidate(task: Task, tried: Sequence[Outcome]) -> Outcome:
    """The candidate with the highest score on validation, then the least loss; else the first."""

    def rank(outcome: Outcome) -> tuple[float, float]:
        if not outcome.finite:
            return -1.0, -np.inf
        score, loss = score_and_loss(task, outcome.member.fold, outcome.valid)
        return score, -loss

    return max(tried, key=rank)


def row_of(resolved: ResolvedTask, outcome: Outcome, device: torch.device) -> dict[str, Any]:
    """A line of results.jsonl."""
    member, task = outcome.member, resolved.task
    fold, macro = task.folds[member.fold], task.positive is None
    labels = task.labels[fold.test]
    predicted = decide(outcome.valid, task.labels[fold.valid], outcome.test, macro=macro)
    confusion = count_confusions(predicted, labels, len(task.classes))
    return {
        "dataset": task.name,
        "encoding": member.encoding,
        "seed": member.seed,
        "fold": member.fold,
        **asdict(score(predicted, outcome.test, labels, macro=macro)),
        "step": outcome.step,
        "seconds": round(outcome.seconds, 3),
        **ensembles.facts_of_fold(task, member.fold),
        "confusion": confusion.tolist(),
        "shortest": task.shortest,
        "uneven": task.uneven,
        "budget": resolved.schedule.budget,
        "device": str(device),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def terms_of(stack: Ensemble, outcome: Outcome) -> list[list[float]]:
    """Shares of the four terms of scores of some test windows; [] unless codes are added."""
    task, injection = stack.task, outcome.member.injection
    added = injection.act == "add" and injection.has_codes and task.lengths is None
    if not isinstance(stack.model, Transformer) or not added:
        return []
    fold = task.folds[outcome.member.fold]
    starts = task.starts[fold.test[:AT_ONCE]]
    windows = (task.rows[starts[:, None] + np.arange(task.length)] - fold.mean) / fold.scale
    return score_terms(stack.model, outcome.parameters, outcome.codes, windows)
