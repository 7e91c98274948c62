"""Claims of `compare` about tables and dumps of cosines and sines, evaluated by plain NumPy.

A draw changes the rows, columns, constants, frequencies or precision of a table; its truth is the
drawn change. The module compare_models has the claims about configs and functions.
"""

import re
from types import SimpleNamespace

import numpy as np

from pefourier.encodings import load
from pefourier.encodings.encoding import from_table
from pefourier.geometry.precision import FORMATS, rounded
from pefourier.questions.compare import compare

EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
SCALINGS = {
    "none": "rho={rho:g}",
    "linear": "rho={rho:g},scaling=linear,factor=4",
    "ntk": "rho={rho:g},scaling=ntk,factor=8",
    "yarn": "rho={rho:g},scaling=yarn,factor=4,original=64",
    "llama3": "rho={rho:g},scaling=llama3,factor=8,original=64",
    "dynamic": "rho={rho:g},scaling=dynamic,factor=2,original=64",
}


def stored(table, form="float64"):
    """Return a table as a file of a format stores it."""
    table = np.asarray(table, dtype=float)
    exact = table if form == "float64" else rounded(table, FORMATS[form])
    return from_table(exact, eps=EPS[form], origin="file")


def moved_positions(rng, n):
    """Return positions of n rows, by the name of the change."""
    s, k = np.arange(n), int(rng.integers(1, n - 1))
    bf16 = rounded(s, FORMATS["bfloat16"]).astype(int)
    return {
        "own": s,
        "offset": s + k,
        "padded": np.maximum(s - k, 0),
        "clipped": np.minimum(s, k),
        "restarted": np.where(s < k, s, s - k),
        "skipped": s + (s >= k) * int(rng.integers(1, 2000)),
        "repeated": s - (s > k),
        "every": 4 * s + int(rng.integers(0, 4)),
        "rounded": bf16,
        "permuted": rng.permutation(n),
        "drawn": rng.integers(0, 131072, n),
        "negative": s - min(k, 64),
    }


