"""Settings to choose among by validation, for each run anew: nested, and blind to what is tested.

Conventions
-----------
`--search` names values of several settings; a candidate is one of each. Every run (arm, seed, fold)
trains all candidates on its training windows and keeps the one that is best on its own validation
windows by the rule that keeps weights (score, then least loss; of equal ones the first). So every
arm has the same budget, no run's choice depends on another, and no test window has a say.
Candidates of a run are members of one stack.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pefourier.train.baselines import fit_method
from pefourier.train.data.split import Task
from pefourier.train.ensembles import Ensemble, Run
from pefourier.train.fit import Outcome, Progress, Replica, Resident, fit, score_and_loss
from pefourier.train.injection import ACTS, Injection, scale_to_rms
from pefourier.train.request import Choice, Tuning
from pefourier.train.store import Checkpoint

NOTHING = Injection(ACTS[0], np.zeros((1, 1)), np.zeros(1, dtype=int), learn=False)
Chosen = tuple[Outcome, Mapping[str, Any]]  # a run's best candidate, and its settings


def standing(task: Task, outcome: Outcome) -> tuple[float, float]:
    """How good an outcome is on validation: its score, and less its loss."""
    if not outcome.finite:
        return -1.0, -np.inf
    score, loss = score_and_loss(task, outcome.member.fold, outcome.valid)
    return score, -loss


def train_candidates(
    data: Resident,
    stack: Ensemble,
    candidates: Sequence[Choice],
    injections: Mapping[tuple[str, int], Injection],
    progress: Progress,
    checkpoint: Checkpoint,
) -> list[Chosen]:
    """The best candidate of each run of a stack, with its settings."""
    pairs = [(number, run, pick) for number, run in enumerate(stack.runs) for pick in candidates]
    members = [member_of(run, injections, pick.tuning, number) for number, run, pick in pairs]
    schedule = stack.resolved.schedule
    outcomes = fit(data, stack.model, members, schedule, progress, checkpoint)
    tried: list[list[Chosen]] = [[] for _ in stack.runs]
    for (number, _, pick), outcome in zip(pairs, outcomes, strict=True):
        tried[number].append((outcome, pick.values))
    return [max(of_run, key=lambda pair: standing(stack.task, pair[0])) for of_run in tried]


def fit_beside(stack: Ensemble) -> list[Chosen]:
    """What another method comes to in each run of a stack; it has no settings to choose."""
    chosen = []
    for number, run in enumerate(stack.runs):
        valid, test, seconds = fit_method(stack.model.name, stack.task, run.fold)
        member = Replica(run.arm.name, NOTHING, run.seed, run.fold, number=number)
        chosen.append((Outcome(member, valid, test, 1, seconds, curve=np.zeros((0, 3))), {}))
    return chosen


def member_of(
    run: Run, injections: Mapping[tuple[str, int], Injection], tuning: Tuning, number: int
) -> Replica:
    """The member that a run trains; the order-free baseline has no codes."""
    injection = injections.get((run.arm.spec, run.seed), NOTHING)
    injection = injection if run.arm.rms is None else scale_to_rms(injection, run.arm.rms)
    return Replica(run.arm.name, injection, run.seed, run.fold, tuning, number)
