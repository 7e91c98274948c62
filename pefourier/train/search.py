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
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any, get_args

import numpy as np

from pefourier.encodings.registry import convert
from pefourier.errors import PefourierError, shown, unknown
from pefourier.train import loop
from pefourier.train.beside import fit_method
from pefourier.train.data.split import Task
from pefourier.train.grid import Run, Stack, load_for, tokens_at_most
from pefourier.train.injection import ACTS, Injection, scale_to_rms
from pefourier.train.loop import Member, Outcome, Resident
from pefourier.train.metrics import cross_entropy, validation_score
from pefourier.train.model import OrderFree, Transformer
from pefourier.train.options import Options, Pool
from pefourier.train.pace import Tuning
from pefourier.train.progress import Reporter

KINDS = {"rate": float, "code_rate": float, "dropout": float, "weight_decay": float}
KINDS |= dict.fromkeys(("ffn", "layers", "d", "heads", "tokens"), int)
TUNED = tuple(f.name for f in fields(Tuning))
SEARCHED = (*KINDS, "pool")
MOST = 64  # candidates
NOTHING = Injection(ACTS[0], np.zeros((1, 1)), np.zeros(1, dtype=int), learn=False)


@dataclass(frozen=True)
class Choice:
    """One choice of settings."""

    values: Mapping[str, Any]  # of those that are chosen among
    tuning: Tuning


def list_candidates(options: Options) -> list[Choice]:
    """All choices that --search leaves; one without a choice where nothing is searched."""
    given = read_search(options.search)
    count = int(np.prod([len(values) for values in given.values()], dtype=object))
    if count > MOST:
        raise PefourierError(f"--search has {count} combinations; at most {MOST} are trained")
    plain = Tuning(options.rate, options.dropout, options.weight_decay, options.code_rate)
    found = []
    for chosen in product(*given.values()):
        values = dict(zip(given, chosen, strict=True))
        own = {key: value for key, value in values.items() if key in TUNED}
        found.append(Choice(values, replace(plain, **own)))
        loop.check_tuning(found[-1].tuning)
    return found


def read_search(texts: Sequence[str]) -> dict[str, list[Any]]:
    """The values of each setting, in the order given.

    >>> read_search(["rate=3e-4,1e-3 dropout=0,.2", "pool=mean,mean+max"])["dropout"]
    [0.0, 0.2]
    """
    found: dict[str, list[Any]] = {}
    for item in (item for text in texts for item in text.split()):
        name, equals, text = item.partition("=")
        key = name.replace("-", "_")
        if key not in SEARCHED:
            known = [one.replace("_", "-") for one in SEARCHED]
            raise unknown("setting of --search", name, known)
        if not equals or not all(text.split(",")):
            raise PefourierError(f"--search {shown(item)} lacks a value; give {name}=A,B")
        if key in found:
            raise PefourierError(f"--search: {name} is given twice; name it once")
        found[key] = [read_value(key, one) for one in text.split(",")]
        if len(set(found[key])) < len(found[key]):
            raise PefourierError(f"--search {shown(item)} has a value twice; name it once")
    return found


def read_value(key: str, text: str) -> Any:
    """A value of a setting."""
    if key == "pool":
        if text not in get_args(Pool):
            allowed = ", ".join(get_args(Pool))
            raise PefourierError(f"--search: pool must be one of {allowed}; got {shown(text)}")
        return text
    if key == "tokens" and text.isdecimal() and int(text) < 2:
        raise PefourierError(f"--search: tokens must be 2 or more; got {text}")
    return convert(f"--search {key.replace('_', '-')}", text, KINDS[key])


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
    own = stack.model
    if not isinstance(own, Transformer) or model_sizes(model) == model_sizes(own):
        return injections
    return {(spec, seed): load_for(model, spec, seed, learn) for spec, seed in injections}


def model_sizes(model: Transformer) -> tuple[int, int, int]:
    """The sizes that codes go by."""
    return model.tokens, model.d, model.heads


def list_shapes(
    model: Transformer | OrderFree, candidates: Sequence[Choice]
) -> list[tuple[Transformer | OrderFree, list[Choice]]]:
    """Classifiers of different shapes with the candidates that train each."""
    if isinstance(model, OrderFree):
        own = {one.tuning: one for one in reversed(candidates)}  # the first of equal ones
        return [(model, [one for one in candidates if own[one.tuning] is one])]
    found: list[tuple[Transformer | OrderFree, list[Choice]]] = []
    for one in candidates:
        shape = shape_for(model, one.values)
        same = next((own for other, own in found if other == shape), None)
        if same is None:
            found.append((shape, [one]))
        else:
            same.append(one)
    return found


def best_on_validation(task: Task, outcomes: Sequence[Outcome]) -> int:
    """Which of the outcomes of one run is best on its validation windows."""
    return max(range(len(outcomes)), key=lambda i: (*standing(task, outcomes[i]), -i))


def standing(task: Task, outcome: Outcome) -> tuple[float, float]:
    """How good an outcome is on validation: its score, and less its loss."""
    if not outcome.finite:
        return -1.0, -np.inf
    fold = task.folds[outcome.member.fold]
    labels = task.labels[fold.valid]
    loss = cross_entropy(outcome.valid, labels, loop.class_weights(task, fold))
    return validation_score(outcome.valid, labels), -loss


def settings_chosen(model: Transformer | OrderFree, one: Choice) -> dict[str, Any]:
    """What a candidate chooses for a classifier; the order-free one has no shape to choose."""
    shaped = isinstance(model, Transformer)
    return {key: value for key, value in one.values.items() if shaped or key in TUNED}


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
        settings = [settings_chosen(model, one) for one in own] * len(stack.runs)
        values = {id(m): one for m, one in zip(members, settings, strict=True)}
        for outcome in loop.fit(held, model, members, schedule, reporter.count_epoch):
            tried[outcome.member.number].append((outcome, values[id(outcome.member)]))
    best = []
    for every in tried:
        own_task = [outcome for outcome, _ in every]
        best.append(every[best_on_validation(stack.task, own_task)])
    return best


def fit_beside(stack: Stack) -> list[tuple[Outcome, Mapping[str, Any]]]:
    """What another method comes to in each run of a stack; it has no settings to choose."""
    found = []
    for number, run in enumerate(stack.runs):
        valid, test, seconds = fit_method(stack.model.name, stack.task, run.fold, run.seed)
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
