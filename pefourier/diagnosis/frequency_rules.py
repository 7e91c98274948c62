"""Rules for frequencies: aliasing, and lists that follow no rule."""

from collections.abc import Iterator

import numpy as np

from pefourier.diagnosis.identify import resolutions
from pefourier.diagnosis.wave_formulas import (
    drop_copies,
    frequencies,
    frequency_slack,
    geometric_grid,
)
from pefourier.encodings.encoding import Encoding, Finding, Floats, without_prefix
from pefourier.encodings.findings import finding
from pefourier.encodings.places import axis_encodings
from pefourier.geometry.precision import Table, phase_rounding
from pefourier.geometry.waves import fit_columns, recurrence, unfold

FOLD = np.pi * (1 + 1e-9)  # radians from point to point, above which a frequency is aliased
ROWS = 32  # first rows, where phases in float32 keep digits of high frequencies
ROTATIONS = 5  # full rotations per row tried for the second-lowest frequency
KNOWN = 3  # frequencies below the fold needed to extrapolate those above
ROUNDED = 2.0**-7  # relative tolerance for frequencies in 16 bits
LARGEST_FACTOR = 1024  # largest ratio of two scale factors in a known scaling
SMALLEST_BASE = 1000  # of a model with a scaled rotation
WAVES = 1e-3  # relative residual of sinusoids, in addition to rounding
NOISE = 0.2  # largest residual of columns without a partner, whose phases were rounded


def aliased_frequencies(enc: Encoding) -> Iterator[Finding]:
    """Find frequencies above pi per point, declared or extrapolated from lower frequencies.

    Rows alone determine such a frequency only if it continues lower frequencies by one ratio.
    """
    enc = without_prefix(enc)
    if enc.domain.irregular or enc.domain.kind not in ("position", "time"):
        return
    if enc.measure is not None:
        omega = np.abs(enc.measure.frequencies).reshape(len(enc.measure.weights), -1).max(axis=1)
    elif enc.origin == "formula" or not enc.fits:
        return
    else:
        lines = axis_encodings(enc) if len(enc.domain.sides) > 1 else [enc]
        tables = [line.table(line.domain.x[:ROWS]) for line in lines or ()]
        omega = np.concatenate([np.zeros(0), *(ladder_of(rows, enc.eps) for rows in tables)])
    count = int((omega > FOLD).sum())
    if count:
        yield finding("aliased-frequencies", count=count, total=len(omega))


def ladder_of(table: Table, eps: float) -> Floats:
    """Fit geometric frequencies (m,) to the columns of a table; empty if they are not geometric.

    Frequencies rise or fall in the order of columns. Those above pi per row are unfolded, starting
    from the lowest frequencies.
    """
    rows = np.asarray(table[:ROWS], dtype=float)
    if len(rows) < 8 or rows.shape[1] < 4:
        return np.zeros(0)
    level = resolutions(eps)[-1]
    pairs = fit_columns(rows, level)
    if pairs is None:
        columns, noise = drop_copies(rows), NOISE
        omega = np.arccos(recurrence(columns, 1)[0])
    else:
        order = np.argsort(pairs.columns.min(axis=0))
        columns, omega, noise = rows[:, pairs.columns[1, order]], pairs.frequency[order], np.inf
    left, m = recurrence_residuals(columns), len(omega)
    for step in (1, -1) if m > KNOWN else ():
        folded, unlike = omega[::step], left[::step]
        if (unlike[: KNOWN + 1] >= WAVES + 4 * eps).any():
            continue
        for turns in range(-ROTATIONS, ROTATIONS + 1):
            second = 2 * np.pi * abs(turns) + (-1) ** (turns < 0) * folded[1]
            ladder = unfold(folded, second)
            slack = frequency_slack(ladder, level, len(rows))
            # phases of higher frequencies have no significant digits
            sharp = int(np.argmin(np.append(slack < np.pi / 8, False)))
            if sharp <= KNOWN or ladder[:sharp].max() <= np.pi:
                continue
            grid = geometric_grid(ladder[:sharp], slack[:sharp], 2 * m)
            exact = frequencies(grid, 2 * m) if grid else np.zeros(0)
            if grid and ("step" not in grid or (exact <= np.pi).sum() >= KNOWN):
                phases = 4 * phase_rounding(exact, level) * len(rows)
                if (unlike < WAVES + 4 * eps + np.minimum(phases, noise)).all():
                    return exact[::step]
    return np.zeros(0)


def recurrence_residuals(columns: Floats) -> Floats:
    """Return the relative residual of `recurrence` of each column."""
    cosine, _ = recurrence(columns, 1)
    apart = columns[2:] + columns[:-2] - 2 * cosine * columns[1:-1]
    norms = np.linalg.norm(columns, axis=0)
    residuals: Floats = np.linalg.norm(apart, axis=0) / np.where(norms > 0, norms, 1.0)
    return residuals


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
