"""Sentences of answers are true: predicates written from the sentences hold on drawn inputs.

The predicates are in `tests/helpers/claims`, one module for each question. They follow the words
of a verdict, a finding or an action, and plain NumPy evaluates them on the input.
"""

from collections import Counter
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

QUESTIONS = sorted(p.stem for p in (Path(__file__).parent / "helpers/claims").glob("[a-z]*.py"))
FEW, MANY = 40, 400
NOTHING = {}


def claims_of(question, seed, count):
    """Yield (label, sentence, code, kind, whether it is true) of the answers to drawn inputs."""
    module = import_module(f"claims.{question}")
    tables = [getattr(module, name, NOTHING) for name in ("VERDICTS", "FINDINGS", "ACTIONS")]
    verdicts, findings, actions = tables
    for label, answer, truth in module.draws(np.random.default_rng(seed), count):
        verdict = answer.verdict
        yield label, verdict, "verdict", holds(verdicts.get(verdict), answer, truth)
        if verdict in actions and action_of(answer):
            yield label, verdict, "action", holds(actions[verdict], answer, truth)
        for finding in answer.findings:
            predicate = findings.get(finding.code)
            yield label, finding.code, "finding", holds(predicate, finding, answer, truth)


def holds(predicate, *claim):
    """Return whether a predicate holds, or None without a predicate."""
    if predicate is None:
        return None
    try:
        return bool(predicate(*claim))
    except AssertionError as error:
        return str(error) or False


def action_of(answer):
    """Return the advice that an answer prints."""
    from pefourier.report.render import conclude

    return conclude(answer)[2]


def untrue(question, seed, count):
    """List untrue claims, and verdicts without a predicate."""
    module = import_module(f"claims.{question}")
    without, tally, false = getattr(module, "WITHOUT", NOTHING), Counter(), []
    for label, code, kind, is_true in claims_of(question, seed, count):
        tally[kind] += is_true is not None
        if is_true not in (None, True) or (
            is_true is None and kind == "verdict" and code not in without
        ):
            false.append((label, kind, code, is_true))
    assert tally["verdict"] > count // 2
    return false


@pytest.mark.parametrize("question", QUESTIONS)
def test_each_sentence_is_true(question):
    assert untrue(question, 0, FEW) == []


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1))
@pytest.mark.parametrize("question", QUESTIONS)
def test_each_sentence_is_true_of_many(question, seed):
    assert untrue(question, 1 + seed, MANY) == []


def test_reasons_are_given_for_sentences_without_a_predicate():
    for question in QUESTIONS:
        module = import_module(f"claims.{question}")
        covered = {*getattr(module, "VERDICTS", ()), *getattr(module, "FINDINGS", ())}
        assert covered.isdisjoint(getattr(module, "WITHOUT", ()))
