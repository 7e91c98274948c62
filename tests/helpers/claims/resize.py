"""Claims of `resize` about vectors on another grid."""

import re

import numpy as np
from grids import table_on

from pefourier.encodings import load
from pefourier.geometry.interpolation import METHODS, why_not
from pefourier.questions.resize import resize_table


def draws(rng, count):
    for i in range(count):
        old, new = (tuple(map(int, rng.integers(2, 8, 2))) for _ in range(2))
        method = str(rng.choice([m for m in METHODS if not why_not(m, old, new)]))
        if i % 5 == 4:
            spec = str(rng.choice(["axial:convention=mae", "axial-rope:convention=dinov3"]))
            one, other = (load(spec, None, 64, grid=sides) for sides in (old, new))
            made = resize_table(one, new, formula=other)
            yield f"{spec} {old} {new}", made, (one.table(), old, new)
            continue
        rows = np.round(rng.normal(size=(np.prod(old), rng.integers(1, 6))), rng.integers(0, 4))
        kind = rng.integers(6)
        if kind > 2:
            rows[rng.integers(len(rows))] = rows[0]  # perhaps replaced by itself
        elif kind == 2:  # two rows of the grid with equal means, and five more
            left, apart = rng.normal(size=(2, 1, 3)), rng.normal(size=(7, 1))
            rows = np.stack([left[0] + apart, left[1] - apart], axis=1).reshape(-1, 3)
            rows[4:] = rng.normal(size=(10, 3))
            old, new, method = (7, 2), (7, 1), "bilinear"
        elif kind == 0:
            rows = rows[np.arange(len(rows)) // old[1] * old[1]]  # only the row of the grid matters
        elif kind == 1:
            rows = 0.0 * rows
        made = resize_table(table_on(old, rows), new, method)
        yield f"{kind} {old} {new} {method}", made, (rows, old, new)


def count_distinct(table):
    """Return the number of rows that differ by more than rounding from all others."""
    apart = np.linalg.norm(table[:, None] - table, axis=-1) > 1e-12 * np.abs(table).max()
    return int((np.tril(~apart, -1).sum(axis=1) == 0).sum())


def counts(answer, truth):
    rows, old, new = truth
    before, after = count_distinct(rows), count_distinct(answer.table)
    assert (answer.before.distinct, answer.after.distinct) == (before, after)
    return before == np.prod(old), after == np.prod(new)


def same(picture, table):
    """Return whether the two named points have one vector."""
    ends = re.findall(r"\((\d+),(\d+)\)", picture.collision)
    first, second = (table.reshape(*picture.grid, -1)[int(y), int(x)] for y, x in ends)
    return ends[0] != ends[1] and np.abs(first - second).max() <= 1e-12 * np.abs(table).max()


def unrotated(answer, truth):
    norms = [np.sqrt((t**2).sum(axis=1).mean()) for t in (answer.table, truth[0])]
    stated = [answer.after.norm, answer.before.norm]
    return counts(answer, truth) == (True, True) and np.allclose(stated, norms)


def no_longer(answer, truth):
    return counts(answer, truth) == (True, False) and same(answer.after, answer.table)


def now(answer, truth):
    return counts(answer, truth) == (False, True) and same(answer.before, truth[0])


def never(answer, truth):
    both = same(answer.before, truth[0]) and same(answer.after, answer.table)
    return counts(answer, truth) == (False, False) and both


def by_formula(answer, truth):
    expected = load(answer.encodings[0].spec, None, 64, grid=truth[2]).table()
    return np.array_equal(answer.table, expected) and counts(answer, truth) is not None


def unseen_phases(finding, answer, truth):
    """The count is right for `axial` in MAE's layout, with 16 pairs an axis and integer places."""
    axis = "yx".index(re.search(r"along (\w)", finding.message)[1])
    old, new = truth[1][axis] - 1, truth[2][axis] - 1
    omega = 1e4 ** (-np.arange(16) / 16)
    beyond = (omega * old < 2 * np.pi) & (omega * new > omega * (old + 1) * (1 + 1e-9))
    return finding.message.startswith(f"{beyond.sum()} of 16 pairs")


VERDICTS = {
    "all zero": lambda r, truth: not truth[0].any() and not r.table.any(),
    "still distinct": unrotated,
    "no longer distinct": no_longer,
    "now distinct": now,
    "not distinct": never,
    "computed anew": by_formula,
}
FINDINGS = {"unseen-phases": unseen_phases}
WITHOUT = {
    "resized-by": "a fact about source code elsewhere",
    "unseen-coordinates": "its numbers are in test_resize",
    "neighbours-elsewhere": "its numbers are in test_grid_readings",
}
