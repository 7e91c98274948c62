"""What is wrong with this table? Mistakes known from public code, each with a way out.

A rule is a function that yields its findings about a `Case`; `RULES` lists all,
encodings/findings.toml says each in words, with its severity. Tables of files and of user code are
looked at: by their rows (repeated, zero, of unusual length), by the frequencies of their columns,
and by what is known of the formula they follow (`identify`).
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np

from pefourier.diagnosis.case import Case
from pefourier.diagnosis.identify import chosen_digits, to_digits
from pefourier.diagnosis.near_formulas import in_words, near_formula
from pefourier.encodings.columns import Layout, pair_columns
from pefourier.encodings.encoding import Finding, largest_number
from pefourier.encodings.findings import finding
from pefourier.files import read_toml
from pefourier.geometry.equal_rows import row_period
from pefourier.geometry.precision import FLOAT32_EPS, FORMATS, phase_rounding, rounded
from pefourier.geometry.randomness import numbers_look_random
from pefourier.geometry.singular_values import Factors
from pefourier.geometry.waves import recurrence
from pefourier.writing.text import first_few

BASES = Path(__file__).with_name("bases.toml")
SEVERITIES = ("error", "warning", "note")  # worst first
SHORT_EPS = 2.0**-10  # resolution of float16; bfloat16's is coarser
STILL = 1e-3  # radians over a table below which a pair does not turn


def constant_codes(case: Case) -> Iterator[Finding]:
    """One code for all positions."""
    if len(case.table) < 2 or case.closest.distinct > 1:
        return
    yield finding("constant-codes" if case.norms.any() else "zero-codes")


def counted_rows(case: Case) -> Iterator[Finding]:
    """A first column that numbers the rows, from 0 or 1 on, beside much smaller numbers."""
    (n, d), count = case.table.shape, case.table[:, 0]
    if n < 8 or d < 2 or count[0] not in (0, 1) or case.identified is not None:
        return
    if (count - count[0] == np.arange(n)).all() and largest_number(case.table[:, 1:]) < n / 4:
        yield finding("counted-rows")


def repeating_codes(case: Case) -> Iterator[Finding]:
    """Positions that share a code: from some row on, with a period, or here and there."""
    n, first = len(case.table), case.first
    again = np.flatnonzero((first != np.arange(n)) & (case.norms > 0))
    if len(again) == 0 or case.closest.distinct == 1:
        return
    start, period = int(first[-1]), case.period
    if n - start > 2 and (first[start:] == start).all() and len(again) == n - 1 - start:
        yield finding("clipped-index", start=start, n=n)
    elif period == n - 1 and case.identified is None and case.is_calendar:
        yield finding("ends-coincide", name="the table")
    elif period is not None and case.lag_zero is None and (len(again) > 1 or is_design(case)):
        more = ""
        if case.identified is not None:
            more = f"; {case.identified['encoding']} serves lengths up to {period}"
        elif case.is_calendar:
            more = ", as features of the time of day or week do by design"
        if case.inner != slice(0, n):
            more += ", but for rows of zeros at the ends"
        distinct = len(np.unique(first[case.inner]))
        if distinct < period:
            more += f"; within a period, {distinct} codes are distinct"
        which = "design" if is_design(case) else "table"
        yield finding("repeating-codes", which, period=period, more=more)
    elif case.lag_zero is not None:
        yield finding("rows-of-lags", middle=case.lag_zero, last=n - 1 - case.lag_zero)
    elif case.steps is not None:
        yield finding("duplicate-rows", "steps", steps=case.steps, distinct=case.closest.distinct)
    else:
        rows = first_few([f"{j} = {first[j]}" for j in again[:5]])
        told = {"again": len(again), "n": n, "rows": rows}
        form = format_of_positions(case)
        if form is not None:
            most = 2 ** FORMATS[form].digits
            yield finding("duplicate-rows", "positions", form=form, most=most, **told)
        else:
            in_step = case.eps >= SHORT_EPS and follow_waves(case, np.union1d(again, first[again]))
            yield finding("duplicate-rows", "waves" if in_step else "plain", **told)


def is_design(case: Case) -> bool:
    """Whether rows that repeat with a period do so on purpose."""
    return case.identified is not None or case.is_calendar


def format_of_positions(case: Case) -> str | None:
    """The format of 16 bits in which positions are one where rows are; None: neither.

    All of those must be, two rows at least, and no rows before: so much is no coincidence.
    """
    positions = np.arange(len(case.first))
    for name in ("bfloat16", "float16"):
        exact = 2 ** FORMATS[name].digits
        if (case.first[:exact] == positions[:exact]).all():
            near = rounded(positions, FORMATS[name])
            first_near = np.searchsorted(near, near)
            one = (case.first == case.first[first_near]).all()
            if one and (first_near != positions).sum() > 1:
                return name
    return None


def follow_waves(case: Case, rows: np.ndarray) -> bool:
    """Whether rows are what the waves around make of them: x(s+1) + x(s-1) = 2 cos ω x(s)."""
    omega = np.full(case.sample.shape[1], np.nan)
    if case.turning is not None:
        omega[case.turning.sines] = omega[case.turning.cosines] = case.turning.omega
    elif case.one_wave is not None:
        for at in case.one_wave.places:
            omega[at] = case.one_wave.omega
    known = np.flatnonzero(~np.isnan(omega))
    inner = rows[(rows > 0) & (rows < len(case.table) - 1)]
    if len(known) == 0:
        return False
    before, here, after = (
        np.asarray(case.table[inner + k], dtype=float)[:, known] for k in (-1, 0, 1)
    )
    apart = np.abs(before + after - 2 * np.cos(omega[known]) * here)
    return bool((apart <= 8 * case.eps * np.abs(case.sample).max()).all())


def phases_alone(case: Case) -> Iterator[Finding]:
    """Columns in straight lines from 0: phases whose sines and cosines were not taken."""
    if not case.of_phases:
        return
    omega = case.sample[1]
    yield finding("phases", most=omega.max(), least=omega.min())


def zero_rows(case: Case) -> Iterator[Finding]:
    """Rows of zeros that are not part of a formula: padding, or rows that were never used."""
    n = len(case.table)
    zero = np.array(case.params.get("zero_rows", np.flatnonzero(case.norms == 0)), dtype=int)
    explained = case.identified is not None and "zero_rows" not in case.params
    if case.is_calendar:  # whose marks may all be 0
        zero = zero[(zero < case.inner.start) | (zero >= case.inner.stop)]
    strange = case.lag_zero is not None or any(alternating_rows(case))
    if len(zero) in (0, n) or explained or strange:
        return
    if len(zero) > 1 and zero[0] == n - len(zero):
        yield finding("unused-tail", "zeros", first=zero[0], last=n - 1)
        return
    zero = zero[~ordinary_zeros(case, zero)]
    usual = set(zero.tolist()) <= {0, 1}
    if len(zero):
        yield finding("padding-row", "usual" if usual else "unusual", rows=in_words(zero))


def ordinary_zeros(case: Case, zero: np.ndarray) -> np.ndarray:
    """Which rows of zeros are codes like others: of sines at 0, of marks, or next to short ones."""
    if case.identified is not None:
        return np.zeros(len(zero), dtype=bool)
    live = np.flatnonzero(case.norms)
    codes = case.sample[case.norms[: len(case.sample)] > 0]
    if np.count_nonzero(codes) <= 0.75 * codes.size:
        return np.ones(len(zero), dtype=bool)
    at = np.searchsorted(live, zero)
    beside = np.minimum(*(case.norms[live[np.clip(at - k, 0, len(live) - 1)]] for k in (0, 1)))
    sines = case.one_wave is not None and case.one_wave.part == "sin"
    return (beside <= np.median(case.norms[live]) / 2) | (sines & (zero == 0))


def unused_tail(case: Case) -> Iterator[Finding]:
    """Rows at the end that are all less than half as long as all rows before."""
    norms = case.norms
    if len(norms) < 4 or case.identified is not None or not norms[-1]:
        return
    shortest = np.minimum.accumulate(np.where(norms > 0, norms, np.inf))[:-1]
    longest = np.maximum.accumulate(norms[::-1])[::-1][1:]
    drop = np.flatnonzero(longest < shortest / 2) + 1
    drop = drop[(drop > 1) & (drop < len(norms) - 1) & np.isfinite(shortest[drop - 1])]
    if len(drop):
        yield finding("unused-tail", "short", first=drop[0], last=len(norms) - 1)


def unusual_lengths(case: Case) -> Iterator[Finding]:
    """A few rows of quite another length than the others."""
    live = np.flatnonzero(case.norms)
    if len(live) < 8 or case.identified is not None:
        return
    norms = case.norms[live]
    median = np.median(norms)
    away = np.abs(norms - median)
    spread = max(np.median(away), 1e-9 * median)
    far = (away > 10 * spread) & ((norms > 2 * median) | (norms < median / 2))
    if 0 < far.sum() <= max(1, len(norms) // 50):
        rows = first_few([f"{s} ({case.norms[s] / median:.2g})" for s in live[far][:5]])
        yield finding("norm-outliers", rows=rows)


def alternating_rows(case: Case) -> Iterator[Finding]:
    """Sines in even rows, cosines in odd ones: x(t+2) + x(t-2) = 2 cos(2w) x(t) holds, not so
    x(t+1) + x(t-1) = 2 cos(w) x(t)."""
    if case.turning is None and len(case.sample) >= 8 and case.identified is None:
        (_, next_row), (_, next_but_one) = recurrence(case.sample, 1), recurrence(case.sample, 2)
        if next_row > 0.05 and next_but_one < 1e-3 + 4 * case.eps:
            yield finding("alternating-rows")


def mismatched_pairs(case: Case) -> Iterator[Finding]:
    """A sine and the cosine of its pair at different frequencies, whichever comes first."""
    rows = case.sample
    n, d = rows.shape
    if d < 4 or d % 2 or n < 8 or not rows[1:-1].any(axis=0).all():
        return
    start = np.abs(rows[0]) > 0.5 * np.abs(rows).max()
    cosine, rest = recurrence(rows, 1)
    turns = np.arccos(cosine)
    noise = (2 * case.eps + n * phase_rounding(turns, FLOAT32_EPS)) / n**0.5 + case.eps**2
    noise += max(rest - 4 * case.eps, 0)  # of decay: xpos
    noise *= np.abs(rows).max() / np.sqrt((rows**2).mean(axis=0))  # of sines at pi nothing is left
    error = noise / np.maximum(np.sin(turns), np.sqrt(noise))  # the cosine is flat at 0 and pi
    for layout in get_args(Layout):
        one, two = pair_columns(layout, d // 2)
        kinds = {tuple(set(start[part])) for part in (one, two)}  # sines start at 0, cosines not
        omega, slack = (np.stack([x[one], x[two]], axis=1) for x in (turns, error))
        fast = omega.min(axis=1) > 3 / n
        apart = np.abs(omega[:, 0] - omega[:, 1]) > 1e-3 * omega[:, 0] + slack.max(axis=1)
        apart &= fast
        enough = apart.sum() > fast.sum() / 2 or apart.sum() > 2
        if kinds == {(True,), (False,)} and rest < 1e-3 + 4 * case.eps and enough:
            k = int(np.argmax(apart))
            base = (omega[k, 1] / omega[k, 0]) ** -d
            told = {"columns": tuple(np.arange(d)[part][k] for part in (one, two)), "base": base}
            yield finding("mismatched-pairs", turns=omega[k], d=d, **told)
            return


def useless_frequencies(case: Case) -> Iterator[Finding]:
    """Pairs that hardly turn, and pairs that all turn alike."""
    if case.turning is None or case.closest.distinct == 1:
        return
    omega = case.turning.omega
    moving = omega[omega > 0]
    span = max(len(case.table), 128)
    still = moving[moving * span < STILL]
    steps = -np.diff(np.log(np.sort(moving)[::-1][:3]))
    if len(still) > len(omega) / 2:
        told = {"still": len(still), "pairs": len(omega), "least": STILL, "span": span}
        yield finding("dead-pairs", "still", **told)
    elif len(steps) == 2 and (np.abs(steps - 2) < 1e-3 + 4 * case.eps).all():
        yield finding("dead-pairs", "exponent")
    if len(moving) > 2 and np.ptp(moving) < 0.01 * moving.max() and len(moving) > len(omega) / 2:
        told = {"moving": len(moving), "pairs": len(omega), "turn": np.median(moving)}
        yield finding("single-frequency", **told)


def unusual_conventions(case: Case) -> Iterator[Finding]:
    """Parameters of a sinusoidal or rotary table that differ from the papers'."""
    p = case.params
    if case.identified is None or case.identified["encoding"] not in ("sinusoidal", "rope"):
        return
    if p.get("offset", 0) != 0 and "backwards" not in p:
        yield finding("offset", offset=p["offset"])
    if p.get("divisor", "d") != "d":
        yield finding("divisor", divisor=p["divisor"])
    if p.get("scale", 1.0) != 1.0:
        yield finding("scale", scale=p["scale"])
    if "step" in p:
        yield finding("step", step=p["step"])


