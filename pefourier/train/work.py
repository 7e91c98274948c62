"""Work of a rank: stacks are claimed, trained from checkpoints, scored, stored and sent.

After a crash, a stack with missing runs is trained again, from its checkpoint if there is one and
with the same members in the stack: resumed numbers equal those of an undisturbed run, bit for bit
on a CPU.

`--search` names values of settings; a candidate is a combination of values. Every run (arm, seed,
fold) trains all candidates on its training windows, as members of one stack, and keeps the best on
its validation windows by the rule that keeps weights (score, then lowest loss, then the first).
All arms therefore have the same budget, no run's choice depends on another run, and no test window
affects the choice.
"""

import json
import sys
import time
import zlib
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from pefourier.errors import PefourierError, shown
from pefourier.train import baselines, ensembles, lengths, request, run_artifacts, saved_models
from pefourier.train.compiling import Compiler, seconds_of_step
from pefourier.train.data.split import Task
from pefourier.train.device_data import Resident, batch_and_steps, put_on_device
from pefourier.train.ensembles import Ensemble, Experiment, ResolvedTask, Run
from pefourier.train.fit import Outcome, fit, score_and_loss
from pefourier.train.injection import NOTHING, Injection, scale_to_rms
from pefourier.train.metrics import count_confusions, decide, score, score_terms
from pefourier.train.model import Transformer
from pefourier.train.options import Options
from pefourier.train.program import AT_ONCE, Replica
from pefourier.train.progress import Note, Reporter, report_progress
from pefourier.train.ranks import Group, has_meeting_point, join_group, read_rank
from pefourier.train.store import FOLDER, Checkpoint, Key, check_handed_over, check_same, key_of
from pefourier.train.summary import Summary, summarize_runs
from pefourier.types import Fields
from pefourier.writing.files import remove_old_drafts

Rows = list[dict[str, Any]]  # of results.jsonl


def start_rank(options: Options, *, is_noted: bool) -> Summary | None:
    """Train as a rank that was started on this machine."""
    rank, ranks = read_rank()
    note = (lambda line: print(f"pefourier: {line}", file=sys.stderr)) if is_noted else None
    return train_rank(ensembles.resolve(options, rank, ranks), None if rank else note)


def train_rank(experiment: Experiment, note: Note | None) -> Summary | None:
    """Train the missing runs as one rank; the last rank to finish summarizes the results."""
    options, store, begun = experiment.options, experiment.store, time.time()
    say: Note = note or (lambda _: None)
    meets = has_meeting_point(experiment.ranks)
    meeting = join_group(experiment.rank, experiment.ranks) if meets else nullcontext()
    with meeting as group:
        config, done = agree_on_configuration(experiment, group)
        for line in experiment.remarks:
            say(line)
        planned = [
            e for r in experiment.resolved for e in ensembles.plan_ensembles(r, config["stack"])
        ]
        first, step = (0, 1) if meets else (experiment.rank, experiment.ranks)
        share = range(first, len(planned), step)  # of stacks, as known in advance
        unfinished = sum(not done.issuperset(planned[number].keys) for number in share)
        with report_progress(unfinished, note) as reporter:
            work = Work(experiment, group, planned, done, reporter)
            work.train_share(share)
        if options.save_models is not None:
            note_lost_models(options.save_models, planned, done, say)
        if options.resume and store.path is not None:
            folders = [store.path, *store.path.glob("*/")]
            remove_old_drafts([*folders, *filter(None, [options.save_models])], begun)
        rows = {key_of(row): row for row in (*work.rows, *store.rows())}
        if group is not None and experiment.rank:
            return None
        keys = experiment.keys
        if set(keys) - rows.keys():  # other ranks of a job array are still training
            count = experiment.ranks
            say(f"rank {experiment.rank} is done; the last of {count} ranks writes the summary")
            return None
        params = {r.task.name: ensembles.parameters(r) for r in experiment.resolved}
        return summarize_runs(
            [rows[key] for key in keys], params, ensembles.settings_in_common(experiment)
        )


def note_lost_models(folder: str, planned: Sequence[Ensemble], done: set[Key], say: Note) -> None:
    """Report how many previously finished runs have no model in the folder."""
    keys = {key for stack in planned if stack.model is not None for key in stack.keys}
    if lost := sum(not saved_models.file_of_model(folder, key).is_file() for key in keys & done):
        say(f"no model in {shown(folder)} for {lost} of the runs that finished before")


