"""Claims of `check-faithful` about drawn encodings, tables, grids and biases, by plain NumPy."""

import re

import numpy as np
from grids import table_on

from pefourier.encodings import load
from pefourier.encodings.encoding import from_bias, from_table, without_prefix
from pefourier.encodings.registry import BUILDERS
from pefourier.errors import PefourierError
from pefourier.questions.check_faithful import check_faithful

LINES = sorted({*BUILDERS} - {"swin", "swin2", "beit"})
ON_GRID = ["axial", "axial-rope", "mixed-rope", "swin", "fourier-features", "dft"]
SAME = 1e-9  # of the rms length: closer rows are one row computed twice
MASK = -np.inf


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
        numbers = np.where(np.tri(n, dtype=bool), numbers, MASK)
    return f"bias {kind}", from_bias(numbers)


def changed_table(rng):
    """Draw free rows with one change, at and around the threshold of a verdict."""
    n, d = int(rng.integers(2, 40)), int(rng.integers(2, 40))
    table = rng.normal(size=(n, d))
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


def grid_table(rng):
    """Draw a table of grid points: of one axis, of both, NeRF's, or free."""
    h, w = rng.integers(2, 9, 2).tolist()
    y, x = np.indices((h, w)).reshape(2, -1)
    omega = 100.0 ** (-np.arange(4) / 4)
    octaves = np.pi * 2.0 ** np.arange(4)

    def waves(position, frequencies):
        return np.hstack([f(np.outer(position, frequencies)) for f in (np.sin, np.cos)])

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


def draws(rng, count):
    drawn = 0
    while drawn < count:
        draw = rng.choice(
            [formula, formula, on_grid, bias, changed_table, changed_table, grid_table]
        )
        try:
            label, enc = draw(rng)
        except PefourierError:  # an encoding without this size
            continue
        drawn += 1
        rows = without_prefix(enc)
        yield f"{drawn} {label}", check_faithful(enc), (rows, np.asarray(rows.table(), dtype=float))


def distances(table):
    table = table / (np.abs(table).max() or 1.0)
    away = np.linalg.norm(table[:, None] - table[None], axis=-1)
    return away / (np.sqrt((table**2).sum() / len(table)) or 1.0)


def count_distinct(table):
    """Return the number of rows that equal no earlier row."""
    return int((~np.tril(distances(table) <= SAME, -1).any(axis=1)).sum())


def rank_of(table):
    return np.linalg.matrix_rank(table / (np.abs(table).max() or 1.0), tol=None)


def counts_of(answer):
    """Return the whole numbers of the sentence."""
    return list(map(int, re.findall(r"(?<![\d.e-])\d+(?![\d.e])", meaning_of(answer))))


def meaning_of(answer):
    return answer.to_dict()["meaning"]


def some_share(answer, truth):
    enc, table = truth
    count, distinct = counts_of(answer)[:2]
    i, j = (list(enc.domain.x).index(x) for x in answer.closest_pair)
    assert (count, distinct) == (len(table), count_distinct(table))
    return distances(table)[i, j] <= SAME and distinct < count


def all_differ(answer, truth):
    table = truth[1]
    if len(table) == 1:
        return "single" in meaning_of(answer)
    first, *_ = counts_of(answer)
    return first == len(table) == len(np.unique(table, axis=0))


def spans_less(answer, truth):
    table = truth[1]
    rank, dim = map(
        int, re.search(r"span (?:only )?(\d+) of (\d+)|$", meaning_of(answer)).groups(0)
    )
    rank, length = rank or answer.rank, len(table)
    assert dim in (0, table.shape[1])
    values = np.linalg.svd(table, compute_uv=False)
    near = np.abs(np.log10(values / (values.max() or 1) + 1e-300) + 14) < 2.5  # may be rounding
    assert abs(rank - rank_of(table)) <= near.sum()
    return all_differ(answer, truth) and rank < length == len(table)


def coordinates_read(answer, truth):
    """Each coordinate is a linear function of the vector, but some grid point is not."""
    enc, table = truth
    places = enc.domain.coordinates(enc.domain.x)
    marks = np.hstack(
        [np.eye(side)[axis] for axis, side in zip(places.T, enc.domain.sides, strict=True)]
    )
    left = marks - table @ np.linalg.lstsq(table, marks, rcond=1e-10)[0]
    assert np.abs(left).max() < 1e-5
    return all_differ(answer, truth) and rank_of(table) < len(table)


def amplifies(answer, truth):
    printed = float(re.search(r"up to ([\d.e+]+)", meaning_of(answer))[1])
    values = np.linalg.svd(truth[1], compute_uv=False)
    condition = values[0] / values[len(truth[1]) - 1]
    assert printed > 1
    return all_differ(answer, truth) and abs(printed / condition - 1) < 6e-3


def amplifies_nothing(answer, truth):
    values = np.linalg.svd(truth[1], compute_uv=False)[: len(truth[1])]
    return all_differ(answer, truth) and values[0] - values[-1] <= 1e-12 * values[0] * len(values)


def all_one(answer, truth):
    table = truth[1]
    away = np.linalg.norm(table - table[0], axis=1).max()
    return counts_of(answer) == [len(table)] and away <= 1e-6 * np.linalg.norm(table[0])


def mirrored(answer, truth):
    table = truth[1]
    assert counts_of(answer) == [len(table), count_distinct(table)]
    return np.array_equal(table, table[::-1])


def fewer_are_distinct(answer, truth):
    """The stated number of positions, or the lags between them, are distinct; one more is not."""
    enc, table = truth
    most = int(re.search(r"at most (\d+) positions", answer.to_dict()["action"])[1])
    size = np.abs(enc.domain.x)
    within, beyond = table[size < most], table[size < most + 1]
    if enc.origin == "formula":
        again = check_faithful(load(enc.name, most, answer.dimension))
        assert again.verdict not in ("collides", "constant")
    return count_distinct(within) == len(within) and count_distinct(beyond) < len(beyond)


def folded(finding, answer, truth):
    count, total = map(int, re.search(r"(\d+) of (\d+)", finding.message).groups())
    omega = np.abs(truth[0].measure.frequencies).reshape(total, -1).max(axis=1)
    return count == (omega > np.pi).sum() > 0


def period_holds(finding, answer, truth):
    table, period = truth[1], int(re.search(r"period (\d+)", finding.message)[1])
    return all(
        np.linalg.norm(table[s] - table[s + period]) <= SAME * np.linalg.norm(table)
        for s in range(len(table) - period)
    )


def is_zero(finding, answer, truth):
    return not truth[1].any()


def is_constant(finding, answer, truth):
    table = truth[1]
    away = np.linalg.norm(table - table[0], axis=1).max()
    at_zero = (
        sorted(table[0] / table[0].max())[len(table[0]) // 2 :]
        if "angle 0" in finding.message
        else [1]
    )
    return away <= 1e-6 * np.linalg.norm(table[0]) and np.allclose(at_zero, 1)


VERDICTS = {
    "collides": some_share,
    "constant": all_one,
    "injective": spans_less,
    "separable": coordinates_read,
    "invertible": amplifies,
    "isometric": amplifies_nothing,
    "symmetric in the lag": mirrored,
    "distinct lags": all_differ,
}
FINDINGS = {
    "aliased-frequencies": folded,
    "repeating-codes": period_holds,
    "zero-codes": is_zero,
    "constant-codes": is_constant,
}
ACTIONS = {"collides": fewer_are_distinct}
WITHOUT = {}
