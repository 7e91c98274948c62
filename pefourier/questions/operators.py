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
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeGuard

import numpy as np

from pefourier.encodings.columns import rotated_columns
from pefourier.encodings.domain import distinct
from pefourier.encodings.encoding import (
    DeclaredEncoding,
    Encoding,
    OperatorEncoding,
    without_prefix,
)
from pefourier.errors import PefourierError, shown
from pefourier.geometry.precision import FLOAT32_EPS, phase_errors
from pefourier.geometry.waves import Complex, Form, Waves, follow_phases, position_offset
from pefourier.types import Bools, Counts, Fields, Floats, Places

FIRST = 32  # the first positions, which are all compared
ENTRIES = 2**20  # largest number of entries of the matrices of one operator
MATCHED = 2**13  # numbers used to match pairs
MOST_MATCHED = 2**11  # pairs of a head; for wider heads only named orders are tried
BETWEEN = 16  # positions per step of the search for the first difference
VECTORS = 16  # random queries and keys
SCALED = 1e-3  # relative to the factor; a larger change of size is not a rotation
Matrices = tuple[Floats, Floats]  # of queries and of keys, (n, d, d)
Pairs = tuple[Places, Places]  # first and second rows, (m,)


@dataclass(frozen=True)
class OperatorComparison:
    """Result of comparing the effect of two rotations on queries and keys."""

    relation: Literal["same", "permuted", "different", "unknown"]
    permutation: Counts | None = None  # row j of the second is this row of the first
    name: str | None = None  # of the permutation, or of the part that it moves
    first_position: int | None = None  # first position tried at which scores differ
    max_score_difference: float | None = None  # of random unit queries and keys


def has_operator(enc: Encoding) -> bool:
    """Whether R(p) of an encoding is known, from a formula or from source code."""
    return isinstance(enc, OperatorEncoding) or rotates_by_formula(enc)


def rotates(enc: Encoding) -> bool:
    """Whether an encoding rotates queries and keys, by a formula or by source code."""
    return enc.injection == "rotate" or isinstance(enc, OperatorEncoding)


def rotates_by_formula(enc: Encoding) -> TypeGuard[DeclaredEncoding]:
    """Whether an encoding rotates pairs whose columns and frequencies are known."""
    is_known = enc.name != "pope" and enc.params.get("layout") != "mismatched"
    return isinstance(enc, DeclaredEncoding) and enc.injection == "rotate" and is_known


def head_size(enc: Encoding) -> int:
    """The size of the vectors that a rotation acts on."""
    if len(enc.domain.sides) > 1:
        return enc.dim
    return max(int(enc.params.get("d") or enc.dim), enc.dim)


