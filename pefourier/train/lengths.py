"""Length extrapolation: encodings trained at one length and tested at longer lengths.

Conventions
-----------
A built-in task is drawn again at each length. Inputs are scaled and the threshold is chosen as at
the training length, without further training; times are in the same unit. If an encoding cannot
supply vectors for longer windows, the result states why: trained vectors must all have been
trained, and added vectors must distinguish positions. If fixed vectors of the first positions
depend on the length, they may change.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from pefourier.errors import PefourierError
from pefourier.train.data.split import Task
from pefourier.train.ensembles import Ensemble, token_rate
from pefourier.train.fit import Outcome
from pefourier.train.injection import Injection, scale_to_rms
from pefourier.train.metrics import decide, score
from pefourier.train.model import Classifier, OrderFree
from pefourier.train.run_artifacts import threshold_of
from pefourier.train.saved_models import apply_classifier
from pefourier.train.store import MEASURES
from pefourier.types import Fields, Values
from pefourier.writing.text import agreeing


def score_lengths(
    stack: Ensemble, outcome: Outcome, tasks: Sequence[Task], load: Callable[..., Injection]
) -> list[Fields]:
    """Score a trained run at the lengths of tasks, or state why it has no scores.

    `load` returns the injection for a classifier, SPEC, seed and task.
    """
    fold, rows = stack.task.folds[outcome.member.fold], []
    for task in tasks:
        scores: Values = dict.fromkeys(MEASURES)
        try:
            if stack.model is None:
                raise PefourierError("it needs windows of the length used in training")
            longer, reason = replace(stack.model, length=task.length), ""
            injection = injection_at(stack, outcome, longer, task, load)
        except PefourierError as error:
            reason = str(error)
        else:
            x = (task.windows_at(np.arange(len(task.starts))) - fold.mean) / fold.scale
            logits = apply_classifier(longer, outcome.parameters, injection, x)
            predicted = decide(logits, threshold_of(stack.task, outcome))
            scores = score(predicted, logits, task.labels, macro=stack.task.positive is None)
        rows.append({"length": task.length, **scores, "reason": reason})
    return rows


def injection_at(
    stack: Ensemble,
    outcome: Outcome,
    model: Classifier,
    task: Task,
    load: Callable[..., Injection],
) -> Injection | None:
    """Return the injection of a run for a task of another length; reject a run that has none."""
    if isinstance(model, OrderFree):
        return None
    run, trained = stack.runs[outcome.member.number], replace(model, length=stack.task.length)
    rate = None if task.times is None else token_rate(trained, stack.task)
    longer = load(model, run.arm.spec, run.seed, task, rate)
    if run.arm.rms is not None:
        unscaled = load(trained, run.arm.spec, run.seed, stack.task)
        longer = scale_to_rms(longer, run.arm.rms, reference=unscaled)
    return lengthen(outcome, longer, model.tokens)


def lengthen(outcome: Outcome, longer: Injection, tokens: int) -> Injection:
    """Return the injection of a longer window, with trained vectors as trained."""
    injection = outcome.member.injection
    if longer.act == "add" and 1 < len(longer.vectors) < tokens:
        raise PefourierError(
            f"it has {len(longer.vectors)} distinct vectors for {tokens} tokens, so some share one"
        )
    if not injection.learn:
        return longer
    if injection.frequencies is not None and outcome.frequencies is not None:
        begun = injection if injection.act == "rotate" else longer
        return longer.rotated(outcome.frequencies - begun.frequencies)
    place = dict(zip(injection.index.tolist(), range(len(injection.index)), strict=True))
    trained = {injection.vectors[u].tobytes(): outcome.vectors[row] for u, row in place.items()}
    lacking = sum(vector.tobytes() not in trained for vector in longer.vectors)
    if lacking:
        raise PefourierError(
            f"{lacking} of its {len(longer.vectors)} vectors for {tokens} tokens "
            f"{agreeing(lacking, 'was', 'were')} never trained"
        )
    return replace(
        longer, vectors=np.stack([trained[vector.tobytes()] for vector in longer.vectors])
    )
