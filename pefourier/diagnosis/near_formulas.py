"""Does a table nearly follow a formula? Rows that are left out, moved, stray; columns for rows."""

from collections.abc import Iterator

import numpy as np

from pefourier.diagnosis.case import Case
from pefourier.diagnosis.identify import (
    KNOWN,
    Formula,
    check_formula,
    coarse_grid,
    frequency_slack,
    guess_formula,
    identify,
    resolutions,
)
from pefourier.encodings.encoding import Finding
from pefourier.encodings.findings import finding
from pefourier.encodings.readings import positions_below
from pefourier.geometry.precision import FORMATS, rounded
from pefourier.geometry.waves import Turning, wrapped
from pefourier.writing.text import first_few, join, joined_runs

MANY, FEW = 8, 6  # waves of which a grid is no coincidence, and that are told one by one
COARSE = 2.0**-8  # of a number in bfloat16
SEARCHED = 2**21  # numbers of a table up to which other orders of its numbers are tried
OPEN = 0.5  # radians of a circle that a wave leaves out which orders rows
TRIED = 3  # waves by which rows are sorted
WAVES = ("sinusoidal", "rope", "dft")
WINDOWS = (64, 16)  # rows in which no row is left out, where only some are
TILES = 8  # windows of each size that are looked at
MOST_GAPS = 2**9  # in a series, up to which rows are looked for one gap after another
LONGEST_GAP = 2**12
TOLD = 64  # rows that tell which grid waves at uneven positions follow
RATIOS = np.geomspace(1.001, 100, 2**12)  # of frequencies of neighbouring waves