def dumps(rng):
    """Draw a rotation and a dump of its table with one change.

    The change is of positions, frequencies, factors, formats or layouts.
    """
    kind = str(rng.choice(list(SCALINGS)))
    rho, d = float(rng.choice([1e4, 5e5, 1e6])), int(rng.choice([32, 64, 128]))
    n = int(rng.choice([40, 100, 300]))
    spec = f"rope:d={d}," + SCALINGS[kind].format(rho=rho)
    meant = load(spec, n)
    omega, factor = meant.measure.frequencies.copy(), meant.params["attention_factor"]
    change = str(rng.choice(["none", "none", "base", "pair", "factor", "noise"]))
    name = "own" if change != "none" else str(rng.choice(list(moved_positions(rng, n))))
    places = moved_positions(rng, n)[name]
    other = omega.copy()
    if change == "base":
        other = omega ** float(rng.uniform(0.7, 0.98))
    if change == "pair":
        other[int(rng.integers(0, d // 4))] *= float(rng.uniform(1.05, 1.4))
    scale = factor * (float(rng.choice([0.5, 1.2])) if change == "factor" else 1.0)
    angles = np.outer(places, other)
    cos, sin = scale * np.cos(angles), scale * np.sin(angles)
    columns = {"halves": [cos, sin], "full": [cos, cos, sin, sin], "cosines": [cos]}
    layout = str(rng.choice(list(columns), p=[0.5, 0.4, 0.1]))
    layout = "halves" if change != "none" or name != "own" else layout
    table = np.hstack(columns[layout])
    if change == "noise":
        table[int(rng.integers(n))] += rng.normal(size=table.shape[1])
    form = str(rng.choice(["float64", "float32", "bfloat16"]))
    facts = {"places": places, "omega": (omega, other), "layout": layout, "change": change}
    facts |= {"a": meant.table(), "b": table, "form": form, "factors": (factor, scale)}
    enc = stored(table, form)
    return f"{spec} {change} {name} {layout} {form}", compare(meant, enc), SimpleNamespace(**facts)


def tables(rng):
    """Draw a learned or sinusoidal table and a changed copy."""
    n, d = int(rng.choice([rng.integers(5, 70), 300])), int(rng.integers(3, 20))
    waves = load("sinusoidal", n, 2 * (d // 2)).table()
    a = waves if rng.random() < 0.3 else rng.normal(size=(n, d))
    d = a.shape[1]
    s, row, columns = np.arange(n), rng.permutation(n), rng.permutation(d)
    k, signs = int(rng.integers(1, n)), rng.choice([-1.0, 1.0], d)
    noisy = a + 1e-3 * rng.normal(size=a.shape) * (rng.random(a.shape) < 0.2)
    changes = {
        "none": a,
        "rows": a[row],
        "two rows": a[np.where(s == 0, k, np.where(s == k, 0, s))],
        "repeated": a[s - (s >= k)],
        "dropped": a[np.minimum(s + (s >= k), n - 1)],
        "reversed": a[::-1],
        "columns": a[:, columns] * signs,
        "scale": 2.5 * a[:, columns],
        "scales": a[:, columns] * rng.uniform(0.5, 2, d) * signs,
        "constant": a + 0.3,
        "offset row": a[:, columns] * signs + rng.normal(size=d),
        "missing rows": a[:k],
        "missing columns": a[:, : max(1, d - 2)],
        "noise": noisy,
        "rows and columns": a[row][:, columns],
        "another": rng.normal(size=a.shape),
    }
    name = str(rng.choice(list(changes)))
    b = changes[name]
    facts = {"a": a, "b": b, "change": name, "places": None, "form": "float64", "layout": ""}
    return f"{n}x{d} {name}", compare(stored(a), stored(b)), SimpleNamespace(**facts)


def draws(rng, count):
    """Alternate between tables and dumps."""
    for k in range(count):
        yield (dumps if k % 2 else tables)(rng)


def columns_of(truth):
    """Return two tables with the same columns; a full-width dump keeps one copy of each."""
    b = truth.b
    if truth.layout == "full":
        quarter = b.shape[1] // 4
        b = np.hstack([b[:, :quarter], b[:, 2 * quarter : 3 * quarter]])
    a = truth.a[:, : b.shape[1]] if truth.layout == "cosines" else truth.a
    return a, b


def limit(truth):
    """Return the largest difference that rounding of a format and float32 phases explain."""
    if truth.places is None:
        return 1e-9
    s = np.arange(len(truth.b))[:, None]
    return 1e-5 * (1 + s) + 4 * EPS[truth.form] * truth.factors[0]


def same(answer, truth):
    a, b = columns_of(truth)
    if truth.places is not None:
        equal = a.shape == b.shape and (np.abs(a - b) <= limit(truth)).all()
        return equal and ("cosines" if truth.layout == "cosines" else "codes") in answer.compared
    return a.shape == b.shape and np.abs(a - b).max() <= 1e-9


def equivalent(answer, truth):
    """The transform maps the first table to the second."""
    change = dict(answer.transform)
    if truth.places is not None:
        return (truth.places == np.arange(len(truth.b)) + change["offset"]).all()
    a, b = truth.a, truth.b
    columns = change.get("columns", np.arange(a.shape[1]))
    factors = np.multiply(change.get("signs", 1.0), change.get("scales", change.get("scale", 1.0)))
    shift = change.get("offset", 0)
    n = min(len(a), len(b))
    a, b = (a[shift:n], b[: n - shift]) if shift >= 0 else (a[: n + shift], b[-shift:n])
    return np.allclose(a[:, columns] * factors + change.get("offset_row", 0.0), b, atol=1e-9)


def different(answer, truth):
    """The tables differ, in the stated number of units."""
    a, b = columns_of(truth)
    if a.shape != b.shape:
        counts = {"rows": abs(len(a) - len(b)), "columns": abs(a.shape[1] - b.shape[1])}
        return answer.unit == "pairs" or answer.differing in (counts[answer.unit], answer.counted)
    beyond = np.abs(a - b) > limit(truth) / 1e3
    if answer.unit == "rows" and answer.positions:
        return (
            positions_of(answer.positions, len(b)) != np.arange(len(b))
        ).sum() == answer.differing
    return beyond.any() and answer.differing <= answer.counted


def positions_of(runs, n):
    """Return the position of each row from runs, or -1e9 for a row without a run."""
    places = np.full(n, -(10**9))
    for run in runs:
        rows = np.arange(run.first_row, run.last_row + 1)
        places[rows] = np.rint(np.linspace(run.first, run.last, len(rows)))
    return places


def rows_moved(finding, answer, truth):
    """Each row has the vector of its stated position; the other rows match no position."""
    places = positions_of(answer.positions, len(truth.b))
    known = places != -(10**9)
    if truth.places is not None:
        right = (places[known] == truth.places[known]).all()
        return right and (known.all() or truth.change == "noise")
    equal = np.abs(truth.a[places[known]] - truth.b[known]).max() <= 1e-9
    lone = [np.abs(truth.a - row).max(axis=1).min() > 1e-9 for row in truth.b[~known]]
    return bool(equal and all(lone))


def reported_moves(finding, answer, truth):
    """The first row of each run in the sentence is at the stated position."""
    stated = re.findall(
        r"rows? (\d+)[-\d]* (?:are|is) (?:positions?|rows?) (-?\d+)", finding.message
    )
    places = positions_of(answer.positions, len(truth.b))
    fair = all(places[int(row)] == int(place) for row, place in stated)
    return fair and rows_moved(finding, answer, truth)


def numbers_differ(finding, answer, truth):
    """The largest difference and first place are right, and no order explains the difference."""
    a, b = truth.a, truth.b
    difference = np.abs(a - b)
    worst, row, column = re.search(
        r"up to ([\d.e+-]+).*position (\d+), column (\d+)", finding.message
    ).groups()
    first = tuple(np.argwhere(difference > limit(truth) / 1e3)[0])
    fair = np.isclose(float(worst), difference.max(), rtol=1e-2)
    if truth.places is None:
        fair &= (int(row), int(column)) == first
    if "Tried" not in finding.message:
        return fair
    count = int(re.search(r"in (\d+) of", finding.message)[1])
    fair &= count == (difference > 1e-12).any(axis=1).sum()
    rows = np.array([np.abs(a - row).max(axis=1).argmin() for row in b])
    fair &= not (sorted(rows) == list(range(len(a))) and np.abs(a[rows] - b).max() < 1e-12)
    centred = [x - x.mean(axis=0) for x in (a, b)]
    units = [x / np.maximum(np.linalg.norm(x, axis=0), 1e-12) for x in centred]
    equal_ones = np.abs(units[0].T @ units[1]) > 1 - 1e-13
    return fair and not equal_ones.any(axis=0).all()


def sizes_differ(finding, answer, truth):
    first, second = map(int, re.findall(r"(?:first has|second) (\d+)", finding.message))
    a, b = truth.a, truth.b
    unit = re.search(r"first has \d+ (\w+)", finding.message)[1]
    sizes = {"rows": (len(a), len(b)), "columns": (a.shape[1], b.shape[1])}
    sizes["pairs"] = tuple(size // 2 for size in sizes["columns"])
    fair = (first, second) == sizes[unit] and first != second
    if "equal" in finding.message and unit == "rows":
        n = min(first, second)
        fair &= bool(np.abs(a[:n] - b[:n]).max() <= 1e-9)
    return fair


def pairs_differ(finding, answer, truth):
    """Ratios of frequencies are the drawn ratios; equal frequencies are not mentioned."""
    if truth.places is None:
        return "frequencies" not in finding.message
    first, second = truth.omega
    if "frequencies of" not in finding.message:
        return True
    is_equal = np.array_equal(first, second)
    ratios = second / first
    stated = [pair for pair in answer.pairs if pair.ratio is not None]
    rotating = [p for p in stated if second[p.index] * len(truth.b) > 0.1]
    close = all(np.isclose(p.ratio, ratios[p.index], rtol=2e-2) for p in rotating)
    return not is_equal and close


def misread(finding, answer, truth):
    """The named change was made."""
    if truth.change == "factor":
        meant, read = answer.cause.changes["attention_factor"]
        return np.allclose((meant, read), truth.factors, rtol=1e-2)
    step = answer.cause.changes.get("positions", ("", ""))[1]
    if re.fullmatch(r"\d+ p", step):
        return (truth.places == int(step.split()[0]) * np.arange(len(truth.b))).all()
    is_partial = answer.cause.misreadings == ("partial",) and truth.change == "missing columns"
    return truth.change in ("base", "pair") or is_partial


def unchanged(finding, answer, truth):
    return np.array_equal(truth.a, truth.b)


def read_at_length(finding, answer, truth):
    """The base is that of the scaling at a length equal to the number of rows."""
    base = float(re.search(r"base ([\d.]+)", finding.message)[1])
    omega = truth.omega[0]
    return np.isclose(base ** (-np.arange(len(omega)) / len(omega)), omega, rtol=1e-6).all()


VERDICTS = {"the same": same, "equivalent": equivalent, "different": different}
FINDINGS = {
    "rows-moved": reported_moves,
    "rows-reordered": rows_moved,
    "numbers-differ": numbers_differ,
    "numbers-unchanged": unchanged,
    "sizes-differ": sizes_differ,
    "pairs-differ": pairs_differ,
    "misread": misread,
    "read-at-length": read_at_length,
    "part-alone": lambda finding, answer, truth: truth.layout == "cosines",
}
ACTIONS = {}
WITHOUT = {
    "permuted": "two rotations: see compare_models",
    "same geometry": "its action, a rotation of weights, is tested in test_compare",
    "used differently": "two models, or images: see compare_models and test_moved_rows",
    "pairing-unsaid": "claims nothing of a table",
    "lengths-differ": "two counts, which test_compare reads",
    "axis-positions": "images: see test_moved_rows",
}
