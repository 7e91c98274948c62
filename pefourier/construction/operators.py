r"""Comparison of rotations by their effect on queries and keys: the matrices R(p).

Conventions
-----------
R(p) is a matrix (d, d) that acts on a query or a key of size d at position p; unrotated dimensions
keep their values. Scores depend only on :math:`S(p, s) = R_q(p)^\top R_k(s)`, which is therefore
compared: at all of the first positions and at some later positions, up to the last. If
:math:`S_B = P S_A P^\top` for a permutation P, row j of the input of B corresponds to row
``permutation[j]`` of A. Weights of A work in B with the rows of W_q and W_k in that order, in each
head.
"""

from collections.abc import Iterator
from dataclasses import field, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from pefourier.construction.explain import Named, explain
from pefourier.construction.mistakes import find_mistakes
from pefourier.construction.pairs import pairs_apart, recover_positions
from pefourier.construction.rows import Clamped, Divided, Rounded, agree
from pefourier.construction.steps import StepChanged, changed_steps, is_scaled
from pefourier.construction.waves import (
    LAYOUTS,
    Complex,
    Form,
    Waves,
    apart,
    declared,
    evaluate,
    follow_phases,
    position_offset,
)
from pefourier.encodings.encoding import (
    Encoding,
    columns_of_blocks,
    distinct,
    rotated_columns,
    without_prefix,
)
from pefourier.geometry.precision import FLOAT32_EPS, phase_errors
from pefourier.types import Bools, Counts, Fields, Floats, Places, frozen, frozen_arrays, later
from pefourier.writing.text import agreeing

FIRST = 32  # the first positions, which are all compared
ENTRIES = 2**20  # largest number of entries of the matrices of one operator
MATCHED = 2**13  # numbers used to match pairs
MOST_MATCHED = 2**11  # pairs of a head; for wider heads only named orders are tried
VECTORS = 16  # random queries and keys
SCALED = 1e-3  # relative to the factor; a larger change of size is not a rotation
Matrices = tuple[Floats, Floats]  # of queries and of keys, (n, d, d)
PairColumns = tuple[Places, Places]  # first and second rows, (m,)


@frozen
class OperatorComparison:
    """Result of comparing the effect of two rotations on queries and keys."""

    relation: Literal["same", "permuted", "different", "unknown"]
    permutation: Counts | None = None  # row j of the second is this row of the first
    name: str | None = None  # of the permutation, or of the part that it moves
    first_position: int | None = None  # first position tried at which scores differ
    max_score_difference: float | None = field(kw_only=True)  # of random unit queries and keys


def has_operator(enc: Encoding) -> bool:
    """Whether R(p) of an encoding is known, from a formula or from source code."""
    return enc.operator is not None or rotates_by_formula(enc)


def rotates(enc: Encoding) -> bool:
    """Whether an encoding rotates queries and keys, by a formula or by source code."""
    return enc.injection == "rotate" or enc.operator is not None


def rotates_by_formula(enc: Encoding) -> bool:
    """Whether an encoding rotates pairs whose columns and frequencies are known."""
    is_known = enc.params.get("layout") != "mismatched"
    return len(enc.measure) > 0 and enc.injection == "rotate" and is_known


def head_size(enc: Encoding) -> int:
    """The size of the vectors that a rotation acts on."""
    if not enc.domain.is_line:
        return enc.dim
    return max(int(enc.params.get("d") or enc.dim), enc.dim)


def operator_at(enc: Encoding, positions: Places) -> Matrices:
    """Return R(p) of queries and of keys (n, d, d) of an encoding that `has_operator`.

    Examples
    --------
    >>> from pefourier.encodings import load
    >>> query, _ = operator_at(load("rope", 8, 4), np.array([1]))
    >>> query[0].round(2)
    array([[ 0.54,  0.  , -0.84,  0.  ],
           [ 0.  ,  1.  ,  0.  , -0.01],
           [ 0.84,  0.  ,  0.54,  0.  ],
           [ 0.  ,  0.01,  0.  ,  1.  ]])
    """
    positions = np.asarray(positions)
    if enc.operator:
        return enc.operator(positions)
    queries, keys, pairs = rotating_pairs(enc, positions)
    d = head_size(enc)
    return rotation_matrices(queries, pairs, d), rotation_matrices(keys, pairs, d)


