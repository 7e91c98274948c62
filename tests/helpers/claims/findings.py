"""Claims of findings about tables with planted mistakes, by plain NumPy."""

import re

import numpy as np
from grids import residual_of_products, table_on
from planted import PLANTS, ladder

from claims import SAME
from claims.faithful import VERDICTS as OF_CHECK
from claims.faithful import facts_of, folded, is_constant, is_zero, period_holds
from pefourier.encodings.encoding import from_table
from pefourier.encodings.registry import build
from pefourier.questions.check_faithful import check_faithful


def blocks_of(sides):
    """Return the points of a grid in blocks of 2 x 2."""
    h, w = sides
    return np.arange(h * w).reshape(h // 2, 2, w // 2, 2).transpose(0, 2, 1, 3).ravel()


OMEGA = {"aliased-frequencies": 8 * ladder(float), "step": ladder(float) / 4}


def planted(rng, number):
    """Draw a table with a mistake; later, tables of positions lose rows at their ends."""
    code = TABLES[number % len(TABLES)]
    table, grid = np.asarray(PLANTS[code].make(np.float64)), PLANTS[code].grid
    if number >= len(TABLES) and grid is None:
        table = table[rng.integers(0, 3) : len(table) - rng.integers(0, 20)]
    enc = table_on(grid, table) if grid else from_table(table)
    return code, enc, OMEGA.get(code)


def irregular(rng, number):
    m = int(rng.integers(6, 33))
    grid, garbage = 1e4 ** (-np.arange(m) / m), 10 ** rng.uniform(-38, 2, m)
    scaled = grid / np.clip(np.linspace(-2, 12, m), 1, 8)
    omega = [grid, scaled, garbage, np.sort(garbage)[::-1]][number % 4]
    return f"inv_freq {number % 4}", build("rope", length=20, d=2 * m, inv_freq=omega), omega


def draw(rng, number):
    label, enc, omega = (irregular if number % 6 == 5 else planted)(rng, number - number // 6)
    return label, check_faithful(enc), facts_of(enc) | {"enc": enc, "omega": omega}


def fits(table, position, omega, scale=1.0, tolerance=1e-6):
    """Return whether each column is a sine or cosine of one of the frequencies."""
    phases = np.outer(position, omega)
    shapes = scale * np.hstack([np.sin(phases), np.cos(phases), -np.sin(phases)])
    distance = np.abs(table[:, :, None] - shapes[:, None, :]).max(axis=0).min(axis=1)
    return distance.max() <= tolerance * max(1.0, abs(scale))


def fits_formula(table, position, params):
    """Return whether rows at positions follow a named formula, written out here."""
    d = table.shape[1] * (1 + (params.get("times") == 1))  # only sines or only cosines
    m, divisor = (d + 1) // 2, params.get("divisor", "d")
    divisor = m - 1 if divisor == "d/2-1" else d / 2 + float(divisor[3:] or 0)
    number = {key: float(params.get(key, 1)) for key in ("rho", "step", "scale")}
    omega = number["step"] * number["rho"] ** (-np.arange(m) / divisor)
    at = np.multiply(-1 if params.get("backwards") else 1, position)
    return fits(table, at + float(params.get("offset", 0)), omega, number["scale"], 1e-4)


def follows(c, **changes):
    """Return whether the rows that are not zero follow the identified formula."""
    params = c.answer.identified["params"] | changes
    live = np.setdiff1d(np.arange(len(c.table)), params.get("zero_rows", []))
    return fits_formula(c.table[live], live, params)


def names(key, pattern):
    """Return a predicate: the message has the parameter's value, and the formula holds with it."""

    def holds(c):
        (value,) = c.read(pattern)
        assert abs(value - c.answer.identified["params"][key]) <= 1e-5 * abs(value)
        return follows(c)

    return holds


MULTIPLIED = r"multiplied by ([\d.e+-]+)"


def is_multiplied(c):
    """Return whether positions are multiplied by the number, as named or by the drawn waves."""
    if c.answer.identified:
        return names("step", MULTIPLIED)(c)
    (value,) = c.read(MULTIPLIED)
    return c.omega is None or (
        abs(value / c.omega[0] - 1) < 1e-5 and np.ptp(np.diff(np.log(c.omega))) < 1e-9
    )


def shift_holds(c):
    sign, value = re.search(r"position s (.) (\d+)", c.text).groups()
    return follows(c, offset=int(sign + value))


def rotated_back(c):
    return follows(c, offset=c.read(r"position ([-\d.]+) - s")[0], backwards=True)


def clip_holds(c):
    start = int(c.read(r"from (\d+) on")[0])
    return c.equal[start, start:].all() and not c.equal[start - 1, start]


def is_mirrored(c, middle, first=0):
    """Return whether rows at equal distances from a row are equal."""
    reach = min(middle, len(c.table) - 1 - middle)
    return all(c.equal[middle + k, middle - k] for k in range(first, reach + 1))


def repeats(c):
    """The stated number of rows repeat an earlier row, and the named rows do."""
    if "mirror" in c.text:
        return is_mirrored(c, int(c.read(r"row (\d+)")[0]), 1)
    count, n = c.read(r"(\d+) of (\d+) rows")
    pairs = [tuple(map(int, pair)) for pair in re.findall(r"(\d+) = (\d+)", c.text)]
    assert (count, n) == (c.again, len(c.table))
    assert ("1 of" in c.text and "rows repeats" in c.text) == (count == 1)
    earlier = np.tril(c.equal, -1)
    if "positions rounded to" in c.text:
        assert not earlier[: int(c.read(r"above (\d+)")[0])].any()
    return all(earlier[j, i] for j, i in pairs)


def runs_of(c):
    by, distinct = c.read(r"every (\d+) successive rows share a vector, (\d+)")
    starts = np.flatnonzero(np.append(True, ~c.equal.diagonal(1)))
    runs = np.diff(starts, append=len(c.table))
    return (runs[1:-1] == by).all() and runs.max() == by and len(runs) == distinct


def rows_in(c):
    """Return the row numbers of a message, with runs expanded."""
    text = re.search(r"(?:rows?|positions) ((?:\d+(?: … \d+)?(?:, )?)+)", c.text)[1]
    runs = [part.split(" … ") for part in text.strip(", ").split(", ")]
    return np.concatenate([np.arange(int(run[0]), int(run[-1]) + 1) for run in runs])


def rows_are_zero(c):
    return not c.table[rows_in(c)].any() and c.table.any()


def others_follow(c):
    """The other rows follow the named formula, or all rows at the listed positions."""
    rows, n = rows_in(c), len(c.table)
    before, text = re.search(r"(.*?) \w+ \(([^)]*)\)", c.text).groups()
    if ", …" in before:
        return True  # not all rows are listed
    position = kept = np.setdiff1d(np.arange(n), rows)
    if "the rows are positions" in before:
        kept, position = np.arange(n), rows
    assert ("this row differs" in c.text) <= (len(rows) == 1)
    params = dict(part.split("=") for part in text.split(", "))
    return fits_formula(c.table[kept], position, params)


def columns_are_still(c):
    still = (np.ptp(c.table, axis=0) == 0).sum()
    return c.read(r"(\d+) of (\d+) columns") == [still, c.table.shape[1]]


def rank_is(c):
    rank = np.linalg.matrix_rank(c.table)
    return c.read(r"(\d+) columns have rank (\d+)") == [c.table.shape[1], rank]


def are_near(c):
    i, j = map(int, c.read(r"vectors (\d+) and (\d+)"))
    (apart,) = c.read(r"are ([\d.e-]+) apart")
    return abs(np.linalg.norm(c.table[i] - c.table[j]) / apart - 1) < 0.06


def above_the_fold(c):
    """The count of frequencies above pi is that of the drawn frequencies."""
    if c.enc.measure:
        return folded(c)
    return c.omega is None or c.read(r"(\d+) of (\d+)") == [(c.omega > np.pi).sum(), len(c.omega)]


def order_holds(c):
    """The printed residual is that of the named order, far below that of the given order."""
    sides, points = c.enc.domain.sides, np.arange(len(c.table))
    given = residual_of_products(c.table, sides) / 3.9
    if c.code == "row-order":
        return residual_of_products(c.table, sides, blocks_of(sides)) < given
    if c.code == "grid-transposed":
        sides = tuple(map(int, c.read(r"fits (\d+)x(\d+)")))
    else:
        points = points + int(c.read(r"point k([+-]\d+)")[0])
    inside = (points >= 0) & (points < len(points))
    residual = residual_of_products(c.table[inside], sides, points[inside])
    (printed,) = c.read(r"residual ([\d.e-]+);")
    return abs(residual - printed) <= 0.06 * printed + 2e-7 and residual < given


def along(c):
    """Return the table with the named axis of its grid first."""
    axis = "yx".index(re.search(r"(?:coordinate|none encodes|along) (\w)", c.text)[1])
    return np.moveaxis(c.table.reshape(*c.enc.domain.sides, -1), axis, 0)


def ends_meet(c):
    lines = c.table if "the table" in c.text else along(c)
    return np.abs(lines[0] - lines[-1]).max() <= SAME * np.abs(c.table).max()


def rows_on_a_line(c):
    is_line = residual_of_products(c.table, (len(c.table),)) <= 1e-5
    return is_line and c.read(r"as (\d+) steps") == [c.enc.domain.sides[-1]]


def points_repeat(c):
    places = [tuple(map(int, pair)) for pair in re.findall(r"\((\d+), (\d+)\)", c.text)]
    i, j = (np.ravel_multi_index(place, c.enc.domain.sides) for place in places)
    counted = c.read(r"(\d+) of (\d+) points") == [c.again, len(c.table)]
    return counted and i != j and c.equal[i, j]


def divided_by_frequencies(c):
    (base,) = c.read(r"base ([\d.e+]+),")
    m, rows = c.table.shape[1] // 2, np.arange(35)  # the table may lack the first rows
    omega = base ** (np.arange(m) / m)
    return any(fits(c.table[:32], rows[first:][:32], omega, 1.0, 1e-2) for first in range(3))


VERDICTS = OF_CHECK
FINDINGS = {
    "offset": shift_holds,
    **dict.fromkeys(("reversed-positions", "negative-positions"), rotated_back),
    "base": names("rho", r"base is ([\d.e+]+),"),
    "scale": names("scale", MULTIPLIED),
    "step": is_multiplied,
    **dict.fromkeys(("divisor", "cosines-first"), follows),
    "clipped-index": clip_holds,
    "duplicate-rows": repeats,
    "repeating-codes": period_holds,
    "positions-divided": runs_of,
    **dict.fromkeys(("padding-row", "unused-tail"), rows_are_zero),
    "stray-rows": others_follow,
    "rows-of-lags": lambda c: is_mirrored(c, int(c.read(r"around row (\d+)")[0])),
    "dead-columns": columns_are_still,
    "low-rank": rank_is,
    "near-duplicates": are_near,
    "aliased-frequencies": above_the_fold,
    "aliased-waves": divided_by_frequencies,
    "irregular-frequencies": lambda c: np.ptp(np.diff(np.log(c.omega))) > 1e-2,
    "zero-codes": is_zero,
    "constant-codes": is_constant,
    **dict.fromkeys(("grid-transposed", "prefix-shift", "row-order"), order_holds),
    **dict.fromkeys(
        ("axis-missing", "axis-duplicated"), lambda c: np.ptp(along(c), axis=0).max() == 0
    ),
    "ends-coincide": ends_meet,
    "flat-index": rows_on_a_line,
    "points-repeat": points_repeat,
}
TABLES = [code for code in FINDINGS if code in PLANTS and "float32" in PLANTS[code].forms]
WITHOUT = {
    "random-codes": "a test of chance: false for one normal table in a thousand",
    "neighbours-elsewhere": "says what may have happened; its numbers are in test_grid_rules",
    "rank-of-rounding": "a convention of counting, held in test_singular_values",
}