def agree_on_configuration(experiment: Experiment, group: Group | None) -> tuple[Fields, set[Key]]:
    """Return the configuration of all ranks, and the runs that were finished before."""
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


@dataclass(eq=False)
class Work:
    """The stacks of a comparison, and the results of this rank's share."""

    experiment: Experiment
    group: Group | None
    ensembles: Sequence[Ensemble]
    done: set[Key]  # runs that were finished before
    reporter: Reporter

    def __post_init__(self) -> None:
        self.options, self.store = self.experiment.options, self.experiment.store
        self.rows: Rows = []
        self.resident: Resident | None = None
        self.compiler = Compiler(self.options.compile, self.reporter.note or (lambda _: None))
        self.load = cache(partial(ensembles.load_for, learn=self.options.learn))
        lengths = request.parse_lengths(self.options.test_length)
        draw = partial(request.draw_longer, lengths=lengths, positions=self.options.positions)
        self.longer = {name: draw(name) for name in self.options.dataset}

    def train_share(self, share: Iterable[int]) -> None:
        """Train this rank's unfinished stacks in sequence."""
        group, count = self.group, len(self.ensembles)
        if group is None:
            for number in share:
                self.train(number)
            return
        take_over = partial(self.take_over, group)
        if group.rank == 0:
            self.reporter.after_look = take_over
        for number in group.claims(count):
            group.finish(number, *self.train(number))
        if group.rank == 0:
            group.wait_for_all(count, take_over)

    def take_over(self, group: Group) -> None:
        """Store results from other ranks, on rank 0."""
        for number, rows, traces in group.arrived(len(self.ensembles)):
            check_handed_over(rows, self.ensembles[number].keys)
            self.reporter.finished += bool(rows)
            self.put_away(rows, traces)

    def put_away(self, rows: Rows, traces: Sequence[bytes]) -> None:
        """Store rows and traces of runs."""
        if self.store.path is not None:
            for row, trace in zip(rows, traces, strict=True):
                run_artifacts.write_trace(self.store.path, key_of(row), trace)
        self.store.append(row for row in rows if key_of(row) not in self.done)
        self.rows += rows

    def train(self, number: int) -> tuple[Rows, list[bytes]]:
        """Train a stack unless it is finished, and store its results."""
        stack, folder = self.ensembles[number], self.store.path
        if self.done.issuperset(stack.keys):
            return [], []
        name = f"{zlib.crc32(repr(stack.keys).encode()):08x}.safetensors"
        checkpoint = Checkpoint(folder and folder / FOLDER / name)
        outcomes = self.fit_runs(stack, checkpoint)
        rows, traces = self.keep(stack, [outcome for outcome in outcomes if outcome.finite])
        checkpoint.drop()
        self.reporter.finished += 1
        lost = [outcome.member for outcome in outcomes if not outcome.finite]
        if lost:  # other runs of the stack are stored already
            raise PefourierError(
                f"{lost[0].encoding}, seed {lost[0].seed}, fold {lost[0].fold}: non-finite "
                "logits; its vectors may be too large: use SPEC@rms=SIZE to scale them"
            )
        return rows, traces

    def fit_runs(self, stack: Ensemble, checkpoint: Checkpoint) -> list[Outcome]:
        """Train the runs of a stack, and return each run's best candidate."""
        tunings: Sequence[request.Tuning | None] = [None]
        if stack.model is not None:
            tunings = self.experiment.candidates
        members = [
            Replica(run.arm.name, injection, run.seed, run.fold, tuning, number)
            for number, run in enumerate(stack.runs)
            for injection in [self.injection_of(stack.resolved, run)]
            for tuning in tunings
        ]
        if stack.model is None:
            method = stack.runs[0].arm.spec
            return [Outcome(m, *baselines.fit_method(method, stack.task, m.fold)) for m in members]
        if self.resident is None or self.resident.task is not stack.task:
            self.resident = put_on_device(stack.task, self.experiment.device)
        schedule, self.reporter.steps = stack.resolved.schedule, stack.resolved.schedule.steps
        progress = self.reporter.count_steps
        compiler = self.compiler if self.is_compiled(stack) else None
        resident = self.resident
        outcomes = fit(resident, stack.model, members, schedule, progress, checkpoint, compiler)
        rank = partial(rank_candidate, stack.task)
        candidates = groupby(outcomes, lambda outcome: outcome.member.number)
        return [max(of_run, key=rank) for _, of_run in candidates]

    def is_compiled(self, stack: Ensemble) -> bool:
        """Whether compiling the step of a stack, and of all equal stacks, is worthwhile."""
        if not isinstance(stack.model, Transformer):
            return False
        of_equal_cost = [
            one for one in self.ensembles if one.model is stack.model and one.acts == stack.acts
        ]
        batch, _ = batch_and_steps(stack.task, self.options.batch_size)
        runs = sum(len(one.runs) for one in of_equal_cost) * len(self.experiment.candidates)
        of_step = seconds_of_step(stack.model, batch, runs // len(of_equal_cost)) * len(
            of_equal_cost
        )
        seconds = of_step * stack.resolved.schedule.steps / self.experiment.ranks
        return self.compiler.pays(self.experiment.device, seconds)

    def injection_of(self, resolved: ResolvedTask, run: Run) -> Injection:
        """Return the injection of a run; the order-free baseline and other methods have none."""
        injection = resolved.injections.get(run.arm.spec, NOTHING)
        if run.seed and "seed" in injection.params:  # other seeds may have other vectors
            injection = self.load(resolved.model, run.arm.spec, run.seed, resolved.task)
        return injection if run.arm.rms is None else scale_to_rms(injection, run.arm.rms)

    def keep(self, stack: Ensemble, outcomes: Sequence[Outcome]) -> tuple[Rows, list[bytes]]:
        """Score and store the results of a stack, and save requested models."""
        task, folder, traces = stack.task, self.options.save_models, list[bytes]()
        rows = [row_of(stack, outcome, self.experiment) for outcome in outcomes]
        if longer := self.longer.get(task.name):
            for row, outcome in zip(rows, outcomes, strict=True):
                row["tested"] = lengths.score_lengths(stack, outcome, longer, self.load)
        if self.store.path is not None or self.group is not None:
            traces = [run_artifacts.trace_of(task, outcome) for outcome in outcomes]
        if folder is not None and stack.model is not None:
            for outcome in outcomes:
                saved_models.save_model(folder, task, outcome, stack.model)
        self.put_away(rows, traces)  # last: a run with a row is never trained again
        return rows, traces