def rotating_pairs(enc: Encoding, positions: Places) -> tuple[Complex, Complex, PairColumns]:
    """Complex factors (n, m) of the pairs of queries and of keys, and the rows of the pairs."""
    phases = enc.measure.phases(enc.domain.places(enc.domain.x[positions]))
    phases = -phases if enc.params.get("backwards") else phases
    first, second = rotated_columns(enc)
    factor = float(enc.params.get("attention_factor", 1.0))
    behind = np.pi / 2 if enc.name == "rope++" else 0.0
    queries, keys = np.exp(1j * (phases - behind)), np.exp(1j * phases)
    if enc.inverse_keys or enc.name == "fope":
        rows = np.asarray(enc.vectors(enc.domain.x[positions]), dtype=float)
        waves = rows[:, first] + 1j * rows[:, second]
        if enc.name == "fope":  # sums over all frequencies
            queries = keys = waves
        else:  # keys shrink as queries grow
            queries, keys = queries * np.abs(waves), keys / np.abs(waves)
    if enc.params.get("trailing"):
        first, second = (columns + head_size(enc) - enc.dim for columns in (first, second))
    return factor * queries, factor * keys, (first, second)


def rotation_matrices(waves: Complex, pairs: PairColumns, d: int) -> Floats:
    """Matrices (n, d, d) that multiply pairs of columns with complex numbers (n, m)."""
    first, second = pairs
    matrices = np.broadcast_to(np.eye(d), (len(waves), d, d)).copy()
    matrices[:, first, first] = matrices[:, second, second] = waves.real
    matrices[:, second, first], matrices[:, first, second] = waves.imag, -waves.imag
    return matrices


@frozen_arrays
class ScoreRows:
    """S(p, 0), S(0, p) and S(p, p') at some positions: two entries per row, or all."""

    numbers: Complex  # (3, n, d): on the diagonal, and (imaginary) in the column of the partner
    partner: Places  # (d,), the row itself if it has no partner
    matrices: Floats | None = None  # (3, n, d, d), for source code, where any entry may be nonzero

    def apart(self, scores_b: "ScoreRows") -> Floats:
        """The largest difference of entries, (3, n)."""
        if self.matrices is not None and scores_b.matrices is not None:
            return np.asarray(np.abs(self.matrices - scores_b.matrices).max(axis=(2, 3)))
        a, b = self.numbers, scores_b.numbers
        elsewhere = np.maximum(apart(a, b.real.astype(complex)), apart(b, a.real.astype(complex)))
        is_shared = self.partner == scores_b.partner
        return np.asarray(np.where(is_shared, apart(a, b), elsewhere).max(axis=2))

    def permuted(self, order: Places) -> "ScoreRows":
        """Return scores with rows and columns in a different order."""
        matrices = None if self.matrices is None else self.matrices[:, :, order][..., order]
        partner = np.argsort(order)[self.partner[order]]
        return ScoreRows(self.numbers[..., order], partner, matrices)

    def of(self, query: Floats, key: Floats) -> Floats:
        """Return the scores (3, n) of a query and a key."""
        if self.matrices is not None:
            return self.matrices @ key @ query
        return (self.numbers.real * key + self.numbers.imag * key[self.partner]) @ query


