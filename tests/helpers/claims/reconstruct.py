"""Claims of `reconstruct` about a position, evaluated by double sums of Algorithm 1."""

import re

import numpy as np
from grids import table_on

from claims.spectrum import agrees, energy_of, grid_of, named, numbers, on_grid, short
from pefourier.encodings import load
from pefourier.questions.reconstruct import position_functions
from pefourier.questions.spectrum import spectrum


def draw(rng, number):
    """Draw inputs of `spectrum`, and unit vectors on a grid, on lattices.

    The facts are the function at the first point with and without smoothing, and the rows of the
    table on the lattice.
    """
    label, enc = MAKERS[number % len(MAKERS)](rng, number // len(MAKERS))
    options = {"sigma": rng.choice([None, None, 0, 1, 4]), "lattice": None}
    if rng.random() < 0.4:
        options["lattice"] = int(rng.choice([2, 7, 16, 64]))
    answer = position_functions(enc, **options)
    values, plain = (rebuilt(answer, sigma) for sigma in (answer.sigma, 0))
    facts = {"values": values, "plain": plain, "rows": rows_within(answer)}
    return f"{label} {options}", answer, facts


def units(rng, number):
    """Draw unit vectors, perhaps with noise, of the points of a grid."""
    sides = (int(rng.integers(2, 20)), 2)
    rows = np.eye(n := np.prod(sides)) + rng.choice([0, 1e-4, 0.01]) * rng.normal(size=(n, n))
    return f"units {sides}", table_on(sides, rows)


def pairs(rng, number):
    """Draw sines and cosines of few dimensions, whose peaks are wide or repeated."""
    length, d = int(rng.integers(20, 90)), int(rng.choice([2, 4, 8, 64]))
    return f"sinusoidal {length} {d}", load("sinusoidal", length, d)


MAKERS = [named, units, on_grid, short, pairs]


def rebuilt(answer, sigma):
    """Return the function at the first point: Eq. 15 and Algorithm 1 written out."""
    enc, sides = answer.encodings[0], answer.sides
    omega, shares, _ = energy_of(spectrum(enc))
    steps = omega * np.array(sides) / (2 * np.pi)
    if len(sides) == 1:
        steps = np.minimum(np.abs(steps), np.inf if sigma else sides[0] // 2)
    k = grid_of(sides)
    weights, reach = 0, int(12 * sigma / min(sides)) + 2
    for sign in (1, -1):
        along = 1
        for a, n in enumerate(sides):
            if len(sides) > 1:
                windings = n * np.arange(-reach, reach + 1)[:, None, None]
            else:  # only half of the line, which is mirrored
                windings = np.zeros((1, 1, 1))
                k = np.minimum(k, n - k)
            apart = k[:, a] - (sign if len(sides) > 1 else 1) * steps[:, a, None] + windings
            along = along * kernel(apart, sigma).sum(axis=0)
        weights = weights + shares @ along
    values = np.array([(np.cos(2 * np.pi * (k0 / sides) @ k.T) @ weights) for k0 in grid_of(sides)])
    return values.reshape(sides) / np.linalg.norm(values)


def kernel(apart, sigma):
    """Return a Gaussian or, without smoothing, the nearest point or two equally near points."""
    if sigma:
        return np.exp(-((apart / sigma) ** 2) / 2)
    size = np.abs(apart)
    return np.where(np.abs(size - 0.5) < 1e-8, 0.5, size < 0.5)


def rows_within(answer):
    """Return the rows of the table on the lattice, or all rows for lags."""
    enc = answer.encodings[0]
    rows = np.asarray(enc.table(), dtype=float).reshape(*enc.domain.sides, -1)
    if enc.domain.kind != "lag":
        rows = rows[tuple(map(slice, answer.sides))]
    return rows.reshape(-1, rows.shape[-1])


def distinct(rows, rounding=1e-12):
    """Return the number of rows that differ by more than rounding."""
    apart = np.abs(rows[:, None] - rows).max(axis=2) > rounding * max(1, np.abs(rows).max())
    return int((apart | ~np.tri(len(rows), k=-1, dtype=bool)).all(axis=1).sum())


def high(values):
    """Return which points reach half of the peak, with a margin for rounding."""
    return values >= values.flat[0] / 2 - 1e-12


def width_of(values):
    """Return the full width at half maximum of the peak at 0, by linear interpolation."""
    t = int(np.argmin(values >= values[0] / 2))
    return 2 * (t - 1 + (values[t - 1] - values[0] / 2) / (values[t - 1] - values[t]))


def keeps_positions_apart(c):
    return distinct(c.rows, 1e-15) == len(c.rows)


def is_lost(c):
    return high(c.values).all()


def is_repeated(c):
    """Another peak reaches half, and the farthest has its top at a row of the table."""
    values = c.plain if "before smoothing" in c.text else c.values
    half = np.append(high(values)[: len(values) // 2 + 1], False)
    runs = np.split(np.arange(len(half)), np.flatnonzero(half[1:] != half[:-1]) + 1)[2::2]
    ends = [run[-1] for run in runs if run[np.argmax(values[run])] < len(c.rows)]
    return max(ends) == numbers(c)[-1][0]


def is_shared(c):
    meaning = c.text
    count, few = (int(n) for n in re.findall(r"(\d+) \w+: (\d+)\.$", meaning)[0])
    between = distinct(c.rows) <= few <= distinct(c.rows, 0) if few > 1 else True
    return count == len(c.rows) and few < count and between


def is_smoothed_alone(c):
    smooth, total, plain = (int(n) for n, _ in numbers(c)[:3])
    counts = [high(values).sum() for values in (c.values, c.plain)]
    return [smooth, plain] == counts and plain > smooth and total == c.values.size


def is_sharp(c):
    """Points that reach half of the peak are farther away than any position."""
    peak, reached = c.values.flat[0], high(c.values)
    if not c.answer.on_grid:
        assert ("farther" in c.text) == (reached.sum() > 1)
        farthest = int(np.abs(c.answer.encodings[0].domain.x).max())
        reached = reached[: len(reached) // 2 + 1][: farthest + 1]
    alone = reached.sum() == 1 and keeps_positions_apart(c)
    return alone and agrees(numbers(c)[0], peak)


def is_blurred(c):
    wide, peak = numbers(c)[:2]
    is_wide = abs(wide[0] - width_of(c.values)) <= 0.06 * wide[0] and wide[0] > 1.4
    near = (np.append(high(c.values), False).argmin()) - 1  # the last sample of the peak
    said = re.search(r"up to (\d+) away", c.text)
    assert near == (int(said[1]) if said else 0)
    return is_wide and agrees(peak, c.values[0]) and keeps_positions_apart(c)


def is_blurred_point(c):
    peak, _, points, total = numbers(c)[:4]
    counted = (high(c.values).sum(), c.values.size) == (points[0], total[0])
    return counted and agrees(peak, c.values.flat[0]) and keeps_positions_apart(c)


def is_exact(c):
    return abs(c.values.flat[0] - 1) < 1e-10 and keeps_positions_apart(c)


def beyond(c):
    length, count = map(int, re.findall(r"\d+", c.text))
    enc = c.answer.encodings[0]
    outside = [
        any(x >= n for x, n in zip(np.atleast_1d(r.position), enc.domain.sides, strict=True))
        for r in c.answer.reconstructions
    ]
    return (length, count) == (len(enc), sum(outside))


VERDICTS = {
    "zero codes": lambda c: not c.answer.encodings[0].table().any(),
    "lost": is_lost,
    "repeated": is_repeated,
    "shared vectors": is_shared,
    "smoothing alone": is_smoothed_alone,
    "sharp": is_sharp,
    "blurred": is_blurred,
    "exact": is_exact,
    "sharp point": is_sharp,
    "blurred point": is_blurred_point,
}
FINDINGS = {
    "beyond-codes": beyond,
    "coarse-lattice": lambda c: c.answer.sigma * 8 > c.answer.points // 2 + 1,
}
WITHOUT = {"rotation-rebuilt": "a fact of the encoding"}
WITHOUT["before-training"] = "a fact of the registry"
