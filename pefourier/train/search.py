"""Settings to choose among by validation, for each run anew: nested, and blind to what is tested.

Conventions
-----------
`--search` names values of several settings; a candidate is one of each. Every run (arm, seed, fold)
trains all candidates on its training windows and keeps the one that is best on its own validation
windows by the rule that keeps an epoch (score, then least loss; of equal ones the first). So every
arm has the same budget, no run's choice depends on another, and no test window has a say. Rate,
dropout and decay are members of one stack; the shape of the classifier makes a stack of its own.
The order-free baseline has no shape to choose, and trains each of its own candidates once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np

from pefourier.train import loop
from pefourier.train.asked import TUNED, Choice, Tuning
from pefourier.train.beside import fit_method
from pefourier.train.data.split import Task
from pefourier.train.grid import Run, Stack, load_for, tokens_at_most
from pefourier.train.injection import ACTS, Injection, scale_to_rms
from pefourier.train.loop import Member, Outcome, Resident
from pefourier.train.model import OrderFree, Transformer
from pefourier.train.options import Options
from pefourier.train.progress import Reporter

NOTHING = Injection(ACTS[0], np.zeros((1, 1)), np.zeros(1, dtype=int), learn=False)


def shape_for(model: Transformer | OrderFree, values: Mapping[str, Any]) -> Transformer | OrderFree:
    """The classifier under chosen settings; the order-free one has no shape to choose."""
    shape = {key: value for key, value in values.items() if key not in TUNED}
    if not isinstance(model, Transformer):
        return model
    if "tokens" in shape:
        shape |= tokens_at_most(model.length, shape.pop("tokens"))
    return replace(model, **shape)


def injections_for(
    model: Transformer | OrderFree,
    stack: Stack,
    injections: Mapping[tuple[str, int], Injection],
    learn: bool,
) -> Mapping[tuple[str, int], Injection]:
    """What each SPEC injects for each seed into a classifier of another size than the stack's."""
    own, sizes = stack.model, attrgetter("tokens", "d", "heads")
    if not isinstance(own, Transformer) or sizes(model) == sizes(own):
        return injections
    return {(spec, seed): load_for(model, spec, seed, learn) for spec, seed in injections}


def list_shapes(
    model: Transformer | OrderFree, candidates: Sequence[Choice]
) -> list[tuple[Transformer | OrderFree, list[Choice]]]:
    """Classifiers of different shapes with the candidates that train each."""
    found: dict[Transformer | OrderFree, list[Choice]] = {}
    for one in candidates:
        own = found.setdefault(shape_for(model, one.values), [])
        if isinstance(model, Transformer) or one.tuning not in [other.tuning for other in own]:
            own.append(one)
    return list(found.items())


def best_on_validation(task: Task, outcomes: Sequence[Outcome]) -> int:
    """Which of the outcomes of one run is best on its validation windows."""
    return max(range(len(outcomes)), key=lambda i: (*standing(task, outcomes[i]), -i))


def standing(task: Task, outcome: Outcome) -> tuple[float, float]:
    """How good an outcome is on validation: its score, and less its loss."""
    if not outcome.finite:
        return -1.0, -np.inf
    score, loss = loop.score_and_loss(task, outcome.member.fold, outcome.valid)
    return score, -loss


def train_candidates(
    held: Resident,
    stack: Stack,
    candidates: Sequence[Choice],
    injections: Mapping[tuple[str, int], Injection],
    options: Options,
    reporter: Reporter,
) -> list[tuple[Outcome, Mapping[str, Any]]]:
    """What each run of a stack came to, with the settings that its validation windows chose."""
    tried: list[list[tuple[Outcome, Mapping[str, Any]]]] = [[] for _ in stack.runs]
    schedule = stack.resolved.schedule
    for model, own in list_shapes(stack.model, candidates):
        injected = injections_for(model, stack, injections, options.learn)
        members = [
            member_of(run, injected, one.tuning, number)
            for number, run in enumerate(stack.runs)
            for one in own
        ]
        shaped = isinstance(model, Transformer)  # the order-free one has no shape to choose
        settings = [
            {key: value for key, value in one.values.items() if shaped or key in TUNED}
            for one in own
        ] * len(stack.runs)
        values = {id(m): one for m, one in zip(members, settings, strict=True)}
        for outcome in loop.fit(held, model, members, schedule, reporter.count_epoch):
            tried[outcome.member.number].append((outcome, values[id(outcome.member)]))
    best = []
    for every in tried:
        own_task = [outcome for outcome, _ in every]
        best.append(every[best_on_validation(stack.task, own_task)])
    return train_again(held, stack, best, reporter) if options.refit else best


def train_again(
    held: Resident,
    stack: Stack,
    best: Sequence[tuple[Outcome, Mapping[str, Any]]],
    reporter: Reporter,
) -> list[tuple[Outcome, Mapping[str, Any]]]:
    """Runs trained anew on training and validation windows, for the steps that they kept.

    Each run goes by what its own validation kept: validation windows of one fold are tested in
    another. Scales are those of training windows. Validation logits stay those of the first
    training, whose threshold nothing has seen.
    """
    batch = stack.resolved.schedule.batch_size
    every = [replace(f, train=np.concatenate([f.train, f.valid])) for f in stack.task.folds]
    task = replace(stack.task, folds=tuple(every))
    steps, more = (loop.batch_and_steps(one, batch)[1] for one in (stack.task, task))
    found, shapes = list(best), [shape_for(stack.model, settings) for _, settings in best]
    for shape in dict.fromkeys(shapes):
        own = {i: best[i][0] for i, one in enumerate(shapes) if one == shape and best[i][0].epoch}
        members = [
            replace(one.member, number=i, epochs=max(1, round(one.epoch * steps / more)))
            for i, one in own.items()
        ]
        if not members:
            continue
        schedule = replace(stack.resolved.schedule, epochs=max(m.epochs for m in members))
        data = replace(held, task=task)
        for again in loop.fit(data, shape, members, schedule, reporter.count_epoch):
            i, first = again.member.number, own[again.member.number]
            kept = {"member": first.member, "valid": first.valid, "epoch": first.epoch}
            kept |= {"curve": first.curve, "seconds": first.seconds + again.seconds}
            found[i] = replace(again, **kept), best[i][1]
    return found


def fit_beside(stack: Stack, refit: bool) -> list[tuple[Outcome, Mapping[str, Any]]]:
    """What another method comes to in each run of a stack; it has no settings to choose."""
    found = []
    for number, run in enumerate(stack.runs):
        valid, test, seconds = fit_method(stack.model.name, stack.task, run.fold, refit)
        member = Member(run.arm.name, NOTHING, run.seed, run.fold, number=number)
        curve = np.zeros((0, 3))
        found.append((Outcome(member, valid, test, 1, seconds, curve=curve), {}))
    return found


def member_of(
    run: Run, injections: Mapping[tuple[str, int], Injection], tuning: Tuning, number: int
) -> Member:
    """The member that a run trains; the order-free baseline has no codes."""
    one = injections.get((run.arm.spec, run.seed), NOTHING)
    one = one if run.arm.rms is None else scale_to_rms(one, run.arm.rms)
    return Member(run.arm.name, one, run.seed, run.fold, tuning, number)
