"""Tables are aligned in blocks of rows: the answer is that of the whole table."""

from dataclasses import replace

import numpy as np
import pytest

from pefourier.encodings import load
from pefourier.encodings.encoding import from_table
from pefourier.geometry import precision
from pefourier.questions.compare import compare

N, D = 70, 8
BLOCK = 9 * D  # numbers: seven blocks of nine rows and one of seven


def rotated(rng):
    return np.linalg.qr(rng.normal(size=(D, D)))[0]


CHANGES = {  # of a table, by what is said of it
    "columns": lambda table, rng: table[:, rng.permutation(D)] * rng.choice([-1.0, 1.0], D),
    "scale": lambda table, _: 2.5 * table,
    "offset": lambda table, _: np.vstack([table[6:], table[:6] + 1]),
    "zero_rows": lambda table, _: np.vstack([np.zeros((3, D)), table[:-3]]),
    "rows": lambda table, _: table[::-1],
    "offset_row": lambda table, rng: table + rng.normal(size=D),
    "rotation": lambda table, rng: table @ rotated(rng),
    "last row": lambda table, _: table + (np.arange(N) == N - 1)[:, None],
    "other": lambda table, rng: rng.normal(size=table.shape),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("spec", ["learned", "sinusoidal"])
def test_blocks_of_rows_answer_as_the_whole_table(name, spec, rng, monkeypatch):
    first = np.asarray(load(spec, N, D).table()) * (50 if spec == "learned" else 1)
    tables = from_table(first), from_table(CHANGES[name](first, rng))
    whole = compare(*tables)
    monkeypatch.setattr(precision, "NUMBERS_AT_ONCE", BLOCK)
    assert len([*precision.float_blocks(first)]) == 8
    parts = compare(*tables)
    assert parts.transform.keys() == whole.transform.keys()
    for key, value in whole.transform.items():
        is_text = isinstance(value, str)
        assert parts.transform[key] == (value if is_text else pytest.approx(value, rel=1e-9))
    assert parts.max_difference == pytest.approx(whole.max_difference, abs=1e-12)
    facts = {"transform": {}, "max_difference": 0.0}
    assert replace(parts, **facts).to_dict() == replace(whole, **facts).to_dict()