def operator_at(enc: Encoding, positions: Places) -> Matrices:
    """Return R(p) of queries and of keys at some positions, each (n, d, d).

    Raises
    ------
    PefourierError
        If the encoding is neither a rotation with a formula nor source code that rotates.

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
    if isinstance(enc, OperatorEncoding):
        return enc.operator(positions)
    if not rotates_by_formula(enc):
        raise PefourierError(
            f"{shown(enc.spec)} is a table or is added to embeddings, so it has no R(p); pass a "
            "rotation, a config, or source code that rotates queries and keys"
        )
    queries, keys, pairs = rotating_pairs(enc, positions)
    d = head_size(enc)
    return rotation_matrices(queries, pairs, d), rotation_matrices(keys, pairs, d)


def rotating_pairs(enc: DeclaredEncoding, positions: Places) -> tuple[Complex, Complex, Pairs]:
    """Complex factors (n, m) of the pairs of queries and of keys, and the rows of the pairs."""
    phases = enc.measure.phases(enc.domain.places(enc.domain.x[positions]))
    phases = -phases if enc.params.get("backwards") else phases
    first, second = rotated_columns(enc)
    if enc.params.get("trailing"):
        first, second = (columns + head_size(enc) - enc.dim for columns in (first, second))
    factor = float(enc.params.get("attention_factor", 1.0))
    growing = growth(enc, positions)
    behind = np.pi / 2 if enc.name == "rope++" else 0.0
    queries, keys = growing * np.exp(1j * (phases - behind)), np.exp(1j * phases) / growing
    if enc.name == "fope":
        rows = enc.vectors(enc.domain.x[positions])  # sums over all frequencies
        queries = keys = rows[:, first] + 1j * rows[:, second]
    return factor * queries, factor * keys, (first, second)


def growth(enc: DeclaredEncoding, positions: Places) -> Floats:
    """Factor (n, m) of queries in each pair, whose inverse multiplies keys (xpos)."""
    if not enc.inverse_keys:
        return np.ones((len(positions), len(enc.measure.frequencies)))
    rows = np.asarray(enc.vectors(enc.domain.x[positions]), dtype=float)
    first, second = rotated_columns(enc)
    sizes: Floats = np.hypot(rows[:, first], rows[:, second])
    return sizes


def rotation_matrices(waves: Complex, pairs: Pairs, d: int) -> Floats:
    """Matrices (n, d, d) that multiply pairs of columns with complex numbers (n, m)."""
    first, second = pairs
    matrices = np.broadcast_to(np.eye(d), (len(waves), d, d)).copy()
    matrices[:, first, first] = matrices[:, second, second] = waves.real
    matrices[:, second, first], matrices[:, first, second] = waves.imag, -waves.imag
    return matrices


@dataclass(frozen=True, eq=False)
class ScoreRows:
    """S(p, 0), S(0, p) and S(p, p') at some positions: two entries per row, or all."""

    diagonal: Floats  # (3, n, d)
    off_diagonal: Floats  # (3, n, d), at the column of the row's partner
    partner: Places  # (d,), the row itself if it has no partner
    matrices: Floats | None = None  # (3, n, d, d), for source code, where any entry may be nonzero

    def apart(self, scores_b: "ScoreRows") -> Floats:
        """The largest difference of entries, (3, n)."""
        largest: Floats
        if self.matrices is not None and scores_b.matrices is not None:
            largest = np.abs(self.matrices - scores_b.matrices).max(axis=(2, 3))
            return largest
        sizes = np.maximum(np.abs(self.off_diagonal), np.abs(scores_b.off_diagonal))
        shared = self.partner == scores_b.partner
        differences = np.where(shared, np.abs(self.off_diagonal - scores_b.off_diagonal), sizes)
        largest = np.maximum(np.abs(self.diagonal - scores_b.diagonal), differences).max(axis=2)
        return largest

    def permuted(self, order: Places) -> "ScoreRows":
        """Return scores with rows and columns in a different order."""
        matrices = None if self.matrices is None else self.matrices[:, :, order][..., order]
        partner = np.argsort(order)[self.partner[order]]
        return ScoreRows(
            self.diagonal[..., order], self.off_diagonal[..., order], partner, matrices
        )

    def of(self, query: Floats, key: Floats) -> Floats:
        """Return the scores (3, n) of a query and a key."""
        if self.matrices is not None:
            return self.matrices @ key @ query
        return (self.diagonal * key + self.off_diagonal * key[self.partner]) @ query


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
        return OperatorComparison("unknown") if any(acts) else None
    first, second = without_prefix(first), without_prefix(second)
    if head_size(first) != head_size(second):
        return OperatorComparison("different")
    last, d = min(len(first), len(second)) - 1, head_size(first)
    is_dense = isinstance(first, OperatorEncoding) or isinstance(second, OperatorEncoding)
    positions = sampled_positions(last, max(ENTRIES // d ** (1 + is_dense), FIRST))
    a, b = (scores(enc, positions, is_dense=is_dense) for enc in (first, second))
    tolerance = tolerances(first, second, positions)
    beyond = np.any(a.apart(b) > tolerance, axis=0)
    facts: Fields = {"max_score_difference": score_difference(a, b)}
    axes = [enc.params.get("mrope_section") for enc in (first, second)]
    images = None not in axes and axes[0] != axes[1]  # positions of text do not show this
    if not beyond.any():
        return OperatorComparison("different" if images else "same", **facts)
    facts["first_position"] = first_apart(first, second, positions, beyond)
    on_axes = any(len(enc.domain.sides) > 1 for enc in (first, second))
    for name, order in permutations(a, b, tolerance, on_axes=on_axes) if not images else ():
        if not (a.permuted(order).apart(b) > tolerance).any():
            return OperatorComparison("permuted", tuple(order.tolist()), name, **facts)
    return OperatorComparison("different", **facts)


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
    room = max(count - len(first), 2)
    return np.concatenate([first, far[len(far) - min(room, len(far)) :]])


def scores(enc: Encoding, positions: Places, *, is_dense: bool) -> ScoreRows:
    """Compute S with the key at 0, with the query at 0, and with the key half as far."""
    if isinstance(enc, DeclaredEncoding) and not is_dense:
        return scores_of_pairs(enc, positions)
    half, rows = np.arange(len(positions)) // 2, np.arange(head_size(enc))
    query, key = operator_at(enc, positions)
    rotated = np.swapaxes(query, 1, 2)
    matrices = np.stack([rotated @ key[0], rotated[0] @ key, rotated @ key[half]])
    partner = partners(matrices)
    off_diagonal = np.where(partner == rows, 0.0, matrices[..., rows, partner])
    return ScoreRows(matrices[..., rows, rows], off_diagonal, partner, matrices)


def scores_of_pairs(enc: DeclaredEncoding, positions: Places) -> ScoreRows:
    """Compute S of a rotation with a formula from the complex factors of its pairs."""
    half, partner = np.arange(len(positions)) // 2, np.arange(head_size(enc))
    query, key, (first, second) = rotating_pairs(enc, positions)
    rotated = query.conj()
    waves = np.stack([rotated * key[0], rotated[0] * key, rotated * key[half]])
    diagonal = np.ones((3, len(positions), len(partner)))
    off_diagonal = np.zeros_like(diagonal)
    diagonal[..., first] = diagonal[..., second] = waves.real
    off_diagonal[..., first], off_diagonal[..., second] = -waves.imag, waves.imag
    rotating = waves.imag.any(axis=(0, 1))
    partner[first[rotating]], partner[second[rotating]] = second[rotating], first[rotating]
    return ScoreRows(diagonal, off_diagonal, partner)


def tolerances(first: Encoding, second: Encoding, positions: Places) -> Floats:
    """Differences (n,) of entries of S that rounding explains."""
    eps = max(first.eps, second.eps)
    declared = [enc for enc in (first, second) if isinstance(enc, DeclaredEncoding)]
    omega = max((float(np.abs(enc.measure.frequencies).max()) for enc in declared), default=1.0)
    return 16 * eps + 2 * phase_errors(positions, np.array([omega]), eps)[:, 0]


def score_difference(a: ScoreRows, b: ScoreRows) -> float:
    """The largest difference of scores of random unit queries and keys."""
    vectors = np.random.default_rng(0).standard_normal((2, VECTORS, a.diagonal.shape[-1]))
    vectors /= np.linalg.norm(vectors, axis=2, keepdims=True)
    pairs = zip(*vectors, strict=True)
    return max(float(np.abs(a.of(*pair) - b.of(*pair)).max()) for pair in pairs)


def first_apart(first: Encoding, second: Encoding, positions: Places, beyond: Bools) -> int:
    """Find the first position whose scores differ by refining between tried positions."""
    k = int(beyond.argmax())
    is_dense = isinstance(first, OperatorEncoding) or isinstance(second, OperatorEncoding)
    good, bad = int(positions[k - 1]) if k else -1, int(positions[k])
    while bad - good > 1:
        between = distinct(np.linspace(good + 1, bad, BETWEEN).astype(int))
        tried = np.append(0, between)
        a, b = (scores(enc, tried, is_dense=is_dense) for enc in (first, second))
        beyond = np.any(a.apart(b)[:2] > tolerances(first, second, tried), axis=0)[1:]
        k = int(beyond.argmax()) if beyond.any() else len(between) - 1
        good, bad = int(between[k - 1]) if k else good, int(between[k])
    return bad


def permutations(
    a: ScoreRows, b: ScoreRows, tolerance: Floats, *, on_axes: bool
) -> Iterator[tuple[str | None, Places]]:
    """Yield candidate orders of rows between two operators, named orders first."""
    d, limit = len(a.partner), tolerance.max()
    numbers = np.sort(a.diagonal, axis=2), np.sort(b.diagonal, axis=2)  # must agree after sorting
    moving = int((np.ptp(a.diagonal, axis=1) > limit).any(axis=0).sum())
    if not moving or (np.abs(numbers[0] - numbers[1]).max(axis=2) > tolerance).any():
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

    indices, partner, partner_b = np.arange(len(a.partner)), a.partner, b.partner
    if (partner[partner] != indices).any() or (partner_b[partner_b] != indices).any():
        return None
    firsts, theirs = (np.flatnonzero(indices < p) for p in (partner, partner_b))
    still_a, still_b = (np.flatnonzero(indices == p) for p in (partner, partner_b))
    if len(firsts) != len(theirs) or len(firsts) > MOST_MATCHED:
        return None
    numbers = pair_numbers(a, firsts)
    ends = np.array([theirs, partner_b[theirs]])
    ways = [pair_numbers(b, rows) for rows in ends]
    differences = np.array(  # (way, theirs, own)
        [
            [np.abs(numbers - z[..., None]).max(axis=(0, 1)) for z in pairs.transpose(2, 0, 1)]
            for pairs in ways
        ]
    )
    rows, columns = linear_sum_assignment(differences.min(axis=0))
    swapped = differences[1, rows, columns] < differences[0, rows, columns]
    order = np.empty(len(indices), dtype=int)
    order[still_b] = still_a
    order[np.where(swapped, ends[::-1, rows], ends[:, rows])] = (
        firsts[columns],
        partner[firsts[columns]],
    )
    return order


def pair_numbers(scores: ScoreRows, rows: Places) -> Complex:
    """Complex factors (3, n, m) of pairs, at fewer positions if there are many pairs."""
    step = max(1, len(rows) * scores.diagonal.shape[1] // MATCHED)
    return (scores.diagonal + 1j * scores.off_diagonal)[:, ::-step, rows]


def largest_output_difference(first: Encoding, second: Encoding) -> float:
    """Largest difference of two rotations of random normal vectors; 0 if within rounding."""
    last, d = min(len(first), len(second)) - 1, head_size(first)
    positions = sampled_positions(last, max(ENTRIES // d**2, FIRST))
    vectors = np.random.default_rng(0).standard_normal((VECTORS, d))
    pairs = zip(*(operator_at(enc, positions) for enc in (first, second)), strict=True)
    difference = max(float(np.abs((a - b) @ vectors.T).max()) for a, b in pairs)
    return difference if difference > tolerances(first, second, positions).max() * d else 0.0


def output_order(first: Encoding, second: Encoding) -> Counts | None:
    """Order of outputs that maps one rotation to another at the first positions, or None."""
    last = min(len(first), len(second)) - 1
    a, b = (operator_at(enc, sampled_positions(last, FIRST))[0] for enc in (first, second))
    tolerance = tolerances(first, second, np.array([last])).max()
    differences = np.array([np.abs(a - b[:, j, None]).max(axis=(0, 2)) for j in range(b.shape[1])])
    order = differences.argmin(axis=1)
    is_order = differences.min(axis=1).max() <= tolerance and len({*order.tolist()}) == len(order)
    return tuple(order.tolist()) if is_order else None


def probe(enc: Encoding, reference: Encoding) -> Waves | None:
    """Measure the pairs of rotating source code, in the order of a known rotation."""
    d, length = head_size(enc), len(enc)
    query, _ = operator_at(enc, np.arange(min(length, FIRST)))
    partner = partners(query[None])
    first = np.flatnonzero(np.arange(d) < partner)
    second = partner[first]
    if rotates_by_formula(reference) and head_size(reference) == d:
        columns = rotated_columns(reference)
        if (partner[columns[0]] == columns[1]).all():
            first, second = columns
    far = 2 ** np.arange(40)
    rows = np.append(0, far[far < length])
    if not len(first) or len(rows) < 2:
        return None
    sample = sampled_positions(length - 1, max(ENTRIES // d**2, FIRST))
    sampled_rows = np.union1d(rows, sample)
    rotated, _ = operator_at(enc, sampled_rows)
    numbers = rotated[:, first, first] + 1j * rotated[:, second, first]
    start, factor = np.angle(numbers[0]), float(np.abs(numbers[0]).max())
    if np.ptp(np.abs(numbers)) > SCALED * factor:
        return None
    numbers = numbers * np.exp(-1j * start)
    omega = follow_phases(rows, np.angle(numbers[np.isin(sampled_rows, rows)]))
    moved = float(np.nan_to_num(position_offset(start, omega, FLOAT32_EPS)))

    row_of = partial(np.searchsorted, sampled_rows)
    amplitude = np.full(len(omega), factor)
    waves = Waves(omega, start, amplitude, lambda p: numbers[row_of(p)], length, enc.eps)
    return replace(waves, form=Form("both"), rows=sample, moved=moved)
