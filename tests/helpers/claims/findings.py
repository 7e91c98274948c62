"""Claims of findings about tables with drawn mistakes and about grids, by plain NumPy."""

import re

import numpy as np
from grids import mean_products, table_on

from claims.faithful import SAME, distances, folded, grid_table, is_constant, is_zero, period_holds
from claims.faithful import VERDICTS as OF_CHECK
from pefourier.encodings.encoding import from_table
from pefourier.encodings.registry import build
from pefourier.geometry.precision import FORMATS, rounded
from pefourier.questions.check_faithful import check_faithful


def waves(position, omega, order="pairs"):
    phases = np.outer(position, omega)
    if order == "pairs":
        return np.stack([np.sin(phases), np.cos(phases)], axis=-1).reshape(len(phases), -1)
    return np.hstack([np.sin(phases), np.cos(phases)])


def ladder(rng, m):
    return float(rng.choice([100.0, 1e3, 1e4, 5e5])) ** (-np.arange(m) / m)


def plain(rng):
    n, m = int(rng.integers(24, 130)), int(rng.integers(4, 20))
    return np.arange(n), ladder(rng, m), str(rng.choice(["pairs", "halves"]))


def offset(rng):
    s, omega, order = plain(rng)
    return waves(s + int(rng.choice([-3, -1, 1, 2, 7])), omega, order)


def backwards(rng):
    s, omega, order = plain(rng)
    return waves(s[::-1] - int(rng.choice([0, len(s) - 1])), omega, order)


def of_base(rng):
    s, omega, _ = plain(rng)
    return waves(
        s, float(rng.choice([9e3, 1e3, 1e4, 12345.0])) ** (-np.arange(len(omega)) / len(omega))
    )


def shorter_divisor(rng):
    s, omega, order = plain(rng)
    return waves(s, 1e4 ** (-np.arange(len(omega)) / (len(omega) - 1)), order)


def scaled(rng):
    s, _, order = plain(rng)
    return float(rng.choice([0.02, 3.0, 1 + 1e-3])) * waves(s, 1e4 ** (-np.arange(8) / 8), order)


def stepped(rng):
    s, *_ = plain(rng)
    return waves(float(rng.choice([0.5, 0.125, 0.3])) * s, 1e4 ** (-np.arange(8) / 8))


def clipped(rng):
    s, omega, order = plain(rng)
    return waves(np.minimum(s, int(rng.integers(3, len(s) + 2))), omega, order)


def in_16_bits(rng):
    n = int(rng.choice([250, 258, 259, 300]))  # bfloat16 does not represent 257
    return waves(rounded(np.arange(float(n)), FORMATS["bfloat16"]), ladder(rng, 6))


def fast(rng):
    """Draw frequencies with one ratio, the highest below, at or above pi."""
    s, omega, order = plain(rng)
    top = float(rng.choice([3.0, np.pi, 3.3, 7.0, 40.0]))
    omega = (top * omega)[:: int(rng.choice([1, -1]))]
    return waves(s, omega, order), omega


def divided(rng):
    s, omega, order = plain(rng)
    return waves(s, 1 / omega, order)


def repeated(rng):
    table = rng.normal(size=(int(rng.integers(10, 60)), int(rng.integers(4, 20))))
    for _ in range(int(rng.integers(1, 3))):
        i, j = rng.choice(len(table), 2, replace=False)
        table[i] = table[j]
    return table


def periodic(rng):
    table = rng.normal(size=(int(rng.integers(3, 30)), 6))
    return np.tile(table, (int(rng.integers(2, 4)), 1))[: -int(rng.integers(1, 3))]