def compare_operators(first: Encoding, second: Encoding) -> OperatorComparison | None:
    """Compare two rotations by the scores of queries and keys.

    The relation is unknown if one is a table. None if neither rotates.

    Examples
    --------
    >>> from pefourier.encodings import load
    >>> halves, beside = load("rope", 80, 8), load("rope:layout=interleaved", 80, 8)
    >>> found = compare_operators(halves, beside)
    >>> found.relation, found.name, found.permutation
    ('permuted', 'halves-to-neighbours', (0, 4, 1, 5, 2, 6, 3, 7))
    """
    acts = [has_operator(enc) for enc in (first, second)]
    if not all(acts):
        return OperatorComparison("unknown", max_score_difference=None) if any(acts) else None
    first, second = without_prefix(first), without_prefix(second)
    if head_size(first) != head_size(second):
        return OperatorComparison("different", max_score_difference=None)
    last, entries = min(len(first), len(second)) - 1, head_size(first)
    if first.operator or second.operator:  # all entries of matrices
        entries **= 2
    positions = sampled_positions(last, max(ENTRIES // entries, FIRST))
    a, b = scores(first, second, positions)
    tolerance = tolerances(first, second, positions)
    beyond = np.any(a.apart(b) > tolerance, axis=0)
    facts: Fields = {"max_score_difference": later(score_difference, a, b)}
    axes = [enc.params.get("mrope_section") for enc in (first, second)]
    images = None not in axes and axes[0] != axes[1]  # positions of text do not show this
    if not beyond.any():
        return OperatorComparison("different" if images else "same", **facts)
    facts["first_position"] = first_apart(first, second, positions, beyond)
    if not images:
        on_axes = any(not enc.domain.is_line for enc in (first, second))
        for name, order in permutations(a, b, tolerance, on_axes=on_axes):
            if not (a.permuted(order).apart(b) > tolerance).any():
                known = "reversed" if is_reversal(order, b.partner) else name
                return OperatorComparison("permuted", tuple(order.tolist()), known, **facts)
    return OperatorComparison("different", **facts)


@frozen
class KeysScaled(Named):
    """Queries or keys, and so all scores, are multiplied by a number."""

    by: float
    name = "keys-scaled"
    changed = "waves"
    says = "queries or keys multiplied by {c.by:g}"


@frozen
class KeysAhead(Named):
    """Keys have later positions than queries, by a number of positions."""

    by: int
    name = "keys-ahead"

    @property
    def words(self) -> str:
        """What was done."""
        noun = agreeing(abs(self.by), "position", "positions")
        return f"keys {abs(self.by)} {noun} {'ahead of' if self.by > 0 else 'behind'} queries"


@frozen
class Unrotated(Named):
    """Queries, keys or both are not rotated."""

    sides: str
    name = "unrotated"
    changed = "waves"
    says = "{c.sides} that are not rotated"


def explain_scores(expected: Encoding, observed: Encoding) -> tuple[Any, ...]:
    """Return all steps in which a function differs from a formula, if they give all scores.

    Steps are read from the rotations of queries and of keys. The scores that they give are then
    computed, and compared with those of the function at the sampled positions.
    """
    meant, d = declared(expected), head_size(expected)
    last = min(len(expected), len(observed)) - 1
    positions = sampled_positions(last, FIRST)
    both, unit = operator_at(observed, positions), np.eye(d)
    is_still = [bool(np.abs(x - unit).max() <= FLOAT32_EPS) for x in both]
    if all(is_still):
        return (Unrotated("queries and keys"),)
    queries, keys = (probe(observed, expected, side) for side in (0, 1))
    if any(is_still):  # the other side shows the rotation
        queries, keys = queries or keys, keys or queries
    if not (meant and queries and keys) or len(queries) != len(keys):
        return ()
    known = layouts_of(expected)
    if len(meant) != len(queries):
        known = {name: columns_of_blocks(name, [len(queries)]) for name in LAYOUTS}
    layouts = [name for name in known if np.array_equal(known[name], queries.columns)]
    is_apart = pairs_apart(meant, queries)[0].any()
    found = find_mistakes(expected, meant, queries) if is_apart else ()
    moves = moved_positions(meant, queries, positions) if is_apart and not found else ()
    causes: list[Any] = [*found, *moves]
    if not layouts or (is_apart and not causes) or (found and found[-1].angles):
        return ()
    places = positions
    for move in moves:
        places = move.apply(places)
    if any(is_still):
        causes.append(Unrotated("keys" if is_still[1] else "queries"))
    ahead = int(keys.moved - queries.moved)
    if ahead:
        causes.append(KeysAhead(ahead))
    ratio = queries.factor * keys.factor / meant.factor**2
    if (np.cos(keys.phase - queries.phase - queries.frequency * ahead) < 0).all():
        ratio = -ratio
    is_shared = not is_scaled(queries.factor, keys.factor, queries, keys)
    if scaled := [*changed_steps(meant, queries, (expected, observed))] if is_shared else []:
        causes += scaled
    elif is_scaled(1.0, ratio, queries, keys):
        causes.append(KeysScaled(float(f"{ratio:.6g}")))
    own = expected.params.get("layout", "halves")
    if own not in layouts:
        causes.append(StepChanged("layout", "columns", {"layout": (own, layouts[0])}))
    omega, divisor = (found[-1].omega, found[-1].divisor) if found else (meant.frequency, 1)
    sizes = (queries.factor, queries.factor) if any(is_still) else (ratio * meant.factor**2, 1.0)
    made = np.array([np.tile(unit, (len(positions), 1, 1))] * 2)
    for k, moved in ((0, 0), (1, ahead)):
        if not is_still[k]:
            phases = np.multiply.outer((places + moved) // divisor, omega)
            made[k] = rotation_matrices(evaluate(phases, sizes[k]), known[layouts[0]], d)
    residual = np.abs(score_matrices(*made) - score_matrices(*both))
    limit = tolerances(expected, observed, positions) * max(1.0, abs(ratio))
    return tuple(causes) if (residual.max(axis=(0, 2, 3)) <= limit).all() else ()


def moved_positions(meant: Waves, queries: Waves, positions: Places) -> tuple[Any, ...]:
    """Return what was done to positions from 0 on, if it gives the sinusoids of a function."""
    if queries.rows is None or queries.moved or len(meant) != len(queries):
        return ()
    rows = np.intersect1d(positions, queries.rows)
    waves, last = queries.numbers(rows) / queries.factor, int(positions[-1])
    places = recover_positions(meant.frequency, waves, max(queries.eps, FLOAT32_EPS), 0, last)
    if not places.explained.all():
        return ()
    kinds: tuple[Any, ...] = Divided, Clamped, Rounded
    return explain(rows, places.positions, kinds, agree, lambda *_: False).causes


def layouts_of(enc: Encoding) -> dict[str, PairColumns]:
    """Return the columns of the pairs of a formula, and of these pairs in other layouts."""
    own = rotated_columns(enc)
    others = {name: columns_of_blocks(name, [len(own[0])]) for name in LAYOUTS}
    return {enc.params.get("layout", "halves"): own} | others


def columns_that_fit(partner: Places, reference: Encoding) -> Iterator[PairColumns]:
    """Yield the columns of a formula's pairs in each layout that a measured rotation may have.

    `partner` is the measured partner of each row, or the row itself if its pair does not rotate.
    """
    rows = np.arange(len(partner))
    if not rotates_by_formula(reference) or head_size(reference) != len(rows):
        return
    for first, second in layouts_of(reference).values():
        paired = rows.copy()
        paired[first], paired[second] = second, first
        if ((partner == paired) | (partner == rows)).all():
            yield first, second


def is_reversal(order: Places, partner: Places) -> bool:
    """Whether an order of rows exchanges both rows of each pair, as the opposite sign does.

    >>> is_reversal(np.array([2, 3, 0, 1]), np.array([2, 3, 0, 1]))
    True
    """
    first = np.flatnonzero(np.arange(len(partner)) < partner)
    return len(first) > 0 and bool((order[first] > order[partner[first]]).all())


def sampled_positions(last: int, count: int) -> Places:
    """Return all of the first positions, and later positions with growing gaps.

    >>> sampled_positions(100, 36)
    array([  0,   1,   2,   3,   4,   5,   6,   7,   8,   9,  10,  11,  12,
            13,  14,  15,  16,  17,  18,  19,  20,  21,  22,  23,  24,  25,
            26,  27,  28,  29,  30,  31,  63,  64,  99, 100])
    """
    first = np.arange(min(FIRST, last + 1))
    powers = 2 ** np.arange(5, 40)
    far = np.concatenate([powers - 1, powers, [last - 1, last]])
    far = distinct(far[(far >= len(first)) & (far <= last)])
    return np.concatenate([first, far[-max(count - len(first), 2) :]])


def score_matrices(query: Floats, key: Floats) -> Floats:
    """Return S (3, n, d, d): with the key at 0, the query at 0, and the key half as far."""
    rotated, half = np.swapaxes(query, 1, 2), np.arange(len(query)) // 2
    return np.stack([rotated @ key[0], rotated[0] @ key, rotated @ key[half]])


def scores(first: Encoding, second: Encoding, positions: Places) -> list[ScoreRows]:
    """Compute S of two rotations: by pairs, or as matrices if one is source code."""
    if rotates_by_formula(first) and rotates_by_formula(second):
        return [scores_of_pairs(enc, positions) for enc in (first, second)]
    found, rows = [], np.arange(head_size(first))
    for enc in (first, second):
        matrices = score_matrices(*operator_at(enc, positions))
        partner = partners(matrices)
        beside = np.where(partner == rows, 0.0, matrices[..., rows, partner])
        found.append(ScoreRows(matrices[..., rows, rows] + 1j * beside, partner, matrices))
    return found


def scores_of_pairs(enc: Encoding, positions: Places) -> ScoreRows:
    """Compute S of a rotation with a formula from the complex factors of its pairs."""
    half, partner = np.arange(len(positions)) // 2, np.arange(head_size(enc))
    query, key, (first, second) = rotating_pairs(enc, positions)
    rotated = query.conj()
    waves = np.stack([rotated * key[0], rotated[0] * key, rotated * key[half]])
    numbers = np.ones((3, len(positions), len(partner)), complex)
    numbers[..., first], numbers[..., second] = waves.conj(), waves
    rotating = waves.imag.any(axis=(0, 1))
    partner[first[rotating]], partner[second[rotating]] = second[rotating], first[rotating]
    return ScoreRows(numbers, partner)


def tolerances(first: Encoding, second: Encoding, positions: Places) -> Floats:
    """Differences (n,) of entries of S that rounding explains."""
    eps = max(first.eps, second.eps)
    measures = (enc.measure for enc in (first, second) if enc.measure)
    omega = max((float(np.abs(x.frequencies).max()) for x in measures), default=1.0)
    return 16 * eps + 2 * phase_errors(positions, np.array([omega]), eps)[:, 0]


def score_difference(a: ScoreRows, b: ScoreRows) -> float:
    """The largest difference of scores of random unit queries and keys."""
    vectors = vectors_of(len(a.partner))
    vectors /= np.linalg.norm(vectors, axis=2, keepdims=True)
    return max(float(np.abs(a.of(q, k) - b.of(q, k)).max()) for q, k in zip(*vectors, strict=True))


def first_apart(first: Encoding, second: Encoding, positions: Places, beyond: Bools) -> int:
    """Halve the gap before the first tried position whose scores differ until it is closed."""
    k = int(beyond.argmax())
    good, bad = int(positions[k - 1]) if k else -1, int(positions[k])
    while bad - good > 1:
        middle = (good + bad) // 2
        tried = np.array([0, middle])
        a, b = scores(first, second, tried)
        is_apart = (a.apart(b)[:2] > tolerances(first, second, tried)).any()
        good, bad = (good, middle) if is_apart else (middle, bad)
    return bad


def permutations(
    a: ScoreRows, b: ScoreRows, tolerance: Floats, *, on_axes: bool
) -> Iterator[tuple[str | None, Places]]:
    """Yield candidate orders of rows between two operators, named orders first."""
    d, limit = len(a.partner), tolerance.max()
    cosines = [np.sort(x.numbers.real, axis=2) for x in (a, b)]  # must agree after sorting
    moving = int((np.ptp(a.numbers.real, axis=1) > limit).any(axis=0).sum())
    if not moving or (np.abs(cosines[0] - cosines[1]).max(axis=2) > tolerance).any():
        return
    if d % 2 == 0:
        neighbours = np.arange(d).reshape(2, -1).T.ravel()
        yield "halves-to-neighbours", neighbours
        yield "neighbours-to-halves", np.argsort(neighbours)
        yield "reversed", a.partner
    order = match_pairs(a, b)
    if order is not None:
        yield "axes-exchanged" if on_axes else None if moving == d else "partial", order


def partners(s: Floats) -> Places:
    """Return the row that each row is paired with, or the row itself if unpaired."""
    d = s.shape[-1]
    sizes = np.abs(s * (1 - np.eye(d))).max(axis=(0, 1))
    return np.where(sizes.max(axis=1) > 0, sizes.argmax(axis=1), np.arange(d))


def match_pairs(a: ScoreRows, b: ScoreRows) -> Places | None:
    """Find the order of rows that matches pairs of two operators; None if there is none."""
    from scipy.optimize import linear_sum_assignment

    indices, both = np.arange(len(a.partner)), (a, b)
    own, other = (np.flatnonzero(indices < x.partner) for x in both)
    is_paired = all((x.partner[x.partner] == indices).all() for x in both)
    if not is_paired or len(own) != len(other) or len(own) > MOST_MATCHED:
        return None
    step = max(1, len(own) * a.numbers.shape[1] // MATCHED)  # fewer positions of many pairs
    numbers, theirs = (
        x.numbers[:, ::-step, pairs].reshape(-1, len(pairs)).T
        for x, pairs in zip(both, (own, other), strict=True)
    )
    rows, columns = linear_sum_assignment(farthest(up(theirs), up(numbers)))
    turned = (theirs.imag[rows] * numbers.imag[columns]).sum(axis=1) < 0
    ends, matched = np.array([other, b.partner[other]])[:, rows], own[columns]
    order = np.empty(len(indices), dtype=int)
    order[indices == b.partner] = np.flatnonzero(indices == a.partner)
    order[np.where(turned, ends[::-1], ends)] = matched, a.partner[matched]
    return order


def up(waves: Complex) -> Floats:
    """Return cosines and the sizes of sines, which do not depend on the direction."""
    return np.hstack([waves.real, np.abs(waves.imag)])


def farthest(a: Floats, b: Floats) -> Floats:
    """Return the largest difference (n, m) of each row of a (n, k) from each of b (m, k)."""
    from scipy.spatial.distance import cdist

    return np.asarray(cdist(a, b, "chebyshev"))


def outputs_apart(first: Encoding, second: Encoding) -> tuple[float, Counts | None]:
    """Return the largest difference of rotated random normal vectors; 0 if within rounding.

    Also return the order of outputs that maps one to the other at the first positions, or None.
    """
    last, d = min(len(first), len(second)) - 1, head_size(first)
    positions = sampled_positions(last, max(ENTRIES // d**2, FIRST))
    vectors, limit = vectors_of(d)[0], tolerances(first, second, positions).max()
    matrices = [operator_at(enc, positions) for enc in (first, second)]
    largest = max(float(np.abs((a - b) @ vectors.T).max()) for a, b in zip(*matrices, strict=True))
    outputs = [queries[:FIRST].swapaxes(0, 1).reshape(d, -1) for queries, _ in matrices]
    residual = farthest(outputs[1], outputs[0])
    order = residual.argmin(axis=1).tolist()
    is_order = residual.min(axis=1).max() <= limit and len({*order}) == d
    return largest if largest > limit * d else 0.0, tuple(order) if is_order else None


def vectors_of(d: int) -> Floats:
    """Random normal queries and keys (2, n, d)."""
    return np.random.default_rng(0).standard_normal((2, VECTORS, d))


def probe(enc: Encoding, reference: Encoding, side: Literal[0, 1] = 0) -> Waves | None:
    """Measure the pairs of queries or of keys (side 1), in the order of a known rotation."""
    d, length = head_size(enc), len(enc)
    far = 2 ** np.arange(40)
    rows = np.append(0, far[far < length])
    sample = sampled_positions(length - 1, max(ENTRIES // d**2, FIRST))
    sampled_rows = np.union1d(rows, sample)
    rotated = operator_at(enc, sampled_rows)[side]
    partner = partners(rotated[None])
    if (partner == np.arange(d)).all() or length < 2:
        return None
    first = np.flatnonzero(np.arange(d) < partner)
    first, second = next(columns_that_fit(partner, reference), (first, partner[first]))
    numbers = rotated[:, first, first] + 1j * rotated[:, second, first]
    start, factor = np.angle(numbers[0]), float(np.abs(numbers[0]).max())
    again = rotated[:, second, second] - 1j * rotated[:, first, second]
    if max(np.ptp(np.abs(numbers)), np.abs(again - numbers).max()) > SCALED * factor:
        return None  # no rotation
    numbers = numbers * np.exp(-1j * start)
    omega = follow_phases(rows, np.angle(numbers[np.isin(sampled_rows, rows)]))
    moved = float(np.nan_to_num(position_offset(start, omega, FLOAT32_EPS)))

    row_of = partial(np.searchsorted, sampled_rows)
    amplitude = np.full(len(omega), factor)
    waves = Waves(omega, start, amplitude, lambda p: numbers[row_of(p)], length, enc.eps)
    facts: Fields = {"columns": np.array([first, second]), "moved": moved}
    return replace(waves, form=Form("both"), rows=sample, **facts)
