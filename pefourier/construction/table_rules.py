"""Rules for tables: mistakes known from public source code, each with advice.

A rule is a function that yields findings about `TableFacts`. `RULES` lists all rules, and
encodings/findings.toml holds the text and severity of each finding. Rules examine tables from files
and from user code: the rows (repeated, zero, of unusual length), the frequencies of the columns
(`wave_rules`), and the formula that all or most rows follow (`identify`).

Identify a table and find its mistakes, with the rules for lines or for grids.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from pefourier.construction.grid_rules import (
    GRID_RULES,
    GridFacts,
    identify_on_grid,
    remarks_on_formula,
    unusual_coordinates,
)
from pefourier.construction.identify import SHORT, Formula, Params, identify, propose_waves
from pefourier.construction.rows import explain_rows
from pefourier.construction.tables import nearest
from pefourier.construction.wave_rules import (
    SAMPLE,
    SEARCHED,
    TableFacts,
    aliased_frequencies,
    alternating_rows,
    dead_columns,
    divided_positions,
    irregular_frequencies,
    is_constant,
    mismatched_pairs,
    rounded_phases,
    unusual_conventions,
    useless_frequencies,
)
from pefourier.construction.waves import numbers_look_random, recurrence
from pefourier.encodings.encoding import (
    SEVERITIES,
    Encoding,
    Finding,
    finding,
    largest_number,
    without_prefix,
)
from pefourier.geometry.closest import ClosestPair, row_period
from pefourier.geometry.precision import FORMATS, rounded, stored_resolution
from pefourier.types import Bools, Fields, Indices, Places, Table
from pefourier.writing.text import agreeing, first_few, joined_runs

TILES = 8  # parts of a table that are tried separately, since others may have wrong rows
SHORT_EPS = 2.0**-10  # resolution of float16; bfloat16's is coarser
NO_ROTATION = ("lost-minus", "not-a-rotation", "queries-keys-differ")
UNTRAINED = ("untrained", "random-codes")  # explain all other findings


def constant_vectors(table: Table) -> Finding:
    """Return the finding for one vector at all positions, which may be zero or that of angle 0."""
    vector = table[0].astype(float)
    if not vector.any():
        return finding("zero-codes")
    sizes = np.sort(vector / vector.max() if vector.max() > 0 else vector)
    at_zero = np.arange(len(vector)) >= len(vector) // 2  # half sines, half cosines
    unrotated = len(vector) > 1 and np.allclose(sizes, at_zero, atol=1e-6)
    return finding("constant-codes", "still" if unrotated else "plain")


def counted_rows(facts: TableFacts) -> Iterator[Finding]:
    """Find a first column that counts the rows from 0 or 1, next to much smaller numbers."""
    (n, d), count = facts.table.shape, facts.table[:, 0].astype(float)
    if min(n / 4, d) < 2 or count[0] not in (0, 1) or facts.identified:
        return
    is_count = (count - count[0] == np.arange(n)).all()
    if is_count and largest_number(facts.table[:, 1:]) < n / 4:
        yield finding("counted-rows")


def repeating_vectors(facts: TableFacts) -> Iterator[Finding]:
    """Find positions that share a vector: a constant tail, a period, steps, or single rows."""
    n, first = len(facts.table), facts.first
    again = np.flatnonzero((first != np.arange(n)) & (facts.norms > 0))
    if len(again) == 0:
        return
    start, period = int(first[-1]), facts.period
    design = facts.identified or facts.is_calendar
    if n - start > 2 and (first[start:] == start).all() and len(again) == n - 1 - start:
        yield finding("clipped-index", start=start, n=n)
    elif period == n - 1 and not facts.identified and facts.is_calendar:
        yield finding("ends-coincide", name="the table")
    elif period is not None and not facts.lag_zero and (len(again) > 1 or design):
        distinct = len(np.unique(first[facts.inner]))
        variant = "design" if design else "table"
        yield finding("repeating-codes", variant, period=period, distinct=distinct)
    elif facts.lag_zero:
        yield finding("rows-of-lags", middle=facts.lag_zero, last=n - 1 - facts.lag_zero)
    elif facts.divisor:
        leaders = np.flatnonzero(first == np.arange(n))[:SAMPLE]
        waves = facts.are_waves(facts.table[leaders].astype(float))
        values = {"divisor": facts.divisor, "distinct": facts.closest.distinct}
        yield finding("positions-divided", "waves" if waves else "steps", **values)
    else:
        yield duplicate_rows(facts, again)


def duplicate_rows(facts: TableFacts, again: Indices) -> Finding:
    """Return the finding for single repeated rows, as 16-bit positions or sinusoids cause.

    Rounded positions are the cause if exactly the rows whose positions coincide in the format are
    equal, at least two of them, and no earlier rows.
    """
    first, positions = facts.first, np.arange(len(facts.table))
    rows = first_few([f"{j} = {first[j]}" for j in again[:5]])
    repeat = agreeing(len(again), "repeats", "repeat")
    values = {"again": len(again), "n": len(positions), "rows": rows, "repeat": repeat}
    if facts.mirror:
        return finding("duplicate-rows", "mirror", middle=facts.mirror, **values)
    for name in SHORT:
        exact, cast = 1 << FORMATS[name].digits, rounded(positions, FORMATS[name])
        as_cast = np.searchsorted(cast, cast)
        if (first[:exact] == positions[:exact]).all() and (as_cast != positions).sum() > 1:
            if (first == first[as_cast]).all():
                return finding("duplicate-rows", "positions", form=name, most=exact, **values)
    in_step = facts.eps >= SHORT_EPS and follow_waves(facts, np.union1d(again, first[again]))
    return finding("duplicate-rows", "waves" if in_step else "plain", **values)


def follow_waves(facts: TableFacts, rows: Indices) -> bool:
    """Whether rows continue the sinusoids around them: x(s+1) + x(s-1) = 2 cos ω x(s)."""
    d = facts.sample.shape[1]
    if d == 0 or len(facts.sample) < 8 or not facts.are_waves(facts.sample):
        return False
    inner = rows[(rows > 0) & (rows < len(facts.table) - 1)]
    before, here, after = (facts.table[inner + k, :d].astype(float) for k in (-1, 0, 1))
    distance = np.abs(before + after - 2 * recurrence(facts.sample, 1)[0] * here)
    close = distance <= 8 * facts.eps * np.abs(facts.sample).max()
    return bool(close.all())


def phases_alone(facts: TableFacts) -> Iterator[Finding]:
    """Find columns that are straight lines from 0: phases without sine and cosine."""
    if facts.of_phases:
        omega = facts.sample[1]
        yield finding("phases", most=omega.max(), least=omega.min())


def zero_rows(facts: TableFacts) -> Iterator[Finding]:
    """Find zero rows that are not part of a formula: padding, or rows that were never used."""
    n = len(facts.table)
    zero = np.array(facts.params.get("zero_rows", np.flatnonzero(facts.norms == 0)), dtype=int)
    explained = facts.identified and "zero_rows" not in facts.params
    if facts.is_calendar:  # binary columns may all be 0
        zero = zero[(zero < facts.inner.start) | (zero >= facts.inner.stop)]
    if len(zero) == 0 or explained or facts.lag_zero or any(alternating_rows(facts)):
        return
    if len(zero) > 1 and zero[0] == n - len(zero):
        yield finding("unused-tail", first=zero[0], last=n - 1)
        return
    zero = zero[~ordinary_zeros(facts, zero)]
    if len(zero):
        usual = set(zero.tolist()) <= {0, 1}
        yield finding("padding-row", "usual" if usual else "unusual", rows=row_names(zero))


def ordinary_zeros(facts: TableFacts, zero: Indices) -> Bools:
    """Return which zero rows are ordinary: sines at 0, binary columns, or next to short rows."""
    if facts.identified:
        return np.zeros(len(zero), dtype=bool)
    live = np.flatnonzero(facts.norms)
    if follow_waves(facts, np.clip(zero, 1, len(facts.table) - 2)):
        return np.ones(len(zero), dtype=bool)
    vectors = facts.sample[facts.norms[: len(facts.sample)] > 0]
    if np.count_nonzero(vectors) <= 0.75 * vectors.size:
        return np.ones(len(zero), dtype=bool)
    place = np.searchsorted(live, zero)
    shorter = np.minimum(*(facts.norms[live[np.clip(place - k, 0, len(live) - 1)]] for k in (0, 1)))
    return shorter <= np.median(facts.norms[live]) / 2


def almost_a_formula(facts: TableFacts) -> Iterator[Finding]:
    """Find a formula that most but not all rows follow, or that no row follows closely."""
    if facts.identified or any(useless_frequencies(facts)):
        return
    if row_period(facts.first[:-1]) is not None:  # positions restart, possibly several times
        return
    n = len(facts.table)
    for rows in runs_of_rows(facts):
        formula = propose_waves(facts.table, facts.level, rows)
        if not formula:
            continue
        worst, stray = formula.compare(facts.table, facts.level)
        if len(stray) == 0:  # within rounding, but not confirmed by `identify`
            return
        if len(stray) <= n / 2:
            repeated = facts.closest.distinct < n  # a finding of `repeating_codes`
            places = places_of_rows(facts, formula, stray)
            if places is None:
                in_front = len(stray) <= n / 8 and stray[-1] == len(stray) - 1
                variant = "known" if repeated else "tokens" if in_front else "alone"
                these = agreeing(len(stray), "this row differs", "these rows differ")
                values = {"rows": row_names(stray), "worst": worst, "words": these}
            else:
                variant, formula.params["offset"] = "again" if repeated else "moved", 0
                causes = explain_rows(np.arange(max(n, places.max() + 1)), places).causes
                words = " and ".join(cause.words for cause in causes)
                named = first_few(joined_runs(places.tolist(), " … "))
                values = {"rows": named, "words": words or "no cause that was tried gives them"}
            name = formula_name(formula.encoding, formula.params)
            yield finding("stray-rows", variant, formula=name, **values)
            return
    yield from transposed(facts)


def places_of_rows(facts: TableFacts, formula: Formula, stray: Indices) -> Places | None:
    """Return the positions of the formula of all rows (n,), if it gives the stray rows elsewhere.

    Every row is compared with the vector of its position. None for tables of many numbers.
    """
    n, offset = len(facts.table), formula.params.get("offset", 0)
    if facts.table.size > SEARCHED or offset % 1:
        return None
    places, tried = np.arange(n), np.arange(-int(offset), 2 * n)
    vectors = facts.table[stray].astype(float)
    places[stray] = tried[nearest(formula.vectors(tried), vectors)]
    is_found = formula.residual(places[stray], vectors, facts.level)[1].all()
    return places + int(offset) if is_found else None


def runs_of_rows(facts: TableFacts) -> Iterator[Bools]:
    """Yield sets of rows that may all be correct: distinct rows, halves, and eighths."""
    n = len(facts.table)
    s, distinct = np.arange(n), facts.first == np.arange(n)
    yield from (distinct, distinct & (s < n // 2), distinct & (s >= n // 2))
    if n >= 16 * TILES and facts.table.size <= SEARCHED:
        yield from (np.isin(s, tile) for tile in np.array_split(s, TILES))


def transposed(facts: TableFacts) -> list[Finding]:
    """Find a table (d, length) that follows a formula after transposing."""
    if facts.table.size > SEARCHED:
        return []
    identified = identify(facts.table.T, facts.eps)
    if not identified or identified["encoding"] not in ("sinusoidal", "rope", "dft"):
        return []
    d, n = facts.table.shape
    formula = formula_name(identified["encoding"], identified["params"])
    return [finding("transposed", formula=formula, n=n, d=d)]


def formula_name(encoding: str, params: Params) -> str:
    """Format the name and parameters of a formula."""
    return f"{encoding} ({', '.join(f'{k}={v}' for k, v in params.items())})"


def row_names(rows: Indices) -> str:
    """Format row numbers, with runs joined.

    >>> row_names(np.array([3, 5, 6, 7]))
    'rows 3, 5 … 7'
    """
    words = first_few(joined_runs(rows.tolist(), " … "))
    return f"rows {words}" if len(rows) > 1 else f"row {words}"


def near_vectors(facts: TableFacts) -> Iterator[Finding]:
    """Find vectors that only rounding separates, or that span few dimensions.

    Vectors that are distinct in bfloat16 are not reported, however close.
    """
    d = facts.table.shape[1]
    if facts.identified or not facts.closest.pair:
        return
    rms, (i, j) = np.sqrt((facts.norms**2).mean()), facts.closest.pair
    if 0 < facts.closest.distance <= max(1e-6, 4 * facts.eps) * rms:
        first, second = rounded(facts.table[[i, j]], FORMATS["bfloat16"])
        stored = facts.eps >= SHORT_EPS and follow_waves(facts, np.array([i, j]))
        if (first == second).all() and not stored:
            yield finding("near-duplicates", i=i, j=j, apart=facts.closest.distance, rms=rms)
    if 0 < facts.rank <= min(facts.closest.distinct, d) // 16 and not facts.of_phases:
        yield finding("low-rank", d=d, rank=facts.rank)


def random_vectors(facts: TableFacts) -> Iterator[Finding]:
    """Find random numbers: no order of positions and no dominant frequency."""
    if not facts.identified and facts.closest.distinct == len(facts.table):
        if numbers_look_random(facts.table):
            yield finding("random-codes")


RULES = (
    counted_rows,
    repeating_vectors,
    phases_alone,
    zero_rows,
    alternating_rows,
    mismatched_pairs,
    useless_frequencies,
    divided_positions,
    unusual_conventions,
    rounded_phases,
    dead_columns,
    almost_a_formula,
    near_vectors,
    random_vectors,
)


def diagnose(enc: Encoding, closest: ClosestPair, rank: int) -> tuple[Fields | None, list[Finding]]:
    """Identify a table (see `identify`) and return all findings about it, worst first.

    Only tables are identified: an encoding built by name has a known formula. A finding of
    untrained numbers comes before all others.

    Parameters
    ----------
    enc : Encoding
        The encoding, including rows before a grid; findings made while loading it are kept.
    closest, rank
        Results of `geometry.closest.closest_pair` and `decompose` without these rows.

    Examples
    --------
    >>> import numpy as np
    >>> from pefourier.encodings.encoding import from_table
    >>> from pefourier.geometry.closest import closest_pair
    >>> enc = from_table(np.ones((5, 4)))
    >>> diagnose(enc, closest_pair(enc), 1)[1][0].code
    'constant-codes'
    """
    identified, findings, behind = None, list[Finding](), enc.domain.prefix
    enc = without_prefix(enc)
    on_grid = not enc.domain.is_line
    if enc.domain.kind == "position" and (enc.injection == "add" or enc.origin == "formula"):
        if enc.origin == "formula":
            findings = [*remarks_on_formula(enc), *unusual_coordinates(enc)]
            if enc.name == "rope" and "inv_freq" in enc.params:
                findings += irregular_frequencies(enc.params["inv_freq"])
        else:
            identified, findings = diagnose_table(enc, closest, rank, behind)
            if behind and not on_grid:
                counted = f"; row 0 is the first after --prefix {behind}"
                findings = [replace(entry, message=entry.message + counted) for entry in findings]
        if not identified or on_grid:  # no frequency of an identified line is aliased
            findings += aliased_frequencies(enc)
    codes = {entry.code for entry in enc.findings} if on_grid else ()
    findings = [*enc.findings, *(entry for entry in findings if entry.code not in codes)]
    return identified, sorted(
        findings,
        key=lambda entry: -1 if entry.code in UNTRAINED else SEVERITIES.index(entry.severity),
    )


def diagnose_table(
    enc: Encoding, closest: ClosestPair, rank: int, behind: int
) -> tuple[Fields | None, list[Finding]]:
    """Identify a table and return the findings about it, by the rules for lines or for grids."""
    table, sides, grid = enc.table(), enc.domain.sides, None
    if any(entry.severity == "error" and entry.code in NO_ROTATION for entry in enc.findings):
        return None, []  # the operator on queries and keys is wrong, whatever the table
    eps, _ = stored_resolution(table[:SAMPLE], enc.eps)
    if len(sides) > 1:
        grid = GridFacts(table, sides, eps, closest, paired=enc.paired, prefix=behind)
    identified, findings = identify_on_grid(grid) if grid else (identify(table, eps), [])
    if is_constant(table):
        return identified, [constant_vectors(table)]
    facts = TableFacts(table, eps, identified, closest, rank)
    if grid:
        findings += [entry for rule in GRID_RULES for entry in rule(grid)]
    rules = (random_vectors, near_vectors)[: 1 + (grid.columns is None)] if grid else RULES
    findings += [entry for rule in rules for entry in rule(facts)]
    if enc.operator is not None and not identified and facts.pairs:
        order = np.argsort(facts.pairs.columns.min(axis=0))
        findings += irregular_frequencies(facts.pairs.frequency[order])
    return identified, findings
