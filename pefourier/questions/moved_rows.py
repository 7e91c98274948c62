"""Recovery of the positions of the rows of a table of cosines and sines.

Conventions
-----------
Positions refer to the reference, counted from its row 0. The reference is a rotation, or a table
whose fitted frequencies explain all rows. For longrope, both lists of factors are tried for each
row. If positions explain the rows, no difference in frequency is reported.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pefourier.causes.pairs import (
    RowPositions,
    describe_runs,
    exchanged_waves,
    mistake_of,
    recover_positions,
    runs_of,
)
from pefourier.diagnosis.config_errors import SEARCHED, Cause, base_of_grid, list_at
from pefourier.encodings import load
from pefourier.encodings.attention_decay import positions_below
from pefourier.encodings.encoding import DeclaredEncoding, Encoding, Finding
from pefourier.encodings.families.rotary import rotation_of
from pefourier.encodings.findings import finding
from pefourier.geometry.precision import FLOAT32_EPS, first_duplicate
from pefourier.geometry.tolerance import Allowed
from pefourier.geometry.waves import Waves, fit
from pefourier.questions.outcome import Outcome, Two
from pefourier.types import Array, Bools, Fields, Indices, Places, Table, Texts
from pefourier.writing.text import ranges

PROBES = 8  # random directions in which rows are matched
LARGEST, WIDEST = 2**23, 2**10  # most numbers and columns of tables that are matched
FACTOR = 1e-3  # relative tolerance of the factors of tables
SAMPLE = 64  # rows tested before all rows are matched
FARTHEST = 2**17  # positions of a rotation that are searched, at least
BY_LENGTH = ("dynamic", "longrope")  # scalings whose frequencies depend on the length


def at_rows_of(enc: Encoding, counterpart: Encoding) -> Encoding:
    """Reload a rotation whose frequencies depend on the length at the length of a table."""
    rows, is_table = len(counterpart), counterpart.origin != "formula"
    if enc.params.get("scaling") not in BY_LENGTH or not is_table or not enc.spec:
        return enc
    return enc if rows == len(enc) else load(enc.spec, rows, enc.params["d"])


def length_note(enc: DeclaredEncoding) -> Finding:
    """Report which frequencies a length-dependent rotation has at its length."""
    facts = {"scaling": enc.params["scaling"], "rows": len(enc)}
    if enc.params["scaling"] == "dynamic":
        return finding(
            "read-at-length", "base", base=base_of_grid(enc.measure.frequencies), **facts
        )
    factors = list_at(enc.params, len(enc))
    return finding("read-at-length", "factors", factors=factors, **facts)


def compare_rows(outcome: Outcome, encodings: Two, pairs: tuple[Waves, Waves]) -> Outcome | None:
    """Add the position of each row of a table; None if positions do not explain the rows.

    Both orders of cosines and sines are tried, because the first row may not distinguish them.
    """
    for k in (0, 1):
        enc, reference, table = encodings[k], pairs[k], pairs[1 - k]
        is_table = table.form is not None and table.form.part == "both" and table.rows is None
        if not is_table or len(reference) != len(table) or not explains_rows(reference):
            continue
        for waves in (table, exchanged_waves(table)):
            rows = positions_in(enc, reference, waves)
            if rows is not None and has_columns_of(enc, reference, waves):
                return describe_rows(outcome, k, (reference, waves), *rows)
    return None


def explains_rows(reference: Waves) -> bool:
    """Whether the frequencies of the reference hold in all rows."""
    return reference.is_declared or (reference.residual is not None and bool(reference.even.all()))


def has_columns_of(enc: Encoding, reference: Waves, table: Waves) -> bool:
    """Whether the columns of both have the same order; for a rotation, the order is irrelevant.

    In a dump of a rotation, cosines must come first.
    """
    if enc.injection == "rotate":
        return not table.has_sines_first
    stored = (
        fit(enc.table(enc.domain.x[: 8 * SAMPLE]), enc.eps) if reference.is_declared else reference
    )
    return stored is not None and stored.form == table.form


def positions_in(
    enc: Encoding, reference: Waves, table: Waves
) -> tuple[RowPositions, NDArray[np.str_]] | None:
    """Find the positions of the rows of a table, and the list of longrope factors of each row.

    None if the reference does not explain the rows.
    """
    n, settings = table.length, enc.params
    eps = max(FLOAT32_EPS, reference.eps, table.eps)
    ways = {"": reference.frequency}
    if reference.is_declared and settings.get("scaling") == "longrope":
        lengths = {list_at(settings, length): length for length in (1, settings["original"] + 1)}
        ways = {name: rotation_of(settings, length)[0] for name, length in lengths.items()}
    start = reference.numbers(np.zeros(1, dtype=int)).conj() / reference.factor
    highest = max(8 * n, FARTHEST if reference.is_declared else 0, len(enc))
    sample = np.unique(np.linspace(0, n - 1, SAMPLE).astype(int))

    def recovered(rows: Places) -> list[RowPositions]:
        waves = table.numbers(rows) * start / table.factor
        return [recover_positions(w, waves, eps, -n - SAMPLE, highest) for w in ways.values()]

    explained = np.any([rows.explained for rows in recovered(sample)], axis=0)
    if explained.mean() < 0.5:
        return None
    by_way = recovered(np.arange(n))
    label = labels_of(np.array([rows.explained for rows in by_way]))
    parts = ("positions", "explained", "uncertainty")
    chosen = [
        np.array([getattr(rows, part) for rows in by_way])[label, np.arange(n)] for part in parts
    ]
    return RowPositions(*chosen), np.array(list(ways))[label]


def labels_of(explained: Bools) -> Places:
    """Choose one of several ways (w, n) for each row; ambiguous rows follow the next clear row.

    >>> labels_of(np.array([[True, True, False], [True, False, True]]))
    array([0, 0, 1])
    """
    label: Places = explained.argmax(axis=0)
    certain = np.flatnonzero(explained.sum(axis=0) == 1)
    if not len(certain):
        return label
    following = np.searchsorted(certain, np.arange(len(label)))
    nearest = label[certain[np.minimum(following, len(certain) - 1)]]
    fits = explained[nearest, np.arange(len(label))]
    labels: Places = np.where(fits, nearest, label)
    return labels


def describe_rows(
    outcome: Outcome,
    k: int,
    waves: tuple[Waves, Waves],
    rows: RowPositions,
    readings: NDArray[np.str_],
) -> Outcome | None:
    """Report what the positions of rows show; None if they show nothing.

    Rows on a line, such as reversed or divided positions, are left to other explanations.
    """
    s, (reference, table) = np.arange(len(rows.positions)), waves
    is_known, moved = rows.explained, rows.positions != s
    is_whole = is_known.all() and (readings == readings[0]).all()
    is_own = is_whole and not moved.any()
    is_frequency = table.residual is not None and table.even.all() and not is_known.all()
    is_line = np.array_equal(rows.positions, -s) or table.repeats > 1
    is_unsure = (is_known & moved & (rows.uncertainty > 0)).any() or is_known.mean() <= 0.5
    if is_frequency or is_line or is_own or is_unsure:
        return None
    outcome = replace(outcome, compared=without_vectors(outcome.compared))
    reading = with_rows(outcome, ("second", "first")[k], rows.positions, is_known, readings)
    step, omega = int(rows.positions[1]), reference.frequency
    if is_whole and (rows.positions == rows.positions[0] + s).all():
        offset = {"offset": int(rows.positions[0])}
        return replace(outcome, verdict="equivalent", transform=offset, positions=reading.positions)
    if is_whole and step > 1 and np.array_equal(rows.positions, step * s):
        below = positions_below(omega, step * omega, SEARCHED)
        cause = Cause("a" if k == 0 else "b", ("step",), {"positions": ("p", f"{step} p")}, below)
        reading = replace(reading, cause=cause)
    return reading


def with_rows(
    outcome: Outcome,
    table: str,
    positions: Indices,
    is_known: Bools,
    readings: NDArray[np.str_] | None = None,
    noun: str = "position",
) -> Outcome:
    """Build the outcome of rows with different positions, some possibly unknown."""
    s = np.arange(len(positions))
    readings = np.full(len(s), "") if readings is None else readings
    placed, names = s[is_known], list(dict.fromkeys(readings))
    cuts = np.flatnonzero(readings[placed][1:] != readings[placed][:-1]) + 1
    runs = [
        run
        for part in np.split(placed, cuts)
        for run in runs_of(
            part, positions[part], None, str(readings[part[0]]) if cuts.size else None
        )
    ]
    kind, facts = mistake_of(positions) if is_known.all() else ("stray", {})
    kind = "parts" if cuts.size else kind
    is_moved = (positions != s) | ~is_known
    differing = is_moved | (readings != names[-1])
    shown = slice(0, int(is_moved.argmax()) + 1 if kind == "rounded" else len(s))
    moves = runs if kind != "rounded" else runs_of(s[shown], positions[shown])
    facts |= {"moves": describe_runs(moves, noun), "table": table, "rows": ranges(s[~is_known])}
    transform: Fields = {}
    if is_known.all() and not cuts.size and np.array_equal(np.sort(positions), s):
        is_reversed = np.array_equal(positions, s[::-1])
        transform = {"rows": "reversed" if is_reversed else "in another order"}
    code = ("rows-moved", kind) if not transform else ("rows-reordered", "")
    return outcome.with_findings(finding(*code, **facts)).with_differences(
        "rows",
        int(differing.sum()),
        len(s),
        positions=tuple(runs),
        transform=transform,
        pairs=(),
        cause=None,
    )


def match_rows(outcome: Outcome, a: Table, b: Table, allowed: Allowed) -> Outcome:
    """Match each row of b to a row of a, if most rows match.

    The nearest rows are found by projection on a few random directions, which separate different
    rows, and are then compared in full.
    """
    if not is_matched(a):
        return outcome
    from scipy.spatial import KDTree  # slow import, rarely needed

    n, limits = len(a), allowed(np.arange(len(a)))
    a, b = (np.asarray(x, dtype=float) for x in (a, b))
    equal = np.all(np.abs(a - b) <= limits, axis=1)
    tried = {"rows": int((~equal).sum()), "n": n, "shift": max(1, n // 4)}
    directions = np.random.default_rng(0).standard_normal((a.shape[1], PROBES))
    nearest = KDTree(a @ directions).query(b @ directions)[1]
    near = np.abs(a[nearest] - b) <= limits[nearest]
    fits = equal | np.all(near, axis=1)
    rows = np.where(equal, np.arange(n), nearest)
    if fits.mean() <= 0.5 or equal[fits].all():
        return replace(outcome, tried=tried)
    leaders = first_duplicate(a)
    orders = [np.argsort(x, kind="stable") for x in (leaders, leaders[rows])]
    if fits.all() and (leaders[orders[0]] == leaders[rows][orders[1]]).all():
        rows[orders[1]] = orders[0]  # repeated rows are matched one to one
    return with_rows(outcome, "second", rows, fits, noun="row")


def is_matched(table: Array) -> bool:
    """Whether a table is small enough to match rows and columns."""
    return table.size <= LARGEST and table.shape[1] <= WIDEST


def without_vectors(compared: Texts) -> Texts:
    """Names of what was compared if rows are moved: the rotation, not the vectors."""
    names = [name for name in compared if name not in ("codes", "rotations", "factors")]
    return ("rotations", "factors", *names)


def compare_axes_of_rows(outcome: Outcome, first: Waves, second: Waves) -> Outcome | None:
    """Compare a table of tokens with a config that rotates pairs by image axes (t, y, x).

    None if these axes do not explain all rows. Positions show the kinds of tokens; a config does
    not show whether these are correct.
    """
    declared, table = (first, second) if first.axis else (second, first)
    is_table = table.form is not None and table.form.part == "both"
    if not declared.axis or not is_table or len(declared.frequency) != len(table):
        return None
    s, eps = np.arange(table.length), max(FLOAT32_EPS, declared.eps, table.eps)
    waves, limits = table.numbers(s) / table.factor, (-len(s) - SAMPLE, FARTHEST)
    axes = {}
    for name in dict.fromkeys(declared.axis):
        mine = np.array(declared.axis) == name
        axes[name] = recover_positions(declared.frequency[mine], waves[:, mine], eps, *limits)
        if not axes[name].explained.all():
            return None
    runs = [runs_of(s, rows.positions, name) for name, rows in axes.items()]
    kind = kind_of_tokens(np.array([rows.positions for rows in axes.values()]))
    texts = [f"{name}: {describe_runs(run)}" for name, run in zip(axes, runs, strict=True)]
    moves = describe_runs(runs[0]) if kind == "text" else "; ".join(texts)
    unsure = [f"{name} to {rows.uncertainty.max():.0f}" for name, rows in axes.items()]
    is_unsure = any(rows.uncertainty.any() for rows in axes.values())
    moves += f"; exact {', '.join(unsure)} positions" if is_unsure else ""
    outcome = outcome.with_findings(
        finding("axis-positions", kind, moves=moves),
        verdict="the same" if kind == "images" else "used differently",
        compared=without_vectors(outcome.compared),
        positions=tuple(run for of_axis in runs for run in of_axis),
    )
    is_scaled = abs(table.factor / declared.factor - 1) > max(FACTOR, eps)
    return with_factors(outcome, first.factor, second.factor) if is_scaled else outcome


def kind_of_tokens(positions: Places) -> str:
    """Classify positions (axes, n): text only, text and images in order, or going back.

    >>> kind_of_tokens(np.array([[0, 1, 1], [0, 1, 1], [0, 1, 2]]))
    'images'
    """
    if (positions == positions[0]).all():
        return "text"
    steps = np.diff(positions, axis=1)
    leading = np.take_along_axis(steps, (steps != 0).argmax(axis=0)[None], axis=0)
    return "images" if (leading > 0).all() else "back"


def with_factors(outcome: Outcome, first: float, second: float) -> Outcome:
    """Build the outcome of rotations that differ by the factor on cosines and sines."""
    changes = {"attention_factor": (first, second)}
    return outcome.with_differences("factors", 1, 1, cause=Cause("both", ("mscale",), changes, {}))
