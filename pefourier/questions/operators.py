"""What does a rotation do to queries and keys? R(p) of any source, and whether two are the same.

Conventions
-----------
R(p) is a matrix (d, d) that acts on a query or a key at position p, d the size of a head; what does
not turn stays. ScoreRows see :math:`S(p, s) = R_q(p)^\top R_k(s)` alone, so that it is what is
compared: at all of the first positions and at some farther ones, up to the last. Where
:math:`S_B = P S_A P^\top` for one permutation P, row j of what B turns is row ``permutation[j]`` of
what A turns: weights of A work in B with the rows of W_q and W_k in that order, in each head.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeGuard

import numpy as np

from pefourier.diagnosis.pairs import (
    Bools,
    Complex,
    PairForm,
    PairWaves,
    Places,
    follow_phases,
    position_offset,
)
from pefourier.encodings.encoding import (
    DeclaredEncoding,
    Encoding,
    Floats,
    OperatorEncoding,
    without_prefix,
)
from pefourier.encodings.families.rotary import columns_that_turn
from pefourier.errors import PefourierError, shown
from pefourier.geometry.precision import FLOAT32_EPS, phase_errors

FIRST = 32  # positions that are all looked at
ENTRIES = 2**20  # of the matrices of one operator
MATCHED = 2**13  # numbers of pairs by which these are matched at first
MOST_MATCHED = 2**11  # pairs of a head: wider ones are the same, or rows in an order with a name
BETWEEN = 16  # positions looked at on the way to the first that differs
VECTORS = 16  # random queries and keys
TURNED = 1e-3  # of the factor: what changes sizes more is no rotation
Matrices = tuple[Floats, Floats]  # of queries and of keys, (n, d, d)
Pairs = tuple[Places, Places]  # first and second rows, (m,)


@dataclass(frozen=True)
class OperatorComparison:
    """Whether two rotations do the same to queries and keys."""

    relation: Literal["same", "permuted", "different", "unknown"]
    permutation: tuple[int, ...] | None = None  # row j of the second is this row of the first
    name: str | None = None  # of the permutation, or of the part that it moves
    first_position: int | None = None  # where scores differ, of the positions tried
    max_score_difference: float | None = None  # of random unit queries and keys


def has_operator(enc: Encoding) -> bool:
    """Whether it is known what an encoding does to a vector: by a formula, or as code does it."""
    return isinstance(enc, OperatorEncoding) or turns_by_formula(enc)


def rotates(enc: Encoding) -> bool:
    """Whether an encoding rotates queries and keys, by a formula or as code does it."""
    return enc.injection == "rotate" or isinstance(enc, OperatorEncoding)


def turns_by_formula(enc: Encoding) -> TypeGuard[DeclaredEncoding]:
    """Whether an encoding turns pairs whose columns and frequencies are known."""
    is_known = enc.name != "pope" and enc.params.get("layout") != "mismatched"
    return isinstance(enc, DeclaredEncoding) and enc.injection == "rotate" and is_known


def head_size(enc: Encoding) -> int:
    """The size of the vectors that a rotation acts on."""
    if len(enc.domain.sides) > 1:
        return enc.dim
    return max(int(enc.params.get("d") or enc.dim), enc.dim)


def operator_at(enc: Encoding, positions: Places) -> Matrices:
    """R(p) of queries and of keys at some positions, each (n, d, d).

    Raises
    ------
    PefourierError
        Where it rotates by no formula and is not code that turns vectors.

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
    if not turns_by_formula(enc):
        raise PefourierError(
            f"{shown(enc.spec)} has no R(p): it is a table or is added; name a rotation, a config, "
            "or code that turns queries and keys"
        )
    queries, keys, pairs = rotating_pairs(enc, positions)
    d = head_size(enc)
    return rotation_matrices(queries, pairs, d), rotation_matrices(keys, pairs, d)


def rotating_pairs(enc: DeclaredEncoding, positions: Places) -> tuple[Complex, Complex, Pairs]:
    """What each pair of queries and of keys is multiplied with, complex (n, m), and its rows."""
    phases = enc.measure.phases(enc.domain.places(enc.domain.x[positions]))
    phases = -phases if enc.params.get("backwards") else phases
    first, second = columns_that_turn(enc)
    if enc.params.get("trailing"):
        first, second = (columns + head_size(enc) - enc.dim for columns in (first, second))
    factor = float(enc.params.get("attention_factor", 1.0))
    growing = growth(enc, positions)
    behind = np.pi / 2 if enc.name == "rope++" else 0.0
    queries = factor * growing * np.exp(1j * (phases - behind))
    return queries, factor / growing * np.exp(1j * phases), (first, second)


