"""Claims of `check-faithful` about drawn encodings, tables, grids and biases, by plain NumPy."""

import re

import numpy as np
from grids import table_on
from sinusoids import pairs

from claims import SAME, Claim
from pefourier.encodings import load
from pefourier.encodings.encoding import from_bias, from_table, without_prefix
from pefourier.encodings.registry import BUILDERS
from pefourier.questions.check_faithful import check_faithful

LINES = sorted({*BUILDERS} - {"swin", "swin2", "beit"})
ON_GRID = ["axial", "axial-rope", "mixed-rope", "swin", "fourier-features", "dft"]


def formula(rng):
    """Draw an encoding by name; lengths lie around its dimension, where verdicts change."""
    name, d = str(rng.choice(LINES)), 2 * int(rng.integers(2, 17))
    length = int(rng.choice([1, 2, d - 1, d, d + 1, 2 * d + 1, rng.integers(3, 60)]))
    return name, load(name, length, d)


def on_grid(rng):
    name, sides = str(rng.choice(ON_GRID)), tuple(rng.integers(2, 8, 2).tolist())
    return name, load(name, None, 8 * int(rng.integers(1, 5)), grid=sides)


def bias(rng):
    """Draw biases of one number for each head and lag: free, symmetric, clipped or masked."""
    n, heads = int(rng.integers(3, 20)), int(rng.integers(2, 6))
    lag = np.arange(n) - np.arange(n)[:, None]
    profile = rng.normal(size=(heads, 2 * n - 1))
    kind = str(rng.choice(["free", "symmetric", "clipped", "clipped and symmetric", "causal"]))
    if "symmetric" in kind:
        profile = profile + profile[:, ::-1]
    if "clipped" in kind:
        lag = np.clip(lag, -n // 2, n // 2)
    numbers = profile[:, lag + n - 1]
    if kind == "causal":
        numbers = np.where(np.tri(n, dtype=bool), numbers, -np.inf)
    return f"bias {kind}", from_bias(numbers)


def changed_table(rng):
    """Draw free rows with one change, at and around the threshold of a verdict."""
    table = rng.normal(size=rng.integers(2, 40, 2))
    kind = str(rng.choice(list(CHANGES)))
    return kind, from_table(CHANGES[kind](rng, table))


def repeat_a_row(rng, table):
    i, j = rng.choice(len(table), 2, replace=False)
    table[i] = table[j]
    return table


def orthogonal(rng, table, noise=0.0):
    n = max(table.shape)
    q = np.linalg.qr(rng.normal(size=(n, n)))[0][: len(table)]
    return q * (1 + noise * rng.uniform(0, 1, (len(q), 1)))


CHANGES = {
    "free": lambda rng, table: table,
    "a row twice": repeat_a_row,
    "periodic": lambda rng, table: np.tile(table[: max(1, len(table) // 3)], (3, 1)),
    "low rank": lambda rng, table: table[:, :1] @ table[:1] + table[:, 1:2] @ table[-1:],
    "orthogonal": orthogonal,
    "nearly orthogonal": lambda rng, table: orthogonal(rng, table, 10.0 ** rng.integers(-5, 0)),
    "constant": lambda rng, table: np.repeat(table[:1], len(table), 0),
    "noise": lambda rng, table: 1 + 10.0 ** rng.choice([-8, -7, -5]) * table / 10,
    "zeros": lambda rng, table: 0 * table,
    "clipped": lambda rng, table: table[np.minimum(np.arange(len(table)), len(table) // 2)],
    "one row": lambda rng, table: table[:1],
    "sorted": lambda rng, table: np.sort(table[:, :1], axis=0),
}


def waves(position, omega):
    """Return sines, then cosines, of positions."""
    return pairs(np.outer(position, omega))


def grid_table(rng):
    """Draw a table of grid points: of one axis, of both, NeRF's, or free."""
    h, w = rng.integers(2, 9, 2).tolist()
    y, x = np.indices((h, w)).reshape(2, -1)
    omega, octaves = 100.0 ** (-np.arange(4) / 4), np.pi * 2.0 ** np.arange(4)
    across = [2 * axis / max(side - 1, 1) - 1 for axis, side in ((y, h), (x, w))]
    tables = {
        "y alone": waves(y, omega),
        "both": np.hstack([waves(y, omega), waves(x, omega)]),
        "nerf": np.hstack([waves(axis, octaves) for axis in across]),
        "diagonal": waves(y + np.sqrt(2) * x, omega),
        "free": rng.normal(size=(h * w, 6)),
        "the row index": waves(np.arange(h * w), omega),
    }
    kind = str(rng.choice(list(tables)))
    return f"grid {kind}", table_on((h, w), tables[kind])


DRAWN = [formula, formula, on_grid, bias, changed_table, changed_table, grid_table]


def facts_of(enc):
    """Return an encoding and its table without rows before the grid."""
    rows = without_prefix(enc)
    return {"enc": rows, "table": np.asarray(rows.table(), dtype=float)}


def draw(rng, number):
    label, enc = DRAWN[number % len(DRAWN)](rng)
    return label, check_faithful(enc), facts_of(enc)


def rank_of(table):
    return np.linalg.matrix_rank(table / (np.abs(table).max() or 1.0), tol=None)


def counts_of(c):
    """Return the whole numbers of the sentence."""
    return list(map(int, re.findall(r"(?<![\d.e-])\d+(?![\d.e])", c.text)))


def counts_hold(c):
    """Return whether the first numbers are those of rows and of distinct rows."""
    return counts_of(c)[:2] == [len(c.table), len(c.table) - c.again]


def some_share(c):
    i, j = (list(c.enc.domain.x).index(x) for x in c.answer.closest_pair)
    return counts_hold(c) and c.equal[i, j] and c.again > 0


def all_differ(c):
    n = len(c.table)
    if n == 1:
        return "single" in c.text
    return counts_of(c)[0] == n == len(np.unique(c.table, axis=0))


def spans_less(c):
    span = re.search(r"span (?:only )?(\d+) of (\d+)|$", c.text).groups(0)
    rank, dim = int(span[0]) or c.answer.rank, int(span[1])
    assert dim in (0, c.table.shape[1])
    near = (
        np.abs(np.log10(c.singular / (c.singular.max() or 1) + 1e-300) + 14) < 2.5
    )  # may be rounding
    assert abs(rank - rank_of(c.table)) <= near.sum()
    return all_differ(c) and rank < len(c.table)


def coordinates_read(c):
    """Each coordinate is a linear function of the vector, but some grid point is not."""
    places = c.enc.domain.coordinates(c.enc.domain.x)
    marks = [np.eye(n)[axis] for axis, n in zip(places.T, c.enc.domain.sides, strict=True)]
    marks = np.hstack(marks)
    left = marks - c.table @ np.linalg.lstsq(c.table, marks, rcond=1e-10)[0]
    assert np.abs(left).max() < 1e-5
    return all_differ(c) and rank_of(c.table) < len(c.table)


def amplifies(c):
    (printed,) = c.read(r"up to ([\d.e+]+)")
    condition = c.singular[0] / c.singular[len(c.table) - 1]
    return all_differ(c) and printed > 1 and abs(printed / condition - 1) < 6e-3


def amplifies_nothing(c):
    values = c.singular[: len(c.table)]
    return all_differ(c) and values[0] - values[-1] <= 1e-12 * values[0] * len(values)


def all_near_the_first(c):
    first = c.table[0]
    return np.linalg.norm(c.table - first, axis=1).max() <= 1e-6 * np.linalg.norm(first)


def fewer_are_distinct(c):
    """The stated number of positions, or the lags between them, are distinct; one more is not."""
    most = int(c.read(r"at most (\d+) positions")[0])
    if c.enc.origin == "formula":
        again = check_faithful(load(c.enc.name, most, c.answer.dimension))
        assert again.verdict not in ("collides", "constant")
    size = np.abs(c.enc.domain.x)
    within, beyond = (Claim(table=c.table[size < n]).again for n in (most, most + 1))
    return within == 0 < beyond


def folded(c):
    count, total = c.read(r"(\d+) of (\d+)")
    omega = np.abs(c.enc.measure.frequencies).reshape(int(total), -1).max(axis=1)
    return count == (omega > np.pi).sum() > 0


def period_holds(c):
    period = int(c.read(r"period (\d+)")[0])
    apart = np.linalg.norm(c.table[period:] - c.table[:-period], axis=1)
    return apart.max() <= SAME * np.linalg.norm(c.table)


def is_zero(c):
    return not c.table.any()


def is_constant(c):
    ordered = sorted(c.table[0] / c.table[0].max())
    at_zero = np.allclose(ordered[len(ordered) // 2 :], 1)
    return all_near_the_first(c) and ("angle 0" not in c.text or at_zero)


VERDICTS = {
    "collides": some_share,
    "constant": lambda c: counts_of(c) == [len(c.table)] and all_near_the_first(c),
    "injective": spans_less,
    "separable": coordinates_read,
    "invertible": amplifies,
    "isometric": amplifies_nothing,
    "symmetric in the lag": lambda c: counts_hold(c) and (c.table == c.table[::-1]).all(),
    "distinct lags": all_differ,
}
FINDINGS = {
    "aliased-frequencies": folded,
    "repeating-codes": period_holds,
    "zero-codes": is_zero,
    "constant-codes": is_constant,
}
ACTIONS = {"collides": fewer_are_distinct}