def near_formula(case: Case) -> Iterator[Finding]:
    """A formula that most rows follow and some do not, or all of them at other positions."""
    if (skipping := skipped_rows(case)) is not None:
        yield skipping
        return
    n, level = len(case.table), resolutions(case.eps)[-1]
    at, distinct = np.arange(n), case.first == np.arange(n)
    runs_of_rows = [distinct, distinct & (at < n // 2), distinct & (at >= n // 2)]
    runs_of_rows += [(at >= start) & (at < start + size) for start, size in windows(case)]
    for rows in runs_of_rows:
        guess = guess_formula(case.table, level, rows)
        if guess is None:
            continue
        worst, astray = check_formula(guess, case.table, level)
        formula = in_brackets(guess.encoding, guess.params)
        if len(astray) == 0:  # within rounding, though not proved by `identify`
            return
        if len(astray) <= n / 2:
            known = len(case.first) != len(np.unique(case.first))  # a finding of `repeating_codes`
            in_front = len(astray) <= n / 8 and astray[-1] == len(astray) - 1
            which = "known" if known else "tokens" if in_front else "alone"
            yield finding("stray-rows", which, rows=in_words(astray), formula=formula, worst=worst)
            return
    rules = (rows_for_columns, rows_in_disorder, uneven_positions)
    rules += (coarse_frequencies, free_frequencies)
    yield from next(filter(None, (rule(case) for rule in rules)), [])


def windows(case: Case) -> list[tuple[int, int]]:
    """Start and number of rows of some runs, of which a few wrong rows leave most untouched."""
    n = len(case.table)
    if n < 2 * WINDOWS[-1] or case.table.size > SEARCHED:
        return []
    fit = [size for size in WINDOWS if size <= n]
    return [(int(k), size) for size in fit for k in np.linspace(0, n - size, TILES)]


def skipped_rows(case: Case) -> Finding | None:
    """Rows of a formula in order, some of them left out, as of a series with gaps."""
    n, level = len(case.table), resolutions(case.eps)[-1]
    table = np.asarray(case.table, dtype=float)
    for start, size in windows(case):
        guess = guess_formula(table[start : start + size], level)
        if guess is None:
            continue
        later = places_of_rows(guess, table[start:], level, 1)
        earlier = later is not None and places_of_rows(guess, table[start::-1], level, -1)
        if earlier is False or earlier is None:
            continue
        places = np.concatenate([earlier[:0:-1], later])
        gaps = np.flatnonzero(np.diff(places) > 1) + 1
        if len(gaps) == 0:
            return None
        left_out, where = int(np.ptp(places)) - n + 1, f"before row {gaps[0]}"
        params = {k: v for k, v in guess.params.items() if k != "offset"}
        formula = in_brackets(guess.encoding, params)
        where = where if len(gaps) == 1 else f"in {len(gaps)} places, the first {where}"
        return finding("skipped-rows", formula=formula, left_out=left_out, where=where)
    return None


def places_of_rows(formula: Formula, codes: np.ndarray, eps: float, step: int) -> np.ndarray | None:
    """The row of a formula that each code is, each further on by a step; None: not all are one's.

    The first code is that of row 0.
    """
    places, start = step * np.arange(len(codes)), 0
    for _ in range(MOST_GAPS):
        bad = np.flatnonzero(other_than_formula(formula, places[start:], codes[start:], eps))
        if len(bad) == 0:
            return places
        start += int(bad[0])
        ahead = places[start] + step * np.arange(1, LONGEST_GAP)
        same = np.flatnonzero(~other_than_formula(formula, ahead, codes[start : start + 1], eps))
        if start == 0 or len(same) == 0:
            return None
        places[start:] += step * (same[0] + 1)
    return None


def other_than_formula(
    formula: Formula, s: np.ndarray, codes: np.ndarray, eps: float
) -> np.ndarray:
    """Is each of some codes another than a formula gives for its row, (len(s),)?"""
    difference, allowed = formula.differences(s, codes, eps)
    return (difference > allowed).any(axis=1)


def coarse_frequencies(case: Case) -> list[Finding]:
    """Frequencies of a usual grid, rounded to 16 bits before they met the positions."""
    if case.turning is not None:
        omega = np.sort(case.turning.omega)[::-1]
        level = resolutions(case.eps)[-1]
        slack = frequency_slack(omega, level, len(case.sample))
    elif case.one_wave is not None:
        omega, slack = case.one_wave.omega, case.one_wave.slack
    else:
        return []
    found = coarse_grid(omega, slack, 2 * len(omega))
    if found is None:
        return []
    form, rho, divisor = found
    half = len(omega) - (divisor != "d")
    exact = rho ** (-np.arange(len(omega)) / half)
    below = positions_below(exact, rounded(exact, FORMATS[form]))
    return [finding("coarse-frequencies", rho=rho, form=form, below=tuple(below.values()))]


def rows_for_columns(case: Case) -> list[Finding]:
    """A table (d, length), which is a formula's once it is transposed."""
    found = identify(case.table.T, case.eps) if case.table.size <= SEARCHED else None
    if found is None or found["encoding"] not in WAVES:
        return []
    d, n = case.table.shape
    formula = in_brackets(found["encoding"], found["params"])
    return [finding("transposed", formula=formula, n=n, d=d)]


def rows_in_disorder(case: Case) -> list[Finding]:
    """Rows of a formula in another order, which a wave that turns less than once tells."""
    n, circles = len(case.table), case.circles
    if circles is None or case.table.size > SEARCHED or case.closest.distinct < n:
        return []
    table = np.asarray(case.table, dtype=float)
    angles = np.arctan2(table[:, circles.sines], table[:, circles.cosines])
    around = np.sort(angles, axis=0)
    gaps = np.diff(np.vstack([around, around[:1] + 2 * np.pi]), axis=0)
    ends, open_ends = around[gaps.argmax(axis=0)[None], np.arange(len(gaps.T))][0], gaps.max(axis=0)
    for j in [j for j in np.argsort(open_ends) if open_ends[j] > OPEN][:TRIED]:
        order = np.argsort((angles[:, j] - ends[j] - 1e-9) % (2 * np.pi), kind="stable")
        found = identify(table[order], case.eps)
        if found is None or found["encoding"] not in WAVES:
            continue
        if "backwards" in found["params"]:
            order = order[::-1]
            found = identify(table[order], case.eps) or found
        moved = np.count_nonzero(order != np.arange(n))
        formula = in_brackets(found["encoding"], found["params"])
        return [finding("shuffled-rows", formula=formula, moved=moved, n=n)]
    return []


def uneven_positions(case: Case) -> list[Finding]:
    """Rows of a formula at positions no equal steps apart, each read from slow waves to fast ones.

    A wave's phase is a ratio times that of the next slower one; the fastest turns by one radian.
    """
    circles, level = case.circles, resolutions(case.eps)[-1]
    if circles is None or min(len(case.table), len(circles.omega) + 1) < 4:
        return []
    if case.table.size > SEARCHED:
        return []
    pairs = np.sort([circles.sines, circles.cosines], axis=0)
    sines, cosines = pairs[:, np.argsort(-pairs[0])]
    table = np.asarray(case.table, dtype=float)
    angles = np.arctan2(table[:, sines], table[:, cosines])
    phases = [np.unwrap(angles[:, 0])]
    apart = angles[:TOLD, 1] - np.multiply.outer(RATIOS, phases[0][:TOLD])
    ratio = RATIOS[np.abs(np.exp(1j * apart).sum(axis=1)).argmax()]
    for angle in angles.T[1:]:
        foreseen = ratio * phases[-1]
        phases.append(foreseen + wrapped(angle - foreseen, 2 * np.pi))
        ratio = phases[-2] @ phases[-1] / ((phases[-2] @ phases[-2]) or 1.0)
    s = phases[-1]
    turned = np.multiply.outer(np.arange(TOLD), np.array(phases) @ s / ((s @ s) or 1.0))
    even = np.zeros((TOLD, table.shape[1]))
    size = np.hypot(table[:, sines], table[:, cosines]).mean(axis=0)
    even[:, sines], even[:, cosines] = size * np.sin(turned), size * np.cos(turned)
    formula, steps = guess_formula(even, level), np.diff(s)
    if formula is None or np.ptp(steps) <= 8 * level * np.abs(s).max():
        return []
    if other_than_formula(formula, s, table, level).any():
        return []
    told = in_brackets(formula.encoding, formula.params)
    return [finding("uneven-positions", formula=told, least=steps.min(), most=steps.max())]


def free_frequencies(case: Case) -> list[Finding]:
    """Waves at frequencies that follow no grid, as far as rows tell."""
    waves, n = case.turning or case.one_wave, len(case.sample)
    if waves is None or n < 5 or case.is_calendar:
        return []
    if isinstance(waves, Turning):
        slack, what = frequency_slack(waves.omega, resolutions(case.eps)[-1], n), "turn in pairs"
    else:
        times = f"twice ({waves.layout})" if waves.layout else "once"
        wave = {"cos": "cosines", "sin": "sines"}[waves.part]
        slack, what = waves.slack, f"are {wave} alone, each {times}{lines_besides(case)}"
    if follow_grid(waves.omega, slack):
        return []
    if len(waves.omega) >= MANY and follow_grid(waves.omega, slack + COARSE * waves.omega):
        return [finding("free-frequencies", "rounded", what=what)]
    least = 0.0 if isinstance(waves, Turning) else 2 * np.pi / n  # a slope may look slower
    known = waves.omega[waves.omega > np.maximum(KNOWN * slack, least)]
    lengths = [f"{one:.4g}" for one in np.unique((2 * np.pi / known).round(6))]
    if len(lengths) > FEW:
        lengths = [f"{lengths[0]} to {lengths[-1]}"]
    told = f"of {join(lengths)} positions" if lengths else "of unknown lengths"
    return [finding("free-frequencies", "free", what=what, waves=told)]


def lines_besides(case: Case) -> str:
    """Columns that rise or fall evenly, as a sentence goes on: Time2Vec has one beside sines."""
    n = len(case.sample)
    sides = np.column_stack([np.ones(n), np.arange(n) / n])
    off = case.sample - sides @ np.linalg.lstsq(sides, case.sample, rcond=None)[0]
    even = np.abs(off).max(axis=0) <= 16 * case.eps * np.abs(case.sample).max(axis=0)
    lines = np.flatnonzero(even & (np.ptp(case.sample, axis=0) > 0))
    told = in_words(lines).replace("row", "column") if len(lines) else ""
    return f", but for what rises or falls evenly ({told})" if told else ""


def follow_grid(omega: np.ndarray, slack: np.ndarray) -> bool:
    """Whether frequencies may be a geometric grid, each as often as the others.

    Where fewer than three are known, any are.

    >>> follow_grid(np.array([1.0, 0.5, 0.25] * 2), np.full(6, 1e-3))
    True
    """
    order = np.argsort(-omega)
    omega, slack = omega[order], slack[order]
    divisors = [k for k in range(1, len(omega) + 1) if len(omega) % k == 0]
    alike = [k for k in divisors if (np.ptp(omega.reshape(-1, k), axis=1) <= slack[::k]).all()]
    omega, slack = omega[:: alike[-1]], slack[:: alike[-1]]
    known = omega > KNOWN * slack
    if known.sum() < 3:
        return True
    i, weight = np.flatnonzero(known), (omega / slack)[known]
    line = np.polynomial.Polynomial.fit(i, np.log(omega[known]), 1, w=weight)
    return bool((np.abs(np.exp(line(i)) - omega[known]) <= 4 * slack[known]).all())


def in_brackets(encoding: str, params: dict) -> str:
    """A formula by its name, with its parameters."""
    return f"{encoding} ({', '.join(f'{k}={v}' for k, v in params.items())})"


def in_words(rows: np.ndarray) -> str:
    """Row numbers with runs joined.

    >>> in_words(np.array([3, 5, 6, 7]))
    'rows 3, 5 … 7'
    """
    words = first_few(joined_runs(rows.tolist(), " … "))
    return f"rows {words}" if len(rows) > 1 else f"row {words}"