def divided_by(rng):
    return waves(np.arange(80) // int(rng.integers(2, 6)), ladder(rng, 8))


def padded(rng):
    s, omega, order = plain(rng)
    table = waves(s, omega, order)
    table[rng.choice([0, 1, len(s) // 2, len(s) - 1])] = 0
    return table


def with_a_tail(rng):
    s, omega, order = plain(rng)
    table = waves(s, omega, order)
    table[len(s) - int(rng.integers(1, 5)) :] = 0
    return table


def strayed(rng):
    s, omega, order = plain(rng)
    table = waves(s, omega, order)
    for _ in range(int(rng.integers(1, 4))):
        table[rng.integers(len(s))] += rng.normal(size=table.shape[1])
    return table


def mirrored(rng):
    s, omega, order = plain(rng)
    return waves(np.abs(s - len(s) // 2), omega, order)


def falling(rng):
    lag = np.abs(np.arange(int(rng.integers(9, 60))) - int(rng.integers(4, 8)))
    return -np.outer(lag, [0.5, 0.25, 0.125])


def with_constants(rng):
    table = waves(*plain(rng))
    table[:, rng.integers(table.shape[1], size=int(rng.integers(1, 3)))] = 0.3
    return table


def sines_alone(rng):
    s, omega, _ = plain(rng)
    return np.sin(np.outer(s, omega))[:, : int(rng.choice([1, 2, 3, 4]))]


def near(rng):
    table = rng.normal(size=(40, 8))
    table[7] = table[3] + float(rng.choice([1e-5, 1e-7, 1e-9]))
    return table


def unrotated(rng):
    return waves(np.zeros(9), ladder(rng, 4), str(rng.choice(["pairs", "halves"])))


def one_row(rng):
    return np.repeat(rng.normal(size=(1, 6)), 9, 0)


TABLES = [
    *(offset, backwards, of_base, shorter_divisor, scaled, stepped, clipped, in_16_bits, fast),
    *(divided, repeated, periodic, divided_by, padded, with_a_tail, strayed, mirrored, falling),
    *(with_constants, sines_alone, near, unrotated, one_row),
]


def grid_mistake(rng):
    """Draw a table of two axes with another order of rows, or with one axis missing."""
    sides = h, w = 2 * int(rng.integers(2, 5)), 2 * int(rng.integers(2, 5))
    y, x = np.indices(sides).reshape(2, -1)
    omega = 100.0 ** (-np.arange(4) / 4)
    right = np.hstack([waves(y, omega), waves(x, omega)])
    blocks = np.arange(h * w).reshape(h // 2, 2, w // 2, 2).transpose(0, 2, 1, 3).ravel()
    kind = str(rng.choice(["transposed", "blocks", "shifted", "y alone", "y twice", "row index"]))
    table = {
        "transposed": right.reshape(h, w, -1).swapaxes(0, 1).reshape(h * w, -1),
        "blocks": right[blocks],
        "shifted": np.roll(right, int(rng.choice([-2, -1, 1, 2])), axis=0),
        "y alone": np.hstack([waves(y, omega), waves(0 * x, omega)]),
        "y twice": np.hstack([waves(y, omega), waves(y, omega)]),
        "row index": waves(np.arange(h * w), omega),
    }[kind]
    return kind, table_on(sides, table)


def irregular(rng):
    m = int(rng.integers(6, 33))
    grid = 1e4 ** (-np.arange(m) / m)
    kind = str(rng.choice(["geometric", "scaled", "garbage", "sorted garbage"]))
    garbage = 10 ** rng.uniform(-38, 2, m)
    omega = {
        "geometric": grid,
        "scaled": grid / np.clip(np.linspace(-2, 12, m), 1, 8),
        "garbage": garbage,
        "sorted garbage": np.sort(garbage)[::-1],
    }[kind]
    return f"inv_freq {kind}", build("rope", length=20, d=2 * m, inv_freq=omega)


def draws(rng, count):
    for drawn in range(count):
        choice = drawn % 6
        if choice == 4:
            label, enc = rng.choice([grid_mistake, grid_table])(rng)
        elif choice == 5:
            label, enc = irregular(rng)
        else:
            make = TABLES[int(rng.integers(len(TABLES)))]
            made = make(rng)
            table, omega = made if isinstance(made, tuple) else (made, None)
            label, enc = make.__name__, from_table(table, params={"drawn": omega})
        yield f"{drawn} {label}", check_faithful(enc), (enc, np.asarray(enc.table(), dtype=float))


def numbers_in(pattern, finding):
    return [float(x) for x in re.search(pattern, finding.message).groups()]


def fits(table, position, omega, scale=1.0, tolerance=1e-6):
    """Return whether each column is a sine or cosine of one of the frequencies."""
    phases = np.outer(position, omega)
    shapes = scale * np.hstack([np.sin(phases), np.cos(phases), -np.sin(phases)])
    distance = np.abs(table[:, :, None] - shapes[:, None, :]).max(axis=0).min(axis=1)
    return distance.max() <= tolerance * max(1.0, abs(scale))


def follows(answer, truth, **changes):
    """Return whether the table is the identified formula, written out here."""
    params, table = answer.identified["params"] | changes, truth[1]
    n, d = table.shape
    d *= 1 + (params.get("times") == 1)  # only sines or only cosines
    m = (d + 1) // 2
    divisor = {"d": d / 2, "d/2-1": m - 1}.get(params.get("divisor", "d"))
    divisor = d / 2 + float(params["divisor"][3:]) if divisor is None else divisor
    omega = params.get("step", 1.0) * params["rho"] ** (-np.arange(m) / divisor)
    offset, sign = params.get("offset", 0), -1 if params.get("backwards") else 1
    live = np.setdiff1d(np.arange(n), params.get("zero_rows", []))
    position = sign * np.arange(n) + offset
    return fits(table[live], position[live], omega, params.get("scale", 1.0), 1e-4)


STEP = r"multiplied by ([\d.e+-]+)"


def names(key, pattern):
    """Return a predicate: the message has the parameter's value, and the formula holds with it."""

    def holds(finding, answer, truth):
        (value,) = numbers_in(pattern, finding)
        assert abs(value - answer.identified["params"][key]) <= 1e-5 * abs(value)
        return follows(answer, truth)

    return holds


def multiplied(finding, answer, truth):
    """Return whether positions are multiplied by the number, as named or by the drawn waves."""
    if answer.identified:
        return names("step", STEP)(finding, answer, truth)
    (value,), omega = numbers_in(STEP, finding), truth[0].params["drawn"]
    return abs(value / omega[0] - 1) < 1e-5 and np.ptp(np.diff(np.log(omega))) < 1e-9


def shift_holds(finding, answer, truth):
    sign, value = re.search(r"position s (.) (\d+)", finding.message).groups()
    return follows(answer, truth, offset=int(sign + value))


def rotated_back(finding, answer, truth):
    (first,) = numbers_in(r"position ([-\d.]+) - s", finding)
    return follows(answer, truth, offset=first, backwards=True)


def clip_holds(finding, answer, truth):
    table = truth[1]
    (start,) = map(int, numbers_in(r"from (\d+) on", finding))
    equal_ones = distances(table) <= SAME
    return equal_ones[start, start:].all() and not equal_ones[start - 1, start]


def repeats(finding, answer, truth):
    """The stated number of rows repeat an earlier row, and the named rows do."""
    equal_ones, message = np.tril(distances(truth[1]) <= SAME, -1), finding.message
    if "mirror" in message:
        middle = int(numbers_in(r"row (\d+)", finding)[0])
        reach = min(middle, len(equal_ones) - 1 - middle)
        return all(equal_ones[middle + k, middle - k] for k in range(1, reach + 1))
    again, n = numbers_in(r"(\d+) of (\d+) rows", finding)
    pairs = [tuple(map(int, pair)) for pair in re.findall(r"(\d+) = (\d+)", message)]
    assert (again, n) == (equal_ones.any(axis=1).sum(), len(equal_ones))
    assert ("1 of" in message and "rows repeats" in message) == (again == 1)
    if "positions rounded to" in message:
        (digits,) = numbers_in(r"above (\d+)", finding)
        return not equal_ones[: int(digits)].any() and all(equal_ones[j, i] for j, i in pairs)
    return all(equal_ones[j, i] for j, i in pairs)


def runs_of(finding, answer, truth):
    by, distinct = numbers_in(r"every (\d+) successive rows share a vector, (\d+)", finding)
    equal_ones = distances(truth[1]) <= SAME
    runs = np.diff(np.flatnonzero(np.append(True, ~equal_ones.diagonal(1))), append=len(equal_ones))
    return (runs[1:-1] == by).all() and runs.max() == by and len(runs) == distinct


def rows_in(finding):
    """Return the row numbers of a message, with runs expanded."""
    text = re.search(r"(?:rows?|positions) ((?:\d+(?: … \d+)?(?:, )?)+)", finding.message)[1]
    runs = [part.split(" … ") for part in text.strip(", ").split(", ")]
    return np.concatenate([np.arange(int(run[0]), int(run[-1]) + 1) for run in runs])


def rows_are_zero(finding, answer, truth):
    table = truth[1]
    return not table[rows_in(finding)].any() and table.any()


def others_follow(finding, answer, truth):
    """The other rows follow the named formula, or all rows at the listed positions."""
    rows, table = rows_in(finding), truth[1]
    before, text = re.search(r"(.*?) \w+ \(([^)]*)\)", finding.message).groups()
    params = dict(part.split("=") for part in text.split(", "))
    if ", …" in before:
        return True  # not all rows are listed
    n, d = table.shape
    divisor = {"d": d / 2, "d/2-1": d // 2 - 1}.get(params.get("divisor", "d"))
    omega = float(params.get("step", 1)) * float(params["rho"]) ** (
        -np.arange(d // 2) / (divisor or 1)
    )
    sign = -1 if "backwards" in params else 1
    position = sign * np.arange(n) + float(params.get("offset", 0))
    kept = np.setdiff1d(np.arange(n), rows)
    if "the rows are positions" in before:
        kept, position = np.arange(n), rows
    assert ("this row differs" in finding.message) <= (len(rows) == 1)
    return divisor is None or fits(
        table[kept], position[kept], omega, float(params.get("scale", 1)), 1e-4
    )


def columns_are_still(finding, answer, truth):
    count, columns = numbers_in(r"(\d+) of (\d+) columns", finding)
    return (count, columns) == ((np.ptp(truth[1], axis=0) == 0).sum(), truth[1].shape[1])


def rank_is(finding, answer, truth):
    d, rank = numbers_in(r"(\d+) columns have rank (\d+)", finding)
    return (d, rank) == (truth[1].shape[1], np.linalg.matrix_rank(truth[1]))


def are_near(finding, answer, truth):
    i, j = map(int, numbers_in(r"vectors (\d+) and (\d+)", finding))
    (apart,) = numbers_in(r"are ([\d.e-]+) apart", finding)
    return abs(np.linalg.norm(truth[1][i] - truth[1][j]) / apart - 1) < 0.06


def above_the_fold(finding, answer, truth):
    """The count of frequencies above pi is that of the drawn frequencies."""
    enc, table = truth
    if enc.measure:
        return folded(finding, answer, truth)
    omega = enc.params["drawn"] if enc.params.get("drawn") is not None else ratio_of(table)
    return numbers_in(r"(\d+) of (\d+)", finding) == [(omega > np.pi).sum(), len(omega)]


def ratio_of(table):
    """Return the frequencies of divided positions, from 1 on with the ratio of the fitting base."""
    m, rows = table.shape[1] // 2, np.arange(min(32, len(table)))
    bases = (100.0, 1e3, 1e4, 5e5)
    base = next(b for b in bases if fits(table[:32], rows, b ** (np.arange(m) / m), 1.0, 1e-2))
    return base ** (np.arange(m) / m)


def lags_of(finding, answer, truth):
    (middle,) = map(int, numbers_in(r"around row (\d+)", finding))
    equal_ones = distances(truth[1]) <= SAME
    reach = min(middle, len(equal_ones) - 1 - middle)
    return all(equal_ones[middle + k, middle - k] for k in range(reach + 1))


def toeplitz(table, sides, points=None):
    if points is None:
        products, means = mean_products(table, sides)
        return np.linalg.norm(products - means) / np.linalg.norm(products)
    places = np.stack(np.unravel_index(points, sides), axis=-1)
    lags = (places - places[:, None]).reshape(-1, len(sides))
    _, index = np.unique(lags, axis=0, return_inverse=True)
    products = (table @ table.T).ravel()
    means = np.bincount(index.ravel(), products) / np.bincount(index.ravel())
    return np.linalg.norm(products - means[index.ravel()]) / np.linalg.norm(products)


def order_holds(finding, answer, truth):
    """The printed residual is that of the named order, far below that of the given order."""
    enc, table = truth
    sides, index = enc.domain.sides, np.arange(len(table))
    if finding.code == "row-order":
        h, w = sides
        blocks = index.reshape(h // 2, 2, w // 2, 2).transpose(0, 2, 1, 3).ravel()
        return toeplitz(table, sides, blocks) < toeplitz(table, sides) / 3.9
    printed, _ = numbers_in(r"residual ([\d.e-]+); ([\d.e-]+)", finding)
    if finding.code == "grid-transposed":
        sides = tuple(map(int, re.search(r"fits (\d+)x(\d+)", finding.message).groups()))
        points = index
    else:
        points = index + int(re.search(r"point k([+-]\d+)", finding.message)[1])
    inside = (points >= 0) & (points < len(table))
    residual = toeplitz(table[inside], sides, points[inside])
    return (
        abs(residual - printed) <= 0.06 * printed + 2e-7
        and residual < toeplitz(table, enc.domain.sides) / 3.9
    )


def axis_of(finding):
    return "yx".index(re.search(r"(?:coordinate|none encodes|along) (\w)", finding.message)[1])


def axis_is_lost(finding, answer, truth):
    enc, table = truth
    grid = table.reshape(*enc.domain.sides, -1)
    return np.ptp(grid, axis=axis_of(finding)).max() == 0


def ends_meet(finding, answer, truth):
    enc, table = truth
    if "the table" in finding.message:
        return np.abs(table[0] - table[-1]).max() <= SAME * np.abs(table).max()
    grid = np.moveaxis(table.reshape(*enc.domain.sides, -1), axis_of(finding), 0)
    return np.abs(grid[0] - grid[-1]).max() <= SAME * np.abs(table).max()


def rows_on_a_line(finding, answer, truth):
    enc, table = truth
    (side,) = numbers_in(r"as (\d+) steps", finding)
    return toeplitz(table, (len(table),)) <= 1e-5 and side == enc.domain.sides[-1]


def points_repeat(finding, answer, truth):
    enc, table = truth
    count, n = numbers_in(r"(\d+) of (\d+) points", finding)
    b, a = (tuple(map(int, pair)) for pair in re.findall(r"\((\d+), (\d+)\)", finding.message))
    equal_ones = np.tril(distances(table) <= SAME, -1)
    i, j = (np.ravel_multi_index(place, enc.domain.sides) for place in (a, b))
    return (count, n) == (equal_ones.any(axis=1).sum(), len(table)) and equal_ones[
        max(i, j), min(i, j)
    ]


def no_rule(finding, answer, truth):
    omega = np.array(truth[0].params["inv_freq"])
    steps = np.diff(np.log(omega))
    return np.ptp(steps) > 1e-2


def divided_by_frequencies(finding, answer, truth):
    (base,) = numbers_in(r"base ([\d.e+]+),", finding)
    m = truth[1].shape[1] // 2
    return fits(truth[1][:32], np.arange(len(truth[1]))[:32], base ** (np.arange(m) / m), 1.0, 1e-2)


VERDICTS = OF_CHECK
FINDINGS = {
    "offset": shift_holds,
    "reversed-positions": rotated_back,
    "negative-positions": rotated_back,
    "base": names("rho", r"base is ([\d.e+]+),"),
    "scale": names("scale", r"multiplied by ([\d.e+-]+)"),
    "step": multiplied,
    "divisor": lambda finding, answer, truth: follows(answer, truth),
    "cosines-first": lambda finding, answer, truth: follows(answer, truth),
    "clipped-index": clip_holds,
    "duplicate-rows": repeats,
    "repeating-codes": period_holds,
    "positions-divided": runs_of,
    "padding-row": rows_are_zero,
    "unused-tail": rows_are_zero,
    "stray-rows": others_follow,
    "rows-of-lags": lags_of,
    "dead-columns": columns_are_still,
    "low-rank": rank_is,
    "near-duplicates": are_near,
    "aliased-frequencies": above_the_fold,
    "aliased-waves": divided_by_frequencies,
    "irregular-frequencies": no_rule,
    "zero-codes": is_zero,
    "constant-codes": is_constant,
    "grid-transposed": order_holds,
    "prefix-shift": order_holds,
    "row-order": order_holds,
    "axis-missing": axis_is_lost,
    "axis-duplicated": axis_is_lost,
    "ends-coincide": ends_meet,
    "flat-index": rows_on_a_line,
    "points-repeat": points_repeat,
}
WITHOUT = {
    "random-codes": "a test of chance: false for one normal table in a thousand",
    "neighbours-elsewhere": "says what may have happened; its numbers are in test_grid_rules",
    "rank-of-rounding": "a convention of counting, held in test_singular_values",
}
