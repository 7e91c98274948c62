"""Sentences of answers are true: predicates written from the sentences hold on drawn inputs.

The predicates are in `tests/helpers/claims`, one module for each question. They follow the words
of a verdict, a finding or an action, and plain NumPy evaluates them on the input.
"""

from collections import Counter
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from claims import Claim, draws, read_conclusion

from pefourier.report.terms import verdicts_by_command

QUESTIONS = sorted(p.stem for p in (Path(__file__).parent / "helpers/claims").glob("[a-z]*.py"))
CASES = [(question, 0, 40) for question in QUESTIONS]
CASES += [pytest.param(question, 1, 400, marks=pytest.mark.long) for question in QUESTIONS]


def claims_of(module, answers):
    """Yield (kind, predicate, label, claim) of the answers to drawn inputs."""
    for label, answer, facts in answers:
        record = read_conclusion(answer)
        texts = [("VERDICTS", answer.verdict, record["meaning"])]
        action = record["action"]  # what to run next is followed in another test
        texts += [("ACTIONS", answer.verdict, action)] if action and action[:4] != "Run " else []
        texts += [("FINDINGS", finding.code, finding.message) for finding in answer.findings]
        for kind, code, text in texts:
            predicate = getattr(module, kind, {}).get(code)
            yield kind, predicate, label, Claim(answer=answer, code=code, text=text, **facts)


def holds(predicate, claim):
    """Return whether a predicate holds, or the reason why not."""
    try:
        return bool(predicate(claim))
    except AssertionError as error:
        return str(error)


@pytest.mark.parametrize(("question", "seed", "count"), CASES)
def test_each_sentence_is_true(question, seed, count):
    """Each sentence with a predicate is true, and each verdict is reached and has a predicate."""
    module, tally, false = import_module(f"claims.{question}"), Counter(), []
    without = getattr(module, "WITHOUT", {})
    assert without.keys().isdisjoint(module.VERDICTS | getattr(module, "FINDINGS", {}))
    answers = [*draws(module, np.random.default_rng(seed), count)]
    for kind, predicate, label, claim in claims_of(module, answers):
        tally[kind] += predicate is not None
        if predicate and (found := holds(predicate, claim)) is not True:
            false.append((label, claim.code, claim.text, found))
        if not predicate and kind == "VERDICTS" and claim.code not in without:
            false.append((label, claim.code, claim.text, "no predicate"))
    assert false == []
    assert tally["VERDICTS"] > count // 2
    reached = {(answer.command, answer.verdict) for _, answer, _ in answers}
    words = {(name, verdict) for name, of in verdicts_by_command() for verdict in of}
    lacking = {one for one in words - reached if one[0] == answers[0][1].command}
    assert question == "findings" or not lacking