def growth(enc: DeclaredEncoding, positions: Places) -> Floats:
    """What queries of each pair are multiplied with, (n, m), keys with its inverse: of xpos."""
    if not enc.inverse_keys:
        return np.ones((len(positions), len(enc.measure.frequencies)))
    rows = np.asarray(enc.codes(enc.domain.x[positions]), dtype=float)
    first, second = columns_that_turn(enc)
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
    """S(p, 0), S(0, p) and S(p, p') at some positions: two entries of each row, or whole."""

    diagonal: Floats  # (3, n, d)
    off_diagonal: Floats  # (3, n, d), at the column of the row's partner
    partner: Places  # (d,), the row itself where there is none
    matrices: Floats | None = None  # (3, n, d, d), of code, whose other entries are unknown

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
        """Those of rows and columns in another order."""
        matrices = None if self.matrices is None else self.matrices[:, :, order][..., order]
        partner = np.argsort(order)[self.partner[order]]
        return ScoreRows(
            self.diagonal[..., order], self.off_diagonal[..., order], partner, matrices
        )

    def of(self, query: Floats, key: Floats) -> Floats:
        """The scores (3, n) of a query and a key."""
        if self.matrices is not None:
            return self.matrices @ key @ query
        return (self.diagonal * key + self.off_diagonal * key[self.partner]) @ query