def rank_candidate(task: Task, outcome: Outcome) -> tuple[float, float]:
    """Rank of a candidate on validation: its score, then minus its loss."""
    if not outcome.finite:
        return -1.0, -np.inf
    score, loss = score_and_loss(task, outcome.member.fold, outcome.valid)
    return score, -loss


def row_of(stack: Ensemble, outcome: Outcome, experiment: Experiment) -> Fields:
    """Return a line of results.jsonl."""
    member, task = outcome.member, stack.task
    searched = () if member.tuning is None else request.parse_search(experiment.options.search)
    labels = task.labels[task.folds[member.fold].test]
    predicted = decide(outcome.test, run_artifacts.threshold_of(task, outcome))
    confusion = count_confusions(predicted, labels, len(task.classes))
    return {
        "dataset": task.name,
        "encoding": member.encoding,
        "seed": member.seed,
        "fold": member.fold,
        **score(predicted, outcome.test, labels, macro=task.positive is None),
        "step": outcome.step,
        "seconds": round(outcome.seconds, 3),
        **ensembles.facts_of_fold(task, member.fold),
        "confusion": confusion.tolist(),
        "shortest": task.shortest,
        "uneven": task.uneven,
        "budget": stack.resolved.schedule.budget,
        "device": str(experiment.device),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "chosen": {name: getattr(member.tuning, name) for name in searched},
        "terms": terms_of(stack, outcome),
        "tested": [],
    }


def terms_of(stack: Ensemble, outcome: Outcome) -> list[list[float]]:
    """Shares of the four score terms on some test windows; [] unless vectors are added."""
    task, injection = stack.task, outcome.member.injection
    added = injection.act == "add" and injection.has_vectors and task.lengths is task.times is None
    if not isinstance(stack.model, Transformer) or not added:
        return []
    fold = task.folds[outcome.member.fold]
    windows = (task.windows_at(fold.test[:AT_ONCE]) - fold.mean) / fold.scale
    return score_terms(stack.model, outcome.parameters, outcome.vectors, windows)