def other_directions(case: Case) -> Iterator[Finding]:
    """Rows that run from the last position to the first, and positions below zero."""
    if "backwards" not in case.params:
        return
    n, first = len(case.table), case.params["offset"]
    if first == n - 1 or (case.identified["encoding"] == "dft" and first):
        yield finding("reversed-positions", first=first)
        return
    position = f"{first:g} - s" if first else "-s"
    yield finding("negative-positions", position=position)


def unusual_base(case: Case) -> Iterator[Finding]:
    """A base other than 10000; a power of ten next to it may be a slip."""
    if case.identified is None or case.identified["encoding"] not in ("sinusoidal", "rope"):
        return
    rho, known = case.params["rho"], read_toml(BASES)
    of_rope = case.identified["encoding"] == "rope"  # whose bases are many
    slips = known["lost"] + ([] if of_rope else known["near"])
    slip = next((one["why"] for one in slips if abs(rho / one["base"] - 1) <= one["within"]), "")
    if rho == 1e4 or (of_rope and not slip) or any(useless_frequencies(case)):
        return
    yield finding("base", "slip" if slip else "other", rho=rho, slip=slip)


def cosines_first(case: Case) -> Iterator[Finding]:
    """Rotary tables and timestep embeddings with cosines first cannot be told apart."""
    if case.identified and case.identified["encoding"] == "rope" and "part" not in case.params:
        yield finding("cosines-first")


