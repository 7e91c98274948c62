"""Predicates of sentences in answers, one module per question, for `tests/test_claims.py`.

A module has `draw(rng, number)`, which returns (label, answer, facts of the input), and the
dictionaries `VERDICTS`, `FINDINGS` and `ACTIONS`, which map a verdict or a finding's code to a
predicate written from the sentence: a function of a `Claim`. `WITHOUT` gives the reason for each
sentence without a predicate.
"""

import re
from contextlib import suppress
from functools import cached_property
from types import SimpleNamespace

import numpy as np

from pefourier.errors import PefourierError

DRAWN = {"spectrum", "reconstruct", "check-faithful", "relations"}  # commands of these modules
SAME = 1e-9  # of the rms length: closer rows are one row computed twice


class Claim(SimpleNamespace):
    """A sentence of an answer, as `text`, with its `code` and the facts as attributes."""

    def read(self, pattern):
        """Return the numbers in the groups of a pattern that the sentence contains."""
        return [float(number) for number in re.search(pattern, self.text).groups()]

    @cached_property
    def equal(self):
        """Which pairs of rows are equal, (n, n)."""
        table = self.table / (np.abs(self.table).max() or 1.0)
        away = np.linalg.norm(table[:, None] - table[None], axis=-1)
        return away <= SAME * (np.sqrt((table**2).sum() / len(table)) or 1.0)

    @cached_property
    def singular(self):
        """The singular values of the table."""
        return np.linalg.svd(self.table, compute_uv=False)

    @property
    def again(self):
        """The number of rows that equal an earlier row."""
        return np.tril(self.equal, -1).any(axis=1).sum()


def draws(question, rng, count):
    """Yield (label, answer, facts) of drawn inputs that are not refused."""
    number = 0
    while count:
        with suppress(PefourierError):
            label, answer, facts = question.draw(rng, number)
            count -= 1
            yield f"{number} {label}", answer, facts
        number += 1


def read_conclusion(result):
    """Return the record of an answer, whose conclusion begins with its verdict's whole words."""
    return assert_stated(result.to_dict(), result.verdicts)


def assert_stated(record, verdicts):
    """Fail unless the conclusion of a record begins with its verdict's whole words; return it."""
    name = verdicts[record["verdict"]].name(record["verdict"])
    stated = f"{name}. {record['meaning']} {record['action']}".rstrip()
    assert record["conclusion"].startswith(stated)
    assert not re.search(r"nan|None|inf\b|–|\[|\{", stated)
    return record
