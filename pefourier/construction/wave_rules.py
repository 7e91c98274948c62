"""Rules for the sinusoids of a table: mistakes in frequencies, pairs and conventions.

A rule is a function that yields findings about `TableFacts`: a table with shared facts, such as
repeated rows and the sinusoids in its columns. `table_rules.RULES` lists all rules.

Rules for frequencies: aliasing, and lists that follow no rule.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np

from pefourier.construction.identify import (
    Params,
    chosen_digits,
    frequencies,
    frequency_slack,
    geometric_grid,
)
from pefourier.construction.tables import shortest
from pefourier.construction.waves import LAYOUTS, Waves, copies_of, fit_columns, recurrence, unfold
from pefourier.encodings.encoding import (
    Encoding,
    Finding,
    axis_encodings,
    finding,
    split_pairs,
    without_prefix,
)
from pefourier.geometry.closest import ClosestPair, between_zeros, row_period
from pefourier.geometry.precision import FLOAT32_EPS, float_blocks, phase_rounding
from pefourier.geometry.singular_values import Factors
from pefourier.types import Fields, Floats, Indices, Table, frozen_arrays
from pefourier.writing.files import read_toml
from pefourier.writing.text import agreeing, first_few

FOLD = np.pi * (1 + 1e-9)  # radians from point to point, above which a frequency is aliased
ROWS = 32  # first rows, where phases in float32 keep digits of high frequencies
ROTATIONS = 5  # full rotations per row tried for the second-lowest frequency
KNOWN = 3  # frequencies below the fold needed to extrapolate those above
ROUNDED = 2.0**-7  # relative tolerance for frequencies in 16 bits
LARGEST_FACTOR = 1024  # largest ratio of two scale factors in a known scaling
SMALLEST_BASE = 1000  # of a model with a scaled rotation
ZERO_MEAN = 1e-6  # mean of sinusoids over whole periods, up to rounding
NOISE = 0.2  # largest residual of columns without a partner, whose phases were rounded
SAMPLE = 2**9  # rows whose columns are examined one by one
CYCLIC = 0.05  # residual of a sinusoid rounded to two decimals, as a share
CONSTANT = 1e-6  # largest difference of rows of a constant table, relative to the norm
SHARE = 1e-3  # relative residual of sinusoids, in addition to rounding
SEARCHED = 2**21  # numbers of a table up to which other orders of rows are tried
BASES = Path(__file__).with_name("bases.toml")
UNUSUAL = 1e9  # larger bases result from mistakes in exponents, and their digits do not show
PAPERS = {"offset": 0, "divisor": "d", "scale": 1.0, "step": 1.0}  # usual values: no finding
STILL = 1e-3  # radians over a table, below which a pair counts as not rotating


def aliased_frequencies(enc: Encoding) -> Iterator[Finding]:
    """Find frequencies above pi per point, declared or extrapolated from lower frequencies.

    Rows alone determine such a frequency only if it continues lower frequencies by one ratio.
    """
    enc = without_prefix(enc)
    if enc.domain.irregular or enc.domain.kind not in ("position", "time"):
        return
    if enc.measure:
        omega = np.abs(enc.measure.frequencies).reshape(len(enc.measure), -1).max(axis=1)
    elif enc.origin == "formula" or not enc.fits:
        return
    else:
        lines = axis_encodings(enc) if not enc.domain.is_line else [enc]
        ladders = (ladder_of(line.table(line.domain.x[:ROWS]), enc.eps) for line in lines or ())
        omega = np.concatenate([np.zeros(0), *ladders])
    count = (omega > FOLD).sum()
    if count:
        yield finding("aliased-frequencies", count=count, total=len(omega))


def ladder_of(table: Table, eps: float) -> Floats:
    """Fit geometric frequencies (m,) to the columns of a table; empty if they are not geometric.

    Frequencies rise or fall in the order of columns. Those above pi per row are unfolded, starting
    from the lowest frequencies.
    """
    rows = table[:ROWS].astype(float)
    if len(rows) < 8 or rows.shape[1] < 4:
        return np.zeros(0)
    level = max(eps, FLOAT32_EPS)
    pairs = fit_columns(rows, level)
    if pairs is None:
        layout, noise = copies_of(rows), NOISE
        columns = split_pairs(rows, layout)[0] if layout else rows
        omega = np.arccos(recurrence(columns, 1)[0])
    else:
        order = np.argsort(pairs.columns.min(axis=0))
        columns, omega, noise = rows[:, pairs.columns[1, order]], pairs.frequency[order], np.inf
    left, m = recurrence(columns, 1)[2], len(omega)
    for step in (1, -1) if m > KNOWN else ():
        folded, unlike = omega[::step], left[::step]
        if (unlike[: KNOWN + 1] >= SHARE + 4 * eps).any():
            continue
        for turns in range(-ROTATIONS, ROTATIONS + 1):
            second = 2 * np.pi * abs(turns) + (-1) ** (turns < 0) * folded[1]
            ladder = unfold(folded, second)
            slack = frequency_slack(ladder, level, len(rows))
            # phases of higher frequencies have no significant digits
            sharp = np.argmin(np.append(slack < np.pi / 8, False))
            if sharp <= KNOWN or ladder[:sharp].max() <= np.pi:
                continue
            grid = geometric_grid(ladder[:sharp], slack[:sharp], 2 * m)
            exact = frequencies(grid, 2 * m) if grid else np.zeros(0)
            if grid and ("step" not in grid or (exact <= np.pi).sum() >= KNOWN):
                phases = 4 * phase_rounding(exact, level) * len(rows)
                if (unlike < SHARE + 4 * eps + np.minimum(phases, noise)).all():
                    return exact[::step]
    return np.zeros(0)


def irregular_frequencies(omega: Floats) -> Iterator[Finding]:
    """Find rotation frequencies that follow no rule, as of a buffer that was never filled."""
    omega = np.abs(np.asarray(omega, dtype=float))
    if not follows_a_rule(omega):
        yield finding("irregular-frequencies", most=omega.max(), least=omega.min())


def follows_a_rule(omega: Floats) -> bool:
    """Whether frequencies are geometric, except one, or geometric divided by growing factors.

    Growing factors cover linear, ntk, yarn, llama3 and longrope scaling. Zeros and repeated
    frequencies, as on several axes, are ignored. The ratio is that of most pairs, or for longrope
    that of the smaller steps.

    >>> grid = 1e4 ** (-np.arange(32) / 32)
    >>> follows_a_rule(grid / np.linspace(1, 40, 32)), follows_a_rule(np.linspace(1, 0.1, 32))
    (True, False)
    """
    omega = np.array(list(dict.fromkeys(omega[omega > 0].tolist())))
    m = len(omega)
    if m < 3:
        return True
    logs, i = np.log(omega), np.arange(m)
    steps = -np.diff(logs)
    slope = np.median((logs[m // 2 :] - logs[: m - m // 2]) / (m // 2))
    residual = logs - slope * i
    if (np.abs(residual - np.median(residual)) > ROUNDED).sum() <= 1:
        return True
    ratio = np.quantile(steps, 0.25)
    growth = logs[0] - logs[-1] - ratio * (m - 1)
    is_falling = steps.min() > -ROUNDED and omega[0] <= 1 + ROUNDED
    return bool(
        is_falling and ratio * m >= np.log(SMALLEST_BASE) and growth <= np.log(LARGEST_FACTOR)
    )


@frozen_arrays
class TableFacts:
    """A table with facts that rules use."""

    table: Table
    eps: float
    identified: Fields | None
    closest: ClosestPair
    rank: int

    @property
    def params(self) -> Params:
        """Parameters of the identified formula."""
        return self.identified["params"] if self.identified else {}

    @property
    def level(self) -> float:
        """Resolution of the numbers, at best that of float32."""
        return max(self.eps, FLOAT32_EPS)

    @cached_property
    def norms(self) -> Floats:
        """Length of each row, shape (n,)."""
        return np.concatenate([row_norms(vectors) for _, vectors in float_blocks(self.table)])

    @cached_property
    def first(self) -> Indices:
        """Index of the first row equal to each row, shape (n,)."""
        first = self.closest.first
        return np.arange(len(self.table)) if first is None else first

    @cached_property
    def runs(self) -> Indices:
        """Sizes of the runs of rows, each starting with a new vector."""
        n = len(self.table)
        return np.diff(np.flatnonzero(self.first == np.arange(n)), append=n)

    @cached_property
    def mirror(self) -> int | None:
        """The row about which rows are mirrored, as far as both sides reach; None without a mirror.

        Each side has at least two rows, and no other rows share a vector.
        """
        n, first = len(self.table), self.first
        again = np.flatnonzero(first != np.arange(n))
        middle, odd = divmod(int(again[0] + first[again[0]]), 2) if len(again) else (0, 0)
        folded = not odd and 1 < middle < n - 2 and len(again) == min(middle, n - 1 - middle)
        return middle if folded and (first[again] == 2 * middle - again).all() else None

    @cached_property
    def lag_zero(self) -> int | None:
        """The row of lag 0 if rows are indexed by lag, otherwise None.

        Either both sides mirror each other and each column is monotonic on a side, as in ALiBi, or
        rows form runs that grow towards both ends, as in T5 (buckets) and Shaw et al. (clipping).
        In the second case, at least two runs in five have length 1.
        """
        n, first, sizes = len(self.table), self.first, self.runs
        if n < 5 or not (first != np.arange(n)).any():
            return None
        if self.mirror:
            middle = self.mirror
            far = self.table[middle:] if n > 2 * middle else self.table[middle::-1]
            steps = np.diff(far.astype(float), axis=0)
            return middle if ((steps <= 0).all(axis=0) | (steps >= 0).all(axis=0)).all() else None
        if len(sizes) < 3:
            return None
        outwards = sizes[len(sizes) // 2 : -1]  # the last run may be truncated
        in_runs = (np.diff(first) >= 0).all() and (sizes == sizes[::-1]).all() and len(sizes) % 2
        grows = outwards[:1] == 1 and (np.diff(outwards) >= -1).all() and (sizes == 1).mean() >= 0.4
        return n // 2 if in_runs and grows else None

    @cached_property
    def divisor(self) -> int | None:
        """Number of rows per distinct vector, except at the ends; None if it varies."""
        sizes = self.runs
        if len(sizes) < 4 or (np.diff(self.first) < 0).any() or np.ptp(sizes[1:-1]):
            return None
        return int(sizes[1]) if sizes[1] > 1 and sizes.max() == sizes[1] else None

    @cached_property
    def inner(self) -> slice:
        """Rows without the zero rows at both ends."""
        return between_zeros(self.table)

    @cached_property
    def period(self) -> int | None:
        """The period with which rows repeat, apart from zero rows at both ends."""
        inner = self.first[self.inner] - self.inner.start
        return row_period(inner) if len(inner) else None

    @cached_property
    def is_calendar(self) -> bool:
        """Whether rows repeat with a period and each column is a sinusoid or binary."""
        if not self.period:
            return False
        rows = np.asarray(self.table[self.inner][:SAMPLE], dtype=float)
        return self.are_waves(rows[:, ~np.isin(rows, (0.0, 1.0)).all(axis=0)], CYCLIC)

    def are_waves(self, rows: Floats, share: float = SHARE) -> bool:
        """Whether each column of some rows is one sinusoid."""
        return rows.shape[1] == 0 or recurrence(rows, 1)[1] < share + 4 * self.eps * (share < 0.01)

    @cached_property
    def of_phases(self) -> bool:
        """Whether columns are lines through 0 of different slopes."""
        rows = self.sample
        lines = np.outer(np.arange(len(rows)), rows[-1]) / max(len(rows) - 1, 1)
        is_line = len(rows) > 3 and (np.abs(rows - lines) <= 8 * self.level * lines).all()
        return bool(is_line and (lines[1] > 0).all() and np.ptp(lines[1]) > 0)

    @cached_property
    def sample(self) -> Floats:
        """The first rows, without trailing columns of zeros."""
        rows = self.table[:SAMPLE].astype(float)
        used = np.flatnonzero(rows.any(axis=0))
        return rows[:, : used[-1] + 1] if len(used) else rows[:, :0]

    @cached_property
    def pairs(self) -> Waves | None:
        """Pairs of columns that rotate by equal steps, within float32 rounding."""
        if len(self.sample) < 3 or self.sample.shape[1] < 4:
            return None
        pairs = fit_columns(self.sample, self.level)
        rotate = pairs and self.are_waves(self.sample[:, pairs.columns.ravel()])
        return pairs if rotate else None


def row_norms(vectors: Floats) -> Floats:
    """Return the length of each row; if squares underflow, its largest number.

    >>> row_norms(np.array([[3e-200, 0.0], [0.0, 0.0]]))
    array([3.e-200, 0.e+000])
    """
    norms: Floats = np.linalg.norm(vectors, axis=1)
    np.maximum(norms, np.abs(vectors).max(axis=1), out=norms)
    return norms


def is_constant(table: Table) -> bool:
    """Whether all rows equal the first to 1e-6 of its norm: the output ignores the position.

    >>> noise = 1e-7 * np.random.default_rng(0).normal(size=(9, 4))
    >>> is_constant(np.ones((9, 4)) + noise), is_constant(np.ones((9, 4)) + 1e3 * noise)
    (True, False)
    """
    start = table[0].astype(float)
    reach, blocks = CONSTANT * row_norms(start[None]), float_blocks(table)
    return len(table) > 1 and all((row_norms(rows - start) <= reach).all() for _, rows in blocks)


def alternating_rows(facts: TableFacts) -> Iterator[Finding]:
    """Find sines in even rows and cosines in odd rows.

    Such columns satisfy x(t+2) + x(t-2) = 2 cos(2w) x(t), but not x(t+1) + x(t-1) = 2 cos(w) x(t).
    """
    mostly_distinct = facts.closest.distinct > 0.75 * len(facts.table)
    if facts.pairs or len(facts.sample) < 8 or facts.identified or not mostly_distinct:
        return
    next_row, row_after = (recurrence(facts.sample, lag)[1] for lag in (1, 2))
    if next_row > 0.05 and row_after < SHARE + 4 * facts.eps:
        yield finding("alternating-rows")


def mismatched_pairs(facts: TableFacts) -> Iterator[Finding]:
    """Find pairs whose sine and cosine have different frequencies, in either order."""
    rows = facts.sample
    n, d = rows.shape
    if facts.pairs or d < 4 or d % 2 or n < 8:
        return
    cosine, residual, _ = recurrence(rows, 1)
    if residual >= SHARE + 4 * facts.eps:
        return
    is_cosine = np.abs(rows[0]) > 0.5 * np.abs(rows).max()  # only sines start at 0
    facts_of_columns = np.array([np.arccos(cosine), is_cosine, np.arange(d)])
    for layout in LAYOUTS:
        (a, first, i), (b, second, j) = split_pairs(facts_of_columns, layout)
        fast = np.minimum(a, b) > 3 / n
        differs = fast & (np.abs(a - b) > (SHARE + 8 * facts.eps) * a)
        if (first + second == 1).all() and not np.ptp(first) and differs.sum() > fast.sum() / 2:
            k = np.argmax(differs)
            base, columns = (b[k] / a[k]) ** -d, (int(i[k]), int(j[k]))
            roots = {"base": base, "root": np.sqrt(base)}
            yield finding("mismatched-pairs", turns=(a[k], b[k]), d=d, columns=columns, **roots)
            return


def useless_frequencies(facts: TableFacts) -> Iterator[Finding]:
    """Find pairs that hardly rotate, and tables whose pairs share one frequency."""
    if not facts.pairs:
        return
    omega = facts.pairs.frequency
    moving = omega[omega > 0]
    span = max(len(facts.table), 128)
    unrotated = moving[moving * span < STILL]
    steps = -np.diff(np.log(np.sort(moving)[::-1][:3]))
    count, pairs = len(unrotated), len(omega)
    if count > pairs / 2:
        yield finding("dead-pairs", "still", unrotated=count, pairs=pairs, least=STILL, span=span)
    elif len(steps) == 2 and (np.abs(steps - 2) < 1e-3 + 4 * facts.eps).all():
        yield finding("dead-pairs", "exponent")
    if len(moving) > max(2, pairs / 2) and np.ptp(moving) < 0.01 * moving.max():
        yield finding("single-frequency", moving=len(moving), pairs=pairs, turn=np.median(moving))


def divided_positions(facts: TableFacts) -> Iterator[Finding]:
    """Find positions divided by the frequencies, or multiplied so that frequencies exceed pi."""
    if facts.identified:
        return
    omega = ladder_of(facts.table, facts.eps)
    if not len(omega):
        return
    least, top = omega.min(), omega.max()
    if abs(least - 1) < 1e-3 and np.median(omega) > np.pi:
        yield finding(
            "aliased-waves", rho=(top / least) ** (len(omega) / (len(omega) - 1)), top=top
        )
    elif omega[0] == top > np.pi:
        yield finding("step", step=shortest(top, 8 * facts.eps))


def unusual_conventions(facts: TableFacts) -> Iterator[Finding]:
    """Find parameters of a sinusoidal, rotary or DFT table that differ from the papers."""
    name, p = (facts.identified or {}).get("encoding"), facts.params
    backwards = "backwards" in p
    if name in ("sinusoidal", "rope"):
        rho, known = p["rho"], read_toml(BASES)
        errors = known["lost"] + ([] if name == "rope" else known["near"])
        slip = next((s["why"] for s in errors if abs(rho / s["base"] - 1) <= s["within"]), "")
        # rotary bases vary
        if rho != 1e4 and (slip or name != "rope") and not any(useless_frequencies(facts)):
            yield finding("base", "slip" if slip else "other", rho=rho, slip=slip)
        for key, usual in PAPERS.items():
            value = p.get(key, usual)
            if value != usual and not (key == "offset" and backwards):
                shift = f" {'-' if p.get('offset', 0) < 0 else '+'} {abs(p.get('offset', 0)):g}"
                yield finding(key, **{key: value, "shift": shift})
    if backwards:
        is_end = p["offset"] == len(facts.table) - 1 or (name == "dft" and p["offset"])
        yield finding("reversed-positions" if is_end else "negative-positions", first=p["offset"])
    if name == "rope" and "part" not in p:
        yield finding("cosines-first")


def without_rounding(
    factors: Factors, identified: Fields | None, eps: float = FLOAT32_EPS
) -> tuple[Factors, list[Finding]]:
    """Raise the rank's tolerance above the difference of a table from its formula, with a note.

    The largest difference is assumed to be three times the rms. If a parameter of the formula was
    fitted to the table, the tolerance stays as it is: the difference also contains the error of
    the fit, which does not affect the rank. A fitted scale is only a factor.
    """
    if not identified or identified.get("changes"):
        return factors, []
    worst, params, digits = identified["max_difference"], identified["params"], chosen_digits(eps)
    values = chain(*(np.ravel(v).tolist() for k, v in params.items() if k not in ("scale", "rho")))
    is_fitted = any(isinstance(x, float) and float(f"{x:.{digits}g}") != x for x in values)
    if is_fitted or params.get("rho", 0.0) > UNUSUAL:
        return factors, []
    least = worst / 3 * (factors.n**0.5 + factors.d**0.5)
    counted = replace(factors, tolerance=max(factors.tolerance, least))
    rank, left = factors.rank, counted.rank
    extra, come = rank - left, agreeing(rank - left, "comes", "come")
    noted = finding("rank-of-rounding", rank=rank, left=left, worst=worst, extra=extra, come=come)
    return (counted, [noted]) if extra else (factors, [])


def rounded_phases(facts: TableFacts) -> Iterator[Finding]:
    """Find tables that follow a formula only within the error of float32 phases."""
    worst = facts.identified["max_difference"] if facts.identified else 0.0
    if worst > max(1e-4, 8 * facts.eps) * np.abs(facts.sample).max(initial=0.0):
        yield finding("rounded-phases", worst=worst)


def dead_columns(facts: TableFacts) -> Iterator[Finding]:
    """Find columns that are constant while others vary.

    A constant column or pair with the amplitude of the others is no finding: it is a cosine, or a
    pair, of a frequency too low to show.
    """
    rows = facts.sample
    if facts.identified or len(rows) < 4 or rows.shape[1] < 4:
        return
    unrotated, slack = np.ptp(rows, axis=0) == 0, 1e-3 + 4 * facts.eps
    if facts.pairs:
        height = facts.pairs.amplitude
        rotating = np.abs(height - np.median(height)) <= 10 * slack * height
        unrotated[facts.pairs.columns[:, rotating]] = False
    else:
        top = np.abs(rows[:, ~unrotated]).max(initial=0.0)
        unrotated &= np.abs(np.abs(rows[0]) - top) > slack * top
    is_basis = unrotated.sum() == 1 and rows[0, unrotated].any()  # Fourier's constant vector
    is_basis &= (np.abs(rows[:, ~unrotated].mean(axis=0)) <= ZERO_MEAN).all()
    if unrotated.sum() in (0, len(unrotated)) or is_basis:
        return
    waves = facts.are_waves(rows[:, ~unrotated]) and unrotated.sum() <= max(1, rows.shape[1] // 8)
    waves &= not facts.is_calendar  # a sine at pi per step is all zeros
    names = first_few([f"{j} ({rows[0, j]:.3g})" for j in np.flatnonzero(unrotated)])
    are = agreeing(unrotated.sum(), "is", "are")
    values = {"unrotated": unrotated.sum(), "columns": rows.shape[1], "named": names, "are": are}
    yield finding("dead-columns", "waves" if waves else "others", **values)