def without_rounding(
    factors: Factors, identified: dict | None, eps: float = FLOAT32_EPS
) -> tuple[Factors, list[Finding]]:
    """Singular values counted above those of a table's differences from its formula, and a note.

    The largest difference is taken as three times their rms. A formula of which a number was read
    from the table differs from it by errors of reading, too, which say nothing of its rank; those
    of the scale are no more than a factor.
    """
    n, d = factors.n, factors.d
    worst = identified["max_difference"] if identified else 0.0
    rms = 0.0 if identified and numbers_read(identified, eps) else worst / 3
    counted = replace(factors, tolerance=max(factors.tolerance, rms * (n**0.5 + d**0.5)))
    if counted.rank == factors.rank:
        return factors, []
    told = {"rank": factors.rank, "left": counted.rank, "worst": worst}
    return counted, [finding("rank-of-rounding", extra=factors.rank - counted.rank, **told)]


def numbers_read(identified: dict, eps: float = FLOAT32_EPS) -> list[str]:
    """Parameters but the scale whose digits may be errors of reading, which a base's are not.

    >>> numbers_read({"params": {"rho": 40889.8, "step": [0.5, 1.234567], "scale": 0.123}})
    ['step']
    """
    digits = chosen_digits(eps)
    return [
        name
        for name, value in identified["params"].items()
        if name not in ("scale", "rho")
        and any(
            isinstance(x, float) and to_digits(x, digits) != x for x in np.ravel(value).tolist()
        )
    ]


