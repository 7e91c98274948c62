"""Claims of `spectrum` about an encoding's energy, evaluated on the table."""

import re

import numpy as np
from grids import table_on, waves_on

from pefourier.encodings import build, load
from pefourier.encodings.encoding import (
    BasisDomain,
    as_encoding,
    without_mean,
)
from pefourier.encodings.registry import BUILDERS
from pefourier.questions.spectrum import spectrum

NUMBER = r"(more than )?(\d+(?:\.\d+)?(?:e[-+]\d+)?)(%?)"
ROUNDED = 0.006  # relative rounding of three digits


def draw(rng, number):
    """Draw registered encodings, declared frequencies, mixtures with constant parts, and grids."""
    label, enc = MAKERS[number % len(MAKERS)](rng, number // len(MAKERS))
    options = {"sigma": rng.choice([None, 0, 4, 30]), "lattice": rng.choice([None, 2, 9, 100])}
    options["method"] = rng.choice(["auto", "auto", "periodogram"])
    options = options if number > 9 else {}
    answer = spectrum(enc, **options)  # refused: a lattice of one point
    return f"{label} {options}", answer, {"truth": energy_of(answer)}


def named(rng, number):
    """Draw a registered encoding with sizes and, where it has one, a base."""
    name = rng.choice(sorted(BUILDERS))
    length, d = (int(rng.integers(2, most)) for most in (120, 65))
    known = BUILDERS[name].parameters
    own = {"rho": float(10 ** rng.uniform(0.1, 6))} if "rho" in known else {}
    if "times" in known and rng.random() < 0.4:
        own["times"] = np.cumsum(rng.uniform(0.1, 2, size=length)) * rng.choice([1, 1e-3])
    return f"{name} {own} {length} {d}", build(name, length=length, d=d, **own)


def of_waves(rng, number):
    """Draw declared pairs of sines and cosines, some equal, low or above half a rotation."""
    omega = rng.uniform(0, 7, size=rng.integers(1, 7)) * rng.choice([1, 1e-3, 0.3])
    omega[rng.random(len(omega)) < 0.3] = rng.choice([0.0, omega[0], np.pi / 2, np.pi / 2 + 1e-3])
    n = int(rng.integers(2, 100))
    return f"waves {omega} {n}", waves_on(n, omega, squared_length=float(len(omega)))


def mixture(rng, number):
    """Draw a constant part, a low and a high frequency, with shares near the thresholds."""
    n = 8 * int(rng.integers(2, 20))
    edges = [0.75, 0.95, 0.05, 0.9996, 1.0, rng.uniform()]
    share = min(1.0, float(rng.choice(edges) + rng.choice([-1e-3, -1e-9, 0, 1e-9, 1e-3])))
    rest = rng.choice([0.0, 1.0, 0.05, rng.uniform()]) * (1 - share)
    parts = rng.permutation([share, rest, max(0.0, 1 - share - rest)])
    parts = {1: (0.6, 0.0, 0.4), 2: (0.0, 0.1, 0.9)}.get(number, parts)
    t, slow, fast = np.arange(n), 1, n // 4 + 1
    columns = [np.full(n, np.sqrt(parts[0] / n))]
    for k, part in ((slow, parts[1]), (fast, parts[2])):
        angle = 2 * np.pi * k * t / n
        columns += [np.sqrt(part / n) * np.cos(angle), np.sqrt(part / n) * np.sin(angle)]
    return f"mixture {parts} {n}", as_encoding(np.stack(columns, axis=1))


def on_grid(rng, number):
    """Draw a table on a grid: in any direction, along axes, diagonal, constant, round or free."""
    kind = number % 9 - 2
    h, w = (2 * int(half) + 1 for half in rng.integers(1, 5, size=2))  # none at half a rotation
    h = w if kind == 3 else h
    y, x = np.indices((h, w)).reshape(2, -1)
    ky, kx = 2 * np.pi / h, 2 * np.pi / w
    if kind < 0:
        name = ("swin", "rope")[kind]
        return name, load(name, None, 16, grid=(5, 6))
    angles = ([kx * x], [ky * y, kx * x], [ky * y + kx * x], [ky * y + kx * x, ky * y - kx * x])
    table = rng.normal(size=(h * w, 5))
    if kind < 4:
        table = np.stack([f(angle) for angle in angles[kind] for f in (np.cos, np.sin)], axis=1)
    elif kind == 4:
        table = 1 + rng.choice([0, 0.1, 0.25]) * table
    elif kind == 5:
        table = np.cos(kx * x)[:, None] + rng.choice([0.01, 0.1]) * table
    return f"grid {h}x{w} {kind}", table_on((h, w), table)


def short(rng, number):
    """Draw a table of few rows, perhaps all equal, zero or without their mean."""
    table = rng.normal(size=(rng.integers(1, 6), rng.integers(1, 5))).round(1)
    table = np.vstack([table] * int(rng.integers(1, 4))) + rng.choice([0, 1e3])
    enc = as_encoding((number % 4 > 0) * table)
    return f"short {table.shape}", without_mean(enc) if rng.random() < 0.3 else enc


MAKERS = [named, of_waves, mixture, on_grid, short]


def energy_of(answer):
    """Return frequencies from 0 to pi, their shares of energy, and the share of the mean row.

    The shares come from the double sum or the formula, that of the mean row from the rows.
    """
    enc = answer.encodings[0]
    table = np.asarray(enc.table(), dtype=float)
    total = (table**2).sum() or np.nan
    mean = len(table) * (table.mean(axis=0) ** 2).sum() / total
    if answer.method == "declared":
        omega, shares = enc.measure.frequencies, enc.measure.weights
        omega = omega.reshape(len(shares), -1)
        if not enc.domain.irregular:
            omega = np.arctan2(np.sin(omega), np.cos(omega))
        return omega, shares, mean
    if isinstance(enc.domain, BasisDomain):
        energy = ((enc.domain.basis.T @ table) ** 2).sum(axis=1)
        return enc.domain.omega[:, None], energy / total, mean
    sides = enc.domain.sides
    k = (places := grid_of(sides)) / sides
    energy = (np.abs(np.exp(-2j * np.pi * k @ places.T) @ table) ** 2).sum(axis=1) / len(table)
    return 2 * np.pi * (k - np.round(k)), energy / total, mean


def grid_of(sides):
    """Return all points of a lattice."""
    return np.indices(sides).reshape(len(sides), -1).T


def numbers(c):
    """Return the numbers of the sentence, percents as shares, and whether a percent is a bound."""
    meaning = c.text
    assert "–" not in meaning
    assert "nan" not in meaning
    return [
        (float(text) / (100 if sign else 1), bool(more))
        for more, text, sign in re.findall(NUMBER, meaning)
    ]


def agrees(printed, value):
    """Return whether a printed number is a rounded value; 0 and 100% are exact."""
    number, more = printed
    if more:
        return number < value < 1
    if number in (0.0, 1.0):
        return abs(value - number) < 1e-9
    return abs(value - number) <= ROUNDED * max(abs(value), 1e-9)


def bands(truth):
    """Return the shares of constants, of wavelengths of at least four steps, and of the rest."""
    omega, shares, _ = truth
    size = np.linalg.norm(omega, axis=1)
    low = size <= np.pi / 2 * (1 + 1e-9)
    unrotated = size < 1e-12
    return shares[unrotated].sum(), shares[low & ~unrotated].sum(), shares[~low].sum()


def is_constant(c):
    (printed,) = numbers(c)
    return c.truth[2] > 0.95 - 1e-9 and agrees(printed, c.truth[2])


def is_few_frequencies(c):
    """Sinusoids of the printed wavelengths make up the table."""
    table = c.answer.encodings[0].table()
    waves = [float(x) for x in re.findall(r"\d+(?:\.\d+)?(?:e\+?\d+)?", c.text)]
    angles = 2 * np.pi * np.arange(len(table))[:, None] / waves
    basis = np.hstack([np.cos(angles), np.sin(angles)])
    left = table - basis @ np.linalg.lstsq(basis, table)[0]
    return np.linalg.norm(left) < 0.05 * np.linalg.norm(table)


def is_one_frequency(c):
    if len(c.answer.few):
        return is_few_frequencies(c)
    omega, shares, _ = c.truth
    size = np.abs(omega[shares > 1e-11, 0])
    unit = c.answer.encodings[0].domain.spacing if c.answer.encodings[0].domain.irregular else 1
    printed = numbers(c)[0]
    return np.ptp(size) < 1e-8 and agrees(printed, 2 * np.pi * unit / size.mean())


def is_even(c):
    size, shares = np.abs(c.truth[0][:, 0]), c.truth[1]
    grid = np.unique(np.concatenate([size * (1 - 1e-12), size * (1 + 1e-12), [np.pi]]))
    apart = max(abs(shares[size <= x].sum() - min(x / np.pi, 1)) for x in grid)
    return abs(apart - numbers(c)[0][0]) < 0.01 and apart < 0.16


def is_mostly_slow(c):
    (wave, _), printed = numbers(c)[-2:]
    size, shares = np.abs(c.truth[0][:, 0]), c.truth[1]
    unit = c.answer.encodings[0].domain.spacing if c.answer.encodings[0].domain.irregular else 1
    with np.errstate(divide="ignore"):
        share = shares[2 * np.pi * unit / size >= wave * (1 - 1e-9)].sum()
    return share > 0.95 - 1e-9 and agrees(printed, share) and bands(c.truth)[2] < 0.05 + 1e-9


def is_mostly_fast(c):
    high = bands(c.truth)[2]
    return high > 0.75 - 1e-9 and agrees(numbers(c)[0], high)


def is_slow_and_fast(c):
    unrotated, low, high = bands(c.truth)
    printed = all(map(agrees, numbers(c), (low, high, unrotated)))
    return printed and low > 0.05 - 1e-9 and 0.05 - 1e-9 < high < 0.75 + 1e-9


def is_constant_and_fast(c):
    unrotated, low, high = bands(c.truth)
    printed = all(map(agrees, numbers(c), (unrotated, high, low)))
    return printed and low < 0.05 + 1e-9 and high > 0.05 - 1e-9 and unrotated > 0.2


def directions(truth):
    """Return A2 and A4 of frequencies other than 0, and the share on more than one axis."""
    omega, shares, _ = truth
    moving = (np.abs(omega).max(axis=1) > 1e-12) & (shares > 1e-20)
    omega, shares = omega[moving], shares[moving] / shares[moving].sum()
    angle = np.arctan2(omega[:, -2], omega[:, -1])
    waves = [abs((shares * np.exp(1j * n * angle)).sum()) for n in (2, 4)]
    return *waves, shares[(np.abs(omega) > 1e-12).sum(axis=1) > 1].sum()


def is_along_one_axis(c):
    omega, shares, _ = c.truth
    return sum(shares[np.abs(axis) > 1e-12].sum() > 1e-11 for axis in omega.T) == 1


def is_along_the_axes(c):
    return directions(c.truth)[2] < 1e-11 and not is_along_one_axis(c)


def is_in_one_direction(c):
    a2, a4, diagonal = directions(c.truth)
    return a2 > 0.98 and a4 > 0.98 and diagonal > 1e-11


def is_in_two_directions(c):
    a2, a4, diagonal = directions(c.truth)
    return a4 > 0.98 and a2 < 0.99 and diagonal > 1e-11


def is_in_all_directions(c):
    return max(directions(c.truth)[:2]) < 0.16


def is_uneven(c):
    return 0.14 < max(directions(c.truth)[:2])


def common_part(c):
    (number,) = re.findall(r"([\d.]+)%", c.text)
    printed = float(number) / 100, c.text.startswith("more than")
    return agrees(printed, c.truth[2]) and c.truth[2] > 0.05 - 1e-9


def aliased(c):
    count, total = map(int, re.findall(r"\d+", c.text))
    omega = np.abs(c.answer.encodings[0].measure.frequencies).reshape(total, -1)
    return count == (omega.max(axis=1) > np.pi).sum()


def coarse(c):
    return c.answer.sigma * 8 > len(c.answer.density)


def demean_changes_the_verdict(c):
    return spectrum(without_mean(c.answer.encodings[0])).verdict not in ("constant", "zero codes")


VERDICTS = {
    "zero codes": lambda c: not c.answer.encodings[0].table().any(),
    "constant": is_constant,
    "one frequency": is_one_frequency,
    "few frequencies": is_few_frequencies,
    "even": is_even,
    "mostly slow": is_mostly_slow,
    "mostly fast": is_mostly_fast,
    "slow and fast": is_slow_and_fast,
    "constant and fast": is_constant_and_fast,
    "along one axis": is_along_one_axis,
    "along the axes": is_along_the_axes,
    "one direction": is_in_one_direction,
    "two directions": is_in_two_directions,
    "all directions": is_in_all_directions,
    "uneven directions": is_uneven,
}
FINDINGS = {"common-part": common_part, "aliased-frequencies": aliased, "coarse-lattice": coarse}
ACTIONS = {"constant": demean_changes_the_verdict}
WITHOUT = {"before-training": "a fact of the registry", "idle-waves": "a share of JSON's idle"}
WITHOUT["rotation-spectrum"] = "a fact of the encoding"