def compare_operators(first: Encoding, second: Encoding) -> OperatorComparison | None:
    """Whether two rotations are the same for the scores of queries and keys.

    Unknown where one is a table, None where neither rotates.

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
    facts: dict[str, Any] = {"max_score_difference": score_difference(a, b)}
    axes = [enc.params.get("mrope_section") for enc in (first, second)]
    images = None not in axes and axes[0] != axes[1]  # which no position of text tells
    if not beyond.any():
        return OperatorComparison("different" if images else "same", **facts)
    facts["first_position"] = first_apart(first, second, positions, beyond)
    on_axes = any(len(enc.domain.sides) > 1 for enc in (first, second))
    for name, order in permutations(a, b, tolerance, on_axes=on_axes) if not images else ():
        if not (a.permuted(order).apart(b) > tolerance).any():
            return OperatorComparison("permuted", tuple(order.tolist()), name, **facts)
    return OperatorComparison("different", **facts)


def sampled_positions(last: int, count: int) -> Places:
    """All of the first positions and ever fewer of those up to the last one.

    >>> sampled_positions(100, 36)
    array([  0,   1,   2,   3,   4,   5,   6,   7,   8,   9,  10,  11,  12,
            13,  14,  15,  16,  17,  18,  19,  20,  21,  22,  23,  24,  25,
            26,  27,  28,  29,  30,  31,  63,  64,  99, 100])
    """
    first = np.arange(min(FIRST, last + 1))
    powers = 2 ** np.arange(5, 40)
    far = np.concatenate([powers - 1, powers, [last - 1, last]])
    far = np.unique(far[(far >= len(first)) & (far <= last)])
    room = max(count - len(first), 2)
    return np.concatenate([first, far[len(far) - min(room, len(far)) :]])


def scores(enc: Encoding, positions: Places, *, is_dense: bool) -> ScoreRows:
    """S of a query and an earlier key: at 0, of a query at 0, and half as far."""
    if isinstance(enc, DeclaredEncoding) and not is_dense:
        return scores_of_pairs(enc, positions)
    half, rows = np.arange(len(positions)) // 2, np.arange(head_size(enc))
    query, key = operator_at(enc, positions)
    turned = np.swapaxes(query, 1, 2)
    matrices = np.stack([turned @ key[0], turned[0] @ key, turned @ key[half]])
    partner = partners(matrices)
    off_diagonal = np.where(partner == rows, 0.0, matrices[..., rows, partner])
    return ScoreRows(matrices[..., rows, rows], off_diagonal, partner, matrices)


def scores_of_pairs(enc: DeclaredEncoding, positions: Places) -> ScoreRows:
    """The same of a rotation by a formula, by the waves of its pairs."""
    half, partner = np.arange(len(positions)) // 2, np.arange(head_size(enc))
    query, key, (first, second) = rotating_pairs(enc, positions)
    turned = query.conj()
    waves = np.stack([turned * key[0], turned[0] * key, turned * key[half]])
    diagonal = np.ones((3, len(positions), len(partner)))
    off_diagonal = np.zeros_like(diagonal)
    diagonal[..., first] = diagonal[..., second] = waves.real
    off_diagonal[..., first], off_diagonal[..., second] = -waves.imag, waves.imag
    turning = waves.imag.any(axis=(0, 1))
    partner[first[turning]], partner[second[turning]] = second[turning], first[turning]
    return ScoreRows(diagonal, off_diagonal, partner)


def tolerances(first: Encoding, second: Encoding, positions: Places) -> Floats:
    """Differences of the entries of scores that rounding explains, (n,)."""
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
    """The first position whose scores differ: between those tried it is looked for again."""
    k = int(beyond.argmax())
    is_dense = isinstance(first, OperatorEncoding) or isinstance(second, OperatorEncoding)
    good, bad = int(positions[k - 1]) if k else -1, int(positions[k])
    while bad - good > 1:
        between = np.unique(np.linspace(good + 1, bad, BETWEEN).astype(int))
        tried = np.append(0, between)
        a, b = (scores(enc, tried, is_dense=is_dense) for enc in (first, second))
        beyond = np.any(a.apart(b)[:2] > tolerances(first, second, tried), axis=0)[1:]
        k = int(beyond.argmax()) if beyond.any() else len(between) - 1
        good, bad = int(between[k - 1]) if k else good, int(between[k])
    return bad


def permutations(
    a: ScoreRows, b: ScoreRows, tolerance: Floats, *, on_axes: bool
) -> Iterator[tuple[str | None, Places]]:
    """Orders of rows that may lead from one operator to another, those that have a name first."""
    d, limit = len(a.partner), tolerance.max()
    numbers = np.sort(a.diagonal, axis=2), np.sort(b.diagonal, axis=2)  # equal in some order
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
    """The row that each one turns with; itself where there is none."""
    d = s.shape[-1]
    sizes = np.abs(s * (1 - np.eye(d))).max(axis=(0, 1))
    return np.where(sizes.max(axis=1) > 0, sizes.argmax(axis=1), np.arange(d))


def match_pairs(a: ScoreRows, b: ScoreRows) -> Places | None:
    """The order of rows in which each pair of one operator is a pair of the other's; None: none."""
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
    """What pairs do as complex numbers, (3, n, m), at some positions of many pairs."""
    step = max(1, len(rows) * scores.diagonal.shape[1] // MATCHED)
    return (scores.diagonal + 1j * scores.off_diagonal)[:, ::-step, rows]


def largest_output_difference(first: Encoding, second: Encoding) -> float:
    """The largest difference of what two rotations make of random normal vectors; 0 to rounding."""
    last, d = min(len(first), len(second)) - 1, head_size(first)
    positions = sampled_positions(last, max(ENTRIES // d**2, FIRST))
    vectors = np.random.default_rng(0).standard_normal((VECTORS, d))
    pairs = zip(*(operator_at(enc, positions) for enc in (first, second)), strict=True)
    difference = max(float(np.abs((a - b) @ vectors.T).max()) for a, b in pairs)
    return difference if difference > tolerances(first, second, positions).max() * d else 0.0


def output_order(first: Encoding, second: Encoding) -> tuple[int, ...] | None:
    """Which output of one rotation each of another's is, at all first positions; None: none is."""
    last = min(len(first), len(second)) - 1
    a, b = (operator_at(enc, sampled_positions(last, FIRST))[0] for enc in (first, second))
    tolerance = tolerances(first, second, np.array([last])).max()
    differences = np.array([np.abs(a - b[:, j, None]).max(axis=(0, 2)) for j in range(b.shape[1])])
    order = differences.argmin(axis=1)
    is_order = differences.min(axis=1).max() <= tolerance and len({*order.tolist()}) == len(order)
    return tuple(order.tolist()) if is_order else None


def pairs_of_code(enc: Encoding, reference: Encoding) -> PairWaves | None:
    """The pairs of code that turns vectors, in the order in which a known rotation has its own."""
    d, length = head_size(enc), len(enc)
    query, _ = operator_at(enc, np.arange(min(length, FIRST)))
    partner = partners(query[None])
    first = np.flatnonzero(np.arange(d) < partner)
    second = partner[first]
    if turns_by_formula(reference) and head_size(reference) == d:
        columns = columns_that_turn(reference)
        if (partner[columns[0]] == columns[1]).all():
            first, second = columns
    far = 2 ** np.arange(40)
    rows = np.append(0, far[far < length])
    if not len(first) or len(rows) < 2:
        return None
    sample = sampled_positions(length - 1, max(ENTRIES // d**2, FIRST))
    sampled_rows = np.union1d(rows, sample)
    turned, _ = operator_at(enc, sampled_rows)
    numbers = turned[:, first, first] + 1j * turned[:, second, first]
    start, factor = np.angle(numbers[0]), float(np.abs(numbers[0]).max())
    if np.ptp(np.abs(numbers)) > TURNED * factor:
        return None
    numbers = numbers * np.exp(-1j * start)
    omega = follow_phases(rows, np.angle(numbers[np.isin(sampled_rows, rows)]))
    moved = float(np.nan_to_num(position_offset(start, omega, FLOAT32_EPS)))

    row_of = partial(np.searchsorted, sampled_rows)
    pairs = PairWaves(omega, factor, lambda p: numbers[row_of(p)], length, enc.eps)
    return replace(pairs, form=PairForm("both"), rows=sample, moved=moved)