def rounded_phases(case: Case) -> Iterator[Finding]:
    """Codes that follow a formula only as far as phases in float32 let them."""
    worst = case.identified["max_difference"] if case.identified else 0.0
    scale = np.abs(case.sample).max(initial=0.0)
    if worst > max(1e-4, 8 * case.eps) * scale:
        yield finding("rounded-phases", worst=worst)


def almost_a_formula(case: Case) -> Iterator[Finding]:
    """A formula that most rows follow and some do not, or that no row follows closely."""
    if case.identified is not None or any(useless_frequencies(case)) or case.closest.distinct == 1:
        return
    if row_period(case.first[:-1]) is not None:  # positions start anew, if more than once
        return
    yield from near_formula(case)


def stored_wider(case: Case) -> Iterator[Finding]:
    """Numbers with the digits of a format of 16 bits, in a wider one."""
    if case.eps > case.stored > 0:
        name = {FORMATS[n].digits: n for n in ("bfloat16", "float16")}[1 - int(np.log2(case.eps))]
        yield finding("stored-wider", form=name)


def dead_columns(case: Case) -> Iterator[Finding]:
    """Columns that are the same in all rows, where the others are not."""
    rows = case.sample
    if case.identified is not None or len(rows) < 4 or rows.shape[1] < 4:
        return
    top = np.abs(rows).max()
    still = (np.ptp(rows, axis=0) == 0) & (np.abs(rows[0]) < top)  # a slow cosine stays at the top
    if case.turning is not None:
        still &= rows[0] == 0
        still[np.append(case.turning.sines, case.turning.cosines)] = False
    if still.sum() in (0, len(still)) or case.closest.distinct == 1:
        return
    _, rest = recurrence(rows[:, ~still], 1)
    of_waves = rest < 1e-3 + 4 * case.eps and still.sum() <= max(1, rows.shape[1] // 8)
    of_waves &= not case.is_calendar  # half a period at each step is a sine of zeros
    named = first_few([f"{j} ({rows[0, j]:.3g})" for j in np.flatnonzero(still)])
    told = {"still": still.sum(), "columns": rows.shape[1], "named": named}
    yield finding("dead-columns", "waves" if of_waves else "others", **told)


def near_codes(case: Case) -> Iterator[Finding]:
    """Codes that are distinct by rounding alone, or that lie in a space of few dimensions."""
    n, d = case.table.shape
    if case.identified is not None or n < 2:
        return
    rms = np.sqrt((case.norms**2).mean())
    if 0 < case.closest.distance <= max(1e-6, 4 * case.eps) * rms:
        i, j = case.closest.pair
        stored = case.eps >= SHORT_EPS and follow_waves(case, np.array([i, j]))
        told = {"i": i, "j": j, "apart": case.closest.distance, "rms": rms}
        yield finding("near-duplicates", "stored" if stored else "free", **told)
    few = 0 < case.rank <= min(n, d) // 16
    if few and case.closest.distinct > 1 and not case.of_phases:
        yield finding("low-rank", d=d, rank=case.rank)


def random_codes(case: Case) -> Iterator[Finding]:
    """Numbers as they are drawn: no order of positions, and no frequency that stands out."""
    if case.identified is not None or case.closest.distinct < len(case.table):
        return
    if numbers_look_random(case.table):
        yield finding("random-codes")


RULES = (
    constant_codes,
    counted_rows,
    repeating_codes,
    phases_alone,
    zero_rows,
    unused_tail,
    unusual_lengths,
    alternating_rows,
    mismatched_pairs,
    useless_frequencies,
    unusual_base,
    unusual_conventions,
    other_directions,
    cosines_first,
    rounded_phases,
    stored_wider,
    dead_columns,
    almost_a_formula,
    near_codes,
    random_codes,
)
RULES_OF_POINTS = (constant_codes, unusual_lengths, random_codes)  # of a grid
